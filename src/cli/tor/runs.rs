//! `gnomon tor run DIR...`: the runs of several networks, each with several seeds, as many at once as the machine carries; what is
//! complete already is not run again.
//!
//! A run is complete when its `sim-stats.json`, which is written last, says that it came to its stop time: so it is whatever became of the batch.
//! Its messages go to `seed-N.log`, which it keeps locked while it lives: a batch that was killed may leave runs behind, and the next one does not
//! begin them a second time.

use crate::cli::interrupt::Interrupts;
use crate::cli::{complain, report, show, status};
use crate::simulation::available_memory;
use crate::terminal::Terminal;
use base::wall::WallClock;
use clap::{Arg, ArgMatches, Command, value_parser};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What an experiment is called in a folder: ours, tornettools'.
const EXPERIMENTS: [&str; 2] = ["gnomon.yaml", "shadow.config.yaml"];

/// What a run writes at its beginning and at its end.
const CONFIG: &str = "processed-config.yaml";
const STATS: &str = "sim-stats.json";

const EARLIER: &str = "complete, by an earlier call";

/// A tor with what belongs to it, on the safe side: 4.5 to 7 MiB are usual. It counts until a run of the network has been measured.
const BYTES_PER_HOST: u64 = 12 << 20;

/// So often the runs are looked at, and progress is told where no terminal shows it.
const LOOK: Duration = Duration::from_millis(100);
const TELL: Duration = Duration::from_secs(60);

pub fn command() -> Command {
    Command::new("run")
        .about("Run networks with several seeds, several at once; go on where an earlier call was interrupted")
        .before_help(
            "Examples:\n  gnomon tor run vanilla kist --seeds 1-3\n  gnomon tor run kist --seeds 4,5 --jobs 2 -- --stop-time '10 min'",
        )
        .after_help(
            "The runs of DIR are DIR/seed-N.data, their messages DIR/seed-N.log. What is complete is left as it is; to run it again, remove it. \
             What is not begins anew. \
             Exit status: 0 all runs are complete, 1 some are not, 2 bad input, 128 and the signal's number when interrupted.",
        )
        .arg(
            Arg::new("network")
                .value_name("DIR")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("A folder with a network's experiment (gnomon.yaml, or tornettools' shadow.config.yaml)"),
        )
        .arg(
            Arg::new("seeds")
                .long("seeds")
                .value_name("SEEDS")
                .default_value("1")
                .value_parser(seeds)
                .help("With which seeds, as in 1-3 or 1,2,7"),
        )
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .short('j')
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .help("How many runs at once [default: one for each core, as long as memory suffices]"),
        )
        .arg(
            Arg::new("option")
                .value_name("OPTION")
                .last(true)
                .num_args(0..)
                .help("Options of 'gnomon run' for each of them, such as --stop-time '10 min'"),
        )
}

/// "1-3" and "1,2,7".
fn seeds(text: &str) -> Result<Vec<u64>, String> {
    let usage = || format!("'{text}' names no seeds: write 1-3, or 1,2,7");
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| usage());
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from > to || to - from >= 10_000 {
                    return Err(usage());
                }
                all.extend(from..=to);
            }
            None => _ = all.insert(number(part)?),
        }
    }
    Ok(all.into_iter().collect())
}

pub fn main(matches: &ArgMatches) -> u8 {
    let networks: Vec<PathBuf> = matches.get_many("network").into_iter().flatten().cloned().collect();
    let seeds: &Vec<u64> = matches.get_one("seeds").expect("it has a default");
    let options: Vec<String> = matches.get_many("option").into_iter().flatten().cloned().collect();
    let batch = Batch::new(&networks, seeds, options, matches.get_one("jobs").copied());
    let interrupts = Interrupts::block(false);
    match (batch, interrupts) {
        (Ok(batch), Ok(interrupts)) => batch.run(&interrupts),
        (Err(error), _) => {
            complain(&error);
            status::BAD_INPUT
        }
        (_, Err(error)) => {
            complain(&format!("cannot wait for signals: {error}"));
            status::FAILED
        }
    }
}

/// A network with one seed.
struct Task {
    folder: PathBuf,
    experiment: &'static str,
    seed: u64,
    hosts: u64,
    state: State,
}

