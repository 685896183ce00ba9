//! A record for viewers of others: Perfetto's traces and OpenTelemetry's spans.

pub mod otlp;
pub mod perfetto;

use crate::error::{Error, Result};
use crate::identity::{COUNT_BITS, host_of};
use crate::read::{ANY, Record};
use base::map::{FastMap, FastSet};
use probes::Level;
use probes::choices::Layer;
use probes::tables::{Cause, Read, Received, Sent, Write};
use std::ops::RangeInclusive;
use std::path::Path;

/// Packets that are exported unless more are asked for: viewers have trouble with more.
pub const MOST_PACKETS: usize = 200_000;

/// The IP protocol's number.
const TCP: u64 = 6;

/// A packet's first byte was written with an earlier call than its last, or with the same: hardly so much earlier.
const WRITTEN_BEFORE_NS: u64 = 10_000_000_000;

/// What is exported.
#[derive(Clone, Debug)]
pub struct Part {
    /// Packets that were made in this time, in nanoseconds.
    pub made: RangeInclusive<u64>,
    /// Packets that one of these hosts made, or received; of all hosts if there is none.
    pub hosts: Vec<u64>,
    /// Most packets, or it is refused.
    pub most: usize,
}

impl Default for Part {
    fn default() -> Part {
        Part { made: ANY, hosts: Vec::new(), most: MOST_PACKETS }
    }
}

/// What an export counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub packets: usize,
    pub slices: usize,
    pub causes: usize,
}

/// The rows of a part, in memory.
struct Rows {
    sent: Vec<Sent>,
    received: FastMap<u64, Vec<Received>>,
    writes: Vec<Write>,
    reads: Vec<Read>,
    causes: Vec<Cause>,
}

/// A packet's stay in a layer of a host.
struct Slice {
    packet: u64,
    layer: Layer,
    host: u64,
    from_ns: u64,
    ns: u64,
}

fn gather(record: &Record, part: &Part, file: &Path) -> Result<Rows> {
    record.demand(Level::Packets, "packets")?;
    let made = ("made_ns", part.made.clone());
    let mut sent: Vec<Sent> = Vec::new();
    let mut add = |rows: Vec<Sent>| sent.extend(rows);
    if part.hosts.is_empty() {
        add(record.rows(ANY, &[made], part.most + 1)?);
    } else {
        for &host in &part.hosts {
            let numbers = host << COUNT_BITS..=((host + 1) << COUNT_BITS) - 1;
            add(record.rows(numbers, std::slice::from_ref(&made), part.most + 1)?);
            add(record.rows(ANY, &[made.clone(), ("to_host", host..=host)], part.most + 1)?);
        }
    }
    sent.sort_by_key(|sent| sent.packet);
    sent.dedup();
    if sent.len() > part.most {
        let cause = format!(
            "these are more than {} packets; choose some with --from, --until and --host, or allow more with --most",
            part.most
        );
        return Err(Error::new("export to", file, cause));
    }
    let mut received: FastMap<u64, Vec<Received>> = FastMap::default();
    if let (Some(first), Some(last)) = (sent.first(), sent.last()) {
        let mut index = 0;
        for row in record.rows::<Received>(first.packet..=last.packet, &[], usize::MAX)? {
            while index < sent.len() && sent[index].packet < row.packet {
                index += 1;
            }
            if sent.get(index).is_some_and(|sent| sent.packet == row.packet) {
                received.entry(row.packet).or_default().push(row);
            }
        }
    }
    let mut rows = Rows { sent, received, writes: Vec::new(), reads: Vec::new(), causes: Vec::new() };
    if record.level >= Level::All {
        rows.add_causes(record)?;
    }
    Ok(rows)
}

impl Rows {
    /// What programs wrote of these packets, which reads took them, and which write follows from which of those reads.
    fn add_causes(&mut self, record: &Record) -> Result<()> {
        let carried = Carried::by(&self.sent);
        let written = self.sent.iter().map(|sent| sent.made_ns.saturating_sub(sent.socket_ns)).min().unwrap_or(0);
        let made = self.sent.iter().map(|sent| sent.made_ns).max().unwrap_or(0);
        let at = [("at_ns", written.saturating_sub(WRITTEN_BEFORE_NS)..=made)];
        self.writes = record.rows(ANY, &at, usize::MAX)?;
        self.writes.retain(|write| carried.has(write));

        let mut taken: Vec<u64> =
            self.received.values().flatten().map(|received| received.read).filter(|read| *read != 0).collect();
        taken.sort_unstable();
        taken.dedup();
        if let (Some(first), Some(last)) = (taken.first(), taken.last()) {
            self.reads = record.rows(*first..=*last, &[("at_ns", written..=u64::MAX)], usize::MAX)?;
            self.reads.retain(|read| taken.binary_search(&read.read).is_ok());
        }
        self.causes = record.rows(ANY, &[], usize::MAX)?;
        let has_write = |id: u64| self.writes.binary_search_by_key(&id, |write| write.write).is_ok();
        let has_read = |id: u64| self.reads.binary_search_by_key(&id, |read| read.read).is_ok();
        self.causes.retain(|cause| has_write(cause.write) && has_read(cause.read));
        Ok(())
    }
}

