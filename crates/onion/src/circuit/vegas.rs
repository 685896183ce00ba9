//! TOR_VEGAS: how many data cells may be under way on a circuit, by how long they take (proposal 324, sections 2 and 3; tor 0.4.9). Each
//! SENDME measures a round trip. What the circuit would carry without queues, its bandwidth-delay product, is the window times the
//! shortest round trip over the mean one; the rest of the window waits in queues. The window grows while few cells wait, and shrinks
//! when many do, or when the queue to the next relay is full.

use crate::directory::ConsensusParameters;
use std::collections::VecDeque;
use std::fmt;

/// Cells of 514 bytes that a TLS record of 16 KiB holds: the unit of tor's defaults.
const RECORD: u32 = 31;
/// Cells that wait at a relay whose connection is busy, as tor reckons.
const OUTBUF: u32 = 2 * RECORD;
/// The largest value of a parameter.
const MOST: u32 = i32::MAX as u32;
/// Times that a round trip may be longer than the mean before it is taken for a jump of the clock (proposal 324, section 2.1.1).
const JUMP: u64 = 5000;

/// What the consensus says of it, in cells where nothing else is said (proposal 324, section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VegasParameters {
    /// The window at first (`cc_cwnd_init`), at least and at most.
    pub window_init: u32,
    pub window_min: u32,
    pub window_max: u32,
    /// By which it changes after slow start (`cc_cwnd_inc`), and how often in a window (`cc_cwnd_inc_rate`).
    pub increment: u32,
    pub increments_per_window: u32,
    /// By how many per cent of what a SENDME allows it grows at each SENDME of slow start.
    pub slow_start_percent: u32,
    /// The window beyond which slow start slows down (`cc_sscap_exit`), and at which it ends (`cc_ss_max`).
    pub slow_start_cap: u32,
    pub slow_start_max: u32,
    /// Waiting cells: below alpha the window grows, beyond beta it shrinks, beyond delta it falls back to it; gamma ends slow start.
    pub alpha: u32,
    pub beta: u32,
    pub gamma: u32,
    pub delta: u32,
    /// SENDMEs that may be missing in a window that counts as full.
    pub full_gap: u32,
    /// Per cent of it below which it no longer does.
    pub full_min_percent: u32,
    /// Whether it has to be full once in a window, or else once between two changes.
    pub full_per_window: bool,
    /// Of how many SENDMEs the mean round trip is: per cent of those between two changes, at most so many; and in slow start.
    pub mean_percent: u32,
    pub mean_max: u32,
    pub mean_slow_start: u32,
    /// Weight of the longer of both in per cent when the shortest round trip is taken anew, since the window cannot become smaller.
    pub rtt_reset_percent: u32,
}

impl VegasParameters {
    /// For circuits of three hops that end at an exit.
    pub fn of_exit(consensus: &ConsensusParameters) -> VegasParameters {
        let get = |name, default, allowed| consensus.get(name, default, allowed);
        VegasParameters {
            window_init: get("cc_cwnd_init", 4 * RECORD, RECORD..=10_000),
            window_min: get("cc_cwnd_min", 4 * RECORD, RECORD..=1000),
            window_max: get("cc_cwnd_max", MOST, 500..=MOST),
            increment: get("cc_cwnd_inc", 1, 1..=1000),
            increments_per_window: get("cc_cwnd_inc_rate", RECORD, 1..=250),
            slow_start_percent: get("cc_cwnd_inc_pct_ss", 100, 1..=500),
            slow_start_cap: get("cc_sscap_exit", 600, 100..=MOST),
            slow_start_max: get("cc_ss_max", 5000, 500..=MOST),
            alpha: get("cc_vegas_alpha_exit", 3 * OUTBUF, 0..=1000),
            beta: get("cc_vegas_beta_exit", 4 * OUTBUF, 0..=1000),
            gamma: get("cc_vegas_gamma_exit", 3 * OUTBUF, 0..=1000),
            delta: get("cc_vegas_delta_exit", 5 * OUTBUF, 0..=MOST),
            full_gap: get("cc_cwnd_full_gap", 4, 0..=i16::MAX as u32),
            full_min_percent: get("cc_cwnd_full_minpct", 25, 0..=100),
            full_per_window: get("cc_cwnd_full_per_cwnd", 1, 0..=1) == 1,
            mean_percent: get("cc_ewma_cwnd_pct", 50, 1..=255),
            mean_max: get("cc_ewma_max", 10, 2..=MOST),
            mean_slow_start: get("cc_ewma_ss", 2, 2..=MOST),
            rtt_reset_percent: get("cc_rtt_reset_pct", 100, 0..=100),
        }
    }
}

