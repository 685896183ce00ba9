//! Leaks from a range of memory: the packets with its bytes, the hosts that received these packets, and the programs that read the bytes,
//! directly or from a program that may have passed them on.
//!
//! A record has the address from which a program gave bytes to a socket. It does not show copies that the program made earlier, and of a
//! write of several pieces (`writev`) it has only the address of the first.

use super::memory::address_of;
use super::text::moment;
use super::{ANY, Record};
use crate::error::Result;
use crate::identity::host_of;
use base::map::{FastMap, FastSet};
use probes::Level;
use probes::choices::{How, SentFate};
use probes::tables::{Cause, Read, Sent, Write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// IPPROTO_TCP: of other protocols' bytes only the whole packet is known.
const TCP: u64 = 6;
/// How long a write may be, and how many bytes a packet carries.
const MOST_WRITTEN: u64 = 1 << 31;
const MOST_PAYLOAD: u64 = 1 << 16;
/// How often bytes may be passed on before nobody looks further.
const MOST_HOPS: u32 = 64;
/// Packets that the text names.
const MOST_PACKETS: usize = 16;

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRange(Range<u64>);

impl AddressRange {
    /// `ADDRESS`, `ADDRESS+BYTES` or `FIRST..END`, addresses in hexadecimal with or without `0x`.
    ///
    /// # Errors
    /// When it is none of these, or empty.
    pub fn new(text: &str) -> std::result::Result<AddressRange, String> {
        let range = match (text.split_once('+'), text.split_once("..")) {
            (Some((first, bytes)), _) => {
                let end = |first: u64| first.checked_add(bytes.parse().ok()?).map(|end| first..end);
                address_of(first).and_then(end)
            }
            (_, Some((first, end))) => address_of(first).zip(address_of(end)).map(|(first, end)| first..end),
            _ => address_of(text).map(|first| first..first + 1),
        };
        range.filter(|range| !range.is_empty()).map(AddressRange).ok_or_else(|| {
            format!("'{text}' is no range of addresses: write one such as 0x1000a3f00010+64, or 0x1000a3f00010..0x1000a3f00050")
        })
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#014x}..{:#014x}", self.0.start, self.0.end)
    }
}

/// A process, by its host's place and its number there.
pub type Program = (u64, u64);

/// Bytes that a program gave to a socket, as far as they are asked for: a part of a stream, or a whole datagram.
#[derive(Clone, Debug)]
struct Part {
    write: Write,
    offsets: Range<u64>,
    /// They are the bytes that were asked for, not only what a program wrote after it had read them.
    sure: bool,
}

impl Part {
    /// Whether a packet of its stream has some of it. The packet also tells whether it is a datagram, of which only the whole is known.
    fn is_in(&mut self, sent: &Sent) -> bool {
        if sent.protocol == TCP {
            return self.offsets.start < sent.offset + sent.payload && sent.offset < self.offsets.end;
        }
        let is_it = sent.offset == self.write.offset;
        if is_it {
            // The number of a packet in the place of an offset.
            self.offsets = sent.offset..sent.offset;
        }
        is_it
    }
}

/// That bytes came to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub from: Program,
    pub to: Program,
    /// 1: from the program whose memory it is; 2: from one that wrote after it had read them; and so on.
    pub hop: u32,
    /// Whether it is known that they are the same bytes.
    pub sure: bool,
    pub reads: u64,
    pub bytes: u64,
    /// Where the first of them were put.
    pub address: u64,
    pub first_ns: u64,
}

/// How much of the range a program gave to sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub writes: u64,
    pub bytes: u64,
    pub first_ns: u64,
}

/// All that became of bytes.
#[derive(Clone, Debug)]
pub struct Leak {
    pub range: AddressRange,
    pub from: BTreeMap<Program, Given>,
    pub arrivals: Vec<Arrival>,
    /// Packets with them, in the order of their numbers, and whether it is known that they have the same bytes.
    pub packets: Vec<(Sent, bool)>,
}

