//! What happens to a packet between two hosts: latency, jitter, loss, and the draw that decides.

use base::{Rng, SimDuration};
use std::fmt;

/// A probability of loss in units of 2^-32, so that a draw is one comparison of integers. All ones means certain loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Loss(pub(crate) u32);

impl Loss {
    pub const NEVER: Loss = Loss(0);

    /// The nearest representable probability; anything above 0 stays above 0, and only 1 is certain.
    pub fn from_probability(p: f64) -> Self {
        const SCALE: f64 = 4_294_967_296.0;
        match p {
            p if p <= 0.0 => Loss(0),
            p if p >= 1.0 => Loss(u32::MAX),
            p => Loss(((p * SCALE).round() as u64).clamp(1, u64::from(u32::MAX) - 1) as u32),
        }
    }

    pub fn probability(self) -> f64 {
        if self.0 == u32::MAX { 1.0 } else { f64::from(self.0) / 4_294_967_296.0 }
    }

    /// Draws whether this packet is lost. Takes a number from the stream only where the outcome is open.
    pub fn draw(self, rng: &mut Rng) -> bool {
        match self.0 {
            0 => false,
            u32::MAX => true,
            threshold => rng.next_u32() < threshold,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.probability() * 1e8).round() / 1e6)
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The way from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The least time that a packet takes, without serialisation and queues.
    pub latency: SimDuration,
    /// The most that a packet takes beyond `latency`.
    pub jitter: SimDuration,
    pub loss: Loss,
}

/// What becomes of one packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reaches the other host's access link this long after it left the sender's.
    Arrives(SimDuration),
    Lost,
}

impl Path {
    /// The way of a host to itself.
    pub const LOOPBACK: Path = Path { latency: SimDuration::ZERO, jitter: SimDuration::ZERO, loss: Loss::NEVER };

    /// Draws one packet's fate: loss first, then a delay that is uniform in [latency, latency + jitter]. Nothing is drawn for
    /// a path without loss or without jitter.
    pub fn fate(&self, rng: &mut Rng) -> Fate {
        if self.loss.draw(rng) { Fate::Lost } else { Fate::Arrives(self.delay(rng)) }
    }

    /// Draws one packet's delay; never below `latency`.
    pub fn delay(&self, rng: &mut Rng) -> SimDuration {
        match self.jitter.as_nanos() {
            0 => self.latency,
            jitter => self.latency + SimDuration::from_nanos(rng.below(jitter.saturating_add(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    #[test]
    fn loss_draws_follow_the_probability() {
        let mut rng = SeedTree::new(3).stream("a", "loss");
        for p in [0.0, 0.001, 0.02, 0.5, 1.0] {
            let loss = Loss::from_probability(p);
            assert!((loss.probability() - p).abs() < 1e-9);
            let n = 200_000;
            let lost = (0..n).filter(|_| loss.draw(&mut rng)).count() as f64 / f64::from(n);
            assert!((lost - p).abs() < 4.0 * (p * (1.0 - p) / f64::from(n)).sqrt() + 1e-9, "{p}: {lost}");
        }
    }

    #[test]
    fn extremes_of_loss_stay_what_they_are() {
        assert!(Loss::from_probability(1e-15) > Loss::NEVER);
        assert!(Loss::from_probability(1.0 - 1e-15).probability() < 1.0);
        assert_eq!(Loss::from_probability(0.01).to_string(), "1%");
        assert_eq!(Loss::from_probability(0.00125).to_string(), "0.125%");
    }

    #[test]
    fn jitter_only_ever_adds() {
        let mut rng = SeedTree::new(3).stream("a", "jitter");
        let path =
            Path { latency: SimDuration::from_millis(10), jitter: SimDuration::from_millis(4), loss: Loss::NEVER };
        let delays: Vec<u64> = (0..20_000).map(|_| path.delay(&mut rng).as_micros()).collect();
        assert!(delays.iter().all(|d| (10_000..=14_000).contains(d)));
        let mean = delays.iter().sum::<u64>() / delays.len() as u64;
        assert!((11_950..12_050).contains(&mean), "{mean}");
    }

    #[test]
    fn certain_outcomes_leave_the_stream_alone() {
        let mut rng = SeedTree::new(5).stream("a", "loss");
        let mut untouched = rng.clone();
        let dead = Path { loss: Loss::from_probability(1.0), ..Path::LOOPBACK };
        assert_eq!(Path::LOOPBACK.fate(&mut rng), Fate::Arrives(SimDuration::ZERO));
        assert_eq!(dead.fate(&mut rng), Fate::Lost);
        assert_eq!(rng.next_u64(), untouched.next_u64());
    }
}
