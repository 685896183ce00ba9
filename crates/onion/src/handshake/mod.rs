//! How a client and a relay agree on a circuit's keys (tor-spec, "CREATE and CREATED cells"): the relay's side, and the client's.

pub mod extensions;
pub mod fast;
pub mod ntor;
pub mod ntor_v3;
pub mod puzzle;

use sha1::{Digest, Sha1};
use std::fmt;

/// Names a handshake in CREATE2 and EXTEND2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ntor,
    NtorV3,
}

impl Kind {
    pub fn from_number(number: u16) -> Option<Kind> {
        match number {
            2 => Some(Kind::Ntor),
            3 => Some(Kind::NtorV3),
            _ => None,
        }
    }

    pub fn number(self) -> u16 {
        match self {
            Kind::Ntor => 2,
            Kind::NtorV3 => 3,
        }
    }
}

/// The keys of one hop: seeds of running digests and keys of ciphers, towards the exit (`forward`) and the client.
#[derive(Clone, PartialEq, Eq)]
pub struct HopKeys {
    pub forward_digest: [u8; 20],
    pub backward_digest: [u8; 20],
    pub forward_key: [u8; 16],
    pub backward_key: [u8; 16],
}

impl HopKeys {
    /// Bytes of key material that [`HopKeys::from_bytes`] takes.
    pub const BYTES: usize = 2 * 20 + 2 * 16;

    /// Df, Db, Kf, Kb, in this order.
    fn from_bytes(bytes: &[u8; HopKeys::BYTES]) -> HopKeys {
        let part = |start: usize, length: usize| &bytes[start..start + length];
        HopKeys {
            forward_digest: part(0, 20).try_into().expect("20 bytes"),
            backward_digest: part(20, 20).try_into().expect("20 bytes"),
            forward_key: part(40, 16).try_into().expect("16 bytes"),
            backward_key: part(56, 16).try_into().expect("16 bytes"),
        }
    }
}

/// Without the keys.
impl fmt::Debug for HopKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HopKeys")
    }
}

/// Why a handshake came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not as long as it must be.
    Length,
    /// For another relay, or for a key that this one does not have.
    Key,
    /// Its proof is wrong, or a point was of small order.
    Proof,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Length => "a handshake of the wrong length",
            Refused::Key => "a handshake for another key",
            Refused::Proof => "a handshake whose proof is wrong",
        })
    }
}

/// KDF-TOR: SHA-1 of the secret and a counter, as long as is needed (tor-spec, "KDF-TOR").
fn kdf_tor<const N: usize>(secret: &[u8]) -> [u8; N] {
    let mut keys = [0; N];
    for (counter, part) in keys.chunks_mut(20).enumerate() {
        let digest = Sha1::new().chain_update(secret).chain_update([counter as u8]).finalize();
        part.copy_from_slice(&digest[..part.len()]);
    }
    keys
}
