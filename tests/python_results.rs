//! The Python package `gnomon-results` (`python/`), on runs that are made here.

mod common;

use common::{capture, folder, root, run_well};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two clients and a server; the data directory.
fn run(folder: &Path, seed: u32) -> PathBuf {
    let traffic = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    assert!(traffic.is_file(), "{}: cargo build --release -p traffic", traffic.display());
    let client = folder.join("traffic.yaml");
    fs::write(
        &client,
        "servers: [\"server:80\"]\nbehaviours:\n  - { kind: performance, sizes: [50 KiB, 1 MiB], every: 2 s, count: 10 }\n",
    )
    .unwrap();
    let traffic = traffic.display();
    let mut experiment = format!(
        "general: {{ stop_time: 60 s, seed: {seed} }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down \"20 Mbit\" host_bandwidth_up \"20 Mbit\" ]
        edge [ source 0 target 0 latency \"30 ms\" packet_loss 0.01 ]
      ]
hosts:
  server:
    network_node_id: 0
    processes: [{{ path: {traffic}, args: 'server --listen 0.0.0.0:80', expected_final_state: running }}]
"
    );
    for name in ["client1", "client2"] {
        experiment += &format!(
            "  {name}:\n    network_node_id: 0\n    processes: [{{ path: {traffic}, args: client {}, start_time: 1 s }}]\n",
            client.display()
        );
    }
    let (file, data) = (format!("s{seed}.yaml"), folder.join(format!("s{seed}.data")));
    fs::write(folder.join(&file), experiment).unwrap();
    run_well(folder, &file, &["--data-directory", data.to_str().expect("UTF-8")]);
    data
}

#[test]
fn results_are_data_frames() {
    let folder = folder("python-results");
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-env");
    let output = capture(Command::new(root().join("tools/python-env")).arg(environment));
    if !output.status.success() {
        return common::leave_out(&format!("no Python environment: {}", output.stderr));
    }
    let runs: Vec<String> = (1..=3).map(|seed| run(&folder, seed).display().to_string()).collect();
    let mut tests = Command::new(output.stdout.trim_end());
    tests.arg(root().join("python/tests/test_results.py")).arg("-v");
    tests.env("GNOMON", env!("CARGO_BIN_EXE_gnomon")).env("GNOMON_TEST_RUNS", runs.join(":"));
    tests.env("GNOMON_NOTEBOOK", root().join("examples/notebook/results.ipynb"));
    tests.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&folder);
    let output = capture(&mut tests);
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains("Ran 9 tests"), "{}", output.stderr);
}
