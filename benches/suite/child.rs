//! Measures that need a fresh process: loading guests with `guest` alone or with all of `simkernel`, by one thread or two.

use crate::bare::BareHost;
use crate::machine;
use crate::native;
use base::wall::WallClock;
use base::{HostId, SimTime};
use guest::{Counters, Worker, counters};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use serde_json::{Value, json};
use simkernel::exec::ProcessSpec;
use simkernel::host::Addresses;
use simkernel::{HostConfig, HostName, Kernel};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;

/// 11.0.0.1, as runs have it.
const FIRST_ADDRESS: u32 = 0x0b00_0001;
/// Real descriptors for guests' files, as runs have them.
const GUEST_DESCRIPTORS: usize = 12_000;
/// Nothing but the host's own timers interrupts its threads.
const ALONE: SimTime = SimTime::MAX;
/// Hosts of an experiment in which threads load at once: each of two, and one alone before.
const PAIR_HOSTS: u32 = 3;

/// Executes `child MODE ...` and gives what it measured.
pub fn main(arguments: &[String]) -> Value {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a whole number");
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    match arguments[..] {
        ["native", program, count, threads] => native::load(Path::new(program), number(count), number(threads)),
        ["bare", program, count, _] => load(&mut BareHost::new(0, 1, program), number(count)),
        ["whole", program, count, data] => load(&mut WholeHost::new(0, 1, program, data), number(count)),
        ["bare-pair", program, count, _] => pair(number(count), |host| BareHost::new(host, PAIR_HOSTS, program)),
        ["whole-pair", program, count, data] => {
            pair(number(count), |host| WholeHost::new(host, PAIR_HOSTS, program, data))
        }
        ["busy-pair"] => pair(40, |_| BusyHost),
        ["steady", program, rounds, data] => steady(program, number(rounds), data),
        _ => panic!("child {arguments:?}"),
    }
}

/// Something that a thread can load guests into.
pub trait Loader {
    /// Starts one guest and runs it until it waits.
    fn load_one(&mut self, worker: &mut Worker);
}

/// A simulated host as runs have it.
struct WholeHost {
    kernel: Kernel,
    spec: ProcessSpec,
}

impl WholeHost {
    fn new(host: u32, hosts: u32, program: &str, data: &str) -> WholeHost {
        let names: Vec<HostName> = (0..hosts)
            .map(|host| HostName {
                name: format!("host{host}"),
                addresses: Addresses { v4: Ipv4Addr::from(FIRST_ADDRESS + host), v6: None },
            })
            .collect();
        let spec = ProcessSpec {
            path: program.as_bytes().to_vec(),
            name: "program".to_owned(),
            arguments: vec![program.as_bytes().to_vec()],
            environment: Vec::new(),
            working_directory: format!("{}/hosts/host{host}", simkernel::host::DATA_DIRECTORY).into_bytes(),
            kill_at_call: None,
            credentials: Default::default(),
        };
        let own = &names[host as usize];
        let plain = HostConfig::plain(HostId(host), own, &names, Path::new(data));
        std::fs::create_dir_all(&plain.host_dir).expect("a directory for the host");
        let config = HostConfig { real_descriptors: GUEST_DESCRIPTORS / hosts as usize, ..plain };
        WholeHost { kernel: Kernel::new(config), spec }
    }

    /// Runs one process with one argument to its end, passing simulated time where it waits.
    fn run_to_end(&mut self, argument: usize, worker: &mut Worker) {
        self.spec.arguments.truncate(1);
        self.spec.arguments.push(argument.to_string().into_bytes());
        let mut now = SimTime::ZERO;
        self.kernel.spawn(&self.spec, now).expect("the program starts");
        loop {
            self.kernel.run_threads(worker, now, ALONE);
            if let Some(exit) = self.kernel.take_exits().first() {
                assert_eq!(exit.status, simkernel::process::ExitStatus::Exited(0));
                return;
            }
            now = self.kernel.next_timer().expect("a guest that waits for time only");
            self.kernel.fire_timers(now);
        }
    }
}

impl Loader for WholeHost {
    fn load_one(&mut self, worker: &mut Worker) {
        self.kernel.spawn(&self.spec, SimTime::ZERO).unwrap_or_else(|error| panic!("{}", error.message));
        self.kernel.run_threads(worker, SimTime::ZERO, ALONE);
        assert!(self.kernel.take_exits().is_empty(), "a guest ended instead of waiting");
    }
}

