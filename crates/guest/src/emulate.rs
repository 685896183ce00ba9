//! Instructions that would show the real processor, carried out as the simulated one answers them.
//!
//! Descriptor tables, the task register and the machine status word read as Linux shows them to programs on processors with UMIP
//! (`arch/x86/kernel/umip.c`); the processor's number is the simulated one's; segments are those that Linux gives every 64-bit process, and GS base
//! is the guest's own, whatever the processor's is.

use crate::cpu;
use crate::image::is_relative_to_gs;
use crate::memory::AddressSpace;
use crate::registers::{Registers, is_canonical};
use crate::spin::value_of;
use crate::vcpu::{FaultInfo, Vcpu};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

const GDT: (u16, u64) = (0, 0xffff_ffff_fffe_0000);
const IDT: (u16, u64) = (0, 0xffff_ffff_ffff_0000);
const TASK_REGISTER: u64 = 0x40;
/// PE, MP, ET, NE, WP, AM, PG.
const STATUS_WORD: u64 = 0x8005_0033;
const ZERO_FLAG: u64 = 0x40;
/// Selectors of programs' 32-bit code, data and 64-bit code, and of the segment whose limit is the number of the processor.
const FLAT_SEGMENTS: [u64; 3] = [0x23, 0x2b, 0x33];
const CPU_NUMBER_SEGMENT: u64 = 0x7b;
/// The bits of a selector that say at which privilege.
const PRIVILEGE: u64 = 3;

/// Why an instruction cannot be carried out.
enum Trouble {
    GeneralProtection { error_code: u64 },
    PageFault { address: u64, write: bool },
}

impl AddressSpace {
    /// Carries out the instruction of [`Exit::Emulate`](crate::Exit::Emulate). It must have been entered.
    ///
    /// # Errors
    /// The fault that the instruction causes; rip is then at it.
    pub fn emulate(&self, vcpu: &mut Vcpu) -> Result<(), FaultInfo> {
        let rip = vcpu.registers().rip;
        let Some((at, bytes)) = self.replaced_instruction(rip) else { return Ok(()) };
        let instruction = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        self.emulate_at(&instruction, vcpu)
    }

    /// Carries out an instruction; rip is left to the caller unless it faults.
    pub(crate) fn emulate_at(&self, instruction: &Instruction, vcpu: &mut Vcpu) -> Result<(), FaultInfo> {
        let processor = vcpu.processor().into();
        let registers = vcpu.registers_mut();
        let before = *registers;
        self.carry_out(instruction, registers, processor).map_err(|trouble| {
            *registers = Registers { rip: instruction.ip(), ..before };
            match trouble {
                Trouble::GeneralProtection { error_code } => {
                    FaultInfo { signal: libc::SIGSEGV, code: SI_KERNEL, address: 0, trap_number: 13, error_code }
                }
                Trouble::PageFault { address, write } => {
                    let error_code = 4 | u64::from(write) << 1;
                    FaultInfo { signal: libc::SIGSEGV, code: SEGV_MAPERR, address, trap_number: 14, error_code }
                }
            }
        })
    }

