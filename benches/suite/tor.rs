//! (e): a private Tor network of 12 relays and authorities and 56 clients, for 15 simulated minutes; `--quick`: the tiny one.

use crate::Extent;
use crate::measure::{Programs, gnomon, seconds};
use crate::report::{Line, Report, Samples, Target};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const TINY: &[&str] = &["--profile", "tiny"];
const NETWORK: &[&str] = &[
    "--authorities=3",
    "--guards=3",
    "--exits=2",
    "--guard-exits=1",
    "--middles=3",
    "--web-clients=46",
    "--bulk-clients=2",
    "--performance-clients=8",
    "--servers=4",
    "--amount=endless",
    "--bootstrap=5 min",
    "--duration=15 min",
];

pub fn measure(programs: &Programs, extent: Extent, report: &mut Report) {
    report.section(if extent.quick {
        "(e) tiny Tor network, 3 simulated minutes"
    } else {
        "(e) Tor network of 12 relays and authorities and 56 clients, 15 simulated minutes"
    });
    if Command::new("tor").arg("--version").output().is_err() {
        report.note("left out: tor is not installed");
        return;
    }
    let network = programs.fresh_directory("tor");
    seconds(gnomon().args(["tor", "new"]).args(if extent.quick { TINY } else { NETWORK }).arg(&network));
    let data = network.join("gnomon.data");
    let mut runs = Vec::new();
    for _ in 0..extent.long_repetitions().min(2) {
        let _ = std::fs::remove_dir_all(&data);
        let wall = seconds(gnomon().args(["run", "--quiet", "gnomon.yaml"]).current_dir(&network));
        let text = std::fs::read_to_string(data.join("sim-stats.json")).expect("a finished run's counters");
        let stats: Value = serde_json::from_str(&text).expect("JSON");
        runs.push((wall, stats));
    }
    let tors = count_tors(&data);
    let aim = |most: f64| if extent.quick { Target::None } else { Target::AtMost(most) };
    let mut add = |what: &str, unit, target, value: &dyn Fn(f64, &Value) -> f64| {
        let values = runs.iter().map(|(wall, stats)| value(*wall, &stats["gnomon"])).collect();
        report.add(Line { what: what.to_owned(), unit, gnomon: Samples::new(values), native: None, target });
    };
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    add("wall time", "s", aim(25.0), &|wall, _| wall);
    add("simulated over wall time", "x", Target::None, &|wall, stats| number(&stats["simulated_ns"]) / 1e9 / wall);
    add("processor time", "s", Target::None, &|_, stats| number(&stats["cpu"]["total_s"]));
    for (what, key) in [
        ("  guests", "guest_s"),
        ("  simulated kernel", "kernel_s"),
        ("  network stack", "stack_s"),
        ("  engine", "engine_s"),
    ] {
        add(what, "s", Target::None, &|_, stats| number(&stats["cpu"][key]));
    }
    add("processor time over that of guests", "x", aim(1.4), &|_, stats| {
        number(&stats["cpu"]["total_s"]) / number(&stats["cpu"]["guest_s"])
    });
    add("memory for each tor, everything counted", "MiB", aim(8.0), &|_, stats| {
        number(&stats["memory"]["peak_used_bytes"]) / f64::from(1 << 20) / tors as f64
    });
    let digests: Vec<&Value> = runs.iter().map(|run| &run.1["gnomon"]["digest"]).collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "runs of one experiment differ: {digests:?}");
    report.note(
        "No native figure: the network does not exist natively. Guests' own time is what no simulator can go below.",
    );
}

/// How many tors ran: each has a log.
fn count_tors(data: &Path) -> usize {
    let hosts = std::fs::read_dir(data.join("hosts")).expect("the hosts' folders");
    let files = hosts.filter_map(|host| std::fs::read_dir(host.ok()?.path()).ok()).flatten();
    let is_log = |name: &str| name.starts_with("tor.") && name.ends_with(".stdout");
    files.filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_str().is_some_and(is_log))).count()
}
