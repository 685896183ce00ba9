//! What is known of one run: facts that the readers of `input` found in its data directory, in seconds since the start of the
//! simulation, bytes and bits per second.

use crate::bins::Bins;
use base::StartDate;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// One data directory. What is missing in it is empty or `None` here.
#[derive(Debug, Default)]
pub struct Run {
    pub directory: PathBuf,
    /// How figures call it.
    pub label: String,
    /// The names of the folders under `hosts`.
    pub hosts: Vec<String>,
    pub config: Option<Config>,
    pub network: Option<Network>,
    pub stats: Option<SimStats>,
    pub progress: Vec<Progress>,
    /// In the order of workers, and of time.
    pub windows: Vec<Window>,
    pub traffic: Option<HostTraffic>,
    /// Payload that arrived through transfers, in bytes.
    pub payload: Option<Bins>,
    pub transfers: Vec<Transfer>,
    /// Number of programs that reported transfers, whether or not they made one.
    pub generators: usize,
    pub circuits: Vec<Circuit>,
    /// Number of programs that watched circuits.
    pub circuit_watchers: usize,
    pub tors: Vec<TorLog>,
    /// Bytes that the tor of a host wrote, as its control port told.
    pub control_port_written: BTreeMap<String, Bins>,
    /// What relays told of themselves, by host, in the order of time.
    pub told: BTreeMap<String, Vec<Told>>,
    /// Files with lines that could not be read.
    pub damage: Vec<Damage>,
}

/// What a relay told of itself at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    pub at_s: f64,
    pub connections: f64,
    pub circuits: f64,
    pub streams: f64,
    /// Of RELAY cells that it handed on, since it began.
    pub relayed_bytes: f64,
    /// Circuits, connections and streams, since it began.
    pub refused: f64,
    pub descriptors: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// It did not say: it was killed, or still goes on.
    Unknown,
    /// Before the time at which it was to end: somebody stopped it, or one of its processes was lost.
    Stopped {
        stop_s: f64,
    },
    Finished,
}

/// Of processed-config.yaml.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub seed: Option<u64>,
    pub stop_time_s: Option<f64>,
    pub bootstrap_end_s: Option<f64>,
    /// When the clocks of hosts begin; where the file does not say it, as it always was.
    pub start_date: StartDate,
    /// The interval of host-traffic.csv, which is that of heartbeats.
    pub traffic_interval_s: Option<f64>,
    pub hosts: BTreeMap<String, Bandwidths>,
    /// The experiment without what may differ between runs of one group (seed, paths).
    pub essence: String,
}

/// In bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bandwidths {
    pub up: Option<f64>,
    pub down: Option<f64>,
}

/// Of tor-network.json.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    pub profile: Option<String>,
    pub seed: Option<u64>,
    pub bootstrap_end_s: Option<f64>,
    /// From when on figures count: some time after the load has begun.
    pub measure_from_s: Option<f64>,
    /// What relays were expected to send, as a share of what they can.
    pub expected_utilisation: Option<f64>,
    pub hosts: BTreeMap<String, NetworkHost>,
    pub attack: Option<Attack>,
}

/// An attack that the experiment has, in seconds of simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct Attack {
    pub victim: String,
    pub start_s: f64,
    pub stop_s: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NetworkHost {
    pub role: Role,
    pub bandwidths: Bandwidths,
    pub behaviour: Option<String>,
    pub nickname: Option<String>,
    /// Of the circuits' entry, middle and exit positions, as weights and flags say; relays only.
    pub expected_shares: Option<[f64; 3]>,
    /// When its tor was away, in the order of time.
    pub outages: Vec<Outage>,
}

/// A time without a relay, as the experiment had it. In seconds of simulated time.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// "restart", "crash", "leave" or "vanish".
    pub why: String,
    /// When its tor was told to go: one that ends in order makes no new circuits from then on.
    pub from_s: f64,
    /// When its tor had ended.
    pub ended_s: f64,
    /// When the next one started; None where none did.
    pub until_s: Option<f64>,
}

/// What a host is in the network, in the order in which tables list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Authority,
    Guard,
    GuardExit,
    Exit,
    Middle,
    Bridge,
    Client,
    OnionService,
    Server,
    Other,
}

