//! The engine's promise: what happens is a function of the hosts and the seed alone.

mod phold;

use base::{SeedTree, SimDuration, SimTime};
use engine::{Config, Policy};
use phold::{Phold, Plan};
use std::sync::Arc;

fn config(workers: usize, policy: Policy) -> Config {
    Config { workers, policy, stop_time: SimTime::from_nanos(40_000_000), runahead: None }
}

/// Latencies between 0.1 and 3 ms that differ by target and by direction.
fn plan(hosts: u32, grain: u64) -> Arc<Plan> {
    let mut rng = SeedTree::new(9).stream("", "latencies");
    let incoming = (0..hosts).map(|_| SimDuration::from_nanos(100_000 + rng.below(30) * 100_000)).collect();
    Arc::new(Plan {
        hosts,
        balls_per_host: 4,
        incoming,
        spread: 2_000_000,
        grain,
        wait: 300_000,
        work: 0,
        exclusive_of: 0,
    })
}

fn digests(hosts: &[Phold]) -> Vec<(u64, u64)> {
    hosts.iter().map(|host| (host.digest, host.handled)).collect()
}

/// Runs on one worker and in every other way, and expects the same.
fn assert_same_for_all(plan: &Arc<Plan>, with: impl Fn(usize, Policy) -> Config) {
    let (hosts, outcome) = phold::run(plan, 1, with(1, Policy::Static));
    let expected = digests(&hosts);
    assert!(expected.iter().all(|(_, handled)| *handled > 50), "every host takes part");
    for workers in [1, 2, 3, 8] {
        for (_, policy) in Policy::NAMES {
            let (hosts, other) = phold::run(plan, 1, with(workers, policy));
            assert_eq!(digests(&hosts), expected, "{workers} workers, {policy:?}");
            assert_eq!(other.last_window, outcome.last_window);
            assert_eq!(other.workers.len(), if policy == Policy::Serial { 1 } else { workers });
            assert!(other.workers.iter().all(|worker| worker.rounds == outcome.workers[0].rounds));
            let sum = |outcome: &engine::Outcome| outcome.workers.iter().map(|w| w.messages_sent).sum::<u64>();
            assert_eq!(sum(&other), sum(&outcome));
            if policy == Policy::Static {
                assert!(other.workers.iter().all(|worker| worker.hosts_stolen == 0));
            }
        }
    }
}

#[test]
fn digests_do_not_depend_on_workers_or_policy() {
    assert_same_for_all(&plan(50, 1), config);
}

#[test]
fn hosts_that_need_what_one_worker_has_do_not_change_what_happens() {
    for exclusive_of in [1, 3] {
        assert_same_for_all(&Arc::new(Plan { exclusive_of, ..Arc::into_inner(plan(50, 1)).unwrap() }), config);
    }
    // The plan is the same, whoever needs what.
    let digests_of = |exclusive_of| {
        let plan = Arc::new(Plan { exclusive_of, ..Arc::into_inner(plan(50, 1)).unwrap() });
        digests(&phold::run(&plan, 1, config(3, Policy::Steal)).0)
    };
    assert_eq!(digests_of(0), digests_of(2));
}

#[test]
fn ties_are_broken_the_same_way_everywhere() {
    assert_same_for_all(&plan(20, 100_000), config);
}

#[test]
fn a_runahead_floor_is_as_deterministic() {
    let runahead = Some(SimDuration::from_millis(1));
    assert_same_for_all(&plan(30, 1), |workers, policy| Config { runahead, ..config(workers, policy) });
}

#[test]
fn more_workers_than_hosts_do_no_harm() {
    assert_same_for_all(&plan(3, 1), config);
}

#[test]
fn seeds_differ() {
    let plan = plan(10, 1);
    let of = |seed| digests(&phold::run(&plan, seed, config(2, Policy::Steal)).0);
    assert_ne!(of(1), of(2));
    assert_eq!(of(2), of(2));
}
