//! What each worker's windows took of wall time: `windows.parquet`. It describes this machine and this run of it, as `progress.csv` does.
//!
//! A run may have millions of windows. A worker keeps [`MOST_ROWS`] rows; when they are full, each two become one, and from then on a
//! row has twice as many windows. So a short run's table has a row for each window, a long one's for each 128, and none needs more memory
//! than that.

use crate::error::{Error, Result};
use base::SimTime;
use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file's name in the data directory.
pub const FILE: &str = "windows.parquet";

/// Of the file's form. Its number rises when a column is renamed, removed, or means something else.
pub const SCHEMA: &str = "gnomon-windows/1";

/// Rows that a worker keeps; about 1.5 MiB.
pub const MOST_ROWS: usize = 16_384;

/// What successive windows took of one worker, in nanoseconds of wall time where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The number of the first of them, counted from 0.
    pub first: u64,
    pub windows: u64,
    /// Where in simulated time the first of them begins, in nanoseconds.
    pub start: SimTime,
    pub hosts_run: u64,
    pub hosts_stolen: u64,
    /// Running hosts of the worker's own list.
    pub running: u64,
    /// After the end of that list: other workers' hosts, those that waited for addresses, and looking for them.
    pub stealing: u64,
    pub delivering: u64,
    /// For other workers, before the window.
    pub waiting: u64,
    /// Handing over what was logged; worker 0 also writes the log and tables.
    pub logging: u64,
    /// Of running and stealing, as samples show it: in guests, in the simulated kernel, in network stacks.
    pub guest: u64,
    pub kernel: u64,
    pub stack: u64,
}

impl Window {
    /// Takes in the windows that follow.
    fn join(&mut self, next: &Window) {
        self.windows += next.windows;
        self.hosts_run += next.hosts_run;
        self.hosts_stolen += next.hosts_stolen;
        self.running += next.running;
        self.stealing += next.stealing;
        self.delivering += next.delivering;
        self.waiting += next.waiting;
        self.logging += next.logging;
        self.guest += next.guest;
        self.kernel += next.kernel;
        self.stack += next.stack;
    }
}

/// One worker's windows, in their order.
#[derive(Clone, Debug)]
pub struct WindowTable {
    rows: Vec<Window>,
    windows_per_row: u64,
}

impl Default for WindowTable {
    fn default() -> WindowTable {
        WindowTable { rows: Vec::new(), windows_per_row: 1 }
    }
}

impl WindowTable {
    pub fn push(&mut self, window: &Window) {
        let per_row = self.windows_per_row;
        if let Some(last) = self.rows.last_mut().filter(|last| last.windows < per_row) {
            last.join(window);
            return;
        }
        if self.rows.len() == MOST_ROWS {
            self.halve();
        }
        self.rows.push(*window);
    }

    fn halve(&mut self) {
        self.windows_per_row *= 2;
        let halved = self.rows.chunks(2).map(|pair| {
            let mut row = pair[0];
            pair.get(1).inspect(|next| row.join(next));
            row
        });
        self.rows = halved.collect();
    }

    pub fn rows(&self) -> &[Window] {
        &self.rows
    }
}

/// The tables of all workers, each of which fills its own while another thread may write them.
#[derive(Clone, Debug)]
pub struct WindowBoard(Arc<[Mutex<WindowTable>]>);

impl WindowBoard {
    pub fn new(workers: usize) -> WindowBoard {
        WindowBoard((0..workers).map(|_| Mutex::default()).collect())
    }

    /// Adds a window of `worker`, which is below the number of workers.
    pub fn push(&self, worker: usize, window: &Window) {
        lock(&self.0[worker]).push(window);
    }

    /// Writes what is there below `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let tables: Vec<WindowTable> = self.0.iter().map(|table| lock(table).clone()).collect();
        write(folder, &tables)
    }
}

fn lock(table: &Mutex<WindowTable>) -> MutexGuard<'_, WindowTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A column: its name, what it is, and its value in a row.
type Column = (&'static str, &'static str, fn(usize, &Window) -> u64);

