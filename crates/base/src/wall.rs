//! The one door to the wall clock: progress lines, log prefixes and accounting use it; nothing that a guest or a packet can
//! see ever may.

use std::time::{Duration, Instant, SystemTime};

/// The seconds of the Unix epoch, for a user who wants an experiment to begin now. It becomes part of the plan, and is never asked again.
#[allow(clippy::disallowed_methods, reason = "this is the door that the ban points to")]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

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
