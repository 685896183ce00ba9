//! A run's record, open for questions: its tables are views in an empty DuckDB that can reach nothing else.

use crate::error::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use duckdb::{Connection, Statement};
use probes::tables::TABLES;
use probes::{Kind, Table};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a run's data directory that the record lies in.
pub const FOLDER: &str = "provenance";

/// A packet with both its ends: what `sent` and `received` tell of it, side by side, and its times in all.
const PACKETS: &str = "CREATE VIEW packets AS SELECT s.*, s.packet >> 40 AS from_host, r.host, r.arrived_ns, r.downlink_ns, \
     r.reassembly_ns, r.receive_queue_ns, r.receive_queue_bytes, r.read, r.fate AS received_fate, \
     s.made_ns - s.socket_ns AS written_ns, \
     s.socket_ns + s.uplink_ns + s.route_ns + coalesce(r.downlink_ns + r.reassembly_ns + r.receive_queue_ns, 0) AS total_ns \
     FROM sent s LEFT JOIN received r USING (packet)";

/// A run's provenance.
pub struct Record {
    /// The run's data directory.
    run: PathBuf,
    connection: Connection,
}

/// Where the record of `run` lies, if it has one.
///
/// # Errors
/// When there is none, or its path cannot be said in SQL.
pub fn folder(run: &Path) -> Result<PathBuf> {
    let folder = run.join(FOLDER);
    if !folder.is_dir() {
        let what = if run.is_dir() { "has no provenance" } else { "is no data directory of a run" };
        return Err(Error::new(format!(
            "'{}' {what}: record it with 'gnomon run --provenance packets EXPERIMENT'",
            run.display()
        )));
    }
    let folder = folder.canonicalize().map_err(|error| Error::new(format!("'{}': {error}", folder.display())))?;
    match folder.to_str() {
        Some(text) if !text.contains(['*', '?', '[']) => Ok(folder),
        _ => Err(Error::new(format!(
            "'{}' has a path with '*', '?', '[' or no Unicode, which DuckDB cannot read: move it",
            run.display()
        ))),
    }
}

impl Record {
    /// Opens the record of a run for any number of questions.
    ///
    /// # Errors
    /// When there is none, or DuckDB cannot read it.
    pub fn open(run: &Path) -> Result<Record> {
        let folder = folder(run)?;
        let connection = Connection::open_in_memory()?;
        for table in TABLES {
            connection.execute_batch(&view(&folder, table)?)?;
        }
        connection.execute_batch(PACKETS)?;
        connection.execute_batch(&format!(
            "SET autoinstall_known_extensions = false; SET autoload_known_extensions = false; SET temp_directory = ''; \
             SET preserve_insertion_order = true; SET allowed_directories = ['{}']; SET enable_external_access = false; \
             SET lock_configuration = true",
            quoted(&folder)
        ))?;
        Ok(Record { run: run.to_path_buf(), connection })
    }

    /// The run's data directory, as it was given.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// The same record for another thread.
    ///
    /// # Errors
    /// When DuckDB has no room for it.
    pub fn another(&self) -> Result<Record> {
        Ok(Record { run: self.run.clone(), connection: self.connect()? })
    }

    /// Another connection to the same views, for another thread.
    ///
    /// # Errors
    /// When DuckDB has no room for it.
    pub fn connect(&self) -> Result<Connection> {
        Ok(self.connection.try_clone()?)
    }
}

/// The batches of a statement's answer, as DuckDB makes them, and what columns they have. DuckDB's own iterator panics where one cannot be made: where a segment is
/// broken, or the question was interrupted.
///
/// # Errors
/// When DuckDB cannot begin.
pub fn batches(statement: &mut Statement<'_>) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch>>)> {
    let schema = statement.stream_arrow([])?.get_schema();
    let statement = &*statement;
    let batches = std::iter::from_fn(move || {
        let next = statement.step().map(|batch| batch.map(|columns| RecordBatch::from(&columns)));
        next.map_err(Error::from).transpose()
    });
    Ok((schema, batches))
}

/// A view of a table's segments; an empty one where the run recorded none.
fn view(folder: &Path, table: &Table) -> Result<String> {
    let segments = segments(folder, table.name)?;
    if segments.is_empty() {
        let columns =
            table.columns.iter().map(|column| format!("NULL::{} AS \"{}\"", sql_type(column.kind), column.name));
        return Ok(format!(
            "CREATE VIEW {} AS SELECT {} WHERE false",
            table.name,
            columns.collect::<Vec<_>>().join(", ")
        ));
    }
    let files: Vec<String> = segments.iter().map(|path| format!("'{}'", quoted(path))).collect();
    Ok(format!("CREATE VIEW {} AS SELECT * FROM read_parquet([{}])", table.name, files.join(", ")))
}

/// The closed segments of a table, in order: files of its folder, or one file of its name.
fn segments(folder: &Path, table: &str) -> Result<Vec<PathBuf>> {
    let single = folder.join(format!("{table}.parquet"));
    let within = folder.join(table);
    let mut found = Vec::new();
    if within.is_dir() {
        let fail = |error: std::io::Error| Error::new(format!("cannot read '{}': {error}", within.display()));
        for entry in fs::read_dir(&within).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                found.push(path);
            }
        }
    } else if single.is_file() {
        found.push(single);
    }
    found.sort();
    Ok(found)
}

fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Choice(_) | Kind::Ip | Kind::Text => "VARCHAR",
        _ => "UBIGINT",
    }
}

/// A path between single quotes.
fn quoted(path: &Path) -> String {
    path.to_str().expect("checked when the record was found").replace('\'', "''")
}
