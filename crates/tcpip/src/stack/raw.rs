//! Echo sockets (icmp(7): SOCK_DGRAM with IPPROTO_ICMP or IPPROTO_ICMPV6) and raw sockets (raw(7)): how their packets are made, and
//! which packets they hear. All else they share with UDP.

use super::{Kind, Stack};
use crate::addr::{Endpoint, Family, Interface};
use crate::error::SocketError;
use crate::packet::{Packet, Transport};
use crate::socket::{Readiness, SocketId};
use crate::udp::{Carries, Datagram, UdpSocket};
use crate::wire::icmp::{self, IcmpHeader};
use crate::wire::ip::IpHeader;
use crate::wire::{be16, ipv4, ipv6};
use base::SimTime;
use bytes::Bytes;
use probes::choices::ReceivedFate;
use std::net::{IpAddr, Ipv4Addr};

/// The message that an echo socket sends for what its program wrote: an echo request, with the socket's own identifier.
pub(super) fn echo_request(ip: IpHeader, ident: u16, bytes: Bytes) -> Result<Packet, SocketError> {
    let (mut header, _) = IcmpHeader::parse(&bytes).map_err(|_| SocketError::InvalidArgument)?;
    let request = if ip.is_v6() { icmp::v6::ECHO_REQUEST } else { icmp::ECHO_REQUEST };
    if (header.kind, header.code) != (request, 0) {
        return Err(SocketError::InvalidArgument);
    }
    header.rest = (u32::from(ident) << 16) | (header.rest & 0xffff);
    let transport = if ip.is_v6() { Transport::Icmp6(header) } else { Transport::Icmp(header) };
    Ok(Packet::new(ip, transport, bytes.slice(icmp::HEADER_LEN..)))
}

/// The packet that a raw socket sends. What is no whole message of its protocol travels as it is; the checksum of ICMPv6 is the
/// kernel's to make (RFC 3542 section 3.1).
pub(super) fn packet(
    mut ip: IpHeader,
    mut protocol: u8,
    header_included: bool,
    bytes: Bytes,
) -> Result<Packet, SocketError> {
    let mut body = bytes;
    if header_included && !ip.is_v6() {
        (ip, protocol, body) = included(ip, &body)?;
    }
    if ip.is_v6() && protocol == ipv6::PROTOCOL_ICMP {
        let (header, _) = IcmpHeader::parse(&body).map_err(|_| SocketError::InvalidArgument)?;
        return Ok(Packet::new(ip, Transport::Icmp6(header), body.slice(icmp::HEADER_LEN..)));
    }
    let whole = Packet::parse_transport(ip, protocol, &body);
    Ok(whole.unwrap_or(Packet::new(ip, Transport::Raw { protocol }, body)))
}

/// A header that the program wrote: the kernel fills in a source and an identification that are zero, length and checksum.
fn included(route: IpHeader, bytes: &Bytes) -> Result<(IpHeader, u8, Bytes), SocketError> {
    let length = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    if length < ipv4::HEADER_LEN || bytes.len() < length {
        return Err(SocketError::InvalidArgument);
    }
    let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    let flags = be16(bytes, 6);
    let src = Some(IpAddr::V4(address(12))).filter(|src| !src.is_unspecified()).unwrap_or(route.src);
    let ip = IpHeader {
        id: be16(bytes, 4).into(),
        ttl: bytes[8],
        tos: bytes[1],
        dont_fragment: flags & 0x4000 != 0,
        more_fragments: flags & 0x2000 != 0,
        fragment_offset: flags & 0x1fff,
        ..IpHeader::new(src, IpAddr::V4(address(16)))
    };
    Ok((ip, bytes[9], bytes.slice(length..)))
}

impl Stack {
    /// socket(2) with SOCK_DGRAM and IPPROTO_ICMP or IPPROTO_ICMPV6.
    pub fn echo_socket(&mut self, family: Family) -> SocketId {
        let settings = self.udp_settings(family);
        self.insert(Kind::Udp(Box::new(UdpSocket::new(Carries::Echo, settings))))
    }

    /// socket(2) with SOCK_RAW. IPPROTO_RAW (255) hears nothing and writes its headers itself.
    pub fn raw_socket(&mut self, family: Family, protocol: u8) -> SocketId {
        const RAW: u8 = 255;
        let settings = self.udp_settings(family);
        let mut socket = UdpSocket::new(Carries::Raw(protocol), settings);
        socket.header_included = protocol == RAW;
        let id = self.insert(Kind::Udp(Box::new(socket)));
        self.raw.push(id.index);
        id
    }

