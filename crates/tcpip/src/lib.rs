//! The network stack of one simulated host, without I/O: it takes time and packets and gives packets and wake-ups.
//!
//! TCP, UDP and ICMP over IPv4 and IPv6 with real headers and Linux's semantics. A packet's way through this crate: [`Packet`] arrives
//! at [`Stack::receive`] (`stack/deliver.rs`), which finds the socket; `tcp/input.rs`, `tcp/acknowledge.rs` and
//! `tcp/recovery.rs` or `udp.rs` change it; [`Stack::poll_event`] tells the simulated kernel; what a program writes leaves by
//! `tcp/output.rs` through [`Stack::poll_transmit`]. Knows nothing of hosts' places, guests or the engine.

mod addr;
mod config;
mod error;
mod filter;
mod fragment;
pub mod multicast;
mod packet;
mod ports;
mod socket;
mod stack;
pub mod sysctl;
mod tcp;
mod timers;
mod transfer;
mod udp;
pub mod wire;

pub use addr::{Family, Interface};
pub use config::{Config, CongestionControl, NETWORK_PREFIX};
pub use error::SocketError;
pub use filter::{FilteredPacket, PacketFilter};
pub use packet::{Packet, Transport};
pub use socket::{Connected, OptionName, Readiness, SendFlags, Shutdown, SocketId, SocketOption};
pub use stack::{
    Ancillary, Departing, FragmentCounters, Listed, ListedOptions, Protocol, Received, Stack, StackCounters,
    TcpCounters, Timer, Traffic, UdpCounters,
};
pub use tcp::info::{TcpInfo, TcpState};
pub use udp::ErrorReport;
pub use wire::WireError;
