//! AF_NETLINK sockets (netlink(7)) of NETLINK_ROUTE and NETLINK_SOCK_DIAG: descriptors, ports, and the frame of requests and answers. What
//! is answered stands in `rtnetlink` and `sock_diag`. Nothing can be changed, and nothing is told without a request.

use super::address::RawAddress;
use super::interfaces::{ETHERNET_INDEX, LOOPBACK_INDEX};
use super::message::{Incoming, Message, Outgoing};
use super::options::{Kept, write_answer};
use super::{Blocking, SOCKET_MODE, address, rtnetlink, sock_diag, wait};
use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::permission::Permissions;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::net::*;
use linux_abi::sockaddr::SockaddrNl;
use linux_abi::socket::*;
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

/// The longest request that is looked at.
const REQUEST_MAX: usize = 64 << 10;
/// The longest datagram of an answer of several messages.
const DATAGRAM_MAX: usize = 16 << 10;
/// The interfaces, in order.
const LINKS: [i32; 2] = [LOOPBACK_INDEX, ETHERNET_INDEX];
/// What a socket's buffers count as.
const BUFFER_BYTES: i32 = 212_992;

#[derive(Debug)]
pub struct NetlinkSocket {
    /// SOCK_RAW or SOCK_DGRAM, which do the same.
    pub kind: i32,
    /// NETLINK_ROUTE or NETLINK_SOCK_DIAG.
    pub protocol: i32,
    /// Its address; 0 before bind.
    pub port: u32,
    queue: VecDeque<Vec<u8>>,
    pub permissions: Permissions,
    /// Flags of the socket level and of SOL_NETLINK, without effect.
    kept: Kept,
}

impl NetlinkSocket {
    pub fn poll(&self) -> Events {
        Events::WRITABLE | Events::READABLE.when(!self.queue.is_empty())
    }

    /// Bytes of answers that nobody has read.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.iter().map(Vec::len).sum()
    }

    /// The next datagram into a sink, cut to its room: (bytes moved, its length). EAGAIN, EFAULT.
    fn take(&mut self, sink: &mut dyn ByteSink, peek: bool) -> Result<(usize, usize), Errno> {
        let front = self.queue.front().ok_or(Errno::EAGAIN)?;
        let want = front.len().min(sink.remaining());
        let moved = sink.put(&front[..want]);
        let full = front.len();
        if !peek {
            self.queue.pop_front();
        }
        if moved < want { Err(Errno::EFAULT) } else { Ok((moved, full)) }
    }
}

