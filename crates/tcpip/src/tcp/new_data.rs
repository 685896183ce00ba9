//! New data: what a write adds to the send queue, and what of it leaves next, by Linux's rules (net/ipv4/tcp_output.c,
//! `tcp_write_xmit`). What leaves is a train: one buffer of up to 64 kB, which becomes segments only behind the stack.

use super::connection::Connection;
use super::output::Departure;
use super::pacing::Pacing;
use super::send_queue::Unsent;
use base::{SimDuration, SimTime};
use bytes::Bytes;

/// The largest train: 64 kB less one byte and less the room for headers (sk_gso_max_size).
const TRAIN_MAX: u32 = 65_536 - 1 - HEADER_ROOM;
/// MAX_TCP_HEADER.
pub(super) const HEADER_ROOM: u32 = 320;
/// `struct skb_shared_info` and `struct sk_buff`, in cache lines.
const SHARED_INFO: u32 = 320;
const SOCKET_BUFFER: u32 = 256;
/// The share of a second of the pacing rate that a train and a socket's part of the interface's queue may hold (sk_pacing_shift).
const PACING_SHIFT: u32 = 10;

/// A train waits for others only if one left so recently, and for an acknowledgement that is so near.
const DEFER_MAX: SimDuration = SimDuration::from_millis(1);

/// What a partial segment waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nagle {
    /// What the socket's options say.
    Usual,
    /// The write announced more (MSG_MORE).
    Cork,
    /// For nothing.
    Push,
}

/// How much may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    All,
    /// One train: a full buffer, while the write goes on.
    One,
    /// One segment, whatever the congestion window says: a tail loss probe.
    Probe,
}

impl Connection {
    /// Bytes that a buffer is filled with before the next is begun (tcp_xmit_size_goal).
    fn train_goal(&self) -> u32 {
        let mss = self.segment_limit();
        let most = self.bound_to_half_window(TRAIN_MAX);
        (most / mss * mss).max(mss)
    }

    /// No more than half of the largest window that the peer has offered (tcp_bound_to_half_wnd).
    pub(super) fn bound_to_half_window(&self, size: u32) -> u32 {
        let most = self.snd.max_window;
        let cutoff = if most > 536 { most / 2 } else { most };
        if cutoff > 0 { size.min(cutoff.max(16)) } else { size }
    }

    /// How many bytes the next write may add before the buffers are looked at again; 0 when it must wait for room
    /// (sk_stream_memory_free, which is asked for each buffer, so that the last may exceed SO_SNDBUF).
    pub fn write_room(&self) -> usize {
        let goal = self.train_goal() as usize;
        match self.snd.queue.tail_room(goal) {
            0 if self.has_memory(0) => goal,
            room => room,
        }
    }

    /// The last buffer takes no more, or has been sent.
    pub fn tail_is_full(&self) -> bool {
        self.snd.queue.tail_room(self.train_goal() as usize) == 0
    }

    /// SO_SNDBUF and TCP_NOTSENT_LOWAT allow another buffer. `wake` is 1 for who is to be woken: then half of the latter counts.
    pub fn has_memory(&self, wake: u32) -> bool {
        let low_water = match self.settings.not_sent_low_water {
            0 => self.config.not_sent_low_water,
            set => set,
        };
        self.snd.queue.memory() < self.sizing.send_buffer as usize
            && (self.not_sent() as u64) << wake < u64::from(low_water)
    }

    /// A third of the buffer is free (sk_stream_is_writeable), and TCP_NOTSENT_LOWAT allows more.
    pub fn is_writeable(&self) -> bool {
        let held = self.snd.queue.memory();
        (self.sizing.send_buffer as usize).saturating_sub(held) >= held / 2 && self.has_memory(1)
    }

    /// A write begins: if the network could have taken more than there was, the program was the limit (tcp_rate_check_app_limited).
    pub fn note_app_limit(&mut self) {
        let in_flight = self.board.in_flight();
        let has_less = self.not_sent() < self.payload_mss() as usize && self.snd.in_host == 0;
        if has_less && in_flight < self.cc.cwnd() && self.board.lost <= self.board.retransmitted {
            self.board.rate.limit_by_app(in_flight);
        }
    }

