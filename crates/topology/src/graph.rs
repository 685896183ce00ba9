//! The network graph as the experiment states it: nodes and edges with their attributes, read from GML and checked.
//!
//! Attributes (those of Shadow 3): graph `directed`; node `id`, `label`, `host_bandwidth_down`, `host_bandwidth_up`; edge
//! `source`, `target`, `label`, `latency` (> 0), `jitter`, `packet_loss` (0 to 1); and Gnomon's own of the graph, `jitter_step`. Keys are matched without regard to case,
//! as GML has it; any other attribute is allowed and ignored, since graphs come from tools that add their own.

use crate::error::TopologyError;
use crate::gml::{Pos, Scanner, Token};
use base::map::FastMap;
use base::quantity::{QuantityError, parse_bandwidth, parse_duration};
use base::{Bandwidth, SimDuration};
use std::borrow::Cow;

/// The graph behind `type: 1_gbit_switch`: one node, 1 Gbit/s each way, 1 ms between any two of its hosts.
pub const ONE_GBIT_SWITCH: &str = r#"graph [
  directed 0
  node [
    id 0
    host_bandwidth_up "1 Gbit"
    host_bandwidth_down "1 Gbit"
  ]
  edge [
    source 0
    target 0
    latency "1 ms"
    packet_loss 0.0
  ]
]
"#;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: u32,
    pub label: Option<String>,
    pub bandwidth_down: Option<Bandwidth>,
    pub bandwidth_up: Option<Bandwidth>,
}

/// An edge between two nodes, given by their places in `Graph::nodes`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    pub source: u32,
    pub target: u32,
    /// Never zero: it is what a host may run ahead of another.
    pub latency: SimDuration,
    pub jitter: SimDuration,
    /// 0 to 1.
    pub packet_loss: f64,
    /// Where the edge stands in the GML text.
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub directed: bool,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// How long a way's delay takes from one value of its jitter to the next; zero where each packet has a value of its own.
    pub jitter_step: SimDuration,
    index_of_id: FastMap<u32, u32>,
}

impl Graph {
    /// Reads a graph from GML text. The first error ends the reading.
    pub fn parse(text: &str) -> Result<Graph, TopologyError> {
        let mut scanner = Scanner::new(text);
        let opened = find_graph(&mut scanner)?;
        let mut reader = Reader::default();
        reader.graph_body(&mut scanner, opened)?;
        reject_second_graph(&mut scanner)?;
        reader.finish(opened)
    }

    /// A node's place in `nodes`.
    pub fn index_of(&self, node_id: u32) -> Option<u32> {
        self.index_of_id.get(&node_id).copied()
    }

    /// The ids of the graph's nodes, for messages: all of a few, the extent of many.
    pub fn describe_ids(&self) -> String {
        let mut ids: Vec<u32> = self.nodes.iter().map(|n| n.id).collect();
        ids.sort_unstable();
        match ids.as_slice() {
            [] => "none".into(),
            few if few.len() <= 8 => few.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
            [first, .., last] => format!("{} ids from {first} to {last}", ids.len()),
            [_] => unreachable!("one id is few"),
        }
    }
}

/// Reads up to the `[` of the `graph` list, past whatever other keys (`Creator`, `Version`) come before it.
fn find_graph(scanner: &mut Scanner<'_>) -> Result<Pos, TopologyError> {
    loop {
        let (pos, token) = scanner.next()?;
        match token {
            Token::Key(key) => match scanner.next()? {
                (open, Token::Open) if key.eq_ignore_ascii_case("graph") => return Ok(open),
                (open, Token::Open) => scanner.skip_list(open)?,
                (at, Token::Key(_) | Token::Close | Token::End) => {
                    return Err(at.error(format!("expected a value for '{key}'; a graph begins with 'graph ['")));
                }
                _ => {}
            },
            Token::End => return Err(pos.error("no graph here; a graph begins with 'graph ['")),
            other => {
                return Err(pos.error(format!("expected 'graph [' but found {}", other.describe())));
            }
        }
    }
}

