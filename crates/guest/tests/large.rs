//! Memory that is larger than what addresses are left for, and memory that is sealed: alone in its process, whose addresses it uses up.

use guest::*;

const RW: u8 = PROT_READ | PROT_WRITE;
const PAGE: u64 = 4096;

fn request(bytes: u64, prot: u8) -> MapRequest<'static> {
    MapRequest { hint: 0, bytes, prot, shared: false, fixed: false, no_replace: false, backing: Backing::Anonymous }
}

#[test]
fn a_process_that_cannot_be_parked_cannot_fork() {
    map_arenas().unwrap();
    let mut worker = Worker::new().unwrap();
    let mut region = HostRegion::new(0, 2);
    let mut space = AddressSpace::new(&mut region).unwrap();
    let small = space.mmap(&mut region, &request(PAGE, RW)).unwrap();
    space.write_value(small, &7u64).unwrap();
    let large = space.mmap(&mut region, &request(9 << 40, 0)).unwrap();
    assert!(space.fork(&mut region).is_none(), "15 TiB are for those that wait for their turn");
    assert_eq!(space.read_value::<u64>(small), Ok(7));
    space.munmap(large, 9 << 40).unwrap();
    space.release(&mut region);

    let mut space = AddressSpace::new(&mut region).unwrap();
    let large = space.mmap(&mut region, &request(3 << 40, 0)).unwrap();
    space.mprotect(large, PAGE, RW).unwrap();
    space.write_value(large, &8u64).unwrap();
    let mut children: Vec<AddressSpace> = std::iter::from_fn(|| space.fork(&mut region)).collect();
    assert!((2..5).contains(&children.len()), "{} children", children.len());
    for child in &mut children {
        child.enter(&mut worker);
        assert_eq!(child.read_value::<u64>(large), Ok(8));
    }
    children.into_iter().for_each(|mut child| child.release(&mut region));
    space.enter(&mut worker);
    space.release(&mut region);
}

#[test]
fn what_a_process_closed_is_plain_memory_for_the_next() {
    map_arenas().unwrap();
    let _worker = Worker::new().unwrap();
    let mut region = HostRegion::new(40, 64);
    for _ in 0..3 {
        let mut space = AddressSpace::new(&mut region).unwrap();
        let whole = space.mmap(&mut region, &request(100 << 20, RW)).unwrap();
        for at in (0..100).map(|at| whole + (at << 20)) {
            assert_eq!(space.read_value::<u64>(at), Ok(0));
            space.write_value(at, &at).unwrap();
        }
        space.mprotect(whole, 30 << 20, 0).unwrap();
        space.mprotect(whole + (40 << 20), 5 << 20, PROT_READ).unwrap();
        space.munmap(whole + (50 << 20), 20 << 20).unwrap();
        space.munmap(whole + (80 << 20), PAGE).unwrap();
        space.release(&mut region);
    }
}

/// As ld.so maps a library whose segments have holes between them: whole, then closed behind the first one, then the others.
#[test]
fn a_library_that_was_closed_between_its_segments_has_its_code() {
    map_arenas().unwrap();
    let _worker = Worker::new().unwrap();
    let path = "/lib/x86_64-linux-gnu/libc.so.6";
    let file = std::fs::File::open(path).unwrap();
    let header = ElfHeader::parse(&std::fs::read(path).unwrap()).unwrap();
    let code = header.segments.iter().find(|segment| segment.executable).unwrap();
    let mut region = HostRegion::new(42, 64);
    let mut space = AddressSpace::new(&mut region).unwrap();
    let backing = Backing::File { file: &file, offset: 0, name: b"libc" };
    let whole = MapRequest { backing, ..request(header.span, PROT_READ) };
    let start = space.mmap(&mut region, &whole).unwrap();
    let (at, bytes) = (start + code.address, code.file_bytes.next_multiple_of(PAGE));
    let first: [u64; 4] = space.read_value(at).unwrap();
    space.mprotect(at, bytes, 0).unwrap();
    assert!(space.read_value::<u64>(at).is_err());
    let backing = Backing::File { file: &file, offset: code.file_offset, name: b"libc" };
    let segment = MapRequest { hint: at, fixed: true, backing, ..request(bytes, PROT_READ | PROT_EXEC) };
    assert_eq!(space.mmap(&mut region, &segment), Ok(at));
    assert_eq!(space.read_value(at), Ok(first));
    space.release(&mut region);
}

#[test]
fn sealed_memory_keeps_its_place_and_its_rights() {
    map_arenas().unwrap();
    let mut region = HostRegion::new(41, 64);
    let mut space = AddressSpace::new(&mut region).unwrap();
    let at = space.mmap(&mut region, &request(3 * PAGE, RW)).unwrap();
    assert_eq!(space.seal(at, 4 * PAGE), Err(MapError::NoMemory));
    space.seal(at + PAGE, PAGE).unwrap();
    let refused = Err(MapError::NotPermitted);
    assert_eq!(space.munmap(at, 3 * PAGE), refused);
    assert_eq!(space.mprotect(at, 3 * PAGE, PROT_READ), refused);
    let over = MapRequest { hint: at, fixed: true, ..request(2 * PAGE, RW) };
    assert_eq!(space.mmap(&mut region, &over), Err(MapError::NotPermitted));
    let moved =
        MoveRequest { old: at + PAGE, old_bytes: PAGE, new_bytes: 2 * PAGE, may_move: true, keep: false, to: None };
    assert_eq!(space.mremap(&mut region, &moved), Err(MapError::NotPermitted));
    assert_eq!(space.discard(at, 3 * PAGE), Ok(()), "what can be written can be dropped");
    assert_eq!(space.munmap(at, PAGE), Ok(()));
    space.release(&mut region);
}
