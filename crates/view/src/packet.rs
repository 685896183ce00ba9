//! One packet's way, and what came before and after it on other hosts, for tree and waterfall.

use crate::error::{Error, Result};
use crate::json;
use crate::record::batches;
use duckdb::Connection;
use serde_json::{Map, Value, json};

/// Packets that are followed each way.
const STEPS: usize = 8;
/// Relatives that are listed.
const RELATIVES: usize = 12;

/// The packet `number` with its relatives (copies, fragments, answers), and the chain of packets that lead to it and follow from it.
///
/// # Errors
/// When there is no such packet, or the record cannot be read.
pub fn story(connection: &Connection, number: u64) -> Result<Value> {
    let asked = packet(connection, number)?.ok_or_else(|| Error::new(format!("the record has no packet {number}")))?;
    let mut before = Vec::new();
    let mut at = asked.clone();
    while let Some((how, earlier)) = (before.len() < STEPS).then(|| cause(connection, &at)).transpose()?.flatten() {
        at = earlier.clone();
        before.push(json!({ "how": how, "packet": earlier }));
    }
    before.reverse();
    let mut after = Vec::new();
    let mut at = asked.clone();
    while let Some((how, later)) = (after.len() < STEPS).then(|| effect(connection, &at)).transpose()?.flatten() {
        at = later.clone();
        after.push(json!({ "how": how, "packet": later }));
    }
    let relatives = relatives(connection, &asked)?;
    Ok(json!({ "packet": asked, "before": before, "after": after, "relatives": relatives }))
}

/// Rows of an answer as objects.
fn rows(connection: &Connection, sql: &str) -> Result<Vec<Value>> {
    let mut statement = connection.prepare(sql)?;
    let mut found = Vec::new();
    for batch in batches(&mut statement)?.1 {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch
                .schema()
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, column)| {
                    let cell = json::cell(column, row);
                    // JavaScript's numbers would lose the ends of these.
                    let is_name = matches!(
                        field.name().as_str(),
                        "packet" | "parent" | "copy_of" | "quotes" | "stream" | "read" | "write"
                    );
                    (
                        field.name().clone(),
                        if is_name && cell.is_u64() { Value::String(cell.to_string()) } else { cell },
                    )
                })
                .collect::<Map<_, _>>();
            found.push(Value::Object(cells));
        }
    }
    Ok(found)
}

fn packet(connection: &Connection, number: u64) -> Result<Option<Value>> {
    Ok(rows(connection, &format!("SELECT * FROM packets WHERE packet = {number} ORDER BY host LIMIT 1"))?.pop())
}

/// A number of a row, which stands there as text or as a number; none where it is 0.
fn number(row: &Value, name: &str) -> Option<u64> {
    let cell = &row[name];
    cell.as_u64().or_else(|| cell.as_str()?.parse().ok()).filter(|number| *number > 0)
}

/// The place of a packet's last byte in its stream; of a datagram, its number.
fn last_byte(packet: &Value) -> Option<u64> {
    let (offset, payload) = (packet["offset"].as_u64()?, packet["payload"].as_u64()?);
    Some(if packet["protocol"] == 6 { (offset + payload).checked_sub(1)? } else { offset })
}

/// How near a cause is: what is known for sure goes first.
const NEAREST: &str =
    "CASE how WHEN 'mark' THEN 0 WHEN 'same_bytes' THEN 1 WHEN 'same_turn' THEN 2 WHEN 'wake' THEN 3 ELSE 4 END";

/// The packet that brought what the program read before it wrote this one's bytes.
fn cause(connection: &Connection, packet_row: &Value) -> Result<Option<(Value, Value)>> {
    let (Some(stream), Some(last)) = (number(packet_row, "stream"), last_byte(packet_row)) else { return Ok(None) };
    let found = rows(
        connection,
        &format!(
            "SELECT c.how, r.packet FROM (SELECT write FROM writes WHERE stream = {stream} AND \"offset\" <= {last} AND \
             greatest(\"offset\" + bytes, \"offset\" + 1) > {last} ORDER BY \"offset\" DESC LIMIT 1) w JOIN causes c USING (write) JOIN received r ON r.read = c.read \
             ORDER BY {NEAREST}, r.packet DESC LIMIT 1"
        ),
    )?;
    follow(connection, found)
}

/// The first packet with the last of the bytes that the program wrote after it had read this one's.
fn effect(connection: &Connection, packet_row: &Value) -> Result<Option<(Value, Value)>> {
    let Some(read) = number(packet_row, "read") else { return Ok(None) };
    let found = rows(
        connection,
        &format!(
            "SELECT c.how, s.packet FROM (SELECT write, how FROM causes WHERE read = {read} ORDER BY {NEAREST}, write LIMIT 1) c \
             JOIN writes w USING (write) JOIN sent s ON s.stream = w.stream AND s.\"offset\" <= w.\"offset\" + greatest(w.bytes, 1) - 1 \
             AND s.\"offset\" + greatest(s.payload, 1) > w.\"offset\" + greatest(w.bytes, 1) - 1 AND s.payload > 0 ORDER BY s.made_ns LIMIT 1"
        ),
    )?;
    follow(connection, found)
}

fn follow(connection: &Connection, found: Vec<Value>) -> Result<Option<(Value, Value)>> {
    let Some(row) = found.into_iter().next() else { return Ok(None) };
    let Some(next) = number(&row, "packet") else { return Ok(None) };
    Ok(packet(connection, next)?.map(|packet| (row["how"].clone(), packet)))
}

/// Packets with the same bytes, its fragments or the packet that it is one of, and what answers it, by number.
fn relatives(connection: &Connection, asked: &Value) -> Result<Vec<Value>> {
    let packet = number(asked, "packet").unwrap_or(0);
    let parent = number(asked, "parent").unwrap_or(packet);
    let (stream, offset) = (number(asked, "stream").unwrap_or(0), asked["offset"].as_u64().unwrap_or(0));
    let end = offset + asked["payload"].as_u64().unwrap_or(0);
    // Numbers first, out of one table; then each packet by its number, which is quick.
    let found = rows(
        connection,
        &format!(
            "SELECT packet FROM sent WHERE packet != {packet} AND (parent IN ({packet}, {parent}) OR packet = {parent} OR quotes = {packet} \
             OR (stream = {stream} AND stream > 0 AND payload > 0 AND protocol = 6 AND \"offset\" < {end} AND \"offset\" + payload > {offset})) \
             ORDER BY made_ns LIMIT {RELATIVES}"
        ),
    )?;
    let numbers = found.iter().filter_map(|row| number(row, "packet"));
    numbers.filter_map(|packet| self::packet(connection, packet).transpose()).collect()
}
