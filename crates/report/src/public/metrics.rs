//! The CSV files of Tor Metrics (https://metrics.torproject.org/stats.html): which one a file is, by its columns, and what its rows say.
//!
//! Files have a row for each day and vantage point. Here quartiles become the median over rows of each quartile; shares of a day become quartiles
//! over days. Rows without a vantage point are about all of them together; where a file has such rows, the others are left out.

use super::rows::{KNOWN_FILES, Row, Rows};
use super::{Distribution, QUARTILES, Quantity};
use crate::error::Result;
use crate::maths::Sample;
use std::collections::BTreeMap;
use std::path::Path;

/// Median downloads take longer than this many milliseconds, and less than this many seconds.
const MILLISECONDS_FROM: f64 = 100.0;

/// Reads one file.
pub fn read(path: &Path) -> Result<BTreeMap<Quantity, Distribution>> {
    let rows = Rows::read(path)?;
    let mut all = BTreeMap::new();
    match () {
        () if rows.has(&["date", "filesize", "q1", "md", "q3"]) => {
            downloads(&rows, &mut all)?;
            if rows.has(&["timeouts", "failures", "requests"]) {
                failures(&rows, &mut all)?;
            }
        }
        () if rows.has(&["date", "timeouts", "failures"]) => failures(&rows, &mut all)?,
        () if rows.has(&["date", "position", "q1", "md", "q3"]) => build_times(&rows, &mut all)?,
        () if rows.has(&["date", "low", "q1", "md", "q3", "high"]) => latencies_or_throughput(&rows, &mut all)?,
        () if rows.has(&["date", "advbw", "bwhist"]) => utilisation(&rows, &mut all)?,
        () => {
            let columns = rows.columns.join(",");
            return Err(
                rows.wrong(&format!("the columns '{columns}' are those of no file that is known here; {KNOWN_FILES}"))
            );
        }
    }
    if all.is_empty() {
        return Err(rows
            .wrong("it has no row with values of the public internet; fetch a span with measurements, server=public"));
    }
    Ok(all)
}

/// The days of rows that were used, and how many.
#[derive(Default)]
struct Days {
    first: String,
    last: String,
    /// Rows, not days.
    count: usize,
}

impl Days {
    fn add(&mut self, date: &str) {
        if self.count == 0 || date < self.first.as_str() {
            date.clone_into(&mut self.first);
        }
        if self.count == 0 || date > self.last.as_str() {
            date.clone_into(&mut self.last);
        }
        self.count += 1;
    }

    /// "public Tor, 2026-10", as short as it tells the span.
    fn label(&self) -> String {
        let (first, last) = (&self.first, &self.last);
        let is_year = first.ends_with("-01-01") && last.ends_with("-12-31") && first[..4] == last[..4];
        let span = match () {
            () if first == last => first.clone(),
            () if is_year => first[..4].to_owned(),
            () if first[..7] == last[..7] => first[..7].to_owned(),
            () => format!("{} to {}", &first[..7], &last[..7]),
        };
        format!("public Tor, {span}")
    }

    fn distribution(&self, quartiles: [f64; 3], about: &str, path: &Path) -> Distribution {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Distribution {
            label: self.label(),
            about: format!("{file}, {} to {}, {} rows: {about}", self.first, self.last, self.count),
            quantiles: QUARTILES.into_iter().zip(quartiles).collect(),
        }
    }
}

/// Rows about the public internet: of all vantage points together, where the file has such.
fn of_interest(rows: &Rows) -> Vec<Row<'_>> {
    let public: Vec<Row> = rows.iter().filter(Row::is_public).collect();
    let has_totals = rows.has(&["source"]) && public.iter().any(|row| row.text("source").is_empty());
    public.into_iter().filter(|row| !has_totals || row.text("source").is_empty()).collect()
}

/// Quartiles of days and vantage points that become one.
#[derive(Default)]
struct Quartiles {
    days: Days,
    columns: [Vec<f64>; 3],
}

impl Quartiles {
    fn add(&mut self, date: &str, quartiles: [f64; 3]) {
        self.days.add(date);
        self.columns.iter_mut().zip(quartiles).for_each(|(column, value)| column.push(value));
    }

    fn medians(&self) -> [f64; 3] {
        [0, 1, 2].map(|index| Sample::new(self.columns[index].clone()).quantile(0.5).unwrap_or(0.0))
    }
}

fn downloads(rows: &Rows, all: &mut BTreeMap<Quantity, Distribution>) -> Result<()> {
    let mut by_size: BTreeMap<u64, Quartiles> = BTreeMap::new();
    let mut medians = Vec::new();
    for row in of_interest(rows) {
        let date = row.date()?;
        let text = row.text("filesize");
        let bytes: u64 =
            text.parse().map_err(|_| row.wrong(&format!("'{text}' is no size in bytes for the column filesize")))?;
        if let Some(quartiles) = row.quartiles()? {
            medians.push(quartiles[1]);
            by_size.entry(bytes).or_default().add(date, quartiles);
        }
    }
    // Files that are served have seconds, as their graphs do; those behind them, and the documentation of both, milliseconds.
    let is_in_ms = Sample::new(medians).quantile(0.5).is_some_and(|median| median > MILLISECONDS_FROM);
    let (factor, unit) = if is_in_ms { (1e-3, "milliseconds") } else { (1.0, "seconds") };
    for (bytes, quartiles) in by_size {
        let values = quartiles.medians().map(|value| value * factor);
        let about = format!("medians over days and vantage points of their quartiles, read as {unit}");
        all.insert(Quantity::Download(bytes), quartiles.days.distribution(values, &about, rows.path()));
    }
    Ok(())
}

