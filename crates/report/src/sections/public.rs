//! The figures beside the public network's: where each run's typical value lies, among the quartiles of what was measured there.

use super::transfers::{self, Byte, Class};
use super::{Context, Section, Since, Table, circuits, probes, relays, summary};
use crate::chart::{Reference, Unit};
use crate::maths::{Estimate, Sample};
use crate::public::{Distribution, Quantity};
use crate::run::Run;
use crate::subject::Subject;

/// One quantity of one subject beside the public network's.
#[derive(Clone, Debug)]
pub struct Compared {
    pub subject: String,
    pub name: String,
    pub unit: Unit,
    /// Of the subject: the median of transfers or circuits, or the share itself; the mean over runs.
    pub value: Estimate,
    /// First and third quartile, where the quantity has them; means over runs.
    pub quartiles: Option<(f64, f64)>,
    pub public: Distribution,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Below,
    Within,
    Above,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Below => "below the public quartiles",
            Verdict::Within => "within the public quartiles",
            Verdict::Above => "above the public quartiles",
        }
    }
}

impl Compared {
    pub fn verdict(&self) -> Verdict {
        let [low, _, high] = self.public.quartiles();
        match self.value.mean {
            value if value < low => Verdict::Below,
            value if value > high => Verdict::Above,
            _ => Verdict::Within,
        }
    }

    /// With what the interval over runs adds.
    fn verdict_text(&self) -> String {
        let [low, _, high] = self.public.quartiles();
        let interval = self.value.low().zip(self.value.high());
        let doubt = match (self.verdict(), interval) {
            (Verdict::Below, Some((_, end))) if end >= low => ", but the interval reaches them",
            (Verdict::Above, Some((end, _))) if end <= high => ", but the interval reaches them",
            (Verdict::Within, Some((from, to))) if from < low || to > high => ", but the interval reaches beyond",
            _ => "",
        };
        format!("{}{doubt}", self.verdict().name())
    }
}

/// What a figure has beside its own values; None where the public network's are not known, or the runs have no relays.
pub fn reference(context: &Context, quantity: Quantity, is_distribution: bool) -> Option<Reference> {
    let found = context.public.get(quantity).filter(|_| context.has_relays())?;
    let (name, quartiles) = (found.label.clone(), found.quartiles());
    Some(Reference { name, quantiles: found.quantiles.clone(), quartiles, is_distribution })
}

/// The public network's counterpart of a class of transfers. OnionPerf's downloads count from their start, and its latencies, which are times
/// to the first byte, from the request.
pub fn counterpart(context: &Context, class: &Class, byte: Byte) -> Option<Quantity> {
    let bytes = class.downloaded_bytes()?;
    match (byte, context.since) {
        (Byte::Last, Since::Start) => Some(Quantity::Download(bytes)),
        (Byte::First, Since::Request) => Some(Quantity::RoundTrip),
        _ => None,
    }
}

/// Whether clients of a behaviour do what OnionPerf does: nothing but downloads over the exits.
pub fn is_like_onionperf(behaviour: &str) -> bool {
    behaviour.starts_with("perf") && !behaviour.contains("onion") && !behaviour.contains("bridge")
}

/// All that can be compared, by quantity and subject.
pub fn all(context: &Context) -> Vec<Compared> {
    if !context.has_relays() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut add = |quantity, name: &str, unit, of_run: &dyn Fn(&Run) -> Values| {
        let Some(public) = context.public.get(quantity) else { return };
        for subject in &context.subjects {
            all.extend(compared(subject, name, unit, public, of_run));
        }
    };
    for (class, behaviours) in transfers::classes(context) {
        let is_measured = behaviours.iter().any(|behaviour| is_like_onionperf(behaviour));
        for behaviour in behaviours.iter().filter(|behaviour| !is_measured || is_like_onionperf(behaviour)) {
            for byte in [Byte::First, Byte::Last] {
                let Some(quantity) = counterpart(context, &class, byte) else { continue };
                let name = format!("{}, {}, {behaviour}", byte.title(), class.name());
                let of_run = |run: &Run| Values::of(transfers::sample(context, run, &class, behaviour, byte));
                add(quantity, &name, Unit::Seconds, &of_run);
            }
        }
    }
    for probe in probes::ALL {
        add(probe.quantity(), probe.title(), probe.unit(), &|run| Values::of(probes::sample(context, run, probe)));
    }
    add(Quantity::CircuitBuild, "Circuit build time", Unit::Seconds, &|run| {
        Values::of(circuits::build_times_of_users(context, run))
    });
    add(Quantity::Failures, "Failed transfers of measuring clients", Unit::Share, &|run| Values {
        typical: summary::failed_share(context, run, is_like_onionperf),
        quartiles: None,
    });
    add(Quantity::Utilisation, "Relay capacity in use", Unit::Share, &|run| Values {
        typical: relays::capacity_in_use(context, run),
        quartiles: None,
    });
    all
}

/// Of one run.
struct Values {
    typical: Option<f64>,
    quartiles: Option<(f64, f64)>,
}

impl Values {
    fn of(sample: Sample) -> Values {
        Values { typical: sample.quantile(0.5), quartiles: sample.quantile(0.25).zip(sample.quantile(0.75)) }
    }
}

