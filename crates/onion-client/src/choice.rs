//! Which relays a circuit goes through: drawn by their bandwidth and the weight of their position (path-spec, "Path selection and
//! constraints"; dir-spec, "Computing bandwidth weights").

use crate::network::{Current, Relay};
use onion::directory::Weights;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Guard,
    Middle,
    Exit,
}

/// Ports whose connections last, for which relays must be stable (tor's `LongLivedPorts`).
const LONG_LIVED: [u16; 12] = [21, 22, 706, 1863, 5050, 5190, 5222, 5223, 6523, 6667, 6697, 8300];

/// How much a relay counts in a position.
fn weight(relay: &Relay, position: Position, weights: &Weights) -> u64 {
    let flags = &relay.entry.flags;
    let factor = match (position, flags.guard, is_exit(relay)) {
        (Position::Guard, true, true) => weights.wgd,
        (Position::Guard, true, false) => weights.wgg,
        (Position::Guard, false, false) => weights.wgm,
        (Position::Guard, false, true) => 0,
        (Position::Middle, true, true) => weights.wmd,
        (Position::Middle, true, false) => weights.wmg,
        (Position::Middle, false, true) => weights.wme,
        (Position::Middle, false, false) => weights.wmm,
        (Position::Exit, true, true) => weights.wed,
        (Position::Exit, true, false) => weights.weg,
        (Position::Exit, false, true) => weights.wee,
        (Position::Exit, false, false) => weights.wem,
    };
    u64::from(factor) * u64::from(relay.entry.bandwidth)
}

fn is_exit(relay: &Relay) -> bool {
    relay.entry.flags.exit && !relay.entry.flags.bad_exit
}

/// Whether a relay can be a guard at all, as tor judges.
pub fn is_possible_guard(relay: &Relay) -> bool {
    let flags = &relay.entry.flags;
    flags.guard && flags.stable && flags.fast && flags.directory
}

/// Whether it lets out to this port.
pub fn lets_out(relay: &Relay, port: u16) -> bool {
    !relay.entry.flags.bad_exit && relay.operator.ports.accepts(port)
}

/// Whether two relays may not be in one circuit: the same, of one /16 if that counts, of one family.
pub fn are_close(a: &Relay, b: &Relay, distinct_subnets: bool) -> bool {
    let subnet = |relay: &Relay| relay.entry.address.to_bits() >> 16;
    let names = |one: &Relay, other: &Relay| one.operator.family.contains(&other.entry.fingerprint);
    a.entry.fingerprint == b.entry.fingerprint
        || (distinct_subnets && subnet(a) == subnet(b))
        || (names(a, b) && names(b, a))
        || a.operator.family_ids.iter().any(|id| b.operator.family_ids.contains(id))
}

/// One of those that fit, by weight; where none has any, each is as likely.
pub fn draw<'n>(
    current: &'n Current,
    position: Position,
    random: &mut ChaCha20Rng,
    fits: impl Fn(&Relay) -> bool,
) -> Option<&'n Relay> {
    let fitting: Vec<(&Relay, u64)> = current
        .relays
        .iter()
        .filter(|relay| fits(relay))
        .map(|relay| (relay, weight(relay, position, &current.weights)))
        .collect();
    let total: u64 = fitting.iter().map(|(_, weight)| weight).sum();
    if fitting.is_empty() {
        return None;
    }
    if total == 0 {
        return Some(fitting[below(fitting.len() as u64, random) as usize].0);
    }
    let mut place = below(total, random);
    let (relay, _) = fitting.into_iter().find(|(_, weight)| {
        let is_here = place < *weight;
        place = place.saturating_sub(*weight);
        is_here
    })?;
    Some(relay)
}

/// A number below `end`, each as likely.
pub fn below(end: u64, random: &mut ChaCha20Rng) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(end)) >> 64) as u64
}

/// An exit for this port.
pub fn exit<'n>(current: &'n Current, port: u16, random: &mut ChaCha20Rng) -> Option<&'n Relay> {
    let is_stable = |relay: &Relay| relay.entry.flags.stable || !LONG_LIVED.contains(&port);
    let fast = draw(current, Position::Exit, random, |relay| {
        relay.entry.flags.fast && is_stable(relay) && lets_out(relay, port)
    });
    fast.or_else(|| draw(current, Position::Exit, random, |relay| lets_out(relay, port)))
}

