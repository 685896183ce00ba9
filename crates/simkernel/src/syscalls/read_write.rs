//! Reading and writing through descriptors, of whatever kind: the blocking side of `Kernel::try_read` and `try_write`.

use super::proc_memory;
use super::splice::{gives_pages, takes_pages};
use crate::ctx::Ctx;
use crate::files::regular::LONGEST_ON_DISK;
use crate::files::synthetic::Shown;
use crate::files::{FileKind, signalfd};
use crate::ids::FileId;
use crate::net;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSource, UserBuffers, VecSink};
use crate::vfs::mount_around;
use crate::vfs::synthetic::{self, Synthetic};
use crate::wait::Events;
use linux_abi::fs::{IN_ACCESS, MAX_RW_COUNT, O_APPEND, O_PATH, SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET};
use linux_abi::fs::{RWF_APPEND, RWF_DSYNC, RWF_HIPRI, RWF_NOWAIT, RWF_SYNC};
use linux_abi::{Errno, Signal};

/// The longest file of a file system that says nothing of it, as that of queues.
const LAST_OF_QUEUES: u64 = i32::MAX as u64;

/// Bytes that one step of `sendfile` or `copy_file_range` moves.
const COPY_CHUNK: usize = 64 << 10;

/// read(2).
pub fn read(ctx: &mut Ctx<'_>, [fd, address, len, ..]: [u64; 6]) -> SysResult {
    read_into(ctx, fd, &UserBuffers::single(address, len), None)
}

/// write(2).
pub fn write(ctx: &mut Ctx<'_>, [fd, address, len, ..]: [u64; 6]) -> SysResult {
    write_from(ctx, fd, &UserBuffers::single(address, len), None)
}

/// readv(2).
pub fn readv(ctx: &mut Ctx<'_>, [fd, vector, count, ..]: [u64; 6]) -> SysResult {
    demand_access(ctx, fd, false)?;
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    read_vector(ctx, fd, &buffers, None)
}

/// Who reads by a vector has accessed the file also where there was nothing (`vfs_readv`).
fn read_vector(ctx: &mut Ctx<'_>, fd: u64, buffers: &UserBuffers, position: Option<u64>) -> SysResult {
    let done = read_into(ctx, fd, buffers, position)?;
    if done == 0 {
        let file = ctx.file(fd)?;
        ctx.kernel.open_file_event(file, IN_ACCESS);
    }
    Ok(done)
}

/// writev(2).
pub fn writev(ctx: &mut Ctx<'_>, [fd, vector, count, ..]: [u64; 6]) -> SysResult {
    demand_access(ctx, fd, true)?;
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    write_from(ctx, fd, &buffers, None)
}

/// pread64(2).
pub fn pread64(ctx: &mut Ctx<'_>, [fd, address, len, position, ..]: [u64; 6]) -> SysResult {
    let position = checked_position(ctx, fd, position)?;
    read_into(ctx, fd, &UserBuffers::single(address, len), Some(position))
}

/// pwrite64(2).
pub fn pwrite64(ctx: &mut Ctx<'_>, [fd, address, len, position, ..]: [u64; 6]) -> SysResult {
    let position = checked_position(ctx, fd, position)?;
    if position.saturating_add(len) > i64::MAX as u64 && ctx.kernel.files[ctx.file(fd)?].writable() {
        return Err(Errno::EINVAL.into());
    }
    write_from(ctx, fd, &UserBuffers::single(address, len), Some(position))
}

/// preadv(2).
pub fn preadv(ctx: &mut Ctx<'_>, [fd, vector, count, position, ..]: [u64; 6]) -> SysResult {
    let position = checked_position(ctx, fd, position)?;
    demand_access(ctx, fd, false)?;
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    demand_place(&buffers, Some(position))?;
    read_vector(ctx, fd, &buffers, Some(position))
}

/// pwritev(2).
pub fn pwritev(ctx: &mut Ctx<'_>, [fd, vector, count, position, ..]: [u64; 6]) -> SysResult {
    let position = checked_position(ctx, fd, position)?;
    demand_access(ctx, fd, true)?;
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    demand_place(&buffers, Some(position))?;
    write_from(ctx, fd, &buffers, Some(position))
}

