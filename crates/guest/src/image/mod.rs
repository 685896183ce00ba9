//! Images: ELF files as guests see them in memory, with their special instructions rewritten, kept once in a memfd and shared.

mod elf;
mod go;
mod rewrite;
mod store;

pub use elf::{ElfError, ElfHeader, Segment};
pub use store::{FileKey, Image, images};
pub(crate) use store::{Pack, PackPart, PackRecording, RecordedPart};

/// Size of a page; everything here is cut by it.
pub const PAGE: u64 = 4096;

pub(crate) fn page_down(value: u64) -> u64 {
    value & !(PAGE - 1)
}

pub(crate) fn page_up(value: u64) -> u64 {
    value.saturating_add(PAGE - 1) & !(PAGE - 1)
}
