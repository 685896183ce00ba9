//! Settings in the files and options that tor takes, of which a relay needs a few; the others are left to tor.

use crate::defence::{Defences, Rate};
use crate::design::imux::{Limits, TAU};
use crate::design::{By, CircuitScheduler, ConnectionScheduler, KistFormula, LinkDesign, Writing};
use crate::labels;
use crate::policy::Policy;
use onion::link::private::Label;
use onion_program::torrc::{Line, authority, flag, meant};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

pub use onion_program::torrc::Authority;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub nickname: String,
    pub address: Ipv4Addr,
    pub or_port: u16,
    pub data_directory: PathBuf,
    pub contact: String,
    /// Bytes per second, which the descriptor says.
    pub bandwidth_rate: u64,
    pub bandwidth_burst: u64,
    pub policy: Policy,
    pub authorities: Vec<Authority>,
    /// It tells nobody of itself if this is not so.
    pub publishes: bool,
    pub statistics: Option<PathBuf>,
    /// It passes questions to the directory on to an authority.
    pub is_directory: bool,
    pub design: LinkDesign,
    pub scheduler: CircuitScheduler,
    pub writing: Writing,
    /// Connections send without Nagle's rule (TCP_NODELAY), by which tor's send.
    pub no_delay: bool,
    /// Which of IMUX's connections takes a cell.
    pub connection_scheduler: ConnectionScheduler,
    pub imux: Limits,
    /// Which circuits IMUX counts, and which Torchestra takes for heavy.
    pub active_by: By,
    pub torchestra_by: By,
    /// What clients use their circuits for, by address.
    pub labels: BTreeMap<Ipv4Addr, Label>,
    pub defences: Defences,
    /// The system is asked for as many descriptors as ConnLimit says.
    pub wants_sockets: bool,
    /// AccountingMax was given, which is not heeded.
    pub has_accounting: bool,
    /// How long it goes on when it is asked to end in peace (ShutdownWaitLength).
    pub farewell_ms: u64,
}

impl Settings {
    /// Whether a channel of this design deals cells to its connections, and not circuits.
    pub fn deals_cells(&self, design: LinkDesign) -> bool {
        design == LinkDesign::Imux && self.connection_scheduler.is_by_cell()
    }
}

/// Options that tor does not have, for messages about those that are written nearly so.
const OWN_OPTIONS: [&str; 18] = [
    "LinkDesign",
    "ConnectionScheduler",
    "ImuxTau",
    "ImuxChannelConnections",
    "ImuxActive",
    "TorchestraHeavy",
    "ClientLabels",
    "CircuitScheduler",
    "KISTFormula",
    "TCPNoDelay",
    "StatisticsFile",
    "ChannelCircuitRate",
    "ChannelCircuitBurst",
    "NetworkReentry",
    "PuzzleEffort",
    "MaxRelayEarly",
    "HandshakeTimeout",
    "MaxHandshakes",
];

/// The longest nickname of tor's.
const LONGEST_NICKNAME: usize = 19;

/// What tor takes for `BandwidthRate` when nothing is said: 1 GByte.
const BANDWIDTH: u64 = 1 << 30;

/// Reads tor's arguments and the files that they name.
pub fn read(arguments: lexopt::Parser) -> Result<Settings, String> {
    settings(onion_program::torrc::read(arguments)?.into_iter())
}

