//! Downloads through Tor: their bytes are encrypted anew at each relay, and still lead to the server by the relays of a circuit.

use crate::common::{folder, gnomon, run};
use crate::table::{Row, Table, number, word};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

const DOWNLOADS: usize = 25;
/// 2000-01-01, when clocks begin.
const START: f64 = 946_684_800.0;

#[test]
fn downloads_on_an_idle_tor_network_lead_through_their_circuits() {
    let found = Found::record("provenance-onion", ["0", "0"]);
    println!("idle: {found}");
    // The first leaves before the circuits of its time are told.
    assert!(found.one + found.several >= DOWNLOADS - 1 && found.one >= DOWNLOADS * 3 / 4, "{found}");
}

/// Relays then read cells of many circuits in one turn, and hand on some of what they have read: which, nobody outside can know.
#[test]
fn downloads_on_a_loaded_tor_network_lead_through_their_circuits_among_others() {
    let found = Found::record("provenance-onion-loaded", ["4", "1"]);
    println!("loaded: {found}");
    assert!(found.one + found.several >= DOWNLOADS * 3 / 4, "{found}");
}

/// What the record says of downloads whose circuits are known.
struct Found {
    /// They lead through one circuit, and nowhere else.
    one: usize,
    /// They lead through a circuit, and could have come by other ways, too.
    several: usize,
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Found { one, several } = self;
        write!(f, "of {DOWNLOADS} downloads {one} lead through one circuit, {several} could have come through several")
    }
}

impl Found {
    /// Records one client's downloads beside so many web and bulk clients.
    fn record(name: &str, [web, bulk]: [&str; 2]) -> Found {
        let folder = folder(name);
        let network = folder.join("net");
        let amount = DOWNLOADS.to_string();
        let written = gnomon()
            .args(["tor", "new", "--profile", "tiny", "--web-clients", web, "--bulk-clients", bulk])
            .args([
                "--performance-clients",
                "1",
                "--performance-sizes",
                "50KiB",
                "--amount",
                &amount,
                "--duration",
                "360s",
            ])
            .arg(&network)
            .output()
            .unwrap();
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let run = run(&network, "gnomon.yaml", &["--provenance", "all", "-d", "run.data"]);
        // Web clients may be at it still when the run ends, which it then says.
        assert!(run.code() == i32::from(web != "0"), "{}{}", run.stdout, run.stderr);
        let data = network.join("run.data");
        let client = Client::read(&data.join("hosts/perfclient1"));
        assert_eq!(client.transfers.len(), DOWNLOADS);

        let [writes, reads, causes, hosts] =
            ["writes", "reads", "causes", "hosts"].map(|name| Table::read(&data, name));
        let record = Backwards::new(&writes, &reads, &causes, &hosts);
        let mut found = Found { one: 0, several: 0 };
        for transfer in &client.transfers {
            let paths = record.paths("perfclient1", client.pid, transfer);
            // Relays of a circuit that was there, in its order, and the server.
            let is_right = |path: &&Vec<String>| {
                let relays = &path[1..path.len() - 1];
                path[path.len() - 1] == transfer.server && client.circuits.iter().any(|circuit| circuit == relays)
            };
            match (paths.iter().filter(is_right).count(), paths.len()) {
                (1, 1) => found.one += 1,
                (1.., _) => found.several += 1,
                _ => {}
            }
        }
        found
    }
}

struct Transfer {
    server: String,
    start_ns: u64,
    end_ns: u64,
}

/// What the client's program has written.
struct Client {
    pid: u64,
    circuits: BTreeSet<Vec<String>>,
    transfers: Vec<Transfer>,
}

