//! Gnomon's commands and their flags, as clap knows them.

use super::gdb::UNDER_GDB;
use super::options::{Style, flags};
use super::profiling;
use super::topics;
use clap::{Arg, ArgAction, Command};

const FILE_HELP: &str = "The experiment (YAML, in Shadow 3's format); '-' reads it from standard input";

/// The whole command line of `gnomon`.
pub fn gnomon() -> Command {
    Command::new("gnomon")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs real Linux programs on a simulated network, in simulated time, inside one process")
        .override_help(topics::overview())
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .subcommands([
            run(),
            check(),
            exec(),
            super::tor::command(),
            super::report_page::command(),
            super::profile::command(),
            super::lab::command(),
            super::provenance::packet_command(),
            super::provenance::memory_command(),
            super::provenance::leak_command(),
            super::provenance::export_command(),
            super::view::query_command(),
            super::view::view_command(),
            shadow(),
            help(),
        ])
}

fn run() -> Command {
    Command::new("run")
        .about("Run an experiment")
        .before_help("Examples:\n  gnomon run experiment.yaml\n  gnomon run --seed 2 --data-directory run2 experiment.yaml\n  generate | gnomon run --stop-time '10 min' -")
        .after_help("Exit status: 0 success, 1 the experiment failed, 2 bad input, 130 interrupted. More: gnomon help exit-codes")
        .arg(file().required(true))
        .arg(
            Arg::new("gdb")
                .long("gdb")
                .value_name("HOST.PROCESS")
                .help("Run under gdb and stop where this process begins (its program's name, its number, or NAME.NUMBER)"),
        )
        .arg(
            Arg::new("profile")
                .long("profile")
                .value_name("RATE|costs|steps")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("1000")
                .value_parser(profiling::kind)
                .help(profiling::HELP),
        )
        .arg(
            Arg::new("rank-costs")
                .long("rank-costs")
                .value_name("DATA")
                .value_parser(clap::value_parser!(std::path::PathBuf))
                .help("Under mpirun: divide the hosts by what they cost in this run of several processes (its data directory)"),
        )
        .args(execution_flags())
        .args(flags(Style::Gnomon))
        .args_override_self(true)
}

fn check() -> Command {
    Command::new("check")
        .about("Validate an experiment and explain what it would do, without running anything")
        .before_help("Examples:\n  gnomon check experiment.yaml\n  gnomon check --config experiment.yaml > complete.yaml\n  gnomon check --sandbox")
        .after_help("Exit status: 0 the experiment can run, 1 the sandbox does not hold, 2 bad input")
        .arg(file().required_unless_present("sandbox"))
        .arg(
            Arg::new("config")
                .long("config")
                .action(ArgAction::SetTrue)
                .help("Print the complete experiment, with all defaults and addresses, as YAML"),
        )
        .arg(
            Arg::new("sandbox")
                .long("sandbox")
                .value_name("WAY")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("best")
                .value_parser(["best", "namespace", "user-namespace", "filter"])
                .help("Close the sandbox of a run, try to get out, and tell what holds on this machine"),
        )
        .args(flags(Style::Gnomon))
        .args_override_self(true)
}

