//! The parts of a report. Each makes figures and tables from the subjects, and says what it would need where it has nothing.

mod balance;
mod bootstrap;
mod circuits;
pub mod differences;
mod errors;
mod probes;
pub mod public;
mod relays;
mod simulator;
mod statistics;
mod summary;
mod throughput;
mod transfers;
mod workers;

pub use relays::utilisations;
pub use summary::{Row, lines as summary_lines, rows as summary_rows};

use crate::chart::{Axis, Figure, ScaleKind};
use crate::maths::Sample;
use crate::public::Public;
use crate::run::{Run, Transfer};
use crate::subject::Subject;
use std::ops::Range;

/// What all sections need to know.
#[derive(Debug)]
pub struct Context<'a> {
    pub subjects: Vec<Subject<'a>>,
    pub since: Since,
    /// What was measured of the public network.
    pub public: Public,
    /// Simulated seconds, where the user chose other than the moment at which the network has settled and the end of the run.
    pub from_s: Option<f64>,
    pub until_s: Option<f64>,
}

/// From which moment times to first and last byte count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// When the client opened its connection: what a user waits.
    #[default]
    Start,
    /// When the client sent its request, as tgentools counts: without SOCKS and the opening of the stream.
    Request,
}

/// A part of the page.
#[derive(Debug, Default)]
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// Paragraphs before the figures.
    pub texts: Vec<String>,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
    /// What could not be shown, and what would be needed.
    pub missing: Vec<String>,
}

/// A table of a page.
#[derive(Clone, Debug)]
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    /// The first cell names the row.
    pub rows: Vec<Vec<String>>,
    /// The columns, from the left, that hold text.
    pub text_columns: usize,
}

/// All sections, in the order of the page.
pub fn all(context: &Context) -> Vec<Section> {
    let sections = vec![
        transfers::section(context),
        throughput::section(context),
        errors::section(context),
        circuits::section(context),
        relays::section(context),
        balance::section(context),
        bootstrap::section(context),
        simulator::section(context),
        workers::section(context),
    ];
    let first = [public::section(context), differences::section(context), statistics::section(context)];
    first.into_iter().flatten().chain(sections).collect()
}

impl<'a> Context<'a> {
    /// The span of a run that its distributions and means are about.
    pub fn window(&self, run: &Run) -> Range<f64> {
        let from = self.from_s.unwrap_or_else(|| run.measure_from_s());
        let until = self.until_s.unwrap_or(f64::INFINITY).min(run.end_s().max(from));
        from..until
    }

    /// Transfers that began within the window. The end of the run belongs to it.
    pub fn transfers<'r>(&self, run: &'r Run) -> impl Iterator<Item = &'r Transfer> + use<'r> {
        let window = self.window(run);
        let is_inside = move |transfer: &&Transfer| window.start <= transfer.start_s && transfer.start_s <= window.end;
        run.transfers.iter().filter(is_inside)
    }

    pub fn runs(&self) -> impl Iterator<Item = &'a Run> + use<'_, 'a> {
        self.subjects.iter().flat_map(|subject| subject.runs.iter().copied())
    }

    /// Whether any run is of a Tor network, rather than of other programs alone.
    pub fn has_relays(&self) -> bool {
        self.runs().any(|run| run.hosts.iter().any(|host| run.role(host).is_relay()))
    }

    pub fn has_groups(&self) -> bool {
        self.subjects.iter().any(Subject::is_group)
    }

    pub fn is_comparison(&self) -> bool {
        self.subjects.len() > 1
    }

    /// The labels of runs for which `lacks` holds.
    pub fn labels_of(&self, lacks: impl Fn(&Run) -> bool) -> Vec<&'a str> {
        self.runs().filter(|run| lacks(run)).map(|run| run.label.as_str()).collect()
    }

    /// A note that a thing is missing in some runs; nothing where all have it.
    pub fn missing(&self, thing: &str, lacks: impl Fn(&Run) -> bool) -> Option<String> {
        let labels = self.labels_of(lacks);
        match labels.len() {
            0 => None,
            some if some == self.runs().count() => Some(format!("No run has {thing}.")),
            _ => Some(format!("{thing}: missing in {}.", labels.join(", "))),
        }
    }

    /// The end of the longest run, where time axes end.
    pub fn end_s(&self) -> f64 {
        self.runs().map(Run::end_s).fold(0.0, f64::max)
    }

    /// When bootstrapping counts as over, where that is the same moment in all runs.
    pub fn bootstrap_moments(&self) -> Vec<(f64, &'static str)> {
        let Some(first) = self.runs().next().map(Run::bootstrap_end_s) else { return Vec::new() };
        let is_common = self.runs().all(|run| run.bootstrap_end_s() == first);
        (first > 0.0 && is_common).then_some((first, "bootstrapped")).into_iter().collect()
    }

    /// What figures over runs say in their subtitles.
    pub fn interval_note(&self) -> &'static str {
        if self.has_groups() { "bands: 95 % confidence over seeds" } else { "" }
    }
}

/// An axis from zero where the values are of one size, a logarithmic one where they are not.
fn fitting(axis: Axis, values: impl Iterator<Item = f64>) -> Axis {
    let sample = Sample::new(values.collect());
    let (low, high) = (sample.quantile(0.02).unwrap_or(0.0), sample.quantile(1.0).unwrap_or(1.0));
    if low > 0.0 && high / low > 12.0 { axis.scaled(ScaleKind::Log) } else { axis.from(0.0) }
}

/// Joins the parts that are not empty.
fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("; ")
}

/// "51200" becomes "50 KiB".
fn size_name(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit / 16)) {
        Some((unit, name)) => {
            let number = format!("{:.2}", bytes as f64 / *unit as f64);
            format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} B"),
    }
}

/// Letters, digits and hyphens of a name, for files' names.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "other".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_names() {
        let cases = [(51200, "50 KiB"), (1 << 20, "1 MiB"), (5 << 20, "5 MiB"), (327680, "320 KiB"), (1000, "1000 B")];
        for (bytes, name) in cases {
            assert_eq!(size_name(bytes), name);
        }
        assert_eq!(size_name(1536), "1.5 KiB");
        assert_eq!(size_name(0), "0 B");
    }

    #[test]
    fn names_become_parts_of_file_names() {
        assert_eq!(slug("Web (fast) / 3"), "web-fast-3");
        assert_eq!(slug("--"), "other");
    }
}
