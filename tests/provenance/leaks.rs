//! What leaked from a buffer: `gnomon leak` on a run in which a program in Python gives a secret to two of five peers.

use crate::common::{capture, find_python, folder, gnomon, root, run_well};
use serde_json::Value;
use std::fs;
use std::path::Path;

const HEAD: &str =
    "general: { stop_time: 10 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n";

fn experiment() -> String {
    let python = find_python().expect("python3: tools/install-packages test");
    let script = root().join("tests/provenance/secret.py").display().to_string();
    let host = |name: &str, args: &str, start: &str| {
        let process = format!("{{ path: {python}, args: '\"{script}\" {args}', start_time: {start} }}");
        format!("  {name}: {{ network_node_id: 0, processes: [{process}] }}\n")
    };
    let mut text = HEAD.to_owned() + &host("holder", "holder peer1 peer2 peer3 peer4 peer5", "2 s");
    for peer in ["peer1", "peer2", "peer3", "peer5", "friend"] {
        text += &host(peer, "reads", "1 s");
    }
    text + &host("peer4", "passes friend", "1 s")
}

/// The hosts of the programs that read, with how often bytes had been passed on.
fn readers(leak: &Value) -> Vec<(&str, u64, u64)> {
    let number = |of: &Value| of.as_u64().unwrap();
    let arrivals = leak["read_by"].as_array().unwrap().iter();
    arrivals.map(|one| (one["program"]["host"].as_str().unwrap(), number(&one["hop"]), number(&one["bytes"]))).collect()
}

#[test]
fn a_secret_is_followed_to_those_that_have_it() {
    let folder = folder("provenance-leaks");
    fs::write(folder.join("secret.yaml"), experiment()).unwrap();
    run_well(&folder, "secret.yaml", &["--provenance", "all"]);
    let data = folder.join("run.data");
    let said = printed(&data.join("hosts/holder"));
    let (address, bytes) = said.trim().split_once(' ').expect("an address and a length");
    let leak = |range: &str, words: &[&str]| -> Value {
        let output = capture(gnomon().args(["leak", "--json", "run.data", range]).args(words).current_dir(&folder));
        assert_eq!(output.code(), 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    let whole = leak(&format!("{address}+{bytes}"), &[]);
    assert_eq!(readers(&whole), [("peer2", 1, 42), ("peer4", 1, 42), ("friend", 2, 42)]);
    assert_eq!((&whole["from"][0]["writes"], whole["packets"].as_array().unwrap().len()), (&Value::from(2), 3));
    let sure = |of: &Value| of["sure"].as_bool().unwrap();
    let hosts = whole["hosts"].as_array().unwrap().iter();
    let hosts: Vec<(&str, bool)> = hosts.map(|one| (one["host"].as_str().unwrap(), sure(one))).collect();
    assert_eq!(hosts, [("friend", false), ("peer2", true), ("peer4", true)]);
    assert_eq!(whole["packets"].as_array().unwrap().iter().filter(|one| sure(one)).count(), 2);
    // A part of it is told from the rest, and so is the memory of another host.
    let part = leak(&format!("{address}+7"), &["--host", "holder"]);
    assert_eq!(readers(&part)[..2], [("peer2", 1, 7), ("peer4", 1, 7)]);
    let end = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap() + 40;
    assert_eq!(readers(&leak(&format!("{end:x}..{:x}", end + 1000), &["--sure"]))[0], ("peer2", 1, 2));
    let text = capture(gnomon().args(["leak", "run.data", &format!("{address}+{bytes}")]).current_dir(&folder));
    assert!(
        text.stdout.contains("friend") && text.stdout.contains("which wrote after it had read them"),
        "{}",
        text.stdout
    );
    assert!(!["peer1", "peer3", "peer5"].iter().any(|peer| text.stdout.contains(peer)), "{}", text.stdout);
    for (words, status, why) in [
        (&["run.data", "0x10+1"][..], 1, "nothing was given to sockets from"),
        (&["run.data", "nowhere"], 2, "is no range of addresses"),
        (&["run.data", address, "--host", "peer9"], 2, "the run has no host 'peer9'"),
    ] {
        let refused = capture(gnomon().arg("leak").args(words).current_dir(&folder));
        assert!(refused.code() == status && refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
    }
}

/// What a host's only program wrote to standard output.
fn printed(host: &Path) -> String {
    let files = fs::read_dir(host).unwrap().map(|entry| entry.unwrap().path());
    let output = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "stdout")).unwrap();
    fs::read_to_string(output).unwrap()
}
