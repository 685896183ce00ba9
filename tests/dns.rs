//! Names of hosts by DNS: the resolvers that programs bring along, each as a guest on a host whose resolver answers at 127.0.0.53.

mod common;

use common::{capture, digest, find_program, folder, read, root, run_well};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOSTS: &str = r#"
general: { stop_time: 60 s, data_directory: run.data }
network: { graph: { type: 1_gbit_switch }, ipv6: IPV6 }
hosts:
  server: { network_node_id: 0, ip_addr: 11.0.0.7, processes: [] }
  www.example.com: { network_node_id: 0, ip_addr: 11.0.1.8, processes: [] }
  client:
    network_node_id: 0
    host_options: { pcap_enabled: true }
    processes:
"#;

/// Runs a program on the host `client`; its output, errors included, and the experiment's folder.
fn run_client(name: &str, program: &Path, arguments: &str) -> (String, PathBuf) {
    run_with(false, name, program, arguments)
}

/// The same where all hosts have an IPv6 address too.
fn run_client6(name: &str, program: &Path, arguments: &str) -> String {
    run_with(true, name, program, arguments).0
}

fn run_with(ipv6: bool, name: &str, program: &Path, arguments: &str) -> (String, PathBuf) {
    let hosts = HOSTS.replace("IPV6", if ipv6 { "true" } else { "false" });
    let folder = folder(&format!("dns/{name}"));
    let process = format!("    - {{ path: {}, args: '{arguments}', start_time: 1 s }}\n", program.display());
    fs::write(folder.join("dns.yaml"), format!("{hosts}{process}")).unwrap();
    run_well(&folder, "dns.yaml", &[]);
    let file = program.file_name().expect("a name").to_str().expect("UTF-8");
    let output = |stream: &str| read(&folder.join(format!("run.data/hosts/client/{file}.1000.{stream}")));
    (output("stdout") + &output("stderr"), folder)
}

/// Compiles a program of `tests/dns`.
fn build(compiler: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let program = folder(&format!("dns/build-{compiler}-{source}")).join(source);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-fPIE", "-pie", "-o"]).arg(&program);
    command.arg(root().join(format!("tests/dns/{source}.c"))).args(arguments);
    let output = capture(&mut command);
    assert!(output.status.success(), "tools/install-packages test? {command:?}: {}", output.stderr);
    program
}

fn find(name: &str) -> PathBuf {
    find_program(name).unwrap_or_else(|| panic!("no {name}: tools/install-packages test"))
}

