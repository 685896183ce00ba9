//! GS as the guest's own: its base is a field of the vcpu, since that of the processor is the simulator's.
//!
//! In the sled an access relative to GS is made by a register that the instruction does not use: it is saved in the worker's state, loaded
//! with the guest's base, and brought back. Neither flags nor memory of the guest are touched, and nothing leaves the guest. A load into a
//! whole register uses that register. `wrgsbase` is a store into the vcpu, made the same way.
//!
//! Where a fault or a timer ends this in the middle, the guest has either not begun the instruction or finished it
//! ([`GsAccess::settle`]).

use crate::registers::Registers;
use crate::switch;
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind, Register, UsedRegister,
};

/// Registers that can stand in, in the order of preference: the first ones fit beside a register like AH.
const STAND_INS: [Register; 14] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
];

/// What does the work of an instruction.
pub(super) struct Expansion {
    pub(super) list: Vec<Instruction>,
    /// Which of them has the instruction's effect.
    operation: usize,
    /// What holds something else from the first one's end on.
    stand_in: Register,
}

/// Where the sled has an instruction that uses GS, relative to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GsAccess {
    pub(crate) start: u64,
    /// What has the instruction's effect: its beginning.
    operation: u64,
    pub(crate) end: u64,
    /// The number of the register that stands in.
    stand_in: u8,
}

impl GsAccess {
    /// Leads registers out of the middle: to the beginning while nothing has happened, to the end afterwards. `rip` is relative to the
    /// image, and so is the result; `saved` is what the stand-in held.
    pub(crate) fn settle(&self, rip: u64, saved: u64, registers: &mut Registers) -> u64 {
        if rip == self.start {
            return rip;
        }
        *registers.general_mut(self.stand_in.into()) = saved;
        if rip <= self.operation { self.start } else { self.end }
    }
}

impl Expansion {
    /// With the places of its parts, the last of which is what follows it.
    pub(super) fn lies_at(&self, places: &[u64]) -> GsAccess {
        GsAccess {
            start: places[0],
            operation: places[self.operation],
            end: places[self.list.len()],
            stand_in: self.stand_in.number() as u8,
        }
    }
}

/// Whether an instruction accesses memory by GS base.
pub(crate) fn is_relative_to_gs(instruction: &Instruction) -> bool {
    instruction.segment_prefix() == Register::GS && instruction.op_kinds().any(is_memory)
}

fn is_memory(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(kind, Memory | MemorySegSI | MemorySegESI | MemorySegRSI | MemorySegDI | MemorySegEDI | MemorySegRDI)
}

/// Whether [`expand`] can do an access relative to GS: those of the instructions that name their address in full, in registers of 64 bits.
pub(super) fn is_expandable(instruction: &Instruction) -> bool {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let whole = |register: Register| register == Register::None || register.is_gpr64();
    let memory = instruction.op_kinds().filter(|kind| is_memory(*kind));
    memory.eq([OpKind::Memory])
        && instruction.flow_control() == FlowControl::Next
        && !instruction.is_privileged()
        && !instruction.is_vsib()
        && whole(base)
        && whole(index)
        && (base != Register::None || index != Register::None || instruction.memory_displ_size() == 8)
        && !is_absolute_move(instruction)
        && stand_in(instruction).is_some()
}

/// `movabs`, whose address has no room for a register.
fn is_absolute_move(instruction: &Instruction) -> bool {
    use Code::*;
    let loads = [Mov_AL_moffs8, Mov_AX_moffs16, Mov_EAX_moffs32, Mov_RAX_moffs64];
    let stores = [Mov_moffs8_AL, Mov_moffs16_AX, Mov_moffs32_EAX, Mov_moffs64_RAX];
    loads.contains(&instruction.code()) || stores.contains(&instruction.code())
}

/// A register for the base, and whether it need not be brought back, since the instruction writes all of it.
fn stand_in(instruction: &Instruction) -> Option<(Register, bool)> {
    use Mnemonic::{Mov, Movsx, Movsxd, Movzx};
    let target = instruction.op0_register();
    let whole = target.full_register();
    let in_address = [instruction.memory_base(), instruction.memory_index()].contains(&whole);
    let is_load = matches!(instruction.mnemonic(), Mov | Movzx | Movsx | Movsxd)
        && instruction.op0_kind() == OpKind::Register
        && (target.is_gpr32() || target.is_gpr64());
    if is_load && !in_address && whole != Register::RSP {
        return Some((whole, true));
    }
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers();
    let is_free =
        |register: &Register| !used.iter().map(UsedRegister::register).any(|r| r.full_register() == *register);
    Some((STAND_INS.into_iter().find(is_free)?, false))
}

fn simulators(offset: u32) -> MemoryOperand {
    MemoryOperand::new(Register::None, Register::None, 1, offset.into(), 8, false, Register::GS)
}

fn store(memory: MemoryOperand, register: Register) -> Option<Instruction> {
    Instruction::with2(Code::Mov_rm64_r64, memory, register).ok()
}

fn load(register: Register, memory: MemoryOperand) -> Option<Instruction> {
    Instruction::with2(Code::Mov_r64_rm64, register, memory).ok()
}