/// preadv2(2): position -1 stands for the file's own.
pub fn preadv2(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    let (file, position, buffers) = flagged(ctx, args, false)?;
    if !buffers.is_empty_vector() {
        check_rwf(args[5])?;
        if args[5] as u32 & RWF_NOWAIT != 0 && !ctx.kernel.poll_file(file).intersects(Events::READABLE) {
            return Err(Errno::EAGAIN.into());
        }
    }
    read_vector(ctx, args[0], &buffers, position)
}

/// pwritev2(2).
pub fn pwritev2(ctx: &mut Ctx<'_>, args: [u64; 6]) -> SysResult {
    let (file, position, buffers) = flagged(ctx, args, true)?;
    if buffers.is_empty_vector() {
        return Ok(0);
    }
    if matches!(ctx.kernel.files[file].kind, FileKind::Event(_)) && args[5] as u32 & !RWF_HIPRI != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    check_rwf(args[5])?;
    if args[5] as u32 & RWF_NOWAIT != 0 && !ctx.kernel.poll_file(file).intersects(Events::WRITABLE) {
        return Err(Errno::EAGAIN.into());
    }
    write_flagged(ctx, args[0], &buffers, position, args[5] as u32)
}

/// Writes as flags that are known say.
pub(super) fn write_flagged(
    ctx: &mut Ctx<'_>,
    fd: u64,
    buffers: &UserBuffers,
    position: Option<u64>,
    flags: u32,
) -> SysResult {
    let file = ctx.file(fd)?;
    if flags & RWF_APPEND != 0 && matches!(ctx.kernel.files[file].kind, FileKind::Regular(_)) {
        return append(ctx, file, fd, position, buffers);
    }
    write_from(ctx, fd, buffers, position)
}

/// What `preadv2` and `pwritev2` look at before their flags.
fn flagged(ctx: &mut Ctx<'_>, args: [u64; 6], writing: bool) -> Result<(FileId, Option<u64>, UserBuffers), Outcome> {
    let [fd, vector, count, position, ..] = args;
    let position = if position == u64::MAX { None } else { Some(checked_position(ctx, fd, position)?) };
    let file = demand_access(ctx, fd, writing)?;
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    demand_place(&buffers, position)?;
    Ok((file, position, buffers))
}

/// A vector's buffers, and a place in a file that has room for them behind it, whether it is written there or at the end (`rw_verify_area`).
/// EFAULT, EINVAL.
pub(super) fn demand_place(buffers: &UserBuffers, position: Option<u64>) -> Result<(), Outcome> {
    buffers.check()?;
    match position {
        Some(position) if position.saturating_add(buffers.total() as u64) > i64::MAX as u64 => {
            Err(Errno::EINVAL.into())
        }
        _ => Ok(()),
    }
}

/// What is looked at before the vector of a call is read (`vfs_readv`, `vfs_writev`). EBADF, EINVAL.
pub(super) fn demand_access(ctx: &Ctx<'_>, fd: u64, writing: bool) -> Result<FileId, Errno> {
    let id = ctx.file(fd)?;
    let file = &ctx.kernel.files[id];
    match if writing { file.writable() } else { file.readable() } {
        false => Err(Errno::EBADF),
        true if !file.kind.has_contents(writing) => Err(Errno::EINVAL),
        true => Ok(id),
    }
}

/// SIGPIPE for who writes where nobody reads; sockets of messages raise none.
pub(super) fn raise_broken_pipe(ctx: &mut Ctx<'_>, file: FileId) {
    let silent = match &ctx.kernel.files[file].kind {
        FileKind::Inet(socket) => !socket.is_stream,
        FileKind::Unix(id) => ctx.kernel.unix_socket(*id).is_ok_and(|socket| socket.kind != crate::unix::Kind::Stream),
        _ => false,
    };
    if !silent {
        ctx.raise(Signal::SIGPIPE);
    }
}

