//! Rewriting: `syscall`, `cpuid`, `xgetbv`, `rdtsc`, `rdtscp`, `rdrand` and `rdseed` become jumps into a sled behind the image.
//!
//! An instruction is replaced together with as many whole neighbours as a five-byte jump needs. A neighbour may be moved
//! into the sled when it is no call and nothing in its function jumps to it; a real decoder, started at the function's first
//! byte, says where instructions lie, so that constants between functions that look like instructions are left alone. What
//! cannot be replaced stays and is caught by syscall user dispatch or by trapping.
//!
//! `wrgsbase` would take the simulator's state away from under it. It becomes an invalid instruction, as on a processor without it.

use super::elf::{ElfHeader, function_ranges};
use crate::switch;
use crate::traps::{EMULATE_CPUID, EMULATE_RANDOM, EMULATE_RDTSC, EMULATE_RDTSCP, EMULATE_XGETBV};
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    OpKind,
};

const JUMP_BYTES: usize = 5;

/// One replaced instruction; addresses relative to the image's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where the sled goes on after the instruction: what rip shows while the guest is in the simulated kernel.
    pub(crate) sled_return: u64,
    /// The address behind the instruction in the original code.
    pub(crate) original_return: u64,
}

/// What rewriting made of an image.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    /// The sled, to be mapped executable right behind the image.
    pub(crate) sled: Vec<u8>,
    /// By `sled_return`.
    pub(crate) sites: Vec<Site>,
    /// Instructions that stayed.
    pub(crate) left: u64,
}

/// Rewrites `memory` in place; `data` is the file it was made of.
pub(crate) fn rewrite(memory: &mut [u8], data: &[u8], header: &ElfHeader) -> Rewritten {
    let mut out = Rewritten::default();
    let functions = function_ranges(data, header);
    let mut last: Option<Function> = None;
    for segment in header.segments.iter().filter(|s| s.executable) {
        let (from, to) = (segment.address, segment.address + segment.file_bytes);
        for at in candidates(&memory[from as usize..to as usize]) {
            let at = from + at as u64;
            let Some(range) = enclosing(&functions, at) else {
                let alone = lone_syscall(memory, &functions, at)
                    .is_some_and(|lone| replace(memory, header.span, &lone, 1, Special::Syscall, &mut out));
                out.left += u64::from(!alone);
                continue;
            };
            if last.as_ref().is_none_or(|function| function.range != range) {
                last = Some(Function::decode(memory, range));
            }
            let Some(function) = &last else { continue };
            // Inside another instruction there is no special one at all.
            let Some(index) = function.index_of(at) else { continue };
            if matches!(function.instructions[index].code(), Code::Wrgsbase_r32 | Code::Wrgsbase_r64) {
                invalidate(memory, &function.instructions[index]);
            }
            if let Some(kind) = special(&function.instructions[index])
                && !replace(memory, header.span, function, index, kind, &mut out)
            {
                out.left += 1;
            }
        }
    }
    out
}

/// Offsets of byte patterns that may be one of our instructions.
fn candidates(code: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    for at in 0..code.len().saturating_sub(1) {
        if code[at] != 0x0f {
            continue;
        }
        let third = code.get(at + 2).copied().unwrap_or(0);
        match code[at + 1] {
            0x05 | 0x31 | 0xa2 => found.push(at),
            0x01 if third == 0xf9 || third == 0xd0 => found.push(at),
            0xae if third & 0xf8 == 0xd8 => found.extend(start_of_wrgsbase(code, at)),
            0xc7 if third >= 0xf0 => found.push(at - prefixes_before(code, at)),
            _ => {}
        }
    }
    found
}

/// Operand-size and REX prefixes before `rdrand`/`rdseed`.
fn prefixes_before(code: &[u8], at: usize) -> usize {
    let before = |n: usize| if at >= n { code[at - n] } else { 0 };
    match (before(2), before(1)) {
        (0x66, 0x40..=0x4f) => 2,
        (_, 0x40..=0x4f | 0x66) => 1,
        _ => 0,
    }
}

