//! What directory authorities say of relays, by the first byte: the consensus as clients and as relays read it, certificates of authorities'
//! keys, microdescriptors, lists of ports and of parameters.

use onion::directory::{ConsensusParameters, KeyCertificate, Microdescriptor, Ports, Preamble, SignedConsensus};
use sha2::{Digest, Sha256};

pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = &*String::from_utf8_lossy(rest);
    match kind % 5 {
        0 => of_clients(text),
        1 => of_relays(text),
        2 => certificates(text),
        3 => microdescriptors(text),
        _ => lists(text),
    }
}

fn of_clients(text: &str) {
    let Some(signed) = SignedConsensus::read(text) else { return };
    let (consensus, preamble) = (&signed.consensus, &signed.consensus.preamble);
    assert!(preamble.valid_after_s < preamble.fresh_until_s && preamble.fresh_until_s <= preamble.valid_until_s);
    assert!(consensus.relays.len() <= text.matches("r ").count());
    let weights = consensus.weights;
    assert!([weights.wgg, weights.wmm, weights.wee, weights.wed].iter().all(|weight| *weight <= 10_000));
    assert!(signed.signers(&[], 0).is_empty(), "signed by nobody that is known");
}

fn of_relays(text: &str) {
    if let Some(read) = Preamble::read(text) {
        assert!((3..=10).contains(&read.parameters.get("cc_alg", 5, 3..=10)));
    }
}

fn certificates(text: &str) {
    let read = KeyCertificate::read_all(text);
    assert!(read.len() <= text.matches("dir-key-certificate-version 3\n").count());
}

fn microdescriptors(text: &str) {
    for read in Microdescriptor::read_all(text) {
        // The digest is of what is read: it is the whole text where there is one alone.
        if text.matches("onion-key\n").count() == 1 && text.starts_with("onion-key\n") {
            assert_eq!(read.digest, <[u8; 32]>::from(Sha256::digest(text)));
        }
        ports(&read.operator.ports);
    }
}

fn ports(read: &Ports) {
    if read.is_none() {
        assert!((1..=u16::MAX).step_by(251).all(|port| !read.accepts(port)), "no port is accepted, and one is");
    }
}

fn lists(text: &str) {
    if let Some(read) = Ports::read(text) {
        ports(&read);
    }
    if let Some(read) = ConsensusParameters::read(text) {
        for word in text.split(' ') {
            let name = word.split('=').next().unwrap_or_default();
            assert!(read.get(name, 0, 0..=7) <= 7);
        }
    }
}
