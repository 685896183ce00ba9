//! rt_sigaction, rt_sigprocmask, kill and their relatives. Delivery is in `signal_delivery`.

use super::poll::timespec_at;
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::files::signalfd;
use crate::ids::{Pid, Tid};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::process::Process;
use crate::signal::{Disposition, Room, SigSet};
use crate::signal_delivery;
use crate::signal_send::ends_at_once;
use crate::thread::Thread;
use linux_abi::capability::CAP_KILL;
use linux_abi::event::{SFD_CLOEXEC, SFD_NONBLOCK};
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::signal::*;
use linux_abi::sysinfo::{RLIM_INFINITY, RLIMIT_SIGPENDING};
use linux_abi::{Errno, Signal};

const SIGSET_BYTES: u64 = 8;
/// Flags that the kernel knows: it forgets all others, which is how programs find out.
const KEPT_FLAGS: u64 = SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_EXPOSE_TAGBITS
    | SA_RESTORER
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND;

fn signal_argument(number: u64) -> Result<u32, Errno> {
    Signal::from_raw(number as i32).map(|signal| signal.raw() as u32).ok_or(Errno::EINVAL)
}

/// rt_sigaction(2).
pub(super) fn rt_sigaction(ctx: &mut Ctx<'_>, [number, new, old, set_bytes, ..]: [u64; 6]) -> SysResult {
    if set_bytes != SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let signal = signal_argument(number)?;
    let index = signal as usize - 1;
    let request = if new == 0 { None } else { Some(ctx.process.memory.read_value::<KernelSigaction>(new)?) };
    if request.is_some() && SigSet::UNBLOCKABLE.contains(signal) {
        return Err(Errno::EINVAL.into());
    }
    let previous = ctx.handlers().0[index];
    if let Some(action) = request {
        ctx.handlers_mut().0[index] = Disposition {
            handler: action.handler,
            flags: action.flags & KEPT_FLAGS,
            restorer: action.restorer,
            mask: SigSet(action.mask).without(SigSet::UNBLOCKABLE),
        };
        if ctx.handlers().ignores(signal) {
            discard_everywhere(ctx, signal);
        }
    }
    if old != 0 {
        let action = KernelSigaction {
            handler: previous.handler,
            flags: previous.flags,
            restorer: previous.restorer,
            mask: previous.mask.0,
        };
        ctx.process.memory.write_value(old, &action)?;
    }
    Ok(0)
}

/// Ignoring a signal discards its pending instances, sigaction(2).
fn discard_everywhere(ctx: &mut Ctx<'_>, signal: u32) {
    let mut set = SigSet::EMPTY;
    set.insert(signal);
    ctx.kernel.discard_signals(ctx.process, Some(ctx.thread), set);
}

/// rt_sigprocmask(2).
pub(super) fn rt_sigprocmask(ctx: &mut Ctx<'_>, [how, new, old, set_bytes, ..]: [u64; 6]) -> SysResult {
    if set_bytes != SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let before = ctx.thread.signals.blocked;
    if new != 0 {
        let set = SigSet(ctx.process.memory.read_value(new)?);
        let blocked = match how as i32 {
            SIG_BLOCK => SigSet(before.0 | set.0),
            SIG_UNBLOCK => before.without(set),
            SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL.into()),
        };
        ctx.thread.signals.blocked = blocked.without(SigSet::UNBLOCKABLE);
    }
    if old != 0 {
        ctx.process.memory.write_value(old, &before.0)?;
    }
    Ok(0)
}

/// rt_sigpending(2).
pub(super) fn rt_sigpending(ctx: &mut Ctx<'_>, [set, set_bytes, ..]: [u64; 6]) -> SysResult {
    if set_bytes > SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let pending = (ctx.thread.signals.pending.set.0 | ctx.process.pending.set.0) & ctx.thread.signals.blocked.0;
    ctx.process.memory.write(set, &pending.to_le_bytes()[..set_bytes as usize])?;
    Ok(0)
}

