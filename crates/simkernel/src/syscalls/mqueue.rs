//! POSIX message queues: mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr, as the C library calls them.

use crate::ctx::Ctx;
use crate::files::synthetic::Snapshot;
use crate::files::{FileKind, OpenFile};
use crate::futex::{FutexKey, Queue};
use crate::ids::{FileId, Pid};
use crate::ipc::messages::Message;
use crate::ipc::queues::{DEFAULT_BYTES, DEFAULT_MESSAGES, Notice, PRIORITIES, QueueId, Registration};
use crate::ipc::{self, READ, WRITE};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::user_io::ByteSink;
use crate::wait::{Events, Wake};
use linux_abi::capability::{CAP_DAC_OVERRIDE, CAP_FOWNER};
use linux_abi::fs::{NAME_MAX, O_ACCMODE, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use linux_abi::ipc::MqAttr;
use linux_abi::signal::{SI_MESGQ, SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD, Sigevent, Siginfo};
use linux_abi::sysinfo::RLIMIT_MSGQUEUE;
use linux_abi::time::Timespec;
use linux_abi::{Errno, Signal};

/// What the last byte of a cookie says, linux/mqueue.h.
const NOTIFY_WOKENUP: u8 = 1;
const NOTIFY_REMOVED: u8 = 2;
const SIGNALS: i32 = 64;

/// An open file on a queue. Reading it gives a line about the queue.
#[derive(Clone, Copy, Debug)]
pub struct OpenQueue {
    pub queue: QueueId,
    pub offset: u64,
}

/// The name of a queue, without the slash that the C library has taken away. ENOENT, EACCES, ENAMETOOLONG.
fn name_argument(ctx: &Ctx<'_>, address: u64) -> Result<Vec<u8>, Outcome> {
    let name = ctx.path_argument(address)?;
    match &name[..] {
        b"" => Err(Errno::ENOENT.into()),
        b"." | b".." => Err(Errno::EACCES.into()),
        name if name.contains(&b'/') => Err(Errno::EACCES.into()),
        name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG.into()),
        _ => Ok(name),
    }
}

/// mq_open(3).
pub(super) fn mq_open(ctx: &mut Ctx<'_>, [name, flags, mode, attr, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    let attr = if attr == 0 { None } else { Some(ctx.process.memory.read_value::<MqAttr>(attr)?) };
    let name = name_argument(ctx, name)?;
    let queue = match ctx.kernel.ipc.queues.find(&name) {
        None if flags & O_CREAT == 0 => return Err(Errno::ENOENT.into()),
        None => create(ctx, &name, mode as u32, attr)?,
        Some(_) if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => return Err(Errno::EEXIST.into()),
        Some(queue) => {
            let rights = match flags & O_ACCMODE {
                O_RDONLY => READ,
                O_WRONLY => WRITE,
                O_RDWR => READ | WRITE,
                _ => return Err(Errno::EINVAL.into()),
            };
            ipc::check(&ctx.kernel.ipc.queues.get(queue).perm(), caller(ctx), rights)?;
            ctx.break_leases(crate::vfs::synthetic::number(&[b"/", &name[..]].concat()), flags)?;
            queue
        }
    };
    let kind = FileKind::Queue(Box::new(OpenQueue { queue, offset: 0 }));
    let file = ctx.kernel.files.insert(OpenFile::new(kind, flags & (O_ACCMODE | O_NONBLOCK)));
    ctx.kernel.ipc.queues.attach(queue, file);
    Ok(ctx.install(file, true)?)
}

/// Queues are files: ids and capabilities are those that count for files.
fn caller(ctx: &Ctx<'_>) -> ipc::Caller {
    let who = ctx.credentials();
    let (uid, gid) = (who.user.fs, who.group.fs);
    ipc::Caller { uid, gid, owns_all: who.can(CAP_DAC_OVERRIDE), ..ctx.ipc_caller() }
}

