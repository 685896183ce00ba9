//! What the sender does about loss: when recovery begins and ends, how the window shrinks on the way (Proportional Rate
//! Reduction, RFC 6937), and how a false alarm is undone (Eifel, RFC 3522; D-SACK, RFC 3708).

use super::connection::Connection;
use super::scoreboard::AckSample;
use base::{SimDuration, SimTime};

/// Linux's tcp_ca_state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Open,
    /// SACKs have come, nothing is known to be lost.
    Disorder,
    /// The window shrinks although nothing is being retransmitted.
    Reduced,
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

#[derive(Debug)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// The phase ends when this is acknowledged.
    end: u64,
    /// Window and threshold before, for undoing.
    prior_cwnd: u32,
    prior_ssthresh: u32,
    /// Retransmissions of this episode not yet reported as duplicates; `None` once undoing is out of the question.
    undo: Option<u32>,
    /// When the first retransmission of this episode left.
    first_resent: Option<SimTime>,
    prr_delivered: u32,
    prr_out: u32,
    reduction_base: u32,
    /// Multiplier of the reordering window; grows with each round in which D-SACK reports a needless retransmission.
    window_steps: u32,
    steps_round: u64,
    steps_keep: u32,
    pub tail_probe_end: Option<u64>,
    pub tail_probe_resent: bool,
    /// Acknowledgements that repeat the last one, without SACK (RFC 5681).
    pub duplicates: u32,
    /// The stack must send a RST for this connection, which has just failed.
    pub reset_due: bool,
    /// The window was the limit in this round (RFC 7661's concern; tcp_is_cwnd_limited).
    limited: bool,
    most_out: u32,
    usage_end: u64,
}

impl Recovery {
    pub fn new() -> Self {
        Recovery {
            phase: Phase::Open,
            end: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            undo: None,
            first_resent: None,
            prr_delivered: 0,
            prr_out: 0,
            reduction_base: 0,
            window_steps: 1,
            steps_round: 0,
            steps_keep: 0,
            tail_probe_end: None,
            tail_probe_resent: false,
            duplicates: 0,
            reset_due: false,
            limited: false,
            most_out: 0,
            usage_end: 0,
        }
    }

    /// No loss is being repaired.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Reduced)
    }

    pub fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    pub fn reducing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Reduced)
    }

    pub fn note_resent(&mut self, now: SimTime) {
        self.first_resent.get_or_insert(now);
        if let Some(count) = &mut self.undo {
            *count += 1;
        }
        self.prr_out += 1;
    }

    pub fn note_sent(&mut self) {
        self.prr_out += 1;
    }
}

impl Connection {
    /// RFC 8985 section 6.2 step 4: a quarter of the smallest round trip, unless there is no sign of reordering and enough
    /// evidence of loss.
    fn reordering_window(&self) -> SimDuration {
        if !self.board.reordering_seen && (self.recovery.in_recovery() || self.board.sacked >= 3) {
            return SimDuration::ZERO;
        }
        let quarter = self.rtt.min().map_or(0, |min| min.as_nanos() / 4);
        let window = quarter.saturating_mul(u64::from(self.recovery.window_steps));
        SimDuration::from_nanos(window.min(self.rtt.srtt().as_nanos()))
    }

    /// Marks lost segments; arms the reordering timer where the verdict is still open.
    pub fn detect_losses(&mut self, now: SimTime) -> u32 {
        if !self.sack_enabled {
            return 0;
        }
        let (lost, again) = self.board.detect_losses(now, self.reordering_window());
        if let Some(at) = again {
            self.arm_reorder(at);
        }
        lost
    }

    /// A D-SACK came: something was retransmitted in vain (RFC 8985 section 6.2 step 4; RFC 3708).
    pub fn note_dsack(&mut self) {
        self.counters.dsack_duplicates += 1;
        if let Some(count) = &mut self.recovery.undo {
            *count = count.saturating_sub(1);
        }
        if self.snd.una >= self.recovery.steps_round {
            self.recovery.window_steps = (self.recovery.window_steps + 1).min(255);
            self.recovery.steps_round = self.snd.nxt;
            self.recovery.steps_keep = 16;
        }
    }

