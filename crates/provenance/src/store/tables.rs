//! All tables of a record together.

use super::segment::{Segments, Stored};
use crate::error::{Error, Result};
use probes::Rows;
use probes::tables::{Cause, Cost, HostName, LayerTime, Link, Mark, Read, Received, Sent, Stream, Tcp, Wake, Write};
use std::path::Path;

impl Stored for LayerTime {
    const BY_TIME: bool = true;

    fn combine(&mut self, other: &LayerTime) -> bool {
        self.packets += other.packets;
        self.bytes += other.bytes;
        true
    }
}

impl Stored for Link {
    const BY_TIME: bool = true;

    fn combine(&mut self, other: &Link) -> bool {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.dropped += other.dropped;
        true
    }
}

macro_rules! stored {
    ($($row:ty),+) => { $(impl Stored for $row {})+ };
}

stored!(Sent, Received, Write, Read, Cause, Wake, Stream, Tcp, Mark, HostName, Cost);

/// What has been written of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    pub name: &'static str,
    pub rows: u64,
    pub bytes: u64,
}

macro_rules! tables {
    ($($name:ident: $row:ty),+) => {
        /// The tables that hosts fill, and those that are known before.
        #[derive(Debug)]
        pub struct Tables {
            $($name: Segments<$row>,)+
            hosts: Segments<HostName>,
            expanded: Rows,
            notes: Vec<(String, String)>,
        }

        impl Tables {
            /// Makes all folders below `store`; `notes` go into each file.
            pub fn create(store: &Path, notes: Vec<(String, String)>, mut hosts: Vec<HostName>) -> Result<Tables> {
                let mut tables = Tables {
                    $($name: Segments::create(store, &notes)?,)+
                    hosts: Segments::create(store, &notes)?,
                    expanded: Rows::default(),
                    notes,
                };
                tables.hosts.append(&mut hosts);
                tables.hosts.close(1, &tables.notes)?;
                Ok(tables)
            }

            /// Takes all rows, and leaves the room that they had.
            pub fn append(&mut self, rows: &mut Rows) {
                $(self.$name.append(&mut rows.$name);)+
                // Each packet of a train has a row: that takes much more room.
                self.expanded.sent_trains.append(&mut rows.sent_trains);
                self.expanded.received_trains.append(&mut rows.received_trains);
                self.expanded.expand();
                self.sent.append(&mut self.expanded.sent);
                self.received.append(&mut self.expanded.received);
            }

            /// Writes a segment of each table that has `limit` rows or more.
            pub fn close(&mut self, limit: usize) -> Result<()> {
                $(self.$name.close(limit, &self.notes)?;)+
                Ok(())
            }

            /// Writes what is left of all tables, beside each other: nothing else is to be done any more.
            pub fn close_rest(&mut self) -> Result<()> {
                let notes = &self.notes;
                std::thread::scope(|scope| {
                    let closing = [$({
                        let table = &mut self.$name;
                        scope.spawn(move || table.close(1, notes))
                    },)+];
                    // A panic is one of the thread that writes.
                    closing.map(|table| table.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).into_iter().collect()
                })
            }

            /// Merges the segments of all tables that have many, beside each other. What fails leaves its segments as they are.
            pub fn merge(&mut self) -> Vec<Error> {
                let notes = &self.notes;
                let mut failed = Vec::new();
                std::thread::scope(|scope| {
                    let merging = [$({
                        let table = &mut self.$name;
                        scope.spawn(move || table.merge(notes))
                    },)+];
                    for table in merging {
                        failed.extend(table.join().ok().and_then(Result::err));
                    }
                });
                failed
            }

            pub fn summary(&self) -> Vec<TableSummary> {
                let mut tables = vec![$(summary(stringify!($name), &self.$name),)+];
                tables.push(summary("hosts", &self.hosts));
                tables
            }
        }
    };
}

tables! {
    sent: Sent, received: Received, writes: Write, reads: Read, causes: Cause, wakes: Wake, streams: Stream, tcp: Tcp,
    layers: LayerTime, links: Link, marks: Mark, costs: Cost
}

fn summary<R>(name: &'static str, segments: &Segments<R>) -> TableSummary {
    TableSummary { name, rows: segments.written_rows, bytes: segments.written_bytes }
}
