//! `gnomon run --profile` and `gnomon profile`: a profile changes nothing of a run, and says where processor time goes.

#[path = "../common/mod.rs"]
mod common;
mod costs;
mod steps;

use common::{capture, compile_with, digest, find_python, folder, gnomon, root, run_well};
use profile::{Kind, Part, Place, Profile, Row};
use std::path::Path;
use std::process::Command;

/// A C program and a Python program with known shares, on two hosts each.
fn experiment(folder: &Path, rounds: u32) -> String {
    let source = root().join("tests/profile/shares.c");
    let native = compile_with(source.to_str().unwrap(), folder, &["-O2", "-pthread"]);
    let python = find_python().expect("python3: tools/install-packages test");
    let script = root().join("tests/profile/shares.py");
    let (native, script) = (native.display(), script.display());
    let host =
        |name: &str, process: String| format!("  {name}: {{ network_node_id: 0, processes: [{{ {process} }}] }}\n");
    [
        "general: { stop_time: 60 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n"
            .to_owned(),
        host("threads", format!("path: {native}, args: '{rounds} 2 0'")),
        host("twins", format!("path: {native}, args: '{rounds} 0 1'")),
        host("snake", format!("path: {python}, args: '\"{script}\" {}'", rounds / 8)),
    ]
    .concat()
}

/// Of the processor time that programs of a host take in `work`, the shares of the three functions.
fn shares(profile: &Profile, host: &str) -> [f64; 3] {
    let in_function = |row: &Row, wanted: &str| profile.stack(row).any(|function| function.name == wanted);
    let rows = || {
        profile
            .rows
            .iter()
            .filter(|row| profile.host(row) == host && row.place == Place::Program && in_function(row, "work"))
    };
    let sum = |name: &str| rows().filter(|row| in_function(row, name)).map(|row| row.weight_ns as f64).sum::<f64>();
    let parts = ["sixty", "thirty", "ten"].map(sum);
    let all: f64 = parts.iter().sum();
    parts.map(|part| part / all)
}

#[test]
fn a_profile_changes_nothing_and_tells_known_shares() {
    let folder = folder("profile-shares");
    std::fs::write(folder.join("experiment.yaml"), experiment(&folder, 1_000)).unwrap();
    let experiment = "experiment.yaml";
    run_well(&folder, experiment, &["--parallelism", "1"]);
    let data = folder.join("run.data");
    let plain = digest(&data);
    for workers in ["1", "2", "3"] {
        std::fs::remove_dir_all(&data).unwrap();
        run_well(&folder, experiment, &["--profile=4000", "--parallelism", workers]);
        assert_eq!(digest(&data), plain, "{workers} workers");
        let profile = Profile::read(&data).unwrap();
        let samples = profile.rows.len();
        assert!(samples > 2_000, "{samples} samples");
        for host in ["threads", "twins", "snake"] {
            let shares = shares(&profile, host);
            for (share, expected) in shares.into_iter().zip([0.6, 0.3, 0.1]) {
                // Of a few hundred samples; the whole is asserted below.
                assert!((share - expected).abs() < 0.06, "{host}: {shares:?} of {samples} samples");
            }
        }
        let outside: Vec<&Row> = profile.rows.iter().filter(|row| row.place != Place::Engine).collect();
        let part = |count: usize, of: usize| count as f64 / of as f64;
        let with_host = outside.iter().filter(|row| row.host.is_some()).count();
        assert!(part(with_host, outside.len()) >= 0.99);
        let of_threads: Vec<&&Row> = outside.iter().filter(|row| row.process.is_some()).collect();
        let whole = of_threads.iter().filter(|row| row.is_whole).count();
        assert!(part(whole, of_threads.len()) >= 0.95, "{whole} of {} stacks are whole", of_threads.len());
        let weigh =
            |of: &dyn Fn(&Row) -> bool| profile.rows.iter().filter(|row| of(row)).map(|row| row.weight_ns).sum::<u64>();
        let is_sampled = |row: &Row| !profile.stack(row).any(|function| function.name.starts_with("(threads"));
        let times = &profile.about.times;
        for (weights, counted) in [(weigh(&is_sampled), times.workers_ns), (weigh(&|_| true), times.process_ns)] {
            assert!((weights as f64 / counted as f64 - 1.0).abs() < 0.02, "{weights} of {counted} ns");
        }
    }
    names_and_calls(&data);
    page_and_exports(&folder, &data);
}

