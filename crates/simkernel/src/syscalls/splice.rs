//! splice, tee, vmsplice: bytes between a pipe and something else, without the guest's memory between. Nothing is saved by it here;
//! programs use it.

use super::proc_write::write_bytes;
use super::read_write::{finish_partial, raise_broken_pipe, read_into, wait_for};
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::files::pipe::PipeEnd;
use crate::ids::FileId;
use crate::net::stream::was_dissolved;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{UserBuffers, VecSink};
use crate::vfs::synthetic::Device;
use crate::wait::Events;
use linux_abi::fs::{MAX_RW_COUNT, O_APPEND, O_PATH, SPLICE_F_GIFT, SPLICE_F_MORE, SPLICE_F_MOVE, SPLICE_F_NONBLOCK};
use linux_abi::{Errno, Signal};

const KNOWN_FLAGS: u32 = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT;
const PAGE_BYTES: u64 = 4096;
/// Bytes moved in one step.
const CHUNK: usize = 64 << 10;

fn pipe_end(ctx: &Ctx<'_>, file: FileId) -> Option<PipeEnd> {
    match ctx.kernel.files[file].kind {
        FileKind::Pipe(end) => Some(end),
        _ => None,
    }
}

/// The input and output of a call: open, and open for that.
fn both(ctx: &Ctx<'_>, input: u64, output: u64) -> Result<(FileId, FileId), Errno> {
    let (input, output) = (ctx.file(input)?, ctx.file(output)?);
    if !ctx.kernel.files[input].readable() || !ctx.kernel.files[output].writable() {
        return Err(Errno::EBADF);
    }
    Ok((input, output))
}

/// Kinds that splice reads. Whoever reads nothing from `/dev/null` has nothing to pass on.
pub(super) fn gives_pages(kind: &FileKind) -> bool {
    use FileKind::{Inet, Netlink, Pipe, Regular, Snapshot, Unix};
    match kind {
        FileKind::Device(device) => *device != Device::Null,
        Snapshot(shown) => shown.gives_pages(),
        kind => matches!(kind, Pipe(_) | Regular(_) | Inet(_) | Netlink(_) | Unix(_)),
    }
}

/// Kinds that splice writes.
pub(super) fn takes_pages(kind: &FileKind) -> bool {
    use FileKind::{Inet, Netlink, Output, Pipe, Regular, Snapshot, Unix};
    match kind {
        FileKind::Device(device) => *device != Device::Full,
        Snapshot(shown) => shown.has_content(),
        kind => matches!(kind, Pipe(_) | Regular(_) | Output(_) | Inet(_) | Netlink(_) | Unix(_)),
    }
}

/// splice(2).
pub fn splice(ctx: &mut Ctx<'_>, [input, input_offset, output, output_offset, len, flags]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if len == 0 {
        return Ok(0);
    }
    if flags & !KNOWN_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    for fd in [input, output] {
        let id = ctx.file(fd)?;
        if ctx.kernel.files[id].status & O_PATH != 0 {
            return Err(Errno::EBADF.into());
        }
    }
    let has_place = |ctx: &Ctx<'_>, fd, offset| Ok::<_, Errno>(offset != 0 && pipe_end(ctx, ctx.file(fd)?).is_some());
    if has_place(ctx, input, input_offset)? || has_place(ctx, output, output_offset)? {
        return Err(Errno::ESPIPE.into());
    }
    let (input, output) = both(ctx, input, output)?;
    if !takes_pages(&ctx.kernel.files[output].kind) {
        return Err(Errno::EINVAL.into());
    }
    let (from_pipe, to_pipe) = (pipe_end(ctx, input), pipe_end(ctx, output));
    let len = len.min(MAX_RW_COUNT) as usize;
    // A pipe that does not wait is enough, on either side.
    let of_pipe = |end: Option<PipeEnd>, file| end.is_some() && ctx.kernel.files[file].nonblocking();
    let nonblocking = flags & SPLICE_F_NONBLOCK != 0 || of_pipe(from_pipe, input) || of_pipe(to_pipe, output);
    match (from_pipe, to_pipe) {
        (Some(from), Some(to)) if from.pipe == to.pipe => Err(Errno::EINVAL.into()),
        (Some(from), _) => drain(ctx, (input, from), (output, output_offset), len, nonblocking),
        (None, Some(to)) => fill(ctx, (input, input_offset), (output, to), len, nonblocking),
        (None, None) => Err(Errno::EINVAL.into()),
    }
}

/// sendfile(2) to a pipe, which is a splice; `offset` is the address of the input's, or 0.
pub(super) fn send_to_pipe(ctx: &mut Ctx<'_>, (input, offset): (FileId, u64), output: FileId, count: u64) -> SysResult {
    let to = pipe_end(ctx, output).ok_or(Errno::EINVAL)?;
    let nonblocking = ctx.kernel.files[output].nonblocking();
    fill(ctx, (input, offset), (output, to), count.min(MAX_RW_COUNT) as usize, nonblocking)
}

