//! fq (tc-fq(8)) as Linux 6.18 has it: sockets take turns by a credit of bytes, new ones first, in three bands with weights; packets
//! with a departure time wait for it, which is how TCP's pacing is kept.
//!
//! Left out, since nothing here asks for it: a limit of rate for all flows (`maxrate`), SO_MAX_PACING_RATE of datagram sockets, marks
//! of congestion (`ce_threshold`).

use super::Verdict;
use super::pfifo_fast::{BANDS, band_of};
use crate::frame::{ETHERNET_HEADER, Frame};
use crate::wire::MTU_BYTES;
use base::map::FastMap;
use base::{SimDuration, SimTime};
use std::collections::{BTreeSet, VecDeque};

/// Packets in each band.
const LIMIT: usize = 10_000;
/// Packets in each flow.
const FLOW_LIMIT: usize = 100;
/// The bytes of one turn, and of a flow's first one.
const QUANTUM: i64 = 2 * (MTU_BYTES + ETHERNET_HEADER) as i64;
const INITIAL_QUANTUM: i64 = 10 * (MTU_BYTES + ETHERNET_HEADER) as i64;
/// The bytes of a band's turn.
const BAND_QUANTUM: [i64; BANDS] = [9 << 16, 3 << 16, 1 << 16];
/// A flow that was idle for longer may send a quantum at once.
const REFILL_DELAY: SimDuration = SimDuration::from_millis(40);
/// A packet with a later departure than this is dropped.
const HORIZON: SimDuration = SimDuration::from_secs(10);
/// Datagrams and what no socket sends share so many flows, by hash.
const ORPHANS: u32 = 1_024;
/// Packets that may go past the flows while those only wait for their time.
const FAST_LANE: usize = 8;
/// From so many flows on, those that were idle for `FORGET_AFTER` are forgotten.
const MANY_FLOWS: usize = 2 * 1_024;
const FORGET_AFTER: SimDuration = SimDuration::from_secs(3);

#[derive(Clone, Debug)]
pub(crate) struct Fq {
    perturbation: u64,
    flows: FastMap<u64, Flow>,
    bands: [Band; BANDS],
    /// The band that is being served.
    band: usize,
    /// Flows whose next packet's time has not come.
    delayed: BTreeSet<(SimTime, u64)>,
    /// What found nobody to take turns with.
    fast_lane: VecDeque<Frame>,
    /// Flows that hold packets.
    active: usize,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Band {
    new_flows: VecDeque<u64>,
    old_flows: VecDeque<u64>,
    credit: i64,
    packets: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In no list since then.
    Detached(SimTime),
    Listed,
    Delayed,
}

#[derive(Clone, Debug)]
struct Flow {
    /// In the order of their departure times.
    queue: VecDeque<(SimTime, Frame)>,
    credit: i64,
    band: usize,
    place: Place,
    next_packet: SimTime,
}

impl Fq {
    pub(crate) fn new(perturbation: u64) -> Fq {
        Fq {
            perturbation,
            flows: FastMap::default(),
            bands: Default::default(),
            band: 0,
            delayed: BTreeSet::new(),
            fast_lane: VecDeque::new(),
            active: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// When `dequeue` may give something; zero if at once.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        if self.len == 0 {
            return None;
        }
        let at_once = !self.fast_lane.is_empty() || self.active > self.delayed.len();
        if at_once { Some(SimTime::ZERO) } else { self.delayed.first().map(|(at, _)| *at) }
    }

