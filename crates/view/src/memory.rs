//! From and to where in programs' memory bytes went: the map of one range of addresses.

use crate::error::Result;
use duckdb::Connection;
use serde_json::{Value, json};

/// A map has so many parts, two hexadecimal digits of an address.
const PARTS: u64 = 256;
const PART_BITS: u32 = 8;

/// The bytes written from, and read to, each part of the addresses from `base` on, of which there are 2 to the power of `bits`; with `bits`
/// 0, of the smallest such range that has all. Only what was written or read between the two moments, in nanoseconds, counts.
///
/// # Errors
/// When the record cannot be read.
pub fn map(connection: &Connection, base: u64, bits: u32, between: (u64, u64)) -> Result<Value> {
    let both =
        "(SELECT address, bytes, at_ns, 1 AS written FROM writes UNION ALL SELECT address, bytes, at_ns, 0 FROM reads)";
    let (base, bits) = if bits == 0 {
        let (low, high): (u64, u64) = connection.query_row(
            &format!("SELECT coalesce(min(address), 0), coalesce(max(address), 0) FROM {both} WHERE address > 0"),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        // Whole digits, so that a part is two of them.
        let bits = (u64::BITS - (low ^ high).leading_zeros()).div_ceil(4).max(3) * 4;
        (if bits >= 64 { 0 } else { low >> bits << bits }, bits)
    } else {
        (base, bits.clamp(PART_BITS, 64))
    };
    let last = base.saturating_add(if bits >= 64 { u64::MAX } else { (1 << bits) - 1 });
    let shift = bits - PART_BITS;
    let (from, to) = between;
    let mut statement = connection.prepare(&format!(
        "SELECT ((address - {base}::UBIGINT) >> {shift})::UBIGINT AS part, coalesce(sum(bytes) FILTER (written = 1), 0)::UBIGINT, coalesce(sum(bytes) FILTER (written = 0), 0)::UBIGINT, \
         count(*)::UBIGINT FROM {both} WHERE address BETWEEN {base}::UBIGINT AND {last}::UBIGINT AND address > 0 AND at_ns BETWEEN {from}::UBIGINT AND {to}::UBIGINT GROUP BY part ORDER BY part"
    ))?;
    let mut rows = statement.query([])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()?.filter(|_| parts.len() < PARTS as usize) {
        let (part, written, read, times): (u64, u64, u64, u64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        parts.push(json!([part, written, read, times]));
    }
    Ok(json!({ "base": format!("{base:x}"), "bits": bits, "parts": parts }))
}
