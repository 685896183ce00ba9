//! Times to first and last byte, by size, direction and behaviour.

use super::{Context, Section, Since, Table, join, probes, public, size_name, slug};
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, ScaleKind, Series, Unit};
use crate::maths::{Estimate, Sample};
use crate::run::{Direction, Run, Transfer};
use crate::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A behaviour with more different sizes than this has none that is its own: its transfers are shown together.
const MOST_SIZES: usize = 6;

/// Quantiles in tables.
const QUANTILES: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.9, 0.99];

/// What transfers are shown together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    size: Size,
    direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    Bytes(u64),
    /// Of one behaviour, all sizes.
    Any(Arc<str>),
}

/// First or last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    First,
    Last,
}

impl Byte {
    fn id(self) -> &'static str {
        match self {
            Byte::First => "ttfb",
            Byte::Last => "ttlb",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Byte::First => "Time to first byte",
            Byte::Last => "Time to last byte",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Byte::First => "time_to_first_byte_s",
            Byte::Last => "time_to_last_byte_s",
        }
    }

    fn of(self, transfer: &Transfer, since: Since) -> Option<f64> {
        let at = match self {
            Byte::First => transfer.first_byte_s,
            Byte::Last => transfer.last_byte_s,
        }?;
        match since {
            Since::Start => Some(at),
            Since::Request => transfer.request_s.map(|request| (at - request).max(0.0)),
        }
    }
}

impl Class {
    pub fn name(&self) -> String {
        let size = match &self.size {
            Size::Bytes(bytes) => size_name(*bytes),
            Size::Any(behaviour) => format!("{behaviour}, any size"),
        };
        match self.direction {
            Direction::Download => size,
            Direction::Upload => format!("{size} upload"),
        }
    }

    /// The size of downloads of one size.
    pub fn downloaded_bytes(&self) -> Option<u64> {
        match (&self.size, self.direction) {
            (Size::Bytes(bytes), Direction::Download) => Some(*bytes),
            _ => None,
        }
    }

    fn id(&self) -> String {
        let size = match &self.size {
            Size::Bytes(bytes) => bytes.to_string(),
            Size::Any(behaviour) => slug(behaviour),
        };
        match self.direction {
            Direction::Download => size,
            Direction::Upload => format!("{size}-upload"),
        }
    }

    fn has(&self, transfer: &Transfer) -> bool {
        let is_of_size = match &self.size {
            Size::Bytes(bytes) => transfer.bytes == *bytes,
            Size::Any(behaviour) => transfer.behaviour == *behaviour,
        };
        is_of_size && transfer.direction == self.direction
    }
}

/// The classes of all runs' transfers, with the behaviours in each.
pub fn classes(context: &Context) -> BTreeMap<Class, BTreeSet<Arc<str>>> {
    let mut sizes: BTreeMap<(Arc<str>, Direction), BTreeSet<u64>> = BTreeMap::new();
    for run in context.runs() {
        for transfer in context.transfers(run) {
            let sizes = sizes.entry((Arc::clone(&transfer.behaviour), transfer.direction)).or_default();
            if sizes.len() <= MOST_SIZES {
                sizes.insert(transfer.bytes);
            }
        }
    }
    let mut classes: BTreeMap<Class, BTreeSet<Arc<str>>> = BTreeMap::new();
    for ((behaviour, direction), sizes) in sizes {
        let of_behaviour = if sizes.len() > MOST_SIZES {
            vec![Size::Any(Arc::clone(&behaviour))]
        } else {
            sizes.into_iter().map(Size::Bytes).collect()
        };
        for size in of_behaviour {
            classes.entry(Class { size, direction }).or_default().insert(Arc::clone(&behaviour));
        }
    }
    classes
}

