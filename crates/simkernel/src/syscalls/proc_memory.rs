//! `/proc/PID/mem`: a process's memory as a file in which addresses are offsets, whatever rights its own process has there
//! (`mem_rw`, `FOLL_FORCE`). And `/proc/PID/pagemap`, in which their pages are.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::files::synthetic::Image;
use crate::ids::FileId;
use crate::outcome::SysResult;
use crate::process::Process;
use crate::user_io::{ByteSink, ByteSource, UserBuffers};
use crate::vfs::proc_memory::page_words;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::fs::{SEEK_CUR, SEEK_SET};

const CHUNK: usize = 4096;
/// Behind a process's last address (`TASK_SIZE`).
const ADDRESSES_END: u64 = (1 << 47) - guest::PAGE;

/// The process that still executes a program.
fn process_of<'a>(ctx: &'a Ctx<'_>, image: Image) -> Option<&'a Process> {
    let own = image.pid == ctx.process.pid;
    let process = if own { Some(&*ctx.process) } else { ctx.kernel.processes.get(image.pid.0) };
    process.filter(|process| process.zombie.is_none() && process.execs == image.execs)
}

fn memory_of<'a>(ctx: &'a Ctx<'_>, process: &'a Process) -> &'a AddressSpace {
    let own = process.pid == ctx.process.pid;
    // What shares the caller's memory has none of its own in the pool while the caller executes.
    let other = (!own).then(|| ctx.kernel.shared.memory(process)).flatten();
    other.unwrap_or(&ctx.process.memory)
}

/// How many bytes of a chunk lie before the next page, at most `left`.
fn chunk_at(address: u64, left: usize) -> usize {
    (CHUNK - address as usize % CHUNK).min(left)
}

/// Checks that a position in the upper half of all addresses leaves room for so many bytes (`rw_verify_area`). EOVERFLOW.
fn check_end(start: u64, buffers: &UserBuffers) -> Result<(), Errno> {
    let overflows = start.cast_signed() < 0 && buffers.total() as u64 >= start.wrapping_neg();
    if overflows { Err(Errno::EOVERFLOW) } else { Ok(()) }
}

/// read(2). 0 when the program is over, EOVERFLOW, EIO where nothing is mapped.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    id: FileId,
    image: Image,
    buffers: &UserBuffers,
    position: Option<u64>,
) -> SysResult {
    let start = position.unwrap_or_else(|| offset(ctx, id));
    check_end(start, buffers)?;
    let Some(process) = process_of(ctx, image) else { return Ok(0) };
    let memory = memory_of(ctx, process);
    let caller: &AddressSpace = &ctx.process.memory;
    let mut sink = buffers.sink(caller);
    let mut done = 0;
    let mut chunk = [0u8; CHUNK];
    let end = loop {
        let address = start.wrapping_add(done);
        let bytes = chunk_at(address, ByteSink::remaining(&sink));
        if bytes == 0 {
            break Ok(0);
        }
        let read = memory.read_forced(address, &mut chunk[..bytes]);
        let put = sink.put(&chunk[..read]);
        done += put as u64;
        if put < bytes {
            break if put < read { Err(Errno::EFAULT) } else { Err(Errno::EIO) };
        }
    };
    finish(ctx, id, done, end, position)
}

