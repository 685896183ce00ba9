//! A queue under CoDel, and an exact line.
//!
//! A line of known rate behind a first-in-first-out queue is fully described by the moment at which it is free, so a packet's fate is
//! known when it comes: no event is needed but its delivery.

use super::codel::Codel;
use crate::wire::{Wire, queue_limit, share};
use base::{Bandwidth, SimDuration, SimTime};
use std::collections::VecDeque;
use tcpip::Packet;

/// The packet does not fit, or CoDel chose it: it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dropped;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    wire: Wire,
    codel: Codel,
    limit: SimDuration,
    bootstrap_end: SimTime,
    /// A train that takes the line no longer may pass as one.
    coalescing: SimDuration,
    /// Behind the router, in the order in which the host gets them.
    arriving: VecDeque<(SimTime, Box<Packet>)>,
    drops: u64,
}

/// Waits up to this long come from rounding to nanoseconds and are no queue.
const ROUNDING: SimDuration = SimDuration::from_nanos(1);

impl Line {
    pub(crate) fn new(rate: Bandwidth, bootstrap_end: SimTime, coalescing: SimDuration) -> Line {
        let (wire, codel, limit) = (Wire::new(rate), Codel::new(rate), queue_limit(rate));
        Line { wire, codel, limit, bootstrap_end, coalescing, arriving: VecDeque::new(), drops: 0 }
    }

    /// What waits here, or is sent more slowly than it came, is no train any more: its segments stand in the queue one by one, each from
    /// the moment at which its own last bit came.
    pub(crate) fn receive(&mut self, now: SimTime, mut packet: Box<Packet>, serialized: SimDuration) {
        if packet.segments() == 1 || self.passes_whole(now, &packet, serialized) {
            return self.receive_one(now, now, packet, serialized);
        }
        let whole = packet.wire_len();
        while let Some(first) = packet.split_first() {
            let behind = share(serialized, packet.wire_len(), whole);
            let came = SimTime::from_nanos(now.as_nanos().saturating_sub(behind.as_nanos()));
            let serialized = share(serialized, first.wire_len(), whole);
            self.receive_one(now, came, first.into(), serialized);
        }
        let serialized = share(serialized, packet.wire_len(), whole);
        self.receive_one(now, now, packet, serialized);
    }

    #[inline]
    fn receive_one(&mut self, now: SimTime, came: SimTime, packet: Box<Packet>, serialized: SimDuration) {
        match self.arrival(came, packet.wire_len() as u64, serialized) {
            Ok(at) => self.arriving.push_back((at.max(now), packet)),
            Err(Dropped) => self.drops += 1,
        }
    }

    /// Whether a train finds the line idle, no slower than its sender's, and is short.
    fn passes_whole(&mut self, now: SimTime, packet: &Packet, serialized: SimDuration) -> bool {
        let time_on_wire = self.wire.transmission_time(packet.wire_len() as u64);
        let ready = SimTime::from_nanos(now.as_nanos().saturating_sub(serialized.as_nanos()));
        let idle = self.wire.wait(ready) <= ROUNDING && time_on_wire.saturating_sub(serialized) <= ROUNDING;
        now < self.bootstrap_end || (idle && time_on_wire <= self.coalescing)
    }

    #[inline]
    pub(crate) fn next_delivery(&self) -> Option<SimTime> {
        self.arriving.front().map(|(at, _)| *at)
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Box<Packet>> {
        self.next_delivery().filter(|at| *at <= now)?;
        self.arriving.pop_front().map(|(_, packet)| packet)
    }

    pub(crate) fn incoming(&self) -> impl Iterator<Item = &Packet> {
        self.arriving.iter().map(|(_, packet)| &**packet)
    }

    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// A packet of `bytes` (with its IP header) reaches the router at `now`; returns when the host has it, which is `now`
    /// when the line is free and no slower than the sender's. `serialized` is the time that the packet took on the sender's
    /// uplink (`Uplink::serialization`): a packet is serialised once, by the slower of the two lines.
    fn arrival(&mut self, now: SimTime, bytes: u64, serialized: SimDuration) -> Result<SimTime, Dropped> {
        if now < self.bootstrap_end {
            return Ok(now);
        }
        let time_on_wire = self.wire.transmission_time(bytes);
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
    use crate::qdisc::tests::{train, us};
    use base::SeedTree;

    const GBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000);
    const MBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000);

    /// Trains of up to 100 us pass it.
    fn line(rate: Bandwidth) -> Line {
        Line::new(rate, SimTime::ZERO, SimDuration::from_micros(100))
    }

    /// Of a line that has nothing else to send.
    fn left(line: &mut Wire, now: SimTime, bytes: u64) -> SimTime {
        line.occupy(now, bytes)
    }

    #[test]
    fn one_flow_fills_equal_links_without_queueing_at_the_receiver() {
        let mut up = Wire::new(GBIT);
        let mut down = line(GBIT);
        let latency = SimDuration::from_millis(10);
        let (mut now, mut last) = (SimTime::ZERO, SimTime::ZERO);
        let packets = 83_333u64;
        for _ in 0..packets {
            now = left(&mut up, now, 1_500);
            last = down.arrival(now + latency, 1_500, GBIT.transmission_time(1_500)).unwrap();
            assert_eq!(last, now + latency);
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
            let mut up = Wire::new(rate);
            let mut down = line(rate);
            let mut now = SimTime::from_nanos(1_000_000_000);
            for _ in 0..2_000 {
                let bytes = 40 + rng.below(1_461);
                now = left(&mut up, now, bytes);
                let got = down.arrival(now, bytes, rate.transmission_time(bytes)).unwrap();
                assert!(got.saturating_since(now) <= SimDuration::from_nanos(2), "{rate}: {now} {got}");
            }
        }
    }

