//! What the laboratories of scheduling share: runs by policy and number of workers.

use super::{bar, cell, point, words};
use crate::measurements::Measurements;
use crate::page::shown;
use crate::reading::{PACE, Quantity, Reading, WAITING, WAITING_SPREAD, WALL};
use report::Estimate;
use report::chart::{Along, Axis, BarSeries, Bars, Chart, Figure, Ink, Plot, Point, ScaleKind, Series, Unit};
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

/// A run with one worker that foretold how long it would take with more, beside runs that had them.
pub struct Forecast<'a> {
    pub measurements: &'a Measurements,
    /// Begins the figure's id.
    pub prefix: &'a str,
    /// What ran.
    pub load: &'a str,
    /// The key of the run that foretold.
    pub foretells: &'a str,
    /// The keys of those with so many workers; one worker's comes first.
    pub measured: &'a [(usize, String)],
}

impl Forecast<'_> {
    /// The numbers of workers that the run foretells.
    fn workers(&self) -> Vec<usize> {
        let all = self
            .measurements
            .paired(self.foretells, self.foretells, |run, _| run.forecast.keys().copied().collect::<Vec<_>>());
        all.into_iter().next().unwrap_or_default()
    }

    /// Run times with so many workers, by repetition.
    fn foretold(&self, workers: usize) -> Vec<f64> {
        self.measurements
            .paired(self.foretells, self.foretells, |run, _| run.forecast.get(&workers).copied().unwrap_or(f64::NAN))
    }

    fn speed_up(&self, workers: usize) -> Vec<f64> {
        let of = |run: &Reading| {
            let (one, wall) = (run.forecast.get(&1), run.forecast.get(&workers));
            one.zip(wall).map_or(f64::NAN, |(one, wall)| one / wall)
        };
        self.measurements.paired(self.foretells, self.foretells, |run, _| of(run))
    }

    /// The forecast over what was measured.
    pub fn accuracy(&self, workers: usize) -> Vec<f64> {
        let Some((_, key)) = self.measured.iter().find(|(number, _)| *number == workers) else { return Vec::new() };
        let ratio = |wall: Option<&f64>, measured: f64| wall.map_or(f64::NAN, |wall| wall / measured);
        self.measurements.paired(self.foretells, key, |one, run| ratio(one.forecast.get(&workers), run.wall_s))
    }

    pub fn figure(&self) -> Option<Figure> {
        let line = |name: &str, points: Vec<Point>| Series::line(name.to_owned(), Ink::solid(0), points);
        let foretold = self.workers();
        let foretold = foretold.iter().filter_map(|workers| point(*workers as f64, &self.speed_up(*workers)));
        let measured = self.measured.iter().filter_map(|(workers, key)| {
            point(*workers as f64, &self.measurements.ratios(&self.measured[0].1, key, WALL))
        });
        let mut series = vec![line("foretold", foretold.collect()), line("measured", measured.collect())];
        series[1].ink = Ink::solid(1);
        series.retain(|series| !series.points.is_empty());
        (!series.is_empty()).then(|| Figure {
            id: format!("{}-forecast", self.prefix),
            title: "Speed-up against one worker, as a run with one foretells it".to_owned(),
            subtitle: self.load.to_owned(),
            caption: "Each window's hosts, with what each took, dealt out again to more workers, and what meeting costs. What processors take from \
                      each other in caches and memory is not in it."
                .to_owned(),
            chart: Chart::Plot(Plot {
                x: Axis::new("Workers", "workers", Unit::Count).scaled(ScaleKind::Log),
                y: Axis::new("Times as fast", "speed_up", Unit::Fraction).scaled(ScaleKind::Log),
                names_at_ends: series.len() > 1,
                series,
                interval: Along::Y,
                moments: Vec::new(),
                reference: None,
            }),
        })
    }

    pub fn table(&self) -> Table {
        let shown = |unit, values: &[f64]| {
            let estimate = Estimate::of(values).filter(|found| found.mean.is_finite());
            estimate.map_or_else(|| "–".to_owned(), |found| shown(unit, found.mean, found.error))
        };
        let row = |workers: &usize| {
            let measured = self.measured.iter().find(|(number, _)| number == workers);
            vec![
                workers.to_string(),
                shown(Unit::Seconds, &self.foretold(*workers)),
                shown(Unit::Fraction, &self.speed_up(*workers)),
                measured.map_or_else(|| "–".to_owned(), |(_, key)| cell(self.measurements, key, WALL)),
                shown(Unit::Fraction, &self.accuracy(*workers)),
            ]
        };
        Table {
            title: format!("Foretold by a run with one worker: {}", self.load),
            header: words(&[
                "Workers",
                "Run time, foretold",
                "Speed-up, foretold",
                "Run time, measured",
                "Foretold over measured",
            ]),
            rows: self.workers().iter().map(row).collect(),
            text_columns: 0,
        }
    }
}
