//! seccomp(2), its older form in prctl(2), and what a verdict does to a call.

use crate::bpf::{Instruction, PROGRAM_MAX};
use crate::crash::Cause;
use crate::ctx::Ctx;
use crate::ids::Tid;
use crate::outcome::{Outcome, SysResult};
use crate::process::ExitStatus;
use crate::seccomp::{AUDIT_ARCH_X86_64, CallData, Filter, Verdict};
use crate::thread::Thread;
use linux_abi::capability::CAP_SYS_ADMIN;
use linux_abi::process::*;
use linux_abi::signal::{SYS_SECCOMP, Siginfo};
use linux_abi::time::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME,
    CLOCK_REALTIME_COARSE, CLOCK_TAI,
};
use linux_abi::{Errno, Signal, nr};
use std::sync::Arc;

const SECCOMP_FILTER_FLAG_TSYNC: u64 = 1;
const SECCOMP_FILTER_FLAG_LOG: u64 = 2;
const SECCOMP_FILTER_FLAG_SPEC_ALLOW: u64 = 4;
const SECCOMP_FILTER_FLAG_TSYNC_ESRCH: u64 = 16;
/// PR_GET_SECCOMP's answers.
const MODE_DISABLED: u64 = 0;
const MODE_FILTER: u64 = 2;

