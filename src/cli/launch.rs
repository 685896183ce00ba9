//! The way from a plan to its run, in an order that matters: bad input is refused first, then the machine is prepared, then the
//! box closes, and only then are threads and guests started.

use super::interrupt::{self, Interrupts};
use super::limits::{self, Notice};
use super::origin::Origin;
use super::ranks;
use crate::sandbox::{self, Lifetime};
use crate::simulation::{self, Costs, CpuModel, LogTarget, OptionProblem, ProfileKind, Progress, RunOptions, Summary};
use crate::terminal::Terminal;
use ::ranks::Link;
use base::HostId;
use clap::ArgMatches;
use recorder::{DataDirectory, Level};
use scenario::Plan;
use simkernel::{DebugTarget, MachineFiles};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;

/// What the command line says about how to run.
#[derive(Debug)]
pub struct Launch {
    pub lifetime: Lifetime,
    pub log: LogTarget,
    pub log_at_once: bool,
    /// Reckon how long the run would take with more workers.
    pub forecast: bool,
    pub progress: Progress,
    pub policy: engine::Policy,
    pub debug_hosts: BTreeSet<HostId>,
    pub debugging: Debugging,
    /// Leave a report of every guest that crashes.
    pub crash_reports: bool,
    /// Write logs of calls to standard error as they happen.
    pub strace_live: bool,
    /// Show what guests write on standard output and error.
    pub show_outputs: bool,
    /// Say where processor time goes, or instructions.
    pub profile: Option<ProfileKind>,
    /// By what the hosts are divided among several processes.
    pub rank_costs: Option<Costs>,
    /// Where the plan's values were written.
    pub origin: Origin,
}

/// How a debugger takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Debugging {
    Off,
    /// The process pauses before its guests start.
    Pause,
    /// gdb has started this run, to stop at a guest of this host.
    Guest(HostId, DebugTarget),
}

/// Why there is no summary.
#[derive(Debug)]
pub enum Failure {
    /// The user gave something wrong; nothing has run.
    Input(String),
    /// The machine cannot run it, or the run broke off.
    Run(String),
    /// Another process of the run tells why.
    Elsewhere,
}

impl Failure {
    /// Tells the user. What is wrong with the input names its place at the beginning of the line, where editors look for it.
    pub fn tell(&self) {
        let _ = match self {
            Failure::Input(text) => writeln!(std::io::stderr(), "{}{text}", ranks::prefix()),
            Failure::Run(text) => writeln!(std::io::stderr(), "{}gnomon: {text}", ranks::prefix()),
            Failure::Elsewhere => Ok(()),
        };
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(text) | Failure::Run(text) => f.write_str(text),
            Failure::Elsewhere => f.write_str("another rank tells why"),
        }
    }
}

/// A run that came to its end.
#[derive(Debug)]
pub struct Finished {
    pub summary: Summary,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

/// Whether this run can leave a record of its packets.
fn can_record(has_ranks: bool) -> Result<(), OptionProblem> {
    let refused = |why: &str| {
        let message = format!("{why}, or run with '--provenance off'");
        Err(OptionProblem { option: "experimental.provenance", message })
    };
    if has_ranks {
        return refused("the processes of a run under MPI keep no common record: run it in one process");
    }
    if !probes::ENABLED {
        return refused("this gnomon was built without probes: build it with cargo's feature 'probes'");
    }
    Ok(())
}

impl Launch {
    /// Reads the flags of `command::execution_flags`.
    pub fn new(matches: &ArgMatches, plan: &Plan, lifetime: Lifetime) -> Result<Launch, String> {
        let named = matches.get_one::<String>("policy").map_or("", String::as_str);
        let known = engine::Policy::NAMES.iter().find(|(name, _)| *name == named);
        let policy = known.map_or_else(engine::Policy::default, |(_, policy)| *policy);
        let log = if matches.get_flag("show-log") { LogTarget::Stdout } else { LogTarget::DataDirectory };
        let debug_hosts = debug_hosts(matches, plan)?;
        let forecast = matches.get_flag("forecast");
        if forecast && workers(plan) != 1 {
            return Err("--forecast reckons from a run with one worker: add '--parallelism 1'".to_owned());
        }
        if matches.get_flag("perf") {
            guest::show_to_perf();
        }
        let crash_reports = !matches.get_flag("no-crash-reports");
        Ok(Launch {
            lifetime,
            log,
            log_at_once: matches.get_flag("log-at-once"),
            forecast,
            progress: Progress::Off,
            policy,
            debug_hosts,
            debugging: Debugging::Off,
            crash_reports,
            strace_live: false,
            show_outputs: false,
            profile: None,
            rank_costs: None,
            origin: Origin::new(None, matches),
        })
    }

