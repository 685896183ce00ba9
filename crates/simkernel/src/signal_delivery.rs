//! Delivery of signals to a thread's registers: frames as the x86-64 kernel builds them, `rt_sigreturn`, default actions, and
//! what becomes of the system call that a signal interrupted.
//!
//! Signals are delivered when a thread is about to go back to its program: behind a system call, or at a fault. A frame shows
//! the program's own code: addresses in a sled are translated on the way in and on the way out.

use crate::crash::Cause;
use crate::ctx::Ctx;
use crate::outcome::Restart;
use crate::process::ExitStatus;
use crate::signal::{Disposition, SigSet};
use guest::{FaultInfo, PAGE, SIGNAL_XSAVE_BYTES};
use linux_abi::signal::*;
use linux_abi::{Errno, Signal};
use zerocopy::{FromZeros, IntoBytes};

/// Below a function's stack pointer, these bytes are its own (System V ABI, "The Stack Frame").
const RED_ZONE_BYTES: u64 = 128;
const DIRECTION_FLAG: u64 = 0x400;
const RESUME_FLAG: u64 = 0x1_0000;
const USER_CODE_SEGMENT: u16 = 0x33;
const USER_STACK_SEGMENT: u16 = 0x2b;
/// The features in a frame: x87, SSE, AVX.
const FRAME_FEATURES: u64 = 0b111;

/// Whether `rsp` lies on an alternate stack, which it cannot while that is disarmed
/// (`on_sig_stack`).
pub(crate) fn is_on(stack: &StackT, rsp: u64) -> bool {
    stack.ss_flags & SS_AUTODISARM == 0 && is_within(stack, rsp)
}

fn is_within(stack: &StackT, rsp: u64) -> bool {
    rsp > stack.ss_sp && rsp - stack.ss_sp <= stack.ss_size
}

/// Where a frame begins from the top down. With the alternate stack that it is to stay within: the
/// one that it is on, or comes to (`get_sigframe`).
fn frame_top(stack: &StackT, rsp: u64, flags: u64) -> (u64, Option<StackT>) {
    let top = rsp.wrapping_sub(RED_ZONE_BYTES);
    if flags & SA_ONSTACK != 0 && stack.ss_size != 0 && !is_on(stack, top) {
        return (stack.ss_sp.wrapping_add(stack.ss_size), Some(*stack));
    }
    (top, is_on(stack, rsp).then_some(*stack))
}

/// Gives a thread another alternate stack. EPERM while `rsp` is on the present one; EINVAL, ENOMEM
/// (`do_sigaltstack`).
pub(crate) fn set_altstack(present: &mut StackT, stack: StackT, rsp: u64) -> Result<(), Errno> {
    if is_on(present, rsp) {
        return Err(Errno::EPERM);
    }
    *present = match stack.ss_flags & !SS_AUTODISARM {
        SS_DISABLE => StackT { ss_flags: stack.ss_flags, ..StackT::default() },
        0 | SS_ONSTACK if stack.ss_size < MINSIGSTKSZ => return Err(Errno::ENOMEM),
        0 | SS_ONSTACK => StackT { pad0: 0, ..stack },
        _ => return Err(Errno::EINVAL),
    };
    Ok(())
}

/// Gives the thread's pending signals their effect, before it runs on. `interrupted` is the restart kind of a call that a signal
/// ended; rax then still has to be decided.
pub(crate) fn deliver(ctx: &mut Ctx<'_>, mut interrupted: Option<Restart>) {
    if interrupted.is_none() {
        // The mask of a call that was not interrupted ends with it
        // (`restore_saved_sigmask_unless`).
        restore_mask(ctx);
    }
    while deliver_pending(ctx, &mut interrupted) {
        finish_interrupted(ctx, interrupted.take(), None);
        if !restore_mask(ctx) || !ctx.signal_pending() {
            return;
        }
    }
}

/// Ends the mask that a call had for its own duration. Whether there was one.
fn restore_mask(ctx: &mut Ctx<'_>) -> bool {
    let saved = ctx.thread.signals.saved_mask.take();
    if let Some(mask) = saved {
        ctx.thread.signals.blocked = mask;
    }
    saved.is_some()
}

