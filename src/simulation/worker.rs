//! What each worker lends to the hosts that it runs: the machinery that executes guests, its part of the log, open files.

use super::accounting::{Activity, Doing, Seen};
use super::forecast::Forecast;
use super::processors::stay_on;
use super::profile::WorkerProfile;
use super::record::WorkerRecord;
use base::{HostId, SimTime};
use recorder::{OutputPool, Window, WindowBoard, WorkerLog};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Real descriptors that one worker may keep open for captures and logs.
const OUTPUT_DESCRIPTORS: usize = 256;

pub struct SimWorker {
    pub guest: guest::Worker,
    pub log: WorkerLog,
    pub outputs: OutputPool,
    /// What this worker does, for the accounting of processor time.
    pub activity: Activity,
    number: usize,
    windows: WindowBoard,
    /// What it had been seen doing when its last window ended.
    seen: Seen,
    /// Where the run's time with more workers is reckoned.
    pub forecast: Option<Arc<Mutex<Forecast>>>,
    /// Where it gathers the rows of the record, if there is one.
    pub record: Option<WorkerRecord>,
    /// What it makes of samples, if some are taken.
    pub profile: Option<WorkerProfile>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl SimWorker {
    /// Prepares the calling thread.
    ///
    /// # Errors
    /// When the machine cannot run guests; the text says what it lacks.
    pub fn new(
        number: usize,
        log: WorkerLog,
        windows: WindowBoard,
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
        let outputs = OutputPool::new(OUTPUT_DESCRIPTORS);
        Ok(SimWorker {
            guest,
            log,
            activity,
            number,
            windows,
            seen: Seen::default(),
            outputs,
            forecast: None,
            record: None,
            profile: None,
            failures,
        })
    }

    /// Does something else from now on, of a host at a moment. Samples that wait were taken in what it did until now.
    #[inline]
    pub fn turn_to(&mut self, doing: Doing, host: HostId, now: SimTime) {
        if self.guest.has_samples() {
            self.note_samples(host, now);
        }
        self.activity.set(doing);
    }

    #[cold]
    fn note_samples(&mut self, host: HostId, now: SimTime) {
        if let Some(profile) = &mut self.profile {
            profile.take_own(&mut self.guest, self.activity.get(), host, now);
        }
    }

    /// Notes a failure to record.
    pub fn fail(&mut self, message: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

/// Of what nobody else locks while a worker runs.
pub fn lock(forecast: &Mutex<Forecast>) -> MutexGuard<'_, Forecast> {
    forecast.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SimWorker {
    fn drop(&mut self) {
        if let Some(profile) = self.profile.take() {
            profile.end(&mut self.guest);
        }
    }
}

impl engine::Worker for SimWorker {
    fn window_ended(&mut self, round: u64, start: SimTime, costs: &engine::WindowCosts) {
        self.log.hand_over();
        if let Some(record) = &mut self.record {
            record.hand_over(round);
        }
        let seen = self.activity.seen();
        let before = std::mem::replace(&mut self.seen, seen);
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        let window = Window {
            first: round,
            windows: 1,
            start,
            hosts_run: costs.hosts_run,
            hosts_stolen: costs.hosts_stolen,
            running: nanos(costs.running),
            stealing: nanos(costs.stealing),
            delivering: nanos(costs.delivering),
            waiting: nanos(costs.waiting),
            logging: nanos(costs.ending + costs.callback),
            guest: seen.guest - before.guest,
            kernel: seen.kernel - before.kernel,
            stack: seen.stack - before.stack,
        };
        self.windows.push(self.number, &window);
        if let Some(forecast) = &self.forecast {
            lock(forecast).window_ended(costs);
        }
    }

    fn take_exclusive(&mut self) -> bool {
        self.guest.take_fixed()
    }

    fn give_up_exclusive(&mut self) {
        self.guest.leave();
    }
}
