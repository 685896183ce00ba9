//! `gnomon lab NAME...`: repeats published experiments, and writes a page with their numbers beside those of this machine.
//!
//! Each run is a child process. Its `sim-stats.json` is kept with the fingerprint of what was run, and what is there already is not run
//! again. Children write their messages to one log, which they keep locked while they live: a call that was killed may leave a run
//! behind, and the next one waits for its end, since two at once would disturb each other's times.

mod native;

use crate::cli::interrupt::Interrupts;
use crate::cli::{complain, report, show, status};
use crate::simulation::{available_memory, provenance};
use crate::terminal::Terminal;
use ::lab::{Clients, Experiment, Failure, LABS, Lab, Packages, Request, Runner, Setting, Size, Task, Written};
use base::wall::WallClock;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

const ALL: &str = "all";
/// The laboratory that has figures, and options of its own.
const IMUX: &str = "imux";
const LOG: &str = "lab.log";
const STATS: &str = "sim-stats.json";
/// So often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub fn command() -> Command {
    let width = name_width();
    let names = LABS.iter().map(|lab| format!("  {:<width$}{}\n", lab.name, lab.about)).collect::<String>();
    Command::new("lab")
        .about("Repeat published experiments; a page with the published numbers, ours, and a verdict for each claim")
        .before_help("Examples:\n  gnomon lab                            the list\n  gnomon lab loader\n  gnomon lab imux 7 --scale 0.2 --seeds 5\n  gnomon lab all --size small -o results\n  gnomon lab all --report-only -o results")
        .after_help(format!(
            "Laboratories:\n{names}  {ALL:<width$}all of them\n\nWhat was run already, with the same DIR and size, is not run again; to repeat it, remove DIR. Exit status: 0 \
             all runs are there, 1 some failed, 2 bad input, 128 and the signal's number when interrupted. More: docs/lab.md"
        ))
        .arg(Arg::new("name").value_name("NAME").num_args(0..).value_parser(name).help("Which; the list without it"))
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("DIR")
                .default_value("lab")
                .value_parser(value_parser!(PathBuf))
                .help("Where everything goes: DIR/index.html, DIR/NAME/measurements.csv, figures"),
        )
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("SIZE")
                .default_value("small")
                .value_parser(Size::NAMES.map(|(name, _)| name))
                .hide_possible_values(true)
                .help("'small': all but imux within ten minutes on two cores; 'full': the published sizes, as far as memory allows"),
        )
        .arg(
            Arg::new("repeat")
                .long("repeat")
                .value_name("N")
                .visible_alias("seeds")
                .default_value("3")
                .value_parser(value_parser!(u32).range(1..=1000))
                .help("How often each case is measured, networks with another seed each time; intervals need 2 or more"),
        )
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("F")
                .value_parser(scale)
                .help("Of imux: the share of the published network, such as 0.2, in place of what goes with the size"),
        )
        .arg(
            Arg::new("clients")
                .long("clients")
                .value_name("KIND")
                .value_parser(Clients::NAMES.map(|(name, _)| name))
                .hide_possible_values(true)
                .help("Of imux: clients run 'tor', or 'light' ones, gnomon-onion-client, which take less memory and time [default: light, with --size full tor]"),
        )
        .arg(
            Arg::new("report-only")
                .long("report-only")
                .action(ArgAction::SetTrue)
                .help("Run nothing: write the page of what there is"),
        )
        .args_override_self(true)
}

/// How wide a column of the laboratories' names is.
fn name_width() -> usize {
    LABS.iter().map(|lab| lab.name.len()).max().unwrap_or(0) + 2
}

/// Whether a laboratory has a figure of that name.
fn is_figure(text: &str) -> bool {
    LABS.iter().any(|lab| lab.figures.iter().any(|(name, _)| *name == text))
}

