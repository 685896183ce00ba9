//! flock, and the lock commands of fcntl.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::locks::{Family, Lock, Owner};
use crate::outcome::{Outcome, Restart, SysResult};
use linux_abi::Errno;
use linux_abi::fs::*;

/// flock(2).
pub fn flock(ctx: &mut Ctx<'_>, [fd, operation, ..]: [u64; 6]) -> SysResult {
    let operation = operation as u32;
    let kind = operation & !LOCK_NB;
    if operation & LOCK_MAND != 0 {
        // Mandatory locks are no more; asking for them does nothing.
        return Ok(0);
    }
    if !matches!(kind, LOCK_UN | LOCK_SH | LOCK_EX) {
        return Err(Errno::EINVAL.into());
    }
    let id = ctx.file(fd)?;
    let file = &ctx.kernel.files[id];
    if file.status & O_PATH != 0 || kind != LOCK_UN && !file.readable() && !file.writable() {
        return Err(Errno::EBADF.into());
    }
    let number = ctx.kernel.lock_number(id);
    let lock = Lock { owner: Owner::File(id), start: 0, end: u64::MAX, exclusive: kind == LOCK_EX };
    if kind == LOCK_UN {
        ctx.kernel.release_locks(Family::Whole, number, &lock);
        return Ok(0);
    }
    acquire(ctx, Family::Whole, number, lock, operation & LOCK_NB == 0)
}

fn acquire(ctx: &mut Ctx<'_>, family: Family, number: u64, lock: Lock, waits: bool) -> SysResult {
    if ctx.kernel.locks.conflict(family, number, &lock).is_none() {
        ctx.kernel.locks.grant(family, number, lock);
        // A lock that became weaker may let others in.
        ctx.kernel.wake_lock_waiters(number);
        return Ok(0);
    }
    if !waits {
        return Err(Errno::EAGAIN.into());
    }
    if family == Family::Record && closes_circle(ctx, number, &lock) {
        return Err(Errno::EDEADLK.into());
    }
    let tid = ctx.thread.tid;
    ctx.thread.wait.futex = Some(ctx.kernel.wait_for_lock(number, tid));
    ctx.thread.wait.lock = Some((number, lock));
    Err(ctx.block(Restart::Sys))
}

/// Whether the caller would wait for a process that waits, through others perhaps, for the caller, fcntl(2), "EDEADLK". Linux looks
/// at ten steps, too.
fn closes_circle(ctx: &Ctx<'_>, number: u64, lock: &Lock) -> bool {
    const STEPS: usize = 10;
    let (mut number, mut wanted) = (number, *lock);
    for _ in 0..STEPS {
        let Some(Lock { owner: Owner::Process(holder), .. }) =
            ctx.kernel.locks.conflict(Family::Record, number, &wanted)
        else {
            return false;
        };
        if holder == ctx.process.pid {
            return true;
        }
        let Some(process) = ctx.kernel.processes.get(holder.0) else { return false };
        let mut threads = process.threads.iter().filter_map(|tid| ctx.kernel.threads.get(tid.0));
        let Some(waits_for) = threads.find_map(|thread| thread.wait.lock) else { return false };
        (number, wanted) = waits_for;
    }
    false
}

