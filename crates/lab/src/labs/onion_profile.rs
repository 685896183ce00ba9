//! `onion-profile`: where onion routing takes processor time, by role and number of hops.
//!
//! This file has the profiles by groups of functions. `functions` has their shares by function, `calls` how often each is called,
//! `torrent` the throughput of downloads, and `improvements` what the publication proposes.

mod calls;
mod functions;
mod improvements;
mod torrent;

use super::{Findings, Lab, bar, point, words};
use crate::case::{Case, Experiment, PARALLELISM, Packages, Program, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Publication, Source};
use crate::experiment;
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::Reading;
use report::Estimate;
use report::chart::{Along, Axis, BarSeries, Bars, Chart, Figure, Ink, Plot, Series, Unit};
use report::html::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

pub const LAB: Lab = Lab {
    name: "onion-profile",
    title: "Where onion routing takes processor time",
    about: "processor time of onion routing's functions, by role and number of hops",
    publications: &[&PAPER],
    published: "Eight instances of Tribler of 2015 on one machine, profiled from inside, once. A seeder sends through circuits of 0 to 3 hops; 0 hops encrypt and \
                decrypt on one node. Of the time in the tunnels' code, cryptography takes the seeder 0.44 (0 hops) and 0.53 (3 hops), the exit 0.20; networking \
                0.13, 0.10 and 0.19. Sending while the next packet is encrypted would gain n/(1 - n) of networking's share n: 15.5, 11.0 and 12.5 %. \
                Relays and exits do not change with the number of hops. The seeder's total falls with it, which the authors could not explain.",
    measured: "Eight hosts (seeder, four relays, exit, sink, tracker) with pyipv8, which Tribler's tunnels have become: 2.14 with libsodium, 3.2 in Python, 3.2 with its \
               endpoint in Rust. They find each other by IPv8's own introductions; the seeder then sends packets through a circuit of each length. Gnomon's profiler \
               samples all hosts from outside; the groups are those of the publication ('gnomon profile --rules ipv8'), and what a function calls is its own. \
               Beside them a small Tor network, by 'gnomon profile --rules tor'. In runs of their own: how often each function is called, by the interpreter's profiler; downloads by \
               LibTorrent through circuits of each length, with and without loss; and the publication's two improvements, built into pyipv8 3.2 while it runs.",
    figures: &[],
    cases,
    findings,
};

const PAPER: Publication = Publication {
    short: "Stokkink, Treep and Pouwelse 2015",
    authors: "Quinten Stokkink, Harmjan Treep and Johan Pouwelse",
    title: "Performance analysis of a Tor-like onion routing implementation",
    place: "arXiv:1507.00245, 2015",
};

const PEER: Program = Program { file: "ipv8_peer.py", text: include_str!("../../programs/ipv8_peer.py") };
/// Cryptography's older interface, which pyipv8 2.14 uses, is gone from later versions.
const IPV8_2: Packages =
    Packages { name: "ipv8-2.14", requirements: "pyipv8==2.14.0\nlibnacl==2.1.0\ncryptography==42.0.8\n" };
/// With LibTorrent, for downloads.
const IPV8_3: Packages =
    Packages { name: "ipv8-3.2", requirements: "pyipv8==3.2.1\nipv8-rust-tunnels==0.1.53\nlibtorrent==2.1.1\n" };

/// What is profiled.
struct Variant {
    key: &'static str,
    title: &'static str,
    packages: &'static Packages,
    /// Of the peers' environment.
    environment: &'static str,
    /// Groups before the supplied ones, a line for each.
    groups: &'static str,
    /// Whether functions have names, so that there are groups.
    has_groups: bool,
}

const VARIANTS: [Variant; 3] = [
    Variant {
        key: "ipv8-2",
        title: "pyipv8 2.14",
        packages: &IPV8_2,
        environment: "ENDPOINT: python",
        groups: "",
        has_groups: true,
    },
    Variant {
        key: "ipv8-3",
        title: "pyipv8 3.2",
        packages: &IPV8_3,
        environment: "ENDPOINT: python",
        groups: "",
        has_groups: true,
    },
    Variant {
        key: "ipv8-3-rust",
        title: "pyipv8 3.2, Rust",
        packages: &IPV8_3,
        environment: "ENDPOINT: rust",
        groups: "- { name: other, module: \"_rust*\" }\n",
        has_groups: false,
    },
];
/// The key of the network of Tor.
const TOR: &str = "tor";

