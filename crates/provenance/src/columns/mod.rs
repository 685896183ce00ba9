//! Columns of numbers and words, and the Parquet files that they become.
//!
//! The pages are encoded here and the rest of a file is the `parquet` crate's: its encoders take several times as long per value, since
//! they know less of what they get.

mod delta;
mod dictionary;
mod file;
mod hybrid;
mod source;

pub use file::{File, GROUP_ROWS};
pub use source::{Cursor, Source};

use probes::{Cells, Kind, Row, Table};
use std::net::IpAddr;
use std::ops::Range;

/// The cells of one column, one for each row.
#[derive(Clone, Debug)]
pub enum Column {
    /// Numbers, and the places of words in a choice.
    Numbers(Vec<u64>),
    Words(Vec<String>),
}

/// Rows of a table, column by column.
#[derive(Clone, Debug)]
pub struct Columns {
    pub columns: Vec<Column>,
}

impl Columns {
    pub fn new(table: &Table) -> Columns {
        let column = |kind| match kind {
            Kind::Ip | Kind::Text => Column::Words(Vec::new()),
            _ => Column::Numbers(Vec::with_capacity(GROUP_ROWS)),
        };
        Columns { columns: table.columns.iter().map(|about| column(about.kind)).collect() }
    }

    /// Only some of a table's columns, in any order.
    pub fn some(table: &Table, places: &[usize]) -> Columns {
        let all = Columns::new(table);
        Columns { columns: places.iter().map(|place| all.columns[*place].clone()).collect() }
    }

    pub fn clear(&mut self) {
        for column in &mut self.columns {
            match column {
                Column::Numbers(numbers) => numbers.clear(),
                Column::Words(words) => words.clear(),
            }
        }
    }
}

impl Columns {
    /// Appends rows of another.
    pub fn extend(&mut self, other: &Columns, rows: Range<usize>) {
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            match (column, other) {
                (Column::Numbers(numbers), Column::Numbers(other)) => numbers.extend_from_slice(&other[rows.clone()]),
                (Column::Words(words), Column::Words(other)) => words.extend_from_slice(&other[rows.clone()]),
                _ => unreachable!("both are of one table"),
            }
        }
    }
}

/// Rows that are turned at once.
const TURNED: usize = 64;
/// Columns that a table of numbers has at most.
const MOST_COLUMNS: usize = 20;

/// Some rows on their way to columns: cell by cell into a block of rows, and from there column by column, which takes half the time of pushing each
/// cell to its column.
pub struct Turner {
    block: Box<[[u64; MOST_COLUMNS]; TURNED]>,
}

impl Default for Turner {
    fn default() -> Turner {
        Turner { block: Box::new([[0; MOST_COLUMNS]; TURNED]) }
    }
}

/// A row of the block.
struct Cut<'a>(&'a mut [u64; MOST_COLUMNS]);

impl Cells for Cut<'_> {
    #[inline]
    fn number(&mut self, column: usize, value: u64) {
        self.0[column] = value;
    }

    fn address(&mut self, _: usize, _: IpAddr) {}

    fn text(&mut self, _: usize, _: &str) {}
}

impl Turner {
    /// Appends rows to columns.
    pub fn turn<'a, R: Row>(&mut self, rows: impl Iterator<Item = &'a R>, columns: &mut Columns) {
        let has_words = columns.columns.iter().any(|column| matches!(column, Column::Words(_)));
        if has_words || columns.columns.len() > MOST_COLUMNS {
            rows.for_each(|row| row.cells(columns));
            return;
        }
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            let mut count = 0;
            // The block first: a row that finds no place in it would be lost.
            for (cut, row) in self.block.iter_mut().zip(rows.by_ref()) {
                row.cells(&mut Cut(cut));
                count += 1;
            }
            for (place, column) in columns.columns.iter_mut().enumerate() {
                if let Column::Numbers(numbers) = column {
                    numbers.extend(self.block[..count].iter().map(|cut| cut[place]));
                }
            }
        }
    }
}

impl Cells for Columns {
    #[inline]
    fn number(&mut self, column: usize, value: u64) {
        if let Column::Numbers(numbers) = &mut self.columns[column] {
            numbers.push(value);
        }
    }

    fn address(&mut self, column: usize, value: IpAddr) {
        if let Column::Words(words) = &mut self.columns[column] {
            words.push(value.to_string());
        }
    }

    fn text(&mut self, column: usize, value: &str) {
        if let Column::Words(words) = &mut self.columns[column] {
            words.push(value.to_owned());
        }
    }
}
