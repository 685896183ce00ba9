//! Calls in a row, without a wait in between, and the time that many of them take.
//!
//! A loop that looks at a clock, or asks again and again whether something has come, waits for time to pass; but time stands still as
//! long as somebody on the host can go on. So calls are free up to a number that programs with a purpose seldom make; after that each
//! is taken to cost a microsecond, and the thread sleeps off what has gathered, often enough that what it waits for is noticed
//! soon: within a sixteenth of the time that it has waited.
//!
//! Time that passes, or a call that waits, is no help to who needs a mutex if each time the mutex is held: programs take a free one without a call.
//! So some of the calls that let one go let the woken thread run at once, as a second processor would.

use crate::ids::Tid;
use base::SimDuration;

/// Free calls of a thread that does not wait.
const OF_A_THREAD: u64 = 20_000;
/// Free calls of all threads of a host at one moment: they can wake each other for ever.
const OF_A_HOST: u64 = 100_000;
/// Free yields in a row: what a thread waits for may come from any other thread of its host, which takes no time.
const YIELDS: u64 = 100;
/// What one call costs after that, Shadow's `unblocked_syscall_latency`.
const COST: SimDuration = SimDuration::from_micros(1);
/// Calls whose time gathers before it passes: at least, at most, and as a part of all that have taken theirs.
const SHORTEST: u64 = 10;
const LONGEST: u64 = 200;
const PART: u64 = 16;

/// Of so many wakes, one lets the woken run at once. Natively a waiter gets a mutex that is free for an instant at the 2nd to 25th attempt (a
/// loop that sleeps with the mutex held, two processors).
const ONE_WAKE_IN: u64 = 8;

/// The same of a thread that was let run by such a wake, and has work of its own until it waits.
const ONE_SELDOM_WAKE_IN: u64 = 64;

/// Calls in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spree {
    pub(crate) calls: u64,
    /// Those that were free or have taken their time.
    settled: u64,
    /// Those that have taken time.
    charged: u64,
    /// The number of calls at which time passes next.
    next: u64,
    /// Where in the sequence of variations it is.
    salt: u32,
}

impl Spree {
    const fn with_free(calls: u64) -> Spree {
        Spree { calls: 0, settled: calls, charged: 0, next: calls + SHORTEST, salt: 0 }
    }

    pub(crate) const fn of_thread() -> Spree {
        Spree::with_free(OF_A_THREAD)
    }

    pub(crate) const fn of_host() -> Spree {
        Spree::with_free(OF_A_HOST)
    }

    /// Yields of the thread of this number: threads that yield together must not sleep for the same times, or none is ever alone.
    pub(crate) const fn of_yields(tid: Tid) -> Spree {
        Spree { salt: tid.0, ..Spree::with_free(YIELDS) }
    }

    /// How many calls more until time passes; 0 when it is to pass now.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.next.saturating_sub(self.calls)
    }

    /// Whether there are calls that have not taken their time.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.calls > self.settled
    }

    /// The time that passes until time would pass, as if the calls up to then had been made.
    pub(crate) fn charge_ahead(&mut self) -> SimDuration {
        self.calls = self.calls.max(self.next);
        self.charge()
    }

    /// The time that passes now, for the calls that have not taken theirs.
    pub(crate) fn charge(&mut self) -> SimDuration {
        let calls = self.calls - self.settled;
        self.settled = self.calls;
        self.charged += calls;
        self.next = self.calls
            + varied((self.charged / PART).clamp(SHORTEST, LONGEST), self.charged ^ u64::from(self.salt) << 32);
        COST.saturating_mul(calls)
    }
}

/// Up to an eighth less, as a fixed sequence of `seed` has it: a loop that takes a lock and lets it go would otherwise sleep at the same of
/// its calls for ever, perhaps with the lock.
fn varied(calls: u64, seed: u64) -> u64 {
    calls - scattered(seed) % (calls / 8 + 1)
}

