//! Numbers of packets, and what the stack tells the record of the run (`probes`). Numbers are given whether anything is recorded or not,
//! so that they are the same; nothing here changes what the stack does.

use super::{Kind, Role, Stack};
use crate::addr::{Family, Interface};
use crate::fragment::Expired;
use crate::packet::{Packet, Transport};
use crate::socket::SocketId;
use crate::tcp::connection::{Connection, State, extend};
use crate::udp::{Carries, Datagram};
use crate::wire::ipv4::PROTOCOL_TCP;
use crate::wire::tcp::{TcpFlags, TcpHeader};
use base::{HostId, SimTime};
use probes::Trace;
use probes::choices::{End, Layer, ReceivedFate};
use probes::tables::Tcp;
use probes::trace::{
    Begun, Head, Inflow, Made, Outflow, Written, first_number, stream_of_connection, stream_of_datagrams,
};
use std::net::SocketAddr;

fn ends_of(packet: &Packet) -> (SocketAddr, SocketAddr) {
    let (from, to) = match &packet.transport {
        Transport::Tcp(tcp) => (tcp.src_port, tcp.dst_port),
        Transport::Udp(udp) => (udp.src_port, udp.dst_port),
        _ => (0, 0),
    };
    (SocketAddr::new(packet.src(), from), SocketAddr::new(packet.dst(), to))
}

/// The stream that a packet which no connection sends belongs to; 0 of TCP's, which belong to none that is known.
fn stream_of(packet: &Packet) -> u64 {
    let (from, to) = ends_of(packet);
    match packet.transport.protocol() {
        PROTOCOL_TCP => 0,
        protocol => stream_of_datagrams(protocol, from, to),
    }
}

/// What datagrams between two endpoints have in common, whichever way they go.
fn exchange(protocol: u8, from: SocketAddr, to: SocketAddr) -> u64 {
    stream_of_datagrams(protocol, from.min(to), from.max(to))
}

fn exchange_of(packet: &Packet) -> u64 {
    let (from, to) = ends_of(packet);
    exchange(packet.transport.protocol(), from, to)
}

/// What is recorded of a connection's two directions.
#[derive(Debug, Default)]
pub(super) struct Flows {
    outflow: Option<Outflow>,
    inflow: Option<Inflow>,
}

impl Flows {
    fn outflow(&mut self, now: SimTime, conn: &Connection) -> &mut Outflow {
        let iss = conn.snd.iss;
        let new = || {
            let (local, remote) = ends(conn);
            let stream = stream_of_connection(local, remote, iss as u32);
            Outflow::new(now, stream, stream, iss + 1)
        };
        self.outflow.get_or_insert_with(new)
    }

    fn inflow(&mut self, now: SimTime, conn: &Connection) -> &mut Inflow {
        let irs = conn.rcv.irs;
        let new = || {
            let (local, remote) = ends(conn);
            let connection = stream_of_connection(local, remote, conn.snd.iss as u32);
            Inflow::new(now, stream_of_connection(remote, local, irs as u32), connection, irs + 1)
        };
        self.inflow.get_or_insert_with(new)
    }
}

/// This end of a connection and the other.
fn ends(conn: &Connection) -> (SocketAddr, SocketAddr) {
    let (local, remote) = (conn.tuple.local, conn.tuple.remote);
    (SocketAddr::new(local.addr, local.port), SocketAddr::new(remote.addr, remote.port))
}

impl Stack {
    /// The stack is that of this host: its packets have numbers of their own.
    pub fn set_host(&mut self, host: HostId) {
        self.next_number = first_number(host);
    }

    /// From now on the stack tells what happens to packets and bytes.
    pub fn record(&mut self, trace: Trace) {
        self.trace = probes::ENABLED.then(|| Box::new(trace));
    }

    /// What was told so far, if anything is.
    #[inline]
    pub fn trace(&mut self) -> Option<&mut Trace> {
        self.trace.as_deref_mut()
    }