/// Cells that a SENDME allows again, for circuits that begin now (`cc_sendme_inc`).
pub fn sendme_inc(consensus: &ConsensusParameters) -> u8 {
    consensus.get("cc_sendme_inc", RECORD, 1..=254) as u8
}

/// Whether circuits are to have congestion control at all: `cc_alg` is 2, Vegas, unless the consensus says 0, windows of a fixed size.
/// tor knows no others any more, and takes them for its default.
pub fn is_wanted(consensus: &ConsensusParameters) -> bool {
    consensus.get("cc_alg", 2, 0..=3) != 0
}

/// The queue of a circuit's cells at the relay itself, when a SENDME comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalQueue {
    pub cells: usize,
    /// It is so long that streams are read no more: a sign of congestion.
    pub is_blocked: bool,
}

/// A SENDME came that no cells had made due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDue;

impl fmt::Display for NotDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a SENDME that was not due")
    }
}

/// Round trips, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    pub last_us: u64,
    /// An exponential mean.
    pub mean_us: u64,
    /// The smallest mean that there was.
    pub least_us: u64,
}

/// One direction of a circuit, at the end that sends.
#[derive(Clone, Debug)]
pub struct Vegas {
    parameters: VegasParameters,
    /// Cells that a SENDME allows again, as was agreed for this circuit.
    sendme_inc: u64,
    window: u64,
    /// Cells that no SENDME has answered yet.
    inflight: u64,
    /// When cells were sent that make a SENDME due, in microseconds.
    pending: VecDeque<u64>,
    round_trip: Option<RoundTrip>,
    /// What is under way and waits in no queue.
    bandwidth_delay: u64,
    in_slow_start: bool,
    /// It has been full since it was last asked.
    is_full: bool,
    was_blocked: bool,
    /// The last round trip took no time.
    is_stalled: bool,
    /// SENDMEs until the window may change again, and until a window of cells has been answered.
    until_update: u64,
    until_window: u64,
}

impl Vegas {
    pub fn new(parameters: VegasParameters, sendme_inc: u8) -> Vegas {
        Vegas {
            parameters,
            sendme_inc: u64::from(sendme_inc.max(1)),
            window: parameters.window_init.into(),
            inflight: 0,
            pending: VecDeque::new(),
            round_trip: None,
            bandwidth_delay: 0,
            in_slow_start: true,
            is_full: false,
            was_blocked: false,
            is_stalled: false,
            until_update: 1,
            until_window: 0,
        }
    }

    /// Cells that may be sent now.
    pub fn room(&self) -> usize {
        self.window.saturating_sub(self.inflight) as usize
    }

    /// The window, in cells.
    pub fn window(&self) -> u64 {
        self.window
    }

    pub fn round_trip(&self) -> Option<RoundTrip> {
        self.round_trip
    }

    /// A data cell is sent; whether it makes a SENDME due, which must name it then.
    pub fn sent(&mut self, now_us: u64) -> bool {
        self.inflight += 1;
        let is_due = self.inflight.is_multiple_of(self.sendme_inc);
        if is_due {
            self.pending.push_back(now_us);
        }
        is_due
    }

