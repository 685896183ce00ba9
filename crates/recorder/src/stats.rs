//! `sim-stats.json`: Shadow's counters in its form, and Gnomon's own beside them.

use crate::machine_files::MachineFilesStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// All counters of a run. The kernel, the workers and the root binary fill their parts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SimStats {
    /// Simulated objects by kind, as Shadow counts them.
    pub objects: ObjectStats,
    /// System calls by name.
    pub syscalls: Counts,
    pub gnomon: GnomonStats,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectStats {
    pub alloc_counts: Counts,
    pub dealloc_counts: Counts,
}

/// What Shadow does not know.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GnomonStats {
    /// The version of this form: grows when a member changes its meaning or goes.
    pub schema: u32,
    pub version: String,
    pub provenance: Provenance,
    pub seed: u64,
    /// The run's digest in hexadecimal.
    pub digest: String,
    pub simulated_ns: u64,
    pub wall_ns: u64,
    pub hosts: u64,
    pub guests: u64,
    pub windows: u64,
    pub events: u64,
    pub network: NetworkStats,
    pub interception: InterceptionStats,
    pub computing: ComputingStats,
    /// In what the run depended on this machine, by cause.
    #[serde(skip_deserializing)]
    pub interferences: BTreeMap<&'static str, InterferenceStats>,
    /// The machine's files that guests have read: what the digest depends on beside the experiment. `machine-files.tsv` lists them.
    pub machine_files: MachineFilesStats,
    /// Writes to standard output and error that were refused for `experimental.output_limit`.
    pub outputs_refused: u64,
    /// Calls of the real kernel on behalf of guests' memory.
    pub memory_map_calls: MemoryMapStats,
    /// By worker; those of the first rank come first.
    pub workers: Vec<WorkerStats>,
    /// By rank; empty for a run of one process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankStats>,
    /// How long the run would take with other numbers of workers, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forecast: Vec<ForecastStats>,
    pub max_resident_bytes: u64,
    pub cpu: CpuStats,
    pub memory: MemoryStats,
}

/// What ran, where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The command line that started the run.
    pub command: Vec<String>,
    /// The release of the machine's kernel.
    pub kernel: String,
    /// The name of the machine's processor, and how many of them the process could use.
    pub processor: String,
    pub processors: u64,
    /// Which ciphers were replaced by cheap ones: `cells` or `all`; null when none was.
    #[serde(skip_deserializing)]
    pub cheap_crypto: Option<&'static str>,
    /// The programs of the experiment, and the library that replaces ciphers, by the path of the file that was executed.
    pub programs: BTreeMap<String, ProgramStats>,
}

/// A program's file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProgramStats {
    /// In hexadecimal, as sha256sum(1) prints it.
    pub sha256: String,
    pub bytes: u64,
}

/// The version of `sim-stats.json`.
pub const SCHEMA: u32 = 1;

/// Processor time of the whole process, in seconds, by what it was spent on: shares are sampled, sums are what the kernel counted.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuStats {
    /// Guests' own instructions, with the page faults that they cause.
    pub guest_s: f64,
    /// Guests' system calls and their scheduling.
    pub kernel_s: f64,
    /// Packets: network stacks outside of system calls, links, captures.
    pub stack_s: f64,
    /// Moving hosts and messages between workers, and what waiting for each other costs.
    pub engine_s: f64,
    /// Before the first and after the last event: reading, building, concluding.
    pub other_s: f64,
    pub total_s: f64,
    pub user_s: f64,
    pub system_s: f64,
}

impl CpuStats {
    fn add(&mut self, other: &CpuStats) {
        self.guest_s += other.guest_s;
        self.kernel_s += other.kernel_s;
        self.stack_s += other.stack_s;
        self.engine_s += other.engine_s;
        self.other_s += other.other_s;
        self.total_s += other.total_s;
        self.user_s += other.user_s;
        self.system_s += other.system_s;
    }

    /// Total time to guests' own, which no simulator can go below; None when guests took none.
    pub fn overhead(&self) -> Option<f64> {
        (self.guest_s > 0.0).then(|| self.total_s / self.guest_s)
    }
}

