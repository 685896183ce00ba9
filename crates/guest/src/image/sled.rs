//! The sled: the stubs behind an image that rewritten places jump to.

use super::PAGE;
use super::gs::{self, GsAccess};
use super::special::{Special, special};
use crate::switch;
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock};
use std::collections::BTreeMap;

pub(super) const JUMP_BYTES: usize = 5;
/// `int3`, between stubs.
const FILLER: u8 = 0xcc;
/// Single bytes that trap wherever they are executed by a program: invalid in 64-bit code (Intel SDM volume 2, appendix A), `int3`,
/// or not for programs (`hlt`, `cli`, `sti`, `ins`, `outs`, `in`, `out` with dx). In order.
const TRAPS: [u8; 26] = [
    0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x6c, 0x6d, 0x6e, 0x6f, 0xcc, 0xce,
    0xec, 0xed, 0xee, 0xef, 0xf4, 0xfa, 0xfb,
];
/// A stub lies as far behind the last one like it at most, for the sake of its jump's bytes, by the last of these that is to be a trap.
const STRETCH: [u64; JUMP_BYTES] = [0, 64 << 10, 64 << 10, 16 << 20, 192 << 20];

/// Where a stub lies.
pub(super) struct Stub {
    pub(super) at: u64,
    /// Where each of its instructions lies, and at last what follows them. The special one's is the beginning of its way out, and the
    /// next one's where the guest comes back.
    pub(super) places: Vec<u64>,
    pub(super) accesses: Vec<GsAccess>,
}

/// What a sled consists of.
#[derive(Debug, Default)]
pub(crate) struct SledPages {
    /// Its whole length.
    pub(crate) bytes: u64,
    /// By their offsets. Between them nothing is executed.
    pub(crate) pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

pub(super) struct Sled {
    start: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    /// What stubs take, joined where they touch: ends by starts.
    taken: BTreeMap<u64, u64>,
    /// By the set of offsets in a jump that are to be traps: where the last stub of such a jump lies.
    last: [u64; 1 << JUMP_BYTES],
}

impl Sled {
    pub(super) fn new(start: u64) -> Sled {
        Sled { start, pages: BTreeMap::new(), taken: BTreeMap::new(), last: [start; 1 << JUMP_BYTES] }
    }

    pub(super) fn into_pages(self) -> SledPages {
        let bytes = self.taken.last_key_value().map_or(0, |(_, end)| end - self.start);
        SledPages { bytes, pages: self.pages }
    }

    /// Adds a stub that does what `list` did, with a way out of the guest for the instruction at `special` unless its kind needs none. With the
    /// start of the jump that will lead here, and the offsets in it that have to be traps. None when it cannot be done.
    pub(super) fn add(
        &mut self,
        list: &[Instruction],
        special: usize,
        kind: Special,
        jump: Option<(u64, &[u64])>,
    ) -> Option<Stub> {
        let (start, traps) = jump.unwrap_or((0, &[]));
        let set = traps.iter().fold(0, |set, offset| set | 1 << offset);
        let length = stub(list, special, kind, self.last[set])?.0.len() as u64;
        let at = self.place(length, start, traps, self.last[set])?;
        let (code, stub) = stub(list, special, kind, at)?;
        if code.len() as u64 != length {
            return None;
        }
        self.last[set] = at;
        self.write(at, &code);
        self.take(at, at + length);
        Some(stub)
    }

    /// The first free place from an address on for so many bytes to which a jump has these traps.
    fn place(&self, length: u64, start: u64, traps: &[u64], from: u64) -> Option<u64> {
        let stretch = traps.last().map_or(u64::MAX, |offset| STRETCH[*offset as usize]);
        let mut at = from;
        loop {
            at = place_with_traps(start, at, traps)?;
            if at - from > stretch {
                return None;
            }
            match self.taken.range(..at + length).next_back() {
                Some((_, end)) if *end > at => at = *end,
                _ => return Some(at),
            }
        }
    }

    fn write(&mut self, at: u64, code: &[u8]) {
        for (at, byte) in (at - self.start..).zip(code) {
            let page = self.pages.entry(at & !(PAGE - 1)).or_insert_with(|| Box::new([FILLER; PAGE as usize]));
            page[(at % PAGE) as usize] = *byte;
        }
    }