/// Gives all signals their effect that the thread does not hold back. False when it does not run
/// on.
fn deliver_pending(ctx: &mut Ctx<'_>, interrupted: &mut Option<Restart>) -> bool {
    loop {
        let left = SigSet(ctx.left_to_another());
        let next = ctx.take_signal(ctx.thread.signals.blocked, left);
        let Some(info) = next else { break };
        let signal = info.si_signo as u32;
        let disposition = ctx.handlers().of(signal);
        match disposition.handler {
            SIG_IGN => {}
            SIG_DFL => default_action(ctx, &info),
            _ => {
                finish_interrupted(ctx, interrupted.take(), Some(&disposition));
                run_handler(ctx, &info, &disposition, (0, 0));
            }
        }
        if ctx.process.ending.is_some() {
            return false;
        }
        if ctx.process.job.stopped.is_some() {
            // Goes on here when the process does.
            ctx.thread.interrupted = interrupted.take();
            return false;
        }
    }
    true
}

/// Decides between EINTR and executing the call again, signal(7), "Interruption of system calls".
fn finish_interrupted(ctx: &mut Ctx<'_>, interrupted: Option<Restart>, handled_by: Option<&Disposition>) {
    let Some(restart) = interrupted else { return };
    let again = match (restart, handled_by) {
        (Restart::Never, _) => false,
        (Restart::NoIntr, _) | (_, None) => true,
        (Restart::Sys, Some(disposition)) => disposition.flags & SA_RESTART != 0,
        (Restart::NoHand | Restart::Block, Some(_)) => false,
    };
    let number = ctx.thread.call.number;
    if again {
        let rip = ctx.thread.vcpu.registers().rip;
        let original = ctx.process.memory.original_address(rip);
        ctx.thread.vcpu.restart_syscall(number, original);
        if restart == Restart::Block && handled_by.is_none() {
            ctx.thread.resumed_deadline = ctx.thread.call.deadline;
        }
    } else {
        ctx.thread.vcpu.registers_mut().rax = Errno::EINTR.to_return();
    }
}

fn default_action(ctx: &mut Ctx<'_>, info: &Siginfo) {
    let number = info.si_signo;
    let Some(signal) = Signal::from_raw(number) else { return };
    match signal.default_action() {
        DefaultAction::Terminate => ctx.process.ending = Some(ExitStatus::Signaled(number)),
        DefaultAction::CoreDump => ctx.crash(info, Cause::Signal),
        DefaultAction::Ignore | DefaultAction::Continue => {}
        DefaultAction::Stop => {
            // Nobody could continue a group without a shell, POSIX XSH 2.4.3.
            let group = ctx.process.group;
            if signal == Signal::SIGSTOP || !ctx.kernel.is_orphaned(group, Some(ctx.process)) {
                ctx.kernel.stop_process(ctx.process, number);
            }
        }
    }
}

/// A hardware exception of the guest: its signal, which cannot be held back or ignored.
pub(crate) fn fault(ctx: &mut Ctx<'_>, fault: &FaultInfo) {
    let Some(signal) = Signal::from_raw(fault.signal) else { return };
    let info = Siginfo::fault(signal, fault_code(ctx, fault), fault.address);
    let cr2 = if fault.trap_number == 14 { fault.address } else { 0 };
    force(ctx, &info, Cause::Fault(*fault), (fault.trap_number | fault.error_code << 32, cr2));
}

/// Delivers a signal that follows from what the thread has just done. Held back or ignored it ends the process, and takes the handler with
/// it, from all that share it (`force_sig_info_to_task`).
fn force(ctx: &mut Ctx<'_>, info: &Siginfo, cause: Cause, trap: (u64, u64)) {
    let signal = info.si_signo as u32;
    let held = ctx.thread.signals.blocked.contains(signal);
    if held || ctx.handlers().of(signal).handler == SIG_IGN {
        ctx.handlers_mut().of_mut(signal).handler = SIG_DFL;
    }
    let disposition = ctx.handlers().of(signal);
    if disposition.handler == SIG_DFL {
        ctx.crash(info, cause);
    } else {
        run_handler(ctx, info, &disposition, trap);
    }
}

/// An instruction that the thread may not execute (a general protection fault): SIGSEGV without an address.
pub(crate) fn general_protection(ctx: &mut Ctx<'_>) {
    const TRAP: u64 = 13;
    let info =
        FaultInfo { signal: Signal::SIGSEGV.raw(), code: SI_KERNEL, address: 0, trap_number: TRAP, error_code: 0 };
    fault(ctx, &info);
}

