//! clone, clone3, fork, vfork: new threads and new processes.
//!
//! Which of parent and child runs first: the parent, until it waits for something; the child goes behind all threads that can
//! run already. A forked child has the addresses of its parent, and each change between the two moves memory: a parent that forks
//! several children, or that waits for its child at once, so changes least often. With CLONE_VFORK the parent waits in the call.

use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::{Pid, Tid};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::process::{Parts, Process};
use crate::shared::{Handlers, Key, Space};
use crate::thread::Thread;
use crate::wait::Wake;
use base::Cause;
use guest::Registers;
use linux_abi::fs::O_RDWR;
use linux_abi::process::*;
use linux_abi::signal::{SIG_IGN, StackT};
use linux_abi::sysinfo::RLIMIT_NPROC;
use linux_abi::{Errno, Signal, nr};
use std::sync::Arc;

/// Namespaces: a host has one of each.
const NEW_NAMESPACES: u64 = CLONE_NEWTIME
    | CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

/// fork(2).
pub(super) fn fork(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    start(ctx, &CloneArgs { exit_signal: Signal::SIGCHLD.raw() as u64, ..CloneArgs::default() })
}

/// vfork(2).
pub(super) fn vfork(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    let flags = CLONE_VM | CLONE_VFORK;
    start(ctx, &CloneArgs { flags, exit_signal: Signal::SIGCHLD.raw() as u64, ..CloneArgs::default() })
}

/// clone(2): flags, stack, parent_tid, child_tid, tls.
pub(super) fn clone(ctx: &mut Ctx<'_>, [flags, stack, parent_tid, child_tid, tls, _]: [u64; 6]) -> SysResult {
    let (flags, exit_signal) = (flags & 0xffff_ffff & !CSIGNAL, flags & CSIGNAL);
    if flags & CLONE_PIDFD != 0 && flags & (CLONE_PARENT_SETTID | CLONE_DETACHED) != 0 {
        return Err(Errno::EINVAL.into());
    }
    start(
        ctx,
        &CloneArgs { flags, exit_signal, stack, parent_tid, pidfd: parent_tid, child_tid, tls, ..CloneArgs::default() },
    )
}

/// clone3(2). E2BIG for a structure with fields that are not known and not zero.
pub(super) fn clone3(ctx: &mut Ctx<'_>, [address, size, ..]: [u64; 6]) -> SysResult {
    const PAGE: u64 = 4096;
    if size < CLONE_ARGS_SIZE_VER0 {
        return Err(Errno::EINVAL.into());
    }
    if size > PAGE {
        return Err(Errno::E2BIG.into());
    }
    let mut bytes = [0u8; size_of::<CloneArgs>()];
    let known = (size as usize).min(bytes.len());
    ctx.process.memory.read(address, &mut bytes[..known])?;
    let mut rest = vec![0u8; size as usize - known];
    ctx.process.memory.read(address.wrapping_add(known as u64), &mut rest)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG.into());
    }
    let mut args: CloneArgs = zerocopy::FromBytes::read_from_bytes(&bytes[..]).map_err(|_| Errno::EINVAL)?;
    let known_flags = CLONE_INTO_CGROUP << 1;
    if args.flags >= known_flags
        || args.flags & (CLONE_DETACHED | CSIGNAL & !CLONE_NEWTIME) != 0
        || args.flags & (CLONE_SIGHAND | CLONE_CLEAR_SIGHAND) == CLONE_SIGHAND | CLONE_CLEAR_SIGHAND
        || (args.flags & (CLONE_THREAD | CLONE_PARENT) != 0 && args.exit_signal != 0)
        || args.exit_signal > 64
        || (args.stack == 0) != (args.stack_size == 0)
    {
        return Err(Errno::EINVAL.into());
    }
    if args.set_tid_size != 0 || args.flags & CLONE_INTO_CGROUP != 0 {
        ctx.report("clone3 with chosen numbers or a control group is not supported: it answered EPERM".to_owned());
        return Err(Errno::EPERM.into());
    }
    args.stack = args.stack.wrapping_add(args.stack_size);
    start(ctx, &args)
}

/// Starts a thread or a process. Executed again, it waits for a CLONE_VFORK child.
fn start(ctx: &mut Ctx<'_>, args: &CloneArgs) -> SysResult {
    if ctx.thread.wake != Wake::First {
        return wait_for_vfork(ctx);
    }
    check(ctx, args.flags)?;
    if ctx.kernel.tasks >= ctx.process.limits.soft(RLIMIT_NPROC) {
        return Err(Errno::EAGAIN.into());
    }
    let registers = child_registers(ctx, args)?;
    if args.flags & CLONE_THREAD != 0 {
        start_thread(ctx, args, registers)
    } else {
        start_process(ctx, args, registers)
    }
}