/// Computes in registers: what two processors of this machine do together at best.
struct BusyHost;

impl Loader for BusyHost {
    fn load_one(&mut self, _worker: &mut Worker) {
        let mut state = 1u64;
        for step in 0..5_000_000u64 {
            state = std::hint::black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(step));
        }
    }
}

fn load(host: &mut impl Loader, count: usize) -> Value {
    guest::map_arenas().expect("arenas");
    let mut worker = Worker::new().expect("a worker");
    let own = || (machine::own_kb("RssAnon"), machine::own_kb("VmPTE"), machine::own_mappings());
    let (anonymous, tables, mappings) = own();
    let faults = faults_so_far();
    let used = machine::used_kb();
    let clock = WallClock::start();
    host.load_one(&mut worker);
    let first_seconds = clock.elapsed().as_secs_f64();
    let after_first = counters();
    for _ in 1..count {
        host.load_one(&mut worker);
    }
    let seconds = clock.elapsed().as_secs_f64();
    let kb = machine::used_kb().saturating_sub(used);
    let after = own();
    let rest = difference(after_first, counters());
    let each = |calls: u64| calls as f64 / (count - 1).max(1) as f64;
    json!({
        "seconds": seconds,
        "first_seconds": first_seconds,
        "kb": kb,
        "anonymous_kb": after.0.saturating_sub(anonymous),
        "page_table_kb": after.1.saturating_sub(tables),
        "mappings": after.2.saturating_sub(mappings),
        "faults": faults_so_far() - faults,
        "map_calls_each": each(rest.map_calls),
        "advise_calls_each": each(rest.advise_calls),
    })
}

fn difference(before: Counters, after: Counters) -> Counters {
    Counters {
        map_calls: after.map_calls - before.map_calls,
        advise_calls: after.advise_calls - before.advise_calls,
        ..after
    }
}

fn faults_so_far() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.minor_page_faults())
}

/// The rate of two threads, each with a host of its own, over that of one. Host 2 is alone first.
fn pair<L: Loader>(count: usize, make: impl Fn(u32) -> L + Sync) -> Value {
    guest::map_arenas().expect("arenas");
    let alone = timed_threads(2..3, count, &make);
    let together = timed_threads(0..2, count, &make);
    json!({ "gain": 2.0 * alone / together, "alone_seconds": alone, "together_seconds": together })
}

/// Wall time until a thread for each of these hosts has loaded `count` guests each, what is made once left out.
fn timed_threads<L: Loader>(hosts: Range<u32>, count: usize, make: &(impl Fn(u32) -> L + Sync)) -> f64 {
    let barrier = Barrier::new(hosts.len() + 1);
    std::thread::scope(|scope| {
        for host in hosts {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut worker = Worker::new().expect("a worker");
                let mut loader = make(host);
                for _ in 0..3 {
                    loader.load_one(&mut worker);
                }
                barrier.wait();
                for _ in 0..count {
                    loader.load_one(&mut worker);
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let clock = WallClock::start();
        barrier.wait();
        clock.elapsed().as_secs_f64()
    })
}

/// What a program that takes a number of rounds costs in its steady state: a run of 2N rounds against one of N, both warm.
fn steady(program: &str, rounds: usize, data: &str) -> Value {
    guest::map_arenas().expect("arenas");
    let mut worker = Worker::new().expect("a worker");
    let mut host = WholeHost::new(0, 1, program, data);
    let mut run = |rounds: usize| {
        let (before, clock) = (counters(), WallClock::start());
        host.run_to_end(rounds, &mut worker);
        (difference(before, counters()), clock.elapsed().as_secs_f64())
    };
    run(rounds);
    let (single, single_seconds) = run(rounds);
    let (double, double_seconds) = run(2 * rounds);
    drop(worker);
    let native = |rounds: usize| crate::measure::seconds(std::process::Command::new(program).arg(rounds.to_string()));
    let native_each = (native(2 * rounds) - native(rounds)) / rounds as f64;
    json!({
        "map_calls": double.map_calls as f64 - single.map_calls as f64,
        "advise_calls_each": (double.advise_calls as f64 - single.advise_calls as f64) / rounds as f64,
        "seconds_each": (double_seconds - single_seconds) / rounds as f64,
        "native_seconds_each": native_each,
    })
}
