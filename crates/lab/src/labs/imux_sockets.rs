//! Figures 2c and 3 of `imux`: what many open sockets take of a kernel's memory, and of a relay's throughput and time, natively and simulated.

use super::imux::PAPER;
use super::{Findings, cell, point, words};
use crate::case::{Case, Experiment, PARALLELISM, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Source};
use crate::experiment;
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{Moment, Reading, WALL};
use report::Estimate;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, Series, Unit};
use report::html::Table;

/// The relay that opens sockets, and is opened to.
const VICTIM: &str = "middle1";
/// Descriptors that it may have: more than it gets.
const DESCRIPTORS: &str = "65000";
/// What throughput fell by in the paper, in bytes per second.
const PUBLISHED_FALL: f64 = 750.0 * 1024.0;

/// Where sockets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Native,
    Simulated,
}

impl Kernel {
    const ALL: [Kernel; 2] = [Kernel::Native, Kernel::Simulated];

    fn key(self) -> &'static str {
        match self {
            Kernel::Native => "native",
            Kernel::Simulated => "simulated",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kernel::Native => "this machine\u{2019}s kernel",
            Kernel::Simulated => "Gnomon",
        }
    }
}

/// How much is opened.
#[derive(Clone, Copy, Debug)]
struct Amounts {
    /// Sockets of figure 2c, in each kernel.
    native: u64,
    simulated: u64,
    /// Circuits every 6 s of figure 3, in seconds from the beginning; each takes two sockets of the relay.
    circuits: u32,
    start_s: f64,
    stop_s: f64,
}

impl Amounts {
    fn of(size: Size) -> Amounts {
        match size {
            Size::Smallest => Amounts { native: 2000, simulated: 4000, circuits: 30, start_s: 95.0, stop_s: 135.0 },
            Size::Small => {
                Amounts { native: 100_000, simulated: 200_000, circuits: 100, start_s: 100.0, stop_s: 220.0 }
            }
            // The published ones; 1,048,576 are all that a process can have.
            Size::Full => {
                Amounts { native: 1_040_000, simulated: 1_040_000, circuits: 65, start_s: 300.0, stop_s: 2800.0 }
            }
        }
    }

    /// Numbers of simulated sockets, each a run.
    fn steps(self) -> [u64; 4] {
        [2, self.simulated / 4, self.simulated / 2, self.simulated]
    }
}

fn is_wanted(setting: &Setting, figure: &str) -> bool {
    match &setting.figures[..] {
        [] => setting.size == Size::Full,
        wanted => wanted.iter().any(|wanted| wanted == figure),
    }
}

fn sockets_key(count: u64) -> String {
    format!("sockets-simulated-{count}")
}

const NATIVE_SOCKETS: &str = "sockets-native";

fn relay_key(kernel: Kernel) -> String {
    format!("opening-{}", kernel.key())
}

/// Options of `gnomon tor new`: one relay in each position, five clients that fetch without end, and one that has circuits built.
fn options(amounts: Amounts, kernel: Kernel) -> Vec<String> {
    let Amounts { circuits, start_s, stop_s, .. } = amounts;
    let options = [
        ("--profile", "tiny".to_owned()),
        ("--guards", "1".to_owned()),
        ("--middles", "1".to_owned()),
        ("--exits", "1".to_owned()),
        ("--guard-exits", "0".to_owned()),
        ("--web-clients", "1".to_owned()),
        ("--bulk-clients", "5".to_owned()),
        ("--performance-clients", "0".to_owned()),
        ("--servers", "1".to_owned()),
        ("--amount", "endless".to_owned()),
        ("--bootstrap", "75s".to_owned()),
        ("--duration", format!("{}s", stop_s + 10.0)),
        ("--relay-bandwidth", "200 Mbit".to_owned()),
        ("--client-link", "lan:3 Mbit:3 Mbit:1 ms".to_owned()),
        ("--congestion-control", "fixed".to_owned()),
        ("--relay-kind", "gnomon".to_owned()),
        ("--client-kind", "gnomon".to_owned()),
        ("--link-design", "pctcp".to_owned()),
        ("--scheduler", "vanilla".to_owned()),
        ("--circuit-scheduler", "ewma".to_owned()),
        ("--conn-limit", DESCRIPTORS.to_owned()),
        ("--relay-statistics", format!("statistics:{VICTIM}")),
        ("--attack", "circuits:webclient1".to_owned()),
        ("--attack-victim", VICTIM.to_owned()),
        ("--attack-count", circuits.to_string()),
        ("--attack-every", "6s".to_owned()),
        ("--attack-start", format!("{start_s}s")),
        ("--attack-stop", format!("{}s", stop_s + 5.0)),
    ];
    // Natively certificates have to hold today.
    let date = (kernel == Kernel::Native).then(|| "--start-date=now".to_owned());
    options.into_iter().map(|(name, value)| format!("{name}={value}")).chain(date).collect()
}

