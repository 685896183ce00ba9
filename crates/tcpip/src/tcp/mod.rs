//! TCP: one connection as a state machine without input or output of its own. The stack finds the connection of a segment,
//! asks `poll` for what leaves, and runs the timers.

pub(crate) mod ack_policy;
pub(crate) mod acknowledge;
pub(crate) mod connection;
pub(crate) mod controller;
pub(crate) mod cubic;
pub(crate) mod footprint;
pub(crate) mod info;
pub(crate) mod input;
pub(crate) mod listen;
pub(crate) mod new_data;
pub(crate) mod output;
pub(crate) mod pacing;
mod prediction;
pub(crate) mod rate;
pub(crate) mod recovery;
pub(crate) mod recv_queue;
mod refusal;
pub(crate) mod rtt;
pub(crate) mod scoreboard;
pub(crate) mod send_queue;
pub(crate) mod time_wait;
pub(crate) mod timer;
pub(crate) mod window;
