//! The flags of `gnomon tor new`, and how their values are read.

use base::quantity::{parse_bandwidth, parse_byte_size, parse_duration};
use base::{Bandwidth, ByteSize, SimDuration};
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use std::path::PathBuf;
use tornet::{Amount, Instead, LinkClass, Replacement, Spec};

/// A flag that replaces a number of the profile.
pub struct Count {
    pub name: &'static str,
    help: &'static str,
    pub field: fn(&mut Spec) -> &mut u32,
}

const fn count(name: &'static str, help: &'static str, field: fn(&mut Spec) -> &mut u32) -> Count {
    Count { name, help, field }
}

pub const COUNTS: &[Count] = &[
    count("authorities", "Directory authorities", |spec| &mut spec.relays.authorities),
    count("guards", "Relays that are guards", |spec| &mut spec.relays.guards),
    count("exits", "Relays that are exits", |spec| &mut spec.relays.exits),
    count("guard-exits", "Relays that are guards and exits", |spec| &mut spec.relays.guard_exits),
    count("middles", "Relays that are neither", |spec| &mut spec.relays.middles),
    count("bridges", "Bridges", |spec| &mut spec.relays.bridges),
    count("web-clients", "Clients that fetch 320 KiB and pause for 1 to 60 s", |spec| &mut spec.clients.web),
    count("bulk-clients", "Clients that fetch 5 MiB back to back", |spec| &mut spec.clients.bulk),
    count("performance-clients", "Clients that measure: 50 KiB, 1 MiB or 5 MiB every 60 s", |spec| {
        &mut spec.clients.performance
    }),
    count("markov-clients", "Clients that stand for many users, by measured Markov models", |spec| {
        &mut spec.clients.markov
    }),
    count("onion-clients", "Clients that measure onion services", |spec| &mut spec.clients.onion),
    count("bridge-clients", "Clients that measure through bridges", |spec| &mut spec.clients.bridge),
    count("servers", "Web servers", |spec| &mut spec.servers),
    count("onion-services", "Onion services", |spec| &mut spec.onion_services),
];

/// `tornet::churn::PUBLIC_RATE`, as it would be typed.
const PUBLIC_CHURN: &str = "0.02";

const MOST: i64 = 60_000;
/// What relays are taken from, if not from the built-in model.
const SOURCE: &str = "source";

pub fn new() -> Command {
    let about = "Write a private Tor network as an experiment: keys, torrc files, topology, traffic";
    let examples = "Examples:\n  gnomon tor new net                            the profile 'tiny'\n  gnomon tor new --profile paper-small net\n  gnomon tor new \
                    --scale 0.005 --seed 7 net    a two-hundredth of the public network\n  gnomon tor new --guards 5 --exits 3 --web-clients 50 \
                    --scheduler vanilla net";
    Command::new("new")
        .about(about)
        .before_help(examples)
        .after_help(format!("{}\nMore: docs/tor-networks.md", profiles()))
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The folder to write, which must not exist"),
        )
        .next_help_heading("Where to begin (everything below overrides it)")
        .args(beginnings())
        .next_help_heading("The public network from files of the Tor project, in place of the built-in model")
        .args(sources())
        .group(ArgGroup::new(SOURCE).args(["staged", "consensus"]))
        .next_help_heading("How many")
        .arg(
            value("relays", "N", "Relays, by role as in the public network where the following do not say")
                .value_parser(value_parser!(u32).range(..=MOST)),
        )
        .args(
            COUNTS
                .iter()
                .map(|count| value(count.name, "N", count.help).value_parser(value_parser!(u32).range(..=MOST))),
        )
        .next_help_heading("When")
        .args(times())
        .next_help_heading("What clients do")
        .args(traffic())
        .next_help_heading("How hosts are attached, and how tor is set")
        .args(settings())
        .next_help_heading("What lies between gnomon-relays")
        .args(relays())
        .next_help_heading("Attacks on a relay, by clients of Gnomon's own")
        .args(attacks())
}

/// The profiles, a line each.
pub fn profiles() -> String {
    let line = |profile: &tornet::Profile| format!("  {:<16}{}\n", profile.name, profile.about);
    let lines: String = tornet::PROFILES.iter().map(line).collect();
    format!("Profiles:\n{lines}")
}

