//! The bytes that a program has written and the peer has not acknowledged, as shared chunks addressed by sequence number.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: Bytes,
}

#[derive(Debug)]
pub(crate) struct SendQueue {
    chunks: VecDeque<Chunk>,
    /// Everything below is acknowledged.
    head: u64,
    /// Where the next written byte goes.
    tail: u64,
}

impl SendQueue {
    pub fn new(first: u64) -> Self {
        SendQueue { chunks: VecDeque::new(), head: first, tail: first }
    }

    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Bytes held: sent and not acknowledged, or not sent yet.
    pub fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    pub fn push(&mut self, bytes: Bytes) {
        let start = self.tail;
        self.tail += bytes.len() as u64;
        self.chunks.push_back(Chunk { start, bytes });
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
        let freed = una - self.head;
        self.head = una;
        freed
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
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

    #[test]
    fn slices_share_or_span_chunks() {
        let mut queue = SendQueue::new(100);
        for part in [&b"hello "[..], b"cruel ", b"world"] {
            queue.push(Bytes::copy_from_slice(part));
        }
        assert_eq!(queue.len(), 17);
        assert_eq!(&queue.slice(100, 106)[..], b"hello ");
        assert_eq!(&queue.slice(104, 115)[..], b"o cruel wor");
        assert_eq!(queue.acknowledge(109), 9);
        assert_eq!(&queue.slice(109, 117)[..], b"el world");
        assert_eq!((queue.len(), queue.acknowledge(109)), (8, 0));
        assert_eq!(queue.acknowledge(500), 8);
        assert_eq!(queue.len(), 0);
    }
}
