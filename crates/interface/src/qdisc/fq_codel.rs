//! fq_codel (RFC 8290, tc-fq_codel(8)) as Linux has it: 1,024 flows by hash, which take turns by a deficit of bytes, new ones first,
//! each under CoDel.

use super::Verdict;
use super::codel::{Params, Source, Ticks, Vars};
use crate::frame::{ETHERNET_HEADER, Frame};
use crate::wire::MTU_BYTES;
use base::SimTime;
use base::map::FastMap;
use std::collections::VecDeque;

const FLOWS: u64 = 1_024;
/// Packets in all flows.
const LIMIT: usize = 10_240;
/// Bytes of memory in all flows.
const MEMORY_LIMIT: u64 = 32 << 20;
/// The bytes of one turn.
const QUANTUM: i64 = (MTU_BYTES + ETHERNET_HEADER) as i64;
/// How many packets are dropped at once when the whole is full.
const DROP_BATCH: usize = 64;
const CODEL: Params =
    Params { target: Ticks::from_millis(5), interval: Ticks::from_millis(100), mtu: MTU_BYTES + ETHERNET_HEADER };

#[derive(Clone, Debug)]
pub(crate) struct FqCodel {
    perturbation: u64,
    /// Those that hold packets, or have dropped some: the others need no memory.
    flows: FastMap<u16, Flow>,
    new_flows: VecDeque<u16>,
    old_flows: VecDeque<u16>,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets: usize,
    bytes: u64,
    memory: u64,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: VecDeque<(Ticks, Frame)>,
    bytes: u64,
    deficit: i64,
    codel: Vars,
    /// In one of the two lists.
    listed: bool,
}

