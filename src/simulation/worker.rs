//! What each worker lends to the hosts that it runs: the machinery that executes guests, its part of the log, open files.

use super::accounting::Activity;
use base::SimTime;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
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

/// The processors for so many workers, one for each and far apart; none when there are too few, or when one worker has no other to
/// meet. A worker that wakes another at a barrier would otherwise often get it onto its own processor, and wait for it there.
///
/// They begin at the processor that this thread is on, so that runs side by side do not all begin at the first.
pub fn processors_for(workers: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    let allowed: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if workers < 2 || workers > allowed.len() {
        return Vec::new();
    }
    let first = nix::sched::sched_getcpu().ok().and_then(|cpu| allowed.iter().position(|other| *other == cpu));
    let stride = allowed.len() / workers;
    (0..workers).map(|worker| allowed[(first.unwrap_or(0) + worker * stride) % allowed.len()]).collect()
}

/// Best effort: it changes nothing but speed.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
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
