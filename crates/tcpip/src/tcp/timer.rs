//! The timers of a connection and what happens when they fire: retransmission (RFC 6298 section 5), tail loss probe and
//! reordering (RFC 8985), zero window probe (RFC 9293 section 3.8.6.1), keepalive (section 3.8.4), delayed acknowledgement,
//! and the end of an orphan in FIN_WAIT2.

use super::connection::{Connection, State};
use super::rtt::RTO_MIN;
use crate::error::SocketError;
use base::{SimDuration, SimTime};

/// How soon all is sent again that a receiver has thrown away, at the earliest (tcp_check_sack_reneging).
const RENEGE_MIN: SimDuration = SimDuration::from_millis(10);
/// TCP_TIMEOUT_MIN.
const SOON: SimDuration = SimDuration::from_millis(2);
/// How soon is tried again what the host's own queue did not take (TCP_RESOURCE_PROBE_INTERVAL).
pub(super) const RESOURCE_PROBE: SimDuration = SimDuration::from_millis(500);
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

/// What the timers are derived from, and when they fire. `SimTime::MAX` means not armed.
#[derive(Debug)]
pub(crate) struct Timers {
    pub purpose: Purpose,
    pub send: SimTime,
    pub delayed_ack: SimTime,
    /// When an acknowledgement of data out of order leaves that waited for others.
    pub ack_compression: SimTime,
    pub keepalive: SimTime,
    pub fin_wait: SimTime,
    /// More is to leave when pacing lets it.
    pub pace: bool,
    /// The retransmission timeout counts from here (RFC 6298 section 5).
    pub since: SimTime,
    /// When there was news of the flow: something new was sent, or acknowledged.
    progress: SimTime,
    /// It was an acknowledgement.
    acknowledged: bool,
    /// There is no further tail loss probe before the next progress.
    probe_spent: bool,
    /// When losses that are undecided are to be judged.
    pub verdict: SimTime,
    /// Since when data waits for a window with nothing in flight (MAX if none does), and since when it did before something was sent again.
    pub window_wait_since: SimTime,
    pub window_waited_since: SimTime,
    /// The host's queue did not take the last probe of the window: the next one comes by another rule.
    pub window_probe_refused: bool,
    /// When the last of these was due, and what `since` was before the head was sent again: for a queue that does not take it.
    pub window_probed_at: SimTime,
    pub timed_out_at: SimTime,
    pub since_before: SimTime,
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
            ack_compression: SimTime::MAX,
            keepalive: SimTime::MAX,
            fin_wait: SimTime::MAX,
            pace: false,
            since: SimTime::ZERO,
            progress: SimTime::ZERO,
            acknowledged: false,
            probe_spent: false,
            verdict: SimTime::MAX,
            window_wait_since: SimTime::MAX,
            window_waited_since: SimTime::MAX,
            window_probe_refused: false,
            window_probed_at: SimTime::ZERO,
            timed_out_at: SimTime::ZERO,
            since_before: SimTime::ZERO,
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

    /// Nothing is due any more. How often something was tried in vain is still to be read (TCP_INFO).
    pub fn stop(&mut self) {
        let Timers { window_probes, keepalive_probes, timeouts, .. } = *self;
        *self = Timers { window_probes, keepalive_probes, timeouts, ..Timers::new() };
    }

    fn next(&self) -> SimTime {
        let acks = self.delayed_ack.min(self.ack_compression);
        self.send.min(acks).min(self.keepalive).min(self.fin_wait)
    }

    /// Lets the timeout come as soon as Linux lets any.
    pub fn time_out_soon(&mut self, now: SimTime, rto: SimDuration) {
        self.since = SimTime::from_nanos((now + SOON).as_nanos().saturating_sub(rto.as_nanos()));
    }

    /// Something new has left: a tail loss probe counts from it.
    pub fn note_sent(&mut self, now: SimTime) {
        (self.progress, self.acknowledged, self.probe_spent) = (now, false, false);
    }

