//! What a run of a network will take of the machine, roughly: figures of measured runs, which the test has.

use crate::load::{self, Expectation};
use crate::spec::{Amount, Spec};

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
/// Of a tor that relays nothing.
const MIB_PER_CLIENT: f64 = 3.5;
/// Of a relay, times the square root of their number: connections with each other, and what the public network's load keeps in their buffers.
const MIB_PER_RELAY: f64 = 0.5;
const MIB_PER_RELAY_AND_LOAD: f64 = 1.35;

/// To start, and to follow the consensuses.
const CPU_S_PER_TOR: f64 = 0.15;
const CPU_S_PER_TOR_AND_HOUR: f64 = 0.5;
/// For each MiB of payload: where more relays share it, it comes in smaller pieces over more connections, and more memory is touched for it.
const CPU_S_PER_MIB: f64 = 0.015;
const CPU_S_PER_MIB_AND_LOG_RELAYS: f64 = 0.023;

/// Payload of each repetition of what a client does, where clients end.
const MIB_PER_TIME: f64 = 6.0;

/// What a run will take. `expected` is the load, where there is one.
pub fn of_run(spec: &Spec, expected: Option<&Expectation>) -> Cost {
    let payload_mib = match (spec.amount, expected) {
        (Amount::Times(times), _) => f64::from(times) * f64::from(spec.clients.total()) * MIB_PER_TIME,
        (Amount::Endless, expected) => {
            expected.map_or(0.0, |expected| expected.payload) / 8.0 / MIB * load::full_load_s(spec)
        }
    };
    let (tors, hours) = (f64::from(spec.tors()), spec.total.as_secs_f64() / 3600.0);
    let relays = f64::from(spec.relays.relays() + spec.relays.bridges).max(1.0);
    let relaying = relays + f64::from(spec.relays.authorities);
    let cpu_s_per_mib = CPU_S_PER_MIB + CPU_S_PER_MIB_AND_LOG_RELAYS * relays.ln();
    let mib_per_relay = MIB_PER_RELAY + MIB_PER_RELAY_AND_LOAD * spec.load.unwrap_or(1.0);
    let mib = MIB_BESIDES + MIB_PER_CLIENT * (tors - relaying) + mib_per_relay * relaying.sqrt() * relaying;
    Cost {
        memory_bytes: mib * MIB,
        processor_s: tors * (CPU_S_PER_TOR + CPU_S_PER_TOR_AND_HOUR * hours) + payload_mib * cpu_s_per_mib,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ClientCounts, RelayCounts};
    use crate::{Model, Network, balance, profile, scaled};
    use base::{Bandwidth, SimDuration};

    fn of(spec: Spec) -> Cost {
        let network = Network::without_keys(spec, &Model::public()).expect("a network");
        of_run(&network.spec, load::expectation(&network, &balance::shares(&network)).as_ref())
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
