//! Asynchronous input and output, io_submit(2), libaio's. Files take no time, so an operation on one is over when it has been
//! submitted; events wait in a ring in the program's memory, from which it may take them itself, as `fs/aio.c` has it.

use super::read_write;
use crate::aio::{Context, Contexts};
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::futex::FutexWaiter;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::user_io::UserBuffers;
use crate::wait::{Events, Wake};
use guest::{Backing, MapRequest, PAGE};
use linux_abi::Errno;
use linux_abi::aio::*;
use linux_abi::mm::{MADV_DONTFORK, PROT_READ, PROT_WRITE};
use linux_abi::process::FUTEX_BITSET_MATCH_ANY;

/// A context has twice the room that was asked for, and at least that for so many (four for each processor, `ioctx_alloc`).
const LEAST_EVENTS: u32 = 4;
/// No ring is longer.
const MOST_BYTES: u32 = 0x1000_0000;
/// `/proc/sys/fs/aio-max-nr`, unless a guest has set another.
const MOST_ASKED: u64 = 65_536;

/// io_setup(2).
pub(super) fn io_setup(ctx: &mut Ctx<'_>, [count, at, ..]: [u64; 6]) -> SysResult {
    let count = count as u32;
    let old: u64 = ctx.process.memory.read_value(at)?;
    // The sum wraps, as in `ioctx_alloc`.
    let room = count.max(LEAST_EVENTS).wrapping_mul(2);
    if old != 0 || count == 0 || room > MOST_BYTES / size_of::<IoEvent>() as u32 {
        return Err(Errno::EINVAL.into());
    }
    if u64::from(count) > ctx.kernel.shared.settings.number("fs/aio-max-nr").unwrap_or(MOST_ASKED) {
        return Err(Errno::EAGAIN.into());
    }
    // Two places more than are used, and whatever else the last page has room for.
    let places = u64::from(room) + 2;
    let bytes = (size_of::<AioRing>() as u64 + places * size_of::<IoEvent>() as u64).next_multiple_of(PAGE);
    let events = ((bytes - size_of::<AioRing>() as u64) / size_of::<IoEvent>() as u64) as u32;
    let request = MapRequest {
        hint: 0,
        bytes,
        prot: (PROT_READ | PROT_WRITE) as u8,
        shared: false,
        fixed: false,
        no_replace: false,
        backing: Backing::Anonymous,
    };
    super::memory::check_room(ctx, bytes, true)?;
    let address = ctx.process.memory.mmap(&mut ctx.kernel.region, &request).map_err(super::memory::errno)?;
    super::memory::madvise(ctx, [address, bytes, MADV_DONTFORK as u64, 0, 0, 0])?;
    let id = contexts(ctx).len() as u32;
    let ring = AioRing {
        id,
        events,
        magic: AIO_RING_MAGIC,
        compatible: 1,
        header_bytes: size_of::<AioRing>() as u32,
        ..AioRing::default()
    };
    ctx.process.memory.write_value(address, &ring)?;
    if let Err(fault) = ctx.process.memory.write_value(at, &address) {
        super::memory::munmap(ctx, [address, bytes, 0, 0, 0, 0])?;
        return Err(fault.into());
    }
    contexts(ctx).insert(address, Context { events, tail: 0, bytes });
    Ok(0)
}

/// The contexts of the calling process's memory.
fn contexts<'a>(ctx: &'a mut Ctx<'_>) -> &'a mut Contexts {
    ctx.kernel.shared.aio.entry(ctx.process.space.id()).or_default()
}

fn context(ctx: &Ctx<'_>, number: u64) -> Result<Context, Errno> {
    let contexts = ctx.kernel.shared.aio.get(&ctx.process.space.id());
    contexts.and_then(|contexts| contexts.get(&number)).copied().ok_or(Errno::EINVAL)
}

/// As `context`, for those who find it by its ring: EINVAL too when that cannot be read (`lookup_ioctx`).
fn ring(ctx: &Ctx<'_>, number: u64) -> Result<Context, Errno> {
    let context = context(ctx, number)?;
    ctx.process.memory.read_value::<u32>(number).map_err(|_| Errno::EINVAL)?;
    Ok(context)
}

/// io_destroy(2).
pub(super) fn io_destroy(ctx: &mut Ctx<'_>, [number, ..]: [u64; 6]) -> SysResult {
    let context = contexts(ctx).remove(&number).ok_or(Errno::EINVAL)?;
    // Who waits for events finds that there is no such context.
    ctx.wake_futex(number + AIO_RING_TAIL, usize::MAX);
    super::memory::munmap(ctx, [number, context.bytes, 0, 0, 0, 0])
}

