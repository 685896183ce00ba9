//! `gnomon-traffic` as a guest: it does what it does natively, and its numbers follow from the network.

mod common;

use common::{digest, folder, read, run_well, tree};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, which cargo leaves beside Gnomon when it builds the workspace.
fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    assert!(path.is_file(), "{} is not there; build it with 'cargo build --release -p traffic'", path.display());
    path
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("'{line}': {error}"))).collect()
}

/// A transfer without what differs from run to run: times.
fn essence(transfer: &Value) -> Vec<String> {
    let keys = ["id", "attempt", "behaviour", "server", "direction", "bytes", "received", "sent", "verified", "error"];
    keys.iter().map(|key| transfer[key].to_string()).collect()
}

fn essences(lines: &[Value]) -> Vec<Vec<String>> {
    let mut all: Vec<_> = lines.iter().filter(|line| line["kind"] == "transfer").map(essence).collect();
    all.sort();
    all
}

struct NativeServer(Child);

impl NativeServer {
    /// Returns the address too.
    fn start() -> (Self, String) {
        let mut command = Command::new(program());
        command.args(["server", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = lines(&line)[0]["listen"][0].as_str().expect("an address").to_owned();
        (NativeServer(child), address)
    }
}

impl Drop for NativeServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every kind of transfer; the address stands for a server on the client's own host.
fn config(address: &str) -> String {
    format!(
        "servers: [\"{address}\"]
seed: 7
behaviours:
  - {{ kind: web, size: 320 KiB, pause: [1 ms, 50 ms], count: 3 }}
  - {{ kind: bulk, size: 1 MiB, count: 2 }}
  - {{ kind: bulk, size: 1 MiB, count: 1, direction: upload, servers: [\"localhost:{port}\"] }}
  - {{ kind: performance, sizes: [50 KiB, 100 KiB], every: 20 ms, count: 4 }}
  - {{ kind: bulk, size: 1 KiB, count: 1, servers: [\"127.0.0.1:1\"] }}
",
        port = address.rsplit(':').next().expect("a port")
    )
}

#[test]
fn transfers_are_those_of_a_native_run() {
    let folder = folder("traffic-native");
    let (_server, address) = NativeServer::start();
    std::fs::write(folder.join("traffic.yaml"), config(&address)).expect("a file");
    let native = Command::new(program()).args(["client", "traffic.yaml"]).current_dir(&folder).output().expect("runs");
    // The last behaviour asks for a server that is not there.
    assert_eq!(native.status.code(), Some(1));
    let native = lines(&String::from_utf8(native.stdout).expect("UTF-8"));

    let experiment = format!(
        "general: {{ stop_time: 60 s }}
network: {{ graph: {{ type: 1_gbit_switch }} }}
hosts:
  host:
    network_node_id: 0
    processes:
      - {{ path: {program}, args: server --listen {address}, expected_final_state: running }}
      - {{ path: {program}, args: client {config}, start_time: 1 s, expected_final_state: {{ exited: 1 }} }}
",
        program = program().display(),
        config = folder.join("traffic.yaml").display()
    );
    std::fs::write(folder.join("gnomon.yaml"), experiment).expect("a file");
    run_well(&folder, "gnomon.yaml", &["--data-directory", "data"]);
    let outputs = tree(&folder.join("data/hosts/host"));
    let output = outputs.iter().find(|(name, _)| name.ends_with("1001.stdout")).expect("the client's output").1;
    let simulated = lines(&String::from_utf8_lossy(output));

    assert_eq!(essences(&native).len(), 11);
    // Transfers that run side by side are numbered in the order in which they happen to begin.
    let without_ids = |lines: &[Value]| {
        let mut all: Vec<_> = essences(lines).into_iter().map(|essence| essence[1..].to_vec()).collect();
        all.sort();
        all
    };
    assert_eq!(without_ids(&simulated), without_ids(&native));
}

const NETWORK: &str = "general: { stop_time: 60 s }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down \"100 Mbit\" host_bandwidth_up \"100 Mbit\" ]
        edge [ source 0 target 0 latency \"25 ms\" ]
      ]
hosts:
";

#[test]
fn times_follow_from_the_network_and_runs_repeat() {
    let folder = folder("traffic-network");
    let program = program();
    let host = |name: &str, args: &str, state: &str| {
        format!(
            "  {name}:\n    network_node_id: 0\n    processes:\n      - {{ path: {}, args: \"{args}\", \
             expected_final_state: {state}, start_time: 1 s }}\n",
            program.display()
        )
    };
    let client = "client --server server --size 20KiB --pause 1,2 --count 5 --seed";
    let hosts = host("server", "server", "running")
        + &host("a", &format!("{client} 1"), "{ exited: 0 }")
        + &host("b", &format!("{client} 2"), "{ exited: 0 }");
    std::fs::write(folder.join("gnomon.yaml"), NETWORK.to_owned() + &hosts).expect("a file");
    for workers in ["1", "2"] {
        run_well(&folder, "gnomon.yaml", &["--parallelism", workers, "--data-directory", workers]);
    }
    assert_eq!(digest(&folder.join("1")), digest(&folder.join("2")));
    let output = |run: &str, host: &str| read(&folder.join(format!("{run}/hosts/{host}/gnomon-traffic.1000.stdout")));
    assert_eq!(output("1", "a"), output("2", "a"));

    let lines = lines(&output("1", "a"));
    let transfers: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "transfer").collect();
    assert_eq!(transfers.len(), 5);
    for pair in transfers.windows(2) {
        let time = |transfer: &Value, key: &str| transfer[key].as_f64().expect("a number");
        let pause = time(pair[1], "start") - time(pair[0], "start") - time(pair[0], "last_byte");
        assert!((1.0..2.002).contains(&pause), "{pause}");
    }
    for transfer in transfers {
        let at = |key: &str| transfer[key].as_f64().expect("a number");
        // A round trip of 50 ms for the handshake, one for the request, one more for what ten segments do not hold.
        assert!((0.050..0.0505).contains(&at("connect")), "{transfer}");
        assert!((0.100..0.1005).contains(&at("first_byte")), "{transfer}");
        assert!((0.150..0.1530).contains(&at("last_byte")), "{transfer}");
    }
}
