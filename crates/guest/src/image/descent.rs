//! Code that no symbol and no unwind table speaks of: found by following it from where the file says that it begins.
//!
//! Branches and calls with a fixed target are followed, and the tables of jumps whose bounds are checked before. Where the file says
//! little of its functions, so are addresses of code that code takes or that lie in data which it refers to, as far as what lies there can be executed.

use super::context::{ends_run, is_nonsense};
use super::elf::ElfHeader;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use std::collections::VecDeque;

/// Where functions are known to cover less of the code than one part in so many, the file says little of them.
const LITTLE: u64 = 2;
/// So much is followed at most: a large program without unwind tables has more.
const FOLLOWED_BYTES: u64 = 8 << 20;
/// How far before an indirect jump its table and the check of its bounds are looked for, in instructions.
const JUMP_CONTEXT: usize = 16;
/// The longest table of a jump, and of addresses in data, in entries.
const LONGEST_TABLE: u64 = 4096;
const LONGEST_POINTERS: usize = 64;

struct Descent<'a> {
    memory: &'a [u8],
    header: &'a ElfHeader,
    /// Sections with code, joined and sorted; empty where the file does not say.
    sections: Vec<(u64, u64)>,
    /// Joined and sorted.
    known: Vec<(u64, u64)>,
    /// A bit for each byte at which an instruction was decoded.
    seen: Vec<u64>,
    runs: Vec<(u64, u64)>,
    todo: Vec<u64>,
    /// Addresses that code takes, of other code or of data.
    taken: VecDeque<u64>,
    /// Bytes that may still be followed.
    left: u64,
}

/// Pieces of code outside of the `known` ranges that can be reached from `seeds`, all relative to the first page; and whether they and
/// the known ones are the lesser part of what can be executed. Of executable segments only the `sections` count, if there are any.
pub(super) fn follow(
    memory: &[u8],
    header: &ElfHeader,
    sections: &[(u64, u64)],
    known: &[(u64, u64)],
    seeds: Vec<u64>,
) -> (Vec<(u64, u64)>, bool) {
    let known = joined(known);
    let code_bytes: u64 = header.segments.iter().filter(|s| s.executable).map(|s| s.file_bytes).sum();
    let known_bytes: u64 = known.iter().map(|(from, to)| to - from).sum();
    let mut descent = Descent {
        memory,
        header,
        sections: joined(sections),
        known,
        seen: vec![0; memory.len() / 64 + 1],
        runs: Vec::new(),
        todo: seeds,
        taken: VecDeque::new(),
        left: FOLLOWED_BYTES,
    };
    descent.exhaust();
    if known_bytes < code_bytes / LITTLE {
        descent.follow_known();
        descent.exhaust();
        descent.follow_taken();
    }
    let found: u64 = descent.runs.iter().map(|(from, to)| to - from).sum();
    (descent.runs, known_bytes + found < code_bytes / LITTLE)
}

