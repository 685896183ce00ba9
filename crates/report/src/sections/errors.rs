//! What went wrong with transfers: where, why, and when.

use super::{Context, Section, Table, join, public};
use crate::bins::Bins;
use crate::chart::{Along, Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Plot, Point, Series, Unit};
use crate::public::Quantity;
use crate::run::{Role, Run, Transfer};
use crate::subject::Subject;
use std::collections::BTreeMap;

/// More kinds of errors than this are shown as one.
const MOST_KINDS: usize = 12;
const OTHER_KINDS: &str = "others";
/// Intervals of the figure over time: fewer than pixels, so that shares are of many transfers.
const MOST_INTERVALS: usize = 30;

/// A relay that ends first sends what it has, so that its clients learn of it seconds later.
const NEWS_S: f64 = 30.0;
/// For the end of those that end in order, a second for the clean-up is reckoned.
const EARLY_S: f64 = 1.0;

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "errors", title: "Errors", ..Section::default() };
    section.missing.extend(context.missing("output of gnomon-traffic or tgen", |run| run.generators == 0));
    let transfers: usize = context.runs().map(|run| context.transfers(run).count()).sum();
    if transfers == 0 {
        return section;
    }
    section.tables.extend(outages(context));
    let kinds = kinds(context);
    if kinds.is_empty() {
        section.texts.insert(0, format!("None of {transfers} transfers failed."));
        return section;
    }
    section.figures.push(by_kind(context, &kinds));
    section.figures.push(over_time(context));
    section.tables.push(table(context, &kinds));
    section
}

/// What was wrong with relays, by the experiment's own plan.
fn outages(context: &Context) -> Option<Table> {
    context.runs().find(|run| run.outages().next().is_some())?;
    let mut rows = Vec::new();
    for why in ["restart", "crash", "leave", "vanish"] {
        let count = |run: &Run| run.outages().filter(|(_, outage)| outage.why == why).count().to_string();
        rows.push([why.to_owned()].into_iter().chain(context.runs().map(count)).collect());
    }
    let away = |run: &Run| Unit::Share.show(away(context, run));
    rows.push(["relays\u{2019} time away".to_owned()].into_iter().chain(context.runs().map(away)).collect());
    let broken = |run: &Run| broken_by_outages(context, run);
    rows.push(
        [format!("failed transfers that ended within {NEWS_S} s of a relay")]
            .into_iter()
            .chain(context.runs().map(broken))
            .collect(),
    );
    let labels = context.runs().map(|run| run.label.clone());
    Some(Table {
        title: "Relays that went away".into(),
        header: ["Why".to_owned()].into_iter().chain(labels).collect(),
        rows,
        text_columns: 1,
    })
}

/// How many of the transfers that failed ended when a relay did, or when its clients had heard of it: "3 of 12".
fn broken_by_outages(context: &Context, run: &Run) -> String {
    let failed: Vec<&Transfer> = context.transfers(run).filter(|transfer| transfer.error.is_some()).collect();
    let is_of_outage = |transfer: &&&Transfer| {
        run.outages().any(|(_, outage)| (outage.ended_s - EARLY_S..outage.ended_s + NEWS_S).contains(&transfer.end_s))
    };
    format!("{} of {}", failed.iter().filter(is_of_outage).count(), failed.len())
}

/// The share of the window that relays were away, on average over those of circuits.
fn away(context: &Context, run: &Run) -> f64 {
    let window = context.window(run);
    let carries = |host: &&String| matches!(run.role(host), Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let relays = run.hosts.iter().filter(carries).count();
    let spans = run.outages().map(|(_, outage)| {
        let until = outage.until_s.unwrap_or(window.end).min(window.end);
        (until - outage.ended_s.max(window.start)).max(0.0)
    });
    let all = (window.end - window.start) * relays as f64;
    if all > 0.0 { spans.sum::<f64>() / all } else { 0.0 }
}

fn kind(transfer: &Transfer) -> Option<String> {
    transfer.error.as_ref().map(|error| format!("{}: {}", error.stage, error.reason))
}

/// Kinds of errors, the most frequent first.
fn kinds(context: &Context) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for run in context.runs() {
        for kind in context.transfers(run).filter_map(kind) {
            *counts.entry(kind).or_insert(0) += 1;
        }
    }
    let mut kinds: Vec<(String, usize)> = counts.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let has_more = kinds.len() > MOST_KINDS;
    let mut kinds: Vec<String> = kinds.into_iter().take(MOST_KINDS).map(|(kind, _)| kind).collect();
    kinds.extend(has_more.then(|| OTHER_KINDS.to_owned()));
    kinds
}

