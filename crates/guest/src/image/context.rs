//! Whether bytes are an instruction, told from what lies around them: code that is decoded from a wrong place falls into step soon, so that
//! decoding from several places before leads to the same instructions. Constants seldom decode into anything that a program would hold.

use super::special::special;
use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

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
    /// They were made to be executed, with constants in between: half of the ways lead to the instruction, and it is followed by nothing but what
    /// programs hold, as far as it can be told that it goes on there.
    Executable,
    /// They may be constants among code: all ways lead there, over nothing but what programs hold, and on so.
    Code,
}

/// The special instruction that a byte is part of, if it is one.
pub(crate) fn instruction_around(code: &[u8], address: u64, at: usize, certainty: Certainty) -> Option<Instruction> {
    let first = at.saturating_sub(RUN_UP + STARTS);
    let starts = if first == 0 { 0..1 } else { first..first + STARTS };
    let mut found: Vec<Instruction> = Vec::new();
    for start in starts.clone() {
        let mut decoder = Decoder::with_ip(64, &code[start..], address + start as u64, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.next_ip() > address + at as u64 {
                if !instruction.is_invalid() && special(&instruction).is_some() {
                    found.push(instruction);
                }
                break;
            }
        }
    }
    let needed = match certainty {
        Certainty::Executable => starts.len().div_ceil(2),
        Certainty::Code => starts.len().max(STARTS),
    };
    let last = found.last().copied().filter(|_| found.len() >= needed)?;
    let is_code = match certainty {
        Certainty::Executable => goes_on(code, address, &last),
        Certainty::Code => makes_sense(code, address, &last),
    };
    is_code.then_some(last)
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

/// Whether what is executed behind an instruction is code, until something leads elsewhere.
fn goes_on(code: &[u8], address: u64, instruction: &Instruction) -> bool {
    let ip = instruction.next_ip();
    let mut decoder = Decoder::with_ip(64, &code[(ip - address) as usize..], ip, DecoderOptions::NONE);
    for _ in 0..FOLLOWING {
        let next = decoder.decode();
        let is_cut_off = decoder.last_error() == DecoderError::NoMoreBytes;
        if !is_cut_off && (is_nonsense(&next) || is_zeroes(&next)) {
            return false;
        }
        if is_cut_off || ends_run(&next) || calls(&next) {
            return true;
        }
    }
    true
}

fn calls(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

/// `add [rax], al`: two zero bytes.
fn is_zeroes(instruction: &Instruction) -> bool {
    instruction.code() == Code::Add_rm8_r8
        && instruction.memory_base() == Register::RAX
        && instruction.op1_register() == Register::AL
        && instruction.len() == 2
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
