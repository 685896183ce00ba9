//! Turns: how much circuits and connections have sent of late, and who is next.

use super::CircuitScheduler;
use crate::circuit::Side;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// After this long a cell counts half, in milliseconds: `CircuitPriorityHalflifeMsec` of the public network's consensus.
const HALF_LIFE_MS: f64 = 30_000.0;

/// How much a circuit has sent of late, scaled so that it need not be decayed: a cell counts twice as much as one a half-life before,
/// and only comparisons matter. It is finite for 1,023 half-lives, eight hours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent(f64);

impl Recent {
    pub fn add_cell(&mut self, now_ms: u64) {
        self.0 += (now_ms as f64 / HALF_LIFE_MS).min(1000.0).exp2();
    }

    /// Who has sent less is before who has sent more.
    pub fn compare(self, other: Recent) -> Ordering {
        self.0.total_cmp(&other.0)
    }

    /// In cells as they count now.
    pub fn cells(self, now_ms: u64) -> f64 {
        self.0 * (-(now_ms as f64) / HALF_LIFE_MS).max(-1000.0).exp2()
    }
}

/// Whose turn it is: who has sent least; of equals, who came first.
#[derive(Clone, Copy, Debug)]
pub struct Turn<T> {
    /// How much had been sent when it was put there.
    pub recent: Recent,
    pub serial: u64,
    pub whose: T,
}

impl<T> Ord for Turn<T> {
    fn cmp(&self, other: &Turn<T>) -> Ordering {
        self.recent.compare(other.recent).then(self.serial.cmp(&other.serial))
    }
}

impl<T> PartialOrd for Turn<T> {
    fn partial_cmp(&self, other: &Turn<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Turn<T> {
    fn eq(&self, other: &Turn<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Turn<T> {}

/// Circuits with cells for a connection, or for any of a channel's.
#[derive(Debug)]
pub struct Turns {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    RoundRobin(VecDeque<(usize, Side)>),
    Ewma(BinaryHeap<Reverse<Turn<(usize, Side)>>>, u64),
}

impl Turns {
    pub fn new(scheduler: CircuitScheduler) -> Turns {
        let kind = match scheduler {
            CircuitScheduler::RoundRobin => Kind::RoundRobin(VecDeque::new()),
            CircuitScheduler::Ewma => Kind::Ewma(BinaryHeap::new(), 0),
        };
        Turns { kind }
    }

    pub fn add(&mut self, circuit: (usize, Side), recent: Recent) {
        match &mut self.kind {
            Kind::RoundRobin(turns) => turns.push_back(circuit),
            Kind::Ewma(turns, serial) => {
                *serial += 1;
                turns.push(Reverse(Turn { recent, serial: *serial, whose: circuit }));
            }
        }
    }

    /// Nobody has a turn.
    pub fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::RoundRobin(turns) => turns.is_empty(),
            Kind::Ewma(turns, _) => turns.is_empty(),
        }
    }

    /// How much has been sent by who is next; for round robin nothing counts.
    pub fn next_recent(&self) -> Recent {
        match &self.kind {
            Kind::RoundRobin(_) => Recent::default(),
            Kind::Ewma(turns, _) => turns.peek().map(|Reverse(turn)| turn.recent).unwrap_or_default(),
        }
    }

    /// Takes all turns away.
    pub fn clear(&mut self) {
        match &mut self.kind {
            Kind::RoundRobin(turns) => turns.clear(),
            Kind::Ewma(turns, _) => turns.clear(),
        }
    }

    pub fn next(&mut self) -> Option<(usize, Side)> {
        match &mut self.kind {
            Kind::RoundRobin(turns) => turns.pop_front(),
            Kind::Ewma(turns, _) => turns.pop().map(|Reverse(turn)| turn.whose),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets circuits 0 and 1, which always have cells, take turns, 1 having sent `before` cells at 0 s; who had them at `at_ms`.
    fn turns(scheduler: CircuitScheduler, before: usize, at_ms: u64, count: usize) -> Vec<usize> {
        let mut recent = [Recent::default(); 2];
        (0..before).for_each(|_| recent[1].add_cell(0));
        let mut turns = Turns::new(scheduler);
        (0..2).for_each(|circuit| turns.add((circuit, Side::Exit), recent[circuit]));
        let mut had = Vec::new();
        for _ in 0..count {
            let (circuit, side) = turns.next().unwrap();
            recent[circuit].add_cell(at_ms);
            turns.add((circuit, side), recent[circuit]);
            had.push(circuit);
        }
        had
    }

    #[test]
    fn round_robin_takes_them_in_order() {
        assert_eq!(turns(CircuitScheduler::RoundRobin, 100, 0, 6), [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn who_has_sent_least_of_late_is_next() {
        let ahead = |before, at_ms| {
            turns(CircuitScheduler::Ewma, before, at_ms, 200).iter().take_while(|had| **had == 0).count()
        };
        assert_eq!(ahead(64, 0), 64, "a tie goes to who came first");
        assert_eq!(ahead(64, 30_000), 32, "half of them are forgotten");
        assert_eq!(ahead(64, 60_000), 16);
        let had = turns(CircuitScheduler::Ewma, 64, 0, 200);
        assert!(had[64..].chunks(2).all(|two| two.iter().sum::<usize>() == 1), "then they take turns");
    }

    #[test]
    fn a_mean_is_what_it_says() {
        let mut recent = Recent::default();
        (0..10).for_each(|_| recent.add_cell(30_000));
        assert!((recent.cells(30_000) - 10.0).abs() < 1e-9 && (recent.cells(90_000) - 2.5).abs() < 1e-9);
    }
}
