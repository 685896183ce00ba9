//! What a relay tells the directory authorities of itself (dir-spec, "Server descriptor format").

use crate::certificates::signed_by;
use crate::keys::RelayKeys;
use data_encoding::{BASE64, BASE64_NOPAD, HEXUPPER};
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signer, VerifyingKey};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Of the protocols' parts those that are spoken here.
pub const PROTOCOLS: &str = "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 Link=4-5 LinkAuth=3 Microdesc=1-2 Relay=2-4";

/// How long the signing key and the onion key's word for the identity hold, in seconds.
const HOLDS_S: u64 = 30 * 86_400;

/// The certificate's type of an onion key's word for the identity (cert-spec).
const ONION_KEY: u8 = 10;

/// What a relay says of itself beside its keys.
#[derive(Clone, Debug)]
pub struct Descriptor<'a> {
    pub nickname: &'a str,
    pub address: Ipv4Addr,
    pub or_port: u16,
    /// The program and its system.
    pub platform: &'a str,
    pub protocols: &'a str,
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Bytes per second: on average, at most, and of late.
    pub bandwidth_rate: u64,
    pub bandwidth_burst: u64,
    pub bandwidth_observed: u64,
    /// Empty for none.
    pub contact: &'a str,
    /// Lines such as `accept *:80`.
    pub exit_policy: &'a [String],
    /// It answers questions to the directory within circuits.
    pub is_directory: bool,
}

impl Descriptor<'_> {
    /// The text, signed by both identities. `now_s` counts from 1970.
    pub fn sign(&self, keys: &RelayKeys, now_s: u64) -> String {
        let until_s = now_s + HOLDS_S;
        let mut text = String::new();
        let _ = writeln!(text, "router {} {} {} 0 0", self.nickname, self.address, self.or_port);
        text += "identity-ed25519\n";
        armour(&mut text, "ED25519 CERT", &keys.signing_certificate(until_s));
        let _ = writeln!(text, "master-key-ed25519 {}", BASE64_NOPAD.encode(keys.identity.verifying_key().as_bytes()));
        let _ = writeln!(text, "platform {}", self.platform);
        let _ = writeln!(text, "proto {}", self.protocols);
        let _ = writeln!(text, "published {}", time(now_s));
        let fingerprint = HEXUPPER.encode(&keys.public().rsa_fingerprint);
        let fours: Vec<&str> =
            fingerprint.as_bytes().chunks(4).map(|four| std::str::from_utf8(four).expect("hexadecimal")).collect();
        let _ = writeln!(text, "fingerprint {}", fours.join(" "));
        let _ = writeln!(text, "uptime {}", self.uptime_s);
        let _ =
            writeln!(text, "bandwidth {} {} {}", self.bandwidth_rate, self.bandwidth_burst, self.bandwidth_observed);
        text += "onion-key\n";
        armour(&mut text, "RSA PUBLIC KEY", &keys.tap_public_der());
        text += "signing-key\n";
        armour(&mut text, "RSA PUBLIC KEY", &keys.rsa_public_der());
        text += "onion-key-crosscert\n";
        armour(&mut text, "CROSSCERT", &keys.tap_certificate());
        let (sign, certificate) = onion_key_certificate(keys, until_s);
        let _ = writeln!(text, "ntor-onion-key-crosscert {sign}");
        armour(&mut text, "ED25519 CERT", &certificate);
        if !self.contact.is_empty() {
            let _ = writeln!(text, "contact {}", self.contact);
        }
        let _ = writeln!(text, "ntor-onion-key {}", BASE64.encode(&keys.onion_public()));
        self.exit_policy.iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
        if self.is_directory {
            text += "tunnelled-dir-server\n";
        }
        text += "router-sig-ed25519 ";
        let digest = Sha256::new().chain_update(b"Tor router descriptor signature v1").chain_update(&text).finalize();
        let signature = keys.signing.sign(&digest);
        let _ = writeln!(text, "{}", BASE64_NOPAD.encode(&signature.to_bytes()));
        text += "router-signature\n";
        let signature = keys.sign_rsa(&Sha1::digest(&text));
        armour(&mut text, "SIGNATURE", &signature);
        text
    }
}

