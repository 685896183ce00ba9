//! What each worker's wall time went into, and where workers waited for each other.

use super::{Context, Section};
use crate::bins::Bins;
use crate::chart::{Along, Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Plot, Point, Series, Unit};
use crate::maths::Estimate;
use crate::run::{Run, Window};
use std::collections::BTreeMap;

/// More rows of bars than this are not read: then a run is one row, the mean of its workers.
const MOST_ROWS: usize = 40;

/// Lines over time have at most this many points.
const MOST_POINTS: usize = 150;

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "workers", title: "Workers", ..Section::default() };
    section.missing.extend(context.missing("windows.parquet", |run| run.windows.is_empty()));
    section.figures.extend(time(context));
    section.figures.extend(waiting(context));
    section.figures.extend(pace(context));
    section.figures.extend(speed(context));
    section
}

/// A worker's wall time by what it did.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    guest: f64,
    kernel: f64,
    stack: f64,
    running: f64,
    delivering: f64,
    logging: f64,
    waiting: f64,
}

impl Spent {
    fn add(&mut self, window: &Window) {
        self.guest += window.guest_s;
        self.kernel += window.kernel_s;
        self.stack += window.stack_s;
        self.running += window.running_s + window.stealing_s;
        self.delivering += window.delivering_s;
        self.logging += window.logging_s;
        self.waiting += window.waiting_s;
    }

    /// Of running hosts, what no sample saw in guests, kernel or stack: looking for hosts, and what samples are off.
    fn rest(&self) -> f64 {
        (self.running - self.guest - self.kernel - self.stack).max(0.0)
    }
}

type Part = (&'static str, fn(&Spent) -> f64);

const PARTS: [Part; 6] = [
    ("guests", |spent| spent.guest),
    ("simulated kernel", |spent| spent.kernel),
    ("network stack", |spent| spent.stack),
    ("engine", |spent| spent.rest() + spent.delivering),
    ("logging", |spent| spent.logging),
    ("waiting for others", |spent| spent.waiting),
];

fn by_worker(run: &Run) -> BTreeMap<usize, Spent> {
    let mut workers: BTreeMap<usize, Spent> = BTreeMap::new();
    run.windows.iter().for_each(|window| workers.entry(window.worker).or_default().add(window));
    workers
}

fn with_windows<'a>(context: &'a Context) -> impl Iterator<Item = &'a Run> {
    context.runs().filter(|run| !run.windows.is_empty())
}

fn time(context: &Context) -> Option<Figure> {
    let runs: Vec<(&Run, BTreeMap<usize, Spent>)> = with_windows(context).map(|run| (run, by_worker(run))).collect();
    let is_by_worker = runs.iter().map(|(_, workers)| workers.len()).sum::<usize>() <= MOST_ROWS;
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for (run, workers) in &runs {
        let prefix = if runs.len() > 1 { format!("{}, ", run.label) } else { String::new() };
        if is_by_worker {
            let row = |(worker, spent): (&usize, &Spent)| {
                (format!("{prefix}worker {worker}"), PARTS.iter().map(|(_, part)| part(spent)).collect())
            };
            rows.extend(workers.iter().map(row));
        } else {
            let mean = |part: fn(&Spent) -> f64| workers.values().map(part).sum::<f64>() / workers.len() as f64;
            let name = format!("{prefix}mean of {} workers", workers.len());
            rows.push((name, PARTS.iter().map(|(_, part)| mean(*part)).collect()));
        }
    }
    let series = |(index, (name, _)): (usize, &Part)| BarSeries {
        name: (*name).to_owned(),
        ink: Ink::solid(index),
        bars: rows.iter().map(|(_, parts)| Bar { value: Some(parts[index]), ..Bar::default() }).collect(),
    };
    (!rows.is_empty()).then(|| Figure {
        id: "workers".into(),
        title: "Wall time of workers by what they did".into(),
        subtitle: String::new(),
        caption:
            "Guests, kernel and stack are told apart by samples of 2 ms; waiting for other workers is at the barrier \
                  that ends each window."
                .into(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Wall time", "wall_s", Unit::Seconds).from(0.0),
            category_column: "worker",
            categories: rows.iter().map(|(name, _)| name.clone()).collect(),
            series: PARTS.iter().enumerate().map(series).collect(),
            is_stacked: true,
            mark: None,
            reference: None,
        }),
    })
}

/// The width of a run's bins of simulated time: each holds several windows.
fn width_s(run: &Run) -> f64 {
    let workers = by_worker(run).len().max(1);
    let bins = (run.windows.len() / workers / 4).clamp(1, MOST_POINTS);
    (run.end_s() / bins as f64).max(1e-3)
}

/// Sums over windows by when they begin.
fn bins(run: &Run, width_s: f64, of: impl Fn(&Window) -> Option<f64>) -> Bins {
    let mut bins = Bins::new(width_s);
    for window in &run.windows {
        if let Some(amount) = of(window) {
            bins.add(window.start_s, amount);
        }
    }
    bins
}