fn joined(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Whether one of the ranges, which are joined and sorted, has it.
fn is_in(ranges: &[(u64, u64)], at: u64) -> bool {
    let behind = ranges.partition_point(|(from, _)| *from <= at);
    behind > 0 && at < ranges[behind - 1].1
}

impl<'a> Descent<'a> {
    fn is_known(&self, at: u64) -> bool {
        is_in(&self.known, at)
    }

    fn is_seen(&self, at: u64) -> bool {
        self.seen.get(at as usize / 64).is_some_and(|bits| bits & 1 << (at % 64) != 0)
    }

    fn is_code(&self, at: u64) -> bool {
        self.header.is_code(at) && (self.sections.is_empty() || is_in(&self.sections, at))
    }

    /// The code that can be read on from `at`.
    fn code_at(&self, at: u64) -> &'a [u8] {
        let segments = self.header.segments.iter().filter(|segment| segment.executable);
        let end = segments
            .map(|segment| (segment.address, segment.address + segment.file_bytes))
            .find(|(from, to)| at >= *from && at < *to)
            .map_or(at, |(_, to)| to.min(self.memory.len() as u64));
        self.memory.get(at as usize..end as usize).unwrap_or(&[])
    }

    fn exhaust(&mut self) {
        while let Some(start) = self.todo.pop() {
            if self.left > 0 && !self.is_known(start) && !self.is_seen(start) {
                self.run(start);
            }
        }
    }

    /// Decodes from `start` to where the code does not go on.
    fn run(&mut self, start: u64) {
        let mut recent: VecDeque<Instruction> = VecDeque::with_capacity(JUMP_CONTEXT);
        let mut end = start;
        for instruction in &mut Decoder::with_ip(64, self.code_at(start), start, DecoderOptions::NONE) {
            let at = instruction.ip();
            if is_nonsense(&instruction) || self.is_known(at) || self.is_seen(at) {
                break;
            }
            self.seen[at as usize / 64] |= 1 << (at % 64);
            end = instruction.next_ip();
            self.note(&instruction);
            if instruction.flow_control() == FlowControl::IndirectBranch {
                self.follow_table(&recent);
            }
            if ends_run(&instruction) {
                break;
            }
            if recent.len() == JUMP_CONTEXT {
                recent.pop_front();
            }
            recent.push_back(instruction);
        }
        if end > start {
            self.left = self.left.saturating_sub(end - start);
            self.runs.push((start, end));
        }
    }

    fn note(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() == OpKind::NearBranch64 && self.is_code(instruction.near_branch64()) {
            self.todo.push(instruction.near_branch64());
        }
        if instruction.is_ip_rel_memory_operand() {
            self.taken.push_back(instruction.ip_rel_memory_address());
        } else if self.header.fixed
            && let Some(last) = instruction.op_count().checked_sub(1)
        {
            let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
            let displacement = || has_memory.then(|| instruction.memory_displacement64());
            if let Some(value) = instruction.try_immediate(last).ok().or_else(displacement) {
                self.taken.push_back(value.wrapping_sub(self.header.linked_at));
            }
        }
    }

    /// The targets of a jump by a table of offsets from its own start: `cmp`, `lea` of the table, the jump.
    fn follow_table(&mut self, recent: &VecDeque<Instruction>) {
        let lea = recent.iter().rev().find(|one| one.mnemonic() == Mnemonic::Lea && one.is_ip_rel_memory_operand());
        let bound = recent.iter().rev().filter(|one| one.mnemonic() == Mnemonic::Cmp && one.op_count() == 2);
        let bound = bound.filter_map(|one| one.try_immediate(1).ok()).find(|bound| *bound < LONGEST_TABLE);
        let Some((table, last)) = lea.map(|one| one.ip_rel_memory_address()).zip(bound) else { return };
        for index in 0..=last {
            let at = table.wrapping_add(4 * index) as usize;
            let Some(word) = self.memory.get(at..).and_then(|rest| rest.first_chunk()) else { return };
            let target = table.wrapping_add(i32::from_le_bytes(*word) as u64);
            if !self.is_code(target) {
                return;
            }
            self.todo.push(target);
        }
    }

    /// Calls and addresses in functions that are known.
    fn follow_known(&mut self) {
        for (from, to) in self.known.clone() {
            let Some(code) = self.memory.get(from as usize..to as usize) else { continue };
            for instruction in &mut Decoder::with_ip(64, code, from, DecoderOptions::NONE) {
                self.note(&instruction);
            }
        }
    }

    /// Follows addresses that were taken, and those in data there, wherever what lies there makes sense up to its end.
    fn follow_taken(&mut self) {
        while let Some(address) = self.taken.pop_front() {
            if self.left == 0 {
                return;
            }
            if self.is_code(address) {
                self.try_at(address);
            } else if address % 8 == 0 {
                for target in self.pointers_at(address) {
                    self.try_at(target);
                }
            }
        }
    }

    fn try_at(&mut self, address: u64) {
        if self.makes_sense(address) {
            self.todo.push(address);
            self.exhaust();
        }
    }

    /// Addresses of code that lie in a row from `address` on.
    fn pointers_at(&self, address: u64) -> Vec<u64> {
        let words = self.memory.get(address as usize..).unwrap_or(&[]).chunks_exact(8);
        let target = |word: &[u8]| {
            let value = u64::from_le_bytes(word.try_into().unwrap_or_default());
            value.wrapping_sub(self.header.linked_at)
        };
        words.map(target).take_while(|target| self.is_code(*target)).take(LONGEST_POINTERS).collect()
    }

    fn makes_sense(&self, start: u64) -> bool {
        if self.is_known(start) || self.is_seen(start) {
            return false;
        }
        for instruction in &mut Decoder::with_ip(64, self.code_at(start), start, DecoderOptions::NONE) {
            if is_nonsense(&instruction) {
                return false;
            }
            if ends_run(&instruction) || self.is_seen(instruction.ip()) || self.is_known(instruction.ip()) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::elf::Segment;
    use super::*;

    fn header(bytes: u64) -> ElfHeader {
        let segment = Segment {
            address: 0,
            memory_bytes: bytes,
            file_offset: 0,
            file_bytes: bytes,
            readable: true,
            writable: false,
            executable: true,
        };
        ElfHeader {
            linked_at: 0,
            fixed: false,
            entry: 0,
            program_headers: 0,
            program_header_count: 0,
            interpreter: None,
            segments: vec![segment],
            relro: None,
            span: bytes,
            alignment: 4096,
            executable_stack: false,
        }
    }

    #[test]
    fn targets_of_branches_are_no_absolute_addresses_in_programs_at_fixed_ones() {
        // call 0x30; ret. At 0x30 a return; at 0x10, which is as far before 0x30 as the link address, data that would make sense as code.
        let mut memory = vec![0xcc; 0x60];
        memory[..6].copy_from_slice(&[0xe8, 0x2b, 0, 0, 0, 0xc3]);
        memory[0x30] = 0xc3;
        memory[0x10..0x13].copy_from_slice(&[0x0f, 0xa2, 0xc3]);
        let header = ElfHeader { linked_at: 0x20, fixed: true, ..header(0x60) };
        let (found, _) = follow(&memory, &header, &[], &[], vec![0]);
        assert_eq!(joined(&found), [(0, 6), (0x30, 0x31)]);
        // lea 0x30, %eax in place of the call: an address, unless a section says that no code lies there.
        memory[..7].copy_from_slice(&[0x8d, 0x04, 0x25, 0x30, 0, 0, 0]);
        memory[7] = 0xc3;
        memory[0x10..0x13].fill(0xc3);
        assert_eq!(joined(&follow(&memory, &header, &[], &[], vec![0]).0), [(0, 8), (0x10, 0x11)]);
        assert_eq!(joined(&follow(&memory, &header, &[(0, 8)], &[], vec![0]).0), [(0, 8)]);
    }

    #[test]
    fn branches_calls_and_addresses_are_followed() {
        let mut memory = vec![0xf4; 0x100];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x00, &[0xe8, 0x1b, 0, 0, 0, 0x74, 0x29, 0xc3]); // call 0x20; je 0x30; ret
        put(0x20, &[0x48, 0x8d, 0x05, 0x19, 0, 0, 0, 0xff, 0xe0]); // lea rax, 0x40; jmp rax
        put(0x30, &[0x0f, 0xa2, 0xc3]);
        put(0x40, &[0x0f, 0x31, 0xc3]);
        let (mut runs, is_sparse) = follow(&memory, &header(0x100), &[], &[], vec![0]);
        runs.sort_unstable();
        assert_eq!(runs, [(0, 8), (0x20, 0x29), (0x30, 0x33), (0x40, 0x43)]);
        assert!(is_sparse);
        // Where functions are known, addresses are not followed.
        let (mut runs, is_sparse) = follow(&memory, &header(0x100), &[], &[(0x50, 0xe0)], vec![0]);
        runs.sort_unstable();
        assert_eq!((runs, is_sparse), (vec![(0, 8), (0x20, 0x29), (0x30, 0x33)], false));
    }

    #[test]
    fn tables_of_jumps_are_followed_up_to_their_bound() {
        let mut memory = vec![0xf4; 0x100];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        // cmp edi, 1; lea rax, 0x80; movsxd rcx, [rax + rdi*4]; add rax, rcx; jmp rax
        put(0, &[0x83, 0xff, 1, 0x48, 0x8d, 0x05, 0x76, 0, 0, 0, 0x48, 0x63, 0x0c, 0xb8, 0x48, 0x01, 0xc8, 0xff, 0xe0]);
        for (index, offset) in [-0x60i32, -0x50, -0x40].into_iter().enumerate() {
            put(0x80 + 4 * index, &offset.to_le_bytes());
        }
        put(0x20, &[0xc3]);
        put(0x30, &[0xc3]);
        put(0x40, &[0xc3]);
        let (mut runs, _) = follow(&memory, &header(0x100), &[], &[(0x90, 0xf0)], vec![0]);
        runs.sort_unstable();
        assert_eq!(runs, [(0, 0x13), (0x20, 0x21), (0x30, 0x31)]);
    }

    #[test]
    fn seeds_that_lead_nowhere_are_no_code() {
        let memory = vec![0x06; 0x100];
        assert_eq!(follow(&memory, &header(0x100), &[], &[], vec![0, 0xff, 0x100, u64::MAX]), (vec![], true));
    }
}
