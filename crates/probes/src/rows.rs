//! Rows on their way from hosts to the record.

use crate::tables::{Cause, Cost, LayerTime, Link, Mark, Read, Received, Sent, Stream, Tcp, Wake, Write};

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
    pub costs: Vec<Cost>,
    /// Of packets that left, or came, together: they are in no other list.
    pub sent_trains: Vec<Train<Sent>>,
    pub received_trains: Vec<Train<Received>>,
}

/// Packets whose rows follow from that of the first.
#[derive(Clone, Debug)]
pub struct Train<R> {
    pub first: R,
    pub segments: u32,
    /// The payload of each, and what the last one has less of it.
    pub mss: u32,
    pub last_lacks: u32,
    /// Flags that only the last one has.
    pub last_flags: u8,
}

impl Train<Sent> {
    /// The row of each packet.
    pub fn rows(&self) -> impl Iterator<Item = Sent> {
        (0..u64::from(self.segments)).map(|at| {
            let is_last = at + 1 == u64::from(self.segments);
            let lacks = if is_last { u64::from(self.last_lacks) } else { 0 };
            let flags = if is_last { u64::from(self.last_flags) } else { 0 };
            let first = &self.first;
            Sent {
                packet: first.packet + at,
                offset: first.offset + at * u64::from(self.mss),
                payload: first.payload - lacks,
                bytes: first.bytes - lacks,
                uplink_queue_bytes: first.uplink_queue_bytes + at * first.bytes,
                flags: first.flags | flags,
                ..first.clone()
            }
        })
    }
}

impl Train<Received> {
    /// The row of each packet.
    pub fn rows(&self) -> impl Iterator<Item = Received> {
        (0..u64::from(self.segments)).map(|at| Received {
            packet: self.first.packet + at,
            receive_queue_bytes: self.first.receive_queue_bytes + at * u64::from(self.mss),
            ..self.first.clone()
        })
    }
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
            + self.costs.len()
            + self.sent_trains.iter().map(|train| train.segments as usize).sum::<usize>()
            + self.received_trains.iter().map(|train| train.segments as usize).sum::<usize>()
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
            sent_trains: Vec::with_capacity(self.sent_trains.len()),
            received_trains: Vec::with_capacity(self.received_trains.len()),
            ..Rows::default()
        }
    }

    /// Puts a row for each packet of a train where the others are.
    pub fn expand(&mut self) {
        self.sent.extend(self.sent_trains.iter().flat_map(Train::<Sent>::rows));
        self.sent_trains.clear();
        self.received.extend(self.received_trains.iter().flat_map(Train::<Received>::rows));
        self.received_trains.clear();
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
        self.costs.append(&mut other.costs);
        self.sent_trains.append(&mut other.sent_trains);
        self.received_trains.append(&mut other.received_trains);
    }
}
