//! The consensus in the flavour `microdesc` (dir-spec, "Vote and consensus status documents"; "The microdescriptor consensus").

use super::{KeyCertificate, Preamble, bytes, fingerprint, object};
use arrayvec::ArrayString;
use rsa::Pkcs1v15Sign;
use sha2::{Digest, Sha256};
use std::net::Ipv4Addr;

/// What a relay was voted to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub authority: bool,
    pub bad_exit: bool,
    pub exit: bool,
    pub fast: bool,
    pub guard: bool,
    pub running: bool,
    pub stable: bool,
    /// It answers questions to the directory.
    pub directory: bool,
    pub valid: bool,
}

impl Flags {
    fn read(text: &str) -> Flags {
        let mut flags = Flags::default();
        for word in text.split(' ') {
            match word {
                "Authority" => flags.authority = true,
                "BadExit" => flags.bad_exit = true,
                "Exit" => flags.exit = true,
                "Fast" => flags.fast = true,
                "Guard" => flags.guard = true,
                "Running" => flags.running = true,
                "Stable" => flags.stable = true,
                "V2Dir" => flags.directory = true,
                "Valid" => flags.valid = true,
                _ => {}
            }
        }
        flags
    }
}

/// Letters and digits of a relay's name at most (dir-spec, "Nicknames").
pub const LONGEST_NICKNAME: usize = 19;

/// A relay's name, without memory of its own: clients by the thousand keep those of all relays.
pub type Nickname = ArrayString<LONGEST_NICKNAME>;

/// A relay, as far as the consensus says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub nickname: Nickname,
    /// SHA-1 of its RSA identity.
    pub fingerprint: [u8; 20],
    pub address: Ipv4Addr,
    pub or_port: u16,
    /// SHA-256 of its microdescriptor.
    pub microdescriptor: [u8; 32],
    pub flags: Flags,
    /// In kilobytes per second.
    pub bandwidth: u32,
}

/// By how much relays' bandwidths count in each position, in ten-thousandths (dir-spec, "Computing bandwidth weights"): the first
/// letter is the position (guard, middle, exit), the second what the relay is (guard, middle, exit, both).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    pub wgg: u32,
    pub wgm: u32,
    pub wgd: u32,
    pub wmg: u32,
    pub wmm: u32,
    pub wme: u32,
    pub wmd: u32,
    pub weg: u32,
    pub wem: u32,
    pub wee: u32,
    pub wed: u32,
}

/// What counts for a relay's whole bandwidth.
const WHOLE: u32 = 10_000;

impl Default for Weights {
    /// All relays count alike, as where a consensus says nothing.
    fn default() -> Weights {
        let [wgg, wgm, wgd, wmg, wmm, wme, wmd, weg, wem, wee, wed] = [WHOLE; 11];
        Weights { wgg, wgm, wgd, wmg, wmm, wme, wmd, weg, wem, wee, wed }
    }
}

impl Weights {
    fn read(text: &str) -> Weights {
        let mut weights = Weights::default();
        for (name, value) in text.split(' ').filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse::<u32>() else { continue };
            let field = match name {
                "Wgg" => &mut weights.wgg,
                "Wgm" => &mut weights.wgm,
                "Wgd" => &mut weights.wgd,
                "Wmg" => &mut weights.wmg,
                "Wmm" => &mut weights.wmm,
                "Wme" => &mut weights.wme,
                "Wmd" => &mut weights.wmd,
                "Weg" => &mut weights.weg,
                "Wem" => &mut weights.wem,
                "Wee" => &mut weights.wee,
                "Wed" => &mut weights.wed,
                _ => continue,
            };
            *field = value.min(WHOLE);
        }
        weights
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consensus {
    pub preamble: Preamble,
    pub weights: Weights,
    pub relays: Vec<Entry>,
}

/// A consensus whose signatures are still to be judged.
#[derive(Clone, Debug)]
pub struct SignedConsensus {
    pub consensus: Consensus,
    digest: [u8; 32],
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug)]
struct Signature {
    identity: [u8; 20],
    signing: [u8; 20],
    signature: Vec<u8>,
}

const FIRST: &str = "network-status-version 3 microdesc\n";
const SIGNATURE: &str = "\ndirectory-signature ";

