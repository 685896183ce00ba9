//! What workers meet by. `tests/interleavings.rs` puts a model in its place, in which every order of steps is tried.

pub use atomic_wait::{wait, wake_all};
pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard};

/// Locks without regard to poison: a panic ends the run by itself, and the data is read no more.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
