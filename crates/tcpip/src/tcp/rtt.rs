//! Round trip times and the retransmission timeout (RFC 6298, with Linux's floor of 200 ms on the variance term).

use base::{SimDuration, SimTime};

pub(crate) const RTO_MIN: SimDuration = SimDuration::from_millis(200);
/// RFC 6298 section 2.1.
pub(crate) const RTO_INITIAL: SimDuration = SimDuration::from_secs(1);
/// How long a minimum counts (net.ipv4.tcp_min_rtt_wlen).
const MIN_WINDOW: SimDuration = SimDuration::from_secs(300);

/// All in nanoseconds.
#[derive(Debug)]
pub(crate) struct RttEstimator {
    srtt: u64,
    /// Mean deviation.
    mdev: u64,
    /// The largest deviation of this round trip.
    mdev_max: u64,
    rttvar: u64,
    /// When the sequence reaches this number, a round trip has passed.
    round_end: u64,
    min: u64,
    min_at: SimTime,
    /// Bounds of the timeout (of its variance, below): tcp_rto_min_us and tcp_rto_max_ms, in these units.
    least_us: u32,
    most_ms: u32,
    /// Exponent of the backoff: how often the timer has fired in a row.
    pub backoff: u32,
}

impl RttEstimator {
    pub fn new(least: SimDuration, most: SimDuration) -> Self {
        RttEstimator {
            srtt: 0,
            mdev: 0,
            mdev_max: 0,
            rttvar: 0,
            round_end: 0,
            min: u64::MAX,
            min_at: SimTime::ZERO,
            least_us: u32::try_from(least.as_nanos() / 1_000).unwrap_or(u32::MAX),
            most_ms: u32::try_from(most.as_millis()).unwrap_or(u32::MAX),
            backoff: 0,
        }
    }

    /// Takes one measurement (RFC 6298 section 2.2 and 2.3). The variance grows at once and shrinks at most once per round
    /// trip; a falling RTT counts an eighth as much, or it would raise the timeout (as in Linux).
    pub fn sample(&mut self, rtt: SimDuration, now: SimTime, una: u64, nxt: u64) {
        let rtt = rtt.as_nanos().max(1);
        let floor = self.least().as_nanos() / 4;
        if rtt <= self.min || now.saturating_since(self.min_at) > MIN_WINDOW {
            self.min = rtt;
            self.min_at = now;
        }
        if self.srtt == 0 {
            self.srtt = rtt;
            self.mdev = rtt / 2;
            self.rttvar = self.mdev.max(floor);
            self.mdev_max = self.rttvar;
            self.round_end = nxt;
            return;
        }
        let error = rtt.abs_diff(self.srtt);
        if rtt >= self.srtt {
            self.srtt += error / 8;
            self.mdev = self.mdev - self.mdev / 4 + error / 4;
        } else {
            self.srtt -= error / 8;
            let weight = if error > self.mdev { 32 } else { 4 };
            self.mdev = (self.mdev - self.mdev / weight) + error / weight;
        }
        self.mdev_max = self.mdev_max.max(self.mdev);
        self.rttvar = self.rttvar.max(self.mdev_max);
        if una > self.round_end {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) / 4;
            }
            self.round_end = nxt;
            self.mdev_max = floor;
        }
    }

    /// No timeout is shorter than a round trip and this.
    pub fn least(&self) -> SimDuration {
        SimDuration::from_micros(self.least_us.into())
    }

    /// No timeout is longer.
    pub fn most(&self) -> SimDuration {
        SimDuration::from_millis(self.most_ms.into())
    }

    pub fn measured(&self) -> bool {
        self.srtt != 0
    }

    pub fn srtt(&self) -> SimDuration {
        SimDuration::from_nanos(self.srtt)
    }

    pub fn mean_deviation(&self) -> SimDuration {
        SimDuration::from_nanos(self.mdev)
    }

    /// The smallest of the last five minutes; `None` before the first measurement.
    pub fn min(&self) -> Option<SimDuration> {
        (self.min != u64::MAX).then(|| SimDuration::from_nanos(self.min))
    }

    /// Without backoff: srtt + 4 * rttvar (RFC 6298 section 2.3).
    pub fn base_rto(&self) -> SimDuration {
        if self.srtt == 0 {
            return RTO_INITIAL;
        }
        SimDuration::from_nanos(self.srtt + 4 * self.rttvar).min(self.most())
    }

    /// With backoff (RFC 6298 section 5.5).
    pub fn rto(&self) -> SimDuration {
        self.base_rto().saturating_mul(1 << self.backoff.min(30)).min(self.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO_MAX: SimDuration = SimDuration::from_secs(120);

    #[test]
    fn rto_follows_rfc_6298_with_linux_floor() {
        let mut rtt = RttEstimator::new(RTO_MIN, RTO_MAX);
        assert_eq!(rtt.rto(), RTO_INITIAL);
        rtt.sample(SimDuration::from_millis(100), SimTime::ZERO, 0, 10);
        assert_eq!(rtt.rto(), SimDuration::from_millis(300));
        for round in 0..100 {
            rtt.sample(SimDuration::from_millis(100), SimTime::ZERO, 20 * round, 20 * round + 10);
        }
        assert_eq!(rtt.rto(), SimDuration::from_millis(300));
        rtt.backoff = 2;
        assert_eq!(rtt.rto(), SimDuration::from_millis(1200));
        rtt.backoff = 20;
        assert_eq!(rtt.rto(), RTO_MAX);
    }

    #[test]
    fn a_sudden_delay_raises_the_timeout_at_once() {
        let mut rtt = RttEstimator::new(RTO_MIN, RTO_MAX);
        rtt.sample(SimDuration::from_millis(10), SimTime::ZERO, 0, 10);
        rtt.sample(SimDuration::from_millis(1010), SimTime::ZERO, 5, 10);
        assert!(rtt.rto() > SimDuration::from_millis(1000), "{:?}", rtt.rto());
        assert_eq!(rtt.min(), Some(SimDuration::from_millis(10)));
    }
}
