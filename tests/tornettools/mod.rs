//! A network as tornettools' `generate` leaves it: the folders, names and forms of its files, which its source says
//! (github.com/shadow/tornettools). Keys come from `gnomon tor new`, in place of `tor --list-fingerprint`, `tor-gencert` and `faketime`.

use crate::common::{Output, capture, gnomon, read};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Seconds: BOOTSTRAP_LENGTH_SECONDS and SIMULATION_LENGTH_SECONDS there.
const BOOTSTRAP_S: u64 = 300;
const LENGTH_S: u64 = 3600;

const STREAMS: &str = "tgen.tor-streammodel-ccs2018.graphml";
const PACKETS: &str = "tgen.tor-packetmodel-ccs2018.graphml";
const FLOWS: &str = "tgen.tor-flowmodel-5000000usec.graphml";

const COMMON: &str = "\
TestingTorNetwork 1
TestingEnableCellStatsEvent 0
DataDirectory .
ServerDNSResolvConfFile ../../../conf/shadowresolv.conf
ServerDNSTestAddresses 4uthority1,4uthority2,4uthority3
ServerDNSAllowBrokenConfig 1
ServerDNSDetectHijacking 0
AssumeReachable 1
NumCPUs 1
Log notice stdout
SafeLogging 0
LogTimeGranularity 1
HeartbeatPeriod 1
ContactInfo https://github.com/shadow/shadow-plugin-tor/issues
DisableDebuggerAttachment 0
CellStatistics 0
PaddingStatistics 0
DirReqStatistics 0
EntryStatistics 0
ExitPortStatistics 0
ConnDirectionStatistics 0
HiddenServiceStatistics 0
ExtraInfoStatistics 0
CircuitPriorityHalflife 30
PathBiasUseThreshold 10000
PathBiasCircThreshold 10000
DoSCircuitCreationEnabled 0
DoSConnectionEnabled 0
DoSRefuseSingleHopClientRendezvous 0
ControlPort 9051
GeoIPFile 
GeoIPV6File
ProtocolWarnings 1
";

/// A relay or an authority.
struct Relay {
    name: String,
    fingerprint: String,
    /// In `gnomon tor new`'s network: where its keys are.
    source: String,
    country: &'static str,
    address: String,
    /// Bytes per second.
    capacity: u64,
    weight: u64,
}

struct Generator<'a> {
    /// Where the network goes: tornettools' prefix.
    prefix: &'a Path,
    /// The template of the network that has the keys.
    keys: PathBuf,
    described: Value,
    hosts: String,
}

/// Writes the network `name` in `folder`; its programs lie in `~/.local/bin`, as tornettools has it.
pub fn generate(folder: &Path, name: &str) -> PathBuf {
    let arguments = "--authorities 3 --guards 2 --exits 1 --guard-exits 2 --middles 1 --web-clients 0 --bulk-clients 0 --performance-clients 1 \
                     --markov-clients 1 --servers 1 --seed 3 source";
    let mut source = gnomon();
    source.args(["tor", "new"]).args(arguments.split_whitespace()).current_dir(folder);
    let Output { status, stderr, .. } = capture(&mut source);
    assert!(status.success(), "{stderr}");
    let prefix = folder.join(name);
    let keys = folder.join("source/template");
    let described = serde_json::from_str(&read(&keys.join("tor-network.json"))).expect("JSON");
    let mut generator = Generator { prefix: &prefix, keys, described, hosts: String::new() };
    generator.write();
    prefix
}

