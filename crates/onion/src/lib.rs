//! Tor's protocol between relays and with clients (tor-spec, dir-spec), without input, output, clock or randomness of its own.
//!
//! Whoever uses it moves bytes, says what time it is and hands in random bytes, so that every part can be tested by itself and a run
//! repeats to the bit.

pub mod cell;
pub mod certificates;
pub mod circuit;
pub mod date;
pub mod descriptor;
pub mod directory;
pub mod handshake;
pub mod keys;
pub mod link;
