//! The UDP header (RFC 768).

use super::{WireError, be16};

pub const HEADER_LEN: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpHeader {
    pub src_port: u16,
    pub dst_port: u16,
}

impl UdpHeader {
    /// Appends 8 bytes, with a zero checksum.
    pub fn emit(&self, payload_len: usize, out: &mut Vec<u8>) {
        let mut header = [0; HEADER_LEN];
        header[..2].copy_from_slice(&self.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        header[4..6].copy_from_slice(&((HEADER_LEN + payload_len) as u16).to_be_bytes());
        out.extend_from_slice(&header);
    }

    pub fn parse(bytes: &[u8]) -> Result<(UdpHeader, &[u8]), WireError> {
        if bytes.len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let length = usize::from(be16(bytes, 4));
        if length < HEADER_LEN || length > bytes.len() {
            return Err(WireError::Malformed);
        }
        Ok((UdpHeader { src_port: be16(bytes, 0), dst_port: be16(bytes, 2) }, &bytes[HEADER_LEN..length]))
    }
}
