//! Segments of a table become one file in the order of its key.
//!
//! A packet lies in one row group then and not in one of each segment, so that a reader finds it in 100 million at once. The files change
//! places in one step, by exchanging their folders: whenever a run is killed, each row is there once.

use crate::columns::{Column, Columns, Cursor, File, GROUP_ROWS, Source};
use crate::error::{Error, Result};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use probes::Table;
use std::fs;
use std::path::{Path, PathBuf};

/// Segments that a reader has no trouble with: a row of any is found in some 5 ms.
const FEW: usize = 32;
/// Files that are merged at once: each needs a few megabytes.
const MOST_AT_ONCE: usize = 96;
/// Rows of a row group: four times those of segments, since readers look at what each of them may have, for each question.
const MERGED_ROWS: usize = 4 * GROUP_ROWS;
/// Rows that are taken from a file at once.
const BATCH: usize = 2048;

/// Merges what is in a table's folder if there is much; how many bytes there are then.
pub fn merge(folder: &Path, table: &'static Table, notes: &[(String, String)]) -> Result<Option<u64>> {
    let segments = segments(folder)?;
    if segments.len() <= FEW {
        return Ok(None);
    }
    let new = folder.with_extension("merging");
    fs::create_dir(&new).map_err(|cause| Error::io("create", &new, &cause))?;
    let merged = merge_into(&new, segments, table, notes).and_then(|bytes| {
        exchange(folder, &new)?;
        Ok(Some(bytes))
    });
    // Either the segments, or what has become of them before it failed.
    fs::remove_dir_all(&new).map_err(|cause| Error::io("remove", &new, &cause))?;
    merged
}

/// The files of a table's folder, in order.
pub fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::io("read", folder, &cause);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn merge_into(
    folder: &Path,
    mut files: Vec<PathBuf>,
    table: &'static Table,
    notes: &[(String, String)],
) -> Result<u64> {
    for round in 0.. {
        let last = files.len() <= MOST_AT_ONCE;
        let mut merged = Vec::new();
        let mut bytes = 0;
        for (place, some) in files.chunks(MOST_AT_ONCE).enumerate() {
            let name = if last { "00000.parquet".to_owned() } else { format!("{round}-{place}.part") };
            let path = folder.join(name);
            bytes = write(&path, some, table, notes)?;
            if round > 0 {
                for path in some {
                    fs::remove_file(path).map_err(|cause| Error::io("remove", path, &cause))?;
                }
            }
            merged.push(path);
        }
        if last {
            return Ok(bytes);
        }
        files = merged;
    }
    unreachable!("each round leaves fewer files")
}

/// A file's rows, and where in them it is.
struct Front {
    cursor: Cursor,
    at: usize,
    rows: usize,
    keys: usize,
}

impl Front {
    fn key(&self, at: usize) -> [u64; 2] {
        let mut key = [0; 2];
        for (part, column) in key.iter_mut().zip(&self.cursor.rows.columns[..self.keys]) {
            if let Column::Numbers(numbers) = column {
                *part = numbers[at];
            }
        }
        key
    }
}

/// Merges sorted files into one.
fn write(path: &Path, files: &[PathBuf], table: &'static Table, notes: &[(String, String)]) -> Result<u64> {
    let failed = |cause| Error::parquet("write", path, &cause);
    let to = fs::File::create(path).map_err(|cause| Error::io("create", path, &cause))?;
    let mut file = File::create(to, table, notes).map_err(failed)?;
    let mut rows = Columns::new(table);
    let mut count = 0;
    let mut fronts = Vec::new();
    for path in files {
        let mut cursor = Cursor::new(Source::open(path, table)?);
        let rows = cursor.next(BATCH)?;
        if rows > 0 {
            fronts.push(Front { cursor, at: 0, rows, keys: table.key.min(2) });
        }
    }
    while !fronts.is_empty() {
        // Where keys are the same, the earlier segment goes first. There are a hundred fronts and long runs, so looking at all is cheap.
        let (first, _) = fronts.iter().enumerate().min_by_key(|(_, front)| front.key(front.at)).expect("not empty");
        let others = fronts.iter().enumerate().filter(|(place, _)| *place != first);
        let bound = others.map(|(_, front)| front.key(front.at)).min();
        let front = &mut fronts[first];
        let most = front.rows.min(front.at + MERGED_ROWS - count);
        let mut end = front.at + 1;
        while end < most && bound.is_none_or(|bound| front.key(end) < bound) {
            end += 1;
        }
        rows.extend(&front.cursor.rows, front.at..end);
        count += end - front.at;
        front.at = end;
        if front.at == front.rows {
            (front.at, front.rows) = (0, front.cursor.next(BATCH)?);
            if front.rows == 0 {
                fronts.remove(first);
            }
        }
        if count == MERGED_ROWS {
            file.group(&rows).map_err(failed)?;
            rows.clear();
            count = 0;
        }
    }
    if count > 0 {
        file.group(&rows).map_err(failed)?;
    }
    file.close().map_err(failed)
}

/// Puts `new` in the place of `old`, and that in its.
fn exchange(old: &Path, new: &Path) -> Result<()> {
    if renameat2(AT_FDCWD, new, AT_FDCWD, old, RenameFlags::RENAME_EXCHANGE).is_ok() {
        return Ok(());
    }
    // Some file systems cannot; there is a moment then at which the table is missing.
    let aside = old.with_extension("old");
    let rename = |from: &Path, to: &Path| fs::rename(from, to).map_err(|cause| Error::io("rename", from, &cause));
    rename(old, &aside)?;
    rename(new, old)?;
    rename(&aside, new)
}
