//! Runs of several processes under `mpirun`: the same bits as one process leaves, and an end in order when one of them goes.
//!
//! Needs Open MPI (`mpirun`), and Gnomon built with it: `make test` sees to both.

mod common;

use base::wall::WallClock;
use common::{
    Output, capture, digest, drawn, find_program, find_python, folder, gnomon, leave_out, limited, phold, read, root,
    run_well,
};
use common::{set_up, stats, tree};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// `mpirun`, if this machine has it and Gnomon was built with it. All ranks are on this machine, however few processors it has.
fn mpirun(ranks: usize) -> Option<Command> {
    let program = find_program("mpirun")?;
    let companion = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-ranks");
    if !companion.is_file() {
        return None;
    }
    let mut command = limited(&program);
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"]);
    command.args(["-n", &ranks.to_string()]).arg(env!("CARGO_BIN_EXE_gnomon"));
    Some(command)
}

fn is_missing() -> bool {
    let missing = mpirun(2).is_none();
    if missing {
        leave_out("mpirun, or gnomon-ranks beside gnomon");
    }
    missing
}

/// Runs an experiment in `folder` with so many ranks.
fn run_ranks(folder: &Path, file: &str, ranks: usize, arguments: &[&str]) -> Output {
    let mut command = mpirun(ranks).expect("looked for before");
    capture(command.arg("run").args(arguments).arg(file).current_dir(folder))
}

/// The log without what precedes the first window: the command and the machine.
fn log(data: &Path) -> String {
    read(&data.join("gnomon.log"))
        .lines()
        .filter(|line| !line.starts_with("n/a "))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Runs an experiment in one process and in several, by turns with other numbers of workers and other policies, and compares all that is left.
fn assert_alike(folder: &Path, file: &str, ways: &[(usize, &str, &str)]) {
    let one = folder.join("one");
    let _ = fs::remove_dir_all(&one);
    let output = common::run(folder, file, &["-d", "one", "--pcap-enabled", "true"]);
    assert!(one.join("sim-stats.json").is_file(), "{}", output.stderr);
    let (expected, files) = (digest(&one), tree(&one.join("hosts")));
    for (ranks, workers, policy) in ways {
        let several = folder.join("several");
        let _ = fs::remove_dir_all(&several);
        let arguments = ["-d", "several", "--parallelism", workers, "--policy", policy, "--pcap-enabled", "true"];
        let way = format!("{ranks} ranks with {workers} workers each, {policy}");
        let told = run_ranks(folder, file, *ranks, &arguments);
        assert!(several.join("sim-stats.json").is_file(), "{way}: {}", told.stderr);
        let same = tree(&several.join("hosts"));
        let differs = |(path, content): &(&String, &Vec<u8>)| same.get(*path) != Some(*content);
        let differing: Vec<_> = files.iter().filter(differs).map(|(path, _)| path).collect();
        assert!(differing.is_empty() && files.len() == same.len(), "{way}: other files: {differing:?}");
        assert_eq!(digest(&several), expected, "{way}");
        let (before, after) = (log(&one), log(&several));
        let differing = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        assert!(differing.is_none() && before.len() == after.len(), "{way}: the log: {differing:?}");
        assert_eq!(told.code(), output.code(), "{way}: {}", told.stderr);
        let traffic = |data: &Path| read(&data.join("host-traffic.csv"));
        assert_eq!(traffic(&several), traffic(&one), "{way}");
        let (before, after) = (stats(&one), stats(&several));
        for counted in ["network", "events", "windows", "guests", "hosts", "computing", "interferences"] {
            assert_eq!(after["gnomon"][counted], before["gnomon"][counted], "{way}: {counted}");
        }
        assert_eq!(after["syscalls"], before["syscalls"], "{way}");
        assert_eq!(after["gnomon"]["ranks"].as_array().map(Vec::len), Some(*ranks), "{way}");
        let rest: Vec<String> =
            tree(&several).into_keys().filter(|path| path.contains("rank-") && path != "rank-costs.json").collect();
        assert!(rest.is_empty(), "{way}: nothing is left of the ranks: {rest:?}");
    }
}

#[test]
fn a_web_site_is_the_same_for_any_number_of_ranks() {
    if is_missing() {
        return;
    }
    let folder = folder("ranks/web");
    set_up("web-demo", &folder);
    assert_alike(&folder, "web-demo.yaml", &[(2, "1", "steal"), (2, "2", "static"), (3, "2", "steal-longest")]);
}

#[test]
fn phold_is_the_same_with_every_number_of_workers_and_policy() {
    if is_missing() {
        return;
    }
    let folder = folder("ranks/phold");
    fs::write(folder.join("phold.yaml"), phold(5, 20)).expect("a file");
    let policies = ["steal", "steal-longest", "static", "serial"];
    let ways: Vec<_> =
        ["1", "2", "3", "8"].into_iter().zip(policies).map(|(workers, policy)| (2, workers, policy)).collect();
    assert_alike(&folder, "phold.yaml", &ways);
    // More ranks than hosts: some have none.
    assert_alike(&folder, "phold.yaml", &[(9, "1", "steal")]);
}

/// Programs at fixed addresses take turns within a process, so that with ranks others take them together.
#[test]
fn programs_at_fixed_addresses_are_the_same_for_any_number_of_ranks() {
    let pythons = [Some("/usr/bin/python3".to_owned()).filter(|python| Path::new(python).is_file()), find_python()];
    let Some(python) = pythons.into_iter().flatten().next() else { return leave_out("python3") };
    if is_missing() {
        return;
    }
    let folder = folder("ranks/python");
    let gossip = root().join("tests/workers/gossip.py");
    let mut text = phold(8, 20);
    text.truncate(text.find("hosts:").expect("hosts"));
    text += "hosts:\n";
    for number in 0..6 {
        let _ = writeln!(
            text,
            "  gossip{number}: {{ network_node_id: 0, processes: [{{ path: {python}, args: '\"{}\" {number} 6 8' }}] }}",
            gossip.display()
        );
    }
    fs::write(folder.join("gossip.yaml"), text).expect("a file");
    assert_alike(&folder, "gossip.yaml", &[(2, "1", "steal"), (3, "2", "steal")]);
}

#[test]
fn a_tor_network_is_the_same_for_any_number_of_ranks() {
    if is_missing() {
        return;
    }
    let folder = folder("ranks/tor");
    let network = common::tor::Network::new(&folder, &["--profile", "tiny"]);
    let file = network.file("gnomon.yaml");
    assert_alike(&network.folder, &file.display().to_string(), &[(2, "1", "steal")]);
}

#[test]
fn drawn_experiments_do_not_depend_on_ranks() {
    if is_missing() {
        return;
    }
    for seed in [1, 4] {
        let folder = folder(&format!("ranks/drawn-{seed}"));
        drawn::set_up(seed, &folder);
        assert_alike(&folder, "experiment.yaml", &[(2, "2", "steal"), (3, "1", "static")]);
    }
}

/// The process ids of the ranks that an `mpirun` has started, by rank.
fn ranks_of(parent: u32) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        if fields.get(1).and_then(|id| id.parse().ok()) != Some(parent) {
            continue;
        }
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        let rank = variables.find_map(|text| text.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok());
        found.extend(rank.map(|rank| (rank, id)));
    }
    found.sort_unstable();
    found
}

