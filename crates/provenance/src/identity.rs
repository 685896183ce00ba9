//! Names of packets: the number that tables hold, and the UUID that completes it with the run.
//!
//! A UUID of version 8 (RFC 9562, section 5.8) leaves 122 bits to its maker. Here they are the number's 62, the first ones in front, and 60 of the run.
//! So whatever two runs have in common ends up behind, and each leading digit of a UUID halves the packets four times: a prefix is a range of numbers,
//! and an index sorted by number finds it.

use std::fmt;
use std::ops::RangeInclusive;

pub use probes::trace::COUNT_BITS;

/// Bits of a number.
const NUMBER_BITS: u32 = 62;
/// Bits that say which run it is.
const RUN_BITS: u32 = 60;

/// The number of a host's packet; `count` begins at 1.
pub fn number(host: u64, count: u64) -> u64 {
    host << COUNT_BITS | count
}

/// The host and its count of packets that a number says.
pub fn host_of(number: u64) -> (u64, u64) {
    (probes::trace::host_of(number), number & ((1 << COUNT_BITS) - 1))
}

/// Which run it is: 60 bits that follow from plan and seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunId(u64);

impl RunId {
    /// The first 60 bits of a digest of plan and seed, given as its first eight bytes.
    pub fn new(digest: [u8; 8]) -> RunId {
        RunId(u64::from_be_bytes(digest) >> (64 - RUN_BITS))
    }

    /// The 60 bits.
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:015x}", self.0)
    }
}

impl std::str::FromStr for RunId {
    type Err = String;

    /// As it is displayed.
    fn from_str(text: &str) -> Result<RunId, String> {
        let wrong = || format!("'{text}' is no run: 15 hexadecimal digits are");
        if text.len() != 15 {
            return Err(wrong());
        }
        u64::from_str_radix(text, 16).map(RunId).map_err(|_| wrong())
    }
}

/// The UUID of a packet, as text.
pub fn uuid(run: RunId, number: u64) -> String {
    let high = number >> 14;
    let middle = number >> 2 & 0xfff;
    let variant = 8 | number & 3;
    format!(
        "{:08x}-{:04x}-8{middle:03x}-{variant:x}{:03x}-{:012x}",
        high >> 16,
        high & 0xffff,
        run.0 >> 48,
        run.0 & 0xffff_ffff_ffff
    )
}

/// The beginning of a UUID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Hexadecimal digits in lower case, without hyphens: 1 to 32.
    digits: String,
}

impl Prefix {
    /// Hyphens may stand anywhere, or nowhere.
    ///
    /// # Errors
    /// When it has other characters than hexadecimal digits, has none, or too many.
    pub fn new(text: &str) -> Result<Prefix, String> {
        let digits: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        if let Some(other) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("'{text}' is no beginning of a UUID: it has '{other}', which is no hexadecimal digit"));
        }
        match digits.len() {
            0 => Err("the beginning of a UUID has at least one digit".to_owned()),
            1..=32 => Ok(Prefix { digits }),
            many => Err(format!("'{text}' has {many} digits, and a UUID has 32")),
        }
    }

    /// The numbers of `run` whose UUIDs begin so; None if there can be none.
    pub fn numbers(&self, run: RunId) -> Option<RangeInclusive<u64>> {
        let (mut first, mut known) = (0u64, 0u32);
        for (place, digit) in self.digits.chars().enumerate() {
            let digit = u64::from(digit.to_digit(16).expect("only such were taken"));
            match place {
                12 => {
                    if digit != 8 {
                        return None;
                    }
                }
                16 => {
                    if digit & 0xc != 8 {
                        return None;
                    }
                    first = first << 2 | digit & 3;
                    known += 2;
                }
                17.. => {
                    let shift = RUN_BITS - 4 * (place as u32 - 16);
                    if run.0 >> shift & 0xf != digit {
                        return None;
                    }
                }
                _ => {
                    first = first << 4 | digit;
                    known += 4;
                }
            }
        }
        let open = NUMBER_BITS - known;
        Some(first << open..=(first << open) + ((1 << open) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId(0x0123_4567_89ab_cdef);

    #[test]
    fn a_uuid_has_version_variant_number_and_run() {
        let text = uuid(RUN, number(3, 0x12_3456_789a));
        assert_eq!(text.len(), 36);
        assert_eq!(&text[14..15], "8");
        assert!("89ab".contains(&text[19..20]));
        assert!(text.ends_with("123-456789abcdef"), "{text}");
        assert_eq!(uuid(RUN, (1 << 62) - 1), "ffffffff-ffff-8fff-b123-456789abcdef");
    }

    #[test]
    fn every_prefix_of_a_uuid_leads_to_its_number_and_longer_ones_to_fewer() {
        let number = number(70_000, 123_456_789);
        let text = uuid(RUN, number);
        let mut before = 0..=u64::MAX;
        for end in 1..=text.len() {
            let range = Prefix::new(&text[..end]).unwrap().numbers(RUN).unwrap();
            assert!(range.contains(&number) && range.start() >= before.start() && range.end() <= before.end());
            before = range;
        }
        assert_eq!(before, number..=number);
    }

    #[test]
    fn what_is_no_prefix_is_refused_and_of_another_run_finds_nothing() {
        for wrong in ["", "-", "12g4", "0123456789abcdef0123456789abcdef0"] {
            assert!(Prefix::new(wrong).is_err(), "{wrong}");
        }
        let other = uuid(RunId(1), 5);
        assert_eq!(Prefix::new(&other).unwrap().numbers(RUN), None);
        assert_eq!(Prefix::new("00000000-0000-4").unwrap().numbers(RUN), None);
        assert_eq!(RUN.to_string().parse(), Ok(RUN));
    }
}
