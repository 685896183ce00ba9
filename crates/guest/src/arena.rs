//! Where guests live: one range of addresses, mapped once, cut into regions by host and into blocks by process.
//!
//! The range is the same in each run, and a host's region follows from its place in the plan, so that pointers are the same
//! in each run and with any number of workers. Below the arenas lie, from the bottom up, the addresses of programs that are
//! linked to fixed ones, and the parking, where the memory of address spaces lies that wait for their turn at addresses which they
//! share with others. Where something is parked follows from the order of real time; no guest ever sees it.

use crate::counters;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where arenas begin: below every address at which Linux places a position-independent program or its libraries.
pub const ARENAS_START: u64 = 0x1000_0000_0000;
/// Where arenas end: 64 TiB on.
pub const ARENAS_END: u64 = 0x5000_0000_0000;
/// Where the parking begins and programs at fixed addresses end. It ends where the arenas begin.
pub(crate) const PARKING_START: u64 = 0x0100_0000_0000;
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

/// A range of addresses cut into blocks that are given out by first fit.
#[derive(Debug)]
struct Blocks {
    start: u64,
    blocks: u64,
    /// Taken runs of blocks, by first block.
    taken: BTreeMap<u64, Run>,
    /// No block below this one is free.
    first_free: u64,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    blocks: u64,
    owners: u32,
}

impl Blocks {
    const fn new(start: u64, bytes: u64) -> Blocks {
        Blocks { start, blocks: bytes / BLOCK_BYTES, taken: BTreeMap::new(), first_free: 0 }
    }

    /// Takes `bytes` (rounded up to blocks): start and size. None when there is no room.
    fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let wanted = bytes.div_ceil(BLOCK_BYTES).max(1);
        let mut at = self.first_free;
        for (&first, run) in self.taken.range(at..) {
            if first - at >= wanted {
                break;
            }
            at = first + run.blocks;
        }
        if at + wanted > self.blocks {
            return None;
        }
        self.taken.insert(at, Run { blocks: wanted, owners: 1 });
        if at == self.first_free {
            self.first_free = at + wanted;
            while let Some(run) = self.taken.get(&self.first_free) {
                self.first_free += run.blocks;
            }
        }
        Some((self.start + at * BLOCK_BYTES, wanted * BLOCK_BYTES))
    }

    /// One owner less of what `take` gave at `start`; without owners it is free again.
    fn give_back(&mut self, start: u64) {
        let first = (start - self.start) / BLOCK_BYTES;
        let Some(run) = self.taken.get_mut(&first) else { return };
        run.owners -= 1;
        if run.owners == 0 {
            self.taken.remove(&first);
            self.first_free = self.first_free.min(first);
        }
    }
}

/// The region of one host: which of its blocks are taken, and the numbers of what its processes share.
#[derive(Debug)]
pub struct HostRegion {
    blocks: Blocks,
    /// Numbers of shared files, by device and inode.
    shared_files: BTreeMap<(u64, u64), u32>,
    /// The last number given to shared memory.
    shared_objects: u32,
}

impl HostRegion {
    /// The region of the host that is number `index` of `hosts` in the plan.
    pub fn new(index: u32, hosts: u32) -> HostRegion {
        HostRegion::equal(index.into(), hosts.into(), ARENAS_END)
    }

    /// The regions of all hosts, by their numbers in the plan. Those that ask for so many bytes have them at the arenas' end; the others, as
    /// without them, equal parts of the beginning. None when hosts ask for too much.
    pub fn cut(wishes: &[Option<u64>]) -> Option<Vec<HostRegion>> {
        let hosts = wishes.len() as u64;
        let mut end = ARENAS_END;
        let mut regions = Vec::new();
        for wish in wishes {
            regions.push(match wish {
                None => None,
                Some(bytes) => {
                    let bytes = bytes.checked_next_multiple_of(BLOCK_BYTES)?.max(BLOCK_BYTES);
                    end = end.checked_sub(bytes).filter(|end| *end >= ARENAS_START + hosts * BLOCK_BYTES)?;
                    Some(HostRegion::at(end, bytes))
                }
            });
        }
        let equal = |(index, region): (usize, Option<HostRegion>)| {
            region.unwrap_or_else(|| HostRegion::equal(index as u64, hosts, end))
        };
        Some(regions.into_iter().enumerate().map(equal).collect())
    }

    /// Part number `index` of `hosts` equal parts between the arenas' start and `end`, each a power of two.
    fn equal(index: u64, hosts: u64, end: u64) -> HostRegion {
        let mut bytes = (ARENAS_END - ARENAS_START) / hosts.max(1).next_power_of_two();
        while bytes * hosts > end - ARENAS_START && bytes > BLOCK_BYTES {
            bytes /= 2;
        }
        let bytes = bytes.clamp(BLOCK_BYTES, REGION_MAX_BYTES);
        let start = ARENAS_START + index * bytes;
        HostRegion::at(start, bytes.min(end.saturating_sub(start)))
    }

