//! torrc files: one per kind of host in `conf/`, which all include `common.torrc`, and a short one per host with what is its own.
//!
//! tor is started with `--defaults-torrc ../../conf/KIND.torrc -f torrc`, so that a line in a host's torrc overrides any of the
//! shared ones. Relative paths start from the host's folder, where tor runs; in options they begin with `/proc/self/cwd`, since tor
//! warns about relative ones with the machine's own path, and results would depend on where the data directory is.

use crate::experiment::{AUTHORITIES_START, RELAYS_START};
use crate::network::{Behaviour, Host, Network, Role};
use crate::spec::{CongestionControl, FIRST_CONSENSUS, GuardPolicy, Scheduler, Transport};
use std::fmt::Write;
use std::path::Path;

pub(crate) const OR_PORT: u16 = 9001;
pub(crate) const DIR_PORT: u16 = 8080;
pub(crate) const SOCKS_PORT: u16 = 9050;
pub(crate) const CONTROL_PORT: u16 = 9051;
const OBFS4_PORT: u16 = 8443;
/// Where onion services are reached, and what they hand connections to.
pub(crate) const ONION_PORT: u16 = 80;

/// The folder of `HiddenServiceDir`, in the host's.
pub(crate) const ONION_FOLDER: &str = "onion-service";

/// A file that several hosts share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// In the folder `conf`.
    pub name: &'static str,
    pub text: String,
}

/// The shared files of this network: those that some host uses.
pub(crate) fn shared(network: &Network, obfs4proxy: Option<&Path>) -> Vec<Shared> {
    let mut files = vec![Shared { name: "common.torrc", text: common(network) }];
    let has = |wanted: fn(Role) -> bool| network.count(wanted) > 0;
    let mut add = |name, text: String| files.push(Shared { name, text });
    add("authority.torrc", authority(network));
    let relay = RELAY.to_owned() + &first_fetch(RELAYS_START.0);
    add("relay.torrc", with_common("A relay that lets no traffic out.", &relay, "ExitPolicy reject *:*\n"));
    if has(Role::is_exit) {
        add("exit.torrc", with_common("A relay that lets traffic out.", &relay, EXIT));
    }
    if has(|role| role == Role::Bridge) {
        add("bridge.torrc", with_common("A bridge.", &relay, &bridge(network.spec.transport, obfs4proxy)));
    }
    add("client.torrc", with_common("A client.", CLIENT, ""));
    if has(measures) {
        let more = MEASURING.to_owned() + guards(network);
        add("measuring-client.torrc", with_common("A client whose circuits are watched.", CLIENT, &more));
    }
    if has(|role| role == Role::Client(Behaviour::Markov)) {
        let more = MARKOV.to_owned() + guards(network);
        add("markov-client.torrc", with_common("A client that stands for many users.", CLIENT, &more));
    }
    if has(|role| role == Role::Client(Behaviour::Bridge)) {
        let more = MEASURING.to_owned() + &bridge_client(network.spec.transport, obfs4proxy);
        add("bridge-client.torrc", with_common("A client that enters through bridges.", CLIENT, &more));
    }
    if has(|role| role == Role::OnionService) {
        add("onion-service.torrc", with_common("An onion service.", ONION_SERVICE, ""));
    }
    files
}

/// The shared file that a host starts from.
pub(crate) fn shared_name(role: Role) -> &'static str {
    match role {
        Role::Authority => "authority.torrc",
        Role::Guard | Role::Middle => "relay.torrc",
        Role::Exit | Role::GuardExit => "exit.torrc",
        Role::Bridge => "bridge.torrc",
        Role::OnionService => "onion-service.torrc",
        Role::Client(Behaviour::Bridge) => "bridge-client.torrc",
        Role::Client(Behaviour::Markov) => "markov-client.torrc",
        role if measures(role) => "measuring-client.torrc",
        Role::Client(_) => "client.torrc",
        Role::Server => unreachable!("servers run no tor"),
    }
}

/// Whether a client takes a fresh circuit for each of its measurements.
pub(crate) fn measures(role: Role) -> bool {
    matches!(role, Role::Client(Behaviour::Performance | Behaviour::Onion | Behaviour::Bridge))
}

/// Whether a client's circuits are logged: those that measure, and those that stand for many, by which relays' use is judged.
pub(crate) fn is_watched(role: Role) -> bool {
    measures(role) || role == Role::Client(Behaviour::Markov)
}

/// What is a host's own.
pub(crate) fn of_host(network: &Network, host: &Host) -> String {
    let mut text = format!("# {}: overrides ../../conf/{}\n", host.name, shared_name(host.role));
    if host.identity.is_some() {
        let rate = host.up.bits_per_sec() / 8;
        let _ = writeln!(text, "Nickname {}\nAddress {}", host.name, host.address);
        if host.role != Role::Authority {
            let _ = writeln!(text, "BandwidthRate {rate} bytes\nBandwidthBurst {rate} bytes");
        }
    }
    if host.call_latency.is_some() {
        // It starts as early as authorities.
        text += &first_fetch(AUTHORITIES_START);
    }
    if host.role == Role::Client(Behaviour::Onion) && !guards(network).is_empty() {
        text += "# A user of onion services has guards of its own.\nUseEntryGuards 1\n";
    }
    if host.role == Role::Client(Behaviour::Bridge) {
        for bridge in network.with_role(Role::Bridge) {
            text += &bridge_line(bridge);
        }
    }
    text
}

