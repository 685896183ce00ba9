//! Hot paths of single crates, taken without guests between the marks of `steps.rs`.

use base::{Bandwidth, HostId, SeedTree, SimDuration, SimTime};
use engine::EventQueue;
use recorder::HostDigest;
use std::hint::black_box;
use std::path::Path;
use topology::{Attachment, Graph, NetworkModel, Routing, Rules, Topology};

pub const ROUNDS: u64 = 64;

fn mark(edge: &str, path: &str) {
    assert!(std::fs::metadata(Path::new(&format!("hot-path-{edge}-{path}"))).is_err(), "no file has this name");
}

fn measure(path: &str, mut round: impl FnMut(u64)) {
    (0..ROUNDS).for_each(&mut round);
    mark("begin", path);
    (ROUNDS..2 * ROUNDS).for_each(&mut round);
    mark("end", path);
}

/// Does nothing that can be seen; `hot_paths_take_no_more_instructions` counts what it executes.
#[test]
#[ignore = "executed by the other test"]
fn take_each() {
    measure("nothing", |_| ());
    event_queue();
    route();
    digest();
}

/// One event taken and one added, of a thousand.
fn event_queue() {
    let mut queue = EventQueue::new(HostId(1));
    let at = |number: u64| SimTime::from_nanos(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
    (0..1000).for_each(|number| queue.schedule(at(number), 0, [number; 8]));
    measure("event-queue", |round| {
        let event = queue.pop().expect("a thousand events");
        queue.schedule(event.key.time + SimDuration::from_nanos(at(round).as_nanos()), 0, black_box(event.event));
    });
}

/// What becomes of a packet between two of a hundred hosts, with loss.
fn route() {
    let text = "graph [ node [ id 0 host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]
        edge [ source 0 target 0 latency \"10 ms\" packet_loss 0.01 ] ]";
    let graph = Graph::parse(text).expect("a graph");
    let attachment =
        Attachment { node_id: 0, bandwidth_up: None, bandwidth_down: Some(Bandwidth::from_bits_per_sec(1_000_000)) };
    let rules = Rules {
        model: NetworkModel::Gnomon,
        routing: Routing::ShortestPath,
        bootstrap_end: SimTime::ZERO,
        seed: 1,
        threads: 1,
    };
    let topology = Topology::build(&graph, &[attachment; 100], rules).expect("a topology");
    let mut random = SeedTree::new(1).stream("host", "links");
    measure("route", |round| {
        let (from, to) = (HostId((round % 50) as u32), HostId((50 + round % 50) as u32));
        black_box(topology.fate(from, to, SimTime::from_nanos(round), true, &mut random));
    });
}

/// A packet of 1,500 bytes.
fn digest() {
    let (mut digest, headers, payload) = (HostDigest::new(), [1; 52], [2; 1448]);
    measure("digest", |round| digest.packet(SimTime::from_nanos(round), &headers, &[black_box(&payload)]));
    black_box(digest.hex());
}
