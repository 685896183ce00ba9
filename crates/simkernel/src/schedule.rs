//! How a thread asks to be scheduled: its policy and priority, as sched(7) has them. They are kept and shown, and decide nothing: one thread of a
//! host executes at a time, until it waits.

use linux_abi::process::{SCHED_BATCH, SCHED_DEADLINE, SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};

/// The highest priority of SCHED_FIFO and SCHED_RR.
pub const MOST_PRIORITY: u32 = 99;

/// Lengths of SCHED_DEADLINE, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reservation {
    pub runtime: u64,
    pub deadline: u64,
    pub period: u64,
}

impl Reservation {
    /// What is no reservation at all: `__checkparam_dl`.
    fn is_sound(&self) -> bool {
        const LEAST_RUNTIME: u64 = 1 << 10;
        const PERIODS: std::ops::RangeInclusive<u64> = 100_000..=(1 << 22) * 1_000;
        let period = if self.period == 0 { self.deadline } else { self.period };
        let ordered = self.runtime <= self.deadline && self.deadline <= period;
        self.runtime >= LEAST_RUNTIME && ordered && PERIODS.contains(&period)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// One of `SCHED_*`.
    pub policy: i32,
    /// From 1 to 99 for SCHED_FIFO and SCHED_RR, 0 for the others.
    pub priority: u32,
    /// SCHED_RESET_ON_FORK.
    pub resets_on_fork: bool,
    pub reservation: Reservation,
}

impl Schedule {
    /// Whether the nice value counts.
    pub fn is_fair(&self) -> bool {
        matches!(self.policy, SCHED_OTHER | SCHED_BATCH)
    }

    pub fn is_real_time(&self) -> bool {
        matches!(self.policy, SCHED_FIFO | SCHED_RR)
    }

    pub fn is_idle(&self) -> bool {
        self.policy == SCHED_IDLE
    }

    pub fn has_deadlines(&self) -> bool {
        self.policy == SCHED_DEADLINE
    }

    /// The priority as `/proc/PID/stat` has it (`task_prio`), of a thread that is so nice.
    pub fn shown_priority(&self, nice: i32) -> i32 {
        match () {
            () if self.has_deadlines() => -101,
            () if self.is_real_time() => -1 - self.priority as i32,
            () => 20 + nice,
        }
    }

    /// Whether there is such a policy, and the rest fits it (`__sched_setscheduler`).
    pub fn is_sound(&self) -> bool {
        let known = self.is_fair() || self.is_idle() || self.is_real_time() || self.has_deadlines();
        known
            && self.priority <= MOST_PRIORITY
            && self.is_real_time() == (self.priority > 0)
            && (!self.has_deadlines() || self.reservation.is_sound())
    }

    /// What a new thread gets of one that is so scheduled and so nice (`sched_fork`). Deadlines are nobody's but their thread's.
    pub fn inherited(self, nice: i32) -> (Schedule, i32) {
        match self.resets_on_fork {
            _ if self.has_deadlines() => (Schedule::default(), 0),
            false => (self, nice),
            true if self.is_real_time() => (Schedule::default(), 0),
            true => (Schedule { resets_on_fork: false, ..self }, nice.max(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_threads_that_reset_are_ordinary() {
        let schedule =
            |policy, priority, resets_on_fork| Schedule { policy, priority, resets_on_fork, ..Schedule::default() };
        let plain = schedule(SCHED_RR, 7, false);
        assert_eq!(plain.inherited(-3), (plain, -3));
        assert_eq!(schedule(SCHED_RR, 7, true).inherited(5), (Schedule::default(), 0));
        assert_eq!(schedule(SCHED_BATCH, 0, true).inherited(-3), (schedule(SCHED_BATCH, 0, false), 0));
        assert_eq!(schedule(SCHED_BATCH, 0, true).inherited(3), (schedule(SCHED_BATCH, 0, false), 3));
    }

    #[test]
    fn priorities_are_shown_as_linux_counts_them() {
        let shown = |policy, priority, nice| Schedule { policy, priority, ..Schedule::default() }.shown_priority(nice);
        assert_eq!([shown(SCHED_FIFO, 10, 5), shown(SCHED_RR, 99, 0), shown(SCHED_DEADLINE, 0, 0)], [-11, -100, -101]);
        assert_eq!([shown(SCHED_OTHER, 0, 5), shown(SCHED_IDLE, 0, -3)], [25, 17]);
    }

    #[test]
    fn priorities_and_reservations_fit_their_policies() {
        let schedule = |policy, priority| Schedule { policy, priority, ..Schedule::default() };
        assert!(
            schedule(SCHED_FIFO, 1).is_sound()
                && schedule(SCHED_RR, 99).is_sound()
                && schedule(SCHED_IDLE, 0).is_sound()
        );
        for (policy, priority) in [(SCHED_FIFO, 0), (SCHED_RR, 100), (SCHED_OTHER, 1), (4, 0), (SCHED_DEADLINE, 0)] {
            assert!(!schedule(policy, priority).is_sound(), "{policy} {priority}");
        }
        let reservation = Reservation { runtime: 1_000_000, deadline: 5_000_000, period: 0 };
        assert!(Schedule { reservation, ..schedule(SCHED_DEADLINE, 0) }.is_sound());
        let late = Reservation { period: 4_000_000, ..reservation };
        assert!(!Schedule { reservation: late, ..schedule(SCHED_DEADLINE, 0) }.is_sound());
    }
}
