//! Authorities' certificates of the keys with which they sign for some months (dir-spec, "Creating key certificates").

use super::{fingerprint, object};
use crate::date;
use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::{Pkcs1v15Sign, RsaPublicKey};
use sha1::{Digest, Sha1};

/// A certificate that was found good: signed by the identity that it names.
#[derive(Clone, Debug)]
pub struct KeyCertificate {
    /// SHA-1 of the authority's identity key for votes, which torrc calls `v3ident`.
    pub identity: [u8; 20],
    /// SHA-1 of the key that signs.
    pub signing: [u8; 20],
    pub(super) key: RsaPublicKey,
    pub expires_s: u64,
}

const FIRST: &str = "dir-key-certificate-version 3\n";

impl KeyCertificate {
    /// All good ones of several, one behind the other.
    pub fn read_all(text: &str) -> Vec<KeyCertificate> {
        let starts: Vec<usize> = text.match_indices(FIRST).map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).filter_map(|(start, end)| KeyCertificate::read(&text[*start..end])).collect()
    }

    fn read(text: &str) -> Option<KeyCertificate> {
        let behind = |word: &str| {
            let at = text.find(&format!("\n{word}"))? + 1 + word.len();
            text.get(at..)
        };
        let line = |word: &str| behind(word)?.lines().next();
        let named = fingerprint(line("fingerprint ")?)?;
        let (day, time) = line("dir-key-expires ")?.split_once(' ')?;
        let identity_der = object(behind("dir-identity-key\n")?, "RSA PUBLIC KEY")?;
        let signing_der = object(behind("dir-signing-key\n")?, "RSA PUBLIC KEY")?;
        let identity: [u8; 20] = Sha1::digest(&identity_der).into();
        let (identity_key, key) =
            (RsaPublicKey::from_pkcs1_der(&identity_der).ok()?, RsaPublicKey::from_pkcs1_der(&signing_der).ok()?);
        // Each key's word for the other.
        let crossed = behind("dir-key-crosscert\n")?;
        let crossed = object(crossed, "ID SIGNATURE").or_else(|| object(crossed, "SIGNATURE"))?;
        key.verify(Pkcs1v15Sign::new_unprefixed(), &identity, &crossed).ok()?;
        let end = text.find("\ndir-key-certification\n")? + "\ndir-key-certification\n".len();
        let signature = object(&text[end..], "SIGNATURE")?;
        let digest = Sha1::digest(&text[..end]);
        identity_key.verify(Pkcs1v15Sign::new_unprefixed(), &digest, &signature).ok()?;
        let signing = Sha1::digest(&signing_der).into();
        let certificate =
            KeyCertificate { identity, signing, key, expires_s: date::read_time(&format!("{day} {time}"))? };
        (named == identity).then_some(certificate)
    }
}