fn create(ctx: &mut Ctx<'_>, name: &[u8], mode: u32, attr: Option<MqAttr>) -> Result<QueueId, Errno> {
    let caller = caller(ctx);
    let usual = MqAttr { mq_maxmsg: DEFAULT_MESSAGES, mq_msgsize: DEFAULT_BYTES, ..MqAttr::default() };
    let attr = attr.unwrap_or(usual);
    if !caller.exceeds_limits && (attr.mq_maxmsg > DEFAULT_MESSAGES || attr.mq_msgsize > DEFAULT_BYTES) {
        return Err(Errno::EINVAL);
    }
    let mode = mode & 0o777 & !ctx.place().umask;
    let limit = ctx.process.limits.soft(RLIMIT_MSGQUEUE);
    ctx.kernel.ipc.queues.create(name, &attr, mode, caller, limit)
}

/// mq_unlink(3).
pub(super) fn mq_unlink(ctx: &mut Ctx<'_>, [name, ..]: [u64; 6]) -> SysResult {
    let name = name_argument(ctx, name)?;
    let queues = &mut ctx.kernel.ipc.queues;
    let queue = queues.find(&name).ok_or(Errno::ENOENT)?;
    // The directory of queues is sticky.
    let who = &ctx.thread.credentials;
    if queues.get(queue).owner.uid != who.user.fs && !who.can(CAP_FOWNER) {
        return Err(Errno::EPERM.into());
    }
    queues.unlink(&name)?;
    Ok(0)
}

/// The queue behind a descriptor. EBADF.
fn queue_of(ctx: &Ctx<'_>, fd: u64) -> Result<(FileId, QueueId), Errno> {
    let file = ctx.file(fd)?;
    match &ctx.kernel.files[file].kind {
        FileKind::Queue(open) => Ok((file, open.queue)),
        _ => Err(Errno::EBADF),
    }
}

/// Until when to wait, on the real-time clock. EINVAL, EFAULT.
fn set_deadline(ctx: &mut Ctx<'_>, timeout: u64) -> Result<(), Outcome> {
    if timeout != 0 && ctx.thread.wake == Wake::First {
        let time: Timespec = ctx.process.memory.read_value(timeout)?;
        let nanos = time.to_nanos().ok_or(Errno::EINVAL)?;
        ctx.deadline_at(ctx.kernel.config.clock.moment(nanos));
    }
    Ok(())
}

fn line(queue: QueueId) -> FutexKey {
    FutexKey::Other { queue: Queue::PosixMessages, number: queue.0.into() }
}

const INTERRUPTED: Outcome = Outcome::Restart(Restart::Sys);

/// mq_timedsend(3).
pub(super) fn mq_timedsend(ctx: &mut Ctx<'_>, [fd, address, bytes, priority, timeout, _]: [u64; 6]) -> SysResult {
    match ctx.thread.wake {
        Wake::First => {}
        // A receiver has made room and taken the message along.
        Wake::Ready => return Ok(0),
        Wake::TimedOut => return Err(Errno::ETIMEDOUT.into()),
        Wake::Interrupted => return Err(INTERRUPTED),
    }
    set_deadline(ctx, timeout)?;
    let priority = priority as u32;
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL.into());
    }
    let (file, id) = queue_of(ctx, fd)?;
    if !ctx.kernel.files[file].writable() {
        return Err(Errno::EBADF.into());
    }
    if bytes > ctx.kernel.ipc.queues.get(id).most_bytes as u64 {
        return Err(Errno::EMSGSIZE.into());
    }
    let mut text = vec![0; bytes as usize];
    ctx.process.memory.read(address, &mut text)?;
    if !ctx.kernel.ipc.queues.get(id).is_full() {
        send(ctx, id, priority, text);
        return Ok(0);
    }
    if ctx.kernel.files[file].nonblocking() {
        return Err(Errno::EAGAIN.into());
    }
    if ctx.expired() {
        return Err(Errno::ETIMEDOUT.into());
    }
    ctx.kernel.ipc.queues.get_mut(id).wait_to_send(ctx.thread.tid, priority, text);
    Err(ctx.wait_in_line(line(id), INTERRUPTED))
}

