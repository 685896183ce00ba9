//! Calls on descriptors themselves: closing, duplicating, flags, ioctl, locks, and what concerns an open file as a whole.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::files::eventfd::EventFd;
use crate::files::pipe::PipeEnd;
use crate::files::spliced::Change;
use crate::files::{OpenFile, pipe::Pipe};
use crate::ids::FileId;
use crate::namespaces;
use crate::net;
use crate::outcome::{Outcome, SysResult};
use crate::tty;
use crate::vfs::permission::Permissions;
use crate::vfs::synthetic::Device;
use crate::wait::{Events, Wake};
use linux_abi::capability::{CAP_LEASE, CAP_SYS_RESOURCE};
use linux_abi::event::{EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE};
use linux_abi::fs::*;
use linux_abi::ioctl::*;
use linux_abi::sysinfo::RLIMIT_NOFILE;
use linux_abi::{Errno, Signal};
use rustix::fs::SealFlags;

/// A block of a file system, in bytes: FIGETBSZ.
const BLOCK_BYTES: i32 = 4096;
/// The same of `/dev/pts`, where `/dev/ptmx` leads too.
const TERMINAL_BLOCK_BYTES: i32 = 1024;
/// What the random generator has, `/proc/sys/kernel/random/entropy_avail`.
const ENTROPY_BITS: i32 = 256;

/// Seals of Linux 6.1; the one on execution came later.
const KNOWN_SEALS: u32 = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

/// A way of `fallocate` since Linux 6.17, which no file system here has.
const FALLOC_FL_WRITE_ZEROES: u32 = 0x80;

/// Flags that F_SETFL can change, beside O_ASYNC.
const SETTABLE: u32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME;

/// close(2). The number is free at once, even where the file waits for its peer.
pub fn close(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    let first = ctx.thread.wake == Wake::First;
    let file = if first { ctx.fds_mut().remove(fd)? } else { ctx.file(fd)? };
    if first {
        ctx.kernel.flush_file(file, ctx.process.pid);
    }
    let lingers = net::inet::linger_before_close(ctx, file);
    match lingers {
        Ok(()) if first => ctx.kernel.release_file(file),
        Err(_) if first => ctx.take_over(file, Some(fd)),
        _ => {}
    }
    lingers.map(|()| 0)
}

/// Closing any descriptor of a file gives up the process's record locks on it, fcntl(2).
fn release(ctx: &mut Ctx<'_>, file: FileId) {
    ctx.kernel.flush_file(file, ctx.process.pid);
    ctx.kernel.release_file(file);
}

/// close_range(2).
pub fn close_range(ctx: &mut Ctx<'_>, [first, last, flags, ..]: [u64; 6]) -> SysResult {
    const CLOSE_RANGE_UNSHARE: u32 = 2;
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    let (first, last, flags) = (first as u32, last as u32, flags as u32);
    if first > last || flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        ctx.unshare_files();
    }
    if flags & CLOSE_RANGE_CLOEXEC != 0 {
        let end = ctx.fds().len() as u64;
        for fd in u64::from(first)..end.min(u64::from(last) + 1) {
            // Numbers that are not in use are passed over.
            let _ = ctx.fds_mut().set_cloexec(fd, true);
        }
        return Ok(0);
    }
    for file in ctx.fds_mut().drain(|fd, _| (first..=last).contains(&fd)) {
        release(ctx, file);
    }
    Ok(0)
}

/// dup(2).
pub fn dup(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    duplicate_from(ctx, fd, 0, false)
}

fn duplicate_from(ctx: &mut Ctx<'_>, fd: u64, from: u64, cloexec: bool) -> SysResult {
    let file = ctx.file(fd)?;
    let limit = ctx.process.limits.soft(RLIMIT_NOFILE);
    if from >= limit {
        return Err(Errno::EINVAL.into());
    }
    let new = ctx.fds_mut().allocate(file, from as usize, cloexec, limit)?;
    ctx.kernel.files.acquire(file);
    Ok(new.into())
}

/// dup2(2).
pub fn dup2(ctx: &mut Ctx<'_>, [old, new, ..]: [u64; 6]) -> SysResult {
    let file = ctx.file(old)?;
    if old as u32 == new as u32 {
        return Ok(new);
    }
    place(ctx, file, new, false)
}

