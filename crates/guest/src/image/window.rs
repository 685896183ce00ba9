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
/// What is to be said against a window, in rising order. The bytes of a jump's displacement can be traps where its stub is put accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Nothing.
    Plain,
    /// The stub has to lie within a certain 64 KiB.
    Near,
    /// Within certain megabytes.
    Apart,
    /// At a certain distance of a hundred megabytes or more.
    Far,
    /// Branches lead into it, by traps.
    Named,
}

/// A special instruction among its neighbours.
pub(super) struct Surroundings<'a> {
    pub(super) instructions: &'a [Instruction],
    pub(super) index: usize,
    pub(super) kind: Special,
    /// What lies before the one and behind the other has been replaced already.
    pub(super) free: (u64, u64),
}

/// Instructions [from, to) of the surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Offsets in the jump's bytes at which an instruction began: they must be traps.
    pub(super) traps: Vec<u64>,
    /// How much is to be said against it.
    pub(super) rank: Rank,
}

impl Surroundings<'_> {
    /// Windows that a jump fits into, best first: nothing named begins inside of them, or where it does, all of them begin behind the jump,
    /// in the filler.
    pub(super) fn windows(&self, is_entry: impl Fn(u64) -> bool) -> Vec<Window> {
        let mut windows: Vec<Window> =
            SHAPES.iter().filter_map(|(before, after)| self.window(*before, *after, &is_entry)).collect();
        windows.sort_by_key(|window| window.rank);
        windows
    }

    fn window(&self, before: usize, after: usize, is_entry: &impl Fn(u64) -> bool) -> Option<Window> {
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
        if !moves || ((end - start) as usize) < JUMP_BYTES || start < self.free.0 || end > self.free.1 {
            return None;
        }
        let inner = || list[from + 1..to].iter().map(Instruction::ip);
        let traps: Vec<u64> = inner().map(|at| at - start).filter(|offset| *offset < JUMP_BYTES as u64).collect();
        let named_in_jump = inner().any(|at| at - start < JUMP_BYTES as u64 && is_entry(at));
        let named = inner().any(is_entry);
        let rank = match traps.last() {
            _ if named => Rank::Named,
            None => Rank::Plain,
            Some(0..=2) => Rank::Near,
            Some(3) => Rank::Apart,
            Some(_) => Rank::Far,
        };
        // Only accesses relative to GS, which loops are full of, are worth a stub a hundred megabytes away.
        let possible = !named_in_jump && (self.kind == Special::Gs || traps.last().is_none_or(|last| *last <= 3));
        possible.then_some(Window { from, to, traps, rank })
    }

    /// A window's end, moved behind the last instruction like its own that can be taken along.
    fn with_others_behind(&self, end: usize, is_entry: &impl Fn(u64) -> bool) -> usize {
        let rest = self.instructions[end..].iter();
        let is_free = |one: &&Instruction| one.next_ip() <= self.free.1 && !is_entry(one.ip());
        let taken = rest.take_while(|one| movable(one, false, self.kind)).take_while(is_free);
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
        let around = Surroundings { instructions: &instructions, index, kind, free: (0, u64::MAX) };
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
    fn accesses_relative_to_gs_go_together() {
        // mov gs:[rsi], edi; cmp r8d, edi; mov eax, gs:[rdi]; je +2; mov [rax], ecx; ret
        let loop_head = [0x65, 0x89, 0x3e, 0x41, 0x39, 0xf8, 0x65, 0x8b, 0x07, 0x74, 2, 0x89, 0x08, 0xc3];
        assert_eq!(best(&loop_head, &[0x100])[0], (0, 3));
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, &loop_head, 0x100, DecoderOptions::NONE).iter().collect();
        let around = Surroundings { instructions: &instructions, index: 0, kind: Special::Gs, free: (0x100, 0x109) };
        let windows = around.windows(|_| false);
        assert_eq!((windows[0].rank, &windows[0].traps[..]), (Rank::Apart, &[3][..]));
        assert!(windows.iter().all(|window| window.to <= 3));
        // Not over an entry, and not with instructions of other kinds.
        assert_eq!(best(&loop_head, &[0x100, 0x106])[0], (0, 2));
        assert_eq!(best(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x65, 0x89, 0x3e], &[]), [(0, 2)]);
    }

    #[test]
    fn what_is_named_is_entered_by_traps_or_not_replaced() {
        // mov eax, 1; syscall; ret, with an entry at the call: its byte is a filler.
        assert_eq!(best(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3], &[0x105]), [(0, 2), (0, 3)]);
        // add esi, 1; mov eax, edi; mov ecx, esi; cpuid; mov edx, eax, round which a loop goes: what begins in the jump is made a trap.
        let round = [0x83, 0xc6, 1, 0x89, 0xf8, 0x89, 0xf1, 0x0f, 0xa2, 0x89, 0xc2];
        assert_eq!(best(&round, &[0x100])[0], (0, 4));
        // xor eax, eax; syscall; nop; ret, with entries at the call and behind it.
        assert_eq!(best(&[0x31, 0xc0, 0x0f, 0x05, 0x90, 0xc3], &[0x102, 0x104]), []);
    }
}
