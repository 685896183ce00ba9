//! futex(2) and the robust list.

use crate::ctx::Ctx;
use crate::futex::{FutexKey, FutexWaiter};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::wait::Wake;
use base::SimTime;
use linux_abi::Errno;
use linux_abi::process::*;
use linux_abi::time::Timespec;

/// futex(2).
pub(super) fn futex(ctx: &mut Ctx<'_>, [address, op, value, timeout, address2, value3]: [u64; 6]) -> SysResult {
    let op = op as u32;
    let value = value as u32;
    let command = op & FUTEX_CMD_MASK;
    let timed = matches!(command, FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI | FUTEX_LOCK_PI2);
    if op & FUTEX_CLOCK_REALTIME != 0 && !timed {
        return Err(Errno::ENOSYS.into());
    }
    if !(FUTEX_WAIT..=FUTEX_LOCK_PI2).contains(&command) || command == FUTEX_FD {
        return Err(Errno::ENOSYS.into());
    }
    // Who unlocks looks at the word first (`futex_unlock_pi`).
    if command == FUTEX_UNLOCK_PI {
        let word: u32 = ctx.process.memory.read_value(address)?;
        if word & FUTEX_TID_MASK != ctx.thread.tid.0 {
            return Err(Errno::EPERM.into());
        }
    }
    if address % 4 != 0 {
        return Err(Errno::EINVAL.into());
    }
    if matches!(command, FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET) && value3 as u32 == 0 {
        return Err(Errno::EINVAL.into());
    }
    if !is_private(op) {
        // What processes share is known by its page, which must be there (`get_futex_key`).
        ctx.process.memory.read_value::<u32>(address)?;
    }
    match command {
        FUTEX_WAIT => wait(ctx, address, value, timeout, op, FUTEX_BITSET_MATCH_ANY, false),
        FUTEX_WAIT_BITSET => wait(ctx, address, value, timeout, op, value3 as u32, true),
        FUTEX_WAKE => wake(ctx, address, op, value, FUTEX_BITSET_MATCH_ANY),
        FUTEX_WAKE_BITSET => wake(ctx, address, op, value, value3 as u32),
        FUTEX_REQUEUE => requeue(ctx, (address, is_private(op)), [value, timeout as u32], (address2, is_private(op))),
        FUTEX_CMP_REQUEUE => {
            let present: u32 = ctx.process.memory.read_value(address)?;
            if present != value3 as u32 {
                return Err(Errno::EAGAIN.into());
            }
            requeue(ctx, (address, is_private(op)), [value, timeout as u32], (address2, is_private(op)))
        }
        FUTEX_WAKE_OP => wake_op(ctx, address, op, [value, timeout as u32], address2, value3 as u32),
        // FUTEX_LOCK_PI measures its timeout on the real-time clock.
        FUTEX_LOCK_PI => lock_pi(ctx, address, timeout, op | FUTEX_CLOCK_REALTIME),
        FUTEX_LOCK_PI2 => lock_pi(ctx, address, timeout, op),
        FUTEX_TRYLOCK_PI => trylock_pi(ctx, address),
        FUTEX_UNLOCK_PI => unlock_pi(ctx, address, op),
        FUTEX_WAIT_REQUEUE_PI => wait_requeue_pi(ctx, address, value, timeout, op, address2),
        FUTEX_CMP_REQUEUE_PI => {
            let present: u32 = ctx.process.memory.read_value(address)?;
            if value != 1 {
                return Err(Errno::EINVAL.into());
            }
            if present != value3 as u32 {
                return Err(Errno::EAGAIN.into());
            }
            requeue_pi(ctx, address, op, timeout as u32, address2)
        }
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// FUTEX_PRIVATE_FLAG: not in memory that processes share.
fn is_private(op: u32) -> bool {
    op & FUTEX_PRIVATE_FLAG != 0
}

pub(super) fn wait(
    ctx: &mut Ctx<'_>,
    address: u64,
    value: u32,
    timeout: u64,
    op: u32,
    bitset: u32,
    absolute: bool,
) -> SysResult {
    if bitset == 0 {
        return Err(Errno::EINVAL.into());
    }
    if ctx.thread.wake == Wake::First {
        let deadline = read_deadline(ctx, timeout, op, absolute)?;
        let deadline = ctx.thread.resumed_deadline.take().unwrap_or(deadline);
        ctx.deadline_at(deadline);
    } else {
        match ctx.thread.wake {
            Wake::Ready => return Ok(0),
            Wake::TimedOut => return Err(Errno::ETIMEDOUT.into()),
            Wake::Interrupted => return Err(Outcome::Restart(restart_of(ctx))),
            Wake::First => {}
        }
    }
    let present: u32 = ctx.process.memory.read_value(address)?;
    if present != value {
        return Err(Errno::EAGAIN.into());
    }
    if ctx.expired() {
        return Err(Errno::ETIMEDOUT.into());
    }
    let key = ctx.futex_key(address, is_private(op));
    let waiter = FutexWaiter::new(ctx.thread.tid, bitset);
    ctx.kernel.futexes.add(key, waiter);
    ctx.thread.wait.futex = Some(key);
    let restart = restart_of(ctx);
    Err(ctx.block(restart))
}

/// A wait with a timeout goes on with what is left of it, one without is executed again, as in Linux's futex_wait.
fn restart_of(ctx: &Ctx<'_>) -> Restart {
    match ctx.thread.call.deadline {
        Some(SimTime::MAX) | None => Restart::Sys,
        Some(_) => Restart::Block,
    }
}

fn read_deadline(ctx: &Ctx<'_>, timeout: u64, op: u32, absolute: bool) -> Result<SimTime, Outcome> {
    if timeout == 0 {
        return Ok(SimTime::MAX);
    }
    let time: Timespec = ctx.process.memory.read_value(timeout)?;
    let nanos = time.to_nanos().ok_or(Errno::EINVAL)?;
    Ok(match (absolute, op & FUTEX_CLOCK_REALTIME != 0) {
        (false, _) => SimTime::from_nanos(ctx.now.as_nanos().saturating_add(nanos)),
        (true, true) => ctx.kernel.config.clock.moment(nanos),
        (true, false) => ctx.kernel.config.clock.moment_of_uptime(nanos),
    })
}

fn wake(ctx: &mut Ctx<'_>, address: u64, op: u32, count: u32, bitset: u32) -> SysResult {
    if bitset == 0 {
        return Err(Errno::EINVAL.into());
    }
    demand_word(ctx, address, is_private(op))?;
    let key = ctx.futex_key(address, is_private(op));
    // Who waits for a lock with priority inheritance gets it by its unlock alone (`futex_wake`).
    if ctx.kernel.futexes.has_inheriting(key) {
        return Err(Errno::EINVAL.into());
    }
    Ok(ctx.wake_queue(key, one_at_least(count), bitset))
}

/// How many a wake is about: Linux counts the first one before it looks at the number (`futex_wake`).
pub(super) fn one_at_least(count: u32) -> usize {
    (count as i32).max(1) as usize
}

/// A futex that processes may share is found by the memory behind it, which must be there. EFAULT.
pub(super) fn demand_word(ctx: &Ctx<'_>, address: u64, private: bool) -> Result<(), Outcome> {
    if !private {
        ctx.process.memory.read_value::<u32>(address)?;
    }
    Ok(())
}

/// Takes a priority-inheriting lock if it is free (or its owner died). Priorities do not exist here, so inheritance has no effect. Who finds it
/// taken leaves a mark that somebody waits, even if the owner is no more, or nobody waits in the end; who gets it wipes that off
/// (`futex_lock_pi_atomic`). EDEADLK, ESRCH.
fn take_pi(ctx: &Ctx<'_>, address: u64) -> Result<bool, Outcome> {
    let word: u32 = ctx.process.memory.read_value(address)?;
    let owner = word & FUTEX_TID_MASK;
    if owner == ctx.thread.tid.0 {
        return Err(Errno::EDEADLK.into());
    }
    if owner == 0 {
        let taken = word & FUTEX_OWNER_DIED | ctx.thread.tid.0;
        ctx.process.memory.write_value(address, &taken)?;
        return Ok(true);
    }
    ctx.process.memory.update_u32(address, |word| word | FUTEX_WAITERS)?;
    if ctx.thread_lives(owner) { Ok(false) } else { Err(Errno::ESRCH.into()) }
}

fn trylock_pi(ctx: &mut Ctx<'_>, address: u64) -> SysResult {
    if take_pi(ctx, address)? { Ok(0) } else { Err(Errno::EAGAIN.into()) }
}

fn lock_pi(ctx: &mut Ctx<'_>, address: u64, timeout: u64, op: u32) -> SysResult {
    match ctx.thread.wake {
        Wake::First => {
            let deadline = read_deadline(ctx, timeout, op, true)?;
            ctx.deadline_at(deadline);
        }
        // `unlock_pi` has made this thread the owner.
        Wake::Ready => return Ok(0),
        Wake::TimedOut => return Err(Errno::ETIMEDOUT.into()),
        Wake::Interrupted => return Err(Outcome::Restart(Restart::NoIntr)),
    }
    if take_pi(ctx, address)? {
        return Ok(0);
    }
    let key = ctx.futex_key(address, is_private(op));
    let waiter = FutexWaiter::new(ctx.thread.tid, FUTEX_BITSET_MATCH_ANY);
    ctx.kernel.futexes.add(key, FutexWaiter { inherits: true, ..waiter });
    ctx.thread.wait.futex = Some(key);
    Err(ctx.block(Restart::NoIntr))
}

/// Hands the lock to the first waiter.
fn unlock_pi(ctx: &mut Ctx<'_>, address: u64, op: u32) -> SysResult {
    let word: u32 = ctx.process.memory.read_value(address)?;
    if word & FUTEX_TID_MASK != ctx.thread.tid.0 {
        return Err(Errno::EPERM.into());
    }
    let key = ctx.futex_key(address, is_private(op));
    if !ctx.hand_over_lock(address, key, FUTEX_WAITERS) {
        ctx.process.memory.write_value(address, &0u32)?;
    }
    Ok(0)
}

/// FUTEX_WAIT_REQUEUE_PI: waits as for a condition, until FUTEX_CMP_REQUEUE_PI has moved the caller to a lock and it has got that.
fn wait_requeue_pi(ctx: &mut Ctx<'_>, address: u64, value: u32, timeout: u64, op: u32, lock: u64) -> SysResult {
    if address == lock || !lock.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    wait(ctx, address, value, timeout, op, FUTEX_BITSET_MATCH_ANY, true)
}

/// FUTEX_CMP_REQUEUE_PI: gives the lock to the first waiter if it is free, and lets the others wait for it.
fn requeue_pi(ctx: &mut Ctx<'_>, from: u64, op: u32, limit: u32, lock: u64) -> SysResult {
    if (limit as i32) < 0 || !lock.is_multiple_of(4) || from == lock {
        return Err(Errno::EINVAL.into());
    }
    let (from, to) = (ctx.futex_key(from, is_private(op)), ctx.futex_key(lock, is_private(op)));
    if ctx.kernel.futexes.is_empty(from) {
        return Ok(0);
    }
    let owner = ctx.process.memory.read_value::<u32>(lock)? & FUTEX_TID_MASK;
    if owner != 0 && !ctx.thread_lives(owner) {
        ctx.process.memory.update_u32(lock, |word| word | FUTEX_WAITERS)?;
        return Err(Errno::ESRCH.into());
    }
    let moved = ctx.kernel.futexes.take(from, limit as usize + 1, FUTEX_BITSET_MATCH_ANY);
    for waiter in &moved {
        ctx.kernel.futexes.add(to, FutexWaiter { inherits: true, ..*waiter });
        if let Some(thread) = ctx.kernel.threads.get_mut(waiter.tid.0) {
            thread.wait.futex = Some(to);
        }
    }
    let word: u32 = ctx.process.memory.read_value(lock)?;
    if word & FUTEX_TID_MASK == 0 {
        let more = if limit > 0 { FUTEX_WAITERS } else { 0 };
        ctx.hand_over_lock(lock, to, word & FUTEX_OWNER_DIED | more);
    } else if !moved.is_empty() {
        ctx.process.memory.update_u32(lock, |word| word | FUTEX_WAITERS)?;
    }
    Ok(moved.len() as u64)
}

/// Wakes some that wait at one word and lets others wait at another one. Of each word: whether it
/// is said to be private.
pub(super) fn requeue(
    ctx: &mut Ctx<'_>,
    (from, from_private): (u64, bool),
    [wake, limit]: [u32; 2],
    (to, to_private): (u64, bool),
) -> SysResult {
    if (wake as i32) < 0 || (limit as i32) < 0 || !to.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    demand_word(ctx, from, from_private)?;
    demand_word(ctx, to, to_private)?;
    let (from, to) = (ctx.futex_key(from, from_private), ctx.futex_key(to, to_private));
    let woken = ctx.wake_queue(from, wake as usize, FUTEX_BITSET_MATCH_ANY);
    let moved = ctx.kernel.futexes.take(from, limit as usize, FUTEX_BITSET_MATCH_ANY);
    for waiter in &moved {
        ctx.kernel.futexes.add(to, *waiter);
        if let Some(thread) = ctx.kernel.threads.get_mut(waiter.tid.0) {
            thread.wait.futex = Some(to);
        }
    }
    // FUTEX_REQUEUE reports those woken, FUTEX_CMP_REQUEUE both: glibc relies on neither, Linux counts both.
    Ok(woken + moved.len() as u64)
}

/// FUTEX_WAKE_OP: changes the second word, wakes on the first, and on the second if its old value compares.
fn wake_op(
    ctx: &mut Ctx<'_>,
    address: u64,
    op: u32,
    [wake1, wake2]: [u32; 2],
    address2: u64,
    encoded: u32,
) -> SysResult {
    let operation = encoded >> 28 & 0xf;
    let comparison = encoded >> 24 & 0xf;
    let sign_extend = |value: u32| ((value << 20) as i32 >> 20) as u32;
    let mut operand = sign_extend(encoded >> 12 & 0xfff);
    let compared = sign_extend(encoded & 0xfff);
    if operation & FUTEX_OP_OPARG_SHIFT != 0 {
        operand = 1 << (operand & 31);
    }
    let operation = operation & !FUTEX_OP_OPARG_SHIFT;
    if !address2.is_multiple_of(4) || operation > FUTEX_OP_XOR || comparison > FUTEX_OP_CMP_GE {
        return Err(if !address2.is_multiple_of(4) { Errno::EINVAL } else { Errno::ENOSYS }.into());
    }
    let old = ctx.process.memory.update_u32(address2, |old| match operation {
        FUTEX_OP_SET => operand,
        FUTEX_OP_ADD => old.wrapping_add(operand),
        FUTEX_OP_OR => old | operand,
        FUTEX_OP_ANDN => old & !operand,
        _ => old ^ operand,
    })?;
    let (key, key2) = (ctx.futex_key(address, is_private(op)), ctx.futex_key(address2, is_private(op)));
    let mut woken = ctx.wake_queue(key, one_at_least(wake1), FUTEX_BITSET_MATCH_ANY);
    let (old, compared) = (old as i32, compared as i32);
    let holds = match comparison {
        FUTEX_OP_CMP_EQ => old == compared,
        FUTEX_OP_CMP_NE => old != compared,
        FUTEX_OP_CMP_LT => old < compared,
        FUTEX_OP_CMP_LE => old <= compared,
        FUTEX_OP_CMP_GT => old > compared,
        _ => old >= compared,
    };
    if holds {
        woken += ctx.wake_queue(key2, one_at_least(wake2), FUTEX_BITSET_MATCH_ANY);
    }
    Ok(woken)
}

/// set_robust_list(2).
pub(super) fn set_robust_list(ctx: &mut Ctx<'_>, [head, bytes, ..]: [u64; 6]) -> SysResult {
    if bytes != size_of::<RobustListHead>() as u64 {
        return Err(Errno::EINVAL.into());
    }
    ctx.thread.robust_list = head;
    Ok(0)
}

/// get_robust_list(2).
pub(super) fn get_robust_list(ctx: &mut Ctx<'_>, [tid, head, bytes, ..]: [u64; 6]) -> SysResult {
    let tid = tid as u32;
    let list = if tid == 0 || tid == ctx.thread.tid.0 {
        ctx.thread.robust_list
    } else {
        ctx.kernel.threads.get(tid).ok_or(Errno::ESRCH)?.robust_list
    };
    ctx.process.memory.write_value(bytes, &(size_of::<RobustListHead>() as u64))?;
    ctx.process.memory.write_value(head, &list)?;
    Ok(0)
}

impl Ctx<'_> {
    /// The queue of an address of the calling process. Private futexes, which say so, need no look at what lies there.
    pub(super) fn futex_key(&self, address: u64, private: bool) -> FutexKey {
        let space = self.process.space.id();
        if private {
            return FutexKey::Private { space, address };
        }
        match self.process.memory.shared_identity(address) {
            Some((object, place)) => FutexKey::Shared { object, place },
            None => FutexKey::Own { space, address },
        }
    }

    /// Wakes up to `count` threads that wait at an address of the calling process.
    pub(crate) fn wake_futex(&mut self, address: u64, count: usize) -> u64 {
        let key = self.futex_key(address, false);
        self.wake_queue(key, count, FUTEX_BITSET_MATCH_ANY)
    }

    /// Makes the first waiter the owner of a lock with priority inheritance, with these flags. False when there is none.
    fn hand_over_lock(&mut self, address: u64, key: FutexKey, flags: u32) -> bool {
        let next = self.kernel.futexes.take(key, 1, FUTEX_BITSET_MATCH_ANY);
        let Some(waiter) = next.first().copied() else { return false };
        // Where the word cannot be written, the waiter finds out by itself.
        let _ = self.process.memory.write_value(address, &(waiter.tid.0 | flags));
        if let Some(thread) = self.kernel.threads.get_mut(waiter.tid.0) {
            thread.wait.futex = None;
        }
        self.kernel.wake(waiter.tid, Wake::Ready);
        true
    }

    /// Whether there is a thread of that number.
    fn thread_lives(&self, tid: u32) -> bool {
        tid == self.thread.tid.0
            || self.kernel.threads.get(tid).is_some_and(|thread| thread.state != crate::ThreadState::Dead)
    }

    pub(super) fn wake_queue(&mut self, key: FutexKey, count: usize, bitset: u32) -> u64 {
        let woken = self.kernel.futexes.take(key, count, bitset);
        for waiter in &woken {
            if let Some(thread) = self.kernel.threads.get_mut(waiter.tid.0) {
                thread.wait.futex = None;
                if let Some(index) = thread.wait.futexes.iter().position(|other| *other == key) {
                    thread.call.progress = index as u64 + 1;
                }
            }
            self.kernel.wake(waiter.tid, Wake::Ready);
        }
        self.thread.gives_way |= !woken.is_empty() && self.lets_run(&woken);
        woken.len() as u64
    }

    /// Whether the woken threads run before the calling one goes on. A compiler at run time has work when it is woken, and who woke it runs on without
    /// a call in the slow code that is to be replaced. So in a process that makes code they do, and do not give way themselves in their first calls:
    /// two compilers that share a mutex would let who woke them run before they have begun.
    fn lets_run(&mut self, woken: &[FutexWaiter]) -> bool {
        if !self.process.makes_code {
            return self.thread.wakes.lets_run();
        }
        const FIRST_CALLS: u64 = 64;
        let calls = self.process.calls;
        if calls < self.thread.undisturbed_until {
            return self.thread.wakes.seldom_lets_run();
        }
        for waiter in woken {
            if let Some(thread) = self.kernel.threads.get_mut(waiter.tid.0) {
                thread.undisturbed_until = calls + FIRST_CALLS;
            }
        }
        true
    }

    /// The calling thread ends: marks the robust mutexes that it holds as orphaned and wakes one waiter of each, as Linux's
    /// exit_robust_list (Documentation/locking/robust-futexes.rst).
    pub(crate) fn release_robust_list(&mut self) {
        let head_at = std::mem::take(&mut self.thread.robust_list);
        if head_at == 0 {
            return;
        }
        let Ok(head) = self.process.memory.read_value::<RobustListHead>(head_at) else { return };
        let mut entry = head.next;
        let pending = head.list_op_pending & !1;
        for _ in 0..ROBUST_LIST_LIMIT {
            let at = entry & !1;
            if at == head_at || at == 0 {
                break;
            }
            let Ok(next) = self.process.memory.read_value::<u64>(at) else { break };
            if at != pending {
                self.orphan(at.wrapping_add_signed(head.futex_offset), entry & 1 != 0, false);
            }
            entry = next;
        }
        if pending != 0 {
            self.orphan(pending.wrapping_add_signed(head.futex_offset), head.list_op_pending & 1 != 0, true);
        }
    }

    /// The calling thread ends: the locks with priority inheritance that it holds and others wait for go to the first of those
    /// (`exit_pi_state_list`).
    pub(crate) fn release_locks(&mut self) {
        for key in self.kernel.futexes.locks() {
            let Some(address) = self.futex_address(key) else { continue };
            let word = self.process.memory.read_value::<u32>(address).unwrap_or(0);
            if word & FUTEX_TID_MASK == self.thread.tid.0 {
                self.hand_over_lock(address, key, FUTEX_OWNER_DIED | FUTEX_WAITERS);
            }
        }
    }

    /// Where the calling process has a futex, if it has it at all.
    fn futex_address(&self, key: FutexKey) -> Option<u64> {
        match key {
            FutexKey::Private { space, address } | FutexKey::Own { space, address } => {
                (space == self.process.space.id()).then_some(address)
            }
            FutexKey::Shared { object, place } => {
                let memory = &self.process.memory;
                memory.mappings().filter(|vma| vma.object() == object).find_map(|vma| {
                    let (_, first) = memory.shared_identity(vma.start)?;
                    let address = vma.start.checked_add(place.checked_sub(first)?)?;
                    (memory.shared_identity(address) == Some((object, place))).then_some(address)
                })
            }
            FutexKey::Other { .. } => None,
        }
    }

    /// `inherits` says that the lock is one with priority inheritance: it goes to the first that waits.
    fn orphan(&mut self, address: u64, inherits: bool, pending: bool) {
        let own = self.thread.tid.0;
        let Ok(word) = self.process.memory.read_value::<u32>(address) else { return };
        if pending && word == 0 && !inherits {
            self.wake_futex(address, 1);
            return;
        }
        if word & FUTEX_TID_MASK != own {
            return;
        }
        if inherits {
            for private in [false, true] {
                let key = self.futex_key(address, private);
                if self.hand_over_lock(address, key, FUTEX_OWNER_DIED | FUTEX_WAITERS) {
                    return;
                }
            }
        }
        let orphaned = (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
        if self.process.memory.write_value(address, &orphaned).is_ok() && word & FUTEX_WAITERS != 0 {
            self.wake_futex(address, 1);
        }
    }
}
