//! Records made by hand, by what a host tells of its packets.

use base::{HostId, SimDuration, SimTime};
use probes::Level;
use probes::choices::{ReceivedFate, SentFate};
use probes::tables::HostName;
use probes::trace::{Made, Trace, Written, first_number};
use provenance::{Options, RunId, Store};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ROUTE: SimDuration = SimDuration::from_millis(20);
const BYTES: u64 = 1000;
const END: SimTime = at(9_700);

/// So many milliseconds after the run has begun.
const fn at(ms: u64) -> SimTime {
    SimTime::from_nanos(ms * 1_000_000 + ms)
}

fn packet(number: u64) -> Made {
    Made { number: first_number(HostId(0)) + number, payload: BYTES, protocol: 17, ..Made::default() }
}

/// A run of two hosts, of which the first sends to the second; its packets have met with all that there is.
pub fn of_every_fate() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    fs::create_dir(&run).expect("a folder");
    let name = |host: u8| HostName {
        host: host.into(),
        name: format!("host{host}"),
        address: IpAddr::V4(Ipv4Addr::new(11, 0, 0, host + 1)),
        up_bits: 1_000_000,
        down_bits: 1_000_000,
    };
    let options = Options::new(Level::Packets, RunId::new([1; 8]), vec![name(0), name(1)]);
    let store = Store::create(&run.join(provenance::FOLDER), options).expect("a store");
    for mut rows in [sender(), receiver()] {
        rows.expand();
        store.handle().push(0, rows);
    }
    store.windows_done(1).expect("a record");
    store.finish().expect("a record");
    (folder, run)
}

/// Packets 0 to 11 are carried, 12 and 13 lost; three do not come out of the queue, one stays there, and one goes round.
fn sender() -> probes::Rows {
    let mut trace = Trace::new(HostId(0), Level::Packets);
    let number = |packet: u64| first_number(HostId(0)) + packet;
    for place in 0..18 {
        trace.made(at(100 + place), packet(place), Written::from_slice(&[(BYTES, at(100))]), 0);
    }
    for place in 0..14 {
        let route = (place < 12).then_some(ROUTE);
        trace.left(at(200 + 300 * place), number(place), 1, HostId(1), route);
    }
    trace.gone(at(4_500), number(14), 2, SentFate::Refused);
    trace.gone(at(4_600), number(16), 1, SentFate::Dropped);
    trace.looped(at(9_600), packet(18), Written::new(), 0);
    trace.arrives(at(9_600), number(18), 1, 0, BYTES);
    let pieces = trace.take_datagram(at(9_600), BYTES, 0);
    trace.datagram_ends(at(9_650), (1, 1), 0, &[], &pieces, ReceivedFate::Read);
    trace.finish(END);
    trace.take_rows()
}

fn receiver() -> probes::Rows {
    let mut trace = Trace::new(HostId(1), Level::Packets);
    let number = |packet: u64| first_number(HostId(0)) + packet;
    for place in 0..12 {
        trace.at_router(at(200 + 300 * place).saturating_add(ROUTE), number(place), 1, BYTES);
    }
    let mut queue = Vec::new();
    let mut fragments = Vec::new();
    // The router drops 3 and 4, and still has 11.
    for place in (0..11).filter(|place| ![3, 4].contains(place)) {
        let now = at(2_000 + 400 * place);
        trace.passed_router(now, number(place), 1);
        trace.arrives(now, number(place), 1, 0, BYTES);
        match place {
            0..=5 => queue.extend(trace.take_datagram(now, BYTES, 0)),
            6 => trace.came(now, ReceivedFate::Nobody),
            7..=8 => fragments.extend(trace.take_fragment()),
            _ => queue.extend(trace.take_datagram(now, BYTES, 0)),
        }
        trace.is_taken();
    }
    let (read, rest) = queue.split_at(3);
    trace.datagram_ends(at(7_000), (1, 1), 0, &[], read, ReceivedFate::Read);
    trace.datagram_ends(at(7_500), (1, 1), 0, &[], &rest[..2], ReceivedFate::Unread);
    trace.incomplete(at(9_000), &fragments);
    trace.datagram_ends(END, (1, 1), 0, &[], &rest[2..], ReceivedFate::Waiting);
    trace.finish_router(END, |packet| packet == number(11));
    trace.finish(END);
    trace.take_rows()
}

/// Cuts the end off a table's segments.
pub fn truncate(run: &Path, table: &str) {
    for segment in fs::read_dir(run.join(provenance::FOLDER).join(table)).expect("a table") {
        let path = segment.expect("a segment").path();
        let bytes = fs::read(&path).expect("a segment");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("a segment");
    }
}
