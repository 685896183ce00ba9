//! That forks leave nothing behind: a test alone in its process, which is what it measures.

use guest::*;

/// What the process holds of the real machine: (resident pages, mappings).
fn held() -> (u64, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (statm.split(' ').nth(1).unwrap().parse().unwrap(), maps.lines().count())
}

#[test]
fn memory_is_given_back_over_thousands_of_forks() {
    map_arenas().unwrap();
    let mut worker = Worker::new().unwrap();
    let mut region = HostRegion::new(0, 64);
    let mut space = AddressSpace::new(&mut region).unwrap();
    let request = MapRequest {
        hint: 0,
        bytes: 4 << 20,
        prot: PROT_READ | PROT_WRITE,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    let mapped = space.mmap(&mut region, &request).unwrap();
    for page in 0..50u64 {
        space.write_value(mapped + page * 8192, &page).unwrap();
    }
    let mut before = (0, 0);
    for round in 0..10_000u64 {
        let mut child = space.fork(&mut region).unwrap();
        child.enter(&mut worker);
        child.write_value(mapped + 4096 * (round % 1000), &round).unwrap();
        if round % 3 == 0 {
            // What is mapped there differs from the next child's: no spare.
            child.munmap(mapped, 8192).unwrap();
        }
        if round % 2 == 0 {
            space.enter(&mut worker);
        }
        child.release(&mut region);
        space.enter(&mut worker);
        if round == 100 {
            before = held();
        }
    }
    let after = held();
    assert!(after.0 < before.0 + 300, "pages: {before:?}, then {after:?}");
    assert!(after.1 < before.1 + 20, "mappings: {before:?}, then {after:?}");
    for page in 0..50u64 {
        assert_eq!(space.read_value::<u64>(mapped + page * 8192).unwrap(), page);
    }
    space.release(&mut region);
    let released = held();
    assert!(released.1 < before.1, "mappings: {before:?}, then {released:?}");
}
