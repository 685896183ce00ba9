//! A host's access link: the uplink that its packets leave by and the downlink that the others' arrive by.
//!
//! Both are owned by the host and touched by one worker at a time. Neither needs an event of its own in the common case: a
//! line of known rate with a first-in-first-out queue is fully described by the moment at which it is free, so a packet's
//! departure is known when it is handed over. Only round-robin, where a later packet may overtake an earlier one, keeps
//! packets and asks to be called again (`Uplink::next_departure`).

use crate::codel::Codel;
use crate::wire::{Wire, queue_limit};
use base::map::FastMap;
use base::{Bandwidth, SimDuration, SimTime};
use std::collections::VecDeque;

/// The packet does not fit, or CoDel chose it: it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

/// In which order an uplink sends what its host's sockets have handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In the order of handing over.
    Fifo,
    /// One packet of each socket in turn.
    RoundRobin,
}

/// What became of a packet that was handed to an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent<P> {
    /// Its last bit leaves at this time.
    Departs(SimTime, P),
    /// It waits for its turn: call `next_departure` and `pop`.
    Queued,
    /// The queue is full.
    Dropped(P),
}

/// The way out of a host. `P` is whatever stands for a packet.
#[derive(Clone, Debug)]
pub struct Uplink<P> {
    wire: Wire,
    limit: SimDuration,
    bootstrap_end: SimTime,
    turns: Option<Turns<P>>,
}

impl<P> Uplink<P> {
    /// `rate` must be more than 0. Until `bootstrap_end` every packet departs at once.
    pub fn new(rate: Bandwidth, discipline: Discipline, bootstrap_end: SimTime) -> Self {
        let turns = (discipline == Discipline::RoundRobin).then(Turns::default);
        Uplink { wire: Wire::new(rate), limit: queue_limit(rate), bootstrap_end, turns }
    }

    /// Hands over a packet of `bytes` (with its IP header) at `now`. `flow` names the socket that it comes from; only
    /// round-robin looks at it. Calls must come in the order of time.
    pub fn send(&mut self, now: SimTime, flow: u64, bytes: u64, packet: P) -> Sent<P> {
        if now < self.bootstrap_end {
            return Sent::Departs(now, packet);
        }
        if self.backlog(now) > self.limit {
            return Sent::Dropped(packet);
        }
        match &mut self.turns {
            Some(turns) if self.wire.free_at() > now || turns.bytes > 0 => {
                turns.push(flow, bytes, packet);
                Sent::Queued
            }
            _ => Sent::Departs(self.wire.occupy(now, bytes), packet),
        }
    }

    /// When `pop` is to be called; None when nothing waits.
    pub fn next_departure(&self) -> Option<SimTime> {
        self.turns.as_ref().filter(|turns| turns.bytes > 0).map(|_| self.wire.free_at())
    }

    /// Takes the next waiting packet, with the time at which its last bit leaves, if the line is free at `now`.
    pub fn pop(&mut self, now: SimTime) -> Option<(SimTime, P)> {
        if self.wire.free_at() > now {
            return None;
        }
        let (bytes, packet) = self.turns.as_mut()?.pop()?;
        Some((self.wire.occupy(now, bytes), packet))
    }

    /// How long a packet handed over now would wait before its first bit leaves. A stack that holds packets back while this
    /// is long (as Linux does, tcp_limit_output_bytes in tcp(7)) loses none here.
    pub fn backlog(&self, now: SimTime) -> SimDuration {
        let waiting = self.turns.as_ref().map_or(0, |turns| turns.bytes);
        let queued = if waiting == 0 { SimDuration::ZERO } else { self.wire.rate().transmission_time(waiting) };
        self.wire.wait(now) + queued
    }

    /// How long `bytes` take on this line: what `Downlink::receive` wants to know of the sender's.
    pub fn serialization(&self, now: SimTime, bytes: u64) -> SimDuration {
        if now < self.bootstrap_end { SimDuration::ZERO } else { self.wire.rate().transmission_time(bytes) }
    }
}

/// Packets by the socket that they come from, and whose turn it is.
#[derive(Clone, Debug)]
struct Turns<P> {
    /// Queues, reused when they are empty; `slot_of_flow` names those in use.
    queues: Vec<(u64, VecDeque<(u64, P)>)>,
    slot_of_flow: FastMap<u64, u32>,
    unused: Vec<u32>,
    turn: VecDeque<u32>,
    bytes: u64,
}

