//! Every kind of bad experiment ends with a message that names the place, the key, what is wrong and the remedy.

mod common;

use common::{environment, read, read_with, scratch};
use scenario::{Overrides, load, load_file};

const GOOD: &str = "\
general:
  stop_time: 10 s
network:
  graph:
    type: 1_gbit_switch
hosts:
  client:
    network_node_id: 0
    processes:
    - path: sh
      args: -c true
";

fn errors(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err().to_string()
}

/// The errors of the good experiment with one piece of it replaced.
fn replaced(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    errors(&GOOD.replacen(from, to, 1))
}

#[test]
fn the_good_experiment_is_good() {
    read(GOOD).unwrap();
}

#[test]
fn unknown_keys_are_corrected_or_listed() {
    for (from, to, message) in [
        ("stop_time", "stop_tme", "exp.yaml:2:3: general.stop_tme: unknown key; did you mean 'stop_time'?"),
        ("hosts:", "host:", "exp.yaml:6:1: host: unknown key; did you mean 'hosts'?"),
        (
            "path: sh",
            "exe: sh",
            "exp.yaml:10:7: hosts.client.processes[0].exe: unknown key; use one of args, environment, expected_final_state, \
             kill_at_call, path, shutdown_signal, shutdown_time, start_time, user",
        ),
        (
            "    type: 1_gbit_switch",
            "    typ: 1_gbit_switch",
            "exp.yaml:5:5: network.graph.typ: unknown key; did you mean 'type'?",
        ),
        (
            "network:",
            "experimental:\n  use_cpu_pining: true\nnetwork:",
            "exp.yaml:4:3: experimental.use_cpu_pining: unknown key; did you mean 'use_cpu_pinning'?",
        ),
    ] {
        assert_eq!(replaced(from, to), message);
    }
}

