//! Relays that go away during a run and come back: real tors that end in order or at once, and start again with what they had.

mod common;

use common::tor::{Network, Run};
use common::{capture, folder, gnomon, read};
use serde_json::Value;

/// When clocks begin: 2000-01-01, in Unix time.
const START: f64 = 946_684_800.0;

/// Outages of relays by host, as the experiment has them.
fn outages(run: &Run) -> Vec<(String, Value)> {
    let network: Value = serde_json::from_str(&read(&run.data.join("tor-network.json"))).expect("JSON");
    let hosts = network["hosts"].as_object().expect("hosts");
    let of = |(name, host): (&String, &Value)| {
        let outages = host["outages"].as_array().cloned().unwrap_or_default();
        outages.into_iter().map(|outage| (name.clone(), outage)).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of).collect()
}

/// When the descriptor was published that the last consensus has of a relay, in seconds, and the relay's flags.
fn in_consensus(run: &Run, relay: &str) -> (f64, String) {
    let consensus = read(&run.data.join("hosts/authority1/cached-consensus"));
    let mut lines = consensus.lines().skip_while(|line| !line.starts_with(&format!("r {relay} ")));
    let time = lines.next().unwrap_or_else(|| panic!("{relay} is in no consensus")).split(' ').nth(5).expect("a time");
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().expect("a number")).collect();
    (3600.0 * parts[0] + 60.0 * parts[1] + parts[2], lines.next().expect("flags").to_owned())
}

fn fingerprint(log: &str) -> &str {
    log.lines()
        .find(|line| line.contains("identity key fingerprint"))
        .expect("a fingerprint")
        .rsplit(' ')
        .next()
        .unwrap()
}

#[test]
fn relays_that_go_away_come_back_as_who_they_were_and_break_what_was_on_them() {
    let arguments = [
        ["--guards", "3"],
        ["--exits", "3"],
        ["--middles", "3"],
        ["--bulk-clients", "4"],
        ["--amount", "endless"],
        ["--voting-interval", "1 min"],
        ["--duration", "6 min"],
        ["--bulk-size", "2 MiB"],
        ["--paths", "varied"],
        ["--churn=10", "--server-addresses"],
    ];
    let network = Network::new(&folder("tor-churn"), arguments.as_flattened());
    let run = network.run(&["--parallelism", "2"]);
    let outages = outages(&run);
    let relays = run.hosts_that_are(&["guard", "exit", "guard-exit", "middle"]);
    assert!(outages.iter().all(|(host, _)| relays.contains(&host.as_str())), "{outages:?}");
    let (mut orderly, mut abrupt, mut back) = (0, 0, 0);
    for relay in relays {
        let own: Vec<&Value> = outages.iter().filter(|(host, _)| host == relay).map(|(_, outage)| outage).collect();
        let logs = run.outputs(relay, "tor");
        for (outage, log) in own.iter().zip(&logs) {
            let is_orderly = matches!(outage["why"].as_str(), Some("restart" | "leave"));
            assert_eq!(log.contains("Clean shutdown finished"), is_orderly, "{relay}: {outage}");
            *(if is_orderly { &mut orderly } else { &mut abrupt }) += 1;
        }
        assert!(logs.iter().all(|log| fingerprint(log) == fingerprint(&logs[0])), "{relay} is another one");
        let Some(until_s) = own.last().and_then(|outage| outage["until_s"].as_f64()) else { continue };
        assert_eq!(logs.len(), own.len() + 1, "{relay}");
        // In time for the consensus of 5 min, whose votes are cast at 4:40.
        if until_s < 270.0 {
            assert!(logs[own.len()].contains("Bootstrapped 100%"), "{relay}: {}", logs[own.len()]);
            let (published_s, flags) = in_consensus(&run, relay);
            assert!(published_s >= until_s, "{relay} came back at {until_s} s: published at {published_s} s");
            assert!(flags.contains("Stable") && flags.contains("Running"), "{relay}: {flags}");
            back += 1;
        }
    }
    println!("{orderly} ended in order, {abrupt} at once; {back} were back in a consensus");
    assert!(orderly > 0 && abrupt > 0 && back > 0, "{orderly}, {abrupt}, {back}");
    let transfers: Vec<Value> = run.clients().iter().flat_map(|host| run.lines(host, "transfer")).collect();
    let failed: Vec<String> = transfers
        .iter()
        .filter(|line| !line["error"].is_null())
        .map(|line| format!("{}: {}", line["error"]["stage"], line["error"]["reason"]))
        .collect();
    println!("{} of {} transfers failed: {failed:?}", failed.len(), transfers.len());
    // What breaks does so when a relay goes, within what it takes the news to come to the client. The experiment has a second for the clean-up
    // of those that end in order.
    let broken = transfers.iter().filter(|line| line["error"]["reason"] == "eof");
    for line in broken {
        let end_s = line["start"].as_f64().expect("a time") - START + line["end"].as_f64().expect("a time");
        let of_relay = outages.iter().map(|(_, outage)| outage["ended_s"].as_f64().expect("a time"));
        let since = of_relay.map(|ended_s| end_s - ended_s).filter(|since| *since > -1.0).fold(f64::MAX, f64::min);
        assert!(since < 5.0, "broken off {since} s after a relay went: {line}");
    }
    assert!(!failed.is_empty() && failed.len() < transfers.len() / 2, "{} of {}", failed.len(), transfers.len());
    let status = capture(gnomon().args(["tor", "status", "--json"]).arg(&run.data));
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!(status["outages"].as_u64(), Some(outages.len() as u64));
    let digest = run.digest();
    assert_eq!(network.run(&["--parallelism", "1"]).digest(), digest);
}
