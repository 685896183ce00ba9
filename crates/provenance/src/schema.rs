//! `schema.json`: what a record has, for programs that read it without this crate.

use crate::error::{Error, Result};
use crate::identity::RunId;
use crate::store::Options;
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

pub fn write(folder: &Path, options: &Options) -> Result<()> {
    let schema = json!({
        "version": VERSION,
        "gnomon": env!("CARGO_PKG_VERSION"),
        "level": options.level.to_string(),
        "run": options.run.to_string(),
        "hosts": options.hosts.len(),
        "filter": options.filter.as_ref().map(|filter| filter.text()),
        "tables": TABLES.iter().map(table).collect::<Vec<_>>(),
    });
    let path = folder.join(FILE);
    let text = serde_json::to_string_pretty(&schema).expect("plain values") + "\n";
    fs::write(&path, text).map_err(|cause| Error::io("write", &path, &cause))
}

/// Which run it is, and what it recorded.
///
/// # Errors
/// When it is no schema of this version.
pub fn read(text: &[u8]) -> std::result::Result<(RunId, Level), String> {
    let schema: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let word = |key: &str| schema[key].as_str().ok_or_else(|| format!("it has no '{key}'"));
    let version = word("version")?;
    if version != VERSION {
        return Err(format!("it is of version '{version}', and this Gnomon reads '{VERSION}'"));
    }
    Ok((word("run")?.parse()?, word("level")?.parse()?))
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
