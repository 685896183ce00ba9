//! Timers that measure processor time: `setitimer(ITIMER_VIRTUAL)` and `ITIMER_PROF`, and those of `timer_create` on clocks of
//! processor time. They expire when a process's clock has come that far: looked at when it makes a call, and when computing has
//! taken simulated time. A loop without calls under such a timer takes the time that is left, where it would rest otherwise.

use crate::clock::advance;
use crate::ctx::Ctx;
use crate::process::Process;
use base::{SimDuration, SimTime};
use linux_abi::Signal;
use linux_abi::signal::{SI_KERNEL, Siginfo};
use linux_abi::time::{CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, ITIMER_PROF, ITIMER_VIRTUAL};

/// One of `setitimer`'s two. Moments are nanoseconds of the process's processor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuItimer {
    pub expires: Option<SimTime>,
    pub interval_ns: u64,
}

/// Both, and when the earliest timer on processor time is due.
#[derive(Clone, Copy, Debug)]
pub struct CpuTimers {
    pub itimers: [CpuItimer; 2],
    /// In nanoseconds of processor time; u64::MAX for never.
    next: u64,
}

impl Default for CpuTimers {
    fn default() -> Self {
        CpuTimers { itimers: Default::default(), next: u64::MAX }
    }
}

/// Whether a clock counts processor time: clock_getcpuclockid(3) gives negative ones.
pub fn is_cpu_clock(clock: i32) -> bool {
    matches!(clock, CLOCK_PROCESS_CPUTIME_ID | CLOCK_THREAD_CPUTIME_ID) || clock < 0
}

impl Process {
    /// Its place in processor time, as the moments of timers count it.
    pub fn cpu_moment(&self) -> SimTime {
        SimTime::from_nanos(self.cpu_nanos())
    }

    /// `setitimer`'s timer of a kind; None for that of real time.
    pub fn cpu_itimer(&mut self, which: i32) -> Option<&mut CpuItimer> {
        match which {
            ITIMER_VIRTUAL => Some(&mut self.cpu_timers.itimers[0]),
            ITIMER_PROF => Some(&mut self.cpu_timers.itimers[1]),
            _ => None,
        }
    }

    /// Finds out anew which timer is due next: after one was set, has expired, or is gone.
    pub fn arm_cpu_timers(&mut self) {
        let posix = self.posix_timers.by_id.values().filter(|timer| is_cpu_clock(timer.clock as i32));
        let own = self.cpu_timers.itimers.iter().map(|timer| timer.expires);
        let next = posix.map(|timer| timer.expires).chain(own).flatten().min();
        self.cpu_timers.next = next.map_or(u64::MAX, SimTime::as_nanos);
    }

    /// Whether a timer on processor time is due.
    #[inline]
    pub fn cpu_timer_is_due(&self) -> bool {
        self.cpu_timers.next <= self.cpu_nanos()
    }

    /// How much processor time is left until one is; None without any.
    pub fn cpu_time_left(&self) -> Option<SimDuration> {
        let next = self.cpu_timers.next;
        (next != u64::MAX).then(|| SimDuration::from_nanos(next.saturating_sub(self.cpu_nanos())))
    }
}

impl Ctx<'_> {
    /// Fires the calling process's timers on processor time that are due.
    #[cold]
    pub(crate) fn fire_cpu_timers(&mut self) {
        let now = self.process.cpu_moment();
        for (index, signal) in [Signal::SIGVTALRM, Signal::SIGPROF].into_iter().enumerate() {
            let timer = &mut self.process.cpu_timers.itimers[index];
            if advance(&mut timer.expires, timer.interval_ns, now) > 0 {
                self.signal_process(self.process.pid, Siginfo::new(signal, SI_KERNEL));
            }
        }
        let timers = self.process.posix_timers.by_id.iter();
        let ids: Vec<u32> = timers.filter(|(_, timer)| is_cpu_clock(timer.clock as i32)).map(|(id, _)| *id).collect();
        for id in ids {
            self.fire_own_timer(id, now);
        }
        self.process.arm_cpu_timers();
    }

    /// Fires a timer of the calling process if it is due by its clock.
    pub(crate) fn fire_own_timer(&mut self, index: u32, now: SimTime) {
        let Some(timer) = self.process.posix_timers.by_id.get_mut(&index) else { return };
        let expiries = advance(&mut timer.expires, timer.interval_ns, now);
        let pending = [&self.process.pending, &self.thread.signals.pending];
        if expiries == 0 {
            return;
        }
        if pending.iter().any(|pending| pending.has_timer(index)) {
            timer.miss(expiries);
            return;
        }
        let timer = *timer;
        let overrun = i32::try_from(expiries - 1).unwrap_or(i32::MAX);
        let Some(signal) = Signal::from_raw(timer.signal as i32) else { return };
        let info = Siginfo::timer(signal, index as i32, overrun, timer.value);
        match timer.thread {
            Some(tid) => self.signal_thread(tid, info),
            None => self.signal_process(self.process.pid, info),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_processes_and_threads_count_processor_time() {
        assert!(is_cpu_clock(CLOCK_PROCESS_CPUTIME_ID) && is_cpu_clock(-6));
        assert!(!is_cpu_clock(0) && !is_cpu_clock(1) && !is_cpu_clock(7));
    }
}
