//! Processes and threads: making, ending and waiting for them; groups and sessions; futexes between them.

use super::next_actor;
use crate::writer::{Actor, Kind, Writer};

/// Flags of a thread as libraries make them, and with less in common.
pub fn spawn_thread(w: &mut Writer) {
    let Some(actor) = next_actor(w, Actor::Thread) else { return };
    let flags = w.pick(&["0x50f00", "0x50f00", "0x50f00", "0x10900", "0x10d00", "0x10b00"]);
    w.line_of(0, &format!("spawn {actor} {flags}"));
}

pub fn spawn_process(w: &mut Writer) {
    let Some(actor) = next_actor(w, Actor::Process) else { return };
    // fork, and processes that share files, the root or handlers and memory, or tell of their end by another signal or none.
    let flags = w.pick(&["0x11", "0x11", "0x11", "0x411", "0x211", "0x111", "0xb11", "0x0", "0x1c", "0x8011"]);
    w.line_of(0, &format!("spawn {actor} {flags}"));
}

pub fn write(w: &mut Writer) {
    match w.below(28) {
        0..=1 => spawn_process(w),
        2 => spawn_thread(w),
        3..=5 => wait(w),
        6 => {
            let status = w.pick(&[0, 3, 255, 256]);
            let call = w.word("exit exit_group");
            if !w.actors.is_empty() {
                let actor = 1 + w.below(w.actors.len());
                w.line_of(actor, &format!("{call} {status}"));
            }
        }
        7 => {
            let actor = w.below(w.actors.len() + 1);
            w.line_of(actor, "execute");
        }
        8..=9 => {
            let (call, pid) = (w.word("getpgid getsid"), w.pid());
            w.line(&format!("{call}:p {pid}"));
        }
        10 => {
            let (pid, group) = (w.pid(), w.pid());
            w.line(&format!("setpgid {pid} {group}"));
        }
        11 => {
            let call = w.word("setsid getpid getppid gettid getpgrp");
            w.line(&format!("{call}:p"));
        }
        12..=13 => {
            if !w.actors.is_empty() {
                let (pid, number) = (1 + w.below(w.actors.len()), w.pick(&[9, 15, 19, 18, 0, 10]));
                // Who stops its own process goes on for a moment.
                let own = w.actors[pid - 1] == Actor::Thread;
                let number = if own && number == 19 { 18 } else { number };
                w.line_of(0, &format!("kill #{pid} {number}"));
            }
        }
        14 => pidfd(w),
        15..=17 => futex(w),
        18 => {
            let pid = w.pid();
            w.line(&format!("sched_getscheduler {pid}"));
        }
        19 => {
            let option = w.pick(&[
                "3",
                "4 0",
                "4 1",
                "4 2",
                "15 \"name\"",
                "16 &16:s",
                "36 1",
                "37 &4:d",
                "38 1",
                "39",
                "21",
                "8 1",
                "7",
                "999",
            ]);
            w.line(&format!("prctl {option}"));
        }
        20 => {
            let flags = w.pick(&["0", "0x400", "0x200", "0x40000", "0x100", "0x800"]);
            w.line(&format!("unshare {flags}"));
        }
        21 => {
            let (pid, length) = (w.thread(), w.pick(&[4, 8, 5000]));
            let call = w.word("process_vm_readv process_vm_writev");
            w.line(&format!("{call} {pid} {{p&{length} q{length}}} 1 {{q%0x1000 q{length}}} 1 0"));
        }
        22 => super::signals::handle(w),
        23 => bases(w),
        24 => of_thread(w),
        _ => super::descriptors::write(w),
    }
}

/// Segments that would begin where no program has memory.
fn bases(w: &mut Writer) {
    let base = w.pick(&["0x8000000000000000", "0xffff800000000000", "-1", "0x100000000000000"]);
    match w.below(4) {
        0 => w.line(&format!("clone 0x80011 0 0 0 {base}")),
        1 => w.line(&format!("clone 0xd0f00 %0x8000 0 0 {base}")),
        2 => w.line(&format!("clone3 {{q0x80000 q0 q0 q0 q17 q0 q0 q{base}}} 64")),
        _ => {
            let which = w.pick(&["0x1001", "0x1002"]);
            w.line(&format!("arch_prctl {which} {base}"))
        }
    };
}

