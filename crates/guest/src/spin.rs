//! Proof that a guest waits in a loop that only something outside can end.
//!
//! The guest executes instruction by instruction, and a decoder says what each one reads and writes. When the whole state of the
//! thread repeats at the same place (general registers, flags, extended state, and the contents of all memory written in between), it will
//! repeat for ever, unless another thread or a signal changes something. The thread is then left at one certain state of its
//! circle, the smallest in an order of states, so that the result does not depend on when it was interrupted. Everything that the circle
//! reads is remembered: as long as it has not changed, there is no need to execute the loop again.
//!
//! Whatever the decoder does not vouch for makes the answer `Unknown`, never a wrong proof.

use crate::memory::AddressSpace;
use crate::preempt::Stopwatch;
use crate::registers::{Registers, SIGNAL_XSAVE_BYTES};
use crate::stepping::INSTRUCTION_BYTES;
use crate::vcpu::{Exit, Vcpu};
use crate::worker::Worker;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// After so many steps it is looked at how much time they took.
const TIMED_STEPS: u32 = 32;
/// Circles of up to this many steps are found at once where the guest is in one.
const FIRST_POWER: u32 = 64;

/// A loop without end, with what could end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spin {
    /// What the loop reads and writes, its code included, by address.
    watched: Vec<(u64, Box<[u8]>)>,
    /// Some of it is shared with other processes.
    pub shared: bool,
    /// Its length in instructions.
    pub period: u32,
}

impl Spin {
    /// Whether nothing has changed that the loop depends on. The address space must have been entered.
    pub fn goes_on(&self, space: &AddressSpace) -> bool {
        let mut buffer = [0u8; 256];
        self.watched.iter().all(|(start, contents)| {
            let mut at = *start;
            contents.chunks(buffer.len()).all(|chunk| {
                let now = &mut buffer[..chunk.len()];
                let same = space.read(at, now).is_ok() && now == chunk;
                at += chunk.len() as u64;
                same
            })
        })
    }
}

/// What an attempt may cost before it has found a circle. Virtual machines can take six times as long for a step as others.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub steps: u32,
    /// Of the thread's processor time.
    pub time: Duration,
}

/// What the attempt has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Spins(Spin),
    /// It may end by itself.
    Unknown,
    /// It needs the simulated kernel.
    Left(Exit),
}

/// Executes the guest step by step to find out whether it is in a loop that nothing inside it ends. Its address space must have been entered.
pub fn prove_spin(vcpu: &mut Vcpu, worker: &mut Worker, space: &AddressSpace, effort: Effort) -> Proof {
    let mut walk = Walk {
        vcpu,
        worker,
        space,
        info: InstructionInfoFactory::new(),
        steps_left: effort.steps,
        overwritten: BTreeMap::new(),
    };
    let proof = walk.prove(effort.time);
    space.settle(vcpu, worker);
    match proof {
        Ok(spin) => Proof::Spins(spin),
        Err(Stop::Unknown) => Proof::Unknown,
        Err(Stop::Left(exit)) => Proof::Left(exit),
    }
}

/// Why a walk ends without a proof.
enum Stop {
    Unknown,
    Left(Exit),
}

/// A thread's whole state but memory.
#[derive(Clone, PartialEq, Eq)]
struct State {
    registers: Registers,
    extended: [u8; SIGNAL_XSAVE_BYTES],
}

/// A range of memory, and whether it is written.
#[derive(Clone, Copy)]
struct Access {
    start: u64,
    bytes: usize,
    writes: bool,
}

struct Walk<'a> {
    vcpu: &'a mut Vcpu,
    worker: &'a mut Worker,
    space: &'a AddressSpace,
    info: InstructionInfoFactory,
    steps_left: u32,
    /// What bytes held that were written since the last anchor.
    overwritten: BTreeMap<u64, u8>,
}

