//! A Parquet file of a table, read: which row groups there are, what they can have, and their rows column by column.

use super::{Column, Columns};
use crate::error::{Error, Result};
use parquet::basic::Type as Physical;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use probes::{Kind, Table};
use std::fs;
use std::path::{Path, PathBuf};

/// A file whose footer has been read.
pub struct Source {
    reader: SerializedFileReader<fs::File>,
    table: &'static Table,
    path: PathBuf,
}

impl Source {
    /// # Errors
    /// When it cannot be read, or has other columns than the table.
    pub fn open(path: &Path, table: &'static Table) -> Result<Source> {
        let file = fs::File::open(path).map_err(|cause| Error::io("open", path, &cause))?;
        let reader = SerializedFileReader::new(file).map_err(|cause| Error::parquet("read", path, &cause))?;
        let found = reader.metadata().file_metadata().schema_descr();
        let matches = |about: &probes::Column, place: usize| {
            let column = found.column(place);
            let is_word = matches!(about.kind, Kind::Ip | Kind::Text | Kind::Choice(_));
            column.name() == about.name && (column.physical_type() == Physical::BYTE_ARRAY) == is_word
        };
        let is_it = found.num_columns() == table.columns.len()
            && table.columns.iter().enumerate().all(|(place, about)| matches(about, place));
        if !is_it {
            let cause =
                format!("it has other columns than table '{}' of this Gnomon, and was written by another", table.name);
            return Err(Error::new("read", path, cause));
        }
        Ok(Source { reader, table, path: path.to_path_buf() })
    }

    fn failed(&self, cause: &ParquetError) -> Error {
        Error::parquet("read", &self.path, cause)
    }

    /// How many row groups there are.
    pub fn groups(&self) -> usize {
        self.reader.metadata().num_row_groups()
    }

    pub fn rows(&self, group: usize) -> usize {
        self.reader.metadata().row_group(group).num_rows() as usize
    }

    /// The smallest and the largest number that a column of numbers has in a row group.
    pub fn bounds(&self, group: usize, column: usize) -> (u64, u64) {
        match self.reader.metadata().row_group(group).column(column).statistics() {
            Some(Statistics::Int64(bounds)) => {
                let of = |bound: Option<&i64>, or: u64| bound.map_or(or, |bound| *bound as u64);
                (of(bounds.min_opt(), 0), of(bounds.max_opt(), u64::MAX))
            }
            _ => (0, u64::MAX),
        }
    }

    /// Readers of some columns of a row group, from its first row on.
    pub fn columns(&self, group: usize, columns: &[usize]) -> Result<Vec<Reader>> {
        let group = self.reader.get_row_group(group).map_err(|cause| self.failed(&cause))?;
        let open = |&column: &usize| {
            let reader = group.get_column_reader(column).map_err(|cause| self.failed(&cause))?;
            Ok(Reader::new(reader, self.table.columns[column].kind))
        };
        columns.iter().map(open).collect()
    }

    /// Up to `count` further rows of a row group's readers, in place of what `columns` have.
    pub fn read(&self, readers: &mut [Reader], columns: &mut Columns, count: usize) -> Result<()> {
        columns.clear();
        for (reader, column) in readers.iter_mut().zip(&mut columns.columns) {
            reader.read(count, column).map_err(|cause| self.failed(&cause))?;
        }
        Ok(())
    }
}

/// A column of a row group on its way in.
pub struct Reader {
    reader: ColumnReader,
    kind: Kind,
    numbers: Vec<i64>,
    words: Vec<ByteArray>,
}

impl Reader {
    fn new(reader: ColumnReader, kind: Kind) -> Reader {
        Reader { reader, kind, numbers: Vec::new(), words: Vec::new() }
    }

    fn read(&mut self, count: usize, column: &mut Column) -> std::result::Result<(), ParquetError> {
        match (&mut self.reader, column) {
            (ColumnReader::Int64ColumnReader(reader), Column::Numbers(numbers)) => {
                self.numbers.clear();
                reader.read_records(count, None, None, &mut self.numbers)?;
                numbers.extend(self.numbers.iter().map(|number| *number as u64));
            }
            (ColumnReader::ByteArrayColumnReader(reader), column) => {
                self.words.clear();
                reader.read_records(count, None, None, &mut self.words)?;
                match (column, self.kind) {
                    (Column::Numbers(numbers), Kind::Choice(words)) => {
                        // A word that a later Gnomon may write counts as none of them.
                        let place = |word: &ByteArray| words.iter().position(|other| other.as_bytes() == word.data());
                        numbers.extend(self.words.iter().map(|word| place(word).unwrap_or(words.len()) as u64));
                    }
                    (Column::Words(words), _) => {
                        words.extend(self.words.iter().map(|word| String::from_utf8_lossy(word.data()).into_owned()));
                    }
                    _ => {}
                }
            }
            _ => return Err(ParquetError::General("a column is not of the kind that its table says".to_owned())),
        }
        Ok(())
    }
}

/// The rows of a file, some at a time.
pub struct Cursor {
    source: Source,
    group: usize,
    left: usize,
    readers: Vec<Reader>,
    /// The rows that it is at.
    pub rows: Columns,
}

impl Cursor {
    pub fn new(source: Source) -> Cursor {
        let rows = Columns::new(source.table);
        Cursor { source, group: 0, left: 0, readers: Vec::new(), rows }
    }

    /// Goes on to the next rows, at most `count`; how many there are, 0 behind the last.
    pub fn next(&mut self, count: usize) -> Result<usize> {
        if self.left == 0 {
            if self.group == self.source.groups() {
                return Ok(0);
            }
            let all: Vec<usize> = (0..self.source.table.columns.len()).collect();
            self.readers = self.source.columns(self.group, &all)?;
            self.left = self.source.rows(self.group);
            self.group += 1;
        }
        let count = count.min(self.left);
        self.source.read(&mut self.readers, &mut self.rows, count)?;
        self.left -= count;
        Ok(count)
    }
}
