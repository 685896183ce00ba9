//! The two ends of every read and write: where bytes come from and where they go. Usually a guest's buffers; slices in tests
//! and where the kernel moves bytes between files itself.

use crate::outcome::Outcome;
use guest::{AddressSpace, USER_END};
use linux_abi::Errno;
use linux_abi::fs::{IOV_MAX, Iovec, MAX_RW_COUNT};
use smallvec::SmallVec;

/// Where a write's bytes come from.
pub trait ByteSource {
    fn remaining(&self) -> usize;
    /// Fills `buf` from the next bytes; fewer than asked for only when the guest's memory faults (or the source ends).
    fn take(&mut self, buf: &mut [u8]) -> usize;
    /// Passes over bytes that an earlier execution of the call took.
    fn skip(&mut self, count: usize);
}

/// Where a read's bytes go.
pub trait ByteSink {
    fn remaining(&self) -> usize;
    /// Stores bytes; fewer than given only when the guest's memory faults (or the sink is full).
    fn put(&mut self, data: &[u8]) -> usize;
}

/// A guest's buffers: one, or a vector of them.
#[derive(Clone, Debug, Default)]
pub struct UserBuffers {
    segments: SmallVec<[(u64, u64); 2]>,
    total: usize,
    /// Reaches past what a program can have mapped at all.
    impossible: bool,
    is_vector: bool,
}

fn is_impossible(address: u64, len: u64) -> bool {
    address.checked_add(len).is_none_or(|end| end > USER_END)
}

impl UserBuffers {
    /// One buffer, cut to what Linux moves in one call.
    pub fn single(address: u64, len: u64) -> Self {
        let impossible = is_impossible(address, len);
        let len = len.min(MAX_RW_COUNT);
        UserBuffers {
            impossible,
            is_vector: false,
            segments: SmallVec::from_slice(&[(address, len)]),
            total: len as usize,
        }
    }

    /// The vector of `readv` and its relatives. EINVAL for too many or too long ones, EFAULT for a bad vector.
    pub fn vector(memory: &AddressSpace, address: u64, count: u64) -> Result<Self, Outcome> {
        if count > IOV_MAX as u64 {
            return Err(Errno::EINVAL.into());
        }
        let mut buffers = UserBuffers { is_vector: true, ..UserBuffers::default() };
        for i in 0..count {
            let iovec: Iovec = memory.read_value(address.wrapping_add(i * size_of::<Iovec>() as u64))?;
            buffers.push(iovec)?;
        }
        Ok(buffers)
    }

    fn push(&mut self, iovec: Iovec) -> Result<(), Errno> {
        if iovec.iov_len > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let len = iovec.iov_len.min(MAX_RW_COUNT - self.total as u64);
        self.impossible |= is_impossible(iovec.iov_base, iovec.iov_len);
        self.segments.push((iovec.iov_base, len));
        self.total += len as usize;
        Ok(())
    }

    /// EFAULT for buffers that cannot exist: found before anything is read or written (`access_ok`).
    pub fn check(&self) -> Result<(), Errno> {
        if self.impossible { Err(Errno::EFAULT) } else { Ok(()) }
    }

    /// A vector without a byte: such a call ends before it comes to the file, unlike one with an empty buffer.
    pub fn is_empty_vector(&self) -> bool {
        self.is_vector && self.total == 0
    }

    pub fn total(&self) -> usize {
        self.total
    }

    /// The buffers one by one.
    pub fn parts(&self) -> impl Iterator<Item = UserBuffers> + '_ {
        self.segments.iter().map(|(address, len)| UserBuffers::single(*address, *len))
    }

    pub fn source<'a>(&'a self, memory: &'a AddressSpace) -> UserCursor<'a> {
        self.cursor(memory)
    }

    pub fn sink<'a>(&'a self, memory: &'a AddressSpace) -> UserCursor<'a> {
        self.cursor(memory)
    }

    fn cursor<'a>(&'a self, memory: &'a AddressSpace) -> UserCursor<'a> {
        UserCursor { memory, segments: &self.segments, offset: 0, remaining: self.total }
    }
}