const HOPS: [u32; 4] = [0, 1, 2, 3];
/// Circuits one after the other. There and back again: what drifts meanwhile meets all lengths alike.
const CIRCUITS: [u32; 8] = [0, 1, 2, 3, 3, 2, 1, 0];
const CRYPTO: &str = "crypto";
const NETWORKING: &str = "networking";
const OTHER: &str = "other";
const GROUPS: [&str; 3] = [CRYPTO, NETWORKING, OTHER];
/// How many there are, beside the exit.
const RELAYS: u32 = 4;
const SEEDER: &str = "seeder";
const RELAY: &str = "relay";
const EXIT: &str = "exit";

/// A column of the published tables, with its shares of cryptography and networking.
struct Column {
    title: &'static str,
    role: &'static str,
    hops: u32,
    crypto: f64,
    networking: f64,
    /// What pipelining is said to gain; all three are networking's shares over the rest, as far as two digits tell.
    gain: f64,
}

const COLUMNS: [Column; 3] = [
    Column { title: "seeder, 0 hops", role: SEEDER, hops: 0, crypto: 0.44, networking: 0.13, gain: 0.155 },
    Column { title: "seeder, 3 hops", role: SEEDER, hops: 3, crypto: 0.53, networking: 0.10, gain: 0.110 },
    Column { title: "exit", role: EXIT, hops: 3, crypto: 0.20, networking: 0.19, gain: 0.125 },
];

/// Packets that the seeder sends through each circuit.
fn packets(setting: &Setting) -> u32 {
    match setting.size {
        Size::Smallest => 200,
        Size::Small => 3000,
        Size::Full => 20_000,
    }
}

/// Packets that it sends through circuits of one length together.
fn packets_of_length(setting: &Setting) -> f64 {
    f64::from(packets(setting) * (CIRCUITS.len() / HOPS.len()) as u32)
}

/// Bytes of each.
const BYTES: u32 = 1000;

/// Lengths of circuits for whose packets instructions are counted, and how many packets: some 350,000 instructions each.
const COUNTED_CIRCUITS: [u32; 3] = [1, 2, 3];
const COUNTED_PACKETS: u32 = 2;
/// Packets through each of these circuits before, and when and how long each is counted, in seconds: as in the program.
const WARMING: u32 = 30;
const COUNTED_AFTER_S: f64 = 91.5;
const COUNTED_S: f64 = 0.2;

/// When the seeder starts, in seconds.
const SEEDER_START_S: u32 = 3;

/// A host of an experiment, with one program in Python.
struct Host<'a> {
    name: &'a str,
    program: &'a Program,
    arguments: &'a str,
    start_s: u32,
    /// Of the program.
    environment: &'a str,
    /// Of the host, as a file writes them.
    options: &'a str,
    /// How the program is to end.
    state: &'a str,
}

const RUNNING: &str = "running";
const ENDED: &str = "{ exited: 0 }";

impl Host<'_> {
    fn write(&self, text: &mut String) {
        let Host { name, program, arguments, start_s, environment, options, state } = self;
        let options = if options.is_empty() { String::new() } else { format!("host_options: {{ {options} }}, ") };
        let _ = writeln!(
            text,
            "  {name}: {{ network_node_id: 0, {options}processes: [{{ path: \"{{python}}\", args: [\"{{programs}}/{}\", {arguments}], start_time: {start_s} s, \
             environment: {{ {environment}, PYTHONDONTWRITEBYTECODE: \"1\" }}, expected_final_state: {state} }}] }}",
            program.file
        );
    }
}

/// What the seeder does, and how many packets come to the sink.
struct Task {
    arguments: String,
    arrivals: u32,
    stop_s: u32,
    environment: &'static str,
}

impl Task {
    fn timed(packets: u32) -> Task {
        let lengths = CIRCUITS.map(|hops| format!("\"{hops}\"")).join(", ");
        Task {
            arguments: format!("{SEEDER}, \"{packets}\", \"{BYTES}\", {lengths}"),
            // The first packet of each circuit opens the exit's sockets, and does not count.
            arrivals: CIRCUITS.len() as u32 * (packets + 1),
            // Sent, and then a while for building circuits and finding each other.
            stop_s: 200 + CIRCUITS.len() as u32 * (packets / 800 + 10),
            environment: "",
        }
    }

    fn counted() -> Task {
        let lengths = COUNTED_CIRCUITS.map(|hops| format!("\"{hops}\"")).join(", ");
        Task {
            arguments: format!("counted, \"{COUNTED_PACKETS}\", \"{BYTES}\", {lengths}"),
            arrivals: COUNTED_CIRCUITS.len() as u32 * (WARMING + COUNTED_PACKETS),
            stop_s: 2 * COUNTED_AFTER_S as u32,
            environment: ", WALKING: \"30\"",
        }
    }
}

