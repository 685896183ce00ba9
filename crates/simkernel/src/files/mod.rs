//! Open file descriptions of every kind: what `read`, `write` and `poll` find behind a descriptor.
//!
//! The inner operations never block: they answer EAGAIN, and the calls in `syscalls` turn that into waiting. One file per kind.

pub mod async_io;
pub mod epoll;
pub mod eventfd;
pub mod fifo;
pub mod inotify;
pub mod output;
pub mod pipe;
pub mod regular;
pub mod signalfd;
pub(crate) mod spliced;
pub mod synthetic;
pub mod timerfd;

use crate::ids::{FileId, Pid};
use crate::kernel::Kernel;
use crate::namespaces::Namespace;
use crate::net::inet::InetSocket;
use crate::net::netlink::NetlinkSocket;
use crate::signal::SigSet;
use crate::syscalls::OpenQueue;
use crate::tty::TtyFile;
use crate::unix::UnixId;
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::synthetic::Device;
use crate::wait::{Events, WaitQueue};
use base::SimTime;
use linux_abi::Errno;
use linux_abi::fs::{IN_ACCESS, IN_MODIFY, O_ACCMODE, O_DIRECT, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY, Stat};
use slab::Slab;
use std::collections::BTreeMap;
use std::fs::File;
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
    /// Who is told by signal when it is ready, with O_ASYNC.
    pub signals: async_io::Async,
}

/// What an open file of O_PATH is of.
#[derive(Debug)]
pub struct Place {
    pub path: Vec<u8>,
    /// What it was when its name was removed.
    pub gone: Option<Box<Stat>>,
}

impl Place {
    pub fn new(path: Vec<u8>) -> Self {
        Place { path, gone: None }
    }
}

#[derive(Debug)]
pub enum FileKind {
    Regular(Box<regular::RegularFile>),
    Directory(Box<synthetic::Directory>),
    Snapshot(Box<synthetic::Snapshot>),
    Device(Device),
    /// O_PATH: a name, and nothing that could be read.
    Name(Place),
    /// A place in `Kernel::outputs`.
    Output(u32),
    Pipe(pipe::PipeEnd),
    Event(eventfd::EventFd),
    Timer(timerfd::TimerFd),
    /// A descriptor of these signals (signalfd).
    Signals(SigSet),
    Epoll(Box<epoll::Epoll>),
    Inet(Box<InetSocket>),
    Netlink(Box<NetlinkSocket>),
    Unix(UnixId),
    Inotify(Box<inotify::Inotify>),
    /// A POSIX message queue.
    Queue(Box<OpenQueue>),
    /// Either side of a terminal.
    Terminal(TtyFile),
    /// A descriptor of a process (pidfd_open).
    Process(Pid),
    /// One of `/proc/PID/ns`.
    Namespace(Namespace),
}

impl OpenFile {
    pub fn new(kind: FileKind, status: u32) -> Self {
        OpenFile { kind, status, references: 1, queue: WaitQueue::default(), signals: async_io::Async::default() }
    }

    pub fn nonblocking(&self) -> bool {
        self.status & O_NONBLOCK != 0
    }

    pub fn readable(&self) -> bool {
        matches!(self.status & O_ACCMODE, O_RDONLY | O_RDWR) && self.status & O_PATH == 0
    }

    pub fn writable(&self) -> bool {
        matches!(self.status & O_ACCMODE, O_WRONLY | O_RDWR) && self.status & O_PATH == 0
    }

    /// The inode number of what it keeps from being executed, since it may write to it; files of memory are executed all the same.
    fn written(&self) -> Option<u64> {
        match &self.kind {
            FileKind::Regular(file) if self.writable() && !file.is_memory() => Some(file.number),
            _ => None,
        }
    }
}

/// All open file descriptions of a host.
#[derive(Debug, Default)]
pub struct FileTable {
    slab: Slab<OpenFile>,
    /// How many open files write to an inode, by its number.
    writers: BTreeMap<u64, u32>,
}

impl FileTable {
    /// Enters a file, with one reference.
    pub fn insert(&mut self, file: OpenFile) -> FileId {
        if let Some(number) = file.written() {
            *self.writers.entry(number).or_default() += 1;
        }
        FileId(self.slab.insert(file) as u32)
    }

