//! A run over several processes: how this one finds its place among them, and what all must have in common before anything runs.

use super::launch::Failure;
use crate::simulation;
use ranks::{Link, Place};
use recorder::DataDirectory;
use scenario::Plan;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// The program beside this one that links with MPI.
const COMPANION: &str = "gnomon-ranks";

/// This process's place, if it was started as one of several.
pub fn place() -> Option<Place> {
    Place::told_by(|name| std::env::var(name).ok())
}

/// What begins a message, so that it is seen which of several processes tells it; nothing for one alone and for the first.
pub fn prefix() -> String {
    place().filter(|place| place.rank > 0).map_or_else(String::new, |place| format!("[rank {}] ", place.rank))
}

/// Refuses to be one of several processes: each would do the same.
pub fn refuse(what: &str) -> Result<(), Failure> {
    let Some(Place { rank, size }) = place() else { return Ok(()) };
    if rank > 0 {
        return Err(Failure::Elsewhere);
    }
    Err(Failure::Input(format!(
        "this is one of {size} processes that mpirun or srun has started, and '{what}' runs in one: start it without, or run the \
         experiment with 'gnomon run'"
    )))
}

/// Refuses what one process alone can do where this is one of several. `why` says what to do, too.
pub fn refuse_option(option: &str, why: &str) -> Result<(), Failure> {
    match place() {
        None => Ok(()),
        Some(place) if place.rank > 0 => Err(leave_to_first()),
        Some(place) => Err(Failure::Input(format!(
            "{option}: this is one of {} processes that mpirun or srun has started, and {why}",
            place.size
        ))),
    }
}

/// Connects this process with the others, if there are any. Call it before the box closes.
pub fn connect() -> Result<Option<Link>, Failure> {
    let Some(place) = place() else { return Ok(None) };
    let companion = companion()?;
    if !companion.is_file() {
        return Err(if place.rank > 0 { Failure::Elsewhere } else { Failure::Input(missing(place, &companion)) });
    }
    Link::start(&companion, place).map(Some).map_err(Failure::Run)
}

fn companion() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Run(format!("cannot find this program: {error}")))?;
    Ok(own.with_file_name(COMPANION))
}

fn missing(place: Place, companion: &std::path::Path) -> String {
    format!(
        "this is one of {} processes that mpirun or srun has started, but Gnomon was built without MPI: there is no {}. Install the \
         Debian packages libopenmpi-dev, openmpi-bin and libclang-dev ('apt-get install libopenmpi-dev openmpi-bin libclang-dev'), \
         and run 'make build' again. To run the experiment in one process, leave mpirun out",
        place.size,
        companion.display()
    )
}

/// What every rank must have as the first has it.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Common {
    version: String,
    build: String,
    plan: String,
}

/// What a rank says before anything runs.
#[derive(Debug, Serialize, Deserialize)]
struct Greeting {
    common: Common,
    machine: String,
    /// Why it cannot go on.
    problem: Option<String>,
}

/// Makes sure that all ranks run the same, and that none has a problem. `problem` is this rank's.
pub fn greet(link: &Link, plan: &Plan, problem: Option<String>) -> Result<(), Failure> {
    let common = Common {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build(),
        plan: hash(plan.processed_config_yaml().as_bytes()),
    };
    let all: Vec<Greeting> = share(link, &Greeting { common, machine: simulation::machine(), problem })?;
    tell_first(link, &all)?;
    let first = &all[0];
    let Some((rank, other)) = all.iter().enumerate().find(|(_, other)| other.common != first.common) else {
        return Ok(());
    };
    if link.place().rank > 0 {
        return Err(leave_to_first());
    }
    let (here, there) = (&first.machine, &other.machine);
    let what = if other.common.plan != first.common.plan { "experiment (or its defaults)" } else { "build of Gnomon" };
    Err(Failure::Input(format!(
        "rank {rank} (on {there}) has another {what} than rank 0 (on {here}): all need the same files"
    )))
}

/// The first of the ranks' problems is told by rank 0, and all end.
fn tell_first(link: &Link, all: &[Greeting]) -> Result<(), Failure> {
    let problems = all.iter().enumerate().find_map(|(rank, greeting)| Some((rank, greeting.problem.as_ref()?)));
    match problems {
        None => Ok(()),
        Some(_) if link.place().rank > 0 => Err(leave_to_first()),
        Some((0, problem)) => Err(Failure::Input(problem.clone())),
        Some((rank, problem)) => Err(Failure::Input(format!("rank {rank} (on {}): {problem}", all[rank].machine))),
    }
}

/// Rank 0 creates the data directory; all must see it.
pub fn data_directory(
    link: &Link,
    create: impl FnOnce() -> Result<DataDirectory, Failure>,
) -> Result<DataDirectory, Failure> {
    let is_first = link.place().rank == 0;
    // No other run has the same.
    let mark = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let own = if is_first {
        create().and_then(|directory| {
            directory.mark(&mark).map_err(|error| Failure::Input(error.to_string()))?;
            Ok(directory)
        })
    } else {
        Err(Failure::Elsewhere)
    };
    // Path and mark, or what is wrong.
    let told: Result<(PathBuf, String), String> =
        own.as_ref().map(|directory| (directory.path().to_path_buf(), mark)).map_err(ToString::to_string);
    // What is wrong here goes before what became of the others meanwhile.
    let or_own = |gone: Failure| match &own {
        Err(Failure::Input(text)) => Failure::Input(text.clone()),
        Err(Failure::Run(text)) => Failure::Run(text.clone()),
        _ => gone,
    };
    let all: Vec<Result<(PathBuf, String), String>> = share(link, &told).map_err(or_own)?;
    let seen = match &all[0] {
        Ok((path, mark)) if !is_first => DataDirectory::join(path, mark).map_err(|error| error.to_string()),
        _ => own.as_ref().cloned().map_err(ToString::to_string),
    };
    let problem = seen.as_ref().err().cloned();
    let all: Vec<(String, Option<String>)> = share(link, &(simulation::machine(), problem)).map_err(or_own)?;
    let blind = all.iter().enumerate().find_map(|(rank, (machine, problem))| Some((rank, machine, problem.as_ref()?)));
    match (own, seen, blind) {
        (Err(failure), ..) if is_first => Err(failure),
        (Ok(directory), _, None) => {
            directory.unmark().map_err(|error| Failure::Run(error.to_string()))?;
            Ok(directory)
        }
        (Ok(directory), _, Some((rank, machine, problem))) => {
            let _ = directory.unmark();
            Err(Failure::Input(format!(
                "rank {rank} (on {machine}) does not see the data directory: {problem}; name a place that all machines share with \
                 --data-directory, on NFS for example"
            )))
        }
        (Err(_), Ok(directory), None) => Ok(directory),
        _ => Err(leave_to_first()),
    }
}

/// Rank 0 tells what is wrong. It has a moment for that before `mpirun`, which sees this process fail, ends all.
fn leave_to_first() -> Failure {
    std::thread::sleep(std::time::Duration::from_millis(500));
    Failure::Elsewhere
}

fn share<T: for<'de> Deserialize<'de>>(link: &Link, own: &impl Serialize) -> Result<Vec<T>, Failure> {
    simulation::share(link, own).map_err(|error| Failure::Run(error.to_string()))
}

/// Tells builds apart: the hash of this program's file.
fn build() -> String {
    let file = std::env::current_exe().and_then(|path| simulation::provenance::program(&path));
    file.map_or_else(|_| String::new(), |program| program.sha256)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
