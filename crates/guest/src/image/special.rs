//! Which instructions reach beyond the program: those that ask the kernel, and those that would show the real processor.
//!
//! `docs/instructions.md` has the table of what guests get.

use super::gs::{is_expandable, is_relative_to_gs};
use crate::traps::{EMULATE_CPUID, EMULATE_OTHER, EMULATE_RANDOM, EMULATE_RDTSC, EMULATE_RDTSCP, EMULATE_XGETBV};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

const GS_PREFIX: u8 = 0x65;

/// What becomes of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// A way out for the system call.
    Syscall,
    /// A way out with this request; [`EMULATE_OTHER`] where the instruction itself says what is to be done.
    Emulate(u32),
    /// Carried out in the sled, with the guest's own GS base.
    Gs,
    /// Invalid, as on the processor that guests are shown.
    Invalid,
}

impl Special {
    /// Whether it is rare in programs, and as likely found in constants.
    pub(crate) fn is_rare(self) -> bool {
        matches!(self, Special::Gs | Special::Invalid | Special::Emulate(EMULATE_OTHER))
    }
}

pub(crate) fn special(instruction: &Instruction) -> Option<Special> {
    use Mnemonic::*;
    let segment = || instruction.op0_register();
    Some(match instruction.mnemonic() {
        Syscall => Special::Syscall,
        Cpuid => Special::Emulate(EMULATE_CPUID),
        Xgetbv => Special::Emulate(EMULATE_XGETBV),
        Rdtsc => Special::Emulate(EMULATE_RDTSC),
        Rdtscp => Special::Emulate(EMULATE_RDTSCP),
        Rdrand | Rdseed => {
            let register = instruction.op0_register();
            Special::Emulate(EMULATE_RANDOM | (register.number() as u32) << 8 | (register.size() as u32) << 16)
        }
        Rdpid | Rdgsbase | Lsl | Sgdt | Sidt | Sldt | Str | Smsw | Lfs | Lgs => Special::Emulate(EMULATE_OTHER),
        Mov | Pop if matches!(segment(), Register::FS | Register::GS) => Special::Emulate(EMULATE_OTHER),
        Wrgsbase if segment().is_gpr64() => Special::Gs,
        Wrgsbase => Special::Emulate(EMULATE_OTHER),
        Lea | Nop => return None,
        Rdpkru | Wrpkru | Serialize | Umonitor | Umwait | Tpause | Monitorx | Mwaitx | Rdpru | Clzero | Xbegin
        | Xabort | Xend | Xtest | Sysenter | Vmcall | Vmmcall | Vmfunc => Special::Invalid,
        _ if is_relative_to_gs(instruction) => {
            if is_expandable(instruction) {
                Special::Gs
            } else {
                Special::Invalid
            }
        }
        _ => return None,
    })
}

/// Whether it is one that occurs in programs.
pub(crate) fn is_usual(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(instruction.mnemonic(), Cpuid | Xgetbv | Rdtsc | Rdtscp | Rdrand | Rdseed | Rdpid)
}

/// Whether bytes are the opcode of one of those.
pub(crate) fn is_usual_opcode(code: &[u8]) -> bool {
    match code {
        [0x0f, 0x01, third, ..] => matches!(third, 0xd0 | 0xf9),
        [0x0f, 0xc7, third, ..] => *third >= 0xf0,
        [0x0f, second, ..] => matches!(second, 0x31 | 0xa2),
        _ => false,
    }
}

/// Offsets of bytes that may belong to one of these instructions, its prefixes not counted; of accesses relative to GS, the usual moves.
pub(crate) fn candidates(code: &[u8]) -> Vec<usize> {
    candidates_with(code, |second| {
        // A REX prefix, or one of the moves.
        matches!(second, 0x40..=0x4f | 0x88..=0x8b | 0xa0..=0xa3 | 0x33 | 0x03 | 0x2b | 0x3b | 0xc6 | 0xc7 | 0xff)
    })
}

/// The same, with all accesses relative to GS.
pub(crate) fn all_candidates(code: &[u8]) -> Vec<usize> {
    let mut found = candidates_with(code, |_| true);
    found.retain(|at| code[*at] != GS_PREFIX || begins_access_by_gs(&code[*at..]));
    found
}

/// Most bytes like the prefix are something else.
fn begins_access_by_gs(code: &[u8]) -> bool {
    is_relative_to_gs(&Decoder::new(64, code, DecoderOptions::NONE).decode())
}

