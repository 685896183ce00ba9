//! Addresses that several address spaces use in turns: one lies at home there, the memory of the others is parked elsewhere.
//!
//! Two kinds share. Twins of `fork(2)` share the blocks of their arena; they belong to one host, which one worker executes at a
//! time, so their lock is never waited for. Programs that are linked to fixed addresses share those with all others of their kind
//! in the process, on any worker: a worker holds the fixed addresses while it runs such programs. Others leave theirs to it, where
//! they can; where they cannot (a program is replaced by one at fixed addresses in the midst of its turn), they sleep until the
//! holder has come to the end of a host. Nobody sleeps while holding something that the holder could need, so the wait ends.
//!
//! A turn is two moves of page tables (`real::move_range`). Its price depends on the number of real mappings, not on the memory.

use super::parked::{Parked, Spare};
use super::real;
use crate::arena::PARKING_START;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Nobody: no address space has this number.
const NOBODY: u64 = 0;
/// The lowest address of a program: `vm.mmap_min_addr` as kernels are built.
const FIXED_START: u64 = 0x1_0000;

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
    /// The place that the last one to come home has left: the next one to be parked needs it.
    left: Option<Parked>,
}

impl Seats {
    const fn new(resident: u64) -> Seats {
        Seats { resident, seats: BTreeMap::new(), left: None }
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
            seat.parked = Some(Parked::take(self.left.take(), seat.home, seat.bytes));
        }
        self.resident = number;
        if let Some(seat) = self.seats.get_mut(&number)
            && let Some(mut parked) = seat.parked.take()
        {
            parked.go(seat.home);
            self.left = Some(parked);
        }
    }

    /// Gives the one that lies at home what a parked one has, and the other way round.
    fn exchange(&mut self, resident: u64, parked: u64) {
        self.bring_home(parked);
        let seat = |seats: &mut Seats, number| seats.seats.get_mut(&number).and_then(|seat| seat.parked.take());
        let left = seat(self, resident);
        if let Some(other) = self.seats.get_mut(&parked) {
            other.parked = left;
        }
        self.resident = resident;
    }

    /// Where the memory of an address space lies that waits for its turn; None when it is at home.
    fn parked_at(&self, number: u64) -> Option<u64> {
        self.seats.get(&number)?.parked.as_ref().map(Parked::start)
    }

    /// Forgets an address space, and returns its memory if that is to be kept.
    fn remove(&mut self, number: u64, keep: bool) -> Option<Parked> {
        let seat = self.seats.remove(&number)?;
        if self.resident != number {
            return seat.parked.filter(|_| keep);
        }
        self.resident = NOBODY;
        if keep {
            return Some(Parked::take(self.left.take(), seat.home, seat.bytes));
        }
        real::unmap(seat.home, seat.bytes);
        None
    }
}

/// A block of an arena that twins share.
#[derive(Debug)]
pub(super) struct SharedBlock {
    start: u64,
    bytes: u64,
    /// The same as in `twins`, to be read without its lock.
    resident: AtomicU64,
    twins: Mutex<Twins>,
}

#[derive(Debug)]
struct Twins {
    seats: Seats,
    /// How many there ever were beside the first.
    born: u64,
    /// What a twin left: the next one is copied into it.
    spare: Option<Spare>,
}

impl Twins {
    fn expects_more(&self) -> bool {
        self.born > 1 && self.seats.seats.len() > 1
    }
}

impl SharedBlock {
    /// For a block of the address space `number`, which lies there.
    pub(super) fn new(number: u64, start: u64, bytes: u64) -> SharedBlock {
        let mut seats = Seats::new(number);
        seats.add(number, start, bytes, None);
        let twins = Mutex::new(Twins { seats, born: 0, spare: None });
        SharedBlock { start, bytes, resident: AtomicU64::new(number), twins }
    }

    /// The number for a new twin: as large as the block's address, so that no other block's twin has it.
    pub(super) fn new_number(&self) -> u64 {
        let mut twins = lock(&self.twins);
        twins.born += 1;
        self.start + twins.born
    }

    /// Keeps a place for the one at home, which will be parked when a twin's turn comes. False when the parking is full.
    pub(super) fn keep_place(&self) -> bool {
        let left = &mut lock(&self.twins).seats.left;
        if left.is_none() {
            *left = Parked::empty(self.start, self.bytes);
        }
        left.is_some()
    }

