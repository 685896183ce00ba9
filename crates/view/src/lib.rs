//! What `gnomon-view` does: answers SQL about a run's provenance, and shows it in a browser.
//!
//! A program of its own, beside `gnomon`: it links with DuckDB, whose library is larger than the simulator. It reads one run's folder
//! `provenance`, whose tables [`probes::tables::TABLES`] declares, and writes nothing but the one file that it was asked for.

mod brush;
mod columns;
pub mod confine;
mod error;
mod formats;
mod hexadecimal;
mod json;
mod leak;
mod memory;
pub mod output;
mod packet;
pub mod page;
mod parquet_file;
mod picture;
pub mod query;
pub mod record;
mod reply;
pub mod server;
mod totals;

pub use error::{Error, Result};
pub use formats::Format;
pub use record::Record;
