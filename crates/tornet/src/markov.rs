//! The Markov models that many-user clients follow, written as GraphML for `gnomon-traffic` and tgen.
//!
//! A client's flows (a circuit each) come with exponential gaps, whose rates `load` gives; a flow's streams and
//! a stream's packets follow the hidden Markov models of `data/`.

use std::fmt::Write;

const STREAMS: &str = include_str!("../data/streams.csv");
const PACKETS: &str = include_str!("../data/packets.csv");

// Keys are of nodes or of edges: igraph, by which tgen reads graphs, knows none for all.
const HEAD: &str = "\
<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">
<key id=\"type\" for=\"node\" attr.name=\"type\" attr.type=\"string\"/>
<key id=\"kind\" for=\"edge\" attr.name=\"type\" attr.type=\"string\"/>
<key id=\"name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>
<key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>
<key id=\"distribution\" for=\"edge\" attr.name=\"distribution\" attr.type=\"string\"/>
<key id=\"param_low\" for=\"edge\" attr.name=\"param_low\" attr.type=\"double\"/>
<key id=\"param_high\" for=\"edge\" attr.name=\"param_high\" attr.type=\"double\"/>
<key id=\"param_location\" for=\"edge\" attr.name=\"param_location\" attr.type=\"double\"/>
<key id=\"param_scale\" for=\"edge\" attr.name=\"param_scale\" attr.type=\"double\"/>
<key id=\"param_rate\" for=\"edge\" attr.name=\"param_rate\" attr.type=\"double\"/>
<graph edgedefault=\"directed\">
";
const TAIL: &str = "</graph>\n</graphml>\n";

/// When a flow's streams begin.
pub(crate) fn streams() -> String {
    graphml(STREAMS)
}

/// When a stream's packets are sent, and which way.
pub(crate) fn packets() -> String {
    graphml(PACKETS)
}

/// When the flows of a client begin: in each phase so many in a second, for so many seconds on average and for a time that differs between
/// clients, then `steady_per_s` for good. The models' unit is the microsecond.
pub(crate) fn flows(phases: &[Phase], steady_per_s: f64) -> String {
    let mut table = String::from("node,s0,state,start\nnode,o1,observation,+\nedge,s0,s1,transition,1,,\n");
    let steady = Phase { flows_per_s: steady_per_s, seconds: f64::INFINITY };
    for (number, phase) in (1..).zip(phases.iter().chain([&steady])) {
        let _ = writeln!(table, "node,s{number},state,generate");
        // One of so many flows is the phase's last. A phase in which less than one would begin has one.
        let last = (1.0 / (phase.flows_per_s * phase.seconds)).min(1.0);
        if last < 1.0 {
            let _ = writeln!(table, "edge,s{number},s{number},transition,{},,", 1.0 - last);
        }
        if last > 0.0 {
            let _ = writeln!(table, "edge,s{number},s{},transition,{last},,", number + 1);
        }
        let rate = phase.flows_per_s / 1e6;
        let _ = writeln!(table, "edge,s{number},o1,emission,1,exponential,param_rate={rate:e}");
    }
    graphml(&table)
}

/// A time in which a client begins flows at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub flows_per_s: f64,
    /// The mean over clients.
    pub seconds: f64,
}

/// A table of nodes and edges as GraphML.
fn graphml(table: &str) -> String {
    let mut text = String::from(HEAD);
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(',').collect();
        match fields[..] {
            ["node", id, kind, name] => {
                let _ = writeln!(text, "<node id=\"{id}\">{}{}</node>", data("type", kind), data("name", name));
            }
            ["edge", from, to, kind, weight, distribution, parameters] => {
                let _ = write!(
                    text,
                    "<edge source=\"{from}\" target=\"{to}\">{}{}",
                    data("kind", kind),
                    data("weight", weight)
                );
                if !distribution.is_empty() {
                    text += &data("distribution", distribution);
                }
                for (name, value) in parameters.split_whitespace().filter_map(|parameter| parameter.split_once('=')) {
                    text += &data(name, value);
                }
                text += "</edge>\n";
            }
            _ => unreachable!("the built-in tables have nodes and edges alone: {line}"),
        }
    }
    text + TAIL
}

fn data(key: &str, value: &str) -> String {
    format!("<data key=\"{key}\">{value}</data>")
}
