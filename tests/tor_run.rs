//! `gnomon tor run`: several networks with several seeds, interrupted and gone on with. What runs is small and has no tor: networks are folders
//! with an experiment.

mod common;

use base::wall::WallClock;
use common::{capture, digest, folder, gnomon, read};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A folder with an experiment of one client and one server; the client fetches so often.
fn network(folder: &Path, name: &str, fetches: u32, latency: &str) -> PathBuf {
    let traffic = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    assert!(traffic.is_file(), "{}: cargo build --release -p traffic", traffic.display());
    let traffic = traffic.display();
    let network = folder.join(name);
    fs::create_dir_all(&network).unwrap();
    let behaviour = format!("{{ kind: performance, sizes: [200 KiB], every: 2 s, count: {fetches} }}");
    fs::write(network.join("traffic.yaml"), format!("servers: [\"server:80\"]\nbehaviours: [{behaviour}]\n")).unwrap();
    let experiment = format!(
        "general: {{ stop_time: 3 h }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down \"20 Mbit\" host_bandwidth_up \"20 Mbit\" ]
        edge [ source 0 target 0 latency \"{latency}\" packet_loss 0.01 ]
      ]
hosts:
  server:
    network_node_id: 0
    processes: [{{ path: {traffic}, args: 'server --listen 0.0.0.0:80', expected_final_state: running }}]
  client:
    network_node_id: 0
    processes: [{{ path: {traffic}, args: client {}, start_time: 1 s }}]
",
        network.join("traffic.yaml").display()
    );
    fs::write(network.join("gnomon.yaml"), experiment).unwrap();
    network
}

/// An interrupted run has statistics, too.
fn is_complete(run: &Path) -> bool {
    let stats = fs::read_to_string(run.join("sim-stats.json")).unwrap_or_default();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap_or_default();
    stats["gnomon"]["simulated_ns"] == 10_800_000_000_000u64
}

/// The complete runs of both networks.
fn complete(folder: &Path) -> Vec<PathBuf> {
    let runs = ["near", "far"].into_iter().flat_map(|name| (1..=3).map(move |seed| format!("{name}/seed-{seed}.data")));
    runs.map(|run| folder.join(run)).filter(|run| is_complete(run)).collect()
}

#[test]
fn what_is_complete_is_not_run_again() {
    let folder = folder("tor-run");
    for name in ["near", "far"] {
        let _ = fs::remove_dir_all(folder.join(name));
    }
    network(&folder, "near", 5000, "10 ms");
    network(&folder, "far", 5000, "40 ms");
    let command = || {
        // No wrapper, which would be what signals reach.
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
        command.args(["tor", "run", "near", "far", "--seeds", "1-3", "--jobs", "2"]).current_dir(&folder);
        command
    };
    // Killed after the first run, and interrupted after another. Not by SIGINT: whoever started the tests may ignore that, and so would the batch.
    let mut known: Vec<(PathBuf, std::time::SystemTime)> = Vec::new();
    for signal in [nix::sys::signal::Signal::SIGKILL, nix::sys::signal::Signal::SIGTERM] {
        let mut batch = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = WallClock::start();
        while complete(&folder).len() <= known.len() {
            assert!(begun.elapsed() < Duration::from_secs(300), "no run ends");
            std::thread::sleep(Duration::from_millis(10));
        }
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(batch.id() as i32), signal).unwrap();
        batch.wait().unwrap();
        known = complete(&folder)
            .into_iter()
            .map(|run| (run.clone(), run.join("sim-stats.json").metadata().unwrap().modified().unwrap()))
            .collect();
    }
    assert!(known.len() < 6, "all six runs were faster than the signals");
    // The killed one may have left runs behind, which are not begun a second time.
    let begun = WallClock::start();
    let output = loop {
        let output = capture(&mut command());
        if output.code() == 0 {
            break output;
        }
        assert!(output.stdout.contains("is being run by another call"), "{}{}", output.stdout, output.stderr);
        assert!(begun.elapsed() < Duration::from_secs(300), "{}", output.stdout);
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(complete(&folder).len(), 6);
    for (run, written) in &known {
        assert_eq!(run.join("sim-stats.json").metadata().unwrap().modified().unwrap(), *written, "{}", run.display());
    }
    // A run of the batch is the run that one would have made by hand.
    let by_hand = folder.join("by-hand.data");
    let _ = fs::remove_dir_all(&by_hand);
    let mut run = gnomon();
    run.args(["run", "--quiet", "--seed", "2", "-d"]).arg(&by_hand).arg("gnomon.yaml").current_dir(folder.join("near"));
    assert_eq!(capture(&mut run).code(), 0);
    assert_eq!(digest(&by_hand), digest(&folder.join("near/seed-2.data")));
    // It says how to go on, and that works: latencies differ, so do transfers.
    let advice = output.stdout.lines().find(|line| line.starts_with("gnomon report")).expect("advice");
    let words = advice.replace('\'', "");
    let mut report = gnomon();
    report.args(words.split_whitespace().skip(1)).current_dir(&folder);
    assert_eq!(capture(&mut report).code(), 0, "{advice}");
    let table = read(&folder.join("results/tables/differences.csv"));
    let line = table.lines().find(|line| line.contains("Time to first byte, 200 KiB, median")).expect("a comparison");
    assert!(line.starts_with("near,far,") && line.ends_with(",true"), "{line}");
}