/// read(2) of `/proc/PID/pagemap`: whole words, behind the last address none (`pagemap_read`). EINVAL, EFAULT.
pub(super) fn read_pages(
    ctx: &mut Ctx<'_>,
    id: FileId,
    image: Image,
    buffers: &UserBuffers,
    position: Option<u64>,
) -> SysResult {
    const WORD: u64 = size_of::<u64>() as u64;
    const WORDS_AT_ONCE: usize = 8192;
    let start = position.unwrap_or_else(|| offset(ctx, id));
    if start.cast_signed() < 0 {
        return Err(Errno::EINVAL.into());
    }
    let Some(process) = process_of(ctx, image) else { return Ok(0) };
    if !start.is_multiple_of(WORD) || !(buffers.total() as u64).is_multiple_of(WORD) {
        return Err(Errno::EINVAL.into());
    }
    let memory = memory_of(ctx, process);
    let caller: &AddressSpace = &ctx.process.memory;
    let mut sink = buffers.sink(caller);
    let mut done = 0;
    let end = loop {
        let page = start / WORD + done / WORD;
        let left = (ADDRESSES_END / guest::PAGE).saturating_sub(page).min(ByteSink::remaining(&sink) as u64 / WORD);
        if left == 0 {
            break Ok(0);
        }
        let mut words = vec![0; WORDS_AT_ONCE.min(left as usize)];
        page_words(memory, page * guest::PAGE, &mut words);
        let bytes: Vec<u8> = words.iter().copied().flat_map(u64::to_le_bytes).collect();
        let put = sink.put(&bytes);
        done += put as u64;
        if put < bytes.len() {
            break Err(Errno::EFAULT);
        }
    };
    finish(ctx, id, done, end, position)
}

/// write(2). EOVERFLOW beyond the last address, EIO for memory that is shared and read-only.
pub(super) fn write(
    ctx: &mut Ctx<'_>,
    id: FileId,
    image: Image,
    buffers: &UserBuffers,
    position: Option<u64>,
) -> SysResult {
    let start = position.unwrap_or_else(|| offset(ctx, id));
    check_end(start, buffers)?;
    let Some(process) = process_of(ctx, image) else { return Ok(0) };
    let (space, is_own) = (process.space, process.space == ctx.process.space);
    let mut done = 0;
    let end = loop {
        let address = start.wrapping_add(done);
        let mut chunk = [0u8; CHUNK];
        let mut source = buffers.source(&ctx.process.memory);
        source.skip(done as usize);
        let bytes = chunk_at(address, ByteSource::remaining(&source));
        if bytes == 0 {
            break Ok(0);
        }
        let taken = source.take(&mut chunk[..bytes]);
        let memory = if is_own {
            &mut *ctx.process.memory
        } else {
            match ctx.kernel.shared.spaces[space].as_deref_mut() {
                Some(memory) => memory,
                None => break Err(Errno::EIO),
            }
        };
        let written = memory.write_forced(address, &chunk[..taken]);
        done += written as u64;
        if written < bytes {
            break if written < taken { Err(Errno::EIO) } else { Err(Errno::EFAULT) };
        }
    };
    if done > 0 {
        ctx.kernel.rouse_spinners(ctx.thread.tid, space);
    }
    finish(ctx, id, done, end, position)
}

/// lseek(2): any address is an offset, and there is no end (`mem_lseek`).
pub(super) fn seek(ctx: &mut Ctx<'_>, id: FileId, offset: u64, whence: i32) -> SysResult {
    let FileKind::Snapshot(shown) = &mut ctx.kernel.files[id].kind else { return Err(Errno::ESPIPE.into()) };
    shown.offset = match whence {
        SEEK_SET => offset,
        SEEK_CUR => shown.offset.wrapping_add(offset),
        _ => return Err(Errno::EINVAL.into()),
    };
    Ok(shown.offset)
}

fn offset(ctx: &Ctx<'_>, id: FileId) -> u64 {
    if let FileKind::Snapshot(shown) = &ctx.kernel.files[id].kind { shown.offset } else { 0 }
}

fn finish(ctx: &mut Ctx<'_>, id: FileId, done: u64, end: Result<u64, Errno>, position: Option<u64>) -> SysResult {
    if position.is_none()
        && let FileKind::Snapshot(shown) = &mut ctx.kernel.files[id].kind
    {
        shown.offset = shown.offset.wrapping_add(done);
    }
    if done > 0 { Ok(done) } else { end.map_err(Into::into) }
}
