//! What the laboratories of scheduling share: runs by policy and number of workers.

use super::{bar, cell, words};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{PACE, Quantity, WAITING, WAITING_SPREAD, WALL};
use report::Estimate;
use report::chart::{Axis, BarSeries, Bars, Chart, Figure, Ink, Unit};
use report::html::Table;

/// Runs that differ in policy and workers only.
pub struct Grid<'a> {
    pub measurements: &'a Measurements,
    pub policies: &'a [&'static str],
    pub workers: &'a [usize],
    /// The key of a policy's case with so many workers; with one worker, all policies may have the same.
    pub key: &'a dyn Fn(&str, usize) -> String,
}

impl Grid<'_> {
    /// How many times as fast as with one worker, by repetition.
    fn speed_up(&self, policy: &str, workers: usize) -> Vec<f64> {
        self.measurements.ratios(&(self.key)(policy, 1), &(self.key)(policy, workers), WALL)
    }

    fn bars(&self, id: &str, title: &str, axis: Axis, of: &dyn Fn(&str, usize) -> Vec<f64>) -> Figure {
        let series = |(index, policy): (usize, &&'static str)| BarSeries {
            name: (*policy).to_owned(),
            ink: Ink::solid(index),
            bars: self.workers.iter().map(|workers| bar(&of(policy, *workers))).collect(),
        };
        let named = |workers: &usize| if *workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            subtitle: "by number of workers and policy".to_owned(),
            caption: "Means over repetitions with 95 % intervals.".to_owned(),
            chart: Chart::Bars(Bars {
                axis: axis.from(0.0),
                category_column: "workers",
                categories: self.workers.iter().map(named).collect(),
                series: self.policies.iter().enumerate().map(series).collect(),
                is_stacked: false,
                mark: None,
                reference: None,
            }),
        }
    }

    /// Run time, speed-up, normalised run time and waiting over workers. `prefix` begins the figures' ids.
    pub fn figures(&self, prefix: &str) -> Vec<Figure> {
        let values = |quantity: Quantity| {
            move |policy: &str, workers: usize| self.measurements.values(&(self.key)(policy, workers), quantity)
        };
        let id = |name: &str| format!("{prefix}-{name}");
        vec![
            self.bars(&id("time"), "Run time", Axis::new("Run time", "wall_s", Unit::Seconds), &values(WALL)),
            self.bars(
                &id("speed-up"),
                "Speed-up against one worker",
                Axis::new("Times as fast", "speed_up", Unit::Fraction),
                &|policy, workers| self.speed_up(policy, workers),
            ),
            self.bars(
                &id("waiting"),
                "Share of time that workers wait for others",
                Axis::new("Waiting", "waiting_mean", Unit::Share),
                &values(WAITING),
            ),
        ]
    }

    pub fn table(&self) -> Table {
        let mut rows = Vec::new();
        for workers in self.workers {
            for policy in self.policies {
                let key = (self.key)(policy, *workers);
                let cell = |quantity| cell(self.measurements, &key, quantity);
                let ratio = |values: Vec<f64>| {
                    let estimate = Estimate::of(&values);
                    estimate.map_or_else(|| "–".to_owned(), |found| shown(Unit::Fraction, found.mean, found.error))
                };
                rows.push(vec![
                    (*policy).to_owned(),
                    workers.to_string(),
                    cell(WALL),
                    cell(PACE),
                    ratio(self.speed_up(policy, *workers)),
                    ratio(self.measurements.ratios(&key, &(self.key)(policy, 1), WALL)),
                    cell(WAITING),
                    cell(WAITING_SPREAD),
                ]);
            }
        }
        Table {
            title: "By policy and number of workers".into(),
            header: words(&[
                "Policy",
                "Workers",
                "Run time",
                "Simulated over real time",
                "Speed-up",
                "Run time over one worker's",
                "Waiting",
                "Spread of waiting",
            ]),
            rows,
            text_columns: 1,
        }
    }
}
