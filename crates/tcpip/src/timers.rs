//! One heap of deadlines per stack, with lazy deletion: a socket has at most one live entry, and an entry that no longer
//! matches what its socket remembers is dropped when it comes up.

use base::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    pub at: SimTime,
    pub index: u32,
    pub generation: u32,
}

#[derive(Default, Debug)]
pub(crate) struct TimerHeap(BinaryHeap<Reverse<Entry>>);

impl TimerHeap {
    pub fn push(&mut self, entry: Entry) {
        self.0.push(Reverse(entry));
    }

    pub fn next(&self) -> Option<SimTime> {
        self.0.peek().map(|entry| entry.0.at)
    }

    /// The earliest entry that is due.
    pub fn pop_due(&mut self, now: SimTime) -> Option<Entry> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|entry| entry.0)
    }
}
