//! EWMA mapping: circuits that send little go to connections that send little (IMUX, section 4.2).

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

#[cfg(test)]
mod tests {
    use super::*;

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