/// Starts an endless run of ranks and gives it a moment; `mpirun` and the ranks.
fn start(folder: &Path, ranks: usize) -> (std::process::Child, Vec<(usize, u32)>) {
    fs::write(folder.join("phold.yaml"), phold(1_000_000, 20)).expect("a file");
    let mut command = mpirun(ranks).expect("looked for before");
    command
        .args(["run", "phold.yaml", "-d", "data", "--pcap-enabled", "true", "--parallelism", "1"])
        .current_dir(folder);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mpirun starts");
    let clock = WallClock::start();
    let traffic = folder.join("data/host-traffic.csv");
    while fs::metadata(&traffic).map_or(0, |file| file.len()) == 0 {
        assert!(clock.elapsed() < Duration::from_secs(60), "the run gets going");
        std::thread::sleep(Duration::from_millis(50));
    }
    // `timeout` is between.
    let parent = children(child.id()).into_iter().next().expect("mpirun");
    (child, ranks_of(parent))
}

fn children(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn kill(signal: &str, id: u32) {
    let told = capture(Command::new("kill").args([signal, &id.to_string()]));
    assert!(told.status.success(), "{}", told.stderr);
}

/// Every capture can be read to its end; where the last packets of all of them lie, in seconds of simulated time.
fn captures(data: &Path, hosts: std::ops::RangeInclusive<usize>) -> Vec<f64> {
    let last = |number| {
        let capture_file: PathBuf = data.join(format!("hosts/node{number}/eth0.pcap"));
        let mut tshark = Command::new("tshark");
        tshark.args(["-r".as_ref(), capture_file.as_os_str()]).args(["-T", "fields", "-e", "frame.time_epoch"]);
        let told = capture(&mut tshark);
        assert!(
            told.status.success() && !told.stderr.contains("cut short"),
            "{}: {}",
            capture_file.display(),
            told.stderr
        );
        let last = told.stdout.lines().last().expect("a packet").trim().to_owned();
        last.parse::<f64>().unwrap_or_else(|_| panic!("{last}")) - 946_684_800.0
    };
    hosts.map(last).collect()
}

#[test]
fn a_rank_that_is_killed_ends_the_run_with_its_recordings() {
    if is_missing() || find_program("tshark").is_none() {
        return leave_out("tshark");
    }
    for (victim, survivor) in [(1, "gnomon: "), (0, "[rank 1] gnomon: ")] {
        let folder = folder(&format!("ranks/killed-{victim}"));
        let (child, ranks) = start(&folder, 2);
        assert_eq!(ranks.len(), 2, "{ranks:?}");
        let clock = WallClock::start();
        kill("-KILL", ranks[victim].1);
        let output = child.wait_with_output().expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(clock.elapsed() < Duration::from_secs(10), "nobody waits for one that has gone: {stderr}");
        assert!(!output.status.success());
        assert!(stderr.contains(&format!("{survivor}rank {victim} has gone: the run ended at ")), "{stderr}");
        // Whoever takes over what mpirun leaves may be slow to bury it.
        let lives = |id| fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        let left: Vec<_> = ranks.iter().filter(|(_, id)| lives(*id)).collect();
        assert!(left.is_empty(), "no rank is left: {left:?}");
        // All hosts have come as far, up to a window.
        let ends = captures(&folder.join("data"), 1..=8);
        let (first, last) =
            ends.iter().fold((f64::MAX, 0.0f64), |(first, last), end| (first.min(*end), last.max(*end)));
        assert!(last - first < 1.0 && first > 1.0, "{ends:?}");
        if victim > 0 {
            assert!(folder.join("data/sim-stats.json").is_file(), "the first rank tells what it has");
        }
    }
}

#[test]
fn a_run_that_is_interrupted_ends_in_order_on_all_ranks() {
    if is_missing() || find_program("tshark").is_none() {
        return leave_out("tshark");
    }
    let folder = folder("ranks/interrupted");
    let (child, ranks) = start(&folder, 3);
    kill("-INT", ranks[2].1);
    let output = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("\ninterrupted: "), "{stderr}");
    let data = folder.join("data");
    let counted = stats(&data);
    assert_eq!(counted["gnomon"]["hosts"], 8);
    assert_eq!(counted["gnomon"]["ranks"].as_array().map(Vec::len), Some(3));
    captures(&data, 1..=8);
}

