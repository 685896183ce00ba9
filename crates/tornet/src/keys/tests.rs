//! That tools which know these formats take the keys: openssl where it is installed, tor where it is.

use super::*;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPrivateKey, RsaPublicKey};
use sha1::{Digest, Sha1};
use std::process::Command;

fn seeds() -> SeedTree {
    SeedTree::new(42)
}

/// The output of a program, None where it is not installed.
fn run(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn equal_seeds_give_equal_keys_and_different_hosts_different_ones() {
    let one = RelayIdentity::generate(&seeds(), "guard1");
    assert_eq!(one.secret_id_key, RelayIdentity::generate(&seeds(), "guard1").secret_id_key);
    assert_ne!(one.fingerprint, RelayIdentity::generate(&seeds(), "guard2").fingerprint);
    assert_ne!(one.fingerprint, RelayIdentity::generate(&SeedTree::new(43), "guard1").fingerprint);
}

#[test]
fn a_relays_fingerprint_is_what_tor_lists() {
    let identity = RelayIdentity::generate(&seeds(), "guard1");
    let key = RsaPrivateKey::from_pkcs1_pem(&identity.secret_id_key).expect("PKCS #1");
    assert_eq!(key.size() * 8, 1024);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keys = folder.path().join("keys");
    std::fs::create_dir(&keys).expect("a folder");
    std::fs::write(keys.join("secret_id_key"), &identity.secret_id_key).expect("a file");
    let listed = run(Command::new("tor")
        .args(["--quiet", "--ignore-missing-torrc", "-f", "/nonexistent", "--defaults-torrc", "/nonexistent"])
        .args(["--list-fingerprint", "--ORPort", "9001", "--Nickname", "guard1", "--DataDirectory"])
        .arg(folder.path()));
    let Some(listed) = listed else { return eprintln!("tor is not installed: nothing compared") };
    let digits: String = listed.split_whitespace().skip(1).collect();
    assert_eq!(digits, identity.fingerprint, "{listed}");
}

#[test]
fn an_authoritys_certificate_carries_valid_signatures_of_its_keys() {
    let keys = AuthorityKeys::generate(&seeds(), "authority1", base::StartDate::default());
    let block = |begin: &str, end: &str| {
        let start = keys.certificate.find(begin).expect("a block");
        let length = keys.certificate[start..].find(end).expect("its end") + end.len();
        &keys.certificate[start..start + length]
    };
    let public = |line: &str| {
        let after = &keys.certificate[keys.certificate.find(line).expect("a key")..];
        let end = after.find("-----END RSA PUBLIC KEY-----").expect("its end");
        RsaPublicKey::from_pkcs1_pem(&after[line.len()..end + 28]).expect("PKCS #1")
    };
    let signature = |label: &str| {
        let text = block(&format!("-----BEGIN {label}-----"), &format!("-----END {label}-----"));
        let lines: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        data_encoding::BASE64.decode(lines.as_bytes()).expect("base64")
    };
    let (identity, signing) = (public("dir-identity-key\n"), public("dir-signing-key\n"));
    assert_eq!((identity.size() * 8, signing.size() * 8), (3072, 2048));
    let signed = keys.certificate.split_inclusive("dir-key-certification\n").next().expect("text");
    let verify = |key: &RsaPublicKey, digest: &[u8], signature: &[u8]| {
        key.verify(Pkcs1v15Sign::new_unprefixed(), digest, signature).expect("a valid signature");
    };
    verify(&identity, &Sha1::digest(signed), &signature("SIGNATURE"));
    let identity_key = RsaPrivateKey::from_pkcs1_pem(&keys.identity_key).expect("PKCS #1");
    verify(&signing, &fingerprint(&identity_key), &signature("ID SIGNATURE"));
    assert_eq!(hex_upper(&fingerprint(&identity_key)), keys.v3_identity);
}

#[test]
fn openssl_finds_nothing_wrong_with_the_keys() {
    let keys = AuthorityKeys::generate(&seeds(), "authority1", base::StartDate::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, pem) in [("identity", &keys.identity_key), ("signing", &keys.signing_key)] {
        let file = folder.path().join(name);
        std::fs::write(&file, pem).expect("a file");
        let Some(said) = run(Command::new("openssl").args(["rsa", "-check", "-noout", "-in"]).arg(&file)) else {
            return eprintln!("openssl is not installed: nothing checked");
        };
        assert!(said.contains("RSA key ok"), "{said}");
    }
}

#[test]
fn onion_addresses_end_in_their_checksum_and_version() {
    let keys = OnionKeys::generate(&seeds(), "onion1");
    let encoded = keys.address.strip_suffix(".onion").expect("an onion address").to_uppercase();
    let bytes = data_encoding::BASE32_NOPAD.decode(encoded.as_bytes()).expect("base 32");
    assert_eq!((bytes.len(), bytes[34]), (35, 3));
    assert_eq!((keys.secret_key.len(), keys.public_key.len()), (96, 64));
    assert_eq!(&keys.public_key[32..], &bytes[..32]);
    // The scalar in the secret file is clamped, and gives the public key.
    assert_eq!((keys.secret_key[32] & 7, keys.secret_key[63] & 0xc0), (0, 0x40));
}

/// The address that rend-spec-v3 gives as an example.
#[test]
fn a_known_onion_address_comes_from_its_key() {
    let address = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    let encoded = address.strip_suffix(".onion").expect("an onion address").to_uppercase();
    let bytes = data_encoding::BASE32_NOPAD.decode(encoded.as_bytes()).expect("base 32");
    assert_eq!(onion::address(bytes[..32].try_into().expect("32 bytes")), address);
}

#[test]
fn a_bridges_certificate_is_its_identity_and_public_key() {
    let identity = RelayIdentity::generate(&seeds(), "bridge1");
    let obfs4 = Obfs4State::generate(&seeds(), "bridge1", &identity.fingerprint_bytes);
    let state: serde_json::Value = serde_json::from_str(&obfs4.state).expect("JSON");
    let bytes = data_encoding::BASE64_NOPAD.decode(obfs4.certificate.as_bytes()).expect("base 64");
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    assert_eq!(state["node-id"], hex(&bytes[..20]));
    assert_eq!(state["node-id"], identity.fingerprint.to_lowercase());
    assert_eq!(state["public-key"], hex(&bytes[20..]));
    assert_eq!(obfs4.certificate.len(), 70);
}
