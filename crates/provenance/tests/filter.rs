//! Filters: what is an expression, what it keeps, and that a filtered record is whole in itself.

use probes::Rows;
use probes::choices::{ReceivedFate, SentFate};
use probes::tables::{HostName, Received, Sent};
use provenance::generate::{Generator, Scenario};
use provenance::read::ANY;
use provenance::{Filter, Options, Record, RunId, Store, number};
use std::collections::BTreeSet;
use std::path::Path;

fn host(host: u64, name: &str) -> HostName {
    HostName { host, name: name.to_owned(), address: [11, 0, 0, 1].into(), up_bits: 1, down_bits: 1 }
}

fn sent() -> Sent {
    Sent {
        packet: number(1, 7),
        parent: 0,
        copy_of: 0,
        quotes: 0,
        stream: u64::MAX,
        offset: 0,
        payload: 1448,
        bytes: 1500,
        protocol: 6,
        flags: 24,
        to_host: 0,
        made_ns: 5_000_000_000,
        socket_ns: 10,
        uplink_ns: 2_000_000,
        uplink_queue_bytes: 3000,
        route_ns: 10_000_000,
        fate: SentFate::Carried.into(),
    }
}

fn received() -> Received {
    Received {
        packet: number(1, 7),
        host: 0,
        arrived_ns: 5_012_000_000,
        downlink_ns: 1_000_000,
        reassembly_ns: 0,
        receive_queue_ns: 400,
        receive_queue_bytes: 0,
        read: 0,
        fate: ReceivedFate::Read.into(),
    }
}

fn keeps(text: &str) -> bool {
    let filter = Filter::new(text, &["alice", "relay3"]).unwrap_or_else(|error| panic!("{text}: {error}"));
    filter.keeps(&[host(0, "alice"), host(1, "relay3")], &sent(), Some(&received()))
}

#[test]
fn expressions_mean_what_the_language_says() {
    for text in [
        "true",
        "bytes == 1500 && payload < bytes",
        "host == 'relay3' && to == \"alice\"",
        "host.startsWith('relay') && to.endsWith('ice') && host.contains('lay')",
        "fate != 'lost' && received_fate == 'read'",
        "uplink_ns > 1000000 || bytes / 0 == 1",
        "downlink_ns >= 1e6",
        "stream == 18446744073709551615u",
        "protocol in [6, 17] && !(protocol in [])",
        "['relay1', 'relay3'].exists(name, name == host)",
        "['client', 'ali'].exists_one(part, to.startsWith(part))",
        "[socket_ns, uplink_ns, route_ns].all(ns, ns < 20000000)",
        "[1, 2, 3].map(n, n * 500).filter(n, n > 600).exists(n, n == bytes)",
        "size([payload, bytes].filter(n, n > 1450)) == 1 && size(host) == 6",
        "[1, 2].all(a, [3, 4].all(b, a < b && a + b < bytes))",
        "made_ns + uplink_ns + route_ns == arrived_ns",
        // No fate at the receiver is that of a packet which did not arrive; parts of names and other texts are not names of hosts.
        "received_fate in ['read', ''] && 'relay3' in [host, to]",
        "host.startsWith('rel') && host + '' != 'rel'",
        "(protocol == 6 ? flags % 16 : 0) == 8 && -payload + bytes - 2 * 26 == 0",
        "host + ':' + to == 'relay3:alice'",
        // Without a value it is kept: rather too much than too little.
        "bytes / 0 == 1",
        "[1, 0].exists(n, bytes / n == 3) ",
    ] {
        assert!(keeps(text), "{text}");
    }
    for text in [
        "false",
        "bytes < 1500",
        "host == to",
        "[1, 2].exists(n, n == protocol)",
        "[6, 7].all(n, n == protocol)",
        "false && bytes / 0 == 1",
        "bytes % 1500 != 0",
        "received_fate == ''",
    ] {
        assert!(!keeps(text), "{text}");
    }
}

#[test]
fn what_is_no_filter_is_refused_with_its_place() {
    for (text, place, says) in [
        ("bytes > 10 && siz == 3", "line 1, column 15", "there is no 'siz'; there are host, to, packet"),
        ("bytes", "line 1, column 1", "the whole is of type int, and must be true or false"),
        ("host == 3", "column 6", "'==' is not for (string, int)"),
        ("true &&\n  uplink_ns > 'a'", "line 2, column 13", "'>' is not for (int, string)"),
        ("bytes > 1.5", "column 9", "all columns are whole numbers"),
        ("bytes >", "line 1", "mismatched input"),
        ("[1, 'a'].exists(x, true)", "column 5", "a list has elements of one type"),
        ("bytes.exists(x, true)", "column 1", "of type int, and must be a list"),
        ("[1].exists(x, x)", "column", "'||' is not for (bool, int)"),
        ("host == 'rely3'", "line 1, column 9", "there is no host 'rely3'; did you mean 'relay3'?"),
        ("true &&\n 'bob' != to", "line 2, column 2", "there is no host 'bob'; there are alice, relay3"),
        ("'nobody' in [host, to]", "column 1", "there is no host 'nobody'"),
        ("fate in ['lost', 'carreid']", "column 18", "'carreid' is no fate; did you mean 'carried'?"),
        ("received_fate != 'lost'", "column 18", "'lost' is no received_fate; there are waiting, read,"),
        ("fate == ''", "column 9", "'' is no fate"),
        ("host.matches('re.*')", "column 13", "there is no function 'matches'"),
        ("fate.word == 'lost'", "column", "nothing here has a field 'word'"),
        ("x == 1", "column 1", "there is no 'x'"),
        ("[1].exists(x, true) && x == 1", "column 24", "there is no 'x'"),
        ("", "", ""),
    ] {
        let error = Filter::new(text, &["alice", "relay3"]).expect_err(text);
        assert!(error.contains(place) && error.contains(says), "{text}: {error}");
    }
    // Deep nesting is an error, too, and no overflow.
    assert!(Filter::new(&format!("{}true{}", "(".repeat(5000), ")".repeat(5000)), &[]).is_err());
}

