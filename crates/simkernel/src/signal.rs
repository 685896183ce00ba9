//! Signals as data: sets, pending ones, dispositions. Sending stands here; delivery to a thread's registers in `signal_delivery`.

use linux_abi::Signal;
use linux_abi::signal::{SI_TIMER, Siginfo};

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
    queue: Vec<Siginfo>,
}

impl PendingSignals {
    /// Adds one. Standard signals (1 to 31) are held once; real-time ones queue.
    pub fn add(&mut self, info: Siginfo) {
        let signal = info.si_signo as u32;
        // A timer's is added although one was taken back that still shows.
        let is_there = |queue: &[Siginfo]| queue.iter().any(|other| other.si_signo == info.si_signo);
        if signal < 32 && self.set.contains(signal) && (info.si_code != SI_TIMER || is_there(&self.queue)) {
            return;
        }
        self.set.insert(signal);
        self.queue.push(info);
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
            let info = at.map(|at| self.queue.remove(at));
            if !self.queue.iter().any(|other| other.si_signo as u32 == signal) {
                self.set.remove(signal);
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

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a timer's signal waits.
    pub fn has_timer(&self, timer: u32) -> bool {
        self.queue.iter().any(|info| info.si_code == SI_TIMER && info.si_timer() == timer)
    }

    /// Forgets every pending instance of these signals.
    pub fn discard(&mut self, signals: SigSet) {
        self.set = self.set.without(signals);
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
    fn standard_signals_merge_and_real_time_ones_queue() {
        let mut pending = PendingSignals::default();
        for signal in [34, 10, 34, 10] {
            pending.add(Siginfo { si_signo: signal, ..Default::default() });
        }
        let mut held = SigSet::EMPTY;
        held.insert(10);
        assert_eq!(pending.take(held).map(|i| i.si_signo), Some(34));
        let order: Vec<i32> = std::iter::from_fn(|| pending.take(SigSet::EMPTY)).map(|i| i.si_signo).collect();
        assert_eq!(order, [10, 34]);
        assert!(pending.set.is_empty());
    }
}
