//! What a simulated host is told about itself.

use crate::debug::DebugTarget;
use crate::host_clock::HostClock;
use crate::ids::FIRST_ID;
use crate::net::dns::NameTable;
use crate::processors::ProcessorCount;
use crate::vfs::folders::Folders;
use crate::vfs::machine_files::MachineFiles;
use base::map::FastSet;
use base::{HostId, SeedTree, SimDuration, SimTime, StartDate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The addresses of one host's `eth0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub v4: Ipv4Addr,
    /// None where only `lo` has one.
    pub v6: Option<Ipv6Addr>,
}

/// A name and its addresses, for `/etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    pub name: String,
    pub addresses: Addresses,
}

/// Every host of an experiment, and the `/etc/hosts` and the resolver's table that all of them see, made once: with thousands of
/// hosts, thousands of guests read them.
#[derive(Clone, Debug)]
pub struct HostNames(Arc<Names>);

#[derive(Debug)]
struct Names {
    list: Vec<HostName>,
    hosts_file: Vec<u8>,
    table: NameTable,
}

impl HostNames {
    /// The text of `/etc/hosts`.
    pub fn hosts_file(&self) -> &[u8] {
        &self.0.hosts_file
    }

    /// What DNS answers.
    pub fn table(&self) -> &NameTable {
        &self.0.table
    }
}

impl FromIterator<HostName> for HostNames {
    fn from_iter<I: IntoIterator<Item = HostName>>(hosts: I) -> Self {
        let list: Vec<HostName> = hosts.into_iter().collect();
        let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n".to_owned();
        for host in &list {
            text.push_str(&format!("{} {}\n", host.addresses.v4, host.name));
            if let Some(v6) = host.addresses.v6 {
                text.push_str(&format!("{v6} {}\n", host.name));
            }
        }
        let table = NameTable::new(list.iter().map(|host| (host.name.as_str(), host.addresses)));
        HostNames(Arc::new(Names { list, hosts_file: text.into_bytes(), table }))
    }
}

impl std::ops::Deref for HostNames {
    type Target = [HostName];
    fn deref(&self) -> &[HostName] {
        &self.0.list
    }
}

/// What the socket layer is told.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// The addresses of all hosts, shared between all of them: what can be reached.
    pub addresses: Arc<FastSet<IpAddr>>,
    /// What every host's stack is told; the host puts in its own addresses.
    pub stack: tcpip::Config,
}

impl NetworkSettings {
    /// The defaults, for an experiment of these hosts.
    pub fn new(hosts: &[HostName]) -> Self {
        let own = |host: &HostName| [Some(IpAddr::V4(host.addresses.v4)), host.addresses.v6.map(IpAddr::V6)];
        let addresses: FastSet<IpAddr> = hosts.iter().flat_map(own).flatten().collect();
        NetworkSettings { addresses: Arc::new(addresses), stack: tcpip::Config::new(Ipv4Addr::UNSPECIFIED) }
    }
}

/// What calls cost that do not wait, Shadow's `model_unblocked_syscall_latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCost {
    pub each: SimDuration,
    /// A read of a clock, which is no system call where there is a vDSO.
    pub look: SimDuration,
}

/// When computing takes simulated time. Loops that only wait for a change never do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputingRules {
    /// The processor time that a guest may take between two calls before its computing takes simulated time; None for any.
    pub budget: Option<Duration>,
    /// From then on it is interrupted each time it has taken this much.
    pub interval: Duration,
    /// The simulated time that this takes first. It doubles up to the last one, and from then on grows with the whole (if these two
    /// differ), until the guest makes a call.
    pub first_nap: SimDuration,
    pub last_nap: SimDuration,
    /// All computing takes simulated time, as measured, on a processor that is so many times as fast as this one. Then there is no budget.
    pub speed: Option<f64>,
}

impl Default for ComputingRules {
    fn default() -> Self {
        ComputingRules {
            budget: Some(Duration::from_secs(10)),
            interval: Duration::from_millis(100),
            first_nap: SimDuration::from_millis(10),
            last_nap: SimDuration::from_secs(1),
            speed: None,
        }
    }
}

