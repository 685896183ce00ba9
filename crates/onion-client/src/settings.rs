//! Settings in the files and options that tor takes, of which a client needs a few; the others are left to tor.

use crate::attack::{Attack, Kind};
use onion_program::torrc::{Authority, Line, authority, flag, listener, meant, milliseconds};
use std::net::SocketAddrV4;
use std::ops::RangeInclusive;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where programs come to; none for attackers that need none.
    pub socks: Option<SocketAddrV4>,
    pub data_directory: PathBuf,
    /// Whose consensus counts, and who is asked first.
    pub authorities: Vec<Authority>,
    /// One guard for all circuits, or any for each.
    pub keeps_guards: bool,
    /// How long after its first stream a circuit takes others.
    pub dirtiness_ms: u64,
    /// No two relays of a /16 in one circuit.
    pub distinct_subnets: bool,
    /// How long a program waits for its stream.
    pub socks_timeout_ms: u64,
    /// How long an exit may take to answer, if tor's own steps are not to count.
    pub stream_timeout_ms: Option<u64>,
    /// How long a circuit may take to be built.
    pub build_timeout_ms: u64,
    /// Circuits that are built at a time.
    pub most_pending: usize,
    /// Connections to relays go through it.
    pub proxy: Option<SocketAddrV4>,
    pub attack: Option<Attack>,
    /// What circuits must have cost, by the relays that ask for it; no names for all.
    pub puzzles: Vec<(u32, Vec<String>)>,
    /// Attempts at a puzzle per second.
    pub puzzle_rate: u64,
}

impl Settings {
    /// What a relay asks for; the last that concerns it counts.
    pub fn puzzle_of(&self, nickname: &str) -> u32 {
        let concerns =
            |(_, relays): &&(u32, Vec<String>)| relays.is_empty() || relays.iter().any(|name| name == nickname);
        self.puzzles.iter().rev().find(concerns).map_or(0, |(effort, _)| *effort)
    }
}

impl Default for Settings {
    /// As tor without a torrc; `build_timeout_ms` as tor has it before it has learned another.
    fn default() -> Settings {
        Settings {
            socks: Some(SocketAddrV4::new([127, 0, 0, 1].into(), 9050)),
            data_directory: ".".into(),
            authorities: Vec::new(),
            keeps_guards: true,
            dirtiness_ms: 600_000,
            distinct_subnets: true,
            socks_timeout_ms: 120_000,
            stream_timeout_ms: None,
            build_timeout_ms: 60_000,
            most_pending: 32,
            proxy: None,
            attack: None,
            puzzles: Vec::new(),
            puzzle_rate: 1_000_000,
        }
    }
}

/// Reads tor's arguments and the files that they name.
pub fn read(arguments: lexopt::Parser) -> Result<Settings, String> {
    let mut settings = Settings::default();
    let mut attack = Attack::default();
    let mut kind = None;
    for line in onion_program::torrc::read(arguments)? {
        take(&mut settings, &mut attack, &mut kind, &line)?;
    }
    if settings.authorities.is_empty() {
        return Err("no DirAuthority in the torrc: this client knows no network by itself".to_owned());
    }
    for authority in &settings.authorities {
        if authority.link_address().is_none() || authority.fingerprint.is_none() || authority.v3_identity.is_none() {
            return Err(format!(
                "DirAuthority {}: orport=, v3ident= and a fingerprint of 40 digits are needed",
                authority.name
            ));
        }
    }
    settings.attack = kind.map(|kind| Attack { kind, ..attack }).map(Attack::checked).transpose()?;
    Ok(settings)
}

/// Options that tor does not have, for messages about those that are written nearly so.
const OWN_OPTIONS: [&str; 10] = [
    "Attack",
    "AttackVictim",
    "AttackCount",
    "AttackEvery",
    "AttackStart",
    "AttackStop",
    "AttackTarget",
    "AttackHops",
    "PuzzleEffort",
    "PuzzleRate",
];

/// Circuits that may be built at a time (tor's `MAX_MAX_CLIENT_CIRCUITS_PENDING`), that an attack may begin each time, and the hops of each.
const PENDING: RangeInclusive<usize> = 1..=1024;
const COUNT: RangeInclusive<usize> = 1..=1_000_000;
const HOPS: RangeInclusive<usize> = 2..=64;

