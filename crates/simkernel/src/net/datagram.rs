//! Sending and receiving on UDP sockets (net/ipv4/udp.c).

use super::message::{Incoming, Message, Outgoing, controls, push_control};
use super::options::Kept;
use super::{Network, address, errno, interfaces, wait};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::socket::*;
use std::net::{Ipv4Addr, SocketAddr};
use tcpip::{Received, SocketId};
use zerocopy::{FromBytes, IntoBytes};

/// The largest payload of a datagram over IPv4.
const MAX_PAYLOAD: usize = 65_507;
/// UDP_MAX_SEGMENTS.
const MAX_SEGMENTS: usize = 128;

/// Sends the rest of a source as one datagram.
pub(super) fn push(
    net: &mut Network,
    id: SocketId,
    source: &mut dyn ByteSource,
    to: Option<SocketAddr>,
) -> Result<usize, Errno> {
    let len = source.remaining();
    if len > MAX_PAYLOAD {
        return Err(Errno::EMSGSIZE);
    }
    let bytes = net.chunk(source, len);
    if bytes.len() < len {
        return Err(Errno::EFAULT);
    }
    net.stack.send_to(id, bytes, to).map_err(errno)
}

/// send(2) and its relatives: one datagram, or with UDP_SEGMENT several of that size.
pub(super) fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    if message.data.total() > u16::MAX.into() {
        return Err(Errno::EMSGSIZE.into());
    }
    if message.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let to = destination(ctx, message.name)?;
    let socket = ctx.inet(file)?;
    let (id, timeout) = (socket.id, socket.send_timeout);
    let own = socket.kept.get(SOL_UDP, UDP_SEGMENT).filter(|size| *size > 0);
    let segment = parse_control(message.control)?.or(own.map(|size| size as usize));
    match send_segments(ctx, id, message, to, segment) {
        Err(Errno::EAGAIN) => {
            let blocking = ctx.blocking(file, message.flags, timeout);
            wait(ctx, file, Events::WRITABLE, blocking, 0)
        }
        result => {
            ctx.kernel.settle_sockets();
            Ok(result? as u64)
        }
    }
}

fn destination(ctx: &Ctx<'_>, name: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    if name.is_empty() {
        return Ok(None);
    }
    let to = address::internet_or_unspecified(name, false)?;
    if to.port() == 0 {
        return Err(Errno::EINVAL);
    }
    address::check_reachable(&ctx.kernel.config, *to.ip())?;
    Ok(Some(to.into()))
}

fn send_segments(
    ctx: &mut Ctx<'_>,
    id: SocketId,
    message: &Outgoing<'_>,
    to: Option<SocketAddr>,
    segment: Option<usize>,
) -> Result<usize, Errno> {
    let mut source = message.data.source(&ctx.process.memory);
    let total = message.data.total();
    let Some(size) = segment.filter(|size| *size < total) else {
        return push(&mut ctx.kernel.net, id, &mut source, to);
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
        match ctx.kernel.net.stack.send_to(id, part, to) {
            Ok(count) => sent += count,
            // On Linux the buffer holds the whole or nothing; what does not fit behind the first part is lost like any datagram.
            Err(_) if sent > 0 => break,
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(total)
}

/// Checks the control messages of a datagram (`ip_cmsg_send`, `udp_cmsg_send`). The segment size, if one says it. A source address
/// (IP_PKTINFO) is the host's own or refused; which one is used follows from the route. IP_TOS and IP_TTL change nothing.
fn parse_control(control: &[u8]) -> Result<Option<usize>, Errno> {
    let mut segment = None;
    for entry in controls(control) {
        match entry? {
            (SOL_UDP, UDP_SEGMENT, data) => {
                let (size, _) = u16::read_from_prefix(data).map_err(|_| Errno::EINVAL)?;
                segment = Some(usize::from(size)).filter(|size| *size > 0);
            }
            (SOL_IP, IP_PKTINFO, data) => {
                InPktinfo::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
            }
            (SOL_IP, IP_TTL, data) => {
                let ttl = i32::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
                if !(1..=255).contains(&ttl) {
                    return Err(Errno::EINVAL);
                }
            }
            (SOL_IP, IP_TOS, data) if matches!(data.len(), 1 | 4) => {}
            (SOL_SOCKET, SO_MARK | SO_TIMESTAMPING | SO_TXTIME, _) => {}
            (SOL_IP | SOL_UDP | SOL_SOCKET, ..) => return Err(Errno::EINVAL),
            _ => {}
        }
    }
    Ok(segment)
}

/// recv(2) and its relatives: one datagram, cut to the room there is.
pub(super) fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    if wanted.flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN.into());
    }
    if wanted.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let socket = ctx.inet(file)?;
    let (id, timeout) = (socket.id, socket.recv_timeout);
    let received = match recv_now(ctx, id, wanted) {
        Err(Errno::EAGAIN) => {
            let blocking = ctx.blocking(file, wanted.flags, timeout);
            return wait(ctx, file, Events::READABLE, blocking, 0).map(|_| Message::default());
        }
        result => result?,
    };
    let Some(received) = received else { return Ok(Message::default()) };
    let cut = received.full > received.copied;
    let mut message = Message {
        count: if wanted.flags & MSG_TRUNC != 0 { received.full } else { received.copied },
        name: address::raw(received.from),
        control: Vec::new(),
        flags: if cut { MSG_TRUNC } else { 0 },
    };
    let address = ctx.kernel.config.address;
    describe(&ctx.inet(file)?.kept, address, &received, wanted.control_space, &mut message);
    Ok(message)
}

