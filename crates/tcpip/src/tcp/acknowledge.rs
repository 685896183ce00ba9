//! An acknowledgement arrives (RFC 9293 section 3.10.7.4, fifth; tcp_ack): the window, what is delivered, the round trip, and
//! what follows for loss recovery and timers.

use super::connection::{Connection, extend};
use super::controller::Acked;
use super::pacing::Pacing;
use super::rate::Delivery;
use super::scoreboard::AckSample;
use crate::socket::Readiness;
use crate::wire::tcp::{TcpFlags, TcpHeader};
use base::{SimDuration, SimTime};

impl Connection {
    /// Says whether the segment's data may be looked at: not if it acknowledges what was never sent.
    pub fn on_ack(&mut self, now: SimTime, header: &TcpHeader, seq: u64, payload_len: usize) -> bool {
        let ack = extend(self.snd.una, header.ack);
        if ack > self.snd.nxt {
            self.challenge(now);
            return false;
        }
        self.timers.keepalive_probes = 0;
        let mut sample = self.board.sample();
        let dsack = self.take_sack(now, header, ack, &mut sample);
        if ack < self.snd.una {
            if sample.delivered > 0 {
                self.after_ack(now, header, &mut sample, ack, false, dsack, false);
            }
            return true;
        }
        let advanced = ack > self.snd.una;
        let window_before = self.snd.window;
        self.update_window(now, header, seq, ack);
        if self.board.is_empty() && !advanced {
            self.after_empty_ack(now, window_before);
            if dsack {
                self.undo_late();
            }
            return true;
        }
        if advanced {
            self.advance(now, ack, &mut sample);
        }
        let duplicate = !advanced
            && payload_len == 0
            && window_before == self.snd.window
            && !header.flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        self.after_ack(now, header, &mut sample, ack, advanced, dsack, duplicate);
        true
    }

    /// Nothing was in flight: at most the window has changed.
    fn after_empty_ack(&mut self, now: SimTime, window_before: u32) {
        self.timers.window_probes = 0;
        if self.not_sent() > 0 {
            self.wants_transmit = true;
            if self.snd.window > window_before {
                (self.timers.window_backoff, self.timers.window_probe_refused) = (0, false);
                self.timers.window_wait_since = SimTime::MAX;
            } else if self.timers.window_wait_since != SimTime::MAX {
                // The peer is there: the next probe counts from now (tcp_ack_probe).
                self.timers.window_wait_since = now;
            }
        }
    }

    /// RFC 9293's rule with SND.WL1 and SND.WL2 (tcp_may_update_window).
    fn update_window(&mut self, now: SimTime, header: &TcpHeader, seq: u64, ack: u64) {
        let scaled = self.scaled_window(header);
        if ack > self.snd.una || self.may_update_window(header, seq) {
            if scaled != self.snd.window {
                self.wants_transmit = true;
                if self.not_sent() > 0 {
                    self.restart_if_idle(now);
                }
            }
            self.snd.wl1 = seq;
            if scaled != self.snd.window {
                self.snd.window = scaled;
                self.rcv.predicts = false;
                self.predict();
            }
            self.snd.max_window = self.snd.max_window.max(scaled);
        }
    }

    /// The window of a SYN is never scaled (RFC 7323 section 2.2).
    fn scaled_window(&self, header: &TcpHeader) -> u32 {
        let scale = if header.flags.contains(TcpFlags::SYN) { 0 } else { self.snd.scale };
        u32::from(header.window) << scale
    }

    /// Whether a segment that acknowledges nothing new is news of the window.
    pub fn may_update_window(&self, header: &TcpHeader, seq: u64) -> bool {
        let scaled = self.scaled_window(header);
        seq > self.snd.wl1 || (seq == self.snd.wl1 && scaled > self.snd.window)
    }

    /// Takes SACK blocks; says whether the first of them reports a duplicate (RFC 2883).
    fn take_sack(&mut self, now: SimTime, header: &TcpHeader, ack: u64, sample: &mut AckSample) -> bool {
        let blocks = header.options.sack.as_slice();
        if blocks.is_empty() || !self.sack_enabled {
            return false;
        }
        let una = self.snd.una;
        let wide = |block: &(u32, u32)| (extend(una, block.0), extend(una, block.1));
        let first = wide(&blocks[0]);
        let inside = blocks.get(1).map(wide).is_some_and(|second| first.0 >= second.0 && first.1 <= second.1);
        let dsack = first.1 <= ack || inside;
        if dsack {
            self.note_dsack(first, ack, sample);
        }
        let min = self.rtt.min();
        self.board.sack(blocks.iter().skip(usize::from(dsack)).map(wide), now, min, sample);
        dsack
    }