fn take(settings: &mut Settings, attack: &mut Attack, kind: &mut Option<Kind>, line: &Line) -> Result<(), String> {
    let Line { at, name, value } = line;
    let wrong = |what: &str| format!("{at}: {name} {value}: {what}");
    let time = || milliseconds(value).ok_or_else(|| wrong("a time is needed, such as 10 seconds"));
    let number = || value.parse::<u64>().map_err(|_| wrong("a number is needed"));
    let within = |range: RangeInclusive<usize>| {
        let needed = || wrong(&format!("{} to {} are possible", range.start(), range.end()));
        value.parse().ok().filter(|number| range.contains(number)).ok_or_else(needed)
    };
    // With `auto` the consensus decides, which is not asked.
    let choice = |usual: bool| match value.as_str() {
        "auto" => Ok(usual),
        _ => flag(value).ok_or_else(|| wrong("0, 1 or auto")),
    };
    let address = || listener(value).ok_or_else(|| wrong("ADDRESS:PORT is needed, IPv4"));
    match name.to_ascii_lowercase().as_str() {
        "socksport" => settings.socks = address()?,
        "socks5proxy" => settings.proxy = address()?,
        "datadirectory" => settings.data_directory = value.into(),
        "dirauthority" | "dirserver" => {
            settings.authorities.push(authority(value).ok_or_else(|| wrong("NAME ... ADDRESS:PORT FINGERPRINT"))?);
        }
        "useentryguards" => settings.keeps_guards = choice(true)?,
        "maxcircuitdirtiness" => settings.dirtiness_ms = time()?,
        "enforcedistinctsubnets" => settings.distinct_subnets = choice(true)?,
        "sockstimeout" => settings.socks_timeout_ms = time()?,
        "circuitstreamtimeout" => settings.stream_timeout_ms = Some(time()?).filter(|ms| *ms > 0),
        "circuitbuildtimeout" => settings.build_timeout_ms = time()?.max(1),
        "maxclientcircuitspending" => settings.most_pending = within(PENDING)?,
        "attack" => {
            *kind = Some(Kind::read(value).ok_or_else(|| wrong("circuits, sybils, streams, active or handshakes"))?)
        }
        "attackvictim" => attack.victim = value.clone(),
        "attackcount" => attack.count = within(COUNT)?,
        "attackevery" => attack.every_ms = time()?.max(1),
        "attackstart" => attack.start_ms = time()?,
        "attackstop" => attack.stop_ms = time()?,
        "attacktarget" => attack.target = value.clone(),
        "attackhops" => attack.hops = within(HOPS)?,
        "puzzleeffort" => {
            let (effort, relays) = value.split_once(':').unwrap_or((value, ""));
            let effort = effort.parse().map_err(|_| wrong("an effort is needed, or EFFORT:RELAY,RELAY..."))?;
            let relays = relays.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            settings.puzzles.push((effort, relays));
        }
        "puzzlerate" => settings.puzzle_rate = number()?.max(1),
        _ => {
            if let Some(own) = meant(name, &OWN_OPTIONS) {
                return Err(format!("{at}: there is no option {name}: was {own} meant?"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const AUTHORITY: &str = "DirAuthority one orport=9001 v3ident=0101010101010101010101010101010101010101 100.0.0.1:8080 \
                             0202020202020202020202020202020202020202\n";

    fn read_text(text: &str) -> Result<Settings, String> {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("torrc");
        fs::write(&file, text).unwrap();
        read(lexopt::Parser::from_args(["-f".into(), file.into_os_string()]))
    }

    #[test]
    fn what_counts_for_a_client_is_read() {
        let text = "SocksPort 127.0.0.1:9150\nMaxCircuitDirtiness 10 seconds\nUseEntryGuards 0\nEnforceDistinctSubnets 0\n\
                    CircuitStreamTimeout 120\nORPort 9001\n";
        let settings = read_text(&(AUTHORITY.to_owned() + text)).unwrap();
        assert_eq!(settings.socks, Some("127.0.0.1:9150".parse().unwrap()));
        assert_eq!((settings.dirtiness_ms, settings.stream_timeout_ms), (10_000, Some(120_000)));
        assert!(!settings.keeps_guards && !settings.distinct_subnets && settings.attack.is_none());
        assert_eq!(settings.authorities[0].fingerprint, Some([2; 20]));
    }

    #[test]
    fn attacks_are_options_too() {
        let text = "Attack circuits\nAttackVictim middle1\nAttackCount 10\nAttackEvery 6\nAttackStart 30 minutes\n\
                    AttackStop 1 hour\n";
        let attack = read_text(&(AUTHORITY.to_owned() + text)).unwrap().attack.unwrap();
        assert_eq!((attack.kind, attack.count, attack.every_ms), (Kind::Circuits, 10, 6000));
        assert_eq!((attack.start_ms, attack.stop_ms, attack.victim.as_str()), (1_800_000, 3_600_000, "middle1"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, message) in [
            ("SocksPort here", ":2: SocksPort here: ADDRESS:PORT is needed, IPv4"),
            ("MaxCircuitDirtiness long", ":2: MaxCircuitDirtiness long: a time is needed, such as 10 seconds"),
            ("Attack people", ":2: Attack people: circuits, sybils, streams, active or handshakes"),
            ("MaxClientCircuitsPending 0", "1 to 1024 are possible"),
            ("AttackHops 99999999999", "2 to 64 are possible"),
            ("AttackHops 1", "2 to 64 are possible"),
            ("AttackCount 0", "1 to 1000000 are possible"),
            ("AttackCuont 1", ":2: there is no option AttackCuont: was AttackCount meant?"),
            ("UseEntryGuards no", "0, 1 or auto"),
            ("Attack circuits", "AttackVictim is missing: the nickname or fingerprint of a relay"),
            ("DirAuthority two 1.2.3.4:80 AB", "orport=, v3ident= and a fingerprint of 40 digits are needed"),
        ] {
            let error = read_text(&(AUTHORITY.to_owned() + text)).unwrap_err();
            assert!(error.ends_with(message), "{error}");
        }
        assert!(read_text("").unwrap_err().contains("no DirAuthority"));
    }
}
