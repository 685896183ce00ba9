//! Images as `perf` sees them: under the names of their files.
//!
//! What guests execute are private mappings of the store, which perf cannot resolve. It learns of mappings by records that the kernel
//! writes for `mmap` and `mprotect`, but not for `mremap`. So, when it is asked for, an image's code is moved aside, the file itself is
//! mapped in its place, which perf notes, and the code is moved back over it, which perf does not: samples are then resolved by the file
//! (symbols, lines, annotation, unwind tables), as for a program that runs natively.

use super::real;
use crate::image::{Image, page_down, page_up};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static SHOWN: AtomicBool = AtomicBool::new(false);

/// From now on images are shown to perf. Costs some calls of the kernel for each image that a guest maps, and for each turn at fixed
/// addresses.
pub fn show_to_perf() {
    SHOWN.store(true, Ordering::Relaxed);
}

/// Shows an image that lies at `start`.
#[inline]
pub(super) fn show(start: u64, image: &Image) {
    show_part(start, image, (0, image.header.span));
}

/// Shows the segments of an image that lie in a part of it, `[from, to)` relative to its first page.
#[inline]
pub(super) fn show_part(start: u64, image: &Image, part: (u64, u64)) {
    if SHOWN.load(Ordering::Relaxed) {
        show_code(start, image, part);
    }
}

#[cold]
fn show_code(start: u64, image: &Image, part: (u64, u64)) {
    let Ok(file) = File::open(image.path()) else { return };
    for segment in image.header.segments.iter().filter(|segment| segment.executable) {
        let (from, to) = (page_down(segment.address), page_up(segment.address + segment.file_bytes));
        if from < part.0 || to > part.1 {
            continue;
        }
        real::show_file_under(start + from, to - from, file.as_raw_fd(), page_down(segment.file_offset));
    }
}
