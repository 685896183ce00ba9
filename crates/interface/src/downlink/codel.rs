//! CoDel (RFC 8289) for a queue whose service times are known: a packet's fate is decided when it arrives.
//!
//! The queue is first in, first out before a line of known rate. So the moment at which a packet will be taken out, and how
//! long it will have stood, follow from what came before it, and so does everything that CoDel's state depends on. One thing
//! does not: the rule that a queue of at most one MTU is never dropped from. In its place TARGET is at least the time of one
//! MTU on the line, as fq_codel users are told to set it for slow lines: a packet that waits for one other is no standing queue.

use base::{Bandwidth, SimDuration, SimTime};

/// The acceptable standing delay. RFC 8289 recommends 5 ms; Shadow 3 uses 10 ms, and experiments rely on it.
const TARGET: SimDuration = SimDuration::from_millis(10);
/// The time within which a standing queue must have shown itself: RFC 8289's 100 ms.
const INTERVAL: SimDuration = SimDuration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Codel {
    target: SimDuration,
    /// Set while the delay has been above the target: when that will have lasted for an interval.
    first_above: Option<SimTime>,
    dropping: bool,
    drop_next: SimTime,
    count: u64,
    last_count: u64,
}

impl Codel {
    pub(crate) fn new(rate: Bandwidth) -> Self {
        Codel {
            target: TARGET.max(rate.transmission_time(crate::wire::MTU_BYTES)),
            first_above: None,
            dropping: false,
            drop_next: SimTime::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Whether the packet that is taken out at `now` after having stood for `sojourn` is dropped (RFC 8289 section 5, `deque`).
    pub(crate) fn drops(&mut self, now: SimTime, sojourn: SimDuration) -> bool {
        let ok_to_drop = self.ok_to_drop(now, sojourn);
        if !ok_to_drop {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.enter_drop_state(now);
            return true;
        }
        if now < self.drop_next {
            return false;
        }
        self.count += 1;
        self.drop_next = control_law(self.drop_next, self.count);
        true
    }

    /// RFC 8289 section 5, `dodequeue`: the delay has been above the target for an interval.
    fn ok_to_drop(&mut self, now: SimTime, sojourn: SimDuration) -> bool {
        if sojourn < self.target {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + INTERVAL)
    }

    /// "If min went above TARGET close to when it last went below, assume that the drop rate that controlled the queue on
    /// the last cycle is a good starting point."
    fn enter_drop_state(&mut self, now: SimTime) {
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_since(self.drop_next) < INTERVAL.saturating_mul(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = control_law(now, self.count);
        self.dropping = true;
    }
}

/// t + INTERVAL / sqrt(count), in integers.
fn control_law(t: SimTime, count: u64) -> SimTime {
    let interval = INTERVAL.as_nanos();
    t + SimDuration::from_nanos((interval * interval / count.max(1)).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> SimTime {
        SimTime::from_nanos(n * 1_000_000)
    }

    fn codel() -> Codel {
        Codel::new(Bandwidth::from_bits_per_sec(1_000_000_000))
    }

    #[test]
    fn a_short_burst_above_the_target_is_let_through() {
        let mut codel = codel();
        for t in 0..99 {
            assert!(!codel.drops(ms(t), SimDuration::from_millis(50)), "at {t} ms");
        }
        assert!(!codel.drops(ms(99), SimDuration::from_millis(9)));
        assert!(!codel.drops(ms(150), SimDuration::from_millis(50)));
    }

    #[test]
    fn a_standing_queue_is_dropped_from_ever_faster() {
        let mut codel = codel();
        let drops: Vec<u64> = (0..1_000).filter(|&t| codel.drops(ms(t), SimDuration::from_millis(20))).collect();
        // INTERVAL after the start, then INTERVAL / sqrt(n) apart, n = 1, 2, 3 (each rounded up to the next packet).
        assert_eq!(drops[..5], [100, 200, 271, 329, 379]);
        let gaps: Vec<u64> = drops.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.windows(2).all(|w| w[1] <= w[0] + 1), "{gaps:?}");
    }

    #[test]
    fn dropping_ends_when_the_delay_does_and_resumes_at_the_old_rate() {
        let mut codel = codel();
        let count = |codel: &mut Codel, from: u64, to: u64| {
            (from..to).filter(|&t| codel.drops(ms(t), SimDuration::from_millis(20))).count()
        };
        let first = count(&mut codel, 0, 1_000);
        assert!(!codel.drops(ms(1_000), SimDuration::from_millis(1)));
        let again = count(&mut codel, 1_001, 2_001);
        assert!(again > first, "{first} drops, then {again}: the rate was not remembered");
    }

    #[test]
    fn a_slow_line_may_hold_one_packet() {
        let mut slow = Codel::new(Bandwidth::from_bits_per_sec(100_000));
        assert!((0..10_000).all(|t| !slow.drops(ms(t), SimDuration::from_millis(119))));
    }
}