    /// A copy of what lies at home, which `Parked::copy_of` explains. `layout` tells what is mapped.
    pub(super) fn copy(&self, guards: &[(u64, u64)], layout: u64) -> Option<Parked> {
        let spare = lock(&self.twins).spare.take().filter(|spare| spare.layout() == layout);
        match spare {
            Some(spare) => spare.copy_of(self.start, guards),
            None => Parked::copy_of(self.start, self.bytes, guards),
        }
    }

    pub(super) fn add(&self, number: u64, parked: Parked) {
        lock(&self.twins).seats.add(number, self.start, self.bytes, Some(parked));
    }

    /// Gives the twin that lies at home, which stays there, the memory of one that is parked, and the other way round.
    pub(super) fn exchange(&self, resident: u64, parked: u64) {
        lock(&self.twins).seats.exchange(resident, parked);
    }

    pub(super) fn is_resident(&self, number: u64) -> bool {
        self.resident.load(Ordering::Acquire) == number
    }

    /// Where the block's addresses begin.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where what belongs at `start` lies now of the address space `number`, which must be one of those that share the block.
    pub(super) fn location(&self, number: u64) -> u64 {
        let twins = lock(&self.twins);
        let parked = twins.seats.seats.get(&number).and_then(|seat| seat.parked.as_ref());
        parked.map_or(self.start, Parked::start)
    }

    pub(super) fn enter(&self, number: u64) {
        if !self.is_resident(number) {
            lock(&self.twins).seats.bring_home(number);
            self.resident.store(number, Ordering::Release);
        }
    }

    /// Whether the memory of a twin that ends is worth to be kept for a next one: who forks twice is expected to go on.
    pub(super) fn expects_twins(&self) -> bool {
        lock(&self.twins).expects_more()
    }

    /// Forgets a twin, in which `layout` was mapped, and frees its memory or keeps it for the next one. True when it was the last
    /// one: then nothing is mapped in the block.
    pub(super) fn remove(&self, number: u64, layout: u64) -> bool {
        let mut twins = lock(&self.twins);
        let keep = twins.expects_more() && twins.spare.is_none();
        let left = twins.seats.remove(number, keep);
        if keep {
            twins.spare = left.and_then(|parked| Spare::new(parked, layout));
        }
        self.resident.store(twins.seats.resident, Ordering::Release);
        twins.seats.seats.is_empty()
    }
}

/// Who uses the fixed addresses of this process.
static FIXED: Mutex<FixedAddresses> =
    Mutex::new(FixedAddresses { seats: Seats::new(NOBODY), taken: 0, spares: Vec::new() });
static FIXED_PROGRAMS: AtomicBool = AtomicBool::new(false);
/// The worker that may run what is resident. Changes under the lock of `FIXED`.
static FIXED_HOLDER: AtomicU64 = AtomicU64::new(NOBODY);
/// Workers that sleep until they can have the fixed addresses. Changes under the lock of `FIXED`.
static FIXED_SLEEPERS: AtomicU32 = AtomicU32::new(0);
/// The same as in `FIXED`, to be read without its lock. While a worker holds the fixed addresses, it alone changes this.
static FIXED_RESIDENT: AtomicU64 = AtomicU64::new(NOBODY);
static FIXED_FREED: Condvar = Condvar::new();

struct FixedAddresses {
    seats: Seats,
    /// How often somebody entered them.
    taken: u64,
    /// What twins left, the latest last, for twins of the same families.
    spares: Vec<Spare>,
}

/// As many families' spares are kept.
const FIXED_SPARES: usize = 4;

/// Whether programs can be linked to `[start, start + bytes)`.
pub(crate) fn is_fixed_range(start: u64, bytes: u64) -> bool {
    start >= FIXED_START && start.checked_add(bytes).is_some_and(|end| end <= PARKING_START)
}

