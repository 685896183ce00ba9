//! Code that programs make while they run: nobody rewrites it, so what it holds is looked at when it is about to be executed or is given up.
//!
//! `syscall`, `int $0x80`, `rdtsc` and, where the processor can, `cpuid` trap wherever they lie. The others answer as the real
//! processor does. Where a page is executed for the first time, and where a `cpuid` was trapped, what can be reached from there by direct
//! branches is code for certain: special instructions in it become traps. What is written to a page later is only looked at.
//!
//! Code that a program copies out of a file's image has the jumps that rewriting put there, which lead nowhere from elsewhere. Before a page is
//! executed for the first time, what they stand for is put back.

use crate::emulate::is_move_by_gs;
use crate::image::{
    CONTEXT_BYTES, Candidate, Certainty, Copied, Image, PAGE, Special, all_candidates, candidates, ends_run,
    instruction_around, is_executed_with_sense, is_nonsense, is_relative_to_gs, is_usual, may_be_special, special,
};
use crate::memory::{AddressSpace, PROT_EXEC, PROT_WRITE, Vma, VmaKind};
use crate::traps::EMULATE_RANDOM;
use crate::vcpu::{FaultInfo, Vcpu};
use crate::worker::traps_cpuid;
use base::map::FastSet;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use std::collections::BTreeMap;

/// What [`AddressSpace::reaches_of_generated_code`] calls an access relative to GS.
pub const ACCESS_BY_GS: &str = "accesses relative to GS in generated code";
/// The same among bytes of which nobody knows that they are executed: data, if the program has no base for GS.
pub const SEEMING_ACCESS_BY_GS: &str = "what looks like an access relative to GS in generated code";

/// Which of the memory that a process fills with code itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeCode {
    Any,
    /// It can be written to.
    Changeable,
    /// It cannot.
    Constant,
}

impl MadeCode {
    fn includes(self, vma: &Vma) -> bool {
        // What is shared can be written to elsewhere.
        let writable = vma.prot & PROT_WRITE != 0 || vma.shared;
        vma.prot & PROT_EXEC != 0
            && match self {
                MadeCode::Any => true,
                MadeCode::Changeable => writable,
                MadeCode::Constant => !writable,
            }
    }
}

/// So much is looked at in one piece.
const PIECE: usize = 1 << 20;
const LONGEST_INSTRUCTION: usize = 15;
/// As much is read behind a piece.
const BEHIND_BYTES: u64 = 8 * LONGEST_INSTRUCTION as u64;

