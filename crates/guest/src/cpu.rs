//! The one CPU that every guest sees, whatever the machine: a Haswell-like x86-64-v3 with AES, PCLMUL and ADX.
//!
//! `cpuid` and `xgetbv` answer from this table, so that a run gives the same bits on another machine. Left out on purpose:
//! AVX-512 (not everywhere), RDRAND and RDSEED (a guest that asks first then never executes them; those that do not ask are
//! rewritten), RTM. The time-stamp counter counts simulated nanoseconds.

use crate::registers::Registers;

/// Ticks of the guests' time-stamp counter per second.
pub const TSC_HZ: u64 = 1_000_000_000;
/// What `xgetbv` with ecx = 0 answers: x87, SSE, AVX.
pub(crate) const XCR0: u64 = 0b111;
/// The size that leaf 0xD announces for an XSAVE area. Above the 832 bytes of the announced components, because glibc's lazy
/// binding asks XSAVE for AVX-512 and PKRU wherever the real CPU has them enabled.
const XSAVE_AREA_BYTES: u32 = 2_696;

/// AT_HWCAP: CPUID leaf 1, edx.
pub const HWCAP: u64 = LEAF1_EDX as u64;
/// AT_HWCAP2: FSGSBASE.
pub const HWCAP2: u64 = 2;

const LEAF1_EAX: u32 = 0x0003_06c3;
const LEAF1_EBX: u32 = 0x0001_0800;
const LEAF1_ECX: u32 = bits(&[0, 1, 9, 12, 13, 19, 20, 22, 23, 25, 26, 27, 28, 29]);
const LEAF1_EDX: u32 = bits(&[0, 4, 5, 6, 8, 11, 15, 19, 23, 24, 25, 26]);
const LEAF7_EBX: u32 = bits(&[0, 3, 5, 8, 9, 19]);
const EXTENDED1_ECX: u32 = bits(&[0, 5]);
const EXTENDED1_EDX: u32 = bits(&[11, 20, 27, 29]);

const fn bits(list: &[u32]) -> u32 {
    let mut value = 0;
    let mut at = 0;
    while at < list.len() {
        value |= 1 << list[at];
        at += 1;
    }
    value
}

/// `cpuid`: (eax, ebx, ecx, edx).
pub(crate) fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    match leaf {
        0 => [0x16, word(b"Genu"), word(b"ntel"), word(b"ineI")],
        1 => [LEAF1_EAX, LEAF1_EBX, LEAF1_ECX, LEAF1_EDX],
        2 => [0x7603_6301, 0x00f0_b5ff, 0, 0x00c1_0000],
        4 => cache(subleaf),
        7 if subleaf == 0 => [0, LEAF7_EBX, 0, 0],
        0xb => match subleaf {
            0 => [0, 1, 0x100, 0],
            1 => [0, 1, 0x201, 0],
            _ => [0, 0, subleaf, 0],
        },
        0xd => match subleaf {
            0 => [XCR0 as u32, XSAVE_AREA_BYTES, XSAVE_AREA_BYTES, 0],
            1 => [1, 0, 0, 0],
            2 => [256, 576, 0, 0],
            _ => [0; 4],
        },
        0x15 => [1, 1, TSC_HZ as u32, 0],
        0x16 => [1000, 1000, 100, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0001 => [0, 0, EXTENDED1_ECX, EXTENDED1_EDX],
        0x8000_0002 => [word(b"Gnom"), word(b"on x"), word(b"86-6"), word(b"4-v3")],
        0x8000_0006 => [0, 0, 0x0100_6040, 0],
        0x8000_0007 => [0, 0, 0, 1 << 8],
        0x8000_0008 => [0x3030, 0, 0, 0],
        _ => [0; 4],
    }
}

/// `cpuid` of what is in eax and ecx.
pub(crate) fn answer_cpuid(registers: &mut Registers) {
    let [eax, ebx, ecx, edx] = cpuid(registers.rax as u32, registers.rcx as u32);
    (registers.rax, registers.rbx) = (eax.into(), ebx.into());
    (registers.rcx, registers.rdx) = (ecx.into(), edx.into());
}

/// `xgetbv`: XCR0, or with ecx = 1 what of it is in use.
pub(crate) fn xgetbv(registers: &mut Registers) {
    registers.rax = if registers.rcx as u32 == 0 { XCR0 } else { 0b010 };
    registers.rdx = 0;
}

/// Leaf 4: 32 KiB of L1 data and instructions, 256 KiB of L2, 8 MiB of L3, lines of 64 bytes.
fn cache(subleaf: u32) -> [u32; 4] {
    let entry =
        |kind: u32, level: u32, ways: u32, sets: u32| [kind | level << 5 | 1 << 8, (ways - 1) << 22 | 63, sets - 1, 0];
    match subleaf {
        0 => entry(1, 1, 8, 64),
        1 => entry(2, 1, 8, 64),
        2 => entry(3, 2, 8, 512),
        3 => entry(3, 3, 16, 8192),
        _ => [0; 4],
    }
}

const fn word(text: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*text)
}

/// What this machine's CPU lacks of the promised one.
pub(crate) fn missing_features() -> Vec<&'static str> {
    let checks = [
        ("SSE4.2", is_x86_feature_detected!("sse4.2")),
        ("POPCNT", is_x86_feature_detected!("popcnt")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("BMI1", is_x86_feature_detected!("bmi1")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
        ("LZCNT", is_x86_feature_detected!("lzcnt")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("F16C", is_x86_feature_detected!("f16c")),
        ("MOVBE", is_x86_feature_detected!("movbe")),
        ("AES", is_x86_feature_detected!("aes")),
        ("PCLMULQDQ", is_x86_feature_detected!("pclmulqdq")),
        ("ADX", is_x86_feature_detected!("adx")),
        ("XSAVE", is_x86_feature_detected!("xsave")),
    ];
    checks.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect()
}

/// This machine's time-stamp counter. Not on a worker, where reading it may trap.
pub fn time_stamp() -> u64 {
    // SAFETY: reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}
