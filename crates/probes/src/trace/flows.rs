//! Streams at their two ends: what was written when, which packets carried it, what arrived and waits to be read.

use super::{Head, Piece, Trace, Written};
use crate::choices::{End, ReceivedFate, Side};
use crate::table::tell;
use crate::tables::Stream;
use base::SimTime;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

fn mixed(state: u64, word: u64) -> u64 {
    // The finaliser of SplitMix64, chained.
    let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn mixed_address(state: u64, address: SocketAddr) -> u64 {
    let state = match address.ip() {
        IpAddr::V4(v4) => mixed(state, v4.to_bits().into()),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mixed(mixed(state, (bits >> 64) as u64), bits as u64)
        }
    };
    mixed(state, address.port().into())
}

/// The stream of one direction of a connection, which both its ends know. Never 0.
pub fn stream_of_connection(from: SocketAddr, to: SocketAddr, initial: u32) -> u64 {
    mixed(mixed_address(mixed_address(6, from), to), initial.into()).max(1)
}

/// The stream of all datagrams of a protocol from one endpoint to another. Never 0.
pub fn stream_of_datagrams(protocol: u8, from: SocketAddr, to: SocketAddr) -> u64 {
    mixed_address(mixed_address(protocol.into(), from), to).max(1)
}

/// What is known of a sent train: where it began and which packets it was.
#[derive(Clone, Copy, Debug)]
struct Carrier {
    start: u64,
    number: u64,
    mss: u64,
}

/// The sending end of a connection's stream.
#[derive(Debug)]
pub struct Outflow {
    pub stream: u64,
    /// What both directions have in common on this host.
    pub connection: u64,
    /// The sequence number of its first byte.
    pub base: u64,
    opened: SimTime,
    written: u64,
    acknowledged: u64,
    /// Where writes ended, and when; ascending.
    writes: VecDeque<(u64, SimTime)>,
    /// First transmissions, ascending.
    carriers: VecDeque<Carrier>,
    sent: u64,
    /// The first packets that opened and closed it.
    controls: [u64; 2],
    last_tcp: Option<(SimTime, u64, u64, u64)>,
}

impl Outflow {
    pub fn new(now: SimTime, stream: u64, connection: u64, base: u64) -> Outflow {
        Outflow {
            stream,
            connection,
            base,
            opened: now,
            written: 0,
            acknowledged: 0,
            writes: VecDeque::new(),
            carriers: VecDeque::new(),
            sent: 0,
            controls: [0; 2],
            last_tcp: None,
        }
    }

    /// Where the next written byte goes.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The program has added so many bytes.
    pub fn write(&mut self, now: SimTime, bytes: u64) {
        self.written += bytes;
        match self.writes.back_mut() {
            Some((end, at)) if *at == now => *end = self.written,
            _ => self.writes.push_back((self.written, now)),
        }
    }

    /// Everything before this place has been acknowledged.
    pub fn acknowledge(&mut self, offset: u64) {
        self.acknowledged = self.acknowledged.max(offset.min(self.written));
        while self.writes.front().is_some_and(|(end, _)| *end <= self.acknowledged) {
            self.writes.pop_front();
        }
        while self.carriers.get(1).is_some_and(|next| next.start <= self.acknowledged) {
            self.carriers.pop_front();
        }
    }

    /// The writes that these bytes are of.
    pub fn written_between(&self, start: u64, end: u64) -> Written {
        let first = self.writes.partition_point(|(until, _)| *until <= start);
        let mut writes = Written::new();
        for write in self.writes.iter().skip(first) {
            writes.push(*write);
            if write.0 >= end {
                break;
            }
        }
        writes
    }

    /// Notes that packets from `number` on carry the bytes from `start` on, if they are the first to do so.
    pub fn carry(&mut self, start: u64, payload: u64, number: u64, mss: u64) {
        if payload > 0 && start >= self.sent {
            self.sent = start + payload;
            self.carriers.push_back(Carrier { start, number, mss });
        }
    }

    /// The first packet that carried this byte; 0 if none has.
    pub fn carrier_of(&self, offset: u64) -> u64 {
        if offset >= self.sent {
            return 0;
        }
        let at = self.carriers.partition_point(|carrier| carrier.start <= offset);
        let Some(carrier) = at.checked_sub(1).and_then(|at| self.carriers.get(at)) else { return 0 };
        let distance = offset - carrier.start;
        carrier.number + distance.checked_div(carrier.mss).unwrap_or(0)
    }

    /// A packet without bytes that opens or closes the stream; gives the one that it repeats.
    pub fn control(&mut self, opens: bool, number: u64) -> u64 {
        let first = &mut self.controls[usize::from(!opens)];
        if *first == 0 {
            *first = number;
            return 0;
        }
        *first
    }

    /// Whether the state of the sender is to be noted: it has changed, and the last note is old enough.
    pub fn tcp_changed(&mut self, now: SimTime, cwnd: u64, srtt: u64, in_flight: u64) -> bool {
        const PAUSE_NS: u64 = 10_000_000;
        let is_new = match self.last_tcp {
            Some((at, ..)) if now.saturating_since(at).as_nanos() < PAUSE_NS => false,
            Some((_, a, b, c)) => (a, b, c) != (cwnd, srtt, in_flight),
            None => true,
        };
        if is_new {
            self.last_tcp = Some((now, cwnd, srtt, in_flight));
        }
        is_new
    }
}

