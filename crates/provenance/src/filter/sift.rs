//! Takes out of a run's rows what a filter does not keep.
//!
//! A packet's two rows share one verdict; the one waits for the other where the expression needs both. Rows of writes, reads and the like wait
//! [`PATIENCE_NS`] of simulated time for a packet of their stream that is kept. All of it follows from the rows, window by window, so a filtered record
//! is the same for any number of workers, too.

use super::Filter;
use crate::identity::host_of;
use base::map::{FastMap, FastSet};
use probes::Rows;
use probes::choices::{SentFate, WokenBy};
use probes::tables::{HostName, Received, Sent};
use std::collections::VecDeque;

/// How long after a write or read a packet of its stream may come that is kept.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Verdicts: two bits for each packet that a host made.
#[derive(Debug, Default)]
struct Verdicts {
    hosts: FastMap<u64, Vec<u8>>,
}

impl Verdicts {
    const UNKNOWN: u8 = 0;
    const KEPT: u8 = 1;
    const DROPPED: u8 = 2;

    fn set(&mut self, packet: u64, keeps: bool) {
        let (host, count) = host_of(packet);
        let bits = self.hosts.entry(host).or_default();
        let (place, shift) = ((count / 4) as usize, count % 4 * 2);
        if bits.len() <= place {
            bits.resize((place + 1).next_power_of_two(), 0);
        }
        bits[place] = bits[place] & !(3 << shift) | if keeps { Self::KEPT } else { Self::DROPPED } << shift;
    }

    fn of(&self, packet: u64) -> u8 {
        let (host, count) = host_of(packet);
        let byte = self.hosts.get(&host).and_then(|bits| bits.get((count / 4) as usize));
        byte.map_or(Self::UNKNOWN, |byte| byte >> (count % 4 * 2) & 3)
    }
}

/// A filter at work.
#[derive(Debug)]
pub struct Sift {
    filter: Filter,
    hosts: Vec<HostName>,
    verdicts: Verdicts,
    /// Streams with a packet that was kept.
    streams: FastSet<u64>,
    sent: FastMap<u64, Sent>,
    received: FastMap<u64, Vec<Received>>,
    /// Rows that are about streams, with the time by which they came.
    held: VecDeque<(u64, Rows)>,
    now: u64,
    chosen: Chosen,
}

/// Packets that a filter has decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    pub packets: u64,
    pub kept: u64,
}

impl Sift {
    /// `hosts` are in their order.
    pub fn new(filter: Filter, hosts: Vec<HostName>) -> Sift {
        Sift {
            filter,
            hosts,
            verdicts: Verdicts::default(),
            streams: FastSet::default(),
            sent: FastMap::default(),
            received: FastMap::default(),
            held: VecDeque::new(),
            now: 0,
            chosen: Chosen::default(),
        }
    }

    /// Takes all rows of a window; gives those that are kept for certain.
    pub fn window(&mut self, mut rows: Rows) -> Rows {
        rows.expand();
        let mut kept = Rows { layers: rows.layers, links: rows.links, marks: rows.marks, ..Rows::default() };
        for sent in rows.sent.drain(..) {
            self.now = self.now.max(sent.made_ns);
            self.sent(sent, &mut kept);
        }
        for received in rows.received.drain(..) {
            self.received(received, &mut kept);
        }
        let times = rows.writes.iter().map(|write| write.at_ns).chain(rows.reads.iter().map(|read| read.at_ns));
        self.now = times.fold(self.now, u64::max);
        (rows.layers, rows.links, rows.marks) = Default::default();
        if !rows.is_empty() {
            self.held.push_back((self.now, rows));
        }
        while self.held.front().is_some_and(|(at, _)| at + PATIENCE_NS < self.now) {
            self.release(&mut kept);
        }
        kept
    }

    /// Nothing follows: the rest that is kept.
    pub fn finish(&mut self) -> Rows {
        let mut kept = Rows::default();
        let mut waiting: Vec<Sent> = std::mem::take(&mut self.sent).into_values().collect();
        waiting.sort_by_key(|sent| sent.packet);
        for sent in waiting {
            self.decide(sent, None, &mut kept);
        }
        while !self.held.is_empty() {
            self.release(&mut kept);
        }
        kept
    }

    /// What it has come to so far.
    pub fn chosen(&self) -> Chosen {
        self.chosen
    }

    fn sent(&mut self, sent: Sent, kept: &mut Rows) {
        let arrives = sent.fate == u64::from(SentFate::Carried) || sent.fate == u64::from(SentFate::Looped);
        if self.filter.needs_received() && arrives {
            match self.received.get(&sent.packet).and_then(|rows| rows.first()).cloned() {
                Some(received) => self.decide(sent, Some(&received), kept),
                None => {
                    self.sent.insert(sent.packet, sent);
                }
            }
        } else {
            self.decide(sent, None, kept);
        }
    }

    fn received(&mut self, received: Received, kept: &mut Rows) {
        match self.verdicts.of(received.packet) {
            Verdicts::KEPT => kept.received.push(received),
            Verdicts::DROPPED => {}
            _ => {
                let packet = received.packet;
                self.received.entry(packet).or_default().push(received);
                if let Some(sent) = self.sent.remove(&packet) {
                    let received = self.received.get(&packet).and_then(|rows| rows.first()).cloned();
                    self.decide(sent, received.as_ref(), kept);
                }
            }
        }
    }

    fn decide(&mut self, sent: Sent, received: Option<&Received>, kept: &mut Rows) {
        let keeps = self.filter.keeps(&self.hosts, &sent, received);
        self.verdicts.set(sent.packet, keeps);
        self.chosen.packets += 1;
        self.chosen.kept += u64::from(keeps);
        let waiting = self.received.remove(&sent.packet);
        if keeps {
            self.streams.insert(sent.stream);
            kept.received.extend(waiting.into_iter().flatten());
            kept.sent.push(sent);
        }
    }

    /// Decides about the oldest rows that wait.
    fn release(&mut self, kept: &mut Rows) {
        let Some((_, mut rows)) = self.held.pop_front() else { return };
        let streams = &self.streams;
        rows.writes.retain(|write| streams.contains(&write.stream));
        rows.reads.retain(|read| streams.contains(&read.stream));
        rows.streams.retain(|stream| streams.contains(&stream.stream));
        rows.tcp.retain(|tcp| streams.contains(&tcp.stream));
        let writes: FastSet<u64> = rows.writes.iter().map(|write| write.write).collect();
        rows.causes.retain(|cause| writes.contains(&cause.write));
        let of_writes = rows.writes.iter().map(|write| write.wake);
        let wakes: FastSet<u64> = of_writes.chain(rows.reads.iter().map(|read| read.wake)).collect();
        let verdicts = &self.verdicts;
        rows.costs.retain(|cost| verdicts.of(cost.packet) == Verdicts::KEPT);
        rows.wakes.retain(|wake| {
            let by_packet = wake.by == u64::from(WokenBy::Packet);
            wakes.contains(&wake.wake) || by_packet && verdicts.of(wake.source) == Verdicts::KEPT
        });
        kept.append(&mut rows);
    }
}
