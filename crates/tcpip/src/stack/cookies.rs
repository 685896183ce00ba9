//! SYN cookies (syncookies.c; RFC 4987 section 3.6): when a listener has as many handshakes under way as its backlog, what a SYN told goes into
//! the numbers of the answer instead of memory, and is read from the acknowledgement that completes the handshake.

use super::Stack;
use crate::addr::{Family, FourTuple};
use crate::packet::{Packet, Transport};
use crate::socket::{Readiness, SocketId};
use crate::tcp::connection::{Connection, Draw, Reply};
use crate::tcp::new_data::{Amount, Nagle};
use crate::wire::ip::IpHeader;
use crate::wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps, WindowScale};
use base::{Rng, SimDuration, SimTime};
use bytes::Bytes;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// The MSS values that a cookie has room for.
const MSS_V4: [u16; 4] = [536, 1300, 1440, 1460];
const MSS_V6: [u16; 4] = [1220, 1420, 1440, 8940];
/// A cookie's bits below the count of minutes.
const DATA_BITS: u32 = 24;
/// A cookie holds for this many minutes (MAX_SYNCOOKIE_AGE), and is believed only so long after a listener had too many handshakes.
const AGE_MAX: u32 = 2;
const RECENT: SimDuration = SimDuration::from_secs(2 * 60);
/// The lowest bits of the timestamp: the peer's window scale (none if all are set), and whether it takes SACK.
const STAMP_BITS: u32 = 0x3f;
const STAMP_SCALE: u32 = 0xf;
const STAMP_SACK: u32 = 0x10;

/// What makes cookies unpredictable to peers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(u64);

impl Key {
    pub fn draw(rng: &mut Rng) -> Key {
        Key((u64::from(rng.next_u32()) << 32) | u64::from(rng.next_u32()))
    }

    fn hash(self, tuple: &FourTuple, more: u64) -> u32 {
        let words = |addr: IpAddr| match addr {
            IpAddr::V4(v4) => [u64::from(v4.to_bits()), 0],
            IpAddr::V6(v6) => [(v6.to_bits() >> 64) as u64, v6.to_bits() as u64],
        };
        let ports = (u64::from(tuple.local.port) << 16) | u64::from(tuple.remote.port);
        let [a, b] = words(tuple.local.addr);
        let [c, d] = words(tuple.remote.addr);
        let mut state = self.0;
        for word in [a, b, c, d, ports, more] {
            // The step of SplitMix64 (Steele, Lea and Flood 2014).
            state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^= state >> 31;
        }
        state as u32
    }

    /// The number of our SYN that says `data` to who sent a SYN with this number (secure_tcp_syn_cookie).
    fn cookie(self, tuple: &FourTuple, seq: u32, minute: u32, data: u32) -> u32 {
        let hidden = self.hash(tuple, 1 << 32 | u64::from(minute)).wrapping_add(data) & ((1 << DATA_BITS) - 1);
        self.hash(tuple, 0).wrapping_add(seq).wrapping_add(minute << DATA_BITS).wrapping_add(hidden)
    }

    /// What the cookie says, if it is one of the last minutes' (check_tcp_syn_cookie).
    fn read(self, tuple: &FourTuple, seq: u32, minute: u32, cookie: u32) -> Option<u32> {
        let rest = cookie.wrapping_sub(self.hash(tuple, 0)).wrapping_sub(seq);
        let age = minute.wrapping_sub(rest >> DATA_BITS) & (u32::MAX >> DATA_BITS);
        if age >= AGE_MAX {
            return None;
        }
        let hidden = self.hash(tuple, 1 << 32 | u64::from(minute.wrapping_sub(age)));
        Some(rest.wrapping_sub(hidden) & ((1 << DATA_BITS) - 1))
    }

    /// The offset of timestamps, which must be the same when the acknowledgement comes.
    fn offset(self, tuple: &FourTuple) -> u32 {
        self.hash(tuple, 2 << 32)
    }
}