/// The code of a fault. What really lies under a guest's addresses is not always what it has mapped: whether a page fault is one of rights
/// or of nothing being there, its own mappings say.
fn fault_code(ctx: &Ctx<'_>, fault: &FaultInfo) -> i32 {
    match fault.code {
        SEGV_MAPERR | SEGV_ACCERR if fault.signal == Signal::SIGSEGV.raw() => {
            if ctx.process.memory.is_mapped(fault.address & !(PAGE - 1), PAGE) { SEGV_ACCERR } else { SEGV_MAPERR }
        }
        code => code,
    }
}

/// Builds the frame and points the thread at the handler. `trap` is (trap number | error code << 32, cr2).
fn run_handler(ctx: &mut Ctx<'_>, info: &Siginfo, disposition: &Disposition, trap: (u64, u64)) {
    ctx.abort_sequence();
    if push_frame(ctx, info, disposition, trap).is_none() {
        return no_room_for_frame(ctx, info.si_signo);
    }
    let signal = info.si_signo as u32;
    let blocked = &mut ctx.thread.signals.blocked;
    *blocked = SigSet(blocked.0 | disposition.mask.0);
    if disposition.flags & SA_NODEFER == 0 {
        blocked.insert(signal);
    }
    *blocked = blocked.without(SigSet::UNBLOCKABLE);
    if disposition.flags & SA_RESETHAND != 0 {
        ctx.handlers_mut().of_mut(signal).handler = SIG_DFL;
    }
    if ctx.thread.altstack.ss_flags & SS_AUTODISARM != 0 {
        ctx.thread.altstack = StackT { ss_flags: SS_DISABLE, ..StackT::default() };
    }
}

/// A stack that cannot take a signal's frame is a SIGSEGV, which its handler may get on another stack; that of SIGSEGV itself ends the process.
fn no_room_for_frame(ctx: &mut Ctx<'_>, number: i32) {
    let info = Siginfo::new(Signal::SIGSEGV, SI_KERNEL);
    if number == info.si_signo {
        ctx.handlers_mut().of_mut(number as u32).handler = SIG_DFL;
    }
    force(ctx, &info, Cause::NoRoomForFrame(number), (0, 0));
}

fn push_frame(ctx: &mut Ctx<'_>, info: &Siginfo, disposition: &Disposition, trap: (u64, u64)) -> Option<()> {
    let thread = &mut *ctx.thread;
    let memory = &ctx.process.memory;
    let registers = *thread.vcpu.registers();
    let stack = thread.altstack;
    let (top, bounds) = frame_top(&stack, registers.rsp, disposition.flags);
    let area_bytes = SIGNAL_XSAVE_BYTES as u64 + 4;
    let area_at = top.wrapping_sub(area_bytes) & !63;
    let frame_at = (area_at.wrapping_sub(size_of::<RtSigframe>() as u64) & !15).wrapping_sub(8);
    if bounds.is_some_and(|stack| !is_within(&stack, frame_at)) {
        return None;
    }

    let mut area = thread.vcpu.extended_state();
    let software = FpxSwBytes {
        magic1: FP_XSTATE_MAGIC1,
        extended_size: area_bytes as u32,
        xfeatures: FRAME_FEATURES,
        xstate_size: SIGNAL_XSAVE_BYTES as u32,
        ..FpxSwBytes::new_zeroed()
    };
    area[FPX_SW_OFFSET..FPX_SW_OFFSET + 48].copy_from_slice(software.as_bytes());
    memory.write(area_at, &area).ok()?;
    memory.write_value(area_at + SIGNAL_XSAVE_BYTES as u64, &FP_XSTATE_MAGIC2).ok()?;

    // A call with a mask of its own (`ppoll`, `sigsuspend`) ends with the handler: the frame brings the real mask back.
    let mask = thread.signals.saved_mask.take().unwrap_or(thread.signals.blocked);
    let mut frame = RtSigframe::new_zeroed();
    frame.pretcode = disposition.restorer;
    frame.info = *info;
    frame.uc.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    let disabled = if stack.ss_size == 0 { SS_DISABLE } else { stack.ss_flags };
    frame.uc.uc_stack = StackT { ss_flags: disabled, ..stack };
    frame.uc.uc_sigmask = mask.0;
    frame.uc.uc_mcontext = context(&registers, memory.original_address(registers.rip));
    frame.uc.uc_mcontext.trapno = trap.0 & 0xffff_ffff;
    frame.uc.uc_mcontext.err = trap.0 >> 32;
    frame.uc.uc_mcontext.cr2 = trap.1;
    frame.uc.uc_mcontext.oldmask = mask.0;
    frame.uc.uc_mcontext.fpstate = area_at;
    memory.write_value(frame_at, &frame).ok()?;

    let target = thread.vcpu.registers_mut();
    target.rdi = info.si_signo as u64;
    target.rsi = frame_at + std::mem::offset_of!(RtSigframe, info) as u64;
    target.rdx = frame_at + std::mem::offset_of!(RtSigframe, uc) as u64;
    target.rax = 0;
    target.rip = disposition.handler;
    target.rsp = frame_at;
    target.rflags &= !(DIRECTION_FLAG | RESUME_FLAG);
    thread.vcpu.reset_extended_state();
    Some(())
}