fn send(ctx: &mut Ctx<'_>, id: QueueId, priority: u32, text: Vec<u8>) {
    let arrival = ctx.kernel.ipc.queues.get_mut(id).send(priority, text);
    if let Some((tid, (priority, text))) = arrival.receiver {
        if let Some(thread) = ctx.kernel.threads.get_mut(tid.0) {
            thread.delivered = Some(Ok(Message { kind: priority.into(), text }));
        }
        ctx.kernel.wake(tid, Wake::Ready);
        return;
    }
    ctx.kernel.notify_queue(id, Events::READABLE);
    let Some(Registration { pid, notice }) = arrival.notified else { return };
    match notice {
        Notice::Nothing => {}
        Notice::Signal { number, value } => {
            if let Some(signal) = Signal::from_raw(number) {
                let mut info = Siginfo::queue(signal, ctx.process.pid.0 as i32, ctx.ipc_caller().uid, value);
                info.si_code = SI_MESGQ;
                ctx.signal_process(pid, info);
            }
        }
        Notice::Socket { file, cookie } => ctx.kernel.send_cookie(file, cookie, NOTIFY_WOKENUP),
    }
}

/// mq_timedreceive(3).
pub(super) fn mq_timedreceive(ctx: &mut Ctx<'_>, [fd, address, bytes, priority, timeout, _]: [u64; 6]) -> SysResult {
    if let Some(delivered) = ctx.thread.delivered.take() {
        return store(ctx, address, priority, delivered?);
    }
    match ctx.thread.wake {
        Wake::TimedOut => return Err(Errno::ETIMEDOUT.into()),
        Wake::Interrupted => return Err(INTERRUPTED),
        Wake::First | Wake::Ready => {}
    }
    set_deadline(ctx, timeout)?;
    let (file, id) = queue_of(ctx, fd)?;
    if !ctx.kernel.files[file].readable() {
        return Err(Errno::EBADF.into());
    }
    let queue = ctx.kernel.ipc.queues.get_mut(id);
    if bytes < queue.most_bytes as u64 {
        return Err(Errno::EMSGSIZE.into());
    }
    if let Some(((kind, text), sender)) = queue.receive() {
        match sender {
            Some(tid) => {
                ctx.kernel.wake(tid, Wake::Ready);
            }
            None => ctx.kernel.notify_queue(id, Events::WRITABLE),
        }
        return store(ctx, address, priority, Message { kind: kind.into(), text });
    }
    if ctx.kernel.files[file].nonblocking() {
        return Err(Errno::EAGAIN.into());
    }
    if ctx.expired() {
        return Err(Errno::ETIMEDOUT.into());
    }
    ctx.kernel.ipc.queues.get_mut(id).wait_to_receive(ctx.thread.tid);
    Err(ctx.wait_in_line(line(id), INTERRUPTED))
}

fn store(ctx: &Ctx<'_>, address: u64, priority: u64, message: Message) -> SysResult {
    if priority != 0 {
        ctx.process.memory.write_value(priority, &(message.kind as u32))?;
    }
    ctx.process.memory.write(address, &message.text)?;
    Ok(message.text.len() as u64)
}

/// mq_notify(3).
pub(super) fn mq_notify(ctx: &mut Ctx<'_>, [fd, event, ..]: [u64; 6]) -> SysResult {
    let notice = if event == 0 { None } else { Some(read_notice(ctx, event)?) };
    let (_, id) = queue_of(ctx, fd)?;
    let pid = ctx.process.pid;
    let queue = ctx.kernel.ipc.queues.get_mut(id);
    match notice {
        None => ctx.kernel.unregister(id, pid),
        Some(_) if queue.registration.is_some() => return Err(Errno::EBUSY.into()),
        Some(notice) => {
            queue.registration = Some(Registration { pid, notice });
            if let Notice::Socket { file, .. } = notice {
                ctx.kernel.files.acquire(file);
            }
        }
    }
    Ok(0)
}