    fn take(&mut self, from: u64, to: u64) {
        let to = self.taken.remove(&to).unwrap_or(to);
        match self.taken.range_mut(..from).next_back() {
            Some((_, end)) if *end == from => *end = to,
            _ => _ = self.taken.insert(from, to),
        }
    }
}

/// The first address from `at` on to which a jump from `start` has traps at these offsets.
fn place_with_traps(start: u64, at: u64, offsets: &[u64]) -> Option<u64> {
    let behind = start + JUMP_BYTES as u64;
    let mut displacement = at.checked_sub(behind)?;
    // The higher bytes first: what changes them clears the lower ones.
    for offset in offsets.iter().rev() {
        let shift = 8 * (*offset - 1);
        let byte = (displacement >> shift) as u8;
        if !TRAPS.contains(&byte) {
            let next = TRAPS.iter().find(|trap| **trap > byte);
            let (carry, trap) = next.map_or((1, TRAPS[0]), |trap| (0, *trap));
            let above = (displacement >> shift >> 8) + carry;
            displacement = (above << 8 | u64::from(trap)) << shift;
            if carry != 0 {
                // A higher byte may be a trap no more.
                return place_with_traps(start, behind + displacement, offsets);
            }
        }
    }
    i32::try_from(displacement).is_ok().then_some(behind + displacement)
}

/// The code of a stub at an address, and where its instructions lie there.
fn stub(list: &[Instruction], special: usize, kind: Special, at: u64) -> Option<(Vec<u8>, Stub)> {
    let mut stub = Stub { at, places: Vec::new(), accesses: Vec::new() };
    let mut code = Vec::new();
    if kind == Special::Gs {
        code = encode_expanded(list, &mut stub)?;
    } else {
        let (before, places) = encode(&list[..special], at)?;
        code.extend_from_slice(&before);
        stub.places.extend(places);
        stub.places.push(at + code.len() as u64);
        emit_exit(&mut code, kind);
        let (after, places) = encode(&list[special + 1..], at + code.len() as u64)?;
        code.extend_from_slice(&after);
        stub.places.extend(places);
    }
    let back = at + code.len() as u64;
    stub.places.push(back);
    let end = list.last()?.next_ip();
    let displacement = i32::try_from(end as i64 - (back as i64 + JUMP_BYTES as i64)).ok()?;
    // Both ways have to be within reach.
    i32::try_from(at as i64 - (list.first()?.ip() as i64 + JUMP_BYTES as i64)).ok()?;
    code.push(0xe9);
    code.extend_from_slice(&displacement.to_le_bytes());
    Some((code, stub))
}

/// Encodes instructions, with what stands for those that use GS.
fn encode_expanded(list: &[Instruction], stub: &mut Stub) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut firsts = Vec::new();
    let mut expansions = Vec::new();
    for instruction in list {
        firsts.push(all.len());
        if special(instruction) == Some(Special::Gs) {
            let expansion = gs::expand(instruction)?;
            all.extend_from_slice(&expansion.list);
            expansions.push((firsts.len() - 1, expansion));
        } else {
            all.push(*instruction);
        }
    }
    let (code, mut places) = encode(&all, stub.at)?;
    places.push(stub.at + code.len() as u64);
    stub.accesses = expansions.iter().map(|(index, expansion)| expansion.lies_at(&places[firsts[*index]..])).collect();
    stub.places = firsts.into_iter().map(|first| places[first]).collect();
    Some(code)
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

/// The way out of the guest, `SLED_SYSCALL_BYTES` or `SLED_EMULATE_BYTES` long: restarting one goes back to its start.
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
        Special::Syscall | Special::Gs | Special::Invalid => switch::GS_SYSCALL_ENTRY,
    };
    put(&LEA_RCX_RIP, JMP_LENGTH);
    put(&JMP_GS, entry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{SLED_EMULATE_BYTES, SLED_SYSCALL_BYTES};
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn ways_out_are_as_long_as_those_who_restart_them_believe() {
        let length = |kind| {
            let mut code = Vec::new();
            emit_exit(&mut code, kind);
            code.len() as u64
        };
        assert_eq!(length(Special::Syscall), SLED_SYSCALL_BYTES);
        assert_eq!(length(Special::Emulate(1)), SLED_EMULATE_BYTES);
    }

    #[test]
    fn jumps_have_the_traps_that_they_should() {
        let sorted = TRAPS.is_sorted();
        assert!(sorted && place_with_traps(0x1000, 0x2000, &[]) == Some(0x2000));
        for traps in [&[1][..], &[2], &[1, 2], &[3], &[4], &[3, 4], &[1, 3]] {
            for at in [0x2000, 0xffff, 0xfb_fbfb + 5, 0x07ff_fff8, 0x0812_3456] {
                let found = place_with_traps(0, at, traps).unwrap();
                let bytes = ((found - 5) as u32).to_le_bytes();
                assert!(
                    found >= at && traps.iter().all(|offset| TRAPS.contains(&bytes[*offset as usize - 1])),
                    "{at:x} {traps:?}"
                );
                assert_eq!(place_with_traps(0, found, traps), Some(found));
            }
        }
        assert_eq!(place_with_traps(0, 0x6fff_ffff + 6, &[4]), None);
    }

    #[test]
    fn stubs_lie_apart_and_holes_are_filled() {
        let mut sled = Sled::new(0x10000);
        // mov gs:[rdi], eax; nop
        let code = [0x65, 0x89, 0x07, 0x90, 0x90];
        let list: Vec<_> = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE).into_iter().take(3).collect();
        let mut places: Vec<(u64, u64)> = Vec::new();
        for traps in [&[3, 4][..], &[], &[1], &[3], &[4], &[], &[3, 4], &[1], &[]] {
            let stub = sled.add(&list, 0, Special::Gs, Some((0x1000, traps))).unwrap();
            let (from, to) = (stub.at, stub.places[3] + JUMP_BYTES as u64);
            assert!(places.iter().all(|(start, end)| to <= *start || from >= *end), "{from:x} {places:x?}");
            assert_eq!((stub.places[0], stub.accesses.len(), stub.accesses[0].end), (from, 1, stub.places[1]));
            places.push((from, to));
        }
        let pages = sled.into_pages();
        let last = places.iter().map(|(_, end)| end - 0x10000).max().unwrap();
        assert!(pages.bytes == last && pages.pages.len() < 12, "{} pages", pages.pages.len());
        let (at, end) = places[1];
        assert!(at - 0x10000 < 4096 && end - at < 64 && pages.pages[&0][(at - 0x10000) as usize] == 0x65);
    }
}
