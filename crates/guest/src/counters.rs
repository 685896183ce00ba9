//! Process-wide counters: calls that change the real kernel's memory map, and what rewriting did and missed.

use std::sync::atomic::{AtomicU64, Ordering};

static MAP_CALLS: AtomicU64 = AtomicU64::new(0);
static ADVISE_CALLS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static SITES_REWRITTEN: AtomicU64 = AtomicU64::new(0);
static SITES_LEFT: AtomicU64 = AtomicU64::new(0);

/// A reading of all counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `mmap`, `munmap`, `mprotect` and `mremap` calls of the real kernel on behalf of guests.
    pub map_calls: u64,
    /// `madvise` calls on behalf of guests.
    pub advise_calls: u64,
    /// System calls that arrived by SIGSYS.
    pub misses: u64,
    /// Instructions replaced by jumps, counted once per composed image.
    pub sites_rewritten: u64,
    /// Instructions that could not be replaced and are left to user dispatch or trapping.
    pub sites_left: u64,
}

pub fn counters() -> Counters {
    Counters {
        map_calls: MAP_CALLS.load(Ordering::Relaxed),
        advise_calls: ADVISE_CALLS.load(Ordering::Relaxed),
        misses: MISSES.load(Ordering::Relaxed),
        sites_rewritten: SITES_REWRITTEN.load(Ordering::Relaxed),
        sites_left: SITES_LEFT.load(Ordering::Relaxed),
    }
}

pub(crate) fn count_map_call() {
    MAP_CALLS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_advise_call() {
    ADVISE_CALLS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_miss() {
    MISSES.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_sites(rewritten: u64, left: u64) {
    SITES_REWRITTEN.fetch_add(rewritten, Ordering::Relaxed);
    SITES_LEFT.fetch_add(left, Ordering::Relaxed);
}
