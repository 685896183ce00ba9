//! The network of one experiment: hosts attached to nodes, ways between them, and the bounds that the engine's windows need.

use crate::drift::Drift;
use crate::error::TopologyError;
use crate::graph::Graph;
use crate::path::{Fate, Loss, Path};
use crate::routing::{Matrix, Routing};
use base::{Bandwidth, HostId, Rng, SimDuration, SimTime};

/// Where a host is attached, in the order of host ids. Bandwidths left out come from the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub node_id: u32,
    pub bandwidth_up: Option<Bandwidth>,
    pub bandwidth_down: Option<Bandwidth>,
}

/// A host's access link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLink {
    pub up: Bandwidth,
    pub down: Bandwidth,
}

/// By whose rules packets are lost and delayed on their routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkModel {
    /// Any packet can be lost, and jitter delays.
    Gnomon,
    /// As Shadow 3.3: packets without payload are never lost, and jitter has no effect.
    Shadow,
}

/// The rules that hold for the whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub model: NetworkModel,
    pub routing: Routing,
    /// Until then nothing is lost and bandwidth is unlimited; latency and jitter hold from the start.
    pub bootstrap_end: SimTime,
    /// From which jitter that drifts follows.
    pub seed: u64,
    /// How many threads may compute routes. The result does not depend on it.
    pub threads: usize,
}

/// Immutable, and shared by all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    matrix: Matrix,
    /// A host's row in the matrix.
    row_of_host: Vec<u32>,
    /// By row, in rising order.
    hosts_of_row: Vec<Vec<HostId>>,
    links: Vec<AccessLink>,
    min_incoming: Vec<SimDuration>,
    min_latency: SimDuration,
    model: NetworkModel,
    /// None where each packet's jitter is its own.
    drift: Option<Drift>,
    bootstrap_end: SimTime,
}

impl Topology {
    /// Attaches hosts to the graph's nodes and computes every way between them.
    pub fn build(graph: &Graph, hosts: &[Attachment], rules: Rules) -> Result<Topology, TopologyError> {
        let places = host_places(graph, hosts)?;
        let mut used: Vec<u32> = places.clone();
        used.sort_unstable_by_key(|&place| graph.nodes[place as usize].id);
        used.dedup();
        let mut row_of_place = vec![u32::MAX; graph.nodes.len()];
        for (row, &place) in used.iter().enumerate() {
            row_of_place[place as usize] = row as u32;
        }
        let row_of_host: Vec<u32> = places.iter().map(|&place| row_of_place[place as usize]).collect();
        let mut hosts_of_row = vec![Vec::new(); used.len()];
        for (host, &row) in row_of_host.iter().enumerate() {
            hosts_of_row[row as usize].push(HostId(host as u32));
        }
        let shared: Vec<bool> = hosts_of_row.iter().map(|hosts| hosts.len() > 1).collect();
        let matrix = Matrix::compute(graph, &used, &shared, rules.routing, rules.threads)?;
        let links = access_links(graph, hosts, &places)?;
        let min_incoming_of_row = min_incoming(&matrix, &shared);
        let min_incoming: Vec<SimDuration> = row_of_host.iter().map(|&row| min_incoming_of_row[row as usize]).collect();
        let min_latency = min_incoming.iter().copied().min().unwrap_or(SimDuration::MAX);
        let Rules { model, bootstrap_end, seed, .. } = rules;
        let drift = (!graph.jitter_step.is_zero()).then_some(Drift { seed, step: graph.jitter_step });
        Ok(Topology {
            matrix,
            row_of_host,
            hosts_of_row,
            links,
            min_incoming,
            min_latency,
            model,
            drift,
            bootstrap_end,
        })
    }

    pub fn host_count(&self) -> usize {
        self.row_of_host.len()
    }

    /// The way from one host to another; `Path::LOOPBACK` from a host to itself.
    pub fn path(&self, from: HostId, to: HostId) -> Path {
        if from == to {
            return Path::LOOPBACK;
        }
        self.matrix.get(self.row_of_host[from.index()] as usize, self.row_of_host[to.index()] as usize)
    }

