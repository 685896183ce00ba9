//! Signal handlers of the simulator's process: what a guest's faults and un-rewritten system calls arrive by.
//!
//! A handler runs on the worker's alternate stack, with the guest's FS base and with system calls still sent to SIGSYS: until
//! it has opened the selector it may use neither thread-locals nor system calls. It copies the general registers into the
//! vcpu and redirects the thread to `fault_exit`; the kernel restores the guest's extended state on the way there.
//!
//! What a guest can do to the registers that the simulator relies on is undone here first: GS base, the code segment, alignment checks.

use crate::copy;
use crate::preempt;
use crate::registers::USER_FLAGS;
use crate::sampling;
use crate::signal_stack;
use crate::switch::{
    EXIT_EMULATE, EXIT_FAULT, EXIT_LOST_GS, EXIT_STEPPED, EXIT_SYSCALL, EXIT_VSYSCALL, FaultRecord, TICKED,
    WorkerState, clock_call_at, door_addresses, last_instructions,
};
use crate::vsyscall;
use std::arch::{asm, global_asm};
use std::mem::offset_of;
use std::sync::Once;
use std::sync::atomic::Ordering;

const SIGNALS: [i32; 6] = [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// The length of `int $0x80`, and of `syscall`.
const CALL_BYTES: u64 = 2;
/// `si_code` of a SIGSYS that syscall user dispatch sent.
const SYS_USER_DISPATCH: i32 = 2;
/// `si_code` of a SIGSYS that a filter sent.
const SYS_SECCOMP: i32 = 1;
const PR_SET_TSC: i32 = 26;
const PR_TSC_ENABLE: u64 = 1;
const PR_TSC_SIGSEGV: u64 = 2;
const ARCH_SET_CPUID: u64 = 0x1012;
/// What a worker's thread may do itself (`WorkerState::open`): read the time-stamp counter, execute `cpuid`.
pub(crate) const OPEN_TSC: u8 = 1;
pub(crate) const OPEN_CPUID: u8 = 2;
/// The number of a general protection fault.
const GENERAL_PROTECTION: i64 = 13;
/// The selectors of 64-bit user code and of its stack.
pub(crate) const USER_CODE_SEGMENT: u64 = 0x33;
pub(crate) const USER_STACK_SEGMENT: u64 = 0x2b;
const LONGEST_INSTRUCTION: usize = 15;
/// `si_code` of a SIGTRAP after an instruction that was to be executed alone.
const TRAP_TRACE: i32 = 2;
/// RFLAGS: trap after the next instruction.
pub(crate) const TRAP_FLAG: u64 = 0x100;
/// Bits of RFLAGS that a thread of the simulator must not inherit: TF, IOPL, NT, DF, AC.
const HOSTILE_FLAGS: i64 = 0x4_7500;

/// Emulation requests, in the low byte of `WorkerState::emulate_info`.
pub(crate) const EMULATE_RDTSC: u32 = 1;
pub(crate) const EMULATE_RDTSCP: u32 = 2;
pub(crate) const EMULATE_CPUID: u32 = 3;
pub(crate) const EMULATE_XGETBV: u32 = 4;
pub(crate) const EMULATE_RANDOM: u32 = 5;
/// As the replaced instruction says.
pub(crate) const EMULATE_OTHER: u32 = 6;
/// Beside the others: the instruction was not rewritten; its length is in the highest byte.
pub(crate) const EMULATE_TRAPPED: u32 = 0x100;
pub(crate) const EMULATE_LENGTH_SHIFT: u32 = 24;

/// Installs the handlers, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // No tick and no sample within a handler of traps: it would look like one in the guest. Nor within each other.
        let bit = |signal: i32| 1u64 << (signal - 1);
        let mask = bit(preempt::TICK_SIGNAL) | bit(sampling::SAMPLE_SIGNAL);
        for signal in SIGNALS {
            // The next sample waits for the handler of the one before: on a busy machine handlers would pile up until their stack is full.
            let nested = if signal == libc::SIGTRAP { 0 } else { libc::SA_NODEFER };
            // Calls that a sample interrupts go on.
            set_handler(signal, handler, (nested | libc::SA_RESTART) as u64, mask);
        }
        // Calls of the simulator that a tick interrupts go on.
        set_handler(preempt::TICK_SIGNAL, preempt::tick, libc::SA_RESTART as u64, mask);
        set_handler(sampling::SAMPLE_SIGNAL, sampling::tick, libc::SA_RESTART as u64, mask);
    });
}

