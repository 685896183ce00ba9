//! What the layers of a simulated host tell of packets and bytes: the tables of a run's provenance, and one host's part of them.
//!
//! [`tables::TABLES`] is the one table of probes. The network stack and the simulated kernel fill rows of these tables; what becomes
//! of rows (files, histograms, questions) is another crate's.

pub mod choices;
pub mod identifier;
pub mod level;
pub mod rows;
mod table;
pub mod tables;
pub mod trace;

pub use identifier::Identifiers;
pub use level::Level;
pub use rows::Rows;
pub use table::{Cell, Cells, Column, Given, Kind, Row, Table};
pub use trace::Trace;

/// Whether this build records: without, packets have no numbers, and no layer tells anything.
pub const ENABLED: bool = cfg!(feature = "probes");