/// What tells clients that are no single user to take any guard for each circuit.
fn guards(network: &Network) -> &'static str {
    match network.spec.guard_policy {
        GuardPolicy::Fresh => "# A guard for each circuit, by weight.\nUseEntryGuards 0\n",
        GuardPolicy::Kept => "",
    }
}

fn bridge_line(bridge: &Host) -> String {
    let fingerprint = &bridge.identity.as_ref().expect("bridges have identities").fingerprint;
    match &bridge.obfs4 {
        Some(obfs4) => {
            format!(
                "Bridge obfs4 {}:{OBFS4_PORT} {fingerprint} cert={} iat-mode=0\n",
                bridge.address, obfs4.certificate
            )
        }
        None => format!("Bridge {}:{OR_PORT} {fingerprint}\n", bridge.address),
    }
}

fn with_common(about: &str, kind: &str, more: &str) -> String {
    format!("# {about}\n%include ../../conf/common.torrc\n{kind}{more}")
}

/// For a relay that starts at `start_s` or later: the first consensus is asked for when it is there. Failing earlier would only
/// make the next attempt late.
fn first_fetch(start_s: f64) -> String {
    let delay = FIRST_CONSENSUS.as_secs_f64() + 2.0 - start_s;
    format!("TestingServerConsensusDownloadInitialDelay {delay}\n")
}

fn common(network: &Network) -> String {
    let mut text = String::from(COMMON);
    let scheduler = network.spec.scheduler;
    text += match scheduler {
        Scheduler::Kist => "\n# What is written next: KIST asks the kernel how much each connection can take.\n",
        Scheduler::Vanilla => "\n# What is written next: all that is there, at once.\n",
    };
    let _ = writeln!(text, "Schedulers {}", scheduler.name());
    text += "\n# The directory authorities.\n";
    for authority in network.with_role(Role::Authority) {
        let keys = authority.authority.as_ref().expect("authorities have keys");
        let identity = authority.identity.as_ref().expect("authorities have identities");
        let _ = writeln!(
            text,
            "DirAuthority {} orport={OR_PORT} v3ident={} {}:{DIR_PORT} {}",
            authority.name, keys.v3_identity, authority.address, identity.fingerprint
        );
    }
    text
}

/// All tors hold onion services' descriptors; gnomon-relay holds none.
fn hidden_service_directories(network: &Network) -> String {
    if !network.has_gnomon_relays() {
        return "TestingDirAuthVoteHSDir *\n".to_owned();
    }
    let tors = network.hosts.iter().filter(|host| !network.is_gnomon_relay(host));
    let named: Vec<&str> = tors.filter_map(|host| Some(host.identity.as_ref()?.fingerprint.as_str())).collect();
    format!("TestingDirAuthVoteHSDir {}\nTestingDirAuthVoteHSDirIsStrict 1\n", named.join(","))
}

fn authority(network: &Network) -> String {
    let fingerprints = |wanted: fn(Role) -> bool| -> String {
        let of = network.hosts.iter().filter(|host| wanted(host.role));
        of.filter_map(|host| Some(host.identity.as_ref()?.fingerprint.as_str())).collect::<Vec<_>>().join(",")
    };
    let seconds = |time: base::SimDuration| time.as_nanos() / 1_000_000_000;
    let mut text = with_common("A directory authority.", RELAY, &first_fetch(AUTHORITIES_START));
    let _ = write!(
        text,
        "DirPort {DIR_PORT}\nExitPolicy reject *:*\nAuthoritativeDirectory 1\nV3AuthoritativeDirectory 1\n\
         # Relays that say they are there are taken at their word.\nAuthDirTestReachability 0\n\
         # Stable whatever the others' uptime is: it is the median that decides otherwise, and clients take Stable relays alone as guards.\n\
         AuthDirVoteStableGuaranteeMinUptime 0 seconds\nAuthDirVoteStableGuaranteeMTBF 0 seconds\n\
         # The first consensus comes early, the others at multiples of the interval.\n\
         TestingV3AuthInitialVotingInterval {} seconds\nTestingV3AuthInitialVoteDelay 5 seconds\nTestingV3AuthInitialDistDelay 5 seconds\n\
         V3AuthVotingInterval {} seconds\nV3AuthVoteDelay 10 seconds\nV3AuthDistDelay 10 seconds\n\
         # Weights of relays, and who gets which flag.\n\
         V3BandwidthsFile /proc/self/cwd/../../conf/bandwidths\n",
        seconds(FIRST_CONSENSUS),
        seconds(network.spec.voting_interval)
    );
    for (flag, wanted) in [("Guard", Role::is_guard as fn(Role) -> bool), ("Exit", Role::is_exit)] {
        let relays = fingerprints(wanted);
        if !relays.is_empty() {
            let _ = writeln!(text, "TestingDirAuthVote{flag} {relays}");
        }
        let _ = writeln!(text, "TestingDirAuthVote{flag}IsStrict 1");
    }
    text += &hidden_service_directories(network);
    text += match network.spec.congestion_control {
        CongestionControl::Vegas => VEGAS,
        CongestionControl::Fixed => FIXED_WINDOWS,
    };
    if network.spec.network_reentry {
        text.truncate(text.trim_end().len());
        text += " allow-network-reentry=1\n";
    }
    if network.has_gnomon_relays() {
        // Behind the parameters; tors warn of ConfluxEnabled.
        text.truncate(text.trim_end().len());
        text += " cfx_enabled=0\n# gnomon-relay knows no conflux.\n";
    }
    text
}

