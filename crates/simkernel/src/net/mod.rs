//! Sockets of the Internet and netlink families: what lies between the socket calls and the host's network stack.
//!
//! The stack (`tcpip`) owns ports, connections and queues; here are descriptors, blocking, flags, options with their layouts, and
//! the interfaces that programs can ask about. Traffic round the loopback interface is carried at once, inside the call that
//! caused it, as on Linux; packets for `eth0` wait for the worker.

pub mod address;
mod ancillary;
pub mod datagram;
mod device;
pub mod dns;
pub mod filter;
mod genetlink;
pub mod inet;
pub mod interfaces;
pub mod ioctl;
pub mod listing;
pub mod message;
pub mod multicast;
pub mod netlink;
pub mod netlink_frame;
pub mod options;
pub mod rtnetlink;
pub mod sock_diag;
pub mod stamp;
pub mod stream;

use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::host::HostConfig;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, SysResult};
use crate::unix::transfer;
use crate::user_io::{ByteSink, ByteSource, UserBuffers};
use crate::wait::Events;
use base::{SimDuration, SimTime};
use bytes::{Bytes, BytesMut};
use inet::InetSocket;
use linux_abi::Errno;
use linux_abi::fs::{O_RDWR, S_IFSOCK};
use message::{Incoming, Message, Outgoing};
use std::collections::BTreeMap;
use std::fmt;
use tcpip::{Ancillary, Packet, Readiness, SendFlags, SocketError, SocketId, Stack, StackCounters};

/// Of a new socket, as fstat(2) shows it.
pub(crate) const SOCKET_MODE: u32 = S_IFSOCK | 0o777;

/// The most that one chunk of a stream's send queue holds: larger ones would be memory mappings of their own.
const CHUNK: usize = 64 << 10;
/// Small writes share allocations of this size, and the first ones of a host, which may send little, of smaller ones.
const ARENA: usize = 16 << 10;
const FIRST_ARENA: usize = 1 << 10;
/// Datagrams up to this size have an allocation each.
const SHORT_DATAGRAM: usize = 256;
/// Bytes that large writes are copied by.
const PIECE: usize = 8192;

/// A host's network stack, and which open file each of its sockets belongs to.
pub struct Network {
    pub stack: Stack,
    /// By `SocketId::place`.
    files: Vec<Option<(SocketId, FileId)>>,
    resolver: dns::Resolver,
    arena: BytesMut,
    /// How much the next one has.
    next_arena: usize,
    /// Netlink ports in use, by protocol, and who has them.
    netlink_ports: BTreeMap<(i32, u32), FileId>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("sockets", &self.stack.socket_count()).finish_non_exhaustive()
    }
}

impl Network {
    pub fn new(config: &HostConfig) -> Self {
        let config_of_stack = tcpip::Config {
            address: config.addresses.v4,
            address6: config.addresses.v6,
            broadcast: config.broadcast(),
            ..config.network.stack.clone()
        };
        let mut stack = Stack::new(config_of_stack, config.seeds.stream(&config.name, "tcpip"));
        Network {
            resolver: dns::Resolver::new(&mut stack),
            stack,
            files: Vec::new(),
            arena: BytesMut::new(),
            next_arena: FIRST_ARENA,
            netlink_ports: BTreeMap::new(),
        }
    }

    /// When the stack wants to be called.
    pub fn next_deadline(&self) -> Option<SimTime> {
        self.stack.next_deadline()
    }

    /// Whether `poll_transmit` may give a packet.
    pub fn wants_transmit(&self) -> bool {
        self.stack.wants_transmit()
    }

    pub fn counters(&self) -> &StackCounters {
        self.stack.counters()
    }

    fn attach(&mut self, id: SocketId, file: FileId) {
        let place = id.place();
        if place >= self.files.len() {
            self.files.resize(place + 1, None);
        }
        self.files[place] = Some((id, file));
    }

