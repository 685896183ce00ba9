//! Guests that compute without calls: others go on, loops that only wait cost nothing and repeat to the bit, and what computes past
//! its budget, or on a modelled processor, takes simulated time and says so.

mod common;

use common::{
    Output, capture, compile, compile_with, digest, find_program, folder, gnomon, read, run_well, stats, tree,
};
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "tests/guest-programs/busy/loop.c";

/// A folder with the program, and an experiment of these hosts: (name, processes).
fn lab(name: &str, stop_s: u32, options: &str, hosts: &[(&str, &[&str])]) -> PathBuf {
    let folder = folder(&format!("busy-loops/{name}"));
    compile(PROGRAM, &folder);
    fs::create_dir(folder.join("fixed")).unwrap();
    compile_with(PROGRAM, &folder.join("fixed"), &["-no-pie", "-fno-pie"]);
    let mut text = format!(
        "general: {{ stop_time: {stop_s} s, data_directory: run.data, template_directory: template }}\n{options}\n\
         network:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        \
         node [ id 0 host_bandwidth_down \"100 Mbit\" host_bandwidth_up \"100 Mbit\" ]\n        \
         edge [ source 0 target 0 latency \"10 ms\" ]\n      ]\nhosts:\n"
    );
    for (index, (host, processes)) in hosts.iter().enumerate() {
        text += &format!("  {host}:\n    network_node_id: 0\n    ip_addr: 11.0.0.{}\n    processes:\n", index + 1);
        processes.iter().for_each(|process| text += &format!("    - {{ {process} }}\n"));
    }
    fs::write(folder.join("experiment.yaml"), text).unwrap();
    fs::create_dir_all(folder.join("template/hosts")).unwrap();
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let data = folder.join("run.data");
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    run_well(folder, "experiment.yaml", arguments)
}

fn computing(folder: &Path, key: &str) -> serde_json::Value {
    stats(&folder.join("run.data"))["gnomon"]["computing"][key].clone()
}

/// What the only process of a host printed, as a number.
fn printed(folder: &Path, host: &str) -> f64 {
    let files = tree(&folder.join("run.data/hosts").join(host));
    let outputs: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".stdout")).collect();
    assert_eq!(outputs.len(), 1, "{host}");
    String::from_utf8_lossy(outputs[0].1).trim().parse().expect("a number")
}

const FOREVER: &str = "path: ./loop, args: forever, expected_final_state: running";

#[test]
fn an_endless_loop_stops_nobody_else_and_repeats_to_the_bit() {
    let nginx = find_program("nginx").expect("nginx: tools/install-packages test").display().to_string();
    let nginx = format!("path: {nginx}, args: -p . -c nginx.conf -e error.log, expected_final_state: running");
    let fetch = "path: curl, args: -q -s -S -o body http://web/page, start_time: 2 s";
    let hosts: [(&str, &[&str]); 4] = [
        ("web", &[&nginx, FOREVER]),
        ("busy", &[FOREVER, fetch]),
        ("other", &[fetch]),
        (
            "fixed",
            &[
                "path: ./fixed/loop, args: forever, expected_final_state: running",
                "path: ./fixed/loop, args: turns 100",
            ],
        ),
    ];
    let lab = lab("endless", 10, "", &hosts);
    let web = lab.join("template/hosts/web");
    fs::create_dir_all(web.join("www")).unwrap();
    let content: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    fs::write(web.join("www/page"), &content).unwrap();
    fs::copy(common::root().join("examples/web-demo/template/hosts/nginx/nginx.conf"), web.join("nginx.conf")).unwrap();

    let mut results = Vec::new();
    for workers in ["1", "2", "2"] {
        run(&lab, &["--parallelism", workers]);
        let data = lab.join("run.data");
        for host in ["busy", "other"] {
            assert!(read(&data.join("hosts").join(host).join("body")) == content, "{host} has another file");
        }
        assert_eq!(computing(&lab, "reproducible"), true);
        assert_eq!(computing(&lab, "preemptions"), 0, "a loop was not recognised");
        results.push((digest(&data), computing(&lab, "spins"), tree(&data.join("hosts"))));
    }
    assert!(results[0].1.as_u64().unwrap() >= 100, "{}", results[0].1);
    assert!(results[0] == results[1] && results[1] == results[2], "the runs differ");
}