/// io_submit(2).
pub(super) fn io_submit(ctx: &mut Ctx<'_>, [number, count, vector, ..]: [u64; 6]) -> SysResult {
    if (count as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let events = ring(ctx, number)?.events;
    let mut done = 0;
    while done < count.min(events.into()) {
        match submit_one(ctx, number, vector.wrapping_add(done * 8), done == 0) {
            Ok(true) => done += 1,
            // What comes after it may have to wait, and is another call's.
            Ok(false) => return Ok(done + 1),
            Err(_) if done > 0 => break,
            Err(outcome) => return Err(outcome),
        }
    }
    Ok(done)
}

/// Executes an operation. False for one after which the call must end. EAGAIN also for what could wait and is not the call's first: that is executed
/// again when it has waited, with what came before.
fn submit_one(ctx: &mut Ctx<'_>, number: u64, at: u64, is_first: bool) -> Result<bool, Outcome> {
    let address: u64 = ctx.process.memory.read_value(at)?;
    let iocb: Iocb = ctx.process.memory.read_value(address)?;
    if iocb.reserved != 0 || iocb.count > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    let (context, head) = (context(ctx, number)?, head(ctx, number)?);
    if (context.tail + context.events - head) % context.events >= context.events - 1 {
        return Err(Errno::EAGAIN.into());
    }
    let file = ctx.file(iocb.fd.into())?;
    let told = match iocb.flags & IOCB_FLAG_RESFD {
        0 => None,
        _ => Some(ctx.file(iocb.result_fd.into())?),
    };
    if told.is_some_and(|told| !matches!(ctx.kernel.files[told].kind, FileKind::Event(_))) {
        return Err(Errno::EINVAL.into());
    }
    ctx.process.memory.write_value(address + IOCB_KEY_OFFSET, &KIOCB_KEY)?;
    let waits = !ctx.kernel.files[file].kind.takes_positions();
    if waits && !is_first {
        return Err(Errno::EAGAIN.into());
    }
    let result = match execute(ctx, &iocb)? {
        Ok(count) => count as i64,
        Err(errno) => errno.to_return() as i64,
    };
    let event = IoEvent { data: iocb.data, iocb: address, result, result2: 0 };
    finish(ctx, number, &event)?;
    if let Some(told) = told
        && let FileKind::Event(counter) = &mut ctx.kernel.files[told].kind
    {
        // A counter that is full stays so.
        let _ = counter.write(1);
        ctx.kernel.notify(told, Events::READABLE);
    }
    Ok(!waits)
}

/// The result of an operation. An error of the outer kind is one of its request, which is not accepted then.
fn execute(ctx: &mut Ctx<'_>, iocb: &Iocb) -> Result<Result<u64, Errno>, Outcome> {
    let fd = u64::from(iocb.fd);
    let result = match iocb.command {
        IOCB_CMD_PREAD | IOCB_CMD_PREADV => {
            let (position, buffers) = demand(ctx, iocb, false)?;
            read_write::read_into(ctx, fd, &buffers, position)
        }
        IOCB_CMD_PWRITE | IOCB_CMD_PWRITEV => {
            let (position, buffers) = demand(ctx, iocb, true)?;
            read_write::write_flagged(ctx, fd, &buffers, position, iocb.rw_flags)
        }
        IOCB_CMD_FSYNC | IOCB_CMD_FDSYNC => {
            if iocb.buffer != 0 || iocb.offset != 0 || iocb.count != 0 || iocb.rw_flags != 0 {
                return Err(Errno::EINVAL.into());
            }
            Ok(super::descriptors::fsync(ctx, [fd, 0, 0, 0, 0, 0])?)
        }
        // IOCB_CMD_POLL too, as before Linux 4.18: programs have epoll for it.
        _ => return Err(Errno::EINVAL.into()),
    };
    match result {
        Ok(count) => Ok(Ok(count)),
        Err(Outcome::Errno(errno)) => Ok(Err(errno)),
        Err(outcome) => Err(outcome),
    }
}

/// What is looked at before an operation is accepted (`aio_prep_rw`, `aio_setup_rw`). EBADF, EFAULT, EINVAL, EOPNOTSUPP.
fn demand(ctx: &mut Ctx<'_>, iocb: &Iocb, writing: bool) -> Result<(Option<u64>, UserBuffers), Outcome> {
    read_write::check_rwf(iocb.rw_flags.into())?;
    let file = read_write::demand_access(ctx, iocb.fd.into(), writing)?;
    let buffers = match iocb.command {
        IOCB_CMD_PREADV | IOCB_CMD_PWRITEV => UserBuffers::vector(&ctx.process.memory, iocb.buffer, iocb.count)?,
        _ => UserBuffers::single(iocb.buffer, iocb.count),
    };
    let kind = &ctx.kernel.files[file].kind;
    if matches!(kind, FileKind::Directory(_)) {
        return Err(Errno::EINVAL.into());
    }
    let has_positions = kind.takes_positions();
    if iocb.offset > i64::MAX as u64 && has_positions {
        return Err(Errno::EINVAL.into());
    }
    let position = has_positions.then_some(iocb.offset);
    read_write::demand_place(&buffers, position)?;
    Ok((position, buffers))
}

/// The next event that the program takes, by what it has written there.
fn head(ctx: &Ctx<'_>, number: u64) -> Result<u32, Outcome> {
    let events = context(ctx, number)?.events;
    Ok(ctx.process.memory.read_value::<u32>(number + AIO_RING_HEAD)? % events)
}

fn place_of(number: u64, index: u32) -> u64 {
    number + size_of::<AioRing>() as u64 + u64::from(index) * size_of::<IoEvent>() as u64
}

/// Puts an event into the ring, and wakes who waits for one.
fn finish(ctx: &mut Ctx<'_>, number: u64, event: &IoEvent) -> Result<(), Outcome> {
    let Context { events, tail, .. } = ring(ctx, number)?;
    ctx.process.memory.write_value(place_of(number, tail), event)?;
    let next = (tail + 1) % events;
    ctx.process.memory.write_value(number + AIO_RING_TAIL, &next)?;
    if let Some(context) = contexts(ctx).get_mut(&number) {
        context.tail = next;
    }
    ctx.wake_futex(number + AIO_RING_TAIL, usize::MAX);
    Ok(())
}

/// io_getevents(2).
pub(super) fn io_getevents(ctx: &mut Ctx<'_>, [number, least, most, to, timeout, _]: [u64; 6]) -> SysResult {
    let timeout = super::poll::timespec_at(ctx, timeout)?;
    ctx.deadline_after(timeout);
    get_events(ctx, number, least as i64, most as i64, to)
}

/// io_pgetevents(2): the last argument is the address of a mask's address and its size.
pub(super) fn io_pgetevents(ctx: &mut Ctx<'_>, [number, least, most, to, timeout, mask]: [u64; 6]) -> SysResult {
    let timeout = super::poll::timespec_at(ctx, timeout)?;
    if mask != 0 {
        let [set, bytes]: [u64; 2] = ctx.process.memory.read_value(mask)?;
        super::poll::mask_during(ctx, set, bytes)?;
    }
    ctx.deadline_after(timeout);
    match get_events(ctx, number, least as i64, most as i64, to) {
        // Unlike io_getevents, it goes on where no handler ran.
        Err(Outcome::Restart(_)) => Err(Outcome::Restart(Restart::NoHand)),
        result => result,
    }
}

/// Takes up to `most` events, and waits until there were `least`; an earlier execution of the call may have taken some (`progress`).
fn get_events(ctx: &mut Ctx<'_>, number: u64, least: i64, most: i64, to: u64) -> SysResult {
    let Context { events, tail, .. } = ring(ctx, number)?;
    if least < 0 || least > most {
        return Err(Errno::EINVAL.into());
    }
    let mut head = head(ctx, number)?;
    let mut taken = ctx.thread.call.progress;
    let result = loop {
        if head == tail || taken >= most as u64 {
            break Ok(taken);
        }
        let event: IoEvent = ctx.process.memory.read_value(place_of(number, head))?;
        if let Err(fault) = ctx.process.memory.write_value(to + taken * size_of::<IoEvent>() as u64, &event) {
            break if taken > 0 { Ok(taken) } else { Err(fault.into()) };
        }
        head = (head + 1) % events;
        taken += 1;
    };
    ctx.process.memory.write_value(number + AIO_RING_HEAD, &head)?;
    if result.is_err() || taken >= least as u64 || ctx.expired() {
        return result;
    }
    ctx.thread.call.progress = taken;
    if ctx.thread.wake == Wake::Interrupted {
        return read_write::finish_partial(taken as usize, Err(Outcome::Restart(Restart::Never)));
    }
    let key = ctx.futex_key(number + AIO_RING_TAIL, false);
    let waiter = FutexWaiter::new(ctx.thread.tid, FUTEX_BITSET_MATCH_ANY);
    ctx.kernel.futexes.add(key, waiter);
    ctx.thread.wait.futex = Some(key);
    match ctx.block(Restart::Never) {
        Outcome::Block => Err(Outcome::Block),
        outcome => read_write::finish_partial(taken as usize, Err(outcome)),
    }
}

/// io_cancel(2): no operation is still under way.
pub(super) fn io_cancel(ctx: &mut Ctx<'_>, [number, iocb, ..]: [u64; 6]) -> SysResult {
    let key: u32 = ctx.process.memory.read_value(iocb.wrapping_add(IOCB_KEY_OFFSET))?;
    if key == KIOCB_KEY {
        context(ctx, number)?;
    }
    Err(Errno::EINVAL.into())
}
