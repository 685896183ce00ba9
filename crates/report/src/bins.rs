//! Amounts over time in bins of equal width, in bounded memory however long the run: where the bins get too many, neighbours
//! merge and the width doubles.

/// More bins than a figure has pixels, so that merging loses nothing that could be seen.
const MOST: usize = 1024;

/// Sums by interval of time. All times are seconds since the start of the simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    width_s: f64,
    sums: Vec<f64>,
}

impl Bins {
    /// Empty, with bins of `width_s`.
    pub fn new(width_s: f64) -> Bins {
        Bins { width_s, sums: Vec::new() }
    }

    pub fn width_s(&self) -> f64 {
        self.width_s
    }

    pub fn sums(&self) -> &[f64] {
        &self.sums
    }

    pub fn total(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// Adds what happened at `time_s`. Times before zero or that are no numbers are left out.
    pub fn add(&mut self, time_s: f64, amount: f64) {
        if !(time_s >= 0.0 && time_s.is_finite()) {
            return;
        }
        while time_s / self.width_s >= MOST as f64 {
            self.merge_neighbours();
        }
        let index = (time_s / self.width_s) as usize;
        if index >= self.sums.len() {
            self.sums.resize(index + 1, 0.0);
        }
        self.sums[index] += amount;
    }

    /// Adds another's amounts; the widths are each a power of two times the same.
    pub fn add_all(&mut self, other: &Bins) {
        self.coarsen(other.width_s);
        let per_bin = (self.width_s / other.width_s).round().max(1.0) as usize;
        self.sums.resize(self.sums.len().max(other.sums.len().div_ceil(per_bin)), 0.0);
        for (i, sum) in other.sums.iter().enumerate() {
            self.sums[i / per_bin] += sum;
        }
    }

    /// Doubles the width until it is at least `width_s`.
    fn coarsen(&mut self, width_s: f64) {
        while self.width_s < width_s * (1.0 - 1e-9) {
            self.merge_neighbours();
        }
    }

    /// The same amounts in bins of any other width, each put where the middle of its bin was.
    pub fn with_width(&self, width_s: f64) -> Bins {
        let mut bins = Bins::new(width_s);
        for (i, sum) in self.sums.iter().enumerate() {
            bins.add((i as f64 + 0.5) * self.width_s, *sum);
        }
        bins
    }

    /// As many bins as a figure shows well.
    pub fn for_display(&self, most: usize) -> Bins {
        let mut bins = self.clone();
        while bins.sums.len() > most {
            bins.merge_neighbours();
        }
        bins
    }

    /// The same amounts in bits rather than bytes.
    pub fn into_bits(mut self) -> Bins {
        self.sums.iter_mut().for_each(|sum| *sum *= 8.0);
        self
    }

    fn merge_neighbours(&mut self) {
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.width_s *= 2.0;
    }

    /// (middle of the bin, amount per second), for a run that ended at `end_s`. A last bin that the run filled by less than
    /// a half is left out, one that it filled partly counts for the time that it had. Bins without amounts up to the end
    /// are zeroes.
    pub fn rates(&self, end_s: f64) -> Vec<(f64, f64)> {
        let bins = ((end_s / self.width_s - 1e-9).ceil().max(0.0) as usize).max(self.sums.len()).min(4 * MOST);
        let mut rates = Vec::with_capacity(bins);
        for i in 0..bins {
            let begin = i as f64 * self.width_s;
            let covered = (end_s - begin).min(self.width_s);
            if covered >= self.width_s / 2.0 {
                let sum = self.sums.get(i).copied().unwrap_or(0.0);
                rates.push((begin + covered / 2.0, sum / covered));
            }
        }
        rates
    }

    /// The amount between two moments; bins that lie only partly between them count by their share.
    pub fn between(&self, from_s: f64, until_s: f64) -> f64 {
        let share = |i: usize| {
            let begin = i as f64 * self.width_s;
            let overlap = until_s.min(begin + self.width_s) - from_s.max(begin);
            (overlap / self.width_s).clamp(0.0, 1.0)
        };
        self.sums.iter().enumerate().map(|(i, sum)| sum * share(i)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_merge_when_they_get_too_many() {
        let mut bins = Bins::new(1.0);
        for second in 0..3000 {
            bins.add(f64::from(second) + 0.5, 10.0);
        }
        assert_eq!(bins.width_s(), 4.0);
        assert_eq!(bins.sums().len(), 750);
        assert!(bins.sums().iter().all(|sum| *sum == 40.0));
        assert_eq!(bins.total(), 30_000.0);
        assert_eq!(bins.for_display(100).width_s(), 32.0);
    }

    #[test]
    fn bins_of_different_widths_add_up() {
        let (mut fine, mut coarse) = (Bins::new(1.0), Bins::new(1.0));
        (0..5).for_each(|second| fine.add(f64::from(second), 1.0));
        (0..5).for_each(|second| coarse.add(f64::from(second), 2.0));
        coarse.coarsen(2.0);
        let mut sum = coarse.clone();
        sum.add_all(&fine);
        assert_eq!((sum.width_s(), sum.sums()), (2.0, [6.0, 6.0, 3.0].as_slice()));
        let mut other_way = fine;
        other_way.add_all(&coarse);
        assert_eq!(other_way, sum);
    }

    #[test]
    fn bins_of_one_width_become_those_of_another() {
        let mut bins = Bins::new(0.1);
        (0..50).for_each(|tenth| bins.add(f64::from(tenth) / 10.0 + 0.05, 1.0));
        assert_eq!(bins.with_width(2.0).sums(), [20.0, 20.0, 10.0]);
        assert_eq!(bins.with_width(0.1), bins);
    }

    #[test]
    fn rates_consider_how_much_of_a_bin_the_run_filled() {
        let mut bins = Bins::new(10.0);
        bins.add(1.0, 100.0);
        bins.add(21.0, 40.0);
        // Up to 28 s: the second bin is empty, the third has eight seconds.
        assert_eq!(bins.rates(28.0), [(5.0, 10.0), (15.0, 0.0), (24.0, 5.0)]);
        // Up to 22 s: two seconds of the third say nothing.
        assert_eq!(bins.rates(22.0), [(5.0, 10.0), (15.0, 0.0)]);
    }

    #[test]
    fn amounts_between_moments_count_bins_by_their_share() {
        let mut bins = Bins::new(10.0);
        bins.add(5.0, 100.0);
        bins.add(15.0, 200.0);
        assert_eq!(bins.between(0.0, 20.0), 300.0);
        assert_eq!(bins.between(5.0, 20.0), 250.0);
        assert_eq!(bins.between(12.0, 14.0), 40.0);
        assert_eq!(bins.between(30.0, 40.0), 0.0);
    }

    #[test]
    fn impossible_times_are_left_out() {
        let mut bins = Bins::new(1.0);
        bins.add(-1.0, 1.0);
        bins.add(f64::NAN, 1.0);
        bins.add(f64::INFINITY, 1.0);
        assert!(bins.sums().is_empty());
    }
}
