//! The sled: the stubs behind an image that rewritten places jump to.

use super::special::Special;
use crate::switch;
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock};

pub(super) const JUMP_BYTES: usize = 5;
/// `int3`, between stubs.
const FILLER: u8 = 0xcc;
/// Single bytes that trap wherever they are executed by a program: invalid in 64-bit code (Intel SDM volume 2, appendix A), `int3`,
/// or not for programs (`hlt`, `cli`, `sti`, `ins`, `outs`, `in`, `out` with dx).
const TRAPS: [u8; 26] = [
    0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x6c, 0x6d, 0x6e, 0x6f, 0xcc, 0xce,
    0xec, 0xed, 0xee, 0xef, 0xf4, 0xfa, 0xfb,
];
/// A stub lies as far behind the others at most for the sake of its jump's bytes.
const STRETCH: u64 = 64 << 10;

/// Where a stub lies.
pub(super) struct Stub {
    pub(super) at: u64,
    /// Where each of its instructions lies, and at last what follows them. The special one's is the beginning of its way out, and the
    /// next one's where the guest comes back.
    pub(super) places: Vec<u64>,
}

pub(super) struct Sled {
    start: u64,
    bytes: Vec<u8>,
    /// Fillers that a stub could take: [from, to), by address.
    gaps: Vec<(u64, u64)>,
}

impl Sled {
    pub(super) fn new(start: u64) -> Sled {
        Sled { start, bytes: Vec::new(), gaps: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds a stub that does what `list` did, with a way out of the guest for the instruction at `special`. With the start of the jump that
    /// will lead here, and the offsets in it that have to be traps. None when it cannot be done.
    pub(super) fn add(
        &mut self,
        list: &[Instruction],
        special: usize,
        kind: Special,
        jump: Option<(u64, &[u64])>,
    ) -> Option<Stub> {
        let end = self.start + self.bytes.len() as u64;
        let length = stub(list, special, kind, end)?.0.len() as u64;
        let at = self.place(length, |at| jump.is_none_or(|(start, traps)| has_traps(start, at, traps)))?;
        let (code, places) = stub(list, special, kind, at)?;
        if code.len() as u64 != length {
            return None;
        }
        let from = (at - self.start) as usize;
        if self.bytes.len() < from + code.len() {
            self.bytes.resize(from + code.len(), FILLER);
        }
        self.bytes[from..from + code.len()].copy_from_slice(&code);
        self.use_up(end, at, at + length);
        Some(Stub { at, places })
    }

    /// The first free place for so many bytes that pleases.
    fn place(&self, length: u64, pleases: impl Fn(u64) -> bool) -> Option<u64> {
        let end = self.start + self.bytes.len() as u64;
        let gaps = self.gaps.iter().map(|(from, to)| (*from, (*to + 1).saturating_sub(length)));
        gaps.chain([(end, end + STRETCH)]).flat_map(|(from, to)| from..to).find(|at| pleases(*at))
    }

    /// Takes [from, to) out of the gaps, or out of what lies behind the old `end`.
    fn use_up(&mut self, end: u64, from: u64, to: u64) {
        if from >= end {
            if from > end {
                self.gaps.push((end, from));
            }
            return;
        }
        let index = self.gaps.partition_point(|(_, gap_end)| *gap_end <= from);
        let (gap_from, gap_to) = self.gaps[index];
        let rest = [(gap_from, from), (to, gap_to)].into_iter().filter(|(from, to)| from < to);
        self.gaps.splice(index..=index, rest);
    }
}

/// Whether the bytes of a jump from `start` to `at` are traps at these offsets.
fn has_traps(start: u64, at: u64, offsets: &[u64]) -> bool {
    let displacement = (at.wrapping_sub(start + JUMP_BYTES as u64) as u32).to_le_bytes();
    offsets.iter().all(|offset| TRAPS.contains(&displacement[*offset as usize - 1]))
}

/// The code of a stub at an address, and where its instructions lie there.
fn stub(list: &[Instruction], special: usize, kind: Special, at: u64) -> Option<(Vec<u8>, Vec<u64>)> {
    let (mut code, mut places) = encode(&list[..special], at)?;
    places.push(at + code.len() as u64);
    emit_exit(&mut code, kind);
    let sled_return = at + code.len() as u64;
    let (after, after_places) = encode(&list[special + 1..], sled_return)?;
    code.extend_from_slice(&after);
    places.extend(after_places);
    let back = at + code.len() as u64;
    places.push(back);
    let end = list.last()?.next_ip();
    let displacement = i32::try_from(end as i64 - (back as i64 + JUMP_BYTES as i64)).ok()?;
    // Both ways have to be within reach.
    i32::try_from(at as i64 - (list.first()?.ip() as i64 + JUMP_BYTES as i64)).ok()?;
    code.push(0xe9);
    code.extend_from_slice(&displacement.to_le_bytes());
    Some((code, places))
}

/// Re-encodes instructions at a new address, keeping what they refer to; where each lies.
fn encode(instructions: &[Instruction], address: u64) -> Option<(Vec<u8>, Vec<u64>)> {
    if instructions.is_empty() {
        return Some((Vec::new(), Vec::new()));
    }
    let block = InstructionBlock::new(instructions, address);
    let result = BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS).ok()?;
    let offsets = &result.new_instruction_offsets;
    if offsets.contains(&u32::MAX) {
        return None;
    }
    Some((result.code_buffer, offsets.iter().map(|offset| address + u64::from(*offset)).collect()))
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
        Special::Emulate(info) => {
            put(&MOV_GS_RCX, switch::GS_SCRATCH_RCX);
            put(&MOV_GS_R11, switch::GS_SCRATCH_R11);
            put(&MOV_GS_IMM32, switch::GS_EMULATE_INFO);
            put(&[], info);
            switch::GS_EMULATE_ENTRY
        }
        Special::Syscall | Special::Invalid => switch::GS_SYSCALL_ENTRY,
    };
    put(&LEA_RCX_RIP, JMP_LENGTH);
    put(&JMP_GS, entry);
}
