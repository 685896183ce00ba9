//! Times and sizes as people write them: "1.5 s", "320 KiB".

use std::time::Duration;

/// No time is longer than this, about 317 years: sums of such times stay far from any overflow.
const LONGEST: f64 = 1e10;

/// A time with its unit ("10 ms", "1.5 min"); a number alone is in seconds. The error is the remedy.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "ns" | "nanosecond" | "nanoseconds" => 1e-9,
        "us" | "μs" | "microsecond" | "microseconds" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        _ if number.is_empty() => return Err(no_time(text)),
        _ => return Err(format!("'{unit}' is no unit of time; use ns, us, ms, s, min or h, such as '10 s'")),
    };
    match number.parse::<f64>() {
        Ok(n) if n >= 0.0 && n * factor <= LONGEST => Ok(Duration::from_nanos((n * factor * 1e9).round() as u64)),
        Ok(n) if n >= 0.0 => Err(format!("'{text}' is longer than 300 years; write a shorter time")),
        _ => Err(no_time(text)),
    }
}

/// A number of bytes with its unit ("320 KiB", "5 MB"); a number alone is in bytes. The error is the remedy.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        _ if number.is_empty() => return Err(no_size(text)),
        _ => return Err(format!("'{unit}' is no unit of size; use B, KB, KiB, MB, MiB, GB or GiB, such as '320 KiB'")),
    };
    match number.parse::<f64>() {
        Ok(n) if n >= 0.0 && n * factor < 1e15 && (n * factor).fract() == 0.0 => Ok((n * factor) as u64),
        Ok(n) if n >= 0.0 && n * factor >= 1e15 => {
            Err(format!("'{text}' is more than a petabyte; write a smaller size"))
        }
        Ok(n) if n >= 0.0 => Err(format!("'{text}' is no whole number of bytes")),
        _ => Err(no_size(text)),
    }
}

fn no_time(text: &str) -> String {
    format!("'{text}' is no time; write a number and a unit, such as '10 s' or '500 ms'")
}

fn no_size(text: &str) -> String {
    format!("'{text}' is no size; write a number and a unit, such as '320 KiB' or '5 MB'")
}

/// Number and unit, without the space around them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ms) in
            [("1 s", 1000), ("1", 1000), ("1.5 s", 1500), ("20ms", 20), ("2 min", 120_000), (" 1 hours ", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1 s", "1 fortnight", "1.2.3 s", "nan", "inf", "1e3", "99999999999 h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(
            duration("1 week").unwrap_err(),
            "'week' is no unit of time; use ns, us, ms, s, min or h, such as '10 s'"
        );
    }

    #[test]
    fn sizes() {
        let cases = [("5", 5), ("50 KiB", 51_200), ("5MiB", 5 << 20), ("1.5 kb", 1500), ("0", 0), ("7 bytes", 7)];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "-5", "5 parsecs", "1.5", "1 KiB 2", "9999999 GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
