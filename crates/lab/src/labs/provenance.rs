//! `provenance`: what it costs to record every packet.

use super::{Findings, Lab, bar, words};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Publication, Source};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::WALL;
use report::Estimate;
use report::chart::{Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Unit};
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
const LEVELS: [&str; 4] = [OFF, "summary", "packets", "all"];

/// A transfer: what packets it has, and what was published to be left of it with probes off and on.
struct Transfer {
    name: &'static str,
    title: &'static str,
    published: (f64, f64),
}

const TRANSFERS: [Transfer; 2] = [
    Transfer { name: "loopback", title: "over loopback", published: (0.27, 0.028) },
    Transfer { name: "packets", title: "in 1,500-byte packets", published: (0.188, 0.153) },
];

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
    TRANSFERS.iter().flat_map(|transfer| LEVELS.map(|level| case(transfer, level))).collect()
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
        figures: vec![figure(measurements)],
        tables: vec![table(setting, measurements)],
    }
}

/// What was published cannot be expected to be worse here; whether it is better is the question.
fn judged(setting: &Setting, measurements: &Measurements, transfer: &Transfer) -> Vec<Judgement> {
    let source = |passage| Source { publication: &REPORT, passage };
    let (_, on) = transfer.published;
    let slow = Claim {
        statement: format!("Recording all leaves less than a third of the throughput {}", transfer.title),
        published: format!("{:.1} %", on * 100.0),
        source: source("Table 4.1"),
        bound: Bound::AtMost(1.0 / 3.0),
        unit: Unit::Share,
    };
    vec![slow.judge(&left(measurements, transfer, "all"), setting.lacks_processors(2))]
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
        bars: TRANSFERS.iter().map(|transfer| Bar { value: Some(transfer.published.1), ..Bar::default() }).collect(),
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

fn table(setting: &Setting, measurements: &Measurements) -> Table {
    let mebibytes = gibibytes(setting) * 1024.0;
    let mut rows = Vec::new();
    for transfer in &TRANSFERS {
        for level in LEVELS {
            let speeds: Vec<f64> =
                measurements.values(&key(transfer, level), WALL).iter().map(|wall| mebibytes / wall).collect();
            let speed = Estimate::of(&speeds)
                .map_or_else(|| "–".to_owned(), |found| shown(Unit::Count, found.mean, found.error));
            let share = Estimate::of(&left(measurements, transfer, level));
            let share = share.map_or_else(|| "–".to_owned(), |found| shown(Unit::Share, found.mean, found.error));
            let (off, on) = transfer.published;
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