    /// Steers recovery after an acknowledgement has been taken (tcp_fastretrans_alert, tcp_cong_control).
    pub fn recover(
        &mut self,
        now: SimTime,
        sample: &AckSample,
        lost: u32,
        advanced: bool,
        echo: Option<u32>,
        duplicate: bool,
    ) {
        if !self.sack_enabled {
            self.count_duplicates(advanced, duplicate);
        }
        if self.recovery.phase != Phase::Open {
            if advanced && self.was_spurious(echo) {
                self.undo();
            }
            if self.snd.una >= self.recovery.end {
                self.leave_phase();
            }
        }
        if self.board.lost > 0 && !self.recovery.in_recovery() {
            self.enter_recovery(now);
        } else if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.recovery.phase = if self.board.sacked > 0 { Phase::Disorder } else { Phase::Open };
        }
        if self.recovery.reducing() {
            self.reduce(sample.delivered, lost, advanced);
        } else if sample.acked > 0 && self.window_limited() {
            let rtt = sample.last_sent.map(|at| now.saturating_since(at));
            let (una, nxt) = (self.snd.una, self.snd.nxt);
            self.cc.grow(sample.acked, now, una, nxt, rtt, self.rtt.srtt());
        }
    }

    /// RFC 6582 for peers without SACK: three duplicates mean a loss; a partial acknowledgement means another.
    fn count_duplicates(&mut self, advanced: bool, duplicate: bool) {
        if advanced {
            self.recovery.duplicates = 0;
            if self.recovery.in_recovery() && self.snd.una < self.recovery.end {
                self.board.mark_head_lost();
            }
        } else if duplicate {
            self.recovery.duplicates += 1;
            if self.recovery.duplicates == 3 {
                self.board.mark_head_lost();
            }
        }
    }

    /// The window held sending back in this round, or slow start still has use for it.
    fn window_limited(&self) -> bool {
        self.recovery.limited || (self.cc.in_slow_start() && self.cc.cwnd < 2 * self.recovery.most_out)
    }

    /// `poll` looked whether the window is the limit (tcp_cwnd_validate).
    pub fn note_window_use(&mut self, limited: bool) {
        let out = self.board.packets_out();
        let recovery = &mut self.recovery;
        if self.snd.una >= recovery.usage_end || limited || (!recovery.limited && out > recovery.most_out) {
            recovery.limited = limited;
            recovery.most_out = out;
            recovery.usage_end = self.snd.nxt;
        }
    }

    fn begin_episode(&mut self) {
        self.recovery.prior_cwnd = self.cc.cwnd;
        self.recovery.prior_ssthresh = self.cc.ssthresh;
        self.recovery.undo = Some(0);
        self.recovery.first_resent = None;
    }

    pub fn enter_recovery(&mut self, now: SimTime) {
        if self.recovery.phase != Phase::Reduced {
            self.begin_reduction();
        }
        self.recovery.phase = Phase::Recovery;
        self.counters.recoveries += 1;
        self.recovery.end = self.snd.nxt;
        self.recovery.tail_probe_end = None;
        self.arm_for_repair(now);
        self.wants_transmit = true;
    }

    fn begin_reduction(&mut self) {
        self.begin_episode();
        self.recovery.prr_delivered = 0;
        self.recovery.prr_out = 0;
        self.recovery.reduction_base = self.cc.cwnd;
        self.cc.ssthresh = self.cc.threshold_after_loss();
    }

    /// A tail loss probe repaired a loss that nothing else has shown (RFC 8985 section 7.4.2).
    fn enter_reduced(&mut self) {
        if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.begin_reduction();
            self.recovery.phase = Phase::Reduced;
            self.recovery.end = self.snd.nxt;
        }
    }

    /// The retransmission timer fired (RFC 5681 section 3.1, equation 4). Whatever else is believed to be in flight, the head leaves again.
    pub fn enter_loss(&mut self) {
        let again = self.recovery.phase == Phase::Loss && self.timers.timeouts > 0;
        if !again && self.recovery.phase != Phase::Recovery {
            self.begin_episode();
            self.cc.ssthresh = self.cc.threshold_after_loss();
        }
        self.cc.timed_out();
        self.board.mark_all_lost();
        self.cc.cwnd = self.board.in_flight() + 1;
        self.recovery.phase = Phase::Loss;
        self.recovery.end = self.snd.nxt;
        self.recovery.tail_probe_end = None;
        self.recovery.duplicates = 0;
    }

    fn leave_phase(&mut self) {
        if self.recovery.reducing() {
            self.cc.cwnd = self.cc.ssthresh;
        }
        self.recovery.phase = Phase::Open;
        self.recovery.undo = None;
        self.recovery.duplicates = 0;
        self.recovery.steps_keep = self.recovery.steps_keep.saturating_sub(1);
        if self.recovery.steps_keep == 0 {
            self.recovery.window_steps = 1;
        }
    }

    /// RFC 3522: the acknowledgement answers a segment sent before the first retransmission; or every retransmission has been
    /// reported as a duplicate.
    fn was_spurious(&self, echo: Option<u32>) -> bool {
        let (Some(count), Some(resent)) = (self.recovery.undo, self.recovery.first_resent) else { return false };
        let earlier = echo.is_some_and(|echo| (echo.wrapping_sub(self.clock(resent)) as i32) < 0);
        earlier || count == 0
    }

    fn undo(&mut self) {
        self.cc.cwnd = self.cc.cwnd.max(self.recovery.prior_cwnd);
        self.cc.ssthresh = self.cc.ssthresh.max(self.recovery.prior_ssthresh);
        self.board.unmark_lost();
        self.recovery.undo = None;
        self.recovery.phase = Phase::Open;
    }

    /// Proportional Rate Reduction with the slow start reduction bound (RFC 6937 section 3).
    fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 && self.recovery.prr_out > 0 {
            return;
        }
        let in_flight = self.board.in_flight();
        self.recovery.prr_delivered += delivered;
        let (ssthresh, base) = (u64::from(self.cc.ssthresh), u64::from(self.recovery.reduction_base.max(1)));
        let delivered_so_far = u64::from(self.recovery.prr_delivered);
        let out = u64::from(self.recovery.prr_out);
        let allowed = if u64::from(in_flight) > ssthresh {
            (ssthresh * delivered_so_far).div_ceil(base).saturating_sub(out)
        } else {
            let gap = ssthresh - u64::from(in_flight);
            let mut limit = delivered_so_far.saturating_sub(out).max(u64::from(delivered));
            if advanced && lost == 0 {
                limit += 1;
            }
            gap.min(limit)
        };
        // The first retransmission of an episode always leaves.
        let allowed = allowed.max(u64::from(self.recovery.prr_out == 0)) as u32;
        self.cc.cwnd = in_flight + allowed;
    }

    /// What an acknowledgement says about the tail loss probe in flight (RFC 8985 section 7.4).
    pub fn judge_tail_probe(&mut self, ack: u64, dsack: bool) {
        let Some(end) = self.recovery.tail_probe_end else { return };
        if ack < end {
            return;
        }
        self.recovery.tail_probe_end = None;
        if self.recovery.tail_probe_resent && !dsack && ack > end {
            self.enter_reduced();
        }
    }
}
