//! A vcpu: a guest thread's machine state, and `run`, which executes it until it needs the simulated kernel.

use crate::cpu;
use crate::memory::{SLED_EMULATE_BYTES, SLED_SYSCALL_BYTES, SYSCALL_BYTES};
use crate::registers::*;
use crate::switch::{
    self, EXIT_EMULATE, EXIT_LOST_GS, EXIT_PREEMPTED, EXIT_SAMPLED, EXIT_STEPPED, EXIT_SYSCALL, EXIT_VSYSCALL,
    FaultRecord, SwitchState,
};
use crate::traps::{self, USER_CODE_SEGMENT, USER_STACK_SEGMENT};
use crate::worker::{self, Worker};

/// Why a vcpu came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A system call: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9; rip lies behind the instruction.
    Syscall,
    /// The guest reads the time-stamp counter: answer by [`Vcpu::complete_tsc`].
    ReadTsc,
    /// `rdrand` or `rdseed`: answer by [`Vcpu::complete_random`].
    ReadRandom,
    /// A hardware exception, which the simulated kernel turns into a signal; rip is at the instruction as Linux leaves it.
    Fault(FaultInfo),
    /// Another instruction that would show the real processor: to be answered by
    /// [`AddressSpace::emulate`](crate::AddressSpace::emulate).
    Emulate,
    /// A `cpuid` that no rewriting covered was trapped, and has been answered: what follows it can be prepared by
    /// [`AddressSpace::tame_code`](crate::AddressSpace::tame_code).
    TrappedCpuid,
    /// A call of this number by way of the vsyscall page. Nothing has been done yet: rip is the page's, and the return address lies on the
    /// stack. When the vcpu runs on as it is, the call happens again.
    Vsyscall { number: u64 },
    /// The guest had loaded GS, which is the simulator's, and has come to something that trapped, or to a system call. GS is back: where the
    /// trap was the sled's own, for lack of GS, the vcpu can run on as it is. For a system call, at which rip then lies, the signal is 0.
    LostGs(FaultInfo),
    /// It has computed through so many ticks of its worker's timer without any of the others. When this comes depends on the machine.
    Preempted { ticks: u32 },
    /// It was interrupted for a sample ([`Worker::take_sample`]) and knows nothing of it: it is to [go on](Vcpu::go_on) on the same worker
    /// before anything else is done with it.
    Sampled,
}

/// The bits of MXCSR that processors know; `ldmxcsr` faults at others.
const MXCSR_WRITABLE: u32 = 0xffff;

/// A step that has become a run ends with this tick, and no other step with the first.
const STEP_TICKS: u32 = 3;

/// A hardware exception in the terms of `siginfo_t` and `sigcontext`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGTRAP.
    pub signal: i32,
    pub code: i32,
    /// `si_addr`.
    pub address: u64,
    pub trap_number: u64,
    pub error_code: u64,
}

impl FaultInfo {
    /// As the processor finds an instruction that it does not know.
    pub(crate) fn invalid_instruction(address: u64) -> FaultInfo {
        const ILL_ILLOPN: i32 = 2;
        FaultInfo { signal: libc::SIGILL, code: ILL_ILLOPN, address, trap_number: 6, error_code: 0 }
    }
}

impl From<FaultRecord> for FaultInfo {
    fn from(fault: FaultRecord) -> Self {
        FaultInfo {
            signal: if fault.signal == libc::SIGSYS { 0 } else { fault.signal },
            code: fault.code,
            address: fault.address,
            trap_number: fault.trap_number,
            error_code: fault.error_code,
        }
    }
}

/// A guest thread's machine state while it does not run.
#[derive(Debug)]
#[repr(C)]
pub struct Vcpu {
    state: SwitchState,
    emulate_info: u32,
    /// The number of the processor that the guest is told to be on.
    processor: u32,
}

impl Default for Vcpu {
    fn default() -> Self {
        Vcpu::new()
    }
}

impl Vcpu {
    /// A thread as `execve` leaves it: all registers zero, extended state initial.
    pub fn new() -> Vcpu {
        let registers = Registers { rflags: FIXED_FLAGS, ..Registers::default() };
        let vectors = VectorRegisters([[0; 32]; 16]);
        let state = SwitchState { registers, mxcsr: MXCSR_DEFAULT, extended: EXTENDED_SSE, vectors, xsave: None };
        Vcpu { state, emulate_info: 0, processor: 0 }
    }

    /// A copy, as `clone` gives a new thread: all registers, extended state included.
    pub fn duplicate(&self) -> Vcpu {
        let xsave = self.state.xsave.as_ref().map(|area| {
            let mut copy = XsaveArea::boxed();
            copy.0.copy_from_slice(&area.0);
            copy
        });
        let state = SwitchState {
            registers: self.state.registers,
            mxcsr: self.state.mxcsr,
            extended: self.state.extended,
            vectors: self.state.vectors,
            xsave,
        };
        Vcpu { state, emulate_info: 0, processor: self.processor }
    }

