//! A relay's keys.

use crate::certificates::PeerIdentity;
use crate::certificates::SHA256_PREFIX;
use ed25519_dalek::{Signer, SigningKey};
use rand_core_keys::{TryCryptoRng, TryRng};
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey, EncodeRsaPublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPrivateKey};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt;
use x25519_dalek::{PublicKey, StaticSecret};

/// Bits of the key by which TLS connections begin.
const LINK_BITS: usize = 2048;

/// All keys of a relay. Without its RSA identity all are made by whoever starts it.
pub struct RelayKeys {
    rsa: RsaPrivateKey,
    pub(crate) identity: SigningKey,
    pub(crate) signing: SigningKey,
    pub(crate) authentication: SigningKey,
    onion: StaticSecret,
    /// Authorities want to see one, though nobody begins circuits with it any more (proposal 350).
    tap: RsaPrivateKey,
    link: RsaPrivateKey,
    /// TLS' key for initiators that take one of Ed25519, which signs thirty times as fast.
    quick_link: SigningKey,
}

/// A file that holds no RSA identity.
#[derive(Debug, PartialEq, Eq)]
pub struct NoIdentity;

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no RSA key of 1,024 bits in PEM (-----BEGIN RSA PRIVATE KEY-----)")
    }
}

impl std::error::Error for NoIdentity {}

/// Bits of an RSA identity.
const IDENTITY_BITS: usize = 1024;

/// A fresh RSA identity as tor keeps it, of random bytes, which `fill` gives.
pub fn make_identity(fill: impl FnMut(&mut [u8])) -> String {
    let key = RsaPrivateKey::new(&mut Random(fill), IDENTITY_BITS).expect("a size that tor uses");
    key.to_pkcs1_pem(LineEnding::LF).expect("a complete key").to_string()
}

impl RelayKeys {
    /// The RSA identity as tor keeps it (`keys/secret_id_key`), and others of random bytes, which `fill` gives.
    pub fn make(secret_id_key: &str, mut fill: impl FnMut(&mut [u8])) -> Result<RelayKeys, NoIdentity> {
        let rsa = RsaPrivateKey::from_pkcs1_pem(secret_id_key).map_err(|_| NoIdentity)?;
        if rsa.size() != IDENTITY_BITS / 8 {
            return Err(NoIdentity);
        }
        let mut seed = || {
            let mut seed = [0; 32];
            fill(&mut seed);
            seed
        };
        let [identity, signing, authentication] = [seed(), seed(), seed()].map(|seed| SigningKey::from_bytes(&seed));
        let onion = StaticSecret::from(seed());
        let mut random = Random(fill);
        let tap = RsaPrivateKey::new(&mut random, IDENTITY_BITS).expect("a size that tor uses");
        let link = RsaPrivateKey::new(&mut random, LINK_BITS).expect("a usual size");
        let mut seed = [0; 32];
        (random.0)(&mut seed);
        let quick_link = SigningKey::from_bytes(&seed);
        Ok(RelayKeys { rsa, identity, signing, authentication, onion, tap, link, quick_link })
    }

    /// As others know it.
    pub fn public(&self) -> PeerIdentity {
        let rsa = self.rsa_public_der();
        PeerIdentity {
            rsa_fingerprint: Sha1::digest(&rsa).into(),
            rsa_digest: Sha256::digest(&rsa).into(),
            ed25519: self.identity.verifying_key().to_bytes(),
        }
    }

    /// The key that clients' handshakes are for.
    pub fn onion(&self) -> &StaticSecret {
        &self.onion
    }

    pub fn onion_public(&self) -> [u8; 32] {
        PublicKey::from(&self.onion).to_bytes()
    }

    /// Signs an AUTHENTICATE.
    pub fn authenticate(&self, bytes: &[u8]) -> [u8; 64] {
        self.authentication.sign(bytes).to_bytes()
    }

    /// TLS' private key, in PKCS #1's DER.
    pub fn link_der(&self) -> Vec<u8> {
        self.link.to_pkcs1_der().expect("a complete key").as_bytes().to_vec()
    }

    /// The private key of [`crate::certificates::Certificates::quick`]'s certificate, in PKCS #8's DER (RFC 8410, section 7).
    pub fn quick_link_der(&self) -> Vec<u8> {
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        [&head[..], &self.quick_link.to_bytes()].concat()
    }

    pub(crate) fn quick_link_public(&self) -> [u8; 32] {
        self.quick_link.verifying_key().to_bytes()
    }

    pub(crate) fn link_public_der(&self) -> Vec<u8> {
        self.link.to_public_key().to_pkcs1_der().expect("a complete key").into_vec()
    }

    pub(crate) fn tap_public_der(&self) -> Vec<u8> {
        self.tap.to_public_key().to_pkcs1_der().expect("a complete key").into_vec()
    }

    /// The old onion key's word for both identities (dir-spec, "onion-key-crosscert").
    pub(crate) fn tap_certificate(&self) -> Vec<u8> {
        let PeerIdentity { rsa_fingerprint, ed25519, .. } = self.public();
        let said = [&rsa_fingerprint[..], &ed25519].concat();
        self.tap.sign(Pkcs1v15Sign::new_unprefixed(), &said).expect("shorter than the key")
    }

    #[cfg(test)]
    pub(crate) fn rsa_public(&self) -> rsa::RsaPublicKey {
        self.rsa.to_public_key()
    }

    pub(crate) fn rsa_public_der(&self) -> Vec<u8> {
        self.rsa.to_public_key().to_pkcs1_der().expect("a complete key").into_vec()
    }

    /// Signs a digest by the RSA identity, as tor does, without saying which digest it is.
    pub(crate) fn sign_rsa(&self, digest: &[u8]) -> Vec<u8> {
        self.rsa.sign(Pkcs1v15Sign::new_unprefixed(), digest).expect("a digest is shorter than the key")
    }

    /// Signs the SHA-256 of an X.509 certificate, as PKCS #1 has it.
    pub(crate) fn sign_certificate(&self, digest: &[u8; 32]) -> Vec<u8> {
        self.sign_rsa(&[&SHA256_PREFIX[..], digest].concat())
    }
}

/// The caller's random bytes, as the generator of keys wants them.
struct Random<F>(F);

impl<F: FnMut(&mut [u8])> TryRng for Random<F> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        (self.0)(bytes);
        Ok(())
    }
}

impl<F: FnMut(&mut [u8])> TryCryptoRng for Random<F> {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::OnceLock;

    /// Keys that follow from a number below 5. Making them takes long.
    pub(crate) fn keys(number: u64) -> &'static RelayKeys {
        static KEYS: [OnceLock<RelayKeys>; 5] = [const { OnceLock::new() }; 5];
        KEYS[number as usize].get_or_init(|| make(number))
    }

    fn make(number: u64) -> RelayKeys {
        let mut state = number;
        let mut fill = move |bytes: &mut [u8]| {
            for byte in bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (state >> 33) as u8;
            }
        };
        let pem = make_identity(&mut fill);
        RelayKeys::make(&pem, fill).expect("an identity")
    }

    #[test]
    fn keys_follow_from_the_random_bytes() {
        assert_eq!(keys(3).public(), make(3).public());
        assert_ne!(keys(3).public(), keys(4).public());
        assert_eq!(RelayKeys::make("", |_| {}).err(), Some(NoIdentity));
    }
}
