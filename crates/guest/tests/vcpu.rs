//! Small pieces of machine code run as guests: every door in and out of a vcpu, and what must survive the way.

use guest::*;
use std::sync::atomic::{AtomicU32, Ordering};

const PROT_ALL: u8 = PROT_READ | PROT_WRITE | PROT_EXEC;

struct Machine {
    worker: Worker,
    region: HostRegion,
    space: AddressSpace,
    vcpu: Vcpu,
    code: u64,
}

/// Two pages with all rights.
fn executable() -> MapRequest<'static> {
    MapRequest {
        hint: 0,
        bytes: 8192,
        prot: PROT_ALL,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    }
}

/// A guest whose code is `code`, at the start of executable memory, with its stack pointer set.
fn machine(code: &[u8]) -> Machine {
    /// Tests run beside each other in one process, in which no two hosts may have one number.
    static HOSTS: AtomicU32 = AtomicU32::new(0);
    map_arenas().unwrap();
    let worker = Worker::new().unwrap();
    let mut region = HostRegion::new(HOSTS.fetch_add(1, Ordering::Relaxed), 256);
    let mut space = AddressSpace::new(&mut region).unwrap();
    let at = space.mmap(&mut region, &executable()).unwrap();
    space.write(at, code).unwrap();
    assert!(space.allow_execution(at) && space.allow_execution(at + 4096));
    let mut vcpu = Vcpu::new();
    vcpu.registers_mut().rip = at;
    vcpu.registers_mut().rsp = space.stack_end() - 256;
    Machine { worker, region, space, vcpu, code: at }
}

#[test]
fn a_bare_syscall_in_made_up_code_is_caught_and_counted() {
    // mov eax, 39; syscall; mov ebx, eax; syscall
    let mut m = machine(&[0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x89, 0xc3, 0x0f, 0x05]);
    let before = counters().misses;
    m.vcpu.registers_mut().r12 = 0x1234;
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!((m.vcpu.registers().rax, m.vcpu.registers().rip), (39, m.code + 7));
    m.vcpu.registers_mut().rax = 77;
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!((m.vcpu.registers().rbx, m.vcpu.registers().r12), (77, 0x1234));
    assert_eq!(m.worker.misses(), [(m.code + 7, 1), (m.code + 11, 1)]);
    assert!(counters().misses >= before + 2);
    m.space.release(&mut m.region);
}

#[test]
fn faults_come_back_with_their_signal_and_address() {
    // mov rax, [rdi]
    let mut m = machine(&[0x48, 0x8b, 0x07]);
    m.vcpu.registers_mut().rdi = 0x10;
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert_eq!((fault.signal, fault.code, fault.address, fault.trap_number), (11, 1, 0x10, 14));
    assert_eq!(m.vcpu.registers().rip, m.code);

    // xor ecx, ecx; div ecx
    let mut m = machine(&[0x31, 0xc9, 0xf7, 0xf1]);
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert_eq!((fault.signal, fault.trap_number), (8, 0));

    let mut m = machine(&[0x0f, 0x0b]);
    assert!(matches!(m.vcpu.run(&mut m.worker), Exit::Fault(FaultInfo { signal: 4, .. })));
    let mut m = machine(&[0xcc]);
    assert!(matches!(m.vcpu.run(&mut m.worker), Exit::Fault(FaultInfo { signal: 5, .. })));
}

#[test]
fn the_time_stamp_counter_is_the_simulators() {
    // rdtsc; rdtscp; syscall
    let mut m = machine(&[0x0f, 0x31, 0x0f, 0x01, 0xf9, 0x0f, 0x05]);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::ReadTsc);
    m.vcpu.complete_tsc(0x5_0000_0007);
    assert_eq!((m.vcpu.registers().rax, m.vcpu.registers().rdx), (7, 5));
    // The simulator may read the wall clock through the vDSO in between.
    let clock = base::wall::WallClock::start();
    assert!(clock.elapsed().as_secs() < 60);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::ReadTsc);
    m.vcpu.set_processor(3);
    m.vcpu.complete_tsc(9);
    assert_eq!(m.vcpu.registers().rcx, 3, "the processor");
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rax, 9);
}