/// The times of a run's finished transfers of a class and behaviour.
pub fn sample(context: &Context, run: &Run, class: &Class, behaviour: &str, byte: Byte) -> Sample {
    let is_meant =
        |transfer: &&Transfer| class.has(transfer) && transfer.is_done() && behaviour == &*transfer.behaviour;
    let times = context.transfers(run).filter(is_meant).filter_map(|transfer| byte.of(transfer, context.since));
    Sample::new(times.collect())
}

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "transfers", title: "Time to first and last byte", ..Section::default() };
    section.missing.extend(context.missing("output of gnomon-traffic or tgen", |run| run.generators == 0));
    let classes = classes(context);
    if classes.is_empty() && section.missing.is_empty() {
        section.missing.push("No transfer began within the time that the report is about.".into());
    }
    if classes.is_empty() {
        return section;
    }
    section.texts.push(about(context));
    for byte in [Byte::First, Byte::Last] {
        let mut table = Table {
            title: format!("{} (s), quantiles", byte.title()),
            header: header(),
            rows: Vec::new(),
            text_columns: 3,
        };
        for (class, behaviours) in &classes {
            section.figures.extend(figure(context, class, behaviours, byte));
            if byte == Byte::Last {
                section.figures.extend(tail(context, class, behaviours));
            }
            for behaviour in behaviours {
                table.rows.extend(
                    context.subjects.iter().filter_map(|subject| row(context, subject, class, behaviour, byte)),
                );
            }
        }
        section.tables.push(table);
    }
    section.tables.extend(differences(context, &classes));
    // First and last byte of one class side by side.
    section.figures.sort_by_key(|figure| figure.id.split_once('-').map(|(_, class)| class.to_owned()).map(order));
    section.figures.extend(probes::ALL.iter().filter_map(|probe| probes::figure(context, *probe)));
    section
}

/// Numbers by value, before names.
fn order(id: String) -> (u64, String) {
    let digits: String = id.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(u64::MAX), id)
}

fn about(context: &Context) -> String {
    let begin = match context.since {
        Since::Start => "from the moment when the client opened its connection (to its SOCKS port, where it has one)",
        Since::Request => "from the moment when the client sent its request, as tgentools counts",
    };
    let early: usize = context.runs().map(|run| run.transfers.len() - context.transfers(run).count()).sum();
    let left_out = match early {
        0 => String::new(),
        early => format!(" {early} transfers that began outside the time the report is about are not among them."),
    };
    format!("Of finished transfers, {begin}. Failed ones are in the section on errors.{left_out}")
}

/// What a subject's line of a behaviour, the index-th of so many, is called and drawn with.
fn line_of(context: &Context, subject: &Subject, behaviour: &str, index: usize, of: usize) -> (String, Ink) {
    match (context.is_comparison(), of) {
        (true, 1) => (subject.title(), Ink::solid(subject.colour)),
        (true, _) => (format!("{}, {behaviour}", subject.title()), Ink::dashed(subject.colour, index)),
        (false, _) => (behaviour.to_owned(), Ink::dashed(index, index)),
    }
}

/// Fewer transfers tell nothing of one in a hundred.
const TAIL_TRANSFERS: usize = 200;
/// A tail has so many points at most, evenly over its logarithm.
const TAIL_POINTS: usize = 200;

/// The slow ones: the share of transfers that took longer than some time, both on logarithmic axes.
fn tail(context: &Context, class: &Class, behaviours: &BTreeSet<Arc<str>>) -> Option<Figure> {
    let mut series = Vec::new();
    let mut count = 0;
    for subject in &context.subjects {
        for (index, behaviour) in behaviours.iter().enumerate() {
            let of_run = |run: &Run| sample(context, run, class, behaviour, Byte::Last);
            let all: Vec<f64> = subject.runs.iter().flat_map(|run| of_run(run).values().to_vec()).collect();
            if all.len() >= TAIL_TRANSFERS {
                count += all.len();
                let (name, ink) = line_of(context, subject, behaviour, index, behaviours.len());
                series.push(Series::steps(name, ink, tail_points(&Sample::new(all))));
            }
        }
    }
    if series.is_empty() {
        return None;
    }
    let x = Axis::new(Byte::Last.title(), Byte::Last.column(), Unit::Seconds).scaled(ScaleKind::Log);
    Some(Figure {
        id: format!("{}-{}-tail", Byte::Last.id(), class.id()),
        title: format!("{}, {}, the slowest", Byte::Last.title(), class.name()),
        subtitle: format!("{count} transfers, runs together"),
        caption: "The share of transfers that took longer; both axes are logarithmic.".into(),
        chart: Chart::Plot(Plot {
            x,
            y: Axis::new("Share that took longer", "fraction_longer", Unit::Fraction).scaled(ScaleKind::Log).to(1.0),
            series,
            interval: Along::X,
            names_at_ends: false,
            moments: Vec::new(),
            reference: None,
        }),
    })
}

