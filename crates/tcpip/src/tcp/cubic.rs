//! CUBIC (RFC 9438) with the arithmetic of Linux's `tcp_cubic`: integers, a clock that ticks `hz` times a second, time in units of 1/1024 s,
//! and HyStart, which ends slow start by the length of trains of acknowledgements or by growing delays.
//!
//! One difference is known: the cube root is exact here, where Linux's is within 0.2 %.

use super::controller::{Acked, Algorithm, Steering};
use base::{SimDuration, SimTime};
use std::num::NonZero;

/// beta_cubic = 0.7 (section 4.6), in 1024ths.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// C = 0.4 (section 5), in 1024ths.
const C: u64 = 410;
/// Ticks of 1/1024 s.
const CLOCK_SHIFT: u32 = 10;
/// Segments that Reno's estimate needs for each growth by one, in eighths of the window: 8 (1 + beta) / 3 (1 - beta).
const RENO_EIGHTHS: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Before the first loss the window grows by at least a twentieth in each round trip.
const FIRST_PACE: u64 = 20;

/// HyStart needs windows of this size.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements that come closer belong to one train.
const TRAIN_GAP_US: u64 = 2000;
const SAMPLES: u32 = 8;
const DELAY_LIMITS_US: (u64, u64) = (4000, 16_000);
/// The most that Linux takes a burst of the sender to delay acknowledgements.
const BURST_DELAY_US: u64 = 1000;
/// sk_gso_max_size: a burst.
const BURST_BYTES: u64 = 65_536 - 1 - 320;

#[derive(Debug)]
pub(crate) struct Cubic {
    hz: u64,
    /// Segments for each growth by one, as computed last.
    count: u64,
    /// The window before the last reduction, with fast convergence.
    last_max: u32,
    /// The window and the tick of the last computation.
    last_window: u32,
    last_tick: u64,
    /// The plateau of this epoch.
    origin: u32,
    /// Units of 1/1024 s from the epoch's begin until the window is back at the plateau.
    k: u64,
    /// The smallest round trip, in microseconds; 0 before the first.
    smallest_delay_us: u64,
    /// The tick at which this epoch of congestion avoidance began.
    epoch: Option<u64>,
    /// Acknowledged in this epoch, towards the growth of Reno's estimate.
    acked: u64,
    reno_window: u64,
    hystart: HyStart,
}

#[derive(Debug, Default)]
struct HyStart {
    /// It has ended slow start.
    found: bool,
    /// The round ends when this is acknowledged.
    end: u64,
    began_us: u64,
    last_ack_us: u64,
    smallest_us: Option<NonZero<u64>>,
    samples: u32,
}

impl Cubic {
    pub fn new(hz: u32) -> Self {
        Cubic {
            hz: u64::from(hz.max(1)),
            count: 0,
            last_max: 0,
            last_window: 0,
            last_tick: 0,
            origin: 0,
            k: 0,
            smallest_delay_us: 0,
            epoch: None,
            acked: 0,
            reno_window: 0,
            hystart: HyStart::default(),
        }
    }

    fn tick(&self, at: SimTime) -> u64 {
        self.ticks(at.as_nanos())
    }

