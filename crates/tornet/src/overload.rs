//! Relays that are asked for more than their processor can do.
//!
//! Tor works through a relay's traffic in one thread, so a relay with a slow processor carries less than its line, and what it is
//! asked for waits: circuits through it are slow, and some transfers come to their time limit. Here a call takes time on such a relay
//! (`host_options.call_latency`), which is the same in every run; a processor's real speed would not be.
//!
//! Measured: a relay of which much is asked makes a call for every `BITS_PER_CALL` that it sends, among the many connections of a
//! loaded network (2.2 to 2.8 Mbit/s with calls of 1.76 ms; with the length that follows from it, 22 and 23 % of a line were meant to
//! be 25 %). So the length of a call says what a relay can carry. With few busy connections, more is done by each call: 13,200 bits.
//!
//! Assumed: how much less than its line. How many relays of the public network are so is not in this model: `--overloaded` says it.

use crate::network::{Host, Role};
use crate::spec::Spec;
use base::{Bandwidth, SeedTree, SimDuration};

const BITS_PER_CALL: f64 = 4_500.0;

/// What an overloaded relay can send, as a share of its line: half of what `--load 1` asks for.
pub const CAPACITY: f64 = 0.25;

/// On a slower line calls would have to take more than 2 ms, which would make a tor's start last longer than the network waits for it.
pub(crate) const SLOWEST_LINE: Bandwidth = Bandwidth::from_bits_per_sec(9_000_000);

/// Whether a processor can be what limits a relay with this line.
pub(crate) fn can_be(line: Bandwidth) -> bool {
    line >= SLOWEST_LINE
}

/// Makes a share of the relays so, at least one; those whose line is fast enough for a processor to be what limits them.
pub(crate) fn apply(hosts: &mut [Host], spec: &Spec, seeds: &SeedTree) {
    let Some(share) = spec.overloaded else { return };
    let carries = |host: &Host| matches!(host.role, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let relays = hosts.iter().filter(|host| carries(host)).count();
    let mut rng = seeds.stream("", "overloaded relays");
    let mut candidates: Vec<&mut Host> = hosts.iter_mut().filter(|host| carries(host) && can_be(host.up)).collect();
    let wanted = ((share * relays as f64).round() as usize).max(1);
    for _ in 0..wanted.min(candidates.len()) {
        let host = candidates.swap_remove(rng.below(candidates.len() as u64) as usize);
        host.call_latency = Some(call_latency(host));
    }
}

/// With which it can carry `CAPACITY` of its line; whole microseconds.
fn call_latency(host: &Host) -> SimDuration {
    let microseconds = BITS_PER_CALL / (CAPACITY * host.up.bits_per_sec() as f64) * 1e6;
    SimDuration::from_micros(microseconds.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let per_s = BITS_PER_CALL / host.call_latency.expect("slow").as_secs_f64();
            let share = per_s / host.up.bits_per_sec() as f64;
            assert!((share - CAPACITY).abs() < 0.01 && host.role != Role::Authority, "{}: {share}", host.name);
        }
        assert!(build(None).hosts.iter().all(|host| host.call_latency.is_none()));
        assert_eq!(build(Some(0.001)).hosts.iter().filter(|host| host.call_latency.is_some()).count(), 1);
    }

    #[test]
    fn slow_lines_hold_their_processors_up_and_not_the_other_way_round() {
        let spec = scaled(&Model::public(), 0.01, 100).expect("a fair scale");
        let slow = Bandwidth::from_bits_per_sec(5_000_000);
        let spec = Spec { overloaded: Some(0.5), relay_bandwidth: Some(slow), ..spec };
        assert!(spec.check().is_err_and(|error| error.to_string().contains("9.0 Mbit/s")));
    }
}