#[test]
fn flags_survive_an_exit_exactly() {
    // pushfq; pop rbx; syscall
    let mut m = machine(&[0x9c, 0x5b, 0x0f, 0x05]);
    const FIXED: u64 = 0x202;
    // Every subset of the flags that user code may hold (CF PF AF ZF SF, DF OF, NT, AC ID).
    let all = [0x1, 0x4, 0x10, 0x40, 0x80, 0x400, 0x800, 0x4000, 0x4_0000, 0x20_0000];
    for subset in 0..1u64 << all.len() {
        let flags = all.iter().enumerate().filter(|(i, _)| subset >> i & 1 != 0).map(|(_, flag)| flag).sum::<u64>();
        let registers = m.vcpu.registers_mut();
        (registers.rip, registers.rflags, registers.rbx) = (m.code, flags | FIXED, 0);
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
        let registers = m.vcpu.registers();
        assert_eq!(registers.rbx, flags | FIXED, "on the way in");
        assert_eq!(registers.rflags & !0x1_0000, flags | FIXED, "on the way out");
    }
    m.space.release(&mut m.region);
}

#[test]
fn extended_state_survives_an_exit_exactly() {
    let mut m = machine(&[0x0f, 0x05, 0x0f, 0x05]);
    let mut area = [0u8; SIGNAL_XSAVE_BYTES];
    area[0..2].copy_from_slice(&0x027fu16.to_le_bytes()); // x87: double precision
    area[4] = 0x80; // one register in use
    area[32..42].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 0x88, 0xff, 0x3f]);
    area[24..28].copy_from_slice(&0x9fc0u32.to_le_bytes());
    for (index, byte) in area[160..416].iter_mut().enumerate() {
        *byte = index as u8;
    }
    for (index, byte) in area[576..832].iter_mut().enumerate() {
        *byte = 255 - index as u8;
    }
    for in_use in [0b010u8, 0b110, 0b111] {
        area[512] = in_use;
        m.vcpu.set_extended_state(&area);
        m.vcpu.registers_mut().rip = m.code;
        let before = m.vcpu.extended_state();
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
        std::hint::black_box([1.5f64; 64].iter().map(|x| x * 2.0).sum::<f64>());
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
        let after = m.vcpu.extended_state();
        assert_eq!(before[160..416], after[160..416], "xmm, in use {in_use}");
        assert_eq!(before[24..28], after[24..28], "mxcsr");
        if in_use & 4 != 0 {
            assert_eq!(before[576..832], after[576..832], "ymm");
        }
        if in_use & 1 != 0 {
            assert_eq!(before[0..5], after[0..5], "x87 control");
            assert_eq!(before[32..42], after[32..42], "x87 register");
        }
    }
}

/// What the simulator might do between two turns of a guest, by the C library and by its own means.
fn work_in_between(round: usize) {
    let text = vec![round as u8; 40 + 97 * round];
    let mut copies: Vec<Vec<u8>> = (0..4).map(|_| text.clone()).collect();
    copies[0].resize(100_000, 1);
    copies[1].extend_from_within(..);
    assert!(copies[2] == copies[3] && !copies[1].contains(&0xee));
    assert!(std::env::var_os("NOBODY_SETS_THIS").is_none(), "the C library searches strings");
    std::hint::black_box(format!("{copies:?}"));
}

#[test]
fn nothing_of_the_simulators_is_in_use_when_a_guest_begins() {
    const PKRU: u64 = 1 << 9;
    const AVX_UPPER: u64 = 1 << 2;
    // mov ecx, 1; xgetbv; syscall; jmp to the start: the processor's own answer, since made-up code is not rewritten.
    let code = [0xb9, 1, 0, 0, 0, 0x0f, 0x01, 0xd0, 0x0f, 0x05, 0xeb, 0xf4];
    if std::arch::x86_64::__cpuid_count(0xd, 1).eax & 4 == 0 {
        println!("this processor does not tell what is in use");
        return;
    }
    for soils in [false, true] {
        let mut m = machine(&code);
        m.worker.set_soiling(soils);
        for round in 0..50 {
            assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
            let in_use = m.vcpu.registers().rax & !PKRU;
            assert_eq!(in_use & !0b10, 0, "round {round}, soiled: {soils}: {in_use:#x}");
            work_in_between(round);
        }
        // With its own upper halves in use it finds these, and no more.
        let mut area = m.vcpu.extended_state();
        area[512] = 0b110;
        area[576..832].fill(3);
        m.vcpu.set_extended_state(&area);
        for round in 0..50 {
            assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
            assert_eq!(m.vcpu.registers().rax & !PKRU & !0b10, AVX_UPPER, "round {round}, soiled: {soils}");
            work_in_between(round);
        }
        assert_eq!(m.vcpu.extended_state()[576..832], [3; 256]);
        m.space.release(&mut m.region);
    }
}

