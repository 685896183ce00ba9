//! The timers of a connection and what happens when they fire: retransmission (RFC 6298 section 5), tail loss probe and
//! reordering (RFC 8985), zero window probe (RFC 9293 section 3.8.6.1), keepalive (section 3.8.4), delayed acknowledgement,
//! and the end of an orphan in FIN_WAIT2.

use super::connection::{Connection, State};
use super::rtt::{RTO_MAX, RTO_MIN};
use crate::error::SocketError;
use base::{SimDuration, SimTime};

/// How long a timeout that is due already is put off.
const SHORTEST: SimDuration = SimDuration::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Retransmit,
    /// Tail loss probe.
    Probe,
    /// Segments may turn out lost once the reordering window has passed.
    Reorder,
    /// Nothing in flight, and the window, Nagle or a cork holds data back.
    Window,
}

/// `SimTime::MAX` means not armed.
#[derive(Debug)]
pub(crate) struct Timers {
    pub purpose: Purpose,
    pub send: SimTime,
    pub delayed_ack: SimTime,
    pub keepalive: SimTime,
    pub fin_wait: SimTime,
    /// Keepalive probes sent without an answer.
    pub keepalive_probes: u32,
    /// Zero window probes sent without an answer, and since when.
    pub window_probes: u32,
    pub window_probes_since: SimTime,
    /// Exponent of the interval between zero window probes: answers do not reset it, an open window does.
    pub window_backoff: u32,
    /// Retransmission timeouts in a row without progress, and since when.
    pub timeouts: u32,
    pub timeouts_since: SimTime,
    /// What `poll` must send regardless of windows.
    pub window_probe_due: bool,
    pub keepalive_probe_due: bool,
    pub tail_probe_due: bool,
}

impl Timers {
    pub fn new() -> Self {
        Timers {
            purpose: Purpose::Retransmit,
            send: SimTime::MAX,
            delayed_ack: SimTime::MAX,
            keepalive: SimTime::MAX,
            fin_wait: SimTime::MAX,
            keepalive_probes: 0,
            window_probes: 0,
            window_probes_since: SimTime::ZERO,
            window_backoff: 0,
            timeouts: 0,
            timeouts_since: SimTime::ZERO,
            window_probe_due: false,
            keepalive_probe_due: false,
            tail_probe_due: false,
        }
    }

    pub fn next(&self) -> SimTime {
        self.send.min(self.delayed_ack).min(self.keepalive).min(self.fin_wait)
    }

    fn arm(&mut self, purpose: Purpose, at: SimTime) {
        self.purpose = purpose;
        self.send = at;
    }

    /// Whether a verdict on losses is due, before which no other timer of sending makes sense.
    fn awaits_verdict(&self) -> bool {
        self.send != SimTime::MAX && self.purpose == Purpose::Reorder
    }
}

impl Connection {
    pub fn on_timer(&mut self, now: SimTime) {
        if self.timers.delayed_ack <= now {
            self.timers.delayed_ack = SimTime::MAX;
            self.delayed_ack_due();
        }
        if self.timers.send <= now {
            self.timers.send = SimTime::MAX;
            match self.timers.purpose {
                Purpose::Retransmit => self.retransmission_timeout(now),
                Purpose::Probe => self.tail_probe(now),
                Purpose::Reorder => self.reordering_timeout(now),
                Purpose::Window => self.window_probe(now),
            }
        }
        if self.timers.keepalive <= now {
            self.timers.keepalive = SimTime::MAX;
            self.keepalive_due(now);
        }
        if self.timers.fin_wait <= now {
            self.finish();
        }
    }

    /// Something new is in flight: the retransmission timer runs, or the earlier tail loss probe.
    pub fn arm_after_send(&mut self, now: SimTime) {
        if self.timers.send == SimTime::MAX || self.timers.purpose == Purpose::Window {
            self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
        }
        if self.timers.purpose != Purpose::Reorder {
            self.arm_tail_probe(now, false);
        }
    }

    /// The cumulative acknowledgement advanced: what was armed before is void.
    pub fn disarm_on_ack(&mut self) {
        self.timers.send = SimTime::MAX;
    }

