//! Reads `windows.parquet`: what windows of the engine took of each worker. Columns are found by their names.

use super::lines::unreadable;
use crate::run::{Damage, Window};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::fs::File;
use std::path::Path;

const NAME: &str = "windows.parquet";

/// A thousand workers' tables are smaller.
const LARGEST_FILE: u64 = 4 << 30;

/// The columns that a report needs, in the order in which [`window`] takes them.
const COLUMNS: [&str; 11] = [
    "worker",
    "windows",
    "start_ns",
    "running_ns",
    "stealing_ns",
    "delivering_ns",
    "waiting_ns",
    "logging_ns",
    "guest_ns",
    "kernel_ns",
    "stack_ns",
];

/// All rows; empty where there is no such file.
pub fn read(directory: &Path, damage: &mut Vec<Damage>) -> Vec<Window> {
    let path = directory.join(NAME);
    if !path.exists() {
        return Vec::new();
    }
    rows(&path).unwrap_or_else(|error| {
        damage.push(unreadable(NAME, &error));
        Vec::new()
    })
}

fn rows(path: &Path) -> Result<Vec<Window>, String> {
    let file = base::input::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|about| about.len() > LARGEST_FILE) {
        return Err("it is larger than any run writes".to_owned());
    }
    // The reader of the format is not ours, and what it makes of a broken file is not always an error.
    let read = std::panic::catch_unwind(|| parse(file));
    match read {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it is no whole Parquet file".to_owned()),
    }
}

fn parse(file: File) -> Result<Vec<Window>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let find = |wanted: &str| {
        let place = schema.columns().iter().position(|column| column.name() == wanted);
        place.ok_or_else(|| ParquetError::General(format!("it has no column '{wanted}'")))
    };
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = find(name)?;
    }
    let mut windows = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let mut values = [0; COLUMNS.len()];
        for (value, place) in values.iter_mut().zip(places) {
            *value = row.get_long(place)?;
        }
        windows.push(window(&values));
    }
    Ok(windows)
}

fn window(values: &[i64; COLUMNS.len()]) -> Window {
    let seconds = |index: usize| values[index].max(0) as f64 / 1e9;
    Window {
        worker: usize::try_from(values[0]).unwrap_or(0),
        windows: u64::try_from(values[1]).unwrap_or(0),
        start_s: seconds(2),
        running_s: seconds(3),
        stealing_s: seconds(4),
        delivering_s: seconds(5),
        waiting_s: seconds(6),
        logging_s: seconds(7),
        guest_s: seconds(8),
        kernel_s: seconds(9),
        stack_s: seconds(10),
    }
}