/// Where `f3 [REX] 0f ae /3` begins.
fn start_of_wrgsbase(code: &[u8], at: usize) -> Option<usize> {
    match (at.checked_sub(2).map(|before| code[before]), at.checked_sub(1).map(|before| code[before])) {
        (Some(0xf3), Some(0x40..=0x4f)) => Some(at - 2),
        (_, Some(0xf3)) => Some(at - 1),
        _ => None,
    }
}

/// Makes an instruction raise #UD.
fn invalidate(memory: &mut [u8], instruction: &Instruction) {
    const UD2: [u8; 2] = [0x0f, 0x0b];
    const NOP: u8 = 0x90;
    let code = &mut memory[instruction.ip() as usize..instruction.next_ip() as usize];
    code.fill(NOP);
    code[..2].copy_from_slice(&UD2);
}

/// `mov $number, %eax; syscall` where a function's unwind entry ends: glibc ends that of `clone3` just before the call. Anywhere else
/// outside the known functions nothing tells what jumps there.
fn lone_syscall(memory: &[u8], functions: &[(u64, u64)], at: u64) -> Option<Function> {
    const NUMBER_MAX: u32 = 0x400;
    let start = at.checked_sub(5)?;
    let code = memory.get(start as usize..at as usize + 2)?;
    let number = u32::from_le_bytes([code[1], code[2], code[3], code[4]]);
    let call = code[0] == 0xb8 && number < NUMBER_MAX && code[5..] == [0x0f, 0x05];
    let begun = functions.partition_point(|(from, _)| *from <= start);
    let ends_here = functions[..begun].iter().rev().take(8).any(|(_, to)| *to >= start && *to <= at);
    (call && ends_here).then(|| Function::decode(memory, (start, at + 2)))
}

/// The innermost function around `at`.
fn enclosing(functions: &[(u64, u64)], at: u64) -> Option<(u64, u64)> {
    let end = functions.partition_point(|(start, _)| *start <= at);
    functions[..end].iter().rev().take(8).find(|(_, to)| at < *to).copied()
}

#[derive(Clone, Copy)]
enum Special {
    Syscall,
    Emulate(u32),
}

fn special(instruction: &Instruction) -> Option<Special> {
    Some(match instruction.code() {
        Code::Syscall => Special::Syscall,
        Code::Cpuid => Special::Emulate(EMULATE_CPUID),
        Code::Xgetbv => Special::Emulate(EMULATE_XGETBV),
        Code::Rdtsc => Special::Emulate(EMULATE_RDTSC),
        Code::Rdtscp => Special::Emulate(EMULATE_RDTSCP),
        Code::Rdrand_r16
        | Code::Rdrand_r32
        | Code::Rdrand_r64
        | Code::Rdseed_r16
        | Code::Rdseed_r32
        | Code::Rdseed_r64 => {
            let register = instruction.op0_register();
            Special::Emulate(EMULATE_RANDOM | (register.number() as u32) << 8 | (register.size() as u32) << 16)
        }
        _ => return None,
    })
}

/// A decoded function: its instructions and the addresses that something in it branches to.
struct Function {
    range: (u64, u64),
    instructions: Vec<Instruction>,
    targets: Vec<u64>,
}

impl Function {
    fn decode(memory: &[u8], range: (u64, u64)) -> Function {
        let code = &memory[range.0 as usize..range.1 as usize];
        let mut decoder = Decoder::with_ip(64, code, range.0, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        let mut targets = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if matches!(instruction.op0_kind(), OpKind::NearBranch64) {
                targets.push(instruction.near_branch64());
            }
            instructions.push(instruction);
        }
        targets.sort_unstable();
        Function { range, instructions, targets }
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |i| i.ip()).ok()
    }

    fn is_target_inside(&self, from: u64, to: u64) -> bool {
        let at = self.targets.partition_point(|target| *target <= from);
        self.targets.get(at).is_some_and(|target| *target < to)
    }
}

/// Whether an instruction may be moved into the sled, before or after the special one.
fn movable(instruction: &Instruction, is_last: bool) -> bool {
    if instruction.is_invalid() || special(instruction).is_some() {
        return false;
    }
    match instruction.flow_control() {
        FlowControl::Next => true,
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Return => is_last,
        _ => false,
    }
}

