//! The page's answer about a range of memory: programs, hosts and packets that its bytes reached.

use crate::error::{Error, Result};
use provenance::Record;
use provenance::read::leak::AddressRange;
use serde_json::{Value, json};
use std::path::Path;

/// Packets that are named.
const SHOWN: usize = 64;

/// The same object as `gnomon leak --json` prints, with only the first packets and the number of all (`packet_count`).
///
/// # Errors
/// When it is no range, or the record has no writes and reads.
pub fn told(run: &Path, range: &str, sure: bool) -> Result<Value> {
    let range = AddressRange::new(range).map_err(Error::new)?;
    let record = Record::open(run).map_err(|error| Error::new(error.to_string()))?;
    let leak = record.leak(range, None, sure).map_err(|error| Error::new(error.to_string()))?;
    let mut told = leak.json(&record);
    told["packet_count"] = json!(leak.packets.len());
    // The page asks for a packet's way by its number.
    let packet = |(sent, sure): &(probes::tables::Sent, bool)| json!({ "packet": sent.packet.to_string(), "name": record.name(sent.packet), "sure": sure });
    told["packets"] = leak.packets.iter().take(SHOWN).map(packet).collect();
    Ok(told)
}
