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

#[cfg(test)]
mod tests {
    use super::of_day;

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
        }
    }
}
