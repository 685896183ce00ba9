//! What packets occupy in a receive buffer (`skb->truesize` of Linux 6.18 on x86-64): the descriptor, and an area of memory that holds headroom,
//! headers, payload and the descriptor's shared part. SO_RCVBUF, SO_MEMINFO and the offered window count in it, not in payload.

use super::send_queue::OVERHEAD;

/// `struct sk_buff`, `struct skb_shared_info` and the headroom that drivers leave (NET_SKB_PAD), in bytes.
const DESCRIPTOR: usize = 256;
const SHARED: usize = 320;
const HEADROOM: usize = 64;
/// The area of small packets (SKB_SMALL_HEAD_SIZE); larger ones are powers of two.
const SMALL_AREA: usize = 576;
/// The payload that fits into the area of a page: the receive buffer is packed into such (tcp_collapse).
pub(crate) const PACKED_PAYLOAD: usize = 4096 - SHARED;

/// What one received packet occupies, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Footprint {
    pub charge: u32,
    room: Room,
}

/// What a packet that follows can be joined into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    /// Its payload is copied behind the first one's, where so many bytes are left.
    Bytes(u16),
    /// Payload lies in so many runs of pages, which are handed on.
    Pages(u8),
}

/// Bytes in a run of pages that a program has written (SKB_FRAG_PAGE_ORDER).
const PAGES_RUN: usize = 32_768;
/// The most runs of pages that a packet has (MAX_SKB_FRAGS).
const PAGES_MAX: u8 = 17;

impl Footprint {
    /// Of a packet of `len` bytes with IP header that a driver received.
    pub fn received(len: usize) -> Self {
        let wanted = (len + HEADROOM).next_multiple_of(64) + SHARED;
        let area = if wanted <= SMALL_AREA { SMALL_AREA } else { wanted.next_power_of_two() };
        let room = (area - SHARED - HEADROOM - len).min(usize::from(u16::MAX));
        Footprint { charge: (DESCRIPTOR + area) as u32, room: Room::Bytes(room as u16) }
    }

    /// Of a segment with so much payload that comes over loopback: it is the sender's.
    pub fn looped(payload: usize) -> Self {
        Footprint { charge: (OVERHEAD + payload) as u32, room: Room::Pages(1 + (payload / PAGES_RUN) as u8) }
    }

    /// Of a train: `payload` in segments of `mss`, each behind `headers` bytes of IP and TCP headers.
    pub fn train(payload: usize, mss: usize, headers: usize) -> Self {
        let rest = payload % mss;
        let last = if rest > 0 { Footprint::received(headers + rest).charge } else { 0 };
        let full = Footprint::received(headers + mss).charge * (payload / mss) as u32;
        Footprint { charge: full + last, room: Room::Bytes(0) }
    }

    /// Of a packed buffer with so much payload.
    pub fn packed(payload: usize) -> Self {
        Footprint { room: Room::Bytes(0), ..Footprint::received(payload.saturating_sub(HEADROOM)) }
    }

    /// What counts for a window to come: pages alone, where payload lies in such (truesize_adjust).
    pub fn lasting(self, payload: usize) -> u32 {
        if matches!(self.room, Room::Pages(_)) { payload as u32 } else { self.charge }
    }

    /// Both as one, if what follows can be joined with this one (tcp_try_coalesce): small payloads are copied behind it, pages are handed on.
    pub fn joined(self, next: Footprint, payload: usize) -> Option<Footprint> {
        match (self.room, next.room) {
            (Room::Pages(mine), Room::Pages(theirs)) if mine + theirs <= PAGES_MAX => {
                let charge = self.charge + next.charge.saturating_sub(OVERHEAD as u32);
                Some(Footprint { charge, room: Room::Pages(mine + theirs) })
            }
            (Room::Bytes(room), _) if payload <= usize::from(room) => {
                Some(Footprint { room: Room::Bytes(room - payload as u16), ..self })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_occupy_what_linux_counts() {
        // SO_MEMINFO on Linux 6.18 behind a TUN device: 40 bytes of headers and 1, 152, 153, 600, 601, 1460 of payload.
        let charges = [1, 152, 153, 600, 601, 1460].map(|payload| Footprint::received(40 + payload).charge);
        assert_eq!(charges, [832, 832, 1280, 1280, 2304, 2304]);
        assert_eq!(Footprint::train(2 * 1460 + 10, 1460, 40).charge, 2 * 2304 + 832);
        assert_eq!((Footprint::packed(PACKED_PAYLOAD).charge, Footprint::packed(100).charge), (4096 + 256, 832));
    }

    #[test]
    fn small_payloads_share_an_area() {
        let first = Footprint::received(41);
        let both = first.joined(Footprint::received(140), 100).unwrap();
        assert_eq!(both.charge, 832);
        assert_eq!(both.joined(Footprint::received(92), 52), None);
        let looped = Footprint::looped(1000).joined(Footprint::looped(500), 500);
        assert_eq!(looped.map(|both| both.charge), Some(832 + 1500));
        assert_eq!(looped.and_then(|both| both.joined(first, 1)), None);
    }
}
