//! Open sockets: as many as were wanted, by several processes where one may not have them.

mod common;

use serde_json::Value;
use std::process::Command;

/// The lines about sockets of a call whose processes may have so many descriptors.
fn opened(descriptors: u32, arguments: &str) -> Vec<Value> {
    let script = format!("ulimit -n {descriptors}; exec \"$0\" sockets {arguments}");
    let output = Command::new("/bin/sh").args(["-c", &script, common::PROGRAM]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.last().map(|line| line["kind"].clone()), Some("end".into()), "{text}");
    lines.into_iter().filter(|line| line["kind"] == "sockets").collect()
}

#[test]
fn a_process_opens_what_it_may_and_others_the_rest() {
    // Two processes as an ordinary user; whoever may raise the limit needs one.
    let lines = opened(200, "--count 200 --every 50");
    let open: Vec<u64> = lines.iter().map(|line| line["open"].as_u64().expect("a number")).collect();
    assert!(open.is_sorted() && open.first() == Some(&0) && open.last() == Some(&200), "{open:?}");
    assert!(lines.iter().all(|line| line["limit"].is_null()), "{lines:?}");
    for line in &lines[1..] {
        assert!(line["connect"].as_f64().is_some_and(|time| time > 0.0) && line["slab"].as_u64() > Some(0), "{line}");
    }
}

#[test]
fn wrong_numbers_are_refused() {
    let output = Command::new(common::PROGRAM).args(["sockets", "--every", "0"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "gnomon-traffic: --every is more than 0\n");
}
