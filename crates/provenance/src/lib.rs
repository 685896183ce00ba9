//! The record of a run's provenance: rows of hosts into sorted Parquet files, and answers out of them.
//!
//! While a run goes on, workers hand the rows of [`probes::Rows`] to a [`Store`], whose one thread sorts, encodes and writes them. What it writes
//! is the same for any number of workers, and is read by DuckDB, pandas and whatever else reads Parquet. [`generate`] makes rows without a run, for tests and
//! measurements of all that reads them.

mod columns;
mod error;
pub mod export;
mod filter;
pub mod generate;
mod identity;
pub mod read;
pub mod reference;
mod schema;
mod store;

pub use error::{Error, Result};
pub use filter::{Chosen, Filter};
pub use identity::{Prefix, RunId, host_of, number, uuid};
pub use read::Record;
pub use store::{Handle, Options, Store, Summary, TableSummary};

/// The folder of a run's data directory that the record lies in.
pub const FOLDER: &str = "provenance";