    fn ticks(&self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    fn follow_curve(&mut self, cwnd: u32, acked: u32, tick: u64) {
        let epoch = match self.epoch {
            Some(epoch) => epoch.min(tick),
            None => {
                self.acked = acked.into();
                self.reno_window = cwnd.into();
                self.origin = cwnd.max(self.last_max);
                // K = cbrt((W_max - cwnd) / C) (section 4.2).
                let missing = u64::from(self.origin - cwnd);
                self.k = cube_root((u128::from(missing) << (10 + 3 * CLOCK_SHIFT)) / u128::from(C));
                tick
            }
        };
        self.epoch = Some(epoch);
        let delay = (self.smallest_delay_us * self.hz).div_ceil(1_000_000);
        let time = ((tick - epoch + delay) << CLOCK_SHIFT) / self.hz;
        let distance = u128::from(time.abs_diff(self.k));
        // W_cubic(t) = C (t - K)^3 + W_max.
        let change = (u128::from(C) * distance * distance * distance) >> (10 + 3 * CLOCK_SHIFT);
        let change = u64::try_from(change).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        let (origin, window) = (u64::from(self.origin), u64::from(cwnd));
        let target = if time < self.k { origin.saturating_sub(change) } else { origin + change };
        self.count = if target > window { window / (target - window) } else { 100 * window };
        if self.last_max == 0 {
            self.count = self.count.min(FIRST_PACE);
        }
    }

    /// The Reno-friendly region (section 4.3): never less than Reno with the same reduction would have.
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let window = u64::from(cwnd);
        let each = ((window * RENO_EIGHTHS) >> 3).max(1);
        if self.acked > each {
            let grown = (self.acked - 1) / each;
            self.acked -= grown * each;
            self.reno_window += grown;
        }
        if self.reno_window > window {
            self.count = self.count.min(window / (self.reno_window - window));
        }
    }
}

impl Algorithm for Cubic {
    /// Remembers the plateau, with fast convergence (section 4.7).
    fn threshold(&mut self, steering: &Steering) -> u32 {
        self.epoch = None;
        let cwnd = steering.cwnd;
        let window = u64::from(cwnd);
        self.last_max =
            if cwnd < self.last_max { (window * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32 } else { cwnd };
        (window * BETA / BETA_SCALE) as u32
    }

    /// Sections 4.4 and 4.5.
    fn segments_per_growth(&mut self, steering: &Steering, delivered: u32, now: SimTime) -> u32 {
        let cwnd = steering.cwnd;
        let tick = self.tick(now);
        self.acked += u64::from(delivered);
        let again = self.last_window == cwnd && self.count > 0;
        if again && tick.saturating_sub(self.last_tick) <= self.hz / 32 {
            return clamp(self.count);
        }
        // Once for each tick at most, unless there was a reduction.
        if self.epoch.is_none() || tick != self.last_tick {
            (self.last_window, self.last_tick) = (cwnd, tick);
            self.follow_curve(cwnd, delivered, tick);
        }
        self.keep_up_with_reno(cwnd);
        self.count = self.count.max(2);
        clamp(self.count)
    }

    /// HyStart may find that slow start has to end with this window.
    fn take_rtt(&mut self, steering: &mut Steering, acked: &Acked, rtt: SimDuration) {
        // Right after a recovery, delays tell of the queue that it met.
        if self.epoch.is_some_and(|epoch| self.tick(acked.now).saturating_sub(epoch) < self.hz) {
            return;
        }
        let delay_us = (rtt.as_nanos() / 1000).max(1);
        if self.smallest_delay_us == 0 || delay_us < self.smallest_delay_us {
            self.smallest_delay_us = delay_us;
        }
        if self.hystart.found || !steering.in_slow_start() {
            return;
        }
        // Rounds are counted from the connection's first, or they would end in the midst of a train.
        self.hystart.count_rounds(acked);
        if steering.cwnd >= LOW_WINDOW {
            let burst_us = burst_delay_us(steering);
            self.hystart.watch(acked, delay_us, self.smallest_delay_us, burst_us);
        }
        if self.hystart.found {
            steering.ssthresh = steering.cwnd;
        }
    }

    /// Nothing is known any more, and a round of HyStart begins.
    fn timed_out(&mut self, now: SimTime, nxt: u64) {
        *self = Cubic::new(self.hz as u32);
        self.hystart = HyStart::begin(now.as_nanos() / 1000, nxt);
    }

    /// The cubic curve must not have grown meanwhile (section 4.2).
    fn resumed_after(&mut self, idle: SimDuration) {
        let ticks = self.ticks(idle.as_nanos());
        if let Some(epoch) = &mut self.epoch {
            *epoch += ticks;
        }
    }
}

impl HyStart {
    /// A round in which everything up to `end` is acknowledged.
    fn begin(now_us: u64, end: u64) -> HyStart {
        HyStart { end, began_us: now_us, last_ack_us: now_us, ..HyStart::default() }
    }

