//! Descriptors that tell of something: eventfd, timerfd, signalfd, epoll, poll, select, inotify.

use super::names::path;
use crate::writer::{Kind, Writer};

pub fn write(w: &mut Writer) {
    match w.below(20) {
        0..=2 => event(w),
        3..=4 => timer(w),
        5 => signals(w),
        6..=11 => epoll(w),
        12..=13 => poll(w),
        14 => select(w),
        15..=17 => inotify(w),
        _ => match w.below(3) {
            0 => super::pipes::write(w),
            1 => super::unix::write(w),
            _ => super::files::write(w),
        },
    }
}

/// Without waiting, unless others can go on.
fn nonblock(w: &mut Writer) -> u64 {
    if w.may_wait && w.chance(50) { 0 } else { 0x800 }
}

fn event(w: &mut Writer) {
    if !w.has(&[Kind::Event]) || w.chance(15) {
        let flags = nonblock(w) | w.flags(&[1, 0x80000]);
        let start = w.pick(&["0", "3", "0xffffffff"]);
        w.making(Kind::Event, &format!("eventfd2 {start} {flags:#x}"));
        return;
    }
    let fd = w.fd(&[Kind::Event]);
    if w.chance(50) {
        let value = w.pick(&["1", "0", "5", "0xfffffffffffffffe", "0xffffffffffffffff", "0x100000000"]);
        let size = w.pick(&[8, 8, 8, 8, 4]);
        w.line(&format!("write {fd} {{q{value} q1}} {size}"));
    } else {
        let size = w.pick(&[8, 8, 8, 7, 12]);
        w.line(&format!("read {fd} &{size}:x {size}"));
    }
}

fn timer(w: &mut Writer) {
    if !w.has(&[Kind::Timer]) || w.chance(15) {
        let clock = w.pick(&[0, 1, 1, 7, 4, 2, 99]);
        let flags = nonblock(w);
        w.making(Kind::Timer, &format!("timerfd_create {clock} {flags:#x}"));
        return;
    }
    let fd = w.fd(&[Kind::Timer]);
    match w.below(4) {
        0..=1 => {
            // Far away, at once (an absolute time long over), or never.
            let (flags, value) = w.pick(&[
                (0, "q1000000 q0"),
                (1, "q0 q1"),
                (0, "q0 q0"),
                (0, "q1 q1000000000"),
                (3, "q1000000 q0"),
                (4, "q9 q0"),
            ]);
            let interval = w.pick(&["q0 q0", "q500000 q7", "q0 q-1"]);
            w.line(&format!("timerfd_settime {fd} {flags} {{{interval} {value}}} &32:qq"));
        }
        2 => {
            w.line(&format!("timerfd_gettime {fd} &32:qqn"));
        }
        _ => {
            w.line(&format!("read {fd} &8:n 8"));
        }
    }
}

fn signals(w: &mut Writer) {
    let mask = w.flags(&[0x200, 0x800, 0x2000, 0x4000, 0x10000, 0x200000000]);
    if !w.has(&[Kind::Signals]) || w.chance(15) {
        let flags = nonblock(w);
        w.line(&format!("rt_sigprocmask 0 {{q{mask:#x}}} 0 8"));
        w.making(Kind::Signals, &format!("signalfd4 -1 {{q{mask:#x}}} 8 {flags:#x}"));
        return;
    }
    let fd = w.fd(&[Kind::Signals]);
    match w.below(3) {
        0 => {
            let number = w.pick(&[10, 12, 14, 15, 34]);
            w.line(&format!("kill #0 {number}"));
        }
        1 => {
            w.line(&format!("signalfd4 {fd} {{q{mask:#x}}} 8 0"));
        }
        _ => {
            let size = w.pick(&[128, 256, 127]);
            w.line(&format!("read {fd} &{size}:d.4dp {size}"));
        }
    }
}

const EPOLL_BITS: &[u64] = &[1, 4, 0x2000, 2, 8, 0x10];
const EPOLL_MODES: &[u64] = &[0, 0, 0, 1 << 31, 1 << 30, 1 << 31 | 1 << 30, 1 << 28];