/// Of sim-stats.json.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimStats {
    pub seed: Option<u64>,
    pub digest: Option<String>,
    pub simulated_s: Option<f64>,
    pub wall_s: Option<f64>,
    /// Of the process, each page once; of runs that do not tell, what the machine had available before less what it had at the worst moment.
    pub peak_memory_bytes: Option<f64>,
    /// Of the simulator's process.
    pub peak_resident_bytes: Option<f64>,
    pub provenance: Provenance,
    /// CPU time by what it was spent in, in the file's order.
    pub cpu: Vec<(String, f64)>,
}

/// What ran, where; empty for what a run does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    pub version: String,
    pub command: String,
    pub kernel: String,
    pub processor: String,
    /// Which ciphers were replaced by cheap ones.
    pub cheap_crypto: String,
    /// SHA-256 of the programs' files, by path.
    pub programs: BTreeMap<String, String>,
}

/// A row of progress.csv.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub simulated_s: f64,
    pub wall_s: f64,
    /// Of the simulator's process, each page once; earlier versions do not tell.
    pub in_use_bytes: Option<f64>,
    /// Of the simulator's process, each page as often as it is mapped.
    pub resident_bytes: f64,
    pub processes: f64,
}

/// A row of windows.parquet: what successive windows took of one worker, in seconds of wall time where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    pub worker: usize,
    pub windows: u64,
    /// Of simulated time.
    pub start_s: f64,
    /// Hosts of its own list.
    pub running_s: f64,
    /// Other workers' hosts, and looking for them.
    pub stealing_s: f64,
    pub delivering_s: f64,
    pub waiting_s: f64,
    pub logging_s: f64,
    /// Of running and stealing, by samples.
    pub guest_s: f64,
    pub kernel_s: f64,
    pub stack_s: f64,
}

impl Window {
    pub fn wall_s(&self) -> f64 {
        self.running_s + self.stealing_s + self.delivering_s + self.waiting_s + self.logging_s
    }
}

/// Of host-traffic.csv: bytes by host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostTraffic {
    pub sent: BTreeMap<String, Bins>,
    pub received: BTreeMap<String, Bins>,
    pub dropped_packets: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Download,
    Upload,
}

/// One transfer of a client. Spans count from `start_s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    pub host: Arc<str>,
    pub behaviour: Arc<str>,
    pub direction: Direction,
    /// As asked for.
    pub bytes: u64,
    pub start_s: f64,
    /// When the request was sent.
    pub request_s: Option<f64>,
    pub first_byte_s: Option<f64>,
    pub last_byte_s: Option<f64>,
    /// Between half a MiB and a whole one, where its tenths tell: of downloads of 1 MiB and 5 MiB.
    pub goodput_bits_per_s: Option<f64>,
    /// When it ended, well or not.
    pub end_s: f64,
    pub verified: bool,
    /// A further attempt at a transfer that had failed.
    pub is_retry: bool,
    pub error: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    pub stage: Arc<str>,
    pub reason: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Circuit {
    pub at_s: f64,
    /// From launch to built.
    pub build_s: Option<f64>,
    pub purpose: Arc<str>,
    /// Nicknames of its relays, from the first; those that are not known are empty.
    pub path: Vec<Arc<str>>,
    /// Made by a client that stands for many users, which launches many at once.
    pub is_of_many: bool,
    pub error: Option<Arc<str>>,
}

/// What one tor's log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TorLog {
    pub host: String,
    /// When it was at 100 % for the first time.
    pub bootstrapped_s: Option<f64>,
    /// As tor noted it in its state file, such as "Tor 0.4.9.11".
    pub version: Option<String>,
    /// The last percentage.
    pub percent: u8,
    /// Texts of warnings and errors, with how often each came.
    pub warnings: BTreeMap<String, usize>,
}

/// A file of which not everything could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Relative to the data directory.
    pub file: String,
    /// Lines (or the whole file, as one) that were left out.
    pub lines: usize,
    /// The first of them, from 1.
    pub first: usize,
    pub why: String,
}

impl Role {
    pub const ALL: [Role; 10] = [
        Role::Authority,
        Role::Guard,
        Role::GuardExit,
        Role::Exit,
        Role::Middle,
        Role::Bridge,
        Role::Client,
        Role::OnionService,
        Role::Server,
        Role::Other,
    ];

