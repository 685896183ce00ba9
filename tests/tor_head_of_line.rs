//! Two relays, a bulk circuit and small ones between them, and one packet in a hundred that is lost: on a connection that all share, answers of
//! the small wait for what the bulk one has lost; on connections of their own they do not. Compared with what theory expects.
//!
//! TCP hands on in order. A segment that is lost arrives a recovery R later than it would have: a round trip for the news of three segments behind
//! it, which themselves take the time in which three are sent (RFC 5681's three duplicates, which is RFC 8985's rule too until
//! segments were seen out of order). What is sent on the same connection within R after a loss waits until that is mended, so if losses come at rate λ,
//! independently,
//!
//! - a share 1 - exp(-λ R) of answers waits,
//! - answers are later by R - (1 - exp(-λ R)) / λ in the mean: the integral of (R - t) λ exp(-λ t) over what lies in R.
//!
//! λ is a hundredth of the bulk circuit's segments. These come at a steady pace, since the server's line is slower than all else, and than
//! what TCP can send with such losses: 1.2 MSS / (RTT √p) (Mathis and others, 1997).

mod common;

use common::folder;
use common::tor::{Network, Run};
use std::time::Duration;

/// Between the two relays, there and back; and what is lost.
const ROUND_TRIP_S: f64 = 0.1;
const LOSS: f64 = 0.01;
/// Everywhere else, one way.
const ELSEWHERE_MS: u64 = 2;
/// The line of the server of the bulk circuit, in bytes per second, with headers.
const PACE: f64 = 100_000.0;
/// What a client asks for: an answer of one cell, and so often.
const ANSWER: u64 = 100;
const SMALL_CLIENTS: usize = 10;
const ANSWERS: usize = 600;

const SEGMENT: f64 = 1448.0;
/// Bytes of a packet on a line with one segment in it.
const PACKET: f64 = 1514.0;
const CELL: f64 = 514.0;
const CELL_DATA: f64 = 498.0;
/// What TLS 1.3 adds to a record, of which there is one for each segment of the server's.
const RECORD: f64 = 22.0;

/// How many answers wait for others, and for how long.
#[derive(Debug)]
struct Waits {
    share: f64,
    mean_s: f64,
    answers: f64,
}

fn measure(name: &str, loss: f64, options: &[&str]) -> Waits {
    let counts = "--authorities 1 --guards 1 --middles 1 --exits 1 --guard-exits 0 --servers 2 --web-clients 0 --bulk-clients 1 \
                  --performance-clients 10 --relay-bandwidth 1Gbit --client-link fast:1Gbit:1Gbit --guard-policy kept \
                  --congestion-control fixed --relay-kind gnomon --client-kind gnomon --circuit-scheduler ewma --duration 13min";
    let arguments: Vec<&str> = counts.split_whitespace().chain(options.iter().copied()).collect();
    let network = Network::new(&folder(&format!("tor-head-of-line/{name}")), &arguments);
    network.set_latencies(ELSEWHERE_MS);
    set_way(&network, ["guard1", "middle1"], loss);
    network.change_host("server1", "bandwidth_up: 1 Gbit", &format!("bandwidth_up: {} bit", PACE * 8.0));
    network.set_traffic(
        "bulkclient1",
        "socks: 127.0.0.1:9050\nstart: 5 s\nstop: 680 s\nservers: [\"server1:80\"]\nbehaviours: [{ kind: bulk, size: 100 MiB }]\n",
    );
    for number in 1..=SMALL_CLIENTS {
        // Each at its own moment of a second.
        let start = Duration::from_millis(30_000 + 97 * number as u64);
        let traffic = format!(
            "socks: 127.0.0.1:9050\nisolation: behaviour\nstart: {} ms\nservers: [\"server2:80\"]\n\
             behaviours: [{{ kind: performance, sizes: [{ANSWER}], every: 1003 ms, count: {ANSWERS}, timeouts: [30 s] }}]\n",
            start.as_millis()
        );
        network.set_traffic(&format!("perfclient{number}"), &traffic);
    }
    network.append("template/conf/measuring-client.torrc", "MaxCircuitDirtiness 1 hour\n");
    waits(&network.run(&[]))
}

