//! `gnomon-relay` in each position of a private network beside unmodified tor, and as all of its relays: every download is complete, tor
//! warns of nothing that it does not warn of among its own kind, and runs repeat to the bit.

mod common;

use common::tor::Network;
use common::{capture, find_program, folder, gnomon, leave_out, read};
use serde_json::Value;
use std::path::Path;

/// The most that there was at once, if all relays are ours.
#[derive(Debug, Default)]
struct Most {
    /// Channels of guard1 to relays, and their connections.
    channels: u64,
    connections: u64,
    /// Connections of one channel.
    of_channel: u64,
    /// Circuits with congestion control that ended at the first exit.
    controlled: u64,
}

/// Runs the tiny network with these relays as ours.
fn run(name: &str, kind: &str, more: &[&str], workers: &[u32]) -> Most {
    let arguments = [&["--profile", "tiny", "--relay-kind", kind], more].concat();
    let network = Network::new(&folder(&format!("tor-relays/{name}")), &arguments);
    let is_all = kind == "gnomon";
    if is_all {
        for host in ["guard1", "exit1"] {
            network.change_host(host, "-f, torrc", "-f, torrc, --StatisticsFile, statistics");
        }
    }
    let (mut digests, mut most) = (Vec::new(), Most::default());
    for workers in workers {
        let run = network.run(&["--parallelism", &workers.to_string()]);
        let transfers = run.transfers();
        assert!(transfers.len() >= 30, "{kind}: {} downloads", transfers.len());
        let unusual = run.unusual_warnings();
        assert!(unusual.is_empty(), "{kind}: {unusual:?}");
        if is_all {
            let text = read(&run.data.join("hosts/guard1/statistics"));
            assert!(text.lines().count() > 100, "a line each second");
            text.lines().for_each(|line| most.take(line));
            most.controlled = most_of(&run.data, "exit1", "controlled");
        }
        digests.push(run.digest());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{kind}: {digests:?}");
    most
}

impl Most {
    /// Counts a line of statistics.
    fn take(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let by_channel = line["by_channel"].as_array().expect("a list");
        let connections = || by_channel.iter().map(|channel| channel["connections"].as_u64().expect("a number"));
        self.channels = self.channels.max(by_channel.len() as u64);
        self.connections = self.connections.max(connections().sum());
        self.of_channel = self.of_channel.max(connections().max().unwrap_or_default());
    }
}

/// The largest number of that name in a host's statistics, which have a line each second.
fn most_of(data: &Path, host: &str, name: &str) -> u64 {
    let statistics = read(&data.join("hosts").join(host).join("statistics"));
    let number = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line[name].as_u64().expect("a number")
    };
    statistics.lines().map(number).max().expect("a line each second")
}

#[test]
fn guards_lead_clients_in() {
    run("guards", "gnomon:guard1,guard2", &["--scheduler", "vanilla"], &[1]);
}

#[test]
fn middle_relays_and_exits_stand_between_tors() {
    run("exits", "gnomon:middle1,exit1,exit2", &[], &[1]);
}

#[test]
fn a_network_of_them_alone_repeats_with_any_number_of_workers() {
    let shared = run("all", "gnomon", &[], &[1, 2, 8]);
    // One to each of the others, and to authorities: perhaps a second where both ends began.
    assert!((3..=20).contains(&shared.channels), "{shared:?}");
    assert_eq!(shared.of_channel, 1, "{shared:?}");
    assert!(shared.controlled > 0, "clients ask for congestion control as the consensus says");
    let own = run("pctcp", "gnomon", &["--link-design", "pctcp", "--kist-formula", "2014"], &[1, 2]);
    assert!(own.channels > shared.channels, "{own:?} with one for each circuit, {shared:?} without");
    let fair = run("ewma", "gnomon", &["--circuit-scheduler", "ewma"], &[1, 2]);
    assert!((3..=20).contains(&fair.channels), "{fair:?}");
    let fixed = run("fixed", "gnomon", &["--congestion-control", "fixed"], &[1, 2]);
    assert_eq!(fixed.controlled, 0, "windows of a fixed size");
}

/// The first connection of two relays has TLS, and each circuit one without.
#[test]
fn pctcp_without_tls_lets_circuits_through_on_connections_of_their_own() {
    let own = run("pctcp-ipsec", "gnomon", &["--link-design", "pctcp-ipsec"], &[1, 2, 8]);
    assert!(own.channels > 20, "{own:?}");
}

#[test]
fn torchestra_has_two_connections_to_each_relay() {
    for heavy in ["label", "ewma"] {
        let options = ["--link-design", "torchestra", "--torchestra-heavy", heavy, "--circuit-scheduler", "ewma"];
        let most = run(&format!("torchestra-{heavy}"), "gnomon", &options, &[1, 2]);
        assert_eq!(most.of_channel, 2, "{most:?}");
    }
}

