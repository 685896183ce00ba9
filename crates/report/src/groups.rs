//! Which runs are compared with which: what the user asked for, made of names and folders, becomes subjects.

use crate::Request;
use crate::error::{Error, Result};
use crate::input;
use crate::run::Run;
use crate::subject::Subject;
use base::ByteSize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs that count as samples of the same experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub label: String,
    pub runs: Vec<PathBuf>,
}

/// A request that makes sense.
#[derive(Debug)]
pub struct Plan {
    runs: Vec<Named>,
    pub output: PathBuf,
}

#[derive(Debug)]
struct Named {
    directory: PathBuf,
    label: String,
    group: Option<String>,
}

impl Plan {
    pub fn new(request: &Request) -> Result<Plan> {
        if request.runs.is_empty() && request.groups.is_empty() {
            return Err(Error::Input("no run to report on: name the data directory of one".into()));
        }
        if !request.labels.is_empty() && request.labels.len() != request.runs.len() {
            return Err(Error::Input(format!(
                "{} labels for {} runs: give --label once for each run, in their order",
                request.labels.len(),
                request.runs.len()
            )));
        }
        if let (Some(from), Some(until)) = (request.from_s, request.until_s)
            && from >= until
        {
            return Err(Error::Input(format!("the time to report on ends ({until} s) before it begins ({from} s)")));
        }
        let mut runs = Vec::new();
        for (index, directory) in request.runs.iter().enumerate() {
            let label = request.labels.get(index).cloned().unwrap_or_else(|| label_of(directory));
            runs.push(Named { directory: directory.clone(), label, group: None });
        }
        for group in &request.groups {
            for directory in &group.runs {
                let label = label_of(directory);
                runs.push(Named { directory: directory.clone(), label, group: Some(group.label.clone()) });
            }
        }
        refuse_repeated_groups(&request.groups)?;
        refuse_repeated_labels(&request.labels)?;
        make_unique(&mut runs, request.labels.is_empty());
        let output = request.output.clone().unwrap_or_else(|| match runs.as_slice() {
            [one] => one.directory.join("report"),
            _ => PathBuf::from("report"),
        });
        Ok(Plan { runs, output })
    }

    /// Reads all runs, in the plan's order.
    pub fn read(&self) -> Result<Vec<Run>> {
        refuse_repeated(self.runs.iter().map(|named| named.directory.as_path()))?;
        self.runs.iter().map(|named| input::read(&named.directory, &named.label)).collect()
    }

    /// Runs of the same group together, in the order in which their first run was named. Runs without a group that differ
    /// in their seed only are one too.
    pub fn subjects<'a>(&self, runs: &'a [Run]) -> Vec<Subject<'a>> {
        let mut subjects: Vec<Subject<'a>> = Vec::new();
        for (named, run) in self.runs.iter().zip(runs) {
            let known = subjects.iter().position(|subject| match &named.group {
                Some(group) => subject.label == *group,
                None => subject.runs.iter().all(|other| differ_in_seed_only(other, run)),
            });
            match known {
                Some(index) => subjects[index].runs.push(run),
                None => {
                    let label = named.group.clone().unwrap_or_else(|| named.label.clone());
                    let colour = subjects.len();
                    subjects.push(Subject { label, runs: vec![run], colour });
                }
            }
        }
        subjects
    }
}

/// Refuses a run that is there twice, under whatever path: it would count as repetitions that agree.
///
/// # Errors
/// When one is.
pub fn refuse_repeated<'a>(runs: impl Iterator<Item = &'a Path>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for directory in runs {
        let place = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        if !seen.insert(place) {
            return Err(Error::Input(format!("'{}' is named twice: a run counts once", directory.display())));
        }
    }
    Ok(())
}

/// Refuses to report on a time that a run does not reach: it would be all of nothing.
pub fn refuse_time_behind_end(runs: &[Run], from_s: Option<f64>) -> Result<()> {
    let Some(from) = from_s else { return Ok(()) };
    match runs.iter().find(|run| run.end_s() <= from) {
        Some(run) => Err(Error::Input(format!(
            "the time to report on begins ({from} s) when '{}' has ended ({} s)",
            run.directory.display(),
            run.end_s()
        ))),
        None => Ok(()),
    }
}

fn refuse_repeated_labels(labels: &[String]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match labels.iter().find(|label| !seen.insert(*label)) {
        Some(label) => Err(Error::Input(format!(
            "the label '{label}' is given twice: give each run one of its own, or put runs of one experiment into a --group"
        ))),
        None => Ok(()),
    }
}

fn refuse_repeated_groups(groups: &[Group]) -> Result<()> {
    let mut labels = BTreeSet::new();
    match groups.iter().find(|group| !labels.insert(&group.label)) {
        Some(group) => {
            Err(Error::Input(format!("the group '{}' is given twice: list all its runs in one --group", group.label)))
        }
        None => Ok(()),
    }
}

/// The folder's name without the ending ".data"; where that says nothing, the folder around it.
fn label_of(directory: &Path) -> String {
    let absolute = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = name(&absolute).unwrap_or_else(|| directory.display().to_string());
    let stem = own.strip_suffix(".data").unwrap_or(&own);
    match absolute.parent().and_then(name) {
        Some(parent) if matches!(stem, "gnomon" | "shadow" | "data") => parent,
        _ => stem.to_owned(),
    }
}

/// Labels that come again get a number.
fn make_unique(runs: &mut [Named], may_change: bool) {
    if !may_change {
        return;
    }
    for i in 0..runs.len() {
        let label = runs[i].label.clone();
        let before =
            runs[..i].iter().filter(|run| run.label == label || run.label.starts_with(&format!("{label} #"))).count();
        if before > 0 {
            runs[i].label = format!("{label} #{}", before + 1);
        }
    }
}

