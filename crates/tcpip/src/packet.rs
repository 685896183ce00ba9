//! A packet as it moves between hosts in memory: parsed headers and a shared payload. Bytes with checksums are made only for
//! captures ([`Packet::emit`]).

use crate::wire::checksum::Checksum;
use crate::wire::icmp::{self, IcmpHeader};
use crate::wire::ip::IpHeader;
use crate::wire::tcp::{TcpFlags, TcpHeader};
use crate::wire::udp::{self, UdpHeader};
use crate::wire::{WireError, be16};
use crate::wire::{ipv4, ipv6};
use bytes::Bytes;
use std::net::IpAddr;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    Tcp(TcpHeader),
    Udp(UdpHeader),
    Icmp(IcmpHeader),
    Icmp6(IcmpHeader),
    /// A fragment or a protocol that this stack does not speak: the payload is all that follows the IP header.
    Raw {
        protocol: u8,
    },
}

impl Transport {
    pub fn protocol(&self) -> u8 {
        match self {
            Transport::Tcp(_) => ipv4::PROTOCOL_TCP,
            Transport::Udp(_) => ipv4::PROTOCOL_UDP,
            Transport::Icmp(_) => ipv4::PROTOCOL_ICMP,
            Transport::Icmp6(_) => ipv6::PROTOCOL_ICMP,
            Transport::Raw { protocol } => *protocol,
        }
    }

