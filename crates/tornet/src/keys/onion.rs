//! An onion service's key and its address (rend-spec-v3, "Encoding onion addresses"; the files are those of `HiddenServiceDir`).

use super::Ed25519Key;
use base::SeedTree;
use data_encoding::BASE32_NOPAD;
use sha3::{Digest, Sha3_256};

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
        let key = Ed25519Key::generate(seeds, host, "onion service");
        OnionKeys { address: address(&key.public), secret_key: key.secret_file(), public_key: key.public_file() }
    }
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