    /// The processor that instructions show which tell its number: 0 at first, in a copy that of the original.
    pub fn processor(&self) -> u32 {
        self.processor
    }

    pub fn set_processor(&mut self, number: u32) {
        self.processor = number;
    }

    pub fn registers(&self) -> &Registers {
        &self.state.registers
    }

    pub fn registers_mut(&mut self) -> &mut Registers {
        &mut self.state.registers
    }

    /// Executes the guest until it needs the simulated kernel, or has computed as long as the worker allows. `cpuid` and `xgetbv` are
    /// answered here.
    #[inline(always)]
    pub fn run(&mut self, worker: &mut Worker) -> Exit {
        worker.state.ticks_left = worker.patience;
        self.execute(worker, worker.patience)
    }

    /// As [`run`](Self::run), after [`Exit::Sampled`]: what the worker allowed for this execution is what was left of it.
    #[cold]
    pub fn go_on(&mut self, worker: &mut Worker) -> Exit {
        worker.renew_limit();
        self.execute(worker, worker.patience)
    }

    #[inline(always)]
    fn execute(&mut self, worker: &mut Worker, ticks: u32) -> Exit {
        loop {
            self.enter(worker);
            if let Some(exit) = self.exit(worker, ticks) {
                return exit;
            }
        }
    }

    /// Executes the guest until it comes back.
    #[inline(always)]
    fn enter(&mut self, worker: &mut Worker) {
        self.sanitize_flags();
        if worker.state.open != 0 {
            // SAFETY: the simulator runs, so the selector allows system calls.
            unsafe { traps::close(worker.state) };
        }
        if worker.soils {
            // SAFETY: what follows is the entry.
            unsafe { switch::soil(worker.state.full_mask & worker::AVX512 == worker::AVX512) };
        }
        // SAFETY: `worker` proves that this thread is prepared; `self` is exclusively borrowed; what the guest's registers
        // make it do stays within what guests may do (see the crate's documentation on isolation).
        unsafe { switch::enter(&mut self.state) };
        worker.check_state();
        if worker.state.exit_kind != EXIT_SAMPLED {
            worker.state.short_armed = 0;
        }
        if self.state.extended == EXTENDED_FULL {
            self.take_full_state(worker);
        }
    }

    /// Why it has come back; None where that was answered at once.
    #[inline(always)]
    fn exit(&mut self, worker: &mut Worker, ticks: u32) -> Option<Exit> {
        Some(match worker.state.exit_kind {
            EXIT_SYSCALL => {
                worker.note_miss();
                Exit::Syscall
            }
            EXIT_EMULATE => return self.emulate(worker.state.emulate_info),
            EXIT_PREEMPTED | EXIT_STEPPED => Exit::Preempted { ticks: ticks - worker.state.ticks_left },
            EXIT_SAMPLED => Exit::Sampled,
            EXIT_VSYSCALL => Exit::Vsyscall { number: worker.state.emulate_info.into() },
            EXIT_LOST_GS => Exit::LostGs(worker.state.fault.into()),
            _ => Exit::Fault(worker.state.fault.into()),
        })
    }

    /// Executes one instruction, a single round of one that is repeated (`rep`); Some when it came back for another reason, by a call,
    /// which the instruction was or led to, or by a fault, before it was executed. What is answered without the simulated kernel (`cpuid`) is a step. Where
    /// clocks are answered at the door ([`Worker::set_looks`]), an instruction that leads there is followed by others.
    ///
    /// The guest can see it in flags that it stores (`pushf`): whoever steps such an instruction takes [`Vcpu::TRAP_FLAG`] out of them.
    pub fn step(&mut self, worker: &mut Worker) -> Option<Exit> {
        self.sanitize_flags();
        let registers = &mut self.state.registers;
        let flags = registers.rflags | traps::TRAP_FLAG;
        worker.state.step_frame = [registers.rip, USER_CODE_SEGMENT, flags, registers.rsp, USER_STACK_SEGMENT];
        registers.rip = switch::step_entry();
        worker.state.stepping = 1;
        worker.state.ticks_left = STEP_TICKS;
        self.enter(worker);
        worker.state.stepping = 0;
        if worker.state.exit_kind == EXIT_STEPPED { None } else { self.exit(worker, STEP_TICKS) }
    }

    /// The flag that a step sets in RFLAGS.
    pub const TRAP_FLAG: u64 = traps::TRAP_FLAG;

    /// Whether components are in use that [`extended_state`](Self::extended_state) does not show.
    pub(crate) fn uses_avx512(&self) -> bool {
        let more = |area: &XsaveArea| area.0.first_chunk().is_some_and(|area| components_in_use(area) & !0b111 != 0);
        self.state.extended == EXTENDED_FULL && self.state.xsave.as_deref().is_some_and(more)
    }