fn minute(now: SimTime) -> u32 {
    (now.as_nanos() / 60_000_000_000) as u32
}

fn values(tuple: &FourTuple) -> &'static [u16; 4] {
    if tuple.family() == Family::V4 { &MSS_V4 } else { &MSS_V6 }
}

impl Stack {
    fn cookie_key(&mut self) -> Key {
        *self.cookie_key.get_or_insert_with(|| Key::draw(&mut self.rng))
    }

    /// Whether a SYN is to be answered by a cookie: the listener has too many handshakes under way, or it always is. None if it is to be dropped.
    pub(super) fn wants_cookie(&mut self, now: SimTime, parent: SocketId) -> Option<bool> {
        let (mode, most) = (self.config.syn_cookies, self.config.max_syn_backlog);
        let queue = self.listener(parent).ok()?;
        let under_way = queue.half_open.len() as u32;
        let crowded = under_way >= queue.backlog;
        if mode == 2 || crowded && mode == 1 {
            queue.flooded_at = Some(now);
            self.counters.cookies_for_full += 1;
            return Some(true);
        }
        // Without cookies, the last quarter of the host's room is for peers that are known.
        let scarce = mode == 0 && most.saturating_sub(under_way) < most >> 2;
        self.counters.dropped_for_full += u64::from(crowded);
        (!crowded && !scarce).then_some(false)
    }

    /// Answers a SYN, and keeps nothing.
    pub(super) fn send_cookie(&mut self, now: SimTime, tuple: FourTuple, header: &TcpHeader, parent: SocketId) {
        let key = self.cookie_key();
        let mut syn = header.clone();
        if syn.options.timestamps.is_none() {
            // There is nowhere to put them.
            syn.options = TcpOptions { mss: syn.options.mss, ..TcpOptions::default() };
        }
        let told = syn.options.mss.map_or(536, NonZeroU16::get);
        let data = values(&tuple).iter().rposition(|mss| *mss <= told).unwrap_or(0) as u32;
        let draw =
            Draw { iss: key.cookie(&tuple, syn.seq, minute(now), data), ts_offset: key.offset(&tuple), ip_id: 0 };
        let Some(mut conn) = self.accept_by(now, tuple, &syn, parent, draw) else { return };
        let Some(mut answer) = conn.poll(now, Nagle::Usual, Amount::All) else { return };
        let options = &answer.header.options;
        if let (Some(stamps), Some(theirs)) = (&options.timestamps, &syn.options.timestamps) {
            let scale = if options.window_scale.is_some() {
                syn.options.window_scale.map_or(0, WindowScale::shift).into()
            } else {
                STAMP_SCALE
            };
            let said = scale | if options.sack_permitted { STAMP_SACK } else { 0 };
            let clock = stamps.value.wrapping_sub(draw.ts_offset);
            let mut value = (clock & !STAMP_BITS) | said;
            if value > clock {
                value = value.wrapping_sub(STAMP_BITS + 1);
            }
            let value = value.wrapping_add(draw.ts_offset);
            answer.header.options.timestamps = Some(Timestamps { value, echo: theirs.value });
        }
        self.counters.cookies_sent += 1;
        let ip: IpHeader = conn.settings.header(tuple.local.addr, tuple.remote.addr);
        let packet = Packet::new(ip, Transport::Tcp(answer.header), Bytes::new());
        self.push_packet(conn.interface, packet, None);
    }

    fn accept_by(
        &mut self,
        now: SimTime,
        tuple: FourTuple,
        syn: &TcpHeader,
        parent: SocketId,
        draw: Draw,
    ) -> Option<Connection> {
        let settings = self.tcp(parent).ok()?.settings.clone();
        let (interface, config) = (self.interface_of(&tuple), self.config.clone());
        let mut conn = Connection::accept(now, tuple, interface, config, settings, draw, syn);
        conn.parent = Some(parent);
        Some(conn)
    }