/// rt_sigsuspend(2).
pub(super) fn rt_sigsuspend(ctx: &mut Ctx<'_>, [set, set_bytes, ..]: [u64; 6]) -> SysResult {
    if set_bytes != SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let mask = SigSet(ctx.process.memory.read_value(set)?).without(SigSet::UNBLOCKABLE);
    if ctx.thread.signals.saved_mask.is_none() {
        ctx.thread.signals.saved_mask = Some(ctx.thread.signals.blocked);
    }
    ctx.thread.signals.blocked = mask;
    Err(ctx.block(Restart::NoHand))
}

/// pause(2).
pub(super) fn pause(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(ctx.block(Restart::NoHand))
}

/// rt_sigtimedwait(2).
pub(super) fn rt_sigtimedwait(ctx: &mut Ctx<'_>, [set, info, timeout, set_bytes, ..]: [u64; 6]) -> SysResult {
    if set_bytes != SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let wanted = SigSet(ctx.process.memory.read_value(set)?).without(SigSet::UNBLOCKABLE);
    let timeout = timespec_at(ctx, timeout)?;
    ctx.thread.signals.awaited = SigSet::EMPTY;
    // One that came meanwhile and ends the process is not for the call.
    let open = wanted.without(ctx.thread.signals.blocked);
    let fatal = (1..=64).filter(|signal| open.contains(*signal) && ends_at_once(ctx.handlers(), *signal));
    let others = SigSet(fatal.fold(!wanted.0, |set, signal| set | 1 << (signal - 1)));
    let found = ctx.take_signal(others, SigSet::EMPTY);
    if let Some(found) = found {
        if info != 0 {
            ctx.process.memory.write_value(info, &found)?;
        }
        return Ok(found.si_signo as u64);
    }
    ctx.deadline_after(timeout);
    if ctx.expired() {
        return Err(Errno::EAGAIN.into());
    }
    if ctx.thread.wake == crate::Wake::Interrupted {
        return Err(Errno::EINTR.into());
    }
    ctx.thread.signals.awaited = wanted;
    match ctx.block(Restart::NoHand) {
        Outcome::Restart(_) => Err(Errno::EINTR.into()),
        outcome => Err(outcome),
    }
}

/// rt_sigreturn(2).
pub(super) fn rt_sigreturn(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    signal_delivery::sigreturn(ctx);
    Err(Outcome::NoReturn)
}

/// signalfd(2), the older call.
pub(super) fn signalfd(ctx: &mut Ctx<'_>, [fd, set, set_bytes, ..]: [u64; 6]) -> SysResult {
    signalfd4(ctx, [fd, set, set_bytes, 0, 0, 0])
}

/// signalfd4.
pub(super) fn signalfd4(ctx: &mut Ctx<'_>, [fd, set, set_bytes, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if set_bytes != SIGSET_BYTES {
        return Err(Errno::EINVAL.into());
    }
    let set = SigSet(ctx.process.memory.read_value(set)?).without(SigSet::UNBLOCKABLE);
    if flags & !(SFD_NONBLOCK | SFD_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let status = O_RDWR | if flags & SFD_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
    signalfd::create(ctx, fd, set, status, flags & SFD_CLOEXEC != 0)
}

/// sigaltstack(2).
pub(super) fn sigaltstack(ctx: &mut Ctx<'_>, [new, old, ..]: [u64; 6]) -> SysResult {
    let present = ctx.thread.altstack;
    let rsp = ctx.thread.vcpu.registers().rsp;
    let on_it = signal_delivery::is_on(&present, rsp);
    let request = if new == 0 { None } else { Some(ctx.process.memory.read_value::<StackT>(new)?) };
    if let Some(stack) = request {
        signal_delivery::set_altstack(&mut ctx.thread.altstack, stack, rsp)?;
    }
    if old != 0 {
        let state = if present.ss_size == 0 { SS_DISABLE } else { u32::from(on_it) };
        let ss_flags = state | present.ss_flags & SS_AUTODISARM;
        ctx.process.memory.write_value(old, &StackT { ss_flags, ..present })?;
    }
    Ok(0)
}

fn sender(ctx: &Ctx<'_>, signal: Signal, code: i32) -> Siginfo {
    Siginfo::kill(signal, code, ctx.process.pid.0 as i32, ctx.credentials().user.real)
}