impl SignedConsensus {
    /// Nothing if it is no such document. Relays whose lines cannot be read are left out.
    pub fn read(text: &str) -> Option<SignedConsensus> {
        if !text.starts_with(FIRST) {
            return None;
        }
        let end = text.find(SIGNATURE)? + SIGNATURE.len();
        let (signed, rest) = text.split_at(end);
        let consensus = Consensus::read(signed)?;
        let signatures = rest.split("directory-signature ").filter_map(Signature::read).collect();
        Some(SignedConsensus { consensus, digest: Sha256::digest(signed).into(), signatures })
    }

    /// Authorities that have signed it, by the certificates that are there and hold at `now_s`, in seconds since 1970; each once.
    pub fn signers(&self, certificates: &[KeyCertificate], now_s: u64) -> Vec<[u8; 20]> {
        let mut signers: Vec<[u8; 20]> = certificates
            .iter()
            .filter(|certificate| certificate.expires_s >= now_s)
            .filter(|certificate| self.signatures.iter().any(|signature| signature.is_good(certificate, &self.digest)))
            .map(|certificate| certificate.identity)
            .collect();
        signers.sort_unstable();
        signers.dedup();
        signers
    }
}

impl Signature {
    /// `[ALGORITHM] IDENTITY KEY`, and the signature below it; others than by SHA-256 are none of this flavour.
    fn read(text: &str) -> Option<Signature> {
        let (line, object_text) = text.split_once('\n')?;
        let mut words = line.split(' ');
        if words.next() != Some("sha256") {
            return None;
        }
        let (identity, signing) = (fingerprint(words.next()?)?, fingerprint(words.next()?)?);
        Some(Signature { identity, signing, signature: object(object_text, "SIGNATURE")? })
    }

    fn is_good(&self, certificate: &KeyCertificate, digest: &[u8; 32]) -> bool {
        self.identity == certificate.identity
            && self.signing == certificate.signing
            && certificate.key.verify(Pkcs1v15Sign::new_unprefixed(), digest, &self.signature).is_ok()
    }
}

impl Consensus {
    fn read(text: &str) -> Option<Consensus> {
        let preamble = Preamble::read(text)?;
        let mut weights = Weights::default();
        let (mut relays, mut open): (Vec<Entry>, Option<Unfinished>) = (Vec::new(), None);
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "r" => {
                    relays.extend(open.take().and_then(Unfinished::finish));
                    open = Unfinished::begin(rest);
                }
                "directory-footer" => relays.extend(open.take().and_then(Unfinished::finish)),
                "bandwidth-weights" => weights = Weights::read(rest),
                _ => open.iter_mut().for_each(|open| open.line(word, rest)),
            }
        }
        relays.extend(open.and_then(Unfinished::finish));
        Some(Consensus { preamble, weights, relays })
    }
}

/// A relay whose lines are still coming.
struct Unfinished {
    entry: Entry,
    has_microdescriptor: bool,
}

impl Unfinished {
    /// `NICKNAME IDENTITY DATE TIME ADDRESS ORPORT DIRPORT`.
    fn begin(rest: &str) -> Option<Unfinished> {
        let words: Vec<&str> = rest.split(' ').collect();
        let [nickname, identity, _, _, address, or_port, ..] = words[..] else { return None };
        let entry = Entry {
            nickname: Nickname::from(nickname).ok()?,
            fingerprint: bytes(identity)?,
            address: address.parse().ok()?,
            or_port: or_port.parse().ok()?,
            microdescriptor: [0; 32],
            flags: Flags::default(),
            bandwidth: 0,
        };
        Some(Unfinished { entry, has_microdescriptor: false })
    }

    fn line(&mut self, word: &str, rest: &str) {
        match word {
            "m" => {
                if let Some(digest) = bytes(rest) {
                    (self.entry.microdescriptor, self.has_microdescriptor) = (digest, true);
                }
            }
            "s" => self.entry.flags = Flags::read(rest),
            "w" => {
                let bandwidth = rest.split(' ').find_map(|word| word.strip_prefix("Bandwidth="));
                self.entry.bandwidth = bandwidth.and_then(|number| number.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<Entry> {
        self.has_microdescriptor.then_some(self.entry)
    }
}

#[cfg(test)]
mod tests;
