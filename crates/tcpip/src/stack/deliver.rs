//! Packets in: from `receive` to the socket that they are for.

use super::icmp::Refusal;
use super::{Kind, Role, Stack};
use crate::addr::{Endpoint, Family, FourTuple, Interface};
use crate::error::SocketError;
use crate::filter::{PacketFilter, payload_left};
use crate::packet::{Packet, Transport};
use crate::ports::Hold;
use crate::socket::{Readiness, SocketId};
use crate::tcp::connection::{Connection, Draw, Reply};
use crate::tcp::time_wait::Verdict;
use crate::udp::{Carries, Datagram};
use crate::wire::ip::IpHeader;
use crate::wire::ipv4;
use crate::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use base::SimTime;
use bytes::Bytes;
use probes::choices::ReceivedFate;
use std::net::IpAddr;

/// How many segments so much payload is, in a train or alone.
fn segments(len: usize, train_mss: u16) -> u64 {
    if train_mss == 0 { 1 } else { len.div_ceil(train_mss.into()) as u64 }
}

impl Stack {
    /// A packet has arrived on `eth0`.
    pub fn receive(&mut self, now: SimTime, packet: Packet) {
        if !self.config.owns(packet.ip.dst) && !self.is_for_this_host_too(&packet) {
            self.counters.not_ours += 1;
            self.note_arrival(now, &packet);
            if let Some(trace) = &mut self.trace {
                trace.came(now, ReceivedFate::NotOurs);
            }
            return;
        }
        self.count_received(Interface::Ethernet, &packet);
        self.deliver(now, packet, Interface::Ethernet);
        if let Some(trace) = &mut self.trace {
            trace.is_taken();
        }
    }

    /// Whether a train is for a connection that may take it as a whole.
    fn takes_train(&mut self, packet: &Packet) -> bool {
        let Transport::Tcp(header) = &packet.transport else { return false };
        let local = Endpoint::new(packet.ip.dst, header.dst_port);
        let tuple = FourTuple { local, remote: Endpoint::new(packet.ip.src, header.src_port) };
        let Some(&index) = self.connections.get(&tuple) else { return false };
        let is_plain = matches!(&self.slots[index as usize].kind, Kind::Tcp(socket) if socket.filter.is_none());
        self.raw.is_empty() && is_plain && self.connection_at(index).is_some_and(|conn| conn.parent.is_none())
    }

    pub(super) fn deliver(&mut self, now: SimTime, mut packet: Packet, by: Interface) {
        if packet.train_mss > 0 && !self.takes_train(&packet) {
            while let Some(first) = packet.split_first() {
                self.deliver(now, first, by);
            }
        }
        self.counters.packets_in += packet.segments() as u64;
        self.note_arrival(now, &packet);
        self.deliver_one(now, packet, by);
        if let Some(trace) = &mut self.trace {
            trace.came(now, ReceivedFate::Handled);
        }
    }

    fn deliver_one(&mut self, now: SimTime, packet: Packet, by: Interface) {
        let packet = if packet.ip.is_fragment() {
            let family = Family::of(packet.ip.dst) as usize;
            self.counters.fragments[family].received += 1;
            let Some(whole) = self.reassemble(now, packet) else { return };
            self.counters.fragments[family].reassembled += 1;
            whole
        } else {
            packet
        };
        let heard = !self.raw.is_empty() && self.deliver_raw(now, &packet, by);
        if !self.config.owns(packet.ip.dst) && self.config.is_for_many(packet.ip.dst) {
            return self.deliver_to_many(now, packet, by);
        }
        match packet.transport {
            Transport::Tcp(header) => self.deliver_tcp(now, &packet.ip, &header, packet.payload, packet.train_mss),
            Transport::Udp(header) => {
                let from = Endpoint::new(packet.ip.src, header.src_port);
                let to = Endpoint::new(packet.ip.dst, header.dst_port);
                self.deliver_udp(now, packet, from, to, by);
            }
            Transport::Icmp(header) => self.deliver_icmp(now, &packet, header),
            Transport::Icmp6(header) => self.deliver_icmp6(now, &packet, header),
            Transport::Raw { protocol: ipv4::PROTOCOL_TCP | ipv4::PROTOCOL_UDP } => {}
            Transport::Raw { .. } if heard => {}
            Transport::Raw { .. } => self.refuse(&packet, Refusal::Protocol),
        }
    }

