//! The program from outside: help, what it refuses, keys that stay.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
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

/// A port of this host that nobody has.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_system_that_allows_fewer_sockets_is_told_of_once() {
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    let mut relay = Command::new("/bin/sh")
        .args(["-c", "ulimit -n 40; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_gnomon-relay"), "--Address", "127.0.0.1"])
        .args([
            "--ORPort",
            &port.to_string(),
            "--PublishServerDescriptor",
            "0",
            "--ConnLimit",
            "1000",
            "--DataDirectory",
        ])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(relay.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.contains("[notice] gnomon-relay")), "it has begun");
    let connect =
        |count: usize| (0..count).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect::<Vec<_>>();
    let first = connect(60);
    let warning = lines.by_ref().find(|line| line.contains("[warn]")).expect("a warning");
    assert!(warning.contains("fewer than ConnLimit 1000"), "{warning}");
    drop(first);
    // It goes on, without another.
    let mut again = connect(60);
    again[0].set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    again[0].write_all(&[0; 64]).unwrap();
    let _ = again[0].read(&mut [0; 16]);
    relay.kill().unwrap();
    let more: Vec<String> = lines.filter(|line| line.contains("[warn]")).collect();
    assert!(more.is_empty(), "{more:?}");
    relay.wait().unwrap();
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
