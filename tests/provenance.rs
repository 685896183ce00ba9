//! The record of packets and bytes: it changes nothing, is the same for any number of workers, and adds up to the last byte and nanosecond.

mod common;

use common::{digest, find_python, folder, root, run_well, tree, wrote};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Hosts with lossy lines; what they run comes behind.
const NETWORK: &str = r#"
general: { stop_time: 40 s, data_directory: run.data }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "10 Mbit" host_bandwidth_up "5 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "15 ms" jitter "2 ms" packet_loss 0.02 ]
        edge [ source 1 target 1 latency "2 ms" ]
      ]
hosts:
"#;

fn experiment() -> String {
    let python = find_python().expect("python3: tools/install-packages test");
    let script = root().join("tests/provenance/datagrams.py").display().to_string();
    let hosts = [
        ("server", 0, vec![format!("path: iperf3, args: --server, expected_final_state: running")]),
        (
            "web",
            0,
            vec![format!("path: {python}, args: -u -m http.server --bind 0.0.0.0 80, expected_final_state: running")],
        ),
        ("echo", 1, vec![format!("path: {python}, args: '{script} server', expected_final_state: running")]),
        (
            "client",
            1,
            vec![
                "path: iperf3, args: --client server --time 3, start_time: 1 s".to_owned(),
                "path: iperf3, args: --client server --time 3 --reverse, start_time: 6 s".to_owned(),
                "path: curl, args: -q -s -S http://web/, start_time: 3 s".to_owned(),
            ],
        ),
        ("other", 0, vec![format!("path: {python}, args: '{script} client echo', start_time: 2 s")]),
        (
            "alone",
            0,
            vec![
                "path: iperf3, args: --server --one-off".to_owned(),
                "path: iperf3, args: --client 127.0.0.1 --bytes 4M, start_time: 1 s".to_owned(),
            ],
        ),
    ];
    let mut text = NETWORK.to_owned();
    for (name, node, processes) in hosts {
        text += &format!("  {name}:\n    network_node_id: {node}\n    processes:\n");
        processes.iter().for_each(|process| text += &format!("    - {{ {process} }}\n"));
    }
    text
}

fn record(folder: &Path, data: &str, level: &str, workers: &str) -> PathBuf {
    fs::write(folder.join("network.yaml"), experiment()).unwrap();
    run_well(folder, "network.yaml", &["--provenance", level, "--parallelism", workers, "-d", data]);
    folder.join(data)
}

/// A table as rows of numbers; choices by their words.
struct Table {
    rows: Vec<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Word(String),
}

type Row = BTreeMap<String, Value>;

fn number(row: &Row, column: &str) -> u64 {
    match row.get(column) {
        Some(Value::Number(number)) => *number,
        other => panic!("{column}: {other:?}"),
    }
}

fn word<'a>(row: &'a Row, column: &str) -> &'a str {
    match row.get(column) {
        Some(Value::Word(word)) => word,
        other => panic!("{column}: {other:?}"),
    }
}

impl Table {
    fn read(data: &Path, name: &str) -> Table {
        let mut files: Vec<PathBuf> =
            fs::read_dir(data.join("provenance").join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut rows = Vec::new();
        for file in files {
            let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                let cells = row.unwrap().into_columns().into_iter().map(|(name, field)| {
                    let value = match field {
                        Field::ULong(number) => Value::Number(number),
                        Field::Str(word) => Value::Word(word),
                        other => panic!("{name}: {other:?}"),
                    };
                    (name, value)
                });
                rows.push(cells.collect());
            }
        }
        Table { rows }
    }

    fn by(&self, column: &str) -> BTreeMap<u64, &Row> {
        let all: BTreeMap<u64, &Row> = self.rows.iter().map(|row| (number(row, column), row)).collect();
        assert_eq!(all.len(), self.rows.len(), "{column} names rows");
        all
    }

    /// Rows by stream, in the order of their offsets.
    fn by_stream(&self) -> BTreeMap<u64, Vec<&Row>> {
        let mut all: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        self.rows.iter().for_each(|row| all.entry(number(row, "stream")).or_default().push(row));
        all.values_mut().for_each(|rows| rows.sort_by_key(|row| number(row, "offset")));
        all
    }
}