impl Walk<'_> {
    fn prove(&mut self, time: Duration) -> Result<Spin, Stop> {
        let (anchor, period) = self.find_circle(time)?;
        self.steps_left = self.steps_left.saturating_add(2 * period);
        let watched = self.go_round(&anchor, period)?;
        self.watch(watched, period)
    }

    /// Brent's algorithm: a state that comes again, and after how many steps.
    fn find_circle(&mut self, time: Duration) -> Result<(State, u32), Stop> {
        let stopwatch = Stopwatch::start();
        let mut anchor = self.state()?;
        let (mut power, mut steps) = (FIRST_POWER, 0);
        loop {
            self.step(&mut |_| {})?;
            steps += 1;
            if *self.vcpu.registers() == anchor.registers && self.state()? == anchor && self.is_unwritten() {
                return Ok((anchor, steps));
            }
            if self.steps_left.is_multiple_of(TIMED_STEPS) && stopwatch.read() > time {
                return Err(Stop::Unknown);
            }
            if steps == power {
                (anchor, power, steps) = (self.state()?, power.saturating_mul(2), 0);
                self.overwritten.clear();
            }
        }
    }

    /// Goes once round the circle, and on to its smallest state. What the circle touches.
    fn go_round(&mut self, anchor: &State, period: u32) -> Result<Vec<(u64, u64)>, Stop> {
        let written = ranges(self.overwritten.keys().map(|at| (*at, at + 1)).collect());
        let mut touched = Vec::new();
        let mut smallest = (self.state()?, self.contents(&written)?);
        for _ in 0..period {
            self.step(&mut |access| touched.push((access.start, access.start + access.bytes as u64)))?;
            if self.vcpu.registers().order(&smallest.0.registers) != Ordering::Greater {
                let now = (self.state()?, self.contents(&written)?);
                if order(&now, &smallest) == Ordering::Less {
                    smallest = now;
                }
            }
        }
        if self.state()? != *anchor {
            return Err(Stop::Unknown);
        }
        for _ in 0..period {
            let here = *self.vcpu.registers() == smallest.0.registers;
            if here && self.state()? == smallest.0 && self.contents(&written)? == smallest.1 {
                return Ok(ranges(touched));
            }
            self.step(&mut |_| {})?;
        }
        Err(Stop::Unknown)
    }

    fn watch(&mut self, touched: Vec<(u64, u64)>, period: u32) -> Result<Spin, Stop> {
        let contents = |&(start, end): &(u64, u64)| {
            let mut bytes = vec![0; (end - start) as usize].into_boxed_slice();
            self.space.read(start, &mut bytes).map_err(|_| Stop::Unknown)?;
            Ok((start, bytes))
        };
        let shared = touched
            .iter()
            .any(|(start, end)| [*start, end - 1].iter().any(|at| self.space.shared_identity(*at).is_some()));
        Ok(Spin { watched: touched.iter().map(contents).collect::<Result<_, Stop>>()?, shared, period })
    }

    fn state(&self) -> Result<State, Stop> {
        if self.vcpu.uses_avx512() {
            return Err(Stop::Unknown);
        }
        Ok(State { registers: *self.vcpu.registers(), extended: self.vcpu.extended_state() })
    }

    fn contents(&self, ranges: &[(u64, u64)]) -> Result<Vec<u8>, Stop> {
        let mut all = Vec::new();
        for (start, end) in ranges {
            let from = all.len();
            all.resize(from + (end - start) as usize, 0);
            self.space.read(*start, &mut all[from..]).map_err(|_| Stop::Unknown)?;
        }
        Ok(all)
    }

    /// Whether memory is as it was at the anchor.
    fn is_unwritten(&self) -> bool {
        self.overwritten.iter().all(|(at, old)| self.space.read_value::<u8>(*at) == Ok(*old))
    }

    /// Executes one instruction; tells before what it touches.
    fn step(&mut self, touch: &mut dyn FnMut(Access)) -> Result<(), Stop> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Stop::Unknown)?;
        let registers = *self.vcpu.registers();
        let mut code = [0; INSTRUCTION_BYTES];
        let readable = self.space.read_partial(registers.rip, &mut code);
        let instruction = Decoder::with_ip(64, &code[..readable], registers.rip, DecoderOptions::NONE).decode();
        if !is_understood(&instruction) {
            return Err(Stop::Unknown);
        }
        touch(Access { start: registers.rip, bytes: instruction.len(), writes: false });
        let element = if instruction.is_string_instruction() { instruction.memory_size().size() } else { 0 };
        for memory in self.info.info(&instruction).used_memory() {
            let Some(access) = access_of(memory, element, &registers)? else { continue };
            if access.writes {
                let mut old = vec![0; access.bytes];
                self.space.read(access.start, &mut old).map_err(|_| Stop::Unknown)?;
                for (at, byte) in (access.start..).zip(old) {
                    self.overwritten.entry(at).or_insert(byte);
                }
            }
            touch(access);
        }
        match self.vcpu.step(self.worker) {
            None => Ok(()),
            Some(exit) => Err(Stop::Left(exit)),
        }
    }
}

/// What an instruction touches by one of its accesses; None for one that it does not make. A repeated string instruction, which the
/// decoder knows no size of, does one element in a step.
fn access_of(memory: &UsedMemory, element: usize, registers: &Registers) -> Result<Option<Access>, Stop> {
    let writes = match memory.access() {
        OpAccess::None | OpAccess::NoMemAccess => return Ok(None),
        OpAccess::Read | OpAccess::CondRead => false,
        _ => true,
    };
    let bytes = match memory.memory_size().size() {
        0 => element,
        bytes => bytes,
    };
    let start = memory.virtual_address(0, |register, _, _| value_of(register, registers));
    match start {
        Some(start) if bytes > 0 => Ok(Some(Access { start, bytes, writes })),
        _ => Err(Stop::Unknown),
    }
}

/// A register as part of an address, or a segment's base. The processor's GS base belongs to the simulator.
pub(crate) fn value_of(register: Register, r: &Registers) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::FS => r.fs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(if register.size() == 4 { full & 0xffff_ffff } else { full })
}

