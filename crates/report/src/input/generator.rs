//! The output of gnomon-traffic: a JSON object per line, told apart by `kind`.

use super::clock;
use super::lines::{Verdict, for_each_line};
use super::{HostFacts, Names, nickname};
use crate::bins::Bins;
use crate::run::{Circuit, Direction, Failure, Transfer};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// Whether a file begins as such an output does.
pub fn is_output(beginning: &[u8]) -> bool {
    beginning.starts_with(br#"{"kind":"start""#)
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Record {
    Start,
    Transfer(Box<TransferRecord>),
    Circuit(CircuitRecord),
    Bandwidth {
        at: f64,
        written: f64,
    },
    End,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct TransferRecord {
    behaviour: String,
    #[serde(default)]
    server: String,
    direction: DirectionRecord,
    bytes: u64,
    #[serde(default)]
    received: u64,
    #[serde(default)]
    sent: u64,
    start: f64,
    request: Option<f64>,
    first_byte: Option<f64>,
    last_byte: Option<f64>,
    /// Earlier versions did not write it.
    end: Option<f64>,
    #[serde(default)]
    tenths: Vec<Option<f64>>,
    #[serde(default)]
    verified: bool,
    error: Option<ErrorRecord>,
    #[serde(default)]
    attempt: u32,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum DirectionRecord {
    Download,
    Upload,
}

#[derive(Deserialize)]
struct ErrorRecord {
    stage: String,
    reason: String,
}

#[derive(Deserialize)]
struct CircuitRecord {
    at: f64,
    build: Option<f64>,
    purpose: Option<String>,
    #[serde(default)]
    path: Vec<String>,
    error: Option<String>,
}

/// Reads one output.
pub fn read(path: &Path, name: &str, facts: &mut HostFacts) {
    let mut names = Names::default();
    let damage = for_each_line(path, name, |line| match serde_json::from_slice::<Record>(line) {
        _ if line.is_empty() => Verdict::Fine,
        Ok(record) => {
            take(record, facts, &mut names);
            Verdict::Fine
        }
        Err(_) if line.starts_with(b"{") => Verdict::Broken("not a record of gnomon-traffic"),
        // What a library or the program itself says in words.
        Err(_) => Verdict::Broken("not JSON"),
    });
    facts.damage.extend(damage);
    facts.generators += 1;
}

fn take(record: Record, facts: &mut HostFacts, names: &mut Names) {
    match record {
        Record::Transfer(record) => take_transfer(&record, facts, names),
        Record::Circuit(record) => {
            facts.watches_circuits = true;
            facts.circuits.push(Circuit {
                at_s: clock::from_unix(facts.start, record.at),
                build_s: record.build,
                purpose: names.get(record.purpose.as_deref().unwrap_or("unknown")),
                path: record.path.iter().map(|hop| nickname(hop, names)).collect(),
                is_of_many: facts.stands_for_many,
                error: record.error.as_deref().map(|error| names.get(error)),
            });
        }
        Record::Bandwidth { at, written } => {
            let at_s = clock::from_unix(facts.start, at);
            facts.control_port_written.get_or_insert_with(|| Bins::new(1.0)).add(at_s - 0.5, written);
        }
        Record::Start | Record::End | Record::Unknown => {}
    }
}

fn take_transfer(record: &TransferRecord, facts: &mut HostFacts, names: &mut Names) {
    let start_s = clock::from_unix(facts.start, record.start);
    // A transfer that failed ended after the last sign of it: a minute after, where it waited for its time limit.
    let signs = [record.request, record.first_byte, record.last_byte, record.end];
    let reached = record.tenths.iter().chain(&signs).flatten().copied().fold(0.0, f64::max);
    let direction = match record.direction {
        DirectionRecord::Download => Direction::Download,
        DirectionRecord::Upload => Direction::Upload,
    };
    count_payload(record, start_s, facts);
    facts.transfers.push(Transfer {
        host: Arc::clone(&facts.host),
        behaviour: names.get(&facts.behaviour_name(&record.behaviour, &record.server)),
        direction,
        bytes: record.bytes,
        start_s,
        request_s: record.request,
        first_byte_s: record.first_byte,
        last_byte_s: record.last_byte,
        goodput_bits_per_s: goodput(record),
        end_s: start_s + reached,
        verified: record.verified,
        is_retry: record.attempt > 1,
        error: record
            .error
            .as_ref()
            .map(|error| Failure { stage: names.get(&error.stage), reason: names.get(&error.reason) }),
    });
}

/// Between half a MiB and a whole one, as OnionPerf reckons throughput: from the fifth to the tenth tenth of 1 MiB, from the first to the second of
/// 5 MiB.
fn goodput(record: &TransferRecord) -> Option<f64> {
    const MIB: u64 = 1 << 20;
    let (from, to) = match record.bytes {
        MIB => (4, 9),
        bytes if bytes == 5 * MIB => (0, 1),
        _ => return None,
    };
    let at = |tenth: usize| record.tenths.get(tenth).copied().flatten();
    let span = at(to)? - at(from)?;
    (span > 0.0).then(|| (MIB / 2 * 8) as f64 / span)
}

/// Each tenth counts when it was complete, what a failed transfer got beyond its last tenth at that moment.
fn count_payload(record: &TransferRecord, start_s: f64, facts: &mut HostFacts) {
    let moved = match record.direction {
        DirectionRecord::Download => record.received,
        DirectionRecord::Upload if record.last_byte.is_some() => record.bytes,
        DirectionRecord::Upload => record.sent.min(record.bytes),
    };
    let tenths: Vec<f64> = record.tenths.iter().flatten().copied().collect();
    let tenth = record.bytes as f64 / 10.0;
    let mut rest = moved as f64;
    for at in &tenths {
        let amount = tenth.min(rest);
        facts.payload.add(start_s + at, amount);
        rest -= amount;
    }
    if rest > 0.0
        && let Some(at) = record.last_byte.or(tenths.last().copied()).or(record.first_byte)
    {
        facts.payload.add(start_s + at, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> HostFacts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gnomon-traffic.1000.stdout");
        std::fs::write(&path, text).unwrap();
        let mut facts = HostFacts::new("client1");
        read(&path, "hosts/client1/gnomon-traffic.1000.stdout", &mut facts);
        facts
    }

    const DONE: &str = r#"{"kind":"transfer","id":7,"behaviour":"web","server":"server3:80","direction":"download","bytes":1000,"received":1000,"sent":120,"start":946685100.123456,"connect":0.000012,"socks":0.413,"request":0.4131,"first_byte":0.812,"tenths":[0.9,1,1.1,1.2,1.3,1.4,1.5,1.6,1.7,2.310],"last_byte":2.310,"verified":true,"error":null}"#;
    const FAILED: &str = r#"{"kind":"transfer","id":8,"behaviour":"web","server":"server3:80","direction":"download","bytes":1000,"received":250,"sent":120,"start":946685200.0,"connect":0.1,"socks":null,"request":0.2,"first_byte":0.5,"tenths":[0.6,0.7],"last_byte":null,"end":15.7,"verified":false,"error":{"stage":"transfer","reason":"timeout","detail":"no byte for 15 s"},"attempt":2}"#;

    #[test]
    fn transfers_are_read_with_their_times() {
        let facts = read_text(&format!(
            "{{\"kind\":\"start\",\"version\":\"0.1.0\",\"behaviours\":[\"web\"],\"seed\":1,\"unix\":946684800.0}}\n{DONE}\n{FAILED}\n\
             {{\"kind\":\"end\",\"transfers\":2,\"failed\":1,\"bytes\":1250,\"unix\":946688400.0}}\n"
        ));
        assert!(facts.damage.is_empty(), "{:?}", facts.damage);
        let [done, failed] = facts.transfers.as_slice() else { panic!("{:?}", facts.transfers) };
        assert_eq!((done.start_s, done.first_byte_s, done.last_byte_s), (300.123456, Some(0.812), Some(2.31)));
        assert_eq!((done.bytes, done.verified, &*done.behaviour, done.is_done()), (1000, true, "web", true));
        assert!((done.end_s - 302.433456).abs() < 1e-9);
        let error = failed.error.as_ref().unwrap();
        assert_eq!((&*error.stage, &*error.reason, failed.is_done()), ("transfer", "timeout", false));
        assert!((failed.end_s - 415.7).abs() < 1e-9, "{}", failed.end_s);
        assert!(failed.is_retry && !done.is_retry);
        assert_eq!((done.goodput_bits_per_s, facts.payload.total()), (None, 1250.0));
        assert_eq!(facts.payload.between(400.0, 402.0), 250.0);
    }

    #[test]
    fn goodput_is_that_of_the_second_half_of_the_first_mebibyte() {
        let goodput = |bytes: u64, line: &str| {
            let text = line.replace("\"bytes\":1000", &format!("\"bytes\":{bytes}"));
            read_text(&text).transfers[0].goodput_bits_per_s
        };
        // From 1.3 s to 2.31 s, and from 0.9 s to 1 s: 524,288 bytes each.
        assert_eq!(goodput(1 << 20, DONE).map(f64::round), Some((4_194_304.0 / 1.01f64).round()));
        assert_eq!(goodput(5 << 20, DONE).map(f64::round), Some(41_943_040.0));
        assert_eq!((goodput(51_200, DONE), goodput(1 << 20, FAILED)), (None, None));
    }

    #[test]
    fn transfers_to_onion_services_and_through_bridges_have_names_of_their_own() {
        let onion = DONE.replace("server3:80", "hp2bwwigtid.onion:80");
        let names = |facts: &HostFacts| facts.transfers.iter().map(|one| one.behaviour.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&read_text(&format!("{DONE}\n{onion}\n"))), ["web", "web (onion)"]);
        let mut facts = HostFacts::new("client1");
        facts.uses_bridge = true;
        assert_eq!(facts.behaviour_name("web", "server3:80"), "web (bridge)");
        assert_eq!(facts.behaviour_name("web", "x.onion:80"), "web (bridge, onion)");
    }

    #[test]
    fn circuits_and_bandwidth_are_read() {
        let facts = read_text(concat!(
            r#"{"kind":"circuit","id":12,"at":946684900.5,"build":0.93,"hops":3,"purpose":"GENERAL","path":["$AA~a"],"error":null}"#,
            "\n",
            r#"{"kind":"circuit","id":13,"at":946684901.5,"build":null,"hops":1,"purpose":null,"path":[],"error":"TIMEOUT"}"#,
            "\n",
            r#"{"kind":"bandwidth","at":946684803,"read":10,"written":20}"#,
            "\n"
        ));
        assert_eq!((facts.circuits[0].at_s, facts.circuits[0].build_s), (100.5, Some(0.93)));
        assert_eq!(facts.circuits[1].error.as_deref(), Some("TIMEOUT"));
        assert_eq!(facts.control_port_written.unwrap().sums(), [0.0, 0.0, 20.0]);
    }

    #[test]
    fn broken_and_unknown_lines_do_not_hide_the_good_ones() {
        let cut = &DONE[..100];
        let facts =
            read_text(&format!("{{\"kind\":\"weather\",\"sun\":1}}\n{{\"kind\":\"transfer\"}}\nhello\n{DONE}\n{cut}"));
        assert_eq!(facts.transfers.len(), 1);
        let [damage] = facts.damage.as_slice() else { panic!("{:?}", facts.damage) };
        assert_eq!((damage.lines, damage.first), (3, 2));
    }
}
