//! Jitter that drifts: the delay of a way as a function of time, so that packets of a way never overtake each other.
//!
//! A way is that from one host to another. At whole multiples of a step it has delays that are drawn once and for all from the
//! experiment's seed; between them the delay goes in a straight line. The step is as long as the jitter at least, so the delay
//! never falls faster than time passes: what leaves later arrives no earlier. Nothing is kept, and no stream of random numbers is
//! used: a packet's delay depends on the seed, its way and its moment alone.

use base::{HostId, SimDuration, SimTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drift {
    pub seed: u64,
    /// The time between two drawn delays; not zero.
    pub step: SimDuration,
}

impl Drift {
    /// What is added at `now` to the way's latency; at most `jitter`. A third of it on average: delays are squares of uniform
    /// numbers, as queues are short most of the time.
    pub fn delay(&self, from: HostId, to: HostId, now: SimTime, jitter: SimDuration) -> SimDuration {
        let step = self.step.as_nanos().max(jitter.as_nanos());
        let (number, into) = (now.as_nanos() / step, now.as_nanos() % step);
        let way = mix(self.seed ^ mix((u64::from(from.0) << 32) | u64::from(to.0)));
        let delay_at = |number: u64| {
            let uniform = u128::from(mix(way ^ mix(number)) >> 32);
            (u128::from(jitter.as_nanos()) * (uniform * uniform)) >> 64
        };
        let (before, after) = (delay_at(number), delay_at(number.wrapping_add(1)));
        let delay = (before * u128::from(step - into) + after * u128::from(into)) / u128::from(step);
        SimDuration::from_nanos(delay as u64)
    }
}

/// Steele, Lea and Flood's SplitMix64: each bit of the result depends on all bits of the number.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JITTER: SimDuration = SimDuration::from_millis(10);

    fn drift(seed: u64, step_ms: u64) -> Drift {
        Drift { seed, step: SimDuration::from_millis(step_ms) }
    }

    fn delays(drift: Drift, from: u32, to: u32, every_us: u64) -> Vec<u64> {
        let at = |i: u64| drift.delay(HostId(from), HostId(to), SimTime::from_nanos(i * every_us * 1000), JITTER);
        (0..20_000).map(|i| at(i).as_nanos()).collect()
    }

    #[test]
    fn what_leaves_later_arrives_no_earlier() {
        // The shorter step than the jitter would let delays fall too fast.
        for step_ms in [1, 10, 50] {
            for every_us in [1, 37, 1_000] {
                let arrivals = delays(drift(1, step_ms), 0, 1, every_us);
                let arrivals = arrivals.iter().enumerate().map(|(i, delay)| i as u64 * every_us * 1000 + delay);
                assert!(arrivals.is_sorted(), "{step_ms} ms, {every_us} us");
            }
        }
    }

    #[test]
    fn delays_fill_the_jitter_and_change_slowly() {
        let delays = delays(drift(1, 50), 0, 1, 1_000);
        let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(*least < 500_000 && (8_000_000..=10_000_000).contains(most), "{least} to {most}");
        let mean = delays.iter().sum::<u64>() / delays.len() as u64;
        // A third; 400 draws.
        assert!((2_900_000..3_800_000).contains(&mean), "{mean}");
        assert!(delays.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 200_001));
    }

    #[test]
    fn ways_and_seeds_have_delays_of_their_own() {
        let one = delays(drift(1, 50), 0, 1, 1_000);
        for other in
            [delays(drift(1, 50), 1, 0, 1_000), delays(drift(1, 50), 0, 2, 1_000), delays(drift(2, 50), 0, 1, 1_000)]
        {
            let alike = one.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(alike < 10, "{alike}");
        }
        assert_eq!(one, delays(drift(1, 50), 0, 1, 1_000));
    }

    #[test]
    fn the_end_of_time_has_a_delay_too() {
        let delay = drift(1, 50).delay(HostId(0), HostId(1), SimTime::MAX, JITTER);
        assert!(delay <= JITTER);
        assert_eq!(drift(1, 50).delay(HostId(0), HostId(1), SimTime::ZERO, SimDuration::ZERO), SimDuration::ZERO);
    }
}