/// What is asked of a thread by its number.
fn of_thread(w: &mut Writer) {
    let tid = w.thread();
    match w.below(7) {
        0 => w.line(&format!("prlimit64 {tid} 7 0 &16:qq")),
        1 => w.line(&format!("prlimit64 {tid} 4 {{q0 q0}} &16:qq")),
        2 => w.line(&format!("getpriority 0 {tid}")),
        3 => w.line(&format!("sched_getscheduler {tid}")),
        4 => w.line(&format!("capget {{d0x20080522 d{tid}}} &24:n")),
        5 => w.line(&format!("kcmp:n {tid} #0 1 0 0")),
        _ => w.line(&format!("getsid:p {tid}")),
    };
}

fn wait(w: &mut Writer) {
    let options = if w.may_wait && w.chance(60) { 0 } else { 1 } | w.flags(&[2, 8, 0x40000000]);
    let target = if w.chance(50) { "-1".to_owned() } else { w.pid() };
    if w.chance(50) {
        w.line(&format!("wait4:p {target} &4:u {options:#x} 0"));
    } else {
        let options = options | w.pick(&[4, 4, 4, 0]) | if w.chance(30) { 0x1000000 } else { 0 };
        let (kind, id) = w.pick(&[(0, "0"), (1, "#1"), (1, "#2"), (2, "#0"), (2, "0"), (9, "0")]);
        w.line(&format!("waitid {kind} {id} &{{z128}}:d.4dp.4d {options:#x} 0"));
    }
}

fn pidfd(w: &mut Writer) {
    if !w.has(&[Kind::Process]) || w.chance(30) {
        let (pid, flags) = (w.pid(), w.pick(&["0", "0x800", "1"]));
        w.making(Kind::Process, &format!("pidfd_open {pid} {flags}"));
        return;
    }
    let fd = w.fd(&[Kind::Process]);
    match w.below(4) {
        0 => w.line(&format!("poll &{{d{fd} w1 w0}}:.6w 1 0")),
        1 => {
            let number = w.pick(&[0, 10, 9]);
            w.line(&format!("pidfd_send_signal {fd} {number} 0 0"))
        }
        2 => w.line(&format!("waitid 3 {fd} &{{z128}}:d.4dp.4d 0x1000005 0")),
        _ => {
            let number = w.below(8);
            w.line(&format!("pidfd_getfd {fd} {number} 0"))
        }
    };
}

/// On a word of a page of the field that all share, or that is each process's own.
fn futex(w: &mut Writer) {
    if w.chance(25) {
        let sharing = w.pick(&["0x31", "0x32"]);
        w.line(&format!("mmap:a %0x20000 4096 3 {sharing} -1 0"));
        return;
    }
    let at = w.pick(&["%0x20000", "%0x20000", "%0x20004", "%0x20001", "%0x30000"]);
    let private = w.pick(&[0, 128]);
    let wait = w.may_wait && w.chance(70);
    let time = if wait { "0" } else { "{q0 q1000000}" };
    let mark = if wait { Writer::line as fn(&mut Writer, &str) -> usize } else { Writer::timed_line };
    match w.below(8) {
        0..=1 => mark(w, &format!("futex {at} {private} 0 {time}")),
        2..=3 => {
            let count = w.pick(&[1, 1, 2, 1000, 0, -1]);
            w.line(&format!("futex {at} {} {count}", 1 | private))
        }
        4 => {
            let (count, value) = (w.pick(&[0, 1, 5]), w.pick(&[0, 1]));
            w.line(&format!("futex {at} {} {count} 1 %0x20004 {value}", 4 | private))
        }
        5 => {
            let operation = w.pick(&["0x0001000", "0x10001000", "0x21001000", "0x34001001"]);
            w.line(&format!("futex {at} {} 1 1 %0x20004 {operation}", 5 | private))
        }
        6 => {
            let set = w.pick(&[1, 2, 3, 0]);
            w.line(&format!("futex {at} {} 1 0 0 {set}", 10 | private))
        }
        _ => {
            let operation = w.pick(&[8, 7, 99, 3]);
            w.line(&format!("futex {at} {} 1 0 %0x20004 0", operation | private))
        }
    };
}
