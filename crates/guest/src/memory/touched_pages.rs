//! Clearing plain memory of which only a part was ever touched.
//!
//! An event loop maps a quarter of a megabyte for each datagram of a few hundred bytes. The real kernel knows which pages are there:
//! `/proc/self/pagemap` (Documentation/admin-guide/mm/pagemap.rst of Linux) has 8 bytes for each page, of which bit 63 says that it is in
//! memory and bit 62 that it is swapped out. A page that is neither was not touched since it last was given back, and reads as zero. For 260 KiB of
//! which two pages were touched, that takes 0.6 µs, and writing zeroes over all 10 µs (Sapphire Rapids, virtual). Where that happens
//! often, `access` closes the memory until it is touched, and is left with what was.

use crate::copy;
use crate::image::PAGE;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Less is cleared faster than asked about.
const ASKED_BYTES: u64 = 64 << 10;
/// Pages that are asked about at once.
const AT_ONCE: usize = 512;
/// In memory, or swapped out.
const IS_THERE: u64 = 0b11 << 62;

/// Whether the real kernel is asked what of a range was touched before it is cleared.
pub(super) fn is_asked(bytes: u64) -> bool {
    bytes >= ASKED_BYTES
}

/// Makes plain memory of whole pages read as zero.
pub(super) fn clear(start: u64, bytes: u64) {
    if !is_asked(bytes) || !clear_touched(start, bytes) {
        copy::clear(start, bytes);
    }
}

/// False if the real kernel does not tell: then all is to be cleared.
fn clear_touched(start: u64, bytes: u64) -> bool {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    let Some(pagemap) = PAGEMAP.get_or_init(|| File::open("/proc/self/pagemap").ok()) else { return false };
    let end = start + bytes;
    let mut at = start;
    while at < end {
        let pages = ((end - at).div_ceil(PAGE) as usize).min(AT_ONCE);
        let mut entries = [0; AT_ONCE * 8];
        let asked = &mut entries[..pages * 8];
        if pagemap.read_exact_at(asked, at / PAGE * 8).is_err() {
            return false;
        }
        let is_there = |page: usize| {
            let entry = asked[page * 8..][..8].try_into().map_or(u64::MAX, u64::from_le_bytes);
            entry & IS_THERE != 0
        };
        let mut page = 0;
        while page < pages {
            let first = page;
            while page < pages && is_there(page) {
                page += 1;
            }
            if page > first {
                let from = at + first as u64 * PAGE;
                copy::clear(from, (at + page as u64 * PAGE).min(end) - from);
            }
            page += 1;
        }
        at += pages as u64 * PAGE;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pages of a range are in memory, by mincore(2).
    fn resident(start: u64, bytes: u64) -> usize {
        let mut pages = vec![0; (bytes / PAGE) as usize];
        // SAFETY: a range that the test has mapped, and a place for a byte of each of its pages.
        let told = unsafe { libc::mincore(start as *mut libc::c_void, bytes as usize, pages.as_mut_ptr()) };
        assert_eq!(told, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn what_was_touched_is_cleared_and_the_rest_is_not_brought_in() {
        let bytes = 1024 * PAGE;
        // SAFETY: a new mapping anywhere.
        let memory = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), bytes as usize, 3, flags, -1, 0);
            // Large pages would be there as a whole.
            libc::madvise(memory, bytes as usize, libc::MADV_NOHUGEPAGE);
            memory as u64
        };
        // SAFETY: memory of the mapping.
        let byte = |page: u64| unsafe { &mut *((memory + page * PAGE + 5) as *mut u8) };
        for page in [0, 1, 511, 512, 700, 1023] {
            *byte(page) = 7;
        }
        assert!(clear_touched(memory, bytes), "/proc/self/pagemap can be read");
        assert_eq!(resident(memory, bytes), 6, "pages that were touched, and no other");
        assert!((0..1024).all(|page| *byte(page) == 0));
        *byte(3) = 1;
        clear(memory, 4 * PAGE);
        assert_eq!(*byte(3), 0);
    }
}