    fn detach(&mut self, id: SocketId) {
        if self.file(id).is_some() {
            self.files[id.place()] = None;
        }
    }

    /// The open file of a socket; None for those that no program has.
    pub(crate) fn file(&self, id: SocketId) -> Option<FileId> {
        let (owner, file) = (*self.files.get(id.place())?)?;
        (owner == id).then_some(file)
    }

    /// The next `want` bytes of a source, fewer when it faults, for a datagram. A short one has memory of its own, which the allocator takes
    /// from what was freed last: it is in the cache, and nobody counts who else refers to it.
    fn datagram(&mut self, source: &mut dyn ByteSource, want: usize) -> Bytes {
        if want > SHORT_DATAGRAM {
            return self.chunk(source, want);
        }
        let mut bytes = [0; SHORT_DATAGRAM];
        let got = source.take(&mut bytes[..want]);
        Bytes::copy_from_slice(&bytes[..got])
    }

    /// The next `want` bytes of a source, fewer when it faults, copied once.
    fn chunk(&mut self, source: &mut dyn ByteSource, want: usize) -> Bytes {
        if want > ARENA / 4 {
            // By way of a piece that stays in the cache: cheaper than zeroes for all of it first.
            let mut bytes = Vec::with_capacity(want);
            let mut piece = [0; PIECE];
            while bytes.len() < want {
                let part = PIECE.min(want - bytes.len());
                let got = source.take(&mut piece[..part]);
                bytes.extend_from_slice(&piece[..got]);
                if got < part {
                    break;
                }
            }
            return bytes.into();
        }
        if self.arena.capacity() < want {
            self.arena.reserve(self.next_arena.max(want));
            self.next_arena = (2 * self.next_arena).min(ARENA);
        }
        self.arena.resize(want, 0);
        let got = source.take(&mut self.arena);
        self.arena.truncate(got);
        self.arena.split().freeze()
    }
}

/// The errno that Linux has for a failure of the stack.
pub fn errno(error: SocketError) -> Errno {
    match error {
        SocketError::AddressInUse => Errno::EADDRINUSE,
        SocketError::AddressNotAvailable => Errno::EADDRNOTAVAIL,
        SocketError::AddressFamilyNotSupported => Errno::EAFNOSUPPORT,
        SocketError::ConnectionAborted => Errno::ECONNABORTED,
        SocketError::ConnectionRefused => Errno::ECONNREFUSED,
        SocketError::ConnectionReset => Errno::ECONNRESET,
        SocketError::BrokenPipe => Errno::EPIPE,
        SocketError::TimedOut => Errno::ETIMEDOUT,
        SocketError::NotConnected => Errno::ENOTCONN,
        SocketError::IsConnected => Errno::EISCONN,
        SocketError::AlreadyInProgress => Errno::EALREADY,
        SocketError::InProgress => Errno::EINPROGRESS,
        SocketError::InvalidArgument => Errno::EINVAL,
        SocketError::MessageTooLong => Errno::EMSGSIZE,
        SocketError::HostUnreachable => Errno::EHOSTUNREACH,
        SocketError::NetworkUnreachable => Errno::ENETUNREACH,
        SocketError::WouldBlock => Errno::EAGAIN,
        SocketError::DestinationRequired => Errno::EDESTADDRREQ,
        SocketError::NotSupported => Errno::EOPNOTSUPP,
        SocketError::PermissionDenied => Errno::EACCES,
        SocketError::NoBufferSpace => Errno::ENOBUFS,
        SocketError::NoSuchOption => Errno::ENOPROTOOPT,
        SocketError::Protocol => Errno::EPROTO,
        SocketError::BadSocket => Errno::EBADF,
    }
}

