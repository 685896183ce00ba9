//! The counters of hosts, as `sim-stats.json` has them.

use super::host::SimHost;
use recorder::stats::{NetworkStats, SimStats, add};

/// Adds what a host has counted.
pub fn count(stats: &mut SimStats, host: &SimHost) {
    let counts = host.interface.counters();
    let network: &mut NetworkStats = &mut stats.gnomon.network;
    network.packets_sent += counts.sent;
    network.packets_delivered += counts.delivered;
    network.packets_lost += host.gone.lost;
    network.packets_dropped += counts.dropped + host.gone.unroutable;
    network.bytes_sent += counts.sent_bytes;
    network.bytes_delivered += counts.delivered_bytes;
    stats.gnomon.events += host.events_handled;
    let (computing, sum) = (host.kernel.computing, &mut stats.gnomon.computing);
    sum.spins += computing.spins;
    sum.clock_loops += computing.clock_loops;
    sum.over_budget += computing.over_budget;
    sum.preemptions += computing.preemptions;
    sum.preempted_ns += computing.preempted.as_nanos();
    sum.charged_ns += computing.charged.as_nanos();
    let model = host.kernel.model_counts();
    sum.modelled_ns += model.time.as_nanos();
    sum.modelled_intervals += model.intervals;
    sum.modelled_other_sizes += model.other_sizes;
    sum.modelled_unknown_pairs += model.unknown_pairs;
    sum.modelled_unknown_programs += model.unknown_programs;
    stats.gnomon.outputs_refused += host.kernel.outputs_refused;
    for (number, calls) in &host.kernel.unsupported_calls {
        add(&mut stats.gnomon.interception.unsupported, &call_name(*number), *calls);
    }
    for (what, processes) in &host.kernel.escapes {
        add(&mut stats.gnomon.interception.escapes, what, *processes);
    }
    for (site, times) in host.kernel.missed_sites.values() {
        add(&mut stats.gnomon.interception.misses, site, *times);
    }
    for (number, calls) in host.kernel.call_counts.iter().enumerate().filter(|(_, calls)| **calls > 0) {
        add(&mut stats.syscalls, &call_name(number as u64), *calls);
    }
}

fn call_name(number: u64) -> String {
    linux_abi::nr::name(number).map_or_else(|| format!("number {number}"), str::to_owned)
}
