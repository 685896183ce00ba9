//! System V semaphores: semget, semop, semtimedop, semctl.

use crate::ctx::Ctx;
use crate::futex::{FutexKey, FutexWaiter, Queue};
use crate::ids::Pid;
use crate::ipc::semaphores::{OPERATIONS_MAX, Obstacle, SET_MAX, SemaphoreSet, Served, VALUE_MAX};
use crate::ipc::{self, IDS_MAX, Keyed, READ, WRITE};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::wait::Wake;
use base::{SimDuration, SimTime};
use linux_abi::Errno;
use linux_abi::ipc::*;
use linux_abi::time::Timespec;

/// semget(2).
pub(super) fn semget(ctx: &mut Ctx<'_>, [key, count, flags, ..]: [u64; 6]) -> SysResult {
    let (key, count, flags) = (key as i32, count as i32, flags as u32);
    let count = usize::try_from(count).ok().filter(|count| *count <= SET_MAX).ok_or(Errno::EINVAL)?;
    let caller = ctx.ipc_caller();
    let now = ctx.real_seconds();
    let sets = &mut ctx.kernel.ipc.semaphores;
    if let Some(id) = sets.ids.look_up(key, flags, caller, |set| set.semaphores.len() >= count)? {
        return Ok(id as u64);
    }
    if count == 0 {
        return Err(Errno::EINVAL.into());
    }
    Ok(sets.create(key, count, flags, caller, now)? as u64)
}

/// semop(2).
pub(super) fn semop(ctx: &mut Ctx<'_>, [id, operations, count, ..]: [u64; 6]) -> SysResult {
    operate(ctx, id as i32, operations, count, 0)
}

/// semtimedop(2).
pub(super) fn semtimedop(ctx: &mut Ctx<'_>, [id, operations, count, timeout, ..]: [u64; 6]) -> SysResult {
    operate(ctx, id as i32, operations, count, timeout)
}

/// A signal ends the call with EINTR in any case, signal(7).
fn operate(ctx: &mut Ctx<'_>, id: i32, operations: u64, count: u64, timeout: u64) -> SysResult {
    match ctx.thread.wake {
        Wake::First => {}
        Wake::Ready => return result_of(ctx.thread.call.progress),
        Wake::TimedOut => return Err(Errno::EAGAIN.into()),
        Wake::Interrupted => return Err(Errno::EINTR.into()),
    }
    if count < 1 || id < 0 {
        return Err(Errno::EINVAL.into());
    }
    if count > OPERATIONS_MAX {
        return Err(Errno::E2BIG.into());
    }
    let mut list = vec![Sembuf::default(); count as usize];
    ctx.process.memory.read(operations, zerocopy::IntoBytes::as_mut_bytes(&mut list[..]))?;
    if timeout != 0 {
        let time: Timespec = ctx.process.memory.read_value(timeout)?;
        let nanos = time.to_nanos().ok_or(Errno::EINVAL)?;
        ctx.deadline_after(Some(SimDuration::from_nanos(nanos)));
    }
    let (caller, pid, now, expired) = (ctx.ipc_caller(), ctx.process.pid, ctx.real_seconds(), ctx.expired());
    let set = ctx.kernel.ipc.semaphores.ids.get_mut(id)?;
    if list.iter().any(|operation| operation.sem_num as usize >= set.semaphores.len()) {
        return Err(Errno::EFBIG.into());
    }
    let alters = list.iter().any(|operation| operation.sem_op != 0);
    ipc::check(&set.perm, caller, if alters { WRITE } else { READ })?;
    let mut served = Vec::new();
    match set.operate(pid, &list, now, &mut served) {
        Ok(()) => {
            ctx.kernel.finish_operations(served);
            Ok(0)
        }
        Err(Obstacle::Error(errno)) => Err(errno.into()),
        Err(Obstacle::Waits(_)) if expired => Err(Errno::EAGAIN.into()),
        Err(Obstacle::Waits(_)) => {
            set.wait(ctx.thread.tid, pid, list);
            Err(ctx.wait_in_line(FutexKey::Other { queue: Queue::Semaphores, number: id as u64 }, Errno::EINTR.into()))
        }
    }
}

