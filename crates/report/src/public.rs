//! What the public Tor network showed, to stand beside what runs show: a dated sample that is built in, and files of Tor Metrics that
//! the user names in its place.

use crate::error::{Error, Result};
use crate::maths::Sample;
use std::collections::BTreeMap;
use std::path::Path;

/// Quartiles of 2019, with their sources.
const BUILT_IN: &str = include_str!("../data/public-tor-2019.csv");

/// A quantity that both the public network and a run have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// From the opening of a client's connection to the last byte of a download of so many bytes, in seconds.
    LastByte(u64),
    /// From a request to the first byte of the answer, in seconds.
    RoundTrip,
    /// From a circuit's launch to its last hop, in seconds.
    CircuitBuild,
    /// Of measuring clients' downloads, by day.
    FailedShare,
    /// Of what relays can carry, by day.
    CapacityInUse,
}

/// What was measured: the quartiles of single downloads, or of days.
#[derive(Clone, Debug, PartialEq)]
pub struct Quartiles {
    pub q1: f64,
    pub median: f64,
    pub q3: f64,
    /// When, such as "2019" or "2023-01-01 to 2023-03-31".
    pub dates: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Public(BTreeMap<Quantity, Quartiles>);

impl Public {
    /// The built-in sample, of which files of Tor Metrics replace what they hold.
    pub fn new(files: &[impl AsRef<Path>]) -> Result<Public> {
        let mut public = Public(read("the built-in sample", BUILT_IN)?);
        for path in files {
            let path = path.as_ref();
            let text = std::fs::read_to_string(path).map_err(|cause| Error::io("read", path, cause))?;
            public.0.extend(read(&path.display().to_string(), &text)?);
        }
        Ok(public)
    }

    pub fn get(&self, quantity: Quantity) -> Option<&Quartiles> {
        self.0.get(&quantity)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Quantity, &Quartiles)> {
        self.0.iter()
    }
}

/// What a header says that a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Our own: quantities by name, in seconds and shares.
    Sample,
    /// Quartiles of downloads by day.
    Downloads,
    /// Shares of downloads that failed, by day.
    Failures,
    /// Quartiles of round trips by day.
    Latencies,
    /// Advertised and used bandwidth by day.
    Bandwidth,
}

const KNOWN: &str = "Tor Metrics' torperf.csv (date,filesize,source,server,q1,md,q3), torperf-failures.csv \
                     (date,source,server,timeouts,failures), onionperf-latencies.csv (date,source,server,low,q1,md,q3,high) and bandwidth.csv \
                     (date,advbw,bwhist)";

impl Form {
    fn of(header: &[&str]) -> Option<Form> {
        let has = |names: &[&str]| names.iter().all(|name| header.contains(name));
        Some(match () {
            () if has(&["quantity", "q1", "md", "q3"]) => Form::Sample,
            () if has(&["date", "filesize", "source", "server", "q1", "md", "q3"]) => Form::Downloads,
            () if has(&["date", "source", "server", "timeouts", "failures"]) => Form::Failures,
            () if has(&["date", "source", "server", "q1", "md", "q3"]) => Form::Latencies,
            () if has(&["date", "advbw", "bwhist"]) => Form::Bandwidth,
            () => return None,
        })
    }
}

