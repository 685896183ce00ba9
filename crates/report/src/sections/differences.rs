//! How variants differ from the first one, by runs of the same seed.

use super::transfers::Byte;
use super::{Context, Section, Table, relays, summary, throughput};
use crate::chart::Unit;
use crate::paired::{Difference, SIGNIFICANCE, adjusted};
use crate::run::Run;
use crate::subject::Subject;
use std::collections::BTreeSet;

/// Something that is measured in each run.
struct Quantity<'c> {
    name: String,
    unit: Unit,
    of_run: Box<dyn Fn(&Run) -> Option<f64> + 'c>,
}

/// One quantity of one variant.
#[derive(Clone, Debug)]
pub struct Compared {
    pub first: String,
    pub second: String,
    pub quantity: String,
    unit: Unit,
    pub difference: Difference,
    /// Of the t test, for all quantities of the variant together; none for a single pair.
    pub p_adjusted: Option<f64>,
}

impl Compared {
    pub fn differs(&self) -> Option<bool> {
        self.p_adjusted.map(|p| p < SIGNIFICANCE)
    }
}

/// All comparisons with the first subject.
pub fn all(context: &Context) -> Vec<Compared> {
    let Some((first, others)) = context.subjects.split_first() else { return Vec::new() };
    let quantities = quantities(context);
    others.iter().flat_map(|second| of_variant(first, second, &quantities)).collect()
}

fn of_variant(first: &Subject, second: &Subject, quantities: &[Quantity]) -> Vec<Compared> {
    let seeds = common_seeds(first, second);
    let mut found: Vec<Compared> = quantities
        .iter()
        .filter_map(|quantity| {
            let value = |subject: &Subject, seed: u64| {
                let run = subject.runs.iter().find(|run| run.seed() == Some(seed))?;
                (quantity.of_run)(run).filter(|value| value.is_finite())
            };
            let pairs: Vec<(f64, f64)> =
                seeds.iter().filter_map(|seed| value(first, *seed).zip(value(second, *seed))).collect();
            Some(Compared {
                first: first.label.clone(),
                second: second.label.clone(),
                quantity: quantity.name.clone(),
                unit: quantity.unit,
                difference: Difference::of(&pairs)?,
                p_adjusted: None,
            })
        })
        .collect();
    let tested: Vec<usize> = (0..found.len()).filter(|index| found[*index].difference.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|index| found[*index].difference.p).collect();
    for (index, p) in tested.into_iter().zip(adjusted(&p)) {
        found[index].p_adjusted = Some(p);
    }
    found
}

fn seeds(subject: &Subject) -> BTreeSet<u64> {
    subject.runs.iter().filter_map(|run| run.seed()).collect()
}

fn common_seeds(first: &Subject, second: &Subject) -> BTreeSet<u64> {
    seeds(first).intersection(&seeds(second)).copied().collect()
}

fn quantities<'c>(context: &'c Context) -> Vec<Quantity<'c>> {
    let mut all = Vec::new();
    let mut add = |name: String, unit, of_run: Box<dyn Fn(&Run) -> Option<f64> + 'c>| {
        all.push(Quantity { name, unit, of_run });
    };
    add("Failed transfers".into(), Unit::Share, Box::new(|run| summary::failed_share(context, run, |_| true)));
    for kind in summary::kinds(context) {
        for byte in [Byte::First, Byte::Last] {
            for (quantile, called) in [(0.5, "median"), (0.9, "90th percentile")] {
                let name = format!("{}, {}, {called}", byte.title(), kind.name);
                let kind = kind.clone();
                add(name, Unit::Seconds, Box::new(move |run| kind.quantile(context, run, byte, quantile)));
            }
        }
    }
    let goodput = |run: &Run| summary::rate(context, run, run.payload.as_ref()?);
    add("Goodput of all transfers, mean".into(), Unit::BitsPerSecond, Box::new(goodput));
    let traffic = |run: &Run| summary::rate(context, run, &throughput::relay_traffic(run)?);
    add("Traffic that relays sent, mean".into(), Unit::BitsPerSecond, Box::new(traffic));
    add("Relay utilisation, mean".into(), Unit::Share, Box::new(|run| relays::mean_utilisation(context, run)));
    all
}

