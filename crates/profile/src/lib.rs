//! Profiles of runs: where processor time goes, by host, process, function, group and phase.
//!
//! Two halves. While a run goes on, [`Recorder`] takes samples of its workers, keeps each stack once and writes what a data directory has in
//! `profile/` (`record`, `columns`). Afterwards [`Profile`] reads that (`read`), `rules` says which functions belong together, which hosts have which
//! role and what the phases of a run are, `tables` sums up, `summary` is a run in a few numbers, `flame` draws, `page` puts it on a page, `export` writes it for other programs.
//!
//! Knows nothing of how guests are executed, how stacks are followed or how addresses get names: whoever records gives it frames, and names for
//! them at the end.

mod columns;
pub mod costs;
pub mod export;
mod flame;
mod page;
mod read;
mod record;
pub mod rules;
mod summary;
mod tables;
mod yaml;

pub use report::{Error, Result};

pub use page::{Request, Written, write};
pub use read::{Function, FunctionId, Kind, Printed, Profile, Row};
pub use record::{
    About, Collector, Frame, Name, Namer, OutputMark, Place, Recorder, Sample, Stack, Steps, Times, Unit,
};
pub use rules::Rules;
pub use summary::{CallTime, GroupTime, Summary, summary};
pub use tables::Part;

/// The folder in a data directory.
pub const FOLDER: &str = "profile";
