//! The Markov models that many-user clients follow, written as GraphML for `gnomon-traffic` and tgen.
//!
//! A client's flows (a circuit each) come with exponential gaps, whose rate `load` gives; a flow's streams and
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

/// When the flows of a client begin that begins so many in a second. The models' unit is the microsecond.
pub(crate) fn flows(flows_per_s: f64) -> String {
    let rate = flows_per_s / 1e6;
    graphml(&format!(
        "node,s0,state,start\nnode,s1,state,generate\nnode,o1,observation,+\nedge,s0,s1,transition,1,,\nedge,s1,s1,transition,1,,\n\
         edge,s1,o1,emission,1,exponential,param_rate={rate:e}\n"
    ))
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
