//! Certificates by which the ends of a link show who they are (cert-spec; tor-spec, "CERTS cells").

mod ed25519;
mod verify;
mod x509;

pub use verify::Verified;
pub(crate) use x509::SHA256_PREFIX;

use crate::keys::RelayKeys;
use ed25519::{KeyType, sign};
use sha2::{Digest, Sha256};
use std::fmt;

/// Kinds of certificates in CERTS cells.
pub mod kind {
    /// X.509, of the RSA identity by itself.
    pub const RSA_IDENTITY: u8 = 2;
    /// The Ed25519 signing key, by the identity.
    pub const SIGNING: u8 = 4;
    /// The TLS certificate, by the signing key.
    pub const LINK: u8 = 5;
    /// The key that signs AUTHENTICATE, by the signing key.
    pub const AUTHENTICATION: u8 = 6;
    /// The Ed25519 identity, by the RSA identity.
    pub const CROSS: u8 = 7;
}

/// Who a relay is, by both of its identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// SHA-1 of the RSA key, by which the directory knows it.
    pub rsa_fingerprint: [u8; 20],
    /// SHA-256 of the same.
    pub rsa_digest: [u8; 32],
    pub ed25519: [u8; 32],
}

/// What is wrong with a peer's certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateError {
    Missing(u8),
    Twice(u8),
    Malformed(u8),
    Expired(u8),
    /// Signed by another key than it must be, or of another subject.
    Signature(u8),
    Subject(u8),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, kind) = match self {
            CertificateError::Missing(kind) => ("is missing", kind),
            CertificateError::Twice(kind) => ("is there twice", kind),
            CertificateError::Malformed(kind) => ("cannot be read", kind),
            CertificateError::Expired(kind) => ("has expired", kind),
            CertificateError::Signature(kind) => ("is not signed by whom it must be", kind),
            CertificateError::Subject(kind) => ("is of something else", kind),
        };
        write!(f, "the certificate of type {kind} {what}")
    }
}

/// All that a relay shows of itself.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// In DER, for TLS: of an RSA key, which tor wants to see.
    pub tls: Vec<u8>,
    /// The same of an Ed25519 key, for initiators that ask for it.
    pub quick: Vec<u8>,
    /// For the CERTS cells of a responder that has shown the former or the latter, and of an initiator that authenticates.
    pub responder: Vec<(u8, Vec<u8>)>,
    pub quick_responder: Vec<(u8, Vec<u8>)>,
    pub initiator: Vec<(u8, Vec<u8>)>,
}

/// How long certificates hold, in seconds: those that name keys that stay, and those of a link's.
const LONG_S: u64 = 365 * 86_400;
const SHORT_S: u64 = 2 * 86_400;

impl RelayKeys {
    /// Certificates that hold from a day before `now_s`, in seconds since 1970, for two days and more. `random` makes names.
    pub fn certificates(&self, now_s: u64, random: [u8; 32]) -> Certificates {
        let from = now_s.saturating_sub(86_400);
        let name = |part: &[u8], end: &str| {
            format!("www.{}.{end}", data_encoding::BASE32_NOPAD.encode(part).to_ascii_lowercase())
        };
        let names = [name(&random[..8], "net"), name(&random[8..16], "net"), name(&random[16..24], "com")];
        let [own, subject, issuer] = names.each_ref().map(String::as_str);
        let (identity, link) = (self.rsa_public_der(), self.link_public_der());
        let by_identity = |digest: &[u8; 32]| self.sign_certificate(digest);
        let x509 = x509::Subject {
            serial: &random[24..31],
            issuer: own,
            name: own,
            key: x509::Key::Rsa(&identity),
            from_s: from,
            until_s: now_s + LONG_S,
        };
        let rsa_identity = x509.sign(by_identity);
        let of_link = |key| {
            let (name, until_s) = (subject, now_s + LONG_S);
            x509::Subject { serial: &random[23..31], issuer, name, key, from_s: from, until_s }.sign(by_identity)
        };
        let tls = of_link(x509::Key::Rsa(&link));
        let quick = of_link(x509::Key::Ed25519(&self.quick_link_public()));
        let (long, short) = (now_s + LONG_S, now_s + SHORT_S);
        let signing =
            sign(&self.identity, kind::SIGNING, KeyType::Ed25519, &self.signing.verifying_key().to_bytes(), long, true);
        let link = |tls: &[u8]| {
            let digest: [u8; 32] = Sha256::digest(tls).into();
            (kind::LINK, sign(&self.signing, kind::LINK, KeyType::X509, &digest, short, false))
        };
        let key = self.authentication.verifying_key().to_bytes();
        let authentication = sign(&self.signing, kind::AUTHENTICATION, KeyType::Ed25519, &key, short, false);
        let cross = self.cross_certificate(long);
        let all = |third: (u8, Vec<u8>)| {
            vec![
                (kind::RSA_IDENTITY, rsa_identity.clone()),
                (kind::SIGNING, signing.clone()),
                third,
                (kind::CROSS, cross.clone()),
            ]
        };
        Certificates {
            responder: all(link(&tls)),
            quick_responder: all(link(&quick)),
            initiator: all((kind::AUTHENTICATION, authentication)),
            tls,
            quick,
        }
    }

    /// The Ed25519 identity's word for the signing key.
    pub(crate) fn signing_certificate(&self, until_s: u64) -> Vec<u8> {
        let key = self.signing.verifying_key().to_bytes();
        sign(&self.identity, kind::SIGNING, KeyType::Ed25519, &key, until_s, true)
    }

    /// The RSA identity's word for the Ed25519 one (cert-spec, "Cross-certifying Ed25519 with RSA").
    fn cross_certificate(&self, until_s: u64) -> Vec<u8> {
        let mut certificate = self.identity.verifying_key().to_bytes().to_vec();
        certificate.extend_from_slice(&ed25519::hours(until_s).to_be_bytes());
        let signature = self.sign_rsa(&cross_digest(&certificate));
        certificate.push(signature.len() as u8);
        certificate.extend_from_slice(&signature);
        certificate
    }
}

/// A certificate of an Ed25519 key by whoever signs, whom it does not name.
pub(crate) fn signed_by(kind: u8, subject: &[u8; 32], until_s: u64, sign: impl FnOnce(&[u8]) -> [u8; 64]) -> Vec<u8> {
    ed25519::certificate(kind, KeyType::Ed25519, subject, until_s, None, sign)
}

fn cross_digest(signed: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(b"Tor TLS RSA/Ed25519 cross-certificate").chain_update(signed).finalize().into()
}

#[cfg(test)]
mod tests;
