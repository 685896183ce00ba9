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
        if expiries == 0 {
            return;
        }
        let copy = *timer;
        let waits = |pending: &PendingSignals| pending.has_timer(index);
        let thread = copy.thread.and_then(|tid| self.threads.get(tid.0));
        let waits = thread.is_some_and(|thread| waits(&thread.signals.pending)) || waits(&process.pending);
        if waits && let Some(timer) = posix_timer(process, index) {
            timer.missed = timer.missed.saturating_add(u32::try_from(expiries).unwrap_or(i32::MAX as u32));
        }
        let timer = copy;
        if let Some(at) = timer.expires {
            self.timers.add(at, TimerKind::Posix { pid, timer: index, generation });
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

/// A process's timer by its id.
pub(crate) fn posix_timer(process: &mut Process, index: u32) -> Option<&mut PosixTimer> {
    process.posix_timers.by_id.get_mut(&index)
}

#[cfg(test)]
mod tests {
    use super::*;

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
