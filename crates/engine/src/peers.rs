//! A run over several processes, each of which has some of the hosts: its *ranks*.
//!
//! The engine of each rank goes through the same rounds. What hosts of other ranks are sent leaves when a worker is through with its
//! round; the last worker at the barrier then agrees with the other ranks on the next round, and takes in what they have sent. Since every
//! host orders what it has by itself, a run goes the same way with any number of ranks.

use crate::mailbox::Envelope;
use crate::stats::Totals;
use base::SimTime;

/// Which rank has which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The number of this process, from 0.
    pub own: usize,
    /// How many there are.
    pub count: usize,
    /// By host, the number of the rank that has it.
    pub of_host: Vec<u32>,
}

impl Ranks {
    /// All hosts are here.
    pub fn alone(hosts: usize) -> Ranks {
        Ranks { own: 0, count: 1, of_host: vec![0; hosts] }
    }

    /// The numbers of the hosts that this rank has, in ascending order.
    pub fn own_hosts(&self) -> impl Iterator<Item = usize> {
        let own = self.own as u32;
        self.of_host.iter().enumerate().filter(move |(_, rank)| **rank == own).map(|(host, _)| host)
    }
}

/// What one rank knows when it is through with a round, and what all of them come to together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The earliest event that is left, messages on their way included; the earliest of all ranks. `None` when nothing is left to happen.
    pub next: Option<SimTime>,
    /// Somebody wants the run to end here.
    pub halt: bool,
    /// What was done so far; the sum over all ranks.
    pub totals: Totals,
}

/// The way to the other ranks. Texts of errors say what became of them; the first one ends the run.
pub trait Peers<M>: Sync {
    /// Sends `messages` to hosts of another rank, and leaves the buffer empty. Any worker calls it in the midst of a round.
    ///
    /// # Errors
    /// When the other ranks cannot be reached any more.
    fn send(&self, rank: usize, messages: &mut Vec<Envelope<M>>) -> Result<(), String>;

    /// Waits until all ranks have called it for this round, gives every message that was sent to hosts of this rank in the round
    /// to `take`, and returns what the ranks come to together: the same on each. One worker calls it once a round, after all calls of `send`.
    ///
    /// # Errors
    /// When a rank has gone.
    fn agree(&self, own: Standing, take: &mut dyn FnMut(Envelope<M>)) -> Result<Standing, String>;
}
