//! What computing between two system calls costs, by program, by the two calls and by the bytes that they move: from what runs measured to a file
//! that people can read and change, and that `experimental.cpu_model` takes.
//!
//! `docs/profiling.md` has the form. A kind of interval has up to twenty times, each the mean of as many intervals as the others': to draw
//! one of them is to draw an interval, and their mean is the mean.

use crate::columns::{Values, write_table};
use crate::read::{integers, texts};
use crate::rules::Pattern;
use crate::yaml::{self, Node};
use report::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The file of a run.
const FILE: &str = "costs.parquet";
/// Times of one kind of interval.
const PARTS: u64 = 20;
/// The version of the file that is written here.
const VERSION: u64 = 1;
/// What stands for a call where a thread begins.
pub const START: &str = "start";

/// So many intervals that a run measured, all of one kind and about as long as each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredCost {
    pub host: String,
    /// The program's file, without its folder.
    pub program: String,
    /// The calls before and after, by name.
    pub from: String,
    pub to: String,
    /// The least number of bytes of the class of sizes, which is a power of two, or 0.
    pub bytes: u64,
    pub count: u64,
    /// The processor time of all of them.
    pub time_ns: u64,
}

/// Keeps what a run measured, in its data directory, which has a profile.
///
/// # Errors
/// When it cannot be written.
pub fn record(data_directory: &Path, rows: &[MeasuredCost]) -> Result<()> {
    let numbers = |of: fn(&MeasuredCost) -> u64| Values::Integers(rows.iter().map(|row| of(row) as i64).collect());
    let names = |of: fn(&MeasuredCost) -> &String| Values::Texts(rows.iter().map(|row| of(row).clone()).collect());
    let columns = [
        ("host", names(|row| &row.host)),
        ("program", names(|row| &row.program)),
        ("from", names(|row| &row.from)),
        ("to", names(|row| &row.to)),
        ("bytes", numbers(|row| row.bytes)),
        ("count", numbers(|row| row.count)),
        ("time_ns", numbers(|row| row.time_ns)),
    ];
    let path = data_directory.join(crate::FOLDER).join(FILE);
    write_table(&path, "costs", &columns).map_err(|error| Error::io("write", &path, error))
}

/// What intervals of one kind cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    pub from: String,
    pub to: String,
    pub bytes: u64,
    /// How many there were: what it weighs in means.
    pub count: u64,
    /// Nanoseconds, each as likely as the others; at least one.
    pub times: Vec<u64>,
}

/// What computing costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// By program: the name of its file, or of hosts (`*` and `?` stand for others' signs), a slash and that name.
    pub programs: BTreeMap<String, Vec<Cost>>,
}

/// Intervals of one kind that take longer on some hosts than on others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    pub program: String,
    pub from: String,
    pub to: String,
    pub bytes: u64,
    /// The hosts with the least and with the greatest mean, in nanoseconds.
    pub least: (String, u64),
    pub most: (String, u64),
    /// Of all processor time that was measured, how much is in such intervals: percent.
    pub share: u64,
}

/// Where one program does different things on different hosts, so that a file without hosts takes what is true of none: if that is much, the kind
/// in which most of the time is.
///
/// # Errors
/// When a run has measured nothing, or cannot be read.
pub fn unlike_hosts(runs: &[PathBuf]) -> Result<Option<Unlike>> {
    /// Fewer intervals of a host say nothing; means that are nearer are alike; a smaller share of the time is not much.
    const LEAST_COUNT: u64 = 100;
    const FACTOR: f64 = 1.5;
    const SHARE: u64 = 10;
    type Kind = (String, String, String, u64);
    let mut kinds: BTreeMap<Kind, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    for row in runs.iter().map(|run| measured(run)).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let hosts = kinds.entry((row.program, row.from, row.to, row.bytes)).or_default();
        let sum = hosts.entry(row.host).or_default();
        *sum = (sum.0 + row.count, sum.1 + row.time_ns);
    }
    let time = |hosts: &BTreeMap<String, (u64, u64)>| hosts.values().map(|(_, time)| time).sum::<u64>();
    let all: u64 = kinds.values().map(time).sum();
    let mut found: Vec<(u64, Unlike)> = Vec::new();
    for ((program, from, to, bytes), hosts) in kinds {
        let known = hosts.iter().filter(|(_, (count, _))| *count >= LEAST_COUNT);
        let mut means: Vec<(u64, &String)> = known.map(|(host, (count, time))| (time / count, host)).collect();
        means.sort();
        let [least, .., most] = means[..] else { continue };
        if most.0 as f64 >= least.0 as f64 * FACTOR {
            let named = |(mean, host): (u64, &String)| (host.clone(), mean);
            let (least, most) = (named(least), named(most));
            found.push((time(&hosts), Unlike { program, from, to, bytes, least, most, share: 0 }));
        }
    }
    let share = 100 * found.iter().map(|(time, _)| time).sum::<u64>() / all.max(1);
    let largest = found.into_iter().max_by_key(|(time, _)| *time).filter(|_| share >= SHARE);
    Ok(largest.map(|(_, unlike)| Unlike { share, ..unlike }))
}

