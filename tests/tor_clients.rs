//! `gnomon-onion-client` as the clients of a private network, of unmodified tors and of `gnomon-relay`s: every download is complete, relays
//! warn of nothing that tor's clients do not make them warn of, and runs repeat to the bit.

mod common;

use common::tor::{Network, Run};
use common::{capture, find_python, folder, gnomon, leave_out, read, root};
use serde_json::Value;
use std::path::Path;

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
fn windows_hold_whatever_programs_do_and_all_end_in_peace() {
    let Some(python) = find_python() else { return leave_out("a python3 is needed") };
    let arguments = [
        "--profile",
        "tiny",
        "--client-kind",
        "gnomon",
        "--relay-kind",
        "gnomon",
        "--duration",
        "170s",
        "--amount",
        "endless",
    ];
    let network = Network::new(&folder("tor-clients/windows"), &arguments);
    let program = root().join("tests/tor/windows.py");
    let python_name = Path::new(&python).file_name().expect("a program").to_string_lossy().into_owned();
    for (host, what, start, state) in [
        ("server1", "serve", "1 s", "running"),
        ("webclient1", "early", "80 s", "{ exited: 0 }"),
        ("webclient2", "stuck", "80 s", "{ exited: 0 }"),
    ] {
        let process = format!(
            "processes:\n    - {{ path: {python}, args: [-u, {}, {what}], start_time: {start}, expected_final_state: {state} }}",
            program.display()
        );
        network.change_host(host, "processes:", &process);
    }
    let exits = ["exit1", "exit2", "guardexit1"];
    exits.iter().for_each(|exit| network.change_host(exit, "-f, torrc", "-f, torrc, --StatisticsFile, statistics"));
    // One in 30 s, the others at once.
    for (host, kind, signal) in
        [("guard2", "relay", "SIGINT"), ("middle1", "relay", "SIGTERM"), ("webclient2", "onion-client", "SIGINT")]
    {
        let ends =
            format!("*{kind}, shutdown_time: 135 s, shutdown_signal: {signal}, expected_final_state: {{ exited: 0 }},");
        network.change_host(host, &format!("*{kind},"), &ends);
    }
    let run = network.run(&["--parallelism", "1"]);
    assert_eq!(run.outputs("webclient1", &python_name).concat(), "60 echoed\n");
    assert_eq!(run.outputs("webclient2", &python_name).concat(), "closed\n");
    // Streams to a destination that reads nothing end soon after their client's end.
    let streams = |exit: &str| -> Vec<u64> {
        let statistics = read(&run.data.join("hosts").join(exit).join("statistics"));
        let number =
            |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["streams"].as_u64().expect("a number");
        statistics.lines().map(number).collect()
    };
    let left: u64 = exits.iter().filter_map(|exit| streams(exit).last().copied()).sum();
    assert!(left < 3, "{left} streams are left at the end");
    for (host, program, said) in [
        ("guard2", "gnomon-relay", "will shut down in 30 seconds"),
        ("middle1", "gnomon-relay", "Catching signal SIGTERM, exiting cleanly."),
        ("webclient2", "gnomon-onion-client", "Catching signal SIGINT, exiting cleanly."),
    ] {
        assert!(run.stdout(host, program).contains(said), "{host}");
    }
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
