//! `gnomon-onion-client` as the clients of a private network, of unmodified tors and of `gnomon-relay`s: every download is complete, relays
//! warn of nothing that tor's clients do not make them warn of, and runs repeat to the bit.

mod common;

use common::tor::{Network, Run};
use common::{capture, folder, gnomon, read};

/// Runs the tiny network with these arguments; the last run.
fn run(name: &str, arguments: &[&str], workers: &[u32]) -> Run {
    let arguments = [&["--profile", "tiny"], arguments].concat();
    let network = Network::new(&folder(&format!("tor-clients/{name}")), &arguments);
    network.run_alike(workers)
}

#[test]
fn tors_serve_them_as_tors_and_runs_repeat_with_any_number_of_workers() {
    let run = run("tors", &["--client-kind", "gnomon"], &[1, 2, 8]);
    for client in run.clients() {
        let log = run.stdout(client, "gnomon-onion-client");
        assert!(log.contains("Bootstrapped 100% (done): Done"), "{client}: {log}");
        assert!(!log.contains("[warn]"), "{client}: {log}");
    }
    // As its torrc says, what measures takes a guard for each circuit.
    let guards = |client: &str| run.data.join("hosts").join(client).join("gnomon_guards");
    assert_eq!(read(&guards("webclient1")).lines().count(), 3);
    assert!(!guards("perfclient1").exists());
}

#[test]
fn relays_of_gnomon_serve_them() {
    run("relays", &["--client-kind", "gnomon", "--relay-kind", "gnomon"], &[1, 2, 8]);
}

#[test]
fn they_stand_beside_clients_of_tor() {
    let run = run("mixed", &["--client-kind", "gnomon:webclient1,perfclient2", "--congestion-control", "fixed"], &[1]);
    assert_eq!(run.outputs("webclient1", "gnomon-onion-client").len(), 1);
    assert_eq!(run.outputs("webclient1", "tor").len(), 0);
    assert_eq!(run.outputs("webclient2", "tor").len(), 1);
}

#[test]
fn hosts_that_cannot_be_ours_are_refused() {
    let folder = folder("tor-clients/refused");
    for host in ["nobody", "guard1", "server1"] {
        let mut command = gnomon();
        command.args(["tor", "new", "--client-kind", &format!("gnomon:{host}"), "net"]).current_dir(&folder);
        let output = capture(&mut command);
        assert_ne!(output.code(), 0);
        let message = format!("--client-kind: {host} is no client of servers that enters by guards");
        assert!(output.stderr.contains(&message), "{}", output.stderr);
    }
}
