//! Languages and kinds of binaries, as their own toolchains make them. A program of `tests/languages` that needs no other host
//! (`alone`) must print the same natively and as a guest; servers and clients run on two hosts. Everything is run with one worker
//! and with two, and must give the same digest and the same files.

mod common;

use common::{
    capture, digest, find_program, find_python, folder, limited, natively, root, run_well, stats, tree, wrote,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program is started: words of the command, the first one a path.
type Words<'a> = &'a [&'a str];

fn program(name: &str) -> String {
    let path = find_program(name).unwrap_or_else(|| panic!("{name} is missing: tools/install-packages test"));
    // What a launcher such as rustup's finds by its own name must keep it.
    path.to_str().expect("UTF-8").to_owned()
}

fn source(name: &str) -> String {
    root().join("tests/languages").join(name).to_str().expect("UTF-8").to_owned()
}

/// A tool of the machine that must succeed.
fn tool(command: &mut Command) {
    let output = capture(command);
    assert!(output.status.success(), "{command:?}:\n{}{}", output.stdout, output.stderr);
}

const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

const NETWORK: &str = r#"
general: { stop_time: 1 h, data_directory: run.data }
experimental: { strace_logging_mode: "off" }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "10 ms" packet_loss 0.002 ]
      ]
hosts:
"#;

/// A process as YAML.
fn process(words: Words, more: &str) -> String {
    let arguments = serde_json::to_string(&words[1..]).expect("JSON is YAML");
    let environment = format!("{{ PATH: '{SEARCH_PATH}', HOME: /tmp }}");
    format!("    - {{ path: '{}', args: {arguments}, environment: {environment}{more} }}\n", words[0])
}

fn host(name: &str, processes: &[String]) -> String {
    format!("  {name}:\n    network_node_id: 0\n    processes:\n{}", processes.concat())
}

/// Runs the hosts with one worker and with two, which must not differ; returns the hosts' directories.
fn run_twice(folder: &Path, hosts: &str) -> PathBuf {
    fs::write(folder.join("run.yaml"), format!("{NETWORK}{hosts}")).unwrap();
    let data = folder.join("run.data");
    let run = |workers: &str| {
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(folder, "run.yaml", &["--parallelism", workers]);
        (digest(&data), tree(&data.join("hosts")))
    };
    let ((first, files), (second, same)) = (run("1"), run("2"));
    for (path, content) in &files {
        assert!(same.get(path) == Some(content), "{}: {path} differs from run to run", folder.display());
    }
    assert!(files.keys().eq(same.keys()), "{}: other files", folder.display());
    assert_eq!(first, second, "{}: digests", folder.display());
    data.join("hosts")
}

/// Runs a program natively and as a guest; it must print the same and succeed.
fn compare(test: &str, words: Words) {
    let folder = folder(&format!("languages/{test}"));
    let hosts = run_twice(&folder, &host("host", &[process(words, "")]));
    let (out, err) = (wrote(&hosts, "host", "stdout"), wrote(&hosts, "host", "stderr"));
    let native = natively(&out, || {
        let work = folder.join("native");
        fs::remove_dir_all(&work).ok();
        fs::create_dir(&work).unwrap();
        let mut native = limited(Path::new("env"));
        native.args(["-i", &format!("PATH={SEARCH_PATH}"), "HOME=/tmp"]).args(words).current_dir(&work);
        native
    });
    assert!(native.status.success() && !native.stdout.is_empty(), "{test}: {}{}", native.stdout, native.stderr);
    assert_eq!(out, native.stdout, "{test}: {err}");
}

/// Runs a server on one host and a client, which is given its name, on another. The server ends by SIGTERM, or on its own.
/// Returns what the server and the client wrote.
fn serve(test: &str, server: Words, client: Words, is_told_to_end: bool) -> (String, String) {
    let folder = folder(&format!("languages/{test}"));
    let end = if is_told_to_end { ", shutdown_time: 60 s" } else { "" };
    let client = process(&[client, &["server"]].concat(), ", start_time: 3 s");
    let hosts = host("server", &[process(server, end)]) + &host("client", &[client]);
    let hosts = run_twice(&folder, &hosts);
    (wrote(&hosts, "server", "stdout"), wrote(&hosts, "client", "stdout"))
}