    /// IP_HDRINCL of a raw socket.
    pub fn set_header_included(&mut self, id: SocketId, on: bool) -> Result<(), SocketError> {
        self.udp(id)?.header_included = on;
        Ok(())
    }

    /// ICMP_FILTER and ICMP6_FILTER: a bit for each type that the socket does not hear.
    pub fn block_types(&mut self, id: SocketId, types: [u32; 8]) -> Result<(), SocketError> {
        self.udp(id)?.blocked_types = types;
        Ok(())
    }

    /// Gives raw sockets their copies of a packet: with its IP header over IPv4, without over IPv6. Whether any took it.
    pub(super) fn deliver_raw(&mut self, at: SimTime, packet: &Packet, by: Interface) -> bool {
        let (from, to) = (Endpoint::new(packet.ip.src, 0), Endpoint::new(packet.ip.dst, 0));
        let wanting: Vec<u32> =
            self.raw.iter().copied().filter(|index| self.hears(*index, packet, from, to, by)).collect();
        if wanting.is_empty() {
            return false;
        }
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        let skip = if packet.ip.is_v6() { packet.ip.header_len() } else { 0 };
        let bytes = Bytes::from(bytes).slice(skip..);
        for index in wanting {
            let (bytes, ttl, tos) = (bytes.clone(), packet.ip.ttl, packet.ip.tos);
            let datagram = Datagram { from, to, bytes, at, ttl, tos, by, number: packet.number, pieces: Vec::new() };
            self.hand_over(index, datagram);
        }
        true
    }

    fn hears(&self, index: u32, packet: &Packet, from: Endpoint, to: Endpoint, by: Interface) -> bool {
        let Kind::Udp(socket) = &self.slots[index as usize].kind else { return false };
        let peer = socket.peer.is_none_or(|peer| peer.addr == from.addr);
        let local = socket.local.addr.is_unspecified() || socket.local.addr == to.addr;
        let kind = match &packet.transport {
            Transport::Icmp(header) | Transport::Icmp6(header) => header.kind,
            _ => 0,
        };
        let blocked = socket.blocked_types[usize::from(kind) / 32] >> (kind % 32) & 1 != 0;
        socket.carries == Carries::Raw(packet.transport.protocol())
            && socket.settings.family == Family::of(to.addr)
            && peer
            && local
            && !blocked
            && socket.hears(to.addr, from.addr, by)
    }

    /// An echo reply: for the socket whose identifier it has (ping_rcv).
    pub(super) fn deliver_echo(&mut self, at: SimTime, packet: &Packet, header: IcmpHeader) {
        let by = self.came_by(packet.ip.src);
        let ident = (header.rest >> 16) as u16;
        let (from, to) = (Endpoint::new(packet.ip.src, 0), Endpoint::new(packet.ip.dst, ident));
        let found = self.echo_ports.bound(ident, to.addr).find(|index| {
            matches!(&self.slots[*index as usize].kind, Kind::Udp(socket)
                if socket.settings.family == Family::of(to.addr)
                    && socket.peer.is_none_or(|peer| peer.addr == from.addr))
        });
        let Some(index) = found else { return };
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        let bytes = Bytes::from(bytes).slice(packet.ip.header_len()..);
        let (ttl, tos, number) = (packet.ip.ttl, packet.ip.tos, packet.number);
        self.hand_over(index, Datagram { from, to, bytes, at, ttl, tos, by, number, pieces: Vec::new() });
    }

    /// The interface that packets to one of the host's own addresses come by from this address.
    fn came_by(&self, src: IpAddr) -> Interface {
        if self.is_local(src) { Interface::Loopback } else { Interface::Ethernet }
    }

    /// Puts a datagram into a socket's queue, or drops it there.
    pub(super) fn hand_over(&mut self, index: u32, mut datagram: Datagram) {
        if let Kind::Udp(socket) = &mut self.slots[index as usize].kind {
            if let Some(trace) = &mut self.trace {
                let (now, queued) = (datagram.at, socket.waiting_payload() as u64);
                if !socket.has_space_for(&datagram) {
                    trace.came(now, ReceivedFate::NoRoom);
                }
                datagram.pieces = trace.take_datagram(now, datagram.bytes.len() as u64, queued);
            }
            let family = Family::of(datagram.to.addr) as usize;
            if socket.deliver(datagram) {
                self.post(index, Readiness::READABLE);
            } else {
                self.counters.udp[family].dropped += u64::from(socket.carries == Carries::Udp);
                self.counters.datagram_drops += 1;
            }
        }
    }
}
