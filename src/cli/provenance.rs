//! `gnomon packet`, `gnomon memory`, `gnomon leak` and `gnomon export`: answers out of a run's provenance.

use super::{complain, show, status};
use ::provenance::Record;
use ::provenance::export::{Part, otlp, perfetto};
use ::provenance::read::leak::AddressRange;
use ::provenance::read::memory::AddressPrefix;
use ::provenance::read::text;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use std::path::PathBuf;

/// Packets that a list of candidates names.
const MOST_CANDIDATES: usize = 20;

const STATUS: &str = "Exit status: 0 there is an answer, 1 nothing was found, 2 bad input.";

pub fn packet_command() -> Command {
    Command::new("packet")
        .about("Show what became of a packet: the write behind it, copies and fragments, the read that took it, and where it waited")
        .before_help("Examples:\n  gnomon packet gnomon.data 0140\n  gnomon packet gnomon.data relay3:4711\n  gnomon packet --json gnomon.data @38482906977383")
        .after_help(STATUS)
        .arg(run())
        .arg(Arg::new("packet").value_name("PACKET").required(true).help(
            "The beginning of its UUID, in hexadecimal digits; or HOST:COUNT, as 'relay3:4711', the 4711th packet that relay3 made; or @NUMBER, as \
             tables have it",
        ))
        .arg(json())
}

pub fn memory_command() -> Command {
    Command::new("memory")
        .about("Show from where in programs' memory bytes were written, and to where they were read")
        .before_help("Examples:\n  gnomon memory gnomon.data\n  gnomon memory gnomon.data 0x1000a")
        .after_help(STATUS)
        .arg(run())
        .arg(
            Arg::new("address")
                .value_name("ADDRESS")
                .default_value("")
                .help("The beginning of the addresses, of twelve hexadecimal digits"),
        )
        .arg(json())
}

pub fn leak_command() -> Command {
    Command::new("leak")
        .about("Show what leaked from a range of memory: the packets, hosts and programs that its bytes reached")
        .before_help("Examples:\n  gnomon leak gnomon.data 0x1000a3f00010+64\n  gnomon leak --host server gnomon.data 0x1000a3f00010..0x1000a3f00050\n  gnomon leak --sure --json gnomon.data 0x1000a3f00010+64")
        .after_help("Known are bytes that a program gave to sockets from there, not what it copied elsewhere before, and of writev the first piece. Exit status: 0 bytes were given to a socket, 1 none were, 2 bad input.")
        .arg(run())
        .arg(
            Arg::new("range")
                .value_name("ADDRESSES")
                .required(true)
                .value_parser(AddressRange::new)
                .help("ADDRESS+BYTES, FIRST..END, or one address; hexadecimal, the number of bytes decimal"),
        )
        .arg(Arg::new("host").long("host").value_name("HOST").help("Only memory of this host's programs"))
        .arg(
            Arg::new("sure")
                .long("sure")
                .action(ArgAction::SetTrue)
                .help("Of what programs wrote after they had read them, follow only what is known to be the same bytes"),
        )
        .arg(json())
}

