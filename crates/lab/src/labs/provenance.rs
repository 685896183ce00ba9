//! `provenance`: what it costs to record every packet.

use super::{Findings, Lab, bar, words};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Publication, Source};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::WALL;
use report::Estimate;
use report::chart::{Along, Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Plot, Point, Series, Unit};
use report::html::Table;

pub const LAB: Lab = Lab {
    name: "provenance",
    title: "Provenance: what recording every packet costs",
    about: "throughput of bulk transfers at each level of provenance",
    publications: &[&REPORT],
    published: "Bulk transfers between two programs on one machine, with a FreeBSD kernel whose packets carry a UUID and whose network stack fires probes of \
                DTrace as they pass, in five scenarios: over loopback with an MTU of 16 KB 3,029 MiB/s without any of it, 819 with the probes compiled in and \
                off, 84 with them on; with 1,500 bytes 553, 104 and 84.5. So 27 % of the throughput is left with probes that are off, 2.8 % with probes that \
                are on; 19 and 15 % with small packets. A hundred repetitions.",
    measured: "iperf3 sends as much over the loopback interface of a simulated host, and in 1,500-byte packets between two hosts with lines of 10 Gbit/s, at each \
               level of --provenance, with one worker: the thread that writes has a processor of its own. Throughput is by wall time, all of a run included, \
               relative to the run without a record. Both ends and the network between them are in the record here, and it is complete.",
    figures: &[],
    cases,
    findings,
};

/// The copy that this follows has lost its first page.
const REPORT: Publication = Publication {
    short: "the report on FreeBSD",
    authors: "Author unknown to us",
    title: "a report on fine-grained tracing in the network stack of the FreeBSD kernel, for CADETS",
    place: "University of Cambridge Computer Laboratory",
};

const OFF: &str = "off";
const SUMMARY: &str = "summary";
const LEVELS: [&str; 4] = [OFF, SUMMARY, "packets", "all"];

/// What else is made for each packet, at level `summary`, which has only its number.
const IDENTIFIERS: [(&str, &str); 2] = [("uuid1", "UUID of version 1"), ("uuid5", "UUID of version 5")];

/// A transfer: what packets it has, and what was published of it.
struct Transfer {
    name: &'static str,
    title: &'static str,
    /// Table 4.1, by scenario: mean and variance of the throughput in MiB/s.
    published: [(f64, f64); 5],
}

const TRANSFERS: [Transfer; 2] = [
    Transfer {
        name: "loopback",
        title: "over loopback",
        published: [(3028.90, 5320.36), (258.02, 23.30), (48.18, 2.24), (818.84, 860.33), (83.90, 6.54)],
    },
    Transfer {
        name: "packets",
        title: "in 1,500-byte packets",
        published: [(552.63, 49.66), (262.19, 9.71), (47.02, 6.73), (104.11, 9.92), (84.48, 2.60)],
    },
];

impl Transfer {
    /// What is left of the throughput with the probes compiled in and off, and with them on.
    fn published_left(&self) -> (f64, f64) {
        let [(without, _), .., (off, _), (on, _)] = self.published;
        (off / without, on / without)
    }
}

/// The five scenarios. What the second was stood in a figure that our copy lacks.
const SCENARIOS: [&str; 5] =
    ["1: the kernel as it was", "2", "3: the kernel's own probes on", "4: probes compiled in, off", "5: probes on"];

/// Repetitions from which on a distribution is drawn.
const LEAST_OF_DISTRIBUTION: usize = 5;

fn gibibytes(setting: &Setting) -> f64 {
    match setting.size {
        Size::Smallest => 0.0625,
        Size::Small => 4.0,
        Size::Full => 16.0,
    }
}

fn experiment(transfer: &Transfer, setting: &Setting) -> String {
    let mebibytes = (gibibytes(setting) * 1024.0) as u64;
    let network = "general: { stop_time: 1000 s }\nnetwork:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        \
                   node [ id 0 host_bandwidth_down \"10 Gbit\" host_bandwidth_up \"10 Gbit\" ]\n        edge [ source 0 target 0 latency \"1 ms\" ]\n      ]\n";
    let server = "{ path: iperf3, args: --server --one-off }";
    let client = |to| format!("{{ path: iperf3, args: --client {to} --bytes {mebibytes}M, start_time: 1 s }}");
    let hosts = if transfer.name == "loopback" {
        format!("hosts:\n  one: {{ network_node_id: 0, processes: [ {server}, {} ] }}\n", client("127.0.0.1"))
    } else {
        format!(
            "hosts:\n  server: {{ network_node_id: 0, processes: [ {server} ] }}\n  client: {{ network_node_id: 0, processes: [ {} ] }}\n",
            client("server")
        )
    };
    format!("{network}{hosts}")
}

