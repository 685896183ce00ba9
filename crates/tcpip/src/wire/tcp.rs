//! The TCP header (RFC 9293 section 3.1) and its options: MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018).

use super::{WireError, be16, be32};
use bitflags::bitflags;
use std::num::{NonZeroU8, NonZeroU16};

pub const HEADER_LEN: usize = 20;

bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TcpFlags: u8 {
        const FIN = 0x01;
        const SYN = 0x02;
        const RST = 0x04;
        const PSH = 0x08;
        const ACK = 0x10;
        const URG = 0x20;
        const ECE = 0x40;
        const CWR = 0x80;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    pub value: u32,
    pub echo: u32,
}

/// Up to four SACK blocks (start inclusive, end exclusive). Few segments have any, so they lie apart: packets are moved often, and
/// up to 128 bytes of them without a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks(Option<Box<Blocks>>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Blocks {
    count: u8,
    blocks: [(u32, u32); SackBlocks::MAX],
}

impl SackBlocks {
    pub const MAX: usize = 4;

    /// Adds a block; says whether there was room for it.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let all = self.0.get_or_insert_default();
        let at = usize::from(all.count);
        let fits = at < Self::MAX;
        if fits {
            all.blocks[at] = (start, end);
            all.count += 1;
        }
        fits
    }
    pub fn as_slice(&self) -> &[(u32, u32)] {
        self.0.as_ref().map_or(&[], |all| &all.blocks[..usize::from(all.count)])
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }
}

/// The shift of a window, kept so that an option without it takes no more room: a packet is small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowScale(NonZeroU8);

impl WindowScale {
    /// A shift, at most 254: 14 is the largest with a meaning.
    pub fn new(shift: u8) -> WindowScale {
        WindowScale(NonZeroU8::MIN.saturating_add(shift))
    }

    pub fn shift(self) -> u8 {
        self.0.get() - 1
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpOptions {
    /// One of 0 says nothing (tcp_parse_options).
    pub mss: Option<NonZeroU16>,
    pub window_scale: Option<WindowScale>,
    pub sack_permitted: bool,
    pub timestamps: Option<Timestamps>,
    pub sack: SackBlocks,
}

impl TcpOptions {
    /// Bytes on the wire, padding included.
    #[inline]
    pub fn len(&self) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            len += 12;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if !self.sack.is_empty() {
            len += 4 + 8 * self.sack.len();
        }
        len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The order and padding are Linux's: SACK-permitted takes the place of the two NOPs before the timestamps.
    fn emit(&self, out: &mut Vec<u8>) {
        if let Some(mss) = self.mss.map(NonZeroU16::get) {
            out.extend_from_slice(&[2, 4, (mss >> 8) as u8, mss as u8]);
        }
        match (self.timestamps, self.sack_permitted) {
            (Some(stamps), permitted) => {
                let mut option = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
                if permitted {
                    (option[0], option[1]) = (4, 2);
                }
                option[4..8].copy_from_slice(&stamps.value.to_be_bytes());
                option[8..].copy_from_slice(&stamps.echo.to_be_bytes());
                out.extend_from_slice(&option);
            }
            (None, true) => out.extend_from_slice(&[1, 1, 4, 2]),
            (None, false) => {}
        }
        if let Some(scale) = self.window_scale {
            out.extend_from_slice(&[1, 3, 3, scale.shift()]);
        }
        if !self.sack.is_empty() {
            out.extend_from_slice(&[1, 1, 5, (2 + 8 * self.sack.len()) as u8]);
            for (start, end) in self.sack.as_slice() {
                out.extend_from_slice(&start.to_be_bytes());
                out.extend_from_slice(&end.to_be_bytes());
            }
        }
    }

    fn parse(mut bytes: &[u8]) -> Result<TcpOptions, WireError> {
        let mut options = TcpOptions::default();
        while let [kind, rest @ ..] = bytes {
            match kind {
                0 => break,
                1 => bytes = rest,
                _ => {
                    let length = usize::from(*rest.first().ok_or(WireError::Malformed)?);
                    if length < 2 || length > bytes.len() {
                        return Err(WireError::Malformed);
                    }
                    options.parse_one(*kind, &bytes[2..length]);
                    bytes = &bytes[length..];
                }
            }
        }
        Ok(options)
    }

    /// Options of unknown kind or wrong length are ignored (RFC 9293 section 3.1, MUST-6).
    fn parse_one(&mut self, kind: u8, value: &[u8]) {
        match (kind, value.len()) {
            (2, 2) => self.mss = NonZeroU16::new(be16(value, 0)),
            (3, 1) => self.window_scale = Some(WindowScale::new(value[0])),
            (4, 0) => self.sack_permitted = true,
            (5, n) if n % 8 == 0 && n <= 32 => {
                for block in value.chunks_exact(8) {
                    self.sack.push(be32(block, 0), be32(block, 4));
                }
            }
            (8, 8) => self.timestamps = Some(Timestamps { value: be32(value, 0), echo: be32(value, 4) }),
            _ => {}
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpHeader {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
    /// As on the wire: not scaled.
    pub window: u16,
    pub options: TcpOptions,
}

impl TcpHeader {
    /// Bytes on the wire, options included.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header with a zero checksum.
    pub fn emit(&self, out: &mut Vec<u8>) {
        // In one piece of known length: the digest of a run takes each segment's.
        let mut header = [0; HEADER_LEN];
        header[..2].copy_from_slice(&self.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.seq.to_be_bytes());
        header[8..12].copy_from_slice(&self.ack.to_be_bytes());
        (header[12], header[13]) = (((self.len() / 4) as u8) << 4, self.flags.bits());
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&header);
        self.options.emit(out);
    }

    pub fn parse(bytes: &[u8]) -> Result<(TcpHeader, &[u8]), WireError> {
        if bytes.len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let header_len = usize::from(bytes[12] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > bytes.len() {
            return Err(WireError::Malformed);
        }
        let header = TcpHeader {
            src_port: be16(bytes, 0),
            dst_port: be16(bytes, 2),
            seq: be32(bytes, 4),
            ack: be32(bytes, 8),
            flags: TcpFlags::from_bits_retain(bytes[13]),
            window: be16(bytes, 14),
            options: TcpOptions::parse(&bytes[HEADER_LEN..header_len])?,
        };
        Ok((header, &bytes[header_len..]))
    }
}
