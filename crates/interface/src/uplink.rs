//! The way out of a host: a queue discipline, and the line behind it.
//!
//! The line takes packets from the queue while it has less than a millisecond (or two full packets) to send, and takes the next ones
//! when half of that is gone: so much a driver's ring holds under byte queue limits on Linux, and what lies in it is no longer in the
//! queue's hands. A packet's departure is known when the line takes it, and exact; a queue costs an event for each half of a ring.
//!
//! Under Shadow's model the line is a relay that takes one packet at a time and holds it until its bucket has the tokens; then the packet
//! has left.

use crate::frame::Frame;
use crate::interface::{Config, Model};
use crate::qdisc::{Queue, Verdict};
use crate::token_bucket::TokenBucket;
use crate::wire::{MTU_BYTES, Wire};
use base::{SimDuration, SimTime};
use std::collections::VecDeque;
use tcpip::{Packet, SocketId};

/// How much the line takes in advance.
const RING: SimDuration = SimDuration::from_millis(1);
const RING_PACKETS: u64 = 2;

/// Whoever waits for packets to be gone hears of it at most this much later, with those that went meanwhile: a network card's
/// interrupts are rarer than its packets.
const COALESCING: SimDuration = SimDuration::from_micros(250);

/// A frame of this socket is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub flow: SocketId,
    /// As [`Frame`] said it.
    pub charge: u32,
}

impl Completion {
    fn of(frame: &Frame) -> Option<Completion> {
        let Frame { flow, charge, .. } = *frame;
        flow.filter(|_| charge > 0).map(|flow| Completion { flow, charge })
    }
}