fn text_of(variant: &Variant, task: &Task) -> String {
    let about = format!("tunnels of {} between a seeder and a sink", variant.title);
    let mut text = experiment::beginning(&about, task.stop_s, "10 ms");
    let environment = format!("{}{}", variant.environment, task.environment);
    let mut host = |name: &str, arguments: &str, start_s: u32, state: &str| {
        Host { name, program: &PEER, arguments, start_s, environment: &environment, options: "", state }
            .write(&mut text);
    };
    host("tracker", "tracker", 1, RUNNING);
    (1..=RELAYS).for_each(|number| host(&format!("relay{number}"), RELAY, 2, RUNNING));
    host("exit", EXIT, 2, RUNNING);
    host("sink", &format!("sink, \"{}\"", task.arrivals), 2, ENDED);
    host(SEEDER, &task.arguments, SEEDER_START_S, ENDED);
    text
}

/// The published functions and groups, and a phase for each number of hops.
fn rules(variant: &Variant, circuits: &[u32]) -> String {
    let functions = if variant.has_groups { functions::rules() } else { String::new() };
    let mut text = format!("use: ipv8\ngroups:\n{functions}{}phases:\n", variant.groups);
    for (index, hops) in circuits.iter().enumerate() {
        let line = |what: &str| format!("{{ host: {SEEDER}, line: \"circuit {} of {hops} hops {what}\" }}", index + 1);
        let _ = writeln!(text, "- {{ name: \"{hops}\", from: {}, until: {} }}", line("begins"), line("ends"));
    }
    text
}

fn cases(setting: &Setting) -> Vec<Case> {
    let options = |profile: &str| {
        vec![format!("--profile={profile}"), PARALLELISM.to_owned(), setting.processors.clamp(1, 8).to_string()]
    };
    let tunnels = |variant: &Variant, key: String, packets: u32, task: Task, circuits: &[u32], profile: &str| Case {
        key,
        factors: vec![("program", variant.title.to_owned()), ("packets", packets.to_string())],
        experiment: Experiment::Profiled {
            experiment: Box::new(Experiment::Python {
                packages: variant.packages,
                programs: &[PEER],
                text: text_of(variant, &task),
            }),
            rules: rules(variant, circuits),
        },
        options: options(profile),
        memory_bytes: 1 << 30,
    };
    let timed = |variant: &Variant| {
        let packets = packets(setting);
        tunnels(variant, variant.key.to_owned(), packets, Task::timed(packets), &CIRCUITS, "4000")
    };
    // Instructions do not depend on the machine's caches. All that there are in this time are counted.
    let from_ms = (f64::from(SEEDER_START_S) + COUNTED_AFTER_S) * 1e3;
    let until_ms = from_ms + COUNTED_S * 1e3 * COUNTED_CIRCUITS.len() as f64;
    let steps = format!("steps:1000000000,from={from_ms}ms,until={until_ms}ms");
    let counted = |variant: &Variant| {
        tunnels(variant, counted_key(variant), COUNTED_PACKETS, Task::counted(), &COUNTED_CIRCUITS, &steps)
    };
    // Too long for tests.
    let is_counted = |variant: &&Variant| variant.has_groups && setting.size != Size::Smallest;
    let duration = if setting.size == Size::Smallest { "90s" } else { "180s" };
    let tor = Case {
        key: TOR.to_owned(),
        factors: vec![("program", "Tor".to_owned()), ("packets", String::new())],
        experiment: Experiment::Profiled {
            experiment: Box::new(Experiment::Tor {
                name: "onion-profile".to_owned(),
                options: ["--profile=tiny", &format!("--duration={duration}")].map(str::to_owned).to_vec(),
            }),
            rules: "use: tor\n".to_owned(),
        },
        options: options("1000"),
        memory_bytes: 1 << 30,
    };
    let timed_and_counted =
        VARIANTS.iter().map(timed).chain([tor]).chain(VARIANTS.iter().filter(is_counted).map(counted));
    timed_and_counted
        .chain(calls::cases(setting))
        .chain(torrent::cases(setting))
        .chain(improvements::cases(setting))
        .collect()
}

/// Of the case in which a variant's instructions are counted.
fn counted_key(variant: &Variant) -> String {
    format!("{}-counted", variant.key)
}

/// Instructions for a packet in each host of a role that it passes.
fn instructions(reading: &Reading, role: &str, hops: u32) -> f64 {
    whole(reading, role, hops) * 1e9 / (f64::from(COUNTED_PACKETS) * passages(role, hops))
}

/// Seconds that a group took in hosts of a role, while circuits had so many hops, with the functions that have names.
fn seconds(reading: &Reading, role: &str, hops: u32, group: &str) -> f64 {
    let functions = functions::of_group(group).map(|name| named(reading, role, hops, name));
    named(reading, role, hops, group) + functions.sum::<f64>()
}

