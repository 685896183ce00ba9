//! `phold`: what stealing of work saves where hosts have very unequally much to do.

use super::scheduling::{Forecast, Grid};
use super::{Findings, Lab, PAPER, words};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Source};
use crate::experiment::Phold;
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::WALL;
use report::Estimate;
use report::chart::Unit;
use report::html::Table;

pub const LAB: Lab = Lab {
    name: "phold",
    title: "PHOLD: scheduling policies",
    about: "run time over hosts, messages, workers and policies, in a synthetic load",
    publications: &[&PAPER],
    published: "PHOLD with destinations by Pareto weights, 60 simulated seconds, over threads, hosts and messages, on three machines: the run time of \
                each improvement added to those before it (logging, loading, migration with work stealing) relative to the simulator without any. \
                Loading saved about 25 % everywhere, 29 % at best; with work stealing it was 31 % with 4 threads, while with 32 threads runs took \
                22 % longer than without any of them.",
    measured: "The same load (gnomon-traffic phold, shape 1.5, 50 ms between any two hosts). Gnomon has the published loading for good, so what is \
               compared is its policies: 'static', where each worker keeps its hosts, 'steal' and 'steal-longest', where idle ones take from \
               others, 'serial', where one worker runs all; and its log, of which each worker has a part that it hands over at a window's end, with one that all \
               write under one lock. Small: 30 simulated seconds; full: 60. Against the published numbers stands the run time with 'steal' over that with \
               'static'.",
    figures: &[],
    cases,
    findings,
};

const STATIC: &str = "static";
const STEAL: &str = "steal";
const PARALLEL: [&str; 3] = [STATIC, STEAL, "steal-longest"];

/// Loads of a size: the usual one, and those that differ from it in hosts or messages.
struct Loads {
    usual: Phold,
    hosts: &'static [u32],
    messages: &'static [u32],
}

fn loads(setting: &Setting) -> Loads {
    let load = |hosts, messages, seconds| Phold { hosts, messages, seconds };
    match setting.size {
        Size::Smallest => Loads { usual: load(12, 2, 3), hosts: &[], messages: &[] },
        Size::Small => Loads { usual: load(100, 10, 30), hosts: &[25, 100, 320], messages: &[2, 10, 40] },
        Size::Full => Loads { usual: load(1000, 10, 60), hosts: &[320, 1000, 4000], messages: &[1, 10, 100] },
    }
}

impl Loads {
    /// Without the usual one.
    fn others(&self) -> Vec<Phold> {
        let hosts = self.hosts.iter().map(|hosts| Phold { hosts: *hosts, ..self.usual });
        let messages = self.messages.iter().map(|messages| Phold { messages: *messages, ..self.usual });
        hosts.chain(messages).filter(|load| *load != self.usual).collect()
    }
}

fn key(load: Phold, policy: &str, workers: usize) -> String {
    format!("hosts{}-messages{}-{policy}-workers{workers}", load.hosts, load.messages)
}

/// With as many workers loads are compared; the published best was with 4.
fn usual_workers(setting: &Setting) -> usize {
    *setting.workers(4).last().expect("one worker at least")
}

/// The load that is foretold for more workers: with 320 hosts, where there is such a one.
fn foretold(loads: &Loads) -> Phold {
    let others = loads.others();
    others.into_iter().find(|load| load.hosts == 320).unwrap_or(loads.usual)
}

/// How the log is written, with the option for it. All records are made: two for each message.
const LOGGERS: [(&str, &[&str]); 2] = [("buffers", &[]), ("one lock", &["--log-at-once"])];

/// The factor that says what is logged, and how.
const LOG: &str = "log";

fn logger_key(logger: &str, workers: usize) -> String {
    format!("logger-{}-workers{workers}", logger.replace(' ', "-"))
}