/// What a call returns that was carried out for its sleeping thread.
pub(super) fn result_of(progress: u64) -> SysResult {
    match Errno::from_raw(progress as i32 - 1) {
        Some(errno) => Err(errno.into()),
        None => Ok(0),
    }
}

impl Kernel {
    /// Wakes threads whose operations are over.
    pub(crate) fn finish_operations(&mut self, served: Vec<Served>) {
        for (tid, result) in served {
            if let Some(thread) = self.threads.get_mut(tid.0) {
                thread.call.progress = 1 + result.err().map_or(0, |errno| errno.raw() as u64);
            }
            self.wake(tid, Wake::Ready);
        }
    }

    /// A process ended: what its semaphore operations with SEM_UNDO did is undone.
    pub(crate) fn undo_semaphores(&mut self, pid: Pid, now: SimTime) {
        if !self.ipc.semaphores.ids.is_empty() {
            let served = self.ipc.semaphores.undo_all(pid, self.config.real_seconds(now));
            self.finish_operations(served);
        }
    }

    /// A thread waits no longer in a line of System V or POSIX communication.
    pub(crate) fn leave_line(&mut self, key: FutexKey, tid: crate::Tid) {
        let FutexKey::Other { queue, number } = key else { return };
        match queue {
            Queue::Semaphores => {
                if let Ok(set) = self.ipc.semaphores.ids.get_mut(number as i32) {
                    set.forget(tid);
                }
            }
            Queue::Messages => {
                if let Ok(queue) = self.ipc.messages.ids.get_mut(number as i32) {
                    queue.forget(tid);
                }
            }
            Queue::PosixMessages => self.ipc.queues.forget(ipc::queues::QueueId(number as u32), tid),
            _ => {}
        }
    }
}

impl Ctx<'_> {
    /// Ends this execution: the thread waits in a line where it was entered, until it is served. `interrupted` is how the call ends when
    /// a signal is there already.
    pub(crate) fn wait_in_line(&mut self, key: FutexKey, interrupted: Outcome) -> Outcome {
        let waiter = FutexWaiter::new(self.thread.tid, u32::MAX);
        self.kernel.futexes.add(key, waiter);
        self.thread.wait.futex = Some(key);
        match self.block(Restart::NoHand) {
            Outcome::Block => Outcome::Block,
            _ => {
                self.kernel.leave_line(key, self.thread.tid);
                interrupted
            }
        }
    }
}

