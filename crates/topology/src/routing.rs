//! Routes between the nodes that hosts sit on: a dense matrix of latency, loss and jitter.
//!
//! With `ShortestPath` a route is the one with the smallest latency; among those the one that loses least, then the one with
//! the least jitter. Latencies and jitters add up along a route; losses combine to `1 - Π(1 - p)`. With `DirectEdges` a route
//! is the one edge between two nodes. Either way, a node's route to itself is its one edge to itself and nothing else, and is
//! needed only where two or more hosts share the node.
//!
//! Only nodes with hosts on them get a row, 12 bytes per pair (20 when the graph has jitter). Rows are independent and are
//! computed by as many threads as the caller lends; the result does not depend on their number.

use crate::error::TopologyError;
use crate::graph::{Edge, Graph};
use crate::path::{Loss, Path};
use base::SimDuration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which way packets take through the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The path of smallest latency.
    ShortestPath,
    /// The one edge between two nodes; having none is an error.
    DirectEdges,
}

/// One route: 64 bits of latency in two halves (so that a cell takes 12 bytes), and the loss. Latency 0 means no route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    latency: [u32; 2],
    loss: u32,
}

impl Cell {
    fn new(label: Label) -> Self {
        let loss = Loss::from_probability(f64::from_bits(label.loss_bits));
        Cell { latency: [label.latency as u32, (label.latency >> 32) as u32], loss: loss.0 }
    }
    fn latency(self) -> u64 {
        u64::from(self.latency[0]) | u64::from(self.latency[1]) << 32
    }
}

/// Routes between used nodes, by their places in the list of used nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    size: usize,
    cells: Vec<Cell>,
    /// Nanoseconds per cell; empty when no edge has jitter.
    jitter: Vec<u64>,
}

/// What a route costs so far, in the order in which routes are preferred. The loss is the bit pattern of a non-negative
/// f64, which sorts as the number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    latency: u64,
    loss_bits: u64,
    jitter: u64,
}

impl Label {
    const START: Label = Label { latency: 0, loss_bits: 0, jitter: 0 };
    const UNREACHED: Label = Label { latency: u64::MAX, loss_bits: u64::MAX, jitter: u64::MAX };

    fn extended(self, edge: &Edge) -> Label {
        let loss = 1.0 - (1.0 - f64::from_bits(self.loss_bits)) * (1.0 - edge.packet_loss);
        Label {
            latency: self.latency.saturating_add(edge.latency.as_nanos()),
            loss_bits: loss.max(0.0).to_bits(),
            jitter: self.jitter.saturating_add(edge.jitter.as_nanos()),
        }
    }
}

impl Matrix {
    /// Computes all routes between `used` nodes (places in the graph, without repetition). `shared[i]` says whether
    /// `used[i]` carries several hosts and so needs a route to itself.
    pub(crate) fn compute(
        graph: &Graph,
        used: &[u32],
        shared: &[bool],
        rule: Routing,
        threads: usize,
    ) -> Result<Matrix, TopologyError> {
        let size = used.len();
        let has_jitter = graph.edges.iter().any(|e| !e.jitter.is_zero());
        let mut matrix = Matrix {
            size,
            cells: vec![Cell::default(); size * size],
            jitter: vec![0; if has_jitter { size * size } else { 0 }],
        };
        matrix.fill_direct(graph, used, shared, rule)?;
        if rule == Routing::ShortestPath && size > 1 {
            matrix.fill_shortest(graph, used, threads);
        }
        matrix.require_routes(graph, used, shared, rule)?;
        Ok(matrix)
    }

    pub(crate) fn get(&self, from: usize, to: usize) -> Path {
        let at = from * self.size + to;
        let cell = self.cells[at];
        Path {
            latency: SimDuration::from_nanos(cell.latency()),
            jitter: SimDuration::from_nanos(self.jitter.get(at).copied().unwrap_or(0)),
            loss: Loss(cell.loss),
        }
    }

