//! How long circuits took to build.

use super::{Context, Section, Table, join, public, transfers};
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, Unit};
use crate::maths::Sample;
use crate::public::Quantity;
use crate::run::{Circuit, Run};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "circuits", title: "Circuit build times", ..Section::default() };
    let lacks = |run: &Run| run.circuit_watchers == 0;
    let needed = "circuit events (gnomon-traffic with a control port, or oniontrace)";
    section.missing.extend(context.missing(needed, lacks));
    let purposes = purposes(context);
    if purposes.is_empty() {
        return section;
    }
    let mut series = Vec::new();
    for subject in &context.subjects {
        for (index, purpose) in purposes.iter().enumerate() {
            let (name, ink) = match (context.is_comparison(), purposes.len()) {
                (true, 1) => (subject.title(), Ink::solid(subject.colour)),
                (true, _) => (format!("{}, {purpose}", subject.title()), Ink::dashed(subject.colour, index)),
                (false, _) => (purpose.to_string(), Ink::dashed(index, index)),
            };
            series.extend(subject.distribution(name, ink, |run| sample(context, run, purpose)));
        }
    }
    let count: usize =
        context.runs().flat_map(|run| purposes.iter().map(|name| sample(context, run, name).len())).sum();
    if !series.is_empty() {
        let only = if purposes.len() == 1 { format!(", purpose {}", purposes[0]) } else { String::new() };
        section.figures.push(Figure {
            id: "circuit-build-time".into(),
            title: format!("Circuit build time{only}"),
            subtitle: join(&[&format!("{count} circuits"), context.interval_note()]),
            caption: "From the circuit's launch to its last hop. Circuits that were taken over from another purpose are left out, and those of Markov clients, which \
                      launch many at once."
                .into(),
            chart: Chart::Plot(Plot {
                x: transfers::time_axis("Circuit build time", "circuit_build_time_s", &series),
                y: Axis::new("Share of circuits", "fraction", Unit::Fraction).from(0.0).to(1.0),
                series,
                interval: Along::X,
                names_at_ends: false,
                moments: Vec::new(),
                reference: public::reference(context, Quantity::CircuitBuild, true),
            }),
        });
    }
    section.tables.push(outcomes(context));
    section
}

/// Circuits of users, as opposed to those of onion services and of tor's own, that were built within the window, and of which all relays
/// are known.
pub fn of_users<'r>(context: &Context, run: &'r Run) -> impl Iterator<Item = &'r Circuit> + use<'r> {
    let is_of_user = |circuit: &&Circuit| {
        is_of_user(&circuit.purpose)
            && circuit.error.is_none()
            && circuit.path.len() == 3
            && circuit.path.iter().all(|relay| !relay.is_empty())
    };
    circuits(context, run).filter(is_of_user)
}

fn is_of_user(purpose: &str) -> bool {
    purpose == "GENERAL" || purpose.starts_with("CONFLUX")
}

/// Of users' circuits, as OnionPerf measures them: without those of clients that launch many at once.
pub fn build_times_of_users(context: &Context, run: &Run) -> Sample {
    let meant = circuits(context, run).filter(|circuit| is_of_user(&circuit.purpose) && !circuit.is_of_many);
    Sample::new(meant.filter_map(|circuit| circuit.build_s).collect())
}

/// Circuits that were begun within the window.
fn circuits<'r>(context: &Context, run: &'r Run) -> impl Iterator<Item = &'r Circuit> + use<'r> {
    let window = context.window(run);
    run.circuits.iter().filter(move |circuit| window.start <= circuit.at_s && circuit.at_s <= window.end)
}

/// Purposes with circuits that were built, the most frequent first; rare ones are not drawn.
fn purposes(context: &Context) -> Vec<Arc<str>> {
    let mut counts: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for run in context.runs() {
        for circuit in circuits(context, run).filter(|circuit| circuit.build_s.is_some() && !circuit.is_of_many) {
            *counts.entry(&circuit.purpose).or_insert(0) += 1;
        }
    }
    let total: usize = counts.values().sum();
    let mut purposes: Vec<(usize, &Arc<str>)> = counts.into_iter().map(|(purpose, count)| (count, purpose)).collect();
    purposes.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    purposes
        .into_iter()
        .take(4)
        .filter(|(count, _)| count * 50 >= total)
        .map(|(_, purpose)| Arc::clone(purpose))
        .collect()
}

fn sample(context: &Context, run: &Run, purpose: &str) -> Sample {
    let of_purpose = circuits(context, run).filter(|circuit| &*circuit.purpose == purpose && !circuit.is_of_many);
    Sample::new(of_purpose.filter_map(|circuit| circuit.build_s).collect())
}

fn outcomes(context: &Context) -> Table {
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let runs: Vec<&Run> = context.runs().collect();
    for (index, run) in runs.iter().enumerate() {
        for circuit in circuits(context, run) {
            let outcome = circuit.error.as_deref().map_or("built".to_owned(), |error| format!("failed: {error}"));
            rows.entry(outcome).or_insert_with(|| vec![0; runs.len()])[index] += 1;
        }
    }
    Table {
        title: "Circuits by outcome".into(),
        header: ["Outcome".to_owned()].into_iter().chain(runs.iter().map(|run| run.label.clone())).collect(),
        rows: rows
            .into_iter()
            .map(|(outcome, counts)| [outcome].into_iter().chain(counts.iter().map(usize::to_string)).collect())
            .collect(),
        text_columns: 1,
    }
}
