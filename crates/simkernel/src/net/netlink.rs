//! AF_NETLINK sockets of NETLINK_ROUTE (rtnetlink(7)): listing interfaces, addresses and routes, as `getifaddrs`,
//! `if_nameindex`, `getaddrinfo` and the like ask for them. Nothing can be changed, and nothing changes by itself.

use super::address::RawAddress;
use super::interfaces::{Interface, interfaces};
use super::message::{Incoming, Message, Outgoing};
use super::options::write_answer;
use super::{Blocking, wait};
use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::host::Addresses;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::net::*;
use linux_abi::sockaddr::SockaddrNl;
use linux_abi::socket::*;
use std::collections::VecDeque;
use std::net::Ipv6Addr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The longest request that is looked at.
const REQUEST_MAX: usize = 64 << 10;
/// Interfaces, addresses and routes of one answer each fit.
const BUFFER_BYTES: i32 = 212_992;

const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const OPERSTATE_UNKNOWN: u8 = 0;
const OPERSTATE_UP: u8 = 6;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_KERNEL: u8 = 2;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;

/// rtnetlink(7): a route.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Rtmsg {
    family: u8,
    dst_len: u8,
    src_len: u8,
    tos: u8,
    table: u8,
    protocol: u8,
    scope: u8,
    kind: u8,
    flags: u32,
}

#[derive(Debug)]
pub struct NetlinkSocket {
    /// SOCK_RAW or SOCK_DGRAM, which do the same.
    pub kind: i32,
    /// Its address; 0 before bind.
    pub port: u32,
    queue: VecDeque<Vec<u8>>,
}

impl NetlinkSocket {
    pub fn poll(&self) -> Events {
        Events::WRITABLE | Events::READABLE.when(!self.queue.is_empty())
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
        let own = self.config.addresses;
        let port = self.netlink(file)?.port;
        let replies = answer(&request, port, own);
        self.netlink(file)?.queue.extend(replies);
        self.notify(file, Events::READABLE);
        Ok(len)
    }
}

