//! Reassembly: what arrived in order and waits for the program, what arrived out of order, and the SACK blocks to report.

use crate::wire::tcp::SackBlocks;
use bytes::{Buf, Bytes};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct RecvQueue {
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    /// The next byte expected from the network.
    next: u64,
    /// Disjoint pieces above `next`, by their start.
    early: BTreeMap<u64, Bytes>,
    early_bytes: usize,
    /// Up to four ranges to report, the one that changed last first (RFC 2018 section 4).
    reported: Vec<(u64, u64)>,
}

impl RecvQueue {
    pub fn new(first: u64) -> Self {
        RecvQueue {
            ready: VecDeque::new(),
            ready_bytes: 0,
            next: first,
            early: BTreeMap::new(),
            early_bytes: 0,
            reported: Vec::new(),
        }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that the program can read.
    pub fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// All bytes held.
    pub fn held_bytes(&self) -> usize {
        self.ready_bytes + self.early_bytes
    }

    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// From the next byte expected to the end of what arrived out of order, in bytes.
    pub fn early_span(&self) -> u64 {
        self.early.last_key_value().map_or(0, |(start, bytes)| start + bytes.len() as u64 - self.next)
    }

    /// The next byte that the program reads.
    pub fn copied(&self) -> u64 {
        self.next - self.ready_bytes as u64
    }

    /// A FIN takes one number of the sequence.
    pub fn skip_fin(&mut self) {
        self.next += 1;
        let next = self.next;
        self.reported.retain(|range| range.1 > next);
    }

    /// Appends bytes that start at `next`, then whatever they connect to.
    pub fn push_in_order(&mut self, bytes: Bytes) {
        self.append(bytes);
        if self.early.is_empty() {
            return;
        }
        while let Some(first) = self.early.first_entry()
            && *first.key() <= self.next
        {
            let (start, mut bytes) = first.remove_entry();
            self.early_bytes -= bytes.len();
            let known = self.next - start;
            if known < bytes.len() as u64 {
                bytes.advance(known as usize);
                self.append(bytes);
            }
        }
        let next = self.next;
        self.reported.retain(|range| range.1 > next);
    }

    fn append(&mut self, bytes: Bytes) {
        self.next += bytes.len() as u64;
        self.ready_bytes += bytes.len();
        self.ready.push_back(bytes);
    }

    /// Keeps bytes that start above `next`. Gives the range that was known already: all of it, or where it overlaps what is held, as far as that
    /// hangs together (for D-SACK, RFC 2883; tcp_data_queue_ofo).
    pub fn push_early(&mut self, start: u64, bytes: Bytes) -> Option<(u64, u64)> {
        let end = start + bytes.len() as u64;
        let mut at = start;
        let mut added = false;
        let mut known: Option<(u64, u64)> = None;
        while at < end {
            let before = self.early.range(..=at).next_back();
            if let Some((have, held)) = before
                && have + held.len() as u64 > at
            {
                let held_end = (have + held.len() as u64).min(end);
                known = match known {
                    None => Some((at, held_end)),
                    Some((first, last)) if last >= at => Some((first, held_end)),
                    other => other,
                };
                at = have + held.len() as u64;
                continue;
            }
            let stop = self.early.range(at..).next().map_or(end, |(have, _)| end.min(*have));
            let piece = bytes.slice((at - start) as usize..(stop - start) as usize);
            self.early_bytes += piece.len();
            self.early.insert(at, piece);
            at = stop;
            added = true;
        }
        if added {
            self.report(start, end);
        }
        known
    }

    /// Puts the range that holds `[start, end)` first in the report.
    pub fn report(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        self.reported.retain(|range| {
            let touches = range.0 <= high && range.1 >= low;
            if touches {
                low = low.min(range.0);
                high = high.max(range.1);
            }
            !touches
        });
        self.reported.insert(0, (low, high));
        self.reported.truncate(SackBlocks::MAX);
    }

    /// The ranges to report, most recent first.
    pub fn reported(&self) -> &[(u64, u64)] {
        &self.reported
    }

    /// Gives up to `max` bytes to `sink`, which says how many it took; fewer than offered ends it. With `peek` they stay.
    pub fn read(&mut self, max: usize, peek: bool, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let mut total = 0;
        let mut at = 0;
        while total < max {
            let Some(front) = self.ready.get_mut(at) else { break };
            let offered = front.len().min(max - total);
            let taken = sink(&front[..offered]).min(offered);
            total += taken;
            if peek {
                at += 1;
            } else {
                self.ready_bytes -= taken;
                if taken == front.len() {
                    self.ready.pop_front();
                } else {
                    front.advance(taken);
                }
            }
            if taken < offered {
                break;
            }
        }
        if self.ready.is_empty() {
            // An idle connection holds no memory for what it does not have.
            self.ready = VecDeque::new();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(queue: &mut RecvQueue) -> Vec<u8> {
        let mut out = Vec::new();
        queue.read(usize::MAX, false, &mut |bytes| {
            out.extend_from_slice(bytes);
            bytes.len()
        });
        out
    }

    #[test]
    fn reassembles_overlapping_pieces_in_any_order() {
        let text = b"0123456789abcdefghij";
        let piece = |from: usize, to: usize| Bytes::copy_from_slice(&text[from..to]);
        let mut queue = RecvQueue::new(1000);
        assert_eq!(queue.push_early(1005, piece(5, 8)), None);
        assert_eq!(queue.push_early(1012, piece(12, 15)), None);
        assert_eq!(queue.reported(), &[(1012, 1015), (1005, 1008)]);
        // The first overlap is what is told.
        assert_eq!(queue.push_early(1004, piece(4, 14)), Some((1005, 1008)));
        assert_eq!(queue.reported(), &[(1004, 1015)]);
        assert_eq!(queue.held_bytes(), 11);
        queue.push_in_order(piece(0, 4));
        assert_eq!(queue.next(), 1015);
        assert!(queue.reported().is_empty() && !queue.has_early());
        queue.push_in_order(piece(15, 20));
        assert_eq!(read_all(&mut queue), text);
        assert_eq!(queue.copied(), 1020);
    }

    #[test]
    fn peek_leaves_and_partial_reads_split() {
        let mut queue = RecvQueue::new(0);
        queue.push_in_order(Bytes::from_static(b"abc"));
        queue.push_in_order(Bytes::from_static(b"def"));
        let mut seen = Vec::new();
        let peeked = queue.read(4, true, &mut |bytes| {
            seen.extend_from_slice(bytes);
            bytes.len()
        });
        assert_eq!((peeked, &seen[..]), (4, &b"abcd"[..]));
        assert_eq!(queue.read(2, false, &mut |bytes| bytes.len()), 2);
        assert_eq!(queue.read(9, false, &mut |_| 1), 2);
        assert_eq!(read_all(&mut queue), b"ef");
    }
}