enum State {
    Complete(&'static str),
    Waiting,
    Running(Child, WallClock),
    /// Why.
    Failed(String),
    /// By a run that an earlier batch has left behind.
    Elsewhere,
}

struct Batch {
    tasks: Vec<Task>,
    options: Vec<String>,
    jobs: usize,
    /// Of each run.
    workers: usize,
}

impl Batch {
    fn new(networks: &[PathBuf], seeds: &[u64], options: Vec<String>, jobs: Option<u32>) -> Result<Batch, String> {
        let own = ["--seed", "--data-directory", "-d"];
        if let Some(option) = options.iter().find(|option| own.iter().any(|own| option.split('=').next() == Some(own)))
        {
            return Err(format!(
                "{option} is the batch's to say: --seeds names seeds, and each run has its own data directory"
            ));
        }
        let mut known = BTreeSet::new();
        let mut tasks = Vec::new();
        for folder in networks {
            let place = fs::canonicalize(folder).map_err(|error| format!("'{}': {error}", folder.display()))?;
            if !known.insert(place) {
                return Err(format!("'{}' is named twice", folder.display()));
            }
            let experiment = EXPERIMENTS.into_iter().find(|name| folder.join(name).is_file()).ok_or_else(|| {
                format!("'{}' has no network: there is neither {}", folder.display(), EXPERIMENTS.join(" nor "))
            })?;
            let hosts = hosts(&folder.join(experiment));
            let task =
                |seed: &u64| Task { folder: folder.clone(), experiment, seed: *seed, hosts, state: State::Waiting };
            tasks.extend(seeds.iter().map(task));
        }
        for task in &mut tasks {
            if task.is_complete() {
                task.state = State::Complete(EARLIER);
            }
        }
        let cores = num_cpus::get().max(1);
        let waiting = tasks.iter().filter(|task| matches!(task.state, State::Waiting)).count();
        let largest = tasks.iter().map(|task| memory(&tasks, task)).max().unwrap_or(0).max(1);
        let carried = usize::try_from(available_memory() / largest).unwrap_or(usize::MAX).max(1);
        let jobs = jobs.map_or_else(|| cores.min(carried), |jobs| jobs as usize).min(waiting.max(1));
        Ok(Batch { tasks, options, jobs, workers: (cores / jobs).max(1) })
    }

    fn run(mut self, interrupts: &Interrupts) -> u8 {
        let waiting = self.count(|state| matches!(state, State::Waiting));
        let already = self.tasks.len() - waiting;
        let mut text = format!("{} runs: {already} complete already, {waiting} to do", self.tasks.len());
        if waiting > 0 {
            let _ = write!(text, ", {} at once with {} workers each", self.jobs, self.workers);
        }
        show(&(text + "\n"));
        self.warn_of_changes();
        if let Err(error) = interrupts.watch("stopping; runs that are not complete will begin anew") {
            complain(&format!("cannot wait for signals: {error}"));
            return status::FAILED;
        }
        let (mut terminal, mut told) = (Terminal::stderr(), WallClock::start());
        loop {
            self.collect(&mut terminal);
            if interrupts.stop().load(Ordering::Relaxed) {
                self.end_all();
                terminal.clear();
                show(&self.table());
                show("interrupted: the same command goes on with what is missing\n");
                return report::interrupted_status(interrupts.signal());
            }
            self.start_some(&mut terminal);
            if self.count(|state| matches!(state, State::Running(..) | State::Waiting)) == 0 {
                break;
            }
            if Terminal::is_terminal() {
                let line: String = self.line().chars().take(terminal.width()).collect();
                terminal.redraw(&line);
            } else if told.elapsed() >= TELL {
                told = WallClock::start();
                show(&format!("{}\n", self.line()));
            }
            std::thread::sleep(LOOK);
        }
        terminal.clear();
        show(&self.table());
        show(&self.advice());
        let complete = self.count(|state| matches!(state, State::Complete(_)));
        if complete == self.tasks.len() { status::SUCCESS } else { status::FAILED }
    }

    fn count(&self, is_meant: impl Fn(&State) -> bool) -> usize {
        self.tasks.iter().filter(|task| is_meant(&task.state)).count()
    }

    /// A complete run is not run again because its experiment has changed, but nobody should overlook that.
    fn warn_of_changes(&self) {
        for task in self.tasks.iter().filter(|task| matches!(task.state, State::Complete(_))) {
            let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
            let (experiment, run) = (changed(&task.folder.join(task.experiment)), changed(&task.data().join(CONFIG)));
            if experiment.zip(run).is_some_and(|(experiment, run)| experiment > run) {
                complain(&format!(
                    "{} is newer than {}, which is left as it is; remove that to run it again",
                    task.folder.join(task.experiment).display(),
                    task.data().display()
                ));
            }
        }
    }

    fn start_some(&mut self, terminal: &mut Terminal) {
        let mut running = self.count(|state| matches!(state, State::Running(..)));
        for task in &mut self.tasks {
            if running >= self.jobs {
                return;
            }
            if matches!(task.state, State::Waiting) {
                task.state = task.start(self.workers, &self.options);
                running += usize::from(matches!(task.state, State::Running(..)));
                terminal.clear();
                show(&format!("{}: {}\n", task.name(), task.state.text()));
            }
        }
    }

