//! futex_waitv, futex_wait, futex_wake, futex_requeue: the calls that have a flag word of their own (Linux 5.16 and 6.7).

use super::futex::{demand_word, one_at_least, requeue, wait};
use crate::ctx::Ctx;
use crate::futex::FutexWaiter;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::wait::Wake;
use linux_abi::Errno;
use linux_abi::process::{FUTEX_BITSET_MATCH_ANY, FUTEX_CLOCK_REALTIME, FUTEX_PRIVATE_FLAG};
use linux_abi::time::Timespec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Words of 32 bits, the only size that kernels take.
const FUTEX2_SIZE_U32: u32 = 2;
const FUTEX2_PRIVATE: u32 = 128;
const WAITERS_MAX: u64 = 128;
const CLOCK_REALTIME: u64 = 0;
const CLOCK_MONOTONIC: u64 = 1;

/// `struct futex_waitv`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// EINVAL for sizes other than 32 bits and for unknown flags.
fn check_flags(flags: u32) -> Result<bool, Errno> {
    let known = flags & !FUTEX2_PRIVATE == FUTEX2_SIZE_U32;
    if known { Ok(flags & FUTEX2_PRIVATE != 0) } else { Err(Errno::EINVAL) }
}

fn waiter_at(ctx: &Ctx<'_>, list: u64, index: u64) -> Result<(Waiter, bool), Outcome> {
    let waiter: Waiter = ctx.process.memory.read_value(list + index * size_of::<Waiter>() as u64)?;
    let private = check_flags(waiter.flags)?;
    if waiter.reserved != 0 || !waiter.address.is_multiple_of(4) || waiter.value > u32::MAX.into() {
        return Err(Errno::EINVAL.into());
    }
    Ok((waiter, private))
}

/// futex_waitv(2): waits for one of several. The index of the one that was woken.
pub(super) fn futex_waitv(ctx: &mut Ctx<'_>, [list, count, flags, timeout, clock, _]: [u64; 6]) -> SysResult {
    match ctx.thread.wake {
        Wake::Ready if ctx.thread.call.progress > 0 => return Ok(ctx.thread.call.progress - 1),
        Wake::TimedOut => return Err(Errno::ETIMEDOUT.into()),
        Wake::Interrupted => return Err(Outcome::Restart(Restart::Sys)),
        Wake::Ready | Wake::First => {}
    }
    if flags != 0 || count == 0 || count > WAITERS_MAX || list == 0 {
        return Err(Errno::EINVAL.into());
    }
    if timeout != 0 {
        let time: Timespec = ctx.process.memory.read_value(timeout)?;
        let nanos = time.to_nanos().ok_or(Errno::EINVAL)?;
        ctx.deadline_at(match clock {
            CLOCK_REALTIME => ctx.kernel.config.clock.moment(nanos),
            CLOCK_MONOTONIC => ctx.kernel.config.clock.moment_of_uptime(nanos),
            _ => return Err(Errno::EINVAL.into()),
        });
    }
    let waiters = (0..count).map(|index| waiter_at(ctx, list, index)).collect::<Result<Vec<_>, _>>()?;
    for (waiter, _) in &waiters {
        let present: u32 = ctx.process.memory.read_value(waiter.address)?;
        if u64::from(present) != waiter.value {
            return Err(Errno::EAGAIN.into());
        }
    }
    if ctx.expired() {
        return Err(Errno::ETIMEDOUT.into());
    }
    for (waiter, private) in waiters {
        let key = ctx.futex_key(waiter.address, private);
        ctx.kernel.futexes.add(key, FutexWaiter::new(ctx.thread.tid, FUTEX_BITSET_MATCH_ANY));
        ctx.thread.wait.futexes.push(key);
    }
    Err(ctx.block(Restart::Sys))
}

/// futex_wait(2): address, value, mask, flags, timeout, clock.
pub(super) fn futex_wait(ctx: &mut Ctx<'_>, [address, value, mask, flags, timeout, clock]: [u64; 6]) -> SysResult {
    let private = check_flags(flags as u32)?;
    if value > u32::MAX.into() || mask > u32::MAX.into() || !address.is_multiple_of(4) || clock > CLOCK_MONOTONIC {
        return Err(Errno::EINVAL.into());
    }
    let mut op = if private { FUTEX_PRIVATE_FLAG } else { 0 };
    if clock == CLOCK_REALTIME {
        op |= FUTEX_CLOCK_REALTIME;
    }
    wait(ctx, address, value as u32, timeout, op, mask as u32, true)
}

/// futex_wake(2): address, mask, count, flags.
pub(super) fn futex_wake(ctx: &mut Ctx<'_>, [address, mask, count, flags, ..]: [u64; 6]) -> SysResult {
    let private = check_flags(flags as u32)?;
    if mask == 0 || mask > u32::MAX.into() || !address.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    demand_word(ctx, address, private)?;
    let key = ctx.futex_key(address, private);
    // This call, unlike the older ones, knows what none is (FLAGS_STRICT).
    let count = if count as u32 == 0 { 0 } else { one_at_least(count as u32) };
    Ok(ctx.wake_queue(key, count, mask as u32))
}

/// futex_requeue(2): two waiters that name the words, how many to wake and to move.
pub(super) fn futex_requeue(ctx: &mut Ctx<'_>, [list, flags, wake, limit, ..]: [u64; 6]) -> SysResult {
    if flags != 0 || list == 0 {
        return Err(Errno::EINVAL.into());
    }
    let ((from, from_private), (to, to_private)) = (waiter_at(ctx, list, 0)?, waiter_at(ctx, list, 1)?);
    let present: u32 = ctx.process.memory.read_value(from.address)?;
    if u64::from(present) != from.value {
        return Err(Errno::EAGAIN.into());
    }
    requeue(ctx, (from.address, from_private), [wake as u32, limit as u32], (to.address, to_private))
}
