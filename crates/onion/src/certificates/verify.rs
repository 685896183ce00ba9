//! What a peer's certificates prove (tor-spec, "CERTS cells": what each side must check), verified once for each peer.

use super::ed25519::{KeyType, Read};
use super::x509::{self, Flaw, SelfSigned};
use super::{CertificateError, PeerIdentity, cross_digest, kind};
use rsa::Pkcs1v15Sign;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};

/// The SHA-256 of all that a peer shows, by which what it proves is found again.
type Shown = [u8; 32];

/// What certificates prove while they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Proven {
    identity: PeerIdentity,
    /// What the signing key has signed: the SHA-256 of a TLS certificate, or the key that signs AUTHENTICATE.
    subject: [u8; 32],
    /// When each holds, in seconds since 1970.
    hold: [Holds; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holds {
    kind: u8,
    from_s: u64,
    until_s: u64,
}

impl Proven {
    fn at(self, now_s: u64) -> Result<(PeerIdentity, [u8; 32]), CertificateError> {
        let expired = self.hold.iter().find(|holds| !(holds.from_s..=holds.until_s).contains(&now_s));
        match expired {
            Some(holds) => Err(CertificateError::Expired(holds.kind)),
            None => Ok((self.identity, self.subject)),
        }
    }
}

/// Certificates whose signatures were verified, found again by their exact bytes: a relay that opens many connections shows the same ones on each.
/// Those that came first are forgotten for others; what is not good is not kept.
#[derive(Debug, Default)]
pub struct Verified {
    proven: BTreeMap<Shown, Proven>,
    /// In the order in which they came.
    order: VecDeque<Shown>,
}

/// So many are kept: more than relays speak with at a time, and half a megabyte.
const MOST: usize = 2048;

impl Verified {
    /// Who a responder is whose TLS certificate has this SHA-256.
    pub fn responder(
        &mut self,
        certificates: &[(u8, Vec<u8>)],
        tls: &[u8; 32],
        now_s: u64,
    ) -> Result<PeerIdentity, CertificateError> {
        let (identity, link) = self.third(certificates, kind::LINK, KeyType::X509)?.at(now_s)?;
        if link == *tls { Ok(identity) } else { Err(CertificateError::Subject(kind::LINK)) }
    }

    /// Who an initiator is, and the key by which it has to sign AUTHENTICATE.
    pub fn initiator(
        &mut self,
        certificates: &[(u8, Vec<u8>)],
        now_s: u64,
    ) -> Result<(PeerIdentity, [u8; 32]), CertificateError> {
        self.third(certificates, kind::AUTHENTICATION, KeyType::Ed25519)?.at(now_s)
    }

    /// What certificates prove of which the signing key's is of this kind.
    fn third(&mut self, certificates: &[(u8, Vec<u8>)], kind: u8, of: KeyType) -> Result<Proven, CertificateError> {
        let shown = shown(certificates, kind);
        if let Some(proven) = self.proven.get(&shown) {
            return Ok(*proven);
        }
        let proven = verify(certificates, kind, of)?;
        if self.order.len() == MOST
            && let Some(first) = self.order.pop_front()
        {
            self.proven.remove(&first);
        }
        self.order.push_back(shown);
        self.proven.insert(shown, proven);
        Ok(proven)
    }
}

fn shown(certificates: &[(u8, Vec<u8>)], kind: u8) -> Shown {
    let mut digest = Sha256::new();
    digest.update([kind]);
    for (kind, bytes) in certificates {
        digest.update([*kind]);
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    digest.finalize().into()
}

/// Both identities, which name each other, and what the signing key says; whether they still hold is not looked at.
fn verify(certificates: &[(u8, Vec<u8>)], third: u8, of: KeyType) -> Result<Proven, CertificateError> {
    let rsa = rsa_identity(certificates)?;
    let bytes = find(certificates, kind::SIGNING)?;
    let ed25519 = Read::parse(bytes).and_then(|read| read.signer).ok_or(CertificateError::Malformed(kind::SIGNING))?;
    let (signing, signing_holds) = by(certificates, kind::SIGNING, &ed25519, KeyType::Ed25519)?;
    let (crossed, cross_holds) = cross(certificates, &rsa)?;
    if crossed != ed25519 {
        return Err(CertificateError::Subject(kind::CROSS));
    }
    let (subject, third_holds) = by(certificates, third, &signing, of)?;
    let identity = PeerIdentity {
        rsa_fingerprint: Sha1::digest(&rsa.key_der).into(),
        rsa_digest: Sha256::digest(&rsa.key_der).into(),
        ed25519,
    };
    let rsa_holds = Holds { kind: kind::RSA_IDENTITY, from_s: rsa.from_s, until_s: rsa.until_s };
    Ok(Proven { identity, subject, hold: [rsa_holds, signing_holds, cross_holds, third_holds] })
}

fn find(certificates: &[(u8, Vec<u8>)], kind: u8) -> Result<&[u8], CertificateError> {
    let mut found = certificates.iter().filter(|(other, _)| *other == kind);
    match (found.next(), found.next()) {
        (Some((_, bytes)), None) => Ok(bytes),
        (None, _) => Err(CertificateError::Missing(kind)),
        _ => Err(CertificateError::Twice(kind)),
    }
}

fn rsa_identity(certificates: &[(u8, Vec<u8>)]) -> Result<SelfSigned, CertificateError> {
    const KIND: u8 = kind::RSA_IDENTITY;
    x509::read_identity(find(certificates, KIND)?).map_err(|flaw| match flaw {
        Flaw::Malformed => CertificateError::Malformed(KIND),
        Flaw::Signature => CertificateError::Signature(KIND),
    })
}

/// The subject of one of tor's certificates, by this key.
fn by(
    certificates: &[(u8, Vec<u8>)],
    kind: u8,
    key: &[u8; 32],
    of: KeyType,
) -> Result<([u8; 32], Holds), CertificateError> {
    let read = Read::parse(find(certificates, kind)?).ok_or(CertificateError::Malformed(kind))?;
    if read.kind != kind || read.key_type != of as u8 {
        return Err(CertificateError::Subject(kind));
    }
    if !read.is_signed_by(key) {
        return Err(CertificateError::Signature(kind));
    }
    Ok((read.subject, until(kind, read.until_hours)))
}

/// A certificate of tor's holds from ever, until an hour since 1970.
fn until(kind: u8, hours: u32) -> Holds {
    Holds { kind, from_s: 0, until_s: u64::from(hours) * 3600 }
}

/// The Ed25519 identity that the RSA identity names.
fn cross(certificates: &[(u8, Vec<u8>)], rsa: &SelfSigned) -> Result<([u8; 32], Holds), CertificateError> {
    const KIND: u8 = kind::CROSS;
    let bytes = find(certificates, KIND)?;
    let (signed, rest) = bytes.split_first_chunk::<36>().ok_or(CertificateError::Malformed(KIND))?;
    let (length, signature) = rest.split_first().ok_or(CertificateError::Malformed(KIND))?;
    if usize::from(*length) != signature.len() {
        return Err(CertificateError::Malformed(KIND));
    }
    let verified = rsa.key.verify(Pkcs1v15Sign::new_unprefixed(), &cross_digest(signed), signature);
    verified.map_err(|_| CertificateError::Signature(KIND))?;
    let (ed25519, hours) = signed.split_first_chunk::<32>().expect("36 bytes");
    Ok((*ed25519, until(KIND, u32::from_be_bytes(hours.try_into().expect("4 bytes")))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::keys;

    const NOW: u64 = 946_684_800;

    #[test]
    fn what_was_verified_is_found_by_its_bytes_alone() {
        let certificates = keys(1).certificates(NOW, [5; 32]);
        let mut verified = Verified::default();
        let first = verified.initiator(&certificates.initiator, NOW);
        assert_eq!(verified.order.len(), 1);
        assert_eq!(verified.initiator(&certificates.initiator, NOW), first);
        assert_eq!(verified.order.len(), 1, "they were known");
        assert_eq!(
            verified.initiator(&certificates.initiator, NOW + 3 * 86_400),
            Err(CertificateError::Expired(kind::AUTHENTICATION)),
            "known, and over"
        );
        let mut changed = certificates.initiator.clone();
        changed[2].1[40] ^= 1;
        assert!(verified.initiator(&changed, NOW).is_err());
        assert_eq!(verified.order.len(), 1, "what is wrong is not kept");
        let tls = Sha256::digest(&certificates.tls).into();
        assert!(verified.responder(&certificates.initiator, &tls, NOW).is_err(), "the same in the other role");
        assert_eq!(verified.responder(&certificates.responder, &tls, NOW), Ok(keys(1).public()));
        assert!(verified.responder(&certificates.responder, &[0; 32], NOW).is_err(), "another TLS certificate");
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        let certificates = keys(1).certificates(NOW, [5; 32]);
        let mut verified = Verified::default();
        let mut others = keys(2).certificates(NOW, [5; 32]).initiator;
        verified.initiator(&certificates.initiator, NOW).unwrap();
        // Of kinds that nobody looks at.
        for number in 0..MOST as u64 {
            others.truncate(4);
            others.push((99, number.to_be_bytes().to_vec()));
            let known = Proven { ..verified.proven.first_key_value().map(|(_, proven)| *proven).unwrap() };
            let shown = shown(&others, kind::AUTHENTICATION);
            assert!(!verified.proven.contains_key(&shown));
            if number + 1 < MOST as u64 {
                // As if it had been verified, which takes long.
                verified.proven.insert(shown, known);
                verified.order.push_back(shown);
            } else {
                verified.initiator(&others, NOW).unwrap();
            }
        }
        assert_eq!((verified.order.len(), verified.proven.len()), (MOST, MOST));
        let first = shown(&certificates.initiator, kind::AUTHENTICATION);
        assert!(!verified.proven.contains_key(&first), "the first is gone");
    }
}
