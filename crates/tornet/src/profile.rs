//! Named networks: where a `Spec` begins before flags change it.

use crate::paths::PathModel;
use crate::spec::{
    Amount, ClientCounts, CongestionControl, GuardPolicy, LinkClass, RelayCounts, Scheduler, Spec, Transport,
};
use base::{Bandwidth, ByteSize, SimDuration};

/// A profile, as listed in the help.
#[derive(Debug)]
pub struct Profile {
    pub name: &'static str,
    pub about: &'static str,
    spec: fn() -> Spec,
}

impl Profile {
    /// The network of this profile with seed 1.
    pub fn spec(&self) -> Spec {
        let mut spec = (self.spec)();
        spec.profile = self.name.to_owned();
        spec
    }
}

pub const PROFILES: &[Profile] = &[
    Profile {
        name: "tiny",
        about: "3 authorities, 6 relays, 5 clients that fetch files of several sizes and end; 3 simulated minutes",
        spec: tiny,
    },
    Profile {
        name: "paper-small",
        about: "the small network of the literature: 20 web servers, 18 relays and 3 authorities, 230 clients (200 Markov, 30 \
                performance), loaded as the public network; a simulated hour, of which 30 minutes bootstrap and 2 settle",
        spec: paper_small,
    },
    Profile {
        name: "bridges-onions",
        about: "as tiny, with an obfs4 bridge, an onion service, and clients of each kind",
        spec: bridges_onions,
    },
];

pub fn profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How often measuring clients fetch 50 KiB, 1 MiB and 5 MiB: the odds of OnionPerf (`model.py`), and of tornettools' performance clients
/// (`generate_tgen.py`). Torperf, before them, fetched 50 KiB twelve times an hour, 1 MiB twice and 5 MiB once.
const PERFORMANCE_WEIGHTS: [f64; 3] = [12.0, 2.0, 1.0];

/// Until the load, queues and windows are what they stay (`load::WARM_UP`), and a minute more.
pub(crate) const SETTLE: SimDuration = SimDuration::from_secs(120);

/// What profiles and models share.
pub(crate) fn base_spec() -> Spec {
    Spec {
        profile: String::new(),
        seed: 1,
        relays: RelayCounts::default(),
        clients: ClientCounts::default(),
        servers: 0,
        onion_services: 0,
        amount: Amount::Endless,
        users_per_client: 100,
        load: None,
        guard_policy: GuardPolicy::Fresh,
        churn: None,
        overloaded: None,
        paths: PathModel::Even,
        core_loss: None,
        bulk_size: ByteSize(5 * MIB),
        performance_sizes: vec![ByteSize(50 * KIB), ByteSize(MIB), ByteSize(5 * MIB)],
        performance_weights: PERFORMANCE_WEIGHTS.to_vec(),
        bootstrap: SimDuration::from_secs(300),
        settle: SimDuration::ZERO,
        total: SimDuration::from_secs(3600),
        voting_interval: SimDuration::from_secs(300),
        start_date: base::StartDate::default(),
        relay_kind: Vec::new(),
        client_kind: Vec::new(),
        relay_options: Vec::new(),
        network_reentry: false,
        attack: None,
        scheduler: Scheduler::Kist,
        congestion_control: CongestionControl::Vegas,
        cheap_crypto: None,
        transport: Transport::Obfs4,
        client_links: client_links(),
        server_link: link("server", 1000, 1000, 0, 0.0, 1.0),
        relay_bandwidth: None,
        relay_bandwidth_factor: 1.0,
        server_names: true,
    }
}

fn tiny() -> Spec {
    Spec {
        relays: RelayCounts { authorities: 3, guards: 2, exits: 2, guard_exits: 1, middles: 1, bridges: 0 },
        clients: ClientCounts { web: 2, bulk: 1, performance: 2, ..ClientCounts::default() },
        servers: 2,
        amount: Amount::Times(2),
        bootstrap: SimDuration::from_secs(75),
        total: SimDuration::from_secs(180),
        ..base_spec()
    }
}

fn bridges_onions() -> Spec {
    let tiny = tiny();
    Spec {
        relays: RelayCounts { bridges: 1, ..tiny.relays },
        clients: ClientCounts { web: 1, bulk: 1, performance: 1, onion: 1, bridge: 1, markov: 0 },
        servers: 1,
        onion_services: 1,
        bootstrap: SimDuration::from_secs(90),
        total: SimDuration::from_secs(240),
        ..tiny
    }
}

/// The size of the small network that simulators are compared with. Exits are more than the public network's share of them: by that,
/// one relay would have most of what leaves the network.
fn paper_small() -> Spec {
    Spec {
        relays: RelayCounts { authorities: 3, guards: 5, exits: 4, guard_exits: 4, middles: 5, bridges: 0 },
        clients: ClientCounts { markov: 200, performance: 30, ..ClientCounts::default() },
        servers: 20,
        users_per_client: 10,
        load: Some(1.0),
        paths: PathModel::Varied,
        bootstrap: SimDuration::from_secs(1800),
        settle: SETTLE,
        total: SimDuration::from_secs(3600),
        ..base_spec()
    }
}

/// How homes are attached. Four classes that cover what is common, in round numbers.
fn client_links() -> Vec<LinkClass> {
    vec![
        link("fibre", 300, 150, 2, 0.0, 0.35),
        link("cable", 150, 15, 8, 0.0, 0.35),
        link("dsl", 25, 5, 15, 0.0005, 0.2),
        link("mobile", 30, 10, 25, 0.002, 0.1),
    ]
}

fn link(name: &str, down_mbit: u64, up_mbit: u64, latency_ms: u64, loss: f64, weight: f64) -> LinkClass {
    LinkClass {
        name: name.to_owned(),
        down: Bandwidth::from_bits_per_sec(down_mbit * 1_000_000),
        up: Bandwidth::from_bits_per_sec(up_mbit * 1_000_000),
        latency: SimDuration::from_millis(latency_ms),
        loss,
        weight,
    }
}