/// The onion key's word for the Ed25519 identity, by the key of Ed25519 with the same secret, and that key's sign (dir-spec,
/// "Converting a curve25519 public key to an ed25519 public key").
fn onion_key_certificate(keys: &RelayKeys, until_s: u64) -> (u8, Vec<u8>) {
    let secret = keys.onion().to_bytes();
    let prefix = Sha512::new()
        .chain_update(secret)
        .chain_update(b"Derive high part of ed25519 key from curve25519 key\0")
        .finalize();
    let mut expanded = [0; 64];
    expanded[..32].copy_from_slice(&secret);
    expanded[32..].copy_from_slice(&prefix[..32]);
    let expanded = ExpandedSecretKey::from_bytes(&expanded);
    let public = VerifyingKey::from(&expanded);
    let identity = keys.identity.verifying_key().to_bytes();
    let certificate =
        signed_by(ONION_KEY, &identity, until_s, |bytes| raw_sign::<Sha512>(&expanded, bytes, &public).to_bytes());
    (public.as_bytes()[31] >> 7, certificate)
}

/// Base64 in lines of 64 between BEGIN and END.
fn armour(text: &mut String, label: &str, bytes: &[u8]) {
    let _ = writeln!(text, "-----BEGIN {label}-----");
    let encoded = BASE64.encode(bytes);
    for line in encoded.as_bytes().chunks(64) {
        let _ = writeln!(text, "{}", std::str::from_utf8(line).expect("base64"));
    }
    let _ = writeln!(text, "-----END {label}-----");
}

/// `2000-01-31 23:59:59`.
fn time(now_s: u64) -> String {
    let (year, month, day) = crate::date::of_day(now_s / 86_400);
    let second = now_s % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::keys;
    use ed25519_dalek::Signature;
    use rsa::Pkcs1v15Sign;

    fn text() -> String {
        let descriptor = Descriptor {
            nickname: "middle1",
            address: Ipv4Addr::new(20, 5, 0, 1),
            or_port: 9001,
            platform: "Gnomon on Linux",
            protocols: PROTOCOLS,
            uptime_s: 12,
            bandwidth_rate: 2_125_000,
            bandwidth_burst: 2_125_000,
            bandwidth_observed: 0,
            contact: "nobody@example.com",
            exit_policy: &["reject *:*".to_owned()],
            is_directory: true,
        };
        descriptor.sign(keys(1), 951_827_696)
    }

    #[test]
    fn both_identities_sign_all_before() {
        let text = text();
        let (signed, rest) = text.split_once("router-sig-ed25519 ").expect("a signature");
        let (signature, _) = rest.split_once('\n').expect("a line");
        let digest = Sha256::new()
            .chain_update(b"Tor router descriptor signature v1")
            .chain_update(signed)
            .chain_update("router-sig-ed25519 ");
        let signature =
            Signature::from_slice(&BASE64_NOPAD.decode(signature.as_bytes()).expect("base64")).expect("64 bytes");
        keys(1).signing.verifying_key().verify_strict(&digest.finalize(), &signature).expect("the signing key's");
        let (signed, rest) = text.split_once("router-signature\n").expect("a signature");
        let base64: String = rest.lines().filter(|line| !line.starts_with('-')).collect();
        let signature = BASE64.decode(base64.as_bytes()).expect("base64");
        let digest = Sha1::new().chain_update(signed).chain_update("router-signature\n").finalize();
        keys(1).rsa_public().verify(Pkcs1v15Sign::new_unprefixed(), &digest, &signature).expect("the identity's");
    }

    #[test]
    fn lines_stand_in_their_order() {
        let text = text();
        let words = [
            "router",
            "identity-ed25519",
            "master-key-ed25519",
            "platform",
            "proto",
            "published",
            "fingerprint",
            "uptime",
            "bandwidth",
            "signing-key",
        ];
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(char::is_lowercase)).collect();
        let first: Vec<&str> = lines
            .iter()
            .map(|line| line.split(' ').next().expect("a word"))
            .filter(|word| words.contains(word))
            .collect();
        assert_eq!(first, words);
        assert!(text.contains("\npublished 2000-02-29 12:34:56\n"), "{text}");
        assert!(text.ends_with("-----END SIGNATURE-----\n"));
    }
}