#[test]
fn python_runs_its_library() {
    let script = source("guest.py");
    // Debian's own, which lies at fixed addresses.
    compare("python-debian", &["/usr/bin/python3", &script]);
    match find_python() {
        Some(python) => compare("python-pie", &[&python, &script]),
        None => common::leave_out("no position-independent python3 here"),
    }
}

#[test]
fn perl_runs_processes_signals_and_sockets() {
    compare("perl", &[&program("perl"), &source("guest.pl")]);
}

#[test]
fn tokio_programs_serve_and_fetch() {
    // `cargo test` without `--test` builds it; to build it here would compile the workspace again with other features.
    let gnomon = Path::new(env!("CARGO_BIN_EXE_gnomon"));
    let guest = gnomon.with_file_name("examples").join("tokio-guest");
    if !guest.exists() {
        return common::leave_out("no example tokio-guest: cargo build --release --workspace --example tokio-guest");
    }
    let guest = guest.to_str().expect("UTF-8");
    compare("tokio-alone", &[guest, "alone"]);
    let (server, client) = serve("tokio", &[guest, "serve"], &[guest, "fetch"], true);
    assert_eq!(server, "requests 61\n");
    let lines: Vec<&str> = client.lines().collect();
    assert_eq!((lines[0], lines[19]), ("0 30003", "9 30003"), "{client}");
    assert_eq!(lines[20..], ["timeout true after 3 s", "Some(ConnectionRefused)", "unknown true"]);
}

