//! Where guests live: one range of addresses, mapped once, cut into regions by host and into blocks by process.
//!
//! The range is the same in each run, and a host's region follows from its place in the plan, so that pointers are the same
//! in each run and with any number of workers.

use crate::counters;
use std::sync::OnceLock;

/// Where arenas begin: below every address at which Linux places a position-independent program or its libraries.
pub const ARENAS_START: u64 = 0x1000_0000_0000;
/// Where arenas end: 64 TiB on.
pub const ARENAS_END: u64 = 0x5000_0000_0000;
/// The unit in which a host's region is given out, and the size of an ordinary process's first block.
pub const BLOCK_BYTES: u64 = 256 << 20;
/// The largest region of one host.
const REGION_MAX_BYTES: u64 = 32 << 40;

/// Why there are no arenas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaError(pub String);

impl std::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArenaError {}

/// Maps the arenas, once per process: readable, writable, without reserve. Huge pages are turned off for the process (they
/// multiply memory), and anonymous memory is kept out of its core dumps.
///
/// # Errors
/// When the kernel refuses; the text says which limit to lift.
pub fn map_arenas() -> Result<(), ArenaError> {
    static DONE: OnceLock<Result<(), ArenaError>> = OnceLock::new();
    DONE.get_or_init(|| {
        let length = (ARENAS_END - ARENAS_START) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        counters::count_map_call();
        // SAFETY: FIXED_NOREPLACE never replaces a mapping that exists.
        let address =
            unsafe { libc::mmap(ARENAS_START as *mut _, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if address as u64 != ARENAS_START {
            let error = std::io::Error::last_os_error();
            return Err(ArenaError(format!(
                "cannot reserve 64 TiB of addresses for guests ({error}): needs `ulimit -v unlimited` and \
                 `sysctl vm.overcommit_memory=0` (or 1)"
            )));
        }
        // Neither is advice on the mapping: pieces that are mapped anew later would lack it and not merge with it.
        // SAFETY: affects huge pages of this process only.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1u64, 0u64, 0u64, 0u64) };
        // Best effort: without /proc a core dump is large, and nothing else is lost.
        let _ = std::fs::write("/proc/self/coredump_filter", "0");
        Ok(())
    })
    .clone()
}

/// The region of one host: which of its blocks are taken.
#[derive(Debug)]
pub struct HostRegion {
    start: u64,
    blocks: u64,
    /// Taken runs of blocks, (first block, blocks), by first block.
    taken: std::collections::BTreeMap<u64, u64>,
    /// No block below this one is free.
    first_free: u64,
}

impl HostRegion {
    /// The region of the host that is number `index` of `hosts` in the plan.
    pub fn new(index: u32, hosts: u32) -> HostRegion {
        let share = (ARENAS_END - ARENAS_START) / u64::from(hosts.max(1)).next_power_of_two();
        let bytes = share.clamp(BLOCK_BYTES, REGION_MAX_BYTES);
        let start = ARENAS_START + u64::from(index) * bytes;
        HostRegion { start, blocks: bytes / BLOCK_BYTES, taken: Default::default(), first_free: 0 }
    }

    /// Takes `bytes` (rounded up to blocks) by first fit. None when the region is full.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let wanted = bytes.div_ceil(BLOCK_BYTES).max(1);
        let mut at = self.first_free;
        for (&first, &count) in self.taken.range(at..) {
            if first - at >= wanted {
                break;
            }
            at = first + count;
        }
        if at + wanted > self.blocks || self.start + (at + wanted) * BLOCK_BYTES > ARENAS_END {
            return None;
        }
        self.taken.insert(at, wanted);
        if at == self.first_free {
            self.first_free = at + wanted;
            while let Some(count) = self.taken.get(&self.first_free) {
                self.first_free += count;
            }
        }
        Some((self.start + at * BLOCK_BYTES, wanted * BLOCK_BYTES))
    }

    /// Gives back what `take` gave, at its start address.
    pub(crate) fn give_back(&mut self, start: u64) {
        let first = (start - self.start) / BLOCK_BYTES;
        if self.taken.remove(&first).is_some() {
            self.first_free = self.first_free.min(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_first_fit_and_return() {
        let mut region = HostRegion::new(1, 3);
        let (a, size) = region.take(1).unwrap();
        assert_eq!((a, size), (ARENAS_START + (16 << 40), BLOCK_BYTES));
        let (b, size_b) = region.take(3 * BLOCK_BYTES - 5).unwrap();
        assert_eq!((b, size_b), (a + BLOCK_BYTES, 3 * BLOCK_BYTES));
        let (c, _) = region.take(1).unwrap();
        region.give_back(b);
        assert_eq!(region.take(2 * BLOCK_BYTES).unwrap().0, b);
        assert_eq!(region.take(2 * BLOCK_BYTES).unwrap().0, c + BLOCK_BYTES);
        assert_eq!(region.take(1).unwrap().0, b + 2 * BLOCK_BYTES);
    }

    #[test]
    fn a_full_region_refuses() {
        let mut region = HostRegion::new(0, 1 << 18);
        assert!(region.take(BLOCK_BYTES).is_some());
        assert!(region.take(BLOCK_BYTES).is_none());
    }
}
