//! Tables of a record, as tests look at them.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A table as rows of numbers; choices by their words.
pub struct Table {
    pub rows: Vec<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(u64),
    Word(String),
}

pub type Row = BTreeMap<String, Value>;

pub fn number(row: &Row, column: &str) -> u64 {
    match row.get(column) {
        Some(Value::Number(number)) => *number,
        other => panic!("{column}: {other:?}"),
    }
}

pub fn word<'a>(row: &'a Row, column: &str) -> &'a str {
    match row.get(column) {
        Some(Value::Word(word)) => word,
        other => panic!("{column}: {other:?}"),
    }
}

impl Table {
    pub fn read(data: &Path, name: &str) -> Table {
        let mut files: Vec<PathBuf> =
            fs::read_dir(data.join("provenance").join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut rows = Vec::new();
        for file in files {
            let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                let cells = row.unwrap().into_columns().into_iter().map(|(name, field)| {
                    let value = match field {
                        Field::ULong(number) => Value::Number(number),
                        Field::Str(word) => Value::Word(word),
                        other => panic!("{name}: {other:?}"),
                    };
                    (name, value)
                });
                rows.push(cells.collect());
            }
        }
        Table { rows }
    }

    pub fn by(&self, column: &str) -> BTreeMap<u64, &Row> {
        let all: BTreeMap<u64, &Row> = self.rows.iter().map(|row| (number(row, column), row)).collect();
        assert_eq!(all.len(), self.rows.len(), "{column} names rows");
        all
    }

    /// Rows by stream, in the order of their offsets.
    pub fn by_stream(&self) -> BTreeMap<u64, Vec<&Row>> {
        let mut all: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        self.rows.iter().for_each(|row| all.entry(number(row, "stream")).or_default().push(row));
        all.values_mut().for_each(|rows| rows.sort_by_key(|row| number(row, "offset")));
        all
    }
}
