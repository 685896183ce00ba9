//! A relay's RSA identity, whose fingerprint the authorities' files and bridge lines name.

use super::{fingerprint, hex_upper, private_pem, rsa_key};
use base::SeedTree;

/// Bits of a relay's identity key (tor-spec).
const IDENTITY_BITS: usize = 1024;

#[derive(Clone, Debug)]
pub struct RelayIdentity {
    /// 40 upper-case hexadecimal digits.
    pub fingerprint: String,
    /// The file `keys/secret_id_key`.
    pub secret_id_key: String,
    pub(crate) fingerprint_bytes: [u8; 20],
}

impl RelayIdentity {
    /// The identity of `host`; equal seeds give equal keys.
    pub fn generate(seeds: &SeedTree, host: &str) -> RelayIdentity {
        let key = rsa_key(seeds, host, "relay identity", IDENTITY_BITS);
        let bytes = fingerprint(&key);
        RelayIdentity { fingerprint: hex_upper(&bytes), secret_id_key: private_pem(&key), fingerprint_bytes: bytes }
    }
}