/// A handler that takes what the kernel tells about the signal.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The kernel's own `struct sigaction`.
#[repr(C)]
struct KernelSigaction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

/// sigaction(2) with a restorer of ours, which may make its call while those of guests are caught: a handler can so return into a guest.
fn set_handler(signal: i32, handler: Handler, flags: u64, mask: u64) {
    const SA_RESTORER: u64 = 0x0400_0000;
    let action = KernelSigaction {
        handler: handler as *const () as u64,
        flags: flags | libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64 | SA_RESTORER,
        restorer: restorer().0,
        mask,
    };
    // SAFETY: a valid action whose handler has the SA_SIGINFO signature; it runs on the alternate stack that every worker sets up;
    // other threads fall into the branch that ends the process, or that returns.
    let result = unsafe { raw_syscall(libc::SYS_rt_sigaction, [signal as u64, &raw const action as u64, 0, 8, 0]) };
    assert_eq!(result, 0, "rt_sigaction({signal})");
}

global_asm!(
    // In the very bytes by which debuggers and unwinders know the end of a handler.
    ".globl gnomon_restorer",
    "gnomon_restorer:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", // mov rax, 15 (rt_sigreturn)
    "syscall",
    ".globl gnomon_restorer_end",
    "gnomon_restorer_end:",
    "ud2",
);

unsafe extern "C" {
    fn gnomon_restorer();
    fn gnomon_restorer_end();
}

/// The code that ends handlers, and its length with the address behind its call, by which the kernel recognises the call.
pub(crate) fn restorer() -> (u64, u64) {
    let start = gnomon_restorer as *const () as u64;
    (start, gnomon_restorer_end as *const () as u64 - start + 1)
}

/// The worker whose handler calls this; None on a thread that is no worker. Takes GS back if the guest has loaded it, and turns
/// alignment checks off.
pub(crate) fn worker_of_handler() -> Option<&'static mut WorkerState> {
    let here = 0u8;
    let worker = signal_stack::owner_of(&raw const here as u64);
    // SAFETY: an owner is a live worker's state, which is never freed. The thread's normal flow is suspended; what it has half done to the
    // state does not matter to a handler, which reads and writes single members.
    let worker = unsafe { worker.as_mut() }?;
    let gs_base: u64;
    // SAFETY: flags are pushed and popped outside of what the compiler may keep below the stack pointer; GS base is only read.
    unsafe {
        asm!("pushfq", "and dword ptr [rsp], {}", "popfq", const !ALIGNMENT_CHECK);
        asm!("rdgsbase {}", out(reg) gs_base, options(nomem, nostack, preserves_flags));
    }
    let own = &raw const *worker as u64;
    if gs_base != own {
        // SAFETY: what every part of the simulator on this thread expects there. The null selector belongs to it, as after `arch_prctl`.
        unsafe { asm!("mov gs, {:e}", "wrgsbase {}", in(reg) 0, in(reg) own, options(nostack, preserves_flags)) };
        worker.gs_lost = 1;
        // Whoever looks at ticks looks at that.
        worker.notices.fetch_or(TICKED, Ordering::Relaxed);
    }
    Some(worker)
}

/// RFLAGS: accesses that are not aligned fault.
const ALIGNMENT_CHECK: i32 = 0x4_0000;

