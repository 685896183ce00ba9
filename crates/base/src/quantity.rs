//! Quantities as people write them: "10 ms", "100 Mbit", "16 MiB". One reader and one exact writer for each kind, shared by
//! experiment files, graphs and the command line.
//!
//! A number without a unit counts in the base unit (seconds, bits per second, bytes), as in the files of Shadow 3. Units are
//! case-sensitive. Decimals are taken where the result is whole in the type's own resolution ("0.5 ms" is 500,000 ns).

use crate::time::SimDuration;
use crate::units::{Bandwidth, ByteSize};
use std::fmt;

/// Why a text is no quantity, with the remedy. The text itself is quoted in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError(String);

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuantityError {}

/// What one kind of quantity accepts.
struct Kind {
    noun: &'static str,
    units: &'static str,
    example: &'static str,
}

const TIME: Kind = Kind { noun: "a time", units: "ns, us, ms, s (sec), min, h", example: "10 ms" };
const BANDWIDTH: Kind =
    Kind { noun: "a bandwidth", units: "bit, Kbit, Mbit, Gbit, Tbit, Kibit, Mibit, Gibit, Tibit", example: "100 Mbit" };
const BYTES: Kind = Kind { noun: "a size", units: "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB", example: "64 KiB" };

/// Reads a span of time: `ns`, `us`, `ms`, `s`, `min`, `h` with their longer names and plurals; seconds without a unit.
pub fn parse_duration(text: &str) -> Result<SimDuration, QuantityError> {
    parse(text, &TIME, time_factor).map(SimDuration::from_nanos)
}

/// Reads a bandwidth in bits per second with SI (`Mbit`) or binary (`Mibit`) prefixes.
pub fn parse_bandwidth(text: &str) -> Result<Bandwidth, QuantityError> {
    let factor = |unit: &str| prefix_factor(strip_any(unit, &["bits", "bit"]));
    parse(text, &BANDWIDTH, factor).map(Bandwidth::from_bits_per_sec)
}

/// Reads a number of bytes with SI (`MB`) or binary (`MiB`) prefixes.
pub fn parse_byte_size(text: &str) -> Result<ByteSize, QuantityError> {
    let factor = |unit: &str| prefix_factor(strip_any(unit, &["bytes", "byte", "B"]));
    parse(text, &BYTES, factor).map(ByteSize)
}

/// The shortest exact form of a time, which `parse_duration` reads back to the same value.
pub fn exact_duration(d: SimDuration) -> String {
    let units =
        [(3_600_000_000_000, "h"), (60_000_000_000, "min"), (1_000_000_000, "sec"), (1_000_000, "ms"), (1_000, "us")];
    match d.as_nanos() {
        0 => "0 sec".into(),
        ns => match units.iter().find(|(size, _)| ns.is_multiple_of(*size)) {
            Some((size, unit)) => format!("{} {unit}", ns / size),
            None => format!("{ns} ns"),
        },
    }
}

/// The shortest exact form of a bandwidth, which `parse_bandwidth` reads back to the same value.
pub fn exact_bandwidth(b: Bandwidth) -> String {
    let units = [(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "Kbit")];
    let bits = b.bits_per_sec();
    match units.iter().find(|(size, _)| bits != 0 && bits.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{} {unit}", bits / size),
        None => format!("{bits} bit"),
    }
}

fn parse(text: &str, kind: &Kind, factor: impl Fn(&str) -> Option<u64>) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let digits = trimmed.trim_start_matches('+');
    let split = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, unit) = (&digits[..split], digits[split..].trim());
    let Some((whole, fraction)) = split_decimal(number) else {
        let why = if trimmed.starts_with('-') { "is negative" } else { "has no number" };
        return Err(QuantityError(format!("'{text}' {why}; write {} such as \"{}\"", kind.noun, kind.example)));
    };
    let Some(scale) = factor(unit) else {
        return Err(QuantityError(format!(
            "'{text}' is not {}: unknown unit '{unit}'; use one of {}, such as \"{}\"",
            kind.noun, kind.units, kind.example
        )));
    };
    scaled(whole, fraction, scale)
        .ok_or_else(|| QuantityError(format!("'{text}' is too large or too fine for {}", kind.noun)))
}

/// "12.5" as ("12", "5"); None without digits or with more than one point.
fn split_decimal(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let empty = whole.is_empty() && fraction.is_empty();
    (!empty && !fraction.contains('.')).then_some((whole, fraction))
}

