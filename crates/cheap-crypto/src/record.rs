//! A cipher with a tag, as records of TLS 1.3 want one: counter mode, and a sum over what is sent.

#![allow(unsafe_code)]

use crate::cipher::{BLOCK, Block, Counter, Key, load, store};
use std::arch::x86_64::{__m128i, _mm_aesenc_si128, _mm_loadu_si128};

/// One record: its header, which is not encrypted, then its data, each in pieces of any length.
#[derive(Clone, Copy)]
pub struct Record {
    counter: Counter,
    sum: Sum,
    header_len: u64,
    data_len: u64,
}

impl Record {
    /// The tag follows from the key too, by where the sum begins and how it ends.
    #[target_feature(enable = "aes")]
    pub fn new(key: &Key, iv: &[u8]) -> Record {
        let mut start = [0; BLOCK];
        let len = iv.len().min(12);
        start[..len].copy_from_slice(&iv[..len]);
        let seed = key.encrypt(load(&start));
        // Data begins a block later, so that the seed is not of its stream.
        start[BLOCK - 1] = 1;
        Record { counter: Counter::at(start), sum: Sum::new(seed), header_len: 0, data_len: 0 }
    }

    #[target_feature(enable = "aes")]
    pub fn header(&mut self, bytes: &[u8]) {
        self.sum.add(bytes);
        self.header_len += bytes.len() as u64;
    }

    /// # Safety
    ///
    /// As of `Counter::apply`.
    #[target_feature(enable = "aes")]
    pub unsafe fn encrypt(&mut self, key: &Key, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's; what was written can be read.
        unsafe {
            self.counter.apply(key, from, to, len);
            self.add_data(std::slice::from_raw_parts(to, len));
        }
    }

    /// # Safety
    ///
    /// As of `Counter::apply`.
    #[target_feature(enable = "aes")]
    pub unsafe fn decrypt(&mut self, key: &Key, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's; what is summed is read before it is written over.
        unsafe {
            self.add_data(std::slice::from_raw_parts(from, len));
            self.counter.apply(key, from, to, len);
        }
    }

    #[target_feature(enable = "aes")]
    fn add_data(&mut self, hidden: &[u8]) {
        if self.data_len == 0 {
            self.sum.close();
        }
        self.sum.add(hidden);
        self.data_len += hidden.len() as u64;
    }

    #[target_feature(enable = "aes")]
    pub fn tag(&self, key: &Key) -> Block {
        let mut sum = self.sum;
        sum.close();
        let mut lengths = [0; BLOCK];
        lengths[..8].copy_from_slice(&self.header_len.to_le_bytes());
        lengths[8..].copy_from_slice(&self.data_len.to_le_bytes());
        store(key.encrypt(sum.result(load(&lengths))))
    }
}

/// A sum over blocks in four lanes, which processors add to at once. Each step is a permutation of its lane, so no single change of
/// the input is lost.
#[derive(Clone, Copy)]
struct Sum {
    lanes: [__m128i; 4],
    rest: [u8; 4 * BLOCK],
    rest_len: usize,
}

impl Sum {
    fn new(seed: __m128i) -> Sum {
        Sum { lanes: [seed; 4], rest: [0; 4 * BLOCK], rest_len: 0 }
    }

    #[target_feature(enable = "aes")]
    fn step(&mut self, blocks: &[u8; 4 * BLOCK]) {
        for (lane, block) in self.lanes.iter_mut().zip(blocks.chunks_exact(BLOCK)) {
            // SAFETY: a chunk has the 16 bytes that are read.
            *lane = _mm_aesenc_si128(*lane, unsafe { _mm_loadu_si128(block.as_ptr().cast()) });
        }
    }