#[test]
fn failures_and_mistakes_are_told() {
    let folder = folder("tor-run-bad");
    let _ = fs::remove_dir_all(folder.join("net"));
    let network = network(&folder, "net", 1, "10 ms");
    let run = |arguments: &[&str]| capture(gnomon().args(["tor", "run"]).args(arguments).current_dir(&folder));
    for (arguments, text) in [
        (&["nowhere"][..], "'nowhere': No such file"),
        (&["."], "has no network: there is neither gnomon.yaml nor shadow.config.yaml"),
        (&["net", "net/../net"], "is named twice"),
        (&["net", "--seeds", "3-1"], "names no seeds: write 1-3"),
        (&["net", "--", "--seed", "4"], "--seed is the batch's to say"),
    ] {
        let output = run(arguments);
        assert_eq!(output.code(), 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(text), "{arguments:?}: {}", output.stderr);
    }
    // Programs that end otherwise than expected: complete, and said so.
    let experiment = read(&network.join("gnomon.yaml"));
    fs::write(
        network.join("gnomon.yaml"),
        experiment.replace("start_time: 1 s", "start_time: 1 s, expected_final_state: running"),
    )
    .unwrap();
    let output = run(&["net"]);
    assert_eq!(output.code(), 0, "{}", output.stdout);
    assert!(
        output.stdout.contains("net seed 1: complete, with programs in an unexpected state: see its log"),
        "{}",
        output.stdout
    );
    assert!(read(&network.join("seed-1.log")).contains("unexpected final state"));
    fs::write(network.join("gnomon.yaml"), "general: { stop_time: never }\n").unwrap();
    let output = run(&["net", "--seeds", "1,2"]);
    assert_eq!(output.code(), 1, "{}", output.stdout);
    assert!(output.stdout.contains("net seed 2: failed with status 2"), "{}", output.stdout);
    assert!(output.stderr.contains("is newer than net/seed-1.data"), "{}", output.stderr);
    assert!(network.join("seed-1.data").is_dir() && !network.join("seed-2.data").exists());
    // What no run has written is not removed for one.
    fs::write(network.join("gnomon.yaml"), experiment).unwrap();
    fs::create_dir(network.join("seed-3.data")).unwrap();
    fs::write(network.join("seed-3.data/thesis.txt"), "years of work").unwrap();
    let output = run(&["net", "--seeds", "3"]);
    assert_eq!(output.code(), 1, "{}", output.stdout);
    assert!(output.stdout.contains("'net/seed-3.data' exists, and no run has written it"), "{}", output.stdout);
    assert_eq!(read(&network.join("seed-3.data/thesis.txt")), "years of work");
}
