//! Images: ELF files as guests see them in memory, with their special instructions rewritten, kept once in a memfd and shared.

mod context;
mod descent;
mod dynamic;
mod elf;
mod go;
mod gs;
mod rewrite;
mod sled;
mod special;
mod store;
mod window;

pub(crate) use context::{CONTEXT_BYTES, Certainty, ends_run, instruction_around, is_nonsense, may_be_special};
pub use elf::{ElfError, ElfHeader, Segment};
pub(crate) use gs::is_relative_to_gs;
pub(crate) use special::{Special, all_candidates, candidates, is_usual, special};
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