fn settings(lines: impl Iterator<Item = Line>) -> Result<Settings, String> {
    let (mut nickname, mut address, mut or_port) = ("Unnamed".to_owned(), None, None);
    let mut settings = Settings {
        nickname: String::new(),
        address: Ipv4Addr::UNSPECIFIED,
        or_port: 0,
        data_directory: ".".into(),
        contact: String::new(),
        bandwidth_rate: BANDWIDTH,
        bandwidth_burst: BANDWIDTH,
        policy: Policy::default(),
        authorities: Vec::new(),
        publishes: true,
        statistics: None,
        is_directory: true,
        design: LinkDesign::default(),
        scheduler: CircuitScheduler::default(),
        writing: Writing::Vanilla,
        no_delay: false,
        connection_scheduler: ConnectionScheduler::default(),
        imux: Limits { conn_limit: open_files_limits().0, tau: TAU, per_channel: usize::MAX },
        active_by: By::Opened,
        torchestra_by: By::Label,
        labels: BTreeMap::new(),
        defences: Defences::default(),
        wants_sockets: false,
        has_accounting: false,
        farewell_ms: 30_000,
    };
    let (mut channel_rate, mut channel_burst) = (None, None);
    let (mut lets_out, mut has_policy) = (None, false);
    let (mut rejects_private, mut is_testing) = (None, false);
    let (mut is_kist, mut interval_ms, mut formula) = (true, None, KistFormula::default());
    for Line { at, name, value } in lines {
        let wrong = |what: &str| format!("{at}: {name} {value}: {what}");
        // Options have any case in tor.
        match name.to_ascii_lowercase().as_str() {
            "nickname" => {
                let fits = (1..=LONGEST_NICKNAME).contains(&value.len());
                if !fits || !value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    return Err(wrong("1 to 19 letters and digits are needed"));
                }
                nickname = value;
            }
            "address" => address = Some(value.parse().map_err(|_| wrong("an IPv4 address is needed"))?),
            "orport" => {
                let port = value.split_whitespace().next().unwrap_or_default();
                let port = port.rsplit(':').next().and_then(|port| port.parse().ok()).filter(|port| *port != 0);
                or_port = Some(port.ok_or_else(|| wrong("a port is needed"))?);
            }
            "datadirectory" => settings.data_directory = value.into(),
            "contactinfo" => settings.contact = value,
            "bandwidthrate" => settings.bandwidth_rate = rate(&value).ok_or_else(|| wrong("bytes are needed"))?,
            "bandwidthburst" => settings.bandwidth_burst = rate(&value).ok_or_else(|| wrong("bytes are needed"))?,
            "accountingmax" => {
                settings.has_accounting = bytes(&value).ok_or_else(|| wrong("bytes are needed"))? > 0;
            }
            "channelcircuitrate" => channel_rate = Some(per_second(&value).map_err(wrong)?),
            "channelcircuitburst" => channel_burst = Some((per_second(&value).map_err(wrong)?, wrong(""))),
            "exitpolicy" => {
                settings.policy.add(&value).map_err(|error| format!("{at}: {error}"))?;
                has_policy = true;
            }
            "exitrelay" if value == "auto" => lets_out = None,
            "exitrelay" => lets_out = Some(flag(&value).ok_or_else(|| wrong("0, 1 or auto"))?),
            "exitpolicyrejectprivate" => rejects_private = Some(flag(&value).ok_or_else(|| wrong("0 or 1"))?),
            "testingtornetwork" => is_testing = flag(&value).ok_or_else(|| wrong("0 or 1"))?,
            "shutdownwaitlength" => {
                settings.farewell_ms = onion_program::torrc::milliseconds(&value)
                    .ok_or_else(|| wrong("a time is needed, such as 10 seconds"))?;
            }
            "publishserverdescriptor" => settings.publishes = value != "0",
            "dircache" => settings.is_directory = flag(&value).ok_or_else(|| wrong("0 or 1"))?,
            "linkdesign" => {
                settings.design =
                    LinkDesign::read(&value).ok_or_else(|| wrong("vanilla, pctcp, pctcp-ipsec, torchestra or imux"))?
            }
            "connectionscheduler" => {
                settings.connection_scheduler = ConnectionScheduler::read(&value)
                    .ok_or_else(|| wrong("circuit-rr, cell-rr, ewma-mapping, shortest-queue or kist"))?;
            }
            "connlimit" => {
                let limit: usize =
                    value.parse().ok().filter(|limit| *limit >= LEAST_CONN_LIMIT).ok_or_else(|| wrong("32 or more"))?;
                // Tor wants as many at least; here there are no more.
                settings.imux.conn_limit = limit;
                settings.wants_sockets = true;
            }
            "imuxtau" => {
                settings.imux.tau =
                    value.parse().ok().filter(|tau| *tau > 0.0 && *tau <= 1.0).ok_or_else(|| wrong("0 to 1"))?;
            }
            "imuxchannelconnections" => {
                settings.imux.per_channel =
                    value.parse().ok().filter(|most| *most > 0).ok_or_else(|| wrong("a number of connections"))?;
            }
            "imuxactive" => settings.active_by = By::read(&value).ok_or_else(|| wrong("opened, ewma or label"))?,
            "torchestraheavy" => {
                settings.torchestra_by =
                    By::read(&value).filter(|by| *by != By::Opened).ok_or_else(|| wrong("ewma or label"))?;
            }
            "clientlabels" => {
                settings.labels = labels::read(Path::new(&value)).map_err(|error| format!("{at}: {name}: {error}"))?;
            }
            "circuitscheduler" => {
                settings.scheduler = CircuitScheduler::read(&value).ok_or_else(|| wrong("round-robin or ewma"))?;
            }
            "schedulers" => is_kist = is_kist_first(&value).ok_or_else(|| wrong("KIST or Vanilla is needed"))?,
            "kistschedruninterval" => {
                // 0 leaves it to the consensus, which is not read here, and that to the default.
                interval_ms = match milliseconds(&value) {
                    Some(0) => None,
                    Some(ms @ 2..=100) => Some(ms),
                    _ => return Err(wrong("2 to 100 msec are needed")),
                };
            }
            "tcpnodelay" => settings.no_delay = flag(&value).ok_or_else(|| wrong("0 or 1"))?,
            "kistformula" => formula = KistFormula::read(&value).ok_or_else(|| wrong("2014 or 2018"))?,
            "statisticsfile" => settings.statistics = Some(value.into()),
            "dirauthority" | "dirserver" => {
                settings.authorities.push(authority(&value).ok_or_else(|| wrong("NAME ... ADDRESS:PORT FINGERPRINT"))?);
            }
            known => {
                if !defence(&mut settings.defences, known, &value).map_err(wrong)?
                    && let Some(own) = meant(&name, &OWN_OPTIONS)
                {
                    return Err(format!("{at}: there is no option {name}: was {own} meant?"));
                }
            }
        }
    }
    settings.defences.of_relays = of_relays(channel_rate, channel_burst)?;
    let address = address.ok_or("Address is missing in the torrc")?;
    // As tor's `policies_parse_exit_policy_from_options`.
    if lets_out == Some(false) || (lets_out.is_none() && !has_policy) {
        settings.policy = Policy::default();
    } else {
        settings.policy.complete();
        if rejects_private.unwrap_or(!is_testing) {
            settings.policy.reject_private(address);
        }
    }
    if is_kist {
        let interval_ms = interval_ms.unwrap_or_else(|| formula.interval_ms());
        settings.writing = Writing::Kist { interval_ms, formula };
    }
    let or_port = or_port.ok_or("ORPort is missing in the torrc")?;
    if !settings.wants_sockets && settings.design != LinkDesign::Imux {
        // Like tor, use all descriptors that the hard limit allows. The shares of IMUX are computed from the soft limit.
        settings.imux.conn_limit = open_files_limits().1.saturating_sub(OTHER_DESCRIPTORS).max(LEAST_CONN_LIMIT);
        settings.wants_sockets = true;
    }
    Ok(Settings { nickname, address, or_port, ..settings })
}

