//! Relays that go away during a run, and come back.
//!
//! What is known of the public network. Between two hourly consensuses about a hundredth of the relays leave: in 2015 the mean of a
//! day came to 1.2 % every other day, as a peak ("Identifying and Characterizing Sybils in the Tor Network", USENIX Security 2016).
//! Authorities notice that a relay has gone 45 minutes after they last reached it (tor's `REACHABLE_TIMEOUT`), and clients use a
//! consensus for two hours and more (dir-spec, "Downloading network-status documents"). So clients know, and try, relays that went
//! away up to `LISTED_H` hours ago; and consensuses do not show what lasts less than 45 minutes. A relay that its operator or the
//! package manager stops gets SIGINT, and ends `ShutdownWaitLength` later, 30 s.
//!
//! What is assumed. Restarts that consensuses do not show are as frequent as departures that they show. Half of both are orderly. Who
//! leaves comes back after `ABSENCE_H` hours on average, with a chance that does not change. All relays are alike, and independent of
//! each other: no power cut, no upgrade that many make on one day. What goes away ends: connections to it are refused; a machine
//! that vanishes, and answers nothing at all, is not modelled.
//!
//! In a small network it is chance whether the one relay that leaves has a third of the exit position or a hundredth, and streams that last for
//! minutes break in proportion: in `paper-small` one relay with 35 % of the exits broke 6.5 % of them when it left. The public network's relays are
//! so many that as large a share of the circuits loses a relay as relays go. So the relays that go are drawn to have as much of each position as
//! they are many (`balance::fair_draw`).
//!
//! A rate above the public network's is that network in time lapse: who leaves comes back sooner by as much, so that no more relays
//! are away at a time, and more of them go.

use crate::balance;
use crate::network::{Network, Role};
use crate::spec::Spec;
use base::{Rng, SeedTree};

/// What share of the relays go away within an hour, departures and restarts.
pub const PUBLIC_RATE: f64 = 0.02;

/// A relay that goes away more often than every three minutes is hardly one.
pub(crate) const HIGHEST_RATE: f64 = 20.0;

/// How long clients try a relay that has gone.
const LISTED_H: f64 = 2.5;
const ABSENCE_H: f64 = 6.0;
/// tor's `ShutdownWaitLength`, and a second for the clean-up.
const SHUTDOWN_WAIT_S: f64 = 31.0;
/// From the end of a tor to its successor's start: what the service manager waits, or somebody who looks after it.
const RESTART_S: (f64, f64) = (1.0, 10.0);
const REPAIR_S: (f64, f64) = (5.0, 120.0);
/// A relay stays for as long at least, so that it has come up before it goes again.
const SHORTEST_STAY_S: f64 = 60.0;
/// Whoever is away when the load begins went away so long before, at most.
const BEFORE_LOAD_S: f64 = 10.0;
/// Nobody goes away or comes back closer to the experiment's end, where it would be seen by no one.
const BEFORE_END_S: f64 = 45.0;

/// Why a relay goes away, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departure {
    /// SIGINT: no new circuits for 30 s, the end, and a new start at once.
    Restart,
    /// SIGKILL: connections break; a new start soon.
    Crash,
    /// SIGINT, for hours.
    Leave,
    /// SIGKILL, for hours.
    Vanish,
}

impl Departure {
    pub fn name(self) -> &'static str {
        match self {
            Departure::Restart => "restart",
            Departure::Crash => "crash",
            Departure::Leave => "leave",
            Departure::Vanish => "vanish",
        }
    }

    /// Whether tor is told before it ends.
    pub(crate) fn is_orderly(self) -> bool {
        matches!(self, Departure::Restart | Departure::Leave)
    }
}

/// A time without a relay, in seconds of simulated time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    pub why: Departure,
    /// When tor gets the signal.
    pub from_s: f64,
    /// When tor has ended.
    pub ended_s: f64,
    /// When the next tor starts; None for relays that are still away at the experiment's end.
    pub until_s: Option<f64>,
}

