//! Signals as data: sets, pending ones, dispositions. Sending stands here; delivery to a thread's registers in `signal_delivery`.

use linux_abi::signal::{SI_TIMER, SI_USER, Siginfo};
use linux_abi::{Errno, Signal};
use std::collections::VecDeque;

/// The highest signal number.
pub const SIGNALS: usize = 64;

/// A set of signals: bit `n - 1` stands for signal `n`, as in a guest's `sigset_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigSet(pub u64);

impl SigSet {
    pub const EMPTY: SigSet = SigSet(0);
    /// What no mask can hold back.
    pub const UNBLOCKABLE: SigSet = SigSet(Signal::SIGKILL.mask() | Signal::SIGSTOP.mask());

    pub const fn contains(self, signal: u32) -> bool {
        self.0 & (1 << (signal - 1)) != 0
    }
    pub fn insert(&mut self, signal: u32) {
        self.0 |= 1 << (signal - 1);
    }
    pub fn remove(&mut self, signal: u32) {
        self.0 &= !(1 << (signal - 1));
    }
    pub const fn without(self, other: SigSet) -> SigSet {
        SigSet(self.0 & !other.0)
    }
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Signals that were sent and not yet delivered.
#[derive(Clone, Debug, Default)]
pub struct PendingSignals {
    pub set: SigSet,
    queue: VecDeque<Siginfo>,
    /// Those that found no room in the queue: that they came is known, and nothing else of them.
    bare: SigSet,
}

/// What becomes of a signal that is sent, setrlimit(2), RLIMIT_SIGPENDING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It is queued with what it tells.
    Queued,
    /// It arrives, and what it tells is lost.
    Bare,
    /// EAGAIN: who sends values must know that they are lost.
    Refused,
}

/// Stands where nothing stands in a guest's `siginfo_t`, in those that only say that a signal came.
const BARE: i32 = i32::MIN;

/// A signal of which nothing is known but that it came.
pub fn bare(signal: i32) -> Siginfo {
    Siginfo { si_signo: signal, pad0: BARE, ..Siginfo::default() }
}

impl Room {
    /// What is sent in the end. EAGAIN.
    pub fn apply(self, info: Siginfo) -> Result<Siginfo, Errno> {
        match self {
            Room::Queued => Ok(Siginfo { pad0: 0, ..info }),
            Room::Bare => Ok(bare(info.si_signo)),
            Room::Refused => Err(Errno::EAGAIN),
        }
    }

    /// For a signal that comes when the queue is full, or not (`__send_signal_locked`).
    pub fn of(info: &Siginfo, is_full: bool) -> Room {
        let is_standard = info.si_signo < Signal::SIGRTMIN;
        match is_full {
            true if is_standard && info.si_code < 0 => Room::Bare,
            true if !is_standard && info.si_code == SI_USER => Room::Bare,
            true if !is_standard => Room::Refused,
            _ => Room::Queued,
        }
    }
}

impl PendingSignals {
    /// Adds one. Standard signals (1 to 31) are held once, real-time ones queue. So do those of
    /// timers, whatever they are: a timer has a place of its own in the queue
    /// (`posixtimer_send_sigqueue`).
    pub fn add(&mut self, info: Siginfo) {
        let signal = info.si_signo as u32;
        if signal < 32 && self.set.contains(signal) && info.si_code != SI_TIMER {
            return;
        }
        self.set.insert(signal);
        if info.pad0 == BARE {
            self.bare.insert(signal);
        } else {
            self.queue.push_back(info);
        }
    }

    /// Takes the lowest-numbered one that `mask` does not hold back.
    pub fn take(&mut self, mask: SigSet) -> Option<Siginfo> {
        loop {
            let open = self.set.without(mask);
            if open.is_empty() {
                return None;
            }
            let signal = open.0.trailing_zeros() + 1;
            let at = self.queue.iter().position(|info| info.si_signo as u32 == signal);
            let queued = at.and_then(|at| self.queue.remove(at));
            // Where others of it are queued, one that is not queued is no more than they (`collect_signal`).
            let bare = || self.bare.contains(signal).then(|| Siginfo { si_signo: signal as i32, ..Siginfo::default() });
            let info = queued.or_else(bare);
            if !self.queue.iter().any(|other| other.si_signo as u32 == signal) {
                self.set.remove(signal);
                self.bare.remove(signal);
            }
            if info.is_some() {
                return info;
            }
        }
    }

    /// Takes back a timer's signal: the timer was deleted, or set anew. It shows until somebody would take it
    /// (`posixtimer_deliver_signal`).
    pub fn forget_timer(&mut self, timer: u32) {
        self.queue.retain(|info| info.si_code != SI_TIMER || info.si_timer() != timer);
    }

    /// How many are queued, but for those of timers, which bring their own room along.
    pub fn queued(&self) -> usize {
        self.queue.iter().filter(|info| info.si_code != SI_TIMER).count()
    }

