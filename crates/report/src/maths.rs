//! Quantiles, and what several runs say together: means with confidence intervals.
//!
//! The method is that of Jansen, Tracey and Goldberg, "Once is Never Enough: Foundations for Sound Statistical Inference in
//! Tor Network Experimentation" (USENIX Security 2021): the runs of a group are independent samples of the same network
//! model; a quantity (for a distribution: its value at one quantile) is computed in each run, and the group's estimate is
//! the mean over runs with a confidence interval from Student's t distribution with n - 1 degrees of freedom.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence level of every interval in a report.
pub const CONFIDENCE: f64 = 0.95;

/// Measured values in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Values that are no numbers are left out.
    pub fn new(mut values: Vec<f64>) -> Sample {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Sample(values)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In ascending order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The value below which a share `q` (0 to 1) of the values lies, interpolated linearly between neighbours: definition 7
    /// of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), the default of R and NumPy.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = q.clamp(0.0, 1.0) * last as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(last);
        let rest = place - below as f64;
        Some(self.0[below] + rest * (self.0[above] - self.0[below]))
    }

    pub fn mean(&self) -> Option<f64> {
        if self.is_empty() { None } else { Some(self.0.iter().sum::<f64>() / self.0.len() as f64) }
    }

    /// The empirical distribution function: at each distinct value the share of values up to it.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (i, value) in self.0.iter().enumerate() {
            let share = (i + 1) as f64 / self.0.len() as f64;
            match points.last_mut() {
                Some(last) if last.0 == *value => last.1 = share,
                _ => points.push((*value, share)),
            }
        }
        points
    }
}

/// Pearson's correlation; none for fewer than three pairs, or where one side is always the same.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    if pairs.len() < 3 {
        return None;
    }
    let (mean_x, mean_y) =
        (pairs.iter().map(|pair| pair.0).sum::<f64>() / n, pairs.iter().map(|pair| pair.1).sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - mean_x, y - mean_y);
        (xx, yy, xy) = (xx + dx * dx, yy + dy * dy, xy + dx * dy);
    }
    // Sums of what should be nothing are seldom nothing.
    let is_flat = |squares: f64, mean: f64| squares <= n * (mean * 1e-9).powi(2);
    (!is_flat(xx, mean_x) && !is_flat(yy, mean_y)).then(|| xy / (xx * yy).sqrt())
}

/// What `runs` independent runs say about one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// Half the width of the confidence interval; none for a single run.
    pub error: Option<f64>,
    pub runs: usize,
}

impl Estimate {
    /// From the quantity's value in each run; none without runs.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let runs = values.len();
        if runs == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let error = (runs > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (runs - 1) as f64).sqrt();
            critical_t(runs - 1) * deviation / (runs as f64).sqrt()
        });
        Some(Estimate { mean, error, runs })
    }

    /// The interval's lower end. No quantity of a report is negative, so it does not go below zero.
    pub fn low(&self) -> Option<f64> {
        self.error.map(|error| (self.mean - error).max(0.0))
    }

    pub fn high(&self) -> Option<f64> {
        self.error.map(|error| self.mean + error)
    }
}

/// How many standard errors a two-sided interval reaches from the mean.
pub fn critical_t(degrees_of_freedom: usize) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom as f64).expect("a positive number of degrees of freedom");
    t.inverse_cdf(0.5 + CONFIDENCE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-4
    }

    #[test]
    fn quantiles_are_interpolated_between_neighbours() {
        let sample = Sample::new(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(sample.quantile(0.0), Some(1.0));
        assert_eq!(sample.quantile(1.0), Some(4.0));
        assert_eq!(sample.quantile(0.5), Some(2.5));
        // numpy.quantile([1, 2, 3, 4], 0.9) = 3.7
        assert!(close(sample.quantile(0.9).unwrap(), 3.7));
        assert_eq!(sample.mean(), Some(2.5));
        assert_eq!(Sample::new(vec![7.0]).quantile(0.99), Some(7.0));
        assert_eq!(Sample::default().quantile(0.5), None);
        assert_eq!(Sample::new(vec![f64::NAN, 1.0]).len(), 1);
    }

    #[test]
    fn the_distribution_has_one_point_per_distinct_value() {
        let sample = Sample::new(vec![2.0, 1.0, 2.0, 5.0]);
        assert_eq!(sample.distribution(), [(1.0, 0.25), (2.0, 0.75), (5.0, 1.0)]);
        assert!(Sample::default().distribution().is_empty());
    }

    /// Critical values as printed in any table of Student's t.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (degrees, expected) in [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423)] {
            let t = critical_t(degrees);
            assert!(close(t, expected), "{degrees}: {t}");
        }
    }

    #[test]
    fn intervals_are_as_computed_by_hand() {
        // Mean 12, deviations -2, 0, 2: s = 2, error = 4.3027 * 2 / sqrt(3) = 4.9683.
        let estimate = Estimate::of(&[10.0, 12.0, 14.0]).unwrap();
        assert_eq!((estimate.mean, estimate.runs), (12.0, 3));
        assert!(close(estimate.error.unwrap(), 4.9683), "{estimate:?}");
        assert!(close(estimate.low().unwrap(), 7.0317));
        assert!(close(estimate.high().unwrap(), 16.9683));
    }

    #[test]
    fn one_run_has_no_interval_and_none_goes_below_zero() {
        let one = Estimate::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.low(), one.high()), (3.0, None, None));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[0.0, 1.0]).unwrap().low(), Some(0.0));
    }

    #[test]
    fn correlations_by_hand() {
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), Some(1.0));
        assert_eq!(correlation(&[(1.0, 6.0), (2.0, 4.0), (3.0, 2.0)]), Some(-1.0));
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 4.0)]), None);
        assert_eq!(correlation(&[(0.1, 2.0), (0.1, 4.0), (0.1, 6.0)]), None);
    }
}
