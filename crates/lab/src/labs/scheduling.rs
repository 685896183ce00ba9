//! What the laboratories of scheduling share: runs by policy and number of workers.

use super::{cell, point, words};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{PACE, Quantity, WAITING, WAITING_SPREAD, WALL};
use report::Estimate;
use report::chart::{Along, Axis, Chart, Figure, Ink, Plot, ScaleKind, Series, Unit};
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

    fn plot(&self, id: &str, title: &str, y: Axis, of: &dyn Fn(&str, usize) -> Vec<f64>) -> Figure {
        let line = |(index, policy): (usize, &&'static str)| {
            let points = self.workers.iter().filter_map(|workers| point(*workers as f64, &of(policy, *workers)));
            Series::line((*policy).to_owned(), Ink::dashed(index, index), points.collect())
        };
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            subtitle: "by number of workers and policy".to_owned(),
            caption: "Means over repetitions with 95 % intervals.".to_owned(),
            chart: Chart::Plot(Plot {
                x: Axis::new("Workers", "workers", Unit::Count).scaled(ScaleKind::Linear).from(0.0),
                y,
                series: self.policies.iter().enumerate().map(line).collect(),
                interval: Along::Y,
                names_at_ends: false,
                moment: None,
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
            self.plot(&id("time"), "Run time", Axis::new("Run time", "wall_s", Unit::Seconds).from(0.0), &values(WALL)),
            self.plot(
                &id("speed-up"),
                "Speed-up against one worker",
                Axis::new("Times as fast", "speed_up", Unit::Fraction).from(0.0),
                &|policy, workers| self.speed_up(policy, workers),
            ),
            self.plot(
                &id("waiting"),
                "Share of time that workers wait for others",
                Axis::new("Waiting", "waiting_mean", Unit::Share).from(0.0),
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
