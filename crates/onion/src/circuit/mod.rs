//! Circuits: what relays and clients do with the cells of one.

pub mod flow;
pub mod layer;
pub mod message;
pub mod route;
pub mod vegas;
