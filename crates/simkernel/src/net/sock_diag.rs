//! What NETLINK_SOCK_DIAG answers (sock_diag(7)): the sockets of a host, as `ss` asks for them. Filters in byte code are not executed: a
//! list has all sockets of the wanted states, and who asked chooses among them, as `ss` does in any case.

use super::listing::{Entry, cookie, internet, memory_of};
use super::netlink_frame::{Reply, attribute};
use super::options::tcp_info::tcp_info;
use crate::kernel::Kernel;
use crate::unix::listing::Listed as UnixListed;
use linux_abi::Errno;
use linux_abi::diag::*;
use linux_abi::net::{NLM_F_DUMP, NLM_F_MULTI, Nlmsghdr};
use linux_abi::socket::*;
use std::net::{IpAddr, SocketAddr};
use tcpip::{CongestionControl, Family, Protocol, TcpState};
use zerocopy::{FromBytes, IntoBytes};

/// The number of families.
const AF_MAX: i32 = 46;

/// The messages that answer a request. EINVAL; ENOENT for families and protocols that no host has, and for no such socket.
pub(super) fn answer(kernel: &Kernel, reply: Reply, header: &Nlmsghdr, body: &[u8]) -> Result<Vec<u8>, Errno> {
    if header.nlmsg_type != SOCK_DIAG_BY_FAMILY {
        return Err(if header.nlmsg_type == SOCK_DESTROY { Errno::EOPNOTSUPP } else { Errno::EINVAL });
    }
    let dump = header.nlmsg_flags & NLM_F_DUMP != 0;
    match i32::from(*body.first().ok_or(Errno::EINVAL)?) {
        AF_INET | AF_INET6 => {
            let (request, _) = InetDiagReqV2::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
            inet(kernel, reply, &request, dump)
        }
        AF_UNIX => {
            let (request, _) = UnixDiagReq::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
            unix(kernel, reply, &request, dump)
        }
        ..AF_MAX => Err(Errno::ENOENT),
        _ => Err(Errno::EINVAL),
    }
}

fn inet(kernel: &Kernel, reply: Reply, request: &InetDiagReqV2, dump: bool) -> Result<Vec<u8>, Errno> {
    let family = if i32::from(request.sdiag_family) == AF_INET { Family::V4 } else { Family::V6 };
    let wanted: fn(Protocol) -> bool = match i32::from(request.sdiag_protocol) {
        IPPROTO_TCP => |protocol| protocol == Protocol::Tcp,
        IPPROTO_UDP => |protocol| protocol == Protocol::Udp,
        IPPROTO_RAW => |protocol| matches!(protocol, Protocol::Raw(_)),
        _ => return Err(Errno::ENOENT),
    };
    let mut entries = internet(&kernel.net, &kernel.files, kernel.now);
    entries.retain(|entry| entry.listed.family == family && wanted(entry.listed.protocol));
    let mut out = Vec::new();
    if dump {
        entries
            .retain(|entry| request.idiag_states >> entry.listed.state as u8 & 1 != 0 && matches_ports(entry, request));
        entries.iter().for_each(|entry| inet_message(reply, &mut out, entry, request.idiag_ext, NLM_F_MULTI));
    } else {
        let found = entries.iter().find(|entry| is_meant(entry, &request.id)).ok_or(Errno::ENOENT)?;
        inet_message(reply, &mut out, found, request.idiag_ext, 0);
    }
    Ok(out)
}

/// Ports of a dump that are not zero must be equal (`inet_diag_dump_icsk`).
fn matches_ports(entry: &Entry, request: &InetDiagReqV2) -> bool {
    let same = |wanted: [u8; 2], address: SocketAddr| wanted == [0; 2] || u16::from_be_bytes(wanted) == address.port();
    same(request.id.sport, entry.listed.local) && same(request.id.dport, entry.listed.remote)
}

