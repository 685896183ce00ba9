//! Which circuit takes which of a channel's connections (IMUX, section 4.2): dealt out in turn, as far as they have none, or by EWMA mapping,
//! in which circuits that send little go to connections that send little.

use super::Recent;
use std::cmp::Ordering;

/// For each circuit, by its place in `circuits`, the place of its connection in `connections`: both are ranked by what they have sent of
/// late, and the circuit of rank r of n goes to the connection of rank j of m with (j − 1)/m < r/n ≤ j/m. Of equals, the former is before
/// the latter.
///
/// # Panics
/// If there are circuits and no connection.
pub fn map(circuits: &[Recent], connections: &[Recent]) -> Vec<usize> {
    let (ranked, by_rank) = (order(circuits), order(connections));
    let mut to = vec![0; circuits.len()];
    for (rank, circuit) in (1..).zip(ranked) {
        // The smallest j with rank · m ≤ j · n.
        let at = (rank * connections.len()).div_ceil(circuits.len());
        to[circuit] = by_rank[at - 1];
    }
    to
}

/// Places, of who has sent least first.
fn order(recent: &[Recent]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..recent.len()).collect();
    places.sort_by(|a, b| match recent[*a].compare(recent[*b]) {
        Ordering::Equal => a.cmp(b),
        other => other,
    });
    places
}

/// Deals circuits to so many connections, so that no connection has two circuits more than another. `before` is what each circuit had, by its
/// place: it keeps it where that is possible, since cells of a circuit that changes its connection have to wait for one another.
///
/// # Panics
/// If there are circuits and no connection, or one of `before` is none of the connections.
pub fn deal(before: &[Option<usize>], connections: usize) -> Vec<usize> {
    let (least, with_one_more) = match connections {
        0 => (0, 0),
        _ => (before.len() / connections, before.len() % connections),
    };
    let mut had = vec![0; connections];
    before.iter().flatten().for_each(|at| had[*at] += 1);
    // Those that had most may keep one more than the others; of equals the former.
    let mut fullest: Vec<usize> = (0..connections).collect();
    fullest.sort_by_key(|at| (std::cmp::Reverse(had[*at]), *at));
    let mut room = vec![least; connections];
    fullest.iter().take(with_one_more).for_each(|at| room[*at] += 1);
    let mut keep = |at: usize| {
        let has_room = room[at] > 0;
        room[at] -= usize::from(has_room);
        has_room.then_some(at)
    };
    let kept: Vec<Option<usize>> = before.iter().map(|before| before.and_then(&mut keep)).collect();
    let mut next = 0;
    let mut in_turn = || {
        let at = (0..connections).map(|step| (next + step) % connections).find(|at| room[*at] > 0);
        let at = at.expect("there is room for all");
        room[at] -= 1;
        next = at + 1;
        at
    };
    kept.into_iter().map(|kept| kept.unwrap_or_else(&mut in_turn)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuits_are_dealt_in_turn_and_keep_what_they_have() {
        assert_eq!(deal(&[None; 5], 2), [0, 1, 0, 1, 0]);
        assert_eq!(deal(&[Some(2), None, Some(0)], 4), [2, 1, 0]);
        // One connection more takes what is too much elsewhere, and nothing else moves.
        assert_eq!(deal(&[Some(0), Some(1), Some(0), Some(1)], 3), [0, 1, 0, 2]);
        // One is gone, and its circuits go to the others.
        assert_eq!(deal(&[Some(0), None, Some(1), None], 2), [0, 0, 1, 1]);
        assert_eq!(deal(&[Some(1); 3], 1 + 1), [1, 1, 0]);
        assert!(deal(&[], 0).is_empty() && deal(&[], 3).is_empty());
    }

    fn sent(cells: &[usize]) -> Vec<Recent> {
        cells
            .iter()
            .map(|cells| {
                let mut recent = Recent::default();
                (0..*cells).for_each(|_| recent.add_cell(0));
                recent
            })
            .collect()
    }

    #[test]
    fn the_quiet_share_quiet_connections() {
        let circuits = sent(&[900, 1, 30, 2]);
        assert_eq!(map(&circuits, &sent(&[500, 10])), [0, 1, 0, 1]);
        assert_eq!(map(&circuits, &sent(&[5])), [0, 0, 0, 0]);
        assert_eq!(map(&circuits, &sent(&[9, 8, 7, 6])), [0, 3, 1, 2]);
    }

    #[test]
    fn with_more_connections_than_circuits_the_loudest_has_the_loudest() {
        // 1/2 lies in (2/4, 3/4]'s lower neighbour: ranks 2 and 4 of four connections.
        assert_eq!(map(&sent(&[1, 5]), &sent(&[1, 2, 3, 4])), [1, 3]);
        assert!(map(&[], &sent(&[1])).is_empty());
    }
}
