//! What downloads through tor take on an idle network, computed on paper from latencies, windows and how circuits and TCP work, against
//! what clients measure.
//!
//! Every link has the latency L and a gigabit, and there is one way: client, guard, middle, exit, server. So on paper:
//!
//! - A connection between relays takes three round trips of a link, 6 L: TCP (RFC 9293), TLS 1.3 (RFC 8446 section 2), tor's own
//!   handshake (tor-spec, "Negotiating and initializing channels"). By Nagle's algorithm two small messages wait for the acknowledgement
//!   of one just before, 2 L each: VERSIONS for that of TLS's Finished, and the circuit's first CREATE for that of NETINFO: 10 L in all.
//!   A circuit takes a round trip to each hop in turn, 2 L + 4 L + 6 L.
//! - A stream takes BEGIN and CONNECTED, 6 L, and the exit's connection to the server, 2 L. The request and the first bytes of its
//!   response go the same way: 8 L more.
//! - Tor leaves Nagle's algorithm on, so of what is smaller than a segment only one may be unacknowledged on a link (Minshall's rule, as
//!   in Linux). What follows waits up to 2 L. Links do so side by side: when a held piece comes to the next link, the acknowledgement
//!   that it would wait for there has just come, too.
//! - KIST writes at once if it has not run for 2 ms (KISTSchedRunInterval of tor 0.4.9), else up to 2 ms later.
//! - A relay cell carries 488 bytes of a stream (the public network's relays and clients of 0.4.9: 509 less 21 of the relay header).
//!
//! Programs take no time.

mod common;

use common::folder;
use common::tor::{Network, Run, Transfer};

const CELL_BYTES: u64 = 488;
/// The response's header, with room to spare.
const HEADER_BYTES: u64 = 200;
const SEGMENT: u64 = 1448;
/// Cells and what TLS adds, per cell of a long write.
const CELL_ON_WIRE: u64 = 515;
/// What lines take for the packets of one way there and back (some twenty, most of them small), in seconds.
const LINES_S: f64 = 0.000_3;
/// What KIST and lines take of a short response: a run at each of three relays, in seconds.
const KIST_S: f64 = 3.0 * 0.002 + 0.001;
/// A delayed acknowledgement (TCP_DELACK_MIN of Linux), in seconds.
const DELAYED_S: f64 = 0.040;
/// By how much one is later that follows upon another, in seconds: the delay has doubled, and with each of two segments come half of the way
/// back (tcp_event_data_recv).
const DELAYED_AGAIN_S: f64 = 0.010;

/// What clients fetch, one after the other on one circuit, of which the first transfer has to build it.
const SMALL: [u64; 6] = [100, 100, 5 << 10, 10 << 10, 25 << 10, 50 << 10];
const LARGE: [u64; 3] = [320 << 10, 1 << 20, 5 << 20];

/// What relays run, as `--relay-kind` has it.
#[derive(Clone, Copy)]
enum Relays {
    Tor,
    Gnomon,
}

impl Relays {
    fn name(self) -> &'static str {
        match self {
            Relays::Tor => "tor",
            Relays::Gnomon => "gnomon",
        }
    }

    /// Latencies that a connection between two of them takes. gnomon-relay says VERSIONS in one piece with TLS's Finished.
    fn connection(self) -> f64 {
        match self {
            Relays::Tor => 10.0,
            Relays::Gnomon => 8.0,
        }
    }
}

/// Runs a network of such relays with this latency and congestion control (`fixed` windows, or `vegas`): a client for the small files,
/// and one for each of the large ones, so that each of these has a circuit of its own. No two fetch at the same time.
fn measure(relays: Relays, latency_ms: u64, congestion_control: &str) -> Run {
    let counts = "--authorities 1 --guards 1 --middles 1 --exits 1 --guard-exits 0 --servers 1 --web-clients 0 --bulk-clients 0 \
                  --performance-clients 4";
    let mut arguments: Vec<&str> = counts.split_whitespace().collect();
    arguments.extend([
        "--relay-bandwidth",
        "1 Gbit",
        "--server-bandwidth",
        "1 Gbit",
        "--client-link",
        "fast:1 Gbit:1 Gbit",
    ]);
    // EntryNodes wants guards.
    arguments.extend(["--guard-policy", "kept", "--duration", "6 min"]);
    arguments.extend(["--congestion-control", congestion_control, "--relay-kind", relays.name()]);
    let name = format!("tor-theory/{}-{congestion_control}-{latency_ms}", relays.name());
    let network = Network::new(&folder(&name), &arguments);
    network.set_latencies(latency_ms);
    // Otherwise a system call takes a microsecond.
    network.change("gnomon.yaml", |text| {
        text.replace("model_unblocked_syscall_latency: true", "model_unblocked_syscall_latency: false")
    });
    // Nobody builds circuits of his own accord, so that the network is idle.
    network.append("template/conf/common.torrc", "__DisablePredictedCircuits 1\n");
    network.append(
        "template/conf/measuring-client.torrc",
        "MaxCircuitDirtiness 1 hour\nConfluxEnabled 0\nConnectionPadding 0\nCircuitPadding 0\n\
         EntryNodes guard1\nMiddleNodes middle1\nExitNodes exit1\n",
    );
    let clients = [("5 s", SMALL.to_vec())].into_iter().chain(
        [("70 s", 0), ("100 s", 1), ("130 s", 2)].map(|(start, index): (&str, usize)| (start, vec![100, LARGE[index]])),
    );
    for (index, (start, sizes)) in clients.enumerate() {
        let traffic = format!(
            "socks: 127.0.0.1:9050\nisolation: behaviour\ncontrol: 127.0.0.1:9051\nstart: {start}\nservers: [\"60.0.0.1:80\"]\n\
             behaviours: [{{ kind: performance, sizes: {sizes:?}, every: 10 s, count: {} }}]\n",
            sizes.len()
        );
        network.set_traffic(&format!("perfclient{}", index + 1), &traffic);
    }
    network.run(&[])
}