const COLUMNS: [Column; 14] = [
    ("worker", "the worker, counted from 0", |worker, _| worker as u64),
    ("first_window", "the number of the row's first window, counted from 0", |_, row| row.first),
    ("windows", "how many windows the row has", |_, row| row.windows),
    ("start_ns", "simulated time at which the first of them begins, ns", |_, row| row.start.as_nanos()),
    ("hosts_run", "hosts that the worker ran", |_, row| row.hosts_run),
    ("hosts_stolen", "those of them that another worker is home to", |_, row| row.hosts_stolen),
    ("running_ns", "wall time in which it ran hosts of its own list, ns", |_, row| row.running),
    ("stealing_ns", "wall time after that list's end: other workers' hosts, and looking for them, ns", |_, row| {
        row.stealing
    }),
    (
        "delivering_ns",
        "wall time for packets from other hosts, and for finding hosts that have something to do, ns",
        |_, row| row.delivering,
    ),
    ("waiting_ns", "wall time in which it waited for other workers, before the windows, ns", |_, row| row.waiting),
    (
        "logging_ns",
        "wall time for handing over what was logged in the windows before; worker 0 also writes the log and tables, ns",
        |_, row| row.logging,
    ),
    ("guest_ns", "of running and stealing: programs' own instructions, by samples of about 2 ms, ns", |_, row| {
        row.guest
    }),
    ("kernel_ns", "the simulated kernel, likewise", |_, row| row.kernel),
    ("stack_ns", "network stacks and interfaces, likewise", |_, row| row.stack),
];

/// Writes workers' tables below `folder`, in place of what was written before: a reader finds the one or the other, whole.
fn write(folder: &Path, workers: &[WindowTable]) -> Result<()> {
    let (path, part) = (folder.join(FILE), folder.join(format!("{FILE}.part")));
    let write = || -> io::Result<()> {
        let file = File::create(&part)?;
        write_to(file, workers).map_err(|error| match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(cause) => *cause,
                Err(cause) => io::Error::other(cause),
            },
            other => io::Error::other(other),
        })?;
        fs::rename(&part, &path)
    };
    write().map_err(|error| Error::io("write", &path, error))
}

fn write_to(file: File, workers: &[WindowTable]) -> std::result::Result<(), ParquetError> {
    let field = |(name, ..): &Column| {
        let column = Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::REQUIRED);
        column.build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<std::result::Result<_, _>>()?;
    let schema = Type::group_type_builder("windows").with_fields(fields).build()?;
    let about = COLUMNS.map(|(name, about, _)| (format!("gnomon:{name}"), about.to_owned()));
    let metadata = [("gnomon-schema".to_owned(), SCHEMA.to_owned())].into_iter().chain(about);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("Gnomon ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata.map(|(key, value)| KeyValue::new(key, value)).collect()))
        .build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    for (worker, table) in workers.iter().enumerate().filter(|(_, table)| !table.rows.is_empty()) {
        let mut group = writer.next_row_group()?;
        for (_, _, of) in COLUMNS {
            let Some(mut column) = group.next_column()? else { break };
            let values: Vec<i64> =
                table.rows.iter().map(|row| i64::try_from(of(worker, row)).unwrap_or(i64::MAX)).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
    }
    writer.close().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn window(number: u64) -> Window {
        let start = SimTime::from_nanos(number * 10);
        Window { first: number, windows: 1, start, hosts_run: 3, running: number, waiting: 7, ..Window::default() }
    }

    #[test]
    fn a_long_run_has_rows_of_many_windows_and_loses_none() {
        let mut table = WindowTable::default();
        let count = 5 * MOST_ROWS as u64 + 3;
        (0..count).for_each(|number| table.push(&window(number)));
        let rows = table.rows();
        assert!(rows.len() > MOST_ROWS / 2 && rows.len() <= MOST_ROWS, "{} rows", rows.len());
        assert_eq!(rows.iter().map(|row| row.windows).sum::<u64>(), count);
        assert_eq!(rows.iter().map(|row| row.running).sum::<u64>(), count * (count - 1) / 2);
        assert_eq!(rows[0].windows, 8);
        let next = |pair: &[Window]| pair[0].first + pair[0].windows == pair[1].first;
        assert!(rows.windows(2).all(next));
        assert!(rows.iter().all(|row| row.start.as_nanos() == row.first * 10));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut tables = [WindowTable::default(), WindowTable::default()];
        tables[0].push(&window(0));
        tables[1].push(&window(0));
        tables[1].push(&window(1));
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &tables[..1]).unwrap();
        write(folder.path(), &tables).unwrap();
        let reader = SerializedFileReader::new(File::open(folder.path().join(FILE)).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 3);
        let last: Vec<(&String, &Field)> = rows[2].get_column_iter().collect();
        let of = |name: &str| last.iter().find(|(column, _)| *column == name).map(|(_, field)| (*field).clone());
        assert_eq!(of("worker"), Some(Field::Long(1)));
        assert_eq!(of("start_ns"), Some(Field::Long(10)));
        assert_eq!(of("waiting_ns"), Some(Field::Long(7)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part of a file is left");
    }
}
