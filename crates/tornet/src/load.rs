//! How much clients will ask of a network, and how busy that makes its relays: reckoned before anything has run.

use crate::balance::Shares;
use crate::markov::Phase;
use crate::network::{Host, Network, Role};
use crate::spec::{Amount, Spec};

/// The share of the public network's relay bandwidth that is in use, which `--load 1` stands for: of what relays advertised,
/// they carried between 45 and 50 % (Tor Metrics, "Total relay bandwidth").
pub const PUBLIC_UTILISATION: f64 = 0.475;

/// Circuits that a user makes in ten minutes: 223,344 of 118,790 users, as tornettools computes it for a 15 % network from the
/// measurements of "Privacy-Preserving Dynamic Learning of Tor Network Traffic" (log beside the data of `data/relays.csv`).
const FLOWS_PER_USER_S: f64 = 1.88 / 600.0;

/// What a flow of the built-in Markov models has transferred, both ways, so long after its begin where nothing holds it up: (seconds,
/// bytes). The mean of 13,000 flows drawn from `data/streams.csv` and `packets.csv`, whose streams are given up after ten minutes.
const FLOW_BYTES: [(f64, f64); 20] = [
    (0.0, 0.0),
    (5.0, 0.34e6),
    (10.0, 0.51e6),
    (20.0, 0.79e6),
    (30.0, 1.03e6),
    (40.0, 1.23e6),
    (60.0, 1.54e6),
    (80.0, 1.76e6),
    (100.0, 1.93e6),
    (120.0, 2.05e6),
    (150.0, 2.19e6),
    (180.0, 2.30e6),
    (240.0, 2.45e6),
    (300.0, 2.55e6),
    (450.0, 2.69e6),
    (600.0, 2.77e6),
    (720.0, 3.00e6),
    (1200.0, 3.13e6),
    (1800.0, 3.17e6),
    (86_400.0, 3.18e6),
];

/// How clients begin more flows at first, so that the load is there after a minute. A network that has always been in use has circuits that are
/// minutes old, which make half of its load; without them it would take half an hour to grow. In each phase so many times the
/// flows that clients begin later, for so many seconds on average: (times, seconds).
const WARM_UP: [(f64, f64); 2] = [(3.7, 24.0), (1.4, 280.0)];

/// What relays send on each of three hops for a byte of payload: cells, TLS, TCP, IP, acknowledgements, tor's own traffic. Measured.
const SENT_PER_BYTE: f64 = 1.15;

/// Each circuit passes as many relays.
const HOPS: f64 = 3.0;

/// Bytes a second that a client of other kinds fetches: a transfer and its pause, which takes some seconds more; what an unloaded
/// circuit gives.
const WEB_PERIOD_S: f64 = 33.0;
const WEB_BYTES: f64 = 320.0 * 1024.0;
const BULK_BYTES_PER_S: f64 = 1.2e6;
const MEASURING_PERIOD_S: f64 = 60.0;

/// What is expected of the relays of a network while clients load it.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// Payload of all clients, in bits per second.
    pub payload: f64,
    /// What relays could send, in bits per second.
    pub capacity: f64,
    /// What they will send, as a share of that.
    pub utilisation: f64,
    /// The relay that its weight makes the busiest, and its utilisation, which is above 1 where it cannot do what is asked.
    pub busiest: Option<(&'a Host, f64)>,
}

/// None where clients end after a fixed amount, which leaves relays idle most of the time.
pub fn expectation<'a>(network: &Network, shares: &[Shares<'a>]) -> Option<Expectation<'a>> {
    if network.spec.amount != Amount::Endless {
        return None;
    }
    let capacity = capacity(network);
    let markov = flows_per_s(network) * f64::from(network.spec.clients.markov) * bytes_per_flow(&network.spec);
    let bytes_per_s = markov + of_others(&network.spec);
    let sent_by = |relay: &Shares| 8.0 * bytes_per_s * SENT_PER_BYTE * relay.of_position.iter().sum::<f64>();
    let busy = shares.iter().map(|relay| (relay.host, sent_by(relay) / relay.host.up.bits_per_sec() as f64));
    let busiest = busy.max_by(|a, b| a.1.total_cmp(&b.1));
    let utilisation = if capacity > 0.0 { 8.0 * bytes_per_s * SENT_PER_BYTE * HOPS / capacity } else { 0.0 };
    Some(Expectation { payload: 8.0 * bytes_per_s, capacity, utilisation, busiest })
}