/// The mean of intervals of several kinds, in nanoseconds.
pub fn mean<'a>(costs: impl Iterator<Item = &'a Cost>) -> u64 {
    let (mut count, mut sum) = (0.0, 0.0);
    for cost in costs {
        let all: u128 = cost.times.iter().map(|time| u128::from(*time)).sum();
        count += cost.count as f64;
        sum += cost.count as f64 * all as f64 / cost.times.len().max(1) as f64;
    }
    if count > 0.0 { (sum / count).round() as u64 } else { 0 }
}

impl Costs {
    /// Sums up what runs have measured, of each program, or of each program on each host.
    ///
    /// # Errors
    /// When one is named twice, has measured nothing, or cannot be read, or all together have no interval.
    pub fn of_runs(runs: &[PathBuf], per_host: bool) -> Result<Costs> {
        report::refuse_repeated(runs.iter().map(PathBuf::as_path))?;
        let mut kinds: BTreeMap<(String, String, String, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for run in runs {
            for row in measured(run)? {
                let program = if per_host { format!("{}/{}", row.host, row.program) } else { row.program };
                let times = kinds.entry((program, row.from, row.to, row.bytes)).or_default();
                times.push((row.count, row.time_ns));
            }
        }
        if kinds.is_empty() {
            let runs: Vec<String> = runs.iter().map(|run| run.display().to_string()).collect();
            return Err(Error::Input(format!(
                "{}: no intervals were measured between two system calls: programs made no calls in the time of --profile=costs; measure an \
                 earlier or a longer one",
                runs.join(", ")
            )));
        }
        let mut costs = Costs::default();
        for ((program, from, to, bytes), classes) in kinds {
            let count = classes.iter().map(|(count, _)| count).sum();
            costs.programs.entry(program).or_default().push(Cost { from, to, bytes, count, times: parts(classes) });
        }
        Ok(costs)
    }

    /// What counts on a host: by programs' names, those that say which hosts they are about before those that do not.
    pub fn on_host(&self, host: &str) -> BTreeMap<&str, &str> {
        let mut known = BTreeMap::new();
        for key in self.programs.keys() {
            match key.rsplit_once('/') {
                Some((hosts, program)) if Pattern::new(hosts).fits(host) => _ = known.insert(program, key.as_str()),
                Some(_) => {}
                None => _ = known.entry(key.as_str()).or_insert(key.as_str()),
            }
        }
        known
    }

    /// The file, with `runs` as where it comes from.
    pub fn to_yaml(&self, runs: &[PathBuf]) -> String {
        let mut text = "# Processor time between system calls, as 'gnomon profile --costs' measured it, for experimental.cpu_model.\n\
                        # Times are nanoseconds; each is as likely as the others of its line. Change what you like.\n"
            .to_owned();
        for run in runs {
            let _ = writeln!(text, "# from {}", run.display());
        }
        let _ = writeln!(text, "version: {VERSION}\nprograms:");
        for (program, costs) in &self.programs {
            let _ = writeln!(text, "  {}: # {} ns for an interval on average", quoted(program), mean(costs.iter()));
            for Cost { from, to, bytes, count, times } in costs {
                let times: Vec<String> = times.iter().map(u64::to_string).collect();
                let _ = writeln!(
                    text,
                    "    - {{ from: {from}, to: {to}, bytes: {bytes}, count: {count}, times: [{}] }}",
                    times.join(", ")
                );
            }
        }
        text
    }

    /// Reads a file; `is_call` says which names calls have.
    ///
    /// # Errors
    /// When it cannot be read, or says what makes no sense: with its place and what to write.
    pub fn load(path: &Path, is_call: &dyn Fn(&str) -> bool) -> Result<Costs> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let place = path.display();
            Error::Input(format!("{place}: {error}; 'gnomon profile --costs FILE RUN' writes such a file"))
        })?;
        Costs::parse(&path.display().to_string(), &text, is_call)
    }

    fn parse(name: &str, text: &str, is_call: &dyn Fn(&str) -> bool) -> Result<Costs> {
        let root = yaml::parse(name, text, "'version' and 'programs'")?;
        let (mut costs, mut has_version) = (Costs::default(), false);
        for (key, value) in root.map(&["version", "programs"])? {
            if key.text == "version" {
                has_version = true;
                let version = value.number()?;
                if version != VERSION {
                    return Err(value.wrong(&format!("this gnomon reads version {VERSION}: make the file again")));
                }
                continue;
            }
            for (program, list) in value.map(&[])? {
                let costs_of = costs.programs.entry(program.text.to_owned()).or_default();
                let mut known = BTreeSet::new();
                for entry in list.list()? {
                    let cost = cost(&entry, is_call)?;
                    if !known.insert((cost.from.clone(), cost.to.clone(), cost.bytes)) {
                        let Cost { from, to, bytes, .. } = &cost;
                        let text = format!(
                            "from {from} to {to} with {bytes} bytes was there before: leave one of the two out"
                        );
                        return Err(entry.wrong(&text));
                    }
                    costs_of.push(cost);
                }
            }
        }
        if !has_version {
            return Err(root.wrong(&format!("'version: {VERSION}' is missing")));
        }
        if costs.programs.values().all(Vec::is_empty) {
            return Err(root.wrong("it has no program with an interval: write some below 'programs'"));
        }
        Ok(costs)
    }
}

