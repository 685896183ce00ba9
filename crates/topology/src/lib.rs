//! The simulated network between hosts: the graph, the ways through it, and the access links at its edge. It knows packets
//! only by their size and nothing of guests or of the kernel.
//!
//! Who uses it: `scenario` builds a `Topology` from the experiment's graph; a host's network interface owns an `Uplink` and a
//! `Downlink` and asks the shared `Topology` for each packet's `Fate`; the engine takes its windows from
//! `Topology::min_incoming_latency`.
//!
//! # A packet's way
//!
//! 1. `Uplink::send` at the moment at which the host's stack hands it over: it waits for its turn and for the line, and its
//!    last bit leaves at the returned time. A queue longer than `max(1,000 full packets, 100 ms)` loses its newest packet.
//! 2. `Topology::fate` at that time: lost, or at the receiver's router after latency and jitter.
//! 3. `Downlink::receive` on arrival there: CoDel may drop it; otherwise the host has it at the returned time.
//!
//! # Rules of the model
//!
//! - **Latency** is the least time from access link to access link; the routes' rules stand in `routing`.
//! - **Jitter** adds to the latency, per packet and independently, uniformly in [0, jitter]; along a route it adds up. It
//!   never makes a packet faster than the latency, so latencies alone bound the engine's windows. Packets of one connection
//!   may overtake each other, as with netem's `delay`. (Shadow 3 accepts jitter and ignores it.)
//! - **Loss** is drawn per packet and independently, once for the whole route, from the sender's stream. Any packet can be
//!   lost, acknowledgements and handshakes too.
//! - **Bandwidth** belongs to hosts: each has an uplink and a downlink, and nothing else in the network limits a rate. Sizes
//!   count the IP header and payload, without Ethernet framing. A line sends one packet at a time, without bursts: in the
//!   long run its rate is exact to the bit. One TCP connection with timestamps and a full 1,500-byte MTU so gets 1,448/1,500
//!   of the line's rate as goodput (965 Mbit/s of 1 Gbit/s).
//! - **Serialisation** is charged once, by the slower of the sender's uplink and the receiver's downlink (cut-through in the
//!   core): a packet that finds a downlink idle and no slower than its uplink is delivered in the same moment.
//! - **Queues**: the uplink's is `fifo` or `round-robin` between sockets, with drop-tail; the downlink's router runs CoDel
//!   (RFC 8289) with TARGET 10 ms as in Shadow 3 and INTERVAL 100 ms, with the uplink's limit on top.
//! - **Bootstrapping**: before `bootstrap_end` nothing is lost and lines take no time. Latency and jitter hold, so that no
//!   packet outruns the engine's windows.
//! - A host's packets to itself never come here.

mod codel;
mod error;
mod gml;
mod graph;
mod link;
mod network;
mod path;
mod routing;
mod wire;

pub use error::TopologyError;
pub use graph::{Edge, Graph, Node, ONE_GBIT_SWITCH};
pub use link::{Discipline, Downlink, Dropped, Sent, Uplink};
pub use network::{AccessLink, Attachment, Rules, Topology};
pub use path::{Fate, Loss, Path};
pub use routing::Routing;
pub use wire::MTU_BYTES;
