//! A segment arrives for a connection (RFC 9293 section 3.10.7).

use super::connection::{Connection, Reply, State, extend};
use super::footprint::Footprint;
use super::window::Arrival;
use crate::addr::{Family, Interface};
use crate::error::SocketError;
use crate::socket::Readiness;
use crate::wire::tcp::{TcpFlags, TcpHeader};
use base::{SimDuration, SimTime};
use bytes::Bytes;

/// RFC 7323 section 5.5: a timestamp this old is no reason to drop anything.
const PAWS_IDLE: SimDuration = SimDuration::from_secs(24 * 24 * 3600);

/// What becomes of a segment with an old timestamp.
enum Old {
    /// An acknowledgement that another one has overtaken: it counts.
    Overtaken,
    Ignored,
    /// Answered by what is expected.
    Refused,
}

impl Connection {
    /// A segment, or a train of segments of `train_mss` bytes (0 for none) that came as one.
    pub fn on_segment(&mut self, now: SimTime, header: &TcpHeader, payload: Bytes, train_mss: u16) -> Reply {
        self.rcv.train_mss = train_mss;
        self.counters.segments_in += self.rcv.segments_of(payload.len());
        match self.state {
            State::Closed | State::TimeWait => Reply::Reset,
            State::SynSent => self.on_segment_in_syn_sent(now, header),
            _ => self.on_segment_synchronised(now, header, payload),
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn on_segment_in_syn_sent(&mut self, now: SimTime, header: &TcpHeader) -> Reply {
        let flags = header.flags;
        let ack = extend(self.snd.nxt, header.ack);
        if flags.contains(TcpFlags::ACK) && (ack <= self.snd.iss || ack > self.snd.nxt) {
            if self.timers.timeouts == 0 {
                // An old connection's answer: the RST to it ends that one, and the next SYN finds nobody.
                self.timers.time_out_soon(now, self.rtt.rto());
            }
            return if flags.contains(TcpFlags::RST) { Reply::Nothing } else { Reply::Reset };
        }
        if flags.contains(TcpFlags::RST) {
            if flags.contains(TcpFlags::ACK) {
                self.fail(SocketError::ConnectionRefused);
            }
            return Reply::Nothing;
        }
        if !flags.contains(TcpFlags::SYN) {
            return Reply::Nothing;
        }
        self.take_syn(now, header);
        self.acks.last_heard_at = now;
        if flags.contains(TcpFlags::ACK) {
            let seq = self.rcv.irs;
            self.establish(now);
            // The window of this segment is not scaled, that of the next one may be (tcp_finish_connect).
            self.rcv.predicts = self.snd.scale == 0;
            self.on_ack(now, header, seq, 0);
            if self.settings.deferred_timeouts > 0 {
                // The acknowledgement waits for data to go with it.
                self.delay_first_ack(now);
            } else {
                self.ack_now();
            }
        } else {
            // Simultaneous open: our SYN goes out again, now as SYN-ACK (figure 8).
            self.state = State::SynReceived;
            self.board.mark_head_lost();
            self.wants_transmit = true;
        }
        Reply::Nothing
    }

    fn on_segment_synchronised(&mut self, now: SimTime, header: &TcpHeader, payload: Bytes) -> Reply {
        let flags = header.flags;
        let seq = extend(self.rcv.queue.next(), header.seq);
        let end = seq + payload.len() as u64 + u64::from(flags.contains(TcpFlags::FIN));
        if !self.acceptable(now, header, seq, end) {
            return Reply::Nothing;
        }
        if flags.contains(TcpFlags::RST) {
            self.on_reset(now, seq);
            return Reply::Nothing;
        }
        let answers_our_syn = self.state == State::SynReceived && flags.contains(TcpFlags::ACK);
        if flags.contains(TcpFlags::SYN) && !answers_our_syn {
            // RFC 5961 section 4: never believe a SYN here, ask.
            self.challenge(now);
            return Reply::Nothing;
        }
        if !flags.contains(TcpFlags::ACK) {
            return Reply::Nothing;
        }
        self.acks.last_heard_at = now;
        let completes = self.state == State::SynReceived;
        if completes && !self.complete_handshake(now, header) {
            return Reply::Reset;
        }
        if self.is_predicted(header, seq, payload.len()) {
            self.timers.keepalive_probes = 0;
            self.snd.wl1 = seq;
        } else if self.on_ack(now, header, seq, payload.len()) {
            // What waits is looked at (tcp_data_snd_check).
            self.wants_transmit |= self.snd.more_announced;
        } else {
            return Reply::Nothing;
        }
        if completes && self.parent.is_some() {
            self.counters.bytes_acked -= 1;
        }
        if flags.contains(TcpFlags::SYN) {
            // The SYN in it was known.
            self.rcv.dsack = Some((seq, seq + 1));
            self.enter_quick();
            self.ack_now();
        }
        self.on_fin_acknowledged(now);
        if self.state == State::Closed {
            return Reply::Nothing;
        }
        self.remember_timestamp(now, header, seq);
        if end > seq {
            return self.on_data(now, header, seq, payload);
        }
        Reply::Nothing
    }

    /// PAWS (RFC 7323 section 5.3), then the sequence check of RFC 9293 section 3.4 as Linux makes it.
    fn acceptable(&mut self, now: SimTime, header: &TcpHeader, seq: u64, end: u64) -> bool {
        let reset = header.flags.contains(TcpFlags::RST);
        if let (true, Some(stamps)) = (self.timestamps_enabled, header.options.timestamps) {
            // One tick behind is tolerated (TCP_PAWS_WINDOW).
            let behind = self.rcv.ts_recent.wrapping_sub(stamps.value) as i32;
            if behind > 1 && now.saturating_since(self.rcv.ts_recent_at) < PAWS_IDLE && !reset {
                match self.judge_old(header, seq, end, behind) {
                    Old::Overtaken => {}
                    Old::Ignored => return false,
                    Old::Refused => {
                        self.refuse(now, seq, end);
                        return false;
                    }
                }
            }
        }
        let window_end = self.rcv.queue.next() + u64::from(self.open_window());
        // Beyond the window is nothing welcome, but for a FIN, and what fills the rest of the window if nothing waits to be read (tcp_sequence).
        let fin = u64::from(header.flags.contains(TcpFlags::FIN));
        let beyond = end - fin > window_end && (seq > window_end || self.rcv.queue.ready_bytes() > 0);
        if end < self.rcv.wup || beyond {
            let again = header.flags.contains(TcpFlags::SYN)
                && self.state == State::SynReceived
                && seq + 1 == self.rcv.queue.next();
            if again && !header.flags.contains(TcpFlags::ACK) {
                // The peer has not got our SYN-ACK.
                self.board.mark_head_lost();
                self.wants_transmit = true;
                return false;
            }
            if again {
                return true;
            }
            if !reset {
                self.refuse(now, seq, end);
            }
            return false;
        }
        true
    }

    /// What becomes of a segment with an old timestamp (tcp_disordered_ack_check): acknowledgements overtake each other.
    fn judge_old(&self, header: &TcpHeader, seq: u64, end: u64, behind: i32) -> Old {
        let next = self.rcv.queue.next();
        if !header.flags.contains(TcpFlags::ACK) || seq != end || seq > next {
            return Old::Refused;
        }
        if seq < next {
            return Old::Ignored;
        }
        let repeats = extend(self.snd.una, header.ack) == self.snd.una && !self.may_update_window(header, seq);
        let patience = self.rtt.rto().as_millis() * 12 / 10;
        if repeats && u128::from(behind.unsigned_abs()) <= u128::from(patience) { Old::Overtaken } else { Old::Refused }
    }

    /// RFC 5961 section 3: only a RST that is exactly in sequence counts.
    fn on_reset(&mut self, now: SimTime, seq: u64) {
        if seq != self.rcv.queue.next() {
            return self.challenge(now);
        }
        let error = match self.state {
            State::SynReceived => SocketError::ConnectionRefused,
            State::CloseWait => SocketError::BrokenPipe,
            _ => SocketError::ConnectionReset,
        };
        self.fail(error);
    }

    fn complete_handshake(&mut self, now: SimTime, header: &TcpHeader) -> bool {
        let ack = extend(self.snd.una, header.ack);
        if ack <= self.snd.una || ack > self.snd.nxt {
            return false;
        }
        let shut = self.snd.fin_queued;
        self.establish(now);
        if self.parent.is_none() {
            // Of SYNs that crossed Linux does not keep the time: what is sent at once answers nothing.
            self.acks.last_data_at = None;
        }
        // What a request for a connection did is not the connection's (tcp_create_openreq_child).
        self.counters.segments_out = 0;
        // The window of the final acknowledgement is scaled, that of the SYN was not, and belongs to the request where there was one.
        self.snd.window = u32::from(header.window) << self.snd.scale;
        let before = if self.parent.is_some() { 0 } else { self.snd.max_window };
        self.snd.max_window = before.max(self.snd.window);
        self.rcv.predicts = true;
        if shut {
            self.state = State::FinWait1;
        } else if self.shut_before {
            // tcp_rcv_state_process asks in SYN_RECV, and nowhere else.
            self.shut_write();
        }
        true
    }

    /// RFC 9293 section 3.10.7.4, fifth: what the acknowledgement of our FIN brings.
    fn on_fin_acknowledged(&mut self, now: SimTime) {
        if !self.fin_acknowledged() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                // Wakes a close that lingers, as tcp_rcv_state_process does.
                self.events |= Readiness::WRITABLE;
                self.arm_fin_wait(now);
            }
            State::Closing => self.state = State::TimeWait,
            State::LastAck => self.finish(),
            _ => {}
        }
    }