/// An offset argument: null for the file's own. EINVAL where there are no positions.
fn offset(ctx: &Ctx<'_>, file: FileId, address: u64) -> Result<Option<u64>, Outcome> {
    if address == 0 {
        return Ok(None);
    }
    if !ctx.kernel.files[file].kind.seekable() {
        return Err(Errno::EINVAL.into());
    }
    let offset: u64 = ctx.process.memory.read_value(address)?;
    if offset > i64::MAX as u64 { Err(Errno::EINVAL.into()) } else { Ok(Some(offset)) }
}

/// From a pipe to a file, a socket or another pipe: as much as is there and fits.
fn drain(
    ctx: &mut Ctx<'_>,
    (input, from): (FileId, PipeEnd),
    (output, address): (FileId, u64),
    len: usize,
    nonblocking: bool,
) -> SysResult {
    let position = offset(ctx, output, address)?;
    if pipe_end(ctx, output).is_none() && ctx.kernel.files[output].status & O_APPEND != 0 {
        return Err(Errno::EINVAL.into());
    }
    if position.is_some_and(|position| position.saturating_add(len as u64) > i64::MAX as u64) {
        return Err(Errno::EINVAL.into());
    }
    let mut done = 0;
    let end = loop {
        if done >= len {
            break Ok(0);
        }
        let mut bytes = ctx.kernel.pipes[from.pipe.0 as usize].peek((len - done).min(CHUNK));
        if !bytes.is_empty() {
            match ctx.limit_write(output, position.map(|position| position + done as u64), bytes.len() as u64) {
                Ok(room) => bytes.truncate(room as usize),
                Err(errno) => break Err(errno.into()),
            }
        }
        let pipe = &ctx.kernel.pipes[from.pipe.0 as usize];
        if bytes.is_empty() {
            let wait = done == 0 && pipe.has_writers();
            let unread = |to: PipeEnd| !ctx.kernel.pipes[to.pipe.0 as usize].has_readers();
            if !wait && done == 0 && pipe_end(ctx, output).is_some_and(unread) {
                raise_broken_pipe(ctx, output);
                break Err(Errno::EPIPE.into());
            }
            if wait {
                break wait_unless(ctx, input, Events::READABLE, nonblocking);
            }
            // Another pipe is waited for also where nothing is left to give it (`opipe_prep`).
            let is_full = |to: PipeEnd| ctx.kernel.pipes[to.pipe.0 as usize].room() == 0;
            break if done == 0 && pipe_end(ctx, output).is_some_and(is_full) {
                wait_unless(ctx, output, Events::WRITABLE, nonblocking)
            } else {
                Ok(0)
            };
        }
        let result = match ctx.kernel.files[output].kind {
            FileKind::Snapshot(_) => write_bytes(ctx, output, &bytes),
            FileKind::Pipe(to) if !ctx.kernel.pipes[to.pipe.0 as usize].has_readers() => Err(Errno::EPIPE),
            FileKind::Pipe(to) => match ctx.kernel.pipe_hand_over(from, to, len - done, true) {
                0 => Err(Errno::EAGAIN),
                moved => {
                    done += moved;
                    continue;
                }
            },
            _ => ctx.kernel.try_write(output, &mut &bytes[..], position.map(|p| p + done as u64), ctx.now),
        };
        match result {
            Ok(written) => {
                ctx.kernel.pipe_consume(from, written);
                done += written;
            }
            Err(Errno::EAGAIN) if done > 0 => break Ok(0),
            Err(Errno::EAGAIN) => {
                let nonblocking = nonblocking || ctx.kernel.files[output].nonblocking();
                break wait_unless(ctx, output, Events::WRITABLE, nonblocking);
            }
            Err(errno) => {
                if errno == Errno::EPIPE && done == 0 {
                    raise_broken_pipe(ctx, output);
                }
                break Err(errno.into());
            }
        }
    };
    finish(ctx, done, end, address, position)
}

