//! Rewriting: special instructions (`special`) become jumps into a sled behind the image.
//!
//! An instruction is replaced together with as many whole neighbours as a five-byte jump needs (`window`). A neighbour may be moved
//! into the sled when it is no call; a real decoder, started at the function's first byte, says where instructions lie, so that
//! constants between functions that look like instructions are left alone.
//!
//! A program may enter the replaced bytes at any instruction that lay there: by a branch from elsewhere, by a computed `goto`, by a signal
//! frame of its own making. Each of these places is a trap: a filler, or a byte of the jump that is no instruction. The trap leads to the
//! place in the sled that stands for the instruction ([`Rewritten::entries`]). Since that is slow, places to which the function itself jumps
//! are avoided. What cannot be replaced so becomes a trap itself, or stays and is caught by syscall user dispatch.
//! Accesses relative to GS, of which a program can have tens of thousands, are moved into the sled by the same means, many at once. One that is
//! shorter than the jump, and stands between places that branches lead to, becomes a short jump to a longer one in another's filler.

use super::context::{Certainty, instruction_around, is_nonsense};
use super::elf::{ElfHeader, KnownCode, function_ranges};
use super::gs::GsAccess;
use super::patches::Patches;
use super::sled::{JUMP_BYTES, Sled, SledPages, Stub};
use super::special::{Special, all_candidates, is_usual, is_usual_opcode, special};
use super::walk::Walk;
use super::window::{Rank, Surroundings, Window};
use base::map::FastMap;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

/// A jump of one byte.
const HOP_BYTES: u64 = 2;
/// How far a branch of one byte reaches, and the longest window.
const NEAR: u64 = 128 + 64;
/// As many instructions on either side of a special one are looked at.
const AROUND: usize = 4;
/// And behind one that can be moved with others of its kind.
const AROUND_GS: usize = 12;
/// Neighbours longer than this are not decoded once more for each site.
const LONG_FUNCTION: u64 = 64 << 10;
/// `hlt`, which is no program's to execute. Not `int3`, at which a debugger would stop.
pub(super) const TRAP: u8 = 0xf4;

/// One replaced instruction; addresses relative to the image's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where the sled goes on after the instruction: what rip shows while the guest is in the simulated kernel.
    pub(crate) sled_return: u64,
    /// The address behind the instruction in the original code.
    pub(crate) original_return: u64,
    /// What the instruction was.
    pub(crate) bytes: [u8; 15],
    pub(crate) length: u8,
}

/// What rewriting made of an image.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    /// The sled, to be mapped executable right behind the image.
    pub(crate) sled: SledPages,
    /// By `sled_return`.
    pub(crate) sites: Vec<Site>,
    /// Where instructions lay that are now part of a patch, and where the sled has them, by the former.
    pub(crate) entries: Vec<(u64, u64)>,
    /// For all places of the sled at which an instruction of the program begins, where that lay, by the former.
    pub(crate) moved: Vec<(u64, u64)>,
    /// By their places in the sled.
    pub(crate) accesses: Vec<GsAccess>,
    /// What lay where something else lies now that a copy could not be executed with.
    pub(crate) patches: Patches,
    /// System calls that stayed.
    pub(crate) left: u64,
}

/// A special instruction with what lies around it.
struct Found {
    /// Some before, the special one, some behind.
    instructions: Vec<Instruction>,
    index: usize,
    kind: Special,
    /// What branches nearby lead to.
    near: Vec<u64>,
}

/// Rewrites `memory` in place; `data` is the file it was made of. `sled_start` is relative to the image, behind its span.
pub(crate) fn rewrite(memory: &mut [u8], data: &[u8], header: &ElfHeader, sled_start: u64) -> Rewritten {
    let code = function_ranges(memory, data, header);
    let mut out = Rewritten::default();
    let found = find(memory, header, &code, &mut out);
    let mut rewriting = Rewriting { memory, sled: Sled::new(sled_start), taken: Vec::new(), fillers: Vec::new(), out };
    let crowded: Vec<&Found> = found.iter().filter(|found| !rewriting.replace(found)).collect();
    for found in crowded {
        rewriting.replace_crowded(found);
    }
    let Rewriting { memory, sled, mut out, .. } = rewriting;
    out.sled = sled.into_pages();
    out.sites.sort_unstable_by_key(|site| site.sled_return);
    out.entries.sort_unstable();
    out.moved.sort_unstable();
    out.accesses.sort_unstable_by_key(|access| access.start);
    out.patches.finish(memory);
    out
}

