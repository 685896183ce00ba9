//! What the system says about itself: uname, sysinfo, limits, usage, scheduling; and getrandom. Values are fixed and documented
//! here, so that a run does not depend on the machine.

use super::process::process_of_thread;
use crate::credentials::{Credentials, Ids};
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::ids::Pid;
use crate::limits::{Limit, RESOURCES};
use crate::outcome::SysResult;
use crate::process::Process;
use crate::processors::ProcessorSet;
use crate::thread::Thread;
use linux_abi::Errno;
use linux_abi::capability::{CAP_SYS_NICE, CAP_SYS_RESOURCE};
use linux_abi::sysinfo::*;
use linux_abi::time::Timeval;
use std::sync::Arc;
use zerocopy::FromZeros;

pub const RELEASE: &str = "6.1.0-gnomon";
pub const VERSION: &str = "#1 SMP PREEMPT_DYNAMIC Gnomon";
/// Memory of a host, and what of it is free, in bytes.
pub const TOTAL_MEMORY: u64 = 16 << 30;
pub const FREE_MEMORY: u64 = 8 << 30;

/// uname(2).
pub(super) fn uname(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    let names = Utsname::new("Linux", &ctx.kernel.config.name, RELEASE, VERSION, "x86_64", "(none)");
    ctx.process.memory.write_value(address, &names)?;
    Ok(0)
}

/// sysinfo(2).
pub(super) fn sysinfo(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    let mut info = Sysinfo::new_zeroed();
    info.uptime = (ctx.uptime_nanos() / 1_000_000_000) as i64;
    info.totalram = TOTAL_MEMORY;
    info.freeram = FREE_MEMORY;
    info.procs = ctx.kernel.tasks as u16;
    info.mem_unit = 1;
    ctx.process.memory.write_value(address, &info)?;
    Ok(0)
}

/// getrandom(2), from the host's own stream.
pub(super) fn getrandom(ctx: &mut Ctx<'_>, [address, bytes, flags, ..]: [u64; 6]) -> SysResult {
    const ALL: u32 = GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE;
    let flags = flags as u32;
    if flags & !ALL != 0 || flags & (GRND_RANDOM | GRND_INSECURE) == GRND_RANDOM | GRND_INSECURE {
        return Err(Errno::EINVAL.into());
    }
    let mut chunk = [0u8; 256];
    let mut done = 0;
    let total = bytes.min(i32::MAX as u64);
    while done < total {
        let part = &mut chunk[..(total - done).min(256) as usize];
        ctx.kernel.random.fill(part);
        let written = ctx.process.memory.write_partial(address.wrapping_add(done), part);
        done += written as u64;
        if written < part.len() {
            break;
        }
    }
    if done == 0 && total > 0 { Err(Errno::EFAULT.into()) } else { Ok(done) }
}

/// The process that a call names by the number of any of its threads, 0 for the calling one. ESRCH.
pub(super) fn named_process<'a>(ctx: &'a mut Ctx<'_>, pid: u64) -> Result<&'a mut Process, Errno> {
    let pid = match pid as u32 {
        0 => ctx.process.pid,
        number => process_of_thread(ctx, number).ok_or(Errno::ESRCH)?,
    };
    if pid == ctx.process.pid { Ok(ctx.process) } else { ctx.kernel.processes.get_mut(pid.0).ok_or(Errno::ESRCH) }
}

/// Whose rights a call asks for that names a thread: its own, those of a process that has ended
/// where it has none any more. ESRCH.
pub(super) fn named_credentials(ctx: &mut Ctx<'_>, tid: u64) -> Result<Arc<Credentials>, Errno> {
    match ctx.kernel.threads.get(tid as u32) {
        _ if tid as u32 == ctx.thread.tid.0 || tid as u32 == 0 => Ok(Arc::clone(&ctx.thread.credentials)),
        Some(thread) => Ok(Arc::clone(&thread.credentials)),
        None => Ok(Arc::clone(&named_process(ctx, tid)?.credentials)),
    }
}

