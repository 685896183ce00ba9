//! Threads and processes: exit, execve, ids, groups and sessions, prctl, arch_prctl. clone and wait have files of their own.

use super::credentials;
use crate::ctx::Ctx;
use crate::exec::Asked;
use crate::family::INIT;
use crate::ids::Pid;
use crate::outcome::{Outcome, SysResult};
use crate::process::ExitStatus;
use linux_abi::capability::{CAP_SYS_RESOURCE, SECBIT_KEEP_CAPS};
use linux_abi::fs::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use linux_abi::process::*;
use linux_abi::{Errno, Signal};

/// exit(2): the calling thread ends.
pub(super) fn exit(ctx: &mut Ctx<'_>, [status, ..]: [u64; 6]) -> SysResult {
    ctx.end_thread(status as i32);
    Err(Outcome::NoReturn)
}

/// exit_group(2).
pub(super) fn exit_group(ctx: &mut Ctx<'_>, [status, ..]: [u64; 6]) -> SysResult {
    ctx.process.ending = Some(ExitStatus::Exited(status as i32 & 0xff));
    Err(Outcome::NoReturn)
}

/// execve(2).
pub(super) fn execve(ctx: &mut Ctx<'_>, [path, argv, envp, ..]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    exec(ctx, &Asked::by_path(&path), argv, envp)
}

/// execveat(2): relative to a directory, or the open file itself (AT_EMPTY_PATH).
pub(super) fn execveat(ctx: &mut Ctx<'_>, [dirfd, path, argv, envp, flags, _]: [u64; 6]) -> SysResult {
    let path = ctx.path_argument(path)?;
    let flags = flags as u32;
    if flags & !(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if path.is_empty() && flags & AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT.into());
    }
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    if path.starts_with(b"/") || dirfd as i32 == AT_FDCWD {
        return exec(ctx, &Asked { follow, ..Asked::by_path(&path) }, argv, envp);
    }
    let is_closed = ctx.fds().cloexec(dirfd)?;
    let name = format!("/dev/fd/{}", dirfd as u32).into_bytes();
    if path.is_empty() {
        ctx.file(dirfd)?;
        let path = format!("/proc/self/fd/{}", dirfd as u32).into_bytes();
        return exec(ctx, &Asked { path: &path, name, follow: true, is_closed }, argv, envp);
    }
    let name = [&name[..], b"/", &path].concat();
    let path = [&super::paths::start_of(ctx, dirfd)?[..], b"/", &path].concat();
    exec(ctx, &Asked { path: &path, name, follow, is_closed }, argv, envp)
}

fn exec(ctx: &mut Ctx<'_>, asked: &Asked<'_>, argv: u64, envp: u64) -> SysResult {
    let mut arguments = string_vector(ctx, argv)?;
    if arguments.is_empty() {
        // As since Linux 5.18: programs rely on a name for themselves.
        arguments.push(Vec::new());
    }
    let environment = string_vector(ctx, envp)?;
    ctx.exec(asked, arguments, environment)?;
    Err(Outcome::NoReturn)
}

/// A NULL-terminated vector of strings. E2BIG past what Linux takes.
fn string_vector(ctx: &Ctx<'_>, mut at: u64) -> Result<Vec<Vec<u8>>, Outcome> {
    // Without its NUL, which counts.
    const STRING_MAX: usize = (128 << 10) - 1;
    const TOTAL_MAX: usize = 2 << 20;
    let mut list = Vec::new();
    let mut total = 0;
    while at != 0 {
        let pointer: u64 = ctx.process.memory.read_value(at)?;
        if pointer == 0 {
            break;
        }
        let text = ctx.process.memory.read_cstr(pointer, STRING_MAX)?.ok_or(Errno::E2BIG)?;
        total += text.len() + 9;
        if total > TOTAL_MAX {
            return Err(Errno::E2BIG.into());
        }
        list.push(text);
        at += 8;
    }
    Ok(list)
}

/// getpid(2).
pub(super) fn getpid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.process.pid.0.into())
}

/// getppid(2).
pub(super) fn getppid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.process.parent.0.into())
}

/// gettid(2).
pub(super) fn gettid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.thread.tid.0.into())
}

/// getpgrp(2).
pub(super) fn getpgrp(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.process.group.0.into())
}

/// getpgid(2), getsid(2): of the caller, or of another process of the host.
pub(super) fn getpgid(ctx: &mut Ctx<'_>, [pid, ..]: [u64; 6]) -> SysResult {
    of_process(ctx, pid, |process| process.group.0)
}

pub(super) fn getsid(ctx: &mut Ctx<'_>, [pid, ..]: [u64; 6]) -> SysResult {
    of_process(ctx, pid, |process| process.session.0)
}