    pub(crate) fn enqueue(&mut self, now: SimTime, frame: Frame) -> Verdict {
        let band = band_of(&frame);
        if self.bands[band].packets >= LIMIT || frame.not_before > now + HORIZON {
            return Verdict::Refused(Box::new(frame));
        }
        let at = if frame.not_before == SimTime::ZERO { now } else { frame.not_before };
        if self.may_pass(now, at) {
            self.len += 1;
            self.fast_lane.push_back(frame);
            return Verdict::Taken;
        }
        let key = self.key_of(&frame);
        self.forget_idle(now);
        let flow = self.flows.entry(key).or_insert_with(|| Flow {
            queue: VecDeque::new(),
            credit: INITIAL_QUANTUM,
            band,
            place: Place::Detached(now),
            next_packet: SimTime::ZERO,
        });
        if flow.queue.len() >= FLOW_LIMIT {
            return Verdict::Refused(Box::new(frame));
        }
        if let Place::Detached(since) = flow.place {
            if now.saturating_since(since) > REFILL_DELAY {
                flow.credit = flow.credit.max(QUANTUM);
            }
            flow.place = Place::Listed;
            self.bands[band].new_flows.push_back(key);
        }
        flow.band = band;
        self.bands[band].packets += 1;
        self.active += usize::from(flow.queue.is_empty());
        let place = flow.queue.partition_point(|(other, _)| *other <= at);
        flow.queue.insert(place, (at, frame));
        self.len += 1;
        Verdict::Taken
    }

    /// Whether a packet need not take turns (fq_fastpath_check).
    fn may_pass(&self, now: SimTime, at: SimTime) -> bool {
        if at > now {
            return false;
        }
        self.len == 0
            || (self.active == self.delayed.len()
                && self.fast_lane.len() < FAST_LANE
                && self.delayed.first().is_none_or(|(next, _)| *next > now))
    }

    /// Connections are flows; all else is spread by hash.
    fn key_of(&self, frame: &Frame) -> u64 {
        if frame.is_tcp() {
            return frame.turn() << 1;
        }
        u64::from(frame.hash(self.perturbation) & (ORPHANS - 1)) << 1 | 1
    }

    fn forget_idle(&mut self, now: SimTime) {
        if self.flows.len() < MANY_FLOWS || self.flows.len() - self.active <= self.flows.len() / 2 {
            return;
        }
        let idle = |flow: &Flow| matches!(flow.place, Place::Detached(since) if now > since + FORGET_AFTER);
        self.flows.retain(|_, flow| !idle(flow));
    }

    pub(crate) fn dequeue(&mut self, now: SimTime, _dropped: &mut Vec<Frame>) -> Option<Frame> {
        if self.len == 0 {
            return None;
        }
        if let Some(frame) = self.fast_lane.pop_front() {
            self.len -= 1;
            return Some(frame);
        }
        self.wake(now);
        loop {
            self.find_band()?;
            if let Some(frame) = self.serve_band(now) {
                self.len -= 1;
                return Some(frame);
            }
        }
    }

    /// Flows whose time has come are old ones again.
    fn wake(&mut self, now: SimTime) {
        while let Some((_, key)) = self.delayed.first().copied().filter(|(at, _)| *at <= now) {
            self.delayed.pop_first();
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            flow.place = Place::Listed;
            self.bands[flow.band].old_flows.push_back(key);
        }
    }

    /// Goes on to the next band, while the present one has no flow or has had its turn. None if no band has a flow.
    fn find_band(&mut self) -> Option<()> {
        let mut retry = 0;
        loop {
            let band = &self.bands[self.band];
            if band.credit > 0 && !(band.new_flows.is_empty() && band.old_flows.is_empty()) {
                return Some(());
            }
            loop {
                retry += 1;
                if retry > BANDS {
                    return None;
                }
                self.band = (self.band + 1) % BANDS;
                let quantum = BAND_QUANTUM[self.band];
                let next = &mut self.bands[self.band];
                next.credit = (next.credit + quantum).min(quantum);
                if next.credit > 0 {
                    break;
                }
                retry = 0;
            }
        }
    }