impl Generator<'_> {
    fn file(&self, name: &str, text: &str) {
        let path = self.prefix.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn host_file(&self, host: &str, name: &str, text: &str) {
        self.file(&format!("shadow.data.template/hosts/{host}/{name}"), text);
    }

    fn write(&mut self) {
        let authorities: Vec<Relay> = (1..=3)
            .map(|number| {
                self.relay(&format!("4uthority{number}"), &format!("authority{number}"), format!("100.0.0.{number}"))
            })
            .collect();
        let named = [
            ("relay1exitguard", "guardexit1"),
            ("relay2exitguard", "guardexit2"),
            ("relay3exit", "exit1"),
            ("relay4guard", "guard1"),
            ("relay5guard", "guard2"),
            ("relay6middle", "middle1"),
        ];
        let relays: Vec<Relay> = (1..)
            .zip(named)
            .map(|(number, (name, source))| self.relay(name, source, format!("20.{number}.0.{number}")))
            .collect();
        self.configuration(&authorities, &relays);
        for authority in &authorities {
            self.tor_relay(authority, 1, &["tor.relay.torrc", "tor.relay.authority.torrc"]);
        }
        for relay in &relays {
            let (start, kind) = match &relay.name {
                name if name.contains("exitguard") => (2, "tor.relay.exitguard.torrc"),
                name if name.contains("exit") => (3, "tor.relay.exitonly.torrc"),
                name if name.contains("guard") => (4, "tor.relay.guardonly.torrc"),
                _ => (5, "tor.relay.other.torrc"),
            };
            self.tor_relay(relay, start, &["tor.relay.torrc", kind]);
        }
        self.server("server1exit");
        self.client("perfclient1exit", "../../../conf/tgen-perf-exit.tgenrc.graphml", "tor.client.perf.torrc");
        self.client("markovclient1exit", "tgenrc.graphml", "tor.client.markov.torrc");
        self.markov_client("markovclient1exit");
        self.experiment();
    }

    fn relay(&self, name: &str, source: &str, address: String) -> Relay {
        let host = &self.described["hosts"][source];
        Relay {
            name: name.to_owned(),
            fingerprint: host["fingerprint"].as_str().expect("a fingerprint").to_owned(),
            source: source.to_owned(),
            country: "DE",
            address,
            capacity: host["bandwidth_up_bits"].as_u64().expect("a bandwidth") / 8,
            weight: host["weight"].as_u64().expect("a weight"),
        }
    }

    /// The folder `conf`, and the bandwidth authority's.
    fn configuration(&self, authorities: &[Relay], relays: &[Relay]) {
        let identity = |relay: &Relay| {
            let certificate = read(&self.keys.join("hosts").join(&relay.source).join("keys/authority_certificate"));
            let line = certificate.lines().find_map(|line| line.strip_prefix("fingerprint "));
            line.expect("an identity").to_owned()
        };
        let mut common = String::new();
        for authority in authorities {
            let words: Vec<&str> = (0..10).map(|part| &authority.fingerprint[4 * part..4 * part + 4]).collect();
            let (name, address) = (&authority.name, &authority.address);
            let _ = writeln!(
                common,
                "DirServer {name} v3ident={} orport=9001 {address}:8080 {}",
                identity(authority),
                words.join(" ")
            );
        }
        let conf = |name: &str, text: &str| self.file(&format!("conf/{name}"), text);
        conf("tor.common.torrc", &(common + COMMON));
        conf("shadowresolv.conf", "nameserver 127.0.0.1\n");
        conf(
            "tor.relay.torrc",
            "#Log info stdout\n# for tor v0.4.4.x or earlier\n#ORPort 9001\n# for tor v0.4.5.x or later\nORPort 9001 IPv4Only\nDirPort 8080\nSocksPort 0\n",
        );
        let prints = |what: &str| -> Vec<&str> {
            let those = relays.iter().filter(|relay| relay.name.contains(what));
            those.map(|relay| relay.fingerprint.as_str()).collect()
        };
        conf(
            "tor.relay.authority.torrc",
            &format!(
                "Log info stdout\nExitPolicy \"reject *:*\"\n\nAuthoritativeDirectory 1\nV3AuthoritativeDirectory 1\n\
                 V3BandwidthsFile ../bwauthority/v3bw\n\nTestingDirAuthVoteGuard {}\nTestingDirAuthVoteGuardIsStrict 1\n\
                 TestingDirAuthVoteExit {}\nTestingDirAuthVoteExitIsStrict 1\n",
                prints("guard").join(","),
                prints("exit").join(",")
            ),
        );
        for kind in ["exitonly", "exitguard"] {
            conf(&format!("tor.relay.{kind}.torrc"), "ExitPolicy \"accept *:*\"\n");
        }
        for kind in ["guardonly", "other"] {
            conf(&format!("tor.relay.{kind}.torrc"), "ExitPolicy \"reject *:*\"\n");
        }
        conf("tor.client.torrc", "ClientOnly 1\nORPort 0\nDirPort 0\nSocksPort 9050\nUseEntryGuards 0\n");
        conf("tor.client.markov.torrc", "SocksTimeout 120\nCircuitStreamTimeout 120\nMaxClientCircuitsPending 1024\n");
        conf("tor.client.perf.torrc", "MaxCircuitDirtiness 10 seconds\n");
        conf("tgen-server.tgenrc.graphml", &graph(&[("start", &SERVER)], &[]));
        conf("tgen-perf-exit.tgenrc.graphml", &graph(&PERFORMANCE, &PERFORMANCE_EDGES));
        for (from, to) in [("flows", FLOWS), ("streams", STREAMS), ("packets", PACKETS)] {
            conf(to, &read(&self.keys.join("conf").join(format!("{from}.graphml"))));
        }
        let mut bandwidths = "946684801\n".to_owned();
        for relay in authorities.iter().chain(relays) {
            let _ = writeln!(bandwidths, "node_id=${}\tbw={}\tnick={}", relay.fingerprint, relay.weight, relay.name);
        }
        self.host_file("bwauthority", "v3bw.init.consensus", &bandwidths);
        symlink("v3bw.init.consensus", self.prefix.join("shadow.data.template/hosts/bwauthority/v3bw"))
            .expect("a link");
    }

    fn torrc(&self, host: &str, includes: &[&str], more: &str) {
        self.host_file(
            host,
            "torrc",
            "# Enter any host-specific tor config options here.\n# Note that any option specified here may override a default from torrc-defaults.\n",
        );
        let mut text = "# The following files specify default tor config options for this host.\n".to_owned();
        for include in [&["tor.common.torrc"], includes].concat() {
            let _ = writeln!(text, "%include ../../../conf/{include}");
        }
        self.host_file(host, "torrc-defaults", &(text + more));
    }

    fn tor_relay(&mut self, relay: &Relay, start: u64, includes: &[&str]) {
        let name = &relay.name;
        let rates = format!("BandwidthRate {0}\nBandwidthBurst {0}\n", relay.capacity);
        self.torrc(name, includes, if name.starts_with('4') { "" } else { &rates });
        self.host_file(name, "fingerprint", &format!("{name} {}\n", relay.fingerprint));
        self.host_file(name, "fingerprint-public-tor", &format!("{}\n", relay.fingerprint));
        let keys = self.keys.join("hosts").join(&relay.source).join("keys");
        for entry in fs::read_dir(keys).expect("keys") {
            let entry = entry.expect("an entry");
            let key = entry.file_name().into_string().expect("a name");
            self.host_file(name, &format!("keys/{key}"), &read(&entry.path()));
        }
        let node = if relay.country == "DE" { 0 } else { 1 };
        let kilobits = 8 * (relay.capacity / 1000);
        let _ = write!(
            self.hosts,
            "  {name}:\n    network_node_id: {node}\n    ip_addr: {}\n    bandwidth_down: {kilobits} kilobit\n    bandwidth_up: {kilobits} kilobit\n    \
             processes:\n",
            relay.address
        );
        let arguments = format!("--Address {name} --Nickname {name} --defaults-torrc torrc-defaults -f torrc");
        self.process("tor", &arguments, start, None);
        self.oniontrace(start + 1);
    }

    fn attached(&mut self, name: &str) {
        let _ = write!(
            self.hosts,
            "  {name}:\n    network_node_id: 1\n    bandwidth_up: 1000000 kilobit\n    bandwidth_down: 1000000 kilobit\n    processes:\n"
        );
    }

    fn process(&mut self, program: &str, arguments: &str, start: u64, environment: Option<&str>) {
        let _ = write!(self.hosts, "    - path: ~/.local/bin/{program}\n      args: {arguments}\n");
        if let Some(variable) = environment {
            let _ = write!(self.hosts, "      environment:\n        {variable}\n");
        }
        let _ = write!(self.hosts, "      start_time: {start}\n      expected_final_state: running\n");
    }

    fn oniontrace(&mut self, start: u64) {
        self.process("oniontrace", "Mode=log TorControlPort=9051 LogLevel=info Events=BW,CIRC", start, None);
    }

    fn server(&mut self, name: &str) {
        self.attached(name);
        self.process("tgen", "../../../conf/tgen-server.tgenrc.graphml", BOOTSTRAP_S, None);
    }

    fn client(&mut self, name: &str, graph: &str, torrc: &str) {
        self.torrc(name, &["tor.client.torrc", torrc], "");
        self.attached(name);
        let threads = Some("OPENBLAS_NUM_THREADS: '1'");
        self.process("tor", "--defaults-torrc torrc-defaults -f torrc", BOOTSTRAP_S - 60, threads);
        self.oniontrace(BOOTSTRAP_S - 59);
        self.process("tgen", graph, BOOTSTRAP_S, None);
    }

    fn markov_client(&self, name: &str) {
        let models = [
            ("flowmodelpath", format!("../../../conf/{FLOWS}")),
            ("streammodelpath", format!("../../../conf/{STREAMS}")),
            ("packetmodelpath", format!("../../../conf/{PACKETS}")),
        ];
        let mut traffic =
            vec![("socksauthseed", "123456789"), ("packetmodelmode", "path"), ("markovmodelseed", "987654321")];
        traffic.extend(models.iter().map(|(key, path)| (*key, path.as_str())));
        let start = [
            ("loglevel", "message"),
            ("time", "7"),
            ("socksproxy", "localhost:9050"),
            ("peers", "server1exit:80"),
            ("stallout", "5 minutes"),
            ("timeout", "10 minutes"),
        ];
        let edges = [("start", "traffic", None), ("traffic", "traffic", None)];
        self.host_file(name, "tgenrc.graphml", &graph(&[("start", &start), ("traffic", &traffic)], &edges));
    }

    /// `shadow.config.yaml`, and the graph that it names: as the public one ("atlas"), but of two nodes.
    fn experiment(&self) {
        let atlas = "graph [\n  directed 0\n  node [\n    id 0\n    label \"node at 84.200.1.1\"\n    ip_address \"84.200.1.1\"\n    country_code \"DE\"\n  ]\n  \
                     node [\n    id 1\n    label \"node at 16.3.1.1\"\n    ip_address \"16.3.1.1\"\n    country_code \"US\"\n  ]\n  \
                     edge [\n    source 0\n    target 0\n    latency \"8 ms\"\n    packet_loss 0.0\n  ]\n  \
                     edge [\n    source 0\n    target 1\n    latency \"50 ms\"\n    packet_loss 0.0005\n  ]\n  \
                     edge [\n    source 1\n    target 1\n    latency \"20 ms\"\n    packet_loss 0.0\n  ]\n]\n";
        self.file("conf/atlas_v201801.shadow_v2.gml", atlas);
        let packed = self.prefix.join("conf/atlas_v201801.shadow_v2.gml");
        let output = capture(std::process::Command::new("xz").arg(&packed));
        assert!(output.status.success(), "{}", output.stderr);
        let text = format!(
            "general:\n  bootstrap_end_time: {BOOTSTRAP_S}\n  stop_time: {LENGTH_S}\n  progress: true\n  template_directory: shadow.data.template\nnetwork:\n  \
             use_shortest_path: false\n  graph:\n    type: gml\n    file:\n      path: {}.xz\n      compression: xz\nhosts:\n{}",
            packed.display(),
            self.hosts
        );
        self.file("shadow.config.yaml", &text);
    }
}

