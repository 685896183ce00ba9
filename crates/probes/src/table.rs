//! What a table of the record is: its columns with their kinds, and how its rows give their cells.

use std::net::{IpAddr, Ipv4Addr};

/// What a column holds. Numbers have 64 bits without a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The number of a packet: 22 bits of the host that made it, 40 of its count there; 0 is none.
    Packet,
    /// The number of a row of `writes`, `reads`, `wakes` or `marks`, made like a packet's; 0 is none.
    Row,
    /// A stream of bytes in one direction, or of datagrams between two endpoints: a hash that both ends know.
    Stream,
    /// A host's place in the experiment, from 0.
    Host,
    /// Simulated time, in nanoseconds since the start of the run.
    Time,
    /// Simulated time between two moments, in nanoseconds.
    Duration,
    /// Processor time of the machine, in nanoseconds: it differs from run to run.
    MachineTime,
    Bytes,
    Count,
    /// A place in a stream, in bytes from its start; of datagrams, the number of the whole packet.
    Offset,
    /// A number with a meaning of its own, which the column's text gives.
    Plain,
    /// An address in a guest's memory.
    Memory,
    /// One of these words, of which a row holds the place.
    Choice(&'static [&'static str]),
    /// An IP address, written as text.
    Ip,
    Text,
}

impl Kind {
    /// The unit that the reference names; empty where there is none.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Time | Kind::Duration | Kind::MachineTime => "ns",
            Kind::Bytes | Kind::Offset => "bytes",
            _ => "",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub text: &'static str,
}

/// A table of the record, which is also the probe that fires for each of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    /// The layer that tells it.
    pub layer: &'static str,
    pub text: &'static str,
    pub columns: &'static [Column],
    /// The leading columns by which rows are sorted; together they name a row.
    pub key: usize,
    /// The columns that the static probe has as its arguments: twelve at most.
    pub arguments: &'static [&'static str],
}

/// Takes the cells of a row, one by one, with the place of their column.
pub trait Cells {
    fn number(&mut self, column: usize, value: u64);
    fn address(&mut self, column: usize, value: IpAddr);
    fn text(&mut self, column: usize, value: &str);
}

/// Gives the cells of a row back, by the place of their column.
pub trait Given {
    fn number(&self, column: usize) -> u64;
    fn text(&self, column: usize) -> &str;
}

/// What can stand in a cell.
pub trait Cell {
    fn put(&self, column: usize, cells: &mut impl Cells);

    /// What stands there.
    fn of(given: &impl Given, column: usize) -> Self;
}

impl Cell for u64 {
    #[inline]
    fn put(&self, column: usize, cells: &mut impl Cells) {
        cells.number(column, *self);
    }

    fn of(given: &impl Given, column: usize) -> u64 {
        given.number(column)
    }
}

impl Cell for IpAddr {
    fn put(&self, column: usize, cells: &mut impl Cells) {
        cells.address(column, *self);
    }

    /// Text that is no address counts as the one that nobody has.
    fn of(given: &impl Given, column: usize) -> IpAddr {
        given.text(column).parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl Cell for String {
    fn put(&self, column: usize, cells: &mut impl Cells) {
        cells.text(column, self);
    }

    fn of(given: &impl Given, column: usize) -> String {
        given.text(column).to_owned()
    }
}

/// A row of a table.
pub trait Row: Clone + Send + 'static {
    const TABLE: Table;

    /// By what rows are sorted: the cells of the key's columns.
    fn key(&self) -> [u64; 2];

    /// Gives all cells, in order.
    fn cells(&self, cells: &mut impl Cells);

    /// The row that has these cells.
    fn of(given: &impl Given) -> Self;

    /// Fires the static probe, for a tracer of the machine (bpftrace, perf) if one listens.
    fn fire(&self);
}

/// Adds a row, and fires its probe.
#[inline]
pub(crate) fn tell<R: Row>(rows: &mut Vec<R>, row: R) {
    row.fire();
    rows.push(row);
}

/// Declares a table and its row.
macro_rules! table {
    ($(#[doc = $text:literal])+ $row:ident = $name:ident ($($argument:ident),*), layer $layer:literal, key ($first:ident $(, $second:ident)?)
        { $($column:ident: $ty:ty = $kind:expr, $about:literal;)+ }) => {
        $(#[doc = $text])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $row { $(#[doc = $about] pub $column: $ty,)+ }

        impl $crate::table::Row for $row {
            const TABLE: $crate::table::Table = $crate::table::Table {
                name: stringify!($name),
                layer: $layer,
                text: concat!($($text,)+),
                columns: &[$($crate::table::Column { name: stringify!($column), kind: $kind, text: $about },)+],
                key: [stringify!($first) $(, stringify!($second))?].len(),
                arguments: &[$(stringify!($argument)),*],
            };

            #[inline]
            fn key(&self) -> [u64; 2] {
                [self.$first, 0 $(+ self.$second)?]
            }

            #[inline]
            fn cells(&self, cells: &mut impl $crate::table::Cells) {
                let mut at = 0;
                $($crate::table::Cell::put(&self.$column, at, cells); at += 1;)+
                let _ = at;
            }

            fn of(given: &impl $crate::table::Given) -> $row {
                let mut at = 0..;
                $row { $($column: $crate::table::Cell::of(given, at.next().unwrap_or_default()),)+ }
            }

            #[inline]
            fn fire(&self) {
                probe::probe_lazy!(gnomon, $name $(, self.$argument)*);
            }
        }
    };
}

pub(crate) use table;
