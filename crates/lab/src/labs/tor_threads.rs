//! `tor-threads`: a small Tor network over workers and policies.

use super::scheduling::{Forecast, Grid};
use super::{Findings, Lab, PAPER, THESIS};
use crate::case::{Case, Experiment, Setting, Size};
use crate::claim::{Bound, Claim, Judgement, Publication, Source};
use crate::measurements::Measurements;
use crate::reading::{PACE, WAITING, WAITING_SPREAD, WALL};
use report::chart::Unit;

pub const LAB: Lab = Lab {
    name: "tor-threads",
    title: "A small Tor network over workers",
    about: "run time and waiting of a small Tor network over workers and policies",
    publications: &[&THESIS, &PAPER],
    published: "A network of 268 hosts (20 web servers, 18 relays, 230 clients) for a simulated hour, with 1 to 18 threads on six machines of 80 cores. \
                With the loader, an optimising compiler and work stealing a run took 40 % less time than with the simulator before in most cases, of \
                which stealing had up to 20 % with few threads; the later paper, with threads from 1 to 16, found up to 73 % together, and \
                next to nothing of it by stealing. Blocked at the barrier: without stealing some of 7 threads for 80 % of the time, with it all alike; \
                in a network of 56,898 hosts with 64 threads 20 to 63 %, on average 45 %, without, and 18.6 to 18.7 % with it.",
    measured: "A network of 'gnomon tor new', over workers and policies. Small: the profile 'tiny' (16 hosts, 3 simulated minutes); full: 'paper-small', \
               which has the published numbers of hosts, for an hour. The simulator before is not here to be measured: its times stand in the \
               publications alone, so run times are compared with those of 'static'.",
    figures: &[],
    cases,
    findings,
};

const STATIC: &str = "static";
const STEAL: &str = "steal";

fn policies(setting: &Setting) -> &'static [&'static str] {
    if setting.size == Size::Full { &[STATIC, STEAL, "steal-longest"] } else { &[STATIC, STEAL] }
}

fn profile(setting: &Setting) -> &'static str {
    if setting.size == Size::Full { "paper-small" } else { "tiny" }
}

/// With one worker there is nothing to steal, so all policies share a case.
fn key(policy: &str, workers: usize) -> String {
    if workers == 1 { "one-worker".to_owned() } else { format!("{policy}-workers{workers}") }
}

fn workers(setting: &Setting) -> Vec<usize> {
    setting.workers(64)
}

fn cases(setting: &Setting) -> Vec<Case> {
    let profile = profile(setting);
    let case = |policy: &str, workers: usize| Case {
        key: key(policy, workers),
        factors: vec![("network", profile.to_owned()), ("policy", policy.to_owned()), ("workers", workers.to_string())],
        experiment: Experiment::Tor { name: profile.to_owned(), options: vec!["--profile".into(), profile.into()] },
        options: Case::scheduled(policy, workers),
        memory_bytes: if setting.size == Size::Full { 6 << 30 } else { 1 << 30 },
    };
    let parallel = workers(setting).into_iter().filter(|workers| *workers > 1);
    let parallel = parallel.flat_map(|workers| policies(setting).iter().map(move |policy| (*policy, workers)));
    let mut all: Vec<Case> =
        std::iter::once((STEAL, 1)).chain(parallel).map(|(policy, workers)| case(policy, workers)).collect();
    all.push(case(STEAL, 1).foretelling());
    all
}

fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let workers = workers(setting);
    let grid = Grid { measurements, policies: policies(setting), workers: &workers, key: &key };
    let measured: Vec<(usize, String)> = workers.iter().map(|workers| (*workers, key(STEAL, *workers))).collect();
    let forecast = Forecast {
        measurements,
        prefix: "tor-threads",
        load: profile(setting),
        foretells: &Case::foretelling_key(&key(STEAL, 1)),
        measured: &measured,
    };
    Findings {
        notes: vec![
            "Claims that compare 'steal' with 'static' are judged with the most workers that this machine has processors for, up to 8."
                .to_owned(),
        ],
        judgements: judgements(setting, measurements),
        figures: grid.figures("tor-threads").into_iter().chain(forecast.figure()).collect(),
        tables: vec![grid.table(), forecast.table()],
    }
}

fn claim(
    statement: &str,
    published: &str,
    publication: &'static Publication,
    passage: &'static str,
    bound: Bound,
    unit: Unit,
) -> Claim {
    let source = Source { publication, passage };
    Claim { statement: statement.to_owned(), published: published.to_owned(), source, bound, unit }
}

fn judgements(setting: &Setting, measurements: &Measurements) -> Vec<Judgement> {
    // The published small network had 7 threads where waiting was shown, and more where it gained.
    let most = *setting.workers(8).last().expect("one worker at least");
    let ratio = |quantity| measurements.ratios(&key(STEAL, most), &key(STATIC, most), quantity);
    let two = || setting.lacks_processors(2);
    let many = || setting.lacks_processors(64).or_else(|| Some("the claim is about a network of 56,898 hosts".into()));
    let eight = || {
        let small = || (setting.size != Size::Full).then(|| "the claim is about 268 hosts: --size full".to_owned());
        setting.lacks_processors(8).or_else(small)
    };
    vec![
        claim(
            "Workers wait less with stealing than without: the ratio is below 1",
            "18.6 % to 45 %: 0.41",
            &THESIS,
            "section 4.4.3",
            Bound::AtMost(1.0),
            Unit::Fraction,
        )
        .judge(&ratio(WAITING), two()),
        claim(
            "With stealing, workers' waiting differs less than without: the ratio of spreads is below 1",
            "nearly identical, where some waited for 80 % without",
            &THESIS,
            "Figures 3.5 and 4.3",
            Bound::AtMost(1.0),
            Unit::Fraction,
        )
        .judge(&ratio(WAITING_SPREAD), two()),
        claim(
            "With stealing, 64 workers wait for at most 18.7 % of the time",
            "18.6 % to 18.7 %",
            &THESIS,
            "section 4.4.3",
            Bound::AtMost(0.187),
            Unit::Share,
        )
        .judge(&measurements.values(&key(STEAL, 64), WAITING), many()),
        claim(
            "With few workers, stealing shortens a run of the small network: its time over that of 'static' is below 1",
            "up to 20 % less: 0.8 to 1",
            &THESIS,
            "section 4.4.3, Figure 4.5",
            Bound::AtMost(1.0),
            Unit::Fraction,
        )
        .judge(&ratio(WALL), two()),
        claim(
            "In small networks, stealing changes run time by less than a twentieth",
            "insignificant",
            &PAPER,
            "section 6, Figure 7",
            Bound::Between(0.95, 1.05),
            Unit::Fraction,
        )
        .judge(&ratio(WALL), two()),
        claim(
            "With 8 workers, a simulated hour of the small network takes at most 36 minutes",
            "about an hour before, 40 % less after: at least 1.67 simulated for each real second",
            &THESIS,
            "section 4.4.3, Figure 4.5",
            Bound::AtLeast(1.0 / 0.6),
            Unit::Fraction,
        )
        .judge(&measurements.values(&key(STEAL, 8), PACE), eight()),
    ]
}
