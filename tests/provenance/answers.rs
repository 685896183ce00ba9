//! Questions about a record, from outside: `gnomon packet` and `gnomon memory`, and what `gnomon export` refuses, on a record that was generated.

use provenance::generate::{Scenario, record};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A data directory with a record of all, and one with a summary only.
pub fn runs() -> &'static TempDir {
    static RUNS: OnceLock<TempDir> = OnceLock::new();
    RUNS.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        for (name, level) in [("all", "all"), ("packets", "packets"), ("summary", "summary")] {
            let run = folder.path().join(name);
            std::fs::create_dir(&run).unwrap();
            let level = level.parse().unwrap();
            let scenario = Scenario { packets: 40_000, hosts: 12, loss: 0.02, level, ..Scenario::default() };
            record(&scenario, &run.join(provenance::FOLDER)).unwrap();
        }
        folder
    })
}

fn gnomon(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    command.args(args).current_dir(runs().path()).output().unwrap()
}

pub fn answer(args: &[&str]) -> String {
    let output = gnomon(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(args: &[&str], status: i32) -> String {
    let output = gnomon(args);
    assert_eq!(output.status.code(), Some(status));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn tree(run: &str, packet: &str) -> Value {
    serde_json::from_str(&answer(&["packet", "--json", run, packet])).unwrap()
}

/// All packets of a tree that pass a test.
fn packets<'a>(nodes: &'a Value, test: &dyn Fn(&Value) -> bool) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for node in nodes.as_array().unwrap() {
        found.extend(Some(node).filter(|node| test(node)));
        for below in ["fragments", "copies", "answers"] {
            found.extend(packets(&node[below], test));
        }
    }
    found
}

/// The first packet of a host for which a row of `sent` passes a test.
fn find(host: &str, test: impl Fn(&probes::tables::Sent) -> bool) -> String {
    let record = provenance::Record::open(&runs().path().join("all")).unwrap();
    let sent = record.packets(provenance::read::ANY, usize::MAX).unwrap();
    let is_it = |sent: &&probes::tables::Sent| test(sent) && record.name(sent.packet).starts_with(host);
    record.name(sent.iter().find(is_it).expect("there is one").packet)
}

#[test]
fn a_segment_leads_to_its_write_and_read_and_its_layers_sum_up() {
    let name = find("relay", |sent| sent.payload == 1448 && sent.copy_of == 0 && sent.route_ns > 0);
    let tree = tree("all", &name);
    let (write, read) = (&tree["write"], &tree["reads"][0]);
    assert_eq!(write["stream"], read["stream"]);
    let is_it = |node: &Value| node["name"] == name.as_str();
    let node = packets(&tree["packets"], &is_it)[0];
    let layers = node["layers"][0].as_array().unwrap();
    let names: Vec<&str> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    assert_eq!(names, ["socket", "uplink", "route", "downlink", "reassembly", "receive_queue"]);
    let total: u64 = layers.iter().map(|layer| layer["ns"].as_u64().unwrap()).sum();
    assert_eq!(total, read["at_ns"].as_u64().unwrap() - write["at_ns"].as_u64().unwrap());
    assert_eq!(tree["causes"][0]["read"]["read"], tree["causes"][0]["cause"]["read"]);
    let text = answer(&["packet", "all", &name]);
    assert!(text.contains(&format!("> {name} to")) && text.contains("receive_queue"), "{text}");
}

#[test]
fn what_was_lost_and_sent_again_hangs_on_what_was_lost() {
    let again = find("relay", |sent| sent.copy_of != 0);
    let tree = tree("all", &again);
    let lost = packets(&tree["packets"], &|node| !node["copies"].as_array().unwrap().is_empty());
    let copy = &lost[0]["copies"][0];
    assert_eq!((&lost[0]["sent"]["fate"], &copy["sent"]["copy_of"]), (&"lost".into(), &lost[0]["sent"]["packet"]));
    assert_eq!(packets(&tree["packets"], &|node| node["name"] == again.as_str()).len(), 1);
}

#[test]
fn a_datagram_has_its_fragments_and_the_message_about_it() {
    let fragment = find("client", |sent| sent.parent != 0);
    let tree_of_fragment = tree("all", &fragment);
    let datagram = &tree_of_fragment["packets"][0];
    assert_eq!(datagram["sent"]["fate"], "fragmented");
    let fragments = datagram["fragments"].as_array().unwrap();
    assert_eq!(fragments.len(), 6);
    // It goes where its fragments go, and has left when the last of them has.
    let last = &fragments[5]["sent"];
    assert!(last["uplink_ns"].as_u64() > Some(0), "{last}");
    for column in ["to_host", "uplink_ns", "route_ns"] {
        assert_eq!(datagram["sent"][column], last[column], "{column}");
    }
    let answer = find("server", |sent| sent.quotes != 0);
    let quoted = tree("all", &answer);
    assert_eq!(quoted["packets"][0]["answers"][0]["name"], answer.as_str());
    assert_eq!(quoted["packets"][0]["received"][0]["fate"], "nobody");
}

#[test]
fn a_packet_is_named_in_three_ways_and_found_without_writes_too() {
    let name = find("relay", |sent| sent.payload > 0);
    let tree_by_name = tree("all", &name);
    let (uuid, number) = (tree_by_name["uuid"].as_str().unwrap(), tree_by_name["packet"].as_u64().unwrap());
    assert_eq!(tree("all", uuid), tree_by_name);
    assert_eq!(tree("all", &format!("@{number}")), tree_by_name);
    assert_eq!(tree("all", &uuid[..20].to_uppercase()), tree_by_name);
    let without = tree("packets", &name);
    assert!(without["write"].is_null() && without["packets"][0]["received"].is_array());
}

#[test]
fn what_is_no_packet_is_refused_with_what_to_do() {
    let ambiguous = refusal(&["packet", "all", "0000"], 2);
    assert!(ambiguous.contains("more than 20 packets") && ambiguous.lines().count() == 21, "{ambiguous}");
    for (run, packet, says) in [
        ("all", "xyz", "no hexadecimal digit"),
        ("all", "relay99:1", "no host 'relay99'"),
        ("all", "relay1:0", "a count, from 1"),
        ("all", "@x", "behind '@' stands its number"),
        ("all", "00000000-0000-8000-8999", "no UUID of this run"),
        (
            "summary",
            "relay1:1",
            "the run recorded 'summary', which has no packets; record them with --provenance packets",
        ),
        (".", "0", "a run records it with --provenance packets"),
        ("nowhere", "0", "there is no such data directory"),
    ] {
        let text = refusal(&["packet", run, packet], 2);
        assert!(text.contains(says), "{packet}: {text}");
    }
    assert!(refusal(&["packet", "all", "relay1:999999"], 1).contains("was recorded"));
}

#[test]
fn memory_is_shown_by_the_beginning_of_its_address() {
    let all: Value = serde_json::from_str(&answer(&["memory", "--json", "all"])).unwrap();
    let bytes = |used: &Value| used["written_bytes"].as_u64().unwrap() + used["read_bytes"].as_u64().unwrap();
    let parts = all["parts"].as_array().unwrap();
    assert!(parts.len() > 1);
    assert_eq!(parts.iter().map(|part| bytes(&part["use"])).sum::<u64>(), bytes(&all["use"]));
    let prefix = parts[1]["prefix"].as_str().unwrap();
    let part: Value = serde_json::from_str(&answer(&["memory", "--json", "all", prefix])).unwrap();
    assert_eq!(part["use"], parts[1]["use"]);
    let buffer = &part["buffers"][0];
    let one: Value =
        serde_json::from_str(&answer(&["memory", "--json", "all", buffer["address"].as_str().unwrap()])).unwrap();
    assert_eq!((&one["buffers"][0], &one["use"]), (buffer, &buffer["use"]));
    assert!(answer(&["memory", "all"]).contains("in all"));
    assert!(refusal(&["memory", "all", "fff"], 1).contains("begin with 'fff'"));
    assert!(refusal(&["memory", "all", "0x1234567890abc"], 2).contains("up to twelve hexadecimal digits"));
    assert!(refusal(&["memory", "packets"], 2).contains("record them with --provenance all"));
}

#[test]
fn a_record_of_another_version_is_not_guessed_at() {
    let folder = TempDir::new().unwrap();
    let record = folder.path().join(provenance::FOLDER);
    std::fs::create_dir(&record).unwrap();
    let schema = |text: &str| std::fs::write(record.join("schema.json"), text).unwrap();
    let asks = |folder: &Path| refusal(&["packet", folder.to_str().unwrap(), "0"], 2);
    schema("{\"version\": \"gnomon-provenance/99\"}");
    assert!(asks(folder.path()).contains("'gnomon-provenance/99', and this Gnomon reads"), "{}", asks(folder.path()));
    schema("{");
    assert!(asks(folder.path()).contains("schema.json"));
}

#[test]
fn an_export_is_bounded_and_of_hosts_that_there_are() {
    let refused = refusal(&["export", "all", "--otlp", "x", "--most", "10"], 2);
    assert!(refused.contains("more than 10 packets") && refused.contains("--from"), "{refused}");
    assert!(refusal(&["export", "all", "--otlp", "x", "--host", "nobody"], 2).contains("no host 'nobody'"));
    assert!(refusal(&["export", "all"], 2).contains("--perfetto"));
    assert!(refusal(&["export", "summary", "--otlp", "x"], 2).contains("--provenance packets"));
    let told = answer(&["export", "all", "--otlp", "/dev/null", "--host", "relay3", "--until", "2 s"]);
    assert!(told.contains("packets"), "{told}");
    let file = runs().path().join("kept.json");
    std::fs::write(&file, "kept").unwrap();
    let refused = refusal(&["export", "all", "--otlp", "kept.json", "--from", "5 s", "--until", "1 s"], 2);
    assert!(refused.contains("ends (1 s) before it begins (5 s)"), "{refused}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
}

#[test]
fn what_is_missing_of_a_record_is_told_beside_the_answer() {
    let folder = TempDir::new().unwrap();
    let scenario = Scenario { packets: 2_000, hosts: 6, ..Scenario::default() };
    record(&scenario, &folder.path().join(provenance::FOLDER)).unwrap();
    let run = folder.path().to_str().unwrap();
    let written = provenance::Record::open(folder.path()).unwrap();
    let packet = written.name(written.packets(provenance::read::ANY, 1).unwrap()[0].packet);
    let asked = |args: &[&str]| {
        let output = gnomon(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    let questions = [&["packet", run, &packet][..], &["memory", run], &["export", run, "--otlp", "/dev/null"]];
    questions.iter().for_each(|question| assert_eq!(asked(question), ""));
    std::fs::remove_file(folder.path().join("provenance/wakes/00001.parquet")).unwrap();
    for question in questions {
        let told = asked(question);
        assert!(told.contains("is damaged: table 'wakes' has 0 rows in 1 files of the "), "{told}");
        assert_eq!(told.lines().count(), 1);
    }
}

#[test]
fn a_run_records_what_its_filter_keeps() {
    let folder = TempDir::new().unwrap();
    let run = |data: &str, filter: &str| {
        let data = folder.path().join(data);
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
        command.args(["exec", "--provenance", "all", "--provenance-filter", filter, "-d"]).arg(&data);
        let script = "iperf3 -s -1 >/dev/null & sleep 1; iperf3 -c 127.0.0.1 -n 1M >/dev/null; wait";
        let output = command.args(["sh", "-c", script]).output().unwrap();
        (data, output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (data, status, said) = run("kept", "payload > 1000 && to == host");
    assert_eq!(status, Some(0), "{said}");
    let sent = provenance::Record::open(&data).unwrap().packets(provenance::read::ANY, usize::MAX).unwrap();
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.payload > 1000));
    let (data, status, said) = run("none", "payload > 100000");
    assert!(status == Some(0) && said.contains("it has chosen none of ") && data.exists(), "{said}");
    assert_eq!(provenance::Record::open(&data).unwrap().notice(), None);
    let (data, status, said) = run("refused", "payload > to");
    assert!(said.contains("experimental.provenance_filter: line 1, column 9: '>' is not for (int, string)"), "{said}");
    assert!(status == Some(2) && !data.exists());
}
