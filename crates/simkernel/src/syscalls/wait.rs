//! wait4, waitid, and descriptors of processes.

use super::clone::open_pidfd;
use crate::ctx::Ctx;
use crate::family::{INIT, child_info};
use crate::files::FileKind;
use crate::ids::Pid;
use crate::memory_use::MemoryUse;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::process::{ExitStatus, Process};
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::process::*;
use linux_abi::signal::{CLD_CONTINUED, CLD_STOPPED, SI_TKILL, SI_USER, Siginfo};
use linux_abi::sysinfo::Rusage;
use linux_abi::{Errno, Signal};
use zerocopy::FromZeros;

/// Which children a call asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    One(Pid),
    Group(Pid),
}

/// What a child has to tell, and has told with this.
struct News {
    pid: Pid,
    info: Siginfo,
    /// As wait4 stores it.
    status: i32,
    /// Processor time of a child that ended, and of those of its children that it had waited for, in microseconds.
    cpu_us: u64,
    /// The most memory of all these.
    memory_use: MemoryUse,
}

/// wait4(2).
pub(super) fn wait4(ctx: &mut Ctx<'_>, [target, status, options, usage, ..]: [u64; 6]) -> SysResult {
    const KNOWN: u32 = WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL;
    let options = options as u32;
    if options & !KNOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    let wanted = match target as i32 {
        i32::MIN => return Err(Errno::ESRCH.into()),
        -1 => Wanted::Any,
        0 => Wanted::Group(ctx.process.group),
        group if group < 0 => Wanted::Group(Pid(group.unsigned_abs())),
        pid => Wanted::One(Pid(pid as u32)),
    };
    let Some(news) = wait(ctx, wanted, options | WEXITED)? else { return Ok(0) };
    if status != 0 {
        ctx.process.memory.write_value(status, &news.status)?;
    }
    if usage != 0 {
        ctx.process.memory.write_value(usage, &usage_of(&news))?;
    }
    Ok(news.pid.0.into())
}

