//! What a relay refuses so that it is not robbed of what it has little of (`docs/attacks.md`, "Defences"): limits, and who has used how much
//! of them. Knows no sockets and no cells.

use onion::directory::ConsensusParameters;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is switched on. Names and meanings of `DoS...` are tor's (tor(1), "DENIAL OF SERVICE MITIGATION OPTIONS").
#[derive(Clone, Debug, PartialEq)]
pub struct Defences {
    /// DoSCircuitCreationEnabled; nothing leaves it to the consensus.
    pub circuits_enabled: Option<bool>,
    pub circuits: CircuitOptions,
    /// DoSConnectionEnabled; nothing leaves it to the consensus.
    pub connections_enabled: Option<bool>,
    pub connections: ConnectionOptions,
    /// ChannelCircuitRate and ChannelCircuitBurst: circuits that another relay may create per second, and at once.
    pub of_relays: Option<Rate>,
    /// NetworkReentry: streams to relays are let out; nothing leaves it to the consensus.
    pub reentry: Option<bool>,
    /// Of DisableOOSCheck the opposite: near the limit of descriptors, what was idle for longest is closed.
    pub closes_idle: bool,
    /// RelaysFirst: exiting streams leave sockets to connections of relays and clients.
    pub relays_first: bool,
    /// PuzzleEffort: what CREATE2 must have cost; 0 for nothing.
    pub puzzle_effort: u32,
    /// MaxRelayEarly: RELAY_EARLY cells of a circuit; nothing for any number.
    pub relay_early: Option<u32>,
    /// HandshakeTimeout, in milliseconds, and MaxHandshakes: how long a connection's handshake may take, and how many may be unfinished that others
    /// have begun; nothing for any.
    pub handshake_ms: Option<u64>,
    pub handshakes: Option<usize>,
}

/// So many per second, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_s: f64,
    pub burst: f64,
}

/// Options of DoSCircuitCreation...; 0 leaves a number to the consensus, as in tor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitOptions {
    pub rate: u32,
    pub burst: u32,
    pub least_connections: u32,
    pub defence_type: u32,
    pub period_ms: u64,
}

/// Options of DoSConnection...; 0 leaves a number to the consensus, as in tor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    pub rate: u32,
    pub burst: u32,
    pub most: u32,
    pub defence_type: u32,
    pub period_ms: u64,
}

