//! The way into a host as Shadow 3.3 has it: a queue without a limit under CoDel, and behind it a relay that takes packets out and holds
//! each until its bucket has the tokens. What the relay holds no longer stands in the queue.

use crate::token_bucket::TokenBucket;
use crate::wire::MTU_BYTES;
use base::{Bandwidth, SimDuration, SimTime};
use std::collections::VecDeque;
use tcpip::Packet;

const TARGET: SimDuration = SimDuration::from_millis(10);
const INTERVAL: SimDuration = SimDuration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Relay {
    queue: CodelQueue,
    bucket: TokenBucket,
    bootstrap_end: SimTime,
    /// Out of the queue, and without tokens until then.
    held: Option<(SimTime, Box<Packet>)>,
    delivered: VecDeque<(SimTime, Box<Packet>)>,
}

impl Relay {
    pub(crate) fn new(rate: Bandwidth, bootstrap_end: SimTime) -> Relay {
        Relay {
            queue: CodelQueue::default(),
            bucket: TokenBucket::new(rate),
            bootstrap_end,
            held: None,
            delivered: VecDeque::new(),
        }
    }

    pub(crate) fn receive(&mut self, now: SimTime, mut packet: Box<Packet>) {
        while let Some(first) = packet.split_first() {
            self.queue.push(now, first.into());
        }
        self.queue.push(now, packet);
        self.forward(now);
    }

    fn forward(&mut self, now: SimTime) {
        while self.held.as_ref().is_none_or(|(at, _)| *at <= now) {
            let Some(packet) = self.held.take().map(|(_, packet)| packet).or_else(|| self.queue.pop(now)) else {
                return;
            };
            let taken = if now < self.bootstrap_end { Ok(()) } else { self.bucket.take(now, packet.wire_len() as u64) };
            match taken {
                Ok(()) => self.delivered.push_back((now, packet)),
                Err(at) => self.held = Some((at, packet)),
            }
        }
    }

