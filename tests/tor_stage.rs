//! `gnomon tor stage`: a month of CollecTor's archives, made here in the true formats, is averaged as it should be, and networks are sampled
//! from what was staged.

mod collector;
mod common;

use collector::{Archive, BEGIN, HOUR, Kind, Month, consensus_name};
use common::{Output, capture, find_program, folder, gnomon, read};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const CONSENSUSES: &str = "consensuses-2026-10.tar.xz";
const DESCRIPTORS: &str = "server-descriptors-2026-10.tar.xz";
const BANDWIDTHS: &str = "bandwidths-2026-10.tar.xz";
const RELAYS: &str = "relayinfo_staging_2026-10-01--2026-10-03.json";
const USERS: &str = "userinfo_staging_2026-10-01--2026-10-03.json";

/// Three days of 200 relays, and what goes with them.
fn three_days(folder: &Path) -> Month {
    let month = Month::new(72, 200);
    month.archive(folder);
    fs::write(folder.join("users.csv"), month.users()).expect("a table");
    // The addresses of the generator begin with 16 or with 84.
    fs::write(folder.join("geoip"), "268435456,285212671,SE\n1409286144,1426063359,JP\n").expect("a table");
    month
}

fn stage(folder: &Path, arguments: &[&str]) -> Output {
    capture(gnomon().args(["tor", "stage"]).args(arguments).current_dir(folder))
}

fn staged(folder: &Path, arguments: &[&str]) -> String {
    let output = stage(folder, arguments);
    assert_eq!(output.code(), 0, "{arguments:?}: {}", output.stderr);
    output.stdout
}