    fn carry_out(&self, instruction: &Instruction, registers: &mut Registers, processor: u64) -> Result<(), Trouble> {
        let operand = instruction.op0_register();
        match instruction.mnemonic() {
            Mnemonic::Cpuid => cpu::answer_cpuid(registers),
            Mnemonic::Xgetbv => cpu::xgetbv(registers),
            Mnemonic::Rdpid => set(registers, operand, processor),
            Mnemonic::Rdgsbase => set(registers, operand, registers.gs_base),
            Mnemonic::Wrgsbase => {
                let base = value_of(operand, registers).unwrap_or(0);
                if !is_canonical(base) {
                    return Err(Trouble::GeneralProtection { error_code: 0 });
                }
                registers.gs_base = base;
            }
            Mnemonic::Lsl => {
                let selector = self.read_operand(instruction, 1, registers)?;
                let limit = limit_of(selector, processor);
                registers.rflags = registers.rflags & !ZERO_FLAG | if limit.is_some() { ZERO_FLAG } else { 0 };
                if let Some(limit) = limit {
                    set(registers, operand, limit);
                }
            }
            Mnemonic::Sgdt => self.store_table(instruction, registers, GDT)?,
            Mnemonic::Sidt => self.store_table(instruction, registers, IDT)?,
            Mnemonic::Sldt => self.store_word(instruction, registers, 0)?,
            Mnemonic::Str => self.store_word(instruction, registers, TASK_REGISTER)?,
            Mnemonic::Smsw => self.store_word(instruction, registers, STATUS_WORD)?,
            Mnemonic::Mov if is_move_by_gs(instruction) => self.move_by_gs(instruction, registers)?,
            Mnemonic::Mov => {
                let selector = self.read_operand(instruction, 1, registers)?;
                load_segment(registers, operand, selector)?;
            }
            Mnemonic::Pop => {
                let selector = self.read_word(registers.rsp)?;
                load_segment(registers, operand, selector)?;
                // Eight bytes, or two with an operand-size prefix.
                registers.rsp = registers.rsp.wrapping_add(instruction.stack_pointer_increment() as i64 as u64);
            }
            Mnemonic::Lfs | Mnemonic::Lgs => self.load_far(instruction, registers)?,
            _ => {}
        }
        Ok(())
    }

    /// A move of four or eight bytes from or to memory, relative to the guest's GS base.
    fn move_by_gs(&self, instruction: &Instruction, registers: &mut Registers) -> Result<(), Trouble> {
        let size = instruction.memory_size().size();
        let mut bytes = [0u8; 8];
        if instruction.op0_kind() == OpKind::Register {
            let address = address_of(instruction, 1, registers);
            self.read(address, &mut bytes[..size]).map_err(|_| Trouble::PageFault { address, write: false })?;
            set(registers, instruction.op0_register(), u64::from_le_bytes(bytes));
            return Ok(());
        }
        let value = match instruction.op1_kind() {
            OpKind::Register => value_of(instruction.op1_register(), registers).unwrap_or(0),
            _ => instruction.immediate(1),
        };
        let address = address_of(instruction, 0, registers);
        bytes = value.to_le_bytes();
        self.write(address, &bytes[..size]).map_err(|_| Trouble::PageFault { address, write: true })
    }

    /// `lfs`, `lgs`: an offset and a selector behind it.
    fn load_far(&self, instruction: &Instruction, registers: &mut Registers) -> Result<(), Trouble> {
        let operand = instruction.op0_register();
        let address = address_of(instruction, 1, registers);
        let mut offset = [0u8; 8];
        let length = operand.size();
        self.read(address, &mut offset[..length]).map_err(|_| Trouble::PageFault { address, write: false })?;
        let selector = self.read_word(address.wrapping_add(length as u64))?;
        let segment = if instruction.mnemonic() == Mnemonic::Lfs { Register::FS } else { Register::GS };
        load_segment(registers, segment, selector)?;
        set(registers, operand, u64::from_le_bytes(offset));
        Ok(())
    }

    fn read_word(&self, address: u64) -> Result<u64, Trouble> {
        self.read_value::<u16>(address).map(u64::from).map_err(|_| Trouble::PageFault { address, write: false })
    }

    /// Sixteen bits of a register or of memory.
    fn read_operand(&self, instruction: &Instruction, index: u32, registers: &Registers) -> Result<u64, Trouble> {
        if instruction.op_kind(index) == OpKind::Register {
            return Ok(value_of(instruction.op_register(index), registers).unwrap_or(0) & 0xffff);
        }
        self.read_word(address_of(instruction, index, registers))
    }

    fn store_table(&self, instruction: &Instruction, registers: &Registers, table: (u16, u64)) -> Result<(), Trouble> {
        let address = address_of(instruction, 0, registers);
        let mut bytes = [0u8; 10];
        bytes[..2].copy_from_slice(&table.0.to_le_bytes());
        bytes[2..].copy_from_slice(&table.1.to_le_bytes());
        self.write(address, &bytes).map_err(|_| Trouble::PageFault { address, write: true })
    }