fn exec() -> Command {
    Command::new("exec")
        .about("Run one program on one simulated host, without an experiment file")
        .before_help("Examples:\n  gnomon exec date\n  gnomon exec --strace-logging-mode standard -d out python3 -c 'print(1)'\n  gnomon exec --env LANG=C --stop-time '1 h' ./server --port 80")
        .after_help("The program's output is shown as it comes, in pieces of 16 KiB and at the end, and its exit status is handed on (128 + N when signal N killed \
             it). Gnomon's own: 2 bad input, 124 the program still ran at the stop time, 125 Gnomon failed, 126 the program \
             could not be started.")
        .override_usage("gnomon exec [OPTIONS] PROGRAM [ARGS]...")
        .arg(
            Arg::new("command")
                .value_name("PROGRAM")
                .required(true)
                .num_args(1..)
                .trailing_var_arg(true)
                .help("The program (looked up in PATH) and its arguments"),
        )
        .arg(value("bandwidth", "BANDWIDTH", "1 Gbit", "The bandwidth of the host, both ways"))
        .arg(value("latency", "TIME", "1 ms", "The latency of the host's network"))
        .arg(value("host-name", "NAME", "host", "What the host is called"))
        .arg(
            Arg::new("env")
                .long("env")
                .value_name("NAME[=VALUE]")
                .action(ArgAction::Append)
                .help("A variable of the program's environment; without VALUE it is taken from yours. Set anyway: PATH (the system's directories), HOME=/tmp, USER and LOGNAME (root)"),
        )
        .arg(
            Arg::new("gdb")
                .long("gdb")
                .action(ArgAction::SetTrue)
                .help("Run under gdb and stop where the program begins"),
        )
        .arg(
            Arg::new("strace")
                .long("strace")
                .action(ArgAction::SetTrue)
                .help("Show the system calls of the program and its children on standard error as they happen"),
        )
        .arg(
            Arg::new("user")
                .long("user")
                .value_name("USER")
                .help("Who executes the program: a name from /etc/passwd, or a number; root otherwise"),
        )
        .args(execution_flags())
        .args(flags(Style::Gnomon))
}

/// For its place in the list of commands: its own command line is read before this one.
fn shadow() -> Command {
    Command::new("shadow").about("Take the command line of the Shadow simulator (as under the name 'shadow')")
}

fn help() -> Command {
    Command::new("help")
        .about("Explain a command or a topic")
        .after_help(format!("Topics: {}", topics::names().collect::<Vec<_>>().join(", ")))
        .arg(
            Arg::new("topic")
                .value_name("TOPIC")
                .num_args(0..)
                .help("A command, such as 'run' or 'tor new', or a topic; the list without it"),
        )
}

fn file() -> Arg {
    Arg::new("file").value_name("FILE").value_parser(clap::value_parser!(std::path::PathBuf)).help(FILE_HELP)
}

fn value(name: &'static str, placeholder: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).default_value(default).help(help)
}

/// How a run is executed and watched, which changes nothing of its result.
pub fn execution_flags() -> [Arg; 9] {
    [
        Arg::new("show-log")
            .long("show-log")
            .action(ArgAction::SetTrue)
            .help("Write the log to standard output instead of 'gnomon.log' in the data directory"),
        Arg::new("quiet")
            .long("quiet")
            .short('q')
            .action(ArgAction::SetTrue)
            .help("Say nothing unless something is wrong"),
        Arg::new("policy")
            .long("policy")
            .value_name("POLICY")
            .value_parser(engine::Policy::NAMES.map(|(name, _)| name))
            .default_value(engine::Policy::NAMES[0].0)
            .help("Which worker runs a host: idle ones take from others' lists, of which the longest come first or not; each keeps its own; or one runs all. No result depends on it"),
        Arg::new("forecast")
            .long("forecast")
            .action(ArgAction::SetTrue)
            .help("With '--parallelism 1': reckon how long the run would take with 2 to 64 workers; in the log and in sim-stats.json"),
        // For 'gnomon lab phold', which compares loggers.
        Arg::new("log-at-once").long("log-at-once").action(ArgAction::SetTrue).hide(true),
        Arg::new("no-crash-reports")
            .long("no-crash-reports")
            .action(ArgAction::SetTrue)
            .help("Leave no report (hosts/HOST/EXE.PID.crash) of programs that crash"),
        Arg::new("perf")
            .long("perf")
            .action(ArgAction::SetTrue)
            .help("Show programs to 'perf record' under their files' names, so that it knows their functions"),
        debug_hosts(),
        Arg::new(UNDER_GDB).long(UNDER_GDB).action(ArgAction::SetTrue).hide(true),
    ]
}

pub fn gdb() -> Arg {
    Arg::new("gdb")
        .long("gdb")
        .short('g')
        .action(ArgAction::SetTrue)
        .help("Pause before the first guest starts, so that a debugger can attach")
}

pub fn debug_hosts() -> Arg {
    Arg::new("debug-hosts")
        .long("debug-hosts")
        .value_name("HOSTS")
        .value_delimiter(',')
        .help("Pause before the first process of each of these hosts starts (names, with commas between)")
}
