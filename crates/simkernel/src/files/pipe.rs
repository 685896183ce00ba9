//! Pipes and FIFOs, with Linux's own buffering: a ring of pages, into the last of which small writes are merged (fs/pipe.c).
//! What fits and what blocks therefore agrees with Linux to the byte.

use super::fifo::Fifo;
use super::spliced::{Change, FilePlace, follow};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::permission::Permissions;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::S_IFIFO;
use smallvec::SmallVec;
use std::collections::VecDeque;

pub(super) const PAGE: usize = 4096;
/// Pages of a new pipe (64 KiB).
const DEFAULT_PAGES: usize = 16;
/// `/proc/sys/fs/pipe-max-size`, in pages.
const MAX_PAGES: usize = 256;
/// What no pipe can have, in bytes.
const MOST_BYTES: usize = 1 << 31;
/// Emptied pages kept for the next write.
const SPARE_PAGES: usize = 2;

/// A place in `Kernel::pipes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeId(pub u32);

/// One open file on a pipe.
#[derive(Clone, Copy, Debug)]
pub struct PipeEnd {
    pub pipe: PipeId,
    pub reads: bool,
    pub writes: bool,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8; PAGE]>,
    /// Written in packet mode: read alone, and what is not read is lost.
    packet: bool,
    /// It came by splice or tee: nothing is appended.
    foreign: bool,
    /// It is a file's.
    file: Option<FilePlace>,
    start: usize,
    end: usize,
}

#[derive(Debug)]
pub struct Pipe {
    pages: VecDeque<Page>,
    spare: SmallVec<[Box<[u8; PAGE]>; SPARE_PAGES]>,
    max_pages: usize,
    bytes: usize,
    pub permissions: Permissions,
    /// The file in front of it, if it has a name.
    pub fifo: Option<Box<Fifo>>,
    /// Open files that can read, and those that can write. A FIFO may have several, an anonymous pipe one of each.
    readers: SmallVec<[FileId; 1]>,
    writers: SmallVec<[FileId; 1]>,
    /// How often an end was opened, ever: a FIFO's `open` waits for the other end's count to change.
    pub opened_readers: u64,
    pub opened_writers: u64,
}

impl Default for Pipe {
    fn default() -> Self {
        Pipe {
            pages: VecDeque::new(),
            spare: SmallVec::new(),
            max_pages: DEFAULT_PAGES,
            bytes: 0,
            permissions: Permissions { mode: S_IFIFO | 0o600, user: 0, group: 0 },
            fifo: None,
            readers: SmallVec::new(),
            writers: SmallVec::new(),
            opened_readers: 0,
            opened_writers: 0,
        }
    }
}