#[test]
fn a_guest_finds_zeroes_in_registers_that_it_is_not_promised() {
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512bw") {
        println!("this processor has no AVX-512");
        return;
    }
    // kmovq rax, k1; vmovq rdx, xmm16; vmovq rsi, xmm31; vextracti64x4 ymm1, zmm0, 1; vmovq rdi, xmm1; vzeroupper; syscall; jmp
    let code = [
        0xc4, 0xe1, 0xfb, 0x93, 0xc1, 0x62, 0xe1, 0xfd, 0x08, 0x7e, 0xc2, 0x62, 0x61, 0xfd, 0x08, 0x7e, 0xfe, 0x62,
        0xf3, 0xfd, 0x48, 0x3b, 0xc1, 0x01, 0xc4, 0xe1, 0xf9, 0x7e, 0xcf, 0xc5, 0xf8, 0x77, 0x0f, 0x05, 0xeb, 0xdc,
    ];
    for soils in [false, true] {
        let mut m = machine(&code);
        m.worker.set_soiling(soils);
        for round in 0..50 {
            assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
            let r = m.vcpu.registers();
            assert_eq!((r.rax, r.rdx, r.rsi, r.rdi), (0, 0, 0, 0), "round {round}, soiled: {soils}");
            work_in_between(round);
        }
        m.space.release(&mut m.region);
    }
}

#[test]
fn copies_stop_at_the_first_bad_byte() {
    let m = machine(&[]);
    let data: Vec<u8> = (0..200u8).collect();
    let end = m.code + 8192;
    for length in 1..=200usize {
        let start = end - length as u64;
        assert_eq!(m.space.write_partial(start, &data[..length]), length);
        let mut back = vec![0; length];
        assert_eq!(m.space.read_partial(start, &mut back), length);
        assert_eq!(back, data[..length]);
        for missing in [1, length / 2, length - 1] {
            let there = length - missing;
            assert_eq!(m.space.write_partial(start + missing as u64, &data[..length]), there);
            assert_eq!(m.space.read_partial(start + missing as u64, &mut back), there);
            assert_eq!(back[..there], data[..there]);
        }
    }
    assert!(m.space.read(0, &mut [0; 4]).is_err());
    assert!(m.space.read(u64::MAX - 1, &mut [0; 4]).is_err());
    assert!(m.space.write(m.space.id() + (100 << 20), &[1]).is_err(), "unmapped memory of its own block");
    let own = data.as_ptr() as u64;
    assert!(m.space.read(own, &mut [0; 4]).is_err(), "the simulator's memory");
}

