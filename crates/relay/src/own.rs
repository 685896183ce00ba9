//! Who this relay is: its keys, which stay the same when it starts again, and what it shows of them.

use crate::clock::since_1970;
use crate::design::LinkDesign;
use onion::certificates::{Certificates, PeerIdentity, Verified};
use onion::keys::{RelayKeys, make_identity};
use onion::link::Local;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

pub use onion_program::random::from_system as random;

pub struct Own {
    pub keys: RelayKeys,
    pub identity: PeerIdentity,
    pub certificates: Certificates,
    /// Of the certificates for TLS: the usual one, and that of an Ed25519 key.
    tls_digests: [[u8; 32]; 2],
    /// Of peers.
    verified: RefCell<Verified>,
    addresses: [IpAddr; 1],
    /// What it offers to others of its kind.
    design: LinkDesign,
}

/// From which all keys but the RSA identity follow.
const SEED: &str = "gnomon_relay_seed";

impl Own {
    /// Reads `keys/secret_id_key`, as tor keeps it, and makes what is missing.
    pub fn load(
        data_directory: &Path,
        address: Ipv4Addr,
        design: LinkDesign,
        random: &mut ChaCha20Rng,
    ) -> Result<Own, String> {
        let folder = data_directory.join("keys");
        let named = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        fs::create_dir_all(&folder).map_err(|error| named(&folder, &error))?;
        let file = folder.join("secret_id_key");
        let secret_id_key = kept(&file, || make_identity(|bytes| random.fill_bytes(bytes)).into_bytes())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into()))
            .map_err(|error| named(&file, &error))?;
        let seed_file = folder.join(SEED);
        let seed = kept(&seed_file, || {
            let mut seed = [0; 32];
            random.fill_bytes(&mut seed);
            seed.to_vec()
        })
        .map_err(|error| named(&seed_file, &error))?;
        let seed: [u8; 32] = seed.try_into().map_err(|_| named(&seed_file, &"not 32 bytes; remove it for new keys"))?;
        let mut from_seed = ChaCha20Rng::from_seed(seed);
        let keys = RelayKeys::make(&secret_id_key, |bytes| from_seed.fill_bytes(bytes))
            .map_err(|error| named(&file, &error))?;
        let mut names = [0; 32];
        random.fill_bytes(&mut names);
        let certificates = keys.certificates(since_1970().as_secs(), names);
        let tls_digests = [&certificates.tls, &certificates.quick].map(|shown| Sha256::digest(shown).into());
        Ok(Own {
            identity: keys.public(),
            keys,
            certificates,
            tls_digests,
            verified: RefCell::default(),
            addresses: [address.into()],
            design,
        })
    }

    /// SHA-256 of the certificate that it has shown.
    pub fn tls_digest(&self, is_quick: bool) -> [u8; 32] {
        self.tls_digests[usize::from(is_quick)]
    }

    /// For a link's handshake; `is_quick` says which certificate a responder has shown.
    pub fn local<'a>(&'a self, is_quick: bool, sign: &'a dyn Fn(&[u8]) -> [u8; 64]) -> Local<'a> {
        let Certificates { responder, quick_responder, .. } = &self.certificates;
        Local {
            identity: &self.identity,
            responder_certificates: if is_quick { quick_responder } else { responder },
            initiator_certificates: &self.certificates.initiator,
            sign,
            addresses: &self.addresses,
            designs: self.design.offers(),
            verified: &self.verified,
        }
    }
}

/// A file's bytes, written first if there is none.
fn kept(file: &Path, make: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let bytes = make();
            fs::write(file, &bytes)?;
            Ok(bytes)
        }
        result => result,
    }
}