#[test]
fn wrong_units_and_values_name_what_is_right() {
    for (from, to, message) in [
        (
            "10 s",
            "10 parsecs",
            "exp.yaml:2:14: general.stop_time: '10 parsecs' is not a time: unknown unit 'parsecs'; use one of ns, us, ms, s \
             (sec), min, h, such as \"10 ms\"",
        ),
        ("10 s", "soon", "exp.yaml:2:14: general.stop_time: 'soon' has no number; write a time such as \"10 ms\""),
        ("10 s", "0", "exp.yaml:2:14: general.stop_time: must be more than 0, such as \"10 min\""),
        ("10 s", "[1]", "exp.yaml:2:14: general.stop_time: expected one value, such as 0 sec, not a list"),
        (
            "    processes",
            "    bandwidth_up: 10 Mbps\n    processes",
            "exp.yaml:9:19: hosts.client.bandwidth_up: '10 Mbps' is not a bandwidth: unknown unit 'Mbps'; use one of bit, \
             Kbit, Mbit, Gbit, Tbit, Kibit, Mibit, Gibit, Tibit, such as \"100 Mbit\"",
        ),
        (
            "    processes",
            "    bandwidth_up: 0 bit\n    processes",
            "exp.yaml:9:19: hosts.client.bandwidth_up: a bandwidth must be more than 0",
        ),
        (
            "network:",
            "  log_level: verbose\nnetwork:",
            "exp.yaml:3:14: general.log_level: 'verbose' is not allowed here; use one of error, warning, info, debug, trace",
        ),
        (
            "network:",
            "  log_level: warn\nnetwork:",
            "exp.yaml:3:14: general.log_level: 'warn' is not allowed here; use one of error, warning, info, debug, trace",
        ),
        (
            "network:",
            "experimental: { interface_qdisc: pfifo-fast }\nnetwork:",
            "exp.yaml:3:34: experimental.interface_qdisc: 'pfifo-fast' is not allowed here; did you mean 'pfifo_fast'?",
        ),
        (
            "network:",
            "experimental: { network_model: shadw }\nnetwork:",
            "exp.yaml:3:32: experimental.network_model: 'shadw' is not allowed here; did you mean 'shadow'?",
        ),
        (
            "network:",
            "host_option_defaults: { qdisc: cake }\nnetwork:",
            "exp.yaml:3:32: host_option_defaults.qdisc: 'cake' is not allowed here; use one of fifo, round-robin, pfifo_fast, fq_codel, fq",
        ),
        (
            "network:",
            "host_option_defaults: { cpus: 257 }\nnetwork:",
            "exp.yaml:3:31: host_option_defaults.cpus: '257' is not a whole number from 1 to 256",
        ),
        ("network:", "  progress: yes\nnetwork:", "exp.yaml:3:13: general.progress: 'yes' is neither true nor false"),
        (
            "network:",
            "  seed: -1\nnetwork:",
            "exp.yaml:3:9: general.seed: '-1' is not a whole number from 0 to 4294967295",
        ),
        (
            "network:",
            "  heartbeat_interval: 0\nnetwork:",
            "exp.yaml:3:23: general.heartbeat_interval: must be at least 1 ns",
        ),
        (
            "type: 1_gbit_switch",
            "type: 1gbit_switch",
            "exp.yaml:5:11: network.graph.type: '1gbit_switch' is not a type of graph; did you mean '1_gbit_switch'?",
        ),
        (
            "args: -c true",
            "args: -c 'true",
            "exp.yaml:11:13: hosts.client.processes[0].args: a quote (') is never closed; add it, or give the arguments as a list",
        ),
        (
            "args: -c true",
            "expected_final_state: {exit: 0}",
            "exp.yaml:11:29: hosts.client.processes[0].expected_final_state: a mapping is no final state; use {exited: 0}, \
             {signaled: SIGKILL} or running",
        ),
        (
            "args: -c true",
            "expected_final_state: {exited: 256}",
            "exp.yaml:11:38: hosts.client.processes[0].expected_final_state.exited: '256' is not an exit status; write \
             a whole number from 0 to 255",
        ),
        (
            "args: -c true",
            "shutdown_signal: TERM",
            "exp.yaml:11:24: hosts.client.processes[0].shutdown_signal: 'TERM' is no signal; did you mean 'SIGTERM'?",
        ),
        (
            "args: -c true",
            "kill_at_call: 0",
            "exp.yaml:11:21: hosts.client.processes[0].kill_at_call: '0' is not the number of a call; write a whole number from 1 on",
        ),
        (
            "args: -c true",
            "start_time: 10 s",
            "exp.yaml:11:19: hosts.client.processes[0].start_time: 10 sec is not before general.stop_time (10 sec); start \
             earlier, or stop later",
        ),
        (
            "args: -c true",
            "shutdown_time: 11",
            "exp.yaml:11:22: hosts.client.processes[0].shutdown_time: 11 sec is not before general.stop_time (10 sec); shut \
             down earlier, or stop later",
        ),
        (
            "args: -c true",
            "start_time: 3\n      shutdown_time: 2",
            "exp.yaml:12:22: hosts.client.processes[0].shutdown_time: 2 sec is not after the process's start_time (3 sec); \
             shut down later",
        ),
        (
            "  client:",
            "  Client:",
            "exp.yaml:7:3: hosts.Client: 'C' is not allowed in a host's name; use a to z, 0 to 9, '-' and '.'",
        ),
    ] {
        assert_eq!(replaced(from, to), message);
    }
}

#[test]
fn hosts_have_names_that_mean_hosts() {
    for name in ["..", ".", "a..b", ".a", "a."] {
        let message = format!("exp.yaml:7:3: hosts.{name}: between its dots a host's name has 1 to 63 characters");
        assert_eq!(replaced("  client:", &format!("  {name}:")), message);
    }
    for name in ["127.0.0.1", "localhost", "ip6-localhost"] {
        let message =
            format!("exp.yaml:7:3: hosts.{name}: '{name}' means an address to programs; give the host another name");
        assert_eq!(replaced("  client:", &format!("  {name}:")), message);
    }
    let long = "a".repeat(64);
    assert!(replaced("  client:", &format!("  {long}:")).contains("1 to 63 characters"));
}

