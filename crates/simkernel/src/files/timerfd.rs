//! timerfd_create(2): a timer that is read.

use crate::clock::{is_hasty, next_look};
use crate::wait::Events;
use base::SimTime;
use linux_abi::Errno;

#[derive(Clone, Copy, Debug, Default)]
pub struct TimerFd {
    /// The clock is CLOCK_REALTIME (0) or one that starts with the experiment.
    pub clock: i32,
    /// The next expiry.
    pub expires: Option<SimTime>,
    /// 0 for a timer that expires once.
    pub interval_ns: u64,
    /// Rises with every setting.
    pub generation: u64,
    /// Expiries that were not read.
    pub ticks: u64,
    /// It has expired, and goes on when somebody looks at it: nobody is told of a second expiry
    /// before (timerfd_tmrproc).
    pub rests: bool,
}

impl TimerFd {
    /// Sets or (with None) disarms the timer. Unread expiries are forgotten.
    pub fn set(&mut self, expires: Option<SimTime>, interval_ns: u64) {
        self.expires = expires;
        self.interval_ns = interval_ns;
        self.generation += 1;
        self.ticks = 0;
        self.rests = false;
    }

    /// The timer is due. Whether it has expired, which is to be told; it rests until it is looked
    /// at.
    pub fn fire(&mut self, now: SimTime) -> bool {
        let is_due = !self.rests && self.advance(now);
        self.rests |= is_due;
        is_due
    }

    /// Counts what has expired while it rested, and goes on. Whether it did rest: its next expiry
    /// is to be looked for.
    pub fn resume(&mut self, now: SimTime) -> bool {
        if self.rests {
            self.advance(now);
        }
        std::mem::take(&mut self.rests) && self.expires.is_some()
    }

    /// Counts what has expired by `now` and moves on to the next expiry. Whether anything had.
    pub fn advance(&mut self, now: SimTime) -> bool {
        let Some(at) = self.expires.filter(|at| *at <= now) else {
            return false;
        };
        // A timer without an interval expires once.
        let missed = (now - at).as_nanos().checked_div(self.interval_ns);
        let count = 1 + missed.unwrap_or(0);
        self.ticks += count;
        let passed = count.saturating_mul(self.interval_ns);
        self.expires = missed.map(|_| SimTime::from_nanos(at.as_nanos().saturating_add(passed)));
        true
    }

    /// Whether a reader may have counted expiries before the timer was looked at.
    pub fn is_hasty(&self) -> bool {
        is_hasty(self.interval_ns)
    }

    /// When it is to be looked at next.
    pub fn next_look(&self) -> Option<SimTime> {
        self.expires.map(|at| next_look(at, self.interval_ns, 0))
    }

    /// The number of expiries since the last read. EAGAIN when there was none.
    pub fn read(&mut self, now: SimTime) -> Result<u64, Errno> {
        if self.is_hasty() {
            self.advance(now);
        }
        if self.ticks == 0 { Err(Errno::EAGAIN) } else { Ok(std::mem::take(&mut self.ticks)) }
    }

    pub fn poll(&self) -> Events {
        Events::IN.when(self.ticks > 0)
    }

    /// Time to the next expiry, in nanoseconds; 0 when disarmed.
    pub fn remaining_ns(&self, now: SimTime) -> u64 {
        let mut copy = *self;
        if copy.rests {
            copy.advance(now);
        }
        copy.expires.map_or(0, |at| at.saturating_since(now).as_nanos().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_expiries_are_counted() {
        let at = |micros: u64| SimTime::from_nanos(micros * 1_000);
        let mut timer = TimerFd::default();
        timer.set(Some(at(100)), 10_000);
        assert!(!timer.advance(at(99)));
        assert_eq!(timer.read(at(99)), Err(Errno::EAGAIN));
        assert!(timer.advance(at(125)));
        assert_eq!(timer.next_look(), Some(at(130)));
        assert_eq!(timer.read(at(125)), Ok(3));
        assert_eq!(timer.expires, Some(at(130)));
        assert_eq!(timer.remaining_ns(at(125)), 5_000);
        timer.set(None, 0);
        assert_eq!(timer.remaining_ns(at(125)), 0);
    }

    #[test]
    fn a_hasty_timer_counts_as_it_is_read() {
        let at = SimTime::from_nanos;
        let mut timer = TimerFd::default();
        timer.set(Some(at(2)), 2);
        assert!(timer.fire(at(2)));
        assert!(timer.resume(at(2_000_000_000)));
        assert_eq!(timer.next_look(), Some(at(2_000_000_002 + 1_000)));
        assert_eq!(timer.read(at(2_000_000_000)), Ok(1_000_000_000));
        assert_eq!(timer.read(at(2_000_000_001)), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_timer_that_nobody_reads_expires_once() {
        let at = |micros: u64| SimTime::from_nanos(micros * 1_000);
        let mut timer = TimerFd::default();
        timer.set(Some(at(10)), 10_000);
        assert!(timer.fire(at(10)));
        assert!(!timer.fire(at(20)));
        assert_eq!(timer.remaining_ns(at(35)), 5_000);
        assert!(timer.resume(at(35)));
        assert_eq!((timer.read(at(35)), timer.expires), (Ok(3), Some(at(40))));
    }
}