fn latencies_or_throughput(rows: &Rows, all: &mut BTreeMap<Quantity, Distribution>) -> Result<()> {
    let name = rows.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let says = |word: &str| name.contains(word) || rows.comments.contains(word);
    let (quantity, factor) = match (says("latenc"), says("throughput")) {
        (true, false) => (Quantity::RoundTrip, 1e-3),
        (false, true) => (Quantity::Goodput, 1e3),
        _ => {
            return Err(rows.wrong(
                "round-trip latencies and throughput have the same columns, and neither its name nor its comments say which it is; call the \
                 file onionperf-latencies.csv or onionperf-throughput.csv, as Tor Metrics does",
            ));
        }
    };
    let mut quartiles = Quartiles::default();
    for row in of_interest(rows) {
        let date = row.date()?;
        if let Some(values) = row.quartiles()? {
            quartiles.add(date, values);
        }
    }
    if quartiles.days.count > 0 {
        let values = quartiles.medians().map(|value| value * factor);
        let about = "medians over days and vantage points of their quartiles";
        all.insert(quantity, quartiles.days.distribution(values, about, rows.path()));
    }
    Ok(())
}

/// Three hops, one after the other. Quartiles of sums are not sums of quartiles: the page says so.
fn build_times(rows: &Rows, all: &mut BTreeMap<Quantity, Distribution>) -> Result<()> {
    let mut hops: [Quartiles; 3] = Default::default();
    for row in of_interest(rows) {
        let date = row.date()?;
        let text = row.text("position");
        let hop = text.parse::<usize>().ok().filter(|position| (1..=3).contains(position));
        let hop = hop.ok_or_else(|| row.wrong(&format!("'{text}' is no position of a circuit (1, 2 or 3)")))?;
        if let Some(values) = row.quartiles()? {
            hops[hop - 1].add(date, values.map(|value| value / 1e3));
        }
    }
    if let Some(missing) = hops.iter().position(|hop| hop.days.count == 0) {
        return Err(rows.wrong(&format!(
            "no row has the position {}, and a circuit has three hops; fetch the file without selecting positions",
            missing + 1
        )));
    }
    let medians = hops.each_ref().map(Quartiles::medians);
    let sums = [0, 1, 2].map(|index| medians.iter().map(|hop| hop[index]).sum());
    let about = "sums of the quartiles of three hops, which lie farther apart than those of whole circuits";
    all.insert(Quantity::CircuitBuild, hops[2].days.distribution(sums, about, rows.path()));
    Ok(())
}

/// A day's sums, of what is divided and what it is divided by.
type ByDay<'a> = BTreeMap<&'a str, (f64, f64)>;

fn failures(rows: &Rows, all: &mut BTreeMap<Quantity, Distribution>) -> Result<()> {
    let interesting = of_interest(rows);
    let mut by_day: ByDay = BTreeMap::new();
    for row in &interesting {
        let date = row.date()?;
        let (Some(timeouts), Some(failures)) = (row.number("timeouts")?, row.number("failures")?) else { continue };
        // Files that are served have shares, those behind them counts.
        let requests = if rows.has(&["requests"]) { row.number("requests")?.unwrap_or(0.0) } else { 1.0 };
        if timeouts + failures > requests * (1.0 + 1e-9) {
            return Err(row
                .wrong(&format!("{timeouts} timeouts and {failures} failures are more than all {requests} requests")));
        }
        if requests > 0.0 {
            let sums = by_day.entry(date).or_default();
            sums.0 += timeouts + failures;
            sums.1 += requests;
        }
    }
    let about = "quartiles over days of the share that failed or timed out";
    all.extend(over_days(&by_day, about, rows).map(|distribution| (Quantity::Failures, distribution)));
    Ok(())
}

fn utilisation(rows: &Rows, all: &mut BTreeMap<Quantity, Distribution>) -> Result<()> {
    let interesting: Vec<Row> = rows.iter().collect();
    let mut by_day: ByDay = BTreeMap::new();
    for row in &interesting {
        let date = row.date()?;
        let (Some(advertised), Some(used)) = (row.number("advbw")?, row.number("bwhist")?) else { continue };
        let sums = by_day.entry(date).or_default();
        sums.0 += used;
        sums.1 += advertised;
    }
    by_day.retain(|_, (_, advertised)| *advertised > 0.0);
    let about = "quartiles over days of bandwidth in use over what relays advertise";
    all.extend(over_days(&by_day, about, rows).map(|distribution| (Quantity::Utilisation, distribution)));
    Ok(())
}

fn over_days(by_day: &ByDay, about: &str, rows: &Rows) -> Option<Distribution> {
    let mut days = Days::default();
    by_day.keys().for_each(|day| days.add(day));
    let shares = Sample::new(by_day.values().map(|(part, whole)| part / whole).collect());
    let quartiles = QUARTILES.map(|quartile| shares.quantile(quartile));
    let [Some(low), Some(middle), Some(high)] = quartiles else { return None };
    Some(days.distribution([low, middle, high], about, rows.path()))
}

#[cfg(test)]
mod tests;