/// What holds for clients' addresses by options, consensus and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub circuits: CircuitLimits,
    pub connections: ConnectionLimits,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitLimits {
    /// DoSCircuitCreationRate and -Burst.
    pub rate: Rate,
    /// DoSCircuitCreationMinConnections: an address with fewer is let be.
    pub least_connections: usize,
    /// Of DoSCircuitCreationDefenseType: 2, and not 1, which does nothing.
    pub refuses: bool,
    /// DoSCircuitCreationDefenseTimePeriod, in milliseconds.
    pub period_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionLimits {
    /// DoSConnectionConnectRate and -Burst.
    pub rate: Rate,
    /// DoSConnectionMaxConcurrentCount: an address with more has no further ones taken.
    pub most: usize,
    /// Of DoSConnectionDefenseType: 2, and not 1, which does nothing.
    pub refuses: bool,
    /// DoSConnectionConnectDefenseTimePeriod, in milliseconds.
    pub period_ms: u64,
}

impl Default for Defences {
    /// As in tor 0.4.9 without a torrc; what tor does not have is off.
    fn default() -> Defences {
        Defences {
            circuits_enabled: None,
            circuits: CircuitOptions::default(),
            connections_enabled: None,
            connections: ConnectionOptions::default(),
            of_relays: None,
            reentry: None,
            closes_idle: false,
            relays_first: false,
            puzzle_effort: 0,
            // Tor's MAX_RELAY_EARLY_CELLS_PER_CIRCUIT and TLS_HANDSHAKE_TIMEOUT.
            relay_early: Some(8),
            handshake_ms: Some(60_000),
            handshakes: None,
        }
    }
}

/// DefenseType: 1 does nothing, 2 refuses.
const REFUSES: u32 = 2;
/// The largest number of a consensus.
const LARGEST: u32 = i32::MAX as u32;

/// What an option says, else the consensus' parameter of this name, else tor's default.
fn number(consensus: &ConsensusParameters, option: u32, name: &str, default: u32) -> u32 {
    if option == 0 { consensus.get(name, default, 1..=LARGEST) } else { option }
}

fn refuses(consensus: &ConsensusParameters, option: u32, name: &str) -> bool {
    number(consensus, option, name, REFUSES) >= REFUSES
}

/// The same of a time in milliseconds, which the consensus has in seconds, so many at least.
fn period_ms(consensus: &ConsensusParameters, option_ms: u64, name: &str, default_s: u32, least_s: u32) -> u64 {
    let of_consensus = || u64::from(consensus.get(name, default_s, least_s..=LARGEST)) * 1000;
    if option_ms == 0 { of_consensus() } else { option_ms }
}

impl CircuitOptions {
    fn limits(&self, consensus: &ConsensusParameters) -> CircuitLimits {
        let number = |option, name, default| number(consensus, option, name, default);
        CircuitLimits {
            rate: Rate {
                per_s: number(self.rate, "DoSCircuitCreationRate", 3).into(),
                burst: number(self.burst, "DoSCircuitCreationBurst", 90).into(),
            },
            least_connections: number(self.least_connections, "DoSCircuitCreationMinConnections", 3) as usize,
            refuses: refuses(consensus, self.defence_type, "DoSCircuitCreationDefenseType"),
            period_ms: period_ms(consensus, self.period_ms, "DoSCircuitCreationDefenseTimePeriod", 3600, 0),
        }
    }
}

impl ConnectionOptions {
    fn limits(&self, consensus: &ConsensusParameters) -> ConnectionLimits {
        let number = |option, name, default| number(consensus, option, name, default);
        ConnectionLimits {
            rate: Rate {
                per_s: number(self.rate, "DoSConnectionConnectRate", 20).into(),
                burst: number(self.burst, "DoSConnectionConnectBurst", 40).into(),
            },
            most: number(self.most, "DoSConnectionMaxConcurrentCount", 100) as usize,
            refuses: refuses(consensus, self.defence_type, "DoSConnectionDefenseType"),
            period_ms: period_ms(consensus, self.period_ms, "DoSConnectionConnectDefenseTimePeriod", 86_400, 10),
        }
    }
}

impl Defences {
    /// What holds now.
    pub fn limits(&self, consensus: &ConsensusParameters) -> Limits {
        Limits { circuits: self.circuits.limits(consensus), connections: self.connections.limits(consensus) }
    }

    /// Whether it must be known when circuits were used last.
    pub fn knows_use(&self) -> bool {
        self.closes_idle || self.relays_first
    }
}

/// What is left of a rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at_ms: u64,
}

impl Bucket {
    fn full(rate: Rate, now_ms: u64) -> Bucket {
        Bucket { left: rate.burst, at_ms: now_ms }
    }

    /// Fills it for the time that has passed, and takes one; whether there was one.
    fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        let passed_s = now_ms.saturating_sub(self.at_ms) as f64 / 1000.0;
        self.left = (self.left + passed_s * rate.per_s).min(rate.burst);
        self.at_ms = now_ms;
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}

/// What is known of a client's address.
#[derive(Clone, Copy, Debug)]
struct Address {
    connections: usize,
    circuits: Bucket,
    connects: Bucket,
    /// Until when its circuits, and its connections, are refused.
    circuits_until_ms: u64,
    connects_until_ms: u64,
}

/// Addresses that are kept although nothing is known of them that matters.
const MOST_ADDRESSES: usize = 4096;

/// Who has used how much. Only clients are looked at by address, as in tor: relays are many clients' at once.
#[derive(Debug, Default)]
pub struct Usage {
    addresses: BTreeMap<IpAddr, Address>,
    relays: BTreeMap<[u8; 20], Bucket>,
    /// Circuits, connections and streams that were refused, by whatever limit.
    pub refused_circuits: u64,
    pub refused_connections: u64,
    pub refused_streams: u64,
}

