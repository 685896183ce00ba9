//! What brushing goes over: a few bytes for each packet, read once and kept in memory.
//!
//! A row has 17 bytes: its moment (2), its time in each of six layers on a logarithmic scale (6), what became of it (1), its flow (4),
//! and its number among its host's packets (4). Whatever else is said of a packet follows from its flow, or is asked of the record.

use crate::error::{Error, Result};
use crate::record::Record;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt64Type};
use base::map::FastMap;
use probes::choices::{Layer, ReceivedFate, SentFate};

/// Layers of a packet's way.
pub const LAYERS: usize = Layer::WORDS.len();
/// Moments that are told apart.
pub const TICKS: u64 = 4096;
/// Times in a layer that are told apart; 0 is none.
pub const BINS: usize = 256;
/// The codes of what became of packets on their receivers' side begin here.
pub const RECEIVED: u8 = 16;
/// All codes of what became of packets lie below.
pub const FATES: usize = 32;

/// The smallest time that has a bin of its own, as a power of two of nanoseconds.
const FIRST_OCTAVE: u32 = 7;

/// Packets of one stream from one host to another; of those without a stream, between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    pub stream: u64,
    pub src: u32,
    pub dst: u32,
}

impl Flow {
    /// The host at which packets of this flow spend their time in a layer.
    pub fn host(&self, layer: usize) -> u32 {
        if layer <= Layer::Route as usize { self.src } else { self.dst }
    }
}

/// The columns of all packets.
#[derive(Debug)]
pub struct Columns {
    pub tick_ns: u64,
    pub ticks: Vec<u16>,
    pub bins: [Vec<u8>; LAYERS],
    pub fates: Vec<u8>,
    pub flow: Vec<u32>,
    pub counts: Vec<u32>,
    pub flows: Vec<Flow>,
}

/// Eight bins for each power of two of nanoseconds, beginning with 128; shorter times share the first, and longer than seven minutes the
/// last.
pub fn bin(ns: u64) -> u8 {
    if ns == 0 {
        return 0;
    }
    let octave = ns.ilog2();
    if octave < FIRST_OCTAVE {
        return 1;
    }
    let part = (ns >> (octave - 3) & 7) as u32;
    (1 + (octave - FIRST_OCTAVE) * 8 + part).min(BINS as u32 - 1) as u8
}

/// A bin's time: the middle of what falls into it.
pub fn bin_ns(bin: usize) -> u64 {
    if bin == 0 {
        return 0;
    }
    let (octave, part) = ((bin - 1) / 8 + FIRST_OCTAVE as usize, (bin - 1) % 8);
    (1u64 << octave) + (2 * part as u64 + 1) * (1u64 << octave) / 16
}

/// The bin here of a bin of the table `layers`, which has sixteen for each power of two.
pub fn bin_of_summary(latency_bin: u64) -> u8 {
    let ns = if latency_bin < 16 { latency_bin } else { (16 + latency_bin % 16) << (latency_bin / 16 - 1) };
    bin(ns)
}

