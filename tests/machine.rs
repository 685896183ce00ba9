//! When the machine interferes: what it refuses is told, in the log and at the end, and such a run is not called reproducible.

mod common;

use common::{Output, capture, digest, find_program, folder, gnomon, read, run_well, stats, wrote};
use std::fs;
use std::path::Path;
use std::process::Command;

fn one_host(general: &str, script: &str, end: &str) -> String {
    format!(
        "general: {{stop_time: 1 min{general}}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n  a:\n    network_node_id: 0\n    processes:\n    \
         - {{path: bash, args: [-c, {}], expected_final_state: {end}}}\n  b: {{network_node_id: 0, processes: []}}\n",
        serde_json::Value::from(script)
    )
}

/// Runs a shell script of the machine that starts `$gnomon`.
fn shell(folder: &Path, program: &[&str], script: &str) -> Output {
    let mut command = common::limited(Path::new(program[0]));
    command.args(&program[1..]).args(["-c", script]).env("gnomon", env!("CARGO_BIN_EXE_gnomon"));
    capture(command.current_dir(folder))
}

#[test]
fn a_full_disk_that_a_guest_meets_is_told() {
    let mount = ["unshare", "--user", "--map-root-user", "--mount", "bash"];
    if !capture(Command::new(mount[0]).args(&mount[1..]).args(["-c", "mount -t tmpfs none /mnt"])).status.success() {
        common::leave_out("no namespaces of mounts for this user");
        return;
    }
    let folder = folder("machine/full");
    let script =
        "head -c 20000000 /dev/zero > big; echo $?; stat -c %s big > size; rm big; echo fits > small; cat small";
    fs::write(folder.join("x.yaml"), one_host("", script, "{exited: 0}")).expect("a file");
    fs::create_dir(folder.join("mounted")).expect("a folder");
    let script = "mount -t tmpfs -o size=8m none mounted && $gnomon run -d mounted/out x.yaml; status=$?; cp -r mounted/out out; exit $status";
    let output = shell(&folder, &mount, script);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let hosts = folder.join("out/hosts");
    assert_eq!(wrote(&hosts, "a", "stdout"), "1\nfits\n");
    assert!(wrote(&hosts, "a", "stderr").contains("No space left on device"));
    let told = "not reproducible to the bit: the machine had no room for what guests wrote";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert!(output.stderr.contains("hosts/a/big"), "{}", output.stderr);
    let log = read(&folder.join("out/gnomon.log"));
    assert!(log.contains("the machine refused this") && log.contains(told), "{log}");
    let stats = stats(&folder.join("out"));
    assert_eq!(stats["gnomon"]["computing"]["reproducible"], false);
    assert!(stats["gnomon"]["interferences"]["space"]["times"].as_u64() >= Some(1), "{stats}");
}

#[test]
fn a_limit_of_file_sizes_ends_captures_and_not_the_run() {
    let tshark = find_program("tshark").expect("tshark: tools/install-packages test");
    let folder = folder("machine/sizes");
    let text = one_host("", "sleep 1; iperf3 --client b --bytes 12M > result; echo done", "{exited: 0}").replace(
        "b: {network_node_id: 0, processes: []}",
        "b: {network_node_id: 0, processes: [{path: iperf3, args: [--server, --one-off]}]}",
    ) + "host_option_defaults: {pcap_enabled: true}\n";
    fs::write(folder.join("x.yaml"), text).expect("a file");
    // In units of 1 KiB: enough for the copies of programs that guests execute, too little for the capture.
    let output = shell(&folder, &["bash"], "ulimit -f 8000; $gnomon run -d out x.yaml");
    assert_eq!(output.code(), 1, "what is lost is no success: {}", output.stderr);
    assert!(output.stderr.contains("what the run leaves behind is not complete: "), "{}", output.stderr);
    assert!(output.stderr.contains("hosts/a/eth0.pcap': File too large"), "{}", output.stderr);
    assert!(read(&folder.join("out/gnomon.log")).contains("this capture ends here"));
    assert_eq!(wrote(&folder.join("out/hosts"), "a", "stdout"), "done\n");
    assert_eq!(stats(&folder.join("out"))["gnomon"]["interferences"]["recording"]["times"], 2, "on each host");
    let capture_file = folder.join("out/hosts/a/eth0.pcap");
    let shown = capture(Command::new(tshark).arg("-r").arg(&capture_file));
    assert!(shown.status.success(), "a whole capture: {}", shown.stderr);
    let length = fs::metadata(&capture_file).expect("a capture").len();
    assert!((7_000_000..=8_192_000).contains(&length) && shown.stdout.lines().count() > 4_000, "{length} bytes");
    // Without a limit all is there, and the guests' digest is the same.
    run_well(&folder, "x.yaml", &["-d", "free"]);
    assert_eq!(digest(&folder.join("out")), digest(&folder.join("free")));
}

