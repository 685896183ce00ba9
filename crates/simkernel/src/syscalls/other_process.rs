//! Calls on other processes of the host: their memory (process_vm_readv and its relatives), their descriptors (pidfd_getfd), and whether
//! two of them share something (kcmp). And unshare: what a process or thread shares no more.

use super::system::{named_credentials, named_process};
use super::wait::pid_behind;
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::ids::{Pid, Tid};
use crate::outcome::SysResult;
use crate::user_io::UserBuffers;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::fs::{IOV_MAX, Iovec};
use linux_abi::process::*;

/// process_vm_readv(2).
pub(super) fn process_vm_readv(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    copy_memory(ctx, args, false)
}

/// process_vm_writev(2).
pub(super) fn process_vm_writev(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    copy_memory(ctx, args, true)
}

/// A vector's buffers. EINVAL, EFAULT.
fn vector(ctx: &Ctx<'_>, address: u64, count: u64) -> Result<Vec<Iovec>, crate::Outcome> {
    if count > IOV_MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let mut list = Vec::with_capacity(count as usize);
    for index in 0..count {
        let iovec: Iovec = ctx.process.memory.read_value(address + index * size_of::<Iovec>() as u64)?;
        if iovec.iov_len > i64::MAX as u64 {
            return Err(Errno::EINVAL.into());
        }
        list.push(iovec);
    }
    Ok(list)
}

/// Copies between the caller's memory and another process's, up to the first byte that cannot be reached.
fn copy_memory(ctx: &mut Ctx<'_>, [pid, own, own_count, other, count, flags]: [u64; 6], write: bool) -> SysResult {
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut own = vector(ctx, own, own_count)?;
    let mut other = vector(ctx, other, count)?;
    own.reverse();
    other.reverse();
    if own.iter().all(|iovec| iovec.iov_len == 0) || other.iter().all(|iovec| iovec.iov_len == 0) {
        return Ok(0);
    }
    let pid_of = super::process::process_of_thread(ctx, pid as u32).ok_or(Errno::ESRCH)?;
    let is_own = pid_of == ctx.process.pid;
    let rights = named_credentials(ctx, pid)?;
    let target = if is_own { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid_of.0) };
    let target = target.filter(|process| process.zombie.is_none()).ok_or(Errno::ESRCH)?;
    let space = target.space;
    // One's own memory may be had whoever else has it (`mm_access`).
    if space != ctx.process.space && !ctx.credentials().may_attach_to(&rights, target.dumpable) {
        return Err(Errno::EPERM.into());
    }
    let caller: &AddressSpace = &ctx.process.memory;
    let memory = if is_own { Some(caller) } else { ctx.kernel.shared.memory(target) };
    // A process that shares the caller's memory has none of its own in the pool while the caller executes.
    let memory = memory.unwrap_or(caller);
    let mut done = 0;
    let mut chunk = [0u8; 4096];
    while let (Some(mine), Some(theirs)) = (own.last_mut(), other.last_mut()) {
        let bytes = mine.iov_len.min(theirs.iov_len).min(chunk.len() as u64) as usize;
        let part = &mut chunk[..bytes];
        let copied = if write {
            let read = caller.read_partial(mine.iov_base, part);
            memory.write_parked(theirs.iov_base, &part[..read])
        } else {
            // Pages that are mapped for writing alone are not read for others, whatever the processor would do (`check_vma_flags`).
            let readable = memory.mapped_for_reading(theirs.iov_base, bytes as u64) as usize;
            let read = memory.read_parked(theirs.iov_base, &mut part[..readable]);
            caller.write_partial(mine.iov_base, &part[..read])
        };
        done += copied as u64;
        if copied < bytes {
            break;
        }
        for iovec in [mine, theirs] {
            iovec.iov_base += bytes as u64;
            iovec.iov_len -= bytes as u64;
        }
        for list in [&mut own, &mut other] {
            list.pop_if(|iovec| iovec.iov_len == 0);
        }
    }
    if write && done > 0 {
        ctx.kernel.rouse_spinners(ctx.thread.tid, space);
    }
    if done == 0 { Err(Errno::EFAULT.into()) } else { Ok(done) }
}

/// process_madvise(2): advice that changes nothing is taken. The number of bytes.
pub(super) fn process_madvise(ctx: &mut Ctx<'_>, [fd, list, count, advice, flags, _]: [u64; 6]) -> SysResult {
    use linux_abi::mm::{MADV_COLD, MADV_COLLAPSE, MADV_PAGEOUT, MADV_WILLNEED};
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let buffers = UserBuffers::vector(&ctx.process.memory, list, count)?;
    let pid = pid_behind(ctx, fd)?;
    named_process(ctx, pid.0.into())?;
    if !matches!(advice as i32, MADV_COLD | MADV_PAGEOUT | MADV_WILLNEED | MADV_COLLAPSE) {
        return Err(Errno::EINVAL.into());
    }
    Ok(buffers.total() as u64)
}

/// process_mrelease(2): nothing is left to be released of a process that was killed.
pub(super) fn process_mrelease(ctx: &mut Ctx<'_>, [fd, flags, ..]: [u64; 6]) -> SysResult {
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pid = pid_behind(ctx, fd)?;
    if ctx.kernel.is_alive(pid) { Err(Errno::EINVAL.into()) } else { Err(Errno::ESRCH.into()) }
}