    fn count_rounds(&mut self, acked: &Acked) {
        if acked.una > self.end {
            *self = HyStart::begin(acked.now.as_nanos() / 1000, acked.nxt);
        }
    }

    fn watch(&mut self, acked: &Acked, delay_us: u64, smallest_us: u64, burst_us: u64) {
        let now_us = acked.now.as_nanos() / 1000;
        if now_us - self.last_ack_us <= TRAIN_GAP_US {
            self.last_ack_us = now_us;
            // A round trip of acknowledgements is a full pipe; without pacing, half of one.
            let pipe_us = smallest_us + burst_us;
            self.found |= now_us - self.began_us > if acked.paced { pipe_us } else { pipe_us / 2 };
        }
        let smallest = self.smallest_us.map_or(delay_us, |known| known.get().min(delay_us));
        self.smallest_us = NonZero::new(smallest);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let (least, most) = DELAY_LIMITS_US;
            let limit = smallest_us + (smallest_us / 8).clamp(least, most);
            self.found |= smallest > limit;
        }
    }
}

/// What four bursts take at the pace that was set last (hystart_ack_delay).
fn burst_delay_us(steering: &Steering) -> u64 {
    steering.pacing_rate.map_or(0, |rate| 4 * BURST_BYTES * 1_000_000 / rate).min(BURST_DELAY_US)
}

fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The largest integer whose cube is at most `n`.
fn cube_root(n: u128) -> u64 {
    let mut root = 0u128;
    for bit in (0..25).rev() {
        let candidate = root | (1 << bit);
        if candidate * candidate * candidate <= n {
            root = candidate;
        }
    }
    root as u64
}

#[cfg(test)]
mod tests {
    use super::super::controller::{NO_THRESHOLD, Phase, Pipe};
    use super::*;

    #[test]
    fn cube_roots_are_exact() {
        for n in [0, 1, 7, 8, 26, 27, 999_999_999, 1_000_000_000, u128::from(u32::MAX) << 38] {
            let root = u128::from(cube_root(n));
            assert!(root.pow(3) <= n && (root + 1).pow(3) > n, "{n}: {root}");
        }
    }

    fn acked(now_ms: u64, una: u64, nxt: u64) -> Acked {
        Acked {
            now: SimTime::from_nanos(now_ms * 1_000_000),
            phase: Phase::Open,
            delivered: 1,
            lost: 0,
            advanced: true,
            may_grow: true,
            rtt: None,
            rate: None,
            una,
            nxt,
            in_flight: 0,
            pipe: Pipe { out: 0, mss: 1448, srtt: SimDuration::from_millis(100), percent: (200, 120) },
            paced: false,
        }
    }

    fn at(cwnd: u32) -> Steering {
        Steering { cwnd, ssthresh: NO_THRESHOLD, pacing_rate: None }
    }

    /// Whether slow start ends by this round trip.
    fn ends(cubic: &mut Cubic, acked: Acked, delay_ms: u64, cwnd: u32) -> bool {
        let mut steering = at(cwnd);
        cubic.take_rtt(&mut steering, &acked, SimDuration::from_millis(delay_ms));
        steering.ssthresh == cwnd
    }