    pub(crate) fn latency_ns(&self, from: usize, to: usize) -> u64 {
        self.cells[from * self.size + to].latency()
    }

    fn set(&mut self, from: usize, to: usize, label: Label) {
        let at = from * self.size + to;
        self.cells[at] = Cell::new(label);
        if let Some(jitter) = self.jitter.get_mut(at) {
            *jitter = label.jitter;
        }
    }

    /// Enters the edges that are routes by themselves: every used node's edge to itself, and with `DirectEdges` the rest.
    fn fill_direct(
        &mut self,
        graph: &Graph,
        used: &[u32],
        shared: &[bool],
        rule: Routing,
    ) -> Result<(), TopologyError> {
        let mut place = vec![usize::MAX; graph.nodes.len()];
        for (i, &node) in used.iter().enumerate() {
            place[node as usize] = i;
        }
        for edge in &graph.edges {
            let (from, to) = (place[edge.source as usize], place[edge.target as usize]);
            let wanted = if from == to { from != usize::MAX && shared[from] } else { rule == Routing::DirectEdges };
            if !wanted || from == usize::MAX || to == usize::MAX {
                continue;
            }
            if self.latency_ns(from, to) != 0 {
                let id = |node: u32| graph.nodes[node as usize].id;
                return Err(TopologyError::ParallelEdges {
                    from: id(edge.source),
                    to: id(edge.target),
                    line: edge.line,
                });
            }
            let label = Label::START.extended(edge);
            self.set(from, to, label);
            if !graph.directed {
                self.set(to, from, label);
            }
        }
        Ok(())
    }

    fn fill_shortest(&mut self, graph: &Graph, used: &[u32], threads: usize) {
        let adjacency = Adjacency::new(graph);
        let rows: Vec<usize> = (0..used.len()).collect();
        let threads = threads.clamp(1, used.len());
        // Interleaved, since in an undirected graph the first rows are the longest.
        let shares: Vec<Vec<usize>> =
            (0..threads).map(|t| rows.iter().copied().skip(t).step_by(threads).collect()).collect();
        let found: Vec<Vec<(usize, Vec<Label>)>> = std::thread::scope(|scope| {
            let search = |share: &Vec<usize>| {
                let mut search = Search::new(graph, &adjacency, used);
                share.iter().map(|&row| (row, search.row(row))).collect::<Vec<_>>()
            };
            let handles: Vec<_> = shares[1..].iter().map(|share| scope.spawn(move || search(share))).collect();
            let mine = search(&shares[0]);
            let rest = handles.into_iter().map(|h| h.join().expect("a routing thread panicked"));
            std::iter::once(mine).chain(rest).collect()
        });
        for (row, labels) in found.into_iter().flatten() {
            self.enter_row(row, &labels, graph.directed);
        }
    }

    fn enter_row(&mut self, row: usize, labels: &[Label], directed: bool) {
        let first = if directed { 0 } else { row + 1 };
        for (column, &label) in (first..).zip(labels) {
            if column == row || label == Label::UNREACHED {
                continue;
            }
            self.set(row, column, label);
            if !directed {
                self.set(column, row, label);
            }
        }
    }

    fn require_routes(&self, graph: &Graph, used: &[u32], shared: &[bool], rule: Routing) -> Result<(), TopologyError> {
        for (from, &shared) in shared.iter().enumerate() {
            for to in 0..self.size {
                if self.latency_ns(from, to) == 0 && (from != to || shared) {
                    let id = |i: usize| graph.nodes[used[i] as usize].id;
                    return Err(TopologyError::NoRoute { from: id(from), to: id(to), rule });
                }
            }
        }
        Ok(())
    }
}

/// Edges by the node that they leave, the fastest first.
struct Adjacency {
    /// The arcs of node `n` are `arcs[first[n]..first[n + 1]]`.
    first: Vec<u32>,
    arcs: Vec<Arc>,
}

