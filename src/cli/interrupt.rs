//! Ctrl-C and its kin: the first ends the run cleanly, the second at once.
//!
//! A handler would run on whichever stack the machine is on, a guest's too. So there is none: the signals are blocked in every
//! thread, and one thread waits for them.

use crate::terminal::Terminal;
use base::wall::WallClock;
use nix::sys::signal::{SigSet, Signal, raise};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// The same signal once more within this long belongs to the first.
const ECHO: Duration = Duration::from_millis(300);

const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// A file that reaches the limit of sizes (`ulimit -f`) is an error of writing it, which is told, and no death: SIGXFSZ waits for
/// ever. Call it before other threads start.
pub fn survive_file_size_limits() {
    // A mask of known signals is never refused.
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

/// What the signals have asked for.
#[derive(Debug)]
pub struct Interrupts {
    waiting_for: SigSet,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
}

/// The first signal's number; 0 before it.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Ends the process as the first signal would have, or as SIGTERM does.
pub fn end_at_once() {
    end_by(Signal::try_from(FIRST.load(Ordering::Relaxed)).unwrap_or(Signal::SIGTERM));
}

/// As if the signal had never been blocked: the process dies by it, and the caller can tell.
fn end_by(signal: Signal) {
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
}

impl Interrupts {
    /// Blocks the signals. Call it before other threads start: they inherit it. Ctrl-C is left to a debugger if there is one.
    pub fn block(under_debugger: bool) -> io::Result<Interrupts> {
        let ignored = ignored_signals();
        let is_ignored = |signal: &Signal| ignored & bit(*signal) != 0;
        let waiting_for: SigSet = SIGNALS
            .into_iter()
            .filter(|signal| !(is_ignored(signal) || under_debugger && *signal == Signal::SIGINT))
            .collect();
        waiting_for.thread_block()?;
        Ok(Interrupts { waiting_for, state: Arc::default() })
    }

    /// Whether one has come before anybody waits for it.
    pub fn are_pending(&self) -> bool {
        let pending = signal_masks(&["SigPnd:", "ShdPnd:"]);
        self.waiting_for.iter().any(|signal| pending & bit(signal) != 0)
    }

    /// Ends the process by a signal that has come, if one has: there is nothing yet that would be lost.
    pub fn obey(&self) {
        let _ = self.waiting_for.thread_unblock();
    }

    /// Starts the thread that waits. From now on the process ends by a second signal only; the first one's message says `what` it does.
    pub fn watch(&self, what: &'static str) -> io::Result<()> {
        let (set, state) = (self.waiting_for, Arc::clone(&self.state));
        std::thread::Builder::new().name("signals".into()).spawn(move || wait(&set, &state, what))?;
        Ok(())
    }

    /// Set by the first signal.
    pub fn stop(&self) -> &AtomicBool {
        &self.state.stop
    }

    /// The number of the first signal.
    pub fn signal(&self) -> Option<i32> {
        Some(FIRST.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}

fn wait(set: &SigSet, state: &State, what: &str) {
    let Ok(first) = set.wait() else { return };
    FIRST.store(first as i32, Ordering::Relaxed);
    guest::end_computing();
    state.stop.store(true, Ordering::Relaxed);
    let start = if Terminal::is_terminal() { "\r\x1b[K" } else { "" };
    let message = format!("{start}gnomon: {what}; {first} once more ends it at once");
    let _ = writeln!(io::stderr(), "{message}");
    // timeout(1) and others send one signal to the process, and the same to its group.
    let since = WallClock::start();
    let second = loop {
        match set.wait() {
            Ok(signal) if signal == first && since.elapsed() < ECHO => {}
            Ok(signal) => break signal,
            Err(_) => return,
        }
    };
    end_by(second);
}

/// The signals that whoever started the process wants ignored (nohup, background jobs), as the kernel's mask. They stay so.
fn ignored_signals() -> u64 {
    signal_masks(&["SigIgn:"])
}

/// Masks of signals that the kernel shows of this process, all together.
fn signal_masks(names: &[&str]) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let masks = status.lines().filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
    masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).fold(0, |all, mask| all | mask)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as u32 - 1)
}
