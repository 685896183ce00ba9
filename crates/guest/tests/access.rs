//! Calls of the real kernel that guests' memory costs: a test alone in its process, whose counters it reads.

use guest::*;

const RW: u8 = PROT_READ | PROT_WRITE;
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

struct Guest {
    /// Catches faults in copies.
    _worker: Worker,
    region: HostRegion,
    space: AddressSpace,
}

impl Guest {
    fn new(host: u32) -> Guest {
        map_arenas().unwrap();
        let mut region = HostRegion::new(host, 64);
        let space = AddressSpace::new(&mut region).unwrap();
        Guest { _worker: Worker::new().unwrap(), region, space }
    }

    fn map(&mut self, bytes: u64, prot: u8) -> u64 {
        self.map_as(bytes, prot, Backing::Anonymous)
    }

    fn map_as(&mut self, bytes: u64, prot: u8, backing: Backing<'_>) -> u64 {
        let request = MapRequest { hint: 0, bytes, prot, shared: false, fixed: false, no_replace: false, backing };
        self.space.mmap(&mut self.region, &request).unwrap()
    }

    fn put(&self, address: u64, value: u64) {
        self.space.write_value(address, &value).unwrap();
    }

    fn get(&self, address: u64) -> u64 {
        self.space.read_value(address).unwrap()
    }
}

/// Calls of the real kernel: (that change the memory map, advice).
fn calls() -> (u64, u64) {
    let counters = counters();
    (counters.map_calls, counters.advise_calls)
}

/// How many calls each of `rounds` rounds costs, after some that warm up.
fn calls_of(rounds: u64, mut round: impl FnMut(u64)) -> (f64, f64) {
    (0..300).for_each(&mut round);
    let before = calls();
    (0..rounds).for_each(&mut round);
    let after = calls();
    ((after.0 - before.0) as f64 / rounds as f64, (after.1 - before.1) as f64 / rounds as f64)
}

/// What others count meanwhile would be counted too: the one test of this process goes through all loops.
#[test]
fn loops_over_memory_make_no_calls() {
    buffers_that_are_cut_and_freed();
    buffers_that_are_filled();
    several_buffers_at_a_time();
    heaps_that_grow_and_shrink();
    stacks_of_threads();
    large_blocks();
    compilers_that_change_rights();
    collectors_that_close_pages();
    reservations_that_are_filled();
}

/// As Python's asyncio receives a datagram: 256 KiB, of which a little is written, cut to a page, freed.
fn buffers_that_are_cut_and_freed() {
    let mut guest = Guest::new(0);
    let mut wrong = 0;
    let cost = calls_of(10_000, |round| {
        let at = guest.map(65 * PAGE, RW);
        wrong += guest.get(at + 100) + guest.get(at + 2000);
        guest.put(at + 100, round + 1);
        guest.put(at + 2000, round + 1);
        let cut = MoveRequest { old: at, old_bytes: 65 * PAGE, new_bytes: PAGE, may_move: true, keep: false, to: None };
        assert_eq!(guest.space.mremap(&mut guest.region, &cut), Ok(at));
        guest.space.munmap(at, PAGE).unwrap();
        guest.space.rest();
    });
    assert_eq!((cost, wrong), ((0.0, 0.0), 0), "calls, and what was not zero");
    guest.space.release(&mut guest.region);
}

fn buffers_that_are_filled() {
    let mut guest = Guest::new(1);
    let mut wrong = 0;
    let cost = calls_of(3_000, |round| {
        let pages = 40 + round % 20;
        let at = guest.map(pages * PAGE, RW);
        for page in 0..pages {
            wrong += guest.get(at + page * PAGE + 8);
            guest.put(at + page * PAGE + 8, 7);
        }
        guest.space.munmap(at, pages * PAGE).unwrap();
    });
    assert_eq!((cost, wrong), ((0.0, 0.0), 0), "calls, and what was not zero");
    guest.space.release(&mut guest.region);
}

fn several_buffers_at_a_time() {
    let mut guest = Guest::new(2);
    let mut held = std::collections::VecDeque::new();
    let mut wrong = 0;
    let cost = calls_of(10_000, |round| {
        let pages = 20 + round % 7 * 3;
        let at = guest.map(pages * PAGE, RW);
        wrong += guest.get(at) + guest.get(at + (pages - 1) * PAGE);
        guest.put(at, 1);
        guest.put(at + (pages - 1) * PAGE, 1);
        held.push_back((at, pages));
        if held.len() > 5 {
            let (at, pages) = held.pop_front().unwrap();
            guest.space.munmap(at, pages * PAGE).unwrap();
        }
    });
    assert_eq!((cost, wrong), ((0.0, 0.0), 0), "calls, and what was not zero");
    guest.space.release(&mut guest.region);
}

