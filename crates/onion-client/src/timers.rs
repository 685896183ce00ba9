//! What is due when.

use std::collections::BTreeSet;

/// Moments in milliseconds of the program's clock, with what is to be done then. What is set twice happens twice.
pub struct Timers<T>(BTreeSet<(u64, T)>);

impl<T: Ord + Copy> Timers<T> {
    pub fn new() -> Timers<T> {
        Timers(BTreeSet::new())
    }

    pub fn set(&mut self, at_ms: u64, what: T) {
        self.0.insert((at_ms, what));
    }

    /// Takes back what was set.
    pub fn remove(&mut self, at_ms: u64, what: T) {
        self.0.remove(&(at_ms, what));
    }

    /// Takes the next of what is due.
    pub fn due(&mut self, now_ms: u64) -> Option<T> {
        let first = *self.0.first().filter(|(at, _)| *at <= now_ms)?;
        self.0.remove(&first);
        Some(first.1)
    }

    /// When something is due next.
    pub fn next_ms(&self) -> Option<u64> {
        self.0.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_their_order() {
        let mut timers = Timers::new();
        [(3, 'c'), (1, 'b'), (1, 'a')].into_iter().for_each(|(at, what)| timers.set(at, what));
        assert_eq!((timers.next_ms(), timers.due(0)), (Some(1), None));
        assert_eq!((timers.due(2), timers.due(2), timers.due(2)), (Some('a'), Some('b'), None));
        assert_eq!(timers.due(9), Some('c'));
    }
}
