//! What `gnomon run --profile` says: samples or single steps, and how many of them.

use crate::simulation::ProfileKind;
use base::SimTime;
use base::quantity::parse_duration;
use simkernel::counting::CountingRules;
use simkernel::profiling::Span;

pub const HELP: &str = "Record where processor time goes, for 'gnomon profile': by so many samples for each second of it [1000 without RATE]; with \
                        'costs' (--profile=costs, --profile=costs:RATE,from=30s,until=40s) also what computing takes between two system calls, for \
                        'gnomon profile --costs'; or by 'steps', which counts instructions one by one, the same in every run, up to a \
                        budget for each host [500000], from a simulated time on and until another: --profile=steps, --profile=steps:5000000, \
                        --profile=steps:5000000,from=30s,until=40s";

/// Samples for each second of processor time.
const MOST_SAMPLES: f64 = 20_000.0;
const STEPS: &str = "steps";
const COSTS: &str = "costs";
/// Samples for each second where nobody says how many, with costs: each lengthens the interval that it falls into.
const RATE_WITH_COSTS: f64 = 100.0;
/// Instructions of each host: some seconds of real time.
const BUDGET: u64 = 500_000;
/// The least that is of any use, and what takes a host hours.
const BUDGETS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

pub fn kind(text: &str) -> Result<ProfileKind, String> {
    if let Some(rest) = text.strip_prefix(STEPS) {
        return steps(rest).map(ProfileKind::Instructions);
    }
    let Some(rest) = text.strip_prefix(COSTS) else {
        return rate(text).map(|rate| ProfileKind::Samples { rate, costs: None });
    };
    let (asked, span) = parts(rest).ok_or_else(rates)??;
    let rate = asked.map_or(Ok(RATE_WITH_COSTS), rate)?;
    Ok(ProfileKind::Samples { rate, costs: Some(span) })
}

/// What follows a word: `[:NUMBER][,from=TIME][,until=TIME]`. None for anything else.
fn parts(text: &str) -> Option<Result<(Option<&str>, Span), String>> {
    let mut parts = text.split(',');
    let number = parts.next().filter(|number| !number.is_empty());
    let number = if let Some(number) = number { Some(number.strip_prefix(':')?) } else { None };
    let (mut from, mut until) = (None, None);
    for part in parts {
        let (key, time) = part.split_once('=')?;
        let place = match key {
            "from" => &mut from,
            "until" => &mut until,
            _ => return None,
        };
        match parse_duration(time) {
            Ok(time) if place.is_none() => *place = Some(SimTime::ZERO + time),
            Ok(_) => return Some(Err(format!("'{key}' is there twice: leave one out"))),
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    let span = Span { from: from.unwrap_or(Span::ALL.from), until: until.unwrap_or(Span::ALL.until) };
    if span.from >= span.until {
        return Some(Err("it ends before it begins: write a later time after 'until='".to_owned()));
    }
    Some(Ok((number, span)))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| (1.0..=MOST_SAMPLES).contains(rate)).ok_or_else(rates)
}

fn rates() -> String {
    format!(
        "it is a number of samples for each second of processor time, from 1 to {MOST_SAMPLES}, as in --profile=4000, \
         --profile=costs:4000 and --profile=costs:4000,from=30s,until=40s, or 'costs', or 'steps'"
    )
}

/// What follows the word.
fn steps(text: &str) -> Result<CountingRules, String> {
    let usage = || {
        let (least, most) = BUDGETS.into_inner();
        format!(
            "steps have a budget of {least} to {most} instructions for each host, and simulated times to begin and end at: write steps, \
             steps:5000000, steps:5000000,from=30s or steps,from=30s,until=40s"
        )
    };
    let (number, span) = parts(text).ok_or_else(usage)??;
    let budget: Option<u64> = number.map_or(Some(BUDGET), |number| number.parse().ok());
    Ok(CountingRules { budget: budget.filter(|number| BUDGETS.contains(number)).ok_or_else(usage)?, span })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SimDuration;

    #[test]
    fn samples_and_steps_are_told_apart() {
        assert_eq!(kind("1000"), Ok(ProfileKind::Samples { rate: 1000.0, costs: None }));
        assert_eq!(kind("costs"), Ok(ProfileKind::Samples { rate: 100.0, costs: Some(Span::ALL) }));
        assert_eq!(kind("costs:250"), Ok(ProfileKind::Samples { rate: 250.0, costs: Some(Span::ALL) }));
        let at = |seconds| SimTime::ZERO + SimDuration::from_secs(seconds);
        let steps = |budget, seconds| {
            let span = Span { from: at(seconds), ..Span::ALL };
            Ok(ProfileKind::Instructions(CountingRules { budget, span }))
        };
        let costs = |span| Ok(ProfileKind::Samples { rate: 100.0, costs: Some(span) });
        assert_eq!(kind("costs,from=3s"), costs(Span { from: at(3), ..Span::ALL }));
        assert_eq!(kind("costs,until=9s"), costs(Span { until: at(9), ..Span::ALL }));
        for both in ["costs,from=3s,until=9s", "costs,until=9s,from=3s"] {
            assert_eq!(kind(both), costs(Span { from: at(3), until: at(9) }));
        }
        assert_eq!(kind("steps"), steps(BUDGET, 0));
        assert_eq!(kind("steps:5000"), steps(5_000, 0));
        assert_eq!(kind("steps:5000,from=30s"), steps(5_000, 30));
        assert_eq!(kind("steps,from=2 min"), steps(BUDGET, 120));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_write() {
        for (text, told) in [
            ("0", "from 1 to 20000, as in --profile=4000"),
            ("step", "or 'costs', or 'steps'"),
            ("costs:0", "from 1 to 20000"),
            ("costs:250,30s", "costs:4000,from=30s"),
            ("costs250", "as in --profile=4000, --profile=costs:4000"),
            ("steps:", "write steps, steps:5000000"),
            ("steps:10", "1000 to 10000000000 instructions"),
            ("steps5000", "write steps, steps:5000000"),
            ("steps:5000,30s", "from=30s"),
            ("steps,from=soon", "write a time such as"),
            ("steps,from=3s,from=4s", "'from' is there twice"),
            ("costs,from=3s,until=3s", "it ends before it begins"),
            ("costs,from=3s,to=4s", "from=30s,until=40s"),
        ] {
            let error = kind(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
