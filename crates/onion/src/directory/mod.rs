//! What directory authorities say of relays, as clients and relays read it (dir-spec): the consensus in the flavour `microdesc`, the certificates
//! of the keys that sign it, and microdescriptors, which hold what a consensus leaves out.

mod certificate;
mod consensus;
mod microdescriptor;
mod ports;
mod preamble;

pub use certificate::KeyCertificate;
pub use consensus::{Consensus, Entry, Flags, LONGEST_NICKNAME, Nickname, SignedConsensus, Weights};
pub use microdescriptor::{Microdescriptor, Operator};
pub use ports::Ports;
pub use preamble::{ConsensusParameters, LONGEST_PREAMBLE, Preamble};

use data_encoding::BASE64;

/// The bytes between `-----BEGIN LABEL-----` and its end, of which `text` begins with the first; nothing if it does not.
fn object(text: &str, label: &str) -> Option<Vec<u8>> {
    let rest = text.strip_prefix("-----BEGIN ")?.strip_prefix(label)?.strip_prefix("-----\n")?;
    let (encoded, _) = rest.split_once("-----END ")?;
    let mut digits: Vec<u8> = encoded.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // What comes of old tors may lack it.
    digits.resize(digits.len().next_multiple_of(4), b'=');
    BASE64.decode(&digits).ok()
}

/// Base64 without its padding, of so many bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.trim_end_matches('=');
    data_encoding::BASE64_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// A relay's identity as its line in a consensus gives it: base64 without padding (dir-spec, "Router status entries").
pub fn identity_text(identity: &[u8; 20]) -> String {
    data_encoding::BASE64_NOPAD.encode(identity)
}

/// Twenty bytes in hexadecimal digits.
fn fingerprint(text: &str) -> Option<[u8; 20]> {
    data_encoding::HEXUPPER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}
