//! Sending and receiving on UDP sockets (net/ipv4/udp.c, net/ipv6/udp.c).

use super::address::RawAddress;
use super::ancillary::{Asked, Sender};
use super::inet::Kind;
use super::message::{Incoming, Message, Outgoing, push_control};
use super::options::Kept;
use super::{Blocking, Network, address, errno, stamp, wait};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::wait::{Events, Watcher};
use linux_abi::Errno;
use linux_abi::sockaddr::{SockaddrIn, SockaddrIn6};
use linux_abi::socket::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tcpip::{Ancillary, ErrorReport, Family, OptionName, Readiness, Received, SocketId, SocketOption};
use zerocopy::IntoBytes;

/// The largest payload of a datagram, over IPv6; the stack knows what IPv4 has room for.
const MAX_PAYLOAD: usize = 65_527;
/// UDP_MAX_SEGMENTS.
const MAX_SEGMENTS: usize = 128;

/// Sends the rest of a source as one datagram.
pub(super) fn push(
    net: &mut Network,
    id: SocketId,
    source: &mut dyn ByteSource,
    to: Option<SocketAddr>,
    ancillary: &Ancillary,
) -> Result<usize, Errno> {
    let len = source.remaining();
    if len > MAX_PAYLOAD {
        return Err(errno(net.stack.refuse_length(id, to, ancillary, len)));
    }
    let bytes = net.datagram(source, len);
    if bytes.len() < len {
        // Whether the socket can send at all is found before the bytes are fetched.
        net.stack.check_sending(id, to, ancillary).map_err(errno)?;
        return Err(Errno::EFAULT);
    }
    net.stack.send_with(id, bytes, to, ancillary).map_err(errno)
}

/// send(2) and its relatives: one datagram, or with UDP_SEGMENT several of that size.
pub(super) fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    let id = ctx.inet(file)?.id;
    ctx.kernel.net.stack.bind_for_sending(id).map_err(errno)?;
    if message.data.total() > u16::MAX.into() && ctx.inet(file)?.family == Family::V4 {
        return Err(Errno::EMSGSIZE.into());
    }
    let socket = ctx.inet(file)?;
    let (family, kind) = (socket.family, socket.kind);
    // By way of IPv6 UDP does not look at it (`udpv6_sendmsg`).
    let is_urgent = message.flags & MSG_OOB != 0;
    if is_urgent && (family, kind) != (Family::V6, Kind::Udp) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if let Some(corked) = &socket.corked {
        let over = corked.over;
        check_more(ctx, file, message, over)?;
        return append(ctx, file, message);
    }
    let to = destination(ctx, id, (family, kind), message)?;
    if to.is_none() && kind == Kind::Udp {
        let peer = ctx.kernel.net.stack.datagram_peer(id).map_err(errno)?.ok_or(Errno::EDESTADDRREQ)?;
        if family == Family::V6 && peer.is_ipv4() && !message.name.is_empty() {
            // AF_UNSPEC means the peer, and leaves the way of IPv4 out of account (`udpv6_sendmsg`).
            return Err(Errno::ENETUNREACH.into());
        }
        if is_urgent && peer.is_ipv4() {
            return Err(Errno::EOPNOTSUPP.into());
        }
    }
    let socket = ctx.inet(file)?;
    let (id, timeout) = (socket.id, socket.send_timeout);
    let own = socket.kept.get(SOL_UDP, UDP_SEGMENT).filter(|size| *size > 0);
    let own = own.map(|size| size as usize);
    let asked =
        if message.control.is_empty() { Asked::default() } else { read_control(ctx, file, to, message.control)? };
    let (segment, ancillary) = (asked.segment.or(own), &asked.ancillary);
    if message.flags & MSG_PROBE != 0 {
        // The way is looked up, nothing is sent (`ip_make_skb`).
        ctx.kernel.net.stack.check_way(id, to, ancillary).map_err(errno)?;
        return Ok(message.data.total() as u64);
    }
    let sent = if corks(ctx, file, message.flags)? {
        let may = ctx.kernel.net.stack.check_sending(id, to, ancillary).map_err(errno);
        if may.is_ok() {
            let peer = ctx.kernel.net.stack.datagram_peer(id).map_err(errno)?;
            let over = to.map(|to| to.ip().to_canonical()).or(peer).map_or(family, Family::of);
            let corked = Corked { bytes: Vec::new(), to, over, ancillary: asked.ancillary };
            ctx.inet_mut(file)?.corked = Some(Box::new(corked));
            return append(ctx, file, message);
        }
        may.map(|()| 0)
    } else {
        send_segments(ctx, id, message, to, &Asked { segment, ..asked })
    };
    match sent {
        Err(Errno::EAGAIN) => {
            let blocking = ctx.blocking(file, message.flags, timeout);
            wait(ctx, file, Events::WRITABLE, blocking, 0)
        }
        result => {
            if result.is_ok() {
                tell_of_room(ctx, file, id);
            }
            ctx.kernel.settle_sockets();
            Ok(result? as u64)
        }
    }
}

