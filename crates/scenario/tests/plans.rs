//! Good experiments: what they mean, and that a written plan reads back.

mod common;

use base::{Bandwidth, ByteSize, HostId, SimDuration, SimTime};
use common::{environment, read, read_with, scratch};
use scenario::{
    Cpus, Environment, FinalState, GraphSource, LogLevel, NetworkModel, OpenFiles, Overrides, Plan, QueueDiscipline,
    StraceMode, load,
};
use std::io::Write;
use std::net::Ipv4Addr;

/// What tools and people write: extension fields, anchors, merge keys, both forms of arguments, several units.
const REAL: &str = r#"
x-common: &process
  path: /bin/sh
  environment: { LANG: C, LEVEL: 3, EMPTY: "" }
  start_time: 1 min
x-relay: &relay
  network_node_id: 5
  bandwidth_up: 81920 Kibit
general:
  stop_time: 30 min
  seed: 0x10
  bootstrap_end_time: 5 min
  heartbeat_interval: null
  log_level: debug
  template_directory: ~
network:
  graph:
    type: gml
    inline: |
      # two nodes
      graph [ directed 0
        node [ id 5 label "here" host_bandwidth_down "100 Mbit" host_bandwidth_up "10 Mbit" ]
        node [ id 9
          host_bandwidth_up "1 Gbit"

          host_bandwidth_down "1 Gbit" ]
        edge [ source 5 target 5 latency "2 ms" ]
        edge [ source 5 target 9 latency "50 ms" jitter "3 ms" packet_loss 0.01 ] ]
  use_shortest_path: true
experimental:
  strace_logging_mode: deterministic
  interface_qdisc: round-robin
  use_sched_fifo: true
  runahead: 2ms
  scheduler: thread-per-core
  socket_send_buffer: 16 KiB
host_option_defaults:
  pcap_capture_size: 100
  log_level: trace
  open_files: 4096
hosts:
  web:
    network_node_id: 9
    ip_addr: 11.0.0.2
    processes:
    - path: sh
      args: [-c, "echo 'two words'", ""]
      expected_final_state: running
    - path: /bin/sh
      args: -c "exit 3" # not an argument
      expected_final_state: { exited: 3 }
    - <<: *process
      start_time: 90
      shutdown_time: 2 min
      shutdown_signal: SIGINT
      expected_final_state: { signaled: 9 }
  relay2:
    <<: *relay
    host_options: { pcap_enabled: true, log_level: null, open_files: 64, qdisc: fq, cpus: 8 }
    processes:
    - *process
  relay10:
    <<: *relay
    bandwidth_down: 5000000
    processes: []
"#;

