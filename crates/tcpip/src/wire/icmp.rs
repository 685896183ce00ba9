//! The header of ICMP (RFC 792) and ICMPv6 (RFC 4443). Neighbour discovery is neither spoken nor needed: every host of the
//! simulation has one link, which knows where addresses are.

use super::{WireError, be32};

pub const HEADER_LEN: usize = 8;

pub const ECHO_REPLY: u8 = 0;
pub const UNREACHABLE: u8 = 3;
pub const ECHO_REQUEST: u8 = 8;
pub const TIME_EXCEEDED: u8 = 11;

/// Codes of [`UNREACHABLE`].
pub const CODE_NET: u8 = 0;
pub const CODE_HOST: u8 = 1;
pub const CODE_PROTOCOL: u8 = 2;
pub const CODE_PORT: u8 = 3;
pub const CODE_FRAGMENTATION_NEEDED: u8 = 4;

/// The types of ICMPv6, and codes of its UNREACHABLE and PARAMETER_PROBLEM.
pub mod v6 {
    pub const UNREACHABLE: u8 = 1;
    pub const PACKET_TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;

    pub const CODE_NO_ROUTE: u8 = 0;
    pub const CODE_PROHIBITED: u8 = 1;
    pub const CODE_ADDRESS: u8 = 3;
    pub const CODE_PORT: u8 = 4;
    pub const CODE_NEXT_HEADER: u8 = 1;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    /// The second word: identifier and sequence of an echo, the next hop's MTU of "fragmentation needed" and "packet too big", where a
    /// "parameter problem" lies, else 0.
    pub rest: u32,
}

impl IcmpHeader {
    /// Appends 8 bytes, with a zero checksum.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind, self.code, 0, 0]);
        out.extend_from_slice(&self.rest.to_be_bytes());
    }

    pub fn parse(bytes: &[u8]) -> Result<(IcmpHeader, &[u8]), WireError> {
        if bytes.len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok((IcmpHeader { kind: bytes[0], code: bytes[1], rest: be32(bytes, 4) }, &bytes[HEADER_LEN..]))
    }
}