impl FqCodel {
    pub(crate) fn new(perturbation: u64) -> FqCodel {
        FqCodel {
            perturbation,
            flows: FastMap::default(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    pub(crate) fn enqueue(&mut self, now: SimTime, frame: Frame, dropped: &mut Vec<Frame>) -> Verdict {
        let index = self.index_of(&frame);
        let flow = self.flows.entry(index).or_default();
        flow.bytes += frame.queued_bytes();
        self.totals.packets += 1;
        self.totals.bytes += frame.queued_bytes();
        self.totals.memory += frame.memory();
        flow.queue.push_back((Ticks::at(now), frame));
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, QUANTUM);
            self.new_flows.push_back(index);
        }
        if self.totals.packets > LIMIT || self.totals.memory > MEMORY_LIMIT {
            return if self.drop_of_the_longest(dropped) == Some(index) { Verdict::Congested } else { Verdict::Taken };
        }
        Verdict::Taken
    }

    /// reciprocal_scale: the hash's place among the flows.
    fn index_of(&self, frame: &Frame) -> u16 {
        ((u64::from(frame.hash(self.perturbation)) * FLOWS) >> 32) as u16
    }

    /// Drops from the head of the flow with most bytes, up to half of it (fq_codel_drop). Gives that flow.
    fn drop_of_the_longest(&mut self, dropped: &mut Vec<Frame>) -> Option<u16> {
        let longest = self.flows.iter().max_by_key(|(index, flow)| (flow.bytes, std::cmp::Reverse(**index)));
        let index = *longest?.0;
        let flow = self.flows.get_mut(&index)?;
        let (half, mut bytes) = (flow.bytes >> 1, 0);
        for _ in 0..DROP_BATCH {
            let mut source = Head { queue: &mut flow.queue, bytes: &mut flow.bytes, totals: &mut self.totals, dropped };
            let Some(packet) = source.next() else { break };
            bytes += packet.1.queued_bytes();
            source.drop(packet);
            flow.codel.count = flow.codel.count.wrapping_add(1);
            if bytes >= half {
                break;
            }
        }
        Some(index)
    }

    pub(crate) fn dequeue(&mut self, now: SimTime, dropped: &mut Vec<Frame>) -> Option<Frame> {
        loop {
            let is_new = !self.new_flows.is_empty();
            let index = *self.new_flows.front().or(self.old_flows.front())?;
            let flow = self.flows.get_mut(&index)?;
            let list = if is_new { &mut self.new_flows } else { &mut self.old_flows };
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM;
                list.pop_front();
                self.old_flows.push_back(index);
                continue;
            }
            let mut source = Head { queue: &mut flow.queue, bytes: &mut flow.bytes, totals: &mut self.totals, dropped };
            if let Some((_, frame)) = flow.codel.dequeue(&CODEL, Ticks::at(now), &mut source) {
                flow.deficit -= frame.queued_bytes() as i64;
                return Some(frame);
            }
            list.pop_front();
            if is_new && !self.old_flows.is_empty() {
                // One pass through the old ones, so that they do not starve.
                self.old_flows.push_back(index);
            } else {
                flow.listed = false;
                if flow.codel == Vars::default() {
                    self.flows.remove(&index);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.totals.packets
    }
}

/// The head of one flow, for CoDel.
struct Head<'a> {
    queue: &'a mut VecDeque<(Ticks, Frame)>,
    bytes: &'a mut u64,
    totals: &'a mut Totals,
    dropped: &'a mut Vec<Frame>,
}

impl Source for Head<'_> {
    type Packet = (Ticks, Frame);

    fn next(&mut self) -> Option<Self::Packet> {
        let packet = self.queue.pop_front()?;
        let bytes = packet.1.queued_bytes();
        *self.bytes -= bytes;
        self.totals.packets -= 1;
        self.totals.bytes -= bytes;
        self.totals.memory -= packet.1.memory();
        Some(packet)
    }

    fn enqueued(&self, packet: &Self::Packet) -> Ticks {
        packet.0
    }

    /// Linux counts what all flows hold.
    fn backlog(&self) -> u64 {
        self.totals.bytes
    }

    fn drop(&mut self, packet: Self::Packet) {
        self.dropped.push(packet.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, ms, number, numbers, socket, taken, us};

    fn queue() -> (FqCodel, Vec<Frame>) {
        (FqCodel::new(7), Vec::new())
    }

    /// Frames of flows that do not share a place.
    fn apart(queue: &FqCodel, count: usize) -> Vec<u64> {
        let mut seen = std::collections::BTreeSet::new();
        (1..).filter(|flow| seen.insert(queue.index_of(&frame(*flow, 100, 0)))).take(count).collect()
    }

    fn take(queue: &mut FqCodel, at: SimTime, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| queue.dequeue(at, &mut Vec::new())).map(|frame| number(&frame)).collect()
    }

    #[test]
    fn flows_take_turns_by_bytes() {
        let (mut queue, mut dropped) = queue();
        let flows = apart(&queue, 2);
        for i in 0..4 {
            taken(queue.enqueue(SimTime::ZERO, frame(flows[0], 1_500, i), &mut dropped));
        }
        for i in 10..30 {
            taken(queue.enqueue(SimTime::ZERO, frame(flows[1], 300, i), &mut dropped));
        }
        // 1,514 bytes are a turn of the first; the second may begin a packet while it has any credit left: five of 314 bytes.
        let expected = [0, 10, 11, 12, 13, 14, 1, 15, 16, 17, 18, 19, 2, 20, 21, 22, 23, 24, 3, 25, 26, 27, 28, 29];
        assert_eq!(take(&mut queue, us(1), 24), expected);
        assert_eq!((queue.len(), queue.totals.bytes, queue.totals.memory), (0, 0, 0));
    }

    #[test]
    fn a_new_flow_goes_before_old_ones_once() {
        let (mut queue, mut dropped) = queue();
        let flows = apart(&queue, 3);
        for i in 0..6 {
            taken(queue.enqueue(SimTime::ZERO, frame(flows[0], 1_500, i), &mut dropped));
            taken(queue.enqueue(SimTime::ZERO, frame(flows[1], 1_500, 10 + i), &mut dropped));
        }
        assert_eq!(take(&mut queue, us(1), 4), [0, 10, 1, 11]);
        for i in 20..23 {
            taken(queue.enqueue(us(1), frame(flows[2], 1_500, i), &mut dropped));
        }
        // Its first packet at once, the next ones behind the others' turns. The second one's turn had just been used up.
        assert_eq!(take(&mut queue, us(1), 6), [20, 2, 21, 12, 3, 22]);
    }

    #[test]
    fn a_full_queue_drops_half_of_the_longest_flow() {
        let (mut queue, mut dropped) = queue();
        let flows = apart(&queue, 2);
        for i in 0..100 {
            taken(queue.enqueue(SimTime::ZERO, frame(flows[0], 1_500, i), &mut dropped));
        }
        for i in 0..10_140 {
            taken(queue.enqueue(SimTime::ZERO, frame(flows[1], 100, 1_000 + i), &mut dropped));
        }
        assert_eq!((queue.len(), dropped.len()), (10_240, 0));
        // The second has 10,141 times 114 bytes, the first 100 times 1,514: 64 of the second go, the oldest first.
        let verdict = queue.enqueue(SimTime::ZERO, frame(flows[1], 100, 20_000), &mut dropped);
        assert!(matches!(verdict, Verdict::Congested));
        assert_eq!(numbers(&dropped), (1_000..1_064).collect::<Vec<_>>());
        assert_eq!(queue.flows[&queue.index_of(&frame(flows[1], 100, 0))].codel.count, 64);
    }

    #[test]
    fn memory_is_bounded_too() {
        let (mut queue, mut dropped) = queue();
        let flow = apart(&queue, 1)[0];
        let mut enqueue =
            |i| queue.enqueue(SimTime::ZERO, Frame { charge: 1 << 20, ..frame(flow, 1_500, i) }, &mut dropped);
        (0..32).for_each(|i| taken(enqueue(i)));
        assert!(matches!(enqueue(32), Verdict::Congested));
        // Half of 33 packets' bytes: the seventeenth passes it.
        assert_eq!(numbers(&dropped), (0..17).collect::<Vec<_>>());
        assert_eq!((queue.len(), queue.totals.memory), (16, 16 << 20));
    }

    #[test]
    fn only_the_flow_that_stands_is_dropped_from() {
        let (mut queue, mut dropped) = queue();
        let flows = apart(&queue, 2);
        let mut sparse_delivered = 0;
        // One flow fills the line twice over, the other sends a small packet every 10 ms.
        for i in 0..20_000u32 {
            let now = us(u64::from(i) * 100);
            if i.is_multiple_of(6) {
                taken(queue.enqueue(now, frame(flows[0], 1_500, i), &mut dropped));
            }
            if i.is_multiple_of(100) {
                taken(queue.enqueue(now, frame(flows[1], 100, i), &mut dropped));
            }
            if i.is_multiple_of(12) {
                let got = queue.dequeue(now, &mut dropped);
                sparse_delivered += u32::from(got.is_some_and(|frame| frame.flow == Some(socket(flows[1]))));
            }
        }
        assert!(
            dropped.len() > 20 && dropped.iter().all(|frame| frame.flow == Some(socket(flows[0]))),
            "{}",
            dropped.len()
        );
        assert_eq!(sparse_delivered, 200);
        while queue.dequeue(ms(2_001), &mut dropped).is_some() {}
        assert_eq!((queue.len(), queue.totals.bytes, queue.totals.memory), (0, 0, 0));
    }

    #[test]
    fn quiet_flows_leave_nothing_behind() {
        let (mut queue, mut dropped) = queue();
        for flow in 0..500 {
            taken(queue.enqueue(ms(flow), frame(flow, 1_000, 0), &mut dropped));
            assert_eq!(take(&mut queue, ms(flow), 2).len(), 1);
        }
        assert!(queue.flows.is_empty() && queue.new_flows.is_empty() && queue.old_flows.is_empty());
    }
}
