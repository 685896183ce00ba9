//! What `gnomon-traffic` wrote: its transfers, counted by behaviour and size.

use super::LONGEST_LINE;
use super::{TransferStatus, median};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

#[derive(Debug, Default)]
pub(super) struct Transfers(BTreeMap<(String, Option<u64>), Kind>);

#[derive(Debug, Default)]
struct Kind {
    first_byte_s: Vec<f64>,
    last_byte_s: Vec<f64>,
    errors: BTreeMap<String, usize>,
}

/// A line of kind "transfer", as far as it is needed here.
#[derive(Deserialize)]
struct Line {
    kind: String,
    behaviour: Option<String>,
    bytes: Option<u64>,
    first_byte: Option<f64>,
    last_byte: Option<f64>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    stage: String,
    reason: String,
}

impl Transfers {
    /// Reads an output to its end. Lines that are no transfers, or not complete yet, are left out. `way` stands for the behaviour
    /// where it is given.
    pub(super) fn read(&mut self, mut output: impl BufRead, way: Option<&str>) -> std::io::Result<()> {
        let mut line = Vec::new();
        while (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
            // Cheaper than to read what a long output consists of otherwise.
            if line.starts_with(b"{\"kind\":\"transfer\"")
                && let Ok(transfer) = serde_json::from_slice::<Line>(&line)
            {
                self.count(transfer, way);
            }
            line.clear();
        }
        Ok(())
    }

    fn count(&mut self, transfer: Line, way: Option<&str>) {
        let (Some(behaviour), "transfer") = (transfer.behaviour, transfer.kind.as_str()) else { return };
        // The sizes of streams of Markov models are all different.
        let bytes = transfer.bytes.filter(|_| behaviour != "markov");
        let behaviour = way.map_or(behaviour, str::to_owned);
        let kind = self.0.entry((behaviour, bytes)).or_default();
        match transfer.error {
            Some(error) => *kind.errors.entry(format!("{}: {}", error.stage, error.reason)).or_default() += 1,
            None => {
                kind.first_byte_s.extend(transfer.first_byte);
                // One without a last byte is counted as done nevertheless.
                kind.last_byte_s.push(transfer.last_byte.unwrap_or(f64::NAN));
            }
        }
    }

    pub(super) fn status(self) -> Vec<TransferStatus> {
        let status = |((behaviour, bytes), mut kind): ((String, Option<u64>), Kind)| {
            let done = kind.last_byte_s.len();
            kind.last_byte_s.retain(|time| !time.is_nan());
            TransferStatus {
                behaviour,
                bytes,
                done,
                failed: kind.errors.values().sum(),
                first_byte_s: median(&mut kind.first_byte_s),
                last_byte_s: median(&mut kind.last_byte_s),
                errors: kind.errors,
            }
        };
        self.0.into_iter().map(status).collect()
    }
}
