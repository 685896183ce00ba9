//! Addresses that several address spaces use in turns: one lies at home there, the memory of the others is parked elsewhere.
//!
//! Two kinds share. Twins of `fork(2)` share the blocks of their arena; they belong to one host, which one worker executes at a
//! time, so their lock is never waited for. Programs that are linked to fixed addresses share those with all others of their kind
//! in the process, on any worker: a worker holds the fixed addresses while it runs such a program, and others wait. Nobody waits
//! for the fixed addresses while holding something that their holder could need, so the wait ends.
//!
//! A turn is two moves of page tables (`real::move_range`). Its price depends on the number of real mappings, not on the memory.

use super::real::{self, Leaving};
use super::touched;
use crate::arena::{PARKING_START, ParkingSlot};
use crate::copy;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Nobody: no address space has this number.
const NOBODY: u64 = 0;
/// The lowest address of a program: `vm.mmap_min_addr` as kernels are built.
const FIXED_START: u64 = 0x1_0000;

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

    /// A copy of `[start, start + bytes)`: private pages copied, shared ones shared. `guards` are the ranges in it that fault, relative
    /// to `start`. None when memory or addresses are lacking; nothing has changed then.
    pub(super) fn copy_of(start: u64, bytes: u64, guards: &[(u64, u64)]) -> Option<Parked> {
        let mut parked = Parked::place_for(start, bytes)?;
        // The original's pages become the copy's, since mappings can be doubled in this direction only.
        if !real::move_range(start, parked.start(), bytes, Leaving::Mappings) {
            return None;
        }
        if copy_private_pages(parked.start(), start, bytes).is_none() {
            real::unmap(start, bytes);
            parked.go(start);
            return None;
        }
        real::guard_ranges(start, guards);
        Some(parked)
    }

    /// Parks what lies at `[start, start + bytes)`.
    fn take(start: u64, bytes: u64) -> Parked {
        let Some(parked) = Parked::place_for(start, bytes) else {
            panic!("no address is left to park a guest's memory at: too many forked processes live at once")
        };
        move_or_panic(start, parked.start(), bytes);
        parked
    }

    /// Brings the memory home, where nothing is mapped.
    fn go(&mut self, home: u64) {
        move_or_panic(self.slot.start, home, self.slot.bytes);
        self.occupied = false;
    }

    /// Where the memory lies.
    pub(super) fn start(&self) -> u64 {
        self.slot.start
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

/// Copies what is private in `[from, from + bytes)` to the same mappings at `to`. None when the kernel does not tell what is.
fn copy_private_pages(from: u64, to: u64, bytes: u64) -> Option<()> {
    let ranges = touched::private_ranges(from, from + bytes)?;
    real::populate_ranges(to, &ranges);
    for (start, end) in ranges {
        if copy::copy_bytes(to + start, from + start, end - start) != 0 {
            copy_protected(from + start, to + start, end - start);
        }
    }
    Some(())
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

/// One address space's share of addresses that are used in turns.
#[derive(Debug)]
struct Seat {
    home: u64,
    bytes: u64,
    /// Where its memory lies while another one is at home.
    parked: Option<Parked>,
}

/// Who shares some addresses.
#[derive(Debug)]
struct Seats {
    /// The number of the address space that lies at home.
    resident: u64,
    seats: BTreeMap<u64, Seat>,
}

impl Seats {
    const fn new(resident: u64) -> Seats {
        Seats { resident, seats: BTreeMap::new() }
    }

    fn add(&mut self, number: u64, home: u64, bytes: u64, parked: Option<Parked>) {
        self.seats.insert(number, Seat { home, bytes, parked });
    }

    /// Brings an address space home and parks the one that is there.
    fn bring_home(&mut self, number: u64) {
        if self.resident == number {
            return;
        }
        if let Some(seat) = self.seats.get_mut(&self.resident) {
            seat.parked = Some(Parked::take(seat.home, seat.bytes));
        }
        self.resident = number;
        if let Some(seat) = self.seats.get_mut(&number)
            && let Some(mut parked) = seat.parked.take()
        {
            parked.go(seat.home);
        }
    }

    /// Forgets an address space and frees its memory. True when it was the last one.
    fn remove(&mut self, number: u64) -> bool {
        if let Some(seat) = self.seats.remove(&number)
            && self.resident == number
        {
            real::unmap(seat.home, seat.bytes);
            self.resident = NOBODY;
        }
        self.seats.is_empty()
    }
}

/// A block of an arena that twins share.
#[derive(Debug)]
pub(super) struct SharedBlock {
    /// The same as in `seats`, to be read without its lock.
    resident: AtomicU64,
    seats: Mutex<Seats>,
    last_twin: AtomicU64,
}

impl SharedBlock {
    /// For a block of the address space `number`, which lies there.
    pub(super) fn new(number: u64, start: u64, bytes: u64) -> SharedBlock {
        let mut seats = Seats::new(number);
        seats.add(number, start, bytes, None);
        SharedBlock { resident: AtomicU64::new(number), seats: Mutex::new(seats), last_twin: AtomicU64::new(start) }
    }

    /// The number for a new twin: as large as the block's address, so that no other block's twin has it.
    pub(super) fn new_number(&self) -> u64 {
        self.last_twin.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn add(&self, number: u64, start: u64, parked: Parked) {
        let bytes = parked.slot.bytes;
        lock(&self.seats).add(number, start, bytes, Some(parked));
    }

    pub(super) fn is_resident(&self, number: u64) -> bool {
        self.resident.load(Ordering::Acquire) == number
    }

    pub(super) fn enter(&self, number: u64) {
        if !self.is_resident(number) {
            lock(&self.seats).bring_home(number);
            self.resident.store(number, Ordering::Release);
        }
    }

    /// Forgets a twin and frees its memory. True when it was the last one: then nothing is mapped in the block.
    pub(super) fn remove(&self, number: u64) -> bool {
        let mut seats = lock(&self.seats);
        let last = seats.remove(number);
        self.resident.store(seats.resident, Ordering::Release);
        last
    }
}

/// Who uses the fixed addresses of this process.
static FIXED: Mutex<FixedAddresses> = Mutex::new(FixedAddresses { seats: Seats::new(NOBODY), holder: NOBODY });
/// The same as in `FIXED`, to be read without its lock. While a worker holds the fixed addresses, it alone changes this.
static FIXED_RESIDENT: AtomicU64 = AtomicU64::new(NOBODY);
static FIXED_FREED: Condvar = Condvar::new();

struct FixedAddresses {
    seats: Seats,
    /// The worker that may run what is resident.
    holder: u64,
}

/// Whether programs can be linked to `[start, start + bytes)`.
pub(crate) fn is_fixed_range(start: u64, bytes: u64) -> bool {
    start >= FIXED_START && start.checked_add(bytes).is_some_and(|end| end <= PARKING_START)
}

/// Adds an address space whose memory for fixed addresses from `start` on is in the parking.
pub(super) fn add_fixed(number: u64, start: u64, parked: Parked) {
    let bytes = parked.slot.bytes;
    lock(&FIXED).seats.add(number, start, bytes, Some(parked));
}

pub(super) fn is_fixed_resident(number: u64) -> bool {
    FIXED_RESIDENT.load(Ordering::Acquire) == number
}

/// Brings an address space to its fixed addresses, once no other worker than `holder` holds them.
pub(super) fn enter_fixed(number: u64, holder: u64) {
    let mut fixed = lock(&FIXED);
    while fixed.holder != NOBODY && fixed.holder != holder {
        fixed = FIXED_FREED.wait(fixed).unwrap_or_else(PoisonError::into_inner);
    }
    fixed.holder = holder;
    fixed.seats.bring_home(number);
    FIXED_RESIDENT.store(number, Ordering::Release);
}

/// Lets other workers have the fixed addresses, which the caller holds.
pub(crate) fn leave_fixed() {
    lock(&FIXED).holder = NOBODY;
    FIXED_FREED.notify_one();
}

/// Forgets an address space and frees its memory at fixed addresses. Its host is executed by the caller, so it does not run.
pub(super) fn remove_fixed(number: u64) {
    let mut fixed = lock(&FIXED);
    fixed.seats.remove(number);
    FIXED_RESIDENT.store(fixed.seats.resident, Ordering::Release);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
