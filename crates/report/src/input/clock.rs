//! The moments in logs, as seconds since the start of the simulation. Simulated clocks start at 2000-01-01 00:00:00 UTC.

/// Unix time of the simulation's start.
pub const EPOCH_UNIX_S: f64 = 946_684_800.0;

/// From a Unix time.
pub fn from_unix(unix_s: f64) -> f64 {
    // Subtraction leaves noise below a microsecond in doubles of this size.
    ((unix_s - EPOCH_UNIX_S) * 1e6).round() / 1e6
}

/// Reads tor's "Jan 01 00:16:40.000", which has no year: the year 2000.
pub fn from_tor_log(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let month = month_number(words.next()?)?;
    let day: u32 = words.next()?.parse().ok()?;
    Some(f64::from(days_since_2000(2000, month, day)?) * 86_400.0 + time_of_day(words.next()?)?)
}

/// Reads the control port's "2000-01-01T00:05:00.123456" (control-spec, TIME_CREATED).
pub fn from_iso(text: &str) -> Option<f64> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-');
    let year: u32 = parts.next()?.parse().ok()?;
    let month: u32 = parts.next()?.parse().ok()?;
    let day: u32 = parts.next()?.parse().ok()?;
    Some(f64::from(days_since_2000(year, month, day)?) * 86_400.0 + time_of_day(time)?)
}

fn month_number(name: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    MONTHS.iter().position(|month| *month == name).map(|index| index as u32 + 1)
}

fn days_since_2000(year: u32, month: u32, day: u32) -> Option<u32> {
    let is_leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_date = (2000..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| {
        let years: u32 = (2000..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
        years + months[..month as usize - 1].iter().sum::<u32>() + day - 1
    })
}

fn time_of_day(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    (hours < 24.0 && minutes < 60.0 && (0.0..61.0).contains(&seconds))
        .then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_agree() {
        assert_eq!(from_unix(946_684_800.5), 0.5);
        assert_eq!(from_unix(946_685_100.123456), 300.123456);
        assert_eq!(from_tor_log("Jan 01 00:16:40.000"), Some(1000.0));
        assert_eq!(from_tor_log("Mar 01 00:00:00.000"), Some(60.0 * 86_400.0));
        assert_eq!(from_iso("2000-01-01T00:05:00.250000"), Some(300.25));
        assert_eq!(from_iso("2001-01-01T00:00:00.0"), Some(366.0 * 86_400.0));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["", "Jan", "Foo 01 00:00:00", "Jan 01 00:00", "Jan 40 00:00:00", "Jan 01 25:00:00"] {
            assert_eq!(from_tor_log(text), None, "{text}");
        }
        for text in ["2000-01-01", "2000-13-01T00:00:00", "xT00:00:00", "1999-01-01T00:00:00"] {
            assert_eq!(from_iso(text), None, "{text}");
        }
    }
}