/// Two groups of hosts that send messages among themselves only, by turns in the plan.
#[test]
fn hosts_are_divided_by_what_they_cost_and_send_in_an_earlier_run() {
    if is_missing() {
        return;
    }
    let folder = folder("ranks/divided");
    let mut text = phold(5, 20);
    text.truncate(text.find("hosts:").expect("hosts"));
    text += "hosts:\n";
    for number in 1..=4 {
        for group in 1..=2 {
            let _ = writeln!(
                text,
                "  node{number}-{group}: {{ network_node_id: 0, ip_addr: 10.{group}.0.{number}, processes: [{{ path: gnomon-traffic, args: \
                 'phold --peers 10.{group}.0.1 --hosts 4 --number {number} --messages 20 --delay 200ms --duration 5s', \
                 expected_final_state: running }}] }}"
            );
        }
    }
    fs::write(folder.join("groups.yaml"), text).expect("a file");
    let packets_out = |data: &Path| -> u64 {
        let ranks = stats(data)["gnomon"]["ranks"].as_array().expect("ranks").clone();
        ranks.iter().map(|rank| rank["packets_out"].as_u64().expect("a number")).sum()
    };
    let first = run_ranks(&folder, "groups.yaml", 2, &["-d", "first"]);
    assert_eq!(first.code(), 0, "{}", first.stderr);
    assert!(packets_out(&folder.join("first")) > 1000, "the plan says nothing of groups");
    let second = run_ranks(&folder, "groups.yaml", 2, &["-d", "second", "--rank-costs", "first"]);
    assert_eq!(second.code(), 0, "{}", second.stderr);
    assert_eq!(packets_out(&folder.join("second")), 0, "each group is on one rank");
    assert_eq!(digest(&folder.join("second")), digest(&folder.join("first")));
    let hosts = &stats(&folder.join("second"))["gnomon"]["ranks"];
    assert_eq!((&hosts[0]["hosts"], &hosts[1]["hosts"]), (&4.into(), &4.into()));
    fs::write(folder.join("phold.yaml"), phold(1, 20)).expect("a file");
    let other = run_ranks(&folder, "phold.yaml", 2, &["-d", "other", "--rank-costs", "first/rank-costs.json"]);
    assert!(other.stderr.contains("are of another experiment"), "{}", other.stderr);
}

