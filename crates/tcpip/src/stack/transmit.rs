//! Packets out: to `eth0` when the caller has room, and round the loopback interface.

use super::{Kind, Outgoing, Stack};
use crate::addr::Interface;
use crate::packet::{Packet, Transport};
use crate::socket::{Readiness, SocketId};
use crate::wire::ip::IpHeader;
use base::SimTime;

impl Stack {
    /// The next packet for `eth0`. TCP segments are made here, so a caller whose interface is full just does not ask; then
    /// nothing is lost or queued twice, and segments carry what is true when they leave.
    ///
    /// Acknowledgements of connections that have nothing else to send come first: each is short, and what waits for it is
    /// another host. Datagrams and the other connections take turns.
    pub fn poll_transmit(&mut self, now: SimTime) -> Option<Packet> {
        if let Some(packet) = self.next_acknowledgement(now) {
            self.count_sent(&packet);
            return Some(packet);
        }
        let packet = if self.datagrams_next {
            self.next_finished().or_else(|| self.next_segment(now, Interface::Ethernet))
        } else {
            self.next_segment(now, Interface::Ethernet).or_else(|| self.next_finished())
        }?;
        self.datagrams_next = !self.datagrams_next;
        self.count_sent(&packet);
        Some(packet)
    }

    /// Whether `poll_transmit` may give a packet.
    pub fn wants_transmit(&self) -> bool {
        !self.outgoing.is_empty() || !self.ready_acks.is_empty() || !self.ready_ethernet.is_empty()
    }

    /// Whether `run_loopback` has something to do.
    pub fn wants_loopback(&self) -> bool {
        !self.loopback.is_empty() || !self.ready_loopback.is_empty()
    }

    /// Carries packets round the loopback interface until none is left.
    pub fn run_loopback(&mut self, now: SimTime) {
        loop {
            let next = self.loopback.pop_front().or_else(|| self.next_segment(now, Interface::Loopback));
            let Some(packet) = next else { return };
            if let Some(seen) = &mut self.loopback_seen {
                seen.push((now, packet.clone()));
            }
            self.count_received(Interface::Loopback, &packet);
            self.deliver(now, packet);
        }
    }

    /// Keeps a copy of every packet that goes round the loopback interface, for `take_loopback_seen`.
    pub fn watch_loopback(&mut self) {
        self.loopback_seen.get_or_insert_default();
    }

    /// The copies since last asked, in order.
    pub fn take_loopback_seen(&mut self) -> Vec<(SimTime, Packet)> {
        self.loopback_seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many copies wait to be taken.
    #[inline]
    pub fn loopback_seen(&self) -> usize {
        self.loopback_seen.as_ref().map_or(0, Vec::len)
    }

    fn next_finished(&mut self) -> Option<Packet> {
        let Outgoing { packet, owner, cost } = self.outgoing.pop_front()?;
        if let Some(id) = owner
            && let Some(slot) = self.slot_mut(id)
            && let Kind::Udp(socket) = &mut slot.kind
        {
            socket.in_transit -= cost;
            if socket.no_space && socket.is_writeable() {
                socket.no_space = false;
                self.post(id.index, Readiness::WRITABLE);
            }
        }
        Some(packet)
    }

    fn next_acknowledgement(&mut self, now: SimTime) -> Option<Packet> {
        loop {
            let id = self.ready_acks.pop_front()?;
            let Some(slot) = self.slot_mut(id) else { continue };
            slot.in_ready = false;
            if let Some(packet) = self.poll_connection(now, id.index) {
                return Some(packet);
            }
        }
    }

    fn next_segment(&mut self, now: SimTime, interface: Interface) -> Option<Packet> {
        loop {
            let id = self.ready(interface).pop_front()?;
            let Some(slot) = self.slot_mut(id) else { continue };
            slot.in_ready = false;
            if let Some(packet) = self.poll_connection(now, id.index) {
                return Some(packet);
            }
        }
    }

    fn ready(&mut self, interface: Interface) -> &mut std::collections::VecDeque<SocketId> {
        match interface {
            Interface::Ethernet => &mut self.ready_ethernet,
            Interface::Loopback => &mut self.ready_loopback,
        }
    }

    /// One segment of this connection, which stays among the ready ones while it may have more.
    pub(super) fn poll_connection(&mut self, now: SimTime, index: u32) -> Option<Packet> {
        let conn = self.connection_at(index)?;
        let only_acknowledges = conn.only_acknowledges();
        let segment = conn.poll(now);
        // Who had no more than that to send waits for the next reason among nobody.
        conn.wants_transmit &= !only_acknowledges;
        let (deadline, wants, interface) = (conn.rearm(now), conn.wants_transmit, conn.interface);
        let packet = segment.map(|(header, payload)| {
            conn.snd.ip_id = conn.snd.ip_id.wrapping_add(1);
            let header_of_socket = conn.settings.header(conn.tuple.local.addr, conn.tuple.remote.addr);
            let ip = IpHeader { id: conn.snd.ip_id.into(), ..header_of_socket };
            Packet { ip, transport: Transport::Tcp(header), payload }
        });
        self.schedule(index, deadline);
        let slot = &mut self.slots[index as usize];
        if wants && !slot.in_ready {
            slot.in_ready = true;
            let id = SocketId { index, generation: slot.generation };
            self.ready(interface).push_back(id);
        }
        packet
    }

    /// Queues a finished packet.
    pub(super) fn push_packet(&mut self, interface: Interface, packet: Packet, owner: Option<(SocketId, usize)>) {
        match interface {
            Interface::Loopback => self.loopback.push_back(packet),
            Interface::Ethernet => {
                let (owner, cost) = owner.map_or((None, 0), |(id, cost)| (Some(id), cost));
                self.outgoing.push_back(Outgoing { packet, owner, cost });
            }
        }
    }
}