/// Where guests see the run's directory, wherever it lies on the machine and whatever it is called there: what they are told of it
/// (`getcwd`, `/proc`) must not change a run. The directory above it stands for the one in which the run's directory lies, so that
/// `../../..` leads from a host's folder to the experiment's own files, as in the machine's tree.
pub const DATA_DIRECTORY: &str = "/gnomon-run/data";

impl HostConfig {
    /// The host `own` among `names`, with a folder of its name below `data_dir` (which is not made): no option is set, no call takes time, nothing
    /// is recorded.
    pub fn plain(id: HostId, own: &HostName, names: &[HostName], data_dir: &Path) -> Self {
        let hosts: HostNames = names.iter().cloned().collect();
        let folders = Arc::new(Folders::new(&hosts, |_| true));
        HostConfig {
            id,
            name: own.name.clone(),
            addresses: own.addresses,
            data_dir: data_dir.to_path_buf(),
            host_dir: data_dir.join("hosts").join(&own.name),
            hosts,
            folders,
            machine_files: MachineFiles::default(),
            network: NetworkSettings::new(names),
            seeds: SeedTree::new(1),
            clock: HostClock::exact(StartDate::default()),
            first_id: FIRST_ID,
            call_cost: None,
            computing: ComputingRules::default(),
            processors: ProcessorCount::ONE,
            crash_reports: false,
            debug: None,
            strace_live: false,
            show_outputs: false,
            output_limit: None,
            strace: None,
            real_descriptors: 4,
            open_files: 1024,
            queue_discipline: "pfifo",
        }
    }

    /// Where guests see what lies at `real` in the run's directory; other paths are the same for them.
    pub fn shown(&self, real: &Path) -> PathBuf {
        match real.strip_prefix(&self.data_dir) {
            Ok(rest) => Path::new(DATA_DIRECTORY).join(rest),
            Err(_) => real.to_path_buf(),
        }
    }

    /// The broadcast address of `eth0`'s network, unless some host has it.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        let host_part = u32::MAX >> tcpip::NETWORK_PREFIX;
        let address = Ipv4Addr::from_bits(self.addresses.v4.to_bits() | host_part);
        let taken = self.network.addresses.contains(&IpAddr::V4(address));
        (!taken).then_some(address)
    }

    /// What the host's real-time clock shows, in seconds of the Unix epoch.
    pub fn real_seconds(&self, now: SimTime) -> i64 {
        (self.clock.unix_nanos(now) / 1_000_000_000) as i64
    }
}

#[derive(Clone, Debug)]
pub struct HostConfig {
    pub id: HostId,
    /// `uname -n`, and the key of the host's random streams.
    pub name: String,
    pub addresses: Addresses,
    /// The run's directory as the machine has it, without links: the only place where guests may write.
    pub data_dir: PathBuf,
    /// The host's own folder in it, as the machine has it: where guests start, and where the private parts of `/tmp` and its like lie.
    pub host_dir: PathBuf,
    /// Every host of the experiment, shared between all of them.
    pub hosts: HostNames,
    pub network: NetworkSettings,
    pub seeds: SeedTree,
    /// What its clocks show.
    pub clock: HostClock,
    /// The number of its first process.
    pub first_id: u32,
    /// System calls that do not wait take simulated time.
    pub call_cost: Option<CallCost>,
    pub computing: ComputingRules,
    pub processors: ProcessorCount,
    /// Leave a report of every guest that crashes.
    pub crash_reports: bool,
    /// The process that a debugger is to stop at.
    pub debug: Option<DebugTarget>,
    /// Write logs of calls to standard error as they happen, not to files.
    pub strace_live: bool,
    /// Show what guests write on the simulator's own standard output and error, too.
    pub show_outputs: bool,
    /// How much guests may write to standard output and error, all together; None for any.
    pub output_limit: Option<u64>,
    /// Log every guest's system calls to a file.
    pub strace: Option<linux_abi::strace::Mode>,
    /// What the hosts have in common of the run's directory.
    pub folders: Arc<Folders>,
    /// What of the machine's files the hosts' guests have read.
    pub machine_files: MachineFiles,
    /// How many real descriptors this host may keep open between calls.
    pub real_descriptors: usize,
    /// The soft limit of descriptors (RLIMIT_NOFILE) that the experiment's processes begin with.
    pub open_files: u64,
    /// The kind of `eth0`'s queue discipline, as tc(8) calls it.
    pub queue_discipline: &'static str,
}
