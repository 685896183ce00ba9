//! System V message queues: msgget, msgsnd, msgrcv, msgctl.

use crate::ctx::Ctx;
use crate::futex::{FutexKey, Queue};
use crate::ids::Tid;
use crate::ipc::messages::{MESSAGE_MAX, Message, QUEUE_MAX, Receiver, Wanted};
use crate::ipc::{self, IDS_MAX, Keyed, READ, WRITE};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::wait::Wake;
use linux_abi::Errno;
use linux_abi::ipc::*;

/// Bytes before a message's text: its type.
const KIND_BYTES: u64 = 8;

/// msgget(2).
pub(super) fn msgget(ctx: &mut Ctx<'_>, [key, flags, ..]: [u64; 6]) -> SysResult {
    let (key, flags, caller) = (key as i32, flags as u32, ctx.ipc_caller());
    let now = ctx.real_seconds();
    let queues = &mut ctx.kernel.ipc.messages;
    if let Some(id) = queues.ids.look_up(key, flags, caller, |_| true)? {
        return Ok(id as u64);
    }
    Ok(queues.create(key, flags, caller, now)? as u64)
}

fn line(id: i32) -> FutexKey {
    FutexKey::Other { queue: Queue::Messages, number: id as u64 }
}

/// How a call ends that a signal interrupts: executed again unless a handler ran.
const INTERRUPTED: Outcome = Outcome::Restart(Restart::NoHand);

