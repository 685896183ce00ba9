//! Microdescriptors: what a client needs of a relay beside the consensus (dir-spec, "Computing microdescriptors").

use super::{Ports, bytes, fingerprint};
use sha1::Sha1;
use sha2::{Digest, Sha256};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Microdescriptor {
    /// SHA-256 of the text, by which the consensus names it.
    pub digest: [u8; 32],
    /// For ntor.
    pub onion_key: [u8; 32],
    pub ed25519: Option<[u8; 32]>,
    pub operator: Operator,
}

/// The choices of an operator. Many relays share the same ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operator {
    pub ports: Ports,
    /// Relays of the same operator, by fingerprint; only what both say of each other counts.
    pub family: Box<[[u8; 20]]>,
    /// SHA-1 of names of families; relays with one in common belong together (proposal 321).
    pub family_ids: Box<[[u8; 20]]>,
}

impl Microdescriptor {
    /// All that can be read of several, one behind the other. What cannot be read is left out: its digest is in no consensus.
    pub fn read_all(text: &str) -> Vec<Microdescriptor> {
        let starts: Vec<usize> = std::iter::once(0)
            .filter(|_| text.starts_with("onion-key\n"))
            .chain(text.match_indices("\nonion-key\n").map(|(at, _)| at + 1))
            .collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).filter_map(|(start, end)| Microdescriptor::read(&text[*start..end])).collect()
    }

    fn read(text: &str) -> Option<Microdescriptor> {
        let (mut onion_key, mut ed25519, mut ports) = (None, None, Ports::default());
        let (mut family, mut family_ids) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "ntor-onion-key" => onion_key = Some(bytes(rest)?),
                "id" => ed25519 = ed25519.or_else(|| rest.strip_prefix("ed25519 ").and_then(bytes)),
                "p" => ports = Ports::read(rest)?,
                "family" => family.extend(rest.split(' ').filter_map(member)),
                "family-ids" => family_ids.extend(rest.split(' ').map(|id| <[u8; 20]>::from(Sha1::digest(id)))),
                _ => {}
            }
        }
        Some(Microdescriptor {
            digest: Sha256::digest(text).into(),
            onion_key: onion_key?,
            ed25519,
            operator: Operator { ports, family: family.into(), family_ids: family_ids.into() },
        })
    }
}

/// `$FINGERPRINT`, perhaps with a nickname behind it; nicknames alone count no more.
fn member(word: &str) -> Option<[u8; 20]> {
    let digits = word.strip_prefix('$')?;
    fingerprint(digits.split(['=', '~']).next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "onion-key\nntor-onion-key AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n\
         family $0101010101010101010101010101010101010101=other nickname\np accept 80\n\
         id ed25519 AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI\n";

    #[test]
    fn several_stand_one_behind_the_other() {
        let text = format!("{ONE}onion-key\nnothing\n{}", ONE.replace("accept 80", "reject 25"));
        let read = Microdescriptor::read_all(&text);
        assert_eq!(read.len(), 2, "what has no key is left out");
        assert_eq!(read[0].digest, <[u8; 32]>::from(Sha256::digest(ONE)));
        assert_eq!((read[0].onion_key, read[0].ed25519), ([1; 32], Some([2; 32])));
        assert_eq!(*read[0].operator.family, [[1; 20]]);
        assert!(read[0].operator.ports.accepts(80) && read[1].operator.ports.accepts(443));
        assert!(Microdescriptor::read_all("").is_empty());
    }
}