/// dup3(2).
pub fn dup3(ctx: &mut Ctx<'_>, [old, new, flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !O_CLOEXEC != 0 || old as u32 == new as u32 {
        return Err(Errno::EINVAL.into());
    }
    let file = ctx.file(old)?;
    place(ctx, file, new, flags as u32 & O_CLOEXEC != 0)
}

fn place(ctx: &mut Ctx<'_>, file: FileId, new: u64, cloexec: bool) -> SysResult {
    let new = new as u32;
    if u64::from(new) >= ctx.process.limits.soft(RLIMIT_NOFILE) {
        return Err(Errno::EBADF.into());
    }
    if ctx.fds().is_reserved(new) {
        return Err(Errno::EBUSY.into());
    }
    ctx.kernel.files.acquire(file);
    if let Some(old) = ctx.fds_mut().replace(new, file, cloexec) {
        release(ctx, old);
    }
    Ok(new.into())
}

/// fcntl(2).
pub fn fcntl(ctx: &mut Ctx<'_>, [fd, command, arg, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    match command as i32 {
        F_DUPFD => duplicate_from(ctx, fd, arg as u32 as u64, false),
        F_DUPFD_CLOEXEC => duplicate_from(ctx, fd, arg as u32 as u64, true),
        F_GETFD => Ok(ctx.fds().cloexec(fd)?.into()),
        F_SETFD => {
            ctx.fds_mut().set_cloexec(fd, arg as u32 & FD_CLOEXEC != 0)?;
            Ok(0)
        }
        F_GETFL => Ok(ctx.kernel.files[id].status.into()),
        _ if ctx.kernel.files[id].status & O_PATH != 0 => Err(Errno::EBADF.into()),
        F_SETFL => {
            set_status(ctx, id, fd as i32, arg as u32)?;
            Ok(0)
        }
        F_SETOWN => {
            ctx.kernel.files[id].signals.recipient = ctx.recipient_of_number(arg as i32)?;
            Ok(0)
        }
        F_GETOWN => Ok(ctx.kernel.files[id].signals.recipient.number() as u64),
        F_SETOWN_EX => {
            let owner = ctx.process.memory.read_value(arg)?;
            ctx.kernel.files[id].signals.recipient = ctx.recipient_of(owner)?;
            Ok(0)
        }
        F_GETOWN_EX => {
            let owner = ctx.kernel.files[id].signals.recipient.described();
            ctx.process.memory.write_value(arg, &owner)?;
            Ok(0)
        }
        F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW => {
            super::locks::record_lock(ctx, fd, command as i32, arg)
        }
        F_GETPIPE_SZ => Ok(pipe_of(ctx, id)?.capacity() as u64),
        F_SETPIPE_SZ => {
            let privileged = ctx.credentials().can(CAP_SYS_RESOURCE);
            let capacity = pipe_of(ctx, id)?.set_capacity(arg as u32 as usize, privileged)?;
            if let FileKind::Pipe(end) = ctx.kernel.files[id].kind {
                // There may be more room now (`pipe_resize_ring`).
                ctx.kernel.notify_pipe_writers(end.pipe, Events::WRITABLE);
            }
            Ok(capacity as u64)
        }
        F_GET_SEALS | F_ADD_SEALS => seals(ctx, id, command as i32, arg as u32),
        F_SETSIG if arg == 0 || arg <= Signal::MAX as u64 => {
            ctx.kernel.files[id].signals.signal = arg as i32;
            Ok(0)
        }
        F_SETSIG | F_NOTIFY => Err(Errno::EINVAL.into()),
        F_SETLEASE => {
            demand_leasable(ctx, id, arg as i32)?;
            ctx.set_lease(id, arg as i32)?;
            // Whoever holds one is told by signal (`lease_setup`, `lease_modify`).
            let file = &mut ctx.kernel.files[id];
            file.signals.fd = fd as i32;
            file.status = if arg as i32 == F_UNLCK { file.status & !O_ASYNC } else { file.status | O_ASYNC };
            Ok(0)
        }
        F_GETSIG => Ok(ctx.kernel.files[id].signals.signal as u64),
        F_GETLEASE => Ok(ctx.kernel.lease_of(id) as u64),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// What is no file has no leases, which its owner alone is told (`generic_setlease`). EACCES, EINVAL.
fn demand_leasable(ctx: &mut Ctx<'_>, id: FileId, kind: i32) -> Result<(), Errno> {
    let known = matches!(kind, F_RDLCK | F_WRLCK | F_UNLCK);
    if !known || matches!(ctx.kernel.files[id].kind, FileKind::Regular(_) | FileKind::Queue(_)) {
        return Ok(());
    }
    let owner = super::stat::stat_open(ctx, id)?.st_uid;
    let may = owner == ctx.credentials().user.fs || ctx.credentials().can(CAP_LEASE);
    Err(if may { Errno::EINVAL } else { Errno::EACCES })
}

/// F_SETFL. EPERM for who wants a file of somebody else to keep its time of access; EINVAL for O_DIRECT where there is none.
fn set_status(ctx: &mut Ctx<'_>, id: FileId, fd: i32, wanted: u32) -> Result<(), Errno> {
    let file = &ctx.kernel.files[id];
    let (status, takes_signals) = (file.status, file.kind.sends_signals());
    // Pipes have packets, and files of a disk may be read without a cache.
    let takes_direct = match &file.kind {
        FileKind::Regular(file) => !file.is_memory(),
        FileKind::Pipe(_) | FileKind::Output(_) => true,
        _ => false,
    };
    if wanted & O_NOATIME != 0 && status & O_NOATIME == 0 {
        let owner = crate::vfs::permission::Permissions::from(&super::stat::stat_open(ctx, id)?);
        if !owner.is_owned_by(ctx.credentials()) {
            return Err(Errno::EPERM);
        }
    }
    if wanted & O_DIRECT != 0 && !takes_direct {
        return Err(Errno::EINVAL);
    }
    if takes_signals && (wanted ^ status) & O_ASYNC != 0 {
        ctx.set_async(id, fd, wanted & O_ASYNC != 0)?;
    }
    let file = &mut ctx.kernel.files[id];
    file.status = file.status & !SETTABLE | wanted & SETTABLE;
    Ok(())
}

fn pipe_of<'a>(ctx: &'a mut Ctx<'_>, id: FileId) -> Result<&'a mut Pipe, Errno> {
    let FileKind::Pipe(end) = ctx.kernel.files[id].kind else { return Err(Errno::EBADF) };
    Ok(&mut ctx.kernel.pipes[end.pipe.0 as usize])
}

fn seals(ctx: &mut Ctx<'_>, id: FileId, command: i32, add: u32) -> SysResult {
    // The order of `memfd_add_seals`.
    if command == F_ADD_SEALS && !ctx.kernel.files[id].writable() {
        return Err(Errno::EPERM.into());
    }
    if command == F_ADD_SEALS && add & !KNOWN_SEALS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if !matches!(&ctx.kernel.files[id].kind, FileKind::Regular(file) if file.is_memory()) {
        return Err(Errno::EINVAL.into());
    }
    if command == F_GET_SEALS {
        return Ok((ctx.kernel.seals(id)? & KNOWN_SEALS).into());
    }
    let real = ctx.kernel.real_descriptor(id)?;
    rustix::fs::fcntl_add_seals(real, SealFlags::from_bits_retain(add))
        .map(|()| 0)
        .map_err(|error| crate::vfs::errno(error).into())
}

/// ioctl(2): what every descriptor has, and requests on pipes and files; those on sockets are in `net::ioctl`.
pub fn ioctl(ctx: &mut Ctx<'_>, [fd, request, arg, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    match request as u32 {
        FIOCLEX | FIONCLEX => {
            ctx.fds_mut().set_cloexec(fd, request as u32 == FIOCLEX)?;
            Ok(0)
        }
        FIONBIO => {
            let on: i32 = ctx.process.memory.read_value(arg)?;
            let status = &mut ctx.kernel.files[id].status;
            *status = if on != 0 { *status | O_NONBLOCK } else { *status & !O_NONBLOCK };
            Ok(0)
        }
        FIOASYNC => {
            let on: i32 = ctx.process.memory.read_value(arg)?;
            let file = &ctx.kernel.files[id];
            if (on != 0) != (file.status & O_ASYNC != 0) {
                if !file.kind.sends_signals() {
                    return Err(Errno::ENOTTY.into());
                }
                ctx.set_async(id, fd as i32, on != 0)?;
            }
            Ok(0)
        }
        FIGETBSZ if let FileKind::Terminal(file) = ctx.kernel.files[id].kind => {
            let bytes = if file.controlling { BLOCK_BYTES } else { TERMINAL_BLOCK_BYTES };
            ctx.process.memory.write_value(arg, &bytes)?;
            Ok(0)
        }
        FIGETBSZ if !matches!(ctx.kernel.files[id].kind, FileKind::Snapshot(_)) => {
            ctx.process.memory.write_value(arg, &BLOCK_BYTES)?;
            Ok(0)
        }
        request if let FileKind::Namespace(namespace) = ctx.kernel.files[id].kind => {
            namespaces::ioctl(ctx, namespace, request, arg)
        }
        FICLONE => clone_range(ctx, id, arg),
        FICLONERANGE => {
            let source: i64 = ctx.process.memory.read_value(arg)?;
            clone_range(ctx, id, source as u64)
        }
        request if let FileKind::Terminal(file) = ctx.kernel.files[id].kind => tty::ioctl(ctx, file, request, arg),
        request if net::is_socket(&ctx.kernel.files[id].kind) => net::ioctl::ioctl(ctx, id, request, arg),
        FIONREAD => {
            let available = match &ctx.kernel.files[id].kind {
                FileKind::Pipe(end) => ctx.kernel.pipes[end.pipe.0 as usize].len() as u64,
                FileKind::Inotify(instance) => instance.available() as u64,
                FileKind::Regular(file) => {
                    // Behind the end it is negative; what does not fit is cut off.
                    let offset = file.offset;
                    let left = ctx.kernel.regular_size(id)?.wrapping_sub(offset);
                    ctx.process.memory.write_value(arg, &(left as i32))?;
                    return Ok(0);
                }
                FileKind::Snapshot(shown) => {
                    // As of any regular file, whose size is 0 where nobody knows it.
                    let left = shown.shown_size().wrapping_sub(shown.offset);
                    ctx.process.memory.write_value(arg, &(left as i32))?;
                    return Ok(0);
                }
                FileKind::Queue(open) => {
                    let left = ctx.kernel.ipc.queues.get(open.queue).file_bytes.wrapping_sub(open.offset);
                    ctx.process.memory.write_value(arg, &(left as i32))?;
                    return Ok(0);
                }
                FileKind::Epoll(_) => return Err(Errno::EINVAL.into()),
                _ => return Err(Errno::ENOTTY.into()),
            };
            ctx.process.memory.write_value(arg, &(available.min(i32::MAX as u64) as i32))?;
            Ok(0)
        }
        RNDGETENTCNT if matches!(ctx.kernel.files[id].kind, FileKind::Device(Device::Random | Device::Urandom)) => {
            ctx.process.memory.write_value(arg, &ENTROPY_BITS)?;
            Ok(0)
        }
        _ if matches!(ctx.kernel.files[id].kind, FileKind::Epoll(_)) => Err(Errno::EINVAL.into()),
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// ioctl_ficlone(2), ioctl_ficlonerange(2): no file system shares blocks. EBADF, EISDIR, EINVAL, EXDEV, EOPNOTSUPP.
fn clone_range(ctx: &Ctx<'_>, id: FileId, source: u64) -> SysResult {
    let source = ctx.file(source as u32 as u64)?;
    let files = &ctx.kernel.files;
    if files[source].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    let kinds = [&files[source].kind, &files[id].kind];
    if kinds.iter().any(|kind| matches!(kind, FileKind::Directory(_))) {
        return Err(Errno::EISDIR.into());
    }
    if kinds.iter().any(|kind| matches!(kind, FileKind::Device(_) | FileKind::Snapshot(_))) {
        return Err(Errno::EXDEV.into());
    }
    if !kinds.iter().all(|kind| matches!(kind, FileKind::Regular(_) | FileKind::Output(_))) {
        return Err(Errno::EINVAL.into());
    }
    let usable = files[source].readable() && files[id].writable() && files[id].status & O_APPEND == 0;
    Err(if usable { Errno::EOPNOTSUPP } else { Errno::EBADF }.into())
}

/// pipe(2).
pub fn pipe(ctx: &mut Ctx<'_>, [out, ..]: [u64; 6]) -> SysResult {
    pipe2(ctx, [out, 0, 0, 0, 0, 0])
}

/// pipe2(2).
pub fn pipe2(ctx: &mut Ctx<'_>, [out, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK | O_DIRECT) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pipe = ctx.kernel.new_pipe();
    ctx.kernel.pipes[pipe.0 as usize].permissions = Permissions::nameless(S_IFIFO | 0o600, ctx.credentials());
    let mut ends = [FileId(0); 2];
    for (i, file) in ends.iter_mut().enumerate() {
        let end = PipeEnd { pipe, reads: i == 0, writes: i == 1 };
        // Packets are made by who writes: only that end shows O_DIRECT.
        let kept = if end.writes { O_NONBLOCK | O_DIRECT } else { O_NONBLOCK };
        *file = ctx.kernel.files.insert(OpenFile::new(FileKind::Pipe(end), flags & kept | i as u32));
        ctx.kernel.attach_pipe_end(end, *file);
    }
    install_pair(ctx, ends, flags & O_CLOEXEC != 0, out)
}

/// Gives two files descriptors and stores these at `out`; on failure both are closed.
pub(super) fn install_pair(ctx: &mut Ctx<'_>, files: [FileId; 2], cloexec: bool, out: u64) -> SysResult {
    let first = match ctx.install(files[0], cloexec) {
        Ok(fd) => fd,
        Err(errno) => {
            ctx.kernel.release_file(files[1]);
            return Err(errno.into());
        }
    };
    let result = ctx.install(files[1], cloexec).map_err(Outcome::from).and_then(|second| {
        let written = ctx.process.memory.write_value(out, &[first as i32, second as i32]);
        written.map_err(|fault| {
            if let Ok(file) = ctx.fds_mut().remove(second) {
                ctx.kernel.release_file(file);
            }
            fault.into()
        })
    });
    if let Err(outcome) = result {
        let file = ctx.fds_mut().remove(first)?;
        ctx.kernel.release_file(file);
        return Err(outcome);
    }
    Ok(0)
}

/// eventfd(2), the older call.
pub fn eventfd(ctx: &mut Ctx<'_>, [count, ..]: [u64; 6]) -> SysResult {
    eventfd2(ctx, [count, 0, 0, 0, 0, 0])
}

/// eventfd2.
pub fn eventfd2(ctx: &mut Ctx<'_>, [count, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let event = EventFd { count: count as u32 as u64, semaphore: flags & EFD_SEMAPHORE != 0 };
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Event(event), O_RDWR | flags & O_NONBLOCK));
    Ok(ctx.install(file, flags & EFD_CLOEXEC != 0)?)
}

