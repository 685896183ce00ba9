//! Where the workers meet at the end of a round.
//!
//! Waiters spin for a few microseconds, which is what a balanced window needs, and then sleep in the kernel, so that a long
//! window of one worker, or a busy machine, costs no processor time. Where there are more workers than processors nobody spins.

use crate::sync::{AtomicU32, Ordering, fence, spin_loop, wait, wake_all};

/// What those who arrive write lies apart from what those who wait read: else each arrival would take the line from all spinners.
#[derive(Debug)]
pub struct Barrier {
    workers: u32,
    spins: u32,
    arrived: Apart<AtomicU32>,
    /// Counts the meetings; sleepers wait for it to change.
    generation: Apart<AtomicU32>,
    sleepers: Apart<AtomicU32>,
}

/// On cache lines of its own. Processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Some 5 to 20 microseconds, by the processor's idea of a pause.
pub const SPINS: u32 = 400;

impl Barrier {
    pub fn new(workers: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Barrier::with_spins(workers, if workers <= processors { SPINS } else { 0 })
    }

    pub fn with_spins(workers: usize, spins: u32) -> Self {
        Barrier {
            workers: workers as u32,
            spins,
            arrived: Apart(AtomicU32::new(0)),
            generation: Apart(AtomicU32::new(0)),
            sleepers: Apart(AtomicU32::new(0)),
        }
    }

    /// Returns when all workers have arrived. The last of them calls `close` before anybody goes on. What each wrote before is seen by
    /// `close`, and by all after.
    pub fn meet(&self, close: impl FnOnce()) {
        // Nobody can complete this meeting before the arrival below, so this is its generation.
        let generation = self.generation.load(Ordering::Acquire);
        if self.count() {
            close();
            self.release();
            return;
        }
        for _ in 0..self.spins {
            if self.generation.load(Ordering::Acquire) != generation {
                return;
            }
            spin_loop();
        }
        self.sleep(generation);
    }

    /// Counts one arrival without waiting; whether it was the last.
    pub fn arrive(&self) -> bool {
        let is_last = self.count();
        if is_last {
            self.release();
        }
        is_last
    }

    fn count(&self) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.workers
    }

    fn release(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
        // Here and in `sleep`: either this sees the sleeper, or the sleeper sees the new generation.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            wake_all(&*self.generation);
        }
    }

    fn sleep(&self, generation: u32) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.generation.load(Ordering::Acquire) == generation {
            wait(&self.generation, generation);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
