//! The program from outside: help, what it refuses, keys that stay.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gnomon-relay"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[test]
fn help_and_version_are_said() {
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--StatisticsFile"));
    let version = run(&["-V"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), concat!("gnomon-relay ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn what_is_missing_is_refused() {
    for (arguments, message) in [
        (&[][..], "gnomon-relay: Address is missing in the torrc\n"),
        (&["--Address", "127.0.0.1"], "gnomon-relay: ORPort is missing in the torrc\n"),
        (&["-f", "/nowhere/torrc"], "gnomon-relay: /nowhere/torrc: No such file or directory (os error 2)\n"),
        (&["--Address", "here"], "gnomon-relay: --Address: Address here: an IPv4 address is needed\n"),
        (&["torrc"], "gnomon-relay: unexpected argument \"torrc\"\n"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    }
}

#[test]
fn keys_stay_when_it_starts_again() {
    let folder = TempDir::new().unwrap();
    let keys = || {
        let mut relay = program()
            .args(["--Address", "127.0.0.1", "--ORPort", "39001", "--PublishServerDescriptor", "0", "--DataDirectory"])
            .arg(folder.path())
            .args(["--StatisticsFile"])
            .arg(folder.path().join("statistics"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The port may be somebody else's: keys are made before it is taken.
        let _ = BufReader::new(relay.stdout.take().unwrap()).lines().next();
        let _ = relay.kill();
        relay.wait().unwrap();
        ["secret_id_key", "gnomon_relay_seed"].map(|name| fs::read(folder.path().join("keys").join(name)).unwrap())
    };
    let first = keys();
    assert!(first[0].starts_with(b"-----BEGIN RSA PRIVATE KEY-----") && first[1].len() == 32);
    assert_eq!(keys(), first);
}
