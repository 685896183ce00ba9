//! What really lies under a guest's addresses, and the few calls of the real kernel that change it.
//!
//! Most of an arena is one anonymous mapping, readable and writable, made once. Here is the list of the exceptions in one
//! process, and the functions that make them. All of them count.

use super::room;
use crate::counters;
use crate::image::PAGE;
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// What an exception is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealKind {
    /// A private mapping of the store; the value is the store's offset for the start of the range.
    Store { offset: u64 },
    /// The same, given up: it faults.
    GuardedStore { offset: u64 },
    /// A mapping of some real file, or of memory that is shared, with its real protection.
    File { prot: u8 },
    /// Anonymous memory with a protection of its own.
    Protected { prot: u8 },
    /// Plain memory with guard pages: it faults, and reads as zero once they are gone.
    Guarded,
    /// A mapping without rights where plain memory was: it faults, and reads as zero once plain memory is there again.
    Closed,
    /// Plain memory that nobody has mapped and that does not fault yet: its process maps the same addresses again and again. `since` is
    /// the number of the call that gave it up.
    Freed { since: u32 },
}

impl RealKind {
    /// Whether nothing is there, and every access faults.
    pub(crate) fn is_closed(self) -> bool {
        matches!(self, RealKind::Guarded | RealKind::GuardedStore { .. } | RealKind::Closed)
    }