#[test]
fn a_limit_of_file_sizes_is_an_error_for_a_guest_that_meets_it() {
    let folder = folder("machine/guest-sizes");
    let script = "trap '' XFSZ; head -c 20000000 /dev/zero > big; echo $?; rm big";
    fs::write(folder.join("x.yaml"), one_host("", script, "{exited: 0}")).expect("a file");
    let output = shell(&folder, &["bash"], "ulimit -f 8000; $gnomon run -d out x.yaml");
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert_eq!(wrote(&folder.join("out/hosts"), "a", "stdout"), "1\n");
    assert!(output.stderr.contains("not reproducible to the bit: the machine had no room"), "{}", output.stderr);
}

#[test]
fn outputs_have_a_limit_that_is_the_same_in_each_run() {
    let folder = folder("machine/output");
    let text = one_host("", "yes", "{exited: 1}") + "experimental: {output_limit: 1 MiB}\n";
    fs::write(folder.join("x.yaml"), text).expect("a file");
    let first = run_well(&folder, "x.yaml", &["-d", "first"]);
    run_well(&folder, "x.yaml", &["-d", "second"]);
    let size = |run: &str| fs::metadata(folder.join(run).join("hosts/a/bash.1000.stdout")).expect("an output").len();
    assert_eq!((size("first"), size("second")), (1 << 20, 1 << 20));
    assert_eq!(digest(&folder.join("first")), digest(&folder.join("second")));
    assert!(first.stderr.contains("output limit: "), "{}", first.stderr);
    assert!(read(&folder.join("first/gnomon.log")).contains("have reached their limit (experimental.output_limit)"));
    assert_eq!(stats(&folder.join("first"))["gnomon"]["computing"]["reproducible"], true);
}

#[test]
fn a_closed_standard_output_ends_exec() {
    let folder = folder("machine/closed");
    let output = shell(&folder, &["bash"], "TMPDIR=. $gnomon exec --quiet yes | head -1; echo ${PIPESTATUS[0]}; ls");
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("y\n141\n", ""));
    let script = "TMPDIR=. $gnomon exec --quiet bash -c 'trap \"\" PIPE; i=0; while echo x; do i=$((i+1)); done; echo lost >&2; exit 3' | head -1; \
        echo ${PIPESTATUS[0]}";
    let output = shell(&folder, &["bash"], script);
    assert_eq!(output.stdout, "x\n3\n");
    assert!(output.stderr.contains("Broken pipe") && output.stderr.ends_with("lost\n"), "{}", output.stderr);
}

#[test]
fn exec_shows_what_a_program_writes_while_it_runs() {
    let folder = folder("machine/live");
    // The reader ends the run by what it reads, which only an output that comes at once can make it do.
    let script = "$gnomon exec --quiet --stop-time '100000 h' perl -e 'while (1) { print \"x\" x 20000; select(undef, undef, undef, 0.001) }' \
        | head -c 50000 | wc -c; echo ${PIPESTATUS[0]}";
    let output = shell(&folder, &["bash"], script);
    assert_eq!(output.stdout, "50000\n141\n", "{}", output.stderr);
}

#[test]
fn one_signal_ends_exec_whose_reader_rests() {
    let folder = folder("machine/rests");
    let script = "mkfifo pipe; sleep 60 < pipe & reader=$!; $gnomon exec --quiet -d out --stop-time '100000 h' yes > pipe & run=$!; \
        until [ -e out/hosts/host/yes.1000.stdout ]; do sleep 0.1; done; sleep 1; kill -TERM $run; wait $run; echo $?; kill $reader";
    let output = shell(&folder, &["bash"], script);
    assert_eq!(output.stdout, "143\n", "{}", output.stderr);
    assert!(folder.join("out/sim-stats.json").is_file());
}

#[test]
fn exec_of_a_program_that_ends_well_says_nothing_of_its_own() {
    let folder = folder("machine/quiet");
    let output = capture(
        gnomon().args(["exec", "--quiet", "bash", "-c", "echo out; echo err >&2; exit 4"]).current_dir(&folder),
    );
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.code()), ("out\n", "err\n", 4));
}
