//! What one process of a run has to say at its end, in a form that travels: a run of one process has one such part.

use super::host::{Guest, SimHost};
use super::summary::GuestState;
use super::{Losses, count};
use base::{Cause, HostId, Interferences, SimTime};
use recorder::stats::{CpuStats, MemoryStats, SimStats, WorkerStats};
use recorder::{HostDigest, OutputPool};
use scenario::Plan;
use serde::{Deserialize, Serialize};
use simkernel::process::ExitStatus;
use std::path::PathBuf;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// In the order of the plan.
    pub hosts: Vec<HostPart>,
    /// Counters of the hosts together, and of the process.
    pub stats: SimStats,
    /// What could not be recorded.
    pub losses: Vec<String>,
    /// The real paths of the machine's files that guests have read.
    pub machine_files: Vec<Vec<u8>>,
}

/// One host at the end.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostPart {
    host: u32,
    pub digest: HostDigest,
    /// In the order of the plan's processes.
    pub guests: Vec<GuestPart>,
    /// Reports of crashes, children of guests included, relative to the data directory.
    pub crash_reports: Vec<PathBuf>,
    /// Events, and turns of threads.
    pub cost: u64,
    /// Packets to other hosts; counted with several ranks.
    pub sent: Vec<(u32, u64)>,
    /// By the cause's name: how often, and the first time.
    interferences: Vec<(String, u64, String)>,
}

/// One process of the plan at the end.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuestPart {
    pub pid: Option<u32>,
    pub state: GuestState,
    /// What it does, while it lives: words that follow "it".
    pub doing: Option<String>,
    /// The report of its crash, in the host's folder.
    pub crash_report: Option<String>,
}

impl HostPart {
    pub fn id(&self) -> HostId {
        HostId(self.host)
    }

    pub fn interferences(&self) -> Interferences {
        let mut all = Interferences::default();
        for (name, times, first) in &self.interferences {
            if let Some(cause) = Cause::from_name(name) {
                all.note_many(cause, *times, || first.clone());
            }
        }
        all
    }
}

/// Ends what hosts still have open, and counts.
pub fn gather(
    plan: &Plan,
    hosts: Vec<SimHost>,
    outcome: &engine::Outcome,
    (cpu, memory): (CpuStats, MemoryStats),
    losses: &mut Losses,
    simulated: SimTime,
) -> Part {
    let mut part = Part::default();
    let mut pool = OutputPool::new(64);
    // All hosts of the process have one list.
    part.machine_files = hosts.first().map(|host| host.kernel.config.machine_files.paths()).unwrap_or_default();
    for mut host in hosts {
        host.kernel.flush_outputs();
        host.kernel.look_at_living_code();
        for closed in host.tap.close(&mut pool) {
            losses.note("a capture", closed);
        }
        digest_outputs(&mut host, simulated, losses);
        count::count(&mut part.stats, &host);
        part.hosts.push(host_part(&host));
    }
    if !plan.experimental.use_syscall_counters {
        part.stats.syscalls.clear();
    }
    count_process(&mut part.stats, outcome);
    (part.stats.gnomon.cpu, part.stats.gnomon.memory) = (cpu, memory);
    part
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

fn host_part(host: &SimHost) -> HostPart {
    let folder = PathBuf::from("hosts").join(&host.name);
    let crashes = host.kernel.crashes.iter();
    let interference = |(cause, seen): (Cause, &base::interference::Interference)| {
        (cause.name().to_owned(), seen.times, seen.first.clone())
    };
    HostPart {
        host: host.id.0,
        digest: host.tap.digest.clone(),
        guests: host.guests.iter().map(|guest| guest_part(host, guest)).collect(),
        cost: host.work_done(),
        sent: host.sent_to.iter().flatten().map(|(to, count)| (to.0, *count)).collect(),
        crash_reports: crashes.filter_map(|crash| Some(folder.join(crash.report.as_ref()?))).collect(),
        interferences: host.kernel.interferences.iter().map(interference).collect(),
    }
}

fn guest_part(host: &SimHost, guest: &Guest) -> GuestPart {
    let state = match (&guest.failed, guest.ended, guest.pid) {
        (Some(why), ..) => GuestState::Failed(why.clone()),
        (None, Some(ExitStatus::Exited(code)), _) => GuestState::Exited(code),
        (None, Some(ExitStatus::Signaled(signal)), _) => GuestState::Signaled(signal),
        (None, None, Some(_)) => GuestState::Running,
        (None, None, None) => GuestState::NotStarted,
    };
    let is_expected = super::is_expected(guest.expected, &state);
    let crash = host.kernel.crashes.iter().find(|crash| Some(crash.pid) == guest.pid);
    GuestPart {
        pid: guest.pid.map(|pid| host.kernel.outer_id(pid.0)),
        doing: guest.pid.filter(|_| !is_expected).and_then(|pid| host.kernel.doing(pid)),
        state,
        crash_report: crash.and_then(|crash| crash.report.clone()),
    }
}

/// What is counted by the process rather than by its hosts.
fn count_process(stats: &mut SimStats, outcome: &engine::Outcome) {
    let counters = guest::counters();
    let calls: u64 = stats.syscalls.values().sum();
    let gnomon = &mut stats.gnomon;
    gnomon.max_resident_bytes = recorder::ProcessUsage::of_this_process().map_or(0, |usage| usage.max_rss_kib * 1024);
    gnomon.interception.rewritten = calls.saturating_sub(counters.misses);
    gnomon.memory_map_calls.map_calls = counters.map_calls;
    gnomon.memory_map_calls.advise_calls = counters.advise_calls;
    let worker = |worker: &engine::WorkerStats| WorkerStats {
        hosts_executed: worker.hosts_run,
        hosts_stolen: worker.hosts_stolen,
        running_ns: worker.running.as_nanos() as u64,
        stealing_ns: worker.stealing.as_nanos() as u64,
        delivering_ns: worker.delivering.as_nanos() as u64,
        waiting_ns: worker.waiting.as_nanos() as u64,
        logging_ns: (worker.ending + worker.callback).as_nanos() as u64,
    };
    gnomon.workers = outcome.workers.iter().map(worker).collect();
}
