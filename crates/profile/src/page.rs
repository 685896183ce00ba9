//! The page of one or several profiles, and what is told on the terminal.

use crate::export::Format;
use crate::flame::{self, Node};
use crate::read::{Profile, Row};
use crate::record::{Place, Steps, Unit as Weight};
use crate::rules::{Rules, Span, UNASSIGNED};
use crate::tables::{Part, Selection};
use report::Estimate;
use report::chart::{Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, ScaleKind, Unit};
use report::html::{self, Table};
use report::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What to show, and of what.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Data directories, each a subject of its own.
    pub runs: Vec<PathBuf>,
    /// Repetitions of one experiment: subjects with intervals.
    pub groups: Vec<(String, Vec<PathBuf>)>,
    pub rules: Rules,
    pub part: Part,
    /// Only samples of hosts, programs, roles, phases that fit.
    pub host: Option<String>,
    pub program: Option<String>,
    pub role: Option<String>,
    pub phase: Option<String>,
    /// The unit of which each run has so many: times are told for one of them.
    pub per: Option<(String, f64)>,
    /// Functions that tables show.
    pub top: usize,
    /// Write this instead of a page.
    pub export: Option<Format>,
    pub output: Option<PathBuf>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    /// For the terminal.
    pub summary: String,
}

/// What is compared: the repetitions of one experiment.
struct Subject {
    name: String,
    profiles: Vec<Profile>,
    /// The phases of each.
    spans: Vec<Vec<Span>>,
}

/// Reads profiles, and writes the page or the export.
///
/// # Errors
/// When a run has no profile, the request does not fit the runs, or a file cannot be written.
pub fn write(request: &Request) -> Result<Written> {
    let subjects = read(request)?;
    let view = View { request, subjects: &subjects };
    if let Some(format) = request.export {
        return view.export(format);
    }
    let default = match (request.runs.as_slice(), request.groups.is_empty()) {
        ([run], true) => run.join(crate::FOLDER).join("page"),
        _ => PathBuf::from("profile"),
    };
    let folder = request.output.clone().unwrap_or(default);
    fs::create_dir_all(&folder).map_err(|error| Error::io("make the folder", &folder, error))?;
    let figures = view.figures();
    report::write_figures(&folder, &figures.iter().collect::<Vec<_>>())?;
    let path = folder.join("index.html");
    let page = view.page(&figures);
    fs::write(&path, page).map_err(|error| Error::io("write", &path, error))?;
    Ok(Written { path, summary: view.summary() })
}

fn read(request: &Request) -> Result<Vec<Subject>> {
    let grouped = request.groups.iter().flat_map(|(_, runs)| runs);
    report::refuse_repeated(request.runs.iter().chain(grouped).map(PathBuf::as_path))?;
    let names: BTreeSet<String> = request.runs.iter().map(|run| short(run)).collect();
    let is_clear = names.len() == request.runs.len();
    let name = |run: &PathBuf| if is_clear { short(run) } else { run.display().to_string() };
    let single = request.runs.iter().map(|run| (name(run), vec![run.clone()]));
    let mut subjects = Vec::new();
    for (name, runs) in single.chain(request.groups.iter().cloned()) {
        let mut profiles: Vec<Profile> = runs.iter().map(|run| Profile::read(run)).collect::<Result<_>>()?;
        if request.rules.needs_lines() {
            profiles.iter_mut().try_for_each(Profile::read_printed)?;
        }
        let spans = |profile: &Profile| request.rules.phases.iter().filter_map(|phase| phase.in_run(profile)).collect();
        let spans: Vec<Vec<Span>> = profiles.iter().map(spans).collect();
        subjects.push(Subject { name, profiles, spans });
    }
    let units: Vec<(&Path, Weight)> = subjects
        .iter()
        .flat_map(|subject| &subject.profiles)
        .map(|profile| (profile.directory.as_path(), profile.about.unit))
        .collect();
    if let [(first, unit), rest @ ..] = units.as_slice()
        && let Some((other, _)) = rest.iter().find(|(_, other)| other != unit)
    {
        return Err(Error::Input(format!(
            "{} and {} cannot be compared: one has samples of processor time, the other counted instructions; make both with the same \
             --profile",
            first.display(),
            other.display()
        )));
    }
    let seen = |wanted: &Option<String>, known: &dyn Fn(&Subject) -> Vec<String>, what: &str| -> Result<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        let known: BTreeSet<String> = subjects.iter().flat_map(known).collect();
        if known.contains(wanted) {
            return Ok(());
        }
        let some: Vec<&str> = known.iter().take(12).map(String::as_str).collect();
        let some = if some.is_empty() { "none".to_owned() } else { some.join(", ") };
        Err(Error::Input(format!("no {what} is called '{wanted}'; there are: {some}")))
    };
    let of_all = |subject: &Subject, name: &dyn Fn(&Profile, &Row) -> String| -> Vec<String> {
        subject
            .profiles
            .iter()
            .flat_map(|profile| profile.rows.iter().map(|row| name(profile, row)).collect::<BTreeSet<_>>())
            .filter(|name| !name.is_empty())
            .collect()
    };
    let rules = &request.rules;
    seen(&request.host, &|one| of_all(one, &|profile, row| profile.host(row).to_owned()), "host")?;
    seen(&request.program, &|one| of_all(one, &|profile, row| profile.program(row).to_owned()), "program")?;
    let role = |profile: &Profile, row: &Row| rules.role_of(profile.host(row)).unwrap_or("").to_owned();
    seen(&request.role, &|one| of_all(one, &role), "role (--rules names them)")?;
    let phases = |one: &Subject| one.spans.iter().flatten().map(|span| span.name.clone()).collect();
    seen(&request.phase, &phases, "phase (--rules names them)")?;
    Ok(subjects)
}

