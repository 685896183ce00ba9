//! The IPv6 header and its extension headers (RFC 8200). Flow labels are 0. Options (hop-by-hop, destination) and routing headers
//! are passed over when a packet is read, and never written.

use super::ip::IpHeader;
use super::{WireError, be16, be32};
use std::net::Ipv6Addr;

pub const HEADER_LEN: usize = 40;
pub const FRAGMENT_LEN: usize = 8;
/// The smallest MTU of any link, and the longest ICMPv6 error (RFC 8200 section 5, RFC 4443 section 2.4).
pub const MIN_MTU: usize = 1280;

pub const PROTOCOL_ICMP: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Appends 40 bytes, and 8 of a fragment header for a fragment.
pub(super) fn emit(ip: &IpHeader, src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, total_len: usize, out: &mut Vec<u8>) {
    let next = if ip.is_fragment() { FRAGMENT } else { protocol };
    out.extend_from_slice(&[0x60 | ip.tos >> 4, ip.tos << 4, 0, 0]);
    out.extend_from_slice(&((total_len - HEADER_LEN) as u16).to_be_bytes());
    out.extend_from_slice(&[next, ip.ttl]);
    out.extend_from_slice(&src.octets());
    out.extend_from_slice(&dst.octets());
    if ip.is_fragment() {
        let place = (ip.fragment_offset << 3) | u16::from(ip.more_fragments);
        out.extend_from_slice(&[protocol, 0]);
        out.extend_from_slice(&place.to_be_bytes());
        out.extend_from_slice(&ip.id.to_be_bytes());
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<(IpHeader, u8, &[u8]), WireError> {
    if bytes.len() < HEADER_LEN {
        return Err(WireError::Truncated);
    }
    if bytes[0] >> 4 != 6 {
        return Err(WireError::Malformed);
    }
    let body = bytes[HEADER_LEN..].get(..usize::from(be16(bytes, 4))).ok_or(WireError::Truncated)?;
    let address = |at: usize| Ipv6Addr::from(*bytes[at..].first_chunk::<16>().expect("the header is complete"));
    let mut ip = IpHeader::new(address(8), address(24));
    (ip.tos, ip.ttl) = (bytes[0] << 4 | bytes[1] >> 4, bytes[7]);
    let (protocol, body) = skip_options(bytes[6], body)?;
    if protocol != FRAGMENT {
        return Ok((ip, protocol, body));
    }
    if body.len() < FRAGMENT_LEN {
        return Err(WireError::Truncated);
    }
    let place = be16(body, 2);
    (ip.fragment_offset, ip.more_fragments) = (place >> 3, place & 1 != 0);
    let (next, rest) = (body[0], &body[FRAGMENT_LEN..]);
    if ip.is_fragment() {
        ip.id = be32(body, 4);
        return Ok((ip, next, rest));
    }
    // RFC 6946: a fragment that is the whole packet.
    let (next, rest) = skip_options(next, rest)?;
    Ok((ip, next, rest))
}

/// Passes over extension headers that change nothing here: the first other header, and what it is before.
pub(crate) fn skip_options(mut next: u8, mut body: &[u8]) -> Result<(u8, &[u8]), WireError> {
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
        // In units of 8 bytes, the first one not counted.
        let length = 8 * (1 + usize::from(*body.get(1).ok_or(WireError::Truncated)?));
        next = body[0];
        body = body.get(length..).ok_or(WireError::Truncated)?;
    }
    Ok((next, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn bytes(ip: &IpHeader, protocol: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        ip.emit(protocol, ip.header_len() + body.len(), &mut out);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn the_bytes_are_those_of_rfc_8200() {
        let mut ip = IpHeader::new(A, B);
        (ip.tos, ip.ttl) = (0xab, 7);
        let out = bytes(&ip, 17, b"four");
        assert_eq!(out[..8], [0x6a, 0xb0, 0, 0, 0, 4, 17, 7]);
        assert_eq!(out[8..24], A.octets());
        assert_eq!(out[24..40], B.octets());
        assert_eq!(parse(&out), Ok((ip, 17, &b"four"[..])));
        for length in 0..out.len() {
            assert!(parse(&out[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn fragments_carry_their_place_and_a_whole_one_is_none() {
        let mut ip = IpHeader::new(A, B);
        (ip.id, ip.fragment_offset, ip.more_fragments) = (0xdead_beef, 181, true);
        let out = bytes(&ip, 6, &[1; 16]);
        assert_eq!(out[6], FRAGMENT);
        assert_eq!(out[40..48], [6, 0, 5, 0xa9, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(parse(&out), Ok((ip, 6, &[1; 16][..])));
        let whole = IpHeader::new(A, B);
        let atomic = bytes(&whole, FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 9, 0xff]);
        assert_eq!(parse(&atomic), Ok((whole, 17, &[0xff][..])));
    }

    #[test]
    fn options_are_passed_over_and_must_end_inside_the_packet() {
        let ip = IpHeader::new(A, B);
        let options = [&[DESTINATION, 0, 1, 4, 0, 0, 0, 0][..], &[17, 1], &[0; 14], b"data"].concat();
        assert_eq!(parse(&bytes(&ip, HOP_BY_HOP, &options)), Ok((ip, 17, &b"data"[..])));
        assert_eq!(parse(&bytes(&ip, HOP_BY_HOP, &options[..23])), Err(WireError::Truncated));
        assert_eq!(parse(&bytes(&ip, HOP_BY_HOP, &[])), Err(WireError::Truncated));
    }
}