fn recv_now(ctx: &mut Ctx<'_>, id: SocketId, wanted: &Incoming<'_>) -> Result<Option<Received>, Errno> {
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

/// Appends the control messages that the socket's options ask for.
fn describe(kept: &Kept, own: Ipv4Addr, received: &Received, space: usize, message: &mut Message) {
    if space == 0 || kept.is_empty() {
        return;
    }
    let on = |option| kept.get(SOL_IP, option) == Some(1);
    let to = address::ip(received.to);
    if on(IP_PKTINFO) {
        let local = if to.is_loopback() { to } else { own };
        let index = interfaces::index_between(address::ip(received.from), to, own);
        let info = InPktinfo { ipi_ifindex: index, ipi_spec_dst: local.octets(), ipi_addr: to.octets() };
        push_control(message, space, SOL_IP, IP_PKTINFO, info.as_bytes());
    }
    if on(IP_RECVORIGDSTADDR) {
        let original = address::raw(received.to);
        push_control(message, space, SOL_IP, IP_RECVORIGDSTADDR, &original);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut message = Message::default();
        push_control(&mut message, 256, level, kind, data);
        message.control
    }

    #[test]
    fn control_messages_of_datagrams_are_checked() {
        assert_eq!(parse_control(&[]), Ok(None));
        assert_eq!(parse_control(&control(SOL_UDP, UDP_SEGMENT, &1200u16.to_ne_bytes())), Ok(Some(1200)));
        assert_eq!(parse_control(&control(SOL_IP, IP_PKTINFO, &[0; 12])), Ok(None));
        assert_eq!(parse_control(&control(SOL_IP, IP_PKTINFO, &[0; 11])), Err(Errno::EINVAL));
        assert_eq!(parse_control(&control(SOL_IP, IP_TTL, &0i32.to_ne_bytes())), Err(Errno::EINVAL));
        assert_eq!(parse_control(&control(SOL_IP, 99, &[])), Err(Errno::EINVAL));
        assert_eq!(parse_control(&control(999, 1, &[])), Ok(None));
    }

    #[test]
    fn packet_info_names_interface_and_address() {
        let own = Ipv4Addr::new(11, 0, 0, 1);
        let received =
            Received { copied: 1, full: 1, from: "11.0.0.2:9".parse().unwrap(), to: "11.0.0.1:53".parse().unwrap() };
        let mut kept = Kept::default();
        kept.set(SOL_IP, IP_PKTINFO, 1);
        let mut message = Message::default();
        describe(&kept, own, &received, 64, &mut message);
        let (level, kind, data) = controls(&message.control).next().unwrap().unwrap();
        let info = InPktinfo::read_from_bytes(data).unwrap();
        assert_eq!((level, kind), (SOL_IP, IP_PKTINFO));
        assert_eq!(info, InPktinfo { ipi_ifindex: 2, ipi_spec_dst: own.octets(), ipi_addr: own.octets() });
    }
}
