//! Certificates as they are made, and with what spoils them.

use super::*;
use crate::keys::tests::keys;
use sha2::{Digest, Sha256};

const NOW: u64 = 946_684_800;

#[test]
fn certificates_prove_who_shows_them() {
    let keys = keys(1);
    let certificates = keys.certificates(NOW, [5; 32]);
    let tls = Sha256::digest(&certificates.tls).into();
    assert_eq!(Verified::default().responder(&certificates.responder, &tls, NOW), Ok(keys.public()));
    let quick = Sha256::digest(&certificates.quick).into();
    assert_eq!(Verified::default().responder(&certificates.quick_responder, &quick, NOW), Ok(keys.public()));
    assert!(
        Verified::default().responder(&certificates.quick_responder, &tls, NOW).is_err(),
        "of the other certificate"
    );
    let (who, key) = Verified::default().initiator(&certificates.initiator, NOW).expect("good certificates");
    assert_eq!((who, key), (keys.public(), keys.authentication.verifying_key().to_bytes()));
}

#[test]
fn what_is_wrong_with_certificates_is_told() {
    use CertificateError::{Expired, Missing, Subject, Twice};
    let (keys, others) = (keys(1), keys(2).certificates(NOW, [5; 32]));
    let certificates = keys.certificates(NOW, [5; 32]);
    let tls = Sha256::digest(&certificates.tls).into();
    let check = |certificates: &[(u8, Vec<u8>)], now| Verified::default().responder(certificates, &tls, now);
    assert_eq!(Verified::default().responder(&certificates.responder, &[0; 32], NOW), Err(Subject(kind::LINK)));
    assert_eq!(check(&certificates.responder, NOW + 3 * 86_400), Err(Expired(kind::LINK)));
    assert_eq!(check(&certificates.responder, NOW - 2 * 86_400), Err(Expired(kind::RSA_IDENTITY)));
    assert_eq!(check(&certificates.initiator, NOW), Err(Missing(kind::LINK)));
    let twice = [&certificates.responder[..], &certificates.responder[1..2]].concat();
    assert_eq!(check(&twice, NOW), Err(Twice(kind::SIGNING)));
    for index in 0..4 {
        // Another relay's in its place, and each byte changed.
        let mut mixed = certificates.responder.clone();
        mixed[index] = others.responder[index].clone();
        assert!(check(&mixed, NOW).is_err(), "certificate {index} of another relay");
        for place in 0..certificates.responder[index].1.len() {
            let mut changed = certificates.responder.clone();
            changed[index].1[place] ^= 1;
            assert!(check(&changed, NOW).is_err(), "byte {place} of certificate {index}");
            changed[index].1.truncate(place);
            assert!(check(&changed, NOW).is_err(), "certificate {index} cut at {place}");
        }
    }
}
