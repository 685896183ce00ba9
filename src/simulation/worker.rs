//! What each worker lends to the hosts that it runs: the machinery that executes guests, its part of the log, open files.

use base::SimTime;
use recorder::{OutputPool, WorkerLog};
use std::sync::{Arc, Mutex, PoisonError};

/// Real descriptors that one worker may keep open for captures and logs.
const OUTPUT_DESCRIPTORS: usize = 256;

pub struct SimWorker {
    pub guest: guest::Worker,
    pub log: WorkerLog,
    pub outputs: OutputPool,
    failure: Arc<Mutex<Option<String>>>,
}

impl SimWorker {
    /// Prepares the calling thread.
    ///
    /// # Errors
    /// When the machine cannot run guests; the text says what it lacks.
    pub fn new(log: WorkerLog, failure: Arc<Mutex<Option<String>>>) -> Result<SimWorker, String> {
        let guest = guest::Worker::new().map_err(|error| error.to_string())?;
        Ok(SimWorker { guest, log, outputs: OutputPool::new(OUTPUT_DESCRIPTORS), failure })
    }

    /// Notes the first failure to record; the run's result cannot be trusted then.
    pub fn fail(&mut self, message: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    }
}

impl engine::Worker for SimWorker {
    fn window_ended(&mut self, _round: u64, _start: SimTime) {
        self.log.hand_over();
    }
}
