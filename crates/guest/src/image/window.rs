//! Which instructions give way to a jump.

use super::sled::JUMP_BYTES;
use super::special::{Special, special};
use iced_x86::{FlowControl, Instruction};

/// What a window may consist of: instructions before and behind the special one. Preferred is itself alone, if it is
/// long enough, then what comes before (usually `mov $number, %eax`), then what follows, then both.
const SHAPES: [(usize, usize); 16] = [
    (0, 0),
    (1, 0),
    (0, 1),
    (0, 2),
    (1, 1),
    (2, 0),
    (0, 3),
    (2, 1),
    (1, 2),
    (3, 0),
    (0, 4),
    (2, 2),
    (3, 1),
    (4, 0),
    (1, 3),
    (4, 1),
];
/// The patch's bytes, from its first on, that take the stub elsewhere when they are to be a trap. The others of the jump's displacement can be made
/// one at no great cost: by them it reaches less than 64 KiB.
const COSTLY: std::ops::RangeInclusive<u64> = 3..=4;

/// A special instruction among its neighbours.
pub(super) struct Surroundings<'a> {
    pub(super) instructions: &'a [Instruction],
    pub(super) index: usize,
    pub(super) kind: Special,
    /// What lies before this address has been replaced already.
    pub(super) free_from: u64,
}

/// Instructions [from, to) of the surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Offsets in the jump's bytes at which an instruction began: they must be traps.
    pub(super) traps: Vec<u64>,
}

impl Surroundings<'_> {
    /// Windows that a jump fits into, best first: nothing named begins inside of them, or where it does, all of them begin behind the jump,
    /// in the filler.
    pub(super) fn windows(&self, is_entry: impl Fn(u64) -> bool) -> Vec<Window> {
        let mut ranked: Vec<(u32, Window)> =
            SHAPES.iter().filter_map(|(before, after)| self.window(*before, *after, &is_entry)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, window)| window).collect()
    }

    fn window(&self, before: usize, after: usize, is_entry: &impl Fn(u64) -> bool) -> Option<(u32, Window)> {
        let list = self.instructions;
        if before > self.index || self.index + after >= list.len() {
            return None;
        }
        let (from, mut to) = (self.index - before, self.index + after + 1);
        let movable = |at: usize, is_last| movable(&list[at], is_last, self.kind);
        let moves =
            (from..self.index).all(|at| movable(at, false)) && (self.index + 1..to).all(|at| movable(at, at + 1 == to));
        if self.kind == Special::Gs && moves && (after == 0 || movable(to - 1, false)) {
            to = self.with_others_behind(to, is_entry);
        }
        let (start, end) = (list[from].ip(), list[to - 1].next_ip());
        if !moves || ((end - start) as usize) < JUMP_BYTES || start < self.free_from {
            return None;
        }
        let inner = || list[from + 1..to].iter().map(Instruction::ip);
        let traps: Vec<u64> = inner().map(|at| at - start).filter(|offset| *offset < JUMP_BYTES as u64).collect();
        let named_in_jump = inner().any(|at| at - start < JUMP_BYTES as u64 && is_entry(at));
        let named = inner().any(is_entry);
        let is_costly = traps.iter().any(|offset| COSTLY.contains(offset));
        let rank = match (traps.is_empty(), named) {
            (true, false) => 0,
            (false, false) if is_costly => 2,
            (false, false) => 1,
            (_, true) => 3,
        };
        let possible = !named_in_jump && (self.kind == Special::Gs || !is_costly);
        possible.then_some((rank, Window { from, to, traps }))
    }

    /// A window's end, moved behind the last instruction like its own that can be taken along.
    fn with_others_behind(&self, end: usize, is_entry: &impl Fn(u64) -> bool) -> usize {
        let rest = self.instructions[end..].iter();
        let taken = rest.take_while(|one| movable(one, false, self.kind) && !is_entry(one.ip()));
        let last = taken.enumerate().filter(|(_, one)| special(one).is_some()).last();
        last.map_or(end, |(at, _)| end + at + 1)
    }
}

/// Whether an instruction may be moved into the sled, before or after the special one of this kind.
fn movable(instruction: &Instruction, is_last: bool, kind: Special) -> bool {
    let own = special(instruction);
    if instruction.is_invalid() || own.is_some_and(|own| own != Special::Gs || kind != Special::Gs) {
        return false;
    }
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::ConditionalBranch => true,
        FlowControl::UnconditionalBranch | FlowControl::Return => is_last,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn best(code: &[u8], named: &[u64]) -> Vec<(usize, usize)> {
        let instructions: Vec<Instruction> = Decoder::with_ip(64, code, 0x100, DecoderOptions::NONE).iter().collect();
        let index = instructions.iter().position(|one| special(one).is_some()).unwrap();
        let kind = special(&instructions[index]).unwrap();
        let around = Surroundings { instructions: &instructions, index, kind, free_from: 0 };
        around.windows(|at| named.contains(&at)).into_iter().map(|w| (w.from, w.to)).collect()
    }

    #[test]
    fn a_window_begins_with_an_instruction_as_long_as_the_jump_where_there_is_one() {
        // mov eax, 1; syscall; ret
        assert_eq!(best(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3], &[])[0], (0, 2));
        // cmp byte ptr [rip], 0; je +2; xor eax, eax; syscall; cmp rax, -4096
        let read = [0x80, 0x3d, 0, 0, 0, 0, 0, 0x74, 2, 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff];
        assert_eq!(best(&read, &[])[0], (0, 4));
        // The same when something jumps to what would be moved: then the call and what follows, whose bounds can be made traps.
        assert_eq!(best(&read, &[0x109])[0], (3, 5));
    }

    #[test]
    fn what_is_named_is_entered_by_traps_or_not_replaced() {
        // mov eax, 1; syscall; ret, with an entry at the call: its byte is a filler.
        assert_eq!(best(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3], &[0x105]), [(0, 2), (0, 3)]);
        // xor eax, eax; syscall; nop; ret, with entries at the call and behind it.
        assert_eq!(best(&[0x31, 0xc0, 0x0f, 0x05, 0x90, 0xc3], &[0x102, 0x104]), []);
    }
}
