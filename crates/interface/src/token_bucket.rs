//! Shadow's rate limit: a bucket of tokens, one for each byte, that is filled up once a millisecond.

use base::{Bandwidth, SimDuration, SimTime};

const REFILL_INTERVAL: SimDuration = SimDuration::from_millis(1);
/// What the bucket holds beyond one refill, so that no tokens run over that a whole packet could not use.
const BURST: u64 = crate::wire::MTU_BYTES;

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    capacity: u64,
    balance: u64,
    /// Tokens that come each millisecond: the rate in bytes, cut to whole ones, at least 1.
    refill: u64,
    /// Refills happen at whole milliseconds of simulated time; the last one that was looked at.
    last_refill: SimTime,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(rate: Bandwidth) -> TokenBucket {
        let refill = (rate.bits_per_sec() / 8 / 1_000).max(1);
        TokenBucket { capacity: refill + BURST, balance: refill + BURST, refill, last_refill: SimTime::ZERO }
    }

    /// Takes a token for each byte, or says when there will be enough of them. Calls must come in the order of time.
    pub(crate) fn take(&mut self, now: SimTime, bytes: u64) -> Result<(), SimTime> {
        let interval = REFILL_INTERVAL.as_nanos();
        let refills = now.saturating_since(self.last_refill).as_nanos() / interval;
        self.balance = self.balance.saturating_add(refills.saturating_mul(self.refill)).min(self.capacity);
        self.last_refill += SimDuration::from_nanos(refills * interval);
        if let Some(rest) = self.balance.checked_sub(bytes) {
            self.balance = rest;
            return Ok(());
        }
        let wanted = (bytes - self.balance).div_ceil(self.refill);
        Err(self.last_refill.saturating_add(REFILL_INTERVAL.saturating_mul(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::{ms, us};

    #[test]
    fn tokens_come_at_whole_milliseconds() {
        // 1 Mbit/s: 125 bytes a millisecond, and 1,500 more fit.
        let mut bucket = TokenBucket::new(Bandwidth::from_bits_per_sec(1_000_000));
        assert_eq!(bucket.take(us(300), 1_500), Ok(()));
        assert_eq!(bucket.take(us(300), 125), Ok(()));
        assert_eq!(bucket.take(us(300), 1), Err(ms(1)));
        assert_eq!(bucket.take(us(300), 125), Err(ms(1)));
        assert_eq!(bucket.take(us(300), 126), Err(ms(2)));
        assert_eq!(bucket.take(us(999), 1_500), Err(ms(12)));
        assert_eq!(bucket.take(ms(12), 1_500), Ok(()));
        assert_eq!(bucket.take(us(12_999), 40), Err(ms(13)));
    }

    #[test]
    fn the_bucket_holds_a_refill_and_a_packet() {
        let mut bucket = TokenBucket::new(Bandwidth::from_bits_per_sec(1_000_000));
        assert_eq!(bucket.take(ms(60_000), 1_626), Err(ms(60_001)));
        assert_eq!(bucket.take(ms(60_000), 1_625), Ok(()));
    }

    #[test]
    fn the_rate_is_cut_to_whole_bytes_a_millisecond() {
        // 1,007 bytes a second are one a millisecond, and so is everything slower.
        for bits in [8_056, 8_000, 1] {
            let mut bucket = TokenBucket::new(Bandwidth::from_bits_per_sec(bits));
            assert_eq!(bucket.take(SimTime::ZERO, 1_501), Ok(()), "{bits}");
            assert_eq!(bucket.take(SimTime::ZERO, 100), Err(ms(100)), "{bits}");
        }
    }
}