/// semctl(2).
pub(super) fn semctl(ctx: &mut Ctx<'_>, [id, number, command, argument, ..]: [u64; 6]) -> SysResult {
    let (id, number, command) = (id as i32, number as i32, command as i32);
    if id < 0 {
        return Err(Errno::EINVAL.into());
    }
    match command {
        IPC_INFO | SEM_INFO => information(ctx, command, argument),
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => describe(ctx, id, command, argument),
        GETVAL | GETPID | GETNCNT | GETZCNT => look(ctx, id, number, command),
        GETALL => read_all(ctx, id, argument),
        SETVAL => set_one(ctx, id, number, argument as i32),
        SETALL => set_all(ctx, id, argument),
        IPC_RMID => {
            ipc::check_owner(ctx.kernel.ipc.semaphores.ids.get(id)?.perm(), ctx.ipc_caller())?;
            let served = ctx.kernel.ipc.semaphores.remove(id)?;
            ctx.kernel.finish_operations(served);
            Ok(0)
        }
        IPC_SET => {
            let wanted: SemidDs = ctx.process.memory.read_value(argument)?;
            let (caller, now) = (ctx.ipc_caller(), ctx.real_seconds());
            let set = ctx.kernel.ipc.semaphores.ids.get_mut(id)?;
            ipc::check_owner(&set.perm, caller)?;
            ipc::set_perm(&mut set.perm, &wanted.sem_perm);
            set.changed = now;
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// A set that the caller may read or alter.
fn set_of<'a>(ctx: &'a mut Ctx<'_>, id: i32, rights: u32) -> Result<&'a mut SemaphoreSet, Errno> {
    let caller = ctx.ipc_caller();
    let set = ctx.kernel.ipc.semaphores.ids.get_mut(id)?;
    ipc::check(&set.perm, caller, rights)?;
    Ok(set)
}

fn information(ctx: &Ctx<'_>, command: i32, address: u64) -> SysResult {
    let sets = &ctx.kernel.ipc.semaphores;
    let all = (IDS_MAX * SET_MAX) as i32;
    let mut info = Seminfo {
        semmap: all,
        semmni: IDS_MAX as i32,
        semmns: all,
        semmnu: all,
        semmsl: SET_MAX as i32,
        semopm: OPERATIONS_MAX as i32,
        semume: OPERATIONS_MAX as i32,
        semusz: 20,
        semvmx: VALUE_MAX,
        semaem: VALUE_MAX,
    };
    if command == SEM_INFO {
        (info.semusz, info.semaem) = (sets.ids.len() as i32, sets.total() as i32);
    }
    ctx.process.memory.write_value(address, &info)?;
    Ok(sets.ids.highest().into())
}

fn describe(ctx: &mut Ctx<'_>, id: i32, command: i32, address: u64) -> SysResult {
    let ids = &ctx.kernel.ipc.semaphores.ids;
    let (id, set) = if command == IPC_STAT { (id, ids.get(id)?) } else { ids.at_place(id)? };
    if command != SEM_STAT_ANY {
        ipc::check(&set.perm, ctx.ipc_caller(), READ)?;
    }
    let data = SemidDs {
        sem_perm: set.perm,
        sem_otime: set.operated,
        sem_ctime: set.changed,
        sem_nsems: set.semaphores.len() as u64,
        ..SemidDs::default()
    };
    ctx.process.memory.write_value(address, &data)?;
    Ok(if command == IPC_STAT { 0 } else { id as u64 })
}

/// GETVAL, GETPID, GETNCNT, GETZCNT.
fn look(ctx: &mut Ctx<'_>, id: i32, number: i32, command: i32) -> SysResult {
    let set = set_of(ctx, id, READ)?;
    let number = usize::try_from(number).ok().filter(|n| *n < set.semaphores.len()).ok_or(Errno::EINVAL)?;
    Ok(match command {
        GETVAL => set.semaphores[number].value as u64,
        GETPID => set.semaphores[number].pid.into(),
        _ => set.count_waiters(number, command == GETZCNT),
    })
}

fn read_all(ctx: &mut Ctx<'_>, id: i32, address: u64) -> SysResult {
    let values: Vec<u16> = set_of(ctx, id, READ)?.semaphores.iter().map(|semaphore| semaphore.value as u16).collect();
    ctx.process.memory.write(address, zerocopy::IntoBytes::as_bytes(&values[..]))?;
    Ok(0)
}

fn set_one(ctx: &mut Ctx<'_>, id: i32, number: i32, value: i32) -> SysResult {
    if !(0..=VALUE_MAX).contains(&value) {
        return Err(Errno::ERANGE.into());
    }
    let (pid, now) = (ctx.process.pid, ctx.real_seconds());
    // Whether there is such a semaphore is asked before who may change it (`semctl_setval`).
    let count = ctx.kernel.ipc.semaphores.ids.get(id)?.semaphores.len();
    usize::try_from(number).ok().filter(|number| *number < count).ok_or(Errno::EINVAL)?;
    let set = set_of(ctx, id, WRITE)?;
    let number = usize::try_from(number).ok().filter(|n| *n < set.semaphores.len()).ok_or(Errno::EINVAL)?;
    set.set(number, value, pid);
    set.changed = now;
    let mut served = Vec::new();
    set.serve(now, &mut served);
    ctx.kernel.finish_operations(served);
    Ok(0)
}

fn set_all(ctx: &mut Ctx<'_>, id: i32, address: u64) -> SysResult {
    let count = set_of(ctx, id, WRITE)?.semaphores.len();
    let mut values = vec![0u16; count];
    ctx.process.memory.read(address, zerocopy::IntoBytes::as_mut_bytes(&mut values[..]))?;
    if values.iter().any(|value| i32::from(*value) > VALUE_MAX) {
        return Err(Errno::ERANGE.into());
    }
    let (pid, now) = (ctx.process.pid, ctx.real_seconds());
    let set = set_of(ctx, id, WRITE)?;
    for (number, value) in values.into_iter().enumerate() {
        set.set(number, value.into(), pid);
    }
    set.changed = now;
    let mut served = Vec::new();
    set.serve(now, &mut served);
    ctx.kernel.finish_operations(served);
    Ok(0)
}