/// Memory: the process's own, and the machine's by MemAvailable of /proc/meminfo, in which is everything that the run takes, and what
/// others take and give back meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryStats {
    /// The process's proportional set size (Pss of /proc/self/smaps_rollup) at its largest: each page that is mapped counts once. It is looked
    /// at when resident memory has grown by a fiftieth.
    pub peak_pss_bytes: u64,
    pub baseline_available_bytes: u64,
    pub lowest_available_bytes: u64,
    /// The difference of the two.
    pub peak_used_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NetworkStats {
    pub packets_sent: u64,
    pub packets_delivered: u64,
    /// By the loss of links.
    pub packets_lost: u64,
    /// By full queues.
    pub packets_dropped: u64,
    pub bytes_sent: u64,
    pub bytes_delivered: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InterceptionStats {
    /// System calls that came through rewritten code.
    pub rewritten: u64,
    /// System calls that only the net caught, and entries into the middle of rewritten code, by site (image and offset).
    pub misses: Counts,
    /// System calls answered by ENOSYS, by name.
    pub unsupported: Counts,
    /// What guests reached of the real machine, or may have, by what it was: in how many processes.
    pub escapes: Counts,
}

/// Guests that computed without calls, and what became of the run's repeatability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ComputingStats {
    /// The machine had no say in it (`interferences` is empty): the same plan gives the same bits again.
    pub reproducible: bool,
    /// Loops without calls that rested until something changed.
    pub spins: u64,
    /// Loops that read clocks, and computed in between, until time passed.
    #[serde(default)]
    pub clock_loops: u64,
    /// Guests that exceeded their budget of processor time.
    pub over_budget: u64,
    /// How often those were interrupted, and the simulated time that it took.
    pub preemptions: u64,
    pub preempted_ns: u64,
    /// The simulated time that computing took on hosts with a `cpu_speed`.
    pub charged_ns: u64,
    /// The simulated time that it took by `cpu_model`, in how many intervals between calls, and how many of these the model did not know: their size,
    /// their pair of calls, their program.
    pub modelled_ns: u64,
    pub modelled_intervals: u64,
    pub modelled_other_sizes: u64,
    pub modelled_unknown_pairs: u64,
    pub modelled_unknown_programs: u64,
}

/// One cause for which a run may come out another way elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterferenceStats {
    pub times: u64,
    /// The first time: whom it concerned, and with what.
    pub first: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryMapStats {
    /// `mmap`, `munmap`, `mprotect`, `mremap`.
    pub map_calls: u64,
    /// `madvise`.
    pub advise_calls: u64,
}

impl NetworkStats {
    fn add(&mut self, other: &NetworkStats) {
        self.packets_sent += other.packets_sent;
        self.packets_delivered += other.packets_delivered;
        self.packets_lost += other.packets_lost;
        self.packets_dropped += other.packets_dropped;
        self.bytes_sent += other.bytes_sent;
        self.bytes_delivered += other.bytes_delivered;
    }
}

impl ComputingStats {
    fn add(&mut self, other: &ComputingStats) {
        self.spins += other.spins;
        self.clock_loops += other.clock_loops;
        self.over_budget += other.over_budget;
        self.preemptions += other.preemptions;
        self.preempted_ns += other.preempted_ns;
        self.charged_ns += other.charged_ns;
        self.modelled_ns += other.modelled_ns;
        self.modelled_intervals += other.modelled_intervals;
        self.modelled_other_sizes += other.modelled_other_sizes;
        self.modelled_unknown_pairs += other.modelled_unknown_pairs;
        self.modelled_unknown_programs += other.modelled_unknown_programs;
    }
}

/// One process of a run over several.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RankStats {
    pub machine: String,
    pub hosts: u64,
    pub workers: u64,
    /// Packets that its hosts sent to hosts of other ranks, and how many bytes they took on the way.
    pub packets_out: u64,
    pub bytes_out: u64,
    /// Wall time in which its windows were done and others' were not, or were being agreed on.
    pub waiting_ns: u64,
}

/// Where a worker's wall time went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerStats {
    pub hosts_executed: u64,
    pub hosts_stolen: u64,
    /// Running hosts of its own list: guests, simulated kernel and network stack.
    pub running_ns: u64,
    /// Running other workers' hosts, and looking for them.
    pub stealing_ns: u64,
    /// Delivering other hosts' packets.
    pub delivering_ns: u64,
    /// Waiting for other workers.
    pub waiting_ns: u64,
    /// Handing over what was logged; worker 0 also writes the log and tables.
    pub logging_ns: u64,
}

