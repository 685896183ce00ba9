//! DELTA_BINARY_PACKED: numbers as differences from one to the next, in blocks with as many bits for each as the widest needs.
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-encoding-delta_binary_packed--5>

/// Differences of a block share their smallest, which is taken off all of them.
const BLOCK: usize = 128;
/// Differences of a part of a block have the same number of bits.
const PART: usize = 32;
const PARTS: usize = BLOCK / PART;

/// Appends `values`, which are not none.
pub fn encode(values: &[u64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint(PARTS as u64, out);
    varint(values.len() as u64, out);
    varint(zigzag(values[0] as i64), out);
    let mut differences = [0u64; BLOCK];
    let mut before = values[0];
    for block in values[1..].chunks(BLOCK) {
        let mut smallest = i64::MAX;
        for (difference, &value) in differences.iter_mut().zip(block) {
            *difference = value.wrapping_sub(before);
            smallest = smallest.min(*difference as i64);
            before = value;
        }
        for difference in &mut differences[..block.len()] {
            *difference = difference.wrapping_sub(smallest as u64);
        }
        differences[block.len()..].fill(0);
        varint(zigzag(smallest), out);
        let widths = out.len();
        out.extend_from_slice(&[0; PARTS]);
        for (place, part) in differences.chunks(PART).take(block.len().div_ceil(PART)).enumerate() {
            let width = 64 - part.iter().fold(0, |all, &value| all | value).leading_zeros();
            out[widths + place] = width as u8;
            pack(part, width, out);
        }
    }
}

/// The bytes that [`encode`] would append, within a few: what its blocks' widths say.
pub fn size(values: &[u64]) -> usize {
    let mut size = 16;
    let mut before = values[0];
    let mut differences = [0u64; BLOCK];
    for block in values[1..].chunks(BLOCK) {
        let mut smallest = i64::MAX;
        for (difference, &value) in differences.iter_mut().zip(block) {
            *difference = value.wrapping_sub(before);
            smallest = smallest.min(*difference as i64);
            before = value;
        }
        size += PARTS + (71 - zigzag(smallest).leading_zeros() as usize).max(7) / 7;
        for part in differences[..block.len()].chunks(PART) {
            let all = part.iter().fold(0, |all, &value| all | value.wrapping_sub(smallest as u64));
            size += PART / 8 * (64 - all.leading_zeros() as usize);
        }
    }
    size
}

/// The lowest `width` bits of each value, the first in the lowest bits; their number is a multiple of 8.
pub fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut used) = (0u64, 0u32);
    for &value in values {
        word |= value << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..(used as usize).div_ceil(8)]);
}

/// An unsigned number, seven bits in a byte, the lowest first.
pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_follow_each_other_from_the_lowest() {
        let mut out = Vec::new();
        pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        // The example of the format's specification.
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        out.clear();
        pack(&[1, u64::MAX, 3, 4, 5, 6, 7, 8], 64, &mut out);
        assert_eq!(out.len(), 64);
        assert_eq!(out[8..16], [0xff; 8]);
    }

    #[test]
    fn the_size_is_known_before() {
        let mut values: Vec<u64> = (0..1000u64).map(|i| (i * i % 977) << (i % 50)).collect();
        for _ in 0..3 {
            let mut out = Vec::new();
            encode(&values, &mut out);
            assert!(out.len().abs_diff(size(&values)) < 24, "{} {}", out.len(), size(&values));
            values.truncate(values.len() / 3);
        }
    }
}
