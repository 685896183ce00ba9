//! What downloads take on an idle network, computed from the network's and TCP's rules on paper, against what programs measure.
//!
//! The model is a recurrence over the segments of a response, without events, queues or packets:
//!
//! - The handshake takes a round trip (RFC 9293 section 3.5); the request leaves behind the client's acknowledgement, the response behind
//!   the server's. So the first byte comes two round trips after the start, and what lines need for these packets.
//! - Ten segments may leave at once (RFC 6928), and each one that is acknowledged lets two more go (slow start, RFC 5681 section 3.1).
//!   HyStart++ (RFC 9406) and CUBIC change nothing: no queue grows in the network, and nothing is lost.
//! - The first 16 segments are acknowledged one by one, the others in pairs (Linux's TCP_MAX_QUICKACKS; RFC 9293 section 3.8.6.3).
//! - Not more than the receive window is under way. What an acknowledgement says of it leaves out the segment that has just come, since
//!   the program reads it after that (as in Linux, where the softirq acknowledges).
//! - A connection that is used again, before it has been idle for long, goes on with the window it had.
//! - A packet takes its line for its size, without framing, once: on the slower of the two hosts' lines (`topology`'s rules).
//! - Programs take no time.

mod common;

use common::{find_program, folder, run_well, tree};
use std::fs;

/// Bytes in a full segment, and in the headers before them: IPv4, TCP, timestamps.
const SEGMENT: u64 = 1448;
const HEADERS: u64 = 52;
/// A SYN has more options.
const SYN: u64 = 60;
const INITIAL_WINDOW: u64 = 10;
const QUICK_ACKS: u64 = 16;

/// curl measures in microseconds, cut; the simulation counts in nanoseconds.
const TOLERANCE_S: f64 = 3e-6;

/// The way between a client and a server that nobody else uses.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// One way, in milliseconds.
    latency_ms: u64,
    /// Of both of the host's lines, in Mbit/s.
    server_mbit: u64,
    client_mbit: u64,
    /// Segments that the receive window holds, an odd number (otherwise one segment of each round trip would wait for a delayed
    /// acknowledgement); None when the window grows fast enough.
    window: Option<u64>,
}

impl Way {
    fn new(latency_ms: u64, mbit: u64) -> Way {
        Way { latency_ms, server_mbit: mbit, client_mbit: mbit, window: None }
    }

    fn round_trip(&self) -> f64 {
        2.0 * self.latency_ms as f64 / 1e3
    }

    /// How long a packet takes its line, in seconds.
    fn line(&self, bytes: u64) -> f64 {
        (8 * bytes) as f64 / (self.server_mbit.min(self.client_mbit) as f64 * 1e6)
    }
}

/// Moments of a download, in seconds from its start.
#[derive(Clone, Copy, Debug)]
struct Download {
    connected: f64,
    first_byte: f64,
    last_byte: f64,
}

/// A download of so many bytes, headers of HTTP included, on a new connection.
fn expected(way: &Way, request: u64, response: u64) -> Download {
    let connected = way.round_trip() + 2.0 * way.line(SYN);
    let asked = connected + way.line(HEADERS) + way.line(HEADERS + request) + way.round_trip() / 2.0;
    Download { connected, ..responded(way, asked + way.line(HEADERS), response, 0) }
}

/// A further download on a connection that has carried so many segments, in seconds from the end of the one before. The client
/// acknowledges what it has, then asks; the server's acknowledgement rides on the response.
fn expected_again(way: &Way, request: u64, response: u64, before: u64) -> Download {
    let asked = way.line(HEADERS) + way.line(HEADERS + request) + way.round_trip() / 2.0;
    responded(way, asked, response, before)
}

/// The bytes of a download whose first segment may leave at `free`, after `before` segments on the same connection.
fn responded(way: &Way, mut free: f64, response: u64, before: u64) -> Download {
    // When each segment has left the server whole.
    let mut left: Vec<f64> = Vec::new();
    for number in 0..response.div_ceil(SEGMENT) {
        let acknowledged = last_needed(number, before, way.window).map(|needed| left[needed as usize]);
        let allowed = acknowledged.map_or(free, |left| left + way.round_trip() + way.line(HEADERS));
        let size = SEGMENT.min(response - number * SEGMENT) + HEADERS;
        free = free.max(allowed) + way.line(size);
        left.push(free);
    }
    let arrives = |left: f64| left + way.round_trip() / 2.0;
    Download { connected: 0.0, first_byte: arrives(left[0]), last_byte: arrives(free) }
}

