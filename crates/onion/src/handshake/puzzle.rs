//! A puzzle before ntor: what a circuit costs its client, so that nobody can afford thousands of them (Barbera and others, "CellFlood: Attacking
//! Tor Onion Routers on the Cheap", ESORICS 2013). A private extension; `docs/attacks.md` has its format.
//!
//! The handshake's data are a head and ntor's request. The head is solved when SHA-256 of [`PROTOCOL`], the head and the request begins with a
//! number of 64 bits whose product with the effort is below 2^64, so it takes as many attempts as the effort says, on average. The request names
//! the relay, its onion key and a fresh key of the client, so a solution is good for one relay and one circuit. Relays remember requests for as
//! long as a solution could be accepted.

use super::ntor;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Names the handshake in CREATE2 and EXTEND2; of those that the specification leaves alone.
pub const NUMBER: u16 = 0x6701;
const PROTOCOL: &[u8] = b"gnomon-puzzle-1";

/// When it was solved (seconds since 1970, 4 bytes), the effort (4), and what makes it right (8), all of them big-endian.
const HEAD: usize = 16;
pub const REQUEST: usize = HEAD + ntor::REQUEST;

/// How far a solution's time may be from the relay's, in seconds.
pub const PATIENCE_S: u64 = 600;

/// Puts a solved puzzle before ntor's request; how many attempts that took.
pub fn solve(request: &[u8; ntor::REQUEST], effort: u32, now_s: u64) -> ([u8; REQUEST], u64) {
    let mut whole = [0; REQUEST];
    whole[..4].copy_from_slice(&(now_s as u32).to_be_bytes());
    whole[4..8].copy_from_slice(&effort.to_be_bytes());
    whole[HEAD..].copy_from_slice(request);
    for nonce in 0.. {
        whole[8..HEAD].copy_from_slice(&u64::to_be_bytes(nonce));
        if is_solved(&whole, effort) {
            return (whole, nonce + 1);
        }
    }
    unreachable!("2^64 attempts")
}

fn is_solved(whole: &[u8; REQUEST], effort: u32) -> bool {
    let digest = Sha256::new().chain_update(PROTOCOL).chain_update(whole).finalize();
    let number = u64::from_be_bytes(*digest.first_chunk().expect("32 bytes"));
    number.checked_mul(effort.into()).is_some()
}

/// A request's last bytes, which are the client's fresh key.
type Key = [u8; 32];

/// What a relay has taken of late, so that each request pays for itself.
#[derive(Debug, Default)]
pub struct Taken {
    /// Requests, whatever time their solutions claimed, and until when they are remembered, in seconds since 1970.
    requests: BTreeSet<Key>,
    until: BTreeSet<(u64, Key)>,
}

impl Taken {
    /// Ntor's request behind a puzzle that cost this effort at least and is of now, if the request was not taken before.
    pub fn take<'a>(&mut self, data: &'a [u8], effort: u32, now_s: u64) -> Option<&'a [u8]> {
        let whole: &[u8; REQUEST] = data.try_into().ok()?;
        let number = |at: usize| u32::from_be_bytes(whole[at..at + 4].try_into().expect("4 bytes"));
        let (solved_s, claimed) = (u64::from(number(0)), number(4));
        if claimed < effort || solved_s.abs_diff(now_s) > PATIENCE_S || !is_solved(whole, claimed) {
            return None;
        }
        while let Some((_, key)) = self.until.first().copied().filter(|(until, _)| *until < now_s) {
            self.until.pop_first();
            self.requests.remove(&key);
        }
        let key = *whole.last_chunk().expect("32 bytes");
        // A solution may be of as much later, and is good for as long from then on.
        let is_new = self.requests.insert(key);
        if is_new {
            self.until.insert((now_s + 2 * PATIENCE_S, key));
        }
        is_new.then_some(&data[HEAD..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 946_684_800;

    #[test]
    fn a_solution_is_good_once_for_its_request_and_for_a_time() {
        let request = [7; ntor::REQUEST];
        let (solved, _) = solve(&request, 500, NOW_S);
        let mut taken = Taken::default();
        assert_eq!(taken.take(&solved, 501, NOW_S), None, "it cost less");
        assert_eq!(taken.take(&solved, 500, NOW_S + PATIENCE_S + 1), None, "it is old");
        assert_eq!(taken.take(&solved[1..], 500, NOW_S), None);
        assert_eq!(taken.take(&solved, 500, NOW_S + PATIENCE_S), Some(&request[..]));
        assert_eq!(taken.take(&solved, 500, NOW_S), None, "it was taken");
        let mut other = solved;
        other[REQUEST - 1] ^= 1;
        assert_eq!(taken.take(&other, 500, NOW_S), None, "it is another request's");
        // Without a price any number will do.
        let free = [8; ntor::REQUEST];
        assert_eq!(taken.take(&solve(&free, 0, NOW_S + 1).0, 0, NOW_S), Some(&free[..]));
    }

    #[test]
    fn a_request_is_taken_once_whatever_time_its_solution_names() {
        let mut taken = Taken::default();
        let request = [7; ntor::REQUEST];
        let mut take = |solved_s: u64, now_s| taken.take(&solve(&request, 10, solved_s).0, 10, now_s).is_some();
        assert!(take(NOW_S, NOW_S));
        assert!(!take(NOW_S, NOW_S) && !take(NOW_S + 1, NOW_S) && !take(NOW_S - 600, NOW_S));
        assert!(!take(NOW_S + 600, NOW_S + 1200), "it is still remembered");
        assert!(take(NOW_S + 1201, NOW_S + 1201), "and paid for anew");
        assert_eq!((taken.requests.len(), taken.until.len()), (1, 1));
    }

    #[test]
    fn the_effort_is_the_mean_of_attempts() {
        let attempts: u64 = (0..200).map(|key| solve(&[key; ntor::REQUEST], 50, NOW_S).1).sum();
        assert!((7_000..14_000).contains(&attempts), "{attempts}");
    }

    #[test]
    fn what_was_taken_is_forgotten_when_its_time_is_over() {
        let mut taken = Taken::default();
        for second in 0..5000 {
            let mut request = [1; ntor::REQUEST];
            request[60..68].copy_from_slice(&u64::to_be_bytes(second));
            let (solved, _) = solve(&request, 1, NOW_S + second);
            assert!(taken.take(&solved, 1, NOW_S + second).is_some());
        }
        assert!(taken.requests.len() <= 2 * PATIENCE_S as usize + 1);
        assert_eq!(taken.requests.len(), taken.until.len());
    }
}