/// For each time, the share of values that are larger; not for the largest, which has no logarithm.
fn tail_points(sample: &Sample) -> Vec<Point> {
    let values = sample.values();
    let count = values.len();
    let mut points: Vec<Point> = Vec::new();
    let step = (count as f64).ln() / TAIL_POINTS as f64;
    let mut next = 0.0;
    for (index, value) in values[..count - 1].iter().enumerate() {
        let longer = (count - 1 - index) as f64 / count as f64;
        if -longer.ln() >= next {
            points.push(Point::at(*value, longer));
            next = -longer.ln() + step;
        }
    }
    points
}

fn figure(context: &Context, class: &Class, behaviours: &BTreeSet<Arc<str>>, byte: Byte) -> Option<Figure> {
    let mut series: Vec<Series> = Vec::new();
    let mut count = 0;
    for subject in &context.subjects {
        for (index, behaviour) in behaviours.iter().enumerate() {
            let (name, ink) = line_of(context, subject, behaviour, index, behaviours.len());
            let of_run = |run: &Run| sample(context, run, class, behaviour, byte);
            count += subject.runs.iter().map(|run| of_run(run).len()).sum::<usize>();
            series.extend(subject.distribution(name, ink, of_run));
        }
    }
    if series.is_empty() {
        return None;
    }
    let whose = match (behaviours.first(), behaviours.len()) {
        (Some(one), 1) if !matches!(class.size, Size::Any(_)) => format!(", {one} clients"),
        _ => String::new(),
    };
    let group =
        if !context.is_comparison() && context.has_groups() { context.subjects[0].title() } else { String::new() };
    Some(Figure {
        id: format!("{}-{}", byte.id(), class.id()),
        title: format!("{}, {}{whose}", byte.title(), class.name()),
        subtitle: join(&[&format!("{count} transfers"), &group, context.interval_note()]),
        caption: String::new(),
        chart: Chart::Plot(Plot {
            x: time_axis(byte.title(), byte.column(), &series),
            y: Axis::new("Share of transfers", "fraction", Unit::Fraction).from(0.0).to(1.0),
            series,
            interval: Along::X,
            names_at_ends: false,
            moments: Vec::new(),
            reference: public::counterpart(context, class, byte)
                .and_then(|quantity| public::reference(context, quantity, true)),
        }),
    })
}

/// An axis of durations that fits them, along x.
pub fn time_axis(label: &str, column: &'static str, series: &[Series]) -> Axis {
    let values = series.iter().flat_map(|series| &series.points).map(|point| point.x);
    super::fitting(Axis::new(label, column, Unit::Seconds), values)
}

fn header() -> Vec<String> {
    let fixed = ["Transfers", "Behaviour", "Run", "n"].map(str::to_owned);
    let quantiles = QUANTILES.iter().map(|q| format!("{:.0} %", q * 100.0));
    fixed.into_iter().chain(quantiles).chain(["mean".to_owned()]).collect()
}

fn row(context: &Context, subject: &Subject, class: &Class, behaviour: &str, byte: Byte) -> Option<Vec<String>> {
    let samples: Vec<Sample> = subject.runs.iter().map(|run| sample(context, run, class, behaviour, byte)).collect();
    let count: usize = samples.iter().map(Sample::len).sum();
    if count == 0 {
        return None;
    }
    let over_runs = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(value).collect();
        Estimate::of(&values).map_or_else(String::new, |estimate| seconds(&estimate))
    };
    let mut row = vec![class.name(), behaviour.to_owned(), subject.title(), count.to_string()];
    row.extend(QUANTILES.iter().map(|q| over_runs(&|sample| sample.quantile(*q))));
    row.push(over_runs(&Sample::mean));
    Some(row)
}

