//! Relays that went away, in a report.

mod synthetic;

use report::Request;
use std::fs;
use std::path::Path;

/// The text of a page from the row of this name on, without what marks it up.
fn row(page: &str, name: &str) -> String {
    let place = page.find(&format!(">{name}</th>")).unwrap_or_else(|| panic!("no row '{name}'"));
    let row = page[place + 1..].split("</tr>").next().unwrap();
    let texts = row.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    texts.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_relay_that_went_away_is_one_tor_and_its_time_away_is_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-outages");
    let _ = fs::remove_dir_all(&folder);
    let data = folder.join("run.data");
    synthetic::write(&data, &synthetic::Network { failing: 0.1, ..synthetic::Network::tiny(1) });
    let report = |name: &str| {
        let output = Some(folder.join(name));
        let written = report::write(&Request { runs: vec![data.clone()], output, ..Request::default() }).unwrap();
        fs::read_to_string(written.page.unwrap()).unwrap()
    };
    let before = report("before");
    assert!(!before.contains("Relays that went away"));
    let path = data.join("tor-network.json");
    let mut network: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    // Six relays for 600 s of load: a tenth of 3600 s, of which 60 are after the run's end.
    network["hosts"]["relay1"]["outages"] = serde_json::json!([
        { "why": "leave", "from_s": 269.0, "ended_s": 300.0, "until_s": 400.0 },
        { "why": "vanish", "from_s": 640.0, "ended_s": 640.0, "until_s": null },
    ]);
    fs::write(&path, network.to_string()).unwrap();
    let log = "Jan 01 00:06:40.000 [notice] Bootstrapped 10% (conn_done): Connected\nJan 01 00:06:41.000 [warn] Something new\n";
    fs::write(data.join("hosts/relay1/tor.1002.stdout"), log).unwrap();
    let after = report("after");
    assert_eq!(row(&after, "Bootstrapped tors"), row(&before, "Bootstrapped tors"));
    assert!(after.contains("Something new"), "what the second tor warned of");
    assert_eq!((row(&after, "leave"), row(&after, "crash")), ("leave 1".to_owned(), "crash 0".to_owned()));
    assert_eq!(row(&after, "relays’ time away"), "relays’ time away 10.0 %");
    // The made-up transfers fail when they like: those of two minutes or so in 600 s.
    let told = row(&after, "failed transfers that ended within 30 s of a relay");
    let (some, all) = told.rsplit_once("relay ").and_then(|(_, counts)| counts.split_once(" of ")).expect("two counts");
    let (some, all): (f64, f64) = (some.parse().expect("a number"), all.parse().expect("a number"));
    assert!(some > 0.0 && some < 0.3 * all, "{told}");
}
