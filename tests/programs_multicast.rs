//! Multicast on one link: who hears a group, and programs that find each other by it (DDS, Zenoh, multicast DNS), with the settings
//! that they come with. Programs are in `tests/multicast`. Each experiment is run with one worker and with two, which must not differ.

mod common;

use common::{capture, digest, find_python, folder, read, root, run_well};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hosts at two nodes: a link, and one that is elsewhere.
const NETWORK: &str = r#"
general: { stop_time: 40 s, data_directory: run.data }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "10 ms" ]
        edge [ source 1 target 1 latency "1 ms" ]
      ]
hosts:
"#;

/// A host with one program of `tests/multicast`: name, node, start, the program's file and arguments.
type Host<'a> = (&'a str, u32, &'a str, &'a [&'a str]);

/// Python with the packages of the programs, if the machine has them or can fetch them.
struct Python {
    path: String,
    packages: Option<PathBuf>,
}

fn python() -> Option<Python> {
    Some(Python { path: find_python()?, packages: None })
}

fn python_with_packages() -> Option<Python> {
    let requirements = root().join("tests/multicast/requirements.txt");
    let mut command = Command::new(root().join("tools/guest-packages"));
    let output = capture(command.arg(requirements).arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest-packages")));
    if !output.status.success() {
        eprintln!("{}", output.stderr);
        return None;
    }
    Some(Python { packages: Some(output.stdout.trim_end().into()), ..python()? })
}

/// Runs the hosts twice; returns their folders.
fn run_twice(name: &str, python: &Python, hosts: &[Host<'_>]) -> PathBuf {
    let folder = folder(&format!("multicast/{name}"));
    let packages = python.packages.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let mut experiment = NETWORK.to_owned();
    for (number, (host, node, start, words)) in hosts.iter().enumerate() {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words[0] = root().join("tests/multicast").join(&words[0]).display().to_string();
        let arguments = serde_json::to_string(&words).expect("JSON is YAML");
        let _ = writeln!(
            experiment,
            "  {host}:\n    network_node_id: {node}\n    ip_addr: 10.0.0.{}\n    processes:\n    - {{ path: '{}', start_time: {start}, args: {arguments}, \
             environment: {{ PYTHONPATH: '{packages}', PYTHONDONTWRITEBYTECODE: '1', HOME: /tmp }} }}",
            number + 1,
            python.path
        );
    }
    fs::write(folder.join("run.yaml"), experiment).expect("an experiment");
    let data = folder.join("run.data");
    let run = |workers: &str| {
        if data.exists() {
            fs::remove_dir_all(&data).expect("an old run");
        }
        run_well(&folder, "run.yaml", &["--parallelism", workers]);
        digest(&data)
    };
    assert_eq!(run("1"), run("2"), "{name}: digests");
    data.join("hosts")
}

/// What the only program of a host has printed.
fn said(hosts: &Path, host: &str) -> String {
    let files = fs::read_dir(hosts.join(host)).expect("a host's folder").flatten();
    let stdout = files.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "stdout"));
    read(&stdout.expect("standard output"))
}

#[test]
fn datagrams_reach_the_members_of_a_link() {
    let Some(python) = python() else { return common::leave_out("there is no python3") };
    let hosts = run_twice(
        "groups",
        &python,
        &[
            ("sender", 0, "2 s", &["groups.py", "send", "239.1.2.3", "1", "one", "two"]),
            ("member", 0, "1 s", &["groups.py", "hear", "239.1.2.3"]),
            ("second", 0, "1 s", &["groups.py", "hear", "239.1.2.3"]),
            ("choosy", 0, "1 s", &["groups.py", "hear", "239.1.2.3", "10.0.0.8"]),
            ("deaf", 0, "1 s", &["groups.py", "deaf", "239.1.2.3"]),
            ("other", 0, "1 s", &["groups.py", "hear", "239.1.2.4"]),
            ("away", 1, "1 s", &["groups.py", "hear", "239.1.2.3"]),
            ("source", 0, "3 s", &["groups.py", "send", "239.1.2.3", "64", "three"]),
            ("silent", 0, "3 s", &["groups.py", "send", "239.1.2.3", "0", "none"]),
        ],
    );
    let all = "one from 10.0.0.1\ntwo from 10.0.0.1\nthree from 10.0.0.8\nend\n";
    assert_eq!(said(&hosts, "member"), all);
    assert_eq!(said(&hosts, "second"), all);
    assert_eq!(said(&hosts, "choosy"), "three from 10.0.0.8\nend\n");
    for host in ["deaf", "other", "away"] {
        assert_eq!(said(&hosts, host), "end\n", "{host}");
    }
}

#[test]
fn participants_of_cyclonedds_find_each_other() {
    let Some(python) = python_with_packages() else { return common::leave_out("there is no cyclonedds") };
    let hosts = run_twice(
        "dds",
        &python,
        &[("writer", 0, "2 s", &["dds.py", "write"]), ("reader", 0, "1 s", &["dds.py", "read"])],
    );
    assert_eq!(said(&hosts, "reader"), "read 20 in order\n");
    assert_eq!(said(&hosts, "writer"), "wrote 20\n");
}

#[test]
fn peers_of_zenoh_scout_each_other() {
    let Some(python) = python_with_packages() else { return common::leave_out("there is no zenoh") };
    let hosts = run_twice(
        "zenoh",
        &python,
        &[
            ("publisher", 0, "2 s", &["zenoh_peers.py", "publish"]),
            ("subscriber", 0, "1 s", &["zenoh_peers.py", "subscribe"]),
        ],
    );
    assert_eq!(said(&hosts, "subscriber"), "received 20 in order\n");
    assert_eq!(said(&hosts, "publisher"), "published 20\n");
}

#[test]
fn services_are_found_by_multicast_dns() {
    let Some(python) = python_with_packages() else { return common::leave_out("there is no zeroconf") };
    let hosts = run_twice(
        "mdns",
        &python,
        &[
            ("printer", 0, "1 s", &["mdns.py", "announce", "10.0.0.1"]),
            ("laptop", 0, "4 s", &["mdns.py", "look"]),
            ("away", 1, "4 s", &["mdns.py", "look"]),
        ],
    );
    assert_eq!(said(&hosts, "printer"), "announced\n");
    assert_eq!(said(&hosts, "laptop"), "found (['10.0.0.1'], 631)\n");
    assert_eq!(said(&hosts, "away"), "found None\n");
}