/// msgsnd(2).
pub(super) fn msgsnd(ctx: &mut Ctx<'_>, [id, address, bytes, flags, ..]: [u64; 6]) -> SysResult {
    let id = id as i32;
    if ctx.thread.wake == Wake::Interrupted {
        return Err(INTERRUPTED);
    }
    let kind: i64 = ctx.process.memory.read_value(address)?;
    if bytes > MESSAGE_MAX as u64 || id < 0 || kind < 1 {
        return Err(Errno::EINVAL.into());
    }
    let mut text = vec![0; bytes as usize];
    ctx.process.memory.read(address.wrapping_add(KIND_BYTES), &mut text)?;
    let (caller, pid, now) = (ctx.ipc_caller(), ctx.process.pid, ctx.real_seconds());
    let woken = ctx.thread.wake == Wake::Ready;
    // One that waited for room learns by another error that the queue is gone.
    let gone = |errno| if woken && errno == Errno::EINVAL { Errno::EIDRM } else { errno };
    let queue = ctx.kernel.ipc.messages.ids.get_mut(id).map_err(gone)?;
    ipc::check(&queue.data.msg_perm, caller, WRITE)?;
    match queue.send(Message { kind, text }, pid, now) {
        Ok(delivered) => {
            for (tid, message) in delivered {
                ctx.kernel.hand_over(tid, message);
            }
            Ok(0)
        }
        Err(Errno::EAGAIN) if flags as u32 & IPC_NOWAIT == 0 => {
            queue.wait_to_send(ctx.thread.tid);
            Err(ctx.wait_in_line(line(id), INTERRUPTED))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// msgrcv(2).
pub(super) fn msgrcv(ctx: &mut Ctx<'_>, [id, address, bytes, kind, flags, _]: [u64; 6]) -> SysResult {
    let (id, flags) = (id as i32, flags as u32);
    if let Some(delivered) = ctx.thread.delivered.take() {
        return store(ctx, address, bytes, delivered?);
    }
    match ctx.thread.wake {
        Wake::Interrupted => return Err(INTERRUPTED),
        Wake::Ready if ctx.kernel.ipc.messages.ids.get(id).is_err() => return Err(Errno::EIDRM.into()),
        _ => {}
    }
    if id < 0 || bytes > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let wanted = wanted(kind as i64, flags)?;
    let is_cut_short = |message: &Message| message.text.len() as u64 > bytes;
    let most = if flags & MSG_NOERROR != 0 { usize::MAX } else { bytes as usize };
    let (caller, pid, now) = (ctx.ipc_caller(), ctx.process.pid, ctx.real_seconds());
    let queue = ctx.kernel.ipc.messages.ids.get_mut(id)?;
    ipc::check(&queue.data.msg_perm, caller, READ)?;
    match queue.receive(wanted, most, pid, now) {
        // A copy has room for all of it, or is none (`copy_msg`).
        Ok(message) if matches!(wanted, Wanted::Place(_)) && is_cut_short(&message) => Err(Errno::EINVAL.into()),
        Ok(message) => {
            let senders = queue.take_senders();
            senders.into_iter().for_each(|tid| {
                ctx.kernel.wake(tid, Wake::Ready);
            });
            store(ctx, address, bytes, message)
        }
        Err(Errno::ENOMSG) if flags & IPC_NOWAIT == 0 => {
            queue.wait_to_receive(Receiver { tid: ctx.thread.tid, pid, wanted, most });
            Err(ctx.wait_in_line(line(id), INTERRUPTED))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Which message a call asks for. EINVAL for flags that exclude each other.
fn wanted(kind: i64, flags: u32) -> Result<Wanted, Errno> {
    if flags & MSG_COPY != 0 {
        let alone = flags & MSG_EXCEPT == 0 && flags & IPC_NOWAIT != 0;
        return if alone { Ok(Wanted::Place(kind)) } else { Err(Errno::EINVAL) };
    }
    Ok(match kind {
        0 => Wanted::Any,
        kind if kind < 0 => Wanted::Lowest(kind.checked_neg().unwrap_or(i64::MAX)),
        kind if flags & MSG_EXCEPT != 0 => Wanted::Except(kind),
        kind => Wanted::Kind(kind),
    })
}

/// Puts a message into the caller's memory, cut to its room.
fn store(ctx: &Ctx<'_>, address: u64, bytes: u64, message: Message) -> SysResult {
    let length = message.text.len().min(bytes as usize);
    ctx.process.memory.write_value(address, &message.kind)?;
    ctx.process.memory.write(address.wrapping_add(KIND_BYTES), &message.text[..length])?;
    Ok(length as u64)
}

impl Kernel {
    /// Gives a thread that waits what it waits for.
    fn hand_over(&mut self, tid: Tid, message: Result<Message, Errno>) {
        if let Some(thread) = self.threads.get_mut(tid.0) {
            thread.delivered = Some(message);
        }
        self.wake(tid, Wake::Ready);
    }
}

/// msgctl(2).
pub(super) fn msgctl(ctx: &mut Ctx<'_>, [id, command, address, ..]: [u64; 6]) -> SysResult {
    let (id, command) = (id as i32, command as i32);
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL.into());
    }
    match command {
        IPC_INFO | MSG_INFO => information(ctx, command, address),
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => describe(ctx, id, command, address),
        IPC_SET => set(ctx, id, address),
        IPC_RMID => {
            let caller = ctx.ipc_caller();
            let queue = ctx.kernel.ipc.messages.ids.get(id)?;
            ipc::check_owner(queue.perm(), caller)?;
            let mut queue = ctx.kernel.ipc.messages.ids.remove(id)?;
            queue.take_senders().into_iter().for_each(|tid| {
                ctx.kernel.wake(tid, Wake::Ready);
            });
            queue.take_receivers().into_iter().for_each(|tid| ctx.kernel.hand_over(tid, Err(Errno::EIDRM)));
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

fn information(ctx: &Ctx<'_>, command: i32, address: u64) -> SysResult {
    let queues = &ctx.kernel.ipc.messages;
    let mut info = Msginfo {
        msgpool: (IDS_MAX as u64 * QUEUE_MAX / 1024) as i32,
        msgmap: QUEUE_MAX as i32,
        msgmax: MESSAGE_MAX as i32,
        msgmnb: QUEUE_MAX as i32,
        msgmni: IDS_MAX as i32,
        msgssz: 16,
        msgtql: QUEUE_MAX as i32,
        msgseg: u16::MAX,
        pad: 0,
    };
    if command == MSG_INFO {
        let (messages, bytes) = queues.totals();
        (info.msgpool, info.msgmap, info.msgtql) = (queues.ids.len() as i32, messages as i32, bytes as i32);
    }
    ctx.process.memory.write_value(address, &info)?;
    Ok(queues.ids.highest().into())
}

fn describe(ctx: &mut Ctx<'_>, id: i32, command: i32, address: u64) -> SysResult {
    let ids = &ctx.kernel.ipc.messages.ids;
    let (id, queue) = if command == IPC_STAT { (id, ids.get(id)?) } else { ids.at_place(id)? };
    if command != MSG_STAT_ANY {
        ipc::check(queue.perm(), ctx.ipc_caller(), READ)?;
    }
    ctx.process.memory.write_value(address, &queue.data)?;
    Ok(if command == IPC_STAT { 0 } else { id as u64 })
}

/// IPC_SET: senders and receivers that wait look again.
fn set(ctx: &mut Ctx<'_>, id: i32, address: u64) -> SysResult {
    let wanted: MsqidDs = ctx.process.memory.read_value(address)?;
    let (caller, now) = (ctx.ipc_caller(), ctx.real_seconds());
    let queue = ctx.kernel.ipc.messages.ids.get_mut(id)?;
    ipc::check_owner(queue.perm(), caller)?;
    if wanted.msg_qbytes > QUEUE_MAX && !caller.exceeds_limits {
        return Err(Errno::EPERM.into());
    }
    ipc::set_perm(queue.perm_mut(), &wanted.msg_perm);
    queue.data.msg_qbytes = wanted.msg_qbytes;
    queue.data.msg_ctime = now;
    let waiting = [queue.take_receivers(), queue.take_senders()].concat();
    waiting.into_iter().for_each(|tid| {
        ctx.kernel.wake(tid, Wake::Ready);
    });
    Ok(0)
}
