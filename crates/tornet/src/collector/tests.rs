//! Readers of the Tor project's files, against samples and broken ones.

use super::*;
use std::fs;

const A: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAA";
const B: &str = "//////////////////////////8";

fn consensus() -> String {
    format!(
        "@type network-status-consensus-3 1.0\nnetwork-status-version 3\nvote-status consensus\nvalid-after 2021-07-09 15:00:00\n\
         r one {A} {A} 2021-07-09 11:22:33 1.2.3.4 9001 0\ns Exit Fast Guard Running Stable Valid\nv Tor 0.4.6.5\nw Bandwidth=2000\n\
         p accept 80,443\n\
         r two {B} {A} 2021-07-09 11:22:33 5.6.7.8 9001 0\ns Fast Guard Running Stable Valid\nw Bandwidth=500\np reject 1-65535\n\
         r off {B} {A} 2021-07-09 11:22:33 5.6.7.9 9001 0\ns Fast Valid\nw Bandwidth=500\np reject 1-65535\n\
         directory-footer\nbandwidth-weights Wbd=0\n"
    )
}

const DESCRIPTORS: &str = "\
@type server-descriptor 1.0
router one 1.2.3.4 9001 0 0
fingerprint 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000
bandwidth 1073741824 1073741824 1250000
router-signature
@type server-descriptor 1.0
router two 5.6.7.8 9001 0 0
bandwidth 1000000 2000000 9000000
fingerprint FFFF FFFF FFFF FFFF FFFF FFFF FFFF FFFF FFFF FFFF
";

const BANDWIDTHS: &str = "\
1625842800
version=1.4.0
=====
bw=42 error_circ=0 node_id=$0000000000000000000000000000000000000000 nick=one
bw=7 node_id=$FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF nick=two
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }
}

fn only_consensus(folder: &Folder, text: &str) -> Sources {
    Sources { consensus: folder.file("consensus", text), ..Sources::default() }
}

#[test]
fn relays_have_the_roles_weights_and_capacities_of_their_files() {
    let folder = Folder::new();
    folder.file("descriptors/0/a", DESCRIPTORS);
    let sources = Sources {
        descriptors: vec![folder.0.path().join("descriptors")],
        bandwidths: Some(folder.file("bandwidths", BANDWIDTHS)),
        geoip: Some(folder.file("geoip", "# comment\n16908288,16974591,SE\n84281088,84346623,JP\n")),
        ..only_consensus(&folder, &consensus())
    };
    let model = Model::read(&sources, 1).expect("a model");
    let place = |code| model.geography.index(code).expect("a place");
    let [one, two] = &model.relays[..] else { panic!("two relays run: {:?}", model.relays) };
    assert_eq!(
        (one.role, one.weight, one.bandwidth.bits_per_sec(), one.place),
        (Role::GuardExit, 42, 10_000_000, place("SE"))
    );
    // What it observed is more than its operator allows.
    assert_eq!(
        (two.role, two.weight, two.bandwidth.bits_per_sec(), two.place),
        (Role::Guard, 7, 8_000_000, place("JP"))
    );
    assert_eq!((model.network.guards, model.network.guard_exits, model.network.exits), (1, 1, 0));
    assert_eq!(model.source, "the consensus of 2021-07-09 15:00:00");
}

#[test]
fn a_consensus_alone_will_do() {
    let folder = Folder::new();
    let model = Model::read(&only_consensus(&folder, &consensus()), 1).expect("a model");
    assert_eq!(model.relays[0].bandwidth.bits_per_sec(), 16_000_000);
    assert_eq!(model.users, Model::public().users);
}

#[test]
fn users_are_where_the_file_says() {
    let folder = Folder::new();
    let text = "# comment\ndate,country,users,lower,upper,frac\n2021-07-01,,100,,,\n2021-07-01,de,30,,,\n2021-07-02,de,10,,,\n2021-07-01,us,60,,,\n";
    let sources = Sources { users: Some(folder.file("users.csv", text)), ..only_consensus(&folder, &consensus()) };
    let model = Model::read(&sources, 1).expect("a model");
    let users = |code: &str| model.users[model.geography.index(code).expect("a place")];
    assert_eq!((users("DE"), users("US"), users("FR")), (40.0, 60.0, 0.0));
}

/// The message that `change` to the good consensus leads to.
fn refusal(change: impl Fn(String) -> String) -> String {
    let folder = Folder::new();
    let text = change(consensus());
    let error = Model::read(&only_consensus(&folder, &text), 1).expect_err("a broken consensus");
    error.to_string()
}

#[test]
fn broken_consensuses_are_refused_with_file_line_and_what_is_expected() {
    let cases: [(&str, &str, &str); 5] = [
        ("network-status-version 3", "<html>", "consensus:2: expected 'network-status-version 3'"),
        ("w Bandwidth=2000", "w Bandwidth=many", "consensus:8: expected 'w Bandwidth=NUMBER'"),
        ("1.2.3.4 9001 0", "1.2.3.4 9001", "consensus:5: expected 'r NICKNAME"),
        ("directory-footer\n", "", "consensus: ends before the line 'directory-footer'"),
        ("s Exit Fast Guard Running Stable Valid\n", "", "consensus:5: expected a relay with a line of flags"),
    ];
    for (text, replacement, expected) in cases {
        let message = refusal(|good| good.replacen(text, replacement, 1));
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert!(refusal(|_| String::new()).contains("consensus: is empty"));
}

#[test]
fn broken_descriptors_and_bandwidths_are_refused_with_file_and_line() {
    let folder = Folder::new();
    let good = only_consensus(&folder, &consensus());
    let broken = DESCRIPTORS.replace("1250000", "fast");
    let descriptors = Sources { descriptors: vec![folder.file("broken", &broken)], ..good.clone() };
    let message = Model::read(&descriptors, 1).expect_err("broken").to_string();
    assert!(message.contains("broken:4: expected 'bandwidth AVERAGE BURST OBSERVED'"), "{message}");
    let bandwidths = Sources { bandwidths: Some(folder.file("v3bw", "hello\n")), ..good.clone() };
    let message = Model::read(&bandwidths, 1).expect_err("broken").to_string();
    assert!(message.contains("v3bw:1: expected the seconds since 1970"), "{message}");
    let missing = Sources { bandwidths: Some(PathBuf::from("nowhere")), ..good };
    assert!(Model::read(&missing, 1).expect_err("missing").to_string().starts_with("nowhere cannot be read"));
}

#[test]
fn descriptors_of_other_relays_leave_none() {
    let folder = Folder::new();
    let others = DESCRIPTORS.replace("0000 0000", "1111 1111").replace("FFFF FFFF", "2222 2222");
    let sources =
        Sources { descriptors: vec![folder.file("others", &others)], ..only_consensus(&folder, &consensus()) };
    let message = Model::read(&sources, 1).expect_err("no relay left").to_string();
    assert!(message.contains("none of its 2 running relays"), "{message}");
}
