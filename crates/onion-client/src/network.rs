//! What is known of the network: the consensus that a majority of the authorities has signed, and the microdescriptors that it names.

use onion::directory::{
    Consensus, Entry, KeyCertificate, Microdescriptor, Operator, Preamble, SignedConsensus, Weights,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A relay of which all is known that a circuit needs. Each client keeps all of them, so they lie in one block, without memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub entry: Entry,
    /// For ntor.
    pub onion_key: [u8; 32],
    pub ed25519: Option<[u8; 32]>,
    /// Shared by the relays of which the same is said.
    pub operator: Rc<Operator>,
}

/// The share of the relays whose microdescriptors must be there before circuits are built, in hundredths: tor wants 60 % of the paths.
const ENOUGH: usize = 85;
/// For how long after its end a consensus is still used, in seconds, as tor does.
const GRACE_S: u64 = 24 * 3600;

#[derive(Default)]
pub struct Network {
    /// Identities of the authorities that count.
    trusted: Vec<[u8; 20]>,
    certificates: Vec<KeyCertificate>,
    /// Came, but is not yet known to be good.
    unverified: Option<SignedConsensus>,
    pub current: Option<Current>,
    /// Is good, but its microdescriptors are not yet there.
    coming: Option<Current>,
}

/// A consensus with its relays.
#[derive(Debug)]
pub struct Current {
    pub valid_after_s: u64,
    pub fresh_until_s: u64,
    pub valid_until_s: u64,
    pub weights: Weights,
    /// By fingerprint.
    pub relays: Vec<Relay>,
    missing: Vec<Entry>,
}

/// What is to be asked of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Consensus,
    Certificates,
    /// By digest.
    Microdescriptors(Vec<[u8; 32]>),
}

/// Microdescriptors that one question asks for, at most: more make an address longer than directories take.
const AT_A_TIME: usize = 92;

impl Network {
    pub fn new(trusted: Vec<[u8; 20]>) -> Network {
        Network { trusted, ..Network::default() }
    }

    /// What is missing; a new consensus only if `is_due`.
    pub fn needs(&self, is_due: bool) -> Vec<Need> {
        if self.unverified.is_some() {
            return vec![Need::Certificates];
        }
        if let Some(coming) = &self.coming {
            let digests: Vec<[u8; 32]> = coming.missing.iter().map(|entry| entry.microdescriptor).collect();
            return digests.chunks(AT_A_TIME).map(|part| Need::Microdescriptors(part.to_vec())).collect();
        }
        if is_due { vec![Need::Consensus] } else { Vec::new() }
    }

    /// Takes a consensus; an error says why it is not used.
    pub fn take_consensus(&mut self, text: &str, now_s: u64) -> Result<(), String> {
        let signed = SignedConsensus::read(text).ok_or("a consensus that cannot be read")?;
        let Preamble { valid_after_s, valid_until_s, .. } = signed.consensus.preamble;
        if valid_until_s + GRACE_S < now_s {
            return Err("a consensus that is too old".to_owned());
        }
        if self.current.as_ref().is_some_and(|current| current.valid_after_s >= valid_after_s) {
            return Err("a consensus that is no newer than ours".to_owned());
        }
        self.unverified = Some(signed);
        if self.certificates.is_empty() {
            return Ok(());
        }
        // With certificates that are there perhaps; otherwise others are asked for.
        self.verify(now_s);
        Ok(())
    }

    /// Takes authorities' certificates; an error if the consensus is not signed by enough of them.
    pub fn take_certificates(&mut self, text: &str, now_s: u64) -> Result<(), String> {
        let certificates = KeyCertificate::read_all(text);
        self.certificates = certificates.into_iter().filter(|one| self.trusted.contains(&one.identity)).collect();
        if self.verify(now_s) {
            return Ok(());
        }
        self.unverified = None;
        Err("a consensus that too few of the authorities have signed".to_owned())
    }