    /// Whether it differs from plain memory for the kernel too.
    fn shows(self) -> bool {
        !matches!(self, RealKind::Freed { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RealMap {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: RealKind,
}

/// A part of a range: an exception, or plain memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: Option<RealKind>,
}

impl Piece {
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.kind.is_some_and(RealKind::is_closed)
    }
}

/// The exceptions of one process, sorted, without overlaps. Copies from and to a guest may change it: they open what was left closed.
#[derive(Debug, Default, Clone)]
pub(crate) struct RealMaps {
    list: RefCell<Vec<RealMap>>,
    layout: Cell<u64>,
}

impl RealMaps {
    /// A number that stands for what is mapped: two address spaces of a family with the same number have the same mappings.
    pub(crate) fn layout(&self) -> u64 {
        self.layout.get()
    }

    /// To be called when what is mapped changes in a way that is not told by `set` and `remove`.
    pub(crate) fn new_layout(&self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.layout.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// The parts of exceptions in `[start, end)`.
    pub(crate) fn parts(&self, start: u64, end: u64) -> Vec<RealMap> {
        let list = self.list.borrow();
        let first = list.partition_point(|map| map.end <= start);
        list[first..].iter().take_while(|map| map.start < end).map(|map| cut(map, start, end)).collect()
    }

    /// All of `[start, end)`, exceptions and what lies between them.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = start;
        for part in self.parts(start, end) {
            if part.start > at {
                pieces.push(Piece { start: at, end: part.start, kind: None });
            }
            pieces.push(Piece { start: part.start, end: part.end, kind: Some(part.kind) });
            at = part.end;
        }
        if at < end {
            pieces.push(Piece { start: at, end, kind: None });
        }
        pieces
    }

    /// The whole exception around an address.
    pub(crate) fn around(&self, address: u64) -> Option<RealMap> {
        let list = self.list.borrow();
        let index = list.partition_point(|map| map.end <= address);
        list.get(index).filter(|map| map.start <= address).copied()
    }

    /// The ranges in `[start, end)` that fault because of guard pages, relative to `start`.
    pub(crate) fn guarded(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let parts = self.parts(start, end);
        let guards = parts.iter().filter(|part| matches!(part.kind, RealKind::Guarded | RealKind::GuardedStore { .. }));
        guards.map(|part| (part.start - start, part.end - start)).collect()
    }

    /// What was freed and does not fault yet.
    pub(crate) fn freed(&self) -> Vec<RealMap> {
        self.list.borrow().iter().filter(|map| !map.kind.shows()).copied().collect()
    }

    /// How many of the exceptions are mappings of their own.
    pub(crate) fn count(&self) -> usize {
        let is_mapping = |map: &&RealMap| !matches!(map.kind, RealKind::Guarded | RealKind::Freed { .. });
        self.list.borrow().iter().filter(is_mapping).count()
    }

    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        let list = self.list.borrow();
        let first = list.partition_point(|map| map.end <= start);
        list.get(first).is_some_and(|map| map.start < end)
    }

    pub(crate) fn remove(&self, start: u64, end: u64) {
        let mut list = self.list.borrow_mut();
        let first = list.partition_point(|map| map.end <= start);
        let last = first + list[first..].partition_point(|map| map.start < end);
        if first == last {
            return;
        }
        if list[first..last].iter().any(|map| map.kind.shows()) {
            self.new_layout();
        }
        let (head, tail) = (list[first], list[last - 1]);
        let head = (head.start < start).then(|| cut(&head, head.start, start));
        let tail = (tail.end > end).then(|| cut(&tail, end, tail.end));
        list.splice(first..last, head.into_iter().chain(tail));
    }

    /// Notes what lies in a range; joined with what is of the same kind beside it.
    pub(crate) fn set(&self, start: u64, end: u64, kind: RealKind) {
        self.remove(start, end);
        if kind.shows() {
            self.new_layout();
        }
        let mut list = self.list.borrow_mut();
        let mut at = list.partition_point(|map| map.start < start);
        let mut map = RealMap { start, end, kind };
        if at > 0 && joins(&list[at - 1], &map) {
            at -= 1;
            map.start = list.remove(at).start;
        }
        if list.get(at).is_some_and(|next| joins(&map, next)) {
            map.end = list.remove(at).end;
        }
        list.insert(at, map);
    }
}

fn joins(map: &RealMap, next: &RealMap) -> bool {
    let alike =
        matches!(map.kind, RealKind::Guarded | RealKind::Closed | RealKind::Protected { .. } | RealKind::Freed { .. });
    alike && map.end == next.start && map.kind == next.kind
}

fn cut(map: &RealMap, start: u64, end: u64) -> RealMap {
    let (start, end) = (start.max(map.start), end.min(map.end));
    let kind = match map.kind {
        RealKind::Store { offset } => RealKind::Store { offset: offset + (start - map.start) },
        RealKind::GuardedStore { offset } => RealKind::GuardedStore { offset: offset + (start - map.start) },
        kind => kind,
    };
    RealMap { start, end, kind }
}

/// Serialises calls that change the memory map: the kernel's own lock is slower when threads fight for it.
static MAP_LOCK: Mutex<()> = Mutex::new(());

/// Takes the lock of the memory map. It is held for microseconds, and to sleep and be woken takes longer: so it is waited for awake
/// for a while (two threads that load guests gain a third by this).
fn lock_map() -> MutexGuard<'static, ()> {
    const TRIES: u32 = 5_000;
    const PAUSES: u32 = 8;
    for _ in 0..TRIES {
        match MAP_LOCK.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
        }
    }
    MAP_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By how many mappings a change in the middle of one can grow the map.
const SPLIT: usize = 2;

/// Maps part of a file over `[start, start + bytes)`; false when the kernel refuses.
pub(crate) fn map_file(start: u64, bytes: u64, prot: u8, shared: bool, fd: RawFd, offset: u64) -> bool {
    if !room::for_mappings(SPLIT) {
        return false;
    }
    let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_NORESERVE };
    map(start, bytes, prot, kind, fd, offset)
}