fn of_process(ctx: &Ctx<'_>, pid: u64, read: impl Fn(&crate::Process) -> u32) -> SysResult {
    let pid = pid as u32;
    if pid == INIT.0 {
        return Ok(INIT.0.into());
    }
    let pid = if pid == 0 { ctx.process.pid } else { process_of_thread(ctx, pid).ok_or(Errno::ESRCH)? };
    let process = if pid == ctx.process.pid { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid.0) };
    process.map(|process| read(process).into()).ok_or(Errno::ESRCH.into())
}

/// The process that a thread belongs to, zombies included: ids of threads name their processes where those do (`find_task_by_vpid`).
pub(crate) fn process_of_thread(ctx: &Ctx<'_>, tid: u32) -> Option<Pid> {
    let is_own = tid == ctx.process.pid.0 || ctx.process.threads.iter().any(|own| own.0 == tid);
    let known = ctx.kernel.processes.get(tid).map(|process| process.pid);
    let known = known.or_else(|| ctx.kernel.threads.get(tid).map(|thread| thread.pid));
    if is_own { Some(ctx.process.pid) } else { known }
}

/// setpgid(2): of the caller, or of a child that has not executed a program yet.
pub(super) fn setpgid(ctx: &mut Ctx<'_>, [pid, group, ..]: [u64; 6]) -> SysResult {
    let own = ctx.process.pid;
    if (group as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let pid = if pid as u32 == 0 { own } else { Pid(pid as u32) };
    let group = if group as u32 == 0 { pid } else { Pid(group as u32) };
    let session = ctx.process.session;
    let target = if pid == own {
        &*ctx.process
    } else {
        if process_of_thread(ctx, pid.0).is_some_and(|process| process != pid) {
            // A thread that leads none.
            return Err(Errno::EINVAL.into());
        }
        // One that has ended is a child, too, until somebody waits for it.
        let child = ctx.kernel.processes.get(pid.0).filter(|child| child.parent == own);
        let child = child.ok_or(Errno::ESRCH)?;
        if child.session != session {
            return Err(Errno::EPERM.into());
        }
        if child.has_execed {
            return Err(Errno::EACCES.into());
        }
        child
    };
    if target.session == pid || (group != pid && !is_group_of(ctx, group, session)) {
        return Err(Errno::EPERM.into());
    }
    if pid == own {
        ctx.kernel.family.change_group(ctx.process, group);
    } else if let Some(mut child) = ctx.kernel.processes.take(pid.0) {
        ctx.kernel.family.change_group(&mut child, group);
        ctx.kernel.processes.put(pid.0, child);
    }
    Ok(0)
}

/// Whether a group exists and belongs to a session.
fn is_group_of(ctx: &Ctx<'_>, group: Pid, session: Pid) -> bool {
    ctx.kernel.family.members(group).any(|pid| {
        let member = if pid == ctx.process.pid { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid.0) };
        member.is_some_and(|member| member.session == session)
    })
}

/// setsid(2): the leader of a group may not.
pub(super) fn setsid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    let own = ctx.process.pid;
    if ctx.kernel.family.members(own).next().is_some() {
        return Err(Errno::EPERM.into());
    }
    ctx.kernel.family.change_group(ctx.process, own);
    ctx.process.session = own;
    ctx.process.terminal = None;
    Ok(own.0.into())
}

/// set_tid_address(2).
pub(super) fn set_tid_address(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    ctx.thread.clear_child_tid = address;
    Ok(ctx.thread.tid.0.into())
}

