//! The command line of Shadow 3.3, for what drives that simulator: `shadow [OPTIONS] FILE`.
//!
//! Its log goes to standard output in Shadow's form; what Shadow says on standard error begins with `**`, here too. The exit
//! status is 0, or 1 on any error.

use super::launch::{self, Debugging, Finished, Launch};
use super::options::{Style, flags, overrides};
use super::origin::Origin;
use super::{command, input, ranks, report, status};
use crate::sandbox::Lifetime;
use crate::simulation::{LogTarget, Progress, Verdict};
use crate::terminal::Terminal;
use base::Cause;
use clap::{Arg, ArgAction, ArgMatches, Command};
use scenario::Plan;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// The version of Shadow whose interface this is.
const COMPATIBLE_WITH: &str = "3.3.0";

/// `args` begins with the program's name.
pub fn main(args: Vec<OsString>) -> u8 {
    let matches = match command_line().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { status::FAILED } else { status::SUCCESS };
        }
    };
    if matches.get_flag("show-build-info") {
        say(&build_info());
        return status::SUCCESS;
    }
    if matches.get_flag("shm-cleanup") {
        // Nothing is kept in shared memory.
        return status::SUCCESS;
    }
    match run(&matches) {
        Ok(()) => status::SUCCESS,
        Err(error) => {
            say(&format!("** Shadow did not complete successfully: {error}"));
            status::FAILED
        }
    }
}

fn command_line() -> Command {
    Command::new("shadow")
        .version(format!("{COMPATIBLE_WITH} (Gnomon {})", env!("CARGO_PKG_VERSION")))
        .about("Run real applications over simulated networks: Gnomon with the command line of Shadow")
        .after_help(
            "Values without a unit are in seconds, bytes or bits per second. Units are case-sensitive: '1024 B', '1 KiB', '10 ms'.",
        )
        .arg(
            Arg::new("file")
                .value_name("CONFIG")
                .value_parser(clap::value_parser!(PathBuf))
                .required_unless_present_any(["show-build-info", "shm-cleanup"])
                .help("The experiment; '-' reads it from standard input"),
        )
        .args([command::gdb(), command::debug_hosts()])
        .arg(exit_after("shm-cleanup", "Exit after removing what is left in shared memory (nothing is ever kept there)").exclusive(true))
        .arg(exit_after("show-build-info", "Exit after printing how the program was built").exclusive(true))
        .arg(exit_after("show-config", "Exit after printing the final configuration"))
        .args(flags(Style::Shadow))
}

fn exit_after(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn build_info() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!(
        "Shadow {COMPATIBLE_WITH}, as provided by Gnomon {}\nBuilt for {} ({profile})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    )
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    let file = matches.get_one::<PathBuf>("file").expect("clap requires it");
    let plan = input::plan(file, &overrides(matches))?;
    if matches.get_flag("show-config") {
        say(&plan.processed_config_yaml());
        return Ok(());
    }
    say(&format!("** Starting Shadow {COMPATIBLE_WITH} (Gnomon {})", env!("CARGO_PKG_VERSION")));
    let launch = Launch {
        lifetime: Lifetime::Kept,
        log: LogTarget::ShadowStdout,
        progress: progress(&plan),
        policy: engine::Policy::Steal,
        log_at_once: false,
        forecast: false,
        debug_hosts: launch::debug_hosts(matches, &plan)?,
        debugging: if matches.get_flag("gdb") { Debugging::Pause } else { Debugging::Off },
        crash_reports: true,
        strace_live: false,
        show_outputs: false,
        profile: None,
        rank_costs: None,
        origin: Origin::new(Some(file), matches),
    };
    ranks::refuse("shadow").map_err(|failure| failure.to_string())?;
    let finished = launch.run(&plan).map_err(|failure| failure.to_string())?;
    verdict(&finished)?;
    say("** Shadow completed successfully");
    Ok(())
}

fn progress(plan: &Plan) -> Progress {
    match (plan.general.progress, Terminal::is_terminal()) {
        (false, _) => Progress::Off,
        (true, true) => Progress::Terminal,
        (true, false) => Progress::Lines,
    }
}

fn verdict(finished: &Finished) -> Result<(), String> {
    let lost = finished.summary.interferences.get(Cause::Recording).map(|lost| Cause::Recording.sentence(lost));
    match finished.summary.verdict {
        Verdict::Success => lost.map_or(Ok(()), Err),
        Verdict::Failed => {
            let count = report::unexpected(&finished.summary).count();
            Err(format!("{count} managed processes in unexpected final state"))
        }
        Verdict::Interrupted => {
            Err(lost.filter(|_| report::could_not_record(finished)).unwrap_or_else(|| "interrupted".into()))
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}
