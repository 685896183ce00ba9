//! What a run amounts to: guests' final states, counters, the digest.

use super::forecast::Forecast;
use super::part::{GuestPart, HostPart, Part};
use super::{Losses, is_expected};
use base::interference::Interference;
use base::{Cause, Interferences, SimTime};
use recorder::RunDigest;
use recorder::machine_files::MachineFiles;
use recorder::stats::{ComputingStats, ForecastStats, InterferenceStats, MemoryStats, SimStats};
use scenario::{HostPlan, Plan, ProcessPlan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// What became of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestState {
    Running,
    Exited(i32),
    Signaled(i32),
    /// Its start time lies behind the end.
    NotStarted,
    /// It could not be loaded.
    Failed(String),
}

impl std::fmt::Display for GuestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GuestState::Running => f.write_str("running"),
            GuestState::Exited(code) => write!(f, "exited with status {code}"),
            GuestState::Signaled(number) => match linux_abi::Signal::from_raw(*number) {
                Some(signal) => write!(f, "killed by {signal}"),
                None => write!(f, "killed by signal {number}"),
            },
            GuestState::NotStarted => f.write_str("not started"),
            GuestState::Failed(why) => write!(f, "could not be started: {why}"),
        }
    }
}

/// One process of the plan at the end.
#[derive(Clone, Debug)]
pub struct FinalGuest {
    pub host: String,
    pub path: String,
    pub pid: Option<u32>,
    pub state: GuestState,
    pub expected: scenario::FinalState,
    pub as_expected: bool,
    /// What it does, when it lives against expectation: words that follow "it".
    pub doing: Option<String>,
    /// The report of its crash, in the host's folder.
    pub crash_report: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    /// Some guest's final state was not the expected one.
    Failed,
    /// Stopped by the user.
    Interrupted,
}

#[derive(Clone, Debug)]
pub struct Summary {
    pub verdict: Verdict,
    pub guests: Vec<FinalGuest>,
    /// Reports of crashes, children of guests included, relative to the data directory.
    pub crash_reports: Vec<PathBuf>,
    /// One hash over every packet and every guest's output.
    pub digest: String,
    pub wall: Duration,
    pub simulated: SimTime,
    pub data_directory: PathBuf,
    pub stats: SimStats,
    /// In what the run depended on this machine: empty for one that can be repeated to the bit.
    pub interferences: Interferences,
    /// Where its profile lies, if one was taken.
    pub profile: Option<PathBuf>,
    /// Why the other processes of the run were lost, which interrupted it.
    pub lost: Option<String>,
    /// How many packets there were of which the filter of the record has chosen none.
    pub none_chosen_of: Option<u64>,
    /// The real paths of the machine's files that guests have read.
    pub machine_files: BTreeSet<Vec<u8>>,
}

impl Summary {
    /// Something could not be recorded: the summary and the statistics say so.
    pub(super) fn lose(&mut self, losses: &Losses) {
        let known = self.interferences.get(Cause::Recording).map_or(0, |known| known.times);
        // What cannot be written now cannot be a moment later either: the log fails with each window.
        let distinct: BTreeSet<&String> = losses.all.iter().collect();
        let new = (distinct.len() as u64).saturating_sub(known);
        self.interferences.note_many(Cause::Recording, new, || losses.all[0].clone());
        fill_interferences(&mut self.stats, &self.interferences);
    }

    /// What of the machine guests have read, and whether it stayed as it was.
    pub(super) fn note_machine_files(&mut self, files: MachineFiles) {
        self.stats.gnomon.machine_files = files.stats;
        self.interferences.note_many(Cause::ChangedFiles, files.changed, || files.first_changed.unwrap_or_default());
        fill_interferences(&mut self.stats, &self.interferences);
    }

    /// Adds how long the run would have taken with other numbers of workers, of whose processor time the first has taken `used`: what is
    /// outside of windows stays as it was.
    pub(super) fn add_forecast(&mut self, forecast: &Forecast, used: Duration) {
        let outside = used.saturating_sub(forecast.inside());
        let whole = |(workers, spent): (usize, Duration)| ForecastStats {
            workers: workers as u64,
            wall_ns: (outside + spent).as_nanos() as u64,
        };
        self.stats.gnomon.forecast = forecast.results().map(whole).collect();
    }

    /// That the filter of the record has chosen nothing, which is seldom what was meant; None if it has chosen some, or there is none.
    pub fn none_chosen(&self) -> Option<String> {
        let packets = self.none_chosen_of?;
        Some(format!("experimental.provenance_filter: it has chosen none of {packets} packets, so the record has none"))
    }

    /// One sentence per guest in an unexpected final state.
    pub fn unexpected(&self) -> Vec<String> {
        let sentence = |guest: &FinalGuest| {
            let pid = guest.pid.map_or_else(String::new, |pid| format!(".{pid}"));
            format!("{}: {}{pid} {}, expected {}", guest.host, guest.path, guest.state, guest.expected)
        };
        self.guests.iter().filter(|guest| !guest.as_expected).map(sentence).collect()
    }
}

/// What is wrong with the value of an option that the experiment may have, where only those see it who execute the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionProblem {
    /// As `experimental.provenance`.
    pub option: &'static str,
    pub message: String,
}

