//! `gnomon report`: from data directories of runs to a page of results, with figures and their data as files beside it.
//!
//! Owns everything between a data directory (as Gnomon or Shadow leave it, also half-written) and the report: reading
//! (`input`), what is known of a run (`run`) and of the public network (`public`), statistics (`maths`, `bins`), what is compared (`subject`, `groups`), figures
//! (`chart`), what the report says (`sections`, `page`), and tables for other programs (`tables`). `chart`, `html` and `Estimate` also serve other pages of results. Knows nothing of how runs are executed. The binary calls
//! `write` and prints what it returns.

mod bins;
pub mod chart;
pub mod downloads;
mod error;
mod groups;
pub mod html;
mod input;
mod maths;
mod output;
mod page;
mod paired;
mod public;
mod run;
mod sections;
mod subject;
mod tables;

pub use error::{Error, Result};
pub use groups::{Group, refuse_repeated};
pub use input::read as read_run;
pub use maths::{CONFIDENCE, Estimate, critical_t};
pub use output::write_figures;
pub use public::Source as PublicSource;
pub use sections::Since;

use sections::Context;
use std::path::{Path, PathBuf};

/// What to report on.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Data directories, in the order in which they appear.
    pub runs: Vec<PathBuf>,
    /// Names of `runs` in the report: none, or one for each.
    pub labels: Vec<String>,
    /// Groups of further runs that differ in their seeds.
    pub groups: Vec<Group>,
    /// Where the report goes; by default `report` in the data directory of the only run, or in the current directory.
    pub output: Option<PathBuf>,
    pub since: Since,
    /// What the figures have beside them of the public network; nothing where it is empty. Later sources win over earlier ones.
    pub public: Vec<PublicSource>,
    /// The span that distributions are about, in simulated seconds; by default from when the network has settled to the end.
    pub from_s: Option<f64>,
    pub until_s: Option<f64>,
    /// Neither page nor figures.
    pub tables_only: bool,
}

/// A report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// None if only tables were asked for.
    pub page: Option<PathBuf>,
    /// The folder of the tables.
    pub tables: PathBuf,
    /// For the terminal: the numbers one wants first, six lines for a single run.
    pub summary: Vec<String>,
}

/// Reads the runs and writes the report.
pub fn write(request: &Request) -> Result<Written> {
    let plan = groups::Plan::new(request)?;
    let public = public::Public::read(&request.public)?;
    let runs = plan.read()?;
    groups::refuse_time_behind_end(&runs, request.from_s)?;
    let context = Context {
        subjects: plan.subjects(&runs),
        since: request.since,
        public,
        from_s: request.from_s,
        until_s: request.until_s,
    };
    let data = tables::all(&context);
    let folder = plan.output.join(tables::FOLDER);
    tables::write(&folder, &data)?;
    let page = if request.tables_only { None } else { Some(write_page(&context, &data, &plan.output)?) };
    Ok(Written { page, tables: folder, summary: sections::summary_lines(&context) })
}

fn write_page(context: &Context, data: &[tables::Table], output: &Path) -> Result<PathBuf> {
    let mut sections = sections::all(context);
    output::make_ids_unique(sections.iter_mut().flat_map(|section| &mut section.figures));
    let rows = sections::summary_rows(context);
    let page = page::write(context, &rows, &sections, data);
    let figures: Vec<&chart::Figure> = sections.iter().flat_map(|section| &section.figures).collect();
    output::write(output, &page, &figures)
}