fn logger_case(load: Phold, (logger, option): (&str, &[&str]), workers: usize) -> Case {
    let mut case = case(load, STEAL, workers);
    case.key = logger_key(logger, workers);
    case.factors.retain(|(name, _)| *name != LOG);
    case.factors.push((LOG, format!("each message, {logger}")));
    case.options.extend(["--log-level", "trace"].iter().chain(option).map(|word| (*word).to_owned()));
    case
}

fn case(load: Phold, policy: &str, workers: usize) -> Case {
    Case {
        key: key(load, policy, workers),
        factors: vec![
            ("configured_hosts", load.hosts.to_string()),
            ("messages", load.messages.to_string()),
            ("policy", policy.to_owned()),
            ("workers", workers.to_string()),
            (LOG, "little".to_owned()),
        ],
        experiment: Experiment::File(load.text()),
        options: Case::scheduled(policy, workers),
        memory_bytes: (100 << 20) + u64::from(load.hosts) * (1 << 20),
    }
}

fn cases(setting: &Setting) -> Vec<Case> {
    let loads = loads(setting);
    let mut all = vec![case(loads.usual, "serial", 1)];
    for workers in setting.workers(64) {
        all.extend(PARALLEL.iter().map(|policy| case(loads.usual, policy, workers)));
    }
    let workers = usual_workers(setting);
    for load in loads.others() {
        all.extend([STATIC, STEAL].map(|policy| case(load, policy, workers)));
    }
    let load = foretold(&loads);
    if load != loads.usual {
        all.push(case(load, STEAL, 1));
    }
    all.push(case(load, STEAL, 1).foretelling());
    all.extend(LOGGERS.map(|logger| logger_case(loads.usual, logger, workers)));
    all
}

/// By repetition: the run time with stealing over that without.
fn gain(measurements: &Measurements, load: Phold, workers: usize) -> Vec<f64> {
    measurements.ratios(&key(load, STEAL, workers), &key(load, STATIC, workers), WALL)
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let loads = loads(setting);
    let workers = setting.workers(64);
    let of = |policy: &str, workers: usize| key(loads.usual, policy, workers);
    let grid = Grid { measurements, policies: &PARALLEL, workers: &workers, key: &of };
    let usual = format!(
        "Figures are of {} hosts with {} messages each. One worker with the policy 'serial' takes {}.",
        loads.usual.hosts,
        loads.usual.messages,
        super::cell(measurements, &key(loads.usual, "serial", 1), WALL)
    );
    let (load, most) = (foretold(&loads), usual_workers(setting));
    let named = format!("{} hosts, {} messages of each", load.hosts, load.messages);
    let mut measured = vec![(1, key(load, STEAL, 1)), (most, key(load, STEAL, most))];
    measured.dedup();
    let foretells = Case::foretelling_key(&measured[0].1);
    let forecast = Forecast { measurements, prefix: "phold", load: &named, foretells: &foretells, measured: &measured };
    Findings {
        notes: vec![usual],
        judgements: judgements(setting, measurements, &loads),
        figures: grid.figures("phold").into_iter().chain(forecast.figure()).collect(),
        tables: vec![
            grid.table(),
            loads_table(setting, measurements, &loads),
            loggers_table(setting, measurements, &loads),
            forecast.table(),
        ],
    }
}

