//! The one error type of this crate.

use std::fmt;

/// Why a graph cannot be used. Positions are 1-based lines and columns of the GML text; the caller knows the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// The GML text is malformed or says something that no network can be.
    Gml { line: u32, column: u32, message: String },
    /// A host is attached to a node that the graph lacks.
    UnknownNode { host: usize, node_id: u32, known: String },
    /// Neither the host nor its node says how fast the host's access link is.
    NoBandwidth { host: usize, node_id: u32, direction: &'static str },
    /// Two nodes with hosts on them have no route (or no direct edge) between them.
    NoRoute { from: u32, to: u32, rule: crate::Routing },
    /// More than one edge where exactly one is needed (direct edges, and a node's edge to itself).
    ParallelEdges { from: u32, to: u32, line: u32 },
}

impl TopologyError {
    pub(crate) fn gml(line: u32, column: u32, message: impl Into<String>) -> Self {
        TopologyError::Gml { line, column, message: message.into() }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::Gml { line, column, message } => write!(f, "{line}:{column}: {message}"),
            TopologyError::UnknownNode { node_id, known, .. } => {
                write!(f, "the graph has no node {node_id}; its nodes are {known}")
            }
            TopologyError::NoBandwidth { node_id, direction, .. } => write!(
                f,
                "no {direction} bandwidth: set 'bandwidth_{direction}' here or 'host_bandwidth_{direction}' on node {node_id}"
            ),
            TopologyError::NoRoute { from, to, .. } if from == to => write!(
                f,
                "node {from} has several hosts but no edge to itself; add 'edge [ source {from} target {from} latency \"1 ms\" ]'"
            ),
            TopologyError::NoRoute { from, to, rule: crate::Routing::ShortestPath } => {
                write!(f, "node {to} cannot be reached from node {from}; add edges that connect them")
            }
            TopologyError::NoRoute { from, to, rule: crate::Routing::DirectEdges } => write!(
                f,
                "no edge connects node {from} to node {to}; add one, or set network.use_shortest_path to true"
            ),
            TopologyError::ParallelEdges { from, to, line } => write!(
                f,
                "more than one edge connects node {from} to node {to} (the second is on line {line} of the graph); keep one"
            ),
        }
    }
}

impl std::error::Error for TopologyError {}
