//! A packet as queues see it: who it belongs to, what it weighs, and from when on it may leave.

use base::SimTime;
use std::net::IpAddr;
use tcpip::{Departing, Packet, SocketId, Transport};

/// What an Ethernet header adds to a packet in the accounts of Linux's queue disciplines (qdisc_pkt_len). Lines do not count it.
pub(crate) const ETHERNET_HEADER: u64 = 14;

/// What a packet without payload weighs in memory: an sk_buff, its shared info and room for headers, as on x86-64.
const SKB_OVERHEAD: u32 = 768;

/// A packet on its way out, or a train of them, which stays together while it waits (as with segmentation offload on Linux).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Apart, for it goes through many queues: each would move all of it.
    pub packet: Box<Packet>,
    /// The socket that it comes from; None for what no socket sends.
    pub flow: Option<SocketId>,
    /// What its socket is told when it has left ([`crate::Interface::poll_completion`]), in bytes of memory; 0 if it need not know.
    pub charge: u32,
    /// It must not leave before (skb->tstamp, the earliest departure time of pacing).
    pub not_before: SimTime,
    /// Linux's skb->priority, of which pfifo_fast and fq make bands.
    pub priority: u8,
}

impl From<Departing> for Frame {
    fn from(departing: Departing) -> Frame {
        let charge = u32::try_from(departing.truesize).unwrap_or(u32::MAX);
        let Departing { packet, flow, not_before, .. } = departing;
        Frame { flow, charge, not_before, ..Frame::new(packet) }
    }
}

impl Frame {
    /// A frame of nobody in particular, which may leave at once.
    pub fn new(packet: impl Into<Box<Packet>>) -> Frame {
        let packet = packet.into();
        let priority = if packet.ip.is_v6() { 0 } else { priority_of(packet.ip.tos) };
        Frame { packet, flow: None, charge: 0, not_before: SimTime::ZERO, priority }
    }

    /// Cuts so many packets off a train; None for what has no more. The charge stays with the last one.
    pub(crate) fn split(&mut self, segments: usize) -> Option<Frame> {
        let packet = self.packet.split(segments)?.into();
        let Frame { flow, not_before, priority, .. } = *self;
        Some(Frame { packet, flow, charge: 0, not_before, priority })
    }

    /// Bytes that it takes of memory while it waits (skb->truesize).
    pub(crate) fn memory(&self) -> u64 {
        let least = (self.packet.payload.len() as u32).next_multiple_of(64) + SKB_OVERHEAD;
        self.charge.max(least).into()
    }

    /// On the line: with IP headers, without framing.
    pub(crate) fn bytes(&self) -> u64 {
        self.packet.wire_len() as u64
    }

    /// As queue disciplines count it.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.bytes() + self.packet.segments() as u64 * ETHERNET_HEADER
    }

    /// What takes turns: the socket, or what one would send.
    pub(crate) fn turn(&self) -> u64 {
        self.flow.map_or_else(|| self.tuple(), SocketId::number)
    }

    /// The ports and the other end's address.
    fn tuple(&self) -> u64 {
        let ports = match &self.packet.transport {
            Transport::Tcp(tcp) => (u64::from(tcp.src_port) << 16) | u64::from(tcp.dst_port),
            Transport::Udp(udp) => (1 << 32) | (u64::from(udp.src_port) << 16) | u64::from(udp.dst_port),
            _ => 2 << 32,
        };
        ports ^ (u64::from(folded(self.packet.ip.dst)) << 33)
    }

    /// As skb_get_hash: flows are spread by it, by ports and addresses, and it differs from host to host by `perturbation`.
    pub(crate) fn hash(&self, perturbation: u64) -> u32 {
        (mixed(self.tuple() ^ perturbation) >> 32) as u32
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.packet.transport, Transport::Tcp(_))
    }
}

fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.segments().iter().fold(0u32, |sum, word| sum.rotate_left(5) ^ u32::from(*word)),
    }
}

/// The finaliser of MurmurHash3: every bit of the input changes half of the output's.
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The priority that IP_TOS gives a socket's packets (rt_tos2priority): by the four bits that RFC 1349 called type of service.
fn priority_of(tos: u8) -> u8 {
    const BEST_EFFORT: u8 = 0;
    const BULK: u8 = 2;
    const INTERACTIVE_BULK: u8 = 4;
    const INTERACTIVE: u8 = 6;
    match (tos & 0x1e) >> 3 {
        0 => BEST_EFFORT,
        1 => BULK,
        2 => INTERACTIVE,
        _ => INTERACTIVE_BULK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tc-prio(8), the table under "Classifier": type of service, Linux's priority.
    #[test]
    fn priorities_are_those_of_the_manual() {
        let table = [
            (0x00, 0),
            (0x02, 0),
            (0x04, 0),
            (0x06, 0),
            (0x08, 2),
            (0x0a, 2),
            (0x0c, 2),
            (0x0e, 2),
            (0x10, 6),
            (0x12, 6),
            (0x14, 6),
            (0x16, 6),
            (0x18, 4),
            (0x1a, 4),
            (0x1c, 4),
            (0x1e, 4),
            (0xb8, 4),
        ];
        for (tos, priority) in table {
            assert_eq!(priority_of(tos), priority, "{tos:#x}");
        }
    }
}