impl Kernel {
    fn netlink(&mut self, file: FileId) -> Result<&mut NetlinkSocket, Errno> {
        match &mut self.files[file].kind {
            FileKind::Netlink(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(crate) fn close_netlink(&mut self, socket: &NetlinkSocket) {
        self.net.netlink_ports.remove(&socket.port);
    }

    /// `try_read` of a netlink socket.
    pub(crate) fn netlink_read(&mut self, file: FileId, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        self.netlink(file)?.take(sink, false).map(|(moved, _)| moved)
    }

    /// A message of the kernel's own to a socket, if it is still one.
    pub(crate) fn netlink_push(&mut self, file: FileId, message: Vec<u8>) {
        if let Ok(socket) = self.netlink(file) {
            socket.queue.push_back(message);
            self.notify(file, Events::READABLE);
        }
    }

    /// `try_write` of a netlink socket: a request, whose answer is queued at once.
    pub(crate) fn netlink_write(&mut self, file: FileId, source: &mut dyn ByteSource) -> Result<usize, Errno> {
        let len = source.remaining();
        if len > REQUEST_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let mut request = vec![0; len];
        if source.take(&mut request) < len {
            return Err(Errno::EFAULT);
        }
        let (protocol, port) = (self.netlink(file)?.protocol, self.netlink(file)?.port);
        let replies = self.answer_netlink(protocol, &request, port);
        self.netlink(file)?.queue.extend(replies);
        self.notify(file, Events::READABLE);
        Ok(len)
    }
}

impl Kernel {
    /// The answers to a datagram of requests.
    fn answer_netlink(&self, protocol: i32, request: &[u8], port: u32) -> Vec<Vec<u8>> {
        let (own, counted) = (self.config.addresses, LINKS.map(|index| self.net.counted(index)));
        answer(request, port, |reply, header, body| match protocol {
            NETLINK_SOCK_DIAG => sock_diag::answer(self, reply, header, body),
            _ => rtnetlink::answer(reply, header, body, own, &counted),
        })
    }
}

/// socket(2) for AF_NETLINK; `kind` without its flags.
pub fn socket(ctx: &mut Ctx<'_>, kind: i32, protocol: i32, nonblocking: bool) -> Result<FileId, Errno> {
    if !matches!(kind, SOCK_RAW | SOCK_DGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    if !matches!(protocol, NETLINK_ROUTE | NETLINK_SOCK_DIAG) {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let status = O_RDWR | if nonblocking { O_NONBLOCK } else { 0 };
    let permissions = Permissions::nameless(SOCKET_MODE, ctx.credentials());
    let socket = NetlinkSocket { kind, protocol, port: 0, queue: VecDeque::new(), permissions, kept: Kept::default() };
    Ok(ctx.kernel.files.insert(OpenFile::new(FileKind::Netlink(Box::new(socket)), status)))
}

/// bind(2). Port 0 takes the process's number, or one that is free. EADDRINUSE; EINVAL when bound to another port.
pub fn bind(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let (wanted, _) = SockaddrNl::read_from_prefix(name).map_err(|_| Errno::EINVAL)?;
    if i32::from(wanted.nl_family) != AF_NETLINK {
        return Err(Errno::EINVAL.into());
    }
    bind_port(ctx, file, wanted.nl_pid)?;
    Ok(0)
}

/// A socket that is used has a port.
fn autobind(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Errno> {
    if ctx.kernel.netlink(file)?.port == 0 { bind_port(ctx, file, 0) } else { Ok(()) }
}

fn bind_port(ctx: &mut Ctx<'_>, file: FileId, wanted: u32) -> Result<(), Errno> {
    let bound = ctx.kernel.netlink(file)?.port;
    if bound != 0 {
        return if wanted == bound { Ok(()) } else { Err(Errno::EINVAL) };
    }
    let ports = &mut ctx.kernel.net.netlink_ports;
    let port = match wanted {
        0 => {
            // As `netlink_autobind`: the process's number, then downward from -4097.
            let others = (0..u32::MAX - 4096).rev();
            std::iter::once(ctx.process.pid.0)
                .chain(others)
                .find(|port| !ports.contains(port))
                .ok_or(Errno::EADDRINUSE)?
        }
        port if ports.contains(&port) => return Err(Errno::EADDRINUSE),
        port => port,
    };
    ports.insert(port);
    ctx.kernel.netlink(file)?.port = port;
    Ok(())
}

fn raw(port: u32) -> RawAddress {
    let address = SockaddrNl { nl_family: AF_NETLINK as u16, nl_pid: port, ..SockaddrNl::default() };
    RawAddress::from_slice(address.as_bytes())
}

/// connect(2): the kernel is the one peer there is; AF_UNSPEC forgets it.
pub fn connect(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    if address::family(name) == Some(AF_UNSPEC) {
        return Ok(0);
    }
    let (peer, _) = SockaddrNl::read_from_prefix(name).map_err(|_| Errno::EINVAL)?;
    if i32::from(peer.nl_family) != AF_NETLINK {
        return Err(Errno::EINVAL.into());
    }
    if peer.nl_pid != 0 {
        return Err(Errno::ECONNREFUSED.into());
    }
    autobind(ctx, file)?;
    Ok(0)
}

/// getsockname(2).
pub fn local_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    Ok(raw(ctx.kernel.netlink(file)?.port))
}

/// getpeername(2): the kernel.
pub fn peer_name() -> RawAddress {
    raw(0)
}

/// send(2) and its relatives. ECONNREFUSED for a peer other than the kernel.
pub(super) fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    if message.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if !message.name.is_empty() {
        let (peer, _) = SockaddrNl::read_from_prefix(message.name).map_err(|_| Errno::EINVAL)?;
        if i32::from(peer.nl_family) != AF_NETLINK {
            return Err(Errno::EINVAL.into());
        }
        if peer.nl_pid != 0 {
            return Err(Errno::ECONNREFUSED.into());
        }
    }
    autobind(ctx, file)?;
    let mut source = message.data.source(&ctx.process.memory);
    Ok(ctx.kernel.netlink_write(file, &mut source)? as u64)
}

/// recv(2) and its relatives: one answer.
pub(super) fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let mut sink = wanted.data.sink(&ctx.process.memory);
    match ctx.kernel.netlink(file)?.take(&mut sink, wanted.flags & MSG_PEEK != 0) {
        Err(Errno::EAGAIN) => {
            let blocking = ctx.blocking(file, wanted.flags, None);
            debug_assert!(matches!(blocking, Blocking::No | Blocking::Until(None)));
            wait(ctx, file, Events::READABLE, blocking, 0).map(|_| Message::default())
        }
        Err(error) => Err(error.into()),
        Ok((moved, full)) => Ok(Message {
            count: if wanted.flags & MSG_TRUNC != 0 { full } else { moved },
            name: raw(0),
            control: Vec::new(),
            flags: if full > moved { MSG_TRUNC } else { 0 },
        }),
    }
}

/// The number that getsockopt gives for an option.
fn option(socket: &NetlinkSocket, level: i32, option: i32) -> Result<i32, Errno> {
    match (level, option) {
        (SOL_SOCKET, SO_TYPE) => Ok(socket.kind),
        (SOL_SOCKET, SO_DOMAIN) => Ok(AF_NETLINK),
        (SOL_SOCKET, SO_PROTOCOL) => Ok(socket.protocol),
        (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => Ok(BUFFER_BYTES),
        (SOL_SOCKET, SO_ERROR | SO_ACCEPTCONN) => Ok(0),
        _ if is_flag(level, option) => Ok(socket.kept.get(level, option).unwrap_or(0)),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// NETLINK_PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, LISTEN_ALL_NSID, CAP_ACK, EXT_ACK, GET_STRICT_CHK; and flags of all sockets.
fn is_flag(level: i32, option: i32) -> bool {
    match level {
        SOL_NETLINK => matches!(option, 3 | 4 | 5 | 8 | 10 | 11 | 12),
        SOL_SOCKET => {
            matches!(
                option,
                SO_DEBUG | SO_REUSEADDR | SO_DONTROUTE | SO_BROADCAST | SO_KEEPALIVE | SO_OOBINLINE | SO_PASSCRED
            )
        }
        _ => false,
    }
}

/// setsockopt(2). Nothing that can be set has an effect.
pub fn set_option(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    const ADD_MEMBERSHIP: i32 = 1;
    const DROP_MEMBERSHIP: i32 = 2;
    if len < 0 || (level == SOL_SOCKET && len < 4) {
        return Err(Errno::EINVAL.into());
    }
    if is_flag(level, option) {
        // `netlink_setsockopt` takes less than a number as 0.
        let number: i32 = if len < 4 { 0 } else { ctx.process.memory.read_value(value)? };
        ctx.kernel.netlink(file)?.kept.set(level, option, i32::from(number != 0));
    } else if level == SOL_NETLINK && !matches!(option, ADD_MEMBERSHIP | DROP_MEMBERSHIP) {
        return Err(Errno::ENOPROTOOPT.into());
    }
    Ok(0)
}

/// getsockopt(2).
pub fn get_option(ctx: &mut Ctx<'_>, file: FileId, level: i32, name: i32, value: u64, len_address: u64) -> SysResult {
    let len: i32 = ctx.process.memory.read_value(len_address)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    let number = option(ctx.kernel.netlink(file)?, level, name)?;
    write_answer(&ctx.process.memory, level, value, len_address, len, &number.to_ne_bytes())
}

/// The kernel's answers to a datagram of requests, as they are to be read. `each` gives the messages that answer one request.
pub(super) fn answer(
    mut request: &[u8],
    port: u32,
    each: impl Fn(Reply, &Nlmsghdr, &[u8]) -> Result<Vec<u8>, Errno>,
) -> Vec<Vec<u8>> {
    let mut replies = Vec::new();
    while let Ok((header, rest)) = Nlmsghdr::read_from_prefix(request) {
        let len = header.nlmsg_len as usize;
        if len < size_of::<Nlmsghdr>() || len > request.len() {
            break;
        }
        let body = &rest[..len - size_of::<Nlmsghdr>()];
        if header.nlmsg_flags & NLM_F_REQUEST != 0 && header.nlmsg_type > NLMSG_DONE {
            let reply = Reply { seq: header.nlmsg_seq, port };
            match each(reply, &header, body) {
                Ok(messages) => reply.finish(&header, &messages, &mut replies),
                Err(errno) => replies.push(reply.error(&header, Some(errno))),
            }
        }
        request = request.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    replies
}

/// What every message of an answer has in its header.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    pub seq: u32,
    pub port: u32,
}

impl Reply {
    /// Cuts the messages of an answer into datagrams, and ends a list.
    fn finish(self, header: &Nlmsghdr, messages: &[u8], replies: &mut Vec<Vec<u8>>) {
        let mut datagram = Vec::new();
        let mut rest = messages;
        while let Ok((next, _)) = Nlmsghdr::read_from_prefix(rest) {
            let (message, others) = rest.split_at(next.nlmsg_len as usize);
            if !datagram.is_empty() && datagram.len() + message.len() > DATAGRAM_MAX {
                replies.push(std::mem::take(&mut datagram));
            }
            datagram.extend_from_slice(message);
            rest = others;
        }
        if !datagram.is_empty() {
            replies.push(datagram);
        }
        if header.nlmsg_flags & NLM_F_DUMP != 0 {
            let mut done = Vec::new();
            self.message(&mut done, NLMSG_DONE, NLM_F_MULTI, &0i32.to_ne_bytes());
            replies.push(done);
        } else if header.nlmsg_flags & NLM_F_ACK != 0 {
            replies.push(self.error(header, None));
        }
    }

    /// NLMSG_ERROR: the errno, 0 for an acknowledgement, and the header of the request.
    fn error(self, header: &Nlmsghdr, error: Option<Errno>) -> Vec<u8> {
        let number = error.map_or(0, |errno| -errno.raw());
        let mut out = Vec::new();
        self.message(&mut out, NLMSG_ERROR, 0, &[&number.to_ne_bytes()[..], header.as_bytes()].concat());
        out
    }

    /// Appends a message with this fixed part, and returns where it begins.
    pub fn message(self, out: &mut Vec<u8>, kind: u16, flags: u16, fixed: &[u8]) -> usize {
        let start = out.len();
        let header = Nlmsghdr {
            nlmsg_len: (size_of::<Nlmsghdr>() + fixed.len()) as u32,
            nlmsg_type: kind,
            nlmsg_flags: flags,
            nlmsg_seq: self.seq,
            nlmsg_pid: self.port,
        };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(fixed);
        start
    }
}

/// Appends an attribute to the message that begins at `start`.
pub(super) fn attribute(out: &mut Vec<u8>, start: usize, kind: u16, data: &[u8]) {
    let header = Rtattr { rta_len: (size_of::<Rtattr>() + data.len()) as u16, rta_type: kind };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

/// The attributes of a request: kind and data.
pub(super) fn attributes(mut buffer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = Rtattr::read_from_prefix(buffer).ok()?;
        let len = usize::from(header.rta_len);
        let data = buffer.get(size_of::<Rtattr>()..len)?;
        buffer = buffer.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((header.rta_type, data))
    })
}