    /// After `disarm_on_ack`, when it is clear what follows for recovery: restart (RFC 6298 section 5.3) or stop (5.2), unless losses
    /// are undecided.
    pub fn arm_after_ack(&mut self, now: SimTime) {
        if self.board.is_empty() {
            self.timers.send = SimTime::MAX;
            self.arm_window_probe(now);
            return;
        }
        if self.timers.awaits_verdict() {
            return;
        }
        self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
        self.arm_tail_probe(now, true);
    }

    /// Loss is being repaired: from now on only the retransmission timer counts. A tail loss probe is for a sender that sees no loss.
    pub fn arm_for_repair(&mut self, now: SimTime) {
        self.timers.tail_probe_due = false;
        if !self.timers.awaits_verdict() {
            self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
        }
    }

    /// RFC 8985 section 7.2: two round trips, or more if a single segment's acknowledgement may be delayed, but before the
    /// retransmission timeout. While a probe is under way there is no second one, and the timeout counts from it.
    fn arm_tail_probe(&mut self, now: SimTime, advancing: bool) {
        let probing = self.recovery.tail_probe_end.is_some();
        let may = self.sack_enabled && self.recovery.is_open() && self.state.synchronised() && !probing;
        if !may || self.board.is_empty() {
            return;
        }
        let wait = if !self.rtt.measured() {
            SimDuration::from_secs(1)
        } else {
            let slack = if self.board.packets_out() == 1 { RTO_MIN } else { SimDuration::from_millis(2) };
            self.rtt.srtt().saturating_mul(2).saturating_add(slack)
        };
        let timeout = match self.board.head() {
            Some(head) if !advancing => head.sent_at + self.rtt.rto(),
            _ => now + self.rtt.rto(),
        };
        let at = if timeout > now { timeout.min(now + wait) } else { now + wait };
        self.timers.arm(Purpose::Probe, at);
    }

    pub fn arm_reorder(&mut self, at: SimTime) {
        self.timers.arm(Purpose::Reorder, at);
    }

    /// Data waits, nothing is in flight, and `poll` found that it may not be sent.
    pub fn arm_window_probe(&mut self, now: SimTime) {
        let waiting = self.not_sent() > 0 && self.state.synchronised();
        if waiting && self.board.is_empty() && self.timers.send == SimTime::MAX {
            let shift = self.timers.window_backoff.min(16);
            let wait = self.rtt.base_rto().max(RTO_MIN).saturating_mul(1 << shift).min(RTO_MAX);
            self.timers.arm(Purpose::Window, now + wait);
        }
    }

    /// Nothing has been heard for so long that perhaps the last segments are lost (RFC 8985 section 7.3). Where SACK has told something
    /// of them since the timer was armed, that decides; then the timeout remains, from when the head was sent.
    fn tail_probe(&mut self, now: SimTime) {
        let Some(head) = self.board.head() else { return };
        let timeout = (head.sent_at + self.rtt.rto()).max(now + SHORTEST);
        if self.recovery.is_open() && !self.board.tail_is_sacked() {
            self.timers.tail_probe_due = true;
            self.counters.loss_probes += 1;
            self.wants_transmit = true;
            self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
        } else {
            self.timers.arm(Purpose::Retransmit, timeout);
        }
    }

    fn reordering_timeout(&mut self, now: SimTime) {
        self.detect_losses(now);
        if self.board.lost > 0 && !self.recovery.in_recovery() {
            self.enter_recovery(now);
        }
        self.wants_transmit = true;
        if self.timers.send == SimTime::MAX && !self.board.is_empty() {
            self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
        }
    }

    fn retransmission_timeout(&mut self, now: SimTime) {
        if self.board.is_empty() {
            return;
        }
        if self.timers.timeouts == 0 {
            self.timers.timeouts_since = self.board.head().map_or(now, |head| head.sent_at);
        }
        if self.gives_up(now) {
            return self.fail(SocketError::TimedOut);
        }
        self.timers.tail_probe_due = false;
        if self.state.synchronised() {
            self.enter_loss();
        } else {
            self.board.mark_all_lost();
        }
        self.timers.timeouts += 1;
        self.counters.timeouts += 1;
        self.rtt.backoff += 1;
        self.wants_transmit = true;
        self.timers.arm(Purpose::Retransmit, now + self.rtt.rto());
    }

