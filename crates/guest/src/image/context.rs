//! Whether bytes are an instruction, told from what lies around them: code that is decoded from a wrong place falls into step soon, so that
//! decoding from several places before leads to the same instructions. Constants seldom decode into anything that a program would hold.
//! Where code was made while a program runs, a doubt is told as an escape: what is taken for constants here has to be told from code by
//! what no program that works could execute.

use super::special::special;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// From so many places, one byte apart, and so far before, decoding begins.
const STARTS: usize = 8;
const RUN_UP: usize = 48;
/// Behind the instruction, so many more must make sense where certainty is wanted.
const FOLLOWING: usize = 8;
/// What has to be read before and behind a place to judge it.
pub(crate) const CONTEXT_BYTES: usize = RUN_UP + STARTS;

/// What is known of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// They were made to be executed, or are constants beside what was: half of the ways lead to the instruction, of those over what
    /// programs hold if there are any; and what is executed with it makes sense.
    Executable,
    /// They may be constants among code: all ways lead there, over nothing but what programs hold, and on so.
    Code,
}

/// The special instruction that a byte is part of, if it is one.
pub(crate) fn instruction_around(code: &[u8], address: u64, at: usize, certainty: Certainty) -> Option<Instruction> {
    let first = at.saturating_sub(RUN_UP + STARTS);
    let starts = if first == 0 { 0..1 } else { first..first + STARTS };
    let mut ways = Ways::new(code, address, first, at);
    if certainty == Certainty::Code {
        let led: Option<Vec<Instruction>> = starts.map(|start| ways.from(start).found).collect();
        let led = led.filter(|led| led.len() >= STARTS)?;
        return led.last().copied().filter(|last| makes_sense(code, address, last));
    }
    let ways: Vec<Way> = starts.map(|start| ways.from(start)).collect();
    let all: Vec<&Way> = ways.iter().collect();
    let last = ways.iter().rev().find_map(|way| way.found)?;
    let sensible: Vec<&Way> = ways.iter().filter(|way| way.is_sensible).collect();
    let half = |ways: &[&Way]| ways.iter().filter(|way| way.found.is_some()).count() >= ways.len().div_ceil(2);
    // Behind constants, any place may be where code is entered.
    let is_entered = sensible.is_empty() && !is_hardly_first(&last);
    let is_led_to = is_entered || (!sensible.is_empty() && half(&all) && half(&sensible));
    let is_believed = is_led_to && is_prepared(code, address, &last) && is_executed_with_sense(code, address, &last);
    (is_believed && !is_number(code, address, last.ip())).then_some(last)
}

/// Whether a byte can be part of a special instruction for which `counts`, if that is code at all.
pub(crate) fn may_be_special(code: &[u8], address: u64, at: usize, counts: impl Fn(&Instruction) -> bool) -> bool {
    const PREFIXES: usize = 4;
    const NEXT: usize = 3;
    (at.saturating_sub(PREFIXES)..=at).any(|start| {
        let ip = address + start as u64;
        let instruction = Decoder::with_ip(64, &code[start..], ip, DecoderOptions::NONE).decode();
        let is_special = !instruction.is_invalid() && special(&instruction).is_some() && counts(&instruction);
        is_special
            && instruction.next_ip() > address + at as u64
            && is_followed_by_sense(code, address, &instruction, NEXT)
    })
}

/// What decoding from some place leads to.
#[derive(Clone, Copy)]
struct Way {
    /// The special instruction that the byte in question is part of.
    found: Option<Instruction>,
    /// There was nothing on the way that no program holds.
    is_sensible: bool,
}

/// Decoding from places before a byte up to it. Ways fall into step soon, so each place is decoded once for all of them.
struct Ways<'code> {
    code: &'code [u8],
    address: u64,
    /// The first place, and the byte in question.
    first: usize,
    at: usize,
    decoder: Decoder<'code>,
    /// By place, from the first on.
    known: [Option<Way>; CONTEXT_BYTES + 1],
}

