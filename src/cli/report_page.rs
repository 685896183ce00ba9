//! `gnomon report RUN...`: a page of results from data directories.

use super::{complain, show, status};
use ::report::{Group, PublicSource, Request, Since};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;

/// The words that `--public` knows besides files.
const BUILT_IN: &str = "built-in";
const NONE: &str = "none";

pub fn command() -> Command {
    Command::new("report")
        .about("Write a page of results, with figures and their data beside it, from data directories of runs")
        .before_help(
            "Examples:\n  gnomon report gnomon.data\n  gnomon report -o results --label before --label after a.data b.data\n  gnomon report \
             --group vanilla=v1.data,v2.data,v3.data --group kist=k1.data,k2.data,k3.data",
        )
        .after_help(
            "Runs that differ in their seeds only count as one group: its figures show means over runs with 95 % confidence \
             intervals. Exit status: 0 the report is written, 1 it could not be written, 2 bad input.",
        )
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .value_parser(value_parser!(PathBuf))
                .num_args(1..)
                .required_unless_present("group")
                .help("The data directory of a run, finished or not; several are compared"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where the report goes [default: RUN/report for one run, ./report for several]"),
        )
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("NAME")
                .action(ArgAction::Append)
                .help("What figures call a run; once for each RUN, in their order"),
        )
        .arg(
            Arg::new("group")
                .long("group")
                .value_name("NAME=RUN,RUN...")
                .action(ArgAction::Append)
                .value_parser(group)
                .help("Runs that are samples of the same experiment"),
        )
        .arg(time("from", "Distributions are about transfers that begin at this simulated time or later [default: when the network has settled]"))
        .arg(time("until", "... and at this time or before [default: the end of the run]"))
        .arg(
            Arg::new("since")
                .long("since")
                .value_name("MOMENT")
                .value_parser(["start", "request"])
                .default_value("start")
                .help("Whether times to first and last byte count from the start of a transfer or from its request, as tgentools does"),
        )
        .arg(
            Arg::new("public")
                .long("public")
                .value_name("FILE")
                .action(ArgAction::Append)
                .default_value(BUILT_IN)
                .help(
                    "What is laid beside figures of Tor networks: a CSV file of Tor Metrics (torperf.csv, torperf-failures.csv, onionperf-latencies.csv, \
                     onionperf-buildtimes.csv, onionperf-throughput.csv, bandwidth.csv), once for each; or 'built-in', measurements of 2019; or 'none'",
                ),
        )
        .arg(
            Arg::new("tables-only")
                .long("tables-only")
                .action(ArgAction::SetTrue)
                .help("Write no page and no figures, only the tables of all transfers, circuits, relays and runs (CSV, Parquet)"),
        )
        .args_override_self(true)
}

pub fn main(matches: &ArgMatches) -> u8 {
    match ::report::write(&request(matches)) {
        Ok(written) => {
            let lines = written.summary.iter().map(|line| format!("{line}\n"));
            let page = written.page.map(|page| format!("page       {}\n", page.display())).unwrap_or_default();
            show(&format!("{}{page}tables     {}\n", lines.collect::<String>(), written.tables.display()));
            status::SUCCESS
        }
        Err(error) => {
            complain(&error);
            if error.is_bad_input() { status::BAD_INPUT } else { status::FAILED }
        }
    }
}

fn request(matches: &ArgMatches) -> Request {
    let since = matches.get_one::<String>("since").map(String::as_str);
    Request {
        runs: all(matches, "run"),
        labels: all(matches, "label"),
        groups: all(matches, "group"),
        output: matches.get_one::<PathBuf>("output").cloned(),
        since: if since == Some("request") { Since::Request } else { Since::Start },
        public: public(&all::<String>(matches, "public")),
        from_s: matches.get_one::<f64>("from").copied(),
        until_s: matches.get_one::<f64>("until").copied(),
        tables_only: matches.get_flag("tables-only"),
    }
}

/// A file of such a name is named "./none".
fn public(words: &[String]) -> Vec<PublicSource> {
    let sources = words.iter().filter(|word| *word != NONE);
    sources.map(|word| if word == BUILT_IN { PublicSource::BuiltIn } else { PublicSource::File(word.into()) }).collect()
}

fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

fn time(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("TIME").value_parser(seconds).help(help)
}

fn seconds(text: &str) -> Result<f64, String> {
    base::quantity::parse_duration(text).map(|time| time.as_nanos() as f64 / 1e9).map_err(|error| error.to_string())
}

fn group(text: &str) -> Result<Group, String> {
    let usage = || "a group is written NAME=RUN,RUN, as in kist=k1.data,k2.data".to_owned();
    let (label, runs) = text.split_once('=').ok_or_else(usage)?;
    let runs: Vec<PathBuf> = runs.split(',').filter(|run| !run.is_empty()).map(PathBuf::from).collect();
    if label.is_empty() || runs.is_empty() {
        return Err(usage());
    }
    Ok(Group { label: label.to_owned(), runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_becomes_a_request() {
        let words =
            ["report", "a", "b", "-o", "out", "--label", "A", "--label", "B", "--group", "g=c,d", "--from", "5 min"];
        let request = request(&command().try_get_matches_from(words).unwrap());
        assert_eq!(request.runs, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(
            (request.labels, request.from_s, request.until_s),
            (vec!["A".into(), "B".into()], Some(300.0), None)
        );
        assert_eq!(request.groups, [Group { label: "g".into(), runs: vec!["c".into(), "d".into()] }]);
        assert_eq!(request.output, Some("out".into()));
    }

    #[test]
    fn the_public_network_comes_from_the_sample_from_files_or_not_at_all() {
        let public = |words: &[&str]| {
            let words = ["report", "a"].iter().chain(words);
            request(&command().try_get_matches_from(words).unwrap()).public
        };
        assert_eq!(public(&[]), [PublicSource::BuiltIn]);
        assert_eq!(public(&["--public", "none"]), []);
        let files = ["torperf.csv", "bandwidth.csv"].map(|name| PublicSource::File(name.into()));
        assert_eq!(public(&["--public", "torperf.csv", "--public", "bandwidth.csv"]), files);
        let both = [PublicSource::BuiltIn, PublicSource::File("torperf.csv".into())];
        assert_eq!(public(&["--public", "built-in", "--public", "torperf.csv"]), both);
    }

    #[test]
    fn a_group_alone_is_enough_and_a_broken_one_is_refused() {
        assert!(command().try_get_matches_from(["report", "--group", "g=a,b"]).is_ok());
        for broken in ["g", "=a", "g=", "g=,"] {
            assert!(command().try_get_matches_from(["report", "--group", broken]).is_err(), "{broken}");
        }
        assert!(command().try_get_matches_from(["report"]).is_err());
    }
}