/// All special instructions in code that is known, by address.
fn find(memory: &[u8], header: &ElfHeader, code: &KnownCode, out: &mut Rewritten) -> Vec<Found> {
    let functions = &code.ranges;
    let mut all: Vec<Found> = Vec::new();
    let mut neighbours = Neighbours { memory, functions, targets: FastMap::default() };
    let mut last: Option<Scan> = None;
    for segment in header.segments.iter().filter(|s| s.executable) {
        let (from, to) = (segment.address, segment.address + segment.file_bytes);
        let bytes = &memory[from as usize..to as usize];
        for offset in all_candidates(bytes) {
            let at = from + offset as u64;
            if all.last().is_some_and(|found| at < found.instructions[found.index].next_ip()) {
                continue;
            }
            let Some(range) = enclosing(functions, at) else {
                let alone = lone_syscall(memory, functions, at)
                    .or_else(|| code.is_sparse.then(|| likely(bytes, from, offset)).flatten());
                out.left += u64::from(alone.is_none() && bytes[offset..].starts_with(&[0x0f, 0x05]));
                all.extend(alone);
                continue;
            };
            if last.as_ref().is_none_or(|scan| scan.range != range) {
                last = Some(Scan::of(memory, range));
            }
            let Some(scan) = &mut last else { continue };
            if !scan.has_special(at) {
                continue;
            }
            let function = scan.function.get_or_insert_with(|| Function::decode(memory, range));
            let Some(index) = function.index_of(at) else { continue };
            let kind = special(&function.instructions[index]);
            if let Some(kind) = kind.filter(|kind| function.is_sound || !kind.is_rare()) {
                if function.is_linkage || function.is_constant(index) {
                    continue;
                }
                let mut near = neighbours.near_targets(function, at);
                if kind == Special::Gs {
                    near.extend(function.table_targets.iter().filter(|target| target.abs_diff(at) < NEAR));
                    near.sort_unstable();
                }
                all.push(function.found(index, kind, near));
            }
        }
    }
    all
}

/// A special instruction outside of the known functions, in a file that says little of them. What lies around it cannot be moved, since
/// nothing tells what jumps there, so it will be replaced alone. Only such as occur in programs are believed.
fn likely(code: &[u8], address: u64, offset: usize) -> Option<Found> {
    // Whoever has the opcode is among the candidates itself.
    if !is_usual_opcode(&code[offset..]) {
        return None;
    }
    let instruction = instruction_around(code, address, offset, Certainty::Code)?;
    let kind = special(&instruction)?;
    is_usual(&instruction).then(|| Found { instructions: vec![instruction], index: 0, kind, near: Vec::new() })
}

/// The branch targets of functions that lie beside special instructions. A function can be beside many.
struct Neighbours<'a> {
    memory: &'a [u8],
    functions: &'a [(u64, u64)],
    /// By function; each list is sorted.
    targets: FastMap<(u64, u64), Vec<u64>>,
}

impl Neighbours<'_> {
    /// The targets near an address of the function's branches, and of its neighbours' that could reach as far with one byte.
    fn near_targets(&mut self, function: &Function, at: u64) -> Vec<u64> {
        let (from, to) = (at.saturating_sub(NEAR), at + NEAR);
        let mut targets = within(&function.targets, from, to).to_vec();
        let begun = self.functions.partition_point(|(start, _)| *start < to);
        let reach = |(start, end): &&(u64, u64)| *end > from && end - start <= LONG_FUNCTION;
        let neighbours = self.functions[..begun].iter().rev().take(NEAR as usize).filter(reach);
        for range in neighbours.filter(|range| **range != function.range) {
            let targets_of = || Walk::through(code_of(self.memory, *range), range.0).targets();
            let known = self.targets.entry(*range).or_insert_with(targets_of);
            targets.extend_from_slice(within(known, from, to));
        }
        targets.sort_unstable();
        targets
    }
}

/// The targets in [from, to) of a sorted list.
fn within(targets: &[u64], from: u64, to: u64) -> &[u64] {
    let [first, last] = [from, to].map(|bound| targets.partition_point(|target| *target < bound));
    &targets[first..last]
}

