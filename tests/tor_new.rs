//! `gnomon tor new` and `gnomon tor status` from outside: what they write, refuse and tell. The runs are in other tests.

mod common;

use common::{Output, capture, find_program, folder, gnomon, read, tree};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Runs `gnomon tor` in `folder`, with programs to find that stand in for those of the network.
fn tor(folder: &Path, arguments: &[&str]) -> Output {
    let programs = folder.join("programs");
    if !programs.exists() {
        fs::create_dir(&programs).expect("a folder");
        let stand_in = find_program("true").expect("a true");
        for name in ["tor", "obfs4proxy", "gnomon-traffic"] {
            symlink(&stand_in, programs.join(name)).expect("a link");
        }
    }
    let system = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{system}", programs.display());
    capture(gnomon().arg("tor").args(arguments).current_dir(folder).env("PATH", path))
}

fn made(folder: &Path, arguments: &[&str]) -> Output {
    let output = tor(folder, &[&["new"], arguments].concat());
    assert_eq!(output.code(), 0, "{arguments:?}: {}", output.stderr);
    output
}

/// One message of one line, exit status 2, nothing written.
fn refused(folder: &Path, arguments: &[&str], expected: &str) {
    let output = tor(folder, &[&["new"], arguments, &["net"]].concat());
    assert_eq!(output.code(), 2, "{arguments:?}: {}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains(expected), "{arguments:?}: '{}' lacks '{expected}'", output.stderr);
    assert!(!folder.join("net").exists(), "{arguments:?} wrote something");
}

#[test]
fn what_cannot_work_is_refused_with_one_message() {
    let folder = folder("tor-new-refused");
    let cases: &[(&[&str], &str)] = &[
        (&["--exits", "0", "--guard-exits", "0"], "no exit, so 5 clients could reach no server"),
        (&["--relays", "5", "--guards", "6"], "more than --relays 5"),
        (&["--authorities", "0"], "no directory authority"),
        (&["--servers", "0"], "give --servers 1 or more"),
        (&["--scale", "2"], "from 0.001 to 1"),
        (&["--scale", "0"], "from 0.001 to 1"),
        (&["--profile", "huge"], "no profile is called 'huge'"),
        (&["--tor", "no-such-tor"], "no-such-tor is neither in PATH"),
        (&["--tor", "./no-such-tor"], "there is no such program"),
        (&["--bootstrap", "5 s"], "too short"),
        (&["--bulk-size", "0 B"], "nothing to fetch"),
        (&["--client-link", "dsl:fast"], "NAME:DOWN:UP"),
        (&["--load", "1"], "give --markov-clients 1 or more"),
        (&["--markov-clients", "2", "--load", "11"], "a number up to 10"),
        (&["--settle", "2 min"], "a shorter --settle"),
        (&["--consensus", "nowhere"], "nowhere cannot be read"),
        (&["--attack-target", "server1"], "HOST:PORT belongs here, such as server1:80"),
        (&["--attack-hops", "1"], "1 is not in 2..=64"),
        (&["--attack-hops", "65"], "65 is not in 2..=64"),
        (&["--relay-statistics", "torrc"], "'torrc' is what a relay's folder has already"),
        (&["--relay-statistics", "../torrc"], "a file's name of letters"),
        (&["--defence", "MaxRelayEarly=x"], "MaxRelayEarly cannot be 'x': a whole number"),
        (&["--defence", "NetworkReentry=2"], "NetworkReentry cannot be '2': 0, 1 or auto belongs here"),
        (&["--defence", "HandshakeTimeout=soon"], "HandshakeTimeout cannot be 'soon'"),
    ];
    for (arguments, expected) in cases {
        refused(&folder, arguments, expected);
    }
    let broken = folder.join("consensus");
    fs::write(&broken, "network-status-version 3\nvalid-after 2026-11-01 00:00:00\nr relay\n").expect("a file");
    refused(&folder, &["--consensus", "consensus"], "consensus:3: expected 'r NICKNAME");
}

#[test]
fn an_existing_folder_is_left_as_it_is() {
    let folder = folder("tor-new-exists");
    fs::create_dir(folder.join("net")).expect("a folder");
    let output = tor(&folder, &["new", "net"]);
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("net exists; remove it, or name another folder"), "{}", output.stderr);
    assert_eq!(tree(&folder.join("net")).len(), 0);
}