    #[target_feature(enable = "aes")]
    fn add(&mut self, mut bytes: &[u8]) {
        if self.rest_len != 0 {
            let len = bytes.len().min(self.rest.len() - self.rest_len);
            self.rest[self.rest_len..self.rest_len + len].copy_from_slice(&bytes[..len]);
            self.rest_len += len;
            bytes = &bytes[len..];
            if self.rest_len < self.rest.len() {
                return;
            }
            let full = self.rest;
            self.step(&full);
            self.rest_len = 0;
        }
        let (all, rest) = bytes.as_chunks::<{ 4 * BLOCK }>();
        all.iter().for_each(|blocks| self.step(blocks));
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    /// Fills up with zeros: how many bytes counted is said in the end.
    #[target_feature(enable = "aes")]
    fn close(&mut self) {
        if self.rest_len != 0 {
            self.rest[self.rest_len..].fill(0);
            let full = self.rest;
            self.step(&full);
            self.rest_len = 0;
        }
    }

    #[target_feature(enable = "aes")]
    fn result(&self, lengths: __m128i) -> __m128i {
        self.lanes.iter().fold(lengths, |all, lane| _mm_aesenc_si128(all, *lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\x17\x03\x03\x01\x00";

    /// What is sent of `data` that goes in pieces of `size`, and its tag.
    fn sealed(key: &Key, iv: &[u8], data: &[u8], size: usize) -> (Vec<u8>, Block) {
        let mut out = data.to_vec();
        // SAFETY: each piece is in place; Gnomon's processors have AES.
        unsafe {
            let mut record = Record::new(key, iv);
            HEADER.chunks(size).for_each(|piece| record.header(piece));
            out.chunks_mut(size).for_each(|p| record.encrypt(key, p.as_ptr(), p.as_mut_ptr(), p.len()));
            (out, record.tag(key))
        }
    }

    fn opened(key: &Key, iv: &[u8], header: &[u8], hidden: &[u8], size: usize) -> (Vec<u8>, Block) {
        let mut out = vec![0; hidden.len()];
        // SAFETY: both pieces have the same length; Gnomon's processors have AES.
        unsafe {
            let mut record = Record::new(key, iv);
            record.header(header);
            for (from, to) in hidden.chunks(size).zip(out.chunks_mut(size)) {
                record.decrypt(key, from.as_ptr(), to.as_mut_ptr(), from.len());
            }
            (out, record.tag(key))
        }
    }

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 % 251) as u8).collect()
    }

    #[test]
    fn pieces_of_any_size_are_one_record() {
        let (key, iv) = (Key::new(&[3; 32]), [5; 12]);
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 514, 1000] {
            let whole = sealed(&key, &iv, &data(len), 4096);
            assert_eq!(opened(&key, &iv, HEADER, &whole.0, 4096), (data(len), whole.1));
            for size in [1, 3, 16, 33, 64, 127] {
                assert_eq!(sealed(&key, &iv, &data(len), size), whole, "{len} bytes in pieces of {size}");
                assert_eq!(opened(&key, &iv, HEADER, &whole.0, size), (data(len), whole.1));
            }
        }
    }

    #[test]
    fn another_key_iv_header_or_length_has_another_tag() {
        let (key, iv) = (Key::new(&[3; 32]), [5; 12]);
        let (hidden, tag) = sealed(&key, &iv, &data(200), 4096);
        let mut other_iv = iv;
        other_iv[11] ^= 1;
        let other = Key::new(&[4; 32]);
        assert_ne!(opened(&other, &iv, HEADER, &hidden, 4096), (data(200), tag));
        assert_ne!(opened(&other, &iv, HEADER, &hidden, 4096).1, tag);
        assert_ne!(opened(&key, &other_iv, HEADER, &hidden, 4096).1, tag);
        assert_ne!(opened(&key, &iv, b"\x16\x03\x03\x01\x00", &hidden, 4096).1, tag);
        assert_ne!(opened(&key, &iv, &HEADER[..4], &hidden, 4096).1, tag);
        assert_ne!(opened(&key, &iv, HEADER, &hidden[..199], 4096).1, tag);
        let longer = [&hidden[..], &[0]].concat();
        assert_ne!(opened(&key, &iv, HEADER, &longer, 4096).1, tag);
    }

    #[test]
    fn each_bit_that_flips_on_the_way_changes_the_tag() {
        let (key, iv) = (Key::new(&[9; 16]), [1; 12]);
        let (mut hidden, tag) = sealed(&key, &iv, &data(150), 4096);
        for bit in 0..hidden.len() * 8 {
            hidden[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(opened(&key, &iv, HEADER, &hidden, 4096).1, tag, "bit {bit}");
            hidden[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
