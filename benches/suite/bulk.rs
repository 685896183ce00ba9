//! (d): iperf3 for 10 s over a link of 1 Gbit/s and 10 ms.

use crate::Extent;
use crate::measure::{Programs, gnomon, seconds};
use crate::report::{Line, Report, Samples, Target};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const EXPERIMENT: &str = r#"
general: { stop_time: 16 s, heartbeat_interval: null }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gbit" ]
        node [ id 1 host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gbit" ]
        edge [ source 0 target 1 latency "10 ms" ]
      ]
hosts:
  client:
    network_node_id: 0
    processes:
      - { path: iperf3, args: --client server --time 10 --json, start_time: 1 s }
  server:
    network_node_id: 1
    processes:
      - { path: iperf3, args: --server --one-off --json }
"#;

pub fn measure(programs: &Programs, extent: Extent, report: &mut Report) {
    report.section("(d) iperf3 for 10 s over 1 Gbit/s, 10 ms");
    if Command::new("iperf3").arg("--version").output().is_err() {
        report.note("left out: iperf3 is not installed");
        return;
    }
    let file = programs.path("bulk.yaml");
    std::fs::write(&file, EXPERIMENT).expect("a file in the target directory");
    let data = programs.fresh_directory("bulk");
    let mut runs = Vec::new();
    for _ in 0..extent.long_repetitions() {
        let _ = std::fs::remove_dir_all(&data);
        let wall = seconds(gnomon().args(["run", "--quiet", "-d"]).arg(&data).arg(&file));
        let stats = json(&data.join("sim-stats.json"));
        runs.push((wall, goodput_mbit(&data), stats));
    }
    let line = |what: &str, unit, values: Vec<f64>, target| Line {
        what: what.to_owned(),
        unit,
        gnomon: Samples::new(values),
        native: None,
        target,
    };
    report.add(line("wall time", "s", runs.iter().map(|run| run.0).collect(), Target::AtMost(1.5)));
    report.add(line(
        "goodput at the receiver",
        "Mbit/s",
        runs.iter().map(|run| run.1).collect(),
        Target::AtLeast(940.0),
    ));
    let packets = |stats: &Value| stats["gnomon"]["network"]["packets_sent"].as_f64().unwrap_or(f64::NAN);
    let each = runs.iter().map(|run| run.0 * 1e9 / packets(&run.2)).collect();
    report.add(line("wall time per packet", "ns", each, Target::None));
    let digests: Vec<&Value> = runs.iter().map(|run| &run.2["gnomon"]["digest"]).collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "runs of one experiment differ: {digests:?}");
    report.note("No native figure: iperf3 over loopback has neither the link nor its latency. For reference: one OS process per guest");
    report.note("(Shadow 3) needs 6.3 s for these 1.12 GB on a 2-core machine. All runs above gave the same digest.");
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// From the server's own output.
fn goodput_mbit(data: &Path) -> f64 {
    let result = json(&data.join("hosts/server/iperf3.1000.stdout"));
    let goodput = result["end"]["sum_received"]["bits_per_second"].as_f64();
    goodput.expect("iperf3's result") / 1e6
}
