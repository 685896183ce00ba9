//! A queue under CoDel, and an exact line.
//!
//! A line of known rate behind a first-in-first-out queue is fully described by the moment at which it is free, so a packet's fate is
//! known when it comes: no event is needed but its delivery.

use super::codel::Codel;
use crate::wire::{Wire, queue_limit};
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
    /// Behind the router, in the order in which the host gets them.
    arriving: VecDeque<(SimTime, Packet)>,
    drops: u64,
}

/// Waits up to this long come from rounding to nanoseconds and are no queue.
const ROUNDING: SimDuration = SimDuration::from_nanos(1);

impl Line {
    pub(crate) fn new(rate: Bandwidth, bootstrap_end: SimTime) -> Line {
        let (wire, codel, limit) = (Wire::new(rate), Codel::new(rate), queue_limit(rate));
        Line { wire, codel, limit, bootstrap_end, arriving: VecDeque::new(), drops: 0 }
    }

    pub(crate) fn receive(&mut self, now: SimTime, packet: Packet, serialized: SimDuration) {
        match self.arrival(now, packet.wire_len() as u64, serialized) {
            Ok(at) => self.arriving.push_back((at, packet)),
            Err(Dropped) => self.drops += 1,
        }
    }

    pub(crate) fn next_delivery(&self) -> Option<SimTime> {
        self.arriving.front().map(|(at, _)| *at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Packet> {
        self.next_delivery().filter(|at| *at <= now)?;
        self.arriving.pop_front().map(|(_, packet)| packet)
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

    /// Of a line that has nothing else to send.
    fn left(line: &mut Wire, now: SimTime, bytes: u64) -> SimTime {
        line.occupy(now, bytes)
    }

    #[test]
    fn one_flow_fills_equal_links_without_queueing_at_the_receiver() {
        let mut up = Wire::new(GBIT);
        let mut down = Line::new(GBIT, SimTime::ZERO);
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
            let mut down = Line::new(rate, SimTime::ZERO);
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
        let mut down = Line::new(MBIT, SimTime::ZERO);
        let left = start + SimDuration::from_micros(12);
        let got = down.arrival(left, 1_500, GBIT.transmission_time(1_500)).unwrap();
        assert_eq!(got - start, SimDuration::from_millis(12));
        let mut fast = Line::new(GBIT, SimTime::ZERO);
        let left = start + SimDuration::from_millis(12);
        assert_eq!(fast.arrival(left, 1_500, MBIT.transmission_time(1_500)), Ok(left));
    }

    #[test]
    fn bootstrapping_lifts_every_limit() {
        let end = SimTime::from_nanos(1_000);
        let mut down = Line::new(MBIT, end);
        let now = SimTime::from_nanos(999);
        for _ in 0..5_000 {
            assert_eq!(down.arrival(now, 1_500, SimDuration::ZERO), Ok(now));
        }
        assert_eq!(down.arrival(end, 1_500, SimDuration::ZERO), Ok(end + SimDuration::from_millis(12)));
    }

    /// A sender that ignores losses at twice the line's rate: the queue is tail-dropped, the line stays full.
    #[test]
    fn an_overloaded_downlink_delivers_at_its_rate() {
        let mut down = Line::new(Bandwidth::from_bits_per_sec(10_000_000), SimTime::ZERO);
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
        let mut down = Line::new(Bandwidth::from_bits_per_sec(10_000_000), SimTime::ZERO);
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
}