    /// A SENDME has come.
    pub fn acknowledged(&mut self, now_us: u64, queue: LocalQueue) -> Result<(), NotDue> {
        let sent_us = self.pending.pop_front().ok_or(NotDue)?;
        self.until_update = self.until_update.saturating_sub(1);
        self.until_window = self.until_window.saturating_sub(1);
        let is_measured = self.measure(now_us.saturating_sub(sent_us));
        self.estimate(queue);
        // A blocked queue is a sign in itself.
        if is_measured || queue.is_blocked {
            self.adapt();
        }
        self.inflight = self.inflight.saturating_sub(self.sendme_inc);
        self.window = self.window.min(self.parameters.window_max.into());
        Ok(())
    }

    /// Takes in a round trip; whether it could be one (proposal 324, section 2.1).
    fn measure(&mut self, last_us: u64) -> bool {
        if self.is_jump(last_us) {
            return false;
        }
        let count = self.mean_count();
        let Some(RoundTrip { mean_us, least_us, .. }) = self.round_trip else {
            self.round_trip = Some(RoundTrip { last_us, mean_us: last_us, least_us: last_us });
            return true;
        };
        let mean_us = mean(last_us, mean_us, count);
        let is_least = self.window == u64::from(self.parameters.window_min) && !self.in_slow_start;
        let least_us = if is_least {
            // An uncommonly short round trip would hold the window down for ever.
            let percent = u64::from(self.parameters.rtt_reset_percent);
            percent * mean_us.max(least_us) / 100 + (100 - percent) * mean_us.min(least_us) / 100
        } else {
            least_us.min(mean_us)
        };
        self.round_trip = Some(RoundTrip { last_us, mean_us, least_us });
        true
    }

    /// Whether the clock must have stood still or jumped (proposal 324, section 2.1.1).
    fn is_jump(&mut self, last_us: u64) -> bool {
        if last_us == 0 {
            self.is_stalled = true;
            return true;
        }
        let Some(RoundTrip { mean_us, .. }) = self.round_trip.filter(|_| !self.in_slow_start) else { return false };
        if mean_us > last_us * JUMP {
            return self.is_stalled;
        }
        if last_us > mean_us * JUMP {
            return true;
        }
        self.is_stalled = false;
        false
    }

    /// SENDMEs of which the mean round trip is.
    fn mean_count(&self) -> u64 {
        let parameters = &self.parameters;
        let count = if self.in_slow_start {
            parameters.mean_slow_start.into()
        } else {
            (self.sendmes_per_update() * u64::from(parameters.mean_percent) / 100).min(parameters.mean_max.into())
        };
        count.max(2)
    }

    /// How many cells the circuit holds without queues (proposal 324, section 3.1.1), and whether the queue here has become long or
    /// short, in which case the window may change at once.
    fn estimate(&mut self, queue: LocalQueue) {
        match self.round_trip {
            Some(RoundTrip { mean_us, least_us, .. }) => {
                self.bandwidth_delay = self.window * least_us / mean_us;
                if self.was_blocked != queue.is_blocked {
                    self.until_update = 0;
                }
            }
            None if queue.is_blocked => {
                let elsewhere = self.window.saturating_sub(queue.cells as u64);
                self.bandwidth_delay = elsewhere.max(self.parameters.window_min.into());
            }
            None => self.bandwidth_delay = self.window,
        }
        self.was_blocked = queue.is_blocked;
    }

    /// Changes the window (proposal 324, section 3.3).
    fn adapt(&mut self) {
        let waiting = self.window.saturating_sub(self.bandwidth_delay);
        if self.inflight + u64::from(self.parameters.full_gap) * self.sendme_inc >= self.window {
            self.is_full = true;
        } else if 100 * self.inflight < u64::from(self.parameters.full_min_percent) * self.window {
            self.is_full = false;
        }
        if self.in_slow_start {
            self.start_slowly(waiting);
        } else if self.until_update == 0 {
            self.keep(waiting);
        }
        if self.until_window == 0 {
            self.until_window = self.sendmes_per_window();
        }
        if self.until_update == 0 {
            self.until_update = self.sendmes_per_update();
        }
        let begins_anew = if self.parameters.full_per_window {
            self.until_window == self.sendmes_per_window()
        } else {
            self.until_update == self.sendmes_per_update()
        };
        if begins_anew {
            self.is_full = false;
        }
    }