/// A number per second, which need not be whole.
fn per_second(value: &str) -> Result<f64, &'static str> {
    value.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0).ok_or("a number is needed")
}

/// What ChannelCircuitRate and ChannelCircuitBurst come to, in whichever order they are given; the burst with its line.
fn of_relays(rate: Option<f64>, burst: Option<(f64, String)>) -> Result<Option<Rate>, String> {
    match (rate, burst) {
        // Without a rate the burst would be all that there ever is.
        (None, Some((_, line))) => {
            Err(format!("{line}a burst is of a rate: give ChannelCircuitRate too, such as ChannelCircuitRate 5"))
        }
        (Some(per_s), burst) if per_s > 0.0 => {
            let burst = burst.map_or(per_s, |(burst, _)| burst);
            Ok(Some(Rate { per_s, burst: burst.max(1.0) }))
        }
        _ => Ok(None),
    }
}

/// An option that defends; whether it is one. The error says what is needed.
fn defence(defences: &mut Defences, name: &str, value: &str) -> Result<bool, &'static str> {
    let number = || value.parse::<u32>().map_err(|_| "a number is needed");
    let time = || onion_program::torrc::milliseconds(value).ok_or("a time is needed, such as 10 seconds");
    let switch = || match (flag(value), value) {
        (None, "auto") => Ok(None),
        (None, _) => Err("0, 1 or auto"),
        (known, _) => Ok(known),
    };
    let defence_type =
        || number().ok().filter(|number| *number <= 2).ok_or("0 (as the consensus says), 1 (nothing) or 2 (refuse)");
    let (circuits, connections) = (&mut defences.circuits, &mut defences.connections);
    match name {
        "doscircuitcreationenabled" => defences.circuits_enabled = switch()?,
        "doscircuitcreationminconnections" => circuits.least_connections = number()?,
        "doscircuitcreationrate" => circuits.rate = number()?,
        "doscircuitcreationburst" => circuits.burst = number()?,
        "doscircuitcreationdefensetype" => circuits.defence_type = defence_type()?,
        "doscircuitcreationdefensetimeperiod" => circuits.period_ms = time()?,
        "dosconnectionenabled" => defences.connections_enabled = switch()?,
        "dosconnectionmaxconcurrentcount" => connections.most = number()?,
        "dosconnectiondefensetype" => connections.defence_type = defence_type()?,
        "dosconnectionconnectrate" => connections.rate = number()?,
        "dosconnectionconnectburst" => connections.burst = number()?,
        "dosconnectionconnectdefensetimeperiod" => connections.period_ms = time()?,
        "networkreentry" => defences.reentry = switch()?,
        "relaysfirst" => defences.relays_first = flag(value).ok_or("0 or 1")?,
        "disableooscheck" => defences.closes_idle = !flag(value).ok_or("0 or 1")?,
        "puzzleeffort" => defences.puzzle_effort = number()?,
        "maxrelayearly" => defences.relay_early = Some(number()?).filter(|most| *most > 0),
        "handshaketimeout" => defences.handshake_ms = Some(time()?).filter(|ms| *ms > 0),
        "maxhandshakes" => defences.handshakes = Some(number()? as usize).filter(|most| *most > 0),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Descriptors that are no sockets of others: files, epoll, standard streams.
pub const OTHER_DESCRIPTORS: usize = 32;
const LEAST_CONN_LIMIT: usize = 32;

/// Files that this process may have open, and may have when it asks, as the system says; tor's 15,000 where it does not.
fn open_files_limits() -> (usize, usize) {
    const UNKNOWN: usize = 15_000;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|number| number.parse().unwrap_or(UNKNOWN));
    let soft = numbers.next().unwrap_or(UNKNOWN);
    (soft, numbers.next().unwrap_or(soft))
}

