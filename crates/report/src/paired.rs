//! What two experiments that were run with the same seeds say about their difference: the runs of one seed are a pair, and what
//! the seed alone does cancels in the pair's difference.

use crate::maths::critical_t;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Up to so many pairs all assignments of signs are tried, beyond that as many as this many pairs have, drawn from a fixed seed.
const MOST_EXACT: usize = 16;

/// A verdict wants this of the p-value, which holds for all quantities of a comparison together.
pub const SIGNIFICANCE: f64 = 0.05;

/// The difference of one quantity, the second experiment's less the first's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    pub pairs: usize,
    /// Means over the pairs.
    pub first: f64,
    pub second: f64,
    /// Of the pairs' differences.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval (Student's t); none for a single pair.
    pub error: Option<f64>,
    /// Cohen's d of paired samples: the mean over the standard deviation of the differences. None where they do not vary.
    pub effect: Option<f64>,
    /// Of a two-sided paired t test. None for a single pair.
    pub p: Option<f64>,
    /// Of a two-sided permutation test, which supposes nothing of distributions: how many assignments of signs to the differences have a mean
    /// as far from zero.
    pub p_permutation: f64,
}

impl Difference {
    /// From pairs of the two experiments' values. None without pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Difference> {
        let count = pairs.len();
        if count == 0 {
            return None;
        }
        let mean_of = |values: &[f64]| values.iter().sum::<f64>() / count as f64;
        let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
        let mean = mean_of(&differences);
        let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let standard_error = deviation / (count as f64).sqrt();
        let p = (count > 1).then(|| match (standard_error > 0.0, mean == 0.0) {
            (true, _) => two_sided(mean / standard_error, count - 1),
            (false, true) => 1.0,
            (false, false) => 0.0,
        });
        Some(Difference {
            pairs: count,
            first: mean_of(&pairs.iter().map(|(first, _)| *first).collect::<Vec<_>>()),
            second: mean_of(&pairs.iter().map(|(_, second)| *second).collect::<Vec<_>>()),
            mean,
            error: (count > 1).then(|| critical_t(count - 1) * standard_error),
            effect: (deviation > 0.0).then(|| mean / deviation),
            p,
            p_permutation: permutation(&differences),
        })
    }

    /// As share of the first experiment's mean.
    pub fn relative(&self) -> Option<f64> {
        (self.first != 0.0).then(|| self.mean / self.first.abs())
    }
}

fn two_sided(t: f64, degrees_of_freedom: usize) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom as f64).expect("a positive number of degrees of freedom");
    2.0 * student.sf(t.abs())
}

/// The share of assignments of signs whose sum is at least as far from zero.
fn permutation(differences: &[f64]) -> f64 {
    let seen = signed_sum(differences, || 0).abs();
    // Sums that differ by rounding are the same.
    let slack = 1e-9 * differences.iter().map(|difference| difference.abs()).sum::<f64>();
    let as_far = |sum: f64| sum.abs() >= seen - slack;
    if differences.len() <= MOST_EXACT {
        let all = 1u64 << differences.len();
        return (0..all).filter(|signs| as_far(signed_sum(differences, || *signs))).count() as f64 / all as f64;
    }
    // The assignment that was seen counts as one of them.
    let mut state = 1u64;
    let tries = 1usize << MOST_EXACT;
    let count = (0..tries).filter(|_| as_far(signed_sum(differences, || split_mix(&mut state)))).count();
    (count + 1) as f64 / (tries + 1) as f64
}

/// The sum of differences whose signs are turned where a bit is set: `signs` gives a word for each 64 of them.
fn signed_sum(differences: &[f64], mut signs: impl FnMut() -> u64) -> f64 {
    let of_chunk = |chunk: &[f64]| {
        let signs = signs();
        let signed = |(i, difference): (usize, &f64)| if signs >> i & 1 == 1 { -difference } else { *difference };
        chunk.iter().enumerate().map(signed).sum::<f64>()
    };
    differences.chunks(64).map(of_chunk).sum()
}

/// The next number of SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// P-values that hold for all of them together (Holm's step-down of Bonferroni's method), in the same order.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    /// Student's own example of 1908, the sleep data: scipy.stats.ttest_rel gives t = 4.0621, p = 0.00283; R's t.test the interval.
    #[test]
    fn students_sleepers_differ() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let pairs: Vec<(f64, f64)> = first.into_iter().zip(second).collect();
        let found = Difference::of(&pairs).unwrap();
        assert!(close(found.mean, 1.58) && close(found.first, 0.75) && close(found.second, 2.33), "{found:?}");
        assert!(close(found.p.unwrap(), 0.00283), "{found:?}");
        assert!(close(found.mean - found.error.unwrap(), 0.7001), "{found:?}");
        assert!(close(found.effect.unwrap(), 4.0621 / 10f64.sqrt()));
        // One difference is 0, whose sign does not matter; all others are positive: 4 of 1,024.
        assert!(close(found.p_permutation, 4.0 / 1024.0));
    }

    #[test]
    fn equal_experiments_do_not_differ() {
        let same = Difference::of(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]).unwrap();
        assert_eq!((same.mean, same.error, same.effect), (0.0, Some(0.0), None));
        assert_eq!((same.p, same.p_permutation), (Some(1.0), 1.0));
        assert_eq!(Difference::of(&[]), None);
        let one = Difference::of(&[(1.0, 3.0)]).unwrap();
        assert_eq!((one.error, one.p, one.p_permutation, one.relative()), (None, None, 1.0, Some(2.0)));
        // The same difference in each pair is certain.
        let certain = Difference::of(&[(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]).unwrap();
        assert_eq!((certain.p, certain.p_permutation), (Some(0.0), 0.25));
    }

    #[test]
    fn many_pairs_are_sampled() {
        let pairs: Vec<(f64, f64)> = (0..40).map(|i| (f64::from(i), f64::from(i) + 1.0)).collect();
        assert!(Difference::of(&pairs).unwrap().p_permutation < 0.001);
        let alternating: Vec<(f64, f64)> = (0..40).map(|i| (0.0, if i % 2 == 0 { 1.0 } else { -1.0 })).collect();
        assert!(Difference::of(&alternating).unwrap().p_permutation > 0.99);
        // Each of 128 pairs has a sign of its own: 20 more up than down are 40 of a sum whose standard deviation is 11.3, so p = 0.0004. Were
        // the sign of two of them one, it were 0.013.
        let many: Vec<(f64, f64)> = (0..128).map(|i| (0.0, if i % 64 < 42 { 1.0 } else { -1.0 })).collect();
        let p = Difference::of(&many).unwrap().p_permutation;
        assert!((0.0002..0.001).contains(&p), "{p}");
    }

    /// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    #[test]
    fn p_values_are_adjusted_as_holm_does() {
        let found = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (a, b) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!(close(*a, b), "{found:?}");
        }
    }
}
