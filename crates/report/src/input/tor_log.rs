//! tor's log: how far bootstrapping is, and what tor warns of.
//!
//! Lines are "Jan 01 00:16:40.000 [notice] Bootstrapped 100% (done): Done".

use super::HostFacts;
use super::lines::{Verdict, for_each_line};
use crate::run::TorLog;
use base::StartDate;
use std::path::Path;

/// How many different warnings one tor may have; later ones count together.
const MOST_WARNINGS: usize = 50;
const OTHER_WARNINGS: &str = "(other warnings)";

/// Reads one log.
pub fn read(path: &Path, name: &str, facts: &mut HostFacts) {
    let mut log = TorLog { host: facts.host.to_string(), ..TorLog::default() };
    let damage = for_each_line(path, name, |line| match std::str::from_utf8(line) {
        Ok(line) => take(line, facts.start, &mut log),
        Err(_) => Verdict::Broken("not text"),
    });
    facts.damage.extend(damage);
    facts.tors.push(log);
}

fn take(line: &str, start: StartDate, log: &mut TorLog) -> Verdict {
    let Some((time, rest)) = line.split_once(" [") else { return Verdict::Fine };
    let Some((level, text)) = rest.split_once("] ") else { return Verdict::Fine };
    match level {
        "notice" => match text.strip_prefix("Bootstrapped ") {
            Some(progress) => take_progress(time, progress, start, log),
            None => Verdict::Fine,
        },
        "warn" | "err" => {
            let text = general_form(text);
            let is_new = !log.warnings.contains_key(&text);
            let key = if is_new && log.warnings.len() >= MOST_WARNINGS { OTHER_WARNINGS.to_owned() } else { text };
            *log.warnings.entry(key).or_insert(0) += 1;
            Verdict::Fine
        }
        _ => Verdict::Fine,
    }
}

/// "45% (requesting_descriptors): Asking for relay descriptors".
fn take_progress(time: &str, progress: &str, start: StartDate, log: &mut TorLog) -> Verdict {
    let percent = progress.split_once('%').and_then(|(percent, _)| percent.parse().ok());
    let (Some(percent), Some(at_s)) = (percent, start.since(time)) else {
        return Verdict::Broken("a bootstrap message without percentage or time");
    };
    log.percent = percent;
    if percent == 100 && log.bootstrapped_s.is_none() {
        log.bootstrapped_s = Some(at_s);
    }
    Verdict::Fine
}

/// Warnings that differ in numbers, fingerprints and addresses only are the same: every word with a digit becomes "…".
fn general_form(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.bytes().any(|byte| byte.is_ascii_digit()) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_bytes(text: &[u8]) -> HostFacts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tor.1000.stdout");
        std::fs::write(&path, text).unwrap();
        let mut facts = HostFacts::new("relay1");
        read(&path, "hosts/relay1/tor.1000.stdout", &mut facts);
        facts
    }

    #[test]
    fn the_first_hundred_percent_counts() {
        let facts = read_bytes(
            b"Jan 01 00:00:01.000 [notice] Tor 0.4.9.3 running on Linux with Libevent 2.1.12-stable.\n\
              Jan 01 00:00:01.000 [notice] Bootstrapped 0% (starting): Starting\n\
              Jan 01 00:00:21.250 [notice] Bootstrapped 45% (requesting_descriptors): Asking for relay descriptors\n\
              Jan 01 00:16:40.000 [notice] Bootstrapped 100% (done): Done\n\
              Jan 01 00:20:40.000 [notice] Bootstrapped 100% (done): Done\n",
        );
        assert!(facts.damage.is_empty());
        assert_eq!((facts.tors[0].percent, facts.tors[0].bootstrapped_s), (100, Some(1000.0)));
    }

    #[test]
    fn a_tor_that_is_still_starting_has_its_last_percentage() {
        let facts =
            read_bytes(b"Jan 01 00:00:21.250 [notice] Bootstrapped 45% (requesting_descriptors): Asking\nJan 01 00:0");
        assert_eq!((facts.tors[0].percent, facts.tors[0].bootstrapped_s), (45, None));
    }

    #[test]
    fn warnings_that_differ_in_numbers_are_counted_together() {
        let facts = read_bytes(
            b"Jan 01 00:00:00.000 [warn] You are running Tor as root.\n\
              Jan 01 00:01:00.000 [warn] Tried to establish rendezvous on non-OR circuit 12\n\
              Jan 01 00:02:00.000 [warn] Tried to establish rendezvous on non-OR circuit 13\n",
        );
        let warnings = &facts.tors[0].warnings;
        assert_eq!(warnings.len(), 2);
        assert_eq!(warnings["Tried to establish rendezvous on non-OR circuit …"], 2);
    }

    #[test]
    fn broken_lines_are_counted() {
        let facts =
            read_bytes(b"Jan 01 00:00:01.000 [notice] Bootstrapped x\n\xff\xff\nJan 01 00:00:02.000 [notice] Boots");
        assert_eq!(facts.damage[0].lines, 2);
    }
}
