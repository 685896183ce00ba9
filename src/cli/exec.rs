//! `gnomon exec PROGRAM ARGS…`: an experiment of one host and one program, made in memory.

use super::launch::{Debugging, Failure, Finished, Launch};
use super::{complain, gdb, input, options, ranks, report, status};
use crate::sandbox::Lifetime;
use crate::simulation::{GuestState, Verdict};
use base::Cause;
use base::quantity::{exact_bandwidth, exact_duration, parse_bandwidth, parse_duration};
use clap::ArgMatches;
use scenario::{Overrides, Plan};
use simkernel::DebugTarget;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Without a stop time, a program that never ends would run forever; one that sleeps gets there in no time.
const STOP_TIME: &str = "1 h";

/// What a program that starts others expects to find: a search path, and who it runs as. Fixed, so that a run does not depend on the
/// user's own; the home is a directory that guests can write to.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/tmp"),
    ("USER", "root"),
    ("LOGNAME", "root"),
];

/// signal(7).
const SIGPIPE: i32 = 13;

/// Exit statuses besides the program's own, as env(1) and timeout(1) have them.
const STILL_RUNNING: u8 = 124;
const GNOMON_FAILED: u8 = 125;
const NOT_STARTED: u8 = 126;

pub fn main(matches: &ArgMatches) -> u8 {
    match run(matches) {
        Ok(status) => status,
        Err(failure) => {
            failure.tell();
            match failure {
                Failure::Input(_) => status::BAD_INPUT,
                Failure::Run(_) | Failure::Elsewhere => GNOMON_FAILED,
            }
        }
    }
}

fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    ranks::refuse("gnomon exec")?;
    let text = experiment(matches).map_err(Failure::Input)?;
    let debugged = matches.get_flag("gdb");
    if debugged && !gdb::is_under_gdb(matches) {
        let program = matches.get_many::<String>("command").and_then(|mut words| words.next());
        return Err(Failure::Run(gdb::start(program.map_or("", String::as_str))));
    }
    let mut overrides = options::overrides(matches);
    let temporary = temporary_directory(matches, &mut overrides)?;
    let lifetime = if temporary.is_some() { Lifetime::Temporary } else { Lifetime::Kept };
    let plan = input::plan_from_text("the command line", &text, &overrides).map_err(Failure::Input)?;
    let mut launch = Launch::new(matches, &plan, lifetime).map_err(Failure::Input)?;
    launch.strace_live = matches.get_flag("strace");
    launch.show_outputs = true;
    if debugged {
        let first = plan.hosts.first().map_or(base::HostId(0), |host| host.id);
        let program = DebugTarget { program: None, pid: Some(simkernel::ids::FIRST_ID) };
        launch.debugging = Debugging::Guest(first, program);
    }
    let finished = launch.run(&plan)?;
    Ok(conclude(&plan, &finished))
}

/// Where the run's data goes unless the user names a place: a directory that vanishes with the process. The run makes its own
/// directory, so this one is its name alone.
fn temporary_directory(matches: &ArgMatches, overrides: &mut Overrides) -> Result<Option<TempDir>, Failure> {
    if options::is_given(matches, "general.data_directory") {
        return Ok(None);
    }
    let directory = tempfile::Builder::new().prefix("gnomon-exec-").tempdir();
    let remedy = |why: String| {
        Failure::Input(format!("cannot make a temporary directory ({why}); name one with --data-directory"))
    };
    let directory = directory.map_err(|error| remedy(error.to_string()))?;
    let path = directory.path().to_str().ok_or_else(|| remedy("its name is not text in UTF-8".into()))?;
    overrides.set_path("general.data_directory", path).map_err(|error| Failure::Input(error.to_string()))?;
    std::fs::remove_dir(path).map_err(|error| remedy(error.to_string()))?;
    Ok(Some(directory))
}

