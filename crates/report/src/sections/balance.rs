//! Whether circuits spread over the relays as their weights say: shares of positions expected and found.

use super::{Context, Section, Table, circuits, relays};
use crate::chart::Unit;
use crate::maths;
use crate::run::Run;
use std::collections::BTreeMap;

/// The relays that a table lists, those with the largest shares.
const MOST_ROWS: usize = 60;

/// A relay of the network, with its share of each position of a circuit: as the weights have it, and as circuits had it.
struct Relay<'a> {
    host: &'a str,
    expected: [f64; 3],
    found: [f64; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Entry = 0,
    Exit = 2,
}

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "balance", title: "Circuits by relay", ..Section::default() };
    let lacks = |run: &Run| relays_of(context, run).is_empty();
    let needed =
        "circuits with their relays (gnomon-traffic with a control port) and shares expected (tor-network.json)";
    section.missing.extend(context.missing(needed, lacks));
    let runs: Vec<&Run> = context.runs().filter(|run| !lacks(run)).collect();
    if runs.is_empty() {
        return section;
    }
    section.texts.push(
        "The share of circuits that had a relay as their first or last one, beside the share that its weight and its flags give it. \
         Networks in which these differ measure something else than their weights say."
            .into(),
    );
    if let [run] = runs[..] {
        section.tables.push(table(context, run));
    }
    section
}

/// The relays that have a share of some position; none where the run does not tell.
fn relays_of<'a>(context: &Context, run: &'a Run) -> Vec<Relay<'a>> {
    let Some(network) = &run.network else { return Vec::new() };
    let mut counts: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    let mut total = 0.0;
    for circuit in circuits::of_users(context, run) {
        total += 1.0;
        for (position, relay) in circuit.path.iter().enumerate().take(3) {
            counts.entry(relay).or_default()[position] += 1.0;
        }
    }
    if total == 0.0 {
        return Vec::new();
    }
    let relay = |(host, entry): (&'a String, &'a crate::run::NetworkHost)| {
        let expected = entry.expected_shares?;
        let name = entry.nickname.as_deref().unwrap_or(host);
        let found = counts.get(name).copied().unwrap_or_default().map(|count| count / total);
        Some(Relay { host, expected, found })
    };
    network.hosts.iter().filter_map(relay).collect()
}

/// Pearson's correlation of the share of circuits with the share of the weight, over the relays that may have the position.
pub fn correlation(context: &Context, run: &Run, position: Position) -> Option<f64> {
    let index = position as usize;
    let relays = relays_of(context, run);
    let pairs: Vec<(f64, f64)> = relays
        .iter()
        .filter(|relay| relay.expected[index] > 0.0)
        .map(|relay| (relay.expected[index], relay.found[index]))
        .collect();
    maths::correlation(&pairs)
}

/// How many of the relays that may have the position no circuit had there: "1 of 12".
pub fn unused(context: &Context, run: &Run, position: Position) -> Option<String> {
    let index = position as usize;
    let relays = relays_of(context, run);
    let (mut unused, mut all) = (0, 0);
    for relay in relays.iter().filter(|relay| relay.expected[index] > 0.0) {
        all += 1;
        unused += usize::from(relay.found[index] == 0.0);
    }
    (all > 0).then(|| format!("{unused} of {all}"))
}

fn table(context: &Context, run: &Run) -> Table {
    let mut relays = relays_of(context, run);
    let sum = |relay: &Relay| relay.expected.iter().sum::<f64>();
    relays.sort_by(|a, b| sum(b).total_cmp(&sum(a)).then(a.host.cmp(b.host)));
    let count = circuits::of_users(context, run).count();
    let share = |share: f64| Unit::Share.show(share);
    let row = |relay: &Relay| {
        vec![
            run.display_name(relay.host).to_owned(),
            run.role(relay.host).name().to_owned(),
            share(relay.expected[0]),
            share(relay.found[0]),
            share(relay.expected[2]),
            share(relay.found[2]),
            relays::utilisation_of(context, run, relay.host).map_or_else(|| "\u{2013}".into(), share),
        ]
    };
    let header = ["Relay", "Role", "Entry: weight", "circuits", "Exit: weight", "circuits", "Utilisation"];
    let listed = relays.len().min(MOST_ROWS);
    let title = match relays.len() - listed {
        0 => format!("Relays' shares of weight and of {count} circuits"),
        more => format!("Relays' shares of weight and of {count} circuits; {more} more relays have less"),
    };
    Table {
        title,
        header: header.map(str::to_owned).to_vec(),
        rows: relays[..listed].iter().map(row).collect(),
        text_columns: 2,
    }
}
