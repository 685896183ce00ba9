//! What relays told of themselves, in a report.

mod synthetic;

use report::Request;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Statistics of a relay as it is attacked from 300 to 500 s, a line each ten seconds, the last of which is cut off.
fn statistics() -> String {
    let mut text = String::new();
    for second in (100..600).step_by(10) {
        let (circuits, relayed) = if (300..500).contains(&second) { (900, 3_000_000) } else { (30, second * 10_000) };
        let _ = writeln!(
            text,
            "{{\"time\":{}.0,\"channels\":3,\"connections\":12,\"circuits\":{circuits},\"streams\":0,\"relayed_bytes\":{relayed},\"refused_circuits\":5,\"descriptors\":40}}",
            946_684_800 + second
        );
    }
    text + "{\"time\":946685400.0,\"chan"
}

#[test]
fn a_victim_is_shown_with_the_attack_on_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-statistics");
    let _ = fs::remove_dir_all(&folder);
    let data = folder.join("run.data");
    synthetic::write(&data, &synthetic::Network::tiny(1));
    let report = |name: &str| {
        let output = Some(folder.join(name));
        let written = report::write(&Request { runs: vec![data.clone()], output, ..Request::default() }).unwrap();
        fs::read_to_string(written.page.unwrap()).unwrap()
    };
    assert!(!report("without").contains("own statistics"));
    for relay in ["relay1", "relay2"] {
        fs::write(data.join("hosts").join(relay).join("statistics"), statistics()).unwrap();
    }
    let both = report("both");
    assert!(both.contains("own statistics") && both.contains("the last line is cut off"));
    let curve =
        |name: &str, id: &str| fs::read_to_string(folder.join(name).join(format!("statistics-{id}.csv"))).unwrap();
    assert!(curve("both", "circuits").contains("relay1") && curve("both", "circuits").contains("relay2"));
    let path = data.join("tor-network.json");
    let mut network: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    network["attack"] =
        serde_json::json!({ "kind": "circuits", "victim": "relay2", "start_s": 300.0, "stop_s": 500.0 });
    fs::write(&path, network.to_string()).unwrap();
    let attacked = report("attacked");
    assert!(attacked.contains("the attack begins") && attacked.contains("the attack ends"));
    let circuits = curve("attacked", "circuits");
    assert!(circuits.contains("relay2") && !circuits.contains("relay1"), "the victim alone: {circuits}");
    assert!(circuits.lines().any(|line| line.contains("310") && line.contains("900")), "{circuits}");
    // 10,000 bytes a second, in bits.
    assert!(curve("attacked", "relayed").lines().any(|line| line.contains("110") && line.contains("80000")));
    assert!(!folder.join("attacked/statistics-streams.csv").exists(), "it had none");
}