fn epoll(w: &mut Writer) {
    if !w.has(&[Kind::Epoll]) || w.chance(8) {
        let flags = w.pick(&["0", "0x80000", "1"]);
        w.making(Kind::Epoll, &format!("epoll_create1 {flags}"));
        return;
    }
    let (fd, target) = (w.fd(&[Kind::Epoll]), w.any_fd());
    let events = w.flags(EPOLL_BITS) | w.pick(EPOLL_MODES) | 1;
    match w.below(8) {
        0..=2 => {
            let operation = w.pick(&[1, 1, 1, 1, 0, 4]);
            let data = w.below(100);
            w.line(&format!("epoll_ctl {fd} {operation} {target} {{d{events:#x} q{data}}}"));
        }
        3 => {
            let data = w.below(100);
            w.line(&format!("epoll_ctl {fd} 3 {target} {{d{events:#x} q{data}}}"));
        }
        4 => {
            w.line(&format!("epoll_ctl {fd} 2 {target} 0"));
        }
        _ => {
            let most = w.pick(&[8, 8, 1, 2]);
            let time = if w.may_wait && w.chance(30) { -1 } else { 0 };
            if w.chance(70) {
                w.line(&format!("epoll_wait {fd} &96:*uQ {most} {time}"));
            } else {
                let mask = mask_argument(w);
                w.line(&format!("epoll_pwait {fd} &96:*uQ {most} {time} {mask}"));
            }
        }
    }
}

fn poll(w: &mut Writer) {
    let count = 1 + w.below(3);
    let mut fds = String::new();
    for _ in 0..count {
        let fd = w.any_fd();
        let events = w.pick(&[1, 4, 5, 0x2005, 0, 2, 0x47]);
        fds += &format!("d{fd} w{events} w0 ");
    }
    let format = ".6w".repeat(count);
    let waits = w.may_wait && w.chance(20);
    if w.chance(60) {
        let time = if waits { -1 } else { 0 };
        w.line(&format!("poll &{{{}}}:{format} {count} {time}", fds.trim_end()));
    } else {
        let (time, mask) = (if waits { "0" } else { "{q0 q0}" }, mask_argument(w));
        w.line(&format!("ppoll &{{{}}}:{format} {count} {time} {mask}", fds.trim_end()));
    }
}

/// A mask of signals for the duration of a call, with its size.
fn mask_argument(w: &mut Writer) -> String {
    let (mask, size) = (super::signals::mask(w), if w.chance(96) { 8 } else { w.pick(&[4, 16, 0]) });
    if w.chance(10) { format!("0 {size}") } else { format!("{{q{mask:#x}}} {size}") }
}

fn select(w: &mut Writer) {
    // Descriptors of programs are small numbers: sets by guess.
    let set = |w: &mut Writer| {
        let bits = w.below(1 << 10) & w.below(1 << 10);
        if w.chance(30) { "0".to_owned() } else { format!("&{{q{bits}}}:Q") }
    };
    let (read, write, except) = (set(w), set(w), set(w));
    let most = w.pick(&[4, 6, 10, 64, 0, -1]);
    if w.chance(60) {
        w.line(&format!("select {most} {read} {write} {except} {{q0 q0}}"));
    } else {
        let mask = super::signals::mask(w);
        let both = w.pick(&["p{q", "p{q", "p{q", "q0 q"]);
        let both = if both == "q0 q" { "{q0 q8}".to_owned() } else { format!("{{{both}{mask:#x}}} q8}}") };
        w.line(&format!("pselect6 {most} {read} {write} {except} {{q0 q0}} {both}"));
    }
}

fn inotify(w: &mut Writer) {
    if !w.has(&[Kind::Inotify]) {
        w.making(Kind::Inotify, "inotify_init1 0x800");
        let fd = w.fd(&[Kind::Inotify]);
        w.line(&format!("inotify_add_watch {fd} \".\" 0xfff"));
        return;
    }
    let fd = w.fd(&[Kind::Inotify]);
    match w.below(7) {
        0..=1 => {
            let path = path(w);
            let mask =
                w.pick(&["0xfff", "0xfff", "0x2", "0x100", "0x200000c2", "0x80000fff", "0x1000fff", "0x10000fff", "0"]);
            w.line(&format!("inotify_add_watch {fd} {path} {mask}"));
        }
        2 => {
            let watch = w.pick(&[1, 2, 3]);
            w.line(&format!("inotify_rm_watch {fd} {watch}"));
        }
        3..=4 => {
            let size = w.pick(&[512, 512, 16, 8, 40]);
            w.line(&format!("read {fd} &{size}:I {size}"));
        }
        5 => {
            w.line(&format!("ioctl {fd} 0x541b &4:d"));
        }
        _ => super::names::write(w),
    }
}