    /// The hosts at the same node, itself not among them: whom its broadcasts reach.
    pub fn neighbours(&self, host: HostId) -> impl Iterator<Item = HostId> {
        let all = &self.hosts_of_row[self.row_of_host[host.index()] as usize];
        all.iter().copied().filter(move |other| *other != host)
    }

    /// What becomes of a packet that leaves `from` at `now`, with something behind its transport header or without. `rng` is the
    /// sender's own stream for its links.
    pub fn fate(&self, from: HostId, to: HostId, now: SimTime, has_payload: bool, rng: &mut Rng) -> Fate {
        let mut path = self.path(from, to);
        if self.model == NetworkModel::Shadow {
            path.jitter = SimDuration::ZERO;
            path.loss = if has_payload { path.loss } else { Loss::NEVER };
        }
        if let (Some(drift), false) = (&self.drift, path.jitter.is_zero()) {
            path.latency = path.latency + drift.delay(from, to, now, path.jitter);
            path.jitter = SimDuration::ZERO;
        }
        if self.is_bootstrapping(now) { Fate::Arrives(path.delay(rng)) } else { path.fate(rng) }
    }

    pub fn model(&self) -> NetworkModel {
        self.model
    }

    pub fn is_bootstrapping(&self, now: SimTime) -> bool {
        now < self.bootstrap_end
    }

    pub fn bootstrap_end(&self) -> SimTime {
        self.bootstrap_end
    }

    pub fn link(&self, host: HostId) -> AccessLink {
        self.links[host.index()]
    }

    /// The least time that any packet of another host takes to reach this one: what it may run ahead of the others. `MAX`
    /// for a host that is alone.
    pub fn min_incoming_latency(&self, host: HostId) -> SimDuration {
        self.min_incoming[host.index()]
    }

    /// The least of all latencies between different hosts; `MAX` when there is only one host.
    pub fn min_latency(&self) -> SimDuration {
        self.min_latency
    }
}

fn host_places(graph: &Graph, hosts: &[Attachment]) -> Result<Vec<u32>, TopologyError> {
    let place = |(host, at): (usize, &Attachment)| {
        graph.index_of(at.node_id).ok_or_else(|| TopologyError::UnknownNode {
            host,
            node_id: at.node_id,
            known: graph.describe_ids(),
        })
    };
    hosts.iter().enumerate().map(place).collect()
}

fn access_links(graph: &Graph, hosts: &[Attachment], places: &[u32]) -> Result<Vec<AccessLink>, TopologyError> {
    let link = |(host, (at, &place)): (usize, (&Attachment, &u32))| {
        let node = &graph.nodes[place as usize];
        let missing = |direction| TopologyError::NoBandwidth { host, node_id: node.id, direction };
        let some = |bandwidth: &Bandwidth| bandwidth.bits_per_sec() > 0;
        Ok(AccessLink {
            up: at.bandwidth_up.or(node.bandwidth_up).filter(some).ok_or_else(|| missing("up"))?,
            down: at.bandwidth_down.or(node.bandwidth_down).filter(some).ok_or_else(|| missing("down"))?,
        })
    };
    hosts.iter().zip(places).enumerate().map(link).collect()
}