/// Whether an instruction does nothing beyond what the decoder says of it, and the same when it is executed alone: the trap flag is
/// visible to some, others read clocks or random numbers, or lead out of the guest.
fn is_understood(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    let flow = matches!(
        instruction.flow_control(),
        FlowControl::Next
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Return
            | FlowControl::Call
            | FlowControl::IndirectCall
    );
    let strange = matches!(
        instruction.mnemonic(),
        Pushf
            | Pushfd
            | Pushfq
            | Popf
            | Popfd
            | Popfq
            | Syscall
            | Sysenter
            | Cpuid
            | Xgetbv
            | Rdtsc
            | Rdtscp
            | Rdrand
            | Rdseed
            | Rdpid
            | Rdpmc
            | Rdpru
            | Wrfsbase
            | Wrgsbase
            | Rdgsbase
            | Lsl
            | Sgdt
            | Sidt
            | Sldt
            | Str
            | Smsw
            | Xtest
            | Umwait
            | Tpause
            | Umonitor
            | Monitor
            | Mwait
            | Xend
            | Xabort
            | Xbegin
            | Enter
    );
    // With a register for the bit's number, these reach beyond their operand.
    let far_bit = matches!(instruction.mnemonic(), Bt | Bts | Btr | Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register;
    let loads_segment = matches!(instruction.mnemonic(), Lfs | Lgs | Lss)
        || instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().is_segment_register();
    !instruction.is_invalid()
        && flow
        && !strange
        && !far_bit
        && !loads_segment
        && !instruction.is_vsib()
        && !instruction.is_privileged()
        && !instruction.is_save_restore_instruction()
}

/// The order of a circle's states: by registers, then extended state, then what memory holds that the circle writes.
fn order(a: &(State, Vec<u8>), b: &(State, Vec<u8>)) -> Ordering {
    let registers = a.0.registers.order(&b.0.registers);
    registers.then_with(|| a.0.extended.cmp(&b.0.extended)).then_with(|| a.1.cmp(&b.1))
}

/// Joins ranges that touch each other.
fn ranges(mut list: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    list.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in list {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_touch() {
        assert_eq!(ranges(vec![(8, 16), (0, 4), (4, 8), (20, 24), (21, 22)]), [(0, 16), (20, 24)]);
        assert_eq!(ranges(Vec::new()), []);
    }

    #[test]
    fn what_would_betray_or_escape_the_steps_is_not_understood() {
        let understood = |code: &[u8]| is_understood(&Decoder::new(64, code, DecoderOptions::NONE).decode());
        assert!(understood(&[0xf3, 0x90]), "pause");
        assert!(understood(&[0xeb, 0xfe]), "jmp to itself");
        assert!(understood(&[0xf0, 0x0f, 0xb1, 0x0f]), "lock cmpxchg [rdi], ecx");
        assert!(understood(&[0xc3]) && understood(&[0xff, 0xd0]), "ret, call rax");
        for (code, name) in [
            (&[0x9c][..], "pushfq"),
            (&[0x9d], "popfq"),
            (&[0x0f, 0x05], "syscall"),
            (&[0x0f, 0x31], "rdtsc"),
            (&[0x0f, 0xa2], "cpuid"),
            (&[0xcc], "int3"),
            (&[0xcd, 0x80], "int 0x80"),
            (&[0xf4], "hlt"),
            (&[0x0f, 0xab, 0x07], "bts [rdi], eax"),
            (&[0x8e, 0xd0], "mov ss, eax"),
            (&[0x0f, 0xae, 0x07], "fxsave [rdi]"),
            (&[0xff], "nothing"),
        ] {
            assert!(!understood(code), "{name}");
        }
    }

    #[test]
    fn addresses_are_worked_out_as_the_processor_does() {
        let r = Registers { rax: 0x1_0000_0010, rbx: 0x20, fs_base: 0x7000, ..Registers::default() };
        let accesses = |code: &[u8]| -> Vec<(u64, usize, bool)> {
            let instruction = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode();
            let mut factory = InstructionInfoFactory::new();
            let list = factory.info(&instruction).used_memory().to_vec();
            let access = |memory: &UsedMemory| access_of(memory, 0, &r).ok().flatten();
            list.iter().filter_map(access).map(|a| (a.start, a.bytes, a.writes)).collect()
        };
        assert_eq!(accesses(&[0x8b, 0x05, 0x10, 0, 0, 0]), [(0x1016, 4, false)], "mov eax, [rip + 0x10]");
        assert_eq!(accesses(&[0x48, 0x89, 0x44, 0x98, 0x08]), [(0x1_0000_0098, 8, true)], "mov [rax + rbx*4 + 8], rax");
        assert_eq!(accesses(&[0x67, 0x8b, 0x00]), [(0x10, 4, false)], "mov eax, [eax]");
        assert_eq!(accesses(&[0x64, 0x48, 0x8b, 0x03]), [(0x7020, 8, false)], "mov rax, fs:[rbx]");
        assert_eq!(accesses(&[0x65, 0x48, 0x8b, 0x03]), [], "gs: is not a guest's");
        assert_eq!(accesses(&[0x48, 0x8d, 0x03]), [], "lea touches nothing");
    }
}
