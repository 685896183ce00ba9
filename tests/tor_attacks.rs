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

/// What a relay told of itself.
fn statistics(run: &Run, relay: &str) -> Vec<Value> {
    let text = read(&run.data.join("hosts").join(relay).join("statistics"));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// When a line was told, in seconds of simulated time.
fn at(line: &Value) -> f64 {
    line["time"].as_f64().expect("a time").rem_euclid(86_400.0)
}

/// The share of the lines during the attack for which something holds.
fn share(run: &Run, relay: &str, holds: impl Fn(&Value) -> bool) -> f64 {
    let lines = statistics(run, relay);
    let during: Vec<&Value> = lines.iter().filter(|line| (CALM_S..OVER_S).contains(&at(line))).collect();
    during.iter().filter(|line| holds(line)).count() as f64 / during.len() as f64
}

/// The most that a relay had of something: before the attack, during it, and at the end.
fn most(run: &Run, relay: &str, of: impl Fn(&Value) -> f64) -> [f64; 3] {
    let lines = statistics(run, relay);
    let began = at(&lines[0]);
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

/// A client that attacks through the SOCKS port of the one beside it.
fn add_sybils(network: &Network) {
    let sybils = "    - { <<: *onion-client, start_time: 64 s, args: [--hush, --defaults-torrc, ../../conf/client.torrc, -f, torrc, --SocksPort, \"0\", \
         --DataDirectory, sybils, --Socks5Proxy, \"127.0.0.1:9050\", --Attack, sybils, --AttackVictim, guard2, --AttackCount, \"10\", \
         --AttackEvery, \"5\", --AttackStart, \"30\", --AttackStop, \"55\"] }\n    - { <<: *client";
    network.change_host("webclient2", "    - { <<: *client", sybils);
}

#[test]
fn sybils_reach_a_victim_through_tor_itself() {
    let network = attacked("sybils", &["--network-reentry"], "--Log, notice stdout");
    add_sybils(&network);
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

/// The most that the victim had of something before an attack, during it and at the end, with these defences.
fn defended(name: &str, attack: &str, more: &[&str], what: &'static str) -> ([f64; 3], Run) {
    let run = attacked(&format!("defence-{name}"), more, attack).run(&["--parallelism", "2"]);
    (most(&run, "middle1", number(what)), run)
}

#[test]
fn circuits_are_refused_by_the_address_and_by_the_relay_that_they_come_from() {
    let flood = "--Attack, circuits, --AttackVictim, middle1, --AttackCount, 100";
    let ([before, open, _], _) = defended("none", flood, &[], "circuits");
    assert!(open > before + 400.0, "{before}, {open} circuits without defence");

    let dos = ["Enabled=1", "MinConnections=1", "Rate=1", "Burst=10"].map(|end| format!("DoSCircuitCreation{end}"));
    let flags: Vec<&str> = dos.iter().flat_map(|option| ["--defence", option]).collect();
    let network = attacked("defence-address", &flags, flood);
    // What else the attacker's host wants of the network is refused as well.
    network.change_host("webclient2", "expected_final_state: { exited: 0 }", "expected_final_state: running");
    let run = network.run(&["--parallelism", "2"]);
    let [before, by_address, _] = most(&run, "middle1", number("circuits"));
    assert!(
        by_address < before + 0.3 * (open - before),
        "{before}, {by_address} circuits where relays count by address"
    );
    let refused = |relay: &&str| most(&run, relay, number("refused_circuits"))[2];
    let relays = ["guard1", "guard2", "exit1", "exit2", "guardexit1"];
    assert!(relays.iter().map(refused).sum::<f64>() > 100.0, "those that the attacker enters by refuse");

    let flags = ["--defence", "ChannelCircuitRate=1:middle1", "--defence", "ChannelCircuitBurst=15:middle1"];
    let ([before, by_relay, _], _) = defended("relay", flood, &flags, "circuits");
    assert!(by_relay < before + 0.5 * (open - before), "{before}, {by_relay} circuits where it counts by relay");
}

#[test]
fn an_address_has_so_many_connections() {
    let sybils = "--Attack, sybils, --AttackVictim, middle1, --AttackCount, 10";
    let ([before, open, _], _) = defended("connections-none", sybils, &[], "channels");
    assert!(open > before + 40.0, "{before}, {open} channels without defence");
    let flags = ["--defence", "DoSConnectionEnabled=1", "--defence", "DoSConnectionMaxConcurrentCount=5"];
    let ([before, few, _], run) = defended("connections", sybils, &flags, "channels");
    assert!(few <= before + 6.0, "{before}, {few} channels");
    run.transfers();
    // As many as begin at once are too many, too.
    let flags = ["--defence", "DoSConnectionEnabled=1", "--defence", "DoSConnectionConnectBurst=12"];
    let flags = [&flags[..], &["--defence", "DoSConnectionConnectRate=1"]].concat();
    let ([before, few, _], _) = defended("connects", sybils, &flags, "channels");
    assert!(few <= before + 20.0, "{before}, {few} channels");
}

#[test]
fn exits_let_nobody_into_the_network_again() {
    for (name, more) in [("consensus", &[][..]), ("option", &["--network-reentry", "--defence", "NetworkReentry=0"])] {
        let network = attacked(&format!("defence-reentry-{name}"), more, "--Log, notice stdout");
        add_sybils(&network);
        let run = network.run(&["--parallelism", "2"]);
        run.transfers();
        let [before, during, _] = most(&run, "guard2", number("channels"));
        assert!(during <= before + 5.0, "{name}: channels: {before}, {during}");
    }
}

#[test]
fn what_is_idle_is_closed_when_sockets_become_few() {
    let flood = "--Attack, circuits, --AttackVictim, middle1, --AttackCount, 30";
    let few = ["--link-design", "pctcp", "--conn-limit", "96:middle1"];
    // Eight of the 96 are not connections.
    let is_full = |line: &Value| line["connections"].as_f64() == Some(88.0);
    let ([before, full, _], run) = defended("sockets-none", flood, &few, "connections");
    assert!(before < 60.0 && full == 88.0, "{before}, {full} connections without defence");
    let undefended = share(&run, "middle1", is_full);
    let flags = [&few[..], &["--defence", "DisableOOSCheck=0"]].concat();
    let (_, run) = defended("sockets", flood, &flags, "connections");
    // The last socket may be taken when it is counted. It is free again soon.
    let defended = share(&run, "middle1", is_full);
    assert!(defended < undefended / 2.0, "{defended} of the time all sockets are taken, {undefended} without defence");
    assert!(run.stdout("middle1", "gnomon-relay").contains("Sockets were few"));
    run.transfers();
}

#[test]
fn exiting_streams_leave_sockets_to_relays() {
    let streams = "--Attack, streams, --AttackVictim, exit1, --AttackCount, 60, --AttackTarget, \"server1:80\"";
    let few = ["--link-design", "pctcp", "--conn-limit", "96:exit1"];
    // Eight of the 96 are neither connections nor streams.
    let is_full = |line: &Value| number("connections")(line) + number("streams")(line) >= 88.0;
    let full = |name: &str, more: &[&str]| {
        let run =
            attacked(&format!("defence-{name}"), &[&few[..], more].concat(), streams).run(&["--parallelism", "2"]);
        let [_, refused, _] = most(&run, "exit1", number("refused_streams"));
        assert!(refused > 100.0, "{refused} refused streams");
        (share(&run, "exit1", is_full), run)
    };
    let (undefended, _) = full("exits-none", &[]);
    let (defended, run) = full("exits", &["--defence", "RelaysFirst=1"]);
    assert!(
        undefended > 0.2 && defended == 0.0,
        "{defended} of the time no socket is free, {undefended} without defence"
    );
    run.transfers();
}

#[test]
fn puzzles_make_circuits_dear() {
    // A thirtieth of a processor, so that the test has little to compute.
    let flood = "--PuzzleRate, 30000, --Attack, circuits, --AttackVictim, middle1, --AttackCount, 30";
    let flags = ["--defence", "PuzzleEffort=30000:middle1"];
    let ([before, few, _], run) = defended("puzzles", flood, &flags, "circuits");
    assert!(few < before + 60.0, "{before}, {few} circuits; 150 without defence");
    // Who wants few circuits has them.
    run.transfers();
    // Who solves nothing has none.
    let network = attacked("defence-puzzles-unsolved", &[], flood);
    network.change_host("middle1", "-f, torrc", "-f, torrc, --PuzzleEffort, \"30000\"");
    let [_, none, _] = most(&network.run(&["--parallelism", "2"]), "middle1", number("circuits"));
    assert!(none < 5.0, "{none} circuits");
}

#[test]
fn circuits_are_no_longer_than_their_relay_early_cells() {
    let long = "--Attack, circuits, --AttackVictim, middle1, --AttackCount, 10, --AttackHops, 12";
    let ([before, many, _], _) = defended("early-none", long, &["--defence", "MaxRelayEarly=0"], "circuits");
    assert!(many > before + 150.0, "{before}, {many} circuits: each goes through it four times");
    let ([before, few, _], run) = defended("early", long, &[], "circuits");
    assert!(few < before + 60.0, "{before}, {few} circuits");
    assert!(told(&run).contains("0 built"), "{}", told(&run));
}

#[test]
fn handshakes_that_never_end_are_given_up() {
    let silence = "--Attack, handshakes, --AttackVictim, middle1, --AttackCount, 30";
    let forever = ["--defence", "HandshakeTimeout=0"];
    let ([before, many, after], _) = defended("handshakes-none", silence, &forever, "connections");
    assert!(many > before + 130.0 && after < before + 20.0, "connections: {before}, {many}, {after}");
    let ([before, few, _], run) =
        defended("handshakes-time", silence, &["--defence", "HandshakeTimeout=4"], "connections");
    assert!(few < before + 50.0, "connections: {before}, {few}");
    let [calm, refused, _] = most(&run, "middle1", number("refused_connections"));
    assert!(calm < 20.0 && refused > 100.0, "{calm}, {refused} refused connections");
    run.transfers();
    let flags = [&forever[..], &["--defence", "MaxHandshakes=20"]].concat();
    let ([before, few, _], run) = defended("handshakes-count", silence, &flags, "connections");
    assert!(few < before + 35.0, "connections: {before}, {few}");
    let [_, refused, _] = most(&run, "middle1", number("refused_connections"));
    assert!(refused > 100.0, "{refused} refused connections");
    run.transfers();
}
