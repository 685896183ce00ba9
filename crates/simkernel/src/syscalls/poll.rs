//! poll, ppoll, select, pselect6, and epoll's calls.

use crate::ctx::Ctx;
use crate::files::epoll::Epoll;
use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::signal::SigSet;
use crate::wait::{Events, Wake};
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::event::*;
use linux_abi::fs::{O_PATH, O_RDWR};
use linux_abi::sysinfo::RLIMIT_NOFILE;
use linux_abi::time::{Timespec, Timeval};
use smallvec::SmallVec;
use zerocopy::{FromZeros, IntoBytes};

/// A timeout in milliseconds; negative for none.
fn milliseconds(timeout: u64) -> Option<SimDuration> {
    let timeout = timeout as i32;
    (timeout >= 0).then(|| SimDuration::from_millis(timeout as u64))
}

/// A timeout by pointer; null for none.
pub(super) fn timespec_at(ctx: &Ctx<'_>, address: u64) -> Result<Option<SimDuration>, Outcome> {
    if address == 0 {
        return Ok(None);
    }
    let time: Timespec = ctx.process.memory.read_value(address)?;
    Ok(Some(time.to_duration().ok_or(Errno::EINVAL)?))
}

/// Sets the signal mask for the call's duration.
pub(super) fn mask_during(ctx: &mut Ctx<'_>, mask: u64, bytes: u64) -> Result<(), Outcome> {
    if mask == 0 || ctx.thread.wake != Wake::First {
        return Ok(());
    }
    if bytes != 8 {
        return Err(Errno::EINVAL.into());
    }
    let set = SigSet(ctx.process.memory.read_value(mask)?).without(SigSet::UNBLOCKABLE);
    ctx.thread.signals.saved_mask = Some(ctx.thread.signals.blocked);
    ctx.thread.signals.blocked = set;
    Ok(())
}

/// poll(2).
pub(super) fn poll(ctx: &mut Ctx<'_>, [fds, count, timeout, ..]: [u64; 6]) -> SysResult {
    poll_until(ctx, fds, count, milliseconds(timeout), Restart::NoHand)
}

/// Linux writes the time left back; a time that cannot be written is no error.
fn write_time_left(ctx: &Ctx<'_>, address: u64, result: &SysResult) {
    if address != 0 && *result != Err(Outcome::Block) {
        let left = ctx.thread.call.deadline.unwrap_or(ctx.now).saturating_since(ctx.now);
        let _ = ctx.process.memory.write_value(address, &Timespec::from(left));
    }
}

/// ppoll(2).
pub(super) fn ppoll(ctx: &mut Ctx<'_>, [fds, count, timeout, mask, bytes, _]: [u64; 6]) -> SysResult {
    let duration = timespec_at(ctx, timeout)?;
    mask_during(ctx, mask, bytes)?;
    let result = poll_until(ctx, fds, count, duration, Restart::NoHand);
    write_time_left(ctx, timeout, &result);
    result
}

/// Whether a descriptor only names a place (O_PATH): what asks for readiness takes it for none.
fn is_place(ctx: &Ctx<'_>, file: FileId) -> bool {
    ctx.kernel.files[file].status & O_PATH != 0
}

fn poll_until(ctx: &mut Ctx<'_>, fds: u64, count: u64, timeout: Option<SimDuration>, restart: Restart) -> SysResult {
    if count > ctx.process.limits.soft(RLIMIT_NOFILE) {
        return Err(Errno::EINVAL.into());
    }
    let mut list: SmallVec<[Pollfd; 16]> = SmallVec::from_elem(Pollfd::new_zeroed(), count as usize);
    ctx.process.memory.read(fds, list.as_mut_slice().as_mut_bytes())?;
    ctx.show_signals();
    let mut ready = 0;
    let mut watched: SmallVec<[(FileId, Events); 16]> = SmallVec::new();
    for entry in &mut list {
        entry.revents = 0;
        if entry.fd < 0 {
            continue;
        }
        match ctx.file(entry.fd as u64) {
            Ok(file) if !is_place(ctx, file) => {
                let wanted = Events(u32::from(entry.events as u16)) | Events::ALWAYS;
                entry.revents = (ctx.kernel.poll_file(file) & wanted).0 as i16;
                watched.push((file, wanted));
            }
            _ => entry.revents = POLLNVAL,
        }
        ready += u64::from(entry.revents != 0);
    }
    ctx.deadline_after(timeout);
    if ready == 0 && (!ctx.expired() || unmasked_signal(ctx)) {
        return wait_for(ctx, &watched, restart);
    }
    for (index, entry) in list.iter().enumerate() {
        let at = fds + (index * size_of::<Pollfd>()) as u64 + std::mem::offset_of!(Pollfd, revents) as u64;
        ctx.process.memory.write_value(at, &entry.revents)?;
    }
    Ok(ready)
}

