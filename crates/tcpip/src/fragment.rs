//! Fragmentation at the source and reassembly (RFC 791 section 3.2, RFC 8200 section 4.5), for datagrams larger than the MTU.

use crate::packet::{Packet, Transport};
use crate::wire::{ipv4, ipv6};
use base::{SimDuration, SimTime};
use bytes::{Bytes, BytesMut};
use probes::trace::Piece;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// net.ipv4.ipfrag_time and net.ipv6.ip6frag_time.
const TIMEOUT: SimDuration = SimDuration::from_secs(30);
const TIMEOUT_V6: SimDuration = SimDuration::from_secs(60);
/// net.ipv4.ipfrag_high_thresh.
const MEMORY_LIMIT: usize = 4 << 20;

/// The packets that carry `packet` over a link with this MTU; `id` is put into each.
pub(crate) fn split(packet: &Packet, mtu: usize, id: u32) -> impl Iterator<Item = Packet> + use<> {
    let mut bytes = Vec::with_capacity(packet.wire_len());
    packet.emit(&mut bytes);
    let body = Bytes::from(bytes).slice(packet.ip.header_len()..);
    let (header, protocol) = (packet.ip, packet.transport.protocol());
    let headers = if header.is_v6() { ipv6::HEADER_LEN + ipv6::FRAGMENT_LEN } else { ipv4::HEADER_LEN };
    let step = (mtu - headers) / 8 * 8;
    (0..body.len().div_ceil(step)).map(move |i| {
        let end = body.len().min((i + 1) * step);
        let mut ip = header;
        ip.id = id;
        ip.dont_fragment = ip.is_v6();
        ip.fragment_offset = (i * step / 8) as u16;
        ip.more_fragments = end < body.len();
        Packet::new(ip, Transport::Raw { protocol }, body.slice(i * step..end))
    })
}

#[derive(Debug)]
struct Partial {
    since: SimTime,
    pieces: BTreeMap<u16, Bytes>,
    total: Option<usize>,
    /// The number of the first fragment.
    first: u64,
    /// What is recorded of fragments, where anything is.
    told: Vec<Piece>,
}

/// What is recorded of fragments of a packet that never became whole.
#[derive(Debug)]
pub(crate) struct Expired(pub Vec<Piece>);

/// Source, destination, identification, protocol.
type Key = (IpAddr, IpAddr, u32, u8);

#[derive(Default, Debug)]
pub(crate) struct Reassembly {
    partial: BTreeMap<Key, Partial>,
    held: usize,
    expired: Vec<Expired>,
}

impl Reassembly {
    /// Takes a fragment, and what is recorded of it; gives the whole packet once it is complete, with what is recorded of all.
    pub fn push(&mut self, now: SimTime, packet: Packet, told: Option<Piece>) -> Option<(Packet, Vec<Piece>)> {
        self.expire(now);
        let protocol = packet.transport.protocol();
        let key = (packet.ip.src, packet.ip.dst, packet.ip.id, protocol);
        let new = || Partial { since: now, pieces: BTreeMap::new(), total: None, first: 0, told: Vec::new() };
        let partial = self.partial.entry(key).or_insert_with(new);
        partial.told.extend(told);
        if packet.ip.fragment_offset == 0 {
            partial.first = packet.number;
        }
        let offset = usize::from(packet.ip.fragment_offset) * 8;
        if !packet.ip.more_fragments {
            partial.total = Some(offset + packet.payload.len());
        }
        self.held += packet.payload.len();
        if let Some(old) = partial.pieces.insert(packet.ip.fragment_offset, packet.payload) {
            self.held -= old.len();
        }
        let total = partial.total?;
        let body = join(&partial.pieces, total)?;
        let (number, told) = (partial.first.saturating_sub(1), std::mem::take(&mut partial.told));
        self.forget(key);
        let mut ip = packet.ip;
        (ip.more_fragments, ip.fragment_offset) = (false, 0);
        ip.id = if ip.is_v6() { 0 } else { ip.id };
        let whole = Packet::parse_transport(ip, protocol, &body).ok()?;
        Some((Packet { number, ..whole }, told))
    }

    fn expire(&mut self, now: SimTime) {
        let old = |key: &Key, partial: &Partial| {
            now.saturating_since(partial.since) > if key.1.is_ipv6() { TIMEOUT_V6 } else { TIMEOUT }
        };
        while let Some((key, _)) = self.partial.iter().find(|(key, partial)| old(key, partial)) {
            self.forget(*key);
        }
        while self.held > MEMORY_LIMIT
            && let Some((key, _)) = self.partial.iter().min_by_key(|(_, partial)| partial.since)
        {
            self.forget(*key);
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(partial) = self.partial.remove(&key) {
            self.held -= partial.pieces.values().map(Bytes::len).sum::<usize>();
            if !partial.told.is_empty() {
                self.expired.push(Expired(partial.told));
            }
        }
    }

    /// What is recorded of what was thrown away since last asked.
    pub fn take_expired(&mut self) -> Vec<Expired> {
        std::mem::take(&mut self.expired)
    }

    /// What is recorded of what waits now.
    pub fn take_all_pieces(&mut self) -> Vec<Expired> {
        self.partial.values_mut().map(|partial| Expired(std::mem::take(&mut partial.told))).collect()
    }
}

/// The pieces as one, if they leave no hole.
fn join(pieces: &BTreeMap<u16, Bytes>, total: usize) -> Option<BytesMut> {
    let mut body = BytesMut::with_capacity(total);
    for (offset, piece) in pieces {
        let at = usize::from(*offset) * 8;
        if at > body.len() {
            return None;
        }
        let known = body.len() - at;
        if known < piece.len() {
            body.extend_from_slice(&piece[known..]);
        }
    }
    (body.len() == total).then_some(body)
}