/// A middle relay between two others.
pub fn middle<'n>(
    current: &'n Current,
    others: &[&Relay],
    distinct_subnets: bool,
    random: &mut ChaCha20Rng,
) -> Option<&'n Relay> {
    let is_apart = |relay: &Relay| others.iter().all(|other| !are_close(relay, other, distinct_subnets));
    let fast = draw(current, Position::Middle, random, |relay| relay.entry.flags.fast && is_apart(relay));
    fast.or_else(|| draw(current, Position::Middle, random, is_apart))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::{network, relay};
    use onion::directory::Ports;
    use rand_core::SeedableRng;

    fn random() -> ChaCha20Rng {
        ChaCha20Rng::from_seed([1; 32])
    }

    #[test]
    fn positions_are_drawn_by_bandwidth_and_weight() {
        let guard = relay(1, |entry, _| (entry.flags.guard, entry.bandwidth) = (true, 3000));
        let other = relay(2, |entry, _| entry.bandwidth = 1000);
        let mut network = network(vec![guard, other]);
        let current = network.current.as_mut().unwrap();
        let share = |current: &Current, position, random: &mut ChaCha20Rng| {
            let of_first = |relay: &Relay| relay.entry.fingerprint == [1; 20];
            (0..4000).filter(|_| draw(current, position, random, |_| true).is_some_and(of_first)).count()
        };
        let mut random = random();
        let at_first = share(current, Position::Middle, &mut random);
        assert!((2850..3150).contains(&at_first), "{at_first} of 4000 at 3 to 1");
        current.weights.wmg = 1111;
        let then = share(current, Position::Middle, &mut random);
        assert!((880..1120).contains(&then), "{then} of 4000 at 1 to 3");
        current.weights.wmg = 0;
        assert_eq!(share(current, Position::Middle, &mut random), 0);
    }

    #[test]
    fn exits_let_out_to_the_port() {
        let only = |ports: &str| Ports::read(ports).unwrap();
        let web = relay(1, |entry, operator| (entry.flags.exit, operator.ports) = (true, only("accept 80,443")));
        let bad = relay(2, |entry, operator| (entry.flags.bad_exit, operator.ports) = (true, only("reject 25")));
        let shell = relay(3, |entry, operator| (entry.flags.stable, operator.ports) = (false, only("accept 22")));
        let network = network(vec![web, bad, shell]);
        let current = network.current.as_ref().unwrap();
        for _ in 0..20 {
            assert_eq!(exit(current, 80, &mut random()).unwrap().entry.fingerprint, [1; 20]);
        }
        assert_eq!(exit(current, 22, &mut random()).unwrap().entry.fingerprint, [3; 20], "for want of a stable one");
        assert!(exit(current, 6667, &mut random()).is_none());
    }

    #[test]
    fn relays_of_one_operator_are_not_in_one_circuit() {
        let says = |number: u8, of: u8| {
            relay(number, |entry, operator| {
                entry.address = std::net::Ipv4Addr::new(20, number / 2, 0, number);
                operator.family = Box::new([[of; 20]]);
            })
        };
        let (one, other, third) = (says(1, 2), says(2, 1), says(3, 2));
        assert!(are_close(&one, &other, false), "both say so");
        assert!(!are_close(&one, &third, false) && are_close(&one, &one, false));
        assert!(!are_close(&other, &third, false) && are_close(&other, &third, true), "of one /16");
        let family = |number| relay(number, |_, operator| operator.family_ids = Box::new([[9; 20]]));
        assert!(are_close(&family(5), &family(6), false));
    }

    #[test]
    fn a_middle_relay_is_another_one() {
        let network = network((1..=3).map(|number| relay(number, |_, _| {})).collect());
        let current = network.current.as_ref().unwrap();
        let (guard, exit) = (current.relays[0].clone(), current.relays[2].clone());
        for _ in 0..20 {
            let middle = middle(current, &[&guard, &exit], true, &mut random()).unwrap();
            assert_eq!(middle.entry.fingerprint, [2; 20]);
        }
        assert!(middle(current, &[&guard, &exit, &current.relays[1]], true, &mut random()).is_none());
    }
}