fn key(transfer: &Transfer, level: &str) -> String {
    format!("{}-{level}", transfer.name)
}

fn cases(setting: &Setting) -> Vec<Case> {
    let case = |transfer: &Transfer, level: &str| Case {
        key: key(transfer, level),
        factors: vec![("transfer", transfer.title.to_owned()), ("provenance", level.to_owned())],
        experiment: Experiment::File(experiment(transfer, setting)),
        options: ["--parallelism", "1", "--provenance", level].map(str::to_owned).to_vec(),
        memory_bytes: 2 << 30,
    };
    let identified = |transfer: &Transfer, kind: &str| {
        let case = case(transfer, SUMMARY);
        let options = ["--packet-identifiers", kind].map(str::to_owned);
        Case {
            key: key(transfer, kind),
            factors: vec![case.factors[0].clone(), ("provenance", format!("{SUMMARY}, {kind}"))],
            options: [case.options, options.to_vec()].concat(),
            ..case
        }
    };
    let of_transfer = |transfer| {
        let levels = LEVELS.map(|level| case(transfer, level));
        levels.into_iter().chain(IDENTIFIERS.map(|(kind, _)| identified(transfer, kind))).collect::<Vec<Case>>()
    };
    TRANSFERS.iter().flat_map(of_transfer).collect()
}

/// By repetition: the throughput at this level over that without a record.
fn left(measurements: &Measurements, transfer: &Transfer, level: &str) -> Vec<f64> {
    measurements.ratios(&key(transfer, OFF), &key(transfer, level), WALL)
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let mut judgements = Vec::new();
    for transfer in &TRANSFERS {
        judgements.extend(judged(setting, measurements, transfer));
    }
    Findings {
        notes: vec![format!("Each transfer is of {} GiB.", gibibytes(setting))],
        judgements,
        figures: [figure(measurements)].into_iter().chain(distributions(setting, measurements)).collect(),
        tables: vec![table(setting, measurements), statistics(setting, measurements)],
    }
}

/// What was published cannot be expected to be worse here; whether it is better is the question.
fn judged(setting: &Setting, measurements: &Measurements, transfer: &Transfer) -> Vec<Judgement> {
    let source = |passage| Source { publication: &REPORT, passage };
    let (_, on) = transfer.published_left();
    let slow = Claim {
        statement: format!("Recording all leaves less than a third of the throughput {}", transfer.title),
        published: format!("{:.1} %", on * 100.0),
        source: source("Table 4.1"),
        bound: Bound::AtMost(1.0 / 3.0),
        unit: Unit::Share,
    };
    let mut all = vec![slow.judge(&left(measurements, transfer, "all"), setting.lacks_processors(2))];
    for (kind, title) in IDENTIFIERS {
        let dear = Claim {
            statement: format!("A {title} for each packet takes a tenth of the throughput or more {}", transfer.title),
            published: "20 %".to_owned(),
            source: source("section 2.6.3, Figure 2.1"),
            bound: Bound::AtMost(0.9),
            unit: Unit::Share,
        };
        let left = measurements.ratios(&key(transfer, SUMMARY), &key(transfer, kind), WALL);
        all.push(dear.judge(&left, setting.lacks_processors(2)));
    }
    let [first, second] = IDENTIFIERS.map(|(kind, _)| key(transfer, kind));
    let alike = Claim {
        statement: format!("UUIDs of versions 1 and 5 leave the same throughput {}, within a tenth", transfer.title),
        published: "little difference".to_owned(),
        source: source("section 2.6.3, Figure 2.1"),
        bound: Bound::Between(0.9, 1.1),
        unit: Unit::Fraction,
    };
    all.push(alike.judge(&measurements.ratios(&first, &second, WALL), setting.lacks_processors(2)));
    all
}