    /// Whether somebody has a file of a disk open for writing, by its inode number.
    pub(crate) fn is_written(&self, number: u64) -> bool {
        self.writers.contains_key(&number)
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
        let file = self.slab.remove(id.0 as usize);
        if let Some(number) = file.written() {
            match self.writers.get_mut(&number) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.writers.remove(&number)),
            }
        }
        file
    }

    pub fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (FileId, &OpenFile)> {
        self.slab.iter().map(|(i, file)| (FileId(i as u32), file))
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
    /// Whether epoll can wait for the file: it refuses those that are always ready.
    pub fn pollable(&self) -> bool {
        match self {
            FileKind::Regular(_) | FileKind::Directory(_) | FileKind::Output(_) | FileKind::Name(_) => false,
            FileKind::Namespace(_) => false,
            FileKind::Device(device) => *device == Device::Random,
            FileKind::Snapshot(snapshot) => snapshot.is_pollable(),
            _ => true,
        }
    }

    /// Where the next read or write begins; 0 for what has no positions.
    pub fn position(&self) -> u64 {
        match self {
            FileKind::Regular(file) => file.offset,
            FileKind::Snapshot(snapshot) => snapshot.offset,
            FileKind::Directory(directory) => directory.position as u64,
            FileKind::Queue(open) => open.offset,
            _ => 0,
        }
    }

    /// Whether a position makes sense in it.
    pub fn seekable(&self) -> bool {
        matches!(
            self,
            FileKind::Regular(_)
                | FileKind::Directory(_)
                | FileKind::Snapshot(_)
                | FileKind::Device(_)
                | FileKind::Output(_)
                | FileKind::Queue(_)
        )
    }

    /// Whether calls may name a position in it, be it that there is nothing to read or write there (FMODE_PREAD).
    pub fn takes_positions(&self) -> bool {
        self.seekable() || matches!(self, FileKind::Process(_) | FileKind::Namespace(_))
    }

    /// Whether lseek(2) takes it, be it without effect (FMODE_LSEEK).
    pub fn takes_seeks(&self) -> bool {
        use FileKind::{Inet, Namespace, Netlink, Pipe, Process, Terminal, Unix};
        !matches!(self, Pipe(_) | Inet(_) | Netlink(_) | Unix(_) | Terminal(_) | Process(_) | Namespace(_))
    }

    /// Whether Linux has it as a file as those of disks are. Those of the simulation's own count as what they show.
    pub fn is_file(&self) -> bool {
        use FileKind::{Namespace, Process, Queue, Regular, Snapshot};
        matches!(self, Regular(_) | Snapshot(_) | Queue(_) | Process(_) | Namespace(_))
    }

    /// Whether `mmap` takes it, once the mapping's place is known. Files that are made as they are read cannot be mapped.
    pub fn is_mappable(&self) -> bool {
        match self {
            FileKind::Regular(_) | FileKind::Device(Device::Zero) => true,
            FileKind::Snapshot(snapshot) => !snapshot.is_of_kernel(),
            _ => false,
        }
    }

    /// Whether it lies where programs may: pipes, sockets, `/proc` and whatever has no name are mounted without that.
    pub fn is_executable(&self) -> bool {
        match self {
            FileKind::Regular(_) | FileKind::Directory(_) | FileKind::Device(_) | FileKind::Output(_) => true,
            FileKind::Terminal(_) | FileKind::Name(_) => true,
            FileKind::Snapshot(snapshot) => !snapshot.is_of_kernel(),
            _ => false,
        }
    }

    /// Whether there is anything to read in it at all, or to write: others refuse before they look at buffers.
    pub fn has_contents(&self, writing: bool) -> bool {
        use FileKind::{Epoll, Inotify, Namespace, Process, Queue, Signals, Timer};
        let silent = matches!(self, Epoll(_) | Process(_) | Namespace(_));
        let deaf = matches!(self, Timer(_) | Signals(_) | Inotify(_) | Queue(_));
        !(silent || writing && deaf)
    }

    /// Whether it can tell of its readiness by signals (O_ASYNC): others cannot be asked to.
    pub fn sends_signals(&self) -> bool {
        use FileKind::{Inet, Inotify, Netlink, Pipe, Terminal, Unix};
        matches!(self, Pipe(_) | Inet(_) | Netlink(_) | Unix(_) | Terminal(_) | Inotify(_))
            || matches!(self, FileKind::Device(Device::Random | Device::Urandom))
    }

    /// Whether a write that moves a part waits for room and goes on.
    pub fn is_stream(&self) -> bool {
        match self {
            FileKind::Pipe(_) => true,
            FileKind::Inet(socket) => socket.is_stream,
            _ => false,
        }
    }
}

/// What `mmap` maps of an open file.
#[derive(Debug)]
pub enum MappingSource {
    Real {
        file: File,
        name: Vec<u8>,
    },
    /// A file that exists in the simulation only.
    Bytes {
        bytes: Vec<u8>,
        name: Vec<u8>,
    },
    /// `/dev/zero`.
    Zero,
}