/// Where the new thread begins: where the calling one is, on its own stack and with its own
/// thread-local memory. EPERM for memory that no program can have.
fn child_registers(ctx: &Ctx<'_>, args: &CloneArgs) -> Result<Registers, Errno> {
    let mut registers = *ctx.thread.vcpu.registers();
    registers.rax = 0;
    if args.stack != 0 {
        registers.rsp = args.stack;
    }
    if args.flags & CLONE_SETTLS != 0 {
        registers.set_fs_base(args.tls).map_err(|_| Errno::EPERM)?;
    }
    Ok(registers)
}

/// Which flags go together, clone(2), "ERRORS".
fn check(ctx: &mut Ctx<'_>, flags: u64) -> Result<(), Errno> {
    let has = |flag| flags & flag != 0;
    if (has(CLONE_THREAD) && !has(CLONE_SIGHAND))
        || (has(CLONE_SIGHAND) && !has(CLONE_VM))
        || (has(CLONE_FS) && has(CLONE_NEWNS | CLONE_NEWUSER))
        || (has(CLONE_THREAD) && has(CLONE_NEWUSER | CLONE_NEWPID))
    {
        return Err(Errno::EINVAL);
    }
    if has(NEW_NAMESPACES) {
        ctx.report("clone into new namespaces is not supported: it answered EPERM".to_owned());
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// A thread of the calling process. Its registers are the caller's, extended state included, but for rax, rsp and FS.
fn start_thread(ctx: &mut Ctx<'_>, args: &CloneArgs, registers: Registers) -> SysResult {
    let tid = Tid(ctx.kernel.new_id());
    store_parent_number(ctx, args, tid)?;
    if args.flags & CLONE_CHILD_SETTID != 0 {
        ctx.process.memory.write_value(args.child_tid, &tid.0)?;
    }
    ctx.process.memory.seal_startup();
    let mut thread = first_thread(ctx, args, registers, tid, ctx.process.pid);
    give_own_parts(ctx, args.flags, &mut thread);
    let waits = args.flags & CLONE_VFORK != 0;
    thread.vfork_waiter = waits.then_some(ctx.thread.tid);
    ctx.process.threads.push(tid);
    ctx.kernel.tasks += 1;
    ctx.kernel.processors.start(&mut thread.placement);
    ctx.kernel.threads.put(tid.0, Box::new(thread));
    ctx.kernel.runnable.push_back(tid);
    if waits {
        ctx.thread.call.progress = tid.0.into();
        return wait_for_vfork(ctx);
    }
    Ok(tid.0.into())
}

/// What a new thread does not share with its process: what its creator has for itself, and copies without CLONE_FILES or CLONE_FS.
fn give_own_parts(ctx: &mut Ctx<'_>, flags: u64, thread: &mut Thread) {
    let (fds, place) = (ctx.fds_key(), ctx.place_key());
    let shared = &mut ctx.kernel.shared;
    if flags & CLONE_FILES == 0 {
        let copy = shared.fds[fds].clone();
        copy.iter().for_each(|(_, file)| ctx.kernel.files.acquire(file));
        thread.own_fds = Some(shared.fds.insert(copy));
    } else if ctx.thread.own_fds.is_some() {
        thread.own_fds = Some(shared.fds.share(fds));
    }
    if flags & CLONE_FS == 0 {
        let copy = shared.places[place].clone();
        thread.own_place = Some(shared.places.insert(copy));
    } else if ctx.thread.own_place.is_some() {
        thread.own_place = Some(shared.places.share(place));
    }
}

fn store_parent_number(ctx: &Ctx<'_>, args: &CloneArgs, tid: Tid) -> Result<(), Outcome> {
    if args.flags & CLONE_PARENT_SETTID != 0 {
        ctx.process.memory.write_value(args.parent_tid, &tid.0)?;
    }
    Ok(())
}

/// A thread that has of the calling one what threads inherit.
fn first_thread(ctx: &Ctx<'_>, args: &CloneArgs, registers: Registers, tid: Tid, pid: Pid) -> Thread {
    let mut thread = Thread::new(tid, pid);
    thread.vcpu = ctx.thread.vcpu.duplicate();
    *thread.vcpu.registers_mut() = registers;
    if args.flags & CLONE_CHILD_CLEARTID != 0 {
        thread.clear_child_tid = args.child_tid;
    }
    // Two stacks at one place would overwrite each other, unless the parent sleeps.
    let shares_stack = args.flags & (CLONE_VM | CLONE_VFORK) == CLONE_VM;
    thread.altstack = if shares_stack { StackT::default() } else { ctx.thread.altstack };
    thread.signals.blocked = ctx.thread.signals.blocked;
    thread.name.clone_from(&ctx.thread.name);
    thread.rseq = ctx.thread.rseq.filter(|_| args.flags & CLONE_VM == 0);
    (thread.schedule, thread.nice) = ctx.thread.schedule.inherited(ctx.thread.nice);
    thread.placement = ctx.thread.placement.inherited();
    thread.timer_slack = [ctx.thread.timer_slack[0]; 2];
    thread.tsc_faults = ctx.thread.tsc_faults;
    thread.memory_policy = ctx.thread.memory_policy;
    thread.seccomp.clone_from(&ctx.thread.seccomp);
    thread.no_new_privileges = ctx.thread.no_new_privileges;
    thread.credentials = Arc::clone(&ctx.thread.credentials);
    thread
}

/// A new process with one thread, the caller's copy.
fn start_process(ctx: &mut Ctx<'_>, args: &CloneArgs, registers: Registers) -> SysResult {
    ctx.process.memory.seal_startup();
    let space = copy_memory(ctx, args)?;
    let pid = Pid(ctx.kernel.new_id());
    let parts = copy_parts(ctx, args.flags, space);
    let mut child = ctx.process.child(pid, parts, ctx.now);
    ctx.kernel.inherit_program(&mut child, ctx.process);
    child.exit_signal = args.exit_signal as i32;
    child.credentials = Arc::clone(&ctx.thread.credentials);
    if args.flags & CLONE_PARENT != 0 {
        child.parent = ctx.process.parent;
        child.exit_signal = ctx.process.exit_signal;
        child.execs_of_parent = ctx.process.execs_of_parent;
    }
    let mut thread = first_thread(ctx, args, registers, pid.main_thread(), pid);
    if args.flags & CLONE_CHILD_SETTID != 0 {
        thread.set_child_tid = args.child_tid;
    }
    if let Err(outcome) = describe_child(ctx, args, &mut child) {
        ctx.kernel.release_parts(&mut child);
        ctx.kernel.shared.handlers.release(child.handlers);
        return Err(outcome);
    }
    if ctx.process.trace.is_some() {
        let name = child.program_name();
        if let Err(error) = ctx.kernel.open_trace(&mut child, &name) {
            ctx.report(format!("its child {pid} has no log of calls: {}", error.message));
        }
    }
    let waits = args.flags & CLONE_VFORK != 0;
    child.vfork_waiter = waits.then_some(ctx.thread.tid);
    ctx.kernel.start_process(child, thread);
    if waits {
        ctx.thread.call.progress = pid.0.into();
        return wait_for_vfork(ctx);
    }
    Ok(pid.0.into())
}

/// The child's memory: the caller's with CLONE_VM, a copy of it otherwise.
fn copy_memory(ctx: &mut Ctx<'_>, args: &CloneArgs) -> Result<Key<Space>, Errno> {
    let spaces = &mut ctx.kernel.shared.spaces;
    if args.flags & CLONE_VM != 0 {
        return Ok(spaces.share(ctx.process.space));
    }
    match ctx.process.memory.fork(&mut ctx.kernel.region) {
        Some(copy) => Ok(spaces.insert(Some(Box::new(copy)))),
        None => Err(refuse_copy(ctx)),
    }
}

/// The limit is the machine's: as with the system-wide one of threads, fork(2), EAGAIN.
#[cold]
fn refuse_copy(ctx: &mut Ctx<'_>) -> Errno {
    if ctx.process.reported.insert(u64::from(nr::fork)) {
        ctx.interfered(Cause::Memory, "a copy of its memory (fork)");
        ctx.report(
            "fork answered EAGAIN: this machine has no memory or no memory mappings left (sysctl vm.max_map_count) for another copy of it"
                .to_owned(),
        );
    }
    Errno::EAGAIN
}

/// What else the child shares with its parent, or gets a copy of.
fn copy_parts(ctx: &mut Ctx<'_>, flags: u64, space: Key<Space>) -> Parts {
    let (own_fds, own_place) = (ctx.fds_key(), ctx.place_key());
    let shared = &mut ctx.kernel.shared;
    let own = &*ctx.process;
    let fds = if flags & CLONE_FILES != 0 {
        shared.fds.share(own_fds)
    } else {
        let copy = shared.fds[own_fds].clone();
        copy.iter().for_each(|(_, file)| ctx.kernel.files.acquire(file));
        shared.fds.insert(copy)
    };
    let place = if flags & CLONE_FS != 0 {
        shared.places.share(own_place)
    } else {
        let copy = shared.places[own_place].clone();
        shared.places.insert(copy)
    };
    let handlers = if flags & CLONE_SIGHAND != 0 {
        shared.handlers.share(own.handlers)
    } else {
        let mut copy = shared.handlers[own.handlers].clone();
        if flags & CLONE_CLEAR_SIGHAND != 0 {
            clear(&mut copy);
        }
        shared.handlers.insert(copy)
    };
    Parts { space, fds, place, handlers }
}

/// CLONE_CLEAR_SIGHAND: what is not ignored gets its default action.
fn clear(handlers: &mut Handlers) {
    for disposition in &mut handlers.0 {
        let kept = if disposition.handler == SIG_IGN { SIG_IGN } else { 0 };
        *disposition = crate::signal::Disposition { handler: kept, ..Default::default() };
    }
}

/// Stores the child's number where the caller wants it, and gives it a descriptor.
fn describe_child(ctx: &mut Ctx<'_>, args: &CloneArgs, child: &mut Process) -> Result<(), Outcome> {
    let pid = child.pid;
    store_parent_number(ctx, args, pid.main_thread())?;
    if args.flags & CLONE_PIDFD != 0 {
        let fd = open_pidfd(ctx, pid, O_RDWR)?;
        if let Err(fault) = ctx.process.memory.write_value(args.pidfd, &(fd as u32)) {
            let file = ctx.fds_mut().remove(fd)?;
            ctx.kernel.release_file(file);
            return Err(fault.into());
        }
    }
    Ok(())
}

/// A descriptor of a process, close-on-exec as Linux makes them.
pub(crate) fn open_pidfd(ctx: &mut Ctx<'_>, pid: Pid, status: u32) -> Result<u64, Errno> {
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Process(pid), status));
    ctx.kernel.family.watch(pid, file);
    ctx.install(file, true)
}

