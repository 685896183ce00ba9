//! The hosts that one worker has to run in a window, from which it and thieves take.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Filled by its owner once per round, then taken from by anyone, each entry once. Aligned so that owners do not share lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkList {
    entries: Vec<AtomicU32>,
    len: AtomicUsize,
    taken: AtomicUsize,
    /// The round that the list was last filled for, plus 1; its release makes the other fields visible.
    published: AtomicU64,
}

/// What a claim brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This entry is the caller's.
    Entry(u32),
    /// All entries are taken.
    Empty,
    /// The owner has not filled the list for this round yet.
    NotYet,
}

impl WorkList {
    pub fn with_capacity(capacity: usize) -> Self {
        WorkList {
            entries: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            len: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            published: AtomicU64::new(0),
        }
    }

    /// Offers `entries` for `round`. Only the owner calls it, and only when nobody claims for the round before any more.
    pub fn publish(&self, round: u64, entries: &[u32]) {
        for (cell, entry) in self.entries.iter().zip(entries) {
            cell.store(*entry, Ordering::Relaxed);
        }
        self.len.store(entries.len(), Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.published.store(round + 1, Ordering::Release);
    }

    pub fn claim(&self, round: u64) -> Claim {
        if self.published.load(Ordering::Acquire) != round + 1 {
            return Claim::NotYet;
        }
        let len = self.len.load(Ordering::Relaxed);
        // Looking first keeps the line shared among thieves that find nothing.
        if self.taken.load(Ordering::Relaxed) >= len {
            return Claim::Empty;
        }
        match self.taken.fetch_add(1, Ordering::Relaxed) {
            place if place < len => Claim::Entry(self.entries[place].load(Ordering::Relaxed)),
            _ => Claim::Empty,
        }
    }
}
