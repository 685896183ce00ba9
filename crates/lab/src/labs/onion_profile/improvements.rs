//! The publication's two improvements, built into pyipv8 while it runs: converted addresses that are kept, and sending by another thread.
//!
//! One host has processors of this machine's speed, the others compute in no time. Bursts of packets come in all modes in turns.

use super::{
    ENDED, EXIT, Host, IPV8_3, PEER, RELAY, RELAYS, RUNNING, SEEDER, SEEDER_START_S, bar, claim, each, shown_of,
    too_few, words,
};
use crate::case::{Case, Experiment, Program, Setting, Size};
use crate::claim::Bound;
use crate::experiment;
use crate::labs::Findings;
use crate::measurements::Measurements;
use crate::reading::Reading;
use report::chart::{Axis, BarSeries, Bars, Chart, Figure, Ink, Unit};
use report::html::Table;

const IMPROVED: Program =
    Program { file: "ipv8_improved.py", text: include_str!("../../../programs/ipv8_improved.py") };
const SINK: &str = "sink";
/// Of all hosts: the sink compares the seeder's clock with its own.
const CLOCK: &str = "clock_offset: 0";
/// Of the host that is measured. A call that sends takes the kernel some microseconds, which Gnomon does not measure.
const PROCESSORS: &str =
    "clock_offset: 0, cpu_speed: 1.0, cpus: 2, call_latency: 5 us, sysctl: \"net.core.rmem_max = 4194304\"";

struct Mode {
    /// As the program calls it.
    key: &'static str,
    title: &'static str,
}

const PLAIN: Mode = Mode { key: "plain", title: "as it is" };
const ADDRESSES: Mode = Mode { key: "addresses", title: "addresses kept" };
const PIPELINES: [Mode; 2] = [
    Mode { key: "thread", title: "sent by a thread" },
    Mode { key: "buffer", title: "sent by a thread, from a buffer" },
];
const MODES: [Mode; 4] = {
    let [thread, buffer] = PIPELINES;
    [PLAIN, ADDRESSES, thread, buffer]
};

/// A case: the host that is measured, and with circuits of which lengths.
struct Measured {
    key: &'static str,
    host: &'static str,
    lengths: &'static [u32],
}

const MEASURED: [Measured; 2] = [
    Measured { key: "improved-seeder", host: SEEDER, lengths: &[0, 3] },
    Measured { key: "improved-exit", host: EXIT, lengths: &[3] },
];

/// A column of the published tables, with what is said to be gained there.
struct Place {
    title: &'static str,
    case: &'static Measured,
    hops: u32,
    /// The time that converting addresses takes.
    addresses: &'static str,
    pipelining: f64,
    published: &'static str,
}

const PLACES: [Place; 3] = [
    Place {
        title: "seeder, 0 hops",
        case: &MEASURED[0],
        hops: 0,
        addresses: "0.14 of the time could be saved",
        pipelining: 0.1546,
        published: "15.46 %",
    },
    Place {
        title: "seeder, 3 hops",
        case: &MEASURED[0],
        hops: 3,
        addresses: "0.09 of the time could be saved",
        pipelining: 0.1099,
        published: "10.99 %",
    },
    Place {
        title: "exit",
        case: &MEASURED[1],
        hops: 3,
        addresses: "0.05 of the time could be saved",
        pipelining: 0.125,
        published: "12.5 %",
    },
];

/// Bursts in each mode.
fn turns(setting: &Setting) -> u32 {
    match setting.size {
        Size::Smallest => 1,
        Size::Small => 10,
        Size::Full => 40,
    }
}

fn text_of(measured: &Measured, turns: u32) -> String {
    let bursts = turns * (MODES.len() * measured.lengths.len()) as u32;
    let about = format!("improvements of pyipv8 3.2, at the {}", measured.host);
    let mut text = experiment::beginning(&about, 120 + 2 * bursts, "10 ms");
    let mut host = |name: &str, program: &Program, arguments: &str, start_s: u32, state: &str| {
        let options = if name == measured.host { PROCESSORS } else { CLOCK };
        Host { name, program, arguments, start_s, environment: "ENDPOINT: python", options, state }.write(&mut text);
    };
    let lengths: String = measured.lengths.iter().map(|hops| format!(", \"{hops}\"")).collect();
    host("tracker", &PEER, "tracker", 1, RUNNING);
    (1..=RELAYS).for_each(|number| host(&format!("relay{number}"), &PEER, RELAY, 2, RUNNING));
    host("exit", &IMPROVED, EXIT, 2, RUNNING);
    host(SINK, &IMPROVED, &format!("sink, \"{bursts}\""), 2, ENDED);
    host(SEEDER, &IMPROVED, &format!("{SEEDER}, \"{turns}\"{lengths}"), SEEDER_START_S, ENDED);
    text
}

pub fn cases(setting: &Setting) -> Vec<Case> {
    let case = |measured: &Measured| Case {
        key: measured.key.to_owned(),
        factors: vec![("program", format!("pyipv8 3.2, improved, {}", measured.host)), ("packets", String::new())],
        experiment: Experiment::Printed {
            experiment: Box::new(Experiment::Python {
                packages: &IPV8_3,
                programs: &[PEER, IMPROVED],
                text: text_of(measured, turns(setting)),
            }),
            host: SINK,
        },
        options: Vec::new(),
        memory_bytes: 1 << 30,
    };
    MEASURED.iter().map(case).collect()
}

/// Simulated seconds for a packet, by turn.
fn turns_s(reading: &Reading, hops: u32, mode: &str) -> Vec<f64> {
    let bursts = reading.printed.iter().filter(|row| row["hops"] == hops && row["mode"] == mode);
    bursts.filter_map(|row| row["packet_s"].as_f64()).collect()
}