    /// Something was acknowledged, or the first segment has left: the timeout counts from now too.
    pub fn note_progress(&mut self, now: SimTime, acknowledged: bool) {
        (self.since, self.progress, self.acknowledged) = (now, now, acknowledged);
        self.probe_spent = false;
    }
}

impl Connection {
    /// Decides every timer of sending anew, by what is owed to whom, and says when the connection wants to be called.
    pub fn rearm(&mut self, now: SimTime) -> SimTime {
        self.note_limit(now);
        let owes_window = self.board.is_empty() && self.owes_new() && self.state.synchronised();
        if !owes_window && self.timers.window_wait_since != SimTime::MAX {
            self.timers.window_waited_since = std::mem::replace(&mut self.timers.window_wait_since, SimTime::MAX);
        }
        (self.timers.purpose, self.timers.send) = if self.state == State::Closed {
            (Purpose::Retransmit, SimTime::MAX)
        } else if owes_window {
            let since = self.timers.window_wait_since.min(now);
            self.timers.window_wait_since = since;
            (Purpose::Window, since + self.window_interval())
        } else if self.board.is_empty() {
            (Purpose::Retransmit, SimTime::MAX)
        } else if self.board.head_is_sacked() {
            let soon = (self.rtt.srtt().as_nanos() / 2).max(RENEGE_MIN.as_nanos());
            (Purpose::Retransmit, self.timers.since + SimDuration::from_nanos(soon))
        } else if self.timers.verdict != SimTime::MAX {
            (Purpose::Reorder, self.timers.verdict)
        } else if let Some(at) = self.probe_at() {
            (Purpose::Probe, at)
        } else {
            (Purpose::Retransmit, self.timeout_at())
        };
        let next = self.timers.next();
        if self.timers.pace { next.min(self.snd.departs) } else { next }
    }

    /// When the retransmission timeout comes: TCP_USER_TIMEOUT may end the last one early.
    fn timeout_at(&self) -> SimTime {
        let at = self.timers.since.max(self.paced_until()) + self.rtt.rto();
        let user = self.settings.user_timeout();
        if self.timers.timeouts > 0 && !user.is_zero() {
            return at.min((self.timers.timeouts_since + user).max(self.timers.since + SHORTEST));
        }
        at
    }

    /// RFC 8985 section 7.2: two round trips after the last progress, or more if a single segment's acknowledgement may be delayed, but before
    /// the retransmission timeout. While a probe is under way there is no second one, and none is for a sender that sees losses.
    fn probe_at(&self) -> Option<SimTime> {
        let timers = &self.timers;
        // What a probe of the window has sent is no flow that could have lost its tail.
        let probing = self.config.early_retransmission < 3
            || timers.window_probes > 0
            || timers.probe_spent
            || timers.tail_probe_due
            || self.recovery.tail_probe_end.is_some();
        if probing || !self.sack_enabled || !self.recovery.may_probe() || !self.state.synchronised() {
            return None;
        }
        let wait = if !self.rtt.measured() {
            SimDuration::from_secs(1)
        } else {
            let slack = if self.board.packets_out() == 1 { self.rtt.least() } else { SimDuration::from_millis(2) };
            self.rtt.srtt().saturating_mul(2).saturating_add(slack)
        };
        let head = self.board.head().filter(|_| !timers.acknowledged).map_or(timers.progress, |head| head.sent_at);
        let timeout = head + self.rtt.rto();
        let left = timeout.saturating_since(timers.progress);
        let wait = if left.is_zero() { wait } else { wait.min(left) };
        Some(timers.progress.max(self.paced_until()) + wait)
    }

    fn window_interval(&self) -> SimDuration {
        if self.timers.window_probe_refused {
            return RESOURCE_PROBE;
        }
        let shift = self.timers.window_backoff.min(16);
        self.rtt.base_rto().max(RTO_MIN).saturating_mul(1 << shift).min(self.rtt.most())
    }

