//! All that became of a write, or of a packet that nobody wrote: its segments, what was sent again, fragments, messages about them, and the reads
//! that took them.

use super::{ANY, Record};
use crate::error::Result;
use crate::identity::{COUNT_BITS, host_of, number};
use base::map::FastSet;
use probes::Level;
use probes::choices::Layer;
use probes::tables::{Cause, Read, Received, Sent, Write};
use std::ops::RangeInclusive;

/// Packets of a write that are looked for; a write by sendfile may have thousands.
const MOST_PACKETS: usize = 4096;
/// Bytes of payload that a packet has at most: how far before a write a segment of it may begin.
const MOST_PAYLOAD: u64 = 1 << 16;
/// How long a write may be.
const MOST_WRITTEN: u64 = 1 << 31;

/// A packet with what hangs on it.
#[derive(Clone, Debug)]
pub struct Node {
    pub sent: Sent,
    /// One for each host that it reached.
    pub received: Vec<Received>,
    /// Packets that carry its bytes again.
    pub copies: Vec<Node>,
    pub fragments: Vec<Node>,
    /// ICMP messages and resets that answer it.
    pub answers: Vec<Node>,
}

#[derive(Clone, Debug)]
pub struct Tree {
    /// The packet that was asked for.
    pub asked: u64,
    pub write: Option<Write>,
    /// What the write can follow from.
    pub causes: Vec<(Cause, Option<Read>)>,
    pub packets: Vec<Node>,
    pub reads: Vec<Read>,
    /// What can follow from these reads.
    pub effects: Vec<(Cause, Option<Write>)>,
}

/// A packet's stay in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    pub layer: Layer,
    /// The host; of a route the one that sent.
    pub host: u64,
    pub from_ns: u64,
    pub ns: u64,
}

/// All numbers that a host gives.
fn of_host(host: u64) -> RangeInclusive<u64> {
    number(host, 0)..=number(host, (1 << COUNT_BITS) - 1)
}

/// The numbers between the least and the greatest.
fn span(numbers: impl Iterator<Item = u64> + Clone) -> RangeInclusive<u64> {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(greatest)) => least..=greatest,
        // Nothing has this number.
        _ => 0..=0,
    }
}

impl Node {
    fn new(sent: Sent) -> Node {
        Node { sent, received: Vec::new(), copies: Vec::new(), fragments: Vec::new(), answers: Vec::new() }
    }

    /// The node and all that hang on it, in the order in which they are told.
    pub fn all(&self) -> Vec<&Node> {
        let below = self.fragments.iter().chain(&self.copies).chain(&self.answers);
        std::iter::once(self).chain(below.flat_map(Node::all)).collect()
    }

    fn visit(&mut self, action: &mut impl FnMut(&mut Node)) {
        action(self);
        let below = self.fragments.iter_mut().chain(&mut self.copies).chain(&mut self.answers);
        below.for_each(|node| node.visit(action));
    }

    /// Its stays in the layers, in order; those at a receiver for the host with index `place` in [`Node::received`].
    pub fn stays(&self, place: usize) -> Vec<Stay> {
        let sent = &self.sent;
        let host = host_of(sent.packet).0;
        let mut stays = Vec::new();
        let mut at = sent.made_ns.saturating_sub(sent.socket_ns);
        let mut stay = |layer, host, ns: u64| {
            stays.push(Stay { layer, host, from_ns: at, ns });
            at += ns;
        };
        stay(Layer::Socket, host, sent.socket_ns);
        stay(Layer::Uplink, host, sent.uplink_ns);
        if let Some(received) = self.received.get(place) {
            stay(Layer::Route, host, sent.route_ns);
            stay(Layer::Downlink, received.host, received.downlink_ns);
            stay(Layer::Reassembly, received.host, received.reassembly_ns);
            stay(Layer::ReceiveQueue, received.host, received.receive_queue_ns);
        }
        stays
    }
}

impl Record {
    /// The packets whose numbers lie in a range, at most `most`.
    ///
    /// # Errors
    /// When the record has no packets, or cannot be read.
    pub fn packets(&self, numbers: RangeInclusive<u64>, most: usize) -> Result<Vec<Sent>> {
        self.demand(Level::Packets, "packets")?;
        self.rows(numbers, &[], most)
    }

