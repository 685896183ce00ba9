//! Signal handlers of the simulator's process: what a guest's faults and un-rewritten system calls arrive by.
//!
//! A handler runs on the worker's alternate stack, with the guest's FS base and with system calls still sent to SIGSYS: until
//! it has opened the selector it may use neither thread-locals nor system calls. It copies the general registers into the
//! vcpu and redirects the thread to `fault_exit`; the kernel restores the guest's extended state on the way there.

use crate::copy;
use crate::preempt;
use crate::registers::USER_FLAGS;
use crate::switch::{
    EXIT_EMULATE, EXIT_FAULT, EXIT_STEPPED, EXIT_SYSCALL, FaultRecord, WorkerState, clock_call_at, door_addresses,
};
use std::arch::global_asm;
use std::mem::offset_of;
use std::sync::Once;

const SIGNALS: [i32; 6] = [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
/// `si_code` of a SIGSYS that syscall user dispatch sent.
/// The length of `int $0x80`.
const INT_80_BYTES: u64 = 2;
const SYS_USER_DISPATCH: i32 = 2;
const PR_SET_TSC: i32 = 26;
const PR_TSC_ENABLE: u64 = 1;
const PR_TSC_SIGSEGV: u64 = 2;
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

/// Installs the handlers, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // No tick within a handler of traps: it would look like one in the guest.
        let mask = 1u64 << (preempt::TICK_SIGNAL - 1);
        for signal in SIGNALS {
            set_handler(signal, handler, libc::SA_NODEFER as u64, mask);
        }
        // Calls of the simulator that a tick interrupts go on.
        set_handler(preempt::TICK_SIGNAL, preempt::tick, libc::SA_RESTART as u64, 0);
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

/// This thread's worker state, or null on a thread that is no worker.
pub(crate) fn current_worker() -> *mut WorkerState {
    let worker: *mut WorkerState;
    // SAFETY: rdgsbase only reads a register. GS base is 0 except on workers, which point it at their state.
    unsafe { std::arch::asm!("rdgsbase {}", out(reg) worker, options(nomem, nostack, preserves_flags)) };
    worker
}

/// A system call made without libc, so that neither errno nor any other thread-local is touched.
///
/// # Safety
/// As for the system call itself.
unsafe fn raw_syscall(number: i64, arguments: [u64; 5]) -> i64 {
    let result: i64;
    let [a, b, c, d, e] = arguments;
    // SAFETY: the caller vouches for the call; registers follow the kernel's calling convention.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Lets this thread read the time-stamp counter, or makes reading it fault.
///
/// # Safety
/// The selector must allow system calls.
pub(crate) unsafe fn set_tsc_open(open: bool) {
    let mode = if open { PR_TSC_ENABLE } else { PR_TSC_SIGSEGV };
    // SAFETY: PR_SET_TSC changes this thread's CR4.TSD only.
    unsafe { raw_syscall(libc::SYS_prctl, [PR_SET_TSC as u64, mode, 0, 0, 0]) };
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers that live on this stack until the handler returns.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let worker = current_worker();
    if worker.is_null() {
        die(signal, info, context, None);
    }
    // SAFETY: a non-null GS base points to this thread's live worker state (set by `Worker::new`, cleared on its drop); the
    // thread's normal flow is suspended, so nothing else borrows it.
    let worker = unsafe { &mut *worker };
    let in_guest = worker.in_guest != 0;
    if in_guest && signal == libc::SIGTRAP && info.si_code == TRAP_TRACE && worker.stepping != 0 {
        let saved = &mut context.uc_mcontext.gregs;
        if preempt::is_guest_code(saved[libc::REG_RIP as usize] as u64) {
            leave_guest(worker, saved, EXIT_STEPPED);
        } else {
            // The instruction led to a door, which leads out or, where it answers, back.
            saved[libc::REG_EFL as usize] &= !(TRAP_FLAG as i64);
        }
        return;
    }
    worker.selector = 0;
    if in_guest {
        guest_trap(worker, signal, info, context);
    } else if !host_trap(worker, signal, context) {
        die(signal, info, context, Some(worker));
    }
}

/// A trap while the guest ran: store its registers and leave by `fault_exit`.
fn guest_trap(worker: &mut WorkerState, signal: i32, info: &libc::siginfo_t, context: &mut libc::ucontext_t) {
    let saved = &mut context.uc_mcontext.gregs;
    // SAFETY: while `in_guest` is set, `vcpu` is the one that `enter` was given, and `enter` has not returned.
    let registers = unsafe { &mut (*worker.vcpu).registers };
    load_registers(registers, saved);
    if let Some(number) = clock_call_at(registers.rip) {
        // A clock was to be stored where it cannot be: the simulated kernel finds the right answer.
        worker.exit_kind = EXIT_SYSCALL;
        (registers.rax, registers.rip, registers.rcx) = (number, registers.r11, registers.r11);
        registers.r11 = registers.rflags;
    } else if signal == libc::SIGSYS && info.si_code == SYS_USER_DISPATCH && is_old_call(info) {
        // As from a kernel without 32-bit programs: a general protection fault at an interrupt that does not exist.
        worker.exit_kind = EXIT_FAULT;
        registers.rip -= INT_80_BYTES;
        let fault = FaultRecord { signal: libc::SIGSEGV, code: libc::SI_KERNEL, trap_number: 13, ..Default::default() };
        worker.fault = FaultRecord { error_code: 0x80 << 3 | 2, ..fault };
    } else if signal == libc::SIGSYS && info.si_code == SYS_USER_DISPATCH {
        worker.exit_kind = EXIT_SYSCALL;
        worker.missed_site = registers.rip;
        registers.rcx = registers.rip;
        registers.r11 = registers.rflags;
    } else if signal == libc::SIGSEGV && take_tsc_read(worker, registers, saved) {
        worker.exit_kind = EXIT_EMULATE;
    } else {
        worker.exit_kind = EXIT_FAULT;
        worker.fault = FaultRecord {
            signal,
            code: info.si_code,
            // SAFETY: si_addr is the union member of every synchronous fault signal.
            address: unsafe { info.si_addr() } as u64,
            trap_number: saved[libc::REG_TRAPNO as usize] as u64,
            error_code: saved[libc::REG_ERR as usize] as u64,
        };
    }
    redirect(worker, saved);
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
    worker.selector = 0;
    redirect(worker, saved);
}

/// Lets the handler return to the exit, with the guest's registers already stored.
fn redirect(worker: &mut WorkerState, saved: &mut [i64; 23]) {
    worker.in_guest = 0;
    saved[libc::REG_RIP as usize] = door_addresses().2 as i64;
    saved[libc::REG_RSP as usize] = worker.host_rsp as i64;
    saved[libc::REG_R11 as usize] = worker.vcpu as i64;
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

/// Whether the fault was a guest's `rdtsc` or `rdtscp` that no rewriting covered; then it is turned into an emulation request.
fn take_tsc_read(worker: &mut WorkerState, registers: &mut crate::Registers, saved: &[i64; 23]) -> bool {
    const GENERAL_PROTECTION: i64 = 13;
    if saved[libc::REG_TRAPNO as usize] != GENERAL_PROTECTION {
        return false;
    }
    let mut bytes = [0u8; 3];
    if copy::copy_bytes(bytes.as_mut_ptr() as u64, registers.rip, 3) != 0 {
        return false;
    }
    let (info, length) = match bytes {
        [0x0f, 0x31, _] => (EMULATE_RDTSC, 2),
        [0x0f, 0x01, 0xf9] => (EMULATE_RDTSCP, 3),
        _ => return false,
    };
    worker.emulate_info = info;
    registers.rip += length;
    true
}

/// A trap in the simulator itself that has a remedy: a guest pointer that faults in a copy, or the vDSO reading the clock.
fn host_trap(worker: &mut WorkerState, signal: i32, context: &mut libc::ucontext_t) -> bool {
    let saved = &mut context.uc_mcontext.gregs;
    let rip = saved[libc::REG_RIP as usize] as u64;
    match signal {
        libc::SIGSEGV | libc::SIGBUS if copy::fixup_for(rip).is_some() => {
            saved[libc::REG_RIP as usize] = copy::fixup_for(rip).unwrap_or(rip) as i64;
            true
        }
        libc::SIGSEGV if worker.tsc_open == 0 && saved[libc::REG_TRAPNO as usize] == 13 => {
            worker.tsc_open = 1;
            // SAFETY: the selector was opened by our caller.
            unsafe { set_tsc_open(true) };
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
