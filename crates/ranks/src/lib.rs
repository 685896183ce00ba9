//! A run over several processes, its *ranks*, on one machine or more: what they agree on and send each other.
//!
//! Two programs take part for each rank. The simulator holds the guests, has given up the real network and may write in one folder only; so
//! it links with no MPI, whose libraries open sockets and files whenever they like, start threads and put their own code in place of the
//! memory calls. MPI lives in a companion, `gnomon-ranks` (`main.rs`, built with the feature `mpi`), which the simulator starts before it
//! closes its box, and which inherits the place that `mpirun` has given the simulator. The two talk over a pair of sockets in the frames of
//! [`frame`]; [`Link`] is the simulator's end.
//!
//! One operation does everything: [`Link::exchange`]. All ranks call it alike; each gives what it knows, which is reduced over all, and
//! bytes for others, which arrive before it returns.

pub mod frame;
mod link;
mod place;

pub use frame::{Graph, Standing};
pub use link::Link;
pub use place::Place;
