//! Scripts of everyday programs (`tests/everyday`): archives, builds, jobs. Each runs natively and as a guest and prints the same.

mod common;

use common::{capture, find_program, folder, gnomon, root};
use std::process::Command;

/// A script's output natively and as a guest, which must be the same, and not nothing.
fn compare(name: &str, programs: &[&str]) {
    for program in programs {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    // The text itself: users of hosts may not read every folder that a clone lies in.
    let script = std::fs::read_to_string(root().join("tests/everyday").join(name)).unwrap();
    let script = format!("exec 2>&1\n{script}");
    let folder = folder(&format!("everyday/{name}"));
    let native_folder = folder.join("native");
    std::fs::create_dir(&native_folder).unwrap();
    let mut native = Command::new("timeout");
    native.args(["--kill-after", "5", "120", "bash", "-c", &script]).current_dir(native_folder);
    native.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", &folder);
    let native = capture(&mut native);
    let mut guest = gnomon();
    guest.args(["exec", "--quiet", "--stop-time", "5 min", "bash", "-c", &script]).current_dir(&folder);
    let guest = capture(&mut guest);
    assert_eq!(guest.stdout, native.stdout, "{}", guest.stderr);
    assert_eq!((guest.code(), native.code()), (0, 0), "{}", guest.stderr);
    assert!(!guest.stdout.is_empty());
}

#[test]
fn archives_and_pipelines_of_compressors() {
    compare("archives.sh", &["tar", "xz", "bzip2", "zstd", "cpio"]);
}

#[test]
fn programs_are_built_by_make() {
    compare("build.sh", &["make", "gcc", "g++", "ar"]);
}

#[test]
fn jobs_side_by_side() {
    compare("jobs.sh", &["parallel", "killall", "pkill", "flock"]);
}
