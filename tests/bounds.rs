//! What is read has bounds: whatever a user names by mistake ends with a message that names it, in seconds and little memory.

mod common;

use common::{Output, capture, folder};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The memory that reading a mistake may take, in KiB of address space: what a run reserves without using it comes later.
const MEMORY_KIB: u64 = 6 << 20;
const SECONDS: &str = "60";

/// Runs a shell script that starts `$gnomon`, within the bounds.
fn shell(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", SECONDS, "bash", "-c", &format!("ulimit -v {MEMORY_KIB}; {script}")]);
    capture(command.env("gnomon", env!("CARGO_BIN_EXE_gnomon")).current_dir(folder))
}

fn experiment(graph: &str) -> String {
    format!(
        "general: {{stop_time: 1 s}}\nnetwork:\n  graph:\n    {graph}\nhosts: {{a: {{network_node_id: 0, processes: []}}}}\n"
    )
}

/// The run must be refused with all of `parts` in its message.
fn refused(folder: &Path, script: &str, parts: &[&str]) {
    let output = shell(folder, script);
    assert_eq!(output.code(), 2, "{script}: {}", output.stderr);
    for part in parts {
        assert!(output.stderr.contains(part), "{script}: '{part}' is not in: {}", output.stderr);
    }
}

#[test]
fn experiments_are_files_of_a_size() {
    let folder = folder("bounds/experiments");
    refused(&folder, "mkfifo pipe; $gnomon run pipe", &["pipe: is a pipe, not a file; write its content to a file"]);
    refused(&folder, "$gnomon run /dev/zero", &["/dev/zero: is a device, not a file"]);
    refused(&folder, "yes | $gnomon run -", &["standard input: has more than 256 MiB"]);
    refused(&folder, "truncate -s 300M huge.yaml; $gnomon run huge.yaml", &["huge.yaml: has more than 256 MiB"]);
}

#[test]
fn graphs_are_files_of_a_size_even_when_they_were_compressed() {
    let folder = folder("bounds/graphs");
    let write = |name: &str, graph: &str| fs::write(folder.join(name), experiment(graph)).expect("a file");
    write("zero.yaml", "{type: gml, file: {path: /dev/zero}}");
    refused(&folder, "$gnomon run zero.yaml", &["zero.yaml:4:30: network.graph.file.path: '/dev/zero' is a device"]);
    write("pipe.yaml", "{type: gml, file: {path: pipe}}");
    refused(&folder, "mkfifo pipe; $gnomon run pipe.yaml", &["pipe.yaml:4:30: ", "pipe' is a pipe, not a file"]);
    write("bomb.yaml", "{type: gml, file: {path: bomb.xz, compression: xz}}");
    let make = "head -c 256M /dev/zero | xz -0 > part; for i in {1..16}; do cat part; done > bomb.xz; ";
    let script = format!("{make} $gnomon run bomb.yaml");
    refused(&folder, &script, &["bomb.yaml:4:30: ", "bomb.xz' decompressed has more than 1024 MiB"]);
}

#[test]
fn aliases_cannot_multiply_processes_without_end() {
    let folder = folder("bounds/aliases");
    let mut text = experiment("type: 1_gbit_switch").replace("hosts: {a: {network_node_id: 0, processes: []}}\n", "");
    text += "x-0: &l0 {path: /bin/true}\n";
    text += "x-1: &l1 [*l0, *l0, *l0, *l0, *l0, *l0, *l0, *l0, *l0, *l0]\n";
    let thousand = vec!["*l0"; 3000].join(", ");
    text += &format!("x-2: &many [{thousand}]\nhosts:\n");
    for host in 0..3000 {
        text += &format!("  h{host}: {{network_node_id: 0, processes: *many}}\n");
    }
    fs::write(folder.join("x.yaml"), text).expect("a file");
    refused(&folder, "$gnomon run x.yaml", &["x.yaml:", "stand for more than 10000000 values; write fewer of them"]);
}

#[test]
fn tor_networks_and_reports_are_made_from_files() {
    let folder = folder("bounds/tor");
    refused(&folder, "$gnomon tor new --consensus /dev/zero net", &["/dev/zero is a device, not a file"]);
    refused(&folder, "mkfifo pipe; $gnomon tor new --consensus pipe net", &["pipe is a pipe, not a file"]);
    refused(
        &folder,
        "mkdir run.data; mkfifo run.data/tor-network.json; $gnomon tor status run.data",
        &["tor-network.json is a pipe, not a file"],
    );
    let script = "mkdir -p a.data/hosts/h; mkfifo a.data/sim-stats.json a.data/progress.csv a.data/hosts/h/tor.1000.stdout; \
        echo 'general: {stop_time: 10 s}' > a.data/processed-config.yaml; $gnomon report a.data";
    let output = shell(&folder, script);
    assert_eq!(output.code(), 0, "what cannot be read is missing in the report: {}", output.stderr);
}
