//! oniontrace's log: the asynchronous replies of tor's control port, each behind the moment when it came.
//!
//! "DATE TIME UNIX [message] [function] Logger: 650 CIRC 12 BUILT PATH PURPOSE=GENERAL TIME_CREATED=..." (control-spec 4.1.1)
//! and "... 650 BW READ WRITTEN" (4.1.6). As in oniontracetools, a circuit that is BUILT a second time was taken over for an
//! onion service, and its time from creation is no build time.

use super::clock;
use super::lines::{Verdict, for_each_line};
use super::{HostFacts, Names, nickname};
use crate::bins::Bins;
use crate::run::{Circuit, TorLog};
use base::StartDate;
use std::collections::BTreeSet;
use std::path::Path;

/// Reads one log.
pub fn read(path: &Path, name: &str, facts: &mut HostFacts) {
    let mut names = Names::default();
    let mut built = BTreeSet::new();
    let mut bootstrapped_s = None;
    let damage = for_each_line(path, name, |line| {
        let Ok(line) = std::str::from_utf8(line) else { return Verdict::Broken("not text") };
        if let Some((head, event)) = line.split_once(" 650 ") {
            let Some(at_s) = moment(facts.start, head) else { return Verdict::Broken("an event without its time") };
            return take_event(at_s, event, facts, &mut names, &mut built);
        }
        if bootstrapped_s.is_none() && line.contains("Bootstrapped 100") {
            bootstrapped_s = moment(facts.start, line);
        }
        Verdict::Fine
    });
    facts.damage.extend(damage);
    facts.watches_circuits = true;
    if let Some(at_s) = bootstrapped_s {
        let host = facts.host.to_string();
        facts.watched_tor = Some(TorLog { host, bootstrapped_s: Some(at_s), percent: 100, ..TorLog::default() });
    }
}

/// The third word: a Unix time.
fn moment(start: StartDate, line: &str) -> Option<f64> {
    line.split_ascii_whitespace().nth(2)?.parse().ok().map(|unix_s| clock::from_unix(start, unix_s))
}

fn take_event(
    at_s: f64,
    event: &str,
    facts: &mut HostFacts,
    names: &mut Names,
    built: &mut BTreeSet<String>,
) -> Verdict {
    let mut words = event.split_ascii_whitespace();
    match words.next() {
        Some("BW") => {
            let (Some(Ok(_)), Some(Ok(written))) =
                (words.next().map(str::parse::<u64>), words.next().map(str::parse::<u64>))
            else {
                return Verdict::Broken("a BW event without two numbers");
            };
            // The event tells of the second before it.
            let bins = facts.control_port_written.get_or_insert_with(|| Bins::new(1.0));
            bins.add(at_s - 0.5, written as f64);
            Verdict::Fine
        }
        Some("CIRC") => match (words.next(), words.next()) {
            (Some(id), Some(status @ ("BUILT" | "FAILED"))) => {
                if !built.insert(id.to_owned()) {
                    return Verdict::Fine;
                }
                let Some(created_s) = option(event, "TIME_CREATED").and_then(|text| clock::from_iso(facts.start, text))
                else {
                    return Verdict::Broken("a circuit without its time of creation");
                };
                let is_built = status == "BUILT";
                facts.circuits.push(Circuit {
                    at_s: created_s,
                    build_s: is_built.then(|| ((at_s - created_s) * 1e6).round() / 1e6),
                    purpose: names.get(option(event, "PURPOSE").unwrap_or("")),
                    path: words
                        .next()
                        .map_or_else(Vec::new, |path| path.split(',').map(|hop| nickname(hop, names)).collect()),
                    is_of_many: false,
                    error: (!is_built).then(|| names.get(option(event, "REASON").unwrap_or("UNKNOWN"))),
                });
                Verdict::Fine
            }
            (Some(_), Some(_)) => Verdict::Fine,
            _ => Verdict::Broken("a CIRC event without its status"),
        },
        _ => Verdict::Fine,
    }
}

/// The value of a keyword argument.
fn option<'a>(event: &'a str, key: &str) -> Option<&'a str> {
    event.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "[message] [_oniontracelogger_logControlLine] Logger:";

    fn read_text(text: &str) -> HostFacts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oniontrace.1001.stdout");
        std::fs::write(&path, text).unwrap();
        let mut facts = HostFacts::new("relay1");
        read(&path, "hosts/relay1/oniontrace.1001.stdout", &mut facts);
        facts
    }

    #[test]
    fn build_times_are_from_creation_to_built() {
        let facts = read_text(&format!(
            "2000-01-01 00:05:00 946685100.000100 {PREFIX} 650 CIRC 4 LAUNCHED BUILD_FLAGS=NEED_CAPACITY PURPOSE=GENERAL TIME_CREATED=2000-01-01T00:05:00.000100\n\
             2000-01-01 00:05:01 946685101.250100 {PREFIX} 650 CIRC 4 BUILT $AA~r1,$BB~r2,$CC~r3 BUILD_FLAGS=NEED_CAPACITY PURPOSE=GENERAL TIME_CREATED=2000-01-01T00:05:00.000100\n\
             2000-01-01 00:06:00 946685160.000000 {PREFIX} 650 CIRC 4 BUILT $AA~r1,$BB~r2,$CC~r3 PURPOSE=HS_CLIENT_REND TIME_CREATED=2000-01-01T00:05:00.000100\n\
             2000-01-01 00:05:09 946685109.000000 {PREFIX} 650 CIRC 5 FAILED $AA~r1 PURPOSE=GENERAL TIME_CREATED=2000-01-01T00:05:03.000000 REASON=TIMEOUT\n\
             2000-01-01 00:05:10 946685110.000000 {PREFIX} 650 CIRC 4 CLOSED\n"
        ));
        assert!(facts.damage.is_empty(), "{:?}", facts.damage);
        let [built, failed] = facts.circuits.as_slice() else { panic!("{:?}", facts.circuits) };
        assert_eq!((built.build_s, &*built.purpose, built.error.as_deref()), (Some(1.25), "GENERAL", None));
        assert_eq!((failed.build_s, failed.error.as_deref(), failed.at_s), (None, Some("TIMEOUT"), 303.0));
    }

    #[test]
    fn bandwidth_belongs_to_the_second_before() {
        let facts = read_text(&format!(
            "2000-01-01 00:00:02 946684802.000000 {PREFIX} 650 BW 100 200\n2000-01-01 00:00:03 946684803.000000 {PREFIX} 650 BW 1 3\n"
        ));
        assert_eq!(facts.control_port_written.unwrap().sums(), [0.0, 200.0, 3.0]);
    }

    #[test]
    fn broken_events_are_counted() {
        let facts = read_text(&format!(
            "2000-01-01 00:00:02 946684802.000000 {PREFIX} 650 BW 100\n2000-01-01 00:00:03 946684803.0 {PREFIX} 650 CIRC 9 BUILT $A PURPOSE=GENERAL\nStarting\nx {PREFIX} 650 BW 1 2\n"
        ));
        assert_eq!(facts.damage[0].lines, 3);
        assert!(facts.circuits.is_empty());
    }
}
