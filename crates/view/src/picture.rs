//! What the page is told: sums as JSON, with the heat maps behind it as plain numbers.

use crate::brush::Brush;
use crate::columns::{BINS, Columns, LAYERS, RECEIVED, bin_ns, bin_of_summary};
use crate::error::Result;
use crate::record::{Record, batches};
use crate::totals::{HEAT_COLUMNS, Totals};
use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use base::map::FastMap;
use duckdb::Connection;
use probes::choices::{Layer, ReceivedFate, SentFate};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// Flows that are listed.
const FLOWS: usize = 60;
/// Links that are drawn.
const LINKS: usize = 400;

/// What pictures are made of: a text for people's eyes, and the heat maps.
pub struct Picture {
    pub about: Value,
    pub heat: Vec<u8>,
}

impl Picture {
    /// As it goes to the page: the text's length in four bytes, the text (padded to a multiple of four), the heat maps.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = self.about.to_string();
        text.extend(std::iter::repeat_n(' ', (4 - text.len() % 4) % 4));
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.extend(&self.heat);
        bytes
    }
}

/// What is known of a run before its packets are read: hosts, words, times, level.
///
/// # Errors
/// When the record cannot be read.
pub fn about(record: &Record) -> Result<Value> {
    let connection = record.connect()?;
    let mut hosts = Vec::new();
    let mut statement =
        connection.prepare("SELECT host, name, address, up_bits, down_bits FROM hosts ORDER BY host")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (host, name, address): (u64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (up, down): (u64, u64) = (row.get(3)?, row.get(4)?);
        hosts.push(json!({ "host": host, "name": name, "address": address, "up": up, "down": down }));
    }
    let schema = fs::read(record.run().join(crate::record::FOLDER).join("schema.json")).unwrap_or_default();
    let schema: Value = serde_json::from_slice(&schema).unwrap_or_default();
    let (packets, last): (u64, u64) =
        connection.query_row("SELECT count(*), coalesce(max(made_ns), 0) FROM sent", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let seconds: u64 =
        connection.query_row("SELECT coalesce(max(from_ns) + 1000000000, 0) FROM layers", [], |row| row.get(0))?;
    let last = if packets > 0 { last } else { seconds };
    let name = record.run().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let fates: BTreeMap<String, &str> = (0u8..)
        .zip(SentFate::WORDS)
        .chain((RECEIVED..).zip(ReceivedFate::WORDS))
        .map(|(code, word)| (code.to_string(), *word))
        .collect();
    Ok(json!({
        "run": name, "id": schema["run"], "level": schema["level"], "packets": packets,
        "tick_ns": Columns::new(last, 0).tick_ns, "last_ns": last, "hosts": hosts,
        "layers": Layer::WORDS, "fates": fates, "bins_ns": (0..BINS).map(bin_ns).collect::<Vec<_>>(),
        "columns": HEAT_COLUMNS,
    }))
}

/// The first picture: all packets, out of the histograms of the record, of which [`about`] tells.
///
/// # Errors
/// When the record cannot be read.
pub fn of_summary(connection: &Connection, about: &Value) -> Result<Picture> {
    let mut totals = Totals::new(0);
    let mut places: FastMap<(u64, usize), (u64, u64)> = FastMap::default();
    let (tick_ns, recorded) = (about["tick_ns"].as_u64().unwrap_or(1), about["packets"].as_u64().unwrap_or(0));
    let column_ns = (tick_ns * crate::columns::TICKS / HEAT_COLUMNS as u64).max(1);
    // Its rows are summed up here: there are nearly as many groups as rows.
    let mut statement = connection.prepare("SELECT from_ns, bin, packets FROM layers")?;
    for batch in batches(&mut statement)?.1 {
        let batch = batch?;
        let number = |place: usize| batch.column(place).as_primitive::<UInt64Type>().values();
        let (from, bins, packets) = (number(0), number(1), number(2));
        for row in 0..batch.num_rows() {
            // As the table has it: host * 65536 + layer * 4096 + latency_bin.
            let (host, layer, packets) = (bins[row] / 65_536, bins[row] as usize / 4096 % 16 % LAYERS, packets[row]);
            let bin = bin_of_summary(bins[row] % 4096) as usize;
            let place = places.entry((host, layer)).or_default();
            place.0 += bin_ns(bin) * packets;
            place.1 += packets;
            // A second of the record is spread over the columns that it covers, of which the last takes what comes behind it.
            let first = (from[row] / column_ns).min(HEAT_COLUMNS as u64 - 1);
            let count = (1_000_000_000 / column_ns).clamp(1, HEAT_COLUMNS as u64 - first);
            for column in first..first + count {
                let share = packets / count + u64::from(column - first < packets % count);
                totals.heat[(layer * HEAT_COLUMNS + column as usize) * BINS + bin] += share as u32;
            }
        }
    }
    // Histograms know nothing of packets that never left their host.
    let left = places.iter().filter(|((_, layer), _)| *layer == 0).map(|(_, (_, packets))| packets).sum();
    totals.packets = if recorded > 0 { recorded } else { left };
    let links = links(connection)?;
    let places: BTreeMap<_, _> = places.into_iter().collect();
    let places = places.iter().map(|((host, layer), (ns, packets))| json!([host, layer, ns, packets])).collect();
    Ok(Picture { about: told(&totals, places, links, Vec::new(), Vec::new()), heat: totals.heat_bytes() })
}

fn links(connection: &Connection) -> Result<Vec<Value>> {
    let mut statement = connection.prepare(
        "SELECT src, dst, sum(packets)::UBIGINT AS n, sum(lost + dropped)::UBIGINT FROM links GROUP BY ALL ORDER BY n DESC, src, dst",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()?.filter(|_| found.len() < LINKS) {
        let (src, dst, packets, lost): (u64, u64, u64, u64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        found.push(json!([src, dst, packets, lost]));
    }
    Ok(found)
}

/// The picture of what a brush leaves.
pub fn of_brush(columns: &Columns, brush: &Brush) -> Picture {
    let totals = Totals::of(columns, brush);
    let mut places: BTreeMap<(u32, usize), (u64, u64)> = BTreeMap::new();
    let mut links: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    let mut flows: Vec<(u64, usize)> = Vec::new();
    for (number, (flow, sums)) in columns.flows.iter().zip(&totals.flows).enumerate() {
        if sums.packets == 0 {
            continue;
        }
        for (layer, (ns, packets)) in
            sums.ns.iter().zip(&sums.passed).enumerate().filter(|(_, (_, packets))| **packets > 0)
        {
            let place = places.entry((flow.host(layer), layer)).or_default();
            place.0 += ns;
            place.1 += packets;
        }
        let left = sums.passed[Layer::Uplink as usize];
        if left + sums.lost > 0 {
            let link = links.entry((flow.src, flow.dst)).or_default();
            link.0 += left;
            link.1 += sums.lost;
        }
        flows.push((sums.ns.iter().sum(), number));
    }
    flows.sort_unstable_by_key(|&(ns, number)| (std::cmp::Reverse(ns), number));
    let flows = flows.iter().take(FLOWS).map(|&(_, number)| {
        let (flow, sums) = (&columns.flows[number], &totals.flows[number]);
        json!({ "flow": number, "stream": flow.stream.to_string(), "src": flow.src, "dst": flow.dst, "packets": sums.packets, "ns": sums.ns })
    });
    let slowest = totals.slowest.iter().map(|&(_, row)| {
        let row = row as usize;
        let flow = &columns.flows[columns.flow[row] as usize];
        let ns: Vec<u64> = columns.bins.iter().map(|bins| bin_ns(bins[row] as usize)).collect();
        let at = u64::from(columns.ticks[row]) * columns.tick_ns;
        json!({ "packet": columns.packet(row).to_string(), "src": flow.src, "dst": flow.dst, "at": at, "ns": ns, "fate": columns.fates[row] })
    });
    let mut links: Vec<_> = links.into_iter().collect();
    links.sort_by_key(|&(pair, (packets, _))| (std::cmp::Reverse(packets), pair));
    let links =
        links.iter().take(LINKS).map(|((src, dst), (packets, lost))| json!([src, dst, packets, lost])).collect();
    let places = places.iter().map(|((host, layer), (ns, packets))| json!([host, layer, ns, packets])).collect();
    Picture { about: told(&totals, places, links, flows.collect(), slowest.collect()), heat: totals.heat_bytes() }
}

fn told(totals: &Totals, places: Vec<Value>, links: Vec<Value>, flows: Vec<Value>, slowest: Vec<Value>) -> Value {
    json!({
        "packets": totals.packets, "places": places, "links": links, "flows": flows, "slowest": slowest, "fates": totals.fates,
        "histograms": (0..LAYERS).map(|layer| totals.histogram(layer)).collect::<Vec<_>>(),
    })
}
