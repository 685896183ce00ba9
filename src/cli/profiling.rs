//! What `gnomon run --profile` says: samples or single steps, and how many of them.

use crate::simulation::ProfileKind;
use base::SimTime;
use base::quantity::parse_duration;
use simkernel::counting::CountingRules;

pub const HELP: &str = "Record where processor time goes, for 'gnomon profile': by so many samples for each second of it [1000 without RATE]; with \
                        'costs' (--profile=costs, --profile=costs:RATE,from=30s) also what computing takes between two system calls, for \
                        'gnomon profile --costs'; or by 'steps', which counts instructions one by one, the same in every run, up to a \
                        budget for each host [500000], from a simulated time on: --profile=steps, --profile=steps:5000000, --profile=steps:5000000,from=30s";

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
    let (asked, from) = parts(rest).ok_or_else(rates)??;
    let rate = asked.map_or(Ok(RATE_WITH_COSTS), rate)?;
    Ok(ProfileKind::Samples { rate, costs: Some(from) })
}

/// What follows a word: `[:NUMBER][,from=TIME]`. None for anything else.
fn parts(text: &str) -> Option<Result<(Option<&str>, SimTime), String>> {
    let (number, from) = text.split_once(',').map_or((text, None), |(number, from)| (number, Some(from)));
    let number = if number.is_empty() { None } else { Some(number.strip_prefix(':')?) };
    let Some(from) = from else { return Some(Ok((number, SimTime::ZERO))) };
    let time = parse_duration(from.strip_prefix("from=")?);
    Some(time.map(|time| (number, SimTime::ZERO + time)).map_err(|error| error.to_string()))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| (1.0..=MOST_SAMPLES).contains(rate)).ok_or_else(rates)
}

fn rates() -> String {
    format!(
        "it is a number of samples for each second of processor time, from 1 to {MOST_SAMPLES}, as in --profile=4000, \
         --profile=costs:4000 and --profile=costs:4000,from=30s, or 'costs', or 'steps'"
    )
}

/// What follows the word.
fn steps(text: &str) -> Result<CountingRules, String> {
    let usage = || {
        let (least, most) = BUDGETS.into_inner();
        format!(
            "steps have a budget of {least} to {most} instructions for each host, and a simulated time to begin at: write steps, \
             steps:5000000, steps:5000000,from=30s or steps,from=30s"
        )
    };
    let (number, from) = parts(text).ok_or_else(usage)??;
    let budget: Option<u64> = number.map_or(Some(BUDGET), |number| number.parse().ok());
    Ok(CountingRules { budget: budget.filter(|number| BUDGETS.contains(number)).ok_or_else(usage)?, from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SimDuration;

    #[test]
    fn samples_and_steps_are_told_apart() {
        assert_eq!(kind("1000"), Ok(ProfileKind::Samples { rate: 1000.0, costs: None }));
        assert_eq!(kind("costs"), Ok(ProfileKind::Samples { rate: 100.0, costs: Some(SimTime::ZERO) }));
        assert_eq!(kind("costs:250"), Ok(ProfileKind::Samples { rate: 250.0, costs: Some(SimTime::ZERO) }));
        let steps = |budget, seconds| {
            let from = SimTime::ZERO + SimDuration::from_secs(seconds);
            Ok(ProfileKind::Instructions(CountingRules { budget, from }))
        };
        let from = SimTime::ZERO + SimDuration::from_secs(3);
        assert_eq!(kind("costs,from=3s"), Ok(ProfileKind::Samples { rate: 100.0, costs: Some(from) }));
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
        ] {
            let error = kind(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
