//! Threads and processes: clone, exit, execve, wait, ids, prctl, arch_prctl.

use crate::ctx::Ctx;
use crate::ids::Tid;
use crate::kernel::Report;
use crate::outcome::{Outcome, SysResult};
use crate::process::ExitStatus;
use crate::thread::Thread;
use linux_abi::process::*;
use linux_abi::{Errno, Signal};

/// clone(2): flags, stack, parent_tid, child_tid, tls.
pub(super) fn clone(ctx: &mut Ctx<'_>, [flags, stack, parent_tid, child_tid, tls, _]: [u64; 6]) -> SysResult {
    start_thread(ctx, &CloneArgs { flags, stack, parent_tid, child_tid, tls, ..CloneArgs::default() })
}

/// clone3(2).
pub(super) fn clone3(ctx: &mut Ctx<'_>, [args, size, ..]: [u64; 6]) -> SysResult {
    if size < CLONE_ARGS_SIZE_VER0 {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = [0u8; size_of::<CloneArgs>()];
    let known = (size as usize).min(bytes.len());
    ctx.process.memory.read(args, &mut bytes[..known])?;
    let mut args: CloneArgs = zerocopy::FromBytes::read_from_bytes(&bytes[..]).map_err(|_| Errno::EINVAL)?;
    args.stack = args.stack.wrapping_add(args.stack_size);
    start_thread(ctx, &args)
}

/// Starts a thread. Its registers are the caller's, extended state included, but for rax, rsp and FS.
fn start_thread(ctx: &mut Ctx<'_>, args: &CloneArgs) -> SysResult {
    const THREAD_FLAGS: u64 = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
    if args.flags & CLONE_THREAD != 0 && args.flags & THREAD_FLAGS != THREAD_FLAGS {
        return Err(Errno::EINVAL.into());
    }
    if args.flags & THREAD_FLAGS != THREAD_FLAGS {
        return refuse_process(ctx);
    }
    let tid = Tid(ctx.kernel.new_id());
    let number = u64::from(tid.0) as u32;
    if args.flags & CLONE_PARENT_SETTID != 0 {
        ctx.process.memory.write_value(args.parent_tid, &number)?;
    }
    if args.flags & CLONE_CHILD_SETTID != 0 {
        ctx.process.memory.write_value(args.child_tid, &number)?;
    }
    ctx.process.memory.seal_startup();
    let mut thread = Thread::new(tid, ctx.process.pid);
    thread.vcpu = ctx.thread.vcpu.duplicate();
    let registers = thread.vcpu.registers_mut();
    registers.rax = 0;
    if args.stack != 0 {
        registers.rsp = args.stack;
    }
    if args.flags & CLONE_SETTLS != 0 {
        registers.fs_base = args.tls;
    }
    if args.flags & CLONE_CHILD_CLEARTID != 0 {
        thread.clear_child_tid = args.child_tid;
    }
    thread.signals.blocked = ctx.thread.signals.blocked;
    thread.name.clone_from(&ctx.thread.name);
    ctx.process.threads.push(tid);
    ctx.kernel.threads.put(tid.0, Box::new(thread));
    ctx.kernel.runnable.push_back(tid);
    Ok(number.into())
}

/// A new process, not a thread: said once per program, since glibc's own error text would mislead.
fn refuse_process(ctx: &mut Ctx<'_>) -> SysResult {
    let number = ctx.thread.call.number;
    *ctx.kernel.unsupported_calls.entry(number).or_default() += 1;
    if ctx.process.reported.insert(number) {
        let message = "new processes (fork, vfork, posix_spawn) are not supported yet: it answered ENOSYS".to_owned();
        ctx.kernel.reports.push(Report { pid: ctx.process.pid, program: ctx.process.program_name(), message });
    }
    Err(Errno::ENOSYS.into())
}

/// A call that every program tries and none needs: not worth a report.
pub(super) fn refuse_quietly(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::ENOSYS.into())
}

/// fork(2), vfork(2).
pub(super) fn fork(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    refuse_process(ctx)
}

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
    let arguments = string_vector(ctx, argv)?;
    let environment = string_vector(ctx, envp)?;
    ctx.exec(&path, arguments, environment)?;
    Err(Outcome::NoReturn)
}