/// seccomp(2).
pub(super) fn seccomp(ctx: &mut Ctx<'_>, [operation, flags, address, ..]: [u64; 6]) -> SysResult {
    match operation as i32 {
        SECCOMP_SET_MODE_STRICT if flags == 0 && address == 0 => set_strict(ctx),
        SECCOMP_SET_MODE_FILTER => set_filter(ctx, flags, address),
        SECCOMP_GET_ACTION_AVAIL if flags == 0 => {
            let action: u32 = ctx.process.memory.read_value(address)?;
            if Verdict::is_known(action) { Ok(0) } else { Err(Errno::EOPNOTSUPP.into()) }
        }
        SECCOMP_GET_NOTIF_SIZES if flags == 0 => {
            // struct seccomp_notif_sizes, of interfaces that no filter gets to use.
            ctx.process.memory.write_value(address, &[80u16, 24, 64])?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `prctl(PR_SET_SECCOMP)`.
pub(super) fn set_by_prctl(ctx: &mut Ctx<'_>, mode: u64, address: u64) -> SysResult {
    match mode {
        1 => set_strict(ctx),
        MODE_FILTER => set_filter(ctx, 0, address),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `prctl(PR_GET_SECCOMP)`.
pub(super) fn get_by_prctl(ctx: &Ctx<'_>) -> SysResult {
    Ok(if ctx.thread.seccomp.is_some() { MODE_FILTER } else { MODE_DISABLED })
}

/// Strict mode is the filter that allows four calls and kills the thread for any other, without a core (`__secure_computing_strict`).
fn set_strict(ctx: &mut Ctx<'_>) -> SysResult {
    if ctx.thread.seccomp.is_some() {
        return Err(Errno::EINVAL.into());
    }
    let load = Instruction { code: 0x20, jump_true: 0, jump_false: 0, k: 0 };
    let allowed = [nr::read, nr::write, nr::exit, nr::rt_sigreturn];
    let mut program = vec![load];
    for (index, number) in allowed.iter().enumerate() {
        let to_allow = (allowed.len() - index) as u8;
        program.push(Instruction { code: 0x15, jump_true: to_allow, jump_false: 0, k: *number });
    }
    for k in [0, 0x7fff_0000] {
        program.push(Instruction { code: 0x06, jump_true: 0, jump_false: 0, k });
    }
    let mut filter = Filter::new(program, None).map_err(|_| Errno::EINVAL)?;
    filter.is_strict = true;
    ctx.thread.seccomp = Some(Arc::new(filter));
    Ok(0)
}

fn set_filter(ctx: &mut Ctx<'_>, flags: u64, address: u64) -> SysResult {
    const KNOWN: u64 = SECCOMP_FILTER_FLAG_TSYNC
        | SECCOMP_FILTER_FLAG_LOG
        | SECCOMP_FILTER_FLAG_SPEC_ALLOW
        | SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    let memory = &ctx.process.memory;
    // struct sock_fprog: a 16-bit length, padding, a pointer.
    let [length, instructions]: [u64; 2] = memory.read_value(address)?;
    let length = length as u16 as usize;
    if !(1..=PROGRAM_MAX).contains(&length) {
        return Err(Errno::EINVAL.into());
    }
    if !ctx.thread.no_new_privileges && !ctx.credentials().can(CAP_SYS_ADMIN) {
        return Err(Errno::EACCES.into());
    }
    let mut bytes = vec![0; length * Instruction::BYTES];
    memory.read(instructions, &mut bytes)?;
    let (chunks, _) = bytes.as_chunks();
    let program = chunks.iter().map(|bytes| Instruction::from_bytes(*bytes)).collect();
    let filter = Filter::new(program, ctx.thread.seccomp.clone()).map_err(|_| Errno::EINVAL)?;
    let filter = Arc::new(filter);
    if flags & SECCOMP_FILTER_FLAG_TSYNC != 0 {
        if let Some(tid) = first_apart(ctx) {
            let explains = flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH == 0;
            return if explains { Ok(tid.0.into()) } else { Err(Errno::ESRCH.into()) };
        }
        let no_new_privileges = ctx.thread.no_new_privileges;
        for tid in &ctx.process.threads {
            if let Some(thread) = ctx.kernel.threads.get_mut(tid.0) {
                thread.seccomp = Some(filter.clone());
                thread.no_new_privileges |= no_new_privileges;
            }
        }
    }
    ctx.thread.seccomp = Some(filter);
    Ok(0)
}

/// The first thread whose filters the calling one does not have: it cannot be given the caller's in
/// place of its own (`seccomp_can_sync_threads`).
fn first_apart(ctx: &Ctx<'_>) -> Option<Tid> {
    let own = ctx.thread.seccomp.as_deref();
    let follows = |thread: &Thread| match &thread.seccomp {
        None => true,
        Some(filter) if filter.is_strict => false,
        Some(filter) => own.is_some_and(|own| own.includes(filter)),
    };
    let others = ctx.process.threads.iter().filter_map(|tid| ctx.kernel.threads.get(tid.0));
    others.filter(|thread| !follows(thread)).map(|thread| thread.tid).next()
}

/// What the calling thread's filters make of a call; None when it is allowed.
pub(super) fn judge(ctx: &mut Ctx<'_>, number: u64, args: [u64; 6]) -> Option<SysResult> {
    if is_read_of_page(number, args) {
        return None;
    }
    let filter = ctx.thread.seccomp.as_ref()?;
    let rip = ctx.process.memory.original_address(ctx.thread.vcpu.registers().rip);
    let is_strict = filter.is_strict;
    let verdict = filter.judge(&CallData { number: number as u32, instruction_pointer: rip, args });
    match verdict {
        Verdict::Allow => None,
        Verdict::Errno(0) => Some(Ok(0)),
        Verdict::Errno(number) => Some(Ok(-i64::from(number) as u64)),
        Verdict::Nobody => Some(Err(Errno::ENOSYS.into())),
        Verdict::Trap(data) => Some(trap(ctx, number, rip, data)),
        Verdict::KillThread if ctx.process.threads.len() > 1 => {
            ctx.end_thread(0);
            Some(Err(Outcome::NoReturn))
        }
        Verdict::KillThread if is_strict => {
            report_end(ctx, number);
            ctx.process.ending = Some(ExitStatus::Signaled(Signal::SIGKILL.raw()));
            Some(Err(Outcome::NoReturn))
        }
        Verdict::KillThread | Verdict::KillProcess => Some(kill(ctx, number, rip)),
    }
}

/// Whether a call reads a clock that programs read without one where there is a vDSO, which no filter sees. Most of these are answered before they come
/// here; the others must not differ from them.
fn is_read_of_page(number: u64, [clock, ..]: [u64; 6]) -> bool {
    match number as u32 {
        nr::gettimeofday | nr::time | nr::getcpu => true,
        nr::clock_gettime | nr::clock_getres => matches!(
            clock as i32,
            CLOCK_REALTIME
                | CLOCK_MONOTONIC
                | CLOCK_MONOTONIC_RAW
                | CLOCK_REALTIME_COARSE
                | CLOCK_MONOTONIC_COARSE
                | CLOCK_BOOTTIME
                | CLOCK_TAI
        ),
        _ => false,
    }
}

/// SIGSYS at the call, which does not happen; one that nobody can handle kills.
fn trap(ctx: &mut Ctx<'_>, number: u64, rip: u64, data: u16) -> SysResult {
    let signal = Signal::SIGSYS.raw() as u32;
    if ctx.thread.signals.blocked.contains(signal) || ctx.handlers().ignores(signal) {
        return kill(ctx, number, rip);
    }
    let mut info = Siginfo::sys(SYS_SECCOMP, rip, number as i32, AUDIT_ARCH_X86_64);
    info.si_errno = data.into();
    ctx.thread.signals.pending.add(info);
    Err(Outcome::NoReturn)
}

fn report_end(ctx: &mut Ctx<'_>, number: u64) {
    let name = nr::name(number).unwrap_or("an unknown call");
    ctx.report(format!("killed by its own seccomp filter at {name}"));
}

fn kill(ctx: &mut Ctx<'_>, number: u64, rip: u64) -> SysResult {
    report_end(ctx, number);
    let info = Siginfo::sys(SYS_SECCOMP, rip, number as i32, AUDIT_ARCH_X86_64);
    ctx.crash(&info, Cause::Seccomp);
    Err(Outcome::NoReturn)
}