/// Limits are one's own, and those of processes with the same ids. ESRCH, EPERM.
fn demand_limits(ctx: &mut Ctx<'_>, pid: u64) -> Result<(), Errno> {
    let own = Arc::clone(&ctx.thread.credentials);
    if matches!(pid as u32, 0) || pid as u32 == ctx.thread.tid.0 {
        return Ok(());
    }
    // Credentials are a thread's own: another thread of the caller's process is somebody else, too (`check_prlimit_permission`).
    let target = named_credentials(ctx, pid)?;
    let same = |ids: Ids, id: u32| id == ids.real && id == ids.effective && id == ids.saved;
    let equal = same(target.user, own.user.real) && same(target.group, own.group.real);
    if equal || own.can(CAP_SYS_RESOURCE) { Ok(()) } else { Err(Errno::EPERM) }
}

/// prlimit64(2).
pub(super) fn prlimit64(ctx: &mut Ctx<'_>, [pid, resource, new, old, ..]: [u64; 6]) -> SysResult {
    let request = if new == 0 { None } else { Some(ctx.process.memory.read_value::<Rlimit>(new)?) };
    demand_limits(ctx, pid)?;
    let resource = resource as u32 as usize;
    if resource >= RESOURCES {
        return Err(Errno::EINVAL.into());
    }
    let may_raise = ctx.credentials().can(CAP_SYS_RESOURCE);
    let limit = &mut named_process(ctx, pid)?.limits.0[resource];
    let before = *limit;
    if let Some(request) = request {
        if request.rlim_cur > request.rlim_max {
            return Err(Errno::EINVAL.into());
        }
        if resource == RLIMIT_NOFILE as usize && request.rlim_max > 1 << 20 {
            return Err(Errno::EPERM.into());
        }
        if request.rlim_max > before.hard && !may_raise {
            return Err(Errno::EPERM.into());
        }
        *limit = Limit { soft: request.rlim_cur, hard: request.rlim_max };
    }
    if old != 0 {
        let value = Rlimit { rlim_cur: before.soft, rlim_max: before.hard };
        ctx.process.memory.write_value(old, &value)?;
    }
    Ok(0)
}

/// getrlimit(2).
pub(super) fn getrlimit(ctx: &mut Ctx<'_>, [resource, address, ..]: [u64; 6]) -> SysResult {
    if address == 0 {
        return Err(Errno::EFAULT.into());
    }
    prlimit64(ctx, [0, resource, 0, address, 0, 0])
}

/// setrlimit(2).
pub(super) fn setrlimit(ctx: &mut Ctx<'_>, [resource, address, ..]: [u64; 6]) -> SysResult {
    if address == 0 {
        return Err(Errno::EFAULT.into());
    }
    prlimit64(ctx, [0, resource, address, 0, 0, 0])
}

/// getrusage(2).
pub(super) fn getrusage(ctx: &mut Ctx<'_>, [who, address, ..]: [u64; 6]) -> SysResult {
    if !matches!(who as i32, RUSAGE_SELF | RUSAGE_CHILDREN | RUSAGE_THREAD) {
        return Err(Errno::EINVAL.into());
    }
    let mut usage = Rusage::new_zeroed();
    let process = &mut *ctx.process;
    if who as i32 == RUSAGE_CHILDREN {
        set_user_time(&mut usage, process.children_cpu_us);
        process.memory_use.of_children().show(&mut usage);
    } else {
        process.look_at_memory();
        set_user_time(&mut usage, process.cpu_micros());
        process.memory_use.alone().show(&mut usage);
    }
    ctx.process.memory.write_value(address, &usage)?;
    Ok(0)
}

/// What a process used, in microseconds.
pub(super) fn set_user_time(usage: &mut Rusage, cpu_us: u64) {
    usage.ru_utime = Timeval { tv_sec: (cpu_us / 1_000_000) as i64, tv_usec: (cpu_us % 1_000_000) as i64 };
}

