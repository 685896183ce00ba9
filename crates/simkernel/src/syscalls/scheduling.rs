//! Scheduling and placement in the wider sense: sched_setattr, I/O priorities, NUMA policies of a machine with one node. All are kept
//! or checked, none has an effect.

use super::process::process_of_thread;
use super::system::{known_thread, named_process};
use crate::ctx::Ctx;
use crate::outcome::SysResult;
use linux_abi::Errno;
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

/// sched_getattr(2).
pub(super) fn sched_getattr(ctx: &mut Ctx<'_>, [pid, address, size, flags, ..]: [u64; 6]) -> SysResult {
    let size = size as u32;
    if address == 0 || (pid as i32) < 0 || flags != 0 || !(LEAST_SIZE..=PAGE).contains(&size) {
        return Err(Errno::EINVAL.into());
    }
    known_thread(ctx, pid)?;
    let mut attr = SchedAttr::new_zeroed();
    attr.size = size.min(size_of::<SchedAttr>() as u32);
    attr.nice = nice_of(ctx, pid);
    ctx.process.memory.write(address, &attr.as_bytes()[..attr.size as usize])?;
    Ok(0)
}

fn nice_of(ctx: &mut Ctx<'_>, tid: u64) -> i32 {
    thread_named(ctx, tid).map_or(0, |thread| thread.nice)
}

/// A thread by its id; 0 for the caller, which is not in the table.
fn thread_named<'a>(ctx: &'a mut Ctx<'_>, tid: u64) -> Option<&'a mut crate::Thread> {
    let tid = tid as u32;
    if tid == 0 || tid == ctx.thread.tid.0 { Some(ctx.thread) } else { ctx.kernel.threads.get_mut(tid) }
}

/// sched_setattr(2): the nice value is kept.
pub(super) fn sched_setattr(ctx: &mut Ctx<'_>, [pid, address, flags, ..]: [u64; 6]) -> SysResult {
    const POLICIES: [u32; 6] = [0, 1, 2, 3, 5, 6];
    if address == 0 || (pid as i32) < 0 || flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let size: u32 = ctx.process.memory.read_value(address)?;
    let size = if size == 0 { LEAST_SIZE } else { size };
    if !(LEAST_SIZE..=PAGE).contains(&size) {
        return Err(Errno::E2BIG.into());
    }
    let mut attr = SchedAttr::new_zeroed();
    let length = (size as usize).min(size_of::<SchedAttr>());
    ctx.process.memory.read(address, &mut attr.as_mut_bytes()[..length])?;
    known_thread(ctx, pid)?;
    let real_time = matches!(attr.policy, 1 | 2);
    if !POLICIES.contains(&attr.policy) || real_time != (1..=99).contains(&attr.priority) {
        return Err(Errno::EINVAL.into());
    }
    thread_named(ctx, pid).ok_or(Errno::ESRCH)?.nice = attr.nice.clamp(-20, 19);
    Ok(0)
}

const IOPRIO_PROCESS: i32 = 1;
const IOPRIO_USER: i32 = 3;
const IOPRIO_CLASS_SHIFT: u32 = 13;

/// ioprio_get(2): of a process; groups and users are taken for the caller.
pub(super) fn ioprio_get(ctx: &mut Ctx<'_>, [which, who, ..]: [u64; 6]) -> SysResult {
    Ok(io_subject(ctx, which, who)?.io_priority.into())
}