/// The bytes of streams that packets carried.
struct Carried {
    /// By stream, from where to where, in order and apart.
    spans: FastMap<u64, Vec<(u64, u64)>>,
    /// Datagrams: stream, and the number of the whole packet.
    datagrams: FastSet<(u64, u64)>,
}

impl Carried {
    fn by(sent: &[Sent]) -> Carried {
        let mut carried = Carried { spans: FastMap::default(), datagrams: FastSet::default() };
        for sent in sent {
            if sent.protocol == TCP {
                carried.spans.entry(sent.stream).or_default().push((sent.offset, sent.offset + sent.payload));
            } else {
                carried.datagrams.insert((sent.stream, sent.offset));
            }
        }
        for spans in carried.spans.values_mut() {
            spans.sort_unstable();
            spans.dedup_by(|next, last| {
                let goes_on = next.0 <= last.1;
                last.1 = if goes_on { last.1.max(next.1) } else { last.1 };
                goes_on
            });
        }
        carried
    }

    /// Whether one of the packets carried something of a write.
    fn has(&self, write: &Write) -> bool {
        let Some(spans) = self.spans.get(&write.stream) else {
            return self.datagrams.contains(&(write.stream, write.offset));
        };
        let first = spans.partition_point(|(_, end)| *end <= write.offset);
        spans.get(first).is_some_and(|(start, _)| *start < write.offset + write.bytes)
    }
}

impl Rows {
    /// All stays of a packet, in the order of its way. Empty ones are left out.
    fn slices(&self, sent: &Sent) -> Vec<Slice> {
        let (packet, host) = (sent.packet, host_of(sent.packet).0);
        let mut slices = Vec::new();
        let mut add = |layer, host, from_ns, ns| {
            if ns > 0 {
                slices.push(Slice { packet, layer, host, from_ns, ns });
            }
        };
        add(Layer::Socket, host, sent.made_ns - sent.socket_ns.min(sent.made_ns), sent.socket_ns);
        add(Layer::Uplink, host, sent.made_ns, sent.uplink_ns);
        add(Layer::Route, host, sent.made_ns + sent.uplink_ns, sent.route_ns);
        for received in self.received.get(&packet).into_iter().flatten() {
            let mut at = received.arrived_ns;
            let layers = [
                (Layer::Downlink, received.downlink_ns),
                (Layer::Reassembly, received.reassembly_ns),
                (Layer::ReceiveQueue, received.receive_queue_ns),
            ];
            for (layer, ns) in layers {
                add(layer, received.host, at, ns);
                at += ns;
            }
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Scenario, record};

    #[test]
    fn a_part_has_the_writes_and_reads_of_its_packets_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let scenario = Scenario { packets: 20_000, hosts: 8, loss: 0.02, level: Level::All, ..Scenario::default() };
        record(&scenario, &folder.path().join(crate::FOLDER)).unwrap();
        let record = Record::open(folder.path()).unwrap();
        let all = gather(&record, &Part::default(), folder.path()).unwrap();
        let end = all.sent.iter().map(|sent| sent.made_ns).max().unwrap() / 10;
        let part = gather(&record, &Part { made: 0..=end, ..Part::default() }, folder.path()).unwrap();

        let has = |sent: &Sent, write: &Write| {
            let is_within = sent.offset < write.offset + write.bytes && write.offset < sent.offset + sent.payload;
            sent.stream == write.stream && if sent.protocol == TCP { is_within } else { sent.offset == write.offset }
        };
        let carried = all.writes.iter().filter(|write| part.sent.iter().any(|sent| has(sent, write))).count();
        assert_eq!(part.writes.len(), carried);
        let taken = |read: u64| part.received.values().flatten().any(|received| received.read == read);
        assert!(!part.reads.is_empty() && part.reads.iter().all(|read| taken(read.read)));
        // The first tenth of the time has more than a tenth of the packets, since circuits begin then.
        let sizes = |rows: &Rows| [rows.writes.len(), rows.reads.len(), rows.causes.len()];
        let (of_part, of_all) = (sizes(&part), sizes(&all));
        assert!(of_part.iter().zip(of_all).all(|(part, all)| *part > 0 && part * 3 < all), "{of_part:?} of {of_all:?}");
    }
}
