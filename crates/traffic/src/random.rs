//! Random numbers that follow from a seed: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
//! 2014), and the distributions of Markov models. The same seed gives the same choices on every machine.

/// SplitMix64's increment, 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The stream of one purpose: streams of different purposes have nothing to do with each other.
    pub fn derive(seed: u64, purpose: &[u64]) -> Self {
        let state =
            purpose.iter().fold(mix(seed ^ GOLDEN), |state, &part| mix(state.rotate_left(17) ^ mix(part ^ GOLDEN)));
        Random { state }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`, which is not 0 (Lemire's multiplication; the bias is below `bound` / 2^64).
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform over the open interval from 0 to 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// The index of a weight, with a probability in proportion to it; the last one if rounding leaves none.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let total: f64 = weights.clone().sum();
        let mut left = self.unit() * total;
        let mut last = 0;
        for (index, weight) in weights.enumerate() {
            left -= weight;
            last = index;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

/// A distribution of delays in microseconds, with the parameters that model files give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    Uniform {
        low: f64,
        high: f64,
    },
    Normal {
        location: f64,
        scale: f64,
    },
    /// e to the power of a normal variate.
    LogNormal {
        location: f64,
        scale: f64,
    },
    Exponential {
        rate: f64,
    },
    Pareto {
        scale: f64,
        shape: f64,
    },
}

impl Distribution {
    /// A variate, which may be negative or infinite where the distribution has such values.
    pub fn sample(&self, random: &mut Random) -> f64 {
        match *self {
            Distribution::Uniform { low, high } => low + (high - low) * random.unit(),
            Distribution::Normal { location, scale } => location + scale * normal(random),
            Distribution::LogNormal { location, scale } => (location + scale * normal(random)).exp(),
            Distribution::Exponential { rate } => -random.unit().ln() / rate,
            Distribution::Pareto { scale, shape } => scale / random.unit().powf(1.0 / shape),
        }
    }
}

/// A standard normal variate (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (u, v) = (random.unit(), random.unit());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs for seed 0 of the reference implementation (Vigna, splitmix64.c).
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(random.next(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn purposes_have_streams_of_their_own() {
        let first = |purpose: &[u64]| Random::derive(1, purpose).next();
        let all = [first(&[]), first(&[0]), first(&[1]), first(&[0, 0]), first(&[0, 1]), first(&[1, 0])];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:x?}");
        }
        assert_eq!(first(&[3, 4]), first(&[3, 4]));
    }

    #[test]
    fn weights_decide_how_often() {
        let mut random = Random::new(5);
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            counts[random.weighted([1.0, 0.0, 3.0].into_iter())] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((24_000..26_000).contains(&counts[0]), "{counts:?}");
    }

    /// Mean and standard deviation of many variates against the formulas; the limits are about five standard errors wide.
    #[test]
    fn distributions_have_their_moments() {
        let cases = [
            (Distribution::Uniform { low: 10.0, high: 70.0 }, 40.0, 60.0 / 12f64.sqrt()),
            (Distribution::Normal { location: 500.0, scale: 20.0 }, 500.0, 20.0),
            (
                Distribution::LogNormal { location: 3.0, scale: 0.5 },
                3.125f64.exp(),
                3.125f64.exp() * (0.25f64.exp() - 1.0).sqrt(),
            ),
            (Distribution::Exponential { rate: 0.002 }, 500.0, 500.0),
            (Distribution::Pareto { scale: 100.0, shape: 5.0 }, 125.0, 100.0 / 4.0 * (5.0f64 / 3.0).sqrt()),
        ];
        for (distribution, mean, deviation) in cases {
            let mut random = Random::new(11);
            let n = 200_000;
            let values: Vec<f64> = (0..n).map(|_| distribution.sample(&mut random)).collect();
            let average = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / (n - 1) as f64;
            assert!((average - mean).abs() < 5.0 * deviation / (n as f64).sqrt(), "{distribution:?}: mean {average}");
            assert!(
                (variance.sqrt() / deviation - 1.0).abs() < 0.05,
                "{distribution:?}: deviation {}",
                variance.sqrt()
            );
        }
    }
}
