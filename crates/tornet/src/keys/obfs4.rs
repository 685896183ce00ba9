//! What a bridge's obfs4 server knows about itself, and what its clients must know of it (obfs4-spec, section 3).

use base::SeedTree;
use data_encoding::{BASE64_NOPAD, HEXLOWER};
use x25519_dalek::{PublicKey, StaticSecret};

/// Obfs4's padding and timing modes are seeded with this many bytes.
const DRBG_SEED_BYTES: usize = 24;

#[derive(Clone, Debug)]
pub struct Obfs4State {
    /// The file `pt_state/obfs4_state.json`.
    pub state: String,
    /// The `cert=` of Bridge lines.
    pub certificate: String,
}

impl Obfs4State {
    /// `identity` is the bridge's fingerprint, which obfs4 takes for its node id.
    pub fn generate(seeds: &SeedTree, host: &str, identity: &[u8; 20]) -> Obfs4State {
        let mut rng = seeds.stream(host, "obfs4");
        let (mut private, mut drbg) = ([0; 32], [0; DRBG_SEED_BYTES]);
        rng.fill(&mut private);
        rng.fill(&mut drbg);
        let secret = StaticSecret::from(private);
        let public = PublicKey::from(&secret).to_bytes();
        let hex = |bytes: &[u8]| HEXLOWER.encode(bytes);
        Obfs4State {
            state: format!(
                "{{\"node-id\":\"{}\",\"private-key\":\"{}\",\"public-key\":\"{}\",\"drbg-seed\":\"{}\",\"iat-mode\":0}}\n",
                hex(identity),
                hex(&private),
                hex(&public),
                hex(&drbg)
            ),
            certificate: BASE64_NOPAD.encode(&[&identity[..], &public].concat()),
        }
    }
}
