//! Address spaces that use the same addresses in turns: twins of `fork(2)`, and programs that are linked to fixed addresses.

use guest::*;
use std::io::Write;

const RW: u8 = PROT_READ | PROT_WRITE;

struct Machine {
    worker: Worker,
    region: HostRegion,
    space: AddressSpace,
}

fn machine(host: u32) -> Machine {
    map_arenas().unwrap();
    let worker = Worker::new().unwrap();
    let mut region = HostRegion::new(host, 64);
    let space = AddressSpace::new(&mut region).unwrap();
    Machine { worker, region, space }
}

impl Machine {
    fn map(&mut self, bytes: u64, prot: u8, shared: bool) -> u64 {
        let request =
            MapRequest { hint: 0, bytes, prot, shared, fixed: false, no_replace: false, backing: Backing::Anonymous };
        self.space.mmap(&mut self.region, &request).unwrap()
    }

    fn fork(&mut self) -> AddressSpace {
        self.space.fork(&mut self.region).unwrap()
    }
}

fn get(space: &AddressSpace, address: u64) -> u64 {
    space.read_value(address).unwrap()
}

fn put(space: &AddressSpace, address: u64, value: u64) {
    space.write_value(address, &value).unwrap();
}

/// Runs `mov [rdi], eax` in a space: whether it faults.
fn store_faults(machine: &mut Machine, space: &mut AddressSpace, code: u64, address: u64) -> bool {
    space.enter(&mut machine.worker);
    let mut vcpu = Vcpu::new();
    vcpu.registers_mut().rip = code;
    vcpu.registers_mut().rdi = address;
    match vcpu.run(&mut machine.worker) {
        Exit::Fault(fault) if space.waits_for_execution(&fault) => {
            assert!(space.allow_execution(code));
            store_faults(machine, space, code, address)
        }
        Exit::Fault(fault) => {
            assert_eq!((fault.signal, fault.address), (11, address));
            true
        }
        exit => {
            assert_eq!(exit, Exit::Syscall);
            false
        }
    }
}

#[test]
fn twins_keep_their_own_memory_through_many_turns() {
    let mut m = machine(0);
    let mapped = m.map(1 << 20, RW, false);
    let heap = m.space.brk(0);
    m.space.brk(heap + (1 << 20));
    let stack = m.space.stack_end() - 64;
    let places = [mapped + 8, mapped + 0x8_0000, heap + 16, stack];
    for place in places {
        put(&m.space, place, place);
    }
    let mut children: Vec<AddressSpace> = (0..3).map(|_| m.fork()).collect();
    let mut grandchild = {
        let child = &mut children[1];
        child.enter(&mut m.worker);
        put(child, places[0], 77);
        child.fork(&mut m.region).unwrap()
    };
    grandchild.enter(&mut m.worker);
    assert_eq!(get(&grandchild, places[0]), 77);
    for place in &places[1..] {
        assert_eq!(get(&grandchild, *place), *place);
    }
    grandchild.release(&mut m.region);
    for turn in 0..200u64 {
        let which = (turn * 7 % 4) as usize;
        let space = if which == 3 { &mut m.space } else { &mut children[which] };
        space.enter(&mut m.worker);
        for place in places {
            let expected = match (turn < 4, which, place == places[0]) {
                (true, 1, true) => 77,
                (true, ..) => place,
                _ => which as u64 + turn - 4,
            };
            assert_eq!(get(space, place), expected, "turn {turn} of {which} at {place:#x}");
            put(space, place, which as u64 + turn);
        }
    }
    for child in &mut children {
        child.release(&mut m.region);
    }
    m.space.enter(&mut m.worker);
    assert_eq!(get(&m.space, stack), 3 + 197);
    m.space.release(&mut m.region);
}

