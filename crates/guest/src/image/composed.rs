//! An ELF file made ready: its pages with special instructions rewritten, and the sled that goes behind them.

use super::elf::{ElfError, ElfHeader};
use super::rewrite::{Rewritten, rewrite};
use super::store::Gap;

/// A composed file, not yet in the store.
#[derive(Debug)]
pub struct Composed {
    pub header: ElfHeader,
    /// `header.span` bytes.
    pub memory: Vec<u8>,
    pub(super) rewritten: Rewritten,
}

impl Composed {
    /// Reads and rewrites a file, any bytes at all.
    ///
    /// # Errors
    /// When it is no ELF image for this machine.
    pub fn of(data: &[u8]) -> Result<Composed, ElfError> {
        Composed::with_gap(data, Gap::NONE)
    }

    /// As [`of`](Self::of), for a sled that lies apart.
    pub(super) fn with_gap(data: &[u8], gap: Gap) -> Result<Composed, ElfError> {
        let header = ElfHeader::parse(data)?;
        let mut memory = header.memory_image(data)?;
        let rewritten = rewrite(&mut memory, data, &header, header.span + gap.0);
        Ok(Composed { header, memory, rewritten })
    }

    /// How long the code is that jumps in `memory` lead to, and that is to lie behind it.
    pub fn sled_bytes(&self) -> u64 {
        self.rewritten.sled.bytes
    }
}
