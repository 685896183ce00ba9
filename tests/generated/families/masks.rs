//! Calls that wait with another mask of signals: ppoll, pselect6, epoll_pwait, epoll_pwait2, and what is pending by then.

use super::signals::{handle, mask};
use crate::writer::{Kind, Writer};

/// Signals that this family holds back and sends.
const SIGNALS: &[u32] = &[10, 12, 34, 15, 17];

/// A pipe, an epoll that watches it, a handler or two.
fn begin(w: &mut Writer) {
    super::pipes::open(w);
    let (reader, epoll) = (w.fd(&[Kind::PipeReader]), w.making(Kind::Epoll, "epoll_create1 0"));
    w.line(&format!("epoll_ctl {epoll} 1 {reader} {{d1 q7}}"));
    for _ in 0..1 + w.below(3) {
        handle(w);
    }
}

pub fn write(w: &mut Writer) {
    if !w.has(&[Kind::Epoll]) {
        begin(w);
        return;
    }
    match w.below(20) {
        0..=2 => {
            let (number, flags) = (w.pick(SIGNALS), w.flags(&[0x10000000, 0x40000000, 0x80000000]));
            w.line(&format!("handle {number} {flags:#x} 0 2"));
        }
        3..=5 => {
            let (how, mask) = (w.pick(&[0, 0, 1, 2]), mask_of_own(w));
            w.line(&format!("rt_sigprocmask {how} {{q{mask:#x}}} &8:Q 8"));
        }
        6..=8 => {
            let (actor, number) = (w.below(w.actors.len() + 1), w.pick(SIGNALS));
            let to = if w.chance(50) { format!("kill #{actor}") } else { format!("tkill #{actor}.t") };
            w.line(&format!("{to} {number}"));
        }
        9 => {
            w.line("rt_sigpending &8:Q 8");
        }
        10..=11 => {
            let fd = w.fd(&[Kind::PipeWriter]);
            w.line(&format!("write {fd} {{f1*3}} 3"));
        }
        12 => {
            let fd = w.fd(&[Kind::PipeReader]);
            w.line(&format!("read {fd} &9:x 9"));
        }
        _ => wait(w),
    }
}

fn mask_of_own(w: &mut Writer) -> u64 {
    if w.chance(20) {
        mask(w)
    } else {
        SIGNALS.iter().filter(|_| w.below(3) == 0).fold(0, |mask, one| mask | 1 << (one - 1))
    }
}

/// A call that waits with a mask: for nothing, for ever if somebody else can go on, or for a moment.
fn wait(w: &mut Writer) {
    let mask = mask_of_own(w);
    let pointer = if w.chance(85) { format!("{{q{mask:#x}}}") } else { w.word("0 !b").to_owned() };
    let size = if w.chance(90) { 8 } else { w.pick(&[4, 16, 0]) };
    let time = match w.below(10) {
        0..=2 if w.may_wait => "0",
        3 => "{q0 q1000000}",
        4 => w.pick(&["{q-1 q0}", "{q0 q1000000000}", "!b"]),
        _ => "{q0 q0}",
    };
    let text = match w.below(4) {
        0 => {
            let fd = w.fd(&[Kind::PipeReader, Kind::PipeWriter]);
            let count = w.pick(&[1, 1, 1, 0]);
            format!("ppoll &{{d{fd} w5 w0}}:.6w {count} {time} {pointer} {size}")
        }
        1 => {
            let bits = w.below(1 << 7);
            let both = if w.chance(90) { format!("{{p{pointer} q{size}}}") } else { w.word("0 !b").to_owned() };
            format!("pselect6 7 &{{q{bits}}}:Q 0 0 {time} {both}")
        }
        2 => {
            let (fd, wait) = (
                w.fd(&[Kind::Epoll]),
                match time {
                    "0" => -1,
                    "{q0 q1000000}" => 1,
                    _ => 0,
                },
            );
            format!("epoll_pwait {fd} &96:*uQ 8 {wait} {pointer} {size}")
        }
        _ => {
            let fd = w.fd(&[Kind::Epoll]);
            format!("epoll_pwait2 {fd} &96:*uQ 8 {time} {pointer} {size}")
        }
    };
    if time == "{q0 q1000000}" {
        w.timed_line(&text)
    } else {
        w.line(&text)
    };
}
