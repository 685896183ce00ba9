//! How tor will spread circuits over the relays of a network: what share of each position falls to whom, before anything has run.
//!
//! Clients choose the relay for a position with the probability of its weight in the consensus, times a factor for what flags it has
//! and which position is to be filled. The factors are a consensus' `bandwidth-weights`, by which authorities balance the positions
//! (dir-spec, "Computing bandwidth weights").

use crate::model::Model;
use crate::network::{Host, Network, Role};
use crate::spec::Spec;
use base::Rng;

/// A place in a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Entry,
    Middle,
    Exit,
}

impl Position {
    pub const ALL: [Position; 3] = [Position::Entry, Position::Middle, Position::Exit];

    pub fn name(self) -> &'static str {
        match self {
            Position::Entry => "entry",
            Position::Middle => "middle",
            Position::Exit => "exit",
        }
    }
}

/// The weights of all relays by their flags: guards, those that are neither guard nor exit, exits, and both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    guard: f64,
    middle: f64,
    exit: f64,
    both: f64,
}

/// Factors of a position for relays with a flag, from 0 to 1, named as in the consensus: `wgd` is for relays that are both, as guards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Factors {
    wgg: f64,
    wgd: f64,
    wmg: f64,
    wme: f64,
    wmd: f64,
    wee: f64,
    wed: f64,
}

impl Factors {
    /// As authorities compute them. Where weights are so uneven that a factor would be negative they correct it; here it is cut off.
    fn of(totals: Totals) -> Factors {
        let Totals { guard: g, middle: m, exit: e, both: d } = totals;
        let third = (g + m + e + d) / 3.0;
        let (is_guard_scarce, is_exit_scarce) = (g < third, e < third);
        let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
        if !is_guard_scarce && !is_exit_scarce {
            let (wee, wmg) = (share(e + g + m, 3.0 * e), share(2.0 * g - e - m, 3.0 * g));
            let third = 1.0 / 3.0;
            return Factors { wgg: 1.0 - wmg, wgd: third, wmg, wme: 1.0 - wee, wmd: third, wee, wed: third };
        }
        let scarcest = g.min(e);
        if is_guard_scarce && is_exit_scarce {
            if scarcest + d < g.max(e) {
                let exits_lack = f64::from(u8::from(e < g));
                return Factors { wgg: 1.0, wee: 1.0, wed: exits_lack, wgd: 1.0 - exits_lack, ..Factors::default() };
            }
            if g >= m && e - g + m >= 0.0 && d - 2.0 * e + 4.0 * g - 2.0 * m >= 0.0 {
                let wed = share(d - 2.0 * e + 4.0 * g - 2.0 * m, 3.0 * d);
                let rest = (1.0 - wed) / 2.0;
                let (wee, wme) = (share(e - g + m, e), share(g - m, e));
                return Factors { wgg: 1.0, wgd: rest, wmg: 0.0, wme, wmd: rest, wee, wed };
            }
            let wed = share(d - 2.0 * e + g + m, 3.0 * d);
            let wmd = share(d - 2.0 * m + g + e, 3.0 * d).min(1.0 - wed);
            return Factors { wgg: 1.0, wgd: 1.0 - wed - wmd, wmd, wee: 1.0, wed, ..Factors::default() };
        }
        // One of the two is scarce: what is both helps it out, and of the other a part goes to the middle.
        let (scarce, other) = if g < e { (g, e) } else { (e, g) };
        let (kept, helping, left) = if scarce + d < third {
            let to_middle = if other < m { 0.0 } else { share(other - m, 2.0 * other) };
            (1.0 - to_middle, 1.0, 0.0)
        } else {
            let helping = share(d - 2.0 * scarce + other + m, 3.0 * d);
            (share(other + m, 2.0 * other), helping, (1.0 - helping) / 2.0)
        };
        if g < e {
            Factors { wgg: 1.0, wgd: helping, wmg: 0.0, wme: 1.0 - kept, wmd: left, wee: kept, wed: left }
        } else {
            Factors { wgg: kept, wgd: left, wmg: 1.0 - kept, wme: 0.0, wmd: left, wee: 1.0, wed: helping }
        }
    }

