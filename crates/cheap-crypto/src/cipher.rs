//! A permutation of blocks of 16 bytes in two of AES's rounds in place of its ten to fourteen, and counter mode over it.
//!
//! Two rounds are the least after which each bit of a block has touched all its bytes: what comes out looks random to those who count
//! zeros in it, as tor does to tell whose a cell is. It resists nobody who wants to read it.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_aesdeclast_si128, _mm_aesenc_si128, _mm_aesimc_si128, _mm_loadu_si128, _mm_set_epi64x,
    _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128,
};

/// Bytes of a block.
pub const BLOCK: usize = 16;

pub type Block = [u8; BLOCK];

/// A key as the permutation takes it.
#[derive(Clone, Copy)]
pub struct Key([__m128i; 3]);

#[inline(always)]
pub fn load(block: &Block) -> __m128i {
    // SAFETY: reads the 16 bytes of the block, at any alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline(always)]
pub fn store(value: __m128i) -> Block {
    let mut block = [0; BLOCK];
    // SAFETY: writes the 16 bytes of the block, at any alignment.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), value) };
    block
}

/// One of the finalizers of MurmurHash's family: each bit in changes half of those that come out.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Key {
    /// Of bytes of any number; all of them, and their number, count.
    pub fn new(bytes: &[u8]) -> Key {
        let mut state = mix(bytes.len() as u64 + 1);
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            state = mix(state.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state).to_le_bytes()
        };
        let mut part = || {
            let mut block = [0; BLOCK];
            block[..8].copy_from_slice(&next());
            block[8..].copy_from_slice(&next());
            load(&block)
        };
        Key([part(), part(), part()])
    }

    #[inline]
    #[target_feature(enable = "aes")]
    pub fn encrypt(&self, block: __m128i) -> __m128i {
        let [first, second, third] = self.0;
        _mm_aesenc_si128(_mm_aesenc_si128(_mm_xor_si128(block, first), second), third)
    }

    /// Takes `encrypt` back.
    #[inline]
    #[target_feature(enable = "aes")]
    pub fn decrypt(&self, block: __m128i) -> __m128i {
        let [first, second, third] = self.0;
        let back = |value, key| _mm_aesdeclast_si128(_mm_aesimc_si128(_mm_xor_si128(value, key)), _mm_setzero_si128());
        _mm_xor_si128(back(back(block, third), second), first)
    }
}

/// A place in a stream of counter mode: numbers of blocks, encrypted, are what data is combined with. Pieces of any length
/// follow each other as one.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Counter {
    /// The next block's number, big-endian as AES's counter is; programs may write it, at a block's boundary.
    pub next: Block,
    /// What is left of the block that the stream is in, from `used` on; nothing when `used` is 0.
    block: Block,
    used: usize,
}

impl Counter {
    pub fn at(iv: Block) -> Counter {
        Counter { next: iv, ..Counter::default() }
    }

    /// Encrypts, or decrypts, which is the same.
    ///
    /// # Safety
    ///
    /// `from` must be readable and `to` writable for `len` bytes; they may be the same, but not overlap otherwise. The processor must have AES.
    #[target_feature(enable = "aes")]
    pub unsafe fn apply(&mut self, key: &Key, mut from: *const u8, mut to: *mut u8, mut len: usize) {
        while self.used != 0 && len != 0 {
            // SAFETY: `len` bytes are there, of which this is one.
            unsafe {
                *to = *from ^ self.block[self.used];
                (from, to) = (from.add(1), to.add(1));
            }
            self.used = (self.used + 1) % BLOCK;
            len -= 1;
        }
        let mut counter = u128::from_be_bytes(self.next);
        // Four blocks at once, which do not wait for each other, as long as their numbers differ in the lower half alone.
        let fours = len / (4 * BLOCK);
        if fours != 0 && (counter as u64).checked_add(4 * fours as u64).is_some() {
            let mut numbers = load(&counter.to_le_bytes());
            for _ in 0..fours {
                for at in 0..4 {
                    let stream = key.encrypt(_mm_add_epi64(numbers, _mm_set_epi64x(0, at)));
                    let at = at as usize * BLOCK;
                    // SAFETY: four blocks are left of both.
                    unsafe {
                        let data = _mm_loadu_si128(from.add(at).cast());
                        _mm_storeu_si128(to.add(at).cast(), _mm_xor_si128(data, stream));
                    }
                }
                numbers = _mm_add_epi64(numbers, _mm_set_epi64x(0, 4));
                // SAFETY: these were there.
                unsafe { (from, to) = (from.add(4 * BLOCK), to.add(4 * BLOCK)) };
            }
            counter += 4 * fours as u128;
            len -= fours * 4 * BLOCK;
        }
        while len >= BLOCK {
            let stream = key.encrypt(load(&counter.to_le_bytes()));
            counter = counter.wrapping_add(1);
            // SAFETY: at least a block is left of both.
            unsafe {
                _mm_storeu_si128(to.cast(), _mm_xor_si128(_mm_loadu_si128(from.cast()), stream));
                (from, to) = (from.add(BLOCK), to.add(BLOCK));
            }
            len -= BLOCK;
        }
        if len != 0 {
            self.block = store(key.encrypt(load(&counter.to_le_bytes())));
            counter = counter.wrapping_add(1);
            self.used = len;
            for (at, stream) in self.block[..len].iter().enumerate() {
                // SAFETY: `at` is less than the `len` bytes that are left.
                unsafe { *to.add(at) = *from.add(at) ^ stream };
            }
        }
        self.next = counter.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(key: &Key, counter: &mut Counter, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; data.len()];
        // SAFETY: both have this length; Gnomon's processors have AES.
        unsafe { counter.apply(key, data.as_ptr(), out.as_mut_ptr(), data.len()) };
        out
    }