#[derive(Clone, Copy)]
struct Arc {
    latency: u64,
    target: u32,
    edge: u32,
}

impl Adjacency {
    fn new(graph: &Graph) -> Self {
        let ends = |i: usize| {
            let edge = &graph.edges[i];
            let loop_edge = edge.source == edge.target;
            let forth = (!loop_edge).then_some((edge.source, edge.target));
            let back = (!loop_edge && !graph.directed).then_some((edge.target, edge.source));
            forth.into_iter().chain(back)
        };
        let mut first = vec![0u32; graph.nodes.len() + 1];
        for (source, _) in (0..graph.edges.len()).flat_map(ends) {
            first[source as usize + 1] += 1;
        }
        for n in 0..graph.nodes.len() {
            first[n + 1] += first[n];
        }
        let mut next = first.clone();
        let mut arcs = vec![Arc { latency: 0, target: 0, edge: 0 }; first[graph.nodes.len()] as usize];
        for i in 0..graph.edges.len() {
            for (source, target) in ends(i) {
                let slot = &mut next[source as usize];
                arcs[*slot as usize] = Arc { latency: graph.edges[i].latency.as_nanos(), target, edge: i as u32 };
                *slot += 1;
            }
        }
        for n in 0..graph.nodes.len() {
            arcs[first[n] as usize..first[n + 1] as usize].sort_unstable_by_key(|arc| (arc.latency, arc.edge));
        }
        Adjacency { first, arcs }.without_detours()
    }

    /// Leaves out arcs that are slower than a way over one of their node's nearest neighbours: no route of smallest latency
    /// contains one. Measured networks are full meshes in which most edges are such detours, so that searches touch a
    /// fraction of them.
    fn without_detours(self) -> Adjacency {
        const NEAREST: usize = 32;
        let nodes = self.first.len() - 1;
        let mut over_neighbour = vec![u64::MAX; nodes];
        let (mut first, mut arcs) = (vec![0; nodes + 1], Vec::new());
        for node in 0..nodes as u32 {
            over_neighbour.fill(u64::MAX);
            for near in self.of(node).iter().take(NEAREST) {
                for arc in self.of(near.target) {
                    let way = &mut over_neighbour[arc.target as usize];
                    *way = (*way).min(near.latency.saturating_add(arc.latency));
                }
            }
            arcs.extend(self.of(node).iter().filter(|arc| arc.latency <= over_neighbour[arc.target as usize]));
            first[node as usize + 1] = arcs.len() as u32;
        }
        Adjacency { first, arcs }
    }

