//! Whether circuits spread over the relays as their weights say: shares of positions expected and found.

use super::{Context, Section, Table, circuits, relays};
use crate::chart::Unit;
use crate::maths;
use crate::run::{Outage, Run};
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
    if runs.iter().any(|run| run.outages().next().is_some()) {
        section.texts.push(
            "Relays went away meanwhile: at each circuit\u{2019}s moment, shares are those among the relays that were there.".into(),
        );
    }
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
        Some((Relay { host, expected, found }, entry.outages.as_slice()))
    };
    let (mut relays, outages): (Vec<Relay>, Vec<&[Outage]>) = network.hosts.iter().filter_map(relay).unzip();
    let moments: Vec<f64> = circuits::of_users(context, run).map(|circuit| circuit.at_s).collect();
    let shares: Vec<[f64; 3]> = relays.iter().map(|relay| relay.expected).collect();
    for (relay, expected) in relays.iter_mut().zip(shares_while_there(&shares, &outages, moments)) {
        relay.expected = expected;
    }
    relays
}

/// What share of the circuits that were built at these moments relays are expected to have in each position, where only those that are
/// there at a circuit's moment can be in it.
fn shares_while_there(shares: &[[f64; 3]], outages: &[&[Outage]], mut moments: Vec<f64>) -> Vec<[f64; 3]> {
    let mut changes: Vec<f64> = outages
        .iter()
        .flat_map(|own| *own)
        .flat_map(|outage| [Some(outage.from_s), outage.until_s])
        .flatten()
        .collect();
    changes.sort_by(f64::total_cmp);
    moments.sort_by(f64::total_cmp);
    let all = moments.len() as f64;
    let mut expected = vec![[0.0; 3]; shares.len()];
    let mut begin = 0;
    for end in
        changes.into_iter().map(|change| moments.partition_point(|moment| *moment < change)).chain([moments.len()])
    {
        let Some(moment) = moments[begin..end.max(begin)].first().copied() else { continue };
        let is_there = |own: &&[Outage]| {
            !own.iter().any(|outage| outage.from_s <= moment && outage.until_s.is_none_or(|until| moment < until))
        };
        let there: Vec<bool> = outages.iter().map(is_there).collect();
        for position in 0..3 {
            let sum: f64 =
                shares.iter().zip(&there).filter(|(_, there)| **there).map(|(share, _)| share[position]).sum();
            for (relay, _) in there.iter().enumerate().filter(|(_, there)| **there && sum > 0.0) {
                expected[relay][position] += shares[relay][position] / sum * (end - begin) as f64 / all;
            }
        }
        begin = end;
    }
    expected
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

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(from_s: f64, until_s: Option<f64>) -> Outage {
        Outage { why: "vanish".into(), from_s, ended_s: from_s, until_s }
    }

    /// Of three exits the largest goes for the second half of the circuits, and the smallest for a moment without any.
    #[test]
    fn relays_that_are_away_have_no_share_and_the_others_have_theirs() {
        let shares = [[0.0, 0.0, 0.5], [0.0, 0.0, 0.3], [1.0, 1.0, 0.2]];
        let (largest, smallest) = ([outage(2.0, Some(9.0))], [outage(3.1, Some(3.2))]);
        let outages: [&[Outage]; 3] = [&largest, &[], &smallest];
        let found = shares_while_there(&shares, &outages, vec![4.0, 0.5, 3.0, 1.0]);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        close(found[0][2], 0.25);
        close(found[1][2], 0.15 + 0.3);
        close(found[2][2], 0.1 + 0.2);
        close(found[2][0], 1.0);
        assert_eq!(shares_while_there(&shares, &[&[], &[], &[]], vec![1.0]), shares);
    }
}
