//! Images: ELF files as guests see them in memory, with their special instructions rewritten, kept once in a memfd and shared.

mod composed;
mod context;
mod descent;
mod dynamic;
mod elf;
mod go;
mod gs;
mod patches;
mod rewrite;
mod sled;
mod special;
mod store;
mod walk;
mod window;

pub use composed::Composed;
pub(crate) use context::{
    CONTEXT_BYTES, Certainty, ends_run, instruction_around, is_executed_with_sense, is_nonsense, may_be_special,
};
pub use elf::{ElfError, ElfHeader, Segment};
pub(crate) use gs::is_relative_to_gs;
pub(crate) use patches::{Candidate, Copied};
pub(crate) use special::{Special, all_candidates, candidates, is_usual, special};
pub use store::{FileKey, Image, images};
pub(crate) use store::{Gap, Pack, PackPart, PackRecording, RecordedPart};

use std::alloc::{Layout, alloc_zeroed};

/// Size of a page; everything here is cut by it.
pub const PAGE: u64 = 4096;

pub(crate) fn page_down(value: u64) -> u64 {
    value & !(PAGE - 1)
}

pub(crate) fn page_up(value: u64) -> u64 {
    value.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// The largest file, and the most addresses that one may take: guests make files of any size, and headers that claim anything.
const IMAGE_BYTES_MAX: u64 = 16 << 30;

/// Bytes that are zero. None when the machine has no memory for so many.
fn zeroed(bytes: u64) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(usize::try_from(bytes).ok()?).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    // SAFETY: the memory is of the global allocator, of this layout, and initialised.
    (!memory.is_null()).then(|| unsafe { Vec::from_raw_parts(memory, layout.size(), layout.size()) })
}
