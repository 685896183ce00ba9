//! Filters of sockets (SO_ATTACH_FILTER, `sk_filter_trim_cap`): each packet for a socket that has
//! one is shown to it as bytes. Sockets without filters pay for one comparison.

use crate::addr::Interface;
use crate::packet::Packet;
use std::fmt;
use std::sync::Arc;

/// A packet as filters see it.
#[derive(Clone, Copy, Debug)]
pub struct FilteredPacket<'a> {
    /// From the IP header on.
    pub bytes: &'a [u8],
    /// Where what the socket gets begins: the transport's header, of raw sockets of IPv4 the IP
    /// header.
    pub data: usize,
    /// By which it has come.
    pub interface: Interface,
}

/// What judges the packets of a socket.
pub trait PacketFilter: fmt::Debug + Send + Sync {
    /// How many bytes from `data` on the socket may have; none of a packet for 0.
    fn judge(&self, packet: &FilteredPacket<'_>) -> usize;
}

/// A socket's filter, if it has one, in one word; connections have their listener's.
pub(crate) type Filter = Option<Arc<Box<dyn PacketFilter>>>;

/// How many bytes of a packet's payload a filter leaves; `None` for a packet that it drops. The
/// transport's header is never cut.
pub(crate) fn payload_left(filter: &dyn PacketFilter, packet: &Packet, interface: Interface) -> Option<usize> {
    let mut bytes = Vec::with_capacity(packet.wire_len());
    packet.emit(&mut bytes);
    let data = packet.ip.header_len();
    let headers = bytes.len() - packet.payload.len() - data;
    match filter.judge(&FilteredPacket { bytes: &bytes, data, interface }) {
        0 => None,
        left => Some(left.saturating_sub(headers).min(packet.payload.len())),
    }
}
