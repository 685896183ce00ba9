//! How much data the network moved, over time: for its users, and by its relays.

use super::{Context, Section, join};
use crate::bins::Bins;
use crate::chart::{Along, Axis, Chart, Figure, Ink, Plot, Series, Unit};
use crate::run::Run;

/// So many relays have lines of their own.
const NAMED_RELAYS: usize = 8;

pub fn section(context: &Context) -> Section {
    let mut section = Section { id: "throughput", title: "Goodput and traffic over time", ..Section::default() };
    section.missing.extend(context.missing("output of gnomon-traffic or tgen", |run| run.generators == 0));
    let lacks = |run: &Run| relay_traffic(run).is_none();
    section
        .missing
        .extend(context.missing("traffic of relays (host-traffic.csv, or BW events of a control port)", lacks));
    section.figures.extend(goodput(context));
    section.figures.extend(traffic(context));
    for subject in &context.subjects {
        // Of a group its first run: relays of different networks have nothing in common.
        section.figures.extend(subject.runs.first().and_then(|run| relays(context, run)));
    }
    section
}

/// What each relay sent, from the simulator or from the relays' control ports.
fn relay_bins(run: &Run) -> Vec<(&str, &Bins)> {
    let table = match &run.traffic {
        Some(traffic) => &traffic.sent,
        None => &run.control_port_written,
    };
    table.iter().map(|(host, bins)| (host.as_str(), bins)).filter(|(host, _)| run.role(host).is_relay()).collect()
}

/// What all relays sent together, in bytes.
pub fn relay_traffic(run: &Run) -> Option<Bins> {
    let relays = relay_bins(run);
    let mut sum = Bins::new(relays.first()?.1.width_s());
    relays.iter().for_each(|(_, bins)| sum.add_all(bins));
    Some(sum)
}

fn plot(context: &Context, label: &str, column: &'static str, series: Vec<Series>, names_at_ends: bool) -> Chart {
    Chart::Plot(Plot {
        x: Axis::new("Simulated time", "time_s", Unit::Seconds).from(0.0).to(context.end_s()),
        y: Axis::new(label, column, Unit::BitsPerSecond).from(0.0),
        series,
        interval: Along::Y,
        names_at_ends,
        moments: context.bootstrap_moments(),
        reference: None,
    })
}

fn total(context: &Context, of_run: impl Fn(&Run) -> Option<Bins>) -> Vec<Series> {
    let line = |subject: &crate::subject::Subject| {
        subject.rate(subject.title(), Ink::solid(subject.colour), |run| of_run(run).map(Bins::into_bits))
    };
    context.subjects.iter().filter_map(line).collect()
}

/// "means of 8 s": what a point of these lines tells.
fn intervals(series: &[Series]) -> String {
    let widths = series.iter().filter_map(|line| Some(line.points.get(1)?.x - line.points[0].x));
    widths.reduce(f64::max).map_or_else(String::new, |width| format!("means of {width:.0} s"))
}

fn goodput(context: &Context) -> Option<Figure> {
    let series = total(context, |run| run.payload.clone());
    (!series.is_empty()).then(|| Figure {
        id: "goodput".into(),
        title: "Goodput of all transfers".into(),
        subtitle: join(&["all clients together", &intervals(&series), context.interval_note()]),
        caption: "Payload that arrived. A transfer's bytes count when each tenth of it was complete; tgen tells of whole transfers only."
            .into(),
        chart: plot(context, "Goodput", "goodput_bit_per_s", series, context.is_comparison()),
    })
}

fn traffic(context: &Context) -> Option<Figure> {
    let series = total(context, relay_traffic);
    (!series.is_empty()).then(|| Figure {
        id: "relay-traffic".into(),
        title: "Traffic that all relays sent".into(),
        subtitle: join(&["sum over authorities, relays and bridges", &intervals(&series), context.interval_note()]),
        caption: "A byte for a client crosses several relays, and is counted at each. Everything that the hosts sent counts, \
                  headers of packets too."
            .into(),
        chart: plot(context, "Sent", "sent_bit_per_s", series, context.is_comparison()),
    })
}

fn relays(context: &Context, run: &Run) -> Option<Figure> {
    let mut relays = relay_bins(run);
    if relays.is_empty() {
        return None;
    }
    relays.sort_by(|a, b| b.1.total().total_cmp(&a.1.total()).then(a.0.cmp(b.0)));
    let mut series: Vec<Series> = Vec::new();
    for (index, (host, bins)) in relays.iter().enumerate() {
        let name = run.display_name(host).to_owned();
        let ink = if index < NAMED_RELAYS { Ink::dashed(index, index % 2) } else { Ink::faint() };
        let subject = crate::subject::Subject { label: name.clone(), runs: vec![run], colour: index };
        series.extend(subject.rate(name, ink, |_| Some(bins.for_display(100).into_bits())));
    }
    // The busiest are drawn last, above the others.
    series.reverse();
    let (suffix, of_run) = of_run(context, run);
    let rest = relays.len().saturating_sub(NAMED_RELAYS);
    let shown =
        if rest > 0 { format!("the {NAMED_RELAYS} busiest by name, {rest} others grey") } else { String::new() };
    Some(Figure {
        id: format!("traffic-by-relay{suffix}"),
        title: format!("Traffic by relay{of_run}"),
        subtitle: join(&[&shown, &intervals(&series)]),
        caption: String::new(),
        chart: plot(context, "Sent", "sent_bit_per_s", series, true),
    })
}

/// For figures about a single run: the ends of their file's name and of their title.
pub fn of_run(context: &Context, run: &Run) -> (String, String) {
    if context.runs().count() > 1 {
        (format!("-{}", super::slug(&run.label)), format!(", {}", run.label))
    } else {
        (String::new(), String::new())
    }
}