    /// tcp_syn_retries, tcp_synack_retries, tcp_retries2 or TCP_USER_TIMEOUT are used up.
    fn gives_up(&self, now: SimTime) -> bool {
        let config = &self.config;
        let elapsed = now.saturating_since(self.timers.timeouts_since);
        match self.state {
            State::SynSent => {
                let limit = if self.settings.syn_count > 0 { self.settings.syn_count } else { config.syn_retries };
                self.timers.timeouts >= limit
            }
            State::SynReceived => self.timers.timeouts >= config.synack_retries,
            _ if !self.settings.user_timeout.is_zero() => elapsed >= self.settings.user_timeout,
            _ => elapsed >= patience(if self.orphan { config.orphan_retries } else { config.retries }),
        }
    }

    fn window_probe(&mut self, now: SimTime) {
        if !self.board.is_empty() || self.not_sent() == 0 {
            return;
        }
        if self.timers.window_probes == 0 {
            self.timers.window_probes_since = now;
        }
        let elapsed = now.saturating_since(self.timers.window_probes_since);
        let user = self.settings.user_timeout;
        let limit = if self.orphan { self.config.orphan_retries } else { self.config.retries };
        if (!user.is_zero() && elapsed >= user) || self.timers.window_probes >= limit {
            return self.fail(SocketError::TimedOut);
        }
        self.timers.window_probes += 1;
        self.counters.window_probes += 1;
        self.timers.window_backoff += 1;
        self.timers.window_probe_due = true;
        self.wants_transmit = true;
        self.arm_window_probe(now);
    }

    /// Starts the idle timer, if SO_KEEPALIVE is set.
    pub fn arm_keepalive(&mut self, now: SimTime) {
        if self.settings.keepalive && self.state.synchronised() {
            self.timers.keepalive = now + self.settings.keep_idle;
        } else {
            self.timers.keepalive = SimTime::MAX;
        }
    }

    fn keepalive_due(&mut self, now: SimTime) {
        if !self.settings.keepalive || !self.state.synchronised() {
            return;
        }
        let heard = self.acks.last_heard_at;
        let idle = now.saturating_since(heard);
        if !self.board.is_empty() || self.not_sent() > 0 {
            // Retransmission finds a dead peer by itself.
            self.timers.keepalive = now + self.settings.keep_idle;
            return;
        }
        if idle < self.settings.keep_idle {
            self.timers.keepalive = heard + self.settings.keep_idle;
            return;
        }
        let user = self.settings.user_timeout;
        let dead = if user.is_zero() {
            self.timers.keepalive_probes >= self.settings.keep_count
        } else {
            idle >= user && self.timers.keepalive_probes > 0
        };
        if dead {
            self.recovery.reset_due = true;
            return self.fail(SocketError::TimedOut);
        }
        self.timers.keepalive_probes += 1;
        self.counters.keepalive_probes += 1;
        self.timers.keepalive_probe_due = true;
        self.wants_transmit = true;
        self.timers.keepalive = now + self.settings.keep_interval;
    }

    /// The last descriptor is closed: FIN_WAIT2 does not last for ever (net.ipv4.tcp_fin_timeout, TCP_LINGER2).
    pub fn arm_fin_wait(&mut self, now: SimTime) {
        if self.orphan && self.state == State::FinWait2 {
            self.timers.fin_wait = now + self.settings.linger2;
            self.timers.keepalive = SimTime::MAX;
        }
    }
}

/// How long `retries` retransmissions with backoff from 200 ms to 120 s take (tcp_model_timeout).
fn patience(retries: u32) -> SimDuration {
    let doublings = (RTO_MAX.as_nanos() / RTO_MIN.as_nanos()).ilog2();
    if retries <= doublings {
        return RTO_MIN.saturating_mul((2 << retries) - 1);
    }
    let growing = RTO_MIN.saturating_mul((2 << doublings) - 1);
    growing.saturating_add(RTO_MAX.saturating_mul(u64::from(retries - doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_that_of_tcp_7() {
        // ip-sysctl: tcp_retries2 = 15 "yields a hypothetical timeout of 924.6 seconds".
        assert_eq!(patience(15), SimDuration::from_millis(924_600));
        assert_eq!(patience(8), SimDuration::from_millis(102_200));
    }
}