/// A NULL-terminated vector of strings. E2BIG past what Linux takes.
fn string_vector(ctx: &Ctx<'_>, mut at: u64) -> Result<Vec<Vec<u8>>, Outcome> {
    const STRING_MAX: usize = 128 << 10;
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

/// wait4(2): there are no child processes yet.
pub(super) fn wait4(_ctx: &mut Ctx<'_>, [_, _, options, ..]: [u64; 6]) -> SysResult {
    let known = WNOHANG | WUNTRACED | WCONTINUED | __WALL | __WCLONE | __WNOTHREAD;
    Err(if options as u32 & !known != 0 { Errno::EINVAL } else { Errno::ECHILD }.into())
}

/// waitid(2).
pub(super) fn waitid(_ctx: &mut Ctx<'_>, [_, _, _, options, ..]: [u64; 6]) -> SysResult {
    let wants = options as u32 & (WEXITED | WSTOPPED | WCONTINUED);
    Err(if wants == 0 { Errno::EINVAL } else { Errno::ECHILD }.into())
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
    if pid == 0 || pid == ctx.process.pid.0 {
        return Ok(read(ctx.process).into());
    }
    ctx.kernel.processes.get(pid).map(|process| read(process).into()).ok_or(Errno::ESRCH.into())
}

/// setpgid(2): a process may make itself a group of its own, which it is.
pub(super) fn setpgid(ctx: &mut Ctx<'_>, [pid, group, ..]: [u64; 6]) -> SysResult {
    let own = ctx.process.pid.0;
    if (group as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    match (pid as u32, group as u32) {
        (pid, _) if pid != 0 && pid != own => Err(Errno::ESRCH.into()),
        (_, group) if group != 0 && group != own => Err(Errno::EPERM.into()),
        _ if ctx.process.session == ctx.process.pid => Err(Errno::EPERM.into()),
        _ => {
            ctx.process.group = ctx.process.pid;
            Ok(0)
        }
    }
}

/// setsid(2): a group leader may not.
pub(super) fn setsid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    if ctx.process.group == ctx.process.pid {
        return Err(Errno::EPERM.into());
    }
    ctx.process.session = ctx.process.pid;
    ctx.process.group = ctx.process.pid;
    Ok(ctx.process.pid.0.into())
}

/// getuid(2), geteuid(2), getgid(2), getegid(2): every guest is root of its host.
pub(super) fn root_id(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(0)
}

/// setuid(2) and its relatives: accepted, without effect on what the guest may do.
pub(super) fn set_id(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(0)
}

/// getresuid(2), getresgid(2).
pub(super) fn getresid(ctx: &mut Ctx<'_>, [real, effective, saved, ..]: [u64; 6]) -> SysResult {
    for address in [real, effective, saved] {
        ctx.process.memory.write_value(address, &0u32)?;
    }
    Ok(0)
}

/// getgroups(2): none.
pub(super) fn getgroups(_ctx: &mut Ctx<'_>, [size, ..]: [u64; 6]) -> SysResult {
    if (size as i32) < 0 { Err(Errno::EINVAL.into()) } else { Ok(0) }
}

/// set_tid_address(2).
pub(super) fn set_tid_address(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    ctx.thread.clear_child_tid = address;
    Ok(ctx.thread.tid.0.into())
}

/// arch_prctl(2). GS belongs to the simulator.
pub(super) fn arch_prctl(ctx: &mut Ctx<'_>, [code, address, ..]: [u64; 6]) -> SysResult {
    const USER_END: u64 = 1 << 47;
    match code as i32 {
        ARCH_SET_FS if address >= USER_END => Err(Errno::EPERM.into()),
        ARCH_SET_FS => {
            ctx.thread.vcpu.registers_mut().fs_base = address;
            Ok(0)
        }
        ARCH_GET_FS => {
            ctx.process.memory.write_value(address, &ctx.thread.vcpu.registers().fs_base)?;
            Ok(0)
        }
        ARCH_GET_GS => {
            ctx.process.memory.write_value(address, &0u64)?;
            Ok(0)
        }
        ARCH_SET_GS => {
            ctx.report("arch_prctl(ARCH_SET_GS) is not supported: the GS base belongs to the simulator".to_owned());
            Err(Errno::EPERM.into())
        }
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
            ctx.process.parent_death_signal = a as i32;
            Ok(0)
        }
        PR_GET_PDEATHSIG => {
            memory.write_value(a, &ctx.process.parent_death_signal)?;
            Ok(0)
        }
        PR_SET_DUMPABLE if a <= 1 => {
            ctx.process.dumpable = a == 1;
            Ok(0)
        }
        PR_GET_DUMPABLE => Ok(ctx.process.dumpable.into()),
        PR_SET_KEEPCAPS if a <= 1 => Ok(0),
        PR_GET_KEEPCAPS => Ok(0),
        PR_SET_NO_NEW_PRIVS if a == 1 && b == 0 && c == 0 && d == 0 => {
            ctx.process.no_new_privileges = true;
            Ok(0)
        }
        PR_GET_NO_NEW_PRIVS if a == 0 && b == 0 && c == 0 && d == 0 => Ok(ctx.process.no_new_privileges.into()),
        PR_SET_CHILD_SUBREAPER | PR_SET_TIMERSLACK | PR_SET_PTRACER | PR_SET_VMA => Ok(0),
        PR_GET_TIMERSLACK => Ok(50_000),
        PR_CAPBSET_READ => {
            if a <= 40 {
                Ok(1)
            } else {
                Err(Errno::EINVAL.into())
            }
        }
        PR_SET_SECCOMP | PR_GET_SECCOMP => Err(Errno::EINVAL.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// sched_yield(2): the thread goes to the end of the host's queue. A long run of nothing but yields lets time pass, so that
/// spinning on something that only time brings ends.
pub(super) fn sched_yield(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    ctx.thread.yields = true;
    Ok(0)
}
