//! Tables for other programs: every transfer, circuit and relay of the runs, and the runs themselves, one observation per row and one variable
//! per column. Each is written as CSV and as Parquet, with a description of all columns beside them (`datapackage.json`, of Frictionless Data).
//!
//! What is in a table, its columns' names, types and units is a promise: whoever changes it changes [`SCHEMA`].

mod contents;
mod csv;
mod package;
mod parquet;

use crate::error::{Error, Result};
use crate::sections::Context;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Of the tables' form. Its number rises when a column is renamed, removed, or means something else.
pub const SCHEMA: &str = "gnomon-tables/1";

/// The folder of a report that holds them.
pub const FOLDER: &str = "tables";

/// Columns of equal length.
#[derive(Debug)]
pub struct Table {
    /// Also the name of its files.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    pub columns: Vec<Column>,
}

#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    /// With the unit, if it has one.
    pub about: &'static str,
    pub values: Values,
}

/// A value may be missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Text(Vec<Option<Arc<str>>>),
    Integer(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Truth(Vec<Option<bool>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Number(values) => values.len(),
            Values::Truth(values) => values.len(),
        }
    }
}

impl Table {
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }
}

/// The tables of all runs, in the order of the report.
pub fn all(context: &Context) -> Vec<Table> {
    vec![
        contents::runs(context),
        contents::transfers(context),
        contents::circuits(context),
        contents::relays(context),
        contents::differences(context),
        contents::public(context),
    ]
}

/// Writes them into `folder`, which is made where it does not exist.
pub fn write(folder: &Path, tables: &[Table]) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
    let description = package::describe(tables);
    for table in tables {
        let path = folder.join(format!("{}.csv", table.name));
        csv::write(&path, table).map_err(|error| Error::io("write", &path, error))?;
        let path = folder.join(format!("{}.parquet", table.name));
        parquet::write(&path, table).map_err(|error| Error::io("write", &path, error))?;
    }
    let path = folder.join("datapackage.json");
    fs::write(&path, description).map_err(|error| Error::io("write", &path, error))
}