    fn sanitize_flags(&mut self) {
        let flags = &mut self.state.registers.rflags;
        *flags = (*flags & USER_FLAGS) | FIXED_FLAGS;
    }

    /// Takes what a full save left in the worker: in the fast form when it holds nothing else, so that few vcpus have an area of their own.
    #[cold]
    fn take_full_state(&mut self, worker: &mut Worker) {
        /// Bytes of the area when no component is AMX's.
        const WITHOUT_AMX: usize = 4096;
        const AMX: u32 = 0x6_0000;
        let saved = &mut worker.state.scratch;
        // The switch had put the simulator's MXCSR back before it saved the rest.
        saved.0[24..28].copy_from_slice(&self.state.mxcsr.to_le_bytes());
        let (fast, _) = saved.0.split_first_chunk().expect("an area is longer than what signal frames show");
        let in_use = components_in_use(fast);
        if x87_is_empty(fast, in_use) && in_use & !0b111 == 0 {
            self.set_vectors(fast, in_use);
            self.state.xsave = None;
            return;
        }
        let used = if worker.state.xsave_mask & AMX != 0 { XSAVE_BYTES } else { WITHOUT_AMX };
        let area = self.state.xsave.get_or_insert_with(XsaveArea::boxed);
        area.0[..used].copy_from_slice(&saved.0[..used]);
    }

    /// Loads the fast form from a standard-format XSAVE area whose components in `in_use` are valid.
    fn set_vectors(&mut self, area: &[u8; SIGNAL_XSAVE_BYTES], in_use: u64) {
        for (index, register) in self.state.vectors.0.iter_mut().enumerate() {
            *register = [0; 32];
            if in_use & 2 != 0 {
                register[..16].copy_from_slice(&area[160 + 16 * index..176 + 16 * index]);
            }
            if in_use & 4 != 0 {
                register[16..].copy_from_slice(&area[576 + 16 * index..592 + 16 * index]);
            }
        }
        self.state.extended = if in_use & 4 != 0 { EXTENDED_AVX } else { EXTENDED_SSE };
    }

    /// The extended state as a signal frame shows it: XSAVE in standard format, x87, SSE and AVX, without `sw_reserved`.
    pub fn extended_state(&self) -> [u8; SIGNAL_XSAVE_BYTES] {
        let mut area = [0u8; SIGNAL_XSAVE_BYTES];
        if let (EXTENDED_FULL, Some(full)) = (self.state.extended, &self.state.xsave) {
            area.copy_from_slice(&full.0[..SIGNAL_XSAVE_BYTES]);
            area[512] &= 0b111;
            area[513..520].fill(0);
            return area;
        }
        area[0..2].copy_from_slice(&FCW_DEFAULT.to_le_bytes());
        area[24..28].copy_from_slice(&self.state.mxcsr.to_le_bytes());
        area[28..32].copy_from_slice(&0xffffu32.to_le_bytes());
        for (index, register) in self.state.vectors.0.iter().enumerate() {
            area[160 + 16 * index..176 + 16 * index].copy_from_slice(&register[..16]);
            area[576 + 16 * index..592 + 16 * index].copy_from_slice(&register[16..]);
        }
        let in_use: u64 = if self.state.extended == EXTENDED_AVX { 0b110 } else { 0b010 };
        area[512..520].copy_from_slice(&in_use.to_le_bytes());
        area
    }

