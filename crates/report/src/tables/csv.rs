//! A table as CSV (RFC 4180, UTF-8): the names of the columns, then the rows. What is missing is empty.

use super::{Table, Values};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Writes the file.
pub fn write(path: &Path, table: &Table) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_path(path)?;
    writer.write_record(table.columns.iter().map(|column| column.name))?;
    let mut cell = String::new();
    for row in 0..table.rows() {
        for column in &table.columns {
            cell.clear();
            // Writing to a text cannot fail.
            let _ = match &column.values {
                Values::Text(values) => values[row].iter().try_for_each(|value| cell.write_str(value)),
                Values::Integer(values) => values[row].iter().try_for_each(|value| write!(cell, "{value}")),
                Values::Number(values) => values[row].iter().try_for_each(|value| write!(cell, "{value}")),
                Values::Truth(values) => values[row].iter().try_for_each(|value| write!(cell, "{value}")),
            };
            writer.write_field(&cell)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()
}