    /// RFC 7323 section 4.3: only from segments that do not start beyond the last acknowledgement sent.
    fn remember_timestamp(&mut self, now: SimTime, header: &TcpHeader, seq: u64) {
        if let (true, Some(stamps)) = (self.timestamps_enabled, header.options.timestamps)
            && seq <= self.rcv.wup
            && (stamps.value.wrapping_sub(self.rcv.ts_recent) as i32) >= 0
        {
            self.rcv.ts_recent = stamps.value;
            self.rcv.ts_recent_at = now;
        }
    }

    /// RFC 9293 section 3.10.7.4, seventh and eighth.
    fn on_data(&mut self, now: SimTime, header: &TcpHeader, seq: u64, payload: Bytes) -> Reply {
        let next = self.rcv.queue.next();
        if self.rcv.fin_received {
            // Nothing can follow a FIN: a retransmission whose acknowledgement was lost.
            self.rcv.dsack = Some((seq, next));
            self.enter_quick();
            self.ack_now();
            return Reply::Nothing;
        }
        let data_end = seq + payload.len() as u64;
        let closed = self.orphan || self.read_shut && matches!(self.state, State::FinWait1 | State::FinWait2);
        if closed && !payload.is_empty() && data_end > next {
            // Nobody will read it (RFC 1122 section 4.2.2.13; Linux's TCPAbortOnData).
            if self.orphan {
                self.finish();
            } else {
                self.fail(SocketError::ConnectionReset);
            }
            return Reply::Reset;
        }
        let end_known = self.rcv.fin_at.is_some();
        if header.flags.contains(TcpFlags::FIN) {
            self.rcv.fin_at = Some(data_end);
            if seq > next {
                self.rcv.predicts = false;
                self.rcv.queue.report(seq, data_end + 1);
            }
        }
        if !payload.is_empty() {
            self.counters.data_segments_in += self.rcv.segments_of(payload.len());
            let arrival = self.arrival(header, payload.len());
            if let Some(stamps) = header.options.timestamps {
                self.measure_echo(now, stamps.echo, arrival.segment);
            }
            let limit = next + u64::from(self.open_window());
            if data_end <= next {
                self.rcv.dsack = Some((seq, data_end));
                self.data_refused();
            } else if limit <= next || seq >= limit {
                // A probe of a closed window, for one: not taken, but answered.
                self.data_refused();
            } else if seq > next {
                self.take_early(seq, payload, &arrival);
            } else {
                self.take_in_order(now, seq, payload, &arrival);
            }
        }
        if self.rcv.fin_at == Some(self.rcv.queue.next()) {
            self.take_fin();
            if end_known {
                // The last hole was before it.
                self.ack_now();
            }
        } else if self.rcv.fin_at.is_some() {
            self.acks.scheduled = true;
        }
        self.decide_ack(now);
        Reply::Nothing
    }

