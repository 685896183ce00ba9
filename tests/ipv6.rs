//! IPv6 between hosts: real programs, what captures show of it, and the same bits with one and two workers.

mod common;

use common::{capture, digest, find_program, find_python, folder, read, run_well};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two hosts 20 ms apart; in the place of PROCESSES what runs on the server, and on the client.
const EXPERIMENT: &str = r#"
general: { stop_time: 30 s, data_directory: run.data }
network:
  ipv6: true
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "20 ms" ]
        edge [ source 1 target 1 latency "1 ms" ]
      ]
hosts:
"#;

fn find(name: &str) -> PathBuf {
    find_program(name).unwrap_or_else(|| panic!("no {name}: tools/install-packages test"))
}

/// Writes an experiment with a host `server` and a host `client`, each with these processes (path, arguments, start in seconds, whether
/// it runs to the end).
fn write(folder: &Path, server: &[(&Path, &str, u32, bool)], client: &[(&Path, &str, u32, bool)]) {
    let mut text = EXPERIMENT.to_owned();
    for (name, node, processes) in [("server", 0, server), ("client", 1, client)] {
        text += &format!(
            "  {name}:\n    network_node_id: {node}\n    host_options: {{ pcap_enabled: true }}\n    processes:\n"
        );
        for (path, arguments, start, stays) in processes {
            let state = if *stays { "running" } else { "{exited: 0}" };
            let path = path.display();
            text += &format!(
                "    - {{ path: {path}, args: '{arguments}', start_time: {start} s, expected_final_state: {state} }}\n"
            );
        }
    }
    fs::write(folder.join("ipv6.yaml"), text).unwrap();
}

#[test]
fn servers_on_both_families_serve_both() {
    let Some(python) = find_python() else {
        common::leave_out("no Python here");
        return;
    };
    let (curl, python) = (find("curl"), PathBuf::from(python));
    let folder = folder("ipv6/http");
    let show = "-s -o /dev/null -w \"%{remote_ip} %{local_ip} %{http_code}\"";
    write(
        &folder,
        &[(&python, "-m http.server --bind :: 80", 0, true)],
        &[
            (&curl, &format!("-6 {show} http://server/"), 1, false),
            (&curl, &format!("-4 {show} http://server/"), 2, false),
            (&curl, &format!("{show} http://[fd00::b00:2]/"), 3, false),
        ],
    );
    run_well(&folder, "ipv6.yaml", &["--parallelism", "1"]);
    // Each curl has threads, which take numbers too.
    let files = fs::read_dir(folder.join("run.data/hosts/client")).unwrap().map(|entry| entry.unwrap().path());
    let mut outputs: Vec<_> = files.filter(|path| file_name(path).ends_with(".stdout")).collect();
    outputs.sort();
    let outputs: Vec<String> = outputs.iter().map(|path| read(path)).collect();
    let six = "fd00::b00:2 fd00::b00:1 200";
    assert_eq!(outputs, [six, "11.0.0.2 11.0.0.1 200", six]);
    // What the server writes of an IPv4 client is the address that its socket of IPv6 has for it.
    let log = read(&folder.join(format!("run.data/hosts/server/{}.1000.stderr", file_name(&python))));
    assert!(log.contains("fd00::b00:1 - -") && log.contains("::ffff:11.0.0.1 - -"), "{log}");
    same_with_two_workers(&folder);
    tshark_is_content(&folder);
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("UTF-8")
}

/// The same run again, with two workers.
fn same_with_two_workers(folder: &Path) {
    let first = digest(&folder.join("run.data"));
    fs::rename(folder.join("run.data"), folder.join("first.data")).unwrap();
    run_well(folder, "ipv6.yaml", &["--parallelism", "2"]);
    assert_eq!(digest(&folder.join("run.data")), first);
}

/// The client's capture has packets of IPv6, none of which is malformed or has a bad checksum.
fn tshark_is_content(folder: &Path) {
    let Some(tshark) = find_program("tshark") else {
        common::leave_out("no tshark here");
        return;
    };
    let pcap = folder.join("run.data/hosts/client/eth0.pcap");
    let show = |filter: &str| {
        let mut command = Command::new(&tshark);
        command.arg("-r").arg(&pcap).args(["-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
        capture(command.args(["-Y", filter]).env("HOME", folder)).stdout
    };
    assert!(!show("ipv6").is_empty());
    let bad =
        "_ws.malformed || tcp.checksum.status == Bad || udp.checksum.status == Bad || icmpv6.checksum.status == Bad";
    assert_eq!(show(bad), "");
    assert_eq!(show("ipv6 && frame.len > 1514"), "");
}

#[test]
fn bulk_transfers_and_datagrams_go_over_ipv6() {
    let iperf3 = find("iperf3");
    let folder = folder("ipv6/iperf3");
    write(
        &folder,
        &[(&iperf3, "-s", 0, true)],
        &[
            (&iperf3, "-6 -c server -t 2 --json", 1, false),
            (&iperf3, "-6 -c server -u -b 10M -l 4000 -t 1 --json", 8, false),
        ],
    );
    run_well(&folder, "ipv6.yaml", &[]);
    let json = |pid: u32| -> serde_json::Value {
        serde_json::from_str(&read(&folder.join(format!("run.data/hosts/client/iperf3.{pid}.stdout")))).unwrap()
    };
    let tcp = json(1000);
    assert_eq!(tcp["start"]["connected"][0]["remote_host"], "fd00::b00:2");
    assert_eq!(tcp["start"]["tcp_mss_default"], 1428);
    let goodput = tcp["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    assert!((60e6..95e6).contains(&goodput), "{goodput}");
    let udp = json(1001);
    assert_eq!(udp["end"]["sum"]["lost_packets"], 0);
    tshark_is_content(&folder);
}

#[test]
fn ping_tells_the_latency_of_both_families() {
    let ping = find("ping");
    let folder = folder("ipv6/ping");
    write(
        &folder,
        &[],
        &[
            (&ping, "-4 -c 3 server", 1, false),
            (&ping, "-6 -c 3 server", 6, false),
            (&ping, "-c 1 -s 4000 fd00::b00:2", 12, false),
            (&ping, "-c 1 ::1", 14, false),
        ],
    );
    run_well(&folder, "ipv6.yaml", &[]);
    let output = |pid: u32| read(&folder.join(format!("run.data/hosts/client/ping.{pid}.stdout")));
    for pid in [1000, 1001] {
        let text = output(pid);
        assert!(text.contains("3 packets transmitted, 3 received, 0% packet loss"), "{text}");
        assert!(text.contains("time=40."), "{text}");
    }
    assert!(output(1001).contains("from server (fd00::b00:2)"), "{}", output(1001));
    assert!(output(1002).contains("4008 bytes from"), "{}", output(1002));
    assert!(output(1003).contains("1 received"), "{}", output(1003));
    tshark_is_content(&folder);
}
