//! What network is wanted: the few numbers from which everything else follows, and the rules that they must keep.

use crate::attack::Attack;
use crate::kinds::Replacement;
use crate::paths::PathModel;
use crate::relay_options::RelayOption;
use crate::{Error, churn, overload};
use base::{Bandwidth, ByteSize, SimDuration, StartDate};

/// How many authorities and relays, by what the authorities will vote them to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    pub authorities: u32,
    pub guards: u32,
    pub exits: u32,
    /// Relays that are guard and exit at once.
    pub guard_exits: u32,
    /// Relays that are neither.
    pub middles: u32,
    pub bridges: u32,
}

impl RelayCounts {
    /// Relays in the consensus that carry traffic: neither authorities nor bridges.
    pub fn relays(&self) -> u32 {
        self.guards + self.exits + self.guard_exits + self.middles
    }
}

/// How many clients, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// 320 KiB, then a pause of 1 to 60 s.
    pub web: u32,
    /// 5 MiB back to back.
    pub bulk: u32,
    /// 50 KiB, 1 MiB or 5 MiB, one every 60 s: what measures.
    pub performance: u32,
    /// Streams and packets from Markov models.
    pub markov: u32,
    /// As performance clients, to onion services.
    pub onion: u32,
    /// As performance clients, through a bridge.
    pub bridge: u32,
}

impl ClientCounts {
    pub fn total(&self) -> u32 {
        self.web + self.bulk + self.performance + self.markov + self.onion + self.bridge
    }

    /// Clients that visit web servers rather than onion services.
    pub fn of_servers(&self) -> u32 {
        self.total() - self.onion
    }
}

/// Which of tor's schedulers decides what to write next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    Kist,
    Vanilla,
}

impl Scheduler {
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Kist => "KIST",
            Scheduler::Vanilla => "Vanilla",
        }
    }
}

/// How much tors have on its way in a circuit at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// As much as the path takes (proposal 324), as on the public network since 2022.
    Vegas,
    /// 1,000 cells, and 500 of a stream, as tor had it before.
    Fixed,
}

/// How clients choose guards that are no single user: those that stand for many, and those that measure the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPolicy {
    /// For each circuit anew, by weight: a hundred users have a hundred guards, and OnionPerf measures so.
    Fresh,
    /// As a user's tor does: the same one or two all the time.
    Kept,
}

/// How bridges are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Obfs4,
    /// Tor's own protocol, unobfuscated.
    Plain,
}

/// Whether clients do a fixed amount and end, or go on until the end of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Endless,
    /// Each behaviour this many times.
    Times(u32),
}

/// The line between a host and the Internet.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkClass {
    pub name: String,
    pub down: Bandwidth,
    pub up: Bandwidth,
    /// One way, in addition to the Internet's own.
    pub latency: SimDuration,
    /// The share of packets that get lost on it, each way.
    pub loss: f64,
    /// How common it is among clients, in relation to the other classes.
    pub weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The name of the profile or model that this began with.
    pub profile: String,
    pub seed: u64,
    pub relays: RelayCounts,
    pub clients: ClientCounts,
    pub servers: u32,
    pub onion_services: u32,
    pub amount: Amount,
    /// How many users each Markov client stands for.
    pub users_per_client: u32,
    /// How much Markov clients load the network, 1 being as much as the public network is loaded; None for what so many users ask for.
    pub load: Option<f64>,
    pub guard_policy: GuardPolicy,
    /// What share of the relays go away within an hour; None for relays that stay.
    pub churn: Option<f64>,
    /// What share of the relays are asked for more than their processors can do; None for none.
    pub overloaded: Option<f64>,
    /// Latency, jitter and loss between hosts.
    pub paths: PathModel,
    /// The share of packets that ways lose between hosts that are no clients; none for what `paths` says.
    pub core_loss: Option<f64>,
    /// The size of what bulk clients fetch.
    pub bulk_size: ByteSize,
    /// The sizes that performance clients fetch.
    pub performance_sizes: Vec<ByteSize>,
    /// How often each of these is fetched, in relation to the others; empty for one after the other. Clients that end fetch them so in any case.
    pub performance_weights: Vec<f64>,
    /// When clients begin to load the network.
    pub bootstrap: SimDuration,
    /// How long clients load the network before figures count.
    pub settle: SimDuration,
    /// When the experiment ends.
    pub total: SimDuration,
    /// The time between two consensuses.
    pub voting_interval: SimDuration,
    /// When clocks begin: a whole number of voting intervals after a midnight.
    pub start_date: StartDate,
    /// `gnomon-relay` for guards, middle relays and exits; authorities and bridges always run tor.
    pub relay_kind: Vec<Replacement>,
    /// `gnomon-onion-client` or arti for clients that visit servers and enter by guards; the others always run tor.
    pub client_kind: Vec<Replacement>,
    /// What `gnomon-relay`s are told besides.
    pub relay_options: Vec<RelayOption>,
    /// Exits let streams to relays out.
    pub network_reentry: bool,
    /// What some clients do to a relay.
    pub attack: Option<Attack>,
    pub scheduler: Scheduler,
    pub congestion_control: CongestionControl,
    /// Which ciphers the experiment has replaced by cheap ones: a value of its `cheap_crypto`. None for none.
    pub cheap_crypto: Option<String>,
    pub transport: Transport,
    /// What clients are attached by; at least one.
    pub client_links: Vec<LinkClass>,
    pub server_link: LinkClass,
    /// The bandwidth of every relay; None for the model's distribution.
    pub relay_bandwidth: Option<Bandwidth>,
    /// What the bandwidth of every relay is multiplied by; weights stay.
    pub relay_bandwidth_factor: f64,
    /// Whether clients name servers, so that exits ask the resolver, or give their addresses.
    pub server_names: bool,
}