impl AddressSpace {
    /// What code of the process's own making in [from, to) can ask the real processor, each named once. What was never executed is not
    /// looked at.
    pub fn reaches_of_generated_code(&self, from: u64, to: u64, code: MadeCode) -> Vec<&'static str> {
        let mut reaches = Vec::new();
        for vma in self.mappings() {
            let (start, end) = (vma.start.max(from & !(PAGE - 1)), vma.end.min(to));
            let parts = match vma.kind {
                _ if start >= end => Vec::new(),
                // Nothing tells when it is executed first.
                VmaKind::Image(_) if vma.prot & PROT_EXEC != 0 => self.made_in_image(start, end),
                VmaKind::Image(_) => Vec::new(),
                _ if code.includes(vma) => self.executable_parts(start, end),
                _ => Vec::new(),
            };
            if vma.shared {
                self.follow_shared(&parts, &mut reaches);
            }
            for (start, end) in parts {
                self.look_at(start, end, vma, &mut reaches);
            }
        }
        reaches.sort_unstable();
        reaches.dedup();
        reaches
    }

    /// Part of an image is about to get these rights: whether its own code can then be other code, or its data be code, is noted.
    pub(crate) fn note_code_in_image(&mut self, part: &Vma, prot: u8) {
        const PARTS: usize = 64;
        let becomes_code = prot & PROT_EXEC != 0 && part.prot & PROT_EXEC == 0;
        let becomes_changeable = prot & PROT_WRITE != 0 && (prot | part.prot) & PROT_EXEC != 0;
        let is_known = self.made_in_images.iter().any(|(from, to)| *from <= part.start && part.end <= *to);
        if is_known || !(becomes_code || becomes_changeable) {
            return;
        }
        self.made_in_images.push((part.start, part.end));
        if self.made_in_images.len() > PARTS {
            let ends =
                self.made_in_images.iter().fold((u64::MAX, 0), |all, part| (all.0.min(part.0), all.1.max(part.1)));
            self.made_in_images = vec![ends];
        }
    }

    /// Whether the program has made code in its images.
    pub fn makes_code_in_images(&self) -> bool {
        !self.made_in_images.is_empty()
    }

    fn made_in_image(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let parts = self.made_in_images.iter().map(|(from, to)| (start.max(*from), end.min(*to)));
        parts.filter(|(from, to)| from < to).collect()
    }

    /// Puts fillers where instructions were made traps: what lies behind a trap is no instruction.
    fn hide_tamed(&self, begin: u64, code: &mut [u8]) {
        const NOP: u8 = 0x90;
        for at in self.tamed.range(begin..begin + code.len() as u64).map(|(at, _)| *at) {
            let Some(instruction) = self.tamed_instruction(at) else { continue };
            let start = (at - begin) as usize;
            let end = (start + instruction.len()).min(code.len());
            if code[start] == TRAP {
                code[start..end].fill(NOP);
            }
        }
    }

    /// Looks at what direct branches lead to from where execution of shared pages began: whatever lies around that, it is code.
    fn follow_shared(&self, parts: &[(u64, u64)], reaches: &mut Vec<&'static str>) {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
        let mut todo: Vec<u64> = self.entries.range(first.0..last.1).copied().collect();
        if todo.is_empty() {
            return;
        }
        let mut parts: Vec<Followed> = parts.iter().map(|(start, end)| self.followed(*start, *end)).collect();
        while let Some(at) = todo.pop() {
            let index = parts.partition_point(|part| part.start + part.code.len() as u64 <= at);
            let Some(part) = parts.get_mut(index).filter(|part| part.start <= at) else { continue };
            part.follow(at, &mut todo, reaches);
        }
    }

    fn followed(&self, start: u64, end: u64) -> Followed {
        let mut code = vec![0u8; (end - start) as usize];
        let readable = self.read_code(start, &mut code);
        code.truncate(readable);
        Followed { start, seen: vec![false; code.len()], code }
    }

    fn look_at(&self, start: u64, end: u64, vma: &Vma, reaches: &mut Vec<&'static str>) {
        // Most of a large reservation was never touched.
        let is_file = matches!(vma.kind, VmaKind::File { .. });
        let touched = if vma.shared || is_file { None } else { self.private_pages(start, end) };
        for (from, to) in touched.unwrap_or_else(|| vec![(start, end)]) {
            for at in (from..to).step_by(PIECE) {
                let begin = at.saturating_sub(CONTEXT_BYTES as u64).max(vma.start);
                let behind = (at + PIECE as u64).min(to) + BEHIND_BYTES;
                let mut code = vec![0u8; (behind.min(vma.end) - begin) as usize];
                let readable = self.read_code(begin, &mut code);
                code.truncate(readable);
                self.hide_tamed(begin, &mut code);
                // What lies behind it shows how code goes on.
                let seems = |what| if what == ACCESS_BY_GS { SEEMING_ACCESS_BY_GS } else { what };
                reaches.extend(reaches_of(&code, begin, (at + PIECE as u64).min(to)).map(seems));
            }
        }
    }
}

/// Code that is followed from where it was entered.
struct Followed {
    start: u64,
    code: Vec<u8>,
    /// Where instructions were found to begin.
    seen: Vec<bool>,
}

