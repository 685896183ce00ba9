//! Code that programs make while they run: nobody rewrites it, so what it holds is looked at when it is about to be executed or is given up.
//!
//! `syscall`, `int $0x80`, `rdtsc` and, where the processor can, `cpuid` trap wherever they lie. The others answer as the real
//! processor does. Where a `cpuid` was trapped, what can be reached from there by direct branches is code for certain: special instructions
//! in it become traps. Programs ask `cpuid` before they use what not every processor has.

use crate::copy;
use crate::image::{
    CONTEXT_BYTES, Certainty, PAGE, Special, candidates, ends_run, instruction_around, is_nonsense, is_relative_to_gs,
    special,
};
use crate::memory::{AddressSpace, VmaKind};
use crate::traps::EMULATE_RANDOM;
use crate::vcpu::{FaultInfo, Vcpu};
use crate::worker::traps_cpuid;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use std::collections::{BTreeMap, BTreeSet};

/// So much is looked at in one piece.
const PIECE: usize = 1 << 20;
/// As much is read behind a piece.
const LONGEST_INSTRUCTION: usize = 15;

impl AddressSpace {
    /// What code of the process's own making in [from, to), which has all of the rights in `prot`, can ask the real processor, each named once.
    pub fn reaches_of_generated_code(&self, from: u64, to: u64, prot: u8) -> Vec<&'static str> {
        let mut reaches = Vec::new();
        let made = |kind: &VmaKind| !matches!(kind, VmaKind::Image(_));
        for vma in self.mappings().filter(|vma| vma.prot & prot == prot && made(&vma.kind)) {
            let (start, end) = (vma.start.max(from & !(PAGE - 1)), vma.end.min(to));
            if start < end {
                self.look_at(start, end, vma.shared, &mut reaches);
            }
        }
        reaches.sort_unstable();
        reaches.dedup();
        reaches
    }

    fn look_at(&self, start: u64, end: u64, shared: bool, reaches: &mut Vec<&'static str>) {
        // Most of a large reservation was never touched.
        let touched = if shared { None } else { self.private_pages(start, end) };
        for (from, to) in touched.unwrap_or_else(|| vec![(start, end)]) {
            for at in (from..to).step_by(PIECE) {
                let begin = at.saturating_sub(CONTEXT_BYTES as u64).max(from);
                let length = (to - begin).min((PIECE + CONTEXT_BYTES + LONGEST_INSTRUCTION) as u64);
                let mut code = vec![0u8; length as usize];
                let readable = self.read_code(begin, &mut code);
                code.truncate(readable);
                reaches.extend(reaches_of(&code, begin));
            }
        }
    }
}

/// Instructions of generated code that were made traps: by address, what they were.
pub(crate) type Tamed = BTreeMap<u64, [u8; LONGEST_INSTRUCTION]>;

/// What became of a trap.
#[derive(Debug)]
pub enum Passed {
    /// It is the guest's own.
    No,
    /// The guest goes on in a sled, with the instruction that lay at `place`.
    Entered { place: u64 },
    /// The instruction was carried out.
    Emulated,
    /// It could not be.
    Faulted(FaultInfo),
    /// It is to be answered by [`Vcpu::complete_random`].
    ReadRandom,
}

/// So many instructions are followed from a `cpuid`.
const FOLLOWED: usize = 2048;
/// `int3`.
const TRAP: u8 = 0xcc;

impl AddressSpace {
    /// Leads a vcpu past a trap that was put in its program's way: at an instruction inside of a patch, or in place of one that would
    /// show the real processor. The address space must have been entered.
    pub fn pass_trap(&self, vcpu: &mut Vcpu, fault: &FaultInfo) -> Passed {
        const BREAKPOINT: u64 = 3;
        const TRAPS: [u64; 3] = [BREAKPOINT, 6, 13];
        if !TRAPS.contains(&fault.trap_number) {
            return Passed::No;
        }
        let is_breakpoint = fault.trap_number == BREAKPOINT;
        let place = vcpu.registers().rip.wrapping_sub(is_breakpoint.into());
        if let Some(entry) = self.patched_entry(place) {
            vcpu.registers_mut().rip = entry;
            return Passed::Entered { place };
        }
        let Some(instruction) = self.tamed_instruction(place).filter(|_| is_breakpoint) else { return Passed::No };
        vcpu.registers_mut().rip = instruction.next_ip();
        if let Some(Special::Emulate(info)) = special(&instruction)
            && info & 0xff == EMULATE_RANDOM
        {
            vcpu.expect_random(info);
            return Passed::ReadRandom;
        }
        match self.emulate_at(&instruction, vcpu.registers_mut()) {
            Ok(()) => Passed::Emulated,
            Err(fault) => Passed::Faulted(fault),
        }
    }

    /// What a trap stands for, if nothing else has been written there since.
    fn tamed_instruction(&self, place: u64) -> Option<Instruction> {
        let bytes = self.tamed.get(&place)?;
        let instruction = Decoder::with_ip(64, bytes, place, DecoderOptions::NONE).decode();
        let mut now = [0; LONGEST_INSTRUCTION];
        let length = instruction.len();
        let unchanged = self.read_code(place, &mut now[..length]) == length && now[1..length] == bytes[1..length];
        unchanged.then_some(instruction)
    }