#[test]
fn freed_memory_reads_as_zero_and_costs_no_map_call() {
    let mut m = machine(&[]);
    let request = |bytes| MapRequest {
        hint: 0,
        bytes,
        prot: PROT_READ | PROT_WRITE,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    let a = m.space.mmap(&mut m.region, &request(1 << 20)).unwrap();
    m.space.write(a, &[7; 100]).unwrap();
    m.space.munmap(a, 1 << 20).unwrap();
    assert!(m.space.read(a, &mut [0; 1]).is_err());
    let b = m.space.mmap(&mut m.region, &request(1 << 20)).unwrap();
    assert_eq!(a, b);
    let mut byte = [1];
    m.space.read(b, &mut byte).unwrap();
    assert_eq!(byte, [0]);
    assert!(m.space.mmap(&mut m.region, &request(8 << 30)).is_ok(), "a further block");
    let heap = m.space.brk(0);
    assert_eq!(m.space.brk(heap + 5000), heap + 5000);
    m.space.write(heap + 4999, &[1]).unwrap();
    assert_eq!(m.space.brk(heap), heap);
}

#[test]
fn a_guest_that_overflows_its_stack_faults() {
    // push rax; jmp -3
    let mut m = machine(&[0x50, 0xeb, 0xfd]);
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert_eq!(fault.signal, 11);
    let stack = m.space.mappings().find(|vma| vma.kind == VmaKind::Stack).copied().unwrap();
    assert_eq!(fault.address, stack.start - 8);
    m.space.release(&mut m.region);
}

#[test]
fn memory_that_is_unmapped_or_without_rights_faults() {
    // mov [rdi], eax
    let mut m = machine(&[0x89, 0x07]);
    let request = |prot| MapRequest {
        hint: 0,
        bytes: 64 << 10,
        prot,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    let code = m.code;
    let faults = |m: &mut Machine, address: u64| {
        m.vcpu.registers_mut().rip = code;
        m.vcpu.registers_mut().rdi = address;
        matches!(m.vcpu.run(&mut m.worker), Exit::Fault(FaultInfo { signal: 11, address: at, .. }) if at == address)
    };
    let gone = m.space.mmap(&mut m.region, &request(PROT_READ | PROT_WRITE)).unwrap();
    m.space.munmap(gone, 64 << 10).unwrap();
    assert!(faults(&mut m, gone + 4096));
    let again = m.space.mmap(&mut m.region, &request(PROT_READ | PROT_WRITE)).unwrap();
    assert_eq!(again, gone);
    m.space.write(again + 4096, &[1]).unwrap();
    m.space.mprotect(again + 4096, 4096, PROT_READ).unwrap();
    assert!(faults(&mut m, again + 4096));
    m.space.mprotect(again + 4096, 4096, PROT_READ | PROT_WRITE).unwrap();
    let none = m.space.mmap(&mut m.region, &request(0)).unwrap();
    assert!(faults(&mut m, none));
    m.space.release(&mut m.region);
}

#[test]
fn a_guest_that_computes_for_ever_comes_back_after_a_tick() {
    // jmp to itself; rax counts in the second
    let mut m = machine(&[0x48, 0xff, 0xc0, 0xeb, 0xfb]);
    m.worker.set_tick(std::time::Duration::from_millis(4));
    m.worker.set_patience(2);
    for _ in 0..3 {
        let before = m.vcpu.registers().rax;
        assert!(matches!(m.vcpu.run(&mut m.worker), Exit::Preempted { .. }));
        assert!(m.vcpu.registers().rax > before + 1000);
        assert!((m.code..m.code + 5).contains(&m.vcpu.registers().rip));
    }
    assert_eq!(prove_spin(&mut m.vcpu, &mut m.worker, &m.space, steps(1000)), Proof::Unknown, "it counts");
    // The ticks go on from wherever they were, so they are made so long that none falls into this run unless the short timer fails.
    m.worker.set_tick(std::time::Duration::from_secs(10));
    m.worker.set_patience(1);
    m.worker.limit_next_run(std::time::Duration::from_micros(100));
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Preempted { ticks: 0 }, "by the short timer");
    m.space.release(&mut m.region);
}

/// An attempt that only its steps limit.
fn steps(steps: u32) -> Effort {
    Effort { steps, time: std::time::Duration::MAX }
}

#[test]
fn an_attempt_to_prove_a_loop_ends_with_its_time() {
    // inc rax; jmp to itself: every step counts.
    let mut m = machine(&[0x48, 0xff, 0xc0, 0xeb, 0xfb]);
    let effort = Effort { steps: 1 << 20, time: std::time::Duration::from_millis(1) };
    assert_eq!(prove_spin(&mut m.vcpu, &mut m.worker, &m.space, effort), Proof::Unknown);
    let taken = 2 * m.vcpu.registers().rax;
    assert!((32..1 << 16).contains(&taken), "{taken} steps in a millisecond");
    m.space.release(&mut m.region);
}

/// Runs into the loop, is interrupted anywhere in it, and proves it.
fn proven(m: &mut Machine) -> (Spin, Registers) {
    m.worker.set_tick(std::time::Duration::from_millis(4));
    m.worker.set_patience(1);
    assert!(matches!(m.vcpu.run(&mut m.worker), Exit::Preempted { .. }));
    match prove_spin(&mut m.vcpu, &mut m.worker, &m.space, steps(4096)) {
        Proof::Spins(spin) => (spin, *m.vcpu.registers()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_loop_that_waits_for_memory_is_proven_and_goes_on_until_that_changes() {
    // 1: pause; mov eax, [rdi]; test eax, eax; jz 1b; syscall
    let mut m = machine(&[0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8, 0x0f, 0x05]);
    let flag = m.vcpu.registers().rsp - 64;
    m.vcpu.registers_mut().rdi = flag;
    let (spin, _) = proven(&mut m);
    assert_eq!((spin.period, spin.shared), (4, false));
    assert!(spin.goes_on(&m.space));
    m.space.write_value(flag - 4, &7u32).unwrap();
    assert!(spin.goes_on(&m.space), "not what it waits for");
    m.space.write_value(flag, &7u32).unwrap();
    assert!(!spin.goes_on(&m.space));
    m.worker.set_patience(u32::MAX);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rax, 7);
    m.space.release(&mut m.region);
}

#[test]
fn the_state_in_which_a_loop_rests_does_not_depend_on_the_moment() {
    // 1: inc ecx; and ecx, 63; mov [rdi], ecx; push rcx; pop rdx; inc byte ptr [rdi + 8]; jmp 1b: a circle of 64 and of 256 rounds
    let code = [0xff, 0xc1, 0x83, 0xe1, 0x3f, 0x89, 0x0f, 0x51, 0x5a, 0xfe, 0x47, 0x08, 0xeb, 0xf2];
    let mut rests = Vec::new();
    for delay in 0..3u32 {
        let mut m = machine(&code);
        let flag = m.vcpu.registers().rsp - 64;
        m.vcpu.registers_mut().rdi = flag;
        m.vcpu.registers_mut().rcx = u64::from(delay);
        let (spin, rest) = proven(&mut m);
        assert_eq!(spin.period, 7 * 256);
        let memory: [u32; 3] = m.space.read_value(flag).unwrap();
        rests.push((rest.rip - m.code, rest.rcx, rest.rdx, memory[0]));
        // Whoever rests there can be proven again at once.
        match prove_spin(&mut m.vcpu, &mut m.worker, &m.space, steps(4096)) {
            Proof::Spins(again) => assert_eq!(again, spin),
            other => panic!("{other:?} at {:#x}", m.vcpu.registers().rip - m.code),
        }
        assert_eq!(*m.vcpu.registers(), rest);
        m.space.release(&mut m.region);
    }
    assert_eq!(rests, [rests[0]; 3]);
}

#[test]
fn what_leads_out_of_a_loop_while_it_is_examined_comes_back() {
    // nop; mov rax, [rdi]
    let mut m = machine(&[0x90, 0x48, 0x8b, 0x07]);
    m.vcpu.registers_mut().rdi = 0x10;
    let proof = prove_spin(&mut m.vcpu, &mut m.worker, &m.space, steps(100));
    assert!(matches!(proof, Proof::Left(Exit::Fault(FaultInfo { signal: 11, address: 0x10, .. }))), "{proof:?}");
    assert_eq!(m.vcpu.registers().rip, m.code + 1);
    // inc eax; syscall: not executed, so that the call is made as ever.
    let mut m = machine(&[0xff, 0xc0, 0x0f, 0x05]);
    assert_eq!(prove_spin(&mut m.vcpu, &mut m.worker, &m.space, steps(100)), Proof::Unknown);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rax, 1);
}

#[test]
fn loops_of_string_instructions_are_proven() {
    // 1: mov rdi, rsi; mov ecx, 5; rep stosb; mov rdi, rsi; mov ecx, 5; repe scasb; jmp 1b
    let code =
        [0x48, 0x89, 0xf7, 0xb9, 5, 0, 0, 0, 0xf3, 0xaa, 0x48, 0x89, 0xf7, 0xb9, 5, 0, 0, 0, 0xf3, 0xae, 0xeb, 0xea];
    let mut m = machine(&code);
    let area = m.vcpu.registers().rsp - 64;
    m.vcpu.registers_mut().rsi = area;
    m.vcpu.registers_mut().rax = 3;
    let (spin, _) = proven(&mut m);
    assert_eq!(spin.period, 7 + 2 * 4);
    assert!(spin.goes_on(&m.space));
    m.space.write_value(area + 4, &9u8).unwrap();
    assert!(!spin.goes_on(&m.space));
    m.space.release(&mut m.region);
}

#[test]
fn a_vsyscall_is_a_call_that_can_happen_again() {
    // sub rsp, 8; mov rax, 0xffffffffff600400; call rax; syscall
    let code = [0x48, 0x83, 0xec, 8, 0x48, 0xc7, 0xc0, 0, 4, 0x60, 0xff, 0xff, 0xd0, 0x0f, 0x05];
    let mut m = machine(&code);
    let before = m.vcpu.registers().rsp;
    for _ in 0..2 {
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::Vsyscall { number: libc_time() });
        let registers = m.vcpu.registers();
        assert_eq!((registers.rip, registers.rsp), (0xffff_ffff_ff60_0400, before - 16));
        assert_eq!(m.space.read_value::<u64>(registers.rsp), Ok(m.code + 13), "the return address");
    }
    let registers = m.vcpu.registers_mut();
    (registers.rip, registers.rsp) = (m.code + 13, before - 8);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
}

/// The number of time(2).
fn libc_time() -> u64 {
    CLOCK_CALLS[1]
}

#[test]
fn a_guest_that_loads_gs_is_noticed_and_does_no_harm() {
    // xor eax, eax; mov gs, eax; mov rax, gs:[0]
    let load = [0x31, 0xc0, 0x8e, 0xe8];
    let access = [0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
    let mut m = machine(&[&load[..], &access[..]].concat());
    let Exit::LostGs(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert_eq!((fault.signal, fault.trap_number), (11, 14));
    assert_eq!(m.vcpu.registers().rip, m.code + 4);
    assert!(m.worker.take_tick() && m.worker.take_lost_gs() && !m.worker.take_lost_gs());
    // From here on GS is the simulator's again.
    m.vcpu.registers_mut().rip = m.code + 4;
    assert!(!matches!(m.vcpu.run(&mut m.worker), Exit::LostGs(_)));

    // mov eax, 39; wrgsbase rsp; syscall; syscall
    let mut m = machine(&[0xb8, 39, 0, 0, 0, 0xf3, 0x48, 0x0f, 0xae, 0xdc, 0x0f, 0x05, 0x0f, 0x05]);
    assert!(matches!(m.vcpu.run(&mut m.worker), Exit::LostGs(FaultInfo { signal: 0, .. })));
    assert_eq!(m.vcpu.registers().rip, m.code + 10, "at the call");
    assert!(m.worker.take_lost_gs());
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rax, 39);

    // wrgsbase rsp; jmp $
    let mut m = machine(&[0xf3, 0x48, 0x0f, 0xae, 0xdc, 0xeb, 0xfe]);
    m.worker.set_patience(2);
    assert!(matches!(m.vcpu.run(&mut m.worker), Exit::Preempted { .. }));
    assert!(m.worker.take_lost_gs());
}

#[test]
fn code_of_32_bits_ends_with_a_fault() {
    // An address below 4 GiB is not to be had here: at the target there is nothing, and that is noticed in the other mode.
    // push 0x23; push 0x1000; retfq
    let mut m = machine(&[0x6a, 0x23, 0x68, 0, 0x10, 0, 0, 0x48, 0xcb]);
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert_eq!((fault.signal, fault.trap_number), (11, 13));
    // The next guest of the worker has 64 bits again: mov rax, -1; syscall
    m.space.write(m.code, &[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x05]).unwrap();
    assert!(m.space.allow_execution(m.code));
    m.vcpu.registers_mut().rip = m.code;
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rax, u64::MAX);
}

#[test]
fn code_is_prepared_when_it_is_executed_for_the_first_time_and_after_changes() {
    // mov eax, 0x80000002; cpuid; mov r8d, ebx; rdrand rbx; rdpid rcx; mov rsi, gs:[0]
    let code = [
        &[0xb8, 2, 0, 0, 0x80, 0x0f, 0xa2, 0x41, 0x89, 0xd8, 0x48, 0x0f, 0xc7, 0xf3, 0xf3, 0x0f, 0xc7, 0xf9][..],
        &[0x65, 0x48, 0x8b, 0x34, 0x25, 0, 0, 0, 0],
    ]
    .concat();
    let mut m = machine(&[]);
    for round in 0..4 {
        m.space.write(m.code, &code).unwrap();
        m.vcpu.registers_mut().rip = m.code;
        let mut answered = Vec::new();
        let signal = loop {
            match m.vcpu.run(&mut m.worker) {
                Exit::TrappedCpuid => {}
                Exit::Fault(fault) if m.space.waits_for_execution(&fault) => {
                    m.space.prepare_code(fault.address, m.vcpu.registers().rip);
                    assert!(m.space.allow_execution(fault.address));
                }
                Exit::Fault(fault) => match m.space.pass_trap(&mut m.vcpu, &fault) {
                    Passed::Emulated => answered.push(m.vcpu.registers().rip - m.code),
                    Passed::ReadRandom => m.vcpu.complete_random(0x1234),
                    Passed::Faulted(fault) => break fault.signal,
                    other => {
                        panic!("round {round}: {other:?} of {fault:?}, rip at {:#x}", m.vcpu.registers().rip - m.code)
                    }
                },
                exit => panic!("{exit:?}"),
            }
        };
        let registers = m.vcpu.registers();
        assert_eq!((registers.r8 as u32).to_le_bytes(), *b"on x", "round {round}");
        assert_eq!((registers.rbx, registers.rcx), (0x1234, 0));
        assert_eq!((signal, registers.rip), (11, m.code + 18), "SIGSEGV at the access by GS");
        assert!(answered.contains(&18), "rdpid: {answered:?}");
        assert_eq!(m.space.reaches_of_generated_code(0, u64::MAX, MadeCode::Any), [""; 0]);
    }
    // What is written without being executed again is only looked at.
    for round in 0..16u64 {
        m.space.write(m.code + 8 * round, &[0x0f, 0xc7, 0xf0, 0xc3]).unwrap();
        if round < 15 {
            m.space.allow_execution(m.code);
        }
    }
    assert_eq!(m.space.reaches_of_generated_code(0, u64::MAX, MadeCode::Any), ["rdrand in generated code"]);
    // Other memory at the same place begins anew.
    m.space.munmap(m.code, 8192).unwrap();
    let request = MapRequest { hint: m.code, fixed: true, ..executable() };
    assert_eq!(m.space.mmap(&mut m.region, &request), Ok(m.code));
    m.space.write(m.code, &[0x0f, 0xc7, 0xf0, 0xc3]).unwrap();
    m.vcpu.registers_mut().rip = m.code;
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!("executed unprepared") };
    assert!(m.space.waits_for_execution(&fault));
    m.space.release(&mut m.region);
}

