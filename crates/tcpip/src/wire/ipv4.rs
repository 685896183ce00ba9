//! The IPv4 header (RFC 791), without options.

use super::checksum::Checksum;
use super::ip::IpHeader;
use super::{WireError, be16, be32};
use std::net::Ipv4Addr;

pub const HEADER_LEN: usize = 20;

pub const PROTOCOL_ICMP: u8 = 1;
pub const PROTOCOL_TCP: u8 = 6;
pub const PROTOCOL_UDP: u8 = 17;

/// Appends 20 bytes, with the checksum.
pub(super) fn emit(ip: &IpHeader, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, total_len: u16, out: &mut Vec<u8>) {
    // In one piece of known length: the digest of a run takes each packet's.
    let mut header = [0; HEADER_LEN];
    let flags = (u16::from(ip.dont_fragment) << 14) | (u16::from(ip.more_fragments) << 13);
    (header[0], header[1]) = (0x45, ip.tos);
    header[2..4].copy_from_slice(&total_len.to_be_bytes());
    header[4..6].copy_from_slice(&(ip.id as u16).to_be_bytes());
    header[6..8].copy_from_slice(&(flags | ip.fragment_offset).to_be_bytes());
    (header[8], header[9]) = (ip.ttl, protocol);
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let sum = Checksum::default().with(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend_from_slice(&header);
}

pub(super) fn parse(bytes: &[u8]) -> Result<(IpHeader, u8, &[u8]), WireError> {
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
    let header = IpHeader {
        id: be16(bytes, 4).into(),
        ttl: bytes[8],
        tos: bytes[1],
        dont_fragment: flags & 0x4000 != 0,
        more_fragments: flags & 0x2000 != 0,
        fragment_offset: flags & 0x1fff,
        ..IpHeader::new(Ipv4Addr::from(be32(bytes, 12)), Ipv4Addr::from(be32(bytes, 16)))
    };
    Ok((header, bytes[9], &bytes[header_len..total]))
}
