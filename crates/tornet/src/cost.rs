//! What a run of a network will take of the machine, roughly: figures of measured runs, which the test has.

use crate::kinds::Instead;
use crate::load::{self, Expectation};
use crate::network::{Host, Network, Role};
use crate::spec::Amount;

/// What a run takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of the process, each page once.
    pub memory_bytes: f64,
    /// Of all processors together.
    pub processor_s: f64,
}

const MIB: f64 = 1_048_576.0;

const MIB_BESIDES: f64 = 30.0;
/// A server, with what the simulator keeps of its host.
const MIB_PER_SERVER: f64 = 0.4;

/// The memory of a program in MiB, and its processor time in seconds: to start, and for each simulated hour of renewed consensuses.
struct Program {
    mib: f64,
    /// For each relay that the directory has.
    mib_per_relay: f64,
    start_s: f64,
    start_s_per_relay: f64,
    hour_s: f64,
}

/// A client that relays nothing, with its `gnomon-traffic`.
const TOR: Program = Program { mib: 3.5, mib_per_relay: 0.0, start_s: 0.15, start_s_per_relay: 0.0, hour_s: 0.5 };
const ONION_CLIENT: Program =
    Program { mib: 0.7, mib_per_relay: 0.0002, start_s: 0.03, start_s_per_relay: 0.000_04, hour_s: 0.1 };
/// It has a connection to each of the others.
const GNOMON_RELAY: Program =
    Program { mib: 2.6, mib_per_relay: MIB_PER_CONNECTION, start_s: 0.1, start_s_per_relay: 0.000_1, hour_s: 0.3 };
const MIB_PER_CONNECTION: f64 = 0.006;

/// Of a tor that relays, times the square root of their number: connections with each other, and what the public network's load keeps in
/// their buffers.
const MIB_PER_RELAY: f64 = 0.5;
const MIB_PER_RELAY_AND_LOAD: f64 = 1.35;
/// For each MiB of payload: where more relays share it, it comes in smaller pieces over more connections, and more memory is touched for it.
const CPU_S_PER_MIB: f64 = 0.015;
const CPU_S_PER_MIB_AND_LOG_RELAYS: f64 = 0.023;

/// Payload of each repetition of what a client does, where clients end.
const MIB_PER_TIME: f64 = 6.0;

