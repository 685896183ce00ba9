//! AF_NETLINK sockets (netlink(7)): descriptors, ports, groups, queues and options. What the kernel answers stands in `rtnetlink`,
//! `sock_diag` and `genetlink`, in the frame of `netlink_frame`. Nothing of a host's network changes, so its groups stay silent; so does
//! NETLINK_KOBJECT_UEVENT, since no device comes or goes. By NETLINK_USERSOCK programs send to each other.

use super::address::RawAddress;
use super::interfaces::{ETHERNET_INDEX, LOOPBACK_INDEX};
use super::message::{Incoming, Message, Outgoing, controls, push_control};
use super::netlink_frame::{Answer, Part, Style, answer, has_dump_flag};
use super::options::netlink::Options;
use super::{Blocking, SOCKET_MODE, address, genetlink, rtnetlink, sock_diag, wait};
use crate::credentials::Credentials;
use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::vfs::permission::Permissions;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_ADMIN;
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::net::*;
use linux_abi::sockaddr::SockaddrNl;
use linux_abi::socket::*;
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

/// The interfaces, in order.
const LINKS: [i32; 2] = [LOOPBACK_INDEX, ETHERNET_INDEX];
/// Groups of a protocol that has asked for fewer (`netlink_kernel_create`).
const LEAST_GROUPS: u32 = 32;
/// RTNLGRP_MAX.
const ROUTE_GROUPS: u32 = 39;
/// Who sends what the kernel sends.
const KERNEL: Ucred = Ucred { pid: 0, uid: 0, gid: 0 };

/// A message that waits to be read.
#[derive(Debug)]
struct Queued {
    bytes: Vec<u8>,
    /// The sender's port; 0 is the kernel's.
    from: u32,
    /// The group that it was sent to, 0 for none.
    group: u32,
    sender: Ucred,
}

impl Queued {
    fn of_kernel(bytes: Vec<u8>) -> Self {
        Queued { bytes, from: 0, group: 0, sender: KERNEL }
    }

    /// What it counts against the receive buffer (`SKB_TRUESIZE`).
    fn charge(&self) -> usize {
        const HEADER: usize = 256;
        const SHARED_INFO: usize = 320;
        HEADER + (self.bytes.len() + SHARED_INFO).next_power_of_two()
    }
}

#[derive(Debug)]
pub struct NetlinkSocket {
    /// SOCK_RAW or SOCK_DGRAM, which do the same.
    pub kind: i32,
    /// NETLINK_ROUTE and others.
    pub protocol: i32,
    /// Its address; 0 before bind.
    pub port: u32,
    /// Where what names no destination goes: a port and a group's bit.
    peer: (u32, u32),
    /// It takes messages of that port only.
    connected: bool,
    /// A bit for each group that it listens to, from group 1 on.
    pub groups: u64,
    /// It has named groups, or tried to: until then it has no list of them (`netlink_realloc_groups`).
    pub(super) lists_groups: bool,
    queue: VecDeque<Queued>,
    /// What the queue counts against the receive buffer, in bytes.
    held: usize,
    /// The rest of a list, which comes as the datagrams before it are read.
    later: VecDeque<Queued>,
    /// Something did not fit: nothing more comes until all is read.
    congested: bool,
    pub(super) error: Option<Errno>,
    /// Messages that did not fit.
    pub drops: u64,
    pub permissions: Permissions,
    /// Who opened it, and whether with CAP_NET_ADMIN.
    opener: Ucred,
    administers: bool,
    pub(super) options: Options,
}

impl NetlinkSocket {
    pub fn poll(&self) -> Events {
        let ready = Events::READABLE.when(!self.queue.is_empty()) | Events::ERR.when(self.error.is_some());
        Events::WRITABLE | ready
    }

    /// Bytes of memory that messages take which nobody has read.
    pub fn waiting_bytes(&self) -> usize {
        self.held
    }

    /// How many groups the protocol has.
    pub(super) fn group_count(&self) -> u32 {
        if self.protocol == NETLINK_ROUTE { ROUTE_GROUPS } else { LEAST_GROUPS }
    }

    fn fits(&self, message: &Queued) -> bool {
        self.held == 0 || (self.held + message.charge() <= self.options.settings.recv_buffer && !self.congested)
    }

    fn push(&mut self, message: Queued) {
        self.held += message.charge();
        self.queue.push_back(message);
    }