#[test]
fn arguments_and_variables_have_no_nul() {
    const WHY: &str = "a program's arguments and variables end at the character NUL; leave it out";
    let errors = replaced("args: -c true", "args: [\"a\\0b\"]");
    assert!(errors.contains("hosts.client.processes[0].args[0]") && errors.ends_with(WHY), "{errors}");
    let errors = replaced("args: -c true", "args: \"a\\0b\"");
    assert!(errors.contains("hosts.client.processes[0].args") && errors.ends_with(WHY), "{errors}");
    let errors = replaced("args: -c true", "environment: { A: \"x\\0y\" }");
    assert!(errors.contains("hosts.client.processes[0].environment.A") && errors.ends_with(WHY), "{errors}");
}

#[test]
fn sizes_without_use_are_refused() {
    let of_run = |option: &str| replaced("hosts:", &format!("experimental: {{ {option} }}\nhosts:"));
    for (option, least) in
        [("memory_limit: 8", "16 MiB"), ("socket_send_buffer: 0", "1 B"), ("socket_recv_buffer: 0", "1 B")]
    {
        let errors = of_run(option);
        assert!(errors.starts_with("exp.yaml:") && errors.ends_with(&format!("must be at least {least}")), "{errors}");
    }
    let of_host = |size: &str| {
        replaced(
            "  client:",
            &format!(
                "  a: {{ network_node_id: 0, processes: [], host_options: {{ address_space: {size} }} }}\n  client:"
            ),
        )
    };
    assert!(
        of_host("1 MiB").ends_with("hosts.a.host_options.address_space: must be at least 256 MiB"),
        "{}",
        of_host("1 MiB")
    );
    assert!(of_host("128 TiB").ends_with("must be at most 63 TiB"), "{}", of_host("128 TiB"));
    let two = replaced(
        "  client:",
        "  a: { network_node_id: 0, processes: [], host_options: { address_space: 40 TiB } }\n  \
         b: { network_node_id: 0, processes: [], host_options: { address_space: 40 TiB } }\n  client:",
    );
    assert!(two.contains("hosts.b.host_options.address_space: 43980465111040 B are more than the"), "{two}");
}

#[test]
fn missing_parts_are_named() {
    for (from, to, message) in [
        (
            "  stop_time: 10 s\n",
            "  seed: 2\n",
            "exp.yaml:1:1: general.stop_time: 'stop_time' is missing; add it, such as 'stop_time: 10 min'",
        ),
        (
            "    network_node_id: 0\n",
            "",
            "exp.yaml:7:3: hosts.client: 'network_node_id' is missing; add it, such as 'network_node_id: 0'",
        ),
        (
            "type: 1_gbit_switch",
            "type: gml",
            "exp.yaml:5:5: network.graph: type gml needs a graph; add 'inline' with its text, or 'file' with its path",
        ),
    ] {
        assert_eq!(replaced(from, to), message);
    }
    assert_eq!(
        errors("general: {stop_time: 1}\nnetwork: {graph: {type: 1_gbit_switch}}\n"),
        "exp.yaml:1:1: hosts: this section is missing or empty; add it, such as 'hosts: {client: {network_node_id: 0, \
         processes: []}}'"
    );
    assert_eq!(errors(""), "exp.yaml:1:1: the file is empty");
    assert!(errors("- a\n").starts_with("exp.yaml:1:1: expected the sections general, network,"));
}

#[test]
fn missing_programs_are_named() {
    assert_eq!(
        replaced("path: sh", "path: nosuchprogram"),
        "exp.yaml:10:13: hosts.client.processes[0].path: no program 'nosuchprogram' in PATH (/bin:/usr/bin); install it, or \
         give its full path"
    );
    assert_eq!(
        replaced("path: sh", "path: ./build/client"),
        "exp.yaml:10:13: hosts.client.processes[0].path: '/nonexistent/./build/client' does not exist; install or build it, \
         or correct the path"
    );
}

#[test]
fn missing_files_are_named() {
    assert_eq!(
        replaced("type: 1_gbit_switch", "type: gml\n    file:\n      path: atlas.gml"),
        "exp.yaml:7:13: network.graph.file.path: '/nonexistent/atlas.gml' does not exist; correct the path, or make the file"
    );
    assert_eq!(
        replaced("network:", "  template_directory: t\nnetwork:"),
        "exp.yaml:3:23: general.template_directory: '/nonexistent/t' does not exist; name a directory that can be copied"
    );
    let missing = load_file("nosuch.yaml".as_ref(), &environment("/nonexistent".into()), &Overrides::default());
    assert_eq!(missing.unwrap_err().to_string(), "nosuch.yaml: this experiment file does not exist; correct the path");
}