/// (middle of a bin, sum over sum) where there is something to divide by.
fn ratios(above: &Bins, below: &Bins) -> Vec<Point> {
    let pairs = above.sums().iter().zip(below.sums()).enumerate();
    let middle = |index: usize| (index as f64 + 0.5) * below.width_s();
    pairs
        .filter(|(_, (_, below))| **below > 0.0)
        .map(|(i, (above, below))| Point::at(middle(i), above / below))
        .collect()
}

fn over_time(context: &Context, id: &str, title: &str, caption: &str, y: Axis, series: Vec<Series>) -> Option<Figure> {
    (!series.is_empty()).then(|| Figure {
        id: id.into(),
        title: title.into(),
        subtitle: String::new(),
        caption: caption.into(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(context.end_s()),
            y,
            names_at_ends: series.len() > 1,
            series,
            interval: Along::Y,
            moments: context.bootstrap_moments(),
            reference: None,
        }),
    })
}

fn waiting(context: &Context) -> Option<Figure> {
    let runs: Vec<&Run> = with_windows(context).collect();
    let share = |run: &Run, of: &dyn Fn(&Window) -> bool| {
        let width = width_s(run);
        let waited = bins(run, width, |window| of(window).then_some(window.waiting_s));
        ratios(&waited, &bins(run, width, |window| of(window).then_some(window.wall_s())))
    };
    let series: Vec<Series> = match runs.as_slice() {
        [run] => {
            let workers: Vec<usize> = by_worker(run).into_keys().collect();
            let ink = |index| if workers.len() > 6 { Ink::faint() } else { Ink::solid(index) };
            let line = |(index, worker): (usize, &usize)| {
                let points = share(run, &|window| window.worker == *worker);
                Series::line(format!("worker {worker}"), ink(index), points)
            };
            workers.iter().enumerate().map(line).collect()
        }
        _ => context.subjects.iter().flat_map(|subject| subject.line_per_run(|run| share(run, &|_| true))).collect(),
    };
    let axis = Axis::new("Waiting", "waiting_share", Unit::Share).from(0.0);
    let caption = "Of the wall time of that part of the simulation: what a worker had to wait for others, or workers of a run on the mean.";
    over_time(context, "workers-waiting", "Time blocked over simulated time", caption, axis, series)
}

/// Simulated seconds for each second of wall time.
fn pace(context: &Context) -> Option<Figure> {
    let line = |run: &Run| {
        let first: Vec<&Window> = run.windows.iter().filter(|window| window.worker == 0).collect();
        let (mut wall, mut simulated) = (Bins::new(width_s(run)), Bins::new(width_s(run)));
        for (index, window) in first.iter().enumerate() {
            let end_s = first.get(index + 1).map_or_else(|| run.end_s(), |next| next.start_s);
            wall.add(window.start_s, window.wall_s());
            simulated.add(window.start_s, (end_s - window.start_s).max(0.0));
        }
        ratios(&simulated, &wall)
    };
    let series: Vec<Series> = context.subjects.iter().flat_map(|subject| subject.line_per_run(line)).collect();
    let axis = Axis::new("Simulated over real time", "pace", Unit::Fraction);
    // While nothing happens a simulation flies.
    let axis = super::fitting(axis, series.iter().flat_map(|series| &series.points).map(|point| point.y));
    let caption = "Simulated seconds for each second of wall time; above 1 a run is faster than what it simulates.";
    over_time(context, "pace", "Pace over simulated time", caption, axis, series)
}

/// Where runs differ in their number of workers: how fast they were.
fn speed(context: &Context) -> Option<Figure> {
    let mut speeds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for run in with_windows(context) {
        let wall: f64 = run.windows.iter().filter(|window| window.worker == 0).map(Window::wall_s).sum();
        speeds.entry(by_worker(run).len()).or_default().push(run.end_s() / wall.max(1e-9));
    }
    let named = |workers: &usize| if *workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
    let bar = |values: &Vec<f64>| {
        let estimate = Estimate::of(values);
        Bar {
            value: estimate.as_ref().map(|found| found.mean),
            interval: estimate.and_then(|found| found.low().zip(found.high())),
            mark: None,
        }
    };
    (speeds.len() > 1).then(|| Figure {
        id: "workers-speed".into(),
        title: "Speed against the number of workers".into(),
        subtitle: "simulated seconds for each second of wall time".into(),
        caption: "Means over runs, with 95 % intervals where there are several. Runs of different experiments do not compare.".into(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Simulated over real time", "pace", Unit::Fraction).from(0.0),
            category_column: "workers",
            categories: speeds.keys().map(named).collect(),
            series: vec![BarSeries {
                name: "speed".into(),
                ink: Ink::solid(0),
                bars: speeds.values().map(bar).collect(),
            }],
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    })
}