/// What follows the graph may be other keys, but not a second graph.
fn reject_second_graph(scanner: &mut Scanner<'_>) -> Result<(), TopologyError> {
    loop {
        match scanner.next()? {
            (_, Token::End) => return Ok(()),
            (pos, Token::Close) => return Err(pos.error("this ']' closes nothing; remove it")),
            (pos, Token::Key(key)) if key.eq_ignore_ascii_case("graph") => {
                return Err(pos.error("a second graph; keep one"));
            }
            (pos, Token::Open) => scanner.skip_list(pos)?,
            _ => {}
        }
    }
}

/// A graph in the making. Edges name node ids until all nodes are known, since GML does not order its keys.
#[derive(Default)]
struct Reader {
    directed: Option<(bool, Pos)>,
    jitter_step: Option<(SimDuration, Pos)>,
    nodes: Vec<Node>,
    index_of_id: FastMap<u32, (u32, u32)>,
    edges: Vec<Edge>,
}

impl Reader {
    fn graph_body(&mut self, scanner: &mut Scanner<'_>, opened: Pos) -> Result<(), TopologyError> {
        loop {
            let Some((pos, key)) = next_key(scanner, opened, "graph")? else { return Ok(()) };
            let (at, value) = scanner.next()?;
            match (key, value) {
                (k, Token::Open) if k.eq_ignore_ascii_case("node") => self.node(scanner, pos, at)?,
                (k, Token::Open) if k.eq_ignore_ascii_case("edge") => self.edge(scanner, pos, at)?,
                (k, other) if k.eq_ignore_ascii_case("node") || k.eq_ignore_ascii_case("edge") => {
                    return Err(at.error(format!("expected '[' after '{k}' but found {}", other.describe())));
                }
                (k, value) if k.eq_ignore_ascii_case("directed") => self.set_directed(pos, at, value)?,
                (k, value) if k.eq_ignore_ascii_case("jitter_step") => self.set_jitter_step(pos, at, value)?,
                (_, Token::Open) => scanner.skip_list(at)?,
                (k, value) => require_value(k, at, &value)?,
            }
        }
    }

    fn set_jitter_step(&mut self, pos: Pos, at: Pos, value: Token<'_>) -> Result<(), TopologyError> {
        if let Some((_, first)) = self.jitter_step {
            return Err(duplicate(pos, "jitter_step", first));
        }
        let step = quantity(Some((at, value)), "jitter_step", "50 ms", parse_duration)?;
        self.jitter_step = step.map(|(_, step)| (step, pos));
        Ok(())
    }

    fn set_directed(&mut self, pos: Pos, at: Pos, value: Token<'_>) -> Result<(), TopologyError> {
        if let Some((_, first)) = self.directed {
            return Err(duplicate(pos, "directed", first));
        }
        let directed = match value {
            Token::Int(0) => false,
            Token::Int(1) => true,
            other => {
                return Err(at.error(format!("'directed' must be 0 or 1, not {}", other.describe())));
            }
        };
        self.directed = Some((directed, pos));
        Ok(())
    }

    fn node(&mut self, scanner: &mut Scanner<'_>, pos: Pos, opened: Pos) -> Result<(), TopologyError> {
        let [id, label, down, up] =
            attributes(scanner, opened, "node", ["id", "label", "host_bandwidth_down", "host_bandwidth_up"])?;
        let (at, id) = node_id(id.ok_or_else(|| pos.error("this node has no 'id'; add one, such as 'id 0'"))?, "id")?;
        let node = Node {
            id,
            label: label.map(|(_, value)| plain_text(&value)),
            bandwidth_down: quantity(down, "host_bandwidth_down", "100 Mbit", parse_bandwidth)?.map(|(_, b)| b),
            bandwidth_up: quantity(up, "host_bandwidth_up", "100 Mbit", parse_bandwidth)?.map(|(_, b)| b),
        };
        let index = self.nodes.len() as u32;
        if let Some((_, line)) = self.index_of_id.insert(id, (index, at.line)) {
            return Err(at.error(format!("node id {id} is already taken on line {line}; every node needs its own")));
        }
        self.nodes.push(node);
        Ok(())
    }

