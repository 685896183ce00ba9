//! The numbers one wants first: a row per quantity, a column per subject; and a few lines of them for the terminal.

use super::balance::{self, Position};
use super::public::{self, Verdict};
use super::transfers::{self, Byte, Class};
use super::{Context, relays, simulator, throughput};
use crate::chart::Unit;
use crate::maths::Estimate;
use crate::run::{Ending, Run, Transfer};
use crate::subject::Subject;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// By subject.
    pub cells: Vec<String>,
}

/// Stands where a run does not tell.
pub(super) const UNKNOWN: &str = "\u{2013}";

pub fn rows(context: &Context) -> Vec<Row> {
    let texts: [(&str, fn(&Run) -> Option<String>); 4] =
        [("Hosts", hosts), ("Seed", seed), ("State", state), ("Bootstrapped tors", bootstrapped)];
    let mut rows: Vec<Row> = texts.iter().map(|(name, of_run)| text_row(context, name, of_run)).collect();
    rows.push(number_row(context, "Last tor bootstrapped after", Unit::Seconds, last_bootstrapped));
    let transfers = context.subjects.iter().map(|subject| transfers_of(context, subject));
    rows.push(Row { name: "Transfers".into(), cells: transfers.collect() });
    rows.push(number_row(context, "Failed transfers", Unit::Share, |run| failed_share(context, run, |_| true)));
    let behaviours = behaviours(context);
    for behaviour in behaviours.iter().filter(|_| behaviours.len() > 1) {
        let of_run = |run: &Run| failed_share(context, run, |other| *other == **behaviour);
        rows.push(number_row(context, &format!("Failed transfers, {behaviour}"), Unit::Share, of_run));
    }
    rows.extend(public_row(context));
    for kind in kinds(context) {
        for byte in [Byte::First, Byte::Last] {
            let name = format!("{}, {}, median", byte.title(), kind.name);
            rows.push(number_row(context, &name, Unit::Seconds, |run| kind.quantile(context, run, byte, 0.5)));
        }
    }
    let goodput = |run: &Run| rate(context, run, run.payload.as_ref()?);
    rows.push(number_row(context, "Goodput of all transfers, mean", Unit::BitsPerSecond, goodput));
    let traffic = |run: &Run| rate(context, run, &throughput::relay_traffic(run)?);
    rows.push(number_row(context, "Traffic that relays sent, mean", Unit::BitsPerSecond, traffic));
    rows.push(number_row(context, "Relay utilisation, mean", Unit::Share, |run| {
        relays::mean_utilisation(context, run)
    }));
    rows.push(number_row(context, "Relay capacity in use", Unit::Share, |run| relays::capacity_in_use(context, run)));
    rows.push(number_row(context, "Relay capacity in use, as expected", Unit::Share, |run| {
        run.network.as_ref()?.expected_utilisation
    }));
    for (position, name) in [(Position::Entry, "Entry"), (Position::Exit, "Exit")] {
        let correlation = |run: &Run| balance::correlation(context, run, position);
        rows.push(number_row(
            context,
            &format!("{name}: circuits against weights, correlation"),
            Unit::Count,
            correlation,
        ));
        let unused = |run: &Run| balance::unused(context, run, position);
        rows.push(text_row(context, &format!("{name}: relays without a circuit"), &unused));
    }
    rows.push(each_row(context, "Simulated in wall time", &|run| times(run)));
    rows.push(number_row(context, "Simulated seconds per second", Unit::Count, speed));
    rows.push(number_row(context, "Peak memory in use", Unit::Bytes, peak_memory));
    rows.push(number_row(context, "Peak memory in use, per tor", Unit::Bytes, memory_per_tor));
    rows.push(number_row(context, "Peak resident memory", Unit::Bytes, peak_resident));
    rows.push(number_row(context, "CPU time", Unit::Seconds, |run| simulator::cpu_total(run).map(|(total, _)| total)));
    rows.push(number_row(context, "CPU time over that of guests", Unit::Count, cpu_ratio));
    rows.push(text_row(context, "Lines that could not be read", &|run| Some(run.damaged_lines().to_string())));
    rows.retain(|row| row.cells.iter().any(|cell| cell != UNKNOWN));
    rows
}

/// A row of texts: what all runs of a subject say, once, or what each says.
fn text_row(context: &Context, name: &str, of_run: &dyn Fn(&Run) -> Option<String>) -> Row {
    let cell = |subject: &Subject| {
        let mut texts = texts(subject, of_run);
        if texts.windows(2).all(|pair| pair[0] == pair[1]) {
            texts.truncate(1);
        }
        list(&texts)
    };
    Row { name: name.to_owned(), cells: context.subjects.iter().map(cell).collect() }
}

/// A row of texts that are each run's own, as what was measured is: equal ones stand there as often as they are.
fn each_row(context: &Context, name: &str, of_run: &dyn Fn(&Run) -> Option<String>) -> Row {
    let cell = |subject: &Subject| {
        let texts = texts(subject, of_run);
        if texts.iter().all(|text| text == UNKNOWN) { UNKNOWN.into() } else { list(&texts) }
    };
    Row { name: name.to_owned(), cells: context.subjects.iter().map(cell).collect() }
}