/// A record of generated packets, of which only some are kept, handed over by so many workers.
fn filtered(folder: &Path, filter: &str, workers: usize) -> Record {
    let scenario = Scenario { packets: 20_000, hosts: 12, loss: 0.02, ..Scenario::default() };
    let mut generator = Generator::new(&scenario);
    let mut options = Options::new(scenario.level, RunId::default(), generator.hosts());
    options.segment_rows = 1000;
    let names: Vec<&str> = options.hosts.iter().map(|host| host.name.as_str()).collect();
    options.filter = Some(Filter::new(filter, &names).unwrap());
    let store = Store::create(&folder.join("provenance"), options).unwrap();
    let mut window = 0;
    while let Some(mut rows) = generator.window() {
        for worker in 1..workers {
            let some = Rows {
                sent: rows.sent.split_off(rows.sent.len() * worker / workers),
                received: rows.received.split_off(rows.received.len() * worker / workers),
                writes: rows.writes.split_off(rows.writes.len() * worker / workers),
                ..Rows::default()
            };
            store.handle().push(window, some);
        }
        store.handle().push(window, rows);
        window += 1;
        store.windows_done(window).unwrap();
    }
    let chosen = store.finish().unwrap().chosen.unwrap();
    let record = Record::open(folder).unwrap();
    assert_eq!((record.notice(), chosen.kept), (None, packets(&record).len() as u64));
    assert!(chosen.packets > chosen.kept);
    record
}

fn packets(record: &Record) -> Vec<Sent> {
    record.packets(ANY, usize::MAX).unwrap()
}

#[test]
fn both_rows_of_a_packet_share_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let record = filtered(folder.path(), "host == 'relay3' || fate == 'lost'", 1);
    let sent = packets(&record);
    let ids: BTreeSet<u64> = sent.iter().map(|sent| sent.packet).collect();
    let is_it = |sent: &Sent| record.name(sent.packet).starts_with("relay3:") || sent.fate == u64::from(SentFate::Lost);
    assert!(sent.len() > 100 && sent.iter().all(is_it));
    let received = record.rows::<Received>(ANY, &[], usize::MAX).unwrap();
    assert!(!received.is_empty() && received.iter().all(|row| ids.contains(&row.packet)));
    let carried = sent.iter().filter(|sent| sent.fate == u64::from(SentFate::Carried)).count();
    assert_eq!(received.len(), carried);
    // Writes and reads of other streams are gone.
    let streams: BTreeSet<u64> = sent.iter().map(|sent| sent.stream).collect();
    let writes = record.rows::<probes::tables::Write>(ANY, &[], usize::MAX).unwrap();
    assert!(!writes.is_empty() && writes.iter().all(|write| streams.contains(&write.stream)));
    let causes = record.rows::<probes::tables::Cause>(ANY, &[], usize::MAX).unwrap();
    let writes: BTreeSet<u64> = writes.iter().map(|write| write.write).collect();
    assert!(causes.iter().all(|cause| writes.contains(&cause.write)));
}

#[test]
fn what_only_receivers_know_decides_about_both_rows() {
    let folder = tempfile::tempdir().unwrap();
    let record = filtered(folder.path(), "receive_queue_ns > 5000000", 1);
    let sent = packets(&record);
    let received = record.rows::<Received>(ANY, &[], usize::MAX).unwrap();
    assert!(sent.len() > 100 && sent.len() == received.len());
    assert!(received.iter().all(|row| row.receive_queue_ns > 5_000_000));
    let ids: BTreeSet<u64> = sent.iter().map(|sent| sent.packet).collect();
    assert!(received.iter().all(|row| ids.contains(&row.packet)));
}

#[test]
fn a_filtered_record_is_the_same_for_any_number_of_workers() {
    for filter in ["payload > 0 && to.startsWith('relay')", "downlink_ns > 1000000 && payload > 0"] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (folder, workers) in folders.iter().zip([1, 3]) {
            filtered(folder.path(), filter, workers);
        }
        let file = |folder: &tempfile::TempDir, table: &str| {
            std::fs::read(folder.path().join("provenance").join(table).join("00000.parquet")).unwrap()
        };
        for table in ["sent", "received", "writes"] {
            assert!(file(&folders[0], table) == file(&folders[1], table), "{table}: {filter}");
        }
    }
}
