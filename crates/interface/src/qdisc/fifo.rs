//! First in, first out, with drop-tail: the modem at the end of the line, not the host. Nobody is told of what it drops.

use crate::frame::Frame;
use crate::wire::queue_limit_bytes;
use base::{Bandwidth, SimTime};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    queue: VecDeque<Frame>,
    bytes: u64,
    limit: u64,
}

impl Fifo {
    pub(crate) fn new(rate: Bandwidth) -> Fifo {
        Fifo { queue: VecDeque::new(), bytes: 0, limit: queue_limit_bytes(rate) }
    }

    pub(crate) fn enqueue(&mut self, frame: Frame, dropped: &mut Vec<Frame>) {
        if self.bytes + frame.bytes() > self.limit {
            return dropped.push(frame);
        }
        self.bytes += frame.bytes();
        self.queue.push_back(frame);
    }

    pub(crate) fn dequeue(&mut self, _now: SimTime, _dropped: &mut Vec<Frame>) -> Option<Frame> {
        let frame = self.queue.pop_front()?;
        self.bytes -= frame.bytes();
        Some(frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, numbers};

    #[test]
    fn the_newest_is_dropped_when_it_is_full() {
        let mut fifo = Fifo::new(Bandwidth::from_bits_per_sec(1_000_000));
        let mut dropped = Vec::new();
        for i in 0..1_005 {
            fifo.enqueue(frame(u64::from(i % 7), 1_500, i), &mut dropped);
        }
        assert_eq!(numbers(&dropped), [1_000, 1_001, 1_002, 1_003, 1_004]);
        let order: Vec<Frame> = std::iter::from_fn(|| fifo.dequeue(SimTime::ZERO, &mut dropped)).collect();
        assert_eq!(numbers(&order), (0..1_000).collect::<Vec<_>>());
        assert_eq!((fifo.len(), fifo.bytes), (0, 0));
    }
}