/// The stack's readiness in the words of poll(2).
fn events_of(ready: Readiness) -> Events {
    Events::READABLE.when(ready.contains(Readiness::READABLE))
        | Events::WRITABLE.when(ready.contains(Readiness::WRITABLE))
        | Events::HUP.when(ready.contains(Readiness::HANGUP))
        | Events::RDHUP.when(ready.contains(Readiness::READ_HANGUP))
        | Events::ERR.when(ready.contains(Readiness::ERROR))
}

impl Kernel {
    /// A packet has arrived at `eth0`.
    pub fn receive_packet(&mut self, now: SimTime, packet: Packet) {
        self.set_now(now);
        self.net.stack.receive(now, packet);
    }

    /// Carries loopback traffic and wakes who waits for what happened. Whether anything did.
    pub fn settle_network(&mut self, now: SimTime) -> bool {
        self.set_now(now);
        self.settle_sockets()
    }

    /// The next packet that leaves by `eth0`; the caller asks while its interface has room.
    pub fn poll_transmit(&mut self, now: SimTime) -> Option<Packet> {
        self.set_now(now);
        let packet = self.net.stack.poll_transmit(now);
        // A datagram that leaves makes room for the next.
        self.settle_sockets();
        packet
    }

    /// As `settle_network`, within a call.
    pub(crate) fn settle_sockets(&mut self) -> bool {
        let mut changed = false;
        let waker = self.records_calls.then_some(self.waker);
        loop {
            while self.net.stack.wants_loopback() {
                self.net.stack.run_loopback(self.now);
                self.answer_names();
                changed = true;
            }
            let Some((id, ready)) = self.net.stack.poll_event() else { break };
            changed = true;
            if waker.is_some() {
                self.wakes_by_packet();
            }
            match self.net.file(id) {
                Some(file) => self.notify(file, events_of(ready)),
                None => {
                    let caller = self.note_own_doing();
                    self.net.resolver.go_on(&mut self.net.stack, self.config.hosts.table(), self.now, id);
                    self.resume_doing(caller);
                }
            }
        }
        if let Some(waker) = waker {
            self.waker = waker;
        }
        changed
    }

    fn answer_names(&mut self) {
        let caller = self.note_own_doing();
        self.net.resolver.answer_datagrams(&mut self.net.stack, self.config.hosts.table());
        self.resume_doing(caller);
    }

    pub(crate) fn poll_inet(&mut self, id: SocketId) -> Events {
        events_of(self.net.stack.readiness(id))
    }

    /// A new open file for a socket of the stack.
    fn open_inet(&mut self, socket: InetSocket, nonblocking: u32) -> FileId {
        let id = socket.id;
        let file = self.files.insert(OpenFile::new(FileKind::Inet(Box::new(socket)), O_RDWR | nonblocking));
        self.net.attach(id, file);
        file
    }

    /// The last reference to a socket is gone.
    pub(crate) fn close_inet(&mut self, socket: &InetSocket) {
        self.net.detach(socket.id);
        self.net.stack.close(self.now, socket.id);
        self.settle_sockets();
    }

    /// `try_read` of a socket.
    pub(crate) fn inet_read(&mut self, id: SocketId, is_stream: bool, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let now = self.now;
        let room = sink.remaining();
        let mut faulted = false;
        let mut put = |bytes: &[u8]| {
            let taken = sink.put(bytes);
            faulted |= taken < bytes.len();
            taken
        };
        let result = if is_stream {
            self.net.stack.recv(now, id, room, false, &mut put)
        } else {
            self.net.stack.recv_from(id, room, false, &mut put).map(|received| received.copied)
        };
        self.settle_sockets();
        match result {
            Ok(_) if faulted => Err(Errno::EFAULT),
            other => other.map_err(errno),
        }
    }

