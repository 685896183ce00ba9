//! `gnomon tor new DIR`: writes a private Tor network as an experiment.

use super::arguments::{self, COUNTS, RELAY_OPTIONS};
use super::{checks, programs};
use crate::cli::{complain, options, show, status};
use base::{SimDuration, StartDate, quantity};
use clap::ArgMatches;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tornet::balance::{self, Lopsided};
use tornet::churn::{self, Departure};
use tornet::cost::{self, Cost};
use tornet::load::{self, Expectation};
use tornet::overload;
use tornet::{
    Amount, Attack, Behaviour, CongestionControl, Error, Files, GuardPolicy, Model, Network, PathModel, RelayOption,
    Replacement, Role, Scheduler, Sources, Spec, Transport,
};

pub fn main(matches: &ArgMatches) -> u8 {
    match generate(matches) {
        Ok(text) => {
            show(&text);
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
    if matches.get_one::<String>("profile").is_some_and(|name| name == "list") {
        return Ok(arguments::profiles());
    }
    let Some(folder) = matches.get_one::<PathBuf>("directory") else {
        return Err(Error::Input("name the folder to write: gnomon tor new [OPTIONS] DIR".to_owned()));
    };
    if std::fs::symlink_metadata(folder).is_ok() {
        return Err(Error::Input(format!("{} exists; remove it, or name another folder", folder.display())));
    }
    let model = model(matches)?;
    let spec = spec(matches, &model)?;
    spec.check()?;
    checks::options(&spec)?;
    let program = |name| matches.get_one::<PathBuf>(name).map(PathBuf::as_path);
    let programs = programs::of(&spec, program("tor"), program("arti"))?;
    let network = Network::build(spec, &model)?;
    checks::network(&network)?;
    Files::of(&network, &programs, &command_line()).write(folder)?;
    Ok(summary(&network, &model, folder))
}

/// The public network as it is built in, or as the user's files have it.
fn model(matches: &ArgMatches) -> Result<Model, Error> {
    let file = |name| matches.get_one::<PathBuf>(name).cloned();
    let seed = matches.get_one("seed").copied().unwrap_or(1);
    if let Some(staged) = file("staged") {
        return Model::staged(&staged, file("users").as_deref(), file("geoip").as_deref(), seed);
    }
    let Some(consensus) = matches.get_one::<PathBuf>("consensus") else { return Ok(Model::public()) };
    let sources = Sources {
        consensus: consensus.clone(),
        descriptors: matches.get_many("descriptors").map(|paths| paths.cloned().collect()).unwrap_or_default(),
        bandwidths: file("bandwidths"),
        geoip: file("geoip"),
        users: file("users"),
    };
    Model::read(&sources, seed)
}

/// The profile or the scale, as the other flags change it.
fn spec(matches: &ArgMatches, model: &Model) -> Result<Spec, Error> {
    let users_per_client = matches.get_one::<u32>("users-per-client");
    let mut spec = match matches.get_one::<f64>("scale") {
        Some(scale) => tornet::scaled(model, *scale, users_per_client.copied().unwrap_or(100))?,
        None => {
            let name = matches.get_one::<String>("profile").map_or("tiny", String::as_str);
            let profile = tornet::profile(name);
            let unknown =
                || Error::Input(format!("no profile is called '{name}'; 'gnomon tor new --profile list' shows them"));
            profile.ok_or_else(unknown)?.spec()
        }
    };
    let begun = spec.clone();
    if let Some(total) = matches.get_one::<u32>("relays") {
        let given = ["guards", "exits", "guard-exits", "middles"].map(|name| matches.get_one(name).copied());
        let counts = tornet::relays_by_role(model, *total, given)?;
        let relays = &mut spec.relays;
        [relays.guards, relays.exits, relays.guard_exits, relays.middles] = counts;
    }
    for count in COUNTS {
        if let Some(number) = matches.get_one(count.name) {
            *(count.field)(&mut spec) = *number;
        }
    }
    set(matches, "seed", &mut spec.seed);
    set(matches, "users-per-client", &mut spec.users_per_client);
    set(matches, "bootstrap", &mut spec.bootstrap);
    set(matches, "settle", &mut spec.settle);
    set(matches, "duration", &mut spec.total);
    set(matches, "voting-interval", &mut spec.voting_interval);
    if let Some(date) = start_date(matches, spec.voting_interval)? {
        spec.start_date = date;
    }
    set(matches, "bulk-size", &mut spec.bulk_size);
    set(matches, "amount", &mut spec.amount);
    spec.relay_kind = replacements(matches, "relay-kind")?;
    spec.client_kind = replacements(matches, "client-kind")?;
    spec.relay_options = relay_options(matches);
    spec.attack = attack(matches);
    spec.network_reentry = matches.get_flag("network-reentry");
    if let (true, Some(option)) = (spec.relay_kind.is_empty(), spec.relay_options.first()) {
        return Err(Error::Input(format!("--{} is of gnomon-relay; give --relay-kind gnomon too", option.flag)));
    }
    if let Some(name) = matches.get_one::<String>("scheduler") {
        spec.scheduler = if name == "vanilla" { Scheduler::Vanilla } else { Scheduler::Kist };
    }
    if let Some(name) = matches.get_one::<String>("congestion-control") {
        spec.congestion_control = if name == "fixed" { CongestionControl::Fixed } else { CongestionControl::Vegas };
    }
    spec.cheap_crypto = matches.get_one::<String>("cheap-crypto").cloned();
    spec.load = matches.get_one("load").copied().or(spec.load);
    if spec.clients.markov == 0 && matches.get_one::<f64>("load").is_none() {
        spec.load = None;
    }
    if let Some(name) = matches.get_one::<String>("guard-policy") {
        spec.guard_policy = if name == "kept" { GuardPolicy::Kept } else { GuardPolicy::Fresh };
    }
    if let Some(name) = matches.get_one::<String>("paths") {
        spec.paths = if name == "even" { PathModel::Even } else { PathModel::Varied };
    }
    spec.core_loss = matches.get_one("core-loss").copied().or(spec.core_loss);
    spec.churn = matches.get_one("churn").copied().or(spec.churn);
    if let Some(name) = matches.get_one::<String>("transport") {
        spec.transport = if name == "plain" { Transport::Plain } else { Transport::Obfs4 };
    }
    set(matches, "relay-bandwidth-factor", &mut spec.relay_bandwidth_factor);
    spec.relay_bandwidth = matches.get_one("relay-bandwidth").copied().or(spec.relay_bandwidth);
    spec.overloaded = match matches.get_one::<f64>("overloaded") {
        Some(share) => Some(*share).filter(|share| *share != 0.0),
        None => spec.overloaded.or_else(|| overload::with_churn(&spec)),
    };
    if let Some(bandwidth) = matches.get_one("server-bandwidth") {
        (spec.server_link.up, spec.server_link.down) = (*bandwidth, *bandwidth);
    }
    if let Some(sizes) = matches.get_many("performance-sizes") {
        spec.performance_sizes = sizes.copied().collect();
        spec.performance_weights.clear();
    }
    if let Some(weights) = matches.get_many("performance-weights") {
        spec.performance_weights = weights.copied().collect();
    }
    if let Some(links) = matches.get_many("client-link") {
        spec.client_links = links.cloned().collect();
    }
    spec.server_names &= !matches.get_flag("server-addresses");
    if spec != (Spec { seed: spec.seed, ..begun }) {
        spec.profile += ", changed";
    }
    Ok(spec)
}

/// The date that was given. 'now' is the begin of the present voting interval: authorities vote at whole ones.
fn start_date(matches: &ArgMatches, interval: SimDuration) -> Result<Option<StartDate>, Error> {
    let Some(text) = matches.get_one::<String>("start-date") else { return Ok(None) };
    let date = StartDate::parse(&options::date(text)).map_err(|why| Error::Input(format!("--start-date: {why}")))?;
    let seconds = (interval.as_nanos() / 1_000_000_000).max(1);
    let begin = date.unix_seconds() - date.unix_seconds() % seconds;
    if text != "now" { Ok(Some(date)) } else { StartDate::from_unix_seconds(begin).map(Some).map_err(Error::Input) }
}

fn set<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str, field: &mut T) {
    if let Some(value) = matches.get_one::<T>(name) {
        *field = value.clone();
    }
}

/// The programs that relays or clients run instead of tor.
fn replacements(matches: &ArgMatches, name: &str) -> Result<Vec<Replacement>, Error> {
    let texts: Vec<&String> = matches.get_many(name).into_iter().flatten().collect();
    if texts.len() > 1 && texts.iter().any(|text| *text == "tor") {
        return Err(Error::Input(format!("--{name} tor stands alone; beside other kinds, tor runs where they do not")));
    }
    Ok(texts.into_iter().filter_map(|text| Replacement::read(text)).collect())
}

/// How the experiment was made, for its head: without the folder, which may be moved.
fn command_line() -> String {
    let quoted = |word: String| if word.contains(' ') { format!("'{word}'") } else { word };
    std::iter::once("gnomon".to_owned()).chain(std::env::args().skip(1).map(quoted)).collect::<Vec<_>>().join(" ")
}

/// What was written, what it will take, and what to do next.
fn summary(network: &Network, model: &Model, folder: &Path) -> String {
    let spec = &network.spec;
    let mut text = format!("{}: {} hosts, {} of them with tor\n", folder.display(), spec.hosts(), spec.tors());
    let mut roles: Vec<Role> = network.hosts.iter().map(|host| host.role).collect();
    roles.dedup();
    for role in roles {
        let name = match role.behaviour() {
            Some(behaviour) => format!("{} clients", behaviour.name()),
            None => format!("{}s", role.name()),
        };
        let _ = write!(
            text,
            "  {:<20}{:>6}",
            name.replace("authoritys", "authorities").replace("middles", "middle relays"),
            network.with_role(role).count()
        );
        text += &match role {
            Role::Guard | Role::Exit | Role::GuardExit | Role::Middle | Role::Bridge => {
                let bits: u64 = network.with_role(role).map(|host| host.up.bits_per_sec()).sum();
                format!("   {:.0} Mbit/s together\n", bits as f64 / 1e6)
            }
            Role::Client(Behaviour::Markov) => format!("   {} users each\n", spec.users_per_client),
            _ => "\n".to_owned(),
        };
    }
    let _ = writeln!(
        text,
        "simulates {}, of which {} bootstrap; clients {}",
        quantity::exact_duration(spec.total),
        quantity::exact_duration(spec.bootstrap),
        match spec.amount {
            Amount::Endless => "go on until the end",
            Amount::Times(_) => "end when they are done",
        }
    );
    let shares = balance::shares(network);
    let expected = load::expectation(network, &shares);
    if let Some(expected) = &expected {
        text += &told_load(expected);
    }
    if let Some(rate) = spec.churn {
        text += &told_churn(network, rate);
    }
    let slow: Vec<&str> =
        network.hosts.iter().filter(|host| host.call_latency.is_some()).map(|host| host.name.as_str()).collect();
    if !slow.is_empty() {
        let _ = writeln!(
            text,
            "overloaded: {} can send {:.0} % of their lines, as fast as their processors are",
            slow.join(", "),
            100.0 * overload::CAPACITY
        );
    }
    let without = if spec.attack.is_some() { ", and more by what the attack begins" } else { "" };
    let _ = writeln!(text, "a run takes some {}{without}", told_cost(&cost::of_run(network, expected.as_ref())));
    if spec.relays.authorities < balance::MEASURING_AUTHORITIES {
        text += "notice: with fewer than 3 authorities, tor does not use measured bandwidths: all relays count alike\n";
    }
    // Networks whose clients end are for trying, not for measuring.
    for lopsided in balance::lopsided(&shares, model).iter().filter(|_| spec.amount == Amount::Endless) {
        text += &told_lopsided(network, model, lopsided);
    }
    for notice in checks::notices(network) {
        let _ = writeln!(text, "notice: {notice}");
    }
    let _ =
        write!(text, "\nnext:\n  cd {}\n  gnomon run gnomon.yaml\n  gnomon tor status gnomon.data\n", folder.display());
    text
}

fn told_load(expected: &Expectation) -> String {
    let mut text = format!(
        "load: clients ask for some {:.0} Mbit/s, which takes {:.0} % of what relays can send (the public network: {:.0} %)",
        expected.payload / 1e6,
        100.0 * expected.utilisation,
        100.0 * load::PUBLIC_UTILISATION
    );
    if let Some((host, utilisation)) = expected.busiest {
        let _ = write!(text, "; most of {}, {:.0} %", host.name, 100.0 * utilisation);
    }
    text + "\n"
}

/// How many relays go away, and how.
fn told_churn(network: &Network, rate: f64) -> String {
    let away = network.hosts.iter().filter(|host| !host.outages.is_empty()).count();
    let mut text = format!(
        "churn: {:.1} % of the relays go away in an hour (the public network: {:.0} %); here {away} of {} do",
        100.0 * rate,
        100.0 * churn::PUBLIC_RATE,
        network.spec.relays.relays()
    );
    for (why, what) in [
        (Departure::Restart, "restarted"),
        (Departure::Crash, "crashed"),
        (Departure::Leave, "left"),
        (Departure::Vanish, "vanished"),
    ] {
        let count = network.hosts.iter().flat_map(|host| &host.outages).filter(|outage| outage.why == why).count();
        if count > 0 {
            let _ = write!(text, ", {what}: {count}");
        }
    }
    text + "\n"
}

fn told_lopsided(network: &Network, model: &Model, found: &Lopsided) -> String {
    let mut text = format!(
        "notice: {} has {:.0} % of the circuits' {} positions, and with them much of the results (in {} nobody has more than {:.1} %)",
        found.host.name,
        100.0 * found.share,
        found.position.name(),
        network.source,
        100.0 * found.in_model,
    );
    text += &match balance::enough(network, model, found.position) {
        Some((role, count)) => {
            format!("; --{}s {count} makes it less than {:.0} %", role.name(), 100.0 * balance::LARGEST_SHARE)
        }
        None => "; give more relays, or a larger --scale".to_owned(),
    };
    text + "\n"
}

/// What a run takes, as it is told.
fn told_cost(cost: &Cost) -> String {
    let gib = cost.memory_bytes / f64::from(1 << 30);
    let time = match cost.processor_s {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    };
    format!("{gib:.1} GiB of memory and {time} of processor time")
}

/// What clients do to a relay; times are those of IMUX's section 3.3 where none are given.
fn attack(matches: &ArgMatches) -> Option<Attack> {
    let (kind, hosts) = matches.get_one::<String>("attack")?.split_once(':')?;
    let time = |name, usual_s| matches.get_one(name).copied().unwrap_or(SimDuration::from_secs(usual_s));
    Some(Attack {
        kind: kind.to_owned(),
        hosts: hosts.split(',').map(str::to_owned).collect(),
        victim: matches.get_one::<String>("attack-victim")?.clone(),
        count: matches.get_one("attack-count").copied(),
        every: matches.get_one("attack-every").copied(),
        start: time("attack-start", 1800),
        stop: time("attack-stop", 3600),
        target: matches.get_one("attack-target").cloned(),
        hops: matches.get_one("attack-hops").copied(),
    })
}

/// What is said of `gnomon-relay`s, each for all or, behind a colon, for some.
fn relay_options(matches: &ArgMatches) -> Vec<RelayOption> {
    let mut options = Vec::new();
    for (flag, name, _) in RELAY_OPTIONS {
        for value in matches.get_many::<String>(flag).into_iter().flatten() {
            let (value, hosts) = match value.split_once(':') {
                Some((value, hosts)) => (value, Some(hosts.split(',').map(str::to_owned).collect())),
                None => (value.as_str(), None),
            };
            let (name, value) = match value.split_once('=') {
                Some((name, value)) if flag == arguments::DEFENCE => (name, value),
                _ => (name, value),
            };
            options.push(RelayOption { flag, name: name.to_owned(), value: value.to_owned(), hosts });
        }
    }
    options
}