#[test]
fn equal_flags_give_equal_files_and_the_summary_says_what_to_do() {
    let folder = folder("tor-new-equal");
    let first = made(&folder, &["--seed", "5", "net"]);
    assert!(first.stdout.contains("16 hosts, 14 of them with tor"), "{}", first.stdout);
    assert!(first.stdout.contains("cd net\n  gnomon run gnomon.yaml"), "{}", first.stdout);
    let files = tree(&folder.join("net"));
    for (name, bytes) in &files {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(folder.to_str().expect("text")), "{name} names a place of this machine");
    }
    let experiment = String::from_utf8_lossy(&files["gnomon.yaml"]);
    assert!(experiment.contains("path: \"tor\"") && experiment.contains("path: \"gnomon-traffic\""), "{experiment}");
    fs::rename(folder.join("net"), folder.join("old")).expect("moved");
    made(&folder, &["--seed", "5", "net"]);
    assert!(files == tree(&folder.join("net")), "files differ");
}

#[test]
fn a_changed_profile_is_not_called_by_its_name_alone() {
    let folder = folder("tor-new-changed");
    let profile = |arguments: &[&str], net: &str| {
        made(&folder, &[arguments, &[net]].concat());
        let json = read(&folder.join(net).join("template/tor-network.json"));
        serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["profile"].as_str().expect("a name").to_owned()
    };
    assert_eq!(profile(&["--seed", "3"], "seed"), "tiny");
    assert_eq!(profile(&["--exits", "3"], "exits"), "tiny, changed");
}

/// How busy relays will be, and which of them too much depends on, is known before anything runs.
#[test]
fn the_summary_foretells_load_and_balance() {
    let folder = folder("tor-new-load");
    let told = |arguments: &[&str], net: &str| made(&folder, &[arguments, &[net]].concat()).stdout;
    let small = told(&["--profile", "paper-small"], "small");
    assert!(
        small.contains("47 % of what relays can send") || small.contains("48 % of what relays can send"),
        "{small}"
    );
    let half = told(&["--profile", "paper-small", "--load", "0.5"], "half");
    assert!(half.contains("24 % of what relays can send"), "{half}");
    let lopsided = told(&["--profile", "paper-small", "--exits", "1", "--guard-exits", "3"], "lopsided");
    let notice = lopsided.lines().find(|line| line.contains("exit positions")).unwrap_or_else(|| panic!("{lopsided}"));
    assert!(notice.starts_with("notice: ") && notice.contains("--exits "), "{notice}");
    let even = told(&["--profile", "paper-small", "--relay-bandwidth", "100 Mbit"], "even");
    assert!(!even.contains("notice: "), "{even}");
}