/// RWF_APPEND: at the end, wherever the file's offset is; that moves only if the caller gave no position.
fn append(ctx: &mut Ctx<'_>, file: FileId, fd: u64, position: Option<u64>, buffers: &UserBuffers) -> SysResult {
    let end = ctx.kernel.regular_size(file)?;
    let written = write_from(ctx, fd, buffers, Some(end))?;
    if position.is_none()
        && let FileKind::Regular(regular) = &mut ctx.kernel.files[file].kind
    {
        regular.offset = end + written;
    }
    Ok(written)
}

/// Flags about the disk have no meaning here, and RWF_APPEND none for reading. EOPNOTSUPP for those that are not known.
pub(super) fn check_rwf(flags: u64) -> Result<(), Errno> {
    const KNOWN: u32 = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND;
    if flags as u32 & !KNOWN != 0 { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// A position argument. EBADF, EINVAL when negative, ESPIPE where there are no positions.
fn checked_position(ctx: &Ctx<'_>, fd: u64, position: u64) -> Result<u64, Errno> {
    if position > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    let id = ctx.file(fd)?;
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    if !ctx.kernel.files[id].kind.takes_positions() {
        return Err(Errno::ESPIPE);
    }
    Ok(position)
}

/// Reads into a guest's buffers, waiting where the descriptor says so.
pub(crate) fn read_into(ctx: &mut Ctx<'_>, fd: u64, buffers: &UserBuffers, position: Option<u64>) -> SysResult {
    let id = ctx.file(fd)?;
    let file = &ctx.kernel.files[id];
    if !file.readable() {
        return Err(Errno::EBADF.into());
    }
    buffers.check()?;
    if buffers.is_empty_vector() {
        return Ok(0);
    }
    if net::is_socket(&file.kind) {
        return net::read(ctx, id, buffers);
    }
    if let FileKind::Terminal(tty) = file.kind {
        return crate::tty::read(ctx, id, tty, buffers);
    }
    if let FileKind::Signals(set) = file.kind {
        return signalfd::read(ctx, id, set, buffers);
    }
    if let FileKind::Snapshot(snapshot) = &file.kind {
        match snapshot.shown {
            Shown::Memory(image) => return proc_memory::read(ctx, id, image, buffers, position),
            Shown::Pages(image) => return proc_memory::read_pages(ctx, id, image, buffers, position),
            Shown::Content if snapshot.is_of_kernel() && position.unwrap_or(snapshot.offset) == 0 => renew(ctx, id)?,
            Shown::Content | Shown::Nothing => {}
        }
    }
    let file = &ctx.kernel.files[id];
    if matches!(file.kind, FileKind::Inotify(_)) {
        return by_parts(ctx, id, buffers, Events::READABLE, |ctx, part| {
            ctx.kernel.try_read(id, &mut part.sink(&ctx.process.memory), None)
        });
    }
    let nonblocking = file.nonblocking();
    match ctx.kernel.try_read(id, &mut buffers.sink(&ctx.process.memory), position) {
        Ok(count) => Ok(count as u64),
        Err(Errno::EAGAIN) if !nonblocking => Err(wait_for(ctx, id, Events::READABLE)),
        Err(errno) => Err(errno.into()),
    }
}

/// What is read from the beginning of a file of `/proc` or `/sys` is what holds then. ESRCH for a
/// process that is over (`proc_single_show`).
fn renew(ctx: &mut Ctx<'_>, id: FileId) -> Result<(), Errno> {
    let made = (ctx.kernel.turns, ctx.process.calls);
    let FileKind::Snapshot(snapshot) = &ctx.kernel.files[id].kind else { return Ok(()) };
    if (snapshot.made.0, snapshot.made.1 + 1) == made {
        return Ok(());
    }
    let (path, outlives) = (snapshot.path.clone(), snapshot.outlives_process());
    let content = match ctx.with_vfs(|_, view| synthetic::lookup(view, &path)) {
        Some(Synthetic::File(content)) => content,
        _ if outlives => return Ok(()),
        _ => return Err(Errno::ESRCH),
    };
    if let FileKind::Snapshot(snapshot) = &mut ctx.kernel.files[id].kind {
        (snapshot.content, snapshot.made) = (content, made);
    }
    Ok(())
}

/// Waits for a file's events, for as long as a timeout of the file (a socket's) allows. EAGAIN when that is over.
pub(crate) fn wait_for(ctx: &mut Ctx<'_>, id: FileId, events: Events) -> Outcome {
    if ctx.expired() {
        return Errno::EAGAIN.into();
    }
    ctx.block_on(id, events)
}

/// Writes a guest's buffers. A stream takes them in parts; the call ends when all is written.
pub(crate) fn write_from(ctx: &mut Ctx<'_>, fd: u64, buffers: &UserBuffers, position: Option<u64>) -> SysResult {
    let id = ctx.file(fd)?;
    let file = &ctx.kernel.files[id];
    if !file.writable() {
        return Err(Errno::EBADF.into());
    }
    buffers.check()?;
    if buffers.is_empty_vector() {
        return Ok(0);
    }
    if net::is_socket(&file.kind) {
        return net::write(ctx, id, buffers);
    }
    if let FileKind::Terminal(tty) = file.kind {
        return crate::tty::write(ctx, id, tty, buffers);
    }
    if let FileKind::Snapshot(snapshot) = &file.kind {
        return match snapshot.shown {
            Shown::Memory(image) => proc_memory::write(ctx, id, image, buffers, position),
            Shown::Content => super::proc_write::write(ctx, id, buffers),
            Shown::Pages(_) | Shown::Nothing => Err(Errno::EINVAL.into()),
        };
    }
    if matches!(file.kind, FileKind::Event(_)) {
        return by_parts(ctx, id, buffers, Events::WRITABLE, |ctx, part| {
            ctx.kernel.try_write(id, &mut part.source(&ctx.process.memory), None, ctx.now)
        });
    }
    let nonblocking = file.nonblocking();
    let stream = file.kind.is_stream();
    if buffers.total() > 0 {
        ctx.drop_lent_rights(id)?;
    }
    let room = ctx.limit_write(id, position, buffers.total() as u64)?;
    loop {
        let done = ctx.thread.call.progress as usize;
        let mut source = buffers.source(&ctx.process.memory);
        source.limit(room as usize);
        source.skip(done);
        let result = ctx.kernel.try_write(id, &mut source, position, ctx.now);
        let total = done + result.unwrap_or(0);
        match result {
            Ok(_) if !stream || total >= buffers.total() => return Ok(total as u64),
            Ok(_) => ctx.thread.call.progress = total as u64,
            Err(Errno::EAGAIN) if !nonblocking => {
                return finish_partial(total, Err(wait_for(ctx, id, Events::WRITABLE)));
            }
            Err(Errno::EPIPE) => {
                raise_broken_pipe(ctx, id);
                return finish_partial(total, Err(Errno::EPIPE.into()));
            }
            Err(errno) => return finish_partial(total, Err(errno.into())),
        }
    }
}

/// Reads or writes a file that knows no vectors: each buffer is a call of its own, until one fails or is not used up
/// (`do_loop_readv_writev`).
fn by_parts(
    ctx: &mut Ctx<'_>,
    id: FileId,
    buffers: &UserBuffers,
    events: Events,
    one: impl Fn(&mut Ctx<'_>, &UserBuffers) -> Result<usize, Errno>,
) -> SysResult {
    let nonblocking = ctx.kernel.files[id].nonblocking();
    let mut done = 0;
    for part in buffers.parts() {
        if done < ctx.thread.call.progress as usize {
            // An earlier execution of the call did it.
            done += part.total();
            continue;
        }
        match one(ctx, &part) {
            Ok(count) if count < part.total() => return Ok((done + count) as u64),
            Ok(count) => done += count,
            Err(Errno::EAGAIN) if !nonblocking => {
                ctx.thread.call.progress = done as u64;
                return finish_partial(done, Err(wait_for(ctx, id, events)));
            }
            Err(errno) => return finish_partial(done, Err(errno.into())),
        }
        if done == buffers.total() {
            break;
        }
    }
    Ok(done as u64)
}

/// What was moved before an error or a signal counts as the call's result.
pub(crate) fn finish_partial(done: usize, result: SysResult) -> SysResult {
    match result {
        Err(Outcome::Errno(_) | Outcome::Restart(_)) if done > 0 => Ok(done as u64),
        other => other,
    }
}

/// lseek(2).
pub fn lseek(ctx: &mut Ctx<'_>, [fd, offset, whence, ..]: [u64; 6]) -> SysResult {
    let id = ctx.file(fd)?;
    let (offset, whence) = (offset as i64, whence as u32);
    if ctx.kernel.files[id].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    if whence > SEEK_HOLE as u32 {
        return Err(Errno::EINVAL.into());
    }
    let (current, size) = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => {
            let current = file.offset;
            (current, ctx.kernel.regular_size(id)?)
        }
        // Any address is an offset; there is no end (`mem_lseek`).
        FileKind::Snapshot(snapshot) if snapshot.is_of_memory() => {
            return proc_memory::seek(ctx, id, offset as u64, whence as i32);
        }
        FileKind::Snapshot(snapshot) if snapshot.has_no_end() && !matches!(whence as i32, SEEK_SET | SEEK_CUR) => {
            return Err(Errno::EINVAL.into());
        }
        FileKind::Snapshot(snapshot) => (snapshot.offset, snapshot.shown_size()),
        FileKind::Directory(directory) => (directory.position as u64, end_of_folder(&directory.path)),
        FileKind::Queue(open) => (open.offset, ctx.kernel.ipc.queues.get(open.queue).file_bytes),
        FileKind::Device(_)
        | FileKind::Signals(_)
        | FileKind::Timer(_)
        | FileKind::Event(_)
        | FileKind::Epoll(_)
        | FileKind::Inotify(_) => {
            return Ok(0);
        }
        FileKind::Output(output) => {
            let size = ctx.kernel.outputs()[*output as usize].size;
            (size, size)
        }
        FileKind::Name(_) => return Err(Errno::EBADF.into()),
        _ => return Err(Errno::ESPIPE.into()),
    };
    let (real, last) = match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => (true, file.longest()),
        _ => (false, i64::MAX as u64),
    };
    let target = match whence as i32 {
        SEEK_DATA | SEEK_HOLE if real => seek_sparse(ctx, id, offset, whence as i32)?,
        whence => seek_target(offset, whence, current, size)?,
    };
    if target > last {
        return Err(Errno::EINVAL.into());
    }
    match &mut ctx.kernel.files[id].kind {
        FileKind::Regular(file) => file.offset = target,
        FileKind::Snapshot(snapshot) => snapshot.offset = target,
        FileKind::Queue(open) => open.offset = target,
        FileKind::Directory(directory) => {
            directory.position = target as usize;
            if target == 0 {
                directory.entries = None;
            }
        }
        _ => {}
    }
    Ok(target)
}

/// The end of a folder of ext4 is that of its hashes (`ext4_get_htree_eof`); elsewhere there is none.
fn end_of_folder(path: &[u8]) -> u64 {
    if mount_around(path).0 == "ext4" { i64::MAX as u64 } else { 0 }
}

/// Where data, or a hole, begins at or behind a position, as the machine's file system knows. ENXIO behind the end.
fn seek_sparse(ctx: &mut Ctx<'_>, id: FileId, offset: i64, whence: i32) -> Result<u64, Errno> {
    use rustix::fs::SeekFrom;
    let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    let from = if whence == SEEK_DATA { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
    // The real descriptor's own position is used for nothing else.
    rustix::fs::seek(ctx.kernel.real_descriptor(id)?, from).map_err(crate::vfs::errno)
}

/// The position that `lseek` moves to. Files other than real ones are data all over.
fn seek_target(offset: i64, whence: i32, current: u64, size: u64) -> Result<u64, Errno> {
    let target = match whence {
        SEEK_SET => offset,
        // What is too large turns negative.
        SEEK_CUR => (current as i64).wrapping_add(offset),
        SEEK_END => (size as i64).wrapping_add(offset),
        SEEK_DATA | SEEK_HOLE if offset < 0 || offset as u64 >= size => return Err(Errno::ENXIO),
        SEEK_DATA => offset,
        SEEK_HOLE => size as i64,
        _ => return Err(Errno::EINVAL),
    };
    u64::try_from(target).map_err(|_| Errno::EINVAL)
}

/// sendfile(2).
pub fn sendfile(ctx: &mut Ctx<'_>, [out, input, offset, count, ..]: [u64; 6]) -> SysResult {
    // The order of `do_sendfile`.
    let position = match offset {
        0 => None,
        address => Some(ctx.process.memory.read_value::<u64>(address)?),
    };
    let input = ctx.file(input)?;
    if ctx.kernel.files[input].status & O_PATH != 0 || !ctx.kernel.files[input].readable() {
        return Err(Errno::EBADF.into());
    }
    if position.is_some() && !ctx.kernel.files[input].kind.takes_positions() {
        return Err(Errno::ESPIPE.into());
    }
    if position.is_some_and(|position| position > i64::MAX as u64) {
        return Err(Errno::EINVAL.into());
    }
    // Where the input would end is looked at before there is an output.
    let start = position.unwrap_or_else(|| file_offset(ctx, input));
    if start.checked_add(count).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::EINVAL.into());
    }
    let out = ctx.file(out)?;
    if !ctx.kernel.files[out].writable() {
        return Err(Errno::EBADF.into());
    }
    if let FileKind::Queue(open) = &ctx.kernel.files[input].kind
        && position.unwrap_or(open.offset) >= LAST_OF_QUEUES
    {
        return Err(Errno::EOVERFLOW.into());
    }
    let is_regular = |file: FileId| matches!(ctx.kernel.files[file].kind, FileKind::Regular(_));
    let is_on_disk = is_regular(input) && !ctx.kernel.is_memory(input) || is_regular(out) && !ctx.kernel.is_memory(out);
    if is_on_disk && start >= LONGEST_ON_DISK && start + count > LONGEST_ON_DISK {
        return Err(Errno::EOVERFLOW.into());
    }
    let to_pipe = matches!(ctx.kernel.files[out].kind, FileKind::Pipe(_));
    if to_pipe && matches!(ctx.kernel.files[input].kind, FileKind::Regular(_) | FileKind::Inet(_) | FileKind::Unix(_)) {
        return super::splice::send_to_pipe(ctx, (input, offset), out, count);
    }
    let nonblocking = ctx.kernel.files[out].nonblocking();
    if let FileKind::Pipe(end) = ctx.kernel.files[out].kind {
        // Room is there before anything is read (`splice_file_to_pipe`).
        let pipe = &ctx.kernel.pipes[end.pipe.0 as usize];
        if !pipe.has_readers() {
            ctx.raise(Signal::SIGPIPE);
            return Err(Errno::EPIPE.into());
        }
        if pipe.room() == 0 && ctx.thread.call.progress == 0 {
            return Err(if nonblocking { Errno::EAGAIN.into() } else { wait_for(ctx, out, Events::WRITABLE) });
        }
        if count == 0 {
            return Ok(0);
        }
    }
    let appends = !to_pipe && ctx.kernel.files[out].status & O_APPEND != 0;
    let (from, to) = (&ctx.kernel.files[input].kind, &ctx.kernel.files[out].kind);
    // Whether the input can give anything is asked only of who wants something, and whether the output takes any once there is some.
    let gives = gives_pages(from) && !matches!(from, FileKind::Pipe(_));
    if appends || !(to_pipe || from.takes_seeks()) || count > 0 && !gives {
        return Err(Errno::EINVAL.into());
    }
    if count > 0 && !takes_pages(to) {
        let has_some = ctx.kernel.try_read(input, &mut VecSink::new(1), Some(start))? > 0;
        return if has_some { Err(Errno::EINVAL.into()) } else { Ok(0) };
    }
    let result = copy(ctx, (input, position), (out, None), count);
    let result = match result {
        Err(Outcome::Errno(Errno::EAGAIN)) if !nonblocking => Err(wait_for(ctx, out, Events::WRITABLE)),
        other => other,
    };
    finish_copy(ctx, result, &[(offset, position)])
}

