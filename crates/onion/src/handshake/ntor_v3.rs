//! The ntor-v3 handshake (tor-spec, "The \"ntor-v3\" handshake"; proposal 332): as ntor, with a message each way that is encrypted
//! with it.

use super::{HopKeys, Refused};
use aes::Aes256;
use ctr::cipher::{KeyIvInit, StreamCipher};
use sha3::{Digest, Sha3_256};
use shake::Shake256;
use shake::digest::{ExtendableOutput, Update, XofReader};
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};

const PROTOCOL: &[u8] = b"ntor3-curve25519-sha3_256-1";
/// What the handshake is for, which both sides mix in.
const CIRCUIT: &[u8] = b"circuit extend";

/// Bytes of a request without its message: Ed25519 identity, onion key, the client's key, and the proof behind the message.
pub const REQUEST: usize = 4 * 32;
/// Bytes of an answer without its message.
pub const ANSWER: usize = 2 * 32;

/// The relay that a handshake is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    pub ed25519: [u8; 32],
    pub onion_key: [u8; 32],
}

/// A request that has been understood: the client's message can be read, and then answered.
pub struct Request {
    relay: Relay,
    client: PublicKey,
    /// Of the onion key with the client's.
    onion: SharedSecret,
    proof: [u8; 32],
    /// What the client says, of extensions.
    pub message: Vec<u8>,
}

impl Request {
    /// Reads a client's request.
    pub fn read(request: &[u8], ed25519: &[u8; 32], onion_key: &StaticSecret) -> Result<Request, Refused> {
        if request.len() < REQUEST {
            return Err(Refused::Length);
        }
        let relay = Relay { ed25519: *ed25519, onion_key: PublicKey::from(onion_key).to_bytes() };
        let (head, rest) = request.split_at(96);
        let (message, proof) = rest.split_at(rest.len() - 32);
        if head[..32] != relay.ed25519 || head[32..64] != relay.onion_key {
            return Err(Refused::Key);
        }
        let client = key(&head[64..]);
        let onion = onion_key.diffie_hellman(&client);
        if !onion.was_contributory() || proof != first_proof(&onion, &relay, &client, message) {
            return Err(Refused::Proof);
        }
        let mut message = message.to_vec();
        encrypt(&first_keys(&onion, &relay, &client).0, &mut message);
        Ok(Request { relay, client, onion, proof: proof.try_into().expect("32 bytes"), message })
    }

    /// The relay's answer with its message, and the circuit's keys. `ephemeral` is 32 random bytes.
    pub fn answer(self, message: &[u8], ephemeral: [u8; 32]) -> Result<(Vec<u8>, HopKeys), Refused> {
        let secret = StaticSecret::from(ephemeral);
        let ours = PublicKey::from(&secret);
        let both = secret.diffie_hellman(&self.client);
        let end = End::derive(&both, &self.onion, &self.relay, &self.client, &ours)?;
        let mut message = message.to_vec();
        encrypt(&end.message_key, &mut message);
        let auth = end.auth(&self.relay, &self.client, &ours, &self.proof, &message);
        let mut answer = Vec::with_capacity(ANSWER + message.len());
        answer.extend_from_slice(ours.as_bytes());
        answer.extend_from_slice(&auth);
        answer.extend_from_slice(&message);
        Ok((answer, end.keys))
    }
}

/// A client's half-way state.
pub struct Client {
    relay: Relay,
    secret: StaticSecret,
    proof: [u8; 32],
}

impl Client {
    /// What to send, with a message for the relay. `ephemeral` is 32 random bytes.
    pub fn begin(relay: Relay, message: &[u8], ephemeral: [u8; 32]) -> (Client, Vec<u8>) {
        let secret = StaticSecret::from(ephemeral);
        let ours = PublicKey::from(&secret);
        let onion = secret.diffie_hellman(&PublicKey::from(relay.onion_key));
        let mut message = message.to_vec();
        encrypt(&first_keys(&onion, &relay, &ours).0, &mut message);
        let proof = first_proof(&onion, &relay, &ours, &message);
        let request = [&relay.ed25519[..], &relay.onion_key, ours.as_bytes(), &message, &proof].concat();
        (Client { relay, secret, proof }, request)
    }

    /// The relay's message and the keys, if the answer is the relay's.
    pub fn finish(self, answer: &[u8]) -> Result<(Vec<u8>, HopKeys), Refused> {
        if answer.len() < ANSWER {
            return Err(Refused::Length);
        }
        let theirs = key(&answer[..32]);
        let ours = PublicKey::from(&self.secret);
        let onion = self.secret.diffie_hellman(&PublicKey::from(self.relay.onion_key));
        let end = End::derive(&self.secret.diffie_hellman(&theirs), &onion, &self.relay, &ours, &theirs)?;
        let mut message = answer[ANSWER..].to_vec();
        if answer[32..64] != end.auth(&self.relay, &ours, &theirs, &self.proof, &message) {
            return Err(Refused::Proof);
        }
        encrypt(&end.message_key, &mut message);
        Ok((message, end.keys))
    }
}

/// What follows from both exchanges.
struct End {
    verify: [u8; 32],
    message_key: [u8; 32],
    keys: HopKeys,
}