/// What a jump in place of an instruction fits into, best first.
fn windows(found: &Found, free: (u64, u64)) -> Vec<Window> {
    let is_entry = |at: u64| found.near.binary_search(&at).is_ok();
    let around = Surroundings { instructions: &found.instructions, index: found.index, kind: found.kind, free };
    around.windows(is_entry)
}

struct Rewriting<'a> {
    memory: &'a mut [u8],
    sled: Sled,
    /// Ranges that were replaced, in order.
    taken: Vec<(u64, u64)>,
    /// Bytes behind jumps at which no instruction began, by address.
    fillers: Vec<(u64, u64)>,
    out: Rewritten,
}

impl Rewriting<'_> {
    /// False for an access relative to GS that has to wait until the others are done.
    fn replace(&mut self, found: &Found) -> bool {
        let instruction = &found.instructions[found.index];
        if found.kind == Special::Invalid {
            self.invalidate(instruction);
            return true;
        }
        let free_from = self.taken.last().map_or(0, |(_, end)| *end);
        if found.kind == Special::Gs && instruction.ip() < free_from {
            // Taken along by another.
            return true;
        }
        let windows = windows(found, (free_from, u64::MAX));
        if found.kind == Special::Gs {
            let far = windows.partition_point(|window| window.rank < Rank::Far);
            let named = windows.partition_point(|window| window.rank < Rank::Named);
            return windows[..far].iter().any(|window| self.try_window(found, window))
                || self.hop(found)
                || windows[far..named].iter().any(|window| self.try_window(found, window));
        }
        if windows.iter().any(|window| self.try_window(found, window)) {
            return true;
        }
        if found.kind == Special::Syscall || instruction.ip() < free_from || !self.trap(found) {
            self.out.left += 1;
        }
        true
    }

    /// Replaces an access relative to GS that no good window fits around.
    fn replace_crowded(&mut self, found: &Found) {
        let at = found.instructions[found.index].ip();
        let behind = self.taken.partition_point(|(start, _)| *start <= at);
        let free_from = behind.checked_sub(1).map_or(0, |before| self.taken[before].1);
        let free_to = self.taken.get(behind).map_or(u64::MAX, |(start, _)| *start);
        // Another may have taken it along.
        if at < free_from || self.hop(found) {
            return;
        }
        if !windows(found, (free_from, free_to)).iter().any(|window| self.try_window(found, window))
            && !self.trap(found)
        {
            self.out.left += 1;
        }
    }

    /// A short jump in place of the instruction alone, to a jump in a filler nearby.
    fn hop(&mut self, found: &Found) -> bool {
        let list = &found.instructions[found.index..=found.index];
        let (start, end) = (list[0].ip(), list[0].next_ip());
        let from = start + HOP_BYTES;
        let near = from.saturating_sub(128)..=from + 127;
        let first = self.fillers.partition_point(|(_, to)| *to <= *near.start());
        let fits = |(at, to): &(u64, u64)| near.contains(at) && at + JUMP_BYTES as u64 <= *to;
        let Some(index) = self.fillers[first..].iter().take(128).position(fits).map(|index| first + index) else {
            return false;
        };
        let at = self.fillers[index].0;
        let Some(stub) = self.sled.add(list, 0, found.kind, None) else { return false };
        self.fillers[index].0 += JUMP_BYTES as u64;
        self.put_jump(at, stub.at);
        self.out.moved.push((at, start));
        self.note(found, list, 0, &stub);
        let patch = &mut self.memory[start as usize..end as usize];
        patch.fill(TRAP);
        patch[..HOP_BYTES as usize].copy_from_slice(&[0xeb, at.wrapping_sub(from) as u8]);
        true
    }

    fn put_jump(&mut self, at: u64, to: u64) {
        let displacement = to.wrapping_sub(at + JUMP_BYTES as u64) as u32;
        let code = &mut self.memory[at as usize..at as usize + JUMP_BYTES];
        code[0] = 0xe9;
        code[1..].copy_from_slice(&displacement.to_le_bytes());
    }

    /// Makes an instruction raise #UD.
    fn invalidate(&mut self, instruction: &Instruction) {
        const UD2: [u8; 2] = [0x0f, 0x0b];
        let (start, end) = (instruction.ip(), instruction.next_ip());
        let code = &mut self.memory[start as usize..end as usize];
        code.fill(TRAP);
        code[..2].copy_from_slice(&UD2);
        self.taken.push((start, end));
    }

    /// A jump in place of a window.
    fn try_window(&mut self, found: &Found, window: &Window) -> bool {
        let list = &found.instructions[window.from..window.to];
        let special = found.index - window.from;
        let (start, end) = (list[0].ip(), list[list.len() - 1].next_ip());
        let Some(stub) = self.sled.add(list, special, found.kind, Some((start, &window.traps))) else { return false };
        self.note(found, list, special, &stub);
        self.out.entries.extend(list[1..].iter().map(Instruction::ip).zip(stub.places[1..].iter().copied()));
        self.memory[start as usize..end as usize].fill(TRAP);
        self.put_jump(start, stub.at);
        let mut filler = start + JUMP_BYTES as u64;
        for bound in
            list[1..].iter().map(Instruction::ip).filter(|bound| *bound >= start + JUMP_BYTES as u64).chain([end])
        {
            let index = self.fillers.partition_point(|(other, _)| *other < filler);
            self.fillers.insert(index, (filler, bound));
            filler = bound + 1;
        }
        true
    }

    /// A trap in place of the instruction alone.
    fn trap(&mut self, found: &Found) -> bool {
        let list = &found.instructions[found.index..=found.index];
        let Some(stub) = self.sled.add(list, 0, found.kind, None) else { return false };
        let (start, end) = (list[0].ip(), list[0].next_ip());
        self.out.entries.push((start, stub.at));
        self.note(found, list, 0, &stub);
        self.memory[start as usize..end as usize].fill(TRAP);
        true
    }

    /// Notes that `list`, with the special instruction at `special`, is about to be replaced by a stub.
    fn note(&mut self, found: &Found, list: &[Instruction], special: usize, stub: &Stub) {
        let (start, end) = (list[0].ip(), list[list.len() - 1].next_ip());
        let index = self.taken.partition_point(|(other, _)| *other < start);
        self.taken.insert(index, (start, end));
        self.out.patches.add(start, &self.memory[start as usize..end as usize]);
        let lay_at = list.iter().map(Instruction::ip).chain([end]);
        self.out.moved.extend(stub.places.iter().copied().zip(lay_at));
        self.out.accesses.extend_from_slice(&stub.accesses);
        if found.kind == Special::Gs {
            return;
        }
        let instruction = &list[special];
        let (at, length) = (instruction.ip() as usize, instruction.len());
        let sled_return = stub.places[special + 1];
        let mut bytes = [0; 15];
        bytes[..length].copy_from_slice(&self.memory[at..at + length]);
        self.out.sites.push(Site { sled_return, original_return: instruction.next_ip(), bytes, length: length as u8 });
    }
}