    /// Takes the extended state from a signal frame, as `rt_sigreturn` does. AVX-512 state, which guests are not promised, goes
    /// back to initial.
    pub fn set_extended_state(&mut self, area: &[u8; SIGNAL_XSAVE_BYTES]) {
        let mxcsr = u32::from_le_bytes([area[24], area[25], area[26], area[27]]) & MXCSR_WRITABLE;
        let in_use = components_in_use(area) & 0b111;
        self.state.mxcsr = mxcsr;
        if x87_is_empty(area, in_use) {
            self.set_vectors(area, in_use);
            self.state.xsave = None;
            return;
        }
        let full = self.state.xsave.get_or_insert_with(XsaveArea::boxed);
        full.reset();
        full.0[..SIGNAL_XSAVE_BYTES].copy_from_slice(area);
        full.0[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        full.0[512..520].copy_from_slice(&in_use.to_le_bytes());
        full.0[520..576].fill(0);
        self.state.extended = EXTENDED_FULL;
    }

    /// Whether the switch can load it all: what it loads for the guest before the guest's first
    /// instruction may not fault. True whatever a guest has asked for; the fuzzer asks.
    pub fn can_be_loaded(&self) -> bool {
        let area = match (self.state.extended, &self.state.xsave) {
            (EXTENDED_FULL, None) => return false,
            (EXTENDED_FULL, area) => area.as_ref(),
            _ => None,
        };
        let is_loadable = |area: &XsaveArea| {
            let mxcsr = u32::from_le_bytes([area.0[24], area.0[25], area.0[26], area.0[27]]);
            mxcsr & !MXCSR_WRITABLE == 0 && area.0[520..576] == [0; 56]
        };
        is_canonical(self.state.registers.fs_base)
            && self.state.mxcsr & !MXCSR_WRITABLE == 0
            && area.is_none_or(|area| is_loadable(area))
    }

    /// Back to initial extended state, as `execve` leaves it.
    pub fn reset_extended_state(&mut self) {
        self.state.mxcsr = MXCSR_DEFAULT;
        self.state.extended = EXTENDED_SSE;
        self.state.vectors = VectorRegisters([[0; 32]; 16]);
        self.state.xsave = None;
    }

    /// Makes the system call that just came back happen again when the vcpu runs next, as `number`.
    ///
    /// `original_rip` is [`AddressSpace::original_address`](crate::AddressSpace::original_address) of rip: equal to rip when the
    /// call did not come from a sled.
    pub fn restart_syscall(&mut self, number: u64, original_rip: u64) {
        let registers = &mut self.state.registers;
        registers.rax = number;
        let bytes = if original_rip == registers.rip { SYSCALL_BYTES } else { SLED_SYSCALL_BYTES };
        // A guest may have put rip where no call can lie before it.
        registers.rip = registers.rip.wrapping_sub(bytes);
    }

    /// Makes the instruction of [`Exit::ReadTsc`], [`Exit::ReadRandom`] or [`Exit::Emulate`], which has just come back and was not answered,
    /// happen again when the vcpu runs next.
    pub fn restart_instruction(&mut self) {
        let is_trapped = self.emulate_info & traps::EMULATE_TRAPPED != 0;
        let length = u64::from(self.emulate_info >> traps::EMULATE_LENGTH_SHIFT);
        self.state.registers.rip -= if is_trapped { length } else { SLED_EMULATE_BYTES };
    }

    #[cold]
    fn emulate(&mut self, info: u32) -> Option<Exit> {
        self.emulate_info = info;
        let registers = &mut self.state.registers;
        match info & 0xff {
            traps::EMULATE_CPUID => {
                cpu::answer_cpuid(registers);
                (info & traps::EMULATE_TRAPPED != 0).then_some(Exit::TrappedCpuid)
            }
            traps::EMULATE_XGETBV => {
                cpu::xgetbv(registers);
                None
            }
            traps::EMULATE_RANDOM => Some(Exit::ReadRandom),
            traps::EMULATE_OTHER => Some(Exit::Emulate),
            _ => Some(Exit::ReadTsc),
        }
    }

    /// Prepares for [`complete_random`](Self::complete_random) as the exit by this request would have.
    pub(crate) fn expect_random(&mut self, info: u32) {
        self.emulate_info = info;
    }

    /// Answers [`Exit::ReadTsc`]; `rdtscp` also reports the processor.
    pub fn complete_tsc(&mut self, ticks: u64) {
        let registers = &mut self.state.registers;
        registers.rax = ticks & 0xffff_ffff;
        registers.rdx = ticks >> 32;
        if self.emulate_info & 0xff == traps::EMULATE_RDTSCP {
            registers.rcx = self.processor.into();
        }
    }

    /// Answers [`Exit::ReadRandom`]: the destination of the operand's size takes `value`, CF is set, the other flags cleared.
    pub fn complete_random(&mut self, value: u64) {
        const STATUS_FLAGS: u64 = 0x8d5;
        const CARRY: u64 = 1;
        let (register, size) = (self.emulate_info >> 8 & 0xf, self.emulate_info >> 16 & 0xff);
        let registers = &mut self.state.registers;
        registers.rflags = registers.rflags & !STATUS_FLAGS | CARRY;
        let slot = registers.general_mut(register as usize);
        *slot = match size {
            2 => *slot & !0xffff | value & 0xffff,
            4 => value & 0xffff_ffff,
            _ => value,
        };
    }
}

/// XSTATE_BV: the components of a standard-format XSAVE area that are not in their initial state.
fn components_in_use(area: &[u8; SIGNAL_XSAVE_BYTES]) -> u64 {
    u64::from_le_bytes(area[512..520].try_into().unwrap_or_default())
}

/// Whether the x87 unit holds nothing: control word, status word and tags are as `fninit` leaves them.
fn x87_is_empty(area: &[u8; SIGNAL_XSAVE_BYTES], in_use: u64) -> bool {
    let control = u16::from_le_bytes([area[0], area[1]]);
    in_use & 1 == 0 || (control == FCW_DEFAULT && area[2..5] == [0, 0, 0])
}
