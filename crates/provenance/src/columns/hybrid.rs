//! The RLE and bit-packing hybrid: small numbers as runs of the same, or eight by eight with as many bits as the largest needs.
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/#run-length-encoding--bit-packing-hybrid-rle--3>

use super::delta::{pack, varint};

/// A run shorter than this goes in with its neighbours.
const SHORTEST_RUN: usize = 16;

/// Appends `values`, each below two to the power of `width`.
pub fn encode(values: &[u16], width: u32, out: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while at < values.len() {
        let value = values[at];
        let mut run = values[at..].iter().take_while(|other| **other == value).count();
        // What is packed before a run comes in eights: the run gives what is missing.
        let lent = (packed..at).len().wrapping_neg() % 8;
        if run < SHORTEST_RUN + lent {
            at += run;
            continue;
        }
        pack_all(&values[packed..at + lent], width, out);
        run -= lent;
        at += lent + run;
        varint((run as u64) << 1, out);
        out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
        packed = at;
    }
    pack_all(&values[packed..], width, out);
}

/// Eights of values; the last is filled up, which readers expect.
fn pack_all(values: &[u16], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    varint((values.len().div_ceil(8) as u64) << 1 | 1, out);
    let mut wide = [0u64; 64];
    for chunk in values.chunks(64) {
        for (wide, &value) in wide.iter_mut().zip(chunk) {
            *wide = u64::from(value);
        }
        wide[chunk.len()..].fill(0);
        pack(&wide[..chunk.len().next_multiple_of(8)], width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification, read the other way.
    fn decode(mut bytes: &[u8], width: u32, count: usize) -> Vec<u16> {
        let mut values = Vec::new();
        while values.len() < count {
            let (mut header, mut shift) = (0u64, 0);
            while let Some((&byte, rest)) = bytes.split_first() {
                bytes = rest;
                header |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let size =
                if header & 1 == 0 { width.div_ceil(8) as usize } else { (header >> 1) as usize * width as usize };
            let (now, rest) = bytes.split_at(size);
            let bit = |at: usize| u16::from(now[at / 8] >> (at % 8) & 1);
            let read = |place: usize| (0..width as usize).map(|i| bit(place * width as usize + i) << i).sum::<u16>();
            match header & 1 {
                0 => values.extend(std::iter::repeat_n(read(0), (header >> 1) as usize)),
                _ => values.extend((0..(header >> 1) as usize * 8).map(read)),
            }
            bytes = rest;
        }
        values.truncate(count);
        values
    }

    #[test]
    fn runs_and_others_come_back() {
        let mut values = Vec::new();
        for i in 0..200u16 {
            values.extend(std::iter::repeat_n(i % 7, usize::from(i * i % 41)));
        }
        for length in [0, 1, 7, 8, 9, 100, 1000, values.len()] {
            let mut out = Vec::new();
            encode(&values[..length], 3, &mut out);
            assert_eq!(decode(&out, 3, length), values[..length], "{length}");
        }
        let mut out = Vec::new();
        encode(&[4095; 100_000], 12, &mut out);
        assert_eq!(out.len(), 5);
        assert_eq!(decode(&out, 12, 100_000), [4095; 100_000]);
    }
}