fn candidates_with(code: &[u8], follows_gs: impl Fn(u8) -> bool) -> Vec<usize> {
    const CHUNK: usize = 16;
    let mut found = Vec::new();
    let seconds = code.get(1..).unwrap_or(&[]);
    for (index, (chunk, behind)) in code.chunks(CHUNK).zip(seconds.chunks(CHUNK)).enumerate() {
        // Most chunks have none, and testing a whole chunk takes no longer than testing a few of its bytes.
        let mut may_begin_at = [0; CHUNK];
        for (may, (first, second)) in may_begin_at.iter_mut().zip(chunk.iter().zip(behind)) {
            *may = u8::from(may_begin(*first, *second));
        }
        let mut left = u128::from_le_bytes(may_begin_at);
        while left != 0 {
            let at = index * CHUNK + left.trailing_zeros() as usize / 8;
            left &= left - 1;
            let third = || code.get(at + 2).copied().unwrap_or(0);
            let is_candidate = match code[at] {
                0x0f => is_candidate(code[at + 1], third()),
                // mov to FS or GS.
                0x8e => matches!(code[at + 1] & 0x38, 0x20 | 0x28),
                GS_PREFIX => follows_gs(code[at + 1]),
                // xbegin, xabort.
                0xc6 | 0xc7 => code[at + 1] == 0xf8,
                _ => false,
            };
            if is_candidate {
                found.push(at);
            }
        }
    }
    found
}

/// Whether two bytes can begin a candidate. It has no branches, so that the compiler tests many places at once.
#[inline(always)]
fn may_begin(first: u8, second: u8) -> bool {
    let is_one_of = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | (second == *byte));
    let is_even_of = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | (second & 0xfe == *byte));
    let follows = is_even_of(&[0x00, 0x34, 0xb4]) | is_one_of(&[0x03, 0x05, 0x31, 0xa1, 0xa2, 0xa9, 0xae, 0xc7]);
    (first == GS_PREFIX)
        | ((first == 0x0f) & follows)
        | ((first == 0x8e) & (second & 0x30 == 0x20))
        | ((first & 0xfe == 0xc6) & (second == 0xf8))
}