/// The transfers of a run by index into `kinds`; the rest has failed otherwise or not at all.
fn counts(context: &Context, run: &Run, kinds: &[String]) -> (Vec<usize>, usize) {
    let (mut counts, mut total) = (vec![0; kinds.len()], 0);
    for transfer in context.transfers(run) {
        total += 1;
        if let Some(kind) = kind(transfer) {
            let known = kinds.iter().position(|known| *known == kind);
            let others = kinds.iter().position(|known| known == OTHER_KINDS);
            known.or(others).into_iter().for_each(|index| counts[index] += 1);
        }
    }
    (counts, total)
}

fn share(context: &Context, run: &Run, kinds: &[String], index: usize) -> Option<f64> {
    let (counts, total) = counts(context, run, kinds);
    (total > 0).then(|| counts[index] as f64 / total as f64)
}

fn by_kind(context: &Context, kinds: &[String]) -> Figure {
    let bars_of = |subject: &Subject| {
        let bar = |index| {
            let estimate = subject.estimate(|run| share(context, run, kinds, index));
            Bar {
                value: estimate.map(|estimate| estimate.mean),
                interval: estimate.and_then(|estimate| estimate.low().zip(estimate.high())),
                mark: None,
            }
        };
        let bars = (0..kinds.len()).map(bar).collect();
        BarSeries { name: subject.title(), ink: Ink::solid(subject.colour), bars }
    };
    Figure {
        id: "errors-by-kind".into(),
        title: "Failed transfers by stage and reason".into(),
        subtitle: join(&[
            "share of all transfers",
            if context.has_groups() { "95 % confidence over seeds" } else { "" },
        ]),
        caption: String::new(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Share of transfers", "share_of_transfers", Unit::Share).from(0.0),
            category_column: "error",
            categories: kinds.to_vec(),
            series: context.subjects.iter().map(bars_of).collect(),
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    }
}

fn over_time(context: &Context) -> Figure {
    let line = |subject: &Subject| {
        let lines: Vec<Vec<(f64, f64)>> = subject.runs.iter().map(|run| error_shares(context, run)).collect();
        subject.mean_line(subject.title(), Ink::solid(subject.colour), &lines)
    };
    let mut series: Vec<Series> = context.subjects.iter().filter_map(line).collect();
    // An interval without a transfer has no share.
    series.iter_mut().for_each(|series| series.points.retain(|point: &Point| point.y.is_finite()));
    Figure {
        id: "errors-over-time".into(),
        title: "Failed transfers over time".into(),
        subtitle: join(&["share of the transfers that ended in each interval", context.interval_note()]),
        caption: String::new(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(context.end_s()),
            y: Axis::new("Failed", "share_failed", Unit::Share).from(0.0),
            series,
            interval: Along::Y,
            names_at_ends: context.is_comparison(),
            moments: context.bootstrap_moments(),
            reference: public::reference(context, Quantity::Failures, false),
        }),
    }
}

/// (middle of the interval, share of failures); no number where nothing ended.
fn error_shares(context: &Context, run: &Run) -> Vec<(f64, f64)> {
    let width = interval_width(context.end_s());
    let (mut failed, mut all) = (Bins::new(width), Bins::new(width));
    for transfer in &run.transfers {
        all.add(transfer.end_s, 1.0);
        failed.add(transfer.end_s, if transfer.error.is_some() { 1.0 } else { 0.0 });
    }
    let shares = failed.sums().iter().zip(all.sums()).enumerate();
    shares.map(|(i, (failed, all))| ((i as f64 + 0.5) * width, failed / all)).collect()
}

/// Round seconds or minutes.
fn interval_width(end_s: f64) -> f64 {
    let widths = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0];
    let fitting = widths.into_iter().find(|width| end_s / width <= MOST_INTERVALS as f64);
    fitting.unwrap_or(end_s / MOST_INTERVALS as f64)
}

fn table(context: &Context, kinds: &[String]) -> Table {
    let of_runs: Vec<(Vec<usize>, usize)> = context.runs().map(|run| counts(context, run, kinds)).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let cells = of_runs.iter().map(|(counts, _)| counts[index].to_string());
        rows.push([kind.clone()].into_iter().chain(cells).collect());
    }
    let totals = of_runs.iter().map(|(counts, total)| {
        let failed: usize = counts.iter().sum();
        format!("{failed} of {total} ({:.2} %)", 100.0 * failed as f64 / (*total).max(1) as f64)
    });
    rows.push(["all errors".to_owned()].into_iter().chain(totals).collect());
    let labels = context.runs().map(|run| run.label.clone());
    Table {
        title: "Failed transfers".into(),
        header: ["Stage and reason".to_owned()].into_iter().chain(labels).collect(),
        rows,
        text_columns: 1,
    }
}
