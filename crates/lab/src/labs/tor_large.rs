//! `tor-large`: how many hosts of a Tor network fit into memory, and how fast they go.

use super::{Findings, Lab, PAPER, THESIS, bar, cell, words};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Source};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{PACE, Quantity, Reading, USED, WALL};
use report::Estimate;
use report::chart::{Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Unit};
use report::html::Table;

pub const LAB: Lab = Lab {
    name: "tor-large",
    title: "Large Tor networks",
    about: "memory and pace of Tor networks as large as the machine takes",
    publications: &[&THESIS, &PAPER],
    published: "The largest network had 56,898 hosts (5,100 web servers, 1,998 relays, 49,800 clients). It ran for 42 simulated minutes with 64 threads, \
                in about five days, on the one machine that had the memory: 2 TB, since it took more than 1 TB. The later paper's had 22,499 hosts (1,500 \
                servers, 699 relays, 20,300 clients); it was stopped after 65 hours, within a simulated hour.",
    measured: "Networks of 'gnomon tor new' with the largest one's shares of servers, relays (at least 6) and clients, who fetch pages with pauses; 3 \
               authorities more. Small: 24 and 100 hosts for 3 simulated minutes. Full: 100 hosts, as many as memory takes, and the published \
               numbers, for 42 simulated minutes; 14 MiB are reckoned for each host. Memory is what the machine had less than before, with \
               everything in it.",
    figures: &[],
    cases,
    findings,
};

/// What a host takes at most, for the decision what fits.
const BYTES_PER_HOST: u64 = 14 << 20;
const LARGEST: u32 = 56_898;
const GIB: f64 = (1u64 << 30) as f64;
/// 2 TB, as memory is counted.
const PUBLISHED_BYTES: f64 = 2.0 * 1024.0 * GIB;

/// How many hosts of the published memory one GiB holds at least.
fn published_hosts_per_gib() -> f64 {
    f64::from(LARGEST) / (PUBLISHED_BYTES / GIB)
}

/// Host-seconds that a worker simulates in a second: 42 minutes of the largest network in five days, by 64 threads.
fn published_pace_per_worker() -> f64 {
    f64::from(LARGEST) * 42.0 * 60.0 / (5.0 * 86_400.0) / 64.0
}

const HOSTS_PER_GIB: Quantity = Quantity {
    column: "hosts_per_gib",
    name: "hosts for each GiB",
    unit: Unit::Fraction,
    of: |reading| reading.hosts / (reading.peak_used_bytes / GIB),
};
const BYTES_EACH: Quantity = Quantity {
    column: "bytes_per_host",
    name: "memory for each host",
    unit: Unit::Bytes,
    of: |reading| reading.peak_used_bytes / reading.hosts,
};
const PACE_PER_WORKER: Quantity = Quantity {
    column: "hosts_in_real_time_per_worker",
    name: "hosts in real time for each worker",
    unit: Unit::Fraction,
    of: |reading: &Reading| reading.hosts * reading.simulated_s / reading.wall_s / reading.waiting.len() as f64,
};

/// Numbers of hosts, in ascending order.
fn sizes(setting: &Setting) -> Vec<u32> {
    match setting.size {
        Size::Smallest => vec![16],
        Size::Small => vec![24, 100],
        Size::Full => {
            let fits = setting.memory_bytes / BYTES_PER_HOST;
            // In steps, so that a little more or less of free memory makes no other experiment.
            let steps = std::iter::successors(Some(200u32), |hosts| hosts.checked_mul(2));
            let largest = steps.take_while(|hosts| u64::from(*hosts) <= fits && *hosts < 22_499).last();
            [Some(100), largest, Some(22_499), Some(LARGEST)].into_iter().flatten().collect()
        }
    }
}

fn key(hosts: u32) -> String {
    format!("hosts{hosts}")
}

