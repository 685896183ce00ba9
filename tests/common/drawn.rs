//! Experiments drawn from a seed: graph, hosts, programs, starts, ends.

use super::{find_program, find_python, root};
use base::{Rng, SeedTree};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// One of the elements.
fn pick<'a, T>(draw: &mut Rng, from: &'a [T]) -> &'a T {
    &from[draw.below(from.len() as u64) as usize]
}

/// A connected graph: a ring with some chords.
fn graph(draw: &mut Rng, nodes: u64) -> String {
    let mut text =
        "network:\n  use_shortest_path: true\n  graph:\n    type: gml\n    inline: |\n      graph [\n".to_owned();
    let edge = |draw: &mut Rng, from, to| {
        let loss = if draw.below(3) == 0 { " packet_loss 0.01" } else { "" };
        let latency = 500 + draw.below(30_000);
        format!("        edge [ source {from} target {to} latency \"{latency} us\"{loss} ]\n")
    };
    let mut edges = String::new();
    for node in 0..nodes {
        let (down, up) = (5 + draw.below(200), 2 + draw.below(100));
        let _ = writeln!(
            text,
            "        node [ id {node} host_bandwidth_down \"{down} Mbit\" host_bandwidth_up \"{up} Mbit\" ]"
        );
        edges += &edge(draw, node, node);
        if node > 0 {
            edges += &edge(draw, node - 1, node);
        }
    }
    if nodes > 2 {
        edges += &edge(draw, nodes - 1, 0);
    }
    text + &edges + "      ]\n"
}

/// An experiment. Programs lie at fixed addresses (python3), fork, compute, end early and are killed.
pub fn experiment(seed: u64) -> String {
    let draw = &mut SeedTree::new(seed).stream("", "experiment");
    let nodes = 1 + draw.below(8);
    let stop = 8 + draw.below(10);
    let calls_take_time = draw.below(3) == 0;
    let mut text = format!(
        "general: {{ stop_time: {stop} s, seed: {seed}, data_directory: run.data, template_directory: template, \
         model_unblocked_syscall_latency: {calls_take_time} }}\n"
    );
    text += &graph(draw, nodes);
    text += "hosts:\n";
    let mut host = |draw: &mut Rng, name: &str, processes: &[String]| {
        let _ = writeln!(text, "  {name}:\n    network_node_id: {}\n    processes:", draw.below(nodes));
        for process in processes {
            let start = draw.below(3_000);
            let end = if draw.below(4) == 0 {
                format!(", shutdown_time: {} ms", 4_000 + draw.below(4_000))
            } else {
                String::new()
            };
            let _ = writeln!(text, "    - {{ {process}, start_time: {start} ms{end} }}");
        }
    };
    let gossips = draw.below(9) + 2;
    // Debian's own lies at fixed addresses.
    let debians = Some("/usr/bin/python3".to_owned()).filter(|python| Path::new(python).is_file());
    let pythons: Vec<String> = [debians, find_python()].into_iter().flatten().collect();
    if !pythons.is_empty() && draw.below(4) > 0 {
        for number in 0..gossips {
            let python = pick(draw, &pythons);
            let shell = draw.below(3) == 0;
            let script = root().join("tests/workers/gossip.py");
            let command = format!("\"{}\" {number} {gossips} {stop}", script.display());
            // By way of a shell, the program is replaced in the midst of its turn.
            let process = if shell {
                format!("path: bash, args: ['-c', 'exec {python} {command}']")
            } else {
                format!("path: {python}, args: '{command}'")
            };
            host(draw, &format!("gossip{number}"), &[process]);
        }
    }
    let nginx = find_program("nginx").expect("nginx: tools/install-packages test").display().to_string();
    host(draw, "web", &[format!("path: {nginx}, args: -p . -c nginx.conf -e error.log")]);
    let shell = "for n in 1 2 3 4 5 6; do curl -q -s -S -m 4 -o body$n http://web/page; sleep 0.$n & wait; cksum body$n | cat; done";
    for number in 0..1 + draw.below(5) {
        let more = [
            "path: curl, args: -q -s -S -m 5 -o body http://web/page".to_owned(),
            "path: dash, args: ['-c', 'for n in 1 2 3 4; do (sleep 0.$n; kill -USR1 $$) & done; trap \"echo told\" USR1; wait; wait; wait']".to_owned(),
            "path: perl, args: ['-e', 'srand; for (1..2e5) { $x += rand } print $x']".to_owned(),
            "path: iperf3, args: --server --one-off".to_owned(),
            format!("path: iperf3, args: --client client0 --time 2 --connect-timeout {}", 500 + draw.below(3_000)),
        ];
        let mut processes = vec![format!("path: bash, args: ['-c', '{shell}']")];
        processes.extend((0..draw.below(3)).map(|_| pick(draw, &more).clone()));
        host(draw, &format!("client{number}"), &processes);
    }
    text
}

/// Writes `experiment.yaml` and what it needs into a folder.
pub fn set_up(seed: u64, folder: &Path) {
    let web = folder.join("template/hosts/web");
    fs::create_dir_all(web.join("www")).unwrap();
    let page: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    fs::write(web.join("www/page"), page).unwrap();
    fs::copy(root().join("examples/web-demo/template/hosts/nginx/nginx.conf"), web.join("nginx.conf")).unwrap();
    fs::write(folder.join("experiment.yaml"), experiment(seed)).unwrap();
}
