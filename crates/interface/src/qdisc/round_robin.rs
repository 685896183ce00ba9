//! One packet of each socket in turn, whatever its size, with drop-tail over all.

use crate::frame::Frame;
use crate::wire::queue_limit_bytes;
use base::map::FastMap;
use base::{Bandwidth, SimTime};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct RoundRobin {
    /// Queues, reused when they are empty; `slot_of_flow` names those in use.
    queues: Vec<(u64, VecDeque<Frame>)>,
    slot_of_flow: FastMap<u64, u32>,
    unused: Vec<u32>,
    turn: VecDeque<u32>,
    len: usize,
    bytes: u64,
    limit: u64,
}

impl RoundRobin {
    pub(crate) fn new(rate: Bandwidth) -> RoundRobin {
        RoundRobin {
            queues: Vec::new(),
            slot_of_flow: FastMap::default(),
            unused: Vec::new(),
            turn: VecDeque::new(),
            len: 0,
            bytes: 0,
            limit: queue_limit_bytes(rate),
        }
    }

    pub(crate) fn enqueue(&mut self, frame: Frame, dropped: &mut Vec<Frame>) {
        if self.bytes + frame.bytes() > self.limit {
            return dropped.push(frame);
        }
        self.bytes += frame.bytes();
        self.len += 1;
        let flow = frame.turn();
        let slot = match self.slot_of_flow.get(&flow) {
            Some(&slot) => slot,
            None => self.open(flow),
        };
        self.queues[slot as usize].1.push_back(frame);
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

    pub(crate) fn dequeue(&mut self, _now: SimTime, _dropped: &mut Vec<Frame>) -> Option<Frame> {
        let slot = self.turn.pop_front()?;
        let (flow, queue) = &mut self.queues[slot as usize];
        let frame = queue.pop_front()?;
        self.bytes -= frame.bytes();
        self.len -= 1;
        if queue.is_empty() {
            self.slot_of_flow.remove(flow);
            self.unused.push(slot);
        } else {
            self.turn.push_back(slot);
        }
        Some(frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, numbers};

    #[test]
    fn sockets_take_turns_by_packets() {
        let mut queue = RoundRobin::new(Bandwidth::from_bits_per_sec(1_000_000_000));
        let mut dropped = Vec::new();
        for (flow, bytes, name) in
            [(1, 1_500, 11), (1, 40, 12), (1, 1_500, 13), (2, 1_500, 21), (2, 1_500, 22), (3, 100, 31)]
        {
            queue.enqueue(frame(flow, bytes, name), &mut dropped);
        }
        let order: Vec<Frame> = std::iter::from_fn(|| queue.dequeue(SimTime::ZERO, &mut dropped)).collect();
        assert_eq!(numbers(&order), [11, 21, 31, 12, 22, 13]);
        assert_eq!((queue.len(), queue.bytes, dropped.len()), (0, 0, 0));
    }

    #[test]
    fn the_limit_is_one_for_all() {
        let mut queue = RoundRobin::new(Bandwidth::from_bits_per_sec(1_000_000));
        let mut dropped = Vec::new();
        (0..3_000).for_each(|i| queue.enqueue(frame(u64::from(i % 7), 1_500, i), &mut dropped));
        assert_eq!((queue.len(), dropped.len()), (1_000, 2_000));
    }
}