impl<'code> Ways<'code> {
    fn new(code: &'code [u8], address: u64, first: usize, at: usize) -> Ways<'code> {
        let decoder = Decoder::with_ip(64, &code[first..], address + first as u64, DecoderOptions::NONE);
        Ways { code, address, first, at, decoder, known: [None; CONTEXT_BYTES + 1] }
    }

    fn from(&mut self, start: usize) -> Way {
        // Decoded in place: to copy what was just written in small pieces takes longer than decoding it.
        let mut instruction = Instruction::default();
        let mut passed = [(0, false); CONTEXT_BYTES + 1];
        let (mut count, mut place) = (0, start - self.first);
        let end = self.at - self.first;
        let mut way = loop {
            if let Some(way) = self.known[place] {
                break way;
            }
            if self.decoder.set_position(place).is_err() || !self.decoder.can_decode() {
                break Way { found: None, is_sensible: false };
            }
            self.decoder.set_ip(self.address + (self.first + place) as u64);
            self.decoder.decode_out(&mut instruction);
            let next = place + instruction.len();
            if next > end {
                let is_special = !instruction.is_invalid() && special(&instruction).is_some();
                let way = Way { found: is_special.then_some(instruction), is_sensible: true };
                self.known[place] = Some(way);
                break way;
            }
            passed[count] = (place, !is_unlikely(self.code, self.address, &instruction));
            (count, place) = (count + 1, next);
        };
        for (place, is_sensible) in passed[..count].iter().rev() {
            way.is_sensible &= is_sensible;
            self.known[*place] = Some(way);
        }
        way
    }
}

/// Whether an instruction and those behind it are what programs hold, as far as one need be followed.
pub(crate) fn is_executed_with_sense(code: &[u8], address: u64, instruction: &Instruction) -> bool {
    is_followed_by_sense(code, address, instruction, FOLLOWING)
}

/// Whether the bytes at `ip`, which decode into an instruction, are part of numbers that compilers put among their code.
fn is_number(code: &[u8], address: u64, ip: u64) -> bool {
    let at = (ip - address) as usize;
    is_in_table(code, at) || is_in_address(code, address, at)
}

/// Whether the opcode of an instruction is part of an aligned address, of two or more on end, in the same 4 GiB or thereabouts. Code would have to go on
/// with the upper half of where it lies itself, twice.
fn is_in_address(code: &[u8], address: u64, at: usize) -> bool {
    const BYTES: usize = 8;
    const NEAR: u64 = 1 << 32;
    let phase = (address as usize + at) % BYTES;
    let is_address = |start: Option<usize>| {
        let number = start.and_then(|start| code.get(start..)?.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes));
        // Low addresses are like other numbers.
        number.is_some_and(|number| number >= NEAR && number.abs_diff(address) < NEAR)
    };
    let start = at.checked_sub(phase).filter(|_| phase + 1 < BYTES);
    let neighbours = [start.and_then(|start| start.checked_sub(BYTES)), start.map(|start| start + BYTES)];
    is_address(start) && neighbours.into_iter().any(is_address)
}

/// Whether the opcode of an instruction is part of a table of numbers, as lists of lines are: many in a row, of which the second bytes differ by
/// no more than one, those above are the same, and the lowest are not. As code it would be half a dozen instructions on end that have
/// all else in common.
fn is_in_table(code: &[u8], at: usize) -> bool {
    const OPCODE: usize = 2;
    /// Bytes of a number, at which of them an opcode may begin, and how many numbers are a table. Code repeats instructions of four bytes of
    /// which the last is an offset.
    const KINDS: [(usize, usize, usize); 2] = [(2, 2, 8), (4, 1, 6)];
    KINDS.iter().any(|&(bytes, phases, least)| {
        (0..phases).any(|phase| {
            let Some(first) = at.checked_sub(phase) else { return false };
            let Some(number) = code.get(first..first + bytes) else { return false };
            let is_alike = |start: &usize| {
                let other = code.get(*start..*start + bytes);
                other.is_some_and(|other| other[1].abs_diff(number[1]) <= 1 && other[2..] == number[2..])
            };
            let before = (1..=least).map_while(|count| first.checked_sub(bytes * count)).take_while(is_alike).count();
            let behind = (1..=least).map(|count| first + bytes * count).take_while(is_alike).count();
            let (start, end) = (first - bytes * before, first + bytes * (behind + 1));
            let differ = code[start..end].chunks(bytes).any(|other| other[0] != number[0]);
            before + behind + 1 >= least && end >= at + OPCODE && differ
        })
    })
}

/// Whether an instruction, and what is executed behind it for certain, `count` in all at most, is what programs hold.
fn is_followed_by_sense(code: &[u8], address: u64, instruction: &Instruction, count: usize) -> bool {
    let start = (instruction.ip() - address) as usize;
    let decoder = Decoder::with_ip(64, &code[start..], instruction.ip(), DecoderOptions::NONE);
    let mut byte_sums = 0;
    for one in decoder.into_iter().take(count) {
        // What lies behind the last byte that is known would be part of it.
        let is_cut = one.is_invalid() && one.next_ip() - address >= code.len() as u64;
        let is_first = one.ip() == instruction.ip();
        byte_sums += u32::from(code[(one.ip() - address) as usize] == 0x00);
        if is_cut {
            break;
        }
        if is_unlikely(code, address, &one) || byte_sums > 1 || (is_first && is_odd(code, start, &one)) {
            return false;
        }
        let calls = matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        if calls || ends_run(&one) {
            break;
        }
    }
    true
}

