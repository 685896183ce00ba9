//! What names of hosts and words of choices can be: a literal that is compared with one and is none of them is a slip, with which a filter would
//! choose nothing, or everything, and say nothing of it.

use super::code::{Code, SENT};
use probes::tables::{Received, Sent};
use probes::{Kind, Row as _};

/// Hosts that a message lists.
const MOST_LISTED: usize = 12;

/// What the value of some code is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Host,
    /// `received` ones are "" for packets that did not arrive.
    Word {
        words: &'static [&'static str],
        received: bool,
    },
}

impl Choice {
    /// Of code, or of all that a list has; None where it can be any text.
    pub fn of(code: &Code) -> Option<Choice> {
        match code {
            Code::From | Code::To => Some(Choice::Host),
            Code::Column(place) => {
                let received = *place >= SENT;
                let columns =
                    if received { &Received::TABLE.columns[place - SENT..] } else { &Sent::TABLE.columns[*place..] };
                let Kind::Choice(words) = columns[0].kind else { return None };
                Some(Choice::Word { words, received })
            }
            Code::List(parts) => {
                let choice = Choice::of(parts.first()?)?;
                parts.iter().all(|part| Choice::of(part) == Some(choice)).then_some(choice)
            }
            _ => None,
        }
    }

    /// Why a literal is none of them, and what it may have been meant to be; None if it is one.
    pub fn refusal(self, literal: &str, hosts: &[&str]) -> Option<String> {
        let (known, what) = match self {
            Choice::Host => (hosts, format!("there is no host '{literal}'")),
            Choice::Word { words, received } if words.contains(&literal) || received && literal.is_empty() => {
                return None;
            }
            Choice::Word { words, received } => {
                (words, format!("'{literal}' is no {}", if received { "received_fate" } else { "fate" }))
            }
        };
        (!known.contains(&literal)).then(|| format!("{what}; {}", remedy(literal, known)))
    }
}

/// The word that is close, or a list of those that there are.
fn remedy(word: &str, known: &[&str]) -> String {
    let close = known.iter().map(|known| (distance(word, known), known));
    if let Some((_, known)) = close.filter(|(distance, known)| *distance <= 1 + known.len() / 4).min() {
        return format!("did you mean '{known}'?");
    }
    let listed = known[..known.len().min(MOST_LISTED)].join(", ");
    match known.len().saturating_sub(MOST_LISTED) {
        0 => format!("there are {listed}"),
        more => format!("there are {listed} and {more} more"),
    }
}

/// Letters that are to be changed, added or left out to come from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // Of what has been seen of `from` to each beginning of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (seen, letter) in from.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], seen + 1);
        for (place, other) in to.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_close_is_suggested_and_else_all_are_listed() {
        assert_eq!(["", "abc", "abd", "xabc", "cba"].map(|word| distance(word, "abc")), [3, 0, 1, 1, 2]);
        assert_eq!(remedy("rely3", &["client", "relay3"]), "did you mean 'relay3'?");
        assert_eq!(remedy("x", &["client", "relay3"]), "there are client, relay3");
        let many: Vec<String> = (0..15).map(|host| format!("host{host}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(remedy("x", &many).ends_with("host11 and 3 more"));
    }
}
