//! The program from outside: help, and what it refuses.

use std::fs;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gnomon-onion-client"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[test]
fn help_and_version_are_said() {
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--AttackVictim"));
    let version = run(&["-V"]);
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        concat!("gnomon-onion-client ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn what_is_wrong_is_refused() {
    for (arguments, message) in [
        (&[][..], "gnomon-onion-client: no DirAuthority in the torrc: this client knows no network by itself\n"),
        (&["-f", "/nowhere/torrc"], "gnomon-onion-client: /nowhere/torrc: No such file or directory (os error 2)\n"),
        (
            &["--SocksPort", "somewhere"],
            "gnomon-onion-client: --SocksPort: SocksPort somewhere: ADDRESS:PORT is needed, IPv4\n",
        ),
        (&["torrc"], "gnomon-onion-client: unexpected argument \"torrc\"\n"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    }
}

#[test]
fn a_wrong_line_is_named_with_its_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("torrc");
    fs::write(&file, "# The client's.\nSocksTimeout soon\n").unwrap();
    let output = run(&["-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let place = format!("{}:2: SocksTimeout soon: a time is needed", file.display());
    assert!(String::from_utf8_lossy(&output.stderr).contains(&place), "{output:?}");
}
