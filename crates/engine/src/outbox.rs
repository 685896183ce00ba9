//! Where a running host puts its messages to others.

use crate::index::Nanos;
use crate::mailbox::{Envelope, Parcel};
use crate::shared::Reach;
use base::{HostId, SimTime};
use std::sync::Arc;

/// Messages of the hosts that one worker runs in a round, sorted by the worker that is home to the target, or the rank that has it.
#[derive(Debug)]
pub struct Outbox<M> {
    reach: Arc<[Reach]>,
    pub(crate) parcels: Vec<Parcel<M>>,
    window_start: Nanos,
    source: HostId,
    sequence: u64,
    earliest_arrival: Nanos,
    sent: u64,
    delayed: u64,
}

impl<M> Outbox<M> {
    pub(crate) fn new(reach: Arc<[Reach]>, parcels: usize) -> Self {
        Outbox {
            reach,
            parcels: (0..parcels).map(|_| Parcel::new()).collect(),
            window_start: 0,
            source: HostId(0),
            sequence: 0,
            earliest_arrival: Nanos::MAX,
            sent: 0,
            delayed: 0,
        }
    }

    /// Sends `message` to reach host `to` at `arrival`. The target's window must be over by then; what a `runahead` floor makes
    /// late is delayed to that window's end. A host's traffic with itself belongs in its own queue, not here.
    ///
    /// # Panics
    /// When `to` does not exist, or `arrival` is earlier than the window's start plus the target's smallest incoming latency:
    /// the sender's bug, which ends the run with an error that names it.
    pub fn send(&mut self, to: HostId, arrival: SimTime, message: M) {
        let reach = &self.reach[to.index()];
        let mut arrival = arrival.as_nanos();
        let horizon = self.window_start + reach.lookahead;
        if arrival < horizon {
            assert!(
                arrival >= self.window_start + reach.incoming_latency,
                "{} sent {to} a message for {arrival} ns, in a window from {} ns and with an incoming latency of {} ns",
                self.source,
                self.window_start,
                reach.incoming_latency,
            );
            arrival = horizon;
            self.delayed += 1;
        }
        self.earliest_arrival = self.earliest_arrival.min(arrival);
        let sequence = self.sequence;
        self.sequence += 1;
        self.sent += 1;
        let envelope = Envelope { arrival, from: self.source, to, sequence, message };
        self.parcels[reach.home as usize].messages.push(envelope);
    }

    /// When the window began that is executed: the same for all hosts of all workers.
    pub fn window_start(&self) -> SimTime {
        SimTime::from_nanos(self.window_start)
    }

    pub(crate) fn begin_window(&mut self, start: Nanos) {
        self.window_start = start;
        self.earliest_arrival = Nanos::MAX;
    }

    /// The earliest arrival among what was sent in this window.
    pub(crate) fn earliest_arrival(&self) -> Nanos {
        self.earliest_arrival
    }

    /// From here on `source` sends, which has sent `sequence` messages before.
    pub(crate) fn begin_host(&mut self, source: HostId, sequence: u64) {
        self.source = source;
        self.sequence = sequence;
    }

    /// How many messages the present host has sent so far.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Messages sent, and those of them that were delayed, since the run began.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent, self.delayed)
    }
}
