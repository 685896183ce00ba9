//! When to acknowledge: every second full segment, at once while a connection is young or out of order, else delayed
//! (RFC 9293 section 3.8.6.3, with Linux's adaptive delay between 40 and 200 ms and its quick acknowledgements).

use super::connection::Connection;
use super::rtt::RTO_MIN;
use base::{SimDuration, SimTime};

const DELAY_MIN: SimDuration = SimDuration::from_millis(40);
const DELAY_MAX: SimDuration = SimDuration::from_millis(200);
const DELAY_CEILING: SimDuration = SimDuration::from_millis(500);
const QUICK_MAX: u32 = 16;
/// At most one acknowledgement per this for segments that are out of window (tcp_invalid_ratelimit).
const CHALLENGE_INTERVAL: SimDuration = SimDuration::from_millis(500);

#[derive(Debug)]
pub(crate) struct AckPolicy {
    /// Acknowledgements to be sent without delay.
    pub quick: u32,
    /// The connection is interactive: an answer is likely to carry the acknowledgement.
    pub interactive: bool,
    /// The delay of the next one; zero before the first data.
    pub delay: SimDuration,
    pub last_data_at: SimTime,
    pub last_heard_at: SimTime,
    /// One is due now.
    pub now: bool,
    /// One is due by the timer.
    pub scheduled: bool,
    /// A segment with PSH or less than full size came since the last one.
    pub pushed: bool,
    challenge_at: Option<SimTime>,
}

impl AckPolicy {
    pub fn new(now: SimTime) -> Self {
        AckPolicy {
            quick: 0,
            interactive: false,
            delay: SimDuration::ZERO,
            last_data_at: now,
            last_heard_at: now,
            now: false,
            scheduled: false,
            pushed: false,
            challenge_at: None,
        }
    }

    pub fn established(&mut self, now: SimTime, window: u32, mss: u32) {
        self.last_heard_at = now;
        self.last_data_at = now;
        self.enter_quick(window, mss);
    }

    /// As many quick acknowledgements as half the window has segments (tcp_incr_quickack).
    pub fn enter_quick(&mut self, window: u32, mss: u32) {
        self.quick = self.quick.max((window / (2 * mss.max(1))).clamp(2, QUICK_MAX));
    }
}

impl Connection {
    pub fn ack_now(&mut self) {
        self.acks.now = true;
        self.wants_transmit = true;
    }

    /// An acknowledgement of a segment that is not acceptable; rate limited, so that two ends never quarrel for ever
    /// (RFC 5961 section 7).
    pub fn challenge(&mut self, now: SimTime) {
        let recently = self.acks.challenge_at.is_some_and(|at| now.saturating_since(at) < CHALLENGE_INTERVAL);
        if !recently {
            self.acks.challenge_at = Some(now);
            self.counters.challenge_acks += 1;
            self.ack_now();
        }
    }

    /// Data came in order or not: learns how it is spaced (tcp_event_data_recv).
    pub fn note_data(&mut self, now: SimTime, len: usize, push: bool) {
        let gap = now.saturating_since(self.acks.last_data_at);
        if len >= self.rcv.mss as usize {
            let most = self.snd.mss.max(self.rcv.mss);
            self.rcv.mss = (len as u32).min(most);
        } else {
            self.acks.pushed = true;
        }
        self.acks.pushed |= push;
        if self.acks.delay.is_zero() {
            self.acks.enter_quick(self.rcv.window, self.rcv.mss);
            self.acks.delay = DELAY_MIN;
        } else if gap.as_nanos() <= DELAY_MIN.as_nanos() / 2 {
            self.acks.delay = SimDuration::from_nanos(self.acks.delay.as_nanos() / 2 + DELAY_MIN.as_nanos() / 2);
        } else if gap < self.acks.delay {
            self.acks.delay = SimDuration::from_nanos(self.acks.delay.as_nanos() / 2).saturating_add(gap);
        } else if gap > self.rtt.rto() {
            // The sender has been silent for long: it may be in slow start again.
            self.acks.enter_quick(self.rcv.window, self.rcv.mss);
        }
        self.acks.last_data_at = now;
    }

    /// Data in order has been taken: acknowledge now or later (__tcp_ack_snd_check).
    pub fn decide_ack(&mut self, now: SimTime) {
        if self.acks.now {
            return;
        }
        let unacknowledged = self.rcv.queue.next() - self.rcv.wup;
        let full = unacknowledged > u64::from(self.rcv.mss)
            && (self.rcv.queue.ready_bytes() < self.settings.recv_low_water as usize
                || self.best_window() >= self.rcv.window);
        let quick = self.acks.quick > 0 && !self.acks.interactive;
        if full || quick || self.rcv.queue.has_early() {
            self.ack_now();
        } else {
            self.schedule_ack(now);
        }
    }

    fn schedule_ack(&mut self, now: SimTime) {
        let mut delay = self.acks.delay.max(DELAY_MIN);
        if delay > DELAY_MIN {
            let mut most = if self.acks.interactive || self.acks.pushed { DELAY_MAX } else { DELAY_CEILING };
            if self.rtt.measured() {
                most = most.min(self.rtt.srtt().max(DELAY_MIN));
            }
            delay = delay.min(most);
        }
        let at = now + delay;
        if !self.acks.scheduled || at < self.timers.delayed_ack {
            self.timers.delayed_ack = at;
        }
        self.acks.scheduled = true;
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

    /// A segment with an acknowledgement leaves.
    pub fn ack_left(&mut self) {
        self.acks.quick = self.acks.quick.saturating_sub(1);
        self.acks.now = false;
        self.acks.scheduled = false;
        self.acks.pushed = false;
        self.timers.delayed_ack = SimTime::MAX;
        self.rcv.dsack = None;
    }

    /// Data of ours leaves: soon after data of theirs, it makes the connection interactive (tcp_event_data_sent).
    pub fn data_left(&mut self, now: SimTime) {
        if !self.acks.delay.is_zero() && now.saturating_since(self.acks.last_data_at) < self.acks.delay {
            self.acks.interactive = true;
        }
    }

    /// The program has read `copied` bytes: does that call for an acknowledgement? (tcp_cleanup_rbuf)
    pub fn ack_after_read(&mut self, copied: usize) {
        if self.acks.scheduled {
            let unacknowledged = self.rcv.queue.next() - self.rcv.wup;
            let drained = self.rcv.queue.ready_bytes() == 0;
            if unacknowledged > u64::from(self.rcv.mss)
                || (copied > 0 && self.acks.pushed && !self.acks.interactive && drained)
            {
                return self.ack_now();
            }
        }
        if copied > 0 && !self.read_closed() {
            let open = self.open_window();
            if 2 * open <= self.sizing.recv_buffer / 2 {
                let best = self.best_window();
                if best > 0 && best >= 2 * open {
                    self.ack_now();
                }
            }
        }
    }
}
