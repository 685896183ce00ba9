//! A host's deadlines, earliest first, and in order of setting where they are equal.
//!
//! Deletion is lazy: whoever is called at a deadline checks whether it still holds (a timer by its generation, a thread by the
//! deadline of its call).

use crate::ids::{FileId, Pid, Tid};
use base::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimerKind {
    /// A blocked thread's call times out.
    ThreadDeadline { tid: Tid },
    /// A timerfd expires.
    TimerFd { file: FileId, generation: u64 },
    /// `setitimer(ITIMER_REAL)` or `alarm` expires.
    RealItimer { pid: Pid, generation: u64 },
    /// A timer of `timer_create` expires.
    Posix { pid: Pid, timer: u32, generation: u64 },
}

#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(SimTime, u64, TimerKind)>>,
    set: u64,
}

impl Timers {
    pub fn add(&mut self, at: SimTime, kind: TimerKind) {
        if at == SimTime::MAX {
            return;
        }
        self.set += 1;
        self.heap.push(Reverse((at, self.set, kind)));
    }

    /// When the earliest deadline is; it may turn out to be a deleted one.
    pub fn next(&self) -> Option<SimTime> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The earliest deadline, removed, when it is at or before `now`.
    pub fn pop_due(&mut self, now: SimTime) -> Option<TimerKind> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, kind))| kind)
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_deadlines_fire_in_the_order_of_setting() {
        let mut timers = Timers::default();
        let at = SimTime::from_nanos;
        timers.add(at(20), TimerKind::RealItimer { pid: Pid(1000), generation: 1 });
        timers.add(at(10), TimerKind::RealItimer { pid: Pid(1000), generation: 2 });
        timers.add(at(10), TimerKind::RealItimer { pid: Pid(1000), generation: 0 });
        timers.add(SimTime::MAX, TimerKind::RealItimer { pid: Pid(1000), generation: 9 });
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some(TimerKind::RealItimer { pid: Pid(1000), generation: 2 }));
        assert_eq!(timers.pop_due(at(10)), Some(TimerKind::RealItimer { pid: Pid(1000), generation: 0 }));
        assert_eq!(timers.pop_due(at(10)), None);
        assert_eq!(timers.len(), 1);
    }
}