    /// Takes the next bytes of a write, no more than `write_room`. The first of a write take back the push mark of the last.
    pub fn append(&mut self, now: SimTime, bytes: Bytes, first: bool) {
        let new = self.tail_is_full();
        if new {
            self.snd.nagle_off_once = false;
            self.restart_if_idle(now);
        }
        self.snd.queue.push(bytes, new);
        if first {
            self.snd.queue.mark_tail(false);
        }
    }

    /// Sending is about to begin again: after a while in which nothing left, with a smaller window (tcp_slow_start_after_idle_check).
    pub fn restart_if_idle(&mut self, now: SimTime) {
        if self.board.is_empty() && self.config.slow_start_after_idle {
            self.cc.restart_after_idle(now.saturating_since(self.snd.last_sent_at), self.rtt.rto());
        }
    }

    /// The last buffer is to be handed on by the peer at once (tcp_mark_push).
    pub fn mark_push(&mut self) {
        self.snd.queue.mark_tail(true);
        self.snd.pushed = self.snd.queue.tail();
    }

    /// Half of the largest window was written since the last push mark (forced_push).
    pub fn must_push(&self) -> bool {
        self.snd.queue.tail() > self.snd.pushed + u64::from(self.snd.max_window / 2)
    }

    /// A small write waits for others while earlier data is still in the interface's queue (tcp_should_autocork).
    pub fn gathers_writes(&self) -> bool {
        let Some(unsent) = self.snd.queue.unsent().filter(|unsent| unsent.last && !unsent.record_end) else {
            return false;
        };
        self.config.autocork
            && unsent.len() < u64::from(self.train_goal())
            && !self.board.is_empty()
            && self.snd.in_host > unsent.len() as usize + super::send_queue::OVERHEAD
    }

    /// Segments in a train: about a millisecond of the pacing rate, more to near peers (tcp_tso_autosize).
    pub(super) fn train_segments(&self, mss: u32) -> u32 {
        let paced = self.pacing_rate().map_or(TRAIN_MAX, |rate| (rate >> PACING_SHIFT).min(TRAIN_MAX.into()) as u32);
        let near = self.rtt.min().map_or(u64::MAX, |min| (min.as_nanos() / 1000) >> self.config.near_shift.min(63));
        let bonus = if near < 32 { TRAIN_MAX >> near } else { 0 };
        (paced.saturating_add(bonus).min(TRAIN_MAX) / mss).max(self.config.min_tso_segs)
    }

    /// As much of this connection waits in the host's interface as it may (tcp_small_queue_check). One train always may.
    pub(super) fn is_small_queue_full(&mut self, train: usize) -> bool {
        let paced = self.pacing_rate().map_or(usize::MAX, |rate| (rate >> PACING_SHIFT) as usize);
        let mut limit = paced.max(2 * (train + super::send_queue::OVERHEAD));
        if self.pacing() == Pacing::Off {
            limit = limit.min(self.config.limit_output_bytes as usize);
        }
        let full = self.snd.in_host > limit && self.snd.queue.sent_buffers() > 1;
        self.snd.throttled |= full;
        full
    }

    /// The next train of new data, and the FIN where it follows; None if nothing may leave now.
    pub(super) fn poll_new(&mut self, now: SimTime, nagle: Nagle, amount: Amount) -> Option<Departure> {
        let Some(unsent) = self.snd.queue.unsent() else {
            let in_flight = self.board.in_flight();
            let may = in_flight < self.cc.cwnd() && self.snd.nxt < self.window_end();
            return (self.fin_waits() && may).then(|| self.send_new(now, 0));
        };
        let mss = u64::from(self.segment_limit());
        if self.waits_for_pace(now) || unsent.end.min(unsent.start + mss) > self.window_end() {
            return None;
        }
        let most = self.train_segments(mss as u32);
        let quota = match self.window_quota() {
            0 if amount == Amount::Probe => 1,
            0 => {
                self.note_window_use(true);
                return None;
            }
            quota => quota.min(most),
        };
        let quota = if amount == Amount::Probe { 1 } else { quota };
        self.snd.queue.grow_unsent((u64::from(quota) * mss).saturating_sub(unsent.len()));
        let unsent = self.snd.queue.unsent().unwrap_or(unsent);
        if unsent.len() <= mss {
            let ends = unsent.last && self.snd.fin_queued;
            let middle = !unsent.last || self.snd.nagle_off_once || ends;
            if !middle && unsent.len() < mss && self.holds_partial(nagle) {
                return None;
            }
        } else if amount == Amount::All && self.config.tso_win_divisor > 0 && self.defers(now, &unsent, most) {
            return None;
        }
        let len = unsent.len().min(self.split_point(&unsent, mss, quota, nagle));
        if len == 0 {
            return None;
        }
        if len < unsent.len() {
            self.snd.queue.split_unsent(len);
        }
        if self.is_small_queue_full(len as usize) {
            return None;
        }
        Some(self.send_new(now, len as u32))
    }

