//! The congestion window and who steers it. Windows are in segments, as in Linux.

use super::cubic::Cubic;
use super::hystart::{Growth, HyStart};
use crate::config::CongestionControl;
use base::{SimDuration, SimTime};

/// RFC 6928.
pub(crate) const INITIAL_WINDOW: u32 = 10;
pub(crate) const NO_THRESHOLD: u32 = 0x7fff_ffff;

#[derive(Debug)]
enum Algorithm {
    Cubic(Cubic),
    Reno,
}

#[derive(Debug)]
pub(crate) struct Congestion {
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Segments acknowledged towards the next growth by one.
    credit: u32,
    algorithm: Algorithm,
}

impl Congestion {
    pub fn new(kind: CongestionControl) -> Self {
        let algorithm = match kind {
            CongestionControl::Cubic => Algorithm::Cubic(Cubic::new()),
            CongestionControl::Reno => Algorithm::Reno,
        };
        Congestion { cwnd: INITIAL_WINDOW, ssthresh: NO_THRESHOLD, credit: 0, algorithm }
    }

    pub fn kind(&self) -> CongestionControl {
        match self.algorithm {
            Algorithm::Cubic(_) => CongestionControl::Cubic,
            Algorithm::Reno => CongestionControl::Reno,
        }
    }

    pub fn switch(&mut self, kind: CongestionControl) {
        if kind != self.kind() {
            self.algorithm = Congestion::new(kind).algorithm;
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window for `acked` segments that were acknowledged outside a reduction.
    pub fn grow(
        &mut self,
        mut acked: u32,
        now: SimTime,
        una: u64,
        nxt: u64,
        rtt: Option<SimDuration>,
        srtt: SimDuration,
    ) {
        if self.in_slow_start() {
            acked = self.slow_start(acked, una, nxt, rtt);
            if acked == 0 {
                return;
            }
        }
        let per_growth = match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.segments_per_growth(self.cwnd, acked, now, srtt),
            Algorithm::Reno => self.cwnd,
        };
        self.avoid(per_growth.max(1), acked);
    }

    /// RFC 5681 section 3.1. Gives what is left of `acked` when the threshold is reached.
    fn slow_start(&mut self, acked: u32, una: u64, nxt: u64, rtt: Option<SimDuration>) -> u32 {
        let growth = match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.slow_start_growth(una, nxt, rtt),
            Algorithm::Reno => Growth::Full,
        };
        match growth {
            Growth::Stop => {
                self.ssthresh = self.cwnd;
                acked
            }
            Growth::Quarter => {
                self.credit += acked;
                let divisor = HyStart::css_divisor(growth);
                self.cwnd += self.credit / divisor;
                self.credit %= divisor;
                0
            }
            Growth::Full => {
                let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
                let left = acked - (grown - self.cwnd);
                self.cwnd = grown;
                left
            }
        }
    }

    fn avoid(&mut self, per_growth: u32, acked: u32) {
        // A slower pace than before must not make the old credit worth more than one segment.
        if self.credit >= per_growth {
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += acked;
        self.cwnd += self.credit / per_growth;
        self.credit %= per_growth;
    }

    /// What the threshold becomes on a loss now: 0.7 of the window with CUBIC, half with Reno.
    pub fn threshold_after_loss(&mut self) -> u32 {
        self.credit = 0;
        match &mut self.algorithm {
            Algorithm::Cubic(cubic) => cubic.threshold(self.cwnd),
            Algorithm::Reno => (self.cwnd / 2).max(2),
        }
    }

    pub fn timed_out(&mut self) {
        self.credit = 0;
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.timeout();
        }
    }

    /// Sending resumes after `idle` with nothing in flight (RFC 9438 section 4.2; RFC 5681 section 4.1 for the decay).
    pub fn resumed_after(&mut self, idle: SimDuration, rto: SimDuration, decay: bool) {
        if let Algorithm::Cubic(cubic) = &mut self.algorithm {
            cubic.resumed_after(idle);
        }
        if !decay || idle <= rto || rto.is_zero() {
            return;
        }
        // As Linux does: the threshold remembers three quarters of the window, which halves per timeout spent idle.
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(31);
        let floor = self.cwnd.min(INITIAL_WINDOW);
        self.cwnd = (self.cwnd >> halvings).max(floor);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_doubles_then_adds_one_per_round_trip() {
        let mut reno = Congestion::new(CongestionControl::Reno);
        reno.ssthresh = 40;
        let rtt = SimDuration::from_millis(10);
        reno.grow(10, SimTime::ZERO, 10, 20, Some(rtt), rtt);
        assert_eq!(reno.cwnd, 20);
        reno.grow(20, SimTime::ZERO, 30, 60, Some(rtt), rtt);
        assert_eq!(reno.cwnd, 40);
        for _ in 0..40 {
            reno.grow(1, SimTime::ZERO, 31, 60, Some(rtt), rtt);
        }
        assert_eq!(reno.cwnd, 41);
        assert_eq!(reno.threshold_after_loss(), 20);
    }

    #[test]
    fn idle_time_decays_the_window_to_the_initial_one() {
        let mut cubic = Congestion::new(CongestionControl::Cubic);
        cubic.cwnd = 100;
        let rto = SimDuration::from_millis(200);
        cubic.resumed_after(SimDuration::from_millis(450), rto, true);
        assert_eq!(cubic.cwnd, 25);
        cubic.resumed_after(SimDuration::from_secs(60), rto, true);
        assert_eq!(cubic.cwnd, INITIAL_WINDOW);
    }
}
