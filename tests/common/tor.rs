//! What tests of private Tor networks share: generating one, running it, and reading what tors and clients left.

use super::{capture, digest, gnomon, read, run, stats, tree};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a network of few relays makes tor say, which follows from its size.
const OF_SMALL_NETWORKS: [&str; 2] = [
    "Client asked me to extend back to the previous hop",
    "connection_edge_process_relay_cell (away from origin) failed",
];

/// A generated network that has not run yet, or may run again.
pub struct Network {
    /// Holds `gnomon.yaml`, `network.gml` and `template`.
    pub folder: PathBuf,
}

/// What a run of a network left.
pub struct Run {
    pub data: PathBuf,
    /// All that the run printed.
    pub printed: String,
    hosts: BTreeMap<String, Value>,
}

/// A finished download or upload, as `gnomon-traffic` wrote it. Times in seconds from its start.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub host: String,
    pub behaviour: String,
    pub bytes: u64,
    /// When it began, in seconds since 1970.
    pub start: f64,
    pub socks: Option<f64>,
    pub request: f64,
    pub first_byte: f64,
    pub last_byte: f64,
    /// When each tenth of it was there.
    pub tenths: Vec<f64>,
}

impl Network {
    /// `gnomon tor new` with these arguments, in `folder`.
    pub fn new(folder: &Path, arguments: &[&str]) -> Network {
        let output = capture(gnomon().args(["tor", "new"]).args(arguments).arg("net").current_dir(folder));
        assert_eq!(output.code(), 0, "gnomon tor new {arguments:?}: {}", output.stderr);
        assert!(output.stdout.contains("gnomon run gnomon.yaml"), "it says what to do next: {}", output.stdout);
        Network { folder: folder.join("net") }
    }

    /// A file of the network, such as `template/conf/common.torrc`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs it with each number of workers: the same bits, thirty downloads or more that are all complete, and no warning of tor that a network of tors
    /// does not give. The last run.
    pub fn run_alike(&self, workers: &[u32]) -> Run {
        let name = self.folder.display();
        let runs: Vec<Run> = workers.iter().map(|count| self.run(&["--parallelism", &count.to_string()])).collect();
        for run in &runs {
            let transfers = run.transfers();
            assert!(transfers.len() >= 30, "{name}: {} downloads", transfers.len());
            let unusual = run.unusual_warnings();
            assert!(unusual.is_empty(), "{name}: {unusual:?}");
            assert_eq!(run.digest(), runs[0].digest(), "{name}");
        }
        runs.into_iter().next_back().expect("a run")
    }

    /// Adds lines to one of its files.
    pub fn append(&self, name: &str, lines: &str) {
        self.change(name, |text| text.to_owned() + lines);
    }

    /// Rewrites one of its files.
    pub fn change(&self, name: &str, change: impl FnOnce(&str) -> String) {
        let path = self.file(name);
        fs::write(&path, change(&read(&path))).unwrap();
    }

    /// Makes every way in its graph take so long, in milliseconds, and lose nothing.
    pub fn set_latencies(&self, latency_ms: u64) {
        let same = |line: &str| match line.trim_start().split(' ').next() {
            Some("latency") => format!("    latency \"{latency_ms} ms\"\n"),
            Some("jitter" | "packet_loss") => String::new(),
            _ => format!("{line}\n"),
        };
        self.change("network.gml", |graph| graph.lines().map(same).collect());
    }

    /// Replaces the first `from` in a host's part of the experiment.
    pub fn change_host(&self, host: &str, from: &str, to: &str) {
        self.change("gnomon.yaml", |text| {
            let start = text.find(&format!("\n  {host}:\n")).unwrap_or_else(|| panic!("no host {host}"));
            assert!(text[start..].contains(from), "{host}: no '{from}'");
            text[..start].to_owned() + &text[start..].replacen(from, to, 1)
        });
    }

    /// What a client does in place of what it was made for, as `gnomon-traffic` reads it.
    pub fn set_traffic(&self, client: &str, traffic: &str) {
        self.change(&format!("template/hosts/{client}/traffic.yaml"), |_| traffic.to_owned());
    }

    /// Runs it; an earlier run's data is lost. It must succeed.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let data = self.folder.join("gnomon.data");
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        let output = run(&self.folder, "gnomon.yaml", arguments);
        let printed = output.stdout.clone() + &output.stderr;
        assert_eq!(output.code(), 0, "gnomon run {arguments:?}: {printed}");
        let description: Value = serde_json::from_str(&read(&data.join("tor-network.json"))).expect("JSON");
        let hosts = description["hosts"].as_object().expect("hosts").clone().into_iter().collect();
        Run { data, printed, hosts }
    }
}

impl Run {
    /// Kinds of warnings in the logs of tors that a small network of tors alone does not have, as `gnomon tor status` counts them.
    pub fn unusual_warnings(&self) -> Vec<String> {
        let status = capture(gnomon().args(["tor", "status"]).arg(&self.data)).stdout;
        assert!(!status.contains("not there"), "{status}");
        let mut lines = status.lines().skip_while(|line| !line.starts_with("tor's logs")).skip(1);
        let warnings = lines.by_ref().take_while(|line| !line.starts_with("every such network"));
        let is_unusual = |line: &&str| {
            let is_count = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
            is_count && !OF_SMALL_NETWORKS.iter().any(|usual| line.contains(usual))
        };
        warnings.filter(is_unusual).map(str::to_owned).collect()
    }

