//! A host's network interface without I/O: what waits to leave, the lines of the access link, and what has come but is not here
//! yet. State in, packets and deadlines out; it knows no engine, no kernel and no clock, and of the network only what its own
//! lines do.
//!
//! A packet's way through it, and the calls in their order:
//!
//! 1. [`Interface::has_room`] says whether the host's stack is asked for a packet, [`Interface::send`] takes it, and
//!    [`Interface::poll_departure`] gives what leaves, with the time of its last bit. Whoever carries it decides whether and when it
//!    arrives at the other host.
//! 2. There, [`Interface::receive`] takes it at the last router before the downlink, and [`Interface::poll_delivery`] gives it when
//!    the host has it.
//!
//! [`Interface::next_deadline`] is when to call again.
//!
//! # Rules of the model
//!
//! - **Lines**: sizes count the IP header and payload, without Ethernet framing. A line sends one packet at a time, without
//!   bursts: in the long run its rate is exact to the bit. One TCP connection with timestamps and a full 1,500-byte MTU so gets
//!   1,448/1,500 of the line's rate as goodput (965 Mbit/s of 1 Gbit/s).
//! - **Serialisation** is charged once, by the slower of the sender's uplink and the receiver's downlink (cut-through in the
//!   core): a packet that finds a downlink idle and no slower than its uplink is delivered in the same moment.
//! - **Queues**: the uplink's is `fifo` or `round-robin` between sockets, with drop-tail when it holds more than `max(1,000 full
//!   packets, 100 ms)`; the downlink's router runs CoDel (RFC 8289) with TARGET 10 ms as in Shadow 3 and INTERVAL 100 ms, with
//!   the uplink's limit on top.
//! - **Bootstrapping**: before `bootstrap_end` lines take no time and queues lose nothing.

mod codel;
mod flow;
mod interface;
mod link;
mod wire;

pub use interface::{Counters, Departure, Interface, Rates};
pub use link::Discipline;
