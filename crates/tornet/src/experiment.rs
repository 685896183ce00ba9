//! `gnomon.yaml` and `tor-network.json`: when which program starts where, and who is who.

use crate::churn::Outage;
use crate::graph::Nodes;
use crate::kinds::Instead;
use crate::network::{Behaviour, Host, Network, Role};
use crate::spec::{Amount, FIRST_CONSENSUS};
use crate::torrc;
use crate::traffic::SERVER_PORT;
use crate::{Programs, arti, attack, balance, load, relay_options};
use base::{SeedTree, SimDuration, StartDate, quantity};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The version of `tor-network.json`: grows when a member changes its meaning or goes.
const NETWORK_SCHEMA: u32 = 1;

/// When authorities start, in seconds.
pub(crate) const AUTHORITIES_START: f64 = 1.0;
/// Relays start within this long, early enough for their descriptors to be in the first votes (at 20 s). They upload a second or
/// two after their start.
pub(crate) const RELAYS_START: (f64, f64) = (10.0, 15.0);
/// So many of them start at one moment, more or less, since each draws its own. A start keeps a processor busy for a fifth of a second, mostly with making RSA keys, while simulated time
/// stands still: workers make those of one moment side by side, and those of different moments one after the other.
const RELAYS_TOGETHER: u32 = 64;
/// Clients start this long after the first consensus, at the earliest: relays, which they ask for descriptors, have these by then.
const CLIENTS_AFTER_CONSENSUS_S: f64 = 15.0;
/// And this long before the bootstrap ends, at the latest.
const CLIENTS_BEFORE_LOAD_S: f64 = 15.0;

/// When programs of a host start, in seconds of simulated time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub tor_s: f64,
    /// The traffic program's.
    pub traffic_s: f64,
    /// How long after that the first transfer begins.
    pub begin_s: f64,
}

impl Times {
    /// Spread by the host's own random stream.
    pub(crate) fn of(network: &Network, host: &Host) -> Times {
        let mut rng = SeedTree::new(network.spec.seed).stream(&host.name, "start times");
        let bootstrap = network.spec.bootstrap.as_secs_f64();
        let first = FIRST_CONSENSUS.as_secs_f64() + CLIENTS_AFTER_CONSENSUS_S;
        match host.role {
            Role::Authority => Times { tor_s: AUTHORITIES_START, traffic_s: 0.0, begin_s: 0.0 },
            Role::Client(_) => {
                let tor_s = between(rng.unit(), (first, bootstrap - CLIENTS_BEFORE_LOAD_S));
                let load = network.spec.total.as_secs_f64() - bootstrap;
                let spread = match network.spec.amount {
                    // They do the same once a minute: all together would measure one moment of each.
                    Amount::Endless if torrc::measures(host.role) => load.min(60.0),
                    _ => load.min(60.0) / 6.0,
                };
                Times { tor_s, traffic_s: bootstrap, begin_s: between(rng.unit(), (0.0, spread)) }
            }
            Role::OnionService => Times { tor_s: first, traffic_s: 1.0, begin_s: 0.0 },
            Role::Server => Times { tor_s: 0.0, traffic_s: 1.0, begin_s: 0.0 },
            // Their start takes longer.
            _ if host.call_latency.is_some() => {
                let tor_s = between(rng.unit(), (AUTHORITIES_START, 2.0 * AUTHORITIES_START));
                Times { tor_s, traffic_s: 0.0, begin_s: 0.0 }
            }
            _ => {
                let relays = network.spec.relays.relays() + network.spec.relays.bridges;
                let tor_s = moment(rng.unit(), RELAYS_START, relays.div_ceil(RELAYS_TOGETHER));
                Times { tor_s, traffic_s: 0.0, begin_s: 0.0 }
            }
        }
    }
}

/// Between two times, to a millisecond; `share` is from 0 to 1.
fn between(share: f64, (from, to): (f64, f64)) -> f64 {
    ((from + share * (to - from).max(0.0)) * 1000.0).round() / 1000.0
}

/// One of so many moments that are equally far from each other, the first of which is `from`.
fn moment(share: f64, (from, to): (f64, f64), moments: u32) -> f64 {
    let moments = f64::from(moments.max(1));
    between((share * moments).floor().min(moments - 1.0) / moments, (from, to))
}