impl Columns {
    /// Reads the columns out of a record.
    ///
    /// # Errors
    /// When DuckDB cannot read it.
    pub fn load(record: &Record) -> Result<Columns> {
        let connection = record.connect()?;
        let (rows, last): (u64, u64) =
            connection.query_row("SELECT count(*), coalesce(max(made_ns), 0) FROM sent", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let mut columns = Columns::new(last, usize::try_from(rows).unwrap_or(0));
        let mut known = FastMap::default();
        let mut statement = connection.prepare(&query())?;
        for batch in statement.stream_arrow([])? {
            columns.take(&batch, &mut known)?;
        }
        Ok(columns)
    }

    /// None yet, of a run whose last packet was made at `last_ns`.
    pub fn new(last_ns: u64, rows: usize) -> Columns {
        Columns {
            tick_ns: last_ns / TICKS + 1,
            ticks: Vec::with_capacity(rows),
            bins: std::array::from_fn(|_| Vec::with_capacity(rows)),
            fates: Vec::with_capacity(rows),
            flow: Vec::with_capacity(rows),
            counts: Vec::with_capacity(rows),
            flows: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// The number of a row's packet.
    pub fn packet(&self, row: usize) -> u64 {
        u64::from(self.flows[self.flow[row] as usize].src) << 40 | u64::from(self.counts[row])
    }

    fn take(&mut self, batch: &RecordBatch, known: &mut FastMap<(u64, u64), u32>) -> Result<()> {
        let number = |place: usize| {
            let column = batch.column(place).as_primitive_opt::<UInt64Type>();
            column.ok_or_else(|| Error::new("a column of the record is not of unsigned 64-bit numbers"))
        };
        let (packets, streams, to, made) = (number(0)?, number(1)?, number(2)?, number(3)?);
        let mut layers = [packets; LAYERS];
        for (place, layer) in layers.iter_mut().enumerate() {
            *layer = number(4 + place)?;
        }
        let fates = batch.column(10).as_primitive::<UInt8Type>();
        self.ticks.extend(made.values().iter().map(|ns| (ns / self.tick_ns).min(TICKS - 1) as u16));
        for (bins, layer) in self.bins.iter_mut().zip(&layers) {
            if layer.null_count() == 0 {
                bins.extend(layer.values().iter().map(|ns| bin(*ns)));
            } else {
                bins.extend(layer.iter().map(|ns| bin(ns.unwrap_or(0))));
            }
        }
        self.fates.extend(fates.values().iter().map(|fate| (*fate).min(FATES as u8 - 1)));
        self.counts.extend(packets.values().iter().map(|packet| *packet as u32));
        let mut before = (u64::MAX, u64::MAX);
        let mut flow = 0;
        for row in 0..batch.num_rows() {
            let hosts = packets.value(row) >> 40 << 32 | to.value(row) & 0xffff_ffff;
            if before != (streams.value(row), hosts) {
                before = (streams.value(row), hosts);
                flow = *known.entry(before).or_insert_with(|| {
                    self.flows.push(Flow { stream: before.0, src: (hosts >> 32) as u32, dst: hosts as u32 });
                    (self.flows.len() - 1) as u32
                });
            }
            self.flow.push(flow);
        }
        Ok(())
    }
}

/// One row for each packet: where several hosts received it, what the first of them knows.
fn query() -> String {
    let list = |words: &[&str]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT s.packet, s.stream, coalesce(r.host, s.to_host), s.made_ns, s.socket_ns, s.uplink_ns, s.route_ns, r.downlink_ns, \
         r.reassembly_ns, r.receive_queue_ns, coalesce(r.fate + {RECEIVED}::UTINYINT, enum_code(s.fate::ENUM({}))::UTINYINT) \
         FROM sent s LEFT JOIN (SELECT packet, host, downlink_ns, reassembly_ns, receive_queue_ns, \
         enum_code(fate::ENUM({}))::UTINYINT AS fate FROM received) r USING (packet)",
        list(SentFate::WORDS),
        list(ReceivedFate::WORDS)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_their_own_time_within_a_sixteenth() {
        let mut before = 0;
        for ns in (1..2_000_000u64).step_by(7).chain([1_000_000_000, 60_000_000_000, 400_000_000_000]) {
            let bin = bin(ns);
            assert!(bin >= before, "{ns}");
            before = bin;
            let middle = bin_ns(bin as usize);
            assert!(ns < 128 || middle.abs_diff(ns) * 15 <= ns, "{ns}: {middle}");
        }
        assert_eq!((bin(0), bin(u64::MAX)), (0, 255));
    }

    #[test]
    fn bins_of_the_summary_fall_into_those_of_packets() {
        for ns in (1..3_000_000u64).step_by(11) {
            assert_eq!(bin_of_summary(probes::trace::bin_of(ns)), bin(ns), "{ns}");
        }
    }
}
