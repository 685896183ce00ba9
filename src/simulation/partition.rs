//! Who has which host, in a run over several processes: by what was measured in an earlier run, else by the plan.
//!
//! Windows do not depend on it, since a host's lookahead is its smallest incoming latency, from wherever. What matters is that ranks have as much
//! to do, and that few packets leave them.

use super::part::Part;
use base::{ByteSize, HostId};
use ranks::{Graph, Link};
use scenario::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file of the data directory.
pub const FILE: &str = "rank-costs.json";
/// Of ten thousand hosts that each know a thousand.
const LARGEST: ByteSize = ByteSize(1 << 30);

/// What hosts cost in a run, and how much they sent each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// By name: events, and turns of threads.
    hosts: BTreeMap<String, u64>,
    /// Packets from one host to another.
    packets: Vec<(String, String, u64)>,
}

impl Costs {
    /// Reads the file of an earlier run, or the one in its data directory.
    ///
    /// # Errors
    /// When there is none, with its name.
    pub fn read(path: &Path) -> Result<Costs, String> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_path_buf() };
        let text = base::input::text(&file, LARGEST).map_err(|error| format!("{}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// What a run has measured.
    pub fn of(plan: &Plan, parts: &[Part]) -> Costs {
        let name = |host: HostId| plan.hosts[host.index()].name.clone();
        let mut costs = Costs::default();
        for host in parts.iter().flat_map(|part| &part.hosts) {
            costs.hosts.insert(name(host.id()), host.cost);
            costs.packets.extend(host.sent.iter().map(|(to, count)| (name(host.id()), name(HostId(*to)), *count)));
        }
        costs
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("costs can be serialised")
    }
}

/// Divides the hosts of a plan among ranks.
///
/// # Errors
/// When the costs are of another experiment, or the companion has gone.
pub fn divide(plan: &Plan, link: &Link, costs: Option<&Costs>) -> Result<Vec<u32>, String> {
    let ranks = link.place().size;
    let Some(costs) = costs.filter(|_| plan.hosts.len() > ranks) else { return Ok(by_processes(plan, ranks)) };
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    link.partition(&graph(&names, costs, ranks)?)
}

/// Consecutive hosts for each rank, so that all have about as many processes of the plan.
fn by_processes(plan: &Plan, ranks: usize) -> Vec<u32> {
    let costs: Vec<u64> = plan.hosts.iter().map(|host| 1 + host.processes.len() as u64).collect();
    consecutive(&costs, ranks)
}

fn consecutive(costs: &[u64], ranks: usize) -> Vec<u32> {
    let total: u64 = costs.iter().sum();
    let mut before = 0;
    let rank_of = |cost: &u64| {
        // The rank in whose share the host's middle lies.
        let middle = before + cost / 2;
        before += cost;
        (middle * ranks as u64 / total.max(1)).min(ranks as u64 - 1) as u32
    };
    costs.iter().map(rank_of).collect()
}

/// What METIS divides: hosts with their costs, and between those that sent each other packets an edge with their number, both ways together.
fn graph(names: &[&str], costs: &Costs, ranks: usize) -> Result<Graph, String> {
    let places: BTreeMap<&str, usize> = names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    if !names.iter().any(|name| costs.hosts.contains_key(*name)) {
        return Err(
            "the costs of hosts (--rank-costs) are of another experiment: none of its hosts is in them".to_owned()
        );
    }
    let weights: Vec<u64> = names.iter().map(|name| costs.hosts.get(*name).copied().unwrap_or(0)).collect();
    let mut edges: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (from, to, count) in &costs.packets {
        let (Some(from), Some(to)) = (places.get(from.as_str()), places.get(to.as_str())) else { continue };
        if from != to {
            *edges.entry((*from, *to)).or_default() += count;
            *edges.entry((*to, *from)).or_default() += count;
        }
    }
    let mut graph = Graph { parts: ranks as u32, weights: scaled(&weights), ..Graph::default() };
    let counts = scaled(&edges.values().copied().collect::<Vec<_>>());
    let mut edges = edges.keys().zip(counts).peekable();
    graph.first.push(0);
    for place in 0..names.len() {
        while let Some(((_, to), count)) = edges.next_if(|((from, _), _)| *from == place) {
            graph.neighbours.push(*to as i32);
            graph.packets.push(count);
        }
        graph.first.push(graph.neighbours.len() as i32);
    }
    Ok(graph)
}

/// At least 1 each, and small enough for sums of 31 bits.
fn scaled(values: &[u64]) -> Vec<i32> {
    const MOST: u128 = 1 << 28;
    let total: u128 = values.iter().map(|value| u128::from(*value)).sum::<u128>().max(1);
    let scale = |value: &u64| (u128::from(*value) * MOST.min(total) / total).max(1) as i32;
    values.iter().map(scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_about_the_same() {
        assert_eq!(consecutive(&[1, 1, 1, 1], 2), [0, 0, 1, 1]);
        assert_eq!(consecutive(&[1, 1], 3), [0, 1]);
        assert_eq!(consecutive(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(consecutive(&[], 2), [] as [u32; 0]);
    }

    #[test]
    fn packets_both_ways_are_one_edge_seen_from_both_ends() {
        let packets = |from: &str, to: &str, count| (from.to_owned(), to.to_owned(), count);
        let costs = Costs {
            hosts: [("a", 10), ("b", 20), ("c", 30)].map(|(name, cost)| (name.to_owned(), cost)).into(),
            packets: vec![packets("a", "b", 5), packets("b", "a", 2), packets("c", "c", 9), packets("c", "gone", 1)],
        };
        let graph = graph(&["a", "b", "new", "c"], &costs, 2).expect("a graph");
        assert_eq!(graph.first, [0, 1, 2, 2, 2]);
        assert_eq!((graph.neighbours, graph.packets), (vec![1, 0], vec![7, 7]));
        assert_eq!(graph.weights, [10, 20, 1, 30], "a host that nobody has measured is cheap");
        assert_eq!(serde_json::from_str::<Costs>(&costs.to_json()).expect("it reads what it writes"), costs);
        assert!(super::graph(&["other"], &costs, 2).is_err_and(|error| error.contains("another experiment")));
    }

    #[test]
    fn weights_stay_within_what_metis_can_add() {
        let weights = scaled(&[u64::MAX, u64::MAX / 2, 0]);
        assert!(weights[0] / 2 - weights[1] <= 1 && weights[2] == 1, "{weights:?}");
        assert!(weights.iter().map(|weight| i64::from(*weight)).sum::<i64>() < i64::from(i32::MAX));
    }
}