pub fn cases(setting: &Setting) -> Vec<Case> {
    let amounts = Amounts::of(setting.size);
    let case = |key: String, experiment: Experiment, memory_bytes: u64| Case {
        key,
        factors: vec![("design", String::new()), ("scale", String::new()), ("clients", String::new())],
        experiment,
        options: vec![PARALLELISM.to_owned(), "1".to_owned()],
        memory_bytes,
    };
    let mut all = Vec::new();
    if is_wanted(setting, "2c") {
        let count = amounts.native;
        all.push(case(NATIVE_SOCKETS.to_owned(), Experiment::NativeSockets { count }, count * 5000));
        all.extend(amounts.steps().map(|count| {
            case(sockets_key(count), Experiment::File(experiment::sockets(count)), count * 3000 + (1 << 26))
        }));
    }
    if is_wanted(setting, "3") {
        let circuits = (amounts.stop_s - amounts.start_s) / 6.0 * f64::from(amounts.circuits);
        let memory_bytes = (circuits * 60e3) as u64 + (1 << 29);
        all.extend(Kernel::ALL.map(|kernel| {
            let (name, options) = (format!("imux-{}", relay_key(kernel)), options(amounts, kernel));
            let experiment = match kernel {
                Kernel::Native => Experiment::NativeVictim { name, options, relay: VICTIM },
                Kernel::Simulated => Experiment::Victim { name, options, relay: VICTIM },
            };
            case(relay_key(kernel), experiment, memory_bytes)
        }));
    }
    all
}

pub fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let study = Study { amounts: Amounts::of(setting.size), size: setting.size, measurements };
    let mut found = Findings::default();
    if is_wanted(setting, "2c") {
        found = found.and(study.memory());
    }
    if is_wanted(setting, "3") {
        found = found.and(study.opening());
    }
    found
}

struct Study<'a> {
    amounts: Amounts,
    size: Size,
    measurements: &'a Measurements,
}

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Regression {
    slope: f64,
    /// Where it is at 0.
    start: f64,
}

