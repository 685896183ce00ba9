//! The moments in logs, as seconds since the start of the simulation, whose date the run's configuration tells.

use base::StartDate;

/// From a Unix time.
pub fn from_unix(start: StartDate, unix_s: f64) -> f64 {
    // Subtraction leaves noise below a microsecond in doubles of this size.
    ((unix_s - start.unix_seconds() as f64) * 1e6).round() / 1e6
}

/// Reads the control port's "2000-01-01T00:05:00.123456" (control-spec, TIME_CREATED).
pub fn from_iso(start: StartDate, text: &str) -> Option<f64> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let year: i64 = parts.next()?.parse().ok()?;
    let (month, day) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let midnight = base::date::days_since_1970(year, month, day)? * 86_400 - start.unix_seconds() as i64;
    Some(midnight as f64 + base::date::seconds_of_day(time)?).filter(|since| *since >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_agree() {
        let start = StartDate::default();
        assert_eq!(from_unix(start, 946_684_800.5), 0.5);
        assert_eq!(from_unix(start, 946_685_100.123456), 300.123456);
        assert_eq!(from_iso(start, "2000-01-01T00:05:00.250000"), Some(300.25));
        assert_eq!(from_iso(start, "2001-01-01T00:00:00.0"), Some(366.0 * 86_400.0));
        let start = StartDate::parse("2026-11-22T08:30:00Z").unwrap();
        assert_eq!(from_unix(start, 1_795_336_200.5), 0.5);
        assert_eq!(from_iso(start, "2026-11-22T08:35:00.250000"), Some(300.25));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["2000-01-01", "2000-13-01T00:00:00", "xT00:00:00", "1999-01-01T00:00:00"] {
            assert_eq!(from_iso(StartDate::default(), text), None, "{text}");
        }
    }
}