#[test]
fn cpuid_in_made_up_code_is_answered_where_the_processor_can_trap_it() {
    // mov eax, 0x80000002; cpuid; syscall
    let mut m = machine(&[0xb8, 2, 0, 0, 0x80, 0x0f, 0xa2, 0x0f, 0x05]);
    if traps_cpuid() {
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::TrappedCpuid);
    }
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    let answer = (m.vcpu.registers().rbx as u32).to_le_bytes();
    assert_eq!(answer == *b"on x", traps_cpuid());
    // The simulator may ask the processor in between.
    assert_ne!(std::arch::x86_64::__cpuid(0).eax, 0);
    m.vcpu.registers_mut().rip = m.code;
    if traps_cpuid() {
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::TrappedCpuid);
    }
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!((m.vcpu.registers().rbx as u32).to_le_bytes(), answer);
}

#[test]
fn what_follows_a_trapped_cpuid_is_answered_too() {
    // cpuid; xor ecx, ecx; jmp +1; nop; xgetbv; rdrand rbx; syscall
    let code = [0x0f, 0xa2, 0x31, 0xc9, 0xeb, 1, 0x90, 0x0f, 0x01, 0xd0, 0x48, 0x0f, 0xc7, 0xf3, 0x0f, 0x05];
    let mut m = machine(&code);
    if !traps_cpuid() {
        return;
    }
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::TrappedCpuid);
    m.space.tame_code(m.vcpu.registers().rip);
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert!(matches!(m.space.pass_trap(&mut m.vcpu, &fault), Passed::Emulated));
    assert_eq!((m.vcpu.registers().rax, m.vcpu.registers().rdx), (7, 0));
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert!(matches!(m.space.pass_trap(&mut m.vcpu, &fault), Passed::ReadRandom));
    m.vcpu.complete_random(0x1234);
    assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    assert_eq!(m.vcpu.registers().rbx, 0x1234);
    // What is written over is the program's again.
    m.space.write(m.code + 7, &[0xcc, 0x90, 0x90]).unwrap();
    m.vcpu.registers_mut().rip = m.code + 7;
    let Exit::Fault(fault) = m.vcpu.run(&mut m.worker) else { panic!() };
    assert!(matches!(m.space.pass_trap(&mut m.vcpu, &fault), Passed::No));
}

