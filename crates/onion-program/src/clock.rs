//! What time it is: the one place that asks.

use std::time::{Duration, Instant, SystemTime};

/// Counts milliseconds since the program began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

#[allow(clippy::disallowed_methods, reason = "an ordinary program, which in a simulation is told simulated time")]
impl Clock {
    pub fn start() -> Clock {
        Clock { began: Instant::now() }
    }

    /// Since the program began, as precise as the system tells.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// As precise as round trips are measured.
    pub fn us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}

/// Since 1970.
#[allow(clippy::disallowed_methods, reason = "as above")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