impl Record {
    /// Follows bytes of the range, on one host or on all, to whoever read them, and what these wrote after they had read, which may hold
    /// them; with `sure` only where it is known that the same bytes went on.
    ///
    /// # Errors
    /// When the record has no writes and reads, or cannot be read.
    pub fn leak(&self, range: AddressRange, host: Option<u64>, sure: bool) -> Result<Leak> {
        self.demand(Level::All, "writes and reads")?;
        let mut parts = self.given(&range.0, host)?;
        let mut leak = Leak { range, from: BTreeMap::new(), arrivals: Vec::new(), packets: Vec::new() };
        for Part { write, offsets, .. } in &parts {
            let given = leak.from.entry((host_of(write.write).0, write.pid)).or_default();
            given.first_ns = if given.writes == 0 { write.at_ns } else { given.first_ns.min(write.at_ns) };
            given.writes += 1;
            given.bytes += offsets.end - offsets.start;
        }
        let mut followed: FastSet<u64> = parts.iter().map(|part| part.write.write).collect();
        for hop in 1..=MOST_HOPS {
            if parts.is_empty() {
                break;
            }
            leak.packets.extend(self.carriers(&mut parts)?);
            let reads = self.takers(&parts, hop, &mut leak.arrivals)?;
            parts = self.passed_on(&reads, sure)?;
            parts.retain(|part| followed.insert(part.write.write));
        }
        // Of two verdicts about a packet the sure one stays.
        leak.packets.sort_by_key(|(sent, sure)| (sent.packet, !sure));
        leak.packets.dedup_by_key(|(sent, _)| sent.packet);
        leak.arrivals.sort_by_key(|arrival| (arrival.hop, arrival.first_ns, arrival.to));
        Ok(leak)
    }

    /// Writes out of a range of memory.
    fn given(&self, range: &Range<u64>, host: Option<u64>) -> Result<Vec<Part>> {
        let test = [("address", range.start.saturating_sub(MOST_WRITTEN)..=range.end - 1)];
        let writes = self.rows::<Write>(ANY, &test, usize::MAX)?;
        let is_there = |write: &Write| {
            write.address + write.bytes > range.start && host.is_none_or(|host| host_of(write.write).0 == host)
        };
        let part = |write: Write| {
            let from = range.start.saturating_sub(write.address);
            let until = (range.end - write.address).min(write.bytes);
            Part { offsets: write.offset + from..write.offset + until, write, sure: true }
        };
        Ok(writes.into_iter().filter(is_there).map(part).collect())
    }

    /// The packets that carried them. Of datagrams the parts become whole.
    fn carriers(&self, parts: &mut [Part]) -> Result<Vec<(Sent, bool)>> {
        let by_stream = by_stream(parts);
        let tests = [("stream", span(by_stream.keys().copied())), ("payload", 1..=u64::MAX)];
        let least = parts.iter().map(|part| part.offsets.start).min().unwrap_or(0).saturating_sub(MOST_PAYLOAD);
        let most = parts.iter().map(|part| part.offsets.end.max(part.write.offset)).max().unwrap_or(0);
        let offsets = ("offset", least.min(parts.iter().map(|part| part.write.offset).min().unwrap_or(0))..=most);
        let [stream, payload] = tests;
        let mut carriers = Vec::new();
        for sent in self.rows::<Sent>(ANY, &[stream, payload, offsets], usize::MAX)? {
            let mut verdict = None;
            for place in by_stream.get(&sent.stream).into_iter().flatten() {
                let part = &mut parts[*place];
                if part.is_in(&sent) {
                    verdict = Some(verdict.unwrap_or(false) || part.sure);
                }
            }
            carriers.extend(verdict.map(|sure| (sent, sure)));
        }
        Ok(carriers)
    }

