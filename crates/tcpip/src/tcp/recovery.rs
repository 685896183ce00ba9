//! What the sender does about loss: when recovery begins and ends, and how a false alarm is found and undone (Eifel, RFC 3522; D-SACK,
//! RFC 3708; F-RTO, RFC 5682). What that means for the window is the [`Controller`](super::controller::Controller)'s business.

use super::connection::Connection;
use super::controller::Phase;
use super::scoreboard::AckSample;
use base::{SimDuration, SimTime};

/// How much later than the verdict is possible the timer for it fires (TCP_TIMEOUT_MIN_US).
const VERDICT_SLACK: SimDuration = SimDuration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// The phase ends when this is acknowledged.
    end: u64,
    /// Retransmissions of this episode not yet reported as duplicates, -1 before there is one (undo_retrans); `None` before the first episode and
    /// once undoing is out of the question. It outlives the episode: duplicates may be reported late.
    undo: Option<i32>,
    /// Only data from here on counts for that.
    undo_from: u64,
    /// After a timeout: the acknowledgements to come may tell that it was needless (F-RTO).
    suspects_timeout: bool,
    /// Two segments of new data go before retransmissions.
    pub prefers_new: bool,
    /// When the first retransmission of this episode left.
    first_resent: Option<SimTime>,
    /// Multiplier of the reordering window; grows with each round in which D-SACK reports a needless retransmission.
    window_steps: u32,
    /// How far apart segments were seen to arrive, in segments: so many later ones tell a loss.
    pub reordering: u32,
    steps_round: u64,
    steps_keep: u32,
    pub tail_probe_end: Option<u64>,
    pub tail_probe_resent: bool,
    /// Acknowledgements that repeat the last one, without SACK (RFC 5681).
    pub duplicates: u32,
    /// The stack must send a RST for this connection, which has just failed.
    pub reset_due: bool,
}

impl Recovery {
    /// `reordering` is how far apart segments are thought to arrive at first.
    pub fn new(reordering: u32) -> Self {
        Recovery {
            phase: Phase::Open,
            end: 0,
            undo: None,
            undo_from: 0,
            suspects_timeout: false,
            prefers_new: false,
            first_resent: None,
            window_steps: 1,
            reordering,
            steps_round: 0,
            steps_keep: 0,
            tail_probe_end: None,
            tail_probe_resent: false,
            duplicates: 0,
            reset_due: false,
        }
    }

    /// Nothing is known of what is in flight: a tail loss probe may ask.
    pub fn may_probe(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Cwr)
    }

    pub fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// Undoing is out of the question.
    pub fn forget_episode(&mut self) {
        self.undo = None;
    }

    pub fn note_resent(&mut self, now: SimTime) {
        self.first_resent.get_or_insert(now);
        if let Some(count) = &mut self.undo {
            *count = (*count).max(0) + 1;
        }
    }

    /// There is no new data to send any more: whether retransmissions have waited for it in vain.
    pub fn stop_preferring_new(&mut self, nxt: u64) -> bool {
        let in_vain = self.prefers_new && nxt <= self.end;
        if in_vain {
            (self.prefers_new, self.suspects_timeout) = (false, false);
        }
        in_vain
    }
}

impl Connection {
    /// RFC 8985 section 6.2 step 4: a quarter of the smallest round trip, unless there is no sign of reordering and enough
    /// evidence of loss.
    fn reordering_window(&self) -> SimDuration {
        let unseen = self.counters.reordering_seen == 0;
        if unseen && (self.recovery.in_recovery() || self.board.sacked >= self.recovery.reordering) {
            return SimDuration::ZERO;
        }
        let quarter = self.rtt.min().map_or(0, |min| min.as_nanos() / 4);
        let window = quarter.saturating_mul(u64::from(self.recovery.window_steps));
        SimDuration::from_nanos(window.min(self.rtt.srtt().as_nanos()))
    }

