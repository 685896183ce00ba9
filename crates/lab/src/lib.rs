//! Laboratories: published experiments that are repeated with Gnomon, and a page that shows the published numbers beside those of this
//! machine, with intervals over repetitions and a verdict for each claim.
//!
//! Owns what the laboratories are (`labs`, a file for each): the cases that are measured (`case`), what is read of a run (`reading`,
//! `measurements`), the claims and how they are judged (`claim`), and the page (`page`). It executes nothing: a `Runner` makes each run
//! and hands back its `sim-stats.json`. The binary calls `run`.

mod case;
mod claim;
mod error;
pub mod experiment;
mod labs;
mod measurements;
mod page;
mod reading;

pub use case::{Case, Clients, Experiment, Packages, Program, Setting, Size};
pub use claim::{Bound, Claim, Judgement, Publication, Source, Verdict};
pub use error::{Error, Result};
pub use labs::{Findings, LABS, Lab, find};
pub use measurements::{Measured, Measurements};
pub use reading::Reading;

use std::fs;
use std::path::{Path, PathBuf};

/// A run that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub lab: &'a Lab,
    pub case: &'a Case,
    /// From 1.
    pub repetition: u32,
    /// Its place among all runs of this call, from 1, and how many they are.
    pub number: usize,
    pub total: usize,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This run failed; the text says why. Others may do better.
    Run(String),
    /// Nothing more shall be run.
    Interrupted,
}

/// Who makes runs.
pub trait Runner {
    /// The `sim-stats.json` of an earlier run of exactly this task, if there was one.
    fn earlier(&mut self, task: &Task) -> Option<String>;

    /// Runs the task's experiment and returns its `sim-stats.json`, which `earlier` will find from then on.
    fn run(&mut self, task: &Task) -> std::result::Result<String, Failure>;
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    pub labs: Vec<&'static Lab>,
    pub setting: Setting,
    /// Make no runs: show what there is.
    pub report_only: bool,
    /// Where everything goes.
    pub output: PathBuf,
    /// For the page: names and values that say where and how it was made.
    pub provenance: Vec<(String, String)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Written {
    pub page: PathBuf,
    /// By laboratory that was asked for.
    pub judgements: Vec<(&'static Lab, Vec<Judgement>)>,
    /// Runs that failed, in words.
    pub failures: Vec<String>,
    pub is_interrupted: bool,
}

/// A laboratory with what was measured and what it says.
#[derive(Debug)]
struct Chapter {
    lab: &'static Lab,
    measurements: Measurements,
    findings: Findings,
}

/// Makes the runs that are missing and writes tables, figures and page. Laboratories that were not asked for are on the page as far as
/// there are earlier runs of them in this setting.
pub fn run(request: &Request, runner: &mut dyn Runner) -> Result<Written> {
    let wanted = |lab: &Lab| request.labs.iter().any(|wanted| wanted.name == lab.name);
    let mut plans: Vec<(&'static Lab, Measurements)> =
        LABS.iter().map(|lab| (lab, Measurements::new((lab.cases)(&request.setting), &request.setting))).collect();
    let total = plans.iter().filter(|(lab, _)| wanted(lab)).map(|(_, plan)| plan.runs(&request.setting)).sum();
    let mut progress = Progress { number: 0, total, is_interrupted: false };
    for (lab, measurements) in &mut plans {
        let makes_runs = wanted(lab) && !request.report_only;
        measure(lab, measurements, &request.setting, makes_runs, runner, &mut progress);
    }
    let mut chapters = Vec::new();
    for (lab, measurements) in plans {
        if !wanted(lab) && measurements.is_empty() {
            continue;
        }
        let findings = (lab.findings)(&request.setting, &measurements);
        chapters.push(Chapter { lab, measurements, findings });
    }
    for chapter in &chapters {
        write_chapter(chapter, &request.output)?;
    }
    let page = request.output.join("index.html");
    write_file(&page, &page::write(&chapters, &request.setting, &request.provenance))?;
    let chosen = || chapters.iter().filter(|chapter| wanted(chapter.lab));
    Ok(Written {
        page,
        judgements: chosen().map(|chapter| (chapter.lab, chapter.findings.judgements.clone())).collect(),
        failures: chosen().flat_map(|chapter| chapter.measurements.failures()).collect(),
        is_interrupted: progress.is_interrupted,
    })
}

struct Progress {
    number: usize,
    total: usize,
    is_interrupted: bool,
}

/// Repetitions are the outer loop: what drifts on the machine meets all cases alike.
fn measure(
    lab: &'static Lab,
    measurements: &mut Measurements,
    setting: &Setting,
    makes_runs: bool,
    runner: &mut dyn Runner,
    progress: &mut Progress,
) {
    for repetition in 1..=setting.repetitions {
        let is_run = |case: &Measured| case.skipped.is_none() && repetition <= case.case.repetitions(setting);
        for measured in measurements.cases_mut().filter(|measured| is_run(measured)) {
            progress.number += usize::from(makes_runs);
            let case = measured.case.clone();
            let task = Task { lab, case: &case, repetition, number: progress.number, total: progress.total };
            let text = match runner.earlier(&task) {
                Some(text) => Ok(text),
                None if makes_runs && !progress.is_interrupted => runner.run(&task),
                None => continue,
            };
            match text {
                Ok(text) => measured.add(repetition, &text),
                Err(Failure::Run(why)) => measured.failures.push(format!("{} {repetition}: {why}", case.key)),
                Err(Failure::Interrupted) => progress.is_interrupted = true,
            }
        }
    }
}

fn write_chapter(chapter: &Chapter, output: &Path) -> Result<()> {
    let folder = output.join(chapter.lab.name);
    fs::create_dir_all(&folder).map_err(|error| Error::new("make the folder", &folder, error))?;
    write_file(&folder.join("measurements.csv"), &chapter.measurements.to_csv(chapter.lab.name))?;
    let figures: Vec<&report::chart::Figure> = chapter.findings.figures.iter().collect();
    report::write_figures(&folder, &figures).map_err(Error::Report)
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::new("write", path, error))
}