/// (whole.fraction) * scale, when that is a whole number below 2^64.
fn scaled(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let base = whole.checked_mul(scale)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(base);
    }
    let power = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(u128::from(scale))?;
    (part % power == 0).then(|| base.checked_add(u64::try_from(part / power).ok()?))?
}

fn strip_any<'a>(unit: &'a str, suffixes: &[&str]) -> &'a str {
    suffixes.iter().find_map(|suffix| unit.strip_suffix(suffix)).unwrap_or(unit)
}

/// Nanoseconds in one unit of time.
fn time_factor(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "μs" | "µs" | "microsecond" | "microseconds" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
        _ => return None,
    })
}

fn prefix_factor(prefix: &str) -> Option<u64> {
    Some(match prefix {
        "" => 1,
        "K" | "kilo" => 1_000,
        "Ki" | "kibi" => 1 << 10,
        "M" | "mega" => 1_000_000,
        "Mi" | "mebi" => 1 << 20,
        "G" | "giga" => 1_000_000_000,
        "Gi" | "gibi" => 1 << 30,
        "T" | "tera" => 1_000_000_000_000,
        "Ti" | "tebi" => 1 << 40,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_spelling() {
        for (text, ns) in [
            ("7 ns", 7),
            ("1 nanosecond", 1),
            ("10us", 10_000),
            ("3 microseconds", 3_000),
            ("50 ms", 50_000_000),
            ("0.5 ms", 500_000),
            ("1.5 s", 1_500_000_000),
            ("2 secs", 2_000_000_000),
            ("10 min", 600_000_000_000),
            ("2m", 120_000_000_000),
            ("1 hr", 3_600_000_000_000),
            ("2 hours", 7_200_000_000_000),
            ("30", 30_000_000_000),
        ] {
            assert_eq!(parse_duration(text).map(SimDuration::as_nanos), Ok(ns), "{text}");
        }
    }

    #[test]
    fn bandwidths_and_sizes_in_every_spelling() {
        for (text, bits) in [
            ("81920 Kibit", 81920 * 1024),
            ("1 Gbit", 1_000_000_000),
            ("100 Mbits", 100_000_000),
            ("10 megabits", 10_000_000),
            ("12", 12),
            ("10 M", 10_000_000),
        ] {
            assert_eq!(parse_bandwidth(text).map(Bandwidth::bits_per_sec), Ok(bits), "{text}");
        }
        for (text, bytes) in
            [("174760 B", 174_760), ("16 KiB", 16_384), ("1 MB", 1_000_000), ("2 kibibytes", 2048), ("9 bytes", 9)]
        {
            assert_eq!(parse_byte_size(text), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn errors_name_the_units() {
        let message = |r: Result<SimDuration, QuantityError>| r.unwrap_err().to_string();
        assert_eq!(
            message(parse_duration("10 mbit")),
            "'10 mbit' is not a time: unknown unit 'mbit'; use one of ns, us, ms, s (sec), min, h, such as \"10 ms\""
        );
        assert_eq!(message(parse_duration("ms")), "'ms' has no number; write a time such as \"10 ms\"");
        assert_eq!(message(parse_duration("-1 s")), "'-1 s' is negative; write a time such as \"10 ms\"");
        assert_eq!(message(parse_duration("0.5 ns")), "'0.5 ns' is too large or too fine for a time");
        assert_eq!(message(parse_duration("99999999999 h")), "'99999999999 h' is too large or too fine for a time");
        assert_eq!(
            parse_bandwidth("100 mbit").unwrap_err().to_string(),
            "'100 mbit' is not a bandwidth: unknown unit 'mbit'; use one of bit, Kbit, Mbit, Gbit, Tbit, Kibit, \
             Mibit, Gibit, Tibit, such as \"100 Mbit\""
        );
        assert!(parse_duration("1.2.3 s").is_err());
        assert!(parse_duration("").is_err());
    }

    #[test]
    fn exact_forms_read_back() {
        let mut rng = crate::SeedTree::new(7).stream("", "quantities");
        for _ in 0..2_000 {
            let value = rng.next_u64() >> rng.below(60);
            let time = SimDuration::from_nanos(value);
            assert_eq!(parse_duration(&exact_duration(time)), Ok(time));
            let bandwidth = Bandwidth::from_bits_per_sec(value);
            assert_eq!(parse_bandwidth(&exact_bandwidth(bandwidth)), Ok(bandwidth));
        }
        assert_eq!(exact_duration(SimDuration::from_secs(600)), "10 min");
        assert_eq!(exact_bandwidth(Bandwidth::from_bits_per_sec(1_500_000)), "1500 Kbit");
    }
}
