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
        Series::steps(name, Ink::dashed(index, index), counted(tors.iter().copied(), context.end_s(), 1.0))
    };
    let series: Vec<Series> = roles.iter().enumerate().map(line).collect();
    let most = roles.values().map(Vec::len).max().unwrap_or(1);
    figure(
        context,
        series,
        Axis::new("Tors at 100 %", "bootstrapped", Unit::Count).from(0.0).to(most as f64),
        &run_note(run),
    )
}

fn by_run(context: &Context) -> Figure {
    let points = |run: &Run| match run.tors.len() {
        0 => Vec::new(),
        all => counted(run.tors.iter(), context.end_s(), all as f64),
    };
    let series = context.subjects.iter().flat_map(|subject| subject.line_per_run(points));
    let series = series.map(|line| Series { is_step: true, ..line }).collect();
    figure(context, series, Axis::new("Share of tors at 100 %", "fraction", Unit::Fraction).from(0.0).to(1.0), "")
}

fn run_note(run: &Run) -> String {
    let done = run.tors.iter().filter(|tor| tor.bootstrapped_s.is_some()).count();
    format!("{done} of {} tors", run.tors.len())
}

fn figure(context: &Context, series: Vec<Series>, y: Axis, subtitle: &str) -> Figure {
    let last = context.runs().flat_map(|run| &run.tors).filter_map(|tor| tor.bootstrapped_s).fold(0.0, f64::max);
    // What comes long after the last one is a flat line.
    let end = if last > 0.0 { (last * 1.25).min(context.end_s().max(last)) } else { context.end_s() };
    let mut series = series;
    for line in &mut series {
        line.points.retain(|point| point.x < end);
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
            y,
            series,
            interval: Along::Y,
            names_at_ends: true,
        }),
    }
}

/// How many of the tors are at 100 %, over `whole`.
fn counted<'a>(tors: impl Iterator<Item = &'a TorLog>, end_s: f64, whole: f64) -> Vec<Point> {
    let mut times: Vec<f64> = tors.filter_map(|tor| tor.bootstrapped_s).collect();
    times.sort_by(f64::total_cmp);
    let mut points = vec![Point::at(0.0, 0.0)];
    points.extend(times.iter().enumerate().map(|(i, at)| Point::at(*at, (i + 1) as f64 / whole)));
    points.push(Point::at(end_s, times.len() as f64 / whole));
    points
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
        header: ["Warning", "Times", "Tors"].map(str::to_owned).to_vec(),
        rows: rows
            .iter()
            .map(|(text, (times, tors))| vec![(*text).to_owned(), times.to_string(), tors.to_string()])
            .collect(),
        text_columns: 1,
    })
}
