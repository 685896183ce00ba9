//! Processor time of the machine that a few packets take, layer by layer. It is as it is: no two runs have the same.

use super::Trace;
use crate::choices::Layer;
use crate::table::tell;
use crate::tables::Cost;

/// One packet of so many is measured, or one train: a power of two.
const SAMPLED: u64 = 256;

/// A clock of the processor time of the thread that asks, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    read: fn() -> u64,
    /// What asking twice takes by itself.
    overhead: u64,
}

impl Clock {
    pub fn new(read: fn() -> u64) -> Clock {
        const PAIRS: usize = 100;
        let pair = |_| {
            let before = read();
            read().saturating_sub(before)
        };
        Clock { read, overhead: (0..PAIRS).map(pair).min().unwrap_or(0) }
    }
}

/// A layer has begun to work for a packet that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    packet: u64,
    at: u64,
}

/// Whether a packet is measured. One of each row of numbers is, at a place that looks like chance: packets often come in turns.
fn is_sampled(number: u64) -> bool {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let scattered = (number / SAMPLED).wrapping_add(1).wrapping_mul(ODD);
    number % SAMPLED == scattered >> (u64::BITS - SAMPLED.trailing_zeros())
}

impl Trace {
    /// From now on a few packets are measured.
    pub fn measure(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// A layer begins to work for a packet, or for a train that begins with it; Some if it is measured.
    #[inline]
    pub fn begin_work(&self, packet: u64) -> Option<Begun> {
        let clock = self.clock.filter(|_| is_sampled(packet))?;
        Some(Begun { packet, at: (clock.read)() })
    }

    /// It has done so, for so many packets together.
    #[inline]
    pub fn end_work(&mut self, begun: Option<Begun>, layer: Layer, packets: u64) {
        if let Some(begun) = begun {
            self.note_work(begun, layer, packets);
        }
    }

    #[cold]
    fn note_work(&mut self, Begun { packet, at }: Begun, layer: Layer, packets: u64) {
        let Some(clock) = self.clock else { return };
        let together = (clock.read)().saturating_sub(at).saturating_sub(clock.overhead);
        let host_ns = together / packets.max(1);
        tell(&mut self.rows.costs, Cost { packet, layer: layer.into(), host_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;
    use crate::trace::first_number;
    use base::HostId;
    use std::cell::Cell;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    /// Moves by 7 each time it is read.
    fn clock() -> u64 {
        NOW.set(NOW.get() + 7);
        NOW.get()
    }

    #[test]
    fn one_packet_of_each_row_is_measured_at_no_regular_place() {
        let first = first_number(HostId(3));
        let sampled: Vec<u64> = (first..first + 64 * SAMPLED).filter(|number| is_sampled(*number)).collect();
        assert!((63..=65).contains(&sampled.len()), "{}", sampled.len());
        let odd = sampled.iter().filter(|number| *number % 2 == 1).count();
        assert!((16..=48).contains(&odd), "{odd} of {} are odd", sampled.len());
    }

    #[test]
    fn a_packet_has_its_share_of_what_its_train_took() {
        let mut trace = Trace::new(HostId(0), Level::Packets);
        let number = (1..).find(|number| is_sampled(*number)).unwrap();
        assert!(trace.begin_work(number).is_none(), "nobody measures");
        trace.measure(Clock::new(clock));
        assert!(trace.begin_work(number + 1).is_none());
        let begun = trace.begin_work(number);
        NOW.set(NOW.get() + 300);
        trace.end_work(begun, Layer::Uplink, 3);
        trace.end_work(None, Layer::Route, 1);
        let costs = trace.take_rows().costs;
        assert_eq!(costs, [Cost { packet: number, layer: Layer::Uplink.into(), host_ns: 100 }]);
    }
}