/// Maps a file's code over a range for a moment and puts what lies there back, so that perf knows the range by the file. Does nothing
/// when the kernel refuses the first step.
pub(crate) fn show_file_under(start: u64, bytes: u64, fd: RawFd, offset: u64) {
    counters::count_map_call();
    let _guard = lock_map();
    let (length, code) = (bytes as usize, libc::PROT_READ | libc::PROT_EXEC);
    let move_to = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the range belongs to an address space whose threads do not execute (its only caller has it). The place aside is fresh,
    // reserved by the first call and given up by the last; whatever lay in the range lies there again afterwards.
    let restored = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let aside = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0);
        if aside == libc::MAP_FAILED {
            return;
        }
        if libc::mremap(start as *mut _, length, length, move_to, aside) == libc::MAP_FAILED {
            libc::munmap(aside, length);
            return;
        }
        libc::mmap(start as *mut _, length, code, libc::MAP_PRIVATE | libc::MAP_FIXED, fd, offset as i64);
        libc::mremap(aside, length, length, move_to, start as *mut libc::c_void)
    };
    assert!(restored != libc::MAP_FAILED, "code of a guest is lost: {}", std::io::Error::last_os_error());
}

/// Makes `[start, start + bytes)` plain arena memory again: zero, readable, writable.
pub(crate) fn map_plain(start: u64, bytes: u64) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(start, bytes, 3, flags, -1, 0)
}

/// Leaves a mapping without any rights in `[start, start + bytes)`; false when the kernel refuses.
pub(crate) fn map_closed(start: u64, bytes: u64) -> bool {
    room::for_mappings(SPLIT)
        && map(start, bytes, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
}

/// Maps zeroes that address spaces can share over `[start, start + bytes)`.
pub(crate) fn map_shared(start: u64, bytes: u64) -> bool {
    room::for_mappings(SPLIT)
        && map(start, bytes, 3, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
}

/// Leaves nothing mapped in `[start, start + bytes)`.
pub(crate) fn unmap(start: u64, bytes: u64) {
    counters::count_map_call();
    room::changed(bytes);
    let _guard = lock_map();
    // SAFETY: as in `map`; what lay there is given up by its owner.
    unsafe { libc::munmap(start as *mut _, bytes as usize) };
}

fn map(start: u64, bytes: u64, prot: u8, flags: i32, fd: RawFd, offset: u64) -> bool {
    counters::count_map_call();
    room::changed(bytes);
    let _guard = lock_map();
    // SAFETY: the range lies in a block of arenas that the calling address space owns (its only caller checks), so nothing of the
    // simulator's is replaced.
    let address = unsafe {
        libc::mmap(start as *mut _, bytes as usize, i32::from(prot), flags | libc::MAP_FIXED, fd, offset as i64)
    };
    address as u64 == start
}

/// Changes the real protection; false when the kernel refuses.
pub(crate) fn protect(start: u64, bytes: u64, prot: u8) -> bool {
    if !room::for_mappings(SPLIT) {
        return false;
    }
    counters::count_map_call();
    room::changed(bytes);
    let _guard = lock_map();
    // SAFETY: as in `map`.
    unsafe { libc::mprotect(start as *mut _, bytes as usize, i32::from(prot)) == 0 }
}

const MADV_POPULATE_READ: i32 = 22;
const MADV_POPULATE_WRITE: i32 = 23;
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// As [`populate`], for ranges relative to `base`.
pub(crate) fn populate_ranges(base: u64, ranges: &[(u64, u64)]) {
    let _ = advise_ranges(base, ranges, MADV_POPULATE_WRITE);
}

/// As [`guard`], for ranges relative to `base`.
pub(crate) fn guard_ranges(base: u64, ranges: &[(u64, u64)]) -> bool {
    advise_ranges(base, ranges, MADV_GUARD_INSTALL)
}

/// As [`discard`], for ranges relative to `base`.
pub(crate) fn discard_ranges(base: u64, ranges: &[(u64, u64)]) {
    let _ = advise_ranges(base, ranges, libc::MADV_DONTNEED);
}

/// Gives advice on ranges relative to `base`: in one call on kernels that let a process advise itself (6.13). Whether all was taken.
fn advise_ranges(base: u64, ranges: &[(u64, u64)], advice: i32) -> bool {
    /// UIO_MAXIOV
    const MOST_RANGES: usize = 1024;
    let mut taken = true;
    for ranges in ranges.chunks(MOST_RANGES) {
        let vector: Vec<libc::iovec> = ranges
            .iter()
            .map(|(from, to)| libc::iovec { iov_base: (base + from) as *mut _, iov_len: (to - from) as usize })
            .collect();
        counters::count_advise_call();
        // SAFETY: as in `map`; contents do not change, or are given up; the vector outlives the call.
        let advised =
            unsafe { libc::syscall(libc::SYS_process_madvise, own_pidfd(), vector.as_ptr(), vector.len(), advice, 0) };
        let wanted: u64 = ranges.iter().map(|(from, to)| to - from).sum();
        if advised < 0 || (advised as u64) < wanted {
            for (from, to) in ranges {
                taken &= advise(base + from, to - from, advice);
            }
        }
    }
    taken
}

fn advise(start: u64, bytes: u64, advice: i32) -> bool {
    counters::count_advise_call();
    // SAFETY: as in `map`; contents do not change, or are given up on the guest's demand.
    unsafe { libc::madvise(start as *mut _, bytes as usize, advice) == 0 }
}

/// A descriptor of this process, for calls on memory that ask for one; -1 when the kernel has none (before 5.3).
fn own_pidfd() -> RawFd {
    static PIDFD: OnceLock<RawFd> = OnceLock::new();
    // SAFETY: opens a descriptor and nothing else; it is kept for the life of the process.
    *PIDFD.get_or_init(|| unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) } as RawFd)
}

