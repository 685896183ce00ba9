//! What a packet meets between two hosts: latency, jitter and loss, by their places and lines.
//!
//! With `PathModel::Varied` a place is several sites, and each pair of sites has a latency of its own, which the seed draws: the
//! median that the pair of places has, spread as pings of the two places are (`data/spreads.csv`). Half of a pair's deviation is
//! the sites' own: one that is far from everybody is so for all. What the tables do not say is assumed: a way's delay rises by up to
//! `CORE_JITTER` of its latency for a while and falls again, on an access line by up to `LINE_JITTER` of the line's; a packet in
//! 50,000 is lost on a usual way, more on a few, never more than a thousandth, which is what network operators promise.

use crate::network::{Attachment, Network};
use base::{Rng, SeedTree};
use std::f64::consts::TAU;

/// Whether all pairs of hosts of two places are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathModel {
    /// One latency for each pair of places, no jitter, no loss but on access lines.
    Even,
    /// As in the Internet: see `paths`.
    Varied,
}

/// How many sites a place has. Three make nine different ways from one place to another.
pub(crate) const SITES: u64 = 3;

/// How long a way's delay takes from one value to the next, in milliseconds.
pub(crate) const JITTER_STEP_MS: u64 = 50;

/// Latencies stay within so many standard deviations (of their logarithms), so that none is absurd.
const MOST_DEVIATIONS: f64 = 2.0;
/// The shortest way, in milliseconds.
const SHORTEST_MS: f64 = 0.5;
/// Shares of the latency.
const CORE_JITTER: f64 = 0.03;
const LINE_JITTER: f64 = 0.5;
/// The median of a way's loss, the deviation of its logarithm, and the most.
const LOSS: (f64, f64, f64) = (2e-5, 1.2, 1e-3);

/// From one host's line to the other's, both included. In milliseconds, and the share of packets that get lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    pub latency_ms: f64,
    /// What the delay rises by at most.
    pub jitter_ms: f64,
    pub loss: f64,
}

/// The way between two hosts that are attached so; the same in both directions.
pub(crate) fn way(network: &Network, from: Attachment, to: Attachment) -> Way {
    let (from, to) = (from.min(to), from.max(to));
    let core = core(network, from, to);
    let lines = [from, to].map(|end| end.link.map(|link| &network.spec.client_links[link]));
    let line_ms: f64 = lines.iter().flatten().map(|line| line.latency.as_nanos() as f64 / 1e6).sum();
    let kept: f64 = lines.iter().flatten().map(|line| 1.0 - line.loss).product();
    let jitter_ms = match network.spec.paths {
        PathModel::Even => 0.0,
        PathModel::Varied => core.jitter_ms + LINE_JITTER * line_ms,
    };
    Way { latency_ms: core.latency_ms + line_ms, jitter_ms, loss: 1.0 - (1.0 - core.loss) * kept }
}

/// Without lines.
fn core(network: &Network, from: Attachment, to: Attachment) -> Way {
    let way = usual_core(network, from, to);
    let is_between_centres = from.link.is_none() && to.link.is_none();
    let loss = network.spec.core_loss.filter(|_| is_between_centres).unwrap_or(way.loss);
    Way { loss, ..way }
}

fn usual_core(network: &Network, from: Attachment, to: Attachment) -> Way {
    let geography = &network.geography;
    let median_ms = geography.latency_ms(from.place, to.place);
    if network.spec.paths == PathModel::Even {
        return Way { latency_ms: median_ms, jitter_ms: 0.0, loss: 0.0 };
    }
    let seeds = SeedTree::new(network.spec.seed);
    let name = |at: Attachment| format!("{}{}", geography.places[at.place].code, at.site);
    let of_site = |at: Attachment| normal(&mut seeds.stream(&name(at), "site"));
    let mut rng = seeds.stream(&format!("{} {}", name(from), name(to)), "way");
    // The parts' variances add up to one: a quarter for each site, half for the way.
    let deviation = 0.5 * (of_site(from) + of_site(to)) + 0.5_f64.sqrt() * normal(&mut rng);
    let factor = (geography.spread(from.place, to.place) * deviation.clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)).exp();
    let latency_ms = (median_ms * factor).max(SHORTEST_MS);
    let (median, spread, most) = LOSS;
    let loss = (median * (spread * normal(&mut rng)).exp()).min(most);
    Way { latency_ms, jitter_ms: CORE_JITTER * latency_ms, loss }
}

