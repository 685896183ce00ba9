//! Another build of the simulator and this one, in turns on one machine: `make bench AGAINST=REVISION`.
//!
//! Figures are processor time of whole runs, which other programs on the machine disturb less than
//! wall time. A ratio is that of two runs side by side; the median of the ratios counts.

use crate::Extent;
use crate::measure::Programs;
use crate::report::Samples;
use lab::experiment::Phold;
use nix::sys::resource::{UsageWho, getrusage};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What both builds run: a name, a program's arguments, and what an experiment's folder must be ready for.
struct Subject {
    what: &'static str,
    arguments: Vec<String>,
    folder: PathBuf,
}

/// PHOLD between 100 hosts, with this build's generator of messages.
fn phold(traffic: &Path, seconds: u32) -> String {
    let text = Phold { hosts: 100, messages: 10, seconds }.text();
    text.replace("path: gnomon-traffic", &format!("path: {}", traffic.display()))
}

fn subjects(programs: &Programs, extent: Extent) -> Vec<Subject> {
    let folder = programs.fresh_directory("against");
    std::fs::create_dir_all(&folder).expect("a folder in the target directory");
    let loops = [
        ("getppid", "getppid_loop", "6000000"),
        ("64 bytes to a pipe and back", "pipe_loop", "2000000"),
        ("hand-over by futex", "futex_pingpong", "1000000"),
        ("hand-over by pipe", "pipe_pingpong", "1000000"),
    ];
    let call = |(what, program, rounds): (&'static str, &str, &str)| {
        let path = programs.path(program).display().to_string();
        let arguments = ["exec", "--quiet", &path, rounds].map(str::to_owned).to_vec();
        Subject { what, arguments, folder: folder.clone() }
    };
    let mut subjects: Vec<Subject> = loops.into_iter().map(call).collect();
    let run = |what, folder: &Path, file: &str, workers: &str| {
        let arguments =
            ["run", "--quiet", "-d", "run.data", "--parallelism", workers, file].map(str::to_owned).to_vec();
        Subject { what, arguments, folder: folder.to_owned() }
    };
    // Both builds run the same guest.
    let traffic = Path::new(env!("CARGO_BIN_EXE_gnomon")).with_file_name("gnomon-traffic");
    let text = phold(&traffic, if extent.quick { 10 } else { 60 });
    std::fs::write(folder.join("phold.yaml"), text).expect("an experiment");
    subjects.push(run("PHOLD, 100 hosts, one worker", &folder, "phold.yaml", "1"));
    subjects.push(run("PHOLD, 100 hosts, two workers", &folder, "phold.yaml", "2"));
    if Command::new("tor").arg("--version").output().is_ok() {
        let network = folder.join("tor");
        let mut new = crate::measure::gnomon();
        crate::measure::seconds(new.args(["tor", "new", "--profile", "tiny"]).arg(&network));
        subjects.push(run("tiny Tor network, one worker", &network, "gnomon.yaml", "1"));
    }
    subjects
}

/// Processor time of all children that have ended, in seconds.
fn spent() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage(2)");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Processor time of a run, in seconds; None when it fails.
fn run(binary: &Path, subject: &Subject) -> Option<f64> {
    let _ = std::fs::remove_dir_all(subject.folder.join("run.data"));
    let before = spent();
    let mut command = Command::new(binary);
    command.args(&subject.arguments).current_dir(&subject.folder).stdin(Stdio::null()).stdout(Stdio::null());
    let succeeds = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    succeeds.then(|| spent() - before)
}

/// Prints a line for each subject. `other` is the other build's `gnomon`.
pub fn compare(programs: &Programs, extent: Extent, other: &Path) {
    let own = Path::new(env!("CARGO_BIN_EXE_gnomon"));
    println!("{:34} {:>10} {:>10} {:>7}", "processor time", "this", "other", "ratio");
    for subject in subjects(programs, extent) {
        let pairs: Option<Vec<(f64, f64)>> =
            (0..extent.repetitions()).map(|_| Some((run(own, &subject)?, run(other, &subject)?))).collect();
        let Some(pairs) = pairs else {
            println!("{:34} one of the two does not run it", subject.what);
            continue;
        };
        let median = |value: fn(&(f64, f64)) -> f64| Samples::new(pairs.iter().map(value).collect()).median();
        println!(
            "{:34} {:8.2} s {:8.2} s {:7.3}",
            subject.what,
            median(|pair| pair.0),
            median(|pair| pair.1),
            median(|pair| pair.0 / pair.1)
        );
    }
}
