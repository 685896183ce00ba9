//! What a program has written and the peer has not acknowledged: bytes as shared chunks addressed by sequence number, cut into
//! buffers as Linux cuts them into `sk_buff`s. A buffer takes writes until it is full or sent; its end carries the marks that
//! a segment ending there shows (PSH), and that no later write may join it (MSG_EOR).

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// What a buffer costs beside its bytes, counted against SO_SNDBUF: `struct sk_buff`, its shared part and room for headers
/// (`skb->truesize` of an empty one, read by SO_MEMINFO on Linux 6.18, x86-64).
pub(crate) const OVERHEAD: usize = 832;

#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    end: u64,
    /// The segment that ends here tells the peer to hand its data on (TCPHDR_PSH).
    push: bool,
    /// The end of a record: the next write begins a buffer of its own (MSG_EOR).
    record_end: bool,
}

/// The first buffer that was not sent yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsent {
    pub start: u64,
    pub end: u64,
    /// No other follows it.
    pub last: bool,
    pub record_end: bool,
}

impl Unsent {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

#[derive(Debug)]
pub(crate) struct SendQueue {
    chunks: VecDeque<Chunk>,
    buffers: VecDeque<Buffer>,
    /// So many of them, from the front, have been sent.
    sent: usize,
    /// Everything below is acknowledged.
    head: u64,
    /// Where the next written byte goes.
    tail: u64,
}

impl SendQueue {
    pub fn new(first: u64) -> Self {
        SendQueue { chunks: VecDeque::new(), buffers: VecDeque::new(), sent: 0, head: first, tail: first }
    }

    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes held: sent and not acknowledged, or not sent yet.
    pub fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// What the held bytes occupy (sk_wmem_queued).
    pub fn memory(&self) -> usize {
        self.len() + OVERHEAD * self.buffers.len()
    }

    /// Buffers sent and not acknowledged.
    pub fn sent_buffers(&self) -> usize {
        self.sent
    }

    /// Room that the last buffer has for another write, if it may grow to `goal` bytes.
    pub fn tail_room(&self, goal: usize) -> usize {
        match self.buffers.back() {
            Some(buffer) if self.buffers.len() > self.sent && !buffer.record_end => {
                goal.saturating_sub((self.tail - self.start_of(self.buffers.len() - 1)) as usize)
            }
            _ => 0,
        }
    }

    fn start_of(&self, index: usize) -> u64 {
        if index == 0 { self.head } else { self.buffers[index - 1].end.max(self.head) }
    }

    /// Appends to the last buffer, or to a new one.
    pub fn push(&mut self, bytes: Bytes, new: bool) {
        let start = self.tail;
        self.tail += bytes.len() as u64;
        self.chunks.push_back(Chunk { start, bytes });
        match self.buffers.back_mut() {
            Some(buffer) if !new => buffer.end = self.tail,
            _ => self.buffers.push_back(Buffer { end: self.tail, push: false, record_end: false }),
        }
    }

    /// The last buffer gets or loses the push mark, if it was not sent.
    pub fn mark_tail(&mut self, push: bool) {
        if self.buffers.len() > self.sent
            && let Some(buffer) = self.buffers.back_mut()
        {
            buffer.push = push;
        }
    }

    /// The last buffer ends a record.
    pub fn end_record(&mut self) {
        if let Some(buffer) = self.buffers.back_mut() {
            buffer.record_end = true;
        }
    }

    /// Whether a segment that ends at `end` has the push mark.
    pub fn pushes_at(&self, end: u64) -> bool {
        let at = self.buffers.partition_point(|buffer| buffer.end < end);
        self.buffers.get(at).is_some_and(|buffer| buffer.end == end && buffer.push)
    }

    /// Where the buffer ends that holds the byte at `at`.
    pub fn buffer_end(&self, at: u64) -> u64 {
        let index = self.buffers.partition_point(|buffer| buffer.end <= at);
        self.buffers.get(index).map_or(at, |buffer| buffer.end)
    }

    /// The bytes `[start, end)` are a buffer of their own that was sent, or what is left of one.
    pub fn is_sent_buffer(&self, start: u64, end: u64) -> bool {
        let index = self.buffers.partition_point(|buffer| buffer.end <= start);
        index < self.sent && self.start_of(index) == start && self.buffers[index].end == end
    }