fn cost(entry: &Node<'_>, is_call: &dyn Fn(&str) -> bool) -> Result<Cost> {
    let mut cost = Cost { from: String::new(), to: String::new(), bytes: 0, count: 1, times: Vec::new() };
    for (key, value) in entry.map(&["from", "to", "bytes", "count", "times"])? {
        match key.text {
            "from" | "to" => {
                let name = value.text()?;
                let is_start = key.text == "from" && name == START;
                if !is_start && !is_call(name) {
                    return Err(value.wrong(&format!("'{name}' is no system call: write one such as recvfrom")));
                }
                let into = if key.text == "from" { &mut cost.from } else { &mut cost.to };
                *into = name.to_owned();
            }
            "bytes" => {
                cost.bytes = value.number()?;
                if cost.bytes != 0 && !cost.bytes.is_power_of_two() {
                    return Err(value
                        .wrong("sizes are powers of two, from which on they count, or 0 for calls that move nothing"));
                }
            }
            "count" => cost.count = value.number()?,
            _ => cost.times = value.list()?.iter().map(Node::number).collect::<Result<_>>()?,
        }
    }
    if cost.from.is_empty() || cost.to.is_empty() || cost.times.is_empty() {
        return Err(entry.wrong("an interval needs 'from', 'to' and at least one of 'times', in nanoseconds"));
    }
    const MOST: u64 = 3_600_000_000_000;
    if cost.times.iter().any(|time| *time > MOST) {
        return Err(entry.wrong("no interval takes more than an hour: times are nanoseconds"));
    }
    Ok(cost)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn measured(run: &Path) -> Result<Vec<MeasuredCost>> {
    let path = run.join(crate::FOLDER).join(FILE);
    if !path.exists() {
        return Err(Error::Input(format!(
            "{}: it has not measured what computing costs: make it with 'gnomon run --profile=costs'",
            run.display()
        )));
    }
    let [bytes, counts, times] = integers(&path, ["bytes", "count", "time_ns"])?;
    let [hosts, programs, from, to] = texts(&path, ["host", "program", "from", "to"])?;
    let rows = hosts.into_iter().zip(programs).zip(from).zip(to).enumerate();
    Ok(rows
        .map(|(index, (((host, program), from), to))| MeasuredCost {
            host,
            program,
            from,
            to,
            bytes: bytes[index] as u64,
            count: counts[index] as u64,
            time_ns: times[index] as u64,
        })
        .collect())
}

/// The means of equal parts of intervals, of which `classes` has how many there are, and their time.
fn parts(mut classes: Vec<(u64, u64)>) -> Vec<u64> {
    let mean = |(count, time): &(u64, u64)| *time as f64 / (*count).max(1) as f64;
    classes.retain(|(count, _)| *count > 0);
    classes.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    let all: u64 = classes.iter().map(|(count, _)| count).sum();
    let number = PARTS.min(all).max(1);
    let mut parts = Vec::new();
    let (mut class, mut left) = (0, classes.first().map_or(0.0, |class| class.0 as f64));
    for _ in 0..number {
        let size = all as f64 / number as f64;
        let (mut missing, mut sum) = (size, 0.0);
        while missing > 1e-9 && class < classes.len() {
            let taken = missing.min(left);
            sum += taken * mean(&classes[class]);
            missing -= taken;
            left -= taken;
            if left <= 1e-9 {
                class += 1;
                left = classes.get(class).map_or(0.0, |class| class.0 as f64);
            }
        }
        parts.push((sum / size).round() as u64);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_call(name: &str) -> bool {
        ["read", "write", "recvfrom"].contains(&name)
    }

    #[test]
    fn parts_keep_the_mean() {
        assert_eq!(parts(vec![(1, 500)]), [500]);
        assert_eq!(parts(vec![(2, 20), (1, 700)]), [10, 10, 700]);
        let many = parts(vec![(30, 9_000), (60, 6_000), (10, 50_000)]);
        assert_eq!(many.len(), 20);
        assert_eq!((many[0], many[12], many[17], many[18], many[19]), (100, 300, 300, 5_000, 5_000));
        assert_eq!(many.iter().sum::<u64>() / 20, 650);
    }

    #[test]
    fn a_run_counts_once_and_one_without_intervals_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir_all(run.join(crate::FOLDER)).unwrap();
        record(&run, &[]).unwrap();
        let told = Costs::of_runs(std::slice::from_ref(&run), false).unwrap_err();
        assert!(told.is_bad_input() && told.to_string().contains("run: no intervals were measured"), "{told}");
        let row = MeasuredCost {
            host: "a".into(),
            program: "p".into(),
            from: "read".into(),
            to: "write".into(),
            bytes: 0,
            count: 3,
            time_ns: 30,
        };
        record(&run, &[row]).unwrap();
        assert_eq!(mean(Costs::of_runs(std::slice::from_ref(&run), false).unwrap().programs["p"].iter()), 10);
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(&run, &other).unwrap();
        let told = Costs::of_runs(&[run, other], false).unwrap_err().to_string();
        assert!(told.contains("other' is named twice: a run counts once"), "{told}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let cost =
            |from: &str, bytes| Cost { from: from.into(), to: "write".into(), bytes, count: 7, times: vec![5, 9] };
        let costs = Costs {
            programs: [
                ("python3.11".to_owned(), vec![cost(START, 0), cost("recvfrom", 1024)]),
                ("a: b".to_owned(), vec![cost("read", 1)]),
            ]
            .into(),
        };
        let text = costs.to_yaml(&["run.data".into()]);
        assert_eq!(Costs::parse("f", &text, &is_call).unwrap(), costs, "{text}");
        assert_eq!(mean(costs.programs.values().flatten()), 7);
    }

    #[test]
    fn a_program_of_some_hosts_comes_before_that_of_all() {
        let text = "version: 1\nprograms:\n  p: []\n  q: [{ from: read, to: write, times: [1] }]\n  relay*/p: []\n";
        let costs = Costs::parse("f", text, &is_call).unwrap();
        assert_eq!(costs.on_host("relay12"), [("p", "relay*/p"), ("q", "q")].into());
        assert_eq!(costs.on_host("exit"), [("p", "p"), ("q", "q")].into());
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let entry = |text: &str| format!("version: 1\nprograms:\n  p:\n  - {text}\n");
        for (text, told) in [
            ("version: 2\nprograms: {}\n".to_owned(), "f:1:10: this gnomon reads version 1"),
            ("programs:\n  p: []\n".to_owned(), "'version: 1' is missing"),
            ("version: 1\nprograms:\n  p: []\n".to_owned(), "no program with an interval"),
            (entry("{ from: reed, to: write, times: [1] }"), "f:4:13: 'reed' is no system call"),
            (entry("{ from: read, to: start, times: [1] }"), "'start' is no system call"),
            (entry("{ from: read, to: write }"), "f:4:5: an interval needs 'from', 'to'"),
            (entry("{ from: read, to: write, times: [fast] }"), "a whole number is needed here"),
            (entry("{ from: read, to: write, times: [-1] }"), "a whole number is needed here"),
            (entry("{ from: read, to: write, bytes: 1000, times: [1] }"), "sizes are powers of two"),
            (entry("{ from: read, to: write, time: 5 }"), "'time' is not known here: write one of from, to"),
            (
                entry("{ from: read, to: write, times: [1] }\n  - { from: read, to: write, times: [2] }"),
                "was there before",
            ),
            ("version: 1\nprograms: [\n".to_owned(), "this is no YAML"),
        ] {
            let error = Costs::parse("f", &text, &is_call).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
