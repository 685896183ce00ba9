//! The simulated network between hosts: the graph, the ways through it, and the rates of the access links at its edge. It knows
//! nothing of packets, guests or the kernel.
//!
//! Who uses it: `scenario` builds a `Topology` from the experiment's graph; a host's network interface (`crates/interface`) has the
//! lines that an `AccessLink` describes; whoever carries a packet from one interface to the other asks the shared `Topology` for
//! its `Fate`; the engine takes its windows from `Topology::min_incoming_latency`.
//!
//! The rules stand in `docs/network-model.md`; those of routes in `routing`. A host's packets to itself never come here.

mod drift;
mod error;
mod gml;
mod graph;
mod network;
mod path;
mod routing;

pub use error::TopologyError;
pub use graph::{Edge, Graph, Node, ONE_GBIT_SWITCH};
pub use network::{AccessLink, Attachment, NetworkModel, Rules, Topology};
pub use path::{Fate, Loss, Path};
pub use routing::Routing;