/// The first consensus: authorities vote with what has arrived `FIRST_CONSENSUS` after their clocks began.
pub const FIRST_CONSENSUS: SimDuration = SimDuration::from_secs(30);
/// Clients start after the first consensus exists, so the network needs this long before it can carry anything.
pub const SHORTEST_BOOTSTRAP: SimDuration = SimDuration::from_secs(60);
/// Nicknames, addresses and the guests' region of addresses leave room for this many hosts.
const MOST_HOSTS: u32 = 60_000;

impl Spec {
    /// Hosts that run tor.
    pub fn tors(&self) -> u32 {
        self.relays.authorities
            + self.relays.relays()
            + self.relays.bridges
            + self.clients.total()
            + self.onion_services
    }

    pub fn hosts(&self) -> u32 {
        self.tors() + self.servers
    }

    /// Refuses what cannot work, with the remedy.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::input(text));
        self.check_relays()?;
        self.check_clients()?;
        self.check_times()?;
        if self.hosts() > MOST_HOSTS {
            return refuse(format!(
                "{} hosts are too many: at most {MOST_HOSTS}; ask for fewer, or a smaller --scale",
                self.hosts()
            ));
        }
        let lossy = |link: &&LinkClass| !(0.0..1.0).contains(&link.loss);
        if let Some(link) = self.client_links.iter().chain([&self.server_link]).find(lossy) {
            return refuse(format!("link class '{}': a loss of {} is not between 0 and 1", link.name, link.loss));
        }
        Ok(())
    }

    fn check_relays(&self) -> Result<(), Error> {
        let relays = &self.relays;
        if relays.authorities == 0 {
            return Err(Error::input(
                "no directory authority, so there would be no consensus; give --authorities 1 or more (3 for bandwidths that are measured)",
            ));
        }
        if relays.exits + relays.guard_exits == 0 && self.clients.of_servers() > 0 {
            return Err(Error::input(format!(
                "no exit, so {} clients could reach no server; give --exits or --guard-exits 1 or more",
                self.clients.of_servers()
            )));
        }
        if relays.guards + relays.guard_exits == 0 {
            return Err(Error::input(
                "no guard, so clients could not enter the network; give --guards or --guard-exits 1 or more",
            ));
        }
        if relays.relays() < 3 {
            return Err(Error::input(format!(
                "{} relays cannot make a circuit of three hops; give at least 3 guards, exits, guard-exits and middles together",
                relays.relays()
            )));
        }
        if !(self.relay_bandwidth_factor > 0.0 && self.relay_bandwidth_factor <= 1000.0) {
            return Err(Error::input("--relay-bandwidth-factor is above 0 and at most 1000".to_owned()));
        }
        if self.core_loss.is_some_and(|share| !(0.0..1.0).contains(&share)) {
            return Err(Error::input(
                "--core-loss is a share of the packets, 0 or more and less than 1: 0.01".to_owned(),
            ));
        }
        if let Some(share) = self.overloaded {
            if !(share > 0.0 && share <= 1.0) {
                return Err(Error::input(format!(
                    "{share} of the relays overloaded: give a share above 0 and up to 1, such as --overloaded 0.1"
                )));
            }
            if self.relay_bandwidth.is_some_and(|line| !overload::can_be(line)) {
                return Err(Error::input(format!(
                    "no relay can be overloaded by its processor on a line that is so slow; give a --relay-bandwidth of {:.1} Mbit/s or more",
                    overload::SLOWEST_LINE.bits_per_sec() as f64 / 1e6
                )));
            }
        }
        if let Some(rate) = self.churn
            && !(rate > 0.0 && rate <= churn::HIGHEST_RATE)
        {
            return Err(Error::input(format!(
                "a churn of {rate}: it is the share of the relays that go away within an hour; give a number up to {}, or --churn alone for \
                 the public network's, {}",
                churn::HIGHEST_RATE,
                churn::PUBLIC_RATE
            )));
        }
        Ok(())
    }

    fn check_clients(&self) -> Result<(), Error> {
        if self.clients.of_servers() > 0 && self.servers == 0 {
            return Err(Error::input(format!(
                "{} clients would have no server to visit; give --servers 1 or more",
                self.clients.of_servers()
            )));
        }
        if self.clients.onion > 0 && self.onion_services == 0 {
            return Err(Error::input(format!(
                "{} onion clients would have no onion service to visit; give --onion-services 1 or more",
                self.clients.onion
            )));
        }
        if self.clients.bridge > 0 && self.relays.bridges == 0 {
            return Err(Error::input(format!(
                "{} bridge clients would have no bridge; give --bridges 1 or more",
                self.clients.bridge
            )));
        }
        if let Some(load) = self.load {
            if self.clients.markov == 0 {
                return Err(Error::input(
                    "--load is what Markov clients make, and there are none; give --markov-clients 1 or more",
                ));
            }
            if !(load > 0.0 && load <= 10.0) {
                return Err(Error::input(format!(
                    "a load of {load}: 1 is the public network's; give a number up to 10"
                )));
            }
        }
        let (sizes, weights) = (self.performance_sizes.len(), &self.performance_weights);
        if !weights.is_empty() && weights.len() != sizes {
            return Err(Error::input(format!(
                "{} weights for the {sizes} sizes that measuring clients fetch; give --performance-weights as many numbers as \
                 --performance-sizes has sizes",
                weights.len()
            )));
        }
        if self.clients.total() == 0 {
            return Err(Error::input("no client, so nothing would happen; give for example --web-clients 10"));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Error> {
        if self.bootstrap < SHORTEST_BOOTSTRAP {
            return Err(Error::input(format!(
                "a bootstrap of {} s is too short: the first consensus is there after {} s, and clients then need as long; give --bootstrap {} s or more",
                self.bootstrap.as_secs_f64(),
                FIRST_CONSENSUS.as_secs_f64(),
                SHORTEST_BOOTSTRAP.as_secs_f64()
            )));
        }
        if self.total <= self.bootstrap {
            return Err(Error::input(format!(
                "the experiment would end after {} s, before its bootstrap of {} s is over; give a longer --duration",
                self.total.as_secs_f64(),
                self.bootstrap.as_secs_f64()
            )));
        }
        if self.total.saturating_sub(self.bootstrap) <= self.settle {
            return Err(Error::input(format!(
                "nothing would be measured: the network has {} s to settle, and the experiment ends {} s after its bootstrap; give a \
                 shorter --settle or a longer --duration",
                self.settle.as_secs_f64(),
                self.total.as_secs_f64() - self.bootstrap.as_secs_f64()
            )));
        }
        let seconds = self.voting_interval.as_nanos() / 1_000_000_000;
        if seconds < 60 || 86_400 % seconds != 0 || !self.voting_interval.as_nanos().is_multiple_of(1_000_000_000) {
            return Err(Error::input(format!(
                "a voting interval of {} s: tor wants whole seconds that divide a day, and a minute at least; give for example --voting-interval '5 min'",
                self.voting_interval.as_secs_f64()
            )));
        }
        if !self.start_date.unix_seconds().is_multiple_of(seconds) {
            return Err(Error::input(format!(
                "a start at {}: authorities vote at whole intervals of {seconds} s after midnight, and the first vote is due at the start; give a --start-date at one of them, such as a day alone",
                self.start_date
            )));
        }
        Ok(())
    }
}
