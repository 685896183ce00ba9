//! ICMP and ICMPv6 (RFC 792, RFC 4443): echoes, errors about packets that nobody takes, and errors that reach the sockets whose
//! packets they quote.

use super::{Kind, Stack};
use crate::addr::{Endpoint, FourTuple, Interface};
use crate::error::SocketError;
use crate::packet::{Packet, Transport};
use crate::socket::Readiness;
use crate::tcp::connection::State;
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
        self.answer(Packet { ip, transport, payload: Bytes::from(quoted) });
    }

    /// Sends a packet that no socket has written.
    fn answer(&mut self, packet: Packet) {
        let local = self.is_local(packet.ip.dst);
        self.push_packet(if local { Interface::Loopback } else { Interface::Ethernet }, packet, None);
    }

    fn echo(&mut self, packet: &Packet, transport: Transport) {
        let mut ip = IpHeader::new(packet.ip.dst, packet.ip.src);
        ip.dont_fragment = ip.is_v6();
        self.answer(Packet { ip, transport, payload: packet.payload.clone() });
    }

    pub(super) fn deliver_icmp(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader) {
        let error = match (header.kind, header.code) {
            (icmp::ECHO_REQUEST, _) => {
                return self.echo(packet, Transport::Icmp(IcmpHeader { kind: icmp::ECHO_REPLY, ..header }));
            }
            (icmp::UNREACHABLE, icmp::CODE_PORT) => SocketError::ConnectionRefused,
            (icmp::UNREACHABLE, icmp::CODE_NET) => SocketError::NetworkUnreachable,
            (icmp::UNREACHABLE, icmp::CODE_FRAGMENTATION_NEEDED) => SocketError::MessageTooLong,
            (icmp::UNREACHABLE, icmp::CODE_PROTOCOL) => SocketError::NoSuchOption,
            (icmp::UNREACHABLE, _) => SocketError::HostUnreachable,
            _ => return,
        };
        self.report_unreachable(now, &packet.payload, error);
    }

    /// icmpv6_err_convert.
    pub(super) fn deliver_icmp6(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader) {
        let error = match (header.kind, header.code) {
            (icmp::v6::ECHO_REQUEST, _) => {
                return self.echo(packet, Transport::Icmp6(IcmpHeader { kind: icmp::v6::ECHO_REPLY, ..header }));
            }
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_PORT) => SocketError::ConnectionRefused,
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_NO_ROUTE) => SocketError::NetworkUnreachable,
            (icmp::v6::UNREACHABLE, icmp::v6::CODE_PROHIBITED) => SocketError::PermissionDenied,
            (icmp::v6::UNREACHABLE, _) => SocketError::HostUnreachable,
            (icmp::v6::PACKET_TOO_BIG, _) => SocketError::MessageTooLong,
            (icmp::v6::PARAMETER_PROBLEM, _) => SocketError::Protocol,
            _ => return,
        };
        self.report_unreachable(now, &packet.payload, error);
    }

    /// Finds the socket that sent the quoted packet and gives it the error (udp_err, tcp_v4_err).
    fn report_unreachable(&mut self, now: SimTime, quoted: &[u8], error: SocketError) {
        let Some((protocol, local, remote)) = read_quoted(quoted) else { return };
        match protocol {
            ipv4::PROTOCOL_UDP => {
                let found = self.udp_ports.bound(local.port, local.addr).find(|index| {
                    matches!(&self.slots[*index as usize].kind, Kind::Udp(socket) if socket.peer == Some(remote))
                });
                if let Some(index) = found
                    && let Kind::Udp(socket) = &mut self.slots[index as usize].kind
                {
                    socket.error = Some(error);
                    self.post(index, Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE);
                }
            }
            ipv4::PROTOCOL_TCP => {
                let Some(&index) = self.connections.get(&FourTuple { local, remote }) else { return };
                // Once synchronised the error is soft: retransmission goes on (RFC 5461).
                if let Some(conn) = self.connection_at(index)
                    && matches!(conn.state, State::SynSent | State::SynReceived)
                {
                    conn.fail(error);
                    self.sync(now, index);
                }
            }
            _ => {}
        }
    }
}

/// Protocol, source and destination of a packet that an ICMP error quotes: at least its IP header and 8 bytes. What has options or
/// extension headers was not sent by a socket.
fn read_quoted(quoted: &[u8]) -> Option<(u8, Endpoint, Endpoint)> {
    let (protocol, src, dst, rest) = match quoted.first()? {
        0x45 => {
            let (ip, rest) = quoted.split_first_chunk::<{ ipv4::HEADER_LEN }>()?;
            let address = |at: usize| IpAddr::V4(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
            (ip[9], address(12), address(16), rest)
        }
        0x60..=0x6f => {
            let (ip, rest) = quoted.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
            let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(*ip[at..].first_chunk::<16>()?)));
            (ip[6], address(8)?, address(24)?, rest)
        }
        _ => return None,
    };
    if rest.len() < 8 {
        return None;
    }
    Some((protocol, Endpoint::new(src, be16(rest, 0)), Endpoint::new(dst, be16(rest, 2))))
}