/// `mov $number, %eax; syscall` where a function's unwind entry ends: glibc ends that of `clone3` just before the call. Anywhere else
/// outside the known functions nothing tells what jumps there.
fn lone_syscall(memory: &[u8], functions: &[(u64, u64)], at: u64) -> Option<Found> {
    const NUMBER_MAX: u32 = 0x400;
    let start = at.checked_sub(5)?;
    let code = memory.get(start as usize..at as usize + 2)?;
    let number = u32::from_le_bytes([code[1], code[2], code[3], code[4]]);
    let call = code[0] == 0xb8 && number < NUMBER_MAX && code[5..] == [0x0f, 0x05];
    let begun = functions.partition_point(|(from, _)| *from <= start);
    let ends_here = functions[..begun].iter().rev().take(8).any(|(_, to)| *to >= start && *to <= at);
    (call && ends_here).then(|| Function::decode(memory, (start, at + 2)).found(1, Special::Syscall, Vec::new()))
}

/// The innermost function around `at`.
fn enclosing(functions: &[(u64, u64)], at: u64) -> Option<(u64, u64)> {
    let end = functions.partition_point(|(start, _)| *start <= at);
    functions[..end].iter().rev().take(8).find(|(_, to)| at < *to).copied()
}

fn jumps_by_pointer(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::IndirectBranch && instruction.is_ip_rel_memory_operand()
}

/// What a table of offsets from its own start leads to, as far as that lies in a function.
fn table_targets(memory: &[u8], table: u64, range: (u64, u64)) -> impl Iterator<Item = u64> {
    let words = memory.get(table as usize..).unwrap_or(&[]).as_chunks::<4>().0;
    let targets = words.iter().map(move |word| table.wrapping_add(i32::from_le_bytes(*word) as u64));
    targets.take_while(move |target| (range.0..range.1).contains(target))
}