    fn of(&self, node: u32) -> &[Arc] {
        &self.arcs[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}

/// Dijkstra's algorithm from one used node after another, with its buffers kept between rows.
struct Search<'a> {
    graph: &'a Graph,
    adjacency: &'a Adjacency,
    used: &'a [u32],
    best: Vec<Label>,
    /// Bit 0: settled; bit 1: a route to it is wanted in this row.
    flags: Vec<u8>,
    heap: BinaryHeap<Reverse<(Label, u32)>>,
}

const SETTLED: u8 = 1;
const WANTED: u8 = 2;

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, adjacency: &'a Adjacency, used: &'a [u32]) -> Self {
        let n = graph.nodes.len();
        Search { graph, adjacency, used, best: vec![Label::UNREACHED; n], flags: vec![0; n], heap: BinaryHeap::new() }
    }

    /// The labels of all used nodes seen from `used[row]`; in an undirected graph only of those after it, since the others
    /// are known from their own rows.
    fn row(&mut self, row: usize) -> Vec<Label> {
        let targets = &self.used[if self.graph.directed { 0 } else { row + 1 }..];
        self.best.fill(Label::UNREACHED);
        self.flags.fill(0);
        self.heap.clear();
        for &target in targets {
            self.flags[target as usize] |= WANTED;
        }
        self.run(self.used[row], targets.len());
        targets.iter().map(|&target| self.best[target as usize]).collect()
    }

    fn run(&mut self, source: u32, mut wanted: usize) {
        self.best[source as usize] = Label::START;
        self.heap.push(Reverse((Label::START, source)));
        let mut unreached = self.best.len() - 1;
        // Once every node has some route, no edge that leads past the longest of these can improve one.
        let mut longest = u64::MAX;
        while wanted > 0 {
            let Some(Reverse((label, node))) = self.heap.pop() else { return };
            if self.flags[node as usize] & SETTLED != 0 {
                continue;
            }
            wanted -= usize::from(self.flags[node as usize] & WANTED != 0);
            self.flags[node as usize] |= SETTLED;
            unreached -= self.relax(node, label, longest);
            if unreached == 0 && longest == u64::MAX {
                longest = self.best.iter().map(|l| l.latency).max().unwrap_or(u64::MAX);
            }
        }
    }

    /// Improves the routes to a settled node's neighbours; returns how many had none before.
    fn relax(&mut self, node: u32, label: Label, longest: u64) -> usize {
        let mut newly_reached = 0;
        for arc in self.adjacency.of(node) {
            let latency = label.latency.saturating_add(arc.latency);
            if latency > longest {
                break;
            }
            let best = &mut self.best[arc.target as usize];
            if latency > best.latency {
                continue;
            }
            let candidate = label.extended(&self.graph.edges[arc.edge as usize]);
            if candidate < *best {
                newly_reached += usize::from(*best == Label::UNREACHED);
                *best = candidate;
                self.heap.push(Reverse((candidate, arc.target)));
            }
        }
        newly_reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Rng, SeedTree};

    /// A random graph in GML with small latencies (so that ties are common).
    fn random_gml(rng: &mut Rng, nodes: u64, edges: u64, directed: bool) -> String {
        let mut text = format!("graph [ directed {}\n", u8::from(directed));
        for id in 0..nodes {
            text += &format!("node [ id {} ] edge [ source {0} target {0} latency \"{} ns\" ]\n", id * 3, 1000 + id);
        }
        for _ in 0..edges {
            text += &format!(
                "edge [ source {} target {} latency \"{} ns\" jitter \"{} ns\" packet_loss {} ]\n",
                rng.below(nodes) * 3,
                rng.below(nodes) * 3,
                1 + rng.below(6),
                rng.below(4),
                [0.0, 0.25, 0.5][rng.below(3) as usize]
            );
        }
        text + "]"
    }

    /// All best labels by relaxing every edge until nothing changes (Bellman-Ford), in the same order of preference.
    fn brute_force(graph: &Graph, source: u32) -> Vec<Label> {
        let mut best = vec![Label::UNREACHED; graph.nodes.len()];
        best[source as usize] = Label::START;
        loop {
            let before = best.clone();
            for edge in &graph.edges {
                let mut ways = vec![(edge.source, edge.target)];
                if !graph.directed {
                    ways.push((edge.target, edge.source));
                }
                for (a, b) in ways {
                    if best[a as usize] != Label::UNREACHED {
                        best[b as usize] = best[b as usize].min(best[a as usize].extended(edge));
                    }
                }
            }
            if before == best {
                return best;
            }
        }
    }

    #[test]
    fn shortest_paths_equal_brute_force_on_random_graphs() {
        let mut rng = SeedTree::new(11).stream("", "routing");
        let (mut routed, mut broken) = (0, 0);
        for round in 0..300 {
            let directed = round % 2 == 0;
            let (nodes, edges) = (2 + rng.below(9), rng.below(40));
            let graph = Graph::parse(&random_gml(&mut rng, nodes, edges, directed)).unwrap();
            let used: Vec<u32> = (0..graph.nodes.len() as u32).filter(|_| rng.below(4) > 0).collect();
            let shared = vec![false; used.len()];
            let expected: Vec<Vec<Label>> = used.iter().map(|&u| brute_force(&graph, u)).collect();
            let reachable = expected.iter().all(|row| used.iter().all(|&v| row[v as usize] != Label::UNREACHED));
            let threads = 1 + round % 3;
            match Matrix::compute(&graph, &used, &shared, Routing::ShortestPath, threads) {
                Err(TopologyError::NoRoute { .. }) => assert!(!reachable),
                Err(other) => panic!("{other}"),
                Ok(matrix) => {
                    assert!(reachable);
                    for (i, row) in expected.iter().enumerate() {
                        for (j, &v) in used.iter().enumerate().filter(|&(j, _)| j != i) {
                            let (got, want) = (matrix.get(i, j), row[v as usize]);
                            assert_eq!(got.latency.as_nanos(), want.latency);
                            assert_eq!(got.jitter.as_nanos(), want.jitter);
                            assert!((got.loss.probability() - f64::from_bits(want.loss_bits)).abs() < 1e-9);
                        }
                    }
                    routed += 1;
                    continue;
                }
            }
            broken += 1;
        }
        assert!(routed > 50 && broken > 50, "{routed} routed, {broken} broken: the graphs test too little");
    }

    #[test]
    fn losses_combine_and_jitters_add() {
        let graph = Graph::parse(
            "graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ]
             edge [ source 0 target 1 latency \"1 ms\" jitter \"2 ms\" packet_loss 0.5 ]
             edge [ source 1 target 2 latency \"3 ms\" jitter \"1 ms\" packet_loss 0.2 ]
             edge [ source 0 target 2 latency \"5 ms\" ] ]",
        )
        .unwrap();
        let matrix = Matrix::compute(&graph, &[0, 2], &[false; 2], Routing::ShortestPath, 1).unwrap();
        for path in [matrix.get(0, 1), matrix.get(1, 0)] {
            assert_eq!(path.latency, SimDuration::from_millis(4));
            assert_eq!(path.jitter, SimDuration::from_millis(3));
            assert!((path.loss.probability() - 0.6).abs() < 1e-9);
        }
        let direct = Matrix::compute(&graph, &[0, 2], &[false; 2], Routing::DirectEdges, 1).unwrap();
        assert_eq!(direct.get(1, 0).latency, SimDuration::from_millis(5));
    }

    #[test]
    fn a_shared_node_needs_exactly_one_edge_to_itself() {
        let with_loops = |loops: &str| Graph::parse(&format!("graph [ node [ id 4 ]\n{loops} ]")).unwrap();
        let compute = |graph: &Graph, shared| Matrix::compute(graph, &[0], &[shared], Routing::ShortestPath, 1);
        let one = "edge [ source 4 target 4 latency \"7 ms\" ]\n";
        assert_eq!(compute(&with_loops(one), true).unwrap().get(0, 0).latency, SimDuration::from_millis(7));
        assert!(compute(&with_loops(""), false).is_ok());
        assert_eq!(
            compute(&with_loops(""), true).unwrap_err().to_string(),
            "node 4 has several hosts but no edge to itself; add 'edge [ source 4 target 4 latency \"1 ms\" ]'"
        );
        assert_eq!(
            compute(&with_loops(&one.repeat(2)), true).unwrap_err().to_string(),
            "more than one edge connects node 4 to node 4 (the second is on line 3 of the graph); keep one"
        );
    }

    #[test]
    fn missing_routes_are_named() {
        let graph = Graph::parse(
            "graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 latency \"1 ms\" ] ]",
        )
        .unwrap();
        let message = |rule| Matrix::compute(&graph, &[0, 1], &[false; 2], rule, 1).unwrap_err().to_string();
        assert_eq!(message(Routing::ShortestPath), "node 0 cannot be reached from node 1; add edges that connect them");
        assert_eq!(
            message(Routing::DirectEdges),
            "no edge connects node 1 to node 0; add one, or set network.use_shortest_path to true"
        );
    }
}
