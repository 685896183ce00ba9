//! The record of packets and bytes (`provenance/` in the data directory): from workers to the store, and what hosts tell at the end.

use super::host::SimHost;
use super::summary::{OptionProblem, RunError};
use base::SimTime;
use probes::tables::HostName;
use probes::trace::Clock;
use probes::{Identifiers, Level, Rows};
use provenance::{FOLDER, Filter, Handle, Options, RunId, Store};
use recorder::DataDirectory;
use scenario::Plan;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How much is to be recorded; None for nothing.
pub fn level(plan: &Plan) -> Option<Level> {
    Some(plan.experimental.provenance).filter(|level| *level > Level::Off)
}

/// Which packets are to be recorded; None for all.
///
/// # Errors
/// When the plan's expression is none, or there are no packets that it could choose from: where, and what is wrong.
pub fn filter(plan: &Plan) -> Result<Option<Filter>, OptionProblem> {
    let Some(text) = &plan.experimental.provenance_filter else { return Ok(None) };
    let wrong = |message| OptionProblem { option: "experimental.provenance_filter", message };
    let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    let filter = Filter::new(&text.0, &hosts).map_err(wrong)?;
    if level(plan).is_none_or(|level| level < Level::Packets) {
        let message = "no packets are recorded that it could choose from: add '--provenance packets'";
        return Err(wrong(message.to_owned()));
    }
    Ok(Some(filter))
}

/// # Errors
/// When identifiers are to be made, and nothing is recorded.
pub fn check_identifiers(plan: &Plan) -> Result<(), OptionProblem> {
    if level(plan).is_none() && plan.experimental.packet_identifiers != Identifiers::Number {
        let message = "nothing is recorded, so packets have no identifiers: add '--provenance summary'".to_owned();
        return Err(OptionProblem { option: "experimental.packet_identifiers", message });
    }
    Ok(())
}

/// What a few packets are measured by.
pub fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    *CLOCK.get_or_init(|| Clock::new(|| guest::thread_time().as_nanos() as u64))
}

/// Rows that a worker hands over together, and windows at most: to wake the thread that writes costs more than a window's rows do.
const BATCH_ROWS: usize = 8192;
const BATCH_WINDOWS: u64 = 4096;

/// A run's record.
#[derive(Debug)]
pub struct Record {
    store: Store,
    windows: u64,
    /// What the store was told to be complete.
    told: u64,
    /// The windows of which each worker has handed over everything.
    handed_over: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

/// A worker's part of it.
#[derive(Debug)]
pub struct WorkerRecord {
    /// Of the window that is under way.
    pub rows: Rows,
    /// Of windows before it, by their number.
    batch: Vec<(u64, Rows)>,
    batch_rows: usize,
    /// To be filled.
    spares: Vec<Rows>,
    handle: Handle,
    handed_over: Arc<AtomicU64>,
}

impl WorkerRecord {
    /// Takes in what this window has brought, and hands over what has gathered if it is much.
    pub fn hand_over(&mut self, window: u64) {
        if !self.rows.is_empty() {
            let next = self.spares.pop().unwrap_or_else(|| self.rows.as_large());
            self.batch_rows += self.rows.len();
            self.batch.push((window, std::mem::replace(&mut self.rows, next)));
        }
        let is_old = self.batch.first().is_some_and(|(first, _)| window - first >= BATCH_WINDOWS);
        if self.batch_rows >= BATCH_ROWS || is_old {
            self.flush();
        }
        if self.batch.is_empty() {
            self.handed_over.store(window + 1, Ordering::Release);
        }
    }

    fn flush(&mut self) {
        self.batch_rows = 0;
        self.handle.push_all(std::mem::take(&mut self.batch), &mut self.spares);
    }
}

impl Drop for WorkerRecord {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Record {
    /// Begins the record that the plan wants, if it does.
    ///
    /// # Errors
    /// When its files cannot be made.
    pub fn begin(plan: &Plan, directory: &DataDirectory) -> Result<Option<Record>, RunError> {
        let Some(level) = level(plan) else { return Ok(None) };
        let hosts = plan.hosts.iter().map(|host| {
            let link = plan.topology.link(host.id);
            HostName {
                host: host.id.0.into(),
                name: host.name.clone(),
                address: IpAddr::V4(host.address),
                up_bits: link.up.bits_per_sec(),
                down_bits: link.down.bits_per_sec(),
            }
        });
        let mut options = Options::new(level, run_id(plan), hosts.collect());
        options.filter = filter(plan).map_err(|problem| RunError::Recording(problem.to_string()))?;
        let store = Store::create(&directory.path().join(FOLDER), options)
            .map_err(|error| RunError::Recording(error.to_string()))?;
        Ok(Some(Record { store, windows: 0, told: 0, handed_over: Arc::default() }))
    }

    /// What makes a worker's part.
    pub fn for_workers(&self) -> impl Fn() -> WorkerRecord + Sync + use<> {
        let (handle, all) = (self.store.handle(), self.handed_over.clone());
        move || {
            let handed_over = Arc::new(AtomicU64::new(0));
            all.lock().unwrap_or_else(PoisonError::into_inner).push(handed_over.clone());
            WorkerRecord {
                rows: Rows::default(),
                batch: Vec::new(),
                batch_rows: 0,
                spares: Vec::new(),
                handle: handle.clone(),
                handed_over,
            }
        }
    }

    /// All workers have come to the end of a window.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn window(&mut self, windows: u64) -> provenance::Result<()> {
        self.windows = windows;
        let workers = self.handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = workers.iter().map(|windows| windows.load(Ordering::Acquire)).min().unwrap_or(0);
        // Idle windows alone are not worth a word.
        if complete < self.told + BATCH_WINDOWS / 64 {
            return Ok(());
        }
        self.told = complete;
        self.store.windows_done(complete)
    }

    /// Adds what is under way at the end of the run, and closes the files.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn finish(self, hosts: &mut [SimHost], now: SimTime) -> provenance::Result<provenance::Summary> {
        let handle = self.store.handle();
        for host in hosts {
            handle.push(self.windows, host.last_rows(now));
        }
        self.store.finish()
    }
}

/// How many packets there were, if a filter has chosen none of them.
pub fn none_chosen_of(summary: &provenance::Summary) -> Option<u64> {
    summary.chosen.filter(|chosen| chosen.kept == 0 && chosen.packets > 0).map(|chosen| chosen.packets)
}

/// What names the run in the UUIDs of its packets: the experiment and its seed, whatever is recorded and wherever it runs.
fn run_id(plan: &Plan) -> RunId {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update(text.as_bytes());
        hasher.update([0]);
    };
    add(&format!("{} {}", plan.general.seed, plan.stop_time().as_nanos()));
    for host in &plan.hosts {
        add(&format!("{} {}", host.name, host.address));
        for process in &host.processes {
            add(&format!("{} {}", process.path, process.start_time.as_nanos()));
            process.argv.iter().for_each(|argument| add(argument));
        }
    }
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    RunId::new(first)
}