    pub(super) fn window_end(&self) -> u64 {
        self.snd.una + u64::from(self.snd.window)
    }

    /// Tells the controller whether its window is the limit (tcp_cwnd_validate).
    fn note_window_use(&mut self, limited: bool) {
        self.cc.note_use(self.snd.una, self.snd.nxt, self.board.packets_out(), limited);
    }

    /// Segments that the congestion window lets leave at once: half of it at most, so that two trains are under way
    /// (tcp_cwnd_test).
    fn window_quota(&self) -> u32 {
        let (cwnd, in_flight) = (self.cc.cwnd(), self.board.in_flight());
        cwnd.saturating_sub(in_flight).min((cwnd / 2).max(1))
    }

    /// A partial segment waits: for a cork, or by Nagle's rule because a small segment is unacknowledged (RFC 9293 section
    /// 3.7.4, with Minshall's modification).
    fn holds_partial(&self, nagle: Nagle) -> bool {
        let small = self.snd.small_end > self.snd.una && self.snd.small_end <= self.snd.nxt;
        let waits = self.config.nagle && !self.settings.no_delay;
        match nagle {
            Nagle::Push => false,
            Nagle::Cork => true,
            Nagle::Usual => self.settings.cork || (waits && !self.board.is_empty() && small),
        }
    }

    /// Bytes of the buffer that leave at once: what the windows allow, without a partial segment that has to wait
    /// (tcp_mss_split_point).
    fn split_point(&self, unsent: &Unsent, mss: u64, quota: u32, nagle: Nagle) -> u64 {
        if unsent.len() <= mss {
            return unsent.len();
        }
        let window = self.window_end() - unsent.start;
        let most = mss * u64::from(quota);
        if most <= window && !unsent.last {
            return most;
        }
        let needed = unsent.len().min(window);
        if most <= needed {
            return most;
        }
        let partial = needed % mss;
        if partial != 0 && !self.snd.nagle_off_once && self.holds_partial(nagle) { needed - partial } else { needed }
    }

    /// Whether a train waits for the next acknowledgement, to leave with more (tcp_tso_should_defer).
    fn defers(&mut self, now: SimTime, unsent: &Unsent, most: u32) -> bool {
        let mss = u64::from(self.payload_mss());
        // On a machine what happens a millisecond later happens some microseconds later still.
        let recently = now.saturating_since(self.snd.left_at) < DEFER_MAX;
        if self.recovery.in_recovery() || !recently {
            return false;
        }
        let in_window = self.window_end() - unsent.start;
        let in_cwnd = u64::from(self.cc.cwnd() - self.board.in_flight()) * mss;
        let limit = in_window.min(in_cwnd);
        if limit >= u64::from(most) * mss || (!unsent.last && limit >= unsent.len()) {
            return false;
        }
        let part =
            u64::from(self.snd.window).min(u64::from(self.cc.cwnd()) * mss) / u64::from(self.config.tso_win_divisor);
        if limit >= part {
            return false;
        }
        // The next acknowledgement would come too late: not within a millisecond, nor half a round trip.
        let Some(head) = self.board.head() else { return false };
        let soon = SimDuration::from_nanos(self.rtt.srtt().as_nanos() / 2).min(DEFER_MAX);
        if (head.sent_at + self.rtt.srtt()).saturating_since(now) > soon {
            return false;
        }
        if in_cwnd < in_window {
            if in_cwnd <= unsent.len() {
                self.note_window_use(true);
                return true;
            }
        } else if in_window <= unsent.len() {
            return true;
        }
        // It gets no more data.
        !(unsent.record_end || (unsent.last && self.snd.fin_queued))
    }