/// Python's functions are told by name, file and line; what calls cost is the calls'.
fn names_and_calls(data: &Path) {
    let profile = Profile::read(data).unwrap();
    let python = profile.functions.iter().find(|function| function.kind == Kind::Python && function.name == "sixty");
    let python = python.expect("a function of Python");
    assert!(python.file.ends_with("tests/profile/shares.py") && python.line == 14, "{python:?}");
    let hosts: Vec<&Row> = profile.rows.iter().filter(|row| profile.host(row) == "snake").collect();
    assert!(hosts.iter().any(|row| row.place == Place::Kernel && profile.stack(row).any(|f| f.kind == Kind::Call)));
    // Two threads, each with its own samples.
    let mut threads: Vec<u32> = hosts.iter().filter_map(|row| row.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 2);
}

fn page_and_exports(folder: &Path, data: &Path) {
    let rules = folder.join("rules.yaml");
    let text = "groups:\n- { name: much, function: sixty }\n- { name: rest, function: [thirty, ten, spin] }\n\
                roles: { native: [threads, twins], script: snake }\nphases:\n- { name: work, from: { host: snake, line: beg* } }\n";
    std::fs::write(&rules, text).unwrap();
    let run = data.to_str().unwrap();
    let tell = |arguments: &[&str]| {
        let output = capture(gnomon().arg("profile").args(arguments));
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stdout
    };
    let told = tell(&["--rules", rules.to_str().unwrap(), "--part", "program", "--phase", "work", run]);
    assert!(told.contains("native") && told.contains("sixty (shares"), "{told}");
    let page = std::fs::read_to_string(data.join("profile/page/index.html")).unwrap();
    assert!(page.contains("class=\"flame\"") && page.contains("Groups of functions"));
    let file = folder.join("stacks.txt");
    tell(&["--export", "collapsed", "-o", file.to_str().unwrap(), run]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.lines()
            .any(|line| line.starts_with("snake;python") && line.contains(";sixty (shares.py:14);spin (shares.py:7)")),
        "{text}"
    );
    let output = capture(gnomon().args(["profile", "--host", "nobody", run]));
    assert_eq!(output.code(), 2);
    assert!(
        output.stderr.contains("no host is called 'nobody'; there are: snake, threads, twins"),
        "{}",
        output.stderr
    );
    if let Some(go) = common::find_program("go") {
        agrees_with_go(&go, folder, run);
    }
}

/// `go tool pprof -top` comes to the sums of our tables.
fn agrees_with_go(go: &Path, folder: &Path, run: &str) {
    let file = folder.join("cpu.pb");
    let output = capture(gnomon().args([
        "profile",
        "--part",
        "program",
        "--export",
        "pprof",
        "-o",
        file.to_str().unwrap(),
        run,
    ]));
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let top = capture(Command::new(go).args(["tool", "pprof", "-top", "-unit=ms"]).arg(&file));
    let line = top.stdout.lines().find(|line| line.ends_with(" sixty (shares)"));
    let line = line.unwrap_or_else(|| panic!("{}\n{}", top.stdout, top.stderr));
    let flat: f64 = line.split_whitespace().next().unwrap().trim_end_matches("ms").parse().unwrap();
    let profile = Profile::read(Path::new(run)).unwrap();
    let innermost = |row: &&Row| {
        let is_program = row.place == Place::Program;
        is_program && profile.stack(row).next_back().is_some_and(|f| f.name == "sixty" && f.kind == Kind::Native)
    };
    let own: u64 = profile.rows.iter().filter(innermost).map(|row| row.weight_ns).sum();
    assert!((flat - own as f64 / 1e6).abs() < 0.02, "{flat} ms and {own} ns");
    assert_eq!(Part::NAMES.len(), 3);
}

/// Interpreters of this machine: those at fixed addresses and elsewhere, with and without trampolines for perf.
fn pythons() -> Vec<(String, String)> {
    let mut all = vec![("python".to_owned(), find_python().expect("python3: tools/install-packages test"))];
    if Path::new("/usr/bin/python3").exists() {
        all.push(("debian".to_owned(), "/usr/bin/python3".to_owned()));
    }
    let with_trampolines: Vec<(String, String)> = all
        .iter()
        .filter(|(_, path)| {
            // Without that option, which 3.12 brought, it is taken for one of somebody's own.
            let told = capture(Command::new(path).args([
                "-X",
                "perf",
                "-c",
                "import sys; print(sys.version_info >= (3, 12))",
            ]));
            told.stdout.trim() == "True"
        })
        .map(|(name, path)| (format!("{name}perf"), format!("{path}\n-X perf")))
        .collect();
    all.extend(with_trampolines);
    all
}

