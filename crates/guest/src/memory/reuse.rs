//! Whether a process maps again and again what it has just given up: large blocks of `malloc`, buffers of an event loop, the heap's end.
//!
//! On Linux what is given up faults at once, and so it does here, at the price of a call of the real kernel (`access`). A process that
//! has mapped anew often enough what it had just given up is *warm*. What it gives up then stays as it is for some more of its calls, and
//! is cleared by hand, as far as it was touched (`touched_pages`), when it is mapped again; and what it maps stays closed until it is touched.
//! So a loop that maps, touches a part and gives up makes no call that changes a map. Now and then what it maps is closed anew, so that
//! what is open of it is little where it touches little. A fault of its own ends that: who meets one may look for more. Everything follows
//! from what the process itself does: runs do not depend on it.

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
/// After the real kernel was asked so often, what is mapped again is closed until it is touched; and so often while that brings nothing.
const ASKED: u32 = 24;
const VAIN_CLOSINGS: u8 = 3;
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
    /// How often the real kernel was asked what the process has touched.
    asked: u32,
    /// How often something was closed since it last turned out that much of that stays so.
    vain: u8,
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

    /// The real kernel is about to be asked what was touched: whether the memory is to be closed instead, and so show it the next time.
    pub(super) fn closes_anew(&mut self) -> bool {
        self.asked = self.asked.wrapping_add(1);
        let closes = self.vain < VAIN_CLOSINGS && self.asked.is_multiple_of(ASKED);
        self.vain += u8::from(closes);
        closes
    }

    /// Much of what is given up was never opened.
    pub(super) fn stayed_closed(&mut self) {
        self.vain = 0;
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
    fn who_touches_everything_has_little_closed() {
        let mut reuse = Reuse::default();
        let closings = |reuse: &mut Reuse| (0..1000).filter(|_| reuse.closes_anew()).count();
        assert_eq!(closings(&mut reuse), usize::from(VAIN_CLOSINGS));
        reuse.stayed_closed();
        assert_eq!(closings(&mut reuse), usize::from(VAIN_CLOSINGS));
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
