//! `gnomon query` and `gnomon view`: what was recorded of packets, handed to the companion that links with DuckDB.

use super::{complain, status};
use clap::{Arg, ArgMatches, Command};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The program beside this one that does both.
const COMPANION: &str = "gnomon-view";

const FORMATS: [&str; 5] = ["table", "csv", "json", "arrow", "parquet"];

/// What `gnomon query` takes.
pub fn query_command() -> Command {
    Command::new("query")
        .about("Ask a run's provenance in SQL")
        .before_help(
            "Examples:\n  gnomon query gnomon.data \"SELECT fate, count(*) FROM sent GROUP BY fate\"\n  gnomon query gnomon.data \
             \"SELECT * FROM packets ORDER BY total_ns DESC LIMIT 10\" -o slowest.csv\n  gnomon query gnomon.data - < question.sql",
        )
        .after_help(
            "The SQL is DuckDB's, and a single question: SELECT and its like (FROM, WITH, DESCRIBE, SUMMARIZE, SHOW TABLES). Tables are those \
             of the run's record (sent, received, writes, reads, causes, wakes, streams, tcp, layers, links, marks, hosts, costs), \
             and packets, which has what sent and received tell of each. It reads nothing outside the run, and writes nothing but FILE.\n\n\
             Exit status: 0 answered, 2 bad input",
        )
        .arg(run())
        .arg(Arg::new("sql").value_name("SQL").required(true).allow_hyphen_values(true).help("The question; '-' reads it from standard input"))
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(FORMATS)
                .help("The answer's form; otherwise as FILE is called (.csv, .json, .arrow, .parquet), else a table"),
        )
        .arg(output("Where the answer goes, in place of standard output"))
}

fn run() -> Arg {
    Arg::new("run")
        .value_name("RUN")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help("The data directory of a run with '--provenance'")
}

fn output(help: &'static str) -> Arg {
    Arg::new("output")
        .long("output")
        .short('o')
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help(help)
}

/// Does `gnomon query`.
pub fn query(matches: &ArgMatches) -> u8 {
    let output = matches.get_one::<PathBuf>("output");
    let format = match matches.get_one::<String>("format") {
        Some(format) => format.as_str(),
        None => output.and_then(|path| path.extension()?.to_str()).map_or("table", by_extension),
    };
    let mut sql = matches.get_one::<String>("sql").expect("clap asks for it").clone();
    if sql == "-" {
        sql.clear();
        if let Err(error) = io::stdin().read_to_string(&mut sql) {
            complain(&format!("cannot read the question from standard input: {error}"));
            return status::BAD_INPUT;
        }
    }
    let output = output.map_or_else(|| OsString::from("-"), |path| path.clone().into_os_string());
    tell_what_is_missing(run_of(matches));
    hand_over(&[OsStr::new("query"), run_of(matches).as_os_str(), OsStr::new(format), &output, OsStr::new(&sql)])
}

/// What `gnomon view` takes.
pub fn view_command() -> Command {
    Command::new("view")
        .about("Show in a browser where a run's packets waited")
        .before_help("Examples:\n  gnomon view gnomon.data\n  gnomon view gnomon.data --port 8000\n  gnomon view gnomon.data -o where.html")
        .after_help(
            "Prints the page's address and serves it until it is interrupted (Ctrl-C), on this machine only and to whoever knows the address. With \
             -o it writes one file in place of that, which needs no server and no network, but cannot choose among packets.\n\n\
             Exit status: 0 the file is written, 2 bad input",
        )
        .arg(run())
        .arg(
            Arg::new("port")
                .long("port")
                .value_name("PORT")
                .default_value("0")
                .value_parser(clap::value_parser!(u16))
                .help("The port of 127.0.0.1; 0 takes any that is free"),
        )
        .arg(output("Write the page to this file"))
}

/// Does `gnomon view`.
pub fn view(matches: &ArgMatches) -> u8 {
    tell_what_is_missing(run_of(matches));
    let run = run_of(matches).as_os_str();
    match matches.get_one::<PathBuf>("output") {
        Some(path) => hand_over(&[OsStr::new("page"), run, path.as_os_str()]),
        None => {
            let port = matches.get_one::<u16>("port").copied().unwrap_or(0).to_string();
            hand_over(&[OsStr::new("serve"), run, OsStr::new(&port)])
        }
    }
}

/// Says in a line that answers may lack something; the companion says what keeps a record from being read at all.
fn tell_what_is_missing(run: &Path) {
    if let Some(notice) = provenance::Record::open(run).ok().and_then(|record| record.notice()) {
        complain(&notice);
    }
}

fn by_extension(extension: &str) -> &str {
    FORMATS.into_iter().find(|format| *format == extension).unwrap_or("table")
}

fn run_of(matches: &ArgMatches) -> &Path {
    matches.get_one::<PathBuf>("run").expect("clap asks for it")
}

/// Becomes the companion; comes back only if there is none.
fn hand_over(words: &[&OsStr]) -> u8 {
    let companion = match std::env::current_exe() {
        Ok(own) => own.with_file_name(COMPANION),
        Err(error) => {
            complain(&format!("cannot find this program: {error}"));
            return status::FAILED;
        }
    };
    if !companion.is_file() {
        complain(&missing(&companion));
        return status::BAD_INPUT;
    }
    let error = std::process::Command::new(&companion).args(words).exec();
    complain(&format!("cannot start '{}': {error}", companion.display()));
    status::FAILED
}

fn missing(companion: &Path) -> String {
    format!(
        "there is no {}, which knows SQL and makes the page: run 'make build' again, which needs npm (Debian's package npm), or \
         'cargo build --release -p view'",
        companion.display()
    )
}
