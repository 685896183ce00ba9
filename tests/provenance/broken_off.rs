//! Records of runs that come to no good end.

use crate::common::{self, capture, folder};
use base::wall::WallClock;
use probes::tables::{HostName, Received, Sent};
use provenance::Record;
use provenance::read::ANY;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Rows that close a segment.
const SEGMENT: usize = 524_288;

/// More packets than would ever be waited for: small ones, which cost little.
const EXPERIMENT: &str = r#"
general: { stop_time: 24 h, heartbeat_interval: null }
network: { graph: { type: 1_gbit_switch } }
hosts:
  server:
    network_node_id: 0
    processes: [ { path: iperf3, args: --server, expected_final_state: running } ]
  client:
    network_node_id: 0
    processes: [ { path: iperf3, args: --client server --time 80000 --set-mss 200, start_time: 1 s, expected_final_state: running } ]
"#;

/// Whether the record can be read, and has so many whole segments of packets.
fn has_segments(data: &Path, many: usize) {
    let record = Record::open(data).unwrap();
    assert!(record.notice().is_some_and(|notice| notice.contains("is not finished")), "{:?}", record.notice());
    let names: Vec<String> =
        record.rows::<HostName>(ANY, &[], usize::MAX).unwrap().into_iter().map(|host| host.name).collect();
    assert_eq!(names, ["client", "server"]);
    let (sent, received): (Vec<Sent>, Vec<Received>) =
        (record.rows(ANY, &[], usize::MAX).unwrap(), record.rows(ANY, &[], usize::MAX).unwrap());
    assert!(sent.len() >= many * SEGMENT, "{} packets", sent.len());
    // Both are of the same packets, but for those that one of them had not closed.
    let is_sent = |row: &&Received| sent.binary_search_by_key(&row.packet, |sent| sent.packet).is_ok();
    let (both, fewer) = (received.iter().filter(is_sent).count(), sent.len().min(received.len()));
    assert!(fewer >= SEGMENT && both * 10 > fewer * 9, "{both} of {} and {}", sent.len(), received.len());
}

#[test]
fn what_was_closed_before_a_run_was_killed_can_be_read() {
    let folder = folder("provenance-killed");
    fs::write(folder.join("x.yaml"), EXPERIMENT).unwrap();
    // No wrapper, which would be what is killed.
    let mut run = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    run.args(["run", "--quiet", "--provenance", "packets", "-d", "run.data", "x.yaml"]).current_dir(&folder);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let data = folder.join("run.data");
    let begun = WallClock::start();
    while !data.join("provenance/received/00001.parquet").exists()
        || !data.join("provenance/sent/00002.parquet").exists()
    {
        assert!(run.try_wait().unwrap().is_none(), "it goes on until it is killed");
        assert!(begun.elapsed() < Duration::from_secs(300), "no segment is closed");
        std::thread::sleep(Duration::from_millis(10));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    has_segments(&data, 2);
}

#[test]
fn a_full_disk_ends_the_run_and_leaves_what_was_closed() {
    let mount = ["unshare", "--user", "--map-root-user", "--mount", "bash"];
    let shell = |script: &str| {
        let mut command = common::limited(Path::new(mount[0]));
        command.args(&mount[1..]).args(["-c", script]).env("gnomon", env!("CARGO_BIN_EXE_gnomon"));
        command
    };
    if !capture(&mut shell("mount -t tmpfs none /mnt")).status.success() {
        return common::leave_out("no namespaces of mounts for this user");
    }
    let folder = folder("provenance-full");
    fs::write(folder.join("x.yaml"), EXPERIMENT).unwrap();
    fs::create_dir(folder.join("mounted")).unwrap();
    let script = "mount -t tmpfs -o size=1m none mounted && $gnomon run --quiet --provenance packets -d mounted/run.data x.yaml; \
                  status=$?; cp -r mounted/run.data run.data; exit $status";
    let output = capture(shell(script).current_dir(&folder));
    assert_eq!(output.code(), 1, "{}{}", output.stdout, output.stderr);
    assert!(
        output.stderr.contains("/provenance/") && output.stderr.contains("No space left on device"),
        "{}",
        output.stderr
    );
    has_segments(&folder.join("run.data"), 1);
}
