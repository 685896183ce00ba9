//! Tables of integers and texts as Parquet files, compressed with Snappy, written a group of rows at a time.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Values of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

/// A file that grows by groups of rows. It is readable once it was [finished](TableWriter::finish).
pub(crate) struct TableWriter(SerializedFileWriter<File>);

impl TableWriter {
    /// `columns` says of each column its name, and whether it has texts.
    pub(crate) fn create(path: &Path, name: &str, columns: &[(&str, bool)]) -> io::Result<TableWriter> {
        let file = File::create(path)?;
        let fields: Result<Vec<TypePtr>> = columns.iter().map(|(name, is_text)| field(name, *is_text)).collect();
        let writer = fields.and_then(|fields| {
            let schema = Type::group_type_builder(name).with_fields(fields).build()?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_created_by(concat!("Gnomon ", env!("CARGO_PKG_VERSION")).to_owned())
                .build();
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
        });
        writer.map(TableWriter).map_err(io::Error::other)
    }

    /// Adds rows: as many values in each column.
    pub(crate) fn write(&mut self, columns: &[Values]) -> io::Result<()> {
        let mut write = || -> Result<()> {
            let mut group = self.0.next_row_group()?;
            for values in columns {
                let Some(mut column) = group.next_column()? else { break };
                match values {
                    Values::Integers(values) => _ = column.typed::<Int64Type>().write_batch(values, None, None)?,
                    Values::Texts(values) => {
                        let texts: Vec<ByteArray> = values.iter().map(|text| ByteArray::from(text.as_str())).collect();
                        column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                }
                column.close()?;
            }
            group.close().map(|_| ())
        };
        write().map_err(io::Error::other)
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.0.close().map(|_| ()).map_err(io::Error::other)
    }
}

/// Writes a whole table.
pub(crate) fn write_table(path: &Path, name: &str, columns: &[(&str, Values)]) -> io::Result<()> {
    let heads: Vec<(&str, bool)> =
        columns.iter().map(|(name, values)| (*name, matches!(values, Values::Texts(_)))).collect();
    let mut writer = TableWriter::create(path, name, &heads)?;
    let values: Vec<Values> = columns.iter().map(|(_, values)| values.clone()).collect();
    writer.write(&values)?;
    writer.finish()
}

fn field(name: &str, is_text: bool) -> Result<TypePtr> {
    let (physical, logical) =
        if is_text { (Physical::BYTE_ARRAY, Some(LogicalType::String)) } else { (Physical::INT64, None) };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    builder.with_logical_type(logical).build().map(Arc::new)
}

/// Reads the columns of these names, in their order.
pub(crate) fn read_table(path: &Path, names: &[&str]) -> io::Result<Vec<Values>> {
    let read = || -> Result<Vec<Values>> {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = Vec::new();
        for name in names {
            let index = schema.columns().iter().position(|column| column.name() == *name);
            let index = index.ok_or_else(|| parquet::errors::ParquetError::General(format!("no column '{name}'")))?;
            let mut values = match schema.column(index).physical_type() {
                Physical::INT64 => Values::Integers(Vec::new()),
                _ => Values::Texts(Vec::new()),
            };
            for group in 0..reader.num_row_groups() {
                let group = reader.get_row_group(group)?;
                let rows = group.metadata().num_rows() as usize;
                match (group.get_column_reader(index)?, &mut values) {
                    (ColumnReader::Int64ColumnReader(mut column), Values::Integers(into)) => {
                        column.read_records(rows, None, None, into)?;
                    }
                    (ColumnReader::ByteArrayColumnReader(mut column), Values::Texts(into)) => {
                        let mut texts = Vec::new();
                        column.read_records(rows, None, None, &mut texts)?;
                        into.extend(texts.iter().map(|text| String::from_utf8_lossy(text.data()).into_owned()));
                    }
                    _ => {}
                }
            }
            columns.push(values);
        }
        Ok(columns)
    };
    read().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_several_groups_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("things.parquet");
        let mut writer = TableWriter::create(&path, "things", &[("number", false), ("name", true)]).unwrap();
        let rows = |numbers: &[i64], names: &[&str]| {
            [Values::Integers(numbers.to_vec()), Values::Texts(names.iter().map(|name| (*name).to_owned()).collect())]
        };
        writer.write(&rows(&[1, -2], &["a", "ä"])).unwrap();
        writer.write(&rows(&[i64::MAX], &[""])).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_table(&path, &["number", "name"]).unwrap(), rows(&[1, -2, i64::MAX], &["a", "ä", ""]));
        assert!(read_table(&path, &["size"]).unwrap_err().to_string().contains("no column 'size'"));
    }
}