/// Makes private pages present and written-to at once: what a starting program is about to relocate would otherwise cost two
/// faults a page. Only a hint: a kernel that does not know the advice (before 5.14) faults page by page.
pub(crate) fn populate(start: u64, bytes: u64) {
    advise(start, bytes, MADV_POPULATE_WRITE);
}

/// Makes a range fault on access, without a change of the memory map; the pages are given back. False where the kernel cannot
/// (before Linux 6.13, for mappings of files before 6.15).
pub(crate) fn guard(start: u64, bytes: u64) -> bool {
    advise(start, bytes, MADV_GUARD_INSTALL)
}

/// Undoes `guard`; the pages read as zero.
pub(crate) fn unguard(start: u64, bytes: u64) {
    advise(start, bytes, MADV_GUARD_REMOVE);
}

/// Gives the pages back: plain memory reads as zero afterwards, a private mapping as its source.
pub(crate) fn discard(start: u64, bytes: u64) {
    advise(start, bytes, libc::MADV_DONTNEED);
}

/// Frees the part of a file or of shared memory that a mapping shows: it reads as zero. False where the file's system cannot.
pub(crate) fn punch(start: u64, bytes: u64) -> bool {
    advise(start, bytes, libc::MADV_REMOVE)
}

/// Whether the page at an address can be read: not where a file that is mapped there has ended. Pages of files that are mapped stay with the
/// kernel in any case.
pub(crate) fn can_fetch(page: u64) -> bool {
    advise(page, PAGE, MADV_POPULATE_READ) || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// What a move leaves where the memory was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing: a hole.
    Hole,
    /// The same mappings without their private pages.
    Mappings,
}

/// Moves all mappings with their pages from `[from, from + bytes)` to `to`, where nothing is mapped or nothing is needed. Page
/// tables move, so the price does not depend on the pages. False when the kernel refuses; then all is as before.
pub(crate) fn move_range(from: u64, to: u64, bytes: u64, leaving: Leaving) -> bool {
    /// Set when this kernel moves one mapping at a time (before Linux 6.17).
    static PIECEWISE: AtomicBool = AtomicBool::new(false);
    let _guard = lock_map();
    if !PIECEWISE.load(Ordering::Relaxed) {
        if move_piece(from, to, bytes, leaving) {
            return true;
        }
        move_back(from, to, bytes);
        PIECEWISE.store(true, Ordering::Relaxed);
    }
    let moved = move_pieces(from, to, bytes, |from, to, bytes| move_piece(from, to, bytes, leaving));
    if !moved {
        move_back(from, to, bytes);
    }
    moved
}

