//! The formats on the wire: typed headers, and their bytes with correct checksums. Knows nothing of sockets.

pub mod checksum;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
pub mod udp;

use std::fmt;

/// Why bytes are no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// Fewer bytes than a header or a length field asks for.
    Truncated,
    /// A version or length field that makes no sense.
    Malformed,
    /// The checksum of this layer does not fit.
    Checksum(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Truncated => f.write_str("truncated packet"),
            WireError::Malformed => f.write_str("malformed packet"),
            WireError::Checksum(layer) => write!(f, "bad {layer} checksum"),
        }
    }
}

impl std::error::Error for WireError {}

/// The big-endian 16-bit word at `at`; the caller has checked the length.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit word at `at`; the caller has checked the length.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
