//! How much clients will ask of a network, and how busy that makes its relays: reckoned before anything has run.

use crate::balance::Shares;
use crate::network::{Host, Network, Role};
use crate::spec::{Amount, Spec};

/// The share of the public network's relay bandwidth that is in use, which `--load 1` stands for: of what relays advertised,
/// they carried between 45 and 50 % (Tor Metrics, "Total relay bandwidth").
pub const PUBLIC_UTILISATION: f64 = 0.475;

/// Circuits that a user makes in ten minutes: 223,344 of 118,790 users, as tornettools computes it for a 15 % network from the
/// measurements of "Privacy-Preserving Dynamic Learning of Tor Network Traffic" (log beside the data of `data/relays.csv`).
const FLOWS_PER_USER_S: f64 = 1.88 / 600.0;

/// What a flow of the built-in Markov models has transferred, both ways, so long after its begin where nothing holds it up: (seconds,
/// bytes). The mean of 3,000 flows drawn from `data/streams.csv` and `packets.csv`, whose streams are given up after ten minutes.
const FLOW_BYTES: [(f64, f64); 9] = [
    (0.0, 0.0),
    (60.0, 1.44e6),
    (120.0, 2.00e6),
    (180.0, 2.25e6),
    (300.0, 2.50e6),
    (600.0, 2.74e6),
    (720.0, 3.00e6),
    (1800.0, 3.23e6),
    (86_400.0, 3.23e6),
];

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

/// How many flows each Markov client begins in a second: as many as its users, or as many as bring relays to the load that is wanted.
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

/// What a Markov client transfers for each flow that it begins, on average over the time that figures are about: less than a flow's
/// all, since some of the flows of that time have begun a short while ago.
fn bytes_per_flow(spec: &Spec) -> f64 {
    let (from, until) = (spec.settle.as_secs_f64(), spec.total.saturating_sub(spec.bootstrap).as_secs_f64());
    // A moment's rate of bytes is the rate of flows times what a flow has transferred since the load began; so this is the mean of
    // `FLOW_BYTES` from the one time to the other, where it goes in straight lines.
    let area = |end: f64| -> f64 {
        FLOW_BYTES
            .windows(2)
            .map(|pair| {
                let [(t0, b0), (t1, b1)] = [pair[0], pair[1]];
                let t = end.clamp(t0, t1);
                let b = b0 + (b1 - b0) * (t - t0) / (t1 - t0);
                (t - t0) * (b0 + b) / 2.0
            })
            .sum()
    };
    (area(until) - area(from)) / (until - from).max(1.0)
}

/// What all relays but authorities and bridges can send, in bits per second.
fn capacity(network: &Network) -> f64 {
    let carries = |role| matches!(role, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle);
    let relays = network.hosts.iter().filter(|host| carries(host.role));
    relays.map(|host| host.up.bits_per_sec() as f64).sum()
}

/// Bytes a second of all clients but Markov's that load the relays of circuits to servers.
fn of_others(spec: &Spec) -> f64 {
    let sizes = &spec.performance_sizes;
    let mean = sizes.iter().map(|size| size.0 as f64).sum::<f64>() / sizes.len().max(1) as f64;
    let clients = &spec.clients;
    f64::from(clients.web) * WEB_BYTES / WEB_PERIOD_S
        + f64::from(clients.bulk) * BULK_BYTES_PER_S
        + f64::from(clients.performance + clients.bridge) * mean / MEASURING_PERIOD_S
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, profile, scaled};
    use base::SimDuration;

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

    #[test]
    fn a_flow_counts_for_as_much_as_it_has_had_time_for() {
        let spec = |settle: u64, load: u64| Spec {
            settle: SimDuration::from_secs(settle),
            bootstrap: SimDuration::from_secs(100),
            total: SimDuration::from_secs(100 + load),
            ..profile("tiny").expect("a profile").spec()
        };
        assert!((bytes_per_flow(&spec(0, 60)) - 0.72e6).abs() < 1.0);
        assert!((bytes_per_flow(&spec(60, 120)) - 1.72e6).abs() < 1.0);
        assert!((bytes_per_flow(&spec(3600, 7200)) - 3.23e6).abs() < 1.0);
    }

    #[test]
    fn clients_that_end_load_nothing_that_could_be_foretold() {
        let network = laid_out(profile("tiny").expect("a profile").spec());
        assert!(expectation(&network, &crate::balance::shares(&network)).is_none());
    }
}
