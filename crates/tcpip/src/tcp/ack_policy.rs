//! When to acknowledge: every second full segment, at once while a connection is young or something is amiss, else delayed (RFC 9293
//! section 3.8.6.3), by Linux's rules: a delay that follows the spacing of data, quick acknowledgements, the mode of connections that talk
//! back and forth ("pingpong"), and fewer acknowledgements while much is out of order (SACK compression).

use super::connection::Connection;
use super::rtt::RTO_MIN;
use super::window::Arrival;
use base::{SimDuration, SimTime};

const DELAY_MIN: SimDuration = SimDuration::from_millis(40);
const DELAY_MAX: SimDuration = SimDuration::from_millis(200);
const DELAY_CEILING: SimDuration = SimDuration::from_millis(500);
const QUICK_MAX: u32 = 16;
/// SACK compression: acknowledgements that leave at once for each hole, and for which part of a round trip others wait.
const DUPLICATES_AT_ONCE: u32 = 3;
const COMPRESSION_SHARE: u64 = 20;
/// The smallest segment whose size tells something of the sender's when it is not full, and the least that does so in any case
/// (TCP_MIN_MSS, TCP_MSS_DEFAULT).
const TELLING_MIN: usize = 88;
const TELLING: usize = 536;
/// The smallest segment in order that opens the window (tcp_event_data_recv).
const OPENING_MIN: usize = 128;

/// What small segments or PSH since the last acknowledgement told of the end of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Pushed {
    No,
    /// The program may be waiting for the acknowledgement.
    Once,
    /// Even if it talks back and forth.
    Twice,
}

#[derive(Debug)]
pub(crate) struct AckPolicy {
    /// Acknowledgements to be sent without delay.
    pub quick: u32,
    /// The connection is interactive: an answer is likely to carry the acknowledgement.
    pub interactive: bool,
    /// The delay of the next one; zero before the first data.
    pub delay: SimDuration,
    /// When data came last, or the connection was made; unknown where SYNs have crossed.
    pub last_data_at: Option<SimTime>,
    pub last_heard_at: SimTime,
    /// One is due now.
    pub now: bool,
    /// One is owed, sooner or later.
    pub scheduled: bool,
    pushed: Pushed,
    challenge_at: Option<SimTime>,
    /// The size of the last segment that was less than full, if it may be the sender's largest.
    last_segment: u32,
    /// Acknowledgements of this hole that left at once, and what it begins with.
    duplicates: u32,
    hole: u64,
    /// Acknowledgements saved since the last one.
    compressed: u32,
}

impl AckPolicy {
    pub fn new(now: SimTime) -> Self {
        AckPolicy {
            quick: 0,
            interactive: false,
            delay: SimDuration::ZERO,
            last_data_at: Some(now),
            last_heard_at: now,
            now: false,
            scheduled: false,
            pushed: Pushed::No,
            challenge_at: None,
            last_segment: 0,
            duplicates: 0,
            hole: 0,
            compressed: 0,
        }
    }

    /// How long ago data came; where none has come, longer than any delay, as on a host that has been up for a while.
    pub fn since_data(&self, now: SimTime) -> SimDuration {
        const UP_BEFORE: SimDuration = SimDuration::from_secs(1_000);
        self.last_data_at.map_or(UP_BEFORE + SimDuration::from_nanos(now.as_nanos()), |at| now.saturating_since(at))
    }

    pub fn established(&mut self, now: SimTime) {
        self.last_heard_at = now;
        self.last_data_at = Some(now);
    }
}

impl Connection {
    pub fn ack_now(&mut self) {
        self.acks.now = true;
        // It takes along what waits, but for what more was announced for (MSG_MORE); on Linux it takes nothing.
        self.wants_transmit |= !self.snd.more_announced;
    }

    /// As many quick acknowledgements as half the window has segments (tcp_incr_quickack).
    fn more_quick_acks(&mut self) {
        let half = self.rcv.window / (2 * self.rcv.mss.max(1));
        let more = if half == 0 { 2 } else { half.min(QUICK_MAX) };
        self.acks.quick = self.acks.quick.max(more);
    }

    /// Something is amiss: the sender wants to know soon (tcp_enter_quickack_mode).
    pub fn enter_quick(&mut self) {
        self.more_quick_acks();
        self.acks.interactive = false;
        self.acks.delay = DELAY_MIN;
    }

    /// Whether an acknowledgement of a segment without data that is not acceptable would be one too many.
    fn is_challenged(&mut self, now: SimTime) -> bool {
        let recently =
            self.acks.challenge_at.is_some_and(|at| now.saturating_since(at) < self.config.challenge_interval);
        if !recently {
            self.acks.challenge_at = Some(now);
        }
        recently
    }