    /// An acknowledgement for nobody but a listener: if it answers a cookie, the connection is there. Says whether it is dealt with.
    pub(super) fn take_cookie(
        &mut self,
        now: SimTime,
        tuple: FourTuple,
        header: &TcpHeader,
        payload: &Bytes,
        parent: SocketId,
    ) -> bool {
        let Ok(queue) = self.listener(parent) else { return false };
        let recent = queue.flooded_at.is_some_and(|at| now.saturating_since(at) <= RECENT);
        if self.config.syn_cookies == 0 || !recent {
            return false;
        }
        let key = self.cookie_key();
        let (seq, cookie) = (header.seq.wrapping_sub(1), header.ack.wrapping_sub(1));
        let said = key.read(&tuple, seq, minute(now), cookie);
        let Some(mss) = said.and_then(|said| values(&tuple).get(said as usize).copied()) else {
            self.counters.cookies_failed += 1;
            return false;
        };
        self.counters.cookies_received += 1;
        let is_full = self.listener(parent).is_ok_and(|queue| queue.is_full());
        if is_full {
            self.counters.listen_overflows += 1;
            self.counters.listen_drops += 1;
            return true;
        }
        let draw = Draw { iss: cookie, ts_offset: key.offset(&tuple), ip_id: self.rng.next_u32() as u16 };
        let mut options = TcpOptions { mss: NonZeroU16::new(mss), ..TcpOptions::default() };
        if let Some(stamps) = header.options.timestamps {
            let told = stamps.echo.wrapping_sub(draw.ts_offset);
            options.timestamps = Some(Timestamps { value: stamps.value, echo: 0 });
            options.sack_permitted = told & STAMP_SACK != 0;
            options.window_scale =
                (told & STAMP_SCALE != STAMP_SCALE).then(|| WindowScale::new((told & STAMP_SCALE) as u8));
        }
        let syn = TcpHeader { seq, flags: TcpFlags::SYN, options, ..header.clone() };
        let Some(mut conn) = self.accept_by(now, tuple, &syn, parent, draw) else { return false };
        // The SYN-ACK has left long ago.
        let _ = conn.poll(now, Nagle::Usual, Amount::All);
        let reply = conn.on_segment(now, header, payload.clone(), 0);
        conn.parent = Some(parent);
        conn.guess_rtt(now, header.options.timestamps.map(|stamps| stamps.echo));
        let hold = self.share_port(tuple.local, &conn.settings);
        let index = self.insert_connection(conn, tuple.local, hold);
        if let Some(conn) = self.connection_at(index) {
            conn.parent = None;
        }
        self.slots[index as usize].unaccepted = true;
        let id = self.id_of(index);
        if let Ok(queue) = self.listener(parent) {
            queue.ready.push_back(id);
        }
        self.counters.passive_opens += 1;
        self.post(parent.index, Readiness::READABLE);
        self.note_segment(now, index, u64::from(header.seq) + (1 << 32), header, payload.len());
        self.sync(now, index);
        if reply == Reply::Reset {
            self.send_reset(tuple, header, payload.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Endpoint;
    use base::SeedTree;

    #[test]
    fn a_cookie_is_read_for_two_minutes_by_who_it_was_made_for() {
        let key = Key::draw(&mut SeedTree::new(1).stream("host", "stack"));
        let tuple = |port| FourTuple {
            local: Endpoint::new(IpAddr::from([11, 0, 0, 1]), 80),
            remote: Endpoint::new(IpAddr::from([11, 0, 0, 2]), port),
        };
        for data in 0..4 {
            let cookie = key.cookie(&tuple(5), 77, 255, data);
            assert_eq!(key.read(&tuple(5), 77, 255, cookie), Some(data));
            assert_eq!(key.read(&tuple(5), 77, 256, cookie), Some(data));
            assert_eq!(key.read(&tuple(5), 77, 257, cookie), None);
            assert_ne!(key.read(&tuple(6), 77, 255, cookie), Some(data));
            assert_ne!(key.read(&tuple(5), 78, 255, cookie), Some(data));
        }
    }
}