impl Pipe {
    /// Bytes that a read would find.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= self.max_pages
    }

    pub fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    pub fn has_writers(&self) -> bool {
        !self.writers.is_empty()
    }

    /// In bytes, as F_GETPIPE_SZ returns it.
    pub fn capacity(&self) -> usize {
        self.max_pages * PAGE
    }

    /// F_SETPIPE_SZ: rounded up to a power of two of pages. EINVAL past 2 GiB, EPERM above the system's maximum without CAP_SYS_RESOURCE
    /// (`privileged`), EBUSY when more is inside.
    pub fn set_capacity(&mut self, bytes: usize, privileged: bool) -> Result<usize, Errno> {
        if bytes > MOST_BYTES {
            return Err(Errno::EINVAL);
        }
        let pages = bytes.div_ceil(PAGE).max(1).next_power_of_two();
        if pages > MAX_PAGES.max(self.max_pages) && !privileged {
            return Err(Errno::EPERM);
        }
        if pages < self.pages.len() {
            return Err(Errno::EBUSY);
        }
        self.max_pages = pages;
        Ok(self.capacity())
    }

    fn empty_page(&mut self) -> Box<[u8; PAGE]> {
        self.spare.pop().unwrap_or_else(|| Box::new([0; PAGE]))
    }

    /// Moves what is there. A page whose part the sink cannot take stays as it is (`pipe_read` in fs/pipe.c), and EFAULT when it
    /// is the first.
    fn read(&mut self, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let mut done = 0;
        while sink.remaining() > 0 {
            let Some(page) = self.pages.front_mut() else { break };
            let want = (page.end - page.start).min(sink.remaining());
            if sink.put(&page.bytes[page.start..page.start + want]) < want {
                self.bytes -= done;
                return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
            }
            page.start += want;
            done += want;
            let packet = page.packet;
            if packet {
                self.bytes -= page.end - page.start;
                page.start = page.end;
            }
            if page.start == page.end {
                let page = self.pages.pop_front().expect("the page just read");
                if self.spare.len() < SPARE_PAGES {
                    self.spare.push(page.bytes);
                }
            }
            if packet {
                break;
            }
        }
        self.bytes -= done;
        Ok(done)
    }

    /// Moves what fits now. A page that the source cannot give whole is left out (`pipe_write` in fs/pipe.c), and EFAULT when it is
    /// the first.
    fn write(&mut self, source: &mut dyn ByteSource, packet: bool) -> Result<usize, Errno> {
        let before = self.bytes;
        let tail = source.remaining() % PAGE;
        let merges = |page: &&mut Page| tail > 0 && page.end + tail <= PAGE && !page.packet && !page.foreign;
        if let Some(page) = self.pages.back_mut().filter(merges) {
            if source.take(&mut page.bytes[page.end..page.end + tail]) < tail {
                return Err(Errno::EFAULT);
            }
            page.end += tail;
            self.bytes += tail;
        }
        while source.remaining() > 0 && !self.is_full() {
            let mut bytes = self.empty_page();
            let want = source.remaining().min(PAGE);
            if source.take(&mut bytes[..want]) < want {
                let done = self.bytes - before;
                return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
            }
            self.pages.push_back(Page { bytes, packet, foreign: false, file: None, start: 0, end: want });
            self.bytes += want;
        }
        Ok(self.bytes - before)
    }

    /// Takes bytes as pages of their own, the first of which ends where a page of their file does: as splice hands over pages of files.
    /// `offset` is where the bytes begin in their file, `place` says whose the page at an offset is. What fits.
    fn take_pages(&mut self, mut bytes: &[u8], offset: u64, place: impl Fn(u64) -> Option<FilePlace>) -> usize {
        let before = bytes.len();
        let mut room = PAGE - offset as usize % PAGE;
        while !bytes.is_empty() && !self.is_full() {
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            let mut page = self.empty_page();
            page[..part.len()].copy_from_slice(part);
            let file = place(offset + (before - bytes.len()) as u64);
            self.pages.push_back(Page { bytes: page, packet: false, foreign: true, file, start: 0, end: part.len() });
            self.bytes += part.len();
            (bytes, room) = (rest, PAGE);
        }
        before - bytes.len()
    }

    /// A file has changed. Whether any file's pages lie here.
    pub(super) fn follow(&mut self, number: u64, change: Change<'_>) -> bool {
        for page in &mut self.pages {
            let Some(place) = page.file.filter(|place| place.number == number) else { continue };
            if !follow(place, &mut page.bytes[..page.end], change) {
                page.file = None;
            }
        }
        self.pages.iter().any(|page| page.file.is_some())
    }

    /// At most `max` bytes as they lie in pages, as many as `places` of these (`splice_pipe_to_pipe`, `link_pipe`): a copy, which is not one's
    /// to append to unless the whole page goes.
    fn copy_pages(&self, max: usize, places: usize, moves: bool) -> Vec<Page> {
        let (mut copies, mut left) = (Vec::new(), max);
        for page in self.pages.iter().take(places) {
            if left == 0 {
                break;
            }
            let len = (page.end - page.start).min(left);
            let whole = moves && page.start + len == page.end;
            let (start, end, foreign) = (page.start, page.start + len, page.foreign || !whole);
            copies.push(Page { bytes: page.bytes.clone(), packet: page.packet, foreign, file: page.file, start, end });
            left -= len;
        }
        copies
    }

    /// Drops the next bytes, which have gone elsewhere. Unlike a read it leaves the rest of a packet.
    fn skip(&mut self, count: usize) {
        let mut left = count.min(self.bytes);
        self.bytes -= left;
        while let Some(page) = self.pages.front_mut().filter(|_| left > 0) {
            let len = (page.end - page.start).min(left);
            page.start += len;
            left -= len;
            if page.start == page.end {
                let page = self.pages.pop_front().expect("the page just looked at");
                if self.spare.len() < SPARE_PAGES {
                    self.spare.push(page.bytes);
                }
            }
        }
    }

    /// Bytes that whole free pages take.
    pub(crate) fn room(&self) -> usize {
        (self.max_pages - self.pages.len().min(self.max_pages)) * PAGE
    }

    /// A copy of the next bytes, at most `max`.
    pub(crate) fn peek(&self, max: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(max.min(self.bytes));
        for page in &self.pages {
            let want = (page.end - page.start).min(max - bytes.len());
            bytes.extend_from_slice(&page.bytes[page.start..page.start + want]);
        }
        bytes
    }

    /// The readiness of an end.
    pub fn poll(&self, end: PipeEnd) -> Events {
        let mut events = Events::NONE;
        if end.reads {
            events |= Events::READABLE.when(!self.is_empty())
                | Events::HUP.when(!self.has_writers() && self.opened_writers > 0);
        }
        if end.writes {
            events |= Events::WRITABLE.when(!self.is_full()) | Events::ERR.when(!self.has_readers());
        }
        events
    }
}

