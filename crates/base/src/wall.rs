//! The one door to the wall clock: progress lines, log prefixes and accounting use it; nothing that a guest or a packet can
//! see ever may.

use std::time::{Duration, Instant};

/// A running stopwatch.
#[derive(Clone, Copy, Debug)]
pub struct WallClock(Instant);

impl WallClock {
    #[allow(clippy::disallowed_methods, reason = "this is the door that the ban points to")]
    pub fn start() -> Self {
        WallClock(Instant::now())
    }
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
