//! Transfers over real loopback: each behaviour, each way, and each failure, with the records that they leave.

mod common;

use common::{Manner, Proxy, Server, client, client_with, closed_port, run, serve_with};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What holds of every transfer that succeeded.
fn assert_complete(transfer: &Value, bytes: u64) {
    assert_eq!(transfer["error"], Value::Null, "{transfer}");
    assert_eq!(transfer["verified"], true);
    assert_eq!(transfer["bytes"], bytes);
    let tenths = transfer["tenths"].as_array().expect("a list");
    assert_eq!(tenths.len(), 10, "{transfer}");
    let mut order = vec![seconds(&transfer["connect"])];
    order.extend(transfer["socks"].as_f64());
    order.push(seconds(&transfer["request"]));
    if transfer["direction"] == "download" {
        order.push(seconds(&transfer["first_byte"]));
    }
    order.extend(tenths.iter().map(seconds));
    order.push(seconds(&transfer["last_byte"]));
    assert!(order.is_sorted(), "{transfer}");
    // After 2026 and before 2100: seconds since 1970.
    assert!((1.7e9..4.1e9).contains(&seconds(&transfer["start"])));
}

fn error<'a>(transfer: &'a Value, stage: &str) -> &'a str {
    assert_eq!(transfer["error"]["stage"], stage, "{transfer}");
    assert_eq!(transfer["verified"], false);
    assert!(!transfer["error"]["detail"].as_str().expect("a text").is_empty());
    transfer["error"]["reason"].as_str().expect("a text")
}