    #[test]
    fn a_packet_is_serialised_by_the_slower_line() {
        let start = SimTime::from_nanos(1_000_000_000);
        let mut down = line(MBIT);
        let left = start + SimDuration::from_micros(12);
        let got = down.arrival(left, 1_500, GBIT.transmission_time(1_500)).unwrap();
        assert_eq!(got - start, SimDuration::from_millis(12));
        let mut fast = line(GBIT);
        let left = start + SimDuration::from_millis(12);
        assert_eq!(fast.arrival(left, 1_500, MBIT.transmission_time(1_500)), Ok(left));
    }

    #[test]
    fn bootstrapping_lifts_every_limit() {
        let end = SimTime::from_nanos(1_000);
        let mut down = Line::new(MBIT, end, SimDuration::ZERO);
        let now = SimTime::from_nanos(999);
        for _ in 0..5_000 {
            assert_eq!(down.arrival(now, 1_500, SimDuration::ZERO), Ok(now));
        }
        assert_eq!(down.arrival(end, 1_500, SimDuration::ZERO), Ok(end + SimDuration::from_millis(12)));
    }

    /// A sender that ignores losses at twice the line's rate: the queue is tail-dropped, the line stays full.
    #[test]
    fn an_overloaded_downlink_delivers_at_its_rate() {
        let mut down = line(Bandwidth::from_bits_per_sec(10_000_000));
        let (mut delivered, mut last) = (0u64, SimTime::ZERO);
        for i in 0..200_000u64 {
            let now = SimTime::from_nanos(1_000_000 + i * 600_000);
            if let Ok(at) = down.arrival(now, 1_500, SimDuration::ZERO) {
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
        let mut down = line(Bandwidth::from_bits_per_sec(10_000_000));
        let (mut now, mut gap, mut delays) = (SimTime::from_nanos(1_000_000), 1_000_000u64, Vec::new());
        for _ in 0..100_000 {
            match down.arrival(now, 1_500, SimDuration::from_nanos(1_200_000)) {
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

    /// What has come: each packet's number, segments and time.
    fn came(line: &Line) -> Vec<(u32, usize, SimTime)> {
        line.arriving.iter().map(|(at, packet)| (packet.ip.id, packet.segments(), *at)).collect()
    }

    /// Three segments, of 1,500, 1,500 and 140 bytes.
    fn receive_train(line: &mut Line, now: SimTime, name: u32, sent_by: Bandwidth) {
        let packet = train(name).packet;
        let serialized = sent_by.transmission_time(packet.wire_len() as u64);
        line.receive(now, packet, serialized);
    }

    #[test]
    fn a_train_passes_an_idle_line_as_one() {
        let mut down = line(GBIT);
        receive_train(&mut down, us(100), 0, GBIT);
        receive_train(&mut down, us(126), 10, GBIT);
        assert_eq!(came(&down), [(0, 3, us(100)), (10, 3, us(126))]);
    }

    /// Each segment is sent on when its own last bit has come, and not when the train's has.
    #[test]
    fn a_slower_line_takes_a_train_apart() {
        let mut down = line(Bandwidth::from_bits_per_sec(500_000_000));
        receive_train(&mut down, SimTime::from_nanos(125_120), 0, GBIT);
        // It began at 100 us. The first two take 24 us each, the last one 2.24.
        let times = [125_120, 148_000, 150_240].map(SimTime::from_nanos);
        assert_eq!(came(&down), [(0, 1, times[0]), (1, 1, times[1]), (2, 1, times[2])]);
    }

    #[test]
    fn a_train_that_waits_is_no_train_any_more() {
        let mut down = line(GBIT);
        receive_train(&mut down, us(100), 0, GBIT);
        // From another sender, 12 us later.
        receive_train(&mut down, us(112), 10, GBIT);
        let times = [112_000, 124_000, 125_120].map(SimTime::from_nanos);
        assert_eq!(came(&down)[1..], [(10, 1, times[0]), (11, 1, times[1]), (12, 1, times[2])]);
    }

    /// The queue stands at 50 ms for longer than CoDel's interval: one segment goes, and not all of a train.
    #[test]
    fn codel_takes_one_segment_of_a_train() {
        let mut down = line(Bandwidth::from_bits_per_sec(100_000_000));
        for i in 0..400 {
            down.arrival(us(1_000), 1_500, SimDuration::from_micros(12)).unwrap_or_else(|_| panic!("{i} is dropped"));
        }
        let before = down.drops;
        let mut sent = 0;
        while down.drops == before {
            sent += 1;
            receive_train(&mut down, us(1_000 + 251 * sent), 10 * sent as u32, GBIT);
        }
        assert_eq!(down.drops, before + 1, "of train {sent}");
        assert!(came(&down).iter().all(|(_, segments, _)| *segments == 1));
    }

    /// A queue that is full but for one packet takes one of a train.
    #[test]
    fn a_full_queue_takes_what_fits_of_a_train() {
        let mut down = line(GBIT);
        while down.wire.wait(us(1)) + GBIT.transmission_time(1_500) < down.limit {
            down.arrival(us(1), 1_500, SimDuration::ZERO).unwrap();
        }
        receive_train(&mut down, us(1), 0, Bandwidth::from_bits_per_sec(10_000_000_000_000));
        let names: Vec<u32> = came(&down).iter().map(|(name, ..)| *name).collect();
        assert!(!names.is_empty() && down.drops > 0, "{names:?} came, {} dropped", down.drops);
    }
}