    /// What has come with this header, and what it occupies.
    pub(super) fn arrival(&self, header: &TcpHeader, len: usize) -> Arrival {
        let train_mss = usize::from(self.rcv.train_mss);
        let headers = header.len() + if self.tuple.family() == Family::V6 { 40 } else { 20 };
        let footprint = match self.interface {
            Interface::Loopback => Footprint::looped(len),
            Interface::Ethernet if train_mss > 0 => Footprint::train(len, train_mss, headers),
            Interface::Ethernet => Footprint::received(headers + len),
        };
        Arrival {
            len,
            segment: self.rcv.segment_len(len),
            footprint,
            push: header.flags.contains(TcpFlags::PSH),
            fin: header.flags.contains(TcpFlags::FIN),
        }
    }

    /// Data beyond a hole (tcp_data_queue_ofo).
    fn take_early(&mut self, seq: u64, payload: Bytes, arrival: &Arrival) {
        if !self.make_recv_room(seq) {
            self.counters.early_dropped += 1;
            self.events |= Readiness::READABLE;
            return;
        }
        self.rcv.predicts = false;
        self.counters.out_of_order_in += self.rcv.segments_of(arrival.len);
        self.acks.scheduled = true;
        let (held, end) = (self.rcv.queue.memory(), seq + payload.len() as u64);
        let known = self.rcv.queue.push_early(seq, payload, arrival.footprint);
        // Without SACK an unchanged window makes the acknowledgement a duplicate, which is what tells the sender.
        if self.sack_enabled && known != Some((seq, end)) {
            self.open_further(arrival, held);
        }
        self.rcv.dsack = known;
        if !self.orphan {
            self.grow_recv_buffer(self.sizing.space());
        }
    }

