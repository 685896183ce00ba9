//! `examples/tor-bridges-onions`: clients enter through a bridge that speaks obfs4, which tor starts by fork and exec as a program of its
//! own, or visit an onion service; every download succeeds, and all of it repeats to the bit.

mod common;

use common::tor::{Network, Run};
use common::{capture, find_program, folder, read, tree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Segments that begin as a TLS handshake does: the record's type 22 and version 3.1 (RFC 8446 section 5.1).
const CLIENT_HELLO: &str = "tcp[((tcp[12] & 0xf0) >> 2):4] & 0xffffff00 = 0x16030100";

const PAGE: &str = "a page behind Tor\n";

fn network() -> Network {
    let network = Network::new(&folder("tor-bridges-onions"), &["--profile", "bridges-onions"]);
    for client in ["bridgeclient1", "webclient1"] {
        network.change_host(client, "    processes:", "    host_options: { pcap_enabled: true }\n    processes:");
    }
    add_torsocks(&network);
    network
}

/// Another server, and a curl that knows nothing of Tor and comes to it by torsocks, which is preloaded into it.
fn add_torsocks(network: &Network) {
    let server = "    - { <<: *server, start_time: 1000 ms }\n";
    let pages = "    - { path: python3, args: -m http.server 8080, start_time: 1 s, expected_final_state: running }\n";
    network.change_host("server1", server, &format!("{server}{pages}"));
    let curl = find_program("curl").expect("curl: tools/install-packages test").display().to_string();
    let arguments = format!("{curl} -sS http://server1:8080/page");
    let curl = format!(
        "    processes:\n    - {{ path: torsocks, args: {arguments}, start_time: 120 s, environment: {{ PATH: \"/usr/bin:/bin\" }} }}\n"
    );
    network.change_host("webclient1", "    processes:\n", &curl);
    let folder = network.folder.join("template/hosts/server1");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("page"), PAGE).unwrap();
}

#[test]
fn bridges_and_onion_services_serve_every_client() {
    let network = network();
    let run = network.run(&[]);
    assert_eq!(run.tors().len(), 16);
    for host in run.tors() {
        assert!(run.log(host).contains("Bootstrapped 100% (done): Done"), "{host}:\n{}", run.log(host));
    }
    let transfers = run.transfers();
    assert!(transfers.len() >= 30, "{}", transfers.len());
    assert_eq!(run.clients().len(), 5);
    for client in run.clients() {
        assert!(transfers.iter().filter(|transfer| transfer.host == client).count() >= 5, "{client}");
    }
    let stats = run.stats();
    assert_eq!(stats["gnomon"]["interception"]["unsupported"], serde_json::json!({}), "programs call what there is");
    assert!(stats["syscalls"]["execve"].as_u64() >= Some(2), "an obfs4proxy on each side");

    assert_eq!(read(&run.data.join("hosts/webclient1/torsocks.1004.stdout")), PAGE, "curl by torsocks");
    // By the name of the file that python3 is on this machine.
    let outputs = tree(&run.data.join("hosts/server1"));
    let of_python = |(name, _): &(&String, &Vec<u8>)| name.starts_with("python3") && name.ends_with(".stderr");
    let requests = outputs.iter().find(of_python).map(|(_, content)| String::from_utf8_lossy(content).into_owned());
    let requests = requests.expect("what the server says");
    let from = requests.split(' ').next().unwrap_or_default();
    let experiment = read(&network.file("gnomon.yaml"));
    let (before, _) = experiment.split_once(&format!("ip_addr: {from}\n")).expect("the address of a host");
    let host = before.lines().rev().find(|line| line.ends_with(':')).unwrap_or_default().trim();
    assert!(host.contains("exit"), "the request comes from an exit, not {host}");
    assert_bridged(&run);
    assert_onion(&run);
    let (digest, files) = (run.digest(), run.files());
    let again = network.run(&["--parallelism", "1"]);
    let other = again.files();
    for (name, content) in &files {
        assert!(other.get(name) == Some(content), "{name} differs with one worker");
    }
    assert_eq!((digest, files.len()), (again.digest(), other.len()), "with one worker");
}

/// The client enters through the bridge alone, by obfs4.
fn assert_bridged(run: &Run) {
    assert!(run.log("bridge1").contains("Registered server transport 'obfs4'"), "{}", run.log("bridge1"));
    let circuits = run.lines("bridgeclient1", "circuit");
    assert!(circuits.len() >= 6, "{}", circuits.len());
    for circuit in circuits {
        assert!(circuit["path"][0].as_str().is_some_and(|first| first.ends_with("~bridge1")), "{circuit}");
    }
    let torrc = read(&run.data.join("hosts/bridgeclient1/torrc"));
    let bridge = torrc.lines().find_map(|line| line.strip_prefix("Bridge obfs4 ")).expect("a bridge line");
    let (address, port) = bridge.split(' ').next().and_then(|address| address.split_once(':')).expect("an address");
    let file = run.data.join("hosts/bridgeclient1/eth0.pcap");
    let to_bridge = format!("host {address} and tcp port {port}");
    assert!(packets(&file, &to_bridge) > 1000, "all goes through the bridge");
    assert_eq!(packets(&file, &format!("not ({to_bridge})")), 0, "and nothing beside it");
    assert_eq!(packets(&file, CLIENT_HELLO), 0, "no TLS is to be seen");
    assert!(
        packets(&run.data.join("hosts/webclient1/eth0.pcap"), CLIENT_HELLO) > 0,
        "as it is where no bridge is used"
    );
}

/// How many packets of a capture match.
fn packets(file: &Path, filter: &str) -> usize {
    let program = find_program("tcpdump").expect("tcpdump: tools/install-packages test");
    let output = capture(Command::new(program).arg("-nr").arg(file).arg(filter));
    assert!(output.status.success(), "{filter}: {}", output.stderr);
    output.stdout.lines().count()
}

/// The client meets the service at a rendezvous, having found its descriptor.
fn assert_onion(run: &Run) {
    let circuits = run.lines("onionclient1", "circuit");
    for purpose in ["HS_CLIENT_HSDIR", "HS_CLIENT_INTRO", "HS_CLIENT_REND"] {
        let built = circuits.iter().filter(|line| line["purpose"] == purpose && line["error"].is_null());
        assert!(built.count() > 0, "{purpose}: {circuits:?}");
    }
    let name = read(&run.data.join("hosts/onion1/onion-service/hostname"));
    let servers = run.lines("onionclient1", "transfer");
    assert!(servers.iter().all(|line| line["server"] == format!("{}:80", name.trim())), "{name}");
}
