//! What logs give as reasons, of which one is to be shown.

use super::tor_log::{Entry, Level, without_numbers};
use crate::warnings;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// What tor notes of a consensus without exits, and of the first one behind it that has some.
pub(super) const LACKS_EXITS: &str = "The current consensus has no exit nodes";
pub(super) const HAS_EXITS: &str = "The current consensus contains exit nodes";

/// Parts of messages that name a cause, the most telling first. What else warns counts only where none of these was written.
const CAUSES: &[&str] = &[
    "Failed to parse/validate config",
    "Duplicate value for",
    "we couldn't parse",
    "We don't have enough votes to generate a consensus",
    "A consensus needs",
    LACKS_EXITS,
    "No relay of the consensus lets streams out",
    "haven't received a consensus with exits",
];

/// What follows from other messages, or belongs to them.
const CONSEQUENCES: &[&str] = &[
    "Not enough info to publish pending",
    "Received http status code",
    "connections have failed",
    "connections died in state",
    "params not in order",
];

/// Characters of a message that are shown.
const SHOWN: usize = 160;

/// Where a message stands: a file below the data directory, and its line from 1.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub file: String,
    pub line: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Reason {
    /// Its index in `CAUSES`, or their number.
    rank: usize,
    /// As it was written first.
    message: String,
    place: Place,
    pub times: usize,
}

/// Reasons by their text without numbers.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<String, Reason>);

impl Reasons {
    /// Takes a line of a log if it may be a reason.
    pub fn note(&mut self, entry: Entry<'_>, place: impl FnOnce() -> Place) {
        let message = entry.message;
        if message.starts_with(HAS_EXITS) {
            self.0.retain(|_, reason| !reason.message.starts_with(LACKS_EXITS));
        }
        let is_cause = CAUSES.iter().any(|part| message.contains(part));
        let is_other = entry.level != Level::Notice
            && warnings::known(message).is_none()
            && !CONSEQUENCES.iter().any(|part| message.contains(part));
        if is_cause || is_other {
            self.put(message, place());
        }
    }

    fn put(&mut self, message: &str, place: Place) {
        let rank = CAUSES.iter().position(|part| message.contains(part)).unwrap_or(CAUSES.len());
        self.add(Reason { rank, message: message.to_owned(), place, times: 1 });
    }

    pub fn add(&mut self, reason: Reason) {
        let times = reason.times;
        self.0.entry(without_numbers(&reason.message)).or_insert(Reason { times: 0, ..reason }).times += times;
    }

    /// Adds others; the place of the first of alike ones stays.
    pub fn extend(&mut self, others: Reasons) {
        others.0.into_values().for_each(|reason| self.add(reason));
    }

    /// The most telling, then the most frequent.
    pub fn best(&self) -> Option<&Reason> {
        self.0.values().min_by_key(|reason| (reason.rank, Reverse(reason.times)))
    }
}

impl Reason {
    /// The same, as if it had been written once.
    pub fn clone_once(&self) -> Reason {
        Reason { times: 1, ..self.clone() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.message.chars().take(SHOWN).collect();
        let more = if shown.len() < self.message.len() { "..." } else { "" };
        write!(f, "'{shown}{more}' ({}:{})", self.place.file, self.place.line)
    }
}
