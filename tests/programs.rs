//! The examples, end to end: what real programs get over the simulated network, and what captures of it look like to tshark.

mod common;

use common::{capture, digest, find_program, folder, read, root, run_well, set_up, stats, tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a client of the web demo fared: `template/fetch.curlrc` says what curl writes.
struct Fetch {
    url: String,
    status: u32,
    bytes: u64,
    first_byte_s: f64,
    total_s: f64,
}

fn fetch(client: &Path) -> Fetch {
    let text = read(&client.join("curl.1000.stdout"));
    let words: Vec<&str> = text.split_whitespace().collect();
    let [url, status, bytes, first_byte, total] = words[..] else { panic!("{}: {text}", client.display()) };
    Fetch {
        url: url.to_owned(),
        status: status.parse().expect("a status"),
        bytes: bytes.parse().expect("bytes"),
        first_byte_s: first_byte.parse().expect("seconds"),
        total_s: total.parse().expect("seconds"),
    }
}

/// The one-way latencies from the data centre, in seconds, by client.
fn latencies() -> Vec<f64> {
    let graph = read(&root().join("examples/web-demo/network.gml"));
    let edges = graph.lines().filter(|line| line.contains("edge [") && !line.contains("target 0"));
    let milliseconds = edges.map(|line| line.split('"').nth(1).expect("a latency").trim_end_matches(" ms"));
    milliseconds.map(|text| text.parse::<f64>().expect("a number") / 1000.0).collect()
}

#[test]
fn web_clients_get_what_is_served() {
    let folder = folder("programs/web-demo");
    set_up("web-demo", &folder);
    run_well(&folder, "web-demo.yaml", &[]);
    let data = folder.join("demo.data");
    let latencies = latencies();
    assert_eq!(latencies.len(), 20);
    for (index, latency) in latencies.iter().enumerate() {
        let client = data.join(format!("hosts/client{:02}", index + 1));
        let got = fetch(&client);
        let (server, file) = got.url.strip_prefix("http://").and_then(|url| url.split_once('/')).expect("an address");
        let server = server.trim_end_matches(":8000");
        let served = fs::read(data.join(format!("hosts/{server}/www/{file}"))).expect("a served file");
        assert!(fs::read(client.join("body")).expect("a body") == served, "{}: the body differs", got.url);
        assert_eq!((got.status, got.bytes), (200, served.len() as u64), "{}", got.url);
        // The connection and the request take a round trip each.
        assert!(got.first_byte_s >= 4.0 * latency, "{}: {} s", got.url, got.first_byte_s);
        assert!(got.first_byte_s < 4.0 * latency + 10.0, "{}: {} s", got.url, got.first_byte_s);
        assert!(got.total_s >= got.first_byte_s && got.total_s < 40.0, "{}: {} s", got.url, got.total_s);
        assert_eq!(read(&client.join("curl.1000.stderr")), "");
    }
    assert!(stats(&data)["gnomon"]["network"]["packets_lost"].as_u64() > Some(10), "links lose packets");
    assert_eq!(digest(&data).len(), 64);
}

#[test]
fn iperf3_fills_its_link() {
    let folder = folder("programs/iperf3");
    let example = root().join("examples/iperf3/iperf3.yaml");
    run_well(&folder, example.to_str().expect("UTF-8"), &[]);
    let text = read(&folder.join("iperf3.data/hosts/client/iperf3.1000.stdout"));
    let report: serde_json::Value = serde_json::from_str(&text).expect("iperf3 writes JSON");
    let received = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate") / 1e6;
    // 1448 of 1500 bytes are payload: at most 96.5 of 100 Mbit/s; the start costs some.
    assert!((85.0..96.6).contains(&received), "{received} Mbit/s");
    assert_eq!(report["end"]["sum_sent"]["retransmits"].as_i64(), Some(0), "nothing is lost on this link");
}

#[test]
fn openssl_speaks_tls_with_its_visitors() {
    let folder = folder("programs/openssl");
    set_up("openssl", &folder);
    run_well(&folder, "openssl.yaml", &[]);
    let hosts = folder.join("openssl.data/hosts");
    let handshake = read(&hosts.join("visitor/openssl.1000.stderr"));
    for line in
        ["CONNECTION ESTABLISHED", "Protocol version: TLSv1.3", "Verification: OK", "Verified peername: server", "DONE"]
    {
        assert!(handshake.contains(line), "'{line}' is not in:\n{handshake}");
    }
    let served = fs::read(hosts.join("server/page")).expect("the page");
    assert_eq!(served.len(), 256 << 10);
    assert!(fs::read(hosts.join("visitor/body")).expect("the body") == served, "the body differs");
    let statistics = read(&hosts.join("server/openssl.1000.stdout"));
    assert!(statistics.contains("2 server accepts that finished"), "{statistics}");
}

/// Servers and clients of every kind that the examples have, on links that lose packets and reorder them by jitter.
const CAPTURED: &str = r#"
general: { stop_time: 15 s, data_directory: run.data, template_directory: template }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "50 Mbit" host_bandwidth_up "50 Mbit" ]
        node [ id 1 host_bandwidth_down "10 Mbit" host_bandwidth_up "10 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "25 ms" jitter "2 ms" packet_loss 0.01 ]
        edge [ source 1 target 1 latency "1 ms" ]
      ]
