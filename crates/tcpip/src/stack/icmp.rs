//! ICMP and ICMPv6 (RFC 792, RFC 4443): echoes, errors about packets that nobody takes, and errors that reach the sockets whose
//! packets they quote.

use super::deliver::spread;
use super::{Kind, Stack};
use crate::addr::{Endpoint, Family, FourTuple, Interface};
use crate::error::SocketError;
use crate::fragment;
use crate::packet::{Packet, Transport};
use crate::socket::Readiness;
use crate::tcp::connection::State;
use crate::udp::ErrorReport;
use crate::wire::icmp::{self, IcmpHeader};
use crate::wire::ip::IpHeader;
use crate::wire::{be16, ipv4, ipv6};
use base::SimTime;
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why nobody takes a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Port,
    Protocol,
}

impl Stack {
    /// RFC 1122 section 3.2.2.1, RFC 4443 section 2.4: never about ICMP errors or later fragments; as much of the packet as fits in
    /// 576 bytes, in 1280 for IPv6.
    pub(super) fn refuse(&mut self, packet: &Packet, why: Refusal) {
        if matches!(packet.transport, Transport::Icmp(_) | Transport::Icmp6(_)) {
            return;
        }
        let header = |kind, code, rest| IcmpHeader { kind, code, rest };
        let (transport, longest) = match (packet.ip.is_v6(), why) {
            (false, Refusal::Port) => (Transport::Icmp(header(icmp::UNREACHABLE, icmp::CODE_PORT, 0)), 576),
            (false, Refusal::Protocol) => (Transport::Icmp(header(icmp::UNREACHABLE, icmp::CODE_PROTOCOL, 0)), 576),
            (true, Refusal::Port) => {
                (Transport::Icmp6(header(icmp::v6::UNREACHABLE, icmp::v6::CODE_PORT, 0)), ipv6::MIN_MTU)
            }
            (true, Refusal::Protocol) => {
                // The pointer is to the header's field "next header".
                let header = header(icmp::v6::PARAMETER_PROBLEM, icmp::v6::CODE_NEXT_HEADER, 6);
                (Transport::Icmp6(header), ipv6::MIN_MTU)
            }
        };
        let mut quoted = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut quoted);
        let mut ip = IpHeader::new(packet.ip.dst, packet.ip.src);
        if !ip.is_v6() {
            // Linux marks ICMP errors with precedence "internetwork control".
            (ip.tos, ip.dont_fragment) = (0xc0, false);
        }
        quoted.truncate(longest - ip.header_len() - icmp::HEADER_LEN);
        self.answer(Packet::new(ip, transport, Bytes::from(quoted)));
        self.note_refusal();
    }

    /// An ICMP message is sent.
    pub(super) fn count_icmp(&mut self, family: usize, kind: u8) {
        *self.counters.icmp_out[family].entry(kind).or_default() += 1;
    }

    /// Sends an ICMP message that no socket has written, in fragments if it is larger than the MTU.
    fn answer(&mut self, packet: Packet) {
        if let Transport::Icmp(header) | Transport::Icmp6(header) = &packet.transport {
            self.count_icmp(Family::of(packet.ip.dst) as usize, header.kind);
        }
        let mtu = usize::from(self.config.mtu);
        if self.is_local(packet.ip.dst) {
            self.push_packet(Interface::Loopback, packet, None);
        } else if packet.wire_len() <= mtu {
            self.push_packet(Interface::Ethernet, packet, None);
        } else {
            self.next_fragment_id = self.next_fragment_id.wrapping_add(1);
            self.begin_fragments(&packet);
            for part in fragment::split(&packet, mtu, self.next_fragment_id) {
                self.push_packet(Interface::Ethernet, part, None);
            }
            self.end_fragments();
        }
    }

    fn echo(&mut self, packet: &Packet, transport: Transport) {
        // With the type of service of the request (icmp_reply, icmpv6_echo_reply).
        let mut ip = IpHeader { tos: packet.ip.tos, ..IpHeader::new(packet.ip.dst, packet.ip.src) };
        ip.dont_fragment = ip.is_v6();
        self.answer(Packet::new(ip, transport, packet.payload.clone()));
    }

    pub(super) fn deliver_icmp(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader) {
        *self.counters.icmp_in[Family::V4 as usize].entry(header.kind).or_default() += 1;
        // What it is about, and whether it is hard (icmp_err_convert).
        let failure = match (header.kind, header.code) {
            (icmp::ECHO_REQUEST, _) => {
                return self.echo(packet, Transport::Icmp(IcmpHeader { kind: icmp::ECHO_REPLY, ..header }));
            }
            (icmp::ECHO_REPLY, _) => return self.deliver_echo(now, packet, header),
            (icmp::UNREACHABLE, icmp::CODE_PORT) => (SocketError::ConnectionRefused, true),
            (icmp::UNREACHABLE, icmp::CODE_NET) => (SocketError::NetworkUnreachable, false),
            (icmp::UNREACHABLE, icmp::CODE_FRAGMENTATION_NEEDED) => (SocketError::MessageTooLong, true),
            (icmp::UNREACHABLE, icmp::CODE_PROTOCOL) => (SocketError::NoSuchOption, true),
            (icmp::UNREACHABLE | icmp::TIME_EXCEEDED, _) => (SocketError::HostUnreachable, false),
            _ => return,
        };
        self.report(now, packet, header, failure);
    }

    /// As `deliver_icmp` (icmpv6_err_convert).
    pub(super) fn deliver_icmp6(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader) {
        *self.counters.icmp_in[Family::V6 as usize].entry(header.kind).or_default() += 1;
        let failure = match (header.kind, header.code) {
            (icmp::v6::ECHO_REQUEST, _) => {
                return self.echo(packet, Transport::Icmp6(IcmpHeader { kind: icmp::v6::ECHO_REPLY, ..header }));
            }
            (icmp::v6::ECHO_REPLY, _) => return self.deliver_echo(now, packet, header),
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_PORT) => (SocketError::ConnectionRefused, true),
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_NO_ROUTE) => (SocketError::NetworkUnreachable, false),
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_PROHIBITED) => (SocketError::PermissionDenied, true),
            (icmp::v6::UNREACHABLE | icmp::v6::TIME_EXCEEDED, _) => (SocketError::HostUnreachable, false),
            (icmp::v6::PACKET_TOO_BIG, _) => (SocketError::MessageTooLong, true),
            (icmp::v6::PARAMETER_PROBLEM, _) => (SocketError::Protocol, true),
            _ => return,
        };
        self.report(now, packet, header, failure);
    }

    /// Finds the socket that sent the quoted packet and gives it the error (udp_err, ping_err, tcp_v4_err).
    fn report(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader, (error, hard): (SocketError, bool)) {
        let Some(quoted) = read_quoted(&packet.payload) else { return };
        let (local, remote) = (quoted.local, quoted.remote);
        let index = match quoted.protocol {
            ipv4::PROTOCOL_TCP => {
                let Some(&index) = self.connections.get(&FourTuple { local, remote }) else { return };
                // Once synchronised the error is soft: retransmission goes on (RFC 5461).
                // A smaller MTU is no end: it is a reason to send smaller segments, which nothing here does yet.
                if error != SocketError::MessageTooLong
                    && let Some(conn) = self.connection_at(index)
                    && matches!(conn.state, State::SynSent | State::SynReceived)
                {
                    conn.fail(error);
                    self.sync(now, index);
                }
                return;
            }
            ipv4::PROTOCOL_UDP => self.find_udp(local, remote),
            // An echo's identifier lies where the first half of the second word does.
            ipv4::PROTOCOL_ICMP | ipv6::PROTOCOL_ICMP => {
                self.echo_ports.bound(be16(&packet.payload, quoted.body + 4), local.addr).next()
            }
            _ => None,
        };
        let Some(index) = index else { return };
        let Kind::Udp(socket) = &mut self.slots[index as usize].kind else { return };
        let skip = if quoted.protocol == ipv4::PROTOCOL_UDP { 8 } else { 0 };
        let is_echo = skip == 0;
        let report = ErrorReport {
            error,
            icmp: Some((header.kind, header.code)),
            info: if error == SocketError::MessageTooLong { header.rest } else { 0 },
            offender: Some(packet.ip.src),
            to: if is_echo { Endpoint::new(remote.addr, 0) } else { remote }.to_socket_addr(socket.settings.family),
            payload: packet.payload.slice(quoted.body + skip..),
        };
        if socket.fail(report, hard, Family::of(remote.addr)) {
            self.post(index, Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE);
        }
    }

    /// The UDP socket that packets from `remote` to `local` are for: of those that fit equally well the last, or of a group that shares
    /// the port by SO_REUSEPORT the one that the addresses choose (udp4_lib_lookup2).
    pub(super) fn find_udp(&self, local: Endpoint, remote: Endpoint) -> Option<u32> {
        let socket_at = |index: u32| match &self.slots[index as usize].kind {
            Kind::Udp(socket) => Some(socket),
            _ => None,
        };
        let score = |index: u32| {
            let socket = socket_at(index)?;
            socket.score(local, remote).filter(|_| self.hears_from(&socket.settings, remote.addr))
        };
        let bound = || self.udp_ports.bound(local.port, local.addr);
        let mut candidates = bound();
        let first = candidates.next()?;
        if candidates.next().is_none() {
            return score(first).map(|_| first);
        }
        // The last of those that fit best.
        let (most, last) = bound().filter_map(|index| Some((score(index)?, index))).max_by_key(|(score, _)| *score)?;
        let shares = |index: u32| socket_at(index).is_some_and(|socket| socket.settings.reuse_port);
        if !shares(last) || socket_at(last)?.peer.is_some() {
            return Some(last);
        }
        let group = || bound().filter(|index| score(*index) == Some(most) && shares(*index));
        group().nth(spread(&FourTuple { local, remote }) % group().count())
    }
}

/// What an ICMP error says of the packet that it is about.
struct Quoted {
    protocol: u8,
    local: Endpoint,
    remote: Endpoint,
    /// Where what follows the IP header begins; there are at least 8 bytes.
    body: usize,
}

/// What has options or extension headers was not sent by a socket that hears of errors.
fn read_quoted(quoted: &[u8]) -> Option<Quoted> {
    let (protocol, src, dst, body) = match quoted.first()? {
        0x45 => {
            let ip = quoted.first_chunk::<{ ipv4::HEADER_LEN }>()?;
            let address = |at: usize| IpAddr::V4(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
            (ip[9], address(12), address(16), ipv4::HEADER_LEN)
        }
        0x60..=0x6f => {
            let ip = quoted.first_chunk::<{ ipv6::HEADER_LEN }>()?;
            let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(*ip[at..].first_chunk::<16>()?)));
            (ip[6], address(8)?, address(24)?, ipv6::HEADER_LEN)
        }
        _ => return None,
    };
    if quoted.len() < body + 8 {
        return None;
    }
    let local = Endpoint::new(src, be16(quoted, body));
    let remote = Endpoint::new(dst, be16(quoted, body + 2));
    Some(Quoted { protocol, local, remote, body })
}
