//! Who steers the congestion window. A [`Controller`] owns the window, the threshold and what is needed to reduce and to restore them;
//! recovery tells it what happens and never writes them itself. Windows are in segments, as in Linux.

use super::cubic::Cubic;
use crate::config::CongestionControl;
use base::{SimDuration, SimTime};

/// RFC 6928.
pub(crate) const INITIAL_WINDOW: u32 = 10;
pub(crate) const NO_THRESHOLD: u32 = 0x7fff_ffff;
const SMALLEST_THRESHOLD: u32 = 2;

/// What an acknowledgement brings to the one who steers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: SimTime,
    /// Segments that left the network: newly acknowledged or newly SACKed, each once.
    pub delivered: u32,
    /// The round trip of the segment among them that was sent last, if it was sent once only.
    pub rtt: Option<SimDuration>,
    pub una: u64,
    pub nxt: u64,
    pub srtt: SimDuration,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// What is sent is spread over the round trip.
    pub paced: bool,
}

/// How large the window may be. An algorithm of another kind (one that paces, as BBR) gets the same events.
#[derive(Debug)]
enum Algorithm {
    Cubic(Cubic),
    Reno,
}

/// Proportional Rate Reduction (RFC 6937 section 3).
#[derive(Debug, Default)]
struct Reduction {
    delivered: u32,
    out: u32,
    /// The window when it began.
    base: u32,
}

#[derive(Debug)]
pub(crate) struct Controller {
    cwnd: u32,
    ssthresh: u32,
    /// Segments acknowledged towards the next growth by one.
    credit: u32,
    reduction: Reduction,
    /// Window and threshold before the last reduction, for undoing it; None once that is out of the question.
    prior: Option<(u32, u32)>,
    algorithm: Algorithm,
}

impl Controller {
    pub fn new(kind: CongestionControl, hz: u32) -> Self {
        let algorithm = match kind {
            CongestionControl::Cubic => Algorithm::Cubic(Cubic::new(hz)),
            CongestionControl::Reno => Algorithm::Reno,
        };
        Controller {
            cwnd: INITIAL_WINDOW,
            ssthresh: NO_THRESHOLD,
            credit: 0,
            reduction: Reduction::default(),
            prior: None,
            algorithm,
        }
    }

    pub fn kind(&self) -> CongestionControl {
        match self.algorithm {
            Algorithm::Cubic(_) => CongestionControl::Cubic,
            Algorithm::Reno => CongestionControl::Reno,
        }
    }

    /// Another algorithm goes on with the window that is there.
    pub fn switch(&mut self, kind: CongestionControl, hz: u32) {
        if kind != self.kind() {
            self.algorithm = Controller::new(kind, hz).algorithm;
        }
    }