fn beginnings() -> Vec<Arg> {
    vec![
        value("profile", "NAME", "A named network ('list' shows them); 'tiny' without"),
        value("scale", "F", "A share of the public network instead, such as 0.01")
            .value_parser(value_parser!(f64))
            .conflicts_with("profile"),
        value("seed", "N", "Everything random follows from it: keys, places, lines, times, and the run")
            .value_parser(value_parser!(u64)),
    ]
}

fn sources() -> Vec<Arg> {
    let file = |name, help| value(name, "FILE", help).value_parser(value_parser!(PathBuf));
    let more = |name, help| file(name, help).requires("consensus");
    let either = |name, help| file(name, help).requires(SOURCE);
    vec![
        file("staged", "A month that 'gnomon tor stage', or tornettools, has staged: relayinfo_staging_...json"),
        file("consensus", "Or a consensus: relays, flags and weights"),
        more("descriptors", "Server descriptors, a file or a folder of files: what relays can carry; can be repeated")
            .action(ArgAction::Append),
        more("bandwidths", "A bandwidth file, whose weights replace the consensus'"),
        either(
            "geoip",
            "Countries of addresses, as in tor's file geoip; without, relays are spread as in the built-in model",
        ),
        either("users", "Users by country: userinfo_staging_...json, or userstats-relay-country.csv of Tor Metrics"),
    ]
}

fn times() -> Vec<Arg> {
    let time = |name, help| value(name, "TIME", help).value_parser(duration);
    vec![
        time("bootstrap", "When clients begin to load the network"),
        time("settle", "How long clients load the network before figures count"),
        time("duration", "When the experiment ends"),
        time("voting-interval", "The time between two consensuses; the first is there after 30 s"),
        value(
            "start-date",
            "DATE",
            "When clocks begin, in UTC: a day or a day and a time, or 'now' [default: 2000-01-01T00:00:00Z]",
        ),
    ]
}

fn traffic() -> Vec<Arg> {
    vec![
        value("amount", "N", "How often each client does what it does, after which it ends; or 'endless'")
            .value_parser(amount),
        value("bulk-size", "SIZE", "What bulk clients fetch").value_parser(byte_size),
        value("performance-sizes", "SIZES", "What measuring clients fetch, with commas between")
            .value_delimiter(',')
            .value_parser(byte_size),
        value(
            "performance-weights",
            "WEIGHTS",
            "How often they fetch each size, in relation to the others, with commas between (12,2,1: 50 KiB, 1 MiB, 5 MiB); other \
             --performance-sizes without weights come in turn",
        )
        .value_delimiter(',')
        .value_parser(weight),
        value("users-per-client", "N", "How many users each Markov client stands for (100)")
            .value_parser(value_parser!(u32).range(1..)),
        value("load", "F", "How much Markov clients load the network: 1 is as much as the public one is loaded")
            .value_parser(value_parser!(f64)),
        value(
            "guard-policy",
            "NAME",
            "How clients that stand for many users, and those that measure, choose guards: 'fresh' for each circuit, or 'kept'",
        )
        .value_parser(["fresh", "kept"]),
        Arg::new("server-addresses")
            .long("server-addresses")
            .action(ArgAction::SetTrue)
            .help("Give exits the addresses of servers in place of names, so that none asks the resolver"),
    ]
}