fn heaps_that_grow_and_shrink() {
    let mut guest = Guest::new(3);
    let start = guest.space.brk(0);
    let mut wrong = 0;
    let cost = calls_of(3_000, |round| {
        let bytes = (1 + round % 5) * 40 * PAGE;
        assert_eq!(guest.space.brk(start + bytes), start + bytes);
        wrong += guest.get(start) + guest.get(start + bytes - 8);
        guest.put(start, 1);
        guest.put(start + bytes - 8, 1);
        assert_eq!(guest.space.brk(start + PAGE / 2), start + PAGE / 2);
        guest.put(start, 0);
    });
    assert_eq!((cost, wrong), ((0.0, 0.0), 0), "calls, and what was not zero");
    guest.space.release(&mut guest.region);
}

/// As the C library makes a thread's stack when it has none left over.
fn stacks_of_threads() {
    let mut guest = Guest::new(4);
    let cost = calls_of(1_000, |_| {
        let at = guest.map_as(8 * MIB + PAGE, 0, Backing::Stack);
        guest.space.mprotect(at + PAGE, 8 * MIB, RW).unwrap();
        assert_eq!(guest.get(at + 8 * MIB), 0);
        guest.put(at + 8 * MIB, 1);
        guest.space.munmap(at, 8 * MIB + PAGE).unwrap();
    });
    assert_eq!(cost, (0.0, 0.0));
    guest.space.release(&mut guest.region);
}

/// Beyond what is kept with its contents, pages go back: by advice, not by a change of the map.
fn large_blocks() {
    let mut guest = Guest::new(5);
    let mut wrong = 0;
    let cost = calls_of(300, |_| {
        let at = guest.map(64 * MIB, RW);
        wrong += guest.get(at) + guest.get(at + 40 * MIB);
        guest.put(at, 1);
        guest.put(at + 40 * MIB, 1);
        guest.space.munmap(at, 64 * MIB).unwrap();
    });
    assert_eq!((cost, wrong), ((0.0, 2.0), 0), "calls, and what was not zero");
    guest.space.release(&mut guest.region);
}

fn compilers_that_change_rights() {
    let mut guest = Guest::new(6);
    let at = guest.map(MIB, RW);
    let cost = calls_of(1_000, |round| {
        guest.put(at + round % 16 * PAGE, round);
        guest.space.mprotect(at, MIB, PROT_READ | PROT_EXEC).unwrap();
        guest.space.mprotect(at, MIB, RW).unwrap();
    });
    assert_eq!(cost, (0.0, 0.0));
    guest.space.release(&mut guest.region);
}

/// What must fault cannot be had without a call: one for what is closed, one for each page that is opened.
fn collectors_that_close_pages() {
    let mut guest = Guest::new(7);
    let at = guest.map(16 * MIB, RW);
    (0..4096).for_each(|page| guest.put(at + page * PAGE, page));
    let cost = calls_of(100, |round| {
        guest.space.mprotect(at, 16 * MIB, PROT_READ).unwrap();
        guest.space.mprotect(at + round * PAGE, PAGE, RW).unwrap();
    });
    assert_eq!(cost, (2.0, 0.0));
    guest.space.release(&mut guest.region);
}

/// A reservation that is opened page by page changes the map a few times, and not each time.
fn reservations_that_are_filled() {
    let mut guest = Guest::new(8);
    let before = calls().0;
    let at = guest.map(10 << 30, 0);
    for page in 0..10_000 {
        guest.space.mprotect(at + page * PAGE, PAGE, RW).unwrap();
        guest.put(at + page * PAGE, page);
    }
    assert!(guest.space.write_value(at + 10_000 * PAGE, &1u64).is_err());
    let changes = calls().0 - before;
    assert!(changes <= 15, "{changes} changes of the map");
    guest.space.munmap(at, 10 << 30).unwrap();
    let again = guest.map(10 << 30, 0);
    assert_eq!((again, calls().0 - before), (at, changes + 1));
    guest.space.release(&mut guest.region);
}
