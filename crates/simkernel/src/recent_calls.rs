//! A thread's last system calls as bare numbers: written at every call, read when a report of a crash is made.

use crate::outcome::{Outcome, SysResult};
use base::SimTime;
use linux_abi::Errno;

/// How many calls are kept.
pub const KEPT: usize = 20;

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallState {
    /// Not returned: it waits, or it is the one that was going on.
    #[default]
    Open,
    Returned(u64),
    /// It never returns to its caller (`exit`, `rt_sigreturn`).
    NoReturn,
    /// A signal ended its wait; it was answered EINTR or executed again.
    Interrupted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentCall {
    pub number: u64,
    pub args: [u64; 6],
    pub at: SimTime,
    pub state: CallState,
}

/// A ring of the last [`KEPT`] calls.
#[derive(Clone, Debug, Default)]
pub struct RecentCalls {
    ring: [RecentCall; KEPT],
    /// Where the last call stands, plus one; 0 before the first.
    next: usize,
    /// Calls that are in the ring.
    kept: usize,
}

impl RecentCalls {
    /// A call is executed for the first time.
    #[inline]
    pub(crate) fn begin(&mut self, number: u64, args: [u64; 6], at: SimTime) {
        let index = if self.next == KEPT { 0 } else { self.next };
        self.ring[index] = RecentCall { number, args, at, state: CallState::Open };
        self.next = index + 1;
        self.kept = self.kept.max(self.next);
    }

    /// The last call that began is over.
    #[inline]
    pub(crate) fn end(&mut self, result: &SysResult) {
        if self.next > 0 {
            self.ring[self.next - 1].state = match result {
                Ok(value) => CallState::Returned(*value),
                Err(Outcome::Errno(errno)) => CallState::Returned(Errno::to_return(*errno)),
                Err(Outcome::Restart(_)) => CallState::Interrupted,
                Err(Outcome::Block) => CallState::Open,
                Err(Outcome::NoReturn) => CallState::NoReturn,
            };
        }
    }

    /// Forgets everything: pointers of another program mean nothing in this one.
    pub(crate) fn clear(&mut self) {
        (self.next, self.kept) = (0, 0);
    }

    /// The last one that began.
    pub fn last(&self) -> Option<&RecentCall> {
        self.ring.get(self.next.checked_sub(1)?)
    }

    /// The calls, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &RecentCall> {
        let (newer, older) = self.ring[..self.kept].split_at(self.next.min(self.kept));
        older.iter().chain(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_are_kept_in_order() {
        let mut calls = RecentCalls::default();
        assert_eq!(calls.iter().count(), 0);
        calls.end(&Ok(1));
        let numbers = |calls: &RecentCalls| calls.iter().map(|call| call.number).collect::<Vec<_>>();
        for number in 0..3 {
            calls.begin(number, [0; 6], SimTime::ZERO);
            calls.end(&Ok(number * 10));
        }
        assert_eq!(numbers(&calls), [0, 1, 2]);
        for number in 3..47 {
            calls.begin(number, [0; 6], SimTime::ZERO);
        }
        assert_eq!(numbers(&calls), (27..47).collect::<Vec<_>>());
        calls.end(&Err(Errno::EBADF.into()));
        let last = calls.iter().last().map(|call| call.state);
        assert_eq!(last, Some(CallState::Returned(Errno::EBADF.to_return())));
        calls.clear();
        assert_eq!(calls.iter().count(), 0);
    }
}
