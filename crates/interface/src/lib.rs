//! A host's network interface without I/O: what waits to leave, the lines of the access link, and what has come but is not here
//! yet. State in, packets and deadlines out; it knows no engine, no kernel and no clock, and of the network only what its own
//! lines do.
//!
//! A packet's way through it, and the calls in their order:
//!
//! 1. The host's stack gives a packet, which [`Interface::send`] takes as a [`Frame`]. A queue discipline keeps it while the line is
//!    busy, or has no room for it, which the stack is told; [`Interface::poll_departure`] gives what goes onto the line, with the time
//!    of its last bit, and [`Interface::poll_completion`] tells its socket when it is gone. Whoever carries it decides whether and
//!    when it arrives at the other host.
//! 2. There, [`Interface::receive`] takes it at the last router before the downlink, and [`Interface::poll_delivery`] gives it when
//!    the host has it.
//!
//! [`Interface::next_deadline`] is when to call again.
//!
//! The rules stand in `docs/network-model.md`.

mod downlink;
mod frame;
mod interface;
mod qdisc;
mod token_bucket;
mod uplink;
mod wire;

pub use frame::Frame;
pub use interface::{Config, Counters, Departure, Interface, Model};
pub use qdisc::{Discipline, Verdict};
pub use uplink::Completion;