/// The experiment as YAML. Values are checked here where a mistake would otherwise be shown in a text that the user never wrote.
fn experiment(matches: &ArgMatches) -> Result<String, String> {
    let given = |name: &str| matches.get_one::<String>(name).expect("has a default");
    let bandwidth = parse_bandwidth(given("bandwidth")).map_err(|error| format!("--bandwidth: {error}"))?;
    let latency = parse_duration(given("latency")).map_err(|error| format!("--latency: {error}"))?;
    if bandwidth.bits_per_sec() == 0 || latency.is_zero() {
        return Err("--bandwidth and --latency must be more than 0".into());
    }
    let (bandwidth, latency) = (exact_bandwidth(bandwidth), exact_duration(latency));
    let mut words = matches.get_many::<String>("command").expect("clap requires it");
    let program = words.next().expect("at least one");
    let args: Vec<String> = words.map(|word| quoted(word)).collect();
    let variables = environment(matches)?;
    let user = matches.get_one::<String>("user").map_or_else(|| "null".to_owned(), |user| quoted(user));
    Ok(format!(
        "general: {{stop_time: {STOP_TIME}}}\n\
         experimental: {{report_errors_to_stderr: false}}\n\
         network:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        \
         node [ id 0 host_bandwidth_up \"{bandwidth}\" host_bandwidth_down \"{bandwidth}\" ]\n        \
         edge [ source 0 target 0 latency \"{latency}\" ]\n      ]\n\
         hosts:\n  {host}:\n    network_node_id: 0\n    processes:\n    - path: {program}\n      args: [{args}]\n      \
         environment: {{{variables}}}\n      user: {user}\n",
        host = quoted(given("host-name")),
        program = quoted(program),
        args = args.join(", "),
    ))
}

/// A text as a YAML scalar: JSON strings are YAML (1.2, section 10.2).
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The program's variables as the content of a YAML mapping: the defaults, and what the user gave in addition or instead.
fn environment(matches: &ArgMatches) -> Result<String, String> {
    let defaults = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut variables = BTreeMap::from(defaults);
    for given in matches.get_many::<String>("env").into_iter().flatten() {
        let (name, value) = match given.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (given.as_str(), inherited(given)?),
        };
        variables.insert(name.to_owned(), value);
    }
    let entries = variables.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
    Ok(entries.collect::<Vec<_>>().join(", "))
}

fn inherited(name: &str) -> Result<String, String> {
    std::env::var(name)
        .map_err(|_| format!("--env: your environment has no variable '{name}' in UTF-8; write '--env {name}=VALUE'"))
}

/// The exit status, and a word to the user where the program's own is none.
fn conclude(plan: &Plan, finished: &Finished) -> u8 {
    let summary = &finished.summary;
    if report::could_not_record(finished) {
        complain(&report::not_recorded(summary).unwrap_or_default());
        return GNOMON_FAILED;
    }
    if summary.verdict == Verdict::Interrupted {
        return report::interrupted_status(finished.signal);
    }
    if let Some(told) = summary.none_chosen() {
        complain(&told);
    }
    let Some(guest) = summary.guests.first() else { return GNOMON_FAILED };
    if summary.interferences.get(Cause::Memory).is_some() {
        complain(&format!("{}: there was not enough memory (see --memory-limit)", guest.path));
    }
    match &guest.state {
        GuestState::Exited(code) => *code as u8,
        // It wrote to somebody who had read enough, which no shell remarks on.
        GuestState::Signaled(signal) if *signal == SIGPIPE => report::interrupted_status(Some(*signal)),
        GuestState::Signaled(signal) => {
            complain(&format!("{} was {}", guest.path, guest.state));
            report::interrupted_status(Some(*signal))
        }
        GuestState::Running => {
            let stop = exact_duration(plan.general.stop_time);
            complain(&format!("{} still ran at the stop time, {stop}; give it more with --stop-time", guest.path));
            STILL_RUNNING
        }
        GuestState::NotStarted | GuestState::Failed(_) => {
            complain(&format!("{}: {}", guest.path, guest.state));
            NOT_STARTED
        }
    }
}
