//! Open file descriptions of every kind: what `read`, `write` and `poll` find behind a descriptor.
//!
//! The inner operations never block: they answer EAGAIN, and the calls in `syscalls` turn that into waiting. One file per kind.

pub mod epoll;
pub mod eventfd;
pub mod pipe;
pub mod timerfd;

use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::wait::{Events, WaitQueue};
use linux_abi::fs::{O_ACCMODE, O_NONBLOCK, O_PATH, O_RDONLY, O_WRONLY};
use slab::Slab;
use std::ops::{Index, IndexMut};

/// One open file description.
#[derive(Debug)]
pub struct OpenFile {
    pub kind: FileKind,
    /// Access mode and status flags, in the bits of `open`.
    pub status: u32,
    /// Descriptors, and messages in flight, that hold it.
    pub references: u32,
    pub queue: WaitQueue,
    /// F_SETOWN: kept, no signal is ever sent.
    pub owner: i32,
}

#[derive(Debug)]
pub enum FileKind {
    Pipe(pipe::PipeEnd),
    Event(eventfd::EventFd),
    Timer(timerfd::TimerFd),
    Epoll(Box<epoll::Epoll>),
}

impl OpenFile {
    pub fn new(kind: FileKind, status: u32) -> Self {
        OpenFile { kind, status, references: 1, queue: WaitQueue::default(), owner: 0 }
    }

    pub fn nonblocking(&self) -> bool {
        self.status & O_NONBLOCK != 0
    }

    pub fn readable(&self) -> bool {
        self.status & O_ACCMODE != O_WRONLY && self.status & O_PATH == 0
    }

    pub fn writable(&self) -> bool {
        self.status & O_ACCMODE != O_RDONLY && self.status & O_PATH == 0
    }
}

/// All open file descriptions of a host.
#[derive(Debug, Default)]
pub struct FileTable {
    slab: Slab<OpenFile>,
}

impl FileTable {
    /// Enters a file, with one reference.
    pub fn insert(&mut self, file: OpenFile) -> FileId {
        FileId(self.slab.insert(file) as u32)
    }

    #[inline]
    pub fn get(&self, id: FileId) -> Option<&OpenFile> {
        self.slab.get(id.0 as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, id: FileId) -> Option<&mut OpenFile> {
        self.slab.get_mut(id.0 as usize)
    }

    /// One more descriptor (or message in flight) holds the file.
    pub fn acquire(&mut self, id: FileId) {
        self[id].references += 1;
    }

    pub(crate) fn remove(&mut self, id: FileId) -> OpenFile {
        self.slab.remove(id.0 as usize)
    }

    pub fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FileId, &mut OpenFile)> {
        self.slab.iter_mut().map(|(i, file)| (FileId(i as u32), file))
    }
}

impl Index<FileId> for FileTable {
    type Output = OpenFile;
    #[inline]
    fn index(&self, id: FileId) -> &OpenFile {
        &self.slab[id.0 as usize]
    }
}

impl IndexMut<FileId> for FileTable {
    #[inline]
    fn index_mut(&mut self, id: FileId) -> &mut OpenFile {
        &mut self.slab[id.0 as usize]
    }
}

impl FileKind {
    /// Whether the file can be waited for by epoll: regular files and directories cannot.
    pub fn pollable(&self) -> bool {
        true
    }
}

impl Kernel {
    /// What the file is ready for now.
    pub fn poll_file(&self, id: FileId) -> Events {
        match &self.files[id].kind {
            FileKind::Pipe(end) => self.pipes[end.pipe.0 as usize].poll(*end),
            FileKind::Event(event) => event.poll(),
            FileKind::Timer(timer) => timer.poll(),
            FileKind::Epoll(_) => self.poll_epoll(id),
        }
    }

    /// What a kind does when its last reference is gone. The file is no longer in the table.
    pub(crate) fn close_kind(&mut self, id: FileId, file: OpenFile) {
        match file.kind {
            FileKind::Pipe(end) => self.close_pipe_end(end, id),
            FileKind::Epoll(epoll) => self.close_epoll(id, *epoll),
            FileKind::Event(_) | FileKind::Timer(_) => {}
        }
    }
}