    /// Marks lost segments, and notes when to look again where the verdict is still open.
    pub fn detect_losses(&mut self, now: SimTime) -> u32 {
        if !self.sack_enabled {
            return 0;
        }
        let (lost, again) = self.board.detect_losses(now, self.reordering_window());
        // Never later than a timeout would be.
        self.timers.verdict = again.map_or(SimTime::MAX, |at| (at + VERDICT_SLACK).min(now + self.rtt.rto()));
        lost
    }

    /// Segments have arrived late that were sent once only (tcp_check_sack_reordering).
    pub fn note_reordering(&mut self, sample: &AckSample) {
        let judges_sack = self.recovery.phase != Phase::Loss || self.recovery.undo.is_some();
        let forward = self.board.forward(self.snd.una);
        for low in [sample.sacked_late.filter(|_| judges_sack), sample.acked_late].into_iter().flatten() {
            if low < forward {
                let distance = (forward - low).div_ceil(u64::from(self.segment_payload())) as u32;
                self.recovery.reordering = self.recovery.reordering.max(distance.min(self.config.reordering_max));
                self.counters.reordering_seen += 1;
            }
        }
    }

    /// The payload of a full segment (mss_cache).
    fn segment_payload(&self) -> u32 {
        self.snd.mss - if self.timestamps_enabled { 12 } else { 0 }
    }

    /// A D-SACK came: something was retransmitted in vain (RFC 8985 section 6.2 step 4; RFC 3708).
    pub fn note_dsack(&mut self, range: (u64, u64), ack: u64, sample: &mut AckSample) {
        let length = range.1.saturating_sub(range.0);
        if length == 0 || length > u64::from(self.snd.max_window) {
            return;
        }
        let segments = length.div_ceil(u64::from(self.segment_payload())) as u32;
        self.counters.dsack_duplicates += segments;
        if self.counters.dsack_duplicates > self.counters.retransmitted {
            // More than was sent twice: the network's duplicates.
            return;
        }
        // What was retransmitted in vain was delivered, too.
        sample.delivered += segments;
        let of_episode = range.1 <= ack && range.1 > self.recovery.undo_from;
        if let (true, Some(count)) = (of_episode, &mut self.recovery.undo) {
            *count = if *count > 0 { count.saturating_sub_unsigned(segments).max(0) } else { *count };
        }
        let of_probe = self.recovery.tail_probe_end == Some(range.1);
        if self.counters.reordering_seen > 0 && !of_probe && self.snd.una >= self.recovery.steps_round {
            self.recovery.window_steps = (self.recovery.window_steps + 1).min(255);
            self.recovery.steps_round = self.snd.nxt;
            self.recovery.steps_keep = 16;
        }
    }