/// As `move_range`, mapping by mapping. Where they end is found by trying: a range that reaches over an end is refused.
fn move_pieces(from: u64, to: u64, bytes: u64, move_piece: impl Fn(u64, u64, u64) -> bool) -> bool {
    let mut done = 0;
    while done < bytes {
        let mut length = bytes - done;
        while !move_piece(from + done, to + done, length) {
            length = (length / 2) & !(PAGE - 1);
            if length == 0 {
                return false;
            }
        }
        done += length;
    }
    true
}

fn move_piece(from: u64, to: u64, bytes: u64, leaving: Leaving) -> bool {
    counters::count_map_call();
    let keep = if leaving == Leaving::Mappings { libc::MREMAP_DONTUNMAP } else { 0 };
    // SAFETY: source and target belong to the calling address space: its home, or a parking slot that it owns.
    let address = unsafe {
        libc::mremap(
            from as *mut libc::c_void,
            bytes as usize,
            bytes as usize,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | keep,
            to as *mut libc::c_void,
        )
    };
    address as u64 == to
}

/// Moves a mapping, resized, over what lies at `to`; with `from_bytes` 0 a shared mapping stays, and is doubled. False when the kernel
/// refuses.
pub(crate) fn remap(from: u64, from_bytes: u64, to: u64, to_bytes: u64, leaving: Leaving) -> bool {
    counters::count_map_call();
    let _guard = lock_map();
    let keeps = if leaving == Leaving::Mappings { libc::MREMAP_DONTUNMAP } else { 0 };
    // SAFETY: source and target belong to the calling address space, which knows what it maps there.
    let address = unsafe {
        libc::mremap(
            from as *mut libc::c_void,
            from_bytes as usize,
            to_bytes as usize,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | keeps,
            to as *mut libc::c_void,
        )
    };
    address as u64 == to
}

/// Maps what follows the shared mapping that ends at `end` behind it, over what lies there. False when the kernel refuses.
pub(crate) fn extend(end: u64, bytes: u64) -> bool {
    if !room::for_mappings(SPLIT) {
        return false;
    }
    counters::count_map_call();
    let _guard = lock_map();
    // The last page is mapped once more elsewhere, with what follows, for only so nothing foreign can come to lie between.
    let (last, wanted) = ((end - PAGE) as *mut libc::c_void, (PAGE + bytes) as usize);
    // SAFETY: the last page stays as it is, and the kernel chooses the place of the new mapping.
    let twin = unsafe { libc::mremap(last, 0, wanted, libc::MREMAP_MAYMOVE) };
    if twin == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the twin is this function's, and the caller owns the place behind the old mapping.
    unsafe {
        let (rest, bytes) = (twin.byte_add(PAGE as usize), bytes as usize);
        let kind = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let moved = libc::mremap(rest, bytes, bytes, kind, end as *mut libc::c_void);
        libc::munmap(twin, if moved == libc::MAP_FAILED { wanted } else { PAGE as usize });
        moved as u64 == end
    }
}

/// Undoes a move that was begun: what has arrived at `to` goes back.
fn move_back(from: u64, to: u64, bytes: u64) {
    for (start, end, _) in mappings(to, to + bytes) {
        let back = move_piece(start, from + (start - to), end - start, Leaving::Hole);
        assert!(back, "guest memory at {start:#x} cannot go home: {}", std::io::Error::last_os_error());
    }
}