    pub fn cwnd(&self) -> u32 {
        self.cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The threshold that stands for the window (tcp_current_ssthresh).
    fn worth(&self, reducing: bool) -> u32 {
        if reducing { self.ssthresh } else { self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2)) }
    }

    /// Takes a round trip, whatever the phase (pkts_acked).
    pub fn take_rtt(&mut self, acked: &Acked) {
        let in_slow_start = self.in_slow_start();
        if let (Algorithm::Cubic(cubic), Some(rtt)) = (&mut self.algorithm, acked.rtt)
            && cubic.take_rtt(acked, rtt, self.cwnd, in_slow_start)
        {
            self.ssthresh = self.cwnd;
        }
    }

    /// Grows the window for what was delivered outside a reduction (cong_avoid).
    pub fn grow(&mut self, acked: &Acked) {
        let mut delivered = acked.delivered;
        if self.in_slow_start() {
            let grown = self.cwnd.saturating_add(delivered).min(self.ssthresh);
            delivered -= grown - self.cwnd;
            self.cwnd = grown;
            if delivered == 0 {
                return;
            }
        }
        let per_growth = match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.segments_per_growth(self.cwnd, delivered, acked.now),
            Algorithm::Reno => self.cwnd,
        };
        self.avoid(per_growth.max(1), delivered);
    }

    /// Congestion avoidance: a segment more for so many acknowledged (tcp_cong_avoid_ai).
    fn avoid(&mut self, per_growth: u32, delivered: u32) {
        // A slower pace than before must not make the old credit worth more than one segment.
        if self.credit >= per_growth {
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += delivered;
        self.cwnd += self.credit / per_growth;
        self.credit %= per_growth;
    }

    /// What the threshold becomes on a loss now: 0.7 of the window with CUBIC, half with Reno.
    fn threshold_after_loss(&mut self) -> u32 {
        match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.threshold(self.cwnd),
            Algorithm::Reno => self.cwnd / 2,
        }
        .max(SMALLEST_THRESHOLD)
    }

    fn remember(&mut self, reducing: bool) {
        self.prior = Some((self.cwnd, self.worth(reducing)));
    }

    /// A loss is being repaired, or a probe has repaired one: the window shrinks with what is delivered (tcp_init_cwnd_reduction).
    pub fn begin_reduction(&mut self) {
        self.remember(false);
        self.reduction = Reduction { delivered: 0, out: 0, base: self.cwnd };
        self.ssthresh = self.threshold_after_loss();
        self.credit = 0;
    }

    /// Segments leave, during a reduction perhaps.
    pub fn note_sent(&mut self, segments: u32) {
        self.reduction.out += segments;
    }

    /// They have not left after all.
    pub fn note_refused(&mut self, segments: u32) {
        self.reduction.out = self.reduction.out.saturating_sub(segments);
    }

    /// Undoing the last reduction is out of the question.
    pub fn forget(&mut self) {
        self.prior = None;
    }

    /// Proportional Rate Reduction with the slow start reduction bound (tcp_cwnd_reduction).
    pub fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool, in_flight: u32) {
        if delivered == 0 {
            return;
        }
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let (ssthresh, base) = (u64::from(self.ssthresh), u64::from(reduction.base.max(1)));
        let (so_far, out) = (u64::from(reduction.delivered), u64::from(reduction.out));
        let allowed = if u64::from(in_flight) > ssthresh {
            (ssthresh * so_far).div_ceil(base).saturating_sub(out)
        } else {
            let mut limit = so_far.saturating_sub(out).max(u64::from(delivered));
            limit += u64::from(advanced && lost == 0);
            (ssthresh - u64::from(in_flight)).min(limit)
        };
        // The first retransmission of an episode always leaves.
        let allowed = allowed.max(u64::from(reduction.out == 0)) as u32;
        self.cwnd = in_flight + allowed;
    }

    /// The reduction is over (tcp_end_cwnd_reduction).
    pub fn end_reduction(&mut self) {
        if self.ssthresh < NO_THRESHOLD {
            self.cwnd = self.ssthresh;
        }
    }

    /// The retransmission timer fired; `anew` when that is not one episode with the last time (tcp_enter_loss).
    pub fn timed_out(&mut self, now: SimTime, nxt: u64, anew: bool, reducing: bool) {
        if anew {
            self.remember(reducing);
            self.ssthresh = self.threshold_after_loss();
        }
        self.credit = 0;
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.reset(now, nxt);
        }
    }

    /// After a timeout only the head leaves, whatever is believed to be in the network.
    pub fn restart(&mut self, in_flight: u32) {
        self.cwnd = in_flight + 1;
    }

    /// The last reduction was a false alarm (tcp_undo_cwnd_reduction).
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// Sending resumes after `idle` with nothing in flight: CUBIC's clock stood still (RFC 9438 section 4.2).
    pub fn resumed_after(&mut self, idle: SimDuration) {
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.resumed_after(idle);
        }
    }

    /// A write comes after `idle` with nothing in flight (RFC 5681 section 4.1; tcp_cwnd_restart).
    pub fn restart_after_idle(&mut self, idle: SimDuration, rto: SimDuration) {
        if idle <= rto || rto.is_zero() {
            return;
        }
        // As Linux does: the threshold remembers three quarters of the window, which halves per timeout spent idle.
        self.ssthresh = self.worth(false);
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(31);
        let floor = self.cwnd.min(INITIAL_WINDOW);
        self.cwnd = (self.cwnd >> halvings).max(floor);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(delivered: u32) -> Acked {
        let rtt = SimDuration::from_millis(10);
        Acked { now: SimTime::ZERO, delivered, rtt: Some(rtt), una: 10, nxt: 20, srtt: rtt, mss: 1448, paced: false }
    }

    #[test]
    fn reno_doubles_then_adds_one_per_round_trip() {
        let mut reno = Controller::new(CongestionControl::Reno, 1000);
        reno.ssthresh = 40;
        reno.grow(&acked(10));
        assert_eq!(reno.cwnd, 20);
        reno.grow(&acked(20));
        assert_eq!(reno.cwnd, 40);
        for _ in 0..40 {
            reno.grow(&acked(1));
        }
        assert_eq!(reno.cwnd, 41);
        reno.begin_reduction();
        assert_eq!(reno.ssthresh, 20);
    }

    #[test]
    fn idle_time_decays_the_window_to_the_initial_one() {
        let mut cubic = Controller::new(CongestionControl::Cubic, 1000);
        cubic.cwnd = 100;
        let rto = SimDuration::from_millis(200);
        cubic.restart_after_idle(SimDuration::from_millis(450), rto);
        assert_eq!(cubic.cwnd, 25);
        cubic.restart_after_idle(SimDuration::from_secs(60), rto);
        assert_eq!(cubic.cwnd, INITIAL_WINDOW);
    }

    #[test]
    fn a_reduction_follows_what_is_delivered_and_can_be_undone() {
        let mut cubic = Controller::new(CongestionControl::Cubic, 1000);
        (cubic.cwnd, cubic.ssthresh) = (100, 90);
        cubic.begin_reduction();
        assert_eq!(cubic.ssthresh, 70);
        // Nothing was sent yet: the first retransmission leaves.
        cubic.reduce(1, 1, false, 96);
        assert_eq!(cubic.cwnd, 97);
        cubic.note_sent(1);
        // Seven segments for each ten delivered, rounded up.
        cubic.reduce(9, 0, false, 88);
        assert_eq!(cubic.cwnd, 88 + 6);
        cubic.end_reduction();
        assert_eq!(cubic.cwnd, 70);
        cubic.undo();
        assert_eq!((cubic.cwnd, cubic.ssthresh), (100, 90));
        cubic.cwnd = 5;
        cubic.undo();
        assert_eq!(cubic.cwnd, 5, "once");
    }

    #[test]
    fn a_timeout_counts_once_for_one_episode() {
        let mut reno = Controller::new(CongestionControl::Reno, 1000);
        reno.cwnd = 40;
        reno.timed_out(SimTime::ZERO, 0, true, false);
        reno.restart(3);
        assert_eq!((reno.cwnd, reno.ssthresh), (4, 20));
        reno.timed_out(SimTime::ZERO, 0, false, false);
        reno.restart(0);
        assert_eq!((reno.cwnd, reno.ssthresh), (1, 20));
    }
}
