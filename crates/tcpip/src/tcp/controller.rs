//! Who steers a connection: a [`Controller`] owns the congestion window, the threshold, the pace, and what is needed to reduce and to restore
//! them. Recovery tells it what happens and never writes them itself. What the window becomes is an [`Algorithm`]'s decision, which is told of
//! round trips, delivery rates, losses and false alarms. Windows are in segments, as in Linux.

use super::cubic::Cubic;
use super::rate::Delivery;
use crate::config::CongestionControl;
use base::{SimDuration, SimTime};
use std::fmt::Debug;
use std::num::NonZero;

/// RFC 6928.
pub(crate) const INITIAL_WINDOW: u32 = 10;
pub(crate) const NO_THRESHOLD: u32 = 0x7fff_ffff;
const SMALLEST_THRESHOLD: u32 = 2;

/// How the connection fares (Linux's tcp_ca_state).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Open,
    /// SACKs have come, nothing is known to be lost.
    Disorder,
    /// The host's own queue was full: the window shrinks, nothing is known to be lost.
    Cwr,
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

impl Phase {
    /// The window shrinks with what is delivered (tcp_in_cwnd_reduction).
    pub fn reduces(self) -> bool {
        matches!(self, Phase::Cwr | Phase::Recovery)
    }
}

/// What the pace follows from, besides the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    /// Segments sent and not acknowledged.
    pub out: u32,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Zero before the first measurement.
    pub srtt: SimDuration,
    /// The pace in percent of a window in a round trip, in slow start and after it.
    pub percent: (u32, u32),
}

/// What an acknowledgement brings to the one who steers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: SimTime,
    /// After what this acknowledgement has made of it.
    pub phase: Phase,
    /// Segments that left the network: newly acknowledged or newly SACKed, each once.
    pub delivered: u32,
    /// Segments that are newly believed to be lost.
    pub lost: u32,
    /// Something was acknowledged cumulatively.
    pub advanced: bool,
    /// What it acknowledged may open the window: not what SACK names, unless segments arrive in another order (tcp_may_raise_cwnd).
    pub may_grow: bool,
    /// The round trip of the segment among them that was sent last, if it was sent once only.
    pub rtt: Option<SimDuration>,
    /// How fast it was delivered, where that could be measured.
    pub rate: Option<Delivery>,
    pub una: u64,
    pub nxt: u64,
    pub in_flight: u32,
    pub pipe: Pipe,
    /// What is sent is spread over the round trip.
    pub paced: bool,
}

/// What an algorithm decides about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steering {
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Payload in bytes per second, headers not counted; None while nothing is known of round trips.
    pub pacing_rate: Option<NonZero<u64>>,
}

impl Steering {
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// What happens to a connection, for who decides how large its window is (Linux's tcp_congestion_ops). Most say only how they grow it and by how
/// much a loss cuts it; one that `rules` decides window and pace at each acknowledgement.
pub(crate) trait Algorithm: Debug + Send {
    /// What the threshold becomes on a loss now (ssthresh).
    fn threshold(&mut self, steering: &Steering) -> u32;

    /// In congestion avoidance: after how many acknowledged segments the window grows by one; `delivered` are some of them (cong_avoid).
    fn segments_per_growth(&mut self, steering: &Steering, _delivered: u32, _now: SimTime) -> u32 {
        steering.cwnd
    }

    /// A round trip was measured, in whatever phase (pkts_acked). May set the threshold, which ends slow start.
    fn take_rtt(&mut self, _steering: &mut Steering, _acked: &Acked, _rtt: SimDuration) {}

    /// The retransmission timer fired (set_state with TCP_CA_Loss).
    fn timed_out(&mut self, _now: SimTime, _nxt: u64) {}

    /// The last reduction, from a window of `prior`, was a false alarm: the window from now on (undo_cwnd).
    fn undone(&mut self, steering: &Steering, prior: u32) -> u32 {
        steering.cwnd.max(prior)
    }

    /// Sending resumes after `idle` with nothing in flight (cwnd_event with CA_EVENT_TX_START).
    fn resumed_after(&mut self, _idle: SimDuration) {}

    /// It decides in `rule`, and wants to be paced; nothing else touches window and pace but a timeout.
    fn rules(&self) -> bool {
        false
    }