fn compared(
    subject: &Subject,
    name: &str,
    unit: Unit,
    public: &Distribution,
    of_run: &dyn Fn(&Run) -> Values,
) -> Option<Compared> {
    let value = subject.estimate(|run| of_run(run).typical)?;
    let mean = |of: fn((f64, f64)) -> f64| subject.estimate(|run| of_run(run).quartiles.map(of)).map(|one| one.mean);
    Some(Compared {
        subject: subject.title(),
        name: name.to_owned(),
        unit,
        value,
        quartiles: mean(|both| both.0).zip(mean(|both| both.1)),
        public: public.clone(),
    })
}

/// Nothing where there is nothing to compare.
pub fn section(context: &Context) -> Option<Section> {
    let all = all(context);
    if all.is_empty() {
        return None;
    }
    let mut section = Section { id: "public", title: "Beside the public network", ..Section::default() };
    section.texts.push(
        "A run\u{2019}s typical value, with its quartiles in brackets, beside what was measured of the public Tor network. In the figures below, the grey band lies \
         between the public quartiles, the line in it is the median, and dots lead through the quantiles that are known."
            .into(),
    );
    section.texts.push(match context.since {
        Since::Start => "OnionPerf\u{2019}s downloads count from their start, before the connection to tor\u{2019}s SOCKS port, as times to last byte do here; its \
                         round trips count from the request to the first byte of the response. Of times to first byte from the start, the public network has \
                         no figures."
            .into(),
        Since::Request => "Times count from the request here. OnionPerf\u{2019}s downloads count from their start, so that times to last byte have nothing beside them; \
                           its round trips are times to first byte from the request."
            .into(),
    });
    section.texts.extend(sources(&all));
    section.tables.push(table(context, &all));
    Some(section)
}

/// What each public value was made of, those that say the same together.
fn sources(all: &[Compared]) -> Vec<String> {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in all {
        let about = one.public.about.as_str();
        match told.iter_mut().find(|(known, _)| *known == about) {
            Some((_, names)) if names.contains(&one.name.as_str()) => {}
            Some((_, names)) => names.push(&one.name),
            None => told.push((about, vec![&one.name])),
        }
    }
    told.into_iter().map(|(about, names)| format!("{}: {about}.", names.join("; "))).collect()
}

/// Columns that would say the same in every row are left out.
fn table(context: &Context, all: &[Compared]) -> Table {
    let is_one_measurement = all.iter().all(|one| one.public.label == all[0].public.label);
    let (by_run, by_label) = (context.is_comparison(), !is_one_measurement);
    let with_quartiles = |unit: Unit, shown: String, quartiles: Option<(f64, f64)>| match quartiles {
        Some((low, high)) => format!("{shown} ({} to {})", unit.show(low), unit.show(high)),
        None => shown,
    };
    let row = |one: &Compared| {
        let [low, middle, high] = one.public.quartiles();
        let mut row = vec![one.name.clone()];
        row.extend(by_run.then(|| one.subject.clone()));
        row.push(one.verdict_text());
        row.push(with_quartiles(one.unit, summary::show(one.unit, &one.value), one.quartiles));
        row.push(with_quartiles(one.unit, one.unit.show(middle), Some((low, high))));
        row.extend(by_label.then(|| one.public.label.clone()));
        row
    };
    let public =
        if is_one_measurement { all[0].public.label.replacen('p', "P", 1) } else { "Public network".to_owned() };
    let mut header = vec!["Quantity".to_owned()];
    header.extend(by_run.then(|| "Run".to_owned()));
    header.extend(["Verdict".to_owned(), "Here".to_owned(), public]);
    header.extend(by_label.then(|| "Measured".to_owned()));
    Table {
        title: "Typical values and quartiles".into(),
        header,
        rows: all.iter().map(row).collect(),
        text_columns: if by_run { 3 } else { 2 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(values: &[f64]) -> Compared {
        let quantiles = vec![(0.25, 1.0), (0.5, 2.0), (0.75, 3.0)];
        Compared {
            subject: "run".into(),
            name: "x".into(),
            unit: Unit::Seconds,
            value: Estimate::of(values).unwrap(),
            quartiles: None,
            public: Distribution { label: "public Tor, 2019".into(), about: String::new(), quantiles },
        }
    }

    #[test]
    fn verdicts_are_about_the_quartiles_and_say_what_the_interval_adds() {
        for (values, text) in [
            (vec![0.99], "below the public quartiles"),
            (vec![1.0], "within the public quartiles"),
            (vec![3.0], "within the public quartiles"),
            (vec![3.01], "above the public quartiles"),
            (vec![0.5, 0.51], "below the public quartiles"),
            (vec![0.5, 1.2], "below the public quartiles, but the interval reaches them"),
            (vec![2.9, 3.3], "above the public quartiles, but the interval reaches them"),
            (vec![2.5, 3.1], "within the public quartiles, but the interval reaches beyond"),
            (vec![2.0, 2.01], "within the public quartiles"),
        ] {
            assert_eq!(compared(&values).verdict_text(), text, "{values:?}");
        }
    }

    #[test]
    fn clients_that_do_what_onionperf_does_are_told_by_their_behaviour() {
        assert!(is_like_onionperf("performance") && is_like_onionperf("perfclientexit"));
        for other in ["performance (onion)", "performance (bridge)", "perfclientonionservice", "web", "markov"] {
            assert!(!is_like_onionperf(other), "{other}");
        }
    }
}