#[test]
fn a_record_changes_nothing_and_is_the_same_for_any_number_of_workers() {
    let folder = folder("provenance-same");
    let without = digest(&record(&folder, "off", "off", "1"));
    assert!(!folder.join("off/provenance").exists());
    for level in ["summary", "packets"] {
        let data = record(&folder, level, level, "2");
        assert_eq!(digest(&data), without, "{level}");
        let has_packets = !Table::read(&data, "sent").rows.is_empty();
        assert_eq!(has_packets, level == "packets");
        assert!(!Table::read(&data, "layers").rows.is_empty());
    }
    let one = record(&folder, "all-1", "all", "1");
    assert_eq!(digest(&one), without);
    let files = tree(&one.join("provenance"));
    assert!(files.len() > 10, "{:?}", files.keys());
    for workers in ["2", "3", "8"] {
        let data = record(&folder, &format!("all-{workers}"), "all", workers);
        assert_eq!(digest(&data), without);
        let others = tree(&data.join("provenance"));
        let names: Vec<&String> = files.keys().filter(|name| files.get(*name) != others.get(*name)).collect();
        assert!(names.is_empty() && files.len() == others.len(), "{workers} workers: {names:?}");
    }
}

#[test]
fn every_nanosecond_and_every_byte_is_somewhere() {
    let folder = folder("provenance-adds-up");
    let data = record(&folder, "run", "all", "2");
    let [sent, received, writes, reads, streams] =
        ["sent", "received", "writes", "reads", "streams"].map(|name| Table::read(&data, name));
    let (packets, written, read) = (sent.by("packet"), writes.by("write"), reads.by("read"));

    let mut arrived: BTreeMap<u64, &Row> = BTreeMap::new();
    for row in &received.rows {
        let packet = packets[&number(row, "packet")];
        assert!(matches!(word(packet, "fate"), "carried" | "looped"), "{packet:?}");
        let left = number(packet, "made_ns") + number(packet, "uplink_ns") + number(packet, "route_ns");
        assert_eq!(number(row, "arrived_ns"), left, "{packet:?} {row:?}");
        assert_eq!(arrived.insert(number(row, "packet"), row), None);
    }
    // All that was carried has come, but for what is under way at the end.
    let last = received.rows.iter().map(|row| number(row, "arrived_ns")).max().unwrap();
    for (packet, row) in &packets {
        let at = number(row, "made_ns") + number(row, "uplink_ns") + number(row, "route_ns");
        assert!(word(row, "fate") != "carried" || arrived.contains_key(packet) || at >= last, "{row:?}");
    }
    let fates: BTreeSet<&str> = sent.rows.iter().map(|row| word(row, "fate")).collect();
    assert!(["carried", "looped", "lost", "fragmented"].iter().all(|fate| fates.contains(fate)), "{fates:?}");
    let fates: BTreeSet<&str> = received.rows.iter().map(|row| word(row, "fate")).collect();
    assert!(["read", "handled", "nobody", "incomplete"].iter().all(|fate| fates.contains(fate)), "{fates:?}");

    // Layers of what was read sum to the time from its write to its read.
    let writes_of = writes.by_stream();
    let mut summed = 0;
    for row in received.rows.iter().filter(|row| word(row, "fate") == "read") {
        let packet = packets[&number(row, "packet")];
        let (stream, end) = (number(packet, "stream"), number(packet, "offset") + number(packet, "payload"));
        let writes = &writes_of[&stream];
        let of_last_byte = if number(packet, "protocol") == 6 {
            let at = writes.partition_point(|write| number(write, "offset") + number(write, "bytes") < end);
            writes[at]
        } else {
            writes[writes.partition_point(|write| number(write, "offset") < number(packet, "offset"))]
        };
        let sent_layers = ["socket_ns", "uplink_ns", "route_ns"].map(|column| number(packet, column));
        let received_layers = ["downlink_ns", "reassembly_ns", "receive_queue_ns"].map(|column| number(row, column));
        let sum: u64 = sent_layers.iter().chain(&received_layers).sum();
        let read_at = number(read[&number(row, "read")], "at_ns");
        assert_eq!(sum, read_at - number(of_last_byte, "at_ns"), "{packet:?} {row:?}");
        summed += 1;
    }
    assert!(summed > 2000, "{summed}");

    // Bytes of connections are covered once by writes, and by reads or a reason.
    let reads_of = reads.by_stream();
    let mut complete = 0;
    for end in &streams.rows {
        let (stream, bytes) = (number(end, "stream"), number(end, "bytes"));
        let rows = if word(end, "side") == "writer" { &writes_of } else { &reads_of };
        let mut at = 0;
        for row in rows.get(&stream).into_iter().flatten() {
            assert_eq!(number(row, "offset"), at, "{row:?}");
            at += number(row, "bytes");
        }
        assert_eq!(at, bytes, "{end:?}");
        let ended_well = word(end, "end") == "closed";
        let reader = streams.rows.iter().find(|row| number(row, "stream") == stream && word(row, "side") == "reader");
        let took = reader.map_or(0, |row| number(row, "bytes") + number(row, "left_bytes"));
        if word(end, "side") == "writer" && ended_well {
            assert_eq!(took, bytes, "{end:?} {reader:?}");
            complete += 1;
        }
    }
    assert!(complete >= 8, "{complete}");
    assert!(written.len() > 100);
}

