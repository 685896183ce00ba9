//! Dates of the Gregorian calendar in UTC, and the date at which an experiment's clocks begin.

use crate::SimTime;
use std::fmt;

const NS_PER_SEC: u64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Days from 1970-01-01 to a date; None for one that the calendar does not have. The months are counted from March, so that the leap
/// day ends a year, and the years in eras of 400.
pub fn days_since_1970(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || day > days_of_month(year, month) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    /// From 0000-03-01 to 1970-01-01.
    const TO_1970: i64 = 719_468;
    Some(era * 146_097 + day_of_era - TO_1970)
}

fn days_of_month(year: i64, month: u32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day, so many days after 1970-01-01.
fn date_of_day(days: i64) -> (i64, u32, u32) {
    // Never more than a year too early, and then the loop finds the year.
    let mut year = 1970 + days.div_euclid(366) - i64::from(days < 0);
    let first = |year| days_since_1970(year, 1, 1).expect("every year has a first day");
    while first(year + 1) <= days {
        year += 1;
    }
    let mut rest = (days - first(year)) as u32;
    let mut month = 1;
    while rest >= days_of_month(year, month) {
        rest -= days_of_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

/// A moment as `2026-11-22 08:30:00`, in UTC, as directory documents of Tor have it.
pub fn date_and_time(unix_s: i64) -> String {
    let (year, month, day) = date_of_day(unix_s.div_euclid(DAY_S));
    let second = unix_s.rem_euclid(DAY_S);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Seconds since midnight at "08:30:00.250".
pub fn seconds_of_day(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    (hours < 24.0 && minutes < 60.0 && (0.0..61.0).contains(&seconds))
        .then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// The experiment's date at its start: a whole second of the Unix epoch. Hosts' clocks are a little fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartDate {
    unix_s: u64,
}

impl StartDate {
    /// 1970-01-02: the boot of hosts, which lies before the start, is in the Unix epoch too.
    const EARLIEST_S: u64 = 86_400;
    /// 2106-01-01: seconds of 32 bits without a sign, which file formats and protocols keep, end on 2106-02-07.
    const LATEST_S: u64 = 4_291_747_200;
    const RANGE: &str = "from 1970-01-02 to 2106-01-01, where seconds of 32 bits end";

    /// # Errors
    /// Outside of the range; the text says which it is.
    pub fn from_unix_seconds(unix_s: u64) -> Result<StartDate, String> {
        if (Self::EARLIEST_S..=Self::LATEST_S).contains(&unix_s) {
            return Ok(StartDate { unix_s });
        }
        Err(format!("dates go {}", Self::RANGE))
    }

    /// Reads ISO 8601's `2026-11-22`, `2026-11-22T08:30:00` and the same with `Z`: all in UTC.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<StartDate, String> {
        let wrong = || format!("'{text}' is no date; write one such as 2026-11-22T08:30:00Z or 2026-11-22 (UTC)");
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, time.strip_suffix('Z').unwrap_or(time)),
            None => (text, "00:00:00"),
        };
        let [year, month, day] = numbers(date, '-', [4, 2, 2]).ok_or_else(wrong)?;
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2]).ok_or_else(wrong)?;
        let days = days_since_1970(year.into(), month, day);
        let days = days.ok_or_else(|| format!("'{text}' is no date: the calendar has no {date}; correct it"))?;
        if hour > 23 || minute > 59 || second > 59 {
            return Err(format!("'{text}' is no date: no day has a time {time}; correct it, up to 23:59:59"));
        }
        let unix_s = days * DAY_S + i64::from(hour * 3600 + minute * 60 + second);
        u64::try_from(unix_s)
            .ok()
            .and_then(|unix_s| Self::from_unix_seconds(unix_s).ok())
            .ok_or_else(|| format!("'{text}' is out of range; dates go {}", Self::RANGE))
    }

    /// In seconds of the Unix epoch.
    pub const fn unix_seconds(self) -> u64 {
        self.unix_s
    }

    /// What a clock that is right shows at `time`, in nanoseconds of the Unix epoch.
    pub const fn unix_nanos(self, time: SimTime) -> u64 {
        (self.unix_s * NS_PER_SEC).saturating_add(time.as_nanos())
    }

    /// The moment at which it shows `ns`; the experiment's start for anything earlier.
    pub const fn moment(self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(self.unix_s * NS_PER_SEC))
    }

    /// Seconds from the start to a moment that is told without its year, as in tor's log ("Jan 01 00:16:40.000"): the first such
    /// moment after it.
    pub fn since(self, text: &str) -> Option<f64> {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let mut words = text.split_ascii_whitespace();
        let name = words.next()?;
        let month = MONTHS.iter().position(|month| *month == name)? as u32 + 1;
        let day: u32 = words.next()?.parse().ok()?;
        let time = seconds_of_day(words.next()?)?;
        let year = date_of_day(self.unix_s as i64 / DAY_S).0;
        // The 29th of February may be eight years away.
        let mut moments = (year..year + 9).filter_map(|year| {
            let midnight = days_since_1970(year, month, day)? * DAY_S;
            Some((midnight - self.unix_s as i64) as f64 + time)
        });
        moments.find(|since| *since >= 0.0)
    }
}