fn settings() -> Vec<Arg> {
    vec![
        value(
            "client-link",
            "LINK",
            "A kind of line of clients in place of the usual four: NAME:DOWN:UP[:LATENCY[:LOSS[:WEIGHT]]], \
              such as 'dsl:25 Mbit:5 Mbit:15 ms:0.001:2'; can be repeated",
        )
        .action(ArgAction::Append)
        .value_parser(link),
        value("server-bandwidth", "BANDWIDTH", "The line of each server and onion service").value_parser(bandwidth),
        value("relay-bandwidth", "BANDWIDTH", "The line of each relay, in place of the model's")
            .value_parser(bandwidth),
        value("relay-bandwidth-factor", "F", "Multiply the line of each relay by this; weights stay as they are")
            .value_parser(value_parser!(f64)),
        value(
            "relay-kind",
            "KIND",
            "What guards, middle relays and exits run: 'tor', 'gnomon' (gnomon-relay, Gnomon's own), or 'gnomon:HOST,HOST...' for \
             gnomon-relay on these hosts and tor on the others; 'gnomon:middle*' for all hosts of such a name, 'gnomon:90%' for a share",
        )
        .action(ArgAction::Append)
        .value_parser(relay_kind),
        value(
            "client-kind",
            "KIND",
            "What web, bulk, performance and Markov clients run: 'tor', 'gnomon' (gnomon-onion-client, light, without control port), 'arti' \
             (the Tor Project's client in Rust), or 'gnomon:HOST,HOST...', 'arti:HOST,HOST...' for it on these hosts and tor on the others; \
             'gnomon:web*' for all hosts of such a name, 'gnomon:90%' for a share. Repeat for several kinds: 'arti:10%', then 'gnomon'",
        )
        .action(ArgAction::Append)
        .value_parser(client_kind),
        value("arti", "PROGRAM", "The arti to run, in place of the one in PATH")
            .value_parser(value_parser!(PathBuf)),
        Arg::new("network-reentry")
            .long("network-reentry")
            .action(ArgAction::SetTrue)
            .help("Let exits carry streams to relays, as before 2021: 'allow-network-reentry=1' in the consensus"),
        value("scheduler", "NAME", "How relays and clients, tor's and gnomon-relays, choose what to write next")
            .value_parser(["kist", "vanilla"]),
        value(
            "congestion-control",
            "NAME",
            "How much tors have on its way in a circuit: 'vegas' finds out, as on the public network; 'fixed' is 1,000 cells, as before 2022",
        )
        .value_parser(["vegas", "fixed"]),
        value("tor", "PROGRAM", "The tor to run, such as one of your own, in place of the one in PATH")
            .value_parser(value_parser!(PathBuf)),
        value(
            "cheap-crypto",
            "WHAT",
            "Replace ciphers by cheap ones that protect nothing, to save processor time: of relay cells ('cells'), of TLS too ('all', \
             without a WHAT). Such a run says nothing about processors, and Shadow cannot make it",
        )
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("all")
        .value_parser(["cells", "all"]),
        value(
            "churn",
            "RATE",
            "Let relays go away and come back, this share of them within an hour; without a RATE as in the public network (0.02). \
             Where clients make a --load, some relays are --overloaded then",
        )
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value(PUBLIC_CHURN)
        .value_parser(value_parser!(f64)),
        value(
            "overloaded",
            "SHARE",
            "Let this share of the relays have processors that manage a quarter of their line (Shadow cannot run such networks); with \
             --churn and a --load 0.02 unless given; 0 is none",
        )
        .value_parser(value_parser!(f64)),
        value(
            "paths",
            "NAME",
            "What packets meet between hosts: 'even' is one latency for each two countries, 'varied' a spread of them, jitter and loss",
        )
        .value_parser(["even", "varied"]),
        value(
            "core-loss",
            "SHARE",
            "Lose this share of the packets on each way between hosts that are no clients, in place of what --paths says",
        )
        .value_parser(value_parser!(f64)),
        value("transport", "NAME", "What bridges speak").value_parser(["obfs4", "plain"]),
    ]
}

/// Flags for `gnomon-relay`: the flag, the relay's option, and what it takes.
pub const RELAY_OPTIONS: [(&str, &str, Takes); 10] = [
    ("link-design", "LinkDesign", Takes::One(&["vanilla", "pctcp", "pctcp-ipsec", "torchestra", "imux"])),
    ("circuit-scheduler", "CircuitScheduler", Takes::One(&["round-robin", "ewma"])),
    (
        "connection-scheduler",
        "ConnectionScheduler",
        Takes::One(&["circuit-rr", "cell-rr", "ewma-mapping", "shortest-queue", "kist"]),
    ),
    ("kist-formula", "KISTFormula", Takes::One(&["2014", "2018"])),
    ("conn-limit", "ConnLimit", Takes::Number(32)),
    ("imux-active", "ImuxActive", Takes::One(&["opened", "ewma", "label"])),
    ("imux-channel-connections", "ImuxChannelConnections", Takes::Number(1)),
    ("torchestra-heavy", "TorchestraHeavy", Takes::One(&["ewma", "label"])),
    ("relay-statistics", "StatisticsFile", Takes::Name),
    (DEFENCE, "", Takes::Defence),
];

/// The flag whose values name options themselves: NAME=VALUE.
pub const DEFENCE: &str = "defence";

