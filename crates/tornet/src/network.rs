//! The network that a `Spec` leads to: every host with its role, place, line, address and keys. Pure data, from which
//! `experiment`, `torrc` and `traffic` write files.

use crate::churn::{self, Outage};
use crate::geography::Geography;
use crate::keys::{AuthorityKeys, Obfs4State, OnionKeys, RelayIdentity};
use crate::kinds::{self, Instead};
use crate::model::Model;
use crate::paths::{self, PathModel};
use crate::spec::{LinkClass, Spec, Transport};
use crate::{Error, attack, overload, relay_options, sample};
use base::{Bandwidth, SeedTree, SimDuration};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Authority,
    Guard,
    Exit,
    GuardExit,
    Middle,
    Bridge,
    OnionService,
    Server,
    Client(Behaviour),
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    Web,
    Bulk,
    Performance,
    Markov,
    Onion,
    Bridge,
}

impl Behaviour {
    pub fn name(self) -> &'static str {
        match self {
            Behaviour::Web => "web",
            Behaviour::Bulk => "bulk",
            Behaviour::Performance => "performance",
            Behaviour::Markov => "markov",
            Behaviour::Onion => "onion",
            Behaviour::Bridge => "bridge",
        }
    }
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Authority => "authority",
            Role::Guard => "guard",
            Role::Exit => "exit",
            Role::GuardExit => "guard-exit",
            Role::Middle => "middle",
            Role::Bridge => "bridge",
            Role::OnionService => "onion-service",
            Role::Server => "server",
            Role::Client(_) => "client",
        }
    }

    pub fn behaviour(self) -> Option<Behaviour> {
        match self {
            Role::Client(behaviour) => Some(behaviour),
            _ => None,
        }
    }

    /// Whether authorities are to vote it Guard.
    pub fn is_guard(self) -> bool {
        matches!(self, Role::Guard | Role::GuardExit)
    }

    /// Whether it lets traffic out, and authorities are to vote it Exit.
    pub fn is_exit(self) -> bool {
        matches!(self, Role::Exit | Role::GuardExit)
    }

    /// Whether other hosts name it by its fingerprint.
    pub(crate) fn has_identity(self) -> bool {
        matches!(self, Role::Authority | Role::Guard | Role::Exit | Role::GuardExit | Role::Middle | Role::Bridge)
    }

    /// Whether it is a guard, middle relay or exit of the consensus.
    pub fn is_relay(self) -> bool {
        matches!(self, Role::Guard | Role::Exit | Role::GuardExit | Role::Middle)
    }

    /// Whether it is a client of servers that enters by guards.
    pub fn enters_by_guards(self) -> bool {
        use Behaviour::{Bulk, Markov, Performance, Web};
        matches!(self, Role::Client(Web | Bulk | Performance | Markov))
    }

    pub fn runs_tor(self) -> bool {
        self != Role::Server
    }

    fn host_prefix(self) -> &'static str {
        match self {
            Role::Authority => "authority",
            Role::Guard => "guard",
            Role::Exit => "exit",
            Role::GuardExit => "guardexit",
            Role::Middle => "middle",
            Role::Bridge => "bridge",
            Role::OnionService => "onion",
            Role::Server => "server",
            Role::Client(Behaviour::Web) => "webclient",
            Role::Client(Behaviour::Bulk) => "bulkclient",
            Role::Client(Behaviour::Performance) => "perfclient",
            Role::Client(Behaviour::Markov) => "markovclient",
            Role::Client(Behaviour::Onion) => "onionclient",
            Role::Client(Behaviour::Bridge) => "bridgeclient",
        }
    }
}

/// Where a host is attached: a place, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Index of the geography's place.
    pub place: usize,
    /// Which of the place's sites.
    pub site: u8,
    /// Index of the spec's client links; None for hosts in data centres, which are right at the place.
    pub link: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    pub role: Role,
    pub address: Ipv4Addr,
    pub attachment: Attachment,
    pub up: Bandwidth,
    pub down: Bandwidth,
    /// The weight in the consensus, in the bandwidth file's kilobytes per second; relays only.
    pub weight: u64,
    /// Relays, authorities and bridges.
    pub identity: Option<RelayIdentity>,
    pub authority: Option<AuthorityKeys>,
    pub onion: Option<OnionKeys>,
    pub obfs4: Option<Obfs4State>,
    /// When it is away, in the order of time.
    pub outages: Vec<Outage>,
    /// How long a system call takes there, of relays that are overloaded.
    pub call_latency: Option<SimDuration>,
    /// The program that it runs instead of tor.
    pub instead: Option<Instead>,
}