/// Whether the call's own mask lets a signal in that was held back before: that ends the call even where it does not wait (`do_poll`).
fn unmasked_signal(ctx: &Ctx<'_>) -> bool {
    ctx.thread.signals.saved_mask.is_some() && ctx.signal_pending()
}

/// Nothing is ready: an interruption ends the call, otherwise it waits for the files.
fn wait_for(ctx: &mut Ctx<'_>, watched: &[(FileId, Events)], restart: Restart) -> SysResult {
    if ctx.thread.wake == Wake::Interrupted {
        return Err(Outcome::Restart(restart));
    }
    let first = ctx.thread.wake == Wake::First;
    for (file, events) in watched {
        ctx.watch(*file, *events);
    }
    let outcome = ctx.block(restart);
    if first && outcome == Outcome::Block {
        for (file, _) in watched {
            ctx.keep_open(*file);
        }
    }
    Err(outcome)
}

/// Descriptor sets of select(2): bit by bit, in words of 64.
const FD_SET_WORDS: usize = 1024 / 64;
type FdSet = [u64; FD_SET_WORDS];

/// Which events of `poll` make a descriptor ready in each of select's three sets, as in Linux's fs/select.c.
const SELECT_EVENTS: [Events; 3] = [
    Events(Events::READABLE.0 | Events::RDBAND.0 | Events::HUP.0 | Events::ERR.0 | Events::NVAL.0),
    Events(Events::WRITABLE.0 | Events::WRBAND.0 | Events::ERR.0 | Events::NVAL.0),
    Events(Events::PRI.0 | Events::NVAL.0),
];

/// select(2). The time left is written back, as Linux does.
pub(super) fn select(ctx: &mut Ctx<'_>, [count, read, write, except, timeout, _]: [u64; 6]) -> SysResult {
    let duration = if timeout == 0 {
        None
    } else {
        let time: Timeval = ctx.process.memory.read_value(timeout)?;
        if time.tv_sec < 0 || time.tv_usec < 0 {
            return Err(Errno::EINVAL.into());
        }
        let micros = (time.tv_sec as u64).saturating_mul(1_000_000).saturating_add(time.tv_usec as u64);
        let nanos = micros.saturating_mul(1_000);
        Some(SimDuration::from_nanos(nanos))
    };
    let result = select_until(ctx, count, [read, write, except], duration);
    if timeout != 0 && result != Err(Outcome::Block) {
        let left = ctx.thread.call.deadline.unwrap_or(ctx.now).saturating_since(ctx.now).as_nanos();
        let value = Timeval { tv_sec: (left / 1_000_000_000) as i64, tv_usec: (left % 1_000_000_000 / 1_000) as i64 };
        // As Linux: a time that cannot be written back is no error.
        let _ = ctx.process.memory.write_value(timeout, &value);
    }
    result
}

/// pselect6(2).
pub(super) fn pselect6(ctx: &mut Ctx<'_>, [count, read, write, except, timeout, mask]: [u64; 6]) -> SysResult {
    // Where the mask is comes before the time, what it is behind that (`do_pselect`).
    let [set, bytes]: [u64; 2] = if mask == 0 { [0; 2] } else { ctx.process.memory.read_value(mask)? };
    let duration = timespec_at(ctx, timeout)?;
    mask_during(ctx, set, bytes)?;
    let result = select_until(ctx, count, [read, write, except], duration);
    write_time_left(ctx, timeout, &result);
    result
}

fn select_until(ctx: &mut Ctx<'_>, count: u64, sets: [u64; 3], timeout: Option<SimDuration>) -> SysResult {
    let count = count as i32;
    if count < 0 {
        return Err(Errno::EINVAL.into());
    }
    let count = (count as usize).min(1024);
    let bytes = count.div_ceil(64) * 8;
    let mut wanted: [FdSet; 3] = [[0; FD_SET_WORDS]; 3];
    for (set, address) in wanted.iter_mut().zip(sets) {
        if address != 0 {
            ctx.process.memory.read(address, &mut set.as_mut_bytes()[..bytes])?;
        }
    }
    let mut found: [FdSet; 3] = [[0; FD_SET_WORDS]; 3];
    let mut watched: SmallVec<[(FileId, Events); 16]> = SmallVec::new();
    ctx.show_signals();
    let mut ready = 0;
    for fd in 0..count {
        let (word, bit) = (fd / 64, 1u64 << (fd % 64));
        let mut asked = Events::NONE;
        for (set, events) in wanted.iter().zip(SELECT_EVENTS) {
            asked |= events.when(set[word] & bit != 0);
        }
        if asked.is_empty() {
            continue;
        }
        let state = match ctx.file(fd as u64) {
            Err(errno) if ctx.thread.wake == Wake::First => return Err(errno.into()),
            // Closed while the call waited (`select_poll_one`).
            Err(_) => Events::NVAL,
            Ok(file) if is_place(ctx, file) => Events::NVAL,
            Ok(file) => {
                watched.push((file, asked));
                ctx.kernel.poll_file(file)
            }
        };
        for index in 0..3 {
            if wanted[index][word] & bit != 0 && state.intersects(SELECT_EVENTS[index]) {
                found[index][word] |= bit;
                ready += 1;
            }
        }
    }
    ctx.deadline_after(timeout);
    if ready == 0 && (!ctx.expired() || unmasked_signal(ctx)) {
        return wait_for(ctx, &watched, Restart::NoHand);
    }
    for (set, address) in found.iter().zip(sets) {
        if address != 0 {
            ctx.process.memory.write(address, &set.as_bytes()[..bytes])?;
        }
    }
    Ok(ready)
}

