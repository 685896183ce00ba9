//! Perfetto's traces: a process for each host, in it a track for each layer with a slice for each packet's stay, and one for writes and reads; arrows
//! lead a packet from layer to layer, and from a read to what was written because of it.
//!
//! The form is protobuf (<https://github.com/google/perfetto/blob/main/protos/perfetto/trace/trace.proto>). It is written by hand: these are a dozen
//! fields of three messages.

use super::{Exported, Part, Rows, Slice, gather};
use crate::error::{Error, Result};
use crate::identity::host_of;
use crate::read::Record;
use base::map::{FastMap, FastSet};
use probes::choices::Layer;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Fields of messages of `perfetto.protos`, by their numbers.
mod field {
    pub const TRACE_PACKET: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const TRACK_UUID: u32 = 1;
    pub const TRACK_NAME: u32 = 2;
    pub const TRACK_PROCESS: u32 = 3;
    pub const TRACK_PARENT: u32 = 5;
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_TRACK: u32 = 11;
    pub const EVENT_CATEGORIES: u32 = 22;
    pub const EVENT_NAME: u32 = 23;
    pub const EVENT_FLOWS: u32 = 47;
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
/// Incremental state is cleared: nothing before it matters.
const CLEARED: u64 = 1;
const SEQUENCE: u64 = 1;

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u32, value: u64) -> Message {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn fixed(mut self, field: u32, value: u64) -> Message {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }
}

