//! How two ends of a TLS connection become a link: versions, certificates, proofs of identity and addresses (tor-spec,
//! "Negotiating and initializing channels").

pub mod association;
mod authenticate;
mod handshake;
mod netinfo;
pub mod order;
pub mod private;
mod versions;

pub use authenticate::EXPORTER;
pub use handshake::{Error, Established, Handshake, Local, Role, Tls};
pub use netinfo::Netinfo;
pub use versions::{Design, VERSIONS};
