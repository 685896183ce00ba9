//! The same plan and seed give the same bits, with one worker and with two: digest, every file of the hosts, strace logs,
//! captures. Another seed gives others.

mod common;

use common::{digest, find_program, find_python, folder, run_well, tree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const NETWORK: &str = r#"
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "20 Mbit" host_bandwidth_up "5 Mbit" ]
        node [ id 2 host_bandwidth_down "50 Mbit" host_bandwidth_up "50 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "15 ms" packet_loss 0.01 ]
        edge [ source 0 target 2 latency "40 ms" packet_loss 0.002 ]
        edge [ source 1 target 1 latency "2 ms" ]
        edge [ source 1 target 2 latency "30 ms" packet_loss 0.02 ]
        edge [ source 2 target 2 latency "3 ms" ]
      ]
"#;

/// What a program shows that depends on addresses, time, and randomness, if anything in it does not follow from the plan.
const PERL: &str = "srand; my %h = map { $_ => 1 } 1 .. 50; print join(q( ), keys %h), qq( $$ ), time, q( ), rand, q( ), \\%h, qq(\\n)";

/// Several programs on five hosts. Fixed paths: where a run lies is part of what its guests see.
fn experiment() -> String {
    let mut text = "general: { stop_time: 20 s, data_directory: run.data, template_directory: template }\n".to_owned();
    text += NETWORK;
    text += "hosts:\n";
    let mut host = |name: &str, node: usize, processes: &[String]| {
        text += &format!("  {name}:\n    network_node_id: {node}\n    processes:\n");
        processes.iter().for_each(|process| text += &format!("    - {{ {process} }}\n"));
    };
    let fetch = |from: &str, start: u32| {
        format!("path: curl, args: -q -s -S -v -o body{start} http://{from}/page, start_time: {start} s")
    };
    let nginx = find_program("nginx").expect("nginx: tools/install-packages test").display().to_string();
    let perl = format!("path: perl, args: ['-e', '{PERL}']");
    let mut clients = vec![fetch("web", 2), fetch("web", 3)];
    host("web", 0, &[format!("path: {nginx}, args: -p . -c nginx.conf -e error.log, expected_final_state: running")]);
    match find_python() {
        Some(python) => {
            let server =
                format!("path: {python}, args: -u -m http.server --bind 0.0.0.0 8000, expected_final_state: running");
            let show =
                format!("path: {python}, args: ['-c', 'import os, time; print(hash(\"x\"), id(os), time.time())']");
            host("python", 1, &[server, show]);
            clients.push(fetch("python:8000", 3));
        }
        None => common::leave_out("no python3 of this machine can be loaded"),
    }
    host("client1", 1, &[clients.clone(), vec![perl.clone()]].concat());
    host("client2", 2, &[clients, vec![perl]].concat());
    host("iperf-server", 2, &["path: iperf3, args: --server --one-off".to_owned()]);
    host("iperf-client", 1, &["path: iperf3, args: --client iperf-server --time 2, start_time: 2 s".to_owned()]);
    text
}

struct Lab {
    folder: PathBuf,
}

/// What a run left: its digest and every file below `hosts`.
struct Left {
    digest: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Lab {
    fn new() -> Lab {
        let folder = folder("determinism");
        let page = |host: &str| folder.join("template/hosts").join(host);
        fs::create_dir_all(page("web/www")).unwrap();
        fs::create_dir_all(page("python")).unwrap();
        let content: String = (0..30_000).map(|number| format!("{number}\n")).collect();
        fs::write(page("web/www/page"), &content).unwrap();
        fs::write(page("python/page"), &content).unwrap();
        fs::copy(common::root().join("examples/web-demo/template/hosts/nginx/nginx.conf"), page("web/nginx.conf"))
            .unwrap();
        fs::write(folder.join("experiment.yaml"), experiment()).unwrap();
        Lab { folder }
    }

    fn run(&self, arguments: &[&str]) -> Left {
        let data = self.folder.join("run.data");
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(&self.folder, "experiment.yaml", arguments);
        Left { digest: digest(&data), files: tree(&data.join("hosts")) }
    }
}

/// Fails with the first byte that differs.
fn assert_same(what: &str, a: &Left, b: &Left) {
    let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b), "{what}");
    for (name, one) in &a.files {
        let other = &b.files[name];
        if one != other {
            let at = one.iter().zip(other).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let from = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(at.saturating_sub(80), |n| n + 1);
                String::from_utf8_lossy(&bytes[from.max(at.saturating_sub(400))..bytes.len().min(at + 200)])
                    .into_owned()
            };
            panic!("{what}: {name} differs at byte {at}:\n--- {}\n+++ {}", around(one), around(other));
        }
    }
    assert_eq!(a.digest, b.digest, "{what}");
}

/// Files of a kind, of which there must be some, and none empty.
fn count(left: &Left, extension: &str) -> usize {
    let found =
        left.files.iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|found| found == extension));
    found.inspect(|(name, content)| assert!(!content.is_empty(), "{name} is empty")).count()
}