/// waitid(2), with the fifth argument of the system call.
pub(super) fn waitid(ctx: &mut Ctx<'_>, [kind, id, info, options, usage, _]: [u64; 6]) -> SysResult {
    const KNOWN: u32 = WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL;
    let mut options = options as u32;
    if options & !KNOWN != 0 || options & (WEXITED | WSTOPPED | WCONTINUED) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = id as i32;
    let mut nonblocking = false;
    let wanted = match (kind as i32, id) {
        (P_ALL, _) => Wanted::Any,
        (P_PID, id) if id > 0 => Wanted::One(Pid(id as u32)),
        (P_PGID, 0) => Wanted::Group(ctx.process.group),
        (P_PGID, id) if id > 0 => Wanted::Group(Pid(id as u32)),
        (P_PIDFD, id) if id >= 0 => {
            let file = ctx.file(id as u64)?;
            nonblocking = ctx.kernel.files[file].status & O_NONBLOCK != 0;
            Wanted::One(pid_behind(ctx, id as u64)?)
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    // Who says itself that it does not wait is told that there is no news, by nothing else than that (`kernel_waitid`).
    let asks = options & WNOHANG != 0;
    if nonblocking {
        options |= WNOHANG;
    }
    let news = wait(ctx, wanted, options)?;
    if news.is_none() && nonblocking && !asks {
        return Err(Errno::EAGAIN.into());
    }
    if let Some(news) = &news
        && usage != 0
    {
        ctx.process.memory.write_value(usage, &usage_of(news))?;
    }
    if info != 0 {
        // The kernel stores these fields and leaves the rest as it was.
        let shown = news.map_or_else(Siginfo::default, |news| news.info);
        ctx.process.memory.write_value(info, &[shown.si_signo, 0, shown.si_code])?;
        let fields = [shown.si_pid(), shown.si_uid() as i32, shown.si_status()];
        ctx.process.memory.write_value(info + SIGINFO_FIELDS, &fields)?;
    }
    Ok(0)
}

/// Where a `siginfo`'s union begins.
const SIGINFO_FIELDS: u64 = 16;

fn usage_of(news: &News) -> Rusage {
    let mut usage = Rusage::new_zeroed();
    super::system::set_user_time(&mut usage, news.cpu_us);
    news.memory_use.show(&mut usage);
    usage
}

/// The first child with something to tell; None when there is nothing yet and the call does not wait. ECHILD when there is no such
/// child.
fn wait(ctx: &mut Ctx<'_>, wanted: Wanted, options: u32) -> Result<Option<News>, Outcome> {
    let own = ctx.process.pid;
    let candidate = match wanted {
        Wanted::One(pid) => is_wanted(ctx, pid, wanted, options).then_some(pid).filter(|pid| tells(ctx, *pid, options)),
        _ => {
            let family = &ctx.kernel.family;
            family.reportable(own).find(|pid| is_wanted(ctx, *pid, wanted, options) && tells(ctx, *pid, options))
        }
    };
    if let Some(pid) = candidate {
        return Ok(Some(take_news(ctx, pid, options)));
    }
    // Of one that has ended nothing but that can be told.
    let lives = |pid: Pid| ctx.kernel.processes.get(pid.0).is_some_and(|child| child.zombie.is_none());
    let may_tell = |pid: Pid| is_wanted(ctx, pid, wanted, options) && (options & WEXITED != 0 || lives(pid));
    let exists = match wanted {
        Wanted::One(pid) => may_tell(pid),
        _ => ctx.kernel.family.children(own).any(may_tell),
    };
    if !exists {
        return Err(Errno::ECHILD.into());
    }
    if options & WNOHANG != 0 {
        return Ok(None);
    }
    let tid = ctx.thread.tid;
    ctx.thread.wait.futex = Some(ctx.kernel.wait_for_child(own, tid));
    Err(ctx.block(Restart::Sys))
}

/// Whether a process is a child of the caller and one that the call asks for.
fn is_wanted(ctx: &Ctx<'_>, pid: Pid, wanted: Wanted, options: u32) -> bool {
    let Some(child) = ctx.kernel.processes.get(pid.0).filter(|child| child.parent == ctx.process.pid) else {
        return false;
    };
    let chosen = match wanted {
        Wanted::Any => true,
        Wanted::One(one) => one == pid,
        Wanted::Group(group) => child.group == group,
    };
    let clone = child.exit_signal != Signal::SIGCHLD.raw();
    chosen && (options & __WALL != 0 || clone == (options & __WCLONE != 0))
}

fn tells(ctx: &Ctx<'_>, pid: Pid, options: u32) -> bool {
    ctx.kernel.processes.get(pid.0).is_some_and(|child| {
        (options & WEXITED != 0 && child.zombie.is_some())
            || (options & WSTOPPED != 0 && child.job.stop_unseen)
            || (options & WCONTINUED != 0 && child.job.continue_unseen)
    })
}

/// Reads what a child has to tell; with WNOWAIT it will tell it again.
fn take_news(ctx: &mut Ctx<'_>, pid: Pid, options: u32) -> News {
    let mut child = ctx.kernel.processes.take(pid.0).expect("the child was found");
    let keeps = options & WNOWAIT != 0;
    let news = news_of(ctx, &child, options);
    if child.zombie.is_some() && !keeps {
        ctx.process.children_cpu_us += news.cpu_us;
        ctx.process.memory_use.add_child(child.memory_use);
        ctx.kernel.forget_process(child);
        return news;
    }
    if !keeps {
        if news.info.si_code == CLD_STOPPED {
            child.job.stop_unseen = false;
        } else {
            child.job.continue_unseen = false;
        }
        let more = child.job.stop_unseen || child.job.continue_unseen;
        ctx.kernel.family.set_reportable(ctx.process.pid, pid, more);
    }
    ctx.kernel.processes.put(pid.0, child);
    news
}

fn news_of(ctx: &Ctx<'_>, child: &Process, options: u32) -> News {
    let of_job = |code, status| Siginfo::child(code, child.pid.0 as i32, child.credentials.user.real, status, 0, 0);
    let (info, status) = match (child.zombie, child.job.stopped) {
        (Some(ended), _) => {
            let status = match ended {
                ExitStatus::Exited(status) => wait_status_exited(status),
                ExitStatus::Signaled(signal) => wait_status_signaled(signal, child.dumped),
            };
            (child_info(child).unwrap_or_default(), status)
        }
        (None, Some(signal)) if options & WSTOPPED != 0 && child.job.stop_unseen => {
            (of_job(CLD_STOPPED, signal), wait_status_stopped(signal))
        }
        _ => (of_job(CLD_CONTINUED, Signal::SIGCONT.raw()), WAIT_STATUS_CONTINUED),
    };
    let cpu_us = child.cpu_micros() + child.children_cpu_us;
    News { pid: child.pid, info, status, cpu_us, memory_use: ctx.kernel.memory_use_of(child) }
}

/// pidfd_open(2).
pub(super) fn pidfd_open(ctx: &mut Ctx<'_>, [pid, flags, ..]: [u64; 6]) -> SysResult {
    let (pid, flags) = (pid as i32, flags as u32);
    if pid <= 0 || flags & !O_NONBLOCK != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pid = Pid(pid as u32);
    if pid != INIT && pid != ctx.process.pid && ctx.kernel.processes.get(pid.0).is_none() {
        let of_thread = pid.0 == ctx.thread.tid.0 || ctx.kernel.threads.get(pid.0).is_some();
        // Another thread than the main one is no process (`pidfd_prepare`).
        return Err(if of_thread { Errno::ENOENT } else { Errno::ESRCH }.into());
    }
    Ok(open_pidfd(ctx, pid, O_RDWR | flags)?)
}

/// pidfd_send_signal(2).
pub(super) fn pidfd_send_signal(ctx: &mut Ctx<'_>, [fd, number, info, flags, ..]: [u64; 6]) -> SysResult {
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pid = pid_behind(ctx, fd).or_else(|_| pid_of_directory(ctx, fd))?;
    let own = pid == ctx.process.pid;
    let mut sent = Siginfo::kill(Signal::SIGCHLD, SI_USER, ctx.process.pid.0 as i32, ctx.credentials().user.real);
    if info != 0 {
        sent = ctx.process.memory.read_value(info)?;
        if sent.si_signo != number as i32 {
            return Err(Errno::EINVAL.into());
        }
        if !own && (sent.si_code >= 0 || sent.si_code == SI_TKILL) {
            return Err(Errno::EPERM.into());
        }
    }
    super::signals::demand_signal(ctx, pid, number as i32)?;
    if number as i32 == 0 {
        return Ok(0);
    }
    sent.si_signo = Signal::from_raw(number as i32).ok_or(Errno::EINVAL)?.raw();
    let sent = super::signals::room_for(ctx, pid, &sent).apply(sent)?;
    ctx.signal_process(pid, sent);
    Ok(0)
}

/// The process whose directory in `/proc` a descriptor is of. EBADF.
fn pid_of_directory(ctx: &Ctx<'_>, fd: u64) -> Result<Pid, Errno> {
    let FileKind::Directory(directory) = &ctx.kernel.files[ctx.file(fd)?].kind else { return Err(Errno::EBADF) };
    let number = directory.path.strip_prefix(b"/proc/").and_then(|name| std::str::from_utf8(name).ok()?.parse().ok());
    number.map(Pid).ok_or(Errno::EBADF)
}

/// The process that a descriptor is of. EBADF.
pub(super) fn pid_behind(ctx: &Ctx<'_>, fd: u64) -> Result<Pid, Errno> {
    match ctx.kernel.files[ctx.file(fd)?].kind {
        FileKind::Process(pid) => Ok(pid),
        _ => Err(Errno::EBADF),
    }
}