    /// Notes which programs read them; the reads, and whether they are sure.
    fn takers(&self, parts: &[Part], hop: u32, arrivals: &mut Vec<Arrival>) -> Result<FastMap<u64, bool>> {
        let by_stream = by_stream(parts);
        let mut reads: FastMap<u64, bool> = FastMap::default();
        for read in self.rows::<Read>(ANY, &[("stream", span(by_stream.keys().copied()))], usize::MAX)? {
            for place in by_stream.get(&read.stream).into_iter().flatten() {
                let Part { write, offsets, sure } = &parts[*place];
                let (skipped, bytes) = if offsets.is_empty() {
                    (0, if read.offset == offsets.start { read.bytes } else { 0 })
                } else {
                    let from = offsets.start.max(read.offset);
                    (from - read.offset, offsets.end.min(read.offset + read.bytes).saturating_sub(from))
                };
                if bytes == 0 {
                    continue;
                }
                *reads.entry(read.read).or_default() |= *sure;
                let (from, to) = ((host_of(write.write).0, write.pid), (host_of(read.read).0, read.pid));
                let arrival = Arrival {
                    from,
                    to,
                    hop,
                    sure: *sure,
                    reads: 1,
                    bytes,
                    address: read.address + skipped,
                    first_ns: read.at_ns,
                };
                note(arrivals, arrival);
            }
        }
        Ok(reads)
    }

    /// The writes that may follow from these reads; with `sure` only those known to hold the same bytes.
    fn passed_on(&self, reads: &FastMap<u64, bool>, sure: bool) -> Result<Vec<Part>> {
        let mut causes = match reads.is_empty() {
            true => Vec::new(),
            false => self.rows::<Cause>(ANY, &[("read", span(reads.keys().copied()))], usize::MAX)?,
        };
        let is_same = |cause: &Cause| cause.how == How::SameBytes as u64;
        causes.retain(|cause| reads.contains_key(&cause.read) && (!sure || is_same(cause)));
        let mut ids: BTreeMap<u64, bool> = BTreeMap::new();
        for cause in &causes {
            *ids.entry(cause.write).or_default() |= is_same(cause) && reads[&cause.read];
        }
        let writes = self.rows::<Write>(span(ids.keys().copied()), &[], usize::MAX)?;
        let part = |write: Write| {
            let sure = *ids.get(&write.write)?;
            Some(Part { offsets: write.offset..write.offset + write.bytes, write, sure })
        };
        Ok(writes.into_iter().filter_map(part).collect())
    }
}

/// Places of parts, by their streams.
fn by_stream(parts: &[Part]) -> FastMap<u64, Vec<usize>> {
    let mut by_stream: FastMap<u64, Vec<usize>> = FastMap::default();
    for (place, part) in parts.iter().enumerate() {
        by_stream.entry(part.write.stream).or_default().push(place);
    }
    by_stream
}

/// The numbers between the least and the greatest.
fn span(numbers: impl Iterator<Item = u64> + Clone) -> RangeInclusive<u64> {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(greatest)) => least..=greatest,
        // Nothing has this number.
        _ => 0..=0,
    }
}

