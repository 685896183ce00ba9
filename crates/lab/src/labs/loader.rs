//! `loader`: how long it takes to start many programs in one process, and what memory they need.

use super::{Findings, Lab, THESIS, point, words};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Source};
use crate::experiment;
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{PSS, Quantity, WALL};
use report::Estimate;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, ScaleKind, Series, Unit};
use report::html::Table;

pub const LAB: Lab = Lab {
    name: "loader",
    title: "Loading programs into namespaces",
    about: "time and memory to start 1,000 to 100,000 programs in one process",
    publications: &[&THESIS],
    published: "A loader that gives each copy of a minimal shared object, of an empty main function and the C library, a namespace of its own in one \
                process (dlmopen). Time and memory to load so many, with one thread on a desktop machine (AMD FX-8370E, 3.3 GHz, 16 GB), means of \
                ten runs with 95 % intervals. Another loader's time grew faster than the number of copies, and it ended at 10,000.",
    measured: "One host starts so many copies of sleep(1), which is linked against the C library and waits; one worker. Time is the run's, memory \
               the process's proportional set size, both less those of a run with one copy. Each copy is a whole simulated process, with \
               descriptors and output files, and sleep(1) does more before it waits than an empty main function.",
    figures: &[],
    cases,
    findings,
};

/// Copies, seconds and MB with half their intervals: Table 4.1.
const PUBLISHED: [(u32, f64, f64, f64, f64); 6] = [
    (1_000, 0.275, 0.007, 63.2, 0.9),
    (2_000, 0.57, 0.04, 128.2, 0.6),
    (5_000, 1.43, 0.05, 324.0, 2.0),
    (10_000, 3.09, 0.04, 649.0, 1.0),
    (50_000, 29.4, 0.4, 3242.0, 1.0),
    (100_000, 95.0, 1.0, 6484.0, 7.0),
];
const MB: f64 = 1e6;
/// What a copy takes at most, and what the process takes without copies; for the decision what fits.
const BYTES_PER_COPY: u64 = 180_000;
const OWN_BYTES: u64 = 100 << 20;

fn counts(setting: &Setting) -> &'static [u32] {
    match setting.size {
        Size::Smallest => &[20, 100],
        Size::Small => &[1_000, 4_000],
        Size::Full => &[1_000, 2_000, 5_000, 10_000, 50_000, 100_000],
    }
}

fn key(count: u32) -> String {
    format!("copies{count}")
}

fn cases(setting: &Setting) -> Vec<Case> {
    let case = |count: u32| Case {
        key: key(count),
        factors: vec![("copies", count.to_string())],
        experiment: Experiment::File(experiment::waiting(count)),
        options: Case::scheduled("serial", 1),
        memory_bytes: OWN_BYTES + u64::from(count) * BYTES_PER_COPY,
    };
    [1].iter().chain(counts(setting)).map(|count| case(*count)).collect()
}

/// By repetition: what so many copies add to one.
fn added(measurements: &Measurements, count: u32, quantity: Quantity) -> Vec<f64> {
    measurements.paired(&key(count), &key(1), |many, one| (quantity.of)(many) - (quantity.of)(one))
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let counts = counts(setting);
    Findings {
        notes: Vec::new(),
        judgements: judgements(counts, measurements),
        figures: vec![
            plot(measurements, counts, WALL, "loader-time", "Time to start programs", |row| (row.1, row.2)),
            plot(measurements, counts, PSS, "loader-memory", "Memory of the programs", |row| (row.3 * MB, row.4 * MB)),
        ],
        tables: vec![table(counts, measurements)],
    }
}