    /// The tree that a packet belongs to.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn tree(&self, asked: &Sent) -> Result<Tree> {
        let origin = self.origin(asked.clone())?;
        let host = of_host(host_of(origin.packet).0);
        let write = self.write(&origin, host.clone())?;
        let mut packets = nodes(self.of_write(&origin, write.as_ref(), host)?);
        if !packets.iter().any(|node| node.all().iter().any(|node| node.sent.packet == origin.packet)) {
            packets.push(Node::new(origin));
        }
        self.answers(&mut packets)?;
        let received = self.receive(&mut packets)?;
        let causes = match &write {
            Some(write) => self.causes(write)?,
            None => Vec::new(),
        };
        let ids: FastSet<u64> = received.into_iter().filter(|read| *read != 0).collect();
        let mut reads: Vec<Read> = self.rows(span(ids.iter().copied()), &[], usize::MAX)?;
        reads.retain(|read| ids.contains(&read.read));
        let effects = self.effects(&ids)?;
        Ok(Tree { asked: asked.packet, write, causes, packets, reads, effects })
    }

    /// What a packet is a fragment or copy of, or an answer to.
    fn origin(&self, mut sent: Sent) -> Result<Sent> {
        for _ in 0..64 {
            let of = [sent.parent, sent.copy_of, sent.quotes].into_iter().find(|of| *of != 0);
            let Some(of) = of else { break };
            match self.rows::<Sent>(of..=of, &[], 1)?.pop() {
                Some(origin) => sent = origin,
                None => break,
            }
        }
        Ok(sent)
    }

    fn write(&self, origin: &Sent, host: RangeInclusive<u64>) -> Result<Option<Write>> {
        if origin.payload == 0 {
            return Ok(None);
        }
        let offset = origin.offset;
        let tests =
            [("stream", origin.stream..=origin.stream), ("offset", offset.saturating_sub(MOST_WRITTEN)..=offset)];
        let writes = self.rows::<Write>(host, &tests, usize::MAX)?;
        // Bytes of datagrams have no places; the number of the packet must be the same.
        let has = |write: &Write| write.offset == offset || origin.protocol == 6 && offset < write.offset + write.bytes;
        Ok(writes.into_iter().rev().find(has))
    }

    /// The packets that carry a write's bytes, or those of the packet where nobody wrote it.
    fn of_write(&self, origin: &Sent, write: Option<&Write>, host: RangeInclusive<u64>) -> Result<Vec<Sent>> {
        if origin.payload == 0 {
            return Ok(vec![origin.clone()]);
        }
        let offsets = match write {
            Some(write) if origin.protocol == 6 => {
                write.offset.saturating_sub(MOST_PAYLOAD)..=write.offset + write.bytes.max(1) - 1
            }
            _ => origin.offset..=origin.offset,
        };
        let tests = [("stream", origin.stream..=origin.stream), ("offset", offsets), ("payload", 1..=u64::MAX)];
        let mut packets = self.rows::<Sent>(host, &tests, MOST_PACKETS)?;
        if let Some(write) = write.filter(|_| origin.protocol == 6) {
            packets.retain(|sent| sent.offset + sent.payload > write.offset);
        }
        Ok(packets)
    }

    /// Hangs what answers packets on them.
    fn answers(&self, packets: &mut [Node]) -> Result<()> {
        let ids: Vec<(u64, u64)> =
            packets.iter().flat_map(Node::all).map(|node| (node.sent.packet, node.sent.to_host)).collect();
        let hosts: FastSet<u64> = ids.iter().map(|(_, host)| *host).collect();
        for host in hosts {
            let quoted = span(ids.iter().map(|(packet, _)| *packet));
            for answer in self.rows::<Sent>(of_host(host), &[("quotes", quoted.clone())], MOST_PACKETS)? {
                for node in packets.iter_mut() {
                    node.visit(&mut |node| {
                        if node.sent.packet == answer.quotes {
                            node.answers.push(Node::new(answer.clone()));
                        }
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds what receivers know; the reads that took bytes.
    fn receive(&self, packets: &mut [Node]) -> Result<Vec<u64>> {
        let mut ids: Vec<u64> = packets.iter().flat_map(Node::all).map(|node| node.sent.packet).collect();
        ids.sort_unstable();
        let mut rows: Vec<Received> = Vec::new();
        // Answers are other hosts' packets.
        for ids in ids.chunk_by(|a, b| host_of(*a).0 == host_of(*b).0) {
            rows.extend(self.rows::<Received>(span(ids.iter().copied()), &[], usize::MAX)?);
        }
        let mut reads = Vec::new();
        for node in packets {
            node.visit(&mut |node| {
                node.received = rows.iter().filter(|row| row.packet == node.sent.packet).cloned().collect();
                reads.extend(node.received.iter().map(|row| row.read));
            });
        }
        Ok(reads)
    }

    fn causes(&self, write: &Write) -> Result<Vec<(Cause, Option<Read>)>> {
        let causes = self.rows::<Cause>(write.write..=write.write, &[], MOST_PACKETS)?;
        let with_read = |cause: Cause| {
            let read = self.rows(cause.read..=cause.read, &[], 1)?.pop();
            Ok((cause, read))
        };
        causes.into_iter().map(with_read).collect()
    }

    fn effects(&self, reads: &FastSet<u64>) -> Result<Vec<(Cause, Option<Write>)>> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        // A write stands on the host that has read.
        let hosts = span(reads.iter().map(|read| host_of(*read).0));
        let keys = *of_host(*hosts.start()).start()..=*of_host(*hosts.end()).end();
        let tests = [("read", span(reads.iter().copied()))];
        let mut causes = self.rows::<Cause>(if reads.len() == 1 { keys } else { ANY }, &tests, usize::MAX)?;
        causes.retain(|cause| reads.contains(&cause.read));
        causes.truncate(64);
        let with_write = |cause: Cause| {
            let write = self.rows(cause.write..=cause.write, &[], 1)?.pop();
            Ok((cause, write))
        };
        causes.into_iter().map(with_write).collect()
    }
}

/// Packets under those that they are copies or fragments of.
fn nodes(mut packets: Vec<Sent>) -> Vec<Node> {
    packets.sort_by_key(|sent| (sent.copy_of, sent.packet));
    let mut roots: Vec<Node> = Vec::new();
    // Later copies may be copies of copies: what is last made is hung up first.
    let mut all: Vec<Node> = packets.into_iter().map(Node::new).collect();
    all.sort_by_key(|node| node.sent.packet);
    while let Some(node) = all.pop() {
        let (parent, copy_of) = (node.sent.parent, node.sent.copy_of);
        let of = if parent != 0 { parent } else { copy_of };
        match all.iter_mut().find(|other| of != 0 && other.sent.packet == of) {
            Some(other) if parent != 0 => other.fragments.insert(0, node),
            Some(other) => other.copies.insert(0, node),
            None => roots.insert(0, node),
        }
    }
    roots
}