#[test]
fn instructions_are_executed_one_by_one() {
    // mov ecx, 3; lea rsi, [rsp - 128]; mov rdi, rsi; rep movsb; pushfq; pop rax; syscall
    let code = [0xb9, 3, 0, 0, 0, 0x48, 0x8d, 0x74, 0x24, 0x80, 0x48, 0x89, 0xf7, 0xf3, 0xa4, 0x9c, 0x58, 0x0f, 0x05];
    let mut m = machine(&code);
    let mut places = Vec::new();
    let exit = loop {
        match m.vcpu.step(&mut m.worker) {
            None => places.push(m.vcpu.registers().rip - m.code),
            Some(exit) => break exit,
        }
    };
    assert_eq!(places, [5, 10, 13, 13, 13, 15, 16, 17]);
    assert_eq!((exit, m.vcpu.registers().rip), (Exit::Syscall, m.code + 19));
    assert_eq!(m.vcpu.registers().rax & Vcpu::TRAP_FLAG, Vcpu::TRAP_FLAG, "whoever steps takes it out");
    assert_eq!(m.vcpu.registers().r11 & Vcpu::TRAP_FLAG, 0);
    assert_eq!(m.space.step_kind(m.code + 15), StepKind::PushFlags);
    assert_eq!(m.space.instruction_address(m.code + 15), Some(m.code + 15));
    m.space.release(&mut m.region);
}

