//! How fast a flow's data is delivered (tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation): each segment remembers what had been
//! delivered when it was sent; when it is delivered itself, what came between, and the time that took, are a sample.

use base::{SimDuration, SimTime};

/// What a segment remembers of the moment when its last copy was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// When the first segment of the window was sent, the last of which had been delivered.
    first_sent: SimTime,
    /// When something had been delivered last, and how many segments in all.
    delivered_at: SimTime,
    delivered: u32,
    /// The program had less to send than the network could take.
    app_limited: bool,
}

/// What the segments that one acknowledgement names tell together: the one sent last counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RateSample {
    prior: Option<Moment>,
    end: u64,
    /// From the first segment of the window to the last, as they were sent.
    sending: SimDuration,
}

/// What an acknowledgement tells of the flow's rate, for who steers: so many segments were delivered in so much time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Delivery {
    pub segments: u32,
    /// The longer of the time in which they were sent and the time in which they were delivered.
    pub interval: SimDuration,
    /// The program had less to send than the network could take.
    pub app_limited: bool,
}

impl Delivery {
    /// In bytes per second, of segments of `mss` bytes; 0 for nothing (tcp_compute_delivery_rate).
    pub fn bytes_per_second(&self, mss: u32) -> u64 {
        let micros = u128::from(self.interval.as_nanos() / 1000);
        let bytes = u128::from(self.segments) * u128::from(mss) * 1_000_000;
        bytes.checked_div(micros).map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Both together: the last that the network limited, or the highest that the program did.
    pub fn then(self, next: Delivery) -> Delivery {
        let faster = u128::from(next.segments) * u128::from(self.interval.as_nanos())
            >= u128::from(self.segments) * u128::from(next.interval.as_nanos());
        if !next.app_limited || faster { next } else { self }
    }
}

#[derive(Debug)]
pub(crate) struct RateEstimator {
    first_sent: SimTime,
    delivered_at: SimTime,
    delivered: u32,
    /// The program is the limit until so many segments are delivered; 0 if it is not.
    app_limited: u32,
}

impl RateEstimator {
    pub fn new() -> Self {
        RateEstimator { first_sent: SimTime::ZERO, delivered_at: SimTime::ZERO, delivered: 0, app_limited: 0 }
    }

    /// A segment leaves; `first` if nothing else is in flight (tcp_rate_skb_sent).
    pub fn sent(&mut self, now: SimTime, first: bool) -> Moment {
        if first {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Moment {
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            app_limited: self.app_limited > 0,
        }
    }

    /// A segment that ends at `end`, whose last copy left at `sent_at`, was delivered (tcp_rate_skb_delivered).
    pub fn delivered(&mut self, sample: &mut RateSample, moment: Moment, sent_at: SimTime, end: u64) {
        if sample.prior.is_none() || (sent_at, end) > (self.first_sent, sample.end) {
            sample.prior = Some(moment);
            sample.end = end;
            sample.sending = sent_at.saturating_since(moment.first_sent);
            self.first_sent = sent_at;
        }
    }

    /// An acknowledgement has been looked at: so many segments were delivered (tcp_rate_gen). `reneged` says that the peer threw away what it
    /// had named. Gives what is to be said of the rate; nothing of what went faster than a round trip can be, which tells of gathered
    /// acknowledgements.
    pub fn conclude(
        &mut self,
        now: SimTime,
        sample: &RateSample,
        delivered: u32,
        min_rtt: SimDuration,
        reneged: bool,
    ) -> Option<Delivery> {
        self.delivered = self.delivered.wrapping_add(delivered);
        if self.app_limited > 0 && self.delivered.wrapping_sub(self.app_limited) as i32 > 0 {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let prior = sample.prior.filter(|_| !reneged)?;
        let segments = self.delivered.wrapping_sub(prior.delivered);
        let interval = sample.sending.max(now.saturating_since(prior.delivered_at));
        if interval < min_rtt {
            return None;
        }
        Some(Delivery { segments, interval, app_limited: prior.app_limited })
    }

    /// The program is about to write, and the network could have taken more than it had to send (tcp_rate_check_app_limited).
    pub fn limit_by_app(&mut self, in_flight: u32) {
        self.app_limited = self.delivered.wrapping_add(in_flight).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_window_in_a_round_trip_is_the_rate() {
        let mut rate = RateEstimator::new();
        let moments: Vec<Moment> = (0..10).map(|number| rate.sent(at(0), number == 0)).collect();
        let mut last = None;
        for (number, moment) in moments.into_iter().enumerate() {
            let mut sample = RateSample::default();
            rate.delivered(&mut sample, moment, at(0), 1000 * (number as u64 + 1));
            last = rate.conclude(at(100), &sample, 1, SimDuration::from_millis(100), false);
        }
        let last = last.expect("a sample");
        assert_eq!((last.bytes_per_second(1000), last.app_limited), (100_000, false));
    }

    #[test]
    fn what_the_program_limits_counts_only_if_it_is_faster() {
        let mut rate = RateEstimator::new();
        let mut known = Delivery::default();
        let mut round = |rate: &mut RateEstimator, sent: u64, segments: u32, limited: bool| {
            if limited {
                rate.limit_by_app(0);
            }
            let moments: Vec<Moment> = (0..segments).map(|number| rate.sent(at(sent), number == 0)).collect();
            let mut sample = RateSample::default();
            for (number, moment) in moments.into_iter().enumerate() {
                rate.delivered(&mut sample, moment, at(sent), sent * 1000 + number as u64);
            }
            let next = rate.conclude(at(sent + 10), &sample, segments, SimDuration::from_millis(10), false);
            known = known.then(next.expect("a sample"));
            (known.bytes_per_second(1000), known.app_limited)
        };
        assert_eq!(round(&mut rate, 0, 10, false), (1_000_000, false));
        assert_eq!(round(&mut rate, 100, 2, true), (1_000_000, false));
        assert_eq!(round(&mut rate, 200, 20, true), (2_000_000, true));
        assert_eq!(round(&mut rate, 300, 5, false), (500_000, false));
    }
}