/// times(2), in ticks of 1/100 s: those of `getrusage`; the result counts from the host's boot.
pub(super) fn times(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    const TICK_US: u64 = 10_000;
    if address != 0 {
        let (own, children) = (ctx.process.cpu_micros() / TICK_US, ctx.process.children_cpu_us / TICK_US);
        ctx.process.memory.write_value(address, &[own, 0, children, 0])?;
    }
    Ok(ctx.uptime_nanos() / 10_000_000)
}

/// getcpu(2).
pub(super) fn getcpu(ctx: &mut Ctx<'_>, [cpu, node, ..]: [u64; 6]) -> SysResult {
    for (address, number) in [(cpu, u32::from(ctx.thread.placement.processor.0)), (node, 0)] {
        if address != 0 {
            ctx.process.memory.write_value(address, &number)?;
        }
    }
    Ok(0)
}

/// sched_getaffinity(2). The result is the size of the kernel's mask. EINVAL for less room than the
/// host's processors take, or no whole words.
pub(super) fn sched_getaffinity(ctx: &mut Ctx<'_>, [pid, bytes, address, ..]: [u64; 6]) -> SysResult {
    let count = ctx.kernel.config.processors;
    let bytes = bytes as u32 as usize;
    if bytes.saturating_mul(8) < usize::from(count.get()) || !bytes.is_multiple_of(8) {
        return Err(Errno::EINVAL.into());
    }
    known_thread(ctx, pid)?;
    let allowed = thread_named(ctx, pid).map_or(ProcessorSet::ANY, |thread| thread.placement.allowed);
    let mask = ctx.kernel.processors.existing(allowed).to_mask();
    let length = bytes.min(count.mask_bytes());
    ctx.process.memory.write(address, &mask[..length])?;
    Ok(length as u64)
}

/// sched_setaffinity(2): the thread may be on these processors only, and moves at once if it is
/// elsewhere. EINVAL where there is none of them.
pub(super) fn sched_setaffinity(ctx: &mut Ctx<'_>, [pid, bytes, address, ..]: [u64; 6]) -> SysResult {
    let mut mask = ProcessorSet::default().to_mask();
    let length = (bytes as u32 as usize).min(mask.len()).min(ctx.kernel.config.processors.mask_bytes());
    ctx.process.memory.read(address, &mut mask[..length])?;
    known_thread(ctx, pid)?;
    demand_scheduling(ctx, pid)?;
    let allowed = ctx.kernel.processors.existing(ProcessorSet::from_mask(&mask));
    if allowed.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if is_caller(ctx, pid) {
        let has_moved = ctx.kernel.processors.confine(&mut ctx.thread.placement, allowed);
        ctx.thread.gives_way |= !has_moved;
        ctx.show_processor();
    } else if let Some(thread) = ctx.kernel.threads.get_mut(pid as u32) {
        ctx.kernel.processors.confine(&mut thread.placement, allowed);
    }
    Ok(0)
}

fn is_caller(ctx: &Ctx<'_>, tid: u64) -> bool {
    tid as u32 == 0 || tid as u32 == ctx.thread.tid.0
}

/// A thread by its number; 0 for the caller, which is not in the table.
pub(super) fn thread_named<'a>(ctx: &'a mut Ctx<'_>, tid: u64) -> Option<&'a mut Thread> {
    if is_caller(ctx, tid) { Some(ctx.thread) } else { ctx.kernel.threads.get_mut(tid as u32) }
}