/// The segment after whose acknowledgement this one may leave; None if it need not wait.
fn last_needed(number: u64, before: u64, window: Option<u64>) -> Option<u64> {
    // With n acknowledged the congestion window is 10 + n, so that 10 + 2 n may have left.
    let by_congestion = (number + 1).saturating_sub(INITIAL_WINDOW + before).div_ceil(2);
    let by_receiver = window.map_or(0, |window| (number + 1).saturating_sub(window - 1));
    let count = by_congestion.max(by_receiver);
    let quick = QUICK_ACKS.saturating_sub(before);
    let told = if count <= quick { count } else { quick + (count - quick).next_multiple_of(2) };
    told.checked_sub(1)
}

#[test]
fn the_model_doubles_per_round_trip() {
    let way = Way::new(100, 1_000_000_000);
    for (segments, round_trips) in
        [(1, 2.0), (10, 2.0), (11, 3.0), (30, 3.0), (31, 4.0), (70, 4.0), (71, 5.0), (151, 6.0)]
    {
        let last = expected(&way, 80, segments * SEGMENT).last_byte;
        assert!((last - round_trips * 0.2).abs() < 1e-6, "{segments} segments: {last} s");
    }
    // A line that is busy all the time: only size and rate count.
    let way = Way::new(10, 1);
    let busy = expected(&way, 80, 100 * SEGMENT);
    assert!((busy.last_byte - busy.first_byte - 99.0 * 0.012).abs() < 1e-9, "{busy:?}");
    let way = Way { window: Some(21), ..Way::new(100, 1_000_000_000) };
    // 10, then 20 per round trip.
    assert!((expected(&way, 80, 90 * SEGMENT).last_byte - 6.0 * 0.2).abs() < 1e-6);
}

const NGINX: &str = "
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
    access_log off;
    server { listen 80; root www; }
}
";

/// What curl says of a download; then header, request and body in bytes.
const FORMAT: &str =
    "%{time_connect} %{time_starttransfer} %{time_total} %{size_header} %{size_request} %{size_download}\\n";

/// Seconds between the starts of two downloads, more than any of them takes.
const SPACING_S: u64 = 60;

/// One curl for each list of sizes, which downloads them one after the other over one connection.
fn experiment(way: &Way, sizes: &[&[u64]]) -> String {
    let nginx = find_program("nginx").expect("nginx: tools/install-packages test");
    let download = |(index, sizes): (usize, &&[u64])| {
        let start = 1 + index as u64 * SPACING_S;
        let files: String = sizes.iter().map(|size| format!(" -o body http://server/{size}")).collect();
        format!("    - {{ path: curl, args: -q -s -S -K ../../../curlrc{files}, start_time: {start} s }}\n")
    };
    let downloads: String = sizes.iter().enumerate().map(download).collect();
    // A full segment occupies 2,304 bytes, so that 160 of 256 bytes of the buffer are window.
    let buffer = way.window.map_or(String::new(), |window| {
        let memory = (window * SEGMENT * 256).div_ceil(160);
        format!(", socket_recv_buffer: {memory} B, socket_recv_autotune: false")
    });
    let Way { latency_ms, server_mbit, client_mbit, .. } = way;
    format!(
        r#"
general: {{ stop_time: {stop} s, data_directory: run.data, template_directory: template }}
# Each segment arrives by itself, and none waits for what comes soon.
experimental: {{ coalescing: 0 s{buffer} }}
host_option_defaults: {{ sysctl: net.ipv4.tcp_tso_win_divisor = 0 }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "{server_mbit} Mbit" host_bandwidth_up "{server_mbit} Mbit" ]
        node [ id 1 host_bandwidth_down "{client_mbit} Mbit" host_bandwidth_up "{client_mbit} Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 0 target 1 latency "{latency_ms} ms" ]
        edge [ source 1 target 1 latency "1 ms" ]
      ]
hosts:
  server:
    network_node_id: 0
    processes:
    - {{ path: {nginx}, args: -p . -c nginx.conf -e error.log, expected_final_state: running }}
  client:
    network_node_id: 1
    processes:
{downloads}"#,
        stop = 1 + sizes.len() as u64 * SPACING_S,
        nginx = nginx.display(),
    )
}

/// What curl measured of one download; request and response in bytes, headers of HTTP included.
struct Measured {
    download: Download,
    request: u64,
    response: u64,
}