#[test]
fn a_guest_goes_on_after_samples_and_keeps_its_patience() {
    // 1: inc rax; jmp 1b
    let mut m = machine(&[0x48, 0xff, 0xc0, 0xeb, 0xfb]);
    m.worker.set_tick(std::time::Duration::from_millis(20));
    m.worker.set_patience(2);
    m.worker.start_sampling(std::time::Duration::from_millis(1)).unwrap();
    let mut exit = m.vcpu.run(&mut m.worker);
    let (mut samples, mut weight) = (0, std::time::Duration::ZERO);
    while exit == Exit::Sampled {
        let before = m.vcpu.registers().rax;
        assert!((m.code..m.code + 5).contains(&m.vcpu.registers().rip));
        assert!(m.worker.has_samples());
        let taken = m.worker.take_samples();
        assert!(taken.iter().any(|sample| matches!(sample.at, SampledAt::Guest)), "{} samples", taken.len());
        weight += taken.iter().map(|sample| sample.weight).sum::<std::time::Duration>();
        samples += taken.len();
        assert!(samples < 10_000, "two ticks do not end it");
        exit = m.vcpu.go_on(&mut m.worker);
        assert!(m.vcpu.registers().rax >= before);
    }
    assert_eq!(exit, Exit::Preempted { ticks: 2 });
    assert!(samples > 2, "{samples}");
    let rest = m.worker.end_sampling();
    assert!(weight > rest && weight < std::time::Duration::from_secs(10), "{weight:?}, {rest:?}");
    m.space.release(&mut m.region);
}

