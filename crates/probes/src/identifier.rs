//! What else identifies a packet beside its number, to measure what that would cost.

use base::SimTime;
use std::hint::black_box;
use uuid::{Timestamp, Uuid};

/// What is made for each packet that leaves. A packet's name is always its number; the rest is made and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Identifiers {
    /// Nothing more.
    #[default]
    Number,
    /// A UUID of version 1 (RFC 9562, section 5.1): simulated time, the packet's number and the host.
    Uuid1,
    /// A UUID of version 5 (section 5.5): SHA-1 of the packet's number.
    Uuid5,
}

impl Identifiers {
    /// Makes those of so many packets of a host, whose numbers begin with `first`.
    #[inline]
    pub(crate) fn make(self, host: u64, now: SimTime, first: u64, count: u64) {
        if self != Identifiers::Number {
            for number in first..first + count {
                black_box(self.uuid(host, now, number));
            }
        }
    }

    fn uuid(self, host: u64, now: SimTime, number: u64) -> Uuid {
        if self == Identifiers::Uuid5 {
            return Uuid::new_v5(&Uuid::NAMESPACE_OID, &number.to_le_bytes());
        }
        let (seconds, nanoseconds) = (now.as_nanos() / 1_000_000_000, (now.as_nanos() % 1_000_000_000) as u32);
        let [.., a, b, c, d, e, f] = host.to_be_bytes();
        // Fourteen bits tell the packets of one moment apart.
        Uuid::new_v1(Timestamp::from_unix_time(seconds, nanoseconds, number.into(), 14), &[a, b, c, d, e, f])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_version_and_differ() {
        let now = SimTime::from_nanos(1_234_567_890);
        for (kind, version) in [(Identifiers::Uuid1, 1), (Identifiers::Uuid5, 5)] {
            let two = [1, 2].map(|number| kind.uuid(7, now, number));
            assert!(two[0] != two[1] && two.iter().all(|uuid| uuid.get_version_num() == version), "{two:?}");
        }
        let other = Identifiers::Uuid1.uuid(8, now, 1);
        assert_ne!(other, Identifiers::Uuid1.uuid(7, now, 1), "of another host");
        assert_ne!(other, Identifiers::Uuid1.uuid(8, SimTime::from_nanos(5_000_000_000), 1), "of another time");
    }
}