#[test]
fn duplicate_hosts_name_both_lines() {
    assert_eq!(
        replaced("hosts:\n", "hosts:\n  client:\n    network_node_id: 0\n    processes: []\n"),
        "exp.yaml:10:3: 'client' is given twice, first on line 7; rename or remove one"
    );
    assert_eq!(
        replaced(
            "hosts:\n",
            "hosts:\n  a: {network_node_id: 0, ip_addr: 11.0.0.9, processes: []}\n  b: {network_node_id: 0, ip_addr: 11.0.0.9, processes: []}\n"
        ),
        "exp.yaml:8:36: hosts.b.ip_addr: 11.0.0.9 already belongs to host 'a' (line 7); use another"
    );
    assert_eq!(
        replaced("    network_node_id: 0\n", "    network_node_id: 0\n    ip_addr: 127.0.0.1\n"),
        "exp.yaml:9:14: hosts.client.ip_addr: 127.0.0.1 cannot belong to a host; use a unicast address such as 11.0.0.1"
    );
}

fn with_graph(graph: &str) -> String {
    let indented: String = graph.lines().map(|line| format!("      {line}\n")).collect();
    let hosts = "  b:\n    network_node_id: 1\n    processes: []\n";
    GOOD.replacen("type: 1_gbit_switch\n", &format!("type: gml\n    inline: |\n{indented}"), 1) + hosts
}

const BANDWIDTHS: &str = "host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\"";

#[test]
fn bad_gml_is_located_in_the_experiment_file() {
    assert_eq!(
        errors(&with_graph("graph [\n  node [ id 0 ]\n  node [ id x ]\n]")),
        "exp.yaml:9:19: network.graph.inline: expected a number, a string or '[' after 'id' but found the word 'x'"
    );
    assert_eq!(
        errors(&with_graph("\n\ngraph [\n  node [ id x ]\n]")),
        "exp.yaml:10:19: network.graph.inline: expected a number, a string or '[' after 'id' but found the word 'x'"
    );
    assert_eq!(
        errors(&with_graph("# a comment\n\ngraph [\n  node [ id 0 ]\n")),
        "exp.yaml:9:13: network.graph.inline: the '[' of this graph is never closed; add ']'"
    );
    assert_eq!(
        errors(&with_graph(
            "graph [\n  node [ id 0 ]\n  edge [ source 0\n    target 0\n    latency \"10 mss\"\n  ]\n]"
        )),
        "exp.yaml:11:19: network.graph.inline: 'latency': '10 mss' is not a time: unknown unit 'mss'; use one of ns, us, ms, \
         s (sec), min, h, such as \"10 ms\""
    );
}

#[test]
fn bad_gml_is_located_in_its_own_file() {
    let dir = scratch("bad-gml");
    std::fs::write(dir.join("net.gml"), "graph [\n  node [\n    id 0\n    id 1\n  ]\n]\n").unwrap();
    let text = GOOD.replacen("type: 1_gbit_switch", "type: gml\n    file: {path: net.gml}", 1);
    assert_eq!(
        load("exp.yaml", &text, &environment(dir.clone()), &Overrides::default()).unwrap_err().to_string(),
        "net.gml:4:5: network.graph.file: 'id' is given twice (first on line 3); keep one"
    );
    let xz = text.replacen("net.gml", "net.gml, compression: xz", 1);
    let shown = dir.join("net.gml").display().to_string();
    assert_eq!(
        load("exp.yaml", &xz, &environment(dir), &Overrides::default()).unwrap_err().to_string(),
        format!(
            "exp.yaml:6:18: network.graph.file.path: '{shown}' is not compressed with xz; remove 'compression: xz'"
        )
    );
}

