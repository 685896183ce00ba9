//! When packets of a Markov stream leave, and how the client tells the server: both ends of a stream use this.
//!
//! A delay counts from when the packet before was due. If that packet left much later (the connection was full), it counts from
//! when it left, as in tgen: a congested network slows a stream down, and no burst makes up for it afterwards.

use crate::clock::Time;
use std::time::Duration;

/// The size of every packet, as in tgen, which takes it as what a TCP segment carries.
pub const PACKET_BYTES: usize = 1434;

/// Packets that are due within this time leave together, which bounds how often a process wakes up; it is tgen's.
pub const TOGETHER: Duration = Duration::from_millis(10);

/// The moment from which the next delay counts.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    last: Time,
}

impl Pace {
    pub fn new(now: Time) -> Self {
        Pace { last: now }
    }

    /// When a packet with this delay is due.
    pub fn due(&self, delay: Duration) -> Time {
        self.last + delay
    }

    /// The packet with this delay leaves now.
    pub fn leave(&mut self, delay: Duration, now: Time) {
        let due = self.due(delay);
        self.last = if now > due + TOGETHER { now } else { due };
    }
}

/// Frames that a client sends on a stream: a byte for the kind, three for the length of what follows.
pub mod frame {
    /// Delays of packets of the server, each as a `varint` of microseconds after the packet before.
    pub const SCHEDULE: u8 = b'S';
    /// Content.
    pub const DATA: u8 = b'D';
    /// No frame follows.
    pub const END: u8 = b'E';
    /// Bytes of a frame before its content.
    pub const HEADER_BYTES: usize = 4;

    pub fn header(kind: u8, length: usize) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = (length as u32).to_be_bytes();
        [kind, a, b, c]
    }

    /// Kind and length.
    pub fn read_header(header: [u8; HEADER_BYTES]) -> (u8, usize) {
        let [kind, a, b, c] = header;
        (kind, u32::from_be_bytes([0, a, b, c]) as usize)
    }
}

/// Content bytes of a data frame that makes one packet.
pub const DATA_BYTES: usize = PACKET_BYTES - frame::HEADER_BYTES;

/// What the server says after its last packet: whether what it received was what the seed gives, and how much it was.
pub const TRAILER_BYTES: usize = 9;

pub fn trailer(verified: bool, received: u64) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    trailer[0] = if verified { b'V' } else { b'C' };
    trailer[1..].copy_from_slice(&received.to_be_bytes());
    trailer
}

/// The content of a direction follows from the stream's seed.
pub fn seeds(seed: u64) -> (u64, u64) {
    (crate::random::mix(seed ^ 1), crate::random::mix(seed ^ 2))
}

/// Appends a delay in microseconds: seven bits a byte, the lowest first, the top bit set on all but the last.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The first number and the bytes it takes. `None` if it is cut off or too long.
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn numbers_survive() {
        let mut bytes = Vec::new();
        let values = [0, 1, 127, 128, 600_000_000, (1 << 56) - 1];
        values.iter().for_each(|value| write_varint(&mut bytes, *value));
        let mut rest = bytes.as_slice();
        for value in values {
            let (read, length) = read_varint(rest).expect("a number");
            assert_eq!(read, value);
            rest = &rest[length..];
        }
        assert_eq!(read_varint(rest), None);
        assert_eq!(read_varint(&[0x80; 20]), None);
        assert_eq!(frame::read_header(frame::header(frame::DATA, 70_000)), (frame::DATA, 70_000));
    }

    #[test]
    fn small_lateness_does_not_add_up_and_great_lateness_moves_the_rest() {
        let start = clock::now();
        let ms = Duration::from_millis;
        let mut pace = Pace::new(start);
        pace.leave(ms(100), start + ms(101));
        assert_eq!(pace.due(ms(50)), start + ms(150));
        pace.leave(ms(50), start + ms(500));
        assert_eq!(pace.due(ms(50)), start + ms(550));
        // A packet that leaves with one that was due before keeps its own time.
        pace.leave(ms(50), start + ms(545));
        assert_eq!(pace.due(ms(0)), start + ms(550));
    }
}