    pub fn on_timer(&mut self, now: SimTime) {
        if self.timers.delayed_ack <= now {
            self.timers.delayed_ack = SimTime::MAX;
            self.delayed_ack_due();
        }
        if self.timers.ack_compression <= now {
            self.timers.ack_compression = SimTime::MAX;
            self.compressed_ack_due();
        }
        if self.timers.pace && self.snd.departs <= now {
            self.timers.pace = false;
            self.wants_transmit = true;
        }
        if self.timers.send <= now {
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

    /// Nothing has been heard for so long that perhaps the last segments are lost (RFC 8985 section 7.3). Where SACK has told something
    /// of them since, that decides; then the timeout remains.
    fn tail_probe(&mut self, now: SimTime) {
        self.timers.probe_spent = true;
        self.timers.since = now;
        // Nothing is sent again that the peer has no window for any more.
        let window_end = self.snd.una + u64::from(self.snd.window);
        let fits = self.board.last_number().is_some_and(|last| self.board.record(last).start < window_end);
        if fits && !self.board.tail_is_sacked() {
            self.timers.tail_probe_due = true;
            self.counters.loss_probes += 1;
            self.wants_transmit = true;
        }
    }

    fn reordering_timeout(&mut self, now: SimTime) {
        let lost = self.detect_losses(now);
        // What is undecided now is left to the next acknowledgement, or the timeout (tcp_rack_reo_timeout).
        self.timers.verdict = SimTime::MAX;
        if lost > 0 && !self.recovery.in_recovery() {
            self.enter_recovery();
            self.cc.reduce(1, lost, false, self.board.in_flight());
        }
        self.timers.since = self.timers.since.max(self.board.head().map_or(now, |head| head.sent_at));
        self.wants_transmit = true;
    }

    fn retransmission_timeout(&mut self, now: SimTime) {
        if self.timers.timeouts == 0 {
            self.timers.timeouts_since = self.board.head().map_or(now, |head| head.sent_at);
            self.timeout_recoveries.begin(now);
        }
        if self.gives_up(now) {
            return self.fail(SocketError::TimedOut);
        }
        self.timers.tail_probe_due = false;
        // The last timeout for which TCP_DEFER_ACCEPT waits asks the client once more.
        let silent = self.awaits_data && self.timers.timeouts + 1 < self.settings.deferred_timeouts.into();
        if self.state.synchronised() {
            self.enter_loss(now);
        } else if !silent {
            self.board.mark_timed_out(now);
        }
        (self.timers.since, self.timers.timed_out_at) = (now, now);
        self.timers.timeouts += 1;
        self.counters.timeouts += 1;
        if self.state != State::SynSent || self.timers.timeouts > self.config.syn_linear_timeouts {
            self.rtt.backoff += 1;
        }
        self.wants_transmit |= !silent;
    }

    /// tcp_syn_retries, tcp_synack_retries, tcp_retries2 or TCP_USER_TIMEOUT are used up.
    fn gives_up(&self, now: SimTime) -> bool {
        let config = &self.config;
        let elapsed = now.saturating_since(self.timers.timeouts_since);
        let user = self.settings.user_timeout();
        match self.state {
            _ if !user.is_zero() && self.timers.timeouts > 0 && elapsed >= user => true,
            State::SynSent => {
                let limit =
                    if self.settings.syn_count > 0 { self.settings.syn_count.into() } else { config.syn_retries };
                self.timers.timeouts >= limit + config.syn_linear_timeouts
            }
            // syn_ack_recalc.
            State::SynReceived => {
                let deferred = self.awaits_data && self.timers.timeouts < self.settings.deferred_timeouts.into();
                self.timers.timeouts >= config.synack_retries && !deferred
            }
            _ if !user.is_zero() => false,
            _ => elapsed >= patience(self.retries(), self.rtt.most()),
        }
    }

    /// How often in vain something is sent before the connection is given up (tcp_orphan_retries).
    fn retries(&self) -> u32 {
        match (self.orphan, self.config.orphan_retries) {
            (false, _) => self.config.retries,
            (true, 0) => 8,
            (true, retries) => retries,
        }
    }

    fn window_probe(&mut self, now: SimTime) {
        if self.timers.window_probes == 0 {
            self.timers.window_probes_since = now;
        }
        let elapsed = now.saturating_since(self.timers.window_probes_since);
        let user = self.settings.user_timeout();
        let limit = self.retries();
        if (!user.is_zero() && elapsed >= user) || self.timers.window_probes >= limit {
            return self.fail(SocketError::TimedOut);
        }
        self.timers.window_probes += 1;
        self.counters.window_probes += 1;
        self.timers.window_backoff += 1;
        self.timers.window_probe_due = true;
        self.timers.window_wait_since = now;
        (self.timers.window_probed_at, self.timers.window_probe_refused) = (now, false);
        self.wants_transmit = true;
    }

    /// Starts the idle timer, if SO_KEEPALIVE is set.
    pub fn arm_keepalive(&mut self, now: SimTime) {
        if self.settings.keepalive && self.state.synchronised() {
            self.timers.keepalive = now + SimDuration::from_secs(self.settings.keep_idle.into());
        } else {
            self.timers.keepalive = SimTime::MAX;
        }
    }

    fn keepalive_due(&mut self, now: SimTime) {
        if !self.settings.keepalive || !self.state.synchronised() {
            return;
        }
        let heard = self.acks.last_heard_at;
        let silent = now.saturating_since(heard);
        let idle = SimDuration::from_secs(self.settings.keep_idle.into());
        if !self.board.is_empty() || self.not_sent() > 0 {
            // Retransmission finds a dead peer by itself.
            self.timers.keepalive = now + idle;
            return;
        }
        if silent < idle {
            self.timers.keepalive = heard + idle;
            return;
        }
        let user = self.settings.user_timeout();
        let dead = if user.is_zero() {
            self.timers.keepalive_probes >= self.settings.keep_count.into()
        } else {
            silent >= user && self.timers.keepalive_probes > 0
        };
        if dead {
            self.recovery.reset_due = true;
            return self.fail(SocketError::TimedOut);
        }
        self.timers.keepalive_probes += 1;
        self.counters.keepalive_probes += 1;
        self.timers.keepalive_probe_due = true;
        self.wants_transmit = true;
        self.timers.keepalive = now + SimDuration::from_secs(self.settings.keep_interval.into());
    }

    /// The last descriptor is closed: FIN_WAIT2 does not last for ever (net.ipv4.tcp_fin_timeout, TCP_LINGER2).
    pub fn arm_fin_wait(&mut self, now: SimTime) {
        if self.orphan && self.state == State::FinWait2 {
            self.timers.fin_wait = now + SimDuration::from_secs(self.settings.linger2.into());
            self.timers.keepalive = SimTime::MAX;
        }
    }
}

/// How long `retries` retransmissions with backoff from 200 ms to `most` take (tcp_model_timeout).
fn patience(retries: u32, most: SimDuration) -> SimDuration {
    let doublings = (most.as_nanos() / RTO_MIN.as_nanos()).ilog2();
    if retries <= doublings {
        return RTO_MIN.saturating_mul((2 << retries) - 1);
    }
    let growing = RTO_MIN.saturating_mul((2 << doublings) - 1);
    growing.saturating_add(most.saturating_mul(u64::from(retries - doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO_MAX: SimDuration = SimDuration::from_secs(120);

    #[test]
    fn patience_is_that_of_tcp_7() {
        // ip-sysctl: tcp_retries2 = 15 "yields a hypothetical timeout of 924.6 seconds".
        assert_eq!(patience(15, RTO_MAX), SimDuration::from_millis(924_600));
        assert_eq!(patience(8, RTO_MAX), SimDuration::from_millis(102_200));
    }
}
