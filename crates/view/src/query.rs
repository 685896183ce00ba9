//! One question in SQL, and its answer.

use crate::error::{Error, Result};
use crate::formats::{Format, Writer};
use crate::hexadecimal;
use crate::record::batches;
use duckdb::Connection;
use serde_json::Value;
use std::io::Write;

/// Answers `sql` into `out`.
///
/// # Errors
/// When it is not one SELECT, DuckDB refuses it, or the answer cannot be written.
pub fn answer(connection: &Connection, sql: &str, format: Format, out: &mut (impl Write + Send)) -> Result<()> {
    let sql = admit(connection, sql)?;
    let mut statement = connection.prepare(&sql)?;
    let (schema, batches) = batches(&mut statement)?;
    let mut writer = Writer::new(format, schema, out)?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.finish()
}

/// Lets exactly one SELECT through, by DuckDB's own parser, and returns it with hexadecimal numbers in decimal: other statements could write
/// into the record's folder, which DuckDB must be able to reach.
///
/// # Errors
/// When it is something else, or no SQL.
pub fn admit(connection: &Connection, sql: &str) -> Result<String> {
    let sql = hexadecimal::in_decimal(sql);
    let parsed: String = connection.query_row("SELECT json_serialize_sql(?::VARCHAR)", [&sql], |row| row.get(0))?;
    let parsed: Value = serde_json::from_str(&parsed).map_err(|error| Error::new(error.to_string()))?;
    if parsed["error"] == Value::Bool(true) {
        let text = parsed["error_message"].as_str().unwrap_or("this is no SQL");
        return Err(Error::new(match parsed["error_type"].as_str() {
            Some("not implemented") => format!("only questions are answered, SELECT and its like: {text}"),
            _ => text.to_owned(),
        }));
    }
    match parsed["statements"].as_array().map_or(0, Vec::len) {
        1 => Ok(sql),
        count => Err(Error::new(format!("{count} statements: ask one question at a time, a single SELECT"))),
    }
}
