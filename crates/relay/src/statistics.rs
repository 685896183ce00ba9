//! A line of JSON each second about what the relay holds.

use onion::circuit::vegas::Vegas;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct Line {
    /// Seconds since 1970, with parts.
    pub time: f64,
    pub channels: usize,
    /// Whose other end is a relay that has proven who it is.
    pub relays: usize,
    /// Connections of all channels, with those that are being opened or closed.
    pub connections: usize,
    /// Connections made and taken since the relay began.
    pub connections_ever: u64,
    /// Sockets that it opened to others since it began, and seconds that the system took for it.
    pub opened: u64,
    pub opening_s: f64,
    /// The channels to relays, in the order in which they came.
    pub by_channel: Vec<ChannelLine>,
    pub circuits: usize,
    pub streams: usize,
    /// Bytes in the bodies of RELAY cells that were passed on from one end of a circuit to the other, both ways, since the relay began. Cells
    /// that this relay answers itself are not in it, nor RELAY_EARLY, so circuits that are built and say nothing add nothing.
    pub relayed_bytes: u64,
    /// What defences have refused since the relay began: what went beyond its rate, or lacked a socket; circuits for puzzles that were not solved
    /// and for too many RELAY_EARLY cells; connections whose handshakes were given up; streams to other relays.
    pub refused_circuits: u64,
    pub refused_connections: u64,
    pub refused_streams: u64,
    #[serde(flatten)]
    pub congestion: Congestion,
    #[serde(flatten)]
    pub stops: Stops,
    /// Cells that wait in all circuits' queues.
    pub cells_queued: usize,
    /// Cells that came and wait for others of their circuits that took another connection.
    pub cells_held: usize,
    /// Segments that the kernel has sent again on the connections that are open now.
    pub retransmissions: u64,
    /// Cells that the busiest circuit has sent one way of late, by an exponential mean with a half-life of 30 s.
    pub ewma_most: f64,
    /// Open files, sockets among them.
    pub descriptors: usize,
}

/// A channel to a relay.
#[derive(Debug, Serialize)]
pub struct ChannelLine {
    /// The first eight digits of the relay's fingerprint.
    pub peer: String,
    pub connections: usize,
    pub circuits: usize,
    /// Those that IMUX counts.
    pub active: usize,
}

/// Streams of circuits with congestion control that were stopped, since the relay began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stops {
    /// XOFFs for clients, and from them.
    pub xoff_sent: u64,
    pub xoff_heard: u64,
}

/// Of circuits with congestion control that end here; means are 0 where there is nothing to take them of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Congestion {
    /// How many there are.
    pub controlled: usize,
    /// The mean of their windows, in cells.
    pub window_mean: f64,
    /// The means of their mean and of their shortest round trips, in milliseconds.
    pub round_trip_ms: f64,
    pub round_trip_least_ms: f64,
}

impl Congestion {
    pub fn of<'a>(circuits: impl Iterator<Item = &'a Vegas>) -> Congestion {
        let (mut controlled, mut measured, mut window, mut round_trip_us, mut least_us) = (0, 0, 0, 0, 0);
        for vegas in circuits {
            controlled += 1;
            window += vegas.window();
            if let Some(trip) = vegas.round_trip() {
                measured += 1;
                round_trip_us += trip.mean_us;
                least_us += trip.least_us;
            }
        }
        let mean = |sum: u64, count: usize| sum as f64 / count.max(1) as f64;
        Congestion {
            controlled,
            window_mean: mean(window, controlled),
            round_trip_ms: mean(round_trip_us, measured) / 1000.0,
            round_trip_least_ms: mean(least_us, measured) / 1000.0,
        }
    }
}

pub struct Statistics {
    file: File,
    pub due_ms: u64,
}

impl Statistics {
    pub fn open(path: &Path) -> Result<Statistics, String> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Statistics { file: file.map_err(|error| format!("{}: {error}", path.display()))?, due_ms: 0 })
    }

    pub fn write(&mut self, line: &Line, now_ms: u64) -> Result<(), String> {
        self.due_ms = (now_ms / 1000 + 1) * 1000;
        let mut text = serde_json::to_string(line).expect("numbers");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|error| format!("statistics: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onion::circuit::vegas::{LocalQueue, VegasParameters};
    use onion::directory::ConsensusParameters;

    #[test]
    fn means_are_of_circuits_that_have_been_measured() {
        let fresh = Vegas::new(VegasParameters::of_exit(&ConsensusParameters::default()), 31);
        let mut used = fresh.clone();
        let due = (0..124).filter(|_| used.sent(0)).count();
        assert_eq!(due, 4);
        used.acknowledged(80_000, LocalQueue::default()).unwrap();
        let congestion = Congestion::of([&fresh, &used].into_iter());
        // Windows of 124 and 155 cells.
        let expected = Congestion { controlled: 2, window_mean: 139.5, round_trip_ms: 80.0, round_trip_least_ms: 80.0 };
        assert_eq!(congestion, expected);
        assert_eq!(Congestion::of(std::iter::empty()), Congestion::default());
    }
}
