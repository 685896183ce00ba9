//! `make bench` (or `cargo bench`): what Gnomon costs on this machine, with the native figure of the same run beside it.
//!
//! Subjects: system calls and hand-overs between threads (`calls`), loading of guests (`namespaces`), a bulk flow (`bulk`),
//! processes that guests start (`processes`), a Tor network (`tor`). The program starts itself again for every measure that needs a fresh process (`child`). A missed target is marked
//! and does not fail the run. Results also go to a JSON file, whose path is printed last.
//!
//! `suite --bench [--quick] [SUBJECT...]`: `--quick` measures less and leaves out 100,000 guests. Without `--bench`, as `cargo test` calls it, it
//! measures nothing and tries whether guests start. `suite --bench [--quick] --against=GNOMON` compares with another build (`against`).

mod against;
mod bare;
mod bulk;
mod calls;
mod child;
mod machine;
mod measure;
mod namespaces;
mod native;
mod processes;
mod report;
mod tor;

use base::wall::WallClock;
use measure::Programs;
use report::Report;
use std::path::PathBuf;

/// What a run is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub quick: bool,
}

impl Extent {
    pub fn repetitions(self) -> usize {
        if self.quick { 2 } else { 5 }
    }

    pub fn long_repetitions(self) -> usize {
        if self.quick { 1 } else { 3 }
    }
}

const SUBJECTS: [(&str, fn(&Programs, Extent, &mut Report)); 5] = [
    ("calls", calls::measure),
    ("namespaces", namespaces::measure),
    ("bulk", bulk::measure),
    ("processes", processes::measure),
    ("tor", tor::measure),
];

fn main() {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<String> = all.iter().filter(|argument| *argument != "--bench").cloned().collect();
    if arguments.first().is_some_and(|argument| argument == "child") {
        println!("{}", child::main(&arguments[1..]));
        return;
    }
    if arguments.len() == all.len() {
        namespaces::try_out(&Programs::build());
        return;
    }
    let other = arguments.iter().find_map(|argument| argument.strip_prefix("--against="));
    let is_known = |option: &str| option == "--quick" || option.starts_with("--against=");
    if let Some(unknown) = arguments.iter().find(|argument| argument.starts_with('-') && !is_known(argument)) {
        eprintln!(
            "no option '{unknown}': there is --quick, which measures less and leaves out 100,000 guests, and --against=GNOMON"
        );
        std::process::exit(2);
    }
    let extent = Extent { quick: arguments.iter().any(|argument| argument == "--quick") };
    if let Some(other) = other {
        println!("{}\n", machine::headline(&machine::describe()));
        return against::compare(&Programs::build(), extent, std::path::Path::new(other));
    }
    let chosen: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = chosen.iter().find(|name| SUBJECTS.iter().all(|(subject, _)| subject != **name)) {
        let names = SUBJECTS.map(|(subject, _)| subject).join(", ");
        eprintln!("no subject '{unknown}': choose from {names}");
        std::process::exit(2);
    }
    let clock = WallClock::start();
    let description = machine::describe();
    println!("{}\n", machine::headline(&description));
    let programs = Programs::build();
    let mut report = Report::new();
    for (name, measure) in SUBJECTS {
        if chosen.is_empty() || chosen.iter().any(|wanted| *wanted == name) {
            measure(&programs, extent, &mut report);
        }
    }
    report.conclude(clock.elapsed());
    let path = results_path();
    match report.write_json(&path, description, clock.elapsed()) {
        Ok(()) => println!("results: {}", path.display()),
        Err(error) => eprintln!("cannot write {}: {error}", path.display()),
    }
}

/// Beside the compiled artefacts, which lie outside the clone.
fn results_path() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench.json")
}
