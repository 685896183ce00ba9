//! Ranges of memory that a process has locked, mlock(2). Nothing is ever swapped, so they are kept for those that ask: limits, totals,
//! and calls that refuse locked memory.

/// Sorted ranges `[start, end)` without overlaps.
#[derive(Clone, Debug, Default)]
pub struct LockedRanges {
    ranges: Vec<(u64, u64)>,
    /// mlockall(MCL_FUTURE): what is mapped from now on is locked too.
    pub future: bool,
}

impl LockedRanges {
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.remove(start, end);
        let at = self.ranges.partition_point(|range| range.0 < start);
        self.ranges.insert(at, (start, end));
    }

    pub fn remove(&mut self, start: u64, end: u64) {
        if self.ranges.is_empty() {
            return;
        }
        let cut = |range: (u64, u64)| [(range.0, range.1.min(start)), (range.0.max(end), range.1)];
        self.ranges =
            std::mem::take(&mut self.ranges).into_iter().flat_map(cut).filter(|part| part.0 < part.1).collect();
    }

    pub fn clear(&mut self) {
        *self = LockedRanges::default();
    }

    /// The locked parts of a range, in order.
    pub fn parts(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let cut = move |range: &(u64, u64)| (range.0.max(start), range.1.min(end));
        self.ranges.iter().map(cut).filter(|part| part.0 < part.1)
    }

    /// Locked bytes in a range.
    pub fn within(&self, start: u64, end: u64) -> u64 {
        self.parts(start, end).map(|part| part.1 - part.0).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.within(0, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_once_and_cut() {
        let mut locked = LockedRanges::default();
        locked.add(0x3000, 0x5000);
        locked.add(0x1000, 0x4000);
        assert_eq!(locked.bytes(), 0x4000);
        locked.remove(0x2000, 0x3000);
        assert_eq!((locked.bytes(), locked.within(0x2000, 0x4000)), (0x3000, 0x1000));
        assert_eq!(locked.within(0x2000, 0x3000), 0);
        assert!(locked.parts(0x1800, 0x3800).eq([(0x1800, 0x2000), (0x3000, 0x3800)]));
    }
}
