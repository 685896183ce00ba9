//! `schema.json`: what a record has, for programs that read it without this crate.

use crate::error::{Error, Result};
use crate::identity::RunId;
use crate::store::{Options, TableSummary, segments};
use probes::tables::TABLES;
use probes::{Kind, Level, Table};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The file's name in the record's folder.
pub const FILE: &str = "schema.json";

/// Of the record's form. Its number rises when a table or column is renamed, removed, or means something else.
pub const VERSION: &str = "gnomon-provenance/1";

/// What each Parquet file says of itself.
pub fn notes(options: &Options) -> Vec<(String, String)> {
    let notes =
        [("schema", VERSION.to_owned()), ("level", options.level.to_string()), ("run", options.run.to_string())];
    notes.map(|(key, value)| (format!("gnomon:{key}"), value)).into()
}

/// What the file says while its run goes on.
#[derive(Debug)]
pub struct Open(Value);

impl Open {
    /// Writes it.
    pub fn write(folder: &Path, options: &Options) -> Result<Open> {
        let schema = json!({
            "version": VERSION,
            "gnomon": env!("CARGO_PKG_VERSION"),
            "level": options.level.to_string(),
            "run": options.run.to_string(),
            "hosts": options.hosts.len(),
            "filter": options.filter.as_ref().map(|filter| filter.text()),
            "finished": false,
            "tables": TABLES.iter().map(table).collect::<Vec<_>>(),
        });
        put(folder, &schema)?;
        Ok(Open(schema))
    }

    /// Marks the record as finished, with what each table has, by which it is seen later whether all of it is still there.
    pub fn finish(&self, folder: &Path, tables: &[TableSummary]) -> Result<()> {
        let mut schema = self.0.clone();
        schema["finished"] = true.into();
        for about in schema["tables"].as_array_mut().into_iter().flatten() {
            let Some(table) = tables.iter().find(|table| about["name"] == table.name) else { continue };
            about["rows"] = table.rows.into();
            about["segments"] = segments(&folder.join(table.name))?.len().into();
        }
        put(folder, &schema)
    }
}

/// Writes the file, in one step: a run that is killed meanwhile leaves the one before.
fn put(folder: &Path, schema: &Value) -> Result<()> {
    let path = folder.join(FILE);
    let part = path.with_extension("json.part");
    let text = serde_json::to_string_pretty(schema).expect("plain values") + "\n";
    fs::write(&part, text).map_err(|cause| Error::io("write", &part, &cause))?;
    fs::rename(&part, &path).map_err(|cause| Error::io("rename", &part, &cause))
}

/// What the file says of its record.
#[derive(Clone, Debug)]
pub struct About {
    pub run: RunId,
    pub level: Level,
    pub end: End,
}

/// How a record ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It does not say, as those of earlier Gnomons.
    Untold,
    /// It is being written, or was cut off.
    Open,
    Finished(Vec<Extent>),
}

/// What a table has in a finished record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    pub table: String,
    pub rows: u64,
    pub segments: u64,
}

/// Which run it is, and what it recorded.
///
/// # Errors
/// When it is no schema of this version.
pub fn read(text: &[u8]) -> std::result::Result<About, String> {
    let schema: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let word = |key: &str| schema[key].as_str().ok_or_else(|| format!("it has no '{key}'"));
    let version = word("version")?;
    if version != VERSION {
        return Err(format!("it is of version '{version}', and this Gnomon reads '{VERSION}'"));
    }
    Ok(About { run: word("run")?.parse()?, level: word("level")?.parse()?, end: end(&schema) })
}

fn end(schema: &Value) -> End {
    let extent = |about: &Value| {
        Some(Extent {
            table: about["name"].as_str()?.to_owned(),
            rows: about["rows"].as_u64()?,
            segments: about["segments"].as_u64()?,
        })
    };
    match schema["finished"].as_bool() {
        None => End::Untold,
        Some(false) => End::Open,
        Some(true) => End::Finished(schema["tables"].as_array().into_iter().flatten().filter_map(extent).collect()),
    }
}

fn table(table: &Table) -> Value {
    let columns = table.columns.iter().map(|column| {
        let mut about = json!({ "name": column.name, "kind": kind(column.kind), "text": column.text });
        if !column.kind.unit().is_empty() {
            about["unit"] = column.kind.unit().into();
        }
        if let Kind::Choice(words) = column.kind {
            about["words"] = words.into();
        }
        about
    });
    json!({
        "name": table.name,
        "layer": table.layer,
        "text": table.text.trim(),
        "key": table.columns[..table.key].iter().map(|column| column.name).collect::<Vec<_>>(),
        "columns": columns.collect::<Vec<_>>(),
    })
}

/// The word for a kind of column.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Packet => "packet",
        Kind::Row => "row",
        Kind::Stream => "stream",
        Kind::Host => "host",
        Kind::Time => "time",
        Kind::Duration => "duration",
        Kind::MachineTime => "machine_time",
        Kind::Bytes => "bytes",
        Kind::Count => "count",
        Kind::Offset => "offset",
        Kind::Plain => "number",
        Kind::Memory => "address",
        Kind::Choice(_) => "choice",
        Kind::Ip => "ip",
        Kind::Text => "text",
    }
}
