//! The parameters of the network, which an authority tells with the consensus (dir-spec, "Consensus status documents"), and whether the
//! consensus lists this relay.

use crate::http::Exchange;
use crate::log;
use crate::torrc::Authority;
use mio::net::TcpStream;
use onion::directory::{ConsensusParameters, LONGEST_PREAMBLE, Preamble, identity_text};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Until authorities have agreed on a first consensus, they are asked again after this long, and later when it failed, in milliseconds.
const AGAIN_MS: u64 = 10_000;
const AGAIN_LATER_MS: u64 = 60_000;
/// An authority that does not answer in that time has failed.
const PATIENCE_MS: u64 = 60_000;
/// Bytes of a consensus that are kept where its relays matter: the public network's has some 2 MB.
const LONGEST: usize = 16 << 20;
/// After a consensus has become stale, the next one is asked for after this long at least, and up to 256 steps later, so that not all
/// relays ask at once; in milliseconds.
const STALE_MS: u64 = 5_000;
const STEP_MS: u64 = 100;

/// Asks one authority after the other.
pub struct Parameters {
    authorities: Vec<Authority>,
    /// Who is asked next.
    next: usize,
    /// When this relay asks among all.
    step: u8,
    exchange: Option<Exchange>,
    /// When something is to be done: ask, or give up. Nothing without authorities.
    pub due_ms: Option<u64>,
    is_known: bool,
    /// Those of the latest consensus; before it is there, those that all relays begin with.
    pub current: ConsensusParameters,
    /// What a consensus says if it lists this relay; None for relays that do not publish themselves, and from when one has listed it.
    own_entry: Option<Vec<u8>>,
    /// Whether the relays of the consensus matter too, and where these and the authorities take connections.
    wants_relays: bool,
    relays: BTreeSet<SocketAddr>,
}

impl Parameters {
    /// `identity` tells relays from each other. Whether `is_published`, it waits to be listed in the consensus.
    pub fn new(authorities: Vec<Authority>, identity: &[u8; 20], is_published: bool, wants_relays: bool) -> Parameters {
        let place = identity[0];
        Parameters {
            relays: of_authorities(&authorities),
            own_entry: is_published.then(|| entry(identity)),
            wants_relays,
            next: place.into(),
            step: place,
            exchange: None,
            due_ms: (!authorities.is_empty()).then_some(0),
            authorities,
            is_known: false,
            current: ConsensusParameters::default(),
        }
    }

    /// Asks, or gives up what takes too long; the socket is to be watched if there is a new one.
    pub fn go_on(&mut self, now_ms: u64) -> Option<&mut TcpStream> {
        if self.due_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return None;
        }
        if self.exchange.is_some() {
            self.fail(now_ms, "no answer");
            return None;
        }
        let authority = self.authorities[self.next % self.authorities.len()].directory;
        self.next += 1;
        let request = format!("GET /tor/status-vote/current/consensus-microdesc HTTP/1.0\r\nHost: {authority}\r\n\r\n");
        self.due_ms = Some(now_ms + PATIENCE_MS);
        let most = if self.wants_relays { LONGEST } else { LONGEST_PREAMBLE };
        match Exchange::begin(authority, request.into_bytes(), most) {
            Ok(mut exchange) => {
                if let Some(entry) = &self.own_entry {
                    exchange.search(entry.clone());
                }
                self.exchange = Some(exchange);
            }
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
        self.exchange.as_mut().map(|exchange| &mut exchange.socket)
    }

