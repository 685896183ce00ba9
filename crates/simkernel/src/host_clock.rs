//! What the clocks of one host show. No two hosts agree to the nanosecond, as no two machines do: programs that seed random numbers from
//! a clock draw other ones on each host. Everything outside of guests (logs, captures, records) keeps to simulated time itself.

use base::{SeedTree, SimDuration, SimTime, StartDate};

const NS_PER_SEC: u64 = 1_000_000_000;
/// How far a real-time clock is fast at most unless the experiment says how far: what NTP leaves over the internet. Programs that compare
/// clocks bear more (Ceph's monitors 50 ms, CockroachDB 400 ms). No clock is slow: none shows a time before the experiment's start date.
const MOST_OFFSET_NS: u64 = 10_000_000;
/// How long a host has been up when the experiment starts: at least, so that no clock shows 0, which some runtimes take for a broken one, and
/// at most, so that the boot is not before 1970 whatever the start date.
const LEAST_UPTIME: SimDuration = SimDuration::from_secs(1_000);
const MOST_UPTIME: SimDuration = SimDuration::from_secs(86_000);

/// The relation of a host's clocks to simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// What the real-time clock shows at the experiment's start, in nanoseconds of the Unix epoch.
    start_ns: u64,
    /// How long the host has been up then.
    uptime_ns: u64,
}

impl HostClock {
    /// A clock that is right, on a host that was booted 1,000 s before the start.
    pub const fn exact(start: StartDate) -> HostClock {
        HostClock { start_ns: start.unix_seconds() * NS_PER_SEC, uptime_ns: LEAST_UPTIME.as_nanos() }
    }

    /// The clock that the seed gives a host: how far the real-time clock is fast, unless `offset_ns` says so, and when the host was booted.
    pub fn drawn(start: StartDate, offset_ns: Option<i64>, seeds: &SeedTree, host: &str) -> HostClock {
        let mut random = seeds.stream(host, "clocks");
        let drawn = random.below(MOST_OFFSET_NS) as i64;
        let longer = random.below(MOST_UPTIME.as_nanos() - LEAST_UPTIME.as_nanos());
        let exact = HostClock::exact(start);
        HostClock {
            start_ns: exact.start_ns.saturating_add_signed(offset_ns.unwrap_or(drawn)),
            uptime_ns: exact.uptime_ns + longer,
        }
    }

    /// What the real-time clock shows, in nanoseconds of the Unix epoch.
    pub const fn unix_nanos(self, time: SimTime) -> u64 {
        self.start_ns.saturating_add(time.as_nanos())
    }

    /// The moment at which the real-time clock shows `ns`; the experiment's start for anything earlier.
    pub const fn moment(self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(self.start_ns))
    }

    /// What the clocks show that count from the boot.
    pub const fn uptime_nanos(self, time: SimTime) -> u64 {
        self.uptime_ns.saturating_add(time.as_nanos())
    }

    /// The moment at which they show `ns`; the experiment's start for anything earlier.
    pub const fn moment_of_uptime(self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(self.uptime_ns))
    }

    /// What the real-time clock shows at the experiment's start, in whole seconds.
    pub const fn unix_seconds(self) -> u64 {
        self.start_ns / NS_PER_SEC
    }

    /// When the host was booted, in seconds of the Unix epoch.
    pub const fn boot_seconds(self) -> u64 {
        self.start_ns.saturating_sub(self.uptime_ns) / NS_PER_SEC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, host: &str, offset_ns: Option<i64>) -> HostClock {
        HostClock::drawn(StartDate::default(), offset_ns, &SeedTree::new(seed), host)
    }

    #[test]
    fn clocks_differ_by_host_and_by_seed_within_their_bounds() {
        let exact = HostClock::exact(StartDate::default());
        let clocks = [drawn(1, "a", None), drawn(1, "b", None), drawn(2, "a", None), drawn(2, "b", None)];
        for (index, clock) in clocks.iter().enumerate() {
            assert!((0..MOST_OFFSET_NS).contains(&(clock.start_ns - exact.start_ns)), "{clock:?}");
            assert!((LEAST_UPTIME.as_nanos()..MOST_UPTIME.as_nanos()).contains(&clock.uptime_ns), "{clock:?}");
            for other in &clocks[..index] {
                assert!(clock.start_ns != other.start_ns && clock.uptime_ns != other.uptime_ns, "{clock:?} {other:?}");
            }
        }
        assert_eq!(drawn(1, "a", None), clocks[0]);
    }

    #[test]
    fn an_offset_that_is_set_is_exact_and_changes_nothing_else() {
        let (free, set) = (drawn(1, "a", None), drawn(1, "a", Some(-1_500_000_000)));
        assert_eq!(set.uptime_ns, free.uptime_ns);
        let at = SimTime::from_nanos(7);
        assert_eq!(set.unix_nanos(at), StartDate::default().unix_nanos(at) - 1_500_000_000);
        assert_eq!(set.moment(set.unix_nanos(at)), at);
        assert_eq!(set.moment_of_uptime(set.uptime_nanos(at)), at);
        assert_eq!(set.moment(0), SimTime::ZERO);
    }

    #[test]
    fn an_exact_clock_begins_at_the_date() {
        let (start, at) = (StartDate::default(), SimTime::from_nanos(5));
        let clock = HostClock::exact(start);
        assert_eq!(clock.unix_nanos(at), start.unix_nanos(at));
        assert_eq!((clock.unix_seconds(), clock.unix_seconds() - clock.boot_seconds()), (start.unix_seconds(), 1000));
        assert_eq!(clock.uptime_nanos(at), 1_000_000_000_005);
    }
}
