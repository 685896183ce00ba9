//! The record of packets and bytes: it changes nothing, is the same for any number of workers, and adds up to the last byte and nanosecond.

mod answers;
mod broken_off;
mod chains;
#[path = "../common/mod.rs"]
mod common;
mod companion;
mod exports;
mod leaks;
mod notes;
mod onion;
mod table;
mod trees;

use common::{digest, find_program, find_python, folder, root, run_well, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::{Row, Table, number, word};

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
        ("echo", 1, vec![format!("path: {python}, args: '\"{script}\" server', expected_final_state: running")]),
        (
            "client",
            1,
            vec![
                "path: iperf3, args: --client server --time 3, start_time: 1 s".to_owned(),
                "path: iperf3, args: --client server --time 3 --reverse, start_time: 6 s".to_owned(),
                "path: curl, args: -q -s -S http://web/, start_time: 3 s".to_owned(),
            ],
        ),
        ("other", 0, vec![format!("path: {python}, args: '\"{script}\" client echo', start_time: 2 s")]),
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

#[test]
fn captures_name_packets_as_the_record_does() {
    let Some(tshark) = find_program("tshark") else { return common::leave_out("tshark: tools/install-packages test") };
    let folder = folder("provenance-captures");
    fs::write(folder.join("network.yaml"), experiment() + "host_option_defaults: { pcap_enabled: true }\n").unwrap();
    run_well(&folder, "network.yaml", &["--provenance", "packets"]);
    let data = folder.join("run.data");
    let sent = Table::read(&data, "sent");
    let numbers = sent.by("packet");
    let mut seen = BTreeSet::new();
    for file in ["client/eth0.pcap", "other/eth0.pcap", "alone/lo.pcap"] {
        let shown = Command::new(&tshark)
            .args(["-r", data.join("hosts").join(file).to_str().unwrap(), "-T", "fields", "-e", "frame.packet_id"])
            .output()
            .unwrap();
        for line in String::from_utf8(shown.stdout).unwrap().lines() {
            let number = line.parse().unwrap_or_else(|_| panic!("{file}: '{line}'"));
            assert!(numbers.contains_key(&number), "{file}: {number}");
            seen.insert(number);
        }
    }
    assert!(seen.len() > 2000, "{}", seen.len());
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
    // What packets took of the machine is all that may differ.
    let files_of = |data: &Path| {
        let mut files = tree(&data.join("provenance"));
        files.retain(|name, _| !name.starts_with("costs/"));
        files
    };
    let files = files_of(&one);
    assert!(files.len() > 10, "{:?}", files.keys());
    let measured = measured_packets(&one);
    for workers in ["2", "3", "8"] {
        let data = record(&folder, &format!("all-{workers}"), "all", workers);
        assert_eq!(digest(&data), without);
        let others = files_of(&data);
        let names: Vec<&String> = files.keys().filter(|name| files.get(*name) != others.get(*name)).collect();
        assert!(names.is_empty() && files.len() == others.len(), "{workers} workers: {names:?}");
        assert_eq!(measured_packets(&data), measured);
    }
}

/// The packets whose costs are on record, each with its layers; the costs are looked at for whether they can be true.
fn measured_packets(data: &Path) -> BTreeMap<u64, Vec<String>> {
    let (costs, sent) = (Table::read(data, "costs"), Table::read(data, "sent"));
    let sent: BTreeSet<u64> = sent.rows.iter().map(|row| number(row, "packet")).collect();
    let (mut packets, mut sums) = (BTreeMap::<u64, Vec<String>>::new(), BTreeMap::<String, u64>::new());
    for row in &costs.rows {
        let (packet, layer) = (number(row, "packet"), word(row, "layer").to_owned());
        assert!(sent.contains(&packet), "{packet} was never made");
        *sums.entry(layer.clone()).or_default() += number(row, "host_ns");
        packets.entry(packet).or_default().push(layer);
    }
    assert!((sent.len() / 2000..sent.len() / 100).contains(&packets.len()), "{} of {}", packets.len(), sent.len());
    let layers: Vec<&str> = sums.keys().map(String::as_str).collect();
    assert_eq!(layers, ["downlink", "reassembly", "receive_queue", "route", "socket", "uplink"]);
    for (layer, sum) in &sums {
        let mean = sum / packets.len() as u64;
        assert!((1..1_000_000).contains(&mean), "{layer}: {mean} ns for a packet");
    }
    packets
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

    // What the router dropped never came down the link, and is not in the histogram of times there.
    let came = |not: &[&str]| received.rows.iter().filter(|row| !not.contains(&word(row, "fate"))).count() as u64;
    let layers = Table::read(&data, "layers");
    let downlink = layers.rows.iter().filter(|row| word(row, "layer") == "downlink");
    let counted: u64 = downlink.map(|row| number(row, "packets")).sum();
    assert!(came(&["dropped"]) < came(&[]), "nothing was dropped");
    assert!((came(&["dropped", "waiting"])..=came(&["dropped"])).contains(&counted), "{counted}");

    // A program that asks for a name writes the question; the answer is the simulator's, whoever called last.
    let is_asked = |row: &&Row| word(row, "fate") == "looped" && number(row, "protocol") == 17;
    let pid_of = |row: &Row| {
        let offset = number(row, "offset");
        let write = writes_of[&number(row, "stream")].iter().find(|write| number(write, "offset") == offset);
        number(write.expect("a write"), "pid")
    };
    let pids: Vec<u64> = sent.rows.iter().filter(is_asked).map(pid_of).collect();
    let by_nobody = pids.iter().filter(|pid| **pid == 0).count();
    assert!(by_nobody >= 1 && 2 * by_nobody == pids.len(), "{pids:?}");
}