impl<P> Default for Turns<P> {
    fn default() -> Self {
        Turns {
            queues: Vec::new(),
            slot_of_flow: FastMap::default(),
            unused: Vec::new(),
            turn: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<P> Turns<P> {
    fn push(&mut self, flow: u64, bytes: u64, packet: P) {
        let slot = match self.slot_of_flow.get(&flow) {
            Some(&slot) => slot,
            None => self.open(flow),
        };
        self.queues[slot as usize].1.push_back((bytes, packet));
        self.bytes += bytes;
    }

    fn open(&mut self, flow: u64) -> u32 {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.queues.push((flow, VecDeque::new()));
            (self.queues.len() - 1) as u32
        });
        self.queues[slot as usize].0 = flow;
        self.slot_of_flow.insert(flow, slot);
        self.turn.push_back(slot);
        slot
    }

    fn pop(&mut self) -> Option<(u64, P)> {
        let slot = self.turn.pop_front()?;
        let (flow, queue) = &mut self.queues[slot as usize];
        let (bytes, packet) = queue.pop_front()?;
        self.bytes -= bytes;
        if queue.is_empty() {
            self.slot_of_flow.remove(flow);
            self.unused.push(slot);
        } else {
            self.turn.push_back(slot);
        }
        Some((bytes, packet))
    }
}

/// The way into a host: the last router's queue, managed by CoDel, and the line behind it.
#[derive(Clone, Debug)]
pub struct Downlink {
    wire: Wire,
    codel: Codel,
    limit: SimDuration,
    bootstrap_end: SimTime,
}

/// Waits up to this long come from rounding to nanoseconds and are no queue.
const ROUNDING: SimDuration = SimDuration::from_nanos(1);

impl Downlink {
    /// `rate` must be more than 0. Until `bootstrap_end` every packet is delivered at once.
    pub fn new(rate: Bandwidth, bootstrap_end: SimTime) -> Self {
        Downlink { wire: Wire::new(rate), codel: Codel::new(rate), limit: queue_limit(rate), bootstrap_end }
    }

