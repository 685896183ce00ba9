//! A record for viewers of others: Perfetto's traces and OpenTelemetry's spans.

pub mod otlp;
pub mod perfetto;

use crate::error::{Error, Result};
use crate::identity::{COUNT_BITS, host_of};
use crate::read::{ANY, Record};
use base::map::FastMap;
use probes::Level;
use probes::choices::Layer;
use probes::tables::{Cause, Read, Received, Sent, Write};
use std::ops::RangeInclusive;
use std::path::Path;

/// Packets that are exported unless more are asked for: viewers have trouble with more.
pub const MOST_PACKETS: usize = 200_000;

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
    let of_part = |host: u64| part.hosts.is_empty() || part.hosts.contains(&host);
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
    // What a program did in this time, and a little later: its packets may have waited.
    let at = [("at_ns", *part.made.start()..=part.made.end().saturating_add(10_000_000_000))];
    let mut rows = Rows { sent, received, writes: Vec::new(), reads: Vec::new(), causes: Vec::new() };
    if record.level >= Level::All {
        rows.writes = record.rows(ANY, &at, usize::MAX)?;
        rows.reads = record.rows(ANY, &at, usize::MAX)?;
        rows.writes.retain(|write| of_part(host_of(write.write).0));
        rows.reads.retain(|read| of_part(host_of(read.read).0));
        rows.causes = record.rows(ANY, &[], usize::MAX)?;
        let has_write = |id: u64| rows.writes.binary_search_by_key(&id, |write| write.write).is_ok();
        let has_read = |id: u64| rows.reads.binary_search_by_key(&id, |read| read.read).is_ok();
        rows.causes.retain(|cause| has_write(cause.write) && has_read(cause.read));
    }
    Ok(rows)
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