/// A request for one socket: its addresses, or an unconnected one with the local port; and its cookie, unless that is left open.
fn is_meant(entry: &Entry, id: &InetDiagSockid) -> bool {
    let own = sockid(entry);
    let cookie = id.cookie == [INET_DIAG_NOCOOKIE; 2] || id.cookie == own.cookie;
    let exact = own.src == id.src && own.dst == id.dst && own.dport == id.dport;
    let open = own.dport == [0; 2] && (own.src == [0; 16] || own.src == id.src);
    cookie && own.sport == id.sport && (exact || open)
}

fn sockid(entry: &Entry) -> InetDiagSockid {
    let octets = |address: SocketAddr| {
        let mut all = [0; 16];
        match address.ip() {
            IpAddr::V4(v4) => all[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => all = v6.octets(),
        }
        all
    };
    let listed = &entry.listed;
    let number = cookie(listed.id);
    InetDiagSockid {
        sport: listed.local.port().to_be_bytes(),
        dport: listed.remote.port().to_be_bytes(),
        src: octets(listed.local),
        dst: octets(listed.remote),
        interface: 0,
        cookie: [number as u32, (number >> 32) as u32],
    }
}

/// `inet_sk_diag_fill`, `inet_diag_msg_attrs_fill`.
fn inet_message(reply: Reply, out: &mut Vec<u8>, entry: &Entry, ext: u8, flags: u16) {
    let listed = &entry.listed;
    let fixed = InetDiagMsg {
        idiag_family: if listed.family == Family::V4 { AF_INET } else { AF_INET6 } as u8,
        idiag_state: listed.state as u8,
        idiag_timer: listed.timer as u8,
        idiag_retrans: listed.retransmits.max(listed.probes),
        id: sockid(entry),
        idiag_expires: listed.expires.as_millis() as u32,
        idiag_rqueue: listed.recv_queue,
        idiag_wqueue: listed.send_queue,
        idiag_uid: entry.user,
        idiag_inode: entry.inode as u32,
    };
    let wants = |kind: u16| ext >> (kind - 1) & 1 != 0;
    let start = reply.message(out, SOCK_DIAG_BY_FAMILY, flags, fixed.as_bytes());
    if matches!(listed.state, TcpState::TimeWait | TcpState::SynReceived) {
        return;
    }
    attribute(out, start, INET_DIAG_SHUTDOWN, &[shutdown(listed.read_shut, listed.write_shut)]);
    if wants(INET_DIAG_TOS) {
        attribute(out, start, INET_DIAG_TOS, &[listed.options.tos]);
    }
    if listed.family == Family::V6 {
        if wants(INET_DIAG_TCLASS) {
            attribute(out, start, INET_DIAG_TCLASS, &[listed.options.traffic_class]);
        }
        if matches!(listed.state, TcpState::Listen | TcpState::Close) {
            attribute(out, start, INET_DIAG_SKV6ONLY, &[u8::from(listed.options.v6_only)]);
        }
    }
    if let Protocol::Raw(protocol) = listed.protocol {
        attribute(out, start, INET_DIAG_PROTOCOL, &[protocol]);
    }
    attribute(out, start, INET_DIAG_SOCKOPT, &sockopt(entry));
    let memory = memory_of(Some(listed.clone()));
    if wants(INET_DIAG_MEMINFO) {
        attribute(out, start, INET_DIAG_MEMINFO, [memory[0], memory[2], memory[4], memory[5]].as_bytes());
    }
    if wants(INET_DIAG_SKMEMINFO) {
        attribute(out, start, INET_DIAG_SKMEMINFO, memory.as_bytes());
    }
    if let Some(info) = listed.info.as_ref().filter(|_| wants(INET_DIAG_INFO)) {
        attribute(out, start, INET_DIAG_INFO, tcp_info(info).as_bytes());
    }
    if let Some(congestion) = listed.congestion.filter(|_| wants(INET_DIAG_CONG)) {
        let name: &[u8] = match congestion {
            CongestionControl::Cubic => b"cubic\0",
            CongestionControl::Reno => b"reno\0",
        };
        attribute(out, start, INET_DIAG_CONG, name);
    }
}

/// RCV_SHUTDOWN and SEND_SHUTDOWN.
fn shutdown(read: bool, write: bool) -> u8 {
    u8::from(read) | u8::from(write) << 1
}

/// `struct inet_diag_sockopt`: a bit for each option.
fn sockopt(entry: &Entry) -> [u8; 2] {
    let options = &entry.listed.options;
    let flag = |on: bool, bit: u8| u8::from(on) << bit;
    let is_tcp = entry.listed.protocol == Protocol::Tcp;
    // Multicast would be heard (IP_MULTICAST_LOOP, IP_MULTICAST_ALL).
    let multicast = flag(true, 4) | flag(true, 6);
    [flag(options.recv_errors, 0) | flag(is_tcp, 1) | flag(options.header_included, 3) | multicast, 0]
}

/// `unix_diag_dump`, `unix_diag_get_exact`.
fn unix(kernel: &Kernel, reply: Reply, request: &UnixDiagReq, dump: bool) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    if dump {
        let state = |socket: &UnixListed| request.udiag_states >> unix_state(socket) & 1 != 0;
        kernel.unix.list().filter(state).for_each(|socket| {
            unix_message(reply, &mut out, &socket, request.udiag_show, NLM_F_MULTI);
        });
        return Ok(out);
    }
    if request.udiag_ino == 0 {
        return Err(Errno::EINVAL);
    }
    let wanted = u64::from(request.udiag_ino);
    let socket = kernel.unix.list().find(|socket| socket.inode == wanted).ok_or(Errno::ENOENT)?;
    unix_message(reply, &mut out, &socket, request.udiag_show, 0);
    Ok(out)
}

