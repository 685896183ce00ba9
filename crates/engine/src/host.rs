//! What the engine asks of its user: hosts, and what each worker keeps for them.

use crate::outbox::Outbox;
use crate::stats::WindowCosts;
use base::{HostId, SimTime};

/// How far a host has come when it gives its worker back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has handled every event before the horizon.
    Done,
    /// It needs what its worker could not take ([`Worker::take_exclusive`]). It is run again, in the same window and with the same
    /// horizon, by a worker that has it, and goes on where it was.
    Waits,
}

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
    fn run_until(
        &mut self,
        horizon: SimTime,
        outbox: &mut Outbox<Self::Message>,
        worker: &mut Self::Worker,
    ) -> Progress;

    /// Whether the host will probably need what one worker at a time can have: it did in its last window. A wrong answer costs time, and
    /// changes nothing else.
    fn expects_exclusive(&self) -> bool {
        false
    }

    /// What the last window cost, in any unit that all hosts share: [`Policy::StealLongest`](crate::Policy) runs the dearest first.
    fn last_cost(&self) -> u64 {
        0
    }
}

/// The state of one worker: log buffers, guest machinery of its thread, scratch space.
pub trait Worker {
    /// The worker has run its last host of window `round` (counted from 0), which began at `start`. When the engine's window
    /// callback is called next, every worker has returned from this. Later windows produce nothing before their own start. `costs` is
    /// wall time.
    fn window_ended(&mut self, round: u64, start: SimTime, costs: &WindowCosts) {
        let _ = (round, start, costs);
    }

    /// Takes what one worker at a time can have and some hosts need, unless another worker has it; whether it is this worker's now.
    fn take_exclusive(&mut self) -> bool {
        true
    }

    /// Lets other workers have it. The worker has run its hosts of the round.
    fn give_up_exclusive(&mut self) {}
}

impl Worker for () {}