fn packet_s(reading: &Reading, hops: u32, mode: &str) -> f64 {
    median(turns_s(reading, hops, mode))
}

/// The time for a packet in a mode over that of pyipv8 as it is. Bursts of one turn are compared, since the machine's speed drifts.
fn over_plain(reading: &Reading, hops: u32, mode: &str) -> f64 {
    let (changed, plain) = (turns_s(reading, hops, mode), turns_s(reading, hops, PLAIN.key));
    median(changed.iter().zip(&plain).map(|(changed, plain)| changed / plain).collect())
}

/// Not a number where there is nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}

pub fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let mut judgements = Vec::new();
    for place in &PLACES {
        let mut judge = |claim: crate::claim::Claim, of: &dyn Fn(&Reading) -> f64| {
            judgements.push(claim.judge(&each(measurements, place.case.key, of), too_few(setting)));
        };
        judge(
            claim(
                format!("{}: keeping converted addresses shortens the time for a packet", place.title),
                place.addresses,
                "Table I, section \u{201c}Experimental results\u{201d}",
                Bound::AtMost(1.0),
                Unit::Fraction,
            ),
            &|reading| over_plain(reading, place.hops, ADDRESSES.key),
        );
        for mode in &PIPELINES {
            judge(
                claim(
                    format!("{}: packets that are {} gain what pipelining would", place.title, mode.title),
                    place.published,
                    "section \u{201c}Experimental results\u{201d}",
                    Bound::AtLeast(place.pipelining),
                    Unit::Share,
                ),
                &|reading| 1.0 / over_plain(reading, place.hops, mode.key) - 1.0,
            );
        }
    }
    Findings {
        notes: vec![
            "Improvements: the host that is measured has two processors of this machine’s speed (‘cpu_speed: 1.0’, ‘cpus: 2’), and a system call takes it 5 µs; the others compute in \
             no time. Bursts of 500 packets go through one circuit in each mode in turns. A packet’s time is that of the burst until its last packet has arrived, less the \
             lines’ latency. Threads share the interpreter’s lock, which a thread that sends waits for after each packet."
                .to_owned(),
        ],
        judgements,
        figures: vec![figure(measurements)],
        tables: vec![table(measurements)],
    }
}

fn figure(measurements: &Measurements) -> Figure {
    let series = |(index, mode): (usize, &Mode)| BarSeries {
        name: mode.title.to_owned(),
        ink: Ink::solid(index),
        bars: PLACES
            .iter()
            .map(|place| bar(&each(measurements, place.case.key, |reading| over_plain(reading, place.hops, mode.key))))
            .collect(),
    };
    Figure {
        id: "onion-profile-improvements".to_owned(),
        title: "pyipv8 3.2 with the proposed improvements".to_owned(),
        subtitle: "time for a packet with two processors, over that of pyipv8 as it is".to_owned(),
        caption: "Medians over turns, in which each mode sends a burst; means over repetitions with 95 % intervals."
            .to_owned(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Time over that of pyipv8 as it is", "ratio", Unit::Fraction).from(0.0),
            category_column: "place",
            categories: PLACES.iter().map(|place| place.title.to_owned()).collect(),
            series: MODES.iter().enumerate().skip(1).map(series).collect(),
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    }
}

fn table(measurements: &Measurements) -> Table {
    let mut rows = Vec::new();
    for place in &PLACES {
        for mode in &MODES {
            let shown = |unit, of: &dyn Fn(&Reading) -> f64| shown_of(measurements, unit, place.case.key, of);
            let published = if PIPELINES.iter().any(|one| one.key == mode.key) { place.published } else { "–" };
            rows.push(vec![
                place.title.to_owned(),
                mode.title.to_owned(),
                shown(Unit::Seconds, &|reading| packet_s(reading, place.hops, mode.key)),
                shown(Unit::Share, &|reading| 1.0 / over_plain(reading, place.hops, mode.key) - 1.0),
                published.to_owned(),
            ]);
        }
    }
    Table {
        title: "pyipv8 3.2 with the proposed improvements: time for a packet, and gain".to_owned(),
        header: words(&["Where", "Mode", "Time", "Gain", "Published gain"]),
        rows,
        text_columns: 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packets_time_is_the_median_of_its_bursts() {
        let burst = |mode: &str, time: f64| serde_json::json!({"hops": 3, "mode": mode, "packet_s": time});
        let printed = vec![burst("plain", 9.0), burst("thread", 5.0), burst("plain", 1.0), burst("plain", 2.0)];
        let reading = Reading { printed, ..Reading::default() };
        assert_eq!(packet_s(&reading, 3, "plain"), 2.0);
        assert_eq!(packet_s(&reading, 3, "thread"), 5.0);
        assert_eq!(over_plain(&reading, 3, "thread"), 5.0 / 9.0, "bursts of the same turn");
        assert!(packet_s(&reading, 0, "plain").is_nan());
    }

    #[test]
    fn the_measured_host_alone_has_processors() {
        for measured in &MEASURED {
            let text = text_of(measured, 2);
            let line = text.lines().find(|line| line.contains("cpu_speed")).unwrap();
            assert!(line.starts_with(&format!("  {}:", measured.host)), "{line}");
            assert_eq!(text.matches("cpu_speed").count(), 1);
            assert_eq!(text.matches("clock_offset: 0").count(), 8, "clocks are compared");
        }
        assert!(text_of(&MEASURED[0], 2).contains("sink, \"16\""));
        assert!(MODES.iter().all(|mode| IMPROVED.text.contains(&format!("\n    {:<12}", mode.key))));
    }
}