/// A system call made without libc, so that neither errno nor any other thread-local is touched.
///
/// # Safety
/// As for the system call itself.
pub(crate) unsafe fn raw_syscall(number: i64, arguments: [u64; 5]) -> i64 {
    let result: i64;
    let [a, b, c, d, e] = arguments;
    // SAFETY: the caller vouches for the call; registers follow the kernel's calling convention.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Lets this thread do what is in `what`.
///
/// # Safety
/// The selector must allow system calls.
unsafe fn open(worker: &mut WorkerState, what: u8) {
    worker.open |= what;
    // SAFETY: the caller vouches for the selector; PR_SET_TSC and ARCH_SET_CPUID change what this thread may execute, nothing else.
    unsafe {
        if what & OPEN_TSC != 0 {
            raw_syscall(libc::SYS_prctl, [PR_SET_TSC as u64, PR_TSC_ENABLE, 0, 0, 0]);
        }
        if what & OPEN_CPUID != 0 {
            raw_syscall(libc::SYS_arch_prctl, [ARCH_SET_CPUID, 1, 0, 0, 0]);
        }
    }
}

/// Makes this thread fault where it reads the time-stamp counter, and at `cpuid` where the processor can. Whether it can.
///
/// # Safety
/// The selector must allow system calls.
#[cold]
pub(crate) unsafe fn close(worker: &mut WorkerState) -> bool {
    let opened = std::mem::take(&mut worker.open);
    let mut can_trap = true;
    // SAFETY: as in `open`.
    unsafe {
        if opened & OPEN_TSC != 0 {
            raw_syscall(libc::SYS_prctl, [PR_SET_TSC as u64, PR_TSC_SIGSEGV, 0, 0, 0]);
        }
        if opened & OPEN_CPUID != 0 {
            can_trap = raw_syscall(libc::SYS_arch_prctl, [ARCH_SET_CPUID, 0, 0, 0, 0]) == 0;
        }
    }
    can_trap
}

/// Lets this thread do everything again, as one that is no worker.
///
/// # Safety
/// The selector must allow system calls.
pub(crate) unsafe fn open_all(worker: &mut WorkerState) {
    // SAFETY: the caller's promise.
    unsafe { open(worker, OPEN_TSC | OPEN_CPUID) };
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers that live on this stack until the handler returns.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let Some(worker) = worker_of_handler() else {
        if sampling::is_sample(info) {
            // Of a worker that has just ended.
            return;
        }
        die(signal, info, context, None)
    };
    if sampling::is_sample(info) {
        sampling::sample(worker, &mut context.uc_mcontext.gregs);
        return;
    }
    let in_guest = worker.in_guest != 0;
    if in_guest && worker.stepping != 0 && signal == libc::SIGTRAP && is_step(worker, info, &context.uc_mcontext.gregs)
    {
        let saved = &mut context.uc_mcontext.gregs;
        if preempt::is_guest_code(saved[libc::REG_RIP as usize] as u64) {
            leave_guest(worker, saved, EXIT_STEPPED);
        } else {
            // The instruction led to a door, which leads out or, where it answers, back.
            saved[libc::REG_EFL as usize] &= !(TRAP_FLAG as i64);
        }
        return;
    }
    worker.selector.store(0, Ordering::Relaxed);
    if in_guest {
        guest_trap(worker, signal, info, context);
    } else if !host_trap(worker, signal, context) {
        die(signal, info, context, Some(worker));
    }
}

/// Whether a trap is the end of a step. Some virtual machines raise the processor's debug exception without saying that a step
/// was its reason (DR6.BS); another can only be that the guest executed `int1`.
fn is_step(worker: &WorkerState, info: &libc::siginfo_t, saved: &[i64; 23]) -> bool {
    const DEBUG_EXCEPTION: i64 = 1;
    const INT1: u8 = 0xf1;
    if info.si_code == TRAP_TRACE {
        return true;
    }
    let (stepped, rip) = (worker.step_frame[0], saved[libc::REG_RIP as usize] as u64);
    saved[libc::REG_TRAPNO as usize] == DEBUG_EXCEPTION
        // SAFETY: the instruction there was just executed.
        && !(rip == stepped + 1 && unsafe { (stepped as *const u8).read() } == INT1)
}

/// A trap while the guest ran: store its registers and leave by `fault_exit`.
fn guest_trap(worker: &mut WorkerState, signal: i32, info: &libc::siginfo_t, context: &mut libc::ucontext_t) {
    // What traps from here on is the handler, where it reads the guest's instructions.
    worker.in_guest = 0;
    let saved = &mut context.uc_mcontext.gregs;
    undo_entry(worker, saved);
    // SAFETY: while `in_guest` is set, `vcpu` is the one that `enter` was given, and `enter` has not returned.
    let registers = unsafe { &mut (*worker.vcpu).registers };
    load_registers(registers, saved);
    worker.fault = FaultRecord {
        signal,
        code: info.si_code,
        // SAFETY: si_addr is the union member of every synchronous fault signal; for others the value is not used.
        address: unsafe { info.si_addr() } as u64,
        trap_number: saved[libc::REG_TRAPNO as usize] as u64,
        error_code: saved[libc::REG_ERR as usize] as u64,
    };
    let dispatched = signal == libc::SIGSYS && info.si_code == SYS_USER_DISPATCH;
    worker.exit_kind = if is_other_mode(saved) {
        // As from a processor that has no such segment.
        worker.fault = general_protection(0);
        EXIT_FAULT
    } else if let Some(number) = clock_call_at(registers.rip) {
        // A clock was to be stored where it cannot be: the simulated kernel finds the right answer.
        (registers.rax, registers.rip, registers.rcx) = (number, registers.r11, registers.r11);
        registers.r11 = registers.rflags;
        EXIT_SYSCALL
    } else if let Some(number) = take_vsyscall(registers, signal, info) {
        worker.emulate_info = number;
        EXIT_VSYSCALL
    } else if dispatched && is_old_call(info) {
        // As from a kernel without 32-bit programs: a general protection fault at an interrupt that does not exist.
        registers.rip -= CALL_BYTES;
        worker.fault = general_protection(0x80 << 3 | 2);
        EXIT_FAULT
    } else if worker.gs_lost != 0 {
        if dispatched {
            registers.rip -= CALL_BYTES;
        }
        EXIT_LOST_GS
    } else if dispatched {
        worker.missed_site = registers.rip;
        registers.rcx = registers.rip;
        registers.r11 = registers.rflags;
        EXIT_SYSCALL
    } else if signal == libc::SIGSEGV && take_trapped_instruction(worker, registers, saved) {
        EXIT_EMULATE
    } else {
        EXIT_FAULT
    };
    redirect(worker, saved);
}

/// Where the guest was to begin at an address that the processor does not take, it traps at the
/// last instruction of the switch: it is brought to where Linux finds it, at that address.
fn undo_entry(worker: &WorkerState, saved: &mut [i64; 23]) {
    let rip = saved[libc::REG_RIP as usize] as u64;
    let (jump, step) = last_instructions();
    if rip == jump {
        saved[libc::REG_RIP as usize] = worker.resume_rip as i64;
    } else if rip == step {
        let [rip, _, flags, rsp, _] = worker.step_frame;
        saved[libc::REG_RIP as usize] = rip as i64;
        saved[libc::REG_RSP as usize] = rsp as i64;
        saved[libc::REG_EFL as usize] = (flags & !TRAP_FLAG) as i64;
    }
}

/// Whether the guest executes 32-bit code, by a far jump.
fn is_other_mode(saved: &[i64; 23]) -> bool {
    saved[libc::REG_CSGSFS as usize] as u64 & 0xffff != USER_CODE_SEGMENT
}

fn general_protection(error_code: u64) -> FaultRecord {
    let trap_number = GENERAL_PROTECTION as u64;
    FaultRecord { signal: libc::SIGSEGV, code: libc::SI_KERNEL, address: 0, trap_number, error_code }
}

/// When the guest has called into the page of vsyscalls: which call. The registers then are as at its entry.
fn take_vsyscall(registers: &mut crate::Registers, signal: i32, info: &libc::siginfo_t) -> Option<u32> {
    if signal == libc::SIGSYS && info.si_code == SYS_SECCOMP {
        // The filter has cut it short, and the kernel has returned from it.
        // SAFETY: si_call_addr is where si_addr is in what comes with a SIGSYS.
        let at = unsafe { info.si_addr() } as u64;
        let number = vsyscall::number_at(at)?;
        (registers.rip, registers.rsp) = (at, registers.rsp.wrapping_sub(8));
        return Some(number);
    }
    // A kernel that has no such page.
    if signal == libc::SIGSEGV { vsyscall::number_at(registers.rip) } else { None }
}

/// Whether a caught system call came by `int $0x80`, with the numbers of 32-bit programs.
fn is_old_call(info: &libc::siginfo_t) -> bool {
    const ARCH_OFFSET: usize = 28;
    const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
    // SAFETY: `si_arch` lies there in what comes with a SIGSYS, within the 128 bytes of every siginfo_t.
    unsafe { (&raw const *info).cast::<u8>().add(ARCH_OFFSET).cast::<u32>().read() != AUDIT_ARCH_X86_64 }
}

/// Ends the guest's execution where it was interrupted.
pub(crate) fn leave_guest(worker: &mut WorkerState, saved: &mut [i64; 23], kind: u32) {
    // SAFETY: as in `guest_trap`.
    load_registers(unsafe { &mut (*worker.vcpu).registers }, saved);
    worker.exit_kind = kind;
    if is_other_mode(saved) {
        worker.fault = general_protection(0);
        worker.exit_kind = EXIT_FAULT;
    }
    worker.selector.store(0, Ordering::Relaxed);
    redirect(worker, saved);
}

/// Lets the handler return to the exit, with the guest's registers already stored.
fn redirect(worker: &mut WorkerState, saved: &mut [i64; 23]) {
    worker.in_guest = 0;
    saved[libc::REG_RIP as usize] = door_addresses().2 as i64;
    saved[libc::REG_RSP as usize] = worker.host_rsp as i64;
    saved[libc::REG_R11 as usize] = worker.vcpu as i64;
    saved[libc::REG_CSGSFS as usize] = (USER_CODE_SEGMENT | USER_STACK_SEGMENT << 48) as i64;
    saved[libc::REG_EFL as usize] &= !HOSTILE_FLAGS;
}

fn load_registers(registers: &mut crate::Registers, saved: &[i64; 23]) {
    let get = |index: i32| saved[index as usize] as u64;
    registers.rax = get(libc::REG_RAX);
    registers.rbx = get(libc::REG_RBX);
    registers.rcx = get(libc::REG_RCX);
    registers.rdx = get(libc::REG_RDX);
    registers.rsi = get(libc::REG_RSI);
    registers.rdi = get(libc::REG_RDI);
    registers.rbp = get(libc::REG_RBP);
    registers.rsp = get(libc::REG_RSP);
    registers.r8 = get(libc::REG_R8);
    registers.r9 = get(libc::REG_R9);
    registers.r10 = get(libc::REG_R10);
    registers.r11 = get(libc::REG_R11);
    registers.r12 = get(libc::REG_R12);
    registers.r13 = get(libc::REG_R13);
    registers.r14 = get(libc::REG_R14);
    registers.r15 = get(libc::REG_R15);
    registers.rip = get(libc::REG_RIP);
    registers.rflags = get(libc::REG_EFL) & (USER_FLAGS | 0x202);
}

/// Whether the fault was a guest's `rdtsc`, `rdtscp` or `cpuid` that no rewriting covered; then it is turned into an emulation request.
fn take_trapped_instruction(worker: &mut WorkerState, registers: &mut crate::Registers, saved: &[i64; 23]) -> bool {
    if saved[libc::REG_TRAPNO as usize] != GENERAL_PROTECTION {
        return false;
    }
    let Some((info, length)) = trapped_instruction(registers.rip) else { return false };
    worker.emulate_info = info | EMULATE_TRAPPED | (length as u32) << EMULATE_LENGTH_SHIFT;
    registers.rip += length;
    true
}

/// Which of the instructions that can be made to fault lies at `rip`, as an emulation request, and its length.
fn trapped_instruction(rip: u64) -> Option<(u32, u64)> {
    let mut bytes = [0u8; LONGEST_INSTRUCTION];
    let missing = copy::copy_bytes(bytes.as_mut_ptr() as u64, rip, bytes.len() as u64);
    let bytes = bytes.get(..LONGEST_INSTRUCTION - missing as usize)?;
    let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
    let prefixes = bytes.iter().take_while(|byte| is_prefix(byte)).count();
    let (info, length) = match bytes[prefixes..] {
        [0x0f, 0x31, ..] => (EMULATE_RDTSC, 2),
        [0x0f, 0xa2, ..] => (EMULATE_CPUID, 2),
        [0x0f, 0x01, 0xf9, ..] => (EMULATE_RDTSCP, 3),
        _ => return None,
    };
    Some((info, prefixes as u64 + length))
}

/// A trap in the simulator itself that has a remedy: a guest pointer that faults in a copy, the vDSO reading the clock, a library that asks
/// what the processor is.
fn host_trap(worker: &mut WorkerState, signal: i32, context: &mut libc::ucontext_t) -> bool {
    let saved = &mut context.uc_mcontext.gregs;
    let rip = saved[libc::REG_RIP as usize] as u64;
    match signal {
        libc::SIGSEGV | libc::SIGBUS if copy::fixup_for(rip).is_some() => {
            saved[libc::REG_RIP as usize] = copy::fixup_for(rip).unwrap_or(rip) as i64;
            true
        }
        libc::SIGSEGV if saved[libc::REG_TRAPNO as usize] == GENERAL_PROTECTION => {
            let what = match trapped_instruction(rip) {
                Some((EMULATE_CPUID, _)) => OPEN_CPUID,
                Some(_) => OPEN_TSC,
                None => return false,
            };
            if worker.open & what != 0 {
                return false;
            }
            // SAFETY: the selector was opened by our caller.
            unsafe { open(worker, what) };
            true
        }
        _ => false,
    }
}

/// A fault of the simulator: says where and whom it served, and ends the process with the signal.
fn die(signal: i32, info: &libc::siginfo_t, context: &libc::ucontext_t, worker: Option<&WorkerState>) -> ! {
    let mut text = Message::new();
    text.text("gnomon: bug: signal ").number(signal as u64, 10);
    // SAFETY: reading the union member; for signals without an address it is some other number, which is only printed.
    text.text(" at address 0x").number(unsafe { info.si_addr() } as u64, 16);
    text.text(", rip 0x").number(context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64, 16);
    if let Some(worker) = worker {
        let [host, process, thread] = worker.serving;
        text.text(", while serving host ").number(host.into(), 10);
        text.text(", process ").number(process.into(), 10).text(", thread ").number(thread.into(), 10);
    }
    text.text("\n");
    // SAFETY: raw calls on valid memory; the default action of the signal ends the process (and writes a core).
    unsafe {
        raw_syscall(libc::SYS_write, [2, text.bytes.as_ptr() as u64, text.used as u64, 0, 0]);
        let action: [u64; 4] = [0; 4];
        raw_syscall(libc::SYS_rt_sigaction, [signal as u64, action.as_ptr() as u64, 0, 8, 0]);
        let pid = raw_syscall(libc::SYS_getpid, [0; 5]);
        raw_syscall(libc::SYS_kill, [pid as u64, signal as u64, 0, 0, 0]);
        raw_syscall(libc::SYS_exit_group, [128 + signal as u64, 0, 0, 0, 0]);
    }
    loop {
        std::hint::spin_loop();
    }
}

/// A line built without allocation.
struct Message {
    bytes: [u8; 256],
    used: usize,
}

impl Message {
    fn new() -> Self {
        Message { bytes: [0; 256], used: 0 }
    }

    fn text(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes() {
            if let Some(slot) = self.bytes.get_mut(self.used) {
                *slot = byte;
                self.used += 1;
            }
        }
        self
    }

    fn number(&mut self, mut value: u64, base: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(value % base) as usize];
            value /= base;
            if value == 0 {
                break;
            }
        }
        self.text(std::str::from_utf8(&digits[at..]).unwrap_or("?"))
    }
}

/// The byte offset of the selector in a worker's state, which `Worker::new` tells the kernel.
pub(crate) const SELECTOR_OFFSET: usize = offset_of!(WorkerState, selector);
