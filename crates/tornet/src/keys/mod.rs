//! Keys of relays, authorities, onion services and bridges, made from the seed.
//!
//! Only what must be known before the run is made here: fingerprints that other hosts' files name, certificates, addresses of onion
//! services. Everything else tor makes itself during the run, from the host's own random stream. These keys protect nothing: whoever
//! has the seed has them.

mod authority;
mod ed25519;
mod obfs4;
mod onion;
mod relay;

pub use authority::AuthorityKeys;
pub use ed25519::Ed25519Key;
pub use obfs4::Obfs4State;
pub use onion::OnionKeys;
pub use relay::RelayIdentity;

use base::SeedTree;
use rand_core_keys::{TryCryptoRng, TryRng};
use std::convert::Infallible;

/// A stream of the seed tree, as the key generators want it.
struct KeyRng(base::Rng);

impl KeyRng {
    fn new(seeds: &SeedTree, host: &str, purpose: &str) -> KeyRng {
        KeyRng(seeds.stream(host, purpose))
    }
}

impl TryRng for KeyRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl TryCryptoRng for KeyRng {}

/// A fresh RSA key. `bits` is a size that tor uses, so making it cannot fail.
fn rsa_key(seeds: &SeedTree, host: &str, purpose: &str, bits: usize) -> rsa::RsaPrivateKey {
    let mut rng = KeyRng::new(seeds, host, purpose);
    rsa::RsaPrivateKey::new(&mut rng, bits).expect("a key size that tor uses")
}

/// The private key as tor reads it: PKCS #1 in PEM.
fn private_pem(key: &rsa::RsaPrivateKey) -> String {
    use rsa::pkcs1::{EncodeRsaPrivateKey, LineEnding};
    key.to_pkcs1_pem(LineEnding::LF).expect("a complete key").to_string()
}

/// The public key in DER (PKCS #1), over which tor computes fingerprints.
fn public_der(key: &rsa::RsaPrivateKey) -> Vec<u8> {
    use rsa::pkcs1::EncodeRsaPublicKey;
    key.to_public_key().to_pkcs1_der().expect("a complete key").into_vec()
}

/// SHA-1 of the public key: tor's identity fingerprint (tor-spec, "Preliminaries").
fn fingerprint(key: &rsa::RsaPrivateKey) -> [u8; 20] {
    use sha1::{Digest, Sha1};
    Sha1::digest(public_der(key)).into()
}

fn hex_upper(bytes: &[u8]) -> String {
    data_encoding::HEXUPPER.encode(bytes)
}

#[cfg(test)]
mod tests;
