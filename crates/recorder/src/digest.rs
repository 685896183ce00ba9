//! The run's digest: one hash over every packet and every guest's output. Two runs of the same plan and seed have the same
//! digest, whatever the number of workers; any bit that differs anywhere changes it.
//!
//! Each host chains its own events in their order (xxh3-128: as fast as memory for payloads, some 20 ns per event); at the
//! end the hosts' states are hashed in the order of the plan with blake3. Since a host's events have one order, and hosts
//! are combined by name, the number of workers cannot matter. It finds differences; it is no proof against forgery.

use base::SimTime;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// Which of a guest's outputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Stream {
    Stdout = 1,
    Stderr = 2,
}

/// What happened, as the first byte of an event.
const TAG_PACKET: u8 = 0x10;
const TAG_OUTPUT: u8 = 0x20;
const TAG_EXIT: u8 = 0x30;

/// The longest headers that are hashed in place: an IPv4 and a TCP header with all options are 120 bytes.
const INLINE: usize = 128;
/// State, tag, time, two numbers, payload hash; then the inline bytes.
const PREFIX: usize = 16 + 1 + 8 + 8 + 8 + 16;

/// The chain of one host's events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HostDigest {
    state: u128,
    packets: u64,
    output_bytes: u64,
}

impl HostDigest {
    pub fn new() -> HostDigest {
        HostDigest::default()
    }

    /// A packet that the host sent, with its headers and its payload in as many pieces as it lies in memory: the pieces'
    /// borders do not matter.
    pub fn packet(&mut self, time: SimTime, headers: &[u8], payload: &[&[u8]]) {
        let length = payload.iter().map(|piece| piece.len() as u64).sum();
        let hash = match payload {
            [] => 0,
            [only] => hash_piece(only),
            many => hash_pieces(many),
        };
        self.packets += 1;
        self.event(TAG_PACKET, time, headers.len() as u64, length, hash, headers);
    }

    /// What a guest wrote in one call.
    pub fn output(&mut self, time: SimTime, pid: u32, stream: Stream, bytes: &[u8]) {
        self.output_bytes += bytes.len() as u64;
        let origin = u64::from(pid) << 8 | stream as u64;
        self.event(TAG_OUTPUT, time, origin, bytes.len() as u64, hash_piece(bytes), &[]);
    }

    /// The end of a guest: `status` as wait(2) reports it.
    pub fn exit(&mut self, time: SimTime, pid: u32, status: i32) {
        self.event(TAG_EXIT, time, u64::from(pid), status as u32 as u64, 0, &[]);
    }

    /// Packets hashed so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of output hashed so far.
    pub fn output_bytes(&self) -> u64 {
        self.output_bytes
    }

    /// The chain's state, to find the host in which two runs part.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.state)
    }

    fn event(&mut self, tag: u8, time: SimTime, a: u64, b: u64, hash: u128, inline: &[u8]) {
        let mut block = [0; PREFIX + INLINE];
        block[..16].copy_from_slice(&self.state.to_le_bytes());
        block[16] = tag;
        block[17..25].copy_from_slice(&time.as_nanos().to_le_bytes());
        block[25..33].copy_from_slice(&a.to_le_bytes());
        block[33..41].copy_from_slice(&b.to_le_bytes());
        block[41..57].copy_from_slice(&hash.to_le_bytes());
        let mut end = PREFIX + inline.len();
        if let Some(place) = block.get_mut(PREFIX..end) {
            place.copy_from_slice(inline);
        } else {
            end = PREFIX + 16;
            block[PREFIX..end].copy_from_slice(&xxh3_128(inline).to_le_bytes());
        }
        self.state = xxh3_128(&block[..end]);
    }
}

/// An empty payload has one hash, in no pieces or in some.
fn hash_piece(bytes: &[u8]) -> u128 {
    if bytes.is_empty() { 0 } else { xxh3_128(bytes) }
}

#[cold]
fn hash_pieces(pieces: &[&[u8]]) -> u128 {
    if pieces.iter().all(|piece| piece.is_empty()) {
        return 0;
    }
    let mut hasher = Xxh3Default::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.digest128()
}

/// The digest of a whole run.
#[derive(Debug)]
pub struct RunDigest {
    hasher: blake3::Hasher,
}

impl Default for RunDigest {
    fn default() -> Self {
        RunDigest { hasher: blake3::Hasher::new_derive_key("gnomon run digest v1") }
    }
}

impl RunDigest {
    pub fn new() -> RunDigest {
        RunDigest::default()
    }

