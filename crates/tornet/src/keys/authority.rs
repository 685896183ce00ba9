//! A directory authority's identity and signing keys and the certificate that binds them (dir-spec, "Creating key certificates").

use super::{Ed25519Key, fingerprint, hex_upper, private_pem, public_der, rsa_key};
use base::date::date_and_time;
use base::{SeedTree, StartDate};
use data_encoding::BASE64;
use rsa::pkcs1::{EncodeRsaPublicKey, LineEnding};
use rsa::{Pkcs1v15Sign, RsaPrivateKey};
use sha1::{Digest, Sha1};

const IDENTITY_BITS: usize = 3072;
const SIGNING_BITS: usize = 2048;

/// Certificates are so much older than the clocks of hosts, which leaves room for hosts whose clocks are set back.
const AGE_S: i64 = 31 * 86_400;
/// And last ten years.
const LIFE_S: i64 = 3_653 * 86_400;

#[derive(Clone, Debug)]
pub struct AuthorityKeys {
    /// The `v3ident` of DirAuthority lines: 40 upper-case hexadecimal digits.
    pub v3_identity: String,
    /// The file `keys/authority_identity_key`. tor does not need it in a run; a new certificate would.
    pub identity_key: String,
    /// The file `keys/authority_signing_key`.
    pub signing_key: String,
    /// The file `keys/authority_certificate`.
    pub certificate: String,
    /// Its identity as a relay; tor makes one of its own where it finds none.
    pub ed25519: Ed25519Key,
}

impl AuthorityKeys {
    pub fn generate(seeds: &SeedTree, host: &str, start: StartDate) -> AuthorityKeys {
        let identity = rsa_key(seeds, host, "authority identity", IDENTITY_BITS);
        let signing = rsa_key(seeds, host, "authority signing", SIGNING_BITS);
        AuthorityKeys {
            v3_identity: hex_upper(&fingerprint(&identity)),
            identity_key: private_pem(&identity),
            signing_key: private_pem(&signing),
            certificate: certificate(&identity, &signing, start),
            ed25519: Ed25519Key::generate(seeds, host, "relay identity, ed25519"),
        }
    }
}

fn certificate(identity: &RsaPrivateKey, signing: &RsaPrivateKey, start: StartDate) -> String {
    let published = (start.unix_seconds() as i64 - AGE_S).max(0);
    let crosscert = sign(signing, &Sha1::digest(public_der(identity)));
    let mut text = format!(
        "dir-key-certificate-version 3\nfingerprint {}\ndir-key-published {}\ndir-key-expires {}\n\
         dir-identity-key\n{}dir-signing-key\n{}dir-key-crosscert\n{}dir-key-certification\n",
        hex_upper(&fingerprint(identity)),
        date_and_time(published),
        date_and_time(published + LIFE_S),
        public_pem(identity),
        public_pem(signing),
        pem("ID SIGNATURE", &crosscert),
    );
    let certification = sign(identity, &Sha1::digest(text.as_bytes()));
    text += &pem("SIGNATURE", &certification);
    text
}

/// PKCS #1 v1.5 over the bare digest: tor's signatures name no hash.
fn sign(key: &RsaPrivateKey, digest: &[u8]) -> Vec<u8> {
    key.sign(Pkcs1v15Sign::new_unprefixed(), digest).expect("a digest is shorter than the key")
}

fn public_pem(key: &RsaPrivateKey) -> String {
    key.to_public_key().to_pkcs1_pem(LineEnding::LF).expect("a complete key")
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = BASE64.encode(bytes);
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}
