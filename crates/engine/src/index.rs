//! When each host of one home worker has its next event, so that a round costs as much as it has active hosts.
//!
//! Two trees of minima, eight children to a node (a cache line): one over the times of next events, which gives the window's
//! start, and one over the window starts from which on a host is due. Host `h` is due in the window that begins at `T` when
//! `next(h) < T + lookahead(h)`, that is `next(h) - lookahead(h) < T`; the second tree holds that difference, shifted by the
//! largest lookahead to stay positive.

/// Nanoseconds; `u64::MAX` for "never". Times of events and of windows stay below [`TIME_LIMIT_NS`].
pub type Nanos = u64;
pub const NEVER: Nanos = u64::MAX;
/// 146 years: sums of a time and a lookahead never overflow below it.
pub const TIME_LIMIT_NS: Nanos = 1 << 62;

/// Owned by the home worker; hosts are named by their place among its hosts.
#[derive(Debug)]
pub struct DueIndex {
    next: MinTree,
    due: MinTree,
    /// Per host: largest lookahead minus its own.
    shift: Vec<Nanos>,
    largest_lookahead: Nanos,
}

impl DueIndex {
    /// All hosts idle. Lookaheads are capped at [`TIME_LIMIT_NS`].
    pub fn new(lookaheads: impl Iterator<Item = Nanos>) -> Self {
        let mut shift: Vec<Nanos> = lookaheads.map(|l| l.min(TIME_LIMIT_NS)).collect();
        let largest_lookahead = shift.iter().copied().max().unwrap_or(0);
        for value in &mut shift {
            *value = largest_lookahead - *value;
        }
        let count = shift.len();
        DueIndex { next: MinTree::new(count), due: MinTree::new(count), shift, largest_lookahead }
    }

    /// Host `local` has its next event at `next`.
    pub fn set(&mut self, local: usize, next: Nanos) {
        if self.next.get(local) != next {
            self.next.set(local, next);
            self.due.set(local, next.saturating_add(self.shift[local]));
        }
    }

    /// Host `local` has a further event at `time`.
    pub fn lower(&mut self, local: usize, time: Nanos) {
        if time < self.next.get(local) {
            self.set(local, time);
        }
    }

    /// The earliest event of all.
    pub fn earliest(&self) -> Nanos {
        self.next.min()
    }

    /// Calls `found` with every host that is due in the window beginning at `start`, in ascending order; returns the earliest
    /// event of the others.
    pub fn due(&self, start: Nanos, mut found: impl FnMut(usize)) -> Nanos {
        let bound = start.saturating_add(self.largest_lookahead);
        let mut others = NEVER;
        self.visit(self.due.levels.len() - 1, 0, bound, &mut found, &mut others);
        others
    }

    fn visit(&self, level: usize, node: usize, bound: Nanos, found: &mut impl FnMut(usize), others: &mut Nanos) {
        let (due, next) = (&self.due.levels[level][node].0, &self.next.levels[level][node].0);
        for child in 0..FAN {
            if due[child] >= bound {
                *others = next[child].min(*others);
            } else if level == 0 {
                found(node * FAN + child);
            } else {
                self.visit(level - 1, node * FAN + child, bound, found, others);
            }
        }
    }
}

const FAN: usize = 8;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node([Nanos; FAN]);

/// `levels[0]` holds the leaves; an entry of a higher level is the minimum of one node below. The last level is one node.
#[derive(Debug)]
struct MinTree {
    levels: Vec<Vec<Node>>,
}

impl MinTree {
    fn new(count: usize) -> Self {
        let mut levels = Vec::new();
        let mut nodes = count.div_ceil(FAN).max(1);
        loop {
            levels.push(vec![Node([NEVER; FAN]); nodes]);
            if nodes == 1 {
                return MinTree { levels };
            }
            nodes = nodes.div_ceil(FAN);
        }
    }

    fn get(&self, leaf: usize) -> Nanos {
        self.levels[0][leaf / FAN].0[leaf % FAN]
    }

    fn min(&self) -> Nanos {
        let root = &self.levels[self.levels.len() - 1][0];
        least(root)
    }

    fn set(&mut self, leaf: usize, value: Nanos) {
        let (mut at, mut value) = (leaf, value);
        for level in &mut self.levels {
            let node = &mut level[at / FAN];
            let cell = &mut node.0[at % FAN];
            if *cell == value {
                return;
            }
            *cell = value;
            value = least(node);
            at /= FAN;
        }
    }
}

fn least(node: &Node) -> Nanos {
    node.0.iter().copied().fold(NEVER, Nanos::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    /// What the index must answer, from a scan over all hosts.
    fn scan(next: &[Nanos], lookaheads: &[Nanos], start: Nanos) -> (Vec<usize>, Nanos) {
        let is_due = |i: &usize| next[*i] != NEVER && next[*i] < start + lookaheads[*i];
        let due: Vec<usize> = (0..next.len()).filter(is_due).collect();
        let others = (0..next.len()).filter(|i| !is_due(i)).map(|i| next[i]).min().unwrap_or(NEVER);
        (due, others)
    }

    #[test]
    fn agrees_with_a_scan_for_every_size() {
        let mut rng = SeedTree::new(2).stream("index", "test");
        for count in [0, 1, 2, 7, 8, 9, 63, 64, 65, 513, 1000] {
            let lookaheads: Vec<Nanos> = (0..count).map(|_| 1 + rng.below(40)).collect();
            let mut next = vec![NEVER; count];
            let mut index = DueIndex::new(lookaheads.iter().copied());
            for step in 0..200 {
                for _ in 0..count.min(3) {
                    let host = rng.below(count as u64) as usize;
                    let time = if rng.below(4) == 0 { NEVER } else { step + rng.below(100) };
                    if rng.below(2) == 0 {
                        index.set(host, time);
                        next[host] = time;
                    } else {
                        index.lower(host, time);
                        next[host] = next[host].min(time);
                    }
                }
                assert_eq!(index.earliest(), next.iter().copied().min().unwrap_or(NEVER));
                let mut due = Vec::new();
                let others = index.due(step, |host| due.push(host));
                assert_eq!((due, others), scan(&next, &lookaheads, step));
            }
        }
    }

    #[test]
    fn a_host_that_nobody_can_reach_has_no_horizon() {
        let mut index = DueIndex::new([1, Nanos::MAX].into_iter());
        index.set(0, 500);
        index.set(1, TIME_LIMIT_NS - 1);
        let mut due = Vec::new();
        assert_eq!(index.due(0, |host| due.push(host)), 500);
        assert_eq!(due, [1]);
    }
}
