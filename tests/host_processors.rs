//! `cpus`: what programs see of a host's processors, where threads are that choose one, and how many compute
//! at once where computing takes simulated time.

mod common;

use common::{
    capture, compile, digest, find_program, find_python, folder, gnomon, leave_out, read, run_well, stats, tree,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "tests/guest-programs/hosts/processors.c";

/// A folder with the program, and an experiment of hosts: (name, options, process). None of them talks to another.
/// `./processors` is the program.
fn lab(name: &str, hosts: &[(&str, &str, &str)]) -> PathBuf {
    let folder = folder(&format!("host-processors/{name}"));
    let program = compile(PROGRAM, &folder).display().to_string();
    let mut text = "general: { stop_time: 60 s, data_directory: run.data }\n\
                    network: { graph: { type: 1_gbit_switch } }\nhosts:\n"
        .to_owned();
    for (host, options, process) in hosts {
        let process = process.replace("./processors", &program);
        text += &format!(
            "  {host}:\n    network_node_id: 0\n    host_options: {{ {options} }}\n    processes: [ {{ {process} }} ]\n"
        );
    }
    fs::write(folder.join("experiment.yaml"), text).unwrap();
    folder
}

fn run(folder: &Path, workers: &str) {
    let data = folder.join("run.data");
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    run_well(folder, "experiment.yaml", &["--parallelism", workers]);
}

/// What the process of a host printed.
fn printed(folder: &Path, host: &str) -> String {
    let files = tree(&folder.join("run.data/hosts").join(host));
    let outputs: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".stdout")).collect();
    assert_eq!(outputs.len(), 1, "{host}");
    String::from_utf8_lossy(outputs[0].1).into_owned()
}

fn milliseconds(folder: &Path, host: &str) -> f64 {
    printed(folder, host).trim().parse::<f64>().expect("a number") / 1e3
}

/// A process of an experiment that executes a command of the shell.
fn shell(command: &str) -> String {
    format!("path: bash, args: [-c, '{command}']")
}

#[test]
fn programs_see_as_many_processors_as_the_host_has() {
    let counts = shell(
        "nproc; taskset -c 0 nproc; grep -c ^processor /proc/cpuinfo; grep -c ^cpu[0-9] /proc/stat; \
         cat /sys/devices/system/cpu/{online,possible,present}; taskset -cp $$ | sed s/.*:.//; \
         ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l; getconf _NPROCESSORS_ONLN; getconf _NPROCESSORS_CONF; \
         wc -l < /proc/net/softnet_stat; head -1 /proc/interrupts | wc -w; cat /sys/devices/system/node/node0/cpulist",
    );
    let lab = lab("counts", &[("one", "", &counts), ("four", "cpus: 4", &counts), ("most", "cpus: 256", &counts)]);
    run(&lab, "1");
    for (host, count) in [("one", 1), ("four", 4), ("most", 256)] {
        let list = if count == 1 { "0".to_owned() } else { format!("0-{}", count - 1) };
        let expected = format!(
            "{count}\n1\n{count}\n{count}\n{list}\n{list}\n{list}\n{list}\n{count}\n{count}\n{count}\n{count}\n{count}\n{list}\n"
        );
        assert_eq!(printed(&lab, host), expected, "{host}");
    }
    let config = read(&lab.join("run.data/processed-config.yaml"));
    assert!(config.contains("cpus: 4") && config.contains("cpus: 256"), "{config}");
}

#[test]
fn languages_count_the_host_s_processors() {
    let mut hosts = Vec::new();
    match find_python() {
        Some(python) => {
            let count = "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))";
            hosts.push(("python", format!("path: {python}, args: [-c, \"{count}\"]"), "6 6\n"));
        }
        None => leave_out("no python3"),
    }
    match find_program("java") {
        Some(_) => {
            // As many as there are processors, up to eight.
            let flags = "java -XX:+UseParallelGC -XX:+PrintFlagsFinal -version 2>&1";
            hosts.push(("java", shell(&format!("{flags} | grep -w ParallelGCThreads | tr -dc 0-9")), "6"));
        }
        None => leave_out("no java"),
    }
    let processes: Vec<_> = hosts.iter().map(|(host, process, _)| (*host, "cpus: 6", process.as_str())).collect();
    let lab = lab("languages", &processes);
    run(&lab, "2");
    for (host, _, expected) in &hosts {
        assert_eq!(printed(&lab, host), *expected, "{host}");
    }
}

