//! No two hosts have the same clocks and the same process numbers, so that programs which seed random numbers from these draw other ones on
//! each host and with each seed. Everything outside of the guests keeps to simulated time.

mod common;

use common::{compile, folder, read, run_well};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
const START_NS: i64 = 1_795_608_000_000_000_000;

/// An experiment in which each host executes the same programs at the same moment; `options` are those of all hosts.
fn lab(name: &str, options: &str) -> PathBuf {
    let folder = folder(&format!("host-clocks/{name}"));
    compile("tests/guest-programs/hosts/seeded.c", &folder);
    let mut text = format!(
        "general: {{ stop_time: 5 s, start_date: 2026-11-25T12:00:00Z, data_directory: run.data }}\n\
         host_option_defaults: {{ {options} }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n"
    );
    for host in HOSTS {
        text += &format!(
            "  {host}:\n    network_node_id: 0\n    processes:\n    - {{ path: {}/seeded }}\n    \
             - {{ path: bash, args: ['-c', 'echo $RANDOM $RANDOM'] }}\n",
            folder.display()
        );
    }
    fs::write(folder.join("experiment.yaml"), text).unwrap();
    folder
}

/// What a program of each host printed.
fn printed(folder: &Path, file: &str) -> Vec<String> {
    HOSTS.iter().map(|host| read(&folder.join("run.data/hosts").join(host).join(file))).collect()
}

fn run(folder: &Path, seed: u32) {
    let data = folder.join("run.data");
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    run_well(folder, "experiment.yaml", &["--seed", &seed.to_string()]);
}

/// The number behind a word in what `seeded` printed.
fn number(text: &str, word: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(word)).expect("the line of this word");
    line.trim().parse().expect("a number")
}

#[test]
fn what_is_seeded_from_clocks_and_process_numbers_differs_by_host_and_by_seed() {
    let lab = lab("drawn", "");
    let mut all: Vec<BTreeSet<String>> = vec![BTreeSet::new(); 2];
    let mut seen = BTreeSet::new();
    for seed in [1, 2] {
        run(&lab, seed);
        for text in printed(&lab, "seeded.1000.stdout") {
            assert!((0..10_000_000).contains(&(number(&text, "real") - START_NS)), "{text}");
            assert!((1_000_000_000_000..86_000_000_000_000).contains(&number(&text, "up")), "{text}");
            for word in ["real", "up", "pid"] {
                assert!(seen.insert((word, number(&text, word))), "{word} of two hosts, or two seeds: {text}");
            }
        }
        let drawn = printed(&lab, "seeded.1000.stdout").iter().map(|text| number(text, "drawn").to_string()).collect();
        for (all, texts) in all.iter_mut().zip([drawn, printed(&lab, "bash.1001.stdout")]) {
            all.extend(texts);
        }
    }
    let counts: Vec<usize> = all.iter().map(BTreeSet::len).collect();
    assert_eq!(counts, [2 * HOSTS.len(); 2], "{all:?}");
    let log = read(&lab.join("run.data/gnomon.log"));
    assert!(log.contains("started process 1000 ("), "{log}");
    assert!(log.lines().any(|line| line.contains("00:00:00.000000000") && line.contains("started process")), "{log}");
}

#[test]
fn clocks_are_set_by_an_option() {
    let exact = lab("exact", "clock_offset: 0");
    run(&exact, 1);
    for text in printed(&exact, "seeded.1000.stdout") {
        assert_eq!(number(&text, "real"), START_NS, "{text}");
    }
    let slow = lab("slow", "clock_offset: -1500 ms");
    run(&slow, 1);
    for text in printed(&slow, "seeded.1000.stdout") {
        assert_eq!(number(&text, "real"), START_NS - 1_500_000_000, "{text}");
    }
    let config = read(&slow.join("run.data/processed-config.yaml"));
    assert!(config.contains("clock_offset: -1500 ms"), "{config}");
}
