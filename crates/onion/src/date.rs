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

/// The day since 1970 of a year, month and day; nothing before 1970, and for what no calendar has.
pub fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + 365 * year + year / 4 - year / 100 + of_year - 719_468;
    Some(days)
}

/// Seconds since 1970 of `2000-01-31 23:59:59`.
pub fn seconds(date: &str, time: &str) -> Option<u64> {
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let fits = hour < 24 && minute < 60 && second <= 60;
    day_of(year, month, day).filter(|_| fits).map(|days| days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::{day_of, of_day, seconds};

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
    }

    #[test]
    fn dates_with_times_are_read() {
        assert_eq!(seconds("2000-01-01", "00:00:30"), Some(946_684_830));
        for (date, time) in [("2000-13-01", "00:00:00"), ("2000-01-01", "24:00:00"), ("2000-01", "00:00:00"), ("", "")]
        {
            assert_eq!(seconds(date, time), None, "{date} {time}");
        }
    }
}