/// The smallest latency into each used node. A node's way to itself counts where several hosts share it.
fn min_incoming(matrix: &Matrix, shared: &[bool]) -> Vec<SimDuration> {
    let mut best = vec![u64::MAX; shared.len()];
    for from in 0..shared.len() {
        for (to, best) in best.iter_mut().enumerate() {
            if from != to || shared[to] {
                *best = (*best).min(matrix.latency_ns(from, to));
            }
        }
    }
    best.into_iter().map(SimDuration::from_nanos).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    const GRAPH: &str = "graph [ directed 1
        node [ id 10 host_bandwidth_up \"1 Mbit\" host_bandwidth_down \"2 Mbit\" ]
        node [ id 20 host_bandwidth_up \"3 Mbit\" ]
        node [ id 30 ]
        edge [ source 10 target 10 latency \"1 ms\" ]
        edge [ source 10 target 20 latency \"10 ms\" packet_loss 1.0 ]
        edge [ source 20 target 10 latency \"20 ms\" jitter \"5 ms\" ] ]";

    fn rules(bootstrap_end: SimTime) -> Rules {
        Rules { model: NetworkModel::Gnomon, routing: Routing::ShortestPath, bootstrap_end, seed: 1, threads: 1 }
    }

    fn at(node_id: u32) -> Attachment {
        let mbit = Some(Bandwidth::from_bits_per_sec(5_000_000));
        Attachment { node_id, bandwidth_up: None, bandwidth_down: if node_id == 20 { mbit } else { None } }
    }

    fn build(nodes: &[u32]) -> Result<Topology, TopologyError> {
        let hosts: Vec<Attachment> = nodes.iter().map(|&n| at(n)).collect();
        Topology::build(&Graph::parse(GRAPH).unwrap(), &hosts, rules(SimTime::from_nanos(100)))
    }

    #[test]
    fn ways_links_and_bounds_between_hosts() {
        let topology = build(&[20, 10, 10]).unwrap();
        let [a, b, c] = [HostId(0), HostId(1), HostId(2)];
        assert_eq!(topology.path(a, b).latency, SimDuration::from_millis(20));
        assert_eq!(topology.path(b, a).latency, SimDuration::from_millis(10));
        assert_eq!(topology.path(b, c).latency, SimDuration::from_millis(1));
        assert_eq!(topology.path(b, b), Path::LOOPBACK);
        assert_eq!(topology.link(a).up, Bandwidth::from_bits_per_sec(3_000_000));
        assert_eq!(topology.link(a).down, Bandwidth::from_bits_per_sec(5_000_000));
        assert_eq!(topology.link(c).down, Bandwidth::from_bits_per_sec(2_000_000));
        assert_eq!(topology.min_incoming_latency(a), SimDuration::from_millis(10));
        assert_eq!(topology.min_incoming_latency(b), SimDuration::from_millis(1));
        assert_eq!(topology.min_latency(), SimDuration::from_millis(1));
        assert_eq!(topology.neighbours(b).collect::<Vec<_>>(), [c]);
        assert_eq!(topology.neighbours(a).count(), 0);
    }

    #[test]
    fn a_host_alone_may_run_ahead_for_ever() {
        let topology = build(&[10]).unwrap();
        assert_eq!(topology.min_incoming_latency(HostId(0)), SimDuration::MAX);
        let pair = build(&[10, 20]).unwrap();
        assert_eq!(pair.min_incoming_latency(HostId(0)), SimDuration::from_millis(20));
    }

    #[test]
    fn nothing_is_lost_while_bootstrapping() {
        let topology = build(&[10, 20]).unwrap();
        let mut rng = SeedTree::new(1).stream("a", "link");
        let mut fate = |ns| topology.fate(HostId(0), HostId(1), SimTime::from_nanos(ns), true, &mut rng);
        assert_eq!(fate(99), Fate::Arrives(SimDuration::from_millis(10)));
        assert_eq!(fate(100), Fate::Lost);
    }

    #[test]
    fn shadow_loses_no_packet_without_payload_and_knows_no_jitter() {
        let hosts: Vec<Attachment> = [10, 20].map(at).to_vec();
        let rules = Rules { model: NetworkModel::Shadow, ..rules(SimTime::ZERO) };
        let topology = Topology::build(&Graph::parse(GRAPH).unwrap(), &hosts, rules).unwrap();
        let mut rng = SeedTree::new(1).stream("a", "link");
        let mut fate =
            |from, to, has_payload| topology.fate(HostId(from), HostId(to), SimTime::ZERO, has_payload, &mut rng);
        assert_eq!(fate(0, 1, true), Fate::Lost);
        assert_eq!(fate(0, 1, false), Fate::Arrives(SimDuration::from_millis(10)));
        for _ in 0..100 {
            assert_eq!(fate(1, 0, true), Fate::Arrives(SimDuration::from_millis(20)));
        }
    }

    #[test]
    fn jitter_with_a_step_keeps_the_order_of_packets() {
        let graph = GRAPH.replace("directed 1", "directed 1 jitter_step \"20 ms\"");
        let hosts: Vec<Attachment> = [10, 20].map(at).to_vec();
        let topology = Topology::build(&Graph::parse(&graph).unwrap(), &hosts, rules(SimTime::ZERO)).unwrap();
        let mut rng = SeedTree::new(1).stream("a", "link");
        let mut untouched = rng.clone();
        let arrival =
            |ms: u64| match topology.fate(HostId(1), HostId(0), SimTime::from_nanos(ms * 1_000_000), true, &mut rng) {
                Fate::Arrives(delay) => SimTime::from_nanos(ms * 1_000_000) + delay,
                Fate::Lost => panic!("nothing is lost on this way"),
            };
        let arrivals: Vec<SimTime> = (0..2_000).map(arrival).collect();
        assert!(arrivals.is_sorted());
        let delays: Vec<u64> = arrivals.iter().zip(0..).map(|(at, ms)| at.as_nanos() - ms * 1_000_000).collect();
        assert!(delays.iter().all(|delay| (20_000_000..=25_000_000).contains(delay)));
        assert!(delays.iter().any(|delay| *delay > 24_000_000) && delays.iter().any(|delay| *delay < 20_500_000));
        assert_eq!(rng.next_u64(), untouched.next_u64(), "no draw from the sender's stream");
    }

    #[test]
    fn delays_never_undercut_the_lookahead() {
        let topology = build(&[20, 10, 10, 20]);
        assert!(matches!(topology, Err(TopologyError::NoRoute { from: 20, to: 20, .. })));
        let topology = build(&[20, 10, 10]).unwrap();
        let mut rng = SeedTree::new(1).stream("a", "link");
        for i in 0..3_000u32 {
            let (from, to) = (HostId(i % 3), HostId((i / 3) % 3));
            if let (true, Fate::Arrives(delay)) = (from != to, topology.fate(from, to, SimTime::MAX, true, &mut rng)) {
                assert!(delay >= topology.min_incoming_latency(to));
            }
        }
    }

    #[test]
    fn attachments_are_checked() {
        assert_eq!(build(&[10, 11]).unwrap_err().to_string(), "the graph has no node 11; its nodes are 10, 20, 30");
        assert_eq!(
            Topology::build(&Graph::parse(GRAPH).unwrap(), &[at(30)], rules(SimTime::ZERO)).unwrap_err().to_string(),
            "no up bandwidth: set 'bandwidth_up' here or 'host_bandwidth_up' on node 30"
        );
        let none = GRAPH.replace("\"3 Mbit\"", "\"0 bit\"");
        assert_eq!(
            Topology::build(&Graph::parse(&none).unwrap(), &[at(20)], rules(SimTime::ZERO)).unwrap_err().to_string(),
            "no up bandwidth: set 'bandwidth_up' here or 'host_bandwidth_up' on node 20"
        );
    }

    /// A complete graph of the size of the published Tor graphs takes seconds, not minutes.
    #[test]
    fn a_full_mesh_is_routed_in_compact_rows() {
        let mut rng = SeedTree::new(1).stream("", "mesh");
        let n = 300;
        let mut text = String::from("graph [\n");
        for i in 0..n {
            text += &format!("node [ id {i} host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]\n");
            for j in 0..=i {
                text += &format!("edge [ source {i} target {j} latency \"{} us\" ]\n", 1_000 + rng.below(300_000));
            }
        }
        let hosts: Vec<Attachment> = (0..n).map(at).collect();
        let graph = Graph::parse(&(text + "]")).unwrap();
        let one = Topology::build(&graph, &hosts, rules(SimTime::ZERO)).unwrap();
        let two = Topology::build(&graph, &hosts, Rules { threads: 2, ..rules(SimTime::ZERO) }).unwrap();
        assert_eq!(one, two);
        assert_eq!(one.path(HostId(3), HostId(250)), one.path(HostId(250), HostId(3)));
    }
}
