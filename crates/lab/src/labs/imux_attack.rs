//! Figures 2b and 6 of `imux`: a relay whose sockets are used up by circuits, in each design of the connections between relays.

use super::imux::PAPER;
use super::{Findings, cell, point, words};
use crate::case::{Case, Experiment, PARALLELISM, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Source};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{Moment, Reading, WALL};
use report::Estimate;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, Series, Unit};
use report::html::Table;
use std::ops::Range;

/// Figures of this file.
const FIGURES: [&str; 2] = ["2b", "6"];

/// Who is attacked.
const VICTIM: &str = "middle1";
/// Descriptors of the victim, the usual limit of Linux in 2014 (section 3.2). The others have as many as in the figures about downloads.
const DESCRIPTORS: f64 = 4096.0;

struct Design {
    key: &'static str,
    title: &'static str,
    figures: &'static [&'static str],
    options: &'static [&'static str],
}

const DESIGNS: [Design; 4] = [
    Design { key: "vanilla", title: "vanilla", figures: &["2b", "6"], options: &["--link-design=vanilla"] },
    Design { key: "torchestra", title: "Torchestra", figures: &["2b", "6"], options: &["--link-design=torchestra"] },
    Design { key: "pctcp", title: "PCTCP", figures: &["2b", "6"], options: &["--link-design=pctcp"] },
    Design {
        key: "imux",
        title: "IMUX",
        figures: &["6"],
        options: &["--link-design=imux", "--connection-scheduler=circuit-rr"],
    },
];

/// When it is attacked, in seconds of simulated time, and how long something may take that the paper lets take a quarter of an hour.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From when on what it relays counts.
    settled_s: f64,
    start_s: f64,
    stop_s: f64,
    end_s: f64,
    quarter_s: f64,
    /// Circuits that begin every 6 s.
    count: u32,
}

impl Times {
    fn of(size: Size) -> Times {
        match size {
            Size::Smallest => {
                Times { settled_s: 80.0, start_s: 110.0, stop_s: 130.0, end_s: 150.0, quarter_s: 6.0, count: 30 }
            }
            Size::Small => {
                Times { settled_s: 150.0, start_s: 600.0, stop_s: 900.0, end_s: 1350.0, quarter_s: 150.0, count: 1000 }
            }
            // Section 3.3's.
            Size::Full => Times {
                settled_s: 600.0,
                start_s: 1800.0,
                stop_s: 3600.0,
                end_s: 5400.0,
                quarter_s: 900.0,
                count: 1000,
            },
        }
    }

    fn before(self) -> Range<f64> {
        self.settled_s..self.start_s
    }

    fn during(self) -> Range<f64> {
        self.start_s..self.stop_s
    }

    /// The rest of the attack, after so much of a quarter of an hour of it.
    fn during_after(self, share: f64) -> Range<f64> {
        self.start_s + share * self.quarter_s..self.stop_s
    }

    fn afterwards(self) -> Range<f64> {
        self.stop_s + self.quarter_s..self.end_s
    }
}

fn is_wanted(setting: &Setting, figure: &str) -> bool {
    match &setting.figures[..] {
        [] => setting.size == Size::Full,
        wanted => wanted.iter().any(|wanted| wanted == figure),
    }
}

fn is_shown(setting: &Setting, design: &Design) -> bool {
    design.figures.iter().any(|figure| is_wanted(setting, figure))
}

fn key(design: &Design) -> String {
    format!("attack-{}", design.key)
}

fn options(setting: &Setting, design: &Design) -> Vec<String> {
    let Times { start_s, stop_s, end_s, count, .. } = Times::of(setting.size);
    let clients = if setting.size == Size::Smallest { 10 } else { 300 };
    let network = [
        ("--profile", "tiny".to_owned()),
        ("--guards", "4".to_owned()),
        ("--middles", "2".to_owned()),
        ("--exits", "4".to_owned()),
        ("--guard-exits", "0".to_owned()),
        // Who attacks.
        ("--web-clients", "1".to_owned()),
        ("--bulk-clients", "0".to_owned()),
        ("--performance-clients", clients.to_string()),
        ("--performance-sizes", "100 KiB".to_owned()),
        ("--servers", "5".to_owned()),
        ("--amount", "endless".to_owned()),
        ("--bootstrap", "75s".to_owned()),
        ("--duration", format!("{end_s}s")),
        ("--relay-bandwidth", "200 Mbit".to_owned()),
        ("--client-link", "lan:100 Mbit:100 Mbit:10 ms".to_owned()),
        ("--congestion-control", "fixed".to_owned()),
        ("--relay-kind", "gnomon".to_owned()),
        ("--client-kind", "gnomon".to_owned()),
        ("--scheduler", "vanilla".to_owned()),
        ("--circuit-scheduler", "ewma".to_owned()),
        ("--conn-limit", "1024".to_owned()),
        ("--conn-limit", format!("{DESCRIPTORS}:{VICTIM}")),
        ("--relay-statistics", format!("statistics:{VICTIM}")),
        ("--attack", "circuits:webclient1".to_owned()),
        ("--attack-victim", VICTIM.to_owned()),
        ("--attack-count", count.to_string()),
        ("--attack-every", "6s".to_owned()),
        ("--attack-start", format!("{start_s}s")),
        ("--attack-stop", format!("{stop_s}s")),
    ];
    let network = network.into_iter().map(|(name, value)| format!("{name}={value}"));
    network.chain(design.options.iter().map(|option| (*option).to_owned())).collect()
}

