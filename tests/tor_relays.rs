//! `gnomon-relay` in each position of a private network beside unmodified tor, and as all of its relays: every download is complete, tor
//! warns of nothing that it does not warn of among its own kind, and runs repeat to the bit.

mod common;

use common::tor::Network;
use common::{capture, folder, gnomon, read};
use serde_json::Value;

/// What such a network of tors alone makes tor say, which follows from its size.
const OF_SMALL_NETWORKS: [&str; 2] = [
    "Client asked me to extend back to the previous hop",
    "connection_edge_process_relay_cell (away from origin) failed",
];

/// Runs the tiny network with these relays as ours; returns the most channels to relays that guard1 had, if all are ours.
fn run(name: &str, kind: &str, more: &[&str], workers: &[u32]) -> u64 {
    let arguments = [&["--profile", "tiny", "--relay-kind", kind], more].concat();
    let network = Network::new(&folder(&format!("tor-relays/{name}")), &arguments);
    let is_all = kind == "gnomon";
    if is_all {
        network.change_host("guard1", "-f, torrc", "-f, torrc, --StatisticsFile, statistics");
    }
    let (mut digests, mut most) = (Vec::new(), 0);
    for workers in workers {
        let run = network.run(&["--parallelism", &workers.to_string()]);
        let transfers = run.transfers();
        assert!(transfers.len() >= 30, "{kind}: {} downloads", transfers.len());
        let status = capture(gnomon().args(["tor", "status"]).arg(&run.data)).stdout;
        assert!(!status.contains("not there"), "{kind}:\n{status}");
        let mut lines = status.lines().skip_while(|line| !line.starts_with("tor's logs")).skip(1);
        let warnings = lines.by_ref().take_while(|line| !line.starts_with("every such network"));
        let ours = |line: &&str| {
            let is_count = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
            is_count && !OF_SMALL_NETWORKS.iter().any(|usual| line.contains(usual))
        };
        let unusual: Vec<&str> = warnings.filter(ours).collect();
        assert!(unusual.is_empty(), "{kind}: {unusual:?}");
        if is_all {
            most = read(&run.data.join("hosts/guard1/statistics"))
                .lines()
                .map(channels)
                .max()
                .expect("a line each second");
        }
        digests.push(run.digest());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{kind}: {digests:?}");
    most
}

/// To relays, of a line of statistics.
fn channels(line: &str) -> u64 {
    let line: Value = serde_json::from_str(line).expect("JSON");
    line["relays"].as_u64().expect("a number")
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
    assert!((3..=20).contains(&shared), "{shared}");
    let own = run("pctcp", "gnomon", &["--link-design", "pctcp"], &[1, 2]);
    assert!(own > shared, "{own} connections with one for each circuit, {shared} without");
    let fair = run("ewma", "gnomon", &["--circuit-scheduler", "ewma"], &[1, 2]);
    assert!((3..=20).contains(&fair), "{fair}");
}

#[test]
fn hosts_that_cannot_be_ours_are_refused() {
    let folder = folder("tor-relays/refused");
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
