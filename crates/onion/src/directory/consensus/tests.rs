//! Consensuses and certificates of authorities whose keys follow from numbers.

use super::*;
use crate::keys::make_identity;
use data_encoding::{BASE64, BASE64_NOPAD, HEXUPPER};
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPublicKey, LineEnding};
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;

/// An authority, whose keys follow from a number.
struct Authority {
    identity: RsaPrivateKey,
    signing: RsaPrivateKey,
}

fn fingerprint_of(key: &RsaPrivateKey) -> [u8; 20] {
    Sha1::digest(RsaPublicKey::from(key).to_pkcs1_der().unwrap().as_bytes()).into()
}

fn armour(label: &str, bytes: &[u8]) -> String {
    let lines: Vec<String> =
        BASE64.encode(bytes).as_bytes().chunks(64).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn sign(key: &RsaPrivateKey, digest: &[u8]) -> Vec<u8> {
    key.sign(Pkcs1v15Sign::new_unprefixed(), digest).unwrap()
}

impl Authority {
    fn new(number: u64) -> Authority {
        let key = |number: u64| {
            let mut state = number;
            let pem = make_identity(|bytes| {
                for byte in bytes {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *byte = (state >> 33) as u8;
                }
            });
            RsaPrivateKey::from_pkcs1_pem(&pem).unwrap()
        };
        Authority { identity: key(2 * number), signing: key(2 * number + 1) }
    }

    fn certificate(&self) -> String {
        let pem = |key: &RsaPrivateKey| RsaPublicKey::from(key).to_pkcs1_pem(LineEnding::LF).unwrap();
        let identity = fingerprint_of(&self.identity);
        let text = format!(
            "dir-key-certificate-version 3\nfingerprint {}\ndir-key-published 1999-12-01 00:00:00\n\
             dir-key-expires 2000-12-01 00:00:00\ndir-identity-key\n{}dir-signing-key\n{}dir-key-crosscert\n{}dir-key-certification\n",
            HEXUPPER.encode(&identity),
            pem(&self.identity),
            pem(&self.signing),
            armour("ID SIGNATURE", &sign(&self.signing, &identity))
        );
        let signature = sign(&self.identity, &Sha1::digest(&text));
        text + &armour("SIGNATURE", &signature)
    }

    fn sign(&self, consensus: &str) -> String {
        let digest = Sha256::digest(format!("{consensus}directory-signature "));
        format!(
            "directory-signature sha256 {} {}\n{}",
            HEXUPPER.encode(&fingerprint_of(&self.identity)),
            HEXUPPER.encode(&fingerprint_of(&self.signing)),
            armour("SIGNATURE", &sign(&self.signing, &digest))
        )
    }
}

fn text() -> String {
    format!(
        "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2000-01-01 00:00:30\nfresh-until 2000-01-01 00:05:00\n\
         valid-until 2000-01-01 00:15:00\nr guard1 {id} 2000-01-01 00:00:00 20.0.0.1 9001 0\nm {md}\ns Fast Guard Running Stable V2Dir Valid\n\
         v Tor 0.4.9\npr Cons=1-2\nw Bandwidth=1500\nr broken {id} 2000-01-01 00:00:00 20.1.0.1 9001 0\ns Running\nw Bandwidth=1\n\
         r exit1 {id} 2000-01-01 00:00:00 20.2.0.1 9001 0\nm {md}\ns Exit Running\nw Bandwidth=7 Unmeasured=1\n\
         directory-footer\nbandwidth-weights Wbd=0 Wee=10000 Wgd=99999 Wgm=4000 Wmd=-1\n",
        id = BASE64_NOPAD.encode(&[1; 20]),
        md = BASE64_NOPAD.encode(&[2; 32]),
    )
}

#[test]
fn relays_weights_and_times_are_read() {
    let authority = Authority::new(1);
    let Consensus { preamble: Preamble { valid_after_s, valid_until_s, .. }, weights, relays } =
        SignedConsensus::read(&(text() + &authority.sign(&text()))).unwrap().consensus;
    assert_eq!((valid_after_s, valid_until_s), (946_684_830, 946_685_700));
    assert_eq!((weights.wgd, weights.wgm, weights.wmd, weights.wmm), (10_000, 4000, 10_000, 10_000));
    assert_eq!(relays.len(), 2, "what has no microdescriptor is left out");
    assert_eq!((&*relays[0].nickname, relays[0].fingerprint, relays[0].bandwidth), ("guard1", [1; 20], 1500));
    assert!(relays[0].flags.guard && relays[0].flags.directory && !relays[0].flags.exit && relays[1].flags.exit);
    assert_eq!(relays[1].microdescriptor, [2; 32]);
    for wrong in ["", "network-status-version 3\n", &text(), &text().replace("valid-until", "x")] {
        assert!(SignedConsensus::read(wrong).is_none());
    }
}

#[test]
fn only_good_signatures_of_known_authorities_count() {
    const NOW_S: u64 = 946_684_900;
    let authorities = [Authority::new(1), Authority::new(2), Authority::new(3)];
    let certificates: String = authorities[..2].iter().map(Authority::certificate).collect();
    let certificates = KeyCertificate::read_all(&certificates);
    assert_eq!(certificates.len(), 2);
    let signed: String = text() + &authorities.iter().map(|authority| authority.sign(&text())).collect::<String>();
    let signers = |text: &str, now_s| SignedConsensus::read(text).unwrap().signers(&certificates, now_s);
    let mut expected: Vec<[u8; 20]> =
        authorities[..2].iter().map(|authority| fingerprint_of(&authority.identity)).collect();
    expected.sort_unstable();
    assert_eq!(signers(&signed, NOW_S), expected);
    assert_eq!(signers(&(signed.clone() + &authorities[0].sign(&text())), NOW_S).len(), 2, "each counts once");
    assert!(signers(&signed.replace("Bandwidth=1500", "Bandwidth=9500"), NOW_S).is_empty(), "changed");
    assert!(signers(&signed, NOW_S + 366 * 86_400).is_empty(), "certificates have an end");
    let other = text()
        + &authorities[2].sign(&text()).replace(
            &HEXUPPER.encode(&fingerprint_of(&authorities[2].signing)),
            &HEXUPPER.encode(&fingerprint_of(&authorities[0].signing)),
        );
    assert!(signers(&other, NOW_S).is_empty(), "by another key");
}

#[test]
fn forged_certificates_are_left_out() {
    let text = Authority::new(1).certificate();
    assert_eq!(KeyCertificate::read_all(&text).len(), 1);
    for (from, to) in [("2000-12-01", "2999-12-01"), ("fingerprint ", "fingerprint 00"), ("ID SIGNATURE", "OTHER")] {
        assert!(KeyCertificate::read_all(&text.replace(from, to)).is_empty(), "{from}");
    }
}