    fn deliver_tcp(&mut self, now: SimTime, ip: &IpHeader, header: &TcpHeader, mut payload: Bytes, train_mss: u16) {
        self.counters.segments_in += segments(payload.len(), train_mss);
        let tuple =
            FourTuple { local: Endpoint::new(ip.dst, header.dst_port), remote: Endpoint::new(ip.src, header.src_port) };
        let Some(&index) = self.connections.get(&tuple) else {
            return self.deliver_to_listener(now, ip, tuple, header, &payload, None);
        };
        if let Kind::Tcp(socket) = &self.slots[index as usize].kind
            && let Some(filter) = &socket.filter
        {
            match self.stream_left(&***filter, ip, header, &payload) {
                Some(left) => payload.truncate(left),
                None => return,
            }
        }
        match &mut self.slots[index as usize].kind {
            Kind::Tcp(socket) => {
                let Role::Connection(conn) = &mut socket.role else { return };
                if ip.ttl < conn.settings.least_hops(ip) {
                    return;
                }
                if let Some(parent) = conn.parent {
                    return self.deliver_to_half_open(now, index, parent, tuple, header, payload);
                }
                let len = payload.len();
                let before = conn.rcv.queue.next();
                let reply = conn.on_segment(now, header, payload, train_mss);
                self.note_segment(now, index, before, header, len);
                self.sync(now, index);
                if reply == Reply::Reset {
                    self.send_reset(tuple, header, len);
                }
            }
            Kind::TimeWait(..) => self.deliver_to_time_wait(now, index, (ip, tuple), header, &payload),
            Kind::Udp(_) => {}
        }
    }

    /// Whether a listener does not hear a segment: by its filter, or by IP_MINTTL.
    fn is_unheard(&self, listener: u32, ip: &IpHeader, header: &TcpHeader, payload: &Bytes) -> bool {
        let Kind::Tcp(socket) = &self.slots[listener as usize].kind else { return false };
        let is_dropped = || {
            let filter = socket.filter.as_ref();
            filter.is_some_and(|filter| self.stream_left(&***filter, ip, header, payload).is_none())
        };
        ip.ttl < socket.settings.least_hops(ip) || is_dropped()
    }

    /// What a stream's filter leaves of a segment's payload; `None` if it drops the segment
    /// (tcp_filter).
    fn stream_left(
        &self,
        filter: &dyn PacketFilter,
        ip: &IpHeader,
        header: &TcpHeader,
        payload: &Bytes,
    ) -> Option<usize> {
        let packet = Packet::new(*ip, Transport::Tcp(header.clone()), payload.clone());
        payload_left(filter, &packet, self.arrival(ip.src))
    }