    /// A zero window probe with data, where the window has some room after all (tcp_write_wakeup).
    pub(super) fn poll_window_probe(&mut self, now: SimTime) -> Option<Departure> {
        let unsent = self.snd.queue.unsent()?;
        if unsent.start >= self.window_end() {
            return None;
        }
        let room = self.window_end() - unsent.start;
        let mss = u64::from(self.segment_limit());
        self.snd.pushed = self.snd.pushed.max(unsent.end);
        let len = unsent.len().min(room).min(mss);
        if len < unsent.len() {
            self.snd.queue.split_unsent(len);
        }
        self.snd.queue.push_unsent();
        Some(self.send_new(now, len as u32))
    }

    fn send_new(&mut self, now: SimTime, len: u32) -> Departure {
        if self.board.in_flight() == 0 {
            self.cc.resumed_after(now.saturating_since(self.snd.last_sent_at));
        }
        let start = self.snd.nxt.max(self.snd.iss + 1);
        let end = start + u64::from(len);
        let fin = end == self.snd.queue.tail() && self.snd.fin_queued;
        let payload = self.snd.queue.slice(start, end);
        let mss = self.segment_limit();
        let segments = len.div_ceil(mss).max(1);
        // A train has it in any case, so that a receiver that joins segments hands them on (Linux 5.4).
        let push = len > 0 && (segments > 1 || self.snd.queue.pushes_at(end));
        if len > 0 {
            self.snd.queue.mark_sent();
        }
        let departs = self.departs_at(now);
        if self.board.is_empty() {
            self.timers.since = departs;
        }
        let mut at = start;
        for left in (0..segments).rev() {
            let stop = if left == 0 { end + u64::from(fin) } else { at + u64::from(mss) };
            self.board.sent(at, (stop - at) as u32, departs);
            at = stop;
        }
        self.snd.nxt = at;
        self.snd.more_announced &= end < self.snd.queue.tail();
        // As Linux, after each train: what the window still lets leave counts as a reason for a larger buffer.
        self.make_room();
        self.timers.note_sent(now);
        if len < segments * mss {
            self.snd.small_end = self.snd.nxt;
        }
        self.snd.last_sent_at = now;
        self.cc.note_sent(segments);
        self.note_window_use(self.board.in_flight() >= self.cc.cwnd());
        self.counters.bytes_sent += u64::from(len);
        self.counters.data_segments_out += if len > 0 { segments } else { 0 };
        if len > 0 {
            self.data_left(now);
        }
        let header = self.data_header(now, start, end, fin, push);
        Departure { header, payload, mss: if segments > 1 { mss as u16 } else { 0 }, not_before: now }
    }

    /// The MSS without the options that every segment has (mss_cache).
    pub(crate) fn payload_mss(&self) -> u32 {
        let options = if self.timestamps_enabled { 12 } else { 0 };
        self.bound_to_half_window(self.snd.mss - options)
    }

    /// What a segment of the larger headers occupies, in the worst case: its own buffer in a power of two (tcp_sndbuf_expand).
    fn memory_per_segment(&self) -> u64 {
        u64::from((self.snd.mss + HEADER_ROOM + SHARED_INFO).next_power_of_two() + SOCKET_BUFFER)
    }

    /// The send buffer holds twice the congestion window (tcp_sndbuf_expand).
    pub fn grow_send_buffer(&mut self) {
        if !self.config.send_autotune || self.settings.send_buffer_locked {
            return;
        }
        let wanted = 2 * u64::from(self.cc.cwnd().max(10)) * self.memory_per_segment();
        let wanted = wanted.min(u64::from(self.config.send_buffer_max)) as u32;
        self.sizing.send_buffer = self.sizing.send_buffer.max(wanted);
    }
}
