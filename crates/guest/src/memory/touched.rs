//! Which pages a program's start writes: learnt from its first guest, so that later ones have them present before they run, at
//! the price of one call instead of a fault or two for each page.
//!
//! Only a hint: what a guest reads is the same with and without it.

use crate::image::PAGE;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// More than this is no start any more, and is left to faults.
const MOST_PAGES: usize = 512;

/// See `Documentation/admin-guide/mm/pagemap.rst`.
const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;

/// The ranges of private pages that are present in `[start, end)`, relative to `start`. Empty when the kernel does not tell, or
/// when they are too many.
pub(super) fn written_ranges(start: u64, end: u64) -> Vec<(u64, u64)> {
    let pages = ((end - start) / PAGE) as usize;
    let mut entries = vec![0u8; pages * 8];
    let read = File::open("/proc/self/pagemap").and_then(|file| file.read_exact_at(&mut entries, start / PAGE * 8));
    if read.is_err() {
        return Vec::new();
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut written = 0;
    for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
        if u64::from_ne_bytes(*entry) & (PRESENT | FILE_OR_SHARED) != PRESENT {
            continue;
        }
        written += 1;
        let at = page as u64 * PAGE;
        match ranges.last_mut() {
            Some(last) if last.1 == at => last.1 += PAGE,
            _ => ranges.push((at, at + PAGE)),
        }
    }
    if written <= MOST_PAGES { ranges } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{HostRegion, map_arenas};
    use crate::memory::AddressSpace;

    #[test]
    fn written_pages_are_found_and_joined() {
        map_arenas().unwrap();
        let mut region = HostRegion::new(63, 64);
        let mut space = AddressSpace::new(&mut region).unwrap();
        let top = space.stack_end();
        let start = top - 16 * PAGE;
        for page in [1, 2, 9] {
            space.write(start + page * PAGE, &[1]).unwrap();
        }
        assert_eq!(written_ranges(start, top), [(PAGE, 3 * PAGE), (9 * PAGE, 10 * PAGE)]);
        space.release(&mut region);
    }
}