    fn advance(&mut self, now: SimTime, ack: u64, sample: &mut AckSample) {
        self.counters.bytes_acked += ack - self.snd.una;
        self.snd.una = ack;
        self.snd.queue.acknowledge(ack);
        self.board.acknowledge(ack, now, self.rtt.min(), sample);
        self.timers.timeouts = 0;
        self.timers.window_probes = 0;
        (self.timers.window_backoff, self.timers.window_probe_refused) = (0, false);
        self.timers.note_progress(now, true);
        self.wants_transmit = true;
    }

    fn after_ack(
        &mut self,
        now: SimTime,
        header: &TcpHeader,
        sample: &mut AckSample,
        ack: u64,
        advanced: bool,
        dsack: bool,
        duplicate: bool,
    ) {
        if duplicate && !self.sack_enabled {
            self.board.note_duplicate(sample);
        }
        self.counters.delivered += sample.delivered;
        self.note_reordering(sample);
        let echo = header.options.timestamps.filter(|_| self.timestamps_enabled).map(|stamps| stamps.echo);
        self.measure_rtt(now, sample, advanced, echo);
        let news = sample.delivered > 0 || !duplicate;
        self.judge_tail_probe(ack, advanced, dsack, news);
        let lost = if self.board.is_empty() || (self.board.sacked == 0 && !self.recovery.in_recovery()) {
            0
        } else {
            self.detect_losses(now)
        };
        self.recover(now, sample, advanced, echo.filter(|echo| *echo != 0), duplicate);
        let min_rtt = self.rtt.min().unwrap_or_default();
        let reneged = self.board.head_is_sacked();
        let rate = self.board.rate.conclude(now, &sample.rate, sample.delivered, min_rtt, reneged);
        self.steer(now, sample, lost, advanced, rate);
        if sample.delivered > 0 || lost > 0 {
            self.wants_transmit = true;
        }
        self.snd.room_made = true;
    }

    /// Tells the controller what has become of the acknowledgement.
    fn steer(&mut self, now: SimTime, sample: &AckSample, lost: u32, advanced: bool, rate: Option<Delivery>) {
        // It begins with the connection: the SYN's round trip, without a full segment's time on the line, is not for it.
        let was_syn = advanced && self.snd.una == self.snd.iss + 1;
        let rtt = sample.last_sent.or(sample.sack_sent).filter(|_| !was_syn).map(|at| now.saturating_since(at));
        self.cc.acknowledged(&Acked {
            now,
            phase: self.recovery.phase,
            delivered: sample.delivered,
            lost,
            advanced,
            may_grow: self.may_grow(sample, advanced),
            rtt,
            rate,
            una: self.snd.una,
            nxt: self.snd.nxt,
            in_flight: self.board.in_flight(),
            pipe: self.pipe(),
            paced: self.pacing() != Pacing::Off,
        });
    }

    /// Karn's rule: never from a segment sent twice, except by the echo of its timestamp (RFC 7323 section 4).
    fn measure_rtt(&mut self, now: SimTime, sample: &AckSample, advanced: bool, echo: Option<u32>) {
        let sent = if sample.acked_retransmission { None } else { sample.first_sent.or(sample.sack_sent) };
        let rtt = match (sent, echo) {
            (Some(sent), _) => now.saturating_since(sent),
            (None, Some(echo)) if advanced && echo != 0 => {
                let elapsed = self.clock(now).wrapping_sub(echo);
                if elapsed > 1 << 30 {
                    return;
                }
                SimDuration::from_millis(u64::from(elapsed.max(1)))
            }
            _ => return,
        };
        self.rtt.sample(rtt, now, self.snd.una, self.snd.nxt);
        // Only a measurement ends the back-off (RFC 6298 section 5.7; Karn).
        self.rtt.backoff = 0;
    }

    /// An acknowledgement has come, or something new has left: perhaps the send buffer grows, and who waits is woken (tcp_check_space,
    /// sk_stream_write_space).
    pub fn make_room(&mut self) {
        if !self.snd.no_space {
            return;
        }
        // A window that is full already needs no more.
        if self.board.in_flight() < self.cc.cwnd() {
            self.grow_send_buffer();
        }
        if self.is_writeable() {
            self.snd.no_space = false;
            self.events |= Readiness::WRITABLE;
        }
    }
}