/// The real mappings in `[start, end)`, cut to it: (start, end, protection). Slow, for what is rare.
pub(crate) fn mappings(start: u64, end: u64) -> Vec<(u64, u64, u8)> {
    let Ok(text) = std::fs::read_to_string("/proc/self/maps") else { return Vec::new() };
    text.lines()
        .filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
            let right = |at: usize, letter: u8, bit: u8| if rest.as_bytes()[at] == letter { bit } else { 0 };
            let prot = right(0, b'r', 1) | right(1, b'w', 2) | right(2, b'x', 4);
            (from < end && to > start).then_some((from.max(start), to.min(end), prot))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{BLOCK_BYTES, HostRegion, ParkingSlot, map_arenas};

    /// A block with mappings of several kinds, and a place in the parking.
    fn block(host: u32) -> (u64, ParkingSlot) {
        map_arenas().unwrap();
        let (home, bytes) = HostRegion::new(host, 64).take(BLOCK_BYTES).unwrap();
        assert!(protect(home + 3 * PAGE, 2 * PAGE, 7) && protect(home + (8 << 20), PAGE, 1));
        assert!(map_shared(home + (16 << 20), 4 * PAGE));
        for at in [0, 4 * PAGE, 16 << 20, bytes - 1] {
            byte(home + at, Some(at as u8 | 1));
        }
        let slot = ParkingSlot::for_home(home, bytes).unwrap();
        (home, slot)
    }

    fn byte(at: u64, value: Option<u8>) -> u8 {
        let at = at as *mut u8;
        // SAFETY: the tests own what they touch, which is mapped.
        unsafe {
            if let Some(value) = value {
                at.write(value);
            }
            at.read()
        }
    }

    /// Mappings relative to `start`, joined where the kernel may or may not do so.
    fn shape(start: u64) -> Vec<(u64, u64, u8)> {
        let mut list: Vec<(u64, u64, u8)> = Vec::new();
        for (from, to, prot) in mappings(start, start + BLOCK_BYTES) {
            match list.last_mut() {
                Some(last) if last.1 == from - start && last.2 == prot => last.1 = to - start,
                _ => list.push((from - start, to - start, prot)),
            }
        }
        list
    }

    fn check(start: u64) {
        for at in [0, 4 * PAGE, 16 << 20, BLOCK_BYTES - 1] {
            assert_eq!(byte(start + at, None), at as u8 | 1);
        }
    }

    /// Moves a mapping, or a part of one, and nothing larger, as kernels did before 6.17.
    fn one_mapping(leaving: Leaving) -> impl Fn(u64, u64, u64) -> bool {
        move |from, to, bytes| {
            let inside = |(start, end, _): &(u64, u64, u8)| *start == from && *end == from + bytes;
            mappings(from, from + bytes).first().is_some_and(inside) && move_piece(from, to, bytes, leaving)
        }
    }

    #[test]
    fn mappings_move_one_by_one_as_they_do_at_once() {
        let (home, slot) = block(60);
        let before = shape(home);
        assert!(move_pieces(home, slot.start, BLOCK_BYTES, one_mapping(Leaving::Hole)));
        assert_eq!((shape(home), shape(slot.start)), (vec![], before.clone()));
        check(slot.start);
        assert!(move_range(slot.start, home, BLOCK_BYTES, Leaving::Hole));
        assert_eq!((shape(home), shape(slot.start)), (before.clone(), vec![]));
        check(home);
        assert!(move_pieces(home, slot.start, BLOCK_BYTES, one_mapping(Leaving::Mappings)));
        assert_eq!((shape(home), shape(slot.start)), (before.clone(), before));
        check(slot.start);
        assert_eq!(byte(home, None), 0);
        assert_eq!(byte(home + (16 << 20), None), 1);
        unmap(slot.start, BLOCK_BYTES);
        map_plain(home, BLOCK_BYTES);
    }

    #[test]
    fn a_move_that_fails_halfway_is_undone() {
        let (home, slot) = block(61);
        unmap(home + (32 << 20), PAGE);
        let before = shape(home);
        assert!(!move_pieces(home, slot.start, BLOCK_BYTES, one_mapping(Leaving::Hole)));
        assert_ne!(shape(home), before);
        move_back(home, slot.start, BLOCK_BYTES);
        assert_eq!((shape(home), shape(slot.start)), (before, vec![]));
        check(home);
        map_plain(home, BLOCK_BYTES);
    }
}