/// sync_file_range(2): ESPIPE for what has no pages.
pub fn sync_file_range(ctx: &mut Ctx<'_>, [fd, from, bytes, flags, ..]: [u64; 6]) -> SysResult {
    const KNOWN_FLAGS: u64 = 7;
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    let end = (from as i64).checked_add(bytes as i64);
    if flags & !KNOWN_FLAGS != 0 || (from as i64) < 0 || end.is_none_or(|end| end < from as i64) {
        return Err(Errno::EINVAL.into());
    }
    match ctx.kernel.files[id].kind {
        FileKind::Regular(_) | FileKind::Directory(_) | FileKind::Output(_) | FileKind::Snapshot(_) => Ok(0),
        FileKind::Queue(_) | FileKind::Process(_) | FileKind::Namespace(_) => Ok(0),
        FileKind::Name(_) => Err(Errno::EBADF.into()),
        _ => Err(Errno::ESPIPE.into()),
    }
}

/// syncfs(2): any file is of some file system.
pub fn syncfs(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 { Err(Errno::EBADF.into()) } else { Ok(0) }
}

/// fsync(2), fdatasync(2): nothing is ever lost.
pub fn fsync(ctx: &mut Ctx<'_>, [fd, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    match ctx.kernel.files[id].kind {
        FileKind::Regular(_) | FileKind::Directory(_) | FileKind::Output(_) => Ok(0),
        FileKind::Name(_) => Err(Errno::EBADF.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// sync(2).
pub fn sync(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(0)
}

/// ftruncate(2).
pub fn ftruncate(ctx: &mut Ctx<'_>, [fd, size, ..]: [u64; 6]) -> SysResult {
    if size > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    let longest = match &ctx.kernel.files[id].kind {
        _ if !ctx.kernel.files[id].writable() => return Err(Errno::EINVAL.into()),
        FileKind::Regular(file) => file.longest(),
        // It says how long the queue's file is, and nothing else.
        FileKind::Queue(open) => {
            let queue = open.queue;
            // Unlike open(2), mq_open(2) does not set O_LARGEFILE (`do_sys_ftruncate`).
            if size > i32::MAX as u64 {
                return Err(Errno::EINVAL.into());
            }
            ctx.demand_file_size(size)?;
            ctx.kernel.ipc.queues.get_mut(queue).file_bytes = size;
            return Ok(0);
        }
        // Files that are made up have no size that could change.
        FileKind::Snapshot(_) => return Ok(0),
        FileKind::Process(_) => return Err(Errno::EOPNOTSUPP.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    if size > ctx.kernel.regular_size(id)? {
        ctx.demand_file_size(size)?;
        if size > longest {
            return Err(Errno::EFBIG.into());
        }
    }
    ctx.drop_lent_rights(id)?;
    ctx.kernel.regular_truncate(id, size, ctx.now)?;
    Ok(0)
}

/// fallocate(2): growing, and punching holes.
pub fn fallocate(ctx: &mut Ctx<'_>, [fd, mode, offset, len, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    if offset > i64::MAX as u64 || len == 0 || len > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let mode = mode as u32;
    let (punches, zeroes) = (mode & FALLOC_FL_PUNCH_HOLE != 0, mode & FALLOC_FL_ZERO_RANGE != 0);
    demand_mode(mode)?;
    if !ctx.kernel.files[id].writable() {
        return Err(Errno::EBADF.into());
    }
    let longest = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => file.longest(),
        FileKind::Pipe(_) => return Err(Errno::ESPIPE.into()),
        FileKind::Queue(_) | FileKind::Process(_) | FileKind::Snapshot(_) => return Err(Errno::EOPNOTSUPP.into()),
        _ => return Err(Errno::ENODEV.into()),
    };
    let end = offset.checked_add(len).filter(|end| *end <= longest).ok_or(Errno::EFBIG)?;
    if ctx.kernel.is_memory(id) {
        demand_memory_mode(ctx, id, mode, end)?;
    } else if mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE) != 0 {
        // Not had here, but whole blocks it must be in any case.
        let whole = (offset | len).is_multiple_of(BLOCK_BYTES as u64);
        return Err(if whole { Errno::EOPNOTSUPP } else { Errno::EINVAL }.into());
    } else if mode & !(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if mode & (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) == 0 && ctx.kernel.regular_size(id)? < end {
        ctx.demand_file_size(end)?;
    }
    ctx.drop_lent_rights(id)?;
    if punches || zeroes {
        clear(ctx, id, offset, end)?;
        let number = ctx.kernel.lock_number(id);
        ctx.kernel.file_changed(number, Change::Cleared { from: offset, to: end });
    }
    if mode & FALLOC_FL_KEEP_SIZE == 0 && ctx.kernel.regular_size(id)? < end {
        ctx.kernel.truncate_silently(id, end, ctx.now)?;
    } else if !ctx.kernel.is_memory(id) {
        // Room that nobody sees counts as a change (`file_modified`).
        let number = ctx.kernel.lock_number(id);
        ctx.kernel.vfs.identities.touch(number, ctx.now);
    }
    ctx.kernel.open_file_event(id, IN_MODIFY);
    Ok(0)
}

/// Whether there is such a way of allocating, whatever the file (`vfs_fallocate` looks at that first). EOPNOTSUPP.
fn demand_mode(mode: u32) -> Result<(), Errno> {
    let keeps = mode & FALLOC_FL_KEEP_SIZE != 0;
    let is_known = match mode & !FALLOC_FL_KEEP_SIZE {
        0 | FALLOC_FL_ZERO_RANGE | FALLOC_FL_UNSHARE_RANGE => true,
        FALLOC_FL_PUNCH_HOLE => keeps,
        FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE | FALLOC_FL_WRITE_ZEROES => !keeps,
        _ => false,
    };
    if is_known { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// What files of memory take, and what their seals leave of it (`shmem_fallocate`). EOPNOTSUPP, EPERM.
fn demand_memory_mode(ctx: &mut Ctx<'_>, id: FileId, mode: u32, end: u64) -> Result<(), Errno> {
    if mode & !(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let seals = ctx.kernel.seals(id)?;
    let sealed = match mode & FALLOC_FL_PUNCH_HOLE {
        0 => seals & F_SEAL_GROW != 0 && end > ctx.kernel.regular_size(id)?,
        _ => seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0,
    };
    if sealed { Err(Errno::EPERM) } else { Ok(()) }
}

/// Makes a part of a file zeroes, as far as the file goes: a hole where the machine's file system has such, or else written ones, which no
/// guest can tell apart by reading.
fn clear(ctx: &mut Ctx<'_>, id: FileId, offset: u64, end: u64) -> Result<(), Errno> {
    const PIECE: u64 = 1 << 16;
    let mut at = offset;
    let end = end.min(ctx.kernel.regular_size(id)?);
    if at >= end {
        return Ok(());
    }
    let real = ctx.kernel.real_descriptor(id)?;
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(real, hole, at, end - at) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        other => return other.map_err(crate::vfs::errno),
    }
    let zeroes = [0; PIECE as usize];
    while at < end {
        let piece = &zeroes[..(end - at).min(PIECE) as usize];
        at += rustix::io::pwrite(real, piece, at).map_err(crate::vfs::errno)? as u64;
    }
    Ok(())
}

/// cachestat(2): what a file has is cached and written.
pub fn cachestat(ctx: &mut Ctx<'_>, [fd, range, out, flags, ..]: [u64; 6]) -> SysResult {
    const PAGE: u64 = 4096;
    let id = ctx.opened(fd)?;
    let [offset, len]: [u64; 2] = ctx.process.memory.read_value(range)?;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let pages = match ctx.kernel.files[id].kind {
        FileKind::Regular(_) => {
            let size = ctx.kernel.regular_size(id)?;
            let end = if len == 0 { size } else { offset.saturating_add(len).min(size) };
            end.div_ceil(PAGE).saturating_sub(offset / PAGE)
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    };
    ctx.process.memory.write_value(out, &[pages, 0, 0, 0, 0])?;
    Ok(0)
}

/// readahead(2): advice on a file that can be read. EBADF, EINVAL.
pub fn readahead(ctx: &mut Ctx<'_>, [fd, _, bytes, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    if !ctx.kernel.files[id].readable() {
        return Err(Errno::EBADF.into());
    }
    use FileKind::{Namespace, Queue, Regular, Snapshot};
    let regular = matches!(ctx.kernel.files[id].kind, Regular(_) | Snapshot(_) | Queue(_) | Namespace(_));
    if regular && bytes <= i64::MAX as u64 { Ok(0) } else { Err(Errno::EINVAL.into()) }
}

/// posix_fadvise(2): advice.
pub fn fadvise(ctx: &mut Ctx<'_>, [fd, _, bytes, advice, ..]: [u64; 6]) -> SysResult {
    const LAST_KNOWN: u32 = 5;
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    match ctx.kernel.files[id].kind {
        FileKind::Pipe(_) => Err(Errno::ESPIPE.into()),
        _ if (bytes as i64) < 0 || advice as u32 > LAST_KNOWN => Err(Errno::EINVAL.into()),
        _ => Ok(0),
    }
}