/// A decoded function: its instructions and the addresses that something in it branches to.
struct Function {
    range: (u64, u64),
    instructions: Vec<Instruction>,
    targets: Vec<u64>,
    /// Places in it that tables of jumps may lead to.
    table_targets: Vec<u64>,
    /// There is nothing in it but what programs hold: no constants, as far as that can be told.
    is_sound: bool,
    /// It is a table of jumps by way of pointers, with constants between them (Mono's, compiled ahead).
    is_linkage: bool,
}

/// A table has so many jumps at least, and one in so many bytes. They are counted by their bytes: decoded, a constant may hide the next jump.
const LINKAGE_JUMPS: usize = 8;
const LINKAGE_BYTES: usize = 16;
/// `jmp *x(%rip)`.
const JUMP_BY_POINTER: [u8; 2] = [0xff, 0x25];

/// The code of a function, as far as the image has it.
fn code_of(memory: &[u8], range: (u64, u64)) -> &[u8] {
    memory.get(range.0 as usize..range.1 as usize).unwrap_or(&[])
}

/// A search for special instructions in a function, in the order of their addresses.
struct Scan<'a> {
    range: (u64, u64),
    walk: Walk<'a>,
    /// The start and the end of the instruction that the walk has reached, and whether it is special.
    last: Option<(u64, u64, bool)>,
    /// The decoded function, as soon as a special instruction was found.
    function: Option<Function>,
}

impl Scan<'_> {
    fn of(memory: &[u8], range: (u64, u64)) -> Scan<'_> {
        Scan { range, walk: Walk::through(code_of(memory, range), range.0), last: None, function: None }
    }

    /// Whether the instruction that a byte belongs to is special. Inside of another one there is none at all.
    fn has_special(&mut self, at: u64) -> bool {
        if self.last.is_none_or(|(_, end, _)| end <= at) {
            let place = |one: &Instruction| (one.ip(), one.next_ip(), special(one).is_some());
            self.last = self.walk.reach(at).map(place);
        }
        self.last.is_some_and(|(start, end, is_special)| is_special && (start..end).contains(&at))
    }
}

impl Function {
    fn decode(memory: &[u8], range: (u64, u64)) -> Function {
        let code = code_of(memory, range);
        let mut instructions = Vec::new();
        let mut targets = Vec::new();
        let mut tables = Vec::new();
        let mut jumps_by_register = false;
        let mut walk = Walk::through(code, range.0);
        while let Some(instruction) = walk.next() {
            if matches!(instruction.op0_kind(), OpKind::NearBranch64) {
                targets.push(instruction.near_branch64());
            }
            if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
                tables.push(instruction.ip_rel_memory_address());
            }
            jumps_by_register |= instruction.flow_control() == FlowControl::IndirectBranch;
            instructions.push(*instruction);
        }
        targets.sort_unstable();
        let is_sound = !instructions.iter().any(is_nonsense);
        let jumps = code.windows(2).filter(|bytes| **bytes == JUMP_BY_POINTER).count();
        let is_linkage = jumps >= LINKAGE_JUMPS && jumps * LINKAGE_BYTES >= code.len();
        let tables = if jumps_by_register { tables } else { Vec::new() };
        let table_targets = tables.into_iter().flat_map(|table| table_targets(memory, table, range)).collect();
        Function { range, instructions, targets, table_targets, is_sound, is_linkage }
    }

    /// The instruction that a byte belongs to.
    fn index_of(&self, address: u64) -> Option<usize> {
        let index = self.instructions.partition_point(|instruction| instruction.ip() <= address).checked_sub(1)?;
        (address < self.instructions[index].next_ip()).then_some(index)
    }

    /// Whether it is what linkage tables keep behind a jump: a constant, which nothing executes.
    fn is_constant(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1).map(|before| &self.instructions[before]) else { return false };
        let at = self.instructions[index].ip();
        jumps_by_pointer(before) && self.targets.binary_search(&at).is_err()
    }

    fn found(&self, index: usize, kind: Special, near: Vec<u64>) -> Found {
        let from = index.saturating_sub(AROUND);
        let behind = if kind == Special::Gs { AROUND_GS } else { AROUND };
        let to = (index + behind + 1).min(self.instructions.len());
        Found { instructions: self.instructions[from..to].to_vec(), index: index - from, kind, near }
    }
}