    #[test]
    fn pieces_of_any_size_are_one_stream() {
        let data: Vec<u8> = (0..2000u32).map(|i| (i * 7) as u8).collect();
        // The numbers overflow, or their lower halves do, or nothing does.
        let key = Key::new(b"0123456789abcdef");
        for iv in [u128::MAX - 3, u128::from(u64::MAX) - 9, 1] {
            pieces_are_one_stream(&key, iv.to_be_bytes(), &data);
        }
    }

    fn pieces_are_one_stream(key: &Key, iv: Block, data: &[u8]) {
        let whole = applied(key, &mut Counter::at(iv), data);
        for size in [1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 509, 1999] {
            let mut counter = Counter::at(iv);
            let pieces: Vec<u8> = data.chunks(size).flat_map(|piece| applied(key, &mut counter, piece)).collect();
            assert!(pieces == whole, "pieces of {size}");
        }
        // In place, and back.
        let mut place = whole.clone();
        // SAFETY: one place of this length; Gnomon's processors have AES.
        unsafe { Counter::at(iv).apply(key, place.as_ptr(), place.as_mut_ptr(), place.len()) };
        assert_eq!(place, data);
    }

    #[test]
    fn a_place_in_the_stream_can_be_set() {
        let key = Key::new(&[7; 32]);
        let whole = applied(&key, &mut Counter::at([0; 16]), &[0; 160]);
        let mut counter = Counter::at([9; 16]);
        counter.next = 5u128.to_be_bytes();
        assert_eq!(applied(&key, &mut counter, &[0; 80]), whole[80..]);
    }

    #[test]
    fn blocks_come_back_under_their_key_alone() {
        let (key, other) = (Key::new(&[1; 16]), Key::new(&[2; 16]));
        let block = *b"sixteen of bytes";
        // SAFETY: Gnomon's processors have AES.
        unsafe {
            let hidden = key.encrypt(load(&block));
            assert_ne!(store(hidden), block);
            assert_eq!(store(key.decrypt(hidden)), block);
            assert_ne!(store(other.decrypt(hidden)), block);
        }
    }

    #[test]
    fn each_bit_of_a_key_counts() {
        let stream = |key: &[u8]| applied(&Key::new(key), &mut Counter::at([0; 16]), &[0; 64]);
        let key = [0x5a; 32];
        let mut seen = vec![stream(&key), stream(&key[..16]), stream(&key[..31])];
        for bit in 0..256 {
            let mut other = key;
            other[bit / 8] ^= 1 << (bit % 8);
            seen.push(stream(&other));
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    /// tor takes a cell for its own when two bytes are 0, among other things: they must be as rare as by chance.
    #[test]
    fn the_stream_looks_random() {
        let key = Key::new(b"cells");
        let stream = applied(&key, &mut Counter::default(), &vec![0; 1 << 22]);
        let mut counts = [0u32; 256];
        stream.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let expected = stream.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // 255 degrees of freedom: 377 is exceeded once in a million.
        assert!(chi < 377.0, "{chi}");
        let zeros = |at: usize| stream.chunks_exact(509).filter(|cell| cell[at] == 0 && cell[at + 1] == 0).count();
        // 8,240 cells: 0.13 are expected at a place, 0.5 at four.
        assert!((1..5).map(zeros).sum::<usize>() < 6);
    }
}
