//! Where in guests' memory bytes were written from and read to: by the beginning of an address, sixteenth by sixteenth.

use super::{ANY, Record};
use crate::error::Result;
use crate::identity::host_of;
use probes::Level;
use probes::tables::{Read, Write};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Digits of an address: 48 bits.
const DIGITS: u32 = 12;
const BAR: u64 = 40;
/// Buffers that the text names.
const MOST_BUFFERS: usize = 16;

/// The beginning of an address, in hexadecimal digits of twelve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPrefix {
    first: u64,
    digits: u32,
}

impl AddressPrefix {
    /// With or without `0x` in front. Addresses have twelve digits: "1000" is the beginning of 0x100000000000.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(text: &str) -> std::result::Result<AddressPrefix, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let is_short = digits.len() <= DIGITS as usize;
        let first = if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 16).ok() };
        match first.filter(|_| is_short && !digits.starts_with('+')) {
            Some(first) => {
                let count = digits.len() as u32;
                Ok(AddressPrefix { first: first << (4 * (DIGITS - count)), digits: count })
            }
            None => Err(format!(
                "'{text}' is no beginning of an address: up to twelve hexadecimal digits are, as in 1000a3"
            )),
        }
    }

    fn range(self) -> RangeInclusive<u64> {
        self.first..=self.first + ((1 << (4 * (DIGITS - self.digits))) - 1)
    }

    /// The sixteenth that an address is in.
    fn part(self, address: u64) -> Option<AddressPrefix> {
        let open = 4 * (DIGITS - self.digits).checked_sub(1)?;
        Some(AddressPrefix { first: address >> open << open, digits: self.digits + 1 })
    }
}

impl std::fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:012x}", self.first);
        write!(f, "0x{}", &text[..self.digits as usize])
    }
}

/// A whole address in hexadecimal, with or without `0x` in front.
pub(super) fn address_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_one = digits.len() <= DIGITS as usize && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_one)
}

/// What happened at some addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub writes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

impl Use {
    fn add(&mut self, at_ns: u64, bytes: u64, is_write: bool) {
        if self.writes + self.reads == 0 {
            self.first_ns = at_ns;
        }
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        let (count, sum) = match is_write {
            true => (&mut self.writes, &mut self.written_bytes),
            false => (&mut self.reads, &mut self.read_bytes),
        };
        *count += 1;
        *sum += bytes;
    }

    fn bytes(&self) -> u64 {
        self.written_bytes + self.read_bytes
    }

    fn json(&self) -> Value {
        json!({
            "writes": self.writes, "written_bytes": self.written_bytes, "reads": self.reads,
            "read_bytes": self.read_bytes, "first_ns": self.first_ns, "last_ns": self.last_ns,
        })
    }
}

/// Memory below a prefix.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The longest prefix that all of it has.
    pub prefix: AddressPrefix,
    pub all: Use,
    /// The next digit's parts, without empty ones.
    pub parts: Vec<(AddressPrefix, Use)>,
    /// Host, process and first address of buffers, those with most bytes first.
    pub buffers: Vec<((u64, u64, u64), Use)>,
}

impl Record {
    /// # Errors
    /// When the record has no writes and reads, or cannot be read.
    pub fn memory(&self, asked: AddressPrefix) -> Result<Memory> {
        self.demand(Level::All, "writes and reads")?;
        let test = [("address", asked.range())];
        let mut buffers: BTreeMap<(u64, u64, u64), Use> = BTreeMap::new();
        for write in self.rows::<Write>(ANY, &test, usize::MAX)? {
            let buffer = (host_of(write.write).0, write.pid, write.address);
            buffers.entry(buffer).or_default().add(write.at_ns, write.bytes, true);
        }
        for read in self.rows::<Read>(ANY, &test, usize::MAX)? {
            let buffer = (host_of(read.read).0, read.pid, read.address);
            buffers.entry(buffer).or_default().add(read.at_ns, read.bytes, false);
        }
        let mut prefix = asked;
        let mut parts = BTreeMap::new();
        // Of a whole address there are no parts.
        let mut all = Use::default();
        buffers.values().for_each(|used| join(&mut all, used));
        // Digits that all have in common say nothing.
        while let Some(first) = buffers.keys().next().and_then(|(_, _, address)| prefix.part(*address)) {
            parts = BTreeMap::new();
            for ((_, _, address), used) in &buffers {
                join(parts.entry(prefix.part(*address).unwrap_or(first).first).or_default(), used);
            }
            if parts.len() > 1 || first.digits == DIGITS {
                break;
            }
            prefix = first;
        }
        let digits = (prefix.digits + 1).min(DIGITS);
        let parts = parts.into_iter().map(|(first, used)| (AddressPrefix { first, digits }, used)).collect();
        let mut buffers: Vec<_> = buffers.into_iter().collect();
        buffers.sort_by_key(|(buffer, used)| (std::cmp::Reverse(used.bytes()), *buffer));
        Ok(Memory { prefix, all, parts, buffers })
    }
}

fn join(into: &mut Use, other: &Use) {
    let first_ns = if into.writes + into.reads == 0 { other.first_ns } else { into.first_ns.min(other.first_ns) };
    *into = Use {
        writes: into.writes + other.writes,
        written_bytes: into.written_bytes + other.written_bytes,
        reads: into.reads + other.reads,
        read_bytes: into.read_bytes + other.read_bytes,
        first_ns,
        last_ns: into.last_ns.max(other.last_ns),
    };
}

impl Memory {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// For people.
    pub fn text(&self, record: &Record) -> String {
        let mut out = format!("{:<16}{:>10}{:>16}{:>10}{:>16}\n", "address", "writes", "bytes", "reads", "bytes");
        let line = |name: &str, used: &Use, rest: &str| {
            let Use { writes, written_bytes, reads, read_bytes, .. } = used;
            format!("{name:<16}{writes:>10}{written_bytes:>16}{reads:>10}{read_bytes:>16}  {rest}")
                .trim_end()
                .to_owned()
                + "\n"
        };
        let most = self.parts.iter().map(|(_, used)| used.bytes()).max().unwrap_or(0).max(1);
        for (prefix, used) in &self.parts {
            // Written in dark, read in light.
            let bar = |bytes: u64| (u128::from(bytes) * u128::from(BAR) / u128::from(most)) as usize;
            let bars = "█".repeat(bar(used.written_bytes)) + &"▒".repeat(bar(used.read_bytes));
            out += &line(&format!("{prefix}.."), used, &bars);
        }
        out += &line(&format!("{}..", self.prefix), &self.all, "in all; █ written, ▒ read");
        out += &format!("\n{} buffers, those with most bytes first:\n", self.buffers.len());
        for ((host, pid, address), used) in self.buffers.iter().take(MOST_BUFFERS) {
            out += &line(&format!("{address:#014x}"), used, &format!("{}, process {pid}", record.host(*host)));
        }
        out
    }

    pub fn json(&self, record: &Record) -> Value {
        let part = |(prefix, used): &(AddressPrefix, Use)| json!({ "prefix": prefix.to_string(), "use": used.json() });
        let buffer = |((host, pid, address), used): &((u64, u64, u64), Use)| {
            let address = format!("{address:#x}");
            json!({ "host": record.host(*host), "pid": pid, "address": address, "use": used.json() })
        };
        json!({
            "prefix": self.prefix.to_string(),
            "use": self.all.json(),
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "buffers": self.buffers.iter().map(buffer).collect::<Vec<_>>(),
        })
    }
}
