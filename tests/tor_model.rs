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

/// The shares of clients' own circuits that each relay had as first and as last hop, by nickname, and how many circuits there were.
fn shares(run: &Run) -> (BTreeMap<String, [f64; 2]>, usize) {
    let mut counts: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    let mut total = 0;
    for line in run.clients().iter().flat_map(|host| run.lines(host, "circuit")) {
        let purpose = line["purpose"].as_str().expect("a purpose");
        if !(purpose == "GENERAL" || purpose.starts_with("CONFLUX")) || !line["error"].is_null() || line["hops"] != 3 {
            continue;
        }
        total += 1;
        for (place, hop) in [0, 2].into_iter().enumerate() {
            let relay = line["path"][hop].as_str().and_then(|relay| relay.split_once('~')).expect("a relay");
            counts.entry(relay.1.to_owned()).or_default()[place] += 1.0;
        }
    }
    counts.values_mut().flatten().for_each(|count| *count /= total as f64);
    (counts, total)
}

/// tor takes Stable relays alone as guards, and authorities judge by the median of what has run for how long: relays that started a
/// moment later than others were no guards from the second consensus on.
#[test]
fn relays_stay_stable_and_have_circuits_as_their_weights_say() {
    let arguments = [
        ["--web-clients", "0"],
        ["--bulk-clients", "0"],
        ["--performance-clients", "20"],
        ["--guards", "4"],
        ["--exits", "3"],
        ["--performance-sizes", "50 KiB"],
        ["--voting-interval", "1 min"],
        ["--amount", "endless"],
        ["--duration", "6 min"],
    ];
    let run = Network::new(&folder("tor-model/stable"), arguments.as_flattened()).run(&[]);
    let flags = flags(&run, "authority1");
    let relays = run.hosts_that_are(&["guard", "exit", "guard-exit", "middle"]);
    assert_eq!(relays.len(), 9);
    for relay in &relays {
        assert!(flags[*relay].contains("Stable"), "{relay}: {:?}", flags[*relay]);
    }
    let (found, circuits) = shares(&run);
    assert!(circuits > 200, "{circuits} circuits");
    let network: serde_json::Value = serde_json::from_str(&read(&run.data.join("tor-network.json"))).expect("JSON");
    for relay in &relays {
        for (place, position) in [0, 2].into_iter().enumerate() {
            let expected = network["hosts"][*relay]["expected_shares"][position].as_f64().expect("a share");
            let found = found.get(*relay).map_or(0.0, |shares| shares[place]);
            // Three standard deviations of a share that is drawn so often.
            let noise = 3.0 * (expected * (1.0 - expected) / circuits as f64).sqrt() + 0.01;
            println!("{relay} at {position}: {expected:.3} by weight, {found:.3} of {circuits} circuits");
            assert!((found - expected).abs() <= noise, "{relay} at {position}: {found:.3}, by weight {expected:.3}");
        }
    }
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
    network.append("template/conf/markov-client.torrc", "ConfluxEnabled 0\n");
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

/// What an exit sent, in bits a second, while all clients fetch what they can.
fn sent_by_exit(name: &str, more: &[&str]) -> f64 {
    let arguments = [
        ["--guards", "3"],
        ["--exits", "1"],
        ["--guard-exits", "0"],
        ["--middles", "3"],
        ["--web-clients", "0"],
        ["--performance-clients", "0"],
        ["--bulk-clients", "8"],
        ["--relay-bandwidth", "30 Mbit"],
        ["--client-link", "line:200 Mbit:200 Mbit:1 ms"],
        ["--amount", "endless"],
        ["--duration", "2 min"],
    ];
    let arguments = [arguments.as_flattened(), more].concat();
    let run = Network::new(&folder(&format!("tor-model/{name}")), &arguments).run(&[]);
    for relay in run.hosts_that_are(&["guard", "exit", "middle"]) {
        // Within the first minute, so before the load begins.
        let log = run.log(relay);
        let up = log.lines().find(|line| line.contains("Bootstrapped 100%"));
        assert!(up.is_some_and(|line| line.starts_with("Jan 01 00:00:")), "{relay}: {up:?}");
    }
    let table = read(&run.data.join("host-traffic.csv"));
    let columns: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).expect("a column");
    let (time, host, sent) = (column("time_s"), column("host"), column("tx_bytes"));
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
    let seconds = |row: &[&str]| row[time].parse::<f64>().expect("a time");
    let its = rows.filter(|row| row[host] == "exit1" && seconds(row) > 90.0);
    its.map(|row| row[sent].parse::<f64>().expect("bytes")).sum::<f64>() * 8.0 / 30.0
}

/// With few busy connections a call does more than among the many of a loaded network, for which its length is made. With the length of calls that suits other
/// relays, an exit sends more than half of its line.
#[test]
fn overloaded_relays_come_up_and_carry_less_than_their_line() {
    let usual = sent_by_exit("usual", &[]);
    let slow = sent_by_exit("overloaded", &["--overloaded", "1"]);
    println!("{:.1} Mbit/s of 30, with slow processors {:.1}", usual / 1e6, slow / 1e6);
    assert!(usual > 22e6, "{usual}");
    assert!((3e6..usual * 0.5).contains(&slow), "{slow}, {usual}");
}