/// arch_prctl(2).
pub(super) fn arch_prctl(ctx: &mut Ctx<'_>, [code, address, ..]: [u64; 6]) -> SysResult {
    let registers = ctx.thread.vcpu.registers_mut();
    match code as i32 {
        ARCH_SET_FS => Ok(registers.set_fs_base(address).map(|()| 0).map_err(|_| Errno::EPERM)?),
        ARCH_SET_GS => {
            registers.set_gs_base(address).map_err(|_| Errno::EPERM)?;
            ctx.begin_to_use_gs();
            Ok(0)
        }
        ARCH_GET_FS => {
            ctx.process.memory.write_value(address, &registers.fs_base())?;
            Ok(0)
        }
        ARCH_GET_GS => {
            ctx.process.memory.write_value(address, &registers.gs_base())?;
            Ok(0)
        }
        // A processor whose CPUID instruction cannot be made to fault.
        ARCH_GET_CPUID => Ok(1),
        ARCH_SET_CPUID => Err(Errno::ENODEV.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// prctl(2).
pub(super) fn prctl(ctx: &mut Ctx<'_>, [option, a, b, c, d, _]: [u64; 6]) -> SysResult {
    let memory = &ctx.process.memory;
    match option as i32 {
        PR_SET_NAME => {
            let mut name = [0u8; TASK_COMM_LEN - 1];
            let read = memory.read_partial(a, &mut name);
            let end = name[..read].iter().position(|byte| *byte == 0);
            if end.is_none() && read < name.len() {
                return Err(Errno::EFAULT.into());
            }
            ctx.thread.name = name[..end.unwrap_or(read)].to_vec();
            Ok(0)
        }
        PR_GET_NAME => {
            let mut name = [0u8; TASK_COMM_LEN];
            let length = ctx.thread.name.len().min(TASK_COMM_LEN - 1);
            name[..length].copy_from_slice(&ctx.thread.name[..length]);
            memory.write(a, &name)?;
            Ok(0)
        }
        PR_SET_PDEATHSIG if a == 0 || Signal::from_raw(a as i32).is_some() => {
            ctx.thread.parent_death_signal = a as i32;
            Ok(0)
        }
        PR_GET_PDEATHSIG => {
            memory.write_value(a, &ctx.thread.parent_death_signal)?;
            Ok(0)
        }
        PR_SET_DUMPABLE if a <= 1 => {
            ctx.set_dumpable(a == 1);
            Ok(0)
        }
        PR_GET_DUMPABLE => Ok(ctx.process.dumpable.into()),
        PR_SET_KEEPCAPS => credentials::set_keep(ctx, a),
        PR_GET_KEEPCAPS => Ok(ctx.credentials().has_secure_bit(SECBIT_KEEP_CAPS).into()),
        PR_SET_SECUREBITS => credentials::set_securebits(ctx, a),
        PR_GET_SECUREBITS => Ok(ctx.credentials().securebits.into()),
        PR_CAPBSET_DROP => credentials::drop_bounding(ctx, a),
        PR_CAP_AMBIENT => credentials::ambient(ctx, [a, b, c, d]),
        PR_SET_NO_NEW_PRIVS if a == 1 && b == 0 && c == 0 && d == 0 => {
            ctx.thread.no_new_privileges = true;
            Ok(0)
        }
        PR_GET_NO_NEW_PRIVS if a == 0 && b == 0 && c == 0 && d == 0 => Ok(ctx.thread.no_new_privileges.into()),
        PR_SET_CHILD_SUBREAPER => {
            ctx.process.subreaper = a != 0;
            Ok(0)
        }
        PR_GET_CHILD_SUBREAPER => {
            memory.write_value(a, &i32::from(ctx.process.subreaper))?;
            Ok(0)
        }
        PR_SET_TIMERSLACK => {
            let [slack, usual] = &mut ctx.thread.timer_slack;
            *slack = if a as i64 <= 0 { *usual } else { a };
            Ok(0)
        }
        PR_GET_TIMERSLACK => Ok(ctx.thread.timer_slack[0]),
        PR_SET_TSC if matches!(a as i32, PR_TSC_ENABLE | PR_TSC_SIGSEGV) => {
            ctx.thread.tsc_faults = a as i32 == PR_TSC_SIGSEGV;
            Ok(0)
        }
        PR_GET_TSC => {
            let state = if ctx.thread.tsc_faults { PR_TSC_SIGSEGV } else { PR_TSC_ENABLE };
            memory.write_value(a, &state)?;
            Ok(0)
        }
        PR_GET_TIMING => Ok(PR_TIMING_STATISTICAL as u64),
        PR_SET_TIMING if a == PR_TIMING_STATISTICAL as u64 => Ok(0),
        PR_GET_TID_ADDRESS => {
            memory.write_value(a, &ctx.thread.clear_child_tid)?;
            Ok(0)
        }
        PR_SET_THP_DISABLE if b == 0 && c == 0 && d == 0 => {
            ctx.process.no_huge_pages = a != 0;
            Ok(0)
        }
        PR_GET_THP_DISABLE if a == 0 && b == 0 && c == 0 && d == 0 => Ok(ctx.process.no_huge_pages.into()),
        PR_SET_PTRACER => set_ptracer(ctx, a),
        PR_SET_VMA => Ok(0),
        PR_SET_MM if !ctx.credentials().can(CAP_SYS_RESOURCE) => Err(Errno::EPERM.into()),
        PR_CAPBSET_READ => credentials::bounding(ctx, a),
        PR_SET_SECCOMP => super::seccomp::set_by_prctl(ctx, a, b),
        PR_GET_SECCOMP => super::seccomp::get_by_prctl(ctx),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// PR_SET_PTRACER: who may trace, though nobody can. Nobody, anybody, or a process that there is (`yama_task_prctl`). EINVAL.
fn set_ptracer(ctx: &Ctx<'_>, tracer: u64) -> SysResult {
    let known = |pid: u32| pid == ctx.process.pid.0 || ctx.kernel.processes.get(pid).is_some();
    let valid = matches!(tracer, 0 | u64::MAX) || u32::try_from(tracer).is_ok_and(known);
    if valid { Ok(0) } else { Err(Errno::EINVAL.into()) }
}

/// sched_yield(2): the thread goes to the end of the host's queue. A long run of nothing but yields lets time pass, so that
/// spinning on something that only time brings ends.
pub(super) fn sched_yield(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    ctx.thread.yields = true;
    Ok(0)
}