/// Downloads files of these sizes over that way, as `experiment` says.
fn measure(name: &str, way: &Way, sizes: &[&[u64]]) -> Vec<Vec<Measured>> {
    let folder = folder(&format!("theory/{name}"));
    let server = folder.join("template/hosts/server");
    fs::create_dir_all(server.join("www")).unwrap();
    fs::write(server.join("nginx.conf"), NGINX).unwrap();
    for size in sizes.iter().copied().flatten() {
        fs::write(server.join(format!("www/{size}")), vec![b'x'; *size as usize]).unwrap();
    }
    fs::write(folder.join("curlrc"), format!("write-out = \"{FORMAT}\"\n")).unwrap();
    fs::write(folder.join("theory.yaml"), experiment(way, sizes)).unwrap();
    run_well(&folder, "theory.yaml", &[]);
    let files = tree(&folder.join("run.data/hosts/client")).into_iter();
    // By process number, so in the order of their starts.
    let outputs: Vec<Vec<u8>> =
        files.filter(|(name, _)| name.ends_with(".stdout")).map(|(_, content)| content).collect();
    assert_eq!(outputs.len(), sizes.len());
    let parse = |output: &Vec<u8>| String::from_utf8_lossy(output).lines().map(parse_line).collect();
    let measured: Vec<Vec<Measured>> = outputs.iter().map(parse).collect();
    let counts = |lists: &mut dyn Iterator<Item = usize>| lists.collect::<Vec<_>>();
    assert_eq!(counts(&mut measured.iter().map(Vec::len)), counts(&mut sizes.iter().map(|list| list.len())));
    measured
}

fn parse_line(line: &str) -> Measured {
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [connected, first_byte, last_byte, header, request, body] = numbers[..] else { panic!("{line}") };
    let download = Download { connected, first_byte, last_byte };
    Measured { download, request: request as u64, response: (header + body) as u64 }
}

fn assert_close(way: &Way, measured: &Measured, expected: Download) {
    let Measured { download, response, .. } = measured;
    for (what, measured, expected) in [
        ("connected", download.connected, expected.connected),
        ("first byte", download.first_byte, expected.first_byte),
        ("last byte", download.last_byte, expected.last_byte),
    ] {
        let text = format!("{way:?}, {response} bytes: {what} after {measured:.6} s, expected {expected:.7} s");
        println!("{text}");
        assert!((measured - expected).abs() <= TOLERANCE_S, "{text}");
    }
}

/// Downloads files of these sizes, each on a connection of its own, and compares each with the theory.
fn compare(name: &str, way: &Way, sizes: &[u64]) {
    let lists: Vec<&[u64]> = sizes.iter().map(std::slice::from_ref).collect();
    for measured in measure(name, way, &lists).iter().flatten() {
        assert_close(way, measured, expected(way, measured.request, measured.response));
    }
}

/// Below and above the initial window, in the middle of slow start, and long enough to fill most of the lines below.
const SIZES: [u64; 6] = [1_000, 14_000, 15_000, 100_000, 1_000_000, 4_000_000];

#[test]
fn downloads_take_what_latency_slow_start_and_bandwidth_make_of_them() {
    // At round trips below twice 2 ms, Linux's HyStart takes one round's acknowledgements and the next's for one train: what is short enough
    // ends before that becomes a matter of congestion control.
    compare("1-ms-1000-mbit", &Way::new(1, 1000), &SIZES[..3]);
    for (latency_ms, mbit) in [(5, 1000), (10, 100), (50, 10), (100, 1000), (150, 50), (25, 1), (5, 10), (40, 300)] {
        compare(&format!("{latency_ms}-ms-{mbit}-mbit"), &Way::new(latency_ms, mbit), &SIZES);
    }
}

#[test]
fn the_slower_line_counts() {
    let slow_server = Way { server_mbit: 10, client_mbit: 100, ..Way::new(20, 0) };
    compare("slow-server", &slow_server, &SIZES);
    // What waits before a slow client waits in the network; here it ends before that becomes a matter of congestion control.
    let slow_client = Way { server_mbit: 1000, client_mbit: 50, ..Way::new(50, 0) };
    compare("slow-client", &slow_client, &[1_000, 14_000, 15_000, 100_000, 1_000_000]);
}

#[test]
fn a_receive_window_is_what_a_round_trip_carries() {
    compare("window", &Way { window: Some(45), ..Way::new(50, 100) }, &[15_000, 100_000, 1_000_000, 3_000_000]);
}

#[test]
fn a_connection_goes_on_with_the_window_it_had() {
    // The first fills its last window (10, 20 and 40 segments), so that all of it counts: a window grows as far as it is used (RFC 7661).
    for mbit in [10, 100, 1000] {
        let way = Way::new(50, mbit);
        let measured = measure(&format!("again-{mbit}-mbit"), &way, &[&[100_000, 300_000]]);
        let mut before = 0;
        for measured in &measured[0] {
            let expected = match before {
                0 => expected(&way, measured.request, measured.response),
                _ => expected_again(&way, measured.request, measured.response, before),
            };
            assert_close(&way, measured, expected);
            before += measured.response.div_ceil(SEGMENT);
        }
    }
}
