//! `gnomon lab`: the smallest size, which measures in a moment; killed and gone on with; traffic's PHOLD as a guest.

mod common;

use base::wall::WallClock;
use common::{capture, digest, folder, gnomon, read, run_well};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

fn arguments(repetitions: &str) -> [&str; 8] {
    ["lab", "phold", "--size", "smallest", "--repeat", repetitions, "-o", "results"]
}

/// The results that are kept, with the moment at which each was written.
fn results(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let Ok(entries) = fs::read_dir(folder.join("results/phold/runs")) else { return BTreeMap::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let kept = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    kept.map(|path| (path.clone(), path.metadata().expect("a result").modified().expect("a time"))).collect()
}

/// The number of rows of the table of measurements.
fn rows(folder: &Path) -> usize {
    read(&folder.join("results/phold/measurements.csv")).lines().count() - 1
}

#[test]
fn a_lab_that_was_killed_goes_on_where_it_was() {
    let folder = folder("lab-phold");
    // No wrapper, which would be what signals reach.
    let mut first = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    first.args(arguments("2")).current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = first.spawn().expect("the program");
    let begun = WallClock::start();
    while results(&folder).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no run ends");
        std::thread::sleep(Duration::from_millis(2));
    }
    first.kill().expect("it still runs");
    first.wait().expect("an end");
    let known = results(&folder);
    assert!(!folder.join("results/index.html").exists(), "all runs were faster than the signal");

    // What is there can be shown, and nothing is run for it.
    let shown = capture(gnomon().args(arguments("2")).arg("--report-only").current_dir(&folder));
    assert_eq!(shown.code(), 0, "{}{}", shown.stdout, shown.stderr);
    let some = rows(&folder);
    assert!(shown.stdout.contains("undecided") && some == known.len(), "{}", shown.stdout);

    let second = capture(gnomon().args(arguments("2")).current_dir(&folder));
    assert_eq!(second.code(), 0, "{}{}", second.stdout, second.stderr);
    let now = results(&folder);
    for (path, written) in &known {
        assert_eq!(now.get(path), Some(written), "{} was measured again", path.display());
    }
    assert!(now.len() > known.len() && rows(&folder) == now.len(), "{now:?}");
    let page = read(&folder.join("results/index.html"));
    for text in ["id=\"phold\"", "id=\"phold-time\"", "Tracey", "undecided", "lab phold --size smallest"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(folder.join("results/phold/phold-time.png").is_file());

    // All are there: nothing is run.
    let third = capture(gnomon().args(arguments("2")).current_dir(&folder));
    assert!(third.code() == 0 && !third.stdout.contains("done in"), "{}", third.stdout);
    assert!(!third.stderr.contains("another build"), "{}", third.stderr);
    assert_eq!(results(&folder), now);

    // What another build has measured is shown, and called that.
    let path = now.keys().next().expect("a result");
    let other = read(path).replace("\"program\":\"", "\"program\":\"0");
    fs::write(path, other).expect("a file");
    let fourth = capture(gnomon().args(arguments("2")).arg("--report-only").current_dir(&folder));
    assert_eq!(fourth.code(), 0, "{}{}", fourth.stdout, fourth.stderr);
    assert!(fourth.stderr.contains("1 results are of another build"), "{}", fourth.stderr);
}

#[test]
fn a_run_that_fails_is_told_and_not_kept() {
    let folder = folder("lab-failure");
    let result = capture(gnomon().args(arguments("1")).current_dir(&folder));
    assert_eq!(result.code(), 0, "{}", result.stderr);
    let experiment = fs::read_dir(folder.join("results/phold/experiments")).expect("a folder").next();
    let experiment = experiment.expect("an experiment").expect("an entry").path();
    fs::remove_dir_all(folder.join("results/phold/runs")).expect("runs");
    fs::remove_file(&experiment).expect("a file");
    // No experiment can be written there.
    fs::create_dir(&experiment).expect("a folder in a file's place");
    let result = capture(gnomon().args(arguments("1")).current_dir(&folder));
    assert_eq!(result.code(), 1, "{}{}", result.stdout, result.stderr);
    assert!(result.stderr.contains("its experiment cannot be written"), "{}", result.stderr);
    assert!(results(&folder).is_empty());
    assert!(read(&folder.join("results/index.html")).contains("class=\"missing\">Failed: "));
}

#[test]
fn labs_are_listed_and_unknown_ones_refused() {
    let list = capture(gnomon().arg("lab"));
    assert_eq!(list.code(), 0);
    for name in ["loader", "phold", "tor-threads", "tor-large", "provenance", "imux", "onion-profile"] {
        assert!(list.stdout.contains(name), "{}", list.stdout);
    }
    let refused = capture(gnomon().args(["lab", "fold"]));
    assert!(refused.code() == 2 && refused.stderr.contains("there are loader, phold"), "{}", refused.stderr);
    assert!(refused.stderr.contains("; figures of imux are "), "{}", refused.stderr);
    let alone = capture(gnomon().args(["lab", "7"]));
    assert!(alone.code() == 2 && alone.stderr.contains("gnomon lab imux 7"), "{}", alone.stderr);
    let folder = folder("lab-refused");
    for (arguments, what) in
        [(&["7"][..], "figure 7"), (&["--scale", "0.5"], "--scale"), (&["--clients", "tor"], "--clients")]
    {
        let told = capture(gnomon().args(["lab", "loader"]).args(arguments).current_dir(&folder));
        assert_eq!(told.code(), 2, "{}{}", told.stdout, told.stderr);
        assert!(told.stderr.contains(&format!("{what} is of imux alone: name imux too")), "{}", told.stderr);
        assert!(!folder.join("lab").exists(), "nothing is run");
    }
}

/// Sockets of this machine's own kernel and of the simulated one, by a program that runs natively and as a guest.
#[test]
fn memory_of_sockets_is_measured_natively_and_simulated() {
    let folder = folder("lab-sockets");
    let figure = ["lab", "imux", "2c", "--size", "smallest", "--repeat", "1", "-o", "results"];
    let made = capture(gnomon().args(figure).current_dir(&folder));
    assert_eq!(made.code(), 0, "{}{}", made.stdout, made.stderr);
    let kept = read(&folder.join("results/imux/runs/sockets-native-1.json"));
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    let last = kept["stats"]["sockets"].as_array().and_then(|all| all.last()).expect("sockets");
    assert_eq!(last[0].as_u64(), Some(2000), "{last}");
    let page = read(&folder.join("results/index.html"));
    for text in ["id=\"imux-2c\"", "Memory of each", "undecided: fewer than published were wanted"] {
        assert!(page.contains(text), "{text}");
    }
}

/// Two designs of connections between relays, each in a network of a few: downloads come in, and no verdict is given on so few.
#[test]
fn designs_of_connections_are_compared_by_downloads() {
    let folder = folder("lab-imux");
    let figure = ["lab", "imux", "7", "--size", "smallest", "--seeds", "1", "-o", "results"];
    let made = capture(gnomon().args(figure).current_dir(&folder));
    assert_eq!(made.code(), 0, "{}{}", made.stdout, made.stderr);
    let page = read(&folder.join("results/index.html"));
    for text in ["id=\"imux-7-web\"", "id=\"imux-7-first-byte\"", "Geddes", "undecided: such a network is too small"] {
        assert!(page.contains(text), "{text}");
    }
    let data = read(&folder.join("results/imux/imux-7-web.csv"));
    for design in ["vanilla", "Torchestra", "PCTCP", "IMUX"] {
        assert!(data.contains(design), "{design} has no download:\n{data}");
    }
}

/// Messages neither vanish nor multiply, some hosts have much more to do than others, and workers change nothing.
#[test]
fn phold_keeps_its_messages_and_is_the_same_on_any_workers() {
    const HOSTS: usize = 20;
    const MESSAGES: usize = 3;
    let folder = folder("phold");
    let traffic = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    assert!(traffic.is_file(), "{}: cargo build --release -p traffic", traffic.display());
    let mut experiment = String::from(
        "general: { stop_time: 20 s }\nnetwork:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        node [ id 0 \
         host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]\n        edge [ source 0 target 0 latency \"100 ms\" ]\n      ]\nhosts:\n",
    );
    for number in 1..=HOSTS {
        experiment += &format!(
            "  node{number}: {{ network_node_id: 0, processes: [{{ path: {}, args: phold --peers node --hosts {HOSTS} --number {number} \
             --messages {MESSAGES} --seed 5 --delay 1s --duration 11s }}] }}\n",
            traffic.display()
        );
    }
    fs::write(folder.join("phold.yaml"), experiment).expect("a file");
    run_well(&folder, "phold.yaml", &["-q", "-d", "one.data", "--policy", "static", "--parallelism", "1"]);
    run_well(&folder, "phold.yaml", &["-q", "-d", "two.data", "--policy", "steal", "--parallelism", "2"]);
    assert_eq!(digest(&folder.join("one.data")), digest(&folder.join("two.data")));
    let counts: Vec<(u64, u64)> = (1..=HOSTS)
        .map(|number| {
            let text = read(&folder.join(format!("one.data/hosts/node{number}/gnomon-traffic.1000.stdout")));
            let line: serde_json::Value = serde_json::from_str(text.lines().last().expect("lines")).expect("JSON");
            (line["handled"].as_u64().expect("a number"), line["sent"].as_u64().expect("a number"))
        })
        .collect();
    let (handled, sent): (u64, u64) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // Ten seconds of hops of 100 ms, and what is under way at the end.
    let population = (HOSTS * MESSAGES) as u64;
    assert_eq!(sent - handled, population, "{counts:?}");
    assert!((population * 98..=population * 100).contains(&handled), "{handled}");
    let most = counts.iter().map(|one| one.0).max().expect("hosts");
    assert!(most > 2 * handled / HOSTS as u64, "{counts:?}");
}

/// Tunnels of pyipv8, which comes from PyPI: every packet arrives, in each version, and each role has its groups of functions. LibTorrent
/// downloads through them, and the improvements change what they say they change.
#[test]
fn onion_routing_is_profiled_by_role_and_hops() {
    let folder = folder("lab-onion-profile");
    let command = ["lab", "onion-profile", "--size", "smallest", "--repeat", "1", "-o", "results"];
    let made = capture(gnomon().args(command).current_dir(&folder));
    let log = read(&folder.join("results/lab.log"));
    assert_eq!(made.code(), 0, "{}{}{log}", made.stdout, made.stderr);
    assert!(made.stdout.contains("undecided     pyipv8 3.2: the seeder"), "{}", made.stdout);
    let page = read(&folder.join("results/index.html"));
    for text in [
        "id=\"onion-profile-shares-ipv8-2\"",
        "id=\"onion-profile-pies-ipv8-3\"",
        "Stokkink",
        "gain of pipelining",
        "id=\"onion-profile-functions-2\"",
        "id=\"onion-profile-torrent\"",
        "id=\"onion-profile-improvements\"",
        "guard exits",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let kept = |case: &str| -> serde_json::Value {
        serde_json::from_str(&read(&folder.join(format!("results/onion-profile/runs/{case}-1.json")))).unwrap()
    };
    for case in ["ipv8-2", "ipv8-3", "ipv8-3-rust"] {
        let kept = kept(case);
        let groups = kept["stats"]["profile"]["groups"].as_array().unwrap();
        let seconds = |role: &str, hops: &str, names: &[&str]| -> f64 {
            let is_named = |row: &serde_json::Value| names.iter().any(|name| row[2] == *name);
            let fits = |row: &&serde_json::Value| row[0] == role && row[1] == hops && is_named(row);
            groups.iter().filter(fits).map(|row| row[3].as_f64().unwrap()).sum::<f64>() / 1e9
        };
        for hops in ["0", "1", "2", "3"] {
            assert!(seconds("seeder", hops, &["other"]) > 0.0, "{case}, {hops} hops: {groups:?}");
        }
        if case != "ipv8-3-rust" {
            for (role, hops) in [("seeder", "0"), ("seeder", "3"), ("relay", "2"), ("exit", "1")] {
                let ciphers = ["encrypt_str", "decrypt_str"];
                assert!(seconds(role, hops, &ciphers) > 0.0, "{case}, {role}, {hops} hops: {groups:?}");
            }
        }
    }
    let printed = |case: &str| kept(case)["stats"]["printed"].as_array().expect("objects").clone();
    for case in ["ipv8-2-calls", "ipv8-3-calls"] {
        let printed = printed(case);
        let calls = |role: &str, hops: u32, function: &str| {
            let fits =
                |row: &&serde_json::Value| row["role"] == role && row["hops"] == hops && row["function"] == function;
            printed.iter().find(fits).and_then(|row| row["calls"].as_f64())
        };
        // A layer of encryption for each hop, of which each host removes one.
        for hops in 1..=3 {
            assert_eq!(calls("seeder", hops, "encrypt_str"), Some(f64::from(hops)), "{case}: {printed:?}");
            assert_eq!(calls("relay", hops, "relay_packet"), Some(f64::from(hops - 1)), "{case}: {printed:?}");
            assert_eq!(calls("exit", hops, "decrypt_str"), Some(1.0), "{case}: {printed:?}");
        }
    }
    for (case, loses) in [("torrent", false), ("torrent-loss", true)] {
        let printed = printed(case);
        let lengths: Vec<&str> = printed.iter().filter_map(|row| row["hops"].as_str()).collect();
        assert_eq!(lengths, ["direct", "0", "1", "2", "3"], "{case}: {printed:?}");
        assert!(printed.iter().skip(1).all(|row| row["received"].as_u64() > Some(0)), "not by the tunnel: {printed:?}");
        assert_eq!(printed.iter().any(|row| row["lost"].as_u64() > Some(0)), loses, "{case}: {printed:?}");
    }
    for (case, lengths) in [("improved-seeder", 2), ("improved-exit", 1)] {
        let modes: Vec<String> = printed(case).iter().map(|row| row["mode"].to_string()).collect();
        assert_eq!(modes.iter().collect::<BTreeSet<_>>().len(), 4, "{case}: {modes:?}");
        assert_eq!(modes.len(), 4 * lengths, "{case}: {modes:?}");
    }
}
