//! What a peer's certificates prove (tor-spec, "CERTS cells": what each side must check).

use super::ed25519::{KeyType, Read};
use super::x509::{self, Flaw, SelfSigned};
use super::{CertificateError, PeerIdentity, cross_digest, kind};
use rsa::Pkcs1v15Sign;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Who a responder is whose TLS certificate has this SHA-256.
pub fn verify_responder(
    certificates: &[(u8, Vec<u8>)],
    tls: &[u8; 32],
    now_s: u64,
) -> Result<PeerIdentity, CertificateError> {
    let (identity, signing) = identities(certificates, now_s)?;
    let link = by(certificates, kind::LINK, &signing, KeyType::X509, now_s)?;
    if link == *tls { Ok(identity) } else { Err(CertificateError::Subject(kind::LINK)) }
}

/// Who an initiator is, and the key by which it has to sign AUTHENTICATE.
pub fn verify_initiator(
    certificates: &[(u8, Vec<u8>)],
    now_s: u64,
) -> Result<(PeerIdentity, [u8; 32]), CertificateError> {
    let (identity, signing) = identities(certificates, now_s)?;
    Ok((identity, by(certificates, kind::AUTHENTICATION, &signing, KeyType::Ed25519, now_s)?))
}

/// Both identities, which name each other, and the signing key.
fn identities(certificates: &[(u8, Vec<u8>)], now_s: u64) -> Result<(PeerIdentity, [u8; 32]), CertificateError> {
    let rsa = rsa_identity(certificates, now_s)?;
    let bytes = find(certificates, kind::SIGNING)?;
    let ed25519 = Read::parse(bytes).and_then(|read| read.signer).ok_or(CertificateError::Malformed(kind::SIGNING))?;
    let signing = by(certificates, kind::SIGNING, &ed25519, KeyType::Ed25519, now_s)?;
    if cross(certificates, &rsa, now_s)? != ed25519 {
        return Err(CertificateError::Subject(kind::CROSS));
    }
    let identity = PeerIdentity {
        rsa_fingerprint: Sha1::digest(&rsa.key_der).into(),
        rsa_digest: Sha256::digest(&rsa.key_der).into(),
        ed25519,
    };
    Ok((identity, signing))
}

fn find(certificates: &[(u8, Vec<u8>)], kind: u8) -> Result<&[u8], CertificateError> {
    let mut found = certificates.iter().filter(|(other, _)| *other == kind);
    match (found.next(), found.next()) {
        (Some((_, bytes)), None) => Ok(bytes),
        (None, _) => Err(CertificateError::Missing(kind)),
        _ => Err(CertificateError::Twice(kind)),
    }
}

fn rsa_identity(certificates: &[(u8, Vec<u8>)], now_s: u64) -> Result<SelfSigned, CertificateError> {
    const KIND: u8 = kind::RSA_IDENTITY;
    let read = x509::read_identity(find(certificates, KIND)?).map_err(|flaw| match flaw {
        Flaw::Malformed => CertificateError::Malformed(KIND),
        Flaw::Signature => CertificateError::Signature(KIND),
    })?;
    if (read.from_s..=read.until_s).contains(&now_s) { Ok(read) } else { Err(CertificateError::Expired(KIND)) }
}

/// The subject of one of tor's certificates, by this key.
fn by(
    certificates: &[(u8, Vec<u8>)],
    kind: u8,
    key: &[u8; 32],
    of: KeyType,
    now_s: u64,
) -> Result<[u8; 32], CertificateError> {
    let read = Read::parse(find(certificates, kind)?).ok_or(CertificateError::Malformed(kind))?;
    if read.kind != kind || read.key_type != of as u8 {
        return Err(CertificateError::Subject(kind));
    }
    if !read.is_signed_by(key) {
        return Err(CertificateError::Signature(kind));
    }
    if u64::from(read.until_hours) * 3600 < now_s { Err(CertificateError::Expired(kind)) } else { Ok(read.subject) }
}

/// The Ed25519 identity that the RSA identity names.
fn cross(certificates: &[(u8, Vec<u8>)], rsa: &SelfSigned, now_s: u64) -> Result<[u8; 32], CertificateError> {
    const KIND: u8 = kind::CROSS;
    let bytes = find(certificates, KIND)?;
    let (signed, rest) = bytes.split_first_chunk::<36>().ok_or(CertificateError::Malformed(KIND))?;
    let (length, signature) = rest.split_first().ok_or(CertificateError::Malformed(KIND))?;
    if usize::from(*length) != signature.len() {
        return Err(CertificateError::Malformed(KIND));
    }
    let verified = rsa.key.verify(Pkcs1v15Sign::new_unprefixed(), &cross_digest(signed), signature);
    verified.map_err(|_| CertificateError::Signature(KIND))?;
    let (ed25519, until) = signed.split_first_chunk::<32>().expect("36 bytes");
    let until_hours = u32::from_be_bytes(until.try_into().expect("4 bytes"));
    if u64::from(until_hours) * 3600 < now_s { Err(CertificateError::Expired(KIND)) } else { Ok(*ed25519) }
}