/// How many flows each Markov client begins in a second, once warm: as many as its users, or as many as bring relays to the load that is wanted.
pub(crate) fn flows_per_s(network: &Network) -> f64 {
    let spec = &network.spec;
    match spec.load {
        None => f64::from(spec.users_per_client) * FLOWS_PER_USER_S,
        Some(load) => {
            let wanted = load * PUBLIC_UTILISATION * capacity(network) / 8.0 / HOPS / SENT_PER_BYTE;
            // Where the others alone are more than that, the least that still is a load.
            let left = (wanted - of_others(spec)).max(wanted / 100.0);
            left / bytes_per_flow(spec) / f64::from(spec.clients.markov.max(1))
        }
    }
}

/// In which phases clients begin more flows than later. None where they end after a fixed number.
pub(crate) fn warm_up(network: &Network) -> Vec<Phase> {
    if network.spec.amount != Amount::Endless {
        return Vec::new();
    }
    let steady = flows_per_s(network);
    let mut phases = WARM_UP.map(|(times, seconds)| Phase { flows_per_s: times * steady, seconds });
    // Each client has a flow at once, whatever its rate. With many clients that do little these are a good part of the warm-up's.
    phases[0].flows_per_s = (phases[0].flows_per_s - 1.0 / phases[0].seconds).max(phases[1].flows_per_s);
    phases.to_vec()
}

/// What a Markov client transfers for each flow that it begins once warm, on average over the time that figures are about.
fn bytes_per_flow(spec: &Spec) -> f64 {
    let (from, until) = (spec.settle.as_secs_f64(), spec.total.saturating_sub(spec.bootstrap).as_secs_f64());
    const STEPS: u32 = 64;
    let step = (until - from) / f64::from(STEPS);
    let middles = (0..STEPS).map(|number| from + (f64::from(number) + 0.5) * step);
    middles.map(load_after).sum::<f64>() / f64::from(STEPS)
}

/// The bytes a second of clients that have loaded the network for so long, if they begin a flow a second once warm.
fn load_after(seconds: f64) -> f64 {
    // Of the clients in a phase, as many leave it in a second as its length says. So the rate of flows is 1 and a multiple of an
    // exponential for each phase, and the load is that multiplied, moment by moment, with what a flow transfers at its age then.
    let [(first, t1), (second, t2)] = WARM_UP;
    let slow = (second - 1.0) * t2 / (t2 - t1);
    let fast = first - 1.0 - slow;
    let mut load = 0.0;
    for pair in FLOW_BYTES.windows(2) {
        let [(begin, before), (end, after)] = [pair[0], pair[1]];
        let end_so_far = end.min(seconds);
        if end_so_far <= begin {
            break;
        }
        let of_phase = |t: f64| t * (((end_so_far - seconds) / t).exp() - ((begin - seconds) / t).exp());
        load += (after - before) / (end - begin) * (end_so_far - begin + fast * of_phase(t1) + slow * of_phase(t2));
    }
    load
}

/// How long the network would have to be under its full load to carry what it carries from the bootstrap to the end, in seconds.
pub(crate) fn full_load_s(spec: &Spec) -> f64 {
    let until = spec.total.saturating_sub(spec.bootstrap).as_secs_f64();
    let full = FLOW_BYTES[FLOW_BYTES.len() - 1].1;
    const STEPS: u32 = 256;
    let step = until / f64::from(STEPS);
    (0..STEPS).map(|number| (load_after((f64::from(number) + 0.5) * step) / full).min(1.0) * step).sum()
}

