//! Rows of one table on their way to files: gathered, brought in the order of the table's key, and written.

use super::merge;
use crate::columns::{Columns, File, GROUP_ROWS, Turner};
use crate::error::{Error, Result};
use probes::{Cells, Row, Table};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A row that a store keeps.
pub trait Stored: Row {
    /// Takes in a row of the same key; false if the table has both.
    fn combine(&mut self, _other: &Self) -> bool {
        false
    }

    /// Whether the key is a time: then segments follow each other as they are.
    const BY_TIME: bool = false;
}

/// A table that is written, by one kind of rows.
#[derive(Debug)]
pub struct Segments<R> {
    about: &'static Table,
    folder: PathBuf,
    rows: Vec<R>,
    next: usize,
    pub written_rows: u64,
    pub written_bytes: u64,
}

impl<R: Stored> Segments<R> {
    /// Makes the table's folder, with a file that has no row: then it can be read whatever comes.
    pub fn create(store: &Path, notes: &[(String, String)]) -> Result<Segments<R>> {
        let about = probes::tables::TABLES.iter().find(|table| table.name == R::TABLE.name);
        let about = about.expect("every table is one of the record's");
        let folder = store.join(about.name);
        fs::create_dir(&folder).map_err(|cause| Error::io("create", &folder, &cause))?;
        let mut segments = Segments { about, folder, rows: Vec::new(), next: 0, written_rows: 0, written_bytes: 0 };
        segments.write(&[], notes)?;
        Ok(segments)
    }

    pub fn append(&mut self, rows: &mut Vec<R>) {
        self.rows.append(rows);
    }

    /// Writes a segment if there are `limit` rows or more.
    pub fn close(&mut self, limit: usize, notes: &[(String, String)]) -> Result<()> {
        if self.rows.len() < limit.max(1) {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let rows = combined(rows);
        self.write(&rows, notes)?;
        // The next segment is as long.
        self.rows = rows;
        self.rows.clear();
        Ok(())
    }

    /// Merges the segments that were written, if there are many.
    pub fn merge(&mut self, notes: &[(String, String)]) -> Result<()> {
        if !R::BY_TIME
            && let Some(bytes) = merge::merge(&self.folder, self.about, notes)?
        {
            self.written_bytes = bytes;
        }
        Ok(())
    }

    fn write(&mut self, rows: &[R], notes: &[(String, String)]) -> Result<()> {
        let path = self.folder.join(format!("{:05}.parquet", self.next));
        let part = path.with_extension("parquet.part");
        let to = fs::File::create(&part).map_err(|cause| Error::io("create", &part, &cause))?;
        let failed = |cause| Error::parquet("write", &part, &cause);
        let mut file = File::create(to, self.about, notes).map_err(failed)?;
        let mut columns = Columns::new(self.about);
        let mut turner = Turner::default();
        for group in order(rows).chunks(GROUP_ROWS) {
            columns.clear();
            turner.turn(group.iter().map(|&place| &rows[place as usize]), &mut columns);
            file.group(&columns).map_err(failed)?;
        }
        self.written_bytes += file.close().map_err(failed)?;
        self.written_rows += rows.len() as u64;
        fs::rename(&part, &path).map_err(|cause| Error::io("rename", &part, &cause))?;
        self.next += 1;
        Ok(())
    }
}

/// The rows' places by key. Where keys are the same, which a right record does not have, all cells decide: the order in which rows
/// came, which depends on the workers, never does.
fn order<R: Stored>(rows: &[R]) -> Vec<u32> {
    let keys = rows.iter().zip(0..).map(|(row, place)| (row.key(), place));
    // Sorting is a good part of the cost: narrow keys are half of it.
    if R::TABLE.key == 1 {
        sorted(rows, keys.map(|([key, _], place)| (key, place)).collect())
    } else {
        sorted(rows, keys.collect())
    }
}

fn sorted<R: Stored, K: Ord + Copy>(rows: &[R], mut keys: Vec<(K, u32)>) -> Vec<u32> {
    keys.sort_unstable();
    for same in keys.chunk_by_mut(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        same.sort_by_cached_key(|(_, place)| {
            let mut text = Text::default();
            rows[*place as usize].cells(&mut text);
            text.0
        });
    }
    keys.into_iter().map(|(_, place)| place).collect()
}

/// One row for each key, where the table wants that.
fn combined<R: Stored>(mut rows: Vec<R>) -> Vec<R> {
    if rows.len() < 2 || !rows[0].clone().combine(&rows[0]) {
        return rows;
    }
    rows.sort_by_key(Row::key);
    rows.dedup_by(|later, first| later.key() == first.key() && first.combine(later));
    rows
}

/// All cells, to compare rows by.
#[derive(Default)]
struct Text(Vec<String>);

impl Cells for Text {
    fn number(&mut self, _: usize, value: u64) {
        self.0.push(format!("{value:020}"));
    }

    fn address(&mut self, _: usize, value: IpAddr) {
        self.0.push(value.to_string());
    }

    fn text(&mut self, _: usize, value: &str) {
        self.0.push(value.to_owned());
    }
}