    /// `try_write` of a socket: what fits of a stream, one datagram otherwise.
    pub(crate) fn inet_write(
        &mut self,
        id: SocketId,
        is_stream: bool,
        source: &mut dyn ByteSource,
    ) -> Result<usize, Errno> {
        let result = if is_stream {
            stream::push(&mut self.net, self.now, id, source, SendFlags::empty()).map(|pushed| pushed.count)
        } else {
            datagram::push(&mut self.net, id, source, None, &Ancillary::NONE)
        };
        self.settle_sockets();
        match result {
            Ok(0) if source.remaining() > 0 => Err(Errno::EAGAIN),
            other => other,
        }
    }
}

/// Bytes that earlier executions of the call moved. The upper half of the progress counts messages (`recvmmsg`).
pub(crate) fn progress(ctx: &Ctx<'_>) -> usize {
    ctx.thread.call.progress as u32 as usize
}

pub(crate) fn set_progress(ctx: &mut Ctx<'_>, bytes: usize) {
    let messages = ctx.thread.call.progress >> 32 << 32;
    ctx.thread.call.progress = messages | bytes as u64;
}

/// Ends an execution that found nothing (more) to do: with the `done` bytes if there are any and the wait is over or not wanted,
/// EAGAIN, or by waiting. As `sock_intr_errno`: a call with a timeout is not executed again after a signal.
pub(crate) fn wait(ctx: &mut Ctx<'_>, file: FileId, events: Events, blocking: Blocking, done: usize) -> SysResult {
    let end = |errno: Errno| if done > 0 { Ok(done as u64) } else { Err(errno.into()) };
    let Blocking::Until(timeout) = blocking else { return end(Errno::EAGAIN) };
    ctx.deadline_after(timeout);
    if ctx.expired() {
        return end(Errno::EAGAIN);
    }
    match ctx.block_on(file, events) {
        Outcome::Block => Err(Outcome::Block),
        _ if done > 0 => Ok(done as u64),
        _ if timeout.is_some() => Err(Errno::EINTR.into()),
        restart => Err(restart),
    }
}

/// Whether and how long a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocking {
    No,
    Until(Option<SimDuration>),
}

/// Whether a file is a socket.
pub fn is_socket(kind: &FileKind) -> bool {
    matches!(kind, FileKind::Inet(_) | FileKind::Netlink(_) | FileKind::Unix(_))
}

/// Whether a file is a datagram socket of the Internet.
pub fn is_datagram(kind: &FileKind) -> bool {
    matches!(kind, FileKind::Inet(socket) if !socket.is_stream)
}

/// read(2) and readv(2) on a socket.
pub fn read(ctx: &mut Ctx<'_>, file: FileId, data: &UserBuffers) -> SysResult {
    if data.total() == 0 {
        return Ok(0);
    }
    recv(ctx, file, &Incoming { data, control_space: 0, flags: 0 }).map(|message| message.count as u64)
}

/// write(2) and writev(2) on a socket.
pub fn write(ctx: &mut Ctx<'_>, file: FileId, data: &UserBuffers) -> SysResult {
    send(ctx, file, &Outgoing { name: &[], data, control: &[], flags: 0 })
}

/// sendto(2), sendmsg(2).
pub fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    match &ctx.kernel.files[file].kind {
        FileKind::Inet(socket) if socket.is_stream => stream::send(ctx, file, message),
        FileKind::Inet(_) => datagram::send(ctx, file, message),
        FileKind::Netlink(_) => netlink::send(ctx, file, message),
        FileKind::Unix(_) => transfer::send(ctx, file, message),
        _ => Err(Errno::ENOTSOCK.into()),
    }
}

/// recvfrom(2), recvmsg(2).
pub fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    match &ctx.kernel.files[file].kind {
        FileKind::Inet(socket) if socket.is_stream => stream::recv(ctx, file, wanted),
        FileKind::Inet(_) => datagram::recv(ctx, file, wanted),
        FileKind::Netlink(_) => netlink::recv(ctx, file, wanted),
        FileKind::Unix(_) => transfer::recv(ctx, file, wanted),
        _ => Err(Errno::ENOTSOCK.into()),
    }
}

#[cfg(test)]
mod tests;
