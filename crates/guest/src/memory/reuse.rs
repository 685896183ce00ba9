//! Whether a process maps again and again what it has just given up: large blocks of `malloc`, buffers of an event loop, the heap's end.
//!
//! On Linux what is given up faults at once, and so it does here, at the price of a call of the real kernel (`access`). A process that
//! has mapped anew often enough what it had just given up is *warm*. What it gives up then stays as it is for some more of its calls, and
//! is cleared by hand, as far as it was touched (`touched_pages`), when it is mapped again; and what it maps stays closed until it is touched.
//! So a loop that maps, touches a part and gives up makes no call that changes a map. A fault ends that: who meets one may look for more. Everything follows from what the process itself does:
//! runs do not depend on it.

/// So many mappings in what was just given up, without many others, make a process warm.
const WARM: u16 = 200;
const WARMEST: u16 = 400;
/// What was given up is remembered for that many times.
const REMEMBERED: usize = 8;
/// After so many calls that map or give up memory, what was not mapped again faults.
const KEPT_CALLS: u32 = 256;
/// As often it is looked for.
const LOOK_CALLS: u32 = 64;
/// After so many waits without a call that maps or gives up memory, everything faults that should.
const IDLE_WAITS: u32 = 16;
/// What a warm process may keep of what it gave up in memory, in bytes.
pub(super) const KEPT_BYTES: u64 = 4 << 20;

/// What a process does with its addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Reuse {
    /// Calls that mapped or gave up something.
    calls: u32,
    warmth: u16,
    last: [(u64, u64); REMEMBERED],
    next: usize,
    looked: u32,
    /// Waits since the last of those calls.
    waits: u32,
}

impl Reuse {
    pub(super) fn is_warm(&self) -> bool {
        self.warmth >= WARM
    }

    /// A number for what is given up now.
    pub(super) fn now(&self) -> u32 {
        self.calls
    }

    pub(super) fn mapped(&mut self, start: u64, end: u64) {
        (self.calls, self.waits) = (self.calls.wrapping_add(1), 0);
        let mut again = false;
        for range in self.last.iter_mut().filter(|range| range.0 < end && start < range.1) {
            (*range, again) = ((0, 0), true);
        }
        self.warmth = if again { (self.warmth + 1).min(WARMEST) } else { self.warmth.saturating_sub(1) };
    }

    pub(super) fn gave_up(&mut self, start: u64, end: u64) {
        (self.calls, self.waits) = (self.calls.wrapping_add(1), 0);
        self.last[self.next] = (start, end);
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// Whether it is time to look for what has not been mapped again.
    pub(super) fn looks(&mut self) -> bool {
        let looks = self.is_warm() && self.calls.wrapping_sub(self.looked) >= LOOK_CALLS;
        if looks {
            self.looked = self.calls;
        }
        looks
    }

    /// Whether what was given up at the call number `since` is expected to be mapped again.
    pub(super) fn expects(&self, since: u32) -> bool {
        self.calls.wrapping_sub(since) < KEPT_CALLS
    }

    /// Something was not mapped again.
    pub(super) fn mistaken(&mut self) {
        self.warmth /= 2;
    }

    /// The process met a fault, and may look for more.
    pub(super) fn cool(&mut self) {
        self.warmth = 0;
    }

    /// The process waits: whether it has stopped to map memory.
    pub(super) fn waits(&mut self) -> bool {
        self.waits = self.waits.saturating_add(1);
        self.waits == IDLE_WAITS && self.is_warm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_maps_again_is_warm_and_who_does_not_cools_down() {
        let mut reuse = Reuse::default();
        for round in 0..u64::from(WARM) {
            assert!(!reuse.is_warm(), "{round}");
            reuse.gave_up(4096 * round, 4096 * (round + 3));
            reuse.mapped(4096 * round, 4096 * (round + 2));
        }
        assert!(reuse.is_warm());
        // One that was given up counts once.
        reuse.mapped(0, 4096);
        assert!(!reuse.is_warm());
    }

    #[test]
    fn what_is_kept_is_looked_for_after_many_calls_or_many_waits() {
        let mut reuse = Reuse { warmth: WARMEST, ..Reuse::default() };
        let since = reuse.now();
        let looks = (0..KEPT_CALLS).filter(|_| {
            reuse.gave_up(0, 4096);
            reuse.mapped(0, 4096);
            reuse.looks()
        });
        assert_eq!(looks.count() as u32, 2 * KEPT_CALLS / LOOK_CALLS);
        assert!(!reuse.expects(since) && reuse.expects(reuse.now()));
        let idle = (0..100).filter(|_| reuse.waits());
        assert_eq!(idle.count(), 1);
        reuse.mistaken();
        assert!(reuse.is_warm());
        reuse.mistaken();
        assert!(!reuse.is_warm());
    }
}
