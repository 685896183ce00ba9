//! OpenTelemetry's spans as OTLP JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>): a span for each packet, from its write
//! to its read, below it one for each layer, above it what it is a fragment or copy of; hosts are services. Causes are links of writes' spans.

use super::{Exported, Part, Rows, gather};
use crate::error::{Error, Result};
use crate::identity::{host_of, uuid};
use crate::read::Record;
use base::map::{FastMap, FastSet};
use probes::choices::{How, Layer, SentFate};
use probes::tables::Sent;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Spans of packets, layers, writes and reads: their numbers differ in the topmost bits, which packets' numbers leave free.
const OF_WRITE: u64 = 1 << 62;
const OF_READ: u64 = 1 << 63;
const OF_LAYER: u64 = 3 << 62;

const INTERNAL: u64 = 1;

/// Writes a part of a record to `file`.
///
/// # Errors
/// When there is too much, the record has no packets, or something cannot be read or written.
pub fn write(record: &Record, part: &Part, file: &Path) -> Result<Exported> {
    let rows = gather(record, part, file)?;
    let (request, exported) = request(record, &rows);
    let text = serde_json::to_vec(&request).expect("plain values");
    fs::write(file, text).map_err(|cause| Error::io("write", file, &cause))?;
    Ok(exported)
}

fn request(record: &Record, rows: &Rows) -> (Value, Exported) {
    let mut spans: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    let mut slices = 0;
    let here: FastSet<u64> = rows.sent.iter().map(|sent| sent.packet).collect();
    for sent in &rows.sent {
        let trace = trace(record, rows, sent);
        let layers = rows.slices(sent);
        let start = sent.made_ns - sent.socket_ns.min(sent.made_ns);
        let end = layers.iter().map(|slice| slice.from_ns + slice.ns).max().unwrap_or(start);
        let of = if sent.parent != 0 { sent.parent } else { sent.copy_of };
        let host = host_of(sent.packet).0;
        let attributes = json!([
            text("gnomon.uuid", &uuid(record.run, sent.packet)),
            text("gnomon.to", &record.host(sent.to_host)),
            text("gnomon.fate", SentFate::WORDS.get(sent.fate as usize).copied().unwrap_or("?")),
            number("gnomon.bytes", sent.bytes),
            number("gnomon.stream", sent.stream),
            number("gnomon.offset", sent.offset),
        ]);
        let parent = Some(of).filter(|of| here.contains(of));
        let name = format!("packet {}", record.name(sent.packet));
        let mut span = span(&trace, sent.packet, parent, &name, (start, end));
        span["attributes"] = attributes;
        spans.entry(host).or_default().push(span);
        for slice in layers {
            slices += 1;
            let id = OF_LAYER | mixed(sent.packet, slice.host << 4 | slice.layer as u64) >> 2;
            let name = Layer::WORDS[slice.layer as usize];
            let layer = self::span(&trace, id, Some(sent.packet), name, (slice.from_ns, slice.from_ns + slice.ns));
            spans.entry(slice.host).or_default().push(layer);
        }
    }
    calls(record, rows, &mut spans);
    let of_host = |(host, spans): (u64, Vec<Value>)| {
        json!({
            "resource": { "attributes": [text("service.name", &record.host(host))] },
            "scopeSpans": [{ "scope": { "name": "gnomon", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        })
    };
    let request = json!({ "resourceSpans": spans.into_iter().map(of_host).collect::<Vec<_>>() });
    (request, Exported { packets: rows.sent.len(), slices, causes: rows.causes.len() })
}

/// Writes and reads as spans without length; a write links to the reads that it can follow from.
fn calls(record: &Record, rows: &Rows, spans: &mut BTreeMap<u64, Vec<Value>>) {
    let trace_of = |id: u64| hex(record, id);
    let mut links: FastMap<u64, Vec<Value>> = FastMap::default();
    for cause in &rows.causes {
        let how = How::WORDS.get(cause.how as usize).copied().unwrap_or("?");
        links.entry(cause.write).or_default().push(json!({
            "traceId": trace_of(cause.read | OF_READ),
            "spanId": format!("{:016x}", cause.read | OF_READ),
            "attributes": [text("gnomon.how", how)],
        }));
    }
    for read in &rows.reads {
        let id = read.read | OF_READ;
        let name = format!("read {}", record.name(read.read));
        let mut span = span(&trace_of(id), id, None, &name, (read.at_ns, read.at_ns));
        span["attributes"] = json!([number("gnomon.stream", read.stream), number("gnomon.bytes", read.bytes)]);
        spans.entry(host_of(read.read).0).or_default().push(span);
    }
    for write in &rows.writes {
        let id = write.write | OF_WRITE;
        let name = format!("write {}", record.name(write.write));
        let mut span = span(&trace_of(id), id, None, &name, (write.at_ns, write.at_ns));
        span["attributes"] = json!([number("gnomon.stream", write.stream), number("gnomon.bytes", write.bytes)]);
        span["links"] = links.remove(&write.write).unwrap_or_default().into();
        spans.entry(host_of(write.write).0).or_default().push(span);
    }
}

/// The trace of a packet: that of the packet that it is a fragment or copy of.
fn trace(record: &Record, rows: &Rows, sent: &Sent) -> String {
    let mut root = sent;
    for _ in 0..64 {
        let of = if root.parent != 0 { root.parent } else { root.copy_of };
        match rows.sent.binary_search_by_key(&of, |other| other.packet) {
            Ok(place) if of != 0 => root = &rows.sent[place],
            _ => break,
        }
    }
    hex(record, root.packet)
}

/// A number that follows from both, and from others hardly ever.
fn mixed(packet: u64, stay: u64) -> u64 {
    let product = u128::from(packet ^ 0xa076_1d64_78bd_642f) * u128::from(stay.wrapping_mul(2) + 0x9e37_79b9_7f4a_7c15);
    (product as u64 ^ (product >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// 32 hexadecimal digits, unlike in each run.
fn hex(record: &Record, id: u64) -> String {
    format!("{:016x}{id:016x}", record.run.bits())
}

fn span(trace: &str, id: u64, parent: Option<u64>, name: &str, (start, end): (u64, u64)) -> Value {
    let mut span = json!({
        "traceId": trace,
        "spanId": format!("{id:016x}"),
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(),
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    span
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Whole numbers are written as text there; those of more than 63 bits stay text.
fn number(key: &str, value: u64) -> Value {
    match i64::try_from(value) {
        Ok(value) => json!({ "key": key, "value": { "intValue": value.to_string() } }),
        Err(_) => text(key, &value.to_string()),
    }
}