/// Seconds of what the rules call so.
fn named(reading: &Reading, role: &str, hops: u32, name: &str) -> f64 {
    reading.profile.get(&[role, &hops.to_string(), name].map(str::to_owned)).copied().unwrap_or(0.0)
}

/// Seconds in the tunnels' code.
fn tunnels(reading: &Reading, role: &str, hops: u32) -> f64 {
    GROUPS.iter().map(|group| seconds(reading, role, hops, group)).sum()
}

/// A group's share of the tunnels' code; not a number where there is none.
fn share(reading: &Reading, role: &str, hops: u32, group: &str) -> f64 {
    seconds(reading, role, hops, group) / tunnels(reading, role, hops)
}

/// The same for packets alone: what relays and exits do all the time is what they do while circuits of no hops pass them by, for as long.
fn of_packets(reading: &Reading, role: &str, hops: u32) -> f64 {
    let background = if role == SEEDER { 0.0 } else { tunnels(reading, role, 0) };
    tunnels(reading, role, hops) - background
}

/// All that hosts of a role take, the interpreter's loop and the kernel for it included.
fn whole(reading: &Reading, role: &str, hops: u32) -> f64 {
    let of = |(key, seconds): (&[String; 3], &f64)| (key[0] == role && key[1] == hops.to_string()).then_some(*seconds);
    reading.profile.iter().filter_map(of).sum()
}

/// How many hosts of a role a packet passes.
fn passages(role: &str, hops: u32) -> f64 {
    match role {
        RELAY => f64::from(hops.saturating_sub(1)),
        EXIT => f64::from(hops.min(1)),
        _ => 1.0,
    }
}

fn each(measurements: &Measurements, key: &str, of: impl Fn(&Reading) -> f64) -> Vec<f64> {
    measurements.paired(key, key, |reading, _| of(reading))
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let study = Study { setting, measurements };
    Findings {
        notes: vec![format!(
            "{} packets of {BYTES} bytes through each circuit, of which there are two of each length: 0, 1, 2, 3, 3, 2, 1, 0 hops. Times are processor time of this machine, with what the simulated kernel takes for the \
             programs. 'The tunnels’ code' is what the three groups have together; the interpreter’s event loop is outside of it, as in the publication. \
             Functions of the endpoint in Rust have no names: all that it does is ‘other’. Instructions are those of {COUNTED_PACKETS} packets through each circuit, counted one by one \
             (‘--profile=steps’) after {WARMING} others; the simulator’s own are not among them.",
            packets(setting)
        )],
        judgements: study.judgements(),
        figures: study.shares().into_iter().chain([study.totals()]).collect(),
        tables: vec![study.published(), study.by_role(), study.counted(), study.tor(), study.calls()],
    }
    .and(functions::findings(measurements))
    .and(calls::findings(setting, measurements))
    .and(torrent::findings(setting, measurements))
    .and(improvements::findings(setting, measurements))
}

/// Why no verdict is given on what the smallest size measures.
fn too_few(setting: &Setting) -> Option<String> {
    (setting.size == Size::Smallest).then(|| "too few packets: --size small".to_owned())
}

/// What the publication says.
fn claim(statement: String, published: &str, passage: &'static str, bound: Bound, unit: Unit) -> Claim {
    Claim { statement, published: published.to_owned(), source: Source { publication: &PAPER, passage }, bound, unit }
}

/// A cell with the mean and interval of a case's runs.
fn shown_of(measurements: &Measurements, unit: Unit, key: &str, of: impl Fn(&Reading) -> f64) -> String {
    let found = Estimate::of(&each(measurements, key, of)).filter(|found| found.mean.is_finite());
    found.map_or_else(|| "–".to_owned(), |found| shown(unit, found.mean, found.error))
}

struct Study<'a> {
    setting: &'a Setting,
    measurements: &'a Measurements,
}

