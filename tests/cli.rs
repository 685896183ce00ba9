//! The command line, from outside: what is refused and how, what is explained, what other tools rely on.

use base::wall::WallClock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A correct experiment of two hosts; tests spoil it. Lines are counted from 1, at `general`.
const EXPERIMENT: &str = "\
general:
  stop_time: 10 s
  data_directory: out
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]
        node [ id 1 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]
        edge [ source 0 target 1 latency \"10 ms\" ]
      ]
hosts:
  alice:
    network_node_id: 0
    processes:
    - path: /bin/true
  bob:
    network_node_id: 1
    processes: []
";

struct Answer {
    status: i32,
    out: String,
    err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Answer {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("answers are text");
        Answer { status: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn gnomon(directory: &Path, args: &[&str]) -> Answer {
    run(Path::new(env!("CARGO_BIN_EXE_gnomon")), directory, args)
}

fn run(program: &Path, directory: &Path, args: &[&str]) -> Answer {
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).stdin(Stdio::null()).env("TMPDIR", directory);
    command.output().expect("the program starts").into()
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A directory with the experiment, in which `from` is replaced by `to`.
fn experiment(from: &str, to: &str) -> TempDir {
    assert!(EXPERIMENT.contains(from), "{from}");
    let directory = directory();
    fs::write(directory.path().join("x.yaml"), EXPERIMENT.replacen(from, to, 1)).unwrap();
    directory
}

/// Runs the spoilt experiment: it must end with status 2, one message with all of `parts`, and no trace.
fn refused(from: &str, to: &str, args: &[&str], parts: &[&str]) {
    let directory = experiment(from, to);
    let answer = gnomon(directory.path(), &[&["run"], args, &["x.yaml"]].concat());
    assert_eq!(answer.status, 2, "{to}: {}", answer.err);
    for part in parts {
        assert!(answer.err.contains(part), "{to}: '{part}' is not in: {}", answer.err);
    }
    assert_eq!(answer.err.lines().count(), 1, "one message: {}", answer.err);
    assert_eq!(answer.out, "");
    assert!(!directory.path().join("out").exists(), "{to}: nothing may be left behind");
}

#[test]
fn bad_experiments_are_refused_with_file_line_and_remedy() {
    refused("stop_time", "stop_tme", &["--stop-time", "10 s"], &["x.yaml:2:", "stop_tme", "did you mean 'stop_time'?"]);
    refused("10 s", "10 MB", &[], &["x.yaml:2:", "'10 MB' is not a time", "such as \"10 ms\""]);
    refused("/bin/true", "/bin/nope", &[], &["x.yaml:17:", "'/bin/nope' does not exist", "install or build it"]);
    refused("network_node_id: 1", "network_node_id: 7", &[], &["x.yaml:19:", "no node 7", "its nodes are 0, 1"]);
    refused("  bob:", "  alice:", &[], &["x.yaml:18:", "alice"]);
    refused("edge [ source 0 target 1 latency", "edge [ source 0 target 1 latncy", &[], &["x.yaml:11:", "latency"]);
    refused("      ]\nhosts", "hosts", &[], &["x.yaml:"]);
    let no_edge = "        edge [ source 0 target 1 latency \"10 ms\" ]\n";
    refused(no_edge, "", &[], &["x.yaml:", "cannot be reached", "add edges"]);
    refused("general", "general", &["--seed", "many"], &["--seed:", "'many' is not a whole number"]);
    refused("general", "general", &["--debug-hosts", "alice,carol"], &["--debug-hosts:", "no host 'carol'"]);
}

/// What only a run can judge has its place in the file, too, or the flag that it came by.
#[test]
fn what_a_run_cannot_do_names_the_line_that_wants_it() {
    let filter = |text: &str| format!("experimental:\n  provenance: all\n  provenance_filter: {text}\nnetwork:\n");
    for (text, told) in [
        ("hst == 1", "x.yaml:6:22: experimental.provenance_filter: line 1, column 1: there is no 'hst'"),
        (
            "host == \"bop\"",
            "x.yaml:6:22: experimental.provenance_filter: line 1, column 9: there is no host 'bop'; did you mean 'bob'?",
        ),
        ("fate in [\"lost\", \"carreid\"]", "line 1, column 18: 'carreid' is no fate; did you mean 'carried'?"),
    ] {
        refused("network:\n", &filter(text), &[], &[told]);
        let checked = gnomon(experiment("network:\n", &filter(text)).path(), &["check", "x.yaml"]);
        assert!(checked.status == 2 && checked.err.contains(told), "{}", checked.err);
    }
    let flag = ["--provenance", "packets", "--provenance-filter", "to == \"carol\""];
    let told = "--provenance-filter: experimental.provenance_filter: line 1, column 7: there is no host 'carol'; there are alice, bob";
    refused("general", "general", &flag, &[told]);
    let told = "--provenance-filter: experimental.provenance_filter: no packets are recorded that it could choose from";
    refused("general", "general", &["--provenance-filter", "true"], &[told]);
    let told =
        "--packet-identifiers: experimental.packet_identifiers: nothing is recorded, so packets have no identifiers";
    refused("general", "general", &["--packet-identifiers", "uuid1"], &[told]);
    for late in ["--profile=costs,from=10s", "--profile=steps,from=1min"] {
        refused("general", "general", &[late], &["--profile: it begins at ", "and the run ends at 10 sec"]);
    }
}

/// A capture that has met a limit, as it meets a full disk.
#[test]
fn a_run_that_could_not_record_all_has_failed() {
    let script =
        "for i in $(seq 200); do dd if=/dev/zero bs=60000 count=1 2> /dev/null > /dev/udp/127.0.0.1/9; done; true";
    let process = format!("/bin/bash\n      args: [-c, \"{script}\"]\n    host_options: {{pcap_enabled: true}}");
    let directory = experiment("/bin/true", &process);
    // In units of 1 KiB: enough for copies of programs that guests execute, and not for 12 MB of packets.
    let run = "ulimit -f 8000; \"$0\" run x.yaml";
    let answer = self::run(Path::new("bash"), directory.path(), &["-c", run, env!("CARGO_BIN_EXE_gnomon")]);
    assert_eq!(answer.status, 1, "{}", answer.err);
    assert!(answer.err.contains("what the run leaves behind is not complete"), "{}", answer.err);
    assert!(answer.err.contains("\nfailed: ") && !answer.err.contains("done: "), "{}", answer.err);
}

/// Some programs, tor among them, say on standard output what is wrong.
#[test]
fn a_failure_names_the_output_that_has_its_reason() {
    for (redirect, file) in [("", "stdout"), (" >&2", "stderr")] {
        let script = format!("/bin/sh\n      args: [-c, \"echo it is broken{redirect}; exit 3\"]");
        let directory = experiment("/bin/true", &script);
        let answer = gnomon(directory.path(), &["run", "x.yaml"]);
        assert_eq!(answer.status, 1, "{}", answer.err);
        let line = answer.err.lines().find(|line| line.contains("exited with status 3")).unwrap_or_default();
        let path = line.split_once("; see ").unwrap_or_else(|| panic!("{}", answer.err)).1;
        assert!(path.ends_with(file), "{line}");
        assert_eq!(fs::read_to_string(path).unwrap(), "it is broken\n");
    }
}

#[test]
fn a_run_says_what_ran_and_where() {
    let directory = experiment("general", "general");
    let answer = gnomon(directory.path(), &["run", "--seed", "5", "x.yaml"]);
    assert_eq!(answer.status, 0, "{}", answer.err);
    let out = directory.path().join("out");
    let stats: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("sim-stats.json")).unwrap()).unwrap();
    let (gnomon, told) = (&stats["gnomon"], &stats["gnomon"]["provenance"]);
    assert_eq!((gnomon["schema"].as_u64(), gnomon["version"].as_str()), (Some(1), Some(env!("CARGO_PKG_VERSION"))));
    let command: Vec<&str> = told["command"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(command[1..], ["run", "--seed", "5", "x.yaml"]);
    let sum = Command::new("sha256sum").arg("/bin/true").output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap().split_whitespace().next().unwrap().to_owned();
    assert_eq!(told["programs"]["/bin/true"]["sha256"], sum.as_str());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(told["kernel"], kernel.trim());
    let log = fs::read_to_string(out.join("gnomon.log")).unwrap();
    for part in ["run --seed 5 x.yaml", &format!("program /bin/true: SHA-256 {sum}"), kernel.trim()] {
        assert!(log.contains(part), "'{part}' is not in {log}");
    }
    assert!(gnomon["memory"]["peak_pss_bytes"].as_u64() > Some(1 << 20), "{}", gnomon["memory"]);
}

#[test]
fn an_existing_data_directory_is_refused_and_kept() {
    let directory = experiment("general", "general");
    fs::create_dir(directory.path().join("out")).unwrap();
    let answer = gnomon(directory.path(), &["run", "x.yaml"]);
    assert_eq!(answer.status, 2);
    for part in ["x.yaml:3:", "data_directory", "already exists", "--data-directory"] {
        assert!(answer.err.contains(part), "{}", answer.err);
    }
    assert_eq!(answer.err.lines().count(), 1);
    assert_eq!(fs::read_dir(directory.path().join("out")).unwrap().count(), 0);
    let answer = gnomon(directory.path(), &["run", "-d", "no/such/place", "x.yaml"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("no/such/place': No such file"), "{}", answer.err);
    assert!(answer.err.contains("; name a place that can be written with --data-directory"), "{}", answer.err);
}

#[test]
fn files_that_are_no_experiments_are_refused() {
    let directory = directory();
    let answer = gnomon(directory.path(), &["run", "nope.yaml"]);
    assert_eq!(
        (answer.status, answer.err.as_str()),
        (2, "nope.yaml: this experiment file does not exist; correct the path\n")
    );
    let answer = gnomon(directory.path(), &["run", "."]);
    assert_eq!((answer.status, answer.err.as_str()), (2, ".: this is a directory; name the experiment file in it\n"));
    fs::write(directory.path().join("x.yaml"), b"\xff\xfe").unwrap();
    let answer = gnomon(directory.path(), &["check", "x.yaml"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.starts_with("x.yaml: is not text in UTF-8"), "{}", answer.err);
}

#[test]
fn every_mistake_is_reported_on_its_own_line() {
    let directory = experiment("stop_time: 10 s", "stop_time: 10 MB\n  sed: 1");
    let answer = gnomon(directory.path(), &["check", "x.yaml"]);
    assert_eq!(answer.status, 2);
    let lines: Vec<&str> = answer.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", answer.err);
    assert!(lines[0].starts_with("x.yaml:2:") && lines[1].starts_with("x.yaml:3:"), "{}", answer.err);
}

#[test]
fn check_explains_the_plan_and_runs_nothing() {
    let directory = experiment("general", "general");
    let answer = gnomon(directory.path(), &["check", "--seed", "5", "x.yaml"]);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    for part in ["10 sec", "seed 5", "2 nodes", "alice", "11.0.0.1", "bob", "11.0.0.2", "10 ms", "/bin/true"] {
        assert!(answer.out.contains(part), "'{part}' is not in {}", answer.out);
    }
    assert!(!directory.path().join("out").exists());
    fs::create_dir(directory.path().join("out")).unwrap();
    let answer = gnomon(directory.path(), &["check", "x.yaml"]);
    assert_eq!(answer.status, 0);
    assert!(answer.out.contains("a run would be refused"), "{}", answer.out);
}

#[test]
fn the_complete_experiment_reads_back() {
    let directory = experiment("general", "general");
    let first = gnomon(directory.path(), &["check", "--config", "x.yaml"]);
    assert_eq!(first.status, 0, "{}", first.err);
    fs::write(directory.path().join("complete.yaml"), &first.out).unwrap();
    let second = gnomon(directory.path(), &["check", "--config", "complete.yaml"]);
    assert_eq!((second.status, second.out), (0, first.out));
}

#[test]
fn an_experiment_is_read_from_standard_input() {
    let directory = experiment("general", "general");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    let input = fs::File::open(directory.path().join("x.yaml")).unwrap();
    let output = command.args(["check", "-"]).stdin(input).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    fs::write(directory.path().join("x.yaml"), "general: {sed: 1}\n").unwrap();
    let input = fs::File::open(directory.path().join("x.yaml")).unwrap();
    let answer = Answer::from(command.stdin(input).output().unwrap());
    assert_eq!(answer.status, 2);
    assert!(answer.err.starts_with("standard input:1:"), "{}", answer.err);
}

#[test]
fn help_contains_every_option() {
    let directory = directory();
    let page = gnomon(directory.path(), &["help", "options"]);
    let flags: Vec<&str> = page.out.split("(--").skip(1).filter_map(|rest| rest.split([',', ';']).next()).collect();
    assert!(flags.len() >= 40, "{flags:?}");
    for command in
        [&["run", "--help"][..], &["check", "--help"], &["exec", "--help"], &["help", "run"], &["shadow", "--help"]]
    {
        let answer = gnomon(directory.path(), command);
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{command:?}");
        for flag in &flags {
            assert!(answer.out.contains(&format!("--{flag} <")), "{command:?} lacks --{flag}");
        }
    }
}

#[test]
fn help_begins_with_examples_and_tells_exit_codes() {
    let directory = directory();
    for args in [&["--help"][..], &["-h"], &["help"], &["run", "--help"], &["exec", "-h"], &["check", "-h"]] {
        let answer = gnomon(directory.path(), args);
        assert_eq!(answer.status, 0, "{args:?}");
        let place = |text: &str| answer.out.find(text).unwrap_or_else(|| panic!("{args:?}: no '{text}'"));
        let first = place("Examples:");
        assert!(answer.out.find("Options:").is_none_or(|options| first < options), "{args:?}");
        if !args.contains(&"exec") {
            place("Exit status:");
        }
    }
    let version = gnomon(directory.path(), &["--version"]);
    assert_eq!(version.out, format!("gnomon {}\n", env!("CARGO_PKG_VERSION")));
    let unknown = gnomon(directory.path(), &["help", "nonsense"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.err.contains("exit-codes"), "{}", unknown.err);
}

/// What follows `gnomon help` in a text, up to the first word that can be no topic's, with its last words left out one by one.
fn topics_named(text: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = Vec::new();
    for pair in 0..words.len().saturating_sub(2) {
        if !words[pair].ends_with("gnomon") || words[pair + 1] != "help" {
            continue;
        }
        let mut topic = Vec::new();
        for word in words[pair + 2..].iter().take(2) {
            let name = word.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
            if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') {
                break;
            }
            topic.push(name);
            if name.len() < word.len() {
                break;
            }
        }
        found.extend((!topic.is_empty()).then_some(topic));
    }
    found
}

/// Whatever page or message says `gnomon help TOPIC`: there is that topic.
#[test]
fn topics_that_are_named_anywhere_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = ["src", "crates", "docs", "examples"].map(|name| root.join(name)).to_vec();
    let mut texts: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let is_text =
                path.extension().is_some_and(|ending| ["rs", "md", "txt", "yaml"].iter().any(|own| ending == *own));
            match path.is_dir() {
                true => folders.push(path),
                false if is_text => texts.push(path),
                false => {}
            }
        }
    }
    let directory = experiment("general", "general");
    let mut named = 0;
    for path in texts {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for topic in topics_named(&text) {
            let page = gnomon(directory.path(), &[&["help"], topic.as_slice()].concat());
            assert!(
                page.status == 0 && page.out.len() > 100,
                "{}: gnomon help {topic:?}: {}",
                path.display(),
                page.err
            );
            named += 1;
        }
    }
    assert!(named >= 5, "{named} topics are named");
    let own = gnomon(directory.path(), &["help", "tor", "new"]);
    assert!(own.out.contains("--scale") && own.out.contains("Profiles:"), "{}", own.out);
}

#[test]
fn mistakes_on_the_command_line_get_a_suggestion() {
    let directory = experiment("general", "general");
    let answer = gnomon(directory.path(), &["chek", "x.yaml"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("'check'"), "{}", answer.err);
    let answer = gnomon(directory.path(), &["x.yaml"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("gnomon run x.yaml"), "{}", answer.err);
    let answer = gnomon(directory.path(), &["run", "--stop-tim", "3", "x.yaml"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("--stop-time"), "{}", answer.err);
    let answer = gnomon(directory.path(), &["exec", "--bandwith", "1 Gbit", "true"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("--bandwidth"), "{}", answer.err);
    let answer = gnomon(directory.path(), &["exec", "--bandwidth", "1 Gb", "true"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.starts_with("--bandwidth: '1 Gb' is not a bandwidth"), "{}", answer.err);
    let answer = gnomon(directory.path(), &["exec", "no-such-program"]);
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("no program 'no-such-program' in PATH"), "{}", answer.err);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "temporary directories are removed");
}

#[test]
fn under_the_name_shadow_its_command_line_is_taken() {
    let directory = experiment("stop_time: 10 s", "stop_time: 10 MB");
    let shadow = directory.path().join("shadow");
    symlink(env!("CARGO_BIN_EXE_gnomon"), &shadow).unwrap();
    let shadow = |args: &[&str]| run(&shadow, directory.path(), args);

    let version = shadow(&["-V"]);
    assert_eq!(version.status, 0);
    assert!(version.out.starts_with("shadow 3.3.0"), "{}", version.out);
    let help = shadow(&["-h"]);
    assert_eq!(help.status, 0);
    for flag in
        ["-d, --data-directory", "-e, --template-directory", "-l, --log-level", "-p, --parallelism", "-g, --gdb"]
    {
        assert!(help.out.contains(flag), "{flag}");
    }
    for flag in ["--debug-hosts", "--shm-cleanup", "--show-build-info", "--show-config"] {
        assert!(help.out.contains(flag), "{flag}");
    }

    // What Gnomon answers with 2 is 1 here.
    assert_eq!(shadow(&["--no-such-option"]).status, 1);
    assert_eq!(shadow(&[]).status, 1);
    let bad = shadow(&["x.yaml"]);
    assert_eq!(bad.status, 1);
    assert!(bad.err.contains("** Shadow did not complete successfully: x.yaml:2:"), "{}", bad.err);
    let missing = shadow(&["--seed=666", "nope.yaml"]);
    assert_eq!(missing.status, 1);

    assert_eq!(shadow(&["--shm-cleanup"]).status, 0);
    assert!(shadow(&["--show-build-info"]).err.contains("Gnomon"));
    fs::write(directory.path().join("good.yaml"), EXPERIMENT).unwrap();
    let config = shadow(&["--show-config", "--use-cpu-pinning", "false", "--stop-time=7", "good.yaml"]);
    assert_eq!(config.status, 0, "{}", config.err);
    assert!(config.err.contains("use_cpu_pinning: false") && config.err.contains("stop_time: 7 sec"), "{}", config.err);
    assert!(!directory.path().join("out").exists());
}

#[test]
fn the_sandbox_holds_whichever_way_it_is_closed() {
    let directory = directory();
    for way in ["namespace", "user-namespace", "filter", "best"] {
        let answer = gnomon(directory.path(), &["check", &format!("--sandbox={way}")]);
        if answer.status == 1 && way != "best" && answer.err.contains(&format!("\n  {way}: ")) {
            // This machine refuses that way, and says why.
            continue;
        }
        assert_eq!(answer.status, 0, "{way}: {}{}", answer.out, answer.err);
        assert!(answer.out.contains("network: given up"), "{way}: {}", answer.out);
        assert!(answer.out.contains("a connection to the world: refused"), "{way}: {}", answer.out);
        if answer.out.contains("Landlock, ABI") {
            assert!(answer.out.contains("a file beside it: refused"), "{way}: {}", answer.out);
        }
        assert!(answer.out.contains("a file in the run's directory: possible"), "{way}: {}", answer.out);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "temporary directories are removed");
}

#[test]
fn exec_hands_on_output_and_exit_status() {
    let directory = directory();
    let exec = |args: &[&str]| gnomon(directory.path(), &[&["exec"], args].concat());
    let answer = exec(&["--seed", "3", "sh", "-c", "echo out $0 --seed; echo err >&2; exit 7", "--stop-time"]);
    assert_eq!((answer.status, answer.out.as_str(), answer.err.as_str()), (7, "out --stop-time --seed\n", "err\n"));
    let answer = exec(&["--env", "A=b c", "--env", "TMPDIR", "--env", "HOME=/", "env"]);
    assert_eq!(answer.status, 0);
    let mut variables: Vec<&str> = answer.out.lines().collect();
    variables.sort_unstable();
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let temporary = format!("TMPDIR={}", directory.path().display());
    assert_eq!(variables, ["A=b c", "HOME=/", "LOGNAME=root", path, &temporary, "USER=root"]);
    assert_eq!(exec(&["sh", "-c", "cd && pwd && ls > list && command -v ls"]).out, "/tmp\n/usr/bin/ls\n");
    assert_eq!(exec(&["date"]).out, "Sat Jan  1 00:00:00 UTC 2000\n");
    assert_eq!(exec(&["sh", "-c", "ulimit -n; ulimit -Hn"]).out, "1024\n1048576\n");
    assert_eq!(exec(&["--open-files", "5000", "sh", "-c", "ulimit -n; ulimit -Hn"]).out, "5000\n1048576\n");
    let answer = exec(&["perl", "-e", "kill 9, $$"]);
    assert_eq!((answer.status, answer.err.as_str()), (128 + 9, "gnomon: perl was killed by SIGKILL\n"));
    let answer = exec(&["--stop-time", "5 s", "sleep", "10"]);
    assert_eq!(answer.status, 124);
    assert!(answer.err.contains("still ran at the stop time, 5 sec"), "{}", answer.err);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "temporary directories are removed");

    let answer = exec(&["--data-directory", "kept", "true"]);
    assert_eq!(answer.status, 0);
    assert!(directory.path().join("kept/sim-stats.json").is_file());
}

#[test]
fn a_failed_experiment_names_its_guests() {
    let directory = experiment("/bin/true", "/bin/false");
    let answer = gnomon(directory.path(), &["run", "x.yaml"]);
    assert_eq!(answer.status, 1);
    for part in [
        "1 of 1 guests in an unexpected final state",
        "alice: /bin/false: exited with status 1",
        "stderr",
        "digest: ",
        " 1 guests, 0 packets, ",
    ] {
        assert!(answer.err.contains(part), "'{part}' is not in {}", answer.err);
    }
    let log = fs::read_to_string(directory.path().join("out/gnomon.log")).unwrap();
    assert!(log.contains("network: given up"), "{log}");
    let answer = gnomon(directory.path(), &["run", "--quiet", "--data-directory", "second", "--show-log", "x.yaml"]);
    assert_eq!(answer.status, 1);
    assert!(answer.out.contains("[alice:11.0.0.1]") && !answer.err.contains("digest"), "{}{}", answer.out, answer.err);
}

#[test]
fn the_log_under_the_name_shadow_is_what_its_tools_parse() {
    let directory = experiment("/bin/true", "/bin/false");
    let shadow = directory.path().join("shadow");
    symlink(env!("CARGO_BIN_EXE_gnomon"), &shadow).unwrap();
    let answer = run(&shadow, directory.path(), &["--parallelism=2", "--seed=666", "x.yaml"]);
    assert_eq!(answer.status, 1);
    assert!(answer.err.contains("1 managed processes in unexpected final state"), "{}", answer.err);
    let usage =
        answer.out.lines().find(|line| line.contains("Process resource usage at simtime")).expect("a heartbeat");
    let fields: Vec<&str> = usage.split_whitespace().collect();
    assert!(fields[0].split(':').count() == 3 && fields[12].parse::<u64>().is_ok(), "{usage}");
    assert!(usage.contains("reported by getrusage(): ru_maxrss="), "{usage}");
    assert!(answer.out.contains("ns reported by /proc/meminfo: {"), "{}", answer.out);

    let answer = run(&shadow, directory.path(), &["x.yaml"]);
    assert_eq!(answer.status, 1, "the data directory exists");
    fs::create_dir(directory.path().join("template")).unwrap();
    fs::write(directory.path().join("template/kept"), "").unwrap();
    fs::write(directory.path().join("x.yaml"), EXPERIMENT).unwrap();
    let answer = run(&shadow, directory.path(), &["-e", "template", "-d", "second", "x.yaml"]);
    assert_eq!(answer.status, 0, "{}", answer.err);
    assert!(directory.path().join("second/kept").is_file());
}

/// A run that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that would go on for years, begun: its log has a line. Whoever starts the tests may ignore signals, as shells do for what runs
/// in the background: the run has those that it is given.
fn endless(directory: &Path, loop_body: &str) -> Running {
    endless_with("--default-signal=INT,TERM,HUP", directory, loop_body)
}

fn endless_with(signals: &str, directory: &Path, loop_body: &str) -> Running {
    let script = format!("{loop_body} while 1");
    let args = ["exec", "--show-log", "--data-directory", "out", "--stop-time", "100000 h", "perl", "-e", &script];
    let mut command = Command::new("env");
    command.args([signals, env!("CARGO_BIN_EXE_gnomon")]).args(args).current_dir(directory);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(run.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("Gnomon "), "{line}");
    run
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

#[test]
fn the_first_interrupt_ends_a_run_with_its_recordings() {
    let calls = "select(undef, undef, undef, 0.001)";
    for (sent, status, body) in
        [(Signal::SIGINT, 130, calls), (Signal::SIGTERM, 143, calls), (Signal::SIGINT, 130, "$i++")]
    {
        let directory = directory();
        let mut run = endless(directory.path(), body);
        let begun = WallClock::start();
        run.signal(sent);
        assert_eq!(run.0.wait().unwrap().code(), Some(status), "{body}");
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "before the budget of a guest that computes is used up: {body}"
        );
        assert!(directory.path().join("out/sim-stats.json").is_file());
        // No state is final, and nothing happened at the stop time.
        let mut log = String::new();
        run.0.stdout.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(!log.contains("unexpected final state") && !log.contains("100000:00:00"), "{log}");
    }
}

#[test]
fn a_run_that_stands_still_says_where_and_can_be_stopped() {
    let directory = directory();
    fs::write(directory.path().join("count.c"), "int main(void) { volatile long n = 0; for (;;) n++; }").unwrap();
    let built = Command::new("cc").args(["-o", "count", "count.c"]).current_dir(directory.path()).status();
    assert!(built.expect("cc: tools/install-packages build").success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    command.args([
        "exec",
        "--data-directory",
        "out",
        "--compute-budget",
        "null",
        "--standstill-after",
        "500 ms",
        "./count",
    ]);
    command.current_dir(directory.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Running(command.spawn().unwrap());
    let mut err = BufReader::new(run.0.stderr.take().unwrap());
    // Now and then the worker looks itself whether the loop could end: one of the reports meets the program.
    let reports = (0..5).map(|_| err.by_ref().lines().take(3).map(|line| line.unwrap()).collect::<Vec<String>>());
    let mut seen = Vec::new();
    for lines in reports {
        assert!(lines[0].starts_with("gnomon: no progress for "), "{lines:?}");
        assert!(lines[1].contains("simulated time 00:00:00"), "{lines:?}");
        assert!(lines[2].contains("host host, process 1000, thread 1000: in the "), "{lines:?}");
        seen.push(lines[2].clone());
        if lines[2].contains("main+0x") {
            break;
        }
    }
    let last = seen.last().expect("a report");
    assert!(last.contains("in the program at 0x") && last.contains("/count+0x"), "{seen:?}");
    run.signal(Signal::SIGTERM);
    assert_eq!(run.0.wait().unwrap().code(), Some(143));
    assert!(directory.path().join("out/sim-stats.json").is_file());
}

#[test]
fn an_interrupt_that_was_ignored_from_the_start_stays_so() {
    let directory = directory();
    let mut run = endless_with("--ignore-signal=INT", directory.path(), "select(undef, undef, undef, 0.001)");
    run.signal(Signal::SIGINT);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.0.wait().unwrap().code(), Some(143), "the first signal that counts is the second");
    assert!(directory.path().join("out/sim-stats.json").is_file());
}

/// As timeout(1) sends it: to the process, and to its group.
#[test]
fn a_signal_that_comes_twice_at_once_counts_once() {
    let directory = directory();
    let mut run = endless(directory.path(), "select(undef, undef, undef, 0.001)");
    run.signal(Signal::SIGTERM);
    let mut line = String::new();
    BufReader::new(run.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("SIGTERM once more ends it at once"), "{line}");
    run.signal(Signal::SIGTERM);
    assert_eq!(run.0.wait().unwrap().code(), Some(143));
    assert!(directory.path().join("out/sim-stats.json").is_file());
}

#[test]
fn the_second_interrupt_ends_a_run_that_does_not_yield() {
    let directory = directory();
    let mut run = endless(directory.path(), "$i++");
    run.signal(Signal::SIGINT);
    run.signal(Signal::SIGTERM);
    let mut line = String::new();
    BufReader::new(run.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("SIGINT once more ends it at once"), "{line}");
    assert_eq!(run.0.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}
