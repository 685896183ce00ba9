//! What one tor's log says, or arti's: how far it is, and what it complained about.

use super::LONGEST_LINE;
use crate::warnings::{self, Known};
use base::StartDate;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

#[derive(Debug, Default)]
pub(super) struct TorLog {
    pub has_started: bool,
    pub percent: u32,
    /// Seconds of simulated time at which it was at 100 %.
    pub bootstrapped_s: Option<f64>,
    pub warnings: usize,
    /// Warnings that every private network gives, and how often each came.
    pub expected: BTreeMap<&'static str, (usize, &'static Known)>,
    pub errors: usize,
    /// Warnings and errors with numbers left out, without the expected ones, and how often each came.
    pub messages: BTreeMap<String, usize>,
}

impl TorLog {
    /// Reads a log, whose clock began at `start`, to its end. A last line that is not complete is left out.
    pub(super) fn read(&mut self, mut log: impl BufRead, start: StartDate) -> std::io::Result<()> {
        let mut line = Vec::new();
        while (&mut log).take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
            if line.last() == Some(&b'\n') {
                self.take(&String::from_utf8_lossy(&line), start);
            }
            line.clear();
        }
        Ok(())
    }

    fn take(&mut self, line: &str, start: StartDate) {
        self.has_started = true;
        let Some(entry) = Entry::read(line) else { return };
        match entry.level {
            Level::Warning => self.warned(entry.message),
            Level::Error => self.failed(entry.message),
            Level::Notice => {
                let Some(percent) = entry.bootstrap_percent() else { return };
                self.reached(percent, entry.since(start));
            }
        }
    }

    fn warned(&mut self, message: &str) {
        match warnings::known(message).filter(|known| known.is_expected) {
            Some(known) => self.expected.entry(known.part).or_insert((0, known)).0 += 1,
            None => {
                self.warnings += 1;
                self.note(message);
            }
        }
    }

    fn failed(&mut self, message: &str) {
        self.errors += 1;
        self.note(message);
    }

    fn note(&mut self, message: &str) {
        *self.messages.entry(without_numbers(message)).or_default() += 1;
    }

    fn reached(&mut self, percent: u32, at_s: Option<f64>) {
        self.percent = percent;
        if percent == 100 && self.bootstrapped_s.is_none() {
            self.bootstrapped_s = at_s;
        }
    }
}

/// How serious a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Error,
    Warning,
    /// Or less.
    Notice,
}

/// A line of a log, in tor's form or in arti's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    time: &'a str,
    pub level: Level,
    pub message: &'a str,
}

impl<'a> Entry<'a> {
    /// `None` for lines that go on with an earlier one.
    pub fn read(line: &'a str) -> Option<Entry<'a>> {
        let line = line.trim_end();
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            return Entry::read_of_arti(line);
        }
        // Such as "Jan 01 00:00:30.470 [notice] Bootstrapped 100% (done): Done".
        let (time, rest) = line.split_once(" [")?;
        let (level, message) = rest.split_once("] ")?;
        let level = match level {
            "err" => Level::Error,
            "warn" => Level::Warning,
            _ => Level::Notice,
        };
        Some(Entry { time, level, message })
    }

    /// Such as "2000-01-01T00:00:58.125Z  INFO arti::subcommands::proxy: Sufficiently bootstrapped; proxy now functional.".
    fn read_of_arti(line: &'a str) -> Option<Entry<'a>> {
        let (time, rest) = line.split_once(' ')?;
        let (level, message) = rest.trim_start().split_once(' ')?;
        let level = match level {
            "ERROR" => Level::Error,
            "WARN" => Level::Warning,
            _ => Level::Notice,
        };
        Some(Entry { time, level, message })
    }

    pub fn is_notice(&self) -> bool {
        self.level == Level::Notice
    }

    /// How far the program says that it is. Of how far it is before 100 %, arti's log says nothing.
    pub fn bootstrap_percent(&self) -> Option<u32> {
        match self.message.strip_prefix("Bootstrapped ") {
            Some(rest) => rest.split_once('%')?.0.parse().ok(),
            None => self.message.contains("Sufficiently bootstrapped").then_some(100),
        }
    }

    /// Seconds of simulated time, where clocks began at `start`.
    pub fn since(&self, start: StartDate) -> Option<f64> {
        if self.time.ends_with('Z') { since(start, self.time) } else { start.since(self.time) }
    }
}

/// Seconds from the start to a moment such as 2000-01-01T00:00:58.125Z.
fn since(start: StartDate, time: &str) -> Option<f64> {
    let (second, fraction) = time.strip_suffix('Z')?.split_once('.').unwrap_or((time, "0"));
    let second = StartDate::parse(second).ok()?.unix_seconds().checked_sub(start.unix_seconds())?;
    Some(second as f64 + format!("0.{fraction}").parse::<f64>().ok()?)
}

/// Alike messages as one: each run of digits, with the dots and colons of addresses in it, becomes `#`.
pub(super) fn without_numbers(message: &str) -> String {
    let mut text = String::new();
    for word in message.split(' ') {
        if !text.is_empty() {
            text.push(' ');
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            text.push('#');
        } else {
            text += word;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_arti_are_read_too() {
        let lines = "2000-01-01T00:00:56.354Z  INFO arti::subcommands::proxy: Starting Arti 2.7.0 in proxy mode on 127.0.0.1:9050 ...\n\
                     2000-01-01T00:00:57Z  WARN tor_netdir: Requested 60 relays, but only 3 were usable, and only 3 were chosen\n\
                     2000-01-01T00:00:57Z  WARN tor_guardmgr: something else\n\
                     2000-01-01T00:00:58.125Z  INFO arti::subcommands::proxy: Sufficiently bootstrapped; proxy now functional.\n\
                     2000-01-01T00:00:59Z ERROR arti: failed\n";
        let mut log = TorLog::default();
        log.read(lines.as_bytes(), StartDate::default()).unwrap();
        assert_eq!((log.percent, log.bootstrapped_s, log.warnings, log.errors), (100, Some(58.125), 1, 1));
        assert_eq!(log.expected.values().map(|(times, _)| *times).sum::<usize>(), 1);
        assert_eq!(since(StartDate::default(), "2000-01-01T00:00:58Z"), Some(58.0));
    }

    #[test]
    fn alike_messages_count_together() {
        assert_eq!(without_numbers("from server 100.0.0.3:8080 while"), "from server # while");
    }
}
