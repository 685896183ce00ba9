//! The X.509 certificates of a relay: of its RSA identity by itself, and of its TLS key by its identity. Only what tor looks at is in
//! them.

use crate::date;
use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPublicKey};
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// 1.2.840.113549.1.1.1 (rsaEncryption), 1.2.840.113549.1.1.11 (sha256WithRSAEncryption), 2.5.4.3 (commonName), 1.3.101.112 (Ed25519).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Whose certificate it is.
pub(super) enum Key<'a> {
    /// In PKCS #1's DER.
    Rsa(&'a [u8]),
    Ed25519(&'a [u8; 32]),
}

impl Key<'_> {
    /// SubjectPublicKeyInfo (RFC 3279, section 2.3.1; RFC 8410, section 4).
    fn info(&self) -> Vec<u8> {
        match self {
            Key::Rsa(key) => sequence(&[sequence(&[object(RSA), tagged(5, &[])]), bits(key)]),
            Key::Ed25519(key) => sequence(&[sequence(&[object(ED25519)]), bits(&key[..])]),
        }
    }
}

/// What a certificate says.
pub(super) struct Subject<'a> {
    pub serial: &'a [u8],
    pub issuer: &'a str,
    pub name: &'a str,
    pub key: Key<'a>,
    /// Seconds since 1970.
    pub from_s: u64,
    pub until_s: u64,
}

impl Subject<'_> {
    /// The certificate in DER. `sign` signs a SHA-256 by PKCS #1 version 1.5.
    pub fn sign(&self, sign: impl Fn(&[u8; 32]) -> Vec<u8>) -> Vec<u8> {
        let algorithm = sequence(&[object(RSA_SHA256), tagged(5, &[])]);
        let mut serial = self.serial.to_vec();
        // Positive, and not longer than it must be.
        serial[0] = serial[0] & 0x7f | 0x40;
        let name =
            |text: &str| sequence(&[tagged(0x31, &sequence(&[object(COMMON_NAME), tagged(0x0c, text.as_bytes())]))]);
        let certificate = sequence(&[
            tagged(0xa0, &tagged(2, &[2])),
            tagged(2, &serial),
            algorithm.clone(),
            name(self.issuer),
            sequence(&[time(self.from_s), time(self.until_s)]),
            name(self.name),
            self.key.info(),
        ]);
        let signature = sign(&Sha256::digest(&certificate).into());
        sequence(&[certificate, algorithm, bits(&signature)])
    }
}

/// A string of whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    tagged(3, &[&[0], bytes].concat())
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend_from_slice(&[0x81, length as u8]),
        _ => out.extend_from_slice(&[0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(0x30, &parts.concat())
}

fn object(identifier: &[u8]) -> Vec<u8> {
    tagged(6, identifier)
}

/// UTCTime until 2049, GeneralizedTime from 2050 on (RFC 5280, section 4.1.2.5).
fn time(time_s: u64) -> Vec<u8> {
    let (year, month, day) = date::of_day(time_s / 86_400);
    let second = time_s % 86_400;
    let rest = format!("{month:02}{day:02}{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
    match year {
        ..2050 => tagged(0x17, format!("{:02}{rest}", year % 100).as_bytes()),
        _ => tagged(0x18, format!("{year:04}{rest}").as_bytes()),
    }
}

/// PKCS #1's prefix of a SHA-256 (RFC 8017, section 9.2).
pub(crate) const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];

/// A certificate of an RSA key by itself.
pub(super) struct SelfSigned {
    pub key: RsaPublicKey,
    /// In PKCS #1's DER.
    pub key_der: Vec<u8>,
    /// Seconds since 1970.
    pub from_s: u64,
    pub until_s: u64,
}

/// Why a certificate of the identity is none.
pub(super) enum Flaw {
    Malformed,
    Signature,
}

/// Reads a certificate of an RSA identity, which has 1,024 bits, by itself.
pub(super) fn read_identity(bytes: &[u8]) -> Result<SelfSigned, Flaw> {
    let certificate = Certificate::from_der(bytes).map_err(|_| Flaw::Malformed)?;
    let content = certificate.tbs_certificate();
    let key_der = content.subject_public_key_info().subject_public_key.as_bytes().ok_or(Flaw::Malformed)?.to_vec();
    let key = RsaPublicKey::from_pkcs1_der(&key_der).map_err(|_| Flaw::Malformed)?;
    if key.size() != 128 || certificate.signature_algorithm() != content.signature() {
        return Err(Flaw::Malformed);
    }
    let signed = content.to_der().map_err(|_| Flaw::Malformed)?;
    let signature = certificate.signature().as_bytes().ok_or(Flaw::Malformed)?;
    let hashed = [&SHA256_PREFIX[..], &Sha256::digest(&signed)].concat();
    key.verify(Pkcs1v15Sign::new_unprefixed(), &hashed, signature).map_err(|_| Flaw::Signature)?;
    let validity = content.validity();
    let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
    Ok(SelfSigned { key, key_der, from_s: seconds(validity.not_before), until_s: seconds(validity.not_after) })
}