    /// Adds a host; call it in the order of the plan.
    pub fn host(&mut self, name: &str, digest: &HostDigest) {
        self.hasher.update(&(name.len() as u64).to_le_bytes());
        self.hasher.update(name.as_bytes());
        self.hasher.update(&digest.state.to_le_bytes());
        self.hasher.update(&digest.packets.to_le_bytes());
        self.hasher.update(&digest.output_bytes.to_le_bytes());
    }

    /// 64 hexadecimal digits.
    pub fn finish(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: &[u8] = &[0x45; 52];

    fn of(events: impl FnOnce(&mut HostDigest)) -> String {
        let mut digest = HostDigest::new();
        events(&mut digest);
        digest.hex()
    }

    #[test]
    fn the_pieces_of_a_payload_do_not_matter() {
        let payload: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        let now = SimTime::from_nanos(7);
        let whole = of(|d| d.packet(now, HEADERS, &[&payload]));
        for cut in [0, 1, 100, 2500, 4999, 5000] {
            assert_eq!(whole, of(|d| d.packet(now, HEADERS, &[&payload[..cut], &payload[cut..]])));
        }
        assert_eq!(of(|d| d.packet(now, HEADERS, &[])), of(|d| d.packet(now, HEADERS, &[&[]])));
        assert_eq!(of(|d| d.packet(now, HEADERS, &[])), of(|d| d.packet(now, HEADERS, &[&[], &[]])));
    }

    #[test]
    fn every_part_of_an_event_counts() {
        let now = SimTime::from_nanos(7);
        let mut flipped = HEADERS.to_vec();
        flipped[51] ^= 1;
        let all = [
            of(|_| {}),
            of(|d| d.packet(now, HEADERS, &[b"abc"])),
            of(|d| d.packet(SimTime::from_nanos(8), HEADERS, &[b"abc"])),
            of(|d| d.packet(now, &flipped, &[b"abc"])),
            of(|d| d.packet(now, HEADERS, &[b"abd"])),
            of(|d| d.packet(now, HEADERS, &[])),
            of(|d| d.packet(now, &HEADERS[..51], &[])),
            of(|d| d.packet(now, &[HEADERS, HEADERS, HEADERS].concat(), &[])),
            of(|d| d.packet(now, &[HEADERS, HEADERS, &flipped].concat(), &[])),
            of(|d| d.output(now, 1000, Stream::Stdout, b"abc")),
            of(|d| d.output(now, 1000, Stream::Stderr, b"abc")),
            of(|d| d.output(now, 1001, Stream::Stdout, b"abc")),
            of(|d| d.exit(now, 1000, 0)),
            of(|d| d.exit(now, 1000, 256)),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(one), "event {i} collides");
        }
    }

    #[test]
    fn order_counts_within_a_host() {
        let now = SimTime::ZERO;
        let ab = of(|d| {
            d.output(now, 1, Stream::Stdout, b"a");
            d.output(now, 1, Stream::Stdout, b"b");
        });
        let ba = of(|d| {
            d.output(now, 1, Stream::Stdout, b"b");
            d.output(now, 1, Stream::Stdout, b"a");
        });
        assert_ne!(ab, ba);
    }

    #[test]
    fn a_run_is_its_hosts_by_name() {
        let mut host = HostDigest::new();
        host.packet(SimTime::ZERO, HEADERS, &[b"x"]);
        let run = |hosts: &[(&str, &HostDigest)]| {
            let mut run = RunDigest::new();
            hosts.iter().for_each(|(name, digest)| run.host(name, digest));
            run.finish()
        };
        let silent = HostDigest::new();
        let base = run(&[("a", &host), ("b", &silent)]);
        assert_eq!(base.len(), 64);
        assert_eq!(base, run(&[("a", &host), ("b", &silent)]));
        assert_ne!(base, run(&[("a", &silent), ("b", &host)]));
        assert_ne!(base, run(&[("a", &host)]));
        assert_ne!(base, run(&[("a", &host), ("c", &silent)]));
        assert_eq!((host.packets(), host.output_bytes()), (1, 0));
    }

    /// The digest is an interface: a change of its definition must be meant, and told in the changelog.
    #[test]
    fn the_definition_is_pinned() {
        let mut host = HostDigest::new();
        host.packet(SimTime::from_nanos(1), HEADERS, &[b"hello"]);
        host.output(SimTime::from_nanos(2), 1000, Stream::Stdout, b"world\n");
        host.exit(SimTime::from_nanos(3), 1000, 0);
        let mut run = RunDigest::new();
        run.host("host", &host);
        assert_eq!(run.finish(), "849ac3a945d7958d66d5abc1d4feca1bc555bc584fd29c82295e1996dfe494fd");
    }
}
