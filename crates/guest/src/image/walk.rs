//! The instructions of a function, one after the other. Most functions have none to replace, and finding that out keeps no instruction.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// How many branches are remembered with their targets.
const BRANCHES: usize = 8;

/// Decodes a function from its first byte on.
pub(super) struct Walk<'a> {
    decoder: Decoder<'a>,
    start: u64,
    /// The last instruction, decoded in place: copying what was just written in small pieces takes longer than decoding it.
    instruction: Instruction,
    /// Behind a jump or a return may lie data, up to where code before it has jumped.
    is_reached: bool,
    latest: Latest,
}

impl<'a> Walk<'a> {
    /// Through `code`, which lies at an address.
    pub(super) fn through(code: &'a [u8], start: u64) -> Walk<'a> {
        let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        Walk { decoder, start, instruction: Instruction::default(), is_reached: true, latest: Latest::default() }
    }

    /// The next instruction.
    pub(super) fn next(&mut self) -> Option<&Instruction> {
        while self.decoder.can_decode() {
            self.decoder.decode_out(&mut self.instruction);
            if self.is_reached || !self.turns_aside() {
                let leaves =
                    matches!(self.instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::Return);
                self.is_reached &= !leaves;
                if self.instruction.op0_kind() == OpKind::NearBranch64 {
                    self.latest.add(self.instruction.near_branch64());
                }
                return Some(&self.instruction);
            }
        }
        None
    }

    /// The next instruction that does not end before an address.
    pub(super) fn reach(&mut self, address: u64) -> Option<&Instruction> {
        while self.next()?.next_ip() <= address {}
        Some(&self.instruction)
    }

    /// What all branches from here on lead to, sorted.
    pub(super) fn targets(mut self) -> Vec<u64> {
        let mut targets = Vec::new();
        while let Some(instruction) = self.next() {
            if instruction.op0_kind() == OpKind::NearBranch64 {
                targets.push(instruction.near_branch64());
            }
        }
        targets.sort_unstable();
        targets
    }

    /// Whether the last instruction is data, since a remembered branch leads into its middle. Decoding then goes on there.
    fn turns_aside(&mut self) -> bool {
        let (from, to) = (self.instruction.ip(), self.instruction.next_ip());
        self.is_reached = self.latest.leads_to(from);
        let inside = if self.is_reached { None } else { self.latest.first_in(from + 1, to) };
        let target = inside.filter(|target| self.decoder.set_position((target - self.start) as usize).is_ok());
        if let Some(target) = target {
            self.decoder.set_ip(target);
        }
        target.is_some()
    }
}

/// The targets of the last branches.
struct Latest {
    targets: [u64; BRANCHES],
    /// How many branches there were.
    count: usize,
}

impl Default for Latest {
    fn default() -> Latest {
        // No instruction lies there.
        Latest { targets: [u64::MAX; BRANCHES], count: 0 }
    }
}

impl Latest {
    fn add(&mut self, target: u64) {
        self.targets[self.count % BRANCHES] = target;
        self.count += 1;
    }

    fn leads_to(&self, address: u64) -> bool {
        self.targets.contains(&address)
    }

    /// The first place in [from, to) that one of them led to.
    fn first_in(&self, from: u64, to: u64) -> Option<u64> {
        self.targets.iter().filter(|target| (from..to).contains(target)).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(code: &[u8]) -> Vec<u64> {
        let mut walk = Walk::through(code, 0x100);
        std::iter::from_fn(|| walk.next().map(Instruction::ip)).collect()
    }

    #[test]
    fn behind_a_jump_instructions_begin_where_branches_lead() {
        // je 0x107; ret; two bytes of data that would swallow what follows; xor eax, eax; ret
        let code = [0x74, 5, 0xc3, 0x48, 0xb8, 0, 0, 0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90];
        assert_eq!(starts(&code)[..4], [0x100, 0x102, 0x107, 0x109]);
        // The same without the branch: one instruction after the other.
        let code = [&[0x90, 0x90][..], &code[2..]].concat();
        assert_eq!(starts(&code)[..5], [0x100, 0x101, 0x102, 0x103, 0x10d]);
    }

    #[test]
    fn a_walk_ends_at_the_instruction_around_an_address() {
        // nop; call 0x10a; nop
        let code = [0x90, 0xe8, 4, 0, 0, 0, 0x90];
        let mut walk = Walk::through(&code, 0x100);
        assert_eq!(walk.reach(0x103).map(Instruction::ip), Some(0x101));
        assert_eq!(walk.reach(0x106).map(Instruction::ip), Some(0x106));
        assert_eq!(walk.reach(0x107), None);
        assert_eq!(Walk::through(&code, 0x100).targets(), [0x10a]);
    }
}