#[test]
fn imux_shares_its_sockets_among_channels_by_each_scheduler() {
    for (connections, writing, active) in [
        ("circuit-rr", "vanilla", "opened"),
        ("cell-rr", "vanilla", "label"),
        ("ewma-mapping", "kist", "ewma"),
        ("shortest-queue", "vanilla", "opened"),
        ("kist", "kist", "opened"),
    ] {
        let options = [
            ["--link-design", "imux"],
            ["--connection-scheduler", connections],
            ["--scheduler", writing],
            ["--imux-active", active],
            ["--conn-limit", "64"],
            ["--circuit-scheduler", "ewma"],
        ];
        let workers: &[u32] = if connections == "circuit-rr" { &[1, 2, 8] } else { &[2] };
        let most = run(&format!("imux-{connections}"), "gnomon", options.as_flattened(), workers);
        // Three clients have it as their guard, whose connections count besides.
        assert!(most.of_channel > 2 && most.connections <= 64, "{connections}: {most:?}");
    }
}

/// The largest memory of a run whose relays all have this design, and how many connections they had at its end, both ends counted.
fn memory_and_connections(design: &str) -> (f64, f64) {
    let options = ["--profile", "tiny", "--relay-kind", "gnomon", "--client-kind", "gnomon", "--link-design", design];
    let more = ["--conn-limit", "1024", "--relay-statistics", "statistics"];
    let network = Network::new(&folder(&format!("tor-relays/memory-{design}")), &[&options[..], &more].concat());
    let run = network.run(&["--parallelism", "1"]);
    let stats: Value = serde_json::from_str(&read(&run.data.join("sim-stats.json"))).expect("JSON");
    let hosts = std::fs::read_dir(run.data.join("hosts")).expect("hosts").map(|host| host.expect("a host").path());
    let connections = hosts.filter_map(|host| {
        let text = std::fs::read_to_string(host.join("statistics")).ok()?;
        let last: Value = serde_json::from_str(text.lines().last()?).expect("JSON");
        last["connections"].as_f64()
    });
    (stats["gnomon"]["memory"]["peak_pss_bytes"].as_f64().expect("a number"), connections.sum())
}

#[test]
fn thousands_of_connections_take_little_memory_as_guests() {
    let (few, many) = (memory_and_connections("vanilla"), memory_and_connections("imux"));
    assert!(many.1 > few.1 + 3000.0, "{many:?} beside {few:?}");
    // With the simulated kernel's sockets and what a relay keeps of each.
    let each = (many.0 - few.0) / (many.1 - few.1);
    assert!(each <= 12_000.0, "{each} bytes for each end of a connection");
}

#[test]
fn some_relays_may_have_another_design() {
    let options = ["--link-design", "imux", "--link-design", "pctcp:exit1", "--link-design", "vanilla:middle1"];
    let most = run("mixed", "gnomon", &options, &[1, 2]);
    assert!(most.of_channel > 1, "{most:?}");
}

#[test]
fn a_client_that_reads_slowly_stops_its_stream_and_misses_nothing() {
    if find_program("curl").is_none() {
        return leave_out("curl is needed");
    }
    let arguments = ["--profile", "tiny", "--relay-kind", "gnomon"];
    let network = Network::new(&folder("tor-relays/slow"), &arguments);
    let exits = ["exit1", "exit2", "guardexit1"];
    for exit in exits {
        network.change_host(exit, "-f, torrc", "-f, torrc, --StatisticsFile, statistics");
    }
    // More than the sockets between tor and curl have room for; and the same without tor.
    let slowly = "-q -sS --socks5-hostname 127.0.0.1:9050 --limit-rate 500K -o body http://server1/20MiB";
    for (host, arguments) in [("webclient1", slowly), ("server2", "-q -sS -o body http://server1/20MiB")] {
        let fetch = format!("processes:\n    - {{ path: curl, args: '{arguments}', start_time: 80 s }}");
        network.change_host(host, "processes:", &fetch);
    }
    let run = network.run(&["--parallelism", "1"]);
    let heard: u64 = exits.iter().map(|exit| most_of(&run.data, exit, "xoff_heard")).sum();
    assert!(heard > 0, "no XOFF of a client that reads slowly");
    let body = |host: &str| std::fs::read(run.data.join("hosts").join(host).join("body")).unwrap();
    assert!(body("webclient1") == body("server2"), "what came through tor is something else");
}

#[test]
fn hosts_that_cannot_be_ours_are_refused() {
    let folder = folder("tor-relays/refused");
    for (options, message) in [
        (["--link-design", "imux:authority1"], "--link-design: authority1 runs no gnomon-relay in this network"),
        (["--conn-limit", "7"], "a whole number from 32 on belongs here"),
        (["--link-design", "imux:"], "behind the colon are hosts with commas between them"),
        (["--imux-active", "all"], "'all' is none of opened, ewma, label"),
    ] {
        let mut command = gnomon();
        command.args(["tor", "new", "--relay-kind", "gnomon"]).args(options).arg("net").current_dir(&folder);
        let output = capture(&mut command);
        assert_ne!(output.code(), 0);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
    for host in ["nobody", "authority1", "webclient1"] {
        let mut command = gnomon();
        command.args(["tor", "new", "--relay-kind", &format!("gnomon:{host}"), "net"]).current_dir(&folder);
        let output = capture(&mut command);
        assert_ne!(output.code(), 0);
        let message = format!(
            "--relay-kind: {host} is no guard, middle relay or exit of this network; give names such as guard1"
        );
        assert!(output.stderr.contains(&message), "{}", output.stderr);
    }
}