/// Others' threads are scheduled by their users, if those could do whatever these can, and by root. EPERM.
pub(super) fn demand_scheduling(ctx: &Ctx<'_>, tid: u64) -> Result<(), Errno> {
    let root = Credentials::default();
    let target = match ctx.kernel.threads.get(tid as u32) {
        Some(thread) => &*thread.credentials,
        None if tid as u32 == INIT.0 => &root,
        None => return Ok(()),
    };
    let (own, user) = (ctx.credentials().user.effective, target.user);
    let same = own == user.effective || own == user.real;
    if same && ctx.credentials().covers(target) || ctx.credentials().can(CAP_SYS_NICE) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// ESRCH for the number of no thread of the host. Process 1 is known, though nothing of it can be changed; and processes that have ended, until
/// somebody has waited for them.
pub(super) fn known_thread(ctx: &Ctx<'_>, tid: u64) -> Result<(), Errno> {
    let tid = tid as u32;
    let own = tid == 0 || tid == INIT.0 || tid == ctx.thread.tid.0 || tid == ctx.process.pid.0;
    let known = own || ctx.kernel.threads.get(tid).is_some() || ctx.kernel.processes.get(tid).is_some();
    if known { Ok(()) } else { Err(Errno::ESRCH) }
}

/// getpriority(2): the raw call shows 20 less the nice value, of the thread that counts most.
pub(super) fn getpriority(ctx: &mut Ctx<'_>, [which, who, ..]: [u64; 6]) -> SysResult {
    let mut best = None;
    each_of_priority(ctx, which, who, |ranked| best = best.max(Some(20 - *ranked.nice)))?;
    Ok(best.ok_or(Errno::ESRCH)? as u64)
}

/// setpriority(2): kept, without effect: guests take no simulated time. EPERM for threads of others, EACCES for more than
/// RLIMIT_NICE allows, EPERM for those that may do more than the caller (`set_one_prio`).
pub(super) fn setpriority(ctx: &mut Ctx<'_>, [which, who, nice, ..]: [u64; 6]) -> SysResult {
    let nice = (nice as i32).clamp(-20, 19);
    let own = Arc::clone(&ctx.thread.credentials);
    let (id, privileged) = (own.user.effective, own.can(CAP_SYS_NICE));
    let is_init = which as i32 == PRIO_PROCESS && who as u32 == INIT.0;
    if is_init && !privileged && (id != 0 || !own.covers(&Credentials::default())) {
        return Err(Errno::EPERM.into());
    }
    let mut result = Err(Errno::ESRCH);
    each_of_priority(ctx, which, who, |ranked| {
        let user = ranked.credentials.user;
        let allowed = i64::from(20 - nice) <= ranked.most as i64;
        if !privileged && id != user.real && id != user.effective {
            result = Err(Errno::EPERM);
        } else if !privileged && nice < *ranked.nice && !allowed {
            result = Err(Errno::EACCES);
        } else if !privileged && !own.covers(ranked.credentials) {
            result = Err(Errno::EPERM);
        } else {
            *ranked.nice = nice;
            if result == Err(Errno::ESRCH) {
                result = Ok(0);
            }
        }
    })?;
    Ok(result?)
}

const PRIO_PROCESS: i32 = 0;

/// A thread whose priority is asked for or changed.
struct Ranked<'a> {
    nice: &'a mut i32,
    credentials: &'a Credentials,
    /// Its process's RLIMIT_NICE.
    most: u64,
}