/// What all relays but authorities and bridges can send, in bits per second.
fn capacity(network: &Network) -> f64 {
    let carries = |role| matches!(role, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let relays = network.hosts.iter().filter(|host| carries(host.role));
    relays.map(|host| host.up.bits_per_sec() as f64).sum()
}

/// Bytes a second of all clients but Markov's that load the relays of circuits to servers.
fn of_others(spec: &Spec) -> f64 {
    let clients = &spec.clients;
    f64::from(clients.web) * WEB_BYTES / WEB_PERIOD_S
        + f64::from(clients.bulk) * BULK_BYTES_PER_S
        + f64::from(clients.performance + clients.bridge) * mean_probe(spec) / MEASURING_PERIOD_S
}

/// Bytes that a measuring client fetches at a time, on average.
fn mean_probe(spec: &Spec) -> f64 {
    let weight = |index: usize| spec.performance_weights.get(index).copied().unwrap_or(1.0);
    let sizes = || spec.performance_sizes.iter().enumerate();
    let all: f64 = sizes().map(|(index, _)| weight(index)).sum();
    sizes().map(|(index, size)| weight(index) * size.0 as f64).sum::<f64>() / all.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, profile, scaled};

    fn laid_out(spec: Spec) -> Network {
        Network::without_keys(spec, &Model::public()).expect("a network")
    }

    #[test]
    fn a_load_of_one_is_the_public_networks_whatever_the_network() {
        let scaled = scaled(&Model::public(), 0.01, 100).expect("a fair scale");
        let small = profile("paper-small").expect("a profile").spec();
        let few = Spec { users_per_client: 3, ..small.clone() };
        for (spec, load) in [(scaled, 1.0), (small.clone(), 1.0), (few, 1.0), (small, 0.5)] {
            let network = laid_out(Spec { load: Some(load), ..spec });
            let expected = expectation(&network, &crate::balance::shares(&network)).expect("an endless network");
            assert!((expected.utilisation - load * PUBLIC_UTILISATION).abs() < 1e-9, "{expected:?}");
        }
    }

    #[test]
    fn users_alone_make_about_a_third_less_in_the_whole_public_network() {
        // 791,900 users with 1.88 flows of 3.2 MB in ten minutes, over three hops, of 685 Gbit/s.
        let spec = scaled(&Model::public(), 0.05, 100).expect("a fair scale");
        let network = laid_out(Spec { load: None, ..spec });
        let expected = expectation(&network, &crate::balance::shares(&network)).expect("an endless network");
        assert!((0.25..0.4).contains(&expected.utilisation), "{}", expected.utilisation);
    }

    /// Without the warm-up it would be 0.48 of what it is in the end after a minute, 0.64 after two and 0.80 after five. Streams that are silent
    /// for as long as the models allow, ten minutes, make a step there.
    #[test]
    fn the_load_is_there_after_a_minute_and_stays() {
        let in_the_end = FLOW_BYTES[FLOW_BYTES.len() - 1].1;
        for second in 60..7200 {
            let share = load_after(f64::from(second)) / in_the_end;
            assert!((share - 1.0).abs() < 0.06, "{share:.3} of the load after {second} s");
        }
        let begin = load_after(10.0) / in_the_end;
        assert!((0.3..0.7).contains(&begin), "{begin:.3} after 10 s");
    }

    /// Clients that do little begin no more flows than those that do much: the one that each has at once counts.
    #[test]
    fn the_warm_up_is_the_same_for_many_clients_and_for_few() {
        let flows_in_the_first_phase = |clients: u32| {
            let small = profile("paper-small").expect("a profile").spec();
            let clients = crate::spec::ClientCounts { markov: clients, ..small.clients };
            let network = laid_out(Spec { clients, ..small });
            let phase = warm_up(&network)[0];
            f64::from(clients.markov) * (1.0 + phase.flows_per_s * phase.seconds)
        };
        let (few, many) = (flows_in_the_first_phase(20), flows_in_the_first_phase(200));
        assert!((few / many - 1.0).abs() < 1e-6, "{few} and {many}");
    }

    #[test]
    fn clients_that_end_load_nothing_that_could_be_foretold() {
        let network = laid_out(profile("tiny").expect("a profile").spec());
        assert!(expectation(&network, &crate::balance::shares(&network)).is_none());
    }
}
