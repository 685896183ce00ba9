//! An onion service's key and its address (rend-spec-v3, "Encoding onion addresses"; the files are those of `HiddenServiceDir`).

use base::SeedTree;
use data_encoding::BASE32_NOPAD;
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha512};
use sha3::Sha3_256;

/// The files' headers: 32 bytes, padded with zeroes.
const SECRET_HEADER: &[u8; 32] = b"== ed25519v1-secret: type0 ==\0\0\0";
const PUBLIC_HEADER: &[u8; 32] = b"== ed25519v1-public: type0 ==\0\0\0";

#[derive(Clone, Debug)]
pub struct OnionKeys {
    /// 56 characters and `.onion`.
    pub address: String,
    /// The file `hs_ed25519_secret_key`.
    pub secret_key: Vec<u8>,
    /// The file `hs_ed25519_public_key`.
    pub public_key: Vec<u8>,
}

impl OnionKeys {
    pub fn generate(seeds: &SeedTree, host: &str) -> OnionKeys {
        let mut seed = [0; 32];
        seeds.stream(host, "onion service").fill(&mut seed);
        let public = SigningKey::from_bytes(&seed).verifying_key().to_bytes();
        OnionKeys {
            address: address(&public),
            secret_key: [&SECRET_HEADER[..], &expand(&seed)].concat(),
            public_key: [&PUBLIC_HEADER[..], &public].concat(),
        }
    }
}

/// The expanded form in which tor keeps ed25519 keys: the clamped scalar and the prefix for nonces (RFC 8032, section 5.1.5).
fn expand(seed: &[u8; 32]) -> [u8; 64] {
    let mut expanded: [u8; 64] = Sha512::digest(seed).into();
    expanded[0] &= 248;
    expanded[31] &= 63;
    expanded[31] |= 64;
    expanded
}

pub(super) fn address(public: &[u8; 32]) -> String {
    const VERSION: u8 = 3;
    let mut hash = Sha3_256::new();
    hash.update(b".onion checksum");
    hash.update(public);
    hash.update([VERSION]);
    let checksum = hash.finalize();
    let bytes = [&public[..], &checksum[..2], &[VERSION]].concat();
    BASE32_NOPAD.encode(&bytes).to_lowercase() + ".onion"
}