fn name(text: &str) -> Result<String, String> {
    if text == ALL || ::lab::find(text).is_some() || is_figure(text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = LABS.iter().map(|lab| lab.name).collect();
    let names_of = |lab: &Lab| lab.figures.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let with_figures = LABS.iter().filter(|lab| !lab.figures.is_empty());
    let figures: String = with_figures.map(|lab| format!("; figures of {} are {}", lab.name, names_of(lab))).collect();
    Err(format!("there are {} and {ALL}{figures}", names.join(", ")))
}

fn scale(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|scale| (0.01..=1.0).contains(scale))
        .ok_or_else(|| "a number from 0.01 to 1 belongs here".to_owned())
}

pub fn main(matches: &ArgMatches) -> u8 {
    let names: Vec<&String> = matches.get_many("name").into_iter().flatten().collect();
    if names.is_empty() {
        show(&list());
        return status::SUCCESS;
    }
    if names.iter().all(|name| is_figure(name)) {
        complain(&"a figure's number follows its laboratory's name, as in 'gnomon lab imux 7'");
        return status::BAD_INPUT;
    }
    if let Some(text) = only_of_imux(matches, &names) {
        complain(&text);
        return status::BAD_INPUT;
    }
    let request = request(matches, &names);
    let runner = Interrupts::block(false).and_then(|interrupts| Children::new(interrupts, &request));
    let mut runner = match runner {
        Ok(runner) => runner,
        Err(error) => {
            complain(&format!("'{}': {error}", request.output.display()));
            return status::FAILED;
        }
    };
    let written = match ::lab::run(&request, &mut runner) {
        Ok(written) => written,
        Err(error) => {
            complain(&error);
            return status::FAILED;
        }
    };
    runner.terminal.clear();
    show(&summary(&written));
    if runner.of_others > 0 {
        complain(&format!(
            "{} results are of another build of Gnomon; to measure this one, give another -o, or remove '{}'",
            runner.of_others,
            request.output.display()
        ));
    }
    if written.is_interrupted {
        show("interrupted: the same command goes on with what is missing\n");
        return report::interrupted_status(runner.interrupts.signal());
    }
    written.failures.iter().for_each(|failure| complain(failure));
    if written.failures.is_empty() { status::SUCCESS } else { status::FAILED }
}

/// Why a figure or an option would be of no effect: those that only imux has, without imux.
fn only_of_imux(matches: &ArgMatches, names: &[&String]) -> Option<String> {
    if names.iter().any(|name| *name == ALL || *name == IMUX) {
        return None;
    }
    let figure = names.iter().find(|name| is_figure(name)).map(|figure| format!("figure {figure}"));
    // Those that have a default are not given by it.
    let is_given = |option: &&str| matches.value_source(option) == Some(ValueSource::CommandLine);
    let what =
        figure.or_else(|| ["scale", "clients"].into_iter().find(is_given).map(|option| format!("--{option}")))?;
    Some(format!(
        "{what} is of {IMUX} alone: name {IMUX} too, as in 'gnomon lab {IMUX} 7 --scale 0.2', or leave {what} out"
    ))
}

fn list() -> String {
    let figure = |(name, about): &(&str, &str)| format!("    {name:<width$}{about}\n", width = name_width() - 2);
    let lines = |lab: &Lab| {
        let figures: String = lab.figures.iter().map(figure).collect();
        format!("  {:<width$}{}\n{figures}", lab.name, lab.about, width = name_width())
    };
    let all: String = LABS.iter().map(lines).collect();
    format!(
        "Laboratories, which repeat published experiments, and figures that can be asked for one by one:\n{all}\nRun one with 'gnomon lab NAME', \
         some figures with 'gnomon lab imux 7 8', all with 'gnomon lab all'.\n"
    )
}

