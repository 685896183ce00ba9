//! Scheduling: policies and priorities, I/O priorities. All are kept or checked, none has an effect.

use super::process::process_of_thread;
use super::system::{demand_scheduling, known_thread, named_process, thread_named};
use crate::ctx::Ctx;
use crate::outcome::{Outcome, SysResult};
use crate::schedule::{MOST_PRIORITY, Reservation, Schedule};
use linux_abi::Errno;
use linux_abi::capability::{CAP_SYS_ADMIN, CAP_SYS_NICE};
use linux_abi::process::{SCHED_FIFO, SCHED_RR, SchedParam};
use linux_abi::sysinfo::{RLIMIT_NICE, RLIMIT_RTPRIO};
use linux_abi::time::Timespec;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// `struct sched_attr` of linux/sched/types.h.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

/// Its first version.
const LEAST_SIZE: u32 = 48;
const PAGE: u32 = 4096;
/// `SCHED_FLAG_*`.
const FLAG_RESET_ON_FORK: u64 = 1;
const FLAG_KEEP_POLICY: u64 = 8;
const FLAG_KEEP_PARAMS: u64 = 16;
const FLAGS_UTIL_CLAMP: u64 = 0x60;
const ALL_FLAGS: u64 = 0x7f;
/// Beside a policy of sched_setscheduler(2).
const RESET_ON_FORK: i32 = 0x4000_0000;

/// How a call wants a thread to be scheduled.
struct Wanted {
    /// None leaves it as it is, and what becomes of children with it.
    policy: Option<i32>,
    resets_on_fork: bool,
    priority: u32,
    nice: i32,
    reservation: Reservation,
}