/// The experiment file. `how` is the command line that made it.
pub(crate) fn yaml(network: &Network, programs: &Programs, nodes: &Nodes, how: &str) -> String {
    let spec = &network.spec;
    let mut text = format!(
        "# A private Tor network: {} authorities, {} relays, {} bridges, {} clients, {} servers, {} onion services.\n\
         # Made by: {how}\n# Relays, users and latencies: {}.\n# Run it in this folder:  gnomon run gnomon.yaml\n\n",
        spec.relays.authorities,
        spec.relays.relays(),
        spec.relays.bridges,
        spec.clients.total(),
        spec.servers,
        spec.onion_services,
        network.source
    );
    let _ = write!(
        text,
        "general:\n  stop_time: {}\n  # Until then no bandwidth limits and no loss, so that the network comes up quickly.\n  bootstrap_end_time: {}\n  \
         seed: {}\n  # A system call takes a microsecond: tor divides by spans of time, which must not be nothing.\n  \
         model_unblocked_syscall_latency: true\n  data_directory: gnomon.data\n  template_directory: template\n{}\n",
        time(spec.total),
        time(spec.bootstrap),
        spec.seed,
        start_date(spec.start_date)
    );
    if let Some(what) = &spec.cheap_crypto {
        let _ = write!(
            text,
            "experimental:\n  # Ciphers that protect nothing: no conclusions about processor time. Only Gnomon knows this.\n  cheap_crypto: {what}\n\n"
        );
    }
    text += "network:\n  # The graph has an edge for every pair.\n  use_shortest_path: false\n  graph:\n    type: gml\n    file:\n      path: network.gml\n\n";
    text += &templates(programs);
    if network.has_gnomon_relays() {
        text += &other_template("relay", &programs.relay);
    }
    if network.has_clients(Instead::Gnomon) {
        text += &other_template("onion-client", &programs.client);
    }
    if network.has_clients(Instead::Arti) {
        text += &other_template("arti", &programs.arti);
    }
    text += "\n";
    text += "hosts:\n";
    for host in &network.hosts {
        text += &host_entry(network, host, nodes, programs);
    }
    text
}

/// A line for a date that is not the usual one.
fn start_date(date: StartDate) -> String {
    if date == StartDate::default() {
        return String::new();
    }
    format!(
        "  # The authorities' certificates hold for ten years from a month before this date.\n  start_date: {date}\n"
    )
}

fn time(duration: SimDuration) -> String {
    quantity::exact_duration(duration)
}

/// Settings of the C library's allocator, mallopt(3): a relay that compresses a consensus frees tens of MB again, and these give
/// them back. They save a third of a small network's memory, and change nothing that tor does.
const ALLOCATOR: &str =
    "{ MALLOC_ARENA_MAX: \"1\", MALLOC_MMAP_THRESHOLD_: \"1048576\", MALLOC_TRIM_THRESHOLD_: \"524288\" }";

/// What hosts share, as fields for YAML's merge keys.
fn templates(programs: &Programs) -> String {
    let tor = quoted(&programs.tor);
    let traffic = quoted(&programs.traffic);
    format!(
        "x-tor: &tor\n  path: {tor}\n  environment: {ALLOCATOR}\n  expected_final_state: running\n\
         x-server: &server\n  path: {traffic}\n  args: [server, --listen, \"0.0.0.0:{SERVER_PORT}\"]\n  expected_final_state: running\n\
         x-client: &client\n  path: {traffic}\n  args: [client, traffic.yaml]\n"
    )
}

/// What hosts share that run another program in place of tor.
fn other_template(name: &str, program: &Path) -> String {
    format!("x-{name}: &{name}\n  path: {}\n  expected_final_state: running\n", quoted(program))
}

fn quoted(path: &Path) -> String {
    Value::from(path.display().to_string()).to_string()
}

