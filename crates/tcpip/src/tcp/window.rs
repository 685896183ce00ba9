//! How large the buffers are and which receive window is offered: silly window avoidance (RFC 9293 section 3.8.6.2.2),
//! Linux's slow opening of the window, dynamic right sizing of the receive buffer, and what happens when that is full. The buffer is counted in
//! memory (`footprint`); how much payload that has room for is learned from the segments that come.

use super::connection::Connection;
use super::footprint::Footprint;
use crate::config::Config;
use crate::socket::{Readiness, Settings};
use base::{SimDuration, SimTime};

/// A segment, or a train of them, that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Payload in bytes, and of each segment.
    pub len: usize,
    pub segment: usize,
    pub footprint: Footprint,
    pub push: bool,
    pub fin: bool,
}

/// The smallest argument of TCP_WINDOW_CLAMP that counts (SOCK_MIN_RCVBUF / 2).
pub(crate) const CLAMP_MIN: u32 = 1152;
/// The share of a buffer that is payload, in 256ths, until segments tell (TCP_DEFAULT_SCALING_RATIO).
const FIRST_SHARE: u8 = 128;
/// The largest window that a SYN's scale can express.
const LARGEST: u32 = 65_535 << 14;

#[derive(Debug)]
pub(crate) struct Sizing {
    pub send_buffer: u32,
    pub recv_buffer: u32,
    /// The largest window to offer yet; opens by two segments per segment received (rcv_ssthresh).
    pub open: u32,
    /// The largest window to offer ever, by the buffer or the program (window_clamp).
    pub clamp: u32,
    advertised_mss: u32,
    /// The share of the buffer that is payload, in 256ths (scaling_ratio).
    share: u8,
    /// The last segment found no memory: the window is closed until another acknowledgement (ICSK_ACK_NOMEM).
    refused: bool,
    /// Dynamic right sizing: the most bytes that the program has read in a round trip, when this one began, and from where (rcvq_space).
    space: u32,
    round_start: SimTime,
    round_from: u64,
    /// The round trip as the receiver sees it; zero when unknown.
    pub recv_rtt: SimDuration,
    /// A window is being filled to here since then (zero before the first), which takes a round trip; and the timestamp whose echo was measured last.
    filled_at: u64,
    filling_since: SimTime,
    /// When data in order came last, and where what had come before that moment ends.
    burst_at: SimTime,
    burst_start: u64,
    last_echo: u32,
}

impl Sizing {
    /// `mss` is what our SYN tells.
    pub fn new(config: &Config, settings: &Settings, mss: u32) -> Self {
        let mut sizing = Sizing {
            send_buffer: settings.send_buffer,
            recv_buffer: settings.recv_buffer,
            open: 0,
            clamp: if settings.window_clamp > 0 { settings.window_clamp } else { LARGEST },
            advertised_mss: mss,
            share: FIRST_SHARE,
            refused: false,
            space: 0,
            round_start: SimTime::ZERO,
            round_from: 0,
            recv_rtt: SimDuration::ZERO,
            filled_at: 0,
            filling_since: SimTime::ZERO,
            burst_at: SimTime::ZERO,
            burst_start: 0,
            last_echo: 0,
        };
        if settings.recv_buffer_locked {
            sizing.clamp = sizing.clamp.min(sizing.full());
        }
        sizing.open = sizing.initial_window();
        if config.window_scaling {
            sizing.clamp = sizing.clamp.min(65_535 << sizing.scale(config));
        } else {
            sizing.forgo_scaling();
        }
        sizing
    }

    /// The payload that so much memory has room for (tcp_win_from_space).
    fn payload_of(&self, memory: i64) -> i64 {
        (memory * i64::from(self.share)) >> 8
    }

    /// The memory that so much payload takes (tcp_space_from_win).
    fn memory_of(&self, payload: u64) -> u64 {
        (payload << 8) / u64::from(self.share)
    }

    /// The payload that the whole buffer has room for (tcp_full_space).
    fn full(&self) -> u32 {
        self.payload_of(self.recv_buffer.into()) as u32
    }