/// Adds an address space whose memory for fixed addresses from `start` on is in the parking.
pub(super) fn add_fixed(number: u64, start: u64, parked: Parked) {
    let bytes = parked.bytes();
    lock(&FIXED).seats.add(number, start, bytes, Some(parked));
    FIXED_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Whether this process has, or had, programs at fixed addresses.
#[inline]
pub fn are_fixed_programs() -> bool {
    FIXED_PROGRAMS.load(Ordering::Relaxed)
}

/// A copy of what lies at fixed addresses, which `Parked::copy_of` explains. `layout` tells what is mapped.
pub(super) fn copy_fixed(start: u64, bytes: u64, guards: &[(u64, u64)], layout: u64) -> Option<Parked> {
    let spare = {
        let mut fixed = lock(&FIXED);
        let fits = |spare: &Spare| spare.layout() == layout && spare.bytes() == bytes;
        fixed.spares.iter().position(fits).map(|index| fixed.spares.remove(index))
    };
    match spare {
        Some(spare) => spare.copy_of(start, guards),
        None => Parked::copy_of(start, bytes, guards),
    }
}

pub(super) fn is_fixed_resident(number: u64) -> bool {
    FIXED_RESIDENT.load(Ordering::Acquire) == number
}

/// Lets `access` work where something of an address space can be found now that lies at `address` when it is at home, of fixed
/// addresses that begin at `start`. Nobody takes turns meanwhile.
pub(super) fn with_fixed<T>(number: u64, start: u64, address: u64, access: impl FnOnce(u64) -> T) -> T {
    let fixed = lock(&FIXED);
    let parked = fixed.seats.parked_at(number);
    access(parked.map_or(address, |at| at + (address - start)))
}

/// Brings an address space to its fixed addresses, once no other worker than `holder` holds them. Asleep: to wait awake made runs
/// slower in which all guests lie at fixed addresses, since the addresses then change hands more often.
pub(super) fn enter_fixed(number: u64, holder: u64) {
    enter_locked(lock(&FIXED), number, holder);
}

fn enter_locked(mut fixed: MutexGuard<'_, FixedAddresses>, number: u64, holder: u64) {
    FIXED_SLEEPERS.fetch_add(1, Ordering::SeqCst);
    while !may_hold(holder) {
        fixed = FIXED_FREED.wait(fixed).unwrap_or_else(PoisonError::into_inner);
    }
    FIXED_SLEEPERS.fetch_sub(1, Ordering::SeqCst);
    fixed.taken += 1;
    FIXED_HOLDER.store(holder, Ordering::SeqCst);
    fixed.seats.bring_home(number);
    FIXED_RESIDENT.store(number, Ordering::Release);
}

fn may_hold(worker: u64) -> bool {
    let holder = FIXED_HOLDER.load(Ordering::SeqCst);
    holder == NOBODY || holder == worker
}

/// Makes a worker the holder, unless another one is; without waiting for a turn that another one takes.
pub(crate) fn take_fixed(worker: u64) -> bool {
    if !may_hold(worker) {
        return false;
    }
    let _fixed = lock(&FIXED);
    let may_hold = may_hold(worker);
    if may_hold {
        FIXED_HOLDER.store(worker, Ordering::SeqCst);
    }
    may_hold
}

pub(crate) fn are_sleepers() -> bool {
    FIXED_SLEEPERS.load(Ordering::SeqCst) > 0
}

/// As `leave_fixed` and then `enter_fixed` by their holder, but somebody who waits for them has them in between.
pub(super) fn pass_fixed(number: u64, holder: u64) {
    if !are_sleepers() {
        return;
    }
    let mut fixed = lock(&FIXED);
    FIXED_HOLDER.store(NOBODY, Ordering::SeqCst);
    let taken = fixed.taken;
    FIXED_FREED.notify_one();
    while fixed.taken == taken && are_sleepers() {
        // Who waits takes them as soon as the lock is free.
        drop(fixed);
        std::thread::yield_now();
        fixed = lock(&FIXED);
    }
    enter_locked(fixed, number, holder);
}

/// Lets other workers have the fixed addresses, which the caller holds.
pub(crate) fn leave_fixed() {
    let _fixed = lock(&FIXED);
    FIXED_HOLDER.store(NOBODY, Ordering::SeqCst);
    FIXED_FREED.notify_one();
}

/// Forgets an address space, in which `layout` was mapped, and frees its memory at fixed addresses or keeps it for a twin. The
/// caller executes its host, so what is forgotten does not run.
pub(super) fn remove_fixed(number: u64, layout: u64, keep: bool) {
    let mut fixed = lock(&FIXED);
    let left = fixed.seats.remove(number, keep);
    if let Some(spare) = left.and_then(|parked| Spare::new(parked, layout)) {
        fixed.spares.push(spare);
        let too_many = fixed.spares.len().saturating_sub(FIXED_SPARES);
        fixed.spares.drain(..too_many);
    }
    FIXED_RESIDENT.store(fixed.seats.resident, Ordering::Release);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