/// Compares in units of the latency, which is what theory speaks of.
struct Paper {
    latency_s: f64,
}

impl Paper {
    /// A time that must be so many latencies, and at most `more` seconds more.
    fn assert_takes(&self, what: &str, measured_s: f64, latencies: f64, more: f64) {
        let text = format!("{what}: {measured_s:.6} s, on paper {latencies} L = {:.3} s", latencies * self.latency_s);
        println!("{text}");
        let rest = measured_s - latencies * self.latency_s;
        assert!(rest >= -1e-6 && rest <= more, "{text}");
    }

    fn assert_between(&self, what: &str, measured_s: f64, least: f64, most: f64, more: f64) {
        let latencies = measured_s / self.latency_s;
        let text = format!("{what}: {measured_s:.6} s = {latencies:.2} L, on paper {least} to {most} L");
        println!("{text}");
        assert!(latencies >= least && measured_s <= most * self.latency_s + more, "{text}");
    }

    /// The moments that hold for every transfer on a circuit that is there.
    fn check_first_byte(&self, transfer: &Transfer) {
        let name = format!("{} bytes", transfer.bytes);
        self.assert_takes(&format!("{name}: stream"), transfer.socks.expect("a stream"), 8.0, LINES_S);
        self.assert_takes(&format!("{name}: first byte"), transfer.response(), 8.0, LINES_S);
    }

    /// What follows of a short response comes whole round trips of a link later: at least those that the server's slow start takes, and at
    /// most one more for each of the three links of the circuit, on which the last piece waits for an acknowledgement. One of these may be
    /// a delayed one: of a small piece that came to a relay which had itself sent something just before.
    fn check_last_byte_of_small(&self, transfer: &Transfer) {
        let rest = transfer.last_byte - transfer.first_byte;
        let (trips, delay) = [DELAYED_S, 0.0]
            .map(|delay| (((rest - delay) / (2.0 * self.latency_s) + 1e-4).floor(), delay))
            .into_iter()
            .min_by(|a, b| {
                let left = |(trips, delay): &(f64, f64)| (rest - delay - 2.0 * trips * self.latency_s).abs();
                left(a).total_cmp(&left(b))
            })
            .expect("two");
        let what = format!("{} bytes: first to last, less {delay} s", transfer.bytes);
        let more = if delay > 0.0 { DELAYED_AGAIN_S } else { 0.0 };
        self.assert_takes(&what, rest - delay, 2.0 * trips, KIST_S + more);
        let served = slow_start((transfer.bytes + HEADER_BYTES).div_ceil(SEGMENT));
        let relayed = slow_start((cells(transfer.bytes) * CELL_ON_WIRE).div_ceil(SEGMENT));
        let most = if cells(transfer.bytes) == 1 { 0.0 } else { relayed + 3.0 };
        assert!((served..=most).contains(&trips), "{} bytes: {trips} round trips", transfer.bytes);
    }
}

/// Relay cells of a response.
fn cells(bytes: u64) -> u64 {
    (bytes + HEADER_BYTES).div_ceil(CELL_BYTES)
}

/// Round trips after the first flight that slow start takes for so many segments (RFC 5681, RFC 6928).
fn slow_start(segments: u64) -> f64 {
    (0..).find(|trips| 10 * ((1 << (trips + 1)) - 1) >= segments).expect("some number") as f64
}

/// The build times of a client's circuits, in seconds.
fn builds(run: &Run, client: &str) -> Vec<f64> {
    run.lines(client, "circuit").iter().map(|line| line["build"].as_f64().expect("built")).collect()
}