    /// The window that a connection begins with: whole segments (tcp_select_initial_window). The field of a SYN, which is never scaled,
    /// has room for 65,535.
    pub fn initial_window(&self) -> u32 {
        let space = self.clamp.min(self.full());
        if space > self.advertised_mss { space / self.advertised_mss * self.advertised_mss } else { space }
    }

    /// The scale that lets the largest window be expressed (tcp_select_initial_window).
    pub fn scale(&self, config: &Config) -> u8 {
        let largest = self.full().max(config.recv_buffer_max).max(config.recv_argument_max).min(self.clamp);
        let bits = u32::BITS - largest.leading_zeros();
        bits.saturating_sub(16).min(14) as u8
    }

    /// Timestamps take room of each segment that comes: the first window is smaller, if it is not told yet.
    pub fn expect_stamps(&mut self) {
        self.advertised_mss -= 12;
        self.open = self.initial_window();
    }

    /// The peer does not scale windows.
    pub fn forgo_scaling(&mut self) {
        self.clamp = self.clamp.min(65_535);
    }

    /// What dynamic right sizing measured last, in bytes per round trip (tcpi_rcv_space).
    pub fn space(&self) -> u32 {
        self.space
    }

    /// The handshake is done (tcp_init_buffer_space): `next` is the first byte to come, in segments of `mss` at most, `window` what was offered.
    pub fn started(&mut self, now: SimTime, next: u64, mss: u32, window: u32) {
        self.advertised_mss = mss;
        self.round_start = now;
        self.round_from = next;
        let full = self.full();
        self.clamp = self.clamp.min(full);
        // A segment's room stays in reserve.
        if self.clamp > 2 * mss && self.clamp + mss > full {
            self.clamp = (2 * mss).max(full.saturating_sub(mss));
        }
        self.open = self.open.min(self.clamp);
        self.space = self.open.min(window).min(10 * mss);
    }

    /// TCP_WINDOW_CLAMP, or another share of the buffer is payload (tcp_set_window_clamp). `window` is what was offered last.
    pub fn set_clamp(&mut self, clamp: u32, window: u32) {
        let clamp = clamp.max(CLAMP_MIN);
        if clamp < self.clamp {
            self.open = self.open.min(clamp);
        } else if clamp > self.clamp {
            self.open = self.open.max(window.min(clamp));
        }
        self.clamp = clamp;
    }

    /// The peer's segments have another size: they tell how much of the buffer is payload (tcp_measure_rcv_mss).
    pub fn learn_share(&mut self, arrival: &Arrival, window: u32) {
        let share = ((arrival.len as u64) << 8) / u64::from(arrival.footprint.charge);
        let share = share.clamp(1, 255) as u8;
        if share != self.share {
            self.share = share;
            self.set_clamp(self.full(), window);
            self.space = self.space.min(self.clamp);
        }
    }

    /// SO_RCVLOWAT: so many bytes are to fit (tcp_set_rcvlowat).
    pub fn hold_at_least(&mut self, bytes: u32) {
        let memory = self.memory_of(bytes.into()).min(u64::from(u32::MAX)) as u32;
        if memory > self.recv_buffer {
            self.recv_buffer = memory;
            self.clamp = self.clamp.max(bytes);
        }
    }

    /// A round trip from the echo of our own timestamp; zero tells nothing.
    fn measured(&mut self, sample: SimDuration, drained: bool) {
        let old = self.recv_rtt;
        // The lowest counts: a longer one may only mean that the sender had nothing to say, or the program does not read.
        if old.is_zero() || sample < old {
            self.recv_rtt = sample;
        } else if drained {
            self.recv_rtt = SimDuration::from_nanos((old.as_nanos() * 7 + sample.as_nanos()) / 8);
        }
    }
}

impl Connection {
    /// Room for payload in the receive buffer (tcp_space); negative when more is held than it has room for.
    fn free_window(&self) -> i64 {
        self.sizing.payload_of(i64::from(self.sizing.recv_buffer) - self.rcv.queue.memory() as i64)
    }

    /// What is left of the window that was last advertised.
    pub fn open_window(&self) -> u32 {
        (self.rcv.wup + u64::from(self.rcv.window)).saturating_sub(self.rcv.queue.next()) as u32
    }