/// Whether hosts of the role go away: relays in the consensus, without authorities. A bridge is all that its clients have.
fn can_go(role: Role) -> bool {
    matches!(role, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle)
}

/// Draws how many relays are away and when, and then which: those that together have as much of each position as they are many.
pub(crate) fn apply(network: &mut Network, seeds: &SeedTree) {
    let Some(rate) = network.spec.churn else { return };
    let relays: Vec<(String, [f64; 3])> = balance::shares(network)
        .iter()
        .filter(|relay| can_go(relay.host.role))
        .map(|relay| (relay.host.name.clone(), relay.of_position))
        .collect();
    let of_relay = |(name, _): &(String, _)| outages(rate, &network.spec, &mut seeds.stream(name, "outages"));
    let schedules: Vec<Vec<Outage>> = relays.iter().map(of_relay).filter(|outages| !outages.is_empty()).collect();
    let shares: Vec<[f64; 3]> = relays.iter().map(|(_, shares)| *shares).collect();
    let share = schedules.len() as f64 / relays.len().max(1) as f64;
    let drawn = balance::fair_draw(&shares, schedules.len(), share, &mut seeds.stream("", "relays that go away"));
    for (relay, outages) in drawn.into_iter().zip(schedules) {
        let host = network.hosts.iter_mut().find(|host| host.name == relays[relay].0).expect("it is from this list");
        host.outages = outages;
    }
}

fn outages(rate: f64, spec: &Spec, rng: &mut Rng) -> Vec<Outage> {
    let (begin, last) = (spec.bootstrap.as_secs_f64(), spec.total.as_secs_f64() - BEFORE_END_S);
    let mut found = Vec::new();
    let mut at = begin;
    let absence_s = ABSENCE_H * 3600.0 / (rate / PUBLIC_RATE).max(1.0);
    // Departures are half of the rate. Who left before the load begins is in the consensus nevertheless.
    if rng.unit() < 1.0 - (-rate.min(PUBLIC_RATE) / 2.0 * LISTED_H).exp() {
        let from_s = begin - BEFORE_LOAD_S * rng.unit();
        found.push(outage(Departure::Vanish, from_s, absence_s, last, rng));
        at = found[0].until_s.unwrap_or(f64::INFINITY) + SHORTEST_STAY_S;
    }
    loop {
        at += exponential(3600.0 / rate, rng);
        let why = match rng.below(4) {
            0 => Departure::Restart,
            1 => Departure::Crash,
            2 => Departure::Leave,
            _ => Departure::Vanish,
        };
        if at >= last {
            return found;
        }
        let outage = outage(why, at, absence_s, last, rng);
        found.push(outage);
        at = outage.until_s.unwrap_or(f64::INFINITY) + SHORTEST_STAY_S;
    }
}

/// `absence_s` is how long relays that leave are away on average; nobody comes back after `last_s`.
fn outage(why: Departure, from_s: f64, absence_s: f64, last_s: f64, rng: &mut Rng) -> Outage {
    let milliseconds = |seconds: f64| (seconds * 1000.0).round() / 1000.0;
    let mut between = |(from, to): (f64, f64)| from + rng.unit() * (to - from);
    let away = match why {
        Departure::Restart => between(RESTART_S),
        Departure::Crash => between(REPAIR_S),
        Departure::Leave | Departure::Vanish => exponential(absence_s, rng),
    };
    let from_s = milliseconds(from_s);
    let ended_s = from_s + if why.is_orderly() { SHUTDOWN_WAIT_S } else { 0.0 };
    let until_s = milliseconds(ended_s + away);
    Outage { why, from_s, ended_s, until_s: (until_s < last_s).then_some(until_s) }
}

fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, profile};
    use base::SimDuration;

    fn spec(hours: u64) -> Spec {
        let spec = profile("paper-small").expect("a profile").spec();
        Spec { churn: Some(PUBLIC_RATE), total: spec.bootstrap + SimDuration::from_secs(hours * 3600), ..spec }
    }

    fn of_relays(count: usize, spec: &Spec) -> Vec<Vec<Outage>> {
        let seeds = SeedTree::new(1);
        let mut of = |relay: usize| outages(PUBLIC_RATE, spec, &mut seeds.stream(&relay.to_string(), "outages"));
        (0..count).map(&mut of).collect()
    }

    /// By the rates at the head of this file.
    #[test]
    fn relays_go_and_are_away_as_often_as_in_the_public_network() {
        let spec = spec(2);
        let relays = of_relays(20_000, &spec);
        let begin = spec.bootstrap.as_secs_f64();
        let away = relays.iter().filter(|outages| outages.first().is_some_and(|outage| outage.from_s <= begin)).count();
        assert!((away as f64 / 20_000.0 - 0.0247).abs() < 0.0045, "{away} are away when the load begins");
        let later = relays.iter().flatten().filter(|outage| outage.from_s > begin);
        let (mut all, mut orderly, mut long) = (0.0, 0.0, 0.0);
        for outage in later {
            all += 1.0;
            orderly += f64::from(outage.why.is_orderly());
            long += f64::from(matches!(outage.why, Departure::Leave | Departure::Vanish));
        }
        // Two hours but for those that are away already.
        let hours = 2.0 * (20_000 - away) as f64 * (1.0 - BEFORE_END_S / 7200.0);
        assert!((all / hours / PUBLIC_RATE - 1.0).abs() < 0.1, "{all} outages in {hours} hours");
        assert!((orderly / all - 0.5).abs() < 0.06 && (long / all - 0.5).abs() < 0.06, "{orderly}, {long} of {all}");
    }

    /// Drawn without regard to weights, the one relay of `paper-small` that left had 0.35 of the exit positions, where 0.06 is its share.
    #[test]
    fn relays_that_go_have_their_share_of_the_circuits() {
        for (profile, scale, tolerance) in [(Some("paper-small"), 0.0, 0.06), (None, 0.02, 0.03)] {
            for seed in 1..=10 {
                let model = Model::public();
                let spec = match profile {
                    Some(name) => crate::profile(name).expect("a profile").spec(),
                    None => crate::scaled(&model, scale, 100).expect("a fair scale"),
                };
                let network =
                    Network::without_keys(Spec { seed, churn: Some(0.3), ..spec }, &model).expect("a network");
                let shares = balance::shares(&network);
                let gone = || shares.iter().filter(|relay| !relay.host.outages.is_empty());
                let wanted = gone().count() as f64 / f64::from(network.spec.relays.relays());
                for position in balance::Position::ALL {
                    let share: f64 = gone().map(|relay| relay.of_position[position as usize]).sum();
                    println!("{profile:?}, seed {seed}: {share:.3} at {position:?}, {wanted:.3} of the relays");
                    assert!(
                        (share - wanted).abs() < tolerance,
                        "{profile:?}, seed {seed}, {position:?}: {share}, {wanted}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_relays_outages_follow_each_other_within_the_experiment() {
        let spec = Spec { churn: Some(HIGHEST_RATE), ..spec(1) };
        let mut rng = SeedTree::new(1).stream("relay", "outages");
        let found = outages(HIGHEST_RATE, &spec, &mut rng);
        assert!(!found.is_empty());
        for pair in found.windows(2) {
            let back = pair[0].until_s.expect("it goes again, so it came back");
            assert!(pair[0].ended_s < back && back + SHORTEST_STAY_S <= pair[1].from_s, "{pair:?}");
        }
        let end = spec.total.as_secs_f64();
        assert!(found.iter().all(|outage| outage.ended_s < end && outage.until_s.is_none_or(|until| until < end)));
    }
}