    pub(crate) fn next_delivery(&self) -> Option<SimTime> {
        self.delivered.front().or(self.held.as_ref()).map(|(at, _)| *at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Box<Packet>> {
        if self.delivered.is_empty() {
            self.forward(now);
        }
        self.delivered.pop_front().map(|(_, packet)| packet)
    }

    pub(crate) fn incoming(&self) -> impl Iterator<Item = &Packet> {
        self.delivered.iter().chain(&self.held).chain(&self.queue.packets).map(|(_, packet)| &**packet)
    }

    pub(crate) fn drops(&self) -> u64 {
        self.queue.drops
    }
}

/// CoDel by RFC 8289, section 5, in nanoseconds and exact square roots.
#[derive(Clone, Debug, Default)]
struct CodelQueue {
    packets: VecDeque<(SimTime, Box<Packet>)>,
    bytes: u64,
    dropping: bool,
    /// While the delay is above the target: the end of the interval in which it must have fallen.
    interval_end: Option<SimTime>,
    drop_next: Option<SimTime>,
    count: u64,
    previous_count: u64,
    drops: u64,
}

impl CodelQueue {
    fn push(&mut self, now: SimTime, packet: Box<Packet>) {
        self.bytes += packet.wire_len() as u64;
        self.packets.push_back((now, packet));
    }

    /// The next packet that is not dropped.
    fn pop(&mut self, now: SimTime) -> Option<Box<Packet>> {
        let first = self.take(now);
        let Some((packet, true)) = first else {
            self.dropping = false;
            return first.map(|(packet, _)| packet);
        };
        if self.dropping { self.go_on_dropping(now, packet) } else { self.begin_dropping(now) }
    }

    fn begin_dropping(&mut self, now: SimTime) -> Option<Box<Packet>> {
        self.drops += 1;
        let next = self.take(now);
        self.dropping = true;
        let delta = self.count.saturating_sub(self.previous_count);
        let recent = self.drop_next.is_some_and(|at| now.saturating_since(at) < INTERVAL.saturating_mul(16));
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.drop_next = Some(control_law(now, self.count));
        self.previous_count = self.count;
        next.map(|(packet, _)| packet)
    }

    fn go_on_dropping(&mut self, now: SimTime, packet: Box<Packet>) -> Option<Box<Packet>> {
        let mut item = Some(packet);
        while self.dropping
            && item.is_some()
            && let Some(due) = self.drop_next.filter(|due| *due <= now)
        {
            self.drops += 1;
            self.count += 1;
            let next = self.take(now);
            if next.as_ref().is_some_and(|(_, above)| *above) {
                self.drop_next = Some(control_law(due, self.count));
            } else {
                self.dropping = false;
            }
            item = next.map(|(packet, _)| packet);
        }
        item
    }

    /// The packet at the head, and whether the delay has been above the target for an interval.
    fn take(&mut self, now: SimTime) -> Option<(Box<Packet>, bool)> {
        let Some((since, packet)) = self.packets.pop_front() else {
            self.interval_end = None;
            return None;
        };
        self.bytes -= packet.wire_len() as u64;
        if now.saturating_since(since) < TARGET || self.bytes <= MTU_BYTES {
            self.interval_end = None;
            return Some((packet, false));
        }
        let first_time = self.interval_end.is_none();
        let end = *self.interval_end.get_or_insert(now + INTERVAL);
        Some((packet, !first_time && now >= end))
    }
}

/// t + INTERVAL / sqrt(count), rounded to a nanosecond.
fn control_law(t: SimTime, count: u64) -> SimTime {
    t + SimDuration::from_nanos((INTERVAL.as_nanos() as f64 / (count.max(1) as f64).sqrt()).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, ms, us};

    const MBIT: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000);

    fn packet(bytes: usize, number: u32) -> Box<Packet> {
        frame(1, bytes, number).packet
    }

    /// Everything that comes, with its time.
    fn run(relay: &mut Relay, until: SimTime) -> Vec<(SimTime, u32)> {
        let mut seen = Vec::new();
        while let Some(at) = relay.next_delivery().filter(|at| *at <= until) {
            seen.extend(std::iter::from_fn(|| relay.poll(at)).map(|packet| (at, packet.ip.id)));
        }
        seen
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_by_milliseconds() {
        let mut relay = Relay::new(MBIT, SimTime::ZERO);
        (0..4).for_each(|i| relay.receive(us(10_300), packet(750, i)));
        // 1,625 tokens are there: two packets, and 125 left. The third wants five more refills, the fourth six.
        assert_eq!(run(&mut relay, ms(100)), [(us(10_300), 0), (us(10_300), 1), (ms(15), 2), (ms(21), 3)]);
    }

    #[test]
    fn the_queue_has_no_limit() {
        let mut relay = Relay::new(MBIT, SimTime::ZERO);
        (0..100_000).for_each(|i| relay.receive(ms(1), packet(1_500, i)));
        assert_eq!(relay.drops(), 0);
        assert_eq!(relay.queue.packets.len(), 100_000 - 2);
    }

    /// The first drop comes an interval after the delay passed the target, the next ones after an interval over the square root of
    /// their number. Worked out by hand: a packet comes and one goes each millisecond, 40 stand.
    #[test]
    fn drops_come_as_the_rfc_says() {
        let mut queue = CodelQueue::default();
        (0..40).for_each(|i| queue.push(SimTime::ZERO, packet(1_500, i)));
        let mut drops = Vec::new();
        for t in 1..=600 {
            queue.push(ms(t), packet(1_500, 0));
            queue.push(ms(t), packet(1_500, 0));
            let before = queue.drops;
            assert!(queue.pop(ms(t)).is_some());
            drops.extend((before..queue.drops).map(|_| t));
        }
        // Above the target from 10 ms on; 110; then + 100, + 70.7, + 57.7, + 50, + 44.7, + 40.8, + 37.8, each from the one before.
        assert_eq!(drops, [110, 210, 281, 339, 389, 434, 474, 512, 548, 581]);
    }

    #[test]
    fn little_in_the_queue_is_left_alone() {
        let mut queue = CodelQueue::default();
        for t in 0..1_000 {
            queue.push(ms(t), packet(750, 0));
            queue.push(ms(t), packet(750, 0));
            queue.push(ms(t), packet(750, 0));
            (0..3).for_each(|_| assert!(queue.pop(ms(t + 500)).is_some()));
        }
        assert_eq!(queue.drops, 0);
    }

    #[test]
    fn bootstrapping_needs_no_tokens() {
        let mut relay = Relay::new(MBIT, ms(5));
        (0..5_000).for_each(|i| relay.receive(ms(4), packet(1_500, i)));
        assert_eq!(run(&mut relay, ms(4)).len(), 5_000);
        relay.receive(ms(5), packet(1_500, 0));
        relay.receive(ms(5), packet(1_500, 1));
        assert_eq!(run(&mut relay, ms(50)), [(ms(5), 0), (ms(16), 1)]);
    }
}