    /// Notes which runs have ended.
    fn collect(&mut self, terminal: &mut Terminal) {
        for task in &mut self.tasks {
            if let State::Running(child, begun) = &mut task.state {
                let ended = match child.try_wait() {
                    Ok(Some(ended)) => ended,
                    Ok(None) => continue,
                    Err(error) => {
                        task.state = State::Failed(format!("cannot be waited for: {error}"));
                        continue;
                    }
                };
                let wall = begun.elapsed();
                task.state = task.finish(ended);
                terminal.clear();
                show(&format!("{}: {} after {:.0} s\n", task.name(), task.state.text(), wall.as_secs_f64()));
            }
        }
    }

    fn end_all(&mut self) {
        for task in &mut self.tasks {
            if let State::Running(child, _) = &mut task.state {
                if let Ok(pid) = i32::try_from(child.id()) {
                    // It may have ended by itself.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
                let _ = child.wait();
                task.state = State::Waiting;
            }
        }
    }

    /// What the runs are doing, in one line.
    fn line(&self) -> String {
        let complete = self.count(|state| matches!(state, State::Complete(_)));
        let running = self.tasks.iter().filter(|task| matches!(task.state, State::Running(..)));
        let running: Vec<String> = running.map(|task| format!("{} at {}", task.name(), task.progress())).collect();
        format!("{complete} of {} complete; {}", self.tasks.len(), running.join(", "))
    }

    fn table(&self) -> String {
        let width = self.tasks.iter().map(|task| task.name().len()).max().unwrap_or(0).max(3);
        let mut text = format!("\n{:<width$}  state\n", "run");
        for task in &self.tasks {
            let _ = writeln!(text, "{:<width$}  {}", task.name(), task.state.text());
        }
        text + "\n"
    }

    /// What to do with it.
    fn advice(&self) -> String {
        if self.count(|state| matches!(state, State::Complete(_))) < self.tasks.len() {
            return "the same command goes on with what is missing\n".to_owned();
        }
        let mut text = "gnomon report -o results".to_owned();
        let mut folders: Vec<&PathBuf> = self.tasks.iter().map(|task| &task.folder).collect();
        folders.dedup();
        for folder in folders {
            let runs = self.tasks.iter().filter(|task| task.folder == *folder);
            let runs: Vec<String> = runs.map(|task| task.data().display().to_string()).collect();
            let name = folder
                .file_name()
                .map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
            let _ = write!(text, " --group '{name}={}'", runs.join(","));
        }
        text + "\n"
    }
}

impl Task {
    fn name(&self) -> String {
        format!("{} seed {}", self.folder.display(), self.seed)
    }

    fn data(&self) -> PathBuf {
        self.folder.join(format!("seed-{}.data", self.seed))
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("seed-{}.log", self.seed))
    }

    fn start(&self, workers: usize, options: &[String]) -> State {
        self.begin(workers, options).unwrap_or_else(|error| State::Failed(format!("cannot be started: {error}")))
    }

    fn begin(&self, workers: usize, options: &[String]) -> io::Result<State> {
        // Not truncated before it is locked: it may be another's.
        let log = File::options().create(true).append(true).open(self.log())?;
        match log.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(State::Elsewhere),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // By whoever had the lock until now.
        if self.is_complete() {
            return Ok(State::Complete(EARLIER));
        }
        log.set_len(0)?;
        self.remove_incomplete()?;
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["run", "--quiet", "--seed", &self.seed.to_string(), "--parallelism", &workers.to_string()]);
        command.arg("--data-directory").arg(format!("seed-{}.data", self.seed)).args(options);
        command.arg(self.experiment).current_dir(&self.folder).stdin(Stdio::null());
        // The lock is the open file's, so it lasts as long as the run has it.
        command.stdout(log.try_clone()?).stderr(log);
        Ok(State::Running(command.spawn()?, WallClock::start()))
    }

    /// Makes room for a run. Only what a run has written is removed.
    fn remove_incomplete(&self) -> io::Result<()> {
        let data = self.data();
        if !data.exists() {
            return Ok(());
        }
        if [CONFIG, "gnomon.log"].iter().any(|name| data.join(name).is_file()) {
            return fs::remove_dir_all(data);
        }
        Err(io::Error::other(format!("'{}' exists, and no run has written it: move it away", data.display())))
    }