/// Whether two runs are samples of the same experiment: the same file but for the seed, the same settings of tor and traffic,
/// other seeds.
fn differ_in_seed_only(a: &Run, b: &Run) -> bool {
    let (Some(config_a), Some(config_b)) = (&a.config, &b.config) else { return false };
    let (Some(seed_a), Some(seed_b)) = (a.seed(), b.seed()) else { return false };
    seed_a != seed_b && config_a.essence == config_b.essence && settings(a) == settings(b)
}

/// No torrc is longer.
const LONGEST_SETTINGS: ByteSize = ByteSize(64 << 20);

/// The files that say what the programs of a run did: by host its torrc, and those that hosts share, in the folder `conf`.
fn settings(run: &Run) -> Vec<(PathBuf, Vec<u8>)> {
    let of_hosts = run.hosts.iter().map(|host| run.directory.join("hosts").join(host).join("torrc"));
    let shared = fs::read_dir(run.directory.join("conf")).into_iter().flatten().flatten().map(|entry| entry.path());
    let shared = shared.filter(|path| path.extension().is_some_and(|extension| extension == "torrc"));
    let paths = of_hosts.chain(shared);
    let files = paths.filter_map(|path| {
        Some((path.strip_prefix(&run.directory).ok()?.to_path_buf(), base::input::bytes(&path, LONGEST_SETTINGS).ok()?))
    });
    let mut files: Vec<(PathBuf, Vec<u8>)> = files.collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Config, SimStats};

    fn request(runs: &[&str]) -> Request {
        Request { runs: runs.iter().map(PathBuf::from).collect(), ..Request::default() }
    }

    #[test]
    fn labels_come_from_folders_and_are_unique() {
        let plan = Plan::new(&request(&["/a/kist.data", "/b/kist.data", "/c/vanilla/gnomon.data"])).unwrap();
        let labels: Vec<&str> = plan.runs.iter().map(|run| run.label.as_str()).collect();
        assert_eq!(labels, ["kist", "kist #2", "vanilla"]);
        assert_eq!(plan.output, Path::new("report"));
        assert_eq!(Plan::new(&request(&["x.data"])).unwrap().output, Path::new("x.data/report"));
    }

    #[test]
    fn impossible_requests_are_refused() {
        assert!(Plan::new(&request(&[])).unwrap_err().is_bad_input());
        let labels = Request { labels: vec!["a".into()], ..request(&["x", "y"]) };
        assert!(Plan::new(&labels).unwrap_err().to_string().contains("1 labels for 2 runs"));
        let labels = Request { labels: vec!["a".into(), "a".into()], ..request(&["x", "y"]) };
        assert!(Plan::new(&labels).unwrap_err().to_string().contains("the label 'a' is given twice"));
        let span = Request { from_s: Some(10.0), until_s: Some(10.0), ..request(&["x"]) };
        assert!(Plan::new(&span).is_err());
        let group = || Group { label: "a".into(), runs: vec!["x".into()] };
        let twice = Request { groups: vec![group(), group()], ..Request::default() };
        assert!(Plan::new(&twice).unwrap_err().to_string().contains("given twice"));
        let same = Plan::new(&request(&["x", "x"])).unwrap();
        assert!(same.read().unwrap_err().to_string().contains("named twice"));
    }

    #[test]
    fn a_time_that_a_run_does_not_reach_is_refused() {
        let stats = |seconds| Some(SimStats { simulated_s: Some(seconds), ..SimStats::default() });
        let runs = [("long", 500.0), ("short", 180.0)].map(|(name, seconds)| Run {
            directory: name.into(),
            stats: stats(seconds),
            ..Run::default()
        });
        assert!(refuse_time_behind_end(&runs, None).is_ok() && refuse_time_behind_end(&runs, Some(179.5)).is_ok());
        let told = refuse_time_behind_end(&runs, Some(180.0)).unwrap_err().to_string();
        assert_eq!(told, "the time to report on begins (180 s) when 'short' has ended (180 s)");
    }

    fn run(seed: u64, essence: &str) -> Run {
        let config = Config { seed: Some(seed), essence: essence.into(), ..Config::default() };
        Run { label: format!("{essence}{seed}"), config: Some(config), ..Run::default() }
    }

    #[test]
    fn runs_that_differ_in_their_seed_are_grouped() {
        let plan = Plan::new(&request(&["a", "b", "c", "d", "e"])).unwrap();
        let runs = [run(1, "x"), run(2, "x"), run(1, "y"), run(2, "x"), run(3, "x")];
        let subjects = plan.subjects(&runs);
        let labels: Vec<Vec<&str>> =
            subjects.iter().map(|subject| subject.runs.iter().map(|run| run.label.as_str()).collect()).collect();
        // The second x with seed 2 says nothing new and stands alone.
        assert_eq!(labels, [vec!["x1", "x2", "x3"], vec!["y1"], vec!["x2"]]);
        assert_eq!(subjects.iter().map(|subject| subject.colour).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn groups_are_as_the_user_says() {
        let group =
            |label: &str, runs: &[&str]| Group { label: label.into(), runs: runs.iter().map(PathBuf::from).collect() };
        let request =
            Request { groups: vec![group("vanilla", &["a", "b"]), group("kist", &["c"])], ..Request::default() };
        let plan = Plan::new(&request).unwrap();
        let runs = [run(1, "x"), run(1, "y"), run(1, "x")];
        let subjects = plan.subjects(&runs);
        assert_eq!(subjects.len(), 2);
        assert_eq!((subjects[0].title().as_str(), subjects[1].title().as_str()), ("vanilla (2 runs)", "kist"));
    }
}