fn texts(subject: &Subject, of_run: &dyn Fn(&Run) -> Option<String>) -> Vec<String> {
    subject.runs.iter().map(|run| of_run(run).unwrap_or_else(|| UNKNOWN.into())).collect()
}

fn list(texts: &[String]) -> String {
    texts.join(if texts.iter().any(|text| text.contains(',')) { "; " } else { ", " })
}

/// A row of numbers: a run's, or a group's mean with its interval.
fn number_row(context: &Context, name: &str, unit: Unit, of_run: impl Fn(&Run) -> Option<f64>) -> Row {
    let cell =
        |subject: &Subject| subject.estimate(&of_run).map_or_else(|| UNKNOWN.into(), |estimate| show(unit, &estimate));
    Row { name: name.to_owned(), cells: context.subjects.iter().map(cell).collect() }
}

/// "1.23 s", or "1.23 ± 0.12 s".
pub(super) fn show(unit: Unit, estimate: &Estimate) -> String {
    match estimate.error {
        Some(error) => unit.show_with_error(estimate.mean, error),
        None => unit.show(estimate.mean),
    }
}

fn hosts(run: &Run) -> Option<String> {
    let roles: Vec<String> = run.roles().iter().map(|(role, count)| role.count(*count)).collect();
    Some(format!("{}: {}", run.hosts.len(), roles.join(", ")))
}

fn seed(run: &Run) -> Option<String> {
    run.seed().map(|seed| seed.to_string())
}

fn state(run: &Run) -> Option<String> {
    let end = Unit::Seconds.show(run.end_s());
    Some(match run.ending() {
        Ending::Unknown => format!("not finished, last sign at {end}"),
        Ending::Stopped { stop_s } => format!("stopped at {end} of {}", Unit::Seconds.show(stop_s)),
        Ending::Finished => "finished".into(),
    })
}

fn bootstrapped(run: &Run) -> Option<String> {
    let done = run.tors.iter().filter(|tor| tor.bootstrapped_s.is_some()).count();
    (!run.tors.is_empty()).then(|| format!("{done} of {}", run.tors.len()))
}

/// Only where all are.
fn last_bootstrapped(run: &Run) -> Option<f64> {
    let times: Option<Vec<f64>> = run.tors.iter().map(|tor| tor.bootstrapped_s).collect();
    times?.into_iter().reduce(f64::max)
}

/// Of all runs of a subject together.
fn transfers_of(context: &Context, subject: &Subject) -> String {
    let count = |is_meant: fn(&Transfer) -> bool| {
        let transfers = subject.runs.iter().flat_map(|run| context.transfers(run));
        transfers.filter(|transfer| is_meant(transfer)).count()
    };
    if subject.runs.iter().all(|run| run.generators == 0) {
        return UNKNOWN.into();
    }
    let (done, verified) = (count(Transfer::is_done), count(|transfer| transfer.is_done() && transfer.verified));
    let failed = count(|transfer| transfer.error.is_some());
    let retries = match count(|transfer| transfer.is_retry) {
        0 => String::new(),
        count => format!(", {count} of all were retries"),
    };
    format!("{done} done, {failed} failed, {verified} verified{retries}")
}

/// Of the transfers whose behaviour is meant.
pub(super) fn failed_share(context: &Context, run: &Run, is_meant: impl Fn(&str) -> bool) -> Option<f64> {
    let (mut failed, mut all) = (0u32, 0u32);
    for transfer in context.transfers(run).filter(|transfer| is_meant(&transfer.behaviour)) {
        all += 1;
        failed += u32::from(transfer.error.is_some());
    }
    (all > 0).then(|| f64::from(failed) / f64::from(all))
}

/// How many quantities lie among the public network's; the section on them has each.
fn public_row(context: &Context) -> Option<Row> {
    let all = public::all(context);
    let cell = |subject: &Subject| {
        let of_subject = all.iter().filter(|one| one.subject == subject.title());
        let verdicts: Vec<Verdict> = of_subject.map(public::Compared::verdict).collect();
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let told = [(Verdict::Within, "within"), (Verdict::Below, "below"), (Verdict::Above, "above")];
        let told = told.into_iter().map(|(verdict, name)| (count(verdict), name)).filter(|(count, _)| *count > 0);
        let told: Vec<String> = told.map(|(count, name)| format!("{count} {name}")).collect();
        if told.is_empty() { UNKNOWN.into() } else { told.join(", ") }
    };
    let cells = context.subjects.iter().map(cell).collect();
    (!all.is_empty()).then(|| Row { name: "Figures beside the public quartiles".into(), cells })
}

fn behaviours(context: &Context) -> BTreeSet<Arc<str>> {
    context.runs().flat_map(|run| context.transfers(run)).map(|transfer| Arc::clone(&transfer.behaviour)).collect()
}