    /// Sets window and pace after each acknowledgement, in place of growth and of the reduction after a loss (cong_control).
    fn rule(&mut self, _steering: &mut Steering, _acked: &Acked) {}
}

/// RFC 5681.
#[derive(Debug)]
struct Reno;

impl Algorithm for Reno {
    fn threshold(&mut self, steering: &Steering) -> u32 {
        steering.cwnd / 2
    }
}

/// The algorithm in place, without memory of its own where it is small.
#[derive(Debug)]
enum Choice {
    Cubic(Cubic),
    Reno(Reno),
    #[cfg(test)]
    Other(Box<dyn Algorithm>),
}

impl Choice {
    fn new(kind: CongestionControl, hz: u32) -> Choice {
        match kind {
            CongestionControl::Cubic => Choice::Cubic(Cubic::new(hz)),
            CongestionControl::Reno => Choice::Reno(Reno),
        }
    }

    fn get(&self) -> &dyn Algorithm {
        match self {
            Choice::Cubic(cubic) => cubic,
            Choice::Reno(reno) => reno,
            #[cfg(test)]
            Choice::Other(other) => other.as_ref(),
        }
    }

    fn get_mut(&mut self) -> &mut dyn Algorithm {
        match self {
            Choice::Cubic(cubic) => cubic,
            Choice::Reno(reno) => reno,
            #[cfg(test)]
            Choice::Other(other) => other.as_mut(),
        }
    }
}

/// How much of the window was in use lately (tcp_cwnd_validate; RFC 7661's concern).
#[derive(Debug, Default)]
struct Use {
    /// It was the limit in this round.
    limited: bool,
    most_out: u32,
    round_end: u64,
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
    steering: Steering,
    /// Segments acknowledged towards the next growth by one.
    credit: u32,
    usage: Use,
    reduction: Reduction,
    /// Window and threshold before the last reduction, for undoing it; None once that is out of the question.
    prior: Option<(u32, u32)>,
    /// The last rate that counts, for who asks (`tcpi_delivery_rate`).
    delivery: Delivery,
    choice: Choice,
}

impl Controller {
    pub fn new(kind: CongestionControl, hz: u32) -> Self {
        Controller {
            steering: Steering { cwnd: INITIAL_WINDOW, ssthresh: NO_THRESHOLD, pacing_rate: None },
            credit: 0,
            usage: Use::default(),
            reduction: Reduction::default(),
            prior: None,
            delivery: Delivery { app_limited: true, ..Delivery::default() },
            choice: Choice::new(kind, hz),
        }
    }

    /// Steered by an algorithm that no program can choose.
    #[cfg(test)]
    pub fn steered_by(other: Box<dyn Algorithm>) -> Self {
        let mut controller = Controller::new(CongestionControl::Reno, 1000);
        controller.choice = Choice::Other(other);
        controller
    }

    pub fn kind(&self) -> CongestionControl {
        match self.choice {
            Choice::Cubic(_) => CongestionControl::Cubic,
            Choice::Reno(_) => CongestionControl::Reno,
            #[cfg(test)]
            Choice::Other(_) => CongestionControl::Reno,
        }
    }

    /// Another algorithm goes on with the window that is there.
    pub fn switch(&mut self, kind: CongestionControl, hz: u32) {
        if kind != self.kind() {
            self.choice = Choice::new(kind, hz);
        }
    }

    pub fn cwnd(&self) -> u32 {
        self.steering.cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.steering.ssthresh
    }

    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// The algorithm decides window and pace by itself, and wants what is sent to be paced.
    pub fn rules(&self) -> bool {
        self.choice.get().rules()
    }

    /// At which rate what is sent may leave, in bytes of payload per second; None while nothing is known.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.steering.pacing_rate.map(NonZero::get)
    }

    /// Where the algorithm does not say, the window (or what is in flight, if that is more) leaves in a round trip, with room to grow. The rate
    /// holds until the next acknowledgement, whatever becomes of the window until then (tcp_update_pacing_rate).
    pub fn keep_pace(&mut self, pipe: &Pipe) {
        if self.rules() {
            return;
        }
        let (slow_start, avoidance) = pipe.percent;
        let percent = if self.cwnd() < self.ssthresh() / 2 { slow_start } else { avoidance };
        let window = u64::from(self.cwnd().max(pipe.out)) * u64::from(pipe.mss);
        let rate = (u128::from(window) * 10_000_000 * u128::from(percent)).checked_div(pipe.srtt.as_nanos().into());
        self.steering.pacing_rate = rate.and_then(|rate| NonZero::new(u64::try_from(rate).unwrap_or(u64::MAX)));
    }

