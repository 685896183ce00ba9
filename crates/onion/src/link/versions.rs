//! Versions of the link protocol, and the private ones by which two relays of ours recognize each other.

/// Tor's versions that are spoken here: 4 has circuit ids of four bytes, 5 has padding besides.
pub const VERSIONS: [u16; 2] = [4, 5];

/// What lies between two relays, named by a private version that C tor passes over (it takes the highest that both know).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Design(pub u8);

/// Private versions are this, and a design's number.
const PRIVATE: u16 = 0x6700;

/// VERSIONS' body: Tor's versions, and the designs that this end can use.
pub(super) fn write(designs: &[Design]) -> Vec<u8> {
    let private = designs.iter().map(|design| PRIVATE | u16::from(design.0));
    VERSIONS.into_iter().chain(private).flat_map(u16::to_be_bytes).collect()
}

/// The highest of Tor's versions that both know, and the first of our designs that the other knows, too.
pub(super) fn agree(body: &[u8], designs: &[Design]) -> Option<(u16, Option<Design>)> {
    let (theirs, odd) = body.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let theirs = || theirs.iter().map(|version| u16::from_be_bytes(*version));
    let version = theirs().filter(|version| VERSIONS.contains(version)).max()?;
    let design =
        designs.iter().copied().find(|design| theirs().any(|version| version == PRIVATE | u16::from(design.0)));
    Some((version, design))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_take_the_highest_version_and_a_common_design() {
        let (a, b) = ([Design(1), Design(3)], [Design(3), Design(9)]);
        assert_eq!(agree(&write(&a), &b), Some((5, Some(Design(3)))));
        assert_eq!(agree(&write(&[]), &b), Some((5, None)));
        assert_eq!(agree(&[0, 3, 0, 4], &a), Some((4, None)));
        assert_eq!(agree(&[0, 3], &a), None);
        assert_eq!(agree(&[0, 4, 0], &a), None);
    }
}
