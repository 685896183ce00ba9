//! The files and options that tor takes, line by line, and the kinds of values that several programs read.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

/// Files that include each other without end are given up at this depth, as tor does.
const DEEPEST: usize = 31;

/// A setting: a line of a file, or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// File and line, for messages.
    pub at: String,
    /// As it was written; tor takes any case.
    pub name: String,
    pub value: String,
}

/// A directory authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub name: String,
    /// Where it speaks HTTP.
    pub directory: SocketAddr,
    /// The port of its links, if the line says it.
    pub or_port: Option<u16>,
    /// SHA-1 of its RSA identity as a relay.
    pub fingerprint: Option<[u8; 20]>,
    /// SHA-1 of the key with which it signs its votes' keys.
    pub v3_identity: Option<[u8; 20]>,
}

/// Reads tor's arguments and the files that they name, in the order in which later ones win.
pub fn read(mut arguments: lexopt::Parser) -> Result<Vec<Line>, String> {
    use lexopt::prelude::*;
    let (mut defaults, mut file, mut given) = (None, None, Vec::new());
    let wrong = |error: lexopt::Error| error.to_string();
    while let Some(argument) = arguments.next().map_err(wrong)? {
        match argument {
            Long("defaults-torrc") => defaults = Some(PathBuf::from(arguments.value().map_err(wrong)?)),
            Short('f') => file = Some(PathBuf::from(arguments.value().map_err(wrong)?)),
            Long("hush" | "quiet") => {}
            Long(name) => {
                let name = name.to_owned();
                given.push((name, arguments.value().map_err(wrong)?.string().map_err(wrong)?));
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    let mut lines = Vec::new();
    for file in [defaults, file].into_iter().flatten() {
        let mut of_file = Vec::new();
        read_file(&file, 0, &mut of_file)?;
        put_before(&mut lines, of_file);
    }
    let given = given.into_iter().map(|(name, value)| Line { at: format!("--{name}"), name, value }).collect();
    put_before(&mut lines, given);
    Ok(lines)
}

/// Later lines stand in for all former ones of the same name, lists included, unless the name has a plus sign; a slash takes them away (tor(1)).
fn put_before(lines: &mut Vec<Line>, later: Vec<Line>) {
    let bare = |line: &Line| line.name.trim_start_matches(['+', '/']).to_ascii_lowercase();
    let replaced: BTreeSet<String> = later.iter().filter(|line| !line.name.starts_with('+')).map(bare).collect();
    lines.retain(|line| !replaced.contains(&line.name.to_ascii_lowercase()));
    let kept = later.into_iter().filter(|line| !line.name.starts_with('/'));
    lines.extend(kept.map(|line| Line { name: line.name.trim_start_matches('+').to_owned(), ..line }));
}

/// One of the options `own`, if `name`, which is none of them, was hardly meant to be anything else.
pub fn meant<'own>(name: &str, own: &[&'own str]) -> Option<&'own str> {
    const ERRORS: usize = 2;
    let name = name.to_ascii_lowercase();
    own.iter().copied().find(|own| distance(&name, &own.to_ascii_lowercase()) <= ERRORS)
}

/// How many letters to put in, to take out and to change lead from one name to the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, with) in other.bytes().enumerate() {
            let changed = before + usize::from(letter != with);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// `0` or `1`.
pub fn flag(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn read_file(path: &Path, depth: usize, lines: &mut Vec<Line>) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("{}: files include each other more than {DEEPEST} times", path.display()));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim().trim_matches('"').to_owned();
        match name {
            "" => {}
            "%include" => read_file(Path::new(&value), depth + 1, lines)?,
            _ => lines.push(Line { at: format!("{}:{}", path.display(), number + 1), name: name.to_owned(), value }),
        }
    }
    Ok(())
}

/// What a `DirAuthority` line says: `NAME [orport=PORT] [v3ident=HEX] ADDRESS:PORT FINGERPRINT`.
pub fn authority(value: &str) -> Option<Authority> {
    let mut words = value.split_whitespace();
    let name = words.next()?.to_owned();
    let (mut or_port, mut v3_identity) = (None, None);
    let directory = loop {
        let word = words.next()?;
        match word.split_once('=') {
            Some(("orport", port)) => or_port = port.parse().ok(),
            Some(("v3ident", text)) => v3_identity = fingerprint(text),
            Some(_) => {}
            None => break word.parse().ok()?,
        }
    };
    let rest: String = words.collect();
    Some(Authority { name, directory, or_port, fingerprint: fingerprint(&rest), v3_identity })
}

impl Authority {
    /// Where its links are; nothing if the line does not say the port.
    pub fn link_address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.directory.ip(), self.or_port?))
    }
}