/// Whether KIST comes first in tor's list of what to use; KISTLite, KIST without the kernel, is passed over.
fn is_kist_first(list: &str) -> Option<bool> {
    list.split(',').find_map(|name| match name.trim().to_ascii_lowercase().as_str() {
        "kist" => Some(true),
        "vanilla" => Some(false),
        _ => None,
    })
}

/// A number, with or without `msec`.
fn milliseconds(value: &str) -> Option<u64> {
    value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ').parse().ok().filter(|_| {
        matches!(
            value.trim_start_matches(|c: char| c.is_ascii_digit()).trim(),
            "" | "msec" | "millisecond" | "milliseconds"
        )
    })
}

/// Bytes per second that a relay can have: some.
fn rate(value: &str) -> Option<u64> {
    bytes(value).filter(|bytes| *bytes > 0)
}

/// A number, which may have a fraction, and tor's names for multiples of bytes and bits.
fn bytes(value: &str) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let number: f64 = value[..digits].parse().ok()?;
    let unit = value[digits..].trim().to_ascii_lowercase();
    let (unit, divisor) = if unit.ends_with("bit") || unit.ends_with("bits") {
        (unit.trim_end_matches('s').trim_end_matches("bit"), 8)
    } else {
        (unit.trim_end_matches('s').trim_end_matches("byte"), 1)
    };
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    let bytes = number * (1_u64 << shift) as f64 / f64::from(divisor);
    (bytes < (1_u64 << 53) as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Settings, String> {
        let folder = tempfile::TempDir::new().unwrap();
        let (file, more) = (folder.path().join("torrc"), folder.path().join("more"));
        fs::write(&file, format!("%include {}\n{text}", more.display())).unwrap();
        fs::write(more, "ORPort 9001 IPv4Only\nContactInfo somebody # a remark\n").unwrap();
        read(lexopt::Parser::from_args(["-f".into(), file.into_os_string(), "--Nickname".into(), "me".into()]))
    }

    #[test]
    fn sockets_are_as_many_as_there_may_be_but_for_imux() {
        let limit = |text: &str| {
            let settings = read_text(&format!("Address 20.0.0.1\n{text}")).unwrap();
            (settings.imux.conn_limit, settings.wants_sockets)
        };
        let (soft, hard) = open_files_limits();
        assert!(soft <= hard);
        assert_eq!(limit(""), ((hard - OTHER_DESCRIPTORS).max(LEAST_CONN_LIMIT), true));
        assert_eq!(limit("LinkDesign imux"), (soft, false));
        assert_eq!(limit("LinkDesign imux\nConnLimit 64"), (64, true));
    }

    #[test]
    fn files_of_tor_are_read() {
        let settings = read_text(
            "address 20.0.0.1\nBandwidthRate 10 MBytes\nBandwidthBurst 80 KBits\nSchedulers KIST\nKISTSchedRunInterval 7 msec\nExitRelay 1\nExitPolicy accept *:80\n\
             DirAuthority one orport=9001 v3ident=AB 100.0.0.1:8080 CD EF\n",
        )
        .unwrap();
        assert_eq!((settings.nickname.as_str(), settings.or_port), ("me", 9001));
        assert_eq!((settings.bandwidth_rate, settings.bandwidth_burst), (10 << 20, 10 << 10));
        assert_eq!(settings.contact, "somebody");
        assert!(settings.policy.is_exit());
        assert_eq!(settings.writing, Writing::Kist { interval_ms: 7, formula: KistFormula::Of2018 });
        let vanilla = read_text("Address 20.0.0.1\nSchedulers KISTLite, vanilla,KIST\n").unwrap();
        assert_eq!(vanilla.writing, Writing::Vanilla);
        let usual = read_text("Address 20.0.0.1\n").unwrap();
        assert_eq!(usual.writing, Writing::Kist { interval_ms: 2, formula: KistFormula::Of2018 });
        let first = read_text("Address 20.0.0.1\nKISTFormula 2014\n").unwrap();
        assert_eq!(first.writing, Writing::Kist { interval_ms: 10, formula: KistFormula::Of2014 });
        let found: Vec<_> = settings.authorities.iter().map(|one| (one.name.as_str(), one.directory)).collect();
        assert_eq!(found, [("one", "100.0.0.1:8080".parse().unwrap())]);
    }

    #[test]
    fn exit_policies_end_with_the_usual_one() {
        let policy = |text: &str| read_text(&format!("Address 20.0.0.1\n{text}\n")).unwrap().policy;
        let web = Ipv4Addr::new(60, 0, 0, 1);
        for (text, web_is_accepted, mail_is_accepted) in [
            ("", false, false),
            ("ExitRelay 1", true, false),
            ("ExitPolicy reject *:25", true, false),
            ("ExitRelay 1\nExitPolicy accept *:25", true, true),
            ("ExitRelay 0\nExitPolicy accept *:*", false, false),
            ("ExitPolicy accept *:25, reject *:*", false, true),
            ("ExitRelay auto\nExitPolicy accept *:*", true, true),
        ] {
            let policy = policy(text);
            assert_eq!(
                (policy.accepts(web, 80), policy.accepts(web, 25)),
                (web_is_accepted, mail_is_accepted),
                "{text}"
            );
        }
    }

    #[test]
    fn private_networks_are_rejected_unless_it_is_said_otherwise() {
        for (text, is_accepted) in [
            ("", false),
            ("ExitPolicyRejectPrivate 0", true),
            ("TestingTorNetwork 1", true),
            ("ExitPolicyRejectPrivate 1\nTestingTorNetwork 1", false),
        ] {
            let text = format!("Address 20.0.0.1\nExitPolicy accept *:*\n{text}\n");
            let policy = read_text(&text).unwrap().policy;
            assert_eq!(policy.accepts(Ipv4Addr::new(10, 0, 0, 1), 80), is_accepted, "{text}");
        }
    }

    #[test]
    fn a_burst_may_stand_before_its_rate() {
        let read = |text: &str| read_text(&format!("Address 20.0.0.1\n{text}\n")).unwrap().defences.of_relays;
        assert_eq!(read("ChannelCircuitBurst 5\nChannelCircuitRate 0"), None, "any number");
        assert_eq!(read("ChannelCircuitRate 0\nChannelCircuitBurst 5"), None);
        assert_eq!(read("ChannelCircuitRate 0.5"), Some(Rate { per_s: 0.5, burst: 1.0 }));
        let both = Some(Rate { per_s: 10.0, burst: 5.0 });
        assert_eq!(read("ChannelCircuitRate 10\nChannelCircuitBurst 5"), both);
        assert_eq!(read("ChannelCircuitBurst 5\nChannelCircuitRate 10"), both);
        assert_eq!(read_text("Address 20.0.0.1\nBandwidthRate 1.5 MB\n").unwrap().bandwidth_rate, 3 << 19);
    }

    #[test]
    fn limits_that_are_0_are_left_to_the_consensus_and_hibernation_to_nobody() {
        let read = |text: &str| read_text(&format!("Address 20.0.0.1\n{text}\n")).unwrap();
        let zeros = "DoSCircuitCreationRate 0\nDoSConnectionDefenseType 0\nDoSConnectionMaxConcurrentCount 0";
        assert_eq!(read(zeros).defences, Defences::default());
        let some = read("DoSConnectionMaxConcurrentCount 5\nDoSCircuitCreationDefenseTimePeriod 1.5 minutes").defences;
        assert_eq!((some.connections.most, some.circuits.period_ms), (5, 90_000));
        assert_eq!(["0", "1 GB"].map(|most| read(&format!("AccountingMax {most}")).has_accounting), [false, true]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        for (text, message) in [
            ("Address here", ":2: Address here: an IPv4 address is needed"),
            ("\nORPort none", ":3: ORPort none: a port is needed"),
            ("ExitPolicy allow *:*", ":2: 'allow *:*': a rule begins with accept or reject"),
            ("BandwidthRate much", ":2: BandwidthRate much: bytes are needed"),
            (
                "ChannelCircuitBurst 20",
                ":2: ChannelCircuitBurst 20: a burst is of a rate: give ChannelCircuitRate too, such as ChannelCircuitRate 5",
            ),
            ("DisableOOSCheck auto", ":2: DisableOOSCheck auto: 0 or 1"),
            ("RelaysFirst 2", ":2: RelaysFirst 2: 0 or 1"),
            ("DoSCircuitCreationRate 0.5", ":2: DoSCircuitCreationRate 0.5: a number is needed"),
            (
                "DoSConnectionDefenseType 3",
                ":2: DoSConnectionDefenseType 3: 0 (as the consensus says), 1 (nothing) or 2 (refuse)",
            ),
            ("AccountingMax much", ":2: AccountingMax much: bytes are needed"),
            ("MaxRelayErly 4", ":2: there is no option MaxRelayErly: was MaxRelayEarly meant?"),
            ("BandwidthRate 0", ":2: BandwidthRate 0: bytes are needed"),
            ("ExitRelay no", ":2: ExitRelay no: 0, 1 or auto"),
            ("DirCache yes", ":2: DirCache yes: 0 or 1"),
            ("TCPNoDelay false", ":2: TCPNoDelay false: 0 or 1"),
            ("LinkDesing imux", ":2: there is no option LinkDesing: was LinkDesign meant?"),
            ("HandshakeTimeout 18446744073709551615 msec", "a time is needed, such as 10 seconds"),
            ("Schedulers fast", ":2: Schedulers fast: KIST or Vanilla is needed"),
            ("KISTSchedRunInterval 1 s", ":2: KISTSchedRunInterval 1 s: 2 to 100 msec are needed"),
            ("KISTFormula 2020", ":2: KISTFormula 2020: 2014 or 2018"),
            ("KISTSchedRunInterval 101", ":2: KISTSchedRunInterval 101: 2 to 100 msec are needed"),
            ("", "Address is missing in the torrc"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.ends_with(message), "{error}");
        }
        for name in ["", "guard_1", "guard 1", "a2345678901234567890"] {
            let line = Line { at: "torrc:1".into(), name: "Nickname".into(), value: name.into() };
            let error = settings([line].into_iter()).unwrap_err();
            assert_eq!(error, format!("torrc:1: Nickname {name}: 1 to 19 letters and digits are needed"));
        }
    }
}