/// The receiving end of a connection's stream.
#[derive(Debug)]
pub struct Inflow {
    pub stream: u64,
    pub connection: u64,
    /// The sequence number of its first byte.
    pub base: u64,
    opened: SimTime,
    read: u64,
    /// In order up to here.
    whole: u64,
    /// By the end of each.
    early: BTreeMap<u64, Piece>,
    ready: VecDeque<Piece>,
}

impl Inflow {
    pub fn new(now: SimTime, stream: u64, connection: u64, base: u64) -> Inflow {
        Inflow {
            stream,
            connection,
            base,
            opened: now,
            read: 0,
            whole: 0,
            early: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// The packet whose bytes are read next, and their number.
    pub fn first_ready(&self) -> Option<(u64, u64)> {
        self.ready.front().map(|piece| (piece.arrival.number, piece.payload))
    }
}

impl Trace {
    /// Bytes of a stream have come, in order or before their turn; `next` is the first byte that is missing now.
    pub fn stream_came(&mut self, now: SimTime, inflow: &mut Inflow, offset: u64, payload: u64, next: u64) {
        let Some(arrival) = self.arrival.take() else { return };
        let piece = arrival.piece(offset, payload);
        let end = piece.end();
        if end <= next && inflow.early.is_empty() {
            let queued = inflow.whole.saturating_sub(inflow.read);
            inflow.ready.push_back(Piece { whole: now, queued, ..piece });
        } else {
            // A copy of what came early, too, is a duplicate; the first is the one that is read.
            match inflow.early.entry(end) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(piece)),
                std::collections::btree_map::Entry::Occupied(_) => {
                    self.arrival = Some(arrival);
                    self.came(now, ReceivedFate::Duplicate);
                }
            }
            while let Some(first) = inflow.early.first_entry()
                && *first.key() <= next
            {
                let queued = inflow.whole.max(first.get().offset).saturating_sub(inflow.read);
                inflow.ready.push_back(Piece { whole: now, queued, ..first.remove() });
            }
        }
        inflow.whole = inflow.whole.max(next);
    }

    /// What came early was thrown away from this byte on.
    pub fn stream_pruned(&mut self, now: SimTime, inflow: &mut Inflow, from: u64) {
        let gone = inflow.early.split_off(&(from + 1));
        for piece in gone.into_values() {
            self.push_piece(now, &piece, ReceivedFate::NoRoom, 0);
        }
    }

    /// A program has taken the next bytes.
    pub fn stream_read(&mut self, now: SimTime, inflow: &mut Inflow, bytes: u64, head: Head) {
        let to = inflow.read + bytes;
        let read = self.note_read(now, (inflow.stream, inflow.connection), inflow.read, bytes, head);
        inflow.read = to;
        while let Some(first) = inflow.ready.front_mut() {
            if first.end() <= to {
                if let Some(piece) = inflow.ready.pop_front() {
                    self.push_piece(now, &piece, ReceivedFate::Read, read);
                }
            } else {
                if let Some(part) = first.split_to(to) {
                    self.push_piece(now, &part, ReceivedFate::Read, read);
                }
                break;
            }
        }
    }

    /// The sending end of a connection is no more, or the run is over.
    pub fn writer_ends(&mut self, now: SimTime, local: SocketAddr, remote: SocketAddr, flow: &Outflow, end: End) {
        let left = flow.written - flow.acknowledged;
        self.push_stream(Side::Writer, now, (local, remote), flow.stream, flow.opened, flow.written, left, end);
    }

    /// The receiving end of a connection is no more, or the run is over: nobody reads what waits.
    pub fn reader_ends(&mut self, now: SimTime, local: SocketAddr, remote: SocketAddr, flow: Inflow, end: End) {
        let fate = if end == End::Open { ReceivedFate::Waiting } else { ReceivedFate::Unread };
        for piece in flow.ready.iter().chain(flow.early.values()) {
            let piece = if piece.whole == SimTime::MAX { Piece { whole: now, ..*piece } } else { *piece };
            self.push_piece(now, &piece, fate, 0);
        }
        let left = flow.whole.saturating_sub(flow.read);
        self.push_stream(Side::Reader, now, (local, remote), flow.stream, flow.opened, flow.read, left, end);
    }

    fn push_stream(
        &mut self,
        side: Side,
        now: SimTime,
        ends: (SocketAddr, SocketAddr),
        stream: u64,
        opened: SimTime,
        bytes: u64,
        left_bytes: u64,
        end: End,
    ) {
        if !self.keeps_packets() {
            return;
        }
        let (local, remote) = ends;
        tell(
            &mut self.rows.streams,
            Stream {
                stream,
                side: side.into(),
                host: self.host,
                protocol: 6,
                local_address: local.ip(),
                local_port: local.port().into(),
                remote_address: remote.ip(),
                remote_port: remote.port().into(),
                opened_ns: opened.as_nanos(),
                closed_ns: now.as_nanos(),
                bytes,
                left_bytes,
                end: end.into(),
            },
        );
    }
}
