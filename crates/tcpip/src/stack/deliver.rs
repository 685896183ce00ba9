//! Packets in: from `receive` to the socket that they are for.

use super::{Kind, Role, Stack};
use crate::addr::{Endpoint, FourTuple, Interface};
use crate::error::SocketError;
use crate::packet::{Packet, Transport};
use crate::ports::Hold;
use crate::socket::{Readiness, SocketId};
use crate::tcp::connection::{Connection, Draw, Reply, State};
use crate::tcp::time_wait::Verdict;
use crate::udp::Datagram;
use crate::wire::icmp::{self, IcmpHeader};
use crate::wire::ipv4::{self, Ipv4Header};
use crate::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use crate::wire::{be16, be32};
use base::SimTime;
use bytes::Bytes;
use std::net::Ipv4Addr;

impl Stack {
    /// A packet has arrived on `eth0`.
    pub fn receive(&mut self, now: SimTime, packet: Packet) {
        if packet.ip.dst != self.config.address {
            self.counters.not_ours += 1;
            return;
        }
        self.deliver(now, packet);
    }

    pub(super) fn deliver(&mut self, now: SimTime, packet: Packet) {
        self.counters.packets_in += 1;
        let packet = if packet.ip.is_fragment() {
            match self.reassembly.push(now, packet) {
                Some(whole) => whole,
                None => return,
            }
        } else {
            packet
        };
        match packet.transport {
            Transport::Tcp(header) => self.deliver_tcp(now, &packet.ip, &header, packet.payload),
            Transport::Udp(header) => {
                let from = Endpoint::new(packet.ip.src, header.src_port);
                let to = Endpoint::new(packet.ip.dst, header.dst_port);
                self.deliver_udp(packet, from, to);
            }
            Transport::Icmp(header) => self.deliver_icmp(now, &packet, header),
            Transport::Raw { .. } => self.send_unreachable(&packet, icmp::CODE_PROTOCOL),
        }
    }

    fn deliver_tcp(&mut self, now: SimTime, ip: &Ipv4Header, header: &TcpHeader, payload: Bytes) {
        let tuple =
            FourTuple { local: Endpoint::new(ip.dst, header.dst_port), remote: Endpoint::new(ip.src, header.src_port) };
        let Some(&index) = self.connections.get(&tuple) else {
            return self.deliver_to_listener(now, tuple, header, payload.len(), None);
        };
        match &mut self.slots[index as usize].kind {
            Kind::Tcp(socket) => {
                let Role::Connection(conn) = &mut socket.role else { return };
                if let Some(parent) = conn.parent {
                    return self.deliver_to_half_open(now, index, parent, tuple, header, payload);
                }
                let len = payload.len();
                let reply = conn.on_segment(now, header, payload);
                self.sync(now, index);
                if reply == Reply::Reset {
                    self.send_reset(tuple, header, len);
                }
            }
            Kind::TimeWait(..) => self.deliver_to_time_wait(now, index, tuple, header, payload.len()),
            Kind::Udp(_) => {}
        }
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
        let Ok(listener) = self.listener(parent) else { return };
        if completes && listener.is_full() {
            // The client believes that it is connected; the SYN-ACK is sent again later (tcp_check_req).
            listener.dropped += 1;
            self.counters.listen_drops += 1;
            return;
        }
        let len = payload.len();
        let Some(conn) = self.connection_at(index) else { return };
        let reply = conn.on_segment(now, header, payload);
        if conn.state.synchronised() {
            conn.parent = None;
            let id = self.id_of(index);
            if let Ok(listener) = self.listener(parent) {
                listener.settle(id, true);
            }
            self.post(parent.index, Readiness::READABLE);
        }
        self.sync(now, index);
        if reply == Reply::Reset {
            self.send_reset(tuple, header, len);
        }
    }

    /// RFC 9293 section 3.10.7.1 and 3.10.7.2. `iss` is the lowest initial number allowed after a TIME_WAIT record.
    fn deliver_to_listener(
        &mut self,
        now: SimTime,
        tuple: FourTuple,
        header: &TcpHeader,
        payload_len: usize,
        iss: Option<u32>,
    ) {
        let flags = header.flags;
        if flags.contains(TcpFlags::RST) {
            return;
        }
        let listener = if flags.contains(TcpFlags::ACK) { None } else { self.listener_for(&tuple) };
        let Some(listener) = listener.filter(|_| flags.contains(TcpFlags::SYN)) else {
            return self.send_reset(tuple, header, payload_len);
        };
        self.begin_handshake(now, tuple, header, listener, iss);
    }

