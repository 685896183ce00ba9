//! Internet sockets: creation, names, connecting, accepting, shutting down (net/ipv4/af_inet.c).

use super::address::{self, RawAddress};
use super::datagram::Corked;
use super::filter::SocketFilter;
use super::options::Kept;
use super::stamp::Stamp;
use super::{Blocking, SOCKET_MODE, errno};
use crate::credentials::Credentials;
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::vfs::permission::Permissions;
use crate::wait::{Events, Wake};
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_BIND_SERVICE, CAP_NET_RAW};
use linux_abi::fs::O_NONBLOCK;
use linux_abi::socket::*;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tcpip::{Family, Interface, OptionName, Shutdown, SocketId, SocketOption, TcpState};

/// How far connect(2) has come: Linux's `socket_state`, which is not the connection's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Unconnected,
    /// A connect has begun whose end no call has told yet.
    Connecting,
    Connected,
    /// Shut down before connect(2) had come to its end: nothing but a connect to no address helps.
    Disconnecting,
}

/// What a socket carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tcp,
    Udp,
    /// icmp(7): echo requests and their replies.
    Echo,
    /// raw(7): packets of one protocol.
    Raw(u8),
}

#[derive(Clone, Debug)]
pub struct InetSocket {
    /// Names it in the host's stack.
    pub id: SocketId,
    /// AF_INET or AF_INET6.
    pub family: Family,
    pub kind: Kind,
    /// TCP; datagrams otherwise.
    pub is_stream: bool,
    pub phase: Phase,
    pub permissions: Permissions,
    /// SO_RCVTIMEO; None waits without end.
    pub recv_timeout: Option<SimDuration>,
    /// SO_SNDTIMEO; None waits without end.
    pub send_timeout: Option<SimDuration>,
    /// Options that only the kernel itself looks at.
    pub kept: Kept,
    pub stamp: Stamp,
    /// UDP: a datagram that is not complete yet.
    pub corked: Option<Box<Corked>>,
    /// SO_ATTACH_FILTER.
    pub filter: Option<Arc<SocketFilter>>,
}

impl InetSocket {
    fn new(id: SocketId, family: Family, kind: Kind, who: &Credentials) -> Self {
        InetSocket {
            id,
            family,
            kind,
            is_stream: kind == Kind::Tcp,
            phase: Phase::Unconnected,
            permissions: Permissions::nameless(SOCKET_MODE, who),
            recv_timeout: None,
            send_timeout: None,
            kept: Kept::default(),
            stamp: Stamp::default(),
            corked: None,
            filter: None,
        }
    }
}

