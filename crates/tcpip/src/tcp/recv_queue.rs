//! Reassembly: what arrived in order and waits for the program, what arrived out of order, and the SACK blocks to report.

use super::footprint::{Footprint, PACKED_PAYLOAD};
use crate::wire::tcp::SackBlocks;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
struct Held {
    bytes: Bytes,
    /// Of all that were joined with it so far; None where what follows was joined with it, and has that on its account.
    footprint: Option<Footprint>,
}

impl Held {
    fn charge(&self) -> usize {
        self.footprint.map_or(0, |footprint| footprint.charge as usize)
    }

    /// Joins `next` with this one, if that can be. Gives what both occupy less than each by itself.
    fn join(&mut self, next: &mut Held) -> usize {
        let (Some(mine), Some(theirs)) = (self.footprint, next.footprint) else { return 0 };
        let Some(joined) = mine.joined(theirs, next.bytes.len()) else { return 0 };
        self.footprint = None;
        next.footprint = Some(joined);
        (mine.charge + theirs.charge - joined.charge) as usize
    }
}

#[derive(Debug)]
pub(crate) struct RecvQueue {
    ready: VecDeque<Held>,
    ready_bytes: usize,
    /// The next byte expected from the network.
    next: u64,
    /// Disjoint pieces above `next`, by their start.
    early: BTreeMap<u64, Held>,
    /// What all of it occupies, in bytes (sk_rmem_alloc).
    memory: usize,
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
            memory: 0,
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

    /// Bytes of the first buffer that the program can read: pieces that were joined are one.
    pub fn first_len(&self) -> usize {
        let mut total = 0;
        for held in &self.ready {
            total += held.bytes.len();
            if held.footprint.is_some() {
                break;
            }
        }
        total
    }

    /// What is held occupies so many bytes (sk_rmem_alloc).
    pub fn memory(&self) -> usize {
        self.memory
    }

    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Whether this byte, above `next`, has come.
    pub fn holds(&self, at: u64) -> bool {
        self.early.range(..=at).next_back().is_some_and(|(start, held)| at < start + held.bytes.len() as u64)
    }

