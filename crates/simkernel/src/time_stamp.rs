//! What the time-stamp counter shows.

use base::Rng;

/// What a reading adds, in nanoseconds: at least, and less than so much more.
const LEAST_STEP: u64 = 16;
const STEPS: u64 = 64;
/// How far the counter may be ahead of simulated time because it was read. A generator of random numbers from the jitter of caches (as in
/// aws-lc, which rustls uses) takes some 5,000 readings before it gives its first.
const MOST_AHEAD: u64 = 1_000_000;

/// A host's time-stamp counter: nanoseconds since it started, and a little more. Computing takes no simulated time, so programs that measure it would see none, or
/// always the same: each reading lies a drawn number of nanoseconds behind the simulated time, or behind the last reading where that is later, as
/// if something had been computed.
#[derive(Debug)]
pub(crate) struct TimeStamp {
    last: u64,
    steps: Rng,
}

impl TimeStamp {
    pub fn new(steps: Rng) -> TimeStamp {
        TimeStamp { last: 0, steps }
    }

    /// A reading, where the host has been up for `now` nanoseconds: more than any before.
    pub fn read(&mut self, now: u64) -> u64 {
        let is_ahead = self.last >= now.saturating_add(MOST_AHEAD);
        let step = if is_ahead { 1 } else { LEAST_STEP + self.steps.below(STEPS) };
        self.last = now.max(self.last) + step;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    fn time_stamp() -> TimeStamp {
        TimeStamp::new(SeedTree::new(1).stream("host", "time stamps"))
    }

    #[test]
    fn readings_show_the_time_and_vary_whatever_lies_between_them() {
        for between in [0_u64, 10, 1000, 1_000_000] {
            let mut stamp = time_stamp();
            let time = |round: u64| 5_000_000_000 + between * round;
            let readings: Vec<u64> = (0..1000).map(|round| stamp.read(time(round))).collect();
            for (round, reading) in (0..).zip(&readings) {
                let now = time(round);
                assert!((now..now + MOST_AHEAD).contains(reading), "{between}: {reading} at {now}");
            }
            assert!(readings.windows(2).all(|pair| pair[1] > pair[0]));
            let alike = readings.windows(3).filter(|three| three[2] - three[1] == three[1] - three[0]).count();
            assert!(alike < 50, "{between}: {alike} of 998 steps are like the one before");
        }
    }

    #[test]
    fn whoever_reads_without_end_is_little_ahead() {
        let mut stamp = time_stamp();
        let at = 5_000_000_000;
        let readings: Vec<u64> = (0..200_000).map(|_| stamp.read(at)).collect();
        assert!(readings.is_sorted_by(|one, next| one < next));
        assert!(readings[199_999] < at + MOST_AHEAD + 200_000 + LEAST_STEP + STEPS);
        assert!(stamp.read(at + 1_000_000_000) < at + 1_000_000_000 + LEAST_STEP + STEPS);
    }
}