    #[inline]
    fn header_len(&self) -> usize {
        match self {
            Transport::Tcp(tcp) => tcp.len(),
            Transport::Udp(_) => udp::HEADER_LEN,
            Transport::Icmp(_) | Transport::Icmp6(_) => icmp::HEADER_LEN,
            Transport::Raw { .. } => 0,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub ip: IpHeader,
    pub transport: Transport,
    pub payload: Bytes,
    /// A train: TCP segments of so many bytes of payload each (the last may have fewer) that left their host at once, under one
    /// header. 0 is a packet as the wire has it. IP's identification counts up with the segments; PSH and FIN are the last one's.
    pub train_mss: u16,
    /// Its number in the record of the run (`probes`), which its sender's stack gives it; those of a train count up. 0 before.
    pub number: u64,
}

const _: () = assert!(std::mem::size_of::<Packet>() <= 128);

impl Packet {
    pub fn src(&self) -> IpAddr {
        self.ip.src
    }

    pub fn dst(&self) -> IpAddr {
        self.ip.dst
    }

    /// What follows the transport header.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The TCP header, if it is a TCP segment.
    pub fn tcp(&self) -> Option<&TcpHeader> {
        match &self.transport {
            Transport::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// A packet as the wire has it.
    pub fn new(ip: IpHeader, transport: Transport, payload: Bytes) -> Self {
        Packet { ip, transport, payload, train_mss: 0, number: 0 }
    }

    /// The total length of the IP packet, in bytes; of a train, of all its packets.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.segments() * (self.ip.header_len() + self.transport.header_len()) + self.payload.len()
    }

    /// How many packets of the wire this is.
    #[inline]
    pub fn segments(&self) -> usize {
        if self.train_mss == 0 { 1 } else { self.payload.len().div_ceil(self.train_mss.into()).max(1) }
    }

    /// Cuts the first packet off a train; None for what is one packet, which stays as it is.
    pub fn split_first(&mut self) -> Option<Packet> {
        self.split(1)
    }

    /// Cuts a shorter train of so many packets, at least one, off a longer one; None for what is no longer, which stays as it is.
    pub fn split(&mut self, segments: usize) -> Option<Packet> {
        let (mss, cut) = (usize::from(self.train_mss), usize::from(self.train_mss) * segments);
        if mss == 0 || self.payload.len() <= mss {
            self.train_mss = 0;
        }
        let Transport::Tcp(header) = &mut self.transport else { return None };
        if mss == 0 || self.payload.len() <= cut {
            return None;
        }
        let mut first = header.clone();
        first.flags.remove(TcpFlags::PSH | TcpFlags::FIN);
        header.seq = header.seq.wrapping_add(cut as u32);
        let train_mss = if segments > 1 { self.train_mss } else { 0 };
        let packet = Packet {
            ip: self.ip,
            transport: Transport::Tcp(first),
            payload: self.payload.split_to(cut),
            train_mss,
            number: self.number,
        };
        self.number += segments as u64;
        self.ip.id = (self.ip.id as u16).wrapping_add(segments as u16).into();
        if self.payload.len() <= mss {
            self.train_mss = 0;
        }
        Some(packet)
    }

    /// Appends the IP and transport headers, the transport's checksum being zero: all that tells two packets apart but the
    /// payload, for digests. At most 100 bytes.
    pub fn emit_headers(&self, out: &mut Vec<u8>) {
        self.ip.emit(self.transport.protocol(), self.wire_len(), out);
        match &self.transport {
            Transport::Tcp(tcp) => tcp.emit(out),
            Transport::Udp(udp) => udp.emit(self.payload.len(), out),
            Transport::Icmp(icmp) | Transport::Icmp6(icmp) => icmp.emit(out),
            Transport::Raw { .. } => {}
        }
    }

    /// Appends the packet's exact bytes with valid checksums.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.emit_headers(out);
        out.extend_from_slice(&self.payload);
        let body = start + self.ip.header_len();
        let length = out.len() - body;
        let pseudo = Checksum::pseudo_header(self.ip.src, self.ip.dst, self.transport.protocol(), length);
        let (at, sum) = match &self.transport {
            Transport::Tcp(_) => (16, pseudo.with(&out[body..]).finish()),
            Transport::Udp(_) => match pseudo.with(&out[body..]).finish() {
                // RFC 768: zero means "no checksum", so a computed zero is sent as all ones.
                0 => (6, 0xffff),
                sum => (6, sum),
            },
            Transport::Icmp(_) => (2, Checksum::default().with(&out[body..]).finish()),
            Transport::Icmp6(_) => (2, pseudo.with(&out[body..]).finish()),
            Transport::Raw { .. } => return,
        };
        out[body + at..body + at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// The packet that these bytes are; every checksum is verified. Bytes behind the IP packet's end are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Packet, WireError> {
        let (ip, protocol, body) = IpHeader::parse(bytes)?;
        if ip.is_fragment() {
            return Ok(Packet::new(ip, Transport::Raw { protocol }, Bytes::copy_from_slice(body)));
        }
        Packet::parse_transport(ip, protocol, body)
    }

    /// The packet whose IP payload is `body`, whatever the header says about fragments.
    pub(crate) fn parse_transport(ip: IpHeader, protocol: u8, body: &[u8]) -> Result<Packet, WireError> {
        let (protocol, body) = if ip.is_v6() { ipv6::skip_options(protocol, body)? } else { (protocol, body) };
        let pseudo = Checksum::pseudo_header(ip.src, ip.dst, protocol, body.len());
        let (transport, payload) = match protocol {
            ipv4::PROTOCOL_TCP => {
                if pseudo.with(body).finish() != 0 {
                    return Err(WireError::Checksum("TCP"));
                }
                let (tcp, payload) = TcpHeader::parse(body)?;
                (Transport::Tcp(tcp), payload)
            }
            ipv4::PROTOCOL_UDP => {
                let (header, payload) = UdpHeader::parse(body)?;
                // RFC 8200 section 8.1: over IPv6 there is no datagram without a checksum.
                if (ip.is_v6() || be16(body, 6) != 0) && pseudo.with(body).finish() != 0 {
                    return Err(WireError::Checksum("UDP"));
                }
                (Transport::Udp(header), payload)
            }
            ipv6::PROTOCOL_ICMP if ip.is_v6() => {
                if pseudo.with(body).finish() != 0 {
                    return Err(WireError::Checksum("ICMPv6"));
                }
                let (header, payload) = IcmpHeader::parse(body)?;
                (Transport::Icmp6(header), payload)
            }
            ipv4::PROTOCOL_ICMP if !ip.is_v6() => {
                if Checksum::default().with(body).finish() != 0 {
                    return Err(WireError::Checksum("ICMP"));
                }
                let (header, payload) = IcmpHeader::parse(body)?;
                (Transport::Icmp(header), payload)
            }
            _ => (Transport::Raw { protocol }, body),
        };
        Ok(Packet::new(ip, transport, Bytes::copy_from_slice(payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tcp::{SackBlocks, TcpFlags, TcpOptions, Timestamps, WindowScale};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::num::NonZeroU16;

    fn header() -> IpHeader {
        let mut ip = IpHeader::new(Ipv4Addr::new(11, 0, 0, 1), Ipv4Addr::new(11, 0, 0, 2));
        ip.id = 0xbeef;
        ip
    }

    fn header6() -> IpHeader {
        let address = |last| Ipv6Addr::new(0xfd00, 0x6e, 0, 0, 0, 0, 0xb00, last);
        IpHeader { tos: 0x28, ..IpHeader::new(address(1), address(2)) }
    }

    fn round_trip(packet: &Packet) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        assert_eq!(bytes.len(), packet.wire_len());
        assert_eq!(Packet::parse(&bytes).as_ref(), Ok(packet));
    }

    fn tcp(options: TcpOptions, flags: TcpFlags, payload: &'static [u8]) -> Packet {
        tcp_over(header(), options, flags, payload)
    }

    fn tcp_over(ip: IpHeader, options: TcpOptions, flags: TcpFlags, payload: &'static [u8]) -> Packet {
        let header_fields =
            TcpHeader { src_port: 40000, dst_port: 80, seq: 0xffff_fff0, ack: 7, flags, window: 512, options };
        Packet::new(ip, Transport::Tcp(header_fields), Bytes::from_static(payload))
    }

    #[test]
    fn packets_survive_emit_and_parse() {
        over(header(), Transport::Icmp);
        over(header6(), Transport::Icmp6);
    }

    fn over(header: IpHeader, icmp_of: fn(IcmpHeader) -> Transport) {
        let syn = TcpOptions {
            mss: NonZeroU16::new(1460),
            window_scale: Some(WindowScale::new(7)),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..Default::default()
        };
        round_trip(&tcp_over(header, syn.clone(), TcpFlags::SYN, b""));
        round_trip(&tcp_over(header, TcpOptions { timestamps: None, ..syn }, TcpFlags::SYN, b""));
        let mut sack = SackBlocks::default();
        for i in 0..3 {
            assert!(sack.push(i * 100, i * 100 + 50));
        }
        let stamps = Some(Timestamps { value: 1, echo: 9 });
        let ack = TcpOptions { timestamps: stamps, sack, ..Default::default() };
        round_trip(&tcp_over(header, ack, TcpFlags::ACK | TcpFlags::PSH, b"odd"));
        let udp = UdpHeader { src_port: 53, dst_port: 9 };
        round_trip(&Packet::new(header, Transport::Udp(udp), Bytes::from_static(b"hello")));
        let icmp = IcmpHeader { kind: icmp::UNREACHABLE, code: icmp::CODE_PORT, rest: 0 };
        round_trip(&Packet::new(header, icmp_of(icmp), Bytes::from_static(b"xyz")));
        let mut ip = header;
        (ip.dont_fragment, ip.fragment_offset, ip.more_fragments, ip.id) = (ip.is_v6(), 185, true, 9);
        let raw = Transport::Raw { protocol: 17 };
        round_trip(&Packet::new(ip, raw, Bytes::from_static(b"fragment")));
    }

    #[test]
    fn a_flipped_bit_is_noticed_in_every_byte() {
        let packet = tcp(TcpOptions::default(), TcpFlags::ACK, b"payload");
        every_byte_counts(&packet, |_| true);
        // What no checksum covers in IPv6: traffic class, next header and hop limit.
        let packet = tcp_over(header6(), TcpOptions::default(), TcpFlags::ACK, b"payload");
        every_byte_counts(&packet, |at| !matches!(at, 0..=3 | 6 | 7));
    }

    fn every_byte_counts(packet: &Packet, covered: impl Fn(usize) -> bool) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        for at in (0..bytes.len()).filter(|at| covered(*at)) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Packet::parse(&bad).is_err(), "byte {at}");
        }
        for length in 0..bytes.len() {
            assert!(Packet::parse(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn bytes_are_those_of_a_known_segment() {
        // Computed by hand from RFC 791 and RFC 9293.
        let mut bytes = Vec::new();
        tcp(TcpOptions::default(), TcpFlags::ACK, b"").emit(&mut bytes);
        assert_eq!(&bytes[..12], &[0x45, 0, 0, 40, 0xbe, 0xef, 0x40, 0, 64, 6, 0x65, 0xde]);
        assert_eq!(&bytes[20..34], &[0x9c, 0x40, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 7, 0x50, 0x10]);
    }
}
