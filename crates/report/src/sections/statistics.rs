//! What relays told of themselves: what a victim of an attack relays, and what it holds.

use super::{Context, Section};
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, Point, Series, Unit};
use crate::run::{Run, Told};

/// More relays than this are left out, those with the fewest descriptors first, unless one is the victim of an attack.
const MOST_RELAYS: usize = 4;

/// Something that a relay told, as a curve.
struct Quantity {
    id: &'static str,
    title: &'static str,
    column: &'static str,
    unit: Unit,
    /// Of two lines that follow each other.
    of: fn(&Told, &Told) -> f64,
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        id: "relayed",
        title: "Throughput of circuits that go on",
        column: "relayed_bits_per_s",
        unit: Unit::BitsPerSecond,
        of: |before, now| 8.0 * (now.relayed_bytes - before.relayed_bytes) / (now.at_s - before.at_s),
    },
    Quantity { id: "circuits", title: "Circuits", column: "circuits", unit: Unit::Count, of: |_, now| now.circuits },
    Quantity {
        id: "descriptors",
        title: "Descriptors",
        column: "descriptors",
        unit: Unit::Count,
        of: |_, now| now.descriptors,
    },
    Quantity { id: "streams", title: "Streams", column: "streams", unit: Unit::Count, of: |_, now| now.streams },
    Quantity {
        id: "refused",
        title: "Circuits, connections and streams refused",
        column: "refused",
        unit: Unit::Count,
        of: |_, now| now.refused,
    },
];

/// None where no relay told anything.
pub fn section(context: &Context) -> Option<Section> {
    let shown: Vec<(&Run, &str)> =
        context.runs().flat_map(|run| relays(run).into_iter().map(move |host| (run, host))).collect();
    if shown.is_empty() {
        return None;
    }
    let mut section = Section { id: "statistics", title: "Relays' own statistics", ..Section::default() };
    section
        .missing
        .extend(context.missing("relays' statistics (gnomon tor new --relay-statistics)", |run| run.told.is_empty()));
    let left_out: usize = context.runs().map(|run| run.told.len()).sum::<usize>() - shown.len();
    if left_out > 0 {
        section.texts.push(format!("{left_out} more relays told of themselves, and are not shown."));
    }
    section.figures = QUANTITIES.iter().filter_map(|quantity| figure(context, &shown, quantity)).collect();
    Some(section)
}

/// The victim, or those that had most descriptors.
fn relays(run: &Run) -> Vec<&str> {
    let victim = run.network.as_ref().and_then(|network| network.attack.as_ref()).map(|attack| attack.victim.as_str());
    if let Some((host, _)) = run.told.iter().find(|(host, _)| Some(host.as_str()) == victim) {
        return vec![host];
    }
    let most = |told: &[Told]| told.iter().map(|told| told.descriptors).fold(0.0, f64::max);
    let mut found: Vec<(&str, f64)> = run.told.iter().map(|(host, told)| (host.as_str(), most(told))).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    found.into_iter().take(MOST_RELAYS).map(|(host, _)| host).collect()
}

fn figure(context: &Context, shown: &[(&Run, &str)], quantity: &Quantity) -> Option<Figure> {
    let series = shown.iter().enumerate().map(|(at, (run, host))| {
        let told = &run.told[*host];
        let points = told.windows(2).filter(|two| two[1].at_s > two[0].at_s);
        let name = run.display_name(host);
        Series {
            name: if context.is_comparison() { format!("{}, {name}", run.label) } else { name.to_string() },
            key: None,
            ink: Ink::dashed(at, at),
            is_step: false,
            points: points
                .map(|two| Point { x: two[1].at_s, y: (quantity.of)(&two[0], &two[1]), interval: None })
                .collect(),
        }
    });
    let series: Vec<Series> = series.collect();
    let is_worth_it = series.iter().any(|series| series.points.iter().any(|point| point.y > 0.0));
    is_worth_it.then(|| Figure {
        id: format!("statistics-{}", quantity.id),
        title: quantity.title.to_owned(),
        subtitle: "as relays told each second (StatisticsFile)".to_owned(),
        caption: String::new(),
        chart: Chart::Plot(Plot {
            x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(context.end_s()),
            y: Axis::new(quantity.title, quantity.column, quantity.unit).from(0.0),
            series,
            interval: Along::Y,
            names_at_ends: false,
            moments: attacks(context),
            reference: None,
        }),
    })
}

/// When the attack begins and ends, where that is the same in all runs.
fn attacks(context: &Context) -> Vec<(f64, &'static str)> {
    let attack = |run: &Run| run.network.as_ref()?.attack.as_ref().map(|attack| (attack.start_s, attack.stop_s));
    let Some(first) = context.runs().next().map(attack) else { return Vec::new() };
    let common = first.filter(|_| context.runs().all(|run| attack(run) == first));
    let moments = common.map(|(start_s, stop_s)| [(start_s, "the attack begins"), (stop_s, "the attack ends")]);
    moments.into_iter().flatten().collect()
}