/// A line with what its fields are called.
struct Row<'a> {
    file: &'a str,
    line: usize,
    header: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn text(&self, name: &str) -> &'a str {
        let column = self.header.iter().position(|known| *known == name);
        column.and_then(|column| self.fields.get(column)).copied().unwrap_or_default()
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::Input(format!("{}: line {}: {what}", self.file, self.line))
    }

    /// None for an empty field, which stands for a day without measurements.
    fn number(&self, name: &str) -> Result<Option<f64>> {
        let text = self.text(name);
        if text.is_empty() || text == "NA" {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match number {
            Some(number) => Ok(Some(number)),
            None => {
                Err(self
                    .wrong(format!("'{text}' in column {name} is no number: take the file as Tor Metrics serves it")))
            }
        }
    }

    /// q1, md and q3, in ascending order.
    fn quartiles(&self) -> Result<Option<[f64; 3]>> {
        let (q1, median, q3) = (self.number("q1")?, self.number("md")?, self.number("q3")?);
        match (q1, median, q3) {
            (Some(q1), Some(median), Some(q3)) if q1 <= median && median <= q3 => Ok(Some([q1, median, q3])),
            (Some(_), Some(_), Some(_)) => Err(self.wrong("q1, md and q3 do not ascend")),
            _ => Ok(None),
        }
    }

    fn bytes(&self) -> Result<u64> {
        let text = self.text("filesize");
        let named =
            [("50kb", 50 << 10), ("1mb", 1 << 20), ("5mb", 5 << 20)].into_iter().find(|(name, _)| *name == text);
        let bytes = named.map(|(_, bytes)| bytes).or_else(|| text.parse().ok());
        bytes.ok_or_else(|| self.wrong(format!("'{text}' in column filesize is no number of bytes")))
    }
}

fn read(file: &str, text: &str) -> Result<BTreeMap<Quantity, Quartiles>> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let wrong = |what: &str| Error::Input(format!("{file}: {what}: these are understood: {KNOWN}"));
    let (_, header) = lines.next().ok_or_else(|| wrong("it has no table"))?;
    let header: Vec<&str> = header.split(',').map(str::trim).collect();
    let form = Form::of(&header).ok_or_else(|| wrong("its columns are none that are known"))?;
    let is_throughput = |name: &str| name.contains("throughput");
    if form == Form::Latencies
        && (is_throughput(file) || text.lines().any(|line| line.starts_with('#') && is_throughput(line)))
    {
        return Err(wrong("throughputs have the columns of latencies, and are not used"));
    }
    let rows = lines.map(|(line, text)| {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let row = Row { file, line, header: &header, fields };
        match row.fields.len() == header.len() {
            true => Ok(row),
            false => Err(row.wrong(format!("{} fields where the header has {}", row.fields.len(), header.len()))),
        }
    });
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    if form == Form::Sample {
        return rows.iter().map(sample_row).collect();
    }
    let found = of_days(form, &rows)?;
    if found.is_empty() {
        return Err(wrong("it has no measurements of servers on the public internet"));
    }
    Ok(found)
}

fn sample_row(row: &Row) -> Result<(Quantity, Quartiles)> {
    let quantity = match row.text("quantity") {
        "last_byte_s" => Quantity::LastByte(row.bytes()?),
        "round_trip_s" => Quantity::RoundTrip,
        "circuit_build_s" => Quantity::CircuitBuild,
        "failed_share" => Quantity::FailedShare,
        "capacity_in_use" => Quantity::CapacityInUse,
        other => return Err(row.wrong(format!("'{other}' is no quantity"))),
    };
    let [q1, median, q3] = row.quartiles()?.ok_or_else(|| row.wrong("quartiles are missing"))?;
    Ok((quantity, Quartiles { q1, median, q3, dates: "2019".into() }))
}

