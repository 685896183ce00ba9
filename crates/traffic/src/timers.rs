//! Moments at which something is due, in order; among equal moments, in the order in which they were set.

use crate::clock::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The one moment at which somebody wants to be woken, who may ask again and again: no more timers are set than needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wake {
    at: Option<Time>,
}

impl Wake {
    /// Whether a timer has to be set for this moment.
    pub fn wants(&mut self, at: Time) -> bool {
        let is_sooner = self.at.is_none_or(|set| at < set);
        if is_sooner {
            self.at = Some(at);
        }
        is_sooner
    }

    /// A timer has fired.
    pub fn fired(&mut self, now: Time) {
        self.at = self.at.filter(|at| *at > now);
    }
}

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

    /// What is due by `now`, and when it was, one at a time.
    pub fn due(&mut self, now: Time) -> Option<(Time, T)> {
        match self.heap.peek() {
            Some(Reverse((at, ..))) if *at <= now => self.heap.pop().map(|Reverse((at, _, what))| (at, what)),
            _ => None,
        }
    }

    /// How long until the next one; `None` if there is none.
    pub fn wait(&self, now: Time) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, ..))| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn timers_fire_in_order_and_equal_ones_as_they_were_set() {
        let start = clock::now();
        let ms = Duration::from_millis;
        let mut timers = Timers::new();
        for (at, what) in [(30, 1), (10, 2), (30, 0), (20, 3)] {
            timers.set(start + ms(at), what);
        }
        assert_eq!(timers.wait(start), Some(ms(10)));
        assert_eq!(timers.due(start), None);
        let order: Vec<i32> = std::iter::from_fn(|| timers.due(start + ms(30))).map(|(_, what)| what).collect();
        assert_eq!(order, [2, 3, 1, 0]);
        assert_eq!(timers.wait(start), None);
    }

    #[test]
    fn who_asks_again_gets_one_timer() {
        let start = clock::now();
        let ms = Duration::from_millis;
        let mut wake = Wake::default();
        assert!(wake.wants(start + ms(10)));
        assert!(!wake.wants(start + ms(10)) && !wake.wants(start + ms(20)));
        assert!(wake.wants(start + ms(5)));
        wake.fired(start + ms(5));
        assert!(wake.wants(start + ms(20)));
        wake.fired(start + ms(10));
        assert!(!wake.wants(start + ms(20)));
    }
}