    fn at(start: u64, bytes: u64) -> HostRegion {
        HostRegion { blocks: Blocks::new(start, bytes), shared_files: BTreeMap::new(), shared_objects: 0 }
    }

    /// Whether no process has any of it.
    pub fn is_free(&self) -> bool {
        self.blocks.taken.is_empty()
    }

    /// Takes `bytes` (rounded up to blocks) by first fit. None when the region is full.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        self.blocks.take(bytes)
    }

    /// One more address space uses what `take` gave at `start`.
    pub(crate) fn share(&mut self, start: u64) {
        let first = (start - self.blocks.start) / BLOCK_BYTES;
        if let Some(run) = self.blocks.taken.get_mut(&first) {
            run.owners += 1;
        }
    }

    /// An address space needs what `take` gave at `start` no longer; the last one frees it.
    pub(crate) fn give_back(&mut self, start: u64) {
        self.blocks.give_back(start);
    }

    /// A number for new memory that processes will share.
    pub(crate) fn new_shared_object(&mut self) -> u32 {
        self.shared_objects += 1;
        self.shared_objects
    }

    /// The number of a file whose memory is shared.
    pub(crate) fn shared_file(&mut self, device: u64, inode: u64) -> u32 {
        if let Some(number) = self.shared_files.get(&(device, inode)) {
            return *number;
        }
        let number = self.new_shared_object();
        self.shared_files.insert((device, inode), number);
        number
    }
}

static PARKING: Mutex<Blocks> = Mutex::new(Blocks::new(PARKING_START, ARENAS_START - PARKING_START));

/// Addresses in the parking for memory whose home is `[start, start + bytes)`. They are as far behind a block's start as home
/// is, so that page tables move as a whole. Nothing is mapped there yet.
#[derive(Debug)]
pub(crate) struct ParkingSlot {
    block: u64,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl ParkingSlot {
    /// None when the parking is full.
    pub(crate) fn for_home(start: u64, bytes: u64) -> Option<ParkingSlot> {
        let offset = start % BLOCK_BYTES;
        let (block, _) = PARKING.lock().unwrap_or_else(PoisonError::into_inner).take(offset + bytes)?;
        Some(ParkingSlot { block, start: block + offset, bytes })
    }
}

impl Drop for ParkingSlot {
    /// Nothing may be mapped there any more.
    fn drop(&mut self) {
        PARKING.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.block);
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
    fn a_shared_block_returns_with_its_last_owner() {
        let mut region = HostRegion::new(2, 64);
        let (a, _) = region.take(1).unwrap();
        region.share(a);
        region.give_back(a);
        assert_ne!(region.take(1).unwrap().0, a);
        region.give_back(a);
        assert_eq!(region.take(1).unwrap().0, a);
    }

    #[test]
    fn a_parking_slot_lies_as_its_home_does() {
        let slot = ParkingSlot::for_home(0x40_0000, 3 * BLOCK_BYTES).unwrap();
        assert_eq!(slot.start % BLOCK_BYTES, 0x40_0000);
        assert!(slot.start >= PARKING_START && slot.start + slot.bytes <= ARENAS_START);
        let other = ParkingSlot::for_home(ARENAS_START, BLOCK_BYTES).unwrap();
        assert!(other.start >= slot.start + slot.bytes || other.start + other.bytes <= slot.start);
    }

    #[test]
    fn hosts_that_ask_for_much_have_it_and_the_others_equal_parts() {
        let ends =
            |region: &HostRegion| (region.blocks.start, region.blocks.start + region.blocks.blocks * BLOCK_BYTES);
        let mut wishes = vec![None; 250];
        let before: Vec<_> = HostRegion::cut(&wishes).unwrap().iter().map(ends).collect();
        assert_eq!(before[249], ends(&HostRegion::new(249, 250)));
        assert_eq!(before[7].1 - before[7].0, 256 << 30);
        (wishes[3], wishes[100]) = (Some(8 << 40), Some(1));
        let mut after: Vec<_> = HostRegion::cut(&wishes).unwrap().iter().map(ends).collect();
        assert_eq!(after[3], (ARENAS_END - (8 << 40), ARENAS_END));
        assert_eq!(after[100].1 - after[100].0, BLOCK_BYTES);
        assert_eq!(after[7].1 - after[7].0, 128 << 30);
        after.sort_unstable();
        assert!(after.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two overlap");
        assert!(HostRegion::cut(&[Some(40 << 40), Some(40 << 40)]).is_none());
        assert!(HostRegion::cut(&[Some(u64::MAX)]).is_none());
    }

    #[test]
    fn a_full_region_refuses() {
        let mut region = HostRegion::new(0, 1 << 18);
        assert!(region.take(BLOCK_BYTES).is_some());
        assert!(region.take(BLOCK_BYTES).is_none());
    }
}