#[test]
fn unreachable_and_unknown_nodes_are_named_by_host() {
    let nodes = format!("graph [\n  node [ id 0 {BANDWIDTHS} ]\n  node [ id 1 {BANDWIDTHS} ]\n");
    assert_eq!(
        errors(&with_graph(&format!("{nodes}]"))),
        "exp.yaml:18:22: hosts.b.network_node_id: host 'client' cannot send to host 'b': node 1 cannot be reached from node 0; \
         add edges that connect them"
    );
    assert_eq!(
        replaced("network_node_id: 0", "network_node_id: 7"),
        "exp.yaml:8:22: hosts.client.network_node_id: the graph has no node 7; its nodes are 0"
    );
    let direct = with_graph(&format!("{nodes}  edge [ source 0 target 0 latency \"1 ms\" ]\n]")).replacen(
        "network:\n",
        "network:\n  use_shortest_path: false\n",
        1,
    );
    assert!(
        errors(&direct)
            .ends_with("no edge connects node 0 to node 1; add one, or set network.use_shortest_path to true")
    );
    assert_eq!(
        errors(&with_graph(
            "graph [\n  node [ id 0 ]\n  node [ id 1 ]\n  edge [ source 0 target 1 latency \"1 ms\" ]\n]"
        )),
        "exp.yaml:18:3: hosts.b: no up bandwidth: set 'bandwidth_up' here or 'host_bandwidth_up' on node 1"
    );
}

#[test]
fn a_data_directory_that_exists_is_in_the_way() {
    let dir = scratch("data-directory");
    std::fs::create_dir(dir.join("shadow.data")).unwrap();
    let shown = dir.join("shadow.data").display().to_string();
    let check = |text: &str, overrides: &Overrides| {
        load("exp.yaml", text, &environment(dir.clone()), overrides)
            .unwrap()
            .check_data_directory()
            .map_err(|e| e.to_string())
    };
    let none = Overrides::default();
    let wrong = |place: &str| {
        Err(format!(
            "{place}: general.data_directory: '{shown}' already exists; remove it, or name another with --data-directory"
        ))
    };
    assert_eq!(check(GOOD, &none), wrong("exp.yaml:1:1"));
    assert_eq!(
        check(&GOOD.replacen("network:", "  data_directory: shadow.data\nnetwork:", 1), &none),
        wrong("exp.yaml:3:19")
    );
    let mut named = Overrides::default();
    named.set_path("general.data_directory", "shadow.data").unwrap();
    assert_eq!(check(GOOD, &named), wrong("--data-directory"));
    let mut other = Overrides::default();
    other.set_path("general.data_directory", "new.data").unwrap();
    assert_eq!(check(GOOD, &other), Ok(()));
    std::fs::create_dir(dir.join("template")).unwrap();
    assert_eq!(check(&GOOD.replacen("network:", "  template_directory: template\nnetwork:", 1), &none), Ok(()));
}

#[test]
fn command_line_values_are_checked_and_named_by_their_flag() {
    let error = |path, value| read_with(GOOD, &[(path, value)]).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error("general.stop_time", "0"),
        "--stop-time: general.stop_time: must be more than 0, such as \"10 min\""
    );
    assert_eq!(
        error("host_option_defaults.log_level", "loud"),
        "--host-log-level: host_option_defaults.log_level: 'loud' is not allowed here; use one of error, warning, info, debug, trace"
    );
    assert_eq!(
        error("general.template_directory", "nosuch"),
        "--template-directory: general.template_directory: '/nonexistent/nosuch' does not exist; name a directory that can be copied"
    );
}

#[test]
fn several_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = GOOD.replacen("10 s", "10 x", 1).replacen(
        "path: sh",
        "path: nosuch-1\n    - path: nosuch-2\n    - start_tim: 1",
        1,
    );
    let places: Vec<String> = errors(&text).lines().map(|l| l.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(places, ["exp.yaml:2:14", "exp.yaml:10:13", "exp.yaml:11:13", "exp.yaml:12:7"]);
}

#[test]
fn broken_yaml_is_located() {
    assert!(errors("general:\n  stop_time: 10 s\n bad\n").starts_with("exp.yaml:3:2: not valid YAML: "));
    assert_eq!(errors("a: *none\n"), "exp.yaml:1:4: not valid YAML: while parsing node, found unknown anchor");
}