    /// As tor-network.json spells it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Authority => "authority",
            Role::Guard => "guard",
            Role::GuardExit => "guard-exit",
            Role::Exit => "exit",
            Role::Middle => "middle",
            Role::Bridge => "bridge",
            Role::Client => "client",
            Role::OnionService => "onion-service",
            Role::Server => "server",
            Role::Other => "other",
        }
    }

    pub fn from_name(name: &str) -> Role {
        Role::ALL.into_iter().find(|role| role.name() == name).unwrap_or(Role::Other)
    }

    /// For runs without tor-network.json: what the usual names of hosts suggest, those of tornettools among them.
    pub fn guess(host: &str) -> Role {
        let host = host.to_ascii_lowercase();
        let has = |part: &str| host.contains(part);
        match () {
            () if has("uthority") || host.starts_with("auth") => Role::Authority,
            () if has("bridge") && !has("client") => Role::Bridge,
            () if has("relay") && (has("guardexit") || has("exitguard")) => Role::GuardExit,
            () if has("relay") && has("guard") => Role::Guard,
            () if (has("relay") && has("exit")) || host.starts_with("exit") => Role::Exit,
            () if host.starts_with("guard") => Role::Guard,
            () if has("relay") || host.starts_with("middle") => Role::Middle,
            () if has("client") => Role::Client,
            () if has("onion") || has("hidden") => Role::OnionService,
            () if has("server") => Role::Server,
            () => Role::Other,
        }
    }

    /// Whether it forwards other people's traffic.
    pub fn is_relay(self) -> bool {
        matches!(self, Role::Authority | Role::Guard | Role::GuardExit | Role::Exit | Role::Middle | Role::Bridge)
    }

    /// "3 authorities".
    pub fn count(self, count: usize) -> String {
        let name = match (self, count) {
            (Role::Other, 1) => "other host",
            (Role::Other, _) => "other hosts",
            (Role::OnionService, 1) => "onion service",
            (role, 1) => role.name(),
            (Role::Authority, _) => "authorities",
            (Role::Guard, _) => "guards",
            (Role::GuardExit, _) => "guard-exits",
            (Role::Exit, _) => "exits",
            (Role::Middle, _) => "middles",
            (Role::Bridge, _) => "bridges",
            (Role::Client, _) => "clients",
            (Role::OnionService, _) => "onion services",
            (Role::Server, _) => "servers",
        };
        format!("{count} {name}")
    }
}

impl Transfer {
    /// Done: nothing went wrong and the last byte arrived.
    pub fn is_done(&self) -> bool {
        self.error.is_none() && self.last_byte_s.is_some()
    }
}

impl TorLog {
    /// Adds what the same host's next tor says, after an outage.
    pub fn go_on(&mut self, next: TorLog) {
        self.bootstrapped_s = self.bootstrapped_s.or(next.bootstrapped_s);
        self.percent = self.percent.max(next.percent);
        for (text, count) in next.warnings {
            *self.warnings.entry(text).or_insert(0) += count;
        }
    }
}

impl Run {
    /// Outages of relays, with their hosts.
    pub fn outages(&self) -> impl Iterator<Item = (&str, &Outage)> {
        let hosts = self.network.iter().flat_map(|network| &network.hosts);
        hosts.flat_map(|(name, host)| host.outages.iter().map(|outage| (name.as_str(), outage)))
    }

    pub fn role(&self, host: &str) -> Role {
        match &self.network {
            Some(network) => network.hosts.get(host).map_or(Role::Other, |host| host.role),
            None => Role::guess(host),
        }
    }

    pub fn seed(&self) -> Option<u64> {
        let configured = self.config.as_ref().and_then(|config| config.seed);
        self.stats.as_ref().and_then(|stats| stats.seed).or(configured)
    }

    /// When the run ended, or how far it had come.
    pub fn end_s(&self) -> f64 {
        let told = self.stats.as_ref().and_then(|stats| stats.simulated_s);
        if let Some(end) = told.filter(|end| *end > 0.0) {
            return end;
        }
        let progress = self.progress.last().map_or(0.0, |row| row.simulated_s);
        let transfers = self.transfers.iter().map(|transfer| transfer.end_s);
        let circuits = self.circuits.iter().map(|circuit| circuit.at_s);
        let tors = self.tors.iter().filter_map(|tor| tor.bootstrapped_s);
        let traffic = self.traffic.iter().flat_map(|traffic| traffic.sent.values());
        let control_port = self.control_port_written.values();
        let bins = traffic.chain(control_port).map(|bins| bins.width_s() * bins.sums().len() as f64);
        let known = transfers.chain(circuits).chain(tors).chain(bins);
        known.filter(|time| time.is_finite()).fold(progress, f64::max)
    }