/// Twenty bytes in hexadecimal digits, perhaps with `$` before them.
pub fn fingerprint(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix('$').unwrap_or(text);
    if digits.len() != 40 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 20];
    for (byte, place) in bytes.iter_mut().zip((0..40).step_by(2)) {
        *byte = u8::from_str_radix(&digits[place..place + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The longest span of time that tor takes, in milliseconds.
const LONGEST_MS: u64 = i32::MAX as u64 * 1000;

/// A span of time as tor writes it, in milliseconds: a number, which may have a fraction, and a unit, without which it counts seconds.
pub fn milliseconds(value: &str) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let number: f64 = value[..digits].parse().ok()?;
    let unit = value[digits..].trim().to_ascii_lowercase();
    let factor: u64 = match unit.trim_end_matches('s') {
        "msec" | "millisecond" => 1,
        "" | "sec" | "second" => 1000,
        "min" | "minute" => 60_000,
        "h" | "hour" => 3_600_000,
        "day" => 86_400_000,
        "week" => 7 * 86_400_000,
        // A twelfth of a year, as tor has it.
        "month" => 2_629_728_000,
        _ => return None,
    };
    let ms = number * factor as f64;
    (ms <= LONGEST_MS as f64).then_some(ms as u64)
}

/// `ADDRESS:PORT`, or a port of this host's own loopback address; flags behind it are left to tor. Nothing for port 0, which means
/// that there is none.
pub fn listener(value: &str) -> Option<Option<SocketAddrV4>> {
    let word = value.split_whitespace().next()?;
    let address = match word.split_once(':') {
        Some(_) => word.parse().ok()?,
        None => SocketAddrV4::new(Ipv4Addr::LOCALHOST, word.parse().ok()?),
    };
    Some(Some(address).filter(|address| address.port() != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_include_others_and_options_come_last() {
        let folder = tempfile::TempDir::new().unwrap();
        let (file, more) = (folder.path().join("torrc"), folder.path().join("more"));
        fs::write(&file, format!("%include {}\n\nNickname me # myself\n", more.display())).unwrap();
        fs::write(more, "ORPort 9001 IPv4Only\n").unwrap();
        let arguments = ["--hush".into(), "-f".into(), file.into_os_string(), "--SocksPort".into(), "0".into()];
        let lines = read(lexopt::Parser::from_args(arguments)).unwrap();
        let said: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.value.as_str())).collect();
        assert_eq!(said, [("ORPort", "9001 IPv4Only"), ("Nickname", "me"), ("SocksPort", "0")]);
        assert!(lines[1].at.ends_with("torrc:3") && lines[2].at == "--SocksPort", "{lines:?}");
    }

    #[test]
    fn a_torrc_stands_in_for_lists_of_the_defaults() {
        let folder = tempfile::TempDir::new().unwrap();
        let (defaults, file) = (folder.path().join("defaults"), folder.path().join("torrc"));
        fs::write(&defaults, "ExitPolicy accept *:*\nDirAuthority one\nContactInfo me\nLog notice\n").unwrap();
        fs::write(&file, "exitpolicy reject *:80\nexitpolicy accept *:*\n+DirAuthority two\n/Log\n").unwrap();
        let arguments = ["--defaults-torrc".into(), defaults.into_os_string(), "-f".into(), file.into_os_string()];
        let lines = read(lexopt::Parser::from_args(arguments)).unwrap();
        let said: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.value.as_str())).collect();
        let policy = [("exitpolicy", "reject *:80"), ("exitpolicy", "accept *:*"), ("DirAuthority", "two")];
        assert_eq!(said[..2], [("DirAuthority", "one"), ("ContactInfo", "me")]);
        assert_eq!(said[2..], policy);
    }

    #[test]
    fn files_that_include_each_other_are_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("torrc");
        fs::write(&file, format!("%include {}\n", file.display())).unwrap();
        let error = read(lexopt::Parser::from_args(["-f".into(), file.into_os_string()])).unwrap_err();
        assert!(error.contains("include each other"), "{error}");
    }

    #[test]
    fn authorities_are_read_with_what_they_say() {
        let identity = "0123456789abcdef0123456789ABCDEF01234567";
        let line = format!("one orport=9001 no-v2 v3ident={identity} 100.0.0.1:8080 {identity}");
        assert_eq!(authority(&line), None, "a flag of old tors is no address");
        let line = format!("one orport=9001 v3ident={identity} 100.0.0.1:8080 {}", spaced(identity));
        let read = authority(&line).unwrap();
        assert_eq!((read.name.as_str(), read.directory), ("one", "100.0.0.1:8080".parse().unwrap()));
        assert_eq!(read.link_address(), Some("100.0.0.1:9001".parse().unwrap()));
        let bytes = fingerprint(identity);
        assert!(bytes.is_some());
        assert_eq!((read.fingerprint, read.v3_identity), (bytes, bytes));
        let bare = authority("one 100.0.0.1:8080 AB CD").unwrap();
        assert_eq!((bare.fingerprint, bare.link_address()), (None, None));
    }

    fn spaced(text: &str) -> String {
        let fours: Vec<&str> = (0..text.len()).step_by(4).map(|place| &text[place..place + 4]).collect();
        fours.join(" ")
    }

    #[test]
    fn values_are_as_tor_has_them() {
        assert_eq!(milliseconds("10 minutes"), Some(600_000));
        assert_eq!(milliseconds("120"), Some(120_000));
        assert_eq!(milliseconds("1 msec"), Some(1));
        assert_eq!(milliseconds("1.5 minutes"), Some(90_000));
        assert_eq!(milliseconds("1 month"), Some(2_629_728_000));
        assert_eq!(["2 fortnights", ".", "1.2.3 days", "minutes"].map(milliseconds), [None; 4]);
        assert_eq!(milliseconds("18446744073709551615 msec"), None);
        assert_eq!((flag("1"), flag("0"), flag("no"), flag("")), (Some(true), Some(false), None, None));
        assert_eq!(meant("LinkDesing", &["ImuxTau", "LinkDesign"]), Some("LinkDesign"));
        assert_eq!(meant("attackcuont", &["AttackCount"]), Some("AttackCount"));
        assert_eq!(meant("ORPort", &["ImuxTau", "LinkDesign"]), None);
        assert_eq!(listener("127.0.0.1:9050 IsolateSOCKSAuth"), Some(Some("127.0.0.1:9050".parse().unwrap())));
        assert_eq!(listener("9050"), Some(Some("127.0.0.1:9050".parse().unwrap())));
        assert_eq!(listener("0"), Some(None));
        assert_eq!(listener("unix:/socket"), None);
    }
}
