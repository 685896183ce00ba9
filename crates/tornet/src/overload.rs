//! Relays that are asked for more than their processor can do.
//!
//! Tor works through a relay's traffic in one thread, so a relay with a slow processor carries less than its line, and what it is
//! asked for waits: circuits through it are slow, and some transfers come to their time limit. Here a call takes time on such a relay
//! (`host_options.call_latency`), which is the same in every run; a processor's real speed would not be.
//!
//! Measured: a relay of which much is asked makes a call for every `BITS_PER_CALL` that it sends to other relays, among the many connections
//! of a loaded network (2.2 to 2.8 Mbit/s with calls of 1.76 ms; with the length that follows from it, 20 to 28 % of a line were meant to
//! be 25 %). What comes from servers it takes in larger pieces: exits sent 5.5 and 8.4 Mbit/s with calls of 1.8 and 1.2 ms, and with
//! the length of the others they were not overloaded at all. So the length of a call says what a relay can carry.
//! With few busy connections, more is done by each call: 13,200 bits.
//!
//! Assumed: how much less than its line. How many relays of the public network are so nobody has counted: `--overloaded` says it, and
//! `PUBLIC_SHARE` is what makes as many transfers fail as do there.
//!
//! Relays are so different that a twentieth of them can have a hundredth of the circuits, or a fifth, and it is overloaded exits through which most
//! transfers fail. Results are about circuits: of many draws the one counts in which the overloaded relays come closest to the share that
//! is wanted of the entry, middle and exit positions.

use crate::balance::{self, Position, Shares};
use crate::network::{Network, Role};
use crate::spec::Spec;
use base::{Bandwidth, SeedTree, SimDuration};

const BITS_PER_CALL: f64 = 4_500.0;
/// Of relays that let out all that they carry.
const BITS_PER_CALL_OF_EXIT: f64 = 10_000.0;

/// What an overloaded relay can send, as a share of its line: half of what `--load 1` asks for.
pub const CAPACITY: f64 = 0.25;

/// What share of the relays, with `CAPACITY`, makes as large a part of the measuring clients' transfers fail as fail on the public network, 0.5
/// to 3 %. Of the transfers whose circuits had an overloaded exit between two fifths and nearly all failed, of those with an overloaded guard or
/// middle relay a twentieth: of all transfers half to one and a half times the relays' share, if these have as much of each position.
pub const PUBLIC_SHARE: f64 = 0.02;

/// Longer calls would make a tor's start last longer than the network waits for it.
const LONGEST_CALL: SimDuration = SimDuration::from_millis(2);

/// The slowest line on which the processor of a relay can be what limits it with calls that are not too long; exits need twice as much.
pub(crate) const SLOWEST_LINE: Bandwidth = Bandwidth::from_bits_per_sec(9_000_000);

/// Whether a processor can be what limits a relay with this line.
pub(crate) fn can_be(line: Bandwidth) -> bool {
    line >= SLOWEST_LINE
}

/// What share of the relays is so with which public `--churn` goes along; None where there is no load that could be too much, or
/// where lines are too slow for processors to matter.
pub fn with_churn(spec: &Spec) -> Option<f64> {
    let is_fast = spec.relay_bandwidth.is_none_or(can_be);
    (spec.churn.is_some() && spec.load.is_some() && is_fast).then_some(PUBLIC_SHARE)
}