    fn of_relay(&self, role: Role, position: Position) -> f64 {
        match (position, role) {
            (Position::Entry, Role::Guard) => self.wgg,
            (Position::Entry, Role::GuardExit) => self.wgd,
            (Position::Middle, Role::Guard) => self.wmg,
            (Position::Middle, Role::GuardExit) => self.wmd,
            (Position::Middle, Role::Exit) => self.wme,
            (Position::Middle, Role::Middle | Role::Authority) => 1.0,
            (Position::Exit, Role::Exit) => self.wee,
            (Position::Exit, Role::GuardExit) => self.wed,
            _ => 0.0,
        }
    }
}

/// A relay, and the share of the circuits that it has in each position, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Shares<'a> {
    pub host: &'a Host,
    pub of_position: [f64; 3],
}

/// A position of which one relay has so much that results are about this relay more than about the network.
#[derive(Clone, Copy, Debug)]
pub struct Lopsided<'a> {
    pub position: Position,
    pub host: &'a Host,
    pub share: f64,
    /// The largest share that a relay has of this position in the network that the model describes.
    pub in_model: f64,
}

/// More than a quarter of a position is too much for one relay: with four alike it could be no less.
pub const LARGEST_SHARE: f64 = 0.25;

/// With fewer, the consensus has no measured bandwidths (dir-spec, consensus method 17).
pub const MEASURING_AUTHORITIES: u32 = 3;

/// Among how many draws the fairest is chosen.
const DRAWS: usize = 256;

/// Draws `count` relays, given by their shares of the positions, by chance but so that together they have about `share` of each position:
/// of many draws the one that comes closest. In a small network a relay can have a third of a position or a hundredth, so that without
/// this it would be chance how many circuits what befalls one relay in twenty is about.
pub(crate) fn fair_draw(relays: &[[f64; 3]], count: usize, share: f64, rng: &mut Rng) -> Vec<usize> {
    let mut draw = || {
        let mut candidates: Vec<usize> = (0..relays.len()).collect();
        let drawn: Vec<usize> = (0..count.min(candidates.len()))
            .map(|_| candidates.swap_remove(rng.below(candidates.len() as u64) as usize))
            .collect();
        let of_position = |position| drawn.iter().map(|relay| relays[*relay][position]).sum::<f64>();
        let distance: f64 = (0..Position::ALL.len()).map(|position| (of_position(position) - share).powi(2)).sum();
        (distance, drawn)
    };
    let draws: Vec<(f64, Vec<usize>)> = (0..DRAWS).map(|_| draw()).collect();
    draws.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, drawn)| drawn).unwrap_or_default()
}

/// The shares of all relays of the consensus. Those of a position add up to 1, where anybody has it.
pub fn shares(network: &Network) -> Vec<Shares<'_>> {
    let is_listed = |role| matches!(role, Role::Authority | Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let relays: Vec<&Host> = network.hosts.iter().filter(|host| is_listed(host.role)).collect();
    // Without a majority of measurements tor takes every relay for as slow as one that was not measured.
    let is_measured = network.spec.relays.authorities >= MEASURING_AUTHORITIES;
    let weight = |relay: &Host| if is_measured { relay.weight } else { 1 };
    let weights: Vec<(Role, u64)> = relays.iter().map(|relay| (relay.role, weight(relay))).collect();
    let shares = of_weights(&weights);
    relays.into_iter().zip(shares).map(|(host, of_position)| Shares { host, of_position }).collect()
}

