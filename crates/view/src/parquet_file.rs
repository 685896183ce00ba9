//! Answers as Parquet: numbers, truth values and text; what is neither becomes text.

use crate::error::{Error, Result};
use crate::json;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type as StoredInt};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Rows of one group.
const GROUP: usize = 131_072;

/// How a column is stored.
#[derive(Clone, Copy)]
enum Stored {
    Signed,
    Unsigned,
    Double,
    Bool,
    Text,
}

/// A file on its way.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Stored>,
    waiting: Vec<RecordBatch>,
    rows: usize,
}

impl<W: Write + Send> ParquetFile<W> {
    pub fn new(schema: &SchemaRef, out: W) -> Result<ParquetFile<W>> {
        let columns: Vec<Stored> = schema.fields().iter().map(|field| stored(field.data_type())).collect();
        let fields = schema.fields().iter().zip(&columns).map(|(field, column)| {
            let (physical, converted) = match column {
                Stored::Signed => (Physical::INT64, ConvertedType::INT_64),
                Stored::Unsigned => (Physical::INT64, ConvertedType::UINT_64),
                Stored::Double => (Physical::DOUBLE, ConvertedType::NONE),
                Stored::Bool => (Physical::BOOLEAN, ConvertedType::NONE),
                Stored::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            };
            let builder = Type::primitive_type_builder(field.name(), physical);
            builder.with_repetition(Repetition::OPTIONAL).with_converted_type(converted).build().map(Arc::new)
        });
        let fields = fields.collect::<std::result::Result<Vec<_>, _>>().map_err(fail)?;
        let root = Arc::new(Type::group_type_builder("answer").with_fields(fields).build().map_err(fail)?);
        let properties = WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, root, Arc::new(properties)).map_err(fail)?;
        Ok(ParquetFile { writer, columns, waiting: Vec::new(), rows: 0 })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.waiting.push(batch.clone());
        self.rows += batch.num_rows();
        if self.rows >= GROUP { self.write_group() } else { Ok(()) }
    }

    pub fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.close().map_err(fail).map(|_| ())
    }

    fn write_group(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.waiting);
        self.rows = 0;
        let mut group: SerializedRowGroupWriter<'_, W> = self.writer.next_row_group().map_err(fail)?;
        for (place, stored) in self.columns.iter().enumerate() {
            let mut column = group.next_column().map_err(fail)?.expect("a column for each of the schema's");
            for batch in &batches {
                write_column(&mut column, *stored, batch.column(place))?;
            }
            column.close().map_err(fail)?;
        }
        group.close().map_err(fail).map(|_| ())
    }
}

fn stored(kind: &DataType) -> Stored {
    match kind {
        DataType::Boolean => Stored::Bool,
        kind if kind.is_unsigned_integer() => Stored::Unsigned,
        kind if kind.is_signed_integer() => Stored::Signed,
        // Sums of integers; beyond 2^53 the last digits are lost.
        kind if kind.is_floating() || matches!(kind, DataType::Decimal128(..)) => Stored::Double,
        _ => Stored::Text,
    }
}

fn write_column(column: &mut SerializedColumnWriter<'_>, stored: Stored, cells: &ArrayRef) -> Result<()> {
    let levels: Vec<i16> = (0..cells.len()).map(|row| i16::from(cells.is_valid(row))).collect();
    let rows = || (0..cells.len()).filter(|row| cells.is_valid(*row));
    let written = match stored {
        Stored::Bool => {
            let values: Vec<bool> = rows().map(|row| cells.as_boolean().value(row)).collect();
            column.typed::<BoolType>().write_batch(&values, Some(&levels), None)
        }
        Stored::Unsigned => {
            let cells = cast(cells, &DataType::UInt64)?;
            let values: Vec<i64> =
                rows().map(|row| cells.as_primitive::<UInt64Type>().value(row).cast_signed()).collect();
            column.typed::<StoredInt>().write_batch(&values, Some(&levels), None)
        }
        Stored::Signed => {
            let cells = cast(cells, &DataType::Int64)?;
            let values: Vec<i64> = rows().map(|row| cells.as_primitive::<Int64Type>().value(row)).collect();
            column.typed::<StoredInt>().write_batch(&values, Some(&levels), None)
        }
        Stored::Double => {
            let cells = cast(cells, &DataType::Float64)?;
            let values: Vec<f64> = rows().map(|row| cells.as_primitive::<Float64Type>().value(row)).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)
        }
        Stored::Text => {
            let values: Vec<ByteArray> =
                rows().map(|row| ByteArray::from(json::text(cells, row).into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)
        }
    };
    written.map_err(fail).map(|_| ())
}

fn fail(error: parquet::errors::ParquetError) -> Error {
    Error::new(error.to_string())
}