/// A number of the standard normal distribution (Box and Muller's way).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, Spec, profile};

    fn network(seed: u64, paths: PathModel) -> Network {
        let spec = profile("paper-small").expect("a profile").spec();
        Network::without_keys(Spec { seed, paths, ..spec }, &Model::public()).expect("a network")
    }

    fn at(network: &Network, code: &str, site: u8) -> Attachment {
        Attachment { place: network.geography.index(code).expect("a place"), site, link: None }
    }

    /// Latencies of all ways from one place to another, of many seeds.
    fn latencies(from: &str, to: &str) -> Vec<f64> {
        let of_seed = |seed| {
            let network = network(seed, PathModel::Varied);
            let ways: Vec<f64> = (0..SITES as u8)
                .flat_map(|a| (0..SITES as u8).map(move |b| (a, b)))
                .map(|(a, b)| way(&network, at(&network, from, a), at(&network, to, b)).latency_ms)
                .collect();
            ways
        };
        (0..150).flat_map(of_seed).collect()
    }

    #[test]
    fn latencies_spread_around_the_median_of_the_two_places_as_pings_do() {
        for (from, to) in [("DE", "US"), ("BR", "DE"), ("FR", "NL")] {
            let network = network(1, PathModel::Even);
            let place = |code| network.geography.index(code).expect("a place");
            let (median, spread) = (
                network.geography.latency_ms(place(from), place(to)),
                network.geography.spread(place(from), place(to)),
            );
            let mut found: Vec<f64> = latencies(from, to).iter().map(|latency| (latency / median).ln()).collect();
            found.sort_by(f64::total_cmp);
            let deviation = (found.iter().map(|x| x * x).sum::<f64>() / found.len() as f64).sqrt();
            assert!(found[found.len() / 2].abs() < 0.2 * spread, "{from} {to}: {}", found[found.len() / 2]);
            // A little less than all of it: the tails are cut.
            assert!((0.85..1.05).contains(&(deviation / spread)), "{from} {to}: {deviation}, in the table {spread}");
        }
    }

    #[test]
    fn hosts_of_one_place_are_at_several_sites_whose_ways_differ() {
        let network = network(1, PathModel::Varied);
        let sites: std::collections::BTreeSet<u8> = network.hosts.iter().map(|host| host.attachment.site).collect();
        assert_eq!(sites.len() as u64, SITES);
        let [a, b] = [0, 1].map(|site| way(&network, at(&network, "DE", site), at(&network, "US", 0)));
        assert_ne!(a.latency_ms, b.latency_ms);
        let back = way(&network, at(&network, "US", 0), at(&network, "DE", 0));
        assert_eq!(a, back, "both directions are alike");
    }

    #[test]
    fn even_ways_are_the_tables_and_lose_nothing() {
        let network = network(1, PathModel::Even);
        assert!(network.hosts.iter().all(|host| host.attachment.site == 0));
        let way = way(&network, at(&network, "DE", 0), at(&network, "FR", 0));
        assert_eq!(way, Way { latency_ms: 15.3, jitter_ms: 0.0, loss: 0.0 });
    }

    #[test]
    fn another_loss_is_that_of_all_ways_but_those_of_clients() {
        let spec = profile("tiny").expect("a profile").spec();
        for paths in [PathModel::Even, PathModel::Varied] {
            let spec = Spec { core_loss: Some(0.01), paths, ..spec.clone() };
            let network = Network::without_keys(spec, &Model::public()).expect("a network");
            for from in &network.hosts {
                for to in &network.hosts {
                    let loss = way(&network, from.attachment, to.attachment).loss;
                    let is_client = from.attachment.link.is_some() || to.attachment.link.is_some();
                    assert!(((loss - 0.01).abs() < 1e-12) != is_client, "{} {}: {loss}", from.name, to.name);
                }
            }
        }
    }

    #[test]
    fn losses_are_small_and_jitter_is_a_part_of_the_latency() {
        let network = network(1, PathModel::Varied);
        let mut losses = Vec::new();
        for from in network.hosts.iter().filter(|host| host.attachment.link.is_none()) {
            for to in network.hosts.iter().filter(|host| host.attachment.link.is_none()) {
                let way = way(&network, from.attachment, to.attachment);
                assert!((way.jitter_ms / way.latency_ms - CORE_JITTER).abs() < 1e-9);
                losses.push(way.loss);
            }
        }
        losses.sort_by(f64::total_cmp);
        assert!(losses[losses.len() / 2] < 4e-5 && losses[losses.len() - 1] <= 1e-3 + 1e-12, "{losses:?}");
    }
}