/// epoll_create(2).
pub(super) fn epoll_create(ctx: &mut Ctx<'_>, [size, ..]: [u64; 6]) -> SysResult {
    if size as i32 <= 0 { Err(Errno::EINVAL.into()) } else { epoll_create1(ctx, [0; 6]) }
}

/// epoll_create1(2).
pub(super) fn epoll_create1(ctx: &mut Ctx<'_>, [flags, ..]: [u64; 6]) -> SysResult {
    if flags as u32 & !EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Epoll(Box::<Epoll>::default()), O_RDWR));
    Ok(ctx.install(file, flags as u32 & EPOLL_CLOEXEC != 0)?)
}

/// epoll_ctl(2).
pub(super) fn epoll_ctl(ctx: &mut Ctx<'_>, [epoll, op, fd, event, ..]: [u64; 6]) -> SysResult {
    let op = op as i32;
    let event = match op {
        EPOLL_CTL_DEL => EpollEvent::new_zeroed(),
        _ => ctx.process.memory.read_value(event)?,
    };
    let instance = ctx.opened(epoll)?;
    let file = ctx.opened(fd)?;
    if !ctx.kernel.files[file].kind.pollable() {
        return Err(Errno::EPERM.into());
    }
    if file == instance || ctx.kernel.epoll(instance).is_err() {
        return Err(Errno::EINVAL.into());
    }
    if op == EPOLL_CTL_MOD && event.events & EPOLLEXCLUSIVE != 0 {
        return Err(Errno::EINVAL.into());
    }
    let fd = fd as u32;
    ctx.show_signals();
    match op {
        EPOLL_CTL_ADD => ctx.kernel.epoll_add(instance, fd, file, event)?,
        EPOLL_CTL_MOD => ctx.kernel.epoll_modify(instance, fd, file, event)?,
        EPOLL_CTL_DEL => ctx.kernel.epoll_delete(instance, fd, file)?,
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}

/// epoll_wait(2).
pub(super) fn epoll_wait(ctx: &mut Ctx<'_>, [epoll, events, max, timeout, ..]: [u64; 6]) -> SysResult {
    epoll_until(ctx, epoll, events, max, milliseconds(timeout))
}

/// epoll_pwait(2).
pub(super) fn epoll_pwait(ctx: &mut Ctx<'_>, [epoll, events, max, timeout, mask, bytes]: [u64; 6]) -> SysResult {
    mask_during(ctx, mask, bytes)?;
    epoll_until(ctx, epoll, events, max, milliseconds(timeout))
}

/// epoll_pwait2(2).
pub(super) fn epoll_pwait2(ctx: &mut Ctx<'_>, [epoll, events, max, timeout, mask, bytes]: [u64; 6]) -> SysResult {
    let timeout = timespec_at(ctx, timeout)?;
    mask_during(ctx, mask, bytes)?;
    epoll_until(ctx, epoll, events, max, timeout)
}

fn epoll_until(ctx: &mut Ctx<'_>, epoll: u64, events: u64, max: u64, timeout: Option<SimDuration>) -> SysResult {
    // The order of `do_epoll_wait`.
    let instance = ctx.opened(epoll)?;
    let max = max as i32;
    if max <= 0 || max as usize > i32::MAX as usize / size_of::<EpollEvent>() {
        return Err(Errno::EINVAL.into());
    }
    ctx.kernel.epoll(instance)?;
    ctx.deadline_after(timeout);
    ctx.show_signals();
    let mut found = std::mem::take(&mut ctx.kernel.epoll_scratch);
    found.clear();
    ctx.kernel.epoll_collect(instance, max as usize, &mut found)?;
    let written = ctx.process.memory.write(events, found.as_slice().as_bytes());
    let count = found.len() as u64;
    ctx.kernel.epoll_scratch = found;
    if count > 0 {
        written?;
        return Ok(count);
    }
    if ctx.expired() {
        return Ok(0);
    }
    // epoll_wait is never executed again after a signal, signal(7).
    if ctx.thread.wake == Wake::Interrupted {
        return Err(Outcome::Restart(Restart::Never));
    }
    ctx.watch(instance, Events::READABLE);
    Err(ctx.block(Restart::Never))
}
