//! `gnomon tor status RUN`: how a run of a Tor network stands, as a table or as JSON.

use crate::cli::{complain, show, status};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::fmt::Write;
use std::path::PathBuf;
use tornet::status::{RoleStatus, State, Status, TransferStatus};
use tornet::warnings;

/// Names that are listed of tors that are behind.
const LISTED: usize = 5;

pub fn command() -> Command {
    Command::new("status")
        .about("Tell how a finished or running run of a Tor network stands")
        .before_help("Examples:\n  gnomon tor status gnomon.data\n  watch gnomon tor status gnomon.data\n  gnomon tor status --json gnomon.data | jq .transfers")
        .after_help("Exit status: 0, also where something failed in the network; 1 where it had no consensus, or built no circuit: the first line names the \
             reason; 2 when RUN is none")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The data directory"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON, for other programs"))
}

pub fn main(matches: &ArgMatches) -> u8 {
    let run: &PathBuf = matches.get_one("run").expect("required");
    match Status::read(run) {
        Ok(status) => {
            show(&if matches.get_flag("json") { status.json() } else { table(&status) });
            match &status.trouble {
                Some(trouble) if !trouble.is_early => status::FAILED,
                _ => status::SUCCESS,
            }
        }
        Err(error) => {
            complain(&error);
            status::BAD_INPUT
        }
    }
}

fn table(status: &Status) -> String {
    let mut text = status.trouble.as_ref().map_or(String::new(), |trouble| trouble.text.clone() + "\n");
    text += &head(status);
    let _ = writeln!(
        text,
        "\n{:<20} {:>6} {:>13} {:>9} {:>9} {:>9}",
        "tor", "hosts", "bootstrapped", "first", "median", "last"
    );
    for role in &status.roles {
        text += &role_row(role);
    }
    if status.outages > 0 {
        let _ = writeln!(
            text,
            "\nrelays went away {} times, as the experiment wants; {} are away",
            status.outages, status.away
        );
    }
    if status.transfers.is_empty() {
        text += "\nno transfers yet\n";
    } else {
        let _ = writeln!(
            text,
            "\n{:<12} {:>9} {:>8} {:>8} {:>12} {:>12}",
            "transfers", "size", "done", "failed", "first byte", "last byte"
        );
        for transfer in &status.transfers {
            text += &transfer_row(transfer);
        }
    }
    let log = &status.log;
    let _ = writeln!(
        text,
        "\ntor's logs: {} errors, {} warnings, and {} that every such network gives",
        log.errors, log.warnings, log.expected_warnings
    );
    for (message, count) in &log.messages {
        let _ = writeln!(text, "{count:>8}  {}", shortened(message));
        if let Some(known) = warnings::known(message) {
            let _ = writeln!(text, "          ({})", known.why);
        }
    }
    if !log.expected.is_empty() {
        text += "every such network gives, and nothing follows from it:\n";
    }
    for warning in &log.expected {
        let _ = writeln!(text, "{:>8}  {}\n          ({})", warning.times, warning.text, warning.why);
    }
    text
}

fn head(status: &Status) -> String {
    let simulated = match (status.simulated_s, status.stop_s) {
        (Some(now), Some(stop)) => format!("{now:.0} of {stop:.0} s simulated"),
        (Some(now), None) => format!("{now:.0} s simulated"),
        (None, _) => "nothing simulated yet".to_owned(),
    };
    let state = match status.state {
        State::Running => "running, or broken off",
        State::Stopped => "stopped before its end",
        State::Finished => "finished",
    };
    let mut text = format!("{}, seed {}: {simulated}", status.profile, status.seed);
    if let Some(wall) = status.wall_s {
        let _ = write!(text, " in {}", span(wall));
    }
    let _ = write!(text, "; {state}");
    if let Some(left) = status.left_s {
        let _ = write!(text, "; {} left at the speed of the last minute", span(left));
    }
    text + "\n"
}

fn role_row(role: &RoleStatus) -> String {
    let share = format!("{} ({:.0} %)", role.bootstrapped, 100.0 * role.bootstrapped as f64 / role.tors.max(1) as f64);
    let mut text = format!("{:<20} {:>6} {:>13}", role.role, role.tors, share);
    if let Some(times) = role.bootstrapped_s {
        let _ = write!(text, " {:>9} {:>9} {:>9}", seconds(times.first), seconds(times.median), seconds(times.last));
    }
    text.push('\n');
    if !role.behind.is_empty() {
        let mut names: Vec<String> =
            role.behind.iter().take(LISTED).map(|(name, percent)| format!("{name} {percent} %")).collect();
        if role.behind.len() > LISTED {
            names.push(format!("and {} more", role.behind.len() - LISTED));
        }
        let _ = writeln!(text, "  not there: {}", names.join(", "));
    }
    text
}

fn transfer_row(transfer: &TransferStatus) -> String {
    let time = |time: Option<f64>| time.map_or("-".to_owned(), seconds);
    let mut text = format!(
        "{:<12} {:>9} {:>8} {:>8} {:>12} {:>12}\n",
        transfer.behaviour,
        transfer.bytes.map_or("any".to_owned(), bytes),
        transfer.done,
        transfer.failed,
        time(transfer.first_byte_s),
        time(transfer.last_byte_s)
    );
    for (error, count) in &transfer.errors {
        let _ = writeln!(text, "{count:>40}  {error}");
    }
    text
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.3} s") } else { format!("{seconds:.1} s") }
}

/// Wall time, in round numbers.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// What fits on a line.
fn shortened(message: &str) -> String {
    const MOST: usize = 110;
    match message.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_owned(),
    }
}
