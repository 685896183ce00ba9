//! The ntor handshake (tor-spec, "The \"ntor\" handshake"): Curve25519 with the relay's onion key.

use super::{HopKeys, Refused};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};

const PROTOCOL: &[u8] = b"ntor-curve25519-sha256-1";

/// Bytes that a client sends: the relay's fingerprint, its onion key, the client's key.
pub const REQUEST: usize = 20 + 32 + 32;
/// Bytes that a relay answers: its key, and a proof.
pub const ANSWER: usize = 32 + 32;

/// The relay that a handshake is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// SHA-1 of its RSA identity.
    pub fingerprint: [u8; 20],
    pub onion_key: [u8; 32],
}

/// The relay's answer, with the circuit's keys. `ephemeral` is 32 random bytes.
pub fn answer(
    request: &[u8],
    fingerprint: &[u8; 20],
    onion_key: &StaticSecret,
    ephemeral: [u8; 32],
) -> Result<([u8; ANSWER], HopKeys), Refused> {
    let request: &[u8; REQUEST] = request.try_into().map_err(|_| Refused::Length)?;
    let relay = Relay { fingerprint: *fingerprint, onion_key: PublicKey::from(onion_key).to_bytes() };
    if request[..20] != relay.fingerprint || request[20..52] != relay.onion_key {
        return Err(Refused::Key);
    }
    let theirs = key(&request[52..]);
    let secret = StaticSecret::from(ephemeral);
    let ours = PublicKey::from(&secret);
    let (proof, keys) =
        derive(&secret.diffie_hellman(&theirs), &onion_key.diffie_hellman(&theirs), &relay, &theirs, &ours)?;
    let mut answer = [0; ANSWER];
    answer[..32].copy_from_slice(ours.as_bytes());
    answer[32..].copy_from_slice(&proof);
    Ok((answer, keys))
}

/// A client's half-way state.
pub struct Client {
    relay: Relay,
    secret: StaticSecret,
}

impl Client {
    /// What to send. `ephemeral` is 32 random bytes.
    pub fn begin(relay: Relay, ephemeral: [u8; 32]) -> (Client, [u8; REQUEST]) {
        let secret = StaticSecret::from(ephemeral);
        let mut request = [0; REQUEST];
        request[..20].copy_from_slice(&relay.fingerprint);
        request[20..52].copy_from_slice(&relay.onion_key);
        request[52..].copy_from_slice(PublicKey::from(&secret).as_bytes());
        (Client { relay, secret }, request)
    }

    /// The keys, if the answer is the relay's.
    pub fn finish(self, answer: &[u8]) -> Result<HopKeys, Refused> {
        let answer: &[u8; ANSWER] =
            answer.get(..ANSWER).and_then(|answer| answer.try_into().ok()).ok_or(Refused::Length)?;
        let theirs = key(&answer[..32]);
        let onion_key = PublicKey::from(self.relay.onion_key);
        let ours = PublicKey::from(&self.secret);
        let (proof, keys) = derive(
            &self.secret.diffie_hellman(&theirs),
            &self.secret.diffie_hellman(&onion_key),
            &self.relay,
            &ours,
            &theirs,
        )?;
        if answer[32..] == proof { Ok(keys) } else { Err(Refused::Proof) }
    }
}

fn key(bytes: &[u8]) -> PublicKey {
    PublicKey::from(<[u8; 32]>::try_from(bytes).expect("32 bytes"))
}

fn hmac(tweak: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(tweak).expect("any length is a key");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn tweak(name: &str) -> Vec<u8> {
    [PROTOCOL, name.as_bytes()].concat()
}

/// The proof and the keys, of both exchanges; `client` and `server` are the ephemeral keys.
fn derive(
    both: &SharedSecret,
    onion: &SharedSecret,
    relay: &Relay,
    client: &PublicKey,
    server: &PublicKey,
) -> Result<([u8; 32], HopKeys), Refused> {
    if !both.was_contributory() || !onion.was_contributory() {
        return Err(Refused::Proof);
    }
    let secret = [
        both.as_bytes(),
        onion.as_bytes(),
        &relay.fingerprint[..],
        &relay.onion_key,
        client.as_bytes(),
        server.as_bytes(),
        PROTOCOL,
    ]
    .concat();
    let verify = hmac(&tweak(":verify"), &secret);
    let proven =
        [&verify[..], &relay.fingerprint, &relay.onion_key, server.as_bytes(), client.as_bytes(), PROTOCOL, b"Server"]
            .concat();
    let mut keys = [0; HopKeys::BYTES];
    Hkdf::<Sha256>::new(Some(&tweak(":key_extract")), &secret)
        .expand(&tweak(":key_expand"), &mut keys)
        .expect("not too long");
    Ok((hmac(&tweak(":mac"), &proven), HopKeys::from_bytes(&keys)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_keys() {
        let onion = StaticSecret::from([7; 32]);
        let relay = Relay { fingerprint: [9; 20], onion_key: PublicKey::from(&onion).to_bytes() };
        let (client, request) = Client::begin(relay, [1; 32]);
        let (body, keys) = answer(&request, &relay.fingerprint, &onion, [2; 32]).expect("a handshake for this relay");
        assert!(client.finish(&body) == Ok(keys));
    }

    #[test]
    fn what_is_for_others_or_forged_is_refused() {
        let onion = StaticSecret::from([7; 32]);
        let relay = Relay { fingerprint: [9; 20], onion_key: PublicKey::from(&onion).to_bytes() };
        let (client, mut request) = Client::begin(relay, [1; 32]);
        let (mut body, _) = answer(&request, &relay.fingerprint, &onion, [2; 32]).expect("a handshake for this relay");
        body[63] ^= 1;
        assert!(client.finish(&body) == Err(Refused::Proof));
        request[52..].fill(0);
        assert_eq!(
            answer(&request, &relay.fingerprint, &onion, [2; 32]).err(),
            Some(Refused::Proof),
            "a point of small order"
        );
        request[0] ^= 1;
        assert_eq!(answer(&request, &relay.fingerprint, &onion, [2; 32]).err(), Some(Refused::Key));
        assert_eq!(answer(&request[1..], &relay.fingerprint, &onion, [2; 32]).err(), Some(Refused::Length));
    }
}
