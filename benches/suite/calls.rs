//! (a) and (b): what a system call costs, and how fast threads hand over to each other.
//!
//! Simulated time stands still while a guest computes, so programs do a number of rounds and are timed from outside: the
//! difference of two runs, one without rounds, leaves the start-up out.

use crate::Extent;
use crate::measure::{Programs, gnomon, seconds};
use crate::report::{Line, Report, Samples, Target};
use std::process::Command;

struct Loop {
    program: &'static str,
    what: &'static str,
    /// Long enough for a quarter of a second or more, as a guest and natively.
    rounds: u64,
    native_rounds: u64,
    /// What one round counts for.
    per_round: f64,
    target: f64,
}

const CALLS: [Loop; 2] = [
    Loop {
        program: "getppid_loop",
        what: "(a) getppid through libc",
        rounds: 6_000_000,
        native_rounds: 6_000_000,
        per_round: 1.0,
        target: 2.0,
    },
    Loop {
        program: "pipe_loop",
        what: "(b) 64 bytes to a pipe and back, one thread",
        rounds: 2_000_000,
        native_rounds: 1_000_000,
        per_round: 1.0,
        target: 2.0,
    },
];

const HAND_OVERS: [Loop; 2] = [
    Loop {
        program: "futex_pingpong",
        what: "(b) hand-over between threads by futex",
        rounds: 1_000_000,
        native_rounds: 60_000,
        per_round: 2.0,
        target: 1.0,
    },
    Loop {
        program: "pipe_pingpong",
        what: "(b) hand-over between threads by pipe",
        rounds: 1_000_000,
        native_rounds: 60_000,
        per_round: 2.0,
        target: 1.0,
    },
];

pub fn measure(programs: &Programs, extent: Extent, report: &mut Report) {
    report.section("System calls and hand-overs between threads of a guest (wall time each)");
    for measured in CALLS.iter().chain(&HAND_OVERS) {
        report.add(line(programs, extent, measured));
    }
}

fn line(programs: &Programs, extent: Extent, measured: &Loop) -> Line {
    let path = programs.path(measured.program);
    let native = |rounds: u64| seconds(Command::new(&path).arg(rounds.to_string()));
    let guest = |rounds: u64| seconds(gnomon().args(["exec", "--quiet"]).arg(&path).arg(rounds.to_string()));
    let each =
        |run: &dyn Fn(u64) -> f64, rounds: u64| (run(rounds) - run(0)) * 1e9 / (rounds as f64 * measured.per_round);
    // Alternating, so that a change of the machine's speed meets both.
    let pairs: Vec<(f64, f64)> = (0..extent.repetitions())
        .map(|_| (each(&guest, measured.rounds), each(&native, measured.native_rounds)))
        .collect();
    Line {
        what: measured.what.to_owned(),
        unit: "ns",
        gnomon: Samples::new(pairs.iter().map(|pair| pair.0).collect()),
        native: Some(Samples::new(pairs.iter().map(|pair| pair.1).collect())),
        target: Target::TimesNative(measured.target),
    }
}