#[test]
fn overloaded_relays_are_named() {
    let folder = folder("tor-new-overloaded");
    let told = made(&folder, &["--relay-bandwidth", "50 Mbit", "--overloaded", "0.3", "net"]).stdout;
    let line = told.lines().find(|line| line.starts_with("overloaded: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(" can send 25 % of their lines") && line.matches(", ").count() == 2, "{line}");
    let yaml = read(&folder.join("net/gnomon.yaml"));
    // As long as it takes for a quarter of 50 Mbit/s, with less for each call than exits do.
    let calls: Vec<u64> = yaml
        .lines()
        .filter_map(|line| line.trim().strip_prefix("host_options: { call_latency: ")?.strip_suffix(" us }"))
        .map(|microseconds| microseconds.parse().expect("a number"))
        .collect();
    assert!(calls.len() == 2 && calls.iter().all(|call| (360..=800).contains(call)), "{calls:?}");
    let checked = capture(gnomon().args(["check", "gnomon.yaml"]).current_dir(folder.join("net")));
    assert_eq!(checked.code(), 0, "{}", checked.stderr);
    refused(&folder.join("net"), &["--overloaded", "2"], "give a share above 0 and up to 1");
    refused(&folder.join("net"), &["--overloaded", "1", "--relay-bandwidth", "1 Mbit"], "9.0 Mbit/s or more");
}

/// Without a rate it is the public network's, and what follows is the folder.
#[test]
fn relays_that_go_away_are_told() {
    let folder = folder("tor-new-churn");
    let told = made(&folder, &["--scale", "0.005", "--churn", "usual"]).stdout;
    let line = told.lines().find(|line| line.starts_with("churn: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("2.0 % of the relays go away in an hour (the public network: 2 %)"), "{line}");
    // Overloaded relays come along where there is a load, unless they are not wanted.
    assert!(told.contains("\noverloaded: "), "{told}");
    let alone = made(&folder, &["--scale", "0.005", "--churn", "--overloaded", "0", "alone"]).stdout;
    assert!(alone.contains("\nchurn: ") && !alone.contains("overloaded"), "{alone}");
    let often = made(&folder, &["--churn=5", "often"]).stdout;
    assert!(!often.contains("overloaded"), "{often}");
    assert!(often.contains("churn: 500.0 %") && often.contains(" of 6 do"), "{often}");
    refused(&folder, &["--churn=-1"], "the share of the relays that go away within an hour");
    refused(&folder, &["--churn=many"], "--churn");
}

/// The experiment is one for Gnomon, whatever stands in for tor.
#[test]
fn every_profile_is_an_experiment_that_gnomon_accepts() {
    let folder = folder("tor-new-check");
    let profiles =
        [["--profile", "tiny"], ["--profile", "bridges-onions"], ["--profile", "paper-small"], ["--scale", "0.002"]];
    for [flag, name] in profiles {
        let net = PathBuf::from(format!("net-{name}"));
        made(&folder, &[flag, name, net.to_str().expect("text")]);
        let checked = capture(gnomon().args(["check", "gnomon.yaml"]).current_dir(folder.join(&net)));
        assert_eq!(checked.code(), 0, "{name}: {}", checked.stderr);
    }
}

#[test]
fn profiles_are_listed() {
    let output = tor(&folder("tor-new-list"), &["new", "--profile", "list"]);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stdout.contains("tiny") && output.stdout.contains("paper-small"), "{}", output.stdout);
}

#[test]
fn the_status_of_a_run_is_told_as_table_and_as_json() {
    let folder = folder("tor-status");
    made(&folder, &["net"]);
    let data = folder.join("net/template");
    let log = data.join("hosts/guard1/tor.1000.stdout");
    fs::write(&log, "Jan 01 00:00:36.000 [notice] Bootstrapped 100% (done): Done\n").expect("a log");
    let table = tor(&folder, &["status", "net/template"]);
    assert_eq!(table.code(), 0, "{}", table.stderr);
    assert!(table.stdout.contains("1 (50 %)") && table.stdout.contains("36.0 s"), "{}", table.stdout);
    let json = tor(&folder, &["status", "--json", "net/template"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    let guards = json["roles"].as_array().expect("roles").iter().find(|role| role["role"] == "guard");
    assert_eq!(guards.expect("guards")["bootstrapped"], 1);
    assert!(read(&log).ends_with("Done\n"), "status changed a file");
}

#[test]
fn a_status_of_no_run_is_refused() {
    let folder = folder("tor-status-none");
    let output = tor(&folder, &["status", "."]);
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("tor-network.json"), "{}", output.stderr);
}