    /// Queues an answer of the kernel's, or notes that it is lost (`netlink_attachskb`, `netlink_overrun`).
    fn push_answer(&mut self, answer: Answer) {
        let message = Queued::of_kernel(answer.bytes);
        let waits = match answer.part {
            Part::Alone => false,
            Part::ListBegin => !self.fits(&message),
            Part::ListRest => true,
        };
        if waits {
            self.later.push_back(message);
        } else if self.fits(&message) {
            self.push(message);
        } else {
            self.overrun();
        }
    }

    fn overrun(&mut self) {
        self.drops += 1;
        if !self.options.hides_overruns() && !std::mem::replace(&mut self.congested, true) {
            self.error = Some(Errno::ENOBUFS);
        }
    }

    /// Goes on with a list by one datagram, if half of the buffer is free.
    fn go_on(&mut self) {
        if self.held <= self.options.settings.recv_buffer / 2
            && let Some(next) = self.later.pop_front()
        {
            self.push(next);
        }
    }

    /// The next message into a sink, cut to its room: (bytes moved, the message). A pending error, EAGAIN, EFAULT.
    fn take(&mut self, sink: &mut dyn ByteSink, peek: bool) -> Result<(usize, Taken), Errno> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let front = self.queue.front().ok_or(Errno::EAGAIN)?;
        let want = front.bytes.len().min(sink.remaining());
        let moved = sink.put(&front.bytes[..want]);
        let taken = Taken { full: front.bytes.len(), from: front.from, group: front.group, sender: front.sender };
        if !peek {
            self.held -= front.charge();
            self.queue.pop_front();
            self.congested &= !self.queue.is_empty();
        }
        self.go_on();
        if moved < want { Err(Errno::EFAULT) } else { Ok((moved, taken)) }
    }
}

/// What is known of a message that was read.
struct Taken {
    full: usize,
    from: u32,
    group: u32,
    sender: Ucred,
}

