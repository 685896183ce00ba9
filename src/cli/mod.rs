//! The command line: what the user asks for, in Gnomon's own words or in Shadow's, and what is answered.
//!
//! `gnomon` has the commands `run`, `check`, `exec`, `tor`, `report`, `profile`, `lab`, `packet`, `memory`, `leak`, `export`, `query`, `view`, `help` and `shadow`; called under the name `shadow`, the program takes
//! that simulator's command line instead. Everything that is wrong with the input is told before anything runs, with exit
//! status 2 (1 under the name `shadow`).

mod check;
mod command;
mod exec;
mod gdb;
mod input;
mod interrupt;
mod lab;
mod launch;
mod limits;
mod options;
mod origin;
mod profile;
mod profiling;
mod provenance;
mod ranks;
mod report;
mod report_page;
mod run;
mod shadow;
mod topics;
mod tor;
mod view;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Exit statuses. Interrupted runs end with 128 and the signal's number.
mod status {
    pub const SUCCESS: u8 = 0;
    /// A guest was in an unexpected final state, or Gnomon could not run the experiment.
    pub const FAILED: u8 = 1;
    /// Something is wrong with what the user gave.
    pub const BAD_INPUT: u8 = 2;
}

/// Does what the command line says. `args` begins with the program's name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    interrupt::survive_file_size_limits();
    ExitCode::from(dispatch(args))
}

fn dispatch(args: Vec<OsString>) -> u8 {
    if is_shadow(args.first()) {
        return shadow::main(args);
    }
    if args.get(1).is_some_and(|arg| arg == "shadow") {
        return shadow::main(args[1..].to_vec());
    }
    let matches = match command::gnomon().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => return refuse(with_hint(error)),
    };
    match matches.subcommand() {
        Some(("run", matches)) => run::main(matches),
        Some(("check", matches)) => check::main(matches),
        Some(("exec", matches)) => exec::main(matches),
        Some(("tor", matches)) => tor::main(matches),
        Some(("report", matches)) => report_page::main(matches),
        Some(("profile", matches)) => profile::main(matches),
        Some(("lab", matches)) => lab::main(matches),
        Some(("packet", matches)) => provenance::packet(matches),
        Some(("memory", matches)) => provenance::memory(matches),
        Some(("leak", matches)) => provenance::leak(matches),
        Some(("export", matches)) => provenance::export(matches),
        Some(("query", matches)) => view::query(matches),
        Some(("view", matches)) => view::view(matches),
        Some(("help", matches)) => {
            let words = matches.get_many::<String>("topic").unwrap_or_default();
            topics::main(&words.map(String::as_str).collect::<Vec<_>>())
        }
        _ => unreachable!("clap knows the commands"),
    }
}

fn is_shadow(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_name()) == Some(OsStr::new("shadow"))
}

/// Shows what clap has to say: help on standard output, errors on standard error.
fn refuse(error: clap::Error) -> u8 {
    let _ = error.print();
    if error.use_stderr() { status::BAD_INPUT } else { status::SUCCESS }
}

/// An experiment file in the place of a command gets the command that it lacks.
fn with_hint(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && Path::new(word).is_file()
    {
        let hint = format!("to run the experiment, write 'gnomon run {word}'").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
    }
    error
}

/// Tells the user what is wrong. Nothing can be done when even that fails.
fn complain(text: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "gnomon: {text}");
}

/// Writes to standard output; a reader that has gone is no error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
