//! Circuits: what a relay does with the cells of one.

pub mod layer;
pub mod message;