fn request(matches: &ArgMatches, names: &[&String]) -> Request {
    let is_wanted = |lab: &Lab| names.iter().any(|name| *name == ALL || *name == lab.name);
    let size = matches.get_one::<String>("size").expect("it has a default");
    let (_, size) = Size::NAMES.into_iter().find(|(name, _)| name == size).expect("clap knows the sizes");
    let command: Vec<String> = std::env::args().collect();
    let machine = provenance::of_machine(&command);
    let memory = available_memory();
    let row = |name: &str, value: String| (name.to_owned(), value);
    Request {
        labs: LABS.iter().filter(|lab| is_wanted(lab)).collect(),
        setting: Setting {
            size,
            repetitions: *matches.get_one("repeat").expect("it has a default"),
            processors: usize::try_from(machine.processors).unwrap_or(1),
            // A tenth stays for others.
            memory_bytes: memory / 10 * 9,
            scale: matches.get_one("scale").copied(),
            clients: matches
                .get_one::<String>("clients")
                .and_then(|name| Clients::NAMES.into_iter().find(|(known, _)| known == name))
                .map_or_else(|| Clients::usual(size), |(_, clients)| clients),
            figures: names.iter().filter(|name| is_figure(name)).map(|name| (*name).clone()).collect(),
        },
        report_only: matches.get_flag("report-only"),
        output: matches.get_one::<PathBuf>("output").expect("it has a default").clone(),
        provenance: vec![
            row("Gnomon", env!("CARGO_PKG_VERSION").to_owned()),
            row("command", command.join(" ")),
            row("kernel", format!("Linux {}", machine.kernel)),
            row("processor", format!("{} × {}", machine.processors, machine.processor)),
            row("free memory", format!("{:.1} GiB", memory as f64 / f64::from(1 << 30))),
        ],
    }
}

/// A line for each claim, and where the page is.
fn summary(written: &Written) -> String {
    let mut text = String::new();
    for (lab, judgements) in &written.judgements {
        text += &format!("{}\n", lab.name);
        for judgement in judgements {
            text += &format!("  {:<12}  {}\n", judgement.verdict.name(), judgement.claim.statement);
        }
    }
    text + &format!("page  {}\n", written.page.display())
}

/// Runs as child processes, one after the other.
struct Children {
    interrupts: Interrupts,
    output: PathBuf,
    /// Locked; none where nothing is to be run.
    log: Option<File>,
    terminal: Terminal,
    /// The SHA-256 of this program, and how many results are there that another build measured.
    program: String,
    of_others: usize,
    /// When many files were removed last.
    removed: Option<WallClock>,
}

/// From so many programs on, each of which has two files, a run's folder is many files; and for how long the next run then waits: ext4 passes over
/// inodes that were deleted less than 5 s ago one by one (`recently_deleted`), which makes 4,000 programs start in 5 s in place of 2.
const MANY_PROGRAMS: u64 = 500;
const AFTER_REMOVAL: Duration = Duration::from_secs(6);

impl Children {
    fn new(interrupts: Interrupts, request: &Request) -> io::Result<Children> {
        fs::create_dir_all(&request.output)?;
        let output = fs::canonicalize(&request.output)?;
        let program = provenance::program(&std::env::current_exe()?)?.sha256;
        let terminal = Terminal::stderr();
        let mut children = Children { interrupts, output, log: None, terminal, program, of_others: 0, removed: None };
        if !request.report_only {
            children.interrupts.watch("stopping; what was not measured yet is left out")?;
            children.log = Some(children.lock()?);
        }
        Ok(children)
    }

