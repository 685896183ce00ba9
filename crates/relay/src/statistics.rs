//! A line of JSON each second about what the relay holds.

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
    /// The channels to relays, in the order in which they came.
    pub by_channel: Vec<ChannelLine>,
    pub circuits: usize,
    pub streams: usize,
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