    /// A segment for a connection that no listener has handed out yet.
    fn deliver_to_half_open(
        &mut self,
        now: SimTime,
        index: u32,
        parent: SocketId,
        tuple: FourTuple,
        header: &TcpHeader,
        payload: Bytes,
    ) {
        let completes = header.flags.contains(TcpFlags::ACK) && !header.flags.intersects(TcpFlags::RST | TcpFlags::SYN);
        if completes && self.defers(index, header, &payload) {
            return;
        }
        let Ok(listener) = self.listener(parent) else { return };
        if completes && listener.is_full() {
            // The client believes that it is connected; the SYN-ACK is sent again later (tcp_check_req).
            listener.dropped += 1;
            self.counters.listen_overflows += 1;
            self.counters.listen_drops += 1;
            if self.config.abort_on_overflow {
                if let Some(conn) = self.connection_at(index) {
                    conn.fail(SocketError::ConnectionReset);
                }
                self.sync(now, index);
                self.send_reset(tuple, header, payload.len());
            }
            return;
        }
        let len = payload.len();
        let Some(conn) = self.connection_at(index) else { return };
        let before = conn.rcv.queue.next();
        let reply = conn.on_segment(now, header, payload, 0);
        let joined = conn.state.synchronised();
        self.note_segment(now, index, before, header, len);
        if joined && let Some(conn) = self.connection_at(index) {
            conn.parent = None;
            let id = self.id_of(index);
            if let Ok(listener) = self.listener(parent) {
                listener.settle(id, true);
            }
            self.counters.passive_opens += 1;
            self.post(parent.index, Readiness::READABLE);
        }
        self.sync(now, index);
        if reply == Reply::Reset {
            self.send_reset(tuple, header, len);
        }
    }

    /// Whether a segment that completes a handshake is left out of account, since TCP_DEFER_ACCEPT
    /// waits for a byte (tcp_check_req).
    fn defers(&mut self, index: u32, header: &TcpHeader, payload: &Bytes) -> bool {
        let Some(conn) = self.connection_at(index).filter(|conn| conn.settings.deferred_timeouts > 0) else {
            return false;
        };
        let bare = payload.is_empty() && !header.flags.contains(TcpFlags::FIN);
        let waits = bare && conn.timers.timeouts < conn.settings.deferred_timeouts.into();
        conn.awaits_data |= waits;
        waits
    }

    /// RFC 9293 section 3.10.7.1 and 3.10.7.2. `iss` is the lowest initial number allowed after a TIME_WAIT record.
    fn deliver_to_listener(
        &mut self,
        now: SimTime,
        ip: &IpHeader,
        tuple: FourTuple,
        header: &TcpHeader,
        payload: &Bytes,
        iss: Option<u32>,
    ) {
        let flags = header.flags;
        if flags.contains(TcpFlags::RST) {
            return;
        }
        let mut listener = self.listener_for(&tuple);
        if listener.is_some_and(|index| self.is_unheard(index, ip, header, payload)) {
            return;
        }
        if flags.contains(TcpFlags::ACK) {
            let completes = listener.filter(|_| !flags.contains(TcpFlags::SYN)).map(|index| self.id_of(index));
            if completes.is_some_and(|parent| self.take_cookie(now, tuple, header, payload, parent)) {
                return;
            }
            listener = None;
        }
        if listener.is_some() && !flags.contains(TcpFlags::SYN) {
            // Neither opens nor belongs to anything, and a listener does not answer it (tcp_rcv_state_process).
            return;
        }
        let Some(listener) = listener else {
            return self.send_reset(tuple, header, payload.len());
        };
        self.begin_handshake(now, tuple, header, listener, iss);
    }

    fn begin_handshake(&mut self, now: SimTime, tuple: FourTuple, header: &TcpHeader, listener: u32, iss: Option<u32>) {
        let parent = self.id_of(listener);
        // Who has left a TIME_WAIT record is real.
        let cookie = if iss.is_some() { Some(false) } else { self.wants_cookie(now, parent) };
        let Ok(queue) = self.listener(parent) else { return };
        if cookie.is_none() || queue.is_full() {
            queue.dropped += 1;
            self.counters.listen_overflows += u64::from(cookie.is_some());
            self.counters.listen_drops += 1;
            return;
        }
        if cookie == Some(true) {
            return self.send_cookie(now, tuple, header, parent);
        }
        let Ok(socket) = self.tcp(parent) else { return };
        let settings = socket.settings.clone();
        let mut draw = self.draw();
        draw.iss = iss.unwrap_or(draw.iss);
        let interface = self.interface_of(&tuple);
        let config = self.config.clone();
        let hold = self.share_port(tuple.local, &settings);
        let mut conn = Connection::accept(now, tuple, interface, config, settings, draw, header);
        conn.parent = Some(parent);
        let index = self.insert_connection(conn, tuple.local, hold);
        self.slots[index as usize].unaccepted = true;
        let id = self.id_of(index);
        if let Ok(queue) = self.listener(parent) {
            queue.half_open.push(id);
        }
        self.sync(now, index);
    }