#[test]
fn what_is_mapped_after_a_fork_belongs_to_one_twin() {
    let mut m = machine(1);
    let mut child = m.fork();
    let mine = m.map(64 << 10, RW, false);
    put(&m.space, mine, 1);
    child.enter(&mut m.worker);
    assert!(child.read(mine, &mut [0; 8]).is_err());
    let request = MapRequest {
        hint: 0,
        bytes: 64 << 10,
        prot: RW,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    assert_eq!(child.mmap(&mut m.region, &request).unwrap(), mine);
    assert_eq!(get(&child, mine), 0);
    let large = child.mmap(&mut m.region, &MapRequest { bytes: 1 << 30, ..request }).unwrap();
    put(&child, large, 5);
    m.space.enter(&mut m.worker);
    assert_eq!(get(&m.space, mine), 1);
    let other = m.map(1 << 30, RW, false);
    assert!(other >= large + (1 << 30) || other + (1 << 30) <= large);
    m.space.release(&mut m.region);
    child.enter(&mut m.worker);
    assert_eq!((get(&child, mine), get(&child, large)), (0, 5));
    child.release(&mut m.region);
}

#[test]
fn shared_mappings_stay_shared_and_are_known_by_the_same_name() {
    let mut m = machine(2);
    let shared = m.map(64 << 10, RW, true);
    let private = m.map(64 << 10, RW, false);
    let mut file = tempfile();
    file.write_all(&[7; 8192]).unwrap();
    let request = MapRequest {
        hint: 0,
        bytes: 8192,
        prot: RW,
        shared: true,
        fixed: false,
        no_replace: false,
        backing: Backing::File { file: &file, offset: 0, name: b"/file" },
    };
    let of_file = m.space.mmap(&mut m.region, &request).unwrap();
    put(&m.space, shared, 1);
    let mut child = m.fork();
    child.enter(&mut m.worker);
    assert_eq!(get(&child, shared), 1);
    put(&child, shared, 2);
    put(&child, shared + 0x8000, 3);
    put(&child, of_file + 4096, 4);
    put(&child, private, 5);
    let identity = |space: &AddressSpace| [shared + 4, of_file + 4100, private].map(|at| space.shared_identity(at));
    let of_child = identity(&child);
    m.space.enter(&mut m.worker);
    assert_eq!(get(&m.space, shared), 2);
    assert_eq!(get(&m.space, shared + 0x8000), 3);
    assert_eq!(get(&m.space, of_file + 4096), 4);
    assert_eq!(get(&m.space, private), 0);
    assert_eq!(identity(&m.space), of_child);
    assert!(of_child[0].is_some() && of_child[1].is_some() && of_child[2].is_none());
    assert_ne!(m.space.id(), child.id());
    let again = m.space.mmap(&mut m.region, &request).unwrap();
    assert_eq!(m.space.shared_identity(again + 4100), of_child[1]);
    let new = m.map(64 << 10, RW, true);
    assert_ne!(m.space.shared_identity(new).unwrap().0, of_child[0].unwrap().0);
    // Rights can be taken and given again.
    m.space.mprotect(shared, 4096, PROT_READ).unwrap();
    m.space.mprotect(shared, 4096, RW).unwrap();
    put(&m.space, shared, 9);
    m.space.munmap(shared, 64 << 10).unwrap();
    m.space.release(&mut m.region);
    child.enter(&mut m.worker);
    assert_eq!(get(&child, shared), 9);
    child.release(&mut m.region);
}

#[test]
fn guards_and_lost_rights_survive_turns() {
    let mut m = machine(3);
    let code = m.map(4096, RW | PROT_EXEC, false);
    // mov [rdi], eax; syscall
    m.space.write(code, &[0x89, 0x07, 0x0f, 0x05]).unwrap();
    let read_only = m.map(16384, RW, false);
    put(&m.space, read_only, 1);
    put(&m.space, read_only + 8192, 2);
    m.space.mprotect(read_only, 16384, PROT_READ).unwrap();
    let hidden = m.map(16384, RW, false);
    put(&m.space, hidden + 4096, 3);
    m.space.mprotect(hidden, 16384, 0).unwrap();
    let gone = m.map(64 << 10, RW, false);
    m.space.munmap(gone, 64 << 10).unwrap();
    let stack = m.space.mappings().find(|vma| vma.kind == VmaKind::Stack).copied().unwrap();
    let mut child = m.fork();
    let mut parent = std::mem::replace(&mut m.space, AddressSpace::new(&mut m.region).unwrap());
    for _ in 0..3 {
        for space in [&mut parent, &mut child] {
            space.enter(&mut m.worker);
            assert_eq!((get(space, read_only), get(space, read_only + 8192)), (1, 2));
            for bad in [read_only + 8, hidden + 4096, gone + 4096, stack.start - 8] {
                assert!(store_faults(&mut m, space, code, bad), "{bad:#x}");
            }
            assert!(!store_faults(&mut m, space, code, stack.start));
        }
    }
    // What was out of sight when the twins parted is theirs when it comes back.
    child.mprotect(hidden, 16384, RW).unwrap();
    assert_eq!(get(&child, hidden + 4096), 3);
    put(&child, hidden + 4096, 4);
    parent.enter(&mut m.worker);
    parent.mprotect(hidden, 16384, RW).unwrap();
    assert_eq!(get(&parent, hidden + 4096), 3);
    for space in [&mut parent, &mut child, &mut m.space] {
        space.release(&mut m.region);
    }
}

#[test]
fn blocks_return_with_the_last_twin_whoever_it_is() {
    let mut m = machine(4);
    let start = m.space.id();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
        let address = m.space.stack_end() - 8;
        put(&m.space, address, 1);
        let mut twins = [Some(m.fork()), Some(m.fork()), None];
        let next = AddressSpace::new(&mut m.region).unwrap();
        twins[2] = Some(std::mem::replace(&mut m.space, next));
        for (left, index) in order.into_iter().enumerate() {
            let mut twin = twins[index].take().unwrap();
            if left == 1 {
                twin.enter(&mut m.worker);
                assert_eq!(get(&twin, address), 1);
            }
            twin.release(&mut m.region);
        }
        let fresh = AddressSpace::new(&mut m.region).unwrap();
        assert_eq!(fresh.id(), start);
        assert_eq!(get(&fresh, address), 0);
        m.space.release(&mut m.region);
        m.space = fresh;
    }
    m.space.release(&mut m.region);
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let path =
        std::env::temp_dir().join(format!("gnomon-turns-{}-{:?}", std::process::id(), std::thread::current().id()));
    let options = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
    let file = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

/// A program at fixed addresses: adds `step` to a word of its data and makes a system call, for ever. Its text begins at `address`,
/// its data `data_at` bytes behind.
fn fixed_program(address: u32, data_at: u32, step: u8) -> Program {
    let mut code = vec![0x48, 0x83, 0x04, 0x25]; // add qword [data], step
    code.extend_from_slice(&(address + data_at).to_le_bytes());
    code.push(step);
    code.extend_from_slice(&[0x48, 0x8b, 0x3c, 0x25]); // mov rdi, [data]
    code.extend_from_slice(&(address + data_at).to_le_bytes());
    code.extend_from_slice(&[0xb8, 39, 0, 0, 0, 0x0f, 0x05]); // mov eax, 39; syscall
    code.extend_from_slice(&[0xeb, 0u8.wrapping_sub(code.len() as u8 + 2)]);
    let mut file = vec![0u8; 0x3000];
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut words = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    words(16, &[2, 0, 62, 0, 1, 0, 0, 0]);
    words(24, &u64::from(address + 0x1000).to_le_bytes());
    words(32, &64u64.to_le_bytes());
    words(52, &[64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    let segments =
        [(5u32, 0u64, u64::from(address), 0x2000u64, 0x2000u64), (6, 0x2000, u64::from(address + data_at), 8, 0x5000)];
    for (index, (flags, offset, at, in_file, in_memory)) in segments.into_iter().enumerate() {
        let header = 64 + 56 * index;
        words(header, &1u32.to_le_bytes());
        words(header + 4, &flags.to_le_bytes());
        for (number, word) in [offset, at, at, in_file, in_memory, 0x1000].into_iter().enumerate() {
            words(header + 8 + 8 * number, &word.to_le_bytes());
        }
    }
    words(0x1000, &code);
    words(0x2000, &1000u64.to_le_bytes());
    let mut on_disk = tempfile();
    on_disk.write_all(&file).unwrap();
    let program = Program::open(&on_disk, b"/fixed", |_| Err(std::io::Error::other("has no interpreter"))).unwrap();
    // Its inode must not be used again: images are known by it.
    std::mem::forget(on_disk);
    program
}

struct Instance {
    space: AddressSpace,
    vcpu: Vcpu,
    data: u64,
    step: u64,
    expected: u64,
}

impl Instance {
    fn start(region: &mut HostRegion, address: u32, data_at: u32, step: u8) -> Instance {
        let program = fixed_program(address, data_at, step);
        let arguments = StartArguments {
            name: b"/program",
            arguments: &[],
            environment: &[],
            random: [0; 16],
            user: [0; 2],
            group: [0; 2],
            secure: false,
        };
        let (space, vcpu) = program.start(region, &arguments).unwrap();
        Instance { space, vcpu, data: u64::from(address + data_at), step: step.into(), expected: 1000 }
    }

    fn fork(&mut self, region: &mut HostRegion) -> Instance {
        let space = self.space.fork(region).unwrap();
        Instance { space, vcpu: self.vcpu.duplicate(), ..*self }
    }

    fn step(&mut self, worker: &mut Worker) {
        self.space.enter(worker);
        assert_eq!(self.vcpu.run(worker), Exit::Syscall);
        self.expected += self.step;
        assert_eq!(self.vcpu.registers().rdi, self.expected);
        assert_eq!(get(&self.space, self.data), self.expected);
        assert_eq!(get(&self.space, self.data + 0x4000), 0);
    }
}

#[test]
fn programs_at_the_same_fixed_addresses_run_side_by_side() {
    let mut m = machine(6);
    let mut all = vec![
        Instance::start(&mut m.region, 0x40_0000, 0x10_0000, 1),
        Instance::start(&mut m.region, 0x40_0000, 0x10_0000, 1),
        Instance::start(&mut m.region, 0x40_0000, 0x2000, 3),
        Instance::start(&mut m.region, 0x50_0000, 0x30_0000, 5),
        Instance::start(&mut m.region, 0x2000_0000, 0x2000, 7),
    ];
    for round in 0..20 {
        for instance in &mut all {
            instance.step(&mut m.worker);
        }
        if round % 4 == 0 {
            // The later ones are copied into what an earlier one left.
            all[1].space.enter(&mut m.worker);
            for _ in 0..3 {
                let mut twin = all[1].fork(&mut m.region);
                twin.step(&mut m.worker);
                put(&twin.space, twin.data + 0x4000, 1);
                twin.space.release(&mut m.region);
                all[1].space.enter(&mut m.worker);
            }
            let twin = all[1].fork(&mut m.region);
            all.push(twin);
            m.worker.leave();
        }
    }
    while !all.is_empty() {
        all.remove(all.len() / 2).space.release(&mut m.region);
        for instance in &mut all {
            instance.step(&mut m.worker);
        }
    }
    m.space.release(&mut m.region);
}

#[test]
fn programs_at_fixed_addresses_on_two_workers_wait_for_each_other() {
    map_arenas().unwrap();
    let run = |host: u32, step: u8| {
        let mut worker = Worker::new().unwrap();
        let mut region = HostRegion::new(host, 64);
        let mut pair = [
            Instance::start(&mut region, 0x40_0000, 0x10_0000, step),
            Instance::start(&mut region, 0x40_0000, 0x3000, step + 1),
        ];
        let mut plain = AddressSpace::new(&mut region).unwrap();
        for round in 0..500 {
            for instance in &mut pair {
                instance.step(&mut worker);
                instance.step(&mut worker);
            }
            if round % 3 == 0 {
                plain.enter(&mut worker);
            }
            worker.leave();
        }
        for instance in &mut pair {
            instance.space.release(&mut region);
        }
        plain.release(&mut region);
    };
    std::thread::scope(|scope| {
        for host in 7..10 {
            scope.spawn(move || run(host, host as u8 * 2));
        }
    });
}

#[test]
fn addresses_that_guests_cannot_have_are_refused() {
    let mut file = tempfile();
    let mut bytes = vec![0u8; 0x1000];
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes[16..24].copy_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
    bytes[32] = 64;
    bytes[52..64].copy_from_slice(&[64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    bytes[64] = 1;
    bytes[80..88].copy_from_slice(&ARENAS_START.to_le_bytes());
    bytes[96..104].copy_from_slice(&0x1000u64.to_le_bytes());
    bytes[104..112].copy_from_slice(&0x1000u64.to_le_bytes());
    file.write_all(&bytes).unwrap();
    let refused = Program::open(&file, b"/high", |_| Err(std::io::Error::other("none")));
    assert_eq!(refused.unwrap_err(), StartError::FixedAddress);
}

/// A process as large as a shell: bash with its loader and libc, 1.5 MB written.
fn shell(m: &mut Machine) -> AddressSpace {
    let open = |path: &[u8]| std::fs::File::open(std::str::from_utf8(path).unwrap());
    let program = Program::open(&open(b"/bin/bash").unwrap(), b"/bin/bash", open).unwrap();
    let arguments = StartArguments {
        name: b"/bin/bash",
        arguments: &[],
        environment: &[],
        random: [0; 16],
        user: [0; 2],
        group: [0; 2],
        secure: false,
    };
    let (mut space, _) = program.start(&mut m.region, &arguments).unwrap();
    let path = b"/lib/x86_64-linux-gnu/libc.so.6";
    let libc = open(path).unwrap();
    let data = std::fs::read(std::str::from_utf8(path).unwrap()).unwrap();
    let span = ElfHeader::parse(&data).unwrap().span;
    let request = MapRequest {
        hint: 0,
        bytes: span,
        prot: PROT_READ,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::File { file: &libc, offset: 0, name: b"libc" },
    };
    space.mmap(&mut m.region, &request).unwrap();
    let mapped = space
        .mmap(&mut m.region, &MapRequest { bytes: 1 << 20, prot: RW, backing: Backing::Anonymous, ..request })
        .unwrap();
    let heap = space.brk(0);
    space.brk(heap + (2 << 20));
    let stack = space.stack_end() - (16 << 12);
    for (start, pages) in [(heap, 270), (mapped, 20), (stack, 16)] {
        (0..pages).for_each(|page| put(&space, start + page * 4096, page));
    }
    space.seal_startup();
    space
}

/// The least microseconds per call of several series.
fn microseconds(series: u32, calls: u32, mut call: impl FnMut()) -> f64 {
    let once = |call: &mut dyn FnMut()| {
        let clock = base::wall::WallClock::start();
        (0..calls).for_each(|_| call());
        clock.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    (0..series).map(|_| once(&mut call)).fold(f64::INFINITY, f64::min)
}

/// `cargo test --release -p guest --test turns -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn what_forks_and_turns_cost() {
    let mut m = machine(20);
    shell(&mut m).release(&mut m.region);
    let mut parent = shell(&mut m);
    let maps = counters();
    let mut child = parent.fork(&mut m.region).unwrap();
    println!("map calls of a fork {}", counters().map_calls - maps.map_calls);
    let turns = microseconds(7, 100, || {
        child.enter(&mut m.worker);
        parent.enter(&mut m.worker);
    }) / 2.0;
    child.release(&mut m.region);
    let forks = microseconds(7, 50, || parent.fork(&mut m.region).unwrap().release(&mut m.region));
    let forks_and_turns = microseconds(7, 50, || {
        let mut child = parent.fork(&mut m.region).unwrap();
        child.enter(&mut m.worker);
        child.release(&mut m.region);
        parent.enter(&mut m.worker);
    });
    println!("turn {turns:.1} us, fork and release {forks:.1} us, with turns {forks_and_turns:.1} us");
    let mut pair = [1, 2].map(|step| Instance::start(&mut m.region, 0x40_0000, 0x10_0000, step));
    let fixed = microseconds(7, 100, || pair.iter_mut().for_each(|one| one.space.enter(&mut m.worker))) / 2.0;
    println!("turn at fixed addresses {fixed:.1} us");
    parent.release(&mut m.region);
}

/// A twin together with what its memory should be.
struct Modelled {
    space: AddressSpace,
    /// Mapped areas: (address, pages, can be written).
    areas: Vec<(u64, u64, bool)>,
    words: std::collections::BTreeMap<u64, u64>,
    heap_end: u64,
}

impl Modelled {
    fn check(&self, what: &str) {
        for (start, pages, _) in &self.areas {
            for page in 0..*pages {
                let at = start + page * 4096 + 16;
                let expected = self.words.get(&at).copied().unwrap_or(0);
                assert_eq!(get(&self.space, at), expected, "{what}: {at:#x}");
            }
        }
    }

    fn forget(&mut self, start: u64, bytes: u64) {
        self.words.retain(|at, _| *at < start || *at >= start + bytes);
    }
}

/// Does one thing to a twin, as `choice` says; `value` is what it writes.
fn disturb(m: &mut Machine, twin: &mut Modelled, choice: u64, value: u64) {
    let request = MapRequest {
        hint: 0,
        bytes: (1 + choice / 16 % 40) * 4096,
        prot: RW,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    let area = (choice / 16 % twin.areas.len() as u64) as usize;
    let (start, pages, writable) = twin.areas[area];
    match choice % 16 {
        0 if twin.areas.len() < 8 => {
            let start = twin.space.mmap(&mut m.region, &request).unwrap();
            twin.areas.push((start, request.bytes / 4096, true));
        }
        1 if area > 0 => {
            twin.space.munmap(start, pages * 4096).unwrap();
            twin.areas.remove(area);
            twin.forget(start, pages * 4096);
        }
        2 if area > 0 => {
            twin.space.mprotect(start, pages * 4096, if writable { PROT_READ } else { RW }).unwrap();
            twin.areas[area].2 = !writable;
        }
        3 if writable => {
            twin.space.discard(start, pages * 4096).unwrap();
            twin.forget(start, pages * 4096);
        }
        4 => {
            let first = twin.areas[0].0;
            let end = first + (1 + choice / 16 % 64) * 4096;
            assert_eq!(twin.space.brk(end), end);
            twin.forget(end, twin.heap_end.saturating_sub(end));
            twin.heap_end = end;
            twin.areas[0].1 = (end - first) / 4096;
        }
        _ if writable => {
            let at = start + choice / 1024 % pages * 4096 + 16;
            put(&twin.space, at, value);
            twin.words.insert(at, value);
        }
        _ => {}
    }
}

#[test]
fn twins_that_do_anything_have_the_memory_that_they_should() {
    let mut m = machine(10);
    for seed in 1..=6u64 {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        let mut space = AddressSpace::new(&mut m.region).unwrap();
        let heap = space.brk(0);
        space.brk(heap + 8192);
        let first = Modelled { space, areas: vec![(heap, 2, true)], words: Default::default(), heap_end: heap + 8192 };
        let mut twins = vec![first];
        for step in 0..1500u64 {
            let index = (random() % twins.len() as u64) as usize;
            twins[index].space.enter(&mut m.worker);
            twins[index].check(&format!("seed {seed}, step {step}, before"));
            for _ in 0..random() % 6 {
                disturb(&mut m, &mut twins[index], random(), step + 1);
            }
            twins[index].check(&format!("seed {seed}, step {step}"));
            match random() % 4 {
                0 if twins.len() < 5 => {
                    let twin = &mut twins[index];
                    let space = twin.space.fork(&mut m.region).unwrap();
                    let (areas, words) = (twin.areas.clone(), twin.words.clone());
                    let child = Modelled { space, areas, words, heap_end: twin.heap_end };
                    twins.push(child);
                }
                1 if twins.len() > 1 => twins.swap_remove(index).space.release(&mut m.region),
                _ => {}
            }
        }
        twins.into_iter().for_each(|mut twin| twin.space.release(&mut m.region));
    }
    m.space.release(&mut m.region);
}