/// pidfd_getfd(2).
pub(super) fn pidfd_getfd(ctx: &mut Ctx<'_>, [pidfd, fd, flags, ..]: [u64; 6]) -> SysResult {
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pid = pid_behind(ctx, pidfd)?;
    let file = if pid == ctx.process.pid {
        // The main thread's, whoever asks.
        let main = ctx.kernel.threads.get(pid.0).and_then(|main| main.own_fds);
        let key = if ctx.thread.tid.0 == pid.0 { ctx.fds_key() } else { main.unwrap_or(ctx.process.fds) };
        ctx.kernel.shared.fds[key].get(fd)?
    } else {
        // Process 1 lets nobody look into it.
        let unknown = if pid == INIT { Errno::EPERM } else { Errno::ESRCH };
        let process = ctx.kernel.processes.get(pid.0).ok_or(unknown)?;
        if !ctx.credentials().may_attach_to(&process.credentials, process.dumpable) {
            return Err(Errno::EPERM.into());
        }
        if process.zombie.is_some() {
            return Err(Errno::ESRCH.into());
        }
        ctx.kernel.shared.file(process, fd as u32).ok_or(Errno::EBADF)?
    };
    ctx.kernel.files.acquire(file);
    Ok(ctx.install(file, true)?)
}

/// kcmp(2): 0 when equal, otherwise 1 or 2 by an order of no meaning.
pub(super) fn kcmp(ctx: &mut Ctx<'_>, [first, second, kind, index1, index2, _]: [u64; 6]) -> SysResult {
    const FILE: i32 = 0;
    const VM: i32 = 1;
    const FILES: i32 = 2;
    const FS: i32 = 3;
    const SIGHAND: i32 = 4;
    const IO: i32 = 5;
    const SYSVSEM: i32 = 6;
    let find = |pid: u64| -> Result<(Tid, Pid), Errno> {
        let pid_of = super::process::process_of_thread(ctx, pid as u32).ok_or(Errno::ESRCH)?;
        Ok((Tid(pid as u32), pid_of))
    };
    let tasks = [find(first)?, find(second)?];
    for (_, pid) in tasks {
        let other = ctx.kernel.processes.get(pid.0).filter(|_| pid != ctx.process.pid);
        if other.is_some_and(|other| !ctx.credentials().may_attach_to(&other.credentials, other.dumpable)) {
            return Err(Errno::EPERM.into());
        }
    }
    let number = |(tid, pid): (Tid, Pid), index: u64| -> Result<u64, Errno> {
        let process = if pid == ctx.process.pid { Some(&*ctx.process) } else { ctx.kernel.processes.get(pid.0) };
        let process = process.ok_or(Errno::ESRCH)?;
        // Threads can have descriptors and a working directory of their own.
        let own = if tid == ctx.thread.tid { Some(&*ctx.thread) } else { ctx.kernel.threads.get(tid.0) };
        let fds = own.and_then(|thread| thread.own_fds).unwrap_or(process.fds);
        let place = own.and_then(|thread| thread.own_place).unwrap_or(process.place);
        Ok(match kind as i32 {
            FILE => {
                let file = ctx.kernel.shared.fds.get(fds).and_then(|fds| fds.get((index as u32).into()).ok());
                file.ok_or(Errno::EBADF)?.0.into()
            }
            VM => process.space.number().into(),
            FILES => fds.number().into(),
            FS => place.number().into(),
            SIGHAND => process.handlers.number().into(),
            // Who has set nothing of the kind has none.
            IO if process.io_priority == 0 => 0,
            SYSVSEM if !ctx.kernel.ipc.semaphores.has_undo(pid) => 0,
            IO | SYSVSEM => pid.0.into(),
            _ => return Err(Errno::EINVAL),
        })
    };
    let (a, b) = (number(tasks[0], index1)?, number(tasks[1], index2)?);
    Ok(match a.cmp(&b) {
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Less => 1,
        std::cmp::Ordering::Greater => 2,
    })
}

/// Whether the caller shares what it would have to own: a process with other threads, its memory with another process, its
/// handlers with one (`check_unshare_flags`). Who leaves a thread group leaves its memory, and with that its handlers.
fn is_shared(ctx: &Ctx<'_>, flags: u64) -> bool {
    let leaves_memory = flags & (CLONE_THREAD | CLONE_VM) != 0;
    let own = &*ctx.process;
    own.threads.len() > 1
        || ctx.kernel.shared.handlers.users(own.handlers) > 1
        || leaves_memory && ctx.kernel.processes.iter().any(|other| other.space == own.space)
}

/// unshare(2): descriptors, working directory and semaphore adjustments. There is one namespace of each kind per host, and none can be
/// made: EPERM, as for users that may not.
pub(super) fn unshare(ctx: &mut Ctx<'_>, [flags, ..]: [u64; 6]) -> SysResult {
    const NAMESPACES: u64 = CLONE_NEWTIME
        | CLONE_NEWNS
        | CLONE_NEWCGROUP
        | CLONE_NEWUTS
        | CLONE_NEWIPC
        | CLONE_NEWUSER
        | CLONE_NEWPID
        | CLONE_NEWNET;
    const ONE_THREAD: u64 = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    const KNOWN: u64 = NAMESPACES | ONE_THREAD | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM;
    let flags = flags & 0xffff_ffff;
    if flags & !KNOWN != 0 || flags & ONE_THREAD != 0 && is_shared(ctx, flags) {
        return Err(Errno::EINVAL.into());
    }
    if flags & NAMESPACES != 0 {
        return Err(Errno::EPERM.into());
    }
    if flags & CLONE_FILES != 0 {
        let most = ctx.kernel.shared.settings.number("fs/nr_open");
        if most.is_some_and(|most| ctx.fds().len() as u64 > most) {
            return Err(Errno::EMFILE.into());
        }
        ctx.unshare_files();
    }
    if flags & CLONE_FS != 0 {
        ctx.unshare_place();
    }
    if flags & CLONE_SYSVSEM != 0 {
        ctx.kernel.undo_semaphores(ctx.process.pid, ctx.now);
    }
    Ok(0)
}
