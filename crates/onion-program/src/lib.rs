//! What the programs that speak Tor's protocol share beside it: TLS as relays speak it, the files and options of tor, lines of its log,
//! the clock, random numbers. It decides nothing: what a relay or a client does with them is theirs.

pub mod clock;
pub mod log;
pub mod random;
pub mod tls;
pub mod torrc;
