//! Echo sockets (icmp(7): SOCK_DGRAM with IPPROTO_ICMP or IPPROTO_ICMPV6) and raw sockets (raw(7)): how their packets are made, and
//! which packets they hear. All else they share with UDP.

use super::{Kind, Stack};
use crate::addr::{Endpoint, Family, Interface};
use crate::error::SocketError;
use crate::filter::FilteredPacket;
use crate::packet::{Packet, Transport};
use crate::socket::{Readiness, Settings, SocketId};
use crate::udp::{Carries, Datagram, UdpSocket};
use crate::wire::checksum::Checksum;
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
    (header_included, checksum_at): (bool, Option<u16>),
    bytes: Bytes,
) -> Result<Packet, SocketError> {
    let mut body = bytes;
    if header_included {
        (ip, protocol, body) = if ip.is_v6() { included_v6(&body)? } else { included(ip, &body)? };
    } else if let Some(at) = checksum_at.filter(|_| protocol != ipv6::PROTOCOL_ICMP) {
        body = with_checksum(&ip, protocol, &body, at.into())?;
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

/// As `included`: the kernel changes nothing (rawv6_send_hdrinc).
fn included_v6(bytes: &Bytes) -> Result<(IpHeader, u8, Bytes), SocketError> {
    let header = bytes.first_chunk::<{ ipv6::HEADER_LEN }>().ok_or(SocketError::InvalidArgument)?;
    let address = |at: usize| {
        let octets: [u8; 16] = std::array::from_fn(|index| header[at + index]);
        IpAddr::V6(octets.into())
    };
    let (tos, ttl) = (header[0] << 4 | header[1] >> 4, header[7]);
    let ip = IpHeader { tos, ttl, ..IpHeader::new(address(8), address(24)) };
    Ok((ip, header[6], bytes.slice(ipv6::HEADER_LEN..)))
}

/// What a raw socket with IPV6_CHECKSUM sends: the kernel fills in the checksum
/// (rawv6_push_pending_frames).
fn with_checksum(ip: &IpHeader, protocol: u8, body: &Bytes, at: usize) -> Result<Bytes, SocketError> {
    let mut bytes = body.to_vec();
    let pseudo = Checksum::pseudo_header(ip.src, ip.dst, protocol, bytes.len());
    bytes.get_mut(at..at + 2).ok_or(SocketError::InvalidArgument)?.fill(0);
    let sum = match pseudo.with(&bytes).finish() {
        0 if protocol == ipv4::PROTOCOL_UDP => u16::MAX,
        sum => sum,
    };
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(bytes.into())
}

/// Whether the checksum of a packet is right, as far as its protocol has one: what was understood
/// had a right one.
fn has_sound_checksum(packet: &Packet) -> bool {
    let Transport::Raw { protocol } = packet.transport else { return true };
    let sum = Checksum::pseudo_header(packet.ip.src, packet.ip.dst, protocol, packet.payload.len());
    sum.with(&packet.payload).finish() == 0
}

/// Whether a destination's port is what a socket of IPv6 takes there: of raw sockets the protocol,
/// or nothing.
pub(super) fn names_protocol(carries: Carries, port: u16) -> bool {
    match carries {
        Carries::Raw(RAW) => port <= u8::MAX.into(),
        Carries::Raw(protocol) => port == 0 || port == protocol.into(),
        _ => true,
    }
}

/// IPPROTO_RAW, whose sockets hear nothing and write their headers themselves.
const RAW: u8 = 255;

impl Stack {
    /// socket(2) with SOCK_DGRAM and IPPROTO_ICMP or IPPROTO_ICMPV6.
    pub fn echo_socket(&mut self, family: Family) -> SocketId {
        // `ping_init_sock`: one family alone.
        let settings = Settings { v6_only: family == Family::V6, ..self.sharing_settings(family) };
        self.insert(Kind::Udp(Box::new(UdpSocket::new(Carries::Echo, settings))))
    }

    /// socket(2) with SOCK_RAW. IPPROTO_RAW (255) hears nothing and writes its headers itself.
    pub fn raw_socket(&mut self, family: Family, protocol: u8) -> SocketId {
        let settings = self.sharing_settings(family);
        let mut socket = UdpSocket::new(Carries::Raw(protocol), settings);
        socket.header_included = protocol == RAW;
        let id = self.insert(Kind::Udp(Box::new(socket)));
        self.raw.push(id.index);
        id
    }

    /// These sockets have SO_REUSEADDR from the beginning (INET_PROTOSW_REUSE).
    fn sharing_settings(&self, family: Family) -> Settings {
        Settings { reuse_address: true, ..self.udp_settings(family) }
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

    /// What `block_types` was told last.
    pub fn blocked_types(&mut self, id: SocketId) -> Result<[u32; 8], SocketError> {
        Ok(self.udp(id)?.blocked_types)
    }

    /// IP_HDRINCL of a raw socket.
    pub fn header_included(&mut self, id: SocketId) -> Result<bool, SocketError> {
        Ok(self.udp(id)?.header_included)
    }

    /// IPV6_CHECKSUM of a raw socket.
    pub fn set_checksum_at(&mut self, id: SocketId, at: Option<u16>) -> Result<(), SocketError> {
        self.udp(id)?.checksum_at = at;
        Ok(())
    }

    pub fn checksum_at(&mut self, id: SocketId) -> Result<Option<u16>, SocketError> {
        Ok(self.udp(id)?.checksum_at)
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
            let Some(left) = self.raw_left(index, packet, by) else { continue };
            let (bytes, ttl, tos) = (bytes.slice(..left.min(bytes.len())), packet.ip.ttl, packet.ip.tos);
            let number = packet.number;
            let datagram = Datagram { from, to, bytes, at, ttl, tos, by, number, pieces: Vec::new(), drops: 0 };
            self.hand_over(index, datagram);
        }
        true
    }

    /// How many bytes of a packet the filter of a raw socket leaves; `None` if it drops it.
    fn raw_left(&mut self, index: u32, packet: &Packet, interface: Interface) -> Option<usize> {
        let Kind::Udp(socket) = &self.slots[index as usize].kind else { return Some(usize::MAX) };
        let Some(filter) = socket.filter.clone() else { return Some(usize::MAX) };
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        let data = if packet.ip.is_v6() { packet.ip.header_len() } else { 0 };
        match filter.judge(&FilteredPacket { bytes: &bytes, data, interface }) {
            0 => {
                self.note_filtered(index, Family::of(packet.ip.dst));
                None
            }
            left => Some(left),
        }
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
            && socket.checksum_at.is_none_or(|_| has_sound_checksum(packet))
            && !blocked
            && socket.hears(to.addr, from.addr, by)
    }

    /// An echo reply: for the socket whose identifier it has (ping_rcv).
    pub(super) fn deliver_echo(&mut self, at: SimTime, packet: &Packet, header: IcmpHeader) {
        let by = self.arrival(packet.ip.src);
        let ident = (header.rest >> 16) as u16;
        let (from, to) = (Endpoint::new(packet.ip.src, 0), Endpoint::new(packet.ip.dst, ident));
        let found = self.echo_ports.bound(ident, to.addr).find(|index| {
            matches!(&self.slots[*index as usize].kind, Kind::Udp(socket)
                if socket.settings.family == Family::of(to.addr)
                    && socket.peer.is_none_or(|peer| peer.addr == from.addr)
                    && self.hears_from(&socket.settings, from.addr))
        });
        let Some(index) = found else { return };
        let left = if self.is_filtered(index) { self.filtered(index, packet.clone(), by) } else { None };
        if left.is_none() && self.is_filtered(index) {
            return;
        }
        let packet = left.as_ref().unwrap_or(packet);
        let mut bytes = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut bytes);
        let bytes = Bytes::from(bytes).slice(packet.ip.header_len()..);
        let (ttl, tos, number) = (packet.ip.ttl, packet.ip.tos, packet.number);
        self.hand_over(index, Datagram { from, to, bytes, at, ttl, tos, by, number, pieces: Vec::new(), drops: 0 });
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