    /// What is to be told happens at this moment.
    #[inline]
    pub fn set_trace_time(&mut self, now: SimTime) {
        if let Some(trace) = &mut self.trace {
            trace.set_now(now);
        }
    }

    fn next_numbers(&mut self, count: u64) -> u64 {
        if !probes::ENABLED {
            return 0;
        }
        let number = self.next_number;
        self.next_number += count;
        number
    }

    /// The packet that has the next number is about to be made; Some if that is measured.
    #[inline]
    pub(super) fn begin_making(&self) -> Option<Begun> {
        self.trace.as_ref()?.begin_work(self.next_number)
    }

    #[inline]
    pub(super) fn end_work(&mut self, work: Option<Begun>, layer: Layer, packets: u64) {
        if let Some(trace) = &mut self.trace {
            trace.end_work(work, layer, packets);
        }
    }

    /// A program is about to read from a connection; Some if the packet whose bytes are first is measured, with the number of those.
    #[inline]
    pub(super) fn begin_reading(&self, index: u32) -> Option<(Begun, u64)> {
        let trace = self.trace.as_ref()?;
        let (number, bytes) = self.flows.get(index as usize)?.as_ref()?.inflow.as_ref()?.first_ready()?;
        trace.begin_work(number).map(|work| (work, bytes))
    }

    /// As `begin_reading`, of a datagram.
    #[inline]
    pub(super) fn begin_reading_datagram(&mut self, id: SocketId) -> Option<Begun> {
        self.trace.as_ref()?;
        let number = self.udp(id).ok()?.queue.front()?.number;
        self.trace.as_ref()?.begin_work(number)
    }

    /// It has read so many bytes.
    #[inline]
    pub(super) fn end_reading(&mut self, work: Option<(Begun, u64)>, read: usize) {
        if let Some((work, bytes)) = work {
            self.end_work(Some(work), Layer::ReceiveQueue, (read as u64).div_ceil(bytes.max(1)));
        }
    }

    /// Gives a packet that no connection has made its number.
    #[inline]
    pub(super) fn number(&mut self, interface: Interface, packet: &mut Packet) {
        if packet.ip.is_fragment() && !self.fragmenting {
            // The number before that of a first fragment is the whole datagram's, which nobody here has seen.
            self.next_numbers(1);
        }
        packet.number = self.next_numbers(packet.segments() as u64);
        if self.trace.is_some() {
            self.note_made(interface, packet);
        }
    }

    fn note_made(&mut self, interface: Interface, packet: &Packet) {
        let is_copy = self.copying;
        let Some(trace) = &mut self.trace else { return };
        let now = trace.now();
        let (parent, stream) = trace.parent().unwrap_or_else(|| (0, stream_of(packet)));
        let made = Made {
            number: packet.number,
            parent,
            quotes: trace.arriving(),
            stream,
            offset: if parent == 0 && stream != 0 { packet.number } else { parent },
            flags: packet.tcp().map_or(0, |tcp| tcp.flags.bits()),
            ..made_of(packet)
        };
        if parent == 0 && stream != 0 && made.quotes == 0 && !is_copy {
            trace.note_write(now, (stream, exchange_of(packet)), made.offset, made.payload, &packet.payload);
        }
        match interface {
            Interface::Loopback => trace.looped(now, made, Written::new(), 0),
            Interface::Ethernet => trace.made(now, made, Written::new(), 0),
        }
    }

    /// A packet is about to be cut into fragments.
    pub(super) fn begin_fragments(&mut self, packet: &Packet) {
        let number = self.next_numbers(1);
        self.fragmenting = true;
        let Some(trace) = &mut self.trace else { return };
        let (now, stream, quotes) = (trace.now(), stream_of(packet), trace.arriving());
        let made = Made { number, quotes, stream, offset: number, ..made_of(packet) };
        if quotes == 0 {
            trace.note_write(now, (stream, exchange_of(packet)), number, made.payload, &packet.payload);
        }
        trace.fragmented(now, made);
        trace.set_parent(Some((number, stream)));
    }

