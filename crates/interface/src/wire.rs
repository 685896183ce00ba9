//! A serial line: one packet after another, each for as long as its bits take. Exact in the long run: what a packet's time
//! has beyond whole nanoseconds is carried to the next.

use base::{Bandwidth, SimDuration, SimTime};

#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: Bandwidth,
    /// The line is free from here on, plus `carry` / rate nanoseconds.
    free: SimTime,
    carry: u64,
    /// What packets of some lengths took when they were last asked about: most are as long as one before, and each answer is a
    /// division of 64 bits, which takes as long as a hundred other instructions.
    known: [OnWire; KNOWN],
}

/// How many lengths a line remembers.
const KNOWN: usize = 2;

/// How long so many bytes take: `ns` whole nanoseconds, and `rest` / rate of another.
#[derive(Clone, Copy, Debug, Default)]
struct OnWire {
    bytes: u64,
    ns: u64,
    rest: u64,
}

impl Wire {
    pub(crate) fn new(rate: Bandwidth) -> Self {
        assert!(rate.bits_per_sec() > 0, "a line without bandwidth: the plan must reject it");
        Wire { rate, free: SimTime::ZERO, carry: 0, known: [OnWire::default(); KNOWN] }
    }

    /// The first whole nanosecond at which the line is free.
    pub(crate) fn free_at(&self) -> SimTime {
        self.free.saturating_add(SimDuration::from_nanos(u64::from(self.carry > 0)))
    }

    /// When a packet that is ready at `ready` can start.
    #[inline]
    pub(crate) fn start(&self, ready: SimTime) -> SimTime {
        ready.max(self.free)
    }

    /// How long a packet that is ready at `ready` has to wait.
    #[inline]
    pub(crate) fn wait(&self, ready: SimTime) -> SimDuration {
        self.free.saturating_since(ready)
    }

    /// Sends a packet that is ready at `ready`; returns when its last bit has left, rounded up to a nanosecond.
    #[inline]
    pub(crate) fn occupy(&mut self, ready: SimTime, bytes: u64) -> SimTime {
        if ready > self.free {
            (self.free, self.carry) = (ready, 0);
        }
        let OnWire { ns, rest, .. } = self.on_wire(bytes);
        let rate = self.rate.bits_per_sec();
        let carry = self.carry + rest;
        let whole = carry >= rate;
        self.carry = if whole { carry - rate } else { carry };
        self.free += SimDuration::from_nanos(ns + u64::from(whole));
        self.free_at()
    }

    /// How long `bytes` take, rounded up to a nanosecond.
    #[inline]
    pub(crate) fn transmission_time(&mut self, bytes: u64) -> SimDuration {
        let OnWire { ns, rest, .. } = self.on_wire(bytes);
        SimDuration::from_nanos(ns + u64::from(rest > 0))
    }

    #[inline]
    fn on_wire(&mut self, bytes: u64) -> OnWire {
        let known = &mut self.known[bytes as usize / 64 % KNOWN];
        if known.bytes != bytes {
            let (bit_ns, rate) = (bytes * 8_000_000_000, self.rate.bits_per_sec());
            *known = OnWire { bytes, ns: bit_ns / rate, rest: bit_ns % rate };
        }
        *known
    }
}

/// The part that so many bytes of a train have of the time that all of it took.
pub(crate) fn share(time: SimDuration, bytes: usize, whole: usize) -> SimDuration {
    let ns = u128::from(time.as_nanos()) * bytes as u128 / whole.max(1) as u128;
    SimDuration::from_nanos(ns as u64)
}

/// How much a queue with drop-tail may hold before a line, as the time that the line needs for it: 1,000 full packets (Linux's default
/// `txqueuelen`, tc-codel(8)'s default `limit`) or 100 ms (one round trip of a long path, the classic size of a router's buffer),
/// whichever is more.
pub(crate) fn queue_limit(rate: Bandwidth) -> SimDuration {
    rate.transmission_time(1_000 * MTU_BYTES).max(SimDuration::from_millis(100))
}

/// The same in bytes.
pub(crate) fn queue_limit_bytes(rate: Bandwidth) -> u64 {
    (1_000 * MTU_BYTES).max(rate.bits_per_sec() / 80)
}

/// The largest packet of an access link, in bytes with its IP header.
pub(crate) const MTU_BYTES: u64 = 1_500;

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    #[test]
    fn rates_are_exact_in_the_long_run() {
        let mut rng = SeedTree::new(2).stream("", "wire");
        for _ in 0..200 {
            let rate = 1 + rng.below(20_000_000_000);
            let mut wire = Wire::new(Bandwidth::from_bits_per_sec(rate));
            let (mut bytes, mut last) = (0u64, SimTime::ZERO);
            for _ in 0..500 {
                let size = 1 + rng.below(1_500);
                bytes += size;
                last = wire.occupy(SimTime::ZERO, size);
            }
            assert_eq!(last.as_nanos(), (bytes * 8_000_000_000).div_ceil(rate), "{rate} bit/s");
        }
    }

    #[test]
    fn an_idle_line_starts_at_once() {
        let mut wire = Wire::new(Bandwidth::from_bits_per_sec(1_000_000_000));
        assert_eq!(wire.occupy(SimTime::from_nanos(5_000), 1_500), SimTime::from_nanos(17_000));
        assert_eq!(wire.wait(SimTime::from_nanos(10_000)), SimDuration::from_nanos(7_000));
        assert_eq!(wire.occupy(SimTime::from_nanos(50_000), 1_500), SimTime::from_nanos(62_000));
    }
}
