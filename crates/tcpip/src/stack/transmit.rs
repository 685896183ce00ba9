//! Packets out: into the queue of `eth0`, from which the caller takes them, and round the loopback interface.

use super::{Departing, Kind, Stack};
use crate::addr::{Family, Interface};
use crate::packet::{Packet, Transport};
use crate::socket::{Readiness, SocketId};
use crate::tcp::new_data::{Amount, Nagle};
use crate::tcp::send_queue::OVERHEAD;
use crate::udp::Carries;
use crate::wire::ip::IpHeader;
use crate::wire::tcp::TcpFlags;
use base::SimTime;
use probes::choices::{Layer, SentFate};

/// While all datagrams in the interface's queues take no more than this, no socket is short of room (half of SOCK_MIN_SNDBUF).
const CROWDED: usize = 2304;

/// On whose account a packet leaves, and from when on it may.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owner {
    pub flow: Option<SocketId>,
    pub truesize: usize,
    pub not_before: SimTime,
}

impl Stack {
    /// What is next in the queue of `eth0`, in the order in which the host sent it. The queue is short: no socket puts more into it
    /// than TCP's small queues and SO_SNDBUF allow, until `transmitted` tells that some of it has left.
    pub fn poll_departure(&mut self) -> Option<Departing> {
        let departing = self.outgoing.pop_front()?;
        self.count_sent(&departing.packet);
        Some(departing)
    }

    /// The queue of `eth0` had no room for this departure and has not taken it (NET_XMIT_DROP). To be told before the next departure is
    /// polled: what the same connection has sent behind it is taken back, too.
    pub fn refused(&mut self, now: SimTime, flow: Option<SocketId>, packet: &Packet, truesize: usize) {
        self.count_refused(packet);
        if let Some(trace) = &mut self.trace {
            trace.gone(now, packet.number, packet.segments() as u64, SentFate::Refused);
        }
        let Some(id) = flow.filter(|id| self.slot_mut(*id).is_some()) else { return };
        let (Transport::Tcp(header), Some(conn)) = (&packet.transport, self.connection_at(id.index)) else {
            self.note_datagram_refused(id, packet);
            return self.transmitted(now, id, truesize);
        };
        conn.snd.in_host = conn.snd.in_host.saturating_sub(truesize);
        // Linux stops at the first that is refused, and waits for nothing that it has queued.
        conn.snd.throttled = false;
        let unsent = conn.refused(now, header, packet.payload.len());
        if let Some(start) = unsent {
            self.take_back(id, start);
        }
        self.count_throttled(id.index);
        if let Some(conn) = self.connection_at(id.index) {
            let deadline = conn.rearm(now);
            self.schedule(id.index, deadline);
        }
    }

    /// A datagram's program does not hear of it: send(2) has returned.
    fn note_datagram_refused(&mut self, id: SocketId, packet: &Packet) {
        let is_udp = self.udp(id).is_ok_and(|socket| socket.carries == Carries::Udp);
        if is_udp && packet.ip.fragment_offset == 0 {
            let udp = &mut self.counters.udp[Family::of(packet.ip.dst) as usize];
            udp.sent = udp.sent.saturating_sub(1);
            udp.refused += 1;
        }
    }

    /// The queue has taken a departure of this flow, and dropped another one of it for that (NET_XMIT_CN).
    pub fn congested(&mut self, flow: SocketId) {
        if self.slot_mut(flow).is_some()
            && let Some(conn) = self.connection_at(flow.index)
        {
            conn.congested();
        }
    }

    /// Takes out of the queue what this connection has sent from `start` on, which is not sent any more.
    fn take_back(&mut self, id: SocketId, start: u64) {
        let mut freed = 0;
        let mut taken_back = Vec::new();
        self.outgoing.retain_mut(|departing| {
            let Transport::Tcp(header) = &mut departing.packet.transport else { return true };
            if departing.flow != Some(id) || (header.seq.wrapping_sub(start as u32) as i32) < 0 {
                return true;
            }
            if departing.packet.payload.is_empty() && !header.flags.contains(TcpFlags::FIN) {
                header.seq = start as u32;
                return true;
            }
            freed += departing.truesize;
            taken_back.push((departing.packet.number, departing.packet.segments() as u64));
            false
        });
        if let Some(trace) = &mut self.trace {
            let now = trace.now();
            taken_back.iter().for_each(|(number, count)| trace.gone(now, *number, *count, SentFate::TakenBack));
        }
        if let Some(conn) = self.connection_at(id.index) {
            conn.snd.in_host = conn.snd.in_host.saturating_sub(freed);
        }
    }

    /// Whether somebody waits for `transmitted`; else nobody sees when it is called.
    pub fn waits_for_transmission(&self) -> bool {
        self.throttled > 0 || self.datagrams_in_host > CROWDED
    }