impl Regression {
    /// None of fewer than three points, or of points above one another.
    fn of(points: &[(f64, f64)]) -> Option<Regression> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let along: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        (points.len() > 2 && spread > 0.0).then(|| Regression { slope: along / spread, start: y - along / spread * x })
    }

    fn at(self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

/// What of a moment a part of figure 3 is about.
type OfMoment = fn(&Moment) -> f64;
const THROUGHPUT: OfMoment = |moment| moment.relayed_bytes_per_s;
const OPENING: OfMoment = |moment| moment.open_s;

/// Figure 2c.
impl Study<'_> {
    fn memory(&self) -> Findings {
        let simulated = self.amounts.simulated;
        Findings {
            notes: vec![self.limits()],
            judgements: self.memory_judgements(),
            figures: vec![self.memory_figure()],
            tables: vec![Table {
                title: "Memory of sockets, both ends of connections over loopback".to_owned(),
                header: words(&["Kernel", "Sockets", "Memory of each", "Run time"]),
                rows: vec![
                    self.memory_row(Kernel::Native, NATIVE_SOCKETS),
                    self.memory_row(Kernel::Simulated, &sockets_key(simulated)),
                ],
                text_columns: 1,
            }],
        }
    }

    fn limits(&self) -> String {
        let limits =
            self.measurements.paired(NATIVE_SOCKETS, NATIVE_SOCKETS, |reading, _| reading.socket_limit.clone());
        let native = match limits.into_iter().flatten().next() {
            Some(limit) => format!("Natively no more sockets were given: {limit}."),
            None => format!(
                "Natively as many were opened as were wanted, {}, by several processes where one may not have them.",
                self.amounts.native
            ),
        };
        let wanted =
            if self.size == Size::Full { "" } else { " The published number, over a million, is that of --size full." };
        format!(
            "Figure 2c: {native} Their memory is that of the kernel\u{2019}s objects (Slab in /proc/meminfo), to which other programs add by chance; Gnomon\u{2019}s is its proportional \
             set size, less that of a run with two sockets.{wanted}"
        )
    }

    /// Of each repetition, by the number of sockets: their memory.
    fn memory_points(&self, kernel: Kernel) -> Vec<Vec<(f64, f64)>> {
        match kernel {
            Kernel::Native => self.measurements.paired(NATIVE_SOCKETS, NATIVE_SOCKETS, |reading, _| {
                reading.sockets.iter().map(|sockets| (sockets.open, sockets.bytes)).collect()
            }),
            Kernel::Simulated => {
                let [least, more @ ..] = self.amounts.steps();
                let added = more.map(|count| {
                    let added = |many: &Reading, few: &Reading| many.peak_pss_bytes - few.peak_pss_bytes;
                    (count as f64, self.measurements.paired(&sockets_key(count), &sockets_key(least), added))
                });
                let complete = added.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
                let of_repetition = |at: usize| {
                    let zero = std::iter::once((0.0, 0.0));
                    zero.chain(added.iter().map(|(count, values)| (*count, values[at]))).collect()
                };
                (0..complete).map(of_repetition).collect()
            }
        }
    }

    /// Bytes of a socket, by regression.
    fn each(&self, kernel: Kernel) -> Vec<f64> {
        let points = self.memory_points(kernel);
        points.iter().filter_map(|points| Some(Regression::of(points)?.slope)).collect()
    }

    fn most(&self, kernel: Kernel) -> Vec<f64> {
        let most = |points: &Vec<(f64, f64)>| points.iter().map(|point| point.0).fold(0.0, f64::max);
        self.memory_points(kernel).iter().map(most).collect()
    }

    fn memory_row(&self, kernel: Kernel, key: &str) -> Vec<String> {
        vec![
            kernel.title().to_owned(),
            told(Unit::Count, &self.most(kernel)),
            told(Unit::Bytes, &self.each(kernel)),
            cell(self.measurements, key, WALL),
        ]
    }

    fn memory_figure(&self) -> Figure {
        let series = Kernel::ALL.iter().enumerate().map(|(at, kernel)| {
            let points = self.memory_points(*kernel).into_iter().next().unwrap_or_default();
            let points = points.into_iter().map(|(x, y)| Point { x, y, interval: None }).collect();
            Series::line(kernel.title().to_owned(), Ink::solid(at), points)
        });
        Figure {
            id: "imux-2c".to_owned(),
            title: "Figure 2c: Memory of open sockets".to_owned(),
            subtitle: "both ends of connections over loopback, which say nothing".to_owned(),
            caption: "Of the first repetition.".to_owned(),
            chart: Chart::Plot(Plot {
                x: Axis::new("Open sockets", "sockets", Unit::Count).from(0.0),
                y: Axis::new("Memory", "memory_bytes", Unit::Bytes).from(0.0),
                series: series.filter(|series| !series.points.is_empty()).collect(),
                interval: Along::Y,
                names_at_ends: false,
                moments: Vec::new(),
                reference: None,
            }),
        }
    }

    fn memory_judgements(&self) -> Vec<Judgement> {
        let source = Source { publication: &PAPER, passage: "section 3.3, Figure 2c" };
        let mut all = Vec::new();
        for kernel in Kernel::ALL {
            let title = kernel.title();
            let obstacle =
                (self.size != Size::Full).then(|| "fewer than published were wanted: --size full".to_owned());
            let claim = Claim {
                statement: format!("More than a million sockets can be open: {title}"),
                published: "over a million".to_owned(),
                source,
                bound: Bound::AtLeast(1_000_001.0),
                unit: Unit::Count,
            };
            all.push(claim.judge(&self.most(kernel), obstacle));
            let halves = |points: &Vec<(f64, f64)>| {
                let last = points.last().map_or(0.0, |point| point.0);
                let slope = |of: &dyn Fn(f64) -> bool| {
                    let half: Vec<(f64, f64)> = points.iter().copied().filter(|point| of(point.0 / last)).collect();
                    let (first, end) = (half.first()?, half.last()?);
                    (end.0 > first.0).then(|| (end.1 - first.1) / (end.0 - first.0))
                };
                Some(slope(&|share| share >= 0.5)? / slope(&|share| share <= 0.5)?)
            };
            let claim = Claim {
                statement: format!("Each further socket takes as much memory as those before: {title}"),
                published: "it grows with their number".to_owned(),
                source,
                bound: Bound::Between(0.8, 1.25),
                unit: Unit::Fraction,
            };
            let obstacle =
                (self.size == Size::Smallest).then(|| "they are too few for a verdict: --size small".to_owned());
            all.push(
                claim.judge(&self.memory_points(kernel).iter().filter_map(halves).collect::<Vec<f64>>(), obstacle),
            );
        }
        all
    }
}