    /// An acknowledgement of a segment that is not acceptable; rate limited, so that two ends never quarrel for ever
    /// (RFC 5961 section 7).
    pub fn challenge(&mut self, now: SimTime) {
        if !self.is_challenged(now) {
            self.counters.challenge_acks += 1;
            self.ack_now();
        }
    }

    /// Answers an unacceptable segment by an acknowledgement that tells what is expected (tcp_send_dupack). Data is no part of a
    /// quarrel.
    pub fn refuse(&mut self, now: SimTime, seq: u64, end: u64) {
        if end == seq && self.is_challenged(now) {
            return;
        }
        if end > seq && seq < self.rcv.queue.next() {
            self.enter_quick();
            self.rcv.dsack = Some((seq, end.min(self.rcv.queue.next())));
        }
        self.ack_now();
    }

    /// Data that was taken before, or that the window has no room for: the sender is to know at once.
    pub fn data_refused(&mut self) {
        self.enter_quick();
        self.acks.scheduled = true;
    }

    /// Data came in order: learns how it is spaced and how large the peer's segments are (tcp_event_data_recv).
    pub fn note_data(&mut self, now: SimTime, arrival: &Arrival) {
        self.acks.scheduled = true;
        self.measure_segment(arrival);
        self.measure_fill(now);
        let gap = self.acks.since_data(now);
        let half = |time: SimDuration| SimDuration::from_nanos(time.as_nanos() / 2);
        if self.acks.delay.is_zero() {
            self.more_quick_acks();
            self.acks.delay = DELAY_MIN;
        } else if gap <= half(DELAY_MIN) {
            self.acks.delay = half(self.acks.delay).saturating_add(half(DELAY_MIN));
        } else if gap < self.acks.delay {
            self.acks.delay = half(self.acks.delay).saturating_add(gap).min(self.rtt.rto());
        } else if gap > self.rtt.rto() {
            // The sender has been silent for long: it may be in slow start again.
            self.more_quick_acks();
        }
        self.acks.last_data_at = Some(now);
        if arrival.len >= OPENING_MIN {
            self.open_further(arrival, self.rcv.queue.memory());
        }
    }

    /// tcp_measure_rcv_mss.
    fn measure_segment(&mut self, arrival: &Arrival) {
        // What ends a write or the stream need not be full.
        let (len, ends) = (arrival.segment, arrival.push || arrival.fin);
        let last = std::mem::take(&mut self.acks.last_segment);
        if len >= self.rcv.mss as usize {
            if len != self.rcv.mss as usize {
                self.sizing.learn_share(arrival, self.rcv.window);
            }
            self.rcv.mss = (len as u32).min(self.advertised_payload());
            if arrival.push {
                self.acks.pushed = self.acks.pushed.max(Pushed::Once);
            }
            return;
        }
        let options = if self.timestamps_enabled { 12 } else { 0 };
        if len + options >= TELLING || (len + options >= TELLING_MIN && !ends) {
            self.acks.last_segment = len as u32;
            if self.acks.last_segment == last {
                // Twice the same: the sender has no larger ones.
                self.rcv.mss = last;
                return;
            }
        }
        self.acks.pushed = if self.acks.pushed == Pushed::No { Pushed::Once } else { Pushed::Twice };
    }

    /// An acknowledgement is owed after a segment: now or later (__tcp_ack_snd_check).
    pub fn decide_ack(&mut self, now: SimTime) {
        if self.acks.now || !self.acks.scheduled {
            return;
        }
        let unacknowledged = self.rcv.queue.next() - self.rcv.wup;
        let full = unacknowledged > u64::from(self.rcv.mss)
            && (self.rcv.queue.ready_bytes() < self.settings.recv_low_water as usize
                || self.best_window() >= self.rcv.window);
        if full || (self.acks.quick > 0 && !self.acks.interactive) {
            self.ack_now();
        } else if self.rcv.queue.has_early() {
            self.acknowledge_disorder(now);
        } else {
            self.schedule_ack(now);
        }
    }

    /// The first acknowledgements that name a hole leave at once, for the sender counts them; later ones wait a little for others.
    fn acknowledge_disorder(&mut self, now: SimTime) {
        if !self.sack_enabled || self.acks.compressed >= self.config.compressed_max {
            return self.ack_now();
        }
        let next = self.rcv.queue.next();
        if self.acks.hole != next {
            (self.acks.hole, self.acks.duplicates) = (next, 0);
        }
        if self.acks.duplicates < DUPLICATES_AT_ONCE {
            self.acks.duplicates += 1;
            return self.ack_now();
        }
        self.acks.compressed += 1;
        if self.timers.ack_compression == SimTime::MAX {
            let mut rtt = self.sizing.recv_rtt;
            if self.rtt.measured() {
                rtt = rtt.min(self.rtt.srtt());
            }
            let share = SimDuration::from_nanos(rtt.as_nanos() / COMPRESSION_SHARE);
            self.timers.ack_compression =
                now + share.min(self.config.compression_delay).saturating_add(self.config.compression_slack);
        }
    }

