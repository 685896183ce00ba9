//! What OnionPerf measures of each download besides its length: the round trip of its request, and the goodput once it is under way.

use super::{Context, join, public};
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, ScaleKind, Unit};
use crate::maths::Sample;
use crate::public::Quantity;
use crate::run::{Direction, Run, Transfer};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// From the request to the first byte of the response.
    RoundTrip,
    /// Between half a MiB and a whole one.
    Goodput,
}

pub const ALL: [Probe; 2] = [Probe::RoundTrip, Probe::Goodput];

impl Probe {
    pub fn title(self) -> &'static str {
        match self {
            Probe::RoundTrip => "Circuit round trip",
            Probe::Goodput => "Goodput of a download",
        }
    }

    pub fn quantity(self) -> Quantity {
        match self {
            Probe::RoundTrip => Quantity::RoundTrip,
            Probe::Goodput => Quantity::Goodput,
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Probe::RoundTrip => Unit::Seconds,
            Probe::Goodput => Unit::BitsPerSecond,
        }
    }

    fn of(self, transfer: &Transfer) -> Option<f64> {
        match self {
            Probe::RoundTrip => Some((transfer.first_byte_s? - transfer.request_s?).max(0.0)),
            Probe::Goodput => transfer.goodput_bits_per_s,
        }
    }
}

/// Of the finished downloads of measuring clients, of all sizes.
pub fn sample(context: &Context, run: &Run, probe: Probe) -> Sample {
    let values = context.transfers(run).filter(|transfer| is_meant(transfer)).filter_map(|one| probe.of(one));
    Sample::new(values.collect())
}

fn is_meant(transfer: &Transfer) -> bool {
    transfer.direction == Direction::Download && transfer.is_done() && public::is_like_onionperf(&transfer.behaviour)
}

/// None where no client measures.
pub fn figure(context: &Context, probe: Probe) -> Option<Figure> {
    let ink = |colour| Ink::solid(colour);
    let name = |title: String| if context.is_comparison() { title } else { behaviours(context).join(", ") };
    let series = context.subjects.iter().filter_map(|subject| {
        subject.distribution(name(subject.title()), ink(subject.colour), |run| sample(context, run, probe))
    });
    let series: Vec<_> = series.collect();
    if series.is_empty() {
        return None;
    }
    let count: usize = context.runs().map(|run| sample(context, run, probe).len()).sum();
    let (id, axis, caption) = match probe {
        Probe::RoundTrip => (
            "round-trip",
            super::transfers::time_axis("From request to first byte", "round_trip_s", &series),
            "From the request to the first byte of the response, in downloads of all sizes by measuring clients: Tor Metrics\u{2019} \u{201c}circuit round-trip \
             latencies\u{201d}.",
        ),
        Probe::Goodput => (
            "download-goodput",
            Axis::new("Goodput", "goodput_bit_per_s", Unit::BitsPerSecond).scaled(ScaleKind::Log),
            "Between half a MiB and a whole one, in downloads of 1 MiB and 5 MiB by measuring clients: Tor Metrics\u{2019} \u{201c}throughput\u{201d}.",
        ),
    };
    Some(Figure {
        id: id.into(),
        title: format!("{}, measuring clients", probe.title()),
        subtitle: join(&[&format!("{count} transfers"), context.interval_note()]),
        caption: caption.into(),
        chart: Chart::Plot(Plot {
            x: axis,
            y: Axis::new("Share of transfers", "fraction", Unit::Fraction).from(0.0).to(1.0),
            series,
            interval: Along::X,
            names_at_ends: false,
            moments: Vec::new(),
            reference: public::reference(context, probe.quantity(), true),
        }),
    })
}

fn behaviours(context: &Context) -> Vec<String> {
    let meant = context.runs().flat_map(|run| context.transfers(run)).filter(|transfer| is_meant(transfer));
    let names: BTreeSet<Arc<str>> = meant.map(|transfer| Arc::clone(&transfer.behaviour)).collect();
    names.iter().map(|name| name.to_string()).collect()
}