/// Options of `gnomon-relay` that defend, what each may be, and an example.
const DEFENCES: [(&str, Value, &str); 21] = [
    ("DoSCircuitCreationEnabled", Value::Switch, "1"),
    ("DoSCircuitCreationMinConnections", Value::Count, "3"),
    ("DoSCircuitCreationRate", Value::Count, "3"),
    ("DoSCircuitCreationBurst", Value::Count, "90"),
    ("DoSCircuitCreationDefenseType", Value::Answer, "2"),
    ("DoSCircuitCreationDefenseTimePeriod", Value::Time, "1 hour"),
    ("DoSConnectionEnabled", Value::Switch, "1"),
    ("DoSConnectionMaxConcurrentCount", Value::Count, "100"),
    ("DoSConnectionDefenseType", Value::Answer, "2"),
    ("DoSConnectionConnectRate", Value::Count, "20"),
    ("DoSConnectionConnectBurst", Value::Count, "40"),
    ("DoSConnectionConnectDefenseTimePeriod", Value::Time, "1 day"),
    ("ChannelCircuitRate", Value::Rate, "5"),
    ("ChannelCircuitBurst", Value::Rate, "50"),
    ("NetworkReentry", Value::Switch, "1"),
    ("DisableOOSCheck", Value::Flag, "0"),
    ("RelaysFirst", Value::Flag, "1"),
    ("PuzzleEffort", Value::Count, "100000"),
    ("MaxRelayEarly", Value::Count, "8"),
    ("HandshakeTimeout", Value::Time, "60 seconds"),
    ("MaxHandshakes", Value::Count, "100"),
];

/// What an option that defends may be: what `gnomon-relay` reads, which ends when it runs if it cannot.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// Off, on, or as the consensus says.
    Switch,
    /// Off or on.
    Flag,
    /// As the consensus says, do nothing, or refuse.
    Answer,
    Count,
    /// A number that need not be whole.
    Rate,
    /// As tor writes it.
    Time,
}

impl Value {
    fn allows(self, text: &str) -> bool {
        match self {
            Value::Switch => matches!(text, "0" | "1" | "auto"),
            Value::Flag => matches!(text, "0" | "1"),
            Value::Answer => matches!(text, "0" | "1" | "2"),
            Value::Count => text.parse::<u32>().is_ok(),
            Value::Rate => text.parse::<f64>().is_ok_and(|rate| rate.is_finite() && rate >= 0.0),
            Value::Time => is_time_of_tor(text),
        }
    }

    fn what(self) -> &'static str {
        match self {
            Value::Switch => "0, 1 or auto belongs here",
            Value::Flag => "0 or 1 belongs here",
            Value::Answer => "0 (as the consensus says), 1 (nothing) or 2 (refuse) belongs here",
            Value::Count => "a whole number from 0 to 4294967295 belongs here",
            Value::Rate => "a number from 0 on belongs here",
            Value::Time => "a number and a unit belong here: msec, seconds, minutes, hours, days, weeks or months",
        }
    }
}

/// The longest time that tor takes, in milliseconds.
const LONGEST_MS: u64 = i32::MAX as u64 * 1000;

/// A number, and a unit, without which it counts seconds: what `onion_program::torrc::milliseconds` reads in a relay, whose crates the
/// simulator does not depend on.
fn is_time_of_tor(text: &str) -> bool {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[digits..].trim().to_ascii_lowercase();
    let factor: u64 = match unit.trim_end_matches('s') {
        "msec" | "millisecond" => 1,
        "" | "sec" | "second" => 1000,
        "min" | "minute" => 60_000,
        "h" | "hour" => 3_600_000,
        "day" => 86_400_000,
        "week" => 7 * 86_400_000,
        "month" => 2_629_728_000,
        _ => return false,
    };
    text[..digits].parse::<f64>().is_ok_and(|number| number * factor as f64 <= LONGEST_MS as f64)
}

/// NAME=VALUE of one of [`DEFENCES`].
fn check_defence(text: &str) -> Result<(), String> {
    let found = text.split_once('=').and_then(|(given, value)| {
        let (name, kind, example) = DEFENCES.into_iter().find(|(name, ..)| *name == given)?;
        Some((name, kind, example, value))
    });
    match found {
        None => {
            let known: Vec<String> = DEFENCES.iter().map(|(name, _, value)| format!("{name}={value}")).collect();
            Err(format!("'{text}' is none of {}", known.join(", ")))
        }
        Some((name, kind, example, value)) if !kind.allows(value) => {
            Err(format!("{name} cannot be '{value}': {}, such as {name}={example}", kind.what()))
        }
        Some(_) => Ok(()),
    }
}

