//! (f): processes that guests start: fork, exec and wait; turns and switches between processes; many processes at once.
//!
//! Timed from outside like `calls`: the difference of two runs, one with fewer rounds, leaves the start-up out.

use crate::Extent;
use crate::machine;
use crate::measure::{Programs, gnomon, seconds};
use crate::report::{Line, Report, Samples, Target};
use base::wall::WallClock;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program that is run with a number of rounds, as a guest and natively.
struct Rounds<'a> {
    what: &'static str,
    program: &'a Path,
    /// Its arguments; `N` stands for the rounds.
    arguments: &'a [&'a str],
    rounds: u64,
    native_rounds: u64,
    per_round: f64,
    target: Target,
}

/// Processes alive at once.
const MANY: u64 = 10_000;

pub fn measure(programs: &Programs, extent: Extent, report: &mut Report) {
    report.section("(f) Processes that guests start (wall time each)");
    let minimal = programs.path("minimal");
    let minimal = minimal.to_str().expect("a path in UTF-8");
    let spawn_loop = programs.path("spawn_loop");
    for (how, what) in [
        ("fork", "fork, exec, exit, wait"),
        ("vfork", "vfork, exec, exit, wait"),
        ("posix_spawn", "posix_spawn, exit, wait"),
    ] {
        let target = Target::TimesNative(3.0);
        let arguments: &[&str] = &[how, "N", minimal];
        let (program, rounds) = (spawn_loop.as_path(), 1_000);
        let measured = Rounds { what, program, arguments, rounds, native_rounds: rounds, per_round: 1.0, target };
        report.add(line(extent, &measured));
    }
    let pingpong = programs.path("process_pingpong");
    report.add(line(
        extent,
        &Rounds {
            what: "switch between two programs, by pipe",
            program: &pingpong,
            arguments: &["programs", "N"],
            rounds: 500_000,
            native_rounds: 30_000,
            per_round: 2.0,
            target: Target::TimesNative(1.0),
        },
    ));
    report.add(line(
        extent,
        &Rounds {
            what: "turn of twins (fork without exec), by pipe",
            program: &pingpong,
            arguments: &["twins", "N"],
            rounds: 5_000,
            native_rounds: 30_000,
            per_round: 2.0,
            target: Target::None,
        },
    ));
    report.add(line(
        extent,
        &Rounds {
            what: "the same with 64 MB that both share",
            program: &pingpong,
            arguments: &["shared", "N"],
            rounds: 5_000,
            native_rounds: 30_000,
            per_round: 2.0,
            target: Target::None,
        },
    ));
    measure_many(programs, report);
    report.note(
        "Twins share addresses: a turn moves the page tables of both. Memory: growth of AnonPages, Shmem, PageTables, KernelStack and \
         Slab of /proc/meminfo while the processes live.",
    );
}

fn line(extent: Extent, measured: &Rounds) -> Line {
    let with = |command: &mut Command, rounds: u64| {
        let rounds = rounds.to_string();
        seconds(
            command.args(measured.arguments.iter().map(|argument| if *argument == "N" { &rounds } else { *argument })),
        )
    };
    let native = |rounds| with(&mut Command::new(measured.program), rounds);
    let guest = |rounds| with(gnomon().args(["exec", "--quiet"]).arg(measured.program), rounds);
    let each = |run: &dyn Fn(u64) -> f64, rounds: u64| {
        let base = rounds / 10;
        (run(rounds) - run(base)) * 1e6 / ((rounds - base) as f64 * measured.per_round)
    };
    let pairs: Vec<(f64, f64)> = (0..extent.repetitions())
        .map(|_| (each(&guest, measured.rounds), each(&native, measured.native_rounds)))
        .collect();
    Line {
        what: measured.what.to_owned(),
        unit: "us",
        gnomon: Samples::new(pairs.iter().map(|pair| pair.0).collect()),
        native: Some(Samples::new(pairs.iter().map(|pair| pair.1).collect())),
        target: measured.target,
    }
}

/// A guest that starts ten thousand processes, which all live until the last one waits.
fn measure_many(programs: &Programs, report: &mut Report) {
    let program = programs.path("spawn_many");
    let child = programs.path("minimal_pause");
    let run = |command: &mut Command| with_memory(command.arg(MANY.to_string()).arg(&child));
    let (guest_seconds, guest_kb) = run(gnomon().args(["exec", "--quiet"]).arg(&program));
    let (native_seconds, native_kb) = run(&mut Command::new(&program));
    let one = |value: f64| Samples::new(vec![value / MANY as f64]);
    report.add(Line {
        what: format!("{MANY} processes at once: time each, start to end"),
        unit: "us",
        gnomon: one(guest_seconds * 1e6),
        native: Some(one(native_seconds * 1e6)),
        target: Target::TimesNative(1.0),
    });
    report.add(Line {
        what: format!("{MANY} processes at once: memory each"),
        unit: "KB",
        gnomon: one(guest_kb),
        native: Some(one(native_kb)),
        target: Target::TimesNative(1.0),
    });
}

/// Wall time of a command that must succeed, and by how many KB the machine's used memory grew at most meanwhile.
fn with_memory(command: &mut Command) -> (f64, f64) {
    let before = machine::used_kb();
    let clock = WallClock::start();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a program that starts");
    let mut most = before;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the state of a child") {
            break status;
        }
        most = most.max(machine::used_kb());
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{command:?}: {status}");
    (clock.elapsed().as_secs_f64(), (most - before) as f64)
}
