//! The control port: what the monitor and a client with `control` log of it. The port is a thread that speaks as tor does.

mod common;

use common::{Server, client, run, serve_with};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// A control port that wants the password "word" and then tells what `events` has.
fn control_port(events: &'static str) -> SocketAddr {
    serve_with(move |socket| {
        let _ = serve(socket, events);
    })
}

fn serve(socket: TcpStream, events: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut socket = socket;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim_end() {
            "PROTOCOLINFO 1" => {
                socket.write_all(b"250-PROTOCOLINFO 1\r\n250-AUTH METHODS=HASHEDPASSWORD\r\n250-VERSION Tor=\"0.4.9.1\"\r\n250 OK\r\n")?;
            }
            "AUTHENTICATE \"word\"" => socket.write_all(b"250 OK\r\n")?,
            line if line.starts_with("SETEVENTS ") => {
                socket.write_all(b"250 OK\r\n")?;
                socket.write_all(events.as_bytes())?;
                return Ok(());
            }
            _ => socket.write_all(b"515 Authentication failed: Password did not match\r\n")?,
        }
    }
}

const EVENTS: &str = "650 CIRC 1 LAUNCHED PURPOSE=GENERAL\r\n650 BW 10 20\r\n\
    650 CIRC 1 BUILT $AAAA~one,$BBBB~two,$CCCC~three PURPOSE=GENERAL\r\n650 STREAM 7 NEW 0 server1:80 PURPOSE=USER\r\n\
    650 CIRC 2 LAUNCHED PURPOSE=HS_VANGUARDS\r\n650 CIRC 2 FAILED PURPOSE=HS_VANGUARDS REASON=TIMEOUT\r\n\
    650 ADDRMAP server1 10.0.0.1 NEVER\r\n";

#[test]
fn the_monitor_writes_a_line_per_event() {
    let port = control_port(EVENTS).to_string();
    let run = run(&["monitor", "--control", &port, "--control-password", "word", "--events", "circ,bw,stream,addrmap"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let kinds: Vec<&str> = run.lines.iter().map(|line| line["kind"].as_str().expect("a text")).collect();
    assert_eq!(kinds, ["start", "bandwidth", "circuit", "stream", "circuit", "event", "end"]);
    assert_eq!((run.lines[1]["read"].as_u64(), run.lines[1]["written"].as_u64()), (Some(10), Some(20)));
    let built = &run.lines[2];
    assert_eq!(
        (built["id"].as_u64(), built["hops"].as_u64(), built["path"][2].as_str()),
        (Some(1), Some(3), Some("$CCCC~three"))
    );
    assert!(built["build"].is_number() && built["error"].is_null());
    assert_eq!((run.lines[4]["error"].as_str(), run.lines[4]["build"].is_null()), (Some("TIMEOUT"), true));
    assert_eq!(run.lines[5]["event"], "ADDRMAP");
    assert_eq!(run.lines[6]["events"], 7);
}

#[test]
fn a_monitor_that_cannot_watch_says_why() {
    let port = control_port(EVENTS).to_string();
    let refused = run(&["monitor", "--control", &port, "--control-password", "wrong", "--wait", "0"]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.stderr.contains("refused to authenticate"), "{}", refused.stderr);
    let nobody = common::closed_port().to_string();
    let absent = run(&["monitor", "--control", &nobody, "--wait", "0"]);
    assert_eq!(absent.status, Some(1));
    assert!(absent.stderr.contains("refused"), "{}", absent.stderr);
}

#[test]
fn a_client_logs_circuits_beside_its_transfers() {
    let server = Server::start(&[]);
    let port = control_port(EVENTS).to_string();
    let options = ["--control-password", "word", "--size", "10", "--count", "1", "--start", "200 ms"];
    let run = client(&[&["--server", &server.address, "--control", &port], &options[..]].concat());
    assert_eq!((run.status, run.transfers().len()), (Some(0), 1));
    assert_eq!(run.of_kind("circuit").len(), 2);
}
