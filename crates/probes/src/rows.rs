//! Rows on their way from hosts to the record.

use crate::tables::{Cause, LayerTime, Link, Mark, Read, Received, Sent, Stream, Tcp, Wake, Write};

/// Rows of all tables that hosts fill, as one worker has gathered them.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub sent: Vec<Sent>,
    pub received: Vec<Received>,
    pub writes: Vec<Write>,
    pub reads: Vec<Read>,
    pub causes: Vec<Cause>,
    pub wakes: Vec<Wake>,
    pub streams: Vec<Stream>,
    pub tcp: Vec<Tcp>,
    pub layers: Vec<LayerTime>,
    pub links: Vec<Link>,
    pub marks: Vec<Mark>,
}

impl Rows {
    /// How many there are in all.
    pub fn len(&self) -> usize {
        self.sent.len()
            + self.received.len()
            + self.writes.len()
            + self.reads.len()
            + self.causes.len()
            + self.wakes.len()
            + self.streams.len()
            + self.tcp.len()
            + self.layers.len()
            + self.links.len()
            + self.marks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An empty one with room for as many rows of packets.
    #[must_use]
    pub fn as_large(&self) -> Rows {
        Rows {
            sent: Vec::with_capacity(self.sent.len()),
            received: Vec::with_capacity(self.received.len()),
            ..Rows::default()
        }
    }

    /// Takes all of the other's.
    pub fn append(&mut self, other: &mut Rows) {
        self.sent.append(&mut other.sent);
        self.received.append(&mut other.received);
        self.writes.append(&mut other.writes);
        self.reads.append(&mut other.reads);
        self.causes.append(&mut other.causes);
        self.wakes.append(&mut other.wakes);
        self.streams.append(&mut other.streams);
        self.tcp.append(&mut other.tcp);
        self.layers.append(&mut other.layers);
        self.links.append(&mut other.links);
        self.marks.append(&mut other.marks);
    }
}
