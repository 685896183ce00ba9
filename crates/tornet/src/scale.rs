//! A share of the public network: how many relays, clients and servers `--scale F` means.
//!
//! The rules are those of tornettools: relays per role in proportion; at least three authorities; users in proportion, of whom one
//! tor client stands for many; a measuring client and a server for every ten of these clients.

use crate::model::Model;
use crate::paths::PathModel;
use crate::profile::{SETTLE, base_spec};
use crate::spec::{ClientCounts, RelayCounts, Spec};
use crate::{Error, Role};

/// Ten authorities at full scale, and never fewer than a consensus by majority with measured bandwidths needs.
const AUTHORITIES: (f64, u32) = (10.0, 3);
const LEAST_SCALE: f64 = 0.001;
/// Clients per measuring client, and per server.
const CLIENTS_PER_HELPER: u32 = 10;

/// The network that is `scale` times the model's, where each client stands for `users_per_client` users.
pub fn scaled(model: &Model, scale: f64, users_per_client: u32) -> Result<Spec, Error> {
    if !(LEAST_SCALE..=1.0).contains(&scale) {
        return Err(Error::input(format!(
            "a scale of {scale} is out of range: give a share of the public network from {LEAST_SCALE} to 1, such as --scale 0.01"
        )));
    }
    if users_per_client == 0 {
        return Err(Error::input("--users-per-client 0: each client stands for one user at least"));
    }
    let of = |role| share(model.network.count(role), scale);
    let users = share(model.network.users, scale);
    let clients = (users / users_per_client).max(1);
    let helpers = clients.div_ceil(CLIENTS_PER_HELPER);
    Ok(Spec {
        profile: format!("scale {scale}"),
        relays: RelayCounts {
            authorities: share(AUTHORITIES.0 as u32, scale).max(AUTHORITIES.1),
            guards: of(Role::Guard).max(1),
            exits: of(Role::Exit).max(1),
            guard_exits: of(Role::GuardExit).max(1),
            middles: of(Role::Middle).max(1),
            bridges: 0,
        },
        clients: ClientCounts { markov: clients, performance: helpers, ..ClientCounts::default() },
        servers: helpers,
        users_per_client,
        load: Some(1.0),
        paths: PathModel::Varied,
        settle: SETTLE,
        ..base_spec()
    })
}

/// How many relays of each role a network of `total` has, in proportion to the model's. `given` are counts that are settled, in the
/// order guards, exits, guard-exits, middles; the others share what they leave.
pub fn relays_by_role(model: &Model, total: u32, given: [Option<u32>; 4]) -> Result<[u32; 4], Error> {
    let settled: u32 = given.iter().flatten().sum();
    if settled > total || (settled < total && given.iter().all(Option::is_some)) {
        let [guards, exits, guard_exits, middles] = given.map(|count| count.unwrap_or(0));
        return Err(Error::input(format!(
            "{guards} guards, {exits} exits, {guard_exits} guard-exits and {middles} middles are {} than --relays {total}; change one or \
             leave --relays out",
            if settled > total { "more" } else { "fewer" }
        )));
    }
    let roles = [Role::Guard, Role::Exit, Role::GuardExit, Role::Middle];
    let mut counts = given.map(|count| count.unwrap_or(0));
    let weights: Vec<f64> = (0..roles.len())
        .map(|role| if given[role].is_none() { f64::from(model.network.count(roles[role])) } else { 0.0 })
        .collect();
    let sum: f64 = weights.iter().sum();
    // One after the other to the role that is furthest below its share (Webster's method): no rounding to mend afterwards.
    for _ in settled..total {
        let lag = |role: usize| weights[role] / sum / (f64::from(counts[role]) + 0.5);
        let most = (0..roles.len()).filter(|role| given[*role].is_none()).max_by(|a, b| lag(*a).total_cmp(&lag(*b)));
        counts[most.expect("a role that is not settled")] += 1;
    }
    Ok(counts)
}

fn share(count: u32, scale: f64) -> u32 {
    (f64::from(count) * scale).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_has_the_counts_of_the_published_networks() {
        // shadowtor-0.05-*: 346 relays, 3 authorities, 396 clients of 100 users, 40 measuring clients, 40 servers.
        let spec = scaled(&Model::public(), 0.05, 100).expect("a fair scale");
        assert_eq!(spec.relays.authorities, 3);
        assert!(spec.relays.relays().abs_diff(346) <= 2, "{:?}", spec.relays);
        assert!(spec.clients.markov.abs_diff(396) <= 1);
        assert_eq!((spec.clients.performance, spec.servers), (40, 40));
    }

    #[test]
    fn relays_are_shared_out_as_the_public_network_has_them() {
        let model = Model::public();
        assert_eq!(relays_by_role(&model, 18, [None; 4]).expect("fair"), [6, 1, 3, 8]);
        assert_eq!(relays_by_role(&model, 10, [Some(2), Some(3), None, None]).expect("fair").iter().sum::<u32>(), 10);
    }

    #[test]
    fn more_guards_than_relays_are_refused() {
        let model = Model::public();
        let error = relays_by_role(&model, 5, [Some(6), None, None, None]).expect_err("too many");
        assert!(
            error.to_string().contains("6 guards") && error.to_string().contains("more than --relays 5"),
            "{error}"
        );
        let error = relays_by_role(&model, 5, [Some(1); 4]).expect_err("too few");
        assert!(error.to_string().contains("fewer than --relays 5"), "{error}");
    }

    #[test]
    fn scales_out_of_range_are_refused_with_the_range() {
        for scale in [0.0, -1.0, 1.5, f64::NAN] {
            let error = scaled(&Model::public(), scale, 100).expect_err("out of range");
            assert!(error.to_string().contains("from 0.001 to 1"), "{error}");
        }
    }

    #[test]
    fn the_smallest_scale_still_makes_circuits() {
        let spec = scaled(&Model::public(), 0.001, 100).expect("a fair scale");
        spec.check().expect("a network that works");
    }
}
