//! The thread that writes.

use super::Summary;
use super::queue::{Message, Queue};
use super::tables::Tables;
use crate::error::{Error, Result};
use crate::filter::Sift;
use probes::Rows;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

pub struct Writer {
    tables: Tables,
    segment_rows: usize,
    sift: Option<Sift>,
    queue: Arc<Queue>,
    /// Rows of windows that may not be complete: a worker may be ahead of the others by one.
    open: BTreeMap<u64, Vec<Rows>>,
    /// What can be filled again.
    emptied: Vec<Rows>,
}

impl Writer {
    pub fn new(tables: Tables, segment_rows: usize, sift: Option<Sift>, queue: Arc<Queue>) -> Writer {
        Writer { tables, segment_rows, sift, queue, open: BTreeMap::new(), emptied: Vec::new() }
    }

    /// Writes until the end; nothing if it failed, of which the queue knows.
    pub fn run(mut self) -> Option<Summary> {
        let queue = self.queue.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let bug = || Err(Error::new("write", Path::new(crate::FOLDER), "the thread that writes it has panicked"));
        ended.unwrap_or_else(|_| bug()).unwrap_or_else(|error| {
            queue.fail(error);
            None
        })
    }

    fn serve(&mut self) -> Result<Option<Summary>> {
        loop {
            match self.queue.pop(&mut self.emptied) {
                Message::Rows(windows) => {
                    windows.into_iter().for_each(|(window, rows)| self.open.entry(window).or_default().push(rows));
                }
                Message::Windows(windows) => {
                    let later = self.open.split_off(&windows);
                    for window in std::mem::replace(&mut self.open, later).into_values() {
                        self.window(window)?;
                    }
                }
                Message::Finish => {
                    for window in std::mem::take(&mut self.open).into_values() {
                        self.window(window)?;
                    }
                    if let Some(sift) = &mut self.sift {
                        self.tables.append(&mut sift.finish());
                    }
                    self.tables.close_rest()?;
                    let unmerged = self.tables.merge();
                    let chosen = self.sift.as_ref().map(Sift::chosen);
                    return Ok(Some(Summary { tables: self.tables.summary(), unmerged, chosen }));
                }
                Message::Abandon => return Ok(None),
            }
        }
    }

    /// Takes in all rows of a window, of all workers.
    fn window(&mut self, rows: Vec<Rows>) -> Result<()> {
        match &mut self.sift {
            Some(sift) => {
                let mut all = Rows::default();
                rows.into_iter().for_each(|mut rows| all.append(&mut rows));
                self.tables.append(&mut sift.window(all));
            }
            None => {
                let mut rows = rows;
                rows.iter_mut().for_each(|rows| self.tables.append(rows));
                self.emptied.append(&mut rows);
            }
        }
        self.tables.close(self.segment_rows)
    }
}