/// A run's own name.
fn short(run: &Path) -> String {
    run.file_name().unwrap_or(run.as_os_str()).to_string_lossy().into_owned()
}

struct View<'a> {
    request: &'a Request,
    subjects: &'a [Subject],
}

/// A quantity of each run of a subject.
fn estimate(values: Vec<f64>) -> Option<Estimate> {
    Estimate::of(&values)
}

fn shown(estimate: Option<Estimate>, unit: Unit) -> String {
    match estimate {
        None => String::new(),
        Some(Estimate { mean, error: Some(error), .. }) => unit.show_with_error(mean, error),
        Some(Estimate { mean, .. }) => unit.show(mean),
    }
}

impl View<'_> {
    /// The samples of one run that the request is about.
    fn selection<'p>(&self, profile: &'p Profile, spans: &[Span], part: Part) -> Selection<'p> {
        let request = self.request;
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let span = request.phase.as_ref().map(|phase| spans.iter().find(|span| span.name == *phase));
        Selection::new(profile, |row| {
            part.has(row)
                && is(&request.host, profile.host(row))
                && is(&request.program, profile.program(row))
                && (request.role.is_none() || is(&request.role, self.role(profile, row)))
                && span.is_none_or(|span| span.is_some_and(|span| span.has(row.time_ns)))
        })
    }

    fn selections<'p>(&self, subject: &'p Subject, part: Part) -> Vec<Selection<'p>> {
        let pairs = subject.profiles.iter().zip(&subject.spans);
        pairs.map(|(profile, spans)| self.selection(profile, spans, part)).collect()
    }

    fn role<'p>(&'p self, profile: &'p Profile, row: &Row) -> &'p str {
        self.request.rules.role_of(profile.host(row)).unwrap_or("")
    }

    /// What a sample's line in tables of roles is called: its role where there are some, its program elsewhere.
    fn class(&self, profile: &Profile, row: &Row) -> String {
        if row.host.is_none() {
            return "(engine)".to_owned();
        }
        if self.request.rules.has_roles() {
            return self.request.rules.role_of(profile.host(row)).unwrap_or("(no role)").to_owned();
        }
        match profile.program(row) {
            "" => "(hosts)".to_owned(),
            program => program.to_owned(),
        }
    }

    fn classes(&self, subject: &Subject) -> Vec<String> {
        let of = |selection: &Selection<'_>| -> BTreeSet<String> {
            selection.rows.iter().map(|row| self.class(selection.profile, row)).collect()
        };
        let all: BTreeSet<String> = self.selections(subject, self.request.part).iter().flat_map(of).collect();
        all.into_iter().collect()
    }

    /// What samples weigh, in all runs alike.
    fn weight(&self) -> Weight {
        let first = self.subjects.first().and_then(|subject| subject.profiles.first());
        first.map_or(Weight::default(), |profile| profile.about.unit)
    }

    /// Weights as a table shows them: seconds or instructions, of all or for one of a unit.
    fn time(&self, values: Vec<f64>) -> String {
        let per = self.request.per.as_ref().map_or(1.0, |(_, count)| *count);
        match self.weight() {
            Weight::Nanoseconds => {
                shown(estimate(values.into_iter().map(|ns| ns / 1e9 / per).collect()), Unit::Seconds)
            }
            Weight::Instructions => shown(estimate(values.into_iter().map(|count| count / per).collect()), Unit::Count),
        }
    }

    fn time_head(&self) -> String {
        let noun = self.weight().noun();
        self.request.per.as_ref().map_or(noun.to_owned(), |(unit, _)| format!("{noun}/{unit}"))
    }

    fn export(&self, format: Format) -> Result<Written> {
        let [Subject { profiles, spans, .. }] = self.subjects else {
            return Err(Error::Input("--export writes one run: name one".to_owned()));
        };
        let ([profile], [spans]) = (profiles.as_slice(), spans.as_slice()) else {
            return Err(Error::Input("--export writes one run: name one".to_owned()));
        };
        let Some(path) = self.request.output.clone() else {
            return Err(Error::Input("--export needs a file to write: add '--output FILE'".to_owned()));
        };
        let selection = self.selection(profile, spans, self.request.part);
        let bytes = format.write(&selection).map_err(|error| Error::io("write", &path, error))?;
        fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))?;
        // Another program shows it.
        Ok(Written { path, summary: String::new() })
    }

    /// For the terminal: what was sampled, and the functions that take most.
    fn summary(&self) -> String {
        let mut text = String::new();
        for subject in self.subjects {
            if self.subjects.len() > 1 {
                let _ = writeln!(text, "{}:", subject.name);
            }
            for table in [self.overview(subject), self.functions(subject), self.groups(subject)] {
                if !table.rows.is_empty() {
                    let _ = writeln!(text, "{}", in_columns(&table));
                }
            }
        }
        for table in self.changes() {
            let _ = writeln!(text, "{}:\n{}", table.title, in_columns(&table));
        }
        text
    }

    fn page(&self, figures: &[Figure]) -> String {
        let names: Vec<&str> = self.subjects.iter().map(|subject| subject.name.as_str()).collect();
        let title = format!("Profile of {}", names.join(", "));
        let (mut links, mut main) = (String::new(), String::new());
        for (index, subject) in self.subjects.iter().enumerate() {
            let name = html::escape(&subject.name);
            let _ = write!(links, "<a href=\"#s{index}\">{name}</a> ");
            let _ = writeln!(main, "<section id=\"s{index}\">\n<h2>{name}</h2>");
            for text in self.texts(subject) {
                let _ = writeln!(main, "<p>{}</p>", html::escape(&text));
            }
            html::table(&mut main, &self.overview(subject));
            html::table(&mut main, &self.hosts(subject));
            html::table(&mut main, &self.groups(subject));
            let own = ["groups", "pies"].map(|kind| format!("{kind}-{index}"));
            main.push_str("<div class=\"figures\">\n");
            figures
                .iter()
                .filter(|figure| own.contains(&figure.id))
                .for_each(|figure| html::figure(&mut main, "", figure));
            main.push_str("</div>\n");
            html::table(&mut main, &self.functions(subject));
            html::table(&mut main, &self.calls(subject));
            self.flames(&mut main, subject);
            main.push_str("</section>\n");
        }
        self.differences(&mut links, &mut main);
        html::document(&title, &links, &main)
    }

    fn texts(&self, subject: &Subject) -> Vec<String> {
        let first = &subject.profiles[0].about;
        let samples: u64 = subject.profiles.iter().map(|profile| profile.rows.len() as u64).sum();
        let counted: Vec<&Steps> = subject.profiles.iter().filter_map(|profile| profile.about.steps.as_ref()).collect();
        if !counted.is_empty() {
            return counted_texts(&counted);
        }
        let mut texts = vec![format!(
            "{samples} samples of {}, {} per second of processor time asked for, by {}. A sample weighs the processor time of its worker since the one \
             before was due. Times are processor time of the machine, not simulated.",
            runs(subject.profiles.len()),
            first.rate,
            first.means
        )];
        if subject.profiles.len() > 1 {
            texts.push(
                "± is half the width of a 95 % confidence interval from Student’s t distribution, over the runs."
                    .to_owned(),
            );
        }
        let cut: u64 = subject.profiles.iter().map(|profile| profile.about.cut).sum();
        if cut > 0 {
            texts.push(format!("{cut} stacks were cut off: there were too many different ones to keep all."));
        }
        texts
    }

    /// What was counted, and of how much.
    fn counts(&self, subject: &Subject) -> Table {
        let of = |what: &dyn Fn(&Profile, &Steps) -> u64| {
            let all = subject.profiles.iter();
            let counts = all.filter_map(|p| p.about.steps.as_ref().map(|steps| what(p, steps) as f64));
            shown(estimate(counts.collect()), Unit::Count)
        };
        let whole = subject.profiles.iter().map(|profile| {
            let whole = profile.rows.iter().filter(|row| row.is_whole).count();
            whole as f64 / profile.rows.len().max(1) as f64
        });
        let rows = [
            ("all, with what counted intervals stand for", of(&|profile, _| profile.weight_ns())),
            ("counted one by one", of(&|_, steps| steps.instructions)),
            ("intervals between calls", of(&|_, steps| steps.intervals)),
            ("intervals that were counted", of(&|_, steps| steps.counted)),
            ("of these broken off as too long", of(&|_, steps| steps.cut)),
            ("hosts whose budget was used up", of(&|_, steps| steps.used_up.len() as u64)),
            ("stacks followed to their beginning", shown(estimate(whole.collect()), Unit::Share)),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec();
        let header = ["What".to_owned(), "number".to_owned()].to_vec();
        Table { title: "Instructions".to_owned(), header, rows, text_columns: 1 }
    }

    /// Where processor time goes, as the machine counts it; or how many instructions were counted.
    fn overview(&self, subject: &Subject) -> Table {
        if self.weight() == Weight::Instructions {
            return self.counts(subject);
        }
        let everything = self.selections(subject, Part::All);
        let all: Vec<f64> = everything.iter().map(|one| one.weight_ns() as f64).collect();
        let row = |name: &str, values: Vec<f64>| {
            let shares = values.iter().zip(&all).map(|(value, all)| value / all.max(1.0)).collect();
            vec![name.to_owned(), self.time(values), shown(estimate(shares), Unit::Share)]
        };
        let of = |fits: &dyn Fn(&Row) -> bool| -> Vec<f64> {
            everything.iter().map(|one| one.filtered(fits).weight_ns() as f64).collect()
        };
        let mut rows = vec![
            row("programs", of(&|row| row.place == Place::Program)),
            row("simulated kernel", of(&|row| row.place == Place::Kernel)),
            row("network stack", of(&|row| row.place == Place::Stack)),
            row("engine", of(&|row| row.place == Place::Engine)),
            row("all samples", all.clone()),
        ];
        let counted = |time: fn(&Profile) -> u64| -> Vec<f64> {
            subject.profiles.iter().map(|profile| time(profile) as f64).collect()
        };
        rows.push(vec![
            "workers, as the machine counts".to_owned(),
            self.time(counted(|p| p.about.times.workers_ns)),
            String::new(),
        ]);
        rows.push(vec![
            "the whole process".to_owned(),
            self.time(counted(|p| p.about.times.process_ns)),
            String::new(),
        ]);
        let share = |fits: &dyn Fn(&Row) -> bool| {
            let guests = everything.iter().map(|one| one.filtered(|row| row.place != Place::Engine));
            let shares = guests.map(|one| one.filtered(fits).rows.len() as f64 / one.rows.len().max(1) as f64);
            shown(estimate(shares.collect()), Unit::Share)
        };
        rows.push(vec![
            "samples outside the engine with a host".to_owned(),
            String::new(),
            share(&|row| row.host.is_some()),
        ]);
        let whole = everything.iter().map(|one| {
            let stacks = one.filtered(|row| row.process.is_some());
            stacks.filtered(|row| row.is_whole).rows.len() as f64 / stacks.rows.len().max(1) as f64
        });
        rows.push(vec![
            "stacks followed to their beginning".to_owned(),
            String::new(),
            shown(estimate(whole.collect()), Unit::Share),
        ]);
        let header = ["Where".to_owned(), self.time_head(), "share".to_owned()].to_vec();
        Table { title: "Processor time".to_owned(), header, rows, text_columns: 1 }
    }

    /// The hosts that take most.
    fn hosts(&self, subject: &Subject) -> Table {
        let selections = self.selections(subject, Part::Guests);
        let mut sums: BTreeMap<(String, String), Vec<[f64; 2]>> = BTreeMap::new();
        for (index, selection) in selections.iter().enumerate() {
            let profile = selection.profile;
            let by = selection
                .by(|row| (profile.host(row).to_owned(), profile.program(row).to_owned(), row.place == Place::Program));
            for ((host, program, is_program), ns) in by {
                let sums = sums.entry((host, program)).or_insert_with(|| vec![[0.0; 2]; selections.len()]);
                sums[index][usize::from(!is_program)] += ns as f64;
            }
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        let all = |values: &[[f64; 2]]| values.iter().flatten().sum::<f64>();
        rows.sort_by(|a, b| all(&b.1).total_cmp(&all(&a.1)).then(a.0.cmp(&b.0)));
        let left_out = rows.len().saturating_sub(self.request.top);
        let rows = rows.into_iter().take(self.request.top).map(|((host, program), values)| {
            let column = |at: usize| self.time(values.iter().map(|value| value[at]).collect());
            vec![host, program, column(0), column(1)]
        });
        let more = if left_out > 0 { format!(" ({left_out} more are not shown)") } else { String::new() };
        let header = [
            "Host".to_owned(),
            "program".to_owned(),
            format!("program's {}", self.time_head()),
            "in the simulator for it".to_owned(),
        ];
        Table {
            title: format!("Hosts and their programs{more}"),
            header: header.to_vec(),
            rows: rows.collect(),
            text_columns: 2,
        }
    }

    /// Functions by what they take themselves.
    fn functions(&self, subject: &Subject) -> Table {
        let selections = self.selections(subject, self.request.part);
        let all: Vec<f64> = selections.iter().map(|one| (one.weight_ns() as f64).max(1.0)).collect();
        let mut sums: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
        for (index, selection) in selections.iter().enumerate() {
            for sum in selection.functions() {
                let values = sums.entry(sum.name).or_insert_with(|| vec![[0.0; 2]; selections.len()]);
                values[index] = [sum.own_ns as f64, sum.total_ns as f64];
            }
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        let own = |values: &[[f64; 2]]| values.iter().map(|value| value[0]).sum::<f64>();
        let total = |values: &[[f64; 2]]| values.iter().map(|value| value[1]).sum::<f64>();
        rows.sort_by(|a, b| own(&b.1).total_cmp(&own(&a.1)).then(total(&b.1).total_cmp(&total(&a.1))));
        let rows = rows.into_iter().take(self.request.top).map(|(name, values)| {
            let time = |at: usize| self.time(values.iter().map(|value| value[at]).collect());
            let share = |at: usize| {
                let shares = values.iter().zip(&all).map(|(value, all)| value[at] / all);
                shown(estimate(shares.collect()), Unit::Share)
            };
            vec![name, time(0), share(0), time(1), share(1)]
        });
        let header = [
            "Function".to_owned(),
            format!("own {}", self.time_head()),
            "own".into(),
            format!("total {}", self.time_head()),
            "total".into(),
        ];
        Table { title: "Functions".to_owned(), header: header.to_vec(), rows: rows.collect(), text_columns: 1 }
    }

    /// Of instructions, which do not scatter: the functions that take more or fewer of them than in the first subject. What functions of C take
    /// that one of Python has called belongs to it.
    fn changes(&self) -> Vec<Table> {
        let (Weight::Instructions, [first, others @ ..]) = (self.weight(), self.subjects) else { return Vec::new() };
        let per = self.request.per.as_ref().map_or(1.0, |(_, count)| *count);
        let means = |subject: &Subject| -> BTreeMap<String, f64> {
            let runs = subject.profiles.len() as f64;
            let mut sums = BTreeMap::new();
            for selection in self.selections(subject, self.request.part) {
                for (name, count) in selection.responsible() {
                    *sums.entry(name).or_default() += count as f64 / runs / per;
                }
            }
            sums
        };
        let before = means(first);
        let table = |other: &Subject| {
            let after = means(other);
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let of = |sums: &BTreeMap<String, f64>, name: &String| sums.get(name).copied().unwrap_or(0.0);
            let mut rows: Vec<(f64, &String)> =
                names.into_iter().map(|name| (of(&after, name) - of(&before, name), name)).collect();
            rows.retain(|(change, _)| *change != 0.0);
            rows.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(b.1)));
            let rows = rows.into_iter().take(self.request.top).map(|(change, name)| {
                let sign = if change > 0.0 { "+" } else { "" };
                let shown = |value: f64| Unit::Count.show(value);
                vec![
                    name.clone(),
                    shown(of(&before, name)),
                    shown(of(&after, name)),
                    format!("{sign}{}", shown(change)),
                ]
            });
            let header = ["Function", &first.name, &other.name, "change"].map(str::to_owned).to_vec();
            let title = format!("Functions that differ, {} after {}", other.name, first.name);
            Table { title, header, rows: rows.collect(), text_columns: 1 }
        };
        others.iter().map(table).collect()
    }

    fn calls(&self, subject: &Subject) -> Table {
        let selections = self.selections(subject, Part::All);
        let mut sums: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
        for (index, selection) in selections.iter().enumerate() {
            for (name, kernel, stack) in selection.calls() {
                let values = sums.entry(name).or_insert_with(|| vec![[0.0; 2]; selections.len()]);
                values[index] = [kernel as f64, stack as f64];
            }
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        let all = |values: &[[f64; 2]]| values.iter().flatten().sum::<f64>();
        rows.sort_by(|a, b| all(&b.1).total_cmp(&all(&a.1)));
        let rows = rows.into_iter().take(self.request.top).map(|(name, values)| {
            let column = |at: usize| self.time(values.iter().map(|value| value[at]).collect());
            vec![name, column(0), column(1)]
        });
        let header = ["Call", "simulated kernel", "network stack"].map(str::to_owned).to_vec();
        Table { title: "Gnomon's own part, by call".to_owned(), header, rows: rows.collect(), text_columns: 1 }
    }

    /// Of each class and group: the share in each run.
    fn group_shares(&self, subject: &Subject) -> Vec<(String, Vec<(String, Vec<f64>)>)> {
        let rules = &self.request.rules;
        if rules.groups.is_empty() {
            return Vec::new();
        }
        let selections = self.selections(subject, self.request.part);
        let of_class = |class: String| {
            let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
            for selection in &selections {
                let own = selection.filtered(|row| self.class(selection.profile, row) == class);
                let all = own.weight_ns() as f64;
                for (at, (name, ns)) in own.groups(rules).into_iter().enumerate() {
                    if groups.len() == at {
                        groups.push((name, Vec::new()));
                    }
                    // A run in which the class took no time says nothing about it.
                    if all > 0.0 {
                        groups[at].1.push(ns as f64 / all);
                    }
                }
            }
            (class, groups)
        };
        self.classes(subject).into_iter().filter(|class| class != "(engine)").map(of_class).collect()
    }

    fn groups(&self, subject: &Subject) -> Table {
        let shares = self.group_shares(subject);
        let mut header = vec![if self.request.rules.has_roles() { "Role" } else { "Program" }.to_owned()];
        header.extend(self.request.rules.groups.iter().cloned());
        header.push(UNASSIGNED.to_owned());
        let rows = shares.into_iter().map(|(class, groups)| {
            let cells = groups.into_iter().map(|(_, values)| shown(estimate(values), Unit::Share));
            std::iter::once(class).chain(cells).collect()
        });
        Table { title: "Groups".to_owned(), header, rows: rows.collect(), text_columns: 1 }
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |(index, subject): (usize, &Subject)| {
            let shares = self.group_shares(subject);
            let categories: Vec<String> = shares.iter().map(|(class, _)| class.clone()).collect();
            let names = shares.first()?.1.iter().map(|(name, _)| name.clone());
            let series = names.enumerate().map(|(at, name)| BarSeries {
                name,
                ink: Ink::solid(at),
                bars: shares.iter().map(|(_, groups)| bar(&groups[at].1)).collect(),
            });
            let noun = match self.weight() {
                Weight::Nanoseconds => "processor time",
                Weight::Instructions => "instructions",
            };
            let axis = Axis {
                label: format!("Share of {noun}"),
                column: "share",
                unit: Unit::Share,
                scale: ScaleKind::Linear,
                from: Some(0.0),
                to: Some(1.0),
            };
            let bars = Bars {
                axis,
                category_column: "role",
                categories,
                series: series.collect(),
                is_stacked: true,
                mark: None,
                reference: None,
            };
            let figure = |kind: &str, chart: Chart| Figure {
                id: format!("{kind}-{index}"),
                title: format!("Groups of functions: {}", subject.name),
                subtitle: match subject.profiles.len() {
                    1 => "one run".to_owned(),
                    runs => format!("{runs} runs"),
                },
                caption: String::new(),
                chart,
            };
            Some([figure("groups", Chart::Bars(bars.clone())), figure("pies", Chart::Pies(bars))])
        };
        self.subjects.iter().enumerate().filter_map(figure).flatten().collect()
    }

    /// The unit that times of flame graphs are followed by, and what nanoseconds are multiplied by.
    fn scale(&self, runs: usize) -> (String, f64) {
        let runs = runs.max(1) as f64;
        match &self.request.per {
            Some((unit, count)) => (format!("/{unit}"), 1.0 / count / runs),
            None => (String::new(), 1.0 / runs),
        }
    }

    fn tree(&self, subject: &Subject, class: Option<&str>, which: usize, into: &mut Node) {
        let (_, scale) = self.scale(subject.profiles.len());
        for selection in self.selections(subject, self.request.part) {
            let own = selection.filtered(|row| class.is_none_or(|class| self.class(selection.profile, row) == class));
            into.add(&own, which, scale);
        }
    }

    fn flames(&self, main: &mut String, subject: &Subject) {
        const MOST: usize = 12;
        let classes = self.classes(subject);
        let (unit, _) = self.scale(1);
        for class in classes.iter().filter(|class| *class != "(engine)").take(MOST) {
            let mut root = Node::default();
            self.tree(subject, Some(class), 1, &mut root);
            let svg = flame::draw(&root, false, self.weight(), &unit);
            if !svg.is_empty() {
                let _ = writeln!(main, "<h3>{}</h3>\n{svg}", html::escape(class));
            }
        }
    }

    /// Between the first subject and each other one; between the first role or phase and the others where there is one subject.
    fn differences(&self, links: &mut String, main: &mut String) {
        let (unit, _) = self.scale(1);
        let mut drawn = String::new();
        let mut pair = |name: &str, root: &Node| {
            let svg = flame::draw(root, true, self.weight(), &unit);
            if !svg.is_empty() {
                let _ = writeln!(drawn, "<h3>{}</h3>\n{svg}", html::escape(name));
            }
        };
        if let [first, others @ ..] = self.subjects {
            for other in others {
                let mut root = Node::default();
                self.tree(first, None, 0, &mut root);
                self.tree(other, None, 1, &mut root);
                pair(&format!("{} after {}", other.name, first.name), &root);
            }
            if others.is_empty() {
                let classes = if self.request.rules.has_roles() { self.classes(first) } else { Vec::new() };
                if let [one, rest @ ..] = classes.as_slice() {
                    for other in rest.iter().filter(|other| !other.starts_with('(')) {
                        let mut root = Node::default();
                        self.tree(first, Some(one), 0, &mut root);
                        self.tree(first, Some(other), 1, &mut root);
                        pair(&format!("{other} after {one}"), &root);
                    }
                }
                self.phase_differences(first, &mut pair);
            }
        }
        for table in self.changes() {
            html::table(&mut drawn, &table);
        }
        if !drawn.is_empty() {
            links.push_str("<a href=\"#differences\">Differences</a>");
            let _ = writeln!(
                main,
                "<section id=\"differences\">\n<h2>Differences</h2>\n<p>Widths are what came after; red has become more, blue less.</p>\n{drawn}</section>"
            );
        }
    }

    fn phase_differences(&self, subject: &Subject, pair: &mut dyn FnMut(&str, &Node)) {
        let names: Vec<&str> = self.request.rules.phases.iter().map(|phase| phase.name.as_str()).collect();
        for two in names.windows(2) {
            let mut root = Node::default();
            for (selection, spans) in self.selections(subject, self.request.part).iter().zip(&subject.spans) {
                for (which, name) in two.iter().enumerate() {
                    if let Some(span) = spans.iter().find(|span| span.name == **name) {
                        let (_, scale) = self.scale(subject.profiles.len());
                        root.add(&selection.filtered(|row| span.has(row.time_ns)), which, scale);
                    }
                }
            }
            pair(&format!("phase {} after {}", two[1], two[0]), &root);
        }
    }
}

/// What the page says of instructions that were counted.
fn counted_texts(steps: &[&Steps]) -> Vec<String> {
    let sum = |of: fn(&Steps) -> u64| steps.iter().map(|steps| of(steps)).sum::<u64>();
    let (intervals, counted, cut) = (sum(|s| s.intervals), sum(|s| s.counted), sum(|s| s.cut));
    let budget = steps.first().map_or(0, |steps| steps.budget);
    let mut texts = vec![format!(
        "Instructions of guests, counted one by one in {counted} of {intervals} intervals between system calls{}, in {}, with a budget of \
         {budget} for each host. They are the same in every run of the same experiment, seed and programs. An interval that was chosen \
         as one of several weighs for all of them. What the simulator does is not counted.",
        steps.first().map_or_else(String::new, |steps| when(steps)),
        runs(steps.len())
    )];
    if cut > 0 {
        texts.push(format!(
            "{cut} intervals were broken off after an eighth of the budget, and what they executed then is missing: with a larger budget \
             (--profile=steps:BUDGET) more of them is counted."
        ));
    }
    let used_up: BTreeSet<&str> = steps.iter().flat_map(|steps| steps.used_up.keys()).map(String::as_str).collect();
    if !used_up.is_empty() {
        let names: Vec<&str> = used_up.into_iter().take(12).collect();
        texts.push(format!(
            "Hosts whose budget was used up, so that what came later is missing: {}. Give more (--profile=steps:BUDGET), or begin later \
             (--profile=steps:BUDGET,from=TIME).",
            names.join(", ")
        ));
    }
    texts
}

fn runs(number: usize) -> String {
    if number == 1 { "one run".to_owned() } else { format!("{number} runs") }
}

/// The simulated time in which instructions were counted; nothing if it is all.
fn when(steps: &Steps) -> String {
    let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
    match (steps.from_ns, steps.until_ns) {
        (0, None) => String::new(),
        (from, None) => format!(" from {} of simulated time on", seconds(from)),
        (from, Some(until)) => format!(" from {} to {} of simulated time", seconds(from), seconds(until)),
    }
}

fn bar(values: &[f64]) -> Bar {
    let estimate = Estimate::of(values);
    Bar { value: estimate.map(|one| one.mean), interval: None, mark: None }
}

/// A table as text, in columns.
fn in_columns(table: &Table) -> String {
    let widths: Vec<usize> = (0..table.header.len())
        .map(|column| {
            let cells = table.rows.iter().filter_map(|row| row.get(column)).chain(table.header.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| -> String {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let room = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column < table.text_columns { format!("{cell}{room}") } else { format!("{room}{cell}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!("{}{rows}", line(&table.header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_once() {
        let run = || PathBuf::from("run");
        let single = Request { runs: vec![run(), run()], ..Request::default() };
        let grouped = Request { groups: vec![("a".to_owned(), vec![run(), run()])], ..Request::default() };
        let both = Request { runs: vec![run()], groups: vec![("a".to_owned(), vec![run()])], ..Request::default() };
        for request in [single, grouped, both] {
            let told = write(&request).unwrap_err();
            assert!(told.is_bad_input() && told.to_string().contains("'run' is named twice"), "{told}");
        }
    }
}