    /// Nothing may be joined to the buffer that ends here.
    pub fn ends_record(&self, end: u64) -> bool {
        let index = self.buffers.partition_point(|buffer| buffer.end < end);
        self.buffers.get(index).is_some_and(|buffer| buffer.end == end && buffer.record_end)
    }

    /// The sent buffer that holds the byte at `at` takes in the next one, with its marks.
    pub fn join_sent(&mut self, at: u64) {
        let index = self.buffers.partition_point(|buffer| buffer.end <= at);
        if index + 1 >= self.sent {
            return;
        }
        if let Some(next) = self.buffers.remove(index + 1) {
            self.sent -= 1;
            let buffer = &mut self.buffers[index];
            *buffer = Buffer { push: buffer.push || next.push, ..next };
        }
    }

    pub fn unsent(&self) -> Option<Unsent> {
        let buffer = self.buffers.get(self.sent)?;
        let last = self.sent + 1 == self.buffers.len();
        Some(Unsent { start: self.start_of(self.sent), end: buffer.end, last, record_end: buffer.record_end })
    }

    /// Moves up to `most` bytes from the following buffer into the first that was not sent (tcp_grow_skb).
    pub fn grow_unsent(&mut self, most: u64) {
        if self.sent + 1 >= self.buffers.len() || self.buffers[self.sent].record_end {
            return;
        }
        let next = self.buffers[self.sent + 1];
        let moved = most.min(next.end - self.buffers[self.sent].end);
        self.buffers[self.sent].end += moved;
        if self.buffers[self.sent].end == next.end {
            let grown = &mut self.buffers[self.sent];
            grown.push |= next.push;
            grown.record_end = next.record_end;
            self.buffers.remove(self.sent + 1);
        }
    }

    /// Cuts the first buffer that was not sent after `len` bytes; the marks stay with the second part (tso_fragment).
    pub fn split_unsent(&mut self, len: u64) {
        let end = self.start_of(self.sent) + len;
        debug_assert!(self.buffers.get(self.sent).is_some_and(|buffer| end < buffer.end));
        self.buffers.insert(self.sent, Buffer { end, push: false, record_end: false });
    }

    /// The first buffer that was not sent has the push mark, wherever it ends.
    pub fn push_unsent(&mut self) {
        if let Some(buffer) = self.buffers.get_mut(self.sent) {
            buffer.push = true;
        }
    }

    /// The first buffer that was not sent is sent.
    pub fn mark_sent(&mut self) {
        debug_assert!(self.sent < self.buffers.len());
        self.sent += 1;
    }

    /// What begins at `start` or behind it was not sent after all.
    pub fn mark_unsent(&mut self, start: u64) {
        while self.sent > 0 && self.start_of(self.sent - 1) >= start {
            self.sent -= 1;
        }
    }