/// Everything that does not depend on circuits' windows.
fn check_small(run: &Run, relays: Relays, latency_s: f64) {
    let paper = Paper { latency_s };
    let small = run.transfers_of("perfclient1");
    assert_eq!(small.iter().map(|transfer| transfer.bytes).collect::<Vec<_>>(), SMALL);
    // The guard's connection to the middle and the middle's to the exit are made with the first circuit; the clients' to the guard were
    // there, since they had asked it for the consensus.
    let first = 12.0 + 2.0 * relays.connection();
    paper.assert_takes("first circuit", builds(run, "perfclient1")[0], first, LINES_S);
    paper.assert_takes("first stream", small[0].socks.expect("a stream"), first + 8.0, 2.0 * LINES_S);
    for client in ["perfclient2", "perfclient3", "perfclient4"] {
        paper.assert_takes("a circuit", builds(run, client)[0], 12.0, LINES_S);
        let first = &run.transfers_of(client)[0];
        paper.assert_takes("its stream", first.socks.expect("a stream"), 12.0 + 8.0, 2.0 * LINES_S);
    }
    for transfer in &small[1..] {
        paper.check_first_byte(transfer);
        paper.check_last_byte_of_small(transfer);
    }
}

fn large(run: &Run) -> Vec<Transfer> {
    let transfers = ["perfclient2", "perfclient3", "perfclient4"].map(|client| run.transfers_of(client)[1].clone());
    assert_eq!(transfers.each_ref().map(|transfer| transfer.bytes), LARGE);
    transfers.to_vec()
}

/// A window of a circuit takes a round trip of the circuit, 6 L, and at most two waits for acknowledgements more: that of the last piece of
/// a burst on its way down, and that of the SENDMEs, which are small, on their way up.
const ROUND: f64 = 6.0;
const SLOWEST_ROUND: f64 = 10.0;

#[test]
fn downloads_on_an_idle_network_take_what_latencies_and_congestion_control_make_of_them() {
    for (relays, latency_ms) in [(Relays::Tor, 30), (Relays::Tor, 50), (Relays::Gnomon, 30), (Relays::Gnomon, 50)] {
        let latency_s = latency_ms as f64 / 1e3;
        let run = measure(relays, latency_ms, "vegas");
        check_small(&run, relays, latency_s);
        let paper = Paper { latency_s };
        for transfer in large(&run) {
            paper.check_first_byte(&transfer);
            // Vegas takes what its window is above the window that the least round trip would need for a queue. With rounds of 8 L to
            // 10 L, of which 6 L is the least, that is a quarter to two fifths of the window. Slow start ends at a queue of gamma, 186
            // cells, and puts the window back to what is needed and gamma: no lower than with a window of 186 / 0.4. Later, windows
            // shrink above beta, 248 cells, so they stay below 248 / 0.25. (Proposal 324, section 3.3, for circuits to exits.)
            let (fewest, most) = (186.0 / 0.4, 248.0 / 0.25);
            let least = ROUND * rounds(cells(transfer.bytes), most);
            let longest = SLOWEST_ROUND * rounds(cells(transfer.bytes), fewest) + 3.0 * 2.0;
            let rest = transfer.last_byte - transfer.first_byte;
            paper.assert_between(&format!("{} bytes: first to last", transfer.bytes), rest, least, longest, DELAYED_S);
        }
    }
}

/// Rounds before the one that carries the last of these cells. Windows start with 124 cells (4 times 31) and double, as SENDMEs let as many
/// more go as they acknowledge, up to `largest`.
fn rounds(cells: u64, largest: f64) -> f64 {
    let (mut sent, mut window, mut rounds) = (0.0, 124.0, 0.0);
    loop {
        sent += window;
        if sent >= cells as f64 {
            return rounds;
        }
        window = largest.min(2.0 * window);
        rounds += 1.0;
    }
}

#[test]
fn fixed_windows_carry_500_cells_per_round_trip() {
    for relays in [Relays::Tor, Relays::Gnomon] {
        check_fixed_windows(relays);
    }
}

fn check_fixed_windows(relays: Relays) {
    let latency_ms = 50;
    let latency_s = latency_ms as f64 / 1e3;
    let run = measure(relays, latency_ms, "fixed");
    check_small(&run, relays, latency_s);
    let paper = Paper { latency_s };
    for transfer in &large(&run)[1..] {
        paper.check_first_byte(transfer);
        // A stream's window is 500 cells, less than the circuit's 1000 (tor-spec, "Flow control"). From the first to the ninth tenth, the
        // line is never left idle for another reason.
        let window_s =
            (transfer.tenths[8] - transfer.tenths[0]) * (500 * CELL_BYTES) as f64 / (0.8 * transfer.bytes as f64);
        paper.assert_between(&format!("{} bytes: a window", transfer.bytes), window_s, ROUND, SLOWEST_ROUND, 0.0);
    }
}