/// socket(2) for AF_NETLINK; `kind` without its flags.
pub fn socket(ctx: &mut Ctx<'_>, kind: i32, protocol: i32, nonblocking: bool) -> Result<FileId, Errno> {
    if !matches!(kind, SOCK_RAW | SOCK_DGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    if protocol != NETLINK_ROUTE {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let status = O_RDWR | if nonblocking { O_NONBLOCK } else { 0 };
    let socket = NetlinkSocket { kind, port: 0, queue: VecDeque::new() };
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

fn bind_port(ctx: &mut Ctx<'_>, file: FileId, wanted: u32) -> Result<(), Errno> {
    let bound = ctx.kernel.netlink(file)?.port;
    if bound != 0 {
        return if wanted == 0 || wanted == bound { Ok(()) } else { Err(Errno::EINVAL) };
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

/// connect(2): the kernel is the one peer there is.
pub fn connect(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let (peer, _) = SockaddrNl::read_from_prefix(name).map_err(|_| Errno::EINVAL)?;
    if i32::from(peer.nl_family) != AF_NETLINK {
        return Err(Errno::EINVAL.into());
    }
    if peer.nl_pid != 0 {
        return Err(Errno::ECONNREFUSED.into());
    }
    bind_port(ctx, file, 0)?;
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
    bind_port(ctx, file, 0)?;
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
        (SOL_SOCKET, SO_PROTOCOL) => Ok(NETLINK_ROUTE),
        (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => Ok(BUFFER_BYTES),
        (SOL_SOCKET, SO_ERROR | SO_ACCEPTCONN | SO_PASSCRED) => Ok(0),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// getsockopt(2).
pub fn get_option(ctx: &mut Ctx<'_>, file: FileId, level: i32, name: i32, value: u64, len_address: u64) -> SysResult {
    let len: i32 = ctx.process.memory.read_value(len_address)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    let number = option(ctx.kernel.netlink(file)?, level, name)?;
    write_answer(&ctx.process.memory, level, value, len_address, len, &number.to_ne_bytes())
}

/// The kernel's answers to a datagram of requests: one datagram each, as they are to be read.
fn answer(mut request: &[u8], port: u32, own: Addresses) -> Vec<Vec<u8>> {
    let mut replies = Vec::new();
    while let Ok((header, rest)) = Nlmsghdr::read_from_prefix(request) {
        let len = header.nlmsg_len as usize;
        if len < size_of::<Nlmsghdr>() || len > request.len() {
            break;
        }
        let body = &rest[..len - size_of::<Nlmsghdr>()];
        if header.nlmsg_flags & NLM_F_REQUEST != 0 && header.nlmsg_type > NLMSG_DONE {
            let reply = Reply { seq: header.nlmsg_seq, port };
            reply.to(&header, body, own, &mut replies);
        }
        request = request.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    replies
}

/// What every message of an answer has in its header.
#[derive(Clone, Copy)]
struct Reply {
    seq: u32,
    port: u32,
}

impl Reply {
    fn to(self, header: &Nlmsghdr, body: &[u8], own: Addresses, replies: &mut Vec<Vec<u8>>) {
        let family = i32::from(body.first().copied().unwrap_or(0));
        let wants = |of: i32| family == AF_UNSPEC || family == of;
        let all = interfaces(own);
        let dump = header.nlmsg_flags & NLM_F_DUMP != 0;
        let mut messages = Vec::new();
        match header.nlmsg_type {
            RTM_GETLINK if dump => all.iter().for_each(|interface| self.link(&mut messages, interface, NLM_F_MULTI)),
            RTM_GETLINK => match find(&all, body) {
                Some(interface) => self.link(&mut messages, interface, 0),
                None => return replies.push(self.error(header, Some(Errno::ENODEV))),
            },
            // Other families have no addresses and no routes.
            RTM_GETADDR if dump => {
                let of = |family| all.iter().filter(move |_| wants(family));
                of(AF_INET).for_each(|interface| self.address(&mut messages, interface));
                of(AF_INET6).for_each(|interface| self.address6(&mut messages, interface));
            }
            RTM_GETROUTE if dump => {
                if wants(AF_INET) {
                    self.routes(&mut messages, &all[1]);
                }
                if wants(AF_INET6) {
                    all.iter().for_each(|interface| self.routes6(&mut messages, interface));
                }
            }
            _ => return replies.push(self.error(header, Some(Errno::EOPNOTSUPP))),
        }
        if !messages.is_empty() {
            replies.push(messages);
        }
        if dump {
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
    fn message(self, out: &mut Vec<u8>, kind: u16, flags: u16, fixed: &[u8]) -> usize {
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

    fn link(self, out: &mut Vec<u8>, interface: &Interface, flags: u16) {
        let fixed = Ifinfomsg {
            ifi_type: interface.hardware,
            ifi_index: interface.index,
            ifi_flags: interface.flags,
            ..Ifinfomsg::default()
        };
        let operstate = if interface.broadcast.is_none() { OPERSTATE_UNKNOWN } else { OPERSTATE_UP };
        let start = self.message(out, RTM_NEWLINK, flags, fixed.as_bytes());
        attribute(out, start, IFLA_IFNAME, &[interface.name.as_bytes(), &[0]].concat());
        attribute(out, start, IFLA_TXQLEN, &interface.queue_len.to_ne_bytes());
        attribute(out, start, IFLA_OPERSTATE, &[operstate]);
        attribute(out, start, IFLA_MTU, &interface.mtu.to_ne_bytes());
        attribute(out, start, IFLA_ADDRESS, &interface.mac);
        attribute(out, start, IFLA_BROADCAST, &interface.mac_broadcast);
    }

    fn address(self, out: &mut Vec<u8>, interface: &Interface) {
        let fixed = Ifaddrmsg {
            ifa_family: AF_INET as u8,
            ifa_prefixlen: interface.prefix,
            ifa_flags: IFA_F_PERMANENT,
            ifa_scope: if interface.broadcast.is_none() { RT_SCOPE_HOST } else { RT_SCOPE_UNIVERSE },
            ifa_index: interface.index as u32,
        };
        let start = self.message(out, RTM_NEWADDR, NLM_F_MULTI, fixed.as_bytes());
        attribute(out, start, IFA_ADDRESS, &interface.address.octets());
        attribute(out, start, IFA_LOCAL, &interface.address.octets());
        if let Some(broadcast) = interface.broadcast {
            attribute(out, start, IFA_BROADCAST, &broadcast.octets());
        }
        attribute(out, start, IFA_LABEL, &[interface.name.as_bytes(), &[0]].concat());
        attribute(out, start, IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes());
        // Lifetimes without end; made and changed at the start.
        let forever = u32::MAX.to_ne_bytes();
        attribute(out, start, IFA_CACHEINFO, &[forever, forever, [0; 4], [0; 4]].concat());
    }

    /// The address, if there is one, as `inet6_fill_ifaddr` shows it: without IFA_LOCAL and label.
    fn address6(self, out: &mut Vec<u8>, interface: &Interface) {
        let Some(address) = interface.address6 else { return };
        let fixed = Ifaddrmsg {
            ifa_family: AF_INET6 as u8,
            ifa_prefixlen: interface.prefix6,
            ifa_flags: IFA_F_PERMANENT,
            ifa_scope: if interface.broadcast.is_none() { RT_SCOPE_HOST } else { RT_SCOPE_UNIVERSE },
            ifa_index: interface.index as u32,
        };
        let start = self.message(out, RTM_NEWADDR, NLM_F_MULTI, fixed.as_bytes());
        attribute(out, start, IFA_ADDRESS, &address.octets());
        let forever = u32::MAX.to_ne_bytes();
        attribute(out, start, IFA_CACHEINFO, &[forever, forever, [0; 4], [0; 4]].concat());
        attribute(out, start, IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes());
    }

    /// The main table of IPv6: the interface's own network, and a default route by `eth0`.
    fn routes6(self, out: &mut Vec<u8>, interface: &Interface) {
        let Some(address) = interface.address6 else { return };
        let mut route = |destination: Option<Ipv6Addr>, protocol, metric: u32| {
            let fixed = Rtmsg {
                family: AF_INET6 as u8,
                dst_len: if destination.is_some() { interface.prefix6 } else { 0 },
                table: RT_TABLE_MAIN,
                protocol,
                kind: RTN_UNICAST,
                ..Rtmsg::default()
            };
            let start = self.message(out, RTM_NEWROUTE, NLM_F_MULTI, fixed.as_bytes());
            attribute(out, start, RTA_TABLE, &u32::from(RT_TABLE_MAIN).to_ne_bytes());
            if let Some(network) = destination {
                attribute(out, start, RTA_DST, &network.octets());
            }
            attribute(out, start, RTA_PRIORITY, &metric.to_ne_bytes());
            attribute(out, start, RTA_OIF, &interface.index.to_ne_bytes());
        };
        route(Some(interface.network6(address)), RTPROT_KERNEL, 256);
        if interface.broadcast.is_some() {
            route(None, RTPROT_BOOT, 1024);
        }
    }

    /// The main table: a default route, and the interface's own network.
    fn routes(self, out: &mut Vec<u8>, interface: &Interface) {
        let route = |dst_len, protocol| Rtmsg {
            family: AF_INET as u8,
            dst_len,
            table: RT_TABLE_MAIN,
            protocol,
            scope: RT_SCOPE_LINK,
            kind: RTN_UNICAST,
            ..Rtmsg::default()
        };
        let start = self.message(out, RTM_NEWROUTE, NLM_F_MULTI, route(0, RTPROT_BOOT).as_bytes());
        attribute(out, start, RTA_TABLE, &u32::from(RT_TABLE_MAIN).to_ne_bytes());
        attribute(out, start, RTA_OIF, &interface.index.to_ne_bytes());
        let start = self.message(out, RTM_NEWROUTE, NLM_F_MULTI, route(interface.prefix, RTPROT_KERNEL).as_bytes());
        attribute(out, start, RTA_TABLE, &u32::from(RT_TABLE_MAIN).to_ne_bytes());
        attribute(out, start, RTA_DST, &interface.network().octets());
        attribute(out, start, RTA_PREFSRC, &interface.address.octets());
        attribute(out, start, RTA_OIF, &interface.index.to_ne_bytes());
    }
}

/// Appends an attribute to the message that begins at `start`.
fn attribute(out: &mut Vec<u8>, start: usize, kind: u16, data: &[u8]) {
    let header = Rtattr { rta_len: (size_of::<Rtattr>() + data.len()) as u16, rta_type: kind };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

/// The interface that a request for one link means: by its index, or by its name.
fn find<'a>(all: &'a [Interface], body: &[u8]) -> Option<&'a Interface> {
    let (fixed, rest) = Ifinfomsg::read_from_prefix(body).ok()?;
    if fixed.ifi_index != 0 {
        return all.iter().find(|interface| interface.index == fixed.ifi_index);
    }
    let name = attributes(rest).find(|(kind, _)| *kind == IFLA_IFNAME)?.1;
    let name = name.split(|&byte| byte == 0).next()?;
    all.iter().find(|interface| interface.name.as_bytes() == name)
}

fn attributes(mut buffer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = Rtattr::read_from_prefix(buffer).ok()?;
        let len = usize::from(header.rta_len);
        let data = buffer.get(size_of::<Rtattr>()..len)?;
        buffer = buffer.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((header.rta_type, data))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const HOST: Addresses =
        Addresses { v4: Ipv4Addr::new(11, 0, 0, 5), v6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, 5)) };

    fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Reply { seq: 77, port: 0 }.message(&mut out, kind, NLM_F_REQUEST | flags, body);
        out
    }

    /// The messages of an answer: type and what follows the header.
    fn messages(datagram: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        let mut at = 0;
        while at < datagram.len() {
            let (header, _) = Nlmsghdr::read_from_prefix(&datagram[at..]).unwrap();
            assert_eq!((header.nlmsg_seq, header.nlmsg_pid), (77, 1000));
            let end = at + header.nlmsg_len as usize;
            all.push((header.nlmsg_type, datagram[at + 16..end].to_vec()));
            at = end;
        }
        all
    }

    fn attribute_of(body: &[u8], fixed: usize, wanted: u16) -> Option<Vec<u8>> {
        attributes(&body[fixed..]).find(|(kind, _)| *kind == wanted).map(|(_, data)| data.to_vec())
    }

    #[test]
    fn links_are_listed_and_the_list_ends() {
        let replies = answer(&request(RTM_GETLINK, NLM_F_DUMP, &[0]), 1000, HOST);
        assert_eq!(replies.len(), 2);
        let links = messages(&replies[0]);
        assert_eq!(links.len(), 2);
        assert_eq!(attribute_of(&links[1].1, 16, IFLA_IFNAME).unwrap(), b"eth0\0");
        assert_eq!(attribute_of(&links[1].1, 16, IFLA_ADDRESS).unwrap(), [2, 0, 11, 0, 0, 5]);
        assert_eq!(messages(&replies[1]), [(NLMSG_DONE, vec![0; 4])]);
    }

    #[test]
    fn addresses_are_those_of_both_interfaces() {
        let replies = answer(&request(RTM_GETADDR, NLM_F_DUMP, &[AF_INET as u8]), 1000, HOST);
        let addresses = messages(&replies[0]);
        let local: Vec<_> = addresses.iter().map(|(_, body)| attribute_of(body, 8, IFA_LOCAL).unwrap()).collect();
        assert_eq!(local, [vec![127, 0, 0, 1], vec![11, 0, 0, 5]]);
        assert_eq!(attribute_of(&addresses[0].1, 8, IFA_BROADCAST), None);
        assert_eq!(attribute_of(&addresses[1].1, 8, IFA_BROADCAST).unwrap(), [11, 0, 0, 255]);
    }

    #[test]
    fn there_are_no_addresses_of_other_families() {
        for kind in [RTM_GETADDR, RTM_GETROUTE] {
            let replies = answer(&request(kind, NLM_F_DUMP, &[AF_NETLINK as u8]), 1000, HOST);
            assert_eq!(replies.len(), 1);
            assert_eq!(messages(&replies[0])[0].0, NLMSG_DONE);
        }
    }

    #[test]
    fn addresses_and_routes_of_ipv6_follow_those_of_ipv4() {
        let families = |kind, wanted: i32, own| {
            let replies = answer(&request(kind, NLM_F_DUMP, &[wanted as u8]), 1000, own);
            messages(&replies[0]).iter().map(|(_, body)| i32::from(body[0])).collect::<Vec<_>>()
        };
        assert_eq!(families(RTM_GETADDR, AF_UNSPEC, HOST), [AF_INET, AF_INET, AF_INET6, AF_INET6]);
        assert_eq!(families(RTM_GETADDR, AF_INET6, HOST), [AF_INET6; 2]);
        assert_eq!(families(RTM_GETADDR, AF_INET6, Addresses { v6: None, ..HOST }), [AF_INET6]);
        assert_eq!(families(RTM_GETROUTE, AF_INET6, HOST), [AF_INET6; 3]);
        assert_eq!(families(RTM_GETROUTE, AF_INET6, Addresses { v6: None, ..HOST }), [AF_INET6]);
        let replies = answer(&request(RTM_GETADDR, NLM_F_DUMP, &[AF_INET6 as u8]), 1000, HOST);
        let (_, eth0) = &messages(&replies[0])[1];
        assert_eq!((eth0[1], eth0[3]), (64, RT_SCOPE_UNIVERSE));
        assert_eq!(attribute_of(eth0, 8, IFA_ADDRESS).unwrap(), HOST.v6.unwrap().octets());
        assert_eq!(attribute_of(eth0, 8, IFA_LOCAL), None);
    }

    #[test]
    fn one_link_is_found_by_index_or_name() {
        let by_index = Ifinfomsg { ifi_index: 1, ..Ifinfomsg::default() };
        let replies = answer(&request(RTM_GETLINK, 0, by_index.as_bytes()), 1000, HOST);
        assert_eq!(attribute_of(&messages(&replies[0])[0].1, 16, IFLA_IFNAME).unwrap(), b"lo\0");
        let mut by_name = request(RTM_GETLINK, 0, Ifinfomsg::default().as_bytes());
        attribute(&mut by_name, 0, IFLA_IFNAME, b"eth0\0");
        let replies = answer(&by_name, 1000, HOST);
        assert_eq!(attribute_of(&messages(&replies[0])[0].1, 16, IFLA_IFNAME).unwrap(), b"eth0\0");
        let unknown = Ifinfomsg { ifi_index: 9, ..Ifinfomsg::default() };
        let replies = answer(&request(RTM_GETLINK, 0, unknown.as_bytes()), 1000, HOST);
        let (kind, body) = &messages(&replies[0])[0];
        assert_eq!((*kind, &body[..4]), (NLMSG_ERROR, &(-Errno::ENODEV.raw()).to_ne_bytes()[..]));
    }

    #[test]
    fn changes_are_refused_and_garbage_is_ignored() {
        let replies = answer(&request(RTM_NEWADDR, NLM_F_ACK, &[0; 8]), 1000, HOST);
        assert_eq!(messages(&replies[0])[0].0, NLMSG_ERROR);
        assert!(answer(&[1, 2, 3], 1000, HOST).is_empty());
        assert!(answer(&[0xff; 32], 1000, HOST).is_empty());
    }

    #[test]
    fn the_main_table_has_a_default_route() {
        let replies = answer(&request(RTM_GETROUTE, NLM_F_DUMP, &[AF_INET as u8]), 1000, HOST);
        let routes = messages(&replies[0]);
        assert_eq!((routes[0].1[1], routes[1].1[1]), (0, 24));
        assert_eq!(attribute_of(&routes[1].1, 12, RTA_DST).unwrap(), [11, 0, 0, 0]);
    }
}
