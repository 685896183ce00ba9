//! Captures: one pcapng file per interface, with the packets as they pass it, in simulated time.
//!
//! The format is draft-ietf-opsawg-pcapng: a section header, one interface (link type raw IP, nanoseconds), then one
//! enhanced packet block per packet, with its direction. Times are those of the guests' clocks: simulated time since the
//! experiment's start date.

use crate::error::{Error, Result};
use crate::output::{OutputFile, OutputPool};
use base::{SimTime, StartDate};
use std::fs::OpenOptions;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Packets begin with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;

const OPT_END: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_PACKETID: u16 = 5;

/// Which way a packet passed the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// The capture of one interface. It belongs to its host, like the interface.
#[derive(Debug)]
pub struct Capture {
    file: OutputFile,
    snap_len: u32,
    start_date: StartDate,
}

impl Capture {
    /// What is gathered before it is written.
    const BUFFER: usize = 64 * 1024;

    /// Creates the file. Of each packet at most `snap_len` bytes are kept (`pcap_capture_size`).
    pub fn create(
        path: PathBuf,
        interface: &str,
        snap_len: u32,
        start_date: StartDate,
        pool: &mut OutputPool,
    ) -> Result<Capture> {
        let mut file = OutputFile::with_buffer(path, Self::BUFFER, pool)?;
        let mut head = Vec::new();
        section_header(&mut head);
        interface_description(&mut head, interface, snap_len);
        file.write(&head, pool)?;
        Ok(Capture { file, snap_len, start_date })
    }

    /// Records a packet that lies in memory as headers and pieces of payload, with its number in the record of the run (`epb_packetid`); 0
    /// for none.
    pub fn packet(
        &mut self,
        time: SimTime,
        direction: Direction,
        number: u64,
        headers: &[u8],
        payload: &[&[u8]],
        pool: &mut OutputPool,
    ) -> Result<()> {
        let length = headers.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        let kept = length.min(self.snap_len as usize);
        let padded = kept.next_multiple_of(4);
        let options = 12 + if number == 0 { 0 } else { 12 };
        let total = (32 + padded + options) as u32;
        let nanos = self.start_date.unix_nanos(time);
        let words = [ENHANCED_PACKET, total, 0, (nanos >> 32) as u32, nanos as u32, kept as u32, length as u32];
        let mut head = [0; 28];
        fill(&mut head, &words);
        // A run that is killed leaves whole blocks.
        self.file.make_room(total as usize, pool)?;
        self.file.write(&head, pool)?;
        let mut left = kept;
        for piece in std::iter::once(&headers).chain(payload) {
            let part = &piece[..piece.len().min(left)];
            self.file.write(part, pool)?;
            left -= part.len();
        }
        let mut tail = [0; 3 + 28];
        let padding = padded - kept;
        let flags = [u32::from(EPB_FLAGS) | 4 << 16, direction as u32];
        let id = [u32::from(EPB_PACKETID) | 8 << 16, number as u32, (number >> 32) as u32];
        let end = [u32::from(OPT_END), total];
        let len = padding + options + 4;
        fill(&mut tail[padding..], &flags);
        if number != 0 {
            fill(&mut tail[padding + 8..], &id);
        }
        fill(&mut tail[len - 8..], &end);
        self.file.write(&tail[..len], pool)
    }

    /// Writes what is gathered, so that the file can be read while the run goes on.
    pub fn flush(&mut self, pool: &mut OutputPool) -> Result<()> {
        self.file.flush(pool)
    }

    /// Ends a capture that could not be written: cut back to the last whole block, it can still be read.
    pub fn cut(self, pool: &mut OutputPool) -> Result<()> {
        let path = self.file.abandon(pool);
        cut_to_whole_blocks(&path).map_err(|error| Error::io("cut back", &path, error))
    }

    /// Writes the rest. A file that has no room for it ends with the last whole block.
    pub fn close(mut self, pool: &mut OutputPool) -> Result<()> {
        match self.file.flush(pool) {
            Ok(()) => self.file.close(pool),
            Err(error) => self.cut(pool).and(Err(error)),
        }
    }
}

fn cut_to_whole_blocks(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut blocks = BufReader::new(&file);
    let mut whole = 0;
    let mut head = [0; 8];
    while blocks.read_exact(&mut head).is_ok() {
        let size = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        if size < 12 || whole + size > length {
            break;
        }
        whole += size;
        blocks.seek_relative(size as i64 - 8)?;
    }
    file.set_len(whole)
}

fn fill(bytes: &mut [u8], words: &[u32]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |body| {
        body.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend_from_slice(&1u16.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        // The section's length is not given: it goes on to the end of the file.
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        option(body, SHB_USERAPPL, b"gnomon");
        option(body, OPT_END, b"");
    });
}

fn interface_description(out: &mut Vec<u8>, name: &str, snap_len: u32) {
    block(out, INTERFACE_DESCRIPTION, |body| {
        body.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&snap_len.to_le_bytes());
        option(body, IF_NAME, name.as_bytes());
        // 10^-9 s.
        option(body, IF_TSRESOL, &[9]);
        option(body, OPT_END, b"");
    });
}

/// A block: type, length, body, length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let total = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    out.extend_from_slice(&total.to_le_bytes());
}

