//! What whoever executes a guest instruction by instruction ([`Vcpu::step`](crate::Vcpu::step)) has to know of each of them.

use crate::memory::AddressSpace;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

/// The longest instruction, Intel SDM volume 2, 2.3.11.
pub(crate) const INSTRUCTION_BYTES: usize = 15;

/// An instruction by what it does to the stack of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Plain,
    /// It calls, and is so many bytes long: the return address lies behind it.
    Call(u8),
    Return,
    /// It stores the flags, with the one by which it is executed alone ([`Vcpu::TRAP_FLAG`](crate::Vcpu::TRAP_FLAG)).
    PushFlags,
}

impl StepKind {
    fn of(code: &[u8], address: u64) -> StepKind {
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall if instruction.mnemonic() == Mnemonic::Call => {
                StepKind::Call(instruction.len() as u8)
            }
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => StepKind::Return,
            _ if matches!(instruction.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfq) => StepKind::PushFlags,
            _ => StepKind::Plain,
        }
    }
}

impl AddressSpace {
    /// What is executed at an address. The address space must have been entered.
    pub fn step_kind(&self, address: u64) -> StepKind {
        let mut code = [0; INSTRUCTION_BYTES];
        let readable = self.read_partial(address, &mut code);
        StepKind::of(&code[..readable], address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_returns_and_stores_of_flags_are_told_apart() {
        for (code, kind) in [
            (&[0xe8, 0, 0, 0, 0][..], StepKind::Call(5)),
            (&[0xff, 0xd0], StepKind::Call(2)),
            (&[0xc3], StepKind::Return),
            (&[0xf3, 0xc3], StepKind::Return),
            (&[0xc2, 8, 0], StepKind::Return),
            (&[0x9c], StepKind::PushFlags),
            (&[0x66, 0x9c], StepKind::PushFlags),
            (&[0x0f, 0x05], StepKind::Plain),
            (&[0xff, 0xe0], StepKind::Plain),
            (&[0x90], StepKind::Plain),
            (&[], StepKind::Plain),
        ] {
            assert_eq!(StepKind::of(code, 0x1000), kind, "{code:02x?}");
        }
    }
}