#[test]
fn runs_repeat_to_the_bit() {
    let lab = Lab::new();
    let recording = |mode: &'static str, workers: &'static str| {
        lab.run(&["--pcap-enabled", "true", "--strace-logging-mode", mode, "--parallelism", workers])
    };
    let first = recording("standard", "1");
    assert!(count(&first, "strace") >= 8, "{:?}", first.files.keys());
    assert!(count(&first, "pcap") >= 5, "{:?}", first.files.keys());
    assert_same("the same again", &first, &recording("standard", "1"));
    assert_same("two workers", &first, &recording("standard", "2"));
    assert_same("two workers again", &first, &recording("standard", "2"));

    let deterministic = recording("deterministic", "1");
    assert_same("deterministic strace logs", &deterministic, &recording("deterministic", "2"));
    let plain = lab.run(&["--parallelism", "2"]);
    assert_eq!(first.digest, plain.digest, "recording does not change a run");
    let soiled = lab.run(&["--parallelism", "2", "--soil-registers", "true"]);
    assert_same("noise in registers between turns", &plain, &soiled);

    // Where calls take time, the clock moves within turns, and the door answers reads of clocks ahead of the simulated kernel.
    let modelled = |arguments: &[&str]| lab.run(&[&["--model-unblocked-syscall-latency", "true"], arguments].concat());
    let logged = modelled(&["--strace-logging-mode", "standard", "--parallelism", "1"]);
    assert_ne!(first.digest, logged.digest, "calls take time");
    assert_eq!(logged.digest, modelled(&["--parallelism", "2"]).digest, "neither logs nor workers change a run");

    let other = lab.run(&["--seed", "2"]);
    assert_ne!(first.digest, other.digest);
    let perl = "client1/perl.1000.stdout";
    assert_ne!(first.files[perl], other.files[perl], "a guest's randomness follows the seed");
}

/// Three hosts that read and write in each other's folders; `{wait}` is how long the writer waits between two lines.
const SHARING: &str = r#"
general: { stop_time: 9 s }
network: { graph: { type: 1_gbit_switch } }
hosts:
  reader: { network_node_id: 0, processes: [{ path: sh, args: ['-c', 'for i in 1 2 3 4; do sleep 1; cat ../writer/lines; ls ../writer; done'] }] }
  writer: { network_node_id: 0, processes: [{ path: sh, args: ['-c', 'sleep {wait}; for i in 1 2 3 4; do echo $i >> lines; sleep 1; done'] }] }
"#;

#[test]
fn hosts_that_meet_in_each_other_s_files_are_noticed() {
    let folder = folder("sharing");
    for (wait, meets) in [("0.5", false), ("1", true)] {
        fs::write(folder.join("sharing.yaml"), SHARING.replace("{wait}", wait)).unwrap();
        let mut digests = Vec::new();
        for workers in ["1", "2", "2", "3"] {
            let _ = fs::remove_dir_all(folder.join("gnomon.data"));
            let output = run_well(&folder, "sharing.yaml", &["-d", "gnomon.data", "--parallelism", workers]);
            let told = "not reproducible to the bit: hosts met in each other's files within one window";
            assert_eq!(output.stderr.contains(told), meets, "{wait}: {}", output.stderr);
            let stats = common::stats(&folder.join("gnomon.data"));
            let times = &stats["gnomon"]["interferences"]["sharing"]["times"];
            assert_eq!(times.as_u64().is_some(), meets, "{times}");
            digests.push(digest(&folder.join("gnomon.data")));
        }
        if !meets {
            assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
        }
    }
}

#[test]
fn what_a_run_records_is_no_guest_s_business() {
    let folder = folder("records");
    let looks = "ls -a . .. ../..; cat *.strace *.pcap ../../*.log ../../*.csv ../../*.yaml; rm -rf ../../*.log ../../*.csv; ping -c 2 11.0.0.2; ls";
    let text = format!(
        "general: {{ stop_time: 5 s }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n  \
         one: {{ network_node_id: 0, processes: [{{ path: sh, args: ['-c', '{looks}'] }}] }}\n  \
         two: {{ network_node_id: 0, ip_addr: 11.0.0.2, processes: [{{ path: sleep, args: '3' }}] }}\n"
    );
    fs::write(folder.join("records.yaml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let _ = fs::remove_dir_all(folder.join("gnomon.data"));
        run_well(&folder, "records.yaml", &[&["-d", "gnomon.data"], arguments].concat());
        assert!(folder.join("gnomon.data/gnomon.log").is_file() && folder.join("gnomon.data/progress.csv").is_file());
        digest(&folder.join("gnomon.data"))
    };
    let plain = run(&[]);
    assert_eq!(plain, run(&["--pcap-enabled", "true"]));
    assert_eq!(plain, run(&["--strace-logging-mode", "standard", "--log-level", "debug"]));
    // The shell has another name on other systems.
    let files = tree(&folder.join("gnomon.data/hosts/one"));
    let (_, shown) = files.iter().find(|(name, _)| name.ends_with(".stdout")).expect("an output");
    let shown = String::from_utf8_lossy(shown);
    assert!(shown.contains(".stderr") && !shown.contains(".strace") && !shown.contains("gnomon.log"), "{shown}");
}