    /// From the next byte expected to the end of what arrived out of order, in bytes.
    pub fn early_span(&self) -> u64 {
        self.early.last_key_value().map_or(0, |(start, held)| start + held.bytes.len() as u64 - self.next)
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
    pub fn push_in_order(&mut self, bytes: Bytes, footprint: Footprint) {
        self.memory += footprint.charge as usize;
        self.append(Held { bytes, footprint: Some(footprint) });
        if self.early.is_empty() {
            return;
        }
        while let Some(first) = self.early.first_entry()
            && *first.key() <= self.next
        {
            let (start, mut held) = first.remove_entry();
            let known = self.next - start;
            if known < held.bytes.len() as u64 {
                held.bytes.advance(known as usize);
                self.append(held);
            } else {
                self.memory -= held.charge();
            }
        }
        let next = self.next;
        self.reported.retain(|range| range.1 > next);
    }

    fn append(&mut self, mut held: Held) {
        self.next += held.bytes.len() as u64;
        self.ready_bytes += held.bytes.len();
        if let Some(last) = self.ready.back_mut() {
            self.memory -= last.join(&mut held);
        }
        self.ready.push_back(held);
    }

    /// Keeps bytes that start above `next`. Gives the range that was known already: all of it, or where it overlaps what is held, as far as that
    /// hangs together (for D-SACK, RFC 2883; tcp_data_queue_ofo).
    pub fn push_early(&mut self, start: u64, bytes: Bytes, footprint: Footprint) -> Option<(u64, u64)> {
        let end = start + bytes.len() as u64;
        let mut at = start;
        let mut known: Option<(u64, u64)> = None;
        // The first piece that is new has all of it on its account.
        let mut account = Some(footprint);
        while at < end {
            let before = self.early.range_mut(..=at).next_back();
            let mut joins = None;
            if let Some((have, held)) = before {
                let have_end = have + held.bytes.len() as u64;
                if have_end > at {
                    let held_end = have_end.min(end);
                    known = match known {
                        None => Some((at, held_end)),
                        Some((first, last)) if last >= at => Some((first, held_end)),
                        other => other,
                    };
                    at = have_end;
                    continue;
                }
                joins = (have_end == at).then_some(held);
            }
            let mut piece = Held { bytes: bytes.clone(), footprint: account.take() };
            self.memory += piece.charge();
            if let Some(held) = joins {
                self.memory -= held.join(&mut piece);
            }
            let stop = self.early.range(at..).next().map_or(end, |(have, _)| end.min(*have));
            piece.bytes = bytes.slice((at - start) as usize..(stop - start) as usize);
            self.early.insert(at, piece);
            at = stop;
        }
        if account.is_none() {
            self.report(start, end);
        }
        known
    }

    /// Packs what is held into as few areas as hold it (tcp_collapse), if that saves memory.
    pub fn pack(&mut self) {
        if self.ready.len() > 1 {
            let mut packed = VecDeque::new();
            pack(std::mem::take(&mut self.ready), |_, held| packed.push_back(held));
            self.ready = packed;
        }
        let mut runs: Vec<(u64, Vec<Held>)> = Vec::new();
        for (start, held) in std::mem::take(&mut self.early) {
            match runs.last_mut() {
                Some((first, run)) if *first + run.iter().map(|held| held.bytes.len() as u64).sum::<u64>() == start => {
                    run.push(held);
                }
                _ => runs.push((start, vec![held])),
            }
        }
        for (first, run) in runs {
            pack(run, |at, held| {
                self.early.insert(first + at, held);
            });
        }
        self.memory = self.ready.iter().chain(self.early.values()).map(Held::charge).sum();
    }

    /// Throws away what came out of order beyond `limit`, from the end on, until an eighth of `buffer` is gone and what is left fits
    /// (tcp_prune_ofo_queue). What the peer was told of it no longer holds. Gives whether anything was thrown away.
    pub fn prune(&mut self, limit: u64, buffer: usize) -> bool {
        let mut goal = (buffer / 8) as isize;
        let mut pruned = false;
        while let Some(last) = self.early.last_entry()
            && *last.key() >= limit
        {
            let charge = last.remove().charge();
            self.memory -= charge;
            goal -= charge as isize;
            pruned = true;
            if self.early.is_empty() || goal <= 0 {
                if self.memory <= buffer {
                    break;
                }
                goal = (buffer / 8) as isize;
            }
        }
        if pruned {
            self.reported.clear();
        }
        pruned
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

    /// Gives up to `max` bytes to `sink`, which says how many it took; fewer than offered ends it. A buffer of which it refuses a piece stays as a
    /// whole (skb_copy_datagram_msg). With `peek` all stay.
    pub fn read(&mut self, max: usize, peek: bool, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        // Of whole buffers, and of the one that is being read.
        let (mut total, mut part) = (0, 0);
        for held in &self.ready {
            let offered = held.bytes.len().min(max - total - part);
            if offered == 0 {
                break;
            }
            let taken = sink(&held.bytes[..offered]).min(offered);
            part = if taken == 0 { 0 } else { part + taken };
            if taken < offered {
                break;
            }
            if held.footprint.is_some() {
                total += std::mem::take(&mut part);
            }
        }
        total += part;
        if !peek {
            self.consume(total);
        }
        total
    }

    /// The program has read so many bytes.
    fn consume(&mut self, bytes: usize) {
        self.ready_bytes -= bytes;
        let mut left = bytes;
        while left > 0
            && let Some(front) = self.ready.front_mut()
        {
            if left < front.bytes.len() {
                front.bytes.advance(left);
                break;
            }
            left -= front.bytes.len();
            self.memory -= front.charge();
            self.ready.pop_front();
        }
        if self.ready.is_empty() {
            // An idle connection holds no memory for what it does not have.
            self.ready = VecDeque::new();
        }
    }
}

/// Copies pieces that follow each other into full areas, where they occupy more than that; gives each with its distance from the first.
fn pack(pieces: impl IntoIterator<Item = Held>, mut give: impl FnMut(u64, Held)) {
    let pieces: Vec<Held> = pieces.into_iter().collect();
    let total: usize = pieces.iter().map(|held| held.bytes.len()).sum();
    let occupied: usize = pieces.iter().map(Held::charge).sum();
    let parts = |from: usize| PACKED_PAYLOAD.min(total - from);
    let starts = || (0..total).step_by(PACKED_PAYLOAD);
    let packed: usize = starts().map(|from| Footprint::packed(parts(from)).charge as usize).sum();
    let mut at = 0;
    if packed >= occupied {
        for held in pieces {
            let len = held.bytes.len();
            give(at, held);
            at += len as u64;
        }
        return;
    }
    let mut all = BytesMut::with_capacity(total);
    pieces.iter().for_each(|held| all.extend_from_slice(&held.bytes));
    let all = all.freeze();
    for from in starts() {
        let bytes = all.slice(from..from + parts(from));
        let footprint = Some(Footprint::packed(bytes.len()));
        give(from as u64, Held { bytes, footprint });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Footprint {
        Footprint::packed(1000)
    }

    fn read_all(queue: &mut RecvQueue) -> Vec<u8> {
        let mut out = Vec::new();
        queue.read(usize::MAX, false, &mut |bytes| {
            out.extend_from_slice(bytes);
            bytes.len()
        });
        out
    }

    #[test]
    fn a_buffer_that_the_reader_refuses_in_the_middle_stays_as_a_whole() {
        let mut queue = RecvQueue::new(0);
        for text in [&b"one"[..], b"two"] {
            queue.push_in_order(Bytes::from_static(text), Footprint::looped(text.len()));
        }
        queue.push_in_order(Bytes::from_static(b"three"), Footprint::packed(5));
        assert_eq!(queue.first_len(), 6, "two that were joined");
        let mut read_but =
            |refused: &[u8]| queue.read(20, false, &mut |bytes| if bytes == refused { 0 } else { bytes.len() });
        assert_eq!(read_but(b"two"), 0);
        assert_eq!(read_but(b"three"), 6);
        assert_eq!((queue.ready_bytes(), read_all(&mut queue)), (5, b"three".to_vec()));
        assert_eq!(queue.memory(), 0);
    }

    #[test]
    fn reassembles_overlapping_pieces_in_any_order() {
        let text = b"0123456789abcdefghij";
        let piece = |from: usize, to: usize| Bytes::copy_from_slice(&text[from..to]);
        let mut queue = RecvQueue::new(1000);
        assert_eq!(queue.push_early(1005, piece(5, 8), small()), None);
        assert_eq!(queue.push_early(1012, piece(12, 15), small()), None);
        assert_eq!(queue.reported(), &[(1012, 1015), (1005, 1008)]);
        // The first overlap is what is told.
        assert_eq!(queue.push_early(1004, piece(4, 14), small()), Some((1005, 1008)));
        assert_eq!(queue.reported(), &[(1004, 1015)]);
        queue.push_in_order(piece(0, 4), small());
        assert_eq!(queue.next(), 1015);
        assert!(queue.reported().is_empty() && !queue.has_early());
        queue.push_in_order(piece(15, 20), small());
        assert_eq!(read_all(&mut queue), text);
        assert_eq!(queue.copied(), 1020);
    }

    #[test]
    fn peek_leaves_and_partial_reads_split() {
        let mut queue = RecvQueue::new(0);
        queue.push_in_order(Bytes::from_static(b"abc"), small());
        queue.push_in_order(Bytes::from_static(b"def"), small());
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