/// The run with another number of workers, as its schedule foretells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ForecastStats {
    pub workers: u64,
    /// Of the whole run.
    pub wall_ns: u64,
}

impl SimStats {
    /// Pretty-printed JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("counters can be serialised");
        text.push('\n');
        text
    }

    /// Adds what another process of the same run has counted in its own hosts and of itself.
    pub fn add(&mut self, other: SimStats) {
        let add_all = |sums: &mut Counts, counts: &Counts| counts.iter().for_each(|(name, n)| add(sums, name, *n));
        add_all(&mut self.syscalls, &other.syscalls);
        let (sum, other) = (&mut self.gnomon, other.gnomon);
        sum.events += other.events;
        sum.outputs_refused += other.outputs_refused;
        sum.max_resident_bytes += other.max_resident_bytes;
        sum.network.add(&other.network);
        sum.computing.add(&other.computing);
        sum.interception.rewritten += other.interception.rewritten;
        add_all(&mut sum.interception.misses, &other.interception.misses);
        add_all(&mut sum.interception.unsupported, &other.interception.unsupported);
        add_all(&mut sum.interception.escapes, &other.interception.escapes);
        sum.memory_map_calls.map_calls += other.memory_map_calls.map_calls;
        sum.memory_map_calls.advise_calls += other.memory_map_calls.advise_calls;
        sum.workers.extend(other.workers);
        sum.cpu.add(&other.cpu);
        sum.memory.peak_pss_bytes += other.memory.peak_pss_bytes;
        sum.ranks.extend(other.ranks);
    }

    /// Simulated seconds per second of wall time.
    pub fn speed(&self) -> f64 {
        let wall = Duration::from_nanos(self.gnomon.wall_ns).as_secs_f64();
        if wall > 0.0 { Duration::from_nanos(self.gnomon.simulated_ns).as_secs_f64() / wall } else { 0.0 }
    }
}

/// Adds `count` under `name`; a name that counts nothing does not appear.
pub fn add(counts: &mut Counts, name: &str, count: u64) {
    if count == 0 {
        return;
    }
    match counts.get_mut(name) {
        Some(sum) => *sum += count,
        None => {
            counts.insert(name.to_string(), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_shadows_members_and_its_own() {
        let mut stats = SimStats::default();
        add(&mut stats.syscalls, "read", 3);
        add(&mut stats.syscalls, "read", 4);
        add(&mut stats.syscalls, "write", 0);
        add(&mut stats.objects.alloc_counts, "Host", 2);
        stats.gnomon.network.packets_sent = 9;
        stats.gnomon.workers.push(WorkerStats { running_ns: 5, ..WorkerStats::default() });
        let text = stats.to_json();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["syscalls"], serde_json::json!({"read": 7}));
        assert_eq!(json["objects"], serde_json::json!({"alloc_counts": {"Host": 2}, "dealloc_counts": {}}));
        assert_eq!(json["gnomon"]["network"]["packets_sent"], 9);
        assert_eq!(json["gnomon"]["workers"][0]["running_ns"], 5);
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn what_two_processes_count_is_added() {
        let mut one = SimStats::default();
        add(&mut one.syscalls, "read", 3);
        one.gnomon.network.packets_sent = 9;
        one.gnomon.workers.push(WorkerStats { running_ns: 5, ..WorkerStats::default() });
        one.gnomon.cpu.total_s = 1.5;
        let other: SimStats = serde_json::from_str(&one.to_json()).expect("it reads what it writes");
        assert_eq!(other, one);
        one.add(other);
        assert_eq!((one.syscalls["read"], one.gnomon.network.packets_sent), (6, 18));
        assert_eq!((one.gnomon.workers.len(), one.gnomon.cpu.total_s), (2, 3.0));
    }

    #[test]
    fn speed_is_simulated_over_wall_time() {
        let mut stats = SimStats::default();
        assert_eq!(stats.speed(), 0.0);
        (stats.gnomon.simulated_ns, stats.gnomon.wall_ns) = (10_000_000_000, 4_000_000_000);
        assert_eq!(stats.speed(), 2.5);
    }
}