impl Ctx<'_> {
    /// The Internet socket behind an open file. ENOTSOCK.
    pub(super) fn inet(&self, file: FileId) -> Result<&InetSocket, Errno> {
        match &self.kernel.files[file].kind {
            FileKind::Inet(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(super) fn inet_mut(&mut self, file: FileId) -> Result<&mut InetSocket, Errno> {
        match &mut self.kernel.files[file].kind {
            FileKind::Inet(socket) => Ok(socket),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// Whether and how long a call on this file waits, given its MSG_DONTWAIT.
    pub(crate) fn blocking(&self, file: FileId, flags: u32, timeout: Option<SimDuration>) -> Blocking {
        if flags & MSG_DONTWAIT != 0 || self.kernel.files[file].nonblocking() {
            Blocking::No
        } else {
            Blocking::Until(timeout)
        }
    }
}

/// What a type and a protocol argument of AF_INET or AF_INET6 select (`inet_create`, `inet6_create`).
pub fn select_protocol(family: Family, kind: i32, protocol: i32) -> Result<Kind, Errno> {
    const MAX_PROTOCOL: i32 = 263;
    if !(0..MAX_PROTOCOL).contains(&protocol) {
        return Err(Errno::EINVAL);
    }
    match (kind, protocol) {
        (SOCK_STREAM, IPPROTO_IP | IPPROTO_TCP) => Ok(Kind::Tcp),
        (SOCK_DGRAM, IPPROTO_IP | IPPROTO_UDP) => Ok(Kind::Udp),
        (SOCK_DGRAM, IPPROTO_ICMP) if family == Family::V4 => Ok(Kind::Echo),
        (SOCK_DGRAM, IPPROTO_ICMPV6) if family == Family::V6 => Ok(Kind::Echo),
        (SOCK_RAW, 1..256) => Ok(Kind::Raw(protocol as u8)),
        (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Whether there are sockets of this type and protocol. EPROTONOSUPPORT, ESOCKTNOSUPPORT.
pub fn check_type(family: Family, kind: i32, protocol: i32) -> Result<(), Errno> {
    select_protocol(family, kind, protocol).map(|_| ())
}

/// socket(2) for AF_INET and AF_INET6; `kind` without its flags. EPERM for raw sockets without CAP_NET_RAW.
pub fn socket(ctx: &mut Ctx<'_>, family: Family, kind: i32, protocol: i32, nonblocking: bool) -> Result<FileId, Errno> {
    let kind = select_protocol(family, kind, protocol)?;
    if matches!(kind, Kind::Raw(_)) {
        ctx.credentials().demand(CAP_NET_RAW)?;
    }
    let stack = &mut ctx.kernel.net.stack;
    let id = match kind {
        Kind::Tcp => stack.tcp_socket(family),
        Kind::Udp => stack.udp_socket(family),
        Kind::Echo => stack.echo_socket(family),
        Kind::Raw(protocol) => stack.raw_socket(family, protocol),
    };
    let status = if nonblocking { O_NONBLOCK } else { 0 };
    let who = ctx.credentials();
    let (socket, user) = (InetSocket::new(id, family, kind, who), who.user.fs);
    ctx.kernel.net.stack.set_user(id, user);
    Ok(ctx.kernel.open_inet(socket, status))
}

/// bind(2).
pub fn bind(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let socket = ctx.inet(file)?;
    let (id, family, is_stream, kind) = (socket.id, socket.family, socket.is_stream, socket.kind);
    let takes_port_later = socket.kept.get(SOL_IP, IP_BIND_ADDRESS_NO_PORT) == Some(1);
    let is_raw = matches!(kind, Kind::Raw(_));
    let address = if is_raw { address::for_raw_bind(name, family)? } else { address::for_bind(name, family)? };
    if matches!(kind, Kind::Tcp | Kind::Udp) {
        demand_port(ctx, family, address)?;
    }
    if is_stream && family == Family::V6 && address.ip().is_multicast() {
        return Err(Errno::EINVAL.into());
    }
    let stack = &mut ctx.kernel.net.stack;
    let names_device = matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0);
    if needs_device(address.ip())
        && !names_device
        && stack.option(id, OptionName::Device) == Ok(SocketOption::Device(None))
    {
        return Err(Errno::EINVAL.into());
    }
    if takes_port_later && address.port() == 0 && matches!(kind, Kind::Tcp | Kind::Udp) {
        stack.bind_address(id, address.ip()).map_err(errno)?;
    } else {
        stack.bind(id, address).map_err(errno)?;
    }
    Ok(0)
}

/// A datagram socket is connected to a group of one link only where something says which: the address, what the socket
/// is bound to, or where it sends to groups. It is bound to that link from then on (`__ip6_datagram_connect`). EINVAL.
fn bind_to_link(ctx: &mut Ctx<'_>, file: FileId, to: SocketAddr) -> Result<(), Errno> {
    let SocketAddr::V6(v6) = to else { return Ok(()) };
    if !v6.ip().is_multicast() || !needs_device(to.ip()) {
        return Ok(());
    }
    let socket = ctx.inet(file)?;
    let (id, sends_by) = (socket.id, socket.kept.get(SOL_IPV6, IPV6_MULTICAST_IF).unwrap_or(0) as u32);
    let stack = &mut ctx.kernel.net.stack;
    let bound = match stack.option(id, OptionName::Device).map_err(errno)? {
        SocketOption::Device(bound) => bound,
        _ => None,
    };
    let link = match (v6.scope_id(), bound) {
        (0, Some(_)) => return Ok(()),
        (0, None) => sends_by,
        (scope, Some(bound)) if scope != bound.index() => return Err(Errno::EINVAL),
        (scope, _) => scope,
    };
    match Interface::of_index(link) {
        Some(link) => stack.set_option(ctx.now, id, SocketOption::Device(Some(link))).map_err(errno),
        None if link == 0 => Err(Errno::EINVAL),
        None => Ok(()),
    }
}

/// Whether an address means something on one link or interface only (`__ipv6_addr_needs_scope_id`).
fn needs_device(address: IpAddr) -> bool {
    /// Of groups: the interface, and the link.
    const NARROW: [u16; 2] = [1, 2];
    match address {
        IpAddr::V6(v6) if v6.is_multicast() => NARROW.contains(&(v6.segments()[0] & 0xf)),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    }
}

/// Ports below net.ipv4.ip_unprivileged_port_start want CAP_NET_BIND_SERVICE: EACCES. IPv4 looks at the address before (`__inet_bind`),
/// IPv6 after (`__inet6_bind`).
fn demand_port(ctx: &mut Ctx<'_>, family: Family, address: SocketAddr) -> Result<(), Errno> {
    let port = address.port();
    if port == 0 || u32::from(port) >= ctx.kernel.shared.settings.unprivileged_port_start() {
        return Ok(());
    }
    // Groups and broadcasts as well (`inet_addr_valid_or_nonlocal`).
    let stack = &ctx.kernel.net.stack;
    let exists =
        address.ip().is_unspecified() || stack.is_local(address.ip()) || stack.config().is_for_many(address.ip());
    if ctx.credentials().can(CAP_NET_BIND_SERVICE) || (family == Family::V4 && !exists) {
        return Ok(());
    }
    Err(Errno::EACCES)
}

/// listen(2).
pub fn listen(ctx: &mut Ctx<'_>, file: FileId, backlog: i32) -> SysResult {
    let socket = ctx.inet(file)?;
    let (id, is_stream, phase) = (socket.id, socket.is_stream, socket.phase);
    // Also when the connection has ended, or failed and connect(2) has not told yet.
    if is_stream && phase != Phase::Unconnected {
        return Err(Errno::EINVAL.into());
    }
    ctx.kernel.net.stack.listen(id, backlog).map_err(errno)?;
    Ok(0)
}

/// connect(2).
pub fn connect(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let family = address::family(name).ok_or(Errno::EINVAL)?;
    let socket = ctx.inet(file)?;
    let (id, of, kind, is_stream, phase) = (socket.id, socket.family, socket.kind, socket.is_stream, socket.phase);
    if family == AF_UNSPEC {
        ctx.kernel.net.stack.disconnect(ctx.now, id).map_err(errno)?;
        ctx.inet_mut(file)?.phase = Phase::Unconnected;
        ctx.kernel.settle_sockets();
        return Ok(0);
    }
    if !is_stream {
        ctx.kernel.net.stack.bind_for_sending(id).map_err(errno)?;
        let only = ctx.kernel.net.stack.option(id, OptionName::V6Only).map_err(errno)?;
        if family == AF_INET && of == Family::V6 && only == SocketOption::V6Only(true) {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let to = match (kind, of) {
            (Kind::Raw(_), Family::V6) => address::internet(name, of)?,
            _ => address::for_datagram_connect(name, of)?,
        };
        bind_to_link(ctx, file, to)?;
        address::check_reachable(&ctx.kernel.config, to.ip())?;
        ctx.kernel.net.stack.connect(ctx.now, id, to).map_err(errno)?;
        if let (Some(corked), Family::V4) = (&mut ctx.inet_mut(file)?.corked, of) {
            // It keeps its way where a datagram in the making has its own (`__ip4_datagram_connect`).
            corked.to = None;
        }
        return Ok(0);
    }
    match phase {
        Phase::Connected => Err(Errno::EISCONN.into()),
        Phase::Disconnecting => Err(Errno::EINVAL.into()),
        Phase::Connecting if ctx.thread.wake == Wake::First => await_handshake(ctx, file, Errno::EALREADY),
        Phase::Connecting => await_handshake(ctx, file, Errno::EINPROGRESS),
        Phase::Unconnected => {
            if ctx.kernel.net.stack.is_listening(id) {
                return Err(Errno::EISCONN.into());
            }
            let to = address::internet(name, of)?;
            address::check_reachable(&ctx.kernel.config, to.ip())?;
            ctx.kernel.net.stack.connect(ctx.now, id, to).map_err(errno)?;
            ctx.inet_mut(file)?.phase = Phase::Connecting;
            await_handshake(ctx, file, Errno::EINPROGRESS)
        }
    }
}

/// The second half of `inet_stream_connect`: tells how the handshake went, waits for it, or answers `pending`.
fn await_handshake(ctx: &mut Ctx<'_>, file: FileId, pending: Errno) -> SysResult {
    let socket = ctx.inet(file)?;
    let (id, timeout) = (socket.id, socket.send_timeout);
    let nonblocking = ctx.kernel.files[file].nonblocking();
    if nonblocking && handshaking(ctx, id)? {
        // What loopback traffic does now shows in the next call, as on Linux, where the caller holds the socket meanwhile.
        ctx.kernel.settle_sockets();
        return Err(pending.into());
    }
    ctx.kernel.settle_sockets();
    if handshaking(ctx, id)? {
        ctx.deadline_after(timeout);
        if ctx.expired() {
            return Err(pending.into());
        }
        return Err(match ctx.block_on(file, Events::WRITABLE) {
            Outcome::Restart(_) if timeout.is_some() => Errno::EINTR.into(),
            outcome => outcome,
        });
    }
    if ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.state == TcpState::Close {
        let error = ctx.kernel.net.stack.take_error(id).map_or(Errno::ECONNABORTED, errno);
        ctx.kernel.net.stack.disconnect(ctx.now, id).map_err(errno)?;
        ctx.inet_mut(file)?.phase = Phase::Unconnected;
        return Err(error.into());
    }
    ctx.inet_mut(file)?.phase = Phase::Connected;
    Ok(0)
}

fn handshaking(ctx: &mut Ctx<'_>, id: SocketId) -> Result<bool, Errno> {
    let info = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?;
    Ok(matches!(info.state, TcpState::SynSent | TcpState::SynReceived))
}

/// accept(2), accept4(2); `flags` are SOCK_NONBLOCK and SOCK_CLOEXEC. The new descriptor, and its peer's name.
pub fn accept(ctx: &mut Ctx<'_>, file: FileId, flags: i32) -> Result<(u64, RawAddress), Outcome> {
    let listener = ctx.inet(file)?.clone();
    // As Linux: without a free descriptor the connection stays in the queue.
    let fd = ctx.reserve_fd()?;
    let child = match ctx.kernel.net.stack.accept(listener.id) {
        Ok(child) => child,
        Err(error) => {
            if error != tcpip::SocketError::WouldBlock {
                return Err(errno(error).into());
            }
            let blocking = ctx.blocking(file, 0, listener.recv_timeout);
            return super::wait(ctx, file, Events::READABLE, blocking, 0).map(|_| (0, RawAddress::new()));
        }
    };
    let permissions = Permissions::nameless(SOCKET_MODE, ctx.credentials());
    let socket = InetSocket { id: child, phase: Phase::Connected, permissions, ..listener };
    let status = if flags & SOCK_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
    let opened = ctx.kernel.open_inet(socket, status);
    ctx.fds_mut().replace(fd, opened, flags & SOCK_CLOEXEC != 0);
    // That of a connection that was reset in the queue, too.
    let peer = ctx.kernel.net.stack.name_of_accepted(child).map(address::raw);
    Ok((u64::from(fd), peer.unwrap_or_default()))
}

/// shutdown(2).
pub fn shutdown(ctx: &mut Ctx<'_>, file: FileId, how: i32) -> SysResult {
    let InetSocket { id, phase, .. } = *ctx.inet(file)?;
    let how = match how {
        SHUT_RD => Shutdown::Read,
        SHUT_WR => Shutdown::Write,
        SHUT_RDWR => Shutdown::Both,
        _ => return Err(Errno::EINVAL.into()),
    };
    if phase == Phase::Connecting {
        let state = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.state;
        ctx.inet_mut(file)?.phase = match state {
            TcpState::SynSent => Phase::Unconnected,
            TcpState::SynReceived | TcpState::Close => Phase::Disconnecting,
            _ => Phase::Connected,
        };
        if state == TcpState::SynSent {
            ctx.kernel.net.stack.disconnect(ctx.now, id).map_err(errno)?;
            ctx.kernel.settle_sockets();
            return Ok(0);
        }
    }
    let result = ctx.kernel.net.stack.shutdown(ctx.now, id, how);
    ctx.kernel.settle_sockets();
    result.map_err(errno)?;
    Ok(0)
}

/// getsockname(2).
pub fn local_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let id = ctx.inet(file)?.id;
    ctx.kernel.net.stack.local_name(id).map(address::raw).map_err(errno)
}

/// getpeername(2).
pub fn peer_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let id = ctx.inet(file)?.id;
    ctx.kernel.net.stack.peer_name(id).map(address::raw).map_err(errno)
}

/// The peer's address, if there is one.
pub(super) fn peer(ctx: &mut Ctx<'_>, id: SocketId) -> Option<SocketAddr> {
    ctx.kernel.net.stack.peer_name(id).ok()
}

/// What close(2) of the last descriptor of a stream with SO_LINGER does first: it sends what is left and waits until the peer has
/// it, at most for the time that the option gives (`__tcp_close`). Ok when the close may go on; at once for every other file.
pub fn linger_before_close(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Outcome> {
    let Ok(socket) = ctx.inet(file) else { return Ok(()) };
    let id = socket.id;
    if !socket.is_stream || ctx.kernel.files[file].references > 1 {
        return Ok(());
    }
    let stack = &mut ctx.kernel.net.stack;
    let Ok(SocketOption::Linger(Some(time))) = stack.option(id, OptionName::Linger) else { return Ok(()) };
    if time.is_zero() || stack.is_listening(id) || stack.readable_bytes(id) > 0 {
        return Ok(());
    }
    if ctx.thread.wake == Wake::First && stack.shutdown(ctx.now, id, Shutdown::Write).is_err() {
        return Ok(());
    }
    ctx.kernel.settle_sockets();
    if ctx.kernel.net.stack.unsent_and_unacknowledged(id) == 0 {
        return Ok(());
    }
    ctx.deadline_after(Some(time));
    if ctx.expired() || ctx.thread.wake == Wake::Interrupted {
        return Ok(());
    }
    match ctx.block_on(file, Events::ALL) {
        Outcome::Block => Err(Outcome::Block),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_protocols_are_judged_as_by_inet_create() {
        for family in [Family::V4, Family::V6] {
            let select = |kind, protocol| select_protocol(family, kind, protocol);
            assert_eq!(select(SOCK_STREAM, 0), Ok(Kind::Tcp));
            assert_eq!(select(SOCK_STREAM, IPPROTO_TCP), Ok(Kind::Tcp));
            assert_eq!(select(SOCK_DGRAM, IPPROTO_UDP), Ok(Kind::Udp));
            assert_eq!(select(SOCK_STREAM, IPPROTO_UDP), Err(Errno::EPROTONOSUPPORT));
            assert_eq!(select(SOCK_STREAM, 200), Err(Errno::EPROTONOSUPPORT));
            assert_eq!(select(SOCK_STREAM, -1), Err(Errno::EINVAL));
            assert_eq!(select(SOCK_SEQPACKET, 0), Err(Errno::ESOCKTNOSUPPORT));
            assert_eq!(select(SOCK_RAW, IPPROTO_ICMP), Ok(Kind::Raw(1)));
            assert_eq!(select(SOCK_RAW, 0), Err(Errno::EPROTONOSUPPORT));
            let (own, other) = match family {
                Family::V4 => (IPPROTO_ICMP, IPPROTO_ICMPV6),
                Family::V6 => (IPPROTO_ICMPV6, IPPROTO_ICMP),
            };
            assert_eq!(select(SOCK_DGRAM, own), Ok(Kind::Echo));
            assert_eq!(select(SOCK_DGRAM, other), Err(Errno::EPROTONOSUPPORT));
        }
    }
}