type Attributes<'a> = [(&'a str, &'a str)];

const SERVER: [(&str, &str); 4] =
    [("serverport", "80"), ("loglevel", "message"), ("stallout", "0 seconds"), ("timeout", "0 seconds")];

const PERFORMANCE: [(&str, &Attributes); 5] = [
    (
        "start",
        &[
            ("loglevel", "info"),
            ("socksproxy", "localhost:9050"),
            ("peers", "server1exit:80"),
            ("packetmodelmode", "path"),
        ],
    ),
    ("pause", &[("time", "1 minute")]),
    (
        "stream_50k",
        &[("sendsize", "1000 bytes"), ("recvsize", "50 KiB"), ("stallout", "0 seconds"), ("timeout", "15 seconds")],
    ),
    (
        "stream_1m",
        &[("sendsize", "1000 bytes"), ("recvsize", "1 MiB"), ("stallout", "0 seconds"), ("timeout", "60 seconds")],
    ),
    (
        "stream_5m",
        &[("sendsize", "1000 bytes"), ("recvsize", "5 MiB"), ("stallout", "0 seconds"), ("timeout", "120 seconds")],
    ),
];

const PERFORMANCE_EDGES: [(&str, &str, Option<&str>); 5] = [
    ("start", "pause", None),
    ("pause", "pause", None),
    ("pause", "stream_50k", Some("12.0")),
    ("pause", "stream_1m", Some("2.0")),
    ("pause", "stream_5m", Some("1.0")),
];