#[test]
fn computing_past_the_budget_takes_time_and_is_named() {
    let hosts: [(&str, &[&str]); 3] = [
        ("endless", &["path: ./fixed/loop, args: count-forever, expected_final_state: running"]),
        ("same", &["path: ./fixed/loop, args: work 1000", "path: sleep, args: 3"]),
        ("alarm", &["path: ./loop, args: count-until 700"]),
    ];
    let lab = lab("budget", 5, "experimental: { compute_budget: 100 ms }", &hosts);
    let output = run(&lab, &["--parallelism", "2"]);
    assert_eq!(computing(&lab, "reproducible"), false);
    assert_eq!(computing(&lab, "over_budget"), 2);
    assert!(computing(&lab, "preemptions").as_u64().unwrap() >= 10);
    // The signal comes while the loop's time moves, and ends that.
    assert!((700.0..701.0).contains(&printed(&lab, "alarm")), "{}", printed(&lab, "alarm"));
    assert!(output.stderr.contains("not reproducible to the bit: 2 guests computed past"), "{}", output.stderr);
    let log = read(&lab.join("run.data/gnomon.log"));
    for name in ["[endless:11.0.0.1]", "[alarm:11.0.0.3]"] {
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains(name) && line.contains("processor time")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains("(1000): computed for 100ms of processor time"), "{}", lines[0]);
    }
}

/// What `measure` prints, in a run that can be repeated.
fn measured(name: &str, ways: &[&str]) -> Vec<String> {
    let (folder, texts) = run_measure(name, ways);
    assert_eq!(computing(&folder, "reproducible"), true);
    texts
}

/// What `measure` prints, on a host of its own for each way to call it, and the experiment's folder.
fn run_measure(name: &str, ways: &[&str]) -> (PathBuf, Vec<String>) {
    let folder = folder(&format!("busy-loops/{name}"));
    compile("tests/guest-programs/busy/measure.c", &folder);
    let mut text =
        "general: { stop_time: 60 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
                    hosts:\n"
            .to_owned();
    for (index, way) in ways.iter().enumerate() {
        let program = folder.join("measure").display().to_string();
        text += &format!("  h{index}: {{ network_node_id: 0, processes: [ {{ path: {program}, args: {way} }} ] }}\n");
    }
    fs::write(folder.join("experiment.yaml"), text).unwrap();
    run(&folder, &["--parallelism", "1"]);
    let hosts = folder.join("run.data/hosts");
    let texts = (0..ways.len()).map(|index| read(&hosts.join(format!("h{index}/measure.1000.stdout")))).collect();
    (folder, texts)
}

#[test]
fn loops_that_read_clocks_until_time_passes_end_and_repeat_to_the_bit() {
    let ways = ["double 20", "processor", "until 200", "interrupted 200"];
    let first = measured("clock-loops", &ways);
    for (text, bounds) in first.iter().zip([(160.0, 1_600.0), (100.0, 2_000.0), (200.0, 250.0), (200.0, 250.0)]) {
        let took: f64 = text.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a time");
        assert!((bounds.0..bounds.1).contains(&took), "{text}");
    }
    assert_eq!(measured("clock-loops", &ways), first, "what they measure is no machine's");
}

/// Loops whose pieces are too short to be looked at, at first or each. Whether they are found in time depends on the machine, which the run says.
#[test]
fn loops_of_short_pieces_end() {
    for (way, bounds) in [("grow 200", (200.0, 4_000.0)), ("short 300", (300.0, 700.0))] {
        let text = &run_measure("short-pieces", &[way]).1[0];
        let took: f64 = text.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a time");
        assert!((bounds.0..bounds.1).contains(&took), "{way}: {text}");
    }
}

#[test]
fn programs_that_stamp_what_they_do_take_no_time_for_it() {
    let texts = measured("stamps", &["stamps 3", "stamps 15000"]);
    for text in texts {
        assert!(text.ends_with(" 0.000\n"), "{text}");
    }
}

#[test]
fn finite_computing_takes_no_time_without_a_budget() {
    let lab = lab(
        "finite",
        5,
        "experimental: { compute_budget: null }",
        &[("host", &["path: ./loop, args: work 200000000"])],
    );
    run(&lab, &[]);
    assert_eq!(printed(&lab, "host"), 0.0);
    assert_eq!(computing(&lab, "reproducible"), true);
}

#[test]
fn shadow_s_preemption_moves_time_by_its_interval() {
    let options = "experimental: { native_preemption_enabled: true, native_preemption_native_interval: 20 ms, \
                   native_preemption_sim_interval: 50 ms }";
    let lab = lab("shadow", 5, options, &[("host", &["path: ./loop, args: count-until 990"])]);
    run(&lab, &[]);
    let times = computing(&lab, "preemptions").as_u64().unwrap();
    assert_eq!(times, 20);
    assert_eq!(computing(&lab, "preempted_ns"), times * 50_000_000);
    assert_eq!(printed(&lab, "host"), 990.0);
}