/// Nothing where only one experiment is reported on.
pub fn section(context: &Context) -> Option<Section> {
    let (first, others) = context.subjects.split_first()?;
    if others.is_empty() {
        return None;
    }
    let mut section = Section { id: "differences", title: "Differences", ..Section::default() };
    section.texts.push(format!(
        "Each variant against \u{201c}{}\u{201d}, by runs of the same seed: means over pairs, the mean of the pairs\u{2019} differences with its 95 % \
         confidence interval (Student\u{2019}s t), Cohen\u{2019}s d of paired samples, the p-value of a paired t test, the same adjusted for all quantities of the \
         variant (Holm), and that of a permutation test over all assignments of signs. \u{201c}Differs\u{201d} means that the adjusted p is below {SIGNIFICANCE}.",
        first.label
    ));
    let found = all(context);
    for second in others {
        let seeds_of = |subject: &Subject| {
            let seeds: Vec<String> = seeds(subject).iter().map(u64::to_string).collect();
            if seeds.is_empty() { "none known".to_owned() } else { seeds.join(", ") }
        };
        let pairs = common_seeds(first, second).len();
        if pairs == 0 {
            section.missing.push(format!(
                "No runs of \u{201c}{}\u{201d} and \u{201c}{}\u{201d} have the same seed (the one has {}, the other {}): run both with the same seeds.",
                first.label,
                second.label,
                seeds_of(first),
                seeds_of(second)
            ));
            continue;
        }
        if pairs == 1 {
            section.missing.push(format!(
                "\u{201c}{}\u{201d} has one seed in common with \u{201c}{}\u{201d}: a difference without an interval. Run both with more seeds.",
                second.label, first.label
            ));
        } else if pairs < 6 {
            section.texts.push(format!(
                "With {pairs} pairs the permutation test\u{2019}s p cannot be below {}: it takes six pairs for 0.05.",
                2.0 / f64::from(1 << pairs)
            ));
        }
        section.tables.push(table(first, second, &found));
    }
    Some(section)
}

fn table(first: &Subject, second: &Subject, found: &[Compared]) -> Table {
    let of_variant = found.iter().filter(|compared| compared.second == second.label);
    let unknown = || summary::UNKNOWN.to_owned();
    let p = |p: Option<f64>| p.map_or_else(unknown, |p| if p < 0.0001 { "< 0.0001".into() } else { format!("{p:.4}") });
    let row = |compared: &Compared| {
        let (unit, difference) = (compared.unit, &compared.difference);
        let signed = |value: f64, text: String| if value > 0.0 { format!("+{text}") } else { text };
        // Units show magnitudes; the sign is put before.
        let magnitude = match difference.error {
            Some(error) => unit.show_with_error(difference.mean.abs(), error),
            None => unit.show(difference.mean.abs()),
        };
        let shown =
            if difference.mean < 0.0 { format!("\u{2212}{magnitude}") } else { signed(difference.mean, magnitude) };
        let verdict = match compared.differs() {
            Some(true) => "differs",
            Some(false) => "no difference seen",
            None => "one pair",
        };
        vec![
            compared.quantity.clone(),
            verdict.into(),
            unit.show(difference.first),
            unit.show(difference.second),
            shown,
            difference.relative().map_or_else(unknown, |share| format!("{:+.1} %", share * 100.0)),
            difference.effect.map_or_else(unknown, |effect| format!("{effect:.2}")),
            p(difference.p),
            p(compared.p_adjusted),
            p(Some(difference.p_permutation)),
            difference.pairs.to_string(),
        ]
    };
    let header = [
        "Quantity",
        "Verdict",
        &first.label,
        &second.label,
        "Difference",
        "Relative",
        "Cohen\u{2019}s d",
        "p",
        "p, adjusted",
        "p, permutation",
        "Pairs",
    ];
    Table {
        title: format!("{} against {}", second.label, first.label),
        header: header.map(str::to_owned).to_vec(),
        rows: of_variant.map(row).collect(),
        text_columns: 2,
    }
}