/// An option, padded to 4 bytes.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::TempDir;
    use std::path::Path;
    use std::process::Command;

    /// An ICMP echo request from 11.0.0.1 to 11.0.0.2: 20 bytes of IP header with a good checksum, then the message.
    fn ping(data: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let checksum = |bytes: &[u8]| {
            let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            let sum: u32 = bytes.chunks(2).map(word).sum();
            !((sum & 0xffff) + (sum >> 16)) as u16
        };
        let mut message = [&[8, 0, 0, 0, 0, 1, 0, 1], data].concat();
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let length = (20 + message.len()) as u16;
        let mut header =
            vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 1, 0, 0, 64, 1, 0, 0, 11, 0, 0, 1, 11, 0, 0, 2];
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        (header, message)
    }

    fn write_capture(path: &Path) {
        let mut pool = OutputPool::new(1);
        let mut capture = Capture::create(path.to_path_buf(), "eth0", 65535, StartDate::default(), &mut pool).unwrap();
        for (i, size) in [0usize, 1, 2, 3, 1000].into_iter().enumerate() {
            let (header, message) = ping(&vec![b'x'; size]);
            let (front, back) = message.split_at(4);
            let direction = if i % 2 == 0 { Direction::Outbound } else { Direction::Inbound };
            let time = SimTime::from_nanos(1_000_000_001 + i as u64);
            capture.packet(time, direction, (3 << 40) + 7, &header, &[front, back], &mut pool).unwrap();
        }
        capture.close(&mut pool).unwrap();
    }

    /// Kind and body of each block, with the checks that every reader makes.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let total = word(bytes, 4) as usize;
            assert_eq!(total % 4, 0);
            assert_eq!(word(bytes, total - 4) as usize, total, "both lengths agree");
            blocks.push((word(bytes, 0), bytes[8..total - 4].to_vec()));
            bytes = &bytes[total..];
        }
        blocks
    }

    #[test]
    fn blocks_are_well_formed_and_carry_the_packets() {
        let temp = TempDir::new("pcapng");
        let path = temp.path.join("eth0.pcap");
        write_capture(&path);
        let blocks = blocks(&std::fs::read(&path).unwrap());
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION_HEADER, 1, 6, 6, 6, 6, 6]);
        let (header, message) = ping(b"xx");
        let body = &blocks[4].1;
        let nanos = StartDate::default().unix_nanos(SimTime::from_nanos(1_000_000_003));
        assert_eq!(body[4..8], ((nanos >> 32) as u32).to_le_bytes());
        assert_eq!(body[8..12], (nanos as u32).to_le_bytes());
        assert_eq!(body[12..16], 30u32.to_le_bytes());
        assert_eq!(body[20..50], [header, message].concat());
        let (flags, id) = ([2, 0, 4, 0, 2, 0, 0, 0], [5, 0, 8, 0, 7, 0, 0, 0, 0, 3, 0, 0]);
        assert_eq!(body[50..], [&[0, 0][..], &flags, &id, &[0; 4]].concat(), "padding, outbound, the number, the end");
    }

    #[test]
    fn long_packets_are_cut_but_keep_their_length() {
        let temp = TempDir::new("snap");
        let mut pool = OutputPool::new(1);
        let path = temp.path.join("eth0.pcap");
        let mut capture = Capture::create(path.clone(), "eth0", 21, StartDate::default(), &mut pool).unwrap();
        let (header, message) = ping(&[7; 100]);
        capture.packet(SimTime::ZERO, Direction::Inbound, 0, &header, &[&message, b"more"], &mut pool).unwrap();
        capture.flush(&mut pool).unwrap();
        let blocks = blocks(&std::fs::read(&path).unwrap());
        let body = &blocks[2].1;
        assert_eq!(body[12..16], 21u32.to_le_bytes());
        assert_eq!(body[16..20], 132u32.to_le_bytes());
        assert_eq!(body[20..41], [&header[..], &message[..1]].concat());
        assert_eq!(body.len(), 20 + 24 + 12);
    }

    /// Where tshark is installed, it must agree.
    #[test]
    fn tshark_reads_times_directions_and_checksums() {
        let temp = TempDir::new("tshark");
        let path = temp.path.join("eth0.pcap");
        write_capture(&path);
        let fields =
            ["frame.time_epoch", "frame.interface_name", "frame.packet_flags_direction", "ip.dst", "frame.len"];
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&path).args(["-o", "ip.check_checksum:TRUE", "-T", "fields"]);
        fields.iter().chain(&["_ws.malformed", "ip.checksum.status", "icmp.checksum.status"]).for_each(|field| {
            command.args(["-e", field]);
        });
        let Ok(output) = command.output() else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |i: usize, direction: &str, length: usize| {
            format!("946684801.{:09}\teth0\t{direction}\t11.0.0.2\t{length}\t\t1\t1", 1 + i)
        };
        let lines =
            [("0x00000002", 28), ("0x00000001", 29), ("0x00000002", 30), ("0x00000001", 31), ("0x00000002", 1028)];
        let expected: Vec<String> = lines.iter().enumerate().map(|(i, (dir, len))| line(i, dir, *len)).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