    /// A packet of the band's first flow, or one step towards it.
    fn serve_band(&mut self, now: SimTime) -> Option<Frame> {
        let band = &mut self.bands[self.band];
        let is_new = !band.new_flows.is_empty();
        let list = if is_new { &mut band.new_flows } else { &mut band.old_flows };
        let key = *list.front()?;
        let flow = self.flows.get_mut(&key)?;
        if flow.credit <= 0 {
            flow.credit += QUANTUM;
            list.pop_front();
            self.bands[flow.band].old_flows.push_back(key);
            return None;
        }
        let Some((at, _)) = flow.queue.front() else {
            list.pop_front();
            if is_new {
                // One pass through the old ones, so that they do not starve.
                self.bands[flow.band].old_flows.push_back(key);
            } else {
                flow.place = Place::Detached(now);
            }
            return None;
        };
        let next_packet = flow.next_packet.max(*at);
        if now < next_packet {
            list.pop_front();
            (flow.next_packet, flow.place) = (next_packet, Place::Delayed);
            self.delayed.insert((next_packet, key));
            return None;
        }
        let (_, frame) = flow.queue.pop_front()?;
        let bytes = frame.queued_bytes() as i64;
        flow.credit -= bytes;
        band.credit -= bytes;
        // A flow keeps its place while the priority of its packets changes.
        self.bands[band_of(&frame)].packets -= 1;
        self.active -= usize::from(flow.queue.is_empty());
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, ms, number, numbers, rejected, socket, taken, us};
    use tcpip::Transport;
    use tcpip::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

    /// A segment of a connection, of so many bytes with its headers.
    fn segment(flow: u64, bytes: usize, name: u32) -> Frame {
        let mut frame = frame(flow, bytes - 12, name);
        let (flags, options) = (TcpFlags::ACK, TcpOptions::default());
        let tcp = TcpHeader { src_port: flow as u16, dst_port: 9, seq: 0, ack: 0, flags, window: 0, options };
        frame.packet.transport = Transport::Tcp(tcp);
        assert_eq!(frame.bytes(), bytes as u64);
        frame
    }

    fn paced(flow: u64, name: u32, not_before: SimTime) -> Frame {
        Frame { not_before, ..segment(flow, 1_500, name) }
    }

    fn queue() -> (Fq, Vec<Frame>) {
        (Fq::new(7), Vec::new())
    }

    fn take(queue: &mut Fq, at: SimTime, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| queue.dequeue(at, &mut Vec::new())).map(|frame| number(&frame)).collect()
    }

    /// Fills the fast lane, so that what comes then takes turns.
    fn occupy(queue: &mut Fq) {
        (0..8).for_each(|i| taken(queue.enqueue(us(1), segment(99, 100, 900 + i))));
        assert_eq!(queue.fast_lane.len(), FAST_LANE);
    }

    /// A flow's first turn is ten packets, the next ones are two.
    #[test]
    fn sockets_take_turns_by_credit() {
        let (mut queue, mut dropped) = queue();
        occupy(&mut queue);
        for i in 0..15 {
            rejected(queue.enqueue(us(1), segment(1, 1_500, i)), &mut dropped);
            rejected(queue.enqueue(us(1), segment(2, 1_500, 100 + i)), &mut dropped);
        }
        assert_eq!(take(&mut queue, us(1), 8), (900..908).collect::<Vec<_>>());
        assert_eq!(take(&mut queue, us(1), 20), (0..10).chain(100..110).collect::<Vec<_>>());
        assert_eq!(take(&mut queue, us(1), 20), [10, 11, 110, 111, 12, 13, 112, 113, 14, 114]);
        assert_eq!((queue.len(), queue.next_time()), (0, None));
    }

    #[test]
    fn a_packet_waits_for_its_departure_time() {
        let (mut queue, mut dropped) = queue();
        rejected(queue.enqueue(ms(1), paced(1, 0, ms(5))), &mut dropped);
        rejected(queue.enqueue(ms(1), paced(1, 1, ms(6))), &mut dropped);
        rejected(queue.enqueue(ms(1), paced(2, 10, ms(4))), &mut dropped);
        assert_eq!(take(&mut queue, ms(1), 1), [0; 0]);
        assert_eq!(queue.next_time(), Some(ms(4)));
        // Others pass meanwhile.
        rejected(queue.enqueue(ms(2), segment(3, 1_500, 20)), &mut dropped);
        assert_eq!(queue.next_time(), Some(SimTime::ZERO));
        assert_eq!(take(&mut queue, ms(2), 5), [20]);
        assert_eq!(take(&mut queue, ms(4), 5), [10]);
        assert_eq!(queue.next_time(), Some(ms(5)));
        assert_eq!(take(&mut queue, ms(5), 5), [0]);
        assert_eq!(take(&mut queue, SimTime::from_nanos(5_999_999), 5), [0; 0]);
        assert_eq!(take(&mut queue, ms(6), 5), [1]);
        assert_eq!((queue.len(), queue.delayed.len(), queue.active), (0, 0, 0));
    }

