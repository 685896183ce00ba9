//! What one hop adds to and takes from relay cells (tor-spec, "Relay cells"): a cipher each way, and a running digest of what is
//! for this hop.

use crate::cell::BODY;
use crate::handshake::HopKeys;
use aes::Aes128;
use ctr::cipher::{KeyIvInit, StreamCipher};
use sha1::{Digest, Sha1};

type Aes128Ctr = ctr::Ctr128BE<Aes128>;

/// Where a relay cell's digest stands, and the field that is zero for whom it is for.
const RECOGNIZED: std::ops::Range<usize> = 1..3;
const DIGEST: std::ops::Range<usize> = 5..9;

/// One direction of one hop.
pub struct Half {
    cipher: Aes128Ctr,
    digest: Sha1,
}

impl Half {
    fn new(key: &[u8; 16], seed: &[u8; 20]) -> Half {
        Half { cipher: Aes128Ctr::new(key.into(), &[0; 16].into()), digest: Sha1::new_with_prefix(seed) }
    }

    /// Encrypts, or decrypts: in counter mode they are the same.
    pub fn crypt(&mut self, body: &mut [u8; BODY]) {
        self.cipher.apply_keystream(body);
    }

    /// Puts the digest into a cell that begins here; returns all 20 bytes of it, by which a SENDME later names the cell.
    pub fn seal(&mut self, body: &mut [u8; BODY]) -> [u8; 20] {
        body[DIGEST].fill(0);
        self.digest.update(&body[..]);
        let digest: [u8; 20] = self.digest.clone().finalize().into();
        body[DIGEST].copy_from_slice(&digest[..4]);
        digest
    }

    /// Whether a decrypted cell is for this end; if so, the digest has taken it in, and is returned.
    pub fn recognize(&mut self, body: &[u8; BODY]) -> Option<[u8; 20]> {
        if body[RECOGNIZED] != [0, 0] {
            return None;
        }
        let mut without = *body;
        without[DIGEST].fill(0);
        let next = self.digest.clone().chain_update(&without[..]);
        let digest: [u8; 20] = next.clone().finalize().into();
        if body[DIGEST] != digest[..4] {
            return None;
        }
        self.digest = next;
        Some(digest)
    }
}

/// Both directions of one hop.
pub struct Layer {
    /// From the client.
    pub forward: Half,
    /// Towards the client.
    pub backward: Half,
}

impl Layer {
    pub fn new(keys: &HopKeys) -> Layer {
        Layer {
            forward: Half::new(&keys.forward_key, &keys.forward_digest),
            backward: Half::new(&keys.backward_key, &keys.backward_digest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::fast;

    fn layer() -> Layer {
        Layer::new(&fast::answer(&[1; 20], [2; 20]).1)
    }

    #[test]
    fn a_cell_is_recognized_at_its_hop_alone() {
        let (mut client, mut relay, mut other) = (layer(), layer(), Layer::new(&fast::answer(&[3; 20], [2; 20]).1));
        for number in 0..50 {
            let mut body = [number; BODY];
            body[RECOGNIZED].fill(0);
            let digest = client.forward.seal(&mut body);
            client.forward.crypt(&mut body);
            other.forward.crypt(&mut body);
            // Whatever another hop makes of it, it is not for that.
            let mut elsewhere = body;
            Layer::new(&fast::answer(&[5; 20], [2; 20]).1).forward.crypt(&mut elsewhere);
            assert_eq!(other.forward.recognize(&elsewhere), None);
            let mut back = other_again(number);
            back.crypt(&mut body);
            relay.forward.crypt(&mut body);
            assert_eq!(relay.forward.recognize(&body), Some(digest), "cell {number}");
        }

        /// The other hop's cipher, where it stood before cell `number`.
        fn other_again(number: u8) -> Half {
            let mut half = Layer::new(&fast::answer(&[3; 20], [2; 20]).1).forward;
            for _ in 0..number {
                half.crypt(&mut [0; BODY]);
            }
            half
        }
    }

    #[test]
    fn a_changed_cell_is_not_recognized_and_changes_nothing() {
        let (mut client, mut relay) = (layer(), layer());
        let mut body = [0; BODY];
        client.backward.seal(&mut body);
        let mut changed = body;
        changed[100] ^= 1;
        assert_eq!(relay.backward.recognize(&changed), None);
        assert!(relay.backward.recognize(&body).is_some());
    }
}
