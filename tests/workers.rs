//! Experiments drawn from a seed (graph, hosts, programs, starts, ends) give the same bits with any number of workers, whichever of them
//! runs a host.
//!
//!     GNOMON_TEST_SEED=7 GNOMON_TEST_EXPERIMENTS=100 cargo test --release --test workers -- --nocapture

mod common;

use common::{digest, drawn, folder, stats, tree};
use std::fs;
use std::path::Path;

/// What is compared with one worker.
const WAYS: [(&str, &str); 7] = [
    ("2", "steal"),
    ("2", "static"),
    ("2", "steal-longest"),
    ("3", "steal"),
    ("8", "steal-longest"),
    ("8", "static"),
    ("2", "serial"),
];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text}")))
}

/// Runs an experiment in one way; its digest, and every file of its hosts.
fn run(folder: &Path, workers: &str, policy: &str) -> (String, std::collections::BTreeMap<String, Vec<u8>>) {
    let data = folder.join("run.data");
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    // Programs end as the seed has it: not all as one would expect of them.
    let output = common::run(folder, "experiment.yaml", &["--parallelism", workers, "--policy", policy]);
    assert!(data.join("sim-stats.json").is_file(), "{}{}", output.stdout, output.stderr);
    let interferences = stats(&data)["gnomon"]["interferences"].clone();
    assert!(interferences.as_object().is_none_or(serde_json::Map::is_empty), "the machine had a say: {interferences}");
    (digest(&data), tree(&data.join("hosts")))
}

#[test]
fn drawn_experiments_do_not_depend_on_workers_or_policies() {
    let first = number("GNOMON_TEST_SEED", 1);
    for seed in first..first + number("GNOMON_TEST_EXPERIMENTS", 3) {
        let folder = folder(&format!("workers/{seed}"));
        drawn::set_up(seed, &folder);
        let (expected, files) = run(&folder, "1", "steal");
        // Each seed takes three of the ways.
        for way in 0..3 {
            let (workers, policy) = WAYS[((seed * 3 + way) % WAYS.len() as u64) as usize];
            let (digest, same) = run(&folder, workers, policy);
            let differs = |(path, content): &(&String, &Vec<u8>)| same.get(*path) != Some(*content);
            let differing: Vec<_> = files.iter().filter(differs).map(|(path, _)| path).collect();
            assert!(
                differing.is_empty() && files.len() == same.len() && digest == expected,
                "seed {seed}: with --parallelism {workers} --policy {policy} {digest}, not {expected}; other files: {differing:?}; see {}",
                folder.display()
            );
        }
        println!("seed {seed}: {expected}");
    }
}