#[test]
fn a_tree_has_fragments_copies_and_what_quotes_a_packet() {
    let folder = folder("provenance-trees");
    let data = record(&folder, "run", "packets", "1");
    let (sent, received) = (Table::read(&data, "sent"), Table::read(&data, "received"));
    let packets = sent.by("packet");
    let arrived: BTreeMap<u64, &Row> = received.rows.iter().map(|row| (number(row, "packet"), row)).collect();

    // Datagrams of 8 KB: six fragments each, named by their datagram; whole if all came, else the lost one has a name.
    let (mut whole, mut broken) = (0, 0);
    for parent in sent.rows.iter().filter(|row| word(row, "fate") == "fragmented") {
        let number_of = number(parent, "packet");
        let fragments: Vec<&Row> = sent.rows.iter().filter(|row| number(row, "parent") == number_of).collect();
        assert_eq!(fragments.len(), 6, "{parent:?}");
        let fates: Vec<&str> = fragments
            .iter()
            .map(|row| arrived.get(&number(row, "packet")).map_or("", |row| word(row, "fate")))
            .collect();
        let lost = fragments.iter().filter(|row| word(row, "fate") == "lost").count();
        let dropped = fates.iter().filter(|fate| **fate == "dropped").count();
        if lost + dropped == 0 {
            assert!(fates.iter().all(|fate| *fate == "read"), "{fates:?}");
            whole += 1;
        } else {
            assert!(fates.iter().all(|fate| matches!(*fate, "incomplete" | "dropped" | "")), "{fates:?}");
            broken += 1;
        }
    }
    let back: usize = wrote(&data.join("hosts"), "other", "stdout").trim().parse().unwrap();
    assert!(whole >= 2 * back && broken >= 1 && whole + broken >= 40, "{whole} {broken} {back}");

    // Copies name what carried the byte before, on the same stream and at the same place.
    let copies: Vec<&Row> = sent.rows.iter().filter(|row| number(row, "copy_of") != 0).collect();
    assert!(copies.len() >= 5, "{}", copies.len());
    for copy in copies {
        let original = packets[&number(copy, "copy_of")];
        assert_eq!(number(original, "stream"), number(copy, "stream"));
        let (from, to) = (number(original, "offset"), number(original, "offset") + number(original, "payload"));
        let at = number(copy, "offset");
        assert!(number(copy, "payload") == 0 || (from..to).contains(&at), "{original:?} {copy:?}");
        assert!(number(original, "made_ns") <= number(copy, "made_ns"));
    }

    // The datagram for nobody, and the ICMP message that quotes it.
    let error = sent.rows.iter().find(|row| number(row, "protocol") == 1).expect("an ICMP message");
    let quoted = number(error, "quotes");
    assert_eq!(word(arrived[&quoted], "fate"), "nobody");
    assert_eq!(number(packets[&quoted], "payload"), 6);
}
