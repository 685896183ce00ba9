//! Puzzles that relays ask for: one is solved at a time, as one processor would.

use crate::circuit::Outgoing;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Puzzles {
    /// The circuit whose puzzle is being solved, and what it sends then.
    pub solving: Option<(u64, Outgoing)>,
    /// Circuits whose puzzles come after it.
    waiting: VecDeque<u64>,
}

impl Puzzles {
    pub fn is_busy(&self) -> bool {
        self.solving.is_some()
    }

    pub fn wait(&mut self, circuit: u64) {
        self.waiting.push_back(circuit);
    }

    /// Whose turn it is; nobody's while one is being solved.
    pub fn next(&mut self) -> Option<u64> {
        if self.is_busy() { None } else { self.waiting.pop_front() }
    }
}