/// Within 2 points of 60, 30 and 10 % at 10,000 samples of each host; threads, twins, and whatever Python.
#[test]
fn shares_are_within_two_points_at_ten_thousand_samples() {
    let folder = folder("profile-points");
    let native = compile_with(root().join("tests/profile/shares.c").to_str().unwrap(), &folder, &["-O2", "-pthread"]);
    let script = root().join("tests/profile/shares.py");
    let mut experiment = String::from(
        "general: { stop_time: 600 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n",
    );
    let mut hosts: Vec<String> = Vec::new();
    let mut host = |name: &str, path: &str, arguments: String| {
        hosts.push(name.to_owned());
        experiment +=
            &format!("  {name}: {{ network_node_id: 0, processes: [{{ path: {path}, args: '{arguments}' }}] }}\n");
    };
    let native = native.display().to_string();
    host("threads", &native, "3000 2 0".to_owned());
    host("twins", &native, "4500 0 1".to_owned());
    for (name, path) in pythons() {
        let (path, options) = path.split_once('\n').unwrap_or((&path, ""));
        host(&name, path, format!("{options} \"{}\" 250", script.display()).trim_start().to_owned());
    }
    std::fs::write(folder.join("experiment.yaml"), &experiment).unwrap();
    run_well(&folder, "experiment.yaml", &["--profile=8000", "--parallelism", "2"]);
    let profile = Profile::read(&folder.join("run.data")).unwrap();
    for host in &hosts {
        // Where the machine's kernel cannot be told apart, what it does at a turn of twins counts for what they do next.
        if host == "twins" && profile.about.means.contains("counts for what they do next") {
            continue;
        }
        let samples =
            profile.rows.iter().filter(|row| profile.host(row) == host && row.place == Place::Program).count();
        assert!(samples > 2_000, "{host}: {samples} samples");
        // On a machine that is faster than the numbers of rounds reckon with, fewer samples tell as much less.
        let tolerance = 0.02 * (10_000.0 / samples as f64).sqrt().max(1.0);
        let shares = shares(&profile, host);
        for (share, expected) in shares.into_iter().zip([0.6, 0.3, 0.1]) {
            assert!((share - expected).abs() < tolerance, "{host}: {shares:?} of {samples} samples");
        }
        println!("{host}: {shares:.3?} of {samples} samples");
    }
}

#[test]
fn where_perf_events_are_refused_a_timer_takes_samples_and_it_is_said() {
    let folder = folder("profile-timer");
    std::fs::write(folder.join("experiment.yaml"), experiment(&folder, 500)).unwrap();
    run_well(&folder, "experiment.yaml", &[]);
    let data = folder.join("run.data");
    let plain = digest(&data);
    std::fs::remove_dir_all(&data).unwrap();
    let refusing = compile_with(root().join("tests/profile/no_perf_events.c").to_str().unwrap(), &folder, &["-O1"]);
    let mut command = Command::new(refusing);
    command.arg(env!("CARGO_BIN_EXE_gnomon")).args(["run", "--profile", "experiment.yaml"]).current_dir(&folder);
    let output = capture(&mut command);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert_eq!(digest(&data), plain);
    let log = common::read(&data.join("gnomon.log"));
    assert!(log.contains("timers of processor time, since the machine refuses perf events"), "{log}");
    let profile = Profile::read(&data).unwrap();
    assert!(profile.about.means.starts_with("timers of processor time"), "{}", profile.about.means);
    let samples = profile.rows.iter().filter(|row| row.place == Place::Program).count();
    assert!(samples > 50, "{samples} samples");
    let shares = shares(&profile, "threads");
    assert!((shares[0] - 0.6).abs() < 0.25, "{shares:?} of {samples} samples");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder("profile-refused");
    for (arguments, told) in [
        (vec!["run", "--profile=0", "none.yaml"], "from 1 to 20000, as in --profile=4000"),
        (vec!["profile", "nowhere.data"], "it has no profile: make one with 'gnomon run --profile'"),
        (vec!["profile", "--export", "pprof", "nowhere.data"], "it has no profile"),
        (vec!["profile", "--rules", "none.yaml", "nowhere.data"], "supplied rules are called ipv8 and tor"),
    ] {
        let output = capture(gnomon().args(&arguments).current_dir(&folder));
        assert_eq!(output.code(), 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(told), "{arguments:?}: {}", output.stderr);
    }
}
