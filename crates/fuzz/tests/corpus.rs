//! Every input of the corpus, and variations of them: nothing panics, hangs or ends the process.
//!
//! An input that once found something is named after that; the others show what a target takes, or came from the fuzzer, for the branches that
//! they take.

use fuzz::mutate::{Dice, vary};
use fuzz::{TARGETS, Target};
use std::fs;
use std::path::Path;

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read(path).expect("a file"))).collect()
}

/// Says which input it was that panicked.
struct Trying<'a>(&'a str, &'a str);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("target {}, {}", self.0, self.1);
        }
    }
}

fn replay(target: &Target) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{} has no corpus", target.name);
    for (name, input) in &corpus {
        let _trying = Trying(target.name, name);
        (target.run)(input);
    }
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    for number in 0..target.variations {
        let input = vary(&inputs, target.longest, &mut Dice::new(number as u64));
        let what = format!("variation {number}: {}", input.escape_ascii());
        let _trying = Trying(target.name, &what);
        (target.run)(&input);
    }
}

/// On a thread of its own, which may write nowhere but in its folder.
fn replay_confined(names: &[&str]) {
    for target in TARGETS.iter().filter(|target| names.contains(&target.name)) {
        let replayed = std::thread::spawn(|| {
            fuzz::confine(&[]);
            replay(target);
        });
        assert!(replayed.join().is_ok(), "{}: see above", target.name);
    }
}

#[test]
fn readers_of_files_take_anything() {
    replay_confined(&[
        "elf",
        "experiment",
        "graph",
        "graph_xz",
        "markov",
        "results",
        "symbols",
        "tor_files",
        "traffic_config",
    ]);
}

#[test]
fn the_network_takes_anything() {
    replay_confined(&["dns", "onion_cells", "onion_directory", "onion_link", "onion_numbered", "packets"]);
}

#[test]
fn the_simulated_kernel_takes_anything() {
    replay_confined(&["calls", "netlink", "terminal"]);
}

#[test]
fn every_target_is_replayed_and_every_folder_has_a_target() {
    let text = include_str!("corpus.rs");
    for target in TARGETS {
        assert!(text.contains(&format!("\"{}\"", target.name)), "{} is not replayed", target.name);
    }
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).expect("the corpus") {
        let name = entry.expect("an entry").file_name();
        assert!(fuzz::target_named(&name.to_string_lossy()).is_some(), "no target {name:?}");
    }
}
