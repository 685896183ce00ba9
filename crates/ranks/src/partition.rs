//! Dividing hosts among ranks by METIS (Karypis and Kumar, SIAM Journal on Scientific Computing 20(1), 1998).

use ranks::Graph;

/// By host, its part; nothing where METIS refuses the graph. The same graph gives the same parts.
pub fn divide(graph: &Graph) -> Vec<i32> {
    let mut parts = vec![0; graph.weights.len()];
    let divided = metis::Graph::new(1, graph.parts as i32, &graph.first, &graph.neighbours)
        .ok()
        .and_then(|metis| metis.set_vwgt(&graph.weights).set_adjwgt(&graph.packets).part_kway(&mut parts).ok());
    if divided.is_some() { parts } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_talk_stay_together_and_costs_are_equal() {
        // Two rings of four that one weak edge joins.
        let mut edges = Vec::new();
        for ring in [0, 4] {
            for n in 0..4 {
                edges.push((ring + n, ring + (n + 1) % 4, 100));
            }
        }
        edges.push((0, 4, 1));
        let mut graph = Graph { parts: 2, first: vec![0], weights: vec![10; 8], ..Graph::default() };
        for host in 0..8 {
            for (from, to, packets) in &edges {
                if *from == host || *to == host {
                    graph.neighbours.push(if *from == host { *to } else { *from });
                    graph.packets.push(*packets);
                }
            }
            graph.first.push(graph.neighbours.len() as i32);
        }
        let parts = divide(&graph);
        assert_eq!(parts.len(), 8);
        assert!(
            parts[..4].iter().all(|part| *part == parts[0]) && parts[4..].iter().all(|part| *part == 1 - parts[0]),
            "{parts:?}"
        );
        assert_eq!(parts, divide(&graph));
    }

    #[test]
    fn a_graph_that_is_none_is_refused() {
        let graph = Graph { parts: 2, first: vec![0, 5], neighbours: vec![9], packets: vec![1], weights: vec![1] };
        assert!(divide(&graph).is_empty());
    }
}
