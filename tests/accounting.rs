//! What a run tells of its workers' time: the table of windows, and what the report draws of it.

mod common;

use common::{capture, folder, gnomon, phold, read, run_well, stats};
use std::fs;
use std::path::Path;

#[test]
fn a_run_says_what_its_workers_time_went_into() {
    let folder = folder("accounting");
    fs::write(folder.join("phold.yaml"), phold(20, 50)).expect("a file");
    for workers in ["1", "2"] {
        run_well(&folder, "phold.yaml", &["--parallelism", workers, "-d", &format!("workers{workers}")]);
    }
    let run = report::read_run(&folder.join("workers2"), "two").expect("a run");
    assert!(run.damage.is_empty(), "{:?}", run.damage);
    let stats = stats(&folder.join("workers2"));
    for worker in 0..2 {
        let rows: Vec<_> = run.windows.iter().filter(|window| window.worker == worker).collect();
        let windows: u64 = rows.iter().map(|window| window.windows).sum();
        assert_eq!(stats["gnomon"]["windows"], windows, "each window is in a row");
        assert!(rows.is_sorted_by(|a, b| a.start_s < b.start_s), "in their order");
        let counted = &stats["gnomon"]["workers"][worker];
        let same = |name: &str, sum: f64| {
            let told = counted[name].as_f64().expect("a number") / 1e9;
            assert!((told - sum).abs() < 1e-6, "{name}: {told} is not the sum {sum}");
        };
        same("running_ns", rows.iter().map(|window| window.running_s).sum());
        same("stealing_ns", rows.iter().map(|window| window.stealing_s).sum());
        same("waiting_ns", rows.iter().map(|window| window.waiting_s).sum());
        // The parts are all that there is.
        let wall = stats["gnomon"]["wall_ns"].as_f64().expect("a number") / 1e9;
        let parts: f64 = rows.iter().map(|window| window.wall_s()).sum();
        assert!(parts > 0.3 * wall && parts < wall, "{parts} of {wall}");
    }
    let sampled: f64 = run.windows.iter().map(|window| window.guest_s + window.kernel_s + window.stack_s).sum();
    let run_for: f64 = run.windows.iter().map(|window| window.running_s + window.stealing_s).sum();
    assert!(sampled > 0.3 * run_for && sampled < 1.7 * run_for, "samples see {sampled} of {run_for}");

    let output = capture(gnomon().args(["report", "workers1", "workers2", "-o", "report"]).current_dir(&folder));
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let table = |name: &str| read(&folder.join("report").join(name));
    let rows = |name: &str| table(name).lines().count() - 1;
    assert_eq!(rows("workers.csv"), 3 * 6, "three workers, by what they did: {}", table("workers.csv"));
    assert_eq!(rows("workers-speed.csv"), 2, "{}", table("workers-speed.csv"));
    assert!(rows("pace.csv") > 20 && rows("workers-waiting.csv") > 20);
}

#[test]
fn a_damaged_table_is_told_and_costs_nothing_else() {
    let folder = folder("accounting-damaged");
    fs::write(folder.join("phold.yaml"), phold(1, 50)).expect("a file");
    run_well(&folder, "phold.yaml", &["-d", "data"]);
    let path = folder.join("data/windows.parquet");
    let whole = fs::read(&path).expect("a file");
    let spoilt = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        let run = report::read_run(Path::new(&folder.join("data")), "one").expect("a run");
        assert!(run.windows.is_empty() && run.stats.is_some());
        assert!(run.damage.iter().any(|damage| damage.file.contains("windows.parquet")), "{:?}", run.damage);
    };
    spoilt(&whole[..whole.len() / 2]);
    spoilt(b"");
    let mut torn = whole.clone();
    torn[4..40].fill(0xff);
    let tail = torn.len() - 40;
    torn[tail..tail + 20].fill(0x7f);
    spoilt(&torn);
}

#[test]
fn a_traced_run_has_each_packet_in_its_log() {
    let folder = folder("accounting-trace");
    fs::write(folder.join("phold.yaml"), phold(2, 50)).expect("a file");
    let log = |name: &str, arguments: &[&str]| {
        run_well(&folder, "phold.yaml", &[&["-d", name, "--log-level", "trace"], arguments].concat());
        let text = read(&folder.join(name).join("gnomon.log"));
        // What is said of the machine and of this call, before the first event.
        text.lines().filter(|line| !line.starts_with("n/a")).map(str::to_owned).collect::<Vec<_>>()
    };
    let one = log("one", &["--parallelism", "1"]);
    let count = |word: &str| one.iter().filter(|line| line.contains(&format!("] {word} 10.1.0."))).count() as u64;
    let network = &stats(&folder.join("one"))["gnomon"]["network"];
    assert_eq!(network["packets_sent"], count("sent"));
    assert_eq!(network["packets_delivered"], count("received"));
    assert!(count("sent") > 1000);
    assert!(one == log("two", &["--parallelism", "2"]), "the order does not depend on workers");

    // The logger that laboratories compare with has the same lines in some order.
    let mut at_once = log("at-once", &["--parallelism", "2", "--log-at-once"]);
    let mut sorted = one.clone();
    at_once.sort();
    sorted.sort();
    assert!(at_once == sorted);
}

#[test]
fn a_run_with_one_worker_estimates_its_time_with_more() {
    let folder = folder("accounting-forecast");
    fs::write(folder.join("phold.yaml"), phold(20, 50)).expect("a file");
    run_well(&folder, "phold.yaml", &["-d", "one", "--parallelism", "1", "--forecast"]);
    let stats = &stats(&folder.join("one"))["gnomon"];
    let estimated: Vec<(u64, u64)> = stats["forecast"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| (entry["workers"].as_u64().expect("a number"), entry["wall_ns"].as_u64().expect("a number")))
        .collect();
    assert_eq!(estimated.iter().map(|(workers, _)| *workers).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64]);
    let wall = stats["wall_ns"].as_u64().expect("a number");
    let (one, two) = (estimated[0].1, estimated[1].1);
    // The processor time, which is less than what passed; other programs are not in it.
    assert!(0 < one && one < wall, "{estimated:?}, {wall}");
    assert!(two < one && 3 * two > one, "two share the work, but not perfectly: {estimated:?}");
    let log = read(&folder.join("one/gnomon.log"));
    assert!(log.contains("with 16 workers"), "{log}");
    let refused =
        capture(gnomon().args(["run", "--parallelism", "2", "--forecast", "phold.yaml"]).current_dir(&folder));
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("--parallelism 1"), "{}", refused.stderr);
}
