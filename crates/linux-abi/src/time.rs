//! Clocks, timers, and the structures that carry time.

use base::SimDuration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// clock_gettime(2).
    CLOCK_IDS: i32 {
        CLOCK_REALTIME = 0,
        CLOCK_MONOTONIC = 1,
        CLOCK_PROCESS_CPUTIME_ID = 2,
        CLOCK_THREAD_CPUTIME_ID = 3,
        CLOCK_MONOTONIC_RAW = 4,
        CLOCK_REALTIME_COARSE = 5,
        CLOCK_MONOTONIC_COARSE = 6,
        CLOCK_BOOTTIME = 7,
        CLOCK_REALTIME_ALARM = 8,
        CLOCK_BOOTTIME_ALARM = 9,
        CLOCK_TAI = 11,
    }
}

/// clock_nanosleep(2), timer_settime(2): the time is a moment, not a span.
pub const TIMER_ABSTIME: u32 = 1;

constants! {
    /// setitimer(2).
    ITIMERS: i32 {
        ITIMER_REAL = 0,
        ITIMER_VIRTUAL = 1,
        ITIMER_PROF = 2,
    }
}

/// utimensat(2): set to now.
pub const UTIME_NOW: i64 = 0x3fff_ffff;
/// utimensat(2): leave as it is.
pub const UTIME_OMIT: i64 = 0x3fff_fffe;

/// Clock ticks per second in times(2) and AT_CLKTCK.
pub const CLK_TCK: u64 = 100;

const NS_PER_SEC: u64 = 1_000_000_000;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timespec {
    pub tv_sec: i64,
    pub tv_nsec: i64,
}

impl Timespec {
    pub const fn from_nanos(ns: u64) -> Self {
        Timespec { tv_sec: (ns / NS_PER_SEC) as i64, tv_nsec: (ns % NS_PER_SEC) as i64 }
    }

    /// Nanoseconds; None for what the kernel refuses with EINVAL: a negative part, or a billion nanoseconds and more. Saturates.
    pub const fn to_nanos(self) -> Option<u64> {
        if self.tv_sec < 0 || self.tv_nsec < 0 || self.tv_nsec >= NS_PER_SEC as i64 {
            return None;
        }
        Some((self.tv_sec as u64).saturating_mul(NS_PER_SEC).saturating_add(self.tv_nsec as u64))
    }

    /// As [`Timespec::to_nanos`], as a span of simulated time.
    pub fn to_duration(self) -> Option<SimDuration> {
        self.to_nanos().map(SimDuration::from_nanos)
    }
}

impl From<SimDuration> for Timespec {
    fn from(duration: SimDuration) -> Self {
        Timespec::from_nanos(duration.as_nanos())
    }
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timeval {
    pub tv_sec: i64,
    pub tv_usec: i64,
}

impl Timeval {
    /// Rounds down to a microsecond.
    pub const fn from_nanos(ns: u64) -> Self {
        Timeval { tv_sec: (ns / NS_PER_SEC) as i64, tv_usec: (ns % NS_PER_SEC / 1000) as i64 }
    }

    /// Nanoseconds; None for a negative part or a million microseconds and more. Saturates.
    pub const fn to_nanos(self) -> Option<u64> {
        if self.tv_sec < 0 || self.tv_usec < 0 || self.tv_usec >= 1_000_000 {
            return None;
        }
        Some((self.tv_sec as u64).saturating_mul(NS_PER_SEC).saturating_add(self.tv_usec as u64 * 1000))
    }

    /// As [`Timeval::to_nanos`], as a span of simulated time.
    pub fn to_duration(self) -> Option<SimDuration> {
        self.to_nanos().map(SimDuration::from_nanos)
    }
}

impl From<SimDuration> for Timeval {
    fn from(duration: SimDuration) -> Self {
        Timeval::from_nanos(duration.as_nanos())
    }
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Itimerspec {
    pub it_interval: Timespec,
    pub it_value: Timespec,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Itimerval {
    pub it_interval: Timeval,
    pub it_value: Timeval,
}

/// gettimeofday(2)'s second argument.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Timezone {
    pub tz_minuteswest: i32,
    pub tz_dsttime: i32,
}

/// times(2), in clock ticks.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tms {
    pub tms_utime: i64,
    pub tms_stime: i64,
    pub tms_cutime: i64,
    pub tms_cstime: i64,
}

assert_size! { Timespec = 16, Timeval = 16, Itimerspec = 32, Itimerval = 32, Timezone = 8, Tms = 32 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_and_refuse_what_the_kernel_refuses() {
        assert_eq!(Timespec { tv_sec: 1, tv_nsec: 5 }.to_nanos(), Some(1_000_000_005));
        assert_eq!(Timespec { tv_sec: -1, tv_nsec: 0 }.to_nanos(), None);
        assert_eq!(Timespec { tv_sec: 0, tv_nsec: 1_000_000_000 }.to_nanos(), None);
        assert_eq!(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }.to_nanos(), Some(u64::MAX));
        assert_eq!(Timeval { tv_sec: 0, tv_usec: 1_000_000 }.to_nanos(), None);
        assert_eq!(Timeval::from_nanos(1_500_000_999), Timeval { tv_sec: 1, tv_usec: 500_000 });
    }
}
