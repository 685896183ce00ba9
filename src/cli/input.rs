//! From what the user gave to a plan: the experiment's text, the environment that it is read in.

use base::input::{bounded, into_text};
use scenario::{Environment, Overrides, Plan};
use std::path::{Path, PathBuf};

/// Where distributions put servers, which is not in every user's PATH.
pub const SYSTEM_FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];

/// What experiments from standard input are called in messages.
pub const STANDARD_INPUT: &str = "standard input";

/// Reads an experiment; `-` is standard input. The error is what to tell the user.
pub fn plan(file: &Path, overrides: &Overrides) -> Result<Plan, String> {
    read(file, overrides, environment()?)
}

/// The same as if `folder` were the current one.
pub fn plan_in(folder: &Path, file: &Path, overrides: &Overrides) -> Result<Plan, String> {
    read(&folder.join(file), overrides, Environment { current_dir: folder.to_owned(), ..environment()? })
}

fn read(file: &Path, overrides: &Overrides, environment: Environment) -> Result<Plan, String> {
    let plan = if file == Path::new("-") {
        scenario::load(STANDARD_INPUT, &standard_input()?, &environment, overrides)
    } else if environment.current_dir.join(file).is_dir() {
        return Err(format!("{}: this is a directory; name the experiment file in it", file.display()));
    } else {
        scenario::load_file(file, &environment, overrides)
    };
    plan.map_err(|error| error.to_string())
}

/// Reads an experiment from memory; messages about it would name `name`.
pub fn plan_from_text(name: &str, text: &str, overrides: &Overrides) -> Result<Plan, String> {
    scenario::load(name, text, &environment()?, overrides).map_err(|error| error.to_string())
}

fn standard_input() -> Result<String, String> {
    bounded(std::io::stdin().lock(), scenario::LONGEST_EXPERIMENT)
        .and_then(into_text)
        .map_err(|error| format!("{STANDARD_INPUT}: {error}"))
}

fn environment() -> Result<Environment, String> {
    let current_dir = std::env::current_dir()
        .map_err(|error| format!("the current directory cannot be found ({error}); change to one that exists"))?;
    Ok(Environment {
        current_dir,
        home: std::env::var_os("HOME").map(PathBuf::from),
        path: std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
        own: std::env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from)),
        system: SYSTEM_FOLDERS.iter().map(PathBuf::from).collect(),
        routing_threads: std::thread::available_parallelism().map_or(1, usize::from),
    })
}