fn context(r: &guest::Registers, rip: u64) -> Sigcontext {
    Sigcontext {
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip,
        eflags: r.rflags,
        cs: USER_CODE_SEGMENT,
        ss: USER_STACK_SEGMENT,
        ..Sigcontext::new_zeroed()
    }
}

/// `rt_sigreturn(2)`: the handler's `ret` has popped the frame's first word.
pub(crate) fn sigreturn(ctx: &mut Ctx<'_>) {
    if restore_frame(ctx).is_none() {
        force(ctx, &Siginfo::new(Signal::SIGSEGV, SI_KERNEL), Cause::BadFrame, (0, 0));
    }
}

/// The privilege of programs, which Linux gives to all segments in a frame.
const RING: u16 = 3;

/// None for what XRSTOR or FXRSTOR would refuse; without the mark of a whole area only what FXRSTOR knows is left.
fn check_extended_state(area: &mut [u8; SIGNAL_XSAVE_BYTES]) -> Option<()> {
    const HEADER: usize = 512;
    const X87_AND_SSE: u64 = 3;
    let word = |at: usize| area[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default();
    let (features, reserved) = (word(HEADER), word(HEADER + 8) | word(HEADER + 16));
    let mxcsr = u32::from_le_bytes([area[24], area[25], area[26], area[27]]);
    let is_whole = area[FPX_SW_OFFSET..FPX_SW_OFFSET + 4] == FP_XSTATE_MAGIC1.to_le_bytes();
    if mxcsr > u16::MAX.into() || (is_whole && (features & !FRAME_FEATURES != 0 || reserved != 0)) {
        return None;
    }
    if !is_whole {
        area[HEADER..HEADER + 8].copy_from_slice(&X87_AND_SSE.to_le_bytes());
    }
    Some(())
}

fn restore_frame(ctx: &mut Ctx<'_>) -> Option<()> {
    let memory = &ctx.process.memory;
    let rsp = ctx.thread.vcpu.registers().rsp;
    let frame_at = rsp.wrapping_sub(8);
    let frame: RtSigframe = memory.read_value(frame_at).ok()?;
    let c = &frame.uc.uc_mcontext;
    let mut area = None;
    if c.fpstate != 0 {
        let mut bytes = [0u8; SIGNAL_XSAVE_BYTES];
        memory.read(c.fpstate, &mut bytes).ok()?;
        check_extended_state(&mut bytes)?;
        area = Some(bytes);
    }
    let takes_stack = frame.uc.uc_flags & UC_STRICT_RESTORE_SS == 0 || c.ss | RING == USER_STACK_SEGMENT;
    if c.cs | RING != USER_CODE_SEGMENT || !takes_stack {
        return None;
    }
    let rip = memory.sled_address(c.rip);
    let r = ctx.thread.vcpu.registers_mut();
    (r.r8, r.r9, r.r10, r.r11) = (c.r8, c.r9, c.r10, c.r11);
    (r.r12, r.r13, r.r14, r.r15) = (c.r12, c.r13, c.r14, c.r15);
    (r.rdi, r.rsi, r.rbp, r.rbx) = (c.rdi, c.rsi, c.rbp, c.rbx);
    (r.rdx, r.rax, r.rcx, r.rsp) = (c.rdx, c.rax, c.rcx, c.rsp);
    (r.rip, r.rflags) = (rip, c.eflags);
    match area {
        Some(bytes) => ctx.thread.vcpu.set_extended_state(&bytes),
        None => ctx.thread.vcpu.reset_extended_state(),
    }
    ctx.thread.signals.blocked = SigSet(frame.uc.uc_sigmask).without(SigSet::UNBLOCKABLE);
    ctx.thread.signals.saved_mask = None;
    // A stack that cannot be had is left out: one in use, which the handler itself has set, or one
    // that it made up (`restore_altstack`).
    let _ = set_altstack(&mut ctx.thread.altstack, frame.uc.uc_stack, rsp);
    Some(())
}