    fn begin_handshake(&mut self, now: SimTime, tuple: FourTuple, header: &TcpHeader, listener: u32, iss: Option<u32>) {
        let parent = self.id_of(listener);
        let Ok(queue) = self.listener(parent) else { return };
        if queue.refuses_syn() {
            queue.dropped += 1;
            self.counters.listen_drops += 1;
            return;
        }
        let Ok(socket) = self.tcp(parent) else { return };
        let settings = socket.settings.clone();
        let mut draw = self.draw();
        draw.iss = iss.unwrap_or(draw.iss);
        let interface = self.interface_of(&tuple);
        let config = self.config.clone();
        let hold = self.share_port(tuple.local, settings.reuse_address);
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
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let count = |wanted: Ipv4Addr| at_port.iter().filter(|index| addr_of(**index) == wanted).count();
        let wanted = [tuple.local.addr, Ipv4Addr::UNSPECIFIED].into_iter().find(|addr| count(*addr) > 0)?;
        let spread = (tuple.remote.addr.to_bits() ^ u32::from(tuple.remote.port)).wrapping_mul(0x9e37_79b9) >> 16;
        let nth = spread as usize % count(wanted);
        at_port.iter().copied().filter(|index| addr_of(*index) == wanted).nth(nth)
    }

    fn deliver_to_time_wait(
        &mut self,
        now: SimTime,
        index: u32,
        tuple: FourTuple,
        header: &TcpHeader,
        payload_len: usize,
    ) {
        let Kind::TimeWait(record, _) = &mut self.slots[index as usize].kind else { return };
        match record.judge(header, payload_len) {
            Verdict::Ignore => {}
            Verdict::Forget => self.forget_time_wait(index),
            Verdict::Acknowledge => {
                record.until = now + self.config.time_wait;
                let answer = record.acknowledgement(now);
                let (ttl, tos) = record.ip_fields();
                let interface = record.interface;
                let ip = Ipv4Header { ttl, tos, ..Ipv4Header::new(tuple.local.addr, tuple.remote.addr) };
                let packet = Packet { ip, transport: Transport::Tcp(answer), payload: Bytes::new() };
                self.push_packet(interface, packet, None);
            }
            Verdict::Reopen(iss) => {
                if self.listener_for(&tuple).is_some() {
                    self.forget_time_wait(index);
                    self.deliver_to_listener(now, tuple, header, payload_len, Some(iss));
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
        let ip = Ipv4Header::new(tuple.local.addr, tuple.remote.addr);
        let packet = Packet { ip, transport: Transport::Tcp(reset), payload: Bytes::new() };
        self.push_packet(self.interface_of(&tuple), packet, None);
    }

    pub(super) fn interface_of(&self, tuple: &FourTuple) -> Interface {
        if self.is_local(tuple.remote.addr) { Interface::Loopback } else { Interface::Ethernet }
    }

    pub(super) fn draw(&mut self) -> Draw {
        Draw { iss: self.rng.next_u32(), ts_offset: self.rng.next_u32(), ip_id: self.rng.next_u32() as u16 }
    }

    fn deliver_udp(&mut self, packet: Packet, from: Endpoint, to: Endpoint) {
        if self.service.is_at(to) {
            return self.service.push(Datagram { from, to, bytes: packet.payload });
        }
        let mut best: Option<(u32, u32)> = None;
        for index in self.udp_ports.bound(to.port, to.addr) {
            if let Kind::Udp(socket) = &self.slots[index as usize].kind
                && let Some(score) = socket.score(to, from)
                && best.is_none_or(|(_, most)| score >= most)
            {
                best = Some((index, score));
            }
        }
        let Some((index, _)) = best else {
            return self.send_unreachable(&packet, icmp::CODE_PORT);
        };
        if let Kind::Udp(socket) = &mut self.slots[index as usize].kind {
            if socket.deliver(Datagram { from, to, bytes: packet.payload }) {
                self.post(index, Readiness::READABLE);
            } else {
                self.counters.datagram_drops += 1;
            }
        }
    }

    /// RFC 1122 section 3.2.2.1: never about ICMP errors or later fragments; as much of the packet as fits in 576 bytes.
    fn send_unreachable(&mut self, packet: &Packet, code: u8) {
        if matches!(packet.transport, Transport::Icmp(_)) {
            return;
        }
        let mut quoted = Vec::with_capacity(packet.wire_len());
        packet.emit(&mut quoted);
        quoted.truncate(576 - ipv4::HEADER_LEN - icmp::HEADER_LEN);
        let header = IcmpHeader { kind: icmp::UNREACHABLE, code, rest: 0 };
        // Linux marks ICMP errors with precedence "internetwork control".
        let ip = Ipv4Header { tos: 0xc0, dont_fragment: false, ..Ipv4Header::new(packet.ip.dst, packet.ip.src) };
        let answer = Packet { ip, transport: Transport::Icmp(header), payload: Bytes::from(quoted) };
        let local = self.is_local(packet.ip.src);
        self.push_packet(if local { Interface::Loopback } else { Interface::Ethernet }, answer, None);
    }

    fn deliver_icmp(&mut self, now: SimTime, packet: &Packet, header: IcmpHeader) {
        match header.kind {
            icmp::ECHO_REQUEST => {
                let reply = IcmpHeader { kind: icmp::ECHO_REPLY, ..header };
                let ip = Ipv4Header { dont_fragment: false, ..Ipv4Header::new(packet.ip.dst, packet.ip.src) };
                let answer = Packet { ip, transport: Transport::Icmp(reply), payload: packet.payload.clone() };
                let local = self.is_local(packet.ip.src);
                self.push_packet(if local { Interface::Loopback } else { Interface::Ethernet }, answer, None);
            }
            icmp::UNREACHABLE => {
                let error = match header.code {
                    icmp::CODE_PORT => SocketError::ConnectionRefused,
                    icmp::CODE_NET => SocketError::NetworkUnreachable,
                    icmp::CODE_FRAGMENTATION_NEEDED => SocketError::MessageTooLong,
                    icmp::CODE_PROTOCOL => SocketError::NoSuchOption,
                    _ => SocketError::HostUnreachable,
                };
                self.report_unreachable(now, &packet.payload, error);
            }
            _ => {}
        }
    }

    /// Finds the socket that sent the quoted packet and gives it the error (udp_err, tcp_v4_err).
    fn report_unreachable(&mut self, now: SimTime, quoted: &[u8], error: SocketError) {
        if quoted.len() < ipv4::HEADER_LEN + 8 || quoted[0] != 0x45 {
            return;
        }
        let local = Endpoint::new(Ipv4Addr::from(be32(quoted, 12)), be16(quoted, 20));
        let remote = Endpoint::new(Ipv4Addr::from(be32(quoted, 16)), be16(quoted, 22));
        match quoted[9] {
            ipv4::PROTOCOL_UDP => {
                let found = self.udp_ports.bound(local.port, local.addr).find(|index| {
                    matches!(&self.slots[*index as usize].kind, Kind::Udp(socket) if socket.peer == Some(remote))
                });
                if let Some(index) = found
                    && let Kind::Udp(socket) = &mut self.slots[index as usize].kind
                {
                    socket.error = Some(error);
                    self.post(index, Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE);
                }
            }
            ipv4::PROTOCOL_TCP => {
                let Some(&index) = self.connections.get(&FourTuple { local, remote }) else { return };
                // Once synchronised the error is soft: retransmission goes on (RFC 5461).
                if let Some(conn) = self.connection_at(index)
                    && matches!(conn.state, State::SynSent | State::SynReceived)
                {
                    conn.fail(error);
                    self.sync(now, index);
                }
            }
            _ => {}
        }
    }

    pub(super) fn hold_of(&self, index: u32) -> Hold {
        match &self.slots[index as usize].kind {
            Kind::Tcp(socket) => socket.hold,
            Kind::Udp(socket) => socket.hold,
            Kind::TimeWait(_, hold) => *hold,
        }
    }
}