fn refused(folder: &Path, arguments: &[&str], parts: &[&str]) {
    let output = stage(folder, arguments);
    assert_eq!(output.code(), 2, "{arguments:?}: {}{}", output.stdout, output.stderr);
    for part in parts {
        assert!(output.stderr.contains(part), "{arguments:?}: '{part}' is not in: {}", output.stderr);
    }
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).expect("JSON")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if !values.len().is_multiple_of(2) { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

fn is_near(value: &Value, expected: f64) -> bool {
    (value.as_f64().expect("a number") - expected).abs() <= 1e-6 * expected.abs()
}

/// Each figure against the same figure worked out from what the archives were made of.
#[test]
fn a_month_of_archives_is_averaged() {
    let folder = folder("tor-stage");
    let month = three_days(&folder);
    let sources =
        ["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS, "--users", "users.csv", "--geoip", "geoip"];
    let text = staged(&folder, &sources);
    assert!(text.contains("staged 72 consensuses, 2026-10-01 to 2026-10-03: 190 relays"), "{text}");
    assert!(text.contains(&format!("gnomon tor new --staged ./{RELAYS} --users ./{USERS} --scale 0.01 net")), "{text}");
    let file = json(&folder.join(RELAYS));
    assert_eq!(file["min_unix_time"], BEGIN as f64);
    assert_eq!(file["max_unix_time"], (BEGIN + 71 * HOUR) as f64);
    let counted = |hour: u64| move |relay: &&collector::Relay| relay.is_listed(hour) && relay.kind != Kind::BadExit;
    let total = |hour: u64| month.relays.iter().filter(counted(hour)).map(|relay| relay.weight_at(hour)).sum::<u64>();
    let totals: Vec<f64> = (0..72).map(|hour| total(hour) as f64).collect();
    for relay in &month.relays {
        let found = &file["relays"][relay.fingerprint()];
        if relay.kind == Kind::BadExit {
            assert!(found.is_null(), "{found}");
            continue;
        }
        let hours = || (0..72).filter(|hour| relay.is_listed(*hour));
        let running = hours().count() as f64;
        let share = |hour: u64| relay.weight_at(hour) as f64 / totals[hour as usize];
        let guard = hours().filter(|hour| relay.is_guard(*hour, 72)).count() as f64;
        let exit = f64::from(u8::from(matches!(relay.kind, Kind::Exit | Kind::GuardExit)));
        assert!(is_near(&found["weight"], median(hours().map(share).collect())), "{found}");
        assert!(is_near(&found["running_frequency"], running / 72.0), "{found}");
        assert!(is_near(&found["guard_frequency"], guard / running), "{found}");
        assert!(is_near(&found["exit_frequency"], exit), "{found}");
        assert_eq!(found["bandwidth_capacity"], relay.capacity(), "what was published before the month does not count");
        assert_eq!(found["bandwidth_rate"], relay.capacity() / 2 + 1_000_000);
        assert_eq!(found["address"], relay.address());
        assert_eq!(found["country_code"], if relay.address().starts_with("16.") { "SE" } else { "JP" });
    }
    let stats = &file["network_stats"];
    // Of 200 relays ten are bad exits, and ten come and go: 180 or 190 at one time.
    assert_eq!(stats["med_count_total"], 185);
    assert_eq!(stats["med_count_guard"], 65, "60, and for half of the time ten more");
    assert_eq!((&stats["med_count_exit"], &stats["med_count_exitguard"]), (&10.into(), &30.into()));
    let users = json(&folder.join(USERS));
    // Days within the consensuses' time: 40, 30 and 40 % in Germany, and 30, 40 and 30 in France.
    assert!(is_near(&users["de"], 0.4) && is_near(&users["us"], 0.3) && is_near(&users["fr"], 0.3), "{users}");
}

/// With bandwidth files, what they gave counts; relays that they lack have no weight.
#[test]
fn bandwidth_files_replace_weights() {
    let folder = folder("tor-stage-bandwidths");
    let month = three_days(&folder);
    staged(
        &folder,
        &["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS, "--bandwidths", BANDWIDTHS, "-o", "out"],
    );
    let file = json(&folder.join("out").join(RELAYS));
    let seen = &month.relays[..199];
    let total: u64 = seen.iter().map(|relay| relay.weight).sum();
    for relay in seen.iter().filter(|relay| relay.kind != Kind::BadExit) {
        let found = &file["relays"][relay.fingerprint()];
        assert!(is_near(&found["weight"], relay.weight as f64 / total as f64), "{found}");
        assert!(found["country_code"].is_null(), "no table of countries was given: {found}");
    }
    assert_eq!(file["relays"][month.relays[199].fingerprint()]["weight"], 0.0);
    assert!(!folder.join("out").join(USERS).exists());
}

/// Folders of unpacked documents, and however many threads, give the same bytes.
#[test]
fn unpacked_archives_stage_the_same() {
    let folder = folder("tor-stage-unpacked");
    three_days(&folder);
    for archive in [CONSENSUSES, DESCRIPTORS] {
        let output = capture(Command::new("tar").args(["xJf", archive]).current_dir(&folder));
        assert!(output.status.success(), "{}", output.stderr);
    }
    staged(&folder, &["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS, "-o", "packed", "--jobs", "3"]);
    let unpacked = ["--consensuses", "consensuses-2026-10", "--descriptors", "server-descriptors-2026-10"];
    staged(&folder, &[&unpacked[..], &["-o", "unpacked", "--jobs", "1"]].concat());
    assert!(read(&folder.join("packed").join(RELAYS)) == read(&folder.join("unpacked").join(RELAYS)), "files differ");
}

/// `gnomon tor new`, with programs to find that stand in for those of the network.
fn new(folder: &Path, arguments: &[&str]) -> Output {
    let programs = folder.join("programs");
    if !programs.exists() {
        fs::create_dir(&programs).expect("a folder");
        let stand_in = find_program("true").expect("a true");
        for name in ["tor", "gnomon-traffic"] {
            symlink(&stand_in, programs.join(name)).expect("a link");
        }
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    capture(gnomon().args(["tor", "new"]).args(arguments).current_dir(folder).env("PATH", path))
}

#[test]
fn networks_are_sampled_from_what_was_staged() {
    let folder = folder("tor-stage-new");
    three_days(&folder);
    let sources =
        ["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS, "--users", "users.csv", "--geoip", "geoip"];
    staged(&folder, &sources);
    let made = |seed: &str, net: &str| {
        let output = new(&folder, &["--staged", RELAYS, "--users", USERS, "--scale", "0.1", "--seed", seed, net]);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stdout
    };
    let text = made("1", "one");
    let experiment = read(&folder.join("one/gnomon.yaml"));
    assert!(experiment.contains("the relays of 2026-10-01--2026-10-03"), "{}", &experiment[..600]);
    // A tenth of some 65 guards, 10 exits and 30 guard-exits.
    let count = |role: &str| (0..50).filter(|number| experiment.contains(&format!("\n  {role}{number}:"))).count();
    assert!((5..=7).contains(&count("guard")), "{} guards:\n{text}", count("guard"));
    assert_eq!((count("exit"), count("guardexit")), (1, 3), "{text}");
    let checked = capture(gnomon().args(["check", "gnomon.yaml"]).current_dir(folder.join("one")));
    assert_eq!(checked.code(), 0, "{}", checked.stderr);
    // Clients are where users were staged, relays where their addresses are.
    let graph = read(&folder.join("one/network.gml"));
    let places = ["DE", "FR", "JP", "SE", "US"];
    assert!(places.iter().all(|place| graph.contains(&format!("\"{place}"))), "{graph}");
    fs::rename(folder.join("one"), folder.join("first")).expect("moved");
    made("1", "one");
    assert!(common::tree(&folder.join("one")) == common::tree(&folder.join("first")), "files differ");
    made("2", "other");
    assert!(read(&folder.join("other/template/conf/bandwidths")) != read(&folder.join("one/template/conf/bandwidths")));
}

/// As tornettools writes it: without a schema, numbers with points where its language has them, more keys than are needed.
#[test]
fn files_of_tornettools_will_do() {
    let folder = folder("tor-stage-tornettools");
    three_days(&folder);
    staged(&folder, &["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS]);
    let mut file = json(&folder.join(RELAYS));
    let object = file.as_object_mut().expect("an object");
    object.remove("schema").expect("ours has one");
    object.insert("another".to_owned(), Value::from("key"));
    fs::write(folder.join("theirs.json"), serde_json::to_string_pretty(&file).expect("JSON")).expect("a file");
    let networks = [RELAYS, "theirs.json"].map(|staged| {
        let net = staged.replace(".json", "");
        let output = new(&folder, &["--staged", staged, "--scale", "0.1", &net]);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        read(&folder.join(net).join("template/conf/bandwidths"))
    });
    assert_eq!(networks[0], networks[1]);
}

/// The whole way of an experiment: from a month of archives to results that take little room.
#[test]
fn a_month_is_staged_generated_run_and_archived() {
    let folder = folder("tor-stage-way");
    if find_program("tor").is_none() {
        return common::leave_out("there is no tor");
    }
    three_days(&folder);
    let sources =
        ["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS, "--users", "users.csv", "--geoip", "geoip"];
    staged(&folder, &sources);
    let well = |arguments: &[&str]| {
        let output = capture(gnomon().args(arguments).current_dir(&folder));
        assert_eq!(output.code(), 0, "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    };
    well(&["tor", "new", "--staged", RELAYS, "--users", USERS, "net"]);
    let cannot = capture(gnomon().args(["tor", "archive", "net"]).current_dir(&folder));
    assert_eq!(cannot.code(), 2, "it has not run");
    assert!(cannot.stderr.contains("'net' is no data directory of a run, and has none in it"), "{}", cannot.stderr);
    well(&["tor", "run", "net"]);
    let data = folder.join("net/seed-1.data");
    well(&["report", "--tables-only", "-o", "before", "net/seed-1.data"]);
    let before = common::tree(&folder.join("before"));
    let transfers = String::from_utf8_lossy(&before["tables/transfers.csv"]).lines().count();
    assert!(transfers > 20, "{transfers} lines of transfers");
    let hosts = common::tree(&data.join("hosts"));
    // A program of its own folder may call a file as tor does.
    fs::create_dir_all(data.join("hosts/server1/files")).expect("a folder");
    fs::write(data.join("hosts/server1/files/lock"), "mine").expect("a file");
    let text = well(&["tor", "archive", "net"]);
    assert!(
        text.starts_with("net/seed-1.data: ") && text.contains("tables in net/seed-1.data/report/tables"),
        "{text}"
    );
    assert!(!data.join("hosts").exists() && !data.join("gnomon.log").exists() && data.join("gnomon.log.xz").is_file());
    let packed = fs::metadata(data.join("hosts.tar.xz")).expect("an archive").len();
    let unpacked: usize = hosts.values().map(Vec::len).sum();
    assert!(packed * 4 < unpacked as u64, "{packed} of {unpacked} bytes");
    let tables = common::tree(&data.join("report/tables"));
    assert!(tables["transfers.csv"] == before["tables/transfers.csv"], "the tables have changed");
    // Nothing is run again, or archived again, and a report says what to do first.
    assert!(well(&["tor", "run", "net"]).contains("1 complete already, 0 to do"));
    assert!(well(&["tor", "archive", "net/seed-1.data"]).contains("archived already"));
    let report = capture(gnomon().args(["report", "net/seed-1.data"]).current_dir(&folder));
    assert_eq!(report.code(), 2);
    let advice = "tar -C net/seed-1.data -xJf net/seed-1.data/hosts.tar.xz";
    assert!(report.stderr.contains(advice), "{}", report.stderr);
    let words: Vec<&str> = advice.split(' ').collect();
    assert!(capture(Command::new(words[0]).args(&words[1..]).current_dir(&folder)).status.success());
    assert_eq!(read(&data.join("hosts/server1/files/lock")), "mine");
    let again = common::tree(&data.join("hosts"));
    for (name, bytes) in &hosts {
        let own = name.split('/').nth(1).unwrap_or_default();
        let left_out = own.starts_with("cached-") || ["keys", "lock", "diff-cache"].contains(&own);
        assert!(left_out != (again.get(name) == Some(bytes)), "{name}");
    }
    well(&["report", "--tables-only", "-o", "after", "net/seed-1.data"]);
    assert!(common::tree(&folder.join("after"))["tables/transfers.csv"] == before["tables/transfers.csv"]);
}

#[test]
fn mistakes_are_told_with_their_places() {
    let folder = folder("tor-stage-refused");
    let month = three_days(&folder);
    let all = ["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS];
    let consensuses = |path: &'static str| ["--consensuses", path, "--descriptors", DESCRIPTORS];
    refused(&folder, &consensuses("nowhere"), &["nowhere cannot be read"]);
    refused(
        &folder,
        &consensuses(DESCRIPTORS),
        &["/server-descriptors-2026-10/", ":2: expected 'network-status-version 3'"],
    );
    refused(
        &folder,
        &["--consensuses", CONSENSUSES, CONSENSUSES, "--descriptors", DESCRIPTORS],
        &["-consensus: another consensus of the same hour was read already"],
    );
    fs::create_dir(folder.join("empty")).expect("a folder");
    refused(&folder, &consensuses("empty"), &["empty: no consensus in there"]);
    let other = ["--consensuses", CONSENSUSES, "--descriptors", "old"];
    fs::write(folder.join("old"), month.relays[0].descriptor(BEGIN - HOUR, 1)).expect("a file");
    refused(&folder, &other, &["old: no server descriptor in there", "of the consensuses' time"]);
    let mut archive = Archive::new(&folder.join("broken.tar.xz"));
    let broken = month.consensus(1).replacen("w Bandwidth=", "w Bandwidth=x", 1);
    archive.add(&consensus_name(0), month.consensus(0).as_bytes());
    archive.add(&consensus_name(1), broken.as_bytes());
    archive.finish();
    let place = format!("broken.tar.xz/{}:23: expected 'w Bandwidth=NUMBER'", consensus_name(1));
    refused(&folder, &consensuses("broken.tar.xz"), &[&place]);
    let whole = fs::read(folder.join(CONSENSUSES)).expect("an archive");
    fs::write(folder.join("cut.tar.xz"), &whole[..whole.len() / 2]).expect("a file");
    refused(&folder, &consensuses("cut.tar.xz"), &["cut.tar.xz", "fetch it again"]);
    fs::write(folder.join("early.csv"), "date,country,users\n2020-01-01,de,10\n").expect("a file");
    refused(&folder, &[&all[..], &["--users", "early.csv"]].concat(), &["early.csv: has no users on any day"]);
    assert!(!folder.join(RELAYS).exists(), "something was written");
    staged(&folder, &all);
    let text = read(&folder.join(RELAYS));
    for (wrong, message) in [
        (text.replacen("\"schema\": 1", "\"schema\": 2", 1), "has schema 2, and this version of Gnomon reads 1"),
        (text.replacen("\"weight\"", "\"wait\"", 1), ": missing field `weight`; relayinfo_staging_...json"),
        (text.replacen("\"exit_frequency\": 0.0", "\"exit_frequency\": 7.0", 1), "that is not from 0 to 1"),
        (
            text.replace("\"bandwidth_capacity\": ", "\"bandwidth_capacity\": 0, \"was\": "),
            "none of its 190 relays ran",
        ),
    ] {
        fs::write(folder.join("wrong.json"), wrong).expect("a file");
        let output = new(&folder, &["--staged", "wrong.json", "net"]);
        assert_eq!(output.code(), 2, "{message}: {}", output.stderr);
        assert!(
            output.stderr.contains("wrong.json") && output.stderr.contains(message),
            "{message}: {}",
            output.stderr
        );
    }
    let output = new(&folder, &["--staged", RELAYS, "--consensus", "c", "net"]);
    assert_eq!(output.code(), 2, "one source only");
}

/// Some kilobytes that stand for gigabytes end in seconds.
#[test]
fn a_bomb_is_refused() {
    let folder = folder("tor-stage-bomb");
    let script = "head -c 300M /dev/zero > big; xz -0 < big > bomb.xz; tar c big | xz -0 > bomb.tar.xz; rm big";
    let made = Command::new("bash").args(["-c", script]).current_dir(&folder).stdin(Stdio::null()).status();
    assert!(made.expect("bash").success());
    let refused = |bomb: &str, message: &str| {
        let mut command = Command::new("timeout");
        let script = format!("ulimit -v 4000000; $gnomon tor stage --consensuses {bomb} --descriptors {bomb}");
        command.args(["60", "bash", "-c", &script]).env("gnomon", env!("CARGO_BIN_EXE_gnomon")).current_dir(&folder);
        let output = capture(&mut command);
        assert_eq!(output.code(), 2, "{bomb}: {}", output.stderr);
        assert!(output.stderr.contains(bomb) && output.stderr.contains(message), "{bomb}: {}", output.stderr);
    };
    refused("bomb.xz", "which no archive of CollecTor does");
    refused("bomb.tar.xz", "bomb.tar.xz/big has more than 256 MiB");
}

/// All that CollecTor has of a month: 720 consensuses of 9,000 relays. `cargo test --release --test tor_stage -- --ignored --nocapture` prints
/// time and memory; it takes minutes, most of them for making the archives.
#[test]
#[ignore = "minutes of work, for measuring"]
fn a_whole_month_in_little_memory() {
    let folder = folder("tor-stage-month");
    let month = Month::new(720, 9000);
    month.archive(&folder);
    for name in [CONSENSUSES, DESCRIPTORS, BANDWIDTHS] {
        println!("{name}: {} MiB", fs::metadata(folder.join(name)).expect("an archive").len() >> 20);
    }
    // Of all children so far: xz, which made the archives, is one of them.
    let most = || getrusage(UsageWho::RUSAGE_CHILDREN).expect("a usage").max_rss() >> 10;
    let measured = |more: &[&str]| {
        let before = most();
        let begun = base::wall::WallClock::start();
        let text = staged(&folder, &[&["--consensuses", CONSENSUSES, "--descriptors", DESCRIPTORS], more].concat());
        println!("{more:?}: {:.0} s, {} MiB ({before} before)\n{text}", begun.elapsed().as_secs_f64(), most());
    };
    measured(&[]);
    measured(&["--bandwidths", BANDWIDTHS]);
}
