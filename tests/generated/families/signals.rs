//! Signals: handlers, masks, sending, waiting, timers that end in signals.

use crate::writer::{Actor, Kind, Writer};

/// Signals that programs handle or send, those of job control among them.
const SIGNALS: &[u32] = &[10, 12, 10, 12, 1, 2, 15, 13, 14, 17, 23, 28, 34, 35, 40, 64];

pub fn mask(w: &mut Writer) -> u64 {
    match w.below(5) {
        0 => 0,
        1 => u64::MAX,
        _ => (0..1 + w.below(3)).fold(0, |mask, _| mask | 1 << (w.pick(SIGNALS) - 1)),
    }
}

const SA_FLAGS: &[u64] = &[0x10000000, 0x40000000, 0x80000000, 0x8000000, 1, 2];

/// A handler, or one of the two other dispositions.
pub fn handle(w: &mut Writer) {
    let (number, flags, mask) = (w.pick(SIGNALS), w.flags(SA_FLAGS), if w.chance(60) { 0 } else { mask(w) });
    let kind = w.pick(&[2, 2, 2, 2, 2, 2, 1, 0]);
    w.line(&format!("handle {number} {flags:#x} {mask:#x} {kind}"));
}

pub fn write(w: &mut Writer) {
    if w.lines.len() < 4 {
        handle(w);
        return;
    }
    let number =
        if w.chance(4) { w.pick(&[0, 65, 32, 33, 9, 19, 18, 20, 11, 6, -1]) } else { i64::from(w.pick(SIGNALS)) };
    let actor = w.below(w.actors.len() + 1);
    // Who stops, waits for others to wake it.
    let stops = matches!(number, 19 | 20);
    let number = if stops && (actor == 0 || w.actors[actor - 1] == Actor::Thread) { 18 } else { number };
    match w.below(24) {
        0..=4 => handle(w),
        5..=7 => {
            let pid = format!("#{actor}");
            w.line(&format!("kill {pid} {number}"));
        }
        8 => {
            w.line(&format!("tkill #{actor}.t {number}"));
        }
        9 => {
            let other = w.below(w.actors.len() + 1);
            w.line(&format!("tgkill #{actor} #{other}.t {number}"));
        }
        10..=12 => {
            let (how, mask) = (w.pick(&[0, 1, 2, 2, 3]), mask(w));
            w.line(&format!("rt_sigprocmask {how} {{q{mask:#x}}} &8:Q 8"));
        }
        13 => {
            w.line("rt_sigpending &8:Q 8");
        }
        14..=15 => {
            let (mask, time) = (mask(w), if w.may_wait && w.chance(40) { "0" } else { "{q0 q0}" });
            w.line(&format!("rt_sigtimedwait {{q{mask:#x}}} &128:d.4dp {time} 8"));
        }
        16 => {
            let mask = mask(w);
            if w.may_wait {
                w.line(&format!("rt_sigsuspend {{q{mask:#x}}} 8"));
            }
        }
        17..=18 => {
            let (code, value) = (w.pick(&["-1", "-1", "-2", "-6", "0", "1"]), w.below(100));
            w.line(&format!("rt_sigqueueinfo #{actor} {number} {{d{number} d0 d{code} d0 d#0 d0 q{value} z96}}"));
        }
        19 => alternate_stack(w),
        20 => timer(w),
        21 => {
            if w.may_wait {
                w.line("pause");
            } else {
                w.line("alarm 1000");
                w.line("alarm 0");
            }
        }
        22 => {
            let signal = w.pick(&["0", "10", "12", "65", "-1"]);
            w.line(&format!("prctl 1 {signal}"));
            w.line("prctl 2 &4:d");
        }
        _ => owner(w),
    }
}

fn alternate_stack(w: &mut Writer) {
    let stack = w.pick(&[
        "{q%0x10000 d0 d0 q16384}",
        "{q0 d2 d0 q0}",
        "{q%0x10000 d0 d0 q100}",
        "{q%0x10000 d1 d0 q16384}",
        "{q%0x10000 d0x80000000 d0 q16384}",
    ]);
    if w.chance(60) {
        w.line("mmap:a %0x10000 16384 3 0x32 -1 0");
    }
    w.line(&format!("sigaltstack {stack} &24:adq"));
}

fn timer(w: &mut Writer) {
    let clock = w.pick(&[0, 1, 7, 99]);
    let line = w.line(&format!("timer_create {clock} {{q7 d10 d0 z48}} &4:d"));
    let (flags, value) = w.pick(&[(0, "q100000 q0"), (1, "q0 q1"), (0, "q0 q0")]);
    w.line(&format!("timer_settime ${line}.0 {flags} {{q0 q0 {value}}} &32:qqqq"));
    w.line(&format!("timer_getoverrun ${line}.0"));
    w.line(&format!("timer_delete ${line}.0"));
}

/// Signals of a descriptor: O_ASYNC.
fn owner(w: &mut Writer) {
    let fd = w.fd(&[Kind::UnixStream, Kind::PipeReader, Kind::Tcp, Kind::Terminal]);
    match w.below(5) {
        0 => {
            let owner = w.thread();
            w.line(&format!("fcntl {fd} 8 {owner}"))
        }
        1 => w.line(&format!("fcntl:p {fd} 9")),
        2 => {
            let number = w.pick(&["0", "10", "34", "65"]);
            w.line(&format!("fcntl {fd} 10 {number}"))
        }
        3 => w.line(&format!("fcntl {fd} 11")),
        _ => w.line(&format!("fcntl {fd} 4 0x2800")),
    };
}
