//! Hash maps whose iteration order depends on their history alone (the standard ones are seeded from the machine).

use std::hash::{BuildHasherDefault, Hasher};

/// A multiplication of 64 by 64 bits per word, folded: for short keys without attackers, the same in each run.
#[derive(Clone, Copy)]
pub struct FastHasher(u64);

impl Default for FastHasher {
    fn default() -> Self {
        FastHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl FastHasher {
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0xa076_1d64_78bd_642f) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word) ^ ((chunk.len() as u64) << 56));
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.mix(u64::from(v));
    }
    fn write_u16(&mut self, v: u16) {
        self.mix(u64::from(v));
    }
    fn write_u32(&mut self, v: u32) {
        self.mix(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.mix(v);
    }
    fn write_usize(&mut self, v: usize) {
        self.mix(v as u64);
    }
}

#[allow(clippy::disallowed_types, reason = "this is the deterministic form that the ban points to")]
pub type FastMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FastHasher>>;
#[allow(clippy::disallowed_types, reason = "this is the deterministic form that the ban points to")]
pub type FastSet<K> = std::collections::HashSet<K, BuildHasherDefault<FastHasher>>;
