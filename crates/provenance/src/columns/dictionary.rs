//! RLE_DICTIONARY: the values of a column once, and their places in that list for each row.

use super::hybrid;

/// Most values that a list has: with more, differences are as good.
const MOST_VALUES: usize = 4096;
const SLOTS: usize = 4 * MOST_VALUES;
const EMPTY: u16 = u16::MAX;

/// Looks values up; it is kept from column to column since it is large.
#[derive(Debug)]
pub struct Lookup {
    /// Places in `values`.
    slots: Vec<u16>,
    /// In the order in which they were first seen.
    pub values: Vec<u64>,
    /// For each row its value's place.
    pub places: Vec<u16>,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { slots: vec![EMPTY; SLOTS], values: Vec::new(), places: Vec::new() }
    }
}

impl Lookup {
    /// Whether `numbers` have few values; then `values` and `places` are theirs.
    pub fn fill(&mut self, numbers: &[u64]) -> bool {
        self.slots.fill(EMPTY);
        self.values.clear();
        self.places.clear();
        let mut before = None;
        for &number in numbers {
            let place = match before {
                Some((value, place)) if value == number => place,
                _ => match self.place(number) {
                    Some(place) => place,
                    None => return false,
                },
            };
            before = Some((number, place));
            self.places.push(place);
        }
        true
    }

    fn place(&mut self, number: u64) -> Option<u16> {
        let mut slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS;
        loop {
            match self.slots[slot] {
                EMPTY => break,
                place if self.values[place as usize] == number => return Some(place),
                _ => slot = (slot + 1) % SLOTS,
            }
        }
        if self.values.len() == MOST_VALUES {
            return None;
        }
        let place = self.values.len() as u16;
        self.slots[slot] = place;
        self.values.push(number);
        Some(place)
    }
}

/// Appends a data page of places in a list of `values` many.
pub fn encode(places: &[u16], values: usize, out: &mut Vec<u8>) {
    let width = usize::BITS - values.saturating_sub(1).leading_zeros();
    out.push(width as u8);
    hybrid::encode(places, width, out);
}