/// From rows by day. Of quartiles by day, each one's median over days; of one value by day, its quartiles over days. Rows of all sources
/// together are taken where there are some, else those of each source.
fn of_days(form: Form, rows: &[Row]) -> Result<BTreeMap<Quantity, Quartiles>> {
    let is_public = |row: &&Row| form == Form::Bandwidth || row.text("server") == "public";
    let has_all = rows.iter().filter(is_public).any(|row| row.text("source").is_empty());
    let is_meant =
        |row: &&Row| is_public(row) && (form == Form::Bandwidth || !has_all || row.text("source").is_empty());
    // Tor Metrics says milliseconds and serves seconds of some tables: no median of a day is below 60 ms or above 60 s.
    let medians = rows.iter().filter_map(|row| row.number("md").ok().flatten()).collect();
    let second = if Sample::new(medians).quantile(0.5).is_some_and(|median| median >= 60.0) { 1e3 } else { 1.0 };
    let mut days: BTreeMap<Quantity, Days> = BTreeMap::new();
    for row in rows.iter().filter(is_meant) {
        let (quantity, values) = match form {
            Form::Downloads => {
                (Quantity::LastByte(row.bytes()?), row.quartiles()?.map(|times| times.map(|time| time / second)))
            }
            Form::Latencies => (Quantity::RoundTrip, row.quartiles()?.map(|times| times.map(|time| time / second))),
            Form::Failures => (Quantity::FailedShare, failures(row)?.map(|share| [share; 3])),
            Form::Bandwidth | Form::Sample => {
                let used = row.number("advbw")?.filter(|can| *can > 0.0).zip(row.number("bwhist")?);
                (Quantity::CapacityInUse, used.map(|(can, used)| [used / can; 3]))
            }
        };
        if let Some(values) = values {
            days.entry(quantity).or_default().add(row.text("date"), values);
        }
    }
    let is_single = matches!(form, Form::Failures | Form::Bandwidth);
    Ok(days.into_iter().filter_map(|(quantity, days)| Some((quantity, days.quartiles(is_single)?))).collect())
}

/// As shares, or where a column counts requests as numbers.
fn failures(row: &Row) -> Result<Option<f64>> {
    let Some((timeouts, failures)) = row.number("timeouts")?.zip(row.number("failures")?) else { return Ok(None) };
    let all = if row.header.contains(&"requests") { row.number("requests")? } else { Some(1.0) };
    let share = all.filter(|all| *all > 0.0).map(|all| (timeouts + failures) / all);
    match share {
        Some(share) if share > 1.0 + 1e-9 => Err(row.wrong("more downloads failed than there were")),
        share => Ok(share),
    }
}

#[derive(Default)]
struct Days {
    dates: Vec<String>,
    values: [Vec<f64>; 3],
}

impl Days {
    fn add(&mut self, date: &str, values: [f64; 3]) {
        self.dates.push(date.to_owned());
        self.values.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
    }

    /// Several values of a day, by size or source, become their mean.
    fn by_day(&mut self) {
        let mut days: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (date, value) in self.dates.iter().zip(&self.values[1]) {
            days.entry(date).or_default().push(*value);
        }
        let means: Vec<f64> = days.into_values().map(|day| day.iter().sum::<f64>() / day.len() as f64).collect();
        self.values = [means.clone(), means.clone(), means];
    }