    /// Forgets everything below `una`. Gives the number of bytes forgotten.
    pub fn acknowledge(&mut self, una: u64) -> u64 {
        let una = una.min(self.tail);
        if una <= self.head {
            return 0;
        }
        while let Some(front) = self.chunks.front()
            && front.start + front.bytes.len() as u64 <= una
        {
            self.chunks.pop_front();
        }
        while self.buffers.front().is_some_and(|buffer| buffer.end <= una) {
            self.buffers.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
        let freed = una - self.head;
        self.head = una;
        if self.chunks.is_empty() {
            // An idle connection holds no memory for what it does not have.
            (self.chunks, self.buffers) = (VecDeque::new(), VecDeque::new());
        }
        freed
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.buffers.clear();
        self.sent = 0;
        self.head = self.tail;
    }

    /// The bytes `[start, end)`, which must be held. Shares the chunk where one holds all of them, else copies.
    pub fn slice(&self, start: u64, end: u64) -> Bytes {
        if start >= end {
            return Bytes::new();
        }
        debug_assert!(start >= self.head && end <= self.tail);
        let at = self.chunks.partition_point(|chunk| chunk.start <= start) - 1;
        let chunk = &self.chunks[at];
        let from = (start - chunk.start) as usize;
        let length = (end - start) as usize;
        if from + length <= chunk.bytes.len() {
            return chunk.bytes.slice(from..from + length);
        }
        let mut copy = BytesMut::with_capacity(length);
        copy.extend_from_slice(&chunk.bytes[from..]);
        for chunk in self.chunks.range(at + 1..) {
            let take = chunk.bytes.len().min(length - copy.len());
            copy.extend_from_slice(&chunk.bytes[..take]);
            if copy.len() == length {
                break;
            }
        }
        copy.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(parts: &[&'static str]) -> SendQueue {
        let mut queue = SendQueue::new(100);
        for part in parts {
            queue.push(Bytes::from_static(part.as_bytes()), true);
        }
        queue
    }

    #[test]
    fn slices_share_or_span_chunks() {
        let mut queue = queue(&["hello ", "cruel ", "world"]);
        assert_eq!(queue.len(), 17);
        assert_eq!(&queue.slice(100, 106)[..], b"hello ");
        assert_eq!(&queue.slice(104, 115)[..], b"o cruel wor");
        assert_eq!(queue.acknowledge(109), 9);
        assert_eq!(&queue.slice(109, 117)[..], b"el world");
        assert_eq!((queue.len(), queue.acknowledge(109)), (8, 0));
        assert_eq!(queue.acknowledge(500), 8);
        assert_eq!((queue.len(), queue.memory()), (0, 0));
    }

    #[test]
    fn a_buffer_takes_writes_until_it_is_full_sent_or_a_record() {
        let mut queue = queue(&["abc"]);
        assert_eq!((queue.tail_room(10), queue.memory()), (7, 3 + OVERHEAD));
        queue.push(Bytes::from_static(b"de"), false);
        assert_eq!((queue.tail_room(10), queue.memory()), (5, 5 + OVERHEAD));
        queue.end_record();
        assert_eq!(queue.tail_room(10), 0);
        queue.push(Bytes::from_static(b"f"), true);
        queue.mark_tail(true);
        let first = Unsent { start: 100, end: 105, last: false, record_end: true };
        assert_eq!(queue.unsent(), Some(first));
        // A record is not joined with what follows.
        queue.grow_unsent(100);
        assert_eq!(queue.unsent(), Some(first));
        queue.mark_sent();
        queue.mark_sent();
        assert_eq!((queue.unsent(), queue.tail_room(10), queue.sent_buffers()), (None, 0, 2));
        assert!(queue.pushes_at(106) && !queue.pushes_at(105));
        queue.acknowledge(103);
        assert_eq!((queue.memory(), queue.sent_buffers()), (3 + 2 * OVERHEAD, 2));
        queue.acknowledge(105);
        assert_eq!((queue.memory(), queue.sent_buffers()), (1 + OVERHEAD, 1));
    }

    #[test]
    fn what_was_sent_in_small_buffers_is_joined() {
        let mut queue = queue(&["abc", "de", "fgh"]);
        queue.mark_sent();
        queue.mark_sent();
        assert!(queue.is_sent_buffer(100, 103) && queue.is_sent_buffer(103, 105) && !queue.is_sent_buffer(105, 108));
        queue.join_sent(100);
        assert!(queue.is_sent_buffer(100, 105));
        assert_eq!((queue.sent_buffers(), queue.memory()), (1, 8 + 2 * OVERHEAD));
        // Not with what was not sent yet.
        queue.join_sent(100);
        assert_eq!((queue.sent_buffers(), queue.unsent().map(|unsent| unsent.start)), (1, Some(105)));
        queue.acknowledge(102);
        assert!(queue.is_sent_buffer(102, 105) && !queue.ends_record(105));
    }

    #[test]
    fn marks_stay_at_the_end_of_what_is_cut_or_joined() {
        let mut queue = queue(&["abcdef", "gh"]);
        queue.mark_tail(true);
        queue.split_unsent(4);
        assert_eq!(queue.unsent(), Some(Unsent { start: 100, end: 104, last: false, record_end: false }));
        queue.grow_unsent(1);
        assert_eq!(queue.unsent().unwrap().end, 105);
        queue.grow_unsent(1);
        assert!(!queue.pushes_at(106));
        queue.grow_unsent(9);
        assert_eq!(queue.unsent(), Some(Unsent { start: 100, end: 108, last: true, record_end: false }));
        assert!(queue.pushes_at(108));
    }
}