pub fn cases(setting: &Setting) -> Vec<Case> {
    let times = Times::of(setting.size);
    let circuits = (times.stop_s - times.start_s) / 6.0 * f64::from(times.count);
    let case = |design: &Design| Case {
        key: key(design),
        factors: vec![("design", design.key.to_owned()), ("scale", String::new()), ("clients", String::new())],
        experiment: Experiment::Victim {
            name: format!("imux-attack-{}", design.key),
            options: options(setting, design),
            relay: VICTIM,
        },
        options: vec![PARALLELISM.to_owned(), setting.processors.max(1).to_string()],
        memory_bytes: (circuits * 12e3 + f64::from(1 << 30)) as u64,
    };
    DESIGNS.iter().filter(|design| is_shown(setting, design)).map(case).collect()
}

pub fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let designs: Vec<&Design> = DESIGNS.iter().filter(|design| is_shown(setting, design)).collect();
    if designs.is_empty() {
        return Findings::default();
    }
    let study = Study { times: Times::of(setting.size), size: setting.size, measurements };
    Findings {
        notes: vec![study.note()],
        judgements: study.judgements(&designs),
        figures: FIGURES
            .into_iter()
            .filter(|figure| is_wanted(setting, figure))
            .filter_map(|figure| study.figure(figure, &designs))
            .collect(),
        tables: vec![study.table(&designs)],
    }
}

struct Study<'a> {
    times: Times,
    size: Size,
    measurements: &'a Measurements,
}

/// The mean of what was relayed, in bytes per second; not a number if nothing is known of that time.
fn relayed(reading: &Reading, time: &Range<f64>) -> f64 {
    let of_time: Vec<f64> = moments(reading, time).map(|moment| moment.relayed_bytes_per_s).collect();
    of_time.iter().sum::<f64>() / of_time.len() as f64
}

fn moments<'a>(reading: &'a Reading, time: &Range<f64>) -> impl Iterator<Item = &'a Moment> + use<'a> {
    let Range { start, end } = time.clone();
    reading.victim.iter().filter(move |moment| moment.from_s >= start && moment.from_s < end)
}

