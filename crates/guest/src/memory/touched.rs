//! Which pages a guest has written: what a fork copies, and what a program's start writes.
//!
//! The latter is learnt from a program's first guest, so that later ones have those pages present before they run, at the price of
//! one call instead of a fault or two for each page; only a hint, what a guest reads is the same with and without it.

use crate::image::PAGE;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// More than this is no start any more, and is left to faults.
const MOST_PAGES: u64 = 512;

/// The ranges of private pages that are present in `[start, end)`, relative to `start`. Empty when the kernel does not tell, or
/// when they are too many.
pub(super) fn written_ranges(start: u64, end: u64) -> Vec<(u64, u64)> {
    let ranges = pagemap().and_then(|file| ranges_of(file, start, end, PRESENT)).unwrap_or_default();
    let written: u64 = ranges.iter().map(|(from, to)| (to - from) / PAGE).sum();
    if written <= MOST_PAGES { ranges } else { Vec::new() }
}

/// The ranges of pages in `[start, end)` that are not simply what their source shows, relative to `start`; guards may be among
/// them. None when the kernel does not tell.
pub(super) fn private_ranges(start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    ranges_of(pagemap()?, start, end, PRESENT | SWAPPED)
}

/// What of sorted ranges does not lie in other sorted ranges.
pub(super) fn subtract(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::with_capacity(ranges.len());
    let mut others = others.iter().peekable();
    for &(mut from, to) in ranges {
        while others.next_if(|other| other.1 <= from).is_some() {}
        let mut ahead = others.clone();
        while let Some(other) = ahead.next_if(|other| other.0 < to) {
            if other.0 > from {
                left.push((from, other.0));
            }
            from = from.max(other.1);
        }
        if from < to {
            left.push((from, to));
        }
    }
    left
}

/// Kinds of pages, as the kernel's page map has them in each entry.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;

fn ranges_of(file: &File, start: u64, end: u64, kinds: u64) -> Option<Vec<(u64, u64)>> {
    scan(file, start, end, kinds).or_else(|| read_entries(file, start, end, kinds))
}

fn pagemap() -> Option<&'static File> {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    PAGEMAP.get_or_init(|| File::open("/proc/self/pagemap").ok()).as_ref()
}

/// Asks by PAGEMAP_SCAN (Linux 6.7), which passes over what was never touched.
fn scan(file: &File, start: u64, end: u64, kinds: u64) -> Option<Vec<(u64, u64)>> {
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    const IS_FILE: u64 = 1 << 2;
    const IS_PRESENT: u64 = 1 << 3;
    const IS_SWAPPED: u64 = 1 << 4;
    const IS_ZERO: u64 = 1 << 5;
    let wanted = if kinds & SWAPPED != 0 { IS_PRESENT | IS_SWAPPED } else { IS_PRESENT };
    let mut ranges = Vec::new();
    let mut found = [Region::default(); 128];
    let mut at = start;
    while at < end {
        let mut request = ScanRequest {
            size: size_of::<ScanRequest>() as u64,
            start: at,
            end,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            category_inverted: IS_FILE | IS_ZERO,
            category_mask: IS_FILE | IS_ZERO,
            category_anyof_mask: wanted,
            return_mask: wanted,
            ..ScanRequest::default()
        };
        // SAFETY: the request is what the kernel expects, and its vector has the length that it says.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &mut request) };
        for region in found.get(..usize::try_from(count).ok()?)? {
            push_range(&mut ranges, region.start - start, region.end - start);
        }
        if request.walk_end <= at {
            return None;
        }
        at = request.walk_end;
    }
    Some(ranges)
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ScanRequest {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Asks page by page; see `Documentation/admin-guide/mm/pagemap.rst`.
fn read_entries(file: &File, start: u64, end: u64, kinds: u64) -> Option<Vec<(u64, u64)>> {
    let mut entries = vec![0u8; ((end - start) / PAGE) as usize * 8];
    file.read_exact_at(&mut entries, start / PAGE * 8).ok()?;
    let mut ranges = Vec::new();
    for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
        let entry = u64::from_ne_bytes(*entry);
        if entry & kinds != 0 && entry & FILE_OR_SHARED == 0 {
            push_range(&mut ranges, page as u64 * PAGE, (page as u64 + 1) * PAGE);
        }
    }
    Some(ranges)
}

fn push_range(ranges: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    match ranges.last_mut() {
        Some(last) if last.1 == from => last.1 = to,
        _ => ranges.push((from, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{HostRegion, map_arenas};
    use crate::memory::AddressSpace;

    #[test]
    fn ranges_are_subtracted() {
        let ranges = [(0, 10), (20, 30), (40, 50)];
        assert_eq!(subtract(&ranges, &[]), ranges);
        assert_eq!(subtract(&ranges, &[(0, 10), (22, 24), (26, 45)]), [(20, 22), (24, 26), (45, 50)]);
        assert_eq!(subtract(&ranges, &[(5, 25)]), [(0, 5), (25, 30), (40, 50)]);
        assert_eq!(subtract(&ranges, &[(0, 60)]), []);
    }

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
        let mut byte = [0];
        space.read(start + 5 * PAGE, &mut byte).unwrap();
        let written = [(PAGE, 3 * PAGE), (9 * PAGE, 10 * PAGE)];
        assert_eq!(written_ranges(start, top), written);
        let (file, cut) = (pagemap().unwrap(), [(0, PAGE), (7 * PAGE, 8 * PAGE)]);
        if let Some(scanned) = scan(file, start + 2 * PAGE, top, PRESENT) {
            assert_eq!(scanned, cut);
        }
        let page_by_page = read_entries(file, start + 2 * PAGE, top, PRESENT).unwrap();
        assert!(cut.iter().all(|range| page_by_page.contains(range)));
        space.release(&mut region);
    }
}