    /// Slow start, limited as by RFC 3742 (proposal 324, section 3.3).
    fn start_slowly(&mut self, waiting: u64) {
        let parameters = self.parameters;
        if waiting >= parameters.gamma.into() || self.was_blocked {
            self.window = self.bandwidth_delay + u64::from(parameters.gamma);
            self.in_slow_start = false;
        } else if self.is_full {
            let growth = self.slow_start_growth();
            self.window += growth;
            let afterwards = u64::from(parameters.increment) * u64::from(parameters.increments_per_window);
            if growth * self.sendmes_per_window() <= afterwards {
                self.in_slow_start = false;
            }
        }
        let most = parameters.slow_start_max.into();
        if self.window >= most {
            self.window = most;
            self.in_slow_start = false;
        }
    }

    /// Cells that a SENDME adds to the window in slow start.
    fn slow_start_growth(&self) -> u64 {
        let cap = u64::from(self.parameters.slow_start_cap);
        if self.window <= cap {
            return (u64::from(self.parameters.slow_start_percent) * self.sendme_inc + 50) / 100;
        }
        ((self.sendme_inc * cap + self.window) / (2 * self.window)).max(1)
    }

    /// After slow start.
    fn keep(&mut self, waiting: u64) {
        let VegasParameters { alpha, beta, delta, increment, window_min, .. } = self.parameters;
        let increment = u64::from(increment);
        if waiting > delta.into() {
            self.window = (self.bandwidth_delay + u64::from(delta)).saturating_sub(increment);
        } else if waiting > beta.into() || self.was_blocked {
            self.window = self.window.saturating_sub(increment);
        } else if self.is_full && waiting < alpha.into() {
            self.window += increment;
        }
        self.window = self.window.max(window_min.into());
    }

    /// SENDMEs between two changes of the window, rounded; with 0, each changes it.
    fn sendmes_per_update(&self) -> u64 {
        if self.in_slow_start {
            return 1;
        }
        let cells = u64::from(self.parameters.increments_per_window) * self.sendme_inc;
        (self.window + cells / 2) / cells
    }

    /// SENDMEs that answer a window of cells, rounded.
    fn sendmes_per_window(&self) -> u64 {
        (self.window + self.sendme_inc / 2) / self.sendme_inc
    }
}

