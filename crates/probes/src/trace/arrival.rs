//! Packets on their receiver's side: from the router before the host to the program that reads them.

use super::{Head, Trace};
use crate::choices::{Layer, ReceivedFate};
use crate::rows::Train;
use crate::table::{Row, tell};
use crate::tables::Received;
use base::SimTime;

/// A packet, or a train, that the stack is taking.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub number: u64,
    pub segments: u64,
    /// The payload of each segment but the last; 0 of a single packet.
    pub mss: u64,
    /// Bytes of all, as IP packets.
    pub bytes: u64,
    /// At the router before the host.
    pub arrived: SimTime,
    /// At the host.
    pub delivered: SimTime,
}

impl Arrival {
    pub(super) fn piece(self, offset: u64, payload: u64) -> Piece {
        Piece { arrival: self, offset, payload, whole: SimTime::MAX, queued: 0 }
    }
}

/// What a packet or a train brought for a socket, and that waits there.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub(super) arrival: Arrival,
    pub(super) offset: u64,
    pub(super) payload: u64,
    /// When nothing before its end was missing any more; the end of time before.
    pub whole: SimTime,
    /// What could be read before it.
    pub queued: u64,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.payload
    }

    /// For what came before it, and then for a program, in nanoseconds.
    fn waited(&self, now: SimTime, fate: ReceivedFate) -> (u64, u64) {
        let reassembly_ns = self.whole.min(now).saturating_since(self.arrival.delivered).as_nanos();
        (reassembly_ns, if waits(fate) { now.saturating_since(self.whole).as_nanos() } else { 0 })
    }

    /// Cuts off the segments that end at or before this place.
    pub(super) fn split_to(&mut self, to: u64) -> Option<Piece> {
        let mss = self.arrival.mss;
        let segments = to.saturating_sub(self.offset).checked_div(mss)?.min(self.arrival.segments - 1);
        if segments == 0 {
            return None;
        }
        let mut first = *self;
        first.payload = segments * mss;
        first.arrival.segments = segments;
        let share = self.arrival.bytes / self.arrival.segments * segments;
        first.arrival.bytes = share;
        self.arrival.bytes -= share;
        self.arrival.number += segments;
        self.arrival.segments -= segments;
        self.offset += first.payload;
        self.payload -= first.payload;
        self.queued = 0;
        Some(first)
    }
}

/// Whether what became so of a packet had it wait for a program.
fn waits(fate: ReceivedFate) -> bool {
    matches!(fate, ReceivedFate::Read | ReceivedFate::Unread | ReceivedFate::Waiting)
}

/// A packet or a train at the router before the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtRouter {
    number: u64,
    segments: u64,
    /// Of one of them, as an IP packet.
    bytes: u64,
    at: SimTime,
}

impl Trace {
    /// A packet or a train has reached the router before the host. Those that it lets pass follow each other as they came.
    pub fn at_router(&mut self, at: SimTime, number: u64, segments: u64, bytes: u64) {
        self.at_router.push_back(AtRouter { number, segments, bytes: bytes / segments.max(1), at });
    }

    /// The host is about to be given these: what came to the router before them was dropped.
    pub fn passed_router(&mut self, now: SimTime, number: u64, segments: u64) {
        while let Some(mut first) = self.at_router.pop_front() {
            let ahead = number.wrapping_sub(first.number);
            if ahead >= first.segments {
                self.left_at_router(now, first, ReceivedFate::Dropped);
                continue;
            }
            let arrived = first.at;
            if ahead > 0 {
                self.left_at_router(now, AtRouter { segments: ahead, ..first }, ReceivedFate::Dropped);
            }
            let done = ahead + segments;
            if done < first.segments {
                first.number += done;
                first.segments -= done;
                self.at_router.push_front(first);
            }
            self.next_arrived = Some(arrived);
            return;
        }
    }

    /// What the router dropped or still has never came down the link, so it has a row and no place among the times on the way.
    fn left_at_router(&mut self, now: SimTime, what: AtRouter, fate: ReceivedFate) {
        let AtRouter { number, segments, bytes, at } = what;
        let arrival = Arrival { number, segments, mss: 0, bytes: bytes * segments, arrived: at, delivered: now };
        self.push_received(now, &Piece { whole: now, ..arrival.piece(0, 0) }, fate, 0);
    }

    /// The end of the run: what is still between the router and the host, by their numbers; the rest was dropped.
    pub fn finish_router(&mut self, now: SimTime, mut is_there: impl FnMut(u64) -> bool) {
        for what in std::mem::take(&mut self.at_router) {
            for number in what.number..what.number + what.segments {
                let fate = if is_there(number) { ReceivedFate::Waiting } else { ReceivedFate::Dropped };
                self.left_at_router(now, AtRouter { number, segments: 1, ..what }, fate);
            }
        }
    }

