//! A tree for the terminal: what hangs on what, and the time of the packet that was asked for, layer by layer.

use super::Record;
use super::tree::{Node, Stay, Tree};
use crate::identity::uuid;
use probes::choices::{Call, How, Layer, ReceivedFate, SentFate};
use probes::tables::{Read, Sent, Write};

/// Characters of a waterfall's bars.
const BAR: usize = 44;
/// Packets of a write that are shown on each side of the one that was asked for.
const NEIGHBOURS: usize = 8;

/// Seconds with nanoseconds.
pub fn moment(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A time in milliseconds.
pub fn span(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

fn word<'a>(words: &[&'a str], place: u64) -> &'a str {
    words.get(place as usize).copied().unwrap_or("?")
}

/// A packet in a line.
pub fn line(record: &Record, sent: &Sent) -> String {
    let protocol = match sent.protocol {
        1 => "ICMP".to_owned(),
        6 => format!("TCP{}", flags(sent.flags)),
        17 => "UDP".to_owned(),
        other => format!("protocol {other}"),
    };
    let fate = word(SentFate::WORDS, sent.fate);
    format!(
        "{} to {}, {protocol}, {} bytes, {} at {}",
        record.name(sent.packet),
        record.host(sent.to_host),
        sent.bytes,
        fate,
        moment(sent.made_ns)
    )
}

fn flags(flags: u64) -> String {
    let known = [(2, "SYN"), (1, "FIN"), (4, "RST"), (8, "PSH"), (16, "ACK")];
    known.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| format!(" {name}")).collect()
}

impl Tree {
    /// The tree and the waterfall, for people.
    pub fn text(&self, record: &Record) -> String {
        let mut out = String::new();
        let asked = self.packets.iter().flat_map(Node::all).find(|node| node.sent.packet == self.asked);
        if let Some(node) = asked {
            out += &format!("packet {}\n", line(record, &node.sent));
            out += &format!("       number {}, UUID {}\n", self.asked, uuid(record.run, self.asked));
            if node.sent.payload > 0 && node.sent.protocol == 6 {
                let (offset, payload) = (node.sent.offset, node.sent.payload);
                out += &format!("       bytes {offset} to {} of stream {}\n", offset + payload - 1, node.sent.stream);
            }
            out += "\n";
        }
        for (cause, read) in &self.causes {
            let how = word(How::WORDS, cause.how);
            out += &match read {
                Some(read) => format!("after {} ({how})\n", read_line(record, read)),
                None => format!("after read {} ({how})\n", record.name(cause.read)),
            };
        }
        let mut indent = String::new();
        if let Some(write) = &self.write {
            out += &write_line(record, write);
            indent = "  ".to_owned();
        }
        self.some_packets(record, &indent, &mut out);
        for read in &self.reads {
            out += &format!("{indent}{}\n", read_line(record, read));
        }
        for (cause, write) in &self.effects {
            let how = word(How::WORDS, cause.how);
            out += &match write {
                Some(write) => format!("{indent}  then ({how}) {}", write_line(record, write)),
                None => format!("{indent}  then ({how}) write {}\n", record.name(cause.write)),
            };
        }
        if let Some(node) = asked {
            for place in 0..node.received.len().max(1) {
                out += &waterfall(record, &node.stays(place), node);
            }
        }
        out
    }

    /// The packets near the one that was asked for.
    fn some_packets(&self, record: &Record, indent: &str, out: &mut String) {
        let has = |node: &Node| node.all().iter().any(|node| node.sent.packet == self.asked);
        let at = self.packets.iter().position(has).unwrap_or(0);
        let (first, last) = (at.saturating_sub(NEIGHBOURS), (at + NEIGHBOURS + 1).min(self.packets.len()));
        if first > 0 {
            *out += &format!("{indent}... before these: {first}\n");
        }
        for node in &self.packets[first..last] {
            self.node(record, node, indent, "", out);
        }
        if last < self.packets.len() {
            *out += &format!("{indent}... after these: {}\n", self.packets.len() - last);
        }
    }

    fn node(&self, record: &Record, node: &Node, indent: &str, what: &str, out: &mut String) {
        let mark = if node.sent.packet == self.asked { '>' } else { '-' };
        *out += &format!("{indent}{mark} {what}{}", line(record, &node.sent));
        for received in &node.received {
            let fate = word(ReceivedFate::WORDS, received.fate);
            let total = received.downlink_ns + received.reassembly_ns + received.receive_queue_ns;
            *out += &format!("; {fate} on {} at {}", record.host(received.host), moment(received.arrived_ns + total));
        }
        out.push('\n');
        let below = format!("{indent}  ");
        for (nodes, what) in [(&node.fragments, "fragment "), (&node.copies, "again "), (&node.answers, "answer ")] {
            for node in nodes {
                self.node(record, node, &below, what, out);
            }
        }
    }
}

fn write_line(record: &Record, write: &Write) -> String {
    format!(
        "write {}: {} of {} bytes by thread {} at {}, from {:#x}\n",
        record.name(write.write),
        word(Call::WORDS, write.call),
        write.bytes,
        write.tid,
        moment(write.at_ns),
        write.address
    )
}

fn read_line(record: &Record, read: &Read) -> String {
    format!(
        "read {}: {} of {} bytes by thread {} at {}, to {:#x}",
        record.name(read.read),
        word(Call::WORDS, read.call),
        read.bytes,
        read.tid,
        moment(read.at_ns),
        read.address
    )
}

/// A bar for each layer, all on the time from the write to the read.
fn waterfall(record: &Record, stays: &[Stay], node: &Node) -> String {
    let (Some(first), Some(last)) = (stays.first(), stays.last()) else { return String::new() };
    let start = first.from_ns;
    let total = (last.from_ns + last.ns - start).max(1);
    let mut out = String::from("\n");
    for stay in stays {
        let place = match stay.layer {
            Layer::Route => "on the way".to_owned(),
            _ => record.host(stay.host),
        };
        let scaled = |ns: u64| (u128::from(ns) * BAR as u128 / u128::from(total)) as usize;
        let from = scaled(stay.from_ns - start).min(BAR - 1);
        let until = scaled(stay.from_ns + stay.ns - start).clamp(from, BAR);
        let bar = match stay.ns {
            0 => String::new(),
            _ => " ".repeat(from) + &"█".repeat((until - from).max(1)),
        };
        let layer = Layer::WORDS[stay.layer as usize];
        out += format!("{layer:<14}{place:<16}{:>20}  {bar}", span(stay.ns)).trim_end();
        out.push('\n');
    }
    let fate = match node.received.is_empty() {
        true => word(SentFate::WORDS, node.sent.fate),
        false => "in all",
    };
    out + &format!("{fate:<14}{:<16}{:>20}\n", "", span(total))
}