/// The exponential mean of the last `count` values, so that the newest has a weight of 2 / (count + 1).
pub(super) fn mean(newest: u64, before: u64, count: u64) -> u64 {
    if before == 0 { newest } else { (2 * newest + (count - 1) * before) / (count + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: LocalQueue = LocalQueue { cells: 0, is_blocked: false };
    const BLOCKED: LocalQueue = LocalQueue { cells: 256, is_blocked: true };

    fn vegas() -> Vegas {
        Vegas::new(VegasParameters::of_exit(&ConsensusParameters::default()), 31)
    }

    /// Behind slow start, with this window, all of it under way; the mean round trip is 100 ms, and `waiting` cells wait.
    fn steady(window: u64, waiting: u64) -> Vegas {
        let least_us = (100_000 * (window - waiting)).div_ceil(window);
        let round_trip = Some(RoundTrip { last_us: 100_000, mean_us: 100_000, least_us });
        let pending = (0..window / 31).map(|_| 0).collect();
        Vegas { window, inflight: window, in_slow_start: false, round_trip, pending, until_window: 99, ..vegas() }
    }

    fn send(vegas: &mut Vegas, cells: u64, now_us: u64) -> Vec<u64> {
        (1..=cells).filter(|_| vegas.sent(now_us)).collect()
    }

    #[test]
    fn defaults_are_those_of_tor_for_exits() {
        let parameters = VegasParameters::of_exit(&ConsensusParameters::default());
        let VegasParameters { alpha, beta, gamma, delta, .. } = parameters;
        assert_eq!((alpha, beta, gamma, delta), (186, 248, 186, 310));
        assert_eq!((parameters.window_init, parameters.window_min, parameters.increments_per_window), (124, 124, 31));
        let given = ConsensusParameters::read("cc_vegas_alpha_exit=2000 cc_cwnd_init=1 cc_alg=0 cc_sendme_inc=50");
        let given = given.expect("parameters");
        let parameters = VegasParameters::of_exit(&given);
        assert_eq!((parameters.alpha, parameters.window_init), (1000, 31));
        assert_eq!((is_wanted(&given), sendme_inc(&given)), (false, 50));
        let none = ConsensusParameters::default();
        assert_eq!((is_wanted(&none), sendme_inc(&none)), (true, 31));
    }

    #[test]
    fn each_31st_cell_makes_a_sendme_due() {
        let mut vegas = vegas();
        assert_eq!(vegas.room(), 124);
        assert_eq!(send(&mut vegas, 100, 0), [31, 62, 93]);
        assert_eq!(vegas.room(), 24);
        for _ in 0..3 {
            assert_eq!(vegas.acknowledged(50_000, FREE), Ok(()));
        }
        assert_eq!(vegas.inflight, 7);
        assert_eq!(vegas.acknowledged(50_000, FREE), Err(NotDue));
        // It goes on from there: 24 more make the next one due.
        assert_eq!(send(&mut vegas, 24, 0), [24]);
    }

    #[test]
    fn round_trips_are_from_the_cell_to_its_sendme() {
        let mut vegas = vegas();
        send(&mut vegas, 31, 1_000);
        send(&mut vegas, 31, 5_000);
        vegas.acknowledged(101_000, FREE).expect("due");
        assert_eq!(vegas.round_trip, Some(RoundTrip { last_us: 100_000, mean_us: 100_000, least_us: 100_000 }));
        // The mean of two SENDMEs: (2 * 130 + 100) / 3 ms.
        vegas.acknowledged(135_000, FREE).expect("due");
        assert_eq!(vegas.round_trip, Some(RoundTrip { last_us: 130_000, mean_us: 120_000, least_us: 100_000 }));
    }

    #[test]
    fn the_least_round_trip_is_the_smallest_mean() {
        let mut vegas = vegas();
        vegas.measure(100_000);
        // (2 * 40 + 100) / 3 ms, and not 40 ms.
        vegas.measure(40_000);
        assert_eq!(vegas.round_trip.expect("measured").least_us, 60_000);
    }

    #[test]
    fn the_mean_is_of_more_sendmes_after_slow_start() {
        // 31 * 31 cells between two changes: (1922 + 480) / 961 = 2 SENDMEs, half of which is less than two.
        assert_eq!(steady(1922, 0).mean_count(), 2);
        // (9610 + 480) / 961 = 10, half of it.
        assert_eq!(steady(9610, 0).mean_count(), 5);
        // (96100 + 480) / 961 = 100, half of it, but at most 10.
        assert_eq!(steady(96_100, 0).mean_count(), 10);
        let mut vegas = steady(9610, 0);
        vegas.measure(130_000);
        // (2 * 130 + 4 * 100) / 6 ms.
        assert_eq!(vegas.round_trip.expect("measured").mean_us, 110_000);
    }

    #[test]
    fn slow_start_adds_what_a_sendme_allows() {
        let mut vegas = vegas();
        send(&mut vegas, 124, 0);
        // 124 + 31; the window was full when the SENDME came, since 124 + 4 * 31 are at least 124.
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!((vegas.window, vegas.inflight, vegas.room()), (155, 93, 62));
        // 93 + 4 * 31 are at least 155.
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 186);
        assert!(vegas.in_slow_start);
    }

    #[test]
    fn slow_start_does_not_grow_what_is_not_used() {
        let mut vegas = Vegas { window: 500, ..vegas() };
        send(&mut vegas, 31, 0);
        // 31 + 4 * 31 are fewer than 500.
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!((vegas.window, vegas.in_slow_start), (500, true));
    }

    #[test]
    fn slow_start_slows_down_beyond_its_cap() {
        let growth = |window| Vegas { window, ..vegas() }.slow_start_growth();
        assert_eq!(growth(600), 31);
        // (31 * 600 + 601) / 1202 = 15.97
        assert_eq!(growth(601), 15);
        // (31 * 600 + 4000) / 8000 = 2.8
        assert_eq!(growth(4000), 2);
        // (31 * 600 + 30000) / 60000 = 0.8, but at least 1.
        assert_eq!(growth(30_000), 1);
    }

    #[test]
    fn slow_start_ends_when_gamma_cells_wait() {
        // 1000 cells, of which 1000 * 82 / 100 = 820 do not wait: 180 are fewer than gamma.
        let round_trip = |least_us| Some(RoundTrip { last_us: 100_000, mean_us: 100_000, least_us });
        let slow = |least_us| Vegas { in_slow_start: true, round_trip: round_trip(least_us), ..steady(1000, 0) };
        let mut vegas = slow(82_000);
        vegas.acknowledged(100_000, FREE).expect("due");
        // (31 * 600 + 1000) / 2000 = 9.8
        assert_eq!((vegas.window, vegas.in_slow_start), (1009, true));
        let mut vegas = slow(81_000);
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!((vegas.window, vegas.in_slow_start), (810 + 186, false));
    }

    #[test]
    fn slow_start_ends_when_the_queue_here_is_full() {
        let mut vegas = vegas();
        vegas.measure(100_000);
        send(&mut vegas, 124, 0);
        vegas.acknowledged(100_000, BLOCKED).expect("due");
        assert_eq!((vegas.window, vegas.in_slow_start), (124 + 186, false));
    }

    #[test]
    fn slow_start_ends_at_the_largest_window_and_where_it_is_slower_than_what_follows() {
        let mut vegas = Vegas { window: 4999, inflight: 4999, is_full: true, ..vegas() };
        vegas.start_slowly(0);
        assert_eq!((vegas.window, vegas.in_slow_start), (5000, false));
        // Steps of 20, 31 times in a window, are more than 1 for each of 161 SENDMEs.
        let mut vegas = self::vegas();
        vegas.parameters.increment = 20;
        vegas.parameters.slow_start_max = 1_000_000;
        vegas.parameters.slow_start_cap = 100;
        (vegas.window, vegas.is_full) = (5000, true);
        vegas.start_slowly(0);
        assert_eq!((vegas.window, vegas.in_slow_start), (5001, false));
    }

    #[test]
    fn after_slow_start_the_window_follows_what_waits() {
        let window = |waiting| {
            let mut vegas = steady(1000, waiting);
            vegas.acknowledged(100_000, FREE).expect("due");
            vegas.window
        };
        assert_eq!(window(185), 1001, "fewer than alpha");
        assert_eq!(window(186), 1000, "alpha");
        assert_eq!(window(248), 1000, "beta");
        assert_eq!(window(249), 999, "more than beta");
        assert_eq!(window(310), 999, "delta");
        assert_eq!(window(400), 600 + 310 - 1, "more than delta");
    }

    #[test]
    fn a_window_that_is_not_full_does_not_grow() {
        let mut vegas = Vegas { inflight: 800, ..steady(1000, 0) };
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 1000, "800 + 4 * 31 are too few");
        let mut vegas = Vegas { inflight: 876, ..steady(1000, 0) };
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 1001);
    }

    #[test]
    fn a_window_stays_full_until_it_is_a_quarter_full_or_has_been_answered() {
        let is_full = |inflight, until_window| {
            let mut vegas = Vegas { inflight, until_window, is_full: true, ..steady(1000, 200) };
            vegas.acknowledged(100_000, FREE).expect("due");
            vegas.is_full
        };
        assert!(is_full(250, 10));
        assert!(!is_full(249, 10));
        // (1000 + 15) / 31 = 32 SENDMEs answer it; with the last of them it begins anew.
        assert!(is_full(500, 2));
        assert!(!is_full(500, 1));
        // Or with each change.
        let mut vegas = Vegas { inflight: 500, is_full: true, until_update: 1, ..steady(1000, 200) };
        vegas.parameters.full_per_window = false;
        vegas.acknowledged(100_000, FREE).expect("due");
        assert!(!vegas.is_full);
    }

    #[test]
    fn the_window_changes_as_often_as_it_may() {
        // (2000 + 480) / 961 = 2: each second SENDME.
        let mut vegas = Vegas { is_full: true, until_update: 1, ..steady(2000, 0) };
        let windows = (0..5).map(|_| {
            vegas.acknowledged(100_000, FREE).expect("due");
            vegas.window
        });
        let windows: Vec<u64> = windows.collect();
        assert_eq!(windows, [2001, 2001, 2002, 2002, 2003]);
        // (400 + 480) / 961 = 0: each.
        let mut vegas = Vegas { is_full: true, ..steady(400, 0) };
        vegas.acknowledged(100_000, FREE).expect("due");
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 402);
    }

    #[test]
    fn a_queue_that_fills_or_empties_changes_the_window_at_once() {
        let mut vegas = Vegas { until_update: 9, ..steady(5000, 200) };
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 5000);
        vegas.acknowledged(100_000, BLOCKED).expect("due");
        assert_eq!(vegas.window, 4999, "full");
        vegas.acknowledged(100_000, BLOCKED).expect("due");
        assert_eq!(vegas.window, 4999, "but then again at the next update only");
        vegas.round_trip = Some(RoundTrip { last_us: 100_000, mean_us: 100_000, least_us: 100_000 });
        vegas.is_full = true;
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 5000, "empty");
    }

    #[test]
    fn the_window_does_not_fall_below_its_least_nor_rise_beyond_its_largest() {
        let mut vegas = steady(124, 0);
        vegas.acknowledged(100_000, BLOCKED).expect("due");
        assert_eq!(vegas.window, 124);
        let mut vegas = steady(1000, 0);
        vegas.parameters.window_max = 900;
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!(vegas.window, 900);
    }

    #[test]
    fn at_the_least_window_the_shortest_round_trip_is_taken_anew() {
        let mut vegas = steady(124, 62);
        assert_eq!(vegas.round_trip.expect("measured").least_us, 50_000);
        // (2 * 130 + 100) / 3 ms.
        vegas.measure(130_000);
        assert_eq!(vegas.round_trip.expect("measured").least_us, 120_000);
        // Half of both: 60 ms and 25 ms.
        let mut vegas = steady(124, 62);
        vegas.parameters.rtt_reset_percent = 50;
        vegas.measure(130_000);
        assert_eq!(vegas.round_trip.expect("measured").least_us, 85_000);
    }

    #[test]
    fn less_under_way_than_the_window_after_it_shrank_is_no_room() {
        let mut vegas = steady(1000, 400);
        vegas.acknowledged(100_000, FREE).expect("due");
        assert_eq!((vegas.window, vegas.inflight, vegas.room()), (909, 969, 0));
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_measures_nothing() {
        let mut vegas = vegas();
        send(&mut vegas, 124, 7);
        vegas.acknowledged(7, FREE).expect("due");
        assert_eq!((vegas.round_trip, vegas.window, vegas.inflight), (None, 124, 93));
        // A blocked queue counts all the same: 300 - 100 cells are elsewhere.
        let mut vegas = Vegas { window: 300, ..vegas };
        vegas.acknowledged(7, LocalQueue { cells: 100, is_blocked: true }).expect("due");
        assert_eq!((vegas.window, vegas.in_slow_start), (200 + 186, false));
        // 5,000 times as long as the mean of 100 ms, and a bit; and as short.
        let mut vegas = steady(1000, 0);
        assert!(!vegas.measure(500_000_001));
        assert!(vegas.measure(19), "short ones are believed");
        let mut vegas = Vegas { is_stalled: true, ..steady(1000, 0) };
        assert!(!vegas.measure(19), "unless the clock has just stood still");
    }
}