#[test]
fn rust_programs_of_each_linkage_run() {
    let folder = folder("languages/rust-kinds");
    let kinds: [(&str, Words); 3] = [
        ("pie", &[]),
        ("static-pie", &["-Ctarget-feature=+crt-static"]),
        ("static", &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"]),
    ];
    for (name, options) in kinds {
        let result = folder.join(name).to_str().expect("UTF-8").to_owned();
        let mut rustc = Command::new(program("rustc"));
        tool(rustc.args(["-O", "--edition=2021", "-o", &result]).args(options).arg(source("rust/alone.rs")));
        compare(&format!("rust-{name}"), &[&result]);
    }
}

/// Builds the program in Go into `folder`.
fn go(folder: &Path, name: &str, options: &[&str], cgo: &str) -> String {
    let result = folder.join(name).to_str().expect("UTF-8").to_owned();
    let mut build = Command::new(program("go"));
    build.arg("build").args(options).args(["-o", &result, "."]).current_dir(source("go"));
    tool(build.env("CGO_ENABLED", cgo).env("GOTOOLCHAIN", "local").env("GOFLAGS", "").env("GOPROXY", "off"));
    result
}

#[test]
fn go_programs_serve_and_fetch() {
    let folder = folder("languages/go-programs");
    // As `go build` leaves it where there is no C compiler: static, at a fixed address.
    let plain = go(&folder, "static", &[], "0");
    let stripped = go(&folder, "stripped", &["-ldflags=-s -w"], "0");
    let (server, client) = serve("go", &[&plain, "serve"], &[&stripped, "fetch"], true);
    assert_eq!(server, "terminated\nhttp: Server closed 42\n");
    let pages: Vec<&str> = client.lines().take(40).collect();
    assert!(pages.contains(&"200 40000 /page/0") && pages.contains(&"200 45000 /page/39"), "{client}");
    let rest: Vec<&str> = client.lines().skip(40).collect();
    let expected = ["1000000 686d1967 <nil>", "timeout true 3s", "no such host true", "refused true"];
    assert_eq!(rest, expected);
    compare("go-alone", &[&plain, "alone"]);
}

/// Builds the example in Go that needs modules; None where Go is too old for them, or they cannot
/// be had.
fn quic(folder: &Path) -> Option<String> {
    let result = folder.join("quic").to_str().expect("UTF-8").to_owned();
    let mut build = Command::new(program("go"));
    build.args(["build", "-mod=readonly", "-o", &result, "."]).current_dir(root().join("examples/quic"));
    let output = capture(build.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOFLAGS", ""));
    if !output.status.success() {
        println!("left out: quic-go is not to be had: {}", output.stderr);
    }
    output.status.success().then_some(result)
}

#[test]
fn quic_go_finds_ecn_on_the_way_there_and_back() {
    let Some(quic) = quic(&folder("languages/quic-go")) else { return };
    let (server, client) = serve("quic", &[&quic, "serve"], &[&quic, "fetch"], true);
    let found = |who: &str| ["testing", "unknown", "capable"].map(|state| format!("{who}: ECN {state}\n")).concat();
    assert_eq!(server, found("server"));
    assert_eq!(client, found("client") + "echoed: true\n");
}

#[test]
fn go_programs_of_each_build_mode_run() {
    let folder = folder("languages/go-modes");
    let pie = go(&folder, "pie", &["-buildmode=pie"], "0");
    compare("go-pie", &[&pie, "alone"]);
    let cgo = go(&folder, "cgo", &[], "1");
    compare("go-cgo", &[&cgo, "alone"]);
    let (_, client) = serve("go-cgo-fetch", &[&cgo, "serve"], &[&pie, "fetch"], true);
    assert_eq!(client.lines().count(), 44, "{client}");
}

#[test]
fn node_serves_and_fetches() {
    let (node, script) = (program("node"), source("guest.js"));
    let (server, client) = serve("node", &[&node, &script, "serve"], &[&node, &script, "fetch"], true);
    assert_eq!(server, "SIGTERM 32\nclosed\n");
    let lines: Vec<&str> = client.lines().collect();
    assert_eq!(lines[0], "200 18000 /page0 0 e3b0c442", "{client}");
    let expected = [
        "200 19000 /page29 0 e3b0c442",
        "/sum 1000000 686d1967",
        "timed out",
        "after 3 s",
        "ENOTFOUND",
        "ECONNREFUSED",
    ];
    assert_eq!(lines[29..], expected);
}

#[test]
fn node_runs_threads_processes_and_clusters() {
    compare("node-alone", &[&program("node"), &source("guest.js"), "alone"]);
}

#[test]
fn webassembly_in_node_keeps_its_bounds() {
    compare("node-wasm", &[&program("node"), &source("wasm.js")]);
}

/// Python allocates 256 KiB for each datagram, cuts them to what came, and frees that.
#[test]
fn datagrams_in_asyncio_make_no_call_of_the_real_kernel() {
    let calls = |name: &str, pairs: u32| {
        let folder = folder(&format!("languages/{name}"));
        let words = ["/usr/bin/python3", &source("datagrams.py"), &pairs.to_string()];
        fs::write(folder.join("run.yaml"), format!("{NETWORK}{}", host("host", &[process(&words, "")]))).unwrap();
        run_well(&folder, "run.yaml", &[]);
        let data = folder.join("run.data");
        let bytes: u32 = (1..=pairs).map(|left| 1 + left % 1400).sum();
        assert_eq!(wrote(&data.join("hosts"), "host", "stdout"), format!("{bytes}\n"));
        let counted = &stats(&data)["gnomon"]["memory_map_calls"];
        ["map_calls", "advise_calls"].map(|kind| counted[kind].as_u64().expect("a number"))
    };
    let (few, many) = (calls("asyncio-few", 500), calls("asyncio-many", 50_500));
    println!("calls of 1,000 datagrams {few:?}, of 101,000 {many:?}");
    assert_eq!(few, many, "changes of the memory map, and advice");
}

/// The folder with the compiled program in Java.
fn java_classes(folder: &Path) -> String {
    let classes = folder.to_str().expect("UTF-8").to_owned();
    tool(Command::new(program("javac")).args(["-d", &classes, &source("Guest.java")]));
    classes
}

#[test]
fn java_serves_and_fetches() {
    let (java, classes) = (program("java"), java_classes(&folder("languages/java-classes")));
    let words = |role| [java.as_str(), "-cp", classes.as_str(), "Guest", role];
    let (server, client) = serve("java", &words("serve"), &words("fetch"), false);
    assert_eq!(server, "requests 23\n");
    let lines: Vec<&str> = client.lines().collect();
    assert_eq!(lines[0], "200 24000 /page/0", "{client}");
    assert_eq!(lines[19..], ["200 27000 /page/19", "1000000 2798979815", "timeout 3 s", "refused"]);
}

#[test]
fn java_runs_threads_processes_and_collectors() {
    let (java, classes) = (program("java"), java_classes(&folder("languages/java-alone-classes")));
    compare("java-default", &[&java, "-cp", &classes, "Guest", "alone"]);
    compare("java-g1", &[&java, "-XX:+UseG1GC", "-Xmx200m", "-cp", &classes, "Guest", "alone"]);
}