/// Figure 3.
impl Study<'_> {
    fn opening(&self) -> Findings {
        let kinds = [
            (THROUGHPUT, "Throughput", "throughput_bits_per_s", Unit::BitsPerSecond, ["3a", "3b"]),
            (OPENING, "Time to open a socket", "open_s", Unit::Seconds, ["3c", "3d"]),
        ];
        let figures = kinds.into_iter().flat_map(|(of, title, column, unit, [by_time, by_sockets])| {
            [self.by_time(of, title, column, unit, by_time), self.by_sockets(of, title, column, unit, by_sockets)]
        });
        Findings {
            notes: vec![self.opening_note()],
            judgements: self.opening_judgements(),
            figures: figures.collect(),
            tables: vec![self.opening_table()],
        }
    }

    fn opening_note(&self) -> String {
        let Amounts { circuits, start_s, stop_s, .. } = self.amounts;
        format!(
            "Figure 3: {circuits} circuits every 6 s from {start_s} to {stop_s} s through one relay in a network of three whose circuits each have a connection (pctcp), while five clients fetch 5 MiB without end. \
             Natively each host is a network namespace of this machine, which has no lines of a given speed, so that processors are what is short; what else they do there counts. Simulated, clients have 3 Mbit/s each. A simulated kernel takes no \
             simulated time to look for a port or a socket: a system call takes a microsecond whatever it does, so its time to open a socket says nothing of the number of sockets, \
             and throughput does not fall. With cpu_speed computing would take time, but not by the number of sockets either. \
             Natively a relay may have no more descriptors than the hard limit of RLIMIT_NOFILE says (ulimit -Hn). The fall is that of a regression over the attack, by descriptors."
        )
    }

    /// Moments while sockets are opened.
    fn moments<'a>(&self, reading: &'a Reading) -> impl Iterator<Item = &'a Moment> + use<'a> {
        let Amounts { start_s, stop_s, .. } = self.amounts;
        reading.victim.iter().filter(move |moment| moment.from_s >= start_s && moment.from_s < stop_s)
    }

    /// Of each repetition: points by descriptors.
    fn of_sockets(&self, kernel: Kernel, of: OfMoment) -> Vec<Vec<(f64, f64)>> {
        let key = relay_key(kernel);
        self.measurements.paired(&key, &key, |reading, _| {
            let points = self.moments(reading).map(|moment| (moment.descriptors, of(moment)));
            points.filter(|point| point.1.is_finite()).collect()
        })
    }

    /// Of each repetition: something of its regression, and of the fewest and the most descriptors.
    fn regressions(&self, kernel: Kernel, of: OfMoment, result: impl Fn(Regression, f64, f64) -> f64) -> Vec<f64> {
        let of_points = |points: &Vec<(f64, f64)>| {
            let ends = points.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), point| (a.min(point.0), b.max(point.0)));
            Some(result(Regression::of(points)?, ends.0, ends.1))
        };
        self.of_sockets(kernel, of).iter().filter_map(of_points).collect()
    }

    fn falls(&self, kernel: Kernel) -> Vec<f64> {
        self.regressions(kernel, THROUGHPUT, |line, least, most| line.at(least) - line.at(most))
    }

    fn growths(&self, kernel: Kernel) -> Vec<f64> {
        self.regressions(kernel, OPENING, |line, least, most| line.at(most) / line.at(least))
    }

    fn most_descriptors(&self, kernel: Kernel) -> Vec<f64> {
        self.regressions(kernel, THROUGHPUT, |_, _, most| most)
    }

    fn by_time(&self, of: OfMoment, title: &str, column: &'static str, unit: Unit, figure: &str) -> Figure {
        let series = Kernel::ALL.iter().enumerate().map(|(at, kernel)| {
            let key = relay_key(*kernel);
            let runs = self.measurements.paired(&key, &key, |reading, _| {
                let moments = reading.victim.iter().filter(|moment| of(moment).is_finite());
                moments.map(|moment| (moment.from_s, scaled(unit, of(moment)))).collect::<Vec<_>>()
            });
            let points = runs.into_iter().next().unwrap_or_default();
            let points = points.into_iter().map(|(x, y)| Point { x, y, interval: None }).collect();
            Series::line(kernel.title().to_owned(), Ink::solid(at), points)
        });
        plot(
            format!("imux-{figure}"),
            format!("Figure {figure}: {title}"),
            "of the relay that opens sockets, over time, in the first repetition",
            (Axis::new("Time", "time_s", Unit::Seconds), Axis::new(title, column, unit).from(0.0)),
            series.filter(|series| !series.points.is_empty()).collect(),
            Some((self.amounts.start_s, "the attack begins")),
        )
    }

    fn by_sockets(&self, of: OfMoment, title: &str, column: &'static str, unit: Unit, figure: &str) -> Figure {
        let mut series = Vec::new();
        for (at, kernel) in Kernel::ALL.iter().enumerate() {
            let runs = self.of_sockets(*kernel, of);
            let Some(mut points) = runs.into_iter().next() else { continue };
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let line = Regression::of(&points);
            let point = |(x, y): (f64, f64)| Point { x, y: scaled(unit, y), interval: None };
            let ends = [points.first(), points.last()].map(|end| end.map_or(0.0, |end| end.0));
            let name = kernel.title();
            series.push(Series::line(name.to_owned(), Ink::solid(at), points.into_iter().map(point).collect()));
            if let Some(line) = line {
                let points = ends.map(|x| point((x, line.at(x)))).to_vec();
                series.push(Series::line(format!("{name}, regression"), Ink::dashed(at, 1), points));
            }
        }
        plot(
            format!("imux-{figure}"),
            format!("Figure {figure}: {title} by open sockets"),
            "of the relay that opens sockets, while it does, in the first repetition",
            (Axis::new("Descriptors", "descriptors", Unit::Count).from(0.0), Axis::new(title, column, unit).from(0.0)),
            series,
            None,
        )
    }

    fn opening_table(&self) -> Table {
        let row = |kernel: Kernel| {
            let ends = |least: bool| {
                let at = move |line: Regression, from: f64, to: f64| line.at(if least { from } else { to });
                self.regressions(kernel, OPENING, at)
            };
            vec![
                kernel.title().to_owned(),
                told(Unit::Count, &self.most_descriptors(kernel)),
                told(Unit::Bytes, &self.regressions(kernel, THROUGHPUT, |line, least, _| line.at(least))),
                told(Unit::Bytes, &self.falls(kernel)),
                micro(&ends(true)),
                micro(&ends(false)),
                cell(self.measurements, &relay_key(kernel), WALL),
            ]
        };
        Table {
            title: "A relay while sockets are opened, by regressions over the number of its descriptors".to_owned(),
            header: words(&[
                "Kernel",
                "Descriptors",
                "Throughput per s, first",
                "Fall",
                "Time to open one, first",
                "Last",
                "Run time",
            ]),
            rows: Kernel::ALL.map(row).to_vec(),
            text_columns: 1,
        }
    }

    fn opening_judgements(&self) -> Vec<Judgement> {
        let mut all = Vec::new();
        for kernel in Kernel::ALL {
            let obstacle = || match (kernel, self.size) {
                (Kernel::Simulated, _) => Some("what a kernel does takes no simulated time".to_owned()),
                (_, Size::Full) => None,
                _ => Some("fewer sockets than published were wanted: --size full".to_owned()),
            };
            let title = kernel.title();
            let mut add = |passage, statement: String, published: &str, bound, unit, values: &[f64]| {
                let source = Source { publication: &PAPER, passage };
                let claim = Claim { statement, published: published.to_owned(), source, bound, unit };
                all.push(claim.judge(values, obstacle()));
            };
            add(
                "section 3.3, Figure 3",
                format!("The relay has more than 50,000 sockets: {title}"),
                "more than 50 thousand in just over 2,500 s",
                Bound::AtLeast(50_000.0),
                Unit::Count,
                &self.most_descriptors(kernel),
            );
            add(
                "section 3.3, Figures 3a and 3b",
                format!("Its throughput falls by 750 KiB/s at least: {title}"),
                "more than 750 KiB/s",
                Bound::AtLeast(PUBLISHED_FALL),
                Unit::Bytes,
                &self.falls(kernel),
            );
            add(
                "section 3.3, Figures 3c and 3d",
                format!("The time to open a socket at least doubles: {title}"),
                "more than doubled",
                Bound::AtLeast(2.0),
                Unit::Fraction,
                &self.growths(kernel),
            );
        }
        all
    }
}

