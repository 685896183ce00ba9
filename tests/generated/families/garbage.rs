//! Calls of every number with arguments that nobody means: random numbers, descriptors of every kind, and random bytes behind pointers. For
//! guests alone.

use super::{next_actor, processes};
use crate::writer::{Actor, Kind, Writer};

/// Calls that would leave the runner's order: a child that goes on with the same lines.
const LEFT_OUT: &[&str] = &["fork", "vfork", "clone", "clone3"];

/// Calls whose first argument is a process, which must be the program's own.
const OF_PROCESSES: &[&str] = &[
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "prlimit64",
    "setpgid",
    "process_vm_writev",
    "pidfd_open",
    "sched_setscheduler",
];

/// Lines of a program.
const LINES: usize = 60;

pub fn generate(seed: u64, number: u64) -> Vec<String> {
    let mut writer = Writer::new(seed, number, true);
    let w = &mut writer;
    make_descriptors(w);
    // A call that waits stops its actor alone.
    for _ in 0..3 {
        if w.chance(50) {
            processes::spawn_process(w);
        } else if let Some(actor) = next_actor(w, Actor::Thread) {
            w.line_of(0, &format!("spawn {actor} 0x50f00"));
        }
    }
    while w.lines.len() < LINES {
        let (_, call) = w.pick(linux_abi::nr::ALL);
        if LEFT_OUT.contains(&call) {
            continue;
        }
        let mut text = call.to_owned();
        for place in 0..6 {
            text.push(' ');
            text += &match place {
                0 if OF_PROCESSES.contains(&call) => "#0".to_owned(),
                _ => argument(w),
            };
        }
        w.line(&text);
    }
    writer.lines
}

/// A descriptor of each kind to be misused.
fn make_descriptors(w: &mut Writer) {
    let makers = [
        "openat -100 \"a\" 0x42 0644",
        "openat -100 \".\" 0x10000 0",
        "eventfd2 3 0x800",
        "timerfd_create 1 0x800",
        "epoll_create1 0",
        "inotify_init1 0x800",
        "memfd_create \"m\" 2",
        "signalfd4 -1 {q0x200} 8 0x800",
        "socket 1 0x801 0",
        "socket 1 0x805 0",
        "socket 2 0x801 0",
        "socket 2 0x802 0",
        "socket 10 0x802 0",
        "socket 2 0x803 1",
        "socket 16 0x803 0",
        "socket 16 0x803 4",
        "openat -100 \"/dev/ptmx\" 0x902 0",
        "openat -100 \"/proc/self/stat\" 0 0",
        "mq_open \"qa\" 0x842 0600 0",
        "pidfd_open #0 0",
    ];
    for maker in makers {
        w.making(Kind::File, maker);
    }
    w.line("mmap:a %0x0 65536 3 0x31 -1 0");
}

fn argument(w: &mut Writer) -> String {
    match w.below(12) {
        0..=2 => w.any_fd(),
        3..=5 => w.number().to_string(),
        6 => format!("%{:#x}", w.below(1 << 18)),
        7 => w.pick(&["!b", "!r", "!e1", "!e17", "0xffff800000000000", "-4096", "0x7fffffffe000"]).to_owned(),
        8 => "\"a\"".to_owned(),
        _ => bytes(w),
    }
}

/// Random bytes, with numbers, descriptors and pointers among them.
fn bytes(w: &mut Writer) -> String {
    let mut text = "{".to_owned();
    for _ in 0..w.below(12) {
        let part = match w.below(8) {
            0..=1 => format!("d{} ", w.any_fd()),
            2 => format!("q{} ", w.number()),
            3 => format!("d{} ", w.number()),
            4 => format!("w{} ", w.number()),
            5 => format!("p{{f{}*{}}} ", w.below(256), w.below(64)),
            6 => format!("p%{:#x} ", w.below(1 << 17)),
            _ => format!("f{}*{} ", w.below(256), w.below(40)),
        };
        text += &part;
    }
    text.trim_end().to_owned() + "}"
}
