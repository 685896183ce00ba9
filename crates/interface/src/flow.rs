//! Which packets belong together: the identity of the socket that a packet comes from.

use std::net::IpAddr;
use tcpip::{Packet, Transport};

/// What queues take turns between: connections and sockets, by their ports and peer.
pub(crate) fn flow_of(packet: &Packet) -> u64 {
    let ports = match &packet.transport {
        Transport::Tcp(tcp) => (u64::from(tcp.src_port) << 16) | u64::from(tcp.dst_port),
        Transport::Udp(udp) => (1 << 32) | (u64::from(udp.src_port) << 16) | u64::from(udp.dst_port),
        _ => 2 << 32,
    };
    let peer = match packet.ip.dst {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.segments().iter().fold(0u32, |sum, word| sum.rotate_left(5) ^ u32::from(*word)),
    };
    ports ^ (u64::from(peer) << 33)
}