/// The smallest range of instructions around `index` that a jump fits into, as indices [from, to).
fn window(function: &Function, index: usize) -> Option<(usize, usize)> {
    let list = &function.instructions;
    // Preferred: what comes before (usually `mov $number, %eax`), then what follows, then both.
    let shapes = [(1, 0), (0, 1), (0, 2), (1, 1), (2, 0), (0, 3), (2, 1), (1, 2), (3, 0), (0, 4)];
    for (before, after) in shapes {
        if before > index || index + after >= list.len() {
            continue;
        }
        let (from, to) = (index - before, index + after + 1);
        let (start, end) = (list[from].ip(), list[to - 1].next_ip());
        let fits = (end - start) as usize >= JUMP_BYTES;
        let moves =
            (from..index).all(|i| movable(&list[i], false)) && (index + 1..to).all(|i| movable(&list[i], i + 1 == to));
        if fits && moves && !function.is_target_inside(start, end) {
            return Some((from, to));
        }
    }
    None
}

fn replace(
    memory: &mut [u8],
    span: u64,
    function: &Function,
    index: usize,
    kind: Special,
    out: &mut Rewritten,
) -> bool {
    let Some((from, to)) = window(function, index) else { return false };
    let list = &function.instructions;
    let stub_at = span + out.sled.len() as u64;
    let Some(mut stub) = encode(&list[from..index], stub_at) else { return false };
    emit_exit(&mut stub, kind);
    let sled_return = stub_at + stub.len() as u64;
    let Some(after) = encode(&list[index + 1..to], sled_return) else { return false };
    stub.extend_from_slice(&after);
    let (start, end) = (list[from].ip(), list[to - 1].next_ip());
    let Some(back) = relative(stub_at + stub.len() as u64, end) else { return false };
    stub.push(0xe9);
    stub.extend_from_slice(&back);
    let Some(there) = relative(start, stub_at) else { return false };
    let patch = &mut memory[start as usize..end as usize];
    patch.fill(0xcc);
    patch[0] = 0xe9;
    patch[1..5].copy_from_slice(&there);
    out.sled.extend_from_slice(&stub);
    out.sites.push(Site { sled_return, original_return: list[index].next_ip() });
    true
}

/// The displacement of a five-byte jump at `from` to `to`.
fn relative(from: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to as i64 - (from as i64 + JUMP_BYTES as i64)).ok().map(i32::to_le_bytes)
}

/// Re-encodes instructions at a new address, keeping what they refer to.
fn encode(instructions: &[Instruction], address: u64) -> Option<Vec<u8>> {
    if instructions.is_empty() {
        return Some(Vec::new());
    }
    let block = InstructionBlock::new(instructions, address);
    BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok().map(|result| result.code_buffer)
}

/// The way out of the guest. A system call's must stay `SLED_SYSCALL_BYTES` long: restarting one goes back to its start.
fn emit_exit(stub: &mut Vec<u8>, kind: Special) {
    const LEA_RCX_RIP: [u8; 3] = [0x48, 0x8d, 0x0d];
    const JMP_GS: [u8; 4] = [0x65, 0xff, 0x24, 0x25];
    const MOV_GS_RCX: [u8; 5] = [0x65, 0x48, 0x89, 0x0c, 0x25];
    const MOV_GS_R11: [u8; 5] = [0x65, 0x4c, 0x89, 0x1c, 0x25];
    const MOV_GS_IMM32: [u8; 4] = [0x65, 0xc7, 0x04, 0x25];
    const JMP_LENGTH: u32 = 8;
    let mut put = |code: &[u8], word: u32| {
        stub.extend_from_slice(code);
        stub.extend_from_slice(&word.to_le_bytes());
    };
    let entry = match kind {
        Special::Syscall => switch::GS_SYSCALL_ENTRY,
        Special::Emulate(info) => {
            put(&MOV_GS_RCX, switch::GS_SCRATCH_RCX);
            put(&MOV_GS_R11, switch::GS_SCRATCH_R11);
            put(&MOV_GS_IMM32, switch::GS_EMULATE_INFO);
            put(&[], info);
            switch::GS_EMULATE_ENTRY
        }
    };
    put(&LEA_RCX_RIP, JMP_LENGTH);
    put(&JMP_GS, entry);
}