/// A place within a guest's buffers.
#[derive(Debug)]
pub struct UserCursor<'a> {
    memory: &'a AddressSpace,
    segments: &'a [(u64, u64)],
    /// Within the first segment.
    offset: u64,
    remaining: usize,
}

impl UserCursor<'_> {
    /// No more than so many bytes from here on.
    pub fn limit(&mut self, bytes: usize) {
        self.remaining = self.remaining.min(bytes);
    }

    /// The next contiguous piece, at most `max` long.
    fn piece(&mut self, max: usize) -> Option<(u64, usize)> {
        loop {
            let &(address, len) = self.segments.first()?;
            if self.offset < len {
                return Some((address.wrapping_add(self.offset), max.min((len - self.offset) as usize)));
            }
            self.segments = &self.segments[1..];
            self.offset = 0;
        }
    }

    fn advance(&mut self, count: usize) {
        self.offset += count as u64;
        self.remaining -= count;
    }
}

impl ByteSource for UserCursor<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn take(&mut self, buf: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let Some((address, len)) = self.piece(buf.len() - done) else { break };
            let copied = self.memory.read_partial(address, &mut buf[done..done + len]);
            self.advance(copied);
            done += copied;
            if copied < len {
                break;
            }
        }
        done
    }

    fn skip(&mut self, count: usize) {
        let mut left = count.min(self.remaining);
        while left > 0 {
            let Some((_, len)) = self.piece(left) else { break };
            self.advance(len);
            left -= len;
        }
    }
}

impl ByteSink for UserCursor<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn put(&mut self, data: &[u8]) -> usize {
        let mut done = 0;
        while done < data.len() {
            let Some((address, len)) = self.piece(data.len() - done) else { break };
            let copied = self.memory.write_partial(address, &data[done..done + len]);
            self.advance(copied);
            done += copied;
            if copied < len {
                break;
            }
        }
        done
    }
}

/// Bytes that the kernel itself holds.
impl ByteSource for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn take(&mut self, buf: &mut [u8]) -> usize {
        let count = buf.len().min(self.len());
        buf[..count].copy_from_slice(&self[..count]);
        *self = &self[count..];
        count
    }
    fn skip(&mut self, count: usize) {
        *self = &self[count.min(self.len())..];
    }
}

/// A sink inside the kernel, with a bound.
#[derive(Debug)]
pub struct VecSink {
    pub data: Vec<u8>,
    limit: usize,
}

impl VecSink {
    pub fn new(limit: usize) -> Self {
        VecSink { data: Vec::new(), limit }
    }
}

impl ByteSink for VecSink {
    fn remaining(&self) -> usize {
        self.limit - self.data.len()
    }
    fn put(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(self.remaining());
        self.data.extend_from_slice(&data[..count]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_cut_at_what_one_call_moves() {
        let mut buffers = UserBuffers::default();
        buffers.push(Iovec { iov_base: 0, iov_len: MAX_RW_COUNT - 10 }).unwrap();
        buffers.push(Iovec { iov_base: 0, iov_len: 100 }).unwrap();
        assert_eq!(buffers.total() as u64, MAX_RW_COUNT);
        assert_eq!(buffers.push(Iovec { iov_base: 0, iov_len: u64::MAX }), Err(Errno::EINVAL));
    }

    #[test]
    fn slices_give_and_sinks_take_up_to_their_bound() {
        let mut source: &[u8] = b"hello";
        source.skip(1);
        let mut buf = [0; 8];
        assert_eq!(source.take(&mut buf), 4);
        let mut sink = VecSink::new(3);
        assert_eq!(sink.put(&buf[..4]), 3);
        assert_eq!(sink.data, b"ell");
    }
}
