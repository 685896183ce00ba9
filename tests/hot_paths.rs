//! The hot paths of the simulator take no more instructions than `hot_paths/counts.toml` says.
//!
//! Instructions are counted exactly, by single steps through the release build, with guests and
//! without (`hot_paths/steps.rs`). To see in which functions they are, name a folder:
//!
//!     GNOMON_HOT_PATHS=/tmp/paths cargo test --release --test hot_paths

mod common;
#[path = "hot_paths/parts.rs"]
mod parts;
#[path = "hot_paths/steps.rs"]
mod steps;

use common::{compile_with, folder};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use steps::Counted;

const FIGURES: &str = include_str!("hot_paths/counts.toml");
/// How often each path is taken.
const ROUNDS: u64 = 16;
/// The same for paths that lead to another host and back.
const NETWORK_ROUNDS: u64 = 8;
/// Growth that fails, in percent.
const TOLERANCE: u64 = 3;
/// Growth that fails where another compiler has built the simulator, or another C library serves it, in percent.
const TOLERANCE_OF_OTHERS: u64 = 25;

/// Instructions in each round, by path.
type Rounds = BTreeMap<String, u64>;

/// The instructions of a round: what the marks themselves take is left out.
fn rounds(counted: &Counted, rounds: u64) -> Rounds {
    let sum = |path: &str| counted.paths.get(path).map_or(0, |steps| steps.values().sum::<u64>());
    // Programs that talk over the network take no path that does nothing: their marks count among thousands.
    let marks = sum("nothing");
    let paths = counted.paths.keys().filter(|path| *path != "nothing");
    paths.map(|path| (path.clone(), (sum(path) - marks) / rounds)).collect()
}

fn experiment(path: &str) -> String {
    // Of a connection's end a server hears.
    let end = if path == "udp" { "running" } else { "{exited: 0}" };
    format!(
        "general: {{ stop_time: 20 s, heartbeat_interval: null, parallelism: 1 }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]
        edge [ source 0 target 0 latency \"10 ms\" ]
      ]
hosts:
  server: {{ network_node_id: 0, ip_addr: 10.1.0.1, processes: [{{ path: ./hot_paths, args: 'server {path}', expected_final_state: {end} }}] }}
  client: {{ network_node_id: 0, ip_addr: 10.1.0.2, processes: [{{ path: ./hot_paths, args: 'client {path} {NETWORK_ROUNDS}', start_time: 1 s }}] }}
"
    )
}

/// One host on which calls and looks at clocks take time, as in networks of tor.
fn costed_experiment() -> String {
    format!(
        "general: {{ stop_time: 20 s, heartbeat_interval: null, parallelism: 1, model_unblocked_syscall_latency: true }}
network: {{ graph: {{ type: 1_gbit_switch }} }}
hosts:
  host: {{ network_node_id: 0, processes: [{{ path: ./hot_paths, args: 'costed {ROUNDS}' }}] }}
"
    )
}

#[test]
fn hot_paths_take_no_more_instructions() {
    let folder = folder("hot-paths");
    compile_with("tests/guest-programs/bench/hot_paths.c", &folder, &[]);
    let own = std::env::current_exe().expect("this program");
    let gnomon = env!("CARGO_BIN_EXE_gnomon");
    let mut measured = Rounds::new();
    let mut take = |name: &str, number: u64, arguments: &[&str]| {
        let counted = steps::count(&folder, arguments);
        explain(name, &counted);
        measured.extend(rounds(&counted, number));
    };
    take("alone", ROUNDS, &[gnomon, "exec", "--quiet", "./hot_paths", "alone", &ROUNDS.to_string()]);
    for path in ["udp", "tcp", "bulk"] {
        let _ = fs::remove_dir_all(folder.join(format!("{path}.data")));
        let file = format!("{path}.yaml");
        fs::write(folder.join(&file), experiment(path)).expect("an experiment");
        take(path, NETWORK_ROUNDS, &[gnomon, "run", "--quiet", "--data-directory", &format!("{path}.data"), &file]);
    }
    let _ = fs::remove_dir_all(folder.join("costed.data"));
    fs::write(folder.join("costed.yaml"), costed_experiment()).expect("an experiment");
    take("costed", ROUNDS, &[gnomon, "run", "--quiet", "--data-directory", "costed.data", "costed.yaml"]);
    let own = own.to_str().expect("a path in UTF-8");
    take("parts", parts::ROUNDS, &[own, "--exact", "parts::take_each", "--ignored", "--test-threads=1"]);
    judge(&measured);
}

/// Whether the C library, which the simulator allocates and copies by, is of this version.
fn has_libc(version: &str) -> bool {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("glibc {version}"))
}

/// Whether this compiler has built the simulator, as its debugging information says.
fn built_by(compiler: &str) -> bool {
    let program = fs::read(env!("CARGO_BIN_EXE_gnomon")).expect("the program under test");
    let name = format!("rustc version {compiler} ");
    program.windows(name.len()).any(|part| part == name.as_bytes())
}

/// A line for each path that takes more instructions than its figure and `tolerance` percent of it, or that has no figure.
fn grown(measured: &Rounds, known: &toml::Table, tolerance: u64) -> String {
    let mut lines = String::new();
    for (path, count) in measured {
        let figure = known.get(path).and_then(toml::Value::as_integer).map(|figure| figure as u64);
        if figure.is_none_or(|figure| count * 100 > figure * (100 + tolerance)) {
            let _ = writeln!(lines, "{path}: {count} instructions, {figure:?} in the file");
        }
    }
    lines
}

#[test]
fn growth_beyond_the_tolerance_is_told() {
    let known: toml::Table = "call = 500\npipe = 2000".parse().expect("figures");
    let rounds = |pairs: &[(&str, u64)]| pairs.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect();
    assert_eq!(grown(&rounds(&[("call", 515), ("pipe", 1500)]), &known, 3), "");
    let told = grown(&rounds(&[("call", 516), ("pipe", 2060), ("timer", 1)]), &known, 3);
    assert_eq!(told, "call: 516 instructions, Some(500) in the file\ntimer: 1 instructions, None in the file\n");
}

/// Compares with the figures in the repository.
fn judge(measured: &Rounds) {
    let figures: toml::Table = FIGURES.parse().expect("counts.toml");
    let compiler = figures["compiler"].as_str().expect("a compiler");
    let libc = figures["libc"].as_str().expect("a C library");
    let tolerance = if built_by(compiler) && has_libc(libc) { TOLERANCE } else { TOLERANCE_OF_OTHERS };
    let known = figures["instructions"].as_table().expect("figures");
    for (path, count) in measured {
        println!("{path} = {count}  # {}", known.get(path).map_or("not in the file".to_owned(), ToString::to_string));
    }
    let grown = grown(measured, known, tolerance);
    assert!(measured.len() == known.len(), "a path of tests/hot_paths/counts.toml was not measured");
    assert!(
        grown.is_empty(),
        "hot paths take more than {tolerance} % more instructions than tests/hot_paths/counts.toml says. Make them cheaper again, or \
         change the file in the same commit and state the reason beside the figure:\n{grown}"
    );
}

/// Writes where the instructions were: address in its file, times.
fn explain(name: &str, counted: &Counted) {
    let Some(folder) = std::env::var_os("GNOMON_HOT_PATHS") else { return };
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join(format!("{name}.maps")), &counted.maps).expect("a file");
    for (path, steps) in &counted.paths {
        let lines: String = steps.iter().map(|(address, times)| format!("{address:x} {times}\n")).collect();
        fs::write(folder.join(format!("{name}.{path}.steps")), lines).expect("a file");
    }
}