/// The threads that the two calls name: one, those of a group's processes, or all of a user. A process that has ended counts by its number
/// until somebody has waited for it.
fn each_of_priority(ctx: &mut Ctx<'_>, which: u64, who: u64, mut visit: impl FnMut(Ranked<'_>)) -> Result<(), Errno> {
    const PROCESS: i32 = PRIO_PROCESS;
    const GROUP: i32 = 1;
    const USER: i32 = 2;
    let who = who as u32;
    let threads_of = |process: &Process| match process.zombie {
        Some(_) => vec![process.pid.0],
        None => process.threads.iter().map(|tid| tid.0).collect(),
    };
    // In the order of their numbers; a group's newest process comes first, and the last mistake is the one that is told.
    let mut all: Vec<&Process> = ctx.kernel.processes.iter().chain([&*ctx.process]).collect();
    all.sort_by_key(|process| process.pid);
    let tids: Vec<u32> = match which as i32 {
        PROCESS => vec![if who == 0 { ctx.thread.tid.0 } else { who }],
        GROUP => {
            let group = if who == 0 { ctx.process.group } else { Pid(who) };
            all.into_iter().rev().filter(|process| process.group == group).flat_map(threads_of).collect()
        }
        USER => {
            let user = if who == 0 { ctx.credentials().user.real } else { who };
            let is_of_user = |tid: &u32| match ctx.kernel.threads.get(*tid) {
                Some(thread) => thread.credentials.user.real == user,
                None if *tid == ctx.thread.tid.0 => ctx.credentials().user.real == user,
                None => ctx.kernel.processes.get(*tid).is_some_and(|ended| ended.credentials.user.real == user),
            };
            all.into_iter().flat_map(threads_of).filter(is_of_user).collect()
        }
        _ => return Err(Errno::EINVAL),
    };
    let of_thread = |thread: &mut Thread, most: u64, visit: &mut dyn FnMut(Ranked<'_>)| {
        visit(Ranked { nice: &mut thread.nice, credentials: &thread.credentials, most });
    };
    for tid in tids {
        if tid == ctx.thread.tid.0 {
            of_thread(ctx.thread, ctx.process.limits.soft(RLIMIT_NICE), &mut visit);
            continue;
        }
        if let Some(thread) = ctx.kernel.threads.get_mut(tid) {
            let own = thread.pid == ctx.process.pid;
            let process = if own { Some(&*ctx.process) } else { ctx.kernel.processes.get(thread.pid.0) };
            of_thread(thread, process.map_or(0, |process| process.limits.soft(RLIMIT_NICE)), &mut visit);
            continue;
        }
        let own = tid == ctx.process.pid.0;
        let ended = if own { Some(&mut *ctx.process) } else { ctx.kernel.processes.get_mut(tid) };
        if let Some(process) = ended {
            let most = process.limits.soft(RLIMIT_NICE);
            visit(Ranked { nice: &mut process.nice_at_end, credentials: &process.credentials, most });
        }
    }
    Ok(())
}

/// membarrier(2): one guest thread of a host runs at a time, so every barrier is there already, and who was in a restartable sequence
/// when it was taken off the processor goes on at its abort handler anyway. What is left of the
/// barrier for such sequences: each thread sees that it was interrupted.
/// EPERM for the private ones before their registration.
pub(super) fn membarrier(ctx: &mut Ctx<'_>, [command, flags, processor, ..]: [u64; 6]) -> SysResult {
    const QUERY: u32 = 0;
    const PRIVATE: u32 = 1 << 3;
    const PRIVATE_SYNC_CORE: u32 = 1 << 5;
    const PRIVATE_RSEQ: u32 = 1 << 7;
    const REGISTRATIONS: u32 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;
    /// What Linux 6.1 has; later ones tell registrations too.
    const SUPPORTED: u32 = 0x1ff;
    /// MEMBARRIER_CMD_FLAG_CPU: on a processor alone. One that is not there has nothing to wait for.
    const ON_PROCESSOR: u32 = 1;
    let command = command as u32;
    let known = command == QUERY || (command & !SUPPORTED == 0 && command.is_power_of_two());
    let flags_known = if command == PRIVATE_RSEQ { ON_PROCESSOR } else { 0 };
    if flags as u32 & !flags_known != 0 || !known {
        return Err(Errno::EINVAL.into());
    }
    let registered = &mut ctx.process.barriers;
    match command {
        QUERY => return Ok(SUPPORTED.into()),
        PRIVATE | PRIVATE_SYNC_CORE | PRIVATE_RSEQ if *registered & command << 1 == 0 => {
            return Err(Errno::EPERM.into());
        }
        PRIVATE_RSEQ if flags as u32 & ON_PROCESSOR == 0 || processor as u32 == 0 => super::rseq::interrupt_all(ctx),
        command => *registered |= command & REGISTRATIONS,
    }
    Ok(0)
}

/// sethostname(2), setdomainname(2): names are the plan's.
pub(super) fn set_name(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::EPERM.into())
}

