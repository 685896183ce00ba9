//! What a stack has counted: traffic by interface, packets by protocol, and what became of connections (RFC 1213, RFC 4022, RFC 4113;
//! Linux's `/proc/net/snmp`, `/proc/net/netstat`).
//!
//! Connections count for themselves; what they counted is added to the stack's sums when they end, so that a packet costs no more
//! than its own few additions.

use super::{Kind, Role, Stack};
use crate::addr::{Family, Interface};
use crate::packet::Packet;
use crate::tcp::connection::{Connection, Counters, State};
use std::collections::BTreeMap;

/// Whole IP packets, link-layer headers not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
}

impl Traffic {
    fn count(&mut self, packet: &Packet) {
        self.packets += packet.segments() as u64;
        self.bytes += packet.wire_len() as u64;
    }
}

impl std::ops::Add for Traffic {
    type Output = Traffic;
    fn add(self, other: Traffic) -> Traffic {
        Traffic { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// UDP of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Read by programs.
    pub received: u64,
    pub sent: u64,
    /// For ports that nobody has.
    pub no_port: u64,
    /// Dropped since a receive buffer was full.
    pub dropped: u64,
    /// Not sent since the interface's queue was full.
    pub refused: u64,
}

/// Reassembly and fragmentation of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounters {
    pub received: u64,
    pub reassembled: u64,
    /// Packets that were cut, and the pieces that they gave.
    pub cut: u64,
    pub made: u64,
}

/// What a host's stack has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    pub packets_in: u64,
    pub packets_out: u64,
    /// By family; what left by the loopback interface is what came in by it.
    pub ethernet_in: [Traffic; 2],
    pub ethernet_out: [Traffic; 2],
    pub loopback: [Traffic; 2],
    /// What IP sent and the queue of `eth0` did not take.
    pub refused: [Traffic; 2],
    /// For an address that is not this host's.
    pub not_ours: u64,
    pub fragments: [FragmentCounters; 2],
    pub udp: [UdpCounters; 2],
    /// ICMP messages by family and type, in and out.
    pub icmp_in: [BTreeMap<u8, u64>; 2],
    pub icmp_out: [BTreeMap<u8, u64>; 2],
    pub segments_in: u64,
    pub resets_sent: u64,
    pub active_opens: u64,
    pub passive_opens: u64,
    /// TIME_WAIT records that ended.
    pub time_waits_ended: u64,
    /// Final acknowledgements dropped by full accept queues.
    pub listen_overflows: u64,
    /// SYN cookies sent, and read from acknowledgements, and acknowledgements that were none (SyncookiesSent, Recv, Failed).
    pub cookies_sent: u64,
    pub cookies_received: u64,
    pub cookies_failed: u64,
    /// SYNs that met too many handshakes under way: those answered by a cookie, and those dropped (TCPReqQFullDoCookies, TCPReqQFullDrop).
    pub cookies_for_full: u64,
    pub dropped_for_full: u64,
    /// SYNs and final acknowledgements dropped by full listen queues.
    pub listen_drops: u64,
    /// Datagrams dropped by full receive buffers.
    pub datagram_drops: u64,
    /// What connections that have ended counted.
    ended: TcpCounters,
}

impl StackCounters {
    /// What came in by both interfaces.
    pub fn received(&self, family: Family) -> Traffic {
        self.ethernet_in[family as usize] + self.loopback[family as usize]
    }

    /// What IP sent by both interfaces, whether their queues took it or not.
    pub fn sent(&self, family: Family) -> Traffic {
        self.ethernet_out[family as usize] + self.loopback[family as usize] + self.refused[family as usize]
    }
}

