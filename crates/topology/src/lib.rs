//! The simulated network between hosts: the graph, the ways through it, and the rates of the access links at its edge. It knows
//! nothing of packets, guests or the kernel.
//!
//! Who uses it: `scenario` builds a `Topology` from the experiment's graph; a host's network interface (`crates/interface`) has the
//! lines that an `AccessLink` describes; whoever carries a packet from one interface to the other asks the shared `Topology` for
//! its `Fate`; the engine takes its windows from `Topology::min_incoming_latency`.
//!
//! # Rules of the model
//!
//! Those of the access links and their queues stand in `crates/interface`.
//!
//! - **Latency** is the least time from access link to access link; the routes' rules stand in `routing`.
//! - **Jitter** adds to the latency, per packet and independently, uniformly in [0, jitter]; along a route it adds up. It
//!   never makes a packet faster than the latency, so latencies alone bound the engine's windows. Packets of one connection
//!   may overtake each other, as with netem's `delay`. (Shadow 3 accepts jitter and ignores it.)
//! - **Loss** is drawn per packet and independently, once for the whole route, from the sender's stream. Any packet can be
//!   lost, acknowledgements and handshakes too.
//! - **Bandwidth** belongs to hosts: each has an uplink and a downlink, and nothing else in the network limits a rate.
//! - **Bootstrapping**: before `bootstrap_end` nothing is lost. Latency and jitter hold, so that no packet outruns the engine's
//!   windows.
//! - A host's packets to itself never come here.

mod error;
mod gml;
mod graph;
mod network;
mod path;
mod routing;

pub use error::TopologyError;
pub use graph::{Edge, Graph, Node, ONE_GBIT_SWITCH};
pub use network::{AccessLink, Attachment, Rules, Topology};
pub use path::{Fate, Loss, Path};
pub use routing::Routing;
