//! Moments at which something is due, in order; among equal moments, in the order in which they were set.

use crate::clock::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What is due carries no meaning here. Nothing can be taken back: who sets a timer must bear that it fires.
pub struct Timers<T: Ord> {
    heap: BinaryHeap<Reverse<(Time, u64, T)>>,
    count: u64,
}

impl<T: Ord> Timers<T> {
    pub fn new() -> Self {
        Timers { heap: BinaryHeap::new(), count: 0 }
    }

    pub fn set(&mut self, at: Time, what: T) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, what)));
    }

    /// What is due by `now`, one at a time.
    pub fn due(&mut self, now: Time) -> Option<T> {
        match self.heap.peek() {
            Some(Reverse((at, ..))) if *at <= now => self.heap.pop().map(|Reverse((_, _, what))| what),
            _ => None,
        }
    }

    /// How long until the next one; `None` if there is none.
    pub fn wait(&self, now: Time) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, ..))| at.saturating_duration_since(now))
    }
}