/// From a file or a socket to a pipe: what one read gives, as far as there is room.
fn fill(
    ctx: &mut Ctx<'_>,
    (input, address): (FileId, u64),
    (output, to): (FileId, PipeEnd),
    len: usize,
    nonblocking: bool,
) -> SysResult {
    let position = offset(ctx, input, address)?;
    let pipe = &ctx.kernel.pipes[to.pipe.0 as usize];
    if !pipe.has_readers() {
        ctx.raise(Signal::SIGPIPE);
        return Err(Errno::EPIPE.into());
    }
    let room = pipe.room();
    if room == 0 {
        return wait_unless(ctx, output, Events::WRITABLE, nonblocking || ctx.kernel.files[output].nonblocking());
    }
    if len == 0 {
        return Ok(0);
    }
    // Whether the input can give anything is asked last (`splice_file_to_pipe`).
    if !gives_pages(&ctx.kernel.files[input].kind) {
        return Err(Errno::EINVAL.into());
    }
    let from = position.unwrap_or(match &ctx.kernel.files[input].kind {
        FileKind::Regular(file) => file.offset,
        _ => 0,
    });
    // The first page holds what its page of the file does from there on.
    let room = room - (from % PAGE_BYTES) as usize;
    let mut chunk = VecSink::new(len.min(room).min(CHUNK));
    if was_dissolved(ctx, input) {
        return Err(Errno::EPIPE.into());
    }
    match ctx.kernel.try_read(input, &mut chunk, position) {
        Ok(_) => {}
        Err(Errno::EAGAIN) => {
            // Streams of Unix sockets also heed what was asked of the call (`unix_stream_splice_read`).
            let heeds = ctx.kernel.is_unix_stream(input);
            let nonblocking = heeds && nonblocking || ctx.kernel.files[input].nonblocking();
            return wait_unless(ctx, input, Events::READABLE, nonblocking);
        }
        Err(errno) => return Err(errno.into()),
    }
    let done = ctx.kernel.pipe_take_file(to, input, &chunk.data, from)?;
    finish(ctx, done, Ok(0), address, position)
}

fn wait_unless(ctx: &mut Ctx<'_>, file: FileId, events: Events, nonblocking: bool) -> SysResult {
    Err(if nonblocking { Errno::EAGAIN.into() } else { wait_for(ctx, file, events) })
}

/// Stores the offset behind what was moved, which outweighs how the loop ended.
fn finish(ctx: &mut Ctx<'_>, done: usize, end: SysResult, address: u64, position: Option<u64>) -> SysResult {
    if let Some(position) = position.filter(|_| done > 0) {
        ctx.process.memory.write_value(address, &(position + done as u64))?;
    }
    finish_partial(done, end.map(|_| done as u64))
}

/// tee(2): copies what is in one pipe into another.
pub fn tee(ctx: &mut Ctx<'_>, [input, output, len, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if len == 0 {
        return Ok(0);
    }
    let (input, output) = both(ctx, input, output)?;
    let (Some(from), Some(to)) = (pipe_end(ctx, input), pipe_end(ctx, output)) else {
        return Err(Errno::EINVAL.into());
    };
    if from.pipe == to.pipe {
        return Err(Errno::EINVAL.into());
    }
    let (source, target) = (&ctx.kernel.pipes[from.pipe.0 as usize], &ctx.kernel.pipes[to.pipe.0 as usize]);
    let both_nonblocking = ctx.kernel.files[input].nonblocking() || ctx.kernel.files[output].nonblocking();
    let nonblocking = flags & SPLICE_F_NONBLOCK != 0 || both_nonblocking;
    // The input is waited for before the output is looked at (`do_tee`).
    if source.is_empty() && source.has_writers() {
        return wait_unless(ctx, input, Events::READABLE, nonblocking);
    }
    if !target.has_readers() {
        ctx.raise(Signal::SIGPIPE);
        return Err(Errno::EPIPE.into());
    }
    if target.room() > 0 && source.is_empty() {
        return Ok(0);
    }
    match ctx.kernel.pipe_hand_over(from, to, len.min(MAX_RW_COUNT) as usize, false) {
        0 => wait_unless(ctx, output, Events::WRITABLE, nonblocking),
        done => Ok(done as u64),
    }
}

/// vmsplice(2): as readv and writev, on pipes alone; what is written is as much as there is room for.
pub fn vmsplice(ctx: &mut Ctx<'_>, [fd, vector, count, flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !KNOWN_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = ctx.file(fd)?;
    let Some(end) = pipe_end(ctx, file) else { return Err(Errno::EBADF.into()) };
    let buffers = UserBuffers::vector(&ctx.process.memory, vector, count)?;
    let nonblocking = flags as u32 & SPLICE_F_NONBLOCK != 0;
    let pipe = &ctx.kernel.pipes[end.pipe.0 as usize];
    if !end.writes {
        if nonblocking && pipe.is_empty() && pipe.has_writers() {
            return Err(Errno::EAGAIN.into());
        }
        return read_into(ctx, fd, &buffers, None);
    }
    buffers.check()?;
    if buffers.total() == 0 {
        return Ok(0);
    }
    if !pipe.has_readers() {
        ctx.raise(Signal::SIGPIPE);
        return Err(Errno::EPIPE.into());
    }
    let room = pipe.room();
    if room == 0 {
        return wait_unless(ctx, file, Events::WRITABLE, nonblocking);
    }
    let mut source = buffers.source(&ctx.process.memory);
    source.limit(room);
    Ok(ctx.kernel.pipe_write(end, &mut source, false)? as u64)
}