impl Study<'_> {
    fn note(&self) -> String {
        let Times { start_s, stop_s, end_s, quarter_s, count, .. } = self.times;
        let shortened = match self.size {
            Size::Full => "Times are the published ones".to_owned(),
            _ => format!(
                "Shortened: published are 1,800 to 3,600 s, and what may take 15 min there may take {quarter_s} s here"
            ),
        };
        format!(
            "Figures 2b and 6: {count} circuits every 6 s through one of two middle relays, by a light client, from {start_s} to {stop_s} s of {end_s} s. \
             {shortened}. 300 light clients each fetch 100 KiB once a minute on a circuit of its own, so that what the victim relays follows soon from \
             whether circuits through it can be built, and varies little by chance: by some 7 % from minute to minute, 2 % between half hours. IMUX counts all circuits that are open."
        )
    }

    /// Something of each repetition of a design.
    fn values(&self, design: &Design, of: impl Fn(&Reading) -> f64) -> Vec<f64> {
        let key = key(design);
        self.measurements.paired(&key, &key, |reading, _| of(reading))
    }

    /// What is relayed in that time, over what is before the attack.
    fn share(&self, design: &Design, time: &Range<f64>) -> Vec<f64> {
        let before = self.times.before();
        self.values(design, |reading| relayed(reading, time) / relayed(reading, &before))
    }

    /// The least of that over a third of a quarter of an hour.
    fn least(&self, design: &Design, time: &Range<f64>) -> Vec<f64> {
        let (before, length) = (self.times.before(), self.times.quarter_s / 3.0);
        self.values(design, |reading| {
            let count = ((time.end - time.start) / length).floor().max(1.0) as u32;
            let part = |at: u32| time.start + f64::from(at) * length..time.start + f64::from(at + 1) * length;
            let shares = (0..count).map(|at| relayed(reading, &part(at)) / relayed(reading, &before));
            shares.fold(f64::INFINITY, f64::min)
        })
    }

    fn most(&self, design: &Design, of: impl Fn(&Moment) -> f64) -> Vec<f64> {
        self.values(design, |reading| reading.victim.iter().map(&of).fold(f64::NAN, f64::max))
    }

    fn figure(&self, figure: &str, designs: &[&Design]) -> Option<Figure> {
        let designs: Vec<&&Design> = designs.iter().filter(|design| design.figures.contains(&figure)).collect();
        if designs.len() < if figure == "6" { 4 } else { 2 } {
            return None;
        }
        let series = designs.iter().enumerate().map(|(at, design)| Series {
            name: design.title.to_owned(),
            key: None,
            ink: Ink::solid(at),
            is_step: false,
            points: self.points(design),
        });
        Some(Figure {
            id: format!("imux-{figure}"),
            title: format!("Figure {figure}: Throughput of a relay under attack"),
            subtitle: "what the victim relays for others, by the design of connections between relays".to_owned(),
            caption: "Means over a minute and the repetitions.".to_owned(),
            chart: Chart::Plot(Plot {
                x: Axis::new("Simulated time", "time_s", Unit::Seconds),
                y: Axis::new("Throughput", "throughput_bits_per_s", Unit::BitsPerSecond).from(0.0),
                series: series.filter(|series| !series.points.is_empty()).collect(),
                interval: Along::Y,
                names_at_ends: false,
                moments: vec![(self.times.start_s, "the attack begins"), (self.times.stop_s, "the attack ends")],
                reference: None,
            }),
        })
    }

    /// A point for each minute; for each ten seconds where all is shorter.
    fn points(&self, design: &Design) -> Vec<Point> {
        let step = if self.size == Size::Smallest { 10.0 } else { 60.0 };
        let count = (self.times.end_s / step) as u32;
        let minute = |at: u32| {
            let time = f64::from(at) * step..f64::from(at + 1) * step;
            let values: Vec<f64> = self
                .values(design, |reading| 8.0 * relayed(reading, &time))
                .into_iter()
                .filter(|value| value.is_finite())
                .collect();
            Some(Point { interval: None, ..point(time.start + step / 2.0, &values)? })
        };
        (0..count).filter_map(minute).collect()
    }

    fn table(&self, designs: &[&Design]) -> Table {
        let told = |values: &[f64], unit: Unit| {
            let found = Estimate::of(values).filter(|found| found.mean.is_finite());
            found.map_or_else(|| "–".to_owned(), |found| shown(unit, found.mean, found.error))
        };
        let before = self.times.before();
        let row = |design: &&Design| {
            vec![
                design.title.to_owned(),
                told(&self.values(design, |reading| 8.0 * relayed(reading, &before)), Unit::BitsPerSecond),
                told(&self.share(design, &self.times.during()), Unit::Share),
                told(&self.least(design, &self.times.during()), Unit::Share),
                told(&self.share(design, &self.times.during_after(1.0)), Unit::Share),
                told(&self.share(design, &self.times.afterwards()), Unit::Share),
                told(&self.most(design, |moment| moment.circuits), Unit::Count),
                told(&self.most(design, |moment| moment.descriptors), Unit::Count),
                cell(self.measurements, &key(design), WALL),
            ]
        };
        Table {
            title: format!(
                "What the victim relays, over what it relayed before the attack; the least of {} s each; the most that it had",
                self.times.quarter_s / 3.0
            ),
            header: words(&[
                "Design",
                "Before",
                "Attacked",
                "At least",
                "Late",
                "Afterwards",
                "Circuits",
                "Descriptors",
                "Run time",
            ]),
            rows: designs.iter().map(row).collect(),
            text_columns: 1,
        }
    }

    fn judgements(&self, designs: &[&Design]) -> Vec<Judgement> {
        let obstacle =
            || (self.size == Size::Smallest).then(|| "it is too short for a verdict: --size small".to_owned());
        let minutes = |share: f64| {
            let seconds = share * self.times.quarter_s;
            if self.size == Size::Full { format!("{:.0} min", seconds / 60.0) } else { format!("{seconds:.0} s") }
        };
        let mut all = Vec::new();
        let mut add = |figure: &str, statement: String, published: &str, bound: Bound, values: Vec<f64>| {
            if values.is_empty() {
                return;
            }
            let source = Source {
                publication: &PAPER,
                passage: if figure == "2b" { "section 3.3, Figure 2b" } else { "section 5.3, Figure 6" },
            };
            let unit = if matches!(bound, Bound::AtMost(most) if most > 1.0) { Unit::Count } else { Unit::Share };
            let claim = Claim { statement, published: published.to_owned(), source, bound, unit };
            all.push(claim.judge(&values, obstacle()));
        };
        for design in designs {
            let title = design.title;
            match design.key {
                "pctcp" => {
                    let statement = format!(
                        "From {} of the attack on, PCTCP's victim relays less than 5 % of what it did before",
                        minutes(1.0)
                    );
                    let late = self.share(design, &self.times.during_after(1.0));
                    add("2b", statement, "close to 0", Bound::AtMost(0.05), late);
                    let statement =
                        format!("From {} after the attack on it relays more than 90 % of that again", minutes(1.0));
                    let afterwards = self.share(design, &self.times.afterwards());
                    add("2b", statement, "recovers", Bound::AtLeast(0.9), afterwards);
                }
                "imux" => {
                    let statement = format!(
                        "From {} of the attack on, IMUX's victim relays at least 90 % of what it did before",
                        minutes(1.0 / 3.0)
                    );
                    let late = self.share(design, &self.times.during_after(1.0 / 3.0));
                    add("6", statement, "recovers to vanilla's", Bound::AtLeast(0.9), late);
                    let most = self.most(design, |moment| moment.descriptors);
                    let statement = "IMUX's victim is never at its limit of 4,096 descriptors".to_owned();
                    add("6", statement, "resists", Bound::AtMost(DESCRIPTORS - 1.0), most);
                }
                _ => {
                    let statement = format!("Attacked, {title}'s victim relays at least 95 % of what it did before");
                    let during = self.share(design, &self.times.during());
                    add("6", statement, "unaffected", Bound::AtLeast(0.95), during);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `sim-stats.json` of a run whose victim relays so much before the attack, and so much while it lasts.
    fn stats(times: Times, before: f64, during: f64) -> String {
        let mut stats: serde_json::Value = serde_json::from_str(&crate::reading::tests::stats(1.0, 1)).unwrap();
        let moment = |at: u32| {
            let from_s = f64::from(at) * 10.0;
            let relayed = if times.during().contains(&from_s) { during } else { before };
            serde_json::json!([from_s, relayed, 4000, 50])
        };
        stats["victim"] = (0..(times.end_s / 10.0) as u32).map(moment).collect();
        stats.to_string()
    }

    #[test]
    fn figures_choose_designs() {
        let keys = |setting: &Setting| cases(setting).into_iter().map(|case| case.key).collect::<Vec<_>>();
        assert_eq!(
            keys(&Setting::tried(Size::Small, &["2b"])),
            ["attack-vanilla", "attack-torchestra", "attack-pctcp"]
        );
        assert_eq!(keys(&Setting::tried(Size::Small, &["6"])).len(), 4);
        assert!(
            keys(&Setting::tried(Size::Small, &[])).is_empty() && keys(&Setting::tried(Size::Full, &[])).len() == 4
        );
        let options = options(&Setting::tried(Size::Full, &["6"]), &DESIGNS[0]);
        for option in
            ["--attack-start=1800s", "--attack-stop=3600s", "--attack-count=1000", "--conn-limit=4096:middle1"]
        {
            assert!(options.contains(&option.to_owned()), "{options:?}");
        }
    }

    #[test]
    fn what_a_victim_relays_decides() {
        let setting = Setting::tried(Size::Small, &["6"]);
        let mut all = Measurements::new(cases(&setting), &setting);
        let times = Times::of(Size::Small);
        for measured in all.cases_mut() {
            let during = if measured.case.key == "attack-pctcp" { 1.0 } else { 98.0 };
            (1..=2).for_each(|repetition| {
                measured.add(repetition, &stats(times, 100.0 + f64::from(repetition) * 1e-6, during))
            });
        }
        let found = findings(&setting, &all);
        let verdicts: Vec<&str> = found.judgements.iter().map(|judgement| judgement.verdict.name()).collect();
        assert_eq!(verdicts, ["confirmed"; 6], "{:?}", found.judgements);
        assert_eq!((found.figures.len(), found.tables[0].rows.len()), (1, 4));
        for measured in all.cases_mut() {
            measured.readings.clear();
            (1..=2).for_each(|repetition| measured.add(repetition, &stats(times, 100.0, 50.0 + f64::from(repetition))));
        }
        let found = findings(&setting, &all);
        let verdicts: Vec<&str> = found.judgements.iter().map(|judgement| judgement.verdict.name()).collect();
        let expected = ["contradicted", "contradicted", "contradicted", "confirmed", "contradicted", "confirmed"];
        assert_eq!(verdicts, expected, "{:?}", found.judgements);
    }
}