    /// Whether what waits for it is signed by a majority, and so is used from now on.
    fn verify(&mut self, now_s: u64) -> bool {
        let is_good =
            |signed: &SignedConsensus| 2 * signed.signers(&self.certificates, now_s).len() > self.trusted.len();
        if !self.unverified.as_ref().is_some_and(is_good) {
            return false;
        }
        let signed = self.unverified.take().expect("just looked");
        self.adopt(signed.consensus);
        true
    }

    fn adopt(&mut self, consensus: Consensus) {
        let relays = self.current.iter().flat_map(|current| &current.relays);
        let known: BTreeMap<[u8; 32], &Relay> = relays.map(|relay| (relay.entry.microdescriptor, relay)).collect();
        let Consensus { preamble: Preamble { valid_after_s, fresh_until_s, valid_until_s, .. }, weights, relays } =
            consensus;
        let mut coming =
            Current { valid_after_s, fresh_until_s, valid_until_s, weights, relays: Vec::new(), missing: Vec::new() };
        for entry in relays.into_iter().filter(|entry| entry.flags.running && entry.flags.valid) {
            match known.get(&entry.microdescriptor) {
                Some(relay) => coming.relays.push(Relay { entry, ..(*relay).clone() }),
                None => coming.missing.push(entry),
            }
        }
        self.coming = Some(coming);
        self.settle(false);
    }

    /// How many of them were missing.
    pub fn take_microdescriptors(&mut self, text: &str) -> usize {
        let Some(coming) = &mut self.coming else { return 0 };
        let before = coming.missing.len();
        let came = Microdescriptor::read_all(text).into_iter().map(|one| (one.digest, one));
        let came: BTreeMap<[u8; 32], Microdescriptor> = came.collect();
        let mut operators: BTreeSet<Rc<Operator>> =
            coming.relays.iter().map(|relay| Rc::clone(&relay.operator)).collect();
        let Current { relays, missing, .. } = coming;
        relays.reserve_exact(missing.len());
        missing.retain(|entry| {
            let Some(Microdescriptor { onion_key, ed25519, operator, .. }) = came.get(&entry.microdescriptor) else {
                return true;
            };
            let operator = share(&mut operators, operator);
            relays.push(Relay { entry: *entry, onion_key: *onion_key, ed25519: *ed25519, operator });
            false
        });
        let found = before - missing.len();
        self.settle(false);
        found
    }

    /// Uses the new consensus if all of its relays are known; if `with_most`, enough of them will do.
    pub fn settle(&mut self, with_most: bool) {
        let is_ready = |coming: &Current| {
            let (known, missing) = (coming.relays.len(), coming.missing.len());
            missing == 0 || (with_most && 100 * known >= ENOUGH * (known + missing))
        };
        if self.coming.as_ref().is_some_and(is_ready) {
            self.current = self.coming.take();
            if let Some(current) = &mut self.current {
                current.missing = Vec::new();
                current.relays.shrink_to_fit();
                // The same order whatever came first.
                current.relays.sort_by_key(|relay| relay.entry.fingerprint);
            }
        }
    }

    /// The relays that circuits are made of, if that is known.
    pub fn usable(&self, now_s: u64) -> Option<&Current> {
        self.current.as_ref().filter(|current| now_s <= current.valid_until_s + GRACE_S)
    }

    /// A relay by its nickname or fingerprint.
    pub fn named(&self, name: &str) -> Option<&Relay> {
        let fingerprint = onion_program::torrc::fingerprint(name);
        let is_it = |relay: &&Relay| match fingerprint {
            Some(fingerprint) => relay.entry.fingerprint == fingerprint,
            None => relay.entry.nickname == *name,
        };
        self.current.as_ref()?.relays.iter().find(is_it)
    }

    pub fn with_fingerprint(&self, fingerprint: &[u8; 20]) -> Option<&Relay> {
        let relays = &self.current.as_ref()?.relays;
        relays.iter().find(|relay| relay.entry.fingerprint == *fingerprint)
    }
}

/// The one that says the same, or this one.
fn share(operators: &mut BTreeSet<Rc<Operator>>, operator: &Operator) -> Rc<Operator> {
    if let Some(same) = operators.get(operator) {
        return Rc::clone(same);
    }
    let first = Rc::new(operator.clone());
    operators.insert(Rc::clone(&first));
    first
}