#[test]
fn a_real_experiment_means_what_it_says() {
    let plan = read(REAL).unwrap();
    assert_eq!(plan.stop_time(), SimTime::ZERO + SimDuration::from_secs(1800));
    assert_eq!(plan.general.seed, 16);
    assert_eq!(plan.general.heartbeat_interval, None);
    assert_eq!(plan.general.log_level, LogLevel::Debug);
    assert_eq!(plan.template_directory, None);
    assert_eq!(plan.data_directory.to_str(), Some("/nonexistent/shadow.data"));
    assert_eq!(plan.experimental.strace_logging_mode, StraceMode::Deterministic);
    assert_eq!(plan.experimental.interface_qdisc, QueueDiscipline::RoundRobin);
    assert_eq!(plan.topology.model(), NetworkModel::Gnomon);
    assert_eq!(plan.experimental.socket_send_buffer.bytes(), 16_384);
    assert_eq!(plan.experimental.socket_recv_buffer.bytes(), 131_072);
    assert_eq!((plan.graph.nodes, plan.graph.edges, plan.graph.directed), (2, 2, false));
    assert!(plan.topology.is_bootstrapping(SimTime::from_nanos(299_999_999_999)));

    let names: Vec<(&str, u32, Ipv4Addr)> = plan.hosts.iter().map(|h| (h.name.as_str(), h.id.0, h.address)).collect();
    assert_eq!(
        names,
        [
            ("relay10", 0, Ipv4Addr::new(11, 0, 0, 1)),
            ("relay2", 1, Ipv4Addr::new(11, 0, 0, 3)),
            ("web", 2, Ipv4Addr::new(11, 0, 0, 2)),
        ]
    );
    let [relay10, relay2, web] = &plan.hosts[..] else { panic!() };
    assert_eq!(relay10.bandwidth_down, Bandwidth::from_bits_per_sec(5_000_000));
    assert_eq!(relay2.bandwidth_down, Bandwidth::from_bits_per_sec(100_000_000));
    assert_eq!(relay2.bandwidth_up, Bandwidth::from_bits_per_sec(81_920 * 1024));
    assert!(relay2.options.pcap_enabled && !web.options.pcap_enabled);
    assert_eq!((relay2.options.log_level, web.options.log_level), (None, Some(LogLevel::Trace)));
    assert_eq!((relay2.options.qdisc, web.options.qdisc), (Some(QueueDiscipline::Fq), None));
    assert_eq!(web.options.pcap_capture_size, ByteSize(100));
    assert_eq!((relay2.options.cpus, web.options.cpus), (Cpus(8), Cpus(1)));
    assert_eq!((relay2.options.open_files, web.options.open_files), (OpenFiles(64), OpenFiles(4096)));

    let path = plan.topology.path(HostId(0), HostId(2));
    assert_eq!((path.latency, path.jitter), (SimDuration::from_millis(50), SimDuration::from_millis(3)));
    assert_eq!(plan.topology.min_latency(), SimDuration::from_millis(2));
    assert_eq!(plan.host_named("web"), Some(web));
    assert_eq!(plan.host_named("nobody"), None);
}

#[test]
fn processes_are_read_in_every_form() {
    let plan = read(REAL).unwrap();
    let web = plan.host_named("web").unwrap();
    let own_name = std::fs::canonicalize("/bin/sh").unwrap().file_name().unwrap().to_owned();
    assert!(web.processes.iter().all(|p| p.executable.ends_with("bin/sh") && p.name.as_str() == own_name));
    assert_eq!(web.processes[0].argv, ["sh", "-c", "echo 'two words'", ""]);
    assert_eq!(web.processes[0].expected_final_state, FinalState::Running);
    assert_eq!(web.processes[1].argv, ["/bin/sh", "-c", "exit 3"]);
    assert_eq!(web.processes[1].expected_final_state, FinalState::Exited(3));
    assert_eq!(web.processes[1].start_time, SimTime::ZERO);
    let third = &web.processes[2];
    assert_eq!(third.start_time.as_nanos(), 90_000_000_000);
    assert_eq!(third.shutdown_time.map(SimTime::as_nanos), Some(120_000_000_000));
    assert_eq!(third.shutdown_signal.to_string(), "SIGINT");
    assert_eq!(third.expected_final_state.to_string(), "{signaled: SIGKILL}");
    let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
    assert_eq!(third.environment, [pair("EMPTY", ""), pair("LANG", "C"), pair("LEVEL", "3")]);
    assert_eq!(plan.host_named("relay2").unwrap().processes[0].start_time.as_nanos(), 60_000_000_000);
}

#[test]
fn options_without_effect_are_noticed_once_when_they_are_set() {
    assert_eq!(
        read(REAL).unwrap().notices,
        [
            "experimental.runahead: 2 ms has no effect here: each host runs ahead by its own smallest incoming latency, and no \
             packet is delayed for it",
            "experimental.use_sched_fifo: true has no effect here: guests are not scheduled by the machine's kernel",
        ]
    );
}