#[test]
fn a_direct_download_is_measured_and_verified() {
    let server = Server::start(&[]);
    let run = client(&["--server", &server.address, "--size", "1 MiB", "--count", "1", "--seed", "7"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let start = run.of_kind("start")[0];
    assert_eq!((start["seed"].as_u64(), start["behaviours"][0].as_str()), (Some(7), Some("web")));
    let transfer = run.transfer();
    assert_complete(transfer, 1 << 20);
    assert_eq!((transfer["received"].as_u64(), transfer["socks"].clone()), (Some(1 << 20), Value::Null));
    assert_eq!(
        (transfer["direction"].as_str(), transfer["server"].as_str()),
        (Some("download"), Some(server.address.as_str()))
    );
    let end = run.lines.last().expect("lines");
    assert_eq!(
        (end["kind"].as_str(), end["transfers"].as_u64(), end["failed"].as_u64()),
        (Some("end"), Some(1), Some(0))
    );
    let (log, status) = server.end();
    assert_eq!(log[0]["request"], "GET /1048576");
    assert_eq!((log[0]["complete"].clone(), log[1]["kind"].as_str(), status), (true.into(), Some("end"), Some(0)));
}

#[test]
fn uploads_are_verified_by_the_server() {
    let mut server = Server::start(&[]);
    let options = ["--behaviour", "bulk", "--direction", "upload", "--size", "3 MB", "--count", "2"];
    let run = client(&[&["--server", &server.address], &options[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for transfer in run.transfers() {
        assert_complete(transfer, 3_000_000);
        assert_eq!(transfer["direction"], "upload");
        assert!(transfer["sent"].as_u64().expect("a number") > 3_000_000);
    }
    assert_eq!(server.line()["received"], 3_000_000);
}

#[test]
fn behaviours_run_side_by_side_until_their_counts_are_done() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "servers: [\"{0}\", \"localhost:{1}\"]
behaviours:
  - {{ kind: web, size: 20 KiB, pause: [1 ms, 5 ms], count: 5 }}
  - {{ kind: bulk, size: 300 KiB, count: 4, parallel: 2 }}
  - {{ kind: performance, sizes: [1 KiB, 2 KiB, 3 KiB], every: 10 ms, count: 6 }}
",
        server.address,
        server.port()
    );
    let run = client_with(folder.path(), &config);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let of = |behaviour: &str| -> Vec<u64> {
        let transfers = run.transfers();
        let own = transfers.iter().filter(|transfer| transfer["behaviour"] == behaviour);
        own.map(|transfer| transfer["bytes"].as_u64().expect("a number")).collect()
    };
    assert_eq!(of("web"), [20 << 10; 5]);
    assert_eq!(of("bulk"), [300 << 10; 8]);
    let mut sizes = of("performance");
    sizes.sort();
    assert_eq!(sizes, [1024, 1024, 2048, 2048, 3072, 3072]);
    let mut ids: Vec<u64> = run.transfers().iter().map(|transfer| transfer["id"].as_u64().expect("a number")).collect();
    ids.sort();
    assert_eq!(ids, (1..=19).collect::<Vec<u64>>());
}

#[test]
fn the_same_seed_makes_the_same_choices() {
    let server = Server::start(&[]);
    let choices = |seed: &str| -> Vec<u64> {
        let options = ["--behaviour", "performance", "--sizes", "1,2,3,4,5,6,7,8", "--weights", "1,1,1,1,1,1,1,1"];
        let rest = ["--every", "1 ms", "--count", "12", "--seed", seed];
        let run = client(&[&["--server", &server.address], &options[..], &rest].concat());
        let mut sizes: Vec<(u64, u64)> = run
            .transfers()
            .iter()
            .map(|t| (t["id"].as_u64().expect("id"), t["bytes"].as_u64().expect("bytes")))
            .collect();
        sizes.sort();
        sizes.into_iter().map(|(_, size)| size).collect()
    };
    assert_eq!(choices("5"), choices("5"));
    assert_ne!(choices("5"), choices("6"));
}

#[test]
fn names_go_to_the_proxy_and_transfers_have_credentials_of_their_own() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|_| Manner::Forward);
    let onion = format!("expyuzz4wqqyqhjn.onion:{}", server.port());
    let options = ["--behaviour", "bulk", "--size", "100 KiB", "--count", "3"];
    let run = client(&[&["--socks", &proxy.address, "--server", &onion], &options[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for transfer in run.transfers() {
        assert_complete(transfer, 100 << 10);
        assert!(transfer["socks"].is_number());
        assert_eq!(transfer["server"], onion);
    }
    let asked = proxy.asked();
    assert!(asked.iter().all(|asked| asked.host == "expyuzz4wqqyqhjn.onion"));
    let mut credentials: Vec<_> = asked.iter().map(|asked| asked.credentials.clone().expect("credentials")).collect();
    credentials.sort();
    credentials.dedup();
    assert_eq!(credentials.len(), 3);
}

#[test]
fn isolation_decides_who_shares_credentials() {
    let server = Server::start(&[]);
    let credentials = |isolation: &str| {
        let proxy = Proxy::start(|_| Manner::Forward);
        let options = ["--behaviour", "bulk", "--size", "10", "--count", "3", "--isolation", isolation];
        let run = client(&[&["--socks", &proxy.address, "--server", &server.address], &options[..]].concat());
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let mut all: Vec<_> = proxy.asked().into_iter().map(|asked| asked.credentials).collect();
        all.dedup();
        all
    };
    assert_eq!(credentials("transfer").len(), 3);
    assert_eq!(credentials("behaviour").len(), 1);
    assert_eq!(credentials("none"), [None]);
}

#[test]
fn corrupt_content_is_found() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|_| Manner::Corrupt);
    let run = client(&["--socks", &proxy.address, "--server", &server.address, "--size", "64 KiB", "--count", "1"]);
    assert_eq!(run.status, Some(1));
    assert_eq!(error(run.transfer(), "verify"), "corrupt");
    assert!(run.transfer()["received"].as_u64().expect("a number") < 64 << 10);
    assert_eq!(run.lines.last().expect("lines")["failed"], 1);
}

#[test]
fn a_proxy_that_refuses_is_recorded_with_its_code() {
    for (code, reason) in [(1, "socks-1"), (4, "socks-4"), (0xf0, "socks-240")] {
        let proxy = Proxy::start(move |_| Manner::Refuse(code));
        let run = client(&["--socks", &proxy.address, "--server", "server1:80", "--count", "1"]);
        assert_eq!((run.status, error(run.transfer(), "socks")), (Some(1), reason));
        assert!(run.transfer()["connect"].is_number() && run.transfer()["socks"].is_null());
    }
    let proxy = Proxy::start(|_| Manner::NoCredentials);
    let run = client(&["--socks", &proxy.address, "--server", "server1:80", "--count", "1"]);
    assert_eq!(error(run.transfer(), "socks"), "socks-auth");
}

#[test]
fn a_connection_that_ends_early_is_recorded_with_what_came() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|_| Manner::CutAfter(50_000));
    let options = ["--behaviour", "bulk", "--size", "100 KB", "--count", "1"];
    let run = client(&[&["--socks", &proxy.address, "--server", &server.address], &options[..]].concat());
    let transfer = run.transfer();
    assert_eq!(error(transfer, "transfer"), "eof");
    let received = transfer["received"].as_u64().expect("a number");
    assert!((49_000..50_000).contains(&received), "{transfer}");
    assert_eq!(transfer["tenths"].as_array().expect("a list").len(), 4);
    assert!(transfer["last_byte"].is_null());
    assert!(seconds(&transfer["end"]) >= seconds(&transfer["tenths"][3]), "{transfer}");
}

#[test]
fn silence_is_a_stall_and_slowness_a_timeout() {
    let proxy = Proxy::start(|_| Manner::Hang);
    let base = ["--socks", &proxy.address, "--server", "server1:80", "--count", "1"];
    let run = client(&[&base[..], &["--stall", "50 ms"]].concat());
    assert_eq!(error(run.transfer(), "socks"), "stall");
    assert!(seconds(&run.transfer()["end"]) >= 0.05, "{}", run.transfer());
    let run = client(&[&base[..], &["--timeout", "50 ms"]].concat());
    assert_eq!(error(run.transfer(), "socks"), "timeout");
}