/// As on a full disk: no file may have more than so many bytes.
#[test]
fn a_rank_that_cannot_write_says_so_and_the_run_fails() {
    if is_missing() {
        return;
    }
    let folder = folder("ranks/full");
    let (child, ranks) = start(&folder, 2);
    let full = capture(Command::new("prlimit").args(["--pid", &ranks[1].1.to_string(), "--fsize=20000:20000"]));
    assert!(full.status.success(), "{}", full.stderr);
    let end = || captures(&folder.join("data"), 1..=1)[0];
    let (clock, before) = (WallClock::start(), end());
    while end() < before + 2.0 {
        assert!(clock.elapsed() < Duration::from_secs(60), "the run goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    kill("-INT", ranks[0].1);
    let output = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("what the run leaves behind is not complete"), "{stderr}");
    assert!(stderr.contains("hosts/node") && stderr.contains("eth0.pcap"), "{stderr}");
    captures(&folder.join("data"), 1..=8);
}

#[test]
fn what_is_missing_or_wrong_is_told_once() {
    let folder = folder("ranks/refused");
    fs::write(folder.join("phold.yaml"), phold(1, 20)).expect("a file");
    let place = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
    // A copy without its companion, as it is built without MPI.
    let alone = folder.join("gnomon");
    fs::copy(env!("CARGO_BIN_EXE_gnomon"), &alone).expect("a copy");
    let traffic = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    std::os::unix::fs::symlink(traffic, folder.join("gnomon-traffic")).expect("a link");
    let told = capture(limited(&alone).args(["run", "phold.yaml"]).envs(place).current_dir(&folder));
    assert_eq!(told.code(), 2);
    for part in ["2 processes", "built without MPI", "libopenmpi-dev", "libclang-dev", "make build"] {
        assert!(told.stderr.contains(part), "{part}: {}", told.stderr);
    }
    assert!(!folder.join("shadow.data").exists());
    let second = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
    let told = capture(limited(&alone).args(["run", "phold.yaml"]).envs(second).current_dir(&folder));
    assert_eq!((told.code(), told.stderr.as_str()), (1, ""), "the first tells it");
    let told = capture(gnomon().args(["exec", "true"]).envs(place));
    assert_eq!(told.code(), 2);
    assert!(told.stderr.contains("'gnomon exec' runs in one"), "{}", told.stderr);
    // What one process alone can do: the first tells it, before anything is read or started.
    for (arguments, part) in [
        (&["--forecast", "--parallelism", "1", "phold.yaml"][..], "--forecast: this is one of 2 processes"),
        (&["--gdb", "node1.gnomon-traffic", "phold.yaml"], "--gdb: this is one of 2 processes"),
        (&["-"], "standard input: this is one of 2 processes"),
    ] {
        let told = capture(limited(&alone).arg("run").args(arguments).envs(place).current_dir(&folder));
        assert_eq!(told.code(), 2, "{}", told.stderr);
        assert!(told.stderr.starts_with(part), "{part}: {}", told.stderr);
        let told = capture(limited(&alone).arg("run").args(arguments).envs(second).current_dir(&folder));
        assert_eq!((told.code(), told.stderr.as_str()), (1, ""), "the first tells it");
    }
    // Under mpirun with one process there is nothing to connect.
    run_well(&folder, "phold.yaml", &["-d", "one"]);
    let single = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
    let told = capture(limited(&alone).args(["run", "-d", "single", "phold.yaml"]).envs(single).current_dir(&folder));
    assert_eq!(told.code(), 0, "{}", told.stderr);
    assert_eq!(digest(&folder.join("single")), digest(&folder.join("one")));
    if is_missing() {
        return;
    }
    let told = run_ranks(&folder, "phold.yaml", 2, &["-d", "one"]);
    assert_eq!(told.stderr.matches("already exists").count(), 1, "{}", told.stderr);
    let told = run_ranks(&folder, "phold.yaml", 2, &["-d", "nowhere/data"]);
    assert_eq!(told.stderr.matches("nowhere/data").count(), 1, "{}", told.stderr);
}
