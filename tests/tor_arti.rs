//! Arti, the Tor Project's client in Rust, as clients of private networks of tors and of `gnomon-relay`s with each design of connections: every
//! download is complete, relays warn of nothing that tor's clients do not make them warn of, and runs repeat to the bit.
//!
//! Debian has no package of it, and it takes minutes to compile: `make arti` does, and runs these tests with the program that it made. GNOMON_ARTI is where it is.

mod common;

use common::folder;
use common::tor::{Network, Run};

/// Runs the tiny network with these arguments; the last run.
fn run(name: &str, arguments: &[&str], workers: &[u32]) -> Run {
    let arti = std::env::var("GNOMON_ARTI").unwrap_or_else(|_| "arti".to_owned());
    let arguments = [&["--profile", "tiny", "--arti", &arti], arguments].concat();
    let network = Network::new(&folder(&format!("tor-arti/{name}")), &arguments);
    network.run_alike(workers)
}

#[test]
#[ignore = "needs arti: make arti"]
fn tors_serve_it_and_runs_repeat_with_any_number_of_workers() {
    let run = run("tors", &["--client-kind", "arti"], &[1, 2, 8]);
    for client in run.clients() {
        let log = run.stderr(client, "arti");
        assert!(log.contains("Sufficiently bootstrapped"), "{client}: {log}");
        let is_unusual =
            |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ") && !line.contains("relays, but only");
        assert_eq!(log.lines().find(is_unusual), None, "{client}");
    }
}

#[test]
#[ignore = "needs arti: make arti"]
fn relays_of_each_design_serve_it() {
    for design in ["vanilla", "torchestra", "pctcp", "pctcp-ipsec", "imux"] {
        run(design, &["--client-kind", "arti", "--relay-kind", "gnomon", "--link-design", design], &[1, 2]);
    }
}

#[test]
#[ignore = "needs arti: make arti"]
fn it_stands_beside_clients_of_tor_with_windows_of_a_fixed_size() {
    let arguments =
        ["--client-kind", "arti:webclient1,perfclient2", "--relay-kind", "gnomon", "--congestion-control", "fixed"];
    let run = run("mixed", &arguments, &[1, 2]);
    assert_eq!(run.outputs("webclient1", "arti").len(), 1);
    assert_eq!(run.outputs("webclient1", "tor").len(), 0);
    assert_eq!(run.outputs("webclient2", "tor").len(), 1);
}