#[test]
fn what_is_not_there_is_refused_and_tried_again_as_often_as_asked() {
    let nobody = closed_port().to_string();
    let options = ["--count", "2", "--pause", "0", "--retries", "1", "--retry-after", "1 ms"];
    let run = client(&[&["--server", &nobody], &options[..]].concat());
    assert_eq!(run.status, Some(1));
    let attempts: Vec<(u64, u64)> = run
        .transfers()
        .iter()
        .map(|t| (t["id"].as_u64().expect("id"), t["attempt"].as_u64().expect("attempt")))
        .collect();
    assert_eq!(attempts, [(1, 1), (1, 2), (2, 1), (2, 2)]);
    assert!(run.transfers().iter().all(|transfer| error(transfer, "connect") == "refused"));
    let end = run.lines.last().expect("lines");
    assert_eq!((end["transfers"].as_u64(), end["failed"].as_u64()), (Some(2), Some(2)));
    let run = client(&["--server", "no-such-host.invalid:80", "--count", "1"]);
    assert_eq!(error(run.transfer(), "connect"), "resolve");
}

#[test]
fn a_retry_that_succeeds_makes_the_transfer_a_success() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|number| if number == 0 { Manner::Refuse(1) } else { Manner::Forward });
    let options = ["--size", "1000", "--count", "1", "--retries", "3", "--retry-after", "1 ms"];
    let run = client(&[&["--socks", &proxy.address, "--server", &server.address], &options[..]].concat());
    assert_eq!((run.status, run.transfers().len()), (Some(0), 2));
    assert_complete(run.transfers()[1], 1000);
}

#[test]
fn answers_that_are_not_ours_are_told_apart() {
    let cases = [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "transfer", "http-404"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "transfer", "length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhelloworld", "verify", "corrupt"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "transfer", "protocol"),
    ];
    for (answer, stage, reason) in cases {
        let server = serve_with(move |mut socket| {
            let _ = socket.read(&mut [0; 1000]);
            let _ = socket.write_all(answer.as_bytes());
        });
        let run = client(&["--server", &server.to_string(), "--size", "10", "--count", "1"]);
        assert_eq!(error(run.transfer(), stage), reason, "{answer}");
    }
}

#[test]
fn a_client_stops_when_its_time_is_up() {
    let server = Server::start(&[]);
    let run = client(&["--server", &server.address, "--size", "10", "--pause", "1 h", "--stop", "200 ms"]);
    assert_eq!((run.status, run.transfers().len()), (Some(0), 1));
    // A count that was not reached is not success.
    let run =
        client(&["--server", &server.address, "--size", "10", "--pause", "1 h", "--stop", "200 ms", "--count", "2"]);
    assert_eq!((run.status, run.transfers().len()), (Some(1), 1));
}

fn get(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.write_all(request.as_bytes()).expect("a request");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_server_keeps_connections_and_answers_requests_in_a_row() {
    let server = Server::start(&[]);
    let requests = "GET /3?seed=1 HTTP/1.1\r\n\r\nHEAD /2KiB HTTP/1.1\r\n\r\nPOST /upload HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\
                    GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    let answer = get(&server.address, requests);
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 4, "{answer}");
    assert!(answer.contains("Content-Length: 2048"));
    assert!(answer.contains("{\"bytes\":5,\"digest\":\"9555e8555c62dcfd\",\"verified\":null}"), "{answer}");
    assert!(answer.ends_with("POST /upload?seed=S\n"), "{answer}");
}

#[test]
fn the_server_refuses_what_it_does_not_understand() {
    let server = Server::start(&[]);
    let cases = [
        ("GET /many HTTP/1.1\r\nConnection: close\r\n\r\n", "404"),
        ("POST /elsewhere HTTP/1.1\r\n\r\n", "404"),
        ("DELETE /5 HTTP/1.1\r\n\r\n", "405"),
        ("POST /stream HTTP/1.1\r\n\r\n", "426"),
        ("nonsense\r\n\r\n", "400"),
        ("POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
    ];
    for (request, status) in cases {
        let answer = get(&server.address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n", "x".repeat(40_000));
    assert!(get(&server.address, &long).starts_with("HTTP/1.1 431 "));
}

#[test]
fn the_server_says_why_it_cannot_listen() {
    let server = Server::start(&[]);
    let second = run(&["server", "--listen", &server.address]);
    assert_eq!((second.status, second.lines.len()), (Some(1), 0));
    assert!(second.stderr.contains("another program listens there"), "{}", second.stderr);
}

#[test]
fn many_connections_cost_little() {
    let server = Server::start(&[]);
    let options = ["--behaviour", "bulk", "--size", "2000", "--count", "1", "--parallel", "400"];
    let run = client(&[&["--server", &server.address], &options[..]].concat());
    assert_eq!((run.status, run.transfers().len()), (Some(0), 400), "{}", run.stderr);
    let (log, _) = server.end();
    assert_eq!(log.last().expect("lines")["connections"], 400);
}
