//! CUBIC (RFC 9438), in integers so that every machine computes the same window. Windows in segments, times in milliseconds.

use super::hystart::{Growth, HyStart};
use base::{SimDuration, SimTime};

/// beta_cubic = 0.7 (section 4.6), in thousandths.
const BETA: u64 = 700;
/// Fixed point of the Reno-friendly estimate.
const FRACTION: u64 = 1 << 10;

#[derive(Debug)]
pub(crate) struct Cubic {
    pub hystart: HyStart,
    w_max: u32,
    /// When this epoch of congestion avoidance began.
    epoch: Option<SimTime>,
    /// Milliseconds from the epoch until the window is back at the plateau.
    k_ms: u64,
    /// The plateau of this epoch.
    origin: u32,
    /// What Reno would have by now, times [`FRACTION`].
    w_est: u64,
    /// The window when the epoch began: above it Reno's estimate grows by 1 per round trip.
    cwnd_prior: u32,
}

impl Cubic {
    pub fn new() -> Self {
        Cubic { hystart: HyStart::new(), w_max: 0, epoch: None, k_ms: 0, origin: 0, w_est: 0, cwnd_prior: 0 }
    }

    pub fn slow_start_growth(&mut self, una: u64, nxt: u64, rtt: Option<SimDuration>) -> Growth {
        self.hystart.on_ack(una, nxt, rtt)
    }

    /// The new slow start threshold after a loss; remembers the plateau, with fast convergence (section 4.7).
    pub fn threshold(&mut self, cwnd: u32) -> u32 {
        self.epoch = None;
        self.cwnd_prior = cwnd;
        self.w_max = if cwnd < self.w_max { (u64::from(cwnd) * (1000 + BETA) / 2000) as u32 } else { cwnd };
        ((u64::from(cwnd) * BETA / 1000) as u32).max(2)
    }

    pub fn timeout(&mut self) {
        self.epoch = None;
        self.hystart = HyStart::new();
    }

    /// The application paused: the cubic curve must not have grown meanwhile (section 4.2, as in Linux).
    pub fn resumed_after(&mut self, idle: SimDuration) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += idle;
        }
    }

    /// How many segments must be acknowledged for the window to grow by one (section 4.4 and 4.5).
    pub fn segments_per_growth(&mut self, cwnd: u32, acked: u32, now: SimTime, rtt: SimDuration) -> u32 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            if cwnd < self.w_max {
                // K = cbrt((W_max - cwnd) / C), C = 0.4; in milliseconds (section 4.2).
                self.k_ms = cube_root(u64::from(self.w_max - cwnd) * 2_500_000_000);
                self.origin = self.w_max;
            } else {
                self.k_ms = 0;
                self.origin = cwnd;
            }
            self.w_est = u64::from(cwnd) * FRACTION;
            now
        });
        let t_ms = (now.saturating_since(epoch).saturating_add(rtt)).as_millis();
        let target = self.curve(t_ms).clamp(u64::from(cwnd), u64::from(cwnd) * 3 / 2);
        let growth = target - u64::from(cwnd);
        let cubic = u64::from(cwnd).checked_div(growth).unwrap_or(100 * u64::from(cwnd));
        // Reno-friendly region: alpha_cubic = 3 (1 - beta) / (1 + beta) = 9/17 until the old window is reached, then 1.
        let alpha = if self.w_est < u64::from(self.cwnd_prior) * FRACTION { FRACTION * 9 / 17 } else { FRACTION };
        self.w_est += alpha * u64::from(acked) / u64::from(cwnd.max(1));
        let w_est = self.w_est / FRACTION;
        let per_growth =
            if w_est > u64::from(cwnd) { cubic.min(u64::from(cwnd) / (w_est - u64::from(cwnd))) } else { cubic };
        per_growth.clamp(2, u64::from(u32::MAX)) as u32
    }

    /// W_cubic(t) = C (t - K)^3 + W_max, C = 0.4 (section 4.2).
    fn curve(&self, t_ms: u64) -> u64 {
        let distance = t_ms.abs_diff(self.k_ms).min(1_000_000);
        let delta = distance * distance * distance * 4 / 10_000_000_000;
        let origin = u64::from(self.origin);
        if t_ms < self.k_ms { origin.saturating_sub(delta) } else { origin + delta }
    }
}

/// The largest integer whose cube is at most `n`.
fn cube_root(n: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..22).rev() {
        let candidate = root | (1 << bit);
        if candidate * candidate * candidate <= n {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact() {
        for n in [0, 1, 7, 8, 26, 27, 999_999_999, 1_000_000_000, u64::from(u32::MAX) * 2_000_000] {
            let root = cube_root(n);
            assert!(root.pow(3) <= n && (root + 1).pow(3) > n, "{n}: {root}");
        }
    }

    #[test]
    fn window_returns_to_the_plateau_after_k_seconds() {
        let mut cubic = Cubic::new();
        let mut cwnd = cubic.threshold(1000);
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
                if credit >= cubic.segments_per_growth(cwnd, 1, now, rtt) {
                    cwnd += 1;
                    credit = 0;
                }
            }
            now += rtt;
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
        let mut cubic = Cubic::new();
        cubic.threshold(1000);
        assert_eq!(cubic.threshold(800), 560);
        assert_eq!(cubic.w_max, 680);
    }
}