/// Bytes per second are shown in bits.
fn scaled(unit: Unit, value: f64) -> f64 {
    if unit == Unit::BitsPerSecond { 8.0 * value } else { value }
}

fn told(unit: Unit, values: &[f64]) -> String {
    let found = Estimate::of(values).filter(|found| found.mean.is_finite());
    found.map_or_else(|| "–".to_owned(), |found| shown(unit, found.mean, found.error))
}

/// In microseconds, which are too short for the unit of other times.
fn micro(values: &[f64]) -> String {
    let micro: Vec<f64> = values.iter().map(|value| value * 1e6).collect();
    point(0.0, &micro).map_or_else(|| "–".to_owned(), |found| format!("{:.1} µs", found.y))
}

fn plot(
    id: String,
    title: String,
    subtitle: &str,
    (x, y): (Axis, Axis),
    series: Vec<Series>,
    moment: Option<(f64, &'static str)>,
) -> Figure {
    Figure {
        id,
        title,
        subtitle: subtitle.to_owned(),
        caption: "Each point is of ten seconds.".to_owned(),
        chart: Chart::Plot(Plot {
            x,
            y,
            series,
            interval: Along::Y,
            names_at_ends: false,
            moments: moment.into_iter().collect(),
            reference: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(setting: &Setting, of: impl Fn(&str) -> serde_json::Value) -> Measurements {
        let mut all = Measurements::new(cases(setting), setting);
        for measured in all.cases_mut() {
            let mut stats: serde_json::Value = serde_json::from_str(&crate::reading::tests::stats(1.0, 1)).unwrap();
            let key = measured.case.key.clone();
            for (name, value) in of(&key).as_object().expect("members") {
                match name.as_str() {
                    "pss" => stats["gnomon"]["memory"]["peak_pss_bytes"] = value.clone(),
                    _ => stats[name] = value.clone(),
                }
            }
            (1..=2).for_each(|repetition| measured.add(repetition, &stats.to_string()));
        }
        all
    }

    fn verdicts(found: &Findings) -> Vec<&str> {
        found.judgements.iter().map(|judgement| judgement.verdict.name()).collect()
    }

    #[test]
    fn figures_choose_what_runs() {
        let keys = |size, figures: &[&str]| {
            cases(&Setting::tried(size, figures)).into_iter().map(|case| case.key).collect::<Vec<_>>()
        };
        assert_eq!(keys(Size::Small, &["3"]), ["opening-native", "opening-simulated"]);
        assert_eq!(keys(Size::Small, &["2c"]).len(), 5);
        assert!(keys(Size::Small, &[]).is_empty() && keys(Size::Full, &[]).len() == 7);
        let options = options(Amounts::of(Size::Full), Kernel::Native);
        assert!(options.contains(&"--start-date=now".to_owned()) && options.contains(&"--attack-count=65".to_owned()));
    }

    #[test]
    fn a_regression_is_the_line_of_its_points() {
        let line = Regression::of(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).expect("a line");
        assert!((line.slope - 2.0).abs() < 1e-12 && (line.at(10.0) - 21.0).abs() < 1e-12);
        assert_eq!(Regression::of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Regression::of(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }

    #[test]
    fn memory_of_sockets_is_judged_by_number_and_growth() {
        let setting = Setting::tried(Size::Full, &["2c"]);
        let all = measured(&setting, |key| match key.rsplit_once("sockets-simulated-") {
            Some((_, count)) => serde_json::json!({"pss": 1e6 + 2000.0 * count.parse::<f64>().expect("a number")}),
            None => serde_json::json!({
                "sockets": [[0, 0, null], [10_000, 4e7, 1e-5], [20_000, 8e7, 1e-5], [30_000, 1.6e8, 1e-5]],
                "socket_limit": "Too many open files",
            }),
        });
        let found = findings(&setting, &all);
        assert_eq!(verdicts(&found), ["contradicted", "contradicted", "confirmed", "confirmed"]);
        assert!(found.notes[0].contains("Too many open files"), "{}", found.notes[0]);
        assert_eq!((found.figures.len(), found.tables[0].rows[1][2].as_str()), (1, "1.95 ± 0.00\u{a0}KiB"));
    }

    #[test]
    fn a_relay_is_judged_by_its_regressions_natively() {
        let setting = Setting::tried(Size::Full, &["3"]);
        let moment = |at: u32| {
            let share = f64::from(at) / 250.0;
            serde_json::json!([
                300.0 + f64::from(at) * 10.0,
                4e6 - 1e6 * share,
                52_000.0 * share,
                26_000.0 * share,
                1e-5 + 2e-5 * share
            ])
        };
        let all = measured(&setting, |_| serde_json::json!({"victim": (0..250).map(moment).collect::<Vec<_>>()}));
        let found = findings(&setting, &all);
        let expected = ["confirmed", "confirmed", "confirmed", "undecided", "undecided", "undecided"];
        assert_eq!(verdicts(&found), expected, "{:?}", found.judgements);
        assert_eq!((found.figures.len(), found.tables[0].rows.len()), (4, 2));
        let small = Setting { size: Size::Small, ..setting };
        assert!(verdicts(&findings(&small, &all)).iter().all(|verdict| *verdict == "undecided"));
    }
}