/// What a run will take. `expected` is the load, where there is one.
pub fn of_run(network: &Network, expected: Option<&Expectation>) -> Cost {
    let spec = &network.spec;
    let payload_mib = match (spec.amount, expected) {
        (Amount::Times(times), _) => f64::from(times) * f64::from(spec.clients.total()) * MIB_PER_TIME,
        (Amount::Endless, expected) => {
            expected.map_or(0.0, |expected| expected.payload) / 8.0 / MIB * load::full_load_s(spec)
        }
    };
    let count = |is_it: &dyn Fn(&Host) -> bool| network.hosts.iter().filter(|host| is_it(host)).count() as f64;
    let own_relays = count(&|host| network.is_gnomon_relay(host));
    let light = count(&|host| network.other_client(host) == Some(Instead::Gnomon));
    let servers = count(&|host| host.role == Role::Server);
    let tors = f64::from(spec.tors()) - own_relays - light;
    let relays = f64::from(spec.relays.relays() + spec.relays.bridges).max(1.0);
    let tor_relays = relays + f64::from(spec.relays.authorities) - own_relays;
    let hours = spec.total.as_secs_f64() / 3600.0;
    let mib_per_tor_relay = (MIB_PER_RELAY + MIB_PER_RELAY_AND_LOAD * spec.load.unwrap_or(1.0))
        * (relays + f64::from(spec.relays.authorities)).sqrt();
    let of = |program: &Program, count: f64| {
        let mib = count * (program.mib + program.mib_per_relay * relays);
        (mib, count * (program.start_s + program.start_s_per_relay * relays + program.hour_s * hours))
    };
    let (tor_mib, tor_s) = of(&TOR, tors);
    let (light_mib, light_s) = of(&ONION_CLIENT, light);
    let (relay_mib, relay_s) = of(&GNOMON_RELAY, own_relays);
    let mib = MIB_BESIDES
        + MIB_PER_SERVER * servers
        + tor_mib
        + (mib_per_tor_relay - TOR.mib) * tor_relays
        + light_mib
        + relay_mib
        + MIB_PER_CONNECTION * own_relays / relays * f64::from(spec.clients.total());
    let cpu_s_per_mib = CPU_S_PER_MIB + CPU_S_PER_MIB_AND_LOG_RELAYS * relays.ln();
    Cost { memory_bytes: mib * MIB, processor_s: tor_s + light_s + relay_s + payload_mib * cpu_s_per_mib }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ClientCounts, RelayCounts, Spec};
    use crate::{Model, Replacement, balance, profile, scaled};
    use base::{Bandwidth, SimDuration};

    fn of(spec: Spec) -> Cost {
        let network = Network::without_keys(spec, &Model::public()).expect("a network");
        of_run(&network, load::expectation(&network, &balance::shares(&network)).as_ref())
    }

    fn spec(name: &str) -> Spec {
        profile(name).expect("a profile").spec()
    }

    fn times(bootstrap_s: u64, total_s: u64, spec: Spec) -> Spec {
        let settle = SimDuration::from_secs(40);
        Spec { bootstrap: SimDuration::from_secs(bootstrap_s), settle, total: SimDuration::from_secs(total_s), ..spec }
    }

    /// The runs of 2026-11-23 on two cores of an Intel Sapphire Rapids that others used too: processor time in seconds, and the peak of Pss in MiB.
    #[test]
    fn runs_take_what_was_foretold_within_a_factor_of_one_and_a_half() {
        let with = |markov, performance, spec: Spec| {
            let clients = ClientCounts { markov, performance, ..ClientCounts::default() };
            Spec { clients, ..spec }
        };
        let few = |mbit: u64| {
            let relays = RelayCounts { authorities: 3, guards: 3, exits: 2, guard_exits: 2, middles: 2, bridges: 0 };
            let line = Some(Bandwidth::from_bits_per_sec(mbit * 1_000_000));
            with(30, 8, Spec { relays, servers: 4, relay_bandwidth: line, ..spec("paper-small") })
        };
        let light = |spec| {
            let own = Replacement::everywhere(Instead::Gnomon);
            Spec { relay_kind: own.clone(), client_kind: own, ..spec }
        };
        let web = |clients, (guards, middles, exits), servers, (bootstrap_s, total_s)| {
            let relays = RelayCounts { authorities: 3, guards, middles, exits, guard_exits: 0, bridges: 0 };
            let clients = ClientCounts { web: clients, ..ClientCounts::default() };
            let spec = Spec { relays, clients, servers, amount: Amount::Endless, ..spec("tiny") };
            Spec { settle: SimDuration::from_secs(20), ..times(bootstrap_s, total_s, spec) }
        };
        let small = |total_s| times(90, total_s, with(200, 90, spec("paper-small")));
        let large = scaled(&Model::public(), 0.02, 100).expect("a fair scale");
        let settle = SimDuration::from_secs(10);
        let tenth = scaled(&Model::public(), 0.1, 100).expect("a fair scale");
        let tenth = Spec { load: Some(0.05), settle, ..times(90, 390, tenth) };
        let measured = [
            ("tiny", spec("tiny"), 5.5, 86.0),
            ("bridges-onions", spec("bridges-onions"), 6.7, 111.0),
            ("nine relays of 15 Mbit/s", times(1800, 2160, few(15)), 77.0, 224.0),
            ("nine relays of 20 Mbit/s", times(1800, 2160, few(20)), 97.0, 230.0),
            ("paper-small, 210 s", small(210), 306.0, 1215.0),
            ("paper-small, 190 s", small(190), 288.0, 1235.0),
            ("scale 0.02, 153 s", times(90, 153, with(158, 160, large.clone())), 1413.0, 3570.0),
            ("scale 0.02, 238 s", times(90, 238, with(158, 200, large)), 3728.0, 4969.0),
            // 2026-11-26, one core of an Intel server.
            ("scale 0.1, a twentieth of the load", tenth, 4369.0, 13_523.0),
            // 2026-11-28, one of two cores of an Intel Cascade Lake, beside tests.
            ("tiny, light", light(spec("tiny")), 6.2, 94.0),
            ("220 light clients", light(web(220, (4, 4, 4), 2, (60, 180))), 28.2, 246.0),
            ("400 light clients", light(web(400, (12, 15, 8), 75, (120, 300))), 86.8, 449.0),
        ];
        for (name, spec, processor_s, mib) in measured {
            let cost = of(spec);
            let (time, memory) = (cost.processor_s / processor_s, cost.memory_bytes / MIB / mib);
            println!("{name}: {time:.2} of the processor time, {memory:.2} of the memory");
            for ratio in [time, memory] {
                assert!((1.0 / 1.5..1.5).contains(&ratio), "{name}: {cost:?}, measured {processor_s} s, {mib} MiB");
            }
        }
    }
}