#[test]
fn a_modelled_processor_takes_time_for_work_by_its_speed() {
    let hosts: [(&str, &[&str]); 4] = [
        ("fast", &["path: ./loop, args: work 20000000"]),
        ("receiver", &["path: ./loop, args: receive"]),
        ("sender", &["path: ./loop, args: work-and-send 20000000 11.0.0.2"]),
        ("slow", &["path: ./loop, args: work 20000000"]),
    ];
    let lab = lab("model", 100, "", &hosts);
    let experiment = read(&lab.join("experiment.yaml"));
    let with_speeds = ["fast: 1", "sender: 0.02", "slow: 0.02"].iter().fold(experiment, |text, pair| {
        let (host, speed) = pair.split_once(": ").unwrap();
        text.replace(&format!("  {host}:\n"), &format!("  {host}:\n    host_options: {{ cpu_speed: {speed} }}\n"))
    });
    fs::write(lab.join("experiment.yaml"), with_speeds).unwrap();
    let output = run(&lab, &[]);
    let [fast, slow, arrival] = ["fast", "slow", "receiver"].map(|host| printed(&lab, host));
    assert!(fast > 1.0, "{fast} ms");
    // Measured times: the same work varies, but not by that much.
    assert!(slow > 8.0 * fast, "{slow} ms, {fast} ms");
    assert!(arrival > 8.0 * fast, "the datagram leaves when its sender has worked: {arrival} ms");
    assert_eq!(computing(&lab, "reproducible"), false);
    assert!(computing(&lab, "charged_ns").as_u64().unwrap() > 100_000_000);
    assert!(output.stderr.contains("as measured (cpu_speed)"), "{}", output.stderr);
    assert!(read(&lab.join("run.data/gnomon.log")).contains("cpu_speed: computing takes simulated time on 3 hosts"));
}

/// A host's own cost of calls is the same in every run, and holds up nobody else.
#[test]
fn calls_take_as_long_as_their_host_says() {
    let copies = "path: dd, args: if=/dev/zero of=/dev/null bs=1 count=1000";
    let lab = lab("call-latency", 10, "", &[("usual", &[copies]), ("slow", &[copies])]);
    let experiment = read(&lab.join("experiment.yaml"));
    let slow = experiment.replace("  slow:\n", "  slow:\n    host_options: { call_latency: 1 ms }\n");
    fs::write(lab.join("experiment.yaml"), slow).unwrap();
    let took = |host: &str| -> f64 {
        let said = read(&lab.join(format!("run.data/hosts/{host}/dd.1000.stderr")));
        let seconds = said.lines().last().and_then(|line| line.split(", ").find_map(|part| part.strip_suffix(" s")));
        seconds.unwrap_or_else(|| panic!("{host}: {said}")).parse().expect("seconds")
    };
    run(&lab, &["--parallelism", "1"]);
    let first = digest(&lab.join("run.data"));
    // A read and a write for each byte; and some to begin with.
    assert!((2.0..2.1).contains(&took("slow")) && took("usual") < 0.001, "{} and {} s", took("slow"), took("usual"));
    assert_eq!(computing(&lab, "reproducible"), true);
    run(&lab, &["--parallelism", "2"]);
    assert_eq!(digest(&lab.join("run.data")), first);
}

#[test]
fn what_the_processor_is_asked_on_a_modelled_one_is_answered() {
    // Two, so that each has to wait for the other: by their exit status they say whether all was well.
    let asks = "path: ./loop, args: ask 50";
    let lab = lab("asking", 100, "host_option_defaults: { cpu_speed: 0.1 }", &[("host", &[asks, asks])]);
    run(&lab, &[]);
}

#[test]
fn openssl_speed_comes_to_its_end() {
    let folder = folder("busy-loops/openssl");
    let mut command = gnomon();
    command.args(["exec", "--compute-budget", "200 ms", "--", "openssl"]);
    command.args(["speed", "-seconds", "1", "-bytes", "1024", "sha256"]).current_dir(&folder);
    let output = capture(&mut command);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stdout.contains("sha256"), "{}", output.stdout);
    assert!(output.stderr.contains("sha256") && output.stderr.contains("in 1.00s"), "{}", output.stderr);
}

/// Waits for a time on the clock and for a byte in a pipe, without ever blocking; prints how late it noticed, in microseconds.
const POLLER: &str = "\
import os, select, threading, time
now = time.monotonic_ns
for wait in 10, 100, 1_000, 20_000, 300_000:
    for look in (lambda: None), os.sched_yield:
        start = now()
        while now() - start < wait * 1000: look()
        print(wait, (now() - start) // 1000 - wait)
reader, writer = os.pipe()
begin = now()
def write():
    time.sleep(0.05)
    os.write(writer, b'x')
threading.Thread(target=write).start()
while not select.select([reader], [], [], 0)[0]: pass
print(50_000, (now() - begin) // 1000 - 50_000)
";

#[test]
fn polling_loops_notice_soon() {
    let folder = folder("busy-loops/polling");
    let mut command = gnomon();
    command.args(["exec", "--quiet", "python3", "-c", POLLER]).current_dir(&folder);
    let output = capture(&mut command);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let mut lines = 0;
    for line in output.stdout.lines() {
        let (wait, late) = line.split_once(' ').expect("two numbers");
        let (wait, late): (u64, u64) = (wait.parse().unwrap(), late.parse().unwrap());
        assert!(late <= (wait / 10).clamp(20, 500), "{late} us late after {wait} us: {}", output.stdout);
        lines += 1;
    }
    assert_eq!(lines, 11, "{}", output.stdout);
}