    fn finish(&self, ended: std::process::ExitStatus) -> State {
        let log = self.log().display().to_string();
        // A run that ended is one that counts, also where programs ended otherwise than was expected.
        match ended.code() {
            Some(0) if self.is_complete() => State::Complete("complete"),
            Some(0) => State::Failed(format!("has ended, but {} does not say so", self.data().join(STATS).display())),
            Some(1) if self.is_complete() => {
                State::Complete("complete, with programs in an unexpected state: see its log")
            }
            Some(code) => State::Failed(format!("failed with status {code}: {}", last_line(&self.log(), &log))),
            None => State::Failed(format!("was killed: {}", last_line(&self.log(), &log))),
        }
    }

    /// Whether it came to its stop time with all its recordings.
    fn is_complete(&self) -> bool {
        let read = |name: &str| fs::read_to_string(self.data().join(name)).ok();
        let stop = read(CONFIG).and_then(|text| {
            let value = text.lines().find_map(|line| line.trim_start().strip_prefix("stop_time:"))?;
            base::quantity::parse_duration(value.trim().trim_matches(['"', '\''])).ok()
        });
        let stats = read(STATS).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        let Some((stop, stats)) = stop.zip(stats) else { return false };
        let stats = &stats["gnomon"];
        let lost = !stats["interferences"]["recording"].is_null();
        stats["simulated_ns"].as_u64().is_some_and(|simulated| simulated >= stop.as_nanos()) && !lost
    }

    /// What it took at most, if it is complete and says so.
    fn peak_bytes(&self) -> Option<u64> {
        matches!(self.state, State::Complete(_)).then_some(())?;
        let stats = fs::read_to_string(self.data().join(STATS)).ok()?;
        let stats: serde_json::Value = serde_json::from_str(&stats).ok()?;
        stats["gnomon"]["memory"]["peak_pss_bytes"].as_u64()
    }

    /// How far it is in simulated time.
    fn progress(&self) -> String {
        let table = fs::read_to_string(self.data().join("progress.csv")).unwrap_or_default();
        let complete = table.rfind('\n').map_or("", |end| &table[..end]);
        let last = complete.lines().next_back().and_then(|line| line.split(',').next()?.parse::<f64>().ok());
        last.map_or_else(|| "its start".to_owned(), |seconds| format!("{seconds:.0} s"))
    }
}

impl State {
    fn text(&self) -> String {
        match self {
            State::Complete(text) => (*text).into(),
            State::Waiting => "to do".into(),
            State::Running(..) => "begins".into(),
            State::Failed(why) => why.clone(),
            State::Elsewhere => "is being run by another call".into(),
        }
    }
}

/// The memory that a run will take at most: a quarter more than the most that one of the same network took, or as many hosts usually take.
fn memory(tasks: &[Task], task: &Task) -> u64 {
    let measured = tasks.iter().filter(|other| other.folder == task.folder).filter_map(Task::peak_bytes).max();
    measured.map_or(task.hosts * BYTES_PER_HOST, |bytes| bytes.saturating_add(bytes / 4))
}

/// The last words of a log, and where to find the others.
fn last_line(log: &Path, name: &str) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!("{line} ({name})"),
        None => name.to_owned(),
    }
}

/// How many hosts an experiment has, as far as its lines tell: those that give a host its place.
fn hosts(experiment: &Path) -> u64 {
    let text = fs::read_to_string(experiment).unwrap_or_default();
    text.lines()
        .filter(|line| line.trim_start().starts_with("network_node_id:") || line.contains("{ network_node_id:"))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_lists_and_ranges() {
        assert_eq!(seeds("1-3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("7, 2,2,4-5"), Ok(vec![2, 4, 5, 7]));
        for bad in ["", "a", "3-1", "1-", "-1", "1,,2", "1-99999"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_is_what_a_complete_run_of_the_same_network_took() {
        let folder = tempfile::tempdir().unwrap();
        let task = |seed, state| Task {
            folder: folder.path().to_path_buf(),
            experiment: EXPERIMENTS[0],
            seed,
            hosts: 10,
            state,
        };
        let waiting = [task(1, State::Waiting), task(2, State::Waiting)];
        assert_eq!(memory(&waiting, &waiting[1]), 10 * BYTES_PER_HOST);
        fs::create_dir(waiting[0].data()).unwrap();
        fs::write(waiting[0].data().join(STATS), r#"{"gnomon": {"memory": {"peak_pss_bytes": 400}}}"#).unwrap();
        assert_eq!(memory(&waiting, &waiting[1]), 10 * BYTES_PER_HOST, "it is not complete");
        let one_complete = [task(1, State::Complete(EARLIER)), task(2, State::Waiting)];
        assert_eq!(memory(&one_complete, &one_complete[1]), 500);
    }
}