/// Sums over connections, those that have ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Connections in ESTABLISHED or CLOSE_WAIT.
    pub established: u64,
    /// Segments sent, retransmissions and resets not counted.
    pub segments_out: u64,
    pub retransmitted: u64,
    /// Handshakes that failed.
    pub failed_attempts: u64,
    /// Established connections that ended without a FIN of ours.
    pub resets: u64,
    pub data_segments_out: u64,
    pub delivered: u64,
    pub timeouts: u64,
    pub loss_probes: u64,
    pub syn_retransmitted: u64,
    pub delayed_acks: u64,
    pub recoveries: u64,
    pub out_of_order: u64,
    pub dsack_received: u64,
    pub challenge_acks: u64,
    /// The receive buffer was overfull (PruneCalled), and what was dropped because of that: in order, or not.
    pub pruned: u64,
    pub dropped_for_memory: u64,
    pub early_dropped: u64,
    pub keepalive_probes: u64,
    pub window_probes: u64,
    pub copies_refused: u64,
    pub aborts_on_timeout: u64,
}

impl TcpCounters {
    fn add(&mut self, counters: &Counters) {
        self.segments_out += u64::from(counters.segments_out.saturating_sub(counters.retransmitted));
        self.retransmitted += u64::from(counters.retransmitted);
        self.failed_attempts += u64::from(counters.failed_attempt);
        self.resets += u64::from(counters.reset_established);
        self.data_segments_out += u64::from(counters.data_segments_out);
        self.delivered += u64::from(counters.delivered);
        self.timeouts += u64::from(counters.timeouts);
        self.loss_probes += u64::from(counters.loss_probes);
        self.syn_retransmitted += u64::from(counters.syn_retransmitted);
        self.delayed_acks += u64::from(counters.delayed_acks);
        self.recoveries += u64::from(counters.recoveries);
        self.out_of_order += u64::from(counters.out_of_order_in);
        self.dsack_received += u64::from(counters.dsack_duplicates);
        self.challenge_acks += u64::from(counters.challenge_acks);
        self.pruned += u64::from(counters.pruned);
        self.dropped_for_memory += u64::from(counters.dropped_for_memory);
        self.early_dropped += u64::from(counters.early_dropped);
        self.keepalive_probes += u64::from(counters.keepalive_probes);
        self.window_probes += u64::from(counters.window_probes);
        self.copies_refused += u64::from(counters.copies_refused);
        self.aborts_on_timeout += u64::from(counters.abort_on_timeout);
    }
}

impl Stack {
    pub fn counters(&self) -> &StackCounters {
        &self.counters
    }

    /// The sums over all connections that there are and were.
    pub fn tcp_counters(&self) -> TcpCounters {
        let mut sum = self.counters.ended;
        for (_, slot) in &self.slots {
            let Kind::Tcp(socket) = &slot.kind else { continue };
            let Role::Connection(conn) = &socket.role else { continue };
            sum.add(&conn.counters);
            sum.established += u64::from(matches!(conn.state, State::Established | State::CloseWait));
        }
        sum
    }

    /// A connection gives up its place: what it counted is kept.
    pub(super) fn retire(&mut self, index: u32) {
        self.note_removal(index);
        if let Some(counters) = self.connection_at(index).map(|conn: &mut Connection| conn.counters) {
            self.counters.ended.add(&counters);
        }
    }

    pub(super) fn count_received(&mut self, interface: Interface, packet: &Packet) {
        let by_family = match interface {
            Interface::Ethernet => &mut self.counters.ethernet_in,
            Interface::Loopback => &mut self.counters.loopback,
        };
        by_family[Family::of(packet.ip.dst) as usize].count(packet);
    }

    pub(super) fn count_sent(&mut self, packet: &Packet) {
        self.counters.packets_out += packet.segments() as u64;
        self.counters.ethernet_out[Family::of(packet.ip.dst) as usize].count(packet);
    }

    /// A packet that was counted as sent has not left.
    pub(super) fn count_refused(&mut self, packet: &Packet) {
        let family = Family::of(packet.ip.dst) as usize;
        let sent = &mut self.counters.ethernet_out[family];
        sent.packets -= packet.segments() as u64;
        sent.bytes -= packet.wire_len() as u64;
        self.counters.refused[family].count(packet);
    }
}