    /// Waits for runs that an earlier call has left behind.
    fn lock(&self) -> io::Result<File> {
        let log = File::options().create(true).append(true).open(self.output.join(LOG))?;
        let mut is_told = false;
        loop {
            match log.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if self.is_stopped() => return Err(io::Error::other("interrupted")),
                Err(TryLockError::WouldBlock) => {}
            }
            if !std::mem::replace(&mut is_told, true) {
                complain(&format!("another call still measures in '{}'; waiting for its end", self.output.display()));
            }
            std::thread::sleep(LOOK);
        }
        log.set_len(0)?;
        Ok(log)
    }

    fn is_stopped(&self) -> bool {
        self.interrupts.stop().load(Ordering::Relaxed)
    }

    /// Where a task's files are, without what follows the last point.
    fn place(&self, task: &Task) -> PathBuf {
        self.output.join(task.lab.name).join("runs").join(format!("{}-{}", task.case.key, task.repetition))
    }

    fn measure(&mut self, task: &Task) -> Result<String, Failure> {
        let place = self.place(task);
        fs::create_dir_all(place.parent().expect("a folder"))
            .map_err(|error| failed("its folder cannot be made", &error))?;
        let data = place.with_extension("data");
        remove(&data).map_err(|error| failed("what an earlier run left cannot be removed", &error))?;
        let stats = match &task.case.experiment {
            Experiment::NativeVictim { relay, .. } => self.measure_natively(task, relay, &data)?,
            Experiment::NativeSockets { count } => self.open_natively(task, *count, &data)?,
            _ => self.simulate(task, &data)?,
        };
        let text = stats.to_string();
        let kept = json!({"fingerprint": task.case.fingerprint(), "program": self.program, "stats": stats});
        keep(&place.with_extension("json"), &kept.to_string())
            .map_err(|error| failed("its result cannot be kept", &error))?;
        remove(&data).map_err(|error| failed("its data cannot be removed", &error))?;
        let programs = stats["gnomon"]["guests"].as_u64().unwrap_or(0);
        self.removed = (programs >= MANY_PROGRAMS).then(WallClock::start);
        Ok(text)
    }

    /// Waits until what the last run has left does not disturb the next one.
    fn rest(&mut self) {
        let Some(removed) = self.removed.take() else { return };
        while removed.elapsed() < AFTER_REMOVAL && !self.is_stopped() {
            std::thread::sleep(LOOK);
        }
    }

    /// Runs the task's experiment as guests.
    fn simulate(&mut self, task: &Task, data: &Path) -> Result<Value, Failure> {
        let (folder, file) = self.experiment(task, &task.case.experiment)?;
        let mut arguments: Vec<String> = ["run", "--quiet", "--data-directory"].map(str::to_owned).to_vec();
        arguments.push(data.display().to_string());
        arguments.extend(task.case.options.iter().cloned());
        if task.case.experiment.is_seeded_by_run() {
            arguments.extend(["--seed".to_owned(), task.repetition.to_string()]);
        }
        arguments.push(file);
        let ended = self.execute_own(task, &folder, &arguments)?;
        // Tors and their clients may end otherwise than was expected, and the run counts all the same.
        let tolerated = task.case.experiment.may_end_otherwise() && ended.code() == Some(1);
        if !ended.success() && !tolerated {
            return Err(Failure::Run(self.last_words(ended)));
        }
        let text = fs::read_to_string(data.join(STATS)).map_err(|error| failed("it left no sim-stats.json", &error))?;
        let stats: Value = serde_json::from_str(&text).map_err(|error| Failure::Run(error.to_string()))?;
        if !stats["gnomon"]["interferences"]["recording"].is_null() {
            return Err(Failure::Run("not all could be recorded: is the disk full?".to_owned()));
        }
        let mut stats = stats;
        if let Experiment::Downloads { .. } = &task.case.experiment {
            stats["downloads"] = downloads(data).map_err(Failure::Run)?;
        }
        if let Experiment::Victim { relay, .. } = &task.case.experiment {
            // Experiments begin at a midnight.
            stats["victim"] = of_relay(data, relay, |time| time.rem_euclid(86_400.0)).map_err(Failure::Run)?;
        }
        if let Experiment::Profiled { rules, .. } = &task.case.experiment {
            stats["profile"] = profile(data, task.lab, rules).map_err(Failure::Run)?;
        }
        if let Experiment::Printed { host, .. } = &task.case.experiment {
            stats["printed"] = printed(data, host).map_err(Failure::Run)?;
        }
        Ok(stats)
    }

    /// Runs the programs of the task's experiment on this machine's kernel.
    fn measure_natively(&mut self, task: &Task, relay: &str, data: &Path) -> Result<Value, Failure> {
        let (folder, file) = self.experiment(task, &task.case.experiment)?;
        let native = native::prepare(&folder, &file, data).map_err(Failure::Run)?;
        let clock = WallClock::start();
        let ended = self.execute(task, "unshare".as_ref(), &folder, &native.arguments)?;
        if !ended.success() {
            return Err(Failure::Run(format!(
                "natively: {}; it takes root, or a kernel that lets users have namespaces (kernel.unprivileged_userns_clone, \
                 user.max_user_namespaces)",
                self.last_words(ended)
            )));
        }
        let began = fs::read_to_string(&native.began).map_err(|error| failed("it did not begin", &error))?;
        let began: f64 = began.trim().parse().map_err(|_| Failure::Run(format!("it began at '{began}'")))?;
        let mut stats = natively(&clock);
        stats["victim"] = of_relay(data, relay, |time| time - began).map_err(Failure::Run)?;
        Ok(stats)
    }

    /// Opens sockets of this machine's kernel.
    fn open_natively(&mut self, task: &Task, count: u64, data: &Path) -> Result<Value, Failure> {
        fs::create_dir_all(data).map_err(|error| failed("its folder cannot be made", &error))?;
        let own = std::env::current_exe().map_err(|error| failed("this program is not found", &error))?;
        let every = (count / 20).max(2);
        let command = format!(
            "exec {} sockets --count {count} --every {every} > sockets",
            native::quoted(&own.with_file_name("gnomon-traffic").display().to_string())
        );
        let clock = WallClock::start();
        let ended = self.execute(task, "sh".as_ref(), data, &["-c".to_owned(), command])?;
        if !ended.success() {
            return Err(Failure::Run(self.last_words(ended)));
        }
        let mut stats = natively(&clock);
        let said = fs::read_to_string(data.join("sockets")).map_err(|error| failed("it said nothing", &error))?;
        of_sockets(&said, &mut stats).map_err(Failure::Run)?;
        Ok(stats)
    }

    /// Where to run the task's experiment, and its file there. Networks are made when they are first needed.
    fn experiment(&mut self, task: &Task, experiment: &Experiment) -> Result<(PathBuf, String), Failure> {
        let failed = |error: io::Error| Failure::Run(format!("its experiment cannot be written: {error}"));
        let written = |output: &Path, text: &str| {
            let folder = output.join(task.lab.name).join("experiments");
            let file = format!("{}.yaml", experiment.fingerprint());
            fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(&file), text)).map_err(failed)?;
            Ok((folder, file))
        };
        match experiment {
            Experiment::NativeSockets { .. } => Err(Failure::Run("sockets have no experiment".to_owned())),
            Experiment::File(text) => written(&self.output, text),
            Experiment::Profiled { experiment, .. } | Experiment::Printed { experiment, .. } => {
                self.experiment(task, experiment)
            }
            Experiment::Python { packages, programs, text } => {
                let python = self.python(task, packages)?;
                // A folder of their own: Python lists it, so what else lies there would be part of the experiment.
                let folder = self.output.join(task.lab.name).join("programs");
                fs::create_dir_all(&folder).map_err(failed)?;
                for program in *programs {
                    keep(&folder.join(program.file), program.text).map_err(failed)?;
                }
                let places = [("{python}", &python), ("{programs}", &folder)];
                let placed =
                    |text: String, (name, path): &(&str, &PathBuf)| text.replace(name, &path.display().to_string());
                written(&self.output, &places.iter().fold(text.clone(), placed))
            }
            Experiment::Tor { name, options }
            | Experiment::Downloads { name, options }
            | Experiment::Victim { name, options, .. }
            | Experiment::NativeVictim { name, options, .. } => {
                let networks = self.output.join("networks");
                let mut options = options.clone();
                let mut folder = networks.join(format!("{name}-{}", experiment.fingerprint()));
                if !matches!(experiment, Experiment::Tor { .. }) {
                    options.extend(["--seed".to_owned(), task.repetition.to_string()]);
                    folder = networks.join(format!("{name}-{}-{}", experiment.fingerprint(), task.repetition));
                }
                if !folder.exists() {
                    let unfinished = folder.with_extension("new");
                    fs::create_dir_all(&networks).and_then(|()| remove(&unfinished)).map_err(failed)?;
                    let mut arguments: Vec<String> = ["tor", "new"].map(str::to_owned).to_vec();
                    arguments.extend(options.iter().cloned());
                    arguments.push(unfinished.display().to_string());
                    let ended = self.execute_own(task, &networks, &arguments)?;
                    if !ended.success() {
                        return Err(Failure::Run(self.last_words(ended)));
                    }
                    fs::rename(&unfinished, &folder).map_err(failed)?;
                }
                Ok((folder, "gnomon.yaml".to_owned()))
            }
        }
    }

    /// A Python that has the packages, in a virtual environment that is made when it is first needed.
    fn python(&mut self, task: &Task, packages: &Packages) -> Result<PathBuf, Failure> {
        let written = |error: io::Error| Failure::Run(format!("packages of Python cannot be installed: {error}"));
        let folder = self.output.join("python").join(packages.name);
        let (python, done) = (folder.join("bin").join("python3"), folder.join("requirements.txt"));
        if fs::read_to_string(&done).is_ok_and(|text| text == packages.requirements) {
            return Ok(python);
        }
        remove(&folder).map_err(written)?;
        fs::create_dir_all(&folder).map_err(written)?;
        let wanted = folder.join("wanted.txt");
        fs::write(&wanted, packages.requirements).map_err(written)?;
        let text = |path: &Path| path.display().to_string();
        let steps: [(&Path, Vec<String>); 2] = [
            (Path::new("python3"), ["-m", "venv", &text(&folder)].map(str::to_owned).to_vec()),
            (
                &python,
                ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", &text(&wanted)]
                    .map(str::to_owned)
                    .to_vec(),
            ),
        ];
        for (program, arguments) in steps {
            let ended = self.execute(task, program, &folder, &arguments).map_err(|failure| match failure {
                Failure::Run(why) => Failure::Run(format!("'{}': {why}", program.display())),
                other => other,
            })?;
            if !ended.success() {
                return Err(Failure::Run(format!(
                    "{}; it takes python3 with venv and pip (Debian: python3-venv), libsodium23, and PyPI or a mirror of it: {}",
                    self.last_words(ended),
                    packages.requirements.trim().replace('\n', ", ")
                )));
            }
        }
        fs::rename(&wanted, &done).map_err(written)?;
        Ok(python)
    }

    /// Runs this program with other arguments to its end, or to a signal's.
    fn execute_own(&mut self, task: &Task, folder: &Path, arguments: &[String]) -> Result<ExitStatus, Failure> {
        let own = std::env::current_exe().map_err(|error| failed("this program is not found", &error))?;
        self.execute(task, &own, folder, arguments)
    }

    /// Runs a program to its end, or to a signal's.
    fn execute(
        &mut self,
        task: &Task,
        program: &Path,
        folder: &Path,
        arguments: &[String],
    ) -> Result<ExitStatus, Failure> {
        let failed = |error: io::Error| Failure::Run(format!("it cannot be started: {error}"));
        let log = self.log.as_ref().expect("runs are made with the log open");
        let mut command = std::process::Command::new(program);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        // The lock is the open file's, so it lasts as long as the run has it.
        command.stdout(log.try_clone().map_err(failed)?).stderr(log.try_clone().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        let clock = WallClock::start();
        loop {
            if let Some(ended) = child.try_wait().map_err(failed)? {
                return if self.is_stopped() { Err(Failure::Interrupted) } else { Ok(ended) };
            }
            if self.is_stopped() {
                if let Ok(pid) = i32::try_from(child.id()) {
                    // It may have ended by itself.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
                let _ = child.wait();
                return Err(Failure::Interrupted);
            }
            if Terminal::is_terminal() {
                let line = format!("{}: {:.0} s", title(task), clock.elapsed().as_secs_f64());
                let line: String = line.chars().take(self.terminal.width()).collect();
                self.terminal.redraw(&line);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// How a child ended, with the last line of the log.
    fn last_words(&self, ended: ExitStatus) -> String {
        let log = self.output.join(LOG);
        let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("{ended}: {last} ({})", log.display())
    }
}

impl Runner for Children {
    fn earlier(&mut self, task: &Task) -> Option<String> {
        let text = fs::read_to_string(self.place(task).with_extension("json")).ok()?;
        let kept: Value = serde_json::from_str(&text).ok()?;
        if kept["fingerprint"] != task.case.fingerprint() {
            return None;
        }
        self.of_others += usize::from(kept["program"] != self.program);
        Some(kept["stats"].to_string())
    }

    fn run(&mut self, task: &Task) -> Result<String, Failure> {
        self.rest();
        if self.is_stopped() {
            return Err(Failure::Interrupted);
        }
        let clock = WallClock::start();
        let result = self.measure(task);
        self.terminal.clear();
        let seconds = clock.elapsed().as_secs_f64();
        match &result {
            Ok(_) => show(&format!("{}: done in {seconds:.1} s\n", title(task))),
            Err(Failure::Run(why)) => show(&format!("{}: failed: {why}\n", title(task))),
            Err(Failure::Interrupted) => {}
        }
        result
    }
}

fn title(task: &Task) -> String {
    format!("{} of {}, {} {}, repetition {}", task.number, task.total, task.lab.name, task.case.key, task.repetition)
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::Run(format!("{what}: {error}"))
}

/// What a run's clients fetched while figures count, by what they do.
fn downloads(data: &Path) -> Result<Value, String> {
    let downloads = ::report::downloads::of_run(data).map_err(|error| error.to_string())?;
    let mut by_behaviour = serde_json::Map::new();
    for download in downloads {
        let of =
            by_behaviour.entry(download.behaviour).or_insert_with(|| json!({"first_s": [], "last_s": [], "failed": 0}));
        match (download.first_byte_s, download.last_byte_s) {
            (Some(first_s), Some(last_s)) if download.is_complete => {
                for (name, value) in [("first_s", first_s), ("last_s", last_s)] {
                    of[name].as_array_mut().expect("made so").push(json!(value));
                }
            }
            _ => of["failed"] = json!(of["failed"].as_u64().unwrap_or(0) + 1),
        }
    }
    Ok(Value::Object(by_behaviour))
}

/// What a run's profile says of groups of functions and of calls.
fn profile(data: &Path, lab: &Lab, rules: &str) -> Result<Value, String> {
    let rules = ::profile::Rules::parse(lab.name, rules).map_err(|error| error.to_string())?;
    let found = ::profile::summary(data, &rules).map_err(|error| error.to_string())?;
    let groups = found.groups.iter().map(|one| json!([one.role, one.phase, one.group, one.ns]));
    let calls = found.calls.iter().map(|one| json!([one.call, one.ns]));
    Ok(json!({
        "groups": groups.collect::<Vec<Value>>(),
        "calls": calls.collect::<Vec<Value>>(),
        "programs_ns": found.programs_ns,
        "kernel_ns": found.kernel_ns,
        "engine_ns": found.engine_ns,
    }))
}

/// The objects of JSON that a host's programs printed, a line for each, by the names of their outputs.
fn printed(data: &Path, host: &str) -> Result<Value, String> {
    let folder = data.join("hosts").join(host);
    let told = |path: &Path, error: &dyn std::fmt::Display| format!("'{}': {error}", path.display());
    let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(|error| told(&folder, &error))?;
    let mut outputs: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    outputs.retain(|path| path.extension().is_some_and(|extension| extension == "stdout"));
    outputs.sort();
    let mut objects: Vec<Value> = Vec::new();
    for path in outputs {
        let text = fs::read_to_string(&path).map_err(|error| told(&path, &error))?;
        for line in text.lines().filter(|line| line.starts_with('{')) {
            objects.push(serde_json::from_str(line).map_err(|error| told(&path, &error))?);
        }
    }
    Ok(Value::from(objects))
}

/// Seconds of a relay's statistics that are put together.
const TOGETHER_S: f64 = 10.0;

/// The beginning of a `sim-stats.json`, of what ran natively.
fn natively(clock: &WallClock) -> Value {
    let machine = provenance::of_machine(&[]);
    json!({"gnomon": {
        "version": env!("CARGO_PKG_VERSION"),
        "provenance": {"kernel": machine.kernel, "processor": machine.processor, "processors": machine.processors},
        "wall_ns": clock.elapsed().as_nanos() as u64,
        "simulated_ns": 0,
    }})
}

/// What `gnomon-traffic sockets` said: [sockets, bytes of the kernel's objects more than without, seconds to open one], and why there were no more.
fn of_sockets(said: &str, stats: &mut Value) -> Result<(), String> {
    let (mut sockets, mut first) = (Vec::new(), None);
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("gnomon-traffic sockets: {error}"))?;
        if let Some(limit) = line["limit"].as_str() {
            stats["socket_limit"] = json!(limit);
        }
        if let (Some(open), Some(slab)) = (line["open"].as_u64(), line["slab"].as_f64()) {
            let before = *first.get_or_insert(slab);
            sockets.push(json!([open, slab - before, line["connect"]]));
        }
    }
    stats["sockets"] = Value::from(sockets);
    Ok(())
}

/// What a relay has written of itself each second, put together: [from, bytes relayed per second, most descriptors, most circuits, seconds to open a
/// socket]. `since` makes of seconds since 1970 those since the beginning.
fn of_relay(data: &Path, relay: &str, since: impl Fn(f64) -> f64) -> Result<Value, String> {
    let path = data.join("hosts").join(relay).join("statistics");
    let text = fs::read_to_string(&path).map_err(|error| format!("'{}': {error}", path.display()))?;
    let mut moments: Vec<Value> = Vec::new();
    let (mut began, mut last, mut most) = (None, None, (0.0_f64, 0.0_f64));
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("'{}': {error}", path.display()))?;
        let number = |name: &str| line[name].as_f64().ok_or_else(|| format!("'{}': no {name}", path.display()));
        let (time, relayed) = (number("time")?, number("relayed_bytes")?);
        most = (most.0.max(number("descriptors")?), most.1.max(number("circuits")?));
        let opening = (number("opened")?, number("opening_s")?);
        let (start, so_far, opened_so_far) = *began.get_or_insert((time, relayed, opening));
        if time - start >= TOGETHER_S {
            let open_s = (opening.1 - opened_so_far.1) / (opening.0 - opened_so_far.0);
            let relayed_per_s = (relayed - so_far) / (time - start);
            // Not a number, where none was opened, becomes null.
            moments.push(json!([since(start), relayed_per_s, most.0, most.1, open_s]));
            (began, most) = (Some((time, relayed, opening)), (0.0, 0.0));
        }
        last = Some(time);
    }
    match last {
        Some(_) => Ok(Value::from(moments)),
        None => Err(format!("'{}' is empty", path.display())),
    }
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file as a whole or not at all: half a result would count as one.
fn keep(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("json.new");
    fs::write(&unfinished, text)?;
    fs::rename(unfinished, path)
}