    /// The socket can do something; `now_s` counts from 1970.
    pub fn ready(&mut self, now_ms: u64, now_s: u64) {
        let Some(exchange) = &mut self.exchange else { return };
        match exchange.go_on() {
            Ok(false) => {}
            Ok(true) => match exchange.body().map(|body| Preamble::read(&body).zip(Some(body))) {
                Ok(Some((consensus, body))) => {
                    let is_listed = exchange.has_found();
                    if self.wants_relays {
                        self.relays = of_authorities(&self.authorities);
                        self.relays.extend(relays(&body));
                    }
                    self.take(consensus, now_ms, now_s);
                    self.say_listed(is_listed, now_ms);
                }
                Ok(None) => self.fail(now_ms, "an answer that is no consensus"),
                // There is none yet.
                Err(line) => self.fail(now_ms, &line),
            },
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
    }

    /// Whether a relay of the consensus, or an authority, takes connections there.
    pub fn has_relay_at(&self, address: SocketAddr) -> bool {
        self.relays.contains(&address)
    }

    /// Whether a relay of the consensus, or an authority, has this address.
    pub fn is_relays(&self, address: IpAddr) -> bool {
        let ports = SocketAddr::new(address, 0)..=SocketAddr::new(address, u16::MAX);
        self.relays.range(ports).next().is_some()
    }

    fn take(&mut self, consensus: Preamble, now_ms: u64, now_s: u64) {
        let wait_ms = match consensus.fresh_until_s.checked_sub(now_s) {
            Some(fresh_s) => fresh_s * 1000 + STALE_MS + u64::from(self.step) * STEP_MS,
            None => AGAIN_LATER_MS,
        };
        (self.exchange, self.is_known, self.due_ms) = (None, true, Some(now_ms + wait_ms));
        self.current = consensus.parameters;
    }

    /// Says once that a consensus lists this relay: from then on clients may choose it, as after tor's line.
    fn say_listed(&mut self, is_listed: bool, now_ms: u64) {
        if self.own_entry.is_none() {
            return;
        }
        if is_listed {
            self.own_entry = None;
            // What reads tor's logs waits for this line.
            log::notice("Bootstrapped 100% (done): Done");
            return;
        }
        let wait_s = self.due_ms.unwrap_or(now_ms).saturating_sub(now_ms) / 1000;
        log::notice(format_args!("The consensus does not list this relay; looking at the next one in {wait_s} s."));
    }

    fn fail(&mut self, now_ms: u64, why: &str) {
        self.exchange = None;
        if self.is_known {
            log::notice(format_args!("No new consensus: {why}; trying again in {} s.", AGAIN_LATER_MS / 1000));
        }
        self.due_ms = Some(now_ms + if self.is_known { AGAIN_LATER_MS } else { AGAIN_MS });
    }
}

fn of_authorities(authorities: &[Authority]) -> BTreeSet<SocketAddr> {
    let both = |one: &Authority| {
        let link = one.or_port.map(|port| SocketAddr::new(one.directory.ip(), port));
        std::iter::once(one.directory).chain(link).collect::<Vec<_>>()
    };
    authorities.iter().flat_map(both).collect()
}

/// What the line of a relay has in it, and no other line of a consensus: its identity between spaces.
fn entry(identity: &[u8; 20]) -> Vec<u8> {
    format!(" {} ", identity_text(identity)).into_bytes()
}

/// Addresses of relays: their lines end with address, ORPort and DirPort (dir-spec, "Router status entries").
fn relays(consensus: &str) -> impl Iterator<Item = SocketAddr> {
    let lines = consensus.lines().filter(|line| line.starts_with("r "));
    lines.flat_map(|line| {
        let mut words = line.rsplit(' ');
        let ports = [words.next(), words.next()].map(|word| word.and_then(|word| word.parse::<u16>().ok()));
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        let ports = ports.into_iter().flatten().filter(|port| *port != 0);
        ports.filter_map(move |port| Some(SocketAddr::new(address?, port)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        let authority = |name: &str| Authority {
            name: name.to_owned(),
            directory: "127.0.0.1:9".parse().unwrap(),
            or_port: None,
            fingerprint: None,
            v3_identity: None,
        };
        Parameters::new(vec![authority("one"), authority("two")], &[3; 20], true, true)
    }

    #[test]
    fn the_next_consensus_is_asked_for_when_this_one_is_stale() {
        let mut parameters = parameters();
        assert_eq!(parameters.due_ms, Some(0));
        let read = ConsensusParameters::read("cc_alg=0").unwrap();
        let consensus =
            Preamble { valid_after_s: 1_000, fresh_until_s: 1_300, valid_until_s: 1_900, parameters: read.clone() };
        parameters.take(consensus.clone(), 7_000, 1_000);
        assert_eq!(parameters.current, read);
        assert_eq!(parameters.due_ms, Some(7_000 + 300_000 + 5_000 + 300));
        parameters.take(consensus, 7_000, 1_301);
        assert_eq!(parameters.due_ms, Some(67_000));
    }

    #[test]
    fn a_failure_is_tried_again_and_changes_nothing() {
        let mut parameters = parameters();
        parameters.fail(1_000, "silence");
        assert_eq!(parameters.due_ms, Some(11_000));
        parameters.is_known = true;
        parameters.fail(1_000, "silence");
        assert_eq!(parameters.due_ms, Some(61_000));
        assert_eq!(parameters.current, ConsensusParameters::default());
        assert_eq!(Parameters::new(Vec::new(), &[1; 20], true, false).due_ms, None);
    }

    #[test]
    fn a_relay_waits_until_a_consensus_lists_it() {
        let mut parameters = parameters();
        assert_eq!(parameters.own_entry.as_deref(), Some(&b" AwMDAwMDAwMDAwMDAwMDAwMDAwM "[..]));
        parameters.say_listed(false, 0);
        assert!(parameters.own_entry.is_some());
        parameters.say_listed(true, 0);
        assert_eq!(parameters.own_entry, None);
    }

    #[test]
    fn relays_are_known_by_their_addresses() {
        let text = "network-status-version 3 microdesc\nr one AAAA 2000-01-01 00:00:00 11.0.0.1 9001 0\nm BBBB\nr two AAAA 2000-01-01 \
                    00:00:00 11.0.0.2 443 80\nr broken\n";
        let found: Vec<String> = relays(text).map(|address| address.to_string()).collect();
        assert_eq!(found, ["11.0.0.1:9001", "11.0.0.2:80", "11.0.0.2:443"]);
        assert!(parameters().has_relay_at("127.0.0.1:9".parse().unwrap()), "an authority");
        assert!(!parameters().has_relay_at("11.0.0.1:9001".parse().unwrap()));
        let mut parameters = parameters();
        parameters.relays.extend(relays(text));
        let are = ["11.0.0.1", "11.0.0.2", "11.0.0.3", "127.0.0.1"]
            .map(|address| parameters.is_relays(address.parse().unwrap()));
        assert_eq!(are, [true, true, false, true]);
    }
}
