//! The seed tree: one independent random stream per (experiment, host, purpose), so that a guest's `getrandom` never shifts a
//! link's losses.

pub use rand_core::RngCore;
use rand_core::SeedableRng;

/// A random stream. ChaCha8: the same bits on every machine and in every release.
#[derive(Clone, Debug)]
pub struct Rng(rand_chacha::ChaCha8Rng);

/// The root of all randomness of one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedTree {
    seed: u64,
}

impl SeedTree {
    pub fn new(seed: u64) -> Self {
        SeedTree { seed }
    }

    /// The stream of one purpose on one host (`""` for the experiment itself). Equal arguments give equal streams.
    pub fn stream(&self, host: &str, purpose: &str) -> Rng {
        let mut hasher = blake3::Hasher::new_derive_key("gnomon seed tree v1");
        hasher.update(&self.seed.to_le_bytes());
        for part in [host, purpose] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Rng(rand_chacha::ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }
}

impl Rng {
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
    /// Uniform in [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Uniform in [0, bound); 0 when `bound` is 0. Multiply-shift, bias below 2^-64 * bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_host_and_purpose() {
        let first = |seed, host, purpose| SeedTree::new(seed).stream(host, purpose).next_u64();
        let base = first(1, "a", "loss");
        assert_eq!(base, first(1, "a", "loss"));
        assert_ne!(base, first(2, "a", "loss"));
        assert_ne!(base, first(1, "b", "loss"));
        assert_ne!(base, first(1, "a", "jitter"));
        assert_ne!(first(1, "ab", "c"), first(1, "a", "bc"));
    }
}
