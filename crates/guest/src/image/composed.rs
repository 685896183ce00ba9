//! An ELF file made ready: its pages with special instructions rewritten, and the sled that goes behind them.

use super::elf::{ElfError, ElfHeader};
use super::page_up;
use super::rewrite::{Rewritten, rewrite};

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
        let header = ElfHeader::parse(data)?;
        let mut memory = header.memory_image(data)?;
        let rewritten = rewrite(&mut memory, data, &header);
        Ok(Composed { header, memory, rewritten })
    }

    /// How long the code is that jumps in `memory` lead to, and that is to lie right behind it.
    pub fn sled_bytes(&self) -> u64 {
        self.rewritten.sled.bytes
    }

    /// Image and sled, in whole pages.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.header.span + page_up(self.rewritten.sled.bytes)
    }
}
