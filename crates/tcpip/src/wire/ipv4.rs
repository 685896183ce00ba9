//! The IPv4 header (RFC 791), without options.

use super::checksum::Checksum;
use super::{WireError, be16, be32};
use std::net::Ipv4Addr;

pub const HEADER_LEN: usize = 20;

pub const PROTOCOL_ICMP: u8 = 1;
pub const PROTOCOL_TCP: u8 = 6;
pub const PROTOCOL_UDP: u8 = 17;

/// The fields that differ from packet to packet. Length, protocol and checksum follow from the rest of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Header {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub id: u16,
    pub ttl: u8,
    /// DSCP (upper six bits) and ECN (lower two).
    pub tos: u8,
    pub dont_fragment: bool,
    pub more_fragments: bool,
    /// In units of 8 bytes.
    pub fragment_offset: u16,
}

impl Ipv4Header {
    /// A header as Linux sends it by default: TTL 64, DF set, id 0.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        Ipv4Header { src, dst, id: 0, ttl: 64, tos: 0, dont_fragment: true, more_fragments: false, fragment_offset: 0 }
    }

    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Appends 20 bytes, with the checksum.
    pub fn emit(&self, protocol: u8, total_len: u16, out: &mut Vec<u8>) {
        let start = out.len();
        let flags = (u16::from(self.dont_fragment) << 14) | (u16::from(self.more_fragments) << 13);
        out.extend_from_slice(&[0x45, self.tos]);
        out.extend_from_slice(&total_len.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&(flags | self.fragment_offset).to_be_bytes());
        out.extend_from_slice(&[self.ttl, protocol, 0, 0]);
        out.extend_from_slice(&self.src.octets());
        out.extend_from_slice(&self.dst.octets());
        let sum = Checksum::default().with(&out[start..]).finish();
        out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    /// The header, its protocol number, and the payload that its length fields delimit.
    pub fn parse(bytes: &[u8]) -> Result<(Ipv4Header, u8, &[u8]), WireError> {
        if bytes.len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let header_len = usize::from(bytes[0] & 15) * 4;
        let total = usize::from(be16(bytes, 2));
        if bytes[0] >> 4 != 4 || header_len < HEADER_LEN || total < header_len {
            return Err(WireError::Malformed);
        }
        if bytes.len() < total {
            return Err(WireError::Truncated);
        }
        if Checksum::default().with(&bytes[..header_len]).finish() != 0 {
            return Err(WireError::Checksum("IPv4"));
        }
        let flags = be16(bytes, 6);
        let header = Ipv4Header {
            src: Ipv4Addr::from(be32(bytes, 12)),
            dst: Ipv4Addr::from(be32(bytes, 16)),
            id: be16(bytes, 4),
            ttl: bytes[8],
            tos: bytes[1],
            dont_fragment: flags & 0x4000 != 0,
            more_fragments: flags & 0x2000 != 0,
            fragment_offset: flags & 0x1fff,
        };
        Ok((header, bytes[9], &bytes[header_len..total]))
    }
}