impl Followed {
    /// Follows what is executed from an address on up to where it must leave or was followed before; `todo` gets where branches lead.
    fn follow(&mut self, from: u64, todo: &mut Vec<u64>, reaches: &mut Vec<&'static str>) {
        let code = &self.code[(from - self.start) as usize..];
        for instruction in Decoder::with_ip(64, code, from, DecoderOptions::NONE) {
            let at = (instruction.ip() - self.start) as usize;
            if std::mem::replace(&mut self.seen[at], true) {
                return;
            }
            if is_nonsense(&instruction) {
                return;
            }
            let reach = reach_of(&instruction);
            reaches.extend(reach.filter(|_| is_executed_with_sense(&self.code, self.start, &instruction)));
            if instruction.op0_kind() == OpKind::NearBranch64 {
                todo.push(instruction.near_branch64());
            }
            if ends_run(&instruction) {
                return;
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

/// As much is read before and behind a page that is prepared: what rewriting replaced at once is shorter.
const AROUND_BYTES: usize = 256;
/// So many instructions are followed from a `cpuid`.
const FOLLOWED: usize = 2048;
/// `int3`.
const TRAP: u8 = 0xcc;

impl AddressSpace {
    /// Leads a vcpu past a trap that was put in its program's way: at an instruction inside of a patch, or in place of one that would
    /// show the real processor. The address space must have been entered.
    pub fn pass_trap(&mut self, vcpu: &mut Vcpu, fault: &FaultInfo) -> Passed {
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
        match special(&instruction) {
            Some(special) if !is_carried_out(special, &instruction) => {
                vcpu.registers_mut().rip = place;
                return Passed::Faulted(FaultInfo::invalid_instruction(place));
            }
            Some(Special::Emulate(info)) if info & 0xff == EMULATE_RANDOM => {
                vcpu.registers_mut().rip = instruction.next_ip();
                vcpu.expect_random(info);
                return Passed::ReadRandom;
            }
            _ => vcpu.registers_mut().rip = instruction.next_ip(),
        }
        if instruction.mnemonic() == Mnemonic::Cpuid {
            // What was written since then.
            self.tame_code(instruction.next_ip());
        }
        match self.emulate_at(&instruction, vcpu) {
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

    /// Makes traps of instructions that would show the real processor, in private memory of a guest that executes it now: what direct
    /// branches lead to from `rip`. The address space must have been entered.
    pub fn tame_code(&mut self, rip: u64) {
        let mut page = CodePage::default();
        let (mut todo, mut seen) = (vec![rip], FastSet::with_capacity_and_hasher(FOLLOWED, Default::default()));
        while let Some(at) = todo.pop() {
            if seen.len() == FOLLOWED || !seen.insert(at) {
                continue;
            }
            page.turn_to(self, at, rip);
            let mut bytes = [0; LONGEST_INSTRUCTION];
            let readable = page.read(self, at, &mut bytes);
            let known = Some(at).filter(|_| bytes[0] == TRAP).and_then(|at| self.tamed_instruction(at));
            let decode = || Decoder::with_ip(64, &bytes[..readable], at, DecoderOptions::NONE).decode();
            let instruction = known.unwrap_or_else(decode);
            if is_nonsense(&instruction) || !page.is_followed {
                continue;
            }
            if is_shown(&instruction) && known.is_none() {
                self.tame(&instruction, bytes);
                page = CodePage::default();
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

/// A copy of the page of code that is being followed. Most instructions lie on the same page as the one before.
struct CodePage {
    /// The page's first address. `u64::MAX` before a page was read.
    start: u64,
    bytes: Box<[u8; PAGE as usize]>,
    /// How many of the bytes could be read.
    readable: usize,
    /// The page is the process's own code, in the same image as where following began, or outside of images as that was.
    is_followed: bool,
}

impl Default for CodePage {
    fn default() -> CodePage {
        CodePage { start: u64::MAX, bytes: Box::new([0; PAGE as usize]), readable: 0, is_followed: false }
    }
}

impl CodePage {
    /// Reads the page of an address, unless it is there already. Following began at `rip`.
    fn turn_to(&mut self, space: &AddressSpace, at: u64, rip: u64) {
        let start = at & !(PAGE - 1);
        if self.start != start {
            self.start = start;
            self.readable = space.read_code(start, &mut self.bytes[..]);
            self.is_followed = space.image_start(at) == space.image_start(rip) && space.is_own_code(at);
        }
    }

    /// Copies the bytes from an address of the page on, which may lie on the next page too. Returns how many could be read.
    fn read(&self, space: &AddressSpace, at: u64, bytes: &mut [u8; LONGEST_INSTRUCTION]) -> usize {
        let offset = (at - self.start) as usize;
        match self.bytes[..self.readable].get(offset..offset + LONGEST_INSTRUCTION) {
            Some(whole) => {
                bytes.copy_from_slice(whole);
                LONGEST_INSTRUCTION
            }
            None => space.read_code(at, bytes),
        }
    }
}

impl AddressSpace {
    /// Prepares the page around `address`, which a guest is about to execute for the first time, with an instruction at `rip`: as
    /// [`tame_code`](Self::tame_code), and for what indirect branches may lead to, what must be code as it is in step with code on either
    /// side, and occurs in programs. The address space must have been entered.
    pub fn prepare_code(&mut self, address: u64, rip: u64) {
        let page = address & !(PAGE - 1);
        if self.is_shared(page) {
            self.entries.insert(rip);
        }
        if !self.is_own_code(page) {
            return;
        }
        let around = page - AROUND_BYTES as u64;
        let mut code = vec![0u8; AROUND_BYTES + PAGE as usize + AROUND_BYTES];
        // What lies before may be somebody else's, and be missing.
        let before = self.read_code(around, &mut code[..AROUND_BYTES]);
        code[before..AROUND_BYTES].fill(0);
        let readable = AROUND_BYTES + self.read_code(page, &mut code[AROUND_BYTES..]);
        code.truncate(readable);
        let first = if before == AROUND_BYTES { 0 } else { AROUND_BYTES };
        self.restore_copies(page, around + first as u64, &mut code[first..]);
        let begin = page - CONTEXT_BYTES as u64;
        code.drain(..AROUND_BYTES - CONTEXT_BYTES);
        code.truncate(CONTEXT_BYTES + PAGE as usize + BEHIND_BYTES as usize);
        self.hide_tamed(begin, &mut code);
        // Most pages hold none: to follow their code would take longer than all else.
        // Intel's processors execute sysenter in 64-bit programs.
        let shows = |instruction: &Instruction| !traps(instruction) && instruction.mnemonic() != Mnemonic::Syscall;
        let in_page = CONTEXT_BYTES..CONTEXT_BYTES + PAGE as usize;
        let suspects = all_candidates(&code).into_iter().filter(|offset| in_page.contains(offset));
        let suspects: Vec<usize> = suspects.filter(|offset| may_be_special(&code, begin, *offset, shows)).collect();
        if suspects.is_empty() {
            return;
        }
        self.tame_code(rip);
        for offset in suspects {
            let Some(instruction) = instruction_around(&code, begin, offset, Certainty::Code) else { continue };
            let at = (instruction.ip() - begin) as usize;
            let known = self.tamed.contains_key(&instruction.ip());
            if is_usual(&instruction) && shows(&instruction) && !known && in_page.contains(&at) {
                let mut bytes = [0; LONGEST_INSTRUCTION];
                bytes[..instruction.len()].copy_from_slice(&code[at..at + instruction.len()]);
                self.tame(&instruction, bytes);
            }
        }
    }

    /// Puts back what rewriting replaced before the program copied it out of an image, where that reaches into a page; `code` is what lies
    /// there and around, from `begin` on.
    fn restore_copies(&mut self, page: u64, begin: u64, code: &mut [u8]) {
        if self.image_start(page).is_some() {
            return;
        }
        let images: Vec<&Image> = self.placed_images().map(|(_, image)| image).filter(|one| one.is_patched()).collect();
        let all = images.iter().filter_map(|image| image.displacements());
        let bounds = all.fold((u32::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        let mut from = 0;
        let mut restored = Vec::new();
        for candidate in Candidate::all(code, bounds) {
            if candidate.at < from {
                continue;
            }
            let Some(copied) = self.copied(&images, begin, code, candidate) else { continue };
            for (offset, original) in copied.originals() {
                let (start, end) = (begin + offset as u64, begin + (offset + original.len()) as u64);
                if end <= page || start >= page + PAGE {
                    continue;
                }
                code[offset..offset + original.len()].copy_from_slice(original);
                self.write_original(start, original);
                restored.push((start, original.to_vec()));
            }
            from = copied.to;
        }
        restored.iter().for_each(|(at, code)| self.tame_restored(*at, code));
    }

    /// Makes traps of instructions that were put back at an address: that they are instructions is certain, whatever leads there.
    fn tame_restored(&mut self, at: u64, code: &[u8]) {
        for instruction in Decoder::with_ip(64, code, at, DecoderOptions::NONE) {
            let (from, to) = ((instruction.ip() - at) as usize, (instruction.next_ip() - at) as usize);
            if is_shown(&instruction) && self.is_copy(instruction.ip()) {
                let mut bytes = [0; LONGEST_INSTRUCTION];
                bytes[..to - from].copy_from_slice(&code[from..to]);
                self.tame(&instruction, bytes);
            }
        }
    }

    /// Whether what lies at an address is the program's own code, and no image's.
    fn is_copy(&self, at: u64) -> bool {
        self.is_own_code(at) && self.image_start(at).is_none()
    }

    /// The stretch around a patch of an image, if that is what the program has copied there. Which patch it was has to be certain.
    fn copied<'a>(&self, images: &[&'a Image], begin: u64, code: &[u8], candidate: Candidate) -> Option<Copied<'a>> {
        let mut copies = Vec::new();
        for image in images {
            copies.append(&mut image.copies_around(code, candidate));
        }
        let longest: Copied = *copies.iter().max_by_key(|copied| copied.length())?;
        let mut rivals = copies.iter().filter(|copied| copied.length() == longest.length());
        let leads_to_code = candidate.target(begin).is_some_and(|target| self.is_code(target));
        (longest.is_likely(leads_to_code) && rivals.all(|copied| copied.is_as_good_as(&longest))).then_some(longest)
    }

    /// Whether the program may execute what it has at an address. Images are mapped in one piece, headers and constants too.
    fn is_code(&self, address: u64) -> bool {
        if let Some(is_code) = self.is_code_of_image(address) {
            return is_code;
        }
        self.mappings().any(|vma| (vma.start..vma.end).contains(&address) && vma.prot & PROT_EXEC != 0)
    }

    /// Writes what lay in an image to a copy of it, where that is the program's own code.
    fn write_original(&self, at: u64, original: &[u8]) {
        let in_page = original.len().min((PAGE - at % PAGE) as usize);
        let (here, behind) = original.split_at(in_page);
        if self.is_copy(at) {
            self.write_code(at, here);
        }
        if !behind.is_empty() {
            self.write_original(at + here.len() as u64, behind);
        }
    }

    /// Makes a trap of an instruction, of which `bytes` begins.
    fn tame(&mut self, instruction: &Instruction, mut bytes: [u8; LONGEST_INSTRUCTION]) {
        bytes[instruction.len()..].fill(0);
        if self.write_code(instruction.ip(), &[TRAP]) {
            self.tamed.insert(instruction.ip(), bytes);
        }
    }
}

/// Whether an instruction for which there is a trap is carried out; others are invalid.
fn is_carried_out(special: Special, instruction: &Instruction) -> bool {
    match special {
        Special::Invalid => false,
        Special::Gs => instruction.mnemonic() == Mnemonic::Wrgsbase || is_move_by_gs(instruction),
        _ => true,
    }
}

/// Whether the processor would show itself to an instruction.
fn is_shown(instruction: &Instruction) -> bool {
    let is_special = matches!(special(instruction), Some(Special::Emulate(_) | Special::Gs | Special::Invalid));
    is_special && !traps(instruction)
}

/// Whether the processor makes an instruction trap wherever it lies.
fn traps(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Cpuid => traps_cpuid(),
        mnemonic => matches!(mnemonic, Mnemonic::Rdtsc | Mnemonic::Rdtscp),
    }
}

/// What instructions in `code` that begin before `end` can ask the real processor.
fn reaches_of(code: &[u8], address: u64, end: u64) -> impl Iterator<Item = &'static str> {
    candidates(code)
        .into_iter()
        .filter_map(move |at| instruction_around(code, address, at, Certainty::Executable))
        .filter(move |instruction| instruction.ip() < end)
        .filter_map(|instruction| reach_of(&instruction))
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
        Xbegin if has_transactions() => "transactions (xbegin) in generated code",
        Vmcall | Vmmcall => "calls of the hypervisor in generated code",
        _ if is_relative_to_gs(instruction) => ACCESS_BY_GS,
        Sgdt | Sidt | Sldt | Str | Smsw if !has_umip() => "descriptor tables (sgdt and others) in generated code",
        _ => return None,
    })
}

/// Whether the processor may begin transactions, if only to end them at once; `xbegin` is an invalid instruction otherwise. On
/// Intel's processors hypervisors hide the bits of transactions, and the instruction works nevertheless.
fn has_transactions() -> bool {
    use std::sync::OnceLock;
    // "Genu", "ineI", "ntel" in ebx, edx and ecx.
    const INTEL: [u32; 3] = [0x756e_6547, 0x4965_6e69, 0x6c65_746e];
    const RTM: u32 = 1 << 11;
    const RTM_ALWAYS_ABORT: u32 = 1 << 11;
    static TRANSACTIONS: OnceLock<bool> = OnceLock::new();
    *TRANSACTIONS.get_or_init(|| {
        let vendor = std::arch::x86_64::__cpuid(0);
        let leaf = std::arch::x86_64::__cpuid_count(7, 0);
        [vendor.ebx, vendor.edx, vendor.ecx] == INTEL || leaf.ebx & RTM != 0 || leaf.edx & RTM_ALWAYS_ABORT != 0
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
        reaches_of(code, 0x1000, u64::MAX).collect()
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
        // Addresses behind zeroes: the middle of one would be a call by way of GS.
        for lowest in 0..=255 {
            let address = [lowest, 0x65, 0xff, 0x14, 0x01, 0x10, 0, 0, 0x49, 0x89, 0xc3, 0x49, 0xc1, 0xeb, 0x2f];
            for zeroes in [63, 64] {
                let whole = [&vec![0; zeroes][..], &address, &before].concat();
                assert_eq!(reaches(&whole), [""; 0], "{lowest:#x} behind {zeroes}");
            }
        }
        let call = [0x65, 0xff, 0x14, 0x01];
        // The same call where code goes by, and one of a place that the instruction names, wherever it is.
        let gs = "accesses relative to GS in generated code";
        assert_eq!(reaches(&[&before[..], &call, &before].concat()), [gs]);
        assert_eq!(reaches(&[&[0; 80][..], &[0x65, 0xff, 0x14, 0x25, 0x10, 0, 0, 0], &before].concat()), [gs]);
        // The same in code, and at its end.
        let access = [0x65, 0x3b, 0x08];
        assert_eq!(reaches(&[&before[..], &access, &before].concat()), ["accesses relative to GS in generated code"]);
        assert_eq!(reaches(&[&before[..], &access, &[0xc3, 0, 0]].concat()).len(), 1);
        assert_eq!(reaches(&[&before[..], &access].concat()).len(), 1);
        // lsl eax, [rcx] in code.
        let limit = [0x0f, 0x03, 0x01];
        assert_eq!(reaches(&[&before[..], &limit, &before].concat()), ["lsl in generated code"]);
        assert_eq!(reaches(&[0x0f, 0x05, 0x0f, 0x31, 0x0f, 0xae, 0xe8, 0xc3]), [""; 0], "syscall, rdtsc, lfence");
    }

    /// What lay among the code of Java's and V8's compilers: tables, pointers and relocations.
    #[test]
    fn tables_among_code_are_no_instructions() {
        let pointers = "16 05 1f 00 30 00 00 78 14 05 1f 00 30 00 00 88 14 05 1f 00 30 00 00 e0 a3 02 0c 00 30 00 00 \
                        00 00 00 00 00 00 00 00 18 a3 c3 01 00 30 00 00 53";
        let table = "4e 03 00 00 00 00 00 00 00 00 00 00 d5 17 00 00 2d 01 00 00 00 00 00 00 00 00 00 00 dd 17 00 00 5e 03 00 00 \
                     00 00 00 00 00 00 00 00 e7 17 00 00";
        let lines = "00 03 00 00 43 00 00 00 00 00 00 00 05 03 00 00 43 00 00 00 00 00 00 00 0a 03 00 00 49 00 00 00 00 00 00 00 \
                     00 00 00 00 00 00 00 00 00 00 00 00";
        let scopes = "00 01 06 01 00 00 01 00 00 06 02 02 0c 00 00 0f 03 05 0c 00 00 15 04 02 01 00 00 02 00 d2 03 00 93 00 01 00 \
                      21 00 00 06 02 00 0c 00 00 01 02 00";
        let zeroes = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 \
                      00 00 00 00 c5 0a 00 00 7d 40 03 01";
        for (before, from) in [
            (pointers, "65 3b 64 03 f8 c3 01 4a 56 00 30 05 70 0e 64 00 00 00 00 00 00 00 00 00"),
            (pointers, "65 4a c0 12 64 1f c0 11 64 44 64 14 64 28 64 10 64 24 64 64 f4 05 80 11"),
            (table, "65 03 00 00 00 00 00 00 00 00 00 00 03 18 00 00 73 03 00 00 00 00 00 00"),
            (table, "65 0f 00 00 b0 02 00 00 90 0f 00 00 20 10 00 00 50 10 00 00 00 00 00 00"),
            (lines, "0f 03 00 00 49 00 00 00 00 00 00 00 1d 03 00 00 49 00 00 00 00 00 00 00"),
            (lines, "0f 03 00 c2 0d 00 c2 0d 00 c2 0e 00 01 0c 01 07 00 02 00 00 00 00 01 00"),
            (lines, "0f 03 00 00 03 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00 00 00 00"),
            (scopes, "0f 03 00 33 00 00 0f 03 01 33 00 00 3c 05 00 00 00 00 02 00 00 02 00 15"),
            (zeroes, "65 40 03 01 a0 00 00 00 33 db 49 bc a5 4a 02 01 6a 10 00 00 e8 2f 9b 7f"),
            (zeroes, "0f 03 01 0d 0f 03 01 50 03 00 00 bb 38 00 00 00 49 bc ed c1 02 01 6a 10 00 00 e8 ac f0 7f c5 50"),
        ] {
            let code: Vec<u8> = [before, " ", from].concat().split_whitespace().map(hex).collect();
            assert_eq!(reaches(&code), [""; 0], "{from}");
        }
    }

    /// What lay among the code of Erlang's compiler: numbers of lines, of 16 bits.
    #[test]
    fn numbers_of_lines_are_no_instructions() {
        let numbers = |list: &[u16]| -> Vec<u8> { list.iter().flat_map(|number| number.to_le_bytes()).collect() };
        let lsl = numbers(&[
            0x2d7, 0x2d9, 0x2e3, 0x2e4, 0x2e6, 0x2ed, 0x2ee, 0x2f0, 0x2f7, 0x2fc, 0x2fd, 0x304, 0x30f, 0x310, 0x312,
            0x315, 0x31f, 0x322, 0x326, 0x324, 0x32e, 0x32a, 0x338, 0x32e,
        ]);
        let gs = numbers(&[
            0x356, 0x357, 0x358, 0x340, 0x334, 0x32b, 0x34e, 0x345, 0x35a, 0x35b, 0x35c, 0x361, 0x365, 0x35c, 0x368,
            0x36c, 0x36d, 0x376, 0x381, 0x384, 0x385, 0x389, 0x399, 0x39a,
        ]);
        let before = [0x48, 0x01, 0xc8, 0x48, 0x89, 0xc3, 0xff, 0xc1].repeat(20);
        // Of 32 bits, with the number of a file.
        let files: Vec<u8> = [0x355, 0x356, 0x359, 0x357, 0x365, 0x359, 0x356, 0x2ee, 0x443, 0x443, 0x445, 0x446]
            .iter()
            .flat_map(|line: &u32| (line | 1 << 24).to_le_bytes())
            .collect();
        for table in [lsl, gs, [vec![0; 8], files].concat()] {
            assert_eq!(reaches(&table), [""; 0]);
            assert_eq!(reaches(&[&before[..], &table, &before].concat()), [""; 0]);
        }
        // The same instruction among others, and behind a few numbers.
        let limit = [0x0f, 0x03, 0xc1];
        assert_eq!(reaches(&[&before[..], &limit, &before].concat()), ["lsl in generated code"]);
        let few = numbers(&[0x304, 0x312]);
        assert_eq!(reaches(&[&before[..], &few, &limit, &before].concat()), ["lsl in generated code"]);
    }

    /// What lay there, too: the last of a table of addresses, before code.
    #[test]
    fn addresses_are_no_instructions() {
        let base: u64 = 0x1000_030f_3000;
        let code = [0x40, 0xe9, 0x12, 0xa3, 0xf6, 0xff, 0x66, 0x90, 0x40, 0xe9, 0x5a, 0xa7, 0xf6, 0xff, 0x66, 0x90];
        let addresses = |count| (0..count).flat_map(|index: u64| (base + 0x1029 + 0x100 * index).to_le_bytes());
        let table: Vec<u8> = addresses(32).chain(code.repeat(4)).collect();
        let reaches = |code: &[u8], base| reaches_of(code, base, u64::MAX).collect::<Vec<_>>();
        assert_eq!(reaches(&table, base), [""; 0]);
        // One alone is an offset.
        let offset = [0x65, 0x8b, 0x04, 0x25, 0x00, 0x10, 0x00, 0x00];
        assert_eq!(
            reaches(&[&code[..8], &offset, &code].concat(), base),
            ["accesses relative to GS in generated code"]
        );
        // Elsewhere the same numbers lead nowhere, and in doubt are code.
        assert!(!reaches(&table, 0x7f00_0000_0000).is_empty());
    }

    /// The same places before what is an instruction.
    #[test]
    fn code_behind_tables_is_found() {
        let zeroes = [0u8; 64];
        let pointers = [0x18, 0xa3, 0xc3, 0x01, 0x00, 0x30, 0, 0].repeat(8);
        let text = b"some words that are no instructions, and some more of them beside the code".to_vec();
        let ends = [0xcc; 64];
        for before in [&zeroes[..], &pointers, &text, &ends] {
            for (code, name) in [
                (&[0x0f, 0xc7, 0xf0, 0xc3][..], "rdrand in generated code"),
                (&[0x48, 0x0f, 0xc7, 0xf8, 0x73, 0xfa, 0xc3], "rdseed in generated code"),
                (&[0xf3, 0x0f, 0xc7, 0xf8, 0x89, 0x07, 0xc3], "rdpid in generated code"),
                (&[0xb9, 0x7b, 0, 0, 0, 0x0f, 0x03, 0xc1, 0xc3], "lsl in generated code"),
                (&[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xc3], "accesses relative to GS in generated code"),
                (&[0x65, 0x8b, 0x07, 0xff, 0xe0], "accesses relative to GS in generated code"),
                (&[0x31, 0xc9, 0x0f, 0x01, 0xd0, 0xc3], "xgetbv in generated code"),
            ] {
                let code = [before, code, &zeroes].concat();
                assert!(reaches(&code).contains(&name), "{name} behind {:02x?}", &before[..8]);
            }
        }
    }

    fn hex(byte: &str) -> u8 {
        u8::from_str_radix(byte, 16).unwrap()
    }
}