impl Kernel {
    pub(super) fn netlink(&mut self, file: FileId) -> Result<&mut NetlinkSocket, Errno> {
        match &mut self.files[file].kind {
            FileKind::Netlink(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(crate) fn close_netlink(&mut self, socket: &NetlinkSocket) {
        self.net.netlink_ports.remove(&(socket.protocol, socket.port));
    }

    /// `try_read` of a netlink socket.
    pub(crate) fn netlink_read(&mut self, file: FileId, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        self.netlink(file)?.take(sink, false).map(|(moved, _)| moved)
    }

    /// A message of the kernel's own to a socket, if it is still one.
    pub(crate) fn netlink_push(&mut self, file: FileId, message: Vec<u8>) {
        if let Ok(socket) = self.netlink(file) {
            socket.push(Queued::of_kernel(message));
            self.notify(file, Events::READABLE);
        }
    }

    /// `try_write` of a netlink socket: a message to where it is connected.
    pub(crate) fn netlink_write(&mut self, file: FileId, source: &mut dyn ByteSource) -> Result<usize, Errno> {
        if source.remaining() == 0 {
            return Err(Errno::ENODATA);
        }
        let socket = self.netlink(file)?;
        let (to, sender, administers) = (socket.peer, socket.opener, socket.administers);
        self.netlink_send(file, source, to, sender, administers)
    }

    /// Sends a message: to the kernel, whose answers are queued at once, or to other sockets. EMSGSIZE, EFAULT, ECONNREFUSED.
    fn netlink_send(
        &mut self,
        file: FileId,
        source: &mut dyn ByteSource,
        (to, groups): (u32, u32),
        sender: Ucred,
        administers: bool,
    ) -> Result<usize, Errno> {
        /// What the buffer of a message needs beside its bytes.
        const OVERHEAD: usize = 32;
        let socket = self.netlink(file)?;
        let (protocol, from) = (socket.protocol, socket.port);
        let len = source.remaining();
        if len > socket.options.settings.send_buffer.saturating_sub(OVERHEAD) {
            return Err(Errno::EMSGSIZE);
        }
        let mut bytes = vec![0; len];
        if source.take(&mut bytes) < len {
            return Err(Errno::EFAULT);
        }
        if groups != 0 {
            // A message goes to one group, the lowest of those that are named.
            self.netlink_broadcast(file, groups.trailing_zeros() + 1, to, &bytes, sender);
        }
        match to {
            0 if protocol == NETLINK_USERSOCK => return Err(Errno::ECONNREFUSED),
            0 => self.netlink_ask(file, &bytes, administers)?,
            port => {
                let to = *self.net.netlink_ports.get(&(protocol, port)).ok_or(Errno::ECONNREFUSED)?;
                let group = if groups == 0 { 0 } else { groups.trailing_zeros() + 1 };
                let message = Queued { bytes, from, group, sender };
                let receiver = self.netlink(to)?;
                if receiver.connected && receiver.peer.0 != from {
                    return Err(Errno::ECONNREFUSED);
                }
                if !receiver.fits(&message) {
                    return Err(Errno::EAGAIN);
                }
                receiver.push(message);
                self.notify(to, Events::READABLE);
            }
        }
        Ok(len)
    }

    /// Sends a message to the members of a group, except its sender and the port that gets it anyway (`do_one_broadcast`).
    fn netlink_broadcast(&mut self, file: FileId, group: u32, to: u32, bytes: &[u8], sender: Ucred) {
        let Ok(NetlinkSocket { protocol, port, .. }) = self.netlink(file) else { return };
        let (protocol, from) = (*protocol, *port);
        let others: Vec<FileId> = self
            .net
            .netlink_ports
            .range((protocol, 0)..=(protocol, u32::MAX))
            .filter(|((_, port), other)| *port != to && **other != file)
            .map(|(_, other)| *other)
            .collect();
        for other in others {
            let Ok(socket) = self.netlink(other) else { continue };
            if socket.groups >> (group - 1) & 1 == 0 {
                continue;
            }
            let message = Queued { bytes: bytes.to_vec(), from, group, sender };
            if socket.fits(&message) {
                socket.push(message);
            } else {
                socket.overrun();
            }
            self.notify(other, Events::READABLE);
        }
    }

    /// A datagram of requests to the kernel.
    fn netlink_ask(&mut self, file: FileId, request: &[u8], administers: bool) -> Result<(), Errno> {
        let socket = self.netlink(file)?;
        let style = Style {
            port: socket.port,
            short_errors: socket.options.caps_errors(),
            busy: !socket.later.is_empty(),
            is_list: match socket.protocol {
                NETLINK_ROUTE => rtnetlink::is_list,
                NETLINK_KOBJECT_UEVENT => |_| false,
                _ => has_dump_flag,
            },
        };
        let protocol = socket.protocol;
        let answers = self.answer_netlink(protocol, request, style, administers);
        if answers.is_empty() {
            return Ok(());
        }
        let socket = self.netlink(file)?;
        // A socket that is connected to another port receives only lists from the kernel (`netlink_getsockbyportid`).
        let is_deaf = socket.connected && socket.peer.0 != 0;
        let heard = answers.into_iter().filter(|answer| !is_deaf || answer.part != Part::Alone);
        heard.for_each(|answer| socket.push_answer(answer));
        let ready = socket.poll();
        self.notify(file, ready);
        Ok(())
    }

    /// The answers to a datagram of requests.
    fn answer_netlink(&self, protocol: i32, request: &[u8], style: Style, administers: bool) -> Vec<Answer> {
        let host = rtnetlink::Host {
            own: self.config.addresses,
            counted: LINKS.map(|index| self.net.counted(index)),
            queue_discipline: self.config.queue_discipline,
            administers,
        };
        answer(request, style, |reply, header, body| match protocol {
            NETLINK_SOCK_DIAG => sock_diag::answer(self, reply, header, body),
            NETLINK_GENERIC => genetlink::answer(reply, header, body),
            // No message of a program's changes devices.
            NETLINK_KOBJECT_UEVENT => Ok(Vec::new()),
            _ => rtnetlink::answer(reply, header, body, &host),
        })
    }
}

/// What a process says of itself beside a message.
fn identity(ctx: &Ctx<'_>) -> Ucred {
    let who = ctx.credentials();
    Ucred { pid: ctx.process.pid.0 as i32, uid: who.user.real, gid: who.group.real }
}

/// socket(2) for AF_NETLINK; `kind` without its flags.
pub fn socket(ctx: &mut Ctx<'_>, kind: i32, protocol: i32, nonblocking: bool) -> Result<FileId, Errno> {
    if !matches!(kind, SOCK_RAW | SOCK_DGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    let known = [NETLINK_ROUTE, NETLINK_USERSOCK, NETLINK_SOCK_DIAG, NETLINK_KOBJECT_UEVENT, NETLINK_GENERIC];
    if !known.contains(&protocol) {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let status = O_RDWR | if nonblocking { O_NONBLOCK } else { 0 };
    let socket = NetlinkSocket {
        kind,
        protocol,
        port: 0,
        peer: (0, 0),
        connected: false,
        groups: 0,
        lists_groups: false,
        queue: VecDeque::new(),
        held: 0,
        later: VecDeque::new(),
        congested: false,
        error: None,
        drops: 0,
        permissions: Permissions::nameless(SOCKET_MODE, ctx.credentials()),
        opener: identity(ctx),
        administers: ctx.credentials().can(CAP_NET_ADMIN),
        options: Options::default(),
    };
    Ok(ctx.kernel.files.insert(OpenFile::new(FileKind::Netlink(Box::new(socket)), status)))
}

/// An address argument. EINVAL.
fn read_name(name: &[u8]) -> Result<SockaddrNl, Errno> {
    let (address, _) = SockaddrNl::read_from_prefix(name).map_err(|_| Errno::EINVAL)?;
    if i32::from(address.nl_family) == AF_NETLINK { Ok(address) } else { Err(Errno::EINVAL) }
}

/// Whether a process may listen to groups. EPERM (`netlink_allowed`, `rtnetlink_bind`).
pub(super) fn demand_listening(who: &Credentials, protocol: i32, groups: u64) -> Result<(), Errno> {
    /// RTNLGRP_IPV4_MROUTE_R and RTNLGRP_IPV6_MROUTE_R, whose messages are for those that route.
    const GUARDED: u64 = 1 << 29 | 1 << 30;
    let is_guarded = protocol == NETLINK_USERSOCK || (protocol == NETLINK_ROUTE && groups & GUARDED != 0);
    if is_guarded { who.demand(CAP_NET_ADMIN) } else { Ok(()) }
}

/// bind(2). Port 0 takes the process's number, or one that is free. EADDRINUSE; EPERM; EINVAL when bound to another port.
pub fn bind(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let wanted = read_name(name)?;
    if wanted.nl_groups != 0 {
        let protocol = ctx.kernel.netlink(file)?.protocol;
        demand_listening(ctx.credentials(), protocol, wanted.nl_groups.into())?;
        ctx.kernel.netlink(file)?.lists_groups = true;
    }
    bind_port(ctx, file, wanted.nl_pid)?;
    let socket = ctx.kernel.netlink(file)?;
    // The first 32 groups; membership of others stays (`netlink_update_subscriptions`).
    socket.groups = socket.groups & !u64::from(u32::MAX) | u64::from(wanted.nl_groups);
    Ok(0)
}

/// A socket that is used has a port.
fn autobind(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Errno> {
    if ctx.kernel.netlink(file)?.port == 0 { bind_port(ctx, file, 0) } else { Ok(()) }
}

fn bind_port(ctx: &mut Ctx<'_>, file: FileId, wanted: u32) -> Result<(), Errno> {
    let NetlinkSocket { port: bound, protocol, .. } = *ctx.kernel.netlink(file)?;
    if bound != 0 {
        return if wanted == bound { Ok(()) } else { Err(Errno::EINVAL) };
    }
    let ports = &mut ctx.kernel.net.netlink_ports;
    let is_free = |port: &u32| !ports.contains_key(&(protocol, *port));
    let port = match wanted {
        0 => {
            // As `netlink_autobind`: the process's number, then downward from -4097.
            let others = (0..u32::MAX - 4096).rev();
            std::iter::once(ctx.process.pid.0).chain(others).find(is_free).ok_or(Errno::EADDRINUSE)?
        }
        port if !is_free(&port) => return Err(Errno::EADDRINUSE),
        port => port,
    };
    ports.insert((protocol, port), file);
    ctx.kernel.netlink(file)?.port = port;
    Ok(())
}

fn raw(port: u32, groups: u32) -> RawAddress {
    let address = SockaddrNl { nl_family: AF_NETLINK as u16, nl_pid: port, nl_groups: groups, ..SockaddrNl::default() };
    RawAddress::from_slice(address.as_bytes())
}

/// Whether a process may send to somebody else than the kernel. EPERM (`netlink_allowed`).
fn demand_sending(who: &Credentials, protocol: i32, (port, groups): (u32, u32)) -> Result<(), Errno> {
    let allowed = (port, groups) == (0, 0) || protocol == NETLINK_USERSOCK || who.can(CAP_NET_ADMIN);
    if allowed { Ok(()) } else { Err(Errno::EPERM) }
}

/// connect(2): where messages go that name no destination; AF_UNSPEC forgets it. EINVAL, EPERM.
pub fn connect(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    if address::family(name) == Some(AF_UNSPEC) {
        let socket = ctx.kernel.netlink(file)?;
        (socket.peer, socket.connected) = ((0, 0), false);
        return Ok(0);
    }
    let peer = read_name(name)?;
    let protocol = ctx.kernel.netlink(file)?.protocol;
    demand_sending(ctx.credentials(), protocol, (peer.nl_pid, peer.nl_groups))?;
    autobind(ctx, file)?;
    let socket = ctx.kernel.netlink(file)?;
    // Of several groups, the lowest.
    (socket.peer, socket.connected) = ((peer.nl_pid, peer.nl_groups & peer.nl_groups.wrapping_neg()), true);
    Ok(0)
}

/// getsockname(2).
pub fn local_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let socket = ctx.kernel.netlink(file)?;
    Ok(raw(socket.port, socket.groups as u32))
}

/// getpeername(2).
pub fn peer_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let (port, groups) = ctx.kernel.netlink(file)?.peer;
    Ok(raw(port, groups))
}

/// send(2) and its relatives, in the order of `netlink_sendmsg`. ENODATA for nothing; EPERM and ECONNREFUSED for others than the kernel.
pub(super) fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    if message.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if message.data.total() == 0 {
        return Err(Errno::ENODATA.into());
    }
    let sender = sender(ctx, message.control)?;
    let socket = ctx.kernel.netlink(file)?;
    let (protocol, administers) = (socket.protocol, socket.administers);
    let to = match message.name {
        [] => socket.peer,
        name => {
            let named = read_name(name)?;
            let to = (named.nl_pid, named.nl_groups);
            demand_sending(ctx.credentials(), protocol, to)?;
            to
        }
    };
    autobind(ctx, file)?;
    // Both who opened it and who sends must have the right (`netlink_ns_capable`).
    let administers = administers && ctx.credentials().can(CAP_NET_ADMIN);
    let mut source = message.data.source(&ctx.process.memory);
    Ok(ctx.kernel.netlink_send(file, &mut source, to, sender, administers)? as u64)
}

/// Who sends a message, as its control part says or as it is. EINVAL, EPERM, ESRCH (`__scm_send`).
fn sender(ctx: &Ctx<'_>, control: &[u8]) -> Result<Ucred, Errno> {
    let mut sender = identity(ctx);
    for part in controls(control) {
        match part? {
            (SOL_SOCKET, SCM_CREDENTIALS, data) => sender = crate::unix::transfer::claimed(ctx, data)?,
            (SOL_SOCKET, ..) => return Err(Errno::EINVAL),
            _ => {}
        }
    }
    Ok(sender)
}

/// recv(2) and its relatives: one message.
pub(super) fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    if wanted.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut sink = wanted.data.sink(&ctx.process.memory);
    let socket = ctx.kernel.netlink(file)?;
    let (moved, taken) = match socket.take(&mut sink, wanted.flags & MSG_PEEK != 0) {
        Err(Errno::EAGAIN) => {
            let timeout = socket.options.settings.recv_timeout;
            let blocking: Blocking = ctx.blocking(file, wanted.flags, timeout);
            return wait(ctx, file, Events::READABLE, blocking, 0).map(|_| Message::default());
        }
        result => result?,
    };
    let (tells_group, tells_sender) = (socket.options.tells_group(), socket.options.tells_sender());
    let groups = if taken.group == 0 { 0 } else { 1u32.checked_shl(taken.group - 1).unwrap_or(0) };
    let mut message = Message {
        count: if wanted.flags & MSG_TRUNC != 0 { taken.full } else { moved },
        name: raw(taken.from, groups),
        control: Vec::new(),
        flags: if taken.full > moved { MSG_TRUNC } else { 0 },
    };
    if tells_group {
        push_control(&mut message, wanted.control_space, SOL_NETLINK, NETLINK_PKTINFO, &taken.group.to_ne_bytes());
    }
    if tells_sender {
        push_control(&mut message, wanted.control_space, SOL_SOCKET, SCM_CREDENTIALS, taken.sender.as_bytes());
    }
    Ok(message)
}
