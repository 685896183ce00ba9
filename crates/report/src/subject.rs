//! What a report compares: single runs, and groups of runs that differ in their seeds only. Here the data of a subject's runs
//! become lines and numbers, with confidence intervals where there are several.

use crate::bins::Bins;
use crate::chart::{Ink, Point, Series};
use crate::maths::{Estimate, Sample};
use crate::run::Run;

/// Lines over time of single runs have at most this many points, those of groups the other: a mean of few runs says little
/// about a second.
const MOST_POINTS: usize = 150;
const MOST_POINTS_OF_GROUPS: usize = 75;

/// A run, or a group of runs.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub label: String,
    pub runs: Vec<&'a Run>,
    /// Of the palette.
    pub colour: usize,
}

impl<'a> Subject<'a> {
    pub fn is_group(&self) -> bool {
        self.runs.len() > 1
    }

    /// "vanilla (3 runs)".
    pub fn title(&self) -> String {
        if self.is_group() { format!("{} ({} runs)", self.label, self.runs.len()) } else { self.label.clone() }
    }

    /// A line for each run of which `points` has some: in the group's colour and under one key in the legend.
    pub fn line_per_run(&self, points: impl Fn(&'a Run) -> Vec<Point>) -> Vec<Series> {
        let lines = self.runs.iter().map(|run| Series {
            key: self.is_group().then(|| self.title()),
            ..Series::line(run.label.clone(), Ink::solid(self.colour), points(run))
        });
        lines.filter(|series| !series.points.is_empty()).collect()
    }

    /// One number per run that has it, and what they say together.
    pub fn estimate(&self, of_run: impl Fn(&'a Run) -> Option<f64>) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| of_run(run)).collect();
        Estimate::of(&values)
    }

    /// The line of a cumulative distribution: of a run the empirical one, of a group the mean of each quantile over runs
    /// with its interval. None where no run has values.
    pub fn distribution(&self, name: String, ink: Ink, of_run: impl Fn(&'a Run) -> Sample) -> Option<Series> {
        let samples: Vec<Sample> =
            self.runs.iter().map(|run| of_run(run)).filter(|sample| !sample.is_empty()).collect();
        match samples.as_slice() {
            [] => None,
            [one] => Some(Series::steps(name, ink, steps(one))),
            several => Some(Series::line(name, ink, mean_quantiles(several))),
        }
    }

    /// The line of amounts per second, in bins of the same width for all runs.
    pub fn rate(&self, name: String, ink: Ink, of_run: impl Fn(&'a Run) -> Option<Bins>) -> Option<Series> {
        let most = if self.is_group() { MOST_POINTS_OF_GROUPS } else { MOST_POINTS };
        let with_bins = self.runs.iter().filter_map(|run| Some((run.end_s(), of_run(run)?)));
        let all: Vec<(f64, Bins)> = with_bins.map(|(end, bins)| (end, bins.for_display(most))).collect();
        let width = all.iter().map(|(_, bins)| bins.width_s()).fold(0.0, f64::max);
        let rates: Vec<Vec<(f64, f64)>> = all.iter().map(|(end, bins)| bins.with_width(width).rates(*end)).collect();
        self.mean_line(name, ink, &rates)
    }

    /// A line through the same moments of all runs: the mean over runs, with its interval.
    pub fn mean_line(&self, name: String, ink: Ink, lines: &[Vec<(f64, f64)>]) -> Option<Series> {
        let length = lines.iter().map(Vec::len).min().filter(|length| *length > 0)?;
        let points = (0..length).map(|i| {
            let values: Vec<f64> = lines.iter().map(|line| line[i].1).collect();
            let estimate = Estimate::of(&values).expect("there is a line");
            Point { x: lines[0][i].0, y: estimate.mean, interval: estimate.low().zip(estimate.high()) }
        });
        Some(Series::line(name, ink, points.collect()))
    }
}

/// The empirical distribution, from zero on.
fn steps(sample: &Sample) -> Vec<Point> {
    let first = sample.values().first().map(|value| Point::at(*value, 0.0));
    first.into_iter().chain(sample.distribution().into_iter().map(|(x, y)| Point::at(x, y))).collect()
}

fn mean_quantiles(samples: &[Sample]) -> Vec<Point> {
    let points = quantile_grid().into_iter().map(|q| {
        let values: Vec<f64> = samples.iter().filter_map(|sample| sample.quantile(q)).collect();
        let estimate = Estimate::of(&values).expect("there are samples");
        Point { x: estimate.mean, y: q, interval: estimate.low().zip(estimate.high()) }
    });
    points.collect()
}

/// Every half per cent.
fn quantile_grid() -> Vec<f64> {
    (0..=200).map(|i| f64::from(i) / 200.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(count: usize) -> Vec<Run> {
        (0..count).map(|i| Run { label: format!("run {i}"), ..Run::default() }).collect()
    }

    fn subject(runs: &[Run]) -> Subject<'_> {
        Subject { label: "group".into(), runs: runs.iter().collect(), colour: 0 }
    }

    /// The values of run i: 1, 2, 3 shifted by i.
    fn sample(run: &Run) -> Sample {
        let shift: f64 = run.label[4..].parse().unwrap();
        Sample::new(vec![1.0 + shift, 2.0 + shift, 3.0 + shift])
    }

    #[test]
    fn one_run_has_its_empirical_distribution() {
        let runs = runs(1);
        let line = subject(&runs).distribution("x".into(), Ink::solid(0), sample).unwrap();
        let places: Vec<(f64, f64)> = line.points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(places, [(1.0, 0.0), (1.0, 1.0 / 3.0), (2.0, 2.0 / 3.0), (3.0, 1.0)]);
        assert!(line.is_step && line.points.iter().all(|point| point.interval.is_none()));
    }

    #[test]
    fn a_group_has_the_mean_of_each_quantile_with_its_interval() {
        let runs = runs(3);
        let line = subject(&runs).distribution("x".into(), Ink::solid(0), sample).unwrap();
        let median = line.points.iter().find(|point| point.y == 0.5).unwrap();
        // Medians 2, 3, 4: mean 3, s = 1, error = 4.30265 / sqrt(3) = 2.48414.
        let (low, high) = median.interval.unwrap();
        assert_eq!(median.x, 3.0);
        assert!((low - 0.51586).abs() < 1e-4 && (high - 5.48414).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn runs_without_values_do_not_count() {
        let runs = runs(2);
        let only_first = |run: &Run| if run.label == "run 0" { sample(run) } else { Sample::default() };
        assert!(subject(&runs).distribution("x".into(), Ink::solid(0), only_first).unwrap().is_step);
        assert!(subject(&runs).distribution("x".into(), Ink::solid(0), |_| Sample::default()).is_none());
    }

    #[test]
    fn rates_of_runs_are_averaged_bin_by_bin() {
        let mut runs = runs(2);
        for (run, amount) in runs.iter_mut().zip([10.0, 30.0]) {
            let mut bins = Bins::new(1.0);
            (0..4).for_each(|second| bins.add(f64::from(second), amount));
            run.payload = Some(bins);
            run.stats = Some(crate::run::SimStats { simulated_s: Some(4.0), ..Default::default() });
        }
        let line = subject(&runs).rate("x".into(), Ink::solid(0), |run| run.payload.clone()).unwrap();
        assert_eq!(line.points.len(), 4);
        assert_eq!((line.points[1].x, line.points[1].y), (1.5, 20.0));
        assert!(line.points[1].interval.is_some());
    }
}