/// Signals come before the handler of the one before is through, here because they are due as often as the kernel lets them be; elsewhere
/// because the machine is busy.
#[test]
fn a_guest_goes_on_where_samples_come_faster_than_they_can_be_taken() {
    // 1: mov ecx, 20000; 2: dec ecx; jnz 2b; mov eax, 39; syscall; inc r12; jmp 1b
    let code =
        [0xb9, 0x20, 0x4e, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x49, 0xff, 0xc4, 0xeb, 0xeb];
    let mut m = machine(&code);
    m.worker.start_sampling(std::time::Duration::from_micros(1)).unwrap();
    let mut samples = 0;
    for call in 0..5_000 {
        let mut exit = m.vcpu.run(&mut m.worker);
        while exit == Exit::Sampled {
            exit = m.vcpu.go_on(&mut m.worker);
            samples += m.worker.take_samples().len();
        }
        assert_eq!((exit, m.vcpu.registers().rip), (Exit::Syscall, m.code + 16));
        assert_eq!((m.vcpu.registers().rax, m.vcpu.registers().r12), (39, call));
    }
    m.worker.end_sampling();
    assert!(samples > 100, "{samples}");
    m.space.release(&mut m.region);
}

#[test]
fn addresses_that_the_processor_does_not_take_are_faults_there() {
    for (rip, steps) in
        [(1 << 63, false), (1 << 63, true), (0xfeff_ffff_ffff_ffff, false), (0xfeff_ffff_ffff_ffff, true)]
    {
        let mut m = machine(&[0x90]);
        let registers = m.vcpu.registers_mut();
        (registers.rip, registers.rbx) = (rip, 0x77);
        let before = *registers;
        let exit = if steps { m.vcpu.step(&mut m.worker) } else { Some(m.vcpu.run(&mut m.worker)) };
        let Some(Exit::Fault(fault)) = exit else { panic!("{exit:?}") };
        assert_eq!((fault.signal, fault.trap_number, fault.address), (libc::SIGSEGV, 13, 0), "{rip:#x}");
        let after = m.vcpu.registers();
        assert_eq!((after.rip, after.rbx, after.rsp), (rip, 0x77, before.rsp), "{rip:#x}");
        m.space.release(&mut m.region);
    }
}

#[test]
fn whatever_a_frame_holds_can_be_loaded() {
    let mut m = machine(&[0x0f, 0x05]);
    // MXCSR, the components in use, the rest of the header, the control word of x87.
    for (mxcsr, in_use, header, control) in
        [(u32::MAX, 3, u64::MAX, 0), (0xffff, u64::MAX, 0, 0x1234), (0, 1, 1 << 63, 0xffff)]
    {
        let mut area = [0u8; SIGNAL_XSAVE_BYTES];
        area[0..2].copy_from_slice(&u16::to_le_bytes(control));
        area[24..28].copy_from_slice(&u32::to_le_bytes(mxcsr));
        area[512..520].copy_from_slice(&u64::to_le_bytes(in_use));
        area[520..528].copy_from_slice(&header.to_le_bytes());
        m.vcpu.set_extended_state(&area);
        assert!(m.vcpu.can_be_loaded());
        m.vcpu.registers_mut().rip = m.code;
        assert_eq!(m.vcpu.run(&mut m.worker), Exit::Syscall);
    }
    m.space.release(&mut m.region);
}