    /// The threshold that stands for the window (tcp_current_ssthresh).
    fn worth(&self, reducing: bool) -> u32 {
        let Steering { cwnd, ssthresh, .. } = self.steering;
        if reducing { ssthresh } else { ssthresh.max((cwnd >> 1) + (cwnd >> 2)) }
    }

    /// An acknowledgement has been judged (tcp_cong_control).
    pub fn acknowledged(&mut self, acked: &Acked) {
        if let Some(rate) = acked.rate {
            self.delivery = self.delivery.then(rate);
        }
        let algorithm = self.choice.get_mut();
        if let Some(rtt) = acked.rtt {
            algorithm.take_rtt(&mut self.steering, acked, rtt);
        }
        if algorithm.rules() {
            algorithm.rule(&mut self.steering, acked);
        } else if acked.phase.reduces() {
            self.reduce(acked.delivered, acked.lost, acked.advanced, acked.in_flight);
        } else if acked.delivered > 0 && acked.may_grow && self.is_limit() {
            self.grow(acked.delivered, acked.now);
        }
        self.keep_pace(&acked.pipe);
    }

    /// What was sent has been held back by the window in this round, or slow start still has use for more (tcp_is_cwnd_limited).
    fn is_limit(&self) -> bool {
        self.usage.limited || (self.steering.in_slow_start() && self.cwnd() < 2 * self.usage.most_out)
    }

    /// `out` segments are in flight, and more would be if the window were not `limited`.
    pub fn note_use(&mut self, una: u64, nxt: u64, out: u32, limited: bool) {
        let usage = &mut self.usage;
        if una >= usage.round_end || limited || (!usage.limited && out > usage.most_out) {
            *usage = Use { limited, most_out: out, round_end: nxt };
        }
    }

    /// Grows the window for what was delivered outside a reduction (cong_avoid).
    fn grow(&mut self, mut delivered: u32, now: SimTime) {
        let steering = &mut self.steering;
        if steering.in_slow_start() {
            let grown = steering.cwnd.saturating_add(delivered).min(steering.ssthresh);
            delivered -= grown - steering.cwnd;
            steering.cwnd = grown;
            if delivered == 0 {
                return;
            }
        }
        let per_growth = self.choice.get_mut().segments_per_growth(&self.steering, delivered, now);
        self.avoid(per_growth.max(1), delivered);
    }

    /// Congestion avoidance: a segment more for so many acknowledged (tcp_cong_avoid_ai).
    fn avoid(&mut self, per_growth: u32, delivered: u32) {
        // A slower pace than before must not make the old credit worth more than one segment.
        if self.credit >= per_growth {
            self.credit = 0;
            self.steering.cwnd += 1;
        }
        self.credit += delivered;
        self.steering.cwnd += self.credit / per_growth;
        self.credit %= per_growth;
    }

    fn threshold_after_loss(&mut self) -> u32 {
        self.choice.get_mut().threshold(&self.steering).max(SMALLEST_THRESHOLD)
    }

    fn remember(&mut self, reducing: bool) {
        self.prior = Some((self.cwnd(), self.worth(reducing)));
    }

    /// A loss is being repaired, or a probe has repaired one: the window shrinks with what is delivered (tcp_init_cwnd_reduction).
    pub fn begin_reduction(&mut self) {
        self.remember(false);
        self.reduction = Reduction { delivered: 0, out: 0, base: self.cwnd() };
        self.steering.ssthresh = self.threshold_after_loss();
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
        if delivered == 0 || self.rules() {
            return;
        }
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let (ssthresh, base) = (u64::from(self.steering.ssthresh), u64::from(reduction.base.max(1)));
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
        self.steering.cwnd = in_flight + allowed;
    }

    /// The reduction is over (tcp_end_cwnd_reduction).
    pub fn end_reduction(&mut self) {
        if self.ssthresh() < NO_THRESHOLD && !self.rules() {
            self.steering.cwnd = self.ssthresh();
        }
    }