/// As networkx writes a graph: keys of attributes first, then nodes and edges.
fn graph(nodes: &[(&str, &Attributes)], edges: &[(&str, &str, Option<&str>)]) -> String {
    let mut keys: Vec<&str> = nodes.iter().flat_map(|(_, attributes)| attributes.iter().map(|(key, _)| *key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let weight = format!("d{}", keys.len());
    let mut text = "<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\" \
                    xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"http://graphml.graphdrawing.org/xmlns \
                    http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd\">\n"
        .to_owned();
    let _ = writeln!(text, "  <key id=\"{weight}\" for=\"edge\" attr.name=\"weight\" attr.type=\"string\" />");
    for (number, key) in keys.iter().enumerate() {
        let _ = writeln!(text, "  <key id=\"d{number}\" for=\"node\" attr.name=\"{key}\" attr.type=\"string\" />");
    }
    text += "  <graph edgedefault=\"directed\">\n";
    for (name, attributes) in nodes {
        let _ = writeln!(text, "    <node id=\"{name}\">");
        for (key, value) in *attributes {
            let number = keys.iter().position(|known| known == key).expect("a key");
            let _ = writeln!(text, "      <data key=\"d{number}\">{value}</data>");
        }
        text += "    </node>\n";
    }
    for (from, to, odds) in edges {
        let data = odds.map(|odds| format!("<data key=\"{weight}\">{odds}</data>")).unwrap_or_default();
        let _ = writeln!(text, "    <edge source=\"{from}\" target=\"{to}\">{data}</edge>");
    }
    text + "  </graph>\n</graphml>\n"
}
