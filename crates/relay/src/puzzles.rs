//! Puzzles that clients have solved for their circuits: each request pays for one.

use onion::handshake::puzzle::{PATIENCE_S, Taken};
use std::collections::BTreeSet;

/// A request's last bytes, which are the client's fresh key.
type Key = [u8; 32];

/// What was taken of late.
#[derive(Debug, Default)]
pub struct Puzzles {
    solutions: Taken,
    /// Requests, whatever time their solutions claimed, and until when they are remembered, in seconds since 1970.
    requests: BTreeSet<Key>,
    until: BTreeSet<(u64, Key)>,
}

impl Puzzles {
    /// Ntor's request behind a puzzle that cost this effort at least, if neither was taken before.
    pub fn take<'a>(&mut self, data: &'a [u8], effort: u32, now_s: u64) -> Option<&'a [u8]> {
        let request = self.solutions.take(data, effort, now_s)?;
        while let Some((_, key)) = self.until.first().copied().filter(|(until, _)| *until < now_s) {
            self.until.pop_first();
            self.requests.remove(&key);
        }
        let key = *request.last_chunk()?;
        // A solution may be of as much later, and is good for as long from then on.
        let is_new = self.requests.insert(key);
        if is_new {
            self.until.insert((now_s + 2 * PATIENCE_S, key));
        }
        is_new.then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onion::handshake::ntor::REQUEST;
    use onion::handshake::puzzle::solve;

    const NOW_S: u64 = 946_684_800;

    #[test]
    fn a_request_is_taken_once_whatever_time_its_solution_names() {
        let mut puzzles = Puzzles::default();
        let request = [7; REQUEST];
        let mut take = |solved_s: u64, now_s| puzzles.take(&solve(&request, 10, solved_s).0, 10, now_s).is_some();
        assert!(take(NOW_S, NOW_S));
        assert!(!take(NOW_S, NOW_S) && !take(NOW_S + 1, NOW_S) && !take(NOW_S - 600, NOW_S));
        assert!(!take(NOW_S + 600, NOW_S + 1200), "it is still remembered");
        assert!(take(NOW_S + 1201, NOW_S + 1201), "and paid for anew");
        assert_eq!((puzzles.requests.len(), puzzles.until.len()), (1, 1));
    }
}
