//! CREATE_FAST, which a client uses for its first hop, where TLS protects already (tor-spec, "CREATE_FAST/CREATED_FAST cells").

use super::{HopKeys, Refused, kdf_tor};

/// Bytes that each side contributes.
pub const PART: usize = 20;

/// The relay's answer to a client's bytes: its own and a proof of both, with the circuit's keys.
pub fn answer(theirs: &[u8; PART], ours: [u8; PART]) -> ([u8; 2 * PART], HopKeys) {
    let (proof, keys) = derive(theirs, &ours);
    let mut body = [0; 2 * PART];
    body[..PART].copy_from_slice(&ours);
    body[PART..].copy_from_slice(&proof);
    (body, keys)
}

/// The client's end, of CREATED_FAST's first 40 bytes.
pub fn finish(ours: &[u8; PART], answer: &[u8]) -> Result<HopKeys, Refused> {
    let (theirs, proof) = answer.get(..2 * PART).ok_or(Refused::Length)?.split_at(PART);
    let (expected, keys) = derive(ours, theirs.try_into().expect("20 bytes"));
    if proof == expected { Ok(keys) } else { Err(Refused::Proof) }
}

fn derive(client: &[u8; PART], relay: &[u8; PART]) -> ([u8; PART], HopKeys) {
    let material: [u8; PART + HopKeys::BYTES] = kdf_tor(&[*client, *relay].concat());
    let (proof, keys) = material.split_at(PART);
    (proof.try_into().expect("20 bytes"), HopKeys::from_bytes(keys.try_into().expect("all keys")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_keys() {
        let (client, relay) = ([1; PART], [2; PART]);
        let (body, keys) = answer(&client, relay);
        assert!(finish(&client, &body) == Ok(keys));
        let mut wrong = body;
        wrong[39] ^= 1;
        assert!(finish(&client, &wrong) == Err(Refused::Proof));
        assert!(finish(&client, &body[..39]) == Err(Refused::Length));
    }
}