    /// The window that would be offered now, without regard to what was offered before (__tcp_select_window).
    pub fn best_window(&mut self) -> u32 {
        let allowed = i64::from(self.sizing.full());
        let full = allowed.min(self.sizing.clamp.into());
        let mut free = self.free_window();
        let mss = i64::from(self.rcv.mss).min(full);
        let step = 1i64 << self.rcv.scale;
        if mss <= 0 {
            return 0;
        }
        if free < full / 2 {
            self.acks.quick = 0;
            free = free / step * step;
            // Silly window avoidance: nothing rather than less than a segment.
            if free < allowed / 16 || free < mss {
                return 0;
            }
        }
        free = free.min(self.sizing.open.into());
        if self.rcv.scale > 0 {
            return (free.max(0) as u32).div_ceil(step as u32) * step as u32;
        }
        let current = i64::from(self.rcv.window);
        let window = if current <= free - mss || current > free {
            free / mss * mss
        } else if mss == full && free > current + full / 2 {
            free
        } else {
            current
        };
        window.max(0) as u32
    }

    /// Decides the window of a segment about to leave and gives its field. A window once offered is never taken back
    /// (RFC 9293 section 3.8.6), but from who has sent more than there is memory for.
    pub fn advertise_window(&mut self) -> u16 {
        let step = 1u32 << self.rcv.scale;
        let mut window = 0;
        if !std::mem::take(&mut self.sizing.refused) {
            let offered = self.open_window();
            window = self.best_window();
            if window < offered {
                window = offered.div_ceil(step) * step;
            }
        }
        self.rcv.predicts &= window >= step;
        self.rcv.window = window;
        self.rcv.wup = self.rcv.queue.next();
        (window.min(65_535 << self.rcv.scale) >> self.rcv.scale) as u16
    }

    /// A segment with data came: the window opens by two segments, if such segments will fit (tcp_grow_window) beside what is held, in bytes
    /// of memory.
    pub fn open_further(&mut self, arrival: &Arrival, held: usize) {
        let free = self.sizing.payload_of(i64::from(self.sizing.recv_buffer) - held as i64);
        let room = i64::from(self.sizing.clamp).min(free) - i64::from(self.sizing.open);
        if room <= 0 {
            return;
        }
        let memory = i64::from(arrival.footprint.lasting(arrival.len));
        let mut step = 2 * self.sizing.advertised_mss;
        if self.sizing.payload_of(memory) > arrival.len as i64 {
            // As long as the window is small, a bad ratio does little harm (__tcp_grow_window).
            let mut payload = self.sizing.payload_of(memory) >> 1;
            let mut window = self.sizing.payload_of(self.config.recv_buffer_max.into()) >> 1;
            step = 0;
            while i64::from(self.sizing.open) <= window {
                if payload <= arrival.len as i64 {
                    step = 2 * self.rcv.mss;
                    break;
                }
                (payload, window) = (payload >> 1, window >> 1);
            }
        }
        if step > 0 {
            let step = i64::from(step).max(2 * arrival.len as i64);
            self.sizing.open += step.min(room) as u32;
            self.acks.quick |= 1;
        }
    }

    /// Whether the receive buffer takes a segment that begins at `start` (tcp_try_rmem_schedule). If it is overfull, room is made: it grows to what
    /// is held, as far as it may, small pieces are packed, and what came out of order behind `start` is thrown away.
    pub fn make_recv_room(&mut self, start: u64) -> bool {
        let fits = |conn: &Self| conn.rcv.queue.memory() <= conn.sizing.recv_buffer as usize;
        if fits(self) {
            return true;
        }
        self.counters.pruned += 1;
        self.acks.quick = 0;
        let most = self.config.recv_buffer_max;
        if self.sizing.recv_buffer < most && !self.settings.recv_buffer_locked {
            self.sizing.recv_buffer = (self.rcv.queue.memory().min(most as usize)) as u32;
        }
        if fits(self) {
            return true;
        }
        self.sizing.open = self.sizing.clamp.min(2 * self.sizing.advertised_mss);
        self.rcv.queue.pack();
        if fits(self) {
            return true;
        }
        self.rcv.queue.prune(start, self.sizing.recv_buffer as usize);
        fits(self)
    }