    fn edge(&mut self, scanner: &mut Scanner<'_>, pos: Pos, opened: Pos) -> Result<(), TopologyError> {
        let [source, target, latency, jitter, loss] =
            attributes(scanner, opened, "edge", ["source", "target", "latency", "jitter", "packet_loss"])?;
        let missing = |key: &str, example: &str| {
            pos.error(format!("this edge has no '{key}'; add one, such as '{key} {example}'"))
        };
        let (_, source) = node_id(source.ok_or_else(|| missing("source", "0"))?, "source")?;
        let (_, target) = node_id(target.ok_or_else(|| missing("target", "0"))?, "target")?;
        let (at, latency) =
            quantity(latency, "latency", "10 ms", parse_duration)?.ok_or_else(|| missing("latency", "\"10 ms\""))?;
        if latency.is_zero() {
            return Err(at.error("'latency' must be more than 0; the smallest is \"1 ns\""));
        }
        let jitter = quantity(jitter, "jitter", "1 ms", parse_duration)?.map_or(SimDuration::ZERO, |(_, j)| j);
        self.edges.push(Edge { source, target, latency, jitter, packet_loss: probability(loss)?, line: pos.line });
        Ok(())
    }

    /// Turns the ends of edges from ids into places.
    fn finish(mut self, opened: Pos) -> Result<Graph, TopologyError> {
        if self.nodes.is_empty() {
            return Err(opened.error("this graph has no nodes; add 'node [ id 0 ]'"));
        }
        let place = |id: u32, key: &str, line: u32| match self.index_of_id.get(&id) {
            Some(&(index, _)) => Ok(index),
            None => Err(TopologyError::gml(
                line,
                1,
                format!("the '{key}' of this edge is node {id}, which does not exist; add 'node [ id {id} ]'"),
            )),
        };
        for edge in &mut self.edges {
            edge.source = place(edge.source, "source", edge.line)?;
            edge.target = place(edge.target, "target", edge.line)?;
        }
        Ok(Graph {
            directed: self.directed.is_some_and(|(d, _)| d),
            nodes: self.nodes,
            edges: self.edges,
            jitter_step: self.jitter_step.map_or(SimDuration::ZERO, |(step, _)| step),
            index_of_id: self.index_of_id.into_iter().map(|(id, (index, _))| (id, index)).collect(),
        })
    }
}

/// The next key of a list, or None at its end.
fn next_key<'a>(scanner: &mut Scanner<'a>, opened: Pos, list: &str) -> Result<Option<(Pos, &'a str)>, TopologyError> {
    match scanner.next()? {
        (pos, Token::Key(key)) => Ok(Some((pos, key))),
        (_, Token::Close) => Ok(None),
        (_, Token::End) => Err(opened.error(format!("the '[' of this {list} is never closed; add ']'"))),
        (pos, other) => Err(pos.error(format!("expected a key or ']' in this {list} but found {}", other.describe()))),
    }
}

type Attribute<'a> = Option<(Pos, Token<'a>)>;

/// Reads a list to its end, and returns the values of the named keys.
fn attributes<'a, const N: usize>(
    scanner: &mut Scanner<'a>,
    opened: Pos,
    list: &str,
    names: [&str; N],
) -> Result<[Attribute<'a>; N], TopologyError> {
    let mut found = [const { None }; N];
    while let Some((pos, key)) = next_key(scanner, opened, list)? {
        let (at, value) = scanner.next()?;
        if value == Token::Open {
            scanner.skip_list(at)?;
            continue;
        }
        require_value(key, at, &value)?;
        if let Some(slot) = names.iter().position(|name| name.eq_ignore_ascii_case(key)) {
            if let Some((first, _)) = &found[slot] {
                return Err(duplicate(pos, key, *first));
            }
            found[slot] = Some((at, value));
        }
    }
    Ok(found)
}

