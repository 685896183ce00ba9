//! The stacks on which workers' signal handlers run, and by which a handler knows its worker.
//!
//! A handler must find the worker's state before it can do anything else, and must not trust the guest for it: a guest can load GS (by
//! `mov`, `pop` or `wrgsbase`), and then what GS base points to is no longer the state. Where the handler's stack lies, the kernel has decided,
//! by `sigaltstack(2)`, for each thread. All workers' stacks lie in one range of addresses, so that the place says which worker it is.

use crate::switch::WorkerState;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// More than the kernel's frame with all of AMX takes (about 11 KiB) and handlers use.
const STACK_BYTES: u64 = 64 << 10;
/// A stack with the memory below it, which is never mapped accessible: a handler that overflows its stack faults.
const SLOT_BYTES: u64 = 2 * STACK_BYTES;
/// How many workers a process can have at one time.
const SLOTS: usize = 4096;

/// Where the range of all stacks begins; 0 before there is one.
static RANGE: AtomicU64 = AtomicU64::new(0);
/// The worker that each stack belongs to.
static OWNERS: [AtomicPtr<WorkerState>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];
/// Stacks that were given back, and how many were ever made.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// One worker's stack. Its thread must no longer use it when it is dropped.
#[derive(Debug)]
pub(crate) struct SignalStack {
    slot: usize,
}

impl SignalStack {
    /// A stack whose handlers find `worker`.
    ///
    /// # Errors
    /// When there are too many workers, or no memory.
    pub(crate) fn new(worker: *mut WorkerState) -> std::io::Result<SignalStack> {
        let range = reserve()?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match free.0.pop() {
            Some(slot) => slot,
            None if free.1 == SLOTS => return Err(std::io::Error::from_raw_os_error(libc::EAGAIN)),
            None => {
                let bottom = range + free.1 as u64 * SLOT_BYTES + STACK_BYTES;
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: the range is this module's own, and nobody uses this part of it yet.
                if unsafe { libc::mprotect(bottom as *mut _, STACK_BYTES as usize, rights) } != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                free.1 += 1;
                free.1 - 1
            }
        };
        OWNERS[slot].store(worker, Ordering::Release);
        Ok(SignalStack { slot })
    }

    /// As `sigaltstack(2)` takes it.
    pub(crate) fn describe(&self) -> libc::stack_t {
        let bottom = RANGE.load(Ordering::Relaxed) + self.slot as u64 * SLOT_BYTES + STACK_BYTES;
        libc::stack_t { ss_sp: bottom as *mut libc::c_void, ss_flags: 0, ss_size: STACK_BYTES as usize }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        OWNERS[self.slot].store(null_mut(), Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.slot);
    }
}

/// Reserves the range, once per process.
fn reserve() -> std::io::Result<u64> {
    static DONE: OnceLock<Result<u64, i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let bytes = SLOTS * SLOT_BYTES as usize;
        // SAFETY: a fresh range of addresses, which nothing else knows.
        let address = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
        }
        RANGE.store(address as u64, Ordering::Release);
        Ok(address as u64)
    });
    done.map_err(std::io::Error::from_raw_os_error)
}

/// The worker on whose signal stack `address` lies; null where there is none. For handlers: no locks, no thread-locals.
pub(crate) fn owner_of(address: u64) -> *mut WorkerState {
    let range = RANGE.load(Ordering::Acquire);
    let slot = address.wrapping_sub(range) / SLOT_BYTES;
    match OWNERS.get(slot as usize) {
        Some(owner) if range != 0 => owner.load(Ordering::Acquire),
        _ => null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_a_stack_names_its_worker() {
        let (one, other) = (0x1000 as *mut WorkerState, 0x2000 as *mut WorkerState);
        let (first, second) = (SignalStack::new(one).unwrap(), SignalStack::new(other).unwrap());
        let top = |stack: &SignalStack| stack.describe().ss_sp as u64 + STACK_BYTES - 8;
        assert_eq!(owner_of(top(&first)), one);
        assert_eq!(owner_of(second.describe().ss_sp as u64), other);
        let here = 0u8;
        assert!(owner_of(&raw const here as u64).is_null(), "an ordinary stack");
        let gone = top(&first);
        drop(first);
        assert!(owner_of(gone).is_null());
    }
}
