//! What one tor's log says: how far it is, and what it complained about.

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

    /// A line such as "Jan 01 00:00:30.470 [notice] Bootstrapped 100% (done): Done".
    fn take(&mut self, line: &str, start: StartDate) {
        self.has_started = true;
        let Some((time, rest)) = line.split_once(" [") else { return };
        let Some((level, message)) = rest.split_once("] ") else { return };
        match level {
            "warn" if let Some(known) = warnings::known(message).filter(|known| known.is_expected) => {
                self.expected.entry(known.part).or_insert((0, known)).0 += 1;
            }
            "warn" | "err" => {
                *(if level == "warn" { &mut self.warnings } else { &mut self.errors }) += 1;
                *self.messages.entry(without_numbers(message.trim_end())).or_default() += 1;
            }
            _ => {
                let Some(percent) = bootstrap_percent(message) else { return };
                self.percent = percent;
                if percent == 100 && self.bootstrapped_s.is_none() {
                    self.bootstrapped_s = start.since(time);
                }
            }
        }
    }
}

fn bootstrap_percent(message: &str) -> Option<u32> {
    message.strip_prefix("Bootstrapped ")?.split_once('%')?.0.parse().ok()
}

/// Alike messages as one: each run of digits, with the dots and colons of addresses in it, becomes `#`.
fn without_numbers(message: &str) -> String {
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
    fn alike_messages_count_together() {
        assert_eq!(without_numbers("from server 100.0.0.3:8080 while"), "from server # while");
    }
}