/// What a relay's folder has of its own: of the template, of a tor, and of what Gnomon records there.
const TAKEN: [&str; 12] = [
    "torrc",
    "keys",
    "lock",
    "state",
    "stats",
    "fingerprint",
    "fingerprint-ed25519",
    "hashed-fingerprint",
    "pt_state",
    "diff-cache",
    "eth0.pcap",
    "lo.pcap",
];

fn is_taken(name: &str) -> bool {
    // What the program says, and the lists that it keeps of the network.
    let of_program = ["gnomon-relay.", "cached-", "unverified-"];
    TAKEN.contains(&name) || of_program.iter().any(|begin| name.starts_with(begin))
}

/// A name that is no path, and no option.
fn is_file_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed) && name.len() <= 255
}

/// What an option of `gnomon-relay` may be.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    One(&'static [&'static str]),
    /// A whole number, this or more.
    Number(usize),
    /// Of a file in the host's folder, which has none of that name.
    Name,
    /// One of `DEFENCES` and its value.
    Defence,
}

impl Takes {
    fn check(self, text: &str) -> Result<String, String> {
        let (value, hosts) = text.split_once(':').unwrap_or((text, "all"));
        self.check_value(value)?;
        if hosts.split(',').any(str::is_empty) {
            return Err("behind the colon are hosts with commas between them, such as exit1,middle1".to_owned());
        }
        Ok(text.to_owned())
    }

    fn check_value(self, value: &str) -> Result<(), String> {
        match self {
            Takes::One(known) if !known.contains(&value) => Err(format!("'{value}' is none of {}", known.join(", "))),
            Takes::Number(least) if !value.parse().is_ok_and(|number: usize| number >= least) => {
                Err(format!("a whole number from {least} on belongs here"))
            }
            Takes::Name if !is_file_name(value) => Err(
                "a file's name of letters, digits, '-', '_' and '.' belongs here, which begins with a letter or a digit"
                    .to_owned(),
            ),
            Takes::Name if is_taken(value) => {
                Err(format!("'{value}' is what a relay's folder has already: give another name, such as statistics"))
            }
            Takes::Defence => check_defence(value),
            _ => Ok(()),
        }
    }
}

/// What lies between relays of Gnomon's own; each for all of them, or for some: VALUE:HOST,HOST...
fn relays() -> Vec<Arg> {
    let helps = [
        "What lies between two gnomon-relays: 'vanilla', a connection that all circuits share; 'pctcp', one for each circuit; \
         'pctcp-ipsec', the same without TLS; 'torchestra', one for light and one for heavy circuits; 'imux', as many as active circuits want",
        "Which circuit's cell a gnomon-relay sends next: by 'round-robin', or 'ewma', of who has sent least of late",
        "Which of imux's connections takes a cell: circuits are dealt out ('circuit-rr', 'ewma-mapping'), or cells ('cell-rr', \
         'shortest-queue', 'kist')",
        "How gnomon-relays' KIST reckons: as tor's ('2018', the default), or as first published ('2014')",
        "Sockets that a gnomon-relay has at most [default: what the system allows]",
        "Which circuits imux counts: all that are 'opened', those that have sent much ('ewma'), those of clients by 'label'",
        "Connections that an imux channel has at most [default: as Algorithm 1 says]",
        "Which circuits torchestra takes for heavy: of bulk clients, by 'label', or those that send more than others ('ewma')",
        "Let gnomon-relays write a line of JSON each second to this file in their folders",
        "NAME=VALUE: let gnomon-relays defend themselves (docs/attacks.md); can be repeated. With PuzzleEffort, gnomon-onion-clients solve \
         the puzzles",
    ];
    let each = RELAY_OPTIONS.iter().zip(helps);
    each.map(|((flag, _, takes), help)| {
        let takes = *takes;
        value(flag, "VALUE[:HOST,...]", help)
            .action(ArgAction::Append)
            .value_parser(move |text: &str| takes.check(text))
    })
    .collect()
}

