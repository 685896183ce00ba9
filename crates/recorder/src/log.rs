//! The log: records with simulated time, gathered per worker without a lock, merged by (simulated time, host, order within
//! the host), so that their order depends on the plan and the seed alone.
//!
//! [`Log`] is what all share (levels, host names). Each worker pushes into its own [`WorkerLog`] and hands it over at the end
//! of a window; the one [`LogWriter`] writes what can no longer be preceded by anything. [`LogWriter::write_at_once`] makes it the logger that
//! this one is compared with.

mod record;
mod remote;
mod writer;

pub use record::{Level, LogFormat, LogHost, Place};
pub use writer::LogWriter;

use base::wall::WallClock;
use base::{HostId, SimTime};
use record::{Record, ThreadTag};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use writer::AtOnce;

/// Logs a message in a [`WorkerLog`] if its level is wanted; the message is formatted only then.
///
/// `record!(log, Level::Info, time, host, "started {path}")`, where `time` is an `Option<SimTime>` or a `SimTime` and `host`
/// an `Option<HostId>` or a `HostId`.
#[macro_export]
macro_rules! record {
    ($log:expr, $level:expr, $time:expr, $host:expr, $($message:tt)+) => {{
        let (level, host) = ($level, ::core::option::Option::from($host));
        if $log.enabled(level, host) {
            const PLACE: $crate::log::Place =
                $crate::log::Place { file: file!(), line: line!(), module: module_path!() };
            $log.push(level, ::core::option::Option::from($time), host, &PLACE, format_args!($($message)+));
        }
    }};
}

/// What the whole run's log shares.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    level: Level,
    /// By [`HostId`].
    hosts: Vec<LogHost>,
    /// What workers handed over and the writer has not fetched. Locked once per worker and window with records.
    inbox: Mutex<Vec<Record>>,
    clock: WallClock,
    /// Where each record is written as it is made, if it is.
    at_once: OnceLock<Mutex<AtOnce>>,
}

impl Log {
    /// A log that keeps records up to `level`; `hosts` by their ids, each with its own level or none.
    pub fn new(level: Level, hosts: Vec<LogHost>) -> Log {
        let (inbox, clock, at_once) = (Mutex::default(), WallClock::start(), OnceLock::new());
        Log { shared: Arc::new(Shared { level, hosts, inbox, clock, at_once }) }
    }

    /// A buffer for the calling thread: its name and id go into the records, so call it on the thread that will push.
    pub fn worker(&self) -> WorkerLog {
        WorkerLog { shared: Arc::clone(&self.shared), records: Vec::new(), thread: Arc::new(ThreadTag::current()) }
    }

    fn inbox(&self) -> MutexGuard<'_, Vec<Record>> {
        self.shared.inbox()
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Vec<Record>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn level_of(&self, host: Option<HostId>) -> Level {
        let own = host.and_then(|host| self.hosts.get(host.index())).and_then(|host| host.level);
        own.unwrap_or(self.level)
    }
}

/// One worker's records since its last hand-over.
#[derive(Debug)]
pub struct WorkerLog {
    shared: Arc<Shared>,
    records: Vec<Record>,
    thread: Arc<ThreadTag>,
}

impl WorkerLog {
    pub fn enabled(&self, level: Level, host: Option<HostId>) -> bool {
        level <= self.shared.level_of(host)
    }

    /// Keeps a record, whatever its level ([`record!`] asks first). Takes no lock. Records of one host must come from the
    /// worker that holds it; records without host should come from one thread alone, or their order is not fixed.
    pub fn push(
        &mut self,
        level: Level,
        time: Option<SimTime>,
        host: Option<HostId>,
        place: &'static Place,
        message: fmt::Arguments<'_>,
    ) {
        let record = Record {
            level,
            time,
            host,
            place,
            message: fmt::format(message),
            wall: self.shared.clock.elapsed(),
            thread: Arc::clone(&self.thread),
        };
        match self.shared.at_once.get() {
            None => self.records.push(record),
            Some(out) => out.lock().unwrap_or_else(PoisonError::into_inner).write(&record, &self.shared.hosts),
        }
    }

    /// Hands the records to the writer: at the end of a window, before another worker may take over this one's hosts.
    pub fn hand_over(&mut self) {
        if !self.records.is_empty() {
            self.shared.inbox().append(&mut self.records);
        }
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.hand_over();
    }
}