impl std::fmt::Display for OptionProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.option, self.message)
    }
}

/// Why a run failed before or while it ran.
#[derive(Clone, Debug)]
pub enum RunError {
    /// The machine lacks something that guests need.
    Machine(String),
    /// The data directory cannot be made or written.
    Recording(String),
    /// A bug.
    Simulator(String),
    /// Another process of the run has gone.
    Lost(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Machine(text) | RunError::Recording(text) | RunError::Lost(text) => f.write_str(text),
            RunError::Simulator(text) => write!(f, "the simulator failed: {text}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<recorder::Error> for RunError {
    fn from(error: recorder::Error) -> Self {
        RunError::Recording(error.to_string())
    }
}

/// How far a run has come.
pub(super) fn simulated_time(plan: &Plan, outcome: &engine::Outcome) -> SimTime {
    if outcome.ending == engine::Ending::Interrupted { outcome.last_window } else { plan.stop_time() }
}

/// What the parts of all processes of the run come to.
pub(super) fn conclude(
    plan: &Plan,
    parts: Vec<Part>,
    outcome: &engine::Outcome,
    losses: &mut Losses,
    wall: Duration,
) -> Summary {
    let interrupted = outcome.ending == engine::Ending::Interrupted;
    let simulated = simulated_time(plan, outcome);
    let mut stats = SimStats::default();
    let mut interferences = Interferences::default();
    let mut digest = RunDigest::new();
    let mut guests = Vec::new();
    let mut crash_reports = Vec::new();
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    let mut machine_files = BTreeSet::new();
    for (rank, part) in parts.into_iter().enumerate() {
        if rank == 0 {
            // The machine's memory is that of the first process.
            stats.gnomon.memory = MemoryStats { peak_pss_bytes: 0, ..part.stats.gnomon.memory };
        }
        stats.add(part.stats);
        losses.all.extend(part.losses);
        machine_files.extend(part.machine_files);
        hosts.extend(part.hosts);
    }
    // A host of a process that has gone is not there.
    hosts.sort_by_key(HostPart::id);
    for part in hosts {
        let host = &plan.hosts[part.id().index()];
        digest.host(&host.name, &part.digest);
        interferences.add(&part.interferences());
        crash_reports.extend(part.crash_reports);
        guests.extend(host.processes.iter().zip(part.guests).map(|(process, guest)| final_guest(host, process, guest)));
    }
    let digest = digest.finish();
    note_computing(&mut interferences, &stats.gnomon.computing);
    fill_interferences(&mut stats, &interferences);
    fill_stats(&mut stats, plan, outcome, &digest, wall, simulated);
    stats.gnomon.guests = guests.len() as u64;
    let failed = guests.iter().any(|guest| !guest.as_expected);
    let verdict = match (interrupted, failed) {
        (true, _) => Verdict::Interrupted,
        (false, true) => Verdict::Failed,
        (false, false) => Verdict::Success,
    };
    let (data_directory, lost) = (plan.data_directory.clone(), outcome.lost.clone());
    Summary {
        verdict,
        guests,
        crash_reports,
        digest,
        wall,
        simulated,
        data_directory,
        stats,
        interferences,
        profile: None,
        lost,
        none_chosen_of: None,
        machine_files,
    }
}

fn final_guest(host: &HostPlan, process: &ProcessPlan, guest: GuestPart) -> FinalGuest {
    let expected = process.expected_final_state;
    FinalGuest {
        host: host.name.clone(),
        path: process.path.clone(),
        pid: guest.pid,
        as_expected: is_expected(expected, &guest.state),
        state: guest.state,
        expected,
        doing: guest.doing,
        crash_report: guest.crash_report,
    }
}

/// Computing that took simulated time.
fn note_computing(all: &mut Interferences, computing: &ComputingStats) {
    all.note_many(Cause::Budget, computing.over_budget, || format!("{} times", computing.preemptions));
    if computing.charged_ns > 0 {
        all.note(Cause::CpuSpeed, || format!("{:.3} s", computing.charged_ns as f64 / 1e9));
    }
}

fn fill_interferences(stats: &mut SimStats, all: &Interferences) {
    let gnomon = &mut stats.gnomon;
    gnomon.computing.reproducible = all.is_empty();
    let entry = |(cause, seen): (Cause, &Interference)| {
        (cause.name(), InterferenceStats { times: seen.times, first: seen.first.clone() })
    };
    gnomon.interferences = all.iter().map(entry).collect();
}

fn fill_stats(
    stats: &mut SimStats,
    plan: &Plan,
    outcome: &engine::Outcome,
    digest: &str,
    wall: Duration,
    simulated: SimTime,
) {
    let gnomon = &mut stats.gnomon;
    gnomon.schema = recorder::stats::SCHEMA;
    gnomon.version = env!("CARGO_PKG_VERSION").to_owned();
    gnomon.seed = plan.general.seed.into();
    gnomon.digest = digest.to_owned();
    gnomon.simulated_ns = simulated.as_nanos();
    gnomon.wall_ns = wall.as_nanos() as u64;
    gnomon.hosts = plan.hosts.len() as u64;
    gnomon.windows = outcome.workers.first().map_or(0, |worker| worker.rounds);
}
