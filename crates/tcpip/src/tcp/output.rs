//! What leaves a connection: `poll` gives one segment at a time, made only when the caller has room for it.
//!
//! In order: a tail loss probe, retransmissions, new data, the FIN, probes, a bare acknowledgement.

use super::connection::{Connection, State};
use super::scoreboard::Record;
use crate::wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use base::SimTime;
use bytes::Bytes;

/// What is to be sent next from above `nxt`.
enum Next {
    Nothing,
    /// So many bytes, and the FIN if it follows directly.
    Data(u32),
    Fin,
}

impl Connection {
    pub fn poll(&mut self, now: SimTime) -> Option<(TcpHeader, Bytes)> {
        let segment = match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_handshake(now),
            _ => self.poll_stream(now),
        };
        match segment {
            Some(_) => self.counters.segments_out += 1,
            None => self.wants_transmit = false,
        }
        segment
    }

    /// Whether an acknowledgement is all that `poll` would give.
    pub fn only_acknowledges(&self) -> bool {
        self.acks.now && self.sends_nothing()
    }

    /// Whether there is nothing to send but acknowledgements.
    pub fn sends_nothing(&self) -> bool {
        let due = self.timers.tail_probe_due || self.timers.window_probe_due || self.timers.keepalive_probe_due;
        let fin_waits = self.snd.fin_queued && self.snd.nxt == self.snd.queue.tail();
        self.state.synchronised() && !due && !fin_waits && self.board.lost == 0 && self.not_sent() == 0
    }

    fn poll_handshake(&mut self, now: SimTime) -> Option<(TcpHeader, Bytes)> {
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

    fn syn(&mut self, now: SimTime) -> (TcpHeader, Bytes) {
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
        (header, Bytes::new())
    }

    fn poll_stream(&mut self, now: SimTime) -> Option<(TcpHeader, Bytes)> {
        if self.timers.tail_probe_due {
            self.timers.tail_probe_due = false;
            if let Some(segment) = self.send_tail_probe(now) {
                return Some(segment);
            }
        }
        let in_flight = self.board.in_flight();
        if in_flight < self.cc.cwnd() {
            if !self.recovery.prefers_new
                && let Some(number) = self.board.next_lost()
            {
                return Some(self.resend(now, number));
            }
            match self.next_new(false) {
                Next::Data(len) => return Some(self.send_new(now, len)),
                Next::Fin => return Some(self.send_new(now, 0)),
                Next::Nothing => {}
            }
            if self.recovery.stop_preferring_new(self.snd.nxt)
                && let Some(number) = self.board.next_lost()
            {
                return Some(self.resend(now, number));
            }
        } else if self.not_sent() > 0 {
            self.note_window_use(true);
        }
        self.poll_probes(now)
    }

    fn poll_probes(&mut self, now: SimTime) -> Option<(TcpHeader, Bytes)> {
        if self.timers.window_probe_due {
            self.timers.window_probe_due = false;
            if let Next::Data(len) = self.next_new(true) {
                return Some(self.send_new(now, len));
            }
            // An old number makes the peer answer with its window (tcp_xmit_probe_skb).
            return Some(self.bare_ack(now, self.snd.una - 1));
        }
        if self.timers.keepalive_probe_due {
            self.timers.keepalive_probe_due = false;
            return Some(self.bare_ack(now, self.snd.una - 1));
        }
        if self.acks.now {
            return Some(self.bare_ack(now, self.snd.nxt));
        }
        None
    }

    /// Decides on new data: the peer's window, silly window avoidance (RFC 9293 section 3.8.6.2.1), Nagle (section 3.7.4)
    /// and cork. With `force`, whatever the window has room for.
    fn next_new(&self, force: bool) -> Next {
        let unsent = self.not_sent() as u64;
        if unsent == 0 {
            let fin_waits = self.snd.fin_queued && self.snd.nxt == self.snd.queue.tail();
            return if fin_waits { Next::Fin } else { Next::Nothing };
        }
        let mss = u64::from(self.segment_limit());
        let usable = (self.snd.una + u64::from(self.snd.window)).saturating_sub(self.snd.nxt);
        let wanted = unsent.min(mss);
        if usable < wanted {
            let half = u64::from(self.snd.max_window / 2).max(1);
            let allowed = usable >= half || (force && usable > 0);
            return if allowed { Next::Data(usable as u32) } else { Next::Nothing };
        }
        if wanted < mss && !self.snd.fin_queued && !force && self.holds_small() {
            return Next::Nothing;
        }
        Next::Data(wanted as u32)
    }

    /// A cork is set, or Nagle waits because a small segment is unacknowledged (Minshall).
    fn holds_small(&self) -> bool {
        if self.settings.cork || self.snd.more {
            return true;
        }
        !self.settings.no_delay && !self.board.is_empty() && self.snd.small_end > self.snd.una
    }

    /// Payload that fits into one segment now: options take their room; half of a small window at most.
    fn segment_limit(&self) -> u32 {
        let mut options = if self.timestamps_enabled { 12 } else { 0 };
        let blocks = self.sack_count(u32::MAX);
        if blocks > 0 {
            options += 4 + 8 * blocks as u32;
        }
        let limit = self.snd.mss - options;
        let most = self.snd.max_window;
        let cutoff = if most > 536 { most / 2 } else { most };
        if cutoff > 0 { limit.min(cutoff.max(16)) } else { limit }
    }

    fn send_new(&mut self, now: SimTime, len: u32) -> (TcpHeader, Bytes) {
        if self.board.is_empty() {
            let idle = now.saturating_since(self.snd.last_sent_at);
            self.cc.resumed_after(idle, self.rtt.rto(), self.config.slow_start_after_idle);
        }
        let start = self.snd.nxt.max(self.snd.iss + 1);
        let end = start + u64::from(len);
        let last = end == self.snd.queue.tail();
        let fin = last && self.snd.fin_queued;
        let payload = self.snd.queue.slice(start, end);
        self.snd.nxt = end + u64::from(fin);
        if self.board.is_empty() {
            self.timers.since = now;
        }
        self.board.sent(start, (self.snd.nxt - start) as u32, now);
        self.timers.note_sent(now);
        if len < self.segment_limit() {
            self.snd.small_end = self.snd.nxt;
        }
        self.snd.last_sent_at = now;
        self.cc.note_sent();
        self.note_window_use(self.board.in_flight() >= self.cc.cwnd());
        self.counters.bytes_sent += u64::from(len);
        self.counters.data_segments_out += u32::from(len > 0);
        self.data_left(now);
        (self.data_header(now, start, end, fin, last), payload)
    }

    fn resend(&mut self, now: SimTime, number: u64) -> (TcpHeader, Bytes) {
        let record = self.board.record(number);
        self.board.resent(number, now);
        if self.board.head().is_some_and(|head| head.start == record.start) {
            self.timers.since = now;
        }
        self.recovery.note_resent(now);
        self.cc.note_sent();
        self.counters.retransmitted += 1;
        self.counters.bytes_retransmitted += u64::from(record.len);
        self.snd.last_sent_at = now;
        self.copy_of(now, record)
    }

    fn copy_of(&mut self, now: SimTime, record: Record) -> (TcpHeader, Bytes) {
        if record.start == self.snd.iss {
            // Closed before the peer has acknowledged it.
            return self.syn(now);
        }
        let tail = self.snd.queue.tail();
        let data_end = record.end().min(tail);
        let fin = self.snd.fin_queued && record.end() > tail;
        let payload = self.snd.queue.slice(record.start, data_end);
        (self.data_header(now, record.start, data_end, fin, data_end == tail), payload)
    }

    /// RFC 8985 section 7.3: new data if there is some, else the last segment again.
    fn send_tail_probe(&mut self, now: SimTime) -> Option<(TcpHeader, Bytes)> {
        if !self.recovery.is_open() || self.board.tail_is_sacked() {
            return None;
        }
        let last = self.board.last_number()?;
        let next = self.next_new(false);
        self.recovery.tail_probe_resent = !matches!(next, Next::Data(_));
        let segment = match next {
            Next::Data(len) => self.send_new(now, len),
            _ => self.resend(now, last),
        };
        self.recovery.tail_probe_end = Some(self.snd.nxt);
        // The timeout counts from this probe.
        self.timers.since = now;
        Some(segment)
    }

    fn data_header(&mut self, now: SimTime, start: u64, end: u64, fin: bool, push: bool) -> TcpHeader {
        let mut flags = TcpFlags::ACK;
        flags.set(TcpFlags::PSH, push && end > start);
        flags.set(TcpFlags::FIN, fin);
        self.header(now, start, (end - start) as u32, flags)
    }

    fn bare_ack(&mut self, now: SimTime, seq: u64) -> (TcpHeader, Bytes) {
        (self.header(now, seq, 0, TcpFlags::ACK), Bytes::new())
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

    /// How many SACK blocks a segment with `room` bytes left has: three fit beside the timestamps.
    fn sack_count(&self, room: u32) -> usize {
        if !self.sack_enabled {
            return 0;
        }
        let most = if self.timestamps_enabled { 3 } else { SackBlocks::MAX };
        let wanted = self.rcv.queue.reported().len() + usize::from(self.rcv.dsack.is_some());
        wanted.min(most).min((room.saturating_sub(4) / 8) as usize)
    }

    /// A D-SACK comes first, then the ranges, the most recent one first (RFC 2018 section 4, RFC 2883 section 4). What a
    /// retransmission leaves no room for has to wait.
    fn ack_options(&self, now: SimTime, payload_len: u32) -> TcpOptions {
        let mut sack = SackBlocks::default();
        let stamps = if self.timestamps_enabled { 12 } else { 0 };
        let count = self.sack_count(self.snd.mss.saturating_sub(payload_len + stamps));
        if count > 0 {
            let ranges = self.rcv.dsack.iter().chain(self.rcv.queue.reported());
            for (start, end) in ranges.take(count) {
                sack.push(*start as u32, *end as u32);
            }
        }
        let timestamps = self.timestamps_enabled.then(|| self.stamps(now));
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