host_option_defaults: { pcap_enabled: true }
hosts:
  web:
    network_node_id: 0
    processes:
    - { path: NGINX, args: -p . -c nginx.conf -e error.log, expected_final_state: running }
    - { path: curl, args: -q -s -S -o own http://127.0.0.1/page, start_time: 1 s }
    - { path: iperf3, args: --server --one-off }
  client:
    network_node_id: 1
    processes:
    - { path: curl, args: -q -s -S -o body http://web/page, start_time: 1 s }
    - { path: curl, args: -q -s -S http://web:81/refused, start_time: 2 s, expected_final_state: { exited: 7 } }
  # Without losses: iperf3 does not repeat its first datagram.
  near:
    network_node_id: 0
    processes:
    - { path: iperf3, args: --client web --udp --bitrate 2M --time 2, start_time: 3 s }
"#;

/// What tshark prints of a capture with that filter, one line per packet.
fn tshark(tshark: &Path, file: &Path, filter: &str) -> String {
    let mut command = Command::new(tshark);
    for setting in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum", "tcp.reassemble_out_of_order"] {
        command.args(["-o", &format!("{setting}:TRUE")]);
    }
    // A home of its own: preferences of the user do not count.
    let output =
        capture(command.arg("-r").arg(file).args(["-Y", filter]).env("HOME", file.parent().expect("a folder")));
    assert!(output.status.success(), "tshark: {}", output.stderr);
    output.stdout
}

#[test]
fn captures_are_good_to_tshark() {
    let Some(program) = find_program("tshark") else {
        common::leave_out("no tshark here");
        return;
    };
    let folder = folder("programs/captures");
    let web = folder.join("template/hosts/web");
    fs::create_dir_all(web.join("www")).unwrap();
    fs::copy(root().join("examples/web-demo/template/hosts/nginx/nginx.conf"), web.join("nginx.conf")).unwrap();
    fs::write(web.join("www/page"), "a line of the page\n".repeat(50_000)).unwrap();
    let nginx = find_program("nginx").expect("nginx: tools/install-packages test");
    fs::write(folder.join("captured.yaml"), CAPTURED.replace("NGINX", nginx.to_str().expect("UTF-8"))).unwrap();
    run_well(&folder, "captured.yaml", &[]);

    let hosts = folder.join("run.data/hosts");
    assert!(fs::read(hosts.join("client/body")).unwrap() == fs::read(web.join("www/page")).unwrap());
    let captures: Vec<PathBuf> =
        tree(&hosts).into_keys().filter(|name| name.ends_with(".pcap")).map(|name| hosts.join(name)).collect();
    assert_eq!(captures.len(), 6, "{captures:?}");
    for file in &captures {
        let bad =
            "_ws.malformed || ip.checksum.status == Bad || tcp.checksum.status == Bad || udp.checksum.status == Bad";
        assert_eq!(tshark(&program, file, bad), "", "{}", file.display());
    }
    let count = |file: &str, filter: &str| tshark(&program, &hosts.join(file), filter).lines().count();
    assert!(count("web/eth0.pcap", "tcp.checksum.status == Good") > 500, "checksums are there and good");
    assert!(count("web/eth0.pcap", "udp.checksum.status == Good && ip.checksum.status == Good") > 100);
    assert!(count("web/lo.pcap", "http.request.uri == \"/page\"") == 1, "the loopback has a capture, too");
    assert!(count("client/eth0.pcap", "http.response.code == 200") == 1, "the whole response is put together");
    assert!(count("client/eth0.pcap", "tcp.port == 81 && tcp.flags.reset == 1") == 1, "a closed port answers");
    assert!(
        count("web/eth0.pcap", "tcp.analysis.retransmission || tcp.analysis.fast_retransmission") > 0,
        "losses are mended"
    );
    let (sent, received) =
        (count("web/eth0.pcap", "tcp.srcport == 80"), count("client/eth0.pcap", "tcp.srcport == 80"));
    assert!(received < sent, "packets are lost on the way: {sent} sent, {received} received");
}