pub fn export_command() -> Command {
    Command::new("export")
        .about("Write a run's packets, and what followed from what, for Perfetto or OpenTelemetry")
        .before_help("Examples:\n  gnomon export gnomon.data --perfetto run.pftrace --from '10 s' --until '12 s'\n  gnomon export gnomon.data --otlp run.json --host relay3")
        .after_help("https://ui.perfetto.dev opens the one, collectors of OpenTelemetry take the other. Exit status: 0 it is written, 2 it is not.")
        .arg(run())
        .arg(file("perfetto", "A trace in Perfetto's form: a slice for each stay of a packet in a layer, an arrow for each cause"))
        .arg(file("otlp", "Spans of OpenTelemetry, as OTLP JSON"))
        .group(ArgGroup::new("form").args(["perfetto", "otlp"]).required(true).multiple(true))
        .arg(time("from", "Packets that were made at this simulated time or later"))
        .arg(time("until", "... and at this time or before"))
        .arg(
            Arg::new("host")
                .long("host")
                .value_name("HOST")
                .action(ArgAction::Append)
                .help("Packets that this host made or that go to it; once for each"),
        )
        .arg(
            Arg::new("most")
                .long("most")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .default_value("200000")
                .help("Refuse to write more packets than this"),
        )
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

fn time(name: &'static str, help: &'static str) -> Arg {
    let nanoseconds = |text: &str| base::quantity::parse_duration(text).map(|time| time.as_nanos());
    let parser = move |text: &str| nanoseconds(text).map_err(|error| error.to_string());
    Arg::new(name).long(name).value_name("TIME").value_parser(parser).help(help)
}

fn run() -> Arg {
    Arg::new("run")
        .value_name("RUN")
        .value_parser(value_parser!(PathBuf))
        .required(true)
        .help("The data directory of a run with --provenance, finished or not")
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Write JSON instead of text")
}

/// What went wrong, and its exit status.
type Failure = (String, u8);

fn bad_input(error: impl std::fmt::Display) -> Failure {
    (error.to_string(), status::BAD_INPUT)
}

fn answer(result: Result<String, Failure>) -> u8 {
    match result {
        Ok(text) => {
            show(&text);
            status::SUCCESS
        }
        Err((text, status)) => {
            complain(&text);
            status
        }
    }
}

fn open(matches: &ArgMatches) -> Result<Record, Failure> {
    let run = matches.get_one::<PathBuf>("run").expect("it is required");
    let record = Record::open(run).map_err(bad_input)?;
    if let Some(notice) = record.notice() {
        complain(&notice);
    }
    Ok(record)
}

pub fn packet(matches: &ArgMatches) -> u8 {
    answer(packet_text(matches))
}

fn packet_text(matches: &ArgMatches) -> Result<String, Failure> {
    let record = open(matches)?;
    let word = matches.get_one::<String>("packet").expect("it is required");
    let numbers = record.numbers(word).map_err(bad_input)?;
    let mut found = record.packets(numbers, MOST_CANDIDATES + 1).map_err(bad_input)?;
    if found.len() > 1 {
        let many = if found.len() > MOST_CANDIDATES { "more than 20".to_owned() } else { found.len().to_string() };
        let mut text = format!("'{word}' is the beginning of {many} packets; more digits choose one of them:");
        for sent in found.iter().take(MOST_CANDIDATES) {
            let uuid = ::provenance::uuid(record.run, sent.packet);
            text += &format!("\n  {uuid}  {}", text::line(&record, sent));
        }
        return Err(bad_input(text));
    }
    let sent = found.pop().ok_or_else(|| (format!("no packet '{word}' was recorded"), status::FAILED))?;
    let tree = record.tree(&sent).map_err(bad_input)?;
    Ok(if matches.get_flag("json") { format!("{:#}\n", tree.json(&record)) } else { tree.text(&record) })
}

pub fn memory(matches: &ArgMatches) -> u8 {
    answer(memory_text(matches))
}

fn memory_text(matches: &ArgMatches) -> Result<String, Failure> {
    let record = open(matches)?;
    let word = matches.get_one::<String>("address").map_or("", String::as_str);
    let memory = record.memory(AddressPrefix::new(word).map_err(bad_input)?).map_err(bad_input)?;
    if memory.is_empty() {
        return Err((
            format!("nothing was written from, or read to, addresses that begin with '{word}'"),
            status::FAILED,
        ));
    }
    Ok(if matches.get_flag("json") { format!("{:#}\n", memory.json(&record)) } else { memory.text(&record) })
}

pub fn leak(matches: &ArgMatches) -> u8 {
    answer(leak_text(matches))
}

fn leak_text(matches: &ArgMatches) -> Result<String, Failure> {
    let record = open(matches)?;
    let range = matches.get_one::<AddressRange>("range").expect("it is required");
    let host = match matches.get_one::<String>("host") {
        Some(name) => Some(host_number(&record, name)?),
        None => None,
    };
    let leak = record.leak(range.clone(), host, matches.get_flag("sure")).map_err(bad_input)?;
    if leak.is_empty() {
        return Err((format!("nothing was given to sockets from {range}"), status::FAILED));
    }
    Ok(if matches.get_flag("json") { format!("{:#}\n", leak.json(&record)) } else { leak.text(&record) })
}

/// A host's place in the experiment.
fn host_number(record: &Record, name: &String) -> Result<u64, Failure> {
    let about = record.hosts.iter().find(|about| about.name == *name);
    about.map(|about| about.host).ok_or_else(|| bad_input(format!("the run has no host '{name}'")))
}

pub fn export(matches: &ArgMatches) -> u8 {
    answer(export_text(matches))
}

fn export_text(matches: &ArgMatches) -> Result<String, Failure> {
    let record = open(matches)?;
    let moment = |name: &str, or: u64| matches.get_one::<u64>(name).copied().unwrap_or(or);
    let made = moment("from", 0)..=moment("until", u64::MAX);
    if made.is_empty() {
        let seconds = |ns: &u64| *ns as f64 / 1e9;
        let (from, until) = (seconds(made.start()), seconds(made.end()));
        return Err(bad_input(format!("the time to export ends ({until} s) before it begins ({from} s)")));
    }
    let part = Part {
        made,
        hosts: matches
            .get_many::<String>("host")
            .into_iter()
            .flatten()
            .map(|name| host_number(&record, name))
            .collect::<Result<_, _>>()?,
        most: matches.get_one("most").copied().unwrap_or_default(),
    };
    let mut text = String::new();
    for (name, write) in [("perfetto", perfetto::write as fn(&_, &_, &_) -> _), ("otlp", otlp::write)] {
        if let Some(file) = matches.get_one::<PathBuf>(name) {
            let exported = write(&record, &part, file).map_err(bad_input)?;
            text += &format!(
                "{name:<10} {}: {} packets, {} stays in layers, {} causes\n",
                file.display(),
                exported.packets,
                exported.slices,
                exported.causes
            );
        }
    }
    Ok(text)
}