fn figure(measurements: &Measurements) -> Figure {
    let series = |(place, level): (usize, &&str)| BarSeries {
        name: (*level).to_owned(),
        ink: Ink::solid(place),
        bars: TRANSFERS.iter().map(|transfer| bar(&left(measurements, transfer, level))).collect(),
    };
    let published = BarSeries {
        name: "published, probes on".to_owned(),
        ink: Ink::dashed(3, 1),
        bars: TRANSFERS
            .iter()
            .map(|transfer| Bar { value: Some(transfer.published_left().1), ..Bar::default() })
            .collect(),
    };
    Figure {
        id: "provenance-left".to_owned(),
        title: "Throughput that is left".to_owned(),
        subtitle: "relative to a run without a record".to_owned(),
        caption: "Means over repetitions with 95 % intervals; of the published ones there are none.".to_owned(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Throughput left", "left", Unit::Share).from(0.0),
            category_column: "transfer",
            categories: TRANSFERS.iter().map(|transfer| transfer.title.to_owned()).collect(),
            series: LEVELS[1..].iter().enumerate().map(series).chain([published]).collect(),
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    }
}

/// The throughput of each repetition, in MiB/s.
fn speeds(setting: &Setting, measurements: &Measurements, transfer: &Transfer, level: &str) -> Vec<f64> {
    let mebibytes = gibibytes(setting) * 1024.0;
    measurements.values(&key(transfer, level), WALL).iter().map(|wall| mebibytes / wall).collect()
}

/// Figures 4.1 and 2.1, as cumulative distributions.
fn distributions(setting: &Setting, measurements: &Measurements) -> Vec<Figure> {
    let series = |transfer: &Transfer, (place, (level, title)): (usize, (&str, &str))| {
        let mut found = speeds(setting, measurements, transfer, level);
        found.sort_by(f64::total_cmp);
        let count = found.len();
        let share = |at: usize| (at + 1) as f64 / count as f64;
        Series {
            name: title.to_owned(),
            key: None,
            ink: Ink::solid(place),
            is_step: true,
            points: found.iter().enumerate().map(|(at, x)| Point { x: *x, y: share(at), interval: None }).collect(),
        }
    };
    let figure = |transfer: &Transfer, id: &str, title: &str, what: &str, lines: &[(&str, &str)], caption: String| {
        let series: Vec<Series> = lines.iter().copied().enumerate().map(|line| series(transfer, line)).collect();
        let is_enough = series.iter().all(|series| series.points.len() >= LEAST_OF_DISTRIBUTION);
        is_enough.then(|| Figure {
            id: format!("provenance-{id}-{}", transfer.name),
            title: format!("{title} {}", transfer.title),
            subtitle: format!("share of the repetitions with at most so much, by {what}"),
            caption,
            chart: Chart::Plot(Plot {
                x: Axis::new("Throughput, MiB/s", "mebibytes_per_s", Unit::Count),
                y: Axis::new("Share of repetitions", "share", Unit::Share).from(0.0),
                series,
                interval: Along::X,
                names_at_ends: false,
                moments: Vec::new(),
                reference: None,
            }),
        })
    };
    let by_level = |transfer: &Transfer| {
        let published = SCENARIOS.iter().zip(transfer.published);
        let published: Vec<String> = published.map(|(name, (mean, _))| format!("{mean} MiB/s ({name})")).collect();
        let caption = format!("The means that were published are {}.", published.join(", "));
        let lines = LEVELS.map(|level| (level, level));
        figure(transfer, "distribution", "Figure 4.1: Throughput", "level of provenance", &lines, caption)
    };
    let by_identifier = |transfer: &Transfer| {
        let lines = [&[(SUMMARY, "number")], &IDENTIFIERS[..]].concat();
        let caption = "Published: UUIDs of both versions leave four fifths. Here a packet has a number; UUIDs are made beside it and dropped."
            .to_owned();
        figure(transfer, "identifiers", "Figure 2.1: Throughput", "what identifies a packet", &lines, caption)
    };
    let both = |transfer: &Transfer| {
        [by_identifier(transfer), by_level(transfer)].into_iter().flatten().collect::<Vec<Figure>>()
    };
    TRANSFERS.iter().flat_map(both).collect()
}

/// Table 4.1 with ours beside it. Its coefficients of variation are means over standard deviations; here they are the reverse, as the term says.
fn statistics(setting: &Setting, measurements: &Measurements) -> Table {
    let cells = |mean: f64, variance: f64| {
        let variation = shown(Unit::Share, variance.sqrt() / mean, None);
        vec![format!("{mean:.1}"), format!("{variance:.2}"), variation]
    };
    let none = || vec!["–".to_owned(); 3];
    let mut rows = Vec::new();
    for transfer in &TRANSFERS {
        let ours = |level: &str| {
            let found = speeds(setting, measurements, transfer, level);
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let squares: f64 = found.iter().map(|value| (value - mean).powi(2)).sum();
            if found.len() < 2 { none() } else { cells(mean, squares / (found.len() - 1) as f64) }
        };
        let published = |at: usize| cells(transfer.published[at].0, transfer.published[at].1);
        let scenarios = [(0, Some(OFF)), (1, None), (2, None), (3, Some(OFF)), (4, Some("all"))];
        for (at, level) in scenarios {
            let names = vec![transfer.title.to_owned(), SCENARIOS[at].to_owned(), level.unwrap_or("–").to_owned()];
            rows.push([names, published(at), level.map_or_else(none, ours)].concat());
        }
        for level in &LEVELS[1..3] {
            let names = vec![transfer.title.to_owned(), "–".to_owned(), (*level).to_owned()];
            rows.push([names, none(), ours(level)].concat());
        }
    }
    Table {
        title: "Table 4.1: throughput in MiB/s. Gnomon has its probes compiled in, so its runs without a record stand for two scenarios".to_owned(),
        header: words(&[
            "Transfer",
            "Scenario",
            "Level here",
            "Published mean",
            "variance",
            "variation",
            "Mean here",
            "variance",
            "variation",
        ]),
        rows,
        text_columns: 3,
    }
}

fn table(setting: &Setting, measurements: &Measurements) -> Table {
    let mut rows = Vec::new();
    for transfer in &TRANSFERS {
        for level in LEVELS {
            let speed = Estimate::of(&speeds(setting, measurements, transfer, level))
                .map_or_else(|| "–".to_owned(), |found| shown(Unit::Count, found.mean, found.error));
            let share = Estimate::of(&left(measurements, transfer, level));
            let share = share.map_or_else(|| "–".to_owned(), |found| shown(Unit::Share, found.mean, found.error));
            let (off, on) = transfer.published_left();
            let published = match level {
                OFF => format!("{:.1} % (compiled in, off)", off * 100.0),
                "all" => format!("{:.1} % (on)", on * 100.0),
                _ => "–".to_owned(),
            };
            rows.push(vec![transfer.title.to_owned(), level.to_owned(), speed, share, published]);
        }
    }
    Table {
        title: "Throughput, by level of provenance".to_owned(),
        header: words(&["Transfer", "Level", "MiB/s by wall time", "Left", "Published"]),
        rows,
        text_columns: 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::tests::stats;

    #[test]
    fn the_published_table_stands_beside_ours() {
        let setting = Setting::tried(Size::Small, &[]);
        let mut all = Measurements::new(cases(&setting), &setting);
        for measured in all.cases_mut() {
            (1..=4).for_each(|repetition| measured.add(repetition, &stats(f64::from(repetition), 1)));
        }
        assert_eq!(findings(&setting, &all).figures.len(), 1, "four are no distribution");
        for measured in all.cases_mut() {
            measured.add(5, &stats(5.0, 1));
        }
        let found = findings(&setting, &all);
        assert_eq!((found.figures.len(), found.tables.len()), (5, 2));
        assert_eq!(found.judgements.len(), 8);
        let rows = &found.tables[1].rows;
        assert_eq!(rows.len(), 14);
        // 4,096 MiB in 1, 2, 3, 4 and 5 s.
        let expected = [
            "over loopback",
            "5: probes on",
            "all",
            "83.9",
            "6.54",
            "3.05\u{a0}%",
            "1870.5",
            "1765335.95",
            "71.0\u{a0}%",
        ];
        assert_eq!(rows[4], expected);
        assert_eq!(rows[1][6..], ["–", "–", "–"]);
    }

    #[test]
    fn what_was_left_follows_from_the_published_table() {
        let left = TRANSFERS.map(|transfer| transfer.published_left());
        let rounded = left.map(|(off, on)| ((off * 100.0).round(), (on * 1000.0).round()));
        assert_eq!(rounded, [(27.0, 28.0), (19.0, 153.0)]);
    }
}
