//! `gnomon query` and `gnomon view` hand over to the program beside them.

use crate::common::{capture, folder, gnomon, leave_out, limited};
use provenance::generate::{Scenario, record};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A copy of `gnomon`, in a folder where nothing is beside it.
fn copy(folder: &Path) -> PathBuf {
    let alone = folder.join("gnomon");
    fs::copy(env!("CARGO_BIN_EXE_gnomon"), &alone).unwrap();
    alone
}

#[test]
fn the_program_beside_is_given_what_was_asked_and_answers_for_itself() {
    let folder = folder("provenance-companion");
    let alone = copy(&folder);
    let missing = capture(limited(&alone).args(["view", "run"]));
    assert_eq!((missing.code(), missing.stdout.as_str()), (2, ""));
    for part in ["there is no ", "/gnomon-view", "make build", "npm", "cargo build --release -p view"] {
        assert!(missing.stderr.contains(part), "{part}: {}", missing.stderr);
    }

    let beside = folder.join("gnomon-view");
    fs::write(&beside, "#!/bin/sh\nprintf '[%s]' \"$@\"\necho told >&2\nexit 7\n").unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["view", "a run"], "[serve][a run][0]"),
        (&["view", "run", "--port", "8000"], "[serve][run][8000]"),
        (&["view", "run", "-o", "page.html"], "[page][run][page.html]"),
        (&["query", "run", "SELECT 1, '--'"], "[query][run][table][-][SELECT 1, '--']"),
        (&["query", "run", "SELECT 1", "-o", "x.csv"], "[query][run][csv][x.csv][SELECT 1]"),
        (&["query", "run", "-", "--format", "json"], "[query][run][json][-][]"),
    ];
    for (arguments, given) in cases {
        let output = capture(limited(&alone).args(arguments));
        let seen = (output.code(), output.stdout.as_str(), output.stderr.as_str());
        assert_eq!(seen, (7, given, "told\n"), "{arguments:?}");
    }
}

#[test]
fn view_prints_its_address_and_says_what_is_wrong() {
    let program = Path::new(env!("CARGO_BIN_EXE_gnomon"));
    if !program.with_file_name("gnomon-view").is_file() {
        return leave_out("gnomon-view: cargo build --release -p view");
    }
    let folder = folder("provenance-view");
    let refused = capture(gnomon().args(["view", "nowhere"]).current_dir(&folder));
    assert_eq!((refused.code(), refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.starts_with("gnomon: ") && refused.stderr.contains("nowhere"), "{}", refused.stderr);

    fs::create_dir(folder.join("run")).unwrap();
    let scenario = Scenario { packets: 2_000, hosts: 12, ..Scenario::default() };
    record(&scenario, &folder.join("run").join(provenance::FOLDER)).unwrap();
    // No wrapper, which would be what is ended.
    let mut view = Command::new(program);
    let mut view = view.args(["view", "run"]).current_dir(&folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(view.stdout.take().unwrap()).read_line(&mut address).unwrap();
    view.kill().unwrap();
    view.wait().unwrap();
    assert!(address.starts_with("http://127.0.0.1:") && address.ends_with("/\n"), "{address}");
}
