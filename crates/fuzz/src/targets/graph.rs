//! Graphs: GML, the ways between a few of its nodes, and what becomes of packets there.

use base::{Bandwidth, HostId, SeedTree, SimTime};
use topology::{Attachment, Graph, NetworkModel, Routing, Rules, Topology};

/// So many nodes have hosts.
const HOSTS: usize = 6;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let graph = match Graph::parse(text) {
        Ok(graph) => graph,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let speed = Some(Bandwidth::from_bits_per_sec(1_000_000));
    let hosts: Vec<Attachment> = graph
        .nodes
        .iter()
        .take(HOSTS)
        .chain(graph.nodes.first())
        .map(|node| Attachment { node_id: node.id, bandwidth_up: speed, bandwidth_down: node.bandwidth_down.or(speed) })
        .collect();
    for routing in [Routing::ShortestPath, Routing::DirectEdges] {
        let rules = Rules { model: NetworkModel::Gnomon, routing, bootstrap_end: SimTime::ZERO, seed: 1, threads: 1 };
        let Ok(topology) = Topology::build(&graph, &hosts, rules) else { continue };
        let mut dice = SeedTree::new(1).stream("", "fuzz");
        for (from, to) in (0..hosts.len()).flat_map(|from| (0..hosts.len()).map(move |to| (from, to))) {
            let (from, to) = (HostId(from as u32), HostId(to as u32));
            let path = topology.path(from, to);
            topology.fate(from, to, SimTime::ZERO, true, &mut dice);
            assert!(from == to || path.latency >= topology.min_incoming_latency(to), "a path outruns the windows");
        }
    }
}
