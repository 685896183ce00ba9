//! What each worker lends to the hosts that it runs: the machinery that executes guests, its part of the log, open files.

use super::accounting::Activity;
use super::processors::stay_on;
use base::SimTime;
use recorder::{OutputPool, WorkerLog};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Real descriptors that one worker may keep open for captures and logs.
const OUTPUT_DESCRIPTORS: usize = 256;

pub struct SimWorker {
    pub guest: guest::Worker,
    pub log: WorkerLog,
    pub outputs: OutputPool,
    /// What this worker does, for the accounting of processor time.
    pub activity: Activity,
    failures: Arc<Mutex<Vec<String>>>,
}

impl SimWorker {
    /// Prepares the calling thread.
    ///
    /// # Errors
    /// When the machine cannot run guests; the text says what it lacks.
    pub fn new(
        log: WorkerLog,
        failures: Arc<Mutex<Vec<String>>>,
        processor: Option<usize>,
        tick: Duration,
        register: &dyn Fn(guest::GuestProbe) -> Activity,
    ) -> Result<SimWorker, String> {
        if let Some(processor) = processor {
            stay_on(processor);
        }
        let mut guest = guest::Worker::new().map_err(|error| error.to_string())?;
        guest.set_tick(tick);
        let activity = register(guest.probe());
        Ok(SimWorker { guest, log, activity, outputs: OutputPool::new(OUTPUT_DESCRIPTORS), failures })
    }

    /// Notes a failure to record.
    pub fn fail(&mut self, message: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

impl engine::Worker for SimWorker {
    fn window_ended(&mut self, _round: u64, _start: SimTime) {
        self.log.hand_over();
    }

    fn take_exclusive(&mut self) -> bool {
        self.guest.take_fixed()
    }

    fn give_up_exclusive(&mut self) {
        self.guest.leave();
    }
}
