//! How numbers in base units are shown: with which unit, and how many digits.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A duration.
    Seconds,
    BitsPerSecond,
    Bytes,
    /// A part of a whole, shown in per cent.
    Share,
    /// A part of a whole, shown as it is.
    Fraction,
    Count,
}

impl Unit {
    /// The factor and symbol with which an axis that reaches to `largest` is readable.
    pub fn for_axis(self, largest: f64) -> (f64, &'static str) {
        let steps: &[(f64, f64, &'static str)] = match self {
            Unit::Seconds => {
                &[(0.5, 1e3, "ms"), (600.0, 1.0, "s"), (4.0 * 3600.0, 1.0 / 60.0, "min"), (f64::MAX, 1.0 / 3600.0, "h")]
            }
            Unit::BitsPerSecond => {
                &[(1e3, 1.0, "bit/s"), (1e6, 1e-3, "kbit/s"), (1e9, 1e-6, "Mbit/s"), (f64::MAX, 1e-9, "Gbit/s")]
            }
            Unit::Bytes => &[
                (1024.0, 1.0, "B"),
                (1048576.0, 1.0 / 1024.0, "KiB"),
                (1073741824.0, 1.0 / 1048576.0, "MiB"),
                (f64::MAX, 1.0 / 1073741824.0, "GiB"),
            ],
            Unit::Share => &[(f64::MAX, 100.0, "%")],
            Unit::Fraction | Unit::Count => &[(f64::MAX, 1.0, "")],
        };
        let (_, factor, symbol) =
            steps.iter().find(|(below, ..)| largest < *below).or(steps.last()).expect("not empty");
        (*factor, symbol)
    }

    /// A single value in words: "1.25 s", "12.3 Mbit/s", "45 %". The space does not break.
    pub fn show(self, value: f64) -> String {
        // A sum over nothing is -0.0, which is no less than 0.
        let value = value + 0.0;
        let (factor, symbol) = self.for_value(value);
        let number = match self {
            Unit::Count if value.fract() == 0.0 => grouped(value),
            Unit::Share => format!("{:.*}", decimals(value * factor, 3).min(2), value * factor),
            _ => significant(value * factor, 3),
        };
        with_symbol(number, symbol)
    }

    /// A value with what it may be off: "1.25 ± 0.04 s", both with the digits of the value.
    pub fn show_with_error(self, value: f64, error: f64) -> String {
        let value = value + 0.0;
        let (factor, symbol) = self.for_value(value);
        let decimals = decimals(value * factor, 3);
        with_symbol(format!("{:.decimals$} ± {:.decimals$}", value * factor, error * factor), symbol)
    }

    fn for_value(self, value: f64) -> (f64, &'static str) {
        match self {
            // A single duration is read more easily with its own unit than an axis is.
            Unit::Seconds if value != 0.0 && value.abs() < 1e-3 => (1e6, "µs"),
            Unit::Seconds if value.abs() < 0.1 => (1e3, "ms"),
            Unit::Seconds if value.abs() < 600.0 => (1.0, "s"),
            _ => self.for_axis(value.abs()),
        }
    }
}

fn with_symbol(number: String, symbol: &str) -> String {
    if symbol.is_empty() { number } else { format!("{number}\u{a0}{symbol}") }
}

/// A whole number with thin spaces between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { String::from("\u{2212}") } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A number with that many significant digits, without an exponent; digits before the point are never dropped.
fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let decimals = decimals(value, digits);
    // 9.996 with three digits is 10.00: one digit too many, and harmless.
    format!("{value:.decimals$}").replace('-', "\u{2212}")
}

/// Digits behind the point of a number with that many significant ones.
fn decimals(value: f64, digits: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_three_digits_and_a_fitting_unit() {
        assert_eq!(Unit::Seconds.show(1.2345), "1.23\u{a0}s");
        assert_eq!(Unit::Seconds.show(0.0123), "12.3\u{a0}ms");
        assert_eq!(Unit::Seconds.show(0.75), "0.750\u{a0}s");
        assert_eq!(Unit::Seconds.show(0.000_043_21), "43.2\u{a0}µs");
        assert_eq!(Unit::Share.show(-0.0), "0\u{a0}%");
        assert_eq!(Unit::Seconds.show(3600.0), "60.0\u{a0}min");
        assert_eq!(Unit::BitsPerSecond.show(12_345_678.0), "12.3\u{a0}Mbit/s");
        assert_eq!(Unit::Bytes.show(1536.0), "1.50\u{a0}KiB");
        assert_eq!(Unit::Share.show(0.045), "4.50\u{a0}%");
        assert_eq!(Unit::Seconds.show_with_error(1.2345, 0.0412), "1.23 ± 0.04\u{a0}s");
        assert_eq!(Unit::Bytes.show_with_error(1048576.0, 524288.0), "1.00 ± 0.50\u{a0}MiB");
        assert_eq!(Unit::Seconds.show_with_error(0.0, 0.0), "0 ± 0\u{a0}ms");
        assert_eq!(Unit::Share.show(0.0000063), "0.00\u{a0}%");
        assert_eq!(Unit::Count.show(1234567.0), "1\u{2009}234\u{2009}567");
        assert_eq!(Unit::Count.show(1234.0), "1234");
        assert_eq!(Unit::Count.show(0.0), "0");
    }

    #[test]
    fn axes_have_one_unit_for_all_their_ticks() {
        assert_eq!(Unit::Seconds.for_axis(0.3), (1e3, "ms"));
        assert_eq!(Unit::Seconds.for_axis(3600.0), (1.0 / 60.0, "min"));
        assert_eq!(Unit::BitsPerSecond.for_axis(5e6).1, "Mbit/s");
        assert_eq!(Unit::Bytes.for_axis(3e9).1, "GiB");
    }
}