impl Usage {
    fn address(&mut self, limits: &Limits, address: IpAddr, now_ms: u64) -> &mut Address {
        if self.addresses.len() >= MOST_ADDRESSES {
            self.addresses.retain(|_, known| {
                known.connections > 0 || known.circuits_until_ms > now_ms || known.connects_until_ms > now_ms
            });
        }
        self.addresses.entry(address).or_insert_with(|| Address {
            connections: 0,
            circuits: Bucket::full(limits.circuits.rate, now_ms),
            connects: Bucket::full(limits.connections.rate, now_ms),
            circuits_until_ms: 0,
            connects_until_ms: 0,
        })
    }

    /// A client has connected; to be told of its end too.
    pub fn connected(&mut self, limits: &Limits, address: IpAddr, now_ms: u64) {
        let known = self.address(limits, address, now_ms);
        known.connections += 1;
        if !known.connects.take(limits.connections.rate, now_ms) {
            known.connects_until_ms = now_ms + limits.connections.period_ms;
        }
    }

    pub fn disconnected(&mut self, address: IpAddr) {
        if let Some(known) = self.addresses.get_mut(&address) {
            known.connections = known.connections.saturating_sub(1);
        }
    }

    /// Whether a connection from this address is to be closed at once.
    pub fn refuses_connection(&mut self, limits: &ConnectionLimits, address: IpAddr, now_ms: u64) -> bool {
        let Some(known) = self.addresses.get(&address).filter(|_| limits.refuses) else { return false };
        let is_refused = known.connects_until_ms > now_ms || known.connections > limits.most;
        self.refused_connections += u64::from(is_refused);
        is_refused
    }

    /// A client creates a circuit; whether it is to be refused. Who goes beyond the rate is refused for the whole period, longer if it goes on.
    pub fn refuses_circuit_of(&mut self, limits: &Limits, address: IpAddr, now_ms: u64) -> bool {
        let of = limits.circuits;
        let known = self.address(limits, address, now_ms);
        if !known.circuits.take(of.rate, now_ms) && known.connections >= of.least_connections {
            known.circuits_until_ms = now_ms + of.period_ms;
        }
        let is_refused = of.refuses && known.circuits_until_ms > now_ms;
        self.refused_circuits += u64::from(is_refused);
        is_refused
    }

    /// Another relay creates a circuit, for whomever; whether that is beyond its rate.
    pub fn refuses_circuit_from(&mut self, rate: Rate, fingerprint: [u8; 20], now_ms: u64) -> bool {
        let bucket = self.relays.entry(fingerprint).or_insert_with(|| Bucket::full(rate, now_ms));
        let is_refused = !bucket.take(rate, now_ms);
        self.refused_circuits += u64::from(is_refused);
        is_refused
    }
}