/// The host is given as many processors as this machine has.
#[test]
fn masks_and_places_are_as_on_linux() {
    let list = |file: &str| fs::read_to_string(format!("/sys/devices/system/cpu/{file}")).unwrap_or_default();
    let count: u16 =
        list("online").trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok()).unwrap_or(0) + 1;
    let all = if count == 1 { "0\n".to_owned() } else { format!("0-{}\n", count - 1) };
    let may_use_all = fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.contains(&format!("Cpus_allowed_list:\t{all}")));
    if count > 256 || !may_use_all || [list("online"), list("possible")].iter().any(|list| *list != all) {
        println!("left out: the machine has processors that this test may not use, or gaps between them");
        return;
    }
    let last = count - 1;
    let options = format!("cpus: {count}");
    let pinned = format!("path: taskset, args: [-c, '{last}', ./processors, see]");
    let lab = lab("masks", &[("free", &options, "path: ./processors, args: see"), ("pinned", &options, &pinned)]);
    run(&lab, "1");
    let mut free = Command::new(lab.join("processors"));
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &last.to_string()]).arg(lab.join("processors"));
    for (host, command) in [("free", &mut free), ("pinned", &mut pinned)] {
        let native = capture(command.arg("see"));
        assert_eq!(native.code(), 0, "{}", native.stderr);
        assert_eq!(printed(&lab, host), native.stdout, "{host}");
    }
}

/// Without a model of time the places of threads are the only effect.
#[test]
fn threads_and_processes_are_spread_over_the_processors() {
    let folder = folder("host-processors/spread");
    let experiment = "general: { stop_time: 5 s, data_directory: run.data }\n\
                      network: { graph: { type: 1_gbit_switch } }\nhosts:\n  host:\n    network_node_id: 0\n    \
                      host_options: { cpus: 4 }\n    processes:\n    - { path: bash, args: [-c, 'for i in 1 2 3 4 5; do \
                      cut -d\" \" -f39 /proc/self/stat; done; for i in 1 2 3; do taskset -c 1,3 cut -d\" \" -f39 \
                      /proc/self/stat; done'] }\n";
    fs::write(folder.join("experiment.yaml"), experiment).unwrap();
    run(&folder, "1");
    assert_eq!(printed(&folder, "host"), "1\n2\n3\n0\n1\n3\n3\n1\n");
}

/// The simulated time that threads take follows from the number of processors.
#[test]
fn as_many_threads_compute_at_once_as_there_are_processors() {
    let calls = |threads: u32| format!("path: ./processors, args: calls {threads} 1000");
    let slow = |count: u32| format!("call_latency: 100 us, cpus: {count}");
    let (four, five, eight) = (calls(4), calls(5), calls(8));
    let pinned = "path: taskset, args: [-c, '2', ./processors, calls, '4', '1000']";
    let hosts = [
        ("two", slow(2), four.as_str()),
        ("three", slow(3), &four),
        ("four", slow(4), &four),
        ("many", slow(64), &four),
        ("pinned", slow(4), pinned),
        ("five", slow(4), &five),
        ("eight", slow(4), &eight),
        ("untimed", "cpus: 4".to_owned(), &four),
    ];
    let all: Vec<_> = hosts.iter().map(|(host, options, process)| (*host, options.as_str(), *process)).collect();
    let lab = lab("calls", &all);
    run(&lab, "1");
    let first = digest(&lab.join("run.data"));
    let expected = [
        ("two", 200.0),
        ("three", 133.0),
        ("four", 100.0),
        ("many", 100.0),
        ("pinned", 400.0),
        ("five", 125.0),
        ("eight", 200.0),
    ];
    let times: Vec<(&str, f64)> = all.iter().map(|(host, ..)| (*host, milliseconds(&lab, host))).collect();
    let took = |host: &str| times.iter().find(|(known, _)| *known == host).expect("a host").1;
    for (host, expected) in expected {
        // Threads are also started and waited for, and the last slices are not all of one length.
        assert!((expected..expected + 9.0).contains(&took(host)), "{host}: {times:?}");
    }
    assert_eq!(took("untimed"), 0.0);
    assert_eq!(stats(&lab.join("run.data"))["gnomon"]["computing"]["reproducible"], true);
    run(&lab, "2");
    assert_eq!(digest(&lab.join("run.data")), first);
}

#[test]
fn threads_of_a_host_with_one_processor_compute_one_after_the_other() {
    let lab = lab("one", &[("one", "call_latency: 100 us", "path: ./processors, args: calls 4 1000")]);
    run(&lab, "1");
    let took = milliseconds(&lab, "one");
    assert!((400.0..409.0).contains(&took), "{took} ms");
}

#[test]
fn measured_computing_takes_a_share_of_its_time_on_several_processors() {
    let work = "path: ./processors, args: work 4 20000000";
    let lab = lab("measured", &[("two", "cpu_speed: 0.1, cpus: 2", work), ("four", "cpu_speed: 0.1, cpus: 4", work)]);
    run(&lab, "1");
    let (two, four) = (milliseconds(&lab, "two"), milliseconds(&lab, "four"));
    // Measured times vary with the machine's load.
    assert!(four > 50.0 && two > 1.3 * four && two < 3.0 * four, "{two} and {four} ms");
}

#[test]
fn a_number_of_processors_that_no_host_has_is_refused() {
    let folder = lab("refused", &[("host", "cpus: 0", "path: true")]);
    let mut check = gnomon();
    let output = capture(check.args(["check", "experiment.yaml"]).current_dir(&folder));
    assert_ne!(output.code(), 0);
    let expected = "experiment.yaml:6:27: hosts.host.host_options.cpus: '0' is not a whole number from 1 to 256";
    assert!(output.stderr.contains(expected), "{}", output.stderr);
}
