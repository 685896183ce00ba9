//! The fields of an IP header that differ from packet to packet, for both versions. The bytes are made and read in `ipv4` and `ipv6`.

use super::{WireError, ipv4, ipv6};
use std::net::IpAddr;

/// Length, protocol and checksum follow from the rest of the packet. Both addresses are of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// IPv4: 16 bits of any packet. IPv6: 32 bits, of fragments alone.
    pub id: u32,
    /// Time to live; hop limit.
    pub ttl: u8,
    /// DSCP (upper six bits) and ECN (lower two): type of service; traffic class.
    pub tos: u8,
    /// Always true of IPv6, whose packets nobody but their source fragments.
    pub dont_fragment: bool,
    pub more_fragments: bool,
    /// In units of 8 bytes.
    pub fragment_offset: u16,
}

impl IpHeader {
    /// A header as Linux sends it by default: TTL 64, DF set, id 0.
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        IpHeader {
            src: src.into(),
            dst: dst.into(),
            id: 0,
            ttl: 64,
            tos: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
    }

    #[inline]
    pub fn is_v6(&self) -> bool {
        self.dst.is_ipv6()
    }

    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Bytes on the wire, an IPv6 fragment's extension header included.
    #[inline]
    pub fn header_len(&self) -> usize {
        match (self.is_v6(), self.is_fragment()) {
            (false, _) => ipv4::HEADER_LEN,
            (true, false) => ipv6::HEADER_LEN,
            (true, true) => ipv6::HEADER_LEN + ipv6::FRAGMENT_LEN,
        }
    }

    /// Appends `header_len` bytes, for a packet of `total_len` bytes in all.
    pub fn emit(&self, protocol: u8, total_len: usize, out: &mut Vec<u8>) {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::emit(self, src, dst, protocol, total_len as u16, out),
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(self, src, dst, protocol, total_len, out),
            _ => debug_assert!(false, "a packet from {} to {}", self.src, self.dst),
        }
    }

    /// The header, the number of the protocol in it, and the payload that its length fields delimit.
    pub fn parse(bytes: &[u8]) -> Result<(IpHeader, u8, &[u8]), WireError> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(6) => ipv6::parse(bytes),
            _ => ipv4::parse(bytes),
        }
    }
}