/// personality(2): kept, and shown. What other systems' programs would find changed by it is reported.
pub(super) fn personality(ctx: &mut Ctx<'_>, [wanted, ..]: [u64; 6]) -> SysResult {
    const ASKS: u32 = u32::MAX;
    const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;
    /// Of these nothing follows on Linux either, for programs of 64 bits.
    const SHORT_INODE: u32 = 0x0100_0000;
    const WHOLE_SECONDS: u32 = 0x0200_0000;
    const PER_MASK: u32 = 0xff;
    const IDLE: u32 = ADDR_NO_RANDOMIZE | SHORT_INODE | WHOLE_SECONDS | PER_MASK;
    let before = ctx.process.personality;
    let wanted = wanted as u32;
    if wanted != ASKS {
        ctx.process.personality = wanted;
        if wanted & !IDLE != 0 {
            ctx.report(format!(
                "personality {wanted:#x} has no effect: programs have Linux's addresses, rights and names"
            ));
        }
    }
    Ok(before.into())
}

/// What is not compared with the machine's kernel, since it is a newer one.
#[cfg(test)]
mod tests {
    use crate::test_machine::{A, Machine};
    use linux_abi::fs::{ANON_INODE_FS_MAGIC, F_ADD_SEALS, F_GET_SEALS, MFD_ALLOW_SEALING, MFD_EXEC, MFD_NOEXEC_SEAL};
    use linux_abi::fs::{F_SEAL_EXEC, F_SEAL_GROW, Statfs};
    use linux_abi::{Errno, nr};

    #[test]
    fn barriers_are_those_of_linux_6_1() {
        const RSEQ: u64 = 128;
        let mut m = Machine::new(A);
        assert_eq!(m.call(nr::membarrier, &[0]), Ok(0x1ff));
        assert_eq!(m.call(nr::membarrier, &[512]), Err(Errno::EINVAL), "registrations are told since 6.3");
        assert_eq!(m.call(nr::membarrier, &[RSEQ, 1, 0]), Err(Errno::EPERM));
        assert_eq!(m.call(nr::membarrier, &[RSEQ << 1, 1, 0]), Err(Errno::EINVAL));
        assert_eq!(m.call(nr::membarrier, &[RSEQ << 1]), Ok(0));
        for processor in [0, 7, u64::MAX] {
            assert_eq!(m.call(nr::membarrier, &[RSEQ, 1, processor]), Ok(0));
        }
        assert_eq!(m.call(nr::membarrier, &[RSEQ, 2]), Err(Errno::EINVAL));
    }

    #[test]
    fn files_of_memory_know_nothing_of_execution() {
        let mut m = Machine::new(A);
        let name = m.put(b"name\0");
        for flags in [MFD_NOEXEC_SEAL, MFD_EXEC, MFD_EXEC | MFD_ALLOW_SEALING] {
            assert_eq!(m.call(nr::memfd_create, &[name, flags.into()]), Err(Errno::EINVAL));
        }
        let fd = m.call(nr::memfd_create, &[name, MFD_ALLOW_SEALING.into()]).unwrap();
        assert_eq!(m.call(nr::fcntl, &[fd, F_ADD_SEALS as u64, F_SEAL_EXEC.into()]), Err(Errno::EINVAL));
        assert_eq!(m.call(nr::fcntl, &[fd, F_ADD_SEALS as u64, F_SEAL_GROW.into()]), Ok(0));
        assert_eq!(m.call(nr::fcntl, &[fd, F_GET_SEALS as u64]), Ok(F_SEAL_GROW.into()));
    }

    #[test]
    fn descriptors_of_processes_have_no_file_system_of_their_own() {
        let mut m = Machine::new(A);
        let own = m.process.as_ref().unwrap().pid.0;
        let fd = m.call(nr::pidfd_open, &[own.into()]).unwrap();
        let out = m.room(size_of::<Statfs>());
        assert_eq!(m.call(nr::fstatfs, &[fd, out]), Ok(0));
        assert_eq!(m.value::<Statfs>(out).f_type, ANON_INODE_FS_MAGIC);
    }
}
