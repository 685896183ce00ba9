//! Rows of a CSV file of Tor Metrics: cells by the names of columns, and errors that say the file and the line.

use crate::error::{Error, Result};
use base::ByteSize;
use csv::{ReaderBuilder, StringRecord};
use std::path::{Path, PathBuf};

/// Years of all vantage points are some megabytes.
const LARGEST: ByteSize = ByteSize(256 << 20);

/// A file with its header.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    pub columns: Vec<String>,
    rows: Vec<StringRecord>,
    /// What the lines say that begin with "#".
    pub comments: String,
}

/// One line.
pub struct Row<'a> {
    rows: &'a Rows,
    record: &'a StringRecord,
}

/// What one can fetch; the remedy of most mistakes.
pub const KNOWN_FILES: &str = "known are torperf.csv, torperf-failures.csv, onionperf-latencies.csv, onionperf-buildtimes.csv, \
                               onionperf-throughput.csv, bandwidth.csv and bandwidth-flags.csv of https://metrics.torproject.org";

impl Rows {
    pub fn read(path: &Path) -> Result<Rows> {
        let text = base::input::text(path, LARGEST)
            .map_err(|error| Error::Input(format!("cannot read '{}': {error}", path.display())))?;
        let comments = text.lines().filter(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
        let mut reader =
            ReaderBuilder::new().comment(Some(b'#')).has_headers(true).flexible(true).from_reader(text.as_bytes());
        let wrong = |error: csv::Error| Error::Input(format!("{}: {error}; {KNOWN_FILES}", path.display()));
        let columns = reader.headers().map_err(wrong)?.iter().map(|name| name.trim().to_owned()).collect();
        let rows = reader.records().collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
        Ok(Rows { path: path.to_path_buf(), columns, rows, comments })
    }

    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.columns.iter().any(|column| column == name))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(move |record| Row { rows: self, record })
    }

    /// A mistake of the whole file.
    pub fn wrong(&self, what: &str) -> Error {
        Error::Input(format!("{}: {what}", self.path.display()))
    }
}

impl Row<'_> {
    /// The text of a column; empty where the file has no such column.
    pub fn text(&self, name: &str) -> &str {
        let index = self.rows.columns.iter().position(|column| column == name);
        index.and_then(|index| self.record.get(index)).unwrap_or("").trim()
    }

    /// A number that is not negative; None for an empty cell, which Tor Metrics writes where there was no measurement.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        let text = self.text(name);
        if text.is_empty() || text == "NA" {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.map(Some).ok_or_else(|| self.wrong(&format!("'{text}' is no number for the column {name}")))
    }

    /// The day, as YYYY-MM-DD.
    pub fn date(&self) -> Result<&str> {
        let text = self.text("date");
        let bytes = text.as_bytes();
        let is_date = bytes.len() == 10
            && bytes
                .iter()
                .enumerate()
                .all(|(i, byte)| if i == 4 || i == 7 { *byte == b'-' } else { byte.is_ascii_digit() });
        if is_date { Ok(text) } else { Err(self.wrong(&format!("'{text}' is no date (YYYY-MM-DD)"))) }
    }

    /// The three quartiles; None for a row without.
    pub fn quartiles(&self) -> Result<Option<[f64; 3]>> {
        let (Some(low), Some(middle), Some(high)) = (self.number("q1")?, self.number("md")?, self.number("q3")?) else {
            return Ok(None);
        };
        if low <= middle && middle <= high {
            return Ok(Some([low, middle, high]));
        }
        Err(self.wrong(&format!("the quartiles {low}, {middle}, {high} do not ascend (q1, md, q3)")))
    }

    /// Whether it is about the public internet, rather than onion services.
    pub fn is_public(&self) -> bool {
        self.text("server") != "onion"
    }

    pub fn wrong(&self, what: &str) -> Error {
        let line = self.record.position().map_or(0, csv::Position::line);
        let path = self.rows.path.display();
        Error::Input(format!("{path}:{line}: {what}; fetch the file again from Tor Metrics, or correct the line"))
    }
}