    /// Names of hosts of one of these roles; of all for none.
    pub fn hosts_that_are(&self, roles: &[&str]) -> Vec<&str> {
        let wanted = |host: &Value| roles.is_empty() || host["role"].as_str().is_some_and(|role| roles.contains(&role));
        self.hosts.iter().filter(|(_, host)| wanted(host)).map(|(name, _)| name.as_str()).collect()
    }

    /// Hosts that run tor.
    pub fn tors(&self) -> Vec<&str> {
        let servers = self.hosts_that_are(&["server"]);
        self.hosts.keys().map(String::as_str).filter(|name| !servers.contains(name)).collect()
    }

    /// Hosts with a client's traffic.
    pub fn clients(&self) -> Vec<&str> {
        self.hosts_that_are(&["client"])
    }

    pub fn role(&self, host: &str) -> &str {
        self.hosts[host]["role"].as_str().expect("a role")
    }

    /// The standard output of the program of that name on a host, of which there must be exactly one.
    pub fn stdout(&self, host: &str, program: &str) -> String {
        self.output(host, program, ".stdout")
    }

    /// And its standard error.
    pub fn stderr(&self, host: &str, program: &str) -> String {
        self.output(host, program, ".stderr")
    }

    fn output(&self, host: &str, program: &str, stream: &str) -> String {
        let folder = self.data.join("hosts").join(host);
        let is_its = |name: &str| name.starts_with(&format!("{program}.")) && name.ends_with(stream);
        let found: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a readable entry").path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_its))
            .collect();
        assert_eq!(found.len(), 1, "{host}: outputs of {program}");
        read(&found[0])
    }

    /// The standard outputs of all programs of that name on a host.
    pub fn outputs(&self, host: &str, program: &str) -> Vec<String> {
        let files = tree(&self.data.join("hosts").join(host));
        let is_its = |name: &str| name.starts_with(&format!("{program}.")) && name.ends_with(".stdout");
        let its = files.into_iter().filter(|(name, _)| is_its(name));
        its.map(|(_, bytes)| String::from_utf8(bytes).expect("text")).collect()
    }

    /// The log of a host's tor.
    pub fn log(&self, host: &str) -> String {
        self.stdout(host, "tor")
    }

    /// What a client's traffic program wrote, of one kind ("transfer", "circuit", ...).
    pub fn lines(&self, host: &str, kind: &str) -> Vec<Value> {
        let parse = |line: &str| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{host}: {error}: {line}"))
        };
        self.stdout(host, "gnomon-traffic").lines().map(parse).filter(|line| line["kind"] == kind).collect()
    }

    /// The transfers of a client that came to a good end, which all must have that ended at all.
    pub fn finished(&self, host: &str) -> Vec<Transfer> {
        self.lines(host, "transfer").iter().map(|line| Transfer::read(host, line)).collect()
    }

    /// The transfers of a client that ended. All must have come to a good end: complete, and verified.
    pub fn transfers_of(&self, host: &str) -> Vec<Transfer> {
        let transfers = self.finished(host);
        let end = self.lines(host, "end");
        assert_eq!(end.len(), 1, "{host} came to its end");
        assert_eq!(end[0]["transfers"].as_u64(), Some(transfers.len() as u64), "{host}: {}", end[0]);
        assert_eq!((end[0]["failed"].as_u64(), end[0]["unfinished"].as_u64()), (Some(0), Some(0)), "{host}");
        transfers
    }

    /// All clients' transfers, likewise.
    pub fn transfers(&self) -> Vec<Transfer> {
        self.clients().iter().flat_map(|host| self.transfers_of(host)).collect()
    }

    pub fn stats(&self) -> Value {
        stats(&self.data)
    }

    pub fn digest(&self) -> String {
        digest(&self.data)
    }

    /// Every file of the hosts.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        tree(&self.data.join("hosts"))
    }
}

impl Transfer {
    /// From the request to the first byte of the response.
    pub fn response(&self) -> f64 {
        self.first_byte - self.request
    }

    fn read(host: &str, line: &Value) -> Transfer {
        assert!(line["error"].is_null(), "{host}: {line}");
        assert_eq!(line["verified"].as_bool(), Some(true), "{host}: {line}");
        assert_eq!(line["received"], line["bytes"], "{host}: {line}");
        let seconds = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{host}: no {key}: {line}"));
        let tenths = line["tenths"].as_array().expect("tenths");
        let transfer = Transfer {
            host: host.to_owned(),
            behaviour: line["behaviour"].as_str().expect("a behaviour").to_owned(),
            bytes: line["bytes"].as_u64().expect("a size"),
            start: seconds("start"),
            socks: line["socks"].as_f64(),
            request: seconds("request"),
            first_byte: seconds("first_byte"),
            last_byte: seconds("last_byte"),
            tenths: tenths.iter().map(|time| time.as_f64().expect("seconds")).collect(),
        };
        assert_eq!(transfer.tenths.len(), 10, "{host}: {line}");
        let mut times = vec![seconds("connect"), transfer.request, transfer.first_byte];
        times.extend(&transfer.tenths);
        times.push(transfer.last_byte);
        assert!(times.is_sorted(), "{host}: {line}");
        transfer
    }
}

/// The median, which is the mean of the middle two of an even number.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    assert!(!values.is_empty(), "no values");
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}