/// Writes a part of a record to `file`.
///
/// # Errors
/// When there is too much, the record has no packets, or something cannot be read or written.
pub fn write(record: &Record, part: &Part, file: &Path) -> Result<Exported> {
    let rows = gather(record, part, file)?;
    let failed = |cause| Error::io("write", file, &cause);
    let mut out = BufWriter::new(fs::File::create(file).map_err(failed)?);
    let (packets, exported) = packets(record, &rows);
    for packet in packets {
        let packet = packet.number(field::SEQUENCE, SEQUENCE);
        out.write_all(&Message::default().bytes(field::TRACE_PACKET, &packet.0).0).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok(exported)
}

/// Lanes of one layer of one host: slices of a track may not overlap, so that there are as many tracks as packets at once. Perfetto shows tracks of
/// one name as one.
#[derive(Default)]
struct Lanes {
    /// When each is free.
    free: Vec<u64>,
}

impl Lanes {
    fn take(&mut self, slice: &Slice) -> usize {
        let until = slice.from_ns + slice.ns;
        match self.free.iter().position(|free| *free <= slice.from_ns) {
            Some(lane) => {
                self.free[lane] = until;
                lane
            }
            None => {
                self.free.push(until);
                self.free.len() - 1
            }
        }
    }
}

/// Tracks' ids: the host, what it shows (a layer, or [`CALLS`]), the lane.
fn track(host: u64, what: u64, lane: usize) -> u64 {
    ((host + 1) << 40) | ((what + 1) << 32) | (lane as u64 + 1)
}

/// The track of a host's writes and reads, behind its layers.
const CALLS: u64 = 8;

fn process(host: u64) -> u64 {
    (host + 1) << 40
}

fn packets(record: &Record, rows: &Rows) -> (Vec<Message>, Exported) {
    let mut slices: Vec<Slice> = rows.sent.iter().flat_map(|sent| rows.slices(sent)).collect();
    slices.sort_by_key(|slice| (slice.from_ns, slice.packet, slice.layer));
    let mut lanes: BTreeMap<(u64, u64), Lanes> = BTreeMap::new();
    let mut hosts = std::collections::BTreeSet::new();
    // Events by time; ends before beginnings, since a lane's next slice may begin where one ends.
    let mut events: Vec<(u64, u8, Message)> = Vec::new();
    for slice in &slices {
        let lane = lanes.entry((slice.host, slice.layer as u64)).or_default().take(slice);
        let track = track(slice.host, slice.layer as u64, lane);
        hosts.insert(slice.host);
        let begin = event(SLICE_BEGIN, track)
            .bytes(field::EVENT_CATEGORIES, Layer::WORDS[slice.layer as usize].as_bytes())
            .bytes(field::EVENT_NAME, record.name(slice.packet).as_bytes())
            .fixed(field::EVENT_FLOWS, slice.packet);
        events.push((slice.from_ns, 1, begin));
        events.push((slice.from_ns + slice.ns, 0, event(SLICE_END, track)));
    }
    let calls = calls(record, rows, &mut events, &mut hosts);
    events.sort_by_key(|(at, order, _)| (*at, *order));
    let mut packets = Vec::new();
    for &host in &hosts {
        let about = Message::default()
            .number(field::PROCESS_PID, host + 1)
            .bytes(field::PROCESS_NAME, record.host(host).as_bytes());
        let descriptor =
            Message::default().number(field::TRACK_UUID, process(host)).bytes(field::TRACK_PROCESS, &about.0);
        packets.push(Message::default().bytes(field::TRACK_DESCRIPTOR, &descriptor.0));
    }
    let named = |id: u64, host: u64, name: &str| {
        let descriptor = Message::default()
            .number(field::TRACK_UUID, id)
            .bytes(field::TRACK_NAME, name.as_bytes())
            .number(field::TRACK_PARENT, process(host));
        Message::default().bytes(field::TRACK_DESCRIPTOR, &descriptor.0)
    };
    for ((host, layer), lanes) in &lanes {
        let name = Layer::WORDS[*layer as usize];
        packets.extend((0..lanes.free.len()).map(|lane| named(track(*host, *layer, lane), *host, name)));
    }
    packets.extend(calls.iter().map(|host| named(track(*host, CALLS, 0), *host, "writes and reads")));
    if let Some(first) = packets.first_mut() {
        *first = std::mem::take(first).number(field::SEQUENCE_FLAGS, CLEARED);
    }
    packets.extend(
        events
            .into_iter()
            .map(|(at, _, event)| Message::default().number(field::TIMESTAMP, at).bytes(field::TRACK_EVENT, &event.0)),
    );
    let exported = Exported { packets: rows.sent.len(), slices: slices.len(), causes: rows.causes.len() };
    (packets, exported)
}

fn event(kind: u64, track: u64) -> Message {
    Message::default().number(field::EVENT_TYPE, kind).number(field::EVENT_TRACK, track)
}

/// Writes and reads, with an arrow for each cause; the hosts that have some.
fn calls(
    record: &Record,
    rows: &Rows,
    events: &mut Vec<(u64, u8, Message)>,
    hosts: &mut std::collections::BTreeSet<u64>,
) -> FastSet<u64> {
    let mut arrows: FastMap<(bool, u64), Vec<u64>> = FastMap::default();
    for (place, cause) in rows.causes.iter().enumerate() {
        // Numbers of packets have 62 bits.
        let arrow = 1 << 63 | place as u64;
        arrows.entry((true, cause.write)).or_default().push(arrow);
        arrows.entry((false, cause.read)).or_default().push(arrow);
    }
    let mut with = FastSet::default();
    let mut call = |is_write: bool, id: u64, at: u64, bytes: u64| {
        let host = host_of(id).0;
        hosts.insert(host);
        with.insert(host);
        let what = if is_write { "write" } else { "read" };
        let name = format!("{what} {}, {bytes} bytes", record.name(id));
        let mut message = event(INSTANT, track(host, CALLS, 0))
            .bytes(field::EVENT_CATEGORIES, what.as_bytes())
            .bytes(field::EVENT_NAME, name.as_bytes());
        for arrow in arrows.get(&(is_write, id)).into_iter().flatten() {
            message = message.fixed(field::EVENT_FLOWS, *arrow);
        }
        // At one moment reads come first: what follows from them does.
        events.push((at, if is_write { 3 } else { 2 }, message));
    };
    rows.reads.iter().for_each(|read| call(false, read.read, read.at_ns, read.bytes));
    rows.writes.iter().for_each(|write| call(true, write.write, write.at_ns, write.bytes));
    with
}