fn host_entry(network: &Network, host: &Host, nodes: &Nodes, programs: &Programs) -> String {
    let times = Times::of(network, host);
    let options = host.call_latency.map(|latency| format!("    host_options: {{ call_latency: {} }}\n", time(latency)));
    let mut text = format!(
        "  {}:\n    network_node_id: {}\n    ip_addr: {}\n    bandwidth_up: {}\n    bandwidth_down: {}\n{}    processes:\n",
        host.name,
        nodes.id(host.attachment),
        host.address,
        quantity::exact_bandwidth(host.up),
        quantity::exact_bandwidth(host.down),
        options.unwrap_or_default()
    );
    if host.role.runs_tor() {
        let of_tor = |own: String| {
            let shared = torrc::shared_name(host.role);
            format!("args: [--hush, --defaults-torrc, ../../conf/{shared}, -f, torrc{own}]")
        };
        let (program, arguments) = match network.other_client(host) {
            Some(Instead::Gnomon) => {
                ("onion-client", of_tor(relay_options::of_client(network) + &attack::of_host(network, host)))
            }
            Some(Instead::Arti) => ("arti", format!("args: [proxy, --config, ../../conf/{}]", arti::FILE)),
            None if network.is_gnomon_relay(host) => ("relay", of_tor(relay_options::of_host(network, host))),
            None => ("tor", of_tor(String::new())),
        };
        let mut start_s = Some(times.tor_s);
        for outage in &host.outages {
            let Some(from_s) = std::mem::replace(&mut start_s, outage.until_s) else { break };
            let _ = writeln!(
                text,
                "    - {{ <<: *{program}, start_time: {}, {}, {arguments} }}",
                seconds(from_s),
                end_of_tor(outage)
            );
        }
        if let Some(from_s) = start_s {
            let _ = writeln!(text, "    - {{ <<: *{program}, start_time: {}, {arguments} }}", seconds(from_s));
        }
    }
    match host.role {
        Role::Server => {
            let _ = writeln!(text, "    - {{ <<: *server, start_time: {} }}", seconds(times.traffic_s));
        }
        Role::OnionService => {
            let _ = writeln!(
                text,
                "    - {{ path: {}, args: [server, --listen, \"127.0.0.1:{SERVER_PORT}\"], start_time: {}, expected_final_state: running }}",
                quoted(&programs.traffic),
                seconds(times.traffic_s)
            );
        }
        Role::Client(_) => {
            let end = match network.spec.amount {
                Amount::Endless => "running",
                Amount::Times(_) => "{ exited: 0 }",
            };
            let _ = writeln!(
                text,
                "    - {{ <<: *client, start_time: {}, expected_final_state: {end} }}",
                seconds(times.traffic_s)
            );
        }
        _ => {}
    }
    text
}

/// How a relay's tor ends when it goes away.
fn end_of_tor(outage: &Outage) -> String {
    let (signal, state) =
        if outage.why.is_orderly() { ("SIGINT", "{ exited: 0 }") } else { ("SIGKILL", "{ signaled: SIGKILL }") };
    format!("shutdown_time: {}, shutdown_signal: {signal}, expected_final_state: {state}", seconds(outage.from_s))
}

fn seconds(seconds: f64) -> String {
    format!("{} ms", (seconds * 1000.0).round())
}

/// Who is who, for those who read the results.
pub(crate) fn network_json(network: &Network) -> String {
    let shares = balance::shares(network);
    let expected = load::expectation(network, &shares);
    let of_position: BTreeMap<&str, [f64; 3]> =
        shares.iter().map(|shares| (shares.host.name.as_str(), shares.of_position)).collect();
    let hosts: Map<String, Value> = network
        .hosts
        .iter()
        .map(|host| {
            let outages = host.outages.iter().map(|outage| {
                json!({
                    "why": outage.why.name(),
                    "from_s": outage.from_s,
                    "ended_s": outage.ended_s,
                    "until_s": outage.until_s,
                })
            });
            let entry = json!({
                "role": host.role.name(),
                "weight": (host.weight > 0).then_some(host.weight),
                "expected_shares": of_position.get(host.name.as_str()),
                "bandwidth_up_bits": host.up.bits_per_sec(),
                "bandwidth_down_bits": host.down.bits_per_sec(),
                "outages": (!host.outages.is_empty()).then(|| outages.collect::<Vec<_>>()),
                "call_latency_s": host.call_latency.map(SimDuration::as_secs_f64),
                "behaviour": host.role.behaviour().map(Behaviour::name),
                "nickname": host.identity.as_ref().map(|_| host.name.as_str()),
                "fingerprint": host.identity.as_ref().map(|identity| identity.fingerprint.as_str()),
                "country": network.geography.places[host.attachment.place].code,
                "link": host.attachment.link.map(|link| network.spec.client_links[link].name.as_str()),
            });
            (host.name.clone(), entry)
        })
        .collect();
    let value = json!({
        "profile": network.spec.profile,
        "seed": network.spec.seed,
        "schema": NETWORK_SCHEMA,
        "bootstrap_end_s": network.spec.bootstrap.as_secs_f64(),
        "measure_from_s": network.spec.bootstrap.as_secs_f64() + network.spec.settle.as_secs_f64(),
        "expected_utilisation": expected.map(|expected| expected.utilisation),
        "churn_per_hour": network.spec.churn,
        "stop_s": network.spec.total.as_secs_f64(),
        "attack": network.spec.attack.as_ref().map(attack::json),
        "hosts": hosts,
    });
    serde_json::to_string_pretty(&value).expect("JSON of plain values") + "\n"
}
