//! Measures the engine: `cargo run --release -p engine --example phold -- [hosts] [balls per host] [wait ms] [work] [seconds]`.
//! Prints events per second for 1, 2, 4, ... workers up to the machine's processors, with both policies.

#[path = "../tests/phold/mod.rs"]
mod phold;

use base::wall::WallClock;
use base::{SimDuration, SimTime};
use engine::{Config, Policy};
use std::sync::Arc;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a whole number"));
    let mut argument = |default| numbers.next().unwrap_or(default);
    let (hosts, balls, wait_ms) = (argument(320) as u32, argument(20) as u32, argument(10));
    let (work, seconds) = (argument(0) as u32, argument(5));
    let incoming = vec![SimDuration::from_millis(5); hosts as usize];
    let (spread, wait) = (20_000_000, wait_ms * 1_000_000);
    let plan =
        Arc::new(phold::Plan { hosts, balls_per_host: balls, incoming, spread, grain: 1, wait, work, exclusive_of: 0 });
    println!("{hosts} hosts, {balls} balls each, mean wait {wait_ms} ms, least latency 5 ms, {seconds} s simulated");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for workers in (0..).map(|n| 1 << n).take_while(|n| *n <= processors) {
        for policy in [Policy::Static, Policy::Steal, Policy::StealLongest] {
            measure(
                &plan,
                Config { workers, policy, stop_time: SimTime::from_nanos(seconds * 1_000_000_000), runahead: None },
            );
        }
    }
}

fn measure(plan: &Arc<phold::Plan>, config: Config) {
    let clock = WallClock::start();
    let (hosts, outcome) = phold::run(plan, 1, config);
    let wall = clock.elapsed().as_secs_f64();
    let events: u64 = hosts.iter().map(|host| host.handled).sum();
    let digest = hosts.iter().fold(0u64, |digest, host| digest.rotate_left(1) ^ host.digest);
    let rounds = outcome.workers[0].rounds;
    println!(
        "{} workers {:8}: {:5.2} M events/s, {events} events, {:.0} ns each, {rounds} rounds, {:.1} us each, digest {digest:016x}",
        config.workers,
        format!("{:?}", config.policy),
        events as f64 / wall / 1e6,
        wall * 1e9 / events as f64,
        wall * 1e6 / rounds as f64,
    );
    for (id, worker) in outcome.workers.iter().enumerate() {
        let (running, stealing) = (worker.running, worker.stealing);
        let (delivering, waiting) = (worker.delivering, worker.waiting);
        let (run, stolen) = (worker.hosts_run, worker.hosts_stolen);
        println!(
            "  worker {id}: ran {run} hosts ({stolen} stolen) {running:.1?}, stole {stealing:.1?}, delivered {delivering:.1?}, waited {waiting:.1?}"
        );
    }
}