/// All hosts, in the order of `Role`.
#[derive(Debug)]
pub struct Network {
    pub spec: Spec,
    /// What relays, users and latencies were taken from.
    pub source: String,
    pub geography: Geography,
    pub hosts: Vec<Host>,
}

/// Authorities' weight in the consensus: they are hardly used for circuits (as in tornettools).
const AUTHORITY_WEIGHT: u64 = 20;
/// tor refuses to relay with less (75 KB/s); a little above.
const LEAST_RELAY_BANDWIDTH: Bandwidth = Bandwidth::from_bits_per_sec(800_000);
const AUTHORITY_BANDWIDTH: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000);

impl Network {
    /// The network of a spec: a function of the spec and the model alone.
    pub fn build(spec: Spec, model: &Model) -> Result<Network, Error> {
        let mut network = Network::without_keys(spec, model)?;
        make_keys(&mut network.hosts, &SeedTree::new(network.spec.seed), &network.spec);
        Ok(network)
    }

    /// Lays the hosts out: what each is, where, on what line, with which address.
    pub(crate) fn without_keys(spec: Spec, model: &Model) -> Result<Network, Error> {
        spec.check()?;
        let seeds = SeedTree::new(spec.seed);
        let mut hosts = relays(&spec, model, &seeds)?;
        hosts.extend(edges(&spec, model, &seeds));
        give_addresses(&mut hosts);
        if spec.paths == PathModel::Varied {
            for host in &mut hosts {
                host.attachment.site = seeds.stream(&host.name, "site").below(paths::SITES) as u8;
            }
        }
        let source = model.source.clone();
        kinds::apply(&mut hosts, &spec)?;
        let mut network = Network { spec, source, geography: model.geography.clone(), hosts };
        relay_options::check(&network)?;
        attack::check(&network)?;
        churn::apply(&mut network, &seeds);
        overload::apply(&mut network, &seeds);
        Ok(network)
    }

    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.role == role)
    }

    /// Whether a host runs `gnomon-relay` instead of tor.
    pub fn is_gnomon_relay(&self, host: &Host) -> bool {
        host.role.is_relay() && host.instead.is_some()
    }

    /// The program that a client runs instead of tor.
    pub fn other_client(&self, host: &Host) -> Option<Instead> {
        host.instead.filter(|_| matches!(host.role, Role::Client(_)))
    }

    /// Whether some client runs this.
    pub fn has_clients(&self, program: Instead) -> bool {
        self.hosts.iter().any(|host| self.other_client(host) == Some(program))
    }

    pub fn has_gnomon_relays(&self) -> bool {
        self.hosts.iter().any(|host| self.is_gnomon_relay(host))
    }

    pub fn count(&self, mut wanted: impl FnMut(Role) -> bool) -> usize {
        self.hosts.iter().filter(|host| wanted(host.role)).count()
    }
}

fn host(role: Role, number: u32, attachment: Attachment, up: Bandwidth, down: Bandwidth) -> Host {
    Host {
        name: format!("{}{number}", role.host_prefix()),
        role,
        address: Ipv4Addr::UNSPECIFIED,
        attachment,
        up,
        down,
        weight: 0,
        identity: None,
        authority: None,
        onion: None,
        obfs4: None,
        outages: Vec::new(),
        call_latency: None,
        instead: None,
    }
}