impl Kernel {
    /// What a mapping of this file shows. ENODEV for kinds that cannot be mapped. A socket shows nothing: a file without a byte.
    pub fn mapping_source(&mut self, id: FileId) -> Result<MappingSource, Errno> {
        match &self.files[id].kind {
            FileKind::Regular(file) => {
                let name = file.path.clone();
                let fd = self.real_descriptor(id)?.try_clone_to_owned().map_err(|e| crate::machine::io_errno(&e))?;
                Ok(MappingSource::Real { file: File::from(fd), name })
            }
            FileKind::Snapshot(file) if file.has_content() => {
                Ok(MappingSource::Bytes { bytes: file.content.clone(), name: file.path.clone() })
            }
            FileKind::Device(Device::Zero) => Ok(MappingSource::Zero),
            FileKind::Inet(_) => {
                let nothing = rustix::fs::memfd_create("socket", rustix::fs::MemfdFlags::CLOEXEC);
                let file = File::from(nothing.map_err(crate::vfs::errno)?);
                Ok(MappingSource::Real { file, name: self.describe_file(id) })
            }
            _ => Err(Errno::ENODEV),
        }
    }

    /// What the file is ready for now.
    pub fn poll_file(&mut self, id: FileId) -> Events {
        match &self.files[id].kind {
            FileKind::Pipe(end) => self.pipes[end.pipe.0 as usize].poll(*end),
            FileKind::Event(event) => event.poll(),
            FileKind::Timer(timer) => timer.poll(),
            FileKind::Signals(set) => self.poll_signals(*set),
            FileKind::Epoll(_) => self.poll_epoll(id),
            FileKind::Inet(socket) => {
                let socket = socket.id;
                self.poll_inet(socket)
            }
            FileKind::Netlink(socket) => socket.poll(),
            FileKind::Unix(socket) => self.poll_unix(*socket),
            FileKind::Terminal(file) => self.poll_terminal(*file),
            FileKind::Name(_) => Events::NVAL,
            FileKind::Inotify(instance) => instance.poll(),
            FileKind::Queue(open) => {
                let queue = self.ipc.queues.get(open.queue);
                Events::READABLE.when(!queue.is_empty()) | Events::WRITABLE.when(!queue.is_full())
            }
            FileKind::Process(pid) => {
                let waits = self.processes.get(pid.0).is_some_and(|process| process.zombie.is_some());
                Events::READABLE.when(!self.is_alive(*pid)) | Events::HUP.when(!self.is_alive(*pid) && !waits)
            }
            FileKind::Regular(_)
            | FileKind::Directory(_)
            | FileKind::Snapshot(_)
            | FileKind::Device(_)
            | FileKind::Namespace(_)
            | FileKind::Output(_) => Events::READABLE | Events::WRITABLE,
        }
    }

    /// Reads what is there. EAGAIN when the file's reader has to wait, whatever its O_NONBLOCK says.
    pub fn try_read(&mut self, id: FileId, sink: &mut dyn ByteSink, position: Option<u64>) -> Result<usize, Errno> {
        match &mut self.files[id].kind {
            FileKind::Pipe(end) => {
                let end = *end;
                self.pipe_read(end, sink)
            }
            FileKind::Regular(_) => self.regular_read(id, sink, position),
            FileKind::Snapshot(snapshot) => {
                let done = snapshot.read(sink, position)?;
                self.accessed(id, done, IN_ACCESS)
            }
            FileKind::Device(device) => {
                let device = *device;
                let done = self.device_read(device, sink)?;
                self.accessed(id, done, IN_ACCESS)
            }
            FileKind::Event(event) => {
                check_eight(sink.remaining())?;
                let value = event.read()?;
                put_u64(sink, value)?;
                self.notify(id, Events::WRITABLE);
                Ok(8)
            }
            FileKind::Timer(_) => {
                check_eight(sink.remaining())?;
                self.resume_timerfd(id);
                let FileKind::Timer(timer) = &mut self.files[id].kind else { return Err(Errno::EINVAL) };
                let ticks = timer.read(self.now)?;
                put_u64(sink, ticks)
            }
            FileKind::Inet(socket) => {
                let (socket, is_stream) = (socket.id, socket.is_stream);
                self.inet_read(socket, is_stream, sink)
            }
            FileKind::Netlink(_) => self.netlink_read(id, sink),
            FileKind::Unix(socket) => {
                let socket = *socket;
                self.unix_read(socket, sink)
            }
            FileKind::Inotify(instance) => instance.read(sink),
            FileKind::Queue(open) => {
                let OpenQueue { queue, offset } = **open;
                self.queue_read(id, queue, offset, sink, position)
            }
            FileKind::Directory(_) => Err(Errno::EISDIR),
            FileKind::Output(_) | FileKind::Name(_) => Err(Errno::EBADF),
            FileKind::Namespace(_)
            | FileKind::Epoll(_)
            | FileKind::Process(_)
            | FileKind::Signals(_)
            | FileKind::Terminal(_) => Err(Errno::EINVAL),
        }
    }

