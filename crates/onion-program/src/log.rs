//! Lines in tor's form on standard output, so that what reads tor's logs reads these.

use crate::clock::since_1970;
use std::fmt;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub fn notice(message: impl fmt::Display) {
    line("notice", message);
}

pub fn warn(message: impl fmt::Display) {
    line("warn", message);
}

fn line(severity: &str, message: impl fmt::Display) {
    let now = since_1970();
    let (_, month, day) = onion::date::of_day(now.as_secs() / 86_400);
    let (second, ms) = (now.as_secs() % 86_400, now.subsec_millis());
    let month = MONTHS[month as usize - 1];
    println!(
        "{month} {day:02} {:02}:{:02}:{:02}.{ms:03} [{severity}] {message}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
}