/// How medians and 90 % quantiles of the other subjects differ from the first one's.
fn differences(context: &Context, classes: &BTreeMap<Class, BTreeSet<Arc<str>>>) -> Option<Table> {
    let (first, others) = context.subjects.split_first().filter(|(_, others)| !others.is_empty())?;
    let mut rows = Vec::new();
    for (class, behaviours) in classes {
        for (behaviour, byte) in behaviours.iter().flat_map(|name| [(name, Byte::First), (name, Byte::Last)]) {
            for other in others {
                let at = |subject: &Subject, q: f64| {
                    subject.estimate(|run| sample(context, run, class, behaviour, byte).quantile(q))
                };
                let cells = [0.5, 0.9].map(|q| difference(at(first, q), at(other, q)));
                let names = [byte.title().to_owned(), class.name(), behaviour.to_string(), other.title()];
                rows.push(names.into_iter().chain(cells).collect());
            }
        }
    }
    Some(Table {
        title: format!("Compared with {}", first.title()),
        header: ["Time", "Transfers", "Behaviour", "Run", "50 %", "90 %"].map(str::to_owned).to_vec(),
        rows,
        text_columns: 4,
    })
}

/// "−12.3 %, intervals apart": relative to the first.
fn difference(first: Option<Estimate>, other: Option<Estimate>) -> String {
    let (Some(first), Some(other)) = (first.filter(|first| first.mean > 0.0), other) else { return String::new() };
    let change = 100.0 * (other.mean / first.mean - 1.0);
    let sign = if change < 0.0 { '\u{2212}' } else { '+' };
    let intervals = match (first.low().zip(first.high()), other.low().zip(other.high())) {
        (Some((low, high)), Some((other_low, other_high))) if other_low > high || other_high < low => {
            ", intervals apart"
        }
        (Some(_), Some(_)) => ", intervals overlap",
        _ => "",
    };
    format!("{sign}{:.1}\u{a0}%{intervals}", change.abs())
}

/// "1.23 ± 0.04": the interval with the digits of the mean.
fn seconds(estimate: &Estimate) -> String {
    let digits = if estimate.mean < 10.0 { 3 } else { 2 };
    match estimate.error {
        None => format!("{:.digits$}", estimate.mean),
        Some(error) => format!("{:.digits$} ± {error:.digits$}", estimate.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_count_what_took_longer() {
        let points = tail_points(&Sample::new((1..=1000).map(f64::from).collect()));
        assert_eq!((points[0].x, points[0].y), (1.0, 0.999));
        assert_eq!(points.last().map(|point| (point.x, point.y)), Some((999.0, 0.001)), "one of a thousand");
        assert!(points.len() <= TAIL_POINTS && points.windows(2).all(|pair| pair[0].y > pair[1].y), "{}", points.len());
        assert!(points.iter().any(|point| point.x == 900.0 || (point.y - 0.1).abs() < 0.005), "near one in ten");
    }

    #[test]
    fn differences_are_relative_and_say_whether_intervals_meet() {
        let estimate = |values: &[f64]| Estimate::of(values);
        assert_eq!(difference(estimate(&[2.0]), estimate(&[1.5])), "\u{2212}25.0\u{a0}%");
        let (low, high) = ([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]);
        assert_eq!(difference(estimate(&low), estimate(&high)), "+100.0\u{a0}%, intervals apart");
        let wide = [1.0, 3.0, 2.0];
        assert_eq!(difference(estimate(&low), estimate(&wide)), "+100.0\u{a0}%, intervals overlap");
        assert_eq!(difference(None, estimate(&low)), "");
        assert_eq!(difference(estimate(&[0.0]), estimate(&low)), "");
    }
}