#[test]
fn a_plan_explains_itself() {
    let expected = "\
Simulates 30 min with seed 16, writes to /nonexistent/shadow.data
Network: 2 nodes, 2 undirected edges; smallest latency between hosts 2 ms; no loss and no bandwidth limits in the first 5 min
Hosts: 3, processes: 4
  relay10  11.0.0.1  node 5  5 Mbit down, 83886080 bit up
  relay2  11.0.0.3  node 5  100 Mbit down, 83886080 bit up
    1 min: /bin/sh
  web  11.0.0.2  node 9  1 Gbit down, 1 Gbit up
    0 sec: /bin/sh -c 'echo '\\''two words'\\''' ''; ends as running
    0 sec: /bin/sh -c 'exit 3'; ends as {exited: 3}
    90 sec: /bin/sh; SIGINT at 2 min; ends as {signaled: SIGKILL}
";
    let explained = read(REAL).unwrap().explain();
    assert!(explained.starts_with(expected), "{explained}");
    assert!(explained.ends_with("Notice: experimental.use_sched_fifo: true has no effect here: guests are not scheduled by the machine's kernel\n"));
}

fn again(plan: &Plan) -> Plan {
    read(&plan.processed_config_yaml()).unwrap_or_else(|e| panic!("{e}\n{}", plan.processed_config_yaml()))
}

#[test]
fn a_processed_plan_reads_back_to_itself() {
    let plan = read(REAL).unwrap();
    let second = again(&plan);
    assert_eq!(plan, second);
    assert_eq!(plan.processed_config_yaml(), second.processed_config_yaml());
    let switch = read("general: {stop_time: 1 ns}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts: {\"1\": {network_node_id: 0, processes: }}\n").unwrap();
    assert_eq!(switch.graph.source, GraphSource::OneGbitSwitch);
    assert_eq!(switch, again(&switch));
}

#[test]
fn names_that_do_not_resolve_are_noticed_once() {
    let notices = |names: [&str; 3]| {
        let hosts = names.map(|name| format!("  \"{name}\": {{network_node_id: 0, processes: []}}\n")).concat();
        let head = "general: {stop_time: 1 s}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts:\n";
        read(&format!("{head}{hosts}")).unwrap().notices
    };
    let expected = "hosts.0x7f.1: programs take the name '0x7f.1' for an address and reach the host only by its own \
                    (2 such names); a name with a letter resolves";
    assert_eq!(notices(["1", "0x7f.1", "a1"]), [expected]);
    assert!(notices(["1a", "1.2.3.4.5", "x.1"]).is_empty());
}

#[test]
fn the_command_line_wins_over_the_file() {
    let plan = read_with(
        REAL,
        &[
            ("general.stop_time", "1 h"),
            ("general.seed", "666"),
            ("general.seed", "7"),
            ("host_option_defaults.pcap_enabled", "true"),
            ("host_option_defaults.log_level", "null"),
            ("experimental.use_sched_fifo", "false"),
            ("general.heartbeat_interval", "5 sec"),
        ],
    )
    .unwrap();
    assert_eq!(plan.general.stop_time, SimDuration::from_secs(3600));
    assert_eq!(plan.general.seed, 7);
    assert_eq!(plan.general.heartbeat_interval, Some(SimDuration::from_secs(5)));
    assert!(plan.hosts.iter().all(|h| h.options.pcap_enabled && h.options.log_level.is_none()));
    assert_eq!(plan.notices.len(), 1);
    let required = read_with(
        "general: {}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts: {a: {network_node_id: 0, processes: []}}\n",
        &[("general.stop_time", "3")],
    );
    assert_eq!(required.unwrap().general.stop_time, SimDuration::from_secs(3));
}

#[test]
fn every_option_can_be_overridden_with_its_default() {
    for option in scenario::options().filter(|o| o.path() != "general.stop_time") {
        let plan = read_with(REAL, &[(option.path().as_str(), option.default)]);
        assert!(plan.is_ok(), "{}: {}", option.path(), plan.unwrap_err());
    }
}

#[test]
fn graphs_come_from_files_plain_and_compressed() {
    let dir = scratch("graph-files");
    let gml = "graph [ node [ id 0 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ] edge [ source 0 target 0 latency \"4 ms\" ] ]";
    std::fs::write(dir.join("net.gml"), gml).unwrap();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).unwrap();
    xz.write_all(gml.as_bytes()).unwrap();
    std::fs::write(dir.join("net.gml.xz"), xz.finish().unwrap()).unwrap();
    for file in ["{path: net.gml}", "{path: ~/net.gml, compression: null}", "{path: net.gml.xz, compression: xz}"] {
        let text = format!(
            "general: {{stop_time: 1}}\nnetwork: {{graph: {{type: gml, file: {file}}}}}\nhosts: {{a: &h {{network_node_id: 0, processes: []}}, b: *h}}\n"
        );
        let load = |text: &str| load("exp.yaml", text, &environment(dir.clone()), &Overrides::default()).unwrap();
        let plan = load(&text);
        assert_eq!(plan.topology.min_latency(), SimDuration::from_millis(4), "{file}");
        assert_eq!(plan, load(&plan.processed_config_yaml()));
    }
}

