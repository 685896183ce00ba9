//! Whether generated Tor networks are what the public one is like: which relays clients take, and over which circuits.

mod common;

use common::tor::{Network, Run};
use common::{folder, read};
use std::collections::{BTreeMap, BTreeSet};

/// Flags of relays by nickname, in the last consensus that an authority published.
fn flags(run: &Run, authority: &str) -> BTreeMap<String, BTreeSet<String>> {
    let consensus = read(&run.data.join("hosts").join(authority).join("cached-consensus"));
    let mut flags = BTreeMap::new();
    let mut name = String::new();
    for line in consensus.lines() {
        let mut words = line.split(' ').map(str::to_owned);
        match words.next().as_deref() {
            Some("r") => name = words.next().expect("a nickname"),
            Some("s") => {
                flags.insert(std::mem::take(&mut name), words.collect());
            }
            _ => {}
        }
    }
    flags
}

/// How many circuits of a client began at each relay, by nickname.
fn first_hops(run: &Run) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in run.clients().iter().flat_map(|host| run.lines(host, "circuit")) {
        let Some(relay) = line["path"][0].as_str().and_then(|relay| relay.split_once('~')) else { continue };
        *counts.entry(relay.1.to_owned()).or_default() += 1;
    }
    counts
}

/// tor takes Stable relays alone as guards, and authorities judge by the median of what has run for how long: relays that started a
/// moment later than others were no guards from the second consensus on.
#[test]
fn relays_stay_stable_and_no_guard_is_unused() {
    let arguments = [
        ["--web-clients", "0"],
        ["--bulk-clients", "0"],
        ["--performance-clients", "15"],
        ["--relay-bandwidth", "50 Mbit"],
        ["--performance-sizes", "50 KiB"],
        ["--voting-interval", "1 min"],
        ["--amount", "endless"],
        ["--duration", "5 min"],
    ];
    let run = Network::new(&folder("tor-model/stable"), arguments.as_flattened()).run(&[]);
    let flags = flags(&run, "authority1");
    let relays = run.hosts_that_are(&["guard", "exit", "guard-exit", "middle"]);
    assert_eq!(relays.len(), 6);
    for relay in relays {
        assert!(flags[relay].contains("Stable"), "{relay}: {:?}", flags[relay]);
    }
    let used = first_hops(&run);
    let guards: Vec<&str> = run.hosts_that_are(&["guard", "guard-exit"]);
    assert!(guards.iter().all(|guard| used.contains_key(*guard)), "{guards:?}: {used:?}");
}

/// The models say when the streams of a circuit begin, so that streams of a flow share one.
#[test]
fn markov_clients_take_a_circuit_for_each_flow() {
    let arguments = [
        ["--web-clients", "0"],
        ["--bulk-clients", "0"],
        ["--performance-clients", "0"],
        ["--markov-clients", "2"],
        ["--users-per-client", "30"],
        ["--amount", "40"],
        ["--duration", "5 min"],
    ];
    let network = Network::new(&folder("tor-model/flows"), arguments.as_flattened());
    // With Conflux a flow has a set of two circuits, and its streams are said to be of the one or the other.
    network.append("template/conf/markov-client.torrc", "ControlPort 127.0.0.1:9051\nConfluxEnabled 0\n");
    // Some streams of the models are silent for longer than a test may last: they are given up, so the client ends with status 1.
    for client in ["markovclient1", "markovclient2"] {
        network.change(&format!("template/hosts/{client}/traffic.yaml"), |text| text.replace("10 min", "1 min"));
        network.change_host(client, "{ exited: 0 }", "{ exited: 1 }");
    }
    network.change_host(
        "markovclient1",
        "    - { <<: *client,",
        "    - { <<: *client, args: [monitor, --events, STREAM], start_time: 70 s, expected_final_state: running }\n    - { <<: *client,",
    );
    let run = network.run(&[]);
    let outputs = run.outputs("markovclient1", "gnomon-traffic");
    let (mut circuits, mut flows) = (BTreeSet::new(), BTreeSet::new());
    let mut streams = 0;
    for line in outputs.iter().flat_map(|text| text.lines()) {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        match line["kind"].as_str() {
            Some("stream") if line["status"] == "SUCCEEDED" => {
                circuits.insert(line["circuit"].as_u64().expect("a circuit"));
                streams += 1;
            }
            Some("transfer") => {
                flows.insert(line["flow"].as_str().expect("a flow").to_owned());
            }
            _ => {}
        }
    }
    println!("{streams} streams of {} flows over {} circuits", flows.len(), circuits.len());
    assert_eq!((streams, circuits.len()), (40, flows.len()), "streams; circuits and flows");
    assert!(flows.len() > 1 && flows.len() < 30, "{} flows", flows.len());
}
