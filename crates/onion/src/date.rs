//! Dates of the Gregorian calendar.

/// Year, month and day of a day since 1970.
pub fn of_day(days: u64) -> (u64, u64, u64) {
    // Years begin in March, and eras of 400 years in the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Days since 1970 of a date from then on; nothing if there is no such day.
pub fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    // Within the span of four-digit years.
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || day > 31 {
        return None;
    }
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let days = (365 * march_year + leap_days + (153 * march_month + 2) / 5 + day).checked_sub(719_469)?;
    (of_day(days) == (year, month, day)).then_some(days)
}

/// Seconds since 1970 of a time such as `2000-01-01 00:05:00`, as Tor's documents have it.
pub fn read_time(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(' ')?;
    let numbers = |text: &str, separator| -> Option<[u64; 3]> {
        let parts: Option<Vec<u64>> = text.split(separator).map(|part| part.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(day_of(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::{day_of, of_day, read_time};

    #[test]
    fn days_have_dates() {
        let dates = [
            (0, (1970, 1, 1)),
            (10_957, (2000, 1, 1)),
            (11_016, (2000, 2, 29)),
            (20_781, (2026, 11, 24)),
            (47_541, (2100, 3, 1)),
        ];
        for (days, expected) in dates {
            assert_eq!(of_day(days), expected);
            assert_eq!(day_of(expected.0, expected.1, expected.2), Some(days));
        }
        assert_eq!(day_of(2001, 2, 29), None);
        assert_eq!(day_of(1969, 12, 31), None);
        assert_eq!(day_of(2000, 13, 1), None);
        assert_eq!(day_of(2000, 1, 0), None);
    }

    #[test]
    fn times_are_read() {
        assert_eq!(read_time("1970-01-01 00:00:00"), Some(0));
        assert_eq!(read_time("2000-02-29 01:02:03"), Some(11_016 * 86_400 + 3723));
        for wrong in ["2000-01-01", "2000-01-01 24:00:00", "2000-01 00:00:00", "2000-01-01 00:00", "x-01-01 00:00:00"] {
            assert_eq!(read_time(wrong), None, "{wrong}");
        }
    }
}
