//! The interface as a whole: both directions, what waits in them, and when something happens next.

use crate::downlink::Downlink;
use crate::frame::Frame;
use crate::qdisc::{Discipline, Verdict};
use crate::uplink::{Completion, Uplink};
use crate::wire::share;
use base::{Bandwidth, SimDuration, SimTime};
use tcpip::Packet;

/// By whose rules lines, the last router's queue and rates work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Exact lines, each packet serialised once, a bounded queue under CoDel at the last router.
    Gnomon,
    /// As Shadow 3.3: token buckets in both directions, filled up each millisecond, and an unbounded queue under CoDel.
    Shadow,
}

/// What an interface is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rates of the access link's lines, more than 0.
    pub up: Bandwidth,
    pub down: Bandwidth,
    pub model: Model,
    pub discipline: Discipline,
    /// Until then lines take no time and lose nothing.
    pub bootstrap_end: SimTime,
    /// A train of segments that takes its line no longer than this stays one, and arrives as one.
    pub coalescing: SimDuration,
    /// A random number, by which flows are spread over queues.
    pub perturbation: u64,
}

/// A packet that leaves. It passes the interface in the moment in which it is polled: captures see it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its last bit has left.
    pub at: SimTime,
    pub packet: Box<Packet>,
    /// How long the line takes for it: what the other side's [`Interface::receive`] wants to know.
    pub serialized: SimDuration,
}

impl Departure {
    /// Cuts the first segments off a train; None if it has no more, and stays as it is.
    pub fn split(&mut self, segments: usize) -> Option<Departure> {
        let whole = self.packet.wire_len();
        let packet = Box::new(self.packet.split(segments)?);
        let (first, behind) = (packet.wire_len(), self.packet.wire_len());
        let (serialized, rest) = (share(self.serialized, first, whole), share(self.serialized, behind, whole));
        self.serialized = rest;
        Some(Departure {
            at: SimTime::from_nanos(self.at.as_nanos().saturating_sub(rest.as_nanos())),
            packet,
            serialized,
        })
    }
}

/// Packets by what became of them here. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// On the line.
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
    uplink: Uplink,
    downlink: Downlink,
    /// But for drops, which each direction counts.
    counters: Counters,
}

impl Interface {
    pub fn new(config: Config) -> Interface {
        Interface { uplink: Uplink::new(&config), downlink: Downlink::new(&config), counters: Counters::default() }
    }

    pub fn counters(&self) -> Counters {
        Counters { dropped: self.uplink.drops() + self.downlink.drops(), ..self.counters }
    }

    /// When something happens here without anybody's doing: a departure or a delivery.
    #[inline]
    pub fn next_deadline(&self) -> Option<SimTime> {
        let [refill, delivery] =
            [self.uplink.next_deadline(), self.next_delivery()].map(|time| time.unwrap_or(SimTime::MAX));
        Some(refill.min(delivery)).filter(|time| *time != SimTime::MAX)
    }

    /// Takes a packet from the stack. The queue discipline decides what becomes of it, and tells at once.
    #[inline]
    pub fn send(&mut self, now: SimTime, frame: Frame) -> Verdict {
        self.uplink.send(now, frame)
    }

    /// The next packet that goes onto the line. To be called after `send`, and at deadlines, until there is none.
    #[inline]
    pub fn poll_departure(&mut self, now: SimTime) -> Option<Departure> {
        let (at, packet) = self.uplink.poll(now)?;
        let bytes = packet.wire_len() as u64;
        self.counters.sent += packet.segments() as u64;
        self.counters.sent_bytes += bytes;
        Some(Departure { at, packet, serialized: self.uplink.serialization(now, bytes) })
    }

    /// When whoever waits for completions is to hear of them. It is no deadline of `next_deadline`, since often nobody does.
    #[inline]
    pub fn next_completion(&self) -> Option<SimTime> {
        self.uplink.next_completion()
    }

    /// A frame with a flow whose last bit has left by now, or which a queue has dropped.
    #[inline]
    pub fn poll_completion(&mut self, now: SimTime) -> Option<Completion> {
        self.uplink.poll_completion(now)
    }

    /// Takes a packet whose last bit has come to the router before the downlink, having taken `serialized` on its sender's line.
    #[inline]
    pub fn receive(&mut self, now: SimTime, packet: Box<Packet>, serialized: SimDuration) {
        self.downlink.receive(now, packet, serialized);
    }

    /// From now on, what the queue before the uplink drops is kept for `take_dropped`.
    pub fn watch_drops(&mut self) {
        self.uplink.watch_drops();
    }

    /// The packets that the queue before the uplink has dropped since last asked: the number of each, and how many it is.
    pub fn take_dropped(&mut self) -> Vec<(u64, u64)> {
        self.uplink.take_dropped()
    }

    /// What has come to the router, and the host does not have yet.
    pub fn incoming(&self) -> impl Iterator<Item = &Packet> {
        self.downlink.incoming()
    }