/// What some `gnomon-onion-client`s do to a relay.
fn attacks() -> Vec<Arg> {
    let kinds = ["circuits", "sybils", "streams", "active", "handshakes"];
    let of = |name, placeholder, help| value(name, placeholder, help).requires("attack");
    let attack = move |text: &str| {
        match text.split_once(':') {
        Some((kind, hosts)) if kinds.contains(&kind) && hosts.split(',').all(|host| !host.is_empty()) => Ok(text.to_owned()),
        _ => Err("such as circuits:webclient1: one of circuits, sybils, streams, active and handshakes, a colon, and the clients that attack".to_owned()),
    }
    };
    vec![
        value("attack", "KIND:HOST,...", "Which attack these clients make (docs/attacks.md): 'circuits', 'sybils', 'streams', 'active' or 'handshakes'")
            .value_parser(attack)
            .requires("attack-victim"),
        of("attack-victim", "RELAY", "On which relay"),
        of("attack-count", "N", "How many circuits or streams begin each time, up to 1000000 [default: 1000]")
            .value_parser(value_parser!(u32).range(1..=1_000_000)),
        of("attack-every", "TIME", "The time between two such [default: 6 s]").value_parser(pause),
        of("attack-start", "TIME", "When it begins [default: 30 min]").value_parser(duration),
        of("attack-stop", "TIME", "When it ends [default: 60 min]").value_parser(duration),
        of("attack-target", "HOST:PORT", "Where the streams of 'streams' go").value_parser(target),
        // One hop alone would not go through the victim.
        of("attack-hops", "N", "Hops of the circuits of 'circuits', from 2 to 64 [default: 3]")
            .value_parser(value_parser!(u32).range(2..=64)),
    ]
}

fn value(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

fn duration(text: &str) -> Result<SimDuration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// The time between two of something.
fn pause(text: &str) -> Result<SimDuration, String> {
    match duration(text)? {
        SimDuration::ZERO => Err("a time above 0 belongs here, such as 6s".to_owned()),
        pause => Ok(pause),
    }
}

fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    parse_bandwidth(text).map_err(|error| error.to_string())
}

fn byte_size(text: &str) -> Result<ByteSize, String> {
    match parse_byte_size(text) {
        Ok(ByteSize(0)) => Err("a size of 0 gives nothing to fetch".to_owned()),
        size => size.map_err(|error| error.to_string()),
    }
}

/// HOST:PORT, as `gnomon-onion-client` takes it.
fn target(text: &str) -> Result<String, String> {
    let is_host = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse().is_ok_and(|port: u16| port != 0) => Ok(text.to_owned()),
        _ => Err("HOST:PORT belongs here, such as server1:80".to_owned()),
    }
}

fn weight(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(weight) if f64::is_finite(weight) && weight > 0.0 => Ok(weight),
        _ => Err("a number above 0 belongs here".to_owned()),
    }
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.parse() {
        _ if text == "endless" => Ok(Amount::Endless),
        Ok(times) if times > 0 => Ok(Amount::Times(times)),
        _ => Err("a number above 0 or 'endless' belongs here".to_owned()),
    }
}

fn link(text: &str) -> Result<LinkClass, String> {
    let fields: Vec<&str> = text.split(':').collect();
    let (Some(name), Some(down), Some(up)) = (fields.first(), fields.get(1), fields.get(2)) else {
        return Err("write NAME:DOWN:UP, such as 'dsl:25 Mbit:5 Mbit'".to_owned());
    };
    let number = |index: usize, usual: f64| match fields.get(index) {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|_| format!("'{text}' is no number")),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || fields.len() > 6 {
        return Err(
            "the name is of letters, digits and '-'; at most LATENCY, LOSS and WEIGHT follow the bandwidths".to_owned()
        );
    }
    let link = LinkClass {
        name: (*name).to_owned(),
        down: bandwidth(down)?,
        up: bandwidth(up)?,
        latency: fields.get(3).map_or(Ok(SimDuration::ZERO), |text| duration(text))?,
        loss: number(4, 0.0)?,
        weight: number(5, 1.0)?,
    };
    match (0.0..1.0).contains(&link.loss) && link.weight > 0.0 && link.weight.is_finite() {
        true => Ok(link),
        false => Err("the loss is from 0 to below 1, the weight above 0".to_owned()),
    }
}

fn relay_kind(text: &str) -> Result<String, String> {
    program_kind(text, &[Instead::Gnomon]).ok_or_else(|| {
        "give 'tor', 'gnomon', or 'gnomon:' and a share of the relays, as gnomon:90%, or hosts, as gnomon:exit1,middle*".to_owned()
    })
}