/// How a thread is scheduled, and its nice value. EINVAL for negative ids, ESRCH. Process 1 is as ordinary as what has ended.
fn schedule_of(ctx: &mut Ctx<'_>, tid: u64) -> Result<(Schedule, i32), Errno> {
    if (tid as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    known_thread(ctx, tid)?;
    Ok(thread_named(ctx, tid).map_or_else(Default::default, |thread| (thread.schedule, thread.nice)))
}

/// Schedules a thread anew (`__sched_setscheduler`). EINVAL, EPERM.
fn set_schedule(ctx: &mut Ctx<'_>, tid: u64, wanted: &Wanted) -> Result<(), Errno> {
    let (old, old_nice) = schedule_of(ctx, tid)?;
    let new = Schedule {
        policy: wanted.policy.unwrap_or(old.policy),
        priority: wanted.priority,
        resets_on_fork: if wanted.policy.is_some() { wanted.resets_on_fork } else { old.resets_on_fork },
        reservation: wanted.reservation,
    };
    if !new.is_sound() {
        return Err(Errno::EINVAL);
    }
    if needs_privilege(ctx, tid, (&old, old_nice), (&new, wanted.nice)) {
        ctx.credentials().demand(CAP_SYS_NICE)?;
    }
    demand_scheduling(ctx, tid)?;
    if let Some(thread) = thread_named(ctx, tid) {
        thread.schedule = new;
        if new.is_fair() {
            thread.nice = wanted.nice;
        }
    }
    Ok(())
}

/// Whether a change asks for more than everybody may (`user_check_sched_setscheduler`), but for whose thread it is.
fn needs_privilege(
    ctx: &mut Ctx<'_>,
    tid: u64,
    (old, old_nice): (&Schedule, i32),
    (new, nice): (&Schedule, i32),
) -> bool {
    let own = ctx.thread.tid.0;
    let pid = process_of_thread(ctx, if tid as u32 == 0 { own } else { tid as u32 });
    let limits = pid.and_then(|pid| named_process(ctx, pid.0.into()).ok()).map(|process| process.limits);
    let limit = |resource| limits.map_or(0, |limits| limits.soft(resource));
    let may_be = |nice: i32| i64::from(20 - nice) as u64 <= limit(RLIMIT_NICE);
    let most = limit(RLIMIT_RTPRIO);
    let is_nicer = new.is_fair() && nice < old_nice && !may_be(nice);
    let is_more_urgent = new.is_real_time()
        && (new.policy != old.policy && most == 0 || new.priority > old.priority && u64::from(new.priority) > most);
    let leaves_idle = old.is_idle() && !new.is_idle() && !may_be(old_nice);
    let stops_resetting = old.resets_on_fork && !new.resets_on_fork;
    is_nicer || is_more_urgent || leaves_idle || stops_resetting || new.has_deadlines()
}

/// The priority in a `struct sched_param`, and a check of the id. EINVAL, EFAULT, ESRCH.
fn priority_at(ctx: &mut Ctx<'_>, pid: u64, address: u64) -> Result<(u32, i32), Outcome> {
    if address == 0 || (pid as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let param: SchedParam = ctx.process.memory.read_value(address)?;
    let (_, nice) = schedule_of(ctx, pid)?;
    Ok((param.sched_priority as u32, nice))
}

/// sched_setscheduler(2).
pub(super) fn sched_setscheduler(ctx: &mut Ctx<'_>, [pid, policy, address, ..]: [u64; 6]) -> SysResult {
    let policy = policy as i32;
    if policy < 0 {
        return Err(Errno::EINVAL.into());
    }
    let (priority, nice) = priority_at(ctx, pid, address)?;
    let resets_on_fork = policy & RESET_ON_FORK != 0;
    let (policy, reservation) = (Some(policy & !RESET_ON_FORK), Reservation::default());
    set_schedule(ctx, pid, &Wanted { policy, resets_on_fork, priority, nice, reservation })?;
    Ok(0)
}

/// sched_setparam(2).
pub(super) fn sched_setparam(ctx: &mut Ctx<'_>, [pid, address, ..]: [u64; 6]) -> SysResult {
    let (priority, nice) = priority_at(ctx, pid, address)?;
    let reservation = Reservation::default();
    set_schedule(ctx, pid, &Wanted { policy: None, resets_on_fork: false, priority, nice, reservation })?;
    Ok(0)
}

/// sched_getscheduler(2).
pub(super) fn sched_getscheduler(ctx: &mut Ctx<'_>, [pid, ..]: [u64; 6]) -> SysResult {
    let (schedule, _) = schedule_of(ctx, pid)?;
    let reset = if schedule.resets_on_fork { RESET_ON_FORK } else { 0 };
    Ok((schedule.policy | reset) as u64)
}

/// sched_getparam(2).
pub(super) fn sched_getparam(ctx: &mut Ctx<'_>, [pid, address, ..]: [u64; 6]) -> SysResult {
    if address == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (schedule, _) = schedule_of(ctx, pid)?;
    ctx.process.memory.write_value(address, &SchedParam { sched_priority: schedule.priority as i32 })?;
    Ok(0)
}

/// sched_get_priority_max(2), sched_get_priority_min(2).
pub(super) fn priority_max(_ctx: &mut Ctx<'_>, [policy, ..]: [u64; 6]) -> SysResult {
    priority_range(policy).map(|(_, most)| most.into())
}

pub(super) fn priority_min(_ctx: &mut Ctx<'_>, [policy, ..]: [u64; 6]) -> SysResult {
    priority_range(policy).map(|(least, _)| least.into())
}

fn priority_range(policy: u64) -> Result<(u32, u32), Outcome> {
    match policy as i32 {
        SCHED_FIFO | SCHED_RR => Ok((1, MOST_PRIORITY)),
        0 | 3 | 5 | 6 => Ok((0, 0)),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// sched_rr_get_interval(2): the time slice of SCHED_RR, none for who runs until it waits, and what the fair ones get where nobody else runs.
pub(super) fn rr_interval(ctx: &mut Ctx<'_>, [pid, address, ..]: [u64; 6]) -> SysResult {
    const ROUND_NS: u64 = 100_000_000;
    const FAIR_NS: u64 = 4_000_000;
    let (schedule, _) = schedule_of(ctx, pid)?;
    let nanos = match schedule.policy {
        SCHED_RR => ROUND_NS,
        _ if schedule.is_fair() || schedule.is_idle() => FAIR_NS,
        _ => 0,
    };
    ctx.process.memory.write_value(address, &Timespec::from_nanos(nanos))?;
    Ok(0)
}

/// sched_getattr(2).
pub(super) fn sched_getattr(ctx: &mut Ctx<'_>, [pid, address, size, flags, ..]: [u64; 6]) -> SysResult {
    let size = size as u32;
    if address == 0 || flags != 0 || !(LEAST_SIZE..=PAGE).contains(&size) {
        return Err(Errno::EINVAL.into());
    }
    let (schedule, nice) = schedule_of(ctx, pid)?;
    let mut attr = SchedAttr::new_zeroed();
    attr.size = size.min(size_of::<SchedAttr>() as u32);
    attr.policy = schedule.policy as u32;
    attr.flags = if schedule.resets_on_fork { FLAG_RESET_ON_FORK } else { 0 };
    show_parameters(&mut attr, &schedule, nice);
    ctx.process.memory.write(address, &attr.as_bytes()[..attr.size as usize])?;
    Ok(0)
}

/// What belongs to a policy (`get_params`).
fn show_parameters(attr: &mut SchedAttr, schedule: &Schedule, nice: i32) {
    if schedule.has_deadlines() {
        let Reservation { runtime, deadline, period } = schedule.reservation;
        (attr.runtime, attr.deadline, attr.period) = (runtime, deadline, period);
    } else if schedule.is_real_time() {
        attr.priority = schedule.priority;
    } else {
        attr.nice = nice;
    }
}

/// sched_setattr(2).
pub(super) fn sched_setattr(ctx: &mut Ctx<'_>, [pid, address, flags, ..]: [u64; 6]) -> SysResult {
    if address == 0 || (pid as i32) < 0 || flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut attr = read_attributes(ctx, address)?;
    if (attr.policy as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let (old, old_nice) = schedule_of(ctx, pid)?;
    if attr.flags & FLAG_KEEP_PARAMS != 0 {
        show_parameters(&mut attr, &old, old_nice);
    }
    if attr.flags & !ALL_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if attr.flags & FLAGS_UTIL_CLAMP != 0 {
        // As a kernel without CONFIG_UCLAMP_TASK.
        return Err(Errno::EOPNOTSUPP.into());
    }
    let wanted = Wanted {
        policy: (attr.flags & FLAG_KEEP_POLICY == 0).then_some(attr.policy as i32),
        resets_on_fork: attr.flags & FLAG_RESET_ON_FORK != 0,
        priority: attr.priority,
        nice: attr.nice.clamp(-20, 19),
        reservation: Reservation { runtime: attr.runtime, deadline: attr.deadline, period: attr.period },
    };
    set_schedule(ctx, pid, &wanted)?;
    Ok(0)
}

/// A `struct sched_attr` of any version whose fields beyond those known are zero. E2BIG, which tells the size that is known; EFAULT.
fn read_attributes(ctx: &Ctx<'_>, address: u64) -> Result<SchedAttr, Outcome> {
    let memory = &ctx.process.memory;
    let size: u32 = memory.read_value(address)?;
    let size = if size == 0 { LEAST_SIZE } else { size };
    let mut attr = SchedAttr::new_zeroed();
    let known = size_of::<SchedAttr>();
    let mut rest = vec![0u8; (size.min(PAGE) as usize).saturating_sub(known)];
    let in_range = (LEAST_SIZE..=PAGE).contains(&size);
    if in_range {
        memory.read(address + known as u64, &mut rest)?;
    }
    if !in_range || rest.iter().any(|byte| *byte != 0) {
        memory.write_value(address, &(known as u32))?;
        return Err(Errno::E2BIG.into());
    }
    memory.read(address, &mut attr.as_mut_bytes()[..(size as usize).min(known)])?;
    Ok(attr)
}

const IOPRIO_PROCESS: i32 = 1;
const IOPRIO_USER: i32 = 3;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_CLASS_RT: u32 = 1;

/// ioprio_get(2): of a process; groups and users are taken for the caller.
pub(super) fn ioprio_get(ctx: &mut Ctx<'_>, [which, who, ..]: [u64; 6]) -> SysResult {
    Ok(io_subject(ctx, which, who)?.io_priority.into())
}

/// ioprio_set(2). EINVAL, ESRCH, and EPERM for the real-time class and for other users' processes.
pub(super) fn ioprio_set(ctx: &mut Ctx<'_>, [which, who, priority, ..]: [u64; 6]) -> SysResult {
    let own = Arc::clone(&ctx.thread.credentials);
    match (priority as u32 >> IOPRIO_CLASS_SHIFT & 7, priority as u32 & 7) {
        (IOPRIO_CLASS_RT, _) if !own.can(CAP_SYS_ADMIN) && !own.can(CAP_SYS_NICE) => return Err(Errno::EPERM.into()),
        (0, 0) | (1..=3, _) => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    let subject = io_subject(ctx, which, who)?;
    let user = subject.credentials.user.real;
    if user != own.user.effective && user != own.user.real && !own.can(CAP_SYS_NICE) {
        return Err(Errno::EPERM.into());
    }
    subject.io_priority = priority as u16;
    Ok(0)
}

fn io_subject<'a>(ctx: &'a mut Ctx<'_>, which: u64, who: u64) -> Result<&'a mut crate::Process, Errno> {
    match which as i32 {
        IOPRIO_PROCESS => {
            let who = if who as u32 == 0 { ctx.process.pid.0 } else { who as u32 };
            let pid = process_of_thread(ctx, who).ok_or(Errno::ESRCH)?;
            named_process(ctx, pid.0.into())
        }
        which if which > IOPRIO_PROCESS && which <= IOPRIO_USER => Ok(ctx.process),
        _ => Err(Errno::EINVAL),
    }
}
