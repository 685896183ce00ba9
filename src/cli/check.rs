//! `gnomon check FILE`: validates and explains, and with `--sandbox` tries the box that a run would be in.

use super::origin::Origin;
use super::{complain, input, launch, options, show, status};
use crate::sandbox::{self, Lifetime, Network};
use clap::ArgMatches;
use scenario::Plan;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub fn main(matches: &ArgMatches) -> u8 {
    if let Some(file) = matches.get_one::<PathBuf>("file") {
        let plan = input::plan(file, &options::overrides(matches));
        match plan
            .and_then(|plan| check_record(&plan, &Origin::new(Some(file), matches)).map(|()| plan))
            .and_then(|plan| crate::simulation::CpuModel::load(&plan).map(|_| plan))
        {
            Ok(plan) if matches.get_flag("config") => show(&plan.processed_config_yaml()),
            Ok(plan) => show(&explain(&plan)),
            Err(error) => {
                launch::Failure::Input(error).tell();
                return status::BAD_INPUT;
            }
        }
    }
    match matches.get_one::<String>("sandbox") {
        Some(way) => try_sandbox(Network::from_name(way)),
        None => status::SUCCESS,
    }
}

fn check_record(plan: &Plan, origin: &Origin) -> Result<(), String> {
    crate::simulation::check_record(plan).map_err(|problem| origin.tell(&problem))
}

fn explain(plan: &Plan) -> String {
    let mut text = plan.explain();
    let _ = writeln!(text, "Workers: {}", launch::workers(plan));
    if plan.check_data_directory().is_err() {
        let directory = plan.data_directory.display();
        let _ = writeln!(text, "Notice: {directory} exists, so a run would be refused; remove it, or name another");
    }
    text
}

/// Closes the box around this process, looks for a way out, and tells.
fn try_sandbox(way: Option<Network>) -> u8 {
    let directory = match tempfile::Builder::new().prefix("gnomon-check-").tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            complain(&format!("cannot make a temporary directory: {error}; set TMPDIR to a writable one"));
            return status::FAILED;
        }
    };
    let boxed = sandbox::leave_network(way)
        .and_then(|network| Ok((network, sandbox::confine_writes(directory.path(), Lifetime::Temporary)?)));
    let (network, files) = match boxed {
        Ok(boxed) => boxed,
        Err(error) => {
            complain(&error);
            return status::FAILED;
        }
    };
    let outside = directory.path().parent().unwrap_or(Path::new("/"));
    let escapes = sandbox::network_is_reachable();
    let inside_works = sandbox::is_writable(directory.path());
    let outside_works = sandbox::is_writable(outside);
    show(&format!(
        "network: {network}\n  a connection to the world: {}\nfiles: {files}\n  a file in the run's directory: {}\n  a file beside \
         it: {}\n",
        if escapes { "POSSIBLE" } else { "refused" },
        if inside_works { "possible" } else { "REFUSED" },
        if outside_works { "POSSIBLE" } else { "refused" },
    ));
    if escapes || outside_works || !inside_works { status::FAILED } else { status::SUCCESS }
}
