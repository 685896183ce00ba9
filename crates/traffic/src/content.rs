//! The bytes that transfers carry: a function of seed and offset alone, so that a receiver verifies them without having been told
//! anything but the seed, and a sender continues at any offset without having kept anything.
//!
//! Bytes 8i to 8i+7 are the little-endian form of SplitMix64's output number i for the seed.

use crate::random::{GOLDEN, mix};

/// The seed's byte stream.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    seed: u64,
}

impl Content {
    pub fn new(seed: u64) -> Self {
        Content { seed }
    }

    #[inline]
    fn word(self, index: u64) -> [u8; 8] {
        mix(self.seed.wrapping_add(GOLDEN.wrapping_mul(index + 1))).to_le_bytes()
    }

    /// Writes the bytes that begin at `offset`.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(until_word(offset).min(out.len()));
        let first = self.word(offset / 8);
        head.copy_from_slice(&first[(offset % 8) as usize..][..head.len()]);
        let index = offset.div_ceil(8);
        let mut words = rest.chunks_exact_mut(8);
        let mut next = index;
        for word in &mut words {
            word.copy_from_slice(&self.word(next));
            next += 1;
        }
        let tail = words.into_remainder();
        let last = self.word(next);
        tail.copy_from_slice(&last[..tail.len()]);
    }

    /// The offset of the first of `bytes` that is not what the stream has from `offset` on.
    pub fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 512];
        for (i, chunk) in bytes.chunks(expected.len()).enumerate() {
            let at = offset + (i * expected.len()) as u64;
            let expected = &mut expected[..chunk.len()];
            self.fill(at, expected);
            if expected != chunk {
                let place = chunk.iter().zip(&*expected).position(|(a, b)| a != b).unwrap_or(0);
                return Some(at + place as u64);
            }
        }
        None
    }
}

/// How many bytes lie between `offset` and the next multiple of 8.
fn until_word(offset: u64) -> usize {
    ((8 - offset % 8) % 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_same_as_the_whole() {
        let content = Content::new(42);
        let mut whole = vec![0; 1000];
        content.fill(0, &mut whole);
        for (offset, length) in [(0, 1), (1, 3), (3, 5), (5, 11), (7, 1), (8, 8), (13, 900), (999, 1), (500, 0)] {
            let mut piece = vec![0; length];
            content.fill(offset, &mut piece);
            assert_eq!(piece, whole[offset as usize..][..length], "{length} bytes from {offset}");
            assert_eq!(content.first_difference(offset, &piece), None);
        }
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut bytes = [0; 16];
        Content::new(0).fill(0, &mut bytes);
        assert_eq!(bytes[..8], 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
        assert_eq!(bytes[8..], 0x6e78_9e6a_a1b9_65f4_u64.to_le_bytes());
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        let content = Content::new(7);
        let mut bytes = vec![0; 2000];
        content.fill(3, &mut bytes);
        bytes[1234] ^= 1;
        bytes[1900] ^= 1;
        assert_eq!(content.first_difference(3, &bytes), Some(1237));
        assert!(Content::new(8).first_difference(3, &bytes).is_some());
    }
}
