//! Networks that carry nothing say so, and why, in the first line of the run's end and of `gnomon tor status`; those that work say nothing.

mod common;

use common::tor::{Network, Run};
use common::{capture, find_program, folder, gnomon, leave_out};
use serde_json::Value;

/// Relays and clients of both kinds, as few as work.
const SMALL: [&str; 24] = [
    "--guards",
    "2",
    "--middles",
    "1",
    "--exits",
    "1",
    "--guard-exits",
    "0",
    "--servers",
    "1",
    "--web-clients",
    "2",
    "--bulk-clients",
    "0",
    "--performance-clients",
    "0",
    "--amount",
    "endless",
    "--duration",
    "2min",
    "--relay-kind",
    "gnomon:guard1,exit1",
    "--client-kind",
    "gnomon:webclient1",
];

/// The line of a run with this trouble, which must be told alike at its end and as its status. Guests did what was expected of them, so the run
/// itself has not failed.
fn trouble(run: &Run) -> String {
    let status = capture(gnomon().args(["tor", "status"]).arg(&run.data));
    assert_eq!(status.code(), 1, "{}", status.stdout);
    let line = status.stdout.lines().next().expect("a line").to_owned();
    assert!(run.printed.starts_with(&format!("gnomon: {line}\n")), "{line}: {}", run.printed);
    line
}

/// When hosts were bootstrapped first, in seconds, by role.
fn bootstrapped_s(run: &Run, role: &str) -> f64 {
    let status = capture(gnomon().args(["tor", "status", "--json"]).arg(&run.data));
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    let roles = status["roles"].as_array().expect("roles");
    let role = roles.iter().find(|one| one["role"] == role).expect("the role");
    role["bootstrapped_s"]["first"].as_f64().expect("one is bootstrapped")
}

#[test]
fn networks_that_carry_nothing_say_why() {
    if find_program("tor").is_none() {
        return leave_out("there is no tor");
    }
    let network = Network::new(&folder("tor-trouble"), &SMALL);
    let run = network.run(&[]);
    assert!(run.printed.starts_with("done: "), "{}", run.printed);
    assert_eq!(capture(gnomon().args(["tor", "status"]).arg(&run.data)).code(), 0);
    // Relays of ours are there with the consensus that lists them, which is valid after 30 s.
    let first_s = bootstrapped_s(&run, "exit");
    assert!((30.0..45.0).contains(&first_s), "{first_s}");

    network.change("template/conf/exit.torrc", |text| text.replace("ExitPolicy accept", "ExitPolicy reject"));
    let line = trouble(&network.run(&[]));
    assert!(line.starts_with("no circuit was built to a server: "), "{line}");
    assert!(line.contains("'The current consensus has no exit nodes.") && line.contains("(hosts/authority"), "{line}");

    // A parameter that is there twice: tor rejects the votes.
    network.change("template/conf/authority.torrc", |text| {
        let lines = text.lines().map(|line| match line.starts_with("ConsensusParams ") {
            true => format!("{line} cfx_enabled=0\n"),
            false => format!("{line}\n"),
        });
        lines.collect()
    });
    let run = network.run(&[]);
    let line = trouble(&run);
    assert!(
        line.starts_with("no consensus: 3 of 3 authorities wrote 'Duplicate value for \"cfx_enabled=0\""),
        "{line}"
    );
    for relay in ["guard1", "exit1"] {
        let log = run.stdout(relay, "gnomon-relay");
        assert!(!log.contains("Bootstrapped 100%"), "{relay}: {log}");
    }
}