/// A datagram has left: interests of EPOLLET hear of room again, though there was some
/// (sock_wfree).
fn tell_of_room(ctx: &mut Ctx<'_>, file: FileId, id: SocketId) {
    let awaits_room =
        |watcher: &Watcher| matches!(watcher, Watcher::Epoll { events, .. } if events.intersects(Events::WRITABLE));
    let is_awaited = ctx.kernel.files[file].queue.watchers.iter().any(awaits_room);
    if is_awaited && ctx.kernel.net.stack.readiness(id).contains(Readiness::WRITABLE) {
        ctx.kernel.notify_watchers(file, Events::WRITABLE);
    }
}

/// A datagram in the making: what calls with MSG_MORE, or under UDP_CORK, have given so far.
#[derive(Clone, Debug)]
pub struct Corked {
    bytes: Vec<u8>,
    /// As the first of them said, or connect(2) since.
    pub(super) to: Option<SocketAddr>,
    /// The version of IP that takes it there.
    over: Family,
    ancillary: Ancillary,
}

fn corks(ctx: &Ctx<'_>, file: FileId, flags: u32) -> Result<bool, Errno> {
    let socket = ctx.inet(file)?;
    Ok(socket.kind == Kind::Udp && (flags & MSG_MORE != 0 || socket.kept.get(SOL_UDP, UDP_CORK) == Some(1)))
}

/// What a socket of IPv6 looks at when more of a datagram in the making comes. It goes where it went all the same, but one of IPv6 takes no more
/// from a call that names an address of IPv4 (`udpv6_sendmsg`, `udp_sendmsg`). EINVAL, ENETUNREACH, EMSGSIZE, EOPNOTSUPP.
fn check_more(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>, over: Family) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    if socket.family == Family::V4 {
        return Ok(());
    }
    let id = socket.id;
    let names_ipv4 = names_ipv4(ctx, id, message.name)?;
    if names_ipv4 && speaks_no_ipv4(ctx, id)? {
        return Err(Errno::ENETUNREACH);
    }
    if !names_ipv4 && over == Family::V6 {
        return Ok(());
    }
    if message.data.total() > u16::MAX.into() {
        return Err(Errno::EMSGSIZE);
    }
    if message.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if over == Family::V6 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Whether a name leads a datagram of a socket of IPv6 to IPv4. EINVAL.
fn names_ipv4(ctx: &mut Ctx<'_>, id: SocketId, name: &[u8]) -> Result<bool, Errno> {
    let own = ctx.kernel.net.stack.local_name(id).map_err(errno)?.ip().to_canonical();
    if name.is_empty() { Ok(false) } else { address::names_ipv4(name, own) }
}

/// IPV6_V6ONLY.
fn speaks_no_ipv4(ctx: &mut Ctx<'_>, id: SocketId) -> Result<bool, Errno> {
    let only = ctx.kernel.net.stack.option(id, OptionName::V6Only).map_err(errno)?;
    Ok(only == SocketOption::V6Only(true))
}

