//! The built-in model: tables in `data/`, each of which says where it comes from.

use super::{FullNetwork, Model, ModelRelay};
use crate::geography::Geography;
use crate::network::Role;
use base::Bandwidth;

const LATENCIES: &str = include_str!("../../data/latencies.csv");
const SPREADS: &str = include_str!("../../data/spreads.csv");
const USERS: &str = include_str!("../../data/users.csv");
const RELAYS: &str = include_str!("../../data/relays.csv");

/// Relays by role are those of the sampled 15 % networks (346 guards, 75 exits, 152 guard-exits, 463 middles) over 0.15, the
/// users tornettools' estimate of active ones.
pub(super) const NETWORK: FullNetwork =
    FullNetwork { guards: 2307, exits: 500, guard_exits: 1013, middles: 3087, users: 791_900 };

impl Model {
    /// The public Tor network of 2021.
    pub fn public() -> Model {
        let geography = Geography::parse(LATENCIES, SPREADS).expect("the built-in latencies are well formed");
        let mut users = vec![0.0; geography.places.len()];
        for (place, clients) in rows(USERS).map(|fields| (fields[0], fields[1])) {
            users[place_of(&geography, place)] = clients.parse().expect("a number of clients");
        }
        let relays = rows(RELAYS).map(|fields| relay(&geography, &fields)).collect();
        Model { source: "the public Tor network of 2021".to_owned(), geography, relays, users, network: NETWORK }
    }
}

/// The rows of a table, without comments and header.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

fn place_of(geography: &Geography, code: &str) -> usize {
    geography.index(code).expect("every table's countries have latencies")
}

fn relay(geography: &Geography, fields: &[&str]) -> ModelRelay {
    let mbit: f64 = fields[2].parse().expect("a bandwidth in Mbit/s");
    ModelRelay {
        role: match fields[0] {
            "g" => Role::Guard,
            "e" => Role::Exit,
            "d" => Role::GuardExit,
            _ => Role::Middle,
        },
        place: place_of(geography, fields[1]),
        bandwidth: Bandwidth::from_bits_per_sec((mbit * 1e6) as u64),
        weight: fields[3].parse().expect("a weight"),
    }
}