/// Whether the caller may send a process of the host a signal (0: any), kill(2), "ERRORS". EPERM; ESRCH when there is none.
pub(super) fn demand_signal(ctx: &Ctx<'_>, pid: Pid, number: i32) -> Result<(), Errno> {
    if pid == ctx.process.pid {
        return Ok(());
    }
    if pid == INIT {
        return ctx.credentials().demand(CAP_KILL);
    }
    let target = ctx.kernel.processes.get(pid.0).ok_or(Errno::ESRCH)?;
    let continues = number == Signal::SIGCONT.raw() && target.session == ctx.process.session;
    if continues || ctx.credentials().may_signal(&target.credentials) { Ok(()) } else { Err(Errno::EPERM) }
}

/// kill(2): one process, a group, or all but the caller.
pub(super) fn kill(ctx: &mut Ctx<'_>, [target, number, ..]: [u64; 6]) -> SysResult {
    let number = number as i32;
    let own = ctx.process.pid;
    let targets: Vec<Pid> = match target as i32 {
        i32::MIN => return Err(Errno::ESRCH.into()),
        -1 => ctx.kernel.processes.iter().map(|process| process.pid).collect(),
        0 => ctx.kernel.family.members(ctx.process.group).collect(),
        group if group < 0 => ctx.kernel.family.members(Pid(group.unsigned_abs())).collect(),
        pid => process_of(ctx, pid).into_iter().collect(),
    };
    let signal = match number {
        0 => None,
        number => Some(Signal::from_raw(number).ok_or(Errno::EINVAL)?),
    };
    if targets.is_empty() {
        return Err(Errno::ESRCH.into());
    }
    let (allowed, refused): (Vec<Pid>, Vec<Pid>) =
        targets.into_iter().partition(|pid| demand_signal(ctx, *pid, number).is_ok());
    // Whoever asks for all gets no complaint about those that are not for it.
    if allowed.is_empty() && !refused.is_empty() && target as i32 != -1 {
        return Err(Errno::EPERM.into());
    }
    let Some(signal) = signal else { return Ok(0) };
    let info = sender(ctx, signal, SI_USER);
    // The caller comes last, so that it does not end before the others have theirs.
    for pid in allowed.iter().filter(|pid| **pid != own) {
        let info = room_for(ctx, *pid, &info).apply(info)?;
        ctx.signal_process(*pid, info);
    }
    if allowed.contains(&own) {
        let info = room_for(ctx, own, &info).apply(info)?;
        ctx.signal_process(own, info);
    }
    Ok(0)
}

/// The process that has a number, or a thread of that number. Process 1 is there for those who look, and heeds no signal.
fn process_of(ctx: &Ctx<'_>, number: i32) -> Option<Pid> {
    let number = number as u32;
    if number == INIT.0 {
        return Some(INIT);
    }
    let own = number == ctx.process.pid.0 || number == ctx.thread.tid.0;
    let process = ctx.kernel.processes.get(number).map(|process| process.pid);
    let of_thread = || ctx.kernel.threads.get(number).map(|thread| thread.pid);
    if own { Some(ctx.process.pid) } else { process.or_else(of_thread) }
}

/// tgkill(2).
pub(super) fn tgkill(ctx: &mut Ctx<'_>, [group, tid, number, ..]: [u64; 6]) -> SysResult {
    if (group as i32) <= 0 || (tid as i32) <= 0 {
        return Err(Errno::EINVAL.into());
    }
    send_to_thread(ctx, Some(Pid(group as u32)), Tid(tid as u32), number)
}

/// tkill(2).
pub(super) fn tkill(ctx: &mut Ctx<'_>, [tid, number, ..]: [u64; 6]) -> SysResult {
    if (tid as i32) <= 0 {
        return Err(Errno::EINVAL.into());
    }
    send_to_thread(ctx, None, Tid(tid as u32), number)
}

