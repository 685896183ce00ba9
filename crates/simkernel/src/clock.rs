//! Interval timers of processes: `setitimer(ITIMER_REAL)`, `alarm`, `timer_create`. Their calls are in `syscalls/time.rs`.

use crate::cpu_timers::is_cpu_clock;
use crate::ids::Pid;
use crate::kernel::Kernel;
use crate::process::{PosixTimer, Process};
use crate::signal::PendingSignals;
use crate::timers::TimerKind;
use base::SimTime;
use linux_abi::Signal;
use linux_abi::signal::Siginfo;
use std::collections::BTreeMap;

/// Moves a timer that is due to its next expiry. How many expiries passed; 0 when it was not due.
pub(crate) fn advance(expires: &mut Option<SimTime>, interval_ns: u64, now: SimTime) -> u64 {
    let Some(at) = expires.filter(|at| *at <= now) else { return 0 };
    if interval_ns == 0 {
        *expires = None;
        return 1;
    }
    let count = 1 + (now - at).as_nanos() / interval_ns;
    *expires = Some(SimTime::from_nanos(at.as_nanos().saturating_add(count.saturating_mul(interval_ns))));
    count
}

/// Timers that expire more often are looked at so often only: more than a program could follow.
const LEAST_INTERVAL_NS: u64 = 1_000;
/// The part of the time for which nobody has taken what such a timer counted that may pass until it is looked at again.
const UNSEEN_PART: u64 = 64;

/// Whether a timer expires more often than it is looked at.
pub(crate) fn is_hasty(interval_ns: u64) -> bool {
    (1..LEAST_INTERVAL_NS).contains(&interval_ns)
}

/// When a timer that expires next at this moment is looked at: then, or, if its interval is tiny, at a later expiry, so that a run does not stand
/// still over expiries that nobody can tell from each other. It has counted `unseen` ones that nobody has taken.
pub(crate) fn next_look(expires: SimTime, interval_ns: u64, unseen: u64) -> SimTime {
    if !is_hasty(interval_ns) {
        return expires;
    }
    let wait = (unseen.saturating_mul(interval_ns) / UNSEEN_PART).max(LEAST_INTERVAL_NS);
    SimTime::from_nanos(expires.as_nanos().saturating_add(wait / interval_ns * interval_ns))
}

impl Kernel {
    pub(crate) fn fire_real_itimer(&mut self, pid: Pid, generation: u64, now: SimTime) {
        let Some(process) = self.processes.get_mut(pid.0) else { return };
        let timer = &mut process.real_itimer;
        if timer.generation != generation || advance(&mut timer.expires, timer.interval_ns, now) == 0 {
            return;
        }
        if let Some(at) = timer.expires {
            self.timers.add(at, TimerKind::RealItimer { pid, generation });
        }
        self.signal_process(pid, Siginfo::new(Signal::SIGALRM, linux_abi::signal::SI_KERNEL));
    }

    pub(crate) fn fire_posix_timer(&mut self, pid: Pid, index: u32, generation: u64, now: SimTime) {
        let Some(process) = self.processes.get_mut(pid.0) else { return };
        let Some(timer) = posix_timer(process, index) else { return };
        if timer.generation != generation || is_cpu_clock(timer.clock as i32) {
            // Another one stood in its place.
            return;
        }
        let expiries = advance(&mut timer.expires, timer.interval_ns, now);
        let copy = *timer;
        if expiries == 0 {
            // Who took its signal counted them already.
            if let Some(at) = copy.expires.filter(|_| is_hasty(copy.interval_ns)) {
                self.timers.add(at, TimerKind::Posix { pid, timer: index, generation });
            }
            return;
        }
        let waits = |pending: &PendingSignals| pending.has_timer(index);
        let thread = copy.thread.and_then(|tid| self.threads.get(tid.0));
        let waits = thread.is_some_and(|thread| waits(&thread.signals.pending)) || waits(&process.pending);
        let mut missed = 0;
        let sends = copy.signal != 0;
        if (waits || !sends)
            && let Some(timer) = posix_timer(process, index)
        {
            timer.miss(expiries);
            missed = timer.missed;
        }
        let timer = copy;
        if let Some(at) = timer.expires {
            let look = next_look(at, timer.interval_ns, missed.into());
            self.timers.add(look, TimerKind::Posix { pid, timer: index, generation });
        }
        if waits {
            return;
        }
        let overrun = i32::try_from(expiries - 1).unwrap_or(i32::MAX);
        let Some(signal) = Signal::from_raw(timer.signal as i32) else { return };
        let info = Siginfo::timer(signal, index as i32, overrun, timer.value);
        match timer.thread {
            Some(tid) => self.signal_thread(tid, info),
            None => self.signal_process(pid, info),
        }
    }
}

/// The timers of a process by their ids, which are given out in turn and not again soon (`posix_timer_add`).
#[derive(Debug, Default)]
pub struct PosixTimers {
    pub by_id: BTreeMap<u32, PosixTimer>,
    next: u32,
}

impl PosixTimers {
    /// An id that no timer has.
    pub fn new_id(&mut self) -> u32 {
        loop {
            let id = self.next;
            self.next = (id + 1) & i32::MAX as u32;
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

impl PosixTimer {
    /// Counts expiries while its signal waits.
    pub(crate) fn miss(&mut self, expiries: u64) {
        self.missed = self.missed.saturating_add(u32::try_from(expiries).unwrap_or(i32::MAX as u32));
    }

    /// Counts those that nobody has looked at, as its signal is taken.
    pub(crate) fn catch_up(&mut self, now: SimTime) {
        if is_hasty(self.interval_ns) && !is_cpu_clock(self.clock as i32) {
            let expiries = advance(&mut self.expires, self.interval_ns, now);
            self.miss(expiries);
        }
    }
}

/// A process's timer by its id.
pub(crate) fn posix_timer(process: &mut Process, index: u32) -> Option<&mut PosixTimer> {
    process.posix_timers.by_id.get_mut(&index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hasty_timers_are_looked_at_now_and_then() {
        let at = SimTime::from_nanos;
        assert_eq!(next_look(at(50), 0, 9), at(50));
        assert_eq!(next_look(at(50), 1_000, 1 << 40), at(50));
        assert_eq!(next_look(at(50), 3, 0), at(50 + 999));
        assert_eq!(next_look(at(50), 2, 64_000_000), at(50 + 2_000_000));
        // An hour takes few looks although the timer has expired a trillion times.
        let (mut now, mut looks) = (2, 0);
        while now < 3_600_000_000_000 {
            now = next_look(at(now), 2, now / 2).as_nanos();
            looks += 1;
        }
        assert!(looks < 2_000, "{looks}");
    }

    #[test]
    fn late_timers_count_what_they_missed() {
        let at = SimTime::from_nanos;
        let mut expires = Some(at(100));
        assert_eq!(advance(&mut expires, 10, at(99)), 0);
        assert_eq!(advance(&mut expires, 10, at(125)), 3);
        assert_eq!(expires, Some(at(130)));
        assert_eq!(advance(&mut expires, 0, at(130)), 1);
        assert_eq!(expires, None);
        // An interval of centuries must not lead back.
        expires = Some(at(130));
        assert_eq!(advance(&mut expires, u64::MAX, at(131)), 1);
        assert_eq!(expires, Some(SimTime::MAX));
    }
}
