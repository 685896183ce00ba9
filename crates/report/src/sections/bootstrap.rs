//! How fast the tors bootstrapped, and what they warned of.

use super::{Context, Section, Table};
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, Series, Unit};
use crate::run::{Role, Run, TorLog};
use std::collections::BTreeMap;

/// Warnings in the table, the most frequent first.
const MOST_WARNINGS: usize = 12;

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "bootstrapping", title: "Bootstrapping", ..Section::default() };
    section.missing.extend(context.missing("a log of tor", |run| run.tors.is_empty()));
    let with_logs: Vec<&Run> = context.runs().filter(|run| !run.tors.is_empty()).collect();
    if with_logs.is_empty() {
        return section;
    }
    section.figures.push(if context.runs().count() == 1 { by_role(context, with_logs[0]) } else { by_run(context) });
    section.tables.extend(unfinished(&with_logs));
    section.tables.extend(warnings(&with_logs));
    section
}

fn by_role(context: &Context, run: &Run) -> Figure {
    let mut roles: BTreeMap<Role, Vec<&TorLog>> = BTreeMap::new();
    for tor in &run.tors {
        roles.entry(run.role(&tor.host)).or_default().push(tor);
    }
    let line = |(index, (role, tors)): (usize, (&Role, &Vec<&TorLog>))| {
        let (done, all) = (tors.iter().filter(|tor| tor.bootstrapped_s.is_some()).count(), tors.len());
        let count = role.count(all);
        let name = if done == all { count } else { format!("{done} of {count}") };
        Series::steps(name, Ink::dashed(index, index), counted(tors))
    };
    figure(context, roles.iter().enumerate().map(line).collect(), "Share of the role's tors", &run_note(run))
}

fn by_run(context: &Context) -> Figure {
    let points = |run: &Run| match run.tors.as_slice() {
        [] => Vec::new(),
        tors => counted(&tors.iter().collect::<Vec<_>>()),
    };
    let series = context.subjects.iter().flat_map(|subject| subject.line_per_run(points));
    let series = series.map(|line| Series { is_step: true, ..line }).collect();
    figure(context, series, "Share of tors", "")
}

fn run_note(run: &Run) -> String {
    let done = run.tors.iter().filter(|tor| tor.bootstrapped_s.is_some()).count();
    format!("{done} of {} tors", run.tors.len())
}

fn figure(context: &Context, mut series: Vec<Series>, what: &str, subtitle: &str) -> Figure {
    let last = context.runs().flat_map(|run| &run.tors).filter_map(|tor| tor.bootstrapped_s).fold(0.0, f64::max);
    // What comes long after the last one is a flat line.
    let end = if last > 0.0 { (last * 1.15).min(context.end_s()).max(last) } else { context.end_s() };
    for line in &mut series {
        let y = line.points.last().map_or(0.0, |point| point.y);
        line.points.push(Point::at(end, y));
    }
    Figure {
        id: "bootstrapping".into(),
        title: "Tors that are bootstrapped".into(),
        subtitle: subtitle.to_owned(),
        caption: "When each tor's log first says \u{201c}Bootstrapped 100%\u{201d}.".into(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(end),
            y: Axis::new(what, "fraction", Unit::Fraction).from(0.0).to(1.0),
            series,
            interval: Along::Y,
            names_at_ends: true,
            moments: Vec::new(),
            reference: None,
        }),
    }
}

/// The share of the tors that are at 100 %.
fn counted(tors: &[&TorLog]) -> Vec<Point> {
    let mut times: Vec<f64> = tors.iter().filter_map(|tor| tor.bootstrapped_s).collect();
    times.sort_by(f64::total_cmp);
    let steps = times.iter().enumerate().map(|(i, at)| Point::at(*at, (i + 1) as f64 / tors.len() as f64));
    [Point::at(0.0, 0.0)].into_iter().chain(steps).collect()
}

/// Tors that are not at 100 %.
fn unfinished(runs: &[&Run]) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        for tor in run.tors.iter().filter(|tor| tor.bootstrapped_s.is_none()) {
            rows.push(vec![
                tor.host.clone(),
                run.role(&tor.host).name().to_owned(),
                run.label.clone(),
                format!("{} %", tor.percent),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Not bootstrapped".into(),
        header: ["Host", "Role", "Run", "Last percentage"].map(str::to_owned).to_vec(),
        rows,
        text_columns: 3,
    })
}

/// In a sentence, of warnings that are known.
fn meaning(warning: &str) -> String {
    match tornet::warnings::known(warning) {
        Some(known) if known.is_expected => format!("Every such network gives it: {}", known.why),
        Some(known) => known.why.to_owned(),
        None => String::new(),
    }
}

fn warnings(runs: &[&Run]) -> Option<Table> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for tor in runs.iter().flat_map(|run| &run.tors) {
        for (text, count) in &tor.warnings {
            let entry = counts.entry(text).or_insert((0, 0));
            (entry.0, entry.1) = (entry.0 + count, entry.1 + 1);
        }
    }
    let mut rows: Vec<(&str, (usize, usize))> = counts.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let kinds = rows.len();
    rows.truncate(MOST_WARNINGS);
    (kinds > 0).then(|| Table {
        title: if kinds > MOST_WARNINGS {
            format!("Warnings of tor, {MOST_WARNINGS} of {kinds} kinds")
        } else {
            "Warnings of tor".into()
        },
        header: ["Warning", "What it means", "Times", "Tors"].map(str::to_owned).to_vec(),
        rows: rows
            .iter()
            .map(|(text, (times, tors))| vec![(*text).to_owned(), meaning(text), times.to_string(), tors.to_string()])
            .collect(),
        text_columns: 2,
    })
}
