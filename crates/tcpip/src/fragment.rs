//! IPv4 fragmentation and reassembly (RFC 791 section 3.2), for datagrams larger than the MTU.

use crate::packet::{Packet, Transport};
use crate::wire::ipv4;
use base::{SimDuration, SimTime};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// net.ipv4.ipfrag_time.
const TIMEOUT: SimDuration = SimDuration::from_secs(30);
/// net.ipv4.ipfrag_high_thresh.
const MEMORY_LIMIT: usize = 4 << 20;

/// The packets that carry `packet` over a link with this MTU; `id` is put into each.
pub(crate) fn split(packet: &Packet, mtu: usize, id: u16) -> impl Iterator<Item = Packet> + use<> {
    let mut bytes = Vec::with_capacity(packet.wire_len());
    packet.emit(&mut bytes);
    let body = Bytes::from(bytes).slice(ipv4::HEADER_LEN..);
    let (header, protocol) = (packet.ip, packet.transport.protocol());
    let step = (mtu - ipv4::HEADER_LEN) / 8 * 8;
    (0..body.len().div_ceil(step)).map(move |i| {
        let end = body.len().min((i + 1) * step);
        let mut ip = header;
        ip.id = id;
        ip.dont_fragment = false;
        ip.fragment_offset = (i * step / 8) as u16;
        ip.more_fragments = end < body.len();
        Packet { ip, transport: Transport::Raw { protocol }, payload: body.slice(i * step..end) }
    })
}

#[derive(Debug)]
struct Partial {
    since: SimTime,
    pieces: BTreeMap<u16, Bytes>,
    total: Option<usize>,
}

#[derive(Default, Debug)]
pub(crate) struct Reassembly {
    partial: BTreeMap<(Ipv4Addr, Ipv4Addr, u16, u8), Partial>,
    held: usize,
}

impl Reassembly {
    /// Takes a fragment; gives the whole packet once it is complete.
    pub fn push(&mut self, now: SimTime, packet: Packet) -> Option<Packet> {
        self.expire(now);
        let protocol = packet.transport.protocol();
        let key = (packet.ip.src, packet.ip.dst, packet.ip.id, protocol);
        let partial =
            self.partial.entry(key).or_insert_with(|| Partial { since: now, pieces: BTreeMap::new(), total: None });
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
        self.forget(key);
        let mut ip = packet.ip;
        (ip.more_fragments, ip.fragment_offset) = (false, 0);
        Packet::parse_transport(ip, protocol, &body).ok()
    }

    fn expire(&mut self, now: SimTime) {
        let old = |partial: &Partial| now.saturating_since(partial.since) > TIMEOUT;
        while let Some((key, _)) = self.partial.iter().find(|(_, partial)| old(partial)) {
            self.forget(*key);
        }
        while self.held > MEMORY_LIMIT
            && let Some((key, _)) = self.partial.iter().min_by_key(|(_, partial)| partial.since)
        {
            self.forget(*key);
        }
    }

    fn forget(&mut self, key: (Ipv4Addr, Ipv4Addr, u16, u8)) {
        if let Some(partial) = self.partial.remove(&key) {
            self.held -= partial.pieces.values().map(Bytes::len).sum::<usize>();
        }
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