impl End {
    fn derive(
        both: &SharedSecret,
        onion: &SharedSecret,
        relay: &Relay,
        client: &PublicKey,
        server: &PublicKey,
    ) -> Result<End, Refused> {
        if !both.was_contributory() || !onion.was_contributory() {
            return Err(Refused::Proof);
        }
        let secret = [
            both.as_bytes(),
            onion.as_bytes(),
            &relay.ed25519[..],
            &relay.onion_key,
            client.as_bytes(),
            server.as_bytes(),
            PROTOCOL,
            &encapsulated(CIRCUIT),
        ]
        .concat();
        let seed = hash(&secret, ":key_seed");
        let mut stream = kdf(&seed, ":kdf_final");
        let mut message_key = [0; 32];
        stream.read(&mut message_key);
        let mut keys = [0; HopKeys::BYTES];
        stream.read(&mut keys);
        Ok(End { verify: hash(&secret, ":verify"), message_key, keys: HopKeys::from_bytes(&keys) })
    }

    /// The proof that the relay has its keys, and has seen what the client sent.
    fn auth(
        &self,
        relay: &Relay,
        client: &PublicKey,
        server: &PublicKey,
        proof: &[u8; 32],
        message: &[u8],
    ) -> [u8; 32] {
        let input = [
            &self.verify[..],
            &relay.ed25519,
            &relay.onion_key,
            server.as_bytes(),
            client.as_bytes(),
            proof,
            &encapsulated(message),
            PROTOCOL,
            b"Server",
        ]
        .concat();
        hash(&input, ":auth_final")
    }
}

/// Keys of the client's message: cipher and proof.
fn first_keys(onion: &SharedSecret, relay: &Relay, client: &PublicKey) -> ([u8; 32], [u8; 32]) {
    let secret =
        [onion.as_bytes(), &relay.ed25519[..], client.as_bytes(), &relay.onion_key, PROTOCOL, &encapsulated(CIRCUIT)]
            .concat();
    let mut stream = kdf(&secret, ":kdf_phase1");
    let (mut cipher, mut proof) = ([0; 32], [0; 32]);
    stream.read(&mut cipher);
    stream.read(&mut proof);
    (cipher, proof)
}

/// The proof of a client's encrypted message.
fn first_proof(onion: &SharedSecret, relay: &Relay, client: &PublicKey, message: &[u8]) -> [u8; 32] {
    let (_, key) = first_keys(onion, relay, client);
    Sha3_256::new()
        .chain_update(encapsulated(&tweak(":msg_mac")))
        .chain_update(encapsulated(&key))
        .chain_update(relay.ed25519)
        .chain_update(relay.onion_key)
        .chain_update(client.as_bytes())
        .chain_update(message)
        .finalize()
        .into()
}

/// AES-256 in counter mode, from zero.
fn encrypt(key: &[u8; 32], message: &mut [u8]) {
    ctr::Ctr128BE::<Aes256>::new(key.into(), &[0; 16].into()).apply_keystream(message);
}

/// With the length before it, in eight bytes.
fn encapsulated(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_be_bytes()[..], bytes].concat()
}

fn tweak(name: &str) -> Vec<u8> {
    [PROTOCOL, name.as_bytes()].concat()
}

fn hash(secret: &[u8], name: &str) -> [u8; 32] {
    Sha3_256::new().chain_update(encapsulated(&tweak(name))).chain_update(secret).finalize().into()
}

fn kdf(secret: &[u8], name: &str) -> impl XofReader {
    let mut shake = Shake256::default();
    shake.update(&encapsulated(&tweak(name)));
    shake.update(secret);
    shake.finalize_xof()
}

fn key(bytes: &[u8]) -> PublicKey {
    PublicKey::from(<[u8; 32]>::try_from(bytes).expect("32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER_PERMISSIVE;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).expect("hexadecimal").try_into().expect("the right length")
    }

    #[test]
    fn both_sides_have_the_same_keys_and_messages() {
        let onion = StaticSecret::from([7; 32]);
        let relay = Relay { ed25519: [9; 32], onion_key: PublicKey::from(&onion).to_bytes() };
        let (client, request) = Client::begin(relay, b"hello", [1; 32]);
        let read = Request::read(&request, &relay.ed25519, &onion).expect("a request for this relay");
        assert_eq!(read.message, b"hello");
        let (answer, keys) = read.answer(b"olleh", [2; 32]).expect("an answer");
        assert!(client.finish(&answer) == Ok((b"olleh".to_vec(), keys)));
    }

    /// Keys of proposal 332's test vector; its identity is of other bytes than an Ed25519 key, which does not matter.
    #[test]
    fn what_is_forged_is_refused() {
        let onion = StaticSecret::from(bytes("4051daa5921cfa2a1c27b08451324919538e79e788a81b38cbed097a5dff454a"));
        let relay = Relay { ed25519: [9; 32], onion_key: PublicKey::from(&onion).to_bytes() };
        let (client, request) = Client::begin(relay, b"hello", [1; 32]);
        for place in [0, 40, 70, 98, request.len() - 1] {
            let mut forged = request.clone();
            forged[place] ^= 1;
            assert!(Request::read(&forged, &relay.ed25519, &onion).is_err(), "byte {place}");
        }
        let read = Request::read(&request, &relay.ed25519, &onion).expect("a request for this relay");
        let (mut answer, _) = read.answer(b"olleh", [2; 32]).expect("an answer");
        *answer.last_mut().expect("bytes") ^= 1;
        assert!(client.finish(&answer) == Err(Refused::Proof));
    }
}