/// Transfers with quantiles of their own: a class, and where it has several behaviours one of them.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) name: String,
    class: Class,
    behaviour: Arc<str>,
}

pub(super) fn kinds(context: &Context) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (class, behaviours) in transfers::classes(context) {
        for behaviour in &behaviours {
            let name = if behaviours.len() > 1 { format!("{}, {behaviour}", class.name()) } else { class.name() };
            kinds.push(Kind { name, class: class.clone(), behaviour: Arc::clone(behaviour) });
        }
    }
    kinds
}

impl Kind {
    pub(super) fn quantile(&self, context: &Context, run: &Run, byte: Byte, quantile: f64) -> Option<f64> {
        transfers::sample(context, run, &self.class, &self.behaviour, byte).quantile(quantile)
    }

    /// "50 KiB 0.66 s/0.86 s" of the only subject.
    fn medians(&self, context: &Context) -> Option<String> {
        let subject = context.subjects.first()?;
        let median = |byte| subject.estimate(|run| self.quantile(context, run, byte, 0.5));
        let (first, last) = (median(Byte::First)?, median(Byte::Last)?);
        Some(format!("{} {}/{}", self.name, show(Unit::Seconds, &first), show(Unit::Seconds, &last)))
    }
}

/// Bits per second within the window.
pub(super) fn rate(context: &Context, run: &Run, bins: &crate::bins::Bins) -> Option<f64> {
    let window = context.window(run);
    let span = window.end - window.start;
    (span > 0.0).then(|| bins.between(window.start, window.end) * 8.0 / span)
}

fn times(run: &Run) -> Option<String> {
    let wall = run.stats.as_ref()?.wall_s?;
    Some(format!("{} in {}", Unit::Seconds.show(run.end_s()), Unit::Seconds.show(wall)))
}

fn speed(run: &Run) -> Option<f64> {
    let last = run.progress.last();
    let wall = run.stats.as_ref().and_then(|stats| stats.wall_s).or(last.map(|row| row.wall_s));
    wall.filter(|wall| *wall > 0.0).map(|wall| run.end_s() / wall)
}

fn peak_memory(run: &Run) -> Option<f64> {
    run.stats.as_ref().and_then(|stats| stats.peak_memory_bytes)
}

fn peak_resident(run: &Run) -> Option<f64> {
    let told = run.stats.as_ref().and_then(|stats| stats.peak_resident_bytes);
    told.or_else(|| run.progress.iter().map(|row| row.resident_bytes).reduce(f64::max))
}

fn memory_per_tor(run: &Run) -> Option<f64> {
    peak_memory(run).filter(|_| !run.tors.is_empty()).map(|peak| peak / run.tors.len() as f64)
}

fn cpu_ratio(run: &Run) -> Option<f64> {
    let (total, guests) = simulator::cpu_total(run)?;
    guests.filter(|guests| *guests > 0.0).map(|guests| total / guests)
}

/// Six lines for the terminal at most, the page's path not among them.
pub fn lines(context: &Context) -> Vec<String> {
    let rows = rows(context);
    let cell = |name: &str, index: usize| {
        let row = rows.iter().find(|row| row.name == name);
        row.map(|row| row.cells[index].as_str()).filter(|cell| *cell != UNKNOWN)
    };
    if context.is_comparison() {
        return context.subjects.iter().enumerate().map(|(index, subject)| one_line(subject, index, &cell)).collect();
    }
    let with = |name: &str, text: &str| cell(name, 0).map(|value| format!("{text}{value}"));
    let medians: Vec<String> = kinds(context).iter().filter_map(|kind| kind.medians(context)).collect();
    let all = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    let lines = [
        ("hosts", all(&[with("Hosts", "")])),
        (
            "tors",
            all(&[with("Bootstrapped tors", "bootstrapped "), with("Last tor bootstrapped after", "the last after ")]),
        ),
        ("transfers", all(&[with("Transfers", "")])),
        ("ttfb/ttlb", medians.join(", ")),
        (
            "rates",
            all(&[
                with("Goodput of all transfers, mean", "goodput "),
                with("Traffic that relays sent, mean", "relays sent "),
            ]),
        ),
        (
            "run",
            all(&[
                with("Simulated in wall time", ""),
                with("Simulated seconds per second", "speed "),
                with("Peak memory in use", "peak memory "),
                with("Peak memory in use, per tor", "per tor "),
                with("Peak resident memory", "resident "),
            ]),
        ),
    ];
    let told = lines.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(name, text)| format!("{name:<10} {text}").replace(['\u{2009}', '\u{a0}'], " ")).collect()
}

fn one_line<'a>(subject: &Subject, index: usize, cell: &dyn Fn(&str, usize) -> Option<&'a str>) -> String {
    let parts = ["Transfers", "Goodput of all transfers, mean", "Simulated in wall time"];
    let parts: Vec<&str> = parts.iter().filter_map(|name| cell(name, index)).collect();
    format!("{}: {}", subject.title(), parts.join("; ")).replace(['\u{2009}', '\u{a0}'], " ")
}