/// Sockets from which on idle ones are closed, and how many are left then: tor's `ConnLimit_high_thresh` and `ConnLimit_low_thresh`.
pub fn thresholds(conn_limit: usize) -> (usize, usize) {
    const MOST_IN_RESERVE: usize = 64;
    (conn_limit - (conn_limit / 20).min(MOST_IN_RESERVE), conn_limit / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(11, 0, 0, 1));

    fn usual() -> Limits {
        Defences::default().limits(&ConsensusParameters::default())
    }

    #[test]
    fn what_no_option_says_the_consensus_says() {
        let none = usual();
        let (circuits, connections) = (none.circuits, none.connections);
        assert_eq!((circuits.rate, circuits.least_connections), (Rate { per_s: 3.0, burst: 90.0 }, 3));
        assert_eq!((connections.rate, connections.most), (Rate { per_s: 20.0, burst: 40.0 }, 100));
        assert_eq!((circuits.period_ms, connections.period_ms), (3_600_000, 86_400_000));
        assert!(circuits.refuses && connections.refuses);
        let consensus = "DoSCircuitCreationBurst=20 DoSCircuitCreationDefenseType=1 DoSConnectionMaxConcurrentCount=5 \
                         DoSConnectionConnectDefenseTimePeriod=3";
        let consensus = ConsensusParameters::read(consensus).unwrap();
        let options = CircuitOptions { rate: 7, least_connections: 1, ..CircuitOptions::default() };
        let both = Defences { circuits: options, ..Defences::default() }.limits(&consensus);
        assert_eq!(both.circuits.rate, Rate { per_s: 7.0, burst: 20.0 });
        assert_eq!((both.circuits.least_connections, both.circuits.refuses), (1, false));
        assert_eq!((both.connections.most, both.connections.period_ms), (5, 10_000));
        let options = CircuitOptions { defence_type: 2, ..options };
        assert!(Defences { circuits: options, ..Defences::default() }.limits(&consensus).circuits.refuses);
    }

    #[test]
    fn an_address_that_creates_too_many_circuits_is_refused_for_a_time() {
        let limits = usual();
        let mut usage = Usage::default();
        let refused = |usage: &mut Usage, now_ms| usage.refuses_circuit_of(&limits, ADDRESS, now_ms);
        (0..200).for_each(|_| assert!(!refused(&mut usage, 0), "it has no connections, so it is let be"));
        (0..3).for_each(|_| usage.connected(&limits, ADDRESS, 0));
        assert!(refused(&mut usage, 10), "its bucket is empty");
        assert!(refused(&mut usage, 3_600_000), "the period is not over");
        // It has filled meanwhile, and is fuller than what is asked for.
        assert!(!refused(&mut usage, 3_600_010 + 1));
        assert_eq!(usage.refused_circuits, 2);
        let lenient = Limits { circuits: CircuitLimits { refuses: false, ..limits.circuits }, ..limits };
        (0..200).for_each(|_| assert!(!usage.refuses_circuit_of(&lenient, ADDRESS, 3_600_012)));
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let limits = usual();
        let mut usage = Usage::default();
        // One more than the number, as in tor.
        for second in 0..=100 {
            assert!(!usage.refuses_connection(&limits.connections, ADDRESS, second * 1000));
            usage.connected(&limits, ADDRESS, second * 1000);
        }
        assert!(usage.refuses_connection(&limits.connections, ADDRESS, 101_000));
        usage.disconnected(ADDRESS);
        assert!(!usage.refuses_connection(&limits.connections, ADDRESS, 101_000));
        // Forty at once are allowed, one more is not.
        (0..41).for_each(|_| {
            usage.connected(&limits, ADDRESS, 200_000);
            usage.disconnected(ADDRESS);
        });
        assert!(usage.refuses_connection(&limits.connections, ADDRESS, 200_000 + 86_399_999));
        assert!(!usage.refuses_connection(&limits.connections, ADDRESS, 200_000 + 86_400_000));
    }

    #[test]
    fn a_relay_creates_circuits_at_its_rate() {
        let rate = Rate { per_s: 2.0, burst: 5.0 };
        let mut usage = Usage::default();
        let made = |usage: &mut Usage, who: u8, now_ms| {
            (0..20).filter(|_| !usage.refuses_circuit_from(rate, [who; 20], now_ms)).count()
        };
        assert_eq!([made(&mut usage, 1, 0), made(&mut usage, 1, 1500), made(&mut usage, 2, 1500)], [5, 3, 5]);
    }

    #[test]
    fn addresses_that_do_not_matter_are_forgotten() {
        let limits = usual();
        let mut usage = Usage::default();
        for number in 0..10_000_u32 {
            usage.connected(&limits, IpAddr::V4(number.into()), 0);
            usage.disconnected(IpAddr::V4(number.into()));
        }
        assert!(usage.addresses.len() <= MOST_ADDRESSES);
    }

    #[test]
    fn sockets_in_reserve_are_tors() {
        assert_eq!(thresholds(4096), (4032, 3072));
        assert_eq!(thresholds(64), (61, 48));
    }
}
