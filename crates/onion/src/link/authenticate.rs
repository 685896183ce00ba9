//! The initiator's proof that it has the identity that its certificates name (tor-spec, "AUTHENTICATE cells"; method
//! Ed25519-SHA256-RFC5705).

use crate::certificates::PeerIdentity;
use ed25519_dalek::{Signature, VerifyingKey};

/// The number of the method.
pub(super) const METHOD: u16 = 3;
/// What both ends let TLS derive the shared secret from, with the SHA-256 of the initiator's RSA identity as context.
pub const EXPORTER: &[u8] = b"EXPORTER FOR TOR TLS CLIENT BINDING AUTH0003";
/// Random bytes in it, so that no two are alike.
pub(super) const RANDOM: usize = 24;
const SIGNATURE: usize = 64;

/// What both ends know of their connection.
pub(super) struct Facts<'a> {
    pub initiator: &'a PeerIdentity,
    pub responder: &'a PeerIdentity,
    /// SHA-256 of all that the responder sent up to AUTH_CHALLENGE, and that the initiator sent before AUTHENTICATE.
    pub responder_log: [u8; 32],
    pub initiator_log: [u8; 32],
    /// SHA-256 of the responder's TLS certificate.
    pub tls_certificate: [u8; 32],
    pub tls_secret: [u8; 32],
}

impl Facts<'_> {
    fn signed(&self) -> Vec<u8> {
        [
            &b"AUTH0003"[..],
            &self.initiator.rsa_digest,
            &self.responder.rsa_digest,
            &self.initiator.ed25519,
            &self.responder.ed25519,
            &self.responder_log,
            &self.initiator_log,
            &self.tls_certificate,
            &self.tls_secret,
        ]
        .concat()
    }

    /// AUTHENTICATE's body.
    pub fn write(&self, random: [u8; RANDOM], sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE]) -> Vec<u8> {
        let mut proof = self.signed();
        proof.extend_from_slice(&random);
        let signature = sign(&proof);
        proof.extend_from_slice(&signature);
        [&METHOD.to_be_bytes()[..], &(proof.len() as u16).to_be_bytes(), &proof].concat()
    }

    /// Whether an AUTHENTICATE is about this connection, and signed with the key that the certificates name.
    pub fn is_proven_by(&self, body: &[u8], key: &[u8; 32]) -> bool {
        let Some((head, proof)) = body.split_first_chunk::<4>() else { return false };
        let expected = self.signed();
        let length = expected.len() + RANDOM + SIGNATURE;
        if head[..2] != METHOD.to_be_bytes()
            || usize::from(u16::from_be_bytes([head[2], head[3]])) != length
            || proof.len() < length
        {
            return false;
        }
        let (signed, signature) = proof[..length].split_at(length - SIGNATURE);
        let Ok(key) = VerifyingKey::from_bytes(key) else { return false };
        let signature = Signature::from_bytes(signature.try_into().expect("64 bytes"));
        signed.starts_with(&expected) && key.verify_strict(signed, &signature).is_ok()
    }
}
