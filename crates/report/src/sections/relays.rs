//! How busy relays were: what they sent over what they could have sent.

use super::throughput::of_run;
use super::{Context, Section, join, public};
use crate::chart::{Along, Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Mark, Plot, Unit};
use crate::maths::Sample;
use crate::public::Quantity;
use crate::run::{Role, Run};

/// More relays than this are shown as a distribution.
const MOST_BARS: usize = 40;

/// Of a relay's uplink, as shares of 1.
pub struct Utilisation<'a> {
    pub host: &'a str,
    pub mean: f64,
    /// Of the intervals within the window.
    pub p95: f64,
}

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "relays", title: "Relay utilisation", ..Section::default() };
    section.missing.extend(context.missing("host-traffic.csv", |run| run.traffic.is_none()));
    let lacks = |run: &Run| run.traffic.is_some() && utilisations(context, run).is_empty();
    section.missing.extend(
        context.missing("relays with a configured bandwidth (tor-network.json or processed-config.yaml)", lacks),
    );
    let by_run: Vec<(&Run, Vec<Utilisation>)> = context.runs().map(|run| (run, utilisations(context, run))).collect();
    if by_run.iter().all(|(_, utilisations)| utilisations.is_empty()) {
        return section;
    }
    let most = by_run.iter().map(|(_, utilisations)| utilisations.len()).max().unwrap_or(0);
    if by_run.len() == 1 && most <= MOST_BARS {
        section.figures.push(bars(context, by_run[0].0, &by_run[0].1));
    } else {
        section.figures.push(distribution(context));
    }
    section
}

/// Of the relays whose uplink is known, the busiest first.
pub fn utilisations<'a>(context: &Context, run: &'a Run) -> Vec<Utilisation<'a>> {
    let Some(traffic) = &run.traffic else { return Vec::new() };
    let window = context.window(run);
    let span = window.end - window.start;
    let mut found = Vec::new();
    for host in run.hosts.iter().filter(|host| run.role(host).is_relay()) {
        let Some(capacity) = run.bandwidths(host).and_then(|bandwidths| bandwidths.up).filter(|up| *up > 0.0) else {
            continue;
        };
        // A relay without a row sent nothing.
        let bins = traffic.sent.get(host);
        if span > 0.0 {
            let sent = bins.map_or(0.0, |bins| bins.between(window.start, window.end));
            let rates = bins.map_or_else(Vec::new, |bins| bins.rates(run.end_s()));
            let inside = rates.into_iter().filter(|(at, _)| window.contains(at));
            let p95 = Sample::new(inside.map(|(_, rate)| rate * 8.0 / capacity).collect()).quantile(0.95);
            found.push(Utilisation { host, mean: sent * 8.0 / span / capacity, p95: p95.unwrap_or(0.0) });
        }
    }
    found.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.host.cmp(b.host)));
    found
}

fn bars(context: &Context, run: &Run, utilisations: &[Utilisation]) -> Figure {
    let (suffix, of_run) = of_run(context, run);
    let categories =
        utilisations.iter().map(|relay| format!("{} ({})", run.display_name(relay.host), run.role(relay.host).name()));
    let bar = |relay: &Utilisation| Bar { value: Some(relay.mean), interval: None, mark: Some(relay.p95) };
    Figure {
        id: format!("relay-utilisation{suffix}"),
        title: format!("Relay utilisation{of_run}"),
        subtitle: "sent over configured uplink, mean of the time that figures are about".into(),
        caption: "The mark is the 95th percentile over the intervals of host-traffic.csv (merged to at most 1024)."
            .into(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Uplink in use", "utilisation", Unit::Share).from(0.0),
            category_column: "relay",
            categories: categories.collect(),
            series: vec![BarSeries {
                name: run.label.clone(),
                ink: Ink::solid(0),
                bars: utilisations.iter().map(bar).collect(),
            }],
            is_stacked: false,
            mark: Some(Mark { name: "95th percentile".into(), column: "utilisation_p95" }),
            reference: public::reference(context, Quantity::Utilisation, false),
        }),
    }
}

fn distribution(context: &Context) -> Figure {
    let sample = |run: &Run| Sample::new(utilisations(context, run).iter().map(|relay| relay.mean).collect());
    let lines = context.subjects.iter();
    let series = lines.filter_map(|subject| subject.distribution(subject.title(), Ink::solid(subject.colour), sample));
    Figure {
        id: "relay-utilisation".into(),
        title: "Relay utilisation".into(),
        subtitle: join(&[
            "sent over configured uplink, mean of the time that figures are about",
            context.interval_note(),
        ]),
        caption: String::new(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Uplink in use", "utilisation", Unit::Share).from(0.0),
            y: Axis::new("Share of relays", "fraction", Unit::Fraction).from(0.0).to(1.0),
            series: series.collect(),
            interval: Along::X,
            names_at_ends: false,
            moments: Vec::new(),
            reference: public::reference(context, Quantity::Utilisation, false),
        }),
    }
}

/// The mean of a relay's utilisation.
pub fn utilisation_of(context: &Context, run: &Run, host: &str) -> Option<f64> {
    utilisations(context, run).iter().find(|relay| relay.host == host).map(|relay| relay.mean)
}

/// What relays sent over what they could have sent, all together: without authorities and bridges, which carry little of what clients
/// fetch.
pub fn capacity_in_use(context: &Context, run: &Run) -> Option<f64> {
    let carries = |host: &str| matches!(run.role(host), Role::Guard | Role::GuardExit | Role::Exit | Role::Middle);
    let capacity = |host: &str| run.bandwidths(host).and_then(|bandwidths| bandwidths.up).unwrap_or(0.0);
    let (mut sent, mut all) = (0.0, 0.0);
    for relay in utilisations(context, run).iter().filter(|relay| carries(relay.host)) {
        sent += relay.mean * capacity(relay.host);
        all += capacity(relay.host);
    }
    (all > 0.0).then(|| sent / all)
}

/// The mean over relays of their utilisation, for the summary.
pub fn mean_utilisation(context: &Context, run: &Run) -> Option<f64> {
    Sample::new(utilisations(context, run).iter().map(|relay| relay.mean).collect()).mean()
}