/// F_GETLK, F_SETLK, F_SETLKW and their counterparts for open files.
pub(super) fn record_lock(ctx: &mut Ctx<'_>, fd: u64, command: i32, address: u64) -> SysResult {
    let id = ctx.file(fd)?;
    let flock: Flock = ctx.process.memory.read_value(address)?;
    let of_file = matches!(command, F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW);
    let owner = if of_file { Owner::File(id) } else { Owner::Process(ctx.process.pid) };
    let asks = matches!(command, F_GETLK | F_OFD_GETLK);
    if command == F_GETLK && !matches!(i32::from(flock.l_type), F_RDLCK | F_WRLCK) {
        return Err(Errno::EINVAL.into());
    }
    let lock = requested(ctx, id, &flock, owner)?;
    let file = &ctx.kernel.files[id];
    // The order of `fcntl_setlk`.
    match i32::from(flock.l_type) {
        F_RDLCK if !asks && !file.readable() => return Err(Errno::EBADF.into()),
        F_WRLCK if !asks && !file.writable() => return Err(Errno::EBADF.into()),
        _ if of_file && flock.l_pid != 0 => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    let number = ctx.kernel.lock_number(id);
    if asks {
        return describe_conflict(ctx, number, &lock, flock, address);
    }
    match i32::from(flock.l_type) {
        F_UNLCK => {
            ctx.kernel.release_locks(Family::Record, number, &lock);
            Ok(0)
        }
        _ => {
            acquire(ctx, Family::Record, number, lock, matches!(command, F_SETLKW | F_OFD_SETLKW))?;
            if command == F_SETLKW && ctx.fds().get(fd) != Ok(id) {
                // It was closed while the call waited, so nothing would ever give up the lock (`fcntl_setlk`).
                ctx.kernel.release_locks(Family::Record, number, &lock);
                return Err(Errno::EBADF.into());
            }
            Ok(0)
        }
    }
}

/// The range and kind that a `struct flock` asks for.
fn requested(ctx: &mut Ctx<'_>, id: FileId, flock: &Flock, owner: Owner) -> Result<Lock, Outcome> {
    let base = match i32::from(flock.l_whence) {
        SEEK_SET => 0,
        SEEK_CUR => match &ctx.kernel.files[id].kind {
            FileKind::Regular(file) => file.offset as i64,
            _ => 0,
        },
        SEEK_END => ctx.kernel.regular_size(id).unwrap_or(0) as i64,
        _ => return Err(Errno::EINVAL.into()),
    };
    let (start, end) = range(base, flock.l_start, flock.l_len)?;
    let exclusive = match i32::from(flock.l_type) {
        F_RDLCK | F_UNLCK => false,
        F_WRLCK => true,
        _ => return Err(Errno::EINVAL.into()),
    };
    Ok(Lock { owner, start, end, exclusive })
}

/// Start and end of a lock (`flock64_to_posix_lock`): a negative length reaches backwards, 0 to the end of the file, and so does one
/// that reaches the last byte that any file can have.
fn range(base: i64, start: i64, len: i64) -> Result<(u64, u64), Errno> {
    const LAST: u64 = i64::MAX as u64;
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let from = u64::try_from(start).map_err(|_| Errno::EINVAL)?;
    match len {
        0 => Ok((from, u64::MAX)),
        1.. => match from + (len as u64 - 1) {
            LAST => Ok((from, u64::MAX)),
            last if last < LAST => Ok((from, last + 1)),
            _ => Err(Errno::EOVERFLOW),
        },
        _ => Ok((from.checked_sub(len.unsigned_abs()).ok_or(Errno::EINVAL)?, from)),
    }
}

fn describe_conflict(ctx: &mut Ctx<'_>, number: u64, lock: &Lock, mut flock: Flock, address: u64) -> SysResult {
    // F_OFD_GETLK with F_UNLCK asks for one's own.
    let own = i32::from(flock.l_type) == F_UNLCK;
    let locks = &ctx.kernel.locks;
    let found =
        if own { locks.own(Family::Record, number, lock) } else { locks.conflict(Family::Record, number, lock) };
    match found {
        None => flock.l_type = F_UNLCK as i16,
        Some(held) => {
            flock.l_type = if held.exclusive { F_WRLCK } else { F_RDLCK } as i16;
            flock.l_whence = SEEK_SET as i16;
            flock.l_start = held.start as i64;
            flock.l_len = if held.end == u64::MAX { 0 } else { (held.end - held.start) as i64 };
            flock.l_pid = match held.owner {
                Owner::Process(pid) => pid.0 as i32,
                Owner::File(_) => -1,
            };
        }
    }
    ctx.process.memory.write_value(address, &flock)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_fcntl() {
        assert_eq!(range(0, 10, 5), Ok((10, 15)));
        assert_eq!(range(0, 10, 0), Ok((10, u64::MAX)));
        assert_eq!(range(100, -20, -30), Ok((50, 80)));
        assert_eq!(range(0, 10, -11), Err(Errno::EINVAL));
        assert_eq!(range(0, 5, i64::MIN), Err(Errno::EINVAL));
        assert_eq!(range(10, -11, 0), Err(Errno::EINVAL));
    }

    #[test]
    fn ranges_end_at_the_last_byte_of_any_file() {
        assert_eq!(range(0, i64::MAX, 1), Ok((i64::MAX as u64, u64::MAX)));
        assert_eq!(range(0, i64::MAX, 2), Err(Errno::EOVERFLOW));
        assert_eq!(range(0, 0, i64::MAX), Ok((0, i64::MAX as u64)));
        assert_eq!(range(0, 1, i64::MAX), Ok((1, u64::MAX)));
        assert_eq!(range(1, i64::MAX, 0), Err(Errno::EOVERFLOW));
        assert_eq!(range(0, i64::MAX, -i64::MAX), Ok((0, i64::MAX as u64)));
    }
}