impl Kernel {
    /// A new pipe without ends.
    pub fn new_pipe(&mut self) -> PipeId {
        PipeId(self.pipes.insert(Pipe::default()) as u32)
    }

    /// Enters a new open file among its pipe's ends.
    pub fn attach_pipe_end(&mut self, end: PipeEnd, file: FileId) {
        let pipe = &mut self.pipes[end.pipe.0 as usize];
        if end.reads {
            pipe.readers.push(file);
            pipe.opened_readers += 1;
        }
        if end.writes {
            pipe.writers.push(file);
            pipe.opened_writers += 1;
        }
    }

    /// EAGAIN when there is nothing yet; 0 when no writer is left.
    pub(crate) fn pipe_read(&mut self, end: PipeEnd, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let pipe = &mut self.pipes[end.pipe.0 as usize];
        if sink.remaining() == 0 || (pipe.is_empty() && !pipe.has_writers()) {
            return Ok(0);
        }
        if pipe.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let was_full = pipe.is_full();
        let done = pipe.read(sink)?;
        let has_file = pipe.fifo.is_some();
        if was_full && !pipe.is_full() {
            self.notify_pipe_writers(end.pipe, Events::WRITABLE);
        }
        if has_file {
            self.note_fifo_use(end.pipe, false);
        }
        Ok(done)
    }

    /// Drops bytes that were peeked and have gone elsewhere.
    pub(crate) fn pipe_consume(&mut self, end: PipeEnd, count: usize) {
        let pipe = &mut self.pipes[end.pipe.0 as usize];
        let was_full = pipe.is_full();
        pipe.skip(count);
        if was_full && !pipe.is_full() {
            self.notify_pipe_writers(end.pipe, Events::WRITABLE);
        }
    }

    /// Hands at most `max` bytes from one pipe to another, page by page as far as there is room, and keeps them in the first unless it `moves`
    /// them. How many that were.
    pub(crate) fn pipe_hand_over(&mut self, from: PipeEnd, to: PipeEnd, max: usize, moves: bool) -> usize {
        let target = &self.pipes[to.pipe.0 as usize];
        let places = target.max_pages.saturating_sub(target.pages.len());
        let copies = self.pipes[from.pipe.0 as usize].copy_pages(max, places, moves);
        let done = copies.iter().map(|page| page.end - page.start).sum();
        let target = &mut self.pipes[to.pipe.0 as usize];
        target.pages.extend(copies);
        target.bytes += done;
        if self.spliced.has(from.pipe) {
            self.spliced.add(to.pipe);
        }
        if moves {
            self.pipe_consume(from, done);
        }
        if done > 0 {
            self.notify_pipe_readers(to.pipe, Events::READABLE);
        }
        done
    }

    /// Hands bytes to a pipe as pages of their own; `offset` is where they begin in their file, `place` says whose a page is. How many fitted.
    pub(super) fn pipe_take_pages(
        &mut self,
        to: PipeEnd,
        bytes: &[u8],
        offset: u64,
        place: impl Fn(u64) -> Option<FilePlace>,
    ) -> usize {
        let done = self.pipes[to.pipe.0 as usize].take_pages(bytes, offset, place);
        if done > 0 {
            self.notify_pipe_readers(to.pipe, Events::READABLE);
        }
        done
    }

    /// EPIPE without readers, EAGAIN when nothing fits. What fits is moved: it may be less than all.
    /// `packet` is O_DIRECT of the writing end: each write of at most a page is read by itself.
    pub(crate) fn pipe_write(
        &mut self,
        end: PipeEnd,
        source: &mut dyn ByteSource,
        packet: bool,
    ) -> Result<usize, Errno> {
        let pipe = &mut self.pipes[end.pipe.0 as usize];
        if source.remaining() == 0 {
            return Ok(0);
        }
        if !pipe.has_readers() {
            return Err(Errno::EPIPE);
        }
        let done = pipe.write(source, packet)?;
        if done == 0 {
            return Err(Errno::EAGAIN);
        }
        let has_file = pipe.fifo.is_some();
        self.notify_pipe_readers(end.pipe, Events::READABLE);
        if has_file {
            self.note_fifo_use(end.pipe, true);
        }
        Ok(done)
    }

