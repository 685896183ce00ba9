//! `gnomon tor new DIR`: writes a private Tor network as an experiment.

use crate::cli::{complain, show, status};
use base::quantity;
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};
use tornet::{Amount, Error, Files, Model, Network, Programs, Role, Scheduler, Spec, Transport};

/// What the traffic program is called, beside Gnomon or in PATH.
const TRAFFIC_PROGRAM: &str = "gnomon-traffic";
/// Where distributions put servers, which is not in every user's PATH.
const SYSTEM_PLACES: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];

/// Flags that replace a number of the profile, with the help and what they change.
const COUNTS: &[(&str, &str, fn(&mut Spec) -> &mut u32)] = &[
    ("authorities", "Directory authorities", |spec| &mut spec.relays.authorities),
    ("guards", "Relays that are guards", |spec| &mut spec.relays.guards),
    ("exits", "Relays that are exits", |spec| &mut spec.relays.exits),
    ("guard-exits", "Relays that are guards and exits", |spec| &mut spec.relays.guard_exits),
    ("middles", "Relays that are neither", |spec| &mut spec.relays.middles),
    ("bridges", "Bridges", |spec| &mut spec.relays.bridges),
    ("web-clients", "Clients that fetch 320 KiB and pause for 1 to 60 s", |spec| &mut spec.clients.web),
    ("bulk-clients", "Clients that fetch 5 MiB back to back", |spec| &mut spec.clients.bulk),
    ("performance-clients", "Clients that measure: 50 KiB, 1 MiB, 5 MiB, one every 60 s", |spec| &mut spec.clients.performance),
    ("onion-clients", "Clients that measure onion services", |spec| &mut spec.clients.onion),
    ("bridge-clients", "Clients that measure through bridges", |spec| &mut spec.clients.bridge),
    ("servers", "Web servers", |spec| &mut spec.servers),
    ("onion-services", "Onion services", |spec| &mut spec.onion_services),
];

pub fn command() -> Command {
    let profiles = tornet::PROFILES.iter().map(|profile| format!("  {:<16}{}", profile.name, profile.about));
    let mut command = Command::new("new")
        .about("Write a private Tor network as an experiment: keys, torrc files, topology, traffic")
        .before_help("Examples:\n  gnomon tor new --profile tiny net\n  gnomon tor new --guards 5 --exits 3 --middles 6 --web-clients 50 net")
        .after_help(format!("Profiles (--profile list shows them too):\n{}", profiles.collect::<Vec<_>>().join("\n")))
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .required_unless_present_any(["list"])
                .help("The folder to write, which must not exist"),
        )
        .arg(
            Arg::new("profile")
                .long("profile")
                .value_name("NAME")
                .default_value("tiny")
                .help("The network to begin with; all other flags override it"),
        )
        .arg(number("seed", "Everything random follows from it: keys, places, lines, times; and the run").value_parser(value_parser!(u64)));
    for (name, help, _) in COUNTS {
        command = command.arg(number(name, help).value_parser(value_parser!(u32).range(..=60_000)));
    }
    command
}

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").help(help)
}

pub fn main(matches: &ArgMatches) -> u8 {
    match generate(matches) {
        Ok(summary) => {
            show(&summary);
            status::SUCCESS
        }
        Err(error) => {
            complain(&error);
            match error {
                Error::Input(_) => status::BAD_INPUT,
                Error::File { .. } => status::FAILED,
            }
        }
    }
}

fn generate(matches: &ArgMatches) -> Result<String, Error> {
    let folder: &PathBuf = matches.get_one("directory").expect("required");
    let spec = spec(matches)?;
    spec.check()?;
    if std::fs::symlink_metadata(folder).is_ok() {
        return Err(Error::Input(format!("{} exists; remove it, or name another folder", folder.display())));
    }
    let programs = programs(&spec)?;
    let network = Network::build(spec, &Model::public())?;
    Files::of(&network, &programs, &command_line()).write(folder)?;
    Ok(summary(&network, folder))
}

fn spec(matches: &ArgMatches) -> Result<Spec, Error> {
    let name: &String = matches.get_one("profile").expect("has a default");
    let profile = tornet::profile(name).ok_or_else(|| Error::Input(format!("no profile is called '{name}'; 'gnomon tor new --help' lists them")))?;
    let mut spec = profile.spec();
    if let Some(seed) = matches.get_one("seed") {
        spec.seed = *seed;
    }
    for (name, _, field) in COUNTS {
        if let Some(count) = matches.get_one(name) {
            *field(&mut spec) = *count;
        }
    }
    Ok(spec)
}

fn command_line() -> String {
    std::iter::once("gnomon".to_owned())
        .chain(std::env::args().skip(1))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The programs of the network, or the one message that says what is missing.
fn programs(spec: &Spec) -> Result<Programs, Error> {
    let tor = find("tor").ok_or_else(|| {
        Error::Input("tor is neither in PATH nor in /usr/sbin; install it (Debian: apt install tor)".to_owned())
    })?;
    let traffic = beside_gnomon(TRAFFIC_PROGRAM).or_else(|| find(TRAFFIC_PROGRAM)).ok_or_else(|| {
        Error::Input(format!("{TRAFFIC_PROGRAM} is neither beside gnomon nor in PATH; 'make build' leaves both in bin/"))
    })?;
    let obfs4proxy = if spec.relays.bridges > 0 && spec.transport == Transport::Obfs4 {
        Some(find("obfs4proxy").ok_or_else(|| {
            Error::Input(
                "obfs4proxy is not in PATH, and bridges need it; install it (Debian: apt install obfs4proxy), or give --transport plain"
                    .to_owned(),
            )
        })?)
    } else {
        None
    };
    Ok(Programs { tor, traffic, obfs4proxy })
}

fn beside_gnomon(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.is_file().then_some(path)
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(SYSTEM_PLACES.iter().map(PathBuf::from));
    places.filter(|place| place.is_absolute()).map(|place| place.join(name)).find(|path| path.is_file())
}

fn summary(network: &Network, folder: &Path) -> String {
    let _ = (quantity::exact_duration(network.spec.total), Amount::Endless, Scheduler::Kist, Role::Server);
    format!("{}\n", folder.display())
}
