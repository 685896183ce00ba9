//! What runs of Tor networks show beside what the public network showed, by the same definitions.

use super::{Context, Section, Table, circuits, errors, relays, size_name, summary};
use crate::chart::{Ink, Point, Series, Unit};
use crate::maths::{Estimate, Sample};
use crate::public::{Quantity, Quartiles};
use crate::run::{Direction, Run, Transfer};
use crate::subject::Subject;

/// Nothing where no run is of a Tor network.
pub fn section(context: &Context) -> Option<Section> {
    context.runs().find(|run| run.network.is_some())?;
    let rows: Vec<Vec<String>> =
        context.public.iter().filter_map(|(quantity, quartiles)| row(context, *quantity, quartiles)).collect();
    if rows.is_empty() {
        return None;
    }
    let subjects = context.subjects.iter().map(Subject::title);
    let header = ["Quantity", "Measured", "Quarter below", "Public median", "Quarter above"].map(str::to_owned);
    let table = Table {
        title: "Medians beside the public network\u{2019}s quartiles".into(),
        header: header.into_iter().chain(subjects).collect(),
        rows,
        text_columns: 2,
    };
    let about = "The public network\u{2019}s values are OnionPerf\u{2019}s, and relays\u{2019} own reports, as Tor Metrics has them: built in are those of 2019, \
                 and \u{201c}gnomon report --public FILE\u{201d} takes its CSV files of other times. Runs\u{2019} are of measuring clients\u{2019} downloads, and of \
                 users\u{2019} circuits. Both count from the opening of the connection to tor; a round trip is from the request to the first byte of its answer. \
                 Shares are by day there: the half of all days lies within the quartiles.";
    Some(Section {
        id: "public",
        title: "Beside the public Tor network",
        texts: vec![about.into()],
        tables: vec![table],
        ..Section::default()
    })
}

fn row(context: &Context, quantity: Quantity, public: &Quartiles) -> Option<Vec<String>> {
    let unit = match quantity {
        Quantity::FailedShare | Quantity::CapacityInUse => Unit::Share,
        _ => Unit::Seconds,
    };
    let estimates: Vec<Option<Estimate>> =
        context.subjects.iter().map(|subject| subject.estimate(|run| value(context, run, quantity))).collect();
    estimates.iter().flatten().next()?;
    let cells = estimates.iter().map(|estimate| match estimate {
        None => summary::UNKNOWN.to_owned(),
        Some(estimate) => format!("{}, {}", summary::show(unit, estimate), verdict(public, estimate.mean)),
    });
    let [q1, median, q3] = [public.q1, public.median, public.q3].map(|value| unit.show(value));
    Some([name(quantity), public.dates.clone(), q1, median, q3].into_iter().chain(cells).collect())
}

fn verdict(public: &Quartiles, value: f64) -> &'static str {
    match value {
        _ if value < public.q1 => "below",
        _ if value > public.q3 => "above",
        _ => "within",
    }
}

fn name(quantity: Quantity) -> String {
    match quantity {
        Quantity::LastByte(bytes) => format!("Time to last byte, {}", size_name(bytes)),
        Quantity::RoundTrip => "Round trip of a circuit".into(),
        Quantity::CircuitBuild => "Circuit build time".into(),
        Quantity::FailedShare => "Failed downloads".into(),
        Quantity::CapacityInUse => "Relay capacity in use".into(),
    }
}

/// A run's value: a median over downloads or circuits, or a share.
fn value(context: &Context, run: &Run, quantity: Quantity) -> Option<f64> {
    run.network.as_ref()?;
    let is_meant = |transfer: &&Transfer| {
        &*transfer.behaviour == errors::MEASURING && transfer.direction == Direction::Download && transfer.is_done()
    };
    let median = |values: Vec<f64>| Sample::new(values).quantile(0.5);
    match quantity {
        Quantity::LastByte(bytes) => {
            let downloads = context.transfers(run).filter(is_meant).filter(|transfer| transfer.bytes == bytes);
            median(downloads.filter_map(|transfer| transfer.last_byte_s).collect())
        }
        Quantity::RoundTrip => {
            let round_trip = |transfer: &Transfer| Some((transfer.first_byte_s? - transfer.request_s?).max(0.0));
            median(context.transfers(run).filter(is_meant).filter_map(round_trip).collect())
        }
        Quantity::CircuitBuild => {
            let of_one = circuits::of_users(context, run).filter(|circuit| !circuit.is_of_many);
            median(of_one.filter_map(|circuit| circuit.build_s).collect())
        }
        Quantity::FailedShare => summary::failed_share(context, run, Some(errors::MEASURING)),
        Quantity::CapacityInUse => relays::capacity_in_use(context, run),
    }
}

/// The quartiles as a line of a distribution, where a run is of a Tor network.
pub fn line(context: &Context, quantity: Quantity) -> Option<Series> {
    context.runs().find(|run| run.network.is_some())?;
    let public = context.public.get(quantity)?;
    let quarters = [(public.q1, 0.25), (public.median, 0.5), (public.q3, 0.75)];
    let points = quarters.map(|(x, y)| Point { x, y, interval: None }).to_vec();
    Some(Series::line(format!("public Tor {}: quartiles", public.dates), Ink::dashed(6, 2), points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_themselves_are_within() {
        let public = Quartiles { q1: 1.0, median: 2.0, q3: 3.0, dates: String::new() };
        assert_eq!([0.9, 1.0, 3.0, 3.1].map(|value| verdict(&public, value)), ["below", "within", "within", "above"]);
    }
}
