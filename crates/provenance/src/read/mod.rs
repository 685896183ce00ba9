//! A record, read: rows by their key and by what their columns have, out of the row groups that can have them.

mod json;
pub mod leak;
pub mod memory;
pub mod text;
pub mod tree;
mod whole;

use crate::columns::{Column, Columns, Source};
use crate::error::{Error, Result};
use crate::identity::{Prefix, RunId, host_of, number};
use crate::schema::End;
use crate::store::segments;
use crate::{FOLDER, schema};
use probes::tables::{HostName, TABLES};
use probes::{Given, Level, Row};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// A record that has been opened.
#[derive(Debug)]
pub struct Record {
    folder: PathBuf,
    pub run: RunId,
    pub level: Level,
    pub hosts: Vec<HostName>,
    end: End,
}

/// What a column must have: a number within bounds.
pub type Test<'a> = (&'a str, RangeInclusive<u64>);

/// Any number.
pub const ANY: RangeInclusive<u64> = 0..=u64::MAX;

impl Record {
    /// Opens the record in a run's data directory.
    ///
    /// # Errors
    /// When there is none, or one that this Gnomon cannot read.
    pub fn open(run: &Path) -> Result<Record> {
        let folder = run.join(FOLDER);
        if !folder.is_dir() {
            let cause = if run.is_dir() {
                "it has no provenance; a run records it with --provenance packets, or all"
            } else {
                "there is no such data directory"
            };
            return Err(Error::new("read the provenance of", run, cause));
        }
        let path = folder.join(schema::FILE);
        let text = fs::read(&path).map_err(|cause| Error::io("read", &path, &cause))?;
        let about = schema::read(&text).map_err(|cause| Error::new("read", &path, cause))?;
        let mut record = Record { folder, run: about.run, level: about.level, hosts: Vec::new(), end: about.end };
        record.hosts = record.rows::<HostName>(ANY, &[], usize::MAX)?;
        Ok(record)
    }

    /// # Errors
    /// When the run recorded less than `level`: then says what to do.
    pub fn demand(&self, level: Level, what: &str) -> Result<()> {
        if self.level >= level {
            return Ok(());
        }
        let cause =
            format!("the run recorded '{}', which has no {what}; record them with --provenance {level}", self.level);
        Err(Error::new("answer from", &self.folder, cause))
    }

    /// A host's name; its number where it has none.
    pub fn host(&self, host: u64) -> String {
        let known = self.hosts.binary_search_by_key(&host, |about| about.host);
        known.map_or_else(|_| format!("host {host}"), |place| self.hosts[place].name.clone())
    }

    /// A packet's host and count there, as in "relay1:17".
    pub fn name(&self, packet: u64) -> String {
        let (host, count) = host_of(packet);
        format!("{}:{count}", self.host(host))
    }

    /// The numbers that a user means: the beginning of a UUID, `HOST:COUNT`, or `@NUMBER`.
    ///
    /// # Errors
    /// When it is none of these, or names no host.
    pub fn numbers(&self, text: &str) -> std::result::Result<RangeInclusive<u64>, String> {
        if let Some(digits) = text.strip_prefix('@') {
            let wrong = |_| format!("'{text}' is no packet: behind '@' stands its number, as tables have it");
            return digits.parse().map(|number| number..=number).map_err(wrong);
        }
        if let Some((host, count)) = text.rsplit_once(':') {
            let about = self.hosts.iter().find(|about| about.name == host);
            let about = about.ok_or_else(|| format!("'{text}' is no packet: the run has no host '{host}'"))?;
            let count = count.parse().ok().filter(|count| (1..1 << 40).contains(count));
            let count = count.ok_or_else(|| format!("'{text}' is no packet: behind ':' stands a count, from 1"))?;
            let number = number(about.host, count);
            return Ok(number..=number);
        }
        let other_run = || format!("'{text}' is the beginning of no UUID of this run, whose id is {}", self.run);
        Prefix::new(text)?.numbers(self.run).ok_or_else(other_run)
    }

    /// The rows whose first column lies in `keys` and which pass all `tests`, in the order of their keys; no more than `most`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn rows<R: Row>(&self, keys: RangeInclusive<u64>, tests: &[Test], most: usize) -> Result<Vec<R>> {
        let table = TABLES.iter().find(|table| table.name == R::TABLE.name).expect("one of the record's tables");
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let mut asked = vec![(0, keys)];
        asked.extend(tests.iter().map(|(name, range)| (place(name).expect("a column of the table"), range.clone())));
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let tested: Vec<usize> = asked.iter().map(|(column, _)| *column).collect();
        let mut few = Columns::some(table, &tested);
        let mut whole = Columns::new(table);
        let mut found = Vec::new();
        for path in segments(&self.folder.join(table.name))? {
            let source = Source::open(&path, table)?;
            let before = found.len();
            for group in 0..source.groups() {
                // What follows in this file has larger keys.
                if found.len() - before >= most {
                    break;
                }
                let can_have = |(column, range): &(usize, RangeInclusive<u64>)| {
                    let (smallest, largest) = source.bounds(group, *column);
                    smallest <= *range.end() && largest >= *range.start()
                };
                if !asked.iter().all(can_have) {
                    continue;
                }
                let count = source.rows(group);
                source.read(&mut source.columns(group, &tested)?, &mut few, count)?;
                let passes = |row: &usize| {
                    let mut cells = few.columns.iter().zip(&asked);
                    cells.all(|(column, (_, range))| matches!(column, Column::Numbers(numbers) if range.contains(&numbers[*row])))
                };
                let rows: Vec<usize> = (0..count).filter(passes).take(most).collect();
                if !rows.is_empty() {
                    source.read(&mut source.columns(group, &all)?, &mut whole, count)?;
                    found.extend(rows.into_iter().map(|row| R::of(&At { columns: &whole, row })));
                }
            }
        }
        found.sort_by_key(Row::key);
        found.truncate(most);
        Ok(found)
    }
}

/// A row of columns.
struct At<'a> {
    columns: &'a Columns,
    row: usize,
}

impl Given for At<'_> {
    fn number(&self, column: usize) -> u64 {
        match &self.columns.columns[column] {
            Column::Numbers(numbers) => numbers[self.row],
            Column::Words(_) => 0,
        }
    }

    fn text(&self, column: usize) -> &str {
        match &self.columns.columns[column] {
            Column::Words(words) => &words[self.row],
            Column::Numbers(_) => "",
        }
    }
}
