//! Real programs over wires that lose packets: connections slow down, and none stands still.

mod common;

use common::{compile, folder, run_well, wrote};
use std::fs;

/// Two hosts 50 ms apart, over a wire that loses three packets of a hundred.
const EXPERIMENT: &str = r#"
general: { stop_time: 320 s, data_directory: run.data, seed: SEED }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "50 ms" packet_loss 0.03 ]
        edge [ source 1 target 1 latency "1 ms" ]
      ]
hosts:
  client:
    network_node_id: 0
    ip_addr: 11.0.0.1
    processes:
    - { path: PROGRAM, args: 11.0.0.2 80 300, start_time: 1 s }
  server:
    network_node_id: 1
    ip_addr: 11.0.0.2
    processes:
    - { path: PROGRAM, args: serve 80, expected_final_state: running }
"#;

#[test]
fn exchanges_go_on_for_minutes() {
    for seed in ["1", "2"] {
        let folder = folder(&format!("lossy/{seed}"));
        let program = compile("tests/guest-programs/lossy/exchange.c", &folder);
        let text = EXPERIMENT.replace("PROGRAM", &program.display().to_string()).replace("SEED", seed);
        fs::write(folder.join("lossy.yaml"), text).expect("the experiment's file");
        run_well(&folder, "lossy.yaml", &[]);
        let line = wrote(&folder.join("run.data/hosts"), "client", "stdout");
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [fewest, longest_ms] = numbers[..] else { panic!("{line:?}") };
        println!("seed {seed}: at least {fewest} answers, longest wait {longest_ms} ms");
        // An answer of 14 segments takes two round trips and more where a segment is lost.
        assert!(fewest > 300_000 / 600, "{fewest} answers");
        assert!(longest_ms < 10_000, "a wait of {longest_ms} ms");
    }
}