    /// The next packet of the wire, for a caller without an interface of its own: it has left when it is given.
    pub fn poll_transmit(&mut self, now: SimTime) -> Option<Packet> {
        let packet = match self.outgoing.front_mut()?.packet.split_first() {
            Some(first) => first,
            None => {
                let Departing { packet, flow, truesize, .. } = self.outgoing.pop_front()?;
                if let Some(flow) = flow {
                    self.transmitted(now, flow, truesize);
                }
                *packet
            }
        };
        self.count_sent(&packet);
        Some(packet)
    }

    /// Whether there is something in the queue of `eth0`.
    pub fn wants_transmit(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// So much of this flow has left the interface, by the line or because a queue dropped it: there is room for more of it.
    pub fn transmitted(&mut self, now: SimTime, id: SocketId, cost: usize) {
        if cost == 0 {
            return;
        }
        let Some(slot) = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation) else {
            return;
        };
        match &mut slot.kind {
            Kind::Udp(socket) => {
                socket.in_transit -= cost;
                self.datagrams_in_host -= cost;
                if socket.no_space && socket.is_writeable() {
                    socket.no_space = false;
                    self.post(id.index, Readiness::WRITABLE);
                }
            }
            Kind::Tcp(socket) => {
                let Some(conn) = socket.connection() else { return };
                conn.snd.in_host = conn.snd.in_host.saturating_sub(cost);
                if std::mem::take(&mut conn.snd.throttled) {
                    conn.wants_transmit = true;
                    self.sync(now, id.index);
                }
            }
            Kind::TimeWait(..) => {}
        }
    }

    /// Whether `run_loopback` has something to do.
    pub fn wants_loopback(&self) -> bool {
        !self.loopback.is_empty()
    }

    /// Carries packets round the loopback interface until none is left.
    pub fn run_loopback(&mut self, now: SimTime) {
        while let Some(packet) = self.loopback.pop_front() {
            if !self.copies.is_empty() && self.copies.front() == Some(&packet.number) {
                // What goes to many was seen on `eth0`; this copy passes no interface (`dev_loopback_xmit`).
                self.copies.pop_front();
                self.deliver(now, packet, Interface::Ethernet);
                continue;
            }
            if let Some(seen) = self.loopback_seen.as_mut() {
                seen.push((now, packet.clone()));
            }
            self.count_received(Interface::Loopback, &packet);
            self.deliver(now, packet, Interface::Loopback);
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

    /// Lets everything leave that this connection has and may send.
    pub(super) fn transmit(&mut self, now: SimTime, index: u32, nagle: Nagle, amount: Amount) {
        loop {
            let work = self.begin_making();
            let Some(conn) = self.connection_at(index) else { return };
            let Some(departure) = conn.poll(now, nagle, amount) else { return };
            let header = conn.settings.header(conn.tuple.local.addr, conn.tuple.remote.addr);
            let ip = IpHeader { id: conn.snd.ip_id.wrapping_add(1).into(), ..header };
            let mut packet = Packet {
                ip,
                transport: Transport::Tcp(departure.header),
                payload: departure.payload,
                train_mss: departure.mss,
                number: 0,
            };
            conn.snd.ip_id = conn.snd.ip_id.wrapping_add(packet.segments() as u16);
            let (interface, orphans) = (conn.interface, conn.config.orphans_packets);
            // What goes round the loopback interface occupies nothing on its way, nor does a bare acknowledgement.
            let cost = match interface {
                Interface::Ethernet if !packet.payload.is_empty() && !orphans => packet.payload.len() + OVERHEAD,
                _ => 0,
            };
            conn.snd.in_host += cost;
            let owner = Owner { flow: Some(self.id_of(index)), truesize: cost, not_before: departure.not_before };
            self.number_segments(now, index, &mut packet);
            let segments = packet.segments() as u64;
            self.queue_packet(interface, packet, Some(owner));
            self.end_work(work, Layer::Socket, segments);
            if amount != Amount::All {
                return;
            }
        }
    }

    /// Queues a finished packet.
    pub(super) fn push_packet(&mut self, interface: Interface, mut packet: Packet, owner: Option<Owner>) {
        let work = self.begin_making();
        self.number(interface, &mut packet);
        let segments = packet.segments() as u64;
        self.queue_packet(interface, packet, owner);
        self.end_work(work, Layer::Socket, segments);
    }

    fn queue_packet(&mut self, interface: Interface, packet: Packet, owner: Option<Owner>) {
        match interface {
            Interface::Loopback => self.loopback.push_back(packet),
            Interface::Ethernet => {
                let Owner { flow, truesize, not_before } = owner.unwrap_or_default();
                self.outgoing.push_back(Departing { packet: Box::new(packet), flow, truesize, not_before });
            }
        }
    }
}