/// Gives the way between the places of two hosts its latency and loss.
fn set_way(network: &Network, hosts: [&str; 2], loss: f64) {
    let experiment = std::fs::read_to_string(network.file("gnomon.yaml")).unwrap();
    let node = |host: &str| -> u32 {
        let part = experiment.split(&format!("\n  {host}:\n")).nth(1).expect("the host is there");
        let id = part.trim_start().strip_prefix("network_node_id: ").expect("its node comes first");
        id.lines().next().unwrap().parse().expect("a number")
    };
    let [one, other] = hosts.map(node);
    // Nothing else between hosts that speak to each other goes that way.
    assert!(one != other && ![one, other].contains(&node("exit1")), "places of their own; another --seed has them");
    let ends = format!("    source {}\n    target {}\n", one.min(other), one.max(other));
    network.change("network.gml", |graph| {
        let (before, behind) = graph.split_once(&ends).expect("a way");
        let (_, rest) = behind.split_once('\n').expect("its latency");
        let latency = format!("    latency \"{} ms\"\n", ROUND_TRIP_S * 1e3 / 2.0);
        let loss = if loss > 0.0 { format!("    packet_loss {loss}\n") } else { String::new() };
        format!("{before}{ends}{latency}{loss}{rest}")
    });
}

/// Times from request to answer that are longer than the shortest, with what KIST's interval makes of them.
fn waits(run: &Run) -> Waits {
    let mut times: Vec<f64> = Vec::new();
    for client in run.clients().into_iter().filter(|client| client.starts_with("perf")) {
        // The first has to build a circuit.
        times.extend(run.transfers_of(client).iter().skip(1).map(|transfer| transfer.response()));
    }
    assert_eq!(times.len(), SMALL_CLIENTS * (ANSWERS - 1));
    times.sort_by(f64::total_cmp);
    let usual = times[times.len() / 2];
    let answers = times.len() as f64;
    let share = times.iter().filter(|time| **time > usual + 0.005).count() as f64 / answers;
    let mean_s = times.iter().map(|time| time - usual).sum::<f64>() / answers;
    println!(
        "usually {usual:.4} s, {share:.4} later, by {:.1} ms in the mean; longest {:.3}",
        mean_s * 1e3,
        times[times.len() - 1]
    );
    Waits { share, mean_s, answers }
}

#[test]
fn small_circuits_wait_for_what_bulk_has_lost_where_they_share_a_connection() {
    // What comes from the server in one segment takes this much between the relays, nearly all of it in full segments; by Nagle's rule one that is not
    // full leaves each round trip.
    let packets = PACE / PACKET;
    let bytes = packets * (SEGMENT / CELL_DATA * CELL + RECORD);
    let segments = bytes / SEGMENT + 1.0 / ROUND_TRIP_S;
    let losses = LOSS * segments;
    let recovery_s = ROUND_TRIP_S + 3.0 / segments;
    let late = 1.0 - (-losses * recovery_s).exp();
    let mean_s = recovery_s - late / losses;
    println!(
        "on paper: {segments:.1} segments a second, R {recovery_s:.4} s, {late:.4} later, by {:.1} ms in the mean",
        mean_s * 1e3
    );
    let shared = measure("shared", LOSS, &[]);
    let unhurt = measure("unhurt", 0.0, &[]);
    let apart = measure("apart", LOSS, &["--link-design", "pctcp"]);
    let imux = measure("imux", LOSS, &["--link-design", "imux"]);
    println!("{shared:?}\n{unhurt:?}\n{apart:?}\n{imux:?}");
}
