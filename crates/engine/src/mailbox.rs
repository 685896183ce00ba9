//! What a worker hands to the others at the end of a round.
//!
//! One buffer for each (sender, receiver, parity of the round). A sender swaps its full buffer for the one that the receiver
//! emptied, so buffers circulate and nothing is allocated once they have grown. Two parities let a fast worker hand over a
//! round's mail while a slow one still reads that of the round before.

use crate::barrier::Apart;
use crate::index::Nanos;
use crate::sync::{Mutex, MutexGuard, lock};
use base::HostId;

/// One message on its way.
#[derive(Debug)]
pub struct Envelope<M> {
    /// ns.
    pub arrival: Nanos,
    pub from: HostId,
    pub to: HostId,
    /// How many messages its sender had sent before.
    pub sequence: u64,
    pub message: M,
}

/// What one worker has for the hosts of one home worker after a round.
#[derive(Debug)]
pub struct Parcel<M> {
    pub messages: Vec<Envelope<M>>,
    /// Hosts that the sender ran.
    pub ran: Vec<Ran>,
}

/// What became of a host in a round.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Its place among the hosts of this rank.
    pub place: u32,
    /// The time of its next event.
    pub next: Nanos,
    /// See [`Host::last_cost`](crate::Host::last_cost).
    pub cost: u64,
}

impl<M> Parcel<M> {
    pub fn new() -> Self {
        Parcel { messages: Vec::new(), ran: Vec::new() }
    }
}

/// All parcels between workers.
#[derive(Debug)]
pub struct Mailboxes<M> {
    workers: usize,
    boxes: Vec<Apart<Mutex<Parcel<M>>>>,
}

impl<M> Mailboxes<M> {
    pub fn new(workers: usize) -> Self {
        Mailboxes { workers, boxes: (0..2 * workers * workers).map(|_| Apart(Mutex::new(Parcel::new()))).collect() }
    }

    /// The box that `from` fills at the end of `round` and `to` empties at the beginning of the next.
    pub fn between(&self, from: usize, to: usize, round: u64) -> MutexGuard<'_, Parcel<M>> {
        let parity = (round % 2) as usize;
        lock(&self.boxes[(parity * self.workers + to) * self.workers + from])
    }
}
