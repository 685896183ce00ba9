//! `gnomon run FILE`.

use super::launch::{Debugging, Failure, Finished, Launch};
use super::origin::Origin;
use super::{gdb, input, options, ranks, report, status};
use crate::sandbox::Lifetime;
use crate::simulation::{Costs, ProfileKind, Progress};
use crate::terminal::Terminal;
use base::SimDuration;
use base::quantity::exact_duration;
use clap::ArgMatches;
use scenario::Plan;
use std::path::{Path, PathBuf};

pub fn main(matches: &ArgMatches) -> u8 {
    match run(matches) {
        Ok(finished) => {
            if ranks::prefix().is_empty() {
                report::conclude(&finished, matches.get_flag("quiet"));
                return report::status_of(&finished);
            }
            // The first of several processes tells the results of all.
            report::tell_lost(&finished);
            if finished.summary.lost.is_some() { status::FAILED } else { status::SUCCESS }
        }
        Err(failure) => {
            failure.tell();
            match failure {
                Failure::Input(_) => status::BAD_INPUT,
                Failure::Run(_) | Failure::Elsewhere => status::FAILED,
            }
        }
    }
}

fn run(matches: &ArgMatches) -> Result<Finished, Failure> {
    let file = matches.get_one::<PathBuf>("file").expect("clap requires it");
    refuse_among_several(matches, file)?;
    let plan = input::plan(file, &options::overrides(matches)).map_err(Failure::Input)?;
    let mut launch = Launch::new(matches, &plan, Lifetime::Kept).map_err(Failure::Input)?;
    launch.origin = Origin::new(Some(file), matches);
    launch.profile = matches.get_one::<ProfileKind>("profile").copied();
    refuse_late_profile(launch.profile, &plan)?;
    if let (Some(ProfileKind::Instructions(_)), Some(host)) =
        (launch.profile, plan.hosts.iter().find(|host| host.options.cpu_speed.is_some()))
    {
        return Err(Failure::Input(format!(
            "--profile=steps: single steps take a thousand times as long, and cpu_speed of host '{}' makes that simulated time: leave out \
             cpu_speed, or write --profile for samples",
            host.name
        )));
    }
    if let Some(text) = matches.get_one::<String>("gdb") {
        if launch.profile.is_some() {
            let text =
                "--profile: a debugger takes the signals of samples and of single steps: leave out --profile, or --gdb";
            return Err(Failure::Input(text.to_owned()));
        }
        let (host, target) = gdb::target(text, &plan).map_err(Failure::Input)?;
        if file.as_os_str() == "-" {
            return Err(Failure::Input("--gdb: gdb reads standard input: give the experiment as a file".into()));
        }
        if !gdb::is_under_gdb(matches) {
            return Err(Failure::Run(gdb::start(text)));
        }
        launch.debugging = Debugging::Guest(host, target);
    }
    launch.progress = progress(matches, &plan);
    let costs = matches.get_one::<PathBuf>("rank-costs").map(|path| Costs::read(path));
    launch.rank_costs = costs.transpose().map_err(|error| Failure::Input(format!("--rank-costs: {error}")))?;
    launch.run(&plan)
}

/// A profile that begins when the run has ended has nothing in it.
fn refuse_late_profile(profile: Option<ProfileKind>, plan: &Plan) -> Result<(), Failure> {
    match profile.and_then(|profile| profile.span()) {
        Some(span) if span.from >= plan.stop_time() => {
            let from = exact_duration(SimDuration::from_nanos(span.from.as_nanos()));
            let stop = exact_duration(plan.general.stop_time);
            Err(Failure::Input(format!(
                "--profile: it begins at {from}, and the run ends at {stop}: write an earlier time after 'from=', or a later --stop-time"
            )))
        }
        _ => Ok(()),
    }
}

/// What makes no sense in one of several processes, before it reads its standard input or starts a debugger.
fn refuse_among_several(matches: &ArgMatches, file: &Path) -> Result<(), Failure> {
    if matches.get_flag("forecast") {
        let why = "it reckons from a run in one: run the experiment in one process, or without --forecast";
        ranks::refuse_option("--forecast", why)?;
    }
    if matches.get_one::<String>("gdb").is_some() {
        let why = "gdb takes one: run the experiment in one process, or without --gdb";
        ranks::refuse_option("--gdb", why)?;
    }
    if file.as_os_str() == "-" {
        let why = "only the first of them gets what comes here: give the experiment as a file";
        ranks::refuse_option("standard input", why)?;
    }
    Ok(())
}

/// On a terminal progress is shown unless it is refused; elsewhere only when the experiment asks for it.
fn progress(matches: &ArgMatches, plan: &Plan) -> Progress {
    let refused = matches.get_flag("quiet") || options::is_given(matches, "general.progress") && !plan.general.progress;
    match (Terminal::is_terminal(), plan.general.progress) {
        _ if refused => Progress::Off,
        (true, _) => Progress::Terminal,
        (false, true) => Progress::Lines,
        (false, false) => Progress::Off,
    }
}
