//! Ed25519 keys in tor's files.

use base::SeedTree;
use data_encoding::BASE64_NOPAD;
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha512};

/// The files' headers: 32 bytes, padded with zeroes.
const SECRET_HEADER: &[u8; 32] = b"== ed25519v1-secret: type0 ==\0\0\0";
const PUBLIC_HEADER: &[u8; 32] = b"== ed25519v1-public: type0 ==\0\0\0";

#[derive(Clone, Debug)]
pub struct Ed25519Key {
    seed: [u8; 32],
    pub public: [u8; 32],
}

impl Ed25519Key {
    /// The key of `host` for a purpose; equal seeds give equal keys.
    pub fn generate(seeds: &SeedTree, host: &str, purpose: &str) -> Ed25519Key {
        let mut seed = [0; 32];
        seeds.stream(host, purpose).fill(&mut seed);
        Ed25519Key { seed, public: SigningKey::from_bytes(&seed).verifying_key().to_bytes() }
    }

    /// As `fingerprint-ed25519` and consensuses have it.
    pub fn base64(&self) -> String {
        BASE64_NOPAD.encode(&self.public)
    }

    pub fn secret_file(&self) -> Vec<u8> {
        [&SECRET_HEADER[..], &self.expanded()].concat()
    }

    pub fn public_file(&self) -> Vec<u8> {
        [&PUBLIC_HEADER[..], &self.public].concat()
    }

    /// The expanded form in which tor keeps keys: the clamped scalar and the prefix for nonces (RFC 8032, section 5.1.5).
    fn expanded(&self) -> [u8; 64] {
        let mut expanded: [u8; 64] = Sha512::digest(self.seed).into();
        expanded[0] &= 248;
        expanded[31] &= 63;
        expanded[31] |= 64;
        expanded
    }
}