fn judgements(counts: &[u32], measurements: &Measurements) -> Vec<Judgement> {
    let source = Source { publication: &THESIS, passage: "Table 4.1" };
    let mut all = Vec::new();
    for (count, seconds, _, megabytes, _) in PUBLISHED.iter().filter(|row| counts.contains(&row.0)) {
        let claim = |statement: String, published: String, most: f64, unit: Unit| Claim {
            statement,
            published,
            source,
            bound: Bound::AtMost(most),
            unit,
        };
        let time = claim(
            format!("{count} programs start within the published time"),
            format!("{seconds} s"),
            *seconds,
            Unit::Seconds,
        );
        all.push(time.judge(&added(measurements, *count, WALL), None));
        let memory = claim(
            format!("{count} programs take no more than the published memory"),
            format!("{megabytes} MB"),
            megabytes * MB,
            Unit::Bytes,
        );
        all.push(memory.judge(&added(measurements, *count, PSS), None));
    }
    let (Some(fewest), Some(most)) = (counts.first(), counts.last()) else { return all };
    let each = |quantity: Quantity| {
        let growth = f64::from(*most) / f64::from(*fewest);
        let (many, few) = (added(measurements, *most, quantity), added(measurements, *fewest, quantity));
        many.iter().zip(few).map(|(many, few)| many / few / growth).collect::<Vec<f64>>()
    };
    let linear = Claim {
        statement: format!("Memory grows in proportion from {fewest} to {most} programs"),
        published: "linear: 63 to 65 kB each at every number".into(),
        source: Source { publication: &THESIS, passage: "section 4.4.2" },
        bound: Bound::Between(0.9, 1.1),
        unit: Unit::Fraction,
    };
    all.push(linear.judge(&each(PSS), None));
    let obstacle = (*most < 100_000).then(|| format!("the claim is about 100,000 programs, and {most} were started"));
    let time = Claim {
        statement: "Time for each program grows less than 3.5 times from 1,000 to 100,000".into(),
        published: "3.5 times: 0.275 ms to 0.95 ms".into(),
        source,
        bound: Bound::AtMost(95.0 / 27.5),
        unit: Unit::Fraction,
    };
    all.push(time.judge(&each(WALL), obstacle));
    all
}

fn plot(
    measurements: &Measurements,
    counts: &[u32],
    quantity: Quantity,
    id: &str,
    title: &str,
    published: fn(&(u32, f64, f64, f64, f64)) -> (f64, f64),
) -> Figure {
    let ours = counts.iter().filter_map(|count| point(f64::from(*count), &added(measurements, *count, quantity)));
    let theirs = PUBLISHED.iter().map(|row| {
        let (value, error) = published(row);
        Point { x: f64::from(row.0), y: value, interval: Some((value - error, value + error)) }
    });
    let series = vec![
        Series::line("this machine".into(), Ink::solid(0), ours.collect()),
        Series::line("published".into(), Ink::dashed(1, 1), theirs.collect()),
    ];
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: "less those of a run with one program".to_owned(),
        caption: "Intervals are 95 %. Both axes are logarithmic.".to_owned(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Programs", "programs", Unit::Count).scaled(ScaleKind::Log),
            y: Axis::new(
                if quantity.unit == Unit::Seconds { "Time" } else { "Memory" },
                quantity.column,
                quantity.unit,
            )
            .scaled(ScaleKind::Log),
            series,
            interval: Along::Y,
            names_at_ends: false,
            moments: Vec::new(),
            reference: None,
        }),
    }
}

fn table(counts: &[u32], measurements: &Measurements) -> Table {
    let ours = |count: u32, quantity: Quantity| {
        let estimate = Estimate::of(&added(measurements, count, quantity));
        estimate.map_or_else(|| "–".to_owned(), |estimate| shown(quantity.unit, estimate.mean, estimate.error))
    };
    let mut all: Vec<u32> = PUBLISHED.iter().map(|row| row.0).chain(counts.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let rows = all.into_iter().map(|count| {
        let published = PUBLISHED.iter().find(|row| row.0 == count);
        let [time, memory] = published.map_or(["–".to_owned(), "–".to_owned()], |row| {
            [shown(Unit::Seconds, row.1, Some(row.2)), shown(Unit::Bytes, row.3 * MB, Some(row.4 * MB))]
        });
        vec![Unit::Count.show(f64::from(count)), ours(count, WALL), time, ours(count, PSS), memory]
    });
    Table {
        title: "Time and memory of so many programs".into(),
        header: words(&["Programs", "Time", "published", "Memory", "published"]),
        rows: rows.collect(),
        text_columns: 1,
    }
}
