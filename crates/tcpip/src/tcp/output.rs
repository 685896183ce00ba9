//! What leaves a connection: `poll` gives one segment, or one train of new data, until there is nothing more that may leave.
//!
//! In order: a tail loss probe, retransmissions, new data, the FIN, probes, a bare acknowledgement.

use super::connection::{Connection, State};
use super::new_data::{Amount, Nagle};
use super::scoreboard::Record;
use crate::wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use base::SimTime;
use bytes::Bytes;

/// What leaves a connection at once: a segment, or a train of them that is cut behind the stack.
#[derive(Debug)]
pub(crate) struct Departure {
    /// Of the whole; PSH and FIN belong to its last segment.
    pub header: TcpHeader,
    pub payload: Bytes,
    /// Payload of each segment but the last; 0 where there is one only.
    pub mss: u16,
    /// It must not go on the line before.
    pub not_before: SimTime,
}

impl Departure {
    fn bare(header: TcpHeader) -> Self {
        Departure { header, payload: Bytes::new(), mss: 0, not_before: SimTime::ZERO }
    }
}

impl Connection {
    /// The next thing to leave. New data obeys `nagle` and `amount`.
    pub fn poll(&mut self, now: SimTime, nagle: Nagle, amount: Amount) -> Option<Departure> {
        let mut departure = match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_handshake(now),
            _ if self.wants_transmit => self.poll_stream(now, nagle, amount),
            _ => self.poll_probes(now),
        };
        match &mut departure {
            Some(departure) => {
                departure.not_before = self.note_departure(now, departure.payload.len());
                self.snd.left_at = now;
                self.counters.segments_out += match departure.mss {
                    0 => 1,
                    mss => departure.payload.len().div_ceil(mss.into()) as u32,
                };
            }
            None => self.wants_transmit = false,
        }
        departure
    }

    fn poll_handshake(&mut self, now: SimTime) -> Option<Departure> {
        if self.snd.nxt == self.snd.iss {
            self.snd.nxt += 1;
            self.board.sent(self.snd.iss, 1, now);
            self.timers.note_progress(now, false);
            return Some(self.syn(now));
        }
        if let Some(number) = self.board.next_lost() {
            self.board.resent(number, now);
            self.timers.since = now;
            self.counters.retransmitted += 1;
            self.counters.syn_retransmitted += 1;
            return Some(self.syn(now));
        }
        if self.acks.now && self.state == State::SynReceived {
            return Some(self.bare_ack(now, self.snd.nxt));
        }
        self.acks.now = false;
        None
    }

    fn syn(&mut self, now: SimTime) -> Departure {
        // Also of one that was closed meanwhile.
        let answer = self.state != State::SynSent;
        let header = TcpHeader {
            src_port: self.tuple.local.port,
            dst_port: self.tuple.remote.port,
            seq: self.snd.iss as u32,
            ack: if answer { self.rcv.queue.next() as u32 } else { 0 },
            flags: if answer { TcpFlags::SYN | TcpFlags::ACK } else { TcpFlags::SYN },
            window: self.rcv.window.min(65_535) as u16,
            options: self.syn_options(now),
        };
        Departure::bare(header)
    }

    fn poll_stream(&mut self, now: SimTime, nagle: Nagle, amount: Amount) -> Option<Departure> {
        if self.timers.tail_probe_due {
            self.timers.tail_probe_due = false;
            if let Some(segment) = self.send_tail_probe(now) {
                return Some(segment);
            }
        }
        if std::mem::take(&mut self.timers.window_probe_due) {
            // An old number makes the peer answer with its window (tcp_xmit_probe_skb).
            let probe = self.poll_window_probe(now);
            return Some(probe.unwrap_or_else(|| self.bare_ack(now, self.snd.una - 1)));
        }
        if !self.recovery.prefers_new
            && let Some(segment) = self.poll_lost(now)
        {
            return Some(segment);
        }
        if let Some(train) = self.poll_new(now, nagle, amount) {
            return Some(train);
        }
        if self.recovery.stop_preferring_new(self.snd.nxt)
            && let Some(segment) = self.poll_lost(now)
        {
            return Some(segment);
        }
        self.poll_probes(now)
    }

    /// The next segment that is believed lost (tcp_xmit_retransmit_queue).
    fn poll_lost(&mut self, now: SimTime) -> Option<Departure> {
        if self.board.in_flight() >= self.cc.cwnd() || self.waits_for_pace(now) {
            return None;
        }
        let number = self.board.next_lost()?;
        let train = self.lost_train(number);
        if self.is_small_queue_full((train.end() - train.start) as usize) {
            return None;
        }
        let alone = train.len == self.board.record(number).len;
        let train = if alone { self.join_small(number) } else { train };
        Some(self.resend(now, number, train))
    }

    /// What is sent again takes in the small segments behind it, lost or not, as many as fit into a segment (tcp_retrans_try_collapse). A segment is
    /// small if it has a buffer for itself. Gives what it is now.
    fn join_small(&mut self, number: u64) -> Record {
        let tail = self.snd.queue.tail();
        let window = self.window_end();
        let most = u64::from(self.segment_limit());
        while self.config.retransmission_collapse {
            let (record, Some(next)) = (self.board.record(number), self.board.get(number + 1)) else { break };
            let (data_end, is_fin) = (next.end().min(tail), next.start == tail);
            let is_whole = is_fin || self.snd.queue.is_sent_buffer(next.start, data_end);
            let fits = data_end - record.start <= most.min(window.saturating_sub(record.start)) && next.end() <= window;
            let small = self.snd.queue.is_sent_buffer(record.start, record.end());
            if !small || !is_whole || !fits || next.is_sacked() || self.snd.queue.ends_record(record.end()) {
                break;
            }
            if !is_fin {
                self.snd.queue.join_sent(record.start);
            }
            self.board.join_next(number);
        }
        self.board.record(number)
    }

    /// What is sent again with the segment of this number: the lost ones that follow it in its buffer, as far as the window and a train
    /// have room (tcp_retransmit_skb).
    fn lost_train(&self, number: u64) -> Record {
        let mut train = self.board.record(number);
        let (len, end) = (train.len, self.snd.queue.buffer_end(train.start));
        let quota = (self.cc.cwnd() - self.board.in_flight()).min(self.train_segments(self.segment_limit()));
        for other in 1..u64::from(quota) {
            let Some(next) = self.board.waiting(number + other) else { break };
            if next.end() > end || !(train.end() - train.start).is_multiple_of(u64::from(len)) || next.len > len {
                break;
            }
            train.len += next.len;
        }
        train
    }

    fn poll_probes(&mut self, now: SimTime) -> Option<Departure> {
        if self.timers.keepalive_probe_due {
            self.timers.keepalive_probe_due = false;
            return Some(self.bare_ack(now, self.snd.una - 1));
        }
        if self.acks.now {
            return Some(self.bare_ack(now, self.snd.nxt));
        }
        None
    }

    /// Payload that fits into one segment now: options take their room (tcp_current_mss).
    pub(super) fn segment_limit(&self) -> u32 {
        let mut options = if self.timestamps_enabled { 12 } else { 0 };
        let blocks = self.sack_count(u32::MAX);
        if blocks > 0 {
            options += 4 + 8 * blocks as u32;
        }
        self.bound_to_half_window(self.snd.mss - options)
    }

    /// Sends `train` again, whose first record has this number, into the network, of which it is a part then.
    fn resend(&mut self, now: SimTime, number: u64, train: Record) -> Departure {
        let first = self.board.record(number);
        let segments = train.len.div_ceil(first.len.max(1)).max(1);
        let departs = self.departs_at(now);
        for other in 0..u64::from(segments) {
            self.board.resent(number + other, departs);
            self.recovery.note_resent(departs);
        }
        if self.board.head().is_some_and(|head| head.start == train.start) {
            (self.timers.since_before, self.timers.since) = (self.timers.since, departs);
        }
        self.cc.note_sent(segments);
        let mut departure = self.copy_again(now, segments, train);
        if segments > 1 {
            departure.header.flags.insert(TcpFlags::PSH);
            departure.mss = first.len as u16;
        }
        departure
    }

    fn copy_again(&mut self, now: SimTime, segments: u32, train: Record) -> Departure {
        self.counters.retransmitted += segments;
        self.counters.bytes_retransmitted += u64::from(train.len);
        self.snd.last_sent_at = now;
        self.copy_of(now, train)
    }

    fn copy_of(&mut self, now: SimTime, record: Record) -> Departure {
        if record.start == self.snd.iss {
            // Closed before the peer has acknowledged it.
            return self.syn(now);
        }
        let tail = self.snd.queue.tail();
        let data_end = record.end().min(tail);
        let fin = self.snd.fin_queued && record.end() > tail;
        let payload = self.snd.queue.slice(record.start, data_end);
        let push = !payload.is_empty() && self.snd.queue.pushes_at(data_end);
        let header = self.data_header(now, record.start, data_end, fin, push);
        Departure { header, payload, mss: 0, not_before: now }
    }

    /// RFC 8985 section 7.3: new data if there is some, else the last segment again.
    fn send_tail_probe(&mut self, now: SimTime) -> Option<Departure> {
        if !self.recovery.may_probe() || self.board.tail_is_sacked() {
            return None;
        }
        let last = self.board.last_number()?;
        let new = self.poll_new(now, Nagle::Push, Amount::Probe);
        self.recovery.tail_probe_resent = new.is_none();
        let segment = match new {
            Some(segment) => segment,
            None => {
                self.board.probed(last, self.departs_at(now));
                self.copy_again(now, 1, self.board.record(last))
            }
        };
        self.recovery.tail_probe_end = Some(self.snd.nxt);
        // The timeout counts from this probe.
        self.timers.since = now;
        Some(segment)
    }

    pub(super) fn data_header(&mut self, now: SimTime, start: u64, end: u64, fin: bool, push: bool) -> TcpHeader {
        let mut flags = TcpFlags::ACK;
        flags.set(TcpFlags::PSH, push);
        flags.set(TcpFlags::FIN, fin);
        self.header(now, start, (end - start) as u32, flags)
    }

    fn bare_ack(&mut self, now: SimTime, seq: u64) -> Departure {
        Departure::bare(self.header(now, seq, 0, TcpFlags::ACK))
    }

    fn header(&mut self, now: SimTime, seq: u64, payload_len: u32, flags: TcpFlags) -> TcpHeader {
        let options = self.ack_options(now, payload_len);
        let header = TcpHeader {
            src_port: self.tuple.local.port,
            dst_port: self.tuple.remote.port,
            seq: seq as u32,
            ack: self.rcv.queue.next() as u32,
            flags,
            window: self.advertise_window(),
            options,
        };
        self.ack_left();
        header
    }

    pub fn stamps(&self, now: SimTime) -> Timestamps {
        let echo = if self.state == State::SynSent { 0 } else { self.rcv.ts_recent };
        Timestamps { value: self.clock(now), echo }
    }

    /// A duplicate to be reported.
    fn dsack(&self) -> Option<(u64, u64)> {
        self.rcv.dsack.filter(|_| self.config.dsack)
    }

    /// How many SACK blocks a segment with `room` bytes left has: three fit beside the timestamps.
    fn sack_count(&self, room: u32) -> usize {
        if !self.sack_enabled {
            return 0;
        }
        let most = if self.timestamps_enabled { 3 } else { SackBlocks::MAX };
        let wanted = self.rcv.queue.reported().len() + usize::from(self.dsack().is_some());
        wanted.min(most).min((room.saturating_sub(4) / 8) as usize)
    }

    /// A D-SACK comes first, then the ranges, the most recent one first (RFC 2018 section 4, RFC 2883 section 4). What a
    /// retransmission leaves no room for has to wait.
    fn ack_options(&self, now: SimTime, payload_len: u32) -> TcpOptions {
        let mut sack = SackBlocks::default();
        let stamps = if self.timestamps_enabled { 12 } else { 0 };
        let count = self.sack_count(self.snd.mss.saturating_sub(payload_len + stamps));
        if count > 0 {
            let dsack = self.dsack();
            let ranges = dsack.iter().chain(self.rcv.queue.reported());
            for (start, end) in ranges.take(count) {
                sack.push(*start as u32, *end as u32);
            }
        }
        let timestamps = self.timestamps_enabled.then(|| self.stamps(self.departs_at(now)));
        TcpOptions { timestamps, sack, ..TcpOptions::default() }
    }

    /// A RST that the peer will believe (RFC 9293 section 3.10.5).
    pub fn reset_header(&self, now: SimTime) -> TcpHeader {
        let timestamps = self.timestamps_enabled.then(|| self.stamps(now));
        TcpHeader {
            src_port: self.tuple.local.port,
            dst_port: self.tuple.remote.port,
            seq: self.snd.nxt as u32,
            ack: self.rcv.queue.next() as u32,
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
        }
    }
}