impl Current {
    /// When the next consensus is asked for, in seconds since 1970: some time in the first seven eighths of what remains once caches will have it
    /// (dir-spec, "Download scheduling"; `part` of 2³²).
    pub fn renewal_s(&self, part: u32) -> u64 {
        let interval = self.fresh_until_s - self.valid_after_s;
        let from = self.fresh_until_s + 3 * interval / 4;
        let span = self.valid_until_s.saturating_sub(from) * 7 / 8;
        from + ((u64::from(part) * span) >> 32)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use onion::directory::{ConsensusParameters, Flags, Nickname};
    use std::net::Ipv4Addr;

    /// A relay that is everything, but for what a test changes.
    pub fn relay(number: u8, change: impl FnOnce(&mut Entry, &mut Operator)) -> Relay {
        let flags = Flags { fast: true, running: true, stable: true, directory: true, valid: true, ..Flags::default() };
        let mut entry = Entry {
            nickname: Nickname::from(&format!("relay{number}")).unwrap(),
            fingerprint: [number; 20],
            address: Ipv4Addr::new(20, number, 0, 1),
            or_port: 9001,
            microdescriptor: [number; 32],
            flags,
            bandwidth: 1000,
        };
        let mut operator = Operator::default();
        change(&mut entry, &mut operator);
        Relay { entry, onion_key: [number; 32], ed25519: Some([number; 32]), operator: Rc::new(operator) }
    }

    pub fn network(relays: Vec<Relay>) -> Network {
        let current = Current {
            valid_after_s: 1000,
            fresh_until_s: 1300,
            valid_until_s: 1900,
            weights: Weights::default(),
            relays,
            missing: Vec::new(),
        };
        Network { current: Some(current), ..Network::default() }
    }

    #[test]
    fn a_new_consensus_keeps_what_is_known_and_asks_for_the_rest() {
        let (old, other) = (relay(1, |_, _| {}), relay(2, |_, _| {}));
        let mut network = network(vec![old.clone()]);
        let parameters = ConsensusParameters::default();
        let consensus = Consensus {
            preamble: Preamble { valid_after_s: 1300, fresh_until_s: 1600, valid_until_s: 2200, parameters },
            weights: Weights::default(),
            relays: vec![old.entry, other.entry],
        };
        network.adopt(consensus);
        assert_eq!(network.needs(true), [Need::Microdescriptors(vec![[2; 32]])]);
        assert_eq!(network.current.as_ref().unwrap().valid_after_s, 1000, "until that is there");
        network.settle(true);
        assert_eq!(network.current.as_ref().unwrap().valid_after_s, 1000, "half is not enough");
        network.coming.as_mut().unwrap().missing.clear();
        network.settle(false);
        let current = network.current.as_ref().unwrap();
        assert!(current.valid_after_s == 1300 && current.relays == [old]);
        assert_eq!((network.needs(false), network.needs(true)), (vec![], vec![Need::Consensus]));
    }

    #[test]
    fn a_consensus_is_renewed_before_it_ends() {
        let network = network(Vec::new());
        let current = network.current.unwrap();
        assert_eq!((current.renewal_s(0), current.renewal_s(u32::MAX)), (1525, 1852));
    }

    #[test]
    fn what_is_signed_by_few_is_not_used() {
        let mut network = Network::new(vec![[1; 20], [2; 20]]);
        assert!(network.take_consensus("network-status-version 3 microdesc\n", 0).is_err());
        assert!(network.take_certificates("", 0).is_err());
        assert!(network.usable(0).is_none());
    }

    #[test]
    fn relays_are_found_by_either_name() {
        let network = network(vec![relay(1, |_, _| {}), relay(2, |_, _| {})]);
        assert_eq!(network.named("relay2").unwrap().entry.fingerprint, [2; 20]);
        assert_eq!(network.named(&"02".repeat(20)).unwrap().entry.fingerprint, [2; 20]);
        assert!(network.named("relay3").is_none() && network.with_fingerprint(&[3; 20]).is_none());
    }
}