/// What does the work of an instruction that accesses memory relative to GS, or of `wrgsbase`.
pub(super) fn expand(instruction: &Instruction) -> Option<Expansion> {
    let (stand_in, is_overwritten) = stand_in(instruction)?;
    let guests_base = MemoryOperand::with_base_displ(stand_in, switch::VCPU_GS_BASE.into());
    let saved = simulators(switch::GS_SCRATCH_GS);
    let mut list = vec![store(saved, stand_in)?, load(stand_in, simulators(switch::GS_VCPU))?];
    if instruction.mnemonic() == Mnemonic::Wrgsbase {
        list.push(store(guests_base, instruction.op0_register())?);
    } else {
        list.push(load(stand_in, guests_base)?);
        let mut access = *instruction;
        access.set_ip(0);
        access.set_segment_prefix(Register::None);
        match (access.memory_base(), access.memory_index()) {
            (Register::None, _) => access.set_memory_base(stand_in),
            (_, Register::None) => {
                access.set_memory_index(stand_in);
                access.set_memory_index_scale(1);
            }
            (base, _) => {
                let sum = MemoryOperand::with_base_index(base, stand_in);
                list.push(Instruction::with2(Code::Lea_r64_m, stand_in, sum).ok()?);
                access.set_memory_base(stand_in);
            }
        }
        list.push(access);
    }
    let operation = list.len() - 1;
    if !is_overwritten {
        list.push(load(stand_in, saved)?);
    }
    // What jumps to the instruction comes here.
    list[0].set_ip(instruction.ip());
    Some(Expansion { list, operation, stand_in })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decode(code: &[u8]) -> Instruction {
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode()
    }

    /// The registers of the operation's address, its scale, the stand-in, and of how many instructions the whole consists.
    fn expanded(code: &[u8]) -> (Register, Register, u32, Register, usize) {
        let instruction = decode(code);
        assert!(is_relative_to_gs(&instruction) && is_expandable(&instruction));
        let expansion = expand(&instruction).unwrap();
        let operation = &expansion.list[expansion.operation];
        let (base, index) = (operation.memory_base(), operation.memory_index());
        assert_eq!(operation.segment_prefix(), Register::None);
        assert_eq!(operation.memory_displacement64(), instruction.memory_displacement64());
        (base, index, operation.memory_index_scale(), expansion.stand_in, expansion.list.len())
    }

    #[test]
    fn the_guests_base_takes_the_free_place_in_an_address() {
        use Register::*;
        // mov eax, gs:[rdi + 8]
        assert_eq!(expanded(&[0x65, 0x8b, 0x47, 8]), (RDI, RAX, 1, RAX, 4));
        // mov r9d, gs:[r9]
        assert_eq!(expanded(&[0x65, 0x45, 0x8b, 0x09]), (R9, RAX, 1, RAX, 5));
        // mov gs:[rax], ch
        assert_eq!(expanded(&[0x65, 0x88, 0x28]), (RAX, RDX, 1, RDX, 5));
        // mov gs:[0x28], rax
        assert_eq!(expanded(&[0x65, 0x48, 0x89, 0x04, 0x25, 0x28, 0, 0, 0]), (RCX, None, 1, RCX, 5));
        // mov ecx, gs:[rcx*4 + 0x4d840]
        assert_eq!(expanded(&[0x65, 0x8b, 0x0c, 0x8d, 0x40, 0xd8, 4, 0]), (RAX, RCX, 4, RAX, 5));
        // mov edx, gs:[rax + rcx*2 + 1]
        assert_eq!(expanded(&[0x65, 0x8b, 0x54, 0x48, 1]), (RDX, RCX, 2, RDX, 5));
        // mov ax, gs:[rdi] leaves the rest of rax.
        assert_eq!(expanded(&[0x65, 0x66, 0x8b, 0x07]), (RDI, RCX, 1, RCX, 5));
        // push gs:[rsp + 8]
        assert_eq!(expanded(&[0x65, 0xff, 0x74, 0x24, 8]), (RSP, RAX, 1, RAX, 5));
    }

    #[test]
    fn what_has_no_such_place_is_left() {
        for (code, name) in [
            (&[0x65, 0xff, 0x20][..], "jmp gs:[rax]"),
            (&[0x65, 0xff, 0x10], "call gs:[rax]"),
            (&[0x65, 0xa4], "movsb"),
            (&[0x65, 0xd7], "xlatb"),
            (&[0x65, 0x67, 0x8b, 0x07], "mov eax, gs:[edi]"),
            (&[0x65, 0x67, 0x8b, 0x04, 0x25, 0, 0, 0, 0], "mov eax, gs:[0], by 32 bits"),
            (&[0x65, 0x8b, 0x05, 0, 0, 0, 0], "mov eax, gs:[rip]"),
            (&[0x65, 0x48, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0], "movabs rax, gs:[0]"),
            (&[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x80], "vpgatherdd ymm0, [rax + ymm0*4], ymm1"),
        ] {
            assert!(!is_expandable(&decode(code)), "{name}");
        }
    }

    #[test]
    fn an_access_that_was_broken_off_has_happened_or_not() {
        let expansion = expand(&decode(&[0x65, 0x89, 0x07])).unwrap();
        let access = expansion.lies_at(&[10, 19, 28, 32, 36, 45]);
        assert_eq!((access.start, access.operation, access.end, access.stand_in), (10, 32, 45, 1));
        let settled = |rip| {
            let mut registers = Registers { rcx: 5, ..Registers::default() };
            (access.settle(rip, 7, &mut registers), registers.rcx)
        };
        assert_eq!([10, 19, 28, 32, 36].map(settled), [(10, 5), (10, 7), (10, 7), (10, 7), (45, 7)]);
    }
}
