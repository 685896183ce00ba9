//! The relays by which all circuits of a user enter (guard-spec), kept in a file: three are drawn by weight, the first that answers is used.

use crate::choice::{self, Position, are_close, is_possible_guard};
use crate::network::{Network, Relay};
use data_encoding::HEXUPPER;
use rand_chacha::ChaCha20Rng;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Guards that are tried in their order before others are drawn (guard-spec, `guard-n-primary-guards`).
const PRIMARY: usize = 3;
/// All that are ever drawn.
const MOST: usize = 20;
/// How long one that did not answer is left alone, in milliseconds.
const AGAIN_MS: u64 = 600_000;

const FILE: &str = "gnomon_guards";

pub struct Guards {
    file: PathBuf,
    /// In the order in which they were drawn.
    sampled: Vec<Guard>,
}

struct Guard {
    fingerprint: [u8; 20],
    /// When it last did not answer.
    failed_ms: Option<u64>,
}

impl Guards {
    /// Reads those that were drawn before, if there are any.
    pub fn load(data_directory: &Path) -> Result<Guards, String> {
        let file = data_directory.join(FILE);
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            result => result.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        // Lines that name no relay are passed over, whatever is in them.
        let text = String::from_utf8_lossy(&bytes);
        let read = text.lines().filter_map(|line| onion_program::torrc::fingerprint(line.split(' ').next()?));
        let sampled = read.map(|fingerprint| Guard { fingerprint, failed_ms: None }).collect();
        Ok(Guards { file, sampled })
    }

    /// The guard for a circuit that ends at `exit`; draws others where those that are there do not do. An error tells that the
    /// file cannot be written.
    pub fn choose<'n>(
        &mut self,
        network: &'n Network,
        exit: Option<&Relay>,
        distinct_subnets: bool,
        now_ms: u64,
        random: &mut ChaCha20Rng,
    ) -> Result<Option<&'n Relay>, String> {
        let Some(current) = &network.current else { return Ok(None) };
        loop {
            let found = self.first(network, exit, distinct_subnets, now_ms);
            let listed = self.sampled.iter().filter(|guard| network.with_fingerprint(&guard.fingerprint).is_some());
            if (found.is_some() && listed.count() >= PRIMARY) || self.sampled.len() >= MOST {
                return Ok(found);
            }
            let is_new = |relay: &Relay| !self.sampled.iter().any(|guard| guard.fingerprint == relay.entry.fingerprint);
            let drawn =
                choice::draw(current, Position::Guard, random, |relay| is_possible_guard(relay) && is_new(relay));
            let Some(drawn) = drawn else { return Ok(found) };
            self.sampled.push(Guard { fingerprint: drawn.entry.fingerprint, failed_ms: None });
            self.save(network)?;
        }
    }

    fn first<'n>(&self, network: &'n Network, exit: Option<&Relay>, distinct: bool, now_ms: u64) -> Option<&'n Relay> {
        let is_up = |guard: &&Guard| guard.failed_ms.is_none_or(|failed| failed + AGAIN_MS <= now_ms);
        let known = |guard: &Guard| network.with_fingerprint(&guard.fingerprint);
        let fits =
            |relay: &&Relay| is_possible_guard(relay) && exit.is_none_or(|exit| !are_close(relay, exit, distinct));
        let up = self.sampled.iter().filter(is_up).filter_map(known).find(fits);
        // If none answers, it is this end's network that is down.
        up.or_else(|| self.sampled.iter().filter_map(known).find(fits))
    }

    /// Whether it answered.
    pub fn report(&mut self, fingerprint: &[u8; 20], answered: bool, now_ms: u64) {
        if let Some(guard) = self.sampled.iter_mut().find(|guard| guard.fingerprint == *fingerprint) {
            guard.failed_ms = (!answered).then_some(now_ms);
        }
    }

    fn save(&self, network: &Network) -> Result<(), String> {
        let mut text = String::new();
        for guard in &self.sampled {
            text += &HEXUPPER.encode(&guard.fingerprint);
            let relay = network.with_fingerprint(&guard.fingerprint);
            let _ = writeln!(text, " {}", relay.map_or("", |relay| &relay.entry.nickname));
        }
        // Whole, whenever the program ends.
        let new = self.file.with_extension("new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file));
        written.map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::{network, relay};
    use rand_core::SeedableRng;

    fn ten() -> Network {
        network((1..=10).map(|number| relay(number, |entry, _| entry.flags.guard = number > 4)).collect())
    }

    #[test]
    fn one_guard_stays_over_restarts() {
        let folder = tempfile::TempDir::new().unwrap();
        let network = ten();
        let mut first = None;
        for seed in 0..5 {
            let mut random = ChaCha20Rng::from_seed([seed; 32]);
            let mut guards = Guards::load(folder.path()).unwrap();
            let guard = guards.choose(&network, None, true, 0, &mut random).unwrap().unwrap();
            assert!(guard.entry.flags.guard && guards.sampled.len() == PRIMARY);
            assert_eq!(*first.get_or_insert(guard.entry.fingerprint), guard.entry.fingerprint);
        }
    }

    #[test]
    fn a_file_that_is_spoilt_is_read_as_far_as_it_can_be() {
        let folder = tempfile::TempDir::new().unwrap();
        fs::write(folder.path().join(FILE), [&b"\xff\xfe\n"[..], &b"AB".repeat(20), b" guard\xff\n"].concat()).unwrap();
        let read: Vec<_> = Guards::load(folder.path()).unwrap().sampled.iter().map(|guard| guard.fingerprint).collect();
        assert_eq!(read, [[0xab; 20]]);
    }

    #[test]
    fn the_next_guard_stands_in_for_one_that_fails_or_is_the_exit() {
        let folder = tempfile::TempDir::new().unwrap();
        let network = ten();
        let mut random = ChaCha20Rng::from_seed([1; 32]);
        let mut guards = Guards::load(folder.path()).unwrap();
        let mut choose = |guards: &mut Guards, exit: Option<&Relay>, now_ms| {
            guards.choose(&network, exit, true, now_ms, &mut random).unwrap().unwrap()
        };
        let first = choose(&mut guards, None, 0);
        let second = choose(&mut guards, Some(first), 0);
        assert_ne!(first.entry.fingerprint, second.entry.fingerprint);
        guards.report(&first.entry.fingerprint, false, 5);
        assert!(choose(&mut guards, None, 6) == second);
        assert!(choose(&mut guards, None, 5 + AGAIN_MS) == first, "it is tried again");
        guards.report(&first.entry.fingerprint, false, 5 + AGAIN_MS);
        guards.report(&first.entry.fingerprint, true, 6 + AGAIN_MS);
        assert!(choose(&mut guards, None, 7 + AGAIN_MS) == first);
    }
}