/// Whether an instruction stands in no program that means to go on, or in so few that it was rather made of constants.
fn is_unlikely(code: &[u8], address: u64, instruction: &Instruction) -> bool {
    let start = (instruction.ip() - address) as usize;
    let is_canonical = |to: u64| to >> 47 == 0 || to >> 47 == 0x1_ffff;
    let leads_nowhere = instruction.op0_kind() == OpKind::NearBranch64 && !is_canonical(instruction.near_branch64());
    let is_odd_return = instruction.mnemonic() == Mnemonic::Ret
        && instruction.op_count() > 0
        && !instruction.immediate16().is_multiple_of(8);
    let is_far = matches!(instruction.op0_kind(), OpKind::FarBranch16 | OpKind::FarBranch32);
    let is_absolute = instruction.op_kinds().any(|kind| kind == OpKind::Memory)
        && instruction.memory_displ_size() == 8
        && !is_canonical(instruction.memory_displacement64());
    // add [rax], al
    let is_zeroes = code[start..].starts_with(&[0, 0]);
    is_nonsense(instruction) || is_zeroes || leads_nowhere || is_odd_return || is_far || is_absolute
}

/// Whether an instruction is written as no assembler writes it, or computes with a part of the stack pointer and memory.
fn is_odd(code: &[u8], start: usize, instruction: &Instruction) -> bool {
    const REX_ALONE: u8 = 0x40;
    const SEGMENTS: [u8; 2] = [0x64, 0x65];
    let bytes = &code[start..start + instruction.len()];
    let prefixes = bytes.iter().take_while(|byte| SEGMENTS.contains(byte)).count();
    let registers = || (0..instruction.op_count()).filter(|at| instruction.op_kind(*at) == OpKind::Register);
    let needs_rex =
        |at| matches!(instruction.op_register(at), Register::SPL | Register::BPL | Register::SIL | Register::DIL);
    let is_stack = |at| matches!(instruction.op_register(at), Register::ESP | Register::SP | Register::SPL);
    let touches_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    let is_idle_rex = bytes.get(prefixes) == Some(&REX_ALONE) && !registers().any(needs_rex);
    prefixes > 0 && (is_idle_rex || (touches_memory && registers().any(is_stack)))
}

/// Whether something before a `cpuid` sets which leaf it answers. No program enters its code at one: EAX says the leaf, and EBX, which belongs to
/// the caller, is lost. What a compiler keeps about its code (HotSpot's scopes) has the same two bytes now and then.
fn is_prepared(code: &[u8], address: u64, instruction: &Instruction) -> bool {
    use Mnemonic::*;
    if instruction.mnemonic() != Cpuid {
        return true;
    }
    let at = (instruction.ip() - address) as usize;
    let sets_leaf = |one: &Instruction| {
        let is_whole = matches!(one.op0_register(), Register::EAX | Register::RAX);
        is_whole && matches!(one.mnemonic(), Mov | Movzx | Xor | Sub | Lea | Pop | Inc | Dec | Add | And | Or | Xchg)
    };
    (at.saturating_sub(RUN_UP)..at).any(|start| {
        let decoder = Decoder::with_ip(64, &code[start..], address + start as u64, DecoderOptions::NONE);
        let way = decoder.into_iter().take_while(|one| one.ip() < instruction.ip() && !is_unlikely(code, address, one));
        let (leads, sets) =
            way.fold((false, false), |(_, sets), one| (one.next_ip() == instruction.ip(), sets || sets_leaf(&one)));
        leads && sets
    })
}

/// Whether no program enters its code at such an instruction: one that first takes a selector for `lsl` from memory, or calls or jumps by
/// what lies in memory where a register says (`65 ff 14 01` is the middle of an address, too).
fn is_hardly_first(instruction: &Instruction) -> bool {
    let goes_elsewhere = matches!(instruction.flow_control(), FlowControl::IndirectCall | FlowControl::IndirectBranch);
    let is_by_register = instruction.op0_kind() == OpKind::Memory && instruction.memory_base() != Register::None;
    instruction.mnemonic() == Mnemonic::Lsl && instruction.op1_kind() == OpKind::Memory
        || goes_elsewhere && is_by_register
}

/// Whether what precedes and follows an instruction is what programs hold.
fn makes_sense(code: &[u8], address: u64, instruction: &Instruction) -> bool {
    let at = (instruction.ip() - address) as usize;
    // In step by then, as all ways led here.
    let from = at.saturating_sub(RUN_UP / 2);
    let sensible = |start: usize, count: usize, end: u64| {
        let ip = address + start as u64;
        let decoder = Decoder::with_ip(64, &code[start..], ip, DecoderOptions::NONE);
        decoder.into_iter().take(count).take_while(|one| one.ip() < end).all(|one| !is_nonsense(&one))
    };
    let before = (from..at.min(from + STARTS)).any(|start| sensible(start, RUN_UP, instruction.ip()));
    before && sensible(at, FOLLOWING, u64::MAX)
}

/// Whether an instruction stands in no program that means to go on.
pub(crate) fn is_nonsense(instruction: &Instruction) -> bool {
    instruction.is_invalid() || (instruction.is_privileged() && instruction.mnemonic() != Mnemonic::Hlt)
}

/// Whether nothing is executed behind an instruction unless something leads there.
pub(crate) fn ends_run(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    matches!(
        flow,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception
    ) || instruction.mnemonic() == Mnemonic::Hlt
}