    /// Whether a timer's signal waits.
    pub fn has_timer(&self, timer: u32) -> bool {
        self.queue.iter().any(|info| info.si_code == SI_TIMER && info.si_timer() == timer)
    }

    /// Forgets every pending instance of these signals.
    pub fn discard(&mut self, signals: SigSet) {
        self.set = self.set.without(signals);
        self.bare = self.bare.without(signals);
        self.queue.retain(|info| !signals.contains(info.si_signo as u32));
    }
}

/// What a process does with one signal (`struct sigaction` of the kernel's interface).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disposition {
    /// SIG_DFL (0), SIG_IGN (1), or the handler's address.
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: SigSet,
}

/// A thread's own signal state.
#[derive(Clone, Debug, Default)]
pub struct ThreadSignals {
    pub blocked: SigSet,
    pub pending: PendingSignals,
    /// What `sigtimedwait` waits for at the moment.
    pub awaited: SigSet,
    /// The mask to come back to after a call that set one for its own duration (`ppoll`, `sigsuspend`, ...), once it is over and
    /// its signals are delivered.
    pub saved_mask: Option<SigSet>,
}

impl ThreadSignals {
    /// Whether `sigtimedwait` takes a signal, of which `at_once` says that it has no time to wait unless it is held back.
    pub(crate) fn awaits(&self, signal: u32, at_once: bool) -> bool {
        self.awaited.contains(signal) && (self.blocked.contains(signal) || !at_once)
    }
}

/// Signals whose default action is to do nothing: SIGCHLD, SIGCONT, SIGURG, SIGWINCH.
pub const IGNORED_BY_DEFAULT: SigSet = SigSet(1 << 16 | 1 << 17 | 1 << 22 | 1 << 27);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_timers_can_be_taken_back() {
        let mut pending = PendingSignals::default();
        let of_timer = |id| Siginfo::timer(Signal::SIGUSR1, id, 0, 0);
        pending.add(of_timer(3));
        pending.forget_timer(3);
        assert!(pending.set.contains(10) && !pending.has_timer(3));
        pending.add(of_timer(4));
        assert_eq!(pending.take(SigSet::EMPTY).map(|info| info.si_timer()), Some(4));
        pending.add(of_timer(3));
        pending.forget_timer(3);
        assert_eq!(pending.take(SigSet::EMPTY).map(|info| info.si_signo), None);
        assert!(pending.set.is_empty());
    }

    #[test]
    fn each_timer_has_its_place_beside_other_signals() {
        let mut pending = PendingSignals::default();
        pending.add(Siginfo::kill(Signal::SIGUSR1, SI_USER, 7, 0));
        [3, 4].into_iter().for_each(|timer| pending.add(Siginfo::timer(Signal::SIGUSR1, timer, 0, 0)));
        pending.add(Siginfo::kill(Signal::SIGUSR1, SI_USER, 8, 0));
        let codes: Vec<i32> = std::iter::from_fn(|| pending.take(SigSet::EMPTY)).map(|info| info.si_code).collect();
        assert_eq!(codes, [SI_USER, SI_TIMER, SI_TIMER]);
    }

    #[test]
    fn what_finds_no_room_is_known_to_have_come() {
        let queued = |signal, value| Siginfo { si_signo: signal, ..Siginfo::queue(Signal::SIGUSR1, 7, 0, value) };
        let user = |signal| Siginfo { si_code: SI_USER, ..queued(signal, 0) };
        assert_eq!(Room::of(&queued(34, 1), true), Room::Refused);
        assert_eq!(Room::of(&user(34), true), Room::Bare);
        assert_eq!(Room::of(&queued(10, 1), true), Room::Bare);
        assert_eq!((Room::of(&user(10), true), Room::of(&queued(34, 1), false)), (Room::Queued, Room::Queued));
        let mut pending = PendingSignals::default();
        [35, 35, 34].into_iter().for_each(|signal| pending.add(bare(signal)));
        pending.add(queued(34, 5));
        let taken: Vec<i32> = std::iter::from_fn(|| pending.take(SigSet::EMPTY)).map(|info| info.si_signo).collect();
        assert_eq!(taken, [34, 35], "each came once, and 34 with the one that is queued");
        assert!(pending.set.is_empty() && pending.bare.is_empty());
    }

    #[test]
    fn standard_signals_merge_and_real_time_ones_queue() {
        let mut pending = PendingSignals::default();
        for signal in [34, 10, 34, 10] {
            pending.add(Siginfo { si_signo: signal, ..Siginfo::queue(Signal::SIGUSR1, 7, 0, 0) });
        }
        let mut held = SigSet::EMPTY;
        held.insert(10);
        assert_eq!(pending.take(held).map(|i| i.si_signo), Some(34));
        let order: Vec<i32> = std::iter::from_fn(|| pending.take(SigSet::EMPTY)).map(|i| i.si_signo).collect();
        assert_eq!(order, [10, 34]);
        assert!(pending.set.is_empty());
    }
}