    /// An end was opened: whoever waits in `open` of the other end goes on.
    pub(crate) fn notify_pipe_partners(&mut self, end: PipeEnd) {
        if end.reads {
            self.notify_pipe_writers(end.pipe, Events::WRITABLE);
        }
        if end.writes {
            self.notify_pipe_readers(end.pipe, Events::READABLE);
        }
    }

    fn notify_pipe_readers(&mut self, pipe: PipeId, events: Events) {
        if let [file] = self.pipes[pipe.0 as usize].readers[..] {
            return self.notify(file, events);
        }
        for file in self.pipes[pipe.0 as usize].readers.clone() {
            self.notify(file, events);
        }
    }

    pub(crate) fn notify_pipe_writers(&mut self, pipe: PipeId, events: Events) {
        for file in self.pipes[pipe.0 as usize].writers.clone() {
            self.notify(file, events);
        }
    }

    /// An end's open file is closed for good.
    pub(crate) fn close_pipe_end(&mut self, end: PipeEnd, file: FileId) {
        let pipe = &mut self.pipes[end.pipe.0 as usize];
        pipe.readers.retain(|f| *f != file);
        pipe.writers.retain(|f| *f != file);
        let (readers, writers) = (pipe.has_readers(), pipe.has_writers());
        if !readers && !writers {
            let pipe = self.pipes.remove(end.pipe.0 as usize);
            self.close_fifo(end.pipe, pipe.fifo);
            return;
        }
        if end.reads && !readers {
            self.notify_pipe_writers(end.pipe, Events::ERR | Events::WRITABLE);
        }
        if end.writes && !writers {
            self.notify_pipe_readers(end.pipe, Events::HUP | Events::READABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_io::VecSink;

    fn write(pipe: &mut Pipe, len: usize) -> usize {
        pipe.write(&mut &vec![7; len][..], false).unwrap()
    }

    fn read(pipe: &mut Pipe, len: usize) -> usize {
        pipe.read(&mut VecSink::new(len)).unwrap()
    }

    #[test]
    fn bytes_come_out_in_order_across_pages() {
        let mut pipe = Pipe::default();
        let data: Vec<u8> = (0..20_000u32).map(|i| i as u8).collect();
        assert_eq!(pipe.write(&mut &data[..], false).unwrap(), 20_000);
        let mut sink = VecSink::new(30_000);
        assert_eq!(pipe.read(&mut sink).unwrap(), 20_000);
        assert_eq!(sink.data, data);
        assert_eq!(pipe.len(), 0);
    }

    #[test]
    fn small_writes_merge_until_the_page_is_full() {
        let mut pipe = Pipe::default();
        let total: usize = std::iter::repeat_with(|| write(&mut pipe, 1)).take_while(|&n| n == 1).count();
        assert_eq!(total, 65_536);
        // 100 bytes do not divide a page: each page holds 40 of them, as on Linux.
        let mut pipe = Pipe::default();
        let total: usize = std::iter::repeat_with(|| write(&mut pipe, 100)).take_while(|&n| n == 100).sum();
        assert_eq!(total, 16 * 4000);
    }

    #[test]
    fn room_appears_when_a_whole_page_is_read() {
        let mut pipe = Pipe::default();
        let end = PipeEnd { pipe: PipeId(0), reads: false, writes: true };
        assert_eq!(write(&mut pipe, 100_000), 65_536);
        assert!(!pipe.poll(end).intersects(Events::OUT));
        read(&mut pipe, 4095);
        assert_eq!(write(&mut pipe, 1), 0);
        read(&mut pipe, 1);
        assert!(pipe.poll(end).intersects(Events::OUT));
        assert_eq!(write(&mut pipe, 4096), 4096);
    }

    #[test]
    fn packets_are_read_one_by_one_and_cut() {
        let mut pipe = Pipe::default();
        for packet in [&b"first"[..], b"second", b"third"] {
            pipe.write(&mut &packet[..], true).unwrap();
        }
        assert_eq!((read(&mut pipe, 100), read(&mut pipe, 3), pipe.len()), (5, 3, 5));
        write(&mut pipe, 4);
        assert_eq!((read(&mut pipe, 100), read(&mut pipe, 100)), (5, 4));
    }

    #[test]
    fn capacity_is_a_power_of_two_of_pages() {
        let mut pipe = Pipe::default();
        assert_eq!(pipe.set_capacity(5000, false), Ok(8192));
        assert_eq!(pipe.set_capacity(2 << 20, false), Err(Errno::EPERM));
        assert_eq!(write(&mut pipe, 100_000), 8192);
        assert_eq!(pipe.set_capacity(4096, false), Err(Errno::EBUSY));
    }
}