fn require_value(key: &str, at: Pos, value: &Token<'_>) -> Result<(), TopologyError> {
    match value {
        Token::Int(_) | Token::Float(_) | Token::Text(_) => Ok(()),
        other => {
            Err(at.error(format!("expected a number, a string or '[' after '{key}' but found {}", other.describe())))
        }
    }
}

fn duplicate(pos: Pos, key: &str, first: Pos) -> TopologyError {
    pos.error(format!("'{key}' is given twice (first on line {}); keep one", first.line))
}

fn node_id((at, value): (Pos, Token<'_>), key: &str) -> Result<(Pos, u32), TopologyError> {
    match value {
        Token::Int(n) if u32::try_from(n).is_ok() => Ok((at, n as u32)),
        other => {
            Err(at.error(format!("'{key}' must be a whole number from 0 to {}, not {}", u32::MAX, other.describe())))
        }
    }
}

/// Reads a quantity from a string; a bare number counts in the base unit.
fn quantity<T>(
    attribute: Attribute<'_>,
    key: &str,
    example: &str,
    parse: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<Option<(Pos, T)>, TopologyError> {
    let Some((at, value)) = attribute else { return Ok(None) };
    let text: Cow<'_, str> = match value {
        Token::Text(text) => text,
        Token::Int(n) => n.to_string().into(),
        other => {
            return Err(at.error(format!("'{key}' must be a string such as \"{example}\", not {}", other.describe())));
        }
    };
    parse(&text).map(|v| Some((at, v))).map_err(|e| at.error(format!("'{key}': {e}")))
}

fn probability(attribute: Attribute<'_>) -> Result<f64, TopologyError> {
    let Some((at, value)) = attribute else { return Ok(0.0) };
    let p = match &value {
        Token::Int(n) => *n as f64,
        Token::Float(x) => *x,
        other => {
            return Err(at.error(format!("'packet_loss' must be a number from 0 to 1, not {}", other.describe())));
        }
    };
    if !(0.0..=1.0).contains(&p) {
        return Err(at.error(format!("'packet_loss' must be from 0 to 1, not {p}; 2 percent are 0.02")));
    }
    Ok(p)
}

fn plain_text(value: &Token<'_>) -> String {
    match value {
        Token::Text(text) => text.to_string(),
        Token::Int(n) => n.to_string(),
        Token::Float(x) => x.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Graph::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn jitter_may_have_a_step() {
        let nodes = "node [ id 0 ] edge [ source 0 target 0 latency \"1 ms\" jitter \"1 ms\" ]";
        let step = |text: &str| Graph::parse(&format!("graph [ {text} {nodes} ]")).map(|graph| graph.jitter_step);
        assert_eq!(step(""), Ok(SimDuration::ZERO));
        assert_eq!(step("jitter_step \"50 ms\""), Ok(SimDuration::from_millis(50)));
        assert!(error("graph [ jitter_step [ ]").contains("'jitter_step' must be a string such as \"50 ms\""));
        let twice = format!("graph [ jitter_step \"1 ms\"\njitter_step \"2 ms\" {nodes} ]");
        assert!(error(&twice).contains("'jitter_step' is given twice (first on line 1)"), "{}", error(&twice));
    }

    #[test]
    fn reads_the_built_in_switch() {
        let graph = Graph::parse(ONE_GBIT_SWITCH).unwrap();
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(graph.nodes[0].bandwidth_up, Some(Bandwidth::from_bits_per_sec(1_000_000_000)));
        assert_eq!(graph.edges[0].latency, SimDuration::from_millis(1));
        assert!(!graph.directed);
    }

    #[test]
    fn reads_what_tools_write() {
        let graph = Graph::parse(
            "Creator \"a tool\"\nVersion 1\n# comment\nGRAPH [ comment \"x\" meta [ a [ b 1 ] ]\n\
             edge [ Target 7 source 5 latency \"50 ms\" jitter \"0 ms\" packet_loss 0.02 line [ x 1 ] label \"5->7\" ]\n\
             directed 1 node [ id 5 label \"a \\\"quoted\\\" node\" host_bandwidth_down \"81920 Kibit\" ip_address \"1.2.3.4\"]\n\
             node [\n  id 7\n  country_code \"US\"\n host_bandwidth_up \"1 Gbit\" ] ]\n",
        )
        .unwrap();
        assert!(graph.directed);
        assert_eq!(graph.nodes[0].label.as_deref(), Some("a \"quoted\" node"));
        assert_eq!(graph.nodes[0].bandwidth_down, Some(Bandwidth::from_bits_per_sec(81920 * 1024)));
        assert_eq!(graph.nodes[1].bandwidth_down, None);
        let edge = graph.edges[0];
        assert_eq!((edge.source, edge.target, edge.line), (0, 1, 5));
        assert_eq!((edge.latency, edge.packet_loss), (SimDuration::from_millis(50), 0.02));
        assert_eq!(graph.index_of(7), Some(1));
        assert_eq!(graph.index_of(6), None);
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        assert_eq!(error(""), "1:1: no graph here; a graph begins with 'graph ['");
        assert_eq!(error("graph [\n node [ id 0 ]\n"), "1:7: the '[' of this graph is never closed; add ']'");
        assert_eq!(error("graph [\n node [ ]\n]"), "2:2: this node has no 'id'; add one, such as 'id 0'");
        assert_eq!(
            error("graph [\n node [ id 0 ]\n node [ id 0 ] ]"),
            "3:12: node id 0 is already taken on line 2; every node needs its own"
        );
        assert_eq!(
            error("graph [ node [ id 0 ]\n edge [ source 0\n target 1\n latency \"1 ms\" ] ]"),
            "2:1: the 'target' of this edge is node 1, which does not exist; add 'node [ id 1 ]'"
        );
        assert_eq!(
            error("graph [ node [ id 0 ]\n edge [ source 0 target 0 ] ]"),
            "2:2: this edge has no 'latency'; add one, such as 'latency \"10 ms\"'"
        );
        assert_eq!(
            error("graph [ node [ id 0 ]\n edge [ source 0 target 0\n latency \"0 ms\" ] ]"),
            "3:10: 'latency' must be more than 0; the smallest is \"1 ns\""
        );
        assert_eq!(
            error("graph [ node [ id 0 ]\n edge [ source 0 target 0 latency \"1 ms\"\n packet_loss 2 ] ]"),
            "3:14: 'packet_loss' must be from 0 to 1, not 2; 2 percent are 0.02"
        );
        assert_eq!(
            error("graph [ node [ id 0\n host_bandwidth_up \"1 Gbps\" ] ]"),
            "2:20: 'host_bandwidth_up': '1 Gbps' is not a bandwidth: unknown unit 'Gbps'; use one of bit, Kbit, Mbit, \
             Gbit, Tbit, Kibit, Mibit, Gibit, Tibit, such as \"100 Mbit\""
        );
        assert_eq!(error("graph [ directed 2 ]"), "1:18: 'directed' must be 0 or 1, not the number 2");
        assert_eq!(error("graph [ node [ id 0 id 1 ] ]"), "1:21: 'id' is given twice (first on line 1); keep one");
        assert_eq!(error("graph [ node [ id 0 ] ] ]"), "1:25: this ']' closes nothing; remove it");
        assert_eq!(error("graph [ ]"), "1:7: this graph has no nodes; add 'node [ id 0 ]'");
        assert_eq!(error("graph [ node 5 ]"), "1:14: expected '[' after 'node' but found the number 5");
        assert_eq!(error("graph [ node [ id ] ]"), "1:19: expected a number, a string or '[' after 'id' but found ']'");
    }
}