fn assert_lines(output: &str, expected: &[&str]) {
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn evdns_finds_hosts_and_no_others() {
    let program = build("cc", "evdns", &["-levent"]);
    // The names that nobody has are of the kind by which tor finds out whether its resolver lies.
    let names =
        "server SeRvEr www.Example.com client localhost 11.0.0.7 11.0.9.9 example.com www.google.com qj3kfzxw.invalid";
    let (output, _) = run_client("evdns", &program, names);
    // 3: no such name. 70: no data, here for AAAA. Each name is asked for twice, and what comes first is the same in each run.
    let expected = [
        "server: result 0 address 11.0.0.7 ttl 3600",
        "server: result 70",
        "SeRvEr: result 0 address 11.0.0.7 ttl 3600",
        "SeRvEr: result 70",
        "www.Example.com: result 0 address 11.0.1.8 ttl 3600",
        "www.Example.com: result 70",
        "client: result 0 address 11.0.0.1 ttl 3600",
        "client: result 70",
        "localhost: result 0 address 127.0.0.1 ttl 3600",
        "localhost: result 0 address ::1 ttl 3600",
        "11.0.0.7: result 0 name server ttl 3600",
        "11.0.0.7: result 3",
        "11.0.9.9: result 3",
        "11.0.9.9: result 3",
        "example.com: result 70",
        "example.com: result 70",
        "www.google.com: result 3",
        "www.google.com: result 3",
        "qj3kfzxw.invalid: result 3",
        "qj3kfzxw.invalid: result 3",
    ];
    assert_lines(&output, &expected);
    let output = run_client6("evdns6", &program, "server fd00::b00:107 fd00::b00:7");
    let expected = [
        "server: result 0 address 11.0.0.7 ttl 3600",
        "server: result 0 address fd00::b00:7 ttl 3600",
        "fd00::b00:107: result 3",
        "fd00::b00:107: result 3",
        "fd00::b00:7: result 0 name server ttl 3600",
        "fd00::b00:7: result 3",
    ];
    let sorted = |lines: &mut Vec<&str>| lines.sort_unstable();
    let (mut got, mut expected) = (output.lines().collect::<Vec<_>>(), expected.to_vec());
    sorted(&mut got);
    sorted(&mut expected);
    assert_eq!(got, expected);
}

#[test]
fn c_ares_finds_hosts_over_udp_and_tcp() {
    let program = build("cc", "ares", &["-lcares"]);
    let (output, _) = run_client("ares", &program, "SERVER www.example.com nobody.test 11.0.0.7 11.0.9.9");
    let once = [
        "SERVER: Successful completion, 11.0.0.7, 0 timeouts",
        "www.example.com: Successful completion, 11.0.1.8, 0 timeouts",
        "nobody.test: Domain name not found, 0 timeouts",
        "11.0.0.7: Successful completion, server, 0 timeouts",
        "11.0.9.9: Domain name not found, -, 0 timeouts",
    ];
    assert_lines(&output, &[once, once].concat());
    let output = run_client6("ares6", &program, "server fd00::b00:7 fd00::b00:9");
    let mut once: Vec<&str> = output.lines().take(3).collect();
    once[0] = if once[0].contains("11.0.0.7") && once[0].contains("fd00::b00:7") { "both" } else { once[0] };
    let expected = [
        "both",
        "fd00::b00:7: Successful completion, server, 0 timeouts",
        "fd00::b00:9: Domain name not found, -, 0 timeouts",
    ];
    assert_eq!(once, expected);
}

#[test]
fn c_libraries_ask_dns_for_what_is_not_in_the_hosts_file() {
    for (name, compiler) in [("glibc", "cc"), ("musl", "musl-gcc")] {
        let program = build(compiler, "libc", &[]);
        // musl compares with the file letter by letter, so it asks DNS for the second; both do so from the fourth on.
        let names = "server SERVER www.example.com x.localhost nobody nobody.test 11.0.0.7 11.0.9.9";
        let (output, _) = run_client(name, &program, names);
        let expected = [
            "server: 11.0.0.7",
            "SERVER: 11.0.0.7",
            "www.example.com: 11.0.1.8",
            "x.localhost: ::1 127.0.0.1",
            "nobody: no name",
            "nobody.test: no name",
            "11.0.0.7: server",
            "11.0.9.9: no name",
        ];
        assert_lines(&output, &expected);
        // RFC 6724: addresses of one scope by the labels of source and destination; each library asks its own connect().
        let output = run_client6(&format!("{name}6"), &program, "server SERVER fd00::b00:7 fd00::b00:9");
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 4, "{output}");
        for line in &lines[..2] {
            assert!(line.contains(" 11.0.0.7") && line.contains(" fd00::b00:7"), "{output}");
        }
        assert_eq!(lines[2..], ["fd00::b00:7: server", "fd00::b00:9: no name"]);
    }
}

#[test]
fn glibc_finds_hosts_by_dns_alone() {
    let (output, _) = run_client("getent", &find("getent"), "--service hosts:dns ahosts server");
    let words: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words, [vec!["11.0.0.7", "STREAM", "server"], vec!["11.0.0.7", "DGRAM"], vec!["11.0.0.7", "RAW"]]);
    let six = run_client6("getent6", &find("getent"), "--service hosts:dns ahostsv6 server");
    assert!(six.contains("fd00::b00:7"), "{six}");
}