    #[test]
    fn window_returns_to_the_plateau_after_k_seconds() {
        let mut cubic = Cubic::new(1000);
        let mut cwnd = cubic.threshold(&at(1000));
        assert_eq!(cwnd, 700);
        let rtt = SimDuration::from_millis(100);
        let mut now = SimTime::ZERO;
        // K = cbrt(300 / 0.4) = 9.09 s.
        let mut reached = None;
        let mut credit = 0;
        for _ in 0..200 {
            let segments = cwnd;
            for _ in 0..segments {
                credit += 1;
                if credit >= cubic.segments_per_growth(&at(cwnd), 1, now) {
                    cwnd += 1;
                    credit = 0;
                }
                now += SimDuration::from_nanos(rtt.as_nanos() / u64::from(segments));
            }
            if cwnd >= 999 && reached.is_none() {
                reached = Some(now.as_nanos() / 1_000_000);
            }
        }
        let reached = reached.expect("never reached the plateau");
        assert!((7_200..10_500).contains(&reached), "{reached} ms");
        assert!(cwnd > 1200, "no convex growth: {cwnd}");
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut cubic = Cubic::new(1000);
        cubic.threshold(&at(1000));
        assert_eq!(cubic.threshold(&at(800)), 560);
        assert_eq!(cubic.last_max, 680);
    }

    #[test]
    fn reno_is_kept_up_with_where_the_curve_is_flat() {
        // Small windows at short round trips: 15/8 of a window for each segment more.
        let mut cubic = Cubic::new(1000);
        let mut cwnd = cubic.threshold(&at(20));
        assert_eq!(cwnd, 14);
        let (mut credit, mut total) = (0, 0);
        let mut now = SimTime::ZERO;
        while cwnd < 20 {
            (credit, total) = (credit + 1, total + 1);
            if credit >= cubic.segments_per_growth(&at(cwnd), 1, now) {
                (cwnd, credit) = (cwnd + 1, 0);
            }
            now += SimDuration::from_millis(1);
        }
        let reno: u32 = (14..20).map(|window| window * 15 / 8).sum();
        assert!((reno - 20..reno + 40).contains(&total), "{total}, not {reno}");
    }

    #[test]
    fn slow_start_ends_when_delays_grow() {
        let mut cubic = Cubic::new(1000);
        let mut una = 0;
        let mut ended = |cubic: &mut Cubic, round: u64, delay_ms: u64| {
            let mut ended = false;
            for ack in 0..20 {
                una += 1;
                // Too far apart for a train.
                let acked = acked(1000 * round + 5 * ack, una, round * 20 + 20);
                ended |= ends(cubic, acked, delay_ms, 40);
            }
            ended
        };
        assert!(!ended(&mut cubic, 1, 100));
        assert!(!ended(&mut cubic, 2, 108));
        assert!(ended(&mut cubic, 3, 114));
    }

    #[test]
    fn rounds_are_counted_before_the_window_is_large_enough() {
        let mut cubic = Cubic::new(1000);
        // Windows of 10, 20 and 40, in trains of 1 ms each.
        assert!(!ends(&mut cubic, acked(1000, 2, 11), 100, 10));
        assert!(!ends(&mut cubic, acked(1100, 12, 31), 100, 20));
        assert_eq!((cubic.hystart.began_us, cubic.hystart.end), (1_100_000, 31));
        assert!(!ends(&mut cubic, acked(1101, 13, 33), 100, 21));
        assert_eq!(cubic.hystart.end, 31);
        // After a timeout, what is in flight belongs to no round.
        cubic.timed_out(SimTime::from_nanos(2_000_000_000), 60);
        assert!(!ends(&mut cubic, acked(2050, 40, 61), 100, 2));
        assert_eq!(cubic.hystart.end, 60);
    }

    #[test]
    fn slow_start_ends_when_a_train_fills_half_a_round_trip() {
        let mut cubic = Cubic::new(1000);
        let mut ended = None;
        for ack in 0..100 {
            let acked = acked(1000 + ack, 1 + ack, 1000);
            if ends(&mut cubic, acked, 100, 100) {
                ended.get_or_insert(ack);
            }
        }
        // Half of 100 ms, and of the millisecond that bursts may take.
        assert_eq!(ended, Some(51));
    }
}
