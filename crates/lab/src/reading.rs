//! What is read of a run's `sim-stats.json`, and the quantities that follow from it.

use report::chart::Unit;
use serde_json::Value;
use std::collections::BTreeMap;

/// A run's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub wall_s: f64,
    pub simulated_s: f64,
    pub hosts: f64,
    pub guests: f64,
    pub events: f64,
    /// Packets that arrived.
    pub packets: f64,
    /// By worker: the share of its time in which it waited for others.
    pub waiting: Vec<f64>,
    /// Of a run with one worker: how long it would take with others, in seconds, by their number.
    pub forecast: BTreeMap<usize, f64>,
    /// The process's proportional set size, and what the machine had less; both at their largest.
    pub peak_pss_bytes: f64,
    pub peak_used_bytes: f64,
    /// Gnomon's version, the kernel and the processor.
    pub machine: String,
    /// Where downloads count: what clients waited for, by what they do.
    pub downloads: BTreeMap<String, Downloads>,
    /// Where a relay's statistics count: what it said, by time.
    pub victim: Vec<Moment>,
    /// Where a profile counts: processor time in seconds, by role, phase and group of functions.
    pub profile: BTreeMap<[String; 3], f64>,
    /// What Gnomon itself took for each call of programs, in seconds; and programs, Gnomon for programs, the engine.
    pub calls: BTreeMap<String, f64>,
    pub parts: [f64; 3],
    /// Where the output of a host counts: the objects that its programs printed, in their order.
    pub printed: Vec<Value>,
    /// Where a kernel's sockets count, by their number; and why there were no more, if there could have been.
    pub sockets: Vec<Sockets>,
    pub socket_limit: Option<String>,
}

/// What a relay has done and has, over some seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Where the seconds begin, in simulated time.
    pub from_s: f64,
    /// Bytes that it relayed for others, per second.
    pub relayed_bytes_per_s: f64,
    /// The most descriptors, and circuits.
    pub descriptors: f64,
    pub circuits: f64,
    /// How long the system took to open a socket, on average; not a number where none was opened.
    pub open_s: f64,
}

/// Sockets of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sockets {
    pub open: f64,
    /// What the kernel's objects take, less what they took before the first.
    pub bytes: f64,
    /// How long a call took that makes a socket and connects it, on average since the entry before.
    pub connect_s: f64,
}

impl Moment {
    /// An array of five numbers, as the members are; the last may be missing.
    fn of(value: &Value) -> Option<Moment> {
        let number = |at: usize| value[at].as_f64();
        Some(Moment {
            from_s: number(0)?,
            relayed_bytes_per_s: number(1)?,
            descriptors: number(2)?,
            circuits: number(3)?,
            open_s: number(4).unwrap_or(f64::NAN),
        })
    }
}

impl Sockets {
    /// An array of three numbers, as the members are; the last may be missing.
    fn of(value: &Value) -> Option<Sockets> {
        let number = |at: usize| value[at].as_f64();
        Some(Sockets { open: number(0)?, bytes: number(1)?, connect_s: number(2).unwrap_or(f64::NAN) })
    }
}

/// The downloads of clients of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Downloads {
    /// From the beginning to the first and to the last byte, in seconds, ascending; of those that were complete.
    pub first_s: Vec<f64>,
    pub last_s: Vec<f64>,
    pub failed: f64,
}

impl Downloads {
    fn of(value: &Value) -> Downloads {
        let list = |name: &str| {
            let mut list: Vec<f64> = value[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            list.sort_by(f64::total_cmp);
            list
        };
        Downloads { first_s: list("first_s"), last_s: list("last_s"), failed: value["failed"].as_f64().unwrap_or(0.0) }
    }
}

/// Something that is computed of a reading; not a number where a run does not have it.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// The column in tables, with its unit.
    pub column: &'static str,
    pub name: &'static str,
    pub unit: Unit,
    pub of: fn(&Reading) -> f64,
}

pub const WALL: Quantity =
    Quantity { column: "wall_s", name: "run time", unit: Unit::Seconds, of: |reading| reading.wall_s };
pub const PACE: Quantity = Quantity {
    column: "simulated_per_wall",
    name: "simulated over real time",
    unit: Unit::Fraction,
    of: |reading| reading.simulated_s / reading.wall_s,
};
pub const WAITING: Quantity = Quantity {
    column: "waiting_mean",
    name: "share of time that workers wait",
    unit: Unit::Share,
    of: |reading| reading.waiting.iter().sum::<f64>() / reading.waiting.len() as f64,
};
/// The difference between the worker that waits most and the one that waits least.
pub const WAITING_SPREAD: Quantity = Quantity {
    column: "waiting_spread",
    name: "spread of waiting over workers",
    unit: Unit::Share,
    of: |reading| {
        let (least, most) = reading.waiting.iter().fold((f64::NAN, f64::NAN), |(a, b), w| (a.min(*w), b.max(*w)));
        most - least
    },
};
pub const PSS: Quantity =
    Quantity { column: "peak_pss_bytes", name: "memory", unit: Unit::Bytes, of: |reading| reading.peak_pss_bytes };
pub const USED: Quantity = Quantity {
    column: "peak_used_bytes",
    name: "memory that the machine had less",
    unit: Unit::Bytes,
    of: |reading| reading.peak_used_bytes,
};

pub const GUESTS: Quantity =
    Quantity { column: "guests", name: "programs", unit: Unit::Count, of: |reading| reading.guests };