/// The caller of CLONE_VFORK goes on when its child has executed a program or ended, or its new
/// thread has; nothing but death interrupts it.
fn wait_for_vfork(ctx: &mut Ctx<'_>) -> SysResult {
    let child = ctx.thread.call.progress as u32;
    let own = ctx.thread.tid;
    let of_process = ctx.kernel.processes.get(child).and_then(|child| child.vfork_waiter);
    let of_thread = ctx.kernel.threads.get(child).and_then(|child| child.vfork_waiter);
    let waits = of_process.or(of_thread) == Some(own);
    if !waits {
        return Ok(child.into());
    }
    if ctx.is_dying() {
        return Err(Outcome::Restart(Restart::NoIntr));
    }
    Err(Outcome::Block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_machine::{A, Machine};
    use linux_abi::nr;
    use linux_abi::sysinfo::Rlimit;

    /// Children that share the caller's memory, since no program runs here that could write.
    const SHARING: u64 = CLONE_VM | Signal::SIGCHLD.raw() as u64;

    #[test]
    fn the_limit_of_processes_counts_zombies_too() {
        let mut m = Machine::new(A);
        let limit = Rlimit { rlim_cur: 2, rlim_max: 2 };
        let limit = m.put(&limit);
        m.call(nr::setrlimit, &[RLIMIT_NPROC as u64, limit]).unwrap();
        let first = m.call(nr::clone, &[SHARING]).unwrap();
        m.call(nr::clone, &[SHARING]).unwrap();
        assert_eq!(m.call(nr::clone, &[SHARING]), Err(Errno::EAGAIN));
        let child = m.kernel.processes.get(first as u32).unwrap();
        assert_eq!((child.parent, child.space), (m.process.as_ref().unwrap().pid, m.process.as_ref().unwrap().space));
        m.end(first as u32);
        assert_eq!(m.call(nr::clone, &[SHARING]), Err(Errno::EAGAIN));
        assert_eq!(m.call(nr::wait4, &[u64::MAX, 0, 0, 0]), Ok(first));
        assert!(m.call(nr::clone, &[SHARING]).is_ok());
    }

    #[test]
    fn orphans_leave_with_their_parent_and_are_reaped() {
        let mut m = Machine::new(A);
        let child = m.call(nr::clone, &[SHARING]).unwrap() as u32;
        let grandchild = m.call(nr::clone, &[SHARING]).unwrap() as u32;
        m.adopt(grandchild, child);
        m.end(child);
        assert_eq!(m.kernel.processes.get(grandchild).unwrap().parent, crate::family::INIT);
        m.end(grandchild);
        assert!(m.kernel.processes.get(grandchild).is_none(), "process 1 waits at once");
        assert_eq!(m.call(nr::wait4, &[u64::MAX, 0, 0, 0]), Ok(child.into()));
        assert_eq!(m.call(nr::wait4, &[u64::MAX, 0, 0, 0]), Err(Errno::ECHILD));
    }
}
