//! docs/first-experiment.md as a newcomer follows it: its commands are run as they stand there, and what they print must be what stands there.

mod common;

use common::{capture, find_program, folder, read, root};
use std::path::Path;
use std::process::Command;

/// A command of the page with what it prints there.
struct Step {
    command: String,
    expected: Vec<String>,
}

/// The commands that have an answer: those in blocks that are called console, behind `$`.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
        } else if is_console {
            steps.last_mut().expect("a command before its answer").expected.push(line.to_owned());
        }
    }
    steps
}

/// A line without what differs from machine to machine and from tor to tor: numbers, and the spaces that make up for their width.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        let is_more_of_a_number = shape.ends_with('#') && (c == '#' || c == '.');
        let is_more_space = shape.ends_with(' ') && c == ' ';
        if !is_more_of_a_number && !is_more_space {
            shape.push(c);
        }
    }
    shape.trim().to_owned()
}

/// In order, but for lines that tell of runs as they begin and end: which one is first depends on the machine. Those that say how far
/// runs are that take long come on slow machines alone.
fn shapes<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_progress = |line: &str| line.starts_with("# of # complete; ");
    let mut shapes: Vec<String> = lines.map(shape).filter(|line| !line.is_empty() && !is_progress(line)).collect();
    shapes.sort_by_key(|line| {
        if line.contains(": begins") || line.contains(": complete after") { line.clone() } else { String::new() }
    });
    shapes
}

#[test]
fn the_page_does_what_it_says() {
    if find_program("tor").is_none() {
        return common::leave_out("there is no tor");
    }
    let folder = folder("first-experiment");
    let programs = Path::new(env!("CARGO_BIN_EXE_gnomon")).parent().expect("a folder");
    let traffic = programs.join("gnomon-traffic");
    assert!(traffic.is_file(), "{}: cargo build --release -p traffic", traffic.display());
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let steps = steps(&read(&root().join("docs/first-experiment.md")));
    assert!(steps.len() >= 8, "{} steps", steps.len());
    for Step { command, expected } in steps {
        let mut shell = Command::new("timeout");
        shell.args(["--kill-after", "5", "280", "bash", "-c", &command]).current_dir(&folder).env("PATH", &path);
        let output = capture(&mut shell);
        let (printed, expected) = (shapes(output.stdout.lines()), shapes(expected.iter().map(String::as_str)));
        assert!(
            printed == expected,
            "$ {command}\n{}{}\nas shapes: {printed:#?}\non the page: {expected:#?}",
            output.stdout,
            output.stderr
        );
    }
    // What the page is for: a figure with intervals.
    let figure = read(&folder.join("results/ttfb-51200.svg"));
    assert!(figure.starts_with("<svg") && figure.contains("kist (3 runs)") && figure.contains("vanilla (3 runs)"));
}
