//! What stands before a consensus' list of relays (dir-spec, "Consensus status documents"): when it holds, and the parameters that the
//! authorities agreed on. Relays take no more of it.

use crate::date;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Bytes of a consensus, at most, that stand before its list of relays.
pub const LONGEST_PREAMBLE: usize = 64 * 1024;

/// The part of a consensus, of either flavour, that is about all relays. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    pub valid_after_s: u64,
    /// When the next one is there.
    pub fresh_until_s: u64,
    pub valid_until_s: u64,
    pub parameters: ConsensusParameters,
}

/// Numbers with names; those that are missing have the default of whoever asks for them (param-spec).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsensusParameters(BTreeMap<String, i32>);

impl ConsensusParameters {
    /// The value of a parameter within what is allowed for it, as the specification says it of values beyond.
    pub fn get(&self, name: &str, default: u32, allowed: RangeInclusive<u32>) -> u32 {
        let value = self.0.get(name).map_or(i64::from(default), |value| i64::from(*value));
        value.clamp((*allowed.start()).into(), (*allowed.end()).into()) as u32
    }

    /// `name=value` with spaces between them; nothing if it is not that.
    pub fn read(text: &str) -> Option<ConsensusParameters> {
        let read = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.split(' ').filter(|word| !word.is_empty()).map(read).collect::<Option<_>>().map(ConsensusParameters)
    }
}

impl Preamble {
    /// Reads the beginning of a consensus; nothing if it is none. Signatures are not looked at.
    pub fn read(text: &str) -> Option<Preamble> {
        let mut lines = text.lines();
        let version = lines.next()?.strip_prefix("network-status-version ")?;
        if version.split(' ').next() != Some("3") {
            return None;
        }
        let (mut valid_after_s, mut fresh_until_s, mut valid_until_s) = (None, None, None);
        let mut parameters = ConsensusParameters::default();
        for line in lines {
            match line.split_once(' ') {
                Some(("valid-after", time)) => valid_after_s = date::read_time(time),
                Some(("fresh-until", time)) => fresh_until_s = date::read_time(time),
                Some(("valid-until", time)) => valid_until_s = date::read_time(time),
                Some(("params", list)) => parameters = ConsensusParameters::read(list)?,
                // Relays come behind the authorities.
                Some(("dir-source" | "r", _)) => break,
                _ => {}
            }
        }
        let (valid_after_s, fresh_until_s, valid_until_s) = (valid_after_s?, fresh_until_s?, valid_until_s?);
        let is_ordered = valid_after_s < fresh_until_s && fresh_until_s <= valid_until_s;
        is_ordered.then_some(Preamble { valid_after_s, fresh_until_s, valid_until_s, parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2000-01-01 00:05:00\n\
        fresh-until 2000-01-01 00:10:00\nvalid-until 2000-01-01 00:20:00\nknown-flags Exit Fast\nparams cc_alg=2 cfx_enabled=0 low=-5\n\
        dir-source one 00 1.2.3.4\nparams cc_alg=0\n";

    #[test]
    fn the_preamble_of_a_consensus_is_read() {
        let preamble = Preamble::read(TEXT).expect("a consensus");
        assert_eq!(preamble.fresh_until_s, 946_685_400);
        assert_eq!((preamble.valid_after_s, preamble.valid_until_s), (946_685_100, 946_686_000));
        assert_eq!(preamble.parameters.get("cc_alg", 0, 0..=3), 2);
        assert!(Preamble::read(&TEXT.replace("params cc_alg=2 cfx_enabled=0 low=-5\n", "")).is_some());
    }

    #[test]
    fn parameters_have_defaults_and_limits() {
        let parameters = Preamble::read(TEXT).expect("a consensus").parameters;
        assert_eq!(parameters.get("missing", 7, 0..=10), 7);
        assert_eq!(parameters.get("cc_alg", 0, 0..=1), 1);
        assert_eq!(parameters.get("low", 7, 3..=10), 3);
    }

    #[test]
    fn what_is_no_consensus_is_refused() {
        let wrong = ["", "HTTP/1.0 404 Not found\n", "network-status-version 2\nfresh-until 2000-01-01 00:10:00\n"];
        for text in wrong {
            assert_eq!(Preamble::read(text), None, "{text}");
        }
        for (from, to) in [
            ("fresh-until", "fresh"),
            ("00:10:00", "soon"),
            ("00:10:00", "00:30:00"),
            ("cc_alg=2", "cc_alg"),
            ("cc_alg=2", "cc_alg=x"),
        ] {
            assert_eq!(Preamble::read(&TEXT.replace(from, to)), None, "{to}");
        }
    }
}
