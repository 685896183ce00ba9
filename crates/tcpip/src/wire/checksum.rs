//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// A running one's complement sum. Feed an odd number of bytes only as the last piece.
#[derive(Clone, Copy, Default, Debug)]
pub struct Checksum(u64);

impl Checksum {
    #[inline]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// The pseudo header of TCP and UDP over IPv4 (RFC 9293 section 3.1), and of all protocols over IPv6 (RFC 8200 section 8.1).
    /// `length` is that of the IP payload, in bytes.
    pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> Self {
        let sum = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Checksum::default().with(&src.octets()).with(&dst.octets()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Checksum::default().with(&src.octets()).with(&dst.octets()),
            _ => Checksum::default(),
        };
        Checksum(sum.0 + u64::from(protocol) + length as u64)
    }

    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_example_of_rfc_1071() {
        let sum = Checksum::default().with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }
}
