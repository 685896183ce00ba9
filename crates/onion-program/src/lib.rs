//! What the programs that speak Tor's protocol share beside it: TLS as relays speak it, the files and options of tor, lines of its log,
//! the clock, random numbers, signals, the limit of open files. It decides nothing: what a relay or a client does with them is theirs.

pub mod clock;
pub mod descriptors;
pub mod log;
pub mod random;
pub mod signals;
pub mod tls;
pub mod torrc;
