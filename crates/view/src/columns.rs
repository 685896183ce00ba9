//! What brushing goes over: a few bytes for each packet, read once and kept in memory.
//!
//! A row has 18 bytes: its moment (2), its time in each of six layers on a logarithmic scale (6), which of them it passed (1), what became
//! of it (1), its flow (4), and its number among its host's packets (4). Whatever else is said of a packet follows from its flow, or is asked of the record.

use crate::error::{Error, Result};
use crate::record::{Record, batches};
use arrow::array::{Array, AsArray, BooleanArray, PrimitiveArray, RecordBatch};
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

/// In place of what became of a packet on its receivers' side, where none has it.
const NOWHERE: u8 = u8::MAX;

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
    /// The layers that the packet passed, a bit for each: those whose histograms count it. Where it was lost or dropped, or still is, it
    /// has spent time too, which would be no measure of the layer.
    pub passed: Vec<u8>,
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
        for batch in batches(&mut statement)?.1 {
            columns.take(&batch?, &mut known)?;
        }
        Ok(columns)
    }

    /// None yet, of a run whose last packet was made at `last_ns`.
    pub fn new(last_ns: u64, rows: usize) -> Columns {
        Columns {
            tick_ns: last_ns / TICKS + 1,
            ticks: Vec::with_capacity(rows),
            bins: std::array::from_fn(|_| Vec::with_capacity(rows)),
            passed: Vec::with_capacity(rows),
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
        self.ticks.extend(made.values().iter().map(|ns| (ns / self.tick_ns).min(TICKS - 1) as u16));
        for (bins, layer) in self.bins.iter_mut().zip(&layers) {
            if layer.null_count() == 0 {
                bins.extend(layer.values().iter().map(|ns| bin(*ns)));
            } else {
                bins.extend(layer.iter().map(|ns| bin(ns.unwrap_or(0))));
            }
        }
        self.take_fates(batch, layers[Layer::Reassembly as usize], layers[Layer::ReceiveQueue as usize]);
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

    /// What became of packets, and which layers they passed.
    fn take_fates(&mut self, batch: &RecordBatch, reassembly: &Numbers, receive_queue: &Numbers) {
        let fates = |place: usize| batch.column(place).as_primitive::<UInt8Type>();
        let (sent, received) = (fates(10), fates(11));
        let elsewhere: &BooleanArray = batch.column(12).as_boolean();
        for row in 0..batch.num_rows() {
            let (sent, received) = (sent.value(row), received.value(row));
            let waited = !reassembly.is_null(row) && reassembly.value(row) + receive_queue.value(row) > 0;
            // Of a packet for several hosts, the sender's layers count with the first.
            let before = if elsewhere.value(row) { 0 } else { passed_at_sender(sent) };
            self.passed.push(before | passed_at_receiver(received, waited));
            let fate = if received == NOWHERE { sent } else { RECEIVED + received };
            self.fates.push(fate.min(FATES as u8 - 1));
        }
    }
}

type Numbers = PrimitiveArray<UInt64Type>;

const fn bit(layer: Layer) -> u8 {
    1 << layer as u8
}

/// The layers that a packet passed on its sender's side, by what became of it there.
fn passed_at_sender(fate: u8) -> u8 {
    const CARRIED: u8 = SentFate::Carried as u8;
    const LOST: u8 = SentFate::Lost as u8;
    const LOOPED: u8 = SentFate::Looped as u8;
    match fate {
        CARRIED => bit(Layer::Socket) | bit(Layer::Uplink) | bit(Layer::Route),
        LOST => bit(Layer::Socket) | bit(Layer::Uplink),
        LOOPED => bit(Layer::Socket),
        _ => 0,
    }
}

/// The same on a receiver's side. A packet that waits at the end of the run does so in its socket if it has `waited` there for any time; the
/// router still has the others.
fn passed_at_receiver(fate: u8, waited: bool) -> u8 {
    const WAITING: u8 = ReceivedFate::Waiting as u8;
    const READ: u8 = ReceivedFate::Read as u8;
    const UNREAD: u8 = ReceivedFate::Unread as u8;
    const DROPPED: u8 = ReceivedFate::Dropped as u8;
    match fate {
        READ | UNREAD => bit(Layer::Downlink) | bit(Layer::Reassembly) | bit(Layer::ReceiveQueue),
        WAITING if waited => bit(Layer::Downlink) | bit(Layer::Reassembly) | bit(Layer::ReceiveQueue),
        WAITING | DROPPED | NOWHERE => 0,
        _ => bit(Layer::Downlink),
    }
}

/// One row for each packet; one for each host that received it, if they are several.
fn query() -> String {
    let list = |words: &[&str]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT s.packet, s.stream, coalesce(r.host, s.to_host), s.made_ns, s.socket_ns, s.uplink_ns, s.route_ns, r.downlink_ns, \
         r.reassembly_ns, r.receive_queue_ns, enum_code(s.fate::ENUM({}))::UTINYINT, coalesce(r.fate, {NOWHERE}::UTINYINT), \
         coalesce(r.host <> s.to_host, false) \
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