    /// A packet of `bytes` (with its IP header) reaches the router at `now`; returns when the host has it, which is `now`
    /// when the line is free and no slower than the sender's. `serialized` is the time that the packet took on the sender's
    /// uplink (`Uplink::serialization`): a packet is serialised once, by the slower of the two lines. Calls must come in the
    /// order of time.
    pub fn receive(&mut self, now: SimTime, bytes: u64, serialized: SimDuration) -> Result<SimTime, Dropped> {
        if now < self.bootstrap_end {
            return Ok(now);
        }
        let time_on_wire = self.wire.rate().transmission_time(bytes);
        let if_idle = now + time_on_wire.saturating_sub(serialized);
        let ready = SimTime::from_nanos(if_idle.as_nanos().saturating_sub(time_on_wire.as_nanos()));
        let wait = self.wire.wait(ready);
        if wait > self.limit || self.codel.drops(self.wire.start(ready), wait) {
            return Err(Dropped);
        }
        let done = self.wire.occupy(ready, bytes);
        Ok(if wait <= ROUNDING { if_idle } else { done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    const GBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000);
    const MBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000);

    fn departs<P: std::fmt::Debug>(sent: Sent<P>) -> SimTime {
        match sent {
            Sent::Departs(at, _) => at,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_flow_fills_equal_links_without_queueing_at_the_receiver() {
        let mut up = Uplink::new(GBIT, Discipline::Fifo, SimTime::ZERO);
        let mut down = Downlink::new(GBIT, SimTime::ZERO);
        let latency = SimDuration::from_millis(10);
        let (mut now, mut last) = (SimTime::ZERO, SimTime::ZERO);
        let packets = 83_333u64;
        for _ in 0..packets {
            let left = departs(up.send(now, 0, 1_500, ()));
            last = down.receive(left + latency, 1_500, up.serialization(now, 1_500)).unwrap();
            assert_eq!(last, left + latency);
            now = left;
        }
        let seconds = last.saturating_since(SimTime::ZERO + latency).as_secs_f64();
        let goodput = packets as f64 * 1_448.0 * 8.0 / seconds;
        assert!(goodput > 0.94e9, "{goodput}");
        assert!((seconds - 1.0).abs() < 0.001, "{seconds}");
    }

    #[test]
    fn odd_rates_make_no_queue_out_of_rounding() {
        let mut rng = SeedTree::new(4).stream("", "links");
        for _ in 0..50 {
            let rate = Bandwidth::from_bits_per_sec(1_000_000 + rng.below(9_999_999_999));
            let mut up = Uplink::new(rate, Discipline::Fifo, SimTime::ZERO);
            let mut down = Downlink::new(rate, SimTime::ZERO);
            let mut now = SimTime::from_nanos(1_000_000_000);
            for _ in 0..2_000 {
                let bytes = 40 + rng.below(1_461);
                let left = departs(up.send(now, 0, bytes, ()));
                let got = down.receive(left, bytes, up.serialization(now, bytes)).unwrap();
                assert!(got.saturating_since(left) <= SimDuration::from_nanos(2), "{rate}: {left} {got}");
                now = left;
            }
        }
    }

    #[test]
    fn a_packet_is_serialised_by_the_slower_line() {
        let start = SimTime::from_nanos(1_000_000_000);
        let mut up = Uplink::new(GBIT, Discipline::Fifo, SimTime::ZERO);
        let mut down = Downlink::new(MBIT, SimTime::ZERO);
        let left = departs(up.send(start, 0, 1_500, ()));
        assert_eq!(left - start, SimDuration::from_micros(12));
        let got = down.receive(left, 1_500, up.serialization(start, 1_500)).unwrap();
        assert_eq!(got - start, SimDuration::from_millis(12));
        let mut slow = Uplink::new(MBIT, Discipline::Fifo, SimTime::ZERO);
        let mut fast = Downlink::new(GBIT, SimTime::ZERO);
        let left = departs(slow.send(start, 0, 1_500, ()));
        assert_eq!(left - start, SimDuration::from_millis(12));
        assert_eq!(fast.receive(left, 1_500, slow.serialization(start, 1_500)), Ok(left));
    }

    #[test]
    fn an_uplink_queue_is_bounded_and_drops_at_its_tail() {
        let mut up = Uplink::new(MBIT, Discipline::Fifo, SimTime::ZERO);
        let sent = (0..2_000).take_while(|&i| matches!(up.send(SimTime::ZERO, 0, 1_500, i), Sent::Departs(..))).count();
        assert_eq!(sent, 1_001);
        assert_eq!(up.backlog(SimTime::ZERO), SimDuration::from_millis(12 * 1_001));
        let later = SimTime::from_nanos(12_000_000);
        assert!(matches!(up.send(later, 0, 1_500, 0), Sent::Departs(..)));
    }

    #[test]
    fn bootstrapping_lifts_every_limit() {
        let end = SimTime::from_nanos(1_000);
        let mut up = Uplink::new(MBIT, Discipline::RoundRobin, end);
        let mut down = Downlink::new(MBIT, end);
        let now = SimTime::from_nanos(999);
        for _ in 0..5_000 {
            assert_eq!(up.send(now, 0, 1_500, ()), Sent::Departs(now, ()));
            assert_eq!(down.receive(now, 1_500, up.serialization(now, 1_500)), Ok(now));
        }
        assert_eq!(departs(up.send(end, 0, 1_500, ())) - end, SimDuration::from_millis(12));
    }

    #[test]
    fn round_robin_takes_turns_between_sockets() {
        let mut up = Uplink::new(GBIT, Discipline::RoundRobin, SimTime::ZERO);
        let mut now = SimTime::from_nanos(500);
        assert_eq!(departs(up.send(now, 1, 1_500, "a0")), SimTime::from_nanos(12_500));
        for (flow, packet) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (2, "b2"), (3, "c1")] {
            assert_eq!(up.send(now, flow, 1_500, packet), Sent::Queued);
        }
        assert_eq!(up.pop(now), None);
        let mut order = Vec::new();
        while let Some(next) = up.next_departure() {
            assert_eq!(next - now, SimDuration::from_micros(12));
            now = next;
            let (left, packet) = up.pop(now).unwrap();
            assert_eq!(left - now, SimDuration::from_micros(12));
            order.push(packet);
        }
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!(up.backlog(now), SimDuration::from_micros(12));
        assert!(matches!(up.send(now + SimDuration::from_micros(12), 9, 1_500, "d"), Sent::Departs(..)));
    }

    #[test]
    fn round_robin_queues_are_bounded_too() {
        let mut up = Uplink::new(MBIT, Discipline::RoundRobin, SimTime::ZERO);
        let kept =
            (0..3_000).take_while(|&i| !matches!(up.send(SimTime::ZERO, i % 7, 1_500, i), Sent::Dropped(_))).count();
        assert_eq!(kept, 1_001);
    }

    /// A sender that ignores losses at twice the line's rate: the queue is tail-dropped, the line stays full.
    #[test]
    fn an_overloaded_downlink_delivers_at_its_rate() {
        let mut down = Downlink::new(Bandwidth::from_bits_per_sec(10_000_000), SimTime::ZERO);
        let (mut delivered, mut last) = (0u64, SimTime::ZERO);
        for i in 0..200_000u64 {
            let now = SimTime::from_nanos(1_000_000 + i * 600_000);
            if let Ok(at) = down.receive(now, 1_500, SimDuration::ZERO) {
                assert!(at >= last && at >= now);
                (delivered, last) = (delivered + 1_500, at);
            }
        }
        let rate = delivered as f64 * 8.0 / last.saturating_since(SimTime::ZERO).as_secs_f64();
        assert!((rate / 1e7 - 1.0).abs() < 0.01, "{rate} bit/s");
    }

    /// A sender that halves its rate on loss and creeps up otherwise: CoDel keeps the standing delay near its target.
    #[test]
    fn codel_keeps_the_standing_queue_short() {
        let mut down = Downlink::new(Bandwidth::from_bits_per_sec(10_000_000), SimTime::ZERO);
        let (mut now, mut gap, mut delays) = (SimTime::from_nanos(1_000_000), 1_000_000u64, Vec::new());
        for _ in 0..100_000 {
            match down.receive(now, 1_500, SimDuration::from_nanos(1_200_000)) {
                Ok(at) => delays.push((at - now).as_millis()),
                Err(Dropped) => gap = (gap * 5 / 4).min(2_400_000),
            }
            gap = (gap - gap / 20_000).max(600_000);
            now += SimDuration::from_nanos(gap);
        }
        let late = &delays[delays.len() / 2..];
        let mean = late.iter().sum::<u64>() / late.len() as u64;
        assert!(mean < 30, "mean queueing delay {mean} ms");
    }
}