    fn listener_for(&mut self, tuple: &FourTuple) -> Option<u32> {
        self.service_listener(tuple).or_else(|| self.find_listener(tuple))
    }

    /// A program's listener for this connection: a specific address before any, one of a SO_REUSEPORT group by the four-tuple.
    fn find_listener(&self, tuple: &FourTuple) -> Option<u32> {
        let at_port = self.listeners.get(&tuple.local.port)?;
        let addr_of = |index: u32| match &self.slots[index as usize].kind {
            Kind::Tcp(socket) => socket.local.addr,
            _ => Family::V4.unspecified(),
        };
        let hears = |index: &u32| match &self.slots[*index as usize].kind {
            Kind::Tcp(socket) => self.hears_from(&socket.settings, tuple.remote.addr),
            _ => false,
        };
        let matching =
            |wanted: IpAddr| at_port.iter().copied().filter(move |index| addr_of(*index) == wanted).filter(hears);
        let own = [tuple.local.addr, tuple.family().unspecified()].into_iter().find(|addr| matching(*addr).count() > 0);
        if let Some(wanted) = own {
            return matching(wanted).nth(spread(tuple) % matching(wanted).count());
        }
        // What nobody of its own family wants can be for an IPv6 listener that takes both.
        let takes_both =
            |index: &u32| matches!(&self.slots[*index as usize].kind, Kind::Tcp(socket) if !socket.settings.v6_only);
        let both = || matching(Family::V6.unspecified()).filter(takes_both);
        let count = if tuple.family() == Family::V4 { both().count() } else { 0 };
        (count > 0).then(|| both().nth(spread(tuple) % count))?
    }

    fn deliver_to_time_wait(
        &mut self,
        now: SimTime,
        index: u32,
        (ip, tuple): (&IpHeader, FourTuple),
        header: &TcpHeader,
        payload: &Bytes,
    ) {
        let Kind::TimeWait(record, _) = &mut self.slots[index as usize].kind else { return };
        match record.judge(header, payload.len()) {
            Verdict::Ignore => {}
            Verdict::Forget => self.forget_time_wait(index),
            Verdict::Acknowledge => {
                record.until = now + self.config.time_wait;
                let answer = record.acknowledgement(now);
                let (interface, ip) = (record.interface, record.header);
                let packet = Packet::new(ip, Transport::Tcp(answer), Bytes::new());
                self.push_packet(interface, packet, None);
            }
            Verdict::Reopen(iss) => {
                if self.listener_for(&tuple).is_some() {
                    self.forget_time_wait(index);
                    self.deliver_to_listener(now, ip, tuple, header, payload, Some(iss));
                }
            }
        }
    }

    /// RFC 9293 section 3.10.7.1: the RST that answers a segment for nobody.
    pub(super) fn send_reset(&mut self, tuple: FourTuple, header: &TcpHeader, payload_len: usize) {
        if header.flags.contains(TcpFlags::RST) {
            return;
        }
        let length = payload_len as u32
            + u32::from(header.flags.contains(TcpFlags::SYN))
            + u32::from(header.flags.contains(TcpFlags::FIN));
        let (seq, ack, flags) = if header.flags.contains(TcpFlags::ACK) {
            (header.ack, 0, TcpFlags::RST)
        } else {
            (0, header.seq.wrapping_add(length), TcpFlags::RST | TcpFlags::ACK)
        };
        let reset = TcpHeader {
            src_port: tuple.local.port,
            dst_port: tuple.remote.port,
            seq,
            ack,
            flags,
            window: 0,
            options: TcpOptions::default(),
        };
        self.push_reset(tuple, reset);
    }