#[test]
fn addresses_skip_the_ends_of_ranges_and_what_is_taken() {
    let mut text = String::from("general: {stop_time: 1}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts:\n");
    for i in 0..300 {
        let address = if i == 299 { ", ip_addr: 11.0.1.7" } else { "" };
        text += &format!("  h{i:03}: {{network_node_id: 0, processes: []{address}}}\n");
    }
    let plan = read(&text).unwrap();
    let octets = |i: usize| plan.hosts[i].address.octets();
    assert_eq!(octets(0), [11, 0, 0, 1]);
    assert_eq!(octets(253), [11, 0, 0, 254]);
    assert_eq!(octets(254), [11, 0, 1, 1]);
    assert_eq!(octets(259), [11, 0, 1, 6]);
    assert_eq!(octets(260), [11, 0, 1, 8]);
    assert_eq!(octets(299), [11, 0, 1, 7]);
}

#[test]
fn hosts_have_ipv6_addresses_where_the_experiment_says_so() {
    let text = |network: &str, host: &str| {
        format!(
            "general: {{stop_time: 1}}\nnetwork: {{graph: {{type: 1_gbit_switch}}{network}}}\nhosts:\n  \
             a: {{network_node_id: 0, processes: []}}\n  b: {{network_node_id: 0, processes: []{host}}}\n"
        )
    };
    let addresses = |text: &str| read(text).unwrap().hosts.iter().map(|host| host.address6).collect::<Vec<_>>();
    let address = |text: &str| Some(text.parse().unwrap());
    assert_eq!(addresses(&text("", "")), [None, None]);
    assert_eq!(addresses(&text(", ipv6: true", "")), [address("fd00::b00:1"), address("fd00::b00:2")]);
    assert_eq!(addresses(&text("", ", ip6_addr: '2001:db8::5'")), [None, address("2001:db8::5")]);
    let both = text(", ipv6: true", ", ip6_addr: '2001:db8::5'");
    assert_eq!(addresses(&both), [address("fd00::b00:1"), address("2001:db8::5")]);
    for (bad, why) in [
        ("'fd00::b00:1'", "fd00::b00:1 already belongs to host 'a'; use another"),
        ("'::1'", "::1 cannot belong to a host; use a unicast address such as fd00::1"),
        ("'::ffff:11.0.0.9'", "::ffff:11.0.0.9 cannot belong to a host; use a unicast address such as fd00::1"),
        ("'fe80::1'", "fe80::1 cannot belong to a host; use a unicast address such as fd00::1"),
        ("11.0.0.9", "'11.0.0.9' is not an IPv6 address; write one such as fd00::1"),
    ] {
        let error = read(&text(", ipv6: true", &format!(", ip6_addr: {bad}"))).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn gnomons_own_programs_come_first_and_the_systems_folders_last() {
    let folder = scratch("own-programs");
    for name in ["gnomon-x", "sh", "server"] {
        std::fs::copy("/bin/true", folder.join(name)).expect("a program");
    }
    let own = Environment { own: Some(folder.clone()), ..environment("/usr".into()) };
    assert_eq!(own.find_executable("gnomon-x"), Ok(folder.join("gnomon-x")));
    assert!(own.find_executable("server").is_err(), "others' names are not looked for beside Gnomon");
    let system = Environment { system: vec![folder.clone()], ..environment("/usr".into()) };
    assert_eq!(system.find_executable("server"), Ok(folder.join("server")));
    assert_eq!(system.find_executable("sh"), Ok("/bin/sh".into()));
}