/// Makes a share of the relays so, at least one; those whose line is fast enough for a processor to be what limits them.
pub(crate) fn apply(network: &mut Network, seeds: &SeedTree) {
    let Some(share) = network.spec.overloaded else { return };
    let carries = |role| matches!(role, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let wanted = ((share * network.count(carries) as f64).round() as usize).max(1);
    // Those whose calls need not be too long, their shares of the circuits' positions, and the length of their calls.
    let relays: Vec<(String, [f64; 3], SimDuration)> = balance::shares(network)
        .iter()
        .filter(|relay| carries(relay.host.role))
        .map(|relay| (relay.host.name.clone(), relay.of_position, call_latency(relay)))
        .filter(|(_, _, call)| *call <= LONGEST_CALL)
        .collect();
    let mut rng = seeds.stream("", "overloaded relays");
    let shares: Vec<[f64; 3]> = relays.iter().map(|(_, shares, _)| *shares).collect();
    for (name, _, call) in balance::fair_draw(&shares, wanted, share, &mut rng).into_iter().map(|index| &relays[index])
    {
        let host = network.hosts.iter_mut().find(|host| host.name == *name).expect("it is from this list");
        host.call_latency = Some(*call);
    }
}

/// With which it can carry `CAPACITY` of its line; whole microseconds.
fn call_latency(relay: &Shares) -> SimDuration {
    let of_exit =
        relay.of_position[Position::Exit as usize] / relay.of_position.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let bits_per_call = BITS_PER_CALL + of_exit * (BITS_PER_CALL_OF_EXIT - BITS_PER_CALL);
    let microseconds = bits_per_call / (CAPACITY * relay.host.up.bits_per_sec() as f64) * 1e6;
    SimDuration::from_micros(microseconds.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Host;
    use crate::{Model, Network, scaled};

    #[test]
    fn a_share_of_the_relays_can_carry_a_quarter_of_their_line() {
        let spec = scaled(&Model::public(), 0.01, 100).expect("a fair scale");
        let build = |overloaded| {
            Network::without_keys(Spec { overloaded, ..spec.clone() }, &Model::public()).expect("a network")
        };
        let network = build(Some(0.1));
        let slow: Vec<&Host> = network.hosts.iter().filter(|host| host.call_latency.is_some()).collect();
        assert_eq!(slow.len(), 7, "a tenth of 69");
        for host in slow {
            // Exits are that alone here, since there are too few of them.
            let bits = if host.role.is_exit() { BITS_PER_CALL_OF_EXIT } else { BITS_PER_CALL };
            let share = bits / host.call_latency.expect("slow").as_secs_f64() / host.up.bits_per_sec() as f64;
            assert!((share - CAPACITY).abs() < 0.01 && host.role != Role::Authority, "{}: {share}", host.name);
        }
        assert!(build(None).hosts.iter().all(|host| host.call_latency.is_none()));
        assert_eq!(build(Some(0.001)).hosts.iter().filter(|host| host.call_latency.is_some()).count(), 1);
    }

    /// Drawn once, without regard to weights, a twentieth had from 0.7 to 18 % of all positions at the one scale, 3 to 12 % at the other.
    #[test]
    fn overloaded_relays_have_their_share_of_the_circuits() {
        for (scale, of_all, of_each) in [(0.005, 0.03, 0.1), (0.02, 0.01, 0.03)] {
            for seed in 1..=10 {
                let spec = scaled(&Model::public(), scale, 100).expect("a fair scale");
                let spec = Spec { seed, overloaded: Some(0.05), ..spec };
                let network = Network::without_keys(spec, &Model::public()).expect("a network");
                let shares = balance::shares(&network);
                let slow = || shares.iter().filter(|relay| relay.host.call_latency.is_some());
                let of_position =
                    [0, 1, 2].map(|position| slow().map(|relay| relay.of_position[position]).sum::<f64>());
                println!("scale {scale}, seed {seed}: {of_position:.3?}");
                let mean = of_position.iter().sum::<f64>() / 3.0;
                assert!((mean - 0.05).abs() < of_all, "scale {scale}, seed {seed}: {of_position:.3?}");
                assert!(
                    of_position.iter().all(|share| (share - 0.05).abs() < of_each),
                    "scale {scale}, seed {seed}: {of_position:.3?}"
                );
            }
        }
    }

    #[test]
    fn churn_brings_overloaded_relays_where_there_is_a_load() {
        let spec = scaled(&Model::public(), 0.01, 100).expect("a fair scale");
        assert_eq!(with_churn(&spec), None);
        let spec = Spec { churn: Some(0.02), ..spec };
        assert_eq!(with_churn(&spec), Some(PUBLIC_SHARE));
        assert_eq!(with_churn(&Spec { load: None, ..spec.clone() }), None);
        assert_eq!(with_churn(&Spec { relay_bandwidth: Some(Bandwidth::from_bits_per_sec(5_000_000)), ..spec }), None);
    }

    #[test]
    fn slow_lines_hold_their_processors_up_and_not_the_other_way_round() {
        let spec = scaled(&Model::public(), 0.01, 100).expect("a fair scale");
        let slow = Bandwidth::from_bits_per_sec(5_000_000);
        let spec = Spec { overloaded: Some(0.5), relay_bandwidth: Some(slow), ..spec };
        assert!(spec.check().is_err_and(|error| error.to_string().contains("9.0 Mbit/s")));
    }
}