    /// A segment in order found no room: the window is closed, and the peer told. Gives whether the segment is dropped; an empty queue takes it.
    pub fn refuse_for_memory(&mut self) -> bool {
        self.sizing.refused = true;
        self.acks.scheduled = true;
        self.ack_now();
        self.events |= Readiness::READABLE;
        self.rcv.queue.ready_bytes() > 0
    }

    /// Whether a reader is woken: there is what it waits for, or no more can come until it reads (tcp_epollin_ready).
    pub fn is_readable(&self) -> bool {
        let ready = self.rcv.queue.ready_bytes();
        let buffer = self.sizing.recv_buffer as usize;
        ready >= self.settings.recv_low_water.max(1) as usize
            || (ready > 0 && (self.rcv.queue.memory() > buffer - buffer / 8 || self.open_window() <= self.rcv.mss))
    }

    /// Measures the round trip from the echo of our own timestamp on a full segment (tcp_rcv_rtt_measure_ts).
    pub fn measure_echo(&mut self, now: SimTime, echo: u32, segment: usize) {
        if echo == self.sizing.last_echo {
            return;
        }
        self.sizing.last_echo = echo;
        let elapsed = self.clock(now).wrapping_sub(echo);
        if segment < self.rcv.mss as usize || elapsed == 0 || elapsed > 1 << 30 {
            return;
        }
        let drained = self.rcv.queue.ready_bytes() == 0;
        self.sizing.measured(SimDuration::from_millis(elapsed.into()), drained);
    }

    /// Measures the round trip by how long the peer takes to fill the window (tcp_rcv_rtt_measure).
    pub fn measure_fill(&mut self, now: SimTime) {
        let next = self.rcv.queue.next();
        if self.sizing.filling_since > SimTime::ZERO {
            if next < self.sizing.filled_at {
                return;
            }
            let sample = now.saturating_since(self.sizing.filling_since).max(SimDuration::from_micros(1));
            self.sizing.measured(sample, false);
        }
        self.sizing.filled_at = next + u64::from(self.rcv.window);
        self.sizing.filling_since = now;
    }

    /// Dynamic right sizing, called for each buffer that the program has read, up to `copied`: the window should hold twice what it read in a
    /// round trip, and more while that grows (tcp_rcv_space_adjust).
    pub fn right_size(&mut self, now: SimTime, copied: u64) {
        let rtt = self.sizing.recv_rtt;
        if rtt.is_zero() || now.saturating_since(self.sizing.round_start) < rtt {
            return;
        }
        // What waits to be read shows that the program, not the window, is the limit. What came at this very moment does not: on a
        // machine packets come one after the other, and a program that reads at once has read the first when the last comes.
        let next = self.rcv.queue.next();
        let had_come = if self.sizing.burst_at == now { self.sizing.burst_start } else { next };
        let waits = had_come.saturating_sub(copied);
        let read = (copied - self.sizing.round_from).saturating_sub(waits);
        if read > u64::from(self.sizing.space) {
            self.grow_recv_buffer(read.min(u32::MAX.into()) as u32);
        }
        self.sizing.round_start = now;
        self.sizing.round_from = copied;
    }

    /// Data in order is about to be taken.
    pub fn note_burst(&mut self, now: SimTime) {
        if self.sizing.burst_at != now {
            (self.sizing.burst_at, self.sizing.burst_start) = (now, self.rcv.queue.next());
        }
    }

    /// So many bytes are read in a round trip (tcp_rcvbuf_grow).
    pub fn grow_recv_buffer(&mut self, read: u32) {
        let last = u64::from(self.sizing.space.max(1));
        self.sizing.space = read;
        if !self.config.recv_autotune || self.settings.recv_buffer_locked {
            return;
        }
        // A round trip late, and the sender may double its rate; what is out of order needs its room, too.
        let read = u64::from(read);
        let mut window = 2 * read;
        window = window.saturating_add(2 * (window * read.saturating_sub(last) / last));
        window = window.saturating_add(self.rcv.queue.early_span()).min(u32::MAX.into());
        let buffer = self.sizing.memory_of(window).min(self.config.recv_buffer_max.into()) as u32;
        if buffer > self.sizing.recv_buffer {
            self.sizing.recv_buffer = buffer;
            self.sizing.clamp = self.sizing.full();
        }
    }
}