    /// Executes the plan. Call it once, while the process has one thread: the process is not the same afterwards.
    pub fn run(self, plan: &Plan) -> Result<Finished, Failure> {
        let link = ranks::connect()?;
        let wrong = |problem| Failure::Input(self.origin.tell(&problem));
        if plan.experimental.provenance != probes::Level::Off {
            can_record(link.is_some()).map_err(wrong)?;
        }
        if self.profile.is_some() && link.is_some() {
            let text = "--profile: the processes of a run under MPI keep no common profile: run it in one process, or without --profile";
            return Err(Failure::Input(text.to_owned()));
        }
        simulation::check_record(plan).map_err(wrong)?;
        let model = CpuModel::load(plan).map_err(Failure::Input)?;
        let checked = match link.as_ref().map(Link::place) {
            // Rank 0 looks for all.
            Some(place) if place.rank > 0 => Ok(()),
            _ => plan.check_data_directory().map_err(|error| error.to_string()),
        };
        match &link {
            Some(link) => ranks::greet(link, plan, checked.err())?,
            None => checked.map_err(Failure::Input)?,
        }
        let stops_for_gdb = matches!(self.debugging, Debugging::Guest(..));
        let interrupts = Interrupts::block(stops_for_gdb).map_err(|error| failed("block signals", &error))?;
        let guests = plan.hosts.iter().map(|host| host.processes.len()).sum();
        let mut notices = limits::raise(guests);
        let network = sandbox::leave_network(None).map_err(|error| Failure::Run(error.to_string()))?;
        notices.push((Level::Info, format!("network: {network}")));
        let create = || create_data_directory(plan, &|| !interrupts.are_pending());
        let directory = match &link {
            Some(link) => ranks::data_directory(link, create),
            None => create(),
        };
        let directory = directory.inspect_err(|_| interrupts.obey())?;
        let files = sandbox::confine_writes(directory.path(), self.lifetime)
            .map_err(|error| Failure::Run(error.to_string()))?;
        notices.push((files_level(&files), format!("files: {files}")));
        match &self.debugging {
            Debugging::Off => {}
            Debugging::Pause => pause_for_debugger("before the first guest starts"),
            Debugging::Guest(..) => guest::meet_debugger(),
        }
        interrupts.watch("stopping with the recordings kept").map_err(|error| failed("start a thread", &error))?;
        let summary = simulation::run(plan, self.options(plan, directory, notices, model, link), interrupts.stop())
            .map_err(|error| Failure::Run(error.to_string()))?;
        Ok(Finished { summary, signal: interrupts.signal() })
    }

    fn options(
        self,
        plan: &Plan,
        directory: DataDirectory,
        notices: Vec<Notice>,
        cpu_model: Option<CpuModel>,
        link: Option<Link>,
    ) -> RunOptions {
        RunOptions {
            directory,
            workers: workers(plan),
            policy: self.policy,
            progress: self.progress,
            log: self.log,
            log_at_once: self.log_at_once,
            forecast: self.forecast,
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            notices,
            debug_hosts: self.debug_hosts,
            pause: pause_for_debugger,
            crash_reports: self.crash_reports,
            strace_live: self.strace_live,
            abandon: interrupt::end_at_once,
            show_outputs: self.show_outputs,
            debug: match self.debugging {
                Debugging::Guest(host, target) => Some((host, target)),
                Debugging::Off | Debugging::Pause => None,
            },
            profile: self.profile,
            cpu_model,
            link,
            rank_costs: self.rank_costs,
            machine_files: MachineFiles::default(),
        }
    }
}

fn create_data_directory(plan: &Plan, goes_on: &dyn Fn() -> bool) -> Result<DataDirectory, Failure> {
    let created = DataDirectory::create(&plan.data_directory, plan.template_directory.as_deref(), goes_on);
    created.map_err(|error| {
        let is_its_place = error.path() == plan.data_directory;
        let remedy = if is_its_place { "; name a place that can be written with --data-directory" } else { "" };
        Failure::Input(format!("{error}{remedy}"))
    })
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::Run(format!("cannot {what}: {error}"))
}

fn files_level(files: &sandbox::Files) -> Level {
    match files {
        sandbox::Files::Confined { .. } => Level::Info,
        sandbox::Files::Open { .. } => Level::Warning,
    }
}

/// How many workers execute a plan: one per physical core that this process may use, unless it says a number; more than
/// hosts would be of no use.
pub fn workers(plan: &Plan) -> usize {
    let asked = match plan.general.parallelism {
        0 => num_cpus::get_physical().min(std::thread::available_parallelism().map_or(1, usize::from)),
        workers => workers as usize,
    };
    asked.clamp(1, plan.hosts.len().clamp(1, engine::MAX_WORKERS))
}

/// The hosts of `--debug-hosts`.
pub fn debug_hosts(matches: &ArgMatches, plan: &Plan) -> Result<BTreeSet<HostId>, String> {
    let names = matches.get_many::<String>("debug-hosts").into_iter().flatten();
    let find = |name: &String| match plan.host_named(name) {
        Some(host) => Ok(host.id),
        None => Err(format!("--debug-hosts: the experiment has no host '{name}'; name hosts with commas between them")),
    };
    names.map(find).collect()
}

/// Stops the process as Ctrl-Z does, and says how to go on. Returns when it is continued.
fn pause_for_debugger(when: &str) {
    let pid = std::process::id();
    if Terminal::is_terminal() {
        let _ = std::io::stderr().write_all(b"\r\x1b[K");
    }
    let _ = writeln!(
        std::io::stderr(),
        "** Pausing with SIGTSTP {when} (pid {pid}): attach with 'gdb -p {pid}', continue with 'fg' or 'kill -CONT {pid}'"
    );
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTSTP);
}
