//! The store of a run's record: workers hand rows over, one thread writes them.
//!
//! What a file has depends on the rows of each window and on nothing else: a table's segment closes at the end of the first window at which
//! it has [`Options::segment_rows`] rows, in the order of the table's key. So the files are the same for any number of workers, whoever was
//! first. At the end many segments of a table become one, in which a row is found at once. A segment is written under another name and renamed when it is whole; a run that is killed has all segments that were closed.

mod merge;
mod queue;
mod segment;
mod tables;
mod writer;

pub use merge::segments;
pub use tables::TableSummary;

use crate::error::{Error, Result};
use crate::filter::{Chosen, Filter, Sift};
use crate::identity::RunId;
use crate::schema;
use probes::tables::HostName;
use probes::{Level, Rows};
use queue::{Message, Queue};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Rows after which a segment of a table is closed, if nothing else is asked for.
pub const SEGMENT_ROWS: usize = 1 << 19;

/// What a store is told of its run.
#[derive(Clone, Debug)]
pub struct Options {
    pub level: Level,
    pub run: RunId,
    pub hosts: Vec<HostName>,
    pub segment_rows: usize,
    /// Which packets are recorded, if not all.
    pub filter: Option<Filter>,
}

impl Options {
    pub fn new(level: Level, run: RunId, hosts: Vec<HostName>) -> Options {
        Options { level, run, hosts, segment_rows: SEGMENT_ROWS, filter: None }
    }
}

/// What a record has become.
#[derive(Clone, Debug)]
pub struct Summary {
    pub tables: Vec<TableSummary>,
    /// Why segments could not be merged: the record is whole, and slower to look things up in.
    pub unmerged: Vec<Error>,
    /// What a filter has chosen, if there was one.
    pub chosen: Option<Chosen>,
}

/// A record that is being written.
#[derive(Debug)]
pub struct Store {
    queue: Arc<Queue>,
    folder: PathBuf,
    /// What `schema.json` says until the record is finished.
    schema: schema::Open,
    thread: Option<JoinHandle<Option<Summary>>>,
}

/// A worker's way to the record.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Queue>);

impl Handle {
    /// Hands over what a worker has gathered in a window, which counts from 0. It waits while the record is far behind.
    /// What follows after the last window, such as connections that are still open, has the next number.
    pub fn push(&self, window: u64, rows: Rows) {
        self.push_all(vec![(window, rows)], &mut Vec::new());
    }

    /// The same of several windows. Gives as many rows that were emptied, to be filled again, if there are.
    pub fn push_all(&self, mut windows: Vec<(u64, Rows)>, spares: &mut Vec<Rows>) {
        windows.retain(|(_, rows)| !rows.is_empty());
        let count = windows.len();
        if count > 0 {
            self.0.push(Message::Rows(windows));
            self.0.take_spares(count, spares);
        }
    }
}

impl Store {
    /// Makes `folder`, in which there must be none, and writes what is known before the run.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn create(folder: &Path, options: Options) -> Result<Store> {
        fs::create_dir(folder).map_err(|cause| Error::io("create", folder, &cause))?;
        let schema = schema::Open::write(folder, &options)?;
        let notes = schema::notes(&options);
        let sift = options.filter.map(|filter| Sift::new(filter, options.hosts.clone()));
        let tables = tables::Tables::create(folder, notes, options.hosts)?;
        let queue = Arc::new(Queue::default());
        let writer = writer::Writer::new(tables, options.segment_rows, sift, queue.clone());
        let thread = std::thread::Builder::new().name("provenance".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|cause| Error::io("start the thread that writes", folder, &cause))?;
        Ok(Store { queue, folder: folder.to_path_buf(), schema, thread: Some(thread) })
    }

    pub fn handle(&self) -> Handle {
        Handle(self.queue.clone())
    }

    /// All workers have handed over the rows of all windows below `windows`. Workers may be ahead with later ones.
    ///
    /// # Errors
    /// When something could not be written, now or earlier: the record has no more rows from then on.
    pub fn windows_done(&self, windows: u64) -> Result<()> {
        self.queue.check()?;
        self.queue.push(Message::Windows(windows));
        Ok(())
    }

    /// Writes all that was handed over, waits for it, and marks the record as finished.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn finish(mut self) -> Result<Summary> {
        self.queue.push(Message::Finish);
        let ended = self.thread.take().map(JoinHandle::join);
        self.queue.check()?;
        let lost = || Error::new("write", &self.folder, "the thread that writes it has panicked");
        let summary = ended.and_then(|ended| ended.ok().flatten()).ok_or_else(lost)?;
        self.schema.finish(&self.folder, &summary.tables)?;
        Ok(summary)
    }
}

impl Drop for Store {
    /// A run that failed otherwise: what was closed stays.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.queue.push(Message::Abandon);
            let _ = thread.join();
        }
    }
}