    pub(super) fn push_reset(&mut self, tuple: FourTuple, reset: TcpHeader) {
        self.counters.resets_sent += 1;
        let ip = IpHeader::new(tuple.local.addr, tuple.remote.addr);
        let packet = Packet::new(ip, Transport::Tcp(reset), Bytes::new());
        self.push_packet(self.interface_of(&tuple), packet, None);
        self.note_refusal();
    }

    pub(super) fn interface_of(&self, tuple: &FourTuple) -> Interface {
        if self.is_local(tuple.remote.addr) { Interface::Loopback } else { Interface::Ethernet }
    }

    pub(super) fn draw(&mut self) -> Draw {
        let (iss, offset, ip_id) = (self.rng.next_u32(), self.rng.next_u32(), self.rng.next_u32() as u16);
        Draw { iss, ts_offset: if self.config.timestamps_from_zero { 0 } else { offset }, ip_id }
    }

    fn deliver_udp(&mut self, now: SimTime, packet: Packet, from: Endpoint, to: Endpoint, by: Interface) {
        if self.service.is_at(to) {
            return self.service.push(datagram(now, packet, from, to, by));
        }
        let Some(index) = self.find_udp(to, from) else {
            self.counters.udp[Family::of(to.addr) as usize].no_port += 1;
            return self.refuse(&packet, Refusal::Port);
        };
        let packet = if self.is_filtered(index) { self.filtered(index, packet, by) } else { Some(packet) };
        let Some(packet) = packet else { return };
        self.hand_over(index, datagram(now, packet, from, to, by));
    }

    /// Whether a datagram socket has a filter.
    pub(super) fn is_filtered(&self, index: u32) -> bool {
        matches!(&self.slots[index as usize].kind, Kind::Udp(socket) if socket.filter.is_some())
    }

    /// What the filter of a datagram socket leaves of a packet; `None` if it drops it.
    pub(super) fn filtered(&mut self, index: u32, mut packet: Packet, by: Interface) -> Option<Packet> {
        let Kind::Udp(socket) = &self.slots[index as usize].kind else { return Some(packet) };
        let Some(filter) = socket.filter.clone() else { return Some(packet) };
        let Some(left) = payload_left(&**filter, &packet, by) else {
            self.note_filtered(index, Family::of(packet.ip.dst));
            return None;
        };
        packet.payload.truncate(left);
        Some(packet)
    }

    /// A filter has dropped a packet of this datagram socket.
    pub(super) fn note_filtered(&mut self, index: u32, over: Family) {
        let Kind::Udp(socket) = &mut self.slots[index as usize].kind else { return };
        socket.dropped += 1;
        self.counters.udp[over as usize].dropped += u64::from(socket.carries == Carries::Udp);
        self.counters.datagram_drops += 1;
    }

    pub(super) fn hold_of(&self, index: u32) -> Hold {
        match &self.slots[index as usize].kind {
            Kind::Tcp(socket) => socket.hold,
            Kind::Udp(socket) => socket.hold,
            Kind::TimeWait(_, hold) => *hold,
        }
    }
}

pub(super) fn datagram(at: SimTime, packet: Packet, from: Endpoint, to: Endpoint, by: Interface) -> Datagram {
    let (number, ttl, tos) = (packet.number, packet.ip.ttl, packet.ip.tos);
    Datagram { from, to, bytes: packet.payload, at, ttl, tos, by, number, pieces: Vec::new(), drops: 0 }
}

/// A number of the peer's, by which listeners of one group share the load.
pub(super) fn spread(tuple: &FourTuple) -> usize {
    let address = match tuple.remote.addr {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.segments().iter().fold(0u32, |sum, word| sum.rotate_left(7) ^ u32::from(*word)),
    };
    ((address ^ u32::from(tuple.remote.port)).wrapping_mul(0x9e37_79b9) >> 16) as usize
}