/// The shares of relays of these roles and weights.
fn of_weights(relays: &[(Role, u64)]) -> Vec<[f64; 3]> {
    let mut totals = Totals::default();
    for (role, weight) in relays {
        *match role {
            Role::Guard => &mut totals.guard,
            Role::Exit => &mut totals.exit,
            Role::GuardExit => &mut totals.both,
            _ => &mut totals.middle,
        } += *weight as f64;
    }
    let factors = Factors::of(totals);
    let weights =
        |(role, weight): &(Role, u64)| Position::ALL.map(|position| *weight as f64 * factors.of_relay(*role, position));
    let mut shares: Vec<[f64; 3]> = relays.iter().map(weights).collect();
    let sums = [0, 1, 2].map(|index| shares.iter().map(|share| share[index]).sum::<f64>());
    for share in &mut shares {
        for (share, sum) in share.iter_mut().zip(sums).filter(|(_, sum)| *sum > 0.0) {
            *share /= sum;
        }
    }
    shares
}

/// Positions of which one relay has more than `LARGEST_SHARE`.
pub fn lopsided<'a>(shares: &[Shares<'a>], model: &Model) -> Vec<Lopsided<'a>> {
    let weights: Vec<(Role, u64)> = model.relays.iter().map(|relay| (relay.role, relay.weight)).collect();
    let of_model = of_weights(&weights);
    let largest = |position: Position| {
        let of = |shares: &&Shares| shares.of_position[position as usize];
        let most = shares.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let in_model = of_model.iter().map(|share| share[position as usize]).fold(0.0, f64::max);
        Some(Lopsided { position, host: most.host, share: of(&most), in_model })
    };
    Position::ALL.into_iter().filter_map(largest).filter(|found| found.share > LARGEST_SHARE).collect()
}

/// How many relays of the role that mends a position there would have to be, other things being equal; none where up to four times as many and
/// ten more do not help.
pub fn enough(network: &Network, model: &Model, position: Position) -> Option<(Role, u32)> {
    let field: fn(&mut Spec) -> &mut u32 = match position {
        Position::Entry => |spec| &mut spec.relays.guards,
        Position::Middle => |spec| &mut spec.relays.middles,
        Position::Exit => |spec| &mut spec.relays.exits,
    };
    let role = match position {
        Position::Entry => Role::Guard,
        Position::Middle => Role::Middle,
        Position::Exit => Role::Exit,
    };
    let mut spec = network.spec.clone();
    let present = *field(&mut spec);
    (present + 1..=present * 4 + 10).find_map(|count| {
        *field(&mut spec) = count;
        let larger = Network::without_keys(spec.clone(), model).ok()?;
        let is_mended = lopsided(&shares(&larger), model).iter().all(|found| found.position != position);
        is_mended.then_some((role, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tor's authorities made of these totals, in ten-thousandths.
    #[test]
    fn factors_are_those_of_tors_consensuses() {
        let totals = Totals { guard: 277_383.0, middle: 15_294.0, exit: 150_568.0, both: 222_897.0 };
        let factors = Factors::of(totals);
        let shown = [factors.wgg, factors.wgd, factors.wmg, factors.wme, factors.wmd, factors.wee, factors.wed];
        let consensus = [5275, 3397, 4725, 0, 3397, 10000, 3206];
        for (shown, expected) in shown.iter().zip(consensus) {
            assert!((shown * 10_000.0 - f64::from(expected)).abs() < 2.0, "{factors:?}");
        }
    }

    /// The weights that are left for the three positions are alike wherever they can be.
    #[test]
    fn positions_get_a_third_each_unless_somebody_is_too_scarce() {
        let cases = [
            (5.0, 1.0, 4.0, 2.0),
            (5.0, 3.0, 1.0, 3.0),
            (1.0, 3.0, 5.0, 3.0),
            (2.0, 2.0, 2.0, 6.0),
            (3.0, 2.0, 2.5, 6.0),
            (1.0, 4.0, 2.0, 6.0),
        ];
        for (guard, middle, exit, both) in cases {
            let f = Factors::of(Totals { guard, middle, exit, both });
            let third = (guard + middle + exit + both) / 3.0;
            let positions = [
                f.wgg * guard + f.wgd * both,
                middle + f.wmg * guard + f.wme * exit + f.wmd * both,
                f.wee * exit + f.wed * both,
            ];
            for position in positions {
                assert!((position - third).abs() < 1e-9, "{positions:?} of {guard} {middle} {exit} {both}: {f:?}");
            }
        }
    }
}