    #[test]
    fn a_flow_sends_in_the_order_of_departure_times() {
        let (mut queue, mut dropped) = queue();
        for (name, at) in [(0, 5), (1, 7), (2, 6), (3, 5)] {
            rejected(queue.enqueue(ms(1), paced(1, name, ms(at))), &mut dropped);
        }
        assert_eq!(take(&mut queue, ms(9), 5), [0, 3, 2, 1]);
    }

    #[test]
    fn limits_are_of_a_flow_and_of_time() {
        let (mut queue, mut dropped) = queue();
        occupy(&mut queue);
        (0..102).for_each(|i| rejected(queue.enqueue(us(1), segment(1, 100, i)), &mut dropped));
        rejected(queue.enqueue(us(1), segment(2, 100, 500)), &mut dropped);
        rejected(queue.enqueue(us(1), paced(3, 600, us(1) + SimDuration::from_secs(10))), &mut dropped);
        rejected(queue.enqueue(us(1), paced(3, 601, us(2) + SimDuration::from_secs(10))), &mut dropped);
        assert_eq!(numbers(&dropped), [100, 101, 601]);
    }

    /// Bands have 9, 3 and 1 parts of the bytes.
    #[test]
    fn bands_share_the_line_by_weight() {
        let (mut queue, mut dropped) = queue();
        occupy(&mut queue);
        let mut bytes = [0u64; BANDS];
        for i in 0..40_000u64 {
            for (flow, priority) in [(1, 6), (2, 0), (3, 2)] {
                if queue.flows.get(&(socket(flow).number() << 1)).is_none_or(|flow| flow.queue.len() < 50) {
                    rejected(queue.enqueue(us(i), Frame { priority, ..segment(flow, 1_500, 0) }), &mut dropped);
                }
            }
            let frame = queue.dequeue(us(i), &mut dropped).expect("a packet");
            bytes[band_of(&frame)] += frame.queued_bytes();
        }
        let share = |band: usize| bytes[band] as f64 / bytes.iter().sum::<u64>() as f64 * 13.0;
        assert!(
            (share(0) - 9.0).abs() < 0.2 && (share(1) - 3.0).abs() < 0.2 && (share(2) - 1.0).abs() < 0.2,
            "{bytes:?}"
        );
        assert!(dropped.is_empty());
    }

    /// What finds nobody waiting takes no turn, and neither do up to eight packets while all others wait for their time.
    #[test]
    fn the_fast_lane_is_for_those_who_find_nobody() {
        let (mut queue, mut dropped) = queue();
        rejected(queue.enqueue(ms(1), paced(1, 0, ms(9))), &mut dropped);
        assert_eq!(take(&mut queue, ms(1), 1), [0; 0]);
        (0..10).for_each(|i| rejected(queue.enqueue(ms(1), segment(2, 100, 10 + i)), &mut dropped));
        assert_eq!((queue.fast_lane.len(), queue.flows[&(socket(2).number() << 1)].queue.len()), (8, 2));
        assert_eq!(take(&mut queue, ms(1), 20), (10..20).collect::<Vec<_>>());
    }

    #[test]
    fn idle_flows_are_forgotten() {
        let (mut queue, mut dropped) = queue();
        for i in 0..5_000u64 {
            // Two at once, so that the second one takes a turn.
            rejected(queue.enqueue(ms(10 * i), segment(i, 100, 0)), &mut dropped);
            rejected(queue.enqueue(ms(10 * i), segment(i, 100, 1)), &mut dropped);
            rejected(queue.enqueue(ms(10 * i), segment(i, 100, 2)), &mut dropped);
            assert_eq!(take(&mut queue, ms(10 * i), 4).len(), 3);
        }
        assert!(queue.flows.len() <= MANY_FLOWS && queue.delayed.is_empty(), "{}", queue.flows.len());
        assert!(dropped.is_empty());
    }
}