fn client_kind(text: &str) -> Result<String, String> {
    program_kind(text, &[Instead::Gnomon, Instead::Arti]).ok_or_else(|| {
        "give 'tor', 'gnomon', 'arti', or one of the latter, a colon, and a share of the clients, as gnomon:90%, or hosts, as \
         arti:webclient1,perfclient*"
            .to_owned()
    })
}

/// 'tor', or one of these programs, with hosts behind it or not.
fn program_kind(text: &str, others: &[Instead]) -> Option<String> {
    let is_kind = text == "tor" || Replacement::read(text).is_some_and(|kind| others.contains(&kind.program));
    is_kind.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defences_are_what_a_relay_reads() {
        for (name, _, example) in DEFENCES {
            let text = format!("{name}={example}:middle1,exit1");
            assert_eq!(Takes::Defence.check(&text), Ok(text));
        }
        for good in [
            "NetworkReentry=auto",
            "ChannelCircuitRate=0.1",
            "DoSConnectionDefenseType=0",
            "HandshakeTimeout=0",
            "HandshakeTimeout=1.5",
            "DoSCircuitCreationDefenseTimePeriod=1 month",
            "HandshakeTimeout=1500 msec",
            "MaxRelayEarly=0",
            "PuzzleEffort=4294967295",
        ] {
            assert_eq!(Takes::Defence.check(good), Ok(good.to_owned()));
        }
        for (bad, expected) in [
            ("MaxRelayEarly=x", "MaxRelayEarly cannot be 'x': a whole number from 0 to 4294967295 belongs here"),
            ("MaxRelayEarly=-1", "such as MaxRelayEarly=8"),
            ("MaxHandshakes=4294967296", "a whole number"),
            ("PuzzleEffort=1.5", "a whole number"),
            ("NetworkReentry=2", "NetworkReentry cannot be '2': 0, 1 or auto belongs here"),
            ("DisableOOSCheck=", "0 or 1"),
            ("DisableOOSCheck=auto", "0 or 1"),
            ("DoSCircuitCreationRate=0.5", "a whole number"),
            ("DoSConnectionDefenseType=3", "1 (nothing) or 2 (refuse)"),
            ("ChannelCircuitRate=-1", "a number from 0 on"),
            ("ChannelCircuitBurst=nan", "a number from 0 on"),
            ("DoSCircuitCreationDefenseTimePeriod=1 year", "a number and a unit"),
            ("HandshakeTimeout=.", "a number and a unit"),
            ("HandshakeTimeout=18446744073709551615 weeks", "a number and a unit"),
            ("MaxRelayEarly", "is none of DoSCircuitCreationEnabled=1, "),
            ("MaxRelay=8", "is none of DoSCircuitCreationEnabled=1, "),
            ("MaxRelayEarly=8:", "behind the colon are hosts"),
        ] {
            let error = Takes::Defence.check(bad).expect_err(bad);
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }

    #[test]
    fn statistics_go_to_a_file_that_the_folder_has_not() {
        for good in ["statistics", "statistics:middle1", "relay-1.json"] {
            assert_eq!(Takes::Name.check(good), Ok(good.to_owned()));
        }
        for taken in ["torrc", "keys:middle1", "state", "cached-consensus", "eth0.pcap", "gnomon-relay.1000.stdout"] {
            let error = Takes::Name.check(taken).expect_err(taken);
            assert!(error.contains("has already"), "{taken}: {error}");
        }
        for bad in ["", ".", "..", ".hidden", "-x", "a/b", "../torrc"] {
            assert!(Takes::Name.check(bad).expect_err(bad).contains("a file's name"), "{bad}");
        }
    }

    #[test]
    fn rounds_of_an_attack_are_apart() {
        assert_eq!(pause("6 s"), Ok(SimDuration::from_secs(6)));
        assert!(pause("0s").is_err_and(|error| error.contains("above 0")) && pause("soon").is_err());
    }

    #[test]
    fn targets_have_a_port() {
        for good in ["server1:80", "10.0.0.1:65535", "[::1]:80"] {
            assert_eq!(target(good), Ok(good.to_owned()));
        }
        for bad in ["server1", "server1:", ":80", "server1:http", "server1:65536", "server1:0", "a b:80", ""] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