    /// A packet or a train has come. What the stack does with it follows, and in the end `handled`.
    pub fn arrives(&mut self, now: SimTime, number: u64, segments: u64, mss: u64, bytes: u64) {
        self.now = now;
        self.advance(now);
        let arrived = self.next_arrived.unwrap_or(now);
        self.last_arrival = number;
        self.arrival = Some(Arrival { number, segments, mss, bytes, arrived, delivered: now });
    }

    /// The stack has taken what passed the router.
    pub fn is_taken(&mut self) {
        self.next_arrived = None;
    }

    /// The packet that is being taken has made a datagram whole, together with these fragments, one of which it is.
    pub fn assembled(&mut self, now: SimTime, number: u64, mut fragments: Vec<Piece>) {
        fragments.iter_mut().for_each(|piece| piece.whole = now);
        self.fragments = fragments;
        self.arrival = Some(Arrival { number, segments: 1, mss: 0, bytes: 0, arrived: now, delivered: now });
    }

    /// What was said of a fragment whose datagram never became whole.
    pub fn incomplete(&mut self, now: SimTime, fragments: &[Piece]) {
        fragments.iter().for_each(|piece| self.push_piece(now, piece, ReceivedFate::Incomplete, 0));
    }

    /// The number of the packet that is being taken; 0 if there is none.
    pub fn arriving(&self) -> u64 {
        self.arrival.map_or(0, |arrival| arrival.number)
    }

    /// The number of the packet that has come last.
    pub fn last_arrival(&self) -> u64 {
        self.last_arrival
    }

    /// Takes the packet away, for a socket that keeps it with its datagram.
    pub fn take_datagram(&mut self, now: SimTime, payload: u64, queued: u64) -> Vec<Piece> {
        let Some(arrival) = self.arrival.take() else { return Vec::new() };
        if self.fragments.is_empty() {
            return vec![Piece { whole: now, queued, ..arrival.piece(0, payload) }];
        }
        self.fragments.iter_mut().for_each(|piece| piece.queued = queued);
        std::mem::take(&mut self.fragments)
    }

    /// Takes a fragment away, which waits for others.
    pub fn take_fragment(&mut self) -> Option<Piece> {
        self.arrival.take().map(|arrival| arrival.piece(0, 0))
    }

    /// What became of the packet that is being taken, if nothing was said yet.
    pub fn came(&mut self, now: SimTime, fate: ReceivedFate) {
        for piece in self.take_datagram(now, 0, 0) {
            self.push_piece(now, &piece, fate, 0);
        }
    }

    /// A program has taken a datagram, or nobody ever will.
    pub fn datagram_ends(
        &mut self,
        now: SimTime,
        stream: (u64, u64),
        number: u64,
        bytes: &[u8],
        pieces: &[Piece],
        fate: ReceivedFate,
    ) {
        let is_read = fate == ReceivedFate::Read;
        let read = if is_read {
            let mut head = Head::default();
            head.add(bytes);
            self.note_read(now, stream, number, bytes.len() as u64, head)
        } else {
            0
        };
        for piece in pieces {
            self.push_piece(now, piece, fate, read);
        }
    }

    pub(super) fn push_piece(&mut self, now: SimTime, piece: &Piece, fate: ReceivedFate, read: u64) {
        let Arrival { segments, bytes, arrived, delivered, .. } = piece.arrival;
        self.histograms.add(Layer::Downlink, delivered.saturating_since(arrived).as_nanos(), segments, bytes);
        if waits(fate) {
            let (reassembly_ns, receive_queue_ns) = piece.waited(now, fate);
            self.histograms.add(Layer::Reassembly, reassembly_ns, segments, bytes);
            self.histograms.add(Layer::ReceiveQueue, receive_queue_ns, segments, bytes);
        }
        self.push_received(now, piece, fate, read);
    }

    fn push_received(&mut self, now: SimTime, piece: &Piece, fate: ReceivedFate, read: u64) {
        if !self.keeps_packets() {
            return;
        }
        let Piece { arrival, queued, .. } = *piece;
        let Arrival { number, segments, mss, arrived, delivered, .. } = arrival;
        let downlink_ns = delivered.saturating_since(arrived).as_nanos();
        let (reassembly_ns, receive_queue_ns) = piece.waited(now, fate);
        let first = Received {
            packet: number,
            host: self.host,
            arrived_ns: arrived.as_nanos(),
            downlink_ns,
            reassembly_ns,
            receive_queue_ns,
            receive_queue_bytes: queued,
            read,
            fate: fate.into(),
        };
        if segments == 1 {
            return tell(&mut self.rows.received, first);
        }
        let train = Train { first, segments: segments as u32, mss: mss as u32, last_lacks: 0, last_flags: 0 };
        train.rows().for_each(|row| row.fire());
        self.rows.received_trains.push(train);
    }
}