/// Of two-byte opcodes, by the second byte and the one behind it.
fn is_candidate(second: u8, third: u8) -> bool {
    let is_register = third >= 0xc0;
    let extension = third >> 3 & 7;
    match second {
        // sldt, str.
        0x00 => extension <= 1,
        // sgdt, sidt, smsw; vmcall, xgetbv, vmfunc, xend, xtest, vmmcall, serialize, rdpkru, wrpkru, rdtscp and on to rdpru.
        0x01 if is_register => {
            extension == 4 || matches!(third, 0xc1 | 0xd0 | 0xd4..=0xd6 | 0xd9 | 0xe8 | 0xee | 0xef | 0xf9..=0xfd)
        }
        0x01 => matches!(extension, 0 | 1 | 4),
        // lsl, syscall, rdtsc, sysenter, pop fs, cpuid, pop gs.
        0x03 | 0x05 | 0x31 | 0x34 | 0xa1 | 0xa2 | 0xa9 => true,
        // lfs, lgs.
        0xb4 | 0xb5 => !is_register,
        // rdgsbase, wrgsbase, umonitor and its kin.
        0xae => is_register && matches!(extension, 1 | 3 | 6),
        // rdrand, rdseed, rdpid.
        0xc7 => is_register && extension >= 6,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> (Option<Special>, bool) {
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        let is_among = |list: Vec<usize>| list.iter().any(|at| *at < instruction.len());
        let listed = is_among(candidates(&[code, &[0x90; 4]].concat()));
        assert_eq!(is_among(all_candidates(&[code, &[0x90; 4]].concat())), listed || is_relative_to_gs(&instruction));
        (special(&instruction), listed)
    }

    #[test]
    fn every_special_instruction_is_a_candidate() {
        let other = Some(Special::Emulate(EMULATE_OTHER));
        for (code, expected, name) in [
            (&[0x0f, 0x05][..], Some(Special::Syscall), "syscall"),
            (&[0x0f, 0xa2], Some(Special::Emulate(EMULATE_CPUID)), "cpuid"),
            (&[0x0f, 0x01, 0xd0], Some(Special::Emulate(EMULATE_XGETBV)), "xgetbv"),
            (&[0x0f, 0x31], Some(Special::Emulate(EMULATE_RDTSC)), "rdtsc"),
            (&[0x0f, 0x01, 0xf9], Some(Special::Emulate(EMULATE_RDTSCP)), "rdtscp"),
            (&[0x49, 0x0f, 0xc7, 0xf2], Some(Special::Emulate(EMULATE_RANDOM | 10 << 8 | 8 << 16)), "rdrand r10"),
            (&[0x66, 0x0f, 0xc7, 0xf8], Some(Special::Emulate(EMULATE_RANDOM | 2 << 16)), "rdseed ax"),
            (&[0xf3, 0x0f, 0xc7, 0xf8], other, "rdpid rax"),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xc8], other, "rdgsbase rax"),
            (&[0x0f, 0x03, 0xc0], other, "lsl eax, eax"),
            (&[0x0f, 0x01, 0x00], other, "sgdt [rax]"),
            (&[0x0f, 0x01, 0x08], other, "sidt [rax]"),
            (&[0x0f, 0x00, 0xc0], other, "sldt eax"),
            (&[0x0f, 0x00, 0x08], other, "str [rax]"),
            (&[0x0f, 0x01, 0xe0], other, "smsw eax"),
            (&[0x8e, 0xe8], other, "mov gs, eax"),
            (&[0x41, 0x8e, 0x20], other, "mov fs, [r8]"),
            (&[0x0f, 0xa9], other, "pop gs"),
            (&[0x0f, 0xa1], other, "pop fs"),
            (&[0x0f, 0xb5, 0x00], other, "lgs eax, [rax]"),
            (&[0xf3, 0x0f, 0xae, 0xd8], other, "wrgsbase eax"),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xd8], Some(Special::Gs), "wrgsbase rax"),
            (&[0x0f, 0x01, 0xee], Some(Special::Invalid), "rdpkru"),
            (&[0x0f, 0x01, 0xef], Some(Special::Invalid), "wrpkru"),
            (&[0x0f, 0x01, 0xe8], Some(Special::Invalid), "serialize"),
            (&[0xf3, 0x0f, 0xae, 0xf0], Some(Special::Invalid), "umonitor rax"),
            (&[0xf2, 0x0f, 0xae, 0xf0], Some(Special::Invalid), "umwait eax"),
            (&[0x66, 0x0f, 0xae, 0xf0], Some(Special::Invalid), "tpause eax"),
            (&[0x0f, 0x01, 0xfa], Some(Special::Invalid), "monitorx"),
            (&[0x0f, 0x01, 0xfd], Some(Special::Invalid), "rdpru"),
            (&[0xc7, 0xf8, 0, 0, 0, 0], Some(Special::Invalid), "xbegin"),
            (&[0xc6, 0xf8, 1], Some(Special::Invalid), "xabort"),
            (&[0x0f, 0x01, 0xd6], Some(Special::Invalid), "xtest"),
            (&[0x0f, 0x34], Some(Special::Invalid), "sysenter"),
            (&[0x0f, 0x01, 0xc1], Some(Special::Invalid), "vmcall"),
            (&[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], Some(Special::Gs), "mov rax, gs:[0]"),
            (&[0x65, 0x89, 0x07], Some(Special::Gs), "mov gs:[rdi], eax"),
            (&[0x65, 0xff, 0x20], Some(Special::Invalid), "jmp gs:[rax]"),
        ] {
            assert_eq!(of(code), (expected, true), "{name}");
            let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
            let has_opcode = (0..code.len()).any(|at| is_usual_opcode(&code[at..]));
            assert_eq!(is_usual(&instruction), has_opcode, "{name}");
        }
        for (code, name) in [
            (&[0x0f, 0xae, 0xe8][..], "lfence"),
            (&[0x0f, 0x0b], "ud2"),
            (&[0x8e, 0xd8], "mov ds, eax"),
            (&[0x0f, 0xc7, 0x0f], "cmpxchg8b"),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xc0], "rdfsbase rax"),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xd0], "wrfsbase rax"),
            (&[0x0f, 0x02, 0xc0], "lar eax, eax"),
        ] {
            assert_eq!(of(code).0, None, "{name}");
        }
    }

    #[test]
    fn candidates_are_found_wherever_they_lie() {
        for (code, name) in [(&[0x0f, 0x05][..], "syscall"), (&[0x65, 0x89, 0x07], "mov gs:[rdi], eax")] {
            for before in 0..40 {
                for behind in [0, 1, 20] {
                    let all = [&vec![0x90; before][..], code, &vec![0x90; behind]].concat();
                    assert_eq!((all_candidates(&all), candidates(&all)), (vec![before], vec![before]), "{name}");
                }
            }
        }
        assert_eq!(all_candidates(&[0x90; 40]), [0; 0]);
        assert_eq!(all_candidates(&[0x0f]), [0; 0]);
    }
}