    pub(super) fn end_fragments(&mut self) {
        self.fragmenting = false;
        if let Some(trace) = &mut self.trace {
            trace.set_parent(None);
        }
    }

    /// Gives what a connection has made its numbers.
    #[inline]
    pub(super) fn number_segments(&mut self, now: SimTime, index: u32, packet: &mut Packet) {
        packet.number = self.next_numbers(packet.segments() as u64);
        if self.trace.is_some() {
            self.note_segments(now, index, packet);
        }
    }

    fn note_segments(&mut self, now: SimTime, index: u32, packet: &Packet) {
        let Some(mut trace) = self.trace.take() else { return };
        let mut flows = self.take_flows(index);
        if let (Some(conn), Some(header)) = (self.connection_at(index), packet.tcp()) {
            let outflow = flows.outflow(now, conn);
            let made = Made {
                number: packet.number,
                stream: outflow.stream,
                offset: extend(conn.snd.nxt, header.seq).saturating_sub(outflow.base),
                flags: header.flags.bits(),
                ..made_of(packet)
            };
            let control = header.flags & (TcpFlags::SYN | TcpFlags::FIN);
            let repeats = if made.payload == 0 && !control.is_empty() {
                outflow.control(control.contains(TcpFlags::SYN), made.number)
            } else {
                0
            };
            let (start, end) = (made.offset, made.offset + made.payload);
            let (number, payload, mss) = (made.number, made.payload, made.mss);
            let copy_of = if payload == 0 { repeats } else { outflow.carrier_of(start) };
            let written = if payload == 0 { Written::new() } else { outflow.written_between(start, end) };
            let mut tell = |made, copy_of| match conn.interface {
                Interface::Loopback => trace.looped(now, made, written.clone(), copy_of),
                Interface::Ethernet => trace.made(now, made, written.clone(), copy_of),
            };
            if copy_of != 0 && mss != 0 {
                // Each of them has an original of its own.
                made.each().for_each(|one| {
                    let copy_of = outflow.carrier_of(one.offset);
                    tell(one, copy_of);
                });
            } else {
                tell(made, copy_of);
            }
            outflow.carry(start, payload, number, mss);
        }
        self.flows[index as usize] = Some(flows);
        self.trace = Some(trace);
    }

    /// What is recorded of the connection in this slot; to be put back.
    fn take_flows(&mut self, index: u32) -> Box<Flows> {
        if self.flows.len() <= index as usize {
            self.flows.resize_with(index as usize + 1, || None);
        }
        self.flows[index as usize].take().unwrap_or_default()
    }

    /// A packet has come, and what becomes of it follows.
    #[inline]
    pub(super) fn note_arrival(&mut self, now: SimTime, packet: &Packet) {
        if let Some(trace) = &mut self.trace {
            let mss = if packet.segments() > 1 { packet.train_mss.into() } else { 0 };
            trace.arrives(now, packet.number, packet.segments() as u64, mss, packet.wire_len() as u64);
        }
    }

    /// Takes a fragment; gives the whole packet once it is complete.
    pub(super) fn reassemble(&mut self, now: SimTime, packet: Packet) -> Option<Packet> {
        let piece = self.trace.as_mut().and_then(|trace| trace.take_fragment());
        let whole = self.reassembly.push(now, packet, piece);
        let expired = self.reassembly.take_expired();
        if let Some(trace) = &mut self.trace {
            expired.iter().for_each(|Expired(pieces)| trace.incomplete(now, pieces));
            if let Some((whole, pieces)) = whole {
                trace.assembled(now, whole.number, pieces);
                return Some(whole);
            }
            return None;
        }
        whole.map(|(whole, _)| whole)
    }

    /// The packet that has come is for nobody.
    pub(super) fn note_refusal(&mut self) {
        if let Some(trace) = &mut self.trace {
            let now = trace.now();
            trace.came(now, ReceivedFate::Nobody);
        }
    }

