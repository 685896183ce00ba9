//! The clocks of this program. It is an ordinary program that measures its transfers, unlike the simulator, where reading the
//! machine's time is banned; so the two reads stand here and nowhere else.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment on the monotonic clock.
pub type Time = Instant;

/// The present on the monotonic clock.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Time {
    Instant::now()
}

/// Seconds since 1970, to the microsecond. A clock set before 1970 reads as 0.
#[allow(clippy::disallowed_methods)]
pub fn unix() -> f64 {
    seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Seconds, rounded to the microsecond.
pub fn seconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}