impl Client {
    fn read(folder: &Path) -> Client {
        let mut client = Client { pid: 0, circuits: BTreeSet::new(), transfers: Vec::new() };
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            let Some(pid) = name.strip_prefix("gnomon-traffic.").and_then(|rest| rest.strip_suffix(".stdout")) else {
                continue;
            };
            client.pid = pid.parse().unwrap();
            for line in fs::read_to_string(&entry).unwrap().lines() {
                client.line(&serde_json::from_str(line).unwrap());
            }
        }
        client
    }

    fn line(&mut self, line: &Value) {
        if line["kind"] == "circuit" {
            let names = line["path"].as_array().unwrap().iter().map(|relay| relay.as_str().unwrap());
            self.circuits.insert(names.map(|relay| relay.split('~').nth(1).unwrap().to_owned()).collect());
        } else if line["kind"] == "transfer" {
            let start = line["start"].as_f64().unwrap() - START;
            let nanos = |seconds: f64| (seconds * 1e9) as u64;
            self.transfers.push(Transfer {
                server: line["server"].as_str().unwrap().split(':').next().unwrap().to_owned(),
                start_ns: nanos(start),
                end_ns: nanos(start + line["last_byte"].as_f64().unwrap()) + 1000,
            });
        }
    }
}

/// The record, from reads to what they stem from.
struct Backwards<'a> {
    names: BTreeMap<u64, &'a str>,
    reads: BTreeMap<u64, &'a Row>,
    /// By stream, and in it by offset.
    writes: BTreeMap<u64, Vec<&'a Row>>,
    causes: BTreeMap<u64, Vec<u64>>,
}

impl<'a> Backwards<'a> {
    fn new(writes: &'a Table, reads: &'a Table, causes: &'a Table, hosts: &'a Table) -> Backwards<'a> {
        let mut causes_of: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in &causes.rows {
            causes_of.entry(number(row, "write")).or_default().push(number(row, "read"));
        }
        Backwards {
            names: hosts.rows.iter().map(|row| (number(row, "host"), word(row, "name"))).collect(),
            reads: reads.by("read"),
            writes: writes.by_stream(),
            causes: causes_of,
        }
    }

    /// The ways by which a program's last bytes of a transfer may have come, each as names of hosts up to a server.
    fn paths(&self, host: &str, pid: u64, transfer: &Transfer) -> BTreeSet<Vec<String>> {
        let own = |read: &&&Row| self.name(number(read, "read")) == host && number(read, "pid") == pid;
        let last = self.reads.values().filter(own).filter(|read| number(read, "at_ns") <= transfer.end_ns);
        let last = last.max_by_key(|read| number(read, "at_ns")).expect("a read");
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut ahead: Vec<(u64, Vec<String>)> = vec![(number(last, "read"), Vec::new())];
        while let Some((read, path)) = ahead.pop() {
            for write in self.writes_of(self.reads[&read]) {
                let name = self.name(write).to_owned();
                let mut path = path.clone();
                if path.last() != Some(&name) {
                    if path.contains(&name) {
                        continue;
                    }
                    path.push(name.clone());
                }
                if name.starts_with("server") {
                    found.insert(path);
                } else if seen.insert((write, path.clone())) {
                    let reads = self.causes.get(&write).into_iter().flatten();
                    let recent = reads.filter(|read| number(self.reads[read], "at_ns") >= transfer.start_ns);
                    ahead.extend(recent.map(|read| (*read, path.clone())));
                }
            }
        }
        found
    }

    fn name(&self, row: u64) -> &str {
        self.names[&(row >> 40)]
    }

    /// The writes whose bytes a read has taken.
    fn writes_of(&self, read: &Row) -> Vec<u64> {
        let (start, end) = (number(read, "offset"), number(read, "offset") + number(read, "bytes"));
        let writes = self.writes.get(&number(read, "stream")).map_or(&[][..], Vec::as_slice);
        let first = writes.partition_point(|write| number(write, "offset") + number(write, "bytes") <= start);
        writes[first..]
            .iter()
            .take_while(|write| number(write, "offset") < end)
            .map(|row| number(row, "write"))
            .collect()
    }
}
