//! Tor's own certificates (cert-spec, "Document formats").

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// What a certificate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
    Ed25519 = 1,
    /// The SHA-256 of an X.509 certificate.
    X509 = 3,
}

/// The extension that names the key that signed.
const SIGNED_WITH: u8 = 4;
const SIGNATURE: usize = 64;

/// Hours since 1970, rounded up.
pub(super) fn hours(time_s: u64) -> u32 {
    time_s.div_ceil(3600) as u32
}

/// A certificate of `subject` by `key`, which it names if `names_signer`.
pub(super) fn sign(
    key: &SigningKey,
    kind: u8,
    key_type: KeyType,
    subject: &[u8; 32],
    until_s: u64,
    names_signer: bool,
) -> Vec<u8> {
    let signer = key.verifying_key();
    certificate(kind, key_type, subject, until_s, names_signer.then_some(&signer), |bytes| key.sign(bytes).to_bytes())
}

/// A certificate that names a signer, if it is to name one.
pub(super) fn certificate(
    kind: u8,
    key_type: KeyType,
    subject: &[u8; 32],
    until_s: u64,
    signer: Option<&VerifyingKey>,
    sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE],
) -> Vec<u8> {
    let mut certificate = vec![1, kind];
    certificate.extend_from_slice(&hours(until_s).to_be_bytes());
    certificate.push(key_type as u8);
    certificate.extend_from_slice(subject);
    certificate.push(u8::from(signer.is_some()));
    if let Some(signer) = signer {
        certificate.extend_from_slice(&[0, 32, SIGNED_WITH, 0]);
        certificate.extend_from_slice(signer.as_bytes());
    }
    let signature = sign(&certificate);
    certificate.extend_from_slice(&signature);
    certificate
}

/// A certificate that was read, and is not yet believed.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub kind: u8,
    pub until_hours: u32,
    pub key_type: u8,
    pub subject: [u8; 32],
    pub signer: Option<[u8; 32]>,
    signed: &'a [u8],
    signature: [u8; SIGNATURE],
}

impl<'a> Read<'a> {
    /// Nothing if it is malformed, or has an extension that must be understood and is not.
    pub fn parse(bytes: &'a [u8]) -> Option<Read<'a>> {
        let (signed, signature) = bytes.split_at_checked(bytes.len().checked_sub(SIGNATURE)?)?;
        let ([version, kind], rest) = signed.split_first_chunk::<2>()?;
        let (until, rest) = rest.split_first_chunk::<4>()?;
        let (key_type, rest) = rest.split_first()?;
        let (subject, rest) = rest.split_first_chunk::<32>()?;
        let (extensions, mut rest) = rest.split_first()?;
        let mut signer = None;
        for _ in 0..*extensions {
            let ([high, low, kind, flags], after) = rest.split_first_chunk::<4>()?;
            let (data, after) = after.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
            match *kind {
                SIGNED_WITH => signer = Some(data.try_into().ok()?),
                _ if flags & 1 != 0 => return None,
                _ => {}
            }
            rest = after;
        }
        (*version == 1 && rest.is_empty()).then_some(Read {
            kind: *kind,
            until_hours: u32::from_be_bytes(*until),
            key_type: *key_type,
            subject: *subject,
            signer,
            signed,
            signature: signature.try_into().ok()?,
        })
    }

    pub fn is_signed_by(&self, key: &[u8; 32]) -> bool {
        self.signer.is_none_or(|signer| signer == *key)
            && VerifyingKey::from_bytes(key)
                .is_ok_and(|key| key.verify_strict(self.signed, &Signature::from_bytes(&self.signature)).is_ok())
    }
}
