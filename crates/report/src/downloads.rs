//! What a run's clients fetched while figures count, for those who compare runs in their own way.

use crate::Result;
use crate::input;
use std::path::Path;

/// A download that began after the network had settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Download {
    /// What its client does: "web", "bulk", "performance".
    pub behaviour: String,
    /// As asked for.
    pub bytes: u64,
    pub start_s: f64,
    /// From the beginning; both are there if it succeeded.
    pub first_byte_s: Option<f64>,
    pub last_byte_s: Option<f64>,
    pub is_complete: bool,
}

/// Reads a data directory's downloads, in the order of hosts and time.
pub fn of_run(directory: &Path) -> Result<Vec<Download>> {
    let run = input::read(directory, "run")?;
    let from_s = run.network.as_ref().and_then(|network| network.measure_from_s.or(network.bootstrap_end_s));
    let counts = |start_s: f64| from_s.is_none_or(|from_s| start_s >= from_s);
    let transfers = run.transfers.iter().filter(|transfer| counts(transfer.start_s));
    Ok(transfers
        .map(|transfer| Download {
            behaviour: transfer.behaviour.to_string(),
            bytes: transfer.bytes,
            start_s: transfer.start_s,
            first_byte_s: transfer.first_byte_s,
            last_byte_s: transfer.last_byte_s,
            is_complete: transfer.verified && transfer.error.is_none(),
        })
        .collect())
}