#[derive(Clone, Debug)]
enum Line {
    Exact {
        wire: Wire,
        /// What it takes in advance, as time.
        ring: SimDuration,
    },
    Relay {
        bucket: TokenBucket,
        /// A packet, and those of its train behind it.
        held: VecDeque<Frame>,
        /// When there are tokens for the first of them.
        ready_at: SimTime,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Uplink {
    line: Line,
    queue: Queue,
    bootstrap_end: SimTime,
    coalescing: SimDuration,
    /// On the line, and not reported yet.
    departing: VecDeque<(SimTime, Box<Packet>)>,
    /// When their last bit leaves, in that order.
    completions: VecDeque<(SimTime, Completion)>,
    dropped: Vec<Frame>,
    drops: u64,
    /// What was dropped from the queue since last asked, where somebody asks: numbers, and how many packets.
    told: Option<Vec<(u64, u64)>>,
    /// When the line takes the next packets from the queue.
    refill_at: Option<SimTime>,
}

impl Uplink {
    pub(crate) fn new(config: &Config) -> Uplink {
        let Config { up: rate, bootstrap_end, .. } = *config;
        let line = match config.model {
            Model::Gnomon => {
                let ring = RING.max(rate.transmission_time(RING_PACKETS * MTU_BYTES));
                Line::Exact { wire: Wire::new(rate), ring }
            }
            Model::Shadow => {
                Line::Relay { bucket: TokenBucket::new(rate), held: VecDeque::new(), ready_at: SimTime::ZERO }
            }
        };
        Uplink {
            line,
            queue: Queue::new(config.discipline, rate, config.perturbation),
            bootstrap_end,
            coalescing: config.coalescing,
            departing: VecDeque::new(),
            completions: VecDeque::new(),
            dropped: Vec::new(),
            drops: 0,
            told: None,
            refill_at: None,
        }
    }

    /// Takes a frame of the stack, or does not. Calls must come in the order of time.
    pub(crate) fn send(&mut self, now: SimTime, frame: Frame) -> Verdict {
        if now < self.bootstrap_end {
            self.depart_all(now, frame);
        } else if self.takes(now) && self.queue.may_bypass(now, &frame) {
            self.put(now, frame);
        } else {
            let verdict = self.queue.enqueue(now, frame, &mut self.dropped);
            if let Verdict::Refused(frame) = &verdict {
                self.drops += frame.packet.segments() as u64;
            }
            self.forget_dropped(now);
            return verdict;
        }
        Verdict::Taken
    }

    /// The next packet that goes onto the line, with the moment at which its last bit has left.
    pub(crate) fn poll(&mut self, now: SimTime) -> Option<(SimTime, Box<Packet>)> {
        if self.departing.is_empty() {
            if self.is_idle() {
                self.refill_at = None;
                return None;
            }
            self.release(now);
            while self.takes(now)
                && let Some(frame) = self.queue.dequeue(now, &mut self.dropped)
            {
                self.put(now, frame);
            }
            self.forget_dropped(now);
            self.refill_at = self.next_refill(now);
        }
        self.departing.pop_front()
    }

    /// Whether nothing waits to be put on the line.
    #[inline]
    fn is_idle(&self) -> bool {
        self.queue.len() == 0 && !matches!(&self.line, Line::Relay { held, .. } if !held.is_empty())
    }

    /// Packets that the queue has dropped, or not taken.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.refill_at
    }

    fn next_refill(&self, now: SimTime) -> Option<SimTime> {
        match &self.line {
            Line::Relay { held, ready_at, .. } if !held.is_empty() => Some(*ready_at),
            Line::Exact { wire, .. } if !self.takes(now) => {
                let half = SimDuration::from_nanos(wire.wait(now).as_nanos() / 2);
                self.queue.next_time().map(|_| now + half)
            }
            _ => self.queue.next_time().map(|next| next.max(now)),
        }
    }

    /// Whether the line takes another packet.
    #[inline]
    fn takes(&self, now: SimTime) -> bool {
        match &self.line {
            Line::Exact { wire, ring } => wire.wait(now) <= *ring,
            Line::Relay { held, .. } => held.is_empty(),
        }
    }

    /// Gives the line a packet, or the packets of a train.
    fn put(&mut self, now: SimTime, mut frame: Frame) {
        if frame.packet.train_mss > 0 {
            let together = self.together(&frame.packet);
            while let Some(first) = frame.split(together) {
                self.put_one(now, first);
            }
        }
        self.put_one(now, frame);
        self.release(now);
    }

    /// How many segments of a train go as one.
    fn together(&mut self, packet: &Packet) -> usize {
        let Line::Exact { wire, .. } = &mut self.line else { return 1 };
        let each = wire.transmission_time((packet.wire_len() / packet.segments()) as u64);
        (self.coalescing.as_nanos() / each.as_nanos().max(1)).max(1) as usize
    }

    fn put_one(&mut self, now: SimTime, frame: Frame) {
        match &mut self.line {
            Line::Exact { wire, .. } => {
                let at = wire.occupy(now, frame.bytes());
                self.depart(at, frame);
            }
            Line::Relay { held, ready_at, .. } => {
                if held.is_empty() {
                    *ready_at = now;
                }
                held.push_back(frame);
            }
        }
    }

    /// Lets go of what was held, as far as there are tokens.
    fn release(&mut self, now: SimTime) {
        while let Line::Relay { bucket, held, ready_at } = &mut self.line
            && *ready_at <= now
            && let Some(frame) = held.pop_front()
        {
            match bucket.take(now, frame.bytes()) {
                Ok(()) => self.depart(now, frame),
                Err(at) => {
                    *ready_at = at;
                    held.push_front(frame);
                }
            }
        }
    }

    fn depart_all(&mut self, at: SimTime, mut frame: Frame) {
        while let Some(first) = frame.split(1) {
            self.depart(at, first);
        }
        self.depart(at, frame);
    }

    #[inline]
    fn depart(&mut self, at: SimTime, frame: Frame) {
        self.completions.extend(Completion::of(&frame).map(|done| (at, done)));
        self.departing.push_back((at, frame.packet));
    }

    /// Counts what was dropped, and tells the owners.
    fn forget_dropped(&mut self, now: SimTime) {
        for frame in self.dropped.drain(..) {
            self.drops += frame.packet.segments() as u64;
            if let Some(told) = &mut self.told {
                told.push((frame.packet.number, frame.packet.segments() as u64));
            }
            if let Some(done) = Completion::of(&frame) {
                self.completions.push_front((now, done));
            }
        }
    }

    /// When whoever waits for completions is to hear of them.
    #[inline]
    pub(crate) fn next_completion(&self) -> Option<SimTime> {
        let (first, last) = (self.completions.front()?.0, self.completions.back()?.0);
        Some(last.min(first + COALESCING))
    }

    /// A frame that has left, or that was dropped, by now.
    #[inline]
    pub(crate) fn poll_completion(&mut self, now: SimTime) -> Option<Completion> {
        self.completions.front().filter(|(at, _)| *at <= now)?;
        self.completions.pop_front().map(|(_, completion)| completion)
    }

    /// From now on, what the queue drops is kept for `take_dropped`.
    pub(crate) fn watch_drops(&mut self) {
        self.told.get_or_insert_default();
    }

    pub(crate) fn take_dropped(&mut self) -> Vec<(u64, u64)> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How long `bytes` take on this line: what the receiving side wants to know of the sender's.
    #[inline]
    pub(crate) fn serialization(&mut self, now: SimTime, bytes: u64) -> SimDuration {
        match &mut self.line {
            Line::Exact { wire, .. } if now >= self.bootstrap_end => wire.transmission_time(bytes),
            _ => SimDuration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::Discipline;
    use crate::qdisc::tests::{frame, ms, numbers, rejected, socket, taken, train, us};
    use base::Bandwidth;

    const MBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000);
    const GBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000);

    fn uplink(up: Bandwidth, discipline: Discipline) -> Uplink {
        bootstrapping_until(SimTime::ZERO, up, discipline)
    }

    fn bootstrapping_until(bootstrap_end: SimTime, up: Bandwidth, discipline: Discipline) -> Uplink {
        Uplink::new(&Config {
            up,
            down: up,
            model: Model::Gnomon,
            discipline,
            bootstrap_end,
            coalescing: SimDuration::ZERO,
            perturbation: 7,
        })
    }

    /// What has left by `until`: departure and number, as a host's loop polls it.
    fn run(uplink: &mut Uplink, mut now: SimTime, until: SimTime) -> Vec<(SimTime, u32)> {
        let mut seen = Vec::new();
        loop {
            seen.extend(std::iter::from_fn(|| uplink.poll(now)).map(|(at, packet)| (at, packet.ip.id)));
            match uplink.next_deadline().filter(|next| *next <= until) {
                Some(next) => now = next.max(now),
                None => return seen,
            }
        }
    }

    #[test]
    fn the_line_is_exact_whatever_waits_before_it() {
        use Discipline::{Fifo, Fq, FqCodel, PfifoFast, RoundRobin};
        for discipline in [Fifo, RoundRobin, PfifoFast, FqCodel, Fq] {
            let mut up = uplink(GBIT, discipline);
            (0..90).for_each(|i| taken(up.send(us(5), frame(u64::from(i % 3), 1_500, i))));
            let seen = run(&mut up, us(5), ms(100));
            let times: Vec<SimTime> = seen.iter().map(|(at, _)| *at).collect();
            let expected: Vec<SimTime> = (1..=90).map(|i| us(5 + 12 * i)).collect();
            assert_eq!(times, expected, "{discipline:?}");
            assert_eq!((up.queue.len(), up.drops(), up.next_deadline()), (0, 0, None), "{discipline:?}");
        }
    }

    #[test]
    fn the_line_takes_a_millisecond_in_advance_and_again_when_half_is_gone() {
        let mut up = uplink(GBIT, Discipline::Fifo);
        (0..400).for_each(|i| taken(up.send(SimTime::ZERO, frame(1, 1_250, i))));
        // 10 us each: one more than fits into a millisecond.
        let taken = std::iter::from_fn(|| up.poll(SimTime::ZERO)).count();
        assert_eq!((taken, up.next_deadline()), (101, Some(us(505))));
        assert_eq!(std::iter::from_fn(|| up.poll(us(505))).count(), 50);
    }

    #[test]
    fn a_slow_line_takes_two_packets_in_advance() {
        let mut up = uplink(MBIT, Discipline::Fifo);
        (0..10).for_each(|i| taken(up.send(SimTime::ZERO, frame(1, 1_500, i))));
        assert_eq!(std::iter::from_fn(|| up.poll(SimTime::ZERO)).count(), 3);
        assert_eq!(up.next_deadline(), Some(ms(18)));
        assert_eq!(run(&mut up, ms(18), ms(1_000)).last(), Some(&(ms(120), 9)));
    }

    /// A small packet waits behind what was handed over before it, and not behind all that others have, where flows take turns.
    #[test]
    fn a_small_packet_waits_its_turn() {
        for (discipline, place) in [(Discipline::Fifo, 100), (Discipline::FqCodel, 4), (Discipline::RoundRobin, 4)] {
            let mut up = uplink(MBIT, discipline);
            (0..100).for_each(|i| taken(up.send(SimTime::ZERO, frame(1, 1_500, i))));
            taken(up.send(SimTime::ZERO, frame(2, 52, 100)));
            let seen = run(&mut up, SimTime::ZERO, ms(5_000));
            assert_eq!(seen.iter().position(|(_, number)| *number == 100), Some(place), "{discipline:?}");
        }
    }

    #[test]
    fn pacing_leaves_the_line_idle() {
        let mut up = uplink(GBIT, Discipline::Fq);
        for i in 0..5u32 {
            taken(up.send(us(1), Frame { not_before: ms(u64::from(i) + 1), ..frame(1, 1_500, i) }));
        }
        let seen = run(&mut up, us(1), ms(50));
        let expected: Vec<(SimTime, u32)> = (0..5).map(|i| (us(1_000 * (u64::from(i) + 1) + 12), i)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn owners_hear_of_the_last_bit() {
        let mut up = uplink(MBIT, Discipline::PfifoFast);
        let mut refused = Vec::new();
        for i in 0..1_010 {
            rejected(up.send(SimTime::ZERO, Frame { charge: 2_304, ..frame(u64::from(i), 1_500, i) }), &mut refused);
        }
        // Three are on the line, a thousand wait, seven are not taken, of which nothing is told later.
        assert_eq!(numbers(&refused), (1_003..1_010).collect::<Vec<u32>>());
        assert_eq!(up.drops(), 7);
        assert_eq!(up.poll_completion(SimTime::ZERO), None);
        // The first leaves at 12 ms; whoever waits hears of it a little later, since others follow.
        assert_eq!(up.next_completion(), Some(ms(12) + COALESCING));
        assert_eq!(up.poll_completion(ms(11)), None);
        assert_eq!(up.poll_completion(ms(12)), Some(Completion { flow: socket(0), charge: 2_304 }));
        let rest = run(&mut up, ms(12), ms(20_000)).len();
        assert_eq!(rest, 1_003);
        assert_eq!(std::iter::from_fn(|| up.poll_completion(ms(20_000))).count(), 1_002);
        // Nobody wants to know of these.
        taken(up.send(ms(20_000), frame(1, 1_500, 0)));
        taken(up.send(ms(20_000), Frame { charge: 99, flow: None, ..frame(1, 1_500, 0) }));
        assert_eq!(up.next_completion(), None);
    }

    /// fq_codel takes what comes and drops older packets for it; whose those were hears of it as if they had left.
    #[test]
    fn owners_hear_of_drops() {
        let mut up = uplink(MBIT, Discipline::FqCodel);
        let charged = |flow, i| Frame { charge: 2_304, ..frame(flow, 100, i) };
        (0..31).for_each(|i| taken(up.send(SimTime::ZERO, charged(9, i))));
        (0..10_240).for_each(|i| taken(up.send(SimTime::ZERO, charged(1, i))));
        // The one too many is of the flow that has most.
        assert!(matches!(up.send(SimTime::ZERO, charged(1, 0)), Verdict::Congested));
        assert_eq!(up.drops(), 64);
        let gone: Vec<SocketId> =
            std::iter::from_fn(|| up.poll_completion(SimTime::ZERO)).map(|done| done.flow).collect();
        assert_eq!(gone, [socket(1); 64]);
        // There is room again, and then another flow finds none.
        (0..63).for_each(|i| taken(up.send(SimTime::ZERO, charged(1, i))));
        taken(up.send(SimTime::ZERO, charged(2, 0)));
        assert_eq!(up.drops(), 128);
    }

    #[test]
    fn a_train_waits_as_one_and_leaves_as_segments() {
        let mut up = uplink(MBIT, Discipline::FqCodel);
        // The first is taken whole, more than fits into the line's ring; the second one waits whole.
        (0..2).for_each(|i| taken(up.send(SimTime::ZERO, train(10 * i))));
        assert_eq!(up.queue.len(), 1);
        let seen = run(&mut up, SimTime::ZERO, ms(500));
        let times = [12_000, 24_000, 25_120, 37_120, 49_120, 50_240];
        assert_eq!(seen, times.into_iter().map(us).zip([0, 1, 2, 10, 11, 12]).collect::<Vec<_>>());
        // One completion each, with its last segment.
        assert_eq!(up.next_completion(), Some(us(25_120) + COALESCING));
        assert_eq!(up.poll_completion(us(25_119)), None);
        assert_eq!(up.poll_completion(us(25_120)), Some(Completion { flow: socket(1), charge: 5_000 }));
        assert_eq!(up.next_completion(), Some(us(50_240)));
    }

    #[test]
    fn a_relay_lets_a_train_go_packet_by_packet() {
        let config = Config {
            up: MBIT,
            down: MBIT,
            model: Model::Shadow,
            discipline: Discipline::Fifo,
            bootstrap_end: SimTime::ZERO,
            coalescing: SimDuration::ZERO,
            perturbation: 7,
        };
        let mut up = Uplink::new(&config);
        (0..2).for_each(|i| taken(up.send(SimTime::ZERO, train(10 * i))));
        let seen = run(&mut up, SimTime::ZERO, ms(500));
        // 125 tokens are left of 1,625; 125 come each millisecond.
        let times = [0, 11, 13, 25, 37, 38];
        assert_eq!(seen, times.into_iter().map(ms).zip([0, 1, 2, 10, 11, 12]).collect::<Vec<_>>());
    }

    #[test]
    fn bootstrapping_lifts_every_limit() {
        let mut up = bootstrapping_until(us(1), MBIT, Discipline::FqCodel);
        let now = SimTime::from_nanos(999);
        for i in 0..5_000 {
            taken(up.send(now, frame(1, 1_500, i)));
            assert_eq!(up.poll(now).map(|(at, packet)| (at, packet.ip.id)), Some((now, i)));
        }
        assert_eq!(up.serialization(now, 1_500), SimDuration::ZERO);
        taken(up.send(us(1), frame(1, 1_500, 0)));
        assert_eq!(up.poll(us(1)).map(|(at, _)| at), Some(us(12_001)));
    }
}
