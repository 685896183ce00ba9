//! `gnomon profile RUN...`: where processor time went in runs that were profiled.

use super::{complain, show, status};
use ::profile::costs::{Costs, Unlike, mean, unlike_hosts};
use ::profile::export::Format;
use ::profile::{Part, Request, Rules};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};

pub fn command() -> Command {
    let text = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    Command::new("profile")
        .about("Show where processor time went in runs that 'gnomon run --profile' made: a page, tables, files for other programs")
        .before_help(
            "Examples:\n  gnomon profile gnomon.data\n  gnomon profile --rules tor gnomon.data\n  gnomon profile --group 1hop=a.data,b.data,c.data \
             --group 3hops=d.data,e.data,f.data --rules my.yaml --per packet=12000 -o page\n  gnomon profile --export pprof -o cpu.pb gnomon.data && \
             go tool pprof -top cpu.pb",
        )
        .after_help("Exit status: 0 written, 1 it could not be written, 2 bad input. More: docs/profiling.md")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .value_parser(value_parser!(PathBuf))
                .num_args(1..)
                .required_unless_present("group")
                .help("The data directory of a run; several are compared with the first"),
        )
        .arg(
            Arg::new("group")
                .long("group")
                .value_name("NAME=RUN,RUN...")
                .action(ArgAction::Append)
                .value_parser(group)
                .help("Repetitions of one experiment, which have 95 % confidence intervals together"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("The page's folder [default: RUN/profile/page for one run, ./profile for several], or the file of --export"),
        )
        .arg(text("rules", "FILE", "Groups of functions, roles of hosts, phases: a YAML file, or supplied ones: ipv8, tor"))
        .arg(
            Arg::new("part")
                .long("part")
                .value_name("PART")
                .value_parser(Part::NAMES.map(|(name, _)| name))
                .default_value("guests")
                .help("Which samples count: of programs alone, with what the simulated kernel does for them, or all"),
        )
        .arg(text("host", "NAME", "Only this host"))
        .arg(text("program", "NAME", "Only this program, by its file's name"))
        .arg(text("role", "NAME", "Only hosts of this role"))
        .arg(text("phase", "NAME", "Only this phase"))
        .arg(
            Arg::new("per")
                .long("per")
                .value_name("UNIT=COUNT")
                .value_parser(per)
                .help("Tell times for one packet, cell, byte or whatever each run had COUNT of"),
        )
        .arg(
            Arg::new("top")
                .long("top")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=100_000))
                .default_value("30")
                .help("Rows that tables have"),
        )
        .arg(
            Arg::new("costs")
                .long("costs")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(["group", "output", "export", "rules", "host", "program", "role", "phase", "per"])
                .help("Write what computing costs between two system calls, over all runs, for experimental.cpu_model (of runs with --profile=costs)"),
        )
        .arg(
            Arg::new("per-host")
                .long("per-host")
                .action(ArgAction::SetTrue)
                .requires("costs")
                .help("With --costs: of each host's programs by themselves, where one program has several roles"),
        )
        .arg(
            Arg::new("export")
                .long("export")
                .value_name("FORMAT")
                .value_parser(Format::NAMES.map(|(name, _)| name))
                .help("Write a file for other programs instead of a page and tables: collapsed stacks, pprof, Firefox Profiler (Perfetto opens it too)"),
        )
        .args_override_self(true)
}