#[test]
fn gos_own_resolver_finds_hosts_over_udp_and_tcp() {
    let Some(go) =
        find_program("go").or_else(|| Some("/usr/local/go/bin/go".into()).filter(|path: &PathBuf| path.is_file()))
    else {
        common::leave_out("no Go here");
        return;
    };
    let program = folder("dns/build-go").join("resolver");
    let source = root().join("tests/dns/resolver.go");
    let mut command = Command::new(go);
    command.args(["build", "-buildmode=pie", "-o"]).args([&program, &source]).env("CGO_ENABLED", "0");
    let output = capture(&mut command);
    assert!(output.status.success(), "{command:?}: {}", output.stderr);
    let (output, _) = run_client("go", &program, "server x.localhost nobody 11.0.0.7 11.0.9.9");
    let no_text = |name: &str| format!("{name} [] lookup {name} on 127.0.0.53:53: no such host");
    let once = [
        "server [11.0.0.7] <nil>",
        &no_text("server"),
        "x.localhost [::1 127.0.0.1] <nil>",
        &no_text("x.localhost"),
        &no_text("nobody"),
        &no_text("nobody"),
        "11.0.0.7 [server] <nil>",
        "11.0.9.9 [] lookup 9.9.0.11.in-addr.arpa. on 127.0.0.53:53: no such host",
    ];
    assert_lines(&output, &[&once[..], &["udp: asked"], &once, &["tcp: asked"]].concat());
    let output = run_client6("go6", &program, "server fd00::b00:7");
    let first = output.lines().next().unwrap_or_default();
    assert!(first.contains("11.0.0.7") && first.contains("fd00::b00:7"), "{output}");
    assert!(output.contains("fd00::b00:7 [server] <nil>"), "{output}");
}

#[test]
fn dig_is_content_with_every_answer() {
    let dig = find("dig");
    // Letters, the other way round over TCP, no such name, no data.
    let short = "+short SERver server AAAA nobody www.example.com";
    assert_lines(&run_client("dig-short", &dig, short).0, &["11.0.0.7", "11.0.1.8"]);
    assert_lines(&run_client("dig-tcp", &dig, "+tcp +short -x 11.0.1.8").0, &["www.example.com."]);
    assert_lines(&run_client6("dig6", &dig, "+short server AAAA server A"), &["fd00::b00:7", "11.0.0.7"]);
    assert_lines(&run_client6("dig6-tcp", &dig, "+tcp +short -x fd00::b00:108"), &["www.example.com."]);
    let (output, _) = run_client("dig", &dig, "+nsid +dnssec nobody.example.com");
    for part in [
        "status: NXDOMAIN",
        "flags: qr aa rd ra; QUERY: 1, ANSWER: 0, AUTHORITY: 1, ADDITIONAL: 1",
        "; EDNS: version: 0, flags: do; udp: 1232",
        "SOA\tlocalhost. nobody.invalid.",
        "SERVER: 127.0.0.53#53(127.0.0.53) (UDP)",
        ";; Query time: 0 msec",
    ] {
        assert!(output.contains(part), "'{part}' is not in:\n{output}");
    }
    assert!(!output.contains("WARNING"), "{output}");
}

#[test]
fn questions_and_answers_are_in_the_loopback_capture_and_the_digest() {
    let host = find("host");
    let (output, first) = run_client("host", &host, "www.example.com");
    assert_eq!(output, "www.example.com has address 11.0.1.8\n");
    let (_, second) = run_client("host-again", &host, "www.example.com");
    let (_, other) = run_client("host-other", &host, "server");
    assert_eq!(digest(&first.join("run.data")), digest(&second.join("run.data")));
    assert_ne!(digest(&first.join("run.data")), digest(&other.join("run.data")));
    let Some(tshark) = find_program("tshark") else {
        common::leave_out("no tshark here");
        return;
    };
    let pcap = first.join("run.data/hosts/client/lo.pcap");
    let show = |filter: &str| {
        let mut command = Command::new(&tshark);
        command.arg("-r").arg(&pcap).args([
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            "dns.qry.type",
            "-e",
            "dns.flags.rcode",
        ]);
        capture(command.env("HOME", &first)).stdout
    };
    // A, AAAA and MX.
    assert_eq!(
        show("dns.flags.response == 0 && ip.dst == 127.0.0.53").split_whitespace().collect::<Vec<_>>(),
        ["1", "28", "15"]
    );
    assert_eq!(
        show("dns.flags.response == 1 && ip.src == 127.0.0.53").lines().collect::<Vec<_>>(),
        ["1\t0", "28\t0", "15\t0"]
    );
    assert_eq!(show("_ws.malformed || udp.checksum.status == Bad || dns.retransmission"), "");
}