fn judgements(setting: &Setting, measurements: &Measurements, loads: &Loads) -> Vec<Judgement> {
    let claim = |statement: &str, published: &str, passage, bound| Claim {
        statement: statement.to_owned(),
        published: published.to_owned(),
        source: Source { publication: &PAPER, passage },
        bound,
        unit: Unit::Fraction,
    };
    let four = claim(
        "With 4 workers, stealing shortens a run: its time over that of 'static' is below 1",
        "0.69 with stealing to about 0.75 without, both relative to the original: 0.92",
        "section 5, Figure 6c",
        Bound::AtMost(1.0),
    );
    let many = claim(
        "With 32 workers, stealing lengthens a run: its time over that of 'static' is above 1",
        "1.22 with stealing to about 0.75 without: 1.6",
        "section 5, Figure 6c",
        Bound::AtLeast(1.0),
    );
    let workers = usual_workers(setting);
    let logger = |name| logger_key(name, workers);
    let logging = |statement: &str, published, bound| {
        let values = measurements.ratios(&logger(LOGGERS[0].0), &logger(LOGGERS[1].0), WALL);
        claim(statement, published, "section 5", bound).judge(&values, setting.lacks_processors(2))
    };
    let mut all = vec![
        logging(
            "Buffers of workers in place of one lock for all never lengthen a run that logs much: time over that with the lock is at most 1",
            "no case that logging reduced performance",
            Bound::AtMost(1.0),
        ),
        logging(
            "They save 15 %: time over that with the lock is at most 0.85",
            "in most cases about 15 %",
            Bound::AtMost(0.85),
        ),
        four.judge(&gain(measurements, loads.usual, 4), setting.lacks_processors(4)),
        many.judge(&gain(measurements, loads.usual, 32), setting.lacks_processors(32)),
    ];
    let change = |few: Phold, much: Phold| -> Vec<f64> {
        let (few, much) = (gain(measurements, few, workers), gain(measurements, much, workers));
        much.iter().zip(few).map(|(much, few)| much / few).collect()
    };
    let ends = |numbers: &[u32]| numbers.first().copied().zip(numbers.last().copied());
    if let Some((few, much)) = ends(loads.messages) {
        let values = change(Phold { messages: few, ..loads.usual }, Phold { messages: much, ..loads.usual });
        let statement =
            format!("What stealing changes is the same, within a tenth, with {few} and {much} messages of each host");
        let claim = claim(&statement, "similar", "section 5, Figure 6a", Bound::Between(0.9, 1.1));
        all.push(claim.judge(&values, setting.lacks_processors(2)));
    }
    if let Some((few, much)) = ends(loads.hosts) {
        let values = change(Phold { hosts: few, ..loads.usual }, Phold { hosts: much, ..loads.usual });
        let statement = format!("What stealing changes is the same, within a tenth, with {few} and {much} hosts");
        let claim = claim(&statement, "similar", "section 5, Figure 6b", Bound::Between(0.9, 1.1));
        all.push(claim.judge(&values, setting.lacks_processors(2)));
    }
    all
}

fn loads_table(setting: &Setting, measurements: &Measurements, loads: &Loads) -> Table {
    let workers = usual_workers(setting);
    let mut all = loads.others();
    all.push(loads.usual);
    all.sort_by_key(|load| (load.hosts, load.messages));
    let rows = all.into_iter().map(|load| {
        let cell = |policy| super::cell(measurements, &key(load, policy, workers), WALL);
        let gain = Estimate::of(&gain(measurements, load, workers));
        let gain = gain.map_or_else(|| "–".to_owned(), |found| shown(Unit::Fraction, found.mean, found.error));
        vec![load.hosts.to_string(), load.messages.to_string(), cell(STATIC), cell(STEAL), gain]
    });
    Table {
        title: format!("By load, with {workers} workers"),
        header: words(&["Hosts", "Messages of each", "static", "steal", "steal over static"]),
        rows: rows.collect(),
        text_columns: 0,
    }
}

fn loggers_table(setting: &Setting, measurements: &Measurements, loads: &Loads) -> Table {
    let workers = usual_workers(setting);
    let quiet = ("none of these records", key(loads.usual, STEAL, workers));
    let logging = LOGGERS.map(|(name, _)| (name, logger_key(name, workers)));
    let row = |(name, key): &(&str, String)| {
        let ratio = Estimate::of(&measurements.ratios(key, &quiet.1, WALL));
        let ratio = ratio.map_or_else(|| "–".to_owned(), |found| shown(Unit::Fraction, found.mean, found.error));
        vec![(*name).to_owned(), super::cell(measurements, key, WALL), ratio]
    };
    Table {
        title: format!("By logger, with {workers} workers and two records for each message"),
        header: words(&["Logger", "Run time", "Over that without"]),
        rows: std::iter::once(&quiet).chain(&logging).map(row).collect(),
        text_columns: 1,
    }
}