/// Adds what came to a program to what had come there before, of the same hop and from the same one.
fn note(arrivals: &mut Vec<Arrival>, new: Arrival) {
    let key = |arrival: &Arrival| (arrival.from, arrival.to, arrival.hop, arrival.sure);
    match arrivals.iter_mut().find(|arrival| key(arrival) == key(&new)) {
        Some(known) => {
            (known.reads, known.bytes) = (known.reads + 1, known.bytes + new.bytes);
            if new.first_ns < known.first_ns {
                (known.first_ns, known.address) = (new.first_ns, new.address);
            }
        }
        None => arrivals.push(new),
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How bytes came to a program that did not have them from the first.
fn way(arrival: &Arrival, from: &str) -> String {
    match (arrival.hop, arrival.sure) {
        (1, _) => String::new(),
        (_, true) => format!("; from {from}, which passed them on"),
        (_, false) => format!("; perhaps, from {from}, which wrote after it had read them"),
    }
}

impl Leak {
    /// Whether none of the bytes were given to a socket.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Packets and their bytes, by the host that they were for, and whether one of them is sure to have the bytes.
    fn hosts(&self) -> BTreeMap<u64, (u64, u64, bool)> {
        let mut hosts = BTreeMap::new();
        for (sent, is_sure) in self.packets.iter().filter(|(sent, _)| sent.fate != SentFate::Lost as u64) {
            let (packets, bytes, sure): &mut (u64, u64, bool) = hosts.entry(sent.to_host).or_default();
            (*packets, *bytes, *sure) = (*packets + 1, *bytes + sent.payload, *sure || *is_sure);
        }
        hosts
    }

    /// For people.
    pub fn text(&self, record: &Record) -> String {
        let program = |(host, pid): Program| format!("{}, process {pid}", record.host(host));
        let mut out = format!("Bytes at {} that were given to sockets:\n", self.range);
        for (from, given) in &self.from {
            let Given { writes, bytes, first_ns } = given;
            out += &format!(
                "  {:<32} {bytes:>12} bytes in {}, first at {}\n",
                program(*from),
                counted(*writes, "write"),
                moment(*first_ns)
            );
        }
        let read: BTreeSet<u64> = self.arrivals.iter().map(|arrival| arrival.to.0).collect();
        out += &format!("\nPrograms that read them, on {}:\n", counted(read.len() as u64, "host"));
        for arrival in &self.arrivals {
            out += &format!(
                "  {:<32} {:>12} bytes in {}, first at {}, to {:#014x}{}\n",
                program(arrival.to),
                arrival.bytes,
                counted(arrival.reads, "read"),
                moment(arrival.first_ns),
                arrival.address,
                way(arrival, &program(arrival.from))
            );
        }
        let hosts = self.hosts();
        out += &format!("\nHosts that packets with them were carried to ({}):\n", hosts.len());
        for (host, (packets, bytes, sure)) in &hosts {
            let perhaps = if *sure { "" } else { "; perhaps" };
            let unread = if read.contains(host) { "" } else { "; nobody there read them" };
            out += &format!(
                "  {:<32} {bytes:>12} bytes in {}{perhaps}{unread}\n",
                record.host(*host),
                counted(*packets, "packet")
            );
        }
        let names: Vec<String> =
            self.packets.iter().take(MOST_PACKETS).map(|(sent, _)| record.name(sent.packet)).collect();
        let rest = self.packets.len() - names.len();
        let more = if rest > 0 { format!(" and {rest} more (--json has all)") } else { String::new() };
        out + &format!("\nPackets ('gnomon packet' shows one): {}{more}\n", names.join(" "))
    }

    pub fn json(&self, record: &Record) -> Value {
        let program = |(host, pid): Program| json!({ "host": record.host(host), "pid": pid });
        let given = |(from, given): (&Program, &Given)| json!({ "program": program(*from), "writes": given.writes, "bytes": given.bytes, "first_ns": given.first_ns });
        let arrival = |arrival: &Arrival| {
            json!({
                "from": program(arrival.from), "program": program(arrival.to), "hop": arrival.hop, "sure": arrival.sure, "reads": arrival.reads,
                "bytes": arrival.bytes, "address": format!("{:#x}", arrival.address), "first_ns": arrival.first_ns,
            })
        };
        let host = |(host, (packets, bytes, sure)): (u64, (u64, u64, bool))| json!({ "host": record.host(host), "packets": packets, "bytes": bytes, "sure": sure });
        let packet = |(sent, sure): &(Sent, bool)| json!({ "packet": record.name(sent.packet), "sure": sure });
        json!({
            "addresses": self.range.to_string(),
            "from": self.from.iter().map(given).collect::<Vec<_>>(),
            "read_by": self.arrivals.iter().map(arrival).collect::<Vec<_>>(),
            "hosts": self.hosts().into_iter().map(host).collect::<Vec<_>>(),
            "packets": self.packets.iter().map(packet).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::AddressRange;

    #[test]
    fn ranges_are_of_addresses_and_not_empty() {
        let range = |text| AddressRange::new(text).map(|range| range.0);
        assert_eq!(range("0x10+16"), Ok(16..32));
        assert_eq!(range("10..0x20"), Ok(16..32));
        assert_eq!(range("1000a3f00010"), Ok(0x1000_a3f0_0010..0x1000_a3f0_0011));
        for wrong in
            ["", "0x10+0", "20..10", "10+x", "+5", "-1", "0x1000a3f00010ff", "ffffffffffff+18446744073709551615"]
        {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
