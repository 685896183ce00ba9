//! The interface as a whole: both directions, what waits in them, and when something happens next.

use crate::flow::flow_of;
use crate::link::{Discipline, Downlink, Dropped, Sent, Uplink};
use base::{Bandwidth, SimDuration, SimTime};
use std::collections::VecDeque;
use tcpip::Packet;

/// The stack holds packets back while the uplink has this much (or two packets) to send, as tcp_limit_output_bytes does on
/// Linux: a bulk sender then loses nothing in its own host's queue.
const UPLINK_BACKLOG: SimDuration = SimDuration::from_millis(1);
const TWO_PACKETS: u64 = 2 * crate::wire::MTU_BYTES;

/// Of an access link's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub up: Bandwidth,
    pub down: Bandwidth,
}

/// A packet that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its last bit has left.
    pub at: SimTime,
    pub packet: Packet,
    /// How long the line takes for it: what the other side's [`Interface::receive`] wants to know.
    pub serialized: SimDuration,
}

/// Packets by what became of them here. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed over by the stack.
    pub sent: u64,
    pub sent_bytes: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// By a queue of either direction.
    pub dropped: u64,
}

/// One host's `eth0`.
#[derive(Clone, Debug)]
pub struct Interface {
    uplink: Uplink<Packet>,
    downlink: Downlink,
    /// On the line, and not reported yet.
    departing: VecDeque<(SimTime, Packet)>,
    /// Behind the router, in the order in which the host gets them.
    arriving: VecDeque<(SimTime, Packet)>,
    /// When there will be room again for somebody who waits for it.
    room_at: Option<SimTime>,
    counters: Counters,
}

impl Interface {
    /// Until `bootstrap_end` lines take no time and lose nothing.
    pub fn new(rates: Rates, discipline: Discipline, bootstrap_end: SimTime) -> Interface {
        Interface {
            uplink: Uplink::new(rates.up, discipline, bootstrap_end),
            downlink: Downlink::new(rates.down, bootstrap_end),
            departing: VecDeque::new(),
            arriving: VecDeque::new(),
            room_at: None,
            counters: Counters::default(),
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When something happens here without anybody's doing: a departure, a delivery, or room for who waits for it.
    pub fn next_deadline(&self) -> Option<SimTime> {
        [self.uplink.next_departure(), self.next_delivery(), self.room_at].into_iter().flatten().min()
    }

    /// Whether the stack may hand over a packet. If not, and it has some, call `wait_for_room`.
    pub fn has_room(&self, now: SimTime) -> bool {
        self.uplink.backlog(now) <= UPLINK_BACKLOG.max(self.uplink.serialization(now, TWO_PACKETS))
    }

    /// Makes a deadline of the moment at which half of what fills the uplink has left.
    pub fn wait_for_room(&mut self, now: SimTime) {
        let half = SimDuration::from_nanos(self.uplink.backlog(now).as_nanos() / 2);
        self.room_at.get_or_insert(now + half);
    }

    /// Whether somebody waits for room.
    pub fn is_full(&self) -> bool {
        self.room_at.is_some()
    }

    /// Takes a packet from the stack.
    pub fn send(&mut self, now: SimTime, packet: Packet) {
        let bytes = packet.wire_len() as u64;
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes;
        match self.uplink.send(now, flow_of(&packet), bytes, packet) {
            Sent::Departs(at, packet) => self.departing.push_back((at, packet)),
            Sent::Queued => {}
            Sent::Dropped(_) => self.counters.dropped += 1,
        }
    }

    /// To be called when time has passed: whoever waited for room may try again.
    pub fn handle_deadline(&mut self, now: SimTime) {
        self.room_at = self.room_at.filter(|at| *at > now);
    }

    /// The next packet that goes onto the line.
    pub fn poll_departure(&mut self, now: SimTime) -> Option<Departure> {
        let (at, packet) = self.departing.pop_front().or_else(|| self.uplink.pop(now))?;
        let serialized = self.uplink.serialization(now, packet.wire_len() as u64);
        Some(Departure { at, packet, serialized })
    }

    /// Takes a packet that has come to the router before the downlink, having taken `serialized` on its sender's line.
    pub fn receive(&mut self, now: SimTime, packet: Packet, serialized: SimDuration) {
        match self.downlink.receive(now, packet.wire_len() as u64, serialized) {
            Ok(at) => self.arriving.push_back((at, packet)),
            Err(Dropped) => self.counters.dropped += 1,
        }
    }

    /// When `poll_delivery` has something to give.
    pub fn next_delivery(&self) -> Option<SimTime> {
        self.arriving.front().map(|(at, _)| *at)
    }

    /// The next packet that the host has by now.
    pub fn poll_delivery(&mut self, now: SimTime) -> Option<Packet> {
        self.next_delivery().filter(|at| *at <= now)?;
        let (_, packet) = self.arriving.pop_front()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += packet.wire_len() as u64;
        Some(packet)
    }
}