    /// The retransmission timer fired; `anew` when that is not one episode with the last time (tcp_enter_loss).
    pub fn timed_out(&mut self, now: SimTime, nxt: u64, anew: bool, reducing: bool) {
        if anew {
            self.remember(reducing);
            self.steering.ssthresh = self.threshold_after_loss();
        }
        self.credit = 0;
        self.choice.get_mut().timed_out(now, nxt);
    }

    /// After a timeout only the head leaves, whatever is believed to be in the network.
    pub fn restart(&mut self, in_flight: u32) {
        self.steering.cwnd = in_flight + 1;
    }

    /// The last reduction was a false alarm (tcp_undo_cwnd_reduction).
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.steering.cwnd = self.choice.get_mut().undone(&self.steering, cwnd);
            self.steering.ssthresh = self.ssthresh().max(ssthresh);
        }
    }

    /// Sending resumes after `idle` with nothing in flight.
    pub fn resumed_after(&mut self, idle: SimDuration) {
        self.choice.get_mut().resumed_after(idle);
    }

    /// A write comes after `idle` with nothing in flight (RFC 5681 section 4.1; tcp_cwnd_restart).
    pub fn restart_after_idle(&mut self, idle: SimDuration, rto: SimDuration) {
        if idle <= rto || rto.is_zero() || self.rules() {
            return;
        }
        // As Linux does: the threshold remembers three quarters of the window, which halves per timeout spent idle.
        self.steering.ssthresh = self.worth(false);
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(31);
        let floor = self.cwnd().min(INITIAL_WINDOW);
        self.steering.cwnd = (self.cwnd() >> halvings).max(floor);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steered(kind: CongestionControl, cwnd: u32, ssthresh: u32) -> Controller {
        let mut controller = Controller::new(kind, 1000);
        (controller.steering.cwnd, controller.steering.ssthresh) = (cwnd, ssthresh);
        controller
    }

    #[test]
    fn reno_doubles_then_adds_one_per_round_trip() {
        let mut reno = steered(CongestionControl::Reno, 10, 40);
        reno.grow(10, SimTime::ZERO);
        assert_eq!(reno.cwnd(), 20);
        reno.grow(20, SimTime::ZERO);
        assert_eq!(reno.cwnd(), 40);
        for _ in 0..40 {
            reno.grow(1, SimTime::ZERO);
        }
        assert_eq!(reno.cwnd(), 41);
        reno.begin_reduction();
        assert_eq!(reno.ssthresh(), 20);
    }

    #[test]
    fn idle_time_decays_the_window_to_the_initial_one() {
        let mut cubic = steered(CongestionControl::Cubic, 100, NO_THRESHOLD);
        let rto = SimDuration::from_millis(200);
        cubic.restart_after_idle(SimDuration::from_millis(450), rto);
        assert_eq!(cubic.cwnd(), 25);
        cubic.restart_after_idle(SimDuration::from_secs(60), rto);
        assert_eq!(cubic.cwnd(), INITIAL_WINDOW);
    }

    #[test]
    fn a_reduction_follows_what_is_delivered_and_can_be_undone() {
        let mut cubic = steered(CongestionControl::Cubic, 100, 90);
        cubic.begin_reduction();
        assert_eq!(cubic.ssthresh(), 70);
        // Nothing was sent yet: the first retransmission leaves.
        cubic.reduce(1, 1, false, 96);
        assert_eq!(cubic.cwnd(), 97);
        cubic.note_sent(1);
        // Seven segments for each ten delivered, rounded up.
        cubic.reduce(9, 0, false, 88);
        assert_eq!(cubic.cwnd(), 88 + 6);
        cubic.end_reduction();
        assert_eq!(cubic.cwnd(), 70);
        cubic.undo();
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (100, 90));
        cubic.steering.cwnd = 5;
        cubic.undo();
        assert_eq!(cubic.cwnd(), 5, "once");
    }

    #[test]
    fn a_timeout_counts_once_for_one_episode() {
        let mut reno = steered(CongestionControl::Reno, 40, NO_THRESHOLD);
        reno.timed_out(SimTime::ZERO, 0, true, false);
        reno.restart(3);
        assert_eq!((reno.cwnd(), reno.ssthresh()), (4, 20));
        reno.timed_out(SimTime::ZERO, 0, false, false);
        reno.restart(0);
        assert_eq!((reno.cwnd(), reno.ssthresh()), (1, 20));
    }
}