/// Authorities, relays and bridges.
fn relays(spec: &Spec, model: &Model, seeds: &SeedTree) -> Result<Vec<Host>, Error> {
    let mut hosts = Vec::new();
    let mut places = seeds.stream("", "authorities' places");
    for number in 1..=spec.relays.authorities {
        let attachment = Attachment { place: model.authority_place(&mut places), site: 0, link: None };
        let mut authority = host(Role::Authority, number, attachment, AUTHORITY_BANDWIDTH, AUTHORITY_BANDWIDTH);
        authority.weight = AUTHORITY_WEIGHT;
        hosts.push(authority);
    }
    let counts = [
        (Role::Guard, spec.relays.guards),
        (Role::Exit, spec.relays.exits),
        (Role::GuardExit, spec.relays.guard_exits),
        (Role::Middle, spec.relays.middles),
        // A bridge is what a middle relay would be.
        (Role::Bridge, spec.relays.bridges),
    ];
    for (role, count) in counts {
        let mut rng = seeds.stream("", role.name());
        let chosen = sample::relays(model, role, count as usize, &mut rng)?;
        for (number, relay) in (1..).zip(chosen) {
            let bits =
                spec.relay_bandwidth.unwrap_or(relay.bandwidth).bits_per_sec() as f64 * spec.relay_bandwidth_factor;
            let bandwidth = Bandwidth::from_bits_per_sec(bits.round() as u64).max(LEAST_RELAY_BANDWIDTH);
            let mut host =
                host(role, number, Attachment { place: relay.place, site: 0, link: None }, bandwidth, bandwidth);
            host.weight = match spec.relay_bandwidth {
                Some(bandwidth) => bandwidth.bits_per_sec() / 8000,
                None => relay.weight,
            };
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Clients, servers and onion services.
fn edges(spec: &Spec, model: &Model, seeds: &SeedTree) -> Vec<Host> {
    let mut hosts = Vec::new();
    let server = &spec.server_link;
    for (role, count) in [(Role::OnionService, spec.onion_services), (Role::Server, spec.servers)] {
        let mut rng = seeds.stream("", role.name());
        for number in 1..=count {
            let attachment = Attachment { place: model.server_place(&mut rng), site: 0, link: None };
            hosts.push(host(role, number, attachment, server.up, server.down));
        }
    }
    let clients = &spec.clients;
    let counts = [
        (Behaviour::Web, clients.web),
        (Behaviour::Bulk, clients.bulk),
        (Behaviour::Performance, clients.performance),
        (Behaviour::Markov, clients.markov),
        (Behaviour::Onion, clients.onion),
        (Behaviour::Bridge, clients.bridge),
    ];
    for (behaviour, count) in counts {
        let mut rng = seeds.stream("", behaviour.name());
        for number in 1..=count {
            let place = model.user_place(&mut rng);
            let link = pick_link(&spec.client_links, &mut rng);
            let class = &spec.client_links[link];
            let attachment = Attachment { place, site: 0, link: Some(link) };
            hosts.push(host(Role::Client(behaviour), number, attachment, class.up, class.down));
        }
    }
    hosts
}

fn pick_link(links: &[LinkClass], rng: &mut base::Rng) -> usize {
    let weights: Vec<f64> = links.iter().map(|link| link.weight).collect();
    sample::weighted(&weights, rng)
}

/// Public addresses in blocks by role: authorities 100.0.0.0/16, relays and bridges a /16 each from 20.0.0.0 on, servers
/// 60.0.0.0/16, onion services 61.0.0.0/16, clients 70.0.0.0/8.
fn give_addresses(hosts: &mut [Host]) {
    let mut counts = std::collections::BTreeMap::new();
    for host in hosts {
        let block = match host.role {
            Role::Authority => 100,
            Role::Guard | Role::Exit | Role::GuardExit | Role::Middle | Role::Bridge => 20,
            Role::Server => 60,
            Role::OnionService => 61,
            Role::Client(_) => 70,
        };
        let index: &mut u32 = counts.entry(block).or_insert(0);
        host.address = if block == 20 {
            Ipv4Addr::from((20 << 24) + (*index << 16) + 1)
        } else {
            let (net, host) = (*index / 250, *index % 250 + 1);
            Ipv4Addr::from((block << 24) + (net << 8) + host)
        };
        *index += 1;
    }
}

/// Makes the keys of all hosts on all processors: each depends on its own streams alone.
fn make_keys(hosts: &mut [Host], seeds: &SeedTree, spec: &Spec) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let slots: Vec<std::sync::Mutex<&mut Host>> = hosts.iter_mut().map(std::sync::Mutex::new).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    make_host_keys(&mut slot.lock().expect("no panic while a key is made"), seeds, spec);
                }
            });
        }
    });
}

fn make_host_keys(host: &mut Host, seeds: &SeedTree, spec: &Spec) {
    if host.role.has_identity() {
        let identity = RelayIdentity::generate(seeds, &host.name);
        if host.role == Role::Bridge && spec.transport == Transport::Obfs4 {
            host.obfs4 = Some(Obfs4State::generate(seeds, &host.name, &identity.fingerprint_bytes));
        }
        host.identity = Some(identity);
    }
    match host.role {
        Role::Authority => host.authority = Some(AuthorityKeys::generate(seeds, &host.name, spec.start_date)),
        Role::OnionService => host.onion = Some(OnionKeys::generate(seeds, &host.name)),
        _ => {}
    }
}