    fn quartiles(mut self, is_single: bool) -> Option<Quartiles> {
        if is_single {
            self.by_day();
        }
        let (first, last) = (self.dates.iter().min()?, self.dates.iter().max()?);
        let dates = if first == last { first.clone() } else { format!("{first} to {last}") };
        let samples = self.values.map(Sample::new);
        let at = if is_single { [0.25, 0.5, 0.75] } else { [0.5; 3] };
        Some(Quartiles {
            q1: samples[0].quantile(at[0])?,
            median: samples[1].quantile(at[1])?,
            q3: samples[2].quantile(at[2])?,
            dates,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> (Quantity, Quartiles) {
        let found = read("file.csv", text).unwrap();
        assert_eq!(found.len(), 1);
        found.into_iter().next().unwrap()
    }

    #[test]
    fn the_built_in_sample_has_all_quantities() {
        let public = Public::new(&[] as &[&Path]).unwrap();
        let five = public.get(Quantity::LastByte(5 << 20)).unwrap();
        assert_eq!((five.q1, five.median, five.q3, five.dates.as_str()), (7.43, 11.06, 15.76, "2019"));
        assert_eq!(public.iter().count(), 7);
    }

    #[test]
    fn downloads_are_medians_of_days_of_all_sources_from_public_servers() {
        let text = "# Tor Metrics\ndate,filesize,source,server,q1,md,q3\n\
                    2023-01-01,51200,,public,500,1000,2000\n2023-01-01,51200,op-nl6a,public,1,2,3\n\
                    2023-01-01,51200,,onion,5000,6000,7000\n2023-01-02,51200,,public,600,1200,2400\n\
                    2023-01-03,51200,,public,700,1100,9000\n2023-01-04,51200,,public,,,\n";
        let quartiles = Quartiles { q1: 0.6, median: 1.1, q3: 2.4, dates: "2023-01-01 to 2023-01-03".into() };
        assert_eq!(only(text), (Quantity::LastByte(51200), quartiles));
    }

    #[test]
    fn failures_and_bandwidth_are_quartiles_over_days() {
        let shares = "date,filesize,source,server,timeouts,failures\n2023-01-01,51200,,public,0.01,0\n\
                      2023-01-02,51200,,public,0.01,0.01\n2023-01-03,51200,,public,0,0.03\n";
        assert_eq!(only(shares).1.median, 0.02);
        let sizes = "date,filesize,source,server,timeouts,failures\n2023-01-01,51200,,public,0.01,0\n\
                     2023-01-01,1048576,,public,0.03,0\n";
        assert_eq!(only(sizes).1.q1, 0.02, "a day has one share");
        let counts = "date,filesize,source,server,timeouts,failures,requests\n2023-01-01,51200,,public,1,2,200\n";
        assert_eq!(only(counts).1.median, 0.015);
        let bandwidth = "date,advbw,bwhist\n2023-01-01,400,100\n2023-01-02,400,200\n2023-01-03,400,300\n";
        let (quantity, found) = only(bandwidth);
        assert_eq!((quantity, found.q1, found.median, found.q3), (Quantity::CapacityInUse, 0.375, 0.5, 0.625));
    }

    #[test]
    fn latencies_are_told_from_downloads_and_throughputs() {
        let text = "date,source,server,low,q1,md,q3,high\n2023-01-01,,public,100,200,300,400,900\n";
        assert_eq!((only(text).0, only(text).1.median), (Quantity::RoundTrip, 0.3));
        let told = read("onionperf-throughput.csv", text).unwrap_err().to_string();
        assert!(told.contains("throughputs have the columns of latencies"), "{told}");
        assert!(
            read("t.csv", &format!("# URL: https://metrics.torproject.org/onionperf-throughput.csv\n{text}")).is_err()
        );
    }

    #[test]
    fn times_may_be_seconds_and_failures_without_a_size() {
        let seconds = "date,filesize,source,server,q1,md,q3\n2023-01-01,51200,,public,0.5,1,2\n";
        assert_eq!(only(seconds).1.median, 1.0);
        let shares = "date,source,server,timeouts,failures\n2023-01-01,,public,0.01,0.02\n";
        assert_eq!(
            only(shares),
            (Quantity::FailedShare, Quartiles { q1: 0.03, median: 0.03, q3: 0.03, dates: "2023-01-01".into() })
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let told = |text: &str| read("file.csv", text).unwrap_err().to_string();
        assert!(told("").starts_with("file.csv: it has no table"));
        assert!(told("date,source,position,q1,md\n").contains("none that are known"));
        let header = "date,filesize,source,server,q1,md,q3\n";
        assert!(told(&format!("{header}2023-01-01,51200,,public,1,2\n")).starts_with("file.csv: line 2: 6 fields"));
        assert!(
            told(&format!("{header}2023-01-01,51200,,public,1,x,3\n"))
                .starts_with("file.csv: line 2: 'x' in column md")
        );
        assert!(told(&format!("{header}2023-01-01,51200,,public,3,2,1\n")).contains("do not ascend"));
        assert!(told(&format!("{header}2023-01-01,big,,public,1,2,3\n")).contains("'big' in column filesize"));
        assert!(told(&format!("{header}2023-01-01,51200,,onion,1,2,3\n")).contains("no measurements of servers"));
        let failures = "date,filesize,source,server,timeouts,failures\n2023-01-01,51200,,public,0.9,0.2\n";
        assert!(told(failures).contains("more downloads failed"));
    }
}