/// Adds to the datagram in the making, and sends it unless more is to come. What fails loses all of it (`udp_flush_pending_frames`).
fn append(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    let total = message.data.total();
    let goes_on = corks(ctx, file, message.flags)?;
    let room = if ctx.inet(file)?.family == Family::V4 { MAX_PAYLOAD - 20 } else { MAX_PAYLOAD };
    if message.flags & MSG_PROBE == 0 {
        let mut bytes = vec![0; total];
        let got = message.data.source(&ctx.process.memory).take(&mut bytes);
        let socket = ctx.inet_mut(file)?;
        let Some(corked) = &mut socket.corked else { return Ok(0) };
        corked.bytes.extend_from_slice(&bytes);
        let failed = if got < total { Some(Errno::EFAULT) } else { None };
        if let Some(failed) = failed.or((corked.bytes.len() > room).then_some(Errno::EMSGSIZE)) {
            socket.corked = None;
            return Err(failed.into());
        }
    }
    if !goes_on {
        uncork(ctx, file)?;
    }
    Ok(total as u64)
}

/// Sends the datagram in the making, if there is one.
pub(super) fn uncork(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Errno> {
    let socket = ctx.inet_mut(file)?;
    let id = socket.id;
    let Some(corked) = socket.corked.take() else { return Ok(()) };
    let sent = ctx.kernel.net.stack.send_begun(id, corked.bytes.into(), corked.to, &corked.ancillary);
    ctx.kernel.settle_sockets();
    match sent {
        // The queue was looked at when it was begun.
        Ok(_) | Err(tcpip::SocketError::WouldBlock) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

fn destination(
    ctx: &mut Ctx<'_>,
    id: SocketId,
    (family, kind): (Family, Kind),
    message: &Outgoing<'_>,
) -> Result<Option<SocketAddr>, Errno> {
    let name = message.name;
    if family == Family::V6 && kind == Kind::Udp && names_ipv4(ctx, id, name)? {
        // Whether it speaks IPv4 at all is asked before the address is read (`udpv6_sendmsg`).
        if speaks_no_ipv4(ctx, id)? {
            return Err(Errno::ENETUNREACH);
        }
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
    }
    let to = match (kind, family) {
        (Kind::Raw(_), Family::V6) => address::for_raw_datagram6(name)?,
        _ => address::for_datagram(name, family)?,
    };
    let Some(to) = to else { return Ok(None) };
    if to.port() == 0 && kind == Kind::Udp {
        return Err(Errno::EINVAL);
    }
    address::check_reachable(&ctx.kernel.config, to.ip())?;
    Ok(Some(to))
}

/// What the control messages beside a datagram ask for.
fn read_control(ctx: &mut Ctx<'_>, file: FileId, to: Option<SocketAddr>, control: &[u8]) -> Result<Asked, Errno> {
    let socket = ctx.inet(file)?;
    let (id, family, kind) = (socket.id, socket.family, socket.kind);
    let to = match to {
        Some(to) => Some(to.ip().to_canonical()),
        None => ctx.kernel.net.stack.datagram_peer(id).map_err(errno)?,
    };
    let over = if to.map_or(family == Family::V4, |to| to.is_ipv4()) { Family::V4 } else { Family::V6 };
    let stack = &ctx.kernel.net.stack;
    let who = ctx.credentials();
    Sender { family, kind, over, who, is_local: &|addr| stack.is_local(addr) }.read(control)
}

fn send_segments(
    ctx: &mut Ctx<'_>,
    id: SocketId,
    message: &Outgoing<'_>,
    to: Option<SocketAddr>,
    asked: &Asked,
) -> Result<usize, Errno> {
    let mut source = message.data.source(&ctx.process.memory);
    let total = message.data.total();
    let Some(size) = asked.segment.filter(|size| *size < total) else {
        return push(&mut ctx.kernel.net, id, &mut source, to, &asked.ancillary);
    };
    if total > MAX_PAYLOAD {
        return Err(Errno::EMSGSIZE);
    }
    if total.div_ceil(size) > MAX_SEGMENTS {
        return Err(Errno::EINVAL);
    }
    let mut whole = ctx.kernel.net.chunk(&mut source, total);
    if whole.len() < total {
        return Err(Errno::EFAULT);
    }
    let mut sent = 0;
    while !whole.is_empty() {
        let part = whole.split_to(size.min(whole.len()));
        match ctx.kernel.net.stack.send_with(id, part, to, &asked.ancillary) {
            Ok(count) => sent += count,
            // On Linux the buffer holds the whole or nothing; what does not fit behind the first part is lost like any datagram.
            Err(_) if sent > 0 => break,
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(total)
}

/// recv(2) and its relatives: one datagram, cut to the room there is.
pub(super) fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    if wanted.flags & MSG_ERRQUEUE != 0 {
        return recv_report(ctx, file, wanted);
    }
    let socket = ctx.inet(file)?;
    // UDP does not look at it (`udp_recvmsg`).
    if wanted.flags & MSG_OOB != 0 && socket.kind != Kind::Udp {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let (id, timeout) = (socket.id, socket.recv_timeout);
    let received = match recv_now(ctx, id, wanted) {
        Err(Errno::EAGAIN) => {
            let blocking = ctx.blocking(file, wanted.flags, timeout);
            let shut = ctx.kernel.net.stack.readiness(id).contains(Readiness::READ_HANGUP);
            if shut && blocking != Blocking::No {
                // Only who would wait is told of the end (`__skb_wait_for_more_packets`).
                return Ok(Message::default());
            }
            return wait(ctx, file, Events::READABLE, blocking, 0).map(|_| Message::default());
        }
        result => result?,
    };
    let cut = received.full > received.copied;
    let mut message = Message {
        count: if wanted.flags & MSG_TRUNC != 0 { received.full } else { received.copied },
        name: address::raw(received.from),
        control: Vec::new(),
        flags: if cut { MSG_TRUNC } else { 0 },
    };
    let start = ctx.kernel.config.clock;
    let socket = ctx.inet(file)?;
    // Echo sockets are not told by which address to answer (ping_queue_rcv_skb).
    let is_told = !socket.kept.is_empty() && socket.kind != Kind::Echo;
    let own = if is_told { own_address(ctx, &received) } else { Ipv4Addr::UNSPECIFIED };
    let socket = ctx.inet_mut(file)?;
    socket.stamp.received(&socket.kept, received.at);
    stamp::tell(&socket.kept, start.unix_nanos(received.at), wanted.control_space, &mut message);
    if received.drops > 0 && socket.kept.get(SOL_SOCKET, SO_RXQ_OVFL) == Some(1) {
        push_control(&mut message, wanted.control_space, SOL_SOCKET, SO_RXQ_OVFL, &received.drops.to_ne_bytes());
    }
    describe(socket.family, &socket.kept, own, &received, wanted.control_space, &mut message);
    Ok(message)
}

/// recvmsg(2) with MSG_ERRQUEUE (`ip_recv_error`, `ipv6_recv_error`): the oldest error, with what is known of the datagram and where
/// it was to go. EAGAIN.
fn recv_report(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let (id, family) = (ctx.inet(file)?.id, ctx.inet(file)?.family);
    let report = ctx.kernel.net.stack.take_report(id).ok_or(Errno::EAGAIN)?;
    let mut sink = wanted.data.sink(&ctx.process.memory);
    let want = report.payload.len().min(wanted.data.total());
    if sink.put(&report.payload[..want]) < want {
        return Err(Errno::EFAULT.into());
    }
    let cut = if report.payload.len() > want { MSG_TRUNC } else { 0 };
    let mut message =
        Message { count: want, name: address::raw(report.to), control: Vec::new(), flags: MSG_ERRQUEUE | cut };
    let (level, option) = match family {
        Family::V4 => (SOL_IP, IP_RECVERR),
        Family::V6 => (SOL_IPV6, IPV6_RECVERR),
    };
    push_control(&mut message, wanted.control_space, level, option, &extended_error(family, &report));
    Ok(message)
}

/// `struct sock_extended_err`, and the address of who sent the ICMP message, of AF_UNSPEC for an error of the host's own.
fn extended_error(family: Family, report: &ErrorReport) -> Vec<u8> {
    let (kind, code) = report.icmp.unwrap_or_default();
    let fixed = SockExtendedErr {
        ee_errno: errno(report.error).raw() as u32,
        ee_origin: match report.offender {
            None => SO_EE_ORIGIN_LOCAL,
            Some(IpAddr::V4(_)) => SO_EE_ORIGIN_ICMP,
            Some(IpAddr::V6(_)) => SO_EE_ORIGIN_ICMP6,
        },
        ee_type: kind,
        ee_code: code,
        ee_info: report.info,
        ..SockExtendedErr::default()
    };
    let offender = match (report.offender, family) {
        (None, Family::V4) => RawAddress::from_elem(0, size_of::<SockaddrIn>()),
        (None, Family::V6) => RawAddress::from_elem(0, size_of::<SockaddrIn6>()),
        (Some(IpAddr::V4(v4)), Family::V6) => address::raw(SocketAddr::new(v4.to_ipv6_mapped().into(), 0)),
        (Some(address), _) => address::raw(SocketAddr::new(address, 0)),
    };
    [fixed.as_bytes(), &offender].concat()
}

fn recv_now(ctx: &mut Ctx<'_>, id: SocketId, wanted: &Incoming<'_>) -> Result<Received, Errno> {
    let mut sink = wanted.data.sink(&ctx.process.memory);
    let mut faulted = false;
    let mut put = |bytes: &[u8]| {
        let taken = sink.put(bytes);
        faulted |= taken < bytes.len();
        taken
    };
    let peek = wanted.flags & MSG_PEEK != 0;
    let received = ctx.kernel.net.stack.recv_from(id, wanted.data.total(), peek, &mut put).map_err(errno)?;
    if faulted { Err(Errno::EFAULT) } else { Ok(received) }
}

/// The address that a datagram of IPv4 was sent to, or of one to many that from which its sender would be answered
/// (`fib_compute_spec_dst`).
fn own_address(ctx: &Ctx<'_>, received: &Received) -> Ipv4Addr {
    match received.to.ip().to_canonical() {
        IpAddr::V4(to) if !ctx.kernel.net.stack.config().is_for_many(to.into()) => to,
        _ if received.from.ip().to_canonical().is_loopback() => Ipv4Addr::LOCALHOST,
        _ => ctx.kernel.config.addresses.v4,
    }
}

/// Appends the control messages that the socket's options ask for: on a socket of IPv6 those of the datagram's own version, and
/// IPV6_PKTINFO for both (`udpv6_recvmsg`). `own` is the address from which an answer to a datagram of IPv4 would be sent. What a host
/// sends to itself comes in by the loopback interface, whatever its address.
fn describe(family: Family, kept: &Kept, own: Ipv4Addr, received: &Received, space: usize, message: &mut Message) {
    if kept.is_empty() {
        return;
    }
    let on = |level, option| kept.get(level, option) == Some(1);
    let index = received.by.index() as i32;
    let to = received.to.ip().to_canonical();
    if family == Family::V6 && on(SOL_IPV6, IPV6_RECVPKTINFO) {
        let IpAddr::V6(address) = received.to.ip() else { return };
        let info = In6Pktinfo { ipi6_addr: address.octets(), ipi6_ifindex: index };
        push_control(message, space, SOL_IPV6, IPV6_PKTINFO, info.as_bytes());
    }
    match to {
        IpAddr::V4(to) => {
            if on(SOL_IP, IP_PKTINFO) {
                let info = InPktinfo { ipi_ifindex: index, ipi_spec_dst: own.octets(), ipi_addr: to.octets() };
                push_control(message, space, SOL_IP, IP_PKTINFO, info.as_bytes());
            }
            if on(SOL_IP, IP_RECVTTL) {
                push_control(message, space, SOL_IP, IP_TTL, &i32::from(received.ttl).to_ne_bytes());
            }
            if on(SOL_IP, IP_RECVTOS) {
                push_control(message, space, SOL_IP, IP_TOS, &[received.tos]);
            }
            if on(SOL_IP, IP_RECVORIGDSTADDR) {
                let original = address::raw(SocketAddr::new(to.into(), received.to.port()));
                push_control(message, space, SOL_IP, IP_RECVORIGDSTADDR, &original);
            }
        }
        IpAddr::V6(_) => {
            if on(SOL_IPV6, IPV6_RECVHOPLIMIT) {
                push_control(message, space, SOL_IPV6, IPV6_HOPLIMIT, &i32::from(received.ttl).to_ne_bytes());
            }
            if on(SOL_IPV6, IPV6_RECVTCLASS) {
                push_control(message, space, SOL_IPV6, IPV6_TCLASS, &i32::from(received.tos).to_ne_bytes());
            }
            if on(SOL_IPV6, IPV6_FLOWINFO) && received.tos != 0 {
                // The label, which is 0, and the traffic class before it.
                let info = u32::from(received.tos) << 20;
                push_control(message, space, SOL_IPV6, IPV6_FLOWINFO, &info.to_be_bytes());
            }
            if on(SOL_IPV6, IPV6_2292PKTINFO)
                && let IpAddr::V6(address) = received.to.ip()
            {
                let info = In6Pktinfo { ipi6_addr: address.octets(), ipi6_ifindex: index };
                push_control(message, space, SOL_IPV6, IPV6_2292PKTINFO, info.as_bytes());
            }
            if on(SOL_IPV6, IPV6_2292HOPLIMIT) {
                push_control(message, space, SOL_IPV6, IPV6_2292HOPLIMIT, &i32::from(received.ttl).to_ne_bytes());
            }
            if on(SOL_IPV6, IPV6_RECVORIGDSTADDR) {
                push_control(message, space, SOL_IPV6, IPV6_RECVORIGDSTADDR, &address::raw(received.to));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::controls;
    use super::*;
    use base::SimTime;
    use tcpip::Interface;

    /// The control messages of a datagram to a socket with these options.
    fn described(family: Family, options: &[(i32, i32)], from: &str, to: &str) -> Vec<(i32, i32, Vec<u8>)> {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let received = Received {
            copied: 1,
            full: 1,
            from,
            to,
            at: SimTime::ZERO,
            ttl: 63,
            tos: 8,
            by: Interface::Ethernet,
            drops: 0,
        };
        let mut kept = Kept::default();
        options.iter().for_each(|(level, option)| kept.set(*level, *option, 1));
        let mut message = Message::default();
        describe(family, &kept, Ipv4Addr::new(11, 0, 0, 1), &received, 256, &mut message);
        let all = controls(&message.control).map(Result::unwrap);
        all.map(|(level, kind, data)| (level, kind, data.to_vec())).collect()
    }

    #[test]
    fn packet_info_names_interface_and_address() {
        let own = [11, 0, 0, 1];
        let got = described(Family::V4, &[(SOL_IP, IP_PKTINFO)], "11.0.0.2:9", "11.0.0.1:53");
        let info = InPktinfo { ipi_ifindex: 2, ipi_spec_dst: own, ipi_addr: own };
        assert_eq!(got, [(SOL_IP, IP_PKTINFO, info.as_bytes().to_vec())]);
        let got = described(Family::V6, &[(SOL_IPV6, IPV6_RECVPKTINFO)], "[fd00::2]:9", "[fd00::1]:53");
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, 1);
        let info = In6Pktinfo { ipi6_addr: address, ipi6_ifindex: 2 };
        assert_eq!(got, [(SOL_IPV6, IPV6_PKTINFO, info.as_bytes().to_vec())]);
    }

    #[test]
    fn control_messages_are_those_of_the_datagrams_version() {
        let all =
            [(SOL_IPV6, IPV6_RECVHOPLIMIT), (SOL_IPV6, IPV6_RECVTCLASS), (SOL_IP, IP_RECVTTL), (SOL_IP, IP_RECVTOS)];
        let new = described(Family::V6, &all, "[fd00::2]:9", "[fd00::1]:53");
        let int = |value: i32| value.to_ne_bytes().to_vec();
        assert_eq!(new, [(SOL_IPV6, IPV6_HOPLIMIT, int(63)), (SOL_IPV6, IPV6_TCLASS, int(8))]);
        let old = described(Family::V6, &all, "[::ffff:11.0.0.2]:9", "[::ffff:11.0.0.1]:53");
        assert_eq!(old, [(SOL_IP, IP_TTL, int(63)), (SOL_IP, IP_TOS, vec![8])]);
    }
}
