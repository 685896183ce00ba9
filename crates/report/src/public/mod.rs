//! What was measured of the public Tor network: quantiles of what reports show, from Tor Metrics' files or from the sample that is built in.
//!
//! Knows nothing of runs. Values are in base units (seconds, bits per second, shares of 1).

mod built_in;
mod metrics;
mod rows;

use crate::error::Result;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where values of the public network come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Quantiles of the year 2019.
    BuiltIn,
    /// A CSV file as Tor Metrics serves it.
    File(PathBuf),
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Time from the start of a download of so many bytes to its last one.
    Download(u64),
    /// Time from the request to the first byte of the response.
    RoundTrip,
    /// Time from a circuit's launch to its third hop.
    CircuitBuild,
    /// Rate of the second half of a download's first MiB.
    Goodput,
    /// Share of downloads that failed, timeouts among them; its quantiles are over days.
    Failures,
    /// Bandwidth in use over bandwidth that there is, all relays together; its quantiles are over days.
    Utilisation,
}

/// Quantiles of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// "public Tor, 2019".
    pub label: String,
    /// What it was made of: one sentence for the page.
    pub about: String,
    /// (share of observations, value that so many do not exceed), ascending; a quarter, the half and three quarters are always among them.
    pub quantiles: Vec<(f64, f64)>,
}

impl Distribution {
    /// First quartile, median, third quartile.
    pub fn quartiles(&self) -> [f64; 3] {
        QUARTILES.map(|wanted| {
            let found = self.quantiles.iter().find(|(share, _)| *share == wanted);
            found.expect("distributions have their quartiles").1
        })
    }
}

const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

/// All that is known of the public network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Public(BTreeMap<Quantity, Distribution>);

impl Public {
    /// Reads all sources. What a later one has replaces what an earlier one had.
    ///
    /// # Errors
    ///
    /// `Error::Input` with file, line and remedy for a file that is not of Tor Metrics' form.
    pub fn read(sources: &[Source]) -> Result<Public> {
        let mut all = BTreeMap::new();
        for source in sources {
            all.extend(match source {
                Source::BuiltIn => built_in::all(),
                Source::File(path) => metrics::read(path)?,
            });
        }
        Ok(Public(all))
    }

    pub fn get(&self, quantity: Quantity) -> Option<&Distribution> {
        self.0.get(&quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_source_replaces_what_an_earlier_one_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bandwidth.csv");
        std::fs::write(&path, "date,advbw,bwhist\n2026-10-01,1000,300\n").unwrap();
        let public = Public::read(&[Source::BuiltIn, Source::File(path)]).unwrap();
        assert_eq!(public.get(Quantity::Utilisation).unwrap().quartiles(), [0.3, 0.3, 0.3]);
        assert_eq!(public.get(Quantity::Utilisation).unwrap().label, "public Tor, 2026-10-01");
        assert_eq!(public.get(Quantity::RoundTrip).unwrap().label, "public Tor, 2019");
        assert_eq!(Public::read(&[]).unwrap(), Public::default());
    }
}
