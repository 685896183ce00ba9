//! pfifo_fast (tc-pfifo_fast(8)): three bands, each first in, first out and of 1,000 packets (`txqueuelen`); a band is served when those
//! before it are empty.

use super::Verdict;
use crate::frame::Frame;
use base::SimTime;
use std::collections::VecDeque;

pub(crate) const BANDS: usize = 3;
/// Packets in each band.
const LIMIT: usize = 1_000;

/// The band of each priority (sch_default_prio2band).
const BAND_OF_PRIORITY: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

pub(crate) fn band_of(frame: &Frame) -> usize {
    BAND_OF_PRIORITY[usize::from(frame.priority & 15)].into()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PfifoFast {
    bands: [VecDeque<Frame>; BANDS],
}

impl PfifoFast {
    pub(crate) fn enqueue(&mut self, frame: Frame) -> Verdict {
        let band = &mut self.bands[band_of(&frame)];
        if band.len() >= LIMIT {
            return Verdict::Refused(Box::new(frame));
        }
        band.push_back(frame);
        Verdict::Taken
    }

    pub(crate) fn dequeue(&mut self, _now: SimTime, _dropped: &mut Vec<Frame>) -> Option<Frame> {
        self.bands.iter_mut().find_map(VecDeque::pop_front)
    }

    pub(crate) fn len(&self) -> usize {
        self.bands.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{frame, numbers, rejected};

    #[test]
    fn bands_are_served_in_their_order() {
        let mut queue = PfifoFast::default();
        let mut dropped = Vec::new();
        // Bulk, best effort, interactive, interactive bulk; then the same again.
        for (number, priority) in [2u8, 0, 6, 4, 2, 0, 6, 4].into_iter().enumerate() {
            let frame = Frame { priority, ..frame(1, 100, number as u32) };
            rejected(queue.enqueue(frame), &mut dropped);
        }
        let order: Vec<Frame> = std::iter::from_fn(|| queue.dequeue(SimTime::ZERO, &mut dropped)).collect();
        assert_eq!(numbers(&order), [2, 6, 1, 3, 5, 7, 0, 4]);
    }

    #[test]
    fn a_full_band_takes_no_room_of_others() {
        let mut queue = PfifoFast::default();
        let mut dropped = Vec::new();
        (0..1_001).for_each(|i| rejected(queue.enqueue(frame(1, 100, i)), &mut dropped));
        rejected(queue.enqueue(Frame { priority: 6, ..frame(1, 100, 5_000) }), &mut dropped);
        assert_eq!(numbers(&dropped), [1_000]);
        assert_eq!(queue.len(), 1_001);
    }
}
