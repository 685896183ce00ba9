//! How much KIST hands to the kernel at a time, in two versions.

/// How KIST reckons what the kernel can send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KistFormula {
    /// What TCP's window and the kernel's buffer have room for, and on all connections what the line carries in an interval.
    Of2014,
    /// What the window has room for and a window more, less what is not yet sent: tor's.
    #[default]
    Of2018,
}

impl KistFormula {
    pub fn read(year: &str) -> Option<KistFormula> {
        match year {
            "2014" => Some(KistFormula::Of2014),
            "2018" => Some(KistFormula::Of2018),
            _ => None,
        }
    }

    /// Between two runs, in milliseconds, if the torrc says nothing: as published, and tor's since 0.4.8.
    pub fn interval_ms(self) -> u64 {
        match self {
            KistFormula::Of2014 => 10,
            KistFormula::Of2018 => 2,
        }
    }
}

/// What KIST of 2014 may write in all: as many bytes as the line carries, saved for an interval, or for this much if that is less.
const LEAST_SAVED: u64 = 32 * 1024;

/// A bucket of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokens {
    bytes: u64,
    filled_ms: u64,
}

impl Tokens {
    /// Adds what a line of so many bytes per second has carried since the last time.
    pub fn fill(&mut self, rate: u64, interval_ms: u64, now_ms: u64) {
        let most = (rate.saturating_mul(interval_ms) / 1000).max(LEAST_SAVED);
        let more = rate.saturating_mul(now_ms - self.filled_ms) / 1000;
        *self = Tokens { bytes: self.bytes.saturating_add(more).min(most), filled_ms: now_ms };
    }

    /// Whether there were so many bytes; they are gone.
    pub fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes as u64);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_given_more_than_it_carries() {
        let mut tokens = Tokens::default();
        assert!(!tokens.take(1));
        tokens.fill(10_000_000, 10, 10);
        assert!(tokens.take(60_000) && tokens.take(40_000) && !tokens.take(1), "ten milliseconds of it");
        tokens.fill(10_000_000, 10, 1_000);
        assert!(tokens.take(100_000) && !tokens.take(1), "no more is saved");
        tokens.fill(1_000, 10, 100_000);
        assert!(tokens.take(32_768) && !tokens.take(1), "but that much on slow lines");
    }
}