/// `count` numbers of just so many digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(separator);
    let mut all = [0; N];
    for (number, digits) in all.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(all)
}

/// 2000-01-01 00:00:00 UTC, as in Shadow.
impl Default for StartDate {
    fn default() -> Self {
        StartDate { unix_s: 946_684_800 }
    }
}

/// `2026-11-22T08:30:00Z`.
impl fmt::Display for StartDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", date_and_time(self.unix_s as i64).replace(' ', "T"))
    }
}

impl fmt::Debug for StartDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        let read = |text: &str| StartDate::parse(text).unwrap().to_string();
        assert_eq!(read("2000-01-01"), "2000-01-01T00:00:00Z");
        assert_eq!(StartDate::parse("2000-01-01"), Ok(StartDate::default()));
        for text in ["2026-11-22T08:30:00Z", "2026-11-22T08:30:00", "2026-11-22 08:30:00"] {
            assert_eq!(StartDate::parse(text).unwrap().unix_seconds(), 1_795_336_200, "{text}");
            assert_eq!(read(text), "2026-11-22T08:30:00Z");
        }
        assert_eq!(read("2024-02-29T23:59:59Z"), "2024-02-29T23:59:59Z");
        assert_eq!(
            (read("1970-01-02"), read("2106-01-01")),
            ("1970-01-02T00:00:00Z".into(), "2106-01-01T00:00:00Z".into())
        );
    }

    #[test]
    fn what_is_no_date_is_refused_with_the_remedy() {
        for (text, part) in [
            ("now", "write one such as"),
            ("", "write one such as"),
            ("22.11.2026", "write one such as"),
            ("2026-11-22T08:30", "write one such as"),
            ("2026-11-22T08:30:00+01:00", "write one such as"),
            ("+026-11-22", "write one such as"),
            ("2026-02-29", "the calendar has no 2026-02-29"),
            ("2026-13-01", "the calendar has no"),
            ("2026-11-22T24:00:00", "no day has a time"),
            ("1970-01-01", "out of range; dates go from 1970-01-02"),
            ("1969-12-31", "out of range"),
            ("2106-01-02", "out of range"),
        ] {
            let error = StartDate::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_day_of_six_hundred_years_follows_its_day_before() {
        let mut days = days_since_1970(1800, 1, 1).unwrap();
        for year in 1800..2400 {
            for month in 1..=12 {
                for day in 1..=days_of_month(year, month) {
                    assert_eq!(days_since_1970(year, month, day), Some(days));
                    assert_eq!(date_of_day(days), (year, month, day));
                    days += 1;
                }
            }
        }
        assert_eq!(days_since_1970(1970, 1, 1), Some(0));
        assert_eq!(date_and_time(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn moments_without_a_year_follow_the_start() {
        let start = StartDate::default();
        assert_eq!(start.since("Jan 01 00:16:40.000"), Some(1000.0));
        assert_eq!(start.since("Mar 01 00:00:00.000"), Some(60.0 * 86_400.0));
        assert_eq!(StartDate::parse("2026-12-31T23:59:00").unwrap().since("Jan 01 00:00:30.470"), Some(90.470));
        assert_eq!(StartDate::parse("2097-01-01").unwrap().since("Feb 29 00:00:00"), Some(2614.0 * 86_400.0));
        for text in ["", "Jan", "Foo 01 00:00:00", "Jan 01 00:00", "Jan 40 00:00:00", "Jan 01 25:00:00"] {
            assert_eq!(start.since(text), None, "{text}");
        }
    }

    #[test]
    fn clocks_begin_at_the_date() {
        let start = StartDate::parse("2026-11-22").unwrap();
        let later = SimTime::from_nanos(5);
        assert_eq!(start.unix_nanos(later), start.unix_seconds() * NS_PER_SEC + 5);
        assert_eq!(start.moment(start.unix_nanos(later)), later);
        assert_eq!(start.moment(0), SimTime::ZERO);
    }
}
