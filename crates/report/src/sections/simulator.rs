//! What the runs themselves took: wall time, memory, CPU time.

use super::{Context, Section, Table};
use crate::chart::{Along, Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Plot, Point, Series, Unit};
use crate::run::{Progress, Provenance, Run};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of the CPU time in the order of the figure: names in sim-stats.json, and in the legend.
const CPU_PARTS: [(&str, &str); 5] = [
    ("guest", "guests"),
    ("kernel", "simulated kernel"),
    ("stack", "network stack"),
    ("engine", "engine"),
    ("other", "other"),
];

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "simulator", title: "The simulation itself", ..Section::default() };
    section.missing.extend(context.missing("progress.csv", |run| run.progress.is_empty()));
    section.missing.extend(context.missing("CPU times in sim-stats.json", |run| cpu_total(run).is_none()));
    let tells_memory = |run: &Run| run.progress.iter().any(|row| row.in_use_bytes.is_some());
    section.missing.extend(context.missing("memory in use in progress.csv", |run| !tells_memory(run)));
    section.figures.extend(speed(context));
    section.figures.extend(used_memory(context));
    section.figures.extend(resident_memory(context));
    section.figures.extend(cpu_split(context));
    section.tables.extend(provenance(context));
    section
}

/// What ran, where: a row per fact, a column per run.
fn provenance(context: &Context) -> Option<Table> {
    let runs: Vec<&Run> = context.runs().collect();
    let told: Vec<Option<&Provenance>> =
        runs.iter().map(|run| run.stats.as_ref().map(|stats| &stats.provenance)).collect();
    let mut facts: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |name: &str, of: &dyn Fn(&Provenance) -> String| {
        facts.push((name.to_owned(), told.iter().map(|told| told.map_or_else(String::new, of)).collect()));
    };
    add("Gnomon", &|told| told.version.clone());
    add("Command", &|told| told.command.clone());
    add("Kernel", &|told| told.kernel.clone());
    add("Processor", &|told| told.processor.clone());
    add("Ciphers replaced by cheap ones", &|told| told.cheap_crypto.clone());
    let programs: BTreeSet<&String> = told.iter().flatten().flat_map(|told| told.programs.keys()).collect();
    for path in programs {
        add(&format!("SHA-256 of {path}"), &|told| told.programs.get(path).cloned().unwrap_or_default());
    }
    facts.push(("tor, as it says".to_owned(), runs.iter().map(|run| tor_versions(run)).collect()));
    facts.retain(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()));
    (!facts.is_empty()).then(|| Table {
        title: "What ran, where".into(),
        header: [String::new()].into_iter().chain(runs.iter().map(|run| run.label.clone())).collect(),
        rows: facts.into_iter().map(|(name, cells)| [name].into_iter().chain(cells).collect()).collect(),
        text_columns: 1 + runs.len(),
    })
}

/// The versions of a run's tors, with their number where there are several.
fn tor_versions(run: &Run) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    run.tors
        .iter()
        .filter_map(|tor| tor.version.as_deref())
        .for_each(|version| *counts.entry(version).or_default() += 1);
    let name = |(version, count): (&&str, &usize)| match counts.len() {
        1 => (*version).to_owned(),
        _ => format!("{count} of {version}"),
    };
    counts.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn lines(context: &Context, point: impl Fn(&Run, &Progress) -> Point) -> Vec<Series> {
    let points = |run: &Run| run.progress.iter().map(|row| point(run, row)).collect();
    context.subjects.iter().flat_map(|subject| subject.line_per_run(points)).collect()
}

fn speed(context: &Context) -> Option<Figure> {
    let series = lines(context, |_, row| Point::at(row.wall_s, row.simulated_s));
    (!series.is_empty()).then(|| Figure {
        id: "simulated-time".into(),
        title: "Simulated against wall time".into(),
        subtitle: "steeper is faster".into(),
        caption: String::new(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Wall time", "wall_s", Unit::Seconds).from(0.0),
            y: Axis::new("Simulated time", "simulated_s", Unit::Seconds).from(0.0),
            series,
            interval: Along::Y,
            names_at_ends: context.runs().count() > 1,
            moments: Vec::new(),
            reference: None,
        }),
    })
}

fn used_memory(context: &Context) -> Option<Figure> {
    let of_run = |run: &Run| {
        let point = |row: &Progress| Some(Point::at(row.simulated_s, row.in_use_bytes?));
        run.progress.iter().filter_map(point).collect()
    };
    let series: Vec<Series> = context.subjects.iter().flat_map(|subject| subject.line_per_run(of_run)).collect();
    let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    let caption = "As the kernel counts it for the simulator's process with all guests (Pss): each page that it has mapped counts once. What \
                   other programs on the machine do changes nothing.";
    memory(context, "memory", "Memory in use over time", "of the simulator's process, each page once", caption, series)
}

fn resident_memory(context: &Context) -> Option<Figure> {
    let resident = lines(context, |_, row| Point::at(row.simulated_s, row.resident_bytes));
    let caption =
        "As the kernel counts it for the simulator's process: pages that several guests share count once for each.";
    memory(context, "memory-resident", "Resident memory over time", "of the simulator's process", caption, resident)
}

fn memory(
    context: &Context,
    id: &str,
    title: &str,
    subtitle: &str,
    caption: &str,
    series: Vec<Series>,
) -> Option<Figure> {
    (!series.is_empty()).then(|| Figure {
        id: id.into(),
        title: title.into(),
        subtitle: subtitle.into(),
        caption: caption.into(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(context.end_s()),
            y: Axis::new("Memory", "memory_bytes", Unit::Bytes).from(0.0),
            series,
            interval: Along::Y,
            names_at_ends: context.runs().count() > 1,
            moments: context.bootstrap_moments(),
            reference: None,
        }),
    })
}

/// Of a run that told its CPU times; programs on whose machine they cannot be measured tell zeroes.
fn cpu_part(run: &Run, name: &str) -> Option<f64> {
    let cpu = &run.stats.as_ref()?.cpu;
    let is_measured = cpu.iter().any(|(_, seconds)| *seconds > 0.0);
    cpu.iter().find(|(part, _)| is_measured && part == name).map(|(_, seconds)| *seconds)
}

/// (total CPU time, CPU time of guests), in seconds.
pub fn cpu_total(run: &Run) -> Option<(f64, Option<f64>)> {
    Some((cpu_part(run, "total")?, cpu_part(run, "guest")))
}

fn cpu_split(context: &Context) -> Option<Figure> {
    let runs: Vec<&Run> = context.runs().filter(|run| cpu_total(run).is_some()).collect();
    let part = |(index, (name, label)): (usize, &(&str, &str))| BarSeries {
        name: (*label).to_owned(),
        ink: Ink::solid(index),
        bars: runs.iter().map(|run| Bar { value: cpu_part(run, name), ..Bar::default() }).collect(),
    };
    (!runs.is_empty()).then(|| Figure {
        id: "cpu".into(),
        title: "CPU time by what it was spent in".into(),
        subtitle: String::new(),
        caption: "Guests: the programs' own instructions.".into(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("CPU time", "cpu_s", Unit::Seconds).from(0.0),
            category_column: "run",
            categories: runs.iter().map(|run| run.label.clone()).collect(),
            series: CPU_PARTS.iter().enumerate().map(part).collect(),
            is_stacked: true,
            mark: None,
            reference: None,
        }),
    })
}
