//! What network tools see of a simulated host: ss, netstat, lsof, fuser, ip, ifconfig, route, arp, nstat, all as guests beside the sockets that
//! they show.

mod common;

use common::{capture, find_program, folder, gnomon};

/// What a script prints in a host of its own. `serve` leaves a listener with one connection behind, 80 of 0.0.0.0, whose client has
/// sent five bytes that nobody reads.
fn script(name: &str, text: &str) -> String {
    let tools = ["ss", "netstat", "lsof", "fuser", "ip", "nstat", "python3"];
    for program in tools {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    let server = r#"
import os, socket, sys, time
listener = socket.create_server(("0.0.0.0", 80), backlog=7)
client = socket.create_connection(("127.0.0.1", 80))
session, _ = listener.accept()
client.sendall(b"hello")
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 5353))
six = socket.create_server(("::1", 8080), family=socket.AF_INET6)
own = socket.socket(socket.AF_UNIX)
own.bind("control")
own.listen(3)
open("ready", "w").close()
time.sleep(1000)
"#;
    let path = "export PATH=$PATH:/usr/sbin:/sbin";
    let text =
        format!("{path}\npython3 -c '{server}' & S=$!\nwhile ! [ -e ready ]; do sleep 0.1; done\n{text}\nkill $S");
    let mut command = gnomon();
    command.args(["exec", "--quiet", "--stop-time", "1 min", "bash", "-c", &text]).current_dir(folder(name));
    let output = capture(&mut command);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    output.stdout
}

/// The words of the line that has all of these in it.
fn words<'a>(text: &'a str, parts: &[&str]) -> Vec<&'a str> {
    let found = text.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no line with {parts:?} in:\n{text}")).split_whitespace().collect()
}

#[test]
fn ss_lists_sockets_with_their_processes() {
    let text = script("net/ss", "ss -tunap; echo; ss -tinme dst 127.0.0.1:80; echo; ss -xlp; echo; ss -s");
    assert_eq!(words(&text, &["LISTEN", "0.0.0.0:80"])[..5], ["tcp", "LISTEN", "0", "7", "0.0.0.0:80"]);
    // Five bytes that nobody has read.
    let session = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut session = session.filter(|words| words.len() > 6 && words[1..5] == ["ESTAB", "5", "0", "127.0.0.1:80"]);
    let session = session.next().unwrap_or_else(|| panic!("{text}"));
    assert!(session.last().unwrap().contains("python3"), "{text}");
    assert_eq!(words(&text, &["udp", "127.0.0.1:5353"])[1], "UNCONN");
    assert!(text.contains("[::1]:8080"), "{text}");
    let info = words(&text, &["cubic", "rto:"]);
    assert!(info.contains(&"bytes_sent:5") && info.contains(&"bytes_acked:6"), "{text}");
    assert_eq!(words(&text, &["u_str", "control"])[1..4], ["LISTEN", "0", "3"]);
    assert_eq!(words(&text, &["TCP:", "estab"])[..4], ["TCP:", "4", "(estab", "2,"]);
}

#[test]
fn netstat_reads_the_tables() {
    let text = script("net/netstat", "netstat -tunap; netstat -x; netstat -rn; netstat -i; netstat -s");
    assert_eq!(words(&text, &["LISTEN", "0.0.0.0:80"])[..4], ["tcp", "0", "0", "0.0.0.0:80"]);
    assert_eq!(words(&text, &["ESTABLISHED", " 127.0.0.1:80 ", "tcp        5"])[1], "5");
    assert!(words(&text, &["udp ", "127.0.0.1:5353"]).last().unwrap().ends_with("/python3"), "{text}");
    assert_eq!(words(&text, &["tcp6", "::1:8080"])[5], "LISTEN");
    assert_eq!(words(&text, &["0.0.0.0", "eth0"])[..3], ["0.0.0.0", "0.0.0.0", "0.0.0.0"]);
    assert_eq!(words(&text, &["lo", "65536"])[1], "65536");
    assert_eq!(words(&text, &["active connection"])[0], "1");
    assert_eq!(words(&text, &["connections established"])[0], "2");
}

#[test]
fn lsof_and_fuser_find_who_has_a_socket() {
    let text =
        script("net/lsof", "lsof -i -P -n; fuser -v 80/tcp 5353/udp 2>&1; fuser 81/tcp || echo nobody; echo $S is it");
    let server = words(&text, &["is it"])[0];
    assert_eq!(words(&text, &["TCP", "*:80", "(LISTEN)"])[..2], ["python3", server]);
    assert_eq!(words(&text, &["UDP", "127.0.0.1:5353"])[1], server);
    assert!(text.contains("127.0.0.1:80 (ESTABLISHED)"), "{text}");
    assert_eq!(words(&text, &["80/tcp:"])[2], server);
    assert_eq!(words(&text, &["5353/udp:"])[2], server);
    assert!(text.contains("nobody"));
}

#[test]
fn counters_and_interfaces_are_shown() {
    let text = script(
        "net/counters",
        "ip -s link; ip route get 127.0.0.1; nstat -az TcpActiveOpens TcpInSegs; ip neigh; ip rule; cat /proc/net/dev; arp -n; route -n; ifconfig",
    );
    let rx: u64 =
        text.split("RX:").nth(1).unwrap().lines().nth(1).unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(rx >= 4, "{text}");
    assert_eq!(words(&text, &["TcpActiveOpens"])[1], "1");
    assert!(text.contains("inet 127.0.0.1  netmask 255.0.0.0"), "{text}");
    assert!(text.contains("RX packets"), "{text}");
    assert!(text.contains("local 127.0.0.1 dev lo src 127.0.0.1"), "{text}");
}