    /// A connection that expected the byte of this number has been given a segment.
    #[inline]
    pub(super) fn note_segment(&mut self, now: SimTime, index: u32, expected: u64, header: &TcpHeader, len: usize) {
        if self.trace.is_some() {
            self.note_taken(now, index, extend(expected, header.seq), expected, len as u64);
        }
    }

    fn note_taken(&mut self, now: SimTime, index: u32, seq: u64, expected: u64, len: u64) {
        let Some(mut trace) = self.trace.take() else { return };
        let mut flows = self.take_flows(index);
        if let Some(conn) = self.connection_at(index) {
            if let Some(outflow) = &mut flows.outflow {
                if trace.keeps_all() {
                    note_sender(&mut trace, now, conn, outflow);
                }
                outflow.acknowledge(conn.snd.una.saturating_sub(outflow.base));
            }
            let (end, next) = (seq + len, conn.rcv.queue.next());
            if len == 0 || conn.state == State::Closed {
                // Nothing to be kept, or nobody to keep it.
            } else if end <= expected || (end > next && conn.rcv.dsack == Some((seq, end))) {
                trace.came(now, ReceivedFate::Duplicate);
            } else if end > next && !conn.rcv.queue.holds(end - 1) {
                trace.came(now, ReceivedFate::NoRoom);
            } else {
                let next = next - u64::from(conn.rcv.fin_received);
                let held = next + conn.rcv.queue.early_span();
                let inflow = flows.inflow(now, conn);
                let base = inflow.base;
                trace.stream_came(now, inflow, seq.saturating_sub(base), len, next - base);
                trace.stream_pruned(now, inflow, held - base);
            }
        }
        self.flows[index as usize] = Some(flows);
        self.trace = Some(trace);
    }

    /// A program has written to a connection.
    pub(super) fn note_write(&mut self, now: SimTime, index: u32, bytes: &[u8]) {
        let Some(mut trace) = self.trace.take() else { return };
        let mut flows = self.take_flows(index);
        if let Some(conn) = self.connection_at(index) {
            let outflow = flows.outflow(now, conn);
            trace.note_write(now, (outflow.stream, outflow.connection), outflow.written(), bytes.len() as u64, bytes);
            outflow.write(now, bytes.len() as u64);
        }
        self.flows[index as usize] = Some(flows);
        self.trace = Some(trace);
    }

    /// Where the first bytes of a read are kept, if they are wanted.
    pub(super) fn head_of_read(&self, peek: bool) -> Option<Head> {
        self.trace.as_ref().filter(|trace| trace.keeps_all() && !peek).map(|_| Head::default())
    }

    /// A program has read from a connection.
    pub(super) fn note_read(&mut self, now: SimTime, index: u32, bytes: usize, head: Option<Head>) {
        let Some(trace) = &mut self.trace else { return };
        if let Some(inflow) = self.flows.get_mut(index as usize).and_then(|flows| flows.as_mut()?.inflow.as_mut()) {
            trace.stream_read(now, inflow, bytes as u64, head.unwrap_or_default());
        }
    }

    /// A program has read a datagram.
    pub(super) fn note_datagram_read(&mut self, carries: Carries, datagram: Option<Datagram>) {
        if let (Some(trace), Some(datagram)) = (&mut self.trace, datagram) {
            let now = trace.now();
            note_datagram_end(trace, now, carries, &datagram, ReceivedFate::Read);
        }
    }

    /// A connection is over; what it has received can still be read.
    pub(super) fn note_end(&mut self, now: SimTime, index: u32) {
        if self.trace.is_none() {
            return;
        }
        let mut flows = self.take_flows(index);
        let outflow = flows.outflow.take();
        self.flows[index as usize] = Some(flows);
        if let (Some(mut outflow), Some(conn)) = (outflow, self.connection_at(index)) {
            outflow.acknowledge(conn.snd.una.saturating_sub(outflow.base));
            let end = if conn.fin_acknowledged() { End::Closed } else { End::Broken };
            let (local, remote) = ends(conn);
            if let Some(trace) = &mut self.trace {
                trace.writer_ends(now, local, remote, &outflow, end);
            }
        }
    }