fn cases(setting: &Setting) -> Vec<Case> {
    let (bootstrap, duration) = if setting.size == Size::Full { ("30 min", "42 min") } else { ("2 min", "3 min") };
    let case = |hosts: u32| {
        let share = |of: u32| (f64::from(of) * f64::from(hosts) / f64::from(LARGEST)).round().max(1.0) as u32;
        let (relays, servers) = (share(1_998).max(6), share(5_100));
        let clients = hosts.saturating_sub(relays + servers).max(1);
        let number = |name: &str, value: u32| [format!("--{name}"), value.to_string()];
        let mut options = Vec::new();
        options.extend(number("relays", relays));
        options.extend(number("servers", servers));
        options.extend(number("web-clients", clients));
        options
            .extend(["bulk-clients", "performance-clients", "markov-clients"].iter().flat_map(|name| number(name, 0)));
        options.extend(["--amount", "endless", "--bootstrap", bootstrap, "--duration", duration].map(str::to_owned));
        Case {
            key: key(hosts),
            factors: vec![("configured_hosts", hosts.to_string())],
            experiment: Experiment::Tor { name: format!("hosts{hosts}-{}", setting.size.name()), options },
            options: Case::scheduled("steal", setting.processors.max(1)),
            memory_bytes: u64::from(hosts) * BYTES_PER_HOST,
        }
    };
    sizes(setting).into_iter().map(case).collect()
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let sizes = sizes(setting);
    // The largest that was run says most about large ones.
    let measured = |hosts: &&u32| !measurements.values(&key(**hosts), WALL).is_empty();
    let largest = sizes.iter().rev().find(measured).map(|hosts| key(*hosts)).unwrap_or_default();
    let source = Source { publication: &THESIS, passage: "sections 4.4.1 and 4.4.3" };
    let hosts = Claim {
        statement: "A GiB of memory holds at least as many hosts of a Tor network as published".into(),
        published: "56,898 hosts in 1 to 2 TB: 27.8 to 55.6 for each GiB".into(),
        source,
        bound: Bound::AtLeast(published_hosts_per_gib()),
        unit: Unit::Fraction,
    };
    let pace = Claim {
        statement: "A worker simulates at least as many hosts in real time as published".into(),
        published: "42 minutes of 56,898 hosts in about five days with 64 threads: 5.2 for each".into(),
        source,
        bound: Bound::AtLeast(published_pace_per_worker()),
        unit: Unit::Fraction,
    };
    Findings {
        notes: vec![
            "What a host does differs: published clients made more traffic, in tor of 2017, on processors of then. Small networks share fixed \
             costs among fewer hosts, but have shorter directories than large ones."
                .to_owned(),
        ],
        judgements: vec![
            hosts.judge(&measurements.values(&largest, HOSTS_PER_GIB), None),
            pace.judge(&measurements.values(&largest, PACE_PER_WORKER), None),
        ],
        figures: vec![figure(&sizes, measurements)],
        tables: vec![table(&sizes, measurements)],
    }
}

fn figure(sizes: &[u32], measurements: &Measurements) -> Figure {
    let ours = sizes.iter().map(|hosts| bar(&measurements.values(&key(*hosts), BYTES_EACH)));
    // Of the published one, only the ends are known within which its memory was.
    let each = PUBLISHED_BYTES / f64::from(LARGEST);
    let theirs = Bar { value: Some(each * 0.75), interval: Some((each / 2.0, each)), mark: None };
    let named = sizes.iter().map(|hosts| format!("{hosts} hosts"));
    Figure {
        id: "tor-large-memory".to_owned(),
        title: "Memory for each host of a Tor network".to_owned(),
        subtitle: "by number of hosts".to_owned(),
        caption:
            "Of the published one it is known that it took more than 1 TB and at most 2 TB. Other intervals are 95 %."
                .to_owned(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Memory for each host", "bytes_per_host", Unit::Bytes).from(0.0),
            category_column: "network",
            categories: named.chain(["56898, published".to_owned()]).collect(),
            series: vec![BarSeries {
                name: "memory for each host".to_owned(),
                ink: Ink::solid(0),
                bars: ours.chain([theirs]).collect(),
            }],
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    }
}

fn table(sizes: &[u32], measurements: &Measurements) -> Table {
    let rows = sizes.iter().map(|hosts| {
        let key = key(*hosts);
        let cell = |quantity| cell(measurements, &key, quantity);
        let guests = Estimate::of(&measurements.values(&key, crate::reading::GUESTS));
        vec![
            hosts.to_string(),
            guests.map_or_else(|| "–".to_owned(), |found| shown(Unit::Count, found.mean, None)),
            cell(WALL),
            cell(PACE),
            cell(USED),
            cell(BYTES_EACH),
            cell(HOSTS_PER_GIB),
            cell(PACE_PER_WORKER),
        ]
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    rows.push(
        ["56898, published", "–", "about 5 d", "0.0058", "1 to 2 TiB", "18.4 to 36.9\u{a0}MiB", "27.8 to 55.6", "5.2"]
            .map(str::to_owned)
            .to_vec(),
    );
    Table {
        title: "By number of hosts".into(),
        header: words(&[
            "Hosts",
            "Programs",
            "Run time",
            "Simulated over real time",
            "Memory",
            "for each host",
            "Hosts for each GiB",
            "Hosts in real time for each worker",
        ]),
        rows,
        text_columns: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_published_shares() {
        let setting = Setting::tried(Size::Full, &[]);
        let cases = cases(&setting);
        let options = match &cases.last().expect("cases").experiment {
            Experiment::Tor { options, .. } => options.join(" "),
            _ => unreachable!("Tor networks"),
        };
        assert!(options.starts_with("--relays 1998 --servers 5100 --web-clients 49800 "), "{options}");
    }

    #[test]
    fn memory_decides_which_sizes_are_run() {
        let setting = Setting { repetitions: 1, memory_bytes: 20 << 30, ..Setting::tried(Size::Full, &[]) };
        assert_eq!(sizes(&setting), [100, 800, 22_499, 56_898]);
        assert_eq!(Measurements::new(cases(&setting), &setting).runs(&setting), 2);
    }

    #[test]
    fn published_figures_are_as_reckoned_by_hand() {
        assert!((published_hosts_per_gib() - 27.8).abs() < 0.05);
        assert!((published_pace_per_worker() - 5.19).abs() < 0.01);
    }
}