/// A range of a file is not copied onto itself: EINVAL.
fn demand_apart(
    ctx: &mut Ctx<'_>,
    (input, from): (FileId, Option<u64>),
    (out, to): (FileId, Option<u64>),
    count: u64,
) -> Result<(), Errno> {
    let (from, to) = (from.unwrap_or_else(|| file_offset(ctx, input)), to.unwrap_or_else(|| file_offset(ctx, out)));
    let (source, target) = (ctx.kernel.regular_stat(input)?, ctx.kernel.regular_stat(out)?);
    let count = count.min((source.st_size as u64).saturating_sub(from));
    let meet = to.saturating_add(count) > from && to < from.saturating_add(count);
    if source.st_ino == target.st_ino && meet { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Moves bytes from file to file, continuing behind what the call has moved already (`progress`), until `count` is reached, the
/// input ends, or the output is full (EAGAIN).
fn copy(
    ctx: &mut Ctx<'_>,
    (input, from): (FileId, Option<u64>),
    (out, to): (FileId, Option<u64>),
    count: u64,
) -> SysResult {
    let count = count.min(MAX_RW_COUNT);
    while ctx.thread.call.progress < count {
        let done = ctx.thread.call.progress;
        let room = match ctx.limit_write(out, to.map(|position| position + done), count - done) {
            Err(_) if done > 0 => break,
            room => room?,
        };
        let mut chunk = VecSink::new(COPY_CHUNK.min(room as usize));
        let start = match from {
            Some(position) => position + done,
            None => file_offset(ctx, input),
        };
        if ctx.kernel.try_read(input, &mut chunk, Some(start))? == 0 {
            break;
        }
        if done == 0 {
            ctx.drop_lent_rights(out)?;
        }
        let written = match ctx.kernel.try_write(out, &mut &chunk.data[..], to.map(|p| p + done), ctx.now) {
            Ok(written) => written,
            Err(Errno::EPIPE) => {
                raise_broken_pipe(ctx, out);
                return Err(Errno::EPIPE.into());
            }
            Err(errno) => return Err(errno.into()),
        };
        // One open file has one offset, which the write has moved.
        if from.is_none() && (input != out || to.is_some()) {
            advance_offset(ctx, input, written as u64);
        }
        ctx.thread.call.progress += written as u64;
    }
    Ok(ctx.thread.call.progress)
}

fn file_offset(ctx: &Ctx<'_>, id: FileId) -> u64 {
    match &ctx.kernel.files[id].kind {
        FileKind::Regular(file) => file.offset,
        FileKind::Snapshot(snapshot) => snapshot.offset,
        _ => 0,
    }
}

fn advance_offset(ctx: &mut Ctx<'_>, id: FileId, by: u64) {
    match &mut ctx.kernel.files[id].kind {
        FileKind::Regular(file) => file.offset += by,
        FileKind::Snapshot(snapshot) => snapshot.offset += by,
        _ => {}
    }
}

/// Stores the new offsets once the call is over.
fn finish_copy(ctx: &mut Ctx<'_>, result: SysResult, offsets: &[(u64, Option<u64>)]) -> SysResult {
    if result == Err(Outcome::Block) {
        return result;
    }
    let done = ctx.thread.call.progress;
    for (address, position) in offsets {
        if let Some(position) = position {
            ctx.process.memory.write_value(*address, &(position + done))?;
        }
    }
    finish_partial(done as usize, result)
}

/// A number for the file system of what counts as a file: nothing is copied from one to another.
fn file_system_of(kind: &FileKind) -> u8 {
    match kind {
        FileKind::Regular(file) => file.is_memory().into(),
        FileKind::Snapshot(snapshot) if snapshot.path.starts_with(b"/proc/") => 2,
        FileKind::Snapshot(snapshot) if snapshot.path.starts_with(b"/sys/") => 3,
        FileKind::Queue(_) => 4,
        FileKind::Process(_) => 5,
        FileKind::Namespace(_) => 6,
        _ => 0,
    }
}

/// copy_file_range(2).
pub fn copy_file_range(ctx: &mut Ctx<'_>, [input, from, out, to, count, flags]: [u64; 6]) -> SysResult {
    // The order of `generic_copy_file_checks`.
    let (input, out) = (ctx.file(input)?, ctx.file(out)?);
    if [input, out].iter().any(|id| ctx.kernel.files[*id].status & O_PATH != 0) {
        return Err(Errno::EBADF.into());
    }
    let position = |address| match address {
        0 => Ok(None),
        address => ctx.process.memory.read_value::<u64>(address).map(Some),
    };
    let (start, target) = (position(from)?, position(to)?);
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let files = [&ctx.kernel.files[input], &ctx.kernel.files[out]];
    if files.iter().any(|file| matches!(file.kind, FileKind::Directory(_))) {
        return Err(Errno::EISDIR.into());
    }
    if files.iter().any(|file| !file.kind.is_file()) {
        return Err(Errno::EINVAL.into());
    }
    if !files[0].readable() || !files[1].writable() || files[1].status & O_APPEND != 0 {
        return Err(Errno::EBADF.into());
    }
    if file_system_of(&files[0].kind) != file_system_of(&files[1].kind) {
        return Err(Errno::EXDEV.into());
    }
    let positions = [start, target].into_iter().flatten();
    if positions.clone().any(|position| position.checked_add(count).is_none()) {
        return Err(Errno::EOVERFLOW.into());
    }
    if positions.clone().any(|position| position > i64::MAX as u64) {
        return Err(Errno::EINVAL.into());
    }
    if !matches!(ctx.kernel.files[input].kind, FileKind::Regular(_)) {
        // Only queues are longer than nothing, and of what is no file of a disk nothing can be moved.
        let is_queue = matches!(ctx.kernel.files[input].kind, FileKind::Queue(_));
        return if is_queue && count > 0 { Err(Errno::EINVAL.into()) } else { Ok(0) };
    }
    let most = if ctx.kernel.is_memory(out) { i64::MAX as u64 } else { LONGEST_ON_DISK };
    if target.unwrap_or_else(|| file_offset(ctx, out)) >= most {
        return Err(Errno::EFBIG.into());
    }
    demand_apart(ctx, (input, start), (out, target), count)?;
    // What there is now: a file that is copied behind its own end would never end.
    let from_here = start.unwrap_or_else(|| file_offset(ctx, input));
    let count = count.min(ctx.kernel.regular_size(input)?.saturating_sub(from_here) + ctx.thread.call.progress);
    let result = copy(ctx, (input, start), (out, target), count);
    finish_copy(ctx, result, &[(from, start), (to, target)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_stay_at_or_above_zero() {
        assert_eq!(seek_target(5, SEEK_SET, 0, 10), Ok(5));
        assert_eq!(seek_target(-3, SEEK_END, 0, 10), Ok(7));
        assert_eq!(seek_target(-1, SEEK_CUR, 0, 10), Err(Errno::EINVAL));
        assert_eq!(seek_target(1, SEEK_CUR, i64::MAX as u64, 10), Err(Errno::EINVAL));
        assert_eq!(seek_target(10, SEEK_DATA, 0, 10), Err(Errno::ENXIO));
        assert_eq!(seek_target(3, SEEK_HOLE, 0, 10), Ok(10));
        assert_eq!(seek_target(0, 9, 0, 10), Err(Errno::EINVAL));
    }

    #[test]
    fn what_was_moved_outweighs_an_error() {
        assert_eq!(finish_partial(3, Err(Errno::EPIPE.into())), Ok(3));
        assert_eq!(finish_partial(0, Err(Errno::EPIPE.into())), Err(Errno::EPIPE.into()));
        assert_eq!(finish_partial(3, Err(Outcome::Block)), Err(Outcome::Block));
    }
}