pub fn main(matches: &ArgMatches) -> u8 {
    if let Some(file) = matches.get_one::<PathBuf>("costs") {
        return match costs(file, &all(matches, "run"), matches.get_flag("per-host")) {
            Ok(text) => {
                show(&text);
                status::SUCCESS
            }
            Err(error) => failed(&error),
        };
    }
    match request(matches).and_then(|request| ::profile::write(&request)) {
        Ok(written) => {
            show(&format!("{}written: {}\n", written.summary, written.path.display()));
            status::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &::profile::Error) -> u8 {
    complain(error);
    if error.is_bad_input() { status::BAD_INPUT } else { status::FAILED }
}

/// Writes the file of costs; what there is to be said of it.
fn costs(file: &Path, runs: &[PathBuf], per_host: bool) -> ::profile::Result<String> {
    let costs = Costs::of_runs(runs, per_host)?;
    std::fs::write(file, costs.to_yaml(runs)).map_err(|error| ::profile::Error::io("write", file, error))?;
    let kinds: usize = costs.programs.values().map(Vec::len).sum();
    let mut text = String::new();
    for (program, list) in &costs.programs {
        let intervals: u64 = list.iter().map(|cost| cost.count).sum();
        let mean = mean(list.iter());
        text += &format!("{program}: {intervals} intervals of {} kinds, {mean} ns on average\n", list.len());
    }
    text += &format!(
        "written: {} ({kinds} kinds); an experiment takes it as 'experimental: {{ cpu_model: FILE }}'\n",
        file.display()
    );
    if !per_host && let Some(unlike) = unlike_hosts(runs)? {
        let Unlike { program, from, to, bytes, least, most, share } = unlike;
        text += &format!(
            "note: {share} % of the time is of programs that do different things on different hosts: {program} from {from} to {to} with {bytes} \
             bytes takes {} ns on '{}' and {} ns on '{}'; --per-host keeps them apart\n",
            least.1, least.0, most.1, most.0
        );
    }
    Ok(text)
}

fn request(matches: &ArgMatches) -> ::profile::Result<Request> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let rules = text("rules").map(|name| Rules::load(&name)).transpose()?.unwrap_or_default();
    let named = |name: Option<String>| Part::NAMES.into_iter().find(|(known, _)| Some(*known) == name.as_deref());
    let format = text("export").and_then(|name| Format::NAMES.into_iter().find(|(known, _)| *known == name));
    Ok(Request {
        runs: all(matches, "run"),
        groups: all(matches, "group"),
        rules,
        part: named(text("part")).map_or_else(Part::default, |(_, part)| part),
        host: text("host"),
        program: text("program"),
        role: text("role"),
        phase: text("phase"),
        per: matches.get_one::<(String, f64)>("per").cloned(),
        top: matches.get_one::<u32>("top").map_or(30, |top| *top as usize),
        export: format.map(|(_, format)| format),
        output: matches.get_one::<PathBuf>("output").cloned(),
    })
}

fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

fn group(text: &str) -> Result<(String, Vec<PathBuf>), String> {
    let usage = || "a group is written NAME=RUN,RUN, as in 3hops=a.data,b.data".to_owned();
    let (name, runs) = text.split_once('=').ok_or_else(usage)?;
    let runs: Vec<PathBuf> = runs.split(',').filter(|run| !run.is_empty()).map(PathBuf::from).collect();
    if name.is_empty() || runs.is_empty() {
        return Err(usage());
    }
    Ok((name.to_owned(), runs))
}

fn per(text: &str) -> Result<(String, f64), String> {
    let usage = || "a unit is written NAME=COUNT, as in packet=12000: how many of it each run has".to_owned();
    let (name, count) = text.split_once('=').ok_or_else(usage)?;
    let count: f64 = count.parse().map_err(|_| usage())?;
    if name.is_empty() || !(count.is_finite() && count > 0.0) {
        return Err(usage());
    }
    Ok((name.to_owned(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_becomes_a_request() {
        let words = ["profile", "a", "--group", "g=b,c", "--rules", "tor", "--per", "cell=10", "--part", "program"];
        let request = request(&command().try_get_matches_from(words).unwrap()).unwrap();
        assert_eq!((request.runs, request.part), (vec![PathBuf::from("a")], Part::Program));
        assert_eq!(request.groups, [("g".to_owned(), vec![PathBuf::from("b"), PathBuf::from("c")])]);
        assert_eq!((request.per, request.top), (Some(("cell".to_owned(), 10.0)), 30));
        assert!(request.rules.groups.len() > 5);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for wrong in [vec!["profile"], vec!["profile", "--group", "g"], vec!["profile", "a", "--per", "x=0"]] {
            assert!(command().try_get_matches_from(&wrong).is_err(), "{wrong:?}");
        }
    }
}