    /// Makes traps of instructions that would show the real processor, in code that a guest executes now: what direct branches lead to
    /// from `rip`. The address space must have been entered.
    pub fn tame_code(&mut self, rip: u64) {
        let (mut todo, mut seen) = (vec![rip], BTreeSet::new());
        while let Some(at) = todo.pop() {
            if seen.len() == FOLLOWED || !seen.insert(at) {
                continue;
            }
            let mut bytes = [0; LONGEST_INSTRUCTION];
            let readable = self.read_code(at, &mut bytes);
            let instruction = Decoder::with_ip(64, &bytes[..readable], at, DecoderOptions::NONE).decode();
            if is_nonsense(&instruction) || self.image_start(at) != self.image_start(rip) {
                continue;
            }
            if matches!(special(&instruction), Some(Special::Emulate(_))) && !traps(&instruction) {
                bytes[instruction.len()..].fill(0);
                if copy::copy_bytes(at, [TRAP].as_ptr() as u64, 1) == 0 {
                    self.tamed.insert(at, bytes);
                }
            }
            if instruction.op0_kind() == OpKind::NearBranch64 {
                todo.push(instruction.near_branch64());
            }
            if !ends_run(&instruction) {
                todo.push(instruction.next_ip());
            }
        }
    }
}

/// Whether the processor makes an instruction trap wherever it lies; `cpuid`, where one was trapped.
fn traps(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Cpuid | Mnemonic::Rdtsc | Mnemonic::Rdtscp)
}

/// What instructions in `code` can ask the real processor.
fn reaches_of(code: &[u8], address: u64) -> impl Iterator<Item = &'static str> {
    candidates(code)
        .into_iter()
        .filter_map(move |at| reach_of(&instruction_around(code, address, at, Certainty::Executable)?))
}

/// The name of what an instruction shows; None for one that traps, or that shows the same everywhere.
fn reach_of(instruction: &Instruction) -> Option<&'static str> {
    use Mnemonic::*;
    Some(match instruction.mnemonic() {
        Cpuid if !traps_cpuid() => "cpuid in generated code",
        Xgetbv => "xgetbv in generated code",
        Rdrand => "rdrand in generated code",
        Rdseed => "rdseed in generated code",
        Rdpid => "rdpid in generated code",
        Lsl => "lsl in generated code",
        Rdgsbase => "rdgsbase in generated code",
        Rdpkru => "rdpkru in generated code",
        Wrpkru => "wrpkru in generated code",
        Rdpru => "rdpru in generated code",
        Umwait | Tpause | Mwaitx => "timed waiting (umwait, tpause, mwaitx) in generated code",
        Xbegin => "transactions (xbegin) in generated code",
        Vmcall | Vmmcall => "calls of the hypervisor in generated code",
        _ if is_relative_to_gs(instruction) => "accesses relative to GS in generated code",
        Sgdt | Sidt | Sldt | Str | Smsw if !has_umip() => "descriptor tables (sgdt and others) in generated code",
        _ => return None,
    })
}

/// Whether the processor keeps descriptor tables from programs; Linux then answers for them, everywhere the same.
fn has_umip() -> bool {
    use std::sync::OnceLock;
    static UMIP: OnceLock<bool> = OnceLock::new();
    *UMIP.get_or_init(|| std::arch::x86_64::__cpuid_count(7, 0).ecx & (1 << 2) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(code: &[u8]) -> Vec<&'static str> {
        reaches_of(code, 0x1000).collect()
    }

    #[test]
    fn instructions_are_told_from_constants() {
        let rdrand = [0x48, 0x0f, 0xc7, 0xf0];
        assert_eq!(reaches(&[&rdrand[..], &[0xc3]].concat()), ["rdrand in generated code"]);
        // add rax, rcx; mov rbx, rax; ...
        let before = [0x48, 0x01, 0xc8, 0x48, 0x89, 0xc3, 0xff, 0xc1].repeat(20);
        assert_eq!(reaches(&[&before[..], &rdrand, &before].concat()), ["rdrand in generated code"]);
        // The same bytes in a constant: movabs rax, imm.
        let constant = [0x48, 0xb8, 0x00, 0x48, 0x0f, 0xc7, 0xf0, 0x00, 0x00, 0x00];
        assert_eq!(reaches(&[&before[..], &constant, &before].concat()), [""; 0]);
        // What SpiderMonkey puts behind its code: jumps by way of addresses behind them, and compact tables.
        let jumps = |end| [0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b, end, 0x65, 0x3b, 0x08, 0x01, 0x10, 0, 0];
        let jumps: Vec<u8> = (0..8).flat_map(|index| jumps(0x10 * index)).collect();
        assert_eq!(reaches(&[&before[..], &jumps].concat()), [""; 0]);
        let table = [0x27, 0x77, 0x0e, 0x7d, 0x77, 0x0e, 0xdb, 0x79, 0x0e, 0x31, 0x7b, 0x0e].repeat(8);
        let table = [&table[..], &[0x65, 0x8b, 0x0e, 0x8d, 0xa7, 0x0e, 0xe3, 0xa7, 0x0e, 0x77, 0xab, 0x0e, 0xcd, 0xab]]
            .concat();
        assert_eq!(reaches(&[&before[..], &table].concat()), [""; 0]);
        // The same in code, and at its end.
        let access = [0x65, 0x3b, 0x08];
        assert_eq!(reaches(&[&before[..], &access, &before].concat()), ["accesses relative to GS in generated code"]);
        assert_eq!(reaches(&[&before[..], &access, &[0xc3, 0, 0]].concat()).len(), 1);
        assert_eq!(reaches(&[&before[..], &access].concat()).len(), 1);
        assert_eq!(reaches(&[0x0f, 0x05, 0x0f, 0x31, 0x0f, 0xae, 0xe8, 0xc3]), [""; 0], "syscall, rdtsc, lfence");
    }
}