    /// Steers recovery after an acknowledgement has been taken (tcp_fastretrans_alert).
    pub fn recover(&mut self, now: SimTime, sample: &AckSample, advanced: bool, echo: Option<u32>, duplicate: bool) {
        if !self.sack_enabled {
            self.count_duplicates(advanced, duplicate);
        }
        self.leave_when_repaired(sample, advanced, echo);
        if self.recovery.phase != Phase::Loss {
            self.timeout_recoveries.end(now);
        }
        if self.board.lost > 0 && !self.recovery.in_recovery() {
            self.enter_recovery();
        } else if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.undo_late();
            self.recovery.phase = if self.board.arrived_early() > 0 { Phase::Disorder } else { Phase::Open };
        }
    }

    /// Where segments arrive in another order than they were sent, what SACK names counts as acknowledged (tcp_may_raise_cwnd).
    pub fn may_grow(&self, sample: &AckSample, advanced: bool) -> bool {
        advanced || (self.recovery.reordering > self.config.reordering && sample.sacked > 0)
    }

    /// The episode is over, and now the last of its retransmissions has been reported as a duplicate.
    pub fn undo_late(&mut self) {
        let is_over = matches!(self.recovery.phase, Phase::Open | Phase::Disorder);
        if is_over && self.recovery.undo == Some(0) {
            self.undo(false);
        }
    }

    /// What an acknowledgement says of the episode that is under way.
    fn leave_when_repaired(&mut self, sample: &AckSample, advanced: bool, echo: Option<u32>) {
        // Without SACK something above must be acknowledged, too, or what was sent twice would look like another loss (RFC 2582).
        let repaired = self.snd.una >= self.recovery.end + u64::from(!self.sack_enabled);
        match self.recovery.phase {
            Phase::Open | Phase::Disorder => {}
            Phase::Cwr => {
                if self.snd.una > self.recovery.end {
                    self.cc.end_reduction();
                    self.recovery.phase = Phase::Open;
                }
            }
            Phase::Recovery => {
                if repaired {
                    let spurious = self.was_spurious(echo);
                    if spurious {
                        self.undo(false);
                    }
                    self.leave_phase(!spurious && self.recovery.undo.is_some());
                } else if advanced && self.is_overtaken(echo) && self.board.retransmitted == 0 {
                    self.undo(true);
                }
            }
            Phase::Loss => self.process_loss(sample, advanced, repaired, echo),
        }
    }

    /// After a timeout (tcp_process_loss).
    fn process_loss(&mut self, sample: &AckSample, advanced: bool, repaired: bool, echo: Option<u32>) {
        if advanced && self.was_spurious(echo) {
            return self.undo(true);
        }
        self.recovery.prefers_new = false;
        if self.recovery.suspects_timeout {
            // Never retransmitted and arrived all the same: not everything was lost.
            if sample.lowest_original.is_some_and(|end| end <= self.recovery.end) {
                return self.undo(true);
            }
            if self.snd.nxt > self.recovery.end {
                if sample.sacked > 0 {
                    self.recovery.suspects_timeout = false;
                }
            } else if advanced && !repaired {
                // New data, if there is any, tells more than another retransmission.
                self.recovery.end = self.snd.nxt;
                self.recovery.suspects_timeout = self.not_sent() > 0 && self.window_has_room();
                self.recovery.prefers_new = self.recovery.suspects_timeout;
                return;
            }
        }
        if repaired {
            self.leave_phase(false);
        }
    }

    fn window_has_room(&self) -> bool {
        self.snd.una + u64::from(self.snd.window) > self.snd.nxt
    }

    /// RFC 6582 for peers without SACK: three duplicates mean a loss; a partial acknowledgement means another. Each duplicate tells that a
    /// segment has left the network (RFC 3042).
    fn count_duplicates(&mut self, advanced: bool, duplicate: bool) {
        if advanced {
            self.recovery.duplicates = 0;
            if self.recovery.in_recovery() && self.snd.una < self.recovery.end {
                self.board.mark_head_lost();
            }
        } else if duplicate {
            self.recovery.duplicates += 1;
            if self.recovery.duplicates == 3 && !self.recovery.in_recovery() {
                self.board.mark_head_lost();
            }
        }
    }

    fn begin_episode(&mut self) {
        // Copies that are in flight already may be reported, too: retransmissions and a tail loss probe (tcp_init_undo).
        let probes = i32::from(self.recovery.tail_probe_end.is_some() && self.recovery.tail_probe_resent);
        let copies = self.board.retransmitted as i32 + probes;
        self.recovery.undo = Some(if copies > 0 { copies } else { -1 });
        self.recovery.undo_from = self.snd.una;
        self.recovery.first_resent = None;
    }

    pub fn enter_recovery(&mut self) {
        self.begin_episode();
        if !self.recovery.phase.reduces() {
            self.cc.begin_reduction();
        }
        self.recovery.phase = Phase::Recovery;
        self.counters.recoveries += 1;
        self.recovery.end = self.snd.nxt;
        self.recovery.tail_probe_end = None;
        self.timers.tail_probe_due = false;
        self.wants_transmit = true;
    }

    /// The host itself has no room for what is sent: the window shrinks as after a loss, and can not be restored (tcp_enter_cwr).
    pub fn enter_cwr(&mut self) {
        if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.recovery.forget_episode();
            self.cc.begin_reduction();
            self.cc.forget();
            self.recovery.phase = Phase::Cwr;
            self.recovery.end = self.snd.nxt;
            self.recovery.tail_probe_end = None;
        }
    }

    /// A tail loss probe repaired a loss that nothing else has shown (RFC 8985 section 7.4.2): the window shrinks at once.
    fn end_probe_episode(&mut self) {
        if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.recovery.undo = None;
            self.cc.begin_reduction();
            self.cc.end_reduction();
        }
    }

    /// The retransmission timer fired (RFC 5681 section 3.1, equation 4). Whatever else is believed to be in flight, the head leaves again.
    pub fn enter_loss(&mut self, now: SimTime) {
        let phase = self.recovery.phase;
        let is_new = !self.recovery.in_recovery();
        let anew = matches!(phase, Phase::Open | Phase::Disorder)
            || self.snd.una >= self.recovery.end
            || (phase == Phase::Loss && self.timers.timeouts == 0);
        if anew {
            self.begin_episode();
        }
        if matches!(phase, Phase::Open | Phase::Disorder) && self.board.sacked >= self.config.reordering {
            // So many arrived later, and it was a loss all the same: reordering was thought too large.
            self.recovery.reordering = self.recovery.reordering.min(self.config.reordering);
        }
        self.cc.timed_out(now, self.snd.nxt, anew, phase.reduces());
        self.board.mark_timed_out(now);
        self.cc.restart(self.board.in_flight());
        self.recovery.phase = Phase::Loss;
        self.recovery.end = self.snd.nxt;
        self.recovery.suspects_timeout =
            self.config.frto > 0 && self.sack_enabled && (is_new || self.timers.timeouts > 0);
        self.recovery.prefers_new = false;
        self.recovery.tail_probe_end = None;
        self.recovery.duplicates = 0;
        self.timers.verdict = SimTime::MAX;
    }

    fn leave_phase(&mut self, reduced: bool) {
        if reduced {
            self.cc.end_reduction();
        }
        self.recovery.phase = Phase::Open;
        self.recovery.duplicates = 0;
        self.recovery.suspects_timeout = false;
        self.recovery.prefers_new = false;
        self.recovery.steps_keep = self.recovery.steps_keep.saturating_sub(1);
        if self.recovery.steps_keep == 0 {
            self.recovery.window_steps = 1;
        }
    }

    /// The acknowledgement answers a segment sent before the first retransmission (RFC 3522).
    fn is_overtaken(&self, echo: Option<u32>) -> bool {
        let (Some(_), Some(resent)) = (self.recovery.undo, self.recovery.first_resent) else { return false };
        echo.is_some_and(|echo| (echo.wrapping_sub(self.clock(resent)) as i32) < 0)
    }

    /// That, or every retransmission has been reported as a duplicate.
    fn was_spurious(&self, echo: Option<u32>) -> bool {
        self.is_overtaken(echo) || self.recovery.undo == Some(0)
    }

    /// The episode was a false alarm; with `unmark`, nothing is believed to be lost any more.
    fn undo(&mut self, unmark: bool) {
        self.cc.undo();
        self.counters.undone += 1;
        if unmark {
            self.board.unmark_lost();
        }
        self.recovery.undo = None;
        if self.recovery.phase != Phase::Recovery || unmark {
            self.recovery.phase = Phase::Open;
        }
        self.recovery.suspects_timeout = false;
        self.recovery.prefers_new = false;
    }

    /// What an acknowledgement says about the tail loss probe in flight (tcp_process_tlp_ack).
    pub fn judge_tail_probe(&mut self, ack: u64, advanced: bool, dsack: bool, news: bool) {
        let Some(end) = self.recovery.tail_probe_end else { return };
        if ack < end {
            return;
        }
        if !self.recovery.tail_probe_resent || dsack {
            self.recovery.tail_probe_end = None;
        } else if ack > end {
            // The probe's copy was needed: what it repaired was a loss.
            self.recovery.tail_probe_end = None;
            self.end_probe_episode();
        } else if !advanced && !news {
            // The original and the probe have arrived.
            self.recovery.tail_probe_end = None;
        }
    }
}