    /// Writes what fits. EAGAIN when nothing does, whatever O_NONBLOCK says.
    pub fn try_write(
        &mut self,
        id: FileId,
        source: &mut dyn ByteSource,
        position: Option<u64>,
        now: SimTime,
    ) -> Result<usize, Errno> {
        let packet = self.files[id].status & O_DIRECT != 0;
        match &mut self.files[id].kind {
            FileKind::Pipe(end) => {
                let end = *end;
                self.pipe_write(end, source, packet)
            }
            FileKind::Output(output) => {
                let output = *output;
                self.output_write(output, source)
            }
            FileKind::Regular(_) => self.regular_write(id, source, position, now),
            FileKind::Device(Device::Mark) => self.mark_write(source),
            FileKind::Device(device) => {
                let done = synthetic::device_write(*device, source)?;
                self.accessed(id, done, IN_MODIFY)
            }
            FileKind::Snapshot(_) => synthetic::device_write(Device::Null, source),
            FileKind::Event(event) => {
                // Neither less nor more (`eventfd_write`).
                if source.remaining() != 8 {
                    return Err(Errno::EINVAL);
                }
                let mut value = [0; 8];
                if source.take(&mut value) < 8 {
                    return Err(Errno::EFAULT);
                }
                event.write(u64::from_le_bytes(value))?;
                self.notify(id, Events::READABLE);
                Ok(8)
            }
            FileKind::Inet(socket) => {
                let (socket, is_stream) = (socket.id, socket.is_stream);
                self.inet_write(socket, is_stream, source)
            }
            FileKind::Netlink(_) => self.netlink_write(id, source),
            FileKind::Unix(socket) => {
                let socket = *socket;
                self.unix_write(socket, source)
            }
            FileKind::Directory(_) | FileKind::Name(_) | FileKind::Inotify(_) => Err(Errno::EBADF),
            FileKind::Queue(_)
            | FileKind::Timer(_)
            | FileKind::Epoll(_)
            | FileKind::Process(_)
            | FileKind::Namespace(_)
            | FileKind::Signals(_)
            | FileKind::Terminal(_) => Err(Errno::EINVAL),
        }
    }

    /// So many bytes of what is made up were read or written: watches learn of it.
    fn accessed(&mut self, id: FileId, done: usize, mask: u32) -> Result<usize, Errno> {
        if done > 0 {
            self.open_file_event(id, mask);
        }
        Ok(done)
    }

    /// What a kind does when its last reference is gone. The file is no longer in the table.
    pub(crate) fn close_kind(&mut self, id: FileId, file: OpenFile) {
        self.closed_file_event(&file);
        match file.kind {
            FileKind::Inotify(_) => self.watchers.remove(id),
            FileKind::Pipe(end) => self.close_pipe_end(end, id),
            FileKind::Epoll(epoll) => self.close_epoll(id, *epoll),
            FileKind::Regular(file) => self.close_regular(&file),
            FileKind::Inet(socket) => self.close_inet(&socket),
            FileKind::Netlink(socket) => self.close_netlink(&socket),
            FileKind::Unix(socket) => self.close_unix(socket),
            FileKind::Queue(open) => self.ipc.queues.detach(open.queue, id),
            FileKind::Process(pid) => self.family.unwatch(pid, id),
            FileKind::Terminal(file) => self.close_terminal(id, file),
            FileKind::Signals(_) => {
                self.signalfds.remove(&id);
            }
            _ => {}
        }
    }
}

/// Counters are read as eight bytes. EINVAL for less room.
fn check_eight(len: usize) -> Result<(), Errno> {
    if len < 8 { Err(Errno::EINVAL) } else { Ok(()) }
}

fn put_u64(sink: &mut dyn ByteSink, value: u64) -> Result<usize, Errno> {
    if sink.put(&value.to_le_bytes()) == 8 { Ok(8) } else { Err(Errno::EFAULT) }
}

#[cfg(test)]
mod tests;