fn send_to_thread(ctx: &mut Ctx<'_>, group: Option<Pid>, tid: Tid, number: u64) -> SysResult {
    let to_self = tid == ctx.thread.tid;
    // A process that has ended stays known by its first thread's number until somebody waits for it.
    let over = ctx.kernel.processes.get(tid.0).is_some_and(|process| process.zombie.is_some());
    let pid = if over || tid.0 == INIT.0 {
        Pid(tid.0)
    } else if to_self {
        ctx.process.pid
    } else {
        ctx.kernel.threads.get(tid.0).map(|thread| thread.pid).ok_or(Errno::ESRCH)?
    };
    if group.is_some_and(|group| group != pid) {
        return Err(Errno::ESRCH.into());
    }
    demand_signal(ctx, pid, number as i32)?;
    if number as i32 == 0 {
        return Ok(0);
    }
    let signal = Signal::from_raw(number as i32).ok_or(Errno::EINVAL)?;
    let info = sender(ctx, signal, SI_TKILL);
    let info = room_for(ctx, pid, &info).apply(info)?;
    if !over {
        ctx.signal_thread(tid, info);
    }
    Ok(0)
}

/// What becomes of a signal for a process by its RLIMIT_SIGPENDING, which limits what waits for all processes of its user together.
pub(super) fn room_for(ctx: &Ctx<'_>, pid: Pid, info: &Siginfo) -> Room {
    // Nothing else asks for the limit.
    if Room::of(info, true) == Room::Queued {
        return Room::Queued;
    }
    let target = if pid == ctx.process.pid { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid.0) };
    Room::of(info, target.is_some_and(|target| is_queue_full(ctx, target)))
}

/// Whether no signal more can be queued for a process.
pub(super) fn is_queue_full(ctx: &Ctx<'_>, target: &Process) -> bool {
    let limit = target.limits.soft(RLIMIT_SIGPENDING);
    if limit == RLIM_INFINITY {
        return false;
    }
    let user = target.credentials.user.real;
    let of_process = |process: &Process| {
        let own = process.credentials.user.real == user;
        if own { process.pending.queued() + process.posix_timers.by_id.len() } else { 0 }
    };
    let of_thread =
        |thread: &Thread| if thread.credentials.user.real == user { thread.signals.pending.queued() } else { 0 };
    let processes: usize = ctx.kernel.processes.iter().map(of_process).sum();
    let threads: usize = ctx.kernel.threads.iter().map(of_thread).sum();
    (processes + threads + of_process(ctx.process) + of_thread(ctx.thread)) as u64 >= limit
}

/// rt_sigqueueinfo(2).
pub(super) fn rt_sigqueueinfo(ctx: &mut Ctx<'_>, [pid, number, info, ..]: [u64; 6]) -> SysResult {
    let mut info: Siginfo = ctx.process.memory.read_value(info)?;
    // Only of itself a thread may claim what the kernel says; of its process just the main thread is that (`do_rt_sigqueueinfo`).
    if pid as u32 != ctx.thread.tid.0 && (info.si_code >= 0 || info.si_code == SI_TKILL) {
        return Err(Errno::EPERM.into());
    }
    let pid = process_of(ctx, pid as i32).ok_or(Errno::ESRCH)?;
    demand_signal(ctx, pid, number as i32)?;
    if number as i32 == 0 {
        return Ok(0);
    }
    info.si_signo = signal_argument(number)? as i32;
    let info = room_for(ctx, pid, &info).apply(info)?;
    ctx.signal_process(pid, info);
    Ok(0)
}

/// rt_tgsigqueueinfo(2).
pub(super) fn rt_tgsigqueueinfo(ctx: &mut Ctx<'_>, [group, tid, number, info, ..]: [u64; 6]) -> SysResult {
    let mut info: Siginfo = ctx.process.memory.read_value(info)?;
    if group as u32 != ctx.process.pid.0 && info.si_code >= 0 {
        return Err(Errno::EPERM.into());
    }
    let known =
        tid as u32 == ctx.thread.tid.0 || ctx.kernel.threads.get(tid as u32).is_some_and(|t| t.pid.0 == group as u32);
    if !known {
        return Err(Errno::ESRCH.into());
    }
    demand_signal(ctx, Pid(group as u32), number as i32)?;
    if number as i32 == 0 {
        return Ok(0);
    }
    info.si_signo = signal_argument(number)? as i32;
    let info = room_for(ctx, Pid(group as u32), &info).apply(info)?;
    ctx.signal_thread(Tid(tid as u32), info);
    Ok(0)
}
