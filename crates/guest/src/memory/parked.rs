//! Memory in the parking: parked, brought home, copied for a fork.
//!
//! Copying costs a microsecond or more for each page that must be found, and a fifth of that where pages are there already. So a
//! family of twins keeps what an ended one leaves, within bounds, and copies the next one into it.

use super::real::{self, Leaving};
use super::room;
use super::touched::{self, subtract};
use crate::arena::{BLOCK_BYTES, ParkingSlot};
use crate::copy;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory in the parking, or a place for it.
#[derive(Debug)]
pub(super) struct Parked {
    slot: ParkingSlot,
    occupied: bool,
}

impl Parked {
    /// A place for what belongs at `[start, start + bytes)`, into which the caller maps something. None when the parking is full.
    pub(super) fn place_for(start: u64, bytes: u64) -> Option<Parked> {
        ParkingSlot::for_home(start, bytes).map(|slot| Parked { slot, occupied: true })
    }

    /// A place in which nothing lies yet.
    pub(super) fn empty(start: u64, bytes: u64) -> Option<Parked> {
        ParkingSlot::for_home(start, bytes).map(|slot| Parked { slot, occupied: false })
    }

    /// A copy of `[start, start + bytes)`: private pages copied, shared ones shared. `guards` are the ranges in it that fault, relative
    /// to `start`. None when memory, mappings or addresses are lacking; nothing has changed then.
    pub(super) fn copy_of(start: u64, bytes: u64, guards: &[(u64, u64)]) -> Option<Parked> {
        let mut parked = Parked::place_for(start, bytes)?;
        // The original's pages become the copy's, since mappings can be doubled in this direction only.
        if !real::move_range(start, parked.start(), bytes, Leaving::Mappings) {
            return None;
        }
        let ranges = private_ranges(parked.start(), bytes, guards);
        let Some(ranges) = ranges.filter(|ranges| room::for_bytes(ranges.iter().map(|(from, to)| to - from).sum()))
        else {
            real::unmap(start, bytes);
            parked.go(start);
            return None;
        };
        real::populate_ranges(start, &ranges);
        copy_ranges(parked.start(), start, &ranges);
        let _ = real::guard_ranges(start, guards);
        Some(parked)
    }

    /// Parks what lies at `[start, start + bytes)`, in a place that was kept for it if there is one.
    pub(super) fn take(kept: Option<Parked>, start: u64, bytes: u64) -> Parked {
        let kept = kept.filter(|place| place.suits(start, bytes));
        let Some(mut parked) = kept.or_else(|| Parked::empty(start, bytes)) else {
            panic!("no address is left to park a guest's memory at: too many forked processes live at once")
        };
        move_or_panic(start, parked.start(), bytes);
        parked.occupied = true;
        parked
    }

    /// Whether it is a place for what belongs at `[start, start + bytes)`.
    fn suits(&self, start: u64, bytes: u64) -> bool {
        self.slot.bytes == bytes && self.slot.start % BLOCK_BYTES == start % BLOCK_BYTES
    }

    /// Brings the memory home, where nothing is mapped.
    pub(super) fn go(&mut self, home: u64) {
        move_or_panic(self.slot.start, home, self.slot.bytes);
        self.occupied = false;
    }

    /// Where the memory lies.
    pub(super) fn start(&self) -> u64 {
        self.slot.start
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slot.bytes
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if self.occupied {
            real::unmap(self.slot.start, self.slot.bytes);
        }
    }
}

fn move_or_panic(from: u64, to: u64, bytes: u64) {
    assert!(
        real::move_range(from, to, bytes, Leaving::Hole),
        "a guest's memory cannot be moved ({}): if it is ENOMEM, raise `sysctl vm.max_map_count`",
        std::io::Error::last_os_error()
    );
}

/// The ranges of private pages in `[start, start + bytes)`. None when the kernel does not tell.
fn private_ranges(start: u64, bytes: u64, guards: &[(u64, u64)]) -> Option<Vec<(u64, u64)>> {
    touched::private_ranges(start, start + bytes).map(|ranges| subtract(&ranges, guards))
}

/// Copies ranges relative to `from` and `to`, where the same is mapped.
fn copy_ranges(from: u64, to: u64, ranges: &[(u64, u64)]) {
    for (start, end) in ranges {
        if copy::copy_bytes(to + start, from + start, end - start) != 0 {
            copy_protected(from + start, to + start, end - start);
        }
    }
}

/// Copies between mappings that may lack rights, which they are given meanwhile.
fn copy_protected(from: u64, to: u64, bytes: u64) {
    for (start, end, prot) in real::mappings(to, to + bytes) {
        let (source, length) = (from + (start - to), end - start);
        real::protect(start, length, 3);
        real::protect(source, length, 3);
        copy::copy_bytes(start, source, length);
        real::protect(start, length, prot);
        real::protect(source, length, prot);
    }
}

/// More than this is not kept for a next twin.
const SPARE_BYTES_MAX: u64 = 16 << 20;
/// More than this is not kept by all families together.
const ALL_SPARES_BYTES_MAX: u64 = 128 << 20;

/// Bytes that all families keep.
static ALL_SPARES: AtomicU64 = AtomicU64::new(0);

/// A share of what may be kept.
#[derive(Debug)]
struct Share(u64);

impl Share {
    fn of(bytes: u64) -> Option<Share> {
        let share = Share(bytes);
        let all = ALL_SPARES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (bytes <= SPARE_BYTES_MAX && all <= ALL_SPARES_BYTES_MAX).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        ALL_SPARES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The memory of an ended twin, kept for the next one.
#[derive(Debug)]
pub(super) struct Spare {
    parked: Parked,
    /// Stands for what is mapped in it (`RealMaps::layout`).
    layout: u64,
    /// The private pages in it.
    ranges: Vec<(u64, u64)>,
    _share: Share,
}

impl Spare {
    /// None, and the memory is freed, when it is too much.
    pub(super) fn new(parked: Parked, layout: u64) -> Option<Spare> {
        let ranges = touched::private_ranges(parked.start(), parked.start() + parked.bytes())?;
        let share = Share::of(ranges.iter().map(|(from, to)| to - from).sum())?;
        Some(Spare { parked, layout, ranges, _share: share })
    }

    pub(super) fn layout(&self) -> u64 {
        self.layout
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parked.bytes()
    }

    /// As [`Parked::copy_of`], for an address space in which the same is mapped as in this one.
    pub(super) fn copy_of(self, start: u64, guards: &[(u64, u64)]) -> Option<Parked> {
        let at = self.parked.start();
        let ranges = private_ranges(start, self.parked.bytes(), guards)?;
        let there = subtract(&self.ranges, guards);
        real::discard_ranges(at, &subtract(&there, &ranges));
        real::populate_ranges(at, &subtract(&ranges, &there));
        copy_ranges(start, at, &ranges);
        Some(self.parked)
    }
}
