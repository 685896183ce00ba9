//! The record that remains of a connection for 60 s after both sides have closed it (RFC 9293 section 3.6.1), so that old
//! segments are answered and its ports are not used again too early.

use super::connection::{Connection, extend};
use crate::addr::{Family, FourTuple, Interface};
use crate::wire::ip::IpHeader;
use crate::wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use base::SimTime;

#[derive(Debug)]
pub(crate) struct TimeWait {
    pub tuple: FourTuple,
    pub interface: Interface,
    pub until: SimTime,
    pub entered: SimTime,
    pub next_seq: u64,
    pub expected: u64,
    window: u16,
    /// Our clock's offset and the peer's last timestamp.
    stamps: Option<(u32, u32)>,
    /// Of the socket that it was.
    pub family: Family,
    /// Of the packets that it answers with.
    pub header: IpHeader,
}

/// What a segment for such a record leads to.
pub(crate) enum Verdict {
    Ignore,
    /// Acknowledge again, and wait again from now.
    Acknowledge,
    /// A new connection may begin: its initial sequence number must be at least this.
    Reopen(u32),
    /// The record ends.
    Forget,
}

impl TimeWait {
    /// Both ends sent timestamps: they tell an old segment from a new connection's.
    pub fn has_stamps(&self) -> bool {
        self.stamps.is_some()
    }

    pub fn of(conn: &Connection, now: SimTime) -> Self {
        TimeWait {
            tuple: conn.tuple,
            interface: conn.interface,
            until: now + conn.config.time_wait,
            entered: now,
            next_seq: conn.snd.nxt,
            expected: conn.rcv.queue.next(),
            window: (conn.rcv.window >> conn.rcv.scale).min(65_535) as u16,
            stamps: conn.timestamps_enabled.then_some((conn.ts_offset, conn.rcv.ts_recent)),
            family: conn.settings.family,
            header: conn.settings.header(conn.tuple.local.addr, conn.tuple.remote.addr),
        }
    }

    /// The first sequence number of a connection that follows this one.
    pub fn successor_seq(&self) -> u32 {
        (self.next_seq as u32).wrapping_add(65_535 + 2)
    }

    /// tcp_timewait_state_process; RFC 6191 for a SYN with a newer timestamp, RFC 1337 for resets.
    pub fn judge(&self, header: &TcpHeader, payload_len: usize) -> Verdict {
        let seq = extend(self.expected, header.seq);
        let newer = match (self.stamps, header.options.timestamps) {
            (Some((_, recent)), Some(stamps)) => (stamps.value.wrapping_sub(recent) as i32) > 0,
            _ => false,
        };
        let older = match (self.stamps, header.options.timestamps) {
            (Some((_, recent)), Some(stamps)) => (stamps.value.wrapping_sub(recent) as i32) < 0,
            _ => false,
        };
        if header.flags.contains(TcpFlags::RST) {
            return if seq == self.expected { Verdict::Forget } else { Verdict::Ignore };
        }
        let fresh_syn = header.flags.contains(TcpFlags::SYN) && !header.flags.contains(TcpFlags::ACK);
        if fresh_syn && !older && (seq > self.expected || newer) {
            return Verdict::Reopen(self.successor_seq());
        }
        let bare = payload_len == 0 && !header.flags.intersects(TcpFlags::SYN | TcpFlags::FIN);
        if bare && seq == self.expected { Verdict::Ignore } else { Verdict::Acknowledge }
    }

    pub fn acknowledgement(&self, now: SimTime) -> TcpHeader {
        let timestamps = self.stamps.map(|(offset, recent)| Timestamps {
            value: ((now.as_nanos() / 1_000_000) as u32).wrapping_add(offset),
            echo: recent,
        });
        TcpHeader {
            src_port: self.tuple.local.port,
            dst_port: self.tuple.remote.port,
            seq: self.next_seq as u32,
            ack: self.expected as u32,
            flags: TcpFlags::ACK,
            window: self.window,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
        }
    }
}
