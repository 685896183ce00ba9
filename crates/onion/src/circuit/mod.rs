//! Circuits: what a relay does with the cells of one.

pub mod flow;
pub mod layer;
pub mod message;
pub mod vegas;