impl Study<'_> {
    fn shown(&self, unit: Unit, key: &str, of: impl Fn(&Reading) -> f64) -> String {
        shown_of(self.measurements, unit, key, of)
    }

    fn judgements(&self) -> Vec<Judgement> {
        let too_few = too_few(self.setting);
        let mut all = Vec::new();
        for variant in &VARIANTS {
            let title = variant.title;
            let mut judge = |claim: Claim, values: Vec<f64>| all.push(claim.judge(&values, too_few.clone()));
            let ratio = |of: &dyn Fn(&Reading, u32) -> f64, hops: u32, to: u32| {
                each(self.measurements, variant.key, |reading| of(reading, hops) / of(reading, to))
            };
            if variant.has_groups {
                let crypto = |reading: &Reading, hops| share(reading, SEEDER, hops, CRYPTO);
                for (from, passage) in [(0, "Table I"), (1, "section \u{201c}Experimental results\u{201d}")] {
                    let statement =
                        format!("{title}: cryptography has more of the seeder’s time with 3 hops than with {from}");
                    judge(
                        claim(statement, "0.44 to 0.53 (0 to 3 hops)", passage, Bound::AtLeast(1.0), Unit::Fraction),
                        ratio(&crypto, 3, from),
                    );
                }
                for hops in [0, 3] {
                    let values = each(self.measurements, variant.key, |reading| {
                        share(reading, SEEDER, hops, CRYPTO) + share(reading, SEEDER, hops, NETWORKING)
                    });
                    let statement = format!(
                        "{title}: cryptography and networking are more than half of the seeder’s time, {hops} hops"
                    );
                    let published = if hops == 0 { "0.57" } else { "0.63" };
                    judge(claim(statement, published, "Tables I and II", Bound::AtLeast(0.5), Unit::Share), values);
                }
            }
            let total = |reading: &Reading, hops| tunnels(reading, SEEDER, hops);
            judge(
                claim(
                    format!("{title}: the seeder’s time for a packet falls from 1 to 3 hops"),
                    "it falls",
                    "section \u{201c}Experimental results\u{201d}",
                    Bound::AtMost(1.0),
                    Unit::Fraction,
                ),
                ratio(&total, 3, 1),
            );
            for (role, from) in [(RELAY, 2), (EXIT, 1)] {
                let total = |reading: &Reading, hops| of_packets(reading, role, hops) / passages(role, hops);
                judge(
                    claim(
                        format!(
                            "{title}: the {role}’s time for a packet does not change with the hops (3 over {from})"
                        ),
                        "no difference",
                        "Figures 5 and 6",
                        Bound::Between(0.9, 1.1),
                        Unit::Fraction,
                    ),
                    ratio(&total, 3, from),
                );
            }
            for (role, from) in [(RELAY, 2), (EXIT, 1)].into_iter().filter(|_| variant.has_groups) {
                let statement = format!(
                    "{title}: the {role}’s instructions for a packet do not change with the hops (3 over {from})"
                );
                judge(
                    claim(
                        statement,
                        "no difference (of time)",
                        "Figures 5 and 6",
                        Bound::Between(0.9, 1.1),
                        Unit::Fraction,
                    ),
                    each(self.measurements, &counted_key(variant), |reading| {
                        instructions(reading, role, 3) / instructions(reading, role, from)
                    }),
                );
            }
        }
        all
    }

    /// For each variant with groups: the published bars and pies.
    fn shares(&self) -> Vec<Figure> {
        let all: Vec<(&str, u32)> =
            HOPS.iter().map(|hops| (SEEDER, *hops)).chain([(RELAY, 2), (RELAY, 3), (EXIT, 1), (EXIT, 3)]).collect();
        let published: Vec<(&str, u32)> = COLUMNS.iter().map(|column| (column.role, column.hops)).collect();
        let of = |variant: &Variant| {
            [
                self.shares_at(variant, "shares", &all, Chart::Bars),
                self.shares_at(variant, "pies", &published, Chart::Pies),
            ]
        };
        VARIANTS.iter().filter(|variant| variant.has_groups).flat_map(of).collect()
    }

    fn shares_at(&self, variant: &Variant, kind: &str, places: &[(&str, u32)], chart: fn(Bars) -> Chart) -> Figure {
        let series = |(index, group): (usize, &&str)| BarSeries {
            name: (*group).to_owned(),
            ink: Ink::solid(index),
            bars: places
                .iter()
                .map(|(role, hops)| {
                    bar(&each(self.measurements, variant.key, |reading| share(reading, role, *hops, group)))
                })
                .collect(),
        };
        Figure {
            id: format!("onion-profile-{kind}-{}", variant.key),
            title: format!("{}: what the tunnels’ code does", variant.title),
            subtitle: "share of the processor time in it, by role and number of hops".to_owned(),
            caption: "Means over repetitions, bars with 95 % intervals. Published: cryptography 0.44 (seeder, 0 hops), 0.53 (3 hops), 0.20 (exit); networking 0.13, 0.10, 0.19."
                .to_owned(),
            chart: chart(Bars {
                axis: Axis::new("Share of the tunnels’ code", "share", Unit::Share).from(0.0),
                category_column: "role_hops",
                categories: places.iter().map(|(role, hops)| format!("{role}, {hops} hops")).collect(),
                series: GROUPS.iter().enumerate().map(series).collect(),
                is_stacked: false,
                mark: None,
                reference: None,
            }),
        }
    }

    fn totals(&self) -> Figure {
        let count = packets_of_length(self.setting);
        let line = |name: String, ink, key: &str, of: &dyn Fn(&Reading, u32) -> f64| {
            let at = |hops: u32| {
                let values = each(self.measurements, key, |reading| of(reading, hops) / count);
                point(f64::from(hops), &values)
            };
            Series::line(name, ink, HOPS.into_iter().filter_map(at).collect())
        };
        let mut series = Vec::new();
        for (index, variant) in VARIANTS.iter().enumerate() {
            let name = format!("{}, all", variant.title);
            series.push(line(name, Ink::solid(index), variant.key, &|reading, hops| whole(reading, SEEDER, hops)));
            if variant.has_groups {
                let name = format!("{}, cryptography", variant.title);
                series.push(line(name, Ink::dashed(index, 1), variant.key, &|reading, hops| {
                    seconds(reading, SEEDER, hops, CRYPTO)
                }));
            }
        }
        Figure {
            id: "onion-profile-seeder".to_owned(),
            title: "The seeder’s processor time for a packet".to_owned(),
            subtitle: "by the circuit’s number of hops".to_owned(),
            caption: "Means over repetitions with 95 % intervals; with what the simulated kernel takes for the calls."
                .to_owned(),
            chart: Chart::Plot(Plot {
                x: Axis::new("Hops", "hops", Unit::Count).from(0.0),
                y: Axis::new("Processor time for a packet", "time_s", Unit::Seconds).from(0.0),
                series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
                interval: Along::Y,
                names_at_ends: false,
                moments: Vec::new(),
                reference: None,
            }),
        }
    }

    fn published(&self) -> Table {
        let mut rows = Vec::new();
        for (what, group) in [("cryptography", CRYPTO), ("networking", NETWORKING)] {
            for column in &COLUMNS {
                let published = if group == CRYPTO { column.crypto } else { column.networking };
                let mut row = vec![what.to_owned(), column.title.to_owned(), format!("{published:.2}")];
                row.extend(VARIANTS.iter().filter(|variant| variant.has_groups).map(|variant| {
                    self.shown(Unit::Share, variant.key, |reading| share(reading, column.role, column.hops, group))
                }));
                rows.push(row);
            }
        }
        for column in &COLUMNS {
            let mut row = vec![
                "gain of pipelining, n/(1 − n)".to_owned(),
                column.title.to_owned(),
                format!("{:.1} %", column.gain * 100.0),
            ];
            row.extend(VARIANTS.iter().filter(|variant| variant.has_groups).map(|variant| {
                self.shown(Unit::Share, variant.key, |reading| {
                    let networking = share(reading, column.role, column.hops, NETWORKING);
                    networking / (1.0 - networking)
                })
            }));
            rows.push(row);
        }
        let variants = VARIANTS.iter().filter(|variant| variant.has_groups).map(|variant| variant.title.to_owned());
        Table {
            title: "Shares of the tunnels’ code, published and measured".to_owned(),
            header: words(&["What", "Where", "Published"]).into_iter().chain(variants).collect(),
            rows,
            text_columns: 2,
        }
    }

    fn by_role(&self) -> Table {
        let count = packets_of_length(self.setting);
        let mut rows = Vec::new();
        for variant in &VARIANTS {
            for role in [SEEDER, RELAY, EXIT, "sink"] {
                for hops in HOPS.into_iter().filter(|hops| passages(role, *hops) > 0.0) {
                    let packets = count * passages(role, hops);
                    let is_told = |group: &str| variant.has_groups || group == OTHER;
                    let of_group = |group: &'static str| match is_told(group) && role != "sink" {
                        true => self
                            .shown(Unit::Seconds, variant.key, |reading| seconds(reading, role, hops, group) / packets),
                        false => "–".to_owned(),
                    };
                    let mut row = vec![variant.title.to_owned(), role.to_owned(), hops.to_string()];
                    row.extend(GROUPS.map(of_group));
                    row.push(self.shown(Unit::Seconds, variant.key, |reading| whole(reading, role, hops) / packets));
                    rows.push(row);
                }
            }
        }
        Table {
            title: "Processor time for a packet, in each host that it passes".to_owned(),
            header: words(&["Program", "Role", "Hops", "Cryptography", "Networking", "Other", "All"]),
            rows,
            text_columns: 3,
        }
    }

    /// Instructions that were counted one by one.
    fn counted(&self) -> Table {
        let mut rows = Vec::new();
        for variant in VARIANTS.iter().filter(|variant| variant.has_groups) {
            for role in [SEEDER, RELAY, EXIT, "sink"] {
                for hops in COUNTED_CIRCUITS.into_iter().filter(|hops| passages(role, *hops) > 0.0) {
                    let key = counted_key(variant);
                    let packets = f64::from(COUNTED_PACKETS) * passages(role, hops);
                    let of_group = |group: &'static str| match role {
                        "sink" => "–".to_owned(),
                        _ => {
                            self.shown(Unit::Count, &key, |reading| seconds(reading, role, hops, group) * 1e9 / packets)
                        }
                    };
                    let mut row = vec![variant.title.to_owned(), role.to_owned(), hops.to_string()];
                    row.extend(GROUPS.map(of_group));
                    row.push(self.shown(Unit::Count, &key, |reading| instructions(reading, role, hops)));
                    rows.push(row);
                }
            }
        }
        Table {
            title: "Instructions for a packet, in each host that it passes".to_owned(),
            header: words(&["Program", "Role", "Hops", "Cryptography", "Networking", "Other", "All"]),
            rows,
            text_columns: 3,
        }
    }

    /// Shares of a role's time, for Tor.
    fn tor(&self) -> Table {
        let key = |reading: &Reading, at: usize| -> BTreeSet<String> {
            reading.profile.keys().map(|key| key[at].clone()).collect()
        };
        let all = |at: usize| -> BTreeSet<String> {
            self.measurements.paired(TOR, TOR, |reading, _| key(reading, at)).into_iter().flatten().collect()
        };
        let (roles, groups) = (all(0), all(2));
        let of = |reading: &Reading, role: &str, group: Option<&str>| -> f64 {
            let fits = |key: &[String; 3]| key[0] == role && group.is_none_or(|group| key[2] == group);
            reading.profile.iter().filter(|(key, _)| fits(key)).map(|(_, seconds)| seconds).sum()
        };
        let row = |role: &String| {
            let name = if role.is_empty() { "(no role)" } else { role };
            let share = |group: &String| {
                self.shown(Unit::Share, TOR, |reading| of(reading, role, Some(group)) / of(reading, role, None))
            };
            let time = self.shown(Unit::Seconds, TOR, |reading| of(reading, role, None));
            [name.to_owned(), time].into_iter().chain(groups.iter().map(share)).collect()
        };
        Table {
            title: "A small Tor network: shares of each role’s processor time".to_owned(),
            header: words(&["Role", "Time"]).into_iter().chain(groups.iter().cloned()).collect(),
            rows: roles.iter().map(row).collect(),
            text_columns: 1,
        }
    }

    /// What Gnomon takes for each call of programs, as a share of all that was sampled.
    fn calls(&self) -> Table {
        let keys: Vec<&str> = VARIANTS.iter().map(|variant| variant.key).chain([TOR]).collect();
        let of = |reading: &Reading, call: &str| {
            reading.calls.get(call).copied().unwrap_or(0.0) / reading.parts.iter().sum::<f64>()
        };
        let mut means: BTreeMap<String, f64> = BTreeMap::new();
        for key in &keys {
            let names =
                self.measurements.paired(key, key, |reading, _| reading.calls.keys().cloned().collect::<Vec<_>>());
            for call in names.into_iter().flatten() {
                let values = each(self.measurements, key, |reading| of(reading, &call));
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let most = means.entry(call).or_default();
                *most = most.max(mean);
            }
        }
        let mut calls: Vec<(String, f64)> = means.into_iter().filter(|(_, mean)| *mean >= 0.005).collect();
        calls.sort_by(|a, b| b.1.total_cmp(&a.1));
        let row = |(call, _): &(String, f64)| {
            let share = |key: &&str| self.shown(Unit::Share, key, |reading| of(reading, call));
            [call.clone()].into_iter().chain(keys.iter().map(share)).collect()
        };
        let all = |name: &str, at: usize| {
            let share = |key: &&str| {
                self.shown(Unit::Share, key, |reading| reading.parts[at] / reading.parts.iter().sum::<f64>())
            };
            [name.to_owned()].into_iter().chain(keys.iter().map(share)).collect::<Vec<String>>()
        };
        let wholes = [all("all of Gnomon for programs", 1), all("the engine", 2), all("the programs themselves", 0)];
        let names = VARIANTS.iter().map(|variant| variant.title).chain(["Tor"]).map(str::to_owned);
        Table {
            title: "Gnomon’s own part, by call: shares of all processor time".to_owned(),
            header: words(&["Call"]).into_iter().chain(names).collect(),
            rows: calls.iter().map(row).chain(wholes).collect(),
            text_columns: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting::tried(Size::Small, &[])
    }

    /// A run in which the seeder's cryptography grows with the hops, beside so much of the rest.
    fn stats(rest: f64) -> String {
        let mut groups = Vec::new();
        for hops in HOPS {
            let crypto = f64::from(hops.max(1)) * 1e9;
            for (role, crypto) in
                [(SEEDER, crypto), (RELAY, 1e9 * passages(RELAY, hops)), (EXIT, 1e9 * passages(EXIT, hops))]
            {
                let scale = if role == SEEDER { 1.0 } else { passages(role, hops) };
                groups.push(serde_json::json!([role, hops.to_string(), CRYPTO, crypto]));
                groups.push(serde_json::json!([role, hops.to_string(), NETWORKING, 1e9 * scale]));
                groups.push(serde_json::json!([role, hops.to_string(), "other", rest * 1e9 * scale]));
            }
        }
        let mut stats: serde_json::Value = serde_json::from_str(&crate::reading::tests::stats(4.0, 1)).unwrap();
        stats["profile"] = serde_json::json!({
            "groups": groups, "calls": [["sendto", 5e8]], "programs_ns": 8e9, "kernel_ns": 1e9, "engine_ns": 1e9,
        });
        stats.to_string()
    }

    #[test]
    fn verdicts_follow_from_shares_and_totals() {
        let mut measurements = Measurements::new(cases(&setting()), &setting());
        for measured in measurements.cases_mut() {
            measured.add(1, &stats(1.0));
            measured.add(2, &stats(1.01));
        }
        let found = findings(&setting(), &measurements);
        let verdict = |start: &str| {
            let judgement = found.judgements.iter().find(|one| one.claim.statement.starts_with(start));
            judgement.unwrap_or_else(|| panic!("{start}")).verdict.name()
        };
        assert_eq!(
            verdict("pyipv8 3.2: cryptography has more of the seeder’s time with 3 hops than with 1"),
            "confirmed"
        );
        assert_eq!(verdict("pyipv8 3.2: the seeder’s time for a packet falls"), "contradicted");
        assert_eq!(verdict("pyipv8 2.14: the relay’s time for a packet does not change"), "confirmed");
        assert_eq!(verdict("pyipv8 3.2, Rust: the exit’s time"), "confirmed");
        let cell = |table: usize, first: &str, column: usize| {
            let rows = &found.tables[table].rows;
            let row = rows.iter().find(|row| row.iter().take(2).any(|cell| cell == first));
            row.unwrap_or_else(|| panic!("{first}"))[column].clone()
        };
        // 1/(1 + 1 + 1) of the seeder's at no hop; the exit's gain is that of a third.
        assert!(cell(0, "seeder, 0 hops", 3).starts_with("33."), "{:?}", found.tables[0].rows);
        assert!(cell(4, "sendto", 1).starts_with("5.0"), "{:?}", found.tables[4].rows);
        assert_eq!(
            verdict("pyipv8 3.2: the exit’s instructions for a packet do not change"),
            "confirmed",
            "each packet takes as many in each run of these"
        );
        assert_eq!(found.figures.len(), 10);
    }

    #[test]
    fn experiments_have_eight_hosts_and_places_for_python() {
        let text = text_of(&VARIANTS[0], &Task::timed(10));
        assert_eq!(text.matches("network_node_id").count(), 8);
        assert!(
            text.contains("sink, \"88\""),
            "all packets and the first of each circuit arrive, or the run has failed: {text}"
        );
        assert_eq!(text.matches("\"{python}\"").count(), 8);
        assert!(
            text.contains("[\"{programs}/ipv8_peer.py\", seeder, \"10\", \"1000\", \"0\", \"1\", \"2\", \"3\", \"3\", \"2\", \"1\", \"0\"]"),
            "{text}"
        );
        assert_eq!(rules(&VARIANTS[2], &CIRCUITS).matches("of 3 hops").count(), 4);
    }

    #[test]
    fn what_is_counted_is_where_the_program_sends() {
        for (name, value) in
            [("COUNTED_AFTER_S", COUNTED_AFTER_S), ("COUNTED_S", COUNTED_S), ("WARMING", f64::from(WARMING))]
        {
            assert!(PEER.text.contains(&format!("\n{name} = {value}\n")), "{name}");
        }
        let cases = cases(&setting());
        let counted = cases.iter().find(|case| case.key == "ipv8-3-counted").unwrap();
        assert_eq!(counted.options[0], "--profile=steps:1000000000,from=94500ms,until=95100ms");
        assert_eq!(counted.repetitions(&setting()), 2);
        let text = text_of(&VARIANTS[1], &Task::counted());
        assert!(
            text.contains("sink, \"96\"") && text.contains("counted, \"2\", \"1000\", \"1\", \"2\", \"3\""),
            "{text}"
        );
    }
}