    fn take_in_order(&mut self, now: SimTime, seq: u64, mut payload: Bytes, arrival: &Arrival) {
        let next = self.rcv.queue.next();
        if seq < next {
            self.rcv.dsack = Some((seq, next));
            payload = payload.slice((next - seq) as usize..);
        }
        if !self.make_recv_room(seq) && self.refuse_for_memory() {
            self.counters.dropped_for_memory += 1;
            return;
        }
        self.note_burst(now);
        let had_early = self.rcv.queue.has_early();
        self.counters.bytes_received += payload.len() as u64;
        self.rcv.queue.push_in_order(payload, arrival.footprint);
        if had_early {
            self.counters.bytes_received = self.rcv.queue.next() - self.rcv.irs - 1;
            if !self.rcv.queue.has_early() {
                // The last hole is filled (RFC 5681 section 4.2).
                self.ack_now();
            }
        }
        self.note_data(now, arrival);
        self.predict();
        if self.is_readable() {
            self.events |= Readiness::READABLE;
        }
    }

    fn take_fin(&mut self) {
        self.rcv.queue.skip_fin();
        self.rcv.fin_received = true;
        self.events |= Readiness::READABLE | Readiness::READ_HANGUP;
        self.acks.scheduled = true;
        match self.state {
            State::SynReceived | State::Established => {
                self.state = State::CloseWait;
                // The program is likely to close, too: its FIN takes the acknowledgement along (tcp_fin).
                self.acks.interactive = true;
            }
            State::FinWait1 => {
                self.state = State::Closing;
                self.ack_now();
            }
            State::FinWait2 => {
                self.state = State::TimeWait;
                self.ack_now();
                self.timers.fin_wait = SimTime::MAX;
            }
            _ => {}
        }
        if self.write_closed() {
            self.events |= Readiness::HANGUP;
        }
    }
}