    /// A socket is no more, or what was its connection.
    pub(super) fn note_removal(&mut self, index: u32) {
        let Some(trace) = &self.trace else { return };
        let now = trace.now();
        self.note_end(now, index);
        self.note_rest(now, index, false);
    }

    fn note_rest(&mut self, now: SimTime, index: u32, run_is_over: bool) {
        let flows = self.take_flows(index);
        let Some(trace) = &mut self.trace else { return };
        match self.slots.get_mut(index as usize).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => {
                let Role::Connection(conn) = &socket.role else { return };
                let (local, remote) = ends(conn);
                let Flows { outflow, inflow } = *flows;
                let end = match (run_is_over, conn.rcv.fin_received) {
                    (true, _) => End::Open,
                    (false, true) => End::Closed,
                    (false, false) => End::Broken,
                };
                if let Some(outflow) = outflow {
                    trace.writer_ends(now, local, remote, &outflow, end);
                }
                if let Some(inflow) = inflow {
                    trace.reader_ends(now, local, remote, inflow, end);
                }
            }
            Some(Kind::Udp(socket)) => {
                let fate = if run_is_over { ReceivedFate::Waiting } else { ReceivedFate::Unread };
                for datagram in &mut socket.queue {
                    note_datagram_end(trace, now, socket.carries, datagram, fate);
                    datagram.pieces = Vec::new();
                }
            }
            _ => {}
        }
    }

    /// The end of the run: what waits anywhere has its rows.
    pub fn finish_trace(&mut self, now: SimTime) {
        if self.trace.is_none() {
            return;
        }
        let indices: Vec<u32> = self.slots.iter().map(|(index, _)| index as u32).collect();
        for index in indices {
            self.note_rest(now, index, true);
        }
        let left = self.reassembly.take_all_pieces();
        if let Some(trace) = &mut self.trace {
            left.iter().for_each(|Expired(pieces)| trace.incomplete(now, pieces));
            trace.finish(now);
        }
    }
}

/// What every packet says of itself.
fn made_of(packet: &Packet) -> Made {
    let payload = packet.payload.len() as u64;
    let segments = packet.segments() as u64;
    Made {
        payload,
        mss: if segments > 1 { packet.train_mss.into() } else { 0 },
        headers: (packet.wire_len() as u64 - payload) / segments,
        protocol: packet.transport.protocol(),
        ..Made::default()
    }
}

fn note_sender(trace: &mut Trace, now: SimTime, conn: &Connection, outflow: &mut Outflow) {
    let cwnd_bytes = u64::from(conn.cc.cwnd()) * u64::from(conn.snd.mss);
    let (srtt_ns, in_flight_bytes) = (conn.rtt.srtt().as_nanos(), conn.snd.nxt - conn.snd.una);
    if conn.state != State::SynSent && outflow.tcp_changed(now, cwnd_bytes, srtt_ns, in_flight_bytes) {
        let (stream, at_ns) = (outflow.stream, now.as_nanos());
        trace.note_sender(Tcp { stream, at_ns, cwnd_bytes, srtt_ns, in_flight_bytes });
    }
}

fn note_datagram_end(trace: &mut Trace, now: SimTime, carries: Carries, datagram: &Datagram, fate: ReceivedFate) {
    let is_v6 = Family::of(datagram.to.addr) == Family::V6;
    let (protocol, has_ports) = match carries {
        Carries::Udp => (17, true),
        Carries::Echo => (if is_v6 { 58 } else { 1 }, false),
        Carries::Raw(protocol) => (protocol, false),
    };
    let end =
        |endpoint: crate::addr::Endpoint| SocketAddr::new(endpoint.addr, if has_ports { endpoint.port } else { 0 });
    let (from, to) = (end(datagram.from), end(datagram.to));
    let stream = (stream_of_datagrams(protocol, from, to), exchange(protocol, from, to));
    if !datagram.pieces.is_empty() {
        trace.datagram_ends(now, stream, datagram.number, &datagram.bytes, &datagram.pieces, fate);
    }
}
