//! Variations of known inputs, from a seed: what `make test` tries beside the corpus itself. No coverage guides it.

/// A stream of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Numbers at which readers stumble.
const EDGES: &[u64] =
    &[0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];

/// One of the inputs with a few changes, at most `longest` bytes.
pub fn vary(corpus: &[Vec<u8>], longest: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..1 + dice.below(4) {
        change(&mut bytes, corpus, dice);
    }
    bytes.truncate(longest);
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    let end = (at + 1 + dice.below(16)).min(bytes.len());
    match dice.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = dice.next() as u8,
        2 => {
            let width = [1, 2, 4, 8][dice.below(4)];
            let edge = EDGES[dice.below(EDGES.len())].wrapping_add(dice.below(3) as u64).to_le_bytes();
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&edge[..end - at]);
        }
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            let place = dice.below(bytes.len() + 1);
            bytes.splice(place..place, piece);
        }
        5 => {
            let other = &corpus[dice.below(corpus.len())];
            let from = dice.below(other.len());
            let to = (from + 1 + dice.below(64)).min(other.len());
            bytes.splice(at..end, other[from.min(to)..to].iter().copied());
        }
        6 => {
            let new: Vec<u8> = (0..1 + dice.below(8)).map(|_| dice.next() as u8).collect();
            bytes.splice(at..at, new);
        }
        7 => bytes.truncate(at),
        _ => bytes.push(dice.next() as u8),
    }
}