    /// No further acknowledgement has come to take the waiting one along (tcp_compressed_ack_kick).
    pub fn compressed_ack_due(&mut self) {
        if self.acks.compressed > 0 {
            self.ack_now();
        }
    }

    /// tcp_send_delayed_ack.
    fn schedule_ack(&mut self, now: SimTime) {
        // None before the first data: what is acknowledged is a FIN.
        let mut delay = self.acks.delay;
        if delay > DELAY_MIN {
            let is_short = self.acks.interactive || self.acks.pushed > Pushed::No;
            let mut most = if is_short { DELAY_MAX } else { DELAY_CEILING };
            if self.rtt.measured() {
                most = most.min(self.rtt.srtt().max(DELAY_MIN));
            }
            delay = delay.min(most);
        }
        delay = delay.min(DELAY_MAX);
        let at = now + delay;
        let due = self.timers.delayed_ack;
        if due != SimTime::MAX {
            if due <= now + SimDuration::from_nanos(delay.as_nanos() / 4) {
                // As good as due.
                return self.ack_now();
            }
            self.timers.delayed_ack = due.min(at);
        } else {
            self.timers.delayed_ack = at;
        }
    }

    /// The acknowledgement of the peer's SYN leaves with the first data, or after the longest delay
    /// (tcp_rcv_synsent_state_process).
    pub fn delay_first_ack(&mut self, now: SimTime) {
        self.enter_quick();
        self.acks.scheduled = true;
        self.timers.delayed_ack = now + DELAY_MAX;
    }

    /// The delay is over (tcp_delack_timer_handler).
    pub fn delayed_ack_due(&mut self) {
        if !self.acks.scheduled {
            return;
        }
        self.counters.delayed_acks += 1;
        if self.acks.interactive {
            self.acks.interactive = false;
            self.acks.delay = DELAY_MIN;
        } else {
            self.acks.delay = self.acks.delay.saturating_mul(2).min(self.rtt.rto().max(RTO_MIN));
        }
        self.ack_now();
    }

    /// A segment with an acknowledgement leaves (tcp_event_ack_sent).
    pub fn ack_left(&mut self) {
        let acks = &mut self.acks;
        if acks.quick > 0 && acks.scheduled {
            acks.quick -= 1;
            if acks.quick == 0 {
                acks.delay = DELAY_MIN;
            }
        }
        acks.now = false;
        acks.scheduled = false;
        acks.pushed = Pushed::No;
        acks.compressed = 0;
        self.timers.ack_compression = SimTime::MAX;
        self.timers.delayed_ack = SimTime::MAX;
        self.rcv.dsack = None;
    }

    /// Data of ours leaves: soon after data of theirs, it makes the connection interactive (tcp_event_data_sent).
    pub fn data_left(&mut self, now: SimTime) {
        if self.acks.since_data(now) < self.acks.delay {
            self.acks.interactive = true;
        }
    }

    /// TCP_QUICKACK. What is owed leaves if the program has read everything (__tcp_sock_set_quickack).
    pub fn set_quick_ack(&mut self, on: bool) {
        self.acks.interactive = !on;
        if on && self.acks.scheduled && self.state.may_send() {
            self.acks.pushed = self.acks.pushed.max(Pushed::Once);
            self.ack_after_read(1);
        }
    }

    /// The program has read `copied` bytes: does that call for an acknowledgement? (tcp_cleanup_rbuf)
    pub fn ack_after_read(&mut self, copied: usize) {
        if self.acks.scheduled {
            let unacknowledged = self.rcv.queue.next() - self.rcv.wup;
            let drained = self.rcv.queue.ready_bytes() == 0;
            let pushed = match self.acks.pushed {
                Pushed::No => false,
                Pushed::Once => !self.acks.interactive,
                Pushed::Twice => true,
            };
            if unacknowledged > u64::from(self.rcv.mss) || (copied > 0 && pushed && drained) {
                return self.ack_now();
            }
        }
        if copied > 0 && !self.read_closed() {
            let open = self.open_window();
            if 2 * open <= self.sizing.clamp {
                let best = self.best_window();
                if best > 0 && best >= 2 * open {
                    self.ack_now();
                }
            }
        }
    }
}
