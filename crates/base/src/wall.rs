//! The one door to the wall clock: progress lines, log prefixes and accounting use it; nothing that a guest or a packet can
//! see ever may.

use std::time::{Duration, SystemTime};

/// The time since the Unix epoch, to tell what is changed on the machine from now on.
#[allow(clippy::disallowed_methods, reason = "this is the door that the ban points to")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Its seconds, for a user who wants an experiment to begin now. They become part of the plan, and are never asked again.
pub fn unix_seconds() -> u64 {
    unix_time().as_secs()
}

/// A running stopwatch.
#[derive(Clone, Copy, Debug)]
pub struct WallClock(Duration);

impl WallClock {
    pub fn start() -> Self {
        WallClock(monotonic())
    }
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.0)
    }
}

/// CLOCK_MONOTONIC, from the kernel itself. The vDSO would read the time-stamp counter, which faults on a worker that has just executed a
/// guest: a signal and two writes of a control register, some 4 us in a virtual machine, where this takes 0.2.
#[allow(unsafe_code, reason = "only the libc crate makes this call without the vDSO")]
fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to what the pointer leads to, which is as large as it writes.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(result, 0, "clock_gettime(CLOCK_MONOTONIC)");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::WallClock;

    /// A fault would end the process.
    #[test]
    #[allow(unsafe_code, reason = "prctl(2) needs it")]
    fn looking_reads_no_time_stamp_counter() {
        let thread = std::thread::spawn(|| {
            // SAFETY: only this thread can no longer read the counter, and it ends with that.
            let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) };
            assert_eq!(result, 0, "PR_SET_TSC");
            let clock = WallClock::start();
            let first = clock.elapsed();
            assert!(clock.elapsed() >= first);
        });
        thread.join().unwrap();
    }
}
