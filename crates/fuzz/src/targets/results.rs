//! What runs left, as `gnomon report` and `gnomon tor status` read it. Parts are the files of a data directory, in the order of `FILES`.

use crate::folder;
use std::path::Path;

const FILES: [&str; 10] = [
    "processed-config.yaml",
    "sim-stats.json",
    "tor-network.json",
    "progress.csv",
    "host-traffic.csv",
    "hosts/client1/gnomon-traffic.1000.stdout",
    "hosts/client1/tor.1001.stdout",
    "hosts/client1/oniontrace.1002.stdout",
    "hosts/client1/tgen.1003.stdout",
    "hosts/relay1/tor.1000.stdout",
];

pub fn run(data: &[u8]) {
    let directory = folder::empty("results.data");
    folder::write(&directory.join(FILES[0]), b"");
    for name in ["client1", "relay1"] {
        std::fs::create_dir_all(directory.join("hosts").join(name)).expect("a folder");
    }
    for (number, text) in folder::parts(data) {
        folder::write(&directory.join(FILES[number]), &text);
    }
    read(&directory);
}

fn read(directory: &Path) {
    let run = report::read_run(directory, "run").expect("a data directory");
    assert!(!format!("{run:?}").is_empty());
    match tornet::status::Status::read(directory) {
        Ok(status) => assert!(!status.json().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
