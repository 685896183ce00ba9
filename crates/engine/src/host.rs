//! What the engine asks of its user: hosts, and what each worker keeps for them.

use crate::outbox::Outbox;
use base::{HostId, SimTime};

/// A simulated machine, as far as the engine sees it. One worker at a time holds it; which one changes between windows.
pub trait Host: Send {
    /// What hosts send each other.
    type Message: Send;
    /// What a worker lends to each host that it runs. It never leaves its thread.
    type Worker: Worker;

    /// The time of the earliest event that the host has, or `None` while only a message can wake it.
    fn next_event(&self) -> Option<SimTime>;

    /// Takes a message into the host's queue, to be handled at `arrival`. Calls come in no particular order: the host orders
    /// what it has by (arrival, source, sequence), as [`EventQueue`](crate::EventQueue) does.
    fn deliver(&mut self, arrival: SimTime, from: HostId, sequence: u64, message: Self::Message);

    /// Handles every event before `horizon`, including those that handling adds, and none at or after it.
    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<Self::Message>, worker: &mut Self::Worker);
}

/// The state of one worker: log buffers, guest machinery of its thread, scratch space.
pub trait Worker {
    /// The worker has run its last host of window `round` (counted from 0), which began at `start`. When the engine's window
    /// callback is called next, every worker has returned from this. Later windows produce nothing before their own start.
    fn window_ended(&mut self, round: u64, start: SimTime) {
        let _ = (round, start);
    }
}

impl Worker for () {}
