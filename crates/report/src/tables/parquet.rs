//! A table as Parquet, compressed with Snappy: all columns optional, texts as UTF-8. The file's metadata has the description of the table
//! under the key `gnomon`.

use super::{SCHEMA, Table, Values, package};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows that readers take at a time.
const ROWS_OF_GROUP: usize = 1 << 20;

/// Writes the file.
pub fn write(path: &Path, table: &Table) -> io::Result<()> {
    let file = File::create(path)?;
    write_to(file, table).map_err(io::Error::other)
}

fn write_to(file: File, table: &Table) -> Result<()> {
    let fields: Result<Vec<TypePtr>> = table.columns.iter().map(|column| field(column.name, &column.values)).collect();
    let schema = Type::group_type_builder(table.name).with_fields(fields?).build()?;
    let about = package::of_table(table).to_string();
    let metadata = [("gnomon-schema", SCHEMA.to_owned()), ("gnomon", about)];
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("Gnomon ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(
            metadata.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect(),
        ))
        .build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    for start in (0..table.rows()).step_by(ROWS_OF_GROUP) {
        let rows = start..table.rows().min(start + ROWS_OF_GROUP);
        let mut group = writer.next_row_group()?;
        for column in &table.columns {
            let Some(mut to) = group.next_column()? else { break };
            match &column.values {
                Values::Text(values) => {
                    put::<ByteArrayType, _>(&mut to, &values[rows.clone()], |text| ByteArray::from(&**text))?;
                }
                Values::Integer(values) => put::<Int64Type, _>(&mut to, &values[rows.clone()], |number| *number)?,
                Values::Number(values) => put::<DoubleType, _>(&mut to, &values[rows.clone()], |number| *number)?,
                Values::Truth(values) => put::<BoolType, _>(&mut to, &values[rows.clone()], |truth| *truth)?,
            }
            to.close()?;
        }
        group.close()?;
    }
    writer.close().map(|_| ())
}

fn field(name: &str, values: &Values) -> Result<TypePtr> {
    let (physical, logical) = match values {
        Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Values::Integer(_) => (Physical::INT64, None),
        Values::Number(_) => (Physical::DOUBLE, None),
        Values::Truth(_) => (Physical::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    builder.with_logical_type(logical).build().map(Arc::new)
}

/// Writes the values that there are, and of each whether it is there.
fn put<D: DataType, V>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    form: impl Fn(&V) -> D::T,
) -> Result<()> {
    let there: Vec<D::T> = values.iter().flatten().map(form).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    writer.typed::<D>().write_batch(&there, Some(&levels), None).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn what_is_written_is_read_again() {
        let column = |name, values| Column { name, about: "", values };
        let table = Table {
            name: "things",
            about: "",
            columns: vec![
                column("name", Values::Text(vec![Some("ä".into()), None, Some("".into())])),
                column("count", Values::Integer(vec![None, Some(-1), Some(i64::MAX)])),
                column("size", Values::Number(vec![Some(0.1), Some(f64::MIN_POSITIVE), None])),
                column("is", Values::Truth(vec![Some(true), None, Some(false)])),
            ],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("things.parquet");
        write(&path, &table).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(rows[0], [text("ä"), Field::Null, Field::Double(0.1), Field::Bool(true)]);
        assert_eq!(rows[1], [Field::Null, Field::Long(-1), Field::Double(f64::MIN_POSITIVE), Field::Null]);
        assert_eq!(rows[2], [text(""), Field::Long(i64::MAX), Field::Null, Field::Bool(false)]);
        let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(metadata.iter().any(|pair| pair.key == "gnomon-schema" && pair.value.as_deref() == Some(SCHEMA)));
    }
}
