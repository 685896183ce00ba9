//! Quantities as types: bits per second and bytes never meet as bare integers.

use crate::time::SimDuration;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

impl Bandwidth {
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Bandwidth(bits)
    }
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }
    /// How long `bytes` take on the wire, rounded up to a nanosecond. Never, at 0 bit/s.
    pub fn transmission_time(self, bytes: u64) -> SimDuration {
        if self.0 == 0 {
            return SimDuration::MAX;
        }
        if let Some(bit_ns) = bytes.checked_mul(8_000_000_000) {
            return SimDuration::from_nanos(bit_ns.div_ceil(self.0));
        }
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        SimDuration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b >= 1_000_000_000 => write!(f, "{} Gbit", b as f64 / 1e9),
            b if b >= 1_000_000 => write!(f, "{} Mbit", b as f64 / 1e6),
            b if b >= 1_000 => write!(f, "{} Kbit", b as f64 / 1e3),
            b => write!(f, "{b} bit"),
        }
    }
}

impl fmt::Debug for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Debug for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