    /// When the run was to end, where that is known.
    pub fn stop_s(&self) -> Option<f64> {
        self.config.as_ref().and_then(|config| config.stop_time_s)
    }

    /// How far it came of what it was to be.
    pub fn ending(&self) -> Ending {
        match self.stop_s() {
            _ if self.stats.is_none() => Ending::Unknown,
            Some(stop_s) if self.end_s() < stop_s => Ending::Stopped { stop_s },
            _ => Ending::Finished,
        }
    }

    /// When bootstrapping counts as over.
    pub fn bootstrap_end_s(&self) -> f64 {
        let network = self.network.as_ref().and_then(|network| network.bootstrap_end_s);
        network.or(self.config.as_ref().and_then(|config| config.bootstrap_end_s)).unwrap_or(0.0)
    }

    /// From when on figures count, where the user does not say.
    pub fn measure_from_s(&self) -> f64 {
        let network = self.network.as_ref().and_then(|network| network.measure_from_s);
        network.unwrap_or(0.0).max(self.bootstrap_end_s())
    }

    /// The bandwidths of a host as configured.
    pub fn bandwidths(&self, host: &str) -> Option<Bandwidths> {
        let of_network = self.network.as_ref().and_then(|network| network.hosts.get(host)).map(|host| host.bandwidths);
        let known = of_network.filter(|bandwidths| bandwidths.up.is_some());
        known.or_else(|| self.config.as_ref()?.hosts.get(host).copied())
    }

    /// Hosts by role, in the order of roles.
    pub fn roles(&self) -> BTreeMap<Role, usize> {
        let mut roles = BTreeMap::new();
        for host in &self.hosts {
            *roles.entry(self.role(host)).or_insert(0) += 1;
        }
        roles
    }

    /// How a reader would call a relay.
    pub fn display_name<'a>(&'a self, host: &'a str) -> &'a str {
        let network = self.network.as_ref().and_then(|network| network.hosts.get(host));
        network.and_then(|host| host.nickname.as_deref()).unwrap_or(host)
    }

    /// Lines that could not be read.
    pub fn damaged_lines(&self) -> usize {
        self.damage.iter().map(|damage| damage.lines).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_guessed_from_usual_names() {
        let cases = [
            ("4uthority1", Role::Authority),
            ("relay1guard", Role::Guard),
            ("relay3exitguard", Role::GuardExit),
            ("relay12exit", Role::Exit),
            ("relay7", Role::Middle),
            ("perfclient3exit", Role::Client),
            ("server2", Role::Server),
            ("bridge1", Role::Bridge),
            ("bridgeclient", Role::Client),
            ("onionservice1", Role::OnionService),
            ("box", Role::Other),
        ];
        for (host, role) in cases {
            assert_eq!(Role::guess(host), role, "{host}");
        }
    }

    #[test]
    fn roles_have_the_names_of_the_network_file() {
        assert!(Role::ALL.iter().all(|role| Role::from_name(role.name()) == *role));
        assert_eq!(Role::from_name("oracle"), Role::Other);
        assert_eq!(Role::Authority.count(1), "1 authority");
        assert_eq!(Role::Authority.count(3), "3 authorities");
        assert_eq!(Role::OnionService.count(2), "2 onion services");
    }

    #[test]
    fn an_unfinished_run_ends_where_its_last_sign_is() {
        let mut run = Run::default();
        assert_eq!(run.end_s(), 0.0);
        run.tors.push(TorLog { bootstrapped_s: Some(12.0), ..TorLog::default() });
        assert_eq!(run.end_s(), 12.0);
        run.stats = Some(SimStats { simulated_s: Some(60.0), ..SimStats::default() });
        assert_eq!(run.end_s(), 60.0);
    }

    #[test]
    fn a_run_that_was_stopped_is_not_finished_though_it_has_statistics() {
        let mut run = Run::default();
        assert_eq!(run.ending(), Ending::Unknown);
        run.stats = Some(SimStats { simulated_s: Some(60.0), ..SimStats::default() });
        assert_eq!(run.ending(), Ending::Finished, "nothing says that it was to be longer");
        run.config = Some(Config { stop_time_s: Some(90.0), ..Config::default() });
        assert_eq!(run.ending(), Ending::Stopped { stop_s: 90.0 });
        run.config = Some(Config { stop_time_s: Some(60.0), ..Config::default() });
        assert_eq!(run.ending(), Ending::Finished);
    }
}
