//! The forms in which answers are written.

use crate::error::{Error, Result};
use crate::parquet_file::ParquetFile;
use crate::{hexadecimal, json};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use std::io::Write;
use std::str::FromStr;

/// A form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Columns of equal width, for people.
    Table,
    Csv,
    /// An array with an object for each row.
    Json,
    /// Arrow's streaming format.
    Arrow,
    Parquet,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Format> {
        Ok(match text {
            "table" => Format::Table,
            "csv" => Format::Csv,
            "json" => Format::Json,
            "arrow" => Format::Arrow,
            "parquet" => Format::Parquet,
            _ => return Err(Error::new(format!("'{text}' is no format: table, csv, json, arrow, parquet"))),
        })
    }
}

/// Writes the batches of one answer.
pub enum Writer<'a, W: Write + Send> {
    Table { schema: SchemaRef, rows: Vec<Vec<String>>, out: &'a mut W },
    Csv(Box<csv::Writer<&'a mut W>>),
    Json { schema: SchemaRef, any: bool, out: &'a mut W },
    Arrow(Box<arrow_ipc::writer::StreamWriter<&'a mut W>>),
    Parquet(Box<ParquetFile<&'a mut W>>),
}

impl<'a, W: Write + Send> Writer<'a, W> {
    /// # Errors
    /// When `out` cannot be written to.
    pub fn new(format: Format, schema: SchemaRef, out: &'a mut W) -> Result<Writer<'a, W>> {
        Ok(match format {
            Format::Table => Writer::Table { schema, rows: Vec::new(), out },
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(schema.fields().iter().map(|field| field.name())).map_err(csv_error)?;
                Writer::Csv(Box::new(writer))
            }
            Format::Json => {
                out.write_all(b"[")?;
                Writer::Json { schema, any: false, out }
            }
            Format::Arrow => Writer::Arrow(Box::new(arrow_ipc::writer::StreamWriter::try_new(out, &schema)?)),
            Format::Parquet => Writer::Parquet(Box::new(ParquetFile::new(&schema, out)?)),
        })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let cells = |row: usize| batch.columns().iter().map(move |column| json::text(column, row));
        match self {
            Writer::Table { rows, .. } => {
                rows.extend((0..batch.num_rows()).map(|row| hexadecimal::cells(batch, row).collect()));
            }
            Writer::Csv(writer) => {
                for row in 0..batch.num_rows() {
                    writer.write_record(cells(row)).map_err(csv_error)?;
                }
            }
            Writer::Json { schema, any, out } => {
                for row in 0..batch.num_rows() {
                    out.write_all(if *any { b",\n {" } else { b"\n {" })?;
                    *any = true;
                    for (place, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
                        let comma = if place > 0 { ", " } else { "" };
                        let name = serde_json::Value::from(field.name().as_str());
                        write!(out, "{comma}{name}: {}", json::cell(column, row))?;
                    }
                    out.write_all(b"}")?;
                }
            }
            Writer::Arrow(writer) => writer.write(batch)?,
            Writer::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Writer::Table { schema, rows, out } => write_table(&schema, &rows, out)?,
            Writer::Csv(mut writer) => writer.flush()?,
            Writer::Json { any, out, .. } => {
                out.write_all(if any { b"\n]\n" } else { b"]\n" })?;
                out.flush()?;
            }
            Writer::Arrow(mut writer) => {
                writer.finish()?;
                writer.get_mut().flush()?;
            }
            Writer::Parquet(writer) => writer.finish()?,
        }
        Ok(())
    }
}

fn csv_error(error: csv::Error) -> Error {
    Error::new(error.to_string())
}

/// Numbers to the right, all else to the left.
fn write_table(schema: &SchemaRef, rows: &[Vec<String>], out: &mut impl Write) -> std::io::Result<()> {
    let fields = schema.fields();
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = fields.iter().map(|field| width(field.name())).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for ((cell, widest), field) in cells.zip(&widths).zip(fields) {
            let pad = " ".repeat(widest - width(cell));
            let (before, after) = if field.data_type().is_numeric() { (pad.as_str(), "") } else { ("", pad.as_str()) };
            text += &format!("{before}{cell}{after}  ");
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(&mut fields.iter().map(|field| field.name().as_str()))?;
    for row in rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    let count = rows.len();
    writeln!(out, "({count} {})", if count == 1 { "row" } else { "rows" })?;
    out.flush()
}