    fn store_word(&self, instruction: &Instruction, registers: &mut Registers, value: u64) -> Result<(), Trouble> {
        if instruction.op0_kind() == OpKind::Register {
            set(registers, instruction.op0_register(), value);
            return Ok(());
        }
        let address = address_of(instruction, 0, registers);
        self.write_value(address, &(value as u16)).map_err(|_| Trouble::PageFault { address, write: true })
    }
}

const SI_KERNEL: i32 = 0x80;
const SEGV_MAPERR: i32 = 1;

/// Whether an instruction is such a move as [`AddressSpace::emulate_at`] carries out.
pub(crate) fn is_move_by_gs(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && is_relative_to_gs(instruction)
        && matches!(instruction.memory_size().size(), 4 | 8)
        && !instruction.op0_register().is_segment_register()
        && !instruction.op1_register().is_segment_register()
}

fn address_of(instruction: &Instruction, index: u32, registers: &Registers) -> u64 {
    let value = |register| match register {
        Register::GS => Some(registers.gs_base),
        _ => value_of(register, registers),
    };
    instruction.virtual_address(index, 0, |register, _, _| value(register)).unwrap_or(0)
}

/// What `lsl` says on a processor of a selector that programs may use.
fn limit_of(selector: u64, processor: u64) -> Option<u64> {
    let flat = |known: &u64| *known & !PRIVILEGE == selector & !PRIVILEGE;
    if FLAT_SEGMENTS.iter().any(flat) { Some(0xffff_ffff) } else { flat(&CPU_NUMBER_SEGMENT).then_some(processor) }
}

/// Loads FS or GS, whose base becomes 0.
fn load_segment(registers: &mut Registers, segment: Register, selector: u64) -> Result<(), Trouble> {
    let is_null = selector & !PRIVILEGE == 0;
    if !is_null && !FLAT_SEGMENTS.contains(&(selector | PRIVILEGE)) && selector | PRIVILEGE != CPU_NUMBER_SEGMENT {
        return Err(Trouble::GeneralProtection { error_code: selector & !PRIVILEGE });
    }
    *(if segment == Register::FS { &mut registers.fs_base } else { &mut registers.gs_base }) = 0;
    Ok(())
}

/// Writes a general register: four bytes clear the upper half, two leave the rest.
fn set(registers: &mut Registers, register: Register, value: u64) {
    let size = register.size();
    let slot = registers.general_mut(register.number());
    *slot = match size {
        2 => *slot & !0xffff | value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_those_of_every_process() {
        assert_eq!(
            [0x33, 0x2b, 0x28, 0x7b].map(|selector| limit_of(selector, 3)),
            [Some(0xffff_ffff), Some(0xffff_ffff), Some(0xffff_ffff), Some(3)]
        );
        assert_eq!([0, 0x10, 0x40, 0x63, 0x1234].map(|selector| limit_of(selector, 0)), [None; 5]);
        let mut registers = Registers { fs_base: 7, gs_base: 8, ..Registers::default() };
        assert!(load_segment(&mut registers, Register::GS, 0x1234).is_err() && registers.gs_base == 8);
        assert!(load_segment(&mut registers, Register::GS, 0).is_ok() && registers.gs_base == 0);
        assert_eq!(registers.fs_base, 7);
        assert!(load_segment(&mut registers, Register::FS, 0x2b).is_ok() && registers.fs_base == 0);
    }

    #[test]
    fn registers_are_written_as_the_processor_does() {
        let mut registers = Registers { rbx: u64::MAX, r12: u64::MAX, rsi: u64::MAX, ..Registers::default() };
        set(&mut registers, Register::BX, 0);
        set(&mut registers, Register::R12D, 5);
        set(&mut registers, Register::RSI, 6);
        assert_eq!((registers.rbx, registers.r12, registers.rsi), (u64::MAX - 0xffff, 5, 6));
    }
}