fn unix_state(socket: &UnixListed) -> u8 {
    match (socket.listening, socket.connected) {
        (true, _) => TcpState::Listen as u8,
        (_, true) => TcpState::Established as u8,
        _ => TcpState::Close as u8,
    }
}

fn unix_message(reply: Reply, out: &mut Vec<u8>, socket: &UnixListed, show: u32, flags: u16) {
    let fixed = UnixDiagMsg {
        udiag_family: AF_UNIX as u8,
        udiag_type: socket.kind as u8,
        udiag_state: unix_state(socket),
        pad: 0,
        udiag_ino: socket.inode as u32,
        udiag_cookie: [socket.serial as u32, (socket.serial >> 32) as u32],
    };
    let start = reply.message(out, SOCK_DIAG_BY_FAMILY, flags, fixed.as_bytes());
    let shows = |bit: u32| show & bit != 0;
    if shows(UDIAG_SHOW_NAME) && !socket.name.is_empty() {
        attribute(out, start, UNIX_DIAG_NAME, &socket.name);
    }
    if let Some(number) = socket.file_number.filter(|_| shows(UDIAG_SHOW_VFS)) {
        attribute(out, start, UNIX_DIAG_VFS, [number as u32, 0].as_bytes());
    }
    if let Some(peer) = socket.peer.filter(|_| shows(UDIAG_SHOW_PEER)) {
        attribute(out, start, UNIX_DIAG_PEER, &(peer as u32).to_ne_bytes());
    }
    if shows(UDIAG_SHOW_ICONS) && socket.listening {
        attribute(out, start, UNIX_DIAG_ICONS, socket.waiting.as_bytes());
    }
    if shows(UDIAG_SHOW_RQLEN) {
        attribute(out, start, UNIX_DIAG_RQLEN, [socket.recv_queue, socket.send_queue].as_bytes());
    }
    if shows(UDIAG_SHOW_MEMINFO) {
        let (held, waiting) = if socket.listening { (0, 0) } else { (socket.recv_queue, socket.send_queue) };
        let values = [held, socket.recv_buffer, waiting, socket.send_buffer, 0, 0, 0, 0, 0];
        attribute(out, start, UNIX_DIAG_MEMINFO, values.as_bytes());
    }
    attribute(out, start, UNIX_DIAG_SHUTDOWN, &[shutdown(socket.read_shut, socket.write_shut)]);
    if shows(UDIAG_SHOW_UID) {
        attribute(out, start, UNIX_DIAG_UID, &socket.user.to_ne_bytes());
    }
}