    /// When `poll_delivery` has something to give.
    #[inline]
    pub fn next_delivery(&self) -> Option<SimTime> {
        self.downlink.next_delivery()
    }

    /// The next packet that the host has by now.
    #[inline]
    pub fn poll_delivery(&mut self, now: SimTime) -> Option<Box<Packet>> {
        let packet = self.downlink.poll(now)?;
        self.counters.delivered += packet.segments() as u64;
        self.counters.delivered_bytes += packet.wire_len() as u64;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, ms, taken, us};

    fn interface(up: u64, down: u64) -> Interface {
        Interface::new(Config {
            up: Bandwidth::from_bits_per_sec(up),
            down: Bandwidth::from_bits_per_sec(down),
            model: Model::Gnomon,
            discipline: Discipline::FqCodel,
            bootstrap_end: SimTime::ZERO,
            coalescing: SimDuration::ZERO,
            perturbation: 1,
        })
    }

    fn sent(interface: &mut Interface, now: SimTime) -> Vec<Departure> {
        std::iter::from_fn(|| interface.poll_departure(now)).collect()
    }

    #[test]
    fn a_packet_takes_the_slower_line_once() {
        let mut sender = interface(10_000_000, 1_000_000);
        let mut receiver = interface(1_000_000, 1_000_000);
        taken(sender.send(ms(1), frame(1, 1_500, 0)));
        let left = sent(&mut sender, ms(1)).remove(0);
        assert_eq!((left.at, left.serialized), (us(2_200), SimDuration::from_micros(1_200)));
        let arrival = left.at + SimDuration::from_millis(50);
        receiver.receive(arrival, left.packet.clone(), left.serialized);
        // 12 ms in all, of which 1.2 were the sender's.
        assert_eq!(receiver.poll_delivery(arrival), None);
        assert_eq!(receiver.next_deadline(), Some(us(52_200 + 10_800)));
        assert_eq!(receiver.poll_delivery(us(63_000)), Some(left.packet));
        assert_eq!(receiver.next_deadline(), None);
        let counters = receiver.counters();
        assert_eq!((counters.delivered, counters.delivered_bytes, counters.dropped), (1, 1_500, 0));
    }

    /// Both directions have a bucket, and what has waited at the sender's waits at the receiver's again.
    #[test]
    fn shadows_packets_take_both_lines() {
        let config = Config {
            up: Bandwidth::from_bits_per_sec(1_000_000),
            down: Bandwidth::from_bits_per_sec(1_000_000),
            model: Model::Shadow,
            discipline: Discipline::Fifo,
            bootstrap_end: SimTime::ZERO,
            coalescing: SimDuration::ZERO,
            perturbation: 1,
        };
        let slow = Config { down: Bandwidth::from_bits_per_sec(500_000), ..config };
        let (mut sender, mut receiver) = (Interface::new(config), Interface::new(slow));
        (0..4).for_each(|i| taken(sender.send(us(100), frame(1, 1_500, i))));
        let mut left = sent(&mut sender, us(100));
        while let Some(next) = sender.next_deadline() {
            left.extend(sent(&mut sender, next));
        }
        let times: Vec<SimTime> = left.iter().map(|departure| departure.at).collect();
        // 125 bytes a millisecond, and 125 are left of the first 1,625.
        assert_eq!(times, [us(100), ms(11), ms(23), ms(35)]);
        let way = SimDuration::from_micros(50_500);
        let mut left: std::collections::VecDeque<Departure> = left.into();
        let mut came = Vec::new();
        loop {
            let arrival = left.front().map(|departure| departure.at + way);
            let Some(now) = [arrival, receiver.next_deadline()].into_iter().flatten().min() else { break };
            came.extend(receiver.poll_delivery(now).map(|_| now));
            if arrival == Some(now)
                && let Some(Departure { packet, serialized, .. }) = left.pop_front()
            {
                receiver.receive(now, packet, serialized);
            }
        }
        // 62 bytes a millisecond, and 62 are left of the first 1,562.
        assert_eq!(came, [us(50_600), ms(74), ms(98), ms(122)]);
    }

    #[test]
    fn what_is_dropped_is_counted_in_both_directions() {
        let mut interface = interface(1_000_000, 1_000_000);
        (0..10_300).for_each(|i| drop(interface.send(SimTime::ZERO, frame(u64::from(i) % 50, 100, i))));
        // 31 of 100 bytes fill 24 ms of the line; the others are 29 too many for fq_codel, which drops 64 then.
        assert_eq!(interface.counters().dropped, 64);
        let packet = frame(1, 1_500, 0).packet;
        (0..1_100).for_each(|_| interface.receive(SimTime::ZERO, packet.clone(), SimDuration::ZERO));
        assert!(interface.counters().dropped >= 64 + 99, "{:?}", interface.counters());
        assert_eq!(interface.counters().sent, 0);
        assert_eq!(sent(&mut interface, SimTime::ZERO).len() as u64, interface.counters().sent);
    }
}