fn bridge(transport: Transport, obfs4proxy: Option<&Path>) -> String {
    let mut text = String::from("BridgeRelay 1\nPublishServerDescriptor 0\nExitRelay 0\n");
    if let (Transport::Obfs4, Some(program)) = (transport, obfs4proxy) {
        let _ = writeln!(text, "ExtORPort auto\nServerTransportPlugin obfs4 exec {}", program.display());
        let _ = writeln!(text, "ServerTransportListenAddr obfs4 0.0.0.0:{OBFS4_PORT}");
    }
    text
}

fn bridge_client(transport: Transport, obfs4proxy: Option<&Path>) -> String {
    let mut text = String::from("UseBridges 1\n");
    if let (Transport::Obfs4, Some(program)) = (transport, obfs4proxy) {
        let _ = writeln!(text, "ClientTransportPlugin obfs4 exec {}", program.display());
    }
    text
}

const COMMON: &str = "\
# Settings of every tor of this network.
TestingTorNetwork 1
# Switched on by the former, and costs memory.
TestingEnableCellStatsEvent 0

# The host's folder, written so that no path of the machine gets into the logs.
DataDirectory /proc/self/cwd/.
AvoidDiskWrites 1
# Tor's tables of countries take most of its memory, and nothing here asks for countries.
GeoIPFile /proc/self/cwd/../../conf/no-countries
GeoIPv6File /proc/self/cwd/../../conf/no-countries
NumCPUs 1
DisableDebuggerAttachment 0

Log notice stdout
LogTimeGranularity 1
SafeLogging 0
ProtocolWarnings 1
ContactInfo nobody@example.com

# IPv4 alone.
AddressDisableIPv6 1
ClientUseIPv6 0

# Addresses are what the experiment says.
AssumeReachable 1
EnforceDistinctSubnets 0
ExitPolicyRejectPrivate 0
ServerDNSDetectHijacking 0
ServerDNSAllowBrokenConfig 1
ServerDNSTestAddresses

# One client host may stand for many users, as in the field's experiments: no limit per address, no judging of paths.
DoSCircuitCreationEnabled 0
DoSConnectionEnabled 0
DoSRefuseSingleHopClientRendezvous 0
PathBiasCircThreshold 10000
PathBiasUseThreshold 10000

# No statistics: they are for the public network's operators.
CellStatistics 0
PaddingStatistics 0
DirReqStatistics 0
EntryStatistics 0
ExitPortStatistics 0
ConnDirectionStatistics 0
HiddenServiceStatistics 0
ExtraInfoStatistics 0
";

const RELAY: &str = "ORPort 9001 IPv4Only\nSocksPort 0\n";

const EXIT: &str = "ExitRelay 1\nExitPolicy accept *:*\n";

const CLIENT: &str = "ClientOnly 1\nSocksPort 127.0.0.1:9050\n";

/// A fresh circuit for each measurement, as in tornettools.
const MEASURING: &str = "ControlPort 127.0.0.1:9051\nMaxCircuitDirtiness 10 seconds\n";

/// Patience and many circuits at once, as in tornettools.
const MARKOV: &str =
    "ControlPort 127.0.0.1:9051\nSocksTimeout 120\nCircuitStreamTimeout 120\nMaxClientCircuitsPending 1024\n";

const ONION_SERVICE: &str =
    "ClientOnly 1\nSocksPort 0\nHiddenServiceDir /proc/self/cwd/onion-service\nHiddenServicePort 80 127.0.0.1:80\n";

/// As the public network's consensus has it; tor's own default is the old fixed window.
const VEGAS: &str = "# Congestion control by Vegas, as in the public network.\nConsensusParams cc_alg=2\n";
const FIXED_WINDOWS: &str =
    "# Windows of a fixed size, as in the public network before 2022.\nConsensusParams cc_alg=0\n";
