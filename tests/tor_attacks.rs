//! Attacks on a relay of a tiny network (`docs/attacks.md`), each seen in what the relay says of itself: what grows while it lasts, what does not,
//! and that it is over afterwards.

mod common;

use common::folder;
use common::read;
use common::tor::{Network, Run};
use serde_json::Value;

/// Until when there is calm, and from when on again, in seconds of simulated time: the attacker starts after 49 s.
const CALM_S: f64 = 80.0;
const OVER_S: f64 = 125.0;
/// As options of that client.
const TIMES: &str = "--AttackEvery, 5, --AttackStart, 35, --AttackStop, 60";

/// A network whose relays are Gnomon's and tell of themselves; its second web client attacks with these options.
fn attacked(name: &str, more: &[&str], attack: &str) -> Network {
    let own = ["--relay-kind", "gnomon", "--client-kind", "gnomon", "--relay-statistics", "statistics"];
    let arguments = [&["--profile", "tiny"], &own[..], more].concat();
    let network = Network::new(&folder(&format!("tor-attacks/{name}")), &arguments);
    network.change_host("webclient2", "-f, torrc", &format!("-f, torrc, {attack}, {TIMES}"));
    network
}

/// The most that a relay had of something: before the attack, during it, and at the end.
fn most(run: &Run, relay: &str, of: impl Fn(&Value) -> f64) -> [f64; 3] {
    let text = read(&run.data.join("hosts").join(relay).join("statistics"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let began = lines[0]["time"].as_f64().expect("a time").rem_euclid(86_400.0);
    let at = |line: &Value| line["time"].as_f64().expect("a time").rem_euclid(86_400.0);
    assert!(
        began < CALM_S && lines.last().is_some_and(|line| at(line) > OVER_S + 30.0),
        "{relay}: {} lines",
        lines.len()
    );
    let most =
        |from: f64, to: f64| lines.iter().filter(|line| (from..to).contains(&at(line))).map(&of).fold(0.0, f64::max);
    [most(0.0, CALM_S), most(CALM_S, OVER_S), most(OVER_S + 20.0, f64::INFINITY)]
}

fn number(name: &'static str) -> impl Fn(&Value) -> f64 {
    move |line| line[name].as_f64().expect("a number")
}

fn told(run: &Run) -> String {
    run.stdout("webclient2", "gnomon-onion-client")
}

#[test]
fn circuits_take_a_victims_sockets_where_each_has_connections_of_its_own() {
    let flood = "--Attack, circuits, --AttackVictim, middle1, --AttackCount, 30";
    let network = attacked("circuits", &[], flood);
    let shared = network.run(&["--parallelism", "1"]);
    shared.transfers();
    let [before, during, after] = most(&shared, "middle1", number("circuits"));
    assert!(before < 50.0 && during > 130.0 && after < 80.0, "circuits: {before}, {during}, {after}");
    let [_, sockets, _] = most(&shared, "middle1", number("descriptors"));
    assert!(sockets < 60.0, "{sockets} descriptors");
    let again = network.run(&["--parallelism", "2"]);
    assert_eq!(again.digest(), shared.digest());

    let own = attacked("circuits-pctcp", &["--link-design", "pctcp"], flood).run(&["--parallelism", "2"]);
    own.transfers();
    let [before, during, after] = most(&own, "middle1", number("descriptors"));
    assert!(during > before + 150.0 && after < before + 80.0, "descriptors: {before}, {during}, {after}");
    assert!(told(&own).contains("Attack: it is over."), "{}", told(&own));
}

#[test]
fn a_tor_makes_such_circuits_by_its_control_port() {
    let arguments = ["--profile", "tiny", "--relay-kind", "gnomon", "--relay-statistics", "statistics"];
    let network = Network::new(&folder("tor-attacks/control-port"), &arguments);
    let flood = "    - { path: gnomon-traffic, args: [flood, --victim, middle1, --count, \"20\", --every, 5 s, --start, 10 s, --stop, 40 s], \
                 start_time: 80 s }\n    - { <<: *client";
    network.change_host("perfclient1", "    - { <<: *client", flood);
    let run = network.run(&["--parallelism", "2"]);
    // What tor says of their end it says with the next cell on each connection, which may be long after.
    let [before, during, _] = most(&run, "middle1", number("circuits"));
    assert!(before < 50.0 && during > before + 80.0, "circuits: {before}, {during}");
    let outputs = run.outputs("perfclient1", "gnomon-traffic");
    let flood = outputs.iter().find(|text| text.contains("\"kind\":\"circuits\"")).expect("what the flood says");
    let last = flood.lines().rfind(|line| line.contains("\"kind\":\"circuits\"")).expect("a line");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((last["begun"].as_u64(), last["refused"].as_u64()), (Some(120), Some(0)), "{last}");
    assert_eq!(last["failed"], last["begun"], "all are closed: {last}");
    assert!(last["built"].as_u64() >= Some(100), "{last}");
}

#[test]
fn sybils_reach_a_victim_through_tor_itself() {
    let network = attacked("sybils", &[], "--Log, notice stdout");
    // Beside the client whose SOCKS port they use.
    let sybils = "    - { <<: *onion-client, start_time: 64 s, args: [--hush, --defaults-torrc, ../../conf/client.torrc, -f, torrc, --SocksPort, \"0\", \
         --DataDirectory, sybils, --Socks5Proxy, \"127.0.0.1:9050\", --Attack, sybils, --AttackVictim, guard2, --AttackCount, \"10\", \
         --AttackEvery, \"5\", --AttackStart, \"30\", --AttackStop, \"55\"] }\n    - { <<: *client";
    network.change_host("webclient2", "    - { <<: *client", sybils);
    let run = network.run(&["--parallelism", "2"]);
    run.transfers();
    let [before, during, after] = most(&run, "guard2", number("channels"));
    assert!(during > before + 30.0 && after < before + 10.0, "channels: {before}, {during}, {after}");
    let [before, during, _] = most(&run, "guard2", number("descriptors"));
    assert!(during > before + 30.0, "descriptors: {before}, {during}");
}

#[test]
fn idle_streams_take_an_exits_sockets() {
    let streams = "--Attack, streams, --AttackVictim, exit1, --AttackCount, 60, --AttackTarget, \"server1:80\"";
    let run = attacked("streams", &[], streams).run(&["--parallelism", "2"]);
    run.transfers();
    let [before, during, after] = most(&run, "exit1", number("streams"));
    assert!(before < 30.0 && during > 250.0 && after < 50.0, "streams: {before}, {during}, {after}");
    let [before, during, _] = most(&run, "exit1", number("descriptors"));
    assert!(during > before + 200.0, "descriptors: {before}, {during}");
}

#[test]
fn circuits_that_send_a_little_count_as_active() {
    let active = "--Attack, active, --AttackVictim, middle1, --AttackCount, 20";
    let imux = ["--link-design", "imux", "--imux-active", "ewma", "--conn-limit", "64", "--circuit-scheduler", "ewma"];
    let network = attacked("active", &imux, active);
    // A circuit passes the mark after 77 s.
    network.change("gnomon.yaml", |text| {
        text.replace("--AttackStart, 35, --AttackStop, 60", "--AttackStart, 30, --AttackStop, 120")
    });
    let run = network.run(&["--parallelism", "2"]);
    run.transfers();
    let text = read(&run.data.join("hosts/middle1/statistics"));
    let active = |line: &str| -> u64 {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let channels = line["by_channel"].as_array().expect("a list").clone();
        channels.iter().map(|channel| channel["active"].as_u64().expect("a number")).max().unwrap_or(0)
    };
    let most = text.lines().map(active).max().expect("a line");
    assert!(most >= 20, "{most} active circuits of one channel");
}