const COUNTS: [Quantity; 5] = [
    Quantity { column: "simulated_s", name: "simulated time", unit: Unit::Seconds, of: |reading| reading.simulated_s },
    Quantity { column: "hosts", name: "hosts", unit: Unit::Count, of: |reading| reading.hosts },
    GUESTS,
    Quantity { column: "events", name: "events", unit: Unit::Count, of: |reading| reading.events },
    Quantity { column: "packets", name: "packets", unit: Unit::Count, of: |reading| reading.packets },
];

/// All, in the order of tables.
pub fn quantities() -> impl Iterator<Item = Quantity> {
    [WALL, PACE, WAITING, WAITING_SPREAD, PSS, USED].into_iter().chain(COUNTS)
}

impl Reading {
    /// None if the text is no `sim-stats.json` of Gnomon.
    pub fn of(text: &str) -> Option<Reading> {
        let stats: Value = serde_json::from_str(text).ok()?;
        let downloads = &stats["downloads"];
        let profile = &stats["profile"];
        let rows = |name: &str| profile[name].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let seconds = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e9;
        let groups = rows("groups").map(|row| ([0, 1, 2].map(|at| text(&row[at])), seconds(&row[3]))).collect();
        let calls = rows("calls").map(|row| (text(&row[0]), seconds(&row[1]))).collect();
        let parts = ["programs_ns", "kernel_ns", "engine_ns"].map(|name| seconds(&profile[name]));
        let victim = stats["victim"].as_array().into_iter().flatten().filter_map(Moment::of).collect();
        let printed = stats["printed"].as_array().cloned().unwrap_or_default();
        let sockets = stats["sockets"].as_array().into_iter().flatten().filter_map(Sockets::of).collect();
        let socket_limit = stats["socket_limit"].as_str().map(str::to_owned);
        let stats = &stats["gnomon"];
        let number = |value: &Value| value.as_f64();
        let count = |value: &Value| value.as_f64().unwrap_or(0.0);
        let (provenance, memory) = (&stats["provenance"], &stats["memory"]);
        let word = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        Some(Reading {
            wall_s: number(&stats["wall_ns"])? / 1e9,
            simulated_s: number(&stats["simulated_ns"])? / 1e9,
            hosts: count(&stats["hosts"]),
            guests: count(&stats["guests"]),
            events: count(&stats["events"]),
            packets: count(&stats["network"]["packets_delivered"]),
            waiting: stats["workers"].as_array().into_iter().flatten().map(waiting_share).collect(),
            forecast: stats["forecast"].as_array().into_iter().flatten().filter_map(foretold).collect(),
            peak_pss_bytes: count(&memory["peak_pss_bytes"]),
            peak_used_bytes: count(&memory["peak_used_bytes"]),
            machine: format!(
                "Gnomon {}, Linux {}, {} processors: {}",
                word(&stats["version"]),
                word(&provenance["kernel"]),
                count(&provenance["processors"]),
                word(&provenance["processor"])
            ),
            downloads: downloads
                .as_object()
                .into_iter()
                .flatten()
                .map(|(behaviour, value)| (behaviour.clone(), Downloads::of(value)))
                .collect(),
            victim,
            profile: groups,
            calls,
            parts,
            printed,
            sockets,
            socket_limit,
        })
    }
}

/// (workers, run time in seconds).
fn foretold(entry: &Value) -> Option<(usize, f64)> {
    let workers = usize::try_from(entry["workers"].as_u64()?).ok()?;
    Some((workers, entry["wall_ns"].as_f64()? / 1e9))
}

fn waiting_share(worker: &Value) -> f64 {
    let part = |name: &str| worker[name].as_f64().unwrap_or(0.0);
    let waiting = part("waiting_ns");
    let working = ["running_ns", "stealing_ns", "delivering_ns", "logging_ns"].map(part);
    waiting / (waiting + working.iter().sum::<f64>())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A `sim-stats.json` of a run with two workers, of which the second waited for half of its time.
    pub fn stats(wall_s: f64, pss: u64) -> String {
        let worker = |running: u64, waiting: u64| serde_json::json!({"running_ns": running, "delivering_ns": 0, "waiting_ns": waiting});
        serde_json::json!({"gnomon": {
            "version": "1.2.3",
            "provenance": {"kernel": "6.1", "processor": "A CPU", "processors": 2},
            "wall_ns": (wall_s * 1e9) as u64, "simulated_ns": 60_000_000_000u64,
            "hosts": 10, "guests": 10, "events": 100, "network": {"packets_delivered": 90},
            "workers": [worker(100, 0), worker(50, 50)],
            "forecast": [{"workers": 2, "wall_ns": 2_000_000_000u64}],
            "memory": {"peak_pss_bytes": pss, "peak_used_bytes": 7},
        }})
        .to_string()
    }

    #[test]
    fn quantities_follow_from_a_runs_counters() {
        let reading = Reading::of(&stats(4.0, 1000)).expect("figures");
        let value = |quantity: Quantity| (quantity.of)(&reading);
        assert_eq!((value(WALL), value(PACE), value(PSS)), (4.0, 15.0, 1000.0));
        assert_eq!((value(WAITING), value(WAITING_SPREAD)), (0.25, 0.5));
        assert_eq!(reading.machine, "Gnomon 1.2.3, Linux 6.1, 2 processors: A CPU");
        assert_eq!(reading.forecast, BTreeMap::from([(2, 2.0)]));
        assert_eq!(Reading::of("{}"), None);
        assert_eq!(Reading::of("no JSON"), None);
    }
}