/// A number of 32 bits that looks like chance.
fn scattered(seed: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = seed.wrapping_add(1).wrapping_mul(ODD);
    (first ^ first >> 29).wrapping_mul(ODD) >> 32
}

/// Wakes of a thread that found somebody.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakes(u32);

impl Wakes {
    /// Counts one: whether who is woken runs before the thread that wakes goes on. One in eight does, by no pattern: a loop that lets go of
    /// several mutexes in turn would otherwise give way at one of them for ever.
    pub(crate) fn lets_run(&mut self) -> bool {
        self.is_one_in(ONE_WAKE_IN)
    }

    /// The same for one wake in 64.
    pub(crate) fn seldom_lets_run(&mut self) -> bool {
        self.is_one_in(ONE_SELDOM_WAKE_IN)
    }

    fn is_one_in(&mut self, wakes: u64) -> bool {
        self.0 = self.0.wrapping_add(1);
        scattered(self.0.into()).is_multiple_of(wakes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The times that pass for a thread which makes so many calls, in microseconds, and the number of calls before each.
    fn pauses(mut spree: Spree, calls: u64) -> Vec<(u64, u64)> {
        let mut pauses = Vec::new();
        for _ in 0..calls {
            spree.calls += 1;
            if spree.left() == 0 {
                pauses.push((spree.calls, spree.charge().as_nanos() / 1000));
            }
        }
        pauses
    }

    #[test]
    fn calls_are_free_at_first_and_then_take_their_time() {
        assert_eq!(pauses(Spree::of_thread(), 20_009), []);
        let first = pauses(Spree::of_thread(), 20_025);
        assert_eq!(first[0], (20_010, 10));
        assert!((19..=20).contains(&(first[1].0 - 20_000)), "{first:?}");
        assert_eq!(pauses(Spree::of_yields(Tid(1000)), 115), [(110, 10)]);
        let long = pauses(Spree::of_host(), 1_100_000);
        let all: u64 = long.iter().map(|pause| pause.1).sum();
        assert!((999_800..=1_000_000).contains(&all), "a microsecond each: {all}");
    }

    #[test]
    fn pauses_grow_with_the_time_that_has_passed() {
        let mut passed = 0;
        for (calls, time) in pauses(Spree::of_thread(), 40_000) {
            assert!(time <= (passed / 16).clamp(SHORTEST, LONGEST), "{time} us at call {calls}");
            passed += time;
        }
        let late: BTreeSet<u64> = pauses(Spree::of_thread(), 60_000).iter().skip(200).map(|pause| pause.1).collect();
        assert!(late.len() > 20 && late.first() > Some(&170) && late.last() <= Some(&LONGEST), "{late:?}");
    }

    #[test]
    fn calls_that_change_nothing_need_not_be_made() {
        let (mut made, mut ahead) = (Spree::of_yields(Tid(1000)), Spree::of_yields(Tid(1000)));
        let mut times = (0, 0);
        let mut skipped = 0;
        for _ in 0..67_000 {
            made.calls += 1;
            if made.left() == 0 {
                times.0 += made.charge().as_nanos();
            }
        }
        while times.1 < times.0 {
            skipped += 1;
            ahead.calls += 1;
            if ahead.owes() {
                times.1 += ahead.charge_ahead().as_nanos();
            }
        }
        assert_eq!(times.0, times.1, "the same times, one after the other");
        assert!(skipped < 700, "{skipped} yields for 67 ms");
    }

    #[test]
    fn one_wake_in_eight_lets_the_woken_run_in_no_pattern() {
        let mut wakes = Wakes::default();
        let ran: Vec<u32> = (1..=8000).filter(|_| wakes.lets_run()).collect();
        assert!((800..1200).contains(&ran.len()), "{}", ran.len());
        for period in 2..=16 {
            let at: BTreeSet<u32> = ran.iter().map(|wake| wake % period).collect();
            assert_eq!(at.len(), period as usize, "of a loop of {period} wakes each has its turn");
        }
        assert!(ran.windows(2).all(|pair| pair[1] - pair[0] < 100), "nobody waits for long");
    }
}