/// EINVAL, EFAULT, EBADF.
fn read_notice(ctx: &Ctx<'_>, event: u64) -> Result<Notice, Outcome> {
    let event: Sigevent = ctx.process.memory.read_value(event)?;
    match event.sigev_notify {
        SIGEV_NONE => Ok(Notice::Nothing),
        SIGEV_SIGNAL if (0..=SIGNALS).contains(&event.sigev_signo) => {
            Ok(Notice::Signal { number: event.sigev_signo, value: event.sigev_value })
        }
        SIGEV_THREAD => {
            let cookie: [u8; 32] = ctx.process.memory.read_value(event.sigev_value)?;
            let file = ctx.file(event.sigev_signo as u64)?;
            match &ctx.kernel.files[file].kind {
                FileKind::Netlink(_) => Ok(Notice::Socket { file, cookie }),
                _ => Err(Errno::EINVAL.into()),
            }
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// mq_getattr(3), mq_setattr(3).
pub(super) fn mq_getsetattr(ctx: &mut Ctx<'_>, [fd, new, old, ..]: [u64; 6]) -> SysResult {
    let wanted = if new == 0 { None } else { Some(ctx.process.memory.read_value::<MqAttr>(new)?) };
    if wanted.is_some_and(|attr| attr.mq_flags & !i64::from(O_NONBLOCK) != 0) {
        return Err(Errno::EINVAL.into());
    }
    let (file, id) = queue_of(ctx, fd)?;
    let queue = ctx.kernel.ipc.queues.get(id);
    let present = MqAttr {
        mq_flags: (ctx.kernel.files[file].status & O_NONBLOCK).into(),
        mq_maxmsg: queue.most_messages as i64,
        mq_msgsize: queue.most_bytes as i64,
        mq_curmsgs: queue.len() as i64,
        ..MqAttr::default()
    };
    if let Some(attr) = wanted {
        let status = &mut ctx.kernel.files[file].status;
        *status = *status & !O_NONBLOCK | attr.mq_flags as u32;
    }
    if old != 0 {
        ctx.process.memory.write_value(old, &present)?;
    }
    Ok(0)
}

impl Kernel {
    /// Whoever polls a queue learns of a message, or of room.
    fn notify_queue(&mut self, id: QueueId, events: Events) {
        for file in self.ipc.queues.get(id).files().to_vec() {
            self.notify(file, events);
        }
    }

    /// `try_read` of a queue: a line about it.
    pub(crate) fn queue_read(
        &mut self,
        file: FileId,
        queue: QueueId,
        offset: u64,
        sink: &mut dyn ByteSink,
        position: Option<u64>,
    ) -> Result<usize, Errno> {
        let content = self.ipc.queues.get(queue).status().into_bytes();
        let mut snapshot = Snapshot { offset, ..Snapshot::new(Vec::new(), content) };
        let done = snapshot.read(sink, position)?;
        if let FileKind::Queue(open) = &mut self.files[file].kind {
            open.offset = snapshot.offset;
        }
        Ok(done)
    }

    /// Tells the C library's thread what became of a registration with SIGEV_THREAD, and gives up its socket.
    fn send_cookie(&mut self, file: FileId, mut cookie: [u8; 32], what: u8) {
        cookie[31] = what;
        self.netlink_push(file, cookie.to_vec());
        self.release_file(file);
    }

    /// A process wants to hear of a queue no more, or has closed a descriptor of it.
    pub(crate) fn unregister(&mut self, id: QueueId, pid: Pid) {
        let registration = &mut self.ipc.queues.get_mut(id).registration;
        if let Some(Registration { notice: Notice::Socket { file, cookie }, .. }) =
            registration.take_if(|registration| registration.pid == pid)
        {
            self.send_cookie(file, cookie, NOTIFY_REMOVED);
        }
    }

    /// A process closes a descriptor: its record locks on the file are gone, and its registration with a queue.
    pub(crate) fn flush_file(&mut self, file: FileId, pid: Pid) {
        self.drop_record_locks(file, pid);
        if let FileKind::Queue(open) = &self.files[file].kind {
            let queue = open.queue;
            self.unregister(queue, pid);
        }
    }
}