/// ioprio_set(2).
pub(super) fn ioprio_set(ctx: &mut Ctx<'_>, [which, who, priority, ..]: [u64; 6]) -> SysResult {
    let (class, level) = (priority as u32 >> IOPRIO_CLASS_SHIFT, priority as u32 & 7);
    if class > 3 || (class == 0 && level != 0) {
        return Err(Errno::EINVAL.into());
    }
    io_subject(ctx, which, who)?.io_priority = priority as u16;
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

const MPOL_MODES: u32 = 7;
const MPOL_MODE_FLAGS: u32 = 0xe000;
const MPOL_F_NODE: u64 = 1;
const MPOL_F_ADDR: u64 = 2;
const MPOL_F_MEMS_ALLOWED: u64 = 4;

/// Checks a policy and its nodes, of which there is number 0 only. EINVAL, EFAULT.
fn check_policy(ctx: &Ctx<'_>, mode: u64, mask: u64, nodes: u64) -> SysResult {
    let mode = mode as u32 & !MPOL_MODE_FLAGS;
    if mode >= MPOL_MODES {
        return Err(Errno::EINVAL.into());
    }
    if mask == 0 || nodes <= 1 {
        return Ok(0);
    }
    let first: u64 = ctx.process.memory.read_value(mask)?;
    let needs_nodes = matches!(mode, 1..=3 | 5 | 6);
    if first & !1 != 0 || (first == 0 && needs_nodes && mode != 1) || (mode == 0 && first != 0) {
        return Err(Errno::EINVAL.into());
    }
    Ok(0)
}

/// set_mempolicy(2).
pub(super) fn set_mempolicy(ctx: &mut Ctx<'_>, [mode, mask, nodes, ..]: [u64; 6]) -> SysResult {
    check_policy(ctx, mode, mask, nodes)
}

/// mbind(2).
pub(super) fn mbind(ctx: &mut Ctx<'_>, [address, bytes, mode, mask, nodes, _]: [u64; 6]) -> SysResult {
    check_policy(ctx, mode, mask, nodes)?;
    if !address.is_multiple_of(PAGE.into()) {
        return Err(Errno::EINVAL.into());
    }
    if ctx.process.memory.is_mapped(address, bytes) { Ok(0) } else { Err(Errno::EFAULT.into()) }
}

/// get_mempolicy(2): the default policy, node 0.
pub(super) fn get_mempolicy(ctx: &mut Ctx<'_>, [mode, mask, nodes, address, flags, _]: [u64; 6]) -> SysResult {
    let known = flags & !(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED) == 0;
    let alone = flags & MPOL_F_MEMS_ALLOWED == 0 || flags == MPOL_F_MEMS_ALLOWED;
    if !known || !alone || (address != 0 && flags & MPOL_F_ADDR == 0) || (mask != 0 && nodes == 0) {
        return Err(Errno::EINVAL.into());
    }
    if flags & MPOL_F_ADDR != 0 && !ctx.process.memory.is_mapped(address, 1) {
        return Err(Errno::EFAULT.into());
    }
    if mode != 0 {
        ctx.process.memory.write_value(mode, &0u32)?;
    }
    if mask != 0 {
        let first = u64::from(flags & MPOL_F_MEMS_ALLOWED != 0);
        for word in 0..nodes.div_ceil(64) {
            let value = if word == 0 { first } else { 0 };
            ctx.process.memory.write_value(mask + 8 * word, &value)?;
        }
    }
    Ok(0)
}

/// migrate_pages(2): all pages are where they can be.
pub(super) fn migrate_pages(ctx: &mut Ctx<'_>, [pid, ..]: [u64; 6]) -> SysResult {
    known_thread(ctx, pid)?;
    Ok(0)
}

/// move_pages(2): says that each page is on node 0, or EFAULT in its status.
pub(super) fn move_pages(ctx: &mut Ctx<'_>, [pid, count, pages, nodes, status, _]: [u64; 6]) -> SysResult {
    named_process(ctx, pid)?;
    for index in 0..count {
        let page: u64 = ctx.process.memory.read_value(pages + 8 * index)?;
        let wanted: i32 = if nodes == 0 { 0 } else { ctx.process.memory.read_value(nodes + 4 * index)? };
        if wanted != 0 {
            return Err(Errno::ENODEV.into());
        }
        let there = ctx.process.memory.is_mapped(page, 1);
        let value = if there { 0 } else { -Errno::EFAULT.raw() };
        ctx.process.memory.write_value(status + 4 * index, &value)?;
    }
    Ok(0)
}
