//! What a run amounts to: guests' final states, counters, the digest.

use super::forecast::Forecast;
use super::host::{Guest, SimHost};
use super::{Losses, is_expected};
use base::interference::Interference;
use base::{Cause, Interferences, SimTime};
use recorder::stats::{
    ComputingStats, CpuStats, ForecastStats, InterferenceStats, MemoryStats, NetworkStats, SimStats, WorkerStats, add,
};
use recorder::{OutputPool, RunDigest};
use scenario::Plan;
use simkernel::process::ExitStatus;
use std::path::PathBuf;
use std::time::Duration;

/// What became of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Summary {
    /// Something could not be recorded: the summary and the statistics say so.
    pub(super) fn lose(&mut self, losses: &Losses) {
        let known = self.interferences.get(Cause::Recording).map_or(0, |known| known.times);
        let new = (losses.all.len() as u64).saturating_sub(known);
        self.interferences.note_many(Cause::Recording, new, || losses.all[0].clone());
        fill_interferences(&mut self.stats, &self.interferences);
    }

    /// Adds how long the run would have taken with other numbers of workers: what is outside of windows stays as it was.
    pub(super) fn foretell(&mut self, forecast: &Forecast) {
        let one = forecast.results().next().map_or(Duration::ZERO, |(_, spent)| spent);
        let outside = self.wall.saturating_sub(one);
        let whole = |(workers, spent): (usize, Duration)| ForecastStats {
            workers: workers as u64,
            wall_ns: (outside + spent).as_nanos() as u64,
        };
        self.stats.gnomon.forecast = forecast.results().map(whole).collect();
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

/// Why a run failed before or while it ran.
#[derive(Clone, Debug)]
pub enum RunError {
    /// The machine lacks something that guests need.
    Machine(String),
    /// The data directory cannot be made or written.
    Recording(String),
    /// A bug.
    Simulator(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Machine(text) | RunError::Recording(text) => f.write_str(text),
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

/// Ends what hosts still have open, and counts.
pub(super) fn conclude(
    plan: &Plan,
    hosts: Vec<SimHost>,
    outcome: &engine::Outcome,
    (cpu, memory): (CpuStats, MemoryStats),
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
    let mut pool = OutputPool::new(64);
    for mut host in hosts {
        host.kernel.flush_outputs();
        host.kernel.look_at_living_code();
        for closed in host.tap.close(&mut pool) {
            losses.note("a capture", closed);
        }
        digest_outputs(&mut host, simulated, losses);
        digest.host(&host.name, &host.tap.digest);
        guests.extend(host.guests.iter().map(|guest| final_guest(&host, guest)));
        crash_reports.extend(reports_of(&host));
        count(&mut stats, &mut interferences, &host);
    }
    if !plan.experimental.use_syscall_counters {
        stats.syscalls.clear();
    }
    let digest = digest.finish();
    note_computing(&mut interferences, &stats.gnomon.computing);
    fill_interferences(&mut stats, &interferences);
    fill_stats(&mut stats, plan, outcome, &digest, wall, simulated);
    stats.gnomon.guests = guests.len() as u64;
    (stats.gnomon.cpu, stats.gnomon.memory) = (cpu, memory);
    let failed = guests.iter().any(|guest| !guest.as_expected);
    let verdict = match (interrupted, failed) {
        (true, _) => Verdict::Interrupted,
        (false, true) => Verdict::Failed,
        (false, false) => Verdict::Success,
    };
    let data_directory = plan.data_directory.clone();
    Summary { verdict, guests, crash_reports, digest, wall, simulated, data_directory, stats, interferences }
}

/// Logs of calls are no part of the digest: recording does not change a run.
fn digest_outputs(host: &mut SimHost, simulated: SimTime, losses: &mut Losses) {
    let mut index = 0;
    for output in host.kernel.outputs() {
        losses.all.extend(output.error.clone());
        let stream = match output.path.extension().and_then(|extension| extension.to_str()) {
            Some("stdout") => recorder::Stream::Stdout,
            Some("stderr") => recorder::Stream::Stderr,
            _ => continue,
        };
        host.tap.digest.output(simulated, index, stream, &output.content_hash());
        index += 1;
    }
}

/// The reports of crashes on a host.
fn reports_of(host: &SimHost) -> impl Iterator<Item = PathBuf> {
    let folder = PathBuf::from("hosts").join(&host.name);
    host.kernel.crashes.iter().filter_map(move |crash| Some(folder.join(crash.report.as_ref()?)))
}

fn final_guest(host: &SimHost, guest: &Guest) -> FinalGuest {
    let state = match (&guest.failed, guest.ended, guest.pid) {
        (Some(why), ..) => GuestState::Failed(why.clone()),
        (None, Some(ExitStatus::Exited(code)), _) => GuestState::Exited(code),
        (None, Some(ExitStatus::Signaled(signal)), _) => GuestState::Signaled(signal),
        (None, None, Some(_)) => GuestState::Running,
        (None, None, None) => GuestState::NotStarted,
    };
    let as_expected = is_expected(guest.expected, &state);
    let doing = guest.pid.filter(|_| !as_expected).and_then(|pid| host.kernel.doing(pid));
    let crash = host.kernel.crashes.iter().find(|crash| Some(crash.pid) == guest.pid);
    FinalGuest {
        host: host.name.clone(),
        path: guest.path.clone(),
        pid: guest.pid.map(|pid| pid.0),
        state,
        expected: guest.expected,
        as_expected,
        doing,
        crash_report: crash.and_then(|crash| crash.report.clone()),
    }
}

fn count(stats: &mut SimStats, all: &mut Interferences, host: &SimHost) {
    let counts = host.interface.counters();
    let network: &mut NetworkStats = &mut stats.gnomon.network;
    network.packets_sent += counts.sent;
    network.packets_delivered += counts.delivered;
    network.packets_lost += host.gone.lost;
    network.packets_dropped += counts.dropped + host.gone.unroutable;
    network.bytes_sent += counts.sent_bytes;
    network.bytes_delivered += counts.delivered_bytes;
    stats.gnomon.events += host.events_handled;
    let (computing, sum) = (host.kernel.computing, &mut stats.gnomon.computing);
    sum.spins += computing.spins;
    sum.over_budget += computing.over_budget;
    sum.preemptions += computing.preemptions;
    sum.preempted_ns += computing.preempted.as_nanos();
    sum.charged_ns += computing.charged.as_nanos();
    all.add(&host.kernel.interferences);
    stats.gnomon.outputs_refused += host.kernel.outputs_refused;
    for (number, calls) in &host.kernel.unsupported_calls {
        add(&mut stats.gnomon.interception.unsupported, &call_name(*number), *calls);
    }
    for (what, processes) in &host.kernel.escapes {
        add(&mut stats.gnomon.interception.escapes, what, *processes);
    }
    for (site, times) in host.kernel.missed_sites.values() {
        add(&mut stats.gnomon.interception.misses, site, *times);
    }
    for (number, calls) in host.kernel.call_counts.iter().enumerate().filter(|(_, calls)| **calls > 0) {
        add(&mut stats.syscalls, &call_name(number as u64), *calls);
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

fn call_name(number: u64) -> String {
    linux_abi::nr::name(number).map_or_else(|| format!("number {number}"), str::to_owned)
}

fn fill_stats(
    stats: &mut SimStats,
    plan: &Plan,
    outcome: &engine::Outcome,
    digest: &str,
    wall: Duration,
    simulated: SimTime,
) {
    let counters = guest::counters();
    let gnomon = &mut stats.gnomon;
    gnomon.schema = recorder::stats::SCHEMA;
    gnomon.version = env!("CARGO_PKG_VERSION").to_owned();
    gnomon.seed = plan.general.seed.into();
    gnomon.digest = digest.to_owned();
    gnomon.simulated_ns = simulated.as_nanos();
    gnomon.wall_ns = wall.as_nanos() as u64;
    gnomon.hosts = plan.hosts.len() as u64;
    gnomon.windows = outcome.workers.first().map_or(0, |worker| worker.rounds);
    gnomon.max_resident_bytes = recorder::ProcessUsage::of_this_process().map_or(0, |usage| usage.max_rss_kib * 1024);
    let calls: u64 = stats.syscalls.values().sum();
    gnomon.interception.rewritten = calls.saturating_sub(counters.misses);
    gnomon.memory_map_calls.map_calls = counters.map_calls;
    gnomon.memory_map_calls.advise_calls = counters.advise_calls;
    gnomon.workers = outcome
        .workers
        .iter()
        .map(|worker| WorkerStats {
            hosts_executed: worker.hosts_run,
            hosts_stolen: worker.hosts_stolen,
            running_ns: worker.running.as_nanos() as u64,
            stealing_ns: worker.stealing.as_nanos() as u64,
            delivering_ns: worker.delivering.as_nanos() as u64,
            waiting_ns: worker.waiting.as_nanos() as u64,
            logging_ns: worker.ending.as_nanos() as u64,
        })
        .collect();
}
